"""Kinds of arrays that NumPy would take in another way than they are meant, without a word: they are refused."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.engines import has_own_engine
from scarless.engines.base import on_device
from scarless.numerics.namespace import namespace_of


def refuse_unread(values: Any, name: str) -> None:
    """Refuse a query that has not been run, such as a polars LazyFrame: it has no values yet.

    Examples
    --------
    >>> refuse_unread([1, 2], "y")
    """
    if hasattr(values, "collect") and hasattr(values, "collect_schema"):
        raise TypeError(f"{name} is a {type(values).__name__}, which holds no values yet. Pass {name}.collect().")


def refuse_masked(values: Any, name: str) -> None:
    """Refuse a masked array in which anything is masked: the numbers under a mask are no data.

    Examples
    --------
    >>> refuse_masked(np.ma.array([1.0, 2.0], mask=[False, True]), "sample_weight")
    Traceback (most recent call last):
    ...
    ValueError: sample_weight is a masked array with 1 of 2 values masked, ...
    """
    if not isinstance(values, np.ma.MaskedArray):
        return
    masked = int(np.count_nonzero(np.ma.getmaskarray(values)))
    if masked:
        raise ValueError(
            f"{name} is a masked array with {masked} of {values.size} values masked, and masks are not read here. Drop "
            f"those rows, or fill in what a masked value stands for: {name}.filled(value)."
        )


def refuse_odd_vector(values: Any, name: str) -> None:
    """Refuse what looks like one value per row and is not: masked, complex, sparse, or a query.

    Examples
    --------
    >>> refuse_odd_vector(np.array([1.0 + 2.0j]), "propensity")
    Traceback (most recent call last):
    ...
    ValueError: Complex data not supported: propensity must hold real numbers; ...
    """
    refuse_unread(values, name)
    refuse_masked(values, name)
    if sparse.issparse(values):
        raise TypeError(f"{name} is sparse, and one plain value per row is needed. Pass {name}.toarray().ravel().")
    if hasattr(values, "__array__") and np.asarray(values).dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} must hold real numbers; take the part that is meant, e.g. {name}.real."
        )


def plain_array(values: Any, name: str) -> NDArray[Any]:
    """Return one value per row as an array; a list of lists of unequal length is none.

    Examples
    --------
    >>> plain_array([[1], [0, 1]], "y")
    Traceback (most recent call last):
    ...
    ValueError: y must hold one value per row, and NumPy can make no array of it: ...
    """
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold one value per row, and NumPy can make no array of it: {error}. Look for rows that "
            "hold a list."
        ) from error


_INTO_MEMORY = {  # what brings rows that live elsewhere into memory, by the name of their type
    "LazyFrame": "X.collect()",
    "DuckDBPyRelation": "X.df()",
    "DataFrame": "X.compute()",  # Dask's: those in memory have no engine of their own
    "Array": "X.compute()",
    "FileSystemDataset": "X.to_table().to_pandas()",
    "InMemoryDataset": "X.to_table().to_pandas()",
    "UnionDataset": "X.to_table().to_pandas()",
    "ParquetRows": "pandas.read_parquet(path)",
}


def refuse_mixed_devices(X: Any, *others: Any) -> None:
    """Raise, in scikit-learn's words, for arrays of one library that are on different devices."""
    for other in others:
        if namespace_of(other) is not np and other.device != X.device:
            raise ValueError(f"Input arrays use different devices: {X.device}, {other.device}")


def refuse_device(X: Any, what: str, instead: str = ", or fit SAREMClassifier to one label of each row") -> None:
    """Raise for arrays that are to stay on their device, where something is not computed there yet."""
    if on_device(X):
        raise ValueError(
            f"{what} are not computed on arrays of {type(X).__module__.partition('.')[0]} so far; X is a "
            f"{type(X).__name__}. Hand over numpy arrays{instead}."
        )


def refuse_own_engine(X: Any, what: str) -> None:
    """Raise where rows that live elsewhere are given to what needs them in memory."""
    if has_own_engine(X):
        call = _INTO_MEMORY.get(type(X).__name__)
        raise ValueError(
            f"{what} needs all rows in memory, and X is a {type(X).__name__}, whose rows are elsewhere. Take a sample "
            f"of them as an array or data frame{f', or all if they fit: {call}' if call else ''}; two logistic models "
            "(SAREMClassifier, SAREMClassifierCV) do without."
        )


def in_files(X: Any) -> bool:
    """Whether a table stays in its files, and says in which pieces it is read."""
    return has_own_engine(X) and hasattr(X, "plan")
