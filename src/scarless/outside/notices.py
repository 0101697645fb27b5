"""Warnings that refer to the line of the user's code, and lists of names for sentences."""

import sys
import warnings
from collections.abc import Sequence


class ClassPriorWarning(UserWarning):
    """The labels hardly determine the class prior, or the class model and the propensity model may be swapped.

    The message explains which results are still reliable, and what to do.
    """


_LIBRARY_MODULES = ("scarless.", "sklearn.", "joblib.", "contextlib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called this package, directly or through scikit-learn."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_LIBRARY_MODULES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def listed(words: Sequence[str], most: int | None = None) -> str:
    """Return words joined by commas and "and"; if there are more than `most`, the rest is replaced by its number.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"]), listed(list("abcd"), most=2), listed([])
    ('a, b and c', 'a', 'a, b and 2 more', '')
    """
    shown = list(words) if most is None or len(words) <= most else [*words[:most], f"{len(words) - most} more"]
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


def counted(number: float, one: str, many: str = "") -> str:
    """Return a rounded number with its noun; `many` is the plural, if it is not the singular with an "s".

    Examples
    --------
    >>> counted(1, "row"), counted(1200.4, "row"), counted(2, "row is", "rows are")
    ('1 row', '1,200 rows', '2 rows are')
    """
    shown = f"{number:,.0f}"
    return f"{shown} {one}" if shown == "1" else f"{shown} {many or f'{one}s'}"
