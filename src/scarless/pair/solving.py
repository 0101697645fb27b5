"""Penalised objectives, summed over all rows of an engine, in the form that a solver minimises.

Badly scaled columns (see `scarless.engines.blocks`) are centred and scaled for the solver. `ChangeOfUnits` converts
penalties, starts and solutions between the two scales.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from scarless.engines.base import Engine
from scarless.engines.blas import BLAS
from scarless.engines.blocks import Units
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import Design
from scarless.numerics.newton import (
    MAX_MATRIX_PARAMETERS,
    NewtonOptions,
    Solution,
    Status,
    Trace,
    minimise,
    negative_curvature_direction,
)
from scarless.numerics.objectives import Curvature, Objective, Sums

# For models with at most this number of parameters, one pass computes the matrices of `PenalisedProblem.grams`. The
# solver can then compute `reach` without further passes.
MAX_COLUMNS_OF_GRAM = 300


def one_thread_if_narrow(n_parameters: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for models that have too few parameters to be faster with several threads.

    Setting the limit takes as long as a pass over few rows, so callers set it once for many passes.
    """
    return BLAS.on_one_thread() if n_parameters <= MAX_COLUMNS_OF_GRAM else nullcontext()


class ChangeOfUnits(NamedTuple):
    r"""Conversion between parameters for columns :math:`x` and parameters for scaled columns :math:`(x - m) c`.

    For the scaled columns, a coefficient :math:`\beta` becomes :math:`\beta/c`, and the intercept :math:`\beta_0`
    becomes :math:`\beta_0 + m'\beta`. The ridge penalty :math:`\lambda` becomes :math:`\lambda c^2`, so that the
    optimum is the same.
    """

    scale: Vector  # of each parameter; 1 for intercepts
    shift: list[tuple[slice, int, Vector]]  # for each model: place of its coefficients, of its intercept, and shifts

    @classmethod
    def of(cls, units: Units | None, designs: tuple[Design, ...], ridge: Vector) -> "ChangeOfUnits | None":
        """Return the conversion for the models with these designs; None if no column is badly scaled."""
        if units is None or not designs:
            return None
        scale, shift, start = np.ones(ridge.size), [], 0
        for design in designs:
            coefficients = slice(start, start + design.n_columns)
            scale[coefficients] = units.scale[design.columns]
            shift.append((coefficients, coefficients.stop, units.shift[design.columns]))
            start = coefficients.stop + 1
        return cls(scale, shift)

    def ridge(self, ridge: Vector) -> Vector:
        """Return the penalties for scaled columns, at most 1e300: this is enough to keep a coefficient at 0."""
        with np.errstate(over="ignore"):
            return np.minimum(np.where(ridge > 0, ridge * self.scale * self.scale, 0.0), 1e300)

    def to_scaled(self, beta: Vector) -> Vector:
        """Return the parameters for the scaled columns."""
        new = beta / self.scale
        for coefficients, intercept, shift in self.shift:
            new[intercept] += shift @ beta[coefficients]
        return new

    def point(self, point: Vector) -> Vector:
        """Convert the coefficients of a linear function of the parameters to the parameters for scaled columns."""
        new = point * self.scale
        for coefficients, intercept, shift in self.shift:
            new[coefficients] -= point[intercept] * shift * self.scale[coefficients]
        return new

    def curvature(self, curvature: Matrix) -> Matrix:
        """Convert the matrix of a quadratic form of the parameters to the parameters for scaled columns."""
        half = np.array([self.point(row) for row in curvature])
        return np.array([self.point(row) for row in half.T])

    def back(self, solution: Solution) -> Solution:
        """Convert a solution to the units of the table."""
        history = [at._replace(parameters=self._to_original(at.parameters)) for at in solution.history]
        curvature = None if solution.curvature is None else self._curvature_to_original(solution.curvature)
        return replace(
            solution, parameters=self._to_original(solution.parameters), history=history, curvature=curvature
        )

    def _to_original(self, new: Vector) -> Vector:
        beta = new * self.scale
        for coefficients, intercept, shift in self.shift:
            beta[intercept] -= shift @ beta[coefficients]
        return beta

    def _curvature_to_original(self, curvature: Matrix) -> Matrix:
        into = np.diag(1.0 / self.scale)
        for coefficients, intercept, shift in self.shift:
            into[intercept, coefficients] = shift
        return np.asarray(into.T @ curvature @ into)


class Addition(Protocol):
    """A term that is added to minus the log-likelihood, in addition to the ridge penalty."""

    def sums(self, beta: Vector, curvature: Curvature = Curvature.OBSERVED) -> Sums:
        """Return value, gradient and curvature of the term; the curvature is always a matrix."""
        ...

    def product(self, beta: Vector, direction: Vector) -> Vector:
        """Return the product of the curvature and a direction."""
        ...

    def in_units(self, change: ChangeOfUnits) -> "Addition":
        """Return the term for parameters in other units."""
        ...


@dataclass(frozen=True)
class Pull:
    r"""Penalty :math:`k\,(\mathrm{softplus}(z) - z/2)` of a logit :math:`z = z_0 + p'\beta`, lowest at probability 1/2.

    It equals minus the log-likelihood of `k` pseudo-observations at the point `p`, half of them labelled.
    """

    weight: float
    point: Vector  # one value for each parameter
    offset: float = 0.0

    def sums(self, beta: Vector, curvature: Curvature = Curvature.OBSERVED) -> Sums:
        """Return value, gradient and curvature."""
        z = self.offset + float(self.point @ beta)
        p = float(expit(z))
        return Sums(
            np.asarray(self.weight * (np.logaddexp(0.0, z) - 0.5 * z)),
            self.weight * (p - 0.5) * self.point,
            self.weight * p * (1.0 - p) * np.outer(self.point, self.point),
        )

    def product(self, beta: Vector, direction: Vector) -> Vector:
        """Return the product of the curvature and a direction."""
        p = float(expit(self.offset + self.point @ beta))
        return self.weight * p * (1.0 - p) * float(self.point @ direction) * self.point

    def in_units(self, change: ChangeOfUnits) -> "Pull":
        """Return the penalty for parameters in other units."""
        return replace(self, point=change.point(self.point))


@dataclass(frozen=True)
class PenalisedProblem:
    r"""Minus the log-likelihood plus :math:`\tfrac12\sum_j \lambda_j \beta_j^2` and further terms."""

    engine: Engine
    objective: Objective
    ridge: Vector
    pulls: tuple[Addition, ...] = ()

    def evaluate(self, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature: sums over all rows, plus penalties."""
        value, gradient, matrix = self.engine.total(self.objective.sums, beta, curvature)
        if curvature is Curvature.DIAGONAL:
            matrix = matrix + self.ridge
        elif curvature is not Curvature.NONE:
            matrix[np.diag_indices(beta.size)] += self.ridge
        value, gradient = value + 0.5 * ((self.ridge * beta) @ beta), gradient + self.ridge * beta
        for pull in self.pulls:
            pulled = pull.sums(beta, curvature)
            value, gradient = value + pulled.value, gradient + pulled.gradient
            if curvature is Curvature.DIAGONAL:
                matrix = matrix + np.diagonal(pulled.curvature)
            elif curvature is not Curvature.NONE:
                matrix = matrix + pulled.curvature
        return Sums(value, gradient, matrix)

    def products(self, beta: Vector, curvature: Curvature) -> Callable[[Vector], Vector]:
        """Return a function that multiplies the penalised information at `beta` by a direction.

        The curvature of each row is computed once and used for all directions.
        """
        engine = self.engine.derive(_row_curvature, self.objective, beta, curvature, keep=True)

        def product(direction: Vector) -> Vector:
            (total,) = engine.total(self.objective.product, direction)
            product = total + self.ridge * direction
            return np.asarray(product + sum(pull.product(beta, direction) for pull in self.pulls))

        return product

    def penalty(self, beta: Vector) -> float:
        """Return the value of all penalties."""
        ridge = 0.5 * float((self.ridge * beta) @ beta)
        return ridge + sum(float(pull.sums(beta).value) for pull in self.pulls)

    def penalty_curvature(self, beta: Vector) -> Matrix:
        """Return the curvature of all penalties."""
        return np.diag(self.ridge) + sum(pull.sums(beta).curvature for pull in self.pulls)

    def reach(self, direction: Vector) -> Vector:
        """Return, for each model, the weighted sum of the squared changes of its logits along a direction."""
        (sums,) = self.engine.total(self.objective.reach, direction)
        return sums

    def grams(self) -> tuple[Matrix, ...] | None:
        """Return, for each model, the matrix of the quadratic form `reach`; None if there are too many parameters."""
        return None if self.objective.n_parameters > MAX_COLUMNS_OF_GRAM else self.engine.total(self.objective.grams)

    def point_beside_saddle(self, solution: Solution) -> Vector | None:
        """Return a lower point near the solution if the solution is a saddle point; None if it is an optimum.

        Two models with the same columns and the same start stay equal in every iteration, so the solver ends at the
        best pair of equal models. This can be a saddle point. The check needs the exact Hessian. It is skipped, and the
        result is None, if the models have too many parameters.
        """
        beta = solution.parameters
        if solution.status is not Status.CONVERGED or self.objective.convex or beta.size > MAX_MATRIX_PARAMETERS:
            return None
        curvature = solution.curvature
        if curvature is None:
            curvature = self.evaluate(beta, Curvature.OBSERVED).curvature
        direction = negative_curvature_direction(curvature, noise=100.0 * self._rounding)
        if direction is None:
            return None
        change = np.sqrt(float(self.reach(direction).max()) / self.engine.n_rows)
        if not 0.0 < change < np.inf:
            return None
        unit = direction / change
        for length in (1.0, 0.1, 0.01, 0.001):  # in logits, root mean square over rows
            points = [beta + length * unit, beta - length * unit]
            values = [float(self.evaluate(point, Curvature.NONE).value) for point in points]
            if min(values) < solution.value - 10.0 * self._rounding * abs(solution.value):
                return points[int(np.argmin(values))]
        return None

    @property
    def _rounding(self) -> float:
        """Relative rounding error of the objective."""
        return 1e-7 if self.engine.dtype == np.float32 else 1e-14

    def solve(
        self,
        start: Vector,
        *,
        total_weight: float,
        tol: float,
        max_iter: int,
        may_diverge: bool = False,
        damp_indefinite: bool = False,
        curvature: Matrix | None = None,
        progress: Callable[[Trace], None] | None = None,
    ) -> Solution:
        """Minimise from `start` until the next step would gain less than `tol` per unit of row weight.

        Set `may_diverge` if some model has no penalty, so that the optimum may be at infinity. `damp_indefinite` saves
        iterations if the penalty is weak, but may lead to another optimum than Fisher scoring. `curvature` is an
        approximate Hessian at the start, including penalties. `progress` is called after every iteration.
        """
        options = NewtonOptions(
            scale=total_weight,
            tol=tol,
            max_iter=max_iter,
            rounding=self._rounding,
            # A convex objective with a penalty has one optimum and no plateau, so long steps are safe.
            longest=np.inf if self.objective.convex and not may_diverge else 1.0,
            matrix_free=self.objective.n_parameters > MAX_MATRIX_PARAMETERS,
            may_diverge=may_diverge,
            damp_indefinite=damp_indefinite,
            curvature=curvature,
            progress=progress,
        )
        # Between passes, the solver has too little work for several BLAS threads. Waiting BLAS threads would take cores
        # from the threads that read the rows. Setting the limit once, and not in every pass, saves time for small
        # tables.
        one_thread = options.matrix_free or self.objective.n_parameters <= MAX_COLUMNS_OF_GRAM
        with BLAS.on_one_thread() if one_thread else nullcontext():
            change = ChangeOfUnits.of(self.engine.units, self.objective.designs, self.ridge)
            if change is None:
                return minimise(self, start, options)
            return self._minimise_in_units(change, start, options)

    def _minimise_in_units(self, change: ChangeOfUnits, start: Vector, options: NewtonOptions) -> Solution:
        """Minimise with scaled columns and convert the solution back."""
        pulls = tuple(pull.in_units(change) for pull in self.pulls)
        problem = PenalisedProblem(self.engine.in_units(), self.objective, change.ridge(self.ridge), pulls)
        if options.curvature is not None:
            options = replace(options, curvature=change.curvature(options.curvature))
        return change.back(minimise(problem, change.to_scaled(start), options))


def _row_curvature(X: Any, rows: Any, objective: Objective, beta: Vector, curvature: Curvature) -> dict[str, Any]:
    return {"curvature": objective.row_curvature(X, rows, beta, curvature)}
