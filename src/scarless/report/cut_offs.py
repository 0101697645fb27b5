"""Methods that share a ranking and differ in their cut-offs only, and how much a cut-off explains."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scarless.outside.notices import listed
from scarless.report.chapters import Chapter, Point, Points
from scarless.report.names import SCORES
from scarless.report.results import Results
from scarless.report.tables import Table, TableCell, section
from scarless.report.words import NO_VALUE, plain, signed

RANKING_SCORES = ("auc_f", "average_precision")  # equal for equal rankings, whatever the cut-off
OWN, AT_PRIOR = "balanced_accuracy", "balanced_accuracy_at_prior"
SAME = 5e-4  # Smaller differences are not visible in three decimals.
EQUAL_WITHIN = 1e-9  # Two sums of the same terms in another order differ by less.
#: Largest difference of ROC-AUC or average precision, in any run, of methods that count as one ranking. Two solvers of
#: one problem can swap rows that are almost tied, and a limit of probabilities can tie rows. Evidence: up to 0.002
#: for the naive classifier and 0.015 for PGlin, against cut-offs of the same model, in 1,200 runs of `teisseyre2025`.
ALIKE_WITHIN = 0.02
MIN_EQUAL_SHARE = 0.5  # of the runs, in which both scores must be equal
NOTE = (
    "Some methods rank the rows in the same order and differ only in where they cut. ROC-AUC and average precision do "
    "not depend on the cut-off, so methods are grouped here if both agree in every run that the methods share: within "
    "0.02, because two solvers can swap rows that are almost tied, and a limit of probabilities can tie rows, and "
    "exactly in at least half of the runs. The "
    "last columns cut the ranking so that the share of rows called positive is the true class prior, which no method "
    "that does not know the prior could do."
)


def equal_rankings(results: Results) -> list[tuple[str, ...]]:
    """Return groups of two or more methods whose rankings are equal in every run that they share.

    Parameters
    ----------
    results : Results
        Results of the experiment.

    Returns
    -------
    list of tuple of str
        Two methods are in one group if `auc_f` and `average_precision` differ by at most 0.02 in every common run, and
        by at most 1e-9 in at least half of them. At least one common run must have an imperfect ranking, because all
        perfect rankings have the same scores.
    """
    if len(results.scores(RANKING_SCORES)) < len(RANKING_SCORES):
        return []
    values = np.stack([_by_method(results.cube(score)) for score in RANKING_SCORES], axis=2)
    groups: list[list[int]] = []
    for i in range(len(results.methods)):
        group = next((each for each in groups if all(_same(values[i], values[j]) for j in each)), None)
        if group is None:
            groups.append([i])
        else:
            group.append(i)
    return [tuple(results.methods[i] for i in group) for group in groups if len(group) > 1]


def _by_method(cube: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a cube as an array with a row for each method and a column for each run."""
    return np.moveaxis(cube, 2, 0).reshape(cube.shape[2], -1)


def _same(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    common = np.isfinite(one).all(axis=1) & np.isfinite(other).all(axis=1)
    a, b = one[common], other[common]
    apart = np.abs(a - b)
    exactly = (apart <= EQUAL_WITHIN).all(axis=1).mean() if len(a) else 0.0
    alike = (apart <= ALIKE_WITHIN).all() and exactly >= MIN_EQUAL_SHARE
    return bool((a < 1.0 - EQUAL_WITHIN).any() and alike)


def cut_offs_chapter(results: Results) -> Chapter | None:
    """Return the chapter about methods with one ranking; None without own decisions, or without any such methods.

    Parameters
    ----------
    results : Results
        Results of the experiment.

    Returns
    -------
    Chapter or None
    """
    groups = equal_rankings(results) if OWN in results.scores() else []
    if not groups:
        return None
    points = [Point(_sentence(results, group)) for group in groups]
    points += [Point(text) for text in (_overall(results),) if text]
    head = ("method", "knows", SCORES["share_positive"].label, "own decision", "at the true prior", "own minus prior")
    sections = tuple(section(f"One ranking: {len(group)} methods", _rows(results, group)) for group in groups)
    caption = "Balanced accuracy of methods that share a ranking: means over the runs that all methods of a group share"
    table = Table(caption, head, sections, (0, 1))
    return Chapter(
        "cut-offs", "Cut-offs", "One ranking, several cut-offs", NOTE, (Points("", tuple(points)),), (table,)
    )


def _common_means(results: Results, group: Sequence[str], score: str) -> NDArray[np.float64]:
    """Return the mean of each method over the runs in which all methods of the group have the score."""
    if score not in results.scores():
        return np.full(len(group), np.nan)
    values = _by_method(results.cube(score))[[results.methods.index(method) for method in group]]
    common = np.isfinite(values).all(axis=0)
    return values[:, common].mean(axis=1) if common.any() else np.full(len(group), np.nan)


def _rows(results: Results, group: Sequence[str]) -> list[list[str | TableCell]]:
    own, prior, share = (_common_means(results, group, score) for score in (OWN, AT_PRIOR, "share_positive"))
    return [
        [
            results.label(group[i]),
            results.knows(group[i]) or NO_VALUE,
            plain(share[i], 3),
            plain(own[i], 3),
            plain(prior[i], 3),
            signed(own[i] - prior[i], 3),
        ]
        for i in sorted(range(len(group)), key=lambda i: (-own[i], group[i]))
    ]


def _sentence(results: Results, group: Sequence[str]) -> str:
    """Return how far the own decisions of a group lie apart."""
    own, prior = _common_means(results, group, OWN), _common_means(results, group, AT_PRIOR)
    names = listed([results.label(method) for method in group])
    if not np.isfinite(own).all():
        return f"{names} share one ranking, but no run has the own decisions of all of them."
    low, high = int(np.argmin(own)), int(np.argmax(own))
    text = (
        f"{names} share one ranking. Their own decisions have the same balanced accuracy, {own[low]:.3f}."
        if own[high] - own[low] < SAME
        else f"{names} share one ranking. Their balanced accuracy by own decision lies between {own[low]:.3f} "
        f"({results.label(group[low])}) and {own[high]:.3f} ({results.label(group[high])}): the cut-off alone explains "
        f"a difference of {own[high] - own[low]:.3f}."
    )
    if np.isfinite(prior).all():  # Ties at the cut-off can give slightly different decisions for one ranking.
        between = f"between {prior.min():.3f} and {prior.max():.3f}"
        text += (
            f" With the cut-off at the true prior, all have {f'{prior[0]:.3f}' if np.ptp(prior) < SAME else between}."
        )
    return text


def _overall(results: Results) -> str:
    """Return how the spread between all methods changes if all use the same kind of cut-off."""
    if AT_PRIOR not in results.scores():
        return ""
    methods = [method for method in results.methods if results.level(method) is not None]
    there = [each for each in methods if np.isfinite(_common_means(results, (each,), OWN)[0])]
    own, prior = _common_means(results, there, OWN), _common_means(results, there, AT_PRIOR)
    if len(there) < 3 or not (np.isfinite(own).all() and np.isfinite(prior).all()):
        return ""
    spread = float(own.std()), float(prior.std())
    return (
        f"Over all {len(there)} methods that do not know the classes, the standard deviation between methods is "
        f"{spread[0]:.3f} by own decision and {spread[1]:.3f} with the cut-off at the true prior; their means are "
        f"{own.mean():.3f} and {prior.mean():.3f}. What remains in the second number is due to the rankings."
    )
