"""What a fitted model says of rows: probabilities of the positive class, decisions, ranks, its own propensity."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from scarless.checks.estimators import innermost
from scarless.checks.labels import LabelCoding, check_labels
from scarless.checks.looks import refuse_looks
from scarless.checks.rows import named_values
from scarless.checks.vectors import check_propensity, check_vector
from scarless.engines.base import known_rows
from scarless.numerics.arrays import Vector


class Answers(NamedTuple):
    """Labels as 0 and 1, predicted probabilities of the positive class and propensities of the same rows."""

    s: Vector
    f: Vector
    e: Vector


def coding_of(model: Any, pos_label: Any = None) -> LabelCoding:
    """Return which of a model's two classes is the positive one: as it was fitted, or by `pos_label`."""
    if pos_label is None:
        coding = getattr(innermost(model), "_coding", None)
        if isinstance(coding, LabelCoding):
            return coding
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise ValueError(
            f"{type(model).__name__} has no classes_; a fitted classifier of two classes is needed, "
            "e.g. SAREMClassifier().fit(X, s)."
        )
    return check_labels(classes, pos_label=pos_label)


def encode(coding: LabelCoding, y: Any) -> Vector:
    """Return observed labels as 0 and 1."""
    return check_vector(coding.encode(y), "y")


def class_probability(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return the predicted probability of the positive class."""
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} has no predict_proba, but probabilities are scored here. Take a model that has "
            "them, or score decisions or ranks: 'accuracy', 'f1', 'roc_auc'."
        )
    return np.asarray(model.predict_proba(X), dtype=np.float64)[:, coding.positive]


def decisions(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return 1 where the model predicts the positive class."""
    return (np.asarray(model.predict(X)) == coding.classes[coding.positive]).astype(np.float64)


def ranking(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return numbers that are higher for rows more likely to be positive: probabilities, or else decision values."""
    if hasattr(model, "predict_proba") or not hasattr(model, "decision_function"):
        return class_probability(model, X, coding)
    values = np.asarray(model.decision_function(X), dtype=np.float64).reshape(-1)
    return values if coding.positive == 1 else -values


def own_propensity(model: Any, X: Any) -> Vector | None:
    """Return the propensity that a model predicts, also from inside a pipeline or a search; None if it has none."""
    if hasattr(model, "predict_propensity"):
        refuse_looks(
            model,
            "This measure",
            instead="Its predict_propensity is that of one look. Use model.score(X, S) and predict_posterior(X, S).",
        )
        return np.asarray(model.predict_propensity(X), dtype=np.float64)
    if isinstance(model, Pipeline):
        return own_propensity(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
    if hasattr(model, "best_estimator_"):
        return own_propensity(model.best_estimator_, X)
    return None


def answers_of(model: Any, X: Any, s: Any, propensity: Any, *, pos_label: Any, user: str) -> Answers:
    """Return probabilities, labels and propensities: those given, else the model's own, else an error."""
    coding, X = coding_of(model, pos_label), known_rows(X)
    f = class_probability(model, X, coding)
    labels = check_vector(encode(coding, named_values(X, s, labels=True)), "s", n_rows=f.size)
    e = own_propensity(model, X) if propensity is None else named_values(X, propensity)
    if e is None:
        raise ValueError(
            f"{user} needs the propensity of every row: pass propensity=, or a model with predict_propensity, such as "
            f"SAREMClassifier; {type(model).__name__} has none."
        )
    return Answers(labels, f, check_propensity(e, n_rows=f.size))
