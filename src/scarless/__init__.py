"""Learning from positive and unlabelled data whose labels are biased."""

from importlib.metadata import version as _version

from scarless.models import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SCARClassifier,
)

__version__ = _version("scarless")

__all__ = [
    "NaiveClassifier",
    "PropensityWeightedClassifier",
    "SAREMClassifier",
    "SCARClassifier",
    "__version__",
]
