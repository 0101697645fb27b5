"""Columns whose numbers are out of proportion: far from zero for their spread, or so small that squares vanish.

A product with such a column loses the digits that tell its rows apart. Tables that hold one are read in float64, block
by block, and a solver sees the column centred and scaled; its answer is turned back, so nobody else notices.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Vector

# Mean over standard deviation up to which a column's products keep enough digits, and the least size of its entries.
_FAR = {np.dtype(np.float32): 1e2, np.dtype(np.float64): 1e5}
_TINY = {np.dtype(np.float32): 1e-10, np.dtype(np.float64): 1e-100}
_SAMPLE, _CHUNK = 2048, 8192  # rows


class Units(NamedTuple):
    """How a solver sees each column: ``(x - shift) * scale``."""

    shift: Vector
    scale: Vector


class Reading(NamedTuple):
    """In which precision a table is to be read, and the units of its columns where some need any."""

    dtype: np.dtype[Any]
    units: Units | None


class _Columns(NamedTuple):
    mean: Vector
    deviation: Vector
    largest: Vector  # absolute value

    def out_of_proportion(self, dtype: np.dtype[Any]) -> NDArray[np.bool_]:
        far = np.abs(self.mean) > _FAR[dtype] * self.deviation
        # A constant column tells nothing, and is left alone unless it only looks constant.
        far &= self.deviation > 1e-14 * np.abs(self.mean)
        return far | ((self.largest > 0) & (self.largest < _TINY[dtype]))


def how_to_read(X: Any) -> Reading:
    """Return the precision and the units that a table needs: its own and none, but for columns out of proportion."""
    dtype, double = np.dtype(X.dtype), np.dtype(np.float64)
    suspects = _suspects(X, dtype)
    if not suspects.size:
        return Reading(dtype, None)
    columns = _measure(X, suspects)
    if not columns.out_of_proportion(dtype).any():
        return Reading(dtype, None)
    bad = columns.out_of_proportion(double)
    if not bad.any():
        return Reading(double, None)
    shift, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    spread = np.where(columns.deviation > 0, columns.deviation, columns.largest)
    shift[suspects[bad]] = 0.0 if sparse.issparse(X) else columns.mean[bad]  # centred, a sparse column would be dense
    scale[suspects[bad]] = 2.0 ** -np.round(np.log2((columns.largest if sparse.issparse(X) else spread)[bad]))
    return Reading(double, Units(shift, scale))


def _suspects(X: Any, dtype: np.dtype[Any]) -> NDArray[np.intp]:
    """Return the columns that are worth a look at all rows: from some rows, or from the sparse entries together."""
    if X.shape[0] == 0 or X.shape[1] == 0:
        return np.zeros(0, dtype=np.intp)
    if sparse.issparse(X):
        small = any(
            bool(((chunk != 0) & (np.abs(chunk) < _TINY[dtype])).any())
            for chunk in (X.data[i : i + 1_000_000] for i in range(0, X.nnz, 1_000_000))
        )
        return np.arange(X.shape[1]) if small else np.zeros(0, dtype=np.intp)
    sample = _measure(X[:: max(1, X.shape[0] // _SAMPLE)], slice(None))
    constant = sample.deviation <= 1e-14 * np.abs(sample.mean)  # here; other values may hide among the other rows
    return np.flatnonzero(constant | sample.out_of_proportion(dtype))


def _measure(X: Any, columns: Any) -> _Columns:
    """Return each column's mean, standard deviation and largest entry, in two passes in float64."""
    n = X.shape[0]
    if sparse.issparse(X):
        largest = np.asarray(abs(X).max(axis=0).todense(), dtype=np.float64).ravel()[columns]
        return _Columns(np.zeros(largest.size), largest, largest)
    blocks = [slice(start, start + _CHUNK) for start in range(0, n, _CHUNK)]

    def block(rows: slice) -> Vector:
        return np.asarray(X[rows][:, columns], dtype=np.float64)

    largest = np.max([np.abs(block(rows)).max(axis=0) for rows in blocks], axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # entries of 1e-170 have no squares
    mean = np.sum([(block(rows) / unit).sum(axis=0) for rows in blocks], axis=0) / n
    squares = np.sum([((block(rows) / unit - mean) ** 2).sum(axis=0) for rows in blocks], axis=0) / n
    return _Columns(mean * unit, np.sqrt(squares) * unit, largest)
