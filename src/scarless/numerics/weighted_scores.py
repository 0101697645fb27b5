r"""Scores of predictions as ratios of sums, with targets in place of the classes, and calibration of predictions.

Every score is ``top / bottom``. Both are sums over rows or over pairs of *different* rows, in which a target
:math:`t_i` replaces the class :math:`y_i`. With :math:`t_i = s_i/e_i`, independent labels and the right propensity,
:math:`\mathrm E[t_i \mid y_i] = y_i`. Given the rows, ``top`` and ``bottom`` are then unbiased for their values with
the true classes. Products :math:`t_i t_i` of a row with itself would be biased, because
:math:`\mathrm E[t_i^2] = y_i/e_i`. If the supervised score contains :math:`y_i y_i`, which equals :math:`y_i`,
these scores contain :math:`t_i`.

Each score also has the derivatives :math:`w_i\,\partial/\partial w_i` of ``top`` and ``bottom`` for each row. They give
the influence of the row and a standard error (the infinitesimal jackknife). For targets that are rescaled, a score also
has the derivatives of ``top`` and ``bottom`` by the logarithm of a common factor of all targets.

Calibration compares labels with predictions in bins of rows, with intervals and one test. If the class probability
:math:`f` and the propensity :math:`e` are right, :math:`s/e` has mean :math:`f` and variance :math:`f(1 - fe)/e`. With
:math:`fe` in place of :math:`f` and 1 in place of :math:`e`, the same formulas give the usual binomial calibration of
label probabilities. A weight :math:`w` counts as that many equal rows with independent labels.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from scarless.numerics.arrays import Integers, Vector
from scarless.numerics.risk import mixed_cost, times

Bins = Integers


class Ratio(NamedTuple):
    r"""A score as a ratio of two sums, with its first derivatives.

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
    top_rows: Vector  # w_i times the derivative of `top` by w_i
    bottom_rows: Vector  # w_i times the derivative of `bottom` by w_i
    top_slope: float  # derivative of `top` by the logarithm of a common factor of all targets
    bottom_slope: float

    @property
    def value(self) -> float:
        """The score."""
        return self.top / self.bottom

    def influence(self) -> Vector:
        r"""Return :math:`w_i\,\partial\theta/\partial w_i`; the sum is 0, because scaling all weights has no effect."""
        return (self.top_rows - self.value * self.bottom_rows) / self.bottom

    @property
    def slope(self) -> float:
        """The derivative of the score by the logarithm of a common factor of all targets."""
        return (self.top_slope - self.value * self.bottom_slope) / self.bottom


class Targets(NamedTuple):
    r"""Targets :math:`t_i = \kappa a_i`, with the derivatives of :math:`\log\kappa` by the weights."""

    t: Vector
    log_scale_rows: Vector  # w_i times the derivative of log(kappa) by w_i


def plain_targets(share: Vector, max_weight: float = np.inf) -> Targets:
    r"""Return the targets :math:`\min(s_i/e_i, M)`; positives with :math:`e < 1/M` have the expected target :math:`eM`.

    Examples
    --------
    >>> plain_targets(np.array([0.0, 4.0]), max_weight=3.0).t
    array([0., 3.])
    """
    return Targets(np.minimum(share, max_weight), np.zeros_like(share))


def normalised_targets(share: Vector, weight: Vector, max_weight: float, class_prior: float | None) -> Targets:
    r"""Return clipped targets :math:`a_i = \min(s_i/e_i, M)`, scaled to a given class prior (Hajek's ratio).

    .. math:: t_i = a_i\,\hat\pi\,\frac{\sum_j w_j}{\sum_j w_j a_j}, \qquad
              \hat\pi = \min\Bigl(1, \frac{\sum_j w_j s_j/e_j}{\sum_j w_j}\Bigr) \text{ if no class prior is given}

    At least one row must be labelled. The derivatives are those of the smaller term of the minimum.

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
    r"""Return the weighted mean of :math:`t\,\delta_1 + (1-t)\,\delta_0`: log loss, squared error or error rate.

    It is linear in the targets, and `bottom` does not depend on them. With :math:`t = s/e` the mean itself is unbiased.

    Examples
    --------
    >>> mean_cost(np.array([0.0]), np.array([1.0]), target=np.array([2.0]), weight=np.ones(1)).value
    -1.0
    """
    rows = weight * mixed_cost(target, cost_pos, cost_neg)
    slope = float((weight * times(target, cost_pos - cost_neg)).sum())
    return Ratio(float(rows.sum()), float(weight.sum()), rows, weight, slope, 0.0)


def precision(decision: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Return the share of positives among rows decided positive, :math:`\sum w t d / \sum w d`.

    Examples
    --------
    >>> precision(np.array([1.0, 1.0, 0.0]), target=np.array([1.0, 0.0, 1.0]), weight=np.ones(3)).value
    0.5
    """
    found = weight * target * decision
    decided = weight * decision
    return Ratio(float(found.sum()), float(decided.sum()), found, decided, float(found.sum()), 0.0)


def recall(decision: Vector, target: Vector, weight: Vector) -> Ratio:
    r"""Return the share of positives that are decided positive, :math:`\sum w t d / \sum w t`.

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
    r"""Return the harmonic mean of precision and recall, :math:`2\sum w t d / (\sum w t + \sum w d)`.

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
    r"""Return the probability that a positive has a higher score than a negative; ties count half.

    .. math:: \frac{\sum_{i \ne j} w_i w_j\, t_i (1 - t_j)\, k_{ij}}{\sum_{i \ne j} w_i w_j\, t_i (1 - t_j)}, \qquad
              k_{ij} = 1[z_i > z_j] + \tfrac12 1[z_i = z_j]

    Pairs of a row with itself are left out: :math:`y_i(1-y_i) = 0`, but :math:`t_i(1-t_i)` has mean
    :math:`y_i(1 - 1/e_i)`. The time is that of one sort. The variance of a mean over pairs follows from the means over
    the pairs of each row: Hoeffding (1948), "A class of statistics with asymptotically normal distribution", Annals of
    Mathematical Statistics 19.

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
    r"""Return the mean over positives of the precision among rows with at least their score.

    .. math:: \frac{1}{\sum_i w_i t_i} \sum_i w_i t_i\,
              \frac{w_i + \sum_{j \ne i,\, z_j \ge z_i} w_j t_j}{\sum_{z_j \ge z_i} w_j}

    In the precision of a row, the row itself counts as one positive, because :math:`y_i^2 = y_i`. Weights must be
    positive. The time is that of one sort.

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
    """Return the rank of each score among the distinct scores, from 0 for the lowest."""
    return np.unique(score, return_inverse=True)[1].reshape(-1)


def _sum_upto(groups: NDArray[np.intp], values: Vector) -> Vector:
    return np.asarray(np.cumsum(np.bincount(groups, weights=values))[groups])


def _sum_from(groups: NDArray[np.intp], values: Vector) -> Vector:
    return np.asarray(np.cumsum(np.bincount(groups, weights=values)[::-1])[::-1][groups])


def _sum_below(groups: NDArray[np.intp], values: Vector) -> Vector:
    """Return the sum over lower scores plus half the sum over equal scores."""
    sums = np.bincount(groups, weights=values)
    return np.asarray((np.cumsum(sums) - 0.5 * sums)[groups])


class BinnedRows(NamedTuple):
    """For each bin: number of rows, predicted and observed share of positives, and variance under the predictions."""

    n: Vector  # sum of the weights
    predicted: Vector  # mean of f
    observed: Vector  # mean of s/e
    variance: Vector  # of the observed mean, if f and e are right
    inflation: Vector  # mean of 1/e over the positives


class ChiSquare(NamedTuple):
    """A test statistic with its mean and variance under the hypothesis, and its p-value; NaN if its variance is 0."""

    statistic: float
    freedom: int  # mean of the statistic: the number of groups of bins
    variance: float
    p_value: float


def equal_counts(values: Vector, n_bins: int, w: Vector | None = None) -> Bins:
    """Return the bin of each row, for bins with about equal numbers of rows.

    Equal values are in the same bin, and empty bins get no number. With weights `w`, their sums are about equal.

    Examples
    --------
    >>> equal_counts(np.array([0.1, 0.2, 0.2, 0.2, 0.9]), 2)
    array([0, 1, 1, 1, 1])
    """
    shares = np.arange(1, n_bins) / n_bins
    edges = np.quantile(values, shares) if w is None else _weighted_quantile(values, shares, w)
    return _numbered(np.searchsorted(edges, values, side="right"))


def equal_widths(values: Vector, n_bins: int) -> Bins:
    """Return the bin of each row, for bins of equal width between the smallest and the largest value.

    Empty bins get no number.

    Examples
    --------
    >>> equal_widths(np.array([0.0, 0.1, 0.2, 0.9, 1.0]), 4)
    array([0, 0, 0, 1, 1])
    """
    edges = np.linspace(values.min(), values.max(), n_bins + 1)[1:-1]
    return _numbered(np.searchsorted(edges, values, side="right"))


def _weighted_quantile(values: Vector, shares: Vector, w: Vector) -> Vector:
    """Return ``np.quantile`` of rows that are repeated `w` times, extended to weights that are not integers."""
    order = np.argsort(values, kind="stable")
    unit = max(min(1.0, float(w.min())), 1e-12 * float(w.sum()))  # distance between neighbouring copies of a row
    ordered, reached = values[order], np.cumsum(w[order] / unit)
    at = shares * (reached[-1] - 1.0)
    below, above = (
        ordered[np.minimum(np.searchsorted(reached, step, side="right"), values.size - 1)]
        for step in (np.floor(at), np.floor(at) + 1.0)
    )
    part, gap = at - np.floor(at), above - below
    return np.asarray(np.where(part < 0.5, below + gap * part, above - gap * (1.0 - part)))


def _numbered(bins: Bins) -> Bins:
    return np.unique(bins, return_inverse=True)[1].reshape(-1)


def binned(f: Vector, e: Vector, s: Vector, bins: Bins, w: Vector | None = None) -> BinnedRows:
    r"""Return for each bin :math:`n=\sum w`, means of :math:`f` and :math:`s/e`, and the variance of the latter.

    The variance is :math:`\frac{1}{n^2}\sum w f(1-fe)/e`. The mean of :math:`1/e` over positives is computed by the
    model, :math:`\sum (f/e) / \sum f`, and by the labels, :math:`\sum (s/e^2) / \sum (s/e)`. The larger of the two is
    used.

    Examples
    --------
    >>> rows = binned(np.array([0.5, 0.5]), np.ones(2), np.array([1.0, 0.0]), np.array([0, 0]))
    >>> rows.observed, rows.variance
    (array([0.5]), array([0.125]))
    """
    w = np.ones_like(f) if w is None else w
    n, total_f = _sum_by_bin(bins, w), _sum_by_bin(bins, w * f)
    with np.errstate(over="ignore"):  # With tiny propensities, the means of s/e and 1/e can be infinite.
        by_model = _quotient(_sum_by_bin(bins, w * (f / e)), total_f, otherwise=_sum_by_bin(bins, w / e) / n)
        observed = _sum_by_bin(bins, w * (s / e)) / n
        variance = _sum_by_bin(bins, w * (f * (1.0 - f * e) / e)) / n**2
        smallest = _min_by_bin(bins, np.where(s == 1, e, 1.0))
        relative = np.where(s == 1, smallest[bins] / e, 0.0)
        by_labels = _quotient(
            _sum_by_bin(bins, w * relative**2) / smallest, _sum_by_bin(bins, w * relative), otherwise=np.ones_like(n)
        )
    return BinnedRows(n, total_f / n, observed, variance, np.maximum(by_model, by_labels))


def score_interval(rows: BinnedRows, z: float) -> tuple[Vector, Vector]:
    r"""Return a confidence interval of the share of positives in each bin.

    It contains all :math:`p` with :math:`(\bar h - p)^2 \le z^2\,p(v - p)/n`. Here :math:`\bar h` is the mean of
    :math:`s/e`, and :math:`v` is the mean of :math:`1/e` over positives. :math:`p(v - p)/n` is the variance of
    :math:`\bar h` if the share of positives is :math:`p` and :math:`f` and :math:`e` are uncorrelated in the bin. With
    :math:`e = 1` it is Wilson's interval (1927, JASA 22). Its length is positive even if no row is labelled.

    Examples
    --------
    >>> rows = binned(np.full(10, 0.2), np.ones(10), np.zeros(10), np.zeros(10, dtype=int))
    >>> score_interval(rows, 1.96)[1].round(3)
    array([0.278])
    """
    q = z**2 / rows.n
    with np.errstate(over="ignore", invalid="ignore"):  # The result is NaN if the means are infinite.
        middle = rows.observed + 0.5 * q * rows.inflation
        inner = rows.observed * (1.0 - rows.observed / rows.inflation) + 0.25 * q * rows.inflation
        root = np.sqrt(q * inner) * np.sqrt(rows.inflation)
        return np.maximum(middle - root, 0.0) / (1.0 + q), (middle + root) / (1.0 + q)


def calibration_error(rows: BinnedRows) -> tuple[float, float]:
    r"""Return the calibration error :math:`\sum_b \frac{n_b}{n}|\bar h_b - \bar f_b|`, and its expected value.

    If the predictions are right, the expected value is :math:`\sum_b \frac{n_b}{n}\sqrt{2 V_b/\pi}`, because normal
    errors have this mean absolute value.

    Examples
    --------
    >>> rows = binned(np.array([0.5, 0.5]), np.ones(2), np.array([1.0, 1.0]), np.array([0, 0]))
    >>> calibration_error(rows)
    (0.5, 0.28209479177387814)
    """
    share = rows.n / rows.n.sum()
    return float(share @ np.abs(rows.observed - rows.predicted)), float(share @ np.sqrt(2.0 * rows.variance / np.pi))


def chi_square(
    f: Vector, e: Vector, s: Vector, bins: Bins, w: Vector | None = None, *, at_least: float = 1.0
) -> ChiSquare:
    r"""Test that :math:`s \sim \mathrm{Bernoulli}(fe)`, on rows that `f` and `e` were not fitted on.

    .. math:: \sum_b \frac{\bigl(\sum_{i \in b} w_i (s_i/e_i - f_i)\bigr)^2}{\sum_{i \in b} w_i f_i (1 - f_i e_i)/e_i}

    The term of each bin has mean 1, because nothing was fitted to these rows. (Hosmer and Lemeshow 1980, Communications
    in Statistics A 9, subtract two degrees of freedom for a model fitted to the same rows.) Its variance is 2 plus the
    excess kurtosis of the bin's sum, which is large if few labels are expected. The p-value uses a multiple of a
    chi-squared variable with the exact mean and variance (Satterthwaite 1946, Biometrics Bulletin 2). It is therefore
    valid with few labels in a bin. Neighbouring bins are joined until each expects at least `at_least` labelled and
    `at_least` unlabelled rows.

    Examples
    --------
    >>> f, s = np.full(40, 0.5), np.repeat([1.0, 0.0], [28, 12])
    >>> found = chi_square(f, np.ones(40), s, np.zeros(40, dtype=int))
    >>> round(found.statistic, 6), found.freedom, round(found.p_value, 4)
    (6.4, 1, 0.0109)
    """
    w = np.ones_like(f) if w is None else w
    p = f * e
    joined = _join(_sum_by_bin(bins, w * p), _sum_by_bin(bins, w), at_least)[bins]
    bernoulli = p * (1.0 - p)
    smallest = _min_by_bin(joined, e)
    # The scale of 1/e cancels in the statistic. Without this scaling, its fourth powers could overflow.
    relative = smallest[joined] / e
    residual = _sum_by_bin(joined, w * (s * relative - f * smallest[joined]))
    variance = _sum_by_bin(joined, w * (bernoulli * relative**2))
    certain = _sum_by_bin(joined, w * bernoulli) <= 1e-100
    varies = ~certain & (variance > 1e-290)  # The variance underflows if one weight 1/e is much larger than all others.
    if (_sum_by_bin(joined, np.abs(s - p)) > 0.5)[certain].any():  # An impossible label was observed.
        return ChiSquare(np.inf, int(varies.sum()), np.nan, 0.0)
    if not varies.any():
        return ChiSquare(np.nan, 0, np.nan, np.nan)
    fourth = _sum_by_bin(joined, w * bernoulli * (1.0 - 6.0 * bernoulli) * relative**4)
    excess = fourth[varies] / variance[varies] / variance[varies]
    statistic, freedom = float((residual[varies] ** 2 / variance[varies]).sum()), int(varies.sum())
    spread = 2.0 * freedom + float(excess.sum())
    scale = 0.5 * spread / freedom
    p_value = float(chdtrc(freedom / scale, statistic / scale)) if scale > 0 else np.nan
    return ChiSquare(statistic, freedom, spread, p_value)


def _join(labelled: Vector, n: Vector, at_least: float) -> Bins:
    """Return the group of each bin; groups of neighbouring bins expect enough labelled and unlabelled rows."""
    group = np.zeros(n.size, dtype=np.intp)
    current, sums = 0, np.zeros(2)
    for b in range(n.size):
        group[b] = current
        sums += labelled[b], n[b] - labelled[b]
        if (sums >= at_least).all():
            current, sums = current + 1, np.zeros(2)
    return np.minimum(group, max(current - 1, 0))  # The remaining bins join the last complete group.


def _sum_by_bin(bins: Bins, values: Vector) -> Vector:
    return np.asarray(np.bincount(bins, weights=values))


def _min_by_bin(bins: Bins, values: Vector) -> Vector:
    smallest = np.full(int(bins.max()) + 1, np.inf)
    np.minimum.at(smallest, bins, values)
    return smallest


def _quotient(top: Vector, bottom: Vector, *, otherwise: Vector) -> Vector:
    return np.divide(top, bottom, out=otherwise.copy(), where=bottom > 0)
