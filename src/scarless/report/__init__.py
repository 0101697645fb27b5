"""Reports: the records of an experiment -> tables, figures, answers -> one HTML page."""

from scarless.report.build import Report, build_report
from scarless.report.render import render_figure, render_page, render_report

__all__ = ["Report", "build_report", "render_figure", "render_page", "render_report"]
