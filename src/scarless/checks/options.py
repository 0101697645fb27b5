"""Checks of single parameters (choices, counts, numbers) and of vectors with one number for each row."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from scarless.checks.tables import refuse_invalid_vector
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.outside.notices import warn_user

#: Weights with a larger mean are treated as survey weights, not as counts of rows. By judgement.
MAX_MEAN_COUNT_WEIGHT = 10.0
BY_GROUPS = "pass groups='rows' for robust (sandwich) standard errors, which depend on the number of rows."
BY_MEAN = "divide the weights by their mean, so that they add up to the number of rows."
_MAX_NUMBER = 1e100
_MAX_WHOLE = 2**63 - 1  # larger whole numbers do not fit into 64 bits
_MAX_CHARACTERS_SHOWN = 80  # characters of a value in a message


def shown(value: Any) -> str:
    """Return a text for a value in a message: the value itself if it is short, otherwise its type and size.

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
    """Return a real number as a float, and NaN for anything else, so that comparisons with it are False.

    Booleans are not numbers here, because ``C=True`` is a mistake, not 1.

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
    """Return True or False for a boolean, 0 or 1, or raise.

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
        too_large = ", which is too large for a float. Use np.inf for infinity" * (isinstance(value, int) and value > 1)
        raise ValueError(f"{name} must be a number above 0; got {shown(value)}{too_large}.")
    return number


def check_at_least_zero(value: Any, name: str) -> float:
    """Return a number that is at least 0 and small enough for finite sums, or raise."""
    number = real_number(value)
    if number > _MAX_NUMBER:
        raise ValueError(f"{name} must be at most {_MAX_NUMBER:g}, so that sums stay finite; got {shown(value)}.")
    if not number >= 0:
        raise ValueError(f"{name} must be a number of at least 0; got {shown(value)}.")
    return number


def check_whole(value: Any, name: str, *, at_least: int) -> int:
    """Return a whole number of at least `at_least`, or raise."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}; got {shown(value)}.")
    if value > _MAX_WHOLE:
        raise ValueError(f"{name} must be at most {_MAX_WHOLE:.1e}; got {shown(value)}.")
    return int(value)


def check_jobs(n_jobs: Any) -> None:
    """Raise unless the number of jobs is valid for joblib: None, or a whole number other than 0."""
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and 0 < abs(int(n_jobs)) < 2**31):
        raise ValueError(
            f"n_jobs must be None or a whole number other than 0, such as 2, or -1 for all cores; got {shown(n_jobs)}."
        )


def check_share(value: Any, name: str) -> float:
    """Return a number strictly between 0 and 1, or raise."""
    number = real_number(value)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {shown(value)}.")
    return number


def decision_threshold(decision: Any, class_prior: float) -> float:
    """Return the probability threshold above which a row is predicted positive.

    Examples
    --------
    >>> decision_threshold("balanced", 0.1), decision_threshold((1, 3), 0.1)
    (0.1, 0.25)
    """
    if isinstance(decision, str) and decision in ("accuracy", "balanced"):
        return 0.5 if decision == "accuracy" else float(class_prior)
    costs = list(decision) if isinstance(decision, tuple | list) else []
    if len(costs) != 2:
        raise ValueError(
            "decision must be 'accuracy', 'balanced', or a pair with the costs of a false positive and of a false "
            f"negative, for example (1, 5); got {shown(decision)}."
        )
    false_positive, false_negative = (check_at_least_zero(cost, "each cost of decision") for cost in costs)
    total = false_positive + false_negative
    if not total > 0:
        raise ValueError(f"decision: at least one of the two costs must be above 0; got {shown(decision)}.")
    return false_positive / total


# Outside this range, sums of weights or of their squares would overflow or underflow in float64.
_MIN_LARGEST_WEIGHT, _MAX_LARGEST_WEIGHT = 1e-100, 1e100
LOST_WEIGHT_SHARE = 1e-100  # weights below this share of the largest weight change no digit of any sum


def check_vector(values: ArrayLike, name: str, *, n_rows: int | None = None) -> Vector:
    """Return `values` as a float64 vector, and check its length if `n_rows` is given.

    A column of shape ``(n, 1)`` is flattened; a scalar is repeated if `n_rows` is given.

    Examples
    --------
    >>> check_vector(0.5, "propensity", n_rows=3)
    array([0.5, 0.5, 0.5])
    """
    refuse_invalid_vector(values, name)
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must contain only numbers: {error}") from error
    if vector.ndim == 0 and n_rows is not None:
        if isinstance(values, bool | np.bool_):
            raise ValueError(f"{name} must be a number, or contain one number per row; got {values!r}.")
        vector = np.full(n_rows, float(vector))
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise ValueError(f"{name} must have one value per row; its shape is {vector.shape}.")
    if n_rows is not None and vector.size != n_rows:
        raise ValueError(f"{name} has {vector.size} values for {n_rows} rows; give one value per row.")
    return vector


def check_propensity(propensity: ArrayLike, *, n_rows: int | None = None, name: str = "propensity") -> Vector:
    """Return propensities as float64 in (0, 1]; raise if a value is outside, and name the first.

    Examples
    --------
    >>> check_propensity([0.5, 1.0])
    array([0.5, 1. ])
    >>> check_propensity([0.5, 0.0])
    Traceback (most recent call last):
    ...
    ValueError: propensity must lie in (0, 1]. Invalid values: 1 of 2 (first: propensity[1] = 0). ...
    """
    e = check_vector(propensity, name, n_rows=n_rows)
    bad = np.flatnonzero(~((e > 0) & (e <= 1)))  # catches NaN too
    if bad.size:
        advice = " Correct these values, or drop the rows."
        if (e == 0).any():
            advice = (
                " A propensity of 0, for rows that can never be labelled, is not supported; replace it, for example by "
                f"np.maximum({name}, 0.01)."
            )
        raise ValueError(
            f"{name} must lie in (0, 1]. Invalid values: {bad.size} of {e.size} "
            f"(first: {name}[{bad[0]}] = {e[bad[0]]:g}).{advice}"
        )
    return e


def check_probability(probability: ArrayLike, *, n_rows: int | None = None, name: str = "y_pred") -> Vector:
    """Return probabilities as float64 in [0, 1]; raise if a value is outside, and name the first.

    Examples
    --------
    >>> check_probability([0, 0.25, 1])
    array([0.  , 0.25, 1.  ])
    """
    p = check_vector(probability, name, n_rows=n_rows)
    bad = np.flatnonzero(~((p >= 0) & (p <= 1)))
    if bad.size:
        raise ValueError(
            f"{name} must contain probabilities in [0, 1], not logits or percentages. Invalid values: {bad.size} of "
            f"{p.size} (first: {name}[{bad[0]}] = {p[bad[0]]:g})."
        )
    return p


def check_indicator(values: ArrayLike, name: str, *, n_rows: int | None = None) -> Vector:
    """Return a 0/1 vector from 0/1, -1/+1 or boolean values.

    Examples
    --------
    >>> check_indicator([True, False], "y")
    array([1., 0.])
    >>> check_indicator([-1, 1, 1], "s")
    array([0., 1., 1.])
    """
    vector = check_vector(values, name, n_rows=n_rows)
    found = np.unique(vector)
    if np.isin(found, [0.0, 1.0]).all():
        return vector
    if np.isin(found, [-1.0, 1.0]).all():
        return (vector + 1.0) / 2.0
    some = ", ".join(f"{value:g}" for value in found[:5]) + (", ..." if found.size > 5 else "")
    raise ValueError(f"{name} must be binary, coded 0/1, -1/+1 or boolean; its values are {some}.")


def check_weight(sample_weight: ArrayLike | None, *, n_rows: int) -> Vector:
    """Return non-negative, finite row weights, for uses in which only their ratios matter; ones for None.

    Weights whose sums would overflow or underflow are divided by a power of 2, which changes no digit.

    Examples
    --------
    >>> check_weight(None, n_rows=2)
    array([1., 1.])
    >>> check_weight([2.0**1000, 2.0**999], n_rows=2)
    array([0.5 , 0.25])
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weight = check_vector(sample_weight, "sample_weight", n_rows=n_rows)
    bad = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
    if bad.size:
        refuse_weight(bad.size, weight.size, int(bad[0]), float(weight[bad[0]]))
    if not weight.any():
        raise ValueError("sample_weight is zero for every row. Give at least one row a positive weight.")
    largest = float(weight.max())
    if _MIN_LARGEST_WEIGHT <= largest <= _MAX_LARGEST_WEIGHT:
        return weight
    return np.asarray(np.ldexp(weight, -np.frexp(largest)[1]))


def check_counts(sample_weight: ArrayLike | None, *, n_rows: int, name: str | None = None) -> Vector:
    """Return row weights that are numbers of rows, as in `fit`.

    Penalties and standard errors depend on the scale of the weights. Weights that are too large or too small are
    therefore refused, not rescaled. Weights that are negligible compared with the largest weight become 0. Large
    weights cause a warning, if `name` names the function or classifier whose intervals would be too narrow.

    Examples
    --------
    >>> check_counts([1.0, 5e-324], n_rows=2)
    array([1., 0.])
    """
    weight = check_weight(sample_weight, n_rows=n_rows)
    largest = 1.0 if sample_weight is None else float(np.max(np.asarray(sample_weight, dtype=np.float64)))
    refuse_extreme_counts(largest)
    weight = np.where(weight < LOST_WEIGHT_SHARE * largest, 0.0, weight)
    if name is not None:
        warn_about_heavy_rows(float(np.count_nonzero(weight)), float(weight.sum()), name, BY_MEAN)
    return weight


def warn_about_heavy_rows(n_rows: float, weight: float, name: str, remedy: str = BY_GROUPS) -> None:
    """Warn if large weights make intervals as narrow as the intervals of many more rows."""
    if weight > MAX_MEAN_COUNT_WEIGHT * n_rows:
        warn_user(
            f"{name}: because of their weights, the {n_rows:,.0f} rows count as {weight:,.0f} rows. Standard errors, "
            f"intervals and p-values are those of {weight:,.0f} rows. If the weights are survey weights and not "
            f"counts of rows, {remedy}",
            UserWarning,
        )


def refuse_weight(n_bad: int, n_rows: int, first: int | None, value: float, place: str = "") -> NoReturn:
    """Raise for weights that are negative, infinite or missing."""
    raise ValueError(
        f"sample_weight must be finite and at least 0. Invalid values: {n_bad} of {n_rows} (first: "
        f"sample_weight[{first}] = {value:g}{place}). Correct these weights, or drop the rows."
    )


def refuse_extreme_counts(largest: float) -> None:
    """Raise if sums of weights with this largest value would overflow or underflow."""
    if not _MIN_LARGEST_WEIGHT <= largest <= _MAX_LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight: the largest weight must lie between {_MIN_LARGEST_WEIGHT:g} and {_MAX_LARGEST_WEIGHT:g}, "
            f"so that sums are accurate; got {largest:g}. If only the ratios of the weights matter, divide by the "
            "largest weight: sample_weight / np.max(sample_weight)."
        )


def check_random_stream(random_state: Any) -> np.random.Generator:
    """Return a generator for a seed, ``SeedSequence``, ``Generator``, ``RandomState`` or None.

    A ``RandomState``, which scikit-learn uses, seeds a new generator.

    Examples
    --------
    >>> bool(check_random_stream(7).random() == check_random_stream(7).random())
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    if isinstance(random_state, bool | np.bool_):
        raise ValueError(bad_seed(random_state))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(bad_seed(random_state)) from error


def bad_seed(random_state: Any) -> str:
    """Return the error message for an invalid `random_state`."""
    return (
        "random_state must be None, a whole number of at least 0, a numpy Generator, RandomState or SeedSequence; "
        f"got {random_state!r}."
    )


def check_scored(
    labels: ArrayLike,
    y_pred: ArrayLike,
    *,
    name: str = "s",
    check_predictions: Callable[..., Vector] = check_probability,
) -> tuple[Vector, Vector]:
    """Return labels as 0 and 1, and predictions of the same length; raise a clear error if they seem to be swapped.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Observed labels or true classes, with two values.
    y_pred : array-like of shape (n,)
        Predictions.
    name : str
        Name of the labels in errors.
    check_predictions : callable
        Check of the predictions, called with the predictions and ``name="y_pred"``.

    Examples
    --------
    >>> check_scored([1, 0], [0.9, 0.2])
    (array([1., 0.]), array([0.9, 0.2]))
    >>> check_scored([0.9, 0.2], [1, 0])
    Traceback (most recent call last):
    ...
    ValueError: s must be binary, ...; its values are 0.2, 0.9. Labels come first and predictions second: ...
    """
    values = check_vector(labels, name)
    try:
        s = check_indicator(values, name)
    except ValueError as error:
        if np.isnan(values).any() or not _two_valued(y_pred):
            raise
        raise ValueError(
            f"{error} Labels come first and predictions second: y_pred is binary here, like labels, so the two "
            "arguments may be in the wrong order."
        ) from error
    p = check_predictions(y_pred, name="y_pred")
    return check_vector(s, name, n_rows=p.size), p


def _two_valued(values: ArrayLike) -> bool:
    try:
        check_indicator(values, "y_pred")
    except ValueError:
        return False
    return True
