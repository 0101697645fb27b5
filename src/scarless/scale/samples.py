"""Random samples of a table in files, for methods that need a table in memory."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scarless.engines.base import LabelColumns
from scarless.engines.blocks import Preparation, Reading
from scarless.numerics.arrays import Integers
from scarless.outside.extras import need
from scarless.scale.columns import SCALE
from scarless.scale.executors import find_executor
from scarless.scale.parquet import ParquetRows
from scarless.scale.partitions import Batch, Program

_COUNT = "number of rows"
# If more rows of a partition than this have a value in the column `also`, none of them is added, because the random
# sample already has enough such rows.
MAX_CHECKED_PER_PARTITION = 2000


class DrawnRows(NamedTuple):
    """A random sample of rows, and counts over all rows."""

    table: Any  # drawn rows as an Arrow table, in their order in the files
    n_rows: int  # number of all rows
    labels: dict[Any, int]  # number of rows with each value of the first label column
    kinds: Any  # Arrow table of the combinations of labels; the last column counts their rows
    checked: Any  # rows that were not drawn, but have a value in the column `also`


def draw_rows(rows: ParquetRows, label: str | Sequence[str], n: int, seed: int, *, also: str = "") -> DrawnRows:
    """Draw rows at random without replacement, and count labels, in one pass.

    Parameters
    ----------
    rows : ParquetRows
        Rows to draw from.
    label : str or list of str
        Columns whose values are counted over all rows. `DrawnRows.labels` has the counts of the first column.
    n : int
        Number of rows to draw. If there are fewer rows, all are drawn.
    seed : int
        Seed of the random numbers.
    also : str, default=""
        Column such as an audit. All rows with a value in this column are returned, too, except from partitions with
        more than `MAX_CHECKED_PER_PARTITION` such rows.

    Returns
    -------
    DrawnRows
    """
    columns = LabelColumns([label] if isinstance(label, str) else label)
    plan = rows.plan(columns, raw=True)
    if plan.n_rows > n:
        numbers = np.sort(np.random.default_rng(seed).choice(plan.n_rows, n, replace=False, shuffle=False))
    else:
        numbers = np.arange(plan.n_rows)
    program = Program((), Preparation(Reading(plan.dtype, None)), rows.cache)
    found = find_executor(rows.scheduler).map(draw_from_batch, program, plan.batches, (numbers, columns, also))
    table, kinds, checked = (_concatenated([each[k] for each in found]) for k in range(3))
    kinds = kinds.group_by(list(columns)).aggregate([(_COUNT, "sum")]).rename_columns([*columns, _COUNT])
    labels: Counter[Any] = Counter()
    for value, count in zip(kinds.column(0).to_pylist(), kinds.column(_COUNT).to_pylist(), strict=True):
        labels[value] += count
    return DrawnRows(table, plan.n_rows, dict(labels), kinds, checked)


def draw_from_batch(
    program: Program, batch: Batch, numbers: Integers, columns: LabelColumns, also: str
) -> tuple[Any, Any, Any]:
    """Return the rows of a batch with these numbers, counts of labels, and other rows with a value in `also`."""
    arrow = need("pyarrow", "ParquetRows", SCALE)
    tables, kinds, checked = [], [], []
    for partition in batch:
        table = partition.source.read()
        first, last = np.searchsorted(numbers, [partition.start, partition.start + table.num_rows])
        drawn = numbers[first:last] - partition.start
        tables.append(table.take(arrow.array(drawn)))
        kinds.append(_counts(table.select(list(columns))))
        others = np.setdiff1d(_with_value(table.column(also)), drawn) if also else drawn[:0]
        checked.append(table.take(arrow.array(others[:0] if others.size > MAX_CHECKED_PER_PARTITION else others)))
    return _concatenated(tables), _concatenated(kinds), _concatenated(checked)


def _counts(table: Any) -> Any:
    """Return the combinations of values, with the number of rows for each."""
    types = need("pyarrow", "ParquetRows", SCALE).types
    for number, each in enumerate(table.schema):
        if types.is_dictionary(each.type):
            table = table.set_column(number, each.name, table.column(number).cast(each.type.value_type))
    counts = table.group_by(table.column_names).aggregate([([], "count_all")])
    return counts.select([*table.column_names, "count_all"]).rename_columns([*table.column_names, _COUNT])


def _with_value(column: Any) -> Any:
    """Return the positions of values that are neither missing nor -1."""
    values = column.to_pandas()
    present = values.notna() & (values != -1)
    return np.flatnonzero(present.to_numpy())


def _concatenated(tables: list[Any]) -> Any:
    """Concatenate tables; a column with integers in one table and floats in another becomes a column of floats."""
    return need("pyarrow", "ParquetRows", SCALE).concat_tables(tables, promote_options="permissive")
