"""What a column holds, and columns that name rows."""

import re
from typing import Any

import numpy as np

from scarless.scale.raw_columns import MOST_LEVELS

FEWEST_NAMES = 20  # rows, below which numbers may differ, or be in order, by chance
EXPECTED_TIES = 10.0  # pairs of equal values, of which there are none
EVENLY = 0.99  # correlation with the row's position; sorted normal values have .98, sorted incomes less
_NAME_OF_ROWS = re.compile(r"(?i:(?:^|[_\W])(?:id|nr|no|number|key|mrn)$)|[a-z](?:Id|ID|Nr|No|Number|Key)$")
_BY_CHANCE = 0.05  # pairs of equal rows


def column_kind(values: Any, distinct: int, missing: int) -> str:
    """Return what a column holds: number, category, text, date, yes/no, id, constant, empty."""
    if distinct <= 1 and not (distinct and missing):
        return "constant" if distinct else "empty"
    if values.dtype.kind in "fiu":
        return "id" if distinct == len(values) and names_rows(values.to_numpy(), str(values.name)) else "number"
    if values.dtype.kind == "M":
        return "date"
    if values.dtype.kind == "b" or str(values.dtype) == "boolean":
        return "yes/no"
    if distinct <= MOST_LEVELS:
        return "category"
    return "id" if distinct == len(values) - missing else "text"


def names_rows(values: Any, name: str = "") -> bool:
    """Whether numbers that all differ name the rows, as a patient's number does, with or without gaps.

    They are whole, and one of these holds. They count the rows. A measurement with so many values in so short a range
    would have at least ten ties, whatever its distribution (a uniform one has the fewest). They rise, or fall, evenly
    from row to row. The column is called an id or a number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> numbers = np.cumsum(rng.integers(1, 4, 500))
    >>> names_rows(rng.permutation(numbers)), names_rows(rng.normal(size=500)), names_rows(np.exp2(np.arange(20)))
    (True, False, False)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        return False
    steps, n = np.diff(numbers), numbers.size
    if (steps == 1).all():
        return True
    if n < FEWEST_NAMES:
        return False
    ties = n * (n - 1) / 2 / (np.ptp(numbers) + 1.0)
    if ties >= EXPECTED_TIES or _NAME_OF_ROWS.search(name):
        return True
    in_order = bool((steps > 0).all() or (steps < 0).all())
    return in_order and abs(float(np.corrcoef(numbers, np.arange(n))[0, 1])) > EVENLY


def told_of_twins(table: Any, id: str = "", group: str = "") -> list[str]:
    """Return what to say of ids that are there more than once, and of rows that are copies of others.

    Rows of a table with few values in few columns are alike by chance: copies are told of only where chance, with
    columns independent of each other, would make less than a twentieth of a pair.
    """
    notes = []
    if id:
        ids = table[id]
        again = (ids.duplicated(keep=False) & ids.notna()).to_numpy()
        if again.any():
            name = ids[again].iloc[0]
            rows = ", ".join(str(row + 1) for row in np.flatnonzero((ids == name).to_numpy())[:3])
            advice = "" if group else f" If they are rows of the same patient or thing, say so: --group {id}."
            notes.append(
                f"The id {id!r} is not unique: {int(again.sum()):,} rows share theirs with another row (the first is "
                f"{str(name)!r}, rows {rows}; rows are counted from 1).{advice}"
            )
    copies = table.duplicated().to_numpy()
    if copies.any() and _expected_pairs(table) < _BY_CHANCE:
        first = int(np.flatnonzero(copies)[0])
        number = f"{int(copies.sum()):,} rows are copies" if copies.sum() > 1 else "1 row is a copy"
        notes.append(
            f"{number} of an earlier row in every column (the first is row {first + 1}, counted from 1). Each of them "
            "counts. If they were entered twice, drop them: intervals are too narrow with them."
        )
    return notes


def _expected_pairs(table: Any) -> float:
    """Return how many pairs of equal rows chance would make, if columns were independent."""
    n = len(table)
    alike = [float(np.square(table[name].value_counts(normalize=True, dropna=False)).sum()) for name in table.columns]
    return 0.5 * n * (n - 1) * float(np.prod(alike))


def row_names(X: Any) -> list[str]:
    """Return the columns whose value is another one in every row, as an id's is, and no measurement's."""
    return [
        name for name in X.columns if column_kind(X[name], int(X[name].nunique()), int(X[name].isna().sum())) == "id"
    ]
