"""What users are told: warnings that point at their own line, and names in a sentence."""

import sys
import warnings
from collections.abc import Sequence


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


def listed(words: Sequence[str], most: int | None = None) -> str:
    """Return words as a sentence enumerates them: by commas and a last "and"; the end of a long list is counted.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"]), listed(list("abcd"), most=2), listed([])
    ('a, b and c', 'a', 'a, b and 2 more', '')
    """
    shown = list(words) if most is None or len(words) <= most else [*words[:most], f"{len(words) - most} more"]
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)
