r"""Do labels come as often as predicted? Bins of rows, their shares, intervals and one test.

A row's prediction :math:`f` of the class and propensity :math:`e` say that :math:`s/e` has mean :math:`f` and variance
:math:`f(1 - fe)/e`. With the label probability :math:`fe` in the place of :math:`f` and 1 in the place of :math:`e`
the same formulas are those of plain binomial calibration. A weight :math:`w` stands for that many equal rows, with
independent labels.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from scarless.numerics.arrays import Integers, Vector

Bins = Integers


class BinnedRows(NamedTuple):
    """Rows by bin: how many, what was predicted, what came, and how the latter varies if the predictions are right."""

    n: Vector
    predicted: Vector  # mean of f
    observed: Vector  # mean of s/e
    variance: Vector  # of the observed mean, if f and e are right
    inflation: Vector  # mean of 1/e over the positives


class ChiSquare(NamedTuple):
    """A test statistic with its mean and variance under the hypothesis, and its p-value; NaN where nothing varies."""

    statistic: float
    freedom: int  # its mean: the number of groups of bins
    variance: float
    p_value: float


def equal_counts(values: Vector, n_bins: int, w: Vector | None = None) -> Bins:
    """Number the rows' bins, of about equal counts; equal values stay together, empty bins have no number.

    Counts are sums of the weights `w`, where these are given.

    Examples
    --------
    >>> equal_counts(np.array([0.1, 0.2, 0.2, 0.2, 0.9]), 2)
    array([0, 1, 1, 1, 1])
    """
    shares = np.arange(1, n_bins) / n_bins
    edges = np.quantile(values, shares) if w is None else _weighted_quantile(values, shares, w)
    return _numbered(np.searchsorted(edges, values, side="right"))


def equal_widths(values: Vector, n_bins: int) -> Bins:
    """Number the rows' bins, of equal width from the lowest value to the highest; empty bins have no number.

    Examples
    --------
    >>> equal_widths(np.array([0.0, 0.1, 0.2, 0.9, 1.0]), 4)
    array([0, 0, 0, 1, 1])
    """
    edges = np.linspace(values.min(), values.max(), n_bins + 1)[1:-1]
    return _numbered(np.searchsorted(edges, values, side="right"))


def _weighted_quantile(values: Vector, shares: Vector, w: Vector) -> Vector:
    """Return what ``np.quantile`` gives of rows copied `w` times, and the like where weights are no whole numbers."""
    order = np.argsort(values, kind="stable")
    unit = max(min(1.0, float(w.min())), 1e-12 * float(w.sum()))  # between neighbours, copies being one apart
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
    r"""Sum up each bin: :math:`n=\sum w`, means of :math:`f` and :math:`s/e`, :math:`\frac{1}{n^2}\sum w f(1-fe)/e`.

    The mean of :math:`1/e` over positives is taken once as the model has it, :math:`\sum (f/e) / \sum f`, and once as
    the labels have it, :math:`\sum (s/e^2) / \sum (s/e)`; the larger counts.

    Examples
    --------
    >>> rows = binned(np.array([0.5, 0.5]), np.ones(2), np.array([1.0, 0.0]), np.array([0, 0]))
    >>> rows.observed, rows.variance
    (array([0.5]), array([0.125]))
    """
    w = np.ones_like(f) if w is None else w
    n, total_f = _sums(bins, w), _sums(bins, w * f)
    with np.errstate(over="ignore"):  # tiny propensities: means of s/e and 1/e may be infinite
        by_model = _quotient(_sums(bins, w * (f / e)), total_f, otherwise=_sums(bins, w / e) / n)
        observed = _sums(bins, w * (s / e)) / n
        variance = _sums(bins, w * (f * (1.0 - f * e) / e)) / n**2
        least = _least(bins, np.where(s == 1, e, 1.0))
        relative = np.where(s == 1, least[bins] / e, 0.0)
        by_labels = _quotient(
            _sums(bins, w * relative**2) / least, _sums(bins, w * relative), otherwise=np.ones_like(n)
        )
    return BinnedRows(n, total_f / n, observed, variance, np.maximum(by_model, by_labels))


def score_interval(rows: BinnedRows, z: float) -> tuple[Vector, Vector]:
    r"""Return the shares :math:`p` of positives that the observed mean does not speak against.

    All :math:`p` with :math:`(\bar h - p)^2 \le z^2\,p(v - p)/n`, where :math:`\bar h` is the mean of :math:`s/e`, and
    :math:`v` that of :math:`1/e` over positives: a mean of :math:`s/e` has that variance where positives are a share
    :math:`p` and :math:`f` does not go with :math:`e` inside the bin. With :math:`e = 1` it is Wilson's interval (1927,
    JASA 22). It has a length also where no row is labelled.

    Examples
    --------
    >>> rows = binned(np.full(10, 0.2), np.ones(10), np.zeros(10), np.zeros(10, dtype=int))
    >>> score_interval(rows, 1.96)[1].round(3)
    array([0.278])
    """
    q = z**2 / rows.n
    with np.errstate(over="ignore", invalid="ignore"):  # NaN where the means themselves are infinite
        middle = rows.observed + 0.5 * q * rows.inflation
        inner = rows.observed * (1.0 - rows.observed / rows.inflation) + 0.25 * q * rows.inflation
        root = np.sqrt(q * inner) * np.sqrt(rows.inflation)
        return np.maximum(middle - root, 0.0) / (1.0 + q), (middle + root) / (1.0 + q)


def calibration_error(rows: BinnedRows) -> tuple[float, float]:
    r"""Return :math:`\sum_b \frac{n_b}{n}|\bar h_b - \bar f_b|`, and what chance alone makes of it on average.

    The latter is :math:`\sum_b \frac{n_b}{n}\sqrt{2 V_b/\pi}`, the mean absolute value of normal errors.

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

    Each bin adds a number of mean 1: nothing was fitted, unlike where Hosmer and Lemeshow (1980, Communications in
    Statistics A 9) take two degrees of freedom off. Its variance is 2 plus the excess kurtosis of the bin's sum, which
    is large where few labels are expected. The p-value is that of a multiple of chi-square with the exact mean and
    variance (Satterthwaite 1946, Biometrics Bulletin 2), and so holds with few labels a bin too. Neighbouring bins are
    joined until each expects `at_least` that many labelled and unlabelled rows.

    Examples
    --------
    >>> f, s = np.full(40, 0.5), np.repeat([1.0, 0.0], [28, 12])
    >>> found = chi_square(f, np.ones(40), s, np.zeros(40, dtype=int))
    >>> round(found.statistic, 6), found.freedom, round(found.p_value, 4)
    (6.4, 1, 0.0109)
    """
    w = np.ones_like(f) if w is None else w
    chance = f * e
    joined = _join(_sums(bins, w * chance), _sums(bins, w), at_least)[bins]
    bernoulli = chance * (1.0 - chance)
    least = _least(joined, e)
    relative = least[joined] / e  # the statistic does not see the unit of 1/e, and its fourth powers would overflow
    residual = _sums(joined, w * (s * relative - f * least[joined]))
    variance = _sums(joined, w * (bernoulli * relative**2))
    certain = _sums(joined, w * bernoulli) <= 1e-100
    varies = ~certain & (variance > 1e-290)  # else some weight 1/e leaves nothing to be seen of the others
    if (_sums(joined, np.abs(s - chance)) > 0.5)[certain].any():  # what cannot be has happened
        return ChiSquare(np.inf, int(varies.sum()), np.nan, 0.0)
    if not varies.any():
        return ChiSquare(np.nan, 0, np.nan, np.nan)
    fourth = _sums(joined, w * bernoulli * (1.0 - 6.0 * bernoulli) * relative**4)
    excess = fourth[varies] / variance[varies] / variance[varies]
    statistic, freedom = float((residual[varies] ** 2 / variance[varies]).sum()), int(varies.sum())
    spread = 2.0 * freedom + float(excess.sum())
    scale = 0.5 * spread / freedom
    p_value = float(chdtrc(freedom / scale, statistic / scale)) if scale > 0 else np.nan
    return ChiSquare(statistic, freedom, spread, p_value)


def _join(labelled: Vector, n: Vector, at_least: float) -> Bins:
    """Number groups of neighbouring bins that each expect enough labelled and unlabelled rows."""
    group = np.zeros(n.size, dtype=np.intp)
    current, sums = 0, np.zeros(2)
    for b in range(n.size):
        group[b] = current
        sums += labelled[b], n[b] - labelled[b]
        if (sums >= at_least).all():
            current, sums = current + 1, np.zeros(2)
    return np.minimum(group, max(current - 1, 0))  # what is left over joins the last group that is large enough


def _sums(bins: Bins, values: Vector) -> Vector:
    return np.asarray(np.bincount(bins, weights=values))


def _least(bins: Bins, values: Vector) -> Vector:
    least = np.full(int(bins.max()) + 1, np.inf)
    np.minimum.at(least, bins, values)
    return least


def _quotient(top: Vector, bottom: Vector, *, otherwise: Vector) -> Vector:
    return np.divide(top, bottom, out=otherwise.copy(), where=bottom > 0)
