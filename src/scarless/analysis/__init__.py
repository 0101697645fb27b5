"""The analyses of `scarless fit`, `audit`, `predict` and `inspect` as Python functions."""

from typing import TYPE_CHECKING

from scarless.outside.late import late_names

if TYPE_CHECKING:
    from scarless.analysis.answer import Analysis, analyse, analyse_table
    from scarless.analysis.drift import files_drift, table_drift
    from scarless.analysis.files import FileAnalysis, analyse_files, predict_files
    from scarless.analysis.inspection import ColumnSummary, Inspection, inspect_table
    from scarless.analysis.ranking import predict_table
    from scarless.analysis.settings import ColumnRoles, Settings
    from scarless.analysis.worksheet import Worksheet, draw_worksheet

__all__ = [
    "Analysis",
    "ColumnRoles",
    "ColumnSummary",
    "FileAnalysis",
    "Inspection",
    "Settings",
    "Worksheet",
    "analyse",
    "analyse_files",
    "analyse_table",
    "draw_worksheet",
    "files_drift",
    "inspect_table",
    "predict_files",
    "predict_table",
    "table_drift",
]

# `scarless --help` needs the settings only, so the models are imported on first use.
_HOMES = {
    "answer": ("Analysis", "analyse", "analyse_table"),
    "drift": ("files_drift", "table_drift"),
    "files": ("FileAnalysis", "analyse_files", "predict_files"),
    "inspection": ("ColumnSummary", "Inspection", "inspect_table"),
    "ranking": ("predict_table",),
    "settings": ("ColumnRoles", "Settings"),
    "worksheet": ("Worksheet", "draw_worksheet"),
}
_LATER = {name: f"scarless.analysis.{home}" for home, names in _HOMES.items() for name in names}

__getattr__, __dir__ = late_names("scarless.analysis", _LATER)
