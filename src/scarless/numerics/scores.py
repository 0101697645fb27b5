r"""What the scores of labelled and unlabelled rows say about the label frequency.

A score orders rows by how likely they are labelled; :math:`g(x)` is one that estimates :math:`\Pr(s=1|x)`. Labels are
selected completely at random: :math:`g(x) = c\,\Pr(y=1|x)`. The scores are out of fold: a classifier knows the labels
of the rows it was trained on.

DEDPUL asks how many positives the ratio of two densities of scores leaves room for. Ivanov, "DEDPUL:
difference-of-estimated-densities-based positive-unlabeled learning", ICMLA 2020. Unlabelled rows are a mixture of
positives, which score like the labelled rows, and negatives: :math:`f_u = \pi_u f_l + (1-\pi_u) f_n`. With :math:`r =
f_l/f_u` an unlabelled row is negative with probability :math:`1 - \pi_u r`.
"""

from bisect import insort
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter1d, median_filter
from scipy.special import expit

from scarless.numerics.arrays import Vector

KERNEL_REACH = 8.0  # bandwidths: a Gaussian kernel has fallen to 1e-14 of its height there
#: Cells of the grid per bandwidth, for DEDPUL's densities of scores. Evidence: the sum over all pairs of rows is
#: met to 1e-3 (tests of `gaussian_density`).
CELLS_PER_BANDWIDTH = 64
#: Largest ratio of the densities of labelled and unlabelled scores in DEDPUL. Evidence: the code published with
#: Ivanov (2020).
MAX_DENSITY_RATIO = 50.0
#: Bandwidths of DEDPUL's kernel estimates on the scale of log-odds, in standard deviations. Evidence: the code
#: published with Ivanov (2020).
BANDWIDTH_LABELLED, BANDWIDTH_UNLABELLED = 0.1, 0.05
#: Distinct scores per row below which equal scores are the rule, and both of DEDPUL's kernels get the narrower
#: bandwidth. By judgement.
MIN_DISTINCT_SCORES = 0.5
#: Step between the shares of negatives that DEDPUL tries where expectation maximisation does not converge.
#: Evidence: the code published with Ivanov (2020).
SHARE_STEP = 0.001
#: Largest difference of mean posterior and share at which DEDPUL may take a share where expectation maximisation
#: does not converge. Evidence: the code published with Ivanov (2020).
MAX_SHARE_ERROR = 0.05


def mean_labelled_score(g: Vector, s: Vector, w: Vector) -> float:
    r"""Elkan and Noto's :math:`e_1`, the mean of :math:`g` over labelled rows.

    Its limit is :math:`c\,\mathrm{E}[\Pr(y=1|x)\mid y=1]`: right where no negative looks like a positive, else too low.

    Examples
    --------
    >>> mean_labelled_score(np.array([0.5, 0.25, 0.0]), np.array([1.0, 1.0, 0.0]), np.ones(3))
    0.375
    """
    return float((w * s) @ g) / float(w @ s)


def labelled_share_of_scores(g: Vector, s: Vector, w: Vector) -> float:
    r"""Elkan and Noto's :math:`e_2 = \sum_{s=1} g / \sum g`, 0 where no row has a score above 0.

    It equals :math:`e_1` where :math:`g` is calibrated: :math:`\sum g` is then the number of labelled rows.

    Examples
    --------
    >>> labelled_share_of_scores(np.array([0.5, 0.25, 0.25]), np.array([1.0, 0.0, 1.0]), np.ones(3))
    0.75
    """
    total = float(w @ g)
    return float((w * s) @ g) / total if total > 0 else 0.0


def largest_score(g: Vector, s: Vector, w: Vector) -> float:
    r"""Elkan and Noto's :math:`e_3 = \max g`: right where some row is surely positive and :math:`g` is exact there.

    A maximum picks the largest error of :math:`g`, so that noise pushes it up. Copies of a row change nothing.

    Examples
    --------
    >>> largest_score(np.array([0.5, 0.25]), np.array([1.0, 0.0]), np.ones(2))
    0.5
    """
    return float(g.max())


def prior_of_all(unlabelled_prior: float, n_labelled: float, n_unlabelled: float) -> float:
    r"""Class prior among all rows from that among the unlabelled ones: :math:`(n_l + \pi_u n_u) / (n_l + n_u)`.

    Examples
    --------
    >>> prior_of_all(0.5, 20, 80)
    0.6
    """
    return (n_labelled + unlabelled_prior * n_unlabelled) / (n_labelled + n_unlabelled)


class BestBin(NamedTuple):
    """The rows whose score is at least `threshold`, what they say and an upper confidence bound of it."""

    threshold: float
    unlabelled_prior: float
    upper_bound: float


def best_bin(scores: Vector, s: Vector, w: Vector, *, delta: float, gamma: float) -> BestBin:
    r"""Bound the share of positives among unlabelled rows from the top of the ranking.

    With :math:`q_l(z)`, :math:`q_u(z)` the shares of labelled and unlabelled rows that score at least :math:`z`,
    :math:`q_u \ge \pi_u q_l`, with equality where all rows above :math:`z` are positive. The threshold minimises

    .. math:: \frac{q_u}{q_l} + \frac{1+\gamma}{q_l}
              \Bigl(\sqrt{\tfrac{\log(4/\delta)}{2 n_u}} + \sqrt{\tfrac{\log(4/\delta)}{2 n_l}}\Bigr),

    and :math:`\pi_u` is the ratio there, at most 1. Equal scores stay together; of equally good thresholds the lowest
    is taken, which rests on most rows. Rows count as often as their weights say. Garg, Wu, Smola,
    Balakrishnan and Lipton, "Mixture proportion estimation and PU learning: a modern approach", NeurIPS 2021.

    Examples
    --------
    >>> scores, s = np.array([3.0, 2.0, 3.0, 2.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    >>> found = best_bin(scores, s, np.array([2.0, 1.0, 1.0, 1.0, 2.0]), delta=0.1, gamma=0.01)
    >>> found.threshold, found.unlabelled_prior
    (2.0, 0.5)
    """
    labelled = s == 1
    thresholds = np.unique(scores[labelled])  # between two of them q_l does not change and q_u only falls
    q_l, n_l = _share_from(thresholds, scores[labelled], w[labelled])
    q_u, n_u = _share_from(thresholds, scores[~labelled], w[~labelled])
    slack = np.sqrt(0.5 * np.log(4.0 / delta)) * (n_u**-0.5 + n_l**-0.5)
    upper = (q_u + (1.0 + gamma) * slack) / q_l
    best = int(np.argmin(upper))
    return BestBin(float(thresholds[best]), float(min(q_u[best] / q_l[best], 1.0)), float(upper[best]))


def _share_from(thresholds: Vector, values: Vector, w: Vector) -> tuple[Vector, float]:
    """Return the share of values that are at least each threshold, and how many values there are."""
    order = np.argsort(values, kind="stable")
    above = np.append(np.cumsum(w[order][::-1])[::-1], 0.0)
    return above[np.searchsorted(values[order], thresholds, side="left")] / above[0], float(above[0])


class RankingGap(NamedTuple):
    """How much better one score ranks labelled rows than another, as a difference of areas under the ROC curve."""

    difference: float
    standard_error: float

    @property
    def is_loss(self) -> bool:
        """Whether the first score is worse beyond chance: one-sided, 5%."""
        return self.difference < -1.645 * self.standard_error and self.difference < 0.0


def ranking_gap(first: Vector, second: Vector, s: Vector, w: Vector) -> RankingGap:
    r"""Compare two scores of the same rows by how they rank labelled above unlabelled rows.

    The area under the ROC curve is the mean over labelled rows of their *placement*, the share of unlabelled rows that
    score lower; ties count half. The standard error follows from the differences of the two scores' placements, among
    labelled and among unlabelled rows. DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more
    correlated receiver operating characteristic curves", Biometrics 1988.

    Examples
    --------
    >>> s, w = np.array([1.0, 1.0, 0.0, 0.0]), np.ones(4)
    >>> ranking_gap(np.array([4.0, 3.0, 2.0, 1.0]), np.array([4.0, 2.0, 3.0, 1.0]), s, w).difference
    0.25
    """
    labelled, n_l, n_u = s == 1, float(w @ s), float(w @ (1.0 - s))
    w_l, w_u = w[labelled], w[~labelled]
    of_l = [_placements(each[labelled], each[~labelled], w_u) for each in (first, second)]
    of_u = [1.0 - _placements(each[~labelled], each[labelled], w_l) for each in (first, second)]
    difference = float(w_l @ (of_l[0] - of_l[1])) / n_l
    spread = [w_k @ (a - b - difference) ** 2 / n for w_k, (a, b), n in ((w_l, of_l, n_l), (w_u, of_u, n_u))]
    variance = float(spread[0]) / max(n_l - 1.0, 1.0) + float(spread[1]) / max(n_u - 1.0, 1.0)
    return RankingGap(difference, float(np.sqrt(variance)))


def _placements(values: Vector, others: Vector, w: Vector) -> Vector:
    """Return the share of the others that lies below each value, ties by half."""
    order = np.argsort(others, kind="stable")
    below = np.append(0.0, np.cumsum(w[order]))
    left, right = (np.searchsorted(others[order], values, side=side) for side in ("left", "right"))
    return 0.5 * (below[left] + below[right]) / below[-1]


def gaussian_density(points: Vector, at: Vector, bandwidth: float) -> Vector:
    r"""Kernel estimate :math:`\frac{1}{nh}\sum_j \varphi\bigl(\frac{z - z_j}{h}\bigr)` at each `z` of `at`.

    The points are shared out between the two nearest cells of a grid, the grid is smoothed once and read off between
    its cells. Each of the two widens the kernel's variance by a share of at most :math:`1/(4 \cdot 64^2)`: where the
    sum over all pairs is not tiny it is met to 1e-3, in :math:`O(n + \text{range}/h)` instead of :math:`O(n^2)`.

    Examples
    --------
    >>> gaussian_density(np.array([0.0]), np.array([0.0, 1.0, 99.0]), 1.0).round(3)
    array([0.399, 0.242, 0.   ])
    """
    cell = bandwidth / CELLS_PER_BANDWIDTH
    margin = int(KERNEL_REACH * CELLS_PER_BANDWIDTH) + 1
    low = float(points.min())
    place = (points - low) / cell + margin
    left = place.astype(np.intp)
    part = place - left
    n_cells = int(left.max()) + margin + 2
    mass = np.bincount(left, 1.0 - part, n_cells) + np.bincount(left + 1, part, n_cells)
    smooth = gaussian_filter1d(mass, CELLS_PER_BANDWIDTH, mode="constant", truncate=KERNEL_REACH)
    density = smooth / (points.size * cell)
    return np.interp((at - low) / cell + margin, np.arange(n_cells), density, left=0.0, right=0.0)


def smoothed_ratio(labelled: Vector, unlabelled: Vector) -> Vector:
    """Return `f_l / f_u` of every unlabelled row, from the log-odds of being labelled; in order of falling scores.

    The raw ratio of two kernel estimates is noisy. It is capped, smoothed by a median over 11 neighbours, made to
    rise with the score where rows look labelled (a score above the midway of both means), and smoothed by a median over
    a tenth of the rows.
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
    """Return the kernel widths of both groups; a group without spread takes the other's, two take 1.

    Where most rows share their score with another, both groups take the narrower width: at such a heap the ratio of
    two kernel estimates is the ratio of the rows there only if the kernels are equally high.
    """
    h_l, h_u = BANDWIDTH_LABELLED * _spread(labelled), BANDWIDTH_UNLABELLED * _spread(unlabelled)
    h_l, h_u = h_l or h_u or 1.0, h_u or h_l or 1.0
    return (min(h_l, h_u),) * 2 if np.unique(unlabelled).size < MIN_DISTINCT_SCORES * unlabelled.size else (h_l, h_u)


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
    grid = np.arange(0.0, 1.0, SHARE_STEP)
    error = mean_posterior(grid) - grid
    bend = np.where(error[1:-1] < MAX_SHARE_ERROR, np.diff(error, 2), 0.0)
    if bend.max() < 1e-12:  # rounding: no bend at all
        return NegativeShare(fixed, True)
    sharpest = float(grid[1 + int(np.argmax(bend))])
    crossed = np.count_nonzero(error < 0) > 1 and fixed < 1.0 - SHARE_STEP
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
            return a if after - a < MAX_SHARE_ERROR else 1.0
        a = after
