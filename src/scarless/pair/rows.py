"""Checked rows in memory, and the engine that holds them."""

from typing import Any, NamedTuple

from scarless.engines import Engine, attach, open_rows
from scarless.engines.units import how_to_read
from scarless.numerics.arrays import Vector
from scarless.numerics.linear import Design


class Training(NamedTuple):
    """Checked input of a fit whose rows are in memory, as models of the user's need them."""

    X: Any
    s: Vector
    weight: Vector


def all_columns(engine: Engine) -> Design:
    """Return the design that sees every column."""
    return Design(slice(None), engine.n_columns)


def engine_of(X: Any, **rows: Vector) -> Engine:
    """Return the engine for a checked table in memory, with values per row."""
    engine = open_rows(X)
    return attach(engine.read_as(how_to_read(engine)), **rows)


def all_labelled(label_frequency: float) -> bool:
    """Whether a label frequency is 1 for all purposes."""
    return label_frequency > 1.0 - 1e-4
