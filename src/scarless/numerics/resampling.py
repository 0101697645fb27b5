"""How often each row is drawn in a resample: a Poisson count from the row's number and a seed, and from nothing else.

Drawing a fixed number of rows needs all rows at once. With independent Poisson counts each block draws its own,
whatever blocks there are, and a resample is a weight per row.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from scarless.numerics.arrays import Vector

_MAX_TABLED_MEANS = 50  # distinct means that get a table each


def poisson_counts(number: NDArray[Any], mean: Vector, seed: int) -> Vector:
    """Return a Poisson count for each row number, with that mean.

    Examples
    --------
    >>> counts = poisson_counts(np.arange(10_000), np.ones(10_000), 7)
    >>> print(f"{counts.mean():.1f} {counts.var():.1f}")
    1.0 1.0
    >>> bool((poisson_counts(np.arange(5, 9), np.ones(4), 7) == counts[5:9]).all())
    True
    """
    u = uniforms(number, seed)
    if mean.size and mean[0] > 0 and (mean == mean[0]).all():  # as a rule
        return np.searchsorted(_chances(float(mean[0])), u, side="right").astype(np.float64)
    means = np.unique(mean)
    if means.size > _MAX_TABLED_MEANS:
        return np.asarray(poisson.ppf(u, mean))
    counts = np.zeros(mean.size)
    for each in means[means > 0]:
        here = mean == each
        counts[here] = np.searchsorted(_chances(float(each)), u[here], side="right")
    return counts


@lru_cache(_MAX_TABLED_MEANS)
def _chances(mean: float) -> Vector:
    """Return the probabilities of at most 0, 1, 2 and so on, up to where rounding makes them 1."""
    return np.asarray(poisson.cdf(np.arange(int(poisson.isf(1e-16, mean)) + 1), mean))


def uniforms(number: NDArray[Any], seed: int) -> Vector:
    """Return a number in [0, 1) for each row number, as good as random: splitmix64's mixing of number and seed.

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
