"""Estimators of the label frequency under SCAR: labels are selected completely at random."""

from scarless.label_frequency.held_out_scores import DEDPUL, BestBinEstimator, ElkanNoto
from scarless.label_frequency.kernel_mean import KernelMean
from scarless.label_frequency.tice import TIcE

__all__ = ["DEDPUL", "BestBinEstimator", "ElkanNoto", "KernelMean", "TIcE"]
