"""Tools of scikit-learn that take the observed labels for classes: noticed by who calls, and told.

They cannot know better: `y` is all they are given. What they fit or choose by it is a model of the labels, so that the
correction for missing ones is undone without a word.
"""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from scarless.outside.notices import warn_user

_TOOLS = ("sklearn.", "joblib.")
_FITTING = {"sklearn.calibration": "CalibratedClassifierCV", "sklearn.ensemble._stacking": "StackingClassifier"}
_SCORING = ("_fit_and_score", "_fit_and_score_over_thresholds")  # they fit to the very labels that they score against


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
