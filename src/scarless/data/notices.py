"""Warnings that point at the user's own line."""

import sys
import warnings


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that called into it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("scarless."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
