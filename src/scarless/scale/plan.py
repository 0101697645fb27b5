"""In which pieces a table is walked: partitions, and runs of them whose sums are added up first.

Sums depend on the plan in their last bits, and on nothing else: not on who computes them, nor on how many do.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np

from scarless.scale.chains import Part

# Runs of partitions: each is one task of a pass. Few, since a task costs a millisecond; enough for four a worker.
FEWEST_LANES, MOST_LANES, LANE_PARTS = 64, 1024, 8


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
