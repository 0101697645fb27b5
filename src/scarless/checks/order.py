"""One order for the rows of a table, whatever order they came in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Vector

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_BLOCK_ROWS = 256


def canonical_order(X: Any, s: Vector, w: Vector | None = None) -> NDArray[np.intp]:
    """Return the permutation that puts rows into an order that depends on their content alone.

    Random folds and subsamples drawn after it are the same for a table and for its rows shuffled. Rows are sorted by
    a 64-bit hash of attributes, label and weight; equal rows are interchangeable. Weights of 1 are as none.

    Examples
    --------
    >>> X, s = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0.0, 1.0, 0.0])
    >>> there, back = canonical_order(X, s), canonical_order(X[::-1], s[::-1])
    >>> bool((X[there] == X[::-1][back]).all())
    True
    """
    key = row_keys(X) + _scatter(_bits(s), -1)
    if w is not None:
        key += _keys(_bits(w - 1.0)[:, None], np.array([-2]))
    return np.argsort(key, kind="stable")


def equal_rows(X: Any) -> NDArray[np.intp]:
    """Return a number for each row, the same for rows of equal attributes, whatever order the rows came in.

    Examples
    --------
    >>> equal_rows(np.array([[1.0], [3.0], [1.0], [1.0]])).tolist() in ([0, 1, 0, 0], [1, 0, 1, 1])
    True
    """
    return np.asarray(np.unique(row_keys(X), return_inverse=True)[1], dtype=np.intp)


def fold_of_keys(key: NDArray[np.uint64], salt: int, n_folds: int) -> NDArray[np.intp]:
    """Return a fold for each key, as good as random; another `salt` deals anew.

    Examples
    --------
    >>> fold = fold_of_keys(row_keys(np.arange(3000.0)[:, None]), 1, 3)
    >>> bool((np.bincount(fold) > 900).all())
    True
    """
    mixed = _scatter(key ^ np.uint64(salt), -2)
    return ((mixed >> np.uint64(32)) % np.uint64(n_folds)).astype(np.intp)


def row_keys(X: Any) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row's attributes."""
    if sparse.issparse(X):
        key = _sparse_keys(X)
    elif isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        key = _array_keys(X)
    else:
        key = np.zeros(X.shape[0], dtype=np.uint64)
        for j in range(X.shape[1]):
            key += _keys(_column_bits(X, j)[:, None], np.array([j]))
    return key


def _array_keys(X: NDArray[Any]) -> NDArray[np.uint64]:
    key, columns = np.empty(X.shape[0], dtype=np.uint64), np.arange(X.shape[1])
    for start in range(0, X.shape[0], _BLOCK_ROWS):  # small blocks stay in a core's cache
        rows = slice(start, start + _BLOCK_ROWS)
        key[rows] = _keys(_bits(X[rows]), columns)
    return key


def _keys(bits: NDArray[np.uint64], columns: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return the sum over columns; zeros count for nothing, as in a sparse table."""
    scattered = _scatter(bits, columns)
    scattered *= bits != 0
    return np.asarray(scattered.sum(axis=1, dtype=np.uint64))


def _scatter(bits: NDArray[np.uint64], column: Any) -> NDArray[np.uint64]:
    """Return pseudo-random integers that depend on value and column."""
    salt = np.atleast_1d(np.asarray(column, dtype=np.int64)).astype(np.uint64) * _MIX  # arrays wrap around silently
    mixed = bits ^ salt
    for _ in range(2):
        mixed *= _MIX
        mixed ^= mixed >> _SHIFT
    return mixed


def _bits(values: Any) -> NDArray[np.uint64]:
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0


def _column_bits(X: Any, j: int) -> NDArray[np.uint64]:
    values = np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else X[:, j])
    if values.dtype.kind in "fiub":
        return _bits(values)
    return np.unique(values.astype(str), return_inverse=True)[1].astype(np.uint64)


def _sparse_keys(X: Any) -> NDArray[np.uint64]:
    entries, key = X.tocoo(), np.zeros(X.shape[0], dtype=np.uint64)
    stored = entries.data != 0
    np.add.at(key, entries.row[stored], _scatter(_bits(entries.data[stored]), entries.col[stored]))
    return key
