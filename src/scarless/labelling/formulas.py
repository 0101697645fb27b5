"""The mechanisms' formulas on clean float arrays: no checks, no randomness."""

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Vector


def geometric_mean(x: Vector, low: float, high: float) -> Vector:
    r"""Geometric mean over the columns of `x`, each of them between `low` (at 0) and `high` (at 1).

    .. math:: \prod_{i=1}^k \bigl(low^{1-x_i}\, high^{x_i}\bigr)^{1/k} = low^{1-m}\, high^{m},
              \qquad m = \tfrac1k \sum_i x_i

    Only the mean `m` of a row matters. Right for ``x`` in [0, 1].

    Examples
    --------
    >>> geometric_mean(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), 0.2, 0.8)
    array([0.2, 0.4, 0.8])
    """
    m = x.mean(axis=1)
    # The clip only takes back the last rounding error; the product lies between low and high already.
    return np.clip(low ** (1.0 - m) * high**m, low, high)


def logistic(z: Vector, low: float, high: float) -> Vector:
    r"""Logistic curve of the logit `z` between `low` and `high`.

    .. math:: low + (high - low) \, \frac{1}{1 + \exp(-z)}

    Examples
    --------
    >>> logistic(np.array([0.0]), 0.2, 0.8)
    array([0.5])
    """
    return np.clip(low + (high - low) * expit(z), low, high)


def gap_share(p: Vector, *, absolute: bool) -> Vector:
    r"""The gap between the class probabilities, mapped to [0, 1].

    With :math:`\Delta = Pr(y=1|x) - Pr(y=0|x) = 2p - 1`: the share is :math:`(1+\Delta)/2 = p`, or
    :math:`|\Delta|` where `absolute`.

    Examples
    --------
    >>> gap_share(np.array([0.0, 0.5, 1.0]), absolute=True)
    array([1., 0., 1.])
    """
    return np.abs(2.0 * p - 1.0) if absolute else p


def power_curve(share: Vector, low: float, high: float, power: float, *, decreasing: bool) -> Vector:
    r"""A power of `share` between `low` and `high`.

    .. math:: low + (high - low)\, t^{power}, \qquad t = share \text{ or } 1 - share

    Examples
    --------
    >>> power_curve(np.array([0.0, 0.5, 1.0]), 0.2, 0.8, 1.0, decreasing=True)
    array([0.8, 0.5, 0.2])
    """
    t = 1.0 - share if decreasing else share
    return np.clip(low + (high - low) * t**power, low, high)
