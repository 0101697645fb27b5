"""What blocks return that is not a plain sum: the largest, the first, all that differ. Each is joined by ``+``."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Largest:
    """The largest of numbers, entry by entry.

    Examples
    --------
    >>> (Largest(np.array([1.0, 5.0])) + Largest(np.array([2.0, 3.0]))).values
    array([2., 5.])
    """

    values: NDArray[np.float64]

    def __add__(self, other: "Largest") -> "Largest":
        return Largest(np.maximum(self.values, other.values))


@dataclass(frozen=True)
class First:
    """The lowest row number, with what was found there; None where nothing was.

    Examples
    --------
    >>> First() + First(7, "b") + First(3, "a")
    First(row=3, found='a')
    """

    row: int | None = None
    found: Any = None

    def __add__(self, other: "First") -> "First":
        known = [each for each in (self, other) if each.row is not None]
        return min(known, key=lambda each: int(each.row or 0)) if known else self


@dataclass(frozen=True)
class Distinct:
    """The distinct values of a column, sorted: a union. Of very many only some are kept, more than anyone asked for.

    Examples
    --------
    >>> (Distinct(np.array([0, 1])) + Distinct(np.array([1, 2]))).values
    array([0, 1, 2])
    """

    values: NDArray[Any]
    most = 1000

    def __add__(self, other: "Distinct") -> "Distinct":
        if not other.values.size or not self.values.size:
            return self if self.values.size else other
        return Distinct(np.unique(np.concatenate([self.values, other.values]))[: self.most])


@dataclass(frozen=True)
class Wrapped:
    """Sums of integers that wrap around, so that no order of adding matters.

    Examples
    --------
    >>> (Wrapped(np.array([2**64 - 1], dtype=np.uint64)) + Wrapped(np.array([3], dtype=np.uint64))).values
    array([2], dtype=uint64)
    """

    values: NDArray[np.uint64]

    def __add__(self, other: "Wrapped") -> "Wrapped":
        return Wrapped(self.values + other.values)
