"""Thin scikit-learn classes: check, compute, store."""

from scarless.models.onnx import save_onnx, to_onnx
from scarless.models.persistence import ModelFileError, load, save
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.published_em import PublishedEMClassifier
from scarless.models.sar_em import SAREMClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.sar_stacking import SARStackingClassifier
from scarless.models.scar import NaiveClassifier, SCARClassifier
from scarless.models.stack_summary import StackSummary
from scarless.models.stratified_scar import StratifiedSCARClassifier
from scarless.models.summary import Summary
from scarless.models.table_classifier import TableClassifier
from scarless.models.uncertainty import StandardErrors
from scarless.numerics.interval import Interval
from scarless.pair.facts import ClassPrior, ImaginaryAudits, LabelFrequency
from scarless.pair.labelling import Labelling
from scarless.pair.optima import Basin, Selection
from scarless.pair.relaxed import Levels, Relaxation

__all__ = [
    "Basin",
    "ClassPrior",
    "ImaginaryAudits",
    "Interval",
    "LabelFrequency",
    "Labelling",
    "Levels",
    "ModelFileError",
    "NaiveClassifier",
    "PropensityWeightedClassifier",
    "PublishedEMClassifier",
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
    "TableClassifier",
    "load",
    "save",
    "save_onnx",
    "to_onnx",
]
