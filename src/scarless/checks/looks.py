"""Checks of labels of several looks and of audits, and their conversion to codes: 1, 0, and -1 for gaps.

A gap is a look that did not take place, or a row that was not audited. In memory, labels and audits are arrays. In a
table in files they are columns, which are read in a few passes; only the distinct values, and one byte for each cell,
are kept in memory.
"""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.checks.estimators import innermost
from scarless.checks.labels import LabelCoding, check_labels, distinct_labels, is_missing
from scarless.checks.options import shown
from scarless.checks.tables import plain_array
from scarless.engines import Engine, Rows, has_own_engine
from scarless.engines.base import LabelColumns
from scarless.engines.blocks import Distinct

Codes = NDArray[np.int8]
NOT_SEEN = -1
AUDIT_LABELS = ("keep", "drop", "undo")
MIN_ODD_CELLS = 5  # columns with fewer labels or audits cause no warning
MAX_LOOKS_FOR_ALL_PAIRS = 12  # with more looks, only neighbouring looks are compared
UNLIKELY_AUDITED_SHARE = 0.9  # if this share of the unlabelled rows has an audit, 0 probably means "not audited"
MIN_AUDITS_OF_NEARLY_ALL = 20  # with fewer audits, UNLIKELY_AUDITED_SHARE causes no warning
# A warning about copied looks needs this many rows with a label at one of the two looks. If two independent looks each
# miss 1 positive in 10, they agree on all of 20 such rows with a probability of 1 in 50.
MIN_COPIED_LABELS = 20
# Looks that differ in at most this share of these rows may be copies with corrections. Independent looks that each miss
# 1 positive in 20 differ in one row of ten.
MAX_CORRECTED_SHARE = 0.03


class CheckedLooks(NamedTuple):
    """Labels as codes, of shape (n_rows, n_looks), with the coding of labels and the names of looks."""

    labels: Codes
    coding: LabelCoding
    names: tuple[str, ...]


def has_several_looks(y: Any) -> bool:
    """Return whether labels are a table with several columns, or with one column that has gaps.

    Examples
    --------
    >>> has_several_looks([0, 1]), has_several_looks([[0, 1], [1, 0]]), has_several_looks([[0], [1]])
    (False, True, False)
    """
    if y is None or isinstance(y, str):
        return False
    try:
        shape = np.asarray(y).shape if not hasattr(y, "shape") else tuple(y.shape)
    except ValueError:  # rows of unequal length, for which `check_observed` raises a clear error
        return False
    # Older versions of SciPy turn a vector into a sparse matrix with one row.
    if len(shape) != 2 or shape[1] == 0 or (sparse.issparse(y) and shape[0] == 1):
        return False
    return shape[1] > 1 or (not sparse.issparse(y) and _misses_looks(_as_table(y)))


def check_looks(y: Any, *, pos_label: Any = None, coding: LabelCoding | None = None, name: str = "y") -> CheckedLooks:
    """Return labels of several looks as codes. Gaps are marked by NaN, None, a mask, or -1 (if labels are 0 and 1).

    `coding` is the coding of an earlier fit, if there is one.

    Examples
    --------
    >>> check_looks([[1, np.nan], [0, 0]]).labels
    array([[ 1, -1],
           [ 0,  0]], dtype=int8)
    """
    names, table = _names(y), _as_table(y, name)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or not table.shape[1]:
        raise ValueError(
            f"{name} must have one row for each row of X and one column for each look; its shape is {table.shape}."
        )
    seen = ~(is_missing(table).reshape(table.shape) if _is_plain_column(table, coding) else not_seen(table))
    values = table[seen]
    if not values.size and coding is None:
        raise ValueError(_only_gaps(name))
    values = np.array(values.tolist()) if values.dtype.kind == "O" and values.size else values
    if coding is None:
        if not seen.all():
            refuse_minus_one(values, name)
        coding = check_labels(values, pos_label=pos_label)
    else:
        coding.refuse_unknown(values)
    labels = np.full(table.shape, NOT_SEEN, dtype=np.int8)
    labels[seen] = values == coding.classes[coding.positive]
    given = names if names is not None else [f"look {j}" for j in range(table.shape[1])]
    return CheckedLooks(labels, coding, tuple(given))


def check_audit(audit: Any, *, n_rows: int, coding: LabelCoding | None = None) -> Codes:
    """Return audits as codes: 1 and 0 for audited rows, -1 for other rows.

    Examples
    --------
    >>> check_audit([1, np.nan, 0, None], n_rows=4)
    array([ 1, -1,  0, -1], dtype=int8)
    """
    if audit is None:
        return np.full(n_rows, NOT_SEEN, dtype=np.int8)
    table = _as_table(audit, "audit")
    if table.shape not in ((n_rows,), (n_rows, 1)):
        shape = f", in the shape {table.shape}" if table.ndim > 1 else ""
        raise ValueError(
            f"audit has {table.size} values for {n_rows} rows{shape}. Give one value for each row: 1 (positive) or 0 "
            "(negative) for audited rows, and NaN or -1 for other rows."
        )
    table = table.reshape(-1)
    seen = ~not_seen(table)
    values = table[seen]
    values = np.array(values.tolist()) if values.dtype.kind == "O" else values
    codes = np.full(n_rows, NOT_SEEN, dtype=np.int8)
    _refuse_minus_for_no(table, values, coding)
    if not values.size:
        return codes
    as_numbers = values.dtype.kind in "biuf" and bool(np.isin(values, [0, 1]).all())
    if as_numbers and values.dtype.kind != "b" and coding is not None:
        _refuse_two_meanings(values, coding)
    if as_numbers:
        codes[seen] = values == 1
    elif coding is not None and np.isin(values, coding.classes).all():
        codes[seen] = values == coding.classes[coding.positive]
    else:
        known = [0, 1] if coding is None else coding.classes.tolist()
        odd = next(value for value in values.tolist() if value not in known)
        raise ValueError(
            "audit must be 1 (or True) for audited positives, 0 for audited negatives, and NaN, None or -1 for rows "
            f"that were not audited; got {shown(odd)}."
        )
    return codes


def _refuse_minus_for_no(table: NDArray[Any], values: NDArray[Any], coding: LabelCoding | None) -> None:
    """Raise if -1 seems to mean negative: audit has no 0, and it has other missing values, or the labels use -1."""
    if values.dtype.kind not in "iufb" or not (values == 1).all() or not not_seen(table).any():
        return
    missing = is_missing(table)
    minus = bool((not_seen(table) & ~missing).any())
    as_labels = coding is not None and coding.classes.dtype.kind in "if" and NOT_SEEN in coding.classes
    if minus and (missing.any() or as_labels):
        raise ValueError(
            "audit has the value -1 but no 0. In audit, -1 does not mean negative: it marks a row that was not "
            "audited. Use 0 for audited negatives, and NaN or -1 for rows that were not audited."
        )


def _refuse_two_meanings(values: NDArray[Any], coding: LabelCoding) -> None:
    """Raise if 0 or 1 has another meaning among the labels."""
    for place, value in enumerate(coding.classes.tolist()):
        number = isinstance(value, int | float) and value in (0, 1)
        if number and bool(value) != (place == coding.positive) and (values == value).any():
            raise ValueError(
                f"audit has the value {value}, which is ambiguous: in an audit {value} means "
                f"{'positive' if value else 'negative'}, but in the labels {coding.classes.tolist()} it marks "
                f"{'labelled' if place == coding.positive else 'unlabelled'} rows. In audit, use True for positive, "
                "False for negative, and None for rows that were not audited."
            )


def refuse_contradictions(labels: Codes, audit: Codes) -> None:
    """Raise if a labelled row was audited negative, for models without false positives."""
    odd = np.flatnonzero((labels == 1).any(axis=1) & (audit == 0))
    if odd.size:
        raise ValueError(
            f"audit: labelled rows must not be audited negative, unless there are false positives. Labelled rows that "
            f"were audited negative: {odd.size} (first: row {odd[0]}). If such a row was not audited, use NaN or -1 in "
            "audit, not 0. If it was audited, fit with Labelling(false_positive_rate='estimate'), or give the rate as "
            "a number."
        )


def labels_for_likelihood(labels: Codes, audit: Codes, audit_labels: str) -> Codes:
    """Return the labels for the likelihood: in audited rows, "drop" replaces labels by gaps, and "undo" by 0.

    Examples
    --------
    >>> s, a = np.array([[1], [1], [0]], dtype=np.int8), np.array([-1, 1, 0], dtype=np.int8)
    >>> [labels_for_likelihood(s, a, how).ravel().tolist() for how in AUDIT_LABELS]
    [[1, 1, 0], [1, -1, -1], [1, 0, 0]]
    """
    if audit_labels == "keep":
        return labels
    audited = (audit >= 0)[:, None]
    instead = np.int8(NOT_SEEN) if audit_labels == "drop" else np.minimum(labels, np.int8(0))
    return np.where(audited, instead, labels).astype(np.int8)


def _as_table(values: Any, name: str = "y") -> NDArray[Any]:
    """Return labels as an array, with None for masked values."""
    if sparse.issparse(values):
        raise TypeError(
            f"{name} is sparse, so an entry that is not stored could mean 0 or a missing value. If it means 0, pass "
            f"{name}.toarray(). Otherwise pass an array with NaN for missing values."
        )
    if isinstance(values, np.ma.MaskedArray):
        plain = values.data.astype(object)
        plain[np.ma.getmaskarray(values)] = None
        return np.asarray(plain)
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    return np.asarray(plain_array(values, name))


def _is_plain_column(table: NDArray[Any], coding: LabelCoding | None) -> bool:
    """Return whether -1 in a single column marks unlabelled rows, as in labels of -1 and 1, and not gaps."""
    if table.shape[1] != 1 or table.dtype.kind not in "if":
        return False
    if coding is not None:
        return coding.classes.dtype.kind in "if" and NOT_SEEN in coding.classes
    return bool(np.isin(table, (NOT_SEEN, 1)).all())


def not_seen(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which looks did not take place: missing values and -1."""
    missing = is_missing(table).reshape(table.shape)
    if table.dtype.kind in "if":
        return missing | (table == NOT_SEEN)
    if table.dtype.kind == "O":
        minus = [isinstance(value, int | float | np.number) and value == NOT_SEEN for value in table.ravel().tolist()]
        return missing | np.array(minus, dtype=bool).reshape(table.shape)
    return missing


def _misses_looks(table: NDArray[Any]) -> bool:
    """Return whether a single column has gaps; if it has only -1 and 1, these are labels."""
    missing = is_missing(table).reshape(table.shape)
    minus = not_seen(table) & ~missing
    return bool(missing.any()) or (bool(minus.any()) and bool((table == 0).any()))


def refuse_minus_one(values: NDArray[Any], name: str) -> None:
    """Raise if all labels other than -1 are 1, because looks without a label were probably coded as -1."""
    if values.dtype.kind in "iufb" and (values == 1).all():
        raise ValueError(
            f"{name} contains 1 and missing values (NaN or -1), but no 0. In a table of looks, -1 marks a look that "
            "did not take place. Use 0 for a look at which the row was not labelled."
        )


def _only_gaps(name: str) -> str:
    return (
        f"{name} has only missing values. Use 1 for a look at which the row was labelled, and 0 for a look at which it "
        "was not."
    )


def _names(y: Any) -> list[str] | None:
    columns = getattr(y, "columns", None)
    return None if columns is None else [str(name) for name in columns]


# --- columns of a table in files


class LookColumns(NamedTuple):
    """Names of the columns of looks, and of audits if there are any."""

    looks: tuple[str, ...]
    audit: str | None

    @property
    def all(self) -> LabelColumns:
        """All columns, audits last."""
        return LabelColumns((*self.looks, *([] if self.audit is None else [self.audit])))


def look_columns(X: Any, y: Any, audit: Any) -> LookColumns | None:
    """Return the columns of labels and audits in a table in files; None if they are not given by name."""
    named = isinstance(y, str) or is_names(y)
    if not has_own_engine(X) or not named or not (audit is None or isinstance(audit, str)):
        return None
    return LookColumns((y,) if isinstance(y, str) else tuple(y), audit)


def is_names(values: Any) -> bool:
    """Return whether `values` is a list of column names.

    Examples
    --------
    >>> is_names(["seen_1", "seen_2"]), is_names("seen"), is_names([0, 1])
    (True, False, False)
    """
    return isinstance(values, list | tuple) and bool(values) and all(isinstance(name, str) for name in values)


class ColumnCoding(NamedTuple):
    """Coding of the columns of labels and audits."""

    n_looks: int
    labels: LabelCoding
    positive: NDArray[Any]  # values of an audit that mean positive
    has_audit: bool

    def codes(self, rows: Rows) -> Codes:
        """Return codes for the rows of a block: one column for each look, and one for the audit."""
        found = np.full((rows.size, self.n_looks + 1), NOT_SEEN, dtype=np.int8)
        label = self.labels.classes[self.labels.positive : self.labels.positive + 1]
        for k in range(self.n_looks + self.has_audit):
            seen, values = _seen(rows[f"y{k}"])
            found[seen, k] = np.isin(values, label if k < self.n_looks else self.positive)
        return found


class ReadColumns(NamedTuple):
    """An engine whose rows have codes of labels and audits, and the same codes as arrays in memory."""

    engine: Engine
    checked: CheckedLooks
    audit: Codes


def read_columns(
    engine: Engine, columns: LookColumns, *, pos_label: Any = None, coding: LabelCoding | None = None, name: str = "y"
) -> ReadColumns:
    """Read labels and audits in two passes, and code them; `coding` is the coding of an earlier fit, if any.

    The rows of the returned engine contain the codes as ``codes``.
    """
    n_looks, has_audit = len(columns.looks), columns.audit is not None
    distinct = engine.total(_block_values, n_looks, has_audit)
    values = distinct.labels.values
    if coding is None:
        if not values.size:
            raise ValueError(_only_gaps(name))
        if distinct.not_seen > 0:
            refuse_minus_one(values, name)
        coding = check_labels(values, pos_label=pos_label)
    else:
        coding.refuse_unknown(values)
    found = check_audit(distinct.audits.values, n_rows=distinct.audits.values.size, coding=coding)
    means = ColumnCoding(n_looks, coding, distinct.audits.values[found == 1], has_audit)
    engine = engine.derive(_coded, means, keep=True)
    codes = engine.collect(_block_codes)
    return ReadColumns(engine, CheckedLooks(codes[:, :n_looks], coding, columns.looks), codes[:, n_looks])


def with_labels_for_likelihood(engine: Engine, audit_labels: str) -> Engine:
    """Return rows whose codes are changed by `labels_for_likelihood`."""
    return engine if audit_labels == "keep" else engine.derive(_block_labels_that_count, audit_labels, keep=True)


def with_any_label(engine: Engine, classes: tuple[Any, Any]) -> Engine:
    """Return rows with ``y``: the second of `classes` for rows with a label at any look, else the first."""
    return engine.derive(_any_label, classes)


def with_counts(engine: Engine, n_kinds: int) -> Engine:
    """Return an engine whose rows have, for each kind of look (see `counts_of`), the numbers of labels and of looks."""
    return engine.derive(_counted, n_kinds)


def counts_of(labels: Codes, n_kinds: int) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """Return the numbers of labels and of looks of each row, with one column for each kind of look.

    Either all looks are of the same kind, or each look is a kind of its own.
    """
    if n_kinds == labels.shape[1]:
        return np.asarray(labels == 1, dtype=np.int8), np.asarray(labels >= 0, dtype=np.int8)
    # There can be more than 127 looks, the maximum of int8.
    found, seen = (np.asarray(each).sum(axis=1, dtype=np.int32) for each in (labels == 1, labels >= 0))
    return found[:, None], seen[:, None]


class _DistinctValues(NamedTuple):
    """Distinct labels and audits of the rows, and the number of gaps."""

    labels: Distinct
    audits: Distinct
    not_seen: Any


def _block_values(X: Any, rows: Rows, n_looks: int, has_audit: bool) -> _DistinctValues:
    labels, missing = Distinct(np.empty(0)), 0
    for k in range(n_looks):
        seen, values = _seen(rows[f"y{k}"])
        labels, missing = labels + _distinct(values), missing + int(np.count_nonzero(~seen))
    audits = _distinct(_seen(rows[f"y{n_looks}"])[1]) if has_audit else Distinct(np.empty(0))
    return _DistinctValues(labels, audits, float(missing))


def _distinct(values: NDArray[Any]) -> Distinct:
    found = distinct_labels(values)[: Distinct.most] if values.size else np.empty(0)
    return Distinct(found.astype(np.int64) if found.dtype == np.int8 else found)


def _seen(column: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which rows have a value, and these values."""
    seen = ~not_seen(column)
    values = column[seen]
    return seen, np.array(values.tolist()) if values.dtype.kind == "O" else values


def _coded(X: Any, rows: Rows, means: ColumnCoding) -> dict[str, Any]:
    return {"codes": means.codes(rows)}


def _block_labels_that_count(X: Any, rows: Rows, audit_labels: str) -> dict[str, Any]:
    codes = np.array(rows["codes"])
    codes[:, :-1] = labels_for_likelihood(codes[:, :-1], codes[:, -1], audit_labels)
    return {"codes": codes}


def _any_label(X: Any, rows: Rows, classes: tuple[Any, Any]) -> dict[str, Any]:
    labelled = (rows["codes"][:, :-1] == 1).any(axis=1)
    return {"y": np.where(labelled, classes[1], classes[0])}


def _counted(X: Any, rows: Rows, n_kinds: int) -> dict[str, Any]:
    labels, looks = counts_of(rows["codes"][:, :-1], n_kinds)
    return {"labels": labels, "looks": looks, "audit": rows["codes"][:, -1]}


def _block_codes(X: Any, rows: Rows) -> Codes:
    return np.asarray(rows["codes"])


# --- implausible labels and audits


def warnings_about_looks(labels: Codes, names: tuple[str, ...]) -> list[str]:
    """Return messages about looks that are copies of each other, or that were recorded only if they found a label.

    Examples
    --------
    >>> import numpy as np
    >>> seen = np.array([[1, 1], [0, 0]] * 20, dtype=np.int8)
    >>> warnings_about_looks(seen, ("Ann", "Bob"))[0].split(". ")[0]
    'Ann and Bob are equal in all 40 rows that have both values'
    """
    messages = []
    for k, name in enumerate(names):
        column = labels[:, k]
        found, gaps = int((column == 1).sum()), int((column < 0).sum())
        if found >= MIN_ODD_CELLS and gaps and not (column == 0).any():
            messages.append(
                f"all {found} recorded values of {name} are 1 (labelled), and {gaps} values are missing. If looks that "
                "gave no label were not recorded, the class prior is wrong: use 0 for these looks."
            )
    for i, j in _pairs(labels):
        both = (labels[:, i] >= 0) & (labels[:, j] >= 0)
        first, second = labels[both, i], labels[both, j]
        labelled, differ = int((first | second).sum()), int((first != second).sum())
        if differ > MAX_CORRECTED_SHARE * labelled or labelled < MIN_COPIED_LABELS or labelled == first.size:
            continue
        agree = (
            f"differ in only {differ} of the {labelled} rows that at least one of them labels"
            if differ
            else f"are equal in all {first.size} rows that have both values"
        )
        messages.append(
            f"{names[i]} and {names[j]} {agree}. If one is a copy of the other, the class prior is too low: leave out "
            "the copy."
        )
    return messages


def _pairs(labels: Codes) -> list[tuple[int, int]]:
    """Return pairs of looks to compare: all pairs, or neighbouring looks if there are very many."""
    n_looks = labels.shape[1]
    if n_looks <= MAX_LOOKS_FOR_ALL_PAIRS:
        return list(combinations(range(n_looks), 2))
    return [(k, k + 1) for k in range(n_looks - 1)]


def warnings_about_audits(labels: Codes, audit: Codes) -> list[str]:
    """Return a message if all audits of unlabelled rows are positive, or if nearly all unlabelled rows were audited.

    Examples
    --------
    >>> import numpy as np
    >>> s, a = np.array([[1], [0]] * 20, dtype=np.int8), np.array([-1, 0] * 20, dtype=np.int8)
    >>> warnings_about_audits(s, a)[0].split(". ")[0]
    'all 20 unlabelled rows have an audit (0 positive, 20 negative)'
    """
    unlabelled = ~(labels == 1).any(axis=1)
    found = audit[(audit >= 0) & unlabelled]
    if found.size < MIN_ODD_CELLS:
        return []
    if found.all():
        return [
            f"all {found.size} audits of unlabelled rows are positive. If negative results were not recorded, the "
            "class prior is far too high: use 0 for a negative result (-1 and NaN mark rows that were not audited)."
        ]
    n = int(unlabelled.sum())
    if found.size < max(UNLIKELY_AUDITED_SHARE * n, MIN_AUDITS_OF_NEARLY_ALL):
        return []
    share = f"all {n:,}" if found.size == n else f"{found.size:,} of the {n:,}"
    positive = int(found.sum())
    return [
        f"{share} unlabelled rows have an audit ({positive:,} positive, {found.size - positive:,} negative). If 0 was "
        "filled in for rows that were not audited, the class prior is far too low: use NaN, or an empty cell, for rows "
        "that were not audited. If these audits did take place, the class of nearly every row is known, and an "
        "ordinary classifier is enough."
    ]


def audit_columns(engine: Engine, audit: Codes, names: Any) -> list[str]:
    """Return messages about columns of a dense table that equal the audit in all audited rows."""
    fewest, n_audits = min(int((audit == value).sum()) for value in (0, 1)), int((audit >= 0).sum())
    if fewest < MIN_ODD_CELLS or n_audits < MIN_COPIED_LABELS:
        return []
    (differs,) = engine.total(_block_differs)
    called = [str(j) if names is None else repr(names[j]) for j in np.flatnonzero(differs == 0)]
    return [
        f"column {name} of X equals the audit in all audited rows, so the classifier will only repeat the audit. "
        "Remove this column from X."
        for name in called
    ]


def _block_differs(X: Any, rows: Rows) -> tuple[Any]:
    """Return the number of audited rows in which each column differs from the audit."""
    if sparse.issparse(X):
        return (np.ones(X.shape[1]),)
    checked = np.asarray(rows["audit"]) >= 0
    found = np.asarray(rows["audit"])[checked].astype(X.dtype)[:, None]
    return (np.count_nonzero(np.asarray(X)[checked] != found, axis=0).astype(np.float64),)


# --- checks of functions that accept only models with one label for each row


def looks_of(model: Any) -> Any:
    """Return the look models of a fitted model; None if it was fitted to one label for each row.

    The model may be inside a pipeline, a search or a `TableClassifier`.
    """
    return getattr(getattr(innermost(model), "fitted_pair_", None), "looks", None)


def refuse_looks(model: Any, user: str, *, instead: str) -> None:
    """Raise for models that the function `user` does not support: several looks, false positives, offset or bounds.

    Audits and known values are accepted, because they do not change the meaning of class probability and propensity.
    """
    looks = looks_of(model)
    if looks is None or looks.plain:
        return
    raise ValueError(
        f"{user} needs a model with one label for each row, and without false positives, offset or bounds. This "
        f"{type(innermost(model)).__name__} was fitted with {looks.description}. {instead}"
    )


def refuse_other_looks(model: Any, s: Any, fit_params: dict[str, Any]) -> None:
    """Raise if a refit and the fit differ in the number of looks, or if only one of them has audits."""
    looks, shape = looks_of(model), np.shape(s)
    n_looks, n_audited = (1, 0) if looks is None else (looks.n_looks, looks.n_audited)
    if isinstance(s, str):
        return
    if (shape[1] if len(shape) == 2 else 1) != n_looks:
        raise ValueError(
            f"s has the shape {shape}, but the number of looks in the fit was {n_looks}. Pass the labels of the fit."
        )
    if n_audited and fit_params.get("audit") is None:
        raise ValueError(
            f"The model was fitted with audits (number of audited rows: {n_audited}), so every refit needs them. Pass "
            "fit_params={'audit': audit}."
        )
    if not n_audited and fit_params.get("audit") is not None:
        raise ValueError(
            "fit_params contains audit, but the model was fitted without audits. Leave audit out, or fit the model "
            "again with audits."
        )
