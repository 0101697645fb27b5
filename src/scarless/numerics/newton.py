"""Damped Fisher scoring and Newton's method with a line search; the solver returns a status and never warns.

The solver minimises a function of the parameters that returns value, gradient and curvature. It does not know about
rows, penalties or models.

Models with many parameters use truncated Newton steps: conjugate gradients without a matrix, which stop at a maximum
step length or at negative curvature.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import eigh, lapack

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import unit_diagonal
from scarless.numerics.objectives import Curvature, Sums

_PRODUCT_ROUNDING = 1e-13  # relative rounding error of a product with the information matrix


def truncated_step(
    product: Callable[[Vector], Vector],
    gradient: Vector,
    diagonal: Vector,
    *,
    radius: float,
    rtol: float,
    max_iter: int = 200,
) -> tuple[Vector, bool]:
    r"""Return a step that nearly minimises :math:`g'\delta + \tfrac12\delta'H\delta` in a ball, and whether it was cut.

    The positive `diagonal` defines the norm, and is also the preconditioner. In this norm each iterate is longer than
    the one before and lowers the quadratic further. The iterations can therefore stop at the boundary of the ball. In a
    direction of negative curvature, the step goes to the boundary. With an infinite radius, the iterations stop before
    this direction; in the first iteration, the preconditioned negative gradient is returned. In all these cases the
    step counts as cut. Every returned step is a direction of descent.

    References
    ----------
    Steihaug, "The conjugate gradient method and trust regions in large scale optimization", SIAM J. Numer. Anal. 1983.
    """
    step, residual = np.zeros_like(gradient), -gradient
    towards = residual / diagonal
    along, square = towards.copy(), float(residual @ towards)
    enough = rtol**2 * square
    for iteration in range(max_iter):
        if square <= enough or square == 0.0:
            break
        curved = product(along)
        curvature = float(along @ curved)
        if iteration > 0 and abs(curvature) <= _PRODUCT_ROUNDING * float(along @ (diagonal * along)):
            break  # The curvature is only rounding error, and so is the possible gain along this direction.
        edge = _distance_to_boundary(step, along, diagonal, radius)
        if curvature <= 0.0 or not np.isfinite(curvature):
            if np.isfinite(edge):
                return step + edge * along, True
            return (towards if iteration == 0 else step), True
        if square / curvature >= edge:
            return step + edge * along, True
        step = step + (square / curvature) * along
        residual = residual - (square / curvature) * curved
        towards = residual / diagonal
        before, square = square, float(residual @ towards)
        along = towards + (square / before) * along
    return step, False


def _distance_to_boundary(step: Vector, along: Vector, diagonal: Vector, radius: float) -> float:
    """Return the factor of the direction `along` at which the path reaches the boundary of the ball."""
    if not np.isfinite(radius):
        return np.inf
    a, b = float(along @ (diagonal * along)), float(step @ (diagonal * along))
    c = max(0.0, radius**2 - float(step @ (diagonal * step)))
    return c / (b + float(np.sqrt(b * b + a * c))) if c > 0 else 0.0


# With more parameters, the solver uses products with the information matrix and never forms it.
MAX_MATRIX_PARAMETERS = 1500
# Range of the damping that shortens a step, relative to the information at zero.
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e6


class Status(Enum):
    """Reason why a solver stopped."""

    CONVERGED = "converged"
    AT_INFINITY = "at infinity"  # parameters grow without bound while the objective decreases ever more slowly
    STALLED = "stalled"  # no step along the last direction lowers the objective
    MAX_ITER = "max_iter"


class Trace(NamedTuple):
    """One iteration of the solver."""

    parameters: Vector  # at the beginning of the iteration
    value: float  # objective at the beginning of the iteration
    gain: float  # decrease of the objective that the full step predicts
    step: float  # share of the full step that was taken


@dataclass(frozen=True)
class Solution:
    """Result of a solver: its last parameters, its status and its iterations."""

    parameters: Vector
    value: float
    status: Status
    n_iter: int
    n_passes: int
    gain: float  # predicted decrease of the objective by one more full step
    curvature: Matrix | None = None  # exact Hessian at the parameters, with the penalty; None if it was not computed
    history: list[Trace] = field(default_factory=list)

    def followed_by(self, other: "Solution") -> "Solution":
        """Return the solution `other`, which started from this one, with the iterations of both."""
        return replace(
            other,
            n_iter=self.n_iter + other.n_iter,
            n_passes=self.n_passes + other.n_passes,
            history=self.history + other.history,
        )


class Problem(Protocol):
    """An objective over all rows, penalty included."""

    def evaluate(self, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature at `beta`."""
        ...

    def products(self, beta: Vector, curvature: Curvature) -> Callable[[Vector], Vector]:
        """Return the function that multiplies the expected or observed information at `beta` with a direction."""
        ...

    def reach(self, direction: Vector) -> Vector:
        """Return, for each model, the weighted sum of the squared changes of its logits along a direction."""
        ...

    def grams(self) -> tuple[Matrix, ...] | None:
        """Return, for each model, the matrix of the quadratic form `reach`; None if a pass for it costs too much."""
        ...


@dataclass(frozen=True)
class NewtonOptions:
    """Stopping rules and choices of the solver. Gains are divided by `scale`, the sum of the row weights."""

    scale: float
    tol: float = 1e-10  # predicted gain per row at which the solver stops
    max_iter: int = 100
    rounding: float = 1e-14  # relative rounding error of the objective; about 1e-7 for float32 products
    observed_below: float = 1e-3  # predicted gain per row below which the exact Hessian is used
    # Largest root-mean-square change of the logits in one step. Longer steps can jump to another local optimum.
    longest: float = 1.0
    damp_indefinite: bool = False  # damp an indefinite exact Hessian instead of using the expected information
    matrix_free: bool = False  # use conjugate gradients instead of a factorised matrix
    may_diverge: bool = False  # without a penalty, the optimum can be at infinity
    curvature: Matrix | None = None  # approximate Hessian at the start, for quasi-Newton steps with gradients only
    progress: Callable[[Trace], None] | None = None  # called with each iteration

    def small(self, value: Any) -> float:
        """Return the gain at which the solver stops if the objective has this value."""
        return max(float(self.tol) * float(self.scale), self.rounding * abs(float(value)))


def minimise(problem: Problem, start: Vector, options: NewtonOptions) -> Solution:
    r"""Minimise a smooth objective by damped Fisher scoring, and by Newton's method close to the optimum.

    A step :math:`\delta` solves :math:`(H + \lambda D)\delta = -g`. The damping :math:`\lambda` is positive only if the
    step would otherwise be too long. The predicted gain is :math:`-g'\delta/2` (a lower bound with damping). The solver
    stops if the gain per row is below `tol`, or if the gain is below the rounding error of the objective. Close to the
    optimum, the exact Hessian replaces the expected information. An indefinite Hessian is damped if `damp_indefinite`
    is set, and otherwise not used. If `matrix_free` is set, conjugate gradients find the step. They stop at the maximum
    length, and work with an indefinite Hessian.

    If `options` has an approximate Hessian, for example from a part of the rows, quasi-Newton steps (BFGS) come first,
    and after each Newton step. They need only gradients, which cost several times less than a Hessian. As soon as one
    of them gains much less than predicted, a Newton step follows.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", chapters 3, 6 and 7.
    """
    beta = np.asarray(start, dtype=np.float64)
    search = _NewtonState(problem, options, beta.size)
    history: list[Trace] = []

    def keep(gain: float, taken: float) -> None:
        history.append(Trace(beta, float(now.value), gain, taken))
        if options.progress is not None:
            options.progress(history[-1])

    model = None if options.curvature is None or options.matrix_free else QuasiNewton.of(options.curvature)
    search.saves_curvature = model is not None
    if model is not None:
        search.first, search.last = Curvature.NONE, Curvature.OBSERVED
    now = search.evaluate(beta, search.first)
    status, gain = Status.MAX_ITER, np.inf
    while True:
        steps = () if model is None else search.quasi_newton_steps(beta, now, model, gain)
        for predicted, taken, step, there in steps:
            keep(predicted, taken)
            beta, now = beta + taken * step, there
        if search.saves_curvature and not now.curvature.size:
            now = search.evaluate(beta, search.last)
        if len(history) >= options.max_iter:
            break
        now, step = search.direction(beta, now)
        gain = -0.5 * float(now.gradient @ step)
        small = options.small(now.value)
        if gain <= small and search.is_shortened():
            search.reset_step_limits()  # Limits that were needed far from the optimum could hide a remaining gain.
            now, step = search.direction(beta, now)
            gain = -0.5 * float(now.gradient @ step)
        if gain <= small:
            status = search.final_status(beta, step)
            # Quasi-Newton steps end further from the optimum than Newton steps. The last step makes up for this.
            exact = search.saves_curvature and search.last is Curvature.OBSERVED and not search.damping
            taken = float(exact and status is Status.CONVERGED)
            keep(gain, taken)
            beta, now = beta + taken * step, now._replace(value=now.value - taken * gain)
            break
        taken, trial = search.line_search(beta, step, now, gain)
        keep(gain, taken)
        if trial is None:
            status = Status.STALLED
            break
        model = QuasiNewton.of(now.curvature) if search.saves_curvature else None
        if model is not None:
            model.update(taken * step, trial.gradient - now.gradient)
        beta, now = beta + taken * step, trial
    curvature = now.curvature if search.last is Curvature.OBSERVED else None
    return Solution(beta, float(now.value), status, len(history), search.n_passes, gain, curvature, history)


class QuasiNewton:
    """An approximation of the inverse Hessian that is updated by steps and changes of the gradient (BFGS)."""

    def __init__(self, inverse: Matrix) -> None:
        self.inverse = inverse

    @classmethod
    def of(cls, curvature: Matrix) -> "QuasiNewton | None":
        """Start from an approximate Hessian; return None if it is not positive definite."""
        scaled, scale = unit_diagonal(curvature)
        factor = _cholesky(scaled, 0.0) if np.isfinite(scaled).all() else None
        return None if factor is None else cls(scale[:, None] * _cholesky_solve(factor, np.diag(scale)))

    def step(self, gradient: Vector) -> Vector:
        """Return the step after which the gradient is 0 if the approximation is exact."""
        return -self.inverse @ gradient

    def update(self, step: Vector, change: Vector) -> None:
        """Update the approximation with the change of the gradient along a step."""
        curvature = float(step @ change)
        if not curvature > 0:
            return
        onto = self.inverse @ change
        square = (curvature + float(change @ onto)) / curvature**2
        mixed = np.outer(onto, step) / curvature
        self.inverse = self.inverse + square * np.outer(step, step) - mixed - mixed.T


def solve_positive(matrix: Matrix, right: Vector) -> Vector:
    """Solve a positive semi-definite system, with the smallest ridge that makes it solvable.

    The matrix is first scaled to a unit diagonal, because columns can have very different units.
    """
    scaled, scale = unit_diagonal(matrix)
    for ridge in (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0):
        factor = _cholesky(scaled, ridge)
        if factor is not None:
            return scale * _cholesky_solve(factor, scale * right)
    return right * scale**2


def negative_curvature_direction(curvature: Matrix, *, noise: float) -> Vector | None:
    """Return the direction of the most negative curvature; None if it is not below minus `noise`.

    At a saddle point the gradient is zero and Newton's method stops. This direction leads away from the saddle point.
    """
    scaled, scale = unit_diagonal(curvature)
    if _cholesky(scaled, 0.0) is not None or not np.isfinite(scaled).all():
        return None
    values, vectors = eigh(scaled, subset_by_index=[0, 0])
    return scale * vectors[:, 0] if values[0] < -noise else None


class _NewtonState:
    """State of the solver between iterations: number of passes, kind of curvature, damping and step limits."""

    def __init__(self, problem: Problem, options: NewtonOptions, n_parameters: int) -> None:
        self.problem, self.options = problem, options
        self.n_passes = 0
        self.first = Curvature.NONE if options.matrix_free else Curvature.EXPECTED  # of the evaluation at the start
        self.last = self.first  # of the latest evaluation
        self.close = False  # whether the gain of the last step was small enough for the exact Hessian
        self.cut = False  # whether the last step was shortened
        self.near = False  # whether quasi-Newton steps have just come close to the optimum
        self.saves_curvature = False  # whether steps are tried with gradients only
        self.trust = 1.0  # factor of the maximum step length, adapted by the line searches
        self.observed_below = options.observed_below
        self.damping = 0.0
        self.n_parameters = n_parameters
        # Computed on first use. Python 3.11's cached_property has a lock, which would make other threads wait.
        self._information: Vector | None = None
        self._grams: tuple[tuple[Matrix, ...] | None] | None = None
        self._factored: tuple[Matrix, float, Matrix, Vector] | None = None  # matrix, damping, factor, scale

    @property
    def information(self) -> Vector:
        """Diagonal of the expected information at zero, where no probability is saturated."""
        if self._information is None:
            self.n_passes += 1
            self._information = self.problem.evaluate(np.zeros(self.n_parameters), Curvature.DIAGONAL).curvature
        return self._information

    @property
    def grams(self) -> tuple[Matrix, ...] | None:
        """Matrices that give the length of steps in logits; None if a pass for them costs too much."""
        if self._grams is None:
            self._grams = (self.problem.grams(),)
            self.n_passes += self._grams[0] is not None
        return self._grams[0]

    def evaluate(self, beta: Vector, curvature: Curvature) -> Sums:
        self.n_passes += 1
        return self.problem.evaluate(beta, curvature)

    def is_shortened(self) -> bool:
        """Return whether damping or earlier line searches still limit the step length."""
        return self.damping > 0 or (self.cut and self.trust < 1.0)

    def reset_step_limits(self) -> None:
        """Remove the damping and restore the maximum step length."""
        self.damping, self.trust = 0.0, 1.0

    def quasi_newton_steps(
        self, beta: Vector, now: Sums, model: QuasiNewton, previous: float
    ) -> Iterator[tuple[float, float, Vector, Sums]]:
        """Yield quasi-Newton steps: the predicted gain, the share of the step that was taken, the step, and the sums.

        `previous` is the predicted gain of the step before, and infinite at the start. A step that gains less than half
        of its prediction is shortened once. The steps end if the shorter step also gains too little, or if the next
        predicted gain is small or more than half of the previous prediction. For a step that is probably the last, the
        exact Hessian is computed with the gradient.
        """
        previous = min(previous, 0.02 * self.options.scale)
        for _ in range(10):
            step, small = model.step(now.gradient), self.options.small(now.value)
            gain = -0.5 * float(now.gradient @ step)
            self.near = gain <= small
            if not small < gain < 0.5 * previous:
                return
            last, share = gain * gain / previous <= small, 1.0
            trial = self.evaluate(beta + step, Curvature.OBSERVED if last else Curvature.NONE)
            if not self._gains_half(now, trial, gain):
                share = _shrink(now, trial, 1.0, gain)
                trial, last = self.evaluate(beta + share * step, Curvature.NONE), False
                if not self._gains_half(now, trial, share * gain):
                    return
            self.last = Curvature.OBSERVED
            yield gain, share, step, trial
            if last:
                self.near = True
                return
            model.update(share * step, trial.gradient - now.gradient)
            beta, now, previous = beta + share * step, trial, gain

    def _gains_half(self, now: Sums, trial: Sums, gain: float) -> bool:
        """Return whether a step gains at least half of the prediction, up to rounding errors."""
        return float(now.value - trial.value) >= 0.5 * gain - self.options.rounding * abs(float(now.value))

    def direction(self, beta: Vector, now: Sums) -> tuple[Sums, Vector]:
        """Return the sums at `beta`, recomputed if an indefinite Hessian was replaced, and a step of limited length.

        If the probabilities of a model are close to 0 or 1, its information vanishes faster than its gradient and steps
        become huge. They could end on a plateau without a usable gradient. Levenberg damping by the information at zero
        shortens a step mainly in parameters whose information has vanished.
        """
        if self.options.matrix_free:
            return now, self._truncated_step(beta, now)
        self.damping = 0.0 if self.damping < 1e-8 else self.damping / 100.0
        if self.last is Curvature.OBSERVED and not self._is_definite(now):
            if self.options.damp_indefinite:
                while not self._is_definite(now) and self.damping < MAX_DAMPING:
                    self.damping = max(10.0 * self.damping, MIN_DAMPING)
            else:
                self.observed_below /= 10.0  # The exact Hessian was used too early.
                self.last = Curvature.EXPECTED
                now = self.evaluate(beta, Curvature.EXPECTED)
        dampings, known = [self.damping], self.damping > 0
        while dampings[-1] <= MAX_DAMPING:
            dampings.append(max(10.0 * dampings[-1], MIN_DAMPING))
        # Find the least damping whose step is short enough; more damping makes a step shorter. After an earlier damping
        # the right one is close, so they are tried in order. Otherwise bisect. The last one is not checked.
        steps, least, last = dict[int, Vector](), 0, len(dampings) - 1
        while least < last:
            tried = least if known or not steps else (least + last) // 2
            self.damping = dampings[tried]
            steps[tried] = self._damped_step(now)
            if self._too_long(beta, steps[tried]):
                least = tried + 1
            else:
                last = tried
        self.damping = dampings[least]
        return now, steps[least] if least in steps else self._damped_step(now)

    def _is_definite(self, now: Sums) -> bool:
        """Return whether the damped matrix is positive definite, apart from parameters whose rows are 0."""
        matrix, scale = unit_diagonal(self._damped(now))
        idle = ~matrix.any(axis=1)
        matrix[idle, idle] = 1.0
        factor = _cholesky(matrix, 0.0)
        if factor is not None and not idle.any():
            self._factored = (now.curvature, self.damping, factor, scale)  # reused by the next step
        return factor is not None

    def final_status(self, beta: Vector, step: Vector) -> Status:
        """Return whether the solver converged, diverged to infinity, or stalled on a plateau."""
        if not (self.damping > 0 or self.cut or self.options.may_diverge):
            return Status.CONVERGED
        units = np.sqrt(np.maximum(self.information, 0.0) / self.options.scale)
        step, beta = step * units, beta * units
        # Division by the size avoids overflow of squares.
        size = max(1.0, float(np.abs(step).max()), float(np.abs(beta).max()))
        outward = float(_scaled_by_largest(beta) @ _scaled_by_largest(step)) > 0
        if (self.damping > 0 or self.cut) and not outward:
            return Status.STALLED  # on a plateau of probabilities near 0 or 1, where the gradient is too small
        growing = np.linalg.norm(step / size) > 1e-2 * (0.5 / size + np.linalg.norm(beta / size)) and outward
        return Status.AT_INFINITY if self.options.may_diverge and growing else Status.CONVERGED

    def _too_long(self, beta: Vector, step: Vector) -> bool:
        """Return whether a step changes a model's logits by more than `longest` and by more than half their size."""
        if self.near or np.isinf(self.options.longest):
            return False
        if self.grams is None:
            units = np.sqrt(np.maximum(self.information, 0.0) / self.options.scale)
            if np.abs(step * units).sum() <= 0.02 * self.options.longest:
                return False  # The step is certainly short enough; a pass over the rows is not needed.
        if (change := self._change(step)).max() <= self.options.longest:
            return False
        return not np.all(change <= np.maximum(self.options.longest, 0.5 * self._change(beta)))

    def _change(self, direction: Vector) -> Vector:
        """Return the root mean square, over rows, of the change of each model's logits along a direction."""
        if self.grams is None:
            self.n_passes += 1
            return np.sqrt(self.problem.reach(direction) / self.options.scale)
        squares, start = [], 0
        for matrix in self.grams:
            part = direction[start : start + len(matrix)]
            with np.errstate(over="ignore", invalid="ignore"):  # A step that overflows counts as too long.
                squares.append(part @ matrix @ part)
            start += len(matrix)
        return np.sqrt(np.maximum(squares, 0.0) / self.options.scale)

    def _damped_step(self, now: Sums) -> Vector:
        if self._factored is not None:
            (curvature, damping, factor, scale), self._factored = self._factored, None
            if curvature is now.curvature and damping == self.damping:
                return -scale * _cholesky_solve(factor, scale * now.gradient)
        return -solve_positive(self._damped(now), now.gradient)

    def _damped(self, now: Sums) -> Matrix:
        if not self.damping:
            return now.curvature
        damped = now.curvature.copy()
        damped.flat[:: len(damped) + 1] += self.damping * self.information
        return damped

    def line_search(self, beta: Vector, step: Vector, now: Sums, gain: float) -> tuple[float, Sums | None]:
        """Shorten the step until the objective decreases enough (Armijo), up to rounding errors."""
        self.near, self.close = False, gain < self.observed_below * self.options.scale
        if not self.options.matrix_free:
            self.last = Curvature.OBSERVED if self.close else Curvature.EXPECTED
        noise = self.options.rounding * abs(float(now.value))
        share = 1.0
        for _ in range(40):
            trial = self.evaluate(beta + share * step, Curvature.NONE if self.saves_curvature else self.last)
            if np.isfinite(trial.value) and trial.value <= now.value - 2e-4 * share * gain + noise:
                self.trust = min(1.0, self.trust * (4.0 if share == 1.0 else max(2.0 * share, 1e-3)))
                return share, trial
            share *= _shrink(now, trial, share, gain)
            if share * gain <= noise:  # The gain of such a short step would be less than the rounding error.
                break
        return 0.0, None

    def _truncated_step(self, beta: Vector, now: Sums) -> Vector:
        """Return a step of limited length by conjugate gradients.

        During the iterations the diagonal information at zero measures the length of the step. The exact length, which
        needs a pass over the rows, is computed once at the end.
        """
        diagonal, scale = np.where(self.information > 0, self.information, 1.0), self.options.scale
        multiply = self.problem.products(beta, Curvature.OBSERVED if self.close else Curvature.EXPECTED)
        self.n_passes += 1

        def product(direction: Vector) -> Vector:
            self.n_passes += 1
            return multiply(direction)

        norm = float(np.sqrt(now.gradient**2 @ (1.0 / diagonal)))
        forcing = max(1e-6, min(0.1, float(np.sqrt(norm / np.sqrt(scale)))))
        allowed = max(self.options.longest, 0.5 * float(np.sqrt(beta**2 @ diagonal / scale)))
        radius = self.trust * allowed * float(np.sqrt(scale))
        step, self.cut = truncated_step(product, now.gradient, diagonal, radius=radius, rtol=forcing)
        if self._too_long(beta, step):
            self.cut = True
            step = step * float((np.maximum(self.options.longest, 0.5 * self._change(beta)) / self._change(step)).min())
        return step


def _scaled_by_largest(vector: Vector) -> Vector:
    """Return the vector divided by its largest absolute entry, so that products do not overflow."""
    largest = float(np.abs(vector).max())
    return vector / largest if 0.0 < largest < np.inf else vector


def _shrink(now: Sums, trial: Sums, share: float, gain: float) -> float:
    """Return the factor that shortens a failed step: the minimum of the interpolating parabola, within [0.1, 0.5]."""
    rise = float(trial.value - now.value) + 2.0 * share * gain
    if not np.isfinite(rise) or rise <= 0:
        return 0.1
    return float(np.clip(share * gain / rise, 0.1, 0.5))


def _cholesky(scaled: Matrix, ridge: float) -> Matrix | None:
    """Return the upper Cholesky factor; None if the matrix is not positive definite.

    LAPACK is called directly, because SciPy's wrapper takes longer than LAPACK itself for small matrices.
    """
    if ridge != 0.0:
        scaled = scaled + ridge * np.eye(len(scaled))
    # The transpose of a symmetric matrix in C order is the same matrix in Fortran order: LAPACK makes no copy.
    factor, info = lapack.dpotrf(scaled.T, clean=0)
    # A pivot of the size of rounding errors belongs to a direction without information; do not divide by it.
    if info != 0 or not np.isfinite(factor).all() or np.diagonal(factor).min() < 1e-7:
        return None
    return np.asarray(factor)


def _cholesky_solve(factor: Matrix, right: Matrix) -> Matrix:
    """Return the solution of a linear system with a factorised matrix."""
    return np.asarray(lapack.dpotrs(factor, right)[0])
