"""The interface between models and the storage of rows.

A model passes a *block function* to an engine. The engine applies it to every block of its rows and adds up the results
in a fixed order. For each row, the engine also stores values such as the label, the weight and out-of-fold logits. A
model can define more such values with a *row function*, which the engine also applies block by block. The rows can be
in memory, in files or on other machines: models use only this interface.
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
# Keys: library and type of a table. Values: module and name of the function that wraps such a table in a type that
# `open_rows` knows. Wrapping reads no rows. The modules are imported only when they are needed.
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
    """Values of the rows of one block, by name. The slice `where` gives the positions of these rows in the table.

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
        """Positions of the rows in the table."""
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
    """Interface of objects that store rows and compute sums over them.

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
        """Shift and scale of the columns for the solver; None if no column has to be shifted or scaled."""
        ...

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field.

        Arrays and numbers are added in float64; other fields by their own ``+``.
        """
        ...

    def derive(self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False) -> "Engine":
        """Return an engine whose rows also have the values that ``row_function(X, rows, *parameters)`` returns.

        The values are computed again in every pass. With ``keep=True``, an engine that has enough memory computes them
        once and stores them.
        """
        ...

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Apply ``row_function(X, rows, *parameters)`` to every block, and return the values of all rows in order.

        Used for predictions. `into` is an array or a memory map to write the values to.
        """
        ...

    def every(self, step: int, first: int = 0) -> "Engine":
        """Return an engine over every `step`-th row, starting at row `first`, with the values of these rows."""
        ...

    def read_as(self, reading: Reading) -> "Engine":
        """Return an engine that reads the same rows with the precision and the units of `reading`."""
        ...

    def in_units(self) -> "Engine":
        """Return an engine over the same rows with the columns shifted and scaled by `units`."""
        ...


def on_device(X: Any) -> bool:
    """Return whether a table is an array of a library other than NumPy, and scikit-learn's array API dispatch is on.

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
    """Return an engine for the rows of a table. The type of `X` selects the engine (single dispatch).

    To support another type of table, register a function for it::

        @open_rows.register
        def _(X: ShardedTable, y=None, sample_weight=None) -> Engine: ...

    If labels and weights are given, the rows of the engine have them as ``y`` and ``w``. The caller must check them
    first. `scarless.engines.memory` registers NumPy arrays and sparse matrices. Tables of Dask, pyarrow, polars and
    DuckDB that are not in memory are recognised by the names of their types (`known_rows`).
    """
    if (known := known_rows(X)) is not X:
        return open_rows(known, y, sample_weight)
    raise TypeError(
        f"X has the type {type(X).__name__}, and no engine can read its rows. Pass a NumPy array or a sparse matrix, "
        "or register a function for this type with scarless.engines.open_rows.register."
    )


def has_own_engine(X: Any) -> bool:
    """Return whether the table's engine can read rows from outside main memory: from files, a GPU or a cluster.

    The result is False for NumPy arrays, for sparse matrices, and for types without an engine.

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

    A polars LazyFrame, for example, is a query. If you read it several times, call this function once and use its
    result; otherwise the query runs each time. The method ``select(names)`` of a wrapper returns the same rows with
    only these columns.

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


class NullableColumn(str):
    """Name of a label or audit column. Values may be missing, for looks that did not take place or rows not audited."""

    __slots__ = ()


class LabelColumns(tuple[str, ...]):
    """Names of several label columns, one for each look and one for the audits. They may have missing values.

    The rows of the engine have these columns as ``y0``, ``y1`` and so on.
    """

    __slots__ = ()


def column_names(*given: str | LabelColumns | None) -> list[str]:
    """Return the names of label and weight columns as a flat list.

    Examples
    --------
    >>> column_names(LabelColumns(["seen_1", "seen_2"]), None, "weight")
    ['seen_1', 'seen_2', 'weight']
    """
    return [name for each in given if each for name in (each if isinstance(each, LabelColumns) else (each,))]


def attach(engine: Engine, **values: NDArray[Any]) -> Engine:
    """Return an engine with additional values, given as arrays with one value for each row of the table.

    Use it for values that users pass, such as known propensities, and for tables in memory. On a cluster, the whole
    arrays are sent to the workers in every pass, so do not attach values that the engine can read itself.
    """
    return engine.derive(_values_of_block, values)


def _values_of_block(X: Any, rows: Rows, values: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {name: value[rows.where] for name, value in values.items()}
