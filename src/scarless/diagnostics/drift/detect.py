"""Detection of drift: new rows compared with the rows of a fit, and new labels with the predictions."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.attributes import names_of
from scarless.checks.estimators import opened
from scarless.checks.looks import check_looks, looks_of
from scarless.checks.options import check_counts, check_propensity, check_random_stream, check_share, check_whole, shown
from scarless.checks.rows import count_rows, warn_about_row_order
from scarless.checks.tables import in_files, plain_array, table_array, take_rows
from scarless.diagnostics.drift.columns import ColumnShift, ColumnShifts, compare_columns
from scarless.diagnostics.drift.labels import (
    Estimate,
    Extrapolation,
    NewRows,
    check_labels,
    count_positives,
    count_positives_after_shift,
)
from scarless.diagnostics.drift.result import Drift
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import NaiveClassifier, PropensityWeightedClassifier, PUClassifier
from scarless.models.inspection import (
    any_label_probability,
    draw_predictions,
    false_label_probability,
    size_of_fit,
)
from scarless.models.pair import refuse_wrapped
from scarless.numerics.arrays import ArrayLike, Columns, Matrix, Vector
from scarless.pair.logistic import all_labelled
from scarless.raw.reference import DATE, ReferenceRows, as_days, as_numbers, describe_rows, raw_values
from scarless.raw.table_classifier import TableClassifier, with_fitted_columns
from scarless.raw.tables import replaced

MAX_LABEL_ROWS = 20_000  # of larger tables, labels and positives are computed for a random sample of this size
NO_REFERENCE = (
    "This model file has no reference rows, because it was written by an earlier version or not by `scarless fit`. "
    "Columns are not compared. Fit the model again, or pass the rows of the fit as reference=."
)


def detect_drift(
    estimator: Any,
    X: Any,
    s: ArrayLike | None = None,
    *,
    reference: Any = None,
    time: Any = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    level: float = 0.95,
    n_draws: int = 200,
    random_state: Any = 0,
) -> Drift:
    r"""Check whether a fitted model is still right for new rows.

    Three questions are answered, and one verdict is given:

    - **Which columns moved?** Each column is compared with the rows of the fit: numbers by the Kolmogorov-Smirnov
      distance, categories by total variation and a chi-square test, and both by their share of missing values. A
      column moved if the p-value, adjusted by Holm's method, is below 0.05 and the distance is at least 0.1. Moved
      columns alone are no reason for a new fit. A column whose numbers are about 1,000 times larger, or larger by
      another factor between two units, is named first.
    - **Do labels arrive as often as predicted?** Observed labels are compared with the sum of :math:`f(x)\,e(x)`: in
      total, in bins of this probability, by time, and in groups of each column. The tests allow for the estimation
      error of the fit, to first order.
    - **How many positives are there?** The sum of :math:`f(x)` if nothing changed, and whether it is another number
      than in as many rows of the fit. With labels, also the number if only the class prior changed: the class logits
      are shifted until they fit the new labels best, with the propensity held. If many rows are far outside the range
      of the fit, also whether this number depends on them.

    Labels show only the product :math:`f e`. If all labels become rarer by one factor, the class prior or the labelling
    may have changed; the two can be told apart only where :math:`f` is close to 1, and only if the models are right. If
    labels changed only at some values of a column, the roles of the columns count: a column of `propensity_attributes`
    points to the labelling, and a column that only the class model uses points to the class.

    In simulated months without any change, the verdict was not "fine" in 6.0% of 200 fits of `SAREMClassifier` and in
    5.7% of 87 fits of `SAREMClassifierCV`; the nominal rate is 5% (``python -m benchmarks drift``). Several months that
    are checked with one fit are not independent: if this fit is inaccurate, all of them show it.

    Parameters
    ----------
    estimator : fitted classifier
        Classifier of this package, also in a pipeline or a `TableClassifier`.
    X : data frame or array of shape (n_rows, n_columns)
        New rows. For a `TableClassifier`, raw rows.
    s : array of shape (n_rows,) or (n_rows, n_looks), optional
        Labels of the new rows, coded as in `fit`.
    reference : data frame or array, optional
        Rows of the fit. Not needed for models of `analyse` and `scarless fit`, which store a description of them.
    time : str or array of shape (n_rows,), optional
        Date of each row, or its column, to compare labels by time. By default, the first column of dates.
    sample_weight : array of shape (n_rows,), optional
        Weight of each new row; 1 by default.
    propensity : array of shape (n_rows,) or float, optional
        Propensity of each row, for a `PropensityWeightedClassifier` only.
    level : float in (0, 1), default=0.95
        Confidence level of intervals and ranges.
    n_draws : int, default=200
        Number of draws for the uncertainty of the fit.
    random_state : int, numpy generator or RandomState, default=0
        Seed of the random numbers.

    Returns
    -------
    Drift

    See Also
    --------
    DriftDisplay : Plot of the result.
    compare_fits : Compares two fits.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.diagnostics import detect_drift
    >>> def month(seed, labelling):
    ...     rng = np.random.default_rng(seed)
    ...     X = np.column_stack([rng.normal(size=(1000, 2)), rng.integers(2, size=1000)])
    ...     y = rng.random(1000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    ...     return X, (y & (rng.random(1000) < np.where(X[:, 2] == 1, labelling, 0.3))).astype(int)
    >>> X, s = month(0, 0.7)
    >>> model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> detect_drift(model, *month(1, 0.7), reference=X).verdict
    'fine'
    >>> detect_drift(model, *month(2, 0.35), reference=X).verdict
    'look at the labelling'
    """
    level, n_draws = check_share(level, "level"), check_whole(n_draws, "n_draws", at_least=20)
    rng, table = check_random_stream(random_state), _checked_table(estimator, X)
    model, prepare = opened(estimator)
    raw = with_fitted_columns(estimator, table) if isinstance(estimator, TableClassifier) else table
    prepared = prepare(table)
    n_rows = count_rows(raw)
    w = check_counts(sample_weight, n_rows=n_rows)
    warn_about_row_order(X, s=s, sample_weight=sample_weight)
    notes: list[str] = []
    columns = _columns(estimator, raw, prepared, reference, w, notes)
    labels, labelled = _read_labels(model, s, n_rows)
    chosen = _chosen(n_rows, w, rng, notes)
    rows = _predictions(model, take_rows(prepared, chosen), labels, chosen, w, propensity, n_draws, rng, notes)
    check = None
    if rows.s is not None:
        when = _time(estimator, raw, time, X)
        when = None if when is None else (when[0], when[1][chosen])
        groups = _column_names(raw)
        roles = _roles(estimator, model, groups)
        check, more = check_labels(rows, take_rows(raw, chosen), groups, when, level, roles)
        notes += [*more, *_notes_on_labels(labelled, n_rows)]
    positives, shifted = _positives(estimator, model, rows, check, level, rng, notes)
    inside = None
    if columns is not None and columns.far and positives is not None:
        cut = prepare(_cut_off(take_rows(raw, chosen), columns.far))
        own = None if labels is None else labels[chosen]
        inside = _extrapolation(model, cut, own, rows, tuple(each.name for each in columns.far))
    return Drift(
        columns=columns,
        labels=check,
        positives=positives,
        positives_if_prior_changed=shifted,
        positives_in_fit=None if positives is None else float(model.class_prior_ * w.sum()),
        extrapolation=inside,
        n_rows=n_rows,
        n_labelled=0 if labelled is None else int(labelled.sum()),
        level=level,
        notes=(*notes, *(() if columns is None else columns.notes)),
    )


# --- input


def _checked_table(estimator: Any, X: Any) -> Any:
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise TypeError(f"estimator must be a fitted classifier of this package; got {shown(estimator)}.")
    check_is_fitted(estimator)
    refuse_wrapped(estimator)
    model = opened(estimator)[0]
    refuse_wrapped(model)
    if isinstance(model, NaiveClassifier) or not isinstance(model, PUClassifier):
        raise TypeError(
            f"estimator: {type(model).__name__} does not predict how often labels arrive. Fit SAREMClassifierCV or "
            "another classifier with a propensity."
        )
    if in_files(X):
        raise TypeError(
            "X must be a table in memory; got rows in files. Draw a random sample of the rows, for example with "
            "pandas.read_parquet(...).sample(20_000)."
        )
    table = X if hasattr(X, "shape") else table_array(X)
    if len(table.shape) != 2:
        raise ValueError(f"X must be a table with rows and columns; got the shape {tuple(table.shape)}.")
    if table.shape[0] == 0:
        raise ValueError("X has no rows, so there is nothing to compare. Pass at least one row.")
    return table.tocsr() if hasattr(table, "tocsr") else table


def _column_names(X: Any) -> list[Any]:
    names = names_of(X)
    return list(range(X.shape[1])) if names is None else list(names)


def _shown(names: list[Any]) -> list[str]:
    return [f"x{name}" if isinstance(name, int) else str(name) for name in names]


def _columns(
    estimator: Any, raw: Any, prepared: Any, reference: Any, w: Vector, notes: list[str]
) -> ColumnShifts | None:
    stored = getattr(estimator, "reference_", None) if reference is None else reference
    if stored is None:
        notes.append(NO_REFERENCE)
        return None
    if not isinstance(stored, ReferenceRows):
        old = stored if hasattr(stored, "shape") else np.asarray(stored)
        origins = getattr(estimator, "origins_", None)
        if isinstance(estimator, TableClassifier):
            old = with_fitted_columns(estimator, old)
        elif len(old.shape) != 2 or old.shape[1] != raw.shape[1]:
            raise ValueError(
                f"reference must have the {raw.shape[1]} columns of X; got the shape {old.shape}. Pass the rows of the "
                "fit."
            )
        if old.shape[0] == 0:
            raise ValueError("reference has no rows. Pass the rows of the fit.")
        stored = describe_rows(old, prepared=opened(estimator)[1](stored), origins=origins)
    return compare_columns(stored, raw, _shown(_column_names(raw)), prepared, w)


def _read_labels(model: Any, s: Any, n_rows: int) -> tuple[Any, Any]:
    """Return the labels as an array, and which rows have one; None without labels."""
    if s is None:
        return None, None
    codes = check_looks(s, coding=model.label_coding_, name="s").labels
    labels = s.to_numpy() if hasattr(s, "to_numpy") else np.asarray(s)
    if len(codes) != n_rows:
        raise ValueError(f"s has {len(codes)} rows, but X has {n_rows}. Pass one row of labels for each row of X.")
    looks = looks_of(model)
    wanted = 1 if looks is None else looks.n_looks
    if codes.shape[1] != wanted:
        raise ValueError(f"s has {codes.shape[1]} looks, but the model was fitted to {wanted}. Pass the same looks.")
    return labels, (codes == 1).any(axis=1)


def _chosen(n_rows: int, w: Vector, rng: np.random.Generator, notes: list[str]) -> Columns:
    if n_rows <= MAX_LABEL_ROWS:
        return np.arange(n_rows)
    notes.append(
        f"Labels and positives are computed for a random sample of {MAX_LABEL_ROWS:,} of the {n_rows:,} rows. Numbers "
        "of positives are scaled to all rows."
    )
    return np.sort(rng.choice(n_rows, MAX_LABEL_ROWS, replace=False))


def _predictions(
    model: Any,
    X: Any,
    labels: Any,
    chosen: Columns,
    w: Vector,
    propensity: Any,
    n_draws: int,
    rng: np.random.Generator,
    notes: list[str],
) -> NewRows:
    """Return the predictions for new rows, their labels, and the uncertainty of the predictions."""
    n, known = chosen.size, isinstance(model, PropensityWeightedClassifier)
    if propensity is not None and not known:
        raise ValueError(f"propensity: {type(model).__name__} estimates its own. Leave propensity out.")
    own = None if labels is None else labels[chosen]
    given = None if propensity is None else check_propensity(propensity, n_rows=w.size)[chosen]
    if known and given is None and own is not None:
        raise ValueError(
            "propensity: PropensityWeightedClassifier does not estimate it. Pass the propensity of each row, or "
            "leave s out."
        )
    f = class_probability(model, X, coding_of(model))
    e, h = (np.full(n, np.nan) if given is None else given, np.zeros(n)) if known else _of_labels(model, X, own, n)
    found = draw_predictions(model, X, own, n_draws, rng)
    s = None
    if own is not None:
        s = (check_looks(own, coding=model.label_coding_, name="s").labels == 1).any(axis=1).astype(np.float64)
    weights = w[chosen]
    rows = NewRows(f, e, h, s, weights, found.draws, np.zeros((n, 1)), float(w.sum() / weights.sum()))
    return rows._replace(errors=_errors(model, rows, found.errors, n_draws, rng, notes)) if s is not None else rows


def _of_labels(model: Any, X: Any, own: Any, n: int) -> tuple[Vector, Vector]:
    """Return the probability of a label if positive, and if negative; of several looks, only with their labels."""
    looks = looks_of(model)
    if looks is None or looks.plain:
        return np.asarray(model.predict_propensity(X), dtype=np.float64), np.zeros(n)
    if own is None:
        return np.full(n, np.nan), np.zeros(n)
    return any_label_probability(model, X, own), false_label_probability(model, X, own)


def _cut_off(X: Any, far: list[ColumnShift]) -> Any:
    """Return a table whose columns with many rows far outside the range of the fit are cut off at this range."""
    names = _shown(_column_names(X))
    place = {each.name: names.index(each.name) for each in far}
    cut = {each.name: np.clip(_floats(X, place[each.name]), each.low, each.high) for each in far}
    if hasattr(X, "columns"):
        return replaced(X, {X.columns[place[name]]: values for name, values in cut.items()})
    table = X.toarray() if hasattr(X, "toarray") else np.array(X, dtype=np.float64)
    for name, values in cut.items():
        table[:, place[name]] = values
    return type(X)(table) if hasattr(X, "toarray") else table


def _floats(X: Any, place: int) -> Vector:
    numbers = as_numbers(raw_values(X, place))
    assert numbers is not None  # Only columns of numbers have a range.
    return numbers


def _extrapolation(model: Any, cut: Any, own: Any, rows: NewRows, columns: tuple[str, ...]) -> Extrapolation:
    """Return what would be expected of rows that are cut off at the range of the fit."""
    known = isinstance(model, PropensityWeightedClassifier)
    e, h = (rows.e, rows.h) if known else _of_labels(model, cut, own, rows.f.size)
    inside = rows._replace(f=class_probability(model, cut, coding_of(model)), e=e, h=h)
    labels = np.nan if own is None else float(rows.w @ inside.p)
    return Extrapolation(columns, float(rows.w @ inside.f) * rows.scale, labels)


def _roles(estimator: Any, model: Any, names: list[Any]) -> dict[str, str]:
    """Return which columns the user named for the labelling, and which only the class model uses; {} if unknown."""
    named, coef = getattr(model, "propensity_attributes", None), getattr(model, "propensity_coef_", None)
    if named is None or isinstance(named, str) or coef is None:
        return {}
    origins = getattr(estimator, "origins_", None)
    owners = _shown(names) if origins is None else [str(each.column) for each in origins]
    if len(owners) != coef.shape[1]:
        return {}
    labelling = {owners[j] for j in np.flatnonzero(coef.any(axis=0))}
    return {name: "labelling" if name in labelling else "class" for name in owners}


def _errors(model: Any, rows: NewRows, errors: Any, n_draws: int, rng: np.random.Generator, notes: list[str]) -> Matrix:
    """Return draws of the estimation error of the probability of a label.

    Without standard errors, the error of a sum of probabilities is taken to be that of the number of labels in as many
    rows of the fit.
    """
    if errors is not None:
        of_f, of_e = errors
        return np.asarray(of_f * (rows.e - rows.h)[:, None] + rows.f[:, None] * of_e)
    size = size_of_fit(model)
    if size is None:
        notes.append(
            f"This {type(model).__name__} has no standard errors. The tests of labels treat its predictions as exact, "
            "so that they find a change too often if the fit had few labels."
        )
        return np.zeros((rows.f.size, 1))
    notes.append(
        f"This {type(model).__name__} has no standard errors for the probability of a label. They are approximated "
        "from the number of rows of the fit."
    )
    share = float(rows.w.sum()) / size[0]
    spread = np.sqrt(share * rows.p * (1.0 - rows.p))
    return np.asarray(spread[:, None] * rng.standard_normal((rows.f.size, n_draws)))


def _time(estimator: Any, raw: Any, time: Any, X: Any) -> tuple[str, Vector] | None:
    """Return the name and the days of the dates by which labels are compared; None if there are no dates."""
    names = [str(name) for name in _column_names(raw)]
    if time is None:
        stored, origins = getattr(estimator, "reference_", None), getattr(estimator, "origins_", None) or ()
        known = {each.column for each in origins if each.date}
        if isinstance(stored, ReferenceRows):
            known |= {column.name for column in stored.named(names) if column.kind == DATE}
        for j, name in enumerate(names):
            values = raw_values(raw, j)
            if name in known or values.dtype.kind == "M":
                return name, _days(values)
        return None
    if isinstance(time, str):
        there = [str(name) for name in (names_of(X) or ())]
        if time not in there:
            raise ValueError(f"time: there is no column {time!r} in X. Name a column, or pass a date for each row.")
        return time, _days(raw_values(X, there.index(time)))
    values = time.to_numpy() if hasattr(time, "to_numpy") else plain_array(time, "time")
    if values.shape != (raw.shape[0],):
        raise ValueError(
            f"time must have one date for each of the {raw.shape[0]:,} rows, or name a column; got the shape "
            f"{values.shape}."
        )
    if as_numbers(values) is not None and values.dtype.kind != "M":
        raise ValueError("time must hold dates, such as '2024-05-01' or datetime64; got numbers.")
    return str(getattr(time, "name", None) or "time"), _days(values)


def _days(values: Any) -> Vector:
    found = as_numbers(values) if values.dtype.kind == "M" else None
    return as_days(values) if found is None else found


def _notes_on_labels(labelled: Any, n_rows: int) -> list[str]:
    if labelled.all():
        return [
            f"All {n_rows:,} rows have a label. If the file holds labelled rows only, add the unlabelled rows: "
            "predictions are for all rows."
        ]
    if not labelled.any():
        return ["No row has a label. If labels are entered later, leave s out, or wait until they have arrived."]
    return []


def _positives(
    estimator: Any, model: Any, rows: NewRows, check: Any, level: float, rng: np.random.Generator, notes: list[str]
) -> tuple[Estimate | None, Estimate | None]:
    """Return the number of positives if nothing changed, and if only the class prior changed."""
    if getattr(estimator, "naive_", None) is not None:
        notes.append("The two models may be swapped, so the number of positives is not estimated.")
        return None, None
    frequency, looks = getattr(model, "label_frequency_", None), looks_of(model)
    uninformative = frequency is not None and np.isfinite(frequency) and all_labelled(float(frequency))
    if uninformative and looks is None and not getattr(model, "known", None):
        notes.append("According to the fit, every positive is labelled, so it cannot estimate the number of positives.")
        return None, None
    found = count_positives(rows, level, rng)
    known = check is not None and not check.all_or_none
    return found, count_positives_after_shift(rows, level, rng) if known else None
