"""Methods of the field for positive and unlabelled data, for comparisons; each makes an assumption of its own."""

from scarless.field.bagging import PUBaggingClassifier
from scarless.field.cut_offs import PGlinClassifier, ThresholdedNaiveClassifier
from scarless.field.two_step import TwoStepClassifier

__all__ = ["PGlinClassifier", "PUBaggingClassifier", "ThresholdedNaiveClassifier", "TwoStepClassifier"]
