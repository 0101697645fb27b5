"""Functions that find the model inside a pipeline, and warnings about tools that treat observed labels as classes.

Tools of scikit-learn such as ``CalibratedClassifierCV`` treat `y` as classes when they fit or select models. If `y` are
observed labels, unlabelled positives count as negatives. Such tools are recognised by their frames in the call stack.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from scarless.numerics.arrays import Vector
from scarless.outside.notices import warn_user

# Parameters of classifiers that give the classes weights or shares, with values that change nothing.
_CLASS_WEIGHTS: dict[str, tuple[Any, ...]] = {
    "class_weight": (None,),
    "class_weights": (None,),
    "scale_pos_weight": (None, 1),
    "is_unbalance": (None, False),
    "auto_class_weights": (None,),
    "priors": (None,),
    "class_prior": (None,),
}
_TOOL_MODULES = ("sklearn.", "joblib.")
_FITTING_TOOLS = {"sklearn.calibration": "CalibratedClassifierCV", "sklearn.ensemble._stacking": "StackingClassifier"}
# Functions of scikit-learn that fit a model and then score it. Both steps use the same `y`, so both see labels.
_SCORING_FUNCTIONS = ("_fit_and_score", "_fit_and_score_over_thresholds")


def final_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, which may contain other pipelines, or the estimator itself.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> final_step(make_pipeline("passthrough", make_pipeline(LogisticRegression())))
    LogisticRegression()
    """
    return final_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def opened(model: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the fitted classifier inside pipelines and `TableClassifier`, and a function that prepares a table for it.

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
    """Return whether a fitted model prepares its table, like `TableClassifier`."""
    return hasattr(model, "prepare") and hasattr(model, "estimator_")


def innermost(model: Any) -> Any:
    """Return the classifier inside pipelines, searches and `TableClassifier`."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_") or is_prepared(model):
        if isinstance(model, Pipeline):
            model = model.steps[-1][1]
        else:
            model = model.estimator_ if is_prepared(model) else model.best_estimator_
    return model


def _as_it_is(X: Any) -> Any:
    return X


def fit_weighted(estimator: Any, X: Any, y: Any, weight: Vector) -> None:
    """Fit an estimator, or the steps of a pipeline, with row weights for the last step.

    Metadata routing is off, because these weights are internal and the user has not requested them.
    """
    key, inner = "sample_weight", estimator
    while isinstance(inner, Pipeline):
        step, inner = inner.steps[-1]
        key = f"{step}__{key}"
    with config_context(enable_metadata_routing=False):
        estimator.fit(X, y, **{key: weight})


def seeded_clone(estimator: Any, rng: np.random.Generator) -> Any:
    """Return an unfitted clone with a seed in every `random_state` that is None, also inside pipelines."""
    copy = clone(estimator)
    unset = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**{name: int(rng.integers(2**31 - 1)) for name in sorted(unset)})


def takes_weights(estimator: Any) -> bool:
    """Return whether an estimator, or the last step of a pipeline, accepts row weights."""
    return bool(has_fit_parameter(final_step(estimator), "sample_weight"))


def warn_about_class_weights(model: Any) -> bool:
    """Warn if a classifier inside a model weights the classes, and return whether it does.

    Class weights make the probabilities of the classifier wrong. Models that recalibrate them are not affected.
    """
    for name in ("estimator", "propensity_estimator"):
        inner = final_step(getattr(model, name, None))
        if isinstance(inner, type) or not hasattr(inner, "get_params"):
            continue
        for option, value in inner.get_params(deep=False).items():
            if option in _CLASS_WEIGHTS and not _is_one_of(value, _CLASS_WEIGHTS[option]):
                warn_user(
                    f"{type(model).__name__}: {name} has {option}={value!r}, which changes the share of positive rows "
                    "in its fit. Its probabilities are then wrong, and so are the estimates that come from them. Leave "
                    f"{option} out. To call more rows positive, use a lower cut-off for the probabilities instead.",
                    UserWarning,
                )
                return True
    return False


def _is_one_of(value: Any, harmless: tuple[Any, ...]) -> bool:
    """Whether a parameter has a harmless value, or gives both classes the same weight."""
    if isinstance(value, dict):
        return len(set(value.values())) == 1 and (len(value) > 1 or 1 in value.values())
    return np.ndim(value) == 0 and value in harmless


# --- tools that treat labels as classes


def warn_if_fitted_to_labels(model: Any) -> None:
    """Warn if the fit was called by a tool that trains another model on the labels and the predictions of `model`."""
    for frame in _callers(sys._getframe(1)):
        tool = _FITTING_TOOLS.get(_module(frame))
        if tool is not None:
            name = type(model).__name__
            warn_user(
                f"{tool} treats y as classes, but {name} gets observed labels. {tool} then predicts labels, not "
                f"classes, so the correction for unlabelled positives is lost. Use {name} without {tool}. To check the "
                "probabilities, use scarless.diagnostics.LabelCalibrationDisplay and ClassCalibrationDisplay.",
                UserWarning,
            )
            return


def is_fitted_for_a_score() -> bool:
    """Return whether a search or a cross-validation called the fit for a score only, and will not keep the model."""
    frames = (frame for frame in _callers(sys._getframe(1)) if frame.f_code.co_name == "_fit_and_score")
    return any(not frame.f_locals.get("return_estimator") for frame in frames)


def warn_if_scored_by_labels(model: Any) -> None:
    """Warn if the caller of a prediction compares the prediction with labels as if they were classes.

    In a cross-validation, a search or the tuning of a threshold, `y` are observed labels, as in the fit. Outside
    these tools `y` may be true classes, so only ``CalibrationDisplay.from_estimator`` causes a warning.
    """
    function, name = None, type(model).__name__
    for frame in _callers(sys._getframe(1)):  # the caller may be a TableClassifier, whose frames are skipped too
        if function is None and _module(frame) == "sklearn.metrics._scorer":
            function = getattr(frame.f_locals.get("self"), "_score_func", None)
        elif function is not None and frame.f_code.co_name in _SCORING_FUNCTIONS:
            if getattr(function, "__module__", "").startswith("sklearn."):
                _warn_about_score(name, function.__name__, frame)
            return
        elif _module(frame) == "sklearn.calibration" and frame.f_code.co_name == "from_estimator":
            warn_user(
                f"CalibrationDisplay treats y as classes. If y are observed labels, {name} will look miscalibrated "
                "even if its probabilities are correct. Use scarless.diagnostics.ClassCalibrationDisplay, or "
                "LabelCalibrationDisplay.",
                UserWarning,
            )
            return


def _warn_about_score(model: str, function: str, frame: FrameType) -> None:
    if frame.f_code.co_name == "_fit_and_score":
        instead = (
            "Use scoring=scarless.metrics.make_pu_scorer(...), or leave scoring out: the default score is the "
            "likelihood of the held-out labels."
        )
    elif frame.f_locals.get("train_idx") is None:  # the model was fitted before, and y may be true classes
        return
    else:
        instead = "Use a scorer that allows for missing labels; see scarless.metrics.make_pu_scorer."
    warn_user(
        f"{function} treats y as classes, but {model} gets observed labels. Every unlabelled positive counts as an "
        f"error, so the score prefers models that imitate the labels. {instead}",
        UserWarning,
    )


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of scikit-learn and joblib that called this package, up to the first frame of other code."""
    while frame is not None and _module(frame).startswith("scarless."):
        frame = frame.f_back
    while frame is not None and _module(frame).startswith(_TOOL_MODULES):
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
