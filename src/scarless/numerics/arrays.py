"""Names of arrays: what a signature means by a vector."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    Array = NDArray[Any]
    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Columns = NDArray[np.intp]
    Integers = NDArray[np.intp]
    Mask = NDArray[np.bool_]
    Rows = Mapping[str, Any]
else:

    class ShortName:
        """A type by the name that `help()` is to show: written out, NumPy's `ArrayLike` alone takes 300 characters.

        Examples
        --------
        >>> ShortName("Vector") | None, float | ShortName("Vector")
        (Vector | None, float | Vector)
        """

        def __init__(self, name: str) -> None:
            self.name = name

        def __repr__(self) -> str:
            return self.name

        def __or__(self, other: Any) -> "ShortName":
            return ShortName(f"{self.name} | {_shown(other)}")

        def __ror__(self, other: Any) -> "ShortName":
            return ShortName(f"{_shown(other)} | {self.name}")

    def _shown(other: Any) -> str:
        return getattr(other, "__name__", repr(other))

    ArrayLike = ShortName("ArrayLike")  # what NumPy can make an array of
    Array = ShortName("Array")
    Vector = ShortName("Vector")  # a number for each row, or for each parameter
    Matrix = ShortName("Matrix")
    Columns = ShortName("Columns")  # positions of columns
    Integers = ShortName("Integers")  # a whole number for each row: its place, its bin, its fold
    Mask = ShortName("Mask")  # yes or no for each row
    Rows = ShortName("Rows")  # values per row of a block, by name

__all__ = ["Array", "ArrayLike", "Columns", "Integers", "Mask", "Matrix", "Rows", "Vector"]
