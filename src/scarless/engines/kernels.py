"""Triton kernels for the terms of the likelihood on a CUDA device, without intermediate arrays.

The formulas are those of `scarless.numerics.likelihood` and `scarless.numerics.objectives`;
`tests/torch/test_kernels.py` compares the results. Only `scarless.engines.fused` imports this module, if Triton is
installed.
"""

from importlib import import_module
from typing import Any

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

KINDS = {"observed": 0, "expected": 1, "none": 2, "diagonal": 3}  # codes of the kinds of curvature for kernels


@triton.jit
def _log1p(x):
    """Return log(1 + x) without the rounding error of 1 + x (Kahan)."""
    y = 1.0 + x
    near = y == 1.0
    return tl.where(near, x, tl.log(y) * (x / tl.where(near, 1.0, y - 1.0)))


@triton.jit
def _sigmoid_pair(z):
    """Return the logistic function, its complement, and log(1 + exp(-|z|))."""
    t = tl.exp(-tl.abs(z))
    larger = 1.0 / (1.0 + t)
    smaller = t * larger
    return tl.where(z >= 0, larger, smaller), tl.where(z >= 0, smaller, larger), _log1p(t)


@triton.jit
def pair_terms(u, v, s, w, kind: tl.constexpr):
    """Return the negative log-likelihood of each row and its derivatives by both logits, multiplied by the weight.

    The results are the value, the first derivatives by u and v, and the second derivatives by u twice, by u and v, and
    by v twice. The second derivatives are expected values, unless `kind` is 0 (observed).
    """
    f, not_f, soft_u = _sigmoid_pair(u)
    e, not_e, soft_v = _sigmoid_pair(v)
    above_u, above_v = tl.maximum(u, 0.0) + soft_u, tl.maximum(v, 0.0) + soft_v  # log(1 + exp)
    below_u, below_v = tl.maximum(-u, 0.0) + soft_u, tl.maximum(-v, 0.0) + soft_v
    unlabelled = tl.minimum(not_f + f * not_e, 1.0)
    far = unlabelled < 1e-290
    safe = tl.where(far, 1.0, unlabelled)
    far_q, far_not_q, _ = _sigmoid_pair(u - above_v)
    q = tl.where(far, far_q, f * not_e / safe)
    not_q = tl.where(far, far_not_q, not_f / safe)
    product = f * e
    one, other = -above_u, -below_u - above_v
    far_value = tl.maximum(one, other) + _log1p(tl.exp(-tl.abs(one - other)))
    many = tl.where(far, far_value, tl.log(tl.maximum(unlabelled, 1e-290)))
    value = tl.where(product < 0.5, _log1p(-tl.minimum(product, 0.5)), many)
    labelled = s == 1.0
    value = tl.where(labelled, -below_u - below_v, value)
    by_u = tl.where(labelled, not_f, -not_q * product)
    by_v = tl.where(labelled, not_e, -q * e)
    if kind == 0:
        uu = tl.where(labelled, f * not_f, not_q * product * (not_f - q))
        uv = tl.where(labelled, 0.0, e * q * not_q)
        vv = tl.where(labelled, e * not_e, q * e * (not_e - not_q * e))
    else:
        a = tl.sqrt(not_f) * tl.sqrt(product * not_q)
        b = tl.sqrt(not_e) * tl.sqrt(e * q)
        uu, uv, vv = a * a, a * b, b * b
    return -w * value, -w * by_u, -w * by_v, w * uu, w * uv, w * vv


@triton.jit
def target_terms(z, t, w):
    """Return the negative log-likelihood of each row and its first and second derivative, multiplied by the weight.

    The model is logistic with real-valued targets `t`; the derivatives are by the logit `z`.
    """
    p, not_p, soft = _sigmoid_pair(z)
    value = soft + tl.where(z > 0, (1.0 - t) * z, -t * z)
    residual = tl.where(z > 0, (1.0 - t) - not_p, p - t)
    return w * value, w * residual, w * p * not_p


@triton.jit
def weighted_products(
    X, TERMS, COLUMN, TERM, SQUARE, BESIDE,
    n_rows, stride, plane, n_steps,
    n_columns: tl.constexpr, width: tl.constexpr, beside: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Compute ``A'DA`` and ``A'B``, where ``A = [x, 1]`` has one line for each row, and ``D`` is diagonal.

    ``TERMS`` is the output of `terms_of_problems` for one problem: its first axis is the term (``by_u, by_v, uu, uv,
    vv``), its second axis the row. The diagonal of ``D`` is ``uu``. Column j of ``B`` is a column of ``A`` times a
    term, row by row: ``COLUMN[j]`` is the number of the column, or -1 for the column of ones, and ``TERM[j]`` is the
    number of the term. If ``TERM[j]`` is -1, column j of ``B`` is 0.

    Each program writes the sums over its own rows: ``A'DA`` to ``SQUARE``, ``A'B`` to ``BESIDE``. The first axis of
    both is the program. The symmetry of ``A'DA`` is not used: computing three quarters of the matrix took longer than
    computing all of it.
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    columns, right = tl.arange(0, width), tl.arange(0, beside)
    column, term = tl.load(COLUMN + right), tl.load(TERM + right)
    square = tl.zeros((width, width), dtype=tl.float64)
    others = tl.zeros((width, beside), dtype=tl.float64)
    for step in range(n_steps):
        rows = (program + step * n_programs) * tile + tl.arange(0, tile)
        there = rows < n_rows
        begin = rows.to(tl.int64)[:, None] * stride
        x = tl.load(X + begin + columns[None, :], mask=there[:, None] & (columns < n_columns)[None, :], other=0.0)
        x = tl.where((columns == n_columns)[None, :], 1.0, x)
        uu = tl.load(TERMS + 2 * plane + rows, mask=there, other=0.0)
        left = tl.trans(x)
        square = tl.dot(left, x * uu[:, None], acc=square, out_dtype=tl.float64)
        z = tl.load(X + begin + column[None, :], mask=there[:, None] & (column >= 0)[None, :], other=1.0)
        place = term.to(tl.int64)[None, :] * plane + rows[:, None]
        weight = tl.load(TERMS + place, mask=there[:, None] & (term >= 0)[None, :], other=0.0)
        others = tl.dot(left, z * weight, acc=others, out_dtype=tl.float64)
    tl.store(SQUARE + program * width * width + columns[:, None] * width + columns[None, :], square)
    tl.store(BESIDE + program * width * beside + columns[:, None] * beside + right[None, :], others)


@triton.jit
def pair_totals(U, V, MORE_U, MORE_V, S, W, GRADIENTS, SUMS, n_rows, tile: tl.constexpr):
    """Compute the sums of `PairSums` over one block of rows, and derivatives for the gradients of two of these sums.

    ``SUMS`` has one line for each block: the log-likelihood and the other sums, up to `squares`. ``GRADIENTS`` has one
    column for each row, and three lines: the derivative of w f by the logit u, the derivative of w f e by u, and the
    derivative of w f e by the logit v.
    """
    block = tl.program_id(0)
    rows = block * tile + tl.arange(0, tile)
    there = rows < n_rows
    s, w = tl.load(S + rows, mask=there, other=0.0), tl.load(W + rows, mask=there, other=0.0)
    u = tl.load(U + rows, mask=there, other=0.0) + tl.load(MORE_U)
    v = tl.load(V + rows, mask=there, other=0.0) + tl.load(MORE_V)
    value, _, _, _, _, _ = pair_terms(u, v, s, w, 2)
    f, not_f, _ = _sigmoid_pair(u)
    e, not_e, _ = _sigmoid_pair(v)
    labelled = f * e
    tl.store(GRADIENTS + rows, w * f * not_f, mask=there)
    tl.store(GRADIENTS + n_rows + rows, w * labelled * not_f, mask=there)
    tl.store(GRADIENTS + 2 * n_rows + rows, w * labelled * not_e, mask=there)
    out = SUMS + block * 16
    tl.store(out, -tl.sum(value, axis=0))
    tl.store(out + 1, tl.sum(w, axis=0))
    tl.store(out + 2, tl.sum(w * s, axis=0))
    tl.store(out + 3, tl.sum(w * f, axis=0))
    tl.store(out + 4, tl.sum(w * labelled, axis=0))
    tl.store(out + 5, tl.sum(w * e, axis=0))
    tl.store(out + 6, tl.sum(w * f * f, axis=0))
    tl.store(out + 7, tl.sum(w * f * labelled, axis=0))
    tl.store(out + 8, tl.sum(w * labelled * labelled, axis=0))


@triton.jit
def terms_of_problems(
    U, V, MORE_U, MORE_V, S, W, TERMS, VALUE,
    n_rows, stride, plane, pair: tl.constexpr, kind: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Compute the results of `pair_terms`, or of `target_terms` if `pair` is False, for several problems.

    The first axis of ``U``, ``V`` and ``W`` is the problem, the second axis the row. ``MORE_U`` and ``MORE_V`` are
    intercepts that are added to all logits. The axes of ``TERMS`` are the term (``by_u, by_v, uu, uv, vv``), the
    problem and the row. ``VALUE`` has the sum of the values for each problem and block of rows.
    """
    block, problem = tl.program_id(0), tl.program_id(1)
    rows = block * tile + tl.arange(0, tile)
    there = rows < n_rows
    place = problem.to(tl.int64) * n_rows + rows
    s = tl.load(S + rows, mask=there, other=0.0)
    w = tl.load(W + problem.to(tl.int64) * stride + rows, mask=there, other=0.0)
    u = tl.load(U + place, mask=there, other=0.0) + tl.load(MORE_U)
    if pair:
        v = tl.load(V + place, mask=there, other=0.0) + tl.load(MORE_V)
        value, by_u, by_v, uu, uv, vv = pair_terms(u, v, s, w, kind)
        tl.store(TERMS + plane + place, by_v, mask=there)
        if kind != 2:
            tl.store(TERMS + 3 * plane + place, uv, mask=there)
            tl.store(TERMS + 4 * plane + place, vv, mask=there)
    else:
        value, by_u, uu = target_terms(u, s, w)
    tl.store(TERMS + place, by_u, mask=there)
    if kind != 2:
        tl.store(TERMS + 2 * plane + place, uu, mask=there)
    tl.store(VALUE + problem * tl.num_programs(0) + block, tl.sum(value, axis=0))
