"""What a column holds, and columns that name rows."""

import re
from typing import Any

import numpy as np

from scarless.models.preparation import MOST_LEVELS

FEWEST_NAMES = 20  # rows, below which numbers may differ, or be in order, by chance
EXPECTED_TIES = 10.0  # pairs of equal values, of which there are none
EVENLY = 0.99  # correlation with the row's position; sorted normal values have .98, sorted incomes less
_NAME_OF_ROWS = re.compile(r"(?i:(?:^|[_\W])(?:id|nr|no|number|key|mrn)$)|[a-z](?:Id|ID|Nr|No|Number|Key)$")


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


def row_names(X: Any) -> list[str]:
    """Return the columns whose value is another one in every row, as an id's is, and no measurement's."""
    return [
        name for name in X.columns if column_kind(X[name], int(X[name].nunique()), int(X[name].isna().sum())) == "id"
    ]
