"""From a partition to the blocks that block functions see: a chain of what is kept for its rows and what is left out.

Everything here runs where a partition lives, in a thread, a worker or an actor, and gives the same bits there.
"""

import hashlib
import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from scarless.engines.base import Rows
from scarless.engines.blocks import Preparation
from scarless.scale.store import STORE, Arrays, Cache

_BLOCK_NUMBERS, _BLOCK_ROWS = 393_216, 16_384  # as in memory: near a core's cache


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
