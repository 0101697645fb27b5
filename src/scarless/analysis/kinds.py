"""What a column holds, and columns that name rows."""

from typing import Any

import numpy as np

from scarless.models.preparation import MOST_LEVELS


def column_kind(values: Any, distinct: int, missing: int) -> str:
    """Return what a column holds: number, category, text, date, yes/no, id, constant, empty."""
    if distinct <= 1 and not (distinct and missing):
        return "constant" if distinct else "empty"
    if values.dtype.kind in "fiu":
        counts_rows = values.dtype.kind in "iu" and distinct == len(values) and _climbs(values)
        return "id" if counts_rows else "number"
    if values.dtype.kind == "M":
        return "date"
    if values.dtype.kind == "b" or str(values.dtype) == "boolean":
        return "yes/no"
    if distinct <= MOST_LEVELS:
        return "category"
    return "id" if distinct == len(values) - missing else "text"


def _climbs(values: Any) -> bool:
    """Whether whole numbers count the rows."""
    return bool((np.diff(values.to_numpy()) == 1).all())


def row_names(X: Any) -> list[str]:
    """Return the columns whose value is another one in every row, as an id's is, and no measurement's."""
    return [
        name for name in X.columns if column_kind(X[name], int(X[name].nunique()), int(X[name].isna().sum())) == "id"
    ]
