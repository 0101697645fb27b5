"""Density of one number per row, by kernels on a fine grid."""

import numpy as np
from scipy.ndimage import gaussian_filter1d

from scarless.numerics.arrays import Vector

CELLS = 64  # per bandwidth
REACH = 8.0  # bandwidths: a Gaussian kernel has fallen to 1e-14 of its height there


def gaussian_density(points: Vector, at: Vector, bandwidth: float) -> Vector:
    r"""Kernel estimate :math:`\frac{1}{nh}\sum_j \varphi\bigl(\frac{z - z_j}{h}\bigr)` at each `z` of `at`.

    The points are shared out between the two nearest cells of a grid, the grid is smoothed once and read off between
    its cells. Each of the two widens the kernel's variance by a share of at most :math:`1/(4 \cdot 64^2)`: where the
    sum over all pairs is not tiny it is met to 1e-3, in :math:`O(n + \text{range}/h)` instead of :math:`O(n^2)`.

    Examples
    --------
    >>> gaussian_density(np.array([0.0]), np.array([0.0, 1.0, 99.0]), 1.0).round(3)
    array([0.399, 0.242, 0.   ])
    """
    cell = bandwidth / CELLS
    margin = int(REACH * CELLS) + 1
    low = float(points.min())
    place = (points - low) / cell + margin
    left = place.astype(np.intp)
    part = place - left
    n_cells = int(left.max()) + margin + 2
    mass = np.bincount(left, 1.0 - part, n_cells) + np.bincount(left + 1, part, n_cells)
    density = gaussian_filter1d(mass, CELLS, mode="constant", truncate=REACH) / (points.size * cell)
    return np.interp((at - low) / cell + margin, np.arange(n_cells), density, left=0.0, right=0.0)
