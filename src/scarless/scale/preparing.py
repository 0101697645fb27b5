"""Preparation of raw tables in files, with text, dates and missing values.

The preparation is fitted in one pass over all rows, or in two passes if a column has a long tail. It is applied when a
partition is decoded, so no prepared table is written.
"""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from scarless.engines.base import Engine, LabelColumns, open_rows
from scarless.engines.blocks import Preparation, Reading
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.scale.engine import PartitionedEngine, Passes
from scarless.scale.executors import find_executor
from scarless.scale.parquet import ParquetRows, RowGroups, need_names
from scarless.scale.partitions import Arrays, Batch, Cache, Plan, Program
from scarless.scale.raw_columns import (
    CATEGORIES,
    EMPTY,
    MAX_CATEGORIES,
    ColumnMoments,
    ColumnStatistics,
    RawColumn,
    Tail,
    column_statistics,
    describe_column,
    fill_outputs,
    log_moments,
    new_categories,
    texts_about_new,
    with_categories,
)


class FilePreparation(BaseEstimator):
    r"""Preparation of a raw table in files, like `scarless.raw.preparation.table_preparation` in memory.

    One pass over all rows computes means, variances, missing values and categories. Sums are added in the order of the
    rows, so the result does not depend on the scheduler.

    - Numbers, and booleans as 0 and 1: a missing value becomes the mean, and a column is added that indicates missing
      values. In a model without a penalty, filling with the median instead would change only the coefficient of this
      column.
    - Text and categories with up to `max_categories` values: one column for each category, or a single column if there
      are two. Missing values are a category. A category that was not seen in the fit has 0 in all of these columns,
      before they are standardised.
    - Numbers with a long tail, such as income: their logarithm is added, which needs a second pass over these columns.
      If there are zeros, it is :math:`\log(1 + x/m)`, where `m` is the geometric mean of the positive values.
    - Dates: year, month and day.

    All columns are standardised. Constant columns are left out. There are two differences from the preparation in
    memory: text with more than `max_categories` values raises an error, and `m` is the geometric mean, not the median.

    Parameters
    ----------
    max_categories : int, default=40
        Largest number of different values that a column of text may have.

    Attributes
    ----------
    columns_ : list of RawColumn
        Description of each raw column and the columns derived from it.
    """

    def __init__(self, *, max_categories: int = MAX_CATEGORIES) -> None:
        self.max_categories = max_categories

    def fit(self, X: ParquetRows, label: str | LabelColumns | None = None, weight: str | None = None) -> Self:
        """Learn the preparation from all rows.

        Parameters
        ----------
        X : ParquetRows
            Rows of the raw table.
        label, weight : str, optional
            Columns of labels and weights, which are not attributes. `label` can be a
            `scarless.engines.base.LabelColumns`.

        Returns
        -------
        FilePreparation
        """
        if not isinstance(X, ParquetRows):
            raise TypeError(
                f"X must be ParquetRows; got {type(X).__name__}. For a table in memory, use "
                "scarless.raw.preparation.table_preparation()."
            )
        statistics = _statistics(X, X.plan(label, weight, raw=True), self.max_categories)
        self._refuse_many(statistics)
        logarithms = _log_moments(X, statistics)
        columns = _with_unique_names(
            [describe_column(name, each, logarithms.get(name)) for name, each in statistics.items()]
        )
        if not any(column.outputs for column in columns):
            raise ValueError(f"{X.files[0]}: every column is constant. At least one attribute must vary.")
        self.columns_: list[RawColumn] = columns
        return self

    def _refuse_many(self, statistics: dict[str, ColumnStatistics]) -> None:
        many = [name for name, each in statistics.items() if each.many]
        if many:
            have = "this column has" if len(many) == 1 else "each of these columns has"
            raise ValueError(
                f"{', '.join(map(repr, many))}: {have} more than {self.max_categories} different texts, the largest "
                "number that a column may have. Leave such columns out (--exclude, or in Python ParquetRows(folder, "
                "columns=[...])), store dates as dates and not as texts, group values (regions instead of postcodes, "
                "chapters instead of codes), or write numbers if the values have an order."
            )

    @property
    def raw_names(self) -> list[str]:
        """Names of the columns of the raw table."""
        check_is_fitted(self, "columns_")
        return [column.name for column in self.columns_]

    @property
    def names(self) -> list[str]:
        """Prepared columns."""
        return [output.name for column in self.columns_ for output in column.outputs]

    @property
    def token(self) -> str:
        """Identifier of the preparation."""
        return hashlib.sha256(repr([tuple(column) for column in self.columns_]).encode()).hexdigest()[:32]

    def transform(self, X: Any) -> Any:
        """Return the prepared rows. A warning says which categories were not in the fit.

        Parameters
        ----------
        X : ParquetRows or data frame
            Rows of a raw table. The columns of categories of ParquetRows are read once, for the warning.

        Returns
        -------
        PreparedRows or data frame
            PreparedRows for ParquetRows, and a data frame for a data frame.
        """
        if isinstance(X, ParquetRows):
            for text in _new_in_files(X, self.columns_):
                warn_user(text, UserWarning)
            return PreparedRows(X, self)
        arrow, pandas = need("pyarrow", "Preparing a table", "tool"), need("pandas", "Preparing a table", "tool")
        if not hasattr(X, "columns"):
            raise TypeError(f"X must be ParquetRows or a data frame, with named columns; got {type(X).__name__}.")
        absent = [name for name in self.raw_names if name not in list(X.columns)]
        if absent:
            raise ValueError(f"X must have the columns of the fit; it has no column {absent[0]!r}.")
        given = X[self.raw_names]
        for text in new_categories(given, self.columns_):
            warn_user(text, UserWarning)
        table = given.to_arrow() if hasattr(given, "to_arrow") else arrow.Table.from_pandas(given, preserve_index=False)
        transposed = self.decode(table, np.dtype(np.float64), "X")
        return pandas.DataFrame(transposed.T, columns=self.names, index=getattr(given, "index", None))

    def decode(self, table: Any, dtype: Any, where: str) -> Any:
        """Return the prepared columns of an Arrow table as the rows of an array."""
        transposed = np.empty((sum(len(column.outputs) for column in self.columns_), table.num_rows), dtype=dtype)
        first = 0
        for column in self.columns_:
            rows = transposed[first : first + len(column.outputs)]
            if len(rows):
                fill_outputs(rows, column, table.column(column.name), where)
            first += len(rows)
        return transposed


class PreparedRows:
    """Rows of files that are prepared when they are decoded. `fit`, `predict` and diagnostics accept them as a table.

    Parameters
    ----------
    rows : ParquetRows
        Raw rows. The prepared rows have the precision `rows.dtype` or, if it is not set, float32, which is precise
        enough for standardised columns.
    preparation : FilePreparation
        Fitted preparation.

    Examples
    --------
    >>> import pyarrow, pyarrow.parquet
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> table = pyarrow.table({"age": [30.0, None, 50.0], "sex": ["f", "m", "f"], "ill": [0, 1, 0]})
    >>> with TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, Path(folder, "claims.parquet"))
    ...     rows = ParquetRows(folder)
    ...     prepared = PreparedRows(rows, FilePreparation().fit(rows, "ill"))
    ...     found = open_rows(prepared).collect(lambda X, rows: X)
    >>> prepared.preparation.names
    ['age', 'missingindicator_age', 'sex_m']
    >>> found.round(2)
    array([[-1.22, -0.71, -0.71],
           [ 0.  ,  1.41,  1.41],
           [ 1.22, -0.71, -0.71]], dtype=float32)
    """

    def __init__(self, rows: ParquetRows, preparation: FilePreparation) -> None:
        self.rows, self.preparation = rows.select(preparation.raw_names), preparation
        self.dtype = np.dtype(rows.dtype or np.float32)

    @property
    def scheduler(self) -> Any:
        """Scheduler of the passes."""
        return self.rows.scheduler

    @property
    def cache(self) -> Cache:
        """Cache of decoded rows."""
        return self.rows.cache

    @property
    def token(self) -> str:
        """Identifier of the preparation."""
        return self.preparation.token

    @property
    def condition(self) -> str:
        """Filter of the rows as text; empty if there is no filter."""
        return self.rows.condition

    def plan(self, label: str | LabelColumns | None = None, weight: str | None = None, *, raw: bool = True) -> Plan:
        """Return the partitions of the rows; `raw` has no effect, because raw columns are always read."""
        names = self.preparation.names
        plan = self.rows.plan(label, weight, raw=True, row_bytes=len(names) * self.dtype.itemsize)
        token = self.preparation.token
        sources = [PreparedGroups(each.source, self.preparation, token, str(self.dtype)) for each in plan.partitions]
        return Plan.of(sources, names, self.dtype)


@dataclass(frozen=True)
class PreparedGroups:
    """Row groups of a file, prepared when they are decoded."""

    raw: RowGroups
    preparation: FilePreparation
    token: str
    dtype: str

    def __repr__(self) -> str:
        return f"PreparedGroups({self.raw!r}, {self.token}, {self.dtype})"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.raw.n_rows

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.raw.path

    def columns_there(self) -> list[str]:
        """Return the names of all raw columns of the file."""
        return self.raw.columns_there()

    @property
    def groups(self) -> tuple[int, ...]:
        """Numbers of the row groups."""
        return self.raw.groups

    @property
    def stamp(self) -> tuple[int, int]:
        """Size and modification time of the file when the plan was made."""
        return self.raw.stamp

    @property
    def place(self) -> str:
        """Location in the file, for messages."""
        return self.raw.place

    @property
    def names(self) -> list[str]:
        """Prepared columns."""
        return self.preparation.names

    def load(self) -> Arrays:
        """Return the prepared attributes, labels and weights, read from the file."""
        return self.decode(self.read())

    def read(self, others: Sequence[str] = ()) -> Any:
        """Return the raw attributes, labels, weights and other columns as an Arrow table."""
        return self.raw.read(others, dictionaries=True)

    def decode(self, table: Any) -> Arrays:
        """Return the prepared attributes, labels and weights."""
        where = f"{self.path}, {self.place}"
        return {"X": self.preparation.decode(table, self.dtype, where).T, **self.raw.beside(table)}

    def beside(self, table: Any) -> Arrays:
        """Return the labels and weights, if there are any."""
        return self.raw.beside(table)

    def numbers(self, table: Any, name: str) -> Any:
        """Return a raw column of numbers; raise an error if a value is missing."""
        return self.raw.numbers(table, name)


@open_rows.register
def _open_prepared(X: PreparedRows, y: Any = None, sample_weight: Any = None) -> Engine:
    need_names("PreparedRows", "files", y=y, sample_weight=sample_weight)
    passes = None if X.rows.checkpoint is None else Passes(X.rows.checkpoint)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(X.scheduler), X.cache, passes)


def _statistics(X: ParquetRows, plan: Plan, max_categories: int) -> dict[str, ColumnStatistics]:
    """Return the statistics of each column, from one pass over all rows."""
    program = Program((), Preparation(Reading(plan.dtype, None)), X.cache)
    found = find_executor(X.scheduler).map(batch_statistics, program, plan.batches, (max_categories,))
    return reduce(lambda one, other: _merged(one, other, max_categories), found)


def _new_in_files(X: ParquetRows, columns: list[RawColumn]) -> list[str]:
    """Return a text about each column with categories, or missing values, that the fit did not have."""
    used = {column.name: column for column in with_categories(columns)}
    if not used:
        return []
    statistics = _statistics(X, X.select(list(used)).plan(raw=True), sys.maxsize)
    return [
        text
        for name, found in statistics.items()
        if found.kind in (CATEGORIES, EMPTY)  # Another kind raises an error when the rows are decoded.
        for text in texts_about_new(used[name], set(found.counts), found.n_missing)
    ]


def batch_statistics(program: Program, batch: Batch, max_categories: int) -> dict[str, ColumnStatistics]:
    """Return the statistics of each column in a batch of partitions; decoded rows are not cached."""
    found = [_partition_statistics(each.source, max_categories) for each in batch]
    return reduce(lambda one, other: _merged(one, other, max_categories), found)


def _partition_statistics(source: RowGroups, max_categories: int) -> dict[str, ColumnStatistics]:
    table, where = source.read(dictionaries=True), f"{source.path}, {source.place}"
    return {name: column_statistics(table.column(name), name, where, max_categories) for name in source.names}


def _log_moments(X: ParquetRows, statistics: dict[str, ColumnStatistics]) -> dict[str, ColumnMoments]:
    """Return the moments of the logarithms of columns with long tails, from a second pass over these columns."""
    tails = {name: each.tail for name, each in statistics.items() if each.tail is not None}
    if not tails:
        return {}
    plan = X.select(list(tails)).plan(raw=True)
    program = Program((), Preparation(Reading(plan.dtype, None)), X.cache)
    found = find_executor(X.scheduler).map(log_moments_of_batch, program, plan.batches, (tails,))
    return {name: reduce(ColumnMoments.merged, [each[name] for each in found]) for name in tails}


def log_moments_of_batch(program: Program, batch: Batch, tails: dict[str, Tail]) -> dict[str, ColumnMoments]:
    """Return the moments of logarithms in a batch of partitions."""
    found: dict[str, ColumnMoments] = {}
    for partition in batch:
        table = partition.source.read()
        for name, tail in tails.items():
            moments = log_moments(table.column(name), tail)
            found[name] = found[name].merged(moments) if name in found else moments
    return found


def _merged(
    one: dict[str, ColumnStatistics], other: dict[str, ColumnStatistics], max_categories: int
) -> dict[str, ColumnStatistics]:
    return {name: statistics.merged(other[name], name, max_categories) for name, statistics in one.items()}


def _with_unique_names(columns: list[RawColumn]) -> list[RawColumn]:
    """Append ``_`` to names that two outputs share, such as column `a_b` and category `b` of column `a`."""
    taken: set[str] = set()
    found = []
    for column in columns:
        outputs = []
        for output in column.outputs:
            name = output.name
            while name in taken:
                name += "_"
            taken.add(name)
            outputs.append(output._replace(name=name))
        found.append(column._replace(outputs=tuple(outputs)))
    return found
