"""Learning from positive and unlabelled data whose labels are biased."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from scarless.outside.late import late_names as _late_names

if TYPE_CHECKING:
    from scarless.analysis import ColumnRoles, analyse
    from scarless.diagnostics import audited_class_prior, goodness_of_fit, plan_audit
    from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE
    from scarless.models import (
        BalancedDraws,
        ClassPrior,
        LabelFrequency,
        Labelling,
        NaiveClassifier,
        PropensityWeightedClassifier,
        PseudoObservations,
        PublishedEMClassifier,
        SAREMClassifier,
        SAREMClassifierCV,
        SARStackingClassifier,
        SCARClassifier,
        StratifiedSCARClassifier,
    )
    from scarless.outside.notices import ClassPriorWarning
    from scarless.raw import TableClassifier, from_long
    from scarless.saved import load, save, save_onnx, to_onnx

__version__ = _version("scarless")

__all__ = [
    "DEDPUL",
    "BalancedDraws",
    "BestBinEstimator",
    "ClassPrior",
    "ClassPriorWarning",
    "ColumnRoles",
    "ElkanNoto",
    "KernelMean",
    "LabelFrequency",
    "Labelling",
    "NaiveClassifier",
    "PropensityWeightedClassifier",
    "PseudoObservations",
    "PublishedEMClassifier",
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

# Names are imported on first use: scikit-learn and SciPy take seconds, which would slow down `scarless --help`.
_HOMES = {
    "scarless.analysis": ("ColumnRoles", "analyse"),
    "scarless.diagnostics": ("audited_class_prior", "goodness_of_fit", "plan_audit"),
    "scarless.label_frequency": ("DEDPUL", "BestBinEstimator", "ElkanNoto", "KernelMean", "TIcE"),
    "scarless.outside.notices": ("ClassPriorWarning",),
    "scarless.raw": ("TableClassifier", "from_long"),
    "scarless.saved": ("load", "save", "save_onnx", "to_onnx"),
}
_LATER = dict.fromkeys(__all__, "scarless.models") | {name: home for home, names in _HOMES.items() for name in names}
del _LATER["__version__"]
_SUBPACKAGES = (
    "analysis", "checks", "datasets", "diagnostics", "engines", "experiments", "field", "label_frequency", "labelling",
    "metrics", "models", "numerics", "outside", "pair", "raw", "report", "saved", "scale", "torch",
)  # fmt: skip

__getattr__, __dir__ = _late_names("scarless", _LATER, _SUBPACKAGES)
