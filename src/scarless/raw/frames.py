"""Tables as data frames, with the columns that are wanted."""

from typing import Any

import numpy as np
from scipy import sparse

from scarless.checks.attributes import with_text_names
from scarless.outside.extras import need


def as_frame(X: Any) -> Any:
    """Return a data frame whose columns have text for names, which skrub needs; those of an array are x0, x1, ..."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return with_text_names(X)
    if sparse.issparse(X):
        raise TypeError(
            "The preparation of raw tables needs a data frame or a dense array, got a sparse matrix. Use "
            "preparation='passthrough', or a transformer that takes one."
        )
    pandas = need("pandas", "TableClassifier", "tool")
    values = np.asarray(X)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns, got an array of shape {values.shape}.")
    return pandas.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])]).infer_objects()


def refuse_twins(names: list[Any]) -> None:
    """Raise where two columns have one name, or one has none."""
    nameless = [number for number, name in enumerate(names) if name is None or name != name]  # noqa: PLR0124 (NaN)
    if nameless:
        raise ValueError(f"Every column must have a name; column {nameless[0]} has none.")
    twins = sorted({str(name) for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"Columns must have different names; more than one is called {', '.join(map(repr, twins))}.")


def arranged(X: Any, known: list[str], missing: list[str]) -> Any:
    """Return a data frame with the known columns in order, the missing ones empty."""
    if hasattr(X, "reindex"):
        return X.reindex(columns=known)
    import polars as pl  # noqa: PLC0415 (the table is one of its frames)

    return X.with_columns([pl.lit(None).alias(name) for name in missing]).select(known)
