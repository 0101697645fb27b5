"""What the rows of a table are called, and whether values per row come in their order."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from scarless.engines import has_own_engine
from scarless.outside.notices import warn_user

Index = Sequence[Any] | NDArray[Any] | None


def index_of(X: Any) -> Any:
    """Return the names of a pandas data frame's rows, a range if they are just 0, 1, 2, ...; None for other tables."""
    if not hasattr(X, "iloc") or has_own_engine(X):
        return None
    counted = getattr(X.index, "start", None) == 0 and getattr(X.index, "step", None) == 1
    return range(len(X.index)) if counted else X.index


def check_row_order(values: Any, name: str, index: Index) -> Any:
    """Return values per row as they are, unless a pandas index says that they are in another order than the rows."""
    displaced = _displaced(values, name, index)
    if displaced:
        reorder = f" Reorder it with {name}.loc[X.index]." if _differ(index) else ""
        raise ValueError(
            f"{name} must be in the order of the rows; {displaced}. If its order is right and its index is not, as "
            f"with a new Series that counts 0, 1, 2, ..., pass {name}.to_numpy().{reorder}"
        )
    return values


def warn_of_row_order(X: Any, **vectors: Any) -> None:
    """Warn of values per row whose pandas index has the table's row names in another order: positions count."""
    if not hasattr(X, "iloc") or has_own_engine(X):
        return
    for name, values in vectors.items():
        displaced = _displaced(values, name, X.index)
        if displaced:
            reorder = f"if its index is right pass {name}.loc[X.index], and " if _differ(X.index) else ""
            warn_user(
                f"{name} is taken by position, as scikit-learn does; {displaced}. To say what is meant: {reorder}if "
                f"its order is right pass {name}.to_numpy().",
                UserWarning,
            )


def _displaced(values: Any, name: str, index: Index) -> str:
    """Return how the index of values per row differs from the rows', if only in its order; else nothing."""
    if index is None or not hasattr(values, "iloc") or len(values.index) != len(index) or values.index.equals(index):
        return ""
    here, there = values.index.tolist(), list(index)
    if here == there or set(here) != set(there):
        return ""
    first = next(i for i, name_there in enumerate(there) if here[i] != name_there)
    return (
        f"its index has the same names in another order (first: position {first} is {there[first]!r} among the rows "
        f"and {here[first]!r} in {name})"
    )


def _differ(index: Any) -> bool:
    return len(set(index)) == len(index)
