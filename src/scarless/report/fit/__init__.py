"""The report of one fit: a fitted model and its table -> plain data -> one page to show."""

from scarless.report.fit.build import model_report
from scarless.report.fit.page import FitReport

__all__ = ["FitReport", "model_report"]
