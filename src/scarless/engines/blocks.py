"""What every engine does with a block on its way to a block function, and with what comes back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from scarless.engines.base import Rows
from scarless.engines.units import Reading, Units
from scarless.numerics.namespace import in_numpy, namespace_of


@dataclass(frozen=True)
class Preparation:
    """The precision and the units of a block's columns, and the values per row that are derived in it.

    An engine keeps one, calls it with every block before a block function sees it, and replaces it in `derive`,
    `read_as` and `in_units`.

    Parameters
    ----------
    reading : Reading
        The precision of the blocks, and the units that a solver may ask for.
    converted : Units, optional
        The units that every block is brought to: `in_units` sets them.
    derived : tuple of pairs, optional
        Functions of a block that add values per row, with their parameters: `and_derive` appends one.

    Examples
    --------
    >>> preparation = Preparation(Reading(np.dtype(np.float64), None))
    >>> doubled = preparation.and_derive(lambda X, rows: {"w": 2.0 * rows["w"]}, ())
    >>> X, rows = doubled(np.eye(2, dtype=np.float32), Rows({"w": np.ones(2)}, slice(0, 2, 1)))
    >>> X.dtype, rows["w"]
    (dtype('float64'), array([2., 2.]))
    """

    reading: Reading
    converted: Units | None = None  # what every block is brought to
    derived: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = ()

    def and_derive(self, row_function: Callable[..., dict[str, Any]], parameters: tuple[Any, ...]) -> "Preparation":
        """Return the preparation with one more step."""
        return replace(self, derived=(*self.derived, (row_function, parameters)))

    def in_units(self) -> "Preparation":
        """Return the preparation that brings columns to their units."""
        return replace(self, reading=self.reading._replace(units=None), converted=self.reading.units)

    def read_as(self, reading: Reading) -> "Preparation":
        """Return the preparation with another precision and other units, and the same derived values."""
        return Preparation(reading, derived=self.derived)

    def __call__(self, X: Any, rows: Rows) -> tuple[Any, Rows]:
        """Return the block as block functions see it; `rows` stays as it was."""
        rows = Rows(rows, rows.where)
        if X.dtype != self.reading.dtype:
            X = X.astype(self.reading.dtype)
        if self.converted is not None:
            X = _in_units(X, self.converted)
        for row_function, parameters in self.derived:
            rows.update(row_function(X, rows, *parameters))
        return X, rows


def add_up(parts: Iterable[Any]) -> Any:
    """Add tuples field by field, in order: numbers and arrays in float64, anything else by its own ``+``.

    Parameters
    ----------
    parts : iterable of tuples
        What a block function returned for each block; named tuples stay named tuples.

    Returns
    -------
    tuple
        The sums.

    Examples
    --------
    >>> add_up([(1, np.array([1.0, 2.0])), (2, np.array([3.0, 4.0]))])
    (array(3.), array([4., 6.]))
    """
    iterator = iter(parts)
    first = next(iterator)
    sums = [np.array(in_numpy(field), dtype=np.float64) if _is_number(field) else field for field in first]
    for part in iterator:
        for i, field in enumerate(part):
            if _is_number(field):
                np.add(sums[i], in_numpy(field), out=sums[i])
            else:
                sums[i] = sums[i] + field
    return type(first)(*sums) if hasattr(first, "_fields") else tuple(sums)


def _is_number(field: Any) -> bool:
    return isinstance(field, np.ndarray | np.generic | int | float) or namespace_of(field) is not np


def _in_units(X: Any, units: Units) -> Any:
    if not sparse.issparse(X):
        return (X - units.shift) * units.scale
    X = X.copy()
    X.data *= units.scale[X.indices]
    return X
