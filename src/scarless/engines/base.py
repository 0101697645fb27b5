"""The seam between models and machines: who sums the row blocks.

A model hands over a *block function*; an engine applies it to every block of rows it holds and adds up what
comes back, in a fixed order and in float64. An engine may hold its rows in memory, in files or on another
machine. Nothing else of it is visible to a model.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from scarless.engines.units import Units
from scarless.numerics.arrays import Vector

Rows = dict[str, Vector]
Sums = TypeVar("Sums", bound=tuple[Any, ...])


class Engine(Protocol):
    """Applies a block function to all rows and adds up."""

    @property
    def n_rows(self) -> int:
        """Number of rows held."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X, and so of the products inside a block."""
        ...

    @property
    def units(self) -> Units | None:
        """How a solver should see the columns; None where they are fit for products as they are."""
        ...

    def in_units(self) -> "Engine":
        """Return an engine over the same rows whose columns are in these units."""
        ...

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field."""
        ...

    def collect(self, row_function: Callable[..., Vector], *parameters: Any) -> Vector:
        """Return ``row_function(X, rows, *parameters)`` of every block, joined in row order."""
        ...

    def with_rows(self, **columns: Vector) -> "Engine":
        """Return an engine over the same X with other values per row; X is shared, not copied."""
        ...

    def every(self, step: int, first: int = 0) -> "Engine":
        """Return an engine over every `step`-th row from the `first` on, with the values of these rows."""
        ...
