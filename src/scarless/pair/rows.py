"""Checked rows, and the engine that holds them."""

from typing import Any, NamedTuple

from scipy import sparse

from scarless.engines import InMemoryEngine
from scarless.engines.units import how_to_read
from scarless.numerics.arrays import Vector
from scarless.numerics.linear import Design


class Training(NamedTuple):
    """Checked input of a fit."""

    X: Any
    s: Vector
    weight: Vector


def all_columns(X: Any) -> Design:
    """Return the design that sees every column."""
    return Design(slice(None), X.shape[1])


def engine_of(X: Any) -> InMemoryEngine:
    """Return the engine for a table in memory."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
    return InMemoryEngine(X, {}, reading=how_to_read(X))


def all_labelled(label_frequency: float) -> bool:
    """Whether a label frequency is 1 for all purposes."""
    return label_frequency > 1.0 - 1e-4
