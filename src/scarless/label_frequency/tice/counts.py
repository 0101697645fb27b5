"""How many rows of a subset lie in each range, and which: the two questions that a tree asks of a table."""

import numpy as np
from numpy.typing import NDArray

from scarless.label_frequency.tice.bits import RowBits, Words
from scarless.label_frequency.tice.codes import Integers, RangeTable

_CHUNK = 8  # ranges of a row that are fetched together


class RangeCounts:
    """Counts rows of subsets by range and label, in the fold of each subset.

    The ranges of a row, as many as it has outside the default ones, are kept in chunks of fixed length, so that
    fetching many rows is one copy of whole chunks.
    """

    def __init__(self, table: RangeTable, labelled: NDArray[np.bool_], layout: RowBits) -> None:
        lengths = np.diff(table.present.indptr)
        n_chunks = -(-lengths // _CHUNK)
        first = np.cumsum(n_chunks) - n_chunks
        padded = np.full(int(n_chunks.sum()) * _CHUNK, table.n_columns, dtype=np.int32)
        shift = np.repeat(first * _CHUNK - table.present.indptr[:-1], lengths)
        padded[np.arange(shift.size) + shift] = table.present.indices
        self._chunks = padded.reshape(-1, _CHUNK)
        self._first, self._n_chunks = first[layout.row], n_chunks[layout.row]
        self._width = table.n_columns + 1  # the last one counts the padding
        self._label_shift = np.where(labelled[layout.row], self._width, 0).astype(np.int32)
        self._layout = layout

    def count(self, bits: Words, folds: Integers, sizes: Integers) -> Integers:
        """Return unlabelled and labelled rows: subsets x 2 x columns. `sizes` are the rows of each in its fold."""
        at = self._layout.positions(bits, folds, sizes)
        n_chunks = self._n_chunks[at]
        chunk = np.repeat(self._first[at] - np.cumsum(n_chunks) + n_chunks, n_chunks)
        chunk += np.arange(chunk.size)
        of_subset = np.arange(0, 2 * self._width * folds.size, 2 * self._width, dtype=np.int32)
        shift = np.repeat(of_subset, sizes) + self._label_shift[at]
        key = self._chunks.take(chunk, axis=0)
        key += np.repeat(shift, n_chunks)[:, None]
        counts = np.bincount(key.ravel(), minlength=2 * self._width * folds.size)
        return counts.reshape(folds.size, 2, self._width)[:, :, :-1]


class RangeBits:
    """The rows of every range as bits, made when first asked for."""

    def __init__(self, table: RangeTable, layout: RowBits) -> None:
        self._rows = table.present.tocsc()
        self._layout = layout
        self._slot = np.full(table.n_columns, -1, dtype=np.intp)
        self._bits = np.empty((0, layout.n_words), dtype=np.uint64)

    def of(self, columns: Integers) -> Words:
        """Return the bits of columns, one row each, in a new array."""
        missing = columns[self._slot[columns] < 0]
        if missing.size:
            missing = np.unique(missing)
            found = [self._layout.bits(self._rows_of(column)) for column in missing]
            self._slot[missing] = len(self._bits) + np.arange(missing.size)
            self._bits = np.concatenate([self._bits, found])
        return self._bits.take(self._slot[columns], axis=0)

    def _rows_of(self, column: int) -> Integers:
        start, end = self._rows.indptr[column : column + 2]
        return np.asarray(self._rows.indices[start:end])
