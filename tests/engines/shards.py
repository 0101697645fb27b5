"""A second engine, for a table in several pieces, such as files or machines."""

from itertools import pairwise

import numpy as np
from scipy import sparse

from scarless.engines import Preparation, Reading, Rows, add_up, open_rows


class Shards:
    """A table that only its engine can read: it has no shape, no length and no values."""

    def __init__(self, parts, names=None):
        self.parts, self.names = list(parts), names


class ShardEngine:
    """An engine over pieces, each with a part of X and the values of its rows."""

    def __init__(self, parts, preparation, names=None):
        self.parts, self.preparation, self.names = parts, preparation, names

    @property
    def n_rows(self):
        return sum(rows.size for _, rows in self.parts)

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
        return add_up(block_function(*self.preparation(*part), *parameters) for part in self.parts)

    def collect(self, row_function, *parameters, into=None):
        values = np.concatenate([row_function(*self.preparation(*part), *parameters) for part in self.parts])
        if into is None:
            return values
        into[:] = values
        return into

    def derive(self, row_function, *parameters, keep=False):
        engine = ShardEngine(self.parts, self.preparation.and_derive(row_function, parameters), self.names)
        if not keep:
            return engine
        parts = [(X, engine.preparation(X, rows)[1]) for X, rows in self.parts]
        return ShardEngine(parts, Preparation(self.preparation.reading, self.preparation.converted), self.names)

    def every(self, step, first=0):
        parts = []
        for X, rows in self.parts:
            parts.append((X[first::step], rows.take(slice(first, None, step))))
            first = max(first - rows.size, (first - rows.size) % step)
        return ShardEngine(parts, self.preparation, self.names)

    def read_as(self, reading):
        return ShardEngine(self.parts, self.preparation.read_as(reading), self.names)

    def in_units(self):
        return ShardEngine(self.parts, self.preparation.in_units(), self.names)


def shard_engine(parts, y=None, sample_weight=None, names=None):
    """Return the engine over parts of a table; labels and weights are split in the same way."""
    cuts = np.cumsum([0, *(part.shape[0] for part in parts)])
    given = {name: np.asarray(values) for name, values in (("y", y), ("w", sample_weight)) if values is not None}
    rows = Rows(given, slice(0, int(cuts[-1]), 1))
    pieces = [
        (sparse.csr_array(X) if sparse.issparse(X) else X, rows.take(slice(a, b)))
        for X, (a, b) in zip(parts, pairwise(map(int, cuts)), strict=True)
    ]
    return ShardEngine(pieces, Preparation(Reading(np.dtype(parts[0].dtype), None)), names)


@open_rows.register
def _(X: Shards, y=None, sample_weight=None):
    return shard_engine(X.parts, y, sample_weight, X.names)


def in_pieces(X, y=None, sample_weight=None):
    """Open a table in memory as three pieces of unequal size, in place of the engine in memory."""
    n = X.shape[0]
    cuts = [0, n // 2, n // 2 + n // 3, n]
    return shard_engine([X[a:b] for a, b in pairwise(cuts)], y, sample_weight)


in_pieces.in_memory = True
