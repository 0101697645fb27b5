"""How rows to audit are drawn."""

from typing import Any, NamedTuple

import numpy as np

from scarless.diagnostics.audits._reading import Judged
from scarless.numerics.arrays import Mask, Vector
from scarless.numerics.audits import inclusion_scale

DESIGNS = ("random", "neyman", "two-stage")
_LEAST = 0.1  # of the mean size, that every row keeps: a model may be sure and wrong


class Drawn(NamedTuple):
    """A design: who may be drawn, and in proportion to what."""

    open_: Mask  # rows that audits tell something about
    free: Mask  # those among them that nobody has checked yet
    size: Vector  # of each row

    @classmethod
    def of(cls, judged: Judged, design: str) -> "Drawn":
        """Return the design; rows that are known to be positive by their label are left out."""
        open_ = ~judged.labelled if judged.labels_are_sure else np.ones(judged.q.size, dtype=bool)
        free = open_ & ~judged.audited
        size = np.ones(judged.q.size)
        if design != "random":
            size = np.sqrt(judged.q * (1.0 - judged.q))
            mean = float(size[free].mean()) if free.any() else 1.0
            size = np.maximum(size, _LEAST * mean) if mean > 0 else np.ones(size.size)
        return cls(open_, free, size)

    def chances(self, n_rows: int) -> Vector:
        """Return with which probability each row is among `n_rows` new ones; 0 for rows that are not asked for."""
        k = inclusion_scale(self.size[self.free], n_rows)
        return np.where(self.free, np.minimum(1.0, k * self.size), 0.0)

    def with_pilot(self, n_rows: int, judged: Judged) -> Vector:
        """Return with which probability each row was, or is, audited: by a random pilot, or by `n_rows` new ones."""
        k = inclusion_scale(self.size[self.free], n_rows)
        new = np.where(self.open_, np.minimum(1.0, k * self.size), 0.0)
        before = np.zeros(new.size)
        for kind in (self.open_, ~self.open_):
            if kind.any():
                before[kind] = judged.audited[kind].mean()
        return before + (1.0 - before) * new

    def draw(self, n_rows: int, rng: np.random.Generator) -> Any:
        """Return the positions of `n_rows` rows: each with its own probability, and never twice.

        Systematic sampling of rows in random order (Madow): points one apart fall on a line where every row is as long
        as its probability.
        """
        places = rng.permutation(np.flatnonzero(self.free))
        ends = np.cumsum(self.chances(n_rows)[places])
        points = rng.random() + np.arange(n_rows)
        return np.sort(places[np.minimum(np.searchsorted(ends, points, side="right"), places.size - 1)])
