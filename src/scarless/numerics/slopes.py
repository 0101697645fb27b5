"""Straight lines through short series."""

from collections.abc import Iterable

import numpy as np

from scarless.numerics.arrays import Vector


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
