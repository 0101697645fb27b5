"""Confidence intervals of scores over runs, and rank tests of methods over datasets."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum, isfinite, sqrt
from typing import Any

import numpy as np
from scipy import stats

from scarless.numerics.arrays import Matrix, Vector

#: Confidence level of intervals over runs on the page of a comparison. By judgement: the usual level.
CONFIDENCE = 0.95
#: Significance level of the Friedman and Nemenyi tests on the page of a comparison. Evidence: the level of Demsar
#: (2006), JMLR 7.
SIGNIFICANCE = 0.05
#: Minimum number of datasets, and of methods, for a rank test on the page of a comparison. By judgement.
MIN_COMPARED = 3


@dataclass(frozen=True)
class MeanInterval:
    """The mean of `n` values and the half-width of its confidence interval; NaN if there is none."""

    mean: float
    half: float
    n: int

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return abs(self.mean) > self.half


def mean_interval(values: Sequence[float] | Vector) -> MeanInterval:
    r"""Return the mean and its t interval at 95%.

    .. math:: \bar v \pm t_{n-1,\,0.975}\, \frac{\mathrm{sd}(v)}{\sqrt n}

    The interval is exact for independent values from a normal distribution. Runs on one dataset are not independent:
    they share splits, and splits share rows. The interval describes the spread of this protocol and is too narrow for
    new data (Nadeau and Bengio, 2003). Values that are not finite are left out; a single value has no interval.

    References
    ----------
    Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.

    Examples
    --------
    >>> mean_interval([1.0, 2.0, 3.0])
    MeanInterval(mean=2.0, half=2.48..., n=3)
    """
    # Most rows have few runs, for which Python's sums are several times faster than NumPy's.
    finite = [float(value) for value in values if value is not None and isfinite(value)]
    n = len(finite)
    if n == 0:
        return MeanInterval(float("nan"), float("nan"), 0)
    if n > 1 and min(finite) == max(finite):  # A computed mean would have rounding errors.
        return MeanInterval(finite[0], 0.0, n)
    mean = fsum(finite) / n
    variance = fsum((value - mean) ** 2 for value in finite) / (n - 1) if n > 1 else float("nan")
    return MeanInterval(mean, _t_quantile(n - 1) * sqrt(variance / n) if n > 1 else float("nan"), n)


def mean_of_finite(values: Any, axis: int) -> Any:
    """Return the mean of the finite values along an axis, and NaN where there are none.

    Examples
    --------
    >>> mean_of_finite([[1.0, float("nan")], [float("nan"), float("nan")], [1.0, 2.0]], axis=1)
    array([1. , nan, 1.5])
    """
    values = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(values)
    counts = finite.sum(axis=axis)
    return np.where(counts > 0, np.where(finite, values, 0.0).sum(axis=axis) / np.maximum(counts, 1), np.nan)


@lru_cache
def _t_quantile(degrees: int) -> float:
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, degrees))


@dataclass(frozen=True)
class Comparison:
    """A comparison of methods over datasets by the ranks of their scores; rank 1 is best.

    `problem` is the reason why there is no test, or ""; without a test, its results are NaN.
    """

    methods: tuple[str, ...]
    n_datasets: int
    average_ranks: Vector
    friedman_statistic: float
    friedman_p: float
    nemenyi_p: Matrix
    critical_difference: float
    problem: str = ""

    @property
    def differs(self) -> bool:
        """Whether the Friedman test is significant."""
        return self.friedman_p < SIGNIFICANCE

    def rank(self, method: str) -> float:
        """Return the average rank of a method, or NaN if it was not compared."""
        return float(self.average_ranks[self.methods.index(method)]) if method in self.methods else float("nan")

    def p_value(self, one: str, other: str) -> float:
        """Return the p-value of the Nemenyi test for two methods, or NaN if there is none."""
        if one not in self.methods or other not in self.methods:
            return float("nan")
        return float(self.nemenyi_p[self.methods.index(one), self.methods.index(other)])

    def significant(self, one: str, other: str) -> bool:
        """Whether two methods differ significantly in both the Friedman test and the Nemenyi test."""
        return self.differs and self.p_value(one, other) < SIGNIFICANCE


def compare_methods(scores: Any, methods: Sequence[str], *, lower_is_better: bool) -> Comparison:
    """Rank methods on each dataset, and test the average ranks with the Friedman and the Nemenyi test.

    Parameters
    ----------
    scores : array of shape (n_datasets, n_methods)
        Mean score of each method on each dataset. Datasets with a missing (NaN) score are left out.
    methods : sequence of str
        Names of the methods, one for each column.
    lower_is_better : bool
        Whether the lowest score gets rank 1. Equal scores get the mean of their ranks.

    Returns
    -------
    Comparison

    References
    ----------
    Demsar, J. (2006). Statistical comparisons of classifiers over multiple data sets. JMLR 7, 1-30.

    Examples
    --------
    >>> scores = [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.2, 0.1, 0.3], [0.1, 0.2, 0.3]]
    >>> found = compare_methods(scores, ["a", "b", "c"], lower_is_better=True)
    >>> found.average_ranks.tolist(), round(found.friedman_p, 3), found.significant("a", "c")
    ([1.25, 1.75, 3.0], 0.039, True)
    """
    table = np.asarray(scores, dtype=np.float64).reshape(-1, len(methods))
    table = table[~np.isnan(table).any(axis=1)] * (1.0 if lower_is_better else -1.0)
    n, m = table.shape
    ranks = stats.rankdata(table, axis=1) if table.size else np.empty((0, m))
    average = ranks.mean(axis=0) if n else np.full(m, np.nan)
    problem = _why_no_test(ranks)
    if problem:
        nothing = np.full((m, m), np.nan)
        return Comparison(tuple(methods), n, average, float("nan"), float("nan"), nothing, float("nan"), problem)
    statistic, p = stats.friedmanchisquare(*table.T)
    cd = critical_difference(m, n)
    return Comparison(tuple(methods), n, average, float(statistic), float(p), _nemenyi_p_values(average, n), cd)


def _nemenyi_p_values(average_ranks: Vector, n_datasets: int) -> Matrix:
    r"""Return the p-value of the Nemenyi test for each pair of methods.

    The statistic is the difference of average ranks divided by :math:`\sqrt{m(m+1)/(12 N)}`. It has the distribution of
    the studentized range.
    """
    m = average_ranks.size
    above = np.triu_indices(m, 1)
    gaps = np.abs(np.subtract.outer(average_ranks, average_ranks))[above]
    p_values = np.ones((m, m))
    p_values[above] = stats.studentized_range.sf(gaps / (m * (m + 1) / (12 * n_datasets)) ** 0.5, m, np.inf)
    return np.minimum(p_values, p_values.T)


def _why_no_test(ranks: Matrix) -> str:
    n, m = ranks.shape
    if m < MIN_COMPARED:
        return f"a rank test needs at least {MIN_COMPARED} methods; there {_are(m)}"
    if n < MIN_COMPARED:
        return f"a rank test needs at least {MIN_COMPARED} datasets with results of all methods; there {_are(n)}"
    if np.all(ranks == ranks[0, 0]):
        return "all methods have the same score on every dataset"
    return ""


def _are(n: int) -> str:
    return {0: "is none", 1: "is 1"}.get(n, f"are {n}")


@lru_cache
def critical_difference(n_methods: int, n_datasets: int, significance: float = SIGNIFICANCE) -> float:
    r"""Return the smallest difference of average ranks that is significant in the Nemenyi test.

    .. math:: \frac{q_{\alpha,m,\infty}}{\sqrt 2} \sqrt{\frac{m (m+1)}{6 N}}

    where `q` is the quantile of the studentized range for `m` methods, and `N` is the number of datasets.

    Examples
    --------
    >>> round(critical_difference(5, 30), 2)
    1.11
    """
    q = float(stats.studentized_range.ppf(1 - significance, n_methods, np.inf))
    return q / 2**0.5 * (n_methods * (n_methods + 1) / (6 * n_datasets)) ** 0.5


def groups_alike(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the largest groups of methods whose average ranks do not differ significantly, the best ranks first.

    Groups have two or more methods. Without a test, there are no groups.

    Examples
    --------
    >>> scores = [[0.1, 0.2, 0.3, 0.4]] * 4
    >>> groups_alike(compare_methods(scores, ["a", "b", "c", "d"], lower_is_better=True))
    [('a', 'b', 'c'), ('b', 'c', 'd')]
    """
    if comparison.problem:
        return []
    order = np.argsort(comparison.average_ranks, kind="stable")
    ranks = comparison.average_ranks[order]
    found: list[tuple[str, ...]] = []
    reached = 0
    for first, rank in enumerate(ranks):
        end = int(np.searchsorted(ranks, rank + comparison.critical_difference, side="left"))
        if end > reached and end - first > 1:
            found.append(tuple(comparison.methods[i] for i in order[first:end]))
        reached = max(reached, end)
    return found
