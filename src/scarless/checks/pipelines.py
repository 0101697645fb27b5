"""What stands at the end of a pipeline, and how row weights get there."""

from collections.abc import Callable
from typing import Any

from sklearn import config_context
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from scarless.numerics.arrays import Vector


def final_step(estimator: Any) -> Any:
    """Return the estimator at the end of a pipeline, however deep, or the estimator itself.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> final_step(make_pipeline("passthrough", make_pipeline(LogisticRegression())))
    LogisticRegression()
    """
    return final_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def opened(model: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the fitted classifier inside pipelines and prepared tables, and what turns a raw table into what it sees.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit([[1.0], [3.0]], [0, 1])
    >>> model, prepare = opened(pipeline)
    >>> model, prepare([[5.0]])
    (LogisticRegression(), array([[3.]]))
    """
    if isinstance(model, Pipeline):
        inner, then = opened(model.steps[-1][1])
        before = model[:-1].transform if len(model.steps) > 1 else _as_it_is
    elif is_prepared(model):
        (inner, then), before = opened(model.estimator_), model.prepare
    else:
        return model, _as_it_is
    return inner, lambda X: then(before(X))


def is_prepared(model: Any) -> bool:
    """Whether a fitted model is a classifier with its preparation in front."""
    return hasattr(model, "prepare") and hasattr(model, "estimator_")


def innermost(model: Any) -> Any:
    """Return the classifier at the end of pipelines and inside of searches and prepared tables."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_") or is_prepared(model):
        if isinstance(model, Pipeline):
            model = model.steps[-1][1]
        else:
            model = model.estimator_ if is_prepared(model) else model.best_estimator_
    return model


def _as_it_is(X: Any) -> Any:
    return X


def fit_weighted(estimator: Any, X: Any, y: Any, weight: Vector) -> None:
    """Fit with row weights, which a pipeline gets under the name of its last step.

    Outside metadata routing: the weights are ours, not the user's, and nobody was asked to request them.
    """
    key, inner = "sample_weight", estimator
    while isinstance(inner, Pipeline):
        step, inner = inner.steps[-1]
        key = f"{step}__{key}"
    with config_context(enable_metadata_routing=False):
        estimator.fit(X, y, **{key: weight})


def takes_weights(estimator: Any) -> bool:
    """Say whether an estimator, or what a pipeline ends in, can be fitted with row weights."""
    return bool(has_fit_parameter(final_step(estimator), "sample_weight"))
