"""Checks of tables of attributes: dense or CSR arrays with finite values. Input that NumPy would misread is refused."""

from collections import Counter
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.validation import check_array, validate_data

from scarless.engines import has_own_engine
from scarless.engines.base import on_device
from scarless.numerics.arrays import in_numpy, namespace_of

_CHUNK_ROWS = 8192
# Largest absolute values whose squares can be summed over rows without overflow.
MAX_SUMMABLE_VALUE = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e100}
_INTO_MEMORY = {  # call that loads rows into memory, by the name of their type
    "LazyFrame": "X.collect()",
    "DuckDBPyRelation": "X.df()",
    "DataFrame": "X.compute()",  # a Dask frame; data frames in memory have no engine of their own
    "Array": "X.compute()",
    "FileSystemDataset": "X.to_table().to_pandas()",
    "InMemoryDataset": "X.to_table().to_pandas()",
    "UnionDataset": "X.to_table().to_pandas()",
    "ParquetRows": "pandas.read_parquet(path)",
}


def check_table(estimator: Any, X: Any, y: Any = None, *, reset: bool, values: bool = True) -> Any:
    """Return `X` (and `y` if given) as numeric arrays, or raise a clear error.

    Set or check ``n_features_in_`` and ``feature_names_in_`` of the estimator. Float32, CSR and memory maps are kept.
    With ``values=False``, only the type of the table is checked, not its values.
    """
    refuse_own_engine(X, type(estimator).__name__)
    _refuse_odd(X)
    _refuse_text(X)
    options: dict[str, Any] = {
        "reset": reset,
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": False,
    }
    if y is None:
        X = validate_data(estimator, X, **options)
    else:
        X, y = validate_data(estimator, X, y, ensure_min_samples=2, **options)
    if values:
        _check_finite(X, getattr(estimator, "feature_names_in_", None))
    return X if y is None else (X, y)


def check_numeric(X: Any) -> Any:
    """Return a table that was checked before, or some of its columns, as a numeric array."""
    _refuse_odd(X)
    if (isinstance(X, np.ndarray) or (sparse.issparse(X) and X.format == "csr")) and X.dtype in MAX_SUMMABLE_VALUE:
        return X
    _refuse_text(X)
    names = getattr(X, "columns", None)
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    _check_finite(X, names)
    return X


def check_foreign_table(estimator: Any, X: Any, y: Any = None, *, inner: Any, reset: bool) -> Any:
    """Check a table that the estimator `inner` will read; `inner` makes the other checks itself.

    Data frames are returned unchanged, because a pipeline may select columns by name and encode text. Arrays may have
    NaN if the estimator supports it.
    """
    refuse_own_engine(X, type(estimator).__name__)
    _refuse_odd(X)
    if hasattr(X, "columns"):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    else:
        finite = "allow-nan" if get_tags(inner).input_tags.allow_nan else True
        options: dict[str, Any] = {"reset": reset, "accept_sparse": "csr", "ensure_all_finite": finite}
        X = validate_data(estimator, X, ensure_min_samples=1 if y is None else 2, **options)
    if y is None:
        return X
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    if y.size != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y has {y.size} labels; give one label per row.")
    return X, y


def _refuse_odd(X: Any) -> None:
    refuse_lazy_query(X, "X")
    refuse_masked(X, "X")
    _refuse_equal_names(X)


def _refuse_equal_names(X: Any) -> None:
    """Raise if several columns of a data frame have the same name."""
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return
    name, count = next(iter(Counter(X.columns).most_common(1)), (None, 0))
    if count > 1:
        raise ValueError(
            f"{count} columns of X have the name {name!r}, and names must be unique. Rename these columns, or pass "
            "X.to_numpy() and select columns by number."
        )


def _refuse_text(X: Any) -> None:
    """Raise if columns of a data frame are not numeric, with their names."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    _refuse_lists(X, dtypes)
    odd = [(name, kind) for name, kind in zip(X.columns, dtypes, strict=True) if not _is_plain(kind)]
    text = [str(name) for name, kind in odd if _is_text(X[name], str(kind))]
    if text:
        shown = ", ".join(map(repr, text[:5])) + (", ..." if len(text) > 5 else "")
        raise ValueError(
            f"X must contain only numbers. Columns with text, categories or dates: {shown} ({len(text)} of "
            f"{len(X.columns)}). Encode dates as days since a reference date. Encode other columns, for example with "
            f"make_column_transformer((OneHotEncoder(drop='first', sparse_output=False), [{shown}]), "
            "remainder='passthrough', verbose_feature_names_out=False).set_output(transform='pandas'). Without drop, "
            "the columns of each attribute are collinear."
        )


def _refuse_lists(X: Any, dtypes: Any) -> None:
    """Raise if columns have several values in each row, with the name of the first."""
    several = ("list", "array", "struct")
    odd = [(name, kind) for name, kind in zip(X.columns, dtypes, strict=True) if not _is_plain(kind)]
    lists = [name for name, kind in odd if str(kind).lower().startswith(several)]
    if lists:
        raise ValueError(
            f"X must contain one number in each cell. Columns with lists: {len(lists)} of {len(X.columns)} (first: "
            f"{lists[0]!r}). Split the lists into separate columns, or remove these columns."
        )


def _is_plain(kind: Any) -> bool:
    """Return whether a column of this type is certainly numeric."""
    return isinstance(kind, np.dtype) and kind.kind in "fiub"


def _is_text(column: Any, kind: str) -> bool:
    kind = kind.lower().split("(")[0]
    if kind == "object":  # may be numeric, which only a conversion shows
        try:
            np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return True
    return (
        kind in {"str", "string", "category", "categorical", "enum"}
        or "date" in kind
        or "duration" in kind
        or "timedelta" in kind
    )


def _check_finite(X: Any, names: Any) -> None:
    """Raise with row and column of the first value that is missing, infinite or too large."""
    largest = MAX_SUMMABLE_VALUE[np.dtype(X.dtype)]
    whole = sparse.issparse(X)  # sparse tables have few entries, and slices of them are copies
    for start in range(0, X.shape[0], max(1, X.shape[0]) if whole else _CHUNK_ROWS):
        chunk = X if whole else X[start : start + _CHUNK_ROWS]
        if has_bad_value(chunk, largest):
            row, column, value = find_bad_value(chunk, largest)
            refuse_value(value, start + row, column, names, largest, X.dtype)


def has_bad_value(X: Any, largest: float) -> bool:
    """Return whether a block has a value that is missing, infinite or too large; faster than `find_bad_value`."""
    if (xp := namespace_of(X)) is not np:
        return X.shape[0] > 0 and X.shape[1] > 0 and not float(xp.max(xp.abs(X))) <= largest
    values = X.data if sparse.issparse(X) else X
    return not (values.size == 0 or max(values.max(), -values.min()) <= largest)  # True for NaN


def find_bad_value(X: Any, largest: float) -> tuple[int, int, float]:
    """Return row, column and value of the first bad value of a block that has one."""
    if not sparse.issparse(X):
        X = in_numpy(X)
        row, column = (int(place) for place in np.argwhere(~(np.abs(X) <= largest))[0])
        return row, column, float(X[row, column])
    entry = np.flatnonzero(~(np.abs(X.data) <= largest))[0]
    return int(np.searchsorted(X.indptr, entry, side="right") - 1), int(X.indices[entry]), float(X.data[entry])


def refuse_value(
    value: float, row: int, column: int, names: Any, largest: float, dtype: Any, place: str = ""
) -> NoReturn:
    """Raise for a missing, infinite or too large value, with its place; `place` names the file, if there is one."""
    where = f"row {row}, column {column}" + ("" if names is None else f" ({names[column]!r})") + place
    if np.isnan(value):
        raise ValueError(
            f"Input X contains NaN at {where}. Fill missing values first, for example with "
            "sklearn.impute.SimpleImputer in a Pipeline, or drop the rows."
        )
    if np.isinf(value):
        raise ValueError(f"Input X contains infinity at {where}. Replace it by a finite value.")
    raise ValueError(
        f"Input X has the value {value:g} at {where}. Absolute values must be at most {largest:g}, so that sums of "
        f"squares stay finite in {dtype}. Scale the columns, for example with sklearn.preprocessing.StandardScaler."
    )


def take_columns(X: Any, columns: Any) -> Any:
    """Return some columns of an array, a sparse matrix or a data frame, as a table of the same type."""
    if hasattr(X, "iloc"):
        return X.iloc[:, columns]
    if hasattr(X, "columns"):  # polars
        return X[:, [int(column) for column in columns]]
    return np.asarray(X)[:, columns] if not sparse.issparse(X) else _indexable(X)[:, columns]


def take_rows(X: Any, rows: Any) -> Any:
    """Return some rows of an array, a sparse matrix or a data frame, as a table of the same type."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return (np.asarray(X) if isinstance(X, list | tuple) else _indexable(X))[rows]


def _indexable(X: Any) -> Any:
    """Return a sparse matrix of a format without indexing, such as DIA or BSR, as CSR; other tables unchanged."""
    return X.tocsr() if sparse.issparse(X) and X.format in ("bsr", "coo", "dia") else X


# --- input that NumPy would silently misread


def refuse_lazy_query(values: Any, name: str) -> None:
    """Raise for a query that has not been run, such as a polars LazyFrame.

    Examples
    --------
    >>> refuse_lazy_query([1, 2], "y")
    """
    if hasattr(values, "collect") and hasattr(values, "collect_schema"):
        raise TypeError(
            f"{name} is a {type(values).__name__}, a query that has not been run yet. Pass {name}.collect()."
        )


def refuse_masked(values: Any, name: str) -> None:
    """Raise for a masked array with masked values, because NumPy would read the values under the mask as data.

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
            f"{name} is a masked array with {masked} of {values.size} values masked, and masks are not supported here. "
            f"Drop these rows, or replace masked values: {name}.filled(value)."
        )


def refuse_invalid_vector(values: Any, name: str) -> None:
    """Raise for vectors that are masked, complex, sparse, or a query.

    Examples
    --------
    >>> refuse_invalid_vector(np.array([1.0 + 2.0j]), "propensity")
    Traceback (most recent call last):
    ...
    ValueError: Complex data not supported: propensity must hold real numbers. ...
    """
    refuse_lazy_query(values, name)
    refuse_masked(values, name)
    if sparse.issparse(values):
        raise TypeError(
            f"{name} must be a dense array with one value per row; got a sparse matrix. Pass {name}.toarray().ravel()."
        )
    if hasattr(values, "__array__") and np.asarray(values).dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} must hold real numbers. To use only the real part, pass {name}.real."
        )


def plain_array(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array; raise for lists of unequal length.

    Examples
    --------
    >>> plain_array([[1], [0, 1]], "y")
    Traceback (most recent call last):
    ...
    ValueError: y must contain one value per row, but NumPy cannot convert it to an array: ...
    """
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must contain one value per row, but NumPy cannot convert it to an array: {error}. Check whether "
            "some rows contain a list."
        ) from error


def table_array(X: Any) -> NDArray[Any]:
    """Return a table that is given as lists as an array; raise for rows of unequal length.

    Examples
    --------
    >>> table_array([[1, 2], [0]])
    Traceback (most recent call last):
    ...
    ValueError: X must be a table with rows of equal length. NumPy cannot convert it to an array: ...
    """
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"X must be a table with rows of equal length. NumPy cannot convert it to an array: {error}"
        ) from error


def refuse_mixed_devices(X: Any, *others: Any) -> None:
    """Raise scikit-learn's error for arrays on different devices."""
    for other in others:
        if namespace_of(other) is not np and other.device != X.device:
            raise ValueError(f"Input arrays use different devices: {X.device}, {other.device}")


def refuse_device(X: Any, what: str, instead: str = ", or fit the model with one label for each row only") -> None:
    """Raise if `X` is an array on a device, where the computation `what` is not supported."""
    if on_device(X):
        raise ValueError(
            f"{what} are not supported for arrays of {type(X).__module__.partition('.')[0]}, but X is a "
            f"{type(X).__name__}. Pass numpy arrays{instead}."
        )


def refuse_own_engine(X: Any, what: str) -> None:
    """Raise if `X` are rows in files or on a device, because the computation `what` needs them in memory."""
    if has_own_engine(X):
        call = _INTO_MEMORY.get(type(X).__name__)
        raise ValueError(
            f"{what} needs all rows in memory, but X is a {type(X).__name__}. Pass a sample of the rows as an array or "
            f"data frame{f', or all rows if they fit into memory: {call}' if call else ''}. Fits of SAREMClassifierCV, "
            "and of SAREMClassifier without an estimator, do not need all rows in memory."
        )


def in_files(X: Any) -> bool:
    """Return whether a table is in files and is read in partitions."""
    return has_own_engine(X) and hasattr(X, "plan")
