"""A fitted model with its table, and the values that several diagnostics need."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from scarless.checks.attributes import names_of
from scarless.checks.labels import is_missing_value
from scarless.checks.looks import check_audit, check_looks, looks_of
from scarless.checks.options import check_counts, check_propensity, check_vector
from scarless.checks.rows import index_of, warn_about_row_order
from scarless.checks.tables import table_array, take_rows
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
from scarless.models.inspection import LooksSummary, any_label_probability, false_label_probability, looks_summary
from scarless.numerics.arrays import ArrayLike, Columns, Mask, Vector
from scarless.numerics.uncertainty import Interval
from scarless.outside.plain_words import plain
from scarless.pair.groups import overcount_factor
from scarless.raw import TableClassifier
from scarless.raw.leaks import Leak, NeverLabelled, find_leaks, find_never_labelled
from scarless.raw.origins import Origin
from scarless.raw.preparation import BRACKETED, KeepNone
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
ENOUGH_AUDITS = 50  # number of audits that separates the class from the labelling; by judgement
CELLS_PER_BLOCK = 2_000_000  # cells of a table that are converted to double precision at a time
MAX_ROWS_FOR_LEAKS = 50_000  # largest number of rows on which columns are searched for leaks
NEARLY_ALL_LABELLED = 0.99  # label frequency above which almost no positive is unlabelled
WIDE_INTERVAL = 0.4  # width above which the interval of a share has almost no information; by judgement
SHORT_RATIO = 1.25  # ratio of the ends below which an interval is too short to be credible; by judgement
_WORDS_IN_BRACKETS = {bracketed: word for word, bracketed in BRACKETED.items()}


def as_table_model(estimator: Any) -> TableClassifier:
    """Return a fitted model as a `TableClassifier`, which accepts raw tables."""
    check = getattr(estimator, "best_estimator_", estimator)
    if isinstance(check, _KINDS):
        check = Pipeline([("model", check)])
    if isinstance(check, Pipeline):
        if not isinstance(check[-1], _KINDS):
            raise TypeError(
                "estimator: a pipeline must end in a classifier of this package, such as SAREMClassifier; got a "
                f"pipeline that ends in {type(check[-1]).__name__}."
            )
        return TableClassifier.from_pipeline(check)
    if not isinstance(check, TableClassifier):
        raise TypeError(
            "estimator must be a fitted TableClassifier, a classifier of this package, or a pipeline that ends in one; "
            f"got {type(check).__name__}."
        )
    check_is_fitted(check)
    return check


class TableMoments(NamedTuple):
    """Mean, standard deviation, smallest and largest value of each prepared column."""

    mean: Vector
    deviation: Vector
    low: Vector
    high: Vector


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model, its rows, and its predictions for them."""

    model: TableClassifier
    X: Any
    prepared: Any  # input of the classifier
    codes: Any  # 1, 0 and NaN at each look; one column if each row has one label
    labels: Any  # the labels, coded as in the fit
    weight: Vector
    weights: Vector | None  # `weight`, or None if no weights were passed
    f: Vector
    e: Vector | None  # propensity of a label at any look; None if neither the model nor the user provides it
    propensity: Vector | None  # passed by the user
    level: float
    looks: LooksSummary | None  # None for a fit to one label of each row without further information
    audit: Vector | None  # 1, 0 and NaN; None without audits
    false_label: Vector | None  # probability of a label for a negative row; None if assumed to be 0
    known_leaks: tuple[Leak, ...] | None = None  # None if columns were not searched for leaks yet
    is_contradicted: bool = False  # whether a warning of the fit says that the class prior is not reliable
    pair: "Subject | None" = None  # logistic models fitted beside a stack, which effects and reasons describe

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
        is_contradicted: bool = False,
    ) -> Self:
        """Check the arguments, prepare the table, and predict."""
        model = as_table_model(estimator)
        inner, X = model.estimator_, X if hasattr(X, "shape") else table_array(X)
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
            false_label=false_label_probability(inner, prepared, labels) if has_false else None,
            known_leaks=leaks,
            is_contradicted=is_contradicted,
        )

    # --- rows

    def part(self, rows: Columns) -> Self:
        """Return the subject restricted to some rows."""
        given = ("weights", "e", "propensity", "audit", "false_label")
        return replace(
            self,
            pair=None if self.pair is None else self.pair.part(rows),
            X=take_rows(self.X, rows),
            prepared=take_rows(self.prepared, rows),
            **{name: getattr(self, name)[rows] for name in ("codes", "labels", "weight", "f")},
            **{name: getattr(self, name)[rows] for name in given if getattr(self, name) is not None},
        )

    def some_rows(self, most: int, rng: np.random.Generator) -> Columns:
        """Return the positions of at most `most` rows with a positive weight, drawn at random, in order."""
        counted = np.flatnonzero(self.weight > 0)
        return counted if counted.size <= most else np.sort(rng.choice(counted, most, replace=False))

    def sample(self, most: int, rng: np.random.Generator) -> Self:
        """Return the subject restricted to at most `most` rows, drawn at random."""
        return self.part(self.some_rows(most, rng))

    def with_naive_model(self) -> Self:
        """Return the subject with the naive model, which treats unlabelled rows as negative."""
        if np.ptp(self.s[self.weight > 0]) == 0:
            found = "labelled" if self.s[self.weight > 0].all() else "unlabelled"
            raise ValueError(
                "Both models use the same attributes and may be swapped, so rows are ranked by a model of the labels, "
                f"which is fitted to X; but all rows of X are {found}. Pass the rows of the fit."
            )
        naive = NaiveClassifier().fit(self.prepared, self.s.astype(np.int64), sample_weight=self.weights)
        model = copy(self.model)
        model.estimator_ = naive
        f = class_probability(naive, self.prepared, coding_of(naive))
        return replace(self, model=model, f=f, e=None, looks=None, labels=self.s.astype(np.int64), pair=None)

    @property
    def of_effects(self) -> "Subject":
        """The subject that effects of columns describe: the logistic models beside a stack, or the model itself."""
        return self if self.pair is None else self.pair

    @property
    def of_reasons(self) -> "Subject":
        """The subject that the reasons of rows describe: like `of_effects`, unless its models may be swapped."""
        return self if self.pair is None or self.pair.may_be_swapped else self.pair

    @property
    def inner(self) -> Any:
        """The classifier, whose input is the prepared table."""
        return self.model.estimator_

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return int(self.weight.size)

    @cached_property
    def s(self) -> Vector:
        """1 for rows with a label at any look, 0 for other rows."""
        return (self.codes == 1).any(axis=1).astype(np.float64)

    @property
    def audited(self) -> Mask:
        """Whether each row was audited."""
        return np.zeros(self.n_rows, dtype=bool) if self.audit is None else np.isfinite(self.audit)

    @property
    def row_names(self) -> Any:
        """Names of the rows in the index of the table; None if they are numbered."""
        index = index_of(self.X)
        return None if index is None or isinstance(index, range) else index

    @property
    def n_groups(self) -> int:
        """Number of groups of rows in the fit; 0 for a fit without groups."""
        return int(getattr(getattr(self.inner, "fitted_pair_", None), "n_groups", 0))

    @property
    def grouped(self) -> bool:
        """Whether several rows belong to the same group, which tests of rows do not account for."""
        return 0 < self.n_groups < self.n_rows

    @cached_property
    def row_weight(self) -> Vector:
        """Weights for tests; weights that are not counts are scaled to add up to the effective number of rows."""
        w = self.weight
        whole = bool((w == np.floor(w)).all())
        ratio = overcount_factor(float(w.sum()), float(w @ w), float(np.count_nonzero(w)), counts=whole)
        return w / ratio

    # --- results of the fit, and whether they are informative

    @property
    def has_no_false_positives(self) -> bool:
        """Whether the model assumes that there are no false positives."""
        return self.false_label is None

    @property
    def labelled_share(self) -> float:
        """Share of labelled rows, weighted."""
        return float(self.weight @ self.s) / float(self.weight.sum())

    @property
    def labelled_positives(self) -> float:
        """Weighted number of labelled rows that are positive: all of them, unless there are false positives."""
        return float(self.weight @ (self.s if self.has_no_false_positives else self.s * self.posterior))

    def prior_interval(self) -> Interval:
        """Return the interval of the class prior; without false positives, at least the share of labelled rows."""
        low, high = self.inner.class_prior_interval(level=self.level)
        known = self.labelled_share if self.has_no_false_positives else 0.0
        return Interval(max(low, known), max(high, known))

    def interval_of(self, method: str) -> tuple[Interval | None, str]:
        """Return an interval of the model, or the reason why there is none."""
        if not hasattr(self.inner, method):
            return None, f"{type(self.inner).__name__} has no interval for the number of positives."
        try:
            return getattr(self.inner, method)(level=self.level), ""
        except (ValueError, TypeError) as error:
            return None, plain(error)

    @property
    def label_probability(self) -> Vector:
        """Probability that each row has a label, whether it is positive or not."""
        right = self.f * np.asarray(self.e)
        return right if self.false_label is None else right + (1.0 - self.f) * self.false_label

    @cached_property
    def posterior(self) -> Vector:
        """Posterior of each row, given its labels and audit."""
        given: dict[str, Any] = {} if self.audit is None else {"audit": self.audit}
        given |= {} if self.propensity is None else {"propensity": self.propensity}
        return np.asarray(self.inner.predict_posterior(self.prepared, self.labels, **given))

    @property
    def models_are_separated(self) -> bool:
        """Whether several looks or audits, in the fit or in these rows, separate the class from the labelling."""
        audits = int(self.audited.sum())
        if self.looks is None:
            return audits >= ENOUGH_AUDITS
        return len(self.looks.names) > 1 or max(audits, self.looks.n_audited) >= ENOUGH_AUDITS

    @cached_property
    def may_be_swapped(self) -> bool:
        """Whether the models may be swapped: both may use all columns, and no looks or audits separate them."""
        named = getattr(self.inner, "propensity_attributes", None)
        visits = {j for columns in self.visit_columns.values() for j in columns}
        others = set(range(self.prepared.shape[1])) - visits
        everything = isinstance(named, str) and named == "all"
        return (everything or bool(others and others <= set(self.labelling_columns))) and not self.models_are_separated

    @cached_property
    def is_uninformative(self) -> bool:
        """Whether the fit has no information on unlabelled positives; see the function `is_uninformative`.

        False for a naive model, if the user passed a label frequency, propensities or known values, if several looks or
        audits separate the models, or if all rows are labelled.
        """
        if isinstance(self.inner, NaiveClassifier) or self.models_are_separated or bool(self.s.all()):
            return False
        given = isinstance(getattr(self.inner, "label_frequency", None), int | float) or self.propensity is not None
        if given or (self.looks is not None and self.looks.known_values):
            return False
        interval, _ = self.interval_of("class_prior_interval")
        low, high = (None, None) if interval is None else self.prior_interval()
        frequency = float(self.model.label_frequency_)
        return is_uninformative(frequency if np.isfinite(frequency) else None, low, high)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """Columns of a pandas table that leak the label, or may leak it."""
        if self.known_leaks is not None:
            return self.known_leaks
        X, rows = self._searched
        return () if X is None else tuple(find_leaks(X, self.s[rows]))

    @cached_property
    def never_labelled(self) -> tuple[NeverLabelled, ...]:
        """Values that no labelled row has, in columns of a pandas table that do not seem to leak the label."""
        X, rows = self._searched
        if X is None:
            return ()
        leaking = {leak.column for leak in self.leaks}
        X = X.loc[:, [str(name) not in leaking for name in X.columns]]
        audited = None if self.audit is None else np.isfinite(self.audit[rows])
        given = getattr(self.inner, "propensity_attributes", None)
        known = given is not None and not isinstance(given, str) and not self.may_be_swapped
        labelling = set(self.labelling_columns) if known else set()
        named = [name for name, columns in self.groups.items() if labelling & set(columns)]
        return tuple(find_never_labelled(X, self.s[rows], audited=audited, named=named))

    @cached_property
    def _searched(self) -> tuple[Any, Any]:
        """The columns of a pandas table that are searched for leaks, for at most 50,000 rows, and these rows."""
        if not hasattr(self.X, "iloc"):
            return None, None
        visits = {self.origins[j].column for columns in self.visit_columns.values() for j in columns}
        names = [str(name) for name in self.X.columns]
        seen = [j for j, name in enumerate(names) if name in self.groups and name not in visits]
        large = self.n_rows > MAX_ROWS_FOR_LEAKS
        rows = self.some_rows(MAX_ROWS_FOR_LEAKS, np.random.default_rng(0)) if large else slice(None)
        return self.X.iloc[rows, seen], rows

    # --- columns

    @cached_property
    def raw_names(self) -> list[Any]:
        """Names of the columns of the raw table."""
        names = names_of(self.X)
        return [f"x{j}" for j in range(self.X.shape[1])] if names is None else list(names)

    @cached_property
    def origins(self) -> list[Origin]:
        """Raw column that each prepared column comes from; the prepared column itself if that is unknown."""
        names = names_of(self.prepared)
        own = [f"column {j}" for j in range(self.prepared.shape[1])] if names is None else list(map(str, names))
        known = self.model.origins_ or [Origin(None)] * len(own)
        named = [
            Origin(own[j], unit=np.nan if self.model.origins_ is None else each.unit) if each.column is None else each
            for j, each in enumerate(known)
        ]
        return [self._readable(each) for each in named]

    def _readable(self, origin: Origin) -> Origin:
        """Return an origin whose piece can be understood without knowledge of the preparation."""
        if origin.piece == "nan":
            return origin._replace(piece=MISSING)
        if origin.piece in _WORDS_IN_BRACKETS and self._has_words_in_brackets:
            return origin._replace(piece=_WORDS_IN_BRACKETS[origin.piece])
        if self.kinds.get(str(origin.column)) == "high_cardinality" and origin.piece.isdigit():
            return origin._replace(piece=f"words {int(origin.piece) + 1}", unit=np.nan, words=True)  # a text embedding
        return origin

    @property
    def preparation_steps(self) -> list[Any]:
        """Steps of the preparation of the table."""
        preparation = self.model.preparation_
        return [step for _, step in getattr(preparation, "steps", [("", preparation)])]

    @cached_property
    def _has_words_in_brackets(self) -> bool:
        """Whether the preparation writes `none` as `(none)`."""
        return any(isinstance(step, KeepNone) for step in self.preparation_steps)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kind of each raw column according to skrub, if skrub prepared the table."""
        found: Any = next(
            (step.column_to_kind_ for step in self.preparation_steps if hasattr(step, "column_to_kind_")), {}
        )
        return {str(name): str(kind) for name, kind in found.items()}

    @cached_property
    def column_labels(self) -> list[str]:
        """Name of each prepared column for use in sentences, based on its raw column."""
        return [f"{each.column} ({each.piece})" if each.words else each.label for each in self.origins]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Prepared columns that come from each raw column."""
        return grouped([each.column for each in self.origins])

    @cached_property
    def moments(self) -> TableMoments:
        """Weighted mean and standard deviation, and the range, of each prepared column."""
        if sparse.issparse(self.prepared):
            return _sparse_moments(sparse.csc_array(self.prepared, dtype=np.float64), self.weight)
        total, n = float(self.weight.sum()), self.prepared.shape[1]
        first, second, low, high = np.zeros(n), np.zeros(n), np.full(n, np.inf), np.full(n, -np.inf)
        centre = dense(take_rows(self.prepared, slice(0, 1))).sum(axis=0)  # avoids cancellation in the squares
        block = max(CELLS_PER_BLOCK // max(n, 1), 1)
        for start in range(0, self.n_rows, block):
            rows = dense(take_rows(self.prepared, slice(start, start + block)))
            w = self.weight[start : start + block]
            first += w @ (rows - centre)
            second += w @ (rows - centre) ** 2
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        mean = first / total
        return TableMoments(mean + centre, np.sqrt(np.maximum(second / total - mean**2, 0.0)), low, high)

    @cached_property
    def labelling_columns(self) -> list[int]:
        """Prepared columns that the propensity model uses."""
        coef = getattr(self.inner, "propensity_coef_", None)
        return [] if coef is None else np.flatnonzero(np.atleast_2d(coef).any(axis=0)).tolist()

    @cached_property
    def visit_columns(self) -> dict[str, list[int]]:
        """Prepared columns of each visit attribute, one for each look."""
        looks = looks_of(self.inner)
        return {} if looks is None else {str(name): np.asarray(at).tolist() for name, at in looks.visits.items()}


def is_uninformative(frequency: float | None, low: float | None, high: float | None) -> bool:
    """Return whether a fit has no information on unlabelled positives.

    That is the case if nearly all positives are labelled according to the fit, and the interval of the class prior is
    missing, very wide, or so short that it reflects only the uncertainty of the share of labelled rows.
    """
    if frequency is None or frequency <= NEARLY_ALL_LABELLED:
        return False
    return low is None or high is None or is_short(low, high) or high - low > WIDE_INTERVAL


def is_short(low: float, high: float) -> bool:
    """Return whether the interval of a share is too short to be credible."""
    return high < SHORT_RATIO * low


def _refuse_odd(inner: Any, n_rows: int, facts: LooksSummary | None, propensity: Any, audit: Any) -> None:
    if n_rows == 0:
        raise ValueError("X has no rows. Pass the rows that the model was fitted on.")
    if audit is not None and facts is None:
        raise ValueError(
            f"audit was passed, but this {type(inner).__name__} was fitted without audits. Leave audit out, or pass "
            "a model that was fitted with audit=."
        )
    if propensity is not None and hasattr(inner, "predict_propensity"):
        raise ValueError(
            f"propensity was passed, but {type(inner).__name__} predicts its own propensities. Leave propensity out; "
            "it is only for PropensityWeightedClassifier."
        )


def _codes(s: Any, coding: Any, facts: LooksSummary | None, n_rows: int) -> Any:
    """Return labels as 1 and 0, with a column for each look and NaN for looks that did not take place."""
    if facts is None:
        return check_vector(coding.encode(s, "s"), "s", n_rows=n_rows)[:, None]
    codes = check_looks(s, coding=coding, name="s").labels
    if codes.shape != (n_rows, len(facts.names)):
        raise ValueError(
            f"s must have the shape ({n_rows}, {len(facts.names)}): one row for each row of X, and one column for each "
            f"look of the fit; got the shape {codes.shape}."
        )
    return _or_nan(codes)


def _propensity(inner: Any, prepared: Any, labels: Any, facts: LooksSummary | None, given: Vector | None) -> Any:
    if facts is not None:
        return any_label_probability(inner, prepared, labels)
    own = hasattr(inner, "predict_propensity")
    return np.asarray(inner.predict_propensity(prepared), dtype=np.float64) if own else given


def _or_nan(codes: Any) -> Any:
    """Return codes as floats, with NaN for negative codes."""
    return np.where(codes < 0, np.nan, codes)


def _sparse_moments(table: Any, weight: Vector) -> TableMoments:
    """Return the moments of a sparse table without converting it to a dense one."""
    total = float(weight.sum())
    mean, second = table.T @ weight / total, (table * table).T @ weight / total
    ends = (np.asarray(end.todense()).ravel() for end in (table.min(axis=0), table.max(axis=0)))
    return TableMoments(mean, np.sqrt(np.maximum(second - mean**2, 0.0)), *ends)


# --- raw columns


class RawColumnUse(NamedTuple):
    """A raw column: its kind, the prepared columns made from it, and the models that use them."""

    name: Any
    kind: str
    n_missing: int | None
    pieces: list[Origin]  # of the prepared columns
    left_out: str  # why there is no prepared column; empty if there is one
    for_class: bool
    for_labelling: bool


_KINDS_OF_SKRUB = {
    "numeric": "number",
    "low_cardinality": "text, few values",
    "high_cardinality": "text, many values",
    "datetime": "date",
}
NOT_IN_FIT = "not a column of the fit"


def describe_columns(subject: Subject) -> list[RawColumnUse]:
    """Return the use of each raw column."""
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
        why = "" if made or not followed else _why_left_out(values, n_missing, subject.n_rows)
        found.append(
            RawColumnUse(
                name,
                _KINDS_OF_SKRUB.get(subject.kinds.get(str(name), ""), "") or _kind(values),
                n_missing,
                [subject.origins[i] for i in made],
                why if str(name) in known else NOT_IN_FIT,
                bool(of_class & set(made)),
                bool(of_labelling & set(made)),
            )
        )
    return found


def _values(X: Any, j: int) -> Any:
    """Return the values of one column."""
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
        return sum(map(is_missing_value, values))
    return int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0


def _kind(values: Any) -> str:
    """Return the kind of a column, from its type."""
    kind = str(values.dtype).lower()
    for words, name in (
        (("bool",), "yes or no"),
        (("int", "float", "decimal", "double"), "number"),
        (("date", "time"), "date"),
        (("categor", "enum"), "categories"),
        (("object", "str", "utf", "<u"), "text"),
    ):
        if kind.startswith(words) or (name == "number" and kind.startswith("uint")):
            return name
    return kind


def _why_left_out(values: Any, n_missing: int | None, n_rows: int) -> str:
    """Return why there is no prepared column for a raw column."""
    if n_missing == n_rows:
        return "empty"
    return "constant" if _is_constant(values) else "left out by the preparation"


def _is_constant(values: Any) -> bool:
    if hasattr(values, "dropna"):
        return bool(values.dropna().nunique() <= 1)
    if hasattr(values, "drop_nulls"):
        return bool(values.drop_nulls().n_unique() <= 1)
    return not sparse.issparse(values) and len(set(values.tolist())) <= 1
