"""What rows are called, and whether values per row come in their order."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.checks.kinds import refuse_unread
from scarless.checks.options import shown


def index_of(X: Any) -> Any:
    """Return the names of a pandas data frame's rows, a range if they are just 0, 1, 2, ...; None for other tables."""
    if not hasattr(X, "iloc"):
        return None
    counted = getattr(X.index, "start", None) == 0 and getattr(X.index, "step", None) == 1
    return range(len(X.index)) if counted else X.index


def check_row_order(values: Any, name: str, index: Sequence[Any] | NDArray[Any] | None) -> Any:
    """Return values per row as they are, unless a pandas index says that they are in another order than the rows."""
    if index is None or not hasattr(values, "iloc"):
        return values
    here, there = values.index.tolist(), list(index)
    if here != there and len(here) == len(there) and set(here) == set(there):
        first = next(i for i, name_there in enumerate(there) if here[i] != name_there)
        reorder = f" Reorder it with {name}.loc[X.index]." if len(set(there)) == len(there) else ""
        raise ValueError(
            f"{name} must be in the order of the rows; its index has the same names in another order (first: position "
            f"{first} is {there[first]!r} among the rows and {here[first]!r} in {name}). If its order is right and its "
            f"index is not, as with a new Series that counts 0, 1, 2, ..., pass {name}.to_numpy().{reorder}"
        )
    return values


def check_names(row_names: Any, n_rows: int) -> NDArray[Any] | range | None:
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
