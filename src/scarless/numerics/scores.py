r"""Estimates of the label frequency from scores of labelled and unlabelled rows.

A score is higher for rows that are more likely to be labelled. Scores written as :math:`g(x)` estimate the probability
:math:`\Pr(s=1|x)` itself. Labels are assumed to be SCAR: :math:`g(x) = c\,\Pr(y=1|x)`. The scores must be out-of-fold,
because a classifier can reproduce the labels that it was trained on.

DEDPUL estimates the share of positives from the ratio of two densities of scores. Unlabelled rows are a mixture of
positives, whose scores are distributed like those of labelled rows, and negatives:
:math:`f_u = \pi_u f_l + (1-\pi_u) f_n`. With :math:`r = f_l/f_u`, an unlabelled row is negative with probability
:math:`1 - \pi_u r`. Ivanov, "DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning", ICMLA 2020.
"""

from bisect import insort
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d, median_filter
from scipy.special import expit

from scarless.numerics.arrays import Vector

KERNEL_CUTOFF = 8.0  # distance, in bandwidths, at which a Gaussian kernel is cut off; it is 1e-14 of its maximum there
#: Grid cells per bandwidth, for DEDPUL's densities of scores. Evidence: the result agrees with the sum over all pairs
#: of rows to 1e-3 (tests of `gaussian_density`).
CELLS_PER_BANDWIDTH = 64
#: Largest ratio of the densities of labelled and unlabelled scores in DEDPUL. Evidence: the code published with
#: Ivanov (2020).
MAX_DENSITY_RATIO = 50.0
#: Bandwidths of DEDPUL's kernel density estimates of log-odds, in standard deviations. Evidence: the code published
#: with Ivanov (2020).
BANDWIDTH_LABELLED, BANDWIDTH_UNLABELLED = 0.1, 0.05
#: Number of distinct scores per row below which both of DEDPUL's kernels use the smaller bandwidth, because most rows
#: have ties. By judgement.
MIN_DISTINCT_SCORES = 0.5
#: Step of the grid of shares of negatives that DEDPUL tries if expectation maximisation does not converge.
#: Evidence: the code published with Ivanov (2020).
SHARE_STEP = 0.001
#: Largest difference between mean posterior and share at which DEDPUL accepts a share of this grid. Evidence: the code
#: published with Ivanov (2020).
MAX_SHARE_ERROR = 0.05


def mean_labelled_score(g: Vector, s: Vector, w: Vector) -> float:
    r"""Return Elkan and Noto's estimate :math:`e_1`, the mean of :math:`g` over labelled rows.

    Its limit is :math:`c\,\mathrm{E}[\Pr(y=1|x)\mid y=1]`. This is `c` if the classes do not overlap, and less if they
    do.

    Examples
    --------
    >>> mean_labelled_score(np.array([0.5, 0.25, 0.0]), np.array([1.0, 1.0, 0.0]), np.ones(3))
    0.375
    """
    return float((w * s) @ g) / float(w @ s)


def labelled_share_of_scores(g: Vector, s: Vector, w: Vector) -> float:
    r"""Return Elkan and Noto's estimate :math:`e_2 = \sum_{s=1} g / \sum g`; 0 if all scores are 0.

    It equals :math:`e_1` if :math:`g` is calibrated, because :math:`\sum g` is then the number of labelled rows.

    Examples
    --------
    >>> labelled_share_of_scores(np.array([0.5, 0.25, 0.25]), np.array([1.0, 0.0, 1.0]), np.ones(3))
    0.75
    """
    total = float(w @ g)
    return float((w * s) @ g) / total if total > 0 else 0.0


def largest_score(g: Vector, s: Vector, w: Vector) -> float:
    r"""Return Elkan and Noto's estimate :math:`e_3 = \max g`.

    It is right if some row is certainly positive and :math:`g` is exact for this row. Errors of :math:`g` make the
    maximum too large. Weights are not used.

    Examples
    --------
    >>> largest_score(np.array([0.5, 0.25]), np.array([1.0, 0.0]), np.ones(2))
    0.5
    """
    return float(g.max())


def prior_of_all(unlabelled_prior: float, n_labelled: float, n_unlabelled: float) -> float:
    r"""Return the class prior of all rows from that of the unlabelled rows, :math:`(n_l + \pi_u n_u) / (n_l + n_u)`.

    Examples
    --------
    >>> prior_of_all(0.5, 20, 80)
    0.6
    """
    return (n_labelled + unlabelled_prior * n_unlabelled) / (n_labelled + n_unlabelled)


class BestBin(NamedTuple):
    """The threshold of the best bin, the share of positives that it implies, and an upper confidence bound."""

    threshold: float
    unlabelled_prior: float
    upper_bound: float


def best_bin(scores: Vector, s: Vector, w: Vector, *, delta: float, gamma: float) -> BestBin:
    r"""Estimate the share of positives among unlabelled rows from the rows with the highest scores.

    Let :math:`q_l(z)` and :math:`q_u(z)` be the shares of labelled and unlabelled rows with scores of at least
    :math:`z`. Then :math:`q_u \ge \pi_u q_l`, with equality if all rows above :math:`z` are positive. The threshold
    minimises

    .. math:: \frac{q_u}{q_l} + \frac{1+\gamma}{q_l}
              \Bigl(\sqrt{\tfrac{\log(4/\delta)}{2 n_u}} + \sqrt{\tfrac{\log(4/\delta)}{2 n_l}}\Bigr),

    and :math:`\pi_u` is the ratio :math:`q_u/q_l` at the threshold, at most 1. Rows with equal scores are not
    separated. Of equally good thresholds, the lowest is used, which has the most rows above it. Weights are counts of
    rows. Garg, Wu, Smola, Balakrishnan and Lipton, "Mixture proportion estimation and PU learning: a modern approach",
    NeurIPS 2021.

    Examples
    --------
    >>> scores, s = np.array([3.0, 2.0, 3.0, 2.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    >>> found = best_bin(scores, s, np.array([2.0, 1.0, 1.0, 1.0, 2.0]), delta=0.1, gamma=0.01)
    >>> found.threshold, found.unlabelled_prior
    (2.0, 0.5)
    """
    labelled = s == 1
    # Between two scores of labelled rows q_l is constant and q_u only decreases, so the minimum is at one of them.
    thresholds = np.unique(scores[labelled])
    q_l, n_l = _share_from(thresholds, scores[labelled], w[labelled])
    q_u, n_u = _share_from(thresholds, scores[~labelled], w[~labelled])
    slack = np.sqrt(0.5 * np.log(4.0 / delta)) * (n_u**-0.5 + n_l**-0.5)
    with np.errstate(over="ignore"):  # If all bounds are infinite, the first threshold is the best, as in the limit.
        upper = (q_u + (1.0 + gamma) * slack) / q_l
    best = int(np.argmin(upper))
    return BestBin(float(thresholds[best]), float(min(q_u[best] / q_l[best], 1.0)), float(upper[best]))


def _share_from(thresholds: Vector, values: Vector, w: Vector) -> tuple[Vector, float]:
    """Return the share of values that are at least each threshold, and the weight of all values."""
    order = np.argsort(values, kind="stable")
    above = np.append(np.cumsum(w[order][::-1])[::-1], 0.0)
    return above[np.searchsorted(values[order], thresholds, side="left")] / above[0], float(above[0])


class RankingGap(NamedTuple):
    """Difference between the areas under the ROC curve of two scores, with its standard error."""

    difference: float
    standard_error: float

    @property
    def is_loss(self) -> bool:
        """Whether the first score is significantly worse: one-sided test at 5%."""
        return self.difference < -1.645 * self.standard_error and self.difference < 0.0


class LikelihoodGap(NamedTuple):
    """Difference between the log-likelihoods of the same labels under two models, with its standard error."""

    difference: float
    standard_error: float


def likelihood_gap(first: Vector, second: Vector, w: Vector) -> LikelihoodGap:
    r"""Compare the log-likelihoods of rows under two models; `w` are weights of the rows.

    The standard error is that of a sum of independent differences, one for each row. Vuong, "Likelihood Ratio Tests for
    Model Selection and Non-Nested Hypotheses", Econometrica 1989.

    Examples
    --------
    >>> likelihood_gap(np.array([-1.0, -2.0]), np.array([-1.0, -1.0]), np.ones(2))
    LikelihoodGap(difference=-1.0, standard_error=0.707...)
    """
    apart = first - second
    difference = float(w @ apart)
    deviation = w * (apart - difference / float(w.sum()))
    return LikelihoodGap(difference, float(np.sqrt(deviation @ deviation)))


def ranking_gap(first: Vector, second: Vector, s: Vector, w: Vector) -> RankingGap:
    r"""Compare how well two scores of the same rows rank labelled above unlabelled rows.

    The area under the ROC curve is the mean *placement* of labelled rows. The placement of a row is the share of
    unlabelled rows with a lower score; ties count half. The standard error follows from the differences between the
    placements by the two scores, for labelled and for unlabelled rows. DeLong, DeLong and Clarke-Pearson, "Comparing
    the areas under two or more correlated receiver operating characteristic curves", Biometrics 1988.

    Examples
    --------
    >>> s, w = np.array([1.0, 1.0, 0.0, 0.0]), np.ones(4)
    >>> ranking_gap(np.array([4.0, 3.0, 2.0, 1.0]), np.array([4.0, 2.0, 3.0, 1.0]), s, w).difference
    0.25
    """
    labelled, n_l, n_u = s == 1, float(w @ s), float(w @ (1.0 - s))
    w_l, w_u = w[labelled], w[~labelled]
    of_l, of_u = zip(*(_placements(each, labelled, w) for each in (first, second)), strict=True)
    difference = float(w_l @ (of_l[0] - of_l[1])) / n_l
    spread = [w_k @ (a - b - difference) ** 2 / n for w_k, (a, b), n in ((w_l, of_l, n_l), (w_u, of_u, n_u))]
    variance = float(spread[0]) / max(n_l - 1.0, 1.0) + float(spread[1]) / max(n_u - 1.0, 1.0)
    return RankingGap(difference, float(np.sqrt(variance)))


def _placements(scores: Vector, labelled: NDArray[np.bool_], w: Vector) -> tuple[Vector, Vector]:
    """Return the placements of labelled rows, and the shares of labelled rows above each unlabelled row."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    first_of_tied = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    tied = np.repeat(np.arange(first_of_tied.size), np.diff(np.append(first_of_tied, scores.size)))

    def share_below(kind: NDArray[np.bool_]) -> Vector:
        weight = np.add.reduceat(np.where(kind, w, 0.0)[order], first_of_tied)
        share = np.empty(scores.size)
        share[order] = ((np.cumsum(weight) - 0.5 * weight) / weight.sum())[tied]
        return share

    return share_below(~labelled)[labelled], 1.0 - share_below(labelled)[~labelled]


def gaussian_density(points: Vector, at: Vector, bandwidth: float) -> Vector:
    r"""Return the kernel density estimate :math:`\frac{1}{nh}\sum_j \varphi\bigl(\frac{z - z_j}{h}\bigr)` at each `z`.

    Each point is divided between the two nearest cells of a grid. The grid is smoothed once and interpolated. Each of
    these steps increases the variance of the kernel by a share of at most :math:`1/(4 \cdot 64^2)`. Unless the density
    is tiny, it agrees with the exact sum to 1e-3. The cost is :math:`O(n + \text{range}/h)` instead of :math:`O(n^2)`.

    Examples
    --------
    >>> gaussian_density(np.array([0.0]), np.array([0.0, 1.0, 99.0]), 1.0).round(3)
    array([0.399, 0.242, 0.   ])
    """
    cell = bandwidth / CELLS_PER_BANDWIDTH
    margin = int(KERNEL_CUTOFF * CELLS_PER_BANDWIDTH) + 1
    low = float(points.min())
    place = (points - low) / cell + margin
    left = place.astype(np.intp)
    part = place - left
    n_cells = int(left.max()) + margin + 2
    mass = np.bincount(left, 1.0 - part, n_cells) + np.bincount(left + 1, part, n_cells)
    smooth = gaussian_filter1d(mass, CELLS_PER_BANDWIDTH, mode="constant", truncate=KERNEL_CUTOFF)
    density = smooth / (points.size * cell)
    return np.interp((at - low) / cell + margin, np.arange(n_cells), density, left=0.0, right=0.0)


def smoothed_ratio(labelled: Vector, unlabelled: Vector) -> Vector:
    """Return the density ratio `f_l / f_u` at each unlabelled row, in decreasing order of the scores.

    The scores are log-odds of a label. The raw ratio of two kernel density estimates is noisy. It is capped and
    smoothed by a running median of 11 values. Above the midpoint of the two mean scores, ratios are raised where
    necessary so that they never decrease with the score. Last, a running median over a tenth of the rows is taken.
    """
    z = np.sort(unlabelled)[::-1]
    h_l, h_u = bandwidths(labelled, unlabelled)
    ratio = np.minimum(gaussian_density(labelled, z, h_l) / gaussian_density(unlabelled, z, h_u), MAX_DENSITY_RATIO)
    ratio = rolling_median(ratio, 5)
    midway = 0.5 * (expit(labelled).mean() + expit(unlabelled).mean())
    top = int(np.count_nonzero(expit(z) >= midway))
    ratio[:top] = np.maximum.accumulate(ratio[:top][::-1])[::-1]
    return rolling_median(ratio, z.size // 20)


def bandwidths(labelled: Vector, unlabelled: Vector) -> tuple[float, float]:
    """Return the kernel bandwidths of labelled and unlabelled scores.

    A group of constant scores uses the bandwidth of the other group, or 1 if both are constant. If most rows have tied
    scores, both groups use the smaller bandwidth. The ratio of the two densities at a tied score is the ratio of the
    numbers of rows only if both kernels have the same height.
    """
    h_l, h_u = BANDWIDTH_LABELLED * _spread(labelled), BANDWIDTH_UNLABELLED * _spread(unlabelled)
    h_l, h_u = h_l or h_u or 1.0, h_u or h_l or 1.0
    return (min(h_l, h_u),) * 2 if np.unique(unlabelled).size < MIN_DISTINCT_SCORES * unlabelled.size else (h_l, h_u)


def _spread(z: Vector) -> float:
    spread = float(np.std(z, ddof=1)) if z.size > 1 else 0.0
    return spread if spread > 1e-12 * float(np.abs(z).max()) else 0.0  # A smaller value is rounding error.


def rolling_median(values: Vector, half: int) -> Vector:
    """Return the median of each value and its `half` neighbours on each side.

    Near an end, there are fewer neighbours, the same number on both sides. A monotone sequence does not change.

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
    """An estimated share of negatives, and whether expectation maximisation converged to it."""

    value: float
    converged: bool


class MeanPosterior:
    r"""The mean of :math:`\max(0, 1 - r_i(1-a))` over rows as a function of the negative share :math:`a`.

    Only rows with :math:`r_i < 1/(1-a)` contribute. The ratios are sorted once, and each evaluation then takes
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

    At the right share :math:`a`, the mean posterior probability of a negative is :math:`a` itself. Expectation
    maximisation starts at :math:`a = 0` and finds the first such point. If the densities are inaccurate, there may be
    no such point below 1. The error, mean posterior minus :math:`a`, still has a kink near the right share. The
    estimate is then the point with the largest second difference of the error, among points with errors below 0.05.

    Examples
    --------
    >>> share = negative_share(np.array([2.5, 2.5, 0.0, 0.0, 0.0]))  # two of five rows are certainly positive
    >>> round(share.value, 4), share.converged
    (0.6, True)
    """
    mean_posterior = MeanPosterior(ratio)
    fixed = fixed_point(mean_posterior, tol)
    grid = np.arange(0.0, 1.0, SHARE_STEP)
    error = mean_posterior(grid) - grid
    second_difference = np.where(error[1:-1] < MAX_SHARE_ERROR, np.diff(error, 2), 0.0)
    if second_difference.max() < 1e-12:  # only rounding error: there is no kink
        return NegativeShare(fixed, True)
    sharpest = float(grid[1 + int(np.argmax(second_difference))])
    crossed = np.count_nonzero(error < 0) > 1 and fixed < 1.0 - SHARE_STEP
    if sharpest >= fixed or crossed:
        return NegativeShare(fixed, True)
    return NegativeShare(sharpest, False)


def fixed_point(mean_posterior: MeanPosterior, tol: float) -> float:
    """Iterate from 0 until a step is below `tol`, or until all rows have a positive probability of being negative.

    From that point on, the iteration is linear and leads to 1. With exact densities the ratios have mean 1, and the
    next step is 0. If the next step is large, the densities are inaccurate, and the result is 1.
    """
    largest = float(mean_posterior.sorted[-1])
    a = 0.0
    while True:
        after = float(mean_posterior(a))
        if after - a < tol:
            return a
        if (1.0 - a) * largest < 1.0:
            return a if after - a < MAX_SHARE_ERROR else 1.0
        a = after
