"""Rows in memory (or memory-mapped), blocks walked by threads."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.engines.base import Rows, Sums, open_rows
from scarless.engines.blas import BLAS
from scarless.engines.blocks import Preparation, Reading, Units, add_up
from scarless.numerics.newton import WIDEST_MATRIX

# A block of this many numbers is still near a core's cache; smaller ones have threads wait for the interpreter's lock.
_BLOCK_NUMBERS, _BLOCK_ROWS = 393_216, 16_384
# A part of so few numbers (8 MB) is copied: rows far from each other make a pass take 1.3 to 1.8 times as long.
_COPIED_NUMBERS = 1 << 20
# Blocks are added up in this many runs, whatever the number of threads: the sums are the same on any machine.
_LANES = 16


class InMemoryEngine:
    """Walks blocks of rows with a few threads, each BLAS call on one thread.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
        Never copied, but for small parts; a memory map stays on disk but for the blocks in work.
    rows : dict of arrays
        Values per row that block functions need: labels, weights, targets.
    block_rows : int, optional
        Rows per block; by default what fits a core's cache.
    n_threads : int, optional
        By default as many as BLAS may use at this moment, so limits set by the caller are kept.
    reading : Reading, optional
        In which precision the blocks are read, and the columns' units; by default as they are.
    first, step : int
        Which rows of a larger table these are.

    Examples
    --------
    >>> engine = InMemoryEngine(np.eye(3), {"w": np.array([1.0, 2.0, 3.0])}, block_rows=2)
    >>> engine.total(lambda X, rows: (rows["w"] @ X,))
    (array([1., 2., 3.]),)
    >>> doubled = engine.derive(lambda X, rows: {"w": 2.0 * rows["w"]})
    >>> doubled.collect(lambda X, rows: rows["w"])
    array([2., 4., 6.])
    """

    names: list[str] | None = None  # checks turn data frames into arrays before, and keep the names themselves

    def __init__(
        self,
        X: Any,
        rows: dict[str, NDArray[Any]],
        *,
        block_rows: int | None = None,
        n_threads: int | None = None,
        reading: Reading | None = None,
        first: int = 0,
        step: int = 1,
    ) -> None:
        self.X, self.rows = X, rows
        self.block_rows = block_rows or _default_block_rows(X)
        self.n_threads = n_threads or BLAS.threads()
        self.preparation = Preparation(reading or Reading(np.dtype(X.dtype), None))
        self._first, self._step = first, step
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
        return self.preparation.reading.dtype

    @property
    def units(self) -> Units | None:
        """How a solver should see the columns; None where they are fit for products as they are."""
        return self.preparation.reading.units

    def read_as(self, reading: Reading) -> "InMemoryEngine":
        """Return an engine over the same rows that reads its blocks in some precision, and knows the columns' units."""
        return self._but(preparation=self.preparation.read_as(reading))

    def in_units(self) -> "InMemoryEngine":
        """Return an engine over the same rows whose columns are in their units."""
        return self._but(preparation=self.preparation.in_units())

    def derive(
        self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False
    ) -> "InMemoryEngine":
        """Return an engine whose blocks also have the values of ``row_function(X, rows, *parameters)``, by name.

        `keep`: all derived values are computed now, once.
        """
        engine = self._but(preparation=self.preparation.and_derive(row_function, parameters))
        return engine._kept() if keep else engine

    def every(self, step: int, first: int = 0) -> "InMemoryEngine":
        """Return an engine over every `step`-th row from the `first` on, with the values of these rows."""
        rows = {name: values[first::step] for name, values in self.rows.items()}
        X = self.X[first::step]
        if not sparse.issparse(X) and X.size <= _COPIED_NUMBERS:
            X, rows = np.ascontiguousarray(X), {name: np.ascontiguousarray(values) for name, values in rows.items()}
        where = {"_first": self._first + first * self._step, "_step": self._step * step}
        return self._but(X=X, rows=rows, block_rows=_default_block_rows(X), _sparse_blocks={}, **where)

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field."""
        if self.n_rows <= self.block_rows:
            with BLAS.on_one_thread():
                found = block_function(*self._block(slice(0, self.n_rows)), *parameters)
            return add_up((found,))

        def lane_sum(blocks: list[slice]) -> Sums:
            return add_up(block_function(*self._block(block), *parameters) for block in blocks)

        sums = list(self._map(lane_sum, self._lanes()))
        return sums[0] if len(sums) == 1 else add_up(sums)

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Return ``row_function(X, rows, *parameters)`` of every block, joined in row order."""

        def lane_values(blocks: list[slice]) -> Any:
            values = (row_function(*self._block(block), *parameters) for block in blocks)
            if into is None:
                return np.concatenate(list(values))
            for block, value in zip(blocks, values, strict=True):
                into[block] = value
            return None

        lanes = list(self._map(lane_values, self._lanes()))
        return np.concatenate(lanes) if into is None else into

    def _but(self, **changes: Any) -> "InMemoryEngine":
        """Return an engine over the same table, with some of its parts changed."""
        engine = object.__new__(InMemoryEngine)
        vars(engine).update({**vars(self), **changes})
        return engine

    def _kept(self) -> "InMemoryEngine":
        """Return an engine whose derived values are computed, and stay."""

        def lane_values(blocks: list[slice]) -> list[dict[str, Any]]:
            return [self._derived(block) for block in blocks]

        found = [values for lane in self._map(lane_values, self._lanes()) for values in lane]
        kept = {name: np.concatenate([values[name] for values in found]) for name in found[0]}
        preparation = Preparation(self.preparation.reading, self.preparation.converted)
        return self._but(rows={**self.rows, **kept}, preparation=preparation)

    def _derived(self, block: slice) -> dict[str, Any]:
        given = self._rows(block)
        before = dict(given)
        _, rows = self.preparation(self._table(block), given)
        return {name: values for name, values in rows.items() if values is not before.get(name)}

    def _block(self, block: slice) -> tuple[Any, Rows]:
        return self.preparation(self._table(block), self._rows(block))

    def _table(self, block: slice) -> Any:
        return self._sparse_rows(block) if sparse.issparse(self.X) else self.X[block]

    def _rows(self, block: slice) -> Rows:
        stop = min(block.stop, self.n_rows)
        where = slice(self._first + block.start * self._step, self._first + stop * self._step, self._step)
        return Rows({name: values[block] for name, values in self.rows.items()}, where)

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

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the rows, not what was cut out of them."""
        return {**vars(self), "_sparse_blocks": {}}


def _open_in_memory(X: Any, y: Any = None, sample_weight: Any = None) -> InMemoryEngine:
    """Open a table in memory; data frames are turned into arrays by the checks before."""
    given = {"y": y, "w": sample_weight}
    rows = {name: np.asarray(values) for name, values in given.items() if values is not None}
    return InMemoryEngine(sparse.csr_array(X) if sparse.issparse(X) else X, rows)


_open_in_memory.in_memory = True  # type: ignore[attr-defined]
for _type in (np.ndarray, sparse.sparray, sparse.spmatrix):
    open_rows.register(_type, _open_in_memory)


def _rows_of(X: Any, block: slice) -> Any:
    """Return a run of rows of a CSR matrix that shares its entries; its own slices are copies."""
    stop = min(block.stop, X.shape[0])
    entries = slice(X.indptr[block.start], X.indptr[stop])
    rows = sparse.csr_array((stop - block.start, X.shape[1]), dtype=X.dtype)
    # Set one by one: the constructor copies what is a small part of a larger array.
    rows.data, rows.indices = X.data[entries], X.indices[entries]
    rows.indptr = X.indptr[block.start : stop + 1] - X.indptr[block.start]
    return rows


def _default_block_rows(X: Any) -> int:
    """Return how many rows make a block: few enough to stay in cache, many enough to pay; blocks are of one size.

    A block has at least as many rows as columns, where matrices over these are summed: they are no larger than blocks.
    """
    if sparse.issparse(X):
        return int(max(1024, 2 * _BLOCK_NUMBERS // max(1, X.nnz // max(1, X.shape[0]))))
    n_rows, fewest = X.shape[0], max(256, X.shape[1]) if X.shape[1] <= WIDEST_MATRIX else 256
    most = int(np.clip(_BLOCK_NUMBERS // max(1, X.shape[1]), fewest, _BLOCK_ROWS))
    if n_rows <= most:
        return most
    n_blocks = 4 * -(-n_rows // (4 * most))  # for two or four threads alike
    return -(-n_rows // n_blocks)
