r"""An interior-point method for the nearest distribution when the kernel matrix has low rank.

.. math:: \min_{w \ge 0,\; 1'w = 1} \tfrac12 (w-u)' (L L' + \epsilon I) (w-u)

Newton's equations have the matrix :math:`L L' + \mathrm{diag}`, so that a step costs the square of the rank times the
number of points. Predictor and corrector as in Mehrotra, "On the implementation of a primal-dual interior point
method", SIAM Journal on Optimization 1992.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpstrf

from scarless.numerics.arrays import Matrix, Vector

MAX_ITER = 60
NOTHING = 1e-14  # a squared distance that counts as 0
TO_THE_WALL = 0.995  # of the longest step that keeps all weights positive


def low_rank_factor(matrix: Matrix, tol: float) -> Matrix:
    """Return `L` with few columns such that no entry of `matrix - L L'` exceeds `tol`: pivoted Cholesky."""
    factor, pivots, rank, _ = dpstrf(np.array(matrix, order="F"), tol=tol, lower=1, overwrite_a=1)
    result = np.empty((matrix.shape[0], rank))
    result[pivots - 1] = np.tril(factor)[:, :rank]
    return result


def nearest_distribution(factor: Matrix, ridge: float, u: Vector, tol: float) -> tuple[Vector, Vector, int, bool]:
    """Return weights, multipliers, iterations, and whether the duality gap got below `tol` times the objective."""

    def gradient(weights: Vector) -> Vector:
        change = weights - u
        return np.asarray(factor @ (factor.T @ change) + ridge * change)

    w = np.full(u.size, 1.0 / u.size)
    g = gradient(w)
    y = float(g.min() - 0.1 * (g.max() - g.min()) - 1e-12)
    z = g - y
    for iteration in range(1, MAX_ITER + 1):
        objective, gap = 0.5 * (w - u) @ g, w @ z
        dual, primal = g - z - y, 1.0 - w.sum()
        enough = max(tol * float(objective), NOTHING)
        if gap <= enough and np.abs(dual).max() <= enough:
            return w, z, iteration, True
        solve = _newton_solver(factor, ridge + z / w)
        ones = solve(np.ones(u.size))
        step = _step(solve, ones, w, z, dual, primal, np.zeros(u.size))
        centring = (((w + _longest(w, step[0]) * step[0]) @ (z + _longest(z, step[1]) * step[1])) / gap) ** 3
        step = _step(solve, ones, w, z, dual, primal, centring * gap / u.size - step[0] * step[1])
        length = TO_THE_WALL * min(_longest(w, step[0]), _longest(z, step[1]))
        w, z, y = w + length * step[0], z + length * step[1], y + length * step[2]
        g = gradient(w)
    return w, z, MAX_ITER, False


def _newton_solver(factor: Matrix, diagonal: Vector) -> Callable[[Vector], Vector]:
    """Return the solver of `(L L' + diag) x = b`, by the factor of a matrix of the size of the rank."""
    scaled = factor / diagonal[:, None]
    inner = cho_factor(np.eye(factor.shape[1]) + factor.T @ scaled, check_finite=False)
    return lambda b: np.asarray(b / diagonal - scaled @ cho_solve(inner, scaled.T @ b, check_finite=False))


def _step(
    solve: Callable[[Vector], Vector], ones: Vector, w: Vector, z: Vector, dual: Vector, primal: float, target: Vector
) -> tuple[Vector, Vector, float]:
    """Return the Newton step of weights, multipliers and constant towards products `w z` equal to the target."""
    wanted = target / w - z
    change = solve(wanted - dual)
    of_constant = float((primal - change.sum()) / ones.sum())
    of_weights = change + of_constant * ones
    return of_weights, wanted - z / w * of_weights, of_constant


def _longest(values: Vector, step: Vector) -> float:
    """Return the largest step of at most 1 that keeps the values at least 0."""
    shrinking = step < 0
    return float(min(1.0, (-values[shrinking] / step[shrinking]).min(initial=1.0)))
