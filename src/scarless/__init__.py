"""Learning from positive and unlabelled data whose labels are biased."""

from importlib.metadata import version as _version

from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE
from scarless.models import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    load,
    save,
)

__version__ = _version("scarless")

__all__ = [
    "DEDPUL",
    "BestBinEstimator",
    "ElkanNoto",
    "KernelMean",
    "NaiveClassifier",
    "PropensityWeightedClassifier",
    "SAREMClassifier",
    "SAREMClassifierCV",
    "SARStackingClassifier",
    "SCARClassifier",
    "StratifiedSCARClassifier",
    "TIcE",
    "__version__",
    "load",
    "save",
]
