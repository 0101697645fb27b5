"""Blocks of rows: how their columns are read, what is derived in them, and how what they return is put together.

Block functions return sums, or what is joined by ``+`` in another way: the largest, the first, all that differ.

A column is out of proportion where it is far from zero for its spread, or so small that squares vanish: a product with
it loses the digits that tell its rows apart. Tables that hold one are read in float64, block by block, and a solver
sees the column centred and scaled; its answer is turned back, so nobody else notices.
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Vector, in_float64, in_numpy, namespace_of

# Mean over standard deviation up to which a column's products keep enough digits, and the least size of its entries.
MAX_MEAN_PER_DEVIATION = {np.dtype(np.float32): 1e2, np.dtype(np.float64): 1e5}
MIN_SIZE_OF_ENTRIES = {np.dtype(np.float32): 1e-10, np.dtype(np.float64): 1e-100}
SAMPLED_ROWS = 2048  # rows

Values = TypeVar("Values", bound=dict[str, Any])

# --- what blocks return that is not a plain sum


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


# --- columns out of proportion


class Units(NamedTuple):
    """How a solver sees each column: ``(x - shift) * scale``.

    Examples
    --------
    >>> Units(shift=np.array([1000.0]), scale=np.array([0.5])).shift
    array([1000.])
    """

    shift: Vector
    scale: Vector


class Reading(NamedTuple):
    """In which precision a table is to be read, and the units of its columns where some need any.

    An engine starts with the precision of its table and no units. A fit measures the columns, and calls `read_as` with
    another reading where some columns are far from zero for their spread.

    Examples
    --------
    >>> Reading(np.dtype(np.float32), None).dtype
    dtype('float32')
    """

    dtype: np.dtype[Any]
    units: Units | None


class _Columns(NamedTuple):
    mean: Vector
    deviation: Vector
    largest: Vector  # absolute value

    def out_of_proportion(self, dtype: np.dtype[Any]) -> NDArray[np.bool_]:
        far = np.abs(self.mean) > MAX_MEAN_PER_DEVIATION[dtype] * self.deviation
        # A constant column tells nothing, and is left alone unless it only looks constant.
        far &= self.deviation > 1e-14 * np.abs(self.mean)
        return far | ((self.largest > 0) & (self.largest < MIN_SIZE_OF_ENTRIES[dtype]))


def how_to_read(engine: Any) -> Reading:
    """Return the precision and the units that a table needs: its own and none, but for columns out of proportion."""
    dtype, double = np.dtype(engine.dtype), np.dtype(np.float64)
    if engine.n_rows == 0 or engine.n_columns == 0:
        return Reading(dtype, None)
    is_sparse, suspects = _suspects(engine, dtype)
    if not suspects.size:
        return Reading(dtype, None)
    columns = _measure(engine, suspects)
    if not columns.out_of_proportion(dtype).any():
        return Reading(dtype, None)
    bad = columns.out_of_proportion(double)
    if not bad.any():
        return Reading(double, None)
    shift, scale = np.zeros(engine.n_columns), np.ones(engine.n_columns)
    spread = np.where(columns.deviation > 0, columns.deviation, columns.largest)
    shift[suspects[bad]] = 0.0 if is_sparse else columns.mean[bad]  # centred, a sparse column would be dense
    scale[suspects[bad]] = 2.0 ** -np.round(np.log2((columns.largest if is_sparse else spread)[bad]))
    return Reading(double, Units(shift, scale))


def _suspects(engine: Any, dtype: np.dtype[Any]) -> tuple[bool, NDArray[np.intp]]:
    """Return whether the table is sparse, and the columns that are worth a look at all rows: from some of them, or from
    the sparse entries together.
    """
    is_sparse, small = engine.total(_block_small, MIN_SIZE_OF_ENTRIES[dtype])
    if is_sparse > 0:
        return True, np.arange(engine.n_columns if small > 0 else 0)
    sample = _measure(engine.every(max(1, engine.n_rows // SAMPLED_ROWS)), np.arange(engine.n_columns))
    constant = sample.deviation <= 1e-14 * np.abs(sample.mean)  # here; other values may hide among the other rows
    return False, np.flatnonzero(constant | sample.out_of_proportion(dtype))


def _measure(engine: Any, columns: NDArray[np.intp]) -> _Columns:
    """Return each column's mean, standard deviation and largest entry, in float64; of sparse ones the latter only."""
    is_sparse, found = engine.total(_block_largest, columns)
    largest = found.values
    if is_sparse > 0:
        return _Columns(np.zeros(largest.size), largest, largest)
    unit = np.where(largest > 0, largest, 1.0)  # entries of 1e-170 have no squares
    (total,) = engine.total(_block_sums, columns, unit)
    mean = total / engine.n_rows
    (squares,) = engine.total(_block_squares, columns, unit, mean)
    return _Columns(mean * unit, np.sqrt(squares / engine.n_rows) * unit, largest)


def _block_small(X: Any, rows: Any, tiny: float) -> tuple[float, float]:
    if not sparse.issparse(X):
        return 0.0, 0.0
    return 1.0, float(((X.data != 0) & (np.abs(X.data) < tiny)).any())


def _block_largest(X: Any, rows: Any, columns: NDArray[np.intp]) -> tuple[float, Largest]:
    if sparse.issparse(X):
        return 1.0, Largest(np.asarray(abs(X).max(axis=0).todense(), dtype=np.float64).ravel()[columns])
    if not X.shape[0]:
        return 0.0, Largest(np.zeros(columns.size))
    xp = namespace_of(X)
    return 0.0, Largest(in_numpy(xp.max(xp.abs(_taken(X, columns)), axis=0)))


def _block_sums(X: Any, rows: Any, columns: NDArray[np.intp], unit: Vector) -> tuple[Vector]:
    xp = namespace_of(X)
    return (xp.sum(_taken(X, columns) / like_rows(X, unit), axis=0),)


def _block_squares(X: Any, rows: Any, columns: NDArray[np.intp], unit: Vector, mean: Vector) -> tuple[Vector]:
    xp = namespace_of(X)
    return (xp.sum((_taken(X, columns) / like_rows(X, unit) - like_rows(X, mean)) ** 2, axis=0),)


def like_rows(X: Any, values: Vector) -> Any:
    """Return numbers in float64, where a block is."""
    xp = namespace_of(X)
    return values if xp is np else xp.asarray(values, device=X.device)


def _taken(X: Any, columns: NDArray[np.intp]) -> Vector:
    if (xp := namespace_of(X)) is not np:
        whole = columns.size == X.shape[1]
        return in_float64(X if whole else xp.take(X, xp.asarray(columns, device=X.device), axis=1))
    return np.asarray(X if columns.size == X.shape[1] else X[:, columns], dtype=np.float64)


# --- what every engine does with a block


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
    >>> X, rows = doubled(np.eye(2, dtype=np.float32), {"w": np.ones(2)})
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

    def __call__(self, X: Any, rows: Values) -> tuple[Any, Values]:
        """Return the block as block functions see it; `rows` stays as it was."""
        rows = copy(rows)
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
