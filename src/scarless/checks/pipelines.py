"""What stands at the end of a pipeline, and how row weights get there."""

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
