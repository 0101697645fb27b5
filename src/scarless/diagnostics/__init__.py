"""Diagnostics of a fit: uncertainty, identifiability, tests of SCAR, sensitivity, calibration and audits."""

from scarless.diagnostics._drawing import Display
from scarless.diagnostics.audits.difference import AuditedClassPrior, audited_class_prior
from scarless.diagnostics.audits.goodness import GoodnessOfFit, GoodnessOfFitDisplay, goodness_of_fit
from scarless.diagnostics.audits.plan import AuditPlan, AuditPlanDisplay, plan_audit
from scarless.diagnostics.audits.yield_display import YieldCurveDisplay
from scarless.diagnostics.audits.yields import YieldCurve, yield_curve
from scarless.diagnostics.calibration.curves import Calibration, class_calibration, label_calibration
from scarless.diagnostics.calibration.display import ClassCalibrationDisplay, LabelCalibrationDisplay
from scarless.diagnostics.drift.detect import detect_drift
from scarless.diagnostics.drift.display import DriftDisplay
from scarless.diagnostics.drift.result import Drift
from scarless.diagnostics.fit.comparison import FitComparison, FitComparisonDisplay, compare_fits
from scarless.diagnostics.missed import MissedPositives, missed_positives
from scarless.diagnostics.missed_display import MissedPositivesDisplay
from scarless.diagnostics.scar.attribute_display import LabellingAttributesDisplay
from scarless.diagnostics.scar.attribute_tests import LabellingAttributes, labelling_attributes
from scarless.diagnostics.scar.tests import SCARTest, scar_test
from scarless.diagnostics.sensitivity.analysis import Sensitivity
from scarless.diagnostics.sensitivity.display import SensitivityDisplay
from scarless.diagnostics.sensitivity.results import (
    RankBounds,
    SensitivityBounds,
    SensitivityCurve,
    TippingPoint,
)
from scarless.diagnostics.uncertainty.bootstrap import BootstrapIntervals, bootstrap_intervals
from scarless.diagnostics.uncertainty.identifiability import IdentifiabilityReport, identifiability_report
from scarless.diagnostics.uncertainty.profile import ClassPriorProfile, ProfileDisplay, profile_class_prior
from scarless.diagnostics.uncertainty.selection_display import SelectionPathDisplay

__all__ = [
    "AuditPlan",
    "AuditPlanDisplay",
    "AuditedClassPrior",
    "BootstrapIntervals",
    "Calibration",
    "ClassCalibrationDisplay",
    "ClassPriorProfile",
    "Display",
    "Drift",
    "DriftDisplay",
    "FitComparison",
    "FitComparisonDisplay",
    "GoodnessOfFit",
    "GoodnessOfFitDisplay",
    "IdentifiabilityReport",
    "LabelCalibrationDisplay",
    "LabellingAttributes",
    "LabellingAttributesDisplay",
    "MissedPositives",
    "MissedPositivesDisplay",
    "ProfileDisplay",
    "RankBounds",
    "SCARTest",
    "SelectionPathDisplay",
    "Sensitivity",
    "SensitivityBounds",
    "SensitivityCurve",
    "SensitivityDisplay",
    "TippingPoint",
    "YieldCurve",
    "YieldCurveDisplay",
    "audited_class_prior",
    "bootstrap_intervals",
    "class_calibration",
    "compare_fits",
    "detect_drift",
    "goodness_of_fit",
    "identifiability_report",
    "label_calibration",
    "labelling_attributes",
    "missed_positives",
    "plan_audit",
    "profile_class_prior",
    "scar_test",
    "yield_curve",
]
