"""Raw tables in files, with text, dates and gaps: what makes numbers of them is learned in one pass over all rows.

It is applied where a partition is decoded, so that what is kept there are numbers, and no second table is written.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from scarless.engines.base import Engine, Several, open_rows
from scarless.engines.blocks import Preparation, Reading
from scarless.outside.extras import need
from scarless.scale.columns import SCALE
from scarless.scale.engine import PartitionedEngine, Passes
from scarless.scale.executors import find_executor
from scarless.scale.parquet import ParquetRows, RowGroups
from scarless.scale.partitions import Arrays, Cache, Part, Plan, Program
from scarless.scale.raw_columns import (
    MOST_LEVELS,
    Column,
    Facts,
    Moments,
    Tail,
    facts_of_column,
    fill,
    recipe_of,
    tail_of_column,
)


class FilePreparation(BaseEstimator):
    r"""Make numbers of a raw table in files, as `scarless.raw.preparation.table_preparation` does in memory.

    One pass over all rows finds means, variances, gaps and levels; their sums are added in the plan's order, so that
    the result does not depend on who adds them.

    - Numbers (and truth values, as 0 and 1) are standardised. A gap becomes the mean, with a column beside that says
      so: without a penalty, the median would change nothing but that column's coefficient.
    - Text and categories with up to `max_categories` values: a column for each, of two only one. Missing is a value of its
      own; a value that was not seen in the fit is none of them. Text in dictionaries is read as such.
    - Beside numbers with a long tail, as incomes have, their logarithm: a second pass over these columns measures it.
      Of a column with zeros it is :math:`\log(1 + x/m)`, `m` the geometric mean of what is above 0.
    - Dates: year, month and day.
    - All these columns are standardised, as in memory. What is the same in every row is left out.

    Differences to the preparation in memory: text with more values is refused, and `m` is the median there.

    Parameters
    ----------
    max_categories : int, default=40

    Attributes
    ----------
    columns_ : list of Column
        Each raw column, and what is made of it.
    """

    def __init__(self, *, max_categories: int = MOST_LEVELS) -> None:
        self.max_categories = max_categories

    def fit(self, X: ParquetRows, label: str | Several | None = None, weight: str | None = None) -> Self:
        """Look at all rows once.

        Parameters
        ----------
        X : ParquetRows
        label, weight : str, optional
            Columns that are no attributes; of labels `scarless.engines.base.Several`, too.

        Returns
        -------
        FilePreparation
        """
        if not isinstance(X, ParquetRows):
            raise TypeError(
                f"FilePreparation is fitted to ParquetRows, got {type(X).__name__}. For a table in memory there is "
                "scarless.raw.preparation.table_preparation()."
            )
        plan = X.plan(label, weight, raw=True)
        program = Program((), Preparation(Reading(plan.dtype, None)), X.cache)
        lanes = find_executor(X.scheduler).map(facts_of_lane, program, plan.lanes, (self.max_categories,))
        facts = reduce(lambda one, other: _joined(one, other, self.max_categories), lanes)
        self._refuse_many(facts)
        tails = _tails(X, facts)
        columns = _with_names_of_their_own([recipe_of(name, each, tails.get(name)) for name, each in facts.items()])
        if not any(column.outputs for column in columns):
            raise ValueError(f"{X.files[0]}: every column is the same in all rows, so there is nothing to learn from.")
        self.columns_: list[Column] = columns
        return self

    def _refuse_many(self, facts: dict[str, Facts]) -> None:
        many = [name for name, each in facts.items() if each.many]
        if many:
            raise ValueError(
                f"{', '.join(map(repr, many))}: text with more than {self.max_categories} different values, of which no "
                "columns are made. Leave it out with ParquetRows(folder, columns=[...]); or put its values into groups "
                "(a region for a postcode, a chapter for a code), or write it as a number where it has an order."
            )

    @property
    def raw_names(self) -> list[str]:
        """Columns of the raw table."""
        check_is_fitted(self, "columns_")
        return [column.name for column in self.columns_]

    @property
    def names(self) -> list[str]:
        """Columns that come out."""
        return [output.name for column in self.columns_ for output in column.outputs]

    @property
    def token(self) -> str:
        """A name for what is done: another for something else."""
        return hashlib.sha256(repr([tuple(column) for column in self.columns_]).encode()).hexdigest()[:32]

    def transform(self, X: Any) -> Any:
        """Return the rows of files as rows of numbers; of a data frame, a data frame.

        Parameters
        ----------
        X : ParquetRows or data frame

        Returns
        -------
        PreparedRows or data frame
        """
        if isinstance(X, ParquetRows):
            return PreparedRows(X, self)
        arrow, pandas = (need(name, "Preparing a table", SCALE) for name in ("pyarrow", "pandas"))
        if not hasattr(X, "columns"):
            raise TypeError(
                f"A table with named columns is needed, ParquetRows or a data frame; got {type(X).__name__}."
            )
        lost = [name for name in self.raw_names if name not in list(X.columns)]
        if lost:
            raise ValueError(f"X has no column {lost[0]!r}, which it had when the preparation was fitted.")
        given = X[self.raw_names]
        table = given.to_arrow() if hasattr(given, "to_arrow") else arrow.Table.from_pandas(given, preserve_index=False)
        below = self.decode(table, np.dtype(np.float64), "X")
        return pandas.DataFrame(below.T, columns=self.names, index=getattr(given, "index", None))

    def decode(self, table: Any, dtype: Any, where: str) -> Any:
        """Return the prepared columns of an Arrow table, one below the other."""
        below = np.empty((sum(len(column.outputs) for column in self.columns_), table.num_rows), dtype=dtype)
        first = 0
        for column in self.columns_:
            rows = below[first : first + len(column.outputs)]
            if len(rows):
                fill(rows, column, table.column(column.name), where)
            first += len(rows)
        return below


class PreparedRows:
    """Rows of files as a fitted preparation shows them: what `fit`, `predict` and diagnostics take as a table.

    Parameters
    ----------
    rows : ParquetRows
        In float32 unless their `dtype` says otherwise: standardised columns lose nothing by it that matters.
    preparation : FilePreparation
        Fitted.

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
        """Who walks the rows."""
        return self.rows.scheduler

    @property
    def cache(self) -> Cache:
        """Where decoded rows stay."""
        return self.rows.cache

    @property
    def token(self) -> str:
        """A name for the preparation."""
        return self.preparation.token

    @property
    def condition(self) -> str:
        """Which rows of the files these are, in words; empty for all."""
        return self.rows.condition

    def plan(self, label: str | Several | None = None, weight: str | None = None, *, raw: bool = True) -> Plan:
        """Return the pieces in which the rows are walked; what is read is raw, whatever `raw` says."""
        names = self.preparation.names
        there = self.rows.plan(label, weight, raw=True, row_bytes=len(names) * self.dtype.itemsize)
        token = self.preparation.token
        sources = [PreparedGroups(part.source, self.preparation, token, str(self.dtype)) for part in there.parts]
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
        """How many rows."""
        return self.raw.n_rows

    @property
    def path(self) -> str:
        """The file."""
        return self.raw.path

    def columns_there(self) -> list[str]:
        """Return the names of all raw columns of the file."""
        return self.raw.columns_there()

    @property
    def groups(self) -> tuple[int, ...]:
        """Its row groups."""
        return self.raw.groups

    @property
    def stamp(self) -> tuple[int, int]:
        """The file's size and time of change when the plan was made."""
        return self.raw.stamp

    @property
    def place(self) -> str:
        """Where in the file, in words."""
        return self.raw.place

    @property
    def names(self) -> list[str]:
        """The prepared columns."""
        return self.preparation.names

    def load(self) -> Arrays:
        """Decode and prepare attributes, and decode labels and weights."""
        return self.decode(self.read())

    def read(self, others: Sequence[str] = ()) -> Any:
        """Return raw attributes, labels, weights and other columns as an Arrow table."""
        return self.raw.read(others, dictionaries=True)

    def decode(self, table: Any) -> Arrays:
        """Return the prepared attributes, labels and weights."""
        where = f"{self.path}, {self.place}"
        return {"X": self.preparation.decode(table, self.dtype, where).T, **self.raw.beside(table)}

    def beside(self, table: Any) -> Arrays:
        """Return labels and weights, where there are any."""
        return self.raw.beside(table)

    def numbers(self, table: Any, name: str) -> Any:
        """Return a raw column of numbers without gaps."""
        return self.raw.numbers(table, name)


@open_rows.register
def _open_prepared(X: PreparedRows, y: Any = None, sample_weight: Any = None) -> Engine:
    for name, value in (("labels", y), ("sample_weight", sample_weight)):
        if value is not None and not isinstance(value, str | Several):
            raise TypeError(f"With PreparedRows the {name} are a column of the files, given by its name.")
    passes = None if X.rows.checkpoint is None else Passes(X.rows.checkpoint)
    return PartitionedEngine(X.plan(y, sample_weight), find_executor(X.scheduler), X.cache, passes)


def facts_of_lane(program: Program, lane: tuple[Part, ...], max_categories: int) -> dict[str, Facts]:
    """Return what a run of partitions tells of each column; nothing of them is kept."""
    found = [_facts_of(part.source, max_categories) for part in lane]
    return reduce(lambda one, other: _joined(one, other, max_categories), found)


def _facts_of(source: RowGroups, max_categories: int) -> dict[str, Facts]:
    table, where = source.read(dictionaries=True), f"{source.path}, {source.place}"
    return {name: facts_of_column(table.column(name), name, where, max_categories) for name in source.names}


def _tails(X: ParquetRows, facts: dict[str, Facts]) -> dict[str, Moments]:
    """Return the moments of the logarithms of columns with long tails, by one more pass over these columns."""
    tails = {name: each.tail for name, each in facts.items() if each.tail is not None}
    if not tails:
        return {}
    plan = X.select(list(tails)).plan(raw=True)
    program = Program((), Preparation(Reading(plan.dtype, None)), X.cache)
    lanes = find_executor(X.scheduler).map(tails_of_lane, program, plan.lanes, (tails,))
    return {name: reduce(Moments.and_those, [lane[name] for lane in lanes]) for name in tails}


def tails_of_lane(program: Program, lane: tuple[Part, ...], tails: dict[str, Tail]) -> dict[str, Moments]:
    """Return the moments of logarithms in a run of partitions."""
    found: dict[str, Moments] = {}
    for part in lane:
        table = part.source.read()
        for name, tail in tails.items():
            here = tail_of_column(table.column(name), tail)
            found[name] = found[name].and_those(here) if name in found else here
    return found


def _joined(one: dict[str, Facts], other: dict[str, Facts], max_categories: int) -> dict[str, Facts]:
    return {name: facts.and_those(other[name], name, max_categories) for name, facts in one.items()}


def _with_names_of_their_own(columns: list[Column]) -> list[Column]:
    """Lengthen a name that two outputs share, as of a column `a_b` and the level `b` of `a`."""
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
