"""Fits along a grid of penalties, each from its neighbour's optimum, and how they foretell labels of other rows."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.engines import Engine, Rows
from scarless.engines.lockstep import in_lockstep
from scarless.numerics import likelihood
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import Design, logits
from scarless.numerics.namespace import at_least, at_most, concat, namespace_of
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.folded import FoldedRows, block_products, times_scored
from scarless.pair.problem import PairProblem
from scarless.pair.relaxed import FAR
from scarless.pair.starts import Start, the_papers_start

_MANY_ROWS = 10_000  # from so many on, a neighbour's Hessian is worth knowing
_NEARLY_FLAT = 0.1  # variance of the class logit over that of the propensity's: less, and the two have changed places
_AT_ONCE = 1 << 25  # rows times candidates that a device judges in one go


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


class FoldFits(NamedTuple):
    """Both models of every candidate, fitted without the rows of one fold: a column each, intercepts last."""

    f: Matrix
    e: Matrix
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
        start = the_papers_start(problem) if beside is None else _near(problem, fits[number, beside])
        return _fit_from(problem, start, options)

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
    problem = path.problem._replace(C=Cs[0], propensity_C=propensity_Cs[0])
    start = the_papers_start(problem)
    steps = [(Cs[0], other) for other in propensity_Cs] + [(other, propensity_C) for other in Cs[1:]]
    for number, (here, here_e) in enumerate(steps, start=1):
        exact = tol if number == len(steps) else max(tol, 1e-8)
        options = FitOptions(exact, max_iter, damp_indefinite=True)
        problem = problem._replace(C=here, propensity_C=here_e)
        fit = _fit_from(problem, start, options)
        start = _near(problem, fit)
    return fit


def _fit_from(problem: PairProblem, start: Start, options: FitOptions) -> PairFit:
    """Fit from a start; once more from the other way round where models that can be exchanged seem to have been.

    Where both models see the same columns, the weaker penalty draws the direction of the labels. With that in the
    propensity, the class would be the same for all rows.
    """
    fit = fit_pair(problem, start.parameters, options, curvature=start.curvature)
    if not problem.exchangeable or _class_tells_rows_apart(problem, fit):
        return fit
    turned = fit_pair(problem, problem.exchanged(fit.solution.parameters), options)
    return turned if _class_tells_rows_apart(problem, turned) else fit


def _class_tells_rows_apart(problem: PairProblem, fit: PairFit) -> bool:
    """Whether the class logit differs between rows, not the propensity's alone."""
    sums, squares = problem.engine.total(_block_moments, problem.f, problem.e, fit.f, fit.e)
    of_class, of_propensity = squares / problem.weight - (sums / problem.weight) ** 2
    return bool(of_class >= _NEARLY_FLAT * of_propensity)


def _block_moments(X: Any, rows: Rows, f: Design, e: Design, beta_f: Vector, beta_e: Vector) -> tuple[Any, Any]:
    xp, w = namespace_of(rows["w"]), rows["w"]
    each = [at_most(at_least(logits(d.take(X), beta), -FAR), FAR) for d, beta in ((f, beta_f), (e, beta_e))]
    return xp.stack([w @ z for z in each]), xp.stack([w @ z**2 for z in each])


def _near(problem: PairProblem, fit: PairFit) -> Start:
    """Return the start at another penalty's optimum; of many rows with its Hessian, as one more penalty changes little.

    Of few rows the penalty is much of the Hessian, and there is no time to be saved.
    """
    at, known = fit.solution.parameters, fit.information
    if known is None or problem.engine.n_rows < _MANY_ROWS:
        return Start("neighbour", at)
    return Start("neighbour", at, known + problem.penalised.bend(at))


def fits_without(paths: list[Path], grid: Grid, engines: list[Engine], *, tol: float, max_iter: int) -> list[FoldFits]:
    """Walk every path on the rows of each fold, from the paper's start there: nothing of the other rows is known."""
    n_columns, size, n_paths = engines[0].n_columns, len(grid.pairs()), len(paths)
    shape = (n_columns + 1, size * n_paths)
    found = [FoldFits(np.zeros(shape), np.zeros(shape), np.zeros(shape[1], dtype=bool)) for _ in engines]
    # Path after path: products of columns that one path's models need are then forgotten.
    for number, path in enumerate(paths):
        problems = [path.problem.on(engine) for engine in engines]
        seen_f, seen_e = (np.append(each.indices, n_columns) for each in (path.problem.f, path.problem.e))
        for fold, place, fit in walk(problems, grid, tol=tol, max_iter=max_iter):
            column = number * size + place
            found[fold].f[seen_f, column], found[fold].e[seen_e, column] = fit.f, fit.e
            found[fold].converged[column] = fit.converged
    return found


def held_out_sums(fits: list[FoldFits], folded: FoldedRows) -> list[HeldOut]:
    """Sum up the log-likelihoods of rows that the fits have not seen, fold by fold, in one pass."""
    models = [(fit.f, fit.e) for fit in fits]
    fields = folded.engine.total(_block_held_out, models)
    n_fields = len(HeldOut._fields)
    return [HeldOut(*fields[n_fields * i : n_fields * (i + 1)]) for i in range(len(fits))]


def _block_held_out(X: Any, rows: Rows, models: list[tuple[Matrix, Matrix]]) -> tuple[Vector, ...]:
    """Return the fields of all folds, one after the other."""
    found: list[Vector] = []
    for fold, (f, e) in enumerate(models):
        times = times_scored(rows, fold)
        if (xp := namespace_of(X)) is np:
            mine = np.flatnonzero(times)
            found += _scored_rows(X[mine], rows["s"][mine], (rows["w"] * times)[mine], f, e)
        else:
            (mine,) = xp.nonzero(times > 0)
            s, w = (xp.take(each, mine, axis=0) for each in (rows["s"], rows["w"] * times))
            found += _scored_at_once(xp.take(X, mine, axis=0), s, w, f, e)
    return tuple(found)


def _scored_at_once(X: Any, s: Any, w: Any, f: Matrix, e: Matrix) -> HeldOut:
    """Return the sums of all candidates, several in one go: for devices."""
    xp, size = namespace_of(X), max(1, _AT_ONCE // max(1, X.shape[0]))
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


def _scored_rows(X: Any, s: Vector, w: Vector, f: Matrix, e: Matrix) -> HeldOut:
    u, v = block_products(X, f), block_products(X, e)
    values, positives, labelled = np.empty_like(u), np.empty(u.shape[1]), np.empty(u.shape[1])
    for i in range(u.shape[1]):
        at = u[:, i].copy(), v[:, i].copy()
        terms = likelihood.pair_terms(*at)
        values[:, i] = likelihood.log_likelihood(*at, s, terms)
        positives[i], labelled[i] = w @ terms.f, w @ (terms.f * terms.e)
    more = values - values[:, :1]
    first = np.atleast_1d(w @ values[:, 0])
    return HeldOut(np.atleast_1d(w.sum()), first, w @ more, (more.T * w) @ more, positives, labelled)


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
