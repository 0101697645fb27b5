"""Sums over the rows of each group: from arrays in memory, or in the engine for rows in files."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import opened
from scarless.checks.looks import looks_of
from scarless.checks.options import shown
from scarless.diagnostics.audits._reading import AuditRows, read_audit_rows
from scarless.diagnostics.grouping import Grouping, UnusableGroups, has_columns_in_files
from scarless.engines.base import known_rows
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import NaiveClassifier, PropensityWeightedClassifier
from scarless.models.inspection import any_label_probability, draw_group_sums, group_totals, is_pair
from scarless.models.pair import refuse_wrapped
from scarless.numerics.arrays import Integers, Matrix, Vector
from scarless.outside.notices import listed
from scarless.pair.constraints import labelling_of
from scarless.pair.fitted import GroupSums, GroupTotals
from scarless.pair.logistic import all_labelled


class GroupLayout(NamedTuple):
    """All groups, numbered across the columns that define them."""

    by: tuple[str, ...]
    names: tuple[str, ...]
    codes: Integers  # number of each row's group, a column for each division of the rows
    division: Integers  # division that each group belongs to
    reference: Integers  # group that each group is compared with; -1 for all other rows

    @classmethod
    def of(cls, groupings: list[Grouping], reference: str) -> "GroupLayout":
        """Number the groups; `reference` is the name of a group, or "" to compare with all other rows."""
        if not isinstance(reference, str):
            raise TypeError(f"reference must be the name of a group as text; got {shown(reference)}.")
        sizes = [len(each.names) for each in groupings]
        first = np.cumsum([0, *sizes[:-1]])
        names = tuple(name for each in groupings for name in each.names)
        division = np.repeat(np.arange(len(sizes)), sizes)
        places = np.full(len(names), -1, dtype=np.intp)
        for k, each in enumerate(groupings):
            if reference and reference not in each.names:
                raise ValueError(
                    f"reference: {each.by!r} has no group {reference!r}. Its groups are {listed(each.names, 10)}."
                )
            if reference:
                places[division == k] = first[k] + each.names.index(reference)
        codes = np.column_stack([np.int32(start) + each.codes for each, start in zip(groupings, first, strict=True)])
        by = tuple(each.by for each in groupings for _ in each.names)
        return cls(by, names, codes, division, places)

    def sums(self, values: Any) -> Vector:
        """Return the sum of the values of each group."""
        n = len(self.names)
        return np.sum([np.bincount(column, weights=values, minlength=n) for column in self.codes.T], axis=0)

    def column_sums(self, values: Matrix) -> Matrix:
        """Return the sums of the columns of a matrix, one row for each group."""
        return np.column_stack([self.sums(each) for each in values.T])

    def total(self, sums: Matrix) -> Matrix:
        """Return the sum over all rows, as one column, from sums of shape (n_draws, n_groups)."""
        return sums[:, self.division == 0].sum(axis=1, keepdims=True)

    def others(self, sums: Matrix) -> Matrix:
        """Return the sums of the rows that each group is compared with."""
        of_division = np.stack([sums[:, self.division == k].sum(axis=1) for k in range(self.codes.shape[1])], axis=1)
        rest = of_division[:, self.division] - sums
        return np.where(self.reference >= 0, sums[:, self.reference], np.maximum(rest, 0.0))


# --- sums


class ReadGroups(NamedTuple):
    """Sums over the rows of each group."""

    model: Any  # the classifier itself, without its pipeline
    totals: GroupTotals
    draws: GroupSums | None  # None if the model has no standard errors
    n_labelled: int  # number of labelled rows
    n_looks: int
    has_audits: bool  # whether any row was audited
    data: AuditRows | None = None  # values of each row; None for rows in files

    @property
    def is_informative(self) -> bool:
        """Whether the fit has information on positives without a label; see `YieldCurve`."""
        frequency = getattr(self.model, "label_frequency_", None)
        given = self.has_audits or getattr(self.model, "known", None) or self.n_looks > 1
        return bool(given) or frequency is None or not np.isfinite(frequency) or not all_labelled(float(frequency))


class GroupReader(NamedTuple):
    """Labels, audits, groups and weights of rows, and the number of draws."""

    s: Any
    audit: Any
    layout: GroupLayout
    weight: Vector
    n_draws: int
    rng: np.random.Generator

    def read(self, estimator: Any, X: Any, propensity: Any, *, each_row: bool) -> ReadGroups:
        """Return the sums of each group; with `each_row`, also the values of each row.

        Rows in files are added up by the engine, without arrays of probabilities in memory. Other rows, and rows whose
        values are needed, are read into memory.
        """
        if has_columns_in_files(X) and hasattr(estimator, "fit") and propensity is None and not each_row:
            check_is_fitted(estimator)
            refuse_wrapped(estimator)
            model, prepare = opened(estimator)
            if is_pair(model) and labelling_of(model).audit_labels == "keep":
                return self._from_files(model, known_rows(prepare(X)))
        found = self._from_memory(read_audit_rows(estimator, X, self.s, self.audit), propensity)
        return found if each_row else found._replace(data=None)

    def _from_files(self, model: Any, prepared: Any) -> ReadGroups:
        looks, given = looks_of(model), (model, prepared, self.s, self.audit, self.layout.codes, self.weight)
        draws = draw_group_sums(*given, self.n_draws, self.rng)
        return self._checked(model, group_totals(*given), draws, 1 if looks is None else looks.n_looks)

    def _from_memory(self, data: AuditRows, propensity: Any) -> ReadGroups:
        model, layout, count = data.estimator, self.layout, self.weight
        _refuse_without_propensity(model, propensity)
        how, labels = labelling_of(model).audit_labels, self.s
        if how != "keep" and data.audited.any():
            # The labels of audited rows are findings of the audits, which the likelihood leaves out. With "undo", these
            # rows had no label before. With "drop", it is unknown whether they had one, so they are not counted.
            labels = _labels_of_likelihood(data)
            count = np.where(data.audited, 0.0, count) if how == "drop" else count
        draws = draw_group_sums(model, data.X, labels, self.audit, layout.codes, count, self.n_draws, self.rng)
        f = 0.0 if draws is None else class_probability(model, data.X, coding_of(model))
        e = 0.0 if draws is None else propensity_of(data)
        q = _posterior(data, self.s, propensity)
        totals = GroupTotals.of(layout.column_sums, count, q, data.labelled, data.audited, f, e)
        found = self._checked(model, totals, draws, data.labels.shape[1])
        return found._replace(data=data, has_audits=bool(data.audited.any()))

    def _checked(self, model: Any, totals: GroupTotals, draws: GroupSums | None, n_looks: int) -> ReadGroups:
        """Return the sums, or raise if the groups of a column are the labelled and the unlabelled rows."""
        layout = self.layout
        for k, by in enumerate(dict.fromkeys(layout.by)):
            here = (layout.division == k) & (totals.rows > 0)
            labelled, rows = totals.labelled_rows[here], totals.rows[here]
            if ((labelled == 0) | (labelled == rows)).all() and 0 < labelled.sum() < rows.sum():
                raise UnusableGroups(
                    by,
                    "separates labelled from unlabelled rows: no group has both. It is the label, or a column that was "
                    "filled in after the label was known, so it does not show who is overlooked. Leave it out.",
                )
        n_labelled = int(totals.labelled_rows[layout.division == 0].sum())
        return ReadGroups(model, totals, draws, n_labelled, n_looks, bool(totals.audited_rows.any()))


def _refuse_without_propensity(model: Any, propensity: Any) -> None:
    if isinstance(model, NaiveClassifier):
        raise TypeError(
            "estimator: NaiveClassifier treats every unlabelled row as negative, so no positive is without a label. "
            "Fit SAREMClassifierCV or another classifier with a propensity."
        )
    known = isinstance(model, PropensityWeightedClassifier)
    if known and propensity is None:
        raise ValueError(
            "propensity: PropensityWeightedClassifier does not estimate it. Pass the propensity of each row."
        )
    if propensity is not None and not known:
        raise ValueError(f"propensity: {type(model).__name__} estimates its own. Leave propensity out.")


def _posterior(data: AuditRows, s: Any, propensity: Any) -> Vector:
    """Return the posterior of each row; audited rows have their class."""
    q = data.q if propensity is None else data.estimator.predict_posterior(data.X, s, propensity=propensity)
    return np.where(data.audited, (data.audit == 1) * 1.0, np.asarray(q))


def propensity_of(data: AuditRows) -> Vector:
    """Return the probability that each row gets a label, at any look that took place, if it is positive."""
    model = data.estimator
    if looks_of(model) is None:
        return np.asarray(model.predict_propensity(data.X), dtype=np.float64)
    return any_label_probability(model, data.X, _labels_of_likelihood(data))


def _labels_of_likelihood(data: AuditRows) -> Any:
    """Return the labels that the likelihood uses, in the user's coding; None for looks that did not take place."""
    coding = data.estimator.label_coding_
    classes = coding.classes.astype(object)
    given = np.where(data.labels == 1, classes[coding.positive], classes[1 - coding.positive])
    return np.where(data.labels < 0, None, given)
