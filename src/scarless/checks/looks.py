"""Labels at several looks, and audits -> codes: 1, 0, and -1 for what did not take place."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.checks.kinds import plain_array
from scarless.checks.labels import LabelCoding, check_labels, is_missing
from scarless.checks.options import shown

Codes = NDArray[np.int8]
NOT_SEEN = -1
AUDIT_LABELS = ("keep", "drop", "undo")


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
