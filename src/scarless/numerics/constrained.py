r"""Maximise the likelihood of two logistic models while their class prior stays where it is told to.

Lagrange-Newton: each step solves the first-order conditions of

.. math:: \min_\theta F(\theta) \quad\text{with}\quad c(\theta) = \sum_i w_i f_i - N = 0,

linearised, and a line search on the augmented Lagrangian :math:`F + \mu c + \tfrac12\rho c^2` keeps it from running
away. Meant for following a path: the start is a solution for a nearby `N`.

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


class LevelSums(NamedTuple):
    """Value, gradient and curvature of an objective and of the expected number of positives."""

    value: Vector
    gradient: Vector
    curvature: Matrix
    positives: Vector
    slope: Vector  # gradient of the positives
    bend: Matrix  # their second derivatives, of the classifier's parameters only; empty where not asked for


@dataclass(frozen=True)
class PairWithPositives:
    r"""The observed likelihood of a pair, and :math:`\sum w f` with its derivatives. Rows: what was observed, ``w``."""

    pair: PairObjective

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> LevelSums:
        """Return the sums over one block of rows."""
        value, gradient, matrix = self.pair.sums(X, rows, beta, curvature)
        w, X_f = rows["w"], self.pair.f.take(X)
        beta_f, beta_e = self.pair.split(beta)
        f, not_f = sigmoid_pair(linear.logits(X_f, beta_f))
        weight = w * f * not_f
        observed = curvature is Curvature.OBSERVED
        bend = linear.cross_product(X_f, weight * (not_f - f), X_f) if observed else zeros(X, 0, 0)
        slope = concat([linear.transposed_product(X_f, weight), zeros(X, beta_e.size)])
        return LevelSums(value, gradient, matrix, namespace_of(X).asarray(w @ f), slope, bend)


class LevelProblem(Protocol):
    """A penalised objective over all rows, with the expected number of positives."""

    def evaluate(self, beta: Vector, curvature: Curvature) -> LevelSums:
        """Return the sums at `beta`, penalty included."""
        ...


@dataclass(frozen=True)
class LevelOptions:
    """Stopping rules. `scale` is the sum of the row weights."""

    scale: float
    tol: float = 1e-10  # predicted gain in the augmented Lagrangian, per row
    level_tol: float = 1e-9  # error of the class prior
    rounding: float = 1e-14  # relative noise of the objective
    max_iter: int = 30


@dataclass(frozen=True)
class LevelSolution:
    """Where the constrained solver ended; `multiplier` is minus the slope of the optimal value in the positives."""

    parameters: Vector
    multiplier: float
    value: float
    positives: float
    converged: bool
    n_iter: int


def minimise_on_level(
    problem: LevelProblem, start: Vector, *, positives: float, multiplier: float, options: LevelOptions
) -> LevelSolution:
    """Minimise an objective under a given expected number of positives, from a start nearby."""
    beta, mu = np.asarray(start, dtype=np.float64), multiplier
    now = problem.evaluate(beta, Curvature.OBSERVED)
    n_iter, converged = 0, False
    for n_iter in range(1, options.max_iter + 1):  # noqa: B007
        step = _step(problem, beta, now, mu, positives)
        if step is None:
            break
        mu, off = step.multiplier, float(now.positives) - positives
        small = max(options.tol * options.scale, options.rounding * abs(float(now.value)))
        if step.gain <= small and abs(off) <= options.level_tol * options.scale:
            converged = True
            break
        trial = _line_search(problem, beta, now, step, positives, noise=options.rounding * abs(float(now.value)))
        if trial is None:
            break
        beta, now = trial
    return LevelSolution(beta, mu, float(now.value), float(now.positives), converged, n_iter)


class _Step(NamedTuple):
    direction: Vector
    multiplier: float
    gain: float  # half the decrease of the augmented Lagrangian at unit rate
    stiffness: float  # rho


def _step(problem: LevelProblem, beta: Vector, now: LevelSums, mu: float, positives: float) -> _Step | None:
    """Solve the linearised conditions; with the expected information where the exact matrix is not definite."""
    bent = now.curvature.copy()
    n_f = len(now.bend)
    bent[:n_f, :n_f] += mu * now.bend
    off = float(now.positives) - positives
    step = _solve(bent, now, off, ridges=(0.0, 1e-9))
    if step is not None:
        return step
    expected = problem.evaluate(beta, Curvature.EXPECTED).curvature
    return _solve(expected, now, off, ridges=(0.0, 1e-9, 1e-6, 1e-3))


def _solve(matrix: Matrix, now: LevelSums, off: float, *, ridges: tuple[float, ...]) -> _Step | None:
    """Solve the bordered system, with as little extra ridge as makes it solvable, or not at all."""
    diagonal = np.diagonal(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    slope = scale * now.slope
    if not float(slope @ slope) > 0:
        return None
    # As stiff as a well-informed direction: that makes up for a bend the wrong way along the slope.
    rho = 1.0 / float(slope @ slope)
    stiff = matrix * scale[:, None] * scale + rho * np.outer(slope, slope)
    for ridge in ridges:
        factor = _factor(stiff + ridge * np.eye(len(stiff)))
        if factor is not None:
            by_gradient = cho_solve(factor, scale * now.gradient, check_finite=False)
            by_slope = cho_solve(factor, slope, check_finite=False)
            pull = (off - float(slope @ by_gradient)) / float(slope @ by_slope)
            direction = -scale * (by_gradient + pull * by_slope)
            gain = -0.5 * float(direction @ (now.gradient + pull * now.slope))
            return _Step(direction, pull - rho * off, gain, rho)
    return None


def _factor(scaled: Matrix) -> tuple[Matrix, bool] | None:
    try:
        factor, lower = cho_factor(scaled, check_finite=False)
    except LinAlgError:
        return None
    # A pivot at rounding level means a direction without information: not to be divided by.
    return (factor, lower) if np.isfinite(factor).all() and np.diagonal(factor).min() > 1e-7 else None


def _line_search(
    problem: LevelProblem, beta: Vector, now: LevelSums, step: _Step, positives: float, *, noise: float
) -> tuple[Vector, LevelSums] | None:
    """Halve the step until the augmented Lagrangian falls enough, up to rounding."""

    def merit(sums: LevelSums) -> float:
        off = float(sums.positives) - positives
        return float(sums.value) + step.multiplier * off + 0.5 * step.stiffness * off**2

    before, share = merit(now), 1.0
    for _ in range(_MAX_STEP_HALVINGS):
        trial = problem.evaluate(beta + share * step.direction, Curvature.OBSERVED)
        if merit(trial) <= before - 2e-4 * share * step.gain + noise:
            return beta + share * step.direction, trial
        share *= 0.5
    return None
