r"""Sharp bounds if the propensity is only known to be between two functions.

The data identify :math:`P(x) = \Pr(s=1|x) = f(x)\,e(x)` and nothing else about the class. If
:math:`l(x) \le e(x) \le u(x)`, the class probability satisfies

.. math:: f(x) \in [P(x)/u(x),\ \min(1, P(x)/l(x))],

and every value in this interval is possible. The rows vary independently, so the possible `f` of a sample form a box:
one interval for each row. The functions below return the smallest and the largest value of a quantity over such a box,
with row weights `w`. If a quantity is undefined in a part of the box, such as the recall without any positive, the
bounds are those over the rest of the box. They are NaN if the quantity is undefined in the whole box.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Vector
from scarless.numerics.risk import times
from scarless.numerics.uncertainty import Interval

_MIN_SQUARABLE = 1e-150  # The product of two such numbers does not underflow.


class Box(NamedTuple):
    """An interval per row."""

    low: Vector
    high: Vector


def propensities_within_odds(P: Vector, e: Vector, gamma: float) -> Box:
    r"""Return the propensities whose odds are within a factor `gamma` of those of `e`, and that are at least `P`.

    .. math:: \frac1\Gamma \le \frac{e'/(1-e')}{e/(1-e)} \le \Gamma \quad\text{and}\quad e' \ge P

    The second condition is not an assumption: :math:`e' < P` would imply :math:`f > 1`. A propensity of 1 has infinite
    odds and does not change. ``gamma = inf`` gives the limit. Tan, "A distributional approach for causal inference
    using propensity scores", JASA 101 (2006), has this model for treatments.

    Examples
    --------
    >>> propensities_within_odds(np.array([0.1, 0.4]), np.array([0.5, 0.5]), 3.0)
    Box(low=array([0.25, 0.4 ]), high=array([0.75, 0.75]))
    """
    stretched = e + times(1.0 - e, np.asarray(gamma))
    return Box(np.maximum(e / stretched, P), e / (e + (1.0 - e) / gamma))


def class_probability_within_odds(f: Vector, e: Vector, gamma: float) -> Box:
    r"""Return the class probabilities that are possible with `propensities_within_odds`.

    .. math:: f\,\bigl(e + (1-e)/\Gamma\bigr) \ \le\ f' \ \le\ \min\bigl(1,\ f\,(e + \Gamma(1-e))\bigr)

    These are :math:`P/u` and :math:`P/l`, computed without a division. The interval is `f` at ``gamma = 1``, and its
    limit for infinite `gamma` is :math:`[P, 1]`. Rows with :math:`e = 1` or :math:`f = 0` do not change. The intervals
    grow with `gamma`, also in floating point.

    Examples
    --------
    >>> class_probability_within_odds(np.array([0.2, 0.8]), np.array([0.5, 0.5]), 2.0)
    Box(low=array([0.15, 0.6 ]), high=array([0.3, 1. ]))
    """
    stretched = e + times(1.0 - e, np.asarray(gamma))
    return Box(f * (e + (1.0 - e) / gamma), np.minimum(times(f, stretched), 1.0))


def class_probability_box(P: Vector, l: Vector, u: Vector) -> Box:  # noqa: E741
    r"""Return :math:`[P/u, \min(1, P/l)]`, for :math:`l \le u` and :math:`P \le u`.

    With ``l = 0`` the row may never be labelled, so `f` can be as large as 1.

    Examples
    --------
    >>> class_probability_box(np.array([0.2, 0.0]), np.array([0.25, 0.0]), np.array([0.5, 1.0]))
    Box(low=array([0.4, 0. ]), high=array([0.8, 1. ]))
    """
    low = np.divide(P, u, out=np.zeros_like(P), where=u > 0)
    return Box(np.minimum(low, 1.0), np.divide(P, l, out=np.ones_like(P), where=l > P))


def posterior_box(P: Vector, s: Vector, f: Box) -> Box:
    r"""Return the bounds on the posterior :math:`\Pr(y=1|x,s)`.

    It is 1 for labelled rows, and :math:`f(1-e)/(1-fe) = (f - P)/(1 - P)`, which increases with `f`, for unlabelled
    rows. An unlabelled row with :math:`P = 1` is impossible under the model. It gets 1, as in
    `scarless.numerics.likelihood.posterior`.

    Examples
    --------
    >>> posterior_box(np.array([0.2, 0.2]), np.array([1.0, 0.0]), Box(np.array([0.4, 0.4]), np.array([0.8, 0.8])))
    Box(low=array([1.  , 0.25]), high=array([1.  , 0.75]))
    """
    unlabelled = (s == 0) & (P < 1)

    def shifted(value: Vector) -> Vector:
        return np.divide(np.maximum(value - P, 0.0), 1.0 - P, out=np.ones_like(P), where=unlabelled)

    return Box(shifted(f.low), shifted(f.high))


def posterior_within_odds(q: Vector, moves: NDArray[np.bool_], gamma: float) -> Box:
    r"""Return the posteriors that are possible with `propensities_within_odds`: :math:`[q/\Gamma, \min(1, \Gamma q)]`.

    For an unlabelled row, :math:`f' - P` is :math:`f(1-e)/\Gamma` at the lower limit of `class_probability_within_odds`
    and :math:`\Gamma f(1-e)` at the upper limit, and :math:`q = f(1-e)/(1-P)`. `moves` is False for rows whose
    posterior does not change: labelled rows, and rows with a propensity of 1.

    Examples
    --------
    >>> posterior_within_odds(np.array([1.0, 0.4, 0.6]), np.array([False, True, True]), 2.0)
    Box(low=array([1. , 0.2, 0.3]), high=array([1. , 0.8, 1. ]))
    """
    high = np.minimum(times(q, np.asarray(gamma)), 1.0)
    return Box(np.where(moves, q / gamma, q), np.where(moves, high, q))


def gamma_across(f: Vector, e: Vector, threshold: Vector) -> Vector:
    r"""Return the smallest factor `gamma` at which a class probability can be on the other side of a threshold `t`.

    .. math:: \frac{f(1-e)}{t - fe} \text{ if } f > t > fe, \qquad \frac{t/f - e}{1-e} \text{ if } f \le t < 1.

    These solve :math:`f(e + (1-e)/\Gamma) = t` and :math:`f(e + \Gamma(1-e)) = t`. The result is infinite if there is
    no such factor.

    Examples
    --------
    >>> gamma_across(np.array([0.6, 0.2, 0.9]), np.array([0.5, 0.5, 0.8]), np.array([0.5, 0.5, 0.5]))
    array([1.5, 4. , inf])
    """
    above = f > threshold
    free, never = 1.0 - e, np.full(f.shape, np.inf)
    down = np.divide(f * free, threshold - f * e, out=never.copy(), where=above & (threshold > f * e))
    movable = ~above & (threshold < 1.0) & (f * free > 0.0)
    with np.errstate(over="ignore"):  # A factor that overflows counts as infinite.
        up = np.divide(threshold - f * e, f * free, out=never, where=movable)
    return np.maximum(np.where(above, down, up), 1.0)


def mean_bounds(box: Box, w: Vector) -> Interval:
    """Return the bounds on the weighted mean, for example on the class prior.

    Examples
    --------
    >>> mean_bounds(Box(np.array([0.1, 0.3]), np.array([0.5, 0.5])), np.ones(2))
    Interval(low=0.2, high=0.5)
    """
    total = w.sum()
    return Interval(float(w @ box.low / total), float(w @ box.high / total))


def label_frequency_bounds(box: Box, w: Vector, labelled: float) -> Interval:
    r"""Return the bounds on :math:`c = \Pr(s=1) / \Pr(y=1)`; `labelled` is the weight of labelled rows.

    Examples
    --------
    >>> label_frequency_bounds(Box(np.array([0.25, 0.25]), np.array([0.5, 0.75])), np.ones(2), 0.25)
    Interval(low=0.2, high=0.5)
    """
    min_positives, max_positives = float(w @ box.low), float(w @ box.high)
    if labelled == 0.0 or max_positives == 0.0:
        return Interval(0.0, 0.0) if max_positives > 0.0 else Interval(np.nan, np.nan)
    return Interval(min(labelled / max_positives, 1.0), min(labelled / min_positives, 1.0))


def precision_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on the precision :math:`\sum w d f / \sum w d` for decisions `d` of 0 and 1.

    Examples
    --------
    >>> precision_bounds(Box(np.array([0.1, 0.6]), np.array([0.5, 0.8])), np.array([0.0, 1.0]), np.ones(2))
    Interval(low=0.6, high=0.8)
    """
    decided = w * d
    return mean_bounds(box, decided) if decided.any() else Interval(np.nan, np.nan)


def accuracy_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on the accuracy :math:`\sum w (d f + (1-d)(1-f)) / \sum w`.

    Examples
    --------
    >>> accuracy_bounds(Box(np.array([0.0, 0.5]), np.array([0.5, 1.0])), np.array([0.0, 1.0]), np.ones(2))
    Interval(low=0.5, high=1.0)
    """
    positive = d == 1
    right = Box(np.where(positive, box.low, 1.0 - box.high), np.where(positive, box.high, 1.0 - box.low))
    return mean_bounds(right, w)


def recall_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on the recall :math:`\sum w d f / \sum w f`.

    With `A` positives decided positive and `B` other positives, recall is :math:`A/(A+B)`. It increases with `A` and
    decreases with `B`.

    Examples
    --------
    >>> recall_bounds(Box(np.array([0.2, 0.6]), np.array([0.4, 0.8])), np.array([0.0, 1.0]), np.ones(2))
    Interval(low=0.6, high=0.8)
    """
    found, missed = _positives_by_decision(box, d, w)
    if missed.high == 0.0:  # No positive can be missed.
        return Interval(1.0, 1.0) if found.high > 0.0 else Interval(np.nan, np.nan)
    high = found.high / (found.high + missed.low) if found.high > 0.0 else 0.0
    return Interval(found.low / (found.low + missed.high), high)


def f1_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on the F1 score :math:`2 \sum w d f / (\sum w d + \sum w f)`, which is monotone like recall.

    Examples
    --------
    >>> f1_bounds(Box(np.array([0.2, 0.6]), np.array([0.4, 0.8])), np.array([0.0, 1.0]), np.ones(2))
    Interval(low=0.6, high=0.8)
    """
    found, missed = _positives_by_decision(box, d, w)
    decided = float(w @ d)
    if decided == 0.0:
        return Interval(0.0, 0.0) if missed.high > 0.0 else Interval(np.nan, np.nan)
    return Interval(
        2.0 * found.low / (decided + found.low + missed.high), 2.0 * found.high / (decided + found.high + missed.low)
    )


def _positives_by_decision(box: Box, d: Vector, w: Vector) -> tuple[Interval, Interval]:
    """Return the bounds on the positives among rows decided positive, and among rows decided negative."""
    yes, no = w * d, w * (1.0 - d)
    return (
        Interval(float(yes @ box.low), float(yes @ box.high)),
        Interval(float(no @ box.low), float(no @ box.high)),
    )


def rank_bounds(box: Box) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    r"""Return the best and the worst possible rank of each row, 1 for the largest value.

    The rank is one plus the number of rows with a larger value. It is best if the row is at its upper limit and all
    other rows are at their lower limits, and worst in the opposite case.

    Examples
    --------
    >>> rank_bounds(Box(np.array([0.7, 0.3, 0.1]), np.array([0.9, 0.5, 0.4])))
    (array([1, 2, 2]), array([1, 3, 3]))
    """
    n = box.low.size
    best = n - np.searchsorted(np.sort(box.low), box.high, side="right")
    worst = n - np.searchsorted(np.sort(box.high), box.low, side="right")
    return best + 1, worst + 1 - (box.high > box.low)  # A row is not above itself.


def roc_auc_bounds(order: NDArray[np.intp], box: Box, w: Vector) -> Interval:
    r"""Return the bounds on the area under the ROC curve of fixed scores, in :math:`O(n)` for sorted rows.

    `order` is the rank of each score among the distinct scores, from 0: the inverse that ``np.unique`` returns. With
    :math:`F = \sum w f`, :math:`W = \sum w`, and :math:`k_{ij}` 1 if row `i` has a higher score than row `j` and 1/2 if
    the scores are equal,

    .. math:: \mathrm{AUC} = \frac{\sum_{ij} w_i w_j f_i (1-f_j) k_{ij}}{F (W - F)}
              = \frac{\sum_i w_i r_i f_i - F^2/2}{F (W - F)}, \qquad r_i = \sum_j w_j k_{ij},

    because :math:`k_{ij} + k_{ji} = 1`. This is the probability that a random positive has a higher score than a random
    negative; ties count half. (Both can be parts of the same row, which counts as a tie.)

    For a given `F` the numerator is linear in `f`. At the maximum, rows above some threshold of the score are therefore
    at their upper limits and rows below it at their lower limits. As the threshold decreases, one group of equal scores
    after the other goes from its lower to its upper limit. Within a group, the area is a ratio of two quadratics in the
    number `x` of its positives. The numerator of its derivative is a quadratic, because the cubic terms cancel. The
    maximum is therefore at a limit or at a root. It can be inside a group: with `f` near 1/2, the positives and
    negatives of a badly ranked row tie, which can give more than either limit. The minimum is 1 minus the maximum for
    reversed scores.

    If the sum of all positives (or negatives) can approach 0, the bounds include the limits of the area. Probabilities
    below 1e-150 count as 0.

    Examples
    --------
    >>> roc_auc_bounds(np.array([0, 1]), Box(np.array([0.5, 0.5]), np.array([0.5, 0.5])), np.ones(2))
    Interval(low=0.5, high=0.5)
    >>> low, high = roc_auc_bounds(np.array([0, 1]), Box(np.array([0.2, 0.4]), np.array([0.4, 0.8])), np.ones(2))
    >>> round(low, 3), round(high, 3)
    (0.5, 0.8)
    """
    share = w / w.sum()
    box = Box(*(np.where(end < _MIN_SQUARABLE, 0.0, end) for end in box))
    # Positives and negatives of each group of equal scores, at the lower and at the upper limit.
    masses: list[Vector] = [
        np.bincount(order, share * end).astype(np.float64) for end in (box.low, 1.0 - box.low, box.high, 1.0 - box.high)
    ]
    highest = _largest_auc(*(mass[::-1] for mass in masses))
    lowest = 1.0 - _largest_auc(*masses)
    return Interval(max(lowest, 0.0), min(highest, 1.0))


class _Path(NamedTuple):
    """For each group of equal scores: sums over groups above it, at upper limits, and below it, at lower limits."""

    positives_above: Vector
    negatives_above: Vector
    positives_below: Vector
    negatives_below: Vector
    won: Vector  # weight of pairs outside the group in which the positive has the higher score

    def auc(self, x: Vector, y: Vector) -> Vector:
        """Return the area if the group has `x` positives and `y` negatives; NaN if it is undefined."""
        won = self.won + x * self.negatives_below + self.positives_above * y + 0.5 * x * y
        return _ratio(won, (self._positives() + x) * (self._negatives() + y))

    def limits(self, size: Vector) -> tuple[Vector, Vector]:
        """Return the limits of the area as the positives, or the negatives, go to 0 if only this group has any."""
        few_positives = np.where(self._positives() == 0.0, self.negatives_below + 0.5 * size, np.nan)
        few_negatives = np.where(self._negatives() == 0.0, self.positives_above + 0.5 * size, np.nan)
        return few_positives, few_negatives

    def stationary(self, size: Vector) -> tuple[Vector, Vector]:
        """Return the sums of positives of the group at which the derivative of the area is 0; NaN if there are none."""
        p, m = self._positives(), self._negatives() + size
        n0 = self.won + self.positives_above * size  # The numerator of the area is n0 + n1 x - x^2 / 2.
        n1 = self.negatives_below - self.positives_above + 0.5 * size
        a, b, c = n1 - 0.5 * (m - p), 2.0 * n0 - p * m, n1 * p * m - n0 * (m - p)
        gap = b * b - 4.0 * a * c
        root = np.sqrt(np.where(gap > 0.0, gap, np.nan))
        half = -0.5 * (b + np.copysign(root, b))
        return _ratio(half, a), _ratio(c, half)

    def _positives(self) -> Vector:
        return self.positives_above + self.positives_below

    def _negatives(self) -> Vector:
        return self.negatives_above + self.negatives_below


def _largest_auc(pos_low: Vector, neg_low: Vector, pos_high: Vector, neg_high: Vector) -> float:
    """Return the supremum of the area for groups in decreasing order of score, whose shares of all rows sum to 1.

    All terms of a sum have the same sign, so no digits are lost if nearly all rows have one class.
    """
    above1, above0 = _before(pos_high), _before(neg_high)
    below1, below0 = _after(pos_low), _after(neg_low)
    won = _before(pos_high * 0.5 * neg_high + above1 * neg_high) + _after(pos_low * (0.5 * neg_low + below0))
    path = _Path(above1, above0, below1, below0, won + above1 * below0)
    size = pos_low + neg_low
    candidates = [path.auc(pos_low, neg_low), path.auc(pos_high, neg_high)]
    moves = pos_high > pos_low
    few_positives, few_negatives = path.limits(size)
    candidates += [
        np.where(moves & (pos_low == 0.0), few_positives, np.nan),
        np.where(moves & (neg_high == 0.0), few_negatives, np.nan),
    ]
    for root in path.stationary(size):
        inside = (root > pos_low) & (root < pos_high)
        x = np.where(inside, root, pos_low)
        candidates.append(path.auc(x, np.where(inside, size - root, neg_low)))
    return float(np.fmax.reduce(np.concatenate(candidates)))  # `fmax` ignores NaN unless all values are NaN.


def _before(values: Vector) -> Vector:
    """Return the sum of the values before each position."""
    return np.concatenate([[0.0], np.cumsum(values)[:-1]])


def _after(values: Vector) -> Vector:
    """Return the sum of the values after each position."""
    return _before(values[::-1])[::-1]


def _ratio(above: Vector, below: Vector) -> Vector:
    return np.divide(above, below, out=np.full(below.shape, np.nan), where=below != 0.0)
