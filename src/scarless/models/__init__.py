"""Classifiers with scikit-learn's interface."""

from scarless.models.base import PUClassifier as PUClassifier
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.published_em import PublishedEMClassifier
from scarless.models.sar_em import SAREMClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.sar_stacking import SARStackingClassifier
from scarless.models.scar import NaiveClassifier, SCARClassifier
from scarless.models.stratified_scar import StratifiedSCARClassifier
from scarless.models.summary import StackSummary, Summary
from scarless.numerics.uncertainty import Interval
from scarless.outside.late import late_names as _late_names
from scarless.pair.constraints import ClassPrior, LabelFrequency, Labelling, PseudoObservations
from scarless.pair.draws import BalancedDraws
from scarless.pair.fitted import StandardErrors
from scarless.pair.optima import Optimum, Selection
from scarless.pair.recalibrated import ClassPriorGrid, Recalibration

__all__ = [
    "BalancedDraws",
    "ClassPrior",
    "ClassPriorGrid",
    "Interval",
    "LabelFrequency",
    "Labelling",
    "NaiveClassifier",
    "Optimum",
    "PropensityWeightedClassifier",
    "PseudoObservations",
    "PublishedEMClassifier",
    "Recalibration",
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

# Names that moved to other packages. They are imported on first use, because those packages import this one.
_MOVED_NAMES = {
    "ModelFileError": "scarless.saved",
    "TableClassifier": "scarless.raw",
    "load": "scarless.saved",
    "save": "scarless.saved",
    "save_onnx": "scarless.saved",
    "to_onnx": "scarless.saved",
}
__getattr__, __dir__ = _late_names("scarless.models", _MOVED_NAMES)
