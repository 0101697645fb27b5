"""Faster versions of some block functions for CUDA devices, with few kernel launches.

If Triton is installed (PyTorch for CUDA installs it), the kernels of `scarless.engines.kernels` compute the likelihood
of a pair and its variants. One kernel computes all terms of the rows. Another kernel computes products of few columns
over many rows. cuBLAS leaves most of a device idle for such products: on an H200, one product of 20,000,000 x 54
numbers takes 10.7 ms with cuBLAS, and all products of a pass take 6.5 ms with this kernel.
"""

import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics import linear
from scarless.numerics.arrays import Matrix, Vector, concat, in_float64, in_numpy, like
from scarless.numerics.batched import BatchTerms, BatchTermsFunction, row_terms
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair, Sums, TargetLogistic
from scarless.numerics.recalibrated import RecalibratedPair
from scarless.numerics.uncertainty import PairSums

# Largest numbers of columns for one kernel: of the square product, and of the other products that it computes. The sums
# must fit into the registers of a Triton program.
_MAX_COLUMNS, _MAX_COLUMNS_BESIDE = 63, 32
_TILE_ROWS, _TERM_ROWS = 16, 256  # rows that a Triton program processes at a time: for products, and for terms
_MAX_PIECE_NUMBERS = 1 << 27  # largest size of the weighted columns that are stored for a product
_MAX_ROWS = 1 << 28  # Kernels use 32-bit positions: five arrays of terms must have fewer than 2 ** 31 entries.
# Products by cuBLAS of at least MIN_ROWS_FOR_PIECES rows are computed in pieces of PIECE_ROWS rows.
PIECE_ROWS, MIN_ROWS_FOR_PIECES = 32_768, 2_000_000


def fused_version(block_function: Callable[..., Any], X: Any) -> Callable[..., Any] | None:
    """Return a faster function for `X` that is equivalent to a block function; None if there is none.

    Examples
    --------
    >>> fused_version(np.sum, np.eye(2)) is None
    True
    """
    objective = getattr(block_function, "__self__", None)
    found = _FUSED.get((type(objective), getattr(block_function, "__name__", "")))
    if found is None or not has_kernels(X):
        return None
    return partial(_with_fallback, partial(found, objective), block_function)


def has_kernels(X: Any) -> bool:
    """Return whether the kernels can be used for a table: a PyTorch tensor on a CUDA device, with Triton installed."""
    if isinstance(X, np.ndarray) or not getattr(X, "is_cuda", False):
        return False
    return 0 < X.shape[0] <= _MAX_ROWS and _has_triton()


def terms_for(X: Any) -> BatchTermsFunction:
    """Return the fastest function that computes the terms of several problems."""
    return partial(_with_fallback, _terms_by_kernel, row_terms) if has_kernels(X) else row_terms


def _with_fallback(quick: Callable[..., Any], otherwise: Callable[..., Any], *parameters: Any) -> Any:
    """Return ``quick(*parameters)``. Once a kernel has failed in this process, return ``otherwise(*parameters)``."""
    if "any" in _FAILED:
        return otherwise(*parameters)
    try:
        return quick(*parameters)
    except Exception as error:
        if "memory" in type(error).__name__.lower():
            raise
        _FAILED.add("any")
        warnings.warn(
            f"The Triton kernels failed on this device ({type(error).__name__}: {str(error)[:200]}). From now on, "
            "PyTorch computes the sums. This takes longer; the results are the same up to rounding.",
            RuntimeWarning,
            stacklevel=2,
        )
        return otherwise(*parameters)


def _pair_sums(pair: LogisticPair, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    logits = _Logits.of(X, (pair.f, pair.e), beta)
    return _sums(_ModelColumns(X, pair.f, pair.e), logits, rows["s"], rows["w"], curvature)


def _target_sums(target: TargetLogistic, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    logits = _Logits.of(X, (target.design,), beta)
    return _sums(_ModelColumns(X, target.design, None), logits, rows["t"], rows["w"], curvature)


def _recalibrated_sums(pair: RecalibratedPair, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    """Return the sums of a recalibrated pair: by the chain rule, from the sums of an ordinary pair."""
    if not isinstance(pair.inner, LogisticPair) or (pair.follow and curvature is Curvature.DIAGONAL):
        return pair.sums(X, rows, beta, curvature)
    inside = _pair_sums(pair.inner, pair.table(X, rows, beta), rows, pair.inside(beta), curvature)
    return pair.chained(inside, curvature)


_FAILED: set[str] = set()  # contains "any" after a kernel has failed in this process


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


class _ModelColumns(NamedTuple):
    """A table, and the columns that the class model `f` and the propensity model `e` use."""

    X: Any
    f: Design
    e: Design | None

    @property
    def narrow(self) -> bool:
        """Whether one kernel can compute all products of a pass."""
        beside = 0 if self.e is None else 2 * self.e.n_parameters
        return self.X.shape[1] <= _MAX_COLUMNS and beside + 2 <= _MAX_COLUMNS_BESIDE and self.X.stride(1) == 1

    def with_one(self, design: Design) -> NDArray[np.intp]:
        """Return the columns of a model, followed by the position of the column of ones."""
        return np.append(design.indices, self.X.shape[1])


class _Logits(NamedTuple):
    """Logits without their intercepts: one row of `u` and `v` for each problem. A single logistic model has no `v`."""

    u: Any
    v: Any
    more_u: Any  # intercept of all `u`
    more_v: Any

    @classmethod
    def of(cls, X: Any, designs: tuple[Design, ...], beta: Vector) -> "_Logits":
        """Compute the logits from the parameters, which are copied to the device in one transfer."""
        torch = import_module("torch")
        there = torch.from_numpy(np.ascontiguousarray(beta)).to(X.device)
        ends = np.cumsum([0] + [design.n_parameters for design in designs])
        lines, more = [], []
        for design, start, end in zip(designs, ends[:-1], ends[1:], strict=True):
            product = torch.mv(design.take(X), there[start : end - 1].to(X.dtype))
            lines.append(product.to(torch.float64)[None])
            more.append(there[end - 1 : end])
        return cls(lines[0], lines[1] if len(lines) > 1 else None, more[0], more[-1])


@cache
def _zero(device: Any) -> Any:
    torch = import_module("torch")
    return torch.zeros(1, dtype=torch.float64, device=device)


def _sums(seen: _ModelColumns, logits: _Logits, s: Any, w: Any, curvature: Curvature) -> Sums:
    """Return value, gradient and curvature from the logits."""
    values, planes = _planes(logits, s, w[None], curvature)
    if curvature in (Curvature.EXPECTED, Curvature.OBSERVED) and seen.narrow:
        return _by_kernel(seen, values, planes)
    line = [values[0], *planes[:, 0], None, None, None]
    models = [(seen.f, line[1], line[3])] + ([] if seen.e is None else [(seen.e, line[2], line[5])])
    columns = [design.take(seen.X) for design, _, _ in models]
    gradients = [linear.transposed_product(X, by) for X, (_, by, _) in zip(columns, models, strict=True)]
    matrices = []
    if curvature is Curvature.DIAGONAL:
        matrices = [linear.squared_sums(X, weight) for X, (_, _, weight) in zip(columns, models, strict=True)]
    elif curvature is not Curvature.NONE:
        matrices = [_cross_product(columns[0], line[3], columns[0])]
        if seen.e is not None:
            matrices += [
                _cross_product(columns[0], line[4], columns[1]),
                _cross_product(columns[1], line[5], columns[1]),
            ]
    value, gradient, *parts = _copy_to_numpy(values, concat(gradients), *matrices)
    if curvature in (Curvature.EXPECTED, Curvature.OBSERVED):
        return Sums(value[0], gradient, parts[0] if seen.e is None else _join_blocks(*parts))
    return Sums(value[0], gradient, np.concatenate(parts) if parts else np.zeros(0))


def _by_kernel(seen: _ModelColumns, values: Any, planes: Any) -> Sums:
    """Return value, gradient and curvature with all products computed by one kernel."""
    torch, kernels, (X, f, e) = import_module("torch"), _kernels(), seen
    n_rows, n_columns = X.shape
    width, right = (
        _next_power_of_two(n_columns + 1),
        _right_side(None if e is None else tuple(e.indices.tolist()), X.device),
    )
    beside = right.shape[1]
    n_programs = min(_max_programs(X), -(-n_rows // _TILE_ROWS))
    square = torch.empty((n_programs, width, width), dtype=torch.float64, device=X.device)
    others = torch.empty((n_programs, width, beside), dtype=torch.float64, device=X.device)
    kernels.weighted_products[(n_programs,)](
        X, planes, right[0], right[1], square, others,
        n_rows, X.stride(0), n_rows, -(-n_rows // (_TILE_ROWS * n_programs)),
        n_columns=n_columns, width=width, beside=beside, tile=_TILE_ROWS,
        num_warps=2 if beside <= 16 else 4, num_stages=1,
    )  # fmt: skip
    value, uu, rest = _copy_to_numpy(values, square.sum(dim=0), others.sum(dim=0))
    of_f, k = seen.with_one(f), 0 if e is None else e.n_parameters
    ff = uu[np.ix_(of_f, of_f)]
    if e is None:
        return Sums(value[0], rest[of_f, 2 * k], ff)
    at_e = seen.with_one(e)
    gradient = np.concatenate([rest[of_f, 2 * k], rest[at_e, 2 * k + 1]])
    return Sums(value[0], gradient, _join_blocks(ff, rest[of_f, :k], rest[at_e, k : 2 * k]))


@cache
def _right_side(e: tuple[int, ...] | None, device: Any) -> Any:
    """Return, on the device, the right sides of the products for ``fe``, ``ee`` and the gradients.

    The first row has columns of `X` (-1 for the column of ones), and the second row has the terms that multiply them.
    """
    ones = [] if e is None else [*e, -1]
    columns, terms = [*ones, *ones, -1, -1], [3] * len(ones) + [4] * len(ones) + [0, 0 if e is None else 1]
    wide = np.full((2, _next_power_of_two(len(columns))), -1, dtype=np.int64)
    wide[:, : len(columns)] = columns, terms
    return import_module("torch").asarray(wide, device=device)


def _join_blocks(ff: Matrix, fe: Matrix, ee: Matrix) -> Matrix:
    return np.block([[ff, fe], [fe.T, ee]])


def _cross_product(left: Any, weight: Any, right: Any) -> Any:
    """Return ``[left, 1]' diag(weight) [right, 1]``; many rows are divided into pieces to limit the memory."""
    size, total = max(PIECE_ROWS, _MAX_PIECE_NUMBERS // max(1, right.shape[1]) // PIECE_ROWS * PIECE_ROWS), 0.0
    for start in range(0, left.shape[0], size):
        part = slice(start, start + size)
        scaled = like(left, weight[part])[:, None]
        A = concat([right[part] * scaled, scaled], axis=1)
        total = total + concat([_product(left[part], A), in_float64(A).sum(dim=0, keepdim=True)])
    return total


def _product(X: Any, A: Any) -> Any:
    torch, n_rows = import_module("torch"), X.shape[0]
    n_pieces = n_rows // PIECE_ROWS if n_rows >= MIN_ROWS_FOR_PIECES else 0
    end = n_pieces * PIECE_ROWS
    product = (X[end:].T @ A[end:]).to(torch.float64)
    if n_pieces:
        pieces = X[:end].unflatten(0, (n_pieces, PIECE_ROWS)).transpose(1, 2)
        product = product + torch.bmm(pieces, A[:end].unflatten(0, (n_pieces, PIECE_ROWS))).to(torch.float64).sum(0)
    return product


def _terms_by_kernel(u: Any, v: Any, s: Any, w: Any, curvature: Curvature) -> BatchTerms:
    """Return the terms of several problems, with one row of each array for each problem."""
    nothing = _zero(u.device)
    values, planes = _planes(_Logits(u, v, nothing, nothing), s, w, curvature)
    by_u, by_v, *information = (*planes, None, None, None)[:5]
    return BatchTerms(values, by_u, by_v, *information)


def _planes(logits: _Logits, s: Any, w: Any, curvature: Curvature) -> tuple[Any, Any]:
    """Return the objectives of several problems, and those of the arrays ``by_u, by_v, uu, uv, vv`` that are needed.

    For a single logistic model, without `v`, ``by_v`` is not set and the arrays end with ``uu``.
    """
    torch, kernels, (u, v, more_u, more_v) = import_module("torch"), _kernels(), logits
    n_problems, n_rows = u.shape
    n_blocks, alone = -(-n_rows // _TERM_ROWS), v is None
    values = torch.empty((n_problems, n_blocks), dtype=torch.float64, device=u.device)
    n_planes = 2 if curvature is Curvature.NONE else 3 if alone else 5
    planes = torch.empty((n_planes, n_problems, n_rows), dtype=torch.float64, device=u.device)
    w = w if w.stride(1) == 1 else w.contiguous()
    kernels.terms_of_problems[(n_blocks, n_problems)](
        u, u if alone else v, more_u, more_v, s.contiguous(), w, planes, values,
        n_rows, w.stride(0), n_problems * n_rows,
        pair=not alone, kind=kernels.KINDS[curvature.value], tile=_TERM_ROWS, num_warps=8,
    )  # fmt: skip
    return values.sum(dim=1), planes


def _pair_totals(pair: LogisticPair, X: Any, rows: Any, beta: Vector) -> PairSums:
    torch, kernels, n_rows = import_module("torch"), _kernels(), X.shape[0]
    X_f, X_e, w = pair.f.take(X), pair.e.take(X), rows["w"].contiguous()
    n_blocks = -(-n_rows // _TERM_ROWS)
    by, found = (torch.empty(shape, dtype=torch.float64, device=X.device) for shape in ((3, n_rows), (n_blocks, 16)))
    kernels.pair_totals[(n_blocks,)](
        *_Logits.of(X, (pair.f, pair.e), beta), rows["s"].contiguous(), w, by, found, n_rows,
        tile=_TERM_ROWS, num_warps=8,
    )  # fmt: skip
    of_f = [linear.transposed_product(X_f, each) for each in (by[0], by[1], w)]
    of_e = [linear.transposed_product(X_e, each) for each in (by[2], w)]
    total, positives, labelled, columns, also, beside = _copy_to_numpy(found.sum(dim=0), *of_f, *of_e)
    return PairSums(
        *total[:6],
        squares=total[6:9],
        positives_gradient=np.concatenate([positives, np.zeros(pair.e.n_parameters)]),
        labelled_positives_gradient=np.concatenate([labelled, also]),
        columns=np.concatenate([columns, beside]),
    ).of_one_look()  # type: ignore[misc]


_FUSED: dict[tuple[type, str], Callable[..., Any]] = {
    (LogisticPair, "sums"): _pair_sums,
    (LogisticPair, "totals"): _pair_totals,
    (TargetLogistic, "sums"): _target_sums,
    (RecalibratedPair, "sums"): _recalibrated_sums,
}


def _copy_to_numpy(*parts: Any) -> list[Any]:
    """Copy arrays to NumPy in one transfer, because the latency of a transfer exceeds the time to copy the numbers."""
    whole = in_numpy(concat([each.reshape(-1) for each in parts]))
    ends = np.cumsum([each.numel() for each in parts])[:-1]
    return [piece.reshape(tuple(each.shape)) for piece, each in zip(np.split(whole, ends), parts, strict=True)]


def _next_power_of_two(number: int) -> int:
    """Return the smallest power of 2 that is at least `number` and 16, the smallest size of a tile."""
    return max(16, 1 << (number - 1).bit_length())


def _max_programs(X: Any) -> int:
    """Return the number of programs that a device can run at the same time."""
    if not X.is_cuda:
        return 4
    return 8 * int(import_module("torch").cuda.get_device_properties(X.device).multi_processor_count)


def _kernels() -> Any:
    return import_module("scarless.engines.kernels")
