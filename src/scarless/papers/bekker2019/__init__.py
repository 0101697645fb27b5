"""Specification, methods, questions and deviations of the experiment of Bekker, Robberechts and Davis (2019).

Beyond the Selected Completely At Random Assumption for Learning from Positive and Unlabeled Data. ECML-PKDD 2019.
"""

from scarless.papers.bekker2019.methods import METHOD_NAMES, METHODS, PATH, specification
from scarless.papers.bekker2019.story import STORY

__all__ = ["METHODS", "METHOD_NAMES", "PATH", "STORY", "specification"]
