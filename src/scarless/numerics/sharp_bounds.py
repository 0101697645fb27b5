r"""Sharp bounds where the labelling propensity is known only to lie between two functions.

The data identify :math:`P(x) = \Pr(s=1|x) = f(x)\,e(x)` and nothing else about the class. Where
:math:`l(x) \le e(x) \le u(x)`, the class probability lies in

.. math:: f(x) \in [P(x)/u(x),\ \min(1, P(x)/l(x))],

and every value between is reached by some admissible propensity. Rows are free of each other, so the admissible `f` of
a sample are a box: one interval per row. Everything below is the smallest and the largest value of some quantity over
such a box, with rows weighted by `w`. A quantity that is undefined somewhere in the box (a share of no positives) is
bounded where it is defined; it is NaN where it is defined nowhere.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Vector
from scarless.numerics.risk import times
from scarless.numerics.uncertainty import Interval

_MIN_SQUARABLE = 1e-150  # products of two of these are still numbers with all their digits


class Box(NamedTuple):
    """An interval per row."""

    low: Vector
    high: Vector


def propensities_within_odds(P: Vector, e: Vector, gamma: float) -> Box:
    r"""Return the propensities whose odds are within a factor `gamma` of those of `e`, and that can explain `P`.

    .. math:: \frac1\Gamma \le \frac{e'/(1-e')}{e/(1-e)} \le \Gamma \quad\text{and}\quad e' \ge P

    The second is no assumption: :math:`e' < P` would need :math:`f > 1`. A propensity of 1 has infinite odds and stays
    where it is; ``gamma = inf`` is the limit. Tan, "A distributional approach for causal inference using propensity
    scores", JASA 101 (2006), for treatments.

    Examples
    --------
    >>> propensities_within_odds(np.array([0.1, 0.4]), np.array([0.5, 0.5]), 3.0)
    Box(low=array([0.25, 0.4 ]), high=array([0.75, 0.75]))
    """
    stretched = e + times(1.0 - e, np.asarray(gamma))
    return Box(np.maximum(e / stretched, P), e / (e + (1.0 - e) / gamma))


def class_probability_within_odds(f: Vector, e: Vector, gamma: float) -> Box:
    r"""Return the class probabilities that `propensities_within_odds` leave possible.

    .. math:: f\,\bigl(e + (1-e)/\Gamma\bigr) \ \le\ f' \ \le\ \min\bigl(1,\ f\,(e + \Gamma(1-e))\bigr)

    which is :math:`P/u` and :math:`P/l` without a division: `f` itself at ``gamma = 1``. In the limit it is
    :math:`[P, 1]`, but for rows that no factor moves: `f` stays where :math:`e = 1`, and 0 where it is 0. Intervals for
    a smaller `gamma` lie inside those for a larger one, also in floating point.

    Examples
    --------
    >>> class_probability_within_odds(np.array([0.2, 0.8]), np.array([0.5, 0.5]), 2.0)
    Box(low=array([0.15, 0.6 ]), high=array([0.3, 1. ]))
    """
    stretched = e + times(1.0 - e, np.asarray(gamma))
    return Box(f * (e + (1.0 - e) / gamma), np.minimum(times(f, stretched), 1.0))


def class_probability_box(P: Vector, l: Vector, u: Vector) -> Box:  # noqa: E741
    r"""Return :math:`[P/u, \min(1, P/l)]`, for :math:`l \le u` and :math:`P \le u`.

    A row with ``l = 0`` may never be labelled, so its `f` can be anything up to 1.

    Examples
    --------
    >>> class_probability_box(np.array([0.2, 0.0]), np.array([0.25, 0.0]), np.array([0.5, 1.0]))
    Box(low=array([0.4, 0. ]), high=array([0.8, 1. ]))
    """
    low = np.divide(P, u, out=np.zeros_like(P), where=u > 0)
    return Box(np.minimum(low, 1.0), np.divide(P, l, out=np.ones_like(P), where=l > P))


def posterior_box(P: Vector, s: Vector, f: Box) -> Box:
    r"""Return the bounds on :math:`\Pr(y=1|x,s)` of rows whose label was seen.

    1 where labelled, else :math:`f(1-e)/(1-fe) = (f - P)/(1 - P)`, which rises with `f`. An unlabelled row with
    :math:`P = 1` contradicts the model; it gets 1, as in `scarless.numerics.likelihood.posterior`.

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
    r"""Return the posteriors that `propensities_within_odds` leave possible: :math:`[q/\Gamma, \min(1, \Gamma q)]`.

    For an unlabelled row, :math:`f' - P = f(1-e)/\Gamma` at the lower end of `class_probability_within_odds` and
    :math:`\Gamma f(1-e)` at the upper one, and :math:`q = f(1-e)/(1-P)`. Where not `moves` the class is known (the row
    is labelled) or the propensity is 1.

    Examples
    --------
    >>> posterior_within_odds(np.array([1.0, 0.4, 0.6]), np.array([False, True, True]), 2.0)
    Box(low=array([1. , 0.2, 0.3]), high=array([1. , 0.8, 1. ]))
    """
    high = np.minimum(times(q, np.asarray(gamma)), 1.0)
    return Box(np.where(moves, q / gamma, q), np.where(moves, high, q))


def gamma_across(f: Vector, e: Vector, threshold: Vector) -> Vector:
    r"""Return the factor `gamma` at which a class probability can first be on the other side of a threshold `t`.

    .. math:: \frac{f(1-e)}{t - fe} \text{ where } f > t > fe, \qquad \frac{t/f - e}{1-e} \text{ where } f \le t < 1,

    which solve :math:`f(e + (1-e)/\Gamma) = t` and :math:`f(e + \Gamma(1-e)) = t`. Infinite where no factor does it.

    Examples
    --------
    >>> gamma_across(np.array([0.6, 0.2, 0.9]), np.array([0.5, 0.5, 0.8]), np.array([0.5, 0.5, 0.5]))
    array([1.5, 4. , inf])
    """
    above = f > threshold
    free, never = 1.0 - e, np.full(f.shape, np.inf)
    down = np.divide(f * free, threshold - f * e, out=never.copy(), where=above & (threshold > f * e))
    movable = ~above & (threshold < 1.0) & (f * free > 0.0)
    with np.errstate(over="ignore"):  # a factor beyond the largest number is infinite for all purposes
        up = np.divide(threshold - f * e, f * free, out=never, where=movable)
    return np.maximum(np.where(above, down, up), 1.0)


def mean_bounds(box: Box, w: Vector) -> Interval:
    """Return the bounds on the mean: the class prior, or the share of positives among rows that were seen.

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
    fewest, most = float(w @ box.low), float(w @ box.high)
    if labelled == 0.0 or most == 0.0:
        return Interval(0.0, 0.0) if most > 0.0 else Interval(np.nan, np.nan)
    return Interval(min(labelled / most, 1.0), min(labelled / fewest, 1.0))


def precision_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on :math:`\sum w d f / \sum w d` for decisions `d` of 0 and 1.

    Examples
    --------
    >>> precision_bounds(Box(np.array([0.1, 0.6]), np.array([0.5, 0.8])), np.array([0.0, 1.0]), np.ones(2))
    Interval(low=0.6, high=0.8)
    """
    decided = w * d
    return mean_bounds(box, decided) if decided.any() else Interval(np.nan, np.nan)


def accuracy_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on :math:`\sum w (d f + (1-d)(1-f)) / \sum w`.

    Examples
    --------
    >>> accuracy_bounds(Box(np.array([0.0, 0.5]), np.array([0.5, 1.0])), np.array([0.0, 1.0]), np.ones(2))
    Interval(low=0.5, high=1.0)
    """
    positive = d == 1
    right = Box(np.where(positive, box.low, 1.0 - box.high), np.where(positive, box.high, 1.0 - box.low))
    return mean_bounds(right, w)


def recall_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on :math:`\sum w d f / \sum w f`.

    With `A` positives decided positive and `B` others, recall is :math:`A/(A+B)`: it rises with `A` and falls with `B`.

    Examples
    --------
    >>> recall_bounds(Box(np.array([0.2, 0.6]), np.array([0.4, 0.8])), np.array([0.0, 1.0]), np.ones(2))
    Interval(low=0.6, high=0.8)
    """
    found, missed = _positives_by_decision(box, d, w)
    if missed.high == 0.0:  # nothing can be missed
        return Interval(1.0, 1.0) if found.high > 0.0 else Interval(np.nan, np.nan)
    high = found.high / (found.high + missed.low) if found.high > 0.0 else 0.0
    return Interval(found.low / (found.low + missed.high), high)


def f1_bounds(box: Box, d: Vector, w: Vector) -> Interval:
    r"""Return the bounds on :math:`2 \sum w d f / (\sum w d + \sum w f)`, monotone as recall is.

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
    """Return the bounds on the positives among rows decided positive, and among the others."""
    yes, no = w * d, w * (1.0 - d)
    return (
        Interval(float(yes @ box.low), float(yes @ box.high)),
        Interval(float(no @ box.low), float(no @ box.high)),
    )


def rank_bounds(box: Box) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    r"""Return the best and the worst possible rank of each row, 1 for the largest value.

    The rank is one more than the number of rows with a larger value. At best a row is at its upper end and the others
    at their lower ends; at worst the other way round.

    Examples
    --------
    >>> rank_bounds(Box(np.array([0.7, 0.3, 0.1]), np.array([0.9, 0.5, 0.4])))
    (array([1, 2, 2]), array([1, 3, 3]))
    """
    n = box.low.size
    best = n - np.searchsorted(np.sort(box.low), box.high, side="right")
    worst = n - np.searchsorted(np.sort(box.high), box.low, side="right")
    return best + 1, worst + 1 - (box.high > box.low)  # a row does not stand above itself


def roc_auc_bounds(order: NDArray[np.intp], box: Box, w: Vector) -> Interval:
    r"""Return the bounds on the area under the ROC curve of fixed scores, in :math:`O(n)` once rows are ordered.

    `order` numbers the scores from 0 for the lowest, with equal numbers for equal scores: what ``np.unique`` returns
    as inverse. With :math:`F = \sum w f`, :math:`W = \sum w` and :math:`k_{ij}` 1 where row `i` scores higher than
    row `j`, 1/2 where they score alike,

    .. math:: \mathrm{AUC} = \frac{\sum_{ij} w_i w_j f_i (1-f_j) k_{ij}}{F (W - F)}
              = \frac{\sum_i w_i r_i f_i - F^2/2}{F (W - F)}, \qquad r_i = \sum_j w_j k_{ij},

    since :math:`k_{ij} + k_{ji} = 1`: the probability that a positive drawn from these rows scores higher than a
    negative drawn from them, ties counted half. (The two may be draws of one row: a tie.)

    For a given `F` the numerator is linear in `f`, so the maximum fills the ranks `r` from above: rows that score
    higher than some threshold are at their upper ends, those that score lower at their lower ends. Along that path, one
    group of equal scores after the other rises from its lower to its upper end. Within a group the area is a
    ratio of two quadratics in the group's positives `x`, and the numerator of its derivative is a quadratic (the
    cubic terms cancel), so ends and roots are all there is to try. A maximum inside a group does occur: a row whose
    class is a coin toss has positives and negatives that tie, which is more than a badly ranked row can win at either
    end. The minimum is 1 minus the maximum for reversed scores.

    Where the sums of all positives (or negatives) can shrink to 0, the bounds include the limits of the area there.
    Probabilities below 1e-150 count as 0.

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
    # Positives and negatives of each group of equal scores, at either end.
    masses: list[Vector] = [
        np.bincount(order, share * end).astype(np.float64) for end in (box.low, 1.0 - box.low, box.high, 1.0 - box.high)
    ]
    highest = _largest_auc(*(mass[::-1] for mass in masses))
    lowest = 1.0 - _largest_auc(*masses)
    return Interval(max(lowest, 0.0), min(highest, 1.0))


class _Path(NamedTuple):
    """For each group of equal scores: what stands above it, at upper ends, and below it, at lower ends."""

    positives_above: Vector
    negatives_above: Vector
    positives_below: Vector
    negatives_below: Vector
    won: Vector  # pairs without the group in which the positive scores higher

    def auc(self, x: Vector, y: Vector) -> Vector:
        """Return the area where the group has `x` positives and `y` negatives; NaN where it is undefined."""
        won = self.won + x * self.negatives_below + self.positives_above * y + 0.5 * x * y
        return _ratio(won, (self._positives() + x) * (self._negatives() + y))

    def limits(self, size: Vector) -> tuple[Vector, Vector]:
        """Return the limits of the area as the group's last positive, or last negative, is the last of all."""
        few_positives = np.where(self._positives() == 0.0, self.negatives_below + 0.5 * size, np.nan)
        few_negatives = np.where(self._negatives() == 0.0, self.positives_above + 0.5 * size, np.nan)
        return few_positives, few_negatives

    def stationary(self, size: Vector) -> tuple[Vector, Vector]:
        """Return the positives of the group at which the area does not change to first order; NaN where none."""
        p, m = self._positives(), self._negatives() + size
        n0 = self.won + self.positives_above * size  # pairs won are n0 + n1 x - x^2 / 2
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
    """Return the supremum for groups in falling order of score; their shares of all rows sum to 1.

    All sums are of terms of one sign, so that no digits are lost where nearly all rows are of one class.
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
    return float(np.fmax.reduce(np.concatenate(candidates)))  # NaN where all are


def _before(values: Vector) -> Vector:
    """Return the sum of the values before each place."""
    return np.concatenate([[0.0], np.cumsum(values)[:-1]])


def _after(values: Vector) -> Vector:
    """Return the sum of the values after each place."""
    return _before(values[::-1])[::-1]


def _ratio(above: Vector, below: Vector) -> Vector:
    return np.divide(above, below, out=np.full(below.shape, np.nan), where=below != 0.0)
