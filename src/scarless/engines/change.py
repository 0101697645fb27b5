"""A problem in other units of its columns: parameters, penalty and solution, forth and back."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scarless.engines.units import Units
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import Design
from scarless.numerics.newton import Solution


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
