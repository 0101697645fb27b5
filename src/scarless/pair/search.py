"""Cross-validated search over penalties and sets of attributes, and the choice among tied candidates.

The score of a candidate is the likelihood of all observations of held-out rows: labels, and audits if there are any.
Except for the first fit, each fit starts at the optimum of a neighbouring penalty.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.engines import Engine, Rows
from scarless.engines.lockstep import in_lockstep
from scarless.numerics import likelihood
from scarless.numerics.arrays import Matrix, Vector, at_least, at_most, concat, namespace_of
from scarless.numerics.linear import Design, logits
from scarless.numerics.objectives import LogisticPair, PairObjective
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import listed
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.folds import FoldedRows, block_products, held_out_logits, times_scored
from scarless.pair.optima import Selection, best_fit
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import (
    LOGIT_CAP,
    ClassPriorGrid,
    Recalibration,
    as_odds_against,
    recalibrate,
    recalibrate_beside_missing_attribute,
    recalibrate_roughly,
)
from scarless.pair.starts import Start, make_paper_start

MIN_ROWS_FOR_CURVATURE = 10_000  # for larger tables, fits reuse the Hessian of a neighbouring penalty
#: Smallest ratio of the variance of the class logits to the variance of the propensity logits. If both models use the
#: same columns and the ratio is smaller, the models count as swapped. By judgement.
MIN_CLASS_TO_PROPENSITY_VARIANCE = 0.1
ROWS_TIMES_CANDIDATES_AT_ONCE = 1 << 25  # largest number of logits that a device computes at once


Penalties = tuple[float, float]  # inverse penalties C and propensity_C
_Task = tuple[int, Penalties, Penalties | None]  # index of a problem, penalties, and penalties of the start


class Grid(NamedTuple):
    """Inverse penalties of both models, sorted."""

    Cs: Vector
    propensity_Cs: Vector

    def pairs(self) -> list[tuple[float, float]]:
        """Return all pairs of penalties, in the order of `cv_results_`."""
        return [(float(C), float(propensity_C)) for propensity_C, C in product(self.propensity_Cs, self.Cs)]

    @property
    def middle(self) -> tuple[float, float]:
        """The penalties closest to 1. This pair is fitted first."""
        return _closest_to_one(self.Cs), _closest_to_one(self.propensity_Cs)


class PenaltyPath(NamedTuple):
    """One set of attributes, to be fitted with all penalties of a grid."""

    attributes: int  # index of the set
    problem: PairProblem  # on all rows; its penalties are replaced by the penalties of the grid


class HeldOutSums(NamedTuple):
    """Sums over the held-out rows of a fold, for all candidates."""

    weight: Vector
    first: Vector  # log-likelihood of the first candidate
    more: Vector  # log-likelihood of each candidate minus that of the first
    products: Matrix  # cross products of these differences over rows
    positives: Vector  # sum of f for each candidate
    labelled_positives: Vector  # sum of f e for each candidate


class Candidate(NamedTuple):
    """A fitted candidate: its likelihood and its parameters."""

    objective: PairObjective
    parameters: Vector

    def linear(self, n_columns: int) -> Vector:
        """Return the classifier's coefficients for all columns, 0 for unused ones, then the intercept."""
        return expand_to_all_columns(self.objective.f, self.objective.split(self.parameters)[0], n_columns)


def expand_to_all_columns(design: Design, beta: Vector, n_columns: int) -> Vector:
    """Return a model's coefficients for all columns, 0 for unused ones, then the intercept."""
    full = np.zeros(n_columns + 1)
    full[np.append(design.indices, n_columns)] = beta
    return full


class FoldFits(NamedTuple):
    """All candidates, fitted to the training rows of one fold."""

    models: list[Candidate]
    converged: NDArray[np.bool_]


def fit_grid(
    problems: list[PairProblem], grid: Grid, *, tol: float, max_iter: int
) -> Iterator[tuple[int, int, PairFit]]:
    """Fit every problem with every pair of penalties.

    The pair closest to 1 is fitted first, from the paper's start. Each other pair starts at the optimum of a neighbour.
    Pairs at the same distance from the first pair are fitted together for all problems, in lockstep on a device. Yields
    the index of the problem, the index of the pair in ``grid.pairs()``, and the fit.
    """
    place = {pair: number for number, pair in enumerate(grid.pairs())}
    options, fits = FitOptions(tol, max_iter, damp_indefinite=True), dict[tuple[int, Penalties], PairFit]()

    def fit(tasks: list[_Task], i: int, engine: Engine) -> PairFit:
        number, pair, neighbour = tasks[i]
        problem = problems[number]._replace(engine=engine, C=pair[0], propensity_C=pair[1])
        if neighbour is None:
            return _fit_first(problem, options)
        return _fit_from_neighbour(problem, fits[number, neighbour], options)

    for pairs in pairs_by_distance(grid):
        tasks = [(number, pair, neighbour) for number in range(len(problems)) for pair, neighbour in pairs]
        engines = [problems[number].engine for number, *_ in tasks]
        found = in_lockstep(engines, partial(fit, tasks))
        for (number, pair, _), each in zip(tasks, found, strict=True):
            fits[number, pair] = each
            yield number, place[pair], each


def pairs_by_distance(grid: Grid) -> Iterator[list[tuple[Penalties, Penalties | None]]]:
    """Yield lists of pairs of penalties, sorted by distance from the middle; each pair with the neighbour it starts at.

    Examples
    --------
    >>> [len(each) for each in pairs_by_distance(Grid(np.array([0.1, 1.0, 10.0]), np.array([1.0, 10.0])))]
    [1, 3, 2]
    """
    middle, middle_e = grid.middle
    neighbours = dict(order_from_middle(grid.Cs)), dict(order_from_middle(grid.propensity_Cs))

    def before(pair: Penalties) -> Penalties | None:
        C, propensity_C = pair
        if (neighbour := neighbours[0][C]) is not None:
            return neighbour, propensity_C
        return None if (neighbour := neighbours[1][propensity_C]) is None else (C, neighbour)

    waiting, done = [(middle, middle_e)], set[Penalties]()
    while waiting:
        yield [(pair, before(pair)) for pair in waiting]
        done |= set(waiting)
        waiting = [pair for pair in grid.pairs() if pair not in done and before(pair) in done]


def fit_at_penalties(
    path: PenaltyPath, grid: Grid, C: float, propensity_C: float, *, tol: float, max_iter: int
) -> PairFit:
    """Fit one pair of penalties by the same sequence of neighbours as `fit_grid`; only the last fit is exact."""
    Cs = path_to(grid.Cs, C)
    propensity_Cs = path_to(grid.propensity_Cs, propensity_C)
    steps = [(Cs[0], other) for other in propensity_Cs] + [(other, propensity_C) for other in Cs[1:]]
    fit: PairFit | None = None
    for number, (C_now, propensity_C_now) in enumerate(steps, start=1):
        exact = tol if number == len(steps) else max(tol, 1e-8)
        options = FitOptions(exact, max_iter, damp_indefinite=True)
        problem = path.problem._replace(C=C_now, propensity_C=propensity_C_now)
        fit = _fit_first(problem, options) if fit is None else _fit_from_neighbour(problem, fit, options)
    assert fit is not None
    return fit


def _fit_first(problem: PairProblem, options: FitOptions) -> PairFit:
    """Fit from the paper's start; with extra information, return the highest optimum from several starts."""
    if problem.has_extra_information:
        return best_fit(problem, options)
    return _fit_from(problem, make_paper_start(problem), options)


def _fit_from_neighbour(problem: PairProblem, neighbour: PairFit, options: FitOptions) -> PairFit:
    """Fit from the optimum of another penalty; for large tables, also use the Hessian at that optimum.

    In small tables, the penalty is a large part of the Hessian, so the Hessian of another penalty would not help.
    """
    at, known = neighbour.parameters, neighbour.information
    if known is None or problem.engine.n_rows < MIN_ROWS_FOR_CURVATURE:
        return _fit_from(problem, Start("neighbour", at), options)
    return _fit_from(problem, Start("neighbour", at, known + problem.penalised().penalty_curvature(at)), options)


def _fit_from(problem: PairProblem, start: Start, options: FitOptions) -> PairFit:
    """Fit from a start; if the models seem swapped, swap them and fit again.

    If both models use the same columns, the model with the weaker penalty tends to explain the labels. If this is the
    propensity model, the class logit hardly varies between rows, which shows that the models are swapped.
    """
    fit = fit_pair(problem, start.parameters, options, curvature=start.curvature)
    if not problem.swappable or _class_logit_varies(problem, fit):
        return fit
    swapped = fit_pair(problem, problem.to_all_looks(problem.swapped(fit.parameters)), options)
    return swapped if _class_logit_varies(problem, swapped) else fit


def _class_logit_varies(problem: PairProblem, fit: PairFit) -> bool:
    """Whether the class logit varies enough between rows, compared with the propensity logit."""
    sums, squares = problem.engine.total(_block_moments, problem.objective, fit.parameters)
    of_class, of_propensity = squares / problem.weight - (sums / problem.weight) ** 2
    return bool(of_class >= MIN_CLASS_TO_PROPENSITY_VARIANCE * of_propensity)


def _block_moments(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> tuple[Any, Any]:
    xp, w = namespace_of(rows["w"]), rows["w"]
    each = [
        at_most(at_least(logits(at.design.take(X), beta[at.place]), -LOGIT_CAP), LOGIT_CAP)
        for at in objective.logits[:2]
    ]
    return xp.stack([w @ z for z in each]), xp.stack([w @ z**2 for z in each])


def fit_folds(
    paths: list[PenaltyPath], grid: Grid, engines: list[Engine], *, tol: float, max_iter: int
) -> list[FoldFits]:
    """Fit all candidates to the training rows of each fold. The starts are computed from these rows.

    Constraints apply in every fold.
    """
    size = len(grid.pairs())
    empty = [Candidate(path.problem.objective, np.zeros(0)) for path in paths for _ in range(size)]
    found = [FoldFits(list(empty), np.zeros(len(empty), dtype=bool)) for _ in engines]
    # Paths are fitted one after another, so that cached products of columns can be released before the next path.
    for number, path in enumerate(paths):
        problems = [path.problem.on(engine) for engine in engines]
        for fold, place, fit in fit_grid(problems, grid, tol=tol, max_iter=max_iter):
            column = number * size + place
            found[fold].models[column] = Candidate(path.problem.objective, fit.parameters)
            found[fold].converged[column] = fit.converged
    return found


def held_out_sums(fits: list[FoldFits], folded: FoldedRows) -> list[HeldOutSums]:
    """Return the sums over the held-out rows of each fold, in one pass."""
    fields = folded.engine.total(_block_held_out, [fit.models for fit in fits])
    n_fields = len(HeldOutSums._fields)
    return [HeldOutSums(*fields[n_fields * i : n_fields * (i + 1)]) for i in range(len(fits))]


def _block_held_out(X: Any, rows: Rows, fits: list[list[Candidate]]) -> tuple[Vector, ...]:
    """Return the fields of `HeldOutSums` for all folds, one after the other."""
    found: list[Vector] = []
    for fold, models in enumerate(fits):
        times = times_scored(rows, fold)
        if (xp := namespace_of(X)) is np:
            test_rows = np.flatnonzero(times)
            seen = {name: rows[name][test_rows] for name in models[0].objective.observed}
            found += _scored_rows(X[test_rows], seen, (rows["w"] * times)[test_rows], models)
        else:
            (test_rows,) = xp.nonzero(times > 0)
            s, w = (xp.take(each, test_rows, axis=0) for each in (rows["s"], rows["w"] * times))
            found += _score_on_device(xp.take(X, test_rows, axis=0), s, w, *_matrices(models, X.shape[1]))
    return tuple(found)


def _matrices(models: list[Candidate], n_columns: int) -> tuple[Matrix, Matrix]:
    """Return the coefficients of all classifiers, and of all propensity models, one column for each candidate."""
    f = [each.linear(n_columns) for each in models]
    e = [
        expand_to_all_columns(each.objective.e, each.objective.split(each.parameters)[1], n_columns) for each in models
    ]
    return np.stack(f, axis=1), np.stack(e, axis=1)


def _score_on_device(X: Any, s: Any, w: Any, f: Matrix, e: Matrix) -> HeldOutSums:
    """Return the sums of all candidates, computed for many candidates at once."""
    xp, size = namespace_of(X), max(1, ROWS_TIMES_CANDIDATES_AT_ONCE // max(1, X.shape[0]))
    parts = []
    for start in range(0, f.shape[1], size):
        u, v = (block_products(X, models[:, start : start + size]) for models in (f, e))
        terms = likelihood.pair_terms(u, v)
        value = likelihood.log_likelihood(u, v, s[:, None], terms)
        parts.append((value, w @ terms.f, w @ (terms.f * terms.e)))
    values, positives, labelled = (
        concat(list(each), axis=axis) for each, axis in zip(zip(*parts, strict=True), (1, 0, 0), strict=True)
    )
    more = values - values[:, :1]
    first = xp.reshape(w @ values[:, 0], (1,))
    weight = xp.reshape(xp.sum(w), (1,))
    return HeldOutSums(weight, first, w @ more, (more.T * w) @ more, positives, labelled)


def _scored_rows(X: Any, rows: Any, w: Vector, models: list[Candidate]) -> HeldOutSums:
    values, positives, labelled = np.empty((w.size, len(models))), np.empty(len(models)), np.empty(len(models))
    for i, (value, f, d) in enumerate(_row_terms(X, rows, models)):
        values[:, i], positives[i], labelled[i] = value, w @ f, w @ (f * d)
    more = values - values[:, :1]
    first = np.atleast_1d(w @ values[:, 0])
    return HeldOutSums(np.atleast_1d(w.sum()), first, w @ more, (more.T * w) @ more, positives, labelled)


def _row_terms(X: Any, rows: Any, models: list[Candidate]) -> Iterator[tuple[Vector, Vector, Vector]]:
    """Yield, for each candidate, the log-likelihood, `f`, and the label probability of positives, of all rows.

    With one label for each row, one matrix product computes the logits of all candidates.
    """
    if not all(isinstance(each.objective, LogisticPair) for each in models):
        yield from (each.objective.row_probabilities(X, rows, each.parameters) for each in models)
        return
    u, v = (block_products(X, each) for each in _matrices(models, X.shape[1]))
    for i in range(len(models)):
        at = u[:, i].copy(), v[:, i].copy()
        terms = likelihood.pair_terms(*at)
        yield likelihood.log_likelihood(*at, rows["s"], terms), terms.f, terms.e


def order_from_middle(values: Vector) -> Iterator[tuple[float, float | None]]:
    """Yield the value closest to 1, then all larger values in ascending order, then all smaller in descending order.

    Each value comes with its neighbour on the side of the first value; None for the first value.

    Examples
    --------
    >>> list(order_from_middle(np.array([0.1, 1.0, 10.0])))
    [(1.0, None), (10.0, 1.0), (0.1, 1.0)]
    """
    ordered = [float(value) for value in np.sort(values)]
    middle = ordered.index(_closest_to_one(values))
    yield ordered[middle], None
    for i in range(middle + 1, len(ordered)):
        yield ordered[i], ordered[i - 1]
    for i in range(middle - 1, -1, -1):
        yield ordered[i], ordered[i + 1]


def path_to(values: Vector, end: float) -> list[float]:
    """Return the sequence of neighbouring values that leads from the value closest to 1 to `end`."""
    before = dict(order_from_middle(values))
    path = [end]
    while (neighbour := before[path[-1]]) is not None:
        path.append(neighbour)
    return path[::-1]


def _closest_to_one(values: Vector) -> float:
    return float(values[np.argmin(np.abs(np.log(values)))])


def results_table(
    paths: list[PenaltyPath],
    grid: Grid,
    sums: list[HeldOutSums],
    sets: list[str],
    *,
    tested: float,
    n_standard_errors: float,
) -> dict[str, Any]:
    """Return the table of candidates, with keys as in scikit-learn's searches.

    `tested` is the weight of all held-out rows. A row that several folds held out counts once.
    """
    per_fold = np.array([(fold.first + fold.more) / fold.weight for fold in sums])
    weight, more = sum(fold.weight[0] for fold in sums), sum(fold.more for fold in sums)
    positives, labelled = sum(fold.positives for fold in sums), sum(fold.labelled_positives for fold in sums)
    mean = (sum(fold.first for fold in sums) + more) / weight
    gains = HeldOutGain(more / weight, sum(fold.products for fold in sums) / weight, tested)
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
        "behind_best": gains.behind(best),
        "standard_error": gains.error(best),
        "tied": tied_with_best(gains, number_of_path, n_standard_errors),
        "path": number_of_path,
        "possible": tied_with_best(gains, number_of_path, 2.0 * n_standard_errors),
        "class_prior": positives / weight,
        "label_frequency": np.divide(labelled, positives, out=np.zeros(len(mean)), where=positives > 0),
    }


class HeldOutGain(NamedTuple):
    """Held-out log-likelihood of each candidate minus that of the first, per row."""

    mean: Vector
    products: Matrix  # mean cross products over rows
    tested: float  # weight of the held-out rows

    def behind(self, other: int) -> Vector:
        """Return the gap between each candidate and the candidate `other`."""
        return np.asarray(self.mean[other] - self.mean)

    def error(self, other: int) -> Vector:
        """Return the standard error of each gap, paired over rows."""
        squares = self.products[other, other] + np.diagonal(self.products) - 2.0 * self.products[other]
        return np.sqrt(np.maximum(squares - self.behind(other) ** 2, 0.0) / self.tested)


def tied_with_best(gains: HeldOutGain, paths: NDArray[np.intp], n_standard_errors: float) -> NDArray[np.bool_]:
    """Return a mask of the candidates that are tied: they differ from the best by no more than noise.

    A path is a set of attributes with all penalties. A path is tied if the gap between its best candidate and the best
    of all candidates is at most `n_standard_errors` standard errors. Within a tied path, a candidate is tied if its gap
    to the best candidate of the path is at most half as many standard errors. This limit is smaller, because the labels
    say more about the penalty than about which attributes matter.
    """
    tied = np.zeros(paths.size, dtype=bool)
    best = int(np.argmax(gains.mean))
    for path in np.unique(paths):
        members = np.flatnonzero(paths == path)
        best_of_path = int(members[np.argmax(gains.mean[members])])
        if gains.behind(best)[best_of_path] <= n_standard_errors * gains.error(best)[best_of_path]:
            near = gains.behind(best_of_path) <= 0.5 * n_standard_errors * gains.error(best_of_path)
            tied[members] = near[members]
    return tied


def select(results: dict[str, Any], *, combine: bool, by_score: bool = False) -> Selection:
    """Choose the tied penalties nearest to 1 of each tied path; then combine all tied paths, or choose one of them.

    Penalties near the default of 1 are preferred, so that an extreme penalty is not chosen by chance. With `combine`,
    tied paths are averaged. Otherwise the path with the lowest label frequency is chosen, as in the paper. With
    `by_score`, the path with the best score is chosen instead; use this if several looks or audits identify the label
    frequency.
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
    """Return, for each path among the given rows of the table, the row with penalties nearest to 1."""
    far = np.abs(np.log(results["param_C"])) + 1e-3 * np.abs(np.log(results["param_propensity_C"]))
    of_path = [rows[results["path"][rows] == path] for path in np.unique(results["path"][rows])]
    return [int(each[np.argmin(far[each])]) for each in of_path]


def _reason(
    results: dict[str, Any], members: list[int], n_tied: int, n_paths: int, spread: Interval, *, by_score: bool
) -> str:
    total = len(results["params"])
    if total == 1:
        return "There was only one candidate."
    if n_tied == 1:
        return f"Of {total} candidates, the one with the highest held-out log-likelihood was chosen."
    reason = f"The held-out log-likelihood cannot distinguish {n_tied} of {total} candidates. "
    chosen = [results["params"][i] for i in members]
    named = listed([f"C = {row['C']:.3g} (classifier uses {row['attributes']})" for row in chosen])
    if n_paths == 1:
        return reason + f"The penalty nearest to 1 was chosen: {named}."
    reason += "For each set of attributes, the penalty nearest to 1 was used. "
    if len(members) > 1:
        return reason + (
            f"The average of these candidates was chosen: {named}. Their class priors range from {spread[0]:.3f} to "
            f"{spread[1]:.3f}."
        )
    frequency = results["label_frequency"][members[0]]
    merit = "best score" if by_score else f"lowest label frequency ({frequency:.2f})"
    return reason + (
        f"The candidate with the {merit} was chosen: {named}. The class priors of tied candidates range from "
        f"{spread[0]:.3f} to {spread[1]:.3f}."
    )


class RecalibratedPairFit(NamedTuple):
    """A recalibrated pair of logistic models."""

    problem: PairProblem  # its classifier uses the columns of all members; C fits the recalibrated coefficients
    f: Vector
    e: Vector
    recalibration: Recalibration
    grids: tuple[ClassPriorGrid, ...]  # for intervals


def held_out_rows(fits: list[FoldFits], folded: FoldedRows, candidate: int) -> Engine:
    """Return the rows with the out-of-fold class logit ``u`` of one candidate."""
    return folded.with_out_of_fold_logits([fit.models[candidate].linear(folded.engine.n_columns) for fit in fits])


def recalibrate_candidates(
    fits: list[FoldFits], folded: FoldedRows, problem: PairProblem, pseudo_weight: float
) -> list[FoldFits]:
    """Return the fits of the folds with every candidate recalibrated on held-out rows."""
    recalibrated = [FoldFits(list(fit.models), fit.converged) for fit in fits]
    sees_all = problem.e.indices.size == problem.engine.n_columns
    for candidate in range(len(fits[0].models)):
        of_folds = [fit.models[candidate] for fit in fits]
        hold = np.mean([each.objective.split(each.parameters)[1] for each in of_folds], axis=0) if sees_all else None
        out_of_fold = problem._replace(engine=held_out_rows(fits, folded, candidate))
        found = recalibrate_roughly(out_of_fold, pseudo_weight=pseudo_weight, hold=hold)
        for fit, each in zip(recalibrated, of_folds, strict=True):
            f = found.of_linear(each.objective.split(each.parameters)[0])
            fit.models[candidate] = each._replace(parameters=np.concatenate([f, found.e]))
    return recalibrated


def combine(
    members: list[tuple[PairProblem, PairFit, int]],
    fits: list[FoldFits],
    folded: FoldedRows,
    pseudo_weight: float,
    possible: tuple[int, ...],
) -> RecalibratedPairFit:
    """Recalibrate each member, average their logits, and recalibrate the mean; a single member is recalibrated once.

    `members` contains the problem of each member, its fit to all rows, and its index among the candidates. All
    `possible` candidates, which include the members, are recalibrated for intervals. If some columns are no propensity
    attributes, one of them may be a missing attribute, and the last recalibration allows for it.
    """
    problem, n_columns = members[0][0], folded.engine.n_columns
    hold = np.mean([fit.e for _, fit, _ in members], axis=0) if problem.e.indices.size == n_columns else None

    def recalibrated(rows: Engine) -> Recalibration:
        return recalibrate(problem._replace(engine=rows), pseudo_weight=pseudo_weight, hold=hold)

    found = [recalibrated(held_out_rows(fits, folded, candidate)) for *_, candidate in members]
    beta = np.zeros(n_columns + 1)
    slopes = [1.0]
    if len(members) == 1:
        rows = held_out_rows(fits, folded, members[0][2])
        beta[np.append(members[0][0].f.indices, n_columns)] = members[0][1].f
    else:
        fold_models = [[fit.models[candidate].linear(n_columns) for fit in fits] for *_, candidate in members]
        rows = folded.engine.derive(_mean_logits, fold_models, found, keep=True)
        slopes = [each.slope for each in found]
        for (of_member, fit, _), recalibration in zip(members, found, strict=True):
            beta[np.append(of_member.f.indices, n_columns)] += recalibration.of_linear(fit.f) / len(members)
    beside = None
    if problem.e.indices.size and hold is None:
        last, beside = recalibrate_beside_missing_attribute(problem._replace(engine=rows), pseudo_weight=pseudo_weight)
    else:
        last = recalibrated(rows)
    beta = last.of_linear(beta)
    columns = np.unique(np.concatenate([of_member.f.indices for of_member, *_ in members]))
    # Coefficients were multiplied by a slope. C is multiplied by its square, so that the penalty stays the same.
    rescaled = [of_member.C * slope**2 for (of_member, *_), slope in zip(members, slopes, strict=True)]
    C = float(np.mean(rescaled)) * last.slope**2
    whole = problem.with_class_design(Design.of(columns))._replace(C=C)
    chosen = {candidate for *_, candidate in members}
    others = [recalibrated(held_out_rows(fits, folded, other)) for other in possible if other not in chosen]
    grids = [last.grid, *(each.grid for each in (*found, *others))]
    grids += [] if beside is None else [as_odds_against(beside, len(grids))]
    return RecalibratedPairFit(whole, beta[np.append(columns, n_columns)], last.e, last, tuple(grids))


def _mean_logits(X: Any, rows: Rows, fold_models: list[list[Vector]], found: list[Recalibration]) -> dict[str, Any]:
    """Return the mean of the recalibrated out-of-fold logits of some candidates."""
    out_of_fold = [held_out_logits(X, rows, models) for models in fold_models]
    recalibrated = [recalibration(each["u"]) for each, recalibration in zip(out_of_fold, found, strict=True)]
    return {"u": sum(recalibrated) / len(recalibrated), "w": out_of_fold[0]["w"]}


def recalibrate_choice(
    problem: PairProblem, fit: PairFit, models: list[Candidate], folded: FoldedRows
) -> tuple[PairProblem, PairFit]:
    """Recalibrate the chosen fit, using the out-of-fold logits of `models`, its fits in the folds.

    Returns the problem, with a penalty that fits the recalibrated coefficients, and the recalibrated fit. Both are
    returned unchanged if the recalibration does not converge.
    """
    out_of_fold = folded.with_out_of_fold_logits([each.linear(folded.engine.n_columns) for each in models])
    recalibrated = recalibrate_roughly(problem._replace(engine=out_of_fold), start=fit.e)
    if not recalibrated.converged:
        return problem, fit
    moved = np.concatenate([recalibrated.of_linear(fit.f), recalibrated.e])
    return problem._replace(C=problem.C * recalibrated.slope**2), fit.at(moved)
