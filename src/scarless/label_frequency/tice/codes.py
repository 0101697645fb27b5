"""Attributes cut into ranges of equal width, as a sparse matrix of which row lies in which range.

Per attribute one range, the *default*, has no column: a row without an entry for the attribute lies there. For a dense
table that is a full range, for a CSR table the one that holds 0, so that a text table is never made dense.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Integers, Vector

Codes = NDArray[np.uint8]

MOST_RANGES = 256  # a code is one byte
_BLOCK_ROWS = 512  # few enough for the processor's cache


@dataclass(frozen=True)
class RangeTable:
    """Rows and the ranges they lie in; columns are ordered by attribute, then by code."""

    present: sparse.csr_matrix  # rows x columns: 1 where the row lies in the column's range
    attribute: Integers  # per column
    code: Integers  # per column: which range of the attribute
    default: Codes  # per attribute: code of the range without a column
    low: Vector  # per attribute
    step: Vector  # per attribute: width of its ranges

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, present=self.present[rows])

    @cached_property
    def codes(self) -> Callable[[int], Codes]:
        """A function of an attribute: the range of every row, found once."""
        columns = self.present.tocsc()

        def codes_of(attribute: int) -> Codes:
            codes = np.full(self.present.shape[0], self.default[attribute])
            start, end = np.searchsorted(self.attribute, [attribute, attribute + 1])
            edges = columns.indptr[start : end + 1]
            codes[columns.indices[edges[0] : edges[-1]]] = np.repeat(self.code[start:end], np.diff(edges))
            return codes

        return cache(codes_of)


def cut_into_ranges(X: Any, n_ranges: int) -> RangeTable:
    r"""Cut every attribute into `n_ranges` ranges of equal width between its smallest and its largest value.

    .. math:: \text{code} = \#\Bigl\{k < K : x - \min \ge \frac{k}{K} (\max - \min) \Bigr\}

    with `k` from 1: each range is closed below, and the last one above, too. Computed in float64 from differences, so
    that an exact change of unit and origin changes no code. A constant attribute gets no column.

    Examples
    --------
    >>> cut_into_ranges(np.array([[0.0, 7.0], [1.0, 7.0], [3.9, 7.0], [0.5, 7.0], [4.0, 7.0]]), 4).codes(0)
    array([0, 1, 3, 0, 3], dtype=uint8)
    """
    is_sparse = sparse.issparse(X)
    low, high = (np.ravel(x.toarray() if is_sparse else x).astype(float) for x in (X.min(axis=0), X.max(axis=0)))
    span = np.where(high > low, high - low, np.inf)  # a constant attribute is never cut
    cuts = [k * span / n_ranges for k in range(1, n_ranges)]
    row, attribute, code, default = (_cut_sparse if is_sparse else _cut_dense)(X, low, cuts)
    key = attribute.astype(np.intp) * n_ranges + code
    has_rows = np.zeros(low.size * n_ranges, dtype=np.bool_)
    has_rows[key] = True
    column = np.cumsum(has_rows) - 1
    ones, shape = np.ones(key.size, dtype=np.int8), (X.shape[0], np.count_nonzero(has_rows))
    present = sparse.csr_matrix((ones, (row, column[key])), shape=shape)
    return RangeTable(present, *np.divmod(np.flatnonzero(has_rows), n_ranges), default, low, span / n_ranges)


def _codes(values: Any, low: Any, cuts: Iterable[Any]) -> Codes:
    """Return how many cuts lie at or below each value; `cuts` are measured from `low`."""
    height = np.subtract(values, low, dtype=np.float64)
    codes = np.zeros(height.shape, dtype=np.uint8)
    for cut in cuts:
        codes += (height >= cut).view(np.uint8)
    return codes


def _cut_dense(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Integers, Integers, Codes, Codes]:
    """Return row, attribute and code of every value outside the default, the fullest range in the first rows."""
    codes = np.concatenate([_codes(X[i : i + _BLOCK_ROWS], low, cuts) for i in range(0, X.shape[0], _BLOCK_ROWS)])
    default = np.array([np.bincount(column).argmax() for column in codes[:_BLOCK_ROWS].T], dtype=np.uint8)
    row, attribute = np.divmod(np.flatnonzero(codes != default), X.shape[1])
    return row, attribute, codes[row, attribute], default


def _cut_sparse(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Integers, Integers, Codes, Codes]:
    """Cut the stored entries; all others are 0. Where none is, 0 may be out of range, and any default will do."""
    entries = X.tocoo()
    if not X.has_canonical_format:
        entries.sum_duplicates()
    attribute, default = entries.col, _codes(0.0, low, cuts)
    codes = _codes(entries.data, low[attribute], (cut[attribute] for cut in cuts))
    kept = codes != default[attribute]
    return entries.row[kept], attribute[kept], codes[kept], default
