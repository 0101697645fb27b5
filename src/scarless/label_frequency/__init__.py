"""Estimators of the label frequency when labels are selected completely at random."""

from scarless.label_frequency.best_bin import BestBinEstimator
from scarless.label_frequency.dedpul import DEDPUL
from scarless.label_frequency.elkan_noto import ElkanNoto
from scarless.label_frequency.kernel_mean import KernelMean
from scarless.label_frequency.tice import TIcE

__all__ = ["DEDPUL", "BestBinEstimator", "ElkanNoto", "KernelMean", "TIcE"]
