"""Tables in files: Parquet files, larger than memory or not, and datasets of pyarrow, of any format that it reads.

Datasets may have filters, and folders whose names are columns.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
    check_labels_alike,
    choose_names,
    common_type,
    numbers,
    row_names_of,
    without_row_names,
)
from scarless.scale.engine import PartitionedEngine, Passes
from scarless.scale.executors import find_executor
from scarless.scale.files import Footer, Found, address_of, find_files, line_of, opened, read_footers, stamp_of
from scarless.scale.partitions import Arrays, Cache, Plan

__all__ = ["ParquetRows", "PartitionError", "RowGroups"]
_PARTITION_BYTES = 2**25  # of decoded numbers, about; row groups are put together up to it
DEFAULT_CACHE_BYTES = 2**31


@dataclass(frozen=True)
class _FileRows:
    """Some rows of a file, with the file's size and time of change when the plan was made."""

    path: str
    groups: tuple[int, ...]  # row groups; none where the format has none
    n_rows: int
    stamp: tuple[int, int]
    names: tuple[str, ...]
    label: str | Several | None
    weight: str | None
    dtype: str

    def load(self) -> Arrays:
        """Decode attributes, labels and weights."""
        return self.decode(self.read())

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return attributes, labels, weights and other columns as an Arrow table; text as dictionaries if asked."""
        raise NotImplementedError

    def decode(self, table: Any) -> Arrays:
        """Return the columns as arrays."""
        return arrays_of(table, self.names, self.label, self.weight, self.dtype, self.place_of)

    def beside(self, table: Any) -> Arrays:
        """Return labels and weights, where there are any."""
        return arrays_beside(table, self.label, self.weight, self.place_of)

    def numbers(self, table: Any, name: str) -> Any:
        """Return a column of numbers without gaps."""
        return numbers(table.column(name), name, self.place_of)

    @property
    def place(self) -> str:
        """Where in the file, in words."""
        return in_words(self.groups)

    def place_of(self, row: int | None = None) -> str:
        """Return where a row is, or all rows are, in words."""
        return f"{self.path}, {self.place}" if self.groups else self.path

    def _wanted(self, others: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*self.names, *column_names(self.label, self.weight), *others]))

    def _check_unchanged(self, stamp: tuple[int, int]) -> None:
        if stamp != self.stamp:
            raise PartitionError(
                f"{self.place_of()}: was replaced or changed while it was read; start again when nobody writes to it."
            )

    def _check_length(self, table: Any) -> Any:
        if table.num_rows != self.n_rows:
            raise PartitionError(f"{self.place_of()}: has {table.num_rows} rows, and had {self.n_rows}.")
        return table


@dataclass(frozen=True)
class RowGroups(_FileRows):
    """Some row groups of a Parquet file."""

    group_rows: tuple[int, ...] = ()
    called: str = ""  # in errors, where the path would say nothing to the user
    filesystem: Any = field(default=None, repr=False, compare=False)  # None: this machine's own

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return attributes, labels, weights and other columns as an Arrow table; text as dictionaries if asked."""
        self._check_stamp()
        parquet = need("pyarrow.parquet", "ParquetRows", SCALE)
        wanted = self._wanted(others)
        try:
            with opened(self.path, self.filesystem) as place:
                footer = parquet.read_metadata(place)
                options: dict[str, Any] = {"read_dictionary": self._texts(footer) if dictionaries else None}
                options |= {"pre_buffer": self.filesystem is not None}  # few long requests, not many short ones
                with parquet.ParquetFile(place, metadata=footer, **options) as file:
                    check_present(file.schema_arrow.names, wanted, self.place_of())
                    table = file.read_row_groups(list(self.groups), columns=wanted, use_threads=False)
        except (OSError, need("pyarrow", "ParquetRows", SCALE).ArrowException) as error:
            raise PartitionError(f"{self.place_of()}: cannot be read ({line_of(error)}).") from error
        return self._check_length(table)

    def columns_there(self) -> list[str]:
        """Return the names of all columns of the file."""
        with opened(self.path, self.filesystem) as place:
            return list(need("pyarrow.parquet", "ParquetRows", SCALE).read_schema(place).names)

    def _texts(self, footer: Any) -> list[str]:
        types = need("pyarrow", "ParquetRows", SCALE).types
        schema = footer.schema.to_arrow_schema()
        return [each.name for each in schema if each.name in self.names and types.is_string(each.type)]

    def place_of(self, row: int | None = None) -> str:
        """Return where a row is, or all rows are, in words."""
        groups = self.groups
        if row is not None and self.group_rows:
            groups = (groups[int(np.searchsorted(np.cumsum(self.group_rows), row, side="right"))],)
        return f"{self.called or self.path}, {in_words(groups)}"

    def _check_stamp(self) -> None:
        try:
            there = stamp_of(self.path, self.filesystem)
        except OSError as error:
            raise PartitionError(
                f"{self.place_of()}: is no longer there ({line_of(error)}). On a cluster, every worker must see it "
                "under this path."
            ) from error
        self._check_unchanged(there)


def check_present(there: Sequence[str], wanted: Sequence[str], place: str) -> None:
    """Raise where a partition lacks a column."""
    lost = [name for name in wanted if name not in there]
    if lost:
        raise PartitionError(
            f"{place}: has no column {lost[0]!r}, which other files have. Write it there too, or name the columns that "
            "all files have in columns=."
        )


def in_words(groups: tuple[int, ...]) -> str:
    """Return which row groups these are."""
    first, last = groups[0], groups[-1]
    return f"row group {first}" if first == last else f"row groups {first} to {last}"


class ParquetRows:
    """The rows of Parquet files, for `fit`, `predict` and diagnostics in the place of a table in memory.

    Labels and weights are columns, given by name: ``fit(ParquetRows("claims/*.parquet"), "diagnosed")``.

    Parameters
    ----------
    where : path, list of paths, or pyarrow Dataset
        A file, a folder (with all files below that end in ``.parquet``), or a pattern with ``*``; also as an address
        that pyarrow knows, such as ``s3://bucket/claims/``. Or a pyarrow Dataset of Parquet files, with its filter and
        the columns that folders are named by.
    columns : list of str, optional
        The attributes, in this order. Default: all columns but labels, weights, and the index of a data frame that
        pandas wrote, named or not.
    dtype : {"float32", "float64"}, optional
        Default: float32 where all attributes are, else float64.
    memory : int, default=2 GiB
        Bytes of decoded rows that each process may hold; the rest goes to memory-mapped files.
    scratch : path or False, optional
        Where these files go; False to decode again in every pass. Default: the system's temporary folder.
    checkpoint : path, optional
        A folder that remembers every pass, so that the same fit, started again, goes on where it ended.
    scheduler : "threads", "ray", a Dask client or the address of one, optional
        Who walks the rows. Default: the Dask client or Ray session of this process; else threads.
    filesystem : file system of pyarrow.fs or fsspec, optional
        Where the paths are, with its endpoint and keys; it goes to workers with them. Default: this machine's, or that
        of an address, with the keys that the environment has.

    Examples
    --------
    >>> import numpy as np, pyarrow, pyarrow.parquet
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from scarless import SAREMClassifier
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2, 4000))
    >>> ill, seen = rng.random(4000) < 1 / (1 + np.exp(-2 * x[0])), rng.random(4000) < 1 / (1 + np.exp(-x[1]))
    >>> table = pyarrow.table({"risk": x[0], "visits": x[1], "diagnosed": (ill & seen).astype(int)})
    >>> with TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, Path(folder, "claims.parquet"), row_group_size=1000)
    ...     model = SAREMClassifier(propensity_attributes=["visits"]).fit(ParquetRows(folder), "diagnosed")
    >>> round(model.class_prior_, 1)
    0.5
    """

    _called = ""  # in errors, where the files' names would say nothing to the user
    _with_index = False  # whether an index with a name is a column like others

    def __init__(
        self,
        where: Any,
        *,
        columns: Sequence[str] | None = None,
        dtype: str | None = None,
        memory: int = DEFAULT_CACHE_BYTES,
        scratch: str | Path | bool | None = None,
        checkpoint: str | Path | None = None,
        scheduler: Any = None,
        filesystem: Any = None,
    ) -> None:
        self._dataset = where if _is_dataset(where) else None
        if self._dataset is None:
            self.files, self.filesystem = find_files(where, filesystem)
        elif filesystem is None:
            self.files, self.filesystem = files_of(where)
        else:
            raise ValueError("filesystem is given, and a pyarrow Dataset has its own; leave it out.")
        self._wanted = None if columns is None else tuple(columns)
        self.dtype, self.scheduler, self.checkpoint = dtype, scheduler, checkpoint
        self.cache = Cache(int(memory), "" if scratch is False else None if scratch in (None, True) else str(scratch))

    def select(self, columns: Sequence[str]) -> "ParquetRows":
        """Return the same rows with these attributes, in this order."""
        return self._but(_wanted=tuple(columns))

    def with_index(self) -> "ParquetRows":
        """Return the same rows where an index that pandas wrote is a column like others, if it has a name."""
        return self._but(_with_index=True)

    @property
    def condition(self) -> str:
        """Which rows of the files these are, in words: the filter of a dataset; empty for all."""
        found = None if self._dataset is None else filter_of(self._dataset)
        return "" if found is None else str(found)

    def _but(self, **changes: Any) -> "ParquetRows":
        other = object.__new__(ParquetRows)
        vars(other).update({**vars(self), **changes})
        return other

    @property
    def column_names(self) -> list[str]:
        """The attributes, where no column is a label or a weight."""
        return list(self.plan(raw=True).names)

    def plan(
        self,
        label: str | Several | None = None,
        weight: str | None = None,
        *,
        raw: bool = False,
        row_bytes: int | None = None,
    ) -> Plan:
        """Return the pieces in which the rows are walked.

        `raw`: attributes need not be numbers, as they are prepared when they are read; `row_bytes` is the size of a row
        that will be kept.
        """
        if self._dataset is not None:
            options: dict[str, Any] = {"dtype": self.dtype, "raw": raw, "row_bytes": row_bytes}
            options |= {"with_index": self._with_index}
            return plan_dataset(self._dataset, self._wanted, label, weight, **options)
        found = read_footers(self.files, self._called, self.filesystem)
        footers = [footer for footer in found if any(footer.group_rows)]
        if not footers:
            others = " and others" if len(self.files) > 1 else ""
            raise ValueError(f"{self._called or self.files[0] + others}: there is no row.")
        index = frozenset().union(*(footer.row_names for footer in footers if not self._with_index))
        names = choose_names(footers[0].there, self._wanted, label, weight, footers[0].called, index)
        self._check_alike(footers, names, label, weight, index, raw=raw)
        dtype = np.dtype(self.dtype or common_type([footer.kinds for footer in footers], names))
        model = RowGroups("", (), 0, (0, 0), tuple(names), label, weight, str(dtype), (), self._called, self.filesystem)
        row_bytes = row_bytes or max(1, len(names)) * dtype.itemsize
        return Plan.of([part for footer in footers for part in _partitions(footer, model, row_bytes)], names, dtype)

    def _check_alike(
        self,
        footers: list[Footer],
        names: list[str],
        label: str | Several | None,
        weight: str | None,
        index: frozenset[str],
        *,
        raw: bool,
    ) -> None:
        """Raise where a file lacks a column or holds no numbers in it, before anything is decoded."""
        first, others = footers[0], column_names(label, weight)
        for footer in footers:
            place = f"{footer.called}, {in_words(tuple(range(len(footer.group_rows))))}"
            check_present(footer.there, [*names, *others], place)
            choose_names(footer.there, [*names, *others], None, None, footer.called)
            for name in () if raw else names:
                check_kind(footer.kinds[name], name, place)
            for name in column_names(label):
                check_labels_alike(footer.kinds[name], first.kinds[name], name, place)
            if self._wanted is None:
                whole = f"{first.called}, {in_words(tuple(range(len(first.group_rows))))}"
                check_present(first.there, without_row_names(footer.there, index), whole)


def _is_dataset(where: Any) -> bool:
    return any(base.__name__ == "Dataset" and base.__module__.startswith("pyarrow") for base in type(where).__mro__)


@open_rows.register
def _open_parquet(X: ParquetRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names("ParquetRows", "files", y=y, sample_weight=sample_weight)
    passes = None if X.checkpoint is None else Passes(X.checkpoint)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(X.scheduler), X.cache, passes)


def need_names(kind: str, holder: str, **given: Any) -> None:
    """Raise where labels or weights are not the name of a column."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str | Several):
            what = "labels" if name == "y" else name
            raise TypeError(
                f"With {kind} the {what} are a column of the {holder}, given by its name, such as "
                f"{'fit(X, ' + repr('diagnosed') + ')' if name == 'y' else name + '=' + repr('weight')}; what came "
                f"is of type {type(value).__name__}. Write them into the {holder} beside the attributes."
            )


def _partitions(footer: Footer, model: RowGroups, row_bytes: int) -> list[RowGroups]:
    found = []
    for groups in together(footer.group_rows, row_bytes):
        sizes = tuple(footer.group_rows[group] for group in groups)
        changes: dict[str, Any] = {"path": footer.path, "stamp": footer.stamp, "groups": groups}
        found.append(replace(model, **changes, n_rows=sum(sizes), group_rows=sizes))
    return found


def together(group_rows: Sequence[int], row_bytes: int) -> list[tuple[int, ...]]:
    """Put neighbouring row groups together until they are large enough to pay for a task; none without a row.

    Examples
    --------
    >>> together([10, 0, 2**22, 5, 0], 8)
    [(0, 1), (2,), (3, 4)]
    """
    found: list[tuple[int, ...]] = []
    groups: list[int] = []
    rows = 0
    for group, n_rows in enumerate(group_rows):
        groups.append(group)
        rows += n_rows
        last = group + 1 == len(group_rows)
        if rows and (last or (rows + group_rows[group + 1]) * row_bytes > _PARTITION_BYTES):
            found.append(tuple(groups))
            groups, rows = [], 0
    return found


# --- datasets of pyarrow


@dataclass(frozen=True)
class FragmentRows(_FileRows):
    """A file of a dataset, or some row groups of it: the rows that a filter lets through."""

    partition: str  # what the folder's name says
    asked: str  # the filter, in words
    fragment: Any = field(repr=False)
    schema: Any = field(repr=False)
    filter: Any = field(repr=False)

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return attributes, labels, weights and other columns as an Arrow table; text as it comes."""
        options = {"schema": self.schema, "columns": self._wanted(others), "filter": self.filter}
        try:
            self._check_unchanged(stamp_in(self.fragment))
            table = self.fragment.to_table(**options, use_threads=False)
        except (OSError, need("pyarrow", "a pyarrow Dataset", SCALE).ArrowException) as error:
            raise PartitionError(f"{self.place_of()}: cannot be read ({line_of(error)}).") from error
        return self._check_length(table)

    def columns_there(self) -> list[str]:
        """Return the names of all columns of the dataset."""
        return list(self.schema.names)


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


def made_of_files(X: Any) -> bool:
    """Whether a dataset of pyarrow is made of files, and can say which rows of them it has."""
    return hasattr(X, "files") and hasattr(X, "_get_fragments") and hasattr(X, "_scan_options")


def files_of(dataset: Any) -> Found:
    """Return the Parquet files of a dataset; raise where it is not made of such files."""
    if not made_of_files(dataset) or dataset.format.default_extname != "parquet":
        kind = f"of {dataset.format.default_extname} files" if hasattr(dataset, "format") else "not made of files"
        raise TypeError(
            f"ParquetRows takes Parquet files, also as a pyarrow Dataset; this one is {kind}. Give it to fit as it is."
        )
    system = None if dataset.filesystem.type_name == "local" else dataset.filesystem
    return Found([address_of(path, system) for path in dataset.files], system)


@open_rows.register
def _open_dataset(X: DatasetRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names("a pyarrow Dataset", "files", y=y, sample_weight=sample_weight)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(), Cache(DEFAULT_CACHE_BYTES))


def filter_of(dataset: Any) -> Any:
    """Return what ``dataset.filter`` was given. There is no public way to ask: `made_of_files` looks for this one."""
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
