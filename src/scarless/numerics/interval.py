"""Two ends."""

import math
from typing import NamedTuple

from scipy.special import ndtri, stdtrit


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
