"""Fits to several looks, audits and facts along a grid of penalties, and how they foretell what other rows showed.

What a candidate is judged by is the likelihood of all that was observed of rows that it has not seen: labels at looks,
and audits. An audit is the only place where the class itself has a say in the choice.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.engines import Engine, Rows
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.looks import detected
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.pair.fit import FitOptions
from scarless.pair.folded import FoldedRows, times_scored
from scarless.pair.looks import LooksFit, LooksProblem, climb_looks, fit_looks
from scarless.pair.looks_relaxed import problem_of_logits, relax_looks, seen_at_looks
from scarless.pair.penalty_path import Grid, HeldOut, outwards, way_to
from scarless.pair.rows import in_memory

Models = list[tuple[LooksLikelihood, Vector]]  # one for each candidate


class LooksPath(NamedTuple):
    """A set of attributes, to be followed through all penalties."""

    attributes: int
    problem: LooksProblem  # all rows; the penalties are the grid's


class LooksFoldFits(NamedTuple):
    """Every candidate, fitted without the rows of one fold."""

    models: Models
    converged: NDArray[np.bool_]


def walk_looks(path: LooksPath, grid: Grid, options: FitOptions) -> Iterator[tuple[int, LooksFit]]:
    """Fit every pair of penalties: first the one closest to 1 from the usual starts, then outwards from neighbours.

    Yields each fit with its place among ``grid.pairs()``.
    """
    place = {pair: number for number, pair in enumerate(grid.pairs())}
    first: dict[float, LooksFit] = {}
    for propensity_C, neighbour_e in outwards(grid.propensity_Cs):
        column: dict[float, LooksFit] = {}
        for C, neighbour in outwards(grid.Cs):
            problem = path.problem._replace(C=C, propensity_C=propensity_C)
            beside = column[neighbour] if neighbour is not None else first.get(neighbour_e or 0.0)
            fit = fit_looks(problem, options) if beside is None else _from(problem, beside, options)
            column[C] = fit
            yield place[C, propensity_C], fit
        first[propensity_C] = column[grid.middle[0]]


def walk_looks_to(path: LooksPath, grid: Grid, C: float, propensity_C: float, options: FitOptions) -> LooksFit:
    """Fit one pair of penalties, by the way that a walk through the grid would take; only its end is exact."""
    Cs, propensity_Cs = way_to(grid.Cs, C), way_to(grid.propensity_Cs, propensity_C)
    steps = [(Cs[0], other) for other in propensity_Cs] + [(other, propensity_C) for other in Cs[1:]]
    rough = options._replace(tol=max(options.tol, 1e-8))
    fit: LooksFit | None = None
    for number, (here, here_e) in enumerate(steps, start=1):
        problem, exact = path.problem._replace(C=here, propensity_C=here_e), options if number == len(steps) else rough
        fit = fit_looks(problem, exact) if fit is None else _from(problem, fit, exact)
    assert fit is not None
    return fit


def _from(problem: LooksProblem, beside: LooksFit, options: FitOptions) -> LooksFit:
    return climb_looks(problem, beside.beta, options, beside.start)


def looks_fits_without(paths: list[LooksPath], grid: Grid, engine: Engine, options: FitOptions) -> LooksFoldFits:
    """Walk every path on some rows, from starts found there: nothing of the other rows is known. Facts hold there."""
    size = len(grid.pairs())
    models: Models = [(path.problem.objective, np.zeros(0)) for path in paths for _ in range(size)]
    converged = np.zeros(size * len(paths), dtype=bool)
    for number, path in enumerate(paths):
        inside = path._replace(problem=path.problem.on(engine))
        for place, fit in walk_looks(inside, grid, options):
            candidate = number * size + place
            models[candidate] = path.problem.objective, fit.beta
            converged[candidate] = fit.converged
    return LooksFoldFits(models, converged)


def held_out_looks(fits: list[Models], folded: FoldedRows) -> list[HeldOut]:
    """Sum up the log-likelihoods of rows that the fits have not seen, fold by fold, in one pass."""
    fields = folded.engine.total(_block_held_out, fits)
    n_fields = len(HeldOut._fields)
    return [HeldOut(*fields[n_fields * i : n_fields * (i + 1)]) for i in range(len(fits))]


def relax_choice(
    problem: LooksProblem, fit: LooksFit, models: Models, folded: FoldedRows
) -> tuple[LooksProblem, LooksFit]:
    """Estimate scale and level of a choice anew from logits of rows that its folds' models have not seen.

    Returns the fit moved and stretched, and the problem with the penalty that its coefficients bear then. Whoever has a
    logit that runs the wrong way keeps what it has.
    """
    n_columns = folded.engine.n_columns
    linear = np.zeros((len(models), n_columns + 1))
    for beta, (objective, found) in zip(linear, models, strict=True):
        beta[np.append(objective.f.indices, n_columns)] = objective.split(found)[0]
    judged = folded.judged_by(list(linear))
    rows = {name: in_memory(judged, name) for name in ("s", "labels", "looks", "audit")}
    seen = judged.collect(_block_columns, seen_at_looks(problem.objective))
    of_logits = problem_of_logits(problem, in_memory(judged, "u"), seen, in_memory(judged, "w"), rows)
    beta_f, others = problem.objective.split(fit.beta)
    relaxed = relax_looks(of_logits, others, FitOptions(1e-9, 200))
    if not relaxed.fit.converged or relaxed.slope <= 0:
        return problem, fit
    moved = np.append(relaxed.slope * beta_f[:-1], relaxed.shift + relaxed.slope * beta_f[-1])
    stretched = fit._replace(beta=np.concatenate([moved, relaxed.others]))
    return problem._replace(C=problem.C * relaxed.slope**2), stretched


def _block_columns(X: Any, rows: Rows, columns: Columns) -> Matrix:
    seen = X[:, columns]
    return np.asarray(seen.toarray() if hasattr(seen, "toarray") else seen, dtype=np.float64)


def _block_held_out(X: Any, rows: Rows, fits: list[Models]) -> tuple[Vector, ...]:
    """Return the fields of all folds, one after the other."""
    found: list[Vector] = []
    for fold, models in enumerate(fits):
        times = times_scored(rows, fold)
        mine = np.flatnonzero(times)
        part = {name: rows[name][mine] for name in ("labels", "looks", "audit")}
        found += _scored_rows(X[mine], part, (rows["w"] * times)[mine], models)
    return tuple(found)


def _scored_rows(X: Any, rows: Any, w: Vector, models: Models) -> HeldOut:
    n_models = len(models)
    values, positives, labelled = np.empty((w.size, n_models)), np.empty(n_models), np.empty(n_models)
    for i, (objective, beta) in enumerate(models):
        terms = objective.terms(X, rows, beta)
        values[:, i] = terms.value
        positives[i], labelled[i] = w @ terms.f, w @ (terms.f * detected(terms)[0])
    more = values - values[:, :1]
    first = np.atleast_1d(w @ values[:, 0])
    return HeldOut(np.atleast_1d(w.sum()), first, w @ more, (more.T * w) @ more, positives, labelled)
