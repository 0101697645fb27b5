"""Predictions for rows in files.

A `Scorer` is a picklable form of a fitted model, which is sent to the workers. It computes the class probability,
propensity and posterior of each row from its attributes, labels and audits. `scarless.scale` writes the predictions.
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
from scarless.checks.tables import MAX_SUMMABLE_VALUE, in_files
from scarless.engines.base import NullableColumn, Rows
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import at_least_one, posterior, posterior_known, sigmoid
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import PairObjective
from scarless.scale.columns import PartitionError, labels
from scarless.scale.partitions import Plan
from scarless.scale.predictions import (
    PredictionRequest,
    WrittenPredictions,
    check_target,
    refuse_inputs,
    write_predictions,
)

OUTPUTS = ("probability", "propensity", "posterior")
BLOCK_ROWS = 8192  # rows predicted at once, so that their values stay in the cache of a core


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
) -> WrittenPredictions:
    r"""Write predictions for a table in files into a folder, one Parquet file for each partition.

    The files contain the columns of `keep`, then ``probability``, :math:`\Pr(y=1|x)`; ``propensity``,
    :math:`\Pr(s=1|y=1,x)`; and ``posterior``, :math:`\Pr(y=1|x,s)`. Without `label`, all rows count as unlabelled. With
    several looks, ``propensity`` is the probability that a positive gets a label at any look that took place.

    Some models write only ``probability``: models without propensities and, if `label` is not given, models of several
    looks, visit attributes or false positives.

    Rows keep their order. Each file has the name of its input file, with the numbers of the first and the last row
    group that it covers. A file gets this name only when it is complete. To continue after an interruption, repeat the
    call: files whose metadata match the model, the input and the options are not written again.

    Parameters
    ----------
    X : ParquetRows
        Table in files, read by its `scheduler`, one partition at a time. On a cluster, all workers must be able to
        write to `folder`.
    folder : path
        Folder for the predictions of one model; it is created if necessary.
    label : str or list of str, optional
        Column with the observed labels, coded as in `fit`; with several looks, one column for each look.
    audit : str, optional
        Column with the true class of audited rows, for models of looks or audits.
    keep : list of str, optional
        Columns of the input to copy, such as row identifiers.
    propensity : str or float, optional
        Column with known propensities, or one value for all rows, for classifiers that do not estimate them.
    dtype : {"float64", "float32"}, default="float64"
        Type of the predictions. With float32, files are half as large, and probabilities have seven digits.
    force : bool, default=False
        Whether to replace predictions in the folder that were made by another model or with other options.

    Returns
    -------
    WrittenPredictions
        The `folder`, its `files` in the order of rows, `n_rows`, and `n_new`, the number of files written by this call.
    """
    check_is_fitted(self)
    check_choice(dtype, "dtype", ("float64", "float32"))
    if not in_files(X):
        raise TypeError(
            f"X must be a table in files, scarless.scale.ParquetRows(folder); got {type(X).__name__}. For tables in "
            "memory use predict_proba, predict_propensity and predict_posterior."
        )
    observed = observed_of(self, label, audit)
    refuse_known(self, propensity)
    refuse_inputs(check_target(folder), getattr(X, "files", ()))
    column = label if isinstance(label, str) else None
    model, rows = self._model_for_files(X)
    table, scorer = scorer_of(model, rows, observed, column)
    given = () if not isinstance(propensity, str) else (propensity,)
    keep, condition = tuple([keep] if isinstance(keep, str) else keep), getattr(X, "condition", "")
    asked = PredictionRequest(
        predict=scorer if propensity is None else scorer.with_propensity(propensity, known=propensity_is_known(self)),
        model=scorer.fingerprint,
        outputs=OUTPUTS,
        label=column,
        others=(*given, *(() if observed is None or observed.plain else observed.columns.all)),
        keep=keep,
        dtype=dtype,
        options=f"{(keep, label, audit, propensity, dtype)!r}{condition and f', where {condition}'}",
    )
    return write_predictions(table, folder, asked, force=force)


# --- labels and audits


class Observation(NamedTuple):
    """Labels of some rows at each look (1, 0, or -1 if the look did not take place), and their audits."""

    seen: Codes
    audit: Codes | None = None

    @property
    def labelled(self) -> Vector:
        """1.0 for rows with any label, else 0.0."""
        return (self.seen == 1).any(axis=1).astype(np.float64)

    def part(self, rows: slice) -> "Observation":
        """Return labels and audits of some of the rows."""
        return Observation(self.seen[rows], None if self.audit is None else self.audit[rows])


@dataclass(frozen=True)
class ObservedColumns:
    """Columns with labels and audits, and the coding of their values."""

    columns: LookColumns
    coding: LabelCoding
    plain: bool  # whether there is one label for each row, without gaps; if no column is given, rows are unlabelled
    sure: bool  # whether false positives are impossible

    def __call__(self, source: Any, table: Any) -> Observation:
        """Return labels and audits of a partition; raise with the place of the first unknown value."""
        if self.plain:
            seen = self._one_label(source, table) if self.columns.looks else np.zeros(source.n_rows, dtype=np.int8)
            return Observation(seen[:, None])
        where, coding = f"{source.path}, {source.place}", self.coding
        read = {name: labels(table.column(name), NullableColumn(name), lambda row: where) for name in self.columns.all}
        try:
            found = [check_looks(read[name][:, None], coding=coding, name=name).labels for name in self.columns.looks]
            seen = np.concatenate(found, axis=1)
            audit = check_audit(read.get(self.columns.audit or ""), n_rows=len(seen), coding=coding)
            if self.sure:
                refuse_contradictions(seen, audit)
        except ValueError as error:
            rows = " Row numbers are counted from 0 within this partition." if "(first: row " in str(error) else ""
            raise PartitionError(f"{where}: {error}{rows}") from error
        return Observation(seen, audit)

    def _one_label(self, source: Any, table: Any) -> Codes:
        y, classes = source.beside(table)["y"], self.coding.classes
        unknown = np.flatnonzero((y != classes[0]) & (y != classes[1]))
        if unknown.size:
            raise PartitionError(
                f"{source.path}, {source.place}: the label column {self.columns.looks[0]!r} has the value "
                f"{y[unknown[0]].item()!r} in row {unknown[0]} of this partition; the model was fitted with "
                f"{classes.tolist()}. Recode the column as in fit, or leave these rows out."
            )
        return np.asarray(y == classes[self.coding.positive], dtype=np.int8)

    def in_words(self, observation: Observation) -> tuple[Any, Any]:
        """Return labels and audits in the coding of the user, with None for gaps."""
        seen, audit = observation
        words = np.where(seen == 1, *(self.coding.classes.astype(object)[k] for k in self._positive_first))
        return np.where(seen < 0, None, words), None if audit is None else np.where(audit < 0, None, audit == 1)

    @property
    def _positive_first(self) -> tuple[int, int]:
        return self.coding.positive, 1 - self.coding.positive


def observed_of(model: Any, label: Any, audit: str | None) -> ObservedColumns | None:
    """Return the columns of labels and audits.

    If the model needs them and `label` is None, return None: only the class probability can then be predicted.
    """
    looks, several = looks_of(model), label is not None and not isinstance(label, str)
    if looks is None and (several or audit is not None):
        raise ValueError(
            f"{type(model).__name__} was fitted to one label for each row. Pass the name of one column as label, and "
            "leave audit out."
        )
    if audit is not None and label is None:
        raise ValueError("audit is given without label. Name the label column as label=, or leave audit out.")
    names = () if label is None else tuple(label) if several else (label,)
    one_label = looks is None or looks.plain
    if label is None and not one_label:
        return None
    plain = one_label and audit is None and not several
    if not plain and len(names) != looks.n_looks:
        raise ValueError(
            f"label names {_columns(len(names))}, but the model was fitted to {looks.n_looks} "
            f"look{'' if looks.n_looks == 1 else 's'}. Name one column for each look, in order."
        )
    sure = looks is None or looks.objective.false_positives is None
    return ObservedColumns(LookColumns(names, audit), model.label_coding_, plain, sure)


# --- predictions


class RowPredictions(NamedTuple):
    """Class probability, propensity and posterior of rows; None for a value that the model cannot predict.

    With several looks, the propensity is the probability of a label at any look that took place.
    """

    probability: Vector
    propensity: Vector | None = None
    posterior: Vector | None = None


@dataclass(frozen=True)
class LogisticModels:
    """Logistic models of the class and of the propensities, which predict block by block."""

    objective: PairObjective
    parameters: Vector
    largest: float  # largest absolute value that the table may have

    def __call__(
        self, source: Any, table: Any, observed: ObservedColumns | None, observation: Observation | None
    ) -> RowPredictions:
        """Return the predictions of a partition's rows."""
        below = source.decode(table)["X"].T
        found = []
        for start in range(0, below.shape[1], BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            refuse_large(source, below[:, rows], start, self.largest)
            # In float64, as in memory, because coefficients of a float64 fit can exceed the range of float32.
            X = np.asarray(below[:, rows].T, dtype=np.float64)
            found.append(self._block(X, None if observation is None else observation.part(rows)))
        joined = (None if each[0] is None else np.concatenate(each) for each in zip(*found, strict=True))
        return RowPredictions(*joined)  # type: ignore[arg-type]

    def _block(self, X: Any, observation: Observation | None) -> RowPredictions:
        objective = self.objective
        u, *v = objective.logit_values(X, self.parameters)
        f = sigmoid(u)
        if observation is None or not objective.n_kinds:
            return RowPredictions(f)
        counts, looks = counts_of(observation.seen, objective.n_kinds)
        missed = np.zeros(len(f))  # logarithm of the probability that a positive gets no label at any look
        for kind, times in enumerate(looks.T):
            found = objective.log_missed(v[kind])
            missed += times * (found if times.all() else np.where(times > 0, found, 0.0))
        return RowPredictions(f, 0.0 - np.expm1(missed), self._posterior(X, u + missed, counts, looks, observation))

    def _posterior(self, X: Any, unseen: Vector, counts: Any, looks: Any, observation: Observation) -> Vector:
        """Return the posterior; `unseen` is its logit for unlabelled rows, if there are no false positives."""
        audit = observation.audit
        if self.objective.false_positives is None:
            q = np.where(counts.any(axis=1), 1.0, sigmoid(unseen))
            return q if audit is None else np.where(audit >= 0, audit, q)
        audit = np.full(len(looks), -1, dtype=np.int8) if audit is None else audit
        rows = Rows({"labels": counts, "looks": looks, "audit": audit}, slice(0, len(looks), 1))
        return self.objective.terms(X, rows, self.parameters).q


def refuse_large(source: Any, block: Any, start: int, largest: float) -> None:
    """Raise if a transposed block has a missing value, or a value whose absolute value is above `largest`."""
    if max(block.max(initial=0.0), -block.min(initial=0.0)) <= largest:
        return
    column, row = np.argwhere(~(np.abs(block) <= largest))[0]
    name = source.names[column] if column < len(source.names) else column
    raise PartitionError(
        f"{source.path}, {source.place}: the column {name!r} has the value {block[column, row]} in row {start + row} "
        f"of this partition. Values must be finite and at most {largest:.1e} in absolute value. Replace the value, or "
        "leave the row out."
    )


@dataclass(frozen=True)
class AnyModel:
    """Any other model; its public methods predict each partition as a data frame."""

    model: Any
    names: tuple[str, ...]
    has_propensity: bool
    as_array: bool

    def __call__(
        self, source: Any, table: Any, observed: ObservedColumns | None, observation: Observation | None
    ) -> RowPredictions:
        """Return the predictions of a partition's rows."""
        frame = table.select(list(self.names)).to_pandas(ignore_metadata=True)
        X, model = frame.to_numpy() if self.as_array else frame, self.model
        f = np.ascontiguousarray(model.predict_proba(X)[:, model.label_coding_.positive], dtype=np.float64)
        if not self.has_propensity or observed is None or observation is None:
            return RowPredictions(f)
        if observed.plain:
            return RowPredictions(f, np.asarray(model.predict_propensity(X), dtype=np.float64))
        S, audit = observed.in_words(observation)
        q = np.asarray(model.predict_posterior(X, S, audit=audit), dtype=np.float64)
        e = [np.asarray(model.predict_propensity(X, look=k), dtype=np.float64) for k in range(S.shape[1])]
        return RowPredictions(f, at_least_one(np.where(observation.seen >= 0, np.stack(e, axis=1), 0.0)), q)


@dataclass(frozen=True)
class Scorer:
    """Function that predicts the rows of a partition. It is small and picklable.

    Scorers of equal models have the same `fingerprint`.
    """

    predict: LogisticModels | AnyModel
    observed: ObservedColumns | None
    fingerprint: str
    propensity: str | float | None = None  # column with known propensities, or one number for all rows
    known: bool = False  # whether propensities are exact, so that unlabelled rows with propensity 1 are negative

    def __call__(self, source: Any, table: Any) -> dict[str, Vector]:
        """Return the columns of predictions by name."""
        observation = None if self.observed is None else self.observed(source, table)
        f, e, q = self.predict(source, table, self.observed, observation)
        if self.propensity is not None:
            e, q = self._known_propensity(source, table, self.propensity), None
        if e is None or observation is None:
            return {"probability": f}
        if q is None:
            q = (posterior_known if self.known else posterior)(f, e, observation.labelled)
        return dict(zip(OUTPUTS, (f, e, q), strict=True))

    def with_propensity(self, propensity: str | float, *, known: bool) -> "Scorer":
        """Return a scorer with given propensities."""
        return Scorer(self.predict, self.observed, self.fingerprint, propensity, known)

    @staticmethod
    def _known_propensity(source: Any, table: Any, given: str | float) -> Vector:
        if not isinstance(given, str):
            return np.full(source.n_rows, float(given))
        e = np.asarray(source.numbers(table, given), dtype=np.float64)
        bad = np.flatnonzero(~((e > 0) & (e <= 1)))
        if bad.size:
            raise PartitionError(
                f"{source.path}, {source.place}: propensities in the column {given!r} must be in (0, 1]; {bad.size} of "
                f"{e.size} are not (first: {e[bad[0]]:g} in row {bad[0]} of this partition). Correct them, or leave "
                "these rows out."
            )
        return e


def refuse_known(model: Any, propensity: Any) -> None:
    """Raise if a propensity is given that the model does not need, or that is not in (0, 1]."""
    if propensity is None:
        return
    has_own = hasattr(model, "predict_propensity")
    if has_own or not hasattr(model, "predict_posterior"):
        what = "estimates it" if has_own else "does not use it"
        raise ValueError(f"propensity is given, but {type(model).__name__} {what}. Leave propensity out.")
    if not isinstance(propensity, str):
        check_propensity(propensity, n_rows=1)


def propensity_is_known(model: Any) -> bool:
    """Return whether the propensity is exact, so that unlabelled rows with propensity 1 are negative."""
    return bool(model._propensity_is_known)


def scorer_of(model: Any, X: Any, observed: ObservedColumns | None, label: str | None) -> tuple[Any, Scorer]:
    """Return a table in files with the columns of the fit, and the scorer of its rows."""
    table, plan = with_columns(model, X, label)
    has_own, largest = hasattr(model, "predict_propensity"), MAX_SUMMABLE_VALUE[np.dtype(plan.dtype)]
    logistic = _logistic_models(model, largest, needs_looks=observed is None or not observed.plain)
    if logistic is None:
        nameless = not hasattr(model, "feature_names_in_")
        asked = AnyModel(model, tuple(plan.names), has_own, as_array=nameless)
        return table, Scorer(asked, observed, joblib.hash(model))
    constant = float(model.label_frequency_) if has_own and model._one_propensity else None
    identity = type(model).__name__, list(plan.names), model.label_coding_, getattr(X, "token", ""), constant
    return table, Scorer(logistic, observed, joblib.hash((logistic.objective, logistic.parameters, identity)), constant)


def _logistic_models(model: Any, largest: float, *, needs_looks: bool) -> LogisticModels | None:
    """Return the logistic models of a classifier: a pair, or only the class model; None for other classifiers.

    `needs_looks`: whether the model needs labels of several looks.
    """
    pair = getattr(model, "fitted_pair_", None)
    if pair is not None and pair.source is None:
        return LogisticModels(pair.objective, pair.parameters, largest)
    if needs_looks or hasattr(model, "preparation_") or model._inner() is not None or not hasattr(model, "coef_"):
        return None
    if hasattr(model, "predict_propensity") and not model._one_propensity:
        return None
    parameters = np.append(np.asarray(model.coef_, dtype=np.float64).ravel(), float(model.intercept_[0]))
    design = Design.of(np.arange(model.n_features_in_))
    return LogisticModels(LooksLikelihood(design, ()), parameters, largest)


def with_columns(model: Any, X: Any, label: str | None) -> tuple[Any, Plan]:
    """Return a table in files with the columns of the fit, and its plan; raise if columns are missing."""
    known = getattr(model, "feature_names_in_", None)
    table = X.select(list(known)) if known is not None and hasattr(X, "select") else X
    plan = table.plan(label, raw=True)
    if len(plan.names) != model.n_features_in_ or (known is not None and list(known) != list(plan.names)):
        raise ValueError(
            f"X has the columns {_first_names(plan.names)}, but {type(model).__name__} was fitted to "
            f"{model.n_features_in_} columns{'' if known is None else f', {_first_names(known)}'}. Select the columns "
            "of the fit: ParquetRows(folder, columns=[...])."
        )
    return table, plan


def _columns(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


def _first_names(names: Any) -> str:
    return f"{', '.join(map(str, names[:5]))}{', ...' if len(names) > 5 else ''}"
