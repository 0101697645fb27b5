"""A fitted model with its table: what is asked of both more than once, and what the fit can say at all."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from scarless.checks.attributes import names_of
from scarless.checks.looks import check_audit, check_looks, looks_of
from scarless.checks.options import check_counts, check_propensity, check_vector
from scarless.checks.rows import index_of, warn_about_row_order
from scarless.checks.tables import take_rows
from scarless.diagnostics.leaks import Leak, find_leaks
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
)
from scarless.models.explaining import dense, grouped
from scarless.models.inspection import LooksSummary, any_false_label, any_label, looks_summary
from scarless.numerics.arrays import ArrayLike, Columns, Mask, Vector
from scarless.numerics.uncertainty import Interval
from scarless.outside.plain_words import plain
from scarless.pair.groups import times_too_sure
from scarless.raw import TableClassifier
from scarless.raw.origins import Origin
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
ENOUGH_AUDITS = 50  # to tell which of two models is the class
CELLS_AT_A_TIME = 2_000_000  # of a table that are in double precision
MOST_ROWS_FOR_LEAKS = 50_000  # that columns which give the label away are looked for in
NEARLY_ALL_LABELLED = 0.99  # label frequency from which next to nothing is missing
WIDE_INTERVAL = 0.4  # width of an interval of a share, from which it says next to nothing
SHORT_RATIO = 1.25  # of an interval's ends, below which it leaves no room to speak of


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
    codes: Any  # 1, 0 and NaN at each look; one column where each row has one label
    labels: Any  # the same, coded as in the fit
    weight: Vector
    weights: Vector | None  # the same, None where none were given
    f: Vector
    e: Vector | None  # of a label at any look that took place; None where the model does not tell and nobody said
    propensity: Vector | None  # given by the user
    level: float
    looks: LooksSummary | None  # None where the model was fitted to one label of each row, and told nothing more
    audit: Vector | None  # 1, 0 and NaN; None where nobody checked
    false_label: Vector | None  # chance of a label for negatives; None where there are no such labels, by assumption
    known_leaks: tuple[Leak, ...] | None = None  # None: they are looked for

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        level: float = 0.95,
        audit: ArrayLike | None = None,
        leaks: tuple[Leak, ...] | None = None,
    ) -> Self:
        """Check what was given, prepare the table and ask the model."""
        model = as_table_model(estimator)
        inner, X = model.estimator_, X if hasattr(X, "shape") else np.asarray(X)
        n_rows, coding, facts = X.shape[0], coding_of(inner), looks_summary(inner, level)
        _refuse_odd(inner, n_rows, facts, propensity, audit)
        codes = _codes(s, coding, facts, n_rows)
        warn_about_row_order(X, s=s, sample_weight=sample_weight, propensity=propensity, audit=audit)
        labels = coding.decode(codes[:, 0] == 1) if facts is None else np.asarray(s)
        weight, prepared = check_counts(sample_weight, n_rows=n_rows), model.prepare(X)
        given = None if propensity is None else check_propensity(propensity, n_rows=n_rows)
        has_false = facts is not None and facts.rate_is != "none"
        return cls(
            model=model,
            X=X,
            prepared=prepared,
            codes=codes,
            labels=labels,
            weight=weight,
            weights=None if sample_weight is None else weight,
            f=class_probability(inner, prepared, coding),
            e=_propensity(inner, prepared, labels, facts, given),
            propensity=given,
            level=level,
            looks=facts,
            audit=None if audit is None else _or_nan(check_audit(audit, n_rows=n_rows, coding=coding)),
            false_label=any_false_label(inner, prepared, labels) if has_false else None,
            known_leaks=leaks,
        )

    # --- parts and rows

    def part(self, rows: Columns) -> Self:
        """Return the same for some of the rows."""
        given = ("weights", "e", "propensity", "audit", "false_label")
        return replace(
            self,
            X=take_rows(self.X, rows),
            prepared=take_rows(self.prepared, rows),
            **{name: getattr(self, name)[rows] for name in ("codes", "labels", "weight", "f")},
            **{name: getattr(self, name)[rows] for name in given if getattr(self, name) is not None},
        )

    def some_rows(self, most: int, rng: np.random.Generator) -> Columns:
        """Return at most so many rows that count, drawn without regard to labels, in order."""
        there = np.flatnonzero(self.weight > 0)
        return there if there.size <= most else np.sort(rng.choice(there, most, replace=False))

    def sample(self, most: int, rng: np.random.Generator) -> Self:
        """Return the same for at most so many rows, drawn at random."""
        return self.part(self.some_rows(most, rng))

    def by_labels(self) -> Self:
        """Return the same rows with the naive model, which takes every row without a label for negative."""
        naive = NaiveClassifier().fit(self.prepared, self.s.astype(np.int64), sample_weight=self.weights)
        model = copy(self.model)
        model.estimator_ = naive
        f = class_probability(naive, self.prepared, coding_of(naive))
        return replace(self, model=model, f=f, e=None, looks=None, labels=self.s.astype(np.int64))

    @property
    def inner(self) -> Any:
        """The classifier, which sees the prepared table."""
        return self.model.estimator_

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.weight.size)

    @cached_property
    def s(self) -> Vector:
        """1 for labelled rows; of several looks, for those with any label."""
        return (self.codes == 1).any(axis=1).astype(np.float64)

    @property
    def audited(self) -> Mask:
        """Which rows were checked."""
        return np.zeros(self.n_rows, dtype=bool) if self.audit is None else np.isfinite(self.audit)

    @property
    def row_names(self) -> Any:
        """Names of rows by the table's own index; None where they are just numbered."""
        index = index_of(self.X)
        return None if index is None or isinstance(index, range) else index

    @property
    def n_groups(self) -> int:
        """How many groups the rows of the fit belong to; 0 where the fit was told of none."""
        return int(getattr(getattr(self.inner, "fitted_pair_", None), "n_groups", 0))

    @property
    def grouped(self) -> bool:
        """Whether rows belong to groups of several, which tests of rows do not know of."""
        return 0 < self.n_groups < self.n_rows

    @cached_property
    def row_weight(self) -> Vector:
        """Weights for tests: as many as there are rows in effect, where they are not counts of rows."""
        w = self.weight
        whole = bool((w == np.floor(w)).all())
        sure = times_too_sure(float(w.sum()), float(w @ w), float(np.count_nonzero(w)), counts=whole)
        return w / sure

    # --- what the fit says, and what it can say

    @property
    def rates_are_none(self) -> bool:
        """Whether no negative row gets a label, by assumption."""
        return self.false_label is None

    @property
    def labelled_share(self) -> float:
        """The share of rows with a label, rows counted by weight."""
        return float(self.weight @ self.s) / float(self.weight.sum())

    @property
    def right_labels(self) -> float:
        """How many labelled rows are positive, by weight: all of them, unless labels may be wrong."""
        return float(self.weight @ (self.s if self.rates_are_none else self.s * self.posterior))

    def prior_interval(self) -> Interval:
        """Return the interval of the share of positives: of the model, but labelled rows are positive."""
        low, high = self.inner.class_prior_interval(level=self.level)
        known = self.labelled_share if self.rates_are_none else 0.0
        return Interval(max(low, known), max(high, known))

    def interval_of(self, method: str) -> tuple[Interval | None, str]:
        """Return an interval of the model, or why there is none."""
        if not hasattr(self.inner, method):
            return None, f"{type(self.inner).__name__} knows no interval of the number of positives."
        try:
            return getattr(self.inner, method)(level=self.level), ""
        except (ValueError, TypeError) as error:
            return None, plain(error)

    @property
    def label_chance(self) -> Vector:
        """The chance of each row to have a label, positive or not; of fits that were told of more."""
        right = self.f * np.asarray(self.e)
        return right if self.false_label is None else right + (1.0 - self.f) * self.false_label

    @cached_property
    def posterior(self) -> Vector:
        """The chance of each row to be positive, given all that was seen of it; of a model that knows propensities."""
        given: dict[str, Any] = {} if self.audit is None else {"audit": self.audit}
        given |= {} if self.propensity is None else {"propensity": self.propensity}
        return np.asarray(self.inner.predict_posterior(self.prepared, self.labels, **given))

    @property
    def told_apart(self) -> bool:
        """Whether several looks, or audits, say which model is the class: those of the fit, or of these rows."""
        audits = int(self.audited.sum())
        if self.looks is None:
            return audits >= ENOUGH_AUDITS
        return len(self.looks.names) > 1 or max(audits, self.looks.n_audited) >= ENOUGH_AUDITS

    @cached_property
    def either_way(self) -> bool:
        """Whether nothing says which of both models is the class: all columns may drive both, and nobody looked again.

        The models may then have changed places.
        """
        named = getattr(self.inner, "propensity_attributes", None)
        visits = {j for columns in self.visit_columns.values() for j in columns}
        others = set(range(self.prepared.shape[1])) - visits
        everything = isinstance(named, str) and named == "all"
        return (everything or bool(others and others <= set(self.labelling_columns))) and not self.told_apart

    @cached_property
    def silent(self) -> bool:
        """Whether the fit says nothing of positives without a label: see `says_nothing`.

        Not where the user says how often positives are labelled, or how many there are, nor where several looks or
        audits show it, nor where no row is left.
        """
        if isinstance(self.inner, NaiveClassifier) or self.told_apart or bool(self.s.all()):
            return False
        given = isinstance(getattr(self.inner, "label_frequency", None), int | float) or self.propensity is not None
        if given or (self.looks is not None and self.looks.claims):
            return False
        interval, _ = self.interval_of("class_prior_interval")
        low, high = (None, None) if interval is None else self.prior_interval()
        frequency = float(self.model.label_frequency_)
        return says_nothing(frequency if np.isfinite(frequency) else None, low, high)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """The columns of a pandas table that give the label away, or nearly so."""
        if self.known_leaks is not None:
            return self.known_leaks
        if not hasattr(self.X, "iloc"):
            return ()
        visits = {self.origins[j].column for columns in self.visit_columns.values() for j in columns}
        names = [str(name) for name in self.X.columns]
        seen = [j for j, name in enumerate(names) if name in self.groups and name not in visits]
        large = self.n_rows > MOST_ROWS_FOR_LEAKS
        rows = self.some_rows(MOST_ROWS_FOR_LEAKS, np.random.default_rng(0)) if large else slice(None)
        return tuple(find_leaks(self.X.iloc[rows, seen], self.s[rows]))

    # --- columns

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
        """Return an origin whose piece says something to a reader who has not seen the preparation."""
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
    def column_labels(self) -> list[str]:
        """A name for each prepared column, by its raw one, that can stand in a sentence."""
        return [f"{each.column} ({each.piece})" if each.words else each.label for each in self.origins]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The prepared columns that come from each raw one."""
        return grouped([each.column for each in self.origins])

    @cached_property
    def moments(self) -> Moments:
        """Mean, spread and ends of each prepared column, rows counted by weight."""
        if sparse.issparse(self.prepared):
            return _sparse_moments(sparse.csc_array(self.prepared, dtype=np.float64), self.weight)
        total, n = float(self.weight.sum()), self.prepared.shape[1]
        first, second, low, high = np.zeros(n), np.zeros(n), np.full(n, np.inf), np.full(n, -np.inf)
        centre = dense(take_rows(self.prepared, slice(0, 1))).sum(axis=0)  # so that squares do not cancel
        block = max(CELLS_AT_A_TIME // max(n, 1), 1)
        for start in range(0, self.n_rows, block):
            rows = dense(take_rows(self.prepared, slice(start, start + block)))
            w = self.weight[start : start + block]
            first += w @ (rows - centre)
            second += w @ (rows - centre) ** 2
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        mean = first / total
        return Moments(mean + centre, np.sqrt(np.maximum(second / total - mean**2, 0.0)), low, high)

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


def says_nothing(frequency: float | None, low: float | None, high: float | None) -> bool:
    """Whether a fit takes every positive to be labelled, and its interval does not say how many more there may be.

    One without width to speak of says how sure the share of labels is, and not how many positives have none. A very
    wide one allows nearly any number.
    """
    if frequency is None or frequency <= NEARLY_ALL_LABELLED:
        return False
    return low is None or high is None or is_short(low, high) or high - low > WIDE_INTERVAL


def is_short(low: float, high: float) -> bool:
    """Whether an interval of a share leaves no room to speak of."""
    return high < SHORT_RATIO * low


def _refuse_odd(inner: Any, n_rows: int, facts: LooksSummary | None, propensity: Any, audit: Any) -> None:
    if n_rows == 0:
        raise ValueError("X has no rows; a report is about the rows that the model was fitted to.")
    if audit is not None and facts is None:
        raise ValueError(f"audit is given, but this {type(inner).__name__} was fitted without; leave it out.")
    if propensity is not None and hasattr(inner, "predict_propensity"):
        raise ValueError(
            f"propensity is given, but {type(inner).__name__} has one of its own; leave it out. It is for "
            "PropensityWeightedClassifier, which does not keep it."
        )


def _codes(s: Any, coding: Any, facts: LooksSummary | None, n_rows: int) -> Any:
    """Return labels as 1 and 0, NaN at looks that did not take place: a column for each look."""
    if facts is None:
        return check_vector(coding.encode(s, "s"), "s", n_rows=n_rows)[:, None]
    codes = check_looks(s, coding=coding, name="s").labels
    if codes.shape != (n_rows, len(facts.names)):
        raise ValueError(
            f"s has the shape {codes.shape}; the model was fitted to {len(facts.names)} looks, and X has {n_rows} "
            "rows: give one line for each row, one column for each look."
        )
    return _or_nan(codes)


def _propensity(inner: Any, prepared: Any, labels: Any, facts: LooksSummary | None, given: Vector | None) -> Any:
    if facts is not None:
        return any_label(inner, prepared, labels)
    own = hasattr(inner, "predict_propensity")
    return np.asarray(inner.predict_propensity(prepared), dtype=np.float64) if own else given


def _or_nan(codes: Any) -> Any:
    """Return codes as numbers, NaN for what did not take place."""
    return np.where(codes < 0, np.nan, codes)


def _sparse_moments(table: Any, weight: Vector) -> Moments:
    """Return the moments of a sparse table without making it dense."""
    total = float(weight.sum())
    mean, second = table.T @ weight / total, (table * table).T @ weight / total
    ends = (np.asarray(end.todense()).ravel() for end in (table.min(axis=0), table.max(axis=0)))
    return Moments(mean, np.sqrt(np.maximum(second - mean**2, 0.0)), *ends)


# --- what became of each raw column


class ColumnFact(NamedTuple):
    """A raw column: of what kind it is, what was made of it, and which models see that."""

    name: Any
    kind: str
    n_missing: int | None
    pieces: list[Origin]
    left_out: str  # why nothing was made of it; empty where something was
    for_class: bool
    for_labelling: bool


_KINDS_OF_SKRUB = {
    "numeric": "number",
    "low_cardinality": "text, few values",
    "high_cardinality": "text, many values",
    "datetime": "date",
}
STRANGER = "not a column of the fit"


def column_facts(subject: Subject) -> list[ColumnFact]:
    """Return each raw column with what became of it."""
    coef = getattr(subject.inner, "coef_", None)
    of_class = set(range(len(subject.origins)) if coef is None else np.flatnonzero(np.ravel(coef)).tolist())
    of_labelling = {*subject.labelling_columns, *(j for columns in subject.visit_columns.values() for j in columns)}
    known = {str(name) for name in getattr(subject.model, "feature_names_in_", subject.raw_names)}
    followed = subject.model.origins_ is not None
    X = sparse.csc_array(subject.X) if sparse.issparse(subject.X) else subject.X
    found = []
    for j, name in enumerate(subject.raw_names):
        values = _values(X, j)
        made = subject.groups.get(str(name), []) if followed else []
        n_missing = _n_missing(values)
        why = "" if made or not followed else _why(values, n_missing, subject.n_rows)
        found.append(
            ColumnFact(
                name,
                _KINDS_OF_SKRUB.get(subject.kinds.get(str(name), ""), "") or _kind(values),
                n_missing,
                [subject.origins[i] for i in made],
                why if str(name) in known else STRANGER,
                bool(of_class & set(made)),
                bool(of_labelling & set(made)),
            )
        )
    return found


def _values(X: Any, j: int) -> Any:
    """Return one column."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    if hasattr(X, "get_column"):
        return X.get_column(X.columns[j])
    return X[:, [j]] if sparse.issparse(X) else X[:, j]


def _n_missing(values: Any) -> int | None:
    if hasattr(values, "isna"):
        return int(values.isna().sum())
    if hasattr(values, "null_count"):
        nan = values.is_nan().sum() if values.dtype.is_float() else 0
        return int(values.null_count()) + int(nan or 0)
    if sparse.issparse(values):
        return int(np.isnan(values.data).sum()) if values.dtype.kind == "f" else 0
    if values.dtype.kind == "O":
        return int(sum(each is None or each != each for each in values))  # noqa: PLR0124 (NaN)
    return int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0


def _kind(values: Any) -> str:
    """Return what a column holds, by its type."""
    kind = str(values.dtype).lower()
    for words, told in (
        (("bool",), "yes or no"),
        (("int", "float", "decimal", "double"), "number"),
        (("date", "time"), "date"),
        (("categor", "enum"), "categories"),
        (("object", "str", "utf", "<u"), "text"),
    ):
        if kind.startswith(words) or (told == "number" and kind.startswith("uint")):
            return told
    return kind


def _why(values: Any, n_missing: int | None, n_rows: int) -> str:
    """Return why nothing was made of a column."""
    if n_missing == n_rows:
        return "empty"
    return "constant" if _is_constant(values) else "left out by the preparation"


def _is_constant(values: Any) -> bool:
    if hasattr(values, "dropna"):
        return bool(values.dropna().nunique() <= 1)
    if hasattr(values, "drop_nulls"):
        return bool(values.drop_nulls().n_unique() <= 1)
    return not sparse.issparse(values) and len(set(values.tolist())) <= 1
