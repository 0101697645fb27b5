"""Raw tables: a classifier that prepares their columns, and conversion of long tables with one line for each look."""

from scarless.raw.long import Looks, from_long
from scarless.raw.table_classifier import TableClassifier

__all__ = ["Looks", "TableClassifier", "from_long"]
