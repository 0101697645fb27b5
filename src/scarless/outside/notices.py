"""Warnings that point at the user's own line."""

import sys
import warnings


class ClassPriorWarning(UserWarning):
    """The labels say little about the class prior, or class and propensity may have changed places.

    What of a fit can be relied on, and what would help, is in the message.
    """


_BETWEEN = ("scarless.", "sklearn.", "joblib.", "contextlib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into this package, also where scikit-learn stands in between."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
