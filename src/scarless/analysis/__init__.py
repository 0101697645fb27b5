"""From a table to an answer: what `scarless fit`, `predict` and `inspect` do, as Python."""

from scarless.analysis.answer import Analysis, analyse
from scarless.analysis.files import FileAnalysis, analyse_files, predict_files
from scarless.analysis.inspection import ColumnFacts, Inspection, inspect_table
from scarless.analysis.ranking import predict_table
from scarless.analysis.settings import Settings

__all__ = [
    "Analysis",
    "ColumnFacts",
    "FileAnalysis",
    "Inspection",
    "Settings",
    "analyse",
    "analyse_files",
    "inspect_table",
    "predict_files",
    "predict_table",
]
