"""The report of a fit, as data and as an HTML page."""

from scarless.report.fit.build import model_report
from scarless.report.fit.page import FitReport

__all__ = ["FitReport", "model_report"]
