"""Raw tables: preparation and model in one, columns named as in the table; rows from one line per unit and look."""

from scarless.raw.long import Looks, from_long
from scarless.raw.table_classifier import TableClassifier

__all__ = ["Looks", "TableClassifier", "from_long"]
