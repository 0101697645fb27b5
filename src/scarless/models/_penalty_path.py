"""Fits along a grid of penalties, each from its neighbour's optimum, and how they foretell labels of other rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.data.tables import take_rows
from scarless.models._base import engine_of
from scarless.models._logistic import PairFit, fit_pair, summarise_pair
from scarless.models._starts import PairProblem, Start
from scarless.numerics import likelihood
from scarless.numerics.newton import Status

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

# Two fits with the same attributes and penalties are one where their means agree to this.
_SAME = 1e-3


@dataclass(frozen=True)
class Candidate:
    """One choice of attributes and penalties, fitted to all rows from one start."""

    problem: PairProblem
    attributes: int  # which set of attributes
    start: str
    parameters: Vector
    objective: float
    class_prior: float
    label_frequency: float
    converged: bool

    def same_as(self, other: "Candidate") -> bool:
        """Whether two starts led to one optimum."""
        return (
            self.attributes == other.attributes
            and (self.problem.C, self.problem.propensity_C) == (other.problem.C, other.problem.propensity_C)
            and abs(self.class_prior - other.class_prior) <= _SAME
            and abs(self.label_frequency - other.label_frequency) <= _SAME
        )


class HeldOut(NamedTuple):
    """Sums over held-out rows; of log-likelihoods, what each candidate has more than the first one."""

    weight: Vector
    first: Vector  # the first candidate's log-likelihood
    more: Vector
    products: Matrix  # of these surpluses, for the variance of their differences


def fit_path(
    problem: PairProblem,
    attributes: int,
    make_start: Callable[[PairProblem], Start],
    Cs: Vector,
    propensity_Cs: Vector,
    *,
    tol: float,
    max_iter: int,
) -> Iterable[Candidate]:
    """Fit every pair of penalties: first the one closest to 1 from the start, then outwards from neighbours."""
    middle = problem._replace(C=_closest_to_one(Cs), propensity_C=_closest_to_one(propensity_Cs))
    start = make_start(middle)
    options = {"attributes": attributes, "name": start.name, "tol": tol, "max_iter": max_iter}
    for propensity_C, at_middle in _outwards(propensity_Cs, start.parameters):
        column = problem._replace(C=middle.C, propensity_C=propensity_C)
        first = _candidate(column, at_middle.parameters, **options)  # type: ignore[arg-type]
        at_middle.parameters = first.parameters
        yield first
        for C, neighbour in _outwards(Cs, first.parameters):
            if C != middle.C:
                candidate = _candidate(column._replace(C=C), neighbour.parameters, **options)  # type: ignore[arg-type]
                neighbour.parameters = candidate.parameters
                yield candidate


def held_out_sums(
    candidates: list[Candidate], train: Rows, test: Rows, X: Any, *, tol: float, max_iter: int
) -> HeldOut:
    """Fit every candidate without the test rows, from its own optimum, and sum up the test rows' log-likelihoods."""
    s, w = candidates[0].problem.s, candidates[0].problem.w
    engine, n_columns = engine_of(take_rows(X, train)), X.shape[1]
    f, e = np.zeros((n_columns + 1, len(candidates))), np.zeros((n_columns + 1, len(candidates)))
    for i, candidate in enumerate(candidates):
        problem = candidate.problem._replace(engine=engine, s=s[train], w=w[train])
        fit = _fit(problem, candidate.parameters, tol=tol, max_iter=max_iter)
        f[np.append(problem.f_columns, n_columns), i] = fit.f
        e[np.append(problem.e_columns, n_columns), i] = fit.e
    test_engine = engine_of(take_rows(X, test)).with_rows(s=s[test], w=w[test])
    return HeldOut(*test_engine.total(_block_held_out, f, e))


def _block_held_out(X: Any, rows: Any, f: Matrix, e: Matrix) -> HeldOut:
    s, w = rows["s"], rows["w"]
    u, v = _all_logits(X, f), _all_logits(X, e)
    values = np.empty_like(u)
    for i in range(u.shape[1]):
        at = u[:, i].copy(), v[:, i].copy()
        values[:, i] = likelihood.log_likelihood(*at, s, likelihood.pair_terms(*at))
    more = values - values[:, :1]
    return HeldOut(np.atleast_1d(w.sum()), np.atleast_1d(w @ values[:, 0]), w @ more, (more.T * w) @ more)


def _all_logits(X: Any, parameters: Matrix) -> Matrix:
    return np.asarray(X @ parameters[:-1].astype(X.dtype), dtype=np.float64) + parameters[-1]


def _candidate(
    problem: PairProblem, start: Vector, *, attributes: int, name: str, tol: float, max_iter: int
) -> Candidate:
    fit = _fit(problem, start, tol=tol, max_iter=max_iter)
    engine, s, w, *_ = problem
    summary = summarise_pair(engine, problem.f, problem.e, s, w, fit.f, fit.e)
    return Candidate(
        problem,
        attributes,
        name,
        fit.solution.parameters,
        objective=fit.solution.value,
        class_prior=summary.positives / float(w.sum()),
        label_frequency=summary.labelled_positives / summary.positives,
        converged=fit.solution.status is Status.CONVERGED,
    )


def _fit(problem: PairProblem, start: Vector, *, tol: float, max_iter: int) -> PairFit:
    engine, s, w, _, _, C, propensity_C = problem
    return fit_pair(
        engine,
        problem.f,
        problem.e,
        s,
        w,
        C=C,
        propensity_C=propensity_C,
        tol=tol,
        max_iter=max_iter,
        start=start,
        damp_indefinite=True,
    )


@dataclass
class _Neighbour:
    """Where the last fit in one direction ended."""

    parameters: Vector


def _outwards(values: Vector, start: Vector) -> Iterable[tuple[float, _Neighbour]]:
    """Yield the value closest to 1, then those above it upwards, then those below downwards, each with its neighbour.

    What is written into the neighbour is the next one's start.
    """
    ordered = np.sort(values)
    middle = int(np.searchsorted(ordered, _closest_to_one(values)))
    centre = _Neighbour(start)
    yield float(ordered[middle]), centre
    for part in (ordered[middle + 1 :], ordered[:middle][::-1]):
        neighbour = _Neighbour(centre.parameters)
        for value in part:
            yield float(value), neighbour


def _closest_to_one(values: Vector) -> float:
    return float(values[np.argmin(np.abs(np.log(values)))])
