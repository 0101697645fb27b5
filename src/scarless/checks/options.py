"""Checks of single parameters: choices, counts, numbers."""

from typing import Any

import numpy as np

_LARGEST_NUMBER = 1e100
_MAX_CHARACTERS_SHOWN = 80  # characters of a value in a message


def shown(value: Any) -> str:
    """Return a value as a message shows it: in full where that is short.

    Examples
    --------
    >>> shown("a"), shown(10**400), shown(list(range(100)))
    ("'a'", 'an integer of 1329 bits', 'a list of length 100')
    """
    if isinstance(value, int) and value.bit_length() > 1023:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    if len(text) <= _MAX_CHARACTERS_SHOWN and "\n" not in text:
        return text
    size = ""
    if hasattr(value, "shape"):
        size = f" of shape {value.shape}"
    elif hasattr(type(value), "__len__"):
        size = f" of length {len(value)}"
    return f"a {type(value).__name__}{size}"


def real_number(value: Any) -> float:
    """Return a real number as a float, and NaN for anything else, so that no comparison with it holds.

    Truth values are no numbers: whoever writes ``C=True`` means something else than 1.

    Examples
    --------
    >>> real_number(2), real_number("2"), real_number(10**400), real_number(True)
    (2.0, nan, nan, nan)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.nan


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return the value if it is one of the choices, or raise."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {shown(value)}.")
    return str(value)


def check_flag(value: Any, name: str) -> bool:
    """Return a truth value, also one of NumPy's, 0 or 1; or raise.

    Examples
    --------
    >>> check_flag(np.True_, "normalised"), check_flag(0, "normalised")
    (True, False)
    """
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False; got {shown(value)}.")
    return bool(value)


def check_positive(value: Any, name: str) -> float:
    """Return a number above 0 (infinity allowed), or raise."""
    number = real_number(value)
    if not number > 0:
        too_large = ", too large for a float: np.inf is beyond all numbers" * (isinstance(value, int) and value > 1)
        raise ValueError(f"{name} must be a number above 0; got {shown(value)}{too_large}.")
    return number


def check_at_least_zero(value: Any, name: str) -> float:
    """Return a number of at least 0, and such that sums of it stay finite, or raise."""
    number = real_number(value)
    if number > _LARGEST_NUMBER:
        raise ValueError(f"{name} must be at most {_LARGEST_NUMBER:g}, for sums to stay finite; got {shown(value)}.")
    if not number >= 0:
        raise ValueError(f"{name} must be a number of at least 0; got {shown(value)}.")
    return number


def check_whole(value: Any, name: str, *, at_least: int) -> int:
    """Return a whole number of at least `at_least`, or raise."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}; got {shown(value)}.")
    return int(value)


def check_jobs(n_jobs: Any) -> None:
    """Raise unless a number of jobs is one that joblib takes: None, or a whole number other than 0."""
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and 0 < abs(int(n_jobs)) < 2**31):
        raise ValueError(f"n_jobs must be None or a whole number, such as 2, or -1 for all cores; got {shown(n_jobs)}.")


def check_share(value: Any, name: str) -> float:
    """Return a number strictly between 0 and 1, or raise."""
    number = real_number(value)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {shown(value)}.")
    return number


def cut_of(decision: Any, class_prior: float) -> float:
    """Return the probability above which a row is called positive.

    Examples
    --------
    >>> cut_of("balanced", 0.1), cut_of((1, 3), 0.1)
    (0.1, 0.25)
    """
    if isinstance(decision, str) and decision in ("accuracy", "balanced"):
        return 0.5 if decision == "accuracy" else float(class_prior)
    costs = list(decision) if isinstance(decision, tuple | list) else []
    if len(costs) != 2:
        raise ValueError(
            "decision must be 'accuracy', 'balanced', or the costs of a false positive and of a false negative, for "
            f"example (1, 5); got {shown(decision)}."
        )
    false_positive, false_negative = (check_at_least_zero(cost, "each cost of decision") for cost in costs)
    total = false_positive + false_negative
    if not total > 0:
        raise ValueError(f"decision: one of the two costs must be above 0; got {shown(decision)}.")
    return false_positive / total
