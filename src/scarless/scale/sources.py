"""Tables of other libraries that are not in memory.

Partitions of Dask data frames and arrays are computed by the worker that processes them. Lazy queries (polars
LazyFrames, DuckDB relations) are run once, and their result is written to Parquet files.
"""

import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scarless.engines.base import Engine, LabelColumns, column_names, open_rows
from scarless.outside.extras import need
from scarless.scale.columns import SCALE, PartitionError, choose_names, in_few_bytes, row_names_of
from scarless.scale.engine import PartitionedEngine
from scarless.scale.executors import find_executor
from scarless.scale.parquet import DEFAULT_CACHE_BYTES, DatasetRows, ParquetRows, made_of_files, need_names
from scarless.scale.partitions import Arrays, Cache, Plan, remove_own

GROUP_ROWS = 2**17  # rows in a row group of the result of a query
# In older versions of polars, streaming may change the order of rows. With them, queries are run in memory.
MIN_POLARS_FOR_STREAMING = (1, 25)

# --- tables of Dask


_USER = "A table of Dask"


class DaskTasks(NamedTuple):
    """The Dask tasks that compute one partition of one or more collections."""

    keys: Mapping[str, Any]  # "X", and "y" and "w" if they are separate collections
    graph: Mapping[Any, Any]

    def computed(self) -> dict[str, Any]:
        """Compute the partition in this thread; persisted results are fetched from the cluster."""
        graph = dict(self.graph)
        futures = {key: value for key, value in graph.items() if _is_future(value)}
        if futures:
            graph.update(zip(futures, _fetched(list(futures.values())), strict=True))
        found = need("dask", _USER, "dask").get(graph, list(self.keys.values()))
        return dict(zip(self.keys, found, strict=True))


@dataclass(frozen=True)
class DaskPartition:
    """One partition of a Dask table, with the labels and weights of its rows."""

    number: int
    n_rows: int
    names: tuple[str, ...] | None  # names of columns; None for an array
    label: str | LabelColumns | None  # name of the label column or columns, if they are in the same frame
    weight: str | None
    dtype: str
    keys: str  # Dask's keys, which identify the partition
    tasks: DaskTasks = field(repr=False)

    def load(self) -> Arrays:
        """Compute the partition in this thread, and return its arrays."""
        found = self.tasks.computed()
        for name, values in found.items():
            if values.shape[0] != self.n_rows:
                raise PartitionError(
                    f"{self.place_of()} has {values.shape[0]} {_CALLED[name]}, but had {self.n_rows} when it was first "
                    "computed. A partition must have the same rows every time it is computed. Call persist(), or write "
                    "the table to files."
                )
        looks = self.label if isinstance(self.label, LabelColumns) else ()
        for name, column in (("y", None if looks else self.label), ("w", self.weight)):
            if column is not None:
                found[name] = found["X"][column]
        arrays = {"X": self._attributes(found["X"])}
        if "y" in found:
            arrays["y"] = _labels(found["y"])
        for number, column in enumerate(looks):
            arrays[f"y{number}"] = in_few_bytes(_labels_of_look(found["X"][column]))
        if "w" in found:
            arrays["w"] = self._numbers(found["w"], self.weight or "sample_weight").astype(np.float64)
        return arrays

    def place_of(self, row: int | None = None) -> str:
        """Return the location of the rows, for messages."""
        return f"partition {self.number} of X"

    def _attributes(self, values: Any) -> Any:
        if self.names is None:
            if not isinstance(values, np.ndarray):
                raise PartitionError(
                    f"{self.place_of()} must be a dense NumPy array; got {type(values).__name__}. For sparse arrays, "
                    "use X.map_blocks(lambda block: block.toarray())."
                )
            self._check_kind(values.dtype, "the array")
            return np.asarray(values, dtype=self.dtype)
        transposed = np.empty((len(self.names), self.n_rows), dtype=self.dtype)
        for row, name in zip(transposed, self.names, strict=True):
            row[:] = self._numbers(values[name], name)
        return transposed.T

    def _numbers(self, values: Any, name: str) -> Any:
        self._check_kind(values.dtype, f"the column {name!r}")
        if isinstance(values, np.ndarray):
            return values
        plain = values.dtype.kind in "biuf" and isinstance(values.dtype, np.dtype)
        return values.to_numpy() if plain else values.to_numpy(dtype=np.float64, na_value=np.nan)

    def _check_kind(self, dtype: Any, called: str) -> None:
        if not need("pandas.api.types", _USER, "dask").is_numeric_dtype(dtype) or dtype.kind == "c":
            raise PartitionError(
                f"{self.place_of()}: {called} holds {dtype}, not numbers. Turn it into numbers (astype, or codes of "
                "categories), or leave it out."
            )


_CALLED = {"X": "rows", "y": "labels", "w": "weights"}


class DaskRows:
    """Rows of a dask.dataframe or a dask.array. Each Dask partition, or chunk of rows, becomes one partition.

    The worker that processes a partition computes it in one thread, when it is first needed. The result is cached as
    with files. A persisted table stays on the cluster. Labels and weights are Dask collections with the same partitions
    as the table, matched by position. With a data frame they can also be names of columns. This is faster for files
    with many columns, because only the needed columns are read.
    """

    def __init__(self, table: Any, wanted: Sequence[str] | None = None) -> None:
        self.table = table
        self._wanted = None if wanted is None else tuple(wanted)

    def select(self, columns: Sequence[str]) -> "DaskRows":
        """Return the same rows with these columns, in this order; an array, which has no names, is not changed."""
        return DaskRows(self.table, columns) if self.has_names else self

    @property
    def has_names(self) -> bool:
        """Whether columns have names."""
        return hasattr(self.table, "columns")

    @property
    def column_names(self) -> list[str]:
        """Names of the attributes, if no column is a label or a weight."""
        return self._names(None, None)

    def and_columns(self, added: Mapping[str, Any]) -> "DaskRows":
        """Return the rows with additional columns. Rows are matched by position, so the partitions must be the same."""
        n_partitions = [each.npartitions if hasattr(each, "divisions") else 0 for each in added.values()]
        if not self.has_names or any(n != self.table.npartitions for n in n_partitions):
            raise ValueError(
                "For several looks or audits, X must be a dask.dataframe, and labels and audits must be Dask columns "
                "with the same partitions. Take them from the frame of X, or pass names of columns of X."
            )
        meta = _with_columns(self.table._meta, list(added), *(each._meta for each in added.values()))
        options = {"meta": meta, "align_dataframes": False}
        table = self.table.map_partitions(_with_columns, list(added), *added.values(), **options)
        wanted = self._wanted or [name for name in self.column_names if name not in added]
        return DaskRows(table, wanted)

    def plan(self, y: Any = None, sample_weight: Any = None) -> Plan:
        """Return the partitions of the rows. One pass computes the number of rows of each."""
        label = y if isinstance(y, str | LabelColumns) else None
        weight = sample_weight if isinstance(sample_weight, str) else None
        names = self._names(label, weight)
        given = {"X": self._attributes(names, label, weight), "y": self._vector(y), "w": self._vector(sample_weight)}
        tasks = _tasks_of({name: table for name, table in given.items() if table is not None})
        lengths = _lengths(tasks)
        dtype = _common_type(self.table.dtypes[names]) if self.has_names else _common_type([self.table.dtype])
        sources = [
            DaskPartition(
                number=number,
                n_rows=n_rows,
                names=tuple(names) if self.has_names else None,
                label=label,
                weight=weight,
                dtype=str(dtype),
                keys=repr(tasks[number].keys),
                tasks=tasks[number],
            )
            for number, n_rows in enumerate(lengths)
            if n_rows
        ]
        if not sources:
            raise ValueError("X has no rows.")
        return Plan.of(sources, names, dtype)

    def _names(self, label: Any, weight: str | None) -> list[str]:
        if self.has_names:
            return choose_names(list(self.table.columns), self._wanted, label, weight, "X")
        if self.table.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; this Dask array has {self.table.ndim}.")
        return [f"x{j}" for j in range(self.table.shape[1])]

    def _attributes(self, names: list[str], label: Any, weight: str | None) -> Any:
        if not self.has_names:
            return self.table.rechunk({1: -1})
        return self.table[list(dict.fromkeys([*names, *column_names(label, weight)]))]

    def _vector(self, values: Any) -> Any:
        """Return labels or weights that are a Dask collection; None if there are none, or if they are column names."""
        if values is None or _is_vector(values):
            return values
        if isinstance(values, str | LabelColumns) and self.has_names:
            return None
        raise TypeError(
            "Labels and weights must be a Dask Series, such as X['diagnosed'], or a one-dimensional Dask array, with "
            f"the partitions of X{', or the name of a column of X' if self.has_names else ''}; got "
            f"{'the text ' + repr(values) if isinstance(values, str) else 'a ' + type(values).__name__}. Convert "
            "values in memory with dask.array.from_array(values, chunks=...)."
        )


def dask_rows(X: Any) -> DaskRows:
    """Return the rows of a Dask table."""
    return DaskRows(X)


@open_rows.register
def _open_dask(X: DaskRows, y: Any = None, sample_weight: Any = None) -> Engine:
    engine = PartitionedEngine(X.plan(y, sample_weight), find_executor(), Cache(DEFAULT_CACHE_BYTES))
    if not X.has_names:
        engine.names = None
    return engine


def _with_columns(frame: Any, names: list[str], *columns: Any) -> Any:
    for column in columns:
        if len(column) != len(frame):
            raise ValueError(
                f"A partition of X has {len(frame)} rows but {len(column)} labels or audits; there must be one for "
                "each row. Take X, the labels and the audits from the same frame."
            )
    return frame.assign(**{name: column.array for name, column in zip(names, columns, strict=True)})


def _is_vector(values: Any) -> bool:
    return hasattr(values, "__dask_graph__") and getattr(values, "ndim", 0) == 1


def _tasks_of(given: Mapping[str, Any]) -> list[DaskTasks]:
    """Return the tasks of each partition of collections.

    Several collections are not optimised: this might change their partitions, and tasks that they share might be
    computed twice. A single collection is optimised, so that only its columns are read. The function dask.optimize is
    not used, because it may return the whole frame under the keys of a Series.
    """
    core = need("dask.core", _USER, "dask")
    if len(given) == 1:
        given = {name: table.optimize() if hasattr(table, "optimize") else table for name, table in given.items()}
    keys = {name: list(core.flatten(table.__dask_keys__())) for name, table in given.items()}
    for name, each in keys.items():
        if len(each) != len(keys["X"]):
            raise ValueError(
                f"X has {len(keys['X'])} partitions, but the {_CALLED[name]} have {len(each)}; both must have the "
                "same partitions. Take both from one frame, or use repartition or rechunk."
            )
    graph = {key: task for table in given.values() for key, task in dict(table.__dask_graph__()).items()}
    places = [dict(zip(keys, each, strict=True)) for each in zip(*keys.values(), strict=True)]
    return [DaskTasks(place, _subgraph(graph, list(place.values()), core)) for place in places]


def _subgraph(graph: Mapping[Any, Any], keys: list[Any], core: Any) -> dict[Any, Any]:
    """Return the tasks of a graph that are needed for some keys."""
    found: dict[Any, Any] = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = graph[key]
            if not _is_future(graph[key]):
                waiting += core.get_dependencies(graph, key)
    return found


def _lengths(tasks: list[DaskTasks]) -> list[int]:
    """Return the number of rows of each partition, computed with Dask's current scheduler."""
    dask, delayed = need("dask", _USER, "dask"), need("dask.delayed", _USER, "dask")
    delayed_heights = []
    for each in tasks:
        values = {name: delayed.Delayed(key, each.graph) for name, key in each.keys.items()}
        delayed_heights.append({name: dask.delayed(_height)(value) for name, value in values.items()})
    (found,) = dask.compute(delayed_heights)
    for number, heights in enumerate(found):
        for name, height in heights.items():
            if height != heights["X"]:
                raise ValueError(
                    f"Partition {number} of X has {heights['X']} rows but {height} {_CALLED[name]}; there must be one "
                    "for each row. Take both from one frame, or give them the same partitions (repartition, rechunk)."
                )
    return [heights["X"] for heights in found]


def _height(values: Any) -> int:
    return int(values.shape[0])  # `len` does not work for sparse matrices.


def _common_type(kinds: Any) -> np.dtype[Any]:
    small = all(str(kind).lower() in ("float32", "float16", "float[pyarrow]") for kind in kinds)
    return np.dtype(np.float32 if small and len(kinds) else np.float64)


def _labels(values: Any) -> Any:
    """Return labels as an array of numbers or text; if text has missing values, as an array of objects.

    The missing values are reported later.
    """
    plain = np.asarray(values)
    if not plain.dtype.hasobject or need("pandas", _USER, "dask").isna(plain).any():
        return plain
    return np.array(plain.tolist())


def _labels_of_look(values: Any) -> Any:
    """Return labels of a look as an array; missing values among numbers become NaN."""
    types = need("pandas.api.types", _USER, "dask")
    if types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    plain = np.asarray(values)
    return _labels(values) if plain.dtype.hasobject else plain


def _is_future(value: Any) -> bool:
    return type(value).__module__.startswith("distributed.") and type(value).__name__ == "Future"


def _fetched(futures: list[Any]) -> list[Any]:
    """Return the results of futures; a worker lets other tasks run while it waits."""
    distributed = need("distributed", _USER, "dask")
    try:
        distributed.get_worker()
    except ValueError:
        return [future.result() for future in futures]
    with distributed.worker_client() as client:
        # Futures inside a task have no client, and the scheduler does not know that this worker needs them. It keeps
        # and sends them if they are arguments of a task that this worker's client submits.
        known = [distributed.Future(future.key, client) for future in futures]
        return list(client.gather([client.submit(_identity, future, pure=False) for future in known]))


def _identity(values: Any) -> Any:
    return values


# --- queries


Write = Callable[[list[str], str], None]  # function that writes some columns of a query to a Parquet file


class ScratchFolder:
    """Temporary folder that is removed when this object is deleted; copies in other processes do not remove it."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="scarless-query-")
        weakref.finalize(self, remove_own, self.folder, os.getpid())


class QueryRows:
    """Rows of a query, which is run once and written to a temporary Parquet file.

    A fit needs many passes, and a query may be slow, or return its rows in another order the next time. The file holds
    only the needed columns. It is in the system's temporary folder (environment variable ``TMPDIR``). It is
    removed when these rows and all engines over them have been deleted. Other machines of a cluster cannot read the
    file: for a cluster, write Parquet files to a shared folder, and use `ParquetRows`.
    """

    def __init__(self, kind: str, names: Sequence[str], write: Write, row_names: frozenset[str] = frozenset()) -> None:
        self.kind, self.names, self.row_names = kind, tuple(names), row_names
        self._write: Write | None = write
        self._wanted: tuple[str, ...] | None = None
        self._results: list[tuple[frozenset[str], ScratchFolder]] = []  # columns and files; shared by selections

    def select(self, columns: Sequence[str]) -> "QueryRows":
        """Return the same rows with these attributes, in this order."""
        other = object.__new__(QueryRows)
        vars(other).update({**vars(self), "_wanted": tuple(columns)})
        return other

    @property
    def column_names(self) -> list[str]:
        """Names of the attributes, if no column is a label or a weight."""
        return choose_names(self.names, self._wanted, None, None, f"The {self.kind}", self.row_names)

    def opened(self, label: str | LabelColumns | None, weight: str | None) -> Engine:
        """Return the engine over the rows. The file is not removed before the engine is deleted."""
        attributes = choose_names(self.names, self._wanted, label, weight, f"The {self.kind}", self.row_names)
        needed = list(dict.fromkeys([*attributes, *column_names(label, weight)]))
        scratch = self._result(needed or list(self.names[:1]))  # at least one column, to count the rows
        rows = ParquetRows(scratch.folder, columns=attributes)
        rows._called = f"the result of the {self.kind}"
        engine: Any = open_rows(rows, label, weight)
        engine.scratch = scratch
        return engine

    def _result(self, columns: list[str]) -> ScratchFolder:
        for written, scratch in self._results:
            if written.issuperset(columns):
                return scratch
        if self._write is None:
            raise ValueError(
                f"This {self.kind} was sent from another process, where not all of the columns {', '.join(columns)} "
                "were read. Read them there first, or write the table to Parquet files."
            )
        scratch = ScratchFolder()
        self._write(columns, str(Path(scratch.folder, "result.parquet")))
        self._results.append((frozenset(columns), scratch))
        return scratch

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the query, because a connection to a database cannot be pickled."""
        return {**vars(self), "_write": None}


@open_rows.register
def _open_query(X: QueryRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names(f"a {X.kind}", "query", y=y, sample_weight=sample_weight)
    return X.opened(y, sample_weight)


def lazy_frame_rows(X: Any) -> QueryRows:
    """Return the rows of a polars LazyFrame."""
    polars = sys.modules["polars"]  # It is imported already, because X is one of its frames.

    def write(columns: list[str], path: str) -> None:
        wanted = X.select(columns)
        try:
            if _version_of(polars) < MIN_POLARS_FOR_STREAMING:
                raise polars.exceptions.InvalidOperationError("streaming does not keep the order of rows")
            wanted.sink_parquet(path, row_group_size=GROUP_ROWS)
        except polars.exceptions.InvalidOperationError:  # Older versions cannot stream every query.
            wanted.collect().write_parquet(path, row_group_size=GROUP_ROWS)

    return QueryRows("LazyFrame", X.collect_schema().names(), write)


def _version_of(polars: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in polars.__version__.split(".")[:2] if part.isdigit())


def relation_rows(X: Any) -> QueryRows:
    """Return the rows of a DuckDB relation."""

    def write(columns: list[str], path: str) -> None:
        quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
        X.project(", ".join(quoted)).write_parquet(path, row_group_size=GROUP_ROWS)

    return QueryRows("DuckDB relation", X.columns, write)


def _scanned_rows(X: Any) -> QueryRows:
    """Return the rows of a pyarrow Dataset that does not consist of files."""
    parquet = need("pyarrow.parquet", "a pyarrow Dataset", SCALE)

    def write(columns: list[str], path: str) -> None:
        scanner = X.scanner(columns=columns, use_threads=False)
        with parquet.ParquetWriter(path, scanner.projected_schema) as file:
            for batch in scanner.to_batches():
                file.write_batch(batch, row_group_size=GROUP_ROWS)

    return QueryRows("pyarrow Dataset", X.schema.names, write, row_names_of(X.schema))


def dataset_rows(X: Any) -> DatasetRows | QueryRows:
    """Return the rows of a pyarrow Dataset: from its files or, if it has no files, from a scan."""
    return DatasetRows(X) if made_of_files(X) else _scanned_rows(X)
