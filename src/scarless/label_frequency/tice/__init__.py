"""TIcE: bounds on the label frequency from the subsets of a tree."""

from scarless.label_frequency.tice.estimator import TIcE

__all__ = ["TIcE"]
