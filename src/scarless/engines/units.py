"""Columns whose numbers are out of proportion: far from zero for their spread, or so small that squares vanish.

A product with such a column loses the digits that tell its rows apart. Tables that hold one are read in float64, block
by block, and a solver sees the column centred and scaled; its answer is turned back, so nobody else notices.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.engines.joins import Largest
from scarless.numerics.arrays import Vector
from scarless.numerics.namespace import in_float64, in_numpy, namespace_of

# Mean over standard deviation up to which a column's products keep enough digits, and the least size of its entries.
MAX_MEAN_PER_DEVIATION = {np.dtype(np.float32): 1e2, np.dtype(np.float64): 1e5}
MIN_SIZE_OF_ENTRIES = {np.dtype(np.float32): 1e-10, np.dtype(np.float64): 1e-100}
SAMPLED_ROWS = 2048  # rows


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
