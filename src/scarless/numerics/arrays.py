"""Names of arrays: what a signature means by a vector."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]  # a number for each row, or for each parameter
Matrix = NDArray[np.float64]
Integers = NDArray[np.intp]  # a whole number for each row: its place, its bin, its fold
Columns = NDArray[np.intp]  # positions of columns
Mask = NDArray[np.bool_]  # yes or no for each row
Rows = dict[str, Vector]  # values per row, by name
