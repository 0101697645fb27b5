"""Estimators of the label frequency when labels are selected completely at random."""

from scarless.label_frequency.kernel_mean import KernelMean

__all__ = ["KernelMean"]
