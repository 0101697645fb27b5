"""Two ends."""

from typing import NamedTuple


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
