"""An objective over all rows of an engine, with its ridge penalty: what a solver minimises."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scarless.engines.base import Engine
from scarless.numerics.linear import Matrix
from scarless.numerics.newton import NewtonOptions, Solution, minimise
from scarless.numerics.objectives import Curvature, Objective, Sums

Vector = NDArray[np.float64]

# Above this many parameters the information matrix is not formed; products with it are.
WIDEST_MATRIX = 1500


@dataclass(frozen=True)
class Pull:
    r"""Imaginary rows, half of each kind: :math:`k\,(\mathrm{softplus}(z) - z/2)` with :math:`z = z_0 + p'\beta`.

    Holds a probability at some point off 0 and 1 where the labels hardly care.
    """

    weight: float
    point: Vector  # a coefficient for each parameter
    offset: float = 0.0

    def sums(self, beta: Vector) -> Sums:
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


@dataclass(frozen=True)
class PenalisedProblem:
    r"""Minus the log-likelihood plus :math:`\tfrac12\sum_j \lambda_j \beta_j^2`, and pulls where there are any."""

    engine: Engine
    objective: Objective
    ridge: Vector
    pulls: tuple[Pull, ...] = ()

    def evaluate(self, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature over all rows, penalty included."""
        value, gradient, matrix = self.engine.total(self.objective.sums, beta, curvature)
        if curvature is Curvature.DIAGONAL:
            matrix = matrix + self.ridge
        elif curvature is not Curvature.NONE:
            matrix[np.diag_indices(beta.size)] += self.ridge
        value, gradient = value + 0.5 * ((self.ridge * beta) @ beta), gradient + self.ridge * beta
        for pull in self.pulls:
            pulled = pull.sums(beta)
            value, gradient = value + pulled.value, gradient + pulled.gradient
            if curvature is Curvature.DIAGONAL:
                matrix = matrix + np.diagonal(pulled.curvature)
            elif curvature is not Curvature.NONE:
                matrix = matrix + pulled.curvature
        return Sums(value, gradient, matrix)

    def product(self, beta: Vector, direction: Vector) -> Vector:
        """Return the expected information times a direction, penalty included."""
        (product,) = self.engine.total(self.objective.product, beta, direction)
        product = product + self.ridge * direction
        return product + sum(pull.product(beta, direction) for pull in self.pulls)

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

    def solve(
        self,
        start: Vector,
        *,
        total_weight: float,
        tol: float,
        max_iter: int,
        may_diverge: bool = False,
        damp_indefinite: bool = False,
    ) -> Solution:
        """Minimise from `start`; `tol` is the predicted gain per unit of row weight.

        `may_diverge` says that some model has no penalty, so that its optimum may be at infinity. `damp_indefinite`
        saves iterations where the penalty is weak, and may end at a nearer optimum than Fisher scoring would.
        """
        single = self.engine.dtype == np.float32
        options = NewtonOptions(
            scale=total_weight,
            tol=tol,
            max_iter=max_iter,
            rounding=1e-7 if single else 1e-14,
            # A convex objective has one basin, and with a penalty no plateau: nothing to be careful of.
            longest=np.inf if self.objective.convex and not may_diverge else 1.0,
            matrix_free=self.objective.n_parameters > WIDEST_MATRIX,
            may_diverge=may_diverge,
            damp_indefinite=damp_indefinite,
        )
        return minimise(self, start, options)
