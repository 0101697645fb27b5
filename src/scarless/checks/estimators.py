"""Estimators around a model: pipelines, what stands at their end, and tools that take the observed labels for classes.

Such tools of scikit-learn cannot know better: `y` is all they are given. What they fit or choose by it is a model of
the labels, so that the correction for missing ones is undone without a word. They are noticed by who calls the fit.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from sklearn import config_context
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from scarless.numerics.arrays import Vector
from scarless.outside.notices import warn_user

_TOOLS = ("sklearn.", "joblib.")
_FITTING = {"sklearn.calibration": "CalibratedClassifierCV", "sklearn.ensemble._stacking": "StackingClassifier"}
_SCORING = ("_fit_and_score", "_fit_and_score_over_thresholds")  # they fit to the very labels that they score against


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


# --- tools that take labels for classes


def warn_if_fitted_to_labels(model: Any) -> None:
    """Warn in a fit whose caller goes on to fit something else to the labels, on top of the model's probabilities."""
    for frame in _callers(sys._getframe(1)):
        tool = _FITTING.get(_module(frame))
        if tool is not None:
            name = type(model).__name__
            warn_user(
                f"{tool} takes y for classes, but {name} is given observed labels: fitted to them, the probabilities "
                f"become those of a label, and the correction for missing ones is undone. Use {name} without it; "
                "scarless.diagnostics.LabelCalibrationDisplay and ClassCalibrationDisplay show how far its "
                "probabilities are right.",
                UserWarning,
            )
            return


def warn_if_scored_by_labels(model: Any) -> None:
    """Warn in a prediction that is compared with labels as if these were classes. Costs next to nothing for others.

    Within a cross-validation, a search or the tuning of a threshold `y` is what was fitted to; elsewhere it may well be
    the true class, and only the picture that asks for it by name is told of.
    """
    function, name = None, type(model).__name__
    for frame in _callers(sys._getframe(1)):  # a classifier of raw tables stands in between
        if function is None and _module(frame) == "sklearn.metrics._scorer":
            function = getattr(frame.f_locals.get("self"), "_score_func", None)
        elif function is not None and frame.f_code.co_name in _SCORING:
            if getattr(function, "__module__", "").startswith("sklearn."):
                _tell_of_score(name, function.__name__, frame)
            return
        elif _module(frame) == "sklearn.calibration" and frame.f_code.co_name == "from_estimator":
            warn_user(
                f"CalibrationDisplay takes y for classes. If these are observed labels, {name} will look wrong where "
                "it is right: use scarless.diagnostics.ClassCalibrationDisplay, or LabelCalibrationDisplay.",
                UserWarning,
            )
            return


def _tell_of_score(model: str, function: str, frame: FrameType) -> None:
    if frame.f_code.co_name == "_fit_and_score":
        instead = "Use scoring=scarless.metrics.make_pu_scorer(...), or the default, the likelihood of held-out labels."
    elif frame.f_locals.get("train_idx") is None:  # fitted before: these rows may have been looked into
        return
    else:
        instead = "See scarless.metrics.make_pu_scorer for a scorer of thresholds that knows of propensities."
    warn_user(
        f"{function} takes y for classes, but {model} is given observed labels: every positive without a label counts "
        f"as a mistake, and what imitates the labels best is chosen. {instead}",
        UserWarning,
    )


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Walk up from this package's own frames through those of tools, to the first that is neither."""
    while frame is not None and _module(frame).startswith("scarless."):
        frame = frame.f_back
    while frame is not None and _module(frame).startswith(_TOOLS):
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
