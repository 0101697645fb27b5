"""Reports: the records of any experiment -> tables, figures, and what its story asks and tells -> one HTML page."""

from scarless.report.build import Report, build_report
from scarless.report.render import render_figure, render_page, render_report
from scarless.report.story import Answer, Chapter, Point, Points, Questions, Story

__all__ = [
    "Answer",
    "Chapter",
    "Point",
    "Points",
    "Questions",
    "Report",
    "Story",
    "build_report",
    "render_figure",
    "render_page",
    "render_report",
]
