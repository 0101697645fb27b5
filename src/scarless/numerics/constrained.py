r"""Maximise the likelihood of two logistic models at a fixed class prior.

Lagrange-Newton method: each step solves the linearised first-order conditions of

.. math:: \min_\theta F(\theta) \quad\text{subject to}\quad c(\theta) = \sum_i w_i f_i - N = 0.

A line search on the augmented Lagrangian :math:`F + \mu c + \tfrac12\rho c^2` makes the method robust. The solver is
used along a grid of class priors: each start is the solution at a nearby `N`.

References
----------
Nocedal and Wright, "Numerical Optimization", chapters 17 and 18.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from scarless.numerics import linear
from scarless.numerics.arrays import Matrix, Rows, Vector, concat, namespace_of, zeros
from scarless.numerics.likelihood import sigmoid_pair
from scarless.numerics.objectives import Curvature, PairObjective

_MAX_STEP_HALVINGS = 30


class FixedPriorSums(NamedTuple):
    """Value, gradient and curvature of an objective and of the expected number of positives."""

    value: Vector
    gradient: Vector
    curvature: Matrix
    positives: Vector
    positives_gradient: Vector
    positives_curvature: Matrix  # by the parameters of the class model only; empty unless the curvature is OBSERVED


@dataclass(frozen=True)
class PairWithPositives:
    r"""Minus the log-likelihood of a pair, and :math:`\sum w f`, with derivatives. `rows` is as for the pair."""

    pair: PairObjective

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> FixedPriorSums:
        """Return the sums over one block of rows."""
        value, gradient, matrix = self.pair.sums(X, rows, beta, curvature)
        w, X_f = rows["w"], self.pair.f.take(X)
        beta_f, beta_e = self.pair.split(beta)
        f, not_f = sigmoid_pair(linear.logits(X_f, beta_f))
        weight = w * f * not_f
        observed = curvature is Curvature.OBSERVED
        second = linear.cross_product(X_f, weight * (not_f - f), X_f) if observed else zeros(X, 0, 0)
        first = concat([linear.transposed_product(X_f, weight), zeros(X, beta_e.size)])
        return FixedPriorSums(value, gradient, matrix, namespace_of(X).asarray(w @ f), first, second)


class FixedPriorProblem(Protocol):
    """A penalised objective over all rows, with the expected number of positives."""

    def evaluate(self, beta: Vector, curvature: Curvature) -> FixedPriorSums:
        """Return the sums at `beta`, penalty included."""
        ...


@dataclass(frozen=True)
class FixedPriorOptions:
    """Stopping rules. `scale` is the sum of the row weights."""

    scale: float
    tol: float = 1e-10  # predicted decrease of the augmented Lagrangian per row at which the solver stops
    class_prior_tol: float = 1e-9  # largest accepted error of the class prior
    rounding: float = 1e-14  # relative rounding error of the objective
    max_iter: int = 30


@dataclass(frozen=True)
class FixedPriorSolution:
    """Result of the solver; `multiplier` is minus the derivative of the optimal value by the number of positives."""

    parameters: Vector
    multiplier: float
    value: float
    positives: float
    converged: bool
    n_iter: int


def minimise_at_class_prior(
    problem: FixedPriorProblem, start: Vector, *, positives: float, multiplier: float, options: FixedPriorOptions
) -> FixedPriorSolution:
    r"""Minimise an objective subject to :math:`\sum_i w_i f_i` = `positives`, from a start close to the solution."""
    beta, mu = np.asarray(start, dtype=np.float64), multiplier
    now = problem.evaluate(beta, Curvature.OBSERVED)
    n_iter, converged = 0, False
    for n_iter in range(1, options.max_iter + 1):  # noqa: B007
        step = _step(problem, beta, now, mu, positives)
        if step is None:
            break
        mu, excess = step.multiplier, float(now.positives) - positives
        small = max(options.tol * options.scale, options.rounding * abs(float(now.value)))
        if step.gain <= small and abs(excess) <= options.class_prior_tol * options.scale:
            converged = True
            break
        trial = _line_search(problem, beta, now, step, positives, noise=options.rounding * abs(float(now.value)))
        if trial is None:
            break
        beta, now = trial
    return FixedPriorSolution(beta, mu, float(now.value), float(now.positives), converged, n_iter)


class _Step(NamedTuple):
    direction: Vector
    multiplier: float
    gain: float  # predicted decrease of the augmented Lagrangian by the full step
    rho: float  # penalty on the squared constraint in the augmented Lagrangian


def _step(problem: FixedPriorProblem, beta: Vector, now: FixedPriorSums, mu: float, positives: float) -> _Step | None:
    """Solve the linearised conditions; use the expected information if the exact Hessian is not positive definite."""
    lagrangian = now.curvature.copy()
    n_f = len(now.positives_curvature)
    lagrangian[:n_f, :n_f] += mu * now.positives_curvature
    excess = float(now.positives) - positives
    step = _solve(lagrangian, now, excess, ridges=(0.0, 1e-9))
    if step is not None:
        return step
    expected = problem.evaluate(beta, Curvature.EXPECTED).curvature
    return _solve(expected, now, excess, ridges=(0.0, 1e-9, 1e-6, 1e-3))


def _solve(matrix: Matrix, now: FixedPriorSums, excess: float, *, ridges: tuple[float, ...]) -> _Step | None:
    """Solve the bordered system with the first ridge that makes it solvable; return None if no ridge does."""
    diagonal = np.diagonal(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    slope = scale * now.positives_gradient
    if not float(slope @ slope) > 0:
        return None
    # This rho adds a curvature of 1, the diagonal of the scaled matrix, along the gradient of the constraint. It can
    # outweigh a negative curvature in this direction.
    rho = 1.0 / float(slope @ slope)
    augmented = matrix * scale[:, None] * scale + rho * np.outer(slope, slope)
    for ridge in ridges:
        factor = _factor(augmented + ridge * np.eye(len(augmented)))
        if factor is not None:
            by_gradient = cho_solve(factor, scale * now.gradient, check_finite=False)
            by_slope = cho_solve(factor, slope, check_finite=False)
            multiplier = (excess - float(slope @ by_gradient)) / float(slope @ by_slope)
            direction = -scale * (by_gradient + multiplier * by_slope)
            gain = -0.5 * float(direction @ (now.gradient + multiplier * now.positives_gradient))
            return _Step(direction, multiplier - rho * excess, gain, rho)
    return None


def _factor(scaled: Matrix) -> tuple[Matrix, bool] | None:
    try:
        factor, lower = cho_factor(scaled, check_finite=False)
    except LinAlgError:
        return None
    # A pivot of the size of rounding errors belongs to a direction without information; do not divide by it.
    return (factor, lower) if np.isfinite(factor).all() and np.diagonal(factor).min() > 1e-7 else None


def _line_search(
    problem: FixedPriorProblem, beta: Vector, now: FixedPriorSums, step: _Step, positives: float, *, noise: float
) -> tuple[Vector, FixedPriorSums] | None:
    """Halve the step until the augmented Lagrangian decreases enough, up to rounding errors."""

    def merit(sums: FixedPriorSums) -> float:
        excess = float(sums.positives) - positives
        return float(sums.value) + step.multiplier * excess + 0.5 * step.rho * excess**2

    before, share = merit(now), 1.0
    for _ in range(_MAX_STEP_HALVINGS):
        trial = problem.evaluate(beta + share * step.direction, Curvature.OBSERVED)
        if merit(trial) <= before - 2e-4 * share * step.gain + noise:
            return beta + share * step.direction, trial
        share *= 0.5
    return None
