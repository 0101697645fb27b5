"""Reports: a fit, or the records of any experiment -> data -> one HTML page.

An experiment's has tables, figures, and what its story asks and tells; a fit's has its answer, and how far to trust it.
"""

from scarless.report.fit import FitReport, model_report
from scarless.report.page import Report, build_report, render_figure, render_page, render_report
from scarless.report.story import Answer, Chapter, Point, Points, Questions, Story

__all__ = [
    "Answer",
    "Chapter",
    "FitReport",
    "Point",
    "Points",
    "Questions",
    "Report",
    "Story",
    "build_report",
    "model_report",
    "render_figure",
    "render_page",
    "render_report",
]
