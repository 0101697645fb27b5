"""Blocks of rows: precision, shift and scale of their columns, derived values, and sums over blocks.

Block functions return sums, or objects with their own ``+``, such as a maximum, a first row or distinct values.

A column is badly scaled if its mean is large compared with its standard deviation, or if its values are so small that
squares underflow. Products with such a column lose the digits that distinguish its rows. Tables with badly scaled
columns are read in float64, and the solver gets these columns centred and scaled. The fitted parameters are converted
back.
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Vector, in_float64, in_numpy, namespace_of

# Largest ratio of mean to standard deviation, and smallest absolute value of entries, at which products keep enough
# digits.
MAX_MEAN_PER_DEVIATION = {np.dtype(np.float32): 1e2, np.dtype(np.float64): 1e5}
MIN_SIZE_OF_ENTRIES = {np.dtype(np.float32): 1e-10, np.dtype(np.float64): 1e-100}
_MAX_EXPONENT = 1023  # of a finite power of two in float64
_SAMPLED_ROWS = 2048  # size of the sample in which all columns are measured first

Values = TypeVar("Values", bound=dict[str, Any])

# --- results of blocks that are not plain sums


@dataclass(frozen=True)
class Largest:
    """Elementwise maximum over blocks.

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
    """The first row that a block function reports, and what it found there; None if no block reports a row.

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
    """The sorted distinct values of a column over blocks; only the `most` smallest values are kept.

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
    """Sums of integers modulo 2**64, which do not depend on the order of addition.

    Examples
    --------
    >>> (Wrapped(np.array([2**64 - 1], dtype=np.uint64)) + Wrapped(np.array([3], dtype=np.uint64))).values
    array([2], dtype=uint64)
    """

    values: NDArray[np.uint64]

    def __add__(self, other: "Wrapped") -> "Wrapped":
        return Wrapped(self.values + other.values)


# --- badly scaled columns


class Units(NamedTuple):
    """Shift and scale of each column for the solver, which uses ``(x - shift) * scale``.

    Examples
    --------
    >>> Units(shift=np.array([1000.0]), scale=np.array([0.5])).shift
    array([1000.])
    """

    shift: Vector
    scale: Vector


class Reading(NamedTuple):
    """Precision in which a table is read, and the units (shift and scale) of its columns; None for no units.

    An engine starts with the precision of its table and no units. A fit measures the columns, and calls `read_as` with
    another `Reading` if some columns are badly scaled.

    Examples
    --------
    >>> Reading(np.dtype(np.float32), None).dtype
    dtype('float32')
    """

    dtype: np.dtype[Any]
    units: Units | None


class _ColumnStatistics(NamedTuple):
    mean: Vector
    deviation: Vector  # standard deviation
    largest: Vector  # largest absolute value

    def badly_scaled(self, dtype: np.dtype[Any]) -> NDArray[np.bool_]:
        far = np.abs(self.mean) > MAX_MEAN_PER_DEVIATION[dtype] * self.deviation
        # A constant column has no information and is left as it is.
        far &= self.deviation > 1e-14 * np.abs(self.mean)
        return far | ((self.largest > 0) & (self.largest < MIN_SIZE_OF_ENTRIES[dtype]))


def how_to_read(engine: Any) -> Reading:
    """Return the precision and the units in which to read a table.

    Without badly scaled columns, these are the precision of the table and no units.
    """
    dtype, double = np.dtype(engine.dtype), np.dtype(np.float64)
    if engine.n_rows == 0 or engine.n_columns == 0:
        return Reading(dtype, None)
    is_sparse, suspects = _suspects(engine, dtype)
    if not suspects.size:
        return Reading(dtype, None)
    columns = _measure(engine, suspects)
    if not columns.badly_scaled(dtype).any():
        return Reading(dtype, None)
    bad = columns.badly_scaled(double)
    if not bad.any():
        return Reading(double, None)
    shift, scale = np.zeros(engine.n_columns), np.ones(engine.n_columns)
    spread = np.where(columns.deviation > 0, columns.deviation, columns.largest)
    shift[suspects[bad]] = 0.0 if is_sparse else columns.mean[bad]  # A centred sparse column would be dense.
    exponents = -np.round(np.log2((columns.largest if is_sparse else spread)[bad]))
    scale[suspects[bad]] = 2.0 ** np.minimum(exponents, _MAX_EXPONENT)
    return Reading(double, Units(shift, scale))


def _suspects(engine: Any, dtype: np.dtype[Any]) -> tuple[bool, NDArray[np.intp]]:
    """Return whether the table is sparse, and the columns whose statistics have to be computed from all rows.

    For a dense table, a sample of rows determines these columns. For a sparse table, they are all columns if there are
    very small entries, and otherwise none.
    """
    is_sparse, small = engine.total(_block_small, MIN_SIZE_OF_ENTRIES[dtype])
    if is_sparse > 0:
        return True, np.arange(engine.n_columns if small > 0 else 0)
    sample = _measure(engine.every(max(1, engine.n_rows // _SAMPLED_ROWS)), np.arange(engine.n_columns))
    constant = sample.deviation <= 1e-14 * np.abs(sample.mean)  # in the sample; the other rows may differ
    return False, np.flatnonzero(constant | sample.badly_scaled(dtype))


def _measure(engine: Any, columns: NDArray[np.intp]) -> _ColumnStatistics:
    """Return mean, standard deviation and largest entry of each column in float64.

    For a sparse table, the mean is set to 0, and the largest entry is used as the standard deviation.
    """
    is_sparse, found = engine.total(_block_largest, columns)
    largest = found.values
    if is_sparse > 0:
        return _ColumnStatistics(np.zeros(largest.size), largest, largest)
    unit = np.where(largest > 0, largest, 1.0)  # Squares of entries such as 1e-170 would underflow.
    (total,) = engine.total(_block_sums, columns, unit)
    mean = total / engine.n_rows
    (squares,) = engine.total(_block_squares, columns, unit, mean)
    return _ColumnStatistics(mean * unit, np.sqrt(squares / engine.n_rows) * unit, largest)


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
    return 0.0, Largest(in_numpy(xp.max(xp.abs(_columns_in_float64(X, columns)), axis=0)))


def _block_sums(X: Any, rows: Any, columns: NDArray[np.intp], unit: Vector) -> tuple[Vector]:
    xp = namespace_of(X)
    return (xp.sum(_columns_in_float64(X, columns) / float64_like(X, unit), axis=0),)


def _block_squares(X: Any, rows: Any, columns: NDArray[np.intp], unit: Vector, mean: Vector) -> tuple[Vector]:
    xp = namespace_of(X)
    return (xp.sum((_columns_in_float64(X, columns) / float64_like(X, unit) - float64_like(X, mean)) ** 2, axis=0),)


def float64_like(X: Any, values: Vector) -> Any:
    """Return a float64 vector on the device of a block."""
    xp = namespace_of(X)
    return values if xp is np else xp.asarray(values, device=X.device)


def _columns_in_float64(X: Any, columns: NDArray[np.intp]) -> Vector:
    if (xp := namespace_of(X)) is not np:
        whole = columns.size == X.shape[1]
        return in_float64(X if whole else xp.take(X, xp.asarray(columns, device=X.device), axis=1))
    return np.asarray(X if columns.size == X.shape[1] else X[:, columns], dtype=np.float64)


# --- how engines prepare blocks and add up their results


@dataclass(frozen=True)
class Preparation:
    """Preparation of blocks: precision and units of the columns, and derived values of the rows.

    An engine prepares every block before it calls a block function. Its methods `derive`, `read_as` and `in_units`
    return an engine with another preparation.

    Parameters
    ----------
    reading : Reading
        Precision of the blocks, and units for the solver.
    converted : Units, optional
        Units to which every block is converted; `in_units` sets them.
    derived : tuple of pairs, optional
        Row functions, which return additional values for the rows, with their parameters; `and_derive` appends one.

    Examples
    --------
    >>> preparation = Preparation(Reading(np.dtype(np.float64), None))
    >>> doubled = preparation.and_derive(lambda X, rows: {"w": 2.0 * rows["w"]}, ())
    >>> X, rows = doubled(np.eye(2, dtype=np.float32), {"w": np.ones(2)})
    >>> X.dtype, rows["w"]
    (dtype('float64'), array([2., 2.]))
    """

    reading: Reading
    converted: Units | None = None
    derived: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = ()

    def and_derive(self, row_function: Callable[..., dict[str, Any]], parameters: tuple[Any, ...]) -> "Preparation":
        """Return a preparation with one more row function."""
        return replace(self, derived=(*self.derived, (row_function, parameters)))

    def in_units(self) -> "Preparation":
        """Return a preparation that converts the columns to their units."""
        return replace(self, reading=self.reading._replace(units=None), converted=self.reading.units)

    def read_as(self, reading: Reading) -> "Preparation":
        """Return a preparation with another precision and other units, and the same derived values."""
        return Preparation(reading, derived=self.derived)

    def __call__(self, X: Any, rows: Values) -> tuple[Any, Values]:
        """Return the prepared block; `rows` is not modified."""
        if self.derived:
            rows = copy(rows)
        if X.dtype != self.reading.dtype:
            X = X.astype(self.reading.dtype)
        if self.converted is not None:
            X = _in_units(X, self.converted)
        for row_function, parameters in self.derived:
            rows.update(row_function(X, rows, *parameters))
        return X, rows


def add_up(parts: Iterable[Any]) -> Any:
    """Add tuples field by field, in order: numbers and arrays in float64, other objects by their own ``+``.

    Parameters
    ----------
    parts : iterable of tuples
        Results of a block function, one for each block. For named tuples, the result is a named tuple.

    Returns
    -------
    tuple
        Sums of the fields.

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
