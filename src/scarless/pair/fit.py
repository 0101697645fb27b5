"""Joint fit of all models of a problem by Fisher scoring and Newton's method."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.newton import MAX_MATRIX_PARAMETERS, Solution, Status, Trace, solve_positive
from scarless.numerics.objectives import Curvature
from scarless.pair.constraints import Constraint
from scarless.pair.logistic import balanced_start, propensity_start, with_probability
from scarless.pair.problem import PairProblem
from scarless.pair.solving import PenalisedProblem

MAX_MULTIPLIER_ROUNDS = 50  # iterations of the method of multipliers; 3 to 10 are usual
#: Smallest variance of a constraint in a fit, as a multiple of the sampling variance of a share of all rows. Newton's
#: method stalls if the variance is smaller. The method of multipliers corrects for the larger variance. By judgement.
MIN_CONSTRAINT_VARIANCE = 0.05
CONSTRAINT_TOLERANCE = 1e-7  # largest distance of a share from its known value
GAIN_WITH_CONSTRAINTS = 1e-15  # tolerance per row with exact constraints; with a larger one, shares have visible errors
ROUGH_GAIN = 1e-5  # tolerance per row of fits that are only compared with each other
LARGEST_LAST_GAIN = 1e-9  # the extra Newton step after the fit is left out if its relative gain is larger


class FitOptions(NamedTuple):
    """Options of the solver."""

    tol: float  # the solver stops if the next step would gain less than this per unit of row weight
    max_iter: int = 200
    damp_indefinite: bool = False  # saves iterations if penalties are weak, but may end at another optimum
    progress: Callable[[Trace], None] | None = None


class PairFit(NamedTuple):
    """The fitted parameters of all models, and the solver's result."""

    f: Vector
    e: Vector  # parameters of each propensity model, then false positive rates
    solution: Solution
    log_likelihoods: list[float]  # without penalty, at the start of each iteration
    information: Matrix | None  # observed information at the solution; None if the solver did not compute it
    constraints: tuple[Constraint, ...] = ()  # with their final multipliers
    constraints_met: bool = True  # whether all exact constraints hold

    @property
    def parameters(self) -> Vector:
        """Parameters of the classifier, then all others."""
        return self.solution.parameters

    def at(self, parameters: Vector) -> "PairFit":
        """Return this fit with other parameters."""
        solution = replace(self.solution, parameters=parameters, curvature=None)
        f, e = parameters[: self.f.size], parameters[self.f.size :]
        return self._replace(f=f, e=e, solution=solution, information=None)

    @property
    def converged(self) -> bool:
        """Whether the solver converged and the constraints hold."""
        return self.solution.status is Status.CONVERGED and self.constraints_met


def fit_pair(
    problem: PairProblem, start: Vector | None, options: FitOptions, *, curvature: Matrix | None = None
) -> PairFit:
    """Fit all models from a start; if `start` is None, from the paper's start.

    `curvature` is an approximate Hessian at the start, if known. Newton's method would stall at a constraint with a
    very small standard error. Such constraints are fitted by the method of multipliers: the penalty gets a larger
    variance (see `MIN_CONSTRAINT_VARIANCE`), and its target moves until the constraint holds.
    """
    beta, curvatures = paper_start(problem) if start is None else start, iter((curvature,))

    def solve(constraints: tuple[Constraint, ...], at: Vector, exactly: bool) -> Solution:
        return _solve(problem, problem.penalised(constraints), at, options, next(curvatures, None), exactly=exactly)

    if problem.constraints:
        solution, constraints, met = fit_with_constraints(problem.constraints, problem.weight, beta, solve)
    else:
        solution, constraints, met = _solve(problem, problem.penalised(), beta, options, curvature), (), True
    penalised = problem.penalised(constraints)
    if problem.has_extra_information and options.tol < ROUGH_GAIN and solution.status is Status.CONVERGED:
        solution = _with_last_newton_step(penalised, solution, exactly=bool(constraints))
    log_likelihoods = [penalised.penalty(at.parameters) - at.value for at in solution.history]
    information = (
        None if solution.curvature is None else solution.curvature - penalised.penalty_curvature(solution.parameters)
    )
    return PairFit(
        *problem.objective.split(solution.parameters), solution, log_likelihoods, information, constraints, met
    )


class ConstrainedFit(NamedTuple):
    """The solution of a fit with constraints, the constraints with their multipliers, and whether they hold."""

    solution: Solution
    constraints: tuple[Constraint, ...]
    met: bool


def fit_with_constraints(
    constraints: tuple[Constraint, ...],
    weight: float,
    beta: Vector,
    solve: Callable[[tuple[Constraint, ...], Vector, bool], Solution],
) -> ConstrainedFit:
    """Solve a problem with constraints by the method of multipliers, from the start `beta`.

    ``solve(constraints, start, exactly)`` solves the problem with the current multipliers. `exactly` is True if some
    constraint has a standard error of 0 or nearly 0. The solver then needs a smaller tolerance.
    """
    constraints, solution, met = tuple(_widened(constraint, weight) for constraint in constraints), None, True
    exactly = any(constraint.widened for constraint in constraints)
    for _ in range(MAX_MULTIPLIER_ROUNDS):
        found = solve(constraints, beta, exactly)
        solution = found if solution is None else solution.followed_by(found)
        beta = solution.parameters
        if not exactly:
            break
        moved = tuple(
            constraint.moved(constraint.share(beta, hessian=False).value) if constraint.widened else constraint
            for constraint in constraints
        )
        away = [
            constraint.widened * abs(new.multiplier - constraint.multiplier)
            for constraint, new in zip(constraints, moved, strict=True)
        ]
        constraints, met = moved, max(away) < CONSTRAINT_TOLERANCE
        if met or solution.status is not Status.CONVERGED:
            break
    assert solution is not None
    return ConstrainedFit(solution, constraints, met)


def _solve(
    problem: PairProblem,
    penalised: PenalisedProblem,
    start: Vector,
    options: FitOptions,
    curvature: Matrix | None,
    *,
    exactly: bool = False,
) -> Solution:
    """Minimise the penalised problem; if the solver ends at a saddle point, continue from a lower point beside it."""
    rules: dict[str, Any] = {
        "total_weight": problem.weight,
        "tol": min(options.tol, GAIN_WITH_CONSTRAINTS) if exactly else options.tol,
        "may_diverge": problem.is_unpenalised,
        "damp_indefinite": options.damp_indefinite or problem.objective.false_positives is not None,
        "progress": options.progress,
    }
    solution = penalised.solve(start, max_iter=options.max_iter, curvature=curvature, **rules)
    # Without a penalty, a direction of negative curvature may lead to infinity. An unpenalised fit therefore follows
    # such a direction only if the two models can be swapped or use no columns. Equal models are then a saddle point.
    no_columns = problem.f.n_columns + problem.e.n_columns == 0
    follow = not problem.has_extra_information and (not problem.is_unpenalised or problem.swappable or no_columns)
    while follow and solution.n_iter < options.max_iter:
        lower = penalised.point_beside_saddle(solution)
        if lower is None:
            break
        solution = solution.followed_by(penalised.solve(lower, max_iter=options.max_iter - solution.n_iter, **rules))
    return solution


def paper_start(problem: PairProblem) -> Vector:
    """Return the start of the paper: a classifier of labelled against unlabelled rows, then a propensity model.

    See `balanced_start` and `propensity_start`.
    """
    one = problem.one_look
    f = balanced_start(one.engine, one.f, one.labelled_share, C=one.C)
    engine = with_probability(one.engine, one.f, f, "f")
    return problem.to_all_looks(np.concatenate([f, propensity_start(engine, one.e, C=one.propensity_C)]))


def _widened(constraint: Constraint, weight: float) -> Constraint:
    least = MIN_CONSTRAINT_VARIANCE * constraint.value * (1.0 - constraint.value) / weight
    return replace(constraint, widened=least if constraint.variance < least else 0.0, multiplier=0.0)


def _with_last_newton_step(penalised: PenalisedProblem, solution: Solution, *, exactly: bool) -> Solution:
    """Return the solution after one more Newton step.

    The likelihood of several looks can be flat near its optimum. Without this step, printed standard errors would
    depend on where the solver stopped. The step is left out if it would change the objective visibly. It uses the
    solver's Hessian or, with `exactly`, a new one, because the multipliers have changed.
    """
    beta, curvature = solution.parameters, None if exactly else solution.curvature
    if beta.size > MAX_MATRIX_PARAMETERS:
        return solution
    sums = penalised.evaluate(beta, Curvature.OBSERVED if curvature is None else Curvature.NONE)
    curvature = sums.curvature if curvature is None else curvature
    step = -solve_positive(curvature, sums.gradient)
    near = 0.0 <= -sums.gradient @ step <= LARGEST_LAST_GAIN * abs(float(sums.value))
    return replace(solution, parameters=beta + step, curvature=curvature) if near else solution
