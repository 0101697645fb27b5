"""A dataset in memory (attributes, true classes and provenance), and functions that encode attributes."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Matrix
from scarless.outside.extras import need


@dataclass(frozen=True)
class Provenance:
    """Origin of a dataset.

    Parameters
    ----------
    title : str
        Original name of the dataset.
    source : str
        Address of its description, or how it was generated.
    licence : str
        Terms of use, if stated at the source.
    citation : str
        Reference to cite.
    sha256 : mapping of str to str
        SHA-256 of the unpacked content of each raw file. For 20 Newsgroups it is computed over the posts that are used,
        in sorted order, because archives of the same posts differ.
    files : tuple of str
        Files that were read; may be empty.
    """

    title: str
    source: str
    licence: str = "not stated"
    citation: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class PUData:
    """A table of attributes and, if they are known, true classes.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_attributes)
        Attributes of the rows, as floats.
    y : ndarray of shape (n_rows,) or None
        True classes, 0 or 1; None if unknown.
    attribute_names : tuple of str
        One name for each column of `X`.
    name : str
        Short name of the dataset.
    provenance : Provenance
        Origin of the dataset.

    Examples
    --------
    >>> from scarless.datasets import load_bundled_breast_cancer
    >>> data = load_bundled_breast_cancer()
    >>> data
    PUData('bundled_breast_cancer', 569 rows x 30 attributes, Pr(y=1) = 0.373)
    >>> data.attribute_names[:2]
    ('mean radius', 'mean texture')
    """

    X: Matrix
    y: NDArray[np.int64] | None
    attribute_names: tuple[str, ...]
    name: str
    provenance: Provenance

    def __post_init__(self) -> None:
        X, y, names = self.X, self.y, self.attribute_names
        if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind != "f":
            raise ValueError(f"X must be a two-dimensional array of floats; got {_described(X)}.")
        if len(names) != X.shape[1] or len(set(names)) != len(names):
            raise ValueError(
                f"attribute_names must have a different name for each of the {X.shape[1]} columns of X; it has "
                f"{len(set(names))} different names, and {len(names)} entries."
            )
        if y is not None and (not isinstance(y, np.ndarray) or y.shape != X.shape[:1] or not np.isin(y, (0, 1)).all()):
            raise ValueError(
                f"y must be None or hold 0 or 1 for each of the {X.shape[0]} rows of X; got {_described(y)}"
                f"{_strange_values(y)}."
            )

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        n_rows, n_attributes = self.X.shape
        known = "y unknown" if self.y is None else f"Pr(y=1) = {self.class_prior:.3f}"
        return f"{type(self).__name__}({self.name!r}, {n_rows:,} rows x {n_attributes} attributes, {known})"

    @property
    def class_prior(self) -> float:
        """Share of positive rows, Pr(y=1)."""
        if self.y is None:
            raise ValueError(f"The true classes of {self.name!r} are not known, so its class prior is not known.")
        return float(self.y.mean())

    @property
    def frame(self) -> Any:
        """The attributes with their names, as a new pandas DataFrame without the class."""
        pandas = need("pandas", "PUData.frame")
        return pandas.DataFrame(self.X, columns=list(self.attribute_names), copy=True)


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    return f"a {type(value).__name__}"


def _strange_values(y: Any) -> str:
    strange = y[~np.isin(y, (0, 1))] if isinstance(y, np.ndarray) else np.empty(0)
    return f" with the value {strange.tolist()[0]!r}" if strange.ndim == 1 and strange.size else ""


def binarise(table: Any, numbers: Container[str] = ()) -> tuple[Matrix, list[str]]:
    """Encode each column of a data frame that is not in `numbers` as -1/+1 columns, in sorted order of its categories.

    A column with more than two categories becomes one column for each. A column with two categories becomes one column,
    which is +1 for the second category. A column with a single category is dropped.

    Examples
    --------
    >>> import pandas
    >>> table = pandas.DataFrame({"age": [30, 40, 50], "sex": ["f", "m", "f"], "job": ["a", "b", "c"]})
    >>> X, names = binarise(table, numbers=["age"])
    >>> names
    ['age', 'sex=m', 'job=a', 'job=b', 'job=c']
    >>> X[0].tolist()
    [30.0, -1.0, 1.0, -1.0, -1.0]
    """
    pandas = need("pandas", "binarise")
    columns, names = [], []
    for column in table.columns:
        if column in numbers:
            columns.append(table[column].to_numpy(dtype=np.float64))
            names.append(column)
            continue
        codes, categories = pandas.factorize(table[column], sort=True)
        for code in range(len(categories)) if len(categories) > 2 else range(1, len(categories)):
            columns.append(np.where(codes == code, 1.0, -1.0))
            names.append(f"{column}={categories[code]}")
    return np.column_stack(columns), names


def scale_to_range(X: Matrix, names: Sequence[str]) -> Matrix:
    """Return a new array with every column scaled to [-1, 1] by its minimum and maximum over all rows.

    Examples
    --------
    >>> scale_to_range(np.array([[0.0, 5.0], [1.0, 7.0], [4.0, 6.0]]), ["a", "b"]).tolist()
    [[-1.0, -1.0], [-0.5, 1.0], [1.0, 0.0]]
    """
    low, high = X.min(axis=0), X.max(axis=0)
    constant = np.flatnonzero(low == high)
    if constant.size:
        raise ValueError(
            f"Every attribute must have at least two different values to be scaled; {constant.size} of {X.shape[1]} "
            f"are constant (first: {names[constant[0]]!r}). Drop these attributes first."
        )
    scaled = np.array(X, dtype=np.float64, order="C")
    scaled -= low  # Operations in place save memory: the table of Cover Type has 250 MB.
    scaled *= 2.0
    scaled /= high - low
    scaled -= 1.0
    return scaled
