"""What is done with one run of partitions, wherever that happens."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scarless.engines.base import Rows
from scarless.engines.blas import BLAS
from scarless.engines.blocks import add_up
from scarless.scale.chains import Part, Program, blocks_of

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
