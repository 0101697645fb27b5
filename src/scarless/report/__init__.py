"""HTML reports of a fit or of an experiment.

The report of a fit has its estimates and diagnostics. The report of an experiment has tables, figures, and the
questions and chapters of its `Story`.
"""

from scarless.report.anchors import PublishedNumber, read_anchors
from scarless.report.chapters import Chapter, Point, Points
from scarless.report.fit import FitReport, model_report
from scarless.report.page import Report, build_report, render_figure, render_page, render_report
from scarless.report.story import Answer, Questions, Story

__all__ = [
    "Answer",
    "Chapter",
    "FitReport",
    "Point",
    "Points",
    "PublishedNumber",
    "Questions",
    "Report",
    "Story",
    "build_report",
    "model_report",
    "read_anchors",
    "render_figure",
    "render_page",
    "render_report",
]
