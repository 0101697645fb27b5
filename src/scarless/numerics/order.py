"""A canonical order of the rows of a table, independent of the given order of rows and columns and of the precision.

Rows are sorted by a hash of their values, rounded to single precision. Each column has a salt that is computed from its
values and not from its position, so the order of columns does not matter. Two columns can have the same values in a
different order, for example binary columns with equally many ones. Such columns are distinguished by the hashes of the
rows in which the values occur, as in Weisfeiler-Lehman refinement. A row of weight 2 counts as two rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Vector

_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(29)
_BLOCK_ROWS = 256  # rows hashed at a time; small blocks stay in a core's cache
_MAX_REFINEMENTS = 3  # Each refinement of the salts reads the table twice.


def canonical_order(X: Any, s: Vector, w: Vector | None = None) -> NDArray[np.intp]:
    """Return the permutation that sorts the rows by their content alone.

    Random folds and subsamples that are drawn in this order are the same for a shuffled table. Rows are sorted by a
    64-bit hash of attributes, label and weight; the order of equal rows does not matter. No weights means weights of 1.

    Examples
    --------
    >>> X, s = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0.0, 1.0, 0.0])
    >>> there, back = canonical_order(X, s), canonical_order(X[::-1], s[::-1])
    >>> bool((X[there] == X[::-1][back]).all())
    True
    """
    key = row_keys(X, table_salts(X, s, w)) + _hash(_bits(s), -1)
    if w is not None:
        key += _hash_rows(_bits(w - 1.0)[:, None], -2)
    return np.lexsort((exact_keys(X), key))


def equal_rows(X: Any, w: Vector | None = None, s: Vector | None = None) -> NDArray[np.intp]:
    """Return a number for each row, the same for rows with equal attributes.

    The numbers do not depend on the order of rows and columns. Labels, if given, help to distinguish columns that have
    the same values.

    Examples
    --------
    >>> equal_rows(np.array([[1.0], [3.0], [1.0], [1.0]])).tolist() in ([0, 1, 0, 0], [1, 0, 1, 1])
    True
    """
    return numbered(row_keys(X, table_salts(X, s, w)), exact_keys(X))


def numbered(key: NDArray[np.uint64], exact: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Number the rows in the order of their keys; rows that are exactly equal get the same number."""
    order = np.lexsort((exact, key))
    new = (np.diff(key[order]) != 0) | (np.diff(exact[order]) != 0)
    number = np.empty(key.size, dtype=np.intp)
    number[order] = np.concatenate([[0], np.cumsum(new)])[: key.size]
    return number


def fold_of_keys(key: NDArray[np.uint64], salt: int, n_folds: int) -> NDArray[np.intp]:
    """Return a pseudo-random fold for each key; another `salt` gives other folds.

    Examples
    --------
    >>> fold = fold_of_keys(exact_keys(np.arange(3000.0)[:, None]), 1, 3)
    >>> bool((np.bincount(fold) > 900).all())
    True
    """
    mixed = _hash(key ^ np.uint64(salt), -2)
    return ((mixed >> np.uint64(32)) % np.uint64(n_folds)).astype(np.intp)


def column_salts(X: Any, w: Vector | None = None) -> NDArray[np.uint64]:
    """Return a hash of the values of each column, independent of its position and of the order of rows.

    The hashes are sums of integers modulo 2**64. The hashes of the parts of a table add up to the hash of the table.
    """
    return _column_sums(X, np.zeros(X.shape[0], dtype=np.uint64), w)


def _column_sums(X: Any, key: NDArray[np.uint64], w: Vector | None) -> NDArray[np.uint64]:
    """Return, for each column, the sum of hashes of its values and the keys of their rows; zeros add nothing."""
    times = np.ones(X.shape[0]) if w is None else np.ceil(w)
    times = np.minimum(times, 2.0**53).astype(np.uint64)
    if sparse.issparse(X):
        entries, salts = X.tocoo(), np.zeros(X.shape[1], dtype=np.uint64)
        stored = entries.data != 0
        row = entries.row[stored]
        np.add.at(salts, entries.col[stored], _hash(_single_bits(entries.data[stored]), key[row]) * times[row])
        return salts
    found = [np.zeros(0, dtype=np.uint64)]
    for bits in _columns(X, _single_bits):
        hashes = _hash(bits, key[:, None]) * (bits != 0)
        found.append((hashes * times[:, None]).sum(axis=0, dtype=np.uint64))
    return np.concatenate(found)


def table_salts(X: Any, s: Vector | None = None, w: Vector | None = None) -> NDArray[np.uint64]:
    """Return the salts of the columns, refined if some of them are equal.

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
    """Return the salts of columns; those that several columns share are refined by hashes of the rows."""
    for _ in range(_MAX_REFINEMENTS):
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
    """Return a hash of each column that depends on the rows in which its values occur.

    `salts` are those of the whole table. The hashes of the parts of a table add up to the hash of the table.
    """
    key = row_keys(X, salts)
    if s is not None:
        key += _hash(_bits(s), -1)
    return _column_sums(X, key, w)


def row_keys(X: Any, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of the attributes of each row in single precision, with the salts of the columns."""
    return _row_sums(X, salts, _single_bits)


def exact_keys(X: Any) -> NDArray[np.uint64]:
    """Return a 64-bit hash of the attributes of each row in full precision and in the order of the columns."""
    return _row_sums(X, np.arange(X.shape[1]).astype(np.uint64), _bits)


def _row_sums(X: Any, salts: NDArray[np.uint64], bits_of: Any) -> NDArray[np.uint64]:
    """Return, for each row, the sum of hashes of its values and the salts of their columns; zeros add nothing."""
    key = np.zeros(X.shape[0], dtype=np.uint64)
    if sparse.issparse(X):
        entries = X.tocoo()
        stored = entries.data != 0
        np.add.at(key, entries.row[stored], _hash(bits_of(entries.data[stored]), salts[entries.col[stored]]))
        return key
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        for start in range(0, X.shape[0], _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            key[rows] = _hash_rows(bits_of(X[rows]), salts)
        return key
    for j, bits in enumerate(_columns(X, bits_of)):
        key += _hash_rows(bits, salts[j : j + 1])
    return key


def _columns(X: Any, bits_of: Any) -> Any:
    """Yield the bits of the values: all columns of a numeric array at once, otherwise one column at a time."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        yield bits_of(X)
        return
    for j in range(X.shape[1]):
        yield _column_bits(X, j, bits_of)[:, None]


def _hash_rows(bits: NDArray[np.uint64], salts: Any) -> NDArray[np.uint64]:
    """Return the sum of the hashes of each row; zeros add nothing, as in a sparse table."""
    hashes = _hash(bits, salts)
    hashes *= bits != 0
    return np.asarray(hashes.sum(axis=1, dtype=np.uint64))


def _hash(bits: NDArray[np.uint64], salt: Any) -> NDArray[np.uint64]:
    """Return a hash of each value and salt."""
    salt = np.atleast_1d(np.asarray(salt))
    # Overflow of the product is intended.
    salt = (salt if salt.dtype == np.uint64 else salt.astype(np.int64).astype(np.uint64)) * _HASH_MULTIPLIER
    mixed = bits ^ salt
    for _ in range(2):
        mixed *= _HASH_MULTIPLIER
        mixed ^= mixed >> _HASH_SHIFT
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
