"""Learning from positive and unlabelled data whose labels are biased."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING
from typing import Any as _Any

from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE
from scarless.models import (
    ClassPrior,
    LabelFrequency,
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
    load,
    save,
    save_onnx,
    to_onnx,
)
from scarless.outside.notices import ClassPriorWarning

if TYPE_CHECKING:
    from scarless.analysis import analyse
    from scarless.datasets import from_long
    from scarless.diagnostics import audited_class_prior, goodness_of_fit, plan_audit

__version__ = _version("scarless")

__all__ = [
    "DEDPUL",
    "BestBinEstimator",
    "ClassPrior",
    "ClassPriorWarning",
    "ElkanNoto",
    "KernelMean",
    "LabelFrequency",
    "NaiveClassifier",
    "PropensityWeightedClassifier",
    "SAREMClassifier",
    "SAREMClassifierCV",
    "SARStackingClassifier",
    "SCARClassifier",
    "StratifiedSCARClassifier",
    "TIcE",
    "TableClassifier",
    "__version__",
    "analyse",
    "audited_class_prior",
    "from_long",
    "goodness_of_fit",
    "load",
    "plan_audit",
    "save",
    "save_onnx",
    "to_onnx",
]

_LATER = {
    "analyse": "scarless.analysis",
    "audited_class_prior": "scarless.diagnostics",
    "from_long": "scarless.datasets",
    "goodness_of_fit": "scarless.diagnostics",
    "plan_audit": "scarless.diagnostics",
}
_ROOMS = ("datasets", "diagnostics", "experiments", "labelling", "metrics", "report", "scale", "torch")  # by full name


def __getattr__(name: str) -> _Any:
    """Import what only some users need when it is asked for."""
    if name in _LATER:
        return getattr(_import_module(_LATER[name]), name)
    if name in _ROOMS:
        return _import_module(f"scarless.{name}")
    raise AttributeError(f"module 'scarless' has no attribute {name!r}")
