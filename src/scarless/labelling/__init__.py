"""Labelling mechanisms ``e(x)``, and simulation of labels and audits.

A mechanism computes propensities from attributes: ``mechanism.propensity(X)``. `simulate_labels` draws labels from
classes and propensities, `simulate_looks` draws the labels of several looks, and `simulate_audit` draws audits.

Examples
--------
>>> import numpy as np
>>> from scarless.labelling import GeometricMeanSAR, simulate_labels
>>> X = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
>>> e = GeometricMeanSAR(attributes=[0, 1], low=0.2, high=0.8).propensity(X)
>>> e.round(3)
array([0.4, 0.8, 0.2, 0.4])
>>> simulate_labels([1, 1, 0, 1], e, random_state=0).shape
(4,)
"""

from scarless.labelling.base import Assumption, LabellingMechanism
from scarless.labelling.mechanisms import (
    SCAR,
    ClassProbabilityCurve,
    GeometricMeanSAR,
    LogisticSAR,
    ProbabilisticGap,
)
from scarless.labelling.simulate import simulate_audit, simulate_labels, simulate_looks
from scarless.labelling.strata import StepSAR, StratifiedSAR

__all__ = [
    "SCAR",
    "Assumption",
    "ClassProbabilityCurve",
    "GeometricMeanSAR",
    "LabellingMechanism",
    "LogisticSAR",
    "ProbabilisticGap",
    "StepSAR",
    "StratifiedSAR",
    "simulate_audit",
    "simulate_labels",
    "simulate_looks",
]
