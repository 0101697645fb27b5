"""Kernel mean embeddings: how much of the labelled rows' distribution the unlabelled ones can hold."""

from scarless.label_frequency.kernel_mean.estimator import KernelMean

__all__ = ["KernelMean"]
