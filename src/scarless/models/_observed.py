"""What was observed, as a fit gets it: labels at looks, audits, and what each model sees at each look.

Values are in memory, or columns of rows that live elsewhere.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from scarless.checks.labels import LabelCoding
from scarless.checks.looks import (
    AUDIT_LABELS,
    CheckedLooks,
    Codes,
    LookColumns,
    check_audit,
    check_looks,
    counts_of,
    doubts_of_audits,
    doubts_of_looks,
    is_names,
    labels_that_count,
    look_columns,
    read_columns,
    refuse_contradictions,
    with_any_label,
    with_counts,
    with_labels_that_count,
)
from scarless.checks.options import check_choice, check_flag, real_number, shown
from scarless.checks.rows import LabelledRows, OpenedRows, ReadLabels, check_rows, named_values, warn_of_row_order
from scarless.engines import Engine, attach, has_own_engine, open_rows
from scarless.engines.base import known_rows
from scarless.engines.blocks import Units
from scarless.models._pair import PairClassifier
from scarless.numerics.arrays import Array
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import PairObjective
from scarless.pair.facts import Fact, Labelling, check_labelling
from scarless.pair.problem import PairProblem, what_is_seen

_LARGEST_RATE = 0.5


class Looks(NamedTuple):
    """What a fit to several looks has to remember."""

    n_looks: int
    names: tuple[str, ...]
    kinds: NDArray[np.intp]  # of each look
    visits: dict[str, NDArray[np.intp]]  # the columns of each visit attribute, one for each look
    objective: PairObjective
    n_audited: int

    @property
    def taken(self) -> NDArray[np.intp]:
        """The columns that belong to single looks."""
        return np.concatenate([np.arange(0), *self.visits.values(), self.objective.offsets or ()]).astype(np.intp)

    @property
    def plain(self) -> bool:
        """Whether labels mean what one label of each row does: one look, and none of a negative."""
        usual = self.objective.offsets is None and self.objective.bounds is None and not self.visits
        return usual and self.n_looks == 1 and self.objective.false_positives is None

    @property
    def told(self) -> str:
        """What the fit had to go by beside one label of each row, in words."""
        parts = [f"{self.n_looks} looks"] if self.n_looks > 1 else []
        parts += ["visit_attributes"] if self.visits else []
        parts += ["an offset"] if self.objective.offsets is not None else []
        parts += ["bounds"] if self.objective.bounds is not None else []
        parts += ["false positives"] if self.objective.false_positives is not None else []
        parts += [f"{self.n_audited} audits"] if self.n_audited else []
        return " and ".join(parts) if parts else "facts from elsewhere, or looks that did not take place"

    def counts(self, labels: Codes) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Return how many labels, and how many looks, each row has of each kind."""
        return counts_of(labels, self.objective.n_kinds)


class LooksRows(NamedTuple):
    """Checked rows with labels at looks and audits, the models, and facts."""

    rows: LabelledRows
    labels: Codes
    audit: Codes
    looks: Looks
    facts: tuple[Fact, ...]

    def problem(self, C: float, propensity_C: float) -> PairProblem:
        """Return what is to be fitted."""
        (engine, _, totals), looks = self.rows, self.looks
        seen = what_is_seen(engine, looks.objective)
        return PairProblem(engine, totals, looks.objective, C, propensity_C, None, self.facts, seen)


class LooksDesign(PairClassifier):
    """The models of several looks, from the parameters of a classifier."""

    labelling: Any

    @property
    def _said(self) -> Labelling:
        """What is said of the labelling beyond its attributes."""
        return check_labelling(self.labelling)

    def _design_looks(self, X: Any, checked: CheckedLooks, audit: Codes) -> Looks:
        """Return the models: what each sees, at each look."""
        check_flag(self._said.shared, "shared")
        n_looks = checked.labels.shape[1]
        visits, offsets = self._visit_columns(X, n_looks), self._offset_columns(X, n_looks)
        taken = np.concatenate([np.arange(0), *visits.values(), offsets])
        f_chosen = getattr(self, "classification_attributes", None)  # a search has sets of them
        f_columns = self._columns(X, f_chosen, "classification_attributes")
        e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        for chosen, columns, parameter in (
            (f_chosen, f_columns, "classification_attributes"),
            (self.propensity_attributes, e_columns, "propensity_attributes"),
        ):
            named = chosen is not None and not isinstance(chosen, str)
            if named and np.isin(columns, taken).any():
                raise ValueError(
                    f"{parameter} names columns that are visit_attributes, or offset, of the labelling too; these "
                    "belong to single looks, and are seen by the propensity of their look only."
                )
        f = Design.of(np.setdiff1d(f_columns, taken) if taken.size else f_columns)
        e_columns = np.setdiff1d(e_columns, taken) if taken.size else e_columns
        per_look = [np.concatenate([e_columns, [columns[k] for columns in visits.values()]]) for k in range(n_looks)]
        designs = [Design.of(columns.astype(np.intp)) for columns in per_look]
        one_kind = self._said.shared and not visits and np.unique(offsets).size <= 1
        if one_kind:
            models: tuple[tuple[Design, ...], ...] = ((designs[0],),)
        else:
            models = (tuple(designs),) if self._said.shared else tuple((design,) for design in designs)
        kinds = np.zeros(n_looks, dtype=np.intp) if one_kind else np.arange(n_looks)
        self._f_columns, self._e_columns = f.indices, e_columns
        rates = self._false_positives(1 if one_kind else n_looks, n_looks)
        added = tuple(int(column) for column in offsets[: 1 if one_kind else n_looks]) or None
        objective = LooksLikelihood(f, models, rates, added, check_bounds(self._said.bounds))
        n_audited = int(np.count_nonzero(audit >= 0))
        return Looks(n_looks, checked.names, kinds, visits, objective, n_audited)

    def _visit_columns(self, X: Any, n_looks: int) -> dict[str, NDArray[np.intp]]:
        given = self._said.visit_attributes
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise ValueError(
                f"visit_attributes must be a dict of names and columns, one column for each look, as "
                f"{{'effort': ['effort_1', 'effort_2']}}; got {shown(given)}."
            )
        found = {}
        for name, columns in given.items():
            if isinstance(columns, str) or not np.iterable(columns):
                raise ValueError(
                    f"visit_attributes[{name!r}] must be a list of columns, one for each look; got {shown(columns)}."
                )
            places = [self._columns(X, [column], "visit_attributes") for column in columns]
            if len(places) != n_looks or any(place.size != 1 for place in places):
                raise ValueError(
                    f"visit_attributes[{name!r}] has {_columns(len(places))}, and labels have {n_looks} looks: give "
                    "one column for each look, in their order."
                )
            found[str(name)] = np.concatenate(places).astype(np.intp)
            if n_looks > 1 and np.unique(found[str(name)]).size == 1:
                raise ValueError(
                    f"visit_attributes[{name!r}] names one column for all {n_looks} looks: what is the same at every "
                    "look is an attribute of the row. Name it among propensity_attributes; the classifier may see it "
                    "then too."
                )
        return found

    def _offset_columns(self, X: Any, n_looks: int) -> NDArray[np.intp]:
        """Return the column that is added to the logit of each look's propensity; none where there is none."""
        given = self._said.offset
        if given is None:
            return np.arange(0)
        several = np.iterable(given) and not isinstance(given, str)
        columns = [self._columns(X, [column], "offset") for column in (given if several else [given])]
        if len(columns) not in (1, n_looks) or any(column.size != 1 for column in columns):
            raise ValueError(
                f"offset has {_columns(len(columns))}, and labels have {n_looks} looks: give one column, or "
                "one for each look."
            )
        return np.resize(np.concatenate(columns), n_looks).astype(np.intp)

    def _refuse_units(self, units: Units | None, looks: Looks) -> None:
        """Raise where columns of one visit attribute would be centred and scaled apart: they share a coefficient."""
        offsets = list(looks.objective.offsets or ())
        if units is not None and (units.shift[offsets].any() or (units.scale[offsets] != 1).any()):
            raise ValueError(
                "offset is a column that lies farther from 0 than 1e5 times its spread, or has entries "
                "below 1e-100 only: as a part of a logit that cannot be meant."
            )
        if units is None or len(looks.objective.models) > 1:
            return
        for name, columns in looks.visits.items():
            if np.ptp(units.shift[columns]) > 0 or np.ptp(units.scale[columns]) > 0:
                raise ValueError(
                    f"visit_attributes[{name!r}] holds a column that lies farther from 0 than 1e5 times its spread, or "
                    "has entries below 1e-100 only. Centre and scale all of its columns by the same numbers first."
                )

    def _false_positives(self, n_kinds: int, n_looks: int) -> Any:
        rate = self._said.false_positive_rate
        if isinstance(rate, str):
            if rate != "estimate":
                raise ValueError(
                    f"false_positive_rate must be a number, one for each look, or 'estimate'; got {rate!r}."
                )
            return "shared" if self._said.shared else "own"
        open_ones = [isinstance(each, str) and each == "estimate" for each in listed(rate)]
        rates = np.array(
            [0.0 if sure else real_number(each) for each, sure in zip(listed(rate), open_ones, strict=True)]
        )
        if not ((rates >= 0) & (rates < _LARGEST_RATE)).all():
            raise ValueError(
                f"false_positive_rate must lie in [0, {_LARGEST_RATE}): the share of negatives that a look labels; got "
                f"{shown(rate)}."
            )
        if rates.size not in (1, n_looks):
            raise ValueError(
                f"false_positive_rate has {rates.size} numbers, and labels have {n_looks} looks: give one, or one for "
                "each."
            )
        if not rates.any() and not any(open_ones):
            return None
        if rates.size > n_kinds and (np.ptp(rates) > 0 or 0 < sum(open_ones) < len(open_ones)):
            raise ValueError(
                "false_positive_rate differs between looks that share one propensity and no visit attribute. Use "
                "Labelling(shared=False)."
            )
        # A rate of 0 beside others: less than one in 10^9 labels.
        known = np.where(open_ones, np.nan, logit(np.maximum(rates, 1e-9)))
        return np.asarray(np.resize(known, n_kinds))


def check_bounds(bounds: Any) -> tuple[float, float] | None:
    """Return the bounds of propensities as numbers; None where there are none.

    Examples
    --------
    >>> check_bounds((0.2, 1)), check_bounds((0, 1))
    ((0.2, 1.0), None)
    """
    if bounds is None:
        return None
    ends = [real_number(each) for each in bounds] if np.iterable(bounds) and not isinstance(bounds, str) else []
    if len(ends) != 2 or not 0.0 <= ends[0] < ends[1] <= 1.0:
        raise ValueError(
            f"bounds must be the least and the largest propensity there may be, as (0.2, 1); got {shown(bounds)}."
        )
    return None if ends == [0.0, 1.0] else (ends[0], ends[1])


def listed(rate: Any) -> list[Any]:
    """Return rates one by one; a single one stands for all."""
    return list(rate) if np.iterable(rate) and not isinstance(rate, str) else [rate]


def any_label(checked: CheckedLooks, pos_label: Any) -> Array:
    """Return, 0 or 1 or in the user's own coding, whether a row has a label at any of its looks."""
    labelled = (checked.labels == 1).any(axis=1)
    if labelled.all():
        raise ValueError(
            f"Each of the {labelled.size} rows has a label at some look. What an unlabelled row is like cannot be "
            "learned then: give rows without any label too, or fewer looks."
        )
    return labelled.astype(np.int64) if pos_label is None else checked.coding.decode(labelled)


def attributes_only(X: Any, *others: Any) -> Any:
    """Return a table whose rows live elsewhere without the columns that are labels, weights or audits."""
    if not has_own_engine(X) or not hasattr(X, "select"):
        return X
    taken = {name for each in others for name in ([each] if isinstance(each, str) else each if is_names(each) else [])}
    return X.select([name for name in X.column_names if name not in taken])


def names_several(X: Any, y: Any) -> bool:
    """Whether labels are named columns of a table whose rows live elsewhere."""
    return has_own_engine(X) and is_names(y)


def by_name(X: Any, y: Any, audit: Any) -> tuple[Any, Any, Any]:
    """Return rows that are known, with labels and audits by name; frames of Dask are put beside their table.

    Anything else is returned as it came.
    """
    X = known_rows(X)
    if not hasattr(X, "and_columns") or not any(hasattr(each, "__dask_graph__") for each in (y, audit)):
        return X, y, audit
    added: dict[str, Any] = {}
    for each, role in ((y, "label"), (audit, "audit")):
        if not hasattr(each, "__dask_graph__"):
            continue
        if each.ndim == 2 and hasattr(each, "columns"):
            added |= {str(column): each[column] for column in each.columns}
        else:
            name = str(getattr(each, "name", None) or role)
            added[f"{name} ({role})" if name in added else name] = each
    names = list(added)
    if hasattr(audit, "__dask_graph__"):
        audit = names.pop()
    if hasattr(y, "__dask_graph__"):
        y = names if y.ndim == 2 else names[0]
    return X.and_columns(added), y, audit


def _columns(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


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
        labels, codes = self._codes_again(X, y, audit, n_rows, name)
        assert self._looks is not None
        return *self._looks.counts(labels), codes

    def _codes_again(self, X: Any, y: Any, audit: Any, n_rows: int, name: str) -> tuple[Codes, Codes]:
        """Return labels at looks, and audits, of rows as codes, for a fitted model."""
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
        return checked.labels, codes


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
