"""Sums over rows on a CUDA device in few launches, each row read once; for anything else there is the block function.

Where Triton is installed, as it is with torch for CUDA, the two-model likelihood and its relatives take this way. What
a kernel leaves to be multiplied is multiplied in pieces: cuBLAS leaves most of a device idle where few columns meet
many rows (10.7 ms in one piece, 4.4 in pieces, for 20,000,000 x 54 on an H200).
"""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import Design
from scarless.numerics.namespace import concat
from scarless.numerics.objectives import Curvature, LogisticPair, Sums, TargetLogistic
from scarless.numerics.relaxed import RelaxedPair
from scarless.numerics.several import RowTerms, Terms, row_terms

_WIDEST = 255  # columns: a tile of rows must fit a program's registers
_TILE_NUMBERS = 4096
_PIECE_NUMBERS = 1 << 27  # of X, whose products are kept for a while
_MANY_ROWS, _FEW_ROWS = 2_000_000, 32_768  # from so many rows on products are taken in pieces of so many
_TERM_ROWS = 1024  # a program's, of several problems


def quicker(block_function: Callable[..., Any], X: Any) -> Callable[..., Sums] | None:
    """Return a function with the arguments and answers of a block function that is quicker with `X`; None if none is.

    Examples
    --------
    >>> quicker(np.sum, np.eye(2)) is None
    True
    """
    objective = getattr(block_function, "__self__", None)
    found = _QUICKER.get(type(objective))
    if found is None or getattr(block_function, "__name__", "") != "sums" or not has_kernels(X):
        return None
    return partial(found, objective)


def has_kernels(X: Any) -> bool:
    """Whether kernels take a table: one of torch's on a CUDA device, not too wide, with Triton installed."""
    if isinstance(X, np.ndarray) or not getattr(X, "is_cuda", False):
        return False
    return X.shape[0] > 0 and X.shape[1] <= _WIDEST and X.stride(1) == 1 and _has_triton()


def terms_for(X: Any) -> RowTerms:
    """Return the quickest function for the terms of several problems."""
    return _terms_by_kernel if has_kernels(X) else row_terms


def _pair_sums(pair: LogisticPair, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    beta_f, beta_e = pair.split(beta)
    betas = _spread(X, (pair.f, beta_f), (pair.e, beta_e))
    sums, products = _walk(X, rows["s"], rows["w"], betas, pair.e.indices, curvature)
    return _assembled(sums, products, X.shape[1], pair.f.indices, pair.e.indices, curvature)


def _target_sums(target: TargetLogistic, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    betas = _spread(X, (target.design, beta))
    sums, products = _walk(X, rows["t"], rows["w"], betas, np.empty(0, dtype=np.intp), curvature)
    return _assembled(sums, products, X.shape[1], target.design.indices, None, curvature)


def _relaxed_sums(pair: RelaxedPair, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    r"""Return the sums of the relaxed pair from those of an ordinary one on ``[stretched u, z, v]``.

    Its classifier's logit is linear but for the slope :math:`e^g`, whose derivative is the stretched logit itself; so
    is the second one, which bends the matrix by the gradient.
    """
    if curvature is Curvature.DIAGONAL:
        return pair.sums(X, rows, beta, curvature)
    stretched, Z, _, _ = pair.logits(X, rows, beta)
    n_known = int("v" in rows)
    table = concat([stretched, Z] + ([rows["v"][:, None]] if n_known else []), axis=1)
    e = np.arange(1, 1 + pair.e.n_columns)
    betas = np.zeros((2, table.shape[1] + 1))
    betas[0, 0], betas[0, -1] = 1.0, pair.centre + float(beta[1])
    betas[1, e], betas[1, -1] = beta[2:-1], beta[-1]
    betas[1, 1 + e.size : 1 + e.size + n_known] = 1.0
    sums, products = _walk(table, rows["s"], rows["w"], betas, e, curvature)
    found = _assembled(sums, products, table.shape[1], np.zeros(1, dtype=np.intp), e, curvature)
    gradient, matrix = found.gradient.copy(), found.curvature.copy()
    if curvature is Curvature.OBSERVED:
        matrix[0, 0] += gradient[0]
    if pair.hold_level:
        gradient[1] = 0.0
        if matrix.size:
            matrix[1], matrix[:, 1] = 0.0, 0.0
            matrix[1, 1] = 1.0
    return Sums(found.value, gradient, matrix)


_QUICKER: dict[type, Callable[..., Sums]] = {
    LogisticPair: _pair_sums,
    TargetLogistic: _target_sums,
    RelaxedPair: _relaxed_sums,
}


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _kernels() -> Any:
    return import_module("scarless.engines.kernels")


def _spread(X: Any, *models: tuple[Design, Vector]) -> Matrix:
    """Return each model's parameters at the places of its columns, the intercept after all columns."""
    betas = np.zeros((len(models), X.shape[1] + 1))
    for line, (design, beta) in zip(betas, models, strict=True):
        line[design.indices], line[-1] = beta[:-1], beta[-1]
    return betas


def _walk(
    X: Any, s: Any, w: Any, betas: Matrix, also: NDArray[np.intp], curvature: Curvature
) -> tuple[Matrix, Matrix | None]:
    """Return the sums of terms with ``[x, 1]``, and the products of ``x`` with rows times their information."""
    torch, kernels, n_columns = import_module("torch"), _kernels(), X.shape[1]
    width = max(16, 1 << n_columns.bit_length())  # a power of 2 above the number of columns, for the 1
    tile = max(16, _TILE_NUMBERS // width)
    seen = torch.zeros(max(16, 1 << max(0, also.size - 1).bit_length()), dtype=torch.int64)
    seen[: also.size] = torch.asarray(also)
    wide = torch.zeros((2, width), dtype=torch.float64)
    wide[: len(betas), : n_columns + 1] = torch.asarray(betas)
    seen, wide = seen.to(X.device), wide.to(X.device)
    s, w = s.contiguous(), w.contiguous()
    with_products = curvature in (Curvature.EXPECTED, Curvature.OBSERVED)
    size = max(_FEW_ROWS, _PIECE_NUMBERS // max(1, n_columns) // _FEW_ROWS * _FEW_ROWS)
    most, sums, products = _programs(X), 0.0, None
    for start in range(0, X.shape[0], size):
        part = X[start : start + size]
        n_rows = part.shape[0]
        n_programs = min(most, -(-n_rows // tile))
        long = n_columns + 2 * also.size if with_products else 0
        scaled = torch.empty((n_rows if long else 0, long), dtype=X.dtype, device=X.device)
        found = torch.empty((n_programs, width, 16), dtype=torch.float64, device=X.device)
        kernels.walk_rows[(n_programs,)](
            part, s[start : start + size], w[start : start + size], wide, seen, scaled, found,
            n_rows, part.stride(0), -(-n_rows // (tile * n_programs)),
            pair=len(betas) == 2, kind=kernels.KINDS[curvature.value],
            n_columns=n_columns, width=width, n_also=also.size, width_also=len(seen), tile=tile,
            num_warps=4, num_stages=1,
        )  # fmt: skip
        sums = sums + found.sum(dim=0)
        if with_products:
            product = _product(part, scaled)
            products = product if products is None else products + product
    return _home(sums, products)


def _home(sums: Any, products: Any) -> tuple[Matrix, Matrix | None]:
    """Bring both home in one go: the way takes longer than the numbers."""
    if products is None:
        return sums.cpu().numpy(), None
    both = concat([sums.reshape(-1), products.reshape(-1)]).cpu().numpy()
    return both[: sums.numel()].reshape(sums.shape), both[sums.numel() :].reshape(products.shape)


def _product(X: Any, scaled: Any) -> Any:
    """Return ``X' scaled`` in float64; of many rows in pieces, which keep all of a device busy."""
    torch, n_rows = import_module("torch"), X.shape[0]
    n_pieces = n_rows // _FEW_ROWS if n_rows >= _MANY_ROWS else 0
    end = n_pieces * _FEW_ROWS
    product = (X[end:].T @ scaled[end:]).to(torch.float64)
    if n_pieces:
        pieces = X[:end].unflatten(0, (n_pieces, _FEW_ROWS)).transpose(1, 2)
        product = product + torch.bmm(pieces, scaled[:end].unflatten(0, (n_pieces, _FEW_ROWS))).to(torch.float64).sum(0)
    return product


def _assembled(
    sums: Matrix,
    products: Matrix | None,
    one: int,
    f: NDArray[np.intp],
    e: NDArray[np.intp] | None,
    curvature: Curvature,
) -> Sums:
    """Put value, gradient and matrix together.

    The sums have a line for each column, and at `one` for the intercept; theirs are value, both derivatives, and the
    information.
    """
    f1 = np.append(f, one)
    value, e1 = np.asarray(sums[one, 0]), None if e is None else np.append(e, one)
    gradient = sums[f1, 1] if e1 is None else np.concatenate([sums[f1, 1], sums[e1, 2]])
    if curvature is Curvature.NONE:
        return Sums(value, gradient, np.zeros(0))
    if curvature is Curvature.DIAGONAL:
        return Sums(value, gradient, sums[f1, 3] if e1 is None else np.concatenate([sums[f1, 3], sums[e1, 4]]))
    assert products is not None
    ff = _bordered(products[np.ix_(f, f)], sums[f, 3], sums[f, 3], sums[one, 3])
    if e is None:
        return Sums(value, gradient, ff)
    uv, vv = products[:, one : one + e.size], products[:, one + e.size :]
    fe = _bordered(uv[f], sums[f, 4], sums[e, 4], sums[one, 4])
    ee = _bordered(vv[e], sums[e, 5], sums[e, 5], sums[one, 5])
    return Sums(value, gradient, np.block([[ff, fe], [fe.T, ee]]))


def _bordered(inner: Matrix, beside: Vector, below: Vector, corner: Any) -> Matrix:
    """Return a matrix with the intercept's column and line."""
    return np.block([[inner, beside[:, None]], [below[None, :], np.full((1, 1), corner)]])


def _programs(X: Any) -> int:
    """Return how many programs a device has room for."""
    if not X.is_cuda:
        return 4
    return 4 * int(import_module("torch").cuda.get_device_properties(X.device).multi_processor_count)


def _terms_by_kernel(u: Any, v: Any, s: Any, w: Any, curvature: Curvature) -> Terms:
    """Return the terms of several problems; logits become derivatives in place."""
    torch, kernels = import_module("torch"), _kernels()
    n_problems, n_rows = u.shape
    n_blocks, alone = -(-n_rows // _TERM_ROWS), v is None
    values = torch.empty((n_problems, n_blocks), dtype=torch.float64, device=u.device)
    n_more = 0 if curvature is Curvature.NONE else 1 if alone else 3
    more = [torch.empty_like(u) for _ in range(n_more)] + [None] * (3 - n_more)
    given = [u if each is None else each for each in (v, *more)]
    kernels.many_problems[(n_blocks, n_problems)](
        u, given[0], s.contiguous(), w, *given[1:], values, n_rows, w.stride(0),
        pair=not alone, kind=kernels.KINDS[curvature.value], tile=_TERM_ROWS, num_warps=4,
    )  # fmt: skip
    return Terms(values.sum(dim=1), u, v, *more)
