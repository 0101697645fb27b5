"""Both models of a problem fitted together, by Fisher scoring and Newton."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.newton import Solution, Status, Trace
from scarless.pair.logistic import balanced_start, propensity_start, with_probability
from scarless.pair.problem import PairProblem


class FitOptions(NamedTuple):
    """How exactly, how long, and how boldly a solver climbs."""

    tol: float  # predicted gain per unit of row weight, below which a climb ends
    max_iter: int = 200
    damp_indefinite: bool = False  # saves iterations where penalties are weak; may end at a nearer optimum
    progress: Callable[[Trace], None] | None = None


class PairFit(NamedTuple):
    """Both models' parameters and how they were found."""

    f: Vector
    e: Vector
    solution: Solution
    log_likelihoods: list[float]  # observed, without penalty, at the start of each iteration
    information: Matrix | None  # observed, of the rows, at the solution; None where the solver did not need it

    @property
    def converged(self) -> bool:
        """Whether the solver met its stopping rule."""
        return self.solution.status is Status.CONVERGED


def fit_pair(
    problem: PairProblem, start: Vector | None, options: FitOptions, *, curvature: Matrix | None = None
) -> PairFit:
    """Fit classifier and propensity model from a start; None is the paper's.

    `curvature` is what the Hessian near the start is like, where that is known.
    """
    beta = paper_start(problem) if start is None else start
    penalised, free = problem.penalised, math.isinf(problem.C) or math.isinf(problem.propensity_C)

    def climb(beta: Vector, max_iter: int, curvature: Matrix | None = None) -> Solution:
        return penalised.solve(
            beta,
            total_weight=problem.weight,
            tol=options.tol,
            max_iter=max_iter,
            may_diverge=free,
            damp_indefinite=options.damp_indefinite,
            curvature=curvature,
            progress=options.progress,
        )

    solution = climb(beta, options.max_iter, curvature)
    # Without a penalty what bends down may lead to infinity: followed only where equal models make a true saddle.
    follow = not free or problem.exchangeable or problem.f.n_columns + problem.e.n_columns == 0
    while follow and solution.n_iter < options.max_iter and (beside := penalised.beside_saddle(solution)) is not None:
        solution = solution.followed_by(climb(beside, options.max_iter - solution.n_iter))
    log_likelihoods = [penalised.penalty(at.parameters) - at.value for at in solution.history]
    information = None if solution.curvature is None else solution.curvature - penalised.bend(solution.parameters)
    return PairFit(*problem.objective.split(solution.parameters), solution, log_likelihoods, information)


def paper_start(problem: PairProblem) -> Vector:
    """Return the paper's first pair: a balanced classifier, then the propensity that its probabilities imply."""
    f = balanced_start(problem.engine, problem.f, problem.labelled_share, C=problem.C)
    engine = with_probability(problem.engine, problem.f, f, "f")
    return np.concatenate([f, propensity_start(engine, problem.e, C=problem.propensity_C)])
