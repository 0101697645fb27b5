"""Thin scikit-learn classes: check, compute, store."""

from scarless.models._basins import Basin, Selection
from scarless.models._cross_validation import CVSelection
from scarless.models._inference import Interval
from scarless.models._relaxed import Levels, Relaxation
from scarless.models._stack_summary import StackSummary
from scarless.models._summary import Summary
from scarless.models._uncertainty import StandardErrors
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.sar_em import SAREMClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.sar_stacking import SARStackingClassifier
from scarless.models.scar import NaiveClassifier, SCARClassifier
from scarless.models.stratified_scar import StratifiedSCARClassifier

__all__ = [
    "Basin",
    "CVSelection",
    "Interval",
    "Levels",
    "NaiveClassifier",
    "PropensityWeightedClassifier",
    "Relaxation",
    "SAREMClassifier",
    "SAREMClassifierCV",
    "SARStackingClassifier",
    "SCARClassifier",
    "Selection",
    "StackSummary",
    "StandardErrors",
    "StratifiedSCARClassifier",
    "Summary",
]
