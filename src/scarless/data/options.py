"""Checks of single parameters: choices, counts, numbers."""

from typing import Any

import numpy as np


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return the value if it is one of the choices, or raise."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return str(value)


def check_positive(value: Any, name: str) -> float:
    """Return a number above 0 (infinity allowed), or raise."""
    if not isinstance(value, int | float | np.number) or not value > 0:
        raise ValueError(f"{name} must be a number above 0; got {value!r}.")
    return float(value)


def check_at_least_zero(value: Any, name: str) -> float:
    """Return a finite number of at least 0, or raise."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")
    return float(value)


def check_whole(value: Any, name: str, *, at_least: int) -> int:
    """Return a whole number of at least `at_least`, or raise."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}; got {value!r}.")
    return int(value)


def check_share(value: Any, name: str) -> float:
    """Return a number strictly between 0 and 1, or raise."""
    if not isinstance(value, int | float | np.number) or not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value!r}.")
    return float(value)
