"""All models of a problem fitted together, by Fisher scoring and Newton's method."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.newton import WIDEST_MATRIX, Solution, Status, Trace, solve_positive
from scarless.numerics.objectives import Curvature
from scarless.pair.constraints import Fact
from scarless.pair.logistic import balanced_start, propensity_start, with_probability
from scarless.pair.problem import PairProblem
from scarless.pair.solving import PenalisedProblem

MAX_MULTIPLIER_ROUNDS = 50  # of the method of multipliers; 3 to 10 are usual
#: Least variance of a fact within a fit, as a part of the variance that a share of so many rows has: a stiffer penalty
#: stalls Newton's method, and the method of multipliers does the rest. By judgement.
MIN_CONSTRAINT_VARIANCE = 0.05
CONSTRAINT_TOLERANCE = 1e-7  # how near a share is to where it should be
GAIN_WITH_CONSTRAINTS = 1e-15  # predicted per row, where shares are to be met: more would be felt in them
ROUGH_GAIN = 1e-5  # per row, of climbs that are only compared: they need no last step
LARGEST_LAST_GAIN = 1e-9  # of the objective: more is no last step


class FitOptions(NamedTuple):
    """How exactly, how long, and how boldly a solver climbs."""

    tol: float  # predicted gain per unit of row weight, below which a climb ends
    max_iter: int = 200
    damp_indefinite: bool = False  # saves iterations where penalties are weak; may end at a nearer optimum
    progress: Callable[[Trace], None] | None = None


class PairFit(NamedTuple):
    """The parameters of all models, and how they were found."""

    f: Vector
    e: Vector  # all but the classifier's: of each propensity model, then rates of false positives
    solution: Solution
    log_likelihoods: list[float]  # observed, without penalty, at the start of each iteration
    information: Matrix | None  # observed, of the rows, at the solution; None where the solver did not need it
    facts: tuple[Fact, ...] = ()  # with their multipliers
    met: bool = True  # whether every fact that is sure is kept to

    @property
    def parameters(self) -> Vector:
        """Of the classifier, then all others."""
        return self.solution.parameters

    def at(self, parameters: Vector) -> "PairFit":
        """Return the fit with parameters that were moved since."""
        solution = replace(self.solution, parameters=parameters, curvature=None)
        f, e = parameters[: self.f.size], parameters[self.f.size :]
        return self._replace(f=f, e=e, solution=solution, information=None)

    @property
    def converged(self) -> bool:
        """Whether the solver met its stopping rule, and facts are kept to."""
        return self.solution.status is Status.CONVERGED and self.met


def fit_pair(
    problem: PairProblem, start: Vector | None, options: FitOptions, *, curvature: Matrix | None = None
) -> PairFit:
    """Fit all models from a start; None is the paper's.

    `curvature` is what the Hessian near the start is like, where that is known. Facts that are nearly sure are kept to
    by the method of multipliers: a penalty as stiff as such a fact stalls Newton's method. In its place stands one as
    wide as the share of as many rows as there are would be if their classes were known, whose target moves until the
    share is where it should be.
    """
    beta, curvatures = paper_start(problem) if start is None else start, iter((curvature,))

    def climb(facts: tuple[Fact, ...], at: Vector, exactly: bool) -> Solution:
        return _climb(problem, problem.penalised(facts), at, options, next(curvatures, None), exactly=exactly)

    if problem.facts:
        solution, facts, met = fit_with_constraints(problem.facts, problem.weight, beta, climb)
    else:
        solution, facts, met = _climb(problem, problem.penalised(), beta, options, curvature), (), True
    penalised = problem.penalised(facts)
    if problem.told_by_height and options.tol < ROUGH_GAIN and solution.status is Status.CONVERGED:
        solution = _polished(penalised, solution, exactly=bool(facts))
    log_likelihoods = [penalised.penalty(at.parameters) - at.value for at in solution.history]
    information = None if solution.curvature is None else solution.curvature - penalised.bend(solution.parameters)
    return PairFit(*problem.objective.split(solution.parameters), solution, log_likelihoods, information, facts, met)


class Kept(NamedTuple):
    """Where a solver ended that keeps to facts, the facts with their multipliers, and whether all of them are met."""

    solution: Solution
    facts: tuple[Fact, ...]
    met: bool


def fit_with_constraints(
    facts: tuple[Fact, ...],
    weight: float,
    beta: Vector,
    climb: Callable[[tuple[Fact, ...], Vector, bool], Solution],
) -> Kept:
    """Solve a problem with facts from a start by the method of multipliers.

    ``climb(facts, start, exactly)`` solves it with facts as they are at the moment.
    """
    facts, solution, met = tuple(_widened(fact, weight) for fact in facts), None, True
    exactly = any(fact.widened for fact in facts)
    for _ in range(MAX_MULTIPLIER_ROUNDS):
        found = climb(facts, beta, exactly)
        solution = found if solution is None else solution.followed_by(found)
        beta = solution.parameters
        if not exactly:
            break
        moved = tuple(fact.moved(fact.share(beta, bend=False).value) if fact.widened else fact for fact in facts)
        away = [fact.widened * abs(new.multiplier - fact.multiplier) for fact, new in zip(facts, moved, strict=True)]
        facts, met = moved, max(away) < CONSTRAINT_TOLERANCE
        if met or solution.status is not Status.CONVERGED:
            break
    assert solution is not None
    return Kept(solution, facts, met)


def _climb(
    problem: PairProblem,
    penalised: PenalisedProblem,
    start: Vector,
    options: FitOptions,
    curvature: Matrix | None,
    *,
    exactly: bool = False,
) -> Solution:
    """Climb, and go on beside a saddle."""
    rules: dict[str, Any] = {
        "total_weight": problem.weight,
        "tol": min(options.tol, GAIN_WITH_CONSTRAINTS) if exactly else options.tol,
        "may_diverge": problem.free,
        "damp_indefinite": options.damp_indefinite or problem.objective.false_positives is not None,
        "progress": options.progress,
    }
    solution = penalised.solve(start, max_iter=options.max_iter, curvature=curvature, **rules)
    # Without a penalty what bends down may lead to infinity: followed only where equal models make a true saddle.
    nothing_seen = problem.f.n_columns + problem.e.n_columns == 0
    follow = not problem.told_by_height and (not problem.free or problem.swappable or nothing_seen)
    while follow and solution.n_iter < options.max_iter and (beside := penalised.beside_saddle(solution)) is not None:
        solution = solution.followed_by(penalised.solve(beside, max_iter=options.max_iter - solution.n_iter, **rules))
    return solution


def paper_start(problem: PairProblem) -> Vector:
    """Return the paper's first pair: a balanced classifier, then the propensity that its probabilities imply."""
    one = problem.one_look
    f = balanced_start(one.engine, one.f, one.labelled_share, C=one.C)
    engine = with_probability(one.engine, one.f, f, "f")
    return problem.spread(np.concatenate([f, propensity_start(engine, one.e, C=one.propensity_C)]))


def _widened(fact: Fact, weight: float) -> Fact:
    least = MIN_CONSTRAINT_VARIANCE * fact.value * (1.0 - fact.value) / weight
    return replace(fact, widened=least if fact.variance < least else 0.0, multiplier=0.0)


def _polished(penalised: PenalisedProblem, solution: Solution, *, exactly: bool) -> Solution:
    """Return where one more step of Newton's method leads: too short for the objective to tell, but nearer its top.

    Likelihoods of looks are flat in places, and printed standard errors would tell. By the curvature that the solver
    had, or `exactly`, where facts have moved since.
    """
    beta, curvature = solution.parameters, None if exactly else solution.curvature
    if beta.size > WIDEST_MATRIX:
        return solution
    there = penalised.evaluate(beta, Curvature.OBSERVED if curvature is None else Curvature.NONE)
    curvature = there.curvature if curvature is None else curvature
    step = -solve_positive(curvature, there.gradient)
    near = 0.0 <= -there.gradient @ step <= LARGEST_LAST_GAIN * abs(float(there.value))
    return replace(solution, parameters=beta + step, curvature=curvature) if near else solution
