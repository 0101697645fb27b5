"""Partitions: the store of decoded rows, the blocks of a partition, batches of partitions, and tasks on batches.

This code runs in a thread of this process, in a Dask worker or in a Ray actor, with identical results. A chain of steps
leads from a partition to its blocks: each step derives values of rows, or selects rows.
"""

import hashlib
import mmap
import os
import pickle
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np

from scarless.engines.base import Rows
from scarless.engines.blas import BLAS
from scarless.engines.blocks import Preparation, add_up

_MAX_BLOCK_NUMBERS, _MAX_BLOCK_ROWS = 393_216, 16_384  # as in `scarless.engines.memory`
# A batch of partitions is one task of a pass. There are few batches, because each takes an additional millisecond, but
# enough of them to give several to each worker.
MIN_BATCHES, MAX_BATCHES, PARTITIONS_PER_BATCH = 64, 1024, 8

# --- store of decoded rows


Arrays = dict[str, Any]


@dataclass(frozen=True)
class Cache:
    """Limits of the cache of decoded rows."""

    memory: int  # bytes in memory for each process; further rows are written to files
    folder: str | None = None  # folder of these files; None for the temporary folder, "" to decode in every pass


class PartitionStore:
    """Arrays that one process has decoded or computed, by key. Several threads share each entry."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._making: dict[str, Lock] = {}
        self._entries: dict[str, Arrays] = {}
        self._sizes: dict[str, int] = {}  # bytes of entries in memory
        self._files: dict[str, Path] = {}  # folders of entries in files
        self._folders: dict[str | None, Path] = {}  # folder of this process for each `Cache.folder`
        self.loads = 0

    @property
    def held(self) -> int:
        """Bytes of the entries in memory, without mapped files."""
        return sum(list(self._sizes.values()))  # The list is a copy, because other threads may change the dict.

    def get(self, key: str, cache: Cache, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a key; compute and store them if they are absent."""
        if (found := self._entries.get(key)) is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, Lock())
        with making:
            if (found := self._entries.get(key)) is not None:
                return found
            arrays = make()
            self.loads += 1
            size = sum(array.nbytes for array in arrays.values())
            with self._lock:
                fits = self.held + size <= cache.memory
                if fits:
                    self._sizes[key], self._entries[key] = size, arrays
            if not fits and cache.folder != "":
                arrays = self._mapped(key, arrays, cache)
                self._entries[key] = arrays
            return arrays

    def release_pages(self, key: str) -> None:
        """Release the pages of memory-mapped files from the memory of this process.

        Otherwise they would count as memory of this process, and a memory limit could end it. The operating system
        still caches them while it has room.
        """
        for array in self._entries.get(key, {}).values() if key in self._files else ():
            pages = getattr(array if isinstance(array, np.memmap) else array.base, "_mmap", None)
            if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)

    def forget(self, prefix: str) -> None:
        """Remove all entries whose keys begin with `prefix`."""
        with self._lock:
            for key in [key for key in self._entries if key.startswith(prefix)]:
                del self._entries[key]
                self._sizes.pop(key, None)
                self._making.pop(key, None)
                if (folder := self._files.pop(key, None)) is not None:
                    shutil.rmtree(folder, ignore_errors=True)

    def _mapped(self, key: str, arrays: Arrays, cache: Cache) -> Arrays:
        """Write arrays to files, and return memory maps of them; arrays of text cannot be mapped and stay in memory."""
        folder = self._folder(cache.folder) / key.replace("/", "-")
        folder.mkdir(exist_ok=True)
        self._files[key] = folder
        found = {}
        for name, array in arrays.items():
            if array.dtype.hasobject or not array.size:
                found[name] = array
                continue
            # Files without a header: np.load parses its header, which can fail in threads of Python 3.11 (SystemError
            # "AST constructor recursion depth mismatch").
            path = folder / f"{name}.bin"
            turned = array.flags.f_contiguous and not array.flags.c_contiguous
            rows = array.T if turned else array
            rows.tofile(path)
            mapped = np.memmap(path, dtype=array.dtype, mode="r", shape=rows.shape)
            found[name] = mapped.T if turned else mapped
        return found

    def _folder(self, wanted: str | None) -> Path:
        with self._lock:
            if wanted not in self._folders:
                made = self._folders[wanted] = Path(tempfile.mkdtemp(prefix="scarless-", dir=wanted))
                weakref.finalize(self, remove_own, made, os.getpid())
            return self._folders[wanted]


def remove_own(folder: str | Path, owner: int) -> None:
    """Remove the folder of a process, unless this is a child process that was forked from it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


STORE = PartitionStore()  # the store of this process


# --- from a partition to blocks


class PartitionSource(Protocol):
    """Consecutive rows that any process can load. A source is small and picklable."""

    n_rows: int

    def load(self) -> Arrays:
        """Return ``X``, and ``y`` and ``w`` if there are labels and weights."""
        ...


class Partition(NamedTuple):
    """One partition of a plan."""

    key: str  # unique among the partitions of all plans
    start: int  # number of its first row in the table
    source: Any


Batch = tuple[Partition, ...]  # consecutive partitions that one task processes


@dataclass(frozen=True)
class KeepValues:
    """Step that derives values of rows once and stores them with the partition."""

    preparation: Preparation
    token: str


@dataclass(frozen=True)
class SelectRows:
    """Step that selects every `step`-th row, starting at row number `first` of the table."""

    first: int
    step: int
    token: str


Step = KeepValues | SelectRows


class Program(NamedTuple):
    """Steps that turn a partition into prepared blocks."""

    chain: tuple[Step, ...]
    preparation: Preparation
    cache: Cache


class _LoadedRows(NamedTuple):
    X: Any
    rows: Arrays
    where: range  # numbers of the rows in the table


def blocks_of(partition: Partition, program: Program) -> Iterator[tuple[Any, Rows]]:
    """Yield the prepared blocks of a partition."""
    loaded = _load(partition, program.chain, program.cache)
    yield from _prepared_blocks(loaded, program.preparation)
    for key in _keys(partition, program.chain):
        STORE.release_pages(key)


def token_of(before: str, *what: Any) -> str:
    """Return an identifier of a step after the steps `before`; equal steps have equal identifiers if picklable."""
    try:
        content = pickle.dumps(what)
    except Exception:  # A function may refer to objects that cannot be pickled.
        content = uuid.uuid4().bytes
    return hashlib.sha256(before.encode() + content).hexdigest()[:32]


def _keys(partition: Partition, chain: tuple[Step, ...]) -> list[str]:
    """Return the keys of a partition's rows and of the values stored with them."""
    kept = (f"{step.token}/{partition.key}" for step in chain if isinstance(step, KeepValues))
    return [f"{partition.key}/rows", *kept]


def _load(partition: Partition, chain: tuple[Step, ...], cache: Cache) -> _LoadedRows:
    if not chain:
        arrays = STORE.get(_keys(partition, ())[0], cache, partition.source.load)
        rows = {name: values for name, values in arrays.items() if name != "X"}
        return _LoadedRows(arrays["X"], rows, range(partition.start, partition.start + arrays["X"].shape[0]))
    *before, last = chain
    loaded = _load(partition, tuple(before), cache)
    if isinstance(last, SelectRows):
        return _selected(loaded, last)
    kept = STORE.get(_keys(partition, (last,))[-1], cache, lambda: _derived(loaded, last.preparation))
    return loaded._replace(rows={**loaded.rows, **kept})


def _selected(loaded: _LoadedRows, select: SelectRows) -> _LoadedRows:
    spacing = loaded.where.step  # distance between the rows that earlier steps have selected
    ahead, step = (select.first - loaded.where.start) // spacing, select.step // spacing
    here = slice(ahead if ahead >= 0 else ahead % step, None, step)
    return _LoadedRows(loaded.X[here], {name: values[here] for name, values in loaded.rows.items()}, loaded.where[here])


def _derived(loaded: _LoadedRows, preparation: Preparation) -> Arrays:
    found: dict[str, list[Any]] = {}
    for block in _blocks(loaded):
        before = dict(block[1])
        for name, values in preparation(*block)[1].items():
            if values is not before.get(name):
                found.setdefault(name, []).append(values)
    return {name: np.concatenate(values) for name, values in found.items()}


def _prepared_blocks(loaded: _LoadedRows, preparation: Preparation) -> Iterator[tuple[Any, Rows]]:
    for X, rows in _blocks(loaded):
        yield preparation(X, rows)


def _blocks(loaded: _LoadedRows) -> Iterator[tuple[Any, Rows]]:
    n_rows, n_columns = loaded.X.shape
    size = int(np.clip(_MAX_BLOCK_NUMBERS // max(1, n_columns), 256, _MAX_BLOCK_ROWS))
    for start in range(0, n_rows, size):
        block = slice(start, start + size)
        inside = loaded.where[block]
        where = slice(inside.start, inside.stop, inside.step)
        yield loaded.X[block], Rows({name: values[block] for name, values in loaded.rows.items()}, where)


# --- batches of partitions


class Plan(NamedTuple):
    """Partitions in the order of their rows, grouped into batches."""

    key: str
    partitions: tuple[Partition, ...]
    cuts: tuple[int, ...]  # number of the first partition of each batch, then the number of partitions
    n_rows: int
    names: tuple[str, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, sources: list[Any], names: list[str], dtype: np.dtype[Any]) -> "Plan":
        """Return a plan with one partition for each source, in the order of the sources."""
        sizes = np.array([source.n_rows for source in sources], dtype=np.int64)
        ends = np.cumsum(sizes)
        described = repr((names, str(dtype), sources)).encode()
        key = hashlib.sha256(described).hexdigest()[:32]
        partitions = tuple(
            Partition(f"{key}/{number}", int(end - size), source)
            for number, (source, size, end) in enumerate(zip(sources, sizes, ends, strict=True))
        )
        return cls(key, partitions, _even_cuts(ends), int(ends[-1]) if sources else 0, tuple(names), dtype)

    @property
    def batches(self) -> list[Batch]:
        """The batches of partitions."""
        return [self.partitions[a:b] for a, b in zip(self.cuts[:-1], self.cuts[1:], strict=True)]


def _even_cuts(ends: Any) -> tuple[int, ...]:
    """Return cuts between batches that have about equal numbers of rows."""
    n_batches = int(np.clip(ends.size // PARTITIONS_PER_BATCH, MIN_BATCHES, MAX_BATCHES))
    if ends.size <= n_batches:
        return tuple(range(ends.size + 1))
    targets = ends[-1] * np.arange(1, n_batches) / n_batches
    inner = np.searchsorted(ends, targets) + 1
    return tuple(int(cut) for cut in np.unique([0, *inner, ends.size]))


# --- tasks on a batch of partitions


Function = Callable[..., Any]


def total_of(program: Program, batch: Batch, function: Function, parameters: tuple[Any, ...]) -> Any:
    """Return the sum of a block function over a batch of partitions; None if no rows are selected."""
    with BLAS.on_one_thread():
        blocks = (block for partition in batch for block in blocks_of(partition, program))
        found = (function(X, rows, *parameters) for X, rows in blocks)
        first = next(found, None)
        return None if first is None else add_up(_chained(first, found))


def _chained(first: Any, others: Any) -> Any:
    yield first
    yield from others


def values_of(program: Program, batch: Batch, function: Function, parameters: tuple[Any, ...]) -> Any:
    """Return the values of a row function for a batch of partitions, concatenated."""
    with BLAS.on_one_thread():
        found = [function(X, rows, *parameters) for partition in batch for X, rows in blocks_of(partition, program)]
        return np.concatenate(found) if found else None


def rows_of(program: Program, batch: Batch, names: tuple[str, ...] | None = None) -> Any:
    """Return the rows of a batch: X and all derived values; None if there are no rows."""
    found = [_copied(X, rows, names) for partition in batch for X, rows in blocks_of(partition, program)]
    if not found:
        return None
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def _copied(X: Any, rows: Rows, names: tuple[str, ...] | None) -> dict[str, Any]:
    """Return copies of the arrays, because the pages of memory maps are released before the blocks are joined."""
    taken = {"X": X, **{name: values for name, values in rows.items() if names is None or name in names}}
    return {name: np.array(values) for name, values in taken.items()}
