"""Kernels for CUDA devices give the results of the block functions; they run in Triton's interpreter, on the CPU."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from tests.engines.test_lockstep import same_sums

from scarless.engines import fused
from scarless.engines.base import Rows
from scarless.numerics.batched import row_terms
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair, TargetLogistic
from scarless.numerics.recalibrated import RecalibratedPair

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Use the kernels for tables in the memory of the CPU."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("TRITON_INTERPRET=1 must be set before Triton is imported")
    monkeypatch.setattr(fused, "has_kernels", lambda X: True)


def table(n=130, d=5, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = torch.asarray(scale * rng.normal(size=(n, d)))
    s = torch.asarray((rng.random(n) < 0.4).astype(float))
    rows = {"s": s, "t": s * 1.7, "w": torch.asarray(rng.integers(0, 3, n).astype(float))}
    return X, Rows(
        {**rows, "u": torch.asarray(rng.normal(size=n)), "v": torch.asarray(rng.normal(size=n))}, slice(0, n)
    )


def objectives(d):
    yield LogisticPair(Design.of(np.arange(d)), Design.of(np.arange(1, 3)))
    yield LogisticPair(Design.of(np.array([0, d - 1])), Design.of(np.arange(d)))
    yield LogisticPair(Design.of(np.arange(d)), Design.of(np.arange(0)))
    yield TargetLogistic(Design.of(np.arange(d)))
    yield TargetLogistic(Design.of(np.array([d - 1, 0])))
    template, scales = LogisticPair(Design.of(np.arange(d)), Design.of(np.arange(1, 4))), np.array([1.0, 2.0, 0.5])
    for options in ({}, {"held": (1,)}, {"follow": 0.5, "given": True}):
        yield RecalibratedPair.of(template, 0.3, np.array([0.1, 0.2, 0.3]), scales, **options)


@pytest.mark.parametrize("curvature", list(Curvature))
@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("narrow", [True, False])
def test_sums_of_one_problem(number, curvature, narrow, monkeypatch):
    monkeypatch.setattr(fused, "_MAX_COLUMNS", 63 if narrow else 0)
    X, rows = table()
    objective = list(objectives(5))[number]
    beta = np.random.default_rng(1).normal(size=objective.n_parameters)
    quick = fused.fused_version(objective.sums, X)
    same_sums(quick(X, rows, beta, curvature), objective.sums(X, rows, beta, curvature))


def test_totals_of_a_pair():
    X, rows = table()
    pair = LogisticPair(Design.of(np.array([4, 0, 1])), Design.of(np.arange(2)))
    beta = np.random.default_rng(1).normal(size=7)
    same_sums(fused.fused_version(pair.totals, X)(X, rows, beta), pair.totals(X, rows, beta))


@pytest.mark.parametrize("scale", [1e-3, 30.0, 400.0])
def test_logits_far_from_zero(scale):
    X, rows = table(scale=scale)
    pair = LogisticPair(Design.of(np.arange(5)), Design.of(np.arange(5)))
    beta = np.random.default_rng(2).normal(size=12)
    quick = fused.fused_version(pair.sums, X)
    for curvature in Curvature:
        same_sums(quick(X, rows, beta, curvature), pair.sums(X, rows, beta, curvature))


def test_strided_rows_and_products_in_pieces(monkeypatch):
    X, rows = table(n=400)
    pair = LogisticPair(Design.of(np.arange(5)), Design.of(np.arange(2)))
    beta = np.random.default_rng(3).normal(size=9)
    some = Rows({name: values[::3] for name, values in rows.items()}, slice(0, 400, 3))
    monkeypatch.setattr(fused, "PIECE_ROWS", 32)
    monkeypatch.setattr(fused, "MIN_ROWS_FOR_PIECES", 64)
    contiguous = Rows({name: values.contiguous() for name, values in some.items()}, some.where)
    for widest in (63, 1):  # by a kernel, and in pieces
        monkeypatch.setattr(fused, "_MAX_COLUMNS", widest)
        quick = fused.fused_version(pair.sums, X)(X[::3], some, beta, Curvature.OBSERVED)
        same_sums(quick, pair.sums(X[::3].contiguous(), contiguous, beta, Curvature.OBSERVED))


@pytest.mark.parametrize("curvature", list(Curvature))
@pytest.mark.parametrize("alone", [False, True])
def test_terms_of_several_problems(curvature, alone):
    rng = np.random.default_rng(5)
    u, v = (torch.asarray(10 * rng.normal(size=(3, 50))) for _ in range(2))
    s, w = torch.asarray((rng.random(50) < 0.5).astype(float)), torch.asarray(rng.random((3, 80)))[:, 7:57]
    want = row_terms(u, None if alone else v, s, w, curvature)
    got = fused.terms_for(torch.zeros(1, 1))(u.clone(), None if alone else v.clone(), s, w, curvature)
    for name, one, other in zip(want._fields, got, want, strict=True):
        if one is not None and other is not None:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-11, atol=1e-13, err_msg=name)


def test_tables_without_kernels(monkeypatch):
    monkeypatch.undo()
    X, _ = table()
    pair = LogisticPair(Design.of(np.arange(5)), Design.of(np.arange(2)))
    assert fused.fused_version(pair.sums, X) is None  # not on a device
    of_a_device = SimpleNamespace(is_cuda=True, shape=(1 << 28, 5))
    assert fused.fused_version(pair.sums, of_a_device) is not None
    of_a_device.shape = ((1 << 28) + 1, 5)  # so many that positions in the arrays of terms exceed 32 bits
    assert fused.fused_version(pair.sums, of_a_device) is None
    monkeypatch.setattr(fused, "has_kernels", lambda X: True)
    assert fused.fused_version(pair.sums, X) is not None
    assert fused.fused_version(pair.grams, X) is None
    assert fused.fused_version(np.sum, X) is None


def test_a_failed_kernel_warns_once_and_sums_are_computed_without_it(monkeypatch):
    def broken(*arguments):
        raise ValueError("no such instruction")

    monkeypatch.setattr(fused, "_FAILED", set())
    monkeypatch.setattr(fused, "_planes", broken)
    X, rows = table()
    pair = LogisticPair(Design.of(np.arange(5)), Design.of(np.arange(2)))
    beta = np.random.default_rng(3).normal(size=9)
    with pytest.warns(
        RuntimeWarning, match=r"The Triton kernels failed on this device \(ValueError: no such instruction\)"
    ):
        same_sums(
            fused.fused_version(pair.sums, X)(X, rows, beta, Curvature.OBSERVED),
            pair.sums(X, rows, beta, Curvature.OBSERVED),
        )
    same_sums(
        fused.fused_version(pair.sums, X)(X, rows, beta, Curvature.NONE), pair.sums(X, rows, beta, Curvature.NONE)
    )
    u = torch.zeros(2, 130, dtype=torch.float64)
    fused.terms_for(X)(u, u, rows["s"], u, Curvature.NONE)  # There is no second warning.


def test_an_out_of_memory_error_is_raised(monkeypatch):
    class OutOfMemoryError(RuntimeError):
        pass

    def full(*arguments):
        raise OutOfMemoryError

    monkeypatch.setattr(fused, "_FAILED", set())
    monkeypatch.setattr(fused, "_planes", full)
    X, rows = table()
    pair = LogisticPair(Design.of(np.arange(5)), Design.of(np.arange(2)))
    with pytest.raises(OutOfMemoryError):
        fused.fused_version(pair.sums, X)(X, rows, np.zeros(9), Curvature.NONE)
    assert not fused._FAILED
