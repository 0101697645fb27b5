"""Labels at several looks, and audits -> codes: 1, 0, and -1 for what did not take place.

In memory they are arrays. In a table whose rows live elsewhere they are columns, read there in a few passes: what comes
here are the values that there are, and codes of a byte each.
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
from scarless.engines.base import Several
from scarless.engines.blocks import Distinct

Codes = NDArray[np.int8]
NOT_SEEN = -1
AUDIT_LABELS = ("keep", "drop", "undo")
MIN_ODD_CELLS = 5  # labels, or audits, of a column before it is called odd
MAX_LOOKS_FOR_ALL_PAIRS = 12  # of more looks, only neighbours are compared
UNLIKELY_AUDITED_SHARE = 0.9  # of rows without a label: audits of so many are hardly meant
MIN_AUDITS_OF_NEARLY_ALL = 20  # before such a share is reported
MIN_COPIED_LABELS = 20  # two looks that miss one positive in ten agree on all of so many in 1 of 50 cases


class CheckedLooks(NamedTuple):
    """A line of codes for each row, one for each look; what labels looked like; names of the looks."""

    labels: Codes
    coding: LabelCoding
    names: tuple[str, ...]


def has_several_looks(y: Any) -> bool:
    """Whether labels are a table: several columns, or one with looks that did not take place.

    Examples
    --------
    >>> has_several_looks([0, 1]), has_several_looks([[0, 1], [1, 0]]), has_several_looks([[0], [1]])
    (False, True, False)
    """
    if y is None or isinstance(y, str):
        return False
    try:
        shape = np.asarray(y).shape if not hasattr(y, "shape") else tuple(y.shape)
    except ValueError:  # lines of unequal length, which those who read one label of each row have words for
        return False
    if len(shape) != 2 or shape[1] == 0 or (sparse.issparse(y) and shape[0] == 1):  # one line: of an older SciPy
        return False
    return shape[1] > 1 or (not sparse.issparse(y) and _misses_looks(_as_table(y)))


def check_looks(y: Any, *, pos_label: Any = None, coding: LabelCoding | None = None, name: str = "y") -> CheckedLooks:
    """Return labels at looks as codes. NaN, None, a mask, and -1 beside 0 and 1 mean that a look did not take place.

    `coding` is that of a fit, for labels of other rows.

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
            f"{name} must have one line for each row and one column for each look; got the shape {table.shape}."
        )
    seen = ~(is_missing(table).reshape(table.shape) if _is_plain_column(table, coding) else not_seen(table))
    values = table[seen]
    if not values.size and coding is None:
        raise ValueError(f"{name} holds no label at all: every look is missing.")
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
    """Return audits as codes: 1 and 0 for rows whose class was checked, -1 for the others.

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
            f"audit has {table.size} values for {n_rows} rows{shape}; give one for each row: 1 or 0 where the class "
            "was checked, and NaN (or -1) elsewhere."
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
            f"audit holds {shown(odd)}; it must be 1 (or True) where the class was checked and is positive, 0 where it "
            "is negative, and NaN, None or -1 where nobody checked."
        )
    return codes


def _refuse_minus_for_no(table: NDArray[Any], values: NDArray[Any], coding: LabelCoding | None) -> None:
    """Raise where -1 seems to be the negative class: beside gaps of another kind, or as labels have it."""
    if values.dtype.kind not in "iufb" or not (values == 1).all() or not not_seen(table).any():
        return
    missing = is_missing(table)
    minus = bool((not_seen(table) & ~missing).any())
    as_labels = coding is not None and coding.classes.dtype.kind in "if" and NOT_SEEN in coding.classes
    if minus and (missing.any() or as_labels):
        raise ValueError(
            "audit holds 1 and -1 and no 0, and -1 means that nobody checked. Code rows that were found to be negative "
            "as 0; where nobody checked, NaN or -1."
        )


def _refuse_two_meanings(values: NDArray[Any], coding: LabelCoding) -> None:
    """Raise where 0 or 1 is a value of labels that means something else there."""
    for place, value in enumerate(coding.classes.tolist()):
        number = isinstance(value, int | float) and value in (0, 1)
        if number and bool(value) != (place == coding.positive) and (values == value).any():
            raise ValueError(
                f"audit holds {value}, which among labels is the value of "
                f"{'positives' if place == coding.positive else 'rows without a label'} (they are "
                f"{coding.classes.tolist()}): it could mean either class. Give audits as True and False, with None "
                "where nobody checked."
            )


def refuse_contradictions(labels: Codes, audit: Codes) -> None:
    """Raise where a row is labelled, its audit says negative, and negatives are said never to be labelled."""
    odd = np.flatnonzero((labels == 1).any(axis=1) & (audit == 0))
    if odd.size:
        raise ValueError(
            f"{odd.size} rows have a label although their audit says negative (first: row {odd[0]}), which cannot be "
            "without false positives. Where nobody checked, audit must be NaN (or -1), not 0. If somebody did, use "
            "false_positive_rate='estimate', or a number."
        )


def labels_that_count(labels: Codes, audit: Codes, audit_labels: str) -> Codes:
    """Return labels without those that audits set: dropped, as if nobody had looked, or undone, as if none was found.

    Examples
    --------
    >>> s, a = np.array([[1], [1], [0]], dtype=np.int8), np.array([-1, 1, 0], dtype=np.int8)
    >>> [labels_that_count(s, a, how).ravel().tolist() for how in AUDIT_LABELS]
    [[1, 1, 0], [1, -1, -1], [1, 0, 0]]
    """
    if audit_labels == "keep":
        return labels
    audited = (audit >= 0)[:, None]
    instead = np.int8(NOT_SEEN) if audit_labels == "drop" else np.minimum(labels, np.int8(0))
    return np.where(audited, instead, labels).astype(np.int8)


def _as_table(values: Any, name: str = "y") -> NDArray[Any]:
    """Return labels as an array; what a mask hides is None."""
    if sparse.issparse(values):
        raise TypeError(
            f"{name} is sparse, and what it does not hold could mean 0 or not looked. Pass {name}.toarray()."
        )
    if isinstance(values, np.ma.MaskedArray):
        plain = values.data.astype(object)
        plain[np.ma.getmaskarray(values)] = None
        return np.asarray(plain)
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    return np.asarray(plain_array(values, name))


def _is_plain_column(table: NDArray[Any], coding: LabelCoding | None) -> bool:
    """Whether -1 in a column of labels is a value of them, as everywhere with one label of each row."""
    if table.shape[1] != 1 or table.dtype.kind not in "if":
        return False
    if coding is not None:
        return coding.classes.dtype.kind in "if" and NOT_SEEN in coding.classes
    return bool(np.isin(table, (NOT_SEEN, 1)).all())


def not_seen(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a look did not take place: missing, or -1."""
    missing = is_missing(table).reshape(table.shape)
    if table.dtype.kind in "if":
        return missing | (table == NOT_SEEN)
    if table.dtype.kind == "O":
        minus = [isinstance(value, int | float | np.number) and value == NOT_SEEN for value in table.ravel().tolist()]
        return missing | np.array(minus, dtype=bool).reshape(table.shape)
    return missing


def _misses_looks(table: NDArray[Any]) -> bool:
    """Whether one column has looks that did not take place; -1 and 1 alone are labels of old."""
    missing = is_missing(table).reshape(table.shape)
    minus = not_seen(table) & ~missing
    return bool(missing.any()) or (bool(minus.any()) and bool((table == 0).any()))


def refuse_minus_one(values: NDArray[Any], name: str) -> None:
    """Raise where all labels are 1 once -1 is left out: someone coded negatives as -1."""
    if values.dtype.kind in "iufb" and (values == 1).all():
        raise ValueError(
            f"{name} holds labels of 1 only, beside looks that did not take place (NaN or -1). In a table of looks -1 "
            "does not mean unlabelled: code looks without a label as 0."
        )


def _names(y: Any) -> list[str] | None:
    columns = getattr(y, "columns", None)
    return None if columns is None else [str(name) for name in columns]


# --- columns of a table whose rows live elsewhere


class LookColumns(NamedTuple):
    """The columns of looks, and of audits where there are any, by their names."""

    looks: tuple[str, ...]
    audit: str | None

    @property
    def all(self) -> Several:
        """All of them, audits last."""
        return Several((*self.looks, *([] if self.audit is None else [self.audit])))


def look_columns(X: Any, y: Any, audit: Any) -> LookColumns | None:
    """Return which columns of a table elsewhere labels and audits are; None where they come otherwise."""
    named = isinstance(y, str) or is_names(y)
    if not has_own_engine(X) or not named or not (audit is None or isinstance(audit, str)):
        return None
    return LookColumns((y,) if isinstance(y, str) else tuple(y), audit)


def is_names(values: Any) -> bool:
    """Whether these are names of columns.

    Examples
    --------
    >>> is_names(["seen_1", "seen_2"]), is_names("seen"), is_names([0, 1])
    (True, False, False)
    """
    return isinstance(values, list | tuple) and bool(values) and all(isinstance(name, str) for name in values)


class ColumnCoding(NamedTuple):
    """What values of the columns mean: the label, and the values of an audit that say positive."""

    n_looks: int
    labels: LabelCoding
    positive: NDArray[Any]
    has_audit: bool

    def codes(self, rows: Rows) -> Codes:
        """Return a line for each row of a block: 1, 0 or -1 at each look, and what an audit found."""
        found = np.full((rows.size, self.n_looks + 1), NOT_SEEN, dtype=np.int8)
        label = self.labels.classes[self.labels.positive : self.labels.positive + 1]
        for k in range(self.n_looks + self.has_audit):
            seen, values = _seen(rows[f"y{k}"])
            found[seen, k] = np.isin(values, label if k < self.n_looks else self.positive)
        return found


class ReadColumns(NamedTuple):
    """Rows that have codes, and the same codes here."""

    engine: Engine
    checked: CheckedLooks
    audit: Codes


def read_columns(
    engine: Engine, columns: LookColumns, *, pos_label: Any = None, coding: LabelCoding | None = None, name: str = "y"
) -> ReadColumns:
    """Find what labels are, and code them, in two passes; `coding` is that of a fit, for other rows.

    The engine's rows get ``codes``, kept where they are.
    """
    n_looks, has_audit = len(columns.looks), columns.audit is not None
    facts = engine.total(_block_values, n_looks, has_audit)
    values = facts.labels.values
    if coding is None:
        if not values.size:
            raise ValueError(f"{name} holds no label at all: every look is missing.")
        if facts.not_seen > 0:
            refuse_minus_one(values, name)
        coding = check_labels(values, pos_label=pos_label)
    else:
        coding.refuse_unknown(values)
    found = check_audit(facts.audits.values, n_rows=facts.audits.values.size, coding=coding)
    means = ColumnCoding(n_looks, coding, facts.audits.values[found == 1], has_audit)
    engine = engine.derive(_coded, means, keep=True)
    codes = engine.collect(_block_codes)
    return ReadColumns(engine, CheckedLooks(codes[:, :n_looks], coding, columns.looks), codes[:, n_looks])


def with_labels_that_count(engine: Engine, audit_labels: str) -> Engine:
    """Return rows whose codes have no labels that audits set."""
    return engine if audit_labels == "keep" else engine.derive(_that_count, audit_labels, keep=True)


def with_any_label(engine: Engine, classes: tuple[Any, Any]) -> Engine:
    """Return rows with ``y``: the second of `classes` where there is a label at some look, else the first."""
    return engine.derive(_any_label, classes)


def with_counts(engine: Engine, n_kinds: int) -> Engine:
    """Return rows with how many labels and looks of each kind they have, and with audits."""
    return engine.derive(_counted, n_kinds)


def counts_of(labels: Codes, n_kinds: int) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """Return how many labels, and how many looks, each row has of each kind: all of one, or each of its own."""
    if n_kinds == labels.shape[1]:
        return np.asarray(labels == 1, dtype=np.int8), np.asarray(labels >= 0, dtype=np.int8)
    # More than 127 looks are beyond the codes' own type.
    found, seen = (np.asarray(each).sum(axis=1, dtype=np.int32) for each in (labels == 1, labels >= 0))
    return found[:, None], seen[:, None]


class _Values(NamedTuple):
    labels: Distinct
    audits: Distinct
    not_seen: Any


def _block_values(X: Any, rows: Rows, n_looks: int, has_audit: bool) -> _Values:
    labels, missing = Distinct(np.empty(0)), 0
    for k in range(n_looks):
        seen, values = _seen(rows[f"y{k}"])
        labels, missing = labels + _distinct(values), missing + int(np.count_nonzero(~seen))
    audits = _distinct(_seen(rows[f"y{n_looks}"])[1]) if has_audit else Distinct(np.empty(0))
    return _Values(labels, audits, float(missing))


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


def _that_count(X: Any, rows: Rows, audit_labels: str) -> dict[str, Any]:
    codes = np.array(rows["codes"])
    codes[:, :-1] = labels_that_count(codes[:, :-1], codes[:, -1], audit_labels)
    return {"codes": codes}


def _any_label(X: Any, rows: Rows, classes: tuple[Any, Any]) -> dict[str, Any]:
    labelled = (rows["codes"][:, :-1] == 1).any(axis=1)
    return {"y": np.where(labelled, classes[1], classes[0])}


def _counted(X: Any, rows: Rows, n_kinds: int) -> dict[str, Any]:
    labels, looks = counts_of(rows["codes"][:, :-1], n_kinds)
    return {"labels": labels, "looks": looks, "audit": rows["codes"][:, -1]}


def _block_codes(X: Any, rows: Rows) -> Codes:
    return np.asarray(rows["codes"])


# --- what labels and audits show to be odd before any model sees them


def doubts_of_looks(labels: Codes, names: tuple[str, ...]) -> list[str]:
    """Return, in words, which looks are copies of each other, and which seem to be written down only if they found.

    Examples
    --------
    >>> import numpy as np
    >>> seen = np.array([[1, 1], [0, 0]] * 20, dtype=np.int8)
    >>> doubts_of_looks(seen, ("Ann", "Bob"))[0].split(". ")[0]
    'Ann and Bob are the same in all 40 rows that have both'
    """
    told = []
    for k, name in enumerate(names):
        column = labels[:, k]
        found, gaps = int((column == 1).sum()), int((column < 0).sum())
        if found >= MIN_ODD_CELLS and gaps and not (column == 0).any():
            told.append(
                f"each of the {found} looks of {name} that took place found a label, and {gaps} did not take place. If "
                "only findings were written down, the class prior is wrong: code looks without a label as 0."
            )
    for i, j in _pairs(labels):
        both = (labels[:, i] >= 0) & (labels[:, j] >= 0)
        if (both & (labels[:, i] != labels[:, j])).any():
            continue
        first = labels[both, i]
        if (first == 1).sum() >= MIN_COPIED_LABELS and (first == 0).any():
            told.append(
                f"{names[i]} and {names[j]} are the same in all {first.size} rows that have both. If one is a "
                "copy of the other it is no second look, and the class prior is too low with it: leave it out."
            )
    return told


def _pairs(labels: Codes) -> list[tuple[int, int]]:
    """Return looks to compare: all pairs, or, of very many looks, those next to each other."""
    n_looks = labels.shape[1]
    if n_looks <= MAX_LOOKS_FOR_ALL_PAIRS:
        return list(combinations(range(n_looks), 2))
    return [(k, k + 1) for k in range(n_looks - 1)]


def doubts_of_audits(labels: Codes, audit: Codes) -> list[str]:
    """Return, in words, that no audit of a row without a label found a negative, or that nearly all rows have one.

    Examples
    --------
    >>> import numpy as np
    >>> s, a = np.array([[1], [0]] * 20, dtype=np.int8), np.array([-1, 0] * 20, dtype=np.int8)
    >>> doubts_of_audits(s, a)[0].split(". ")[0]
    'all 20 rows without a label have an audit (0 positive, 20 negative)'
    """
    unlabelled = ~(labels == 1).any(axis=1)
    found = audit[(audit >= 0) & unlabelled]
    if found.size < MIN_ODD_CELLS:
        return []
    if found.all():
        return [
            f"all {found.size} audits of rows without a label are positive. If negative findings were not written "
            "down, the class prior is far too high: code them as 0 (-1 and NaN mean that nobody checked)."
        ]
    n = int(unlabelled.sum())
    if found.size < max(UNLIKELY_AUDITED_SHARE * n, MIN_AUDITS_OF_NEARLY_ALL):
        return []
    share = f"all {n:,}" if found.size == n else f"{found.size:,} of the {n:,}"
    positive = int(found.sum())
    return [
        f"{share} rows without a label have an audit ({positive:,} positive, {found.size - positive:,} negative). If 0 "
        "stands where nobody checked (np.nan_to_num, an empty cell that was read as 0), the class prior is far too "
        "low: leave NaN, or an empty cell, there. If all of them were checked, their class is known, and a plain "
        "classifier of it needs no model of the labelling."
    ]


def audit_columns(engine: Engine, audit: Codes, names: Any) -> list[str]:
    """Return, in words, which columns of a dense table are the audit itself: in all rows that were checked."""
    fewest, n_audits = min(int((audit == value).sum()) for value in (0, 1)), int((audit >= 0).sum())
    if fewest < MIN_ODD_CELLS or n_audits < MIN_COPIED_LABELS:
        return []
    (differs,) = engine.total(_block_differs)
    called = [str(j) if names is None else repr(names[j]) for j in np.flatnonzero(differs == 0)]
    return [
        f"column {name} of X is the audit itself in all rows that were checked: the classifier will only repeat "
        "it. Leave it out of X."
        for name in called
    ]


def _block_differs(X: Any, rows: Rows) -> tuple[Any]:
    """Return in how many checked rows each column is not the audit."""
    if sparse.issparse(X):
        return (np.ones(X.shape[1]),)
    checked = np.asarray(rows["audit"]) >= 0
    found = np.asarray(rows["audit"])[checked].astype(X.dtype)[:, None]
    return (np.count_nonzero(np.asarray(X)[checked] != found, axis=0).astype(np.float64),)


# --- models that were fitted with more than one label of each row, in places that know of one


def looks_of(model: Any) -> Any:
    """Return what a fitted model remembers of several looks, audits and facts; None where it had one label of each row.

    Also of one inside a pipeline, a search or a prepared table.
    """
    return getattr(getattr(innermost(model), "fitted_pair_", None), "looks", None)


def refuse_looks(model: Any, user: str, *, instead: str) -> None:
    """Raise for a model that `user` would misread.

    Where the labels are one look of each row without false positives, audits and facts make the fit better and change
    nothing of what it means: such models are let through.
    """
    looks = looks_of(model)
    if looks is None or looks.plain:
        return
    raise ValueError(
        f"{user} is for models of one label of each row, and this {type(innermost(model)).__name__} was fitted with "
        f"{looks.told}. {instead}"
    )


def refuse_other_looks(model: Any, s: Any, fit_params: dict[str, Any]) -> None:
    """Raise where labels or audits that a model is to be fitted to again are not of the kind that it was fitted to."""
    looks, shape = looks_of(model), np.shape(s)
    n_looks, n_audited = (1, 0) if looks is None else (looks.n_looks, looks.n_audited)
    if isinstance(s, str):
        return
    if (shape[1] if len(shape) == 2 else 1) != n_looks:
        raise ValueError(
            f"s has the shape {shape}, and the model was fitted to {n_looks} looks; give the labels of its fit."
        )
    if n_audited and fit_params.get("audit") is None:
        raise ValueError(
            f"The model was fitted with {n_audited} audits, and would be fitted again without: pass "
            "fit_params={'audit': audit}."
        )
    if not n_audited and fit_params.get("audit") is not None:
        raise ValueError(
            "fit_params holds audits, and the model was fitted without any; leave them out, or fit it anew."
        )
