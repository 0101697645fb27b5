"""A fitted model as something that can be sent to where rows are: probability and propensity of a partition."""

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Matrix, Vector
from scarless.scale.columns import PartitionError

_BLOCK_ROWS = 8192


class Scorer(Protocol):
    """Predicts; small, picklable, and the same for the same model."""

    @property
    def fingerprint(self) -> str:
        """A name for the model: another for another."""
        ...

    def __call__(self, source: Any, table: Any) -> tuple[Vector, Vector | None]:
        """Return probability and propensity of each row of a partition, read as an Arrow table; None: not known."""
        ...


@dataclass(frozen=True)
class LogisticScorer:
    """One or two logistic models, or one and a constant propensity, in one pass over the rows.

    `coef` and `intercept` have a row for each model. `largest` is what a number may be at most.
    """

    coef: Matrix
    intercept: Vector
    largest: float
    constant: float | None = None
    told: str = ""  # what else the model is

    @property
    def fingerprint(self) -> str:
        """A name for the model, from its numbers."""
        numbers = [np.ascontiguousarray(each, dtype=np.float64).tobytes() for each in (self.coef, self.intercept)]
        return hashlib.sha256(repr((numbers, self.constant, self.told)).encode()).hexdigest()

    def __call__(self, source: Any, table: Any) -> tuple[Vector, Vector | None]:
        """Return probability and propensity of each row."""
        below = source.decode(table)["X"].T
        found = np.empty((len(self.coef), below.shape[1]))
        for start in range(0, below.shape[1], _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            block = below[:, rows]
            refuse_large(source, block, start, self.largest)
            # In float64, as in memory: coefficients of a float64 fit may be beyond float32, or need more digits.
            expit(self.coef @ block.astype(np.float64, copy=False) + self.intercept[:, None], out=found[:, rows])
        if self.constant is not None:
            return found[0], np.full(below.shape[1], self.constant)
        return found[0], found[1] if len(found) > 1 else None


def refuse_large(source: Any, block: Any, start: int, largest: float) -> None:
    """Raise where some of a partition's columns, one below the other, hold what is no number, or beyond the largest."""
    if max(block.max(initial=0.0), -block.min(initial=0.0)) <= largest:
        return
    column, row = np.argwhere(~(np.abs(block) <= largest))[0]
    name = source.names[column] if column < len(source.names) else column
    raise PartitionError(
        f"{source.path}, {source.place}: the column {name!r} holds {block[column, row]} in row {start + row} of "
        "these, which no model can use. Fill or replace it, or leave these rows out."
    )


@dataclass(frozen=True)
class FrameScorer:
    """Any other model, asked about one data frame after the other."""

    model: Any
    names: tuple[str, ...]
    positive: int  # which column of its probabilities is meant
    fingerprint: str
    has_propensity: bool
    as_array: bool = False

    def __call__(self, source: Any, table: Any) -> tuple[Vector, Vector | None]:
        """Return probability and propensity of each row."""
        X = self.table_of(table)
        f = np.ascontiguousarray(self.model.predict_proba(X)[:, self.positive], dtype=np.float64)
        return f, np.asarray(self.model.predict_propensity(X), dtype=np.float64) if self.has_propensity else None

    def table_of(self, table: Any) -> Any:
        """Return the columns of the fit as the model takes them."""
        frame = table.select(list(self.names)).to_pandas(ignore_metadata=True)
        return frame.to_numpy() if self.as_array else frame
