"""Datasets of pyarrow: files of any format that it reads, folders whose names are columns, filters."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scarless.engines.base import Engine, Several, column_names, open_rows
from scarless.outside.extras import need
from scarless.scale.columns import (
    SCALE,
    PartitionError,
    arrays_beside,
    arrays_of,
    check_kind,
    choose_names,
    common_type,
    numbers,
    row_names_of,
)
from scarless.scale.engine import PartitionedEngine
from scarless.scale.executors import find_executor
from scarless.scale.files import Found, address_of, line_of
from scarless.scale.parquet import DEFAULT_CACHE, in_words, need_names, together
from scarless.scale.plan import Plan
from scarless.scale.queries import QueryRows, scanned_rows
from scarless.scale.store import Arrays, Cache


@dataclass(frozen=True)
class FragmentRows:
    """A file of a dataset, or some row groups of it, with the file's size and time of change."""

    path: str
    groups: tuple[int, ...]  # none where the format has none
    partition: str  # what the folder's name says
    n_rows: int
    stamp: tuple[int, int]
    names: tuple[str, ...]
    label: str | Several | None
    weight: str | None
    dtype: str
    asked: str  # the filter, in words
    fragment: Any = field(repr=False)
    schema: Any = field(repr=False)
    filter: Any = field(repr=False)

    def load(self) -> Arrays:
        """Decode attributes, labels and weights of the rows that the filter lets through."""
        return self.decode(self.read())

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return attributes, labels, weights and other columns as an Arrow table; text as it comes."""
        wanted = list(dict.fromkeys([*self.names, *column_names(self.label, self.weight), *others]))
        try:
            if stamp_in(self.fragment) != self.stamp:
                raise PartitionError(
                    f"{self.place_of()}: was replaced or changed while it was read; start again when nobody writes "
                    "to it."
                )
            table = self.fragment.to_table(schema=self.schema, columns=wanted, filter=self.filter, use_threads=False)
        except (OSError, need("pyarrow", "a pyarrow Dataset", SCALE).ArrowException) as error:
            raise PartitionError(f"{self.place_of()}: cannot be read ({line_of(error)}).") from error
        if table.num_rows != self.n_rows:
            raise PartitionError(f"{self.place_of()}: has {table.num_rows} rows, and had {self.n_rows}.")
        return table

    def decode(self, table: Any) -> Arrays:
        """Return the columns as arrays."""
        return arrays_of(table, self.names, self.label, self.weight, self.dtype, self.place_of)

    def beside(self, table: Any) -> Arrays:
        """Return labels and weights, where there are any."""
        return arrays_beside(table, self.label, self.weight, self.place_of)

    def numbers(self, table: Any, name: str) -> Any:
        """Return a column of numbers without gaps."""
        return numbers(table.column(name), name, self.place_of)

    def columns_there(self) -> list[str]:
        """Return the names of all columns of the dataset."""
        return list(self.schema.names)

    @property
    def place(self) -> str:
        """Where in the file, in words."""
        return in_words(self.groups)

    def place_of(self, row: int | None = None) -> str:
        """Return where the rows are, in words."""
        if not self.groups:
            return self.path
        return f"{self.path}, {self.place}"


class DatasetRows:
    """The rows of a dataset made of files: each file, or some row groups of it, is a partition.

    A filter is applied where a partition is read; how many rows it lets through is counted once. Columns that folders
    are named by (``year=2020/``) are columns like others. A dataset remembers what it once read of its files: when
    these were replaced, make it anew.
    """

    def __init__(self, dataset: Any, wanted: Sequence[str] | None = None) -> None:
        self.dataset = dataset
        self._wanted = None if wanted is None else tuple(wanted)

    def select(self, columns: Sequence[str]) -> "DatasetRows":
        """Return the same rows with these attributes, in this order."""
        return DatasetRows(self.dataset, columns)

    @property
    def column_names(self) -> list[str]:
        """The attributes, where no column is a label or a weight."""
        schema = self.dataset.schema
        return choose_names(schema.names, self._wanted, None, None, "The dataset", row_names_of(schema))

    def plan(self, label: str | Several | None = None, weight: str | None = None) -> Plan:
        """Return the pieces in which the rows are walked."""
        return plan_dataset(self.dataset, self._wanted, label, weight)


def plan_dataset(
    dataset: Any,
    wanted: Sequence[str] | None,
    label: str | Several | None = None,
    weight: str | None = None,
    *,
    dtype: str | None = None,
    raw: bool = False,
    row_bytes: int | None = None,
    with_index: bool = False,
) -> Plan:
    """Return the pieces in which the rows of a dataset are walked; options are those of `ParquetRows`."""
    schema, condition = dataset.schema, filter_of(dataset)
    index = frozenset() if with_index else row_names_of(schema)
    names = choose_names(schema.names, wanted, label, weight, "The dataset", index)
    kinds = {name: schema.field(name).type for name in names}
    for name, kind in () if raw else kinds.items():
        check_kind(kind, name, "The dataset")
    precision = np.dtype(dtype or common_type([kinds], names))
    asked = {"label": label, "weight": weight, "asked": str(condition), "schema": schema, "filter": condition}
    sources = [
        FragmentRows(
            path=_address(fragment),
            groups=groups,
            partition=str(fragment.partition_expression),
            n_rows=_count(fragment, condition, schema),
            stamp=stamp_in(fragment),
            names=tuple(names),
            dtype=str(precision),
            fragment=fragment,
            **asked,
        )
        for whole in dataset._get_fragments(condition)
        for fragment, groups in _pieces(_anywhere(whole), row_bytes or max(1, len(names)) * precision.itemsize)
    ]
    sources = [source for source in sources if source.n_rows]
    if not sources:
        raise ValueError(f"The dataset has no row{'' if condition is None else f' where {condition}'}.")
    return Plan.of(sources, names, precision)


def dataset_rows(X: Any) -> DatasetRows | QueryRows:
    """Return the rows of a dataset: of its files, or what a scan of it gives where it is not made of files."""
    return DatasetRows(X) if _of_files(X) else scanned_rows(X)


def _of_files(X: Any) -> bool:
    return hasattr(X, "files") and hasattr(X, "_get_fragments") and hasattr(X, "_scan_options")


def files_of(dataset: Any) -> Found:
    """Return the Parquet files of a dataset; raise where it is not made of such files."""
    if not _of_files(dataset) or dataset.format.default_extname != "parquet":
        kind = f"of {dataset.format.default_extname} files" if hasattr(dataset, "format") else "not made of files"
        raise TypeError(
            f"ParquetRows takes Parquet files, also as a pyarrow Dataset; this one is {kind}. Give it to fit as it is."
        )
    system = None if dataset.filesystem.type_name == "local" else dataset.filesystem
    return Found([address_of(path, system) for path in dataset.files], system)


@open_rows.register
def _open_dataset(X: DatasetRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names("a pyarrow Dataset", "files", y=y, sample_weight=sample_weight)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(), Cache(DEFAULT_CACHE))


def filter_of(dataset: Any) -> Any:
    """Return what ``dataset.filter`` was given. There is no public way to ask: `dataset_rows` looks for this one."""
    return dataset._scan_options.get("filter")


def _anywhere(fragment: Any) -> Any:
    """Return a file of this machine by its absolute path: a worker may stand in another folder."""
    if fragment.filesystem.type_name != "local" or os.path.isabs(fragment.path):
        return fragment
    return fragment.format.make_fragment(
        os.path.abspath(fragment.path), fragment.filesystem, fragment.partition_expression
    )


def _address(fragment: Any) -> str:
    return address_of(fragment.path, None if fragment.filesystem.type_name == "local" else fragment.filesystem)


def _pieces(fragment: Any, row_bytes: int) -> list[tuple[Any, tuple[int, ...]]]:
    """Return runs of a file's row groups with their numbers; the file as a whole where its format has none."""
    try:
        found = getattr(fragment, "row_groups", None)
    except (OSError, need("pyarrow", "a pyarrow Dataset", SCALE).ArrowException) as error:
        raise PartitionError(f"{fragment.path}: is not there, or was cut short ({line_of(error)}).") from error
    if found is None:
        return [(fragment, ())]
    numbers = [group.id for group in found]
    runs = [[numbers[place] for place in run] for run in together([group.num_rows for group in found], row_bytes)]
    return [(fragment.subset(row_group_ids=run), tuple(run)) for run in runs]


def _count(fragment: Any, condition: Any, schema: Any) -> int:
    return int(fragment.scanner(schema=schema, filter=condition, use_threads=False).count_rows())


def stamp_in(fragment: Any) -> tuple[int, int]:
    """Return the size and time of change of a fragment's file, wherever it lies."""
    found = fragment.filesystem.get_file_info(fragment.path)
    return int(found.size or -1), int(found.mtime_ns or -1)
