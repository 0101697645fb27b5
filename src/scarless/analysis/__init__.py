"""From a table to an answer: what `scarless fit`, `predict` and `inspect` do, as Python."""

from scarless.analysis.answer import Analysis, analyse
from scarless.analysis.inspection import ColumnFacts, Inspection, inspect_table
from scarless.analysis.ranking import predict_table
from scarless.analysis.settings import Settings

__all__ = [
    "Analysis",
    "ColumnFacts",
    "Inspection",
    "Settings",
    "analyse",
    "inspect_table",
    "predict_table",
]
