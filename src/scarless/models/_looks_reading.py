"""Labels at looks, and audits, as a model gets them: values in memory, or columns of rows that live elsewhere."""

from typing import Any

import numpy as np

from scarless.checks.labels import LabelCoding
from scarless.checks.looks import (
    AUDIT_LABELS,
    CheckedLooks,
    Codes,
    LookColumns,
    check_audit,
    check_looks,
    doubts_of_audits,
    doubts_of_looks,
    labels_that_count,
    look_columns,
    read_columns,
    refuse_contradictions,
    with_any_label,
    with_counts,
    with_labels_that_count,
)
from scarless.checks.options import check_choice
from scarless.checks.rows import OpenedRows, ReadLabels, check_rows, named_values, warn_of_row_order
from scarless.engines import Engine, attach, open_rows
from scarless.models._looks_design import Looks, LooksDesign, any_label, by_name, listed, names_several
from scarless.numerics.arrays import Array


class LooksReading(LooksDesign):
    """The part of a classifier that reads labels and audits."""

    _looks: Looks | None = None
    _doubted: tuple[str, ...] = ()  # of labels and audits, before any fit

    def _read_anywhere(
        self, X: Any, y: Any, sample_weight: Any, audit: Any
    ) -> tuple[CheckedLooks, Codes, ReadLabels | OpenedRows]:
        """Return labels and audits as codes, and what to open the rows with: whether each has any label."""
        columns = look_columns(X, y, audit)
        if columns is None:
            checked, codes = self._read_looks(X, y, audit)
            return checked, codes, ReadLabels(any_label(checked, self.pos_label))  # words are told of once
        engine, checked, codes = read_columns(
            open_rows(X, columns.all, sample_weight), columns, pos_label=self.pos_label
        )
        checked = self._refuse_odd_looks(checked, codes)
        any_label(checked, self.pos_label)
        engine = with_labels_that_count(engine, self._said.audit_labels)
        engine = with_any_label(engine, _two_values(checked.coding, self.pos_label))
        return checked, codes, OpenedRows(engine)

    def _read_looks(self, X: Any, y: Any, audit: Any) -> tuple[CheckedLooks, Codes]:
        """Return labels and audits as codes; of a table in files, by the names of their columns."""
        if names_several(X, y):
            names = tuple(y)
            y = np.stack([named_values(X, name, labels=True, gaps=True) for name in names], axis=1)
            checked = check_looks(y, pos_label=self.pos_label)._replace(names=names)
        else:
            checked = check_looks(named_values(X, y, labels=True, gaps=True), pos_label=self.pos_label)
            warn_of_row_order(X, y=y)
        codes = check_audit(
            named_values(X, audit, labels=True, gaps=True), n_rows=len(checked.labels), coding=checked.coding
        )
        warn_of_row_order(X, audit=audit)
        return self._refuse_odd_looks(checked, codes), codes

    def _refuse_odd_looks(self, checked: CheckedLooks, audit: Codes) -> CheckedLooks:
        """Raise where labels and audits contradict each other, or nothing tells false positives from true ones.

        What is odd, and may be, is remembered. Returned are the labels that count: not those that audits set.
        """
        labels, how = checked.labels, self._said.audit_labels
        check_choice(how, "audit_labels", AUDIT_LABELS)
        if how != "keep" and not (audit >= 0).any():
            raise ValueError(
                f"audit_labels={how!r} says what the labels of audited rows mean, and no row was "
                "audited: pass fit(X, s, audit=audit), or leave audit_labels at 'keep'."
            )
        if not any(isinstance(each, str) or each != 0 for each in listed(self._said.false_positive_rate)):
            refuse_contradictions(labels, audit)
        labels = labels_that_count(labels, audit, how)
        if not (labels == 1).any() and (checked.labels == 1).any():
            raise ValueError(
                f"audit_labels={how!r} leaves no label: all labelled rows were audited. The labelling "
                "cannot be learned without labels of other rows."
            )
        estimated = any(isinstance(each, str) for each in listed(self._said.false_positive_rate))
        if estimated and labels.shape[1] == 1 and not ((labels[:, 0] == 1) & (audit >= 0)).any():
            raise ValueError(
                "false_positive_rate='estimate' with one look of each row: only audits of labelled rows tell false "
                "positives from true ones, and there are none. Audit some labelled rows, add a second look, or give "
                "the rate as a number."
            )
        self._doubted = (*doubts_of_looks(labels, checked.names), *doubts_of_audits(labels, audit))
        return checked._replace(labels=labels)

    def _rows_with_looks(self, X: Any, y: Any, audit: Any, name: str = "s") -> Engine:
        """Return rows with labels, looks and audits, for a fitted model."""
        X, y, audit = by_name(X, y, audit)
        columns = look_columns(X, y, audit)
        if columns is not None:
            return self._named_looks_again(check_rows(self, X, columns.all), columns, name)
        engine = check_rows(self, X)
        labels, seen, codes = self._looks_again(X, y, audit, engine.n_rows, name)
        return attach(engine, labels=labels, looks=seen, audit=codes, w=np.ones(engine.n_rows))

    def _named_looks_again(self, engine: Engine, columns: LookColumns, name: str) -> Engine:
        looks = self._looks
        assert looks is not None
        if len(columns.looks) != looks.n_looks:
            raise ValueError(
                f"{name} names {len(columns.looks)} columns; the model was fitted to {looks.n_looks} looks: name one "
                "for each of them."
            )
        refuse_other_order(tuple(columns.looks), looks.names, name)
        engine, checked, codes = read_columns(engine, columns, coding=self._coding, name=name)
        if looks.objective.false_positives is None:
            refuse_contradictions(checked.labels, codes)
        return with_counts(engine, looks.objective.n_kinds).derive(_weights_of_one)

    def _looks_again(self, X: Any, y: Any, audit: Any, n_rows: int, name: str) -> tuple[Array, Array, Codes]:
        """Return labels and looks, by their kinds, and audits of rows, for a fitted model."""
        looks = self._looks
        assert looks is not None
        if names_several(X, y):
            y = np.stack([named_values(X, each, labels=True, gaps=True) for each in y], axis=1)
        checked = check_looks(named_values(X, y, labels=True, gaps=True), coding=self._coding, name=name)
        if checked.labels.shape != (n_rows, looks.n_looks):
            raise ValueError(
                f"{name} has the shape {checked.labels.shape}; the model was fitted to {looks.n_looks} looks, and X "
                f"has {n_rows} rows: give one line for each row, one column for each look."
            )
        refuse_other_order(checked.names, looks.names, name)
        warn_of_row_order(X, **{name: y})
        codes = check_audit(named_values(X, audit, labels=True, gaps=True), n_rows=n_rows, coding=self._coding)
        if looks.objective.false_positives is None:
            refuse_contradictions(checked.labels, codes)
        return *looks.counts(checked.labels), codes


def refuse_other_order(names: tuple[str, ...], known: tuple[str, ...], name: str) -> None:
    """Raise where looks have the names of the fit in another order: they are taken by position."""
    if sorted(names) == sorted(known) and names != known:
        raise ValueError(
            f"{name} has the looks {', '.join(names)}, and the fit had them in the order {', '.join(known)}: looks are "
            f"taken by position. Pass {name}[{list(known)}]."
        )


def _two_values(coding: LabelCoding, pos_label: Any) -> tuple[Any, Any]:
    """Return the values of rows without and with a label, as `any_label` gives them."""
    if pos_label is None:
        return 0, 1
    return coding.classes[1 - coding.positive], coding.classes[coding.positive]


def _weights_of_one(X: Any, rows: Any) -> dict[str, Array]:
    return {"w": np.ones(rows.size)}
