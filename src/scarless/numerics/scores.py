r"""What the scores of labelled and unlabelled rows say about the label frequency.

A score orders rows by how likely they are labelled; :math:`g(x)` is one that estimates :math:`\Pr(s=1|x)`. Labels are
selected completely at random: :math:`g(x) = c\,\Pr(y=1|x)`. The scores are out of fold: a classifier knows the labels
of the rows it was trained on.
"""

from typing import NamedTuple

import numpy as np

from scarless.numerics.arrays import Vector


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
