"""What a report is about: a fitted model with its table, and all that is asked of both more than once."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from scarless.checks.attributes import names_of
from scarless.checks.looks import check_audit, check_looks, looks_of
from scarless.checks.rows import index_of, warn_of_row_order
from scarless.checks.tables import take_rows
from scarless.checks.vectors import check_counts, check_propensity, check_vector
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.models.explaining import dense, grouped
from scarless.models.looks_facts import LooksFacts, any_false_label, any_label, looks_facts
from scarless.numerics.arrays import ArrayLike, Columns, Mask, Vector
from scarless.numerics.interval import Interval
from scarless.pair.groups import times_too_sure
from scarless.raw.origins import Origin
from scarless.report.fit.words import text
from scarless.scale.raw_columns import MISSING

_KINDS = (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
)
_CELLS = 2_000_000  # of a table that are in double precision at a time


def as_table_model(estimator: Any) -> TableClassifier:
    """Return a fitted model as one that takes raw tables, or say what was expected."""
    check = getattr(estimator, "best_estimator_", estimator)
    if isinstance(check, _KINDS):
        check = Pipeline([("model", check)])
    if isinstance(check, Pipeline):
        if not isinstance(check[-1], _KINDS):
            raise TypeError(
                "A pipeline must end in a classifier of this package, such as SAREMClassifier; this one ends in "
                f"{type(check[-1]).__name__}."
            )
        return TableClassifier.from_pipeline(check)
    if not isinstance(check, TableClassifier):
        raise TypeError(
            "A report takes a fitted TableClassifier, a fitted pipeline that ends in a classifier of this package, or "
            f"such a classifier; got {type(check).__name__}."
        )
    check_is_fitted(check)
    return check


class Moments(NamedTuple):
    """Mean, standard deviation, smallest and largest value of columns."""

    mean: Vector
    deviation: Vector
    low: Vector
    high: Vector


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model, its rows, and what it says of them."""

    model: TableClassifier
    X: Any
    prepared: Any
    s: Vector  # 1 for labelled rows; of several looks, for those with any label
    labels: Any  # the same, coded as in the fit; of several looks, a column for each
    weight: Vector
    weights: Vector | None  # the same, None where none were given
    f: Vector
    e: Vector | None  # None where the model does not tell and nobody said
    propensity: Vector | None  # given by the user
    level: float
    looks: LooksFacts | None = None  # None where the model was fitted to one label of each row
    seen_labels: Any = None  # 1, 0 and NaN at each look of such a model
    audit: Vector | None = None  # 1, 0 and NaN; None where nobody checked
    false_label: Vector | None = None  # chance of a label for negatives

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        *,
        sample_weight: ArrayLike | None,
        propensity: ArrayLike | None,
        level: float,
        audit: ArrayLike | None = None,
    ) -> "Subject":
        """Check what was given, prepare the table and ask the model."""
        model = as_table_model(estimator)
        inner = model.estimator_
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if X.shape[0] == 0:
            raise ValueError("X has no rows; a report is about the rows that the model was fitted to.")
        coding = coding_of(inner)
        if looks_of(inner) is not None:
            return cls._informed(model, X, s, audit, sample_weight=sample_weight, propensity=propensity, level=level)
        if audit is not None:
            raise ValueError(f"audit is given, but this {type(inner).__name__} was fitted without; leave it out.")
        labels = check_vector(coding.encode(s, "s"), "s", n_rows=X.shape[0])
        warn_of_row_order(X, s=s, sample_weight=sample_weight, propensity=propensity)
        weight = check_counts(sample_weight, n_rows=labels.size)
        prepared = model.prepare(X)
        f = class_probability(inner, prepared, coding)
        own = hasattr(inner, "predict_propensity")
        if own and propensity is not None:
            raise ValueError(
                f"propensity is given, but {type(inner).__name__} has one of its own; leave it out. It is for "
                "PropensityWeightedClassifier, which does not keep it."
            )
        e = None if propensity is None else check_propensity(propensity, n_rows=labels.size)
        return cls(
            model=model,
            X=X,
            prepared=prepared,
            s=labels,
            labels=coding.decode(labels == 1),
            weight=weight,
            weights=None if sample_weight is None else weight,
            f=f,
            e=np.asarray(inner.predict_propensity(prepared), dtype=np.float64) if own else e,
            propensity=e,
            level=level,
        )

    @classmethod
    def _informed(
        cls, model: TableClassifier, X: Any, s: Any, audit: Any, *, sample_weight: Any, propensity: Any, level: float
    ) -> "Subject":
        """Return the subject of a fit to several looks, audits or facts."""
        inner, n_rows = model.estimator_, X.shape[0]
        coding = coding_of(inner)
        if propensity is not None:
            raise ValueError(f"propensity is given, but {type(inner).__name__} has one of its own; leave it out.")
        codes = check_looks(s, coding=coding, name="s").labels
        n_looks = looks_of(inner).n_looks
        if codes.shape != (n_rows, n_looks):
            raise ValueError(
                f"s has the shape {codes.shape}; the model was fitted to {n_looks} looks, and X has {n_rows} rows: "
                "give one line for each row, one column for each look."
            )
        warn_of_row_order(X, s=s, sample_weight=sample_weight, audit=audit)
        found = None if audit is None else _or_nan(check_audit(audit, n_rows=n_rows, coding=coding))
        weight, prepared = check_counts(sample_weight, n_rows=n_rows), model.prepare(X)
        labels = s.to_numpy() if hasattr(s, "to_numpy") else np.asarray(s)
        facts = looks_facts(inner, level)
        has_false = facts is not None and facts.rate_is != "none"
        return cls(
            model=model,
            X=X,
            prepared=prepared,
            s=(codes == 1).any(axis=1).astype(np.float64),
            labels=labels,
            weight=weight,
            weights=None if sample_weight is None else weight,
            f=class_probability(inner, prepared, coding),
            e=any_label(inner, prepared, labels),
            propensity=None,
            level=level,
            looks=facts,
            seen_labels=_or_nan(codes),
            audit=found,
            false_label=any_false_label(inner, prepared, labels) if has_false else None,
        )

    @property
    def audited(self) -> Mask:
        """Which rows were checked."""
        return np.zeros(self.n_rows, dtype=bool) if self.audit is None else np.isfinite(self.audit)

    @property
    def grouped(self) -> bool:
        """Whether rows belong to groups of several, which tests of rows do not know of."""
        return 0 < getattr(self.inner, "_n_groups", 0) < self.n_rows

    @cached_property
    def row_weight(self) -> Vector:
        """Weights for tests: as many as there are rows in effect, where they are not counts of rows."""
        w = self.weight
        whole = bool((w == np.floor(w)).all())
        sure = times_too_sure(float(w.sum()), float(w @ w), float(np.count_nonzero(w)), counts=whole)
        return w / sure

    @property
    def rates_are_none(self) -> bool:
        """Whether no negative row gets a label, by assumption."""
        return self.false_label is None

    def prior_interval(self) -> Interval:
        """Return the interval of the share of positives, the one of the whole page: labelled rows are positive."""
        low, high = self.inner.class_prior_interval(level=self.level)
        known = float(self.weight @ self.s) / float(self.weight.sum()) if self.rates_are_none else 0.0
        return Interval(max(low, known), max(high, known))

    @property
    def label_chance(self) -> Vector:
        """The chance of each row to have a label, positive or not; of fits that were told of more."""
        right = self.f * np.asarray(self.e)
        return right if self.false_label is None else right + (1.0 - self.f) * self.false_label

    @cached_property
    def posterior(self) -> Vector:
        """The chance of each row to be positive, given all that was seen of it; of fits that were told of more."""
        given = {} if self.audit is None else {"audit": self.audit}
        return np.asarray(self.inner.predict_posterior(self.prepared, self.labels, **given))

    def part(self, rows: Columns) -> "Subject":
        """Return the same for some of the rows."""
        return replace(
            self,
            X=take_rows(self.X, rows),
            prepared=take_rows(self.prepared, rows),
            s=self.s[rows],
            labels=self.labels[rows],
            weight=self.weight[rows],
            weights=None if self.weights is None else self.weights[rows],
            f=self.f[rows],
            e=None if self.e is None else self.e[rows],
            propensity=_some(self.propensity, rows),
            seen_labels=_some(self.seen_labels, rows),
            audit=_some(self.audit, rows),
            false_label=_some(self.false_label, rows),
        )

    @property
    def inner(self) -> Any:
        """The classifier, which sees the prepared table."""
        return self.model.estimator_

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.s.size)

    @cached_property
    def raw_names(self) -> list[Any]:
        """Columns of the raw table."""
        names = names_of(self.X)
        return [f"x{j}" for j in range(self.X.shape[1])] if names is None else list(names)

    @cached_property
    def origins(self) -> list[Origin]:
        """Where each prepared column comes from; a column that cannot be followed stands for itself."""
        names = names_of(self.prepared)
        own = [f"column {j}" for j in range(self.prepared.shape[1])] if names is None else list(map(str, names))
        known = self.model.origins_ or [Origin(None)] * len(own)
        named = [
            Origin(own[j], unit=np.nan if self.model.origins_ is None else each.unit) if each.column is None else each
            for j, each in enumerate(known)
        ]
        return [self._in_words(each) for each in named]

    def _in_words(self, origin: Origin) -> Origin:
        """Return an origin whose piece says something to who has not seen the preparation."""
        if origin.piece == "nan":
            return origin._replace(piece=MISSING)
        if self.kinds.get(str(origin.column)) == "high_cardinality" and origin.piece.isdigit():
            return origin._replace(piece=f"words {int(origin.piece) + 1}", unit=np.nan, words=True)  # a direction
        return origin

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind that skrub found each raw column to be of, where it was the one to look."""
        preparation = self.model.preparation_
        steps = [step for _, step in getattr(preparation, "steps", [("", preparation)])]
        found: Any = next((step.column_to_kind_ for step in steps if hasattr(step, "column_to_kind_")), {})
        return {str(name): str(kind) for name, kind in found.items()}

    @cached_property
    def labels_of_columns(self) -> list[str]:
        """A name for each prepared column, by its raw one, that can stand in a sentence."""
        return [text(f"{each.column} ({each.piece})" if each.words else each.label) for each in self.origins]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The prepared columns that come from each raw one."""
        return grouped([each.column for each in self.origins])

    @cached_property
    def moments(self) -> "Moments":
        """Mean, spread and ends of each prepared column, rows counted by weight."""
        if sparse.issparse(self.prepared):
            return _sparse_moments(sparse.csc_array(self.prepared, dtype=np.float64), self.weight)
        total, n = float(self.weight.sum()), self.prepared.shape[1]
        first, second, low, high = np.zeros(n), np.zeros(n), np.full(n, np.inf), np.full(n, -np.inf)
        centre = dense(take_rows(self.prepared, slice(0, 1))).sum(axis=0)  # so that squares do not cancel
        block = max(_CELLS // max(n, 1), 1)
        for start in range(0, self.n_rows, block):
            rows = dense(take_rows(self.prepared, slice(start, start + block)))
            w = self.weight[start : start + block]
            first += w @ (rows - centre)
            second += w @ (rows - centre) ** 2
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        mean = first / total
        return Moments(mean + centre, np.sqrt(np.maximum(second / total - mean**2, 0.0)), low, high)

    @property
    def row_names(self) -> Any:
        """Names of rows by the table's own index; None where they are just numbered."""
        index = index_of(self.X)
        return None if index is None or isinstance(index, range) else index

    def by_labels(self) -> "Subject":
        """Return the same rows with the naive model, which takes every row without a label for negative."""
        naive = NaiveClassifier().fit(self.prepared, self.s.astype(np.int64), sample_weight=self.weights)
        model = copy(self.model)
        model.estimator_ = naive
        f = class_probability(naive, self.prepared, coding_of(naive))
        return replace(self, model=model, f=f, e=None, looks=None, labels=self.s.astype(np.int64))

    @cached_property
    def labelling_columns(self) -> list[int]:
        """Prepared columns that the propensity model sees."""
        coef = getattr(self.inner, "propensity_coef_", None)
        return [] if coef is None else np.flatnonzero(np.atleast_2d(coef).any(axis=0)).tolist()

    @cached_property
    def visit_columns(self) -> dict[str, list[int]]:
        """Prepared columns of each attribute of looks, which the propensity of their look sees."""
        looks = looks_of(self.inner)
        return {} if looks is None else {str(name): np.asarray(at).tolist() for name, at in looks.visits.items()}


def _some(values: Any, rows: Columns) -> Any:
    return None if values is None else values[rows]


def _or_nan(codes: Any) -> Any:
    """Return codes as numbers, NaN for what did not take place."""
    return np.where(codes < 0, np.nan, codes)


def _sparse_moments(table: Any, weight: Vector) -> Moments:
    """Return the moments of a sparse table without making it dense."""
    total = float(weight.sum())
    mean, second = table.T @ weight / total, (table * table).T @ weight / total
    ends = (np.asarray(end.todense()).ravel() for end in (table.min(axis=0), table.max(axis=0)))
    return Moments(mean, np.sqrt(np.maximum(second - mean**2, 0.0)), *ends)
