"""HTML reports of a fit or of an experiment.

The report of a fit has its estimates and diagnostics. The report of an experiment has tables, figures, and the
questions and chapters of its `Story`.
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
