"""The seam between models and machines: where rows live, and who sums them up.

A model hands over a *block function*; an engine applies it to every block of rows it holds and adds up what comes back,
in a fixed order. Values per row (labels, weights, targets, held-out logits) are the engine's too: a model says how they
follow from others, and they are computed inside the block. An engine may hold its rows in memory, in files or on other
machines. Nothing else of it is visible to a model.
"""

from collections.abc import Callable, Mapping
from functools import singledispatch
from importlib import import_module
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from scarless.engines.blocks import Reading, Units
from scarless.numerics.arrays import namespace_of

Sums = TypeVar("Sums", bound=tuple[Any, ...])
# Tables of other libraries whose rows stay where they are, by the library and the name of the type: the module that
# knows them, and the function there that returns a table of ours. Neither is imported before such a table comes.
_ELSEWHERE = {
    ("dask", "DataFrame"): ("scarless.scale.sources", "dask_rows"),
    ("dask_expr", "DataFrame"): ("scarless.scale.sources", "dask_rows"),
    ("dask", "Array"): ("scarless.scale.sources", "dask_rows"),
    ("pyarrow", "Dataset"): ("scarless.scale.sources", "dataset_rows"),
    ("polars", "LazyFrame"): ("scarless.scale.sources", "lazy_frame_rows"),
    ("duckdb", "DuckDBPyRelation"): ("scarless.scale.sources", "relation_rows"),
    ("_duckdb", "DuckDBPyRelation"): ("scarless.scale.sources", "relation_rows"),
}


class Rows(dict[str, Any]):
    """Values per row of one block, by name; `where` says which rows of the table these are.

    Examples
    --------
    >>> rows = Rows({"w": np.ones(3)}, slice(10, 16, 2))
    >>> rows.number
    array([10, 12, 14])
    >>> rows.take(slice(1, None)).number
    array([12, 14])
    """

    def __init__(self, values: Mapping[str, Any], where: slice) -> None:
        super().__init__(values)
        self.where = where

    @property
    def number(self) -> NDArray[np.intp]:
        """The rows' numbers in the table."""
        return np.arange(self.where.start, self.where.stop, self.where.step)

    @property
    def size(self) -> int:
        """How many rows the block has."""
        return len(range(self.where.start, self.where.stop, self.where.step))

    def take(self, here: slice) -> "Rows":
        """Return the values of some of these rows; `here` counts within the block."""
        inside = range(self.where.start, self.where.stop, self.where.step)[here]
        where = slice(inside.start, inside.stop, inside.step)
        return Rows({name: values[here] for name, values in self.items()}, where)


class Engine(Protocol):
    """Rows, and the sums over them.

    For a table of another kind write a class with these members and register the table's type with `open_rows`; the
    page "Extend it" has a complete example. `Preparation` and `add_up` do what every engine does with a block.
    """

    @property
    def names(self) -> list[str] | None:
        """Names of the columns of X; None where they have none. A fit keeps them as ``feature_names_in_``."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows held."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X, and so of the products inside a block."""
        ...

    @property
    def units(self) -> Units | None:
        """How a solver should see the columns; None where they are fit for products as they are."""
        ...

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field.

        Arrays and numbers are added in float64; any other field by its own ``+``.
        """
        ...

    def derive(self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False) -> "Engine":
        """Return an engine whose blocks also have the values of ``row_function(X, rows, *parameters)``, by name.

        They are computed inside the block, in every pass. `keep` says that they are dear: an engine with room for them
        computes them once.
        """
        ...

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Return ``row_function(X, rows, *parameters)`` of every block, joined in row order: for predictions.

        `into` is an array, or a memory map, to write them to.
        """
        ...

    def every(self, step: int, first: int = 0) -> "Engine":
        """Return an engine over every `step`-th row from the `first` on, with the values of these rows."""
        ...

    def read_as(self, reading: Reading) -> "Engine":
        """Return an engine over the same rows that reads its blocks in some precision, and knows the columns' units."""
        ...

    def in_units(self) -> "Engine":
        """Return an engine over the same rows whose columns are in their units."""
        ...


def on_device(X: Any) -> bool:
    """Whether a table is an array of another namespace, and scikit-learn was told to leave such arrays where they are.

    Examples
    --------
    >>> on_device(np.eye(2))
    False
    """
    if isinstance(X, np.ndarray) or not get_config()["array_api_dispatch"]:
        return False
    return namespace_of(X) is not np


@singledispatch
def open_rows(X: Any, y: Any = None, sample_weight: Any = None) -> Engine:
    """Return the engine that holds the rows of a table: an open dispatch by the type of `X`.

    A library with tables of its own registers its type::

        @open_rows.register
        def _(X: ShardedTable, y=None, sample_weight=None) -> Engine: ...

    The engine's rows have ``y`` and ``w`` where labels and weights are given, just as they came: whoever opens rows
    checks them. Tables in memory are registered by `scarless.engines.memory`; those of Dask, pyarrow, polars and DuckDB
    that are not in memory are known by name (`known_rows`).
    """
    if (known := known_rows(X)) is not X:
        return open_rows(known, y, sample_weight)
    raise TypeError(
        f"X is a {type(X).__name__}, whose rows no engine knows how to read. Pass an array, a sparse matrix or a data "
        "frame, or register the type with scarless.engines.open_rows."
    )


def has_own_engine(X: Any) -> bool:
    """Whether a table's type was registered with an engine of its own, so that its rows need not be in memory.

    Examples
    --------
    >>> has_own_engine(np.eye(2)), has_own_engine([[1.0], [2.0]])
    (False, False)
    """
    if on_device(X):
        return True
    opener: Any = open_rows.dispatch(type(X))
    if opener is open_rows.dispatch(object):
        return _found_elsewhere(type(X)) is not None
    return not getattr(opener, "in_memory", False)


def known_rows(X: Any) -> Any:
    """Return a table that is registered with `open_rows`: `X` as it is, or rows of ours over another library's table.

    Whoever reads a table several times calls this first: a query is then run once. Tables of ours have
    ``select(names)``, the same rows with some columns.

    Examples
    --------
    >>> X = np.eye(2)
    >>> known_rows(X) is X
    True
    """
    if on_device(X):
        return import_module("scarless.engines.device").device_rows(X)
    registered = open_rows.dispatch(type(X)) is not open_rows.dispatch(object)
    found = None if registered else _found_elsewhere(type(X))
    return X if found is None else getattr(import_module(found[0]), found[1])(X)


def _found_elsewhere(kind: type) -> tuple[str, str] | None:
    names = [(base.__module__.split(".")[0], base.__name__) for base in kind.__mro__]
    return next((_ELSEWHERE[name] for name in names if name in _ELSEWHERE), None)


class MayMiss(str):
    """The name of a column whose gaps mean something: a look that did not take place, a row that nobody checked."""

    __slots__ = ()


class Several(tuple[str, ...]):
    """Names of columns that are read as labels side by side, gaps and all: those of looks, and of an audit.

    Blocks have them as ``y0``, ``y1`` and so on. So they are read where the rows are, and never travel.
    """

    __slots__ = ()


def column_names(*given: str | Several | None) -> list[str]:
    """Return the names of columns that are labels or weights, one by one.

    Examples
    --------
    >>> column_names(Several(["seen_1", "seen_2"]), None, "weight")
    ['seen_1', 'seen_2', 'weight']
    """
    return [name for each in given if each for name in (each if isinstance(each, Several) else (each,))]


def attach(engine: Engine, **values: NDArray[Any]) -> Engine:
    """Return the engine with values per row that someone else has: one for each row of the table, in its order.

    For what users hand over, such as known propensities, and for models that live in memory. To a cluster they are sent
    whole with every pass: what can be read where the rows are should be.
    """
    return engine.derive(_taken, values)


def _taken(X: Any, rows: Rows, values: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {name: value[rows.where] for name, value in values.items()}
