"""A Newton step without a matrix: conjugate gradients that stop at a distance, or where curvature turns negative."""

from collections.abc import Callable

import numpy as np

from scarless.numerics.arrays import Vector

# Relative error of a product with the information.
_ROUNDING = 1e-13


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
        if iteration > 0 and abs(curvature) <= _ROUNDING * float(along @ (diagonal * along)):
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
