"""Two ends of an interval, its quantile, and two small tools: a root and a slope."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit

from scarless.numerics.arrays import Vector


class Interval(NamedTuple):
    """The ends of an interval of one number: ``low, high = interval``.

    A confidence interval, or the smallest and the largest possible value; NaN twice where there is none.

    Examples
    --------
    >>> low, high = Interval(0.2, 0.5)
    >>> Interval(0.2, 0.5).high
    0.5
    """

    low: float
    high: float


def quantile(level: float, freedom: float = math.inf) -> float:
    """Return how many standard errors an interval reaches to each side; finite also for the level nearest to 1.

    By Student's distribution where errors have a finite number of degrees of freedom.

    Examples
    --------
    >>> round(quantile(0.95), 6), round(quantile(0.9999999999999999), 6)
    (1.959964, 8.292361)
    >>> round(quantile(0.95, 29), 6)
    2.04523
    """
    tail = (1.0 - level) / 2.0
    return -float(ndtri(tail) if math.isinf(freedom) else stdtrit(freedom, tail))


def find_root(function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12) -> float:
    """Return where `function`, of opposite signs at both ends, is 0 (Brent's method).

    SciPy leaves a reference cycle around its function, and with it everything that the function can reach, until the
    garbage collector comes by: kernel matrices of a hundred megabytes, one for each call. Here the function is let go.

    Examples
    --------
    >>> round(find_root(lambda x: x**2 - 2.0, 0.0, 2.0), 6)
    1.414214
    """
    held = [function]
    try:
        return float(brentq(lambda x: held[0](x), low, high, xtol=xtol))  # noqa: PLW0108 (it would hold the function)
    finally:
        held.clear()


def least_squares_slope(series: Iterable[Vector]) -> Vector:
    r"""Return the slope, per entry, of the least-squares line through equally spaced vectors.

    .. math:: \frac{\sum_t (t - \bar t)\,x_t}{\sum_t (t - \bar t)^2}

    Examples
    --------
    >>> least_squares_slope([np.array([0.0, 1.0]), np.array([2.0, 1.0]), np.array([4.0, 1.0])])
    array([2., 0.])
    """
    values = list(series)
    centred = np.arange(len(values)) - (len(values) - 1) / 2.0
    total = sum(c * x for c, x in zip(centred, values, strict=True))
    return np.asarray(total / (centred @ centred))
