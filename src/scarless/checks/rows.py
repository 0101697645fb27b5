"""Checks of the values, labels and weights of rows, in memory, in files or on a device.

One pass over the rows finds out whether any value is invalid. If so, a second pass finds its row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from scarless.checks.labels import (
    LabelCoding,
    check_labels,
    check_observed,
    distinct_labels,
    is_missing,
    need_labels,
    refuse_missing,
)
from scarless.checks.options import LOST_WEIGHT_SHARE, check_vector, refuse_extreme_counts, refuse_weight, shown
from scarless.checks.tables import (
    MAX_SUMMABLE_VALUE,
    check_foreign_table,
    check_table,
    find_bad_value,
    has_bad_value,
    refuse_mixed_devices,
    refuse_value,
)
from scarless.engines import Engine, Rows, attach, has_own_engine, open_rows
from scarless.engines.base import LabelColumns, NullableColumn, known_rows, on_device
from scarless.engines.blocks import Distinct, First, Largest, how_to_read
from scarless.engines.device import DeviceRows
from scarless.numerics.arrays import Array, Vector, in_float64, in_numpy, namespace_of
from scarless.outside.notices import warn_user

MIN_ROWS_TO_LEAK = 20  # with fewer rows, a column can equal the labels by chance
_WEIGHT_ROUNDING = 1e-9  # relative difference of equal weights, from rounding in sums
_BALANCE_ROUNDING = 1e-3  # relative difference of the totals of rounded weights for balanced classes
_ROWS_TRIED_FIRST = 1000  # columns are compared with the labels in about this many rows first
Index = Sequence[Any] | NDArray[Any] | None


class RowTotals(NamedTuple):
    """Number of rows, and sums of their weights: of all, of the labelled and of the unlabelled rows."""

    n_rows: Any  # number of rows with a positive weight
    weight: Any
    labelled: Any
    unlabelled: Any

    @property
    def labelled_share(self) -> float:
        """Share of rows that are labelled, a lower bound of the class prior."""
        return float(self.labelled / self.weight)


class ReadLabels(NamedTuple):
    """Labels that have already been read from their columns."""

    values: Any


class OpenedRows(NamedTuple):
    """Rows that have already been opened, with labels ``y``."""

    engine: Engine


class LabelledRows(NamedTuple):
    """Engine whose rows have labels ``s``, 0 or 1, and weights ``w``, with the coding of labels and the totals."""

    engine: Engine
    coding: LabelCoding
    totals: RowTotals


def check_labelled_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, pos_label: Any = None, corrects: bool = True
) -> LabelledRows:
    """Check the rows, labels and weights of a fit, in memory or in files.

    Set ``n_features_in_`` and ``feature_names_in_`` of the estimator. `corrects` is False for models that do not
    correct for missing labels.
    """
    engine = _opened(estimator, X, y, sample_weight)
    names, found = getattr(estimator, "feature_names_in_", None), _check_values(estimator, engine, "y")
    odd = _place_of_label(engine, _odd_labels(found.labels.values))
    coding = check_labels(found.labels.values, pos_label=pos_label, place=odd)
    rows = _labelled(engine, coding, found)
    refuse_lost_class(rows.totals.labelled, rows.totals.unlabelled)
    if rows.totals.weight != rows.totals.n_rows:
        _warn_about_label_weights(*rows.engine.total(_block_weight_moments), corrects=corrects)
    warn_about_leak(rows.engine, names)
    return rows


def check_rows_again(estimator: Any, X: Any, s: Any, sample_weight: Any) -> LabelledRows:
    """Check the rows of an earlier fit again, with the columns and the label coding of that fit."""
    coding: LabelCoding = estimator.label_coding_
    if has_own_engine(X):
        engine = _open(_with_columns(estimator, X), s, sample_weight, "s")
        _compare_columns(estimator, engine)
    else:
        table = check_table(estimator, X, reset=False, values=False)
        labels = np.asarray(check_observed(s, "s")).reshape(-1)
        if labels.size != table.shape[0]:
            raise ValueError(f"s has {labels.size} values for {table.shape[0]} rows; give one value per row.")
        weight = sample_weight
        if sample_weight is not None:
            weight = check_vector(sample_weight, "sample_weight", n_rows=table.shape[0])
        engine = open_rows(table, labels, weight)
    found = _check_values(estimator, engine, "s")
    unknown = found.labels.values[~np.isin(found.labels.values, coding.classes)]
    coding.refuse_unknown(unknown, _place_of_label(engine, unknown))
    return _labelled(engine, coding, found)


def _check_values(estimator: Any, engine: Engine, name: str) -> "_ValueSummary":
    """Return a summary of all values from one pass; raise for bad values and missing labels."""
    found = engine.total(_block_summary, MAX_SUMMABLE_VALUE[np.dtype(engine.dtype)])
    _refuse_bad_values(engine, found, getattr(estimator, "feature_names_in_", None))
    if found.missing_labels > 0:
        (first,) = engine.total(_block_first, _missing_labels)
        refuse_missing(name, int(found.missing_labels), engine.n_rows, first.row, _place_of(engine, first.row))
    return found


def _labelled(engine: Engine, coding: LabelCoding, found: "_ValueSummary") -> LabelledRows:
    largest = _largest_weight(engine, found)
    engine = engine.read_as(how_to_read(engine)).derive(_coded, coding, largest, keep=True)
    return LabelledRows(engine, coding, row_totals(engine))


def check_rows(estimator: Any, X: Any, columns: LabelColumns | None = None) -> Engine:
    """Check rows for a prediction, in memory or in files; `columns` are read in addition to the attributes."""
    check_is_fitted(estimator)
    if not has_own_engine(X):
        return open_rows(check_table(estimator, X, reset=False))
    engine = open_rows(_with_columns(estimator, X), columns)
    _compare_columns(estimator, engine)
    found = engine.total(_block_summary, MAX_SUMMABLE_VALUE[np.dtype(engine.dtype)])
    _refuse_bad_values(engine, found, getattr(estimator, "feature_names_in_", None))
    return engine


def named_values(X: Any, values: Any, *, labels: bool = False, gaps: bool = False) -> Any:
    """Return `values` unchanged; if they are the name of a column of a table in files, return that column.

    `labels`: whether the column contains labels, not weights. `gaps`: whether labels may be missing.
    """
    if namespace_of(values) is not np:
        return in_numpy(values)
    if not isinstance(values, str) or not has_own_engine(X):
        return values
    bare = without_attributes(known_rows(X))
    if bare is None:
        return values
    values = NullableColumn(values) if gaps else values
    return (open_rows(bare, values) if labels else open_rows(bare, None, values)).collect(_block_column, labels)


def without_attributes(table: Any) -> Any:
    """Return the same rows in files without attributes, to read single columns; None if columns cannot be selected."""
    # Prepared rows have no `select`, because their attributes are not columns of the files. Their raw rows have it.
    raw = getattr(table, "rows", table)
    return raw.select([]) if hasattr(raw, "select") else None


def count_rows(X: Any) -> int:
    """Return the number of rows of a table, in memory or in files; raise if it is no table."""
    if not has_own_engine(X):
        shape: tuple[Any, ...] = getattr(X, "shape", (len(X),) if isinstance(X, list | tuple) else ())
        if not shape:
            raise TypeError(f"X must be a table with rows and columns; got {shown(X)}.")
        return int(shape[0])
    table = known_rows(X)
    bare = without_attributes(table)
    return open_rows(table if bare is None else bare).n_rows


def _block_column(X: Any, rows: Rows, labels: bool) -> Any:
    return rows["y" if labels else "w"]


def row_totals(engine: Engine) -> RowTotals:
    """Return the sums over rows with labels and weights."""
    return RowTotals(*(float(each) for each in engine.total(_block_totals)))


def refuse_lost_class(labelled: Any, unlabelled: Any) -> None:
    """Raise if the labelled or the unlabelled rows have a total weight of 0."""
    for value, kind in ((labelled, "labelled"), (unlabelled, "unlabelled")):
        if not value > 0:
            raise ValueError(
                f"sample_weight is 0 for every {kind} row, or negligible compared with the largest weight. Both "
                "classes of labels, labelled and unlabelled, must have rows with a positive weight."
            )


def check_label_weights(s: Vector, w: Vector, *, corrects: bool = True) -> None:
    """Raise if a class of labels has no weight; warn if the weights seem to depend on the labels.

    `corrects` is False for models that do not correct for missing labels.
    """
    refuse_lost_class(w @ s, w @ (1.0 - s))
    _warn_about_label_weights(*_block_weight_moments(None, {"s": s, "w": w}), corrects=corrects)


def _block_weight_moments(X: Any, rows: Any) -> tuple[Any]:
    """Return, for the labelled and the unlabelled rows, their number, and the sums of weights and of their squares."""
    s, w = in_numpy(rows["s"]), in_numpy(rows["w"])
    return (np.array([[part.sum(), w @ part, w**2 @ part] for part in (s, 1.0 - s)]),)


def _warn_about_label_weights(moments: Array, *, corrects: bool) -> None:
    """Warn about weights that balance the labelled and the unlabelled rows, or are higher for all labelled rows.

    Weights that are higher for all unlabelled rows do not warn: they are usual if the table is a sample of these rows.
    """
    number, total, square = moments.T
    if number.min() < 2 or not np.allclose(number * square, total**2, rtol=_WEIGHT_ROUNDING, atol=0.0):
        return  # The weights are not constant in both classes.
    labelled, unlabelled = total / number
    if np.isclose(labelled, unlabelled, rtol=_WEIGHT_ROUNDING, atol=0.0):
        return
    start = f"The weights are {labelled:.4g} for all labelled rows and {unlabelled:.4g} for all unlabelled rows"
    effect = "change the share of labelled rows, from which the class prior is estimated"
    if np.isclose(total[0], total[1], rtol=_BALANCE_ROUNDING, atol=0.0):
        warn_user(
            f"{start}, with the same total, as weights for balanced classes do. They {effect}, so all estimates are "
            "wrong. Leave out sample_weight: scarless needs no balanced classes.",
            UserWarning,
        )
    elif corrects and labelled > unlabelled:
        warn_user(
            f"{start}. They {effect}. This is right only if labelled rows are rarer in the table than among all units. "
            "If the weights should make positives more important, leave out sample_weight.",
            UserWarning,
        )


def _opened(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Engine:
    need_labels(y, type(estimator).__name__)
    if on_device(X):
        refuse_mixed_devices(X, y, sample_weight)
        X = known_rows(X)
        _refuse_too_small(X.shape, type(estimator).__name__)
    if has_own_engine(X):
        if isinstance(y, OpenedRows):
            engine = y.engine
        elif isinstance(y, ReadLabels):
            engine = attach(open_rows(X, None, sample_weight), y=y.values)
        else:
            engine = _open(X, y, sample_weight, "y")
        estimator.n_features_in_ = engine.n_columns
        if (names := getattr(engine, "names", None)) is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        return engine
    y = y.values if isinstance(y, ReadLabels) else y
    table, labels = check_table(estimator, X, check_observed(y), reset=True, values=False)
    warn_about_row_order(X, y=y)
    weight = sample_weight
    if sample_weight is not None:
        weight = check_vector(sample_weight, "sample_weight", n_rows=table.shape[0])
        warn_about_row_order(X, sample_weight=sample_weight)
    return open_rows(table, labels, weight)


def _open(X: Any, y: Any, sample_weight: Any, name: str) -> Engine:
    """Open rows in files or on a device; labels and weights on a device are checked as in memory."""
    if isinstance(X, DeviceRows):
        y, sample_weight = (each if namespace_of(each) is np else in_numpy(each) for each in (y, sample_weight))
        y = np.asarray(check_observed(y, name)).reshape(-1)
        if sample_weight is not None:
            sample_weight = check_vector(sample_weight, "sample_weight", n_rows=X.shape[0])
    return open_rows(X, y, sample_weight)


def _refuse_too_small(shape: tuple[int, int], name: str) -> None:
    """Raise scikit-learn's error for tables that are too small."""
    for size, least, what in ((shape[0], 2, "sample(s)"), (shape[1], 1, "feature(s)")):
        if size < least:
            raise ValueError(
                f"Found array with {size} {what} (shape={shape}) while a minimum of {least} is required by {name}."
            )


def _with_columns(estimator: Any, X: Any) -> Any:
    """Return a table in files with the columns of the fit, in order, if the table supports selection."""
    X = known_rows(X)
    known = getattr(estimator, "feature_names_in_", None)
    return X.select(list(known)) if known is not None and hasattr(X, "select") else X


def _compare_columns(estimator: Any, engine: Engine) -> None:
    if engine.n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {engine.n_columns} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    known, names = getattr(estimator, "feature_names_in_", None), getattr(engine, "names", None)
    if known is not None and names is not None and list(known) != list(names):
        raise ValueError(
            "The columns of X should have the same names and order as in fit: "
            f"{', '.join(map(str, known[:5]))}{', ...' if len(known) > 5 else ''}."
        )


def _place_of(engine: Engine, row: int | None) -> str:
    """Return the file of a row for an error; an empty text if the engine has no files."""
    find = getattr(engine, "place_of", None)
    place = "" if find is None or row is None else find(row)
    return f", in {place}" if place else ""


def _odd_labels(values: Any) -> Any:
    """Return the labels that are probably wrong if there are more than two values."""
    if values.size <= 2:
        return values[:0]
    plain = np.isin(values, [0, 1]) if values.dtype.kind in "biuf" else np.zeros(values.size, dtype=bool)
    return values[~plain] if np.count_nonzero(plain) == 2 else values[2:]


def _place_of_label(engine: Engine, odd: Any) -> str:
    """Return a sentence with the place of the first odd label; an empty text if the engine has no files."""
    if not odd.size or not hasattr(engine, "place_of"):
        return ""
    (first,) = engine.total(_block_first, _labels_among, odd)
    return f" The value {first.found!r} first occurs in row {first.row}{_place_of(engine, first.row)}."


def _labels_among(X: Any, rows: Rows, odd: Any) -> tuple[int, Any] | None:
    places = np.flatnonzero(np.isin(rows["y"], odd))
    return (int(places[0]), rows["y"][places[0]].item()) if places.size else None


class _ValueSummary(NamedTuple):
    """Summary of all values of the rows, from one pass."""

    bad_values: Any  # number of blocks with bad values
    labels: Distinct
    missing_labels: Any
    bad_weights: Any
    largest_weight: Largest


def _block_summary(X: Any, rows: Rows, largest: float) -> _ValueSummary:
    y, w = rows.get("y", np.empty(0)), rows.get("w", np.empty(0))
    missing = is_missing(y)
    bad = ~((w >= 0) & (w < np.inf))
    return _ValueSummary(
        float(has_bad_value(X, largest)),
        Distinct(distinct_labels(y[~missing] if missing.any() else y)[: Distinct.most]),
        float(np.count_nonzero(missing)),
        float(np.count_nonzero(bad)),
        Largest(np.asarray(w[~bad].max(initial=0.0))),
    )


def _refuse_bad_values(engine: Engine, found: _ValueSummary, names: Any) -> None:
    if found.bad_values > 0:
        largest = MAX_SUMMABLE_VALUE[np.dtype(engine.dtype)]
        (first,) = engine.total(_block_first, _bad_values, largest)
        place = _place_of(engine, first.row)
        refuse_value(first.found[1], int(first.row or 0), first.found[0], names, largest, engine.dtype, place)


def _largest_weight(engine: Engine, found: _ValueSummary) -> float:
    """Return the largest weight, or 1 if none are given; raise for invalid weights."""
    if found.bad_weights > 0:
        (first,) = engine.total(_block_first, _bad_weights)
        refuse_weight(int(found.bad_weights), engine.n_rows, first.row, first.found, _place_of(engine, first.row))
    largest = float(found.largest_weight.values)
    (given,) = engine.total(_block_given)
    if not given:
        return 1.0
    if largest == 0:
        raise ValueError("sample_weight is zero for every row. Give at least one row a positive weight.")
    refuse_extreme_counts(largest)
    return largest


def _block_given(X: Any, rows: Rows) -> tuple[float]:
    return (float("w" in rows),)


def _coded(X: Any, rows: Rows, coding: LabelCoding, largest: float) -> dict[str, Vector]:
    """Return labels as 0 and 1, and weights; weights that are negligible compared with the largest become 0."""
    s = (np.asarray(rows["y"]).reshape(-1) == coding.classes[coding.positive]).astype(np.float64)
    if "w" not in rows:
        xp = namespace_of(X)
        return {"s": s, "w": np.ones(s.size) if xp is np else xp.ones(s.size, dtype=xp.float64, device=X.device)}
    w = np.asarray(rows["w"], dtype=np.float64)
    return {"s": s, "w": np.where(w < LOST_WEIGHT_SHARE * largest, 0.0, w)}


def _block_totals(X: Any, rows: Rows) -> RowTotals:
    s, w = rows["s"], rows["w"]
    xp = namespace_of(w)
    return RowTotals(xp.sum(in_float64(w > 0)), xp.sum(w), w @ s, w @ (1.0 - s))


def _block_first(X: Any, rows: Rows, find: Any, *parameters: Any) -> tuple[First]:
    """Return the first row of a block that `find` reports: its number in the table, and the value found."""
    found = find(X, rows, *parameters)
    return (First() if found is None else First(int(rows.number[found[0]]), found[1]),)


def _missing_labels(X: Any, rows: Rows) -> tuple[int, None] | None:
    places = np.flatnonzero(is_missing(rows["y"]))
    return (int(places[0]), None) if places.size else None


def _bad_weights(X: Any, rows: Rows) -> tuple[int, float] | None:
    w = rows["w"]
    places = np.flatnonzero(~((w >= 0) & (w < np.inf)))
    return (int(places[0]), float(w[places[0]])) if places.size else None


def _bad_values(X: Any, rows: Rows, largest: float) -> tuple[int, tuple[int, float]] | None:
    if not has_bad_value(X, largest):
        return None
    row, column, value = find_bad_value(X, largest)
    return row, (column, value)


def warn_about_leak(engine: Engine, names: Any) -> None:
    """Warn if a column of a dense table equals the label column, a common mistake with CSV files."""
    if engine.n_rows < MIN_ROWS_TO_LEAK:
        return
    (few,) = engine.every(max(1, engine.n_rows // _ROWS_TRIED_FIRST)).total(_block_differs, np.arange(engine.n_columns))
    suspects = np.flatnonzero((few == 0).any(axis=0))
    if not suspects.size:
        return
    (all_rows,) = engine.total(_block_differs, suspects)
    for column in suspects[(all_rows == 0).any(axis=0)]:
        name = f"{column}" if names is None else f"{names[column]!r}"
        warn_user(
            f"Column {name} of X equals the label column, so every model will only repeat the labels. Remove this "
            "column from X.",
            UserWarning,
        )


def _block_differs(X: Any, rows: Rows, columns: Any) -> tuple[Any]:
    """Return the number of rows in which each column differs from the label, coded as 0/1 and as -1/1."""
    if sparse.issparse(X):
        return (np.full((2, columns.size), float(X.shape[0])),)
    if (xp := namespace_of(X)) is not np:
        taken = X if columns.size == X.shape[1] else xp.take(X, xp.asarray(columns, device=X.device), axis=1)
        s = xp.astype(rows["s"], X.dtype)[:, None]
        return (
            np.stack([in_numpy(xp.sum(xp.astype(taken != coded, xp.float64), axis=0)) for coded in (s, 2 * s - 1)]),
        )
    values, s = X if columns.size == X.shape[1] else X[:, columns], rows["s"][:, None]
    return (np.stack([np.count_nonzero(values != coded, axis=0) for coded in (s, 2.0 * s - 1.0)]).astype(np.float64),)


# --- a table in memory and its label column


class LabelledTable(NamedTuple):
    """Checked attributes, observed labels as 0 and 1, and their coding."""

    X: Any
    s: Vector
    coding: LabelCoding


def check_labelled_table(estimator: Any, X: Any, y: Any, *, inner: Any = None, pos_label: Any = None) -> LabelledTable:
    """Check the table and labels of a fit; `inner` is the estimator of the user that reads the table, or None.

    Set ``n_features_in_`` and ``feature_names_in_`` of the estimator.
    """
    need_labels(y, type(estimator).__name__)
    observed = check_observed(y)
    if inner is None:
        table, labels = check_table(estimator, X, observed, reset=True)
    else:
        table, labels = check_foreign_table(estimator, X, observed, inner=inner, reset=True)
    coding = check_labels(labels, pos_label=pos_label)
    s = coding.encode(labels)
    warn_about_row_order(X, y=y)
    if isinstance(table, np.ndarray) and table.dtype.kind in "fiub":
        warn_about_leak(attach(open_rows(table), s=s), getattr(estimator, "feature_names_in_", None))
    return LabelledTable(table, s, coding)


def forget_fit(estimator: Any) -> None:
    """Delete the results of an earlier fit, because a fit with other parameters may not overwrite all of them."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


# --- row names, and the order of vectors with one value for each row


def index_of(X: Any) -> Any:
    """Return the index of a pandas data frame, as a range if it is 0, 1, 2, ...; None for other tables."""
    if not hasattr(X, "iloc") or has_own_engine(X):
        return None
    counted = getattr(X.index, "start", None) == 0 and getattr(X.index, "step", None) == 1
    return range(len(X.index)) if counted else X.index


def check_row_order(values: Any, name: str, index: Index) -> Any:
    """Return `values`, one for each row, unchanged; raise if their pandas index has the rows in another order."""
    displaced = _displaced(values, name, index)
    if displaced:
        reorder = f" If the index is right, pass {name}.loc[X.index]." if _all_unique(index) else ""
        raise ValueError(
            f"{name} must be in the order of the rows, but {displaced}.{reorder} If the order is right and the index "
            f"is wrong, for example in a new Series with the index 0, 1, 2, ..., pass {name}.to_numpy()."
        )
    return values


def warn_about_row_order(X: Any = None, **vectors: Any) -> None:
    """Warn if the pandas index of a vector has the rows in another order than `X`, because only positions count.

    Without `X`, compare all vectors with the first of them that has an index.
    """
    table = "X"
    if X is None:
        table, X = next(((name, values) for name, values in vectors.items() if hasattr(values, "iloc")), ("", None))
    if not hasattr(X, "iloc") or has_own_engine(X):
        return
    to = "the rows" if table == "X" else table
    for name, values in vectors.items():
        displaced = _displaced(values, name, X.index, table)
        if displaced:
            reorder = f" If the index is right, pass {name}.loc[{table}.index]." if _all_unique(X.index) else ""
            warn_user(
                f"{name} is matched to {to} by position, as in scikit-learn, but {displaced}.{reorder} If the "
                f"order is right, pass {name}.to_numpy().",
                UserWarning,
            )


def _displaced(values: Any, name: str, index: Index, table: str = "X") -> str:
    """Return a text about the first difference if `values` has the index of the rows in another order; else ""."""
    if index is None or not hasattr(values, "iloc") or len(values.index) != len(index) or values.index.equals(index):
        return ""
    here, there = values.index.tolist(), list(index)
    if here == there or set(here) != set(there):
        return ""
    first = next(i for i, name_there in enumerate(there) if here[i] != name_there)
    return (
        f"its index has the row names of {table} in another order (first difference: position {first} is "
        f"{there[first]!r} in {table} and {here[first]!r} in {name})"
    )


def _all_unique(index: Any) -> bool:
    return len(set(index)) == len(index)
