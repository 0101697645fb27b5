"""A search among penalties and sets of attributes: fits in folds, held-out likelihoods, the choice among ties.

What a candidate is judged by is the likelihood of all that was observed of rows that it has not seen. An audit is the
only place where the class itself has a say in the choice. Penalties are followed from one to the next, each fit from
its neighbour's optimum.
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
from scarless.pair.recalibrated import FAR, Recalibration, recalibrate, recalibrate_roughly
from scarless.pair.starts import Start, the_papers_start

MIN_ROWS_FOR_CURVATURE = 10_000  # from so many on, a neighbour's Hessian is worth knowing
#: Least variance of the class logits over that of the propensity's. Below it, of two models that see the same columns,
#: the two are taken to have changed places. By judgement.
MIN_CLASS_TO_PROPENSITY_VARIANCE = 0.1
ROWS_TIMES_CANDIDATES_AT_ONCE = 1 << 25  # that a device judges in one go


Penalties = tuple[float, float]  # inverse, of both models
_Task = tuple[int, Penalties, Penalties | None]  # the number of a problem, penalties, and those to begin at


class Grid(NamedTuple):
    """Inverse penalties of both models, sorted."""

    Cs: Vector
    propensity_Cs: Vector

    def pairs(self) -> list[tuple[float, float]]:
        """Return all pairs of penalties, in the order of the table of candidates."""
        return [(float(C), float(propensity_C)) for propensity_C, C in product(self.propensity_Cs, self.Cs)]

    @property
    def middle(self) -> tuple[float, float]:
        """The pair closest to 1, where walks begin."""
        return _closest_to_one(self.Cs), _closest_to_one(self.propensity_Cs)


class Path(NamedTuple):
    """A set of attributes, to be followed through all penalties."""

    attributes: int
    problem: PairProblem  # all rows; the penalties are the grid's


class HeldOut(NamedTuple):
    """Sums over held-out rows; of log-likelihoods, what each candidate has more than the first one."""

    weight: Vector
    first: Vector  # the first candidate's log-likelihood
    more: Vector
    products: Matrix  # of these surpluses, for the variance of their differences
    positives: Vector  # each candidate's sum of f
    labelled_positives: Vector  # and of f e


class Candidate(NamedTuple):
    """Models, and their parameters."""

    objective: PairObjective
    parameters: Vector

    def linear(self, n_columns: int) -> Vector:
        """Return the classifier's coefficients for all columns, 0 for those that it does not see, and the intercept."""
        return spread_over(self.objective.f, self.objective.split(self.parameters)[0], n_columns)


def spread_over(design: Design, beta: Vector, n_columns: int) -> Vector:
    """Return a model's coefficients for all columns, 0 for those that it does not see, and the intercept."""
    full = np.zeros(n_columns + 1)
    full[np.append(design.indices, n_columns)] = beta
    return full


class FoldFits(NamedTuple):
    """Every candidate, fitted without the rows of one fold."""

    models: list[Candidate]
    converged: NDArray[np.bool_]


def walk(problems: list[PairProblem], grid: Grid, *, tol: float, max_iter: int) -> Iterator[tuple[int, int, PairFit]]:
    """Fit every pair of penalties: first the one closest to 1 from the paper's start, then outwards from neighbours.

    Those that are as far from the first are fitted together, of all problems: on a device in lockstep. Yields each fit
    with the number of its problem and its place among ``grid.pairs()``.
    """
    place = {pair: number for number, pair in enumerate(grid.pairs())}
    options, fits = FitOptions(tol, max_iter, damp_indefinite=True), dict[tuple[int, Penalties], PairFit]()

    def fit(tasks: list[_Task], i: int, engine: Engine) -> PairFit:
        number, pair, beside = tasks[i]
        problem = problems[number]._replace(engine=engine, C=pair[0], propensity_C=pair[1])
        return _first(problem, options) if beside is None else _fit_near(problem, fits[number, beside], options)

    for generation in generations(grid):
        tasks = [(number, pair, beside) for number in range(len(problems)) for pair, beside in generation]
        engines = [problems[number].engine for number, *_ in tasks]
        found = in_lockstep(engines, partial(fit, tasks))
        for (number, pair, _), each in zip(tasks, found, strict=True):
            fits[number, pair] = each
            yield number, place[pair], each


def generations(grid: Grid) -> Iterator[list[tuple[Penalties, Penalties | None]]]:
    """Yield pairs of penalties, each with the neighbour that it begins at, by their distance from the middle.

    Examples
    --------
    >>> [len(each) for each in generations(Grid(np.array([0.1, 1.0, 10.0]), np.array([1.0, 10.0])))]
    [1, 3, 2]
    """
    middle, middle_e = grid.middle
    beside = dict(outwards(grid.Cs)), dict(outwards(grid.propensity_Cs))

    def before(pair: Penalties) -> Penalties | None:
        C, propensity_C = pair
        if (neighbour := beside[0][C]) is not None:
            return neighbour, propensity_C
        return None if (neighbour := beside[1][propensity_C]) is None else (C, neighbour)

    waiting, done = [(middle, middle_e)], set[Penalties]()
    while waiting:
        yield [(pair, before(pair)) for pair in waiting]
        done |= set(waiting)
        waiting = [pair for pair in grid.pairs() if pair not in done and before(pair) in done]


def walk_to(path: Path, grid: Grid, C: float, propensity_C: float, *, tol: float, max_iter: int) -> PairFit:
    """Fit one pair of penalties, by the way that a walk through the grid would take; only its end is exact."""
    Cs = way_to(grid.Cs, C)
    propensity_Cs = way_to(grid.propensity_Cs, propensity_C)
    steps = [(Cs[0], other) for other in propensity_Cs] + [(other, propensity_C) for other in Cs[1:]]
    fit: PairFit | None = None
    for number, (here, here_e) in enumerate(steps, start=1):
        exact = tol if number == len(steps) else max(tol, 1e-8)
        options = FitOptions(exact, max_iter, damp_indefinite=True)
        problem = path.problem._replace(C=here, propensity_C=here_e)
        fit = _first(problem, options) if fit is None else _fit_near(problem, fit, options)
    assert fit is not None
    return fit


def _first(problem: PairProblem, options: FitOptions) -> PairFit:
    """Fit from nothing: from the paper's start, or the highest of some where height tells."""
    return (
        best_fit(problem, options) if problem.told_by_height else _fit_from(problem, the_papers_start(problem), options)
    )


def _fit_near(problem: PairProblem, beside: PairFit, options: FitOptions) -> PairFit:
    """Fit from another penalty's optimum; of many rows with its Hessian, as one more penalty changes little.

    Of few rows the penalty is much of the Hessian, and there is no time to be saved.
    """
    at, known = beside.parameters, beside.information
    if known is None or problem.engine.n_rows < MIN_ROWS_FOR_CURVATURE:
        return _fit_from(problem, Start("neighbour", at), options)
    return _fit_from(problem, Start("neighbour", at, known + problem.penalised().bend(at)), options)


def _fit_from(problem: PairProblem, start: Start, options: FitOptions) -> PairFit:
    """Fit from a start; once more from the other way round where models that can be swapped seem to have been.

    Where both models see the same columns, the weaker penalty draws the direction of the labels. With that in the
    propensity, the class would be the same for all rows.
    """
    fit = fit_pair(problem, start.parameters, options, curvature=start.curvature)
    if not problem.swappable or _class_tells_rows_apart(problem, fit):
        return fit
    turned = fit_pair(problem, problem.spread(problem.swapped(fit.parameters)), options)
    return turned if _class_tells_rows_apart(problem, turned) else fit


def _class_tells_rows_apart(problem: PairProblem, fit: PairFit) -> bool:
    """Whether the class logit differs between rows, not the propensity's alone."""
    sums, squares = problem.engine.total(_block_moments, problem.objective, fit.parameters)
    of_class, of_propensity = squares / problem.weight - (sums / problem.weight) ** 2
    return bool(of_class >= MIN_CLASS_TO_PROPENSITY_VARIANCE * of_propensity)


def _block_moments(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> tuple[Any, Any]:
    xp, w = namespace_of(rows["w"]), rows["w"]
    each = [at_most(at_least(logits(at.design.take(X), beta[at.place]), -FAR), FAR) for at in objective.logits[:2]]
    return xp.stack([w @ z for z in each]), xp.stack([w @ z**2 for z in each])


def fits_without(paths: list[Path], grid: Grid, engines: list[Engine], *, tol: float, max_iter: int) -> list[FoldFits]:
    """Walk every path on the rows of each fold, from nothing: nothing of the other rows is known. Facts hold there."""
    size = len(grid.pairs())
    empty = [Candidate(path.problem.objective, np.zeros(0)) for path in paths for _ in range(size)]
    found = [FoldFits(list(empty), np.zeros(len(empty), dtype=bool)) for _ in engines]
    # Path after path: products of columns that one path's models need are then forgotten.
    for number, path in enumerate(paths):
        problems = [path.problem.on(engine) for engine in engines]
        for fold, place, fit in walk(problems, grid, tol=tol, max_iter=max_iter):
            column = number * size + place
            found[fold].models[column] = Candidate(path.problem.objective, fit.parameters)
            found[fold].converged[column] = fit.converged
    return found


def held_out_sums(fits: list[FoldFits], folded: FoldedRows) -> list[HeldOut]:
    """Sum up the log-likelihoods of rows that the fits have not seen, fold by fold, in one pass."""
    fields = folded.engine.total(_block_held_out, [fit.models for fit in fits])
    n_fields = len(HeldOut._fields)
    return [HeldOut(*fields[n_fields * i : n_fields * (i + 1)]) for i in range(len(fits))]


def _block_held_out(X: Any, rows: Rows, fits: list[list[Candidate]]) -> tuple[Vector, ...]:
    """Return the fields of all folds, one after the other."""
    found: list[Vector] = []
    for fold, models in enumerate(fits):
        times = times_scored(rows, fold)
        if (xp := namespace_of(X)) is np:
            mine = np.flatnonzero(times)
            seen = {name: rows[name][mine] for name in models[0].objective.observed}
            found += _scored_rows(X[mine], seen, (rows["w"] * times)[mine], models)
        else:
            (mine,) = xp.nonzero(times > 0)
            s, w = (xp.take(each, mine, axis=0) for each in (rows["s"], rows["w"] * times))
            found += _scored_at_once(xp.take(X, mine, axis=0), s, w, *_matrices(models, X.shape[1]))
    return tuple(found)


def _matrices(models: list[Candidate], n_columns: int) -> tuple[Matrix, Matrix]:
    """Return the coefficients of all candidates' classifiers, and of their propensity models, a column each."""
    f = [each.linear(n_columns) for each in models]
    e = [spread_over(each.objective.e, each.objective.split(each.parameters)[1], n_columns) for each in models]
    return np.stack(f, axis=1), np.stack(e, axis=1)


def _scored_at_once(X: Any, s: Any, w: Any, f: Matrix, e: Matrix) -> HeldOut:
    """Return the sums of all candidates, several in one go: for devices."""
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
    return HeldOut(weight, first, w @ more, (more.T * w) @ more, positives, labelled)


def _scored_rows(X: Any, rows: Any, w: Vector, models: list[Candidate]) -> HeldOut:
    values, positives, labelled = np.empty((w.size, len(models))), np.empty(len(models)), np.empty(len(models))
    for i, (value, f, d) in enumerate(_answers(X, rows, models)):
        values[:, i], positives[i], labelled[i] = value, w @ f, w @ (f * d)
    more = values - values[:, :1]
    first = np.atleast_1d(w @ values[:, 0])
    return HeldOut(np.atleast_1d(w.sum()), first, w @ more, (more.T * w) @ more, positives, labelled)


def _answers(X: Any, rows: Any, models: list[Candidate]) -> Iterator[tuple[Vector, Vector, Vector]]:
    """Yield log-likelihood, class and chance of a label of each row, candidate by candidate.

    Of one label of each row the logits of all candidates are one product.
    """
    if not all(isinstance(each.objective, LogisticPair) for each in models):
        yield from (each.objective.row_answers(X, rows, each.parameters) for each in models)
        return
    u, v = (block_products(X, each) for each in _matrices(models, X.shape[1]))
    for i in range(len(models)):
        at = u[:, i].copy(), v[:, i].copy()
        terms = likelihood.pair_terms(*at)
        yield likelihood.log_likelihood(*at, rows["s"], terms), terms.f, terms.e


def outwards(values: Vector) -> Iterator[tuple[float, float | None]]:
    """Yield the value closest to 1, then those above it upwards, then those below downwards, each with its neighbour.

    Examples
    --------
    >>> list(outwards(np.array([0.1, 1.0, 10.0])))
    [(1.0, None), (10.0, 1.0), (0.1, 1.0)]
    """
    ordered = [float(value) for value in np.sort(values)]
    middle = ordered.index(_closest_to_one(values))
    yield ordered[middle], None
    for i in range(middle + 1, len(ordered)):
        yield ordered[i], ordered[i - 1]
    for i in range(middle - 1, -1, -1):
        yield ordered[i], ordered[i + 1]


def way_to(values: Vector, end: float) -> list[float]:
    """Return the values from the one closest to 1 to the end, neighbour by neighbour."""
    before = dict(outwards(values))
    way = [end]
    while (neighbour := before[way[-1]]) is not None:
        way.append(neighbour)
    return way[::-1]


def _closest_to_one(values: Vector) -> float:
    return float(values[np.argmin(np.abs(np.log(values)))])


def results_of(
    paths: list[Path],
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
    named = listed([f"C = {row['C']:.3g} (classifier sees {row['attributes']})" for row in chosen])
    told += f"Of each set of attributes the penalty nearest to 1 is taken: {named}. "
    if len(members) > 1:
        return told + f"Their mean is the answer; their class priors go from {spread[0]:.3f} to {spread[1]:.3f}."
    if n_paths > 1:
        frequency = results["label_frequency"][members[0]]
        merit = "best score of these" if by_score else f"lowest label frequency, {frequency:.2f}"
        return told + (f"It has the {merit}; class priors of those tied go from {spread[0]:.3f} to {spread[1]:.3f}.")
    return told


class RecalibratedPairFit(NamedTuple):
    """Two logistic models, recalibrated, and how that came about."""

    problem: PairProblem  # with the columns of all members, and the penalty that the recalibrated coefficients bear
    f: Vector
    e: Vector
    recalibration: Recalibration
    possible: list[Recalibration]  # of every set of attributes that the labels leave possible


def held_out_rows(fits: list[FoldFits], folded: FoldedRows, candidate: int) -> Engine:
    """Return the rows with one candidate's logit ``u`` of the class, by fits that have not seen them."""
    return folded.judged_by([fit.models[candidate].linear(folded.engine.n_columns) for fit in fits])


def recalibrate_candidates(
    fits: list[FoldFits], folded: FoldedRows, problem: PairProblem, audits: float
) -> list[FoldFits]:
    """Return the folds' fits with scale, level and propensity of each candidate as its held-out labels like them."""
    recalibrated = [FoldFits(list(fit.models), fit.converged) for fit in fits]
    sees_all = problem.e.indices.size == problem.engine.n_columns
    for candidate in range(len(fits[0].models)):
        of_folds = [fit.models[candidate] for fit in fits]
        hold = np.mean([each.objective.split(each.parameters)[1] for each in of_folds], axis=0) if sees_all else None
        judged = problem._replace(engine=held_out_rows(fits, folded, candidate))
        found = recalibrate_roughly(judged, audits=audits, hold=hold)
        for fit, each in zip(recalibrated, of_folds, strict=True):
            f = found.of_linear(each.objective.split(each.parameters)[0])
            fit.models[candidate] = each._replace(parameters=np.concatenate([f, found.e]))
    return recalibrated


def combine(
    members: list[tuple[PairProblem, PairFit, int]],
    fits: list[FoldFits],
    folded: FoldedRows,
    audits: float,
    possible: tuple[int, ...],
) -> RecalibratedPairFit:
    """Recalibrate each member, take the mean of their logits, and recalibrate that once more; one member alone is recalibrated once.

    Each member comes with its fit to all rows and its number among the candidates. `possible` are candidates that are
    recalibrated for the sake of intervals, the members among them.
    """
    problem, n_columns = members[0][0], folded.engine.n_columns
    hold = np.mean([fit.e for _, fit, _ in members], axis=0) if problem.e.indices.size == n_columns else None

    def recalibrated(rows: Engine) -> Recalibration:
        return recalibrate(problem._replace(engine=rows), audits=audits, hold=hold)

    beta = np.zeros(n_columns + 1)
    found: list[Recalibration] = []
    for own, fit, candidate in members:
        found.append(recalibrated(held_out_rows(fits, folded, candidate)))
        beta[np.append(own.f.indices, n_columns)] += found[-1].of_linear(fit.f) / len(members)
    last = found[0]
    if len(members) > 1:
        judges = [[fit.models[candidate].linear(n_columns) for fit in fits] for *_, candidate in members]
        last = recalibrated(folded.engine.derive(_mean_logits, judges, found, keep=True))
        beta = last.of_linear(beta)
    columns = np.unique(np.concatenate([own.f.indices for own, *_ in members]))
    bears = float(np.mean([own.C * each.slope**2 for (own, *_), each in zip(members, found, strict=True)]))
    whole = problem.seeing(Design.of(columns))._replace(C=bears * (last.slope**2 if len(members) > 1 else 1.0))
    chosen = {candidate for *_, candidate in members}
    others = [recalibrated(held_out_rows(fits, folded, other)) for other in possible if other not in chosen]
    return RecalibratedPairFit(whole, beta[np.append(columns, n_columns)], last.e, last, [*found, *others])


def _mean_logits(X: Any, rows: Rows, judges: list[list[Vector]], found: list[Recalibration]) -> dict[str, Any]:
    """Return the mean of some candidates' held-out logits, each recalibrated."""
    judged = [held_out_logits(X, rows, models) for models in judges]
    recalibrated = [recalibration(each["u"]) for each, recalibration in zip(judged, found, strict=True)]
    return {"u": sum(recalibrated) / len(recalibrated), "w": judged[0]["w"]}


def recalibrate_choice(
    problem: PairProblem, fit: PairFit, models: list[Candidate], folded: FoldedRows
) -> tuple[PairProblem, PairFit]:
    """Estimate scale and level of a choice anew from logits of rows that its folds' models have not seen.

    Returns the fit moved and stretched, and the problem with the penalty that its coefficients bear then; both as they
    were where that does not converge.
    """
    judged = folded.judged_by([each.linear(folded.engine.n_columns) for each in models])
    recalibrated = recalibrate_roughly(problem._replace(engine=judged), start=fit.e)
    if not recalibrated.converged:
        return problem, fit
    moved = np.concatenate([recalibrated.of_linear(fit.f), recalibrated.e])
    return problem._replace(C=problem.C * recalibrated.slope**2), fit.at(moved)
