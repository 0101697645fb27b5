"""A second engine: a table in several pieces, as files or machines would hold them, one after the other."""

from itertools import pairwise

import numpy as np
from scipy import sparse

from scarless.engines import Rows, open_rows
from scarless.engines.blocks import Preparation, Reading, add_up


class Shards:
    """A table that nobody may look at but its engine: it has neither shape nor length nor values."""

    def __init__(self, parts, names=None):
        self.parts, self.names = list(parts), names


class ShardEngine:
    """Rows in pieces; each has its part of X, values per row, and where its rows are in the table."""

    def __init__(self, parts, preparation, names=None):
        self.parts, self.preparation, self.names = parts, preparation, names

    @property
    def n_rows(self):
        return sum(X.shape[0] for X, _, _ in self.parts)

    @property
    def n_columns(self):
        return self.parts[0][0].shape[1]

    @property
    def dtype(self):
        return self.preparation.reading.dtype

    @property
    def units(self):
        return self.preparation.reading.units

    def total(self, block_function, *parameters):
        return add_up(block_function(*self._prepared(*part), *parameters) for part in self.parts)

    def collect(self, row_function, *parameters, into=None):
        values = np.concatenate([row_function(*self._prepared(*part), *parameters) for part in self.parts])
        if into is None:
            return values
        into[:] = values
        return into

    def derive(self, row_function, *parameters, keep=False):
        engine = ShardEngine(self.parts, self.preparation.and_derive(row_function, parameters), self.names)
        if not keep:
            return engine
        parts = [(X, dict(engine._prepared(X, rows, where)[1]), where) for X, rows, where in self.parts]
        return ShardEngine(parts, Preparation(self.preparation.reading, self.preparation.converted), self.names)

    def every(self, step, first=0):
        parts, before = [], 0
        for X, rows, where in self.parts:
            here = slice((first - before) % step if before > first else first - before, None, step)
            before += X.shape[0]
            values = {name: value[here] for name, value in rows.items()}
            inside = range(where.start, where.stop, where.step)[here]
            parts.append((X[here], values, slice(inside.start, inside.stop, inside.step)))
        return ShardEngine(parts, self.preparation, self.names)

    def read_as(self, reading):
        return ShardEngine(self.parts, Preparation(reading, derived=self.preparation.derived), self.names)

    def in_units(self):
        return ShardEngine(self.parts, self.preparation.in_units(), self.names)

    def _prepared(self, X, rows, where):
        return self.preparation(X, Rows(rows, where))


def shard_engine(parts, y=None, sample_weight=None, names=None):
    """Return the engine over parts of a table; labels and weights are cut like it."""
    cuts = np.cumsum([0, *(part.shape[0] for part in parts)])
    given = {name: np.asarray(values) for name, values in (("y", y), ("w", sample_weight)) if values is not None}
    pieces = [
        (sparse.csr_array(X) if sparse.issparse(X) else X, {name: v[a:b] for name, v in given.items()}, slice(a, b, 1))
        for X, (a, b) in zip(parts, pairwise(map(int, cuts)), strict=True)
    ]
    return ShardEngine(pieces, Preparation(Reading(np.dtype(parts[0].dtype), None)), names)


@open_rows.register
def _(X: Shards, y=None, sample_weight=None):
    return shard_engine(X.parts, y, sample_weight, X.names)


def in_pieces(X, y=None, sample_weight=None):
    """Open a table in memory as three pieces of unequal size: what models see where it takes the place of memory."""
    n = X.shape[0]
    cuts = [0, n // 2, n // 2 + n // 3, n]
    return shard_engine([X[a:b] for a, b in pairwise(cuts)], y, sample_weight)


in_pieces.in_memory = True
