r"""DEDPUL: how many positives the ratio of two densities of scores leaves room for.

Ivanov, "DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning", ICMLA 2020. Unlabelled rows are
a mixture of positives, which score like the labelled rows, and negatives: :math:`f_u = \pi_u f_l + (1-\pi_u) f_n`.
With :math:`r = f_l/f_u` an unlabelled row is negative with probability :math:`1 - \pi_u r`.
"""

from bisect import insort
from typing import NamedTuple

import numpy as np
from scipy.ndimage import median_filter
from scipy.special import expit

from scarless.numerics.arrays import Vector
from scarless.numerics.density import gaussian_density

LARGEST_RATIO = 50.0
FACTOR_LABELLED, FACTOR_UNLABELLED = 0.1, 0.05  # bandwidth, in standard deviations
HEAPS = 0.5  # distinct scores per row: with fewer, equal scores are the rule
STEP = 0.001  # between the shares that are tried
LARGEST_ERROR = 0.05


def smoothed_ratio(labelled: Vector, unlabelled: Vector) -> Vector:
    """Return `f_l / f_u` of every unlabelled row, from the log-odds of being labelled; in order of falling scores.

    The raw ratio of two kernel estimates is noisy. It is capped, smoothed by a median over 11 neighbours, made to
    rise with the score where rows look labelled (a score above the midway of both means), and smoothed by a median over
    a tenth of the rows.
    """
    z = np.sort(unlabelled)[::-1]
    h_l, h_u = bandwidths(labelled, unlabelled)
    ratio = np.minimum(gaussian_density(labelled, z, h_l) / gaussian_density(unlabelled, z, h_u), LARGEST_RATIO)
    ratio = rolling_median(ratio, 5)
    midway = 0.5 * (expit(labelled).mean() + expit(unlabelled).mean())
    top = int(np.count_nonzero(expit(z) >= midway))
    ratio[:top] = np.maximum.accumulate(ratio[:top][::-1])[::-1]
    return rolling_median(ratio, z.size // 20)


def bandwidths(labelled: Vector, unlabelled: Vector) -> tuple[float, float]:
    """Return the kernel widths of both groups; a group without spread takes the other's, two take 1.

    Where most rows share their score with another, both groups take the narrower width: at such a heap the ratio of
    two kernel estimates is the ratio of the rows there only if the kernels are equally high.
    """
    h_l, h_u = FACTOR_LABELLED * _spread(labelled), FACTOR_UNLABELLED * _spread(unlabelled)
    h_l, h_u = h_l or h_u or 1.0, h_u or h_l or 1.0
    return (min(h_l, h_u),) * 2 if np.unique(unlabelled).size < HEAPS * unlabelled.size else (h_l, h_u)


def _spread(z: Vector) -> float:
    spread = float(np.std(z, ddof=1)) if z.size > 1 else 0.0
    return spread if spread > 1e-12 * float(np.abs(z).max()) else 0.0  # less is rounding


def rolling_median(values: Vector, half: int) -> Vector:
    """Median of each value and `half` neighbours on either side, fewer on both sides near an end.

    A monotone sequence stays as it is.

    Examples
    --------
    >>> rolling_median(np.array([5.0, 1.0, 2.0, 9.0, 3.0]), 1)
    array([5., 2., 2., 3., 3.])
    """
    half = min(half, (values.size - 1) // 2)
    if half == 0:
        return values.copy()
    out = median_filter(values, size=2 * half + 1, mode="nearest")
    out[:half] = _growing_median(values, half)
    out[values.size - half :] = _growing_median(values[::-1], half)[::-1]
    return out


def _growing_median(values: Vector, count: int) -> list[float]:
    """Return the medians of the first 1, 3, 5, ... values."""
    window: list[float] = []
    out = []
    head = values[: 2 * count].tolist()
    for i in range(count):
        for value in head[max(2 * i - 1, 0) : 2 * i + 1]:
            insort(window, value)
        out.append(window[i])
    return out


class NegativeShare(NamedTuple):
    """A share of negatives, and whether it is where the posteriors reproduce it."""

    value: float
    converged: bool


class MeanPosterior:
    r"""The mean of :math:`\max(0, 1 - r_i(1-a))` over rows as a function of the negative share :math:`a`.

    A row counts while :math:`r_i < 1/(1-a)`: with the ratios sorted once, sums over them are read off in
    :math:`O(\log n)`.
    """

    def __init__(self, ratio: Vector) -> None:
        self.sorted = np.sort(ratio)
        self.sums = np.concatenate([[0.0], np.cumsum(self.sorted)])

    def __call__(self, a: Vector | float) -> Vector:
        """Return the mean posterior for each share."""
        rest = 1.0 - np.asarray(a)
        with np.errstate(divide="ignore"):
            count = np.searchsorted(self.sorted, 1.0 / rest, side="left")
        return (count - rest * self.sums[count]) / self.sorted.size


def negative_share(ratio: Vector, *, tol: float = 1e-5) -> NegativeShare:
    r"""Return the share of negatives :math:`a = 1 - \pi_u` among rows with density ratios :math:`r_i`.

    The mean posterior of a negative should be :math:`a` itself. Expectation maximisation climbs from :math:`a = 0` to
    the first such point. Where densities are off there may be none below 1; then the error, mean posterior minus
    :math:`a`, still has a bend near the right share, and the sharpest bend among errors below 0.05 is taken.

    Examples
    --------
    >>> share = negative_share(np.array([2.5, 2.5, 0.0, 0.0, 0.0]))  # two of five rows are surely positive
    >>> round(share.value, 4), share.converged
    (0.6, True)
    """
    mean_posterior = MeanPosterior(ratio)
    fixed = fixed_point(mean_posterior, tol)
    grid = np.arange(0.0, 1.0, STEP)
    error = mean_posterior(grid) - grid
    bend = np.where(error[1:-1] < LARGEST_ERROR, np.diff(error, 2), 0.0)
    if bend.max() < 1e-12:  # rounding: no bend at all
        return NegativeShare(fixed, True)
    sharpest = float(grid[1 + int(np.argmax(bend))])
    crossed = np.count_nonzero(error < 0) > 1 and fixed < 1.0 - STEP
    if sharpest >= fixed or crossed:
        return NegativeShare(fixed, True)
    return NegativeShare(sharpest, False)


def fixed_point(mean_posterior: MeanPosterior, tol: float) -> float:
    """Climb from 0 until a step is below `tol`, or until every row has a chance to be negative.

    From the latter point on steps lead to 1 in a straight line, faster the less the ratios fit a mixture: where
    the next one is large, 1 is the answer.
    """
    largest = float(mean_posterior.sorted[-1])
    a = 0.0
    while True:
        after = float(mean_posterior(a))
        if after - a < tol:
            return a
        if (1.0 - a) * largest < 1.0:
            return a if after - a < LARGEST_ERROR else 1.0
        a = after
