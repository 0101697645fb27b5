"""One order for the rows of a table, whatever order they came in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def canonical_order(X: Any, s: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the permutation that puts rows into an order that depends on their content alone.

    Random folds and subsamples drawn after it are the same for a table and for its rows shuffled. Rows are sorted by
    a 64-bit hash of attributes and label; equal rows are interchangeable.

    Examples
    --------
    >>> X, s = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0.0, 1.0, 0.0])
    >>> there, back = canonical_order(X, s), canonical_order(X[::-1], s[::-1])
    >>> bool((X[there] == X[::-1][back]).all())
    True
    """
    key = np.zeros(s.size, dtype=np.uint64)
    if sparse.issparse(X):
        _add_sparse(key, X)
    else:
        for j in range(X.shape[1]):
            bits = _column_bits(X, j)
            key += np.where(bits == 0, np.uint64(0), _scatter(bits, j))  # zeros count for nothing, as in a sparse table
    key += _scatter(_bits(s), -1)
    return np.argsort(key, kind="stable")


def _scatter(bits: NDArray[np.uint64], column: Any) -> NDArray[np.uint64]:
    """Return pseudo-random integers that depend on value and column."""
    salt = np.atleast_1d(np.asarray(column, dtype=np.int64)).astype(np.uint64) * _MIX  # arrays wrap around silently
    mixed = (bits ^ salt) * _MIX
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MIX
    return mixed ^ (mixed >> _SHIFT)


def _bits(values: Any) -> NDArray[np.uint64]:
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0


def _column_bits(X: Any, j: int) -> NDArray[np.uint64]:
    values = np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else X[:, j])
    if values.dtype.kind in "fiub":
        return _bits(values)
    return np.unique(values.astype(str), return_inverse=True)[1].astype(np.uint64)


def _add_sparse(key: NDArray[np.uint64], X: Any) -> None:
    entries = X.tocoo()
    stored = entries.data != 0
    np.add.at(key, entries.row[stored], _scatter(_bits(entries.data[stored]), entries.col[stored]))
