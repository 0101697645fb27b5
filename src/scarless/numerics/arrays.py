"""Names of arrays: what a signature means by a vector."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]  # a number for each row, or for each parameter
Matrix = NDArray[np.float64]
Columns = NDArray[np.intp]  # positions of columns
