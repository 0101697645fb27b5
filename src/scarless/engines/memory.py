"""Engine for rows in memory or in memory maps; threads process the blocks."""

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
from scarless.numerics.newton import MAX_MATRIX_PARAMETERS

# Largest numbers of values and rows in a block. A block of this size is slightly larger than a core's cache. With
# smaller blocks, threads wait for Python's global interpreter lock.
_BLOCK_NUMBERS, _BLOCK_ROWS = 393_216, 16_384
# Samples of rows up to this size (8 MB) are copied, because a pass over rows that are far apart in memory takes 1.3 to
# 1.8 times as long as a pass over the copy.
_MAX_COPIED_NUMBERS = 1 << 20
# Blocks are added up in this number of groups, whatever the number of threads. The number of threads therefore does not
# change the sums.
_N_LANES = 16


class InMemoryEngine:
    """Engine over blocks of rows in memory. Several threads process the blocks, and each BLAS call uses one thread.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
        Attributes of the rows. The array is not copied, except for small samples of rows. If it is a memory map, only
        the current blocks are in memory.
    rows : dict of arrays
        Values of the rows that block functions need, such as labels, weights and targets.
    block_rows : int, optional
        Number of rows in a block; by default chosen for the size of a core's cache.
    n_threads : int, optional
        Number of threads; by default the current number of BLAS threads, so a limit set by the caller applies.
    reading : Reading, optional
        Precision of the blocks, and units of the columns (a shift and a scale for the solver). By default, the
        precision of `X` and no units.
    first, step : int
        If the rows are a sample of a larger table: the position of the first row in this table, and the distance
        between the positions of neighbouring rows.

    Examples
    --------
    >>> engine = InMemoryEngine(np.eye(3), {"w": np.array([1.0, 2.0, 3.0])}, block_rows=2)
    >>> engine.total(lambda X, rows: (rows["w"] @ X,))
    (array([1., 2., 3.]),)
    >>> doubled = engine.derive(lambda X, rows: {"w": 2.0 * rows["w"]})
    >>> doubled.collect(lambda X, rows: rows["w"])
    array([2., 4., 6.])
    """

    names: list[str] | None = None  # Data frames are converted to arrays first, and the model stores the column names.

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
        """Number of rows."""
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
        """Shift and scale of the columns for the solver; None if no column has to be shifted or scaled."""
        return self.preparation.reading.units

    def read_as(self, reading: Reading) -> "InMemoryEngine":
        """Return an engine that reads the same rows with the precision and the units of `reading`."""
        return self._with_changes(preparation=self.preparation.read_as(reading))

    def in_units(self) -> "InMemoryEngine":
        """Return an engine over the same rows with the columns shifted and scaled by `units`."""
        return self._with_changes(preparation=self.preparation.in_units())

    def derive(
        self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False
    ) -> "InMemoryEngine":
        """Return an engine whose rows also have the values that ``row_function(X, rows, *parameters)`` returns.

        With ``keep=True``, all derived values are computed now and stored.
        """
        engine = self._with_changes(preparation=self.preparation.and_derive(row_function, parameters))
        return engine._with_derived_values() if keep else engine

    def every(self, step: int, first: int = 0) -> "InMemoryEngine":
        """Return an engine over every `step`-th row, starting at row `first`, with the values of these rows."""
        rows = {name: values[first::step] for name, values in self.rows.items()}
        X = self.X[first::step]
        if not sparse.issparse(X) and X.size <= _MAX_COPIED_NUMBERS:
            X, rows = np.ascontiguousarray(X), {name: np.ascontiguousarray(values) for name, values in rows.items()}
        where = {"_first": self._first + first * self._step, "_step": self._step * step}
        return self._with_changes(X=X, rows=rows, block_rows=_default_block_rows(X), _sparse_blocks={}, **where)

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
        """Apply ``row_function(X, rows, *parameters)`` to every block, and return the values of all rows in order."""

        def lane_values(blocks: list[slice]) -> Any:
            values = (row_function(*self._block(block), *parameters) for block in blocks)
            if into is None:
                return np.concatenate(list(values))
            for block, value in zip(blocks, values, strict=True):
                into[block] = value
            return None

        lanes = list(self._map(lane_values, self._lanes()))
        return np.concatenate(lanes) if into is None else into

    def _with_changes(self, **changes: Any) -> "InMemoryEngine":
        """Return a copy of the engine with some attributes changed."""
        engine = object.__new__(InMemoryEngine)
        vars(engine).update({**vars(self), **changes})
        return engine

    def _with_derived_values(self) -> "InMemoryEngine":
        """Return an engine in which the derived values are computed and stored."""

        def lane_values(blocks: list[slice]) -> list[dict[str, Any]]:
            return [self._derived(block) for block in blocks]

        found = [values for lane in self._map(lane_values, self._lanes()) for values in lane]
        kept = {name: np.concatenate([values[name] for values in found]) for name in found[0]}
        preparation = Preparation(self.preparation.reading, self.preparation.converted)
        return self._with_changes(rows={**self.rows, **kept}, preparation=preparation)

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
        """Return a block of a sparse table without a copy; its dictionary `taken` caches selections of columns."""
        if (rows := self._sparse_blocks.get(block.start)) is None:
            rows = _rows_of(self.X, block)
            rows.taken = {}
            self._sparse_blocks[block.start] = rows
        return rows

    def _lanes(self) -> list[list[slice]]:
        """Return groups of consecutive blocks. The groups do not depend on the number of threads."""
        if self.n_rows <= self.block_rows:
            return [[slice(0, self.block_rows)]]
        starts = range(0, self.n_rows, self.block_rows)
        blocks = [slice(start, start + self.block_rows) for start in starts]
        cuts = np.unique(np.linspace(0, len(blocks), _N_LANES + 1).round().astype(int))
        return [blocks[a:b] for a, b in pairwise(cuts)]

    def _map(self, function: Callable[[list[slice]], Any], lanes: list[list[slice]]) -> Iterator[Any]:
        with BLAS.on_one_thread():
            if self.n_threads == 1 or len(lanes) == 1:
                yield from map(function, lanes)
                return
            with ThreadPoolExecutor(self.n_threads) as pool:
                yield from pool.map(function, lanes)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without cached blocks."""
        return {**vars(self), "_sparse_blocks": {}}


def _open_in_memory(X: Any, y: Any = None, sample_weight: Any = None) -> InMemoryEngine:
    """Return the engine of a table in memory; data frames must have been converted to arrays."""
    given = {"y": y, "w": sample_weight}
    rows = {name: np.asarray(values) for name, values in given.items() if values is not None}
    return InMemoryEngine(sparse.csr_array(X) if sparse.issparse(X) else X, rows)


_open_in_memory.in_memory = True  # type: ignore[attr-defined]
for _type in (np.ndarray, sparse.sparray, sparse.spmatrix):
    open_rows.register(_type, _open_in_memory)


def _rows_of(X: Any, block: slice) -> Any:
    """Return consecutive rows of a CSR matrix as a view; SciPy's slices would be copies."""
    stop = min(block.stop, X.shape[0])
    entries = slice(X.indptr[block.start], X.indptr[stop])
    rows = sparse.csr_array((stop - block.start, X.shape[1]), dtype=X.dtype)
    # The attributes are set directly, because the constructor copies small parts of larger arrays.
    rows.data, rows.indices = X.data[entries], X.indices[entries]
    rows.indptr = X.indptr[block.start : stop + 1] - X.indptr[block.start]
    return rows


def _default_block_rows(X: Any) -> int:
    """Return the number of rows in a block: few enough for the cache, and many enough to amortise the overhead.

    Several blocks of a dense table have nearly equal sizes. If a square matrix over the columns is computed for each
    block, the largest allowed number of rows is at least the number of columns. In a table with many rows, the matrix
    is then hardly larger than the block.
    """
    if sparse.issparse(X):
        return int(max(1024, 2 * _BLOCK_NUMBERS // max(1, X.nnz // max(1, X.shape[0]))))
    n_rows, min_rows = X.shape[0], max(256, X.shape[1]) if X.shape[1] <= MAX_MATRIX_PARAMETERS else 256
    max_rows = int(np.clip(_BLOCK_NUMBERS // max(1, X.shape[1]), min_rows, _BLOCK_ROWS))
    if n_rows <= max_rows:
        return max_rows
    n_blocks = 4 * -(-n_rows // (4 * max_rows))  # A multiple of 4 suits two and four threads.
    return -(-n_rows // n_blocks)
