"""The base class of labelling mechanisms, and functions that read their attributes and check their parameters.

Attributes are read from arrays, sparse matrices and data frames of any library. Only the columns that a mechanism uses
are read, so a sparse `X` is never made dense as a whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.sparse import issparse

from scarless.checks.attributes import count_columns, names_of, select_columns
from scarless.checks.options import check_probability, check_propensity, check_vector, shown
from scarless.checks.tables import refuse_lazy_query, refuse_masked, table_array
from scarless.numerics.arrays import Array, ArrayLike, Matrix, Vector

Assumption: TypeAlias = Literal["SCAR", "SAR", "SNAR"]


class Attributes(NamedTuple):
    """Columns that were selected from a table."""

    columns: list[Array]
    labels: list[str]  # description of each column for error messages


def count_rows(X: Any) -> int:
    """Return the number of rows of a table.

    Examples
    --------
    >>> count_rows([[1, 2], [3, 4], [5, 6]])
    3
    """
    refuse_lazy_query(X, "X")
    refuse_masked(X, "X")
    shape = tuple(X.shape) if hasattr(X, "shape") else table_array(X).shape
    if len(shape) != 2:
        raise ValueError(
            f"X must be a table with rows and columns; its shape is {shape}. For a single attribute, pass "
            "np.reshape(X, (-1, 1))."
        )
    return int(shape[0])


def read_attributes(X: Any, selector: Any, parameter: str = "attributes") -> Attributes:
    """Return the values of the selected attributes, numbers or not, in the order of the selection.

    Examples
    --------
    >>> read_attributes([[1, 2], [3, 4]], -1)
    Attributes(columns=[array([2, 4])], labels=['attribute 1'])
    """
    chosen, names = _select(X, selector, parameter), names_of(X)
    labels = [f"attribute {j}" if names is None else f"attribute {names[j]!r}" for j in chosen]
    return Attributes(columns_at(X, chosen), labels)


def fixed_attributes(X: Any, selector: Any, parameter: str = "attributes") -> Any:
    """Return a selector that selects the same columns in other tables: their names if these are unique, else positions.

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
    """Return the values of the columns at the given positions.

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
    """Return the attributes as a float64 matrix; raise an error if a value is not a finite number.

    Examples
    --------
    >>> attribute_matrix(read_attributes([[1, 2, 3], [4, 5, 6]], [2, 0]))
    array([[3., 1.],
           [6., 4.]])
    """
    return np.column_stack([_check_finite(values, label) for values, label in zip(*attributes, strict=True)])


def check_known_count(n_values: int, name: str, selector: Any) -> None:
    """Check, before the table is known, that there can be one value for each selected column.

    Examples
    --------
    >>> check_known_count(3, "coefficients", (0, 1))
    Traceback (most recent call last):
    ...
    ValueError: coefficients must have one value for each attribute. Number of attributes: 2; number of values: 3.
    """
    n_columns, exact = count_columns(selector)
    if n_values < n_columns or (exact and n_values != n_columns):
        raise ValueError(
            f"{name} must have one value for each attribute. Number of attributes: {n_columns}; number of values: "
            f"{n_values}."
        )


def check_count(n_values: int, name: str, labels: Sequence[str]) -> None:
    """Check that there is one value for each selected column.

    Examples
    --------
    >>> check_count(1, "coefficients", ["attribute 'sex_f'", "attribute 'sex_m'"])
    Traceback (most recent call last):
    ...
    ValueError: coefficients must have one value for each of 2 columns of X, in this order: attribute 'sex_f', ...
    """
    if n_values != len(labels):
        raise ValueError(
            f"{name} must have one value for each of {len(labels)} columns of X, in this order: {', '.join(labels)}. "
            f"Number of values: {n_values}."
        )


def _check_finite(values: Array, name: str) -> Vector:
    vector = check_vector(values, name)
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise ValueError(
            f"{name} must have finite numbers; {bad.size} of {vector.size} values are not finite "
            f"(first: row {bad[0]} = {vector[bad[0]]:g}; rows are counted from 0). Replace these values, or drop these "
            "rows."
        )
    return vector


class LabellingMechanism(ABC):
    r"""Base class of labelling mechanisms: the probability that a positive row is labelled.

    .. math:: e(x) = \Pr(s=1 \mid y=1, x)

    To write your own mechanism, implement `compute_propensity` and set `assumption`. The page "Extend it" has a
    complete example. `scarless compare` accepts such a class by its import path.

    `assumption` is the strongest assumption that the formula of the mechanism guarantees for all parameters:

    - ``"SCAR"``, selected completely at random: `e` is constant;
    - ``"SAR"``, selected at random: `e` depends only on known attributes;
    - ``"SNAR"``, selected not at random: all other mechanisms, such as those that depend on the true class probability.
      ``Pr(y=1|x)`` is a function of `x` too, but it is the unknown function that a model has to learn.

    The default is ``"SNAR"``.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> from scarless.labelling import SCAR, ProbabilisticGap
    >>> SCAR(0.3).assumption, ProbabilisticGap().assumption
    ('SCAR', 'SNAR')
    """

    assumption: ClassVar[Assumption] = "SNAR"

    def propensity(self, X: Any, *, class_probability: ArrayLike | None = None) -> Vector:
        """Return the propensity of each row of `X`.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        class_probability : array of shape (n_rows,), optional
            True ``Pr(y=1|x)`` of each row. SNAR mechanisms may need it; all other mechanisms ignore it.

        Returns
        -------
        propensity : array of shape (n_rows,)
            Propensity of each row, in (0, 1].
        """
        n_rows = count_rows(X)
        p = None
        if class_probability is not None:
            p = check_probability(class_probability, n_rows=n_rows, name="class_probability")
        return check_propensity(self.compute_propensity(X, p), n_rows=n_rows)

    @abstractmethod
    def compute_propensity(self, X: Any, class_probability: Vector | None) -> ArrayLike:
        """Compute the propensities. Every mechanism must implement this method.

        The method `propensity` calls this method with a two-dimensional table, and checks the values that it returns.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, as the user passed them.
        class_probability : array of shape (n_rows,) or None
            True ``Pr(y=1|x)`` of each row, already checked, or None if the caller did not pass it.

        Returns
        -------
        propensity : float or array of shape (n_rows,)
            Propensity of each row, or one number for all rows, in (0, 1].
        """

    def fitted(self, X: Any) -> Self:
        """Return a copy that treats other tables like `X`: it selects the same columns, and uses the same ranges.

        The base class returns the mechanism itself.
        """
        return self


def check_number(value: Any, name: str) -> float:
    """Return one finite real number as a float.

    Examples
    --------
    >>> check_number(np.float32(0.5), "low")
    0.5
    """
    number = np.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # An int can be too large for a float.
            number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a finite number; it is {shown(value)}.")
    return number


def check_one_propensity(value: Any, name: str) -> float:
    """Return a propensity as a float; raise an error if it is not in (0, 1].

    Examples
    --------
    >>> check_one_propensity(1, "label_frequency")
    1.0
    """
    number = check_number(value, name)
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{name} must lie in (0, 1]; it is {number:g}.")
    return number


def check_range(low: Any, high: Any, to_decrease: str, *, allow_zero: bool = False) -> tuple[float, float]:
    """Return the smallest and the largest propensity; raise an error unless ``0 < low < high <= 1``.

    With `allow_zero`, `low` may be 0. `to_decrease` completes the error message: how to get a decreasing propensity.

    Examples
    --------
    >>> check_range(0.2, 0.8, "use a negative coefficient")
    (0.2, 0.8)
    """
    bottom = 0.0 if allow_zero and check_number(low, "low") == 0.0 else check_one_propensity(low, "low")
    top = check_one_propensity(high, "high")
    if bottom >= top:
        raise ValueError(
            f"low must be below high; low is {bottom:g} and high is {top:g}. "
            f"For a constant propensity, use SCAR({top:g}). For a propensity that decreases, keep low below high and "
            f"{to_decrease}."
        )
    return bottom, top


def require_class_probability(p: Vector | None, who: str) -> Vector:
    """Return the class probabilities; raise an error if the mechanism `who` was called without them."""
    if p is None:
        raise ValueError(
            f"{who} needs the true class probability Pr(y=1|x) of each row. "
            "Pass it: propensity(X, class_probability=p). You can compute p with a model trained on the true classes."
        )
    return p
