"""Datasets of pyarrow: files of any format that it reads, folders whose names are columns, filters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scarless.engines.base import Engine, open_rows
from scarless.outside.extras import need
from scarless.scale.columns import SCALE, PartitionError, arrays_of, check_kind, choose_names, common_type, row_names_of
from scarless.scale.engine import PartitionedEngine
from scarless.scale.executors import find_executor
from scarless.scale.parquet import DEFAULT_CACHE, need_names, together
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
    label: str | None
    weight: str | None
    dtype: str
    asked: str  # the filter, in words
    fragment: Any = field(repr=False)
    schema: Any = field(repr=False)
    filter: Any = field(repr=False)

    def load(self) -> Arrays:
        """Decode the columns of the rows that the filter lets through."""
        wanted = [*self.names, *(name for name in (self.label, self.weight) if name is not None)]
        try:
            if stamp_in(self.fragment) != self.stamp:
                raise PartitionError(
                    f"{self.place_of()}: was replaced or changed while it was read; start again when nobody writes "
                    "to it."
                )
            table = self.fragment.to_table(schema=self.schema, columns=wanted, filter=self.filter, use_threads=False)
        except (OSError, need("pyarrow", "a pyarrow Dataset", SCALE).ArrowException) as error:
            told = str(error).split("\n", maxsplit=1)[0][:200]
            raise PartitionError(f"{self.place_of()}: cannot be read ({told}).") from error
        if table.num_rows != self.n_rows:
            raise PartitionError(f"{self.place_of()}: has {table.num_rows} rows, and had {self.n_rows}.")
        return arrays_of(table, self.names, self.label, self.weight, self.dtype, self.place_of)

    def place_of(self, row: int | None = None) -> str:
        """Return where the rows are, in words."""
        if not self.groups:
            return self.path
        first, last = self.groups[0], self.groups[-1]
        return f"{self.path}, row group{f' {first}' if first == last else f's {first} to {last}'}"


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

    def plan(self, label: str | None = None, weight: str | None = None) -> Plan:
        """Return the pieces in which the rows are walked."""
        schema, condition = self.dataset.schema, _filter_of(self.dataset)
        names = choose_names(schema.names, self._wanted, label, weight, "The dataset", row_names_of(schema))
        kinds = {name: schema.field(name).type for name in names}
        for name, kind in kinds.items():
            check_kind(kind, name, "The dataset")
        dtype = np.dtype(common_type([kinds], names))
        row_bytes = max(1, len(names)) * dtype.itemsize
        sources = []
        for whole in self.dataset._get_fragments(condition):
            for fragment, groups in _pieces(whole, row_bytes):
                source = FragmentRows(
                    path=fragment.path,
                    groups=groups,
                    partition=str(fragment.partition_expression),
                    n_rows=_count(fragment, condition, schema),
                    stamp=stamp_in(fragment),
                    names=tuple(names),
                    label=label,
                    weight=weight,
                    dtype=str(dtype),
                    asked=str(condition),
                    fragment=fragment,
                    schema=schema,
                    filter=condition,
                )
                sources.append(source)
        sources = [source for source in sources if source.n_rows]
        if not sources:
            raise ValueError(f"The dataset has no row{'' if condition is None else f' where {condition}'}.")
        return Plan.of(sources, names, dtype)


def dataset_rows(X: Any) -> DatasetRows | QueryRows:
    """Return the rows of a dataset: of its files, or what a scan of it gives where it is not made of files."""
    of_files = hasattr(X, "files") and hasattr(X, "_get_fragments") and hasattr(X, "_scan_options")
    return DatasetRows(X) if of_files else scanned_rows(X)


@open_rows.register
def _open_dataset(X: DatasetRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names("a pyarrow Dataset", "files", y=y, sample_weight=sample_weight)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(), Cache(DEFAULT_CACHE))


def _filter_of(dataset: Any) -> Any:
    """Return what ``dataset.filter`` was given. There is no public way to ask: `dataset_rows` looks for this one."""
    return dataset._scan_options.get("filter")


def _pieces(fragment: Any, row_bytes: int) -> list[tuple[Any, tuple[int, ...]]]:
    """Return runs of a file's row groups with their numbers; the file as a whole where its format has none."""
    try:
        found = getattr(fragment, "row_groups", None)
    except (OSError, need("pyarrow", "a pyarrow Dataset", SCALE).ArrowException) as error:
        told = str(error).split("\n", maxsplit=1)[0][:200]
        raise PartitionError(f"{fragment.path}: is not there, or was cut short ({told}).") from error
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
