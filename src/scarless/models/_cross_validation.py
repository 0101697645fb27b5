"""Folds of labelled rows, the table of candidates, and the choice among those that labels cannot tell apart."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.data.order import equal_rows
from scarless.models._base import Training
from scarless.models._penalty_path import Candidate, HeldOut

Vector = NDArray[np.float64]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True)
class CVSelection:
    """Which row of ``cv_results_`` was chosen, and why."""

    index: int
    best_index: int
    n_tied: int
    reason: str

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


def counted_folds(folds: Iterable[Fold], training: Training) -> list[Fold]:
    """Return folds of all rows as folds of those that have weight, by their numbers among these."""
    s, counts = training.s, training.weight > 0
    number = np.cumsum(counts) - 1
    kept = [tuple(rows[counts[rows]] for rows in fold) for fold in folds]
    for train, test in kept:
        if np.unique(s[train]).size < 2 or not test.size:
            raise ValueError(
                "A fold of cv leaves rows of one label only to fit, or none to score: use stratified folds, or fewer."
            )
    return [(number[train], number[test]) for train, test in kept]


def results_of(
    candidates: list[Candidate], sums: list[HeldOut], sets: list[str], n_standard_errors: float
) -> dict[str, Any]:
    """Return the table of candidates, with keys as in scikit-learn's searches."""
    per_fold = np.array([(fold.first + fold.more) / fold.weight for fold in sums])
    weight, more = sum(fold.weight[0] for fold in sums), sum(fold.more for fold in sums)
    mean = (sum(fold.first for fold in sums) + more) / weight
    best = int(np.argmax(mean))
    behind, error = _behind_best(sum(fold.products for fold in sums) / weight, more / weight, best)
    error = error / np.sqrt(weight)
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
        "behind_best": behind,
        "standard_error": error,
        "tied": behind <= n_standard_errors * error,
        "class_prior": np.array([c.class_prior for c in candidates]),
        "label_frequency": np.array([c.label_frequency for c in candidates]),
        "converged": np.array([c.converged for c in candidates]),
    }


def _behind_best(products: Any, more: Any, best: int) -> tuple[Vector, Vector]:
    """Return how far each candidate is behind the best, per row, and the standard deviation of that over rows."""
    behind = more[best] - more
    squares = products[best, best] + np.diagonal(products) - 2.0 * products[best]
    return behind, np.sqrt(np.maximum(squares - behind**2, 0.0))


def select(results: dict[str, Any]) -> CVSelection:
    """Choose, of the candidates tied with the best, the one with the lowest label frequency."""
    best = int(np.argmax(results["mean_test_score"]))
    tied = np.flatnonzero(results["tied"])
    chosen = int(tied[np.argmin(results["label_frequency"][tied])])
    frequency, total = results["label_frequency"], len(results["params"])
    if chosen == best:
        reason = f"The best of {total} candidates by held-out log-likelihood" + (
            "." if tied.size == 1 else f"; of the {tied.size} within the noise it has the lowest label frequency."
        )
    else:
        reason = (
            f"{tied.size} of {total} candidates cannot be told apart by held-out log-likelihood. This one is behind "
            f"the best by {results['behind_best'][chosen]:.5f} per row (standard error "
            f"{results['standard_error'][chosen]:.5f}) and has the lowest label frequency, {frequency[chosen]:.2f}; "
            f"the best has {frequency[best]:.2f}."
        )
    return CVSelection(chosen, best, int(tied.size), reason)
