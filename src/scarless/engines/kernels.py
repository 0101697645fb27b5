"""Terms of the likelihood on a CUDA device, by kernels of Triton's: a row is read once, and nothing in between is kept.

The formulas are those of `scarless.numerics.likelihood` and `scarless.numerics.objectives`, where they are explained;
`tests/torch/test_kernels.py` compares both. Only `scarless.engines.fused` imports this module, where Triton is.
"""

from importlib import import_module
from typing import Any

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

KINDS = {"observed": 0, "expected": 1, "none": 2, "diagonal": 3}  # of curvature, as kernels are told


@triton.jit
def _log1p(x):
    """Logarithm of 1 + x without the rounding of 1 + x (Kahan)."""
    y = 1.0 + x
    near = y == 1.0
    return tl.where(near, x, tl.log(y) * (x / tl.where(near, 1.0, y - 1.0)))


@triton.jit
def _sigmoid_pair(z):
    """The logistic function, its complement, and the logarithm of 1 + exp(-|z|)."""
    t = tl.exp(-tl.abs(z))
    larger = 1.0 / (1.0 + t)
    smaller = t * larger
    return tl.where(z >= 0, larger, smaller), tl.where(z >= 0, smaller, larger), _log1p(t)


@triton.jit
def pair_terms(u, v, s, w, kind: tl.constexpr):
    """Return value, both derivatives and the information of both logits, each times the weight."""
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
    """Return value, derivative and information of a logistic model for real-valued targets, times the weight."""
    p, not_p, soft = _sigmoid_pair(z)
    value = soft + tl.where(z > 0, (1.0 - t) * z, -t * z)
    residual = tl.where(z > 0, (1.0 - t) - not_p, p - t)
    return w * value, w * residual, w * p * not_p


@triton.jit
def walk_rows(
    X, S, W, BETA, ALSO, SCALED, SUMS,
    n_rows, stride, n_steps,
    pair: tl.constexpr, kind: tl.constexpr,
    n_columns: tl.constexpr, width: tl.constexpr, n_also: tl.constexpr, width_also: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Walk rows for one problem: sums of ``[x, 1]`` times each term, and rows times their information.

    ``SUMS`` gets, for each program, columns of value, both derivatives and the information; ``SCALED`` the rows
    ``[x uu, z uv, z vv]``, with ``z`` the columns that the propensity sees: the one matrix that is left to multiply.
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    columns, also, term = tl.arange(0, width), tl.arange(0, width_also), tl.arange(0, 16)
    beta = tl.load(BETA + columns)
    beta_also = tl.load(BETA + width + columns) if pair else beta
    seen = tl.load(ALSO + also)
    sums = tl.zeros((width, 16), dtype=tl.float64)
    long = n_columns + 2 * n_also
    for step in range(n_steps):
        rows = (program + step * n_programs) * tile + tl.arange(0, tile)
        there = rows < n_rows
        begin = rows.to(tl.int64) * stride
        inside = there[:, None] & (columns < n_columns)[None, :]
        x = tl.load(X + begin[:, None] + columns[None, :], mask=inside, other=0.0)
        x = tl.where((columns == n_columns)[None, :], 1.0, x.to(tl.float64))
        s = tl.load(S + rows, mask=there, other=0.0)
        w = tl.load(W + rows, mask=there, other=0.0)
        u = tl.sum(x * beta[None, :], axis=1)
        if pair:
            v = tl.sum(x * beta_also[None, :], axis=1)
            value, by_u, by_v, uu, uv, vv = pair_terms(u, v, s, w, kind)
        else:
            value, by_u, uu = target_terms(u, s, w)
            by_v, uv, vv = by_u, uu, uu
        terms = tl.where((term == 0)[None, :], value[:, None], 0.0)
        terms = tl.where((term == 1)[None, :], by_u[:, None], terms)
        terms = tl.where((term == 2)[None, :], by_v[:, None], terms)
        if kind == 3:
            square = tl.where((term == 3)[None, :], uu[:, None], tl.where((term == 4)[None, :], vv[:, None], 0.0))
            sums = tl.dot(tl.trans(x * x), square, acc=sums, out_dtype=tl.float64)
        elif kind != 2:
            terms = tl.where((term == 3)[None, :], uu[:, None], terms)
            terms = tl.where((term == 4)[None, :], uv[:, None], terms)
            terms = tl.where((term == 5)[None, :], vv[:, None], terms)
            out = SCALED + rows.to(tl.int64)[:, None] * long
            tl.store(out + columns[None, :], x * uu[:, None], mask=inside)
            if pair:
                within = there[:, None] & (also < n_also)[None, :]
                z = tl.load(X + begin[:, None] + seen[None, :], mask=within, other=0.0).to(tl.float64)
                tl.store(out + n_columns + also[None, :], z * uv[:, None], mask=within)
                tl.store(out + n_columns + n_also + also[None, :], z * vv[:, None], mask=within)
        sums = tl.dot(tl.trans(x), terms, acc=sums, out_dtype=tl.float64)
    place = columns[:, None] * 16 + term[None, :]
    tl.store(SUMS + program * width * 16 + place, sums)


@triton.jit
def many_problems(
    U, V, S, W, UU, UV, VV, VALUE,
    n_rows, stride, pair: tl.constexpr, kind: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Turn logits of several problems, a line each, into derivatives in place, and write their information."""
    block, problem = tl.program_id(0), tl.program_id(1)
    rows = block * tile + tl.arange(0, tile)
    there = rows < n_rows
    place = problem.to(tl.int64) * n_rows + rows
    s = tl.load(S + rows, mask=there, other=0.0)
    w = tl.load(W + problem.to(tl.int64) * stride + rows, mask=there, other=0.0)
    u = tl.load(U + place, mask=there, other=0.0)
    if pair:
        v = tl.load(V + place, mask=there, other=0.0)
        value, by_u, by_v, uu, uv, vv = pair_terms(u, v, s, w, kind)
        tl.store(V + place, by_v, mask=there)
        if kind != 2:
            tl.store(UV + place, uv, mask=there)
            tl.store(VV + place, vv, mask=there)
    else:
        value, by_u, uu = target_terms(u, s, w)
    tl.store(U + place, by_u, mask=there)
    if kind != 2:
        tl.store(UU + place, uu, mask=there)
    tl.store(VALUE + problem * tl.num_programs(0) + block, tl.sum(value, axis=0))
