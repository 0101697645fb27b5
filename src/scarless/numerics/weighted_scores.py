r"""Scores of predictions as ratios of sums, from targets that stand in for the class.

Every score here is ``top / bottom``, both of them sums over rows or over pairs of *different* rows in which a target
:math:`t_i` takes the place of the class :math:`y_i`. With :math:`t_i = s_i/e_i` the labels, drawn independently with
the right propensity, give :math:`\mathrm E[t_i \mid y_i] = y_i`, so ``top`` and ``bottom`` are unbiased for what they
would be with the classes, given the rows. Products :math:`t_i t_i` of a row with itself are not, since
:math:`\mathrm E[t_i^2] = y_i/e_i`; wherever the supervised score has :math:`y_i y_i`, it is :math:`y_i`, and so
:math:`t_i` here.

Each score also says what every row contributes: :math:`w_i\,\partial/\partial w_i` of ``top`` and ``bottom``, from
which follow the influence of the row on the ratio and a standard error (the infinitesimal jackknife), and how
``top`` and ``bottom`` grow when all targets grow by a common factor, for targets that are rescaled.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Vector
from scarless.numerics.risk import mixed_cost, times


class Ratio(NamedTuple):
    r"""A score and its first derivatives.

    Examples
    --------
    >>> one = np.ones(2)
    >>> mean = mean_cost(np.array([0.0, 0.5]), np.array([1.0, 0.25]), target=np.array([1.0, 0.0]), weight=one)
    >>> mean.value
    0.125
    >>> mean.influence()
    array([-0.0625,  0.0625])
    """

    top: float
    bottom: float
    top_rows: Vector  # w_i times the derivative in w_i
    bottom_rows: Vector
    top_slope: float  # derivative in the logarithm of a factor common to all targets
    bottom_slope: float

    @property
    def value(self) -> float:
        """The score."""
        return self.top / self.bottom

    def influence(self) -> Vector:
        r"""Return :math:`w_i\,\partial\theta/\partial w_i`, whose sum is 0: a score does not see the weights' scale."""
        return (self.top_rows - self.value * self.bottom_rows) / self.bottom

    @property
    def slope(self) -> float:
        """The score's derivative in the logarithm of a factor common to all targets."""
        return (self.top_slope - self.value * self.bottom_slope) / self.bottom


class Targets(NamedTuple):
    r"""Targets :math:`t_i = \kappa a_i` with what each row contributes to :math:`\log\kappa`."""

    t: Vector
    log_scale_rows: Vector  # w_i times the derivative of log(kappa) in w_i


def plain_targets(share: Vector, max_weight: float = np.inf) -> Targets:
    r"""Return :math:`\min(s_i/e_i, M)`; with :math:`M < \infty` positives of :math:`e < 1/M` count :math:`eM` times.

    Examples
    --------
    >>> plain_targets(np.array([0.0, 4.0]), max_weight=3.0).t
    array([0., 3.])
    """
    return Targets(np.minimum(share, max_weight), np.zeros_like(share))


def normalised_targets(share: Vector, weight: Vector, max_weight: float, class_prior: float | None) -> Targets:
    r"""Scale clipped targets :math:`a_i = \min(s_i/e_i, M)` to a given share of positives (Hajek's ratio).

    .. math:: t_i = a_i\,\hat\pi\,\frac{\sum_j w_j}{\sum_j w_j a_j}, \qquad
              \hat\pi = \min\Bigl(1, \frac{\sum_j w_j s_j/e_j}{\sum_j w_j}\Bigr) \text{ where no class prior is given}

    Needs at least one labelled row. The derivative is that of the branch of the minimum which is taken.

    Examples
    --------
    >>> normalised_targets(np.array([0.0, 1.0, 4.0, 0.0]), np.ones(4), 3.0, 0.5).t
    array([0. , 0.5, 1.5, 0. ])
    """
    a = np.minimum(share, max_weight)
    rows, a_rows, share_rows = weight / weight.sum(), weight * a, weight * share
    prior_rows = np.zeros_like(share)
    if class_prior is None:
        class_prior = float(share_rows.sum() / weight.sum())
        if class_prior < 1.0:
            prior_rows = share_rows / share_rows.sum() - rows
    scale = min(1.0, class_prior) * weight.sum() / a_rows.sum()
    return Targets(scale * a, prior_rows + rows - a_rows / a_rows.sum())


def mean_cost(cost_pos: Vector, cost_neg: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Weighted mean of :math:`t\,\delta_1 + (1-t)\,\delta_0`: log loss, squared error, share of errors.

    Linear in the targets, and the bottom does not depend on them: with :math:`t = s/e` the mean itself is unbiased.

    Examples
    --------
    >>> mean_cost(np.array([0.0]), np.array([1.0]), target=np.array([2.0]), weight=np.ones(1)).value
    -1.0
    """
    rows = weight * mixed_cost(target, cost_pos, cost_neg)
    slope = float((weight * times(target, cost_pos - cost_neg)).sum())
    return Ratio(float(rows.sum()), float(weight.sum()), rows, weight, slope, 0.0)


def precision(decision: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Share of positives among rows decided positive, :math:`\sum w t d / \sum w d`; linear in the targets.

    Examples
    --------
    >>> precision(np.array([1.0, 1.0, 0.0]), target=np.array([1.0, 0.0, 1.0]), weight=np.ones(3)).value
    0.5
    """
    found = weight * target * decision
    decided = weight * decision
    return Ratio(float(found.sum()), float(decided.sum()), found, decided, float(found.sum()), 0.0)


def recall(decision: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Share of positives that are decided positive, :math:`\sum w t d / \sum w t`; a common factor cancels.

    Examples
    --------
    >>> recall(np.array([1.0, 1.0, 0.0]), target=np.array([1.0, 0.0, 4.0]), weight=np.ones(3)).value
    0.2
    """
    positive = weight * target
    found = positive * decision
    top, bottom = float(found.sum()), float(positive.sum())
    return Ratio(top, bottom, found, positive, top, bottom)


def f1(decision: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Harmonic mean of precision and recall, :math:`2\sum w t d / (\sum w t + \sum w d)`.

    Examples
    --------
    >>> f1(np.array([1.0, 1.0, 0.0]), target=np.array([1.0, 0.0, 1.0]), weight=np.ones(3)).value
    0.5
    """
    positive, decided = weight * target, weight * decision
    found = 2.0 * positive * decision
    top = float(found.sum())
    return Ratio(top, float((positive + decided).sum()), found, positive + decided, top, float(positive.sum()))


def roc_auc(score: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Probability that a positive scores above a negative, equal scores counting one half.

    .. math:: \frac{\sum_{i \ne j} w_i w_j\, t_i (1 - t_j)\, k_{ij}}{\sum_{i \ne j} w_i w_j\, t_i (1 - t_j)}, \qquad
              k_{ij} = 1[z_i > z_j] + \tfrac12 1[z_i = z_j]

    A row is no pair with itself: :math:`y_i(1-y_i) = 0`, but :math:`t_i(1-t_i)` has mean :math:`y_i(1 - 1/e_i)`. Takes
    one sort. The variance of a mean over pairs follows from the mean of each row's pairs: Hoeffding (1948), "A class of
    statistics with asymptotically normal distribution", Annals of Mathematical Statistics 19.

    Examples
    --------
    >>> z = np.array([0.1, 0.4, 0.4, 0.8])
    >>> roc_auc(z, target=np.array([0.0, 0.0, 1.0, 1.0]), weight=np.ones(4)).value
    0.875
    """
    groups = _equal_scores(score)
    a, b = weight * target, weight * (1.0 - target)
    total_a, total_b = a.sum(), b.sum()
    wins = _sum_below(groups, b) - 0.5 * b
    losses = total_a - _sum_below(groups, a) - 0.5 * a
    top, bottom = float(a @ wins), float(total_a * total_b - a @ b)
    among_positives = float(total_a**2 - a @ a)
    bottom_rows = a * (total_b - b) + b * (total_a - a)
    return Ratio(top, bottom, a * wins + b * losses, bottom_rows, top - 0.5 * among_positives, bottom - among_positives)


def average_precision(score: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Mean over positives of the precision among rows that score as high or higher.

    .. math:: \frac{1}{\sum_i w_i t_i} \sum_i w_i t_i\,
              \frac{w_i + \sum_{j \ne i,\, z_j \ge z_i} w_j t_j}{\sum_{z_j \ge z_i} w_j}

    The row itself counts as the whole positive that it is if it counts at all (:math:`y_i^2 = y_i`). Weights are above
    0. Takes one sort.

    Examples
    --------
    >>> z = np.array([0.1, 0.4, 0.6, 0.8])
    >>> average_precision(z, target=np.array([0.0, 1.0, 0.0, 1.0]), weight=np.ones(4)).value  # (1 + 2/3) / 2
    0.8333333333333333
    """
    groups = _equal_scores(score)
    a = weight * target
    above = _sum_from(groups, weight)
    others = a * (_sum_from(groups, a) - a) / above
    itself = a * weight / above
    gain = others + itself
    lower = _sum_upto(groups, a / above) - a / above
    top_rows = gain + itself + a * lower - weight * _sum_upto(groups, gain / above)
    total = float(a.sum())
    return Ratio(float(gain.sum()), total, top_rows, a, float(2.0 * others.sum() + itself.sum()), total)


def _equal_scores(score: Vector) -> NDArray[np.intp]:
    """Return the rank of each score among the distinct ones, lowest first."""
    return np.unique(score, return_inverse=True)[1].reshape(-1)


def _sum_upto(groups: NDArray[np.intp], values: Vector) -> Vector:
    return np.asarray(np.cumsum(np.bincount(groups, weights=values))[groups])


def _sum_from(groups: NDArray[np.intp], values: Vector) -> Vector:
    return np.asarray(np.cumsum(np.bincount(groups, weights=values)[::-1])[::-1][groups])


def _sum_below(groups: NDArray[np.intp], values: Vector) -> Vector:
    """Sum over lower scores, and half the sum over equal ones."""
    sums = np.bincount(groups, weights=values)
    return np.asarray((np.cumsum(sums) - 0.5 * sums)[groups])
