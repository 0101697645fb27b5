"""One order for the rows of a table, whatever order its rows and columns came in, in single or double precision.

Rows are ordered by a hash of their values, rounded to single precision. Each column has a salt made of its own values,
not of its place, so that the order of columns does not matter. Columns of equal values in another order, as binary ones
with as many ones, are told apart by the rows that these values are in: by the hashes of these rows, as in the
refinement of Weisfeiler and Lehman. A row of weight 2 is as two rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Vector

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_BLOCK_ROWS = 256
_MOST_ROUNDS = 3  # of refinement, each of which reads the table twice


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
    key = row_keys(X, table_salts(X, s, w)) + _scatter(_bits(s), -1)
    if w is not None:
        key += _keys(_bits(w - 1.0)[:, None], -2)
    return np.lexsort((exact_keys(X), key))


def equal_rows(X: Any, w: Vector | None = None, s: Vector | None = None) -> NDArray[np.intp]:
    """Return a number for each row, the same for rows of equal attributes, whatever order rows and columns came in.

    Labels, where they are given, help to tell columns of equal values apart.

    Examples
    --------
    >>> equal_rows(np.array([[1.0], [3.0], [1.0], [1.0]])).tolist() in ([0, 1, 0, 0], [1, 0, 1, 1])
    True
    """
    return numbered(row_keys(X, table_salts(X, s, w)), exact_keys(X))


def numbered(key: NDArray[np.uint64], exact: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return a number for each row, the same for rows that are exactly equal, in the order of their keys."""
    order = np.lexsort((exact, key))
    new = (np.diff(key[order]) != 0) | (np.diff(exact[order]) != 0)
    number = np.empty(key.size, dtype=np.intp)
    number[order] = np.concatenate([[0], np.cumsum(new)])[: key.size]
    return number


def fold_of_keys(key: NDArray[np.uint64], salt: int, n_folds: int) -> NDArray[np.intp]:
    """Return a fold for each key, as good as random; another `salt` deals anew.

    Examples
    --------
    >>> fold = fold_of_keys(exact_keys(np.arange(3000.0)[:, None]), 1, 3)
    >>> bool((np.bincount(fold) > 900).all())
    True
    """
    mixed = _scatter(key ^ np.uint64(salt), -2)
    return ((mixed >> np.uint64(32)) % np.uint64(n_folds)).astype(np.intp)


def column_salts(X: Any, w: Vector | None = None) -> NDArray[np.uint64]:
    """Return a number for each column that depends on its values, and not on its place nor on the order of rows.

    Sums of integers that wrap around: those of parts of a table add up to that of the whole.
    """
    return _column_sums(X, np.zeros(X.shape[0], dtype=np.uint64), w)


def _column_sums(X: Any, key: NDArray[np.uint64], w: Vector | None) -> NDArray[np.uint64]:
    """Return the sum over rows of numbers that depend on a value and the key of its row; zeros count for nothing."""
    times = np.ones(X.shape[0]) if w is None else np.ceil(w)
    times = np.minimum(times, 2.0**53).astype(np.uint64)
    if sparse.issparse(X):
        entries, salts = X.tocoo(), np.zeros(X.shape[1], dtype=np.uint64)
        stored = entries.data != 0
        row = entries.row[stored]
        np.add.at(salts, entries.col[stored], _scatter(_single_bits(entries.data[stored]), key[row]) * times[row])
        return salts
    found = [np.zeros(0, dtype=np.uint64)]
    for bits in _columns(X, _single_bits):
        scattered = _scatter(bits, key[:, None]) * (bits != 0)
        found.append((scattered * times[:, None]).sum(axis=0, dtype=np.uint64))
    return np.concatenate(found)


def table_salts(X: Any, s: Vector | None = None, w: Vector | None = None) -> NDArray[np.uint64]:
    """Return the salts of columns, refined where some have equal ones.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 6.0], [0.0, 0.0, 7.0]])
    >>> [np.unique(each).size for each in (column_salts(X), table_salts(X))]
    [2, 3]
    """
    return refined_salts(column_salts(X, w), lambda salts: salts_by_rows(X, salts, s, w))


def refined_salts(
    salts: NDArray[np.uint64], by_rows: Callable[[NDArray[np.uint64]], NDArray[np.uint64]]
) -> NDArray[np.uint64]:
    """Return salts that differ wherever the rows tell columns apart; those that differ already stay as they are."""
    for _ in range(_MOST_ROUNDS):
        known, place, times = np.unique(salts, return_inverse=True, return_counts=True)
        if known.size == salts.size:
            break
        refined = np.where(times[place] > 1, salts + by_rows(salts), salts)
        if np.unique(refined).size == known.size:
            break
        salts = refined
    return salts


def salts_by_rows(
    X: Any, salts: NDArray[np.uint64], s: Vector | None = None, w: Vector | None = None
) -> NDArray[np.uint64]:
    """Return a number for each column that depends on which rows its values are in, by the hashes of these rows.

    `salts` are those of the whole table. Sums of parts add up, as those of `column_salts`.
    """
    key = row_keys(X, salts)
    if s is not None:
        key += _scatter(_bits(s), -1)
    return _column_sums(X, key, w)


def row_keys(X: Any, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row's attributes in single precision; `salts` are those of the columns."""
    return _row_sums(X, salts, _single_bits)


def exact_keys(X: Any) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row's attributes as they are, in the order of columns."""
    return _row_sums(X, np.arange(X.shape[1]).astype(np.uint64), _bits)


def _row_sums(X: Any, salts: NDArray[np.uint64], bits_of: Any) -> NDArray[np.uint64]:
    """Return the sum over columns of numbers that depend on value and salt; zeros count for nothing."""
    key = np.zeros(X.shape[0], dtype=np.uint64)
    if sparse.issparse(X):
        entries = X.tocoo()
        stored = entries.data != 0
        np.add.at(key, entries.row[stored], _scatter(bits_of(entries.data[stored]), salts[entries.col[stored]]))
        return key
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        for start in range(0, X.shape[0], _BLOCK_ROWS):  # small blocks stay in a core's cache
            rows = slice(start, start + _BLOCK_ROWS)
            key[rows] = _keys(bits_of(X[rows]), salts)
        return key
    for j, bits in enumerate(_columns(X, bits_of)):
        key += _keys(bits, salts[j : j + 1])
    return key


def _columns(X: Any, bits_of: Any) -> Any:
    """Yield the values of columns as bits: all at once of an array of numbers, else one column after the other."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        yield bits_of(X)
        return
    for j in range(X.shape[1]):
        yield _column_bits(X, j, bits_of)[:, None]


def _keys(bits: NDArray[np.uint64], salts: Any) -> NDArray[np.uint64]:
    """Return the sum over columns; zeros count for nothing, as in a sparse table."""
    scattered = _scatter(bits, salts)
    scattered *= bits != 0
    return np.asarray(scattered.sum(axis=1, dtype=np.uint64))


def _scatter(bits: NDArray[np.uint64], salt: Any) -> NDArray[np.uint64]:
    """Return pseudo-random integers that depend on value and salt."""
    salt = np.atleast_1d(np.asarray(salt))
    salt = (salt if salt.dtype == np.uint64 else salt.astype(np.int64).astype(np.uint64)) * _MIX  # wraps silently
    mixed = bits ^ salt
    for _ in range(2):
        mixed *= _MIX
        mixed ^= mixed >> _SHIFT
    return mixed


def _bits(values: Any) -> NDArray[np.uint64]:
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0


def _single_bits(values: Any) -> NDArray[np.uint64]:
    with np.errstate(over="ignore", under="ignore"):
        return _bits(np.asarray(values).astype(np.float32))


def _column_bits(X: Any, j: int, bits_of: Any) -> NDArray[np.uint64]:
    values = np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else X[:, j])
    if values.dtype.kind in "fiub":
        return np.asarray(bits_of(values))
    return np.unique(values.astype(str), return_inverse=True)[1].astype(np.uint64)
