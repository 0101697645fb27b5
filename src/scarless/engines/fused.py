"""Sums over rows on a CUDA device in few launches; for anything else there is the block function.

Where Triton is installed, as it is with torch for CUDA, the two-model likelihood and its relatives take this way: one
kernel for all terms of a row, and one for the products of few columns with many rows, where cuBLAS leaves most of a
device idle (10.7 ms for one of 20,000,000 x 54 on an H200; here all products of a pass take 6.5).
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
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair, Sums, TargetLogistic
from scarless.numerics.recalibrated import RecalibratedPair
from scarless.numerics.several import RowTerms, Terms, row_terms
from scarless.numerics.uncertainty import PairSums

_WIDEST, _WIDEST_BESIDE = 63, 32  # columns of one product, and of those beside it: sums must fit a program's registers
_TILE, _TERM_ROWS = 16, 256  # rows that a program takes at a time
_PIECE_NUMBERS = 1 << 27  # of weighted rows that are kept for a product
_MOST_ROWS = 1 << 28  # kernels count in 32 bits: places in five planes of terms must stay below 2 ** 31
PIECE_ROWS, MIN_ROWS_FOR_PIECES = 32_768, 2_000_000  # pieces of so many rows, from so many on, where cuBLAS multiplies


def quicker(block_function: Callable[..., Any], X: Any) -> Callable[..., Any] | None:
    """Return a function with the arguments and answers of a block function that is quicker with `X`; None if none is.

    Examples
    --------
    >>> quicker(np.sum, np.eye(2)) is None
    True
    """
    objective = getattr(block_function, "__self__", None)
    found = _QUICKER.get((type(objective), getattr(block_function, "__name__", "")))
    if found is None or not has_kernels(X):
        return None
    return partial(_tried, partial(found, objective), block_function)


def has_kernels(X: Any) -> bool:
    """Whether kernels take a table: one of torch's on a CUDA device, in float64 as it is walked, with Triton there."""
    if isinstance(X, np.ndarray) or not getattr(X, "is_cuda", False):
        return False
    return 0 < X.shape[0] <= _MOST_ROWS and _has_triton()


def terms_for(X: Any) -> RowTerms:
    """Return the quickest function for the terms of several problems."""
    return partial(_tried, _terms_by_kernel, row_terms) if has_kernels(X) else row_terms


def _tried(quick: Callable[..., Any], otherwise: Callable[..., Any], *parameters: Any) -> Any:
    """Return what kernels say, or what is said without them, from then on, on a device that they do not run on."""
    if "any" in _BROKEN:
        return otherwise(*parameters)
    try:
        return quick(*parameters)
    except Exception as error:
        if "memory" in type(error).__name__.lower():
            raise
        _BROKEN.add("any")
        warnings.warn(
            f"Triton's kernels do not run here ({type(error).__name__}: {str(error)[:200]}). The same sums are taken "
            "by torch alone, which takes longer.",
            RuntimeWarning,
            stacklevel=2,
        )
        return otherwise(*parameters)


def _pair_sums(pair: LogisticPair, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    logits = _Logits.of(X, (pair.f, pair.e), beta)
    return _sums(_Seen(X, pair.f, pair.e), logits, rows["s"], rows["w"], curvature)


def _target_sums(target: TargetLogistic, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    logits = _Logits.of(X, (target.design,), beta)
    return _sums(_Seen(X, target.design, None), logits, rows["t"], rows["w"], curvature)


def _recalibrated_sums(pair: RecalibratedPair, X: Any, rows: Any, beta: Vector, curvature: Curvature) -> Sums:
    """Return the sums of the recalibrated pair by the chain rule from those of the ordinary one on its table."""
    if not isinstance(pair.inner, LogisticPair) or (pair.follow and curvature is Curvature.DIAGONAL):
        return pair.sums(X, rows, beta, curvature)
    inside = _pair_sums(pair.inner, pair.table(X, rows, beta), rows, pair.inside(beta), curvature)
    return pair.chained(inside, curvature)


_BROKEN: set[str] = set()  # holds "any" once kernels have failed in this process


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


class _Seen(NamedTuple):
    """A table, and which of its columns each model sees."""

    X: Any
    f: Design
    e: Design | None

    @property
    def narrow(self) -> bool:
        """Whether all products of a pass fit into one kernel."""
        beside = 0 if self.e is None else 2 * self.e.n_parameters
        return self.X.shape[1] <= _WIDEST and beside + 2 <= _WIDEST_BESIDE and self.X.stride(1) == 1

    def with_one(self, design: Design) -> NDArray[np.intp]:
        """Return a model's columns, and that of the 1 after the last."""
        return np.append(design.indices, self.X.shape[1])


class _Logits(NamedTuple):
    """Logits of one problem, a line each; `v` is None for one logistic model. What is `more` is added to all."""

    u: Any
    v: Any
    more_u: Any
    more_v: Any

    @classmethod
    def of(cls, X: Any, designs: tuple[Design, ...], beta: Vector) -> "_Logits":
        """Build them from parameters, which are brought to the device in one go."""
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
def _nothing(device: Any) -> Any:
    torch = import_module("torch")
    return torch.zeros(1, dtype=torch.float64, device=device)


def _sums(seen: _Seen, logits: _Logits, s: Any, w: Any, curvature: Curvature) -> Sums:
    """Return value, gradient and curvature, given the logits."""
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
        matrices = [_crossed(columns[0], line[3], columns[0])]
        if seen.e is not None:
            matrices += [_crossed(columns[0], line[4], columns[1]), _crossed(columns[1], line[5], columns[1])]
    value, gradient, *parts = _home(values, concat(gradients), *matrices)
    if curvature in (Curvature.EXPECTED, Curvature.OBSERVED):
        return Sums(value[0], gradient, parts[0] if seen.e is None else _put_together(*parts))
    return Sums(value[0], gradient, np.concatenate(parts) if parts else np.zeros(0))


def _by_kernel(seen: _Seen, values: Any, planes: Any) -> Sums:
    """Return sums whose products are all taken in one kernel."""
    torch, kernels, (X, f, e) = import_module("torch"), _kernels(), seen
    n_rows, n_columns = X.shape
    width, right = (
        _power(n_columns + 1),
        _right_side(None if e is None else tuple(e.indices.tolist()), X.device),
    )
    beside = right.shape[1]
    n_programs = min(_programs(X), -(-n_rows // _TILE))
    square = torch.empty((n_programs, width, width), dtype=torch.float64, device=X.device)
    others = torch.empty((n_programs, width, beside), dtype=torch.float64, device=X.device)
    kernels.weighted_products[(n_programs,)](
        X, planes, right[0], right[1], square, others,
        n_rows, X.stride(0), n_rows, -(-n_rows // (_TILE * n_programs)),
        n_columns=n_columns, width=width, beside=beside, tile=_TILE, num_warps=2 if beside <= 16 else 4, num_stages=1,
    )  # fmt: skip
    value, uu, rest = _home(values, square.sum(dim=0), others.sum(dim=0))
    of_f, k = seen.with_one(f), 0 if e is None else e.n_parameters
    ff = uu[np.ix_(of_f, of_f)]
    if e is None:
        return Sums(value[0], rest[of_f, 2 * k], ff)
    at_e = seen.with_one(e)
    gradient = np.concatenate([rest[of_f, 2 * k], rest[at_e, 2 * k + 1]])
    return Sums(value[0], gradient, _put_together(ff, rest[of_f, :k], rest[at_e, k : 2 * k]))


@cache
def _right_side(e: tuple[int, ...] | None, device: Any) -> Any:
    """Return, on the device, which column of `X` meets which term beside the square: for ``fe``, ``ee``, gradients."""
    ones = [] if e is None else [*e, -1]
    columns, terms = [*ones, *ones, -1, -1], [3] * len(ones) + [4] * len(ones) + [0, 0 if e is None else 1]
    wide = np.full((2, _power(len(columns))), -1, dtype=np.int64)
    wide[:, : len(columns)] = columns, terms
    return import_module("torch").asarray(wide, device=device)


def _put_together(ff: Matrix, fe: Matrix, ee: Matrix) -> Matrix:
    return np.block([[ff, fe], [fe.T, ee]])


def _crossed(left: Any, weight: Any, right: Any) -> Any:
    """Return ``[left, 1]' diag(weight) [right, 1]``; of many rows in pieces, which keep all of a device busy."""
    size, total = max(PIECE_ROWS, _PIECE_NUMBERS // max(1, right.shape[1]) // PIECE_ROWS * PIECE_ROWS), 0.0
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


def _terms_by_kernel(u: Any, v: Any, s: Any, w: Any, curvature: Curvature) -> Terms:
    """Return the terms of several problems, a line each."""
    nothing = _nothing(u.device)
    values, planes = _planes(_Logits(u, v, nothing, nothing), s, w, curvature)
    by_u, by_v, *information = (*planes, None, None, None)[:5]
    return Terms(values, by_u, by_v, *information)


def _planes(logits: _Logits, s: Any, w: Any, curvature: Curvature) -> tuple[Any, Any]:
    """Return the values of several problems, and planes of ``by_u, by_v, uu, uv, vv``, as far as they are asked for.

    Those of one logistic model, without `v`, have nothing in ``by_v`` and stop at ``uu``.
    """
    torch, kernels, (u, v, more_u, more_v) = import_module("torch"), _kernels(), logits
    n_problems, n_rows = u.shape
    n_blocks, alone = -(-n_rows // _TERM_ROWS), v is None
    values = torch.empty((n_problems, n_blocks), dtype=torch.float64, device=u.device)
    n_planes = 2 if curvature is Curvature.NONE else 3 if alone else 5
    planes = torch.empty((n_planes, n_problems, n_rows), dtype=torch.float64, device=u.device)
    w = w if w.stride(1) == 1 else w.contiguous()
    kernels.many_problems[(n_blocks, n_problems)](
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
    kernels.pair_answers[(n_blocks,)](
        *_Logits.of(X, (pair.f, pair.e), beta), rows["s"].contiguous(), w, by, found, n_rows,
        tile=_TERM_ROWS, num_warps=8,
    )  # fmt: skip
    of_f = [linear.transposed_product(X_f, each) for each in (by[0], by[1], w)]
    of_e = [linear.transposed_product(X_e, each) for each in (by[2], w)]
    total, positives, labelled, columns, also, beside = _home(found.sum(dim=0), *of_f, *of_e)
    return PairSums(
        *total[:6],
        squares=total[6:9],
        positives_gradient=np.concatenate([positives, np.zeros(pair.e.n_parameters)]),
        labelled_positives_gradient=np.concatenate([labelled, also]),
        columns=np.concatenate([columns, beside]),
    ).of_one_look()  # type: ignore[misc]


_QUICKER: dict[tuple[type, str], Callable[..., Any]] = {
    (LogisticPair, "sums"): _pair_sums,
    (LogisticPair, "totals"): _pair_totals,
    (TargetLogistic, "sums"): _target_sums,
    (RecalibratedPair, "sums"): _recalibrated_sums,
}


def _home(*parts: Any) -> list[Any]:
    """Bring arrays home in one go: the way takes longer than the numbers."""
    whole = in_numpy(concat([each.reshape(-1) for each in parts]))
    ends = np.cumsum([each.numel() for each in parts])[:-1]
    return [piece.reshape(tuple(each.shape)) for piece, each in zip(np.split(whole, ends), parts, strict=True)]


def _power(number: int) -> int:
    """Return the next power of 2 that is enough for a tile."""
    return max(16, 1 << (number - 1).bit_length())


def _programs(X: Any) -> int:
    """Return how many programs a device has room for."""
    if not X.is_cuda:
        return 4
    return 8 * int(import_module("torch").cuda.get_device_properties(X.device).multi_processor_count)


def _kernels() -> Any:
    return import_module("scarless.engines.kernels")
