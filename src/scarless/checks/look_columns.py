"""Looks and audits that are columns of a table whose rows live elsewhere: read there, and told of in a few passes.

What comes here are the values that there are, and codes of a byte each; rows themselves, and what belongs to them in a
fit, stay where they are.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.labels import LabelCoding, check_labels, distinct_labels
from scarless.checks.looks import (
    NOT_SEEN,
    CheckedLooks,
    Codes,
    check_audit,
    labels_that_count,
    not_seen,
    refuse_minus_one,
)
from scarless.engines import Engine, Rows, has_own_engine
from scarless.engines.base import Several
from scarless.engines.joins import Distinct


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
