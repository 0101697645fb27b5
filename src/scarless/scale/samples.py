"""Some rows of a table in files, drawn at random, for what needs a table in memory."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from scarless.engines.blocks import Preparation
from scarless.engines.units import Reading
from scarless.numerics.arrays import Integers
from scarless.outside.extras import need
from scarless.scale.chains import Part, Program
from scarless.scale.columns import SCALE
from scarless.scale.executors import find_executor
from scarless.scale.parquet import ParquetRows


class Drawn(NamedTuple):
    """Rows as an Arrow table, in the order of the files; how many rows there are; how often each label is there."""

    table: Any
    n_rows: int
    labels: dict[Any, int]


def draw_rows(rows: ParquetRows, label: str, n: int, seed: int) -> Drawn:
    """Draw rows without replacement, each as likely as any other, and count labels, in one pass.

    Parameters
    ----------
    rows : ParquetRows
    label : str
        The column whose values are counted, over all rows.
    n : int
        How many to draw; all where there are fewer.
    seed : int

    Returns
    -------
    Drawn
    """
    plan = rows.plan(label, raw=True)
    if plan.n_rows > n:
        numbers = np.sort(np.random.default_rng(seed).choice(plan.n_rows, n, replace=False, shuffle=False))
    else:
        numbers = np.arange(plan.n_rows)
    program = Program((), Preparation(Reading(plan.dtype, None)), rows.cache)
    found = find_executor(rows.scheduler).map(draw_from_lane, program, plan.lanes, (numbers,))
    labels: Counter[Any] = Counter()
    for _, counts in found:
        labels.update(counts)
    arrow = need("pyarrow", "ParquetRows", SCALE)
    return Drawn(arrow.concat_tables([table for table, _ in found]), plan.n_rows, dict(labels))


def draw_from_lane(program: Program, lane: tuple[Part, ...], numbers: Integers) -> tuple[Any, dict[Any, int]]:
    """Return those rows of a run of partitions that have these numbers in the table, and counts of its labels."""
    arrow = need("pyarrow", "ParquetRows", SCALE)
    tables, labels = [], Counter[Any]()
    for part in lane:
        table = part.source.read()
        first, last = np.searchsorted(numbers, [part.start, part.start + table.num_rows])
        tables.append(table.take(arrow.array(numbers[first:last] - part.start)))
        counts = table.column(part.source.label).value_counts()
        labels.update({each["values"]: each["counts"] for each in counts.to_pylist()})
    return arrow.concat_tables(tables), dict(labels)
