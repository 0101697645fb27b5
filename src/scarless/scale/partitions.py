"""Partitions: what a process keeps of them, their blocks, in which runs they are walked, and what is done there.

Everything here runs where a partition lives, in a thread, a worker or an actor, and gives the same bits there. From a
partition to the blocks that block functions see leads a chain of what is kept for its rows and what is left out.
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

_BLOCK_NUMBERS, _BLOCK_ROWS = 393_216, 16_384  # as in memory: near a core's cache
# Runs of partitions: each is one task of a pass. Few, since a task costs a millisecond; enough for four a worker.
FEWEST_LANES, MOST_LANES, LANE_PARTS = 64, 1024, 8

# --- what a process has decoded


Arrays = dict[str, Any]


@dataclass(frozen=True)
class Cache:
    """How much of what is decoded may stay in memory, in bytes for each process, and where the rest goes.

    `folder` is None for the system's place for temporary files, "" to decode anew in every pass.
    """

    memory: int
    folder: str | None = None


class Store:
    """What one process has decoded and computed, by key. Each is made once, whoever asks first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._making: dict[str, Lock] = {}
        self._entries: dict[str, Arrays] = {}
        self._sizes: dict[str, int] = {}  # of those in memory
        self._files: dict[str, Path] = {}  # folders of what is not in memory, by key
        self._folders: dict[str | None, Path] = {}  # of this process, by where they were asked for
        self.loads = 0

    @property
    def held(self) -> int:
        """Bytes of what is in memory; what is in mapped files is not."""
        return sum(list(self._sizes.values()))  # of a copy: others may be at it

    def get(self, key: str, cache: Cache, make: Callable[[], Arrays]) -> Arrays:
        """Return arrays by name, made now where they are not there."""
        if (found := self._entries.get(key)) is not None:
            return found
        with self._lock:
            alone = self._making.setdefault(key, Lock())
        with alone:
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

    def rest(self, key: str) -> None:
        """Take what is mapped from files out of this process's memory; the system keeps it while it has room.

        Else pages that were once read would count as this process's own, and whoever watches it would end it for them.
        """
        for array in self._entries.get(key, {}).values() if key in self._files else ():
            pages = getattr(array if isinstance(array, np.memmap) else array.base, "_mmap", None)
            if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)

    def forget(self, prefix: str) -> None:
        """Let go of everything whose key begins so."""
        with self._lock:
            for key in [key for key in self._entries if key.startswith(prefix)]:
                del self._entries[key]
                self._sizes.pop(key, None)
                self._making.pop(key, None)
                if (folder := self._files.pop(key, None)) is not None:
                    shutil.rmtree(folder, ignore_errors=True)

    def _mapped(self, key: str, arrays: Arrays, cache: Cache) -> Arrays:
        """Write arrays to files, and return maps of them; text cannot be mapped, and stays."""
        folder = self._folder(cache.folder) / key.replace("/", "-")
        folder.mkdir(exist_ok=True)
        self._files[key] = folder
        found = {}
        for name, array in arrays.items():
            if array.dtype.hasobject:
                found[name] = array
                continue
            path = folder / f"{name}.npy"
            turned = array.flags.f_contiguous and not array.flags.c_contiguous
            np.save(path, array.T if turned else array)
            mapped = np.load(path, mmap_mode="r")
            found[name] = mapped.T if turned else mapped
        return found

    def _folder(self, wanted: str | None) -> Path:
        with self._lock:
            if wanted not in self._folders:
                made = self._folders[wanted] = Path(tempfile.mkdtemp(prefix="scarless-", dir=wanted))
                weakref.finalize(self, remove_own, made, os.getpid())
            return self._folders[wanted]


def remove_own(folder: str | Path, owner: int) -> None:
    """Remove the folder of a process; a child that was forked from it leaves it alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


STORE = Store()  # of this process


# --- from a partition to blocks


class Source(Protocol):
    """A run of rows that can be loaded anywhere: small, picklable, the same whoever loads it."""

    n_rows: int

    def load(self) -> Arrays:
        """Return ``X``, and ``y`` and ``w`` where there are labels and weights."""
        ...


class Part(NamedTuple):
    """One partition of a plan."""

    key: str  # among all partitions of all plans
    start: int  # number of its first row in the table
    source: Any


@dataclass(frozen=True)
class Keep:
    """Values per row that are computed once, and kept beside the partition."""

    preparation: Preparation
    token: str


@dataclass(frozen=True)
class Select:
    """Every `step`-th row from the `first` on, by their numbers in the table."""

    first: int
    step: int
    token: str


Link = Keep | Select


class Program(NamedTuple):
    """What is done to every partition before a block function sees it."""

    chain: tuple[Link, ...]
    preparation: Preparation
    cache: Cache


class _Table(NamedTuple):
    X: Any
    rows: Arrays
    where: range  # numbers of its rows in the table


def blocks_of(part: Part, program: Program) -> Iterator[tuple[Any, Rows]]:
    """Yield the blocks of a partition as block functions see them."""
    table = _table(part, program.chain, program.cache)
    yield from _prepared_blocks(table, program.preparation)
    for key in _keys(part, program.chain):
        STORE.rest(key)


def token_of(before: str, *what: Any) -> str:
    """Return a name for a step after others: the same for the same step, where that can be told."""
    try:
        content = pickle.dumps(what)
    except Exception:  # of whatever a function is closed over
        content = uuid.uuid4().bytes
    return hashlib.sha256(before.encode() + content).hexdigest()[:32]


def _keys(part: Part, chain: tuple[Link, ...]) -> list[str]:
    """Return under which names a partition's rows, and the values kept for them, are stored."""
    return [f"{part.key}/rows", *(f"{link.token}/{part.key}" for link in chain if isinstance(link, Keep))]


def _table(part: Part, chain: tuple[Link, ...], cache: Cache) -> _Table:
    if not chain:
        loaded = STORE.get(_keys(part, ())[0], cache, part.source.load)
        rows = {name: values for name, values in loaded.items() if name != "X"}
        return _Table(loaded["X"], rows, range(part.start, part.start + loaded["X"].shape[0]))
    *before, last = chain
    table = _table(part, tuple(before), cache)
    if isinstance(last, Select):
        return _selected(table, last)
    kept = STORE.get(_keys(part, (last,))[-1], cache, lambda: _kept(table, last.preparation))
    return table._replace(rows={**table.rows, **kept})


def _selected(table: _Table, select: Select) -> _Table:
    apart = table.where.step  # of the rows so far
    ahead, step = (select.first - table.where.start) // apart, select.step // apart
    here = slice(ahead if ahead >= 0 else ahead % step, None, step)
    return _Table(table.X[here], {name: values[here] for name, values in table.rows.items()}, table.where[here])


def _kept(table: _Table, preparation: Preparation) -> Arrays:
    found: dict[str, list[Any]] = {}
    for block in _blocks(table):
        before = dict(block[1])
        for name, values in preparation(*block)[1].items():
            if values is not before.get(name):
                found.setdefault(name, []).append(values)
    return {name: np.concatenate(values) for name, values in found.items()}


def _prepared_blocks(table: _Table, preparation: Preparation) -> Iterator[tuple[Any, Rows]]:
    for X, rows in _blocks(table):
        yield preparation(X, rows)


def _blocks(table: _Table) -> Iterator[tuple[Any, Rows]]:
    n_rows, n_columns = table.X.shape
    size = int(np.clip(_BLOCK_NUMBERS // max(1, n_columns), 256, _BLOCK_ROWS))
    for start in range(0, n_rows, size):
        block = slice(start, start + size)
        inside = table.where[block]
        where = slice(inside.start, inside.stop, inside.step)
        yield table.X[block], Rows({name: values[block] for name, values in table.rows.items()}, where)


# --- in which runs partitions are walked


class Plan(NamedTuple):
    """Partitions in the order of their rows, and where each run of them begins."""

    key: str
    parts: tuple[Part, ...]
    cuts: tuple[int, ...]
    n_rows: int
    names: tuple[str, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, sources: list[Any], names: list[str], dtype: np.dtype[Any]) -> "Plan":
        """Lay out sources, each with so many rows, one after the other."""
        sizes = np.array([source.n_rows for source in sources], dtype=np.int64)
        ends = np.cumsum(sizes)
        described = repr((names, str(dtype), sources)).encode()
        key = hashlib.sha256(described).hexdigest()[:32]
        parts = tuple(
            Part(f"{key}/{number}", int(end - size), source)
            for number, (source, size, end) in enumerate(zip(sources, sizes, ends, strict=True))
        )
        return cls(key, parts, _even_cuts(ends), int(ends[-1]) if sources else 0, tuple(names), dtype)

    @property
    def lanes(self) -> list[tuple[Part, ...]]:
        """The runs of partitions."""
        return [self.parts[a:b] for a, b in zip(self.cuts[:-1], self.cuts[1:], strict=True)]


def _even_cuts(ends: Any) -> tuple[int, ...]:
    """Return where runs of about as many rows each begin, and where the last ends."""
    n_lanes = int(np.clip(ends.size // LANE_PARTS, FEWEST_LANES, MOST_LANES))
    if ends.size <= n_lanes:
        return tuple(range(ends.size + 1))
    aims = ends[-1] * np.arange(1, n_lanes) / n_lanes
    inner = np.searchsorted(ends, aims) + 1
    return tuple(int(cut) for cut in np.unique([0, *inner, ends.size]))


# --- what is done with a run of partitions


Function = Callable[..., Any]


def total_of(program: Program, lane: tuple[Part, ...], function: Function, parameters: tuple[Any, ...]) -> Any:
    """Return the sum of a block function over a run of partitions; None where no row of them counts."""
    with BLAS.on_one_thread():
        blocks = (block for part in lane for block in blocks_of(part, program))
        found = (function(X, rows, *parameters) for X, rows in blocks)
        first = next(found, None)
        return None if first is None else add_up(_chained(first, found))


def _chained(first: Any, others: Any) -> Any:
    yield first
    yield from others


def values_of(program: Program, lane: tuple[Part, ...], function: Function, parameters: tuple[Any, ...]) -> Any:
    """Return the values of a row function for a run of partitions, joined."""
    with BLAS.on_one_thread():
        found = [function(X, rows, *parameters) for part in lane for X, rows in blocks_of(part, program)]
        return np.concatenate(found) if found else None


def rows_of(program: Program, lane: tuple[Part, ...], names: tuple[str, ...] | None = None) -> Any:
    """Return the rows themselves, X and all values kept for them; None where there are none."""
    found = [_taken(X, rows, names) for part in lane for X, rows in blocks_of(part, program)]
    if not found:
        return None
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def _taken(X: Any, rows: Rows, names: tuple[str, ...] | None) -> dict[str, Any]:
    """Return copies: what is mapped is let go of before all is joined."""
    taken = {"X": X, **{name: values for name, values in rows.items() if names is None or name in names}}
    return {name: np.array(values) for name, values in taken.items()}
