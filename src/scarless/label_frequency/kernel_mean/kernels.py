"""Gaussian kernels on rows, and the distance between two weightings of them."""

from typing import Any

import numpy as np
from scipy import sparse

from scarless.numerics.arrays import Matrix, Vector

_BLOCK_ROWS = 256


def squared_distances(X: Any) -> Matrix:
    r"""Return :math:`\|x_i - x_j\|^2` of all pairs of rows, exactly 0 on the diagonal; dense or sparse rows."""
    cross = X @ X.T
    product: Matrix = cross.toarray() if sparse.issparse(cross) else np.asarray(cross)
    norms = product.diagonal().copy()
    for rows in _blocks(norms.size):
        block = product[rows]
        block *= -2.0
        block += norms
        block += norms[rows, None]
        np.maximum(block, 0.0, out=block)
    np.fill_diagonal(product, 0.0)
    return product


def gaussian_kernel(squared: Matrix, width: float, *, out: Matrix | None = None) -> Matrix:
    r"""Return :math:`k(x, x') = \exp(-\|x-x'\|^2 / 2\sigma^2)`; `out` may be `squared` itself."""
    result = np.multiply(squared, -0.5 / width**2, out=out)
    return np.exp(result, out=result)


def embedding_distance(squared: Matrix, width: float, difference: Vector) -> float:
    r"""Return the RKHS distance of two distributions on the rows, given the difference of their weights.

    .. math:: \Bigl(\sum_{ij} \delta_i \delta_j k(x_i, x_j)\Bigr)^{1/2}, \qquad \sum_i \delta_i = 0
    """
    total = 0.0
    for rows in _blocks(difference.size):
        total += float(difference[rows] @ (gaussian_kernel(squared[rows], width) @ difference))
    return float(np.sqrt(max(total, 0.0)))


def _blocks(n_rows: int) -> list[slice]:
    """Walk in blocks: temporary arrays stay small beside the square matrix."""
    return [slice(start, min(start + _BLOCK_ROWS, n_rows)) for start in range(0, n_rows, _BLOCK_ROWS)]
