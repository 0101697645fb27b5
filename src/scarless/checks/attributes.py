"""Columns by name, index, slice, mask or callable, as scikit-learn's ``ColumnTransformer`` takes them."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from scarless.checks.options import shown
from scarless.numerics.arrays import Columns
from scarless.outside.notices import warn_user


def check_attributes(attributes: Any, X: Any, *, n_columns: int, names: Any, parameter: str) -> Columns:
    """Return the indices of the columns that `attributes` selects, in the order given.

    Parameters
    ----------
    attributes : str, int, sequence of either, slice, boolean mask or callable
        A callable gets `X` as the user gave it and returns any of the others.
    X : table
        Only handed to a callable.
    n_columns : int
        Number of columns of `X`.
    names : sequence of str or None
        The columns' names, where the table has them.
    parameter : str
        Named in errors.

    Examples
    --------
    >>> check_attributes(["b", "a"], None, n_columns=3, names=["a", "b", "c"], parameter="attributes")
    array([1, 0])
    >>> check_attributes(slice(1, None), None, n_columns=3, names=None, parameter="attributes")
    array([1, 2])
    """
    if callable(attributes):
        attributes = attributes(X)
    if isinstance(attributes, slice):
        columns = np.arange(n_columns)[_positional(attributes, names, parameter)]
    else:
        columns = _from_sequence(attributes, n_columns, names, parameter)
        warn_of_numbered_columns(attributes, X, parameter)
    if columns.size == 0:
        raise ValueError(
            f"{parameter} selects no column; name at least one attribute"
            + (", or use None for a propensity that is the same for every row." if "prop" in parameter else ".")
        )
    if np.unique(columns).size != columns.size:
        raise ValueError(f"{parameter} selects a column more than once: {columns.tolist()}.")
    return columns.astype(np.intp)


def warn_of_numbered_columns(attributes: Any, X: Any, parameter: str) -> None:
    """Warn of numbers that are positions, where the columns of a data frame are called by other numbers."""
    labels = list(getattr(X, "columns", ()))
    if not any(_is_number(label) for label in labels):
        return
    values: list[Any] = [attributes] if isinstance(attributes, str) or not np.iterable(attributes) else [*attributes]
    for value in values:
        if _is_number(value) and labels[value] != value and value in labels:
            warn_user(
                f"{parameter} has the number {value}, which is a position, as in scikit-learn: the column called "
                f"{labels[value]}. The column called {value} is at position {labels.index(value)}. Call columns by "
                f"text to say which one is meant: X.rename(columns=str), and '{labels[value]}' or '{value}'.",
                UserWarning,
            )
            return


def _is_number(label: Any) -> bool:
    return isinstance(label, int | np.integer) and not isinstance(label, bool)


def nearest_name(name: Any, names: Sequence[Any]) -> str:
    """Return what to tell someone who named a column that is not there.

    Examples
    --------
    >>> nearest_name("Agge", ["age", "visits"])
    "Did you mean 'age'?"
    >>> nearest_name("income", ["age", "visits"])
    "Its columns are 'age', 'visits'."
    >>> nearest_name("sex", ["age", "sex_f", "sex_m"])
    "These columns look like its levels, as one-hot encoding names them; ... name each: ['sex_f', 'sex_m']."
    """
    by_lower_case = {str(known).lower(): known for known in names}
    levels = [] if str(name).lower() in by_lower_case else levels_of(name, names)
    if levels:
        return (
            f"{'These columns look' if len(levels) > 1 else 'This column looks'} like its levels, as one-hot encoding "
            f"names them; an attribute is all of its levels, so name each: {levels!r}."
        )
    nearest = get_close_matches(str(name).lower(), by_lower_case, n=1)
    if nearest:
        return f"Did you mean {by_lower_case[nearest[0]]!r}?"
    return f"Its columns are {', '.join(repr(known) for known in names[:8])}{', ...' if len(names) > 8 else ''}."


def levels_of(name: Any, names: Sequence[Any]) -> list[str]:
    """Return the columns that look like levels of an attribute, as encoders call them.

    These put a sign between attribute and level, and a ``ColumnTransformer`` the name of its step and ``__`` in front.

    Examples
    --------
    >>> levels_of("sex", ["sex_f", "encode__sex_m", "sex=other", "sexagenarian"])
    ['sex_f', 'encode__sex_m', 'sex=other']
    """
    wanted = re.compile(rf"(.*__)?{re.escape(str(name))}[^0-9A-Za-z]", re.IGNORECASE | re.DOTALL)
    return [str(known) for known in names if wanted.match(str(known))]


def _from_sequence(attributes: Any, n_columns: int, names: Any, parameter: str) -> Columns:
    scalar = isinstance(attributes, str) or not np.iterable(attributes)
    values = [attributes] if scalar else list(attributes)
    if values and all(isinstance(value, bool | np.bool_) for value in values):
        if len(values) != n_columns:
            raise ValueError(f"{parameter} is a mask of length {len(values)} for {n_columns} columns.")
        return np.flatnonzero(values)
    return np.array([_index(value, n_columns, names, parameter) for value in values], dtype=np.intp)


def _index(value: Any, n_columns: int, names: Any, parameter: str) -> int:
    if isinstance(value, str):
        return _index_of_name(value, names, parameter)
    if not isinstance(value, int | np.integer):
        raise ValueError(
            f"{parameter} must hold names or column numbers, or be a slice, a mask or a callable; "
            f"got {value!r} of type {type(value).__name__}."
        )
    if not -n_columns <= value < n_columns:
        raise ValueError(f"{parameter} names column {value}, but X has {n_columns} columns (0 to {n_columns - 1}).")
    return int(value) % n_columns


def _index_of_name(name: str, names: Any, parameter: str) -> int:
    if names is None:
        raise ValueError(
            f"{parameter} names the column {name!r}, but X has no column names: pass a DataFrame or column "
            "numbers. In a Pipeline, keep the names with pipeline.set_output(transform='pandas')."
        )
    known = list(names)
    if name in known:
        return known.index(name)
    raise ValueError(f"{parameter} names {name!r}, which is not a column of X. {nearest_name(name, known)}")


def _positional(columns: slice, names: Any, parameter: str) -> slice:
    """Turn a slice of names, last one included, into a slice of positions."""
    start, stop = columns.start, columns.stop
    if isinstance(start, str):
        start = _index_of_name(start, names, parameter)
    if isinstance(stop, str):
        stop = _index_of_name(stop, names, parameter) + 1
    for end in (start, stop, columns.step):
        if end is not None and not isinstance(end, int | np.integer):
            raise ValueError(f"{parameter} is a slice, whose ends must be names or column numbers; got {shown(end)}.")
    if columns.step == 0:
        raise ValueError(f"{parameter} is a slice with a step of 0; leave the step out.")
    return slice(start, stop, columns.step)
