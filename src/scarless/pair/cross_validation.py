"""The table of candidates, and the choice among those that labels cannot tell apart."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.interval import Interval
from scarless.pair.penalty_path import Grid, HeldOut
from scarless.pair.selection import Selection


class SetOfAttributes(Protocol):
    """A path through all penalties, by the number of its set of attributes."""

    @property
    def attributes(self) -> int:
        """Which set."""
        ...


def results_of(
    paths: Sequence[SetOfAttributes],
    grid: Grid,
    sums: list[HeldOut],
    sets: list[str],
    *,
    tested: float,
    n_standard_errors: float,
) -> dict[str, Any]:
    """Return the table of candidates, with keys as in scikit-learn's searches.

    `tested` is the weight of the rows that some fold held out: a row that several held out still is one row.
    """
    per_fold = np.array([(fold.first + fold.more) / fold.weight for fold in sums])
    weight, more = sum(fold.weight[0] for fold in sums), sum(fold.more for fold in sums)
    positives, labelled = sum(fold.positives for fold in sums), sum(fold.labelled_positives for fold in sums)
    mean = (sum(fold.first for fold in sums) + more) / weight
    surplus = Surplus(more / weight, sum(fold.products for fold in sums) / weight, tested)
    best = int(np.argmax(mean))
    number_of_path = np.repeat(np.arange(len(paths)), len(grid.pairs()))
    params = [
        {"C": C, "propensity_C": propensity_C, "attributes": sets[path.attributes]}
        for path in paths
        for C, propensity_C in grid.pairs()
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
        "tied": tied_with_best(surplus, number_of_path, n_standard_errors),
        "path": number_of_path,
        "possible": tied_with_best(surplus, number_of_path, 2.0 * n_standard_errors),
        "class_prior": positives / weight,
        "label_frequency": labelled / positives,
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

    A path is a set of attributes, followed through all penalties. Paths are tied if their best candidates are, by
    `n_standard_errors`. Along a tied path, penalties are tied with its best by half as many: attributes are a question
    of what labels can tell at all, penalties one of noise.
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


def select(results: dict[str, Any], *, combine: bool, by_score: bool = False) -> Selection:
    """Choose along each tied path the penalties nearest to 1; of the paths all, to be combined, or one.

    Labels that cannot tell penalties apart should not be asked which has the extreme answer; a C of 1 on attributes of
    size 1 is where a user would begin. Paths that labels cannot tell apart are averaged (`combine`) or, where one is
    wanted, the lowest label frequency decides: the paper's principle. Several looks and audits tell the label frequency
    themselves: there the best score decides (`by_score`).
    """
    tied = np.flatnonzero(results["tied"])
    members = _nearest_to_one(results, tied)
    n_paths, possible = len(members), members
    others = np.flatnonzero(results["possible"] & ~np.isin(results["path"], results["path"][members]))
    if others.size:
        possible = members + _nearest_to_one(results, others)
    if not combine:
        judge = -results["mean_test_score"] if by_score else results["label_frequency"]
        members = [min(members, key=lambda i: float(judge[i]))]
    best = max(members, key=lambda i: float(results["mean_test_score"][i]))
    priors = results["class_prior"][members if combine else tied]
    spread = Interval(float(priors.min()), float(priors.max()))
    reason = _reason(results, members, tied.size, n_paths, spread, by_score=by_score)
    behind, errors = (tuple(results[name].tolist()) for name in ("behind_best", "standard_error"))
    return Selection(best, tuple(members), tuple(possible), int(tied.size), spread, reason, behind, errors)


def _nearest_to_one(results: dict[str, Any], rows: NDArray[np.intp]) -> list[int]:
    """Return, of each path among some rows, the one with penalties nearest to 1."""
    far = np.abs(np.log(results["param_C"])) + 1e-3 * np.abs(np.log(results["param_propensity_C"]))
    of_path = [rows[results["path"][rows] == path] for path in np.unique(results["path"][rows])]
    return [int(each[np.argmin(far[each])]) for each in of_path]


def _reason(
    results: dict[str, Any], members: list[int], n_tied: int, n_paths: int, spread: Interval, *, by_score: bool
) -> str:
    total = len(results["params"])
    if n_tied == 1:
        return f"The best of {total} candidates by held-out log-likelihood."
    told = f"{n_tied} of {total} candidates cannot be told apart by held-out log-likelihood. "
    chosen = [results["params"][i] for i in members]
    named = " and ".join(f"C = {row['C']:.3g} (classifier sees {row['attributes']})" for row in chosen)
    told += f"Of each set of attributes the penalty nearest to 1 is taken: {named}. "
    if len(members) > 1:
        return told + f"Their mean is the answer; their class priors go from {spread[0]:.3f} to {spread[1]:.3f}."
    if n_paths > 1:
        frequency = results["label_frequency"][members[0]]
        merit = "best score of these" if by_score else f"lowest label frequency, {frequency:.2f}"
        return told + (f"It has the {merit}; class priors of those tied go from {spread[0]:.3f} to {spread[1]:.3f}.")
    return told
