"""Rows that an engine holds, or a table in memory -> checked labels and weights.

Rows of an engine are checked by totals in one pass; what is wrong is looked up after.
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
from scarless.checks.options import LOST_WEIGHT_SHARE, check_vector, refuse_extreme_counts, refuse_weight
from scarless.checks.tables import (
    LARGEST,
    check_foreign_table,
    check_table,
    find_bad_value,
    has_bad_value,
    refuse_mixed_devices,
    refuse_value,
)
from scarless.engines import Engine, Rows, attach, has_own_engine, open_rows
from scarless.engines.base import MayMiss, Several, known_rows, on_device
from scarless.engines.blocks import Distinct, First, Largest, how_to_read
from scarless.engines.device import DeviceRows
from scarless.numerics.arrays import Vector, in_float64, in_numpy, namespace_of
from scarless.outside.notices import warn_user

MIN_ROWS_TO_LEAK = 20  # in fewer rows a column may equal the labels by chance
_ROWS_TRIED_FIRST = 1000  # of a column that may equal the labels
Index = Sequence[Any] | NDArray[Any] | None


class RowTotals(NamedTuple):
    """Sums over rows that have labels `s` and weights `w`."""

    n_rows: Any  # that count at all
    weight: Any
    labelled: Any
    unlabelled: Any

    @property
    def labelled_share(self) -> float:
        """Share of rows that are labelled: no class prior is below it."""
        return float(self.labelled / self.weight)


class ReadLabels(NamedTuple):
    """Labels that were read from their columns already, wherever the other columns live."""

    values: Any


class OpenedRows(NamedTuple):
    """Rows that were opened already, and have labels ``y``."""

    engine: Engine


class LabelledRows(NamedTuple):
    """An engine whose rows have labels ``s``, 0 or 1, and weights ``w``; what the labels looked like, and totals."""

    engine: Engine
    coding: LabelCoding
    totals: RowTotals


def check_labelled_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, *, pos_label: Any = None) -> LabelledRows:
    """Check what a fit gets, wherever its rows live.

    Sets ``n_features_in_`` and ``feature_names_in_`` of the estimator.
    """
    engine = _opened(estimator, X, y, sample_weight)
    names, facts = getattr(estimator, "feature_names_in_", None), _checked_facts(estimator, engine, "y")
    odd = _place_of_label(engine, _odd_labels(facts.labels.values))
    coding = check_labels(facts.labels.values, pos_label=pos_label, place=odd)
    rows = _labelled(engine, coding, facts)
    refuse_lost_class(rows.totals.labelled, rows.totals.unlabelled)
    warn_about_leak(rows.engine, names)
    return rows


def check_rows_again(estimator: Any, X: Any, s: Any, sample_weight: Any) -> LabelledRows:
    """Check rows that a classifier was fitted to, for a second look: with the columns and the labels of its fit."""
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
    facts = _checked_facts(estimator, engine, "s")
    unknown = facts.labels.values[~np.isin(facts.labels.values, coding.classes)]
    coding.refuse_unknown(unknown, _place_of_label(engine, unknown))
    return _labelled(engine, coding, facts)


def _checked_facts(estimator: Any, engine: Engine, name: str) -> "_Facts":
    """Return what one pass tells of all rows, or raise."""
    facts = engine.total(_block_facts, LARGEST[np.dtype(engine.dtype)])
    _refuse_bad_values(engine, facts, getattr(estimator, "feature_names_in_", None))
    if facts.missing_labels > 0:
        (first,) = engine.total(_block_first, _missing_labels)
        refuse_missing(name, int(facts.missing_labels), engine.n_rows, first.row, _place_of(engine, first.row))
    return facts


def _labelled(engine: Engine, coding: LabelCoding, facts: "_Facts") -> LabelledRows:
    largest = _largest_weight(engine, facts)
    engine = engine.read_as(how_to_read(engine)).derive(_coded, coding, largest, keep=True)
    return LabelledRows(engine, coding, row_totals(engine))


def check_rows(estimator: Any, X: Any, columns: Several | None = None) -> Engine:
    """Check rows to predict, wherever they live: those of a table, without labels; `columns` are read beside them."""
    check_is_fitted(estimator)
    if not has_own_engine(X):
        return open_rows(check_table(estimator, X, reset=False))
    engine = open_rows(_with_columns(estimator, X), columns)
    _compare_columns(estimator, engine)
    facts = engine.total(_block_facts, LARGEST[np.dtype(engine.dtype)])
    _refuse_bad_values(engine, facts, getattr(estimator, "feature_names_in_", None))
    return engine


def named_values(X: Any, values: Any, *, labels: bool = False, gaps: bool = False) -> Any:
    """Return values per row as they were given; of a column that is named, of rows that live elsewhere, its values.

    `gaps`: whether labels may be missing.
    """
    if namespace_of(values) is not np:
        return in_numpy(values)
    if not isinstance(values, str) or not has_own_engine(X):
        return values
    table = known_rows(X)
    if not hasattr(table, "select"):
        return values
    bare, values = table.select([]), MayMiss(values) if gaps else values
    return (open_rows(bare, values) if labels else open_rows(bare, None, values)).collect(_block_column, labels)


def count_rows(X: Any) -> int:
    """Return how many rows a table has, wherever they live."""
    if not has_own_engine(X):
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)
    table = known_rows(X)
    return open_rows(table.select([]) if hasattr(table, "select") else table).n_rows


def _block_column(X: Any, rows: Rows, labels: bool) -> Any:
    return rows["y" if labels else "w"]


def row_totals(engine: Engine) -> RowTotals:
    """Return the sums over rows with labels and weights."""
    return RowTotals(*(float(each) for each in engine.total(_block_totals)))


def refuse_lost_class(labelled: Any, unlabelled: Any) -> None:
    """Raise where weights leave labelled rows only, or unlabelled ones; both by their sums of weights."""
    for value, kind in ((labelled, "labelled"), (unlabelled, "unlabelled")):
        if not value > 0:
            raise ValueError(
                f"sample_weight is 0 for every {kind} row, or lost beside the others: one class only is left to "
                "learn from."
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
    """Open rows that live elsewhere; labels and weights of a table on a device are checked as those in memory are."""
    if isinstance(X, DeviceRows):
        y, sample_weight = (each if namespace_of(each) is np else in_numpy(each) for each in (y, sample_weight))
        y = np.asarray(check_observed(y, name)).reshape(-1)
        if sample_weight is not None:
            sample_weight = check_vector(sample_weight, "sample_weight", n_rows=X.shape[0])
    return open_rows(X, y, sample_weight)


def _refuse_too_small(shape: tuple[int, int], name: str) -> None:
    """Refuse tables that scikit-learn refuses, in its words."""
    for size, least, what in ((shape[0], 2, "sample(s)"), (shape[1], 1, "feature(s)")):
        if size < least:
            raise ValueError(
                f"Found array with {size} {what} (shape={shape}) while a minimum of {least} is required by {name}."
            )


def _with_columns(estimator: Any, X: Any) -> Any:
    """Return a table of files with the columns of the fit, in its order, where the table can be asked for columns."""
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
            "The columns of X should have the names, and the order, that they had in fit: "
            f"{', '.join(map(str, known[:5]))}{', ...' if len(known) > 5 else ''}."
        )


def _place_of(engine: Engine, row: int | None) -> str:
    """Return in which file a row is, for an error, where the engine knows."""
    find = getattr(engine, "place_of", None)
    place = "" if find is None or row is None else find(row)
    return f", in {place}" if place else ""


def _odd_labels(values: Any) -> Any:
    """Return which of more than two labels are likely not meant."""
    if values.size <= 2:
        return values[:0]
    plain = np.isin(values, [0, 1]) if values.dtype.kind in "biuf" else np.zeros(values.size, dtype=bool)
    return values[~plain] if np.count_nonzero(plain) == 2 else values[2:]


def _place_of_label(engine: Engine, odd: Any) -> str:
    """Return where the first of odd labels is, for an error, where the engine knows."""
    if not odd.size or not hasattr(engine, "place_of"):
        return ""
    (first,) = engine.total(_block_first, _labels_among, odd)
    return f" The first {first.found!r} is at row {first.row}{_place_of(engine, first.row)}."


def _labels_among(X: Any, rows: Rows, odd: Any) -> tuple[int, Any] | None:
    places = np.flatnonzero(np.isin(rows["y"], odd))
    return (int(places[0]), rows["y"][places[0]].item()) if places.size else None


class _Facts(NamedTuple):
    """What one pass tells of all rows."""

    bad_values: Any  # blocks with some
    labels: Distinct
    missing_labels: Any
    bad_weights: Any
    largest_weight: Largest


def _block_facts(X: Any, rows: Rows, largest: float) -> _Facts:
    y, w = rows.get("y", np.empty(0)), rows.get("w", np.empty(0))
    missing = is_missing(y)
    bad = ~((w >= 0) & (w < np.inf))
    return _Facts(
        float(has_bad_value(X, largest)),
        Distinct(distinct_labels(y[~missing] if missing.any() else y)[: Distinct.most]),
        float(np.count_nonzero(missing)),
        float(np.count_nonzero(bad)),
        Largest(np.asarray(w[~bad].max(initial=0.0))),
    )


def _refuse_bad_values(engine: Engine, facts: _Facts, names: Any) -> None:
    if facts.bad_values > 0:
        largest = LARGEST[np.dtype(engine.dtype)]
        (first,) = engine.total(_block_first, _bad_values, largest)
        place = _place_of(engine, first.row)
        refuse_value(first.found[1], int(first.row or 0), first.found[0], names, largest, engine.dtype, place)


def _largest_weight(engine: Engine, facts: _Facts) -> float:
    """Return the largest weight, 1 where none are given, or raise where some cannot be."""
    if facts.bad_weights > 0:
        (first,) = engine.total(_block_first, _bad_weights)
        refuse_weight(int(facts.bad_weights), engine.n_rows, first.row, first.found, _place_of(engine, first.row))
    largest = float(facts.largest_weight.values)
    (given,) = engine.total(_block_given)
    if not given:
        return 1.0
    if largest == 0:
        raise ValueError("sample_weight is zero for every row; at least one row must count.")
    refuse_extreme_counts(largest)
    return largest


def _block_given(X: Any, rows: Rows) -> tuple[float]:
    return (float("w" in rows),)


def _coded(X: Any, rows: Rows, coding: LabelCoding, largest: float) -> dict[str, Vector]:
    """Return labels as 0 and 1, and weights; one that is lost in rounding beside the largest becomes 0."""
    w = np.asarray(rows["w"], dtype=np.float64) if "w" in rows else np.ones(rows.size)
    s = (np.asarray(rows["y"]).reshape(-1) == coding.classes[coding.positive]).astype(np.float64)
    return {"s": s, "w": np.where(w < LOST_WEIGHT_SHARE * largest, 0.0, w)}


def _block_totals(X: Any, rows: Rows) -> RowTotals:
    s, w = rows["s"], rows["w"]
    xp = namespace_of(w)
    return RowTotals(xp.sum(in_float64(w > 0)), xp.sum(w), w @ s, w @ (1.0 - s))


def _block_first(X: Any, rows: Rows, find: Any, *parameters: Any) -> tuple[First]:
    """Return the first row of a block in which something is found; `find` returns its place in the block, and that."""
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
    """Warn where a column of a dense table is the label column itself, the commonest slip with a CSV file."""
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
            f"Column {name} of X is the label column itself, so every model will only repeat it. Leave it out of X.",
            UserWarning,
        )


def _block_differs(X: Any, rows: Rows, columns: Any) -> tuple[Any]:
    """Return in how many rows each column is not the label, as 0 and 1 and as -1 and 1."""
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
    """Checked attributes, the observed labels as 0 and 1, and what they looked like."""

    X: Any
    s: Vector
    coding: LabelCoding


def check_labelled_table(estimator: Any, X: Any, y: Any, *, inner: Any = None, pos_label: Any = None) -> LabelledTable:
    """Check what a fit gets. `inner` is the user's estimator that will read the table, where there is one.

    Sets ``n_features_in_`` and ``feature_names_in_`` of the estimator.
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
    """Drop the results of an earlier fit: one with other parameters need not overwrite them all."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


# --- names of rows, and whether values per row come in their order


def index_of(X: Any) -> Any:
    """Return the names of a pandas data frame's rows, a range if they are just 0, 1, 2, ...; None for other tables."""
    if not hasattr(X, "iloc") or has_own_engine(X):
        return None
    counted = getattr(X.index, "start", None) == 0 and getattr(X.index, "step", None) == 1
    return range(len(X.index)) if counted else X.index


def check_row_order(values: Any, name: str, index: Index) -> Any:
    """Return values per row as they are, unless a pandas index says that they are in another order than the rows."""
    displaced = _displaced(values, name, index)
    if displaced:
        reorder = f" Reorder it with {name}.loc[X.index]." if _differ(index) else ""
        raise ValueError(
            f"{name} must be in the order of the rows; {displaced}. If its order is right and its index is not, as "
            f"with a new Series that counts 0, 1, 2, ..., pass {name}.to_numpy().{reorder}"
        )
    return values


def warn_about_row_order(X: Any, **vectors: Any) -> None:
    """Warn of values per row whose pandas index has the table's row names in another order: positions count."""
    if not hasattr(X, "iloc") or has_own_engine(X):
        return
    for name, values in vectors.items():
        displaced = _displaced(values, name, X.index)
        if displaced:
            reorder = f"if its index is right pass {name}.loc[X.index], and " if _differ(X.index) else ""
            warn_user(
                f"{name} is taken by position, as scikit-learn does; {displaced}. To say what is meant: {reorder}if "
                f"its order is right pass {name}.to_numpy().",
                UserWarning,
            )


def _displaced(values: Any, name: str, index: Index) -> str:
    """Return how the index of values per row differs from the rows', if only in its order; else nothing."""
    if index is None or not hasattr(values, "iloc") or len(values.index) != len(index) or values.index.equals(index):
        return ""
    here, there = values.index.tolist(), list(index)
    if here == there or set(here) != set(there):
        return ""
    first = next(i for i, name_there in enumerate(there) if here[i] != name_there)
    return (
        f"its index has the same names in another order (first: position {first} is {there[first]!r} among the rows "
        f"and {here[first]!r} in {name})"
    )


def _differ(index: Any) -> bool:
    return len(set(index)) == len(index)
