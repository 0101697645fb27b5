"""Queries that have not been run: polars LazyFrames and DuckDB relations, each run once into Parquet files."""

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scarless.engines.base import Engine, Several, column_names, open_rows
from scarless.outside.extras import need
from scarless.scale.columns import SCALE, choose_names, row_names_of
from scarless.scale.parquet import ParquetRows, need_names

_GROUP_ROWS = 2**17  # of a file of ours
_IN_ORDER = (1, 25)  # of polars: before, streams may mix up the order of rows, and are read in memory instead

Write = Callable[[list[str], str], None]  # some columns of a query, as one Parquet file


class Scratch:
    """A folder that is there as long as this object is; copies of it, in other processes, leave it alone."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="scarless-query-")
        weakref.finalize(self, _remove, self.folder, os.getpid())


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


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
            if _version_of(polars) < _IN_ORDER:
                raise polars.exceptions.InvalidOperationError("streams of several files come in any order")
            wanted.sink_parquet(path, row_group_size=_GROUP_ROWS)
        except polars.exceptions.InvalidOperationError:  # older versions cannot stream every query
            wanted.collect().write_parquet(path, row_group_size=_GROUP_ROWS)

    return QueryRows("LazyFrame", X.collect_schema().names(), write)


def _version_of(polars: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in polars.__version__.split(".")[:2] if part.isdigit())


def relation_rows(X: Any) -> QueryRows:
    """Return the rows of a DuckDB relation."""

    def write(columns: list[str], path: str) -> None:
        quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
        X.project(", ".join(quoted)).write_parquet(path, row_group_size=_GROUP_ROWS)

    return QueryRows("DuckDB relation", X.columns, write)


def scanned_rows(X: Any) -> QueryRows:
    """Return the rows of a pyarrow Dataset that is not made of files."""
    parquet = need("pyarrow.parquet", "a pyarrow Dataset", SCALE)

    def write(columns: list[str], path: str) -> None:
        scanner = X.scanner(columns=columns, use_threads=False)
        with parquet.ParquetWriter(path, scanner.projected_schema) as file:
            for batch in scanner.to_batches():
                file.write_batch(batch, row_group_size=_GROUP_ROWS)

    return QueryRows("pyarrow Dataset", X.schema.names, write, row_names_of(X.schema))
