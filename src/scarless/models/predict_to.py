"""Predictions of rows in files: a fitted model as something that can be sent to where the rows are.

Of every row it gives the probability of the class, the propensity of any label, and the posterior. What was observed of
a row is one label, or labels at several looks with an audit. `scarless.scale` writes what comes of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.labels import LabelCoding
from scarless.checks.looks import (
    Codes,
    LookColumns,
    check_audit,
    check_looks,
    counts_of,
    looks_of,
    refuse_contradictions,
)
from scarless.checks.options import check_choice, check_propensity
from scarless.checks.tables import LARGEST, in_files
from scarless.engines.base import MayMiss, Rows
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import at_least_one, posterior, posterior_known, sigmoid
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import PairObjective
from scarless.scale.columns import PartitionError, labels
from scarless.scale.partitions import Plan
from scarless.scale.predictions import Asked, Written, check_target, refuse_inputs, write_predictions

OUTPUTS = ("probability", "propensity", "posterior")
BLOCK_ROWS = 8192  # that are decided at once: their numbers stay in a core's cache


def predict_to(
    self: Any,
    X: Any,
    folder: str | Path,
    *,
    label: str | Sequence[str] | None = None,
    audit: str | None = None,
    keep: Sequence[str] = (),
    propensity: str | float | None = None,
    dtype: str = "float64",
    force: bool = False,
) -> Written:
    r"""Write the predictions of a table in files into a folder: a Parquet file for each partition of the table.

    Columns are those of `keep`, then ``probability``, :math:`\Pr(y=1|x)`; ``propensity``, :math:`\Pr(s=1|y=1,x)`;
    and ``posterior``, the probability of the class given that the row is not labelled, or given its `label`. Of a
    model that knows no propensities and is not given any, the first only. Of one that was fitted to several looks,
    visit attributes, or labels that may be wrong, without its columns of labels the first only as well: with them
    ``propensity`` is that of a label at any look that took place, and ``posterior`` goes by labels and audits.

    Rows are in the input's order, and a file's name is that of its input with the numbers of its first and last row
    group.

    No file is seen under its name before it is whole. A call that was stopped is repeated as it was, and does what
    is missing: a file is done where its metadata name this model, this input as it is now, and these options.

    Parameters
    ----------
    X : ParquetRows
        Walked by its `scheduler`, each partition decoded where that works and kept nowhere. On a cluster, the
        folder must be one that all workers see.
    folder : path
        Made where it is not there; holds predictions of one model only.
    label : str or list of str, optional
        Column with the observed labels, coded as in `fit`; of several looks one for each.
    audit : str, optional
        Column with the class of rows that somebody checked, for a model of looks or audits.
    keep : list of str, optional
        Columns of the input to copy, such as names of rows.
    propensity : str or float, optional
        Column with known propensities, or one for all, for a classifier that does not learn them.
    dtype : {"float64", "float32"}, default="float64"
        Of the predictions. In float32 files are half as large, and probabilities right to seven digits.
    force : bool, default=False
        Replace predictions of another model, or with other columns, that are in the folder.

    Returns
    -------
    Written
        The `folder`, its `files` in the order of rows, `n_rows`, and `n_new`, how many files were written now.
    """
    check_is_fitted(self)
    check_choice(dtype, "dtype", ("float64", "float32"))
    if not in_files(X):
        raise TypeError(
            f"predict_to takes a table in files, scarless.scale.ParquetRows(folder), got {type(X).__name__}. For "
            "one in memory: predict_proba, predict_propensity, predict_posterior."
        )
    observed = observed_of(self, label, audit)
    refuse_known(self, propensity)
    refuse_inputs(check_target(folder), getattr(X, "files", ()))
    column = label if isinstance(label, str) else None
    model, rows = self._asked_in_files(X)
    table, scorer = scorer_of(model, rows, observed, column)
    given = () if not isinstance(propensity, str) else (propensity,)
    keep, condition = tuple([keep] if isinstance(keep, str) else keep), getattr(X, "condition", "")
    asked = Asked(
        predict=scorer if propensity is None else scorer.with_propensity(propensity, fact=propensity_is_known(self)),
        model=scorer.fingerprint,
        outputs=OUTPUTS,
        label=column,
        others=(*given, *(() if observed is None or observed.plain else observed.columns.all)),
        keep=keep,
        dtype=dtype,
        options=f"{(keep, label, audit, propensity, dtype)!r}{condition and f', where {condition}'}",
    )
    return write_predictions(table, folder, asked, force=force)


# --- what was observed of a row


class Observation(NamedTuple):
    """Labels of some rows at each look, 1, 0 or -1 where there was none, and what audits found, if any were asked."""

    seen: Codes
    audit: Codes | None = None

    @property
    def labelled(self) -> Vector:
        """Whether a row has any label, as a number."""
        return (self.seen == 1).any(axis=1).astype(np.float64)

    def part(self, rows: slice) -> "Observation":
        """Return that of some of the rows."""
        return Observation(self.seen[rows], None if self.audit is None else self.audit[rows])


@dataclass(frozen=True)
class Observed:
    """The columns with labels and audits, and what their values mean.

    `plain`: one label of each row says all, and no row may lack it; without a column all rows count as unlabelled.
    `sure`: no negative has a label.
    """

    columns: LookColumns
    coding: LabelCoding
    plain: bool
    sure: bool

    def __call__(self, source: Any, table: Any) -> Observation:
        """Return what was observed of a partition's rows; raise with their place where a value is unknown."""
        if self.plain:
            seen = self._one_label(source, table) if self.columns.looks else np.zeros(source.n_rows, dtype=np.int8)
            return Observation(seen[:, None])
        where, coding = f"{source.path}, {source.place}", self.coding
        read = {name: labels(table.column(name), MayMiss(name), lambda row: where) for name in self.columns.all}
        try:
            found = [check_looks(read[name][:, None], coding=coding, name=name).labels for name in self.columns.looks]
            seen = np.concatenate(found, axis=1)
            audit = check_audit(read.get(self.columns.audit or ""), n_rows=len(seen), coding=coding)
            if self.sure:
                refuse_contradictions(seen, audit)
        except ValueError as error:
            raise PartitionError(f"{where}: {error}") from error
        return Observation(seen, audit)

    def _one_label(self, source: Any, table: Any) -> Codes:
        y, classes = source.beside(table)["y"], self.coding.classes
        unknown = np.flatnonzero((y != classes[0]) & (y != classes[1]))
        if unknown.size:
            raise PartitionError(
                f"{source.path}, {source.place}: the label {self.columns.looks[0]!r} holds {y[unknown[0]].item()!r} in "
                f"row {unknown[0]} of these; the model was fitted on {classes.tolist()}."
            )
        return np.asarray(y == classes[self.coding.positive], dtype=np.int8)

    def in_words(self, observation: Observation) -> tuple[Any, Any]:
        """Return labels and audits as a user would give them, None where there is none."""
        seen, audit = observation
        words = np.where(seen == 1, *(self.coding.classes.astype(object)[k] for k in self._positive_first))
        return np.where(seen < 0, None, words), None if audit is None else np.where(audit < 0, None, audit == 1)

    @property
    def _positive_first(self) -> tuple[int, int]:
        return self.coding.positive, 1 - self.coding.positive


def observed_of(model: Any, label: Any, audit: str | None) -> Observed | None:
    """Return which columns say what was observed of a row; None where the model needs such columns, and has none.

    Then only the probability can be predicted.
    """
    looks, several = looks_of(model), label is not None and not isinstance(label, str)
    if looks is None and (several or audit is not None):
        raise ValueError(
            f"{type(model).__name__} was fitted to one label of each row: label is the name of one column, and "
            "audit does not go with it."
        )
    if audit is not None and label is None:
        raise ValueError("audit goes with label: name the columns of the labels, too.")
    names = () if label is None else tuple(label) if several else (label,)
    one_label = looks is None or looks.plain
    if label is None and not one_label:
        return None
    plain = one_label and audit is None and not several
    if not plain and len(names) != looks.n_looks:
        raise ValueError(
            f"label names {len(names)} columns; the model was fitted to {looks.n_looks} looks: name one for each "
            "of them, in their order."
        )
    sure = looks is None or looks.objective.false_positives is None
    return Observed(LookColumns(names, audit), model.label_coding_, plain, sure)


# --- what a model says of rows, given what was observed of them


class Answers(NamedTuple):
    """Probability, propensity of any label and posterior of rows; None where the model does not know."""

    probability: Vector
    propensity: Vector | None = None
    posterior: Vector | None = None


@dataclass(frozen=True)
class LogisticModels:
    """Logistic models of the class and of the propensity at each kind of look, if any; asked block by block.

    `largest` is what a number of the table may be at most.
    """

    objective: PairObjective
    parameters: Vector
    largest: float

    def __call__(self, source: Any, table: Any, observed: Observed | None, observation: Observation | None) -> Answers:
        """Return the answers of a partition's rows."""
        below = source.decode(table)["X"].T
        found = []
        for start in range(0, below.shape[1], BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            refuse_large(source, below[:, rows], start, self.largest)
            # In float64, as in memory: coefficients of a float64 fit may be beyond float32, or need more digits.
            X = np.asarray(below[:, rows].T, dtype=np.float64)
            found.append(self._block(X, None if observation is None else observation.part(rows)))
        joined = (None if each[0] is None else np.concatenate(each) for each in zip(*found, strict=True))
        return Answers(*joined)  # type: ignore[arg-type]

    def _block(self, X: Any, observation: Observation | None) -> Answers:
        objective = self.objective
        u, *v = objective.logit_values(X, self.parameters)
        f = sigmoid(u)
        if observation is None or not objective.n_kinds:
            return Answers(f)
        counts, looks = counts_of(observation.seen, objective.n_kinds)
        missed = np.zeros(len(f))  # logarithm of the probability that no look finds a positive row
        for kind, times in enumerate(looks.T):
            found = objective.log_missed(v[kind])
            missed += times * (found if times.all() else np.where(times > 0, found, 0.0))
        return Answers(f, 0.0 - np.expm1(missed), self._posterior(X, u + missed, counts, looks, observation))

    def _posterior(self, X: Any, unseen: Vector, counts: Any, looks: Any, observation: Observation) -> Vector:
        """Return the posterior; `unseen` is its logit for rows without a label, where no negative has one."""
        audit = observation.audit
        if self.objective.false_positives is None:
            q = np.where(counts.any(axis=1), 1.0, sigmoid(unseen))
            return q if audit is None else np.where(audit >= 0, audit, q)
        audit = np.full(len(looks), -1, dtype=np.int8) if audit is None else audit
        rows = Rows({"labels": counts, "looks": looks, "audit": audit}, slice(0, len(looks), 1))
        return self.objective.terms(X, rows, self.parameters).q


def refuse_large(source: Any, block: Any, start: int, largest: float) -> None:
    """Raise where some of a partition's columns, one below the other, hold what is no number, or beyond the largest."""
    if max(block.max(initial=0.0), -block.min(initial=0.0)) <= largest:
        return
    column, row = np.argwhere(~(np.abs(block) <= largest))[0]
    name = source.names[column] if column < len(source.names) else column
    raise PartitionError(
        f"{source.path}, {source.place}: the column {name!r} holds {block[column, row]} in row {start + row} of "
        "these, which no model can use. Fill or replace it, or leave these rows out."
    )


@dataclass(frozen=True)
class AnyModel:
    """Any other model, asked about one data frame after the other by its public methods."""

    model: Any
    names: tuple[str, ...]
    has_propensity: bool
    as_array: bool

    def __call__(self, source: Any, table: Any, observed: Observed | None, observation: Observation | None) -> Answers:
        """Return the answers of a partition's rows."""
        frame = table.select(list(self.names)).to_pandas(ignore_metadata=True)
        X, model = frame.to_numpy() if self.as_array else frame, self.model
        f = np.ascontiguousarray(model.predict_proba(X)[:, model.label_coding_.positive], dtype=np.float64)
        if not self.has_propensity or observed is None or observation is None:
            return Answers(f)
        if observed.plain:
            return Answers(f, np.asarray(model.predict_propensity(X), dtype=np.float64))
        S, audit = observed.in_words(observation)
        q = np.asarray(model.predict_posterior(X, S, audit=audit), dtype=np.float64)
        e = [np.asarray(model.predict_propensity(X, look=k), dtype=np.float64) for k in range(S.shape[1])]
        return Answers(f, at_least_one(np.where(observation.seen >= 0, np.stack(e, axis=1), 0.0)), q)


@dataclass(frozen=True)
class Scorer:
    """What is written of a partition's rows: small, picklable, and with the same `fingerprint` for the same model.

    `propensity` is a column with known propensities, or one number for all rows; `fact` says that they are facts, so
    that an unlabelled row of propensity 1 is surely negative.
    """

    answers: LogisticModels | AnyModel
    observed: Observed | None
    fingerprint: str
    propensity: str | float | None = None
    fact: bool = False

    def __call__(self, source: Any, table: Any) -> dict[str, Vector]:
        """Return the columns of predictions by name."""
        observation = None if self.observed is None else self.observed(source, table)
        f, e, q = self.answers(source, table, self.observed, observation)
        if self.propensity is not None:
            e, q = self._known_propensity(source, table, self.propensity), None
        if e is None or observation is None:
            return {"probability": f}
        if q is None:
            q = (posterior_known if self.fact else posterior)(f, e, observation.labelled)
        return dict(zip(OUTPUTS, (f, e, q), strict=True))

    def with_propensity(self, propensity: str | float, *, fact: bool) -> "Scorer":
        """Return the same with known propensities."""
        return Scorer(self.answers, self.observed, self.fingerprint, propensity, fact)

    @staticmethod
    def _known_propensity(source: Any, table: Any, given: str | float) -> Vector:
        if not isinstance(given, str):
            return np.full(source.n_rows, float(given))
        e = np.asarray(source.numbers(table, given), dtype=np.float64)
        bad = np.flatnonzero(~((e > 0) & (e <= 1)))
        if bad.size:
            raise PartitionError(
                f"{source.path}, {source.place}: the column {given!r} holds propensities, which lie in (0, 1]; "
                f"{bad.size} of {e.size} do not (first: {e[bad[0]]:g} in row {bad[0]} of these)."
            )
        return e


def refuse_known(model: Any, propensity: Any) -> None:
    """Raise where a propensity is given that a model has no use for, or that cannot be one."""
    if propensity is None:
        return
    has_own = hasattr(model, "predict_propensity")
    if has_own or not hasattr(model, "predict_posterior"):
        what = "has one of its own" if has_own else "has no use for it"
        raise ValueError(f"propensity is given, but {type(model).__name__} {what}.")
    if not isinstance(propensity, str):
        check_propensity(propensity, n_rows=1)


def propensity_is_known(model: Any) -> bool:
    """Whether an unlabelled row of propensity 1 is surely negative: the propensity was given, not estimated."""
    return bool(model._propensity_is_fact)


def scorer_of(model: Any, X: Any, observed: Observed | None, label: str | None) -> tuple[Any, Scorer]:
    """Return a table in files with the columns of a fit, and what predicts its rows."""
    table, plan = with_columns(model, X, label)
    has_own, largest = hasattr(model, "predict_propensity"), LARGEST[np.dtype(plan.dtype)]
    logistic = _logistic_models(model, largest, looked=observed is None or not observed.plain)
    if logistic is None:
        nameless = not hasattr(model, "feature_names_in_")
        asked = AnyModel(model, tuple(plan.names), has_own, as_array=nameless)
        return table, Scorer(asked, observed, joblib.hash(model))
    constant = float(model.label_frequency_) if has_own and model._one_propensity else None
    told = type(model).__name__, list(plan.names), model.label_coding_, getattr(X, "token", ""), constant
    return table, Scorer(logistic, observed, joblib.hash((logistic.objective, logistic.parameters, told)), constant)


def _logistic_models(model: Any, largest: float, *, looked: bool) -> LogisticModels | None:
    """Return the logistic models of a classifier: a pair, or that of the class alone; None where there are others.

    `looked`: one label of each row would not say what the model knows of it.
    """
    pair = getattr(model, "fitted_pair_", None)
    if pair is not None and pair.source is None:
        return LogisticModels(pair.objective, pair.parameters, largest)
    if looked or hasattr(model, "preparation_") or model._inner() is not None or not hasattr(model, "coef_"):
        return None
    if hasattr(model, "predict_propensity") and not model._one_propensity:
        return None
    parameters = np.append(np.asarray(model.coef_, dtype=np.float64).ravel(), float(model.intercept_[0]))
    design = Design.of(np.arange(model.n_features_in_))
    return LogisticModels(LooksLikelihood(design, ()), parameters, largest)


def with_columns(model: Any, X: Any, label: str | None) -> tuple[Any, Plan]:
    """Return a table in files with the columns of a fit, and its plan, or raise."""
    known = getattr(model, "feature_names_in_", None)
    table = X.select(list(known)) if known is not None and hasattr(X, "select") else X
    plan = table.plan(label, raw=True)
    if len(plan.names) != model.n_features_in_ or (known is not None and list(known) != list(plan.names)):
        raise ValueError(
            f"X has the columns {_few(plan.names)}, and {type(model).__name__} was fitted to {model.n_features_in_} "
            f"columns{'' if known is None else f', {_few(known)}'}. Say which: ParquetRows(folder, columns=[...])."
        )
    return table, plan


def _few(names: Any) -> str:
    return f"{', '.join(map(str, names[:5]))}{', ...' if len(names) > 5 else ''}"
