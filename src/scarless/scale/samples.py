"""Some rows of a table in files, drawn at random, for what needs a table in memory."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scarless.engines.base import Several
from scarless.engines.blocks import Preparation, Reading
from scarless.numerics.arrays import Integers
from scarless.outside.extras import need
from scarless.scale.columns import SCALE
from scarless.scale.executors import find_executor
from scarless.scale.parquet import ParquetRows
from scarless.scale.partitions import Part, Program

_COUNT = "number of rows"
MOST_CHECKED_PER_PARTITION = 2000  # of a partition: where more have a value, those that are drawn will do


class Drawn(NamedTuple):
    """Rows as an Arrow table, in the order of the files; how many rows there are; how often each label is there.

    `kinds` has each combination of values of the columns that were asked for, and how many rows have it, last;
    `checked` those rows beside, which were not drawn, that have a value in a column of which all are wanted.
    """

    table: Any
    n_rows: int
    labels: dict[Any, int]
    kinds: Any
    checked: Any


def draw_rows(rows: ParquetRows, label: str | Sequence[str], n: int, seed: int, *, also: str = "") -> Drawn:
    """Draw rows without replacement, each as likely as any other, and count labels, in one pass.

    Parameters
    ----------
    rows : ParquetRows
    label : str or list of str
        The columns whose values are counted, over all rows; `Drawn.labels` is of the first.
    n : int
        How many to draw; all where there are fewer.
    seed : int
    also : str, default=""
        A column: rows with a value in it come all, where they are few.

    Returns
    -------
    Drawn
    """
    columns = Several([label] if isinstance(label, str) else label)
    plan = rows.plan(columns, raw=True)
    if plan.n_rows > n:
        numbers = np.sort(np.random.default_rng(seed).choice(plan.n_rows, n, replace=False, shuffle=False))
    else:
        numbers = np.arange(plan.n_rows)
    program = Program((), Preparation(Reading(plan.dtype, None)), rows.cache)
    found = find_executor(rows.scheduler).map(draw_from_lane, program, plan.lanes, (numbers, columns, also))
    table, kinds, checked = (_joined([each[k] for each in found]) for k in range(3))
    kinds = kinds.group_by(list(columns)).aggregate([(_COUNT, "sum")]).rename_columns([*columns, _COUNT])
    labels: Counter[Any] = Counter()
    for value, count in zip(kinds.column(0).to_pylist(), kinds.column(_COUNT).to_pylist(), strict=True):
        labels[value] += count
    return Drawn(table, plan.n_rows, dict(labels), kinds, checked)


def draw_from_lane(
    program: Program, lane: tuple[Part, ...], numbers: Integers, columns: Several, also: str
) -> tuple[Any, Any, Any]:
    """Return those rows of a run of partitions that have these numbers in the table, counts of labels, checked rows."""
    arrow = need("pyarrow", "ParquetRows", SCALE)
    tables, kinds, checked = [], [], []
    for part in lane:
        table = part.source.read()
        first, last = np.searchsorted(numbers, [part.start, part.start + table.num_rows])
        drawn = numbers[first:last] - part.start
        tables.append(table.take(arrow.array(drawn)))
        kinds.append(_counts(table.select(list(columns))))
        others = np.setdiff1d(_with_value(table.column(also)), drawn) if also else drawn[:0]
        checked.append(table.take(arrow.array(others[:0] if others.size > MOST_CHECKED_PER_PARTITION else others)))
    return _joined(tables), _joined(kinds), _joined(checked)


def _counts(table: Any) -> Any:
    """Return each combination of values, with how many rows have it."""
    types = need("pyarrow", "ParquetRows", SCALE).types
    for number, each in enumerate(table.schema):
        if types.is_dictionary(each.type):
            table = table.set_column(number, each.name, table.column(number).cast(each.type.value_type))
    counts = table.group_by(table.column_names).aggregate([([], "count_all")])
    return counts.select([*table.column_names, "count_all"]).rename_columns([*table.column_names, _COUNT])


def _with_value(column: Any) -> Any:
    """Return which rows have a value: one that is not missing, nor -1."""
    values = column.to_pandas()
    there = values.notna() & (values != -1)
    return np.flatnonzero(there.to_numpy())


def _joined(tables: list[Any]) -> Any:
    """Return tables one below the other; whole numbers in one and broken ones in another become broken."""
    return need("pyarrow", "ParquetRows", SCALE).concat_tables(tables, promote_options="permissive")
