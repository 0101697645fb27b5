"""Products of blocks of rows for linear models: logits, gradients, weighted cross products.

Blocks are dense arrays of any array API namespace, or sparse CSR matrices, which are never made dense. Products run in
the precision of the block (float32 stays float32). Results are float64, so that sums over blocks stay precise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics.arrays import Matrix, Vector, block, concat, in_float64, like, namespace_of

_MIN_CURVATURE = 1e-280  # Division by smaller numbers can overflow.
# Rows transposed at a time. Time for 100,000 rows, 20 columns and 3 weights: 24 ms at 512 to 2,048, 40 ms at 4,096.
_TRANSPOSED_ROWS = 1024
# From this number of columns on, two symmetric products (one for each sign of the weights) are faster than one general
# product.
_MIN_WIDE_COLUMNS = 64


@dataclass(frozen=True)
class Design:
    """The columns that a linear model uses; its intercept is the last parameter.

    `columns` is a slice if possible, because a slice of a dense block is a view. Selecting columns of a sparse block
    takes as long as a product with the whole block. If a block has a dictionary ``taken``, selections are cached there.

    Examples
    --------
    >>> design = Design.of(np.array([1, 2, 3]))
    >>> design.columns, design.n_parameters
    (slice(1, 4, None), 4)
    """

    columns: Any
    n_columns: int

    @classmethod
    def of(cls, columns: NDArray[np.intp]) -> "Design":
        """Build a design from column indices."""
        start = int(columns[0]) if columns.size else 0
        if np.array_equal(columns, np.arange(start, start + columns.size)):
            return cls(slice(start, start + columns.size), columns.size)
        return cls(columns, columns.size)

    @property
    def n_parameters(self) -> int:
        """Number of coefficients and the intercept."""
        return self.n_columns + 1

    @property
    def indices(self) -> NDArray[np.intp]:
        """The positions of the columns."""
        if isinstance(self.columns, slice):
            start = self.columns.start or 0
            return np.arange(start, start + self.n_columns)
        return np.asarray(self.columns)

    def take(self, X: Any) -> Any:
        """Return the columns of a block that this model uses; the block itself if it uses all."""
        if self.n_columns == X.shape[1] and isinstance(self.columns, slice):
            return X
        if not hasattr(X, "taken"):
            return X[:, self.columns] if isinstance(self.columns, slice) else _columns_of(X, self.columns)
        key = repr(self.columns) if isinstance(self.columns, slice) else self.columns.tobytes()
        if (kept := X.taken.get(key)) is None:
            kept = X[:, self.columns]
            if 4 * kept.nnz <= X.nnz:  # Only small selections are cached: a large one would double the memory.
                X.taken[key] = kept
        return kept


def logits(X: Any, beta: Vector) -> Vector:
    """Return ``X @ beta[:-1] + beta[-1]`` in float64."""
    return in_float64(X @ like(X, beta[:-1])) + float(beta[-1])


def logits_of_several(X: Any, betas: list[Vector]) -> list[Vector]:
    """Return the logits of several models that use the same columns; a dense NumPy block is read only once."""
    if len(betas) == 1 or sparse.issparse(X) or namespace_of(X) is not np:
        return [logits(X, beta) for beta in betas]
    products = X @ np.stack([beta[:-1] for beta in betas], axis=1).astype(X.dtype)
    return [in_float64(np.ascontiguousarray(products[:, j])) + float(beta[-1]) for j, beta in enumerate(betas)]


def transposed_product(X: Any, r: Vector) -> Vector:
    """Return ``[X, 1]' r`` in float64."""
    product, xp = in_float64(_transposed(X) @ like(X, r)), namespace_of(X)
    total = r.sum(keepdims=True) if xp is np else xp.sum(r, keepdims=True)  # For small blocks, the method is faster.
    return concat([product, total])


def transposed_products(X: Any, lines: Matrix) -> Matrix:
    """Return ``[X, 1]' lines'`` in float64: one column for each row of `lines`."""
    product, xp = in_float64(_transposed(X) @ like(X, lines).T), namespace_of(X)
    return concat([product, xp.sum(lines, axis=1)[None, :]])


def cross_product(left: Any, weight: Vector, right: Any) -> Matrix:
    """Return ``[left, 1]' diag(weight) [right, 1]``; weights may be negative."""
    if namespace_of(left) is not np:
        return _cross_product_of_parts(left, weight, right)
    out = np.empty((left.shape[1] + 1, right.shape[1] + 1))
    scaled = _scale_rows(right, weight)
    product = left.T @ scaled
    out[:-1, :-1] = product.toarray() if sparse.issparse(product) else product
    out[:-1, -1] = left.T @ weight.astype(left.dtype)
    out[-1, :-1] = right.T @ weight.astype(right.dtype)
    out[-1, -1] = weight.sum()
    return out


def cross_products(left: Any, parts: list[tuple[Vector, Any]]) -> Matrix:
    """Return the cross products of a block with several others, each with its own weights, side by side."""
    if namespace_of(left) is not np or any(sparse.issparse(X) for X in (left, *(right for _, right in parts))):
        return concat([cross_product(left, weight, right) for weight, right in parts], axis=1)
    if parts[0][1] is left and left.shape[1] >= _MIN_WIDE_COLUMNS:
        own = _signed_gram(left, parts[0][0])
        return np.hstack([own, cross_products(left, parts[1:])]) if len(parts) > 1 else own
    A = _scaled_side_by_side([(right, weight) for weight, right in parts])
    out = np.empty((left.shape[1] + 1, A.shape[1]))
    out[:-1] = left.T @ A
    out[-1] = np.ones(len(A), dtype=A.dtype) @ A
    return out


def products_of_pairs(blocks: list[Any], weights: dict[tuple[int, int], Vector]) -> dict[tuple[int, int], Matrix]:
    """Return ``[blocks[j], 1]' diag(weights[j, k]) [blocks[k], 1]`` for each pair; weights may be negative.

    Narrow dense blocks are transposed a few rows at a time. Each column is then contiguous, like the weights, and a
    product stays in the cache. With 20 columns this takes about half the time of `cross_products`.
    """
    first, widest = blocks[0], max(X.shape[1] for X in blocks)
    if namespace_of(first) is not np or any(map(sparse.issparse, blocks)) or widest >= _MIN_WIDE_COLUMNS:
        return {(j, k): cross_products(blocks[j], [(weight, blocks[k])]) for (j, k), weight in weights.items()}
    out = {(j, k): np.zeros((blocks[j].shape[1] + 1, blocks[k].shape[1] + 1)) for j, k in weights}
    transposed = {id(X): np.ones((X.shape[1] + 1, _TRANSPOSED_ROWS), dtype=X.dtype) for X in blocks}
    scaled = np.empty((_MIN_WIDE_COLUMNS, _TRANSPOSED_ROWS), dtype=first.dtype)
    for start in range(0, first.shape[0], _TRANSPOSED_ROWS):
        rows = slice(start, min(start + _TRANSPOSED_ROWS, first.shape[0]))
        size = rows.stop - start
        for X in {id(X): X for X in blocks}.values():
            transposed[id(X)][:-1, :size] = X[rows].T
        for (j, k), weight in weights.items():
            left, right = transposed[id(blocks[j])][:, :size], transposed[id(blocks[k])][:, :size]
            few = min(left, right, key=len)
            part = np.multiply(few, weight[rows].astype(few.dtype, copy=False), out=scaled[: len(few), :size])
            out[j, k] += left @ part.T if few is right else part @ right.T
    return out


def _signed_gram(X: Matrix, weight: Vector) -> Matrix:
    """Return ``[X, 1]' diag(weight) [X, 1]`` as a difference of two symmetric products, which is half the work."""
    below = weight < 0
    root = np.sqrt(np.abs(weight))
    if not below.any():
        return gram([(X, root)])
    return gram([(X[~below], root[~below])]) - gram([(X[below], root[below])])


def gram(parts: list[tuple[Any, Vector]]) -> Matrix:
    """Return ``A'A``, where ``A`` consists of the parts ``diag(root) [X, 1]`` side by side.

    A dense ``A'A`` is a symmetric rank-k product, which is half the work of a general product.
    """
    if any(sparse.issparse(X) for X, _ in parts):
        return np.block([[cross_product(L, a * b, R) for R, b in parts] for L, a in parts])
    if namespace_of(parts[0][0]) is not np:
        A = concat([_scaled_with_ones(X, root) for X, root in parts], axis=1)
        return in_float64(A.T @ A)
    A = _scaled_side_by_side(parts)
    return np.asarray(A.T @ A, dtype=np.float64)


def exact_gram(X: Any, weight: Vector) -> Matrix:
    """Return ``[X, 1]' diag(weight) [X, 1]`` for non-negative weights, computed in float64 even for float32 blocks.

    Its quadratic forms can cancel to small numbers, which float32 could not resolve.
    """
    xp = namespace_of(X)
    root = xp.sqrt(weight)
    return gram([(X.astype(np.float64, copy=False) if xp is np else in_float64(X), root)])


def unit_diagonal(matrix: Matrix) -> tuple[Matrix, Vector]:
    """Return a matrix scaled to a unit diagonal, and the scale of each row and column; zero rows are not scaled."""
    diagonal = np.diagonal(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > _MIN_CURVATURE, diagonal, 1.0))
    scaled = matrix * scale[:, None]
    scaled *= scale
    return scaled, scale


def squared_sums(X: Any, weight: Vector) -> Vector:
    """Return the diagonal of ``[X, 1]' diag(weight) [X, 1]``."""
    squared = X.multiply(X) if sparse.issparse(X) else namespace_of(X).square(X)
    return transposed_product(squared, weight)


def _columns_of(X: Any, columns: NDArray[np.intp]) -> Any:
    xp = namespace_of(X)
    return X[:, columns] if xp is np else xp.take(X, xp.asarray(columns, device=X.device), axis=1)


def _scaled_side_by_side(parts: list[tuple[Any, Vector]]) -> Matrix:
    """Return ``diag(scale) [X, 1]`` of all parts side by side in one array."""
    total = len(parts)
    for X, _ in parts:
        total += X.shape[1]
    A = np.empty((parts[0][1].size, total), dtype=parts[0][0].dtype)
    start = 0
    for X, scale in parts:
        width, factor = X.shape[1] + 1, scale.astype(A.dtype)
        if width < 16:  # For few columns, a loop is faster than broadcasting.
            for j in range(width - 1):
                np.multiply(X[:, j], factor, out=A[:, start + j])
        else:
            np.multiply(X, factor[:, None], out=A[:, start : start + width - 1])
        A[:, start + width - 1] = factor
        start += width
    return A


def _scaled_with_ones(X: Any, root: Any) -> Any:
    scale = like(X, root)[:, None]
    return concat([X * scale, scale], axis=1)


def _cross_product_of_parts(left: Any, weight: Any, right: Any) -> Any:
    """Return the cross product without in-place writes, which some array libraries do not support."""
    xp = namespace_of(left)
    inner = left.T @ (right * like(right, weight)[:, None])
    below, beside = right.T @ like(right, weight), left.T @ like(left, weight)
    corner = xp.reshape(xp.sum(weight), (1, 1))
    return block([[in_float64(inner), in_float64(beside)[:, None]], [in_float64(below)[None, :], corner]])


def _transposed(X: Any) -> Any:
    """Return ``X.T`` without a copy, even if ``X`` is a view of a larger sparse array."""
    if not sparse.issparse(X) or X.format != "csr":
        return X.T
    out = sparse.csc_array((X.shape[1], X.shape[0]), dtype=X.dtype)
    out.data, out.indices, out.indptr = X.data, X.indices, X.indptr
    return out


def _scale_rows(X: Any, weight: Vector) -> Any:
    if not sparse.issparse(X):
        return X * weight.astype(X.dtype)[:, None]
    scaled = X.copy()
    scaled.data *= np.repeat(weight.astype(X.dtype), np.diff(X.indptr))
    return scaled
