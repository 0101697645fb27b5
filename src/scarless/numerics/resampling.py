"""Poisson bootstrap: the number of times that a row is drawn depends only on its row number and a seed.

A draw of a fixed number of rows needs all rows at once. With independent Poisson counts, each block draws its own rows,
and the result does not depend on how the rows are divided into blocks. The counts of a resample are used as row
weights.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from scarless.numerics.arrays import Vector

_MAX_TABLED_MEANS = 50  # largest number of distinct means for which tables of cumulative probabilities are used


def poisson_counts(number: NDArray[Any], mean: Vector, seed: int) -> Vector:
    """Return a Poisson count for each row number, with the given means.

    Examples
    --------
    >>> counts = poisson_counts(np.arange(10_000), np.ones(10_000), 7)
    >>> print(f"{counts.mean():.1f} {counts.var():.1f}")
    1.0 1.0
    >>> bool((poisson_counts(np.arange(5, 9), np.ones(4), 7) == counts[5:9]).all())
    True
    """
    u = uniforms(number, seed)
    if mean.size and mean[0] > 0 and (mean == mean[0]).all():  # the most frequent case
        return np.searchsorted(_cumulative_probabilities(float(mean[0])), u, side="right").astype(np.float64)
    means = np.unique(mean)
    if means.size > _MAX_TABLED_MEANS:
        return np.asarray(poisson.ppf(u, mean))
    counts = np.zeros(mean.size)
    for each in means[means > 0]:
        here = mean == each
        counts[here] = np.searchsorted(_cumulative_probabilities(float(each)), u[here], side="right")
    return counts


@lru_cache(_MAX_TABLED_MEANS)
def _cumulative_probabilities(mean: float) -> Vector:
    """Return the probabilities of counts of at most 0, 1, 2, ..., until they are 1 up to rounding."""
    return np.asarray(poisson.cdf(np.arange(int(poisson.isf(1e-16, mean)) + 1), mean))


def uniforms(number: NDArray[Any], seed: int) -> Vector:
    """Return a pseudo-random number in [0, 1) for each row number, a splitmix64 hash of row number and seed.

    Examples
    --------
    >>> u = uniforms(np.arange(1000), 3)
    >>> print(f"{u.mean():.1f} {u.min():.1f} {u.max():.1f}")
    0.5 0.0 1.0
    """
    mixed = np.asarray(number).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += _mixed(np.array([seed], dtype=np.uint64))
    return np.asarray((_mixed(mixed) >> np.uint64(11)) * 2.0**-53)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
