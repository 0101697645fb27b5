"""Methods of the field for positive and unlabelled data, for comparisons; each makes an assumption of its own."""

from scarless.field.lbe import LBEClassifier
from scarless.field.tm import TMClassifier

__all__ = ["LBEClassifier", "TMClassifier"]
