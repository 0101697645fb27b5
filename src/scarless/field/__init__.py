"""Methods of the field for positive and unlabelled data, for comparisons; each makes an assumption of its own."""

from scarless.field.bagging import PUBaggingClassifier
from scarless.field.cut_offs import PGlinClassifier, ThresholdedNaiveClassifier
from scarless.field.lbe import LBEClassifier
from scarless.field.non_negative import NNPUBoostingClassifier
from scarless.field.tm import TMClassifier
from scarless.field.two_step import TwoStepClassifier
from scarless.field.weighted_risk import PUeClassifier, UPUClassifier

__all__ = [
    "LBEClassifier",
    "NNPUBoostingClassifier",
    "PGlinClassifier",
    "PUBaggingClassifier",
    "PUeClassifier",
    "TMClassifier",
    "ThresholdedNaiveClassifier",
    "TwoStepClassifier",
    "UPUClassifier",
]
