"""Contributions of columns to the log-odds of single rows, compared with an average row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit

from scarless.checks.attributes import names_of
from scarless.checks.options import check_whole
from scarless.checks.rows import index_of
from scarless.checks.tables import refuse_own_engine, take_rows
from scarless.numerics.arrays import Matrix, Vector
from scarless.outside.extras import need

_MIN_PROBABILITY = 1e-9  # probabilities are clipped to this distance from 0 and 1 before their logit is taken
_CELLS_PER_BLOCK = 4_000_000  # table cells that are changed or averaged at once, to bound memory


def dense(table: Any) -> Matrix:
    """Return rows as a dense array in float64."""
    return np.asarray(table.toarray() if sparse.issparse(table) else table, dtype=np.float64)


def has_coefficients(model: Any) -> bool:
    """Return whether the class model is linear."""
    return hasattr(model, "coef_")


def contributions(model: Any, rows: Any, mean: Vector, groups: Sequence[Sequence[int]]) -> Matrix:
    r"""Return the contribution of each group of columns to the logit of each row, compared with the average row.

    For a linear model it is :math:`\sum_j \beta_j (x_j - \bar x_j)` over the columns of the group. For other models it
    is the logit of the row minus its logit with these columns set to their means.

    Parameters
    ----------
    model : fitted classifier
        Its ``coef_`` is used if it has one, else its ``predict_proba``.
    rows : table
        Rows that the model can read.
    mean : array of shape (n_columns,)
        The average row.
    groups : list of lists of int
        Columns of each group.

    Returns
    -------
    array of shape (n_rows, n_groups)
    """
    if has_coefficients(model):
        moved = (dense(rows) - mean) * np.ravel(model.coef_)
        return np.column_stack([moved[:, list(group)].sum(axis=1) for group in groups])
    block = max(_CELLS_PER_BLOCK // max(len(groups) * mean.size, 1), 1)
    starts = range(0, rows.shape[0], block)
    return np.vstack([by_replacement(model, take_rows(rows, slice(i, i + block)), mean, groups) for i in starts])


def by_replacement(model: Any, rows: Any, mean: Vector, groups: Sequence[Sequence[int]]) -> Matrix:
    """Return each row's logit minus its logit with one group of columns set to their means, for each group."""
    values = dense(rows)
    changed = np.repeat(values[None], len(groups), axis=0)
    for table, group in zip(changed, groups, strict=True):
        table[:, list(group)] = mean[list(group)]
    u = _logits(model, _like(rows, changed.reshape(-1, values.shape[1]))).reshape(len(groups), -1)
    return np.asarray((_logits(model, rows)[None] - u).T)


def _like(rows: Any, values: Matrix) -> Any:
    """Return values as a table of the same type as `rows`."""
    if hasattr(rows, "iloc"):
        return type(rows)(values, columns=rows.columns)
    return type(rows)(values, schema=rows.columns) if hasattr(rows, "get_column") else values


def _logits(model: Any, table: Any) -> Vector:
    f = np.asarray(model.predict_proba(table), dtype=np.float64)[:, model._coding.positive]
    return np.asarray(logit(np.clip(f, _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)))


def average_row(table: Any, weight: Any = None) -> Vector | None:
    """Return the mean of the finite values of each column; None if the table is not numeric."""
    w = np.ones(table.shape[0]) if weight is None else np.ravel(np.asarray(weight, dtype=np.float64))
    w = np.broadcast_to(w, (table.shape[0],))  # One number is the weight of every row.
    if sparse.issparse(table):
        return np.asarray(table.T @ w, dtype=np.float64) / w.sum()
    block = max(_CELLS_PER_BLOCK // max(table.shape[1], 1), 1)  # converted block by block, to bound memory
    total, count = np.zeros(table.shape[1]), np.zeros(table.shape[1])
    for start in range(0, table.shape[0], block):
        rows, part = take_rows(table, slice(start, start + block)), w[start : start + block]
        try:
            values = dense(rows)
        except (TypeError, ValueError):
            return None
        there = np.isfinite(values)
        total += part @ np.where(there, values, 0.0)
        count += part @ there
    return np.asarray(total / np.maximum(count, np.finfo(np.float64).tiny))


def grouped(columns: Sequence[Any]) -> dict[str, list[int]]:
    """Return the positions of each name, in order of first occurrence."""
    found: dict[str, list[int]] = {}
    for j, name in enumerate(columns):
        found.setdefault(str(name), []).append(j)
    return found


def column_names(table: Any) -> list[str]:
    """Return the names of a table's columns, or ``x0``, ``x1``, ... if it has none."""
    names = names_of(table)
    return [f"x{j}" for j in range(table.shape[1])] if names is None else list(map(str, names))


def refuse_unless_in_memory(X: Any, background: Any) -> None:
    """Raise if the rows to explain, or the background, are not in memory."""
    for table in (X, background):
        refuse_own_engine(table, "explain")


def explanation(X: Any, groups: dict[str, list[int]], parts: Matrix, n_reasons: int | None) -> Any:
    """Return the largest contributions for each row as a data frame, with the values of these columns."""
    pandas = need("pandas", "explain", "frames")
    names = list(groups)
    n = len(names) if n_reasons is None else min(check_whole(n_reasons, "n_reasons", at_least=1), len(names))
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :n]
    index = index_of(X)
    rows = np.repeat(np.arange(parts.shape[0]), n)
    cells = [_cells(X, name) for name in names]
    return pandas.DataFrame(
        {
            "row": rows if index is None else pandas.Index(index)[rows],
            "column": np.array(names, dtype=object)[order.ravel()],
            "value": [cells[j][i] for i, j in zip(rows, order.ravel(), strict=True)],
            "contribution": np.take_along_axis(parts, order, axis=1).ravel(),
        }
    )


def _cells(X: Any, name: str) -> Any:
    """Return the values of a column, or None for each row if the table has no column of that name."""
    names = column_names(X)
    if name not in names:
        return [None] * X.shape[0]
    j = names.index(name)
    if hasattr(X, "iloc"):
        return X.iloc[:, j].tolist()
    if sparse.issparse(X):
        return dense(X.tocsc()[:, [j]])[:, 0].tolist()
    return X[:, j].to_list() if hasattr(X, "get_column") else np.asarray(X)[:, j].tolist()
