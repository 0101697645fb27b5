"""Folds of labelled rows, the table of candidates, and the choice among those that labels cannot tell apart."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.data.order import equal_rows
from scarless.models._base import Training
from scarless.models._penalty_path import Candidate, HeldOut

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True)
class CVSelection:
    """Which row of ``cv_results_`` was chosen, and why."""

    index: int
    best_index: int
    n_tied: int
    reason: str
    class_priors: tuple[float, float]  # lowest and highest among the candidates that the labels cannot tell apart

    def __str__(self) -> str:
        return self.reason


def fold_of_rows(X: Any, s: Vector, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the fold of each row: as many labelled rows in each, equal rows together, whatever the rows' order."""
    group = equal_rows(X, s)
    labels = np.empty(group.max() + 1)
    labels[group] = s
    fewest = int(min(labels.sum(), labels.size - labels.sum()))
    if fewest < 2:
        raise ValueError(
            "Cross-validation needs at least 2 different labelled and 2 different unlabelled rows; there are "
            f"{labels.sum():.0f} and {labels.size - labels.sum():.0f}. Use SAREMClassifier and set the penalties."
        )
    fold = np.empty(labels.size, dtype=np.intp)
    for value in (0.0, 1.0):
        members = rng.permutation(np.flatnonzero(labels == value))
        fold[members] = np.arange(members.size) % min(n_folds, fewest)
    return fold[group]


def counted_folds(folds: Iterable[Any], training: Training) -> list[Fold]:
    """Return folds of all rows, as indices or masks, as folds of those that have weight, by their numbers there."""
    s, counts = training.s, training.weight > 0
    number, every = np.cumsum(counts) - 1, np.arange(counts.size)
    kept = [tuple(rows[counts[rows]] for rows in (every[np.asarray(part)] for part in fold)) for fold in folds]
    if not kept:
        raise ValueError("cv gives no folds. A generator is used up after one fit: hand over a list of its folds.")
    for train, test in kept:
        if np.unique(s[train]).size < 2 or not test.size:
            raise ValueError(
                "A fold of cv leaves rows of one label only to fit, or none to score: use stratified folds, or fewer."
            )
    return [(number[train], number[test]) for train, test in kept]


def results_of(
    candidates: list[Candidate], sums: list[HeldOut], sets: list[str], *, tested: float, n_standard_errors: float
) -> dict[str, Any]:
    """Return the table of candidates, with keys as in scikit-learn's searches.

    `tested` is the weight of the rows that some fold held out: a row that several held out still is one row.
    """
    per_fold = np.array([(fold.first + fold.more) / fold.weight for fold in sums])
    weight, more = sum(fold.weight[0] for fold in sums), sum(fold.more for fold in sums)
    mean = (sum(fold.first for fold in sums) + more) / weight
    surplus = Surplus(more / weight, sum(fold.products for fold in sums) / weight, tested)
    best = int(np.argmax(mean))
    paths = np.unique([f"{c.attributes} {c.start}" for c in candidates], return_inverse=True)[1]
    params = [
        {"C": c.problem.C, "propensity_C": c.problem.propensity_C, "attributes": sets[c.attributes], "start": c.start}
        for c in candidates
    ]
    return {
        "params": params,
        **{f"param_{name}": np.array([row[name] for row in params]) for name in params[0]},
        **{f"split{i}_test_score": scores for i, scores in enumerate(per_fold)},
        "mean_test_score": mean,
        "std_test_score": per_fold.std(axis=0),
        "rank_test_score": 1 + np.array([(mean > value).sum() for value in mean]),
        "behind_best": surplus.behind(best),
        "standard_error": surplus.error(best),
        "tied": tied_with_best(surplus, paths, n_standard_errors),
        "class_prior": np.array([c.class_prior for c in candidates]),
        "label_frequency": np.array([c.label_frequency for c in candidates]),
        "converged": np.array([c.converged for c in candidates]),
    }


class Surplus(NamedTuple):
    """What each candidate's held-out log-likelihood has more than the first one's, per row."""

    mean: Vector
    products: Matrix  # means over rows
    tested: float

    def behind(self, other: int) -> Vector:
        """Return how far each candidate is behind another."""
        return np.asarray(self.mean[other] - self.mean)

    def error(self, other: int) -> Vector:
        """Return the standard error of that, paired over rows."""
        squares = self.products[other, other] + np.diagonal(self.products) - 2.0 * self.products[other]
        return np.sqrt(np.maximum(squares - self.behind(other) ** 2, 0.0) / self.tested)


def tied_with_best(surplus: Surplus, paths: NDArray[np.intp], n_standard_errors: float) -> NDArray[np.bool_]:
    """Return which candidates the labels cannot tell from the best.

    A path is a set of attributes with an optimum, followed through all penalties. Paths are tied if their best
    candidates are, by `n_standard_errors`. Along a tied path, penalties are tied with its best by half as many:
    attributes and optima are a question of what labels can tell at all, penalties one of noise.
    """
    tied = np.zeros(paths.size, dtype=bool)
    best = int(np.argmax(surplus.mean))
    for path in np.unique(paths):
        members = np.flatnonzero(paths == path)
        own_best = int(members[np.argmax(surplus.mean[members])])
        if surplus.behind(best)[own_best] <= n_standard_errors * surplus.error(best)[own_best]:
            near = surplus.behind(own_best) <= 0.5 * n_standard_errors * surplus.error(own_best)
            tied[members] = near[members]
    return tied


def select(results: dict[str, Any]) -> CVSelection:
    """Choose, of the candidates tied with the best, the one with the lowest label frequency."""
    best, tied = int(np.argmax(results["mean_test_score"])), np.flatnonzero(results["tied"])
    chosen = int(tied[np.argmin(results["label_frequency"][tied])])
    priors = results["class_prior"][tied]
    spread = float(priors.min()), float(priors.max())
    return CVSelection(chosen, best, int(tied.size), _reason(results, chosen, best, tied.size, spread), spread)


def _reason(results: dict[str, Any], chosen: int, best: int, n_tied: int, priors: tuple[float, float]) -> str:
    frequency, total = results["label_frequency"], len(results["params"])
    if n_tied == 1:
        return f"The best of {total} candidates by held-out log-likelihood."
    told = (
        f"{n_tied} of {total} candidates cannot be told apart by held-out log-likelihood; their class priors go from "
        f"{priors[0]:.3f} to {priors[1]:.3f}. "
    )
    if chosen == best:
        return told + f"The best of them also has the lowest label frequency, {frequency[chosen]:.2f}."
    return told + (
        f"This one is behind the best by {results['behind_best'][chosen]:.5f} per row (standard error "
        f"{results['standard_error'][chosen]:.5f}) and has the lowest label frequency, {frequency[chosen]:.2f}; the "
        f"best has {frequency[best]:.2f}."
    )
