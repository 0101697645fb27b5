r"""Intervals for scores of decisions that hold with few labels: accuracy, precision, recall, F1.

Few labels show too little of their own variance: where all labelled rows are decided alike, recall seems to have none.
So every value of the score is asked in turn whether the labels speak against it, with the variance that they have *if
that value is true*. With :math:`N_1` and :math:`N_0` the sums of :math:`w t` over rows decided positive and negative,
and :math:`U = \alpha N_1 - \beta N_0 - g_1 W_1 - g_0 W_0` the score's equation (0 on average at the true value), the
interval holds the values with

.. math:: U^2 \le z^2 V, \qquad V = \alpha^2 B_1 n_1 + \beta^2 B_0 n_0 - 2\alpha g_1 C_1 n_1 + 2\beta g_0 C_0 n_0
          + g_1^2 \sum_{d=1} w^2 + g_0^2 \sum_{d=0} w^2

where :math:`B` and :math:`C` are means of :math:`w t` and of :math:`w` over positives, and :math:`n_1, n_0` the
likeliest sums that fulfil the equation, :math:`N/B` being taken as Poisson counts. At the estimate :math:`n = N`, and
:math:`V` is the infinitesimal jackknife's variance: with many labels the interval is the usual one. With :math:`e = 1`
and equal weights it is Wilson's (1927, JASA 22), but for F1. The idea is that of Miettinen and Nurminen (1985),
"Comparative analysis of two rates", Statistics in Medicine 4.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Vector
from scarless.numerics.interval import Interval

HALVINGS = 60  # of a step that is at most twice as long as the interval


class Equation(NamedTuple):
    r"""What a score says of shares of rows: :math:`a\pi_1 - b\pi_0 - mD - k = 0`.

    Shares of positives that are decided positive, of positives that are not, and of rows decided positive.
    """

    found: float
    missed: float
    decided: float
    constant: float


class Side(NamedTuple):
    """Sums over rows that are decided alike."""

    weight: float  # sum of w
    squares: float  # sum of w^2
    positives: float  # N
    inflation: float  # B
    mean_weight: float  # C


class Decided(NamedTuple):
    """Both sides of a decision, and the largest target that a row can have."""

    positive: Side
    negative: Side
    largest: float

    @property
    def weight(self) -> float:
        """Sum of all weights."""
        return self.positive.weight + self.negative.weight

    @property
    def positives(self) -> float:
        """Sum of all targets times weights."""
        return self.positive.positives + self.negative.positives


class _Test(NamedTuple):
    """Coefficients of U at one value of the score: alpha, beta, g_1, g_0."""

    found: float
    missed: float
    positive: float
    negative: float


def accuracy_equation(value: float) -> Equation:
    r"""Return :math:`\pi_1 - \pi_0 + 1 - D = \theta`."""
    return Equation(1.0, 1.0, 1.0, value - 1.0)


def precision_equation(value: float) -> Equation:
    r"""Return :math:`\pi_1 = \theta D`."""
    return Equation(1.0, 0.0, value, 0.0)


def recall_equation(value: float) -> Equation:
    r"""Return :math:`\pi_1 = \theta(\pi_1 + \pi_0)`."""
    return Equation(1.0 - value, value, 0.0, 0.0)


def f1_equation(value: float) -> Equation:
    r"""Return :math:`2\pi_1 = \theta(\pi_1 + \pi_0 + D)`."""
    return Equation(2.0 - value, value, value, 0.0)


def decided_rows(decision: Vector, s: Vector, e: Vector, weight: Vector, max_weight: float = math.inf) -> Decided:
    r"""Sum up both sides of a decision, for targets :math:`t = \min(s/e, M)`.

    Few labels say little of how :math:`1/e` varies over positives, and they are those of large :math:`e`. So two more
    labels count in :math:`B` and :math:`C`: what a label is on average if all rows of that side are positive alike.

    Examples
    --------
    >>> sides = decided_rows(np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]), np.full(3, 0.5), np.ones(3))
    >>> sides.positive.positives, sides.positive.inflation
    (2.0, 2.0)
    """
    t = np.minimum(1.0 / e, max_weight)
    return Decided(_side(decision == 1, s, e, t, weight), _side(decision == 0, s, e, t, weight), float(t.max()))


def _side(rows: NDArray[np.bool_], s: Vector, e: Vector, t: Vector, weight: Vector) -> Side:
    seen = rows if rows.any() else ~rows  # where no row is decided so, the others stand in
    labels = s[seen] + 2.0 * e[seen] / e[seen].sum()
    w = weight[seen]
    target = w * t[seen]
    total = (labels * target).sum()
    return Side(
        weight=float(weight[rows].sum()),
        squares=float((weight[rows] ** 2).sum()),
        positives=float((weight * s * t)[rows].sum()),
        inflation=float((labels * target**2).sum() / total),
        mean_weight=float((labels * w * target).sum() / total),
    )


def proportion_interval(
    equation: Callable[[float], Equation], value: float, rows: Decided, z: float, class_prior: float | None = None
) -> Interval:
    """Return the values of a score that the labels do not speak against; NaN where the sums are not finite.

    With a class prior the targets are scaled to add up to it, and only the ratio of both sides' positives is random.

    Examples
    --------
    >>> sides = decided_rows(np.ones(10), np.repeat([1.0, 0.0], 5), np.ones(10), np.ones(10))
    >>> low, high = proportion_interval(precision_equation, 0.5, sides, z=1.96)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    """
    inflations = (rows.positive.inflation, rows.negative.inflation)
    if not all(0.0 < b < math.inf for b in inflations) or not math.isfinite(rows.positives):
        return Interval(math.nan, math.nan)

    def excess(at: float) -> float:
        asked = equation(at)
        if class_prior is None:
            return _excess(_plain_test(asked), rows, z)
        return _prior_excess(asked, rows, z, class_prior)

    farthest = rows.largest if class_prior is None else rows.largest * class_prior * rows.weight / rows.positives
    return Interval(_end(excess, value, -farthest - 1.0), _end(excess, value, farthest + 1.0))


def _plain_test(asked: Equation) -> _Test:
    return _Test(asked.found, asked.missed, asked.decided + asked.constant, asked.constant)


def _prior_excess(asked: Equation, rows: Decided, z: float, prior: float) -> float:
    """Return U^2 - z^2 V of what is asked of recall, given the share of positives.

    The share of decided rows varies with it. So a value may ask for a recall above 1 or below 0 and still be right:
    such a recall counts in U as it is, and in V as the nearest that there can be.
    """
    decided = rows.positive.weight / rows.weight
    scale = (asked.found + asked.missed) * prior
    recall = (asked.missed * prior + asked.decided * decided + asked.constant) / scale
    slope = asked.decided * rows.positives / (scale * rows.weight)
    possible = min(max(recall, 0.0), 1.0)
    test = _Test(1.0 - possible, possible, slope * (1.0 - decided), -slope * decided)
    inside = 0.0 < possible < 1.0
    sums = _likeliest(test, rows, 0.0) if inside else (possible * rows.positives, (1.0 - possible) * rows.positives)
    u = rows.positive.positives - recall * rows.positives
    return u * u - z * z * _variance(test, rows, *sums)


def _excess(test: _Test, rows: Decided, z: float) -> float:
    """Return U^2 - z^2 V, which is at most 0 inside of the interval; infinity where the value cannot be."""
    one, zero = rows.positive, rows.negative
    constant = test.positive * one.weight + test.negative * zero.weight
    if test.found < 0.0 or test.missed < 0.0 or (test.missed == 0.0 and constant < 0.0):
        return math.inf  # positives cannot be fewer than none
    u = test.found * one.positives - test.missed * zero.positives - constant
    return u * u - z * z * _variance(test, rows, *_likeliest(test, rows, constant))


def _variance(test: _Test, rows: Decided, n1: float, n0: float) -> float:
    """Return V, with `n1` and `n0` positives on both sides."""
    one, zero = rows.positive, rows.negative
    return (
        test.found * n1 * (test.found * one.inflation - 2.0 * test.positive * one.mean_weight)
        + test.missed * n0 * (test.missed * zero.inflation + 2.0 * test.negative * zero.mean_weight)
        + test.positive**2 * one.squares
        + test.negative**2 * zero.squares
    )


def _likeliest(test: _Test, rows: Decided, constant: float) -> tuple[float, float]:
    r"""Maximise :math:`\sum (N/B)\log n - n/B` over both sides, where :math:`\alpha n_1 = \beta n_0 + \gamma`."""
    one, zero = rows.positive, rows.negative
    if test.found == 0.0:
        return 0.0, 0.0  # a recall of 1: nothing is missed, and what is found does not matter
    if test.missed == 0.0:
        return constant / test.found, 0.0
    found, missed = one.positives / one.inflation, zero.positives / zero.inflation
    rate = test.missed / (test.found * one.inflation) + 1.0 / zero.inflation
    a, b = rate * test.missed, rate * constant - (found + missed) * test.missed
    root = math.sqrt(max(b * b + 4.0 * a * missed * constant, 0.0))
    n0 = (root - b) / (2.0 * a) if b <= 0.0 else 2.0 * missed * constant / (root + b)
    return max(test.missed * n0 + constant, 0.0) / test.found, n0


def _end(excess: Callable[[float], float], inside: float, limit: float) -> float:
    """Return where the excess, at most 0 at `inside`, becomes positive on the way to `limit`."""
    step = math.copysign(2.0**-10, limit)
    while excess(inside + step) <= 0.0:
        inside, step = inside + step, 2.0 * step
        if (inside - limit) * step > 0.0:
            return limit
    for _ in range(HALVINGS):
        step *= 0.5
        if excess(inside + step) <= 0.0:
            inside += step
    return inside
