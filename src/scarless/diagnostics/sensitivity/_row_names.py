"""Names for rows that the user gives, and how to call one."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from scarless.checks.options import shown
from scarless.checks.tables import refuse_unread
from scarless.numerics.arrays import Array


def check_names(row_names: Any, n_rows: int) -> Array | range | None:
    """Return one name per row, or raise; a range where rows are just numbered."""
    refuse_unread(row_names, "row_names")
    if row_names is None or (isinstance(row_names, range) and row_names == range(n_rows)):
        return row_names
    if isinstance(row_names, str) or not np.iterable(row_names):
        raise TypeError(f"row_names must be a sequence with a name for each row; got {shown(row_names)}.")
    given = list(row_names)
    odd = next((name for name in given if not isinstance(name, Hashable)), None)
    if odd is not None:
        raise TypeError(
            f"row_names must hold one name per row, as text or numbers; the first that is none is {shown(odd)} of type "
            f"{type(odd).__name__}."
        )
    names = np.empty(len(given), dtype=object)
    names[:] = given  # one object each, tuples of a multi-index too
    if names.size != n_rows:
        raise ValueError(f"row_names has {names.size} names for {n_rows} rows; give one per row.")
    return names


def called(name: Any) -> str:
    """Return how to call a row in a sentence."""
    return name if isinstance(name, str) else f"row {name}"
