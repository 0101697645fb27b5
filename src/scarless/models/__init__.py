"""Thin scikit-learn classes: check, compute, store."""

from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.sar_em import SAREMClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.scar import NaiveClassifier, SCARClassifier
from scarless.models.stratified_scar import StratifiedSCARClassifier

__all__ = [
    "NaiveClassifier",
    "PropensityWeightedClassifier",
    "SAREMClassifier",
    "SAREMClassifierCV",
    "SCARClassifier",
    "StratifiedSCARClassifier",
]
