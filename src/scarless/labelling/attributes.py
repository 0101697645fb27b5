"""Reading single attributes out of X: arrays, sparse matrices and DataFrames of any library.

Only the columns that are asked for are touched: a sparse X is never made dense as a whole.
"""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from scarless.checks.attributes import nearest_name, warn_of_numbered_columns
from scarless.checks.kinds import refuse_masked, refuse_unread
from scarless.checks.vectors import check_vector
from scarless.numerics.arrays import Vector

Attribute: TypeAlias = str | int


def check_attributes(attributes: Attribute | Sequence[Attribute]) -> tuple[Attribute, ...]:
    """Return attribute names and positions as a tuple; one alone may come without its list.

    Examples
    --------
    >>> check_attributes(["age", "visits"])
    ('age', 'visits')
    >>> check_attributes("age")
    ('age',)
    """
    if not isinstance(attributes, str | Integral) and not np.iterable(attributes):
        raise ValueError(
            f"attributes must be a column name or position, or a list of them; got {attributes!r} of type "
            f"{type(attributes).__name__}. There is no X yet to take a slice or a function of: write positions, "
            "e.g. list(range(2, 5)). Labels that depend on no attribute are SCAR(c)."
        )
    given = [attributes] if isinstance(attributes, str | Integral) else list(attributes)
    if not given:
        raise ValueError("attributes is empty; name at least one. Labels that depend on none are SCAR(c).")
    checked = tuple(_check_attribute(attribute) for attribute in given)
    for place, attribute in enumerate(checked):
        if attribute in checked[:place]:
            raise ValueError(f"{describe(attribute)} is listed twice in attributes; list it once.")
    return checked


def _check_attribute(attribute: Any) -> Attribute:
    if isinstance(attribute, str):
        return str(attribute)
    if not isinstance(attribute, Integral) or isinstance(attribute, bool):
        raise ValueError(f"attributes must be column names or positions; {attribute!r} is neither.")
    if attribute < 0:
        raise ValueError(
            f"attributes has the position {attribute}; positions count from 0. "
            "Where a minus means that the attribute lowers the propensity, give it as the attribute's sign."
        )
    return int(attribute)


def describe(attribute: Attribute) -> str:
    """How messages name an attribute.

    Examples
    --------
    >>> describe("age"), describe(3)
    ("attribute 'age'", 'attribute 3')
    """
    return f"attribute {attribute!r}"


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


def attribute_columns(X: Any, attributes: Sequence[Attribute]) -> list[NDArray[Any]]:
    """Return each attribute's values as they are, numbers or not.

    A string is a column name, an integer a position, as in scikit-learn's ``ColumnTransformer``.

    Examples
    --------
    >>> attribute_columns([[1, 2], [3, 4]], [1])
    [array([2, 4])]
    """
    columns = columns_at(X, attributes)
    warn_of_numbered_columns(attributes, X, "attributes")
    return columns


def columns_at(X: Any, attributes: Sequence[Attribute]) -> list[NDArray[Any]]:
    """Return each attribute's values, where it is known that numbers are positions.

    Examples
    --------
    >>> columns_at([[1, 2], [3, 4]], [1])
    [array([2, 4])]
    """
    count_rows(X)
    if hasattr(X, "columns"):
        return [_frame_column(X, attribute) for attribute in attributes]
    if issparse(X):
        positions = _check_positions(attributes, X.shape[1])
        sliceable = X if X.format in ("csr", "csc") else X.tocsr()
        return list(sliceable[:, positions].toarray().T)
    table = np.asarray(X)
    return list(table[:, _check_positions(attributes, table.shape[1])].T)


def attribute_matrix(X: Any, attributes: Sequence[Attribute]) -> NDArray[np.float64]:
    """Return the attributes as a float64 matrix, one column each; every value must be a finite number.

    Examples
    --------
    >>> attribute_matrix([[1, 2, 3], [4, 5, 6]], [2, 0])
    array([[3., 1.],
           [6., 4.]])
    """
    columns = attribute_columns(X, attributes)
    return np.column_stack(
        [_check_finite(values, describe(name)) for values, name in zip(columns, attributes, strict=True)]
    )


def _check_finite(values: NDArray[Any], name: str) -> Vector:
    vector = check_vector(values, name)
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise ValueError(
            f"{name} must hold finite numbers; {bad.size} of {vector.size} values do not "
            f"(first: row {bad[0]} = {vector[bad[0]]:g}). Impute or drop these rows first."
        )
    return vector


def _check_positions(attributes: Sequence[Attribute], n_columns: int) -> list[int]:
    positions = []
    for attribute in attributes:
        if isinstance(attribute, str):
            raise ValueError(
                f"{describe(attribute)} is a name, but X has no column names; "
                f"give its position, 0 to {n_columns - 1}, or pass X as a DataFrame."
            )
        positions.append(_check_position(attribute, n_columns))
    return positions


def _check_position(position: int, n_columns: int) -> int:
    if position >= n_columns:
        raise ValueError(
            f"{describe(position)} is out of range; X has {n_columns} columns, at positions 0 to {n_columns - 1}."
        )
    return position


def _frame_column(X: Any, attribute: Attribute) -> NDArray[Any]:
    names = list(X.columns)
    name: Any = attribute
    if not isinstance(attribute, str):
        name = names[_check_position(attribute, len(names))]
    elif attribute not in names:
        raise ValueError(f"X has no {describe(attribute)}. {nearest_name(attribute, names)}")
    if names.count(name) > 1:
        raise ValueError(f"{describe(name)} names {names.count(name)} columns of X; names must differ.")
    return np.asarray(X[name])
