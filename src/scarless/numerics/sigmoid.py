"""The logistic function and its complement, and the probability of any of several events, without cancellation."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.namespace import at_least, at_most, namespace_of


def sigmoid_pair(z: Vector) -> tuple[Vector, Vector]:
    r"""Return :math:`\sigma(z)` and :math:`1 - \sigma(z)`, both to full relative precision.

    Both come from one :math:`\exp(-|z|)`, so neither is ever formed as ``1 - p``.

    Examples
    --------
    >>> import numpy as np
    >>> p, not_p = sigmoid_pair(np.array([0.0, 40.0]))
    >>> p, not_p
    (array([0.5, 1. ]), array([5.00000000e-01, 4.24835426e-18]))
    """
    xp = namespace_of(z)
    if xp is np:  # two exponentials, one of which is 1, take less time than two choices by the sign
        a, b = np.exp(np.minimum(z, 0.0)), np.exp(-np.maximum(z, 0.0))
        larger = 1.0 / (1.0 + a * b)
        return a * larger, b * larger
    t = xp.exp(-xp.abs(z))
    larger = 1.0 / (1.0 + t)
    smaller = t * larger
    above = z >= 0
    return xp.where(above, larger, smaller), xp.where(above, smaller, larger)


class LogisticTerms(NamedTuple):
    """The logistic function, its complement, and the logarithms of both."""

    p: Vector
    not_p: Vector
    log_p: Vector
    log_not_p: Vector


def logistic_terms(z: Vector) -> LogisticTerms:
    r"""Return :math:`\sigma(z)`, :math:`1 - \sigma(z)` and their logarithms, each to full relative precision.

    For finite `z`.

    Examples
    --------
    >>> import numpy as np
    >>> logistic_terms(np.array([-700.0])).log_not_p
    array([-9.85967654e-305])
    """
    xp = namespace_of(z)
    below = at_most(z, 0.0)
    beyond = below - z  # minus what z is above 0
    a, b = xp.exp(below), xp.exp(beyond)
    t = a * b
    larger, tail = 1.0 / (1.0 + t), xp.log1p(t)
    return LogisticTerms(a * larger, b * larger, below - tail, beyond - tail)


def sigmoid(z: Vector) -> Vector:
    r"""Return :math:`\sigma(z)`; of numpy's arrays by SciPy, which needs one pass.

    Examples
    --------
    >>> import numpy as np
    >>> sigmoid(np.array([0.0, 40.0]))
    array([0.5, 1. ])
    """
    return np.asarray(expit(z)) if namespace_of(z) is np else sigmoid_pair(z)[0]


def softplus(z: Vector) -> Vector:
    r"""Return :math:`\log(1 + e^z)`, finite for every finite `z`.

    Examples
    --------
    >>> import numpy as np
    >>> softplus(np.array([-700.0, 0.0, 700.0]))
    array([9.85967654e-305, 6.93147181e-001, 7.00000000e+002])
    """
    xp = namespace_of(z)
    return at_least(z, 0.0) + xp.log1p(xp.exp(-xp.abs(z)))


def at_least_one(p: Matrix) -> Vector:
    r"""Return :math:`1 - \prod_k (1 - p_k)` over the columns: the probability of any of several independent events.

    By logarithms, so that small probabilities keep their digits. An event that cannot happen, such as a label at a look
    that did not take place, has probability 0.

    Examples
    --------
    >>> import numpy as np
    >>> at_least_one(np.array([[0.5, 0.5], [1e-20, 0.0], [1.0, 0.3]]))
    array([7.5e-01, 1.0e-20, 1.0e+00])
    """
    with np.errstate(divide="ignore"):  # a certain event
        return np.asarray(0.0 - np.expm1(np.log1p(-p).sum(axis=1)))
