"""Poisson bootstrap: the number of times that a row is drawn depends only on its row number and a seed.

A draw of a fixed number of rows needs all rows at once. With independent Poisson counts, each block draws its own rows,
and the result does not depend on how the rows are divided into blocks. The counts of a resample are used as row
weights.
"""

from functools import lru_cache

import numpy as np
from scipy.stats import poisson

from scarless.numerics.arrays import Integers, Vector, in_float64, in_numpy, like, namespace_of

_MAX_TABLED_MEANS = 50  # largest number of distinct means for which tables of cumulative probabilities are used


def poisson_counts(number: Integers, mean: Vector, seed: int) -> Vector:
    """Return a Poisson count for each row number, with the given means; on the device of the means if all are equal.

    Examples
    --------
    >>> counts = poisson_counts(np.arange(10_000), np.ones(10_000), 7)
    >>> print(f"{counts.mean():.1f} {counts.var():.1f}")
    1.0 1.0
    >>> bool((poisson_counts(np.arange(5, 9), np.ones(4), 7) == counts[5:9]).all())
    True
    """
    xp, mean_of_first = namespace_of(mean), float(mean[0]) if mean.shape[0] else 0.0
    if mean_of_first > 0 and bool(xp.all(mean == mean_of_first)):  # the most frequent case
        u = uniforms(number if xp is np else xp.asarray(number, dtype=xp.int64, device=mean.device), seed)
        return in_float64(xp.searchsorted(like(u, _cumulative_probabilities(mean_of_first)), u, side="right"))
    u, mean = uniforms(number, seed), in_numpy(mean)
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


def uniforms(number: Integers, seed: int) -> Vector:
    """Return a pseudo-random number in [0, 1) for each row number, a splitmix64 hash of row number and seed.

    Examples
    --------
    >>> u = uniforms(np.arange(1000), 3)
    >>> print(f"{u.mean():.1f} {u.min():.1f} {u.max():.1f}")
    0.5 0.0 1.0
    """
    offset = int(_mixed(np.asarray([seed], dtype=np.int64))[0])
    if namespace_of(number) is np:
        number = np.asarray(number, dtype=np.int64)
    bits = _mixed(number * _signed(0x9E3779B97F4A7C15) + offset)
    return in_float64((bits >> 11) & (2**53 - 1)) * 2.0**-53


def _mixed(bits: Integers) -> Integers:
    """Return the last steps of splitmix64. Products of 64-bit integers keep their last 64 bits, signed or not."""
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Integers, places: int) -> Integers:
    """Shift bits to the right and fill with 0. A shift of signed integers, the only ones of PyTorch, fills with 1."""
    return (bits >> places) & (2 ** (64 - places) - 1)


def _signed(number: int) -> int:
    """Return the signed 64-bit integer with the bits of an unsigned one."""
    return number - 2**64 if number >= 2**63 else number
