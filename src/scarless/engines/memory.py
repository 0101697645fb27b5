"""Rows in memory (or memory-mapped), blocks walked by threads."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from scarless.engines.base import Rows, Sums
from scarless.engines.blas import BLAS
from scarless.engines.units import Reading, Units
from scarless.numerics.arrays import Vector

# A block of this many numbers stays in a core's cache together with its scaled copy.
_BLOCK_NUMBERS = 131_072
# Blocks are added up in this many runs, whatever the number of threads: the sums are the same on any machine.
_LANES = 16


class InMemoryEngine:
    """Walks blocks of rows with a few threads, each BLAS call on one thread.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns), float32 or float64
        Never copied; a memory map stays on disk but for the blocks in work.
    rows : dict of arrays
        Values per row that block functions need: labels, weights, targets.
    block_rows : int, optional
        Rows per block; by default what fits a core's cache.
    n_threads : int, optional
        By default as many as BLAS may use at this moment, so limits set by the caller are kept.
    reading : Reading, optional
        In which precision the blocks are read, and the columns' units; by default as they are.

    Examples
    --------
    >>> engine = InMemoryEngine(np.eye(3), {"w": np.array([1.0, 2.0, 3.0])}, block_rows=2)
    >>> engine.total(lambda X, rows: (rows["w"] @ X,))
    (array([1., 2., 3.]),)
    """

    def __init__(
        self,
        X: Any,
        rows: Rows,
        *,
        block_rows: int | None = None,
        n_threads: int | None = None,
        reading: Reading | None = None,
    ) -> None:
        self.X, self.rows = X, rows
        self.block_rows = block_rows or _default_block_rows(X)
        self.n_threads = n_threads or BLAS.threads()
        self.reading = reading or Reading(np.dtype(X.dtype), None)
        self._converted: Units | None = None  # what every block is brought to
        self._sparse_blocks: dict[int, Any] = {}  # by their first row

    @property
    def n_rows(self) -> int:
        """Number of rows held."""
        return int(self.X.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the blocks."""
        return self.reading.dtype

    @property
    def units(self) -> Units | None:
        """How a solver should see the columns; None where they are fit for products as they are."""
        return self.reading.units

    def in_units(self) -> "InMemoryEngine":
        """Return an engine over the same rows whose columns are in these units."""
        engine = self.with_rows(**self.rows)
        engine.reading, engine._converted = self.reading._replace(units=None), self.units
        return engine

    def with_rows(self, **columns: Vector) -> "InMemoryEngine":
        """Return an engine over the same X with other values per row."""
        engine = InMemoryEngine(
            self.X, columns, block_rows=self.block_rows, n_threads=self.n_threads, reading=self.reading
        )
        engine._converted, engine._sparse_blocks = self._converted, self._sparse_blocks
        return engine

    def every(self, step: int, first: int = 0) -> "InMemoryEngine":
        """Return an engine over every `step`-th row from the `first` on, with the values of these rows."""
        rows = {name: values[first::step] for name, values in self.rows.items()}
        engine = InMemoryEngine(self.X[first::step], rows, n_threads=self.n_threads, reading=self.reading)
        engine._converted = self._converted
        return engine

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field."""

        def lane_sum(blocks: list[slice]) -> Sums:
            parts = (block_function(*self._block(block), *parameters) for block in blocks)
            return _add_up(parts)

        return _add_up(self._map(lane_sum, self._lanes()))

    def collect(self, row_function: Callable[..., Vector], *parameters: Any) -> Vector:
        """Return ``row_function(X, rows, *parameters)`` of every block, joined in row order."""

        def lane_values(blocks: list[slice]) -> Vector:
            return np.concatenate([row_function(*self._block(block), *parameters) for block in blocks])

        return np.concatenate(list(self._map(lane_values, self._lanes())))

    def _block(self, block: slice) -> tuple[Any, Rows]:
        X = self._sparse_rows(block) if sparse.issparse(self.X) else self.X[block]
        if X.dtype != self.dtype:
            X = X.astype(self.dtype)
        if self._converted is not None:
            X = _in_units(X, self._converted)
        return X, {name: values[block] for name, values in self.rows.items()}

    def _sparse_rows(self, block: slice) -> Any:
        """Return a run of rows that shares the table's entries, and keeps what few columns are taken of it."""
        if (rows := self._sparse_blocks.get(block.start)) is None:
            rows = _rows_of(self.X, block)
            rows.taken = {}
            self._sparse_blocks[block.start] = rows
        return rows

    def _lanes(self) -> list[list[slice]]:
        """Return the blocks in runs of neighbours; depends on the number of rows only."""
        if self.n_rows <= self.block_rows:
            return [[slice(0, self.block_rows)]]
        starts = range(0, self.n_rows, self.block_rows)
        blocks = [slice(start, start + self.block_rows) for start in starts]
        cuts = np.unique(np.linspace(0, len(blocks), _LANES + 1).round().astype(int))
        return [blocks[a:b] for a, b in pairwise(cuts)]

    def _map(self, function: Callable[[list[slice]], Any], lanes: list[list[slice]]) -> Iterator[Any]:
        with BLAS.on_one_thread():
            if self.n_threads == 1 or len(lanes) == 1:
                yield from map(function, lanes)
                return
            with ThreadPoolExecutor(self.n_threads) as pool:
                yield from pool.map(function, lanes)


def _rows_of(X: Any, block: slice) -> Any:
    """Return a run of rows of a CSR matrix that shares its entries; its own slices are copies."""
    stop = min(block.stop, X.shape[0])
    entries = slice(X.indptr[block.start], X.indptr[stop])
    rows = sparse.csr_array((stop - block.start, X.shape[1]), dtype=X.dtype)
    # Set one by one: the constructor copies what is a small part of a larger array.
    rows.data, rows.indices = X.data[entries], X.indices[entries]
    rows.indptr = X.indptr[block.start : stop + 1] - X.indptr[block.start]
    return rows


def _in_units(X: Any, units: Units) -> Any:
    if not sparse.issparse(X):
        return (X - units.shift) * units.scale
    X = X.copy()
    X.data *= units.scale[X.indices]
    return X


def _add_up(parts: Any) -> Any:
    """Add tuples of arrays field by field, in order, in float64."""
    iterator = iter(parts)
    first = next(iterator)
    sums = [np.array(field, dtype=np.float64) for field in first]
    for part in iterator:
        for total, field in zip(sums, part, strict=True):
            np.add(total, field, out=total)
    return type(first)(*sums) if hasattr(first, "_fields") else tuple(sums)


def _default_block_rows(X: Any) -> int:
    """Return how many rows make a block: few enough to stay in cache, or, if sparse, many enough to pay."""
    if sparse.issparse(X):
        return int(max(1024, 4 * _BLOCK_NUMBERS // max(1, X.nnz // max(1, X.shape[0]))))
    return int(np.clip(_BLOCK_NUMBERS // max(1, X.shape[1]), 256, 8192))
