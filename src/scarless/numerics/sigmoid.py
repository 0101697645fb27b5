"""The logistic function and its complement, without cancellation."""

import numpy as np

from scarless.numerics.arrays import Vector


def sigmoid_pair(z: Vector) -> tuple[Vector, Vector]:
    r"""Return :math:`\sigma(z)` and :math:`1 - \sigma(z)`, both to full relative precision.

    Both come from one :math:`\exp(-|z|)`, so neither is ever formed as ``1 - p``.

    Examples
    --------
    >>> p, not_p = sigmoid_pair(np.array([0.0, 40.0]))
    >>> p, not_p
    (array([0.5, 1. ]), array([5.00000000e-01, 4.24835426e-18]))
    """
    t = np.exp(-np.abs(z))
    larger = 1.0 / (1.0 + t)
    smaller = t * larger
    above = z >= 0
    return np.where(above, larger, smaller), np.where(above, smaller, larger)


def softplus(z: Vector) -> Vector:
    r"""Return :math:`\log(1 + e^z)`, finite for every finite `z`.

    Examples
    --------
    >>> softplus(np.array([-700.0, 0.0, 700.0]))
    array([9.85967654e-305, 6.93147181e-001, 7.00000000e+002])
    """
    return np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))
