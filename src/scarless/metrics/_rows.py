"""Checks and options that all metrics share."""

import math
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.options import check_flag, check_probability, check_scored, real_number, shown
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.risk import Cost, get_cost, times
from scarless.numerics.weighted_scores import Targets, normalised_targets, plain_targets


class Predictions(NamedTuple):
    """Checked predictions, and the cost of each on a positive and on a negative row."""

    p: Vector
    cost_pos: Vector
    cost_neg: Vector


class LabelledPredictions(NamedTuple):
    """Labels or classes of the rows, with the checked predictions and their costs."""

    s: Vector
    p: Vector
    cost_pos: Vector
    cost_neg: Vector


def check_predictions(y_pred: ArrayLike, cost: str | Cost) -> Predictions:
    """Check that predictions are probabilities, and return them with their costs.

    Examples
    --------
    >>> check_predictions([0.25], "absolute").cost_pos
    array([0.75])
    """
    chosen = get_cost(cost)
    p = check_probability(y_pred, name="y_pred")
    if p.size == 0:
        raise ValueError("y_pred has no rows. A risk needs at least one row.")
    return Predictions(p, chosen.positive(p), chosen.negative(p))


def check_labels_and_predictions(
    labels: ArrayLike, y_pred: ArrayLike, cost: str | Cost, *, name: str = "s"
) -> LabelledPredictions:
    """Check labels or classes and predictions, and return them with the costs. Errors call the labels `name`.

    Examples
    --------
    >>> check_labels_and_predictions([1, 0], [0.25, 0.5], "absolute").cost_pos
    array([0.75, 0.5 ])
    """
    s, p = check_scored(labels, y_pred, name=name)
    return LabelledPredictions(s, *check_predictions(p, cost))


def check_fraction(value: Any, name: str) -> float:
    """Check that a value is a number strictly between 0 and 1, and return it.

    Examples
    --------
    >>> check_fraction(0.05, "eta")
    0.05
    """
    number = real_number(value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, e.g. 0.05 or 0.95; got {shown(value)}.")
    return number


def is_number(value: Any) -> bool:
    """Return whether a value is one real number; booleans are not.

    Examples
    --------
    >>> is_number(0.5), is_number("0.5"), is_number(True)
    (True, False, False)
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def weighted_mean(values: Vector, weight: Vector) -> float:
    """Return the weighted mean. Infinite values of weight 0 are ignored; ``inf - inf`` is an error.

    Examples
    --------
    >>> import numpy as np
    >>> weighted_mean(np.array([1.0, 4.0]), np.array([2.0, 1.0]))
    2.0
    """
    summands = times(weight, values)
    if np.isposinf(summands).any() and np.isneginf(summands).any():
        raise ValueError(
            "y_pred contains values of exactly 0 or 1, for which the cost is infinite. Some rows cost inf and others "
            "-inf, so their mean is undefined. Clip the predictions, e.g. np.clip(y_pred, 1e-6, 1 - 1e-6), or use "
            "cost='squared'."
        )
    return float(summands.sum() / weight.sum())


class Weighting(NamedTuple):
    """Options that determine how labels become targets, and the confidence level, as passed by the user."""

    sample_weight: ArrayLike | None
    normalised: bool
    max_weight: float | None
    class_prior: float | None
    level: float = 0.95

    @property
    def cap(self) -> float:
        """The largest weight s/e; infinite without clipping."""
        return math.inf if self.max_weight is None else float(self.max_weight)


def check_options(options: Weighting) -> None:
    """Check the options that all risks and scores share."""
    check_fraction(options.level, "level")
    normalised = check_flag(options.normalised, "normalised")
    if options.max_weight is not None and not (is_number(options.max_weight) and real_number(options.max_weight) >= 1):
        raise ValueError(
            "max_weight (the largest weight s/e) must be a number of at least 1, e.g. 10; got "
            f"{shown(options.max_weight)}."
        )
    if options.class_prior is None:
        return
    if not normalised:
        raise ValueError(
            "class_prior is used only with normalised=True. Pass normalised=True too, or leave class_prior out."
        )
    if not is_number(options.class_prior) or not 0.0 < options.class_prior <= 1.0:
        raise ValueError(f"class_prior must be a number in (0, 1], e.g. 0.3; got {shown(options.class_prior)}.")


def targets(share: Vector, weight: Vector, options: Weighting) -> Targets:
    """Return the targets for ``s/e`` of the rows with a positive weight."""
    if not options.normalised:
        return plain_targets(share, options.cap)
    if share.any():
        return normalised_targets(share, weight, options.cap, options.class_prior)
    if options.class_prior is None:
        return plain_targets(share)
    raise ValueError(
        "normalised=True with a class_prior needs at least one labelled row with a positive weight, but there is none. "
        "Leave class_prior out, or score more rows."
    )
