"""Comparisons of two samples of rows, and of observed with predicted labels."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit, kolmogorov

from scarless.numerics.arrays import Matrix, Vector

_MAX_SHIFT = 12.0  # largest shift of logits; beyond it, all probabilities are 0 or 1
_MIN_PROBABILITY = 1e-12
_STEPS, _TOLERANCE = 60, 1e-8
_MIN_P_VALUE = 1e-16  # smaller p-values are rounding errors


def bin_sums(codes: Any, values: Vector, n_bins: int) -> Vector:
    """Return the sum of the values in each bin.

    Examples
    --------
    >>> bin_sums(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3)
    array([1., 0., 5.])
    """
    return np.asarray(np.bincount(codes, weights=values, minlength=n_bins), dtype=np.float64)


def ks_distance(old: Vector, new: Vector) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples in the same ordered bins.

    Examples
    --------
    >>> ks_distance(np.array([5.0, 5.0, 0.0]), np.array([0.0, 5.0, 5.0]))
    0.5
    """
    if old.sum() <= 0 or new.sum() <= 0:
        return 0.0
    return float(np.abs(np.cumsum(old / old.sum()) - np.cumsum(new / new.sum())).max())


def ks_p_value(distance: float, n: float, m: float) -> float:
    """Return the p-value of a Kolmogorov-Smirnov distance, which is conservative for values in bins."""
    return float(kolmogorov(np.sqrt(n * m / (n + m)) * distance)) if min(n, m) > 0 else 1.0


def total_variation(old: Vector, new: Vector) -> float:
    """Return the total variation distance: the smallest share of rows that must change their bin.

    Examples
    --------
    >>> print(round(total_variation(np.array([6.0, 4.0]), np.array([4.0, 6.0])), 3))
    0.2
    """
    return float(0.5 * np.abs(old / old.sum() - new / new.sum()).sum())


def homogeneity_p_value(old: Vector, new: Vector) -> float:
    """Return the p-value of the chi-square test that two samples of counts have the same distribution.

    Bins in which fewer than 5 rows are expected in either sample are pooled with the next smallest bins.
    """
    total, n, m = old + new, old.sum(), new.sum()
    if min(n, m) <= 0:
        return 1.0
    order = np.argsort(total)
    least = total * min(n, m) / (n + m)
    merged: list[list[float]] = []
    for j in order:
        if not merged or merged[-1][2] >= 5.0:
            merged.append([0.0, 0.0, 0.0])
        merged[-1] = [a + b for a, b in zip(merged[-1], (old[j], new[j], least[j]), strict=True)]
    if len(merged) > 1 and merged[-1][2] < 5.0:
        last = merged.pop()
        merged[-1] = [a + b for a, b in zip(merged[-1], last, strict=True)]
    counts = np.array(merged)[:, :2]
    counts = counts[counts.sum(axis=1) > 0]
    if len(counts) < 2:
        return 1.0
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    return float(stats.chi2.sf(float((np.square(counts - expected) / expected).sum()), len(counts) - 1))


class FittedShift(NamedTuple):
    """A common shift of logits that fits labels best, with its information and log-likelihood gain."""

    shift: Vector
    information: Vector
    gain: Vector


def fit_shift(moving: Matrix, other: Matrix, wrong: Vector | float, s: Vector, w: Vector) -> FittedShift:
    r"""Shift the logits of one of two factors of the probability of a label, to maximise the likelihood of labels.

    .. math:: \max_\delta \sum_i w_i \bigl[s_i \log p_i + (1 - s_i) \log(1 - p_i)\bigr], \qquad
        p_i = \sigma(u_i + \delta)\, o_i + (1 - \sigma(u_i + \delta))\, h_i

    A shift of the class logit is a change of the class prior with the same distribution of attributes in each class
    (label shift; Saerens, Latinne and Decaestecker 2002, Neural Computation 14).

    Parameters
    ----------
    moving : array of shape (n_rows, n_draws)
        Logits :math:`u` that are shifted.
    other : array of shape (n_rows, n_draws)
        The other factor :math:`o`.
    wrong : array of shape (n_rows, 1), or 0.0
        Probability of a label if the first factor is 0, :math:`h`.
    s, w : arrays of shape (n_rows,)
        Labels and weights.

    Returns
    -------
    FittedShift
        A value for each draw.

    Examples
    --------
    >>> s = np.array([1.0, 1.0, 1.0, 0.0])
    >>> found = fit_shift(np.zeros((4, 1)), np.ones((4, 1)), 0.0, s, np.ones(4))
    >>> print(found.shift.round(4), np.log(3.0).round(4))
    [1.0986] 1.0986
    """
    delta = np.zeros(moving.shape[1])
    for _ in range(_STEPS):
        score, information, _ = _shift_sums(moving + delta, other, wrong, s, w)
        step = np.clip(score / np.maximum(information, 1e-12), -1.0, 1.0)
        delta = np.clip(delta + step, -_MAX_SHIFT, _MAX_SHIFT)
        if np.abs(step).max(initial=0.0) < _TOLERANCE:
            break
    _, information, value = _shift_sums(moving + delta, other, wrong, s, w)
    return FittedShift(delta, information, value - _shift_sums(moving, other, wrong, s, w)[2])


def _shift_sums(u: Matrix, other: Matrix, wrong: Vector | float, s: Vector, w: Vector) -> tuple[Vector, Vector, Vector]:
    f = expit(u)
    p = np.clip(f * other + (1.0 - f) * wrong, _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)
    slope = f * (1.0 - f) * (other - wrong)
    y, v = s[:, None], p * (1.0 - p)
    score = w @ ((y - p) * slope / v)
    value = w @ np.where(y == 1, np.log(p), np.log1p(-p))
    return np.asarray(score), np.asarray(w @ (np.square(slope) / v)), np.asarray(value)


def count_p_value(observed: float, mean: Vector, variance: Vector) -> float:
    r"""Return the two-sided mid p-value of a number of labels, averaged over draws of its mean and variance.

    The number is a sum of independent draws with different probabilities. It is approximated by the binomial
    distribution with the same mean and variance.

    Examples
    --------
    >>> print(round(count_p_value(9, np.array([5.0]), np.array([2.5])), 4))
    0.0117
    """
    share = np.clip(1.0 - variance / np.maximum(mean, 1e-300), 1e-9, 1.0)
    n = np.maximum(np.rint(mean / share), 1.0)
    q = np.clip(mean / n, 0.0, 1.0)
    below = float(np.mean(stats.binom.cdf(observed - 1, n, q) + 0.5 * stats.binom.pmf(observed, n, q)))
    return float(np.clip(2.0 * min(below, 1.0 - below), _MIN_P_VALUE, 1.0))


def residual_p_value(residual: Vector, variance: Vector, errors: Matrix) -> float:
    """Return the p-value of a chi-square test that all residuals are 0.

    Parameters
    ----------
    residual : array of shape (n_groups,)
        Observed minus expected number of labels.
    variance : array of shape (n_groups,)
        Variance of the observed number.
    errors : array of shape (n_draws, n_groups)
        Draws of the estimation error of the expected number.

    Returns
    -------
    float

    Examples
    --------
    >>> print(round(residual_p_value(np.array([1.96]), np.ones(1), np.zeros((1, 1))), 3))
    0.05
    """
    if residual.size == 0:
        return 1.0
    covariance = np.diag(variance) + errors.T @ errors / max(len(errors), 1)
    statistic = float(residual @ np.linalg.lstsq(covariance, residual, rcond=None)[0])
    return float(stats.chi2.sf(statistic, residual.size))


def uneven_p_value(observed: Vector, expected: Vector, variance: Vector, errors: Matrix) -> float:
    """Return the p-value of a test that observed and expected numbers have the same ratio in all groups.

    The ratio of the totals is estimated, so the test does not depend on whether labels became rarer everywhere. See
    `residual_p_value` for the parameters; `variance` is the variance at this ratio.

    Examples
    --------
    >>> expected, no_errors = np.array([50.0, 50.0]), np.zeros((1, 2))
    >>> uneven_p_value(0.5 * expected, expected, expected, no_errors)
    1.0
    >>> uneven_p_value(np.array([20.0, 60.0]), expected, expected, no_errors) < 0.001
    True
    """
    if observed.size < 2 or observed.sum() <= 0 or expected.sum() <= 0:
        return 1.0
    ratio, share = observed.sum() / expected.sum(), expected / expected.sum()
    centring = np.eye(observed.size) - share[:, None]
    covariance = centring @ (np.diag(variance) + ratio**2 * errors.T @ errors / max(len(errors), 1)) @ centring.T
    residual = (observed - ratio * expected)[:-1]  # The residuals add up to 0.
    statistic = float(residual @ np.linalg.lstsq(covariance[:-1, :-1], residual, rcond=None)[0])
    return float(stats.chi2.sf(statistic, residual.size))
