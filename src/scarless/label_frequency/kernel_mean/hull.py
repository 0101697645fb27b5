r"""The distribution on given points that is nearest to a signed weighting of them, in a kernel's distance.

.. math:: d^2(u) = \min_{w \ge 0,\; 1'w = 1} (u - w)' K (u - w), \qquad 1'u = 1

`u` may have negative entries; the minimiser is then on a face of the simplex. With `A` the points of weight 0 the
conditions are: :math:`K(w-u) = \mu + y 1`, :math:`\mu_A \ge 0`, :math:`\mu = 0` elsewhere, :math:`w_A = 0`,
:math:`w \ge 0`.

Block principal pivoting (Portugal, Judice and Vicente, "A comparison of block pivoting and interior-point algorithms
for linear least squares problems with nonnegative variables", 1994) guesses `A`, solves the linear equations of that
face, exchanges all points that violate a sign at once, and repeats: five to ten faces, whatever the size. One inverse
of `K` serves all faces and all `u`: a face with few zero points costs one factor of the size of `A`, one with few
others a factor of the size of the others, never more than half of the points. Smooth kernels on few columns make `K`
nearly singular, and the exchanges may go in circles; there an interior-point method is fast, for `K` has low rank.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, dpotri

from scarless.label_frequency.kernel_mean.interior import low_rank_factor, nearest_distribution
from scarless.numerics.arrays import Mask, Matrix, Vector

RIDGE_PER_POINT, LARGEST_RIDGE = 1e-7, 1e-4
TOLERANCE = 1e-3  # of the squared distance, for a sign to count as violated
PATIENCE = 4  # exchanges without progress before the interior-point method takes over
LOW_RANK = 0.2  # of the number of points: up to here the interior-point method is the faster one
SMALLEST = 1e-8  # entries of K that its low-rank factor may miss


@dataclass(frozen=True)
class Nearest:
    """The nearest distribution, and how far it is."""

    weights: Vector
    multipliers: Vector  # mu, of the zero points
    squared_distance: float
    zero: Mask
    n_iter: int
    converged: bool

    def slope(self, direction: Vector) -> float:
        r"""Return the derivative of the distance when `u` moves in a direction whose entries sum to 0.

        By the envelope theorem :math:`(u-w)'K\,\delta / d = -\mu'\delta / d`.
        """
        if self.squared_distance <= 0.0:
            return 0.0
        return float(-(self.multipliers @ direction) / np.sqrt(self.squared_distance))


def ridge(n_points: int) -> float:
    """Return what is added to the diagonal of `K`: without it `K` is singular to working precision.

    It adds as many times :math:`|u-w|^2` to a squared distance, which falls with the number of points.
    """
    return min(RIDGE_PER_POINT * n_points, LARGEST_RIDGE)


class Hull:
    """Distances to the convex hull of points with a given kernel matrix, which is changed: the ridge is added."""

    def __init__(self, kernel: Matrix) -> None:
        self._ridge = ridge(kernel.shape[0])
        kernel[np.diag_indices_from(kernel)] += self._ridge
        self._kernel = kernel
        self._factor: Matrix | None = None  # of low rank; made when pivoting fails
        factor, failed = dpotrf(np.array(kernel, order="F"), lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the kernel matrix is not positive definite")
        self._inverse, _ = dpotri(factor, lower=1, overwrite_c=1)  # the lower triangle only
        self._of_ones = self._times_inverse(np.ones(kernel.shape[0]))

    def nearest(self, u: Vector, zero: Mask) -> Nearest:
        """Return the distribution nearest to `u`, trying first the face where the points of `zero` have weight 0.

        Weights sum to 1, so there is no face without any point: where `zero` holds them all, as the labelled points of
        a table with few distinct rows may do, the negative entries of `u` are the first guess.
        """
        zero = u < 0 if zero.all() else zero
        return (None if self._is_smooth else self._by_pivoting(u, zero)) or self._by_interior_point(u)

    @property
    def _is_smooth(self) -> bool:
        """Whether pivoting has failed before and the rank is low, so that it need not be tried again."""
        return self._factor is not None and self._factor.shape[1] <= LOW_RANK * self._factor.shape[0]

    def _by_interior_point(self, u: Vector) -> Nearest:
        if self._factor is None:
            self._factor = low_rank_factor(self._kernel - self._ridge * np.eye(u.size), SMALLEST)
        weights, mu, n_iter, converged = nearest_distribution(self._factor, self._ridge, u, TOLERANCE)
        change = weights - u
        squared = float(((self._factor.T @ change) ** 2).sum() + self._ridge * (change @ change))
        return Nearest(weights, mu, squared, weights < mu, n_iter, converged)

    def _by_pivoting(self, u: Vector, zero: Mask) -> Nearest | None:
        """Exchange blocks of points until no sign is violated; None where that leads nowhere."""
        fewest, highest, patience, n_faces = u.size + 1, 0.0, PATIENCE, 0
        while patience > 0:
            n_faces += 1
            weights, mu = self._on_face(u, zero)
            squared = float(-(mu @ u))
            violated = np.where(zero, mu < -TOLERANCE * squared, weights < -TOLERANCE / u.size)
            n_violated = int(violated.sum())
            if n_violated == 0:
                return Nearest(weights, mu, max(squared, 0.0), zero, n_faces, True)
            progress = n_violated < fewest or squared > (1.0 + TOLERANCE) * highest
            patience = PATIENCE if progress else patience - 1
            fewest, highest = min(fewest, n_violated), max(highest, squared)
            zero = zero ^ violated
        return None

    def _on_face(self, u: Vector, zero: Mask) -> tuple[Vector, Vector]:
        solve = self._by_zero_points if 2 * zero.sum() <= u.size else self._by_other_points
        return solve(u, zero)

    def _by_zero_points(self, u: Vector, zero: Mask) -> tuple[Vector, Vector]:
        r"""Solve :math:`w - u = K^{-1}(\mu + y 1)` with :math:`w_A = 0` and :math:`1'(w-u) = 0` for the multipliers."""
        a, q = np.flatnonzero(zero), self._of_ones
        first, second = self._solve(self._inverse[np.ix_(a, a)], -u[a], q[a])
        y = -(q[a] @ first) / (q.sum() - q[a] @ second)
        mu = np.zeros(u.size)
        mu[a] = first - y * second
        weights = u + self._times_inverse(mu) + y * q
        weights[a] = 0.0
        return weights, mu

    def _by_other_points(self, u: Vector, zero: Mask) -> tuple[Vector, Vector]:
        r"""Solve :math:`K_{BB} (w-u)_B = y 1 + K_{BA} u_A` for the points `B` that are not held at 0."""
        b = np.flatnonzero(~zero)
        fixed = np.where(zero, -u, 0.0)
        first, second = self._solve(self._kernel[np.ix_(b, b)], -(self._kernel @ fixed)[b], np.ones(b.size))
        y = (-fixed.sum() - first.sum()) / second.sum()
        change = fixed
        change[b] = first + y * second
        mu = np.where(zero, self._kernel @ change - y, 0.0)
        return np.where(zero, 0.0, u + change), mu

    @staticmethod
    def _solve(matrix: Matrix, first: Vector, second: Vector) -> tuple[Vector, Vector]:
        if matrix.size == 0:
            return first, second
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        both = cho_solve(factor, np.column_stack([first, second]), check_finite=False)
        return both[:, 0], both[:, 1]

    def _times_inverse(self, values: Vector) -> Vector:
        return np.asarray(dsymv(1.0, self._inverse, values, lower=1))
