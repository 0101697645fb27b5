"""Checked rows in memory, and the engine that holds them."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.labels import LabelCoding
from scarless.checks.rows import LabelledRows, row_totals
from scarless.engines import Engine, Rows, attach, open_rows
from scarless.engines.blocks import how_to_read
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


def labelled_rows(training: Training, coding: LabelCoding) -> LabelledRows:
    """Return checked rows in memory as rows of an engine."""
    engine = engine_of(training.X, s=training.s, w=training.weight)
    return LabelledRows(engine, coding, row_totals(engine))


def in_memory(engine: Engine, name: str) -> Vector:
    """Return one of the values per row as a vector: for what needs them in memory."""
    return np.asarray(engine.collect(_named, name))


def _named(X: Any, rows: Rows, name: str) -> Vector:
    return np.asarray(rows[name])


def all_labelled(label_frequency: float) -> bool:
    """Whether a label frequency is 1 for all purposes."""
    return label_frequency > 1.0 - 1e-4
