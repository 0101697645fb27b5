"""Tables in files: Parquet files, and pyarrow datasets of any format.

Datasets may have filters, and folders whose names contain the values of columns (``year=2020/``).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from scarless.engines.base import Engine, LabelColumns, column_names, open_rows
from scarless.outside.extras import need
from scarless.scale.columns import (
    SCALE,
    PartitionError,
    arrays_of,
    check_kind,
    check_labels_alike,
    choose_names,
    common_type,
    labels_and_weights,
    numbers,
    row_names_of,
    without_row_names,
)
from scarless.scale.engine import PartitionedEngine, Passes
from scarless.scale.executors import find_executor
from scarless.scale.files import Footer, FoundFiles, address_of, find_files, first_line, opened, read_footers, stamp_of
from scarless.scale.partitions import Arrays, Cache, Plan

__all__ = ["ParquetRows", "PartitionError", "RowGroups"]
_PARTITION_BYTES = 2**25  # approximate decoded size of a partition; small row groups are merged up to this size
DEFAULT_CACHE_BYTES = 2**31


@dataclass(frozen=True)
class _FileRows:
    """Some rows of a file."""

    path: str
    groups: tuple[int, ...]  # row groups; empty if the format has none
    n_rows: int
    stamp: tuple[int, int]  # size and modification time of the file when the plan was made
    names: tuple[str, ...]
    label: str | LabelColumns | None
    weight: str | None
    dtype: str

    def load(self) -> Arrays:
        """Return the attributes, labels and weights, read from the file."""
        return self.decode(self.read())

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return the attributes, labels, weights and other columns as an Arrow table."""
        raise NotImplementedError

    def decode(self, table: Any) -> Arrays:
        """Return the columns as arrays."""
        return arrays_of(table, self.names, self.label, self.weight, self.dtype, self.place_of)

    def beside(self, table: Any) -> Arrays:
        """Return the labels and weights, if there are any."""
        return labels_and_weights(table, self.label, self.weight, self.place_of)

    def numbers(self, table: Any, name: str) -> Any:
        """Return a column of numbers; raise an error if a value is missing."""
        return numbers(table.column(name), name, self.place_of)

    @property
    def place(self) -> str:
        """Location in the file, for messages."""
        return in_words(self.groups)

    def place_of(self, row: int | None = None) -> str:
        """Return the location of a row, or of all rows, for messages."""
        return f"{self.path}, {self.place}" if self.groups else self.path

    def _wanted(self, others: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*self.names, *column_names(self.label, self.weight), *others]))

    def _check_unchanged(self, stamp: tuple[int, int]) -> None:
        if stamp != self.stamp:
            raise PartitionError(
                f"{self.place_of()}: the file was replaced or changed while it was read. Repeat the call when no other "
                "program writes to it."
            )

    def _unreadable(self, error: Exception) -> PartitionError:
        return PartitionError(
            f"{self.place_of()}: the file cannot be read ({first_line(error)}). Check its permissions and the network. "
            "If the file is damaged, write it again."
        )

    def _check_length(self, table: Any) -> Any:
        if table.num_rows != self.n_rows:
            raise PartitionError(
                f"{self.place_of()}: expected {self.n_rows} rows; found {table.num_rows}. The file must not change "
                "while it is read."
            )
        return table


@dataclass(frozen=True)
class RowGroups(_FileRows):
    """Some row groups of a Parquet file."""

    group_rows: tuple[int, ...] = ()
    called: str = ""  # name in errors, if the file is temporary and the user does not know its path
    filesystem: Any = field(default=None, repr=False, compare=False)  # None: local files

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return the attributes, labels, weights and other columns as an Arrow table.

        With `dictionaries`, attributes of text are dictionary-encoded.
        """
        self._check_stamp()
        parquet = need("pyarrow.parquet", "ParquetRows", SCALE)
        wanted = self._wanted(others)
        try:
            with opened(self.path, self.filesystem) as place:
                footer = parquet.read_metadata(place)
                options: dict[str, Any] = {"read_dictionary": self._texts(footer) if dictionaries else None}
                options |= {"pre_buffer": self.filesystem is not None}  # Over a network, few large requests are faster.
                with parquet.ParquetFile(place, metadata=footer, **options) as file:
                    check_present(file.schema_arrow.names, wanted, self.place_of())
                    table = file.read_row_groups(list(self.groups), columns=wanted, use_threads=False)
        except (OSError, need("pyarrow", "ParquetRows", SCALE).ArrowException) as error:
            raise self._unreadable(error) from error
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
        """Return the location of a row, or of all rows, for messages."""
        groups = self.groups
        if row is not None and self.group_rows:
            groups = (groups[int(np.searchsorted(np.cumsum(self.group_rows), row, side="right"))],)
        return f"{self.called or self.path}, {in_words(groups)}"

    def _check_stamp(self) -> None:
        try:
            stamp = stamp_of(self.path, self.filesystem)
        except OSError as error:
            raise PartitionError(
                f"{self.place_of()}: the file is no longer there ({first_line(error)}). On a cluster, every worker "
                "must be able to read it under this path."
            ) from error
        self._check_unchanged(stamp)


def check_present(there: Sequence[str], wanted: Sequence[str], place: str) -> None:
    """Raise an error if a partition lacks a column."""
    absent = [name for name in wanted if name not in there]
    if absent:
        raise PartitionError(
            f"{place}: there is no column {absent[0]!r}, which other files have. Write it to all files, or select "
            "columns that all files have: columns=[...]."
        )


def in_words(groups: tuple[int, ...]) -> str:
    """Return row group numbers as text."""
    first, last = groups[0], groups[-1]
    return f"row group {first}" if first == last else f"row groups {first} to {last}"


class ParquetRows:
    """Rows of Parquet files, which `fit`, `predict` and diagnostics accept in place of a table in memory.

    Labels and weights are columns, given by name: ``fit(ParquetRows("claims/*.parquet"), "diagnosed")``.

    Parameters
    ----------
    where : path, list of paths, or pyarrow Dataset
        File, folder (all ``.parquet`` files below it) or pattern with ``*``. Addresses of pyarrow, such as
        ``s3://bucket/claims/``, are also possible. For a pyarrow Dataset of Parquet files, its filter applies, and the
        values in the names of folders are columns.
    columns : list of str, optional
        Attributes, in this order. Default: all columns but labels, weights, and the index of a pandas data frame.
    dtype : {"float32", "float64"}, optional
        Precision of the attributes. Default: float32 if all attributes are float32 or float16, else float64.
    memory : int, default=2 GiB
        Bytes of decoded rows that each process may keep in memory. Rows beyond this limit are written to memory-mapped
        files.
    scratch : path or False, optional
        Folder of the memory-mapped files. If False, there are no such files: rows beyond the limit are decoded again in
        every pass. Default: the system's temporary folder.
    checkpoint : path, optional
        Folder for the result of every pass. If an interrupted fit is started again, it continues from these results.
    scheduler : "threads", "ray", a Dask client or the address of a Dask scheduler, optional
        How passes are run. Default: the Dask client or Ray session of this process if there is one, else threads.
    filesystem : file system of pyarrow.fs or fsspec, optional
        File system of the paths. Its endpoint and credentials are sent to workers. Default: local files, or the file
        system of the address, with the credentials of the environment.

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

    _called = ""  # name in errors, if the files are temporary and the user does not know their paths
    _with_index = False  # whether a named index of a data frame is an attribute

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
            raise ValueError("filesystem: a pyarrow Dataset has its own file system. Leave filesystem out.")
        self._wanted = None if columns is None else tuple(columns)
        self.dtype, self.scheduler, self.checkpoint = dtype, scheduler, checkpoint
        self.cache = Cache(int(memory), "" if scratch is False else None if scratch in (None, True) else str(scratch))

    def select(self, columns: Sequence[str]) -> "ParquetRows":
        """Return the same rows with these attributes, in this order."""
        return self._with_changes(_wanted=tuple(columns))

    def with_index(self) -> "ParquetRows":
        """Return the same rows with a named index of a pandas data frame as a column."""
        return self._with_changes(_with_index=True)

    @property
    def condition(self) -> str:
        """Filter of a dataset as text; empty if there is no filter."""
        found = None if self._dataset is None else filter_of(self._dataset)
        return "" if found is None else str(found)

    def _with_changes(self, **changes: Any) -> "ParquetRows":
        other = object.__new__(ParquetRows)
        vars(other).update({**vars(self), **changes})
        return other

    @property
    def column_names(self) -> list[str]:
        """Names of the attributes, if no column is a label or a weight."""
        return list(self.plan(raw=True).names)

    def plan(
        self,
        label: str | LabelColumns | None = None,
        weight: str | None = None,
        *,
        raw: bool = False,
        row_bytes: int | None = None,
    ) -> Plan:
        """Return the partitions of the rows.

        With `raw`, attributes need not be numbers, because they are prepared later. `row_bytes` is the size of a row in
        the cache.
        """
        if self._dataset is not None:
            options: dict[str, Any] = {"dtype": self.dtype, "raw": raw, "row_bytes": row_bytes}
            options |= {"with_index": self._with_index}
            return plan_dataset(self._dataset, self._wanted, label, weight, **options)
        found = read_footers(self.files, self._called, self.filesystem)
        footers = [footer for footer in found if any(footer.group_rows)]
        if not footers:
            others = " and others" if len(self.files) > 1 else ""
            raise ValueError(f"{self._called or self.files[0] + others}: there are no rows.")
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
        label: str | LabelColumns | None,
        weight: str | None,
        index: frozenset[str],
        *,
        raw: bool,
    ) -> None:
        """Raise an error if a file lacks a column or a column is not numeric, before any row is decoded."""
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
    """Raise an error if labels or weights are not names of columns."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str | LabelColumns):
            raise TypeError(
                f"{name} must name a column of the {holder} if X is {kind}, such as "
                f"{'fit(X, ' + repr('diagnosed') + ')' if name == 'y' else name + '=' + repr('weight')}; got "
                f"{type(value).__name__}. Add the values to the {holder} as a column."
            )


def _partitions(footer: Footer, model: RowGroups, row_bytes: int) -> list[RowGroups]:
    found = []
    for groups in together(footer.group_rows, row_bytes):
        sizes = tuple(footer.group_rows[group] for group in groups)
        changes: dict[str, Any] = {"path": footer.path, "stamp": footer.stamp, "groups": groups}
        found.append(replace(model, **changes, n_rows=sum(sizes), group_rows=sizes))
    return found


def together(group_rows: Sequence[int], row_bytes: int) -> list[tuple[int, ...]]:
    """Merge neighbouring row groups into partitions of about 32 MB; empty partitions are left out.

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
    """Rows of one file of a dataset, or of some of its row groups, that pass the filter of the dataset."""

    partition: str  # values in the name of the folder
    asked: str  # filter, as text
    fragment: Any = field(repr=False)
    schema: Any = field(repr=False)
    filter: Any = field(repr=False)

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return the attributes, labels, weights and other columns as an Arrow table; `dictionaries` has no effect."""
        options = {"schema": self.schema, "columns": self._wanted(others), "filter": self.filter}
        try:
            self._check_unchanged(stamp_in(self.fragment))
            table = self.fragment.to_table(**options, use_threads=False)
        except (OSError, need("pyarrow", "a pyarrow Dataset", SCALE).ArrowException) as error:
            raise self._unreadable(error) from error
        return self._check_length(table)

    def columns_there(self) -> list[str]:
        """Return the names of all columns of the dataset."""
        return list(self.schema.names)


class DatasetRows:
    """Rows of a pyarrow dataset of files. Each file, or some of its row groups, is a partition.

    The filter is applied when a partition is read, and the remaining rows are counted once. Values in names of folders
    (``year=2020/``) are columns. A pyarrow dataset caches metadata of its files. If files were replaced, make a new
    dataset.
    """

    def __init__(self, dataset: Any, wanted: Sequence[str] | None = None) -> None:
        self.dataset = dataset
        self._wanted = None if wanted is None else tuple(wanted)

    def select(self, columns: Sequence[str]) -> "DatasetRows":
        """Return the same rows with these attributes, in this order."""
        return DatasetRows(self.dataset, columns)

    @property
    def column_names(self) -> list[str]:
        """Names of the attributes, if no column is a label or a weight."""
        schema = self.dataset.schema
        return choose_names(schema.names, self._wanted, None, None, "The dataset", row_names_of(schema))

    def plan(self, label: str | LabelColumns | None = None, weight: str | None = None) -> Plan:
        """Return the partitions of the rows."""
        return plan_dataset(self.dataset, self._wanted, label, weight)


def plan_dataset(
    dataset: Any,
    wanted: Sequence[str] | None,
    label: str | LabelColumns | None = None,
    weight: str | None = None,
    *,
    dtype: str | None = None,
    raw: bool = False,
    row_bytes: int | None = None,
    with_index: bool = False,
) -> Plan:
    """Return the partitions of the rows of a dataset; for the options see `ParquetRows.plan`."""
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
        if condition is None:
            raise ValueError("The dataset has no rows. Check its files.")
        raise ValueError(f"The dataset has no rows that pass its filter, {condition}. Check the filter.")
    return Plan.of(sources, names, precision)


def made_of_files(X: Any) -> bool:
    """Return whether a pyarrow dataset consists of files whose rows can be read one file at a time."""
    return hasattr(X, "files") and hasattr(X, "_get_fragments") and hasattr(X, "_scan_options")


def files_of(dataset: Any) -> FoundFiles:
    """Return the Parquet files of a dataset; raise an error if it does not consist of Parquet files."""
    if not made_of_files(dataset) or dataset.format.default_extname != "parquet":
        kind = f"of {dataset.format.default_extname} files" if hasattr(dataset, "format") else "not made of files"
        raise TypeError(
            f"ParquetRows needs Parquet files or a pyarrow Dataset of Parquet files; this Dataset is {kind}. Pass it "
            "directly to fit, without ParquetRows."
        )
    system = None if dataset.filesystem.type_name == "local" else dataset.filesystem
    return FoundFiles([address_of(path, system) for path in dataset.files], system)


@open_rows.register
def _open_dataset(X: DatasetRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names("a pyarrow Dataset", "files", y=y, sample_weight=sample_weight)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(), Cache(DEFAULT_CACHE_BYTES))


def filter_of(dataset: Any) -> Any:
    """Return the filter of a dataset. It is in a private attribute of pyarrow, which `made_of_files` checks for."""
    return dataset._scan_options.get("filter")


def _anywhere(fragment: Any) -> Any:
    """Return the fragment of a local file with an absolute path, because workers may run in another folder."""
    if fragment.filesystem.type_name != "local" or os.path.isabs(fragment.path):
        return fragment
    return fragment.format.make_fragment(
        os.path.abspath(fragment.path), fragment.filesystem, fragment.partition_expression
    )


def _address(fragment: Any) -> str:
    return address_of(fragment.path, None if fragment.filesystem.type_name == "local" else fragment.filesystem)


def _pieces(fragment: Any, row_bytes: int) -> list[tuple[Any, tuple[int, ...]]]:
    """Return the partitions of a file with their row groups; the whole file if its format has no row groups."""
    try:
        found = getattr(fragment, "row_groups", None)
    except (OSError, need("pyarrow", "a pyarrow Dataset", SCALE).ArrowException) as error:
        raise PartitionError(
            f"{fragment.path}: the file is absent or damaged ({first_line(error)}). Write or copy the file again."
        ) from error
    if found is None:
        return [(fragment, ())]
    numbers = [group.id for group in found]
    runs = [[numbers[place] for place in run] for run in together([group.num_rows for group in found], row_bytes)]
    return [(fragment.subset(row_group_ids=run), tuple(run)) for run in runs]


def _count(fragment: Any, condition: Any, schema: Any) -> int:
    return int(fragment.scanner(schema=schema, filter=condition, use_threads=False).count_rows())


def stamp_in(fragment: Any) -> tuple[int, int]:
    """Return the size and modification time of a fragment's file, in any file system."""
    found = fragment.filesystem.get_file_info(fragment.path)
    return int(found.size or -1), int(found.mtime_ns or -1)
