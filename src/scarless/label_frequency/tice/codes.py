"""Attributes cut into ranges of equal width, as a sparse matrix of which row lies in which range.

Dense and CSR tables alike. Per attribute one range, the *default*, has no column of its own: a row without an entry
for the attribute lies there. For a dense table that is the fullest range, for a CSR table the one that holds 0, so
that neither grows and a text table is never made dense.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Vector

Integers = NDArray[np.intp]

MOST_RANGES = 256  # a code is one byte
_BLOCK_ROWS = 512


@dataclass(frozen=True)
class RangeTable:
    """Rows and the ranges they lie in.

    Attributes that vary are *ranked* by falling width, the number of ranges beside the default one. Columns are
    ordered by their place within the attribute, then by rank: the first ranges of all attributes, then the second
    ones of those that have two, and so on. Sums and maxima over the ranges of all attributes are then those of a few
    slices.
    """

    present: sparse.csr_matrix  # rows x columns: 1 where the row lies in the column's range
    code: Integers  # per column: which range
    attribute: Integers  # per rank: which column of the table
    width: Integers  # per rank
    default: Integers  # per rank: code of the range without a column
    low: Vector  # per attribute of the table
    step: Vector  # per attribute of the table: width of its ranges

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.present.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of ranges that are not the default one of their attribute."""
        return int(self.present.shape[1])

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, present=self.present[rows])

    def limits(self, rank: int, code: int) -> tuple[int, float, float]:
        """Return column in the table, lower and upper limit of a range."""
        j = int(self.attribute[rank])
        return j, float(self.low[j] + code * self.step[j]), float(self.low[j] + (code + 1) * self.step[j])


def cut_into_ranges(X: Any, n_ranges: int) -> RangeTable:
    r"""Cut every attribute into `n_ranges` ranges of equal width between its smallest and its largest value.

    .. math:: \text{code} = \#\Bigl\{k < K : x - \min \ge \frac{k}{K} (\max - \min) \Bigr\}

    with `k` from 1: each range is closed below, and the last one above, too. Computed in float64 from differences, so
    that a change of unit and origin that is exact in floating point changes no code. Constant attributes are left out.

    Examples
    --------
    >>> table = cut_into_ranges(np.array([[0.0, 7.0], [1.0, 7.0], [3.9, 7.0], [0.5, 7.0], [4.0, 7.0]]), 4)
    >>> table.attribute, table.default, table.code  # column 1 is constant; most rows lie in the first quarter
    (array([0]), array([0]), array([1, 3]))
    >>> table.present.toarray()
    array([[0, 0],
           [1, 0],
           [0, 1],
           [0, 0],
           [0, 1]], dtype=int8)
    """
    low, span = _limits(X)
    cut = _cut_sparse if sparse.issparse(X) else _cut_dense
    present, attribute, code, default = cut(X, low, [k * span / n_ranges for k in range(1, n_ranges)])
    varying, first, width = np.unique(attribute, return_index=True, return_counts=True)
    by_width = np.argsort(-width, kind="stable")
    rank = np.empty_like(by_width)
    rank[by_width] = np.arange(by_width.size)
    place = np.arange(attribute.size) - np.repeat(first, width)
    order = np.lexsort((np.repeat(rank, width), place))
    return RangeTable(
        present=present[:, order].tocsr(),
        code=code[order],
        attribute=varying[by_width],
        width=width[by_width],
        default=default[varying[by_width]],
        low=low,
        step=span / n_ranges,
    )


def _limits(X: Any) -> tuple[Vector, Vector]:
    """Return smallest value and extent of every column; infinity for a constant one, which is then never cut."""
    if sparse.issparse(X):
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    else:
        low, high = np.array(X[0]), np.array(X[0])
        for start in range(0, X.shape[0], _BLOCK_ROWS):
            block = X[start : start + _BLOCK_ROWS]
            np.minimum(low, block.min(axis=0), out=low)
            np.maximum(high, block.max(axis=0), out=high)
    low, high = low.astype(np.float64), high.astype(np.float64)
    return low, np.where(high > low, high - low, np.inf)


def _codes(values: Any, low: Any, cuts: Iterable[Any]) -> NDArray[np.uint8]:
    """Return how many cuts lie at or below each value; `cuts` are measured from `low`."""
    height = np.subtract(values, low, dtype=np.float64)
    codes = np.zeros(height.shape, dtype=np.uint8)
    for cut in cuts:
        codes += (height >= cut).view(np.uint8)
    return codes


def _cut_dense(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Any, Integers, Integers, Integers]:
    n, d = X.shape
    codes = np.empty((d, n), dtype=np.uint8)
    for start in range(0, n, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        codes[:, rows] = _codes(X[rows], low, cuts).T
    default = np.zeros(d, dtype=np.intp)
    attribute, code, members = [], [], [np.empty(0, dtype=np.intp)]
    for j in range(d):
        ranges = _ranges_of(codes[j], len(cuts) + 1)
        default[j] = max(ranges, key=lambda k: np.count_nonzero(ranges[k]))
        for k in sorted(ranges.keys() - {default[j]}):
            attribute.append(j)
            code.append(k)
            members.append(np.flatnonzero(ranges[k]))
    indptr = np.cumsum([rows.size for rows in members])
    indices = np.concatenate(members).astype(np.int32)
    ones = np.ones(indices.size, dtype=np.int8)
    present = sparse.csc_matrix((ones, indices, indptr), shape=(n, len(code)))
    return present, np.array(attribute, dtype=np.intp), np.array(code, dtype=np.intp), default


def _ranges_of(codes: NDArray[np.uint8], n_ranges: int) -> dict[int, NDArray[np.bool_]]:
    """Return the rows of every range that holds any; the outer ones first, since many attributes have no others."""
    found: dict[int, NDArray[np.bool_]] = {}
    left = codes.size
    for k in (0, n_ranges - 1, *range(1, n_ranges - 1)):
        if not left:
            break
        mask = codes == k
        n = int(np.count_nonzero(mask))
        if n:
            found[k] = mask
            left -= n
    return found


def _cut_sparse(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Any, Integers, Integers, Integers]:
    """Cut the stored entries; all others are 0, which lies in one range per column.

    Where a column stores every row, 0 may lie outside its ranges; the nearest one will do for a default.
    """
    n_ranges = len(cuts) + 1
    default = _codes(0.0, low, cuts).astype(np.intp)
    entries = X.tocoo()
    if not X.has_canonical_format:
        entries.sum_duplicates()
    column = entries.col
    codes = _codes(entries.data, low[column], (cut[column] for cut in cuts))
    kept = codes != default[column]
    found, place = np.unique(column[kept].astype(np.intp) * n_ranges + codes[kept], return_inverse=True)
    ones = np.ones(place.size, dtype=np.int8)
    present = sparse.coo_matrix((ones, (entries.row[kept], place)), shape=(X.shape[0], found.size)).tocsc()
    attribute, code = np.divmod(found, n_ranges)
    return present, attribute, code, default
