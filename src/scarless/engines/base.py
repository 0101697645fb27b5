"""The interface between models and the storage of rows.

A model passes a *block function* to an engine. The engine applies it to every block of its rows and adds up the results
in a fixed order. The engine also holds values per row: labels, weights, targets, out-of-fold logits. A model can define
further values per row by a function of a block, which the engine calls inside the block. An engine can hold its rows in
memory, in files or on other machines. Models use only this interface.
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
# For table types of other libraries, the module and the function that convert them to a registered table without
# reading the rows. The modules are imported only when such a table is used.
_LIBRARY_TABLES = {
    ("dask", "DataFrame"): ("scarless.scale.sources", "dask_rows"),
    ("dask_expr", "DataFrame"): ("scarless.scale.sources", "dask_rows"),
    ("dask", "Array"): ("scarless.scale.sources", "dask_rows"),
    ("pyarrow", "Dataset"): ("scarless.scale.sources", "dataset_rows"),
    ("polars", "LazyFrame"): ("scarless.scale.sources", "lazy_frame_rows"),
    ("duckdb", "DuckDBPyRelation"): ("scarless.scale.sources", "relation_rows"),
    ("_duckdb", "DuckDBPyRelation"): ("scarless.scale.sources", "relation_rows"),
}


class Rows(dict[str, Any]):
    """Values per row of one block, by name; the slice `where` has the positions of the rows in the table.

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
        """The positions of the rows in the table."""
        return np.arange(self.where.start, self.where.stop, self.where.step)

    @property
    def size(self) -> int:
        """Number of rows of the block."""
        return len(range(self.where.start, self.where.stop, self.where.step))

    def take(self, here: slice) -> "Rows":
        """Return the values of some of these rows; `here` is a slice of positions within the block."""
        inside = range(self.where.start, self.where.stop, self.where.step)[here]
        where = slice(inside.start, inside.stop, inside.step)
        return Rows({name: values[here] for name, values in self.items()}, where)


class Engine(Protocol):
    """Interface of objects that hold rows and compute sums over them.

    To support another kind of table, write a class with these members and register the type of the table with
    `open_rows`. The page "Extend it" has a complete example. `Preparation` and `add_up` do the common work on blocks.
    """

    @property
    def names(self) -> list[str] | None:
        """Names of the columns of X, or None. A fit stores them as ``feature_names_in_``."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X, and of products inside a block."""
        ...

    @property
    def units(self) -> Units | None:
        """Shift and scale of the columns for the solver; None if the columns need none."""
        ...

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field.

        Arrays and numbers are added in float64; other fields by their own ``+``.
        """
        ...

    def derive(self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False) -> "Engine":
        """Return an engine whose blocks also have the values of ``row_function(X, rows, *parameters)``, by name.

        The values are computed inside the block in every pass. With `keep`, an engine with enough memory computes them
        once.
        """
        ...

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Return ``row_function(X, rows, *parameters)`` of every block, joined in row order, for predictions.

        `into` is an array or a memory map to write the values to.
        """
        ...

    def every(self, step: int, first: int = 0) -> "Engine":
        """Return an engine over every `step`-th row, starting at row `first`, with the values of these rows."""
        ...

    def read_as(self, reading: Reading) -> "Engine":
        """Return an engine over the same rows with another precision of its blocks and other units of its columns."""
        ...

    def in_units(self) -> "Engine":
        """Return an engine over the same rows whose columns are shifted and scaled by their units."""
        ...


def on_device(X: Any) -> bool:
    """Return whether a table is an array of another library and scikit-learn's array API dispatch is switched on.

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
    """Return the engine that holds the rows of a table, by single dispatch on the type of `X`.

    A library registers the type of its tables::

        @open_rows.register
        def _(X: ShardedTable, y=None, sample_weight=None) -> Engine: ...

    If labels and weights are given, the rows of the engine have them as ``y`` and ``w``. They are not checked here; the
    caller checks them. Tables in memory are registered by `scarless.engines.memory`. Tables of Dask, pyarrow, polars
    and DuckDB that are not in memory are recognised by the names of their types (`known_rows`).
    """
    if (known := known_rows(X)) is not X:
        return open_rows(known, y, sample_weight)
    raise TypeError(
        f"X is a {type(X).__name__}, and no engine can read its rows. Pass an array, a sparse matrix or a data "
        "frame, or register the type with scarless.engines.open_rows."
    )


def has_own_engine(X: Any) -> bool:
    """Return whether the type of a table has its own engine, so that its rows need not be in memory.

    Examples
    --------
    >>> has_own_engine(np.eye(2)), has_own_engine([[1.0], [2.0]])
    (False, False)
    """
    if on_device(X):
        return True
    opener: Any = open_rows.dispatch(type(X))
    if opener is open_rows.dispatch(object):
        return _opener_of_library(type(X)) is not None
    return not getattr(opener, "in_memory", False)


def known_rows(X: Any) -> Any:
    """Return a table whose type is registered with `open_rows`: `X` itself, or a wrapper of another library's table.

    If a table is read several times, call this function once and use its result; a query then runs only once. The
    wrappers have the method ``select(names)``, which returns the same rows with some columns.

    Examples
    --------
    >>> X = np.eye(2)
    >>> known_rows(X) is X
    True
    """
    if on_device(X):
        return import_module("scarless.engines.device").device_rows(X)
    registered = open_rows.dispatch(type(X)) is not open_rows.dispatch(object)
    found = None if registered else _opener_of_library(type(X))
    return X if found is None else getattr(import_module(found[0]), found[1])(X)


def _opener_of_library(kind: type) -> tuple[str, str] | None:
    names = [(base.__module__.split(".")[0], base.__name__) for base in kind.__mro__]
    return next((_LIBRARY_TABLES[name] for name in names if name in _LIBRARY_TABLES), None)


class MayMiss(str):
    """The name of a column in which missing values have a meaning: no look took place, or the row was not audited."""

    __slots__ = ()


class Several(tuple[str, ...]):
    """Names of several label columns: the columns of the looks, and of an audit. They may have missing values.

    The engine reads these columns together with the rows. Blocks have them as ``y0``, ``y1`` and so on.
    """

    __slots__ = ()


def column_names(*given: str | Several | None) -> list[str]:
    """Return the names of label and weight columns as a flat list.

    Examples
    --------
    >>> column_names(Several(["seen_1", "seen_2"]), None, "weight")
    ['seen_1', 'seen_2', 'weight']
    """
    return [name for each in given if each for name in (each if isinstance(each, Several) else (each,))]


def attach(engine: Engine, **values: NDArray[Any]) -> Engine:
    """Return the engine with additional values per row, given as arrays with one value for each row of the table.

    Use it for values that users pass, such as known propensities, and for models in memory. A cluster gets the whole
    arrays in every pass; values that the engine can read itself should not be attached.
    """
    return engine.derive(_taken, values)


def _taken(X: Any, rows: Rows, values: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {name: value[rows.where] for name, value in values.items()}
