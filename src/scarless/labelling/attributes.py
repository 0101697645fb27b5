"""Reading single attributes out of X: arrays, sparse matrices and DataFrames of any library.

Only the columns that are asked for are touched: a sparse X is never made dense as a whole.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from scarless.checks.attributes import count_columns, names_of, select_columns
from scarless.checks.tables import refuse_masked, refuse_unread
from scarless.checks.vectors import check_vector
from scarless.numerics.arrays import Array, Matrix, Vector


class Attributes(NamedTuple):
    """Columns that were selected from a table."""

    columns: list[Array]
    labels: list[str]  # how messages name each


def count_rows(X: Any) -> int:
    """Return the number of rows of a table.

    Examples
    --------
    >>> count_rows([[1, 2], [3, 4], [5, 6]])
    3
    """
    refuse_unread(X, "X")
    refuse_masked(X, "X")
    shape = tuple(X.shape) if hasattr(X, "shape") else _shape_of_lists(X)
    if len(shape) != 2:
        raise ValueError(
            f"X must be a table with rows and columns; its shape is {shape}. A single attribute is X.reshape(-1, 1)."
        )
    return int(shape[0])


def _shape_of_lists(X: Any) -> tuple[int, ...]:
    try:
        return np.shape(X)
    except ValueError as error:
        raise ValueError(f"X must be a table with rows of equal length; NumPy can make none of it: {error}.") from error


def read_attributes(X: Any, selector: Any, parameter: str = "attributes") -> Attributes:
    """Return the values of the attributes that are selected, in the order given: as they are, numbers or not.

    Examples
    --------
    >>> read_attributes([[1, 2], [3, 4]], -1)
    Attributes(columns=[array([2, 4])], labels=['attribute 1'])
    """
    chosen, names = _select(X, selector, parameter), names_of(X)
    labels = [f"attribute {j}" if names is None else f"attribute {names[j]!r}" for j in chosen]
    return Attributes(columns_at(X, chosen), labels)


def fixed_attributes(X: Any, selector: Any, parameter: str = "attributes") -> Any:
    """Return a selection that means the same columns in every table like X: names, or positions where it has none.

    Examples
    --------
    >>> fixed_attributes([[1, 2], [3, 4]], slice(1, None)), fixed_attributes([[1, 2], [3, 4]], (-1,))
    ((1,), (-1,))
    """
    chosen, names = _select(X, selector, parameter), names_of(X)
    if isinstance(selector, tuple) and all(type(entry) is int for entry in selector):
        return selector
    called = [] if names is None else [names[j] for j in chosen]
    unique = names is not None and all(isinstance(name, str) and names.count(name) == 1 for name in called)
    return tuple(called) if unique else tuple(chosen)


def _select(X: Any, selector: Any, parameter: str) -> list[int]:
    count_rows(X)
    n_columns = X.shape[1] if hasattr(X, "shape") else np.shape(X)[1]
    chosen: list[int] = select_columns(
        selector, X, n_columns=n_columns, names=names_of(X), parameter=parameter
    ).tolist()
    return chosen


def columns_at(X: Any, positions: Sequence[int]) -> list[Array]:
    """Return the values of the columns at some positions.

    Examples
    --------
    >>> columns_at([[1, 2], [3, 4]], [1])
    [array([2, 4])]
    """
    if hasattr(X, "iloc"):
        return [np.asarray(X.iloc[:, j]) for j in positions]
    if hasattr(X, "columns"):
        return [np.asarray(X[X.columns[j]]) for j in positions]
    if issparse(X):
        sliceable = X if X.format in ("csr", "csc") else X.tocsr()
        return list(sliceable[:, positions].toarray().T)
    return list(np.asarray(X)[:, positions].T)


def attribute_matrix(attributes: Attributes) -> Matrix:
    """Return the attributes as a float64 matrix, one column each; every value must be a finite number.

    Examples
    --------
    >>> attribute_matrix(read_attributes([[1, 2, 3], [4, 5, 6]], [2, 0]))
    array([[3., 1.],
           [6., 4.]])
    """
    return np.column_stack([_check_finite(values, label) for values, label in zip(*attributes, strict=True)])


def check_known_count(n_values: int, name: str, selector: Any) -> None:
    """Refuse a number of values that cannot fit the columns of a selection, before there is a table.

    Examples
    --------
    >>> check_known_count(3, "coefficients", (0, 1))
    Traceback (most recent call last):
    ...
    ValueError: coefficients has 3 values for 2 attributes; give one per attribute.
    """
    fewest, exact = count_columns(selector)
    if n_values < fewest or (exact and n_values != fewest):
        raise ValueError(f"{name} has {n_values} values for {fewest} attributes; give one per attribute.")


def check_count(n_values: int, name: str, labels: Sequence[str]) -> None:
    """Refuse a number of values that is not that of the columns selected.

    Examples
    --------
    >>> check_count(1, "coefficients", ["attribute 'sex_f'", "attribute 'sex_m'"])
    Traceback (most recent call last):
    ...
    ValueError: coefficients has 1 values for 2 columns of X: attribute 'sex_f', attribute 'sex_m'. Give one for each...
    """
    if n_values != len(labels):
        raise ValueError(
            f"{name} has {n_values} values for {len(labels)} columns of X: {', '.join(labels)}. Give one for each, in "
            "this order."
        )


def _check_finite(values: Array, name: str) -> Vector:
    vector = check_vector(values, name)
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise ValueError(
            f"{name} must hold finite numbers; {bad.size} of {vector.size} values do not "
            f"(first: row {bad[0]} = {vector[bad[0]]:g}). Impute or drop these rows first."
        )
    return vector
