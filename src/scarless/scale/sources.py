"""Tables of other libraries that are not in memory.

Partitions of Dask's data frames and arrays are computed where they are walked. Queries that have not been run (polars
LazyFrames, DuckDB relations) are run once, into Parquet files.
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

from scarless.engines.base import Engine, Several, column_names, open_rows
from scarless.outside.extras import need
from scarless.scale.columns import SCALE, PartitionError, choose_names, in_few_bytes, row_names_of
from scarless.scale.engine import PartitionedEngine
from scarless.scale.executors import find_executor
from scarless.scale.parquet import DEFAULT_CACHE_BYTES, DatasetRows, ParquetRows, made_of_files, need_names
from scarless.scale.partitions import Arrays, Cache, Plan, remove_own

GROUP_ROWS = 2**17  # of a file of ours
# Before this version of polars, streams may mix up the order of rows: queries are then run in memory.
POLARS_STREAMS_IN_ORDER = (1, 25)

# --- tables of Dask


_USER = "A table of Dask"


class Piece(NamedTuple):
    """One partition of one or more Dask collections: what computes it, and no more."""

    keys: Mapping[str, Any]  # "X", and "y" and "w" where they are collections of their own
    graph: Mapping[Any, Any]

    def computed(self) -> dict[str, Any]:
        """Return the partition, computed in this thread; what a cluster holds already is fetched from it."""
        graph = dict(self.graph)
        futures = {key: value for key, value in graph.items() if _is_future(value)}
        if futures:
            graph.update(zip(futures, _fetched(list(futures.values())), strict=True))
        found = need("dask", _USER, "dask").get(graph, list(self.keys.values()))
        return dict(zip(self.keys, found, strict=True))


@dataclass(frozen=True)
class DaskPart:
    """One partition of a Dask table, with the labels and weights of its rows."""

    number: int
    n_rows: int
    names: tuple[str, ...] | None  # of columns; None for an array
    label: str | Several | None  # where it is a column of the same frame
    weight: str | None
    dtype: str
    keys: str  # Dask's own names, which say what the piece is
    piece: Piece = field(repr=False)

    def load(self) -> Arrays:
        """Compute the partition in this thread."""
        found = self.piece.computed()
        for name, values in found.items():
            if values.shape[0] != self.n_rows:
                raise PartitionError(
                    f"{self.place_of()} has {values.shape[0]} {_CALLED[name]} when it is computed, and had "
                    f"{self.n_rows}: it must give the same rows whenever it is computed. persist() it, or write it to "
                    "files."
                )
        looks = self.label if isinstance(self.label, Several) else ()
        for name, column in (("y", None if looks else self.label), ("w", self.weight)):
            if column is not None:
                found[name] = found["X"][column]
        arrays = {"X": self._attributes(found["X"])}
        if "y" in found:
            arrays["y"] = _labels(found["y"])
        for number, column in enumerate(looks):
            arrays[f"y{number}"] = in_few_bytes(_with_gaps(found["X"][column]))
        if "w" in found:
            arrays["w"] = self._numbers(found["w"], self.weight or "sample_weight").astype(np.float64)
        return arrays

    def place_of(self, row: int | None = None) -> str:
        """Return where the rows are, in words."""
        return f"partition {self.number} of X"

    def _attributes(self, values: Any) -> Any:
        if self.names is None:
            if not isinstance(values, np.ndarray):
                raise PartitionError(
                    f"{self.place_of()} is a {type(values).__name__}; dense numpy arrays are needed: "
                    "X.map_blocks(lambda block: block.toarray()) where they are sparse."
                )
            self._check_kind(values.dtype, "X")
            return np.asarray(values, dtype=self.dtype)
        below = np.empty((len(self.names), self.n_rows), dtype=self.dtype)
        for row, name in zip(below, self.names, strict=True):
            row[:] = self._numbers(values[name], name)
        return below.T

    def _numbers(self, values: Any, name: str) -> Any:
        self._check_kind(values.dtype, name)
        if isinstance(values, np.ndarray):
            return values
        plain = values.dtype.kind in "biuf" and isinstance(values.dtype, np.dtype)
        return values.to_numpy() if plain else values.to_numpy(dtype=np.float64, na_value=np.nan)

    def _check_kind(self, dtype: Any, name: str) -> None:
        if not need("pandas.api.types", _USER, "dask").is_numeric_dtype(dtype) or dtype.kind == "c":
            raise PartitionError(
                f"{self.place_of()}: the column {name!r} holds {dtype}, not numbers. Turn it into numbers "
                "(astype, or codes of categories), or leave it out."
            )


_CALLED = {"X": "rows", "y": "labels", "w": "weights"}


class DaskRows:
    """The rows of a dask.dataframe or a dask.array: each of its partitions, or chunks of rows, is one of ours.

    A partition is computed by whoever walks it, in one thread, the first time it is needed; what becomes of it is kept
    as with files. On a cluster a persisted table stays there. Labels and weights are Dask collections that are cut as
    the table is, and belong to its rows by position; or, with a data frame, names of its columns. By name is the
    quicker way for a wide file: then the columns that are not needed are not read.
    """

    def __init__(self, table: Any, wanted: Sequence[str] | None = None) -> None:
        self.table = table
        self._wanted = None if wanted is None else tuple(wanted)

    def select(self, columns: Sequence[str]) -> "DaskRows":
        """Return the same rows with these columns, in this order; an array, whose columns have no names, as it is."""
        return DaskRows(self.table, columns) if self.has_names else self

    @property
    def has_names(self) -> bool:
        """Whether columns have names."""
        return hasattr(self.table, "columns")

    @property
    def column_names(self) -> list[str]:
        """The attributes, where no column is a label or a weight."""
        return self._names(None, None)

    def and_columns(self, added: Mapping[str, Any]) -> "DaskRows":
        """Return the same rows with columns of other frames, cut as this one is, beside them, by position."""
        n_cuts = [each.npartitions if hasattr(each, "divisions") else 0 for each in added.values()]
        if not self.has_names or any(n != self.table.npartitions for n in n_cuts):
            raise ValueError(
                "Labels at looks, and audits, of Dask go with a dask.dataframe that is cut as they are: each of its "
                "partitions needs one with the values of its rows. Take all from one frame, or name its columns."
            )
        meta = _beside(self.table._meta, list(added), *(each._meta for each in added.values()))
        options = {"meta": meta, "align_dataframes": False}
        table = self.table.map_partitions(_beside, list(added), *added.values(), **options)
        wanted = self._wanted or [name for name in self.column_names if name not in added]
        return DaskRows(table, wanted)

    def plan(self, y: Any = None, sample_weight: Any = None) -> Plan:
        """Return the pieces in which the rows are walked; how many rows each has is found in one pass."""
        label = y if isinstance(y, str | Several) else None
        weight = sample_weight if isinstance(sample_weight, str) else None
        names = self._names(label, weight)
        given = {"X": self._attributes(names, label, weight), "y": self._vector(y), "w": self._vector(sample_weight)}
        pieces = _pieces({name: table for name, table in given.items() if table is not None})
        lengths = _lengths(pieces)
        dtype = _common_type(self.table.dtypes[names]) if self.has_names else _common_type([self.table.dtype])
        sources = [
            DaskPart(
                number=number,
                n_rows=n_rows,
                names=tuple(names) if self.has_names else None,
                label=label,
                weight=weight,
                dtype=str(dtype),
                keys=repr(pieces[number].keys),
                piece=pieces[number],
            )
            for number, n_rows in enumerate(lengths)
            if n_rows
        ]
        if not sources:
            raise ValueError("No partition of X has a row.")
        return Plan.of(sources, names, dtype)

    def _names(self, label: Any, weight: str | None) -> list[str]:
        if self.has_names:
            return choose_names(list(self.table.columns), self._wanted, label, weight, "X")
        if self.table.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; this dask array has {self.table.ndim}.")
        return [f"x{j}" for j in range(self.table.shape[1])]

    def _attributes(self, names: list[str], label: Any, weight: str | None) -> Any:
        if not self.has_names:
            return self.table.rechunk({1: -1})
        return self.table[list(dict.fromkeys([*names, *column_names(label, weight)]))]

    def _vector(self, values: Any) -> Any:
        """Return labels or weights that are a Dask collection; None for those that are not given, or are columns."""
        if values is None or _is_vector(values):
            return values
        if isinstance(values, str | Several) and self.has_names:
            return None
        raise TypeError(
            f"With a table of Dask labels and weights are Dask's too, cut as the table is: a Series such as "
            f"X['diagnosed'], a one-dimensional array{', or the name of a column of X' if self.has_names else ''}; got "
            f"{'the text ' + repr(values) if isinstance(values, str) else 'a ' + type(values).__name__}. Of values in "
            "memory make one: dask.array.from_array(values, chunks=...)."
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


def _beside(frame: Any, names: list[str], *columns: Any) -> Any:
    for column in columns:
        if len(column) != len(frame):
            raise ValueError(
                f"A partition of X has {len(frame)} rows, and {len(column)} labels or audits: one is needed for each "
                "row. Take all of them from one frame."
            )
    return frame.assign(**{name: column.array for name, column in zip(names, columns, strict=True)})


def _is_vector(values: Any) -> bool:
    return hasattr(values, "__dask_graph__") and getattr(values, "ndim", 0) == 1


def _pieces(given: Mapping[str, Any]) -> list[Piece]:
    """Return the partitions of collections, side by side, each with the part of the graph that computes it.

    Several collections are taken as they are: optimised, each might be cut anew, and what they share computed twice. Of
    one alone, only the columns that it has are read. (Not by dask.optimize, which may return, under the keys of a
    Series, the frames that it is taken from.)
    """
    core = need("dask.core", _USER, "dask")
    if len(given) == 1:
        given = {name: table.optimize() if hasattr(table, "optimize") else table for name, table in given.items()}
    keys = {name: list(core.flatten(table.__dask_keys__())) for name, table in given.items()}
    for name, each in keys.items():
        if len(each) != len(keys["X"]):
            raise ValueError(
                f"X has {len(keys['X'])} partitions and the {_CALLED[name]} have {len(each)}: each partition of X "
                "needs one with the values of its rows. Take both from one frame, or cut them alike (repartition, "
                "rechunk)."
            )
    graph = {key: task for table in given.values() for key, task in dict(table.__dask_graph__()).items()}
    places = [dict(zip(keys, each, strict=True)) for each in zip(*keys.values(), strict=True)]
    return [Piece(place, _what_computes(graph, list(place.values()), core)) for place in places]


def _what_computes(graph: Mapping[Any, Any], keys: list[Any], core: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    ahead = list(keys)
    while ahead:
        at = ahead.pop()
        if at not in found:
            found[at] = graph[at]
            if not _is_future(graph[at]):
                ahead += core.get_dependencies(graph, at)
    return found


def _lengths(pieces: list[Piece]) -> list[int]:
    """Return how many rows each partition has, by whatever Dask computes with: a cluster, or threads."""
    dask, delayed = need("dask", _USER, "dask"), need("dask.delayed", _USER, "dask")
    asked = []
    for piece in pieces:
        parts = {name: delayed.Delayed(key, piece.graph) for name, key in piece.keys.items()}
        asked.append({name: dask.delayed(_height)(part) for name, part in parts.items()})
    (found,) = dask.compute(asked)
    for number, heights in enumerate(found):
        for name, height in heights.items():
            if height != heights["X"]:
                raise ValueError(
                    f"Partition {number} of X has {heights['X']} rows and {height} {_CALLED[name]}: one is needed for "
                    "each row. Take both from one frame, or cut them alike (repartition, rechunk)."
                )
    return [heights["X"] for heights in found]


def _height(values: Any) -> int:
    return int(values.shape[0])  # sparse matrices have no length


def _common_type(kinds: Any) -> np.dtype[Any]:
    small = all(str(kind).lower() in ("float32", "float16", "float[pyarrow]") for kind in kinds)
    return np.dtype(np.float32 if small and len(kinds) else np.float64)


def _labels(values: Any) -> Any:
    """Return labels as an array of numbers or text; one that has gaps stays as it is, and is told of with its row."""
    plain = np.asarray(values)
    if not plain.dtype.hasobject or need("pandas", _USER, "dask").isna(plain).any():
        return plain
    return np.array(plain.tolist())


def _with_gaps(values: Any) -> Any:
    """Return labels of a look as an array, of whatever kind; numbers with gaps, as pandas has several, with NaN."""
    types = need("pandas.api.types", _USER, "dask")
    if types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    plain = np.asarray(values)
    return _labels(values) if plain.dtype.hasobject else plain


def _is_future(value: Any) -> bool:
    return type(value).__module__.startswith("distributed.") and type(value).__name__ == "Future"


def _fetched(futures: list[Any]) -> list[Any]:
    """Return what a cluster holds; a worker lets others work while it waits."""
    distributed = need("distributed", _USER, "dask")
    try:
        distributed.get_worker()
    except ValueError:
        return [future.result() for future in futures]
    with distributed.worker_client() as client:
        # Those that came inside a task know no client, and nobody told the scheduler that they are wanted here: as
        # arguments of a task of this worker's client they are.
        known = [distributed.Future(future.key, client) for future in futures]
        return list(client.gather([client.submit(_itself, future, pure=False) for future in known]))


def _itself(values: Any) -> Any:
    return values


# --- queries


Write = Callable[[list[str], str], None]  # some columns of a query, as one Parquet file


class Scratch:
    """A folder that is there as long as this object is; copies of it, in other processes, leave it alone."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="scarless-query-")
        weakref.finalize(self, remove_own, self.folder, os.getpid())


class QueryRows:
    """The rows of a query, which is run once: streamed into a Parquet file, that is then read like any other.

    A fit walks its rows many times, and a query may be dear, or give its rows in another order the next time. The file
    holds the columns that are asked for, lies in the system's folder for temporary files (the environment variable
    ``TMPDIR`` names another), and is removed when neither these rows nor any engine over them are needed. A cluster of
    several machines cannot read it: write Parquet files to where all see them, and use `ParquetRows`.
    """

    def __init__(self, kind: str, names: Sequence[str], write: Write, row_names: frozenset[str] = frozenset()) -> None:
        self.kind, self.names, self.row_names = kind, tuple(names), row_names
        self._write: Write | None = write
        self._wanted: tuple[str, ...] | None = None
        self._results: list[tuple[frozenset[str], Scratch]] = []  # by the columns they have; shared by selections

    def select(self, columns: Sequence[str]) -> "QueryRows":
        """Return the same rows with these attributes, in this order."""
        other = object.__new__(QueryRows)
        vars(other).update({**vars(self), "_wanted": tuple(columns)})
        return other

    @property
    def column_names(self) -> list[str]:
        """The attributes, where no column is a label or a weight."""
        return choose_names(self.names, self._wanted, None, None, f"The {self.kind}", self.row_names)

    def opened(self, label: str | Several | None, weight: str | None) -> Engine:
        """Return the engine over the rows; it keeps the file."""
        attributes = choose_names(self.names, self._wanted, label, weight, f"The {self.kind}", self.row_names)
        needed = list(dict.fromkeys([*attributes, *column_names(label, weight)]))
        scratch = self._result(needed or list(self.names[:1]))  # rows are counted by some column
        rows = ParquetRows(scratch.folder, columns=attributes)
        rows._called = f"the result of the {self.kind}"
        engine: Any = open_rows(rows, label, weight)
        engine.scratch = scratch
        return engine

    def _result(self, columns: list[str]) -> Scratch:
        for there, scratch in self._results:
            if there.issuperset(columns):
                return scratch
        if self._write is None:
            raise ValueError(f"This {self.kind} came from another process, and only what was read of it came along.")
        scratch = Scratch()
        self._write(columns, str(Path(scratch.folder, "result.parquet")))
        self._results.append((frozenset(columns), scratch))
        return scratch

    def __getstate__(self) -> dict[str, Any]:
        """Leave the query behind: a connection to a database cannot go to another process."""
        return {**vars(self), "_write": None}


@open_rows.register
def _open_query(X: QueryRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names(f"a {X.kind}", "query", y=y, sample_weight=sample_weight)
    return X.opened(y, sample_weight)


def lazy_frame_rows(X: Any) -> QueryRows:
    """Return the rows of a polars LazyFrame."""
    polars = sys.modules["polars"]  # whose frame it is

    def write(columns: list[str], path: str) -> None:
        wanted = X.select(columns)
        try:
            if _version_of(polars) < POLARS_STREAMS_IN_ORDER:
                raise polars.exceptions.InvalidOperationError("streams of several files come in any order")
            wanted.sink_parquet(path, row_group_size=GROUP_ROWS)
        except polars.exceptions.InvalidOperationError:  # older versions cannot stream every query
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
    """Return the rows of a pyarrow Dataset that is not made of files."""
    parquet = need("pyarrow.parquet", "a pyarrow Dataset", SCALE)

    def write(columns: list[str], path: str) -> None:
        scanner = X.scanner(columns=columns, use_threads=False)
        with parquet.ParquetWriter(path, scanner.projected_schema) as file:
            for batch in scanner.to_batches():
                file.write_batch(batch, row_group_size=GROUP_ROWS)

    return QueryRows("pyarrow Dataset", X.schema.names, write, row_names_of(X.schema))


def dataset_rows(X: Any) -> DatasetRows | QueryRows:
    """Return the rows of a pyarrow Dataset: of its files, or what a scan gives where it is not made of files."""
    return DatasetRows(X) if made_of_files(X) else _scanned_rows(X)
