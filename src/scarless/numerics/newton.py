"""Fisher scoring, then Newton, with a line search; returns a status and never warns.

The solver sees a function of the parameters that returns value, gradient and curvature. It does not know about rows,
penalties or models.

Wide models take truncated steps: conjugate gradients that need no matrix, and stop at a distance or where the
curvature turns negative.
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

# Relative error of a product with the information.
_PRODUCT_ROUNDING = 1e-13


def truncated_step(
    product: Callable[[Vector], Vector],
    gradient: Vector,
    diagonal: Vector,
    *,
    radius: float,
    rtol: float,
    max_iter: int = 200,
) -> tuple[Vector, bool]:
    r"""Return a step that nearly minimises :math:`g'\delta + \tfrac12\delta'H\delta` within a distance; whether cut.

    Distances are in the norm of a positive `diagonal`, which also preconditions. In that norm each iterate is longer
    than the last and each lowers the parabola further, so the path may be cut where it leaves the ball; along a
    direction of negative curvature it is followed to the edge. Every step returned is a direction of descent.
    With an infinite radius such a direction ends the path where it is.

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
            break  # nothing is known of this direction, and what is left to gain along it is rounding
        edge = _to_the_edge(step, along, diagonal, radius)
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


def _to_the_edge(step: Vector, along: Vector, diagonal: Vector, radius: float) -> float:
    """Return how far along a direction the ball's edge is."""
    if not np.isfinite(radius):
        return np.inf
    a, b = float(along @ (diagonal * along)), float(step @ (diagonal * along))
    c = max(0.0, radius**2 - float(step @ (diagonal * step)))
    return c / (b + float(np.sqrt(b * b + a * c))) if c > 0 else 0.0


# Above this many parameters the information matrix is not formed; products with it are.
WIDEST_MATRIX = 1500


class Status(Enum):
    """How a solver ended."""

    CONVERGED = "converged"
    AT_INFINITY = "at infinity"  # the objective still falls, ever more slowly, along a direction of growth
    STALLED = "stalled"  # no step along the last direction lowers the objective
    MAX_ITER = "max_iter"


class Trace(NamedTuple):
    """One iteration: where it began, its value, the predicted gain of its step, the share of it that was taken."""

    parameters: Vector
    value: float
    gain: float
    step: float


@dataclass(frozen=True)
class Solution:
    """Where a solver ended, how, and on what way."""

    parameters: Vector
    value: float
    status: Status
    n_iter: int
    n_passes: int
    gain: float  # predicted decrease of the objective by one more full step
    curvature: Matrix | None = None  # the exact Hessian where it ended, penalty included; None where it has none
    history: list[Trace] = field(default_factory=list)

    def followed_by(self, other: "Solution") -> "Solution":
        """Return where another run of the solver ended that went on from here, with both ways in one."""
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
        """Return, for each model, the matrix whose quadratic form `reach` is; None where a pass for it is too dear."""
        ...


@dataclass(frozen=True)
class NewtonOptions:
    """Stopping and switching rules. Gains are measured per unit of `scale`, the sum of the row weights."""

    scale: float
    tol: float = 1e-10
    max_iter: int = 100
    rounding: float = 1e-14  # relative noise of the objective; about 1e-7 for float32 products
    observed_below: float = 1e-3  # predicted gain per row at which the exact Hessian takes over
    longest: float = 1.0  # step, in logits, root mean square over rows: larger ones change optima
    damp_indefinite: bool = False  # an exact Hessian that is indefinite: damp it, instead of going back to the expected
    matrix_free: bool = False  # conjugate gradients on products instead of a factorised matrix
    may_diverge: bool = False  # no penalty: an optimum at infinity is possible
    curvature: Matrix | None = None  # what the Hessian near the start is like: gradients alone may then lead close
    progress: Callable[[Trace], None] | None = None  # is told of every iteration

    def small(self, value: Any) -> float:
        """Return the gain that is not worth a step, at an objective of that value."""
        return max(float(self.tol) * float(self.scale), self.rounding * abs(float(value)))


def minimise(problem: Problem, start: Vector, options: NewtonOptions) -> Solution:
    r"""Minimise a smooth objective by damped Fisher scoring that turns into Newton's method.

    A step :math:`\delta` solves :math:`(H + \lambda D)\delta = -g`, with :math:`\lambda > 0` only where the step would
    otherwise be too long; its predicted gain is :math:`-g'\delta/2` (with damping, a lower bound). The solver
    stops when that gain, per row, is below `tol` or below the rounding noise of the objective itself.
    Close to the optimum the exact Hessian replaces the expected information where it is positive definite.
    Without a matrix, conjugate gradients find the step; they stop where it becomes too long, and cope with an
    indefinite Hessian.

    Where the Hessian near the start is known, from a part of the rows, say, quasi-Newton steps (BFGS) go first: they
    need gradients only, and a gradient is several times cheaper than a Hessian. Wherever they do not gain what they
    predict, the climb goes on as without them.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", chapters 3, 6 and 7.
    """
    beta = np.asarray(start, dtype=np.float64)
    search = _Search(problem, options, beta.size)
    history: list[Trace] = []

    def keep(gain: float, taken: float) -> None:
        history.append(Trace(beta, float(now.value), gain, taken))
        if options.progress is not None:
            options.progress(history[-1])

    model = None if options.curvature is None or options.matrix_free else QuasiNewton.of(options.curvature)
    if model is None:
        now = search.evaluate(beta, search.first)
    else:
        now, search.last = search.evaluate(beta, Curvature.NONE), Curvature.OBSERVED
        for gain, step, there in search.approach(beta, now, model):
            keep(gain, 1.0)
            beta, now = beta + step, there
        if not now.curvature.size:
            now = search.evaluate(beta, search.last)
    status, gain, n_iter = Status.MAX_ITER, np.inf, len(history)
    for n_iter in range(len(history) + 1, options.max_iter + 1):  # noqa: B007
        now, step = search.direction(beta, now)
        gain = -0.5 * float(now.gradient @ step)
        small = options.small(now.value)
        if gain <= small and search.holds_back():
            search.let_go()  # left over from farther out, it may hide what is still to be gained
            now, step = search.direction(beta, now)
            gain = -0.5 * float(now.gradient @ step)
        if gain <= small:
            status = search.final_status(beta, step)
            keep(gain, 0.0)
            break
        taken, trial = search.line_search(beta, step, now, gain)
        keep(gain, taken)
        if trial is None:
            status = Status.STALLED
            break
        beta, now = beta + taken * step, trial
    curvature = now.curvature if search.last is Curvature.OBSERVED else None
    return Solution(beta, float(now.value), status, n_iter, search.n_passes, gain, curvature, history)


class QuasiNewton:
    """The inverse of a Hessian as far as it is known: a guess, and what steps and gradients since have told."""

    def __init__(self, inverse: Matrix) -> None:
        self.inverse = inverse

    @classmethod
    def of(cls, curvature: Matrix) -> "QuasiNewton | None":
        """Begin at a guess of the Hessian; None where it is not positive definite."""
        scaled, scale = unit_diagonal(curvature)
        factor = _cholesky(scaled, 0.0) if np.isfinite(scaled).all() else None
        return None if factor is None else cls(scale[:, None] * _divided(factor, np.diag(scale)))

    def step(self, gradient: Vector) -> Vector:
        """Return the step to where the gradient should be 0."""
        return -self.inverse @ gradient

    def learn(self, step: Vector, change: Vector) -> None:
        """Take in how the gradient changed along a step (Broyden, Fletcher, Goldfarb, Shanno)."""
        bend = float(step @ change)
        if not bend > 0:
            return
        onto = self.inverse @ change
        square = (bend + float(change @ onto)) / bend**2
        mixed = np.outer(onto, step) / bend
        self.inverse = self.inverse + square * np.outer(step, step) - mixed - mixed.T


def solve_positive(matrix: Matrix, right: Vector) -> Vector:
    """Solve a positive semi-definite system, with as little extra ridge as makes it solvable.

    The matrix is first scaled to a unit diagonal, so columns of very different units do no harm.
    """
    scaled, scale = unit_diagonal(matrix)
    for ridge in (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0):
        factor = _cholesky(scaled, ridge)
        if factor is not None:
            return scale * _divided(factor, scale * right)
    return right * scale**2


def downhill_of_saddle(curvature: Matrix, *, noise: float) -> Vector | None:
    """Return the direction in which a Hessian bends down most; None where it does so by no more than noise.

    Where the gradient is zero, that is a saddle's way out; Newton's method, which stops there, does not see it.
    """
    scaled, scale = unit_diagonal(curvature)
    if _cholesky(scaled, 0.0) is not None or not np.isfinite(scaled).all():
        return None
    values, vectors = eigh(scaled, subset_by_index=[0, 0])
    return scale * vectors[:, 0] if values[0] < -noise else None


class _Search:
    """The problem, a count of the passes over the rows, and which curvature and damping are in use."""

    def __init__(self, problem: Problem, options: NewtonOptions, n_parameters: int) -> None:
        self.problem, self.options = problem, options
        self.n_passes = 0
        self.first = Curvature.NONE if options.matrix_free else Curvature.EXPECTED
        self.last = self.first
        self.close = False  # whether the last step was small enough for the exact Hessian
        self.cut = False  # whether the last step was shortened
        self.near = False  # whether quasi-Newton steps have just ended where little is left to gain
        self.trust = 1.0  # share of the longest step that the last line searches left
        self.observed_below = options.observed_below
        self.damping = 0.0
        self.n_parameters = n_parameters
        # Computed where they are first needed. Python 3.11's cached_property would have searches in other threads wait.
        self._information: Vector | None = None
        self._grams: tuple[tuple[Matrix, ...] | None] | None = None
        self._factored: tuple[Matrix, float, Matrix, Vector] | None = None  # a matrix, its damping, factor and scale

    @property
    def information(self) -> Vector:
        """How much each parameter tells where nothing is saturated."""
        if self._information is None:
            self.n_passes += 1
            self._information = self.problem.evaluate(np.zeros(self.n_parameters), Curvature.DIAGONAL).curvature
        return self._information

    @property
    def grams(self) -> tuple[Matrix, ...] | None:
        """Matrices that measure steps, where a pass for them pays."""
        if self._grams is None:
            self._grams = (self.problem.grams(),)
            self.n_passes += self._grams[0] is not None
        return self._grams[0]

    def evaluate(self, beta: Vector, curvature: Curvature) -> Sums:
        self.n_passes += 1
        return self.problem.evaluate(beta, curvature)

    def holds_back(self) -> bool:
        """Whether steps are shorter than they need be, for what was seen farther out."""
        return self.damping > 0 or (self.cut and self.trust < 1.0)

    def let_go(self) -> None:
        """Forget what was seen farther out."""
        self.damping, self.trust = 0.0, 1.0

    def approach(self, beta: Vector, now: Sums, model: QuasiNewton) -> Iterator[tuple[float, Vector, Sums]]:
        """Yield quasi-Newton steps, each with its predicted gain and the sums where it leads.

        They end where little is left to gain, or as soon as one is large, gains less than half of what it should, or
        leaves more than half of that to the next.
        Where the next one is likely to be the last, the exact Hessian is collected along with the gradient.
        """
        previous = 0.02 * self.options.scale
        for _ in range(10):
            step, small = model.step(now.gradient), self.options.small(now.value)
            gain = -0.5 * float(now.gradient @ step)
            self.near = gain <= small
            if not small < gain < 0.5 * previous:
                return
            last = gain * gain / previous <= small
            trial = self.evaluate(beta + step, Curvature.OBSERVED if last else Curvature.NONE)
            fall = float(now.value - trial.value)
            if not fall >= 0.5 * gain - self.options.rounding * abs(float(now.value)):
                return
            yield gain, step, trial
            if last:
                self.near = True
                return
            model.learn(step, trial.gradient - now.gradient)
            beta, now, previous = beta + step, trial, gain

    def direction(self, beta: Vector, now: Sums) -> tuple[Sums, Vector]:
        """Return a step that is not too long, and the sums again where an indefinite Hessian had to be replaced.

        Where a model saturates, its information fades faster than its gradient and steps become huge; far out, on
        the plateau where all probabilities are 0 or 1, nothing leads back. Levenberg's damping by the information
        at zero shortens a step most where the information has faded, and leaves the other parameters alone.
        """
        if self.options.matrix_free:
            return now, self._truncated_step(beta, now)
        self.damping = 0.0 if self.damping < 1e-8 else self.damping / 100.0
        if self.last is Curvature.OBSERVED and not self._is_definite(now):
            if self.options.damp_indefinite:
                while not self._is_definite(now) and self.damping < 1e6:
                    self.damping = max(10.0 * self.damping, 1e-9)
            else:
                self.observed_below /= 10.0  # too early for the exact Hessian
                self.last = Curvature.EXPECTED
                now = self.evaluate(beta, Curvature.EXPECTED)
        while True:
            step = self._damped_step(now)
            if self.damping > 1e6 or not self._too_long(beta, step):
                return now, step
            self.damping = max(10.0 * self.damping, 1e-9)

    def _is_definite(self, now: Sums) -> bool:
        """Whether the damped matrix is positive definite, but for parameters that nothing depends on."""
        matrix, scale = unit_diagonal(self._damped(now))
        idle = ~matrix.any(axis=1)
        matrix[idle, idle] = 1.0
        factor = _cholesky(matrix, 0.0)
        if factor is not None and not idle.any():
            self._factored = (now.curvature, self.damping, factor, scale)  # for the step that follows
        return factor is not None

    def final_status(self, beta: Vector, step: Vector) -> Status:
        """Tell a regular optimum, where the last step is tiny, from one that runs away while gaining nothing."""
        if not (self.damping > 0 or self.cut or self.options.may_diverge):
            return Status.CONVERGED
        units = np.sqrt(np.maximum(self.information, 0.0) / self.options.scale)
        step, beta = step * units, beta * units
        size = max(1.0, float(np.abs(step).max()), float(np.abs(beta).max()))  # whose square may overflow
        outward = float(_unit(beta) @ _unit(step)) > 0
        if (self.damping > 0 or self.cut) and not outward:
            return Status.STALLED  # on a plateau of saturated probabilities, with the way back too faint to follow
        growing = np.linalg.norm(step / size) > 1e-2 * (0.5 / size + np.linalg.norm(beta / size)) and outward
        return Status.AT_INFINITY if self.options.may_diverge and growing else Status.CONVERGED

    def _too_long(self, beta: Vector, step: Vector) -> bool:
        """Whether a step changes a model's logits by more than `longest` and by more than half of what they are."""
        if self.near or np.isinf(self.options.longest):
            return False
        units = np.sqrt(np.maximum(self.information, 0.0) / self.options.scale)
        if np.abs(step * units).sum() <= 0.02 * self.options.longest:
            return False  # certainly short, and no need to look at the rows
        if (change := self._change(step)).max() <= self.options.longest:
            return False
        return not np.all(change <= np.maximum(self.options.longest, 0.5 * self._change(beta)))

    def _change(self, direction: Vector) -> Vector:
        """Return the root mean square, over rows, of each model's logits along a direction."""
        if self.grams is None:
            self.n_passes += 1
            return np.sqrt(self.problem.reach(direction) / self.options.scale)
        squares, start = [], 0
        for matrix in self.grams:
            part = direction[start : start + len(matrix)]
            with np.errstate(over="ignore", invalid="ignore"):  # of such a step more than its length is wrong
                squares.append(part @ matrix @ part)
            start += len(matrix)
        return np.sqrt(np.maximum(squares, 0.0) / self.options.scale)

    def _damped_step(self, now: Sums) -> Vector:
        if self._factored is not None:
            (curvature, damping, factor, scale), self._factored = self._factored, None
            if curvature is now.curvature and damping == self.damping:
                return -scale * _divided(factor, scale * now.gradient)
        return -solve_positive(self._damped(now), now.gradient)

    def _damped(self, now: Sums) -> Matrix:
        if not self.damping:
            return now.curvature
        damped = now.curvature.copy()
        damped.flat[:: len(damped) + 1] += self.damping * self.information
        return damped

    def line_search(self, beta: Vector, step: Vector, now: Sums, gain: float) -> tuple[float, Sums | None]:
        """Halve the step until the objective falls enough (Armijo), up to rounding."""
        self.near, self.close = False, gain < self.observed_below * self.options.scale
        if not self.options.matrix_free:
            self.last = Curvature.OBSERVED if self.close else Curvature.EXPECTED
        noise = self.options.rounding * abs(float(now.value))
        share = 1.0
        for _ in range(40):
            trial = self.evaluate(beta + share * step, self.last)
            if np.isfinite(trial.value) and trial.value <= now.value - 2e-4 * share * gain + noise:
                self.trust = min(1.0, self.trust * (4.0 if share == 1.0 else max(2.0 * share, 1e-3)))
                return share, trial
            share *= _shrink(now, trial, share, gain)
            if share * gain <= noise:  # a step this short would pass as rounding, whatever its direction
                break
        return 0.0, None

    def _truncated_step(self, beta: Vector, now: Sums) -> Vector:
        """Return a step by conjugate gradients, no longer than a step may be.

        The information at zero, of which the diagonal is known, measures the length on the way; what the rows say of
        the result is asked once.
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


def _unit(vector: Vector) -> Vector:
    """Return a vector whose largest entry is 1 or -1, for the sign of a product that might overflow."""
    largest = float(np.abs(vector).max())
    return vector / largest if 0.0 < largest < np.inf else vector


def _shrink(now: Sums, trial: Sums, share: float, gain: float) -> float:
    """Return the factor to shorten a failed step by: the minimum of the interpolating parabola, kept sane."""
    rise = float(trial.value - now.value) + 2.0 * share * gain
    if not np.isfinite(rise) or rise <= 0:
        return 0.1
    return float(np.clip(share * gain / rise, 0.1, 0.5))


def _cholesky(scaled: Matrix, ridge: float) -> Matrix | None:
    """Return the upper factor, or None. LAPACK itself: around it, SciPy takes longer than a small matrix does."""
    if ridge != 0.0:
        scaled = scaled + ridge * np.eye(len(scaled))
    # The transpose of what is symmetric: in Fortran's order, so that it need not be turned round.
    factor, info = lapack.dpotrf(scaled.T, clean=0)
    # A pivot at rounding level means a direction without information: not to be divided by.
    if info != 0 or not np.isfinite(factor).all() or np.diagonal(factor).min() < 1e-7:
        return None
    return np.asarray(factor)


def _divided(factor: Matrix, right: Matrix) -> Matrix:
    """Return what a factorised matrix has to be multiplied with to give the right side."""
    return np.asarray(lapack.dpotrs(factor, right)[0])
