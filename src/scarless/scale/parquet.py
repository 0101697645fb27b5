"""Tables in Parquet files: one file, a folder, a pattern or several, larger than memory or not."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scarless.engines.base import Engine, open_rows
from scarless.outside.extras import need
from scarless.scale.checkpoints import Passes
from scarless.scale.engine import PartitionedEngine
from scarless.scale.executors import find_executor
from scarless.scale.plan import Plan
from scarless.scale.store import Arrays, Cache

SCALE = "scale"
_PARTITION_BYTES = 2**25  # of decoded numbers, about; row groups are put together up to it
_DEFAULT_CACHE = 2**31


class PartitionError(ValueError):
    """Something in one partition is not as it should be; the others were not touched."""


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a Parquet file, with the file's size and time of change when the plan was made."""

    path: str
    groups: tuple[int, ...]
    n_rows: int
    stamp: tuple[int, int]
    names: tuple[str, ...]
    label: str | None
    weight: str | None
    dtype: str

    def load(self) -> Arrays:
        """Decode attributes, labels and weights."""
        return self.decode(self.read())

    def read(self, others: Sequence[str] = (), *, dictionaries: bool = False) -> Any:
        """Return attributes, labels, weights and other columns as an Arrow table; text as dictionaries if asked."""
        self._check_stamp()
        parquet = need("pyarrow.parquet", "ParquetRows", SCALE)
        wanted = list(dict.fromkeys([*self.names, *(name for name in (self.label, self.weight) if name), *others]))
        try:
            footer = parquet.read_metadata(self.path)
            texts = self._texts(footer) if dictionaries else None
            with parquet.ParquetFile(self.path, metadata=footer, read_dictionary=texts) as file:
                self._check_columns(file.schema_arrow.names, wanted)
                table = file.read_row_groups(list(self.groups), columns=wanted, use_threads=False)
        except (OSError, need("pyarrow", "ParquetRows", SCALE).ArrowException) as error:
            raise PartitionError(f"{self.path}, {self.place}: cannot be read ({_line(error)}).") from error
        if table.num_rows != self.n_rows:
            raise PartitionError(f"{self.path}, {self.place}: has {table.num_rows} rows, and had {self.n_rows}.")
        return table

    def decode(self, table: Any) -> Arrays:
        """Put the columns one below the other: turning them costs as much as decoding."""
        below = np.empty((len(self.names), self.n_rows), dtype=self.dtype)
        for row, name in zip(below, self.names, strict=True):
            row[:] = self.numbers(table, name)
        return {"X": below.T, **self.beside(table)}

    def beside(self, table: Any) -> Arrays:
        """Return labels and weights, where there are any."""
        rows: Arrays = {}
        if self.label is not None:
            rows["y"] = self._labels(table.column(self.label))
        if self.weight is not None:
            rows["w"] = self.numbers(table, self.weight).astype(np.float64)
        return rows

    def _texts(self, footer: Any) -> list[str]:
        types = need("pyarrow", "ParquetRows", SCALE).types
        schema = footer.schema.to_arrow_schema()
        return [each.name for each in schema if each.name in self.names and types.is_string(each.type)]

    def _check_stamp(self) -> None:
        try:
            there = _stamp(self.path)
        except OSError as error:
            raise PartitionError(f"{self.path}, {self.place}: is no longer there ({_line(error)}).") from error
        if there != self.stamp:
            raise PartitionError(
                f"{self.path}, {self.place}: was replaced or changed while it was read; start again when nobody "
                "writes to it."
            )

    def _check_columns(self, there: list[str], wanted: list[str]) -> None:
        lost = [name for name in wanted if name not in there]
        if lost:
            raise PartitionError(f"{self.path}, {self.place}: has no column {lost[0]!r}, which other files have.")

    def numbers(self, table: Any, name: str) -> Any:
        """Return a column of numbers without gaps."""
        types = need("pyarrow", "ParquetRows", SCALE).types
        column = table.column(name)
        kind = column.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
            raise PartitionError(f"{self.path}, {self.place}: the column {name!r} holds {kind}, not numbers.")
        if column.null_count:
            raise PartitionError(
                f"{self.path}, {self.place}: the column {name!r} is missing in {column.null_count} rows. Fill the "
                "gaps, leave the column out, or have the table prepared: scarless.analyse does."
            )
        return np.asarray(column.to_numpy(), dtype=np.float64 if types.is_decimal(kind) else None)

    def _labels(self, column: Any) -> Any:
        if column.null_count:
            raise PartitionError(
                f"{self.path}, {self.place}: the label {self.label!r} is missing in {column.null_count} rows; an "
                "unlabelled row has a label too, such as 0."
            )
        values = np.asarray(column.to_numpy())
        return values.astype(str) if values.dtype.hasobject else values

    @property
    def place(self) -> str:
        """Where in the file, in words."""
        first, last = self.groups[0], self.groups[-1]
        return f"row group {first}" if first == last else f"row groups {first} to {last}"


class ParquetRows:
    """The rows of Parquet files, for `fit`, `predict` and diagnostics in the place of a table in memory.

    Labels and weights are columns, given by name: ``fit(ParquetRows("claims/*.parquet"), "diagnosed")``.

    Parameters
    ----------
    where : path, or list of paths
        A file, a folder (with all files below that end in ``.parquet``), or a pattern with ``*``.
    columns : list of str, optional
        The attributes, in this order. Default: all columns but labels and weights.
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

    def __init__(
        self,
        where: Any,
        *,
        columns: Sequence[str] | None = None,
        dtype: str | None = None,
        memory: int = _DEFAULT_CACHE,
        scratch: str | Path | bool | None = None,
        checkpoint: str | Path | None = None,
        scheduler: Any = None,
    ) -> None:
        self.files = _files(where)
        self._wanted = None if columns is None else tuple(columns)
        self.dtype, self.scheduler, self.checkpoint = dtype, scheduler, checkpoint
        self.cache = Cache(int(memory), "" if scratch is False else None if scratch in (None, True) else str(scratch))

    def select(self, columns: Sequence[str]) -> "ParquetRows":
        """Return the same rows with these attributes, in this order."""
        other = object.__new__(ParquetRows)
        vars(other).update({**vars(self), "_wanted": tuple(columns)})
        return other

    def plan(self, label: str | None = None, weight: str | None = None, *, row_bytes: int | None = None) -> Plan:
        """Return the pieces in which the rows are walked; `row_bytes` is the size of a row that will be kept."""
        footers = [_footer(path) for path in self.files]
        names = self._names(footers[0], label, weight)
        dtype = np.dtype(self.dtype or _common_type(footers[0], names))
        model = RowGroups("", (), 0, (0, 0), tuple(names), label, weight, str(dtype))
        row_bytes = row_bytes or max(1, len(names)) * dtype.itemsize
        sources = [source for footer in footers for source in _partitions(footer, model, row_bytes)]
        if not sources:
            raise ValueError(f"{self.files[0]}{' and others' if len(self.files) > 1 else ''}: no file has a row.")
        return Plan.of(sources, names, dtype)

    def _names(self, footer: "_Footer", label: str | None, weight: str | None) -> list[str]:
        for name in (label, weight, *(self._wanted or ())):
            if name is not None and name not in footer.kinds:
                raise ValueError(f"{footer.path} has no column {name!r}; it has {', '.join(list(footer.kinds)[:8])}.")
        return list(self._wanted or (name for name in footer.kinds if name not in (label, weight)))


@open_rows.register
def _open_parquet(X: ParquetRows, y: Any = None, sample_weight: Any = None) -> Engine:
    for name, value in (("labels", y), ("sample_weight", sample_weight)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"With ParquetRows the {name} are a column of the files, given by its name.")
    passes = None if X.checkpoint is None else Passes(X.checkpoint)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(X.scheduler), X.cache, passes)


@dataclass(frozen=True)
class _Footer:
    path: str
    kinds: dict[str, Any]  # of columns, by name
    group_rows: tuple[int, ...]
    stamp: tuple[int, int]


def _files(where: Any) -> list[str]:
    given = [where] if isinstance(where, str | Path) else list(where)
    found: list[str] = []
    for each in given:
        path = Path(each)
        if path.is_dir():
            found += sorted(str(file) for file in path.rglob("*.parquet"))
        else:
            found += sorted(glob.glob(str(each))) if glob.has_magic(str(each)) else [str(each)]
    if not found:
        raise FileNotFoundError(f"{', '.join(map(str, given))}: no Parquet file is there.")
    return found


def _footer(path: str) -> _Footer:
    parquet = need("pyarrow.parquet", "ParquetRows", SCALE)
    try:
        with parquet.ParquetFile(path) as file:
            kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
            rows = tuple(file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups))
    except need("pyarrow", "ParquetRows", SCALE).ArrowException as error:
        raise PartitionError(f"{path}: is no Parquet file, or was cut short ({_line(error)}).") from error
    return _Footer(path, kinds, rows, _stamp(path))


def _stamp(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_size, found.st_mtime_ns


def _common_type(footer: _Footer, names: list[str]) -> str:
    return "float32" if all(str(footer.kinds[name]) in ("float", "halffloat") for name in names) else "float64"


def _partitions(footer: _Footer, model: RowGroups, row_bytes: int) -> list[RowGroups]:
    """Put neighbouring row groups together until they are large enough to pay for a task."""
    found: list[RowGroups] = []
    groups: list[int] = []
    rows = 0
    for group, n_rows in enumerate(footer.group_rows):
        groups.append(group)
        rows += n_rows
        last = group + 1 == len(footer.group_rows)
        if rows and (last or (rows + footer.group_rows[group + 1]) * row_bytes > _PARTITION_BYTES):
            found.append(replace(model, path=footer.path, groups=tuple(groups), n_rows=rows, stamp=footer.stamp))
            groups, rows = [], 0
    return found


def _line(error: BaseException) -> str:
    return str(error).split("\n", maxsplit=1)[0][:200]
