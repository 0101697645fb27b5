"""Fits along a grid of penalties, each from its neighbour's optimum, and how they foretell labels of other rows."""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.engines import Engine, Rows
from scarless.numerics import likelihood
from scarless.numerics.arrays import Matrix, Vector
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.folded import FoldedRows, block_products, times_scored
from scarless.pair.problem import PairProblem
from scarless.pair.starts import Start, the_papers_start

_MANY_ROWS = 10_000  # from so many on, a neighbour's Hessian is worth knowing


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


def walk(path: Path, grid: Grid, *, tol: float, max_iter: int) -> Iterator[tuple[int, PairFit]]:
    """Fit every pair of penalties: first the one closest to 1 from the paper's start, then outwards from neighbours.

    Yields each fit with its place among ``grid.pairs()``.
    """
    place = {pair: number for number, pair in enumerate(grid.pairs())}
    middle, middle_e = grid.middle
    at_middle = the_papers_start(path.problem._replace(C=middle, propensity_C=middle_e))
    options = FitOptions(tol, max_iter, damp_indefinite=True)
    first: dict[float, PairFit] = {}
    for propensity_C, neighbour_e in outwards(grid.propensity_Cs):
        column: dict[float, PairFit] = {}
        for C, neighbour in outwards(grid.Cs):
            problem = path.problem._replace(C=C, propensity_C=propensity_C)
            beside = column[neighbour] if neighbour is not None else first.get(neighbour_e or 0.0)
            fit = _fit_from(problem, at_middle if beside is None else _near(problem, beside), options)
            column[C] = fit
            yield place[C, propensity_C], fit
        first[propensity_C] = column[middle]


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
    return fit_pair(problem, start.parameters, options, curvature=start.curvature)


def _near(problem: PairProblem, fit: PairFit) -> Start:
    """Return the start at another penalty's optimum; of many rows with its Hessian, as one more penalty changes little.

    Of few rows the penalty is much of the Hessian, and there is no time to be saved.
    """
    at, known = fit.solution.parameters, fit.information
    if known is None or problem.engine.n_rows < _MANY_ROWS:
        return Start("neighbour", at)
    return Start("neighbour", at, known + problem.penalised.bend(at))


def fits_without(paths: list[Path], grid: Grid, engine: Engine, *, tol: float, max_iter: int) -> FoldFits:
    """Walk every path on some rows, from the paper's start there: nothing of the other rows is known."""
    n_columns, size = engine.n_columns, len(grid.pairs())
    f, e = (np.zeros((n_columns + 1, size * len(paths))) for _ in range(2))
    converged = np.zeros(size * len(paths), dtype=bool)
    for number, path in enumerate(paths):
        inside = path._replace(problem=path.problem.on(engine))
        for place, fit in walk(inside, grid, tol=tol, max_iter=max_iter):
            column = number * size + place
            f[np.append(path.problem.f.indices, n_columns), column] = fit.f
            e[np.append(path.problem.e.indices, n_columns), column] = fit.e
            converged[column] = fit.converged
    return FoldFits(f, e, converged)


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
        mine = np.flatnonzero(times)
        found += _scored_rows(X[mine], rows["s"][mine], (rows["w"] * times)[mine], f, e)
    return tuple(found)


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
