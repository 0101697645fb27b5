"""An objective over all rows of an engine, with its ridge penalty: what a solver minimises.

Columns out of proportion (`scarless.engines.blocks`) are centred and scaled for the solver: the problem, its start and
its solution are turned forth and back (`ChangeOfUnits`).
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
from scarless.numerics.newton import WIDEST_MATRIX, NewtonOptions, Solution, Status, Trace, downhill_of_saddle, minimise
from scarless.numerics.objectives import Curvature, Objective, Sums

# Columns up to which one pass for a matrix of products saves many for the length of a step.
MAX_COLUMNS_OF_GRAM = 300


def narrow_alone(n_parameters: int) -> AbstractContextManager[None]:
    """Hold BLAS down to one thread for models that are too narrow for several.

    To set it takes as long as a pass over few rows, so that whoever makes many should hold it over all of them.
    """
    return BLAS.on_one_thread() if n_parameters <= MAX_COLUMNS_OF_GRAM else nullcontext()


class ChangeOfUnits(NamedTuple):
    r"""Parameters for columns :math:`(x - m) c` in place of :math:`x`: one linear map, its inverse, and the penalty.

    A coefficient becomes :math:`\beta/c`, the intercept :math:`\beta_0 + m'\beta`, and the ridge on the user's own
    coefficient :math:`\lambda c^2` on the new one: the optimum is the same.
    """

    scale: Vector  # of each parameter; 1 for intercepts
    shift: list[tuple[slice, int, Vector]]  # of each model: its coefficients, its intercept, its columns' shifts

    @classmethod
    def of(cls, units: Units | None, designs: tuple[Design, ...], ridge: Vector) -> "ChangeOfUnits | None":
        """Return the change for some models, or None where no column needs one, or none is seen as it is."""
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
        """Return the penalty on the new parameters; one beyond all numbers keeps a coefficient at 0, as it should."""
        with np.errstate(over="ignore"):
            return np.minimum(np.where(ridge > 0, ridge * self.scale * self.scale, 0.0), 1e300)

    def forth(self, beta: Vector) -> Vector:
        """Return the new parameters."""
        new = beta / self.scale
        for coefficients, intercept, shift in self.shift:
            new[intercept] += shift @ beta[coefficients]
        return new

    def point(self, point: Vector) -> Vector:
        """Return what a linear function of the parameters has for coefficients of the new ones."""
        new = point * self.scale
        for coefficients, intercept, shift in self.shift:
            new[coefficients] -= point[intercept] * shift * self.scale[coefficients]
        return new

    def curvature(self, curvature: Matrix) -> Matrix:
        """Return what a quadratic form of the parameters has for a matrix of the new ones."""
        half = np.array([self.point(row) for row in curvature])
        return np.array([self.point(row) for row in half.T])

    def back(self, solution: Solution) -> Solution:
        """Return a solution in the user's units."""
        history = [at._replace(parameters=self._old(at.parameters)) for at in solution.history]
        curvature = None if solution.curvature is None else self._old_curvature(solution.curvature)
        return replace(solution, parameters=self._old(solution.parameters), history=history, curvature=curvature)

    def _old(self, new: Vector) -> Vector:
        beta = new * self.scale
        for coefficients, intercept, shift in self.shift:
            beta[intercept] -= shift @ beta[coefficients]
        return beta

    def _old_curvature(self, curvature: Matrix) -> Matrix:
        into = np.diag(1.0 / self.scale)
        for coefficients, intercept, shift in self.shift:
            into[intercept, coefficients] = shift
        return np.asarray(into.T @ curvature @ into)


class Addition(Protocol):
    """What is added to minus a log-likelihood beside a ridge."""

    def sums(self, beta: Vector, curvature: Curvature = Curvature.OBSERVED) -> Sums:
        """Return value, gradient and curvature, as a matrix whatever is asked for."""
        ...

    def product(self, beta: Vector, direction: Vector) -> Vector:
        """Return the curvature times a direction."""
        ...

    def in_units(self, change: ChangeOfUnits) -> "Addition":
        """Return the same for parameters in other units."""
        ...


@dataclass(frozen=True)
class Pull:
    r"""Imaginary rows, half of each kind: :math:`k\,(\mathrm{softplus}(z) - z/2)` with :math:`z = z_0 + p'\beta`.

    Holds a probability at some point off 0 and 1 where the labels hardly care.
    """

    weight: float
    point: Vector  # a coefficient for each parameter
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
        """Return the curvature times a direction."""
        p = float(expit(self.offset + self.point @ beta))
        return self.weight * p * (1.0 - p) * float(self.point @ direction) * self.point

    def in_units(self, change: ChangeOfUnits) -> "Pull":
        """Return the same for parameters in other units."""
        return replace(self, point=change.point(self.point))


@dataclass(frozen=True)
class PenalisedProblem:
    r"""Minus the log-likelihood plus :math:`\tfrac12\sum_j \lambda_j \beta_j^2`, and pulls where there are any."""

    engine: Engine
    objective: Objective
    ridge: Vector
    pulls: tuple[Addition, ...] = ()

    def evaluate(self, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature over all rows, penalty included."""
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
        """Return the function that multiplies the information at `beta`, penalty included, with a direction.

        What each row adds to the information is computed once, for all directions.
        """
        engine = self.engine.derive(_row_curvature, self.objective, beta, curvature, keep=True)

        def product(direction: Vector) -> Vector:
            (total,) = engine.total(self.objective.product, direction)
            product = total + self.ridge * direction
            return np.asarray(product + sum(pull.product(beta, direction) for pull in self.pulls))

        return product

    def penalty(self, beta: Vector) -> float:
        """Return what is added to minus the log-likelihood."""
        ridge = 0.5 * float((self.ridge * beta) @ beta)
        return ridge + sum(float(pull.sums(beta).value) for pull in self.pulls)

    def bend(self, beta: Vector) -> Matrix:
        """Return what is added to the likelihood's curvature."""
        return np.diag(self.ridge) + sum(pull.sums(beta).curvature for pull in self.pulls)

    def reach(self, direction: Vector) -> Vector:
        """Return, for each model, the weighted sum of the squared changes of its logits along a direction."""
        (sums,) = self.engine.total(self.objective.reach, direction)
        return sums

    def grams(self) -> tuple[Matrix, ...] | None:
        """Return, for each model, the matrix whose quadratic form `reach` is; None for wide models: it is dear."""
        return None if self.objective.n_parameters > MAX_COLUMNS_OF_GRAM else self.engine.total(self.objective.grams)

    def beside_saddle(self, solution: Solution) -> Vector | None:
        """Return a lower point beside a saddle that a solver took for an optimum; None where it is none.

        Two models that see the same columns and begin equal stay equal, and end where the likelihood is highest among
        equal models. Looks at the exact Hessian, and not at models too wide for one.
        """
        beta = solution.parameters
        if solution.status is not Status.CONVERGED or self.objective.convex or beta.size > WIDEST_MATRIX:
            return None
        curvature = solution.curvature
        if curvature is None:
            curvature = self.evaluate(beta, Curvature.OBSERVED).curvature
        direction = downhill_of_saddle(curvature, noise=100.0 * self._rounding)
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
        """Relative noise of the objective."""
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
        """Minimise from `start`; `tol` is the predicted gain per unit of row weight.

        `may_diverge` says that some model has no penalty, so that its optimum may be at infinity. `damp_indefinite`
        saves iterations where the penalty is weak, and may end at a nearer optimum than Fisher scoring would.
        `curvature` is what the Hessian near the start is like, penalty included, where that is known. `progress` is
        told of every iteration.
        """
        options = NewtonOptions(
            scale=total_weight,
            tol=tol,
            max_iter=max_iter,
            rounding=self._rounding,
            # A convex objective has one optimum, and with a penalty no plateau: nothing to be careful of.
            longest=np.inf if self.objective.convex and not may_diverge else 1.0,
            matrix_free=self.objective.n_parameters > WIDEST_MATRIX,
            may_diverge=may_diverge,
            damp_indefinite=damp_indefinite,
            curvature=curvature,
            progress=progress,
        )
        # Between the passes of a wide model there are sums over its parameters only: too little for BLAS's threads,
        # which would wait for the next one at full speed, and take the cores from those that walk the rows.
        # Of narrow ones too; setting it once, and not at every pass, is felt where rows are few.
        one_thread = options.matrix_free or self.objective.n_parameters <= MAX_COLUMNS_OF_GRAM
        with BLAS.on_one_thread() if one_thread else nullcontext():
            change = ChangeOfUnits.of(self.engine.units, self.objective.designs, self.ridge)
            if change is None:
                return minimise(self, start, options)
            return self._minimise_in_units(change, start, options)

    def _minimise_in_units(self, change: ChangeOfUnits, start: Vector, options: NewtonOptions) -> Solution:
        """Minimise in the units that the columns need."""
        pulls = tuple(pull.in_units(change) for pull in self.pulls)
        problem = PenalisedProblem(self.engine.in_units(), self.objective, change.ridge(self.ridge), pulls)
        if options.curvature is not None:
            options = replace(options, curvature=change.curvature(options.curvature))
        return change.back(minimise(problem, change.forth(start), options))


def _row_curvature(X: Any, rows: Any, objective: Objective, beta: Vector, curvature: Curvature) -> dict[str, Any]:
    return {"curvature": objective.row_curvature(X, rows, beta, curvature)}
