"""How far a fit can be believed: uncertainty, identifiability, tests of SCAR, sensitivity, calibration."""

from scarless.diagnostics.attribute_display import LabellingAttributesDisplay
from scarless.diagnostics.attribute_tests import LabellingAttributes, labelling_attributes
from scarless.diagnostics.bootstrap import BootstrapIntervals, bootstrap_intervals
from scarless.diagnostics.calibration import Calibration, class_calibration, label_calibration
from scarless.diagnostics.calibration_display import ClassCalibrationDisplay, LabelCalibrationDisplay
from scarless.diagnostics.identifiability import IdentifiabilityReport, identifiability_report
from scarless.diagnostics.profile import ClassPriorProfile, ProfileDisplay, profile_class_prior
from scarless.diagnostics.scar_tests import SCARTest, scar_test
from scarless.diagnostics.selection_display import SelectionPathDisplay
from scarless.diagnostics.sensitivity import Sensitivity
from scarless.diagnostics.sensitivity_display import SensitivityDisplay
from scarless.diagnostics.sensitivity_results import RankBounds, SensitivityBounds, SensitivityCurve, TippingPoint

__all__ = [
    "BootstrapIntervals",
    "Calibration",
    "ClassCalibrationDisplay",
    "ClassPriorProfile",
    "IdentifiabilityReport",
    "LabelCalibrationDisplay",
    "LabellingAttributes",
    "LabellingAttributesDisplay",
    "ProfileDisplay",
    "RankBounds",
    "SCARTest",
    "SelectionPathDisplay",
    "Sensitivity",
    "SensitivityBounds",
    "SensitivityCurve",
    "SensitivityDisplay",
    "TippingPoint",
    "bootstrap_intervals",
    "class_calibration",
    "identifiability_report",
    "label_calibration",
    "labelling_attributes",
    "profile_class_prior",
    "scar_test",
]
