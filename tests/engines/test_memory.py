"""Sums over blocks do not depend on the size of blocks, the number of threads or the storage."""

import os
import signal
import time
from threading import Event, Thread
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from scarless.engines import InMemoryEngine, attach
from scarless.engines.blas import BlasThreads
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, KnownPropensity, LogisticPair, TargetLogistic

N, D = 1000, 6
DESIGN = Design.of(np.arange(D))
OBJECTIVES = {
    "target": TargetLogistic(DESIGN),
    "known": KnownPropensity(DESIGN),
    "pair": LogisticPair(DESIGN, Design.of(np.array([1, 4]))),
}
ALL = pytest.mark.parametrize("name", list(OBJECTIVES))
CURVATURES = pytest.mark.parametrize("curvature", list(Curvature))


def _data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
    s = (rng.random(n) < 0.3).astype(float)
    return X, {"s": s, "t": s * 1.5, "w": rng.random(n), "v": rng.normal(size=n)}


def _totals(engine, name, curvature=Curvature.EXPECTED):
    objective = OBJECTIVES[name]
    beta = np.linspace(-0.5, 0.7, objective.n_parameters)
    of_rows = engine.collect(objective.row_curvature, beta, Curvature.OBSERVED)
    product = attach(engine, curvature=of_rows).total(objective.product, beta)
    return (*engine.total(objective.sums, beta, curvature), *product)


def _assert_close(got, want, rtol=1e-12):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max(initial=0.0))


def _assert_identical(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@ALL
@CURVATURES
@pytest.mark.parametrize("block_rows", [7, 64, 999, 5000])
def test_block_size_changes_nothing_beyond_rounding(name, curvature, block_rows):
    X, rows = _data()
    whole = _totals(InMemoryEngine(X, rows, block_rows=N, n_threads=1), name, curvature)
    _assert_close(_totals(InMemoryEngine(X, rows, block_rows=block_rows, n_threads=1), name, curvature), whole)


@ALL
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_of_threads_changes_no_bit(name, kind, dtype):
    X, rows = _data()
    one, *others = (
        _totals(InMemoryEngine(kind(X.astype(dtype)), rows, block_rows=40, n_threads=n_threads), name)
        for n_threads in (1, 2, 5, 40)
    )
    for other in others:
        _assert_identical(other, one)


@ALL
def test_row_order_changes_nothing_beyond_rounding(name):
    X, rows = _data()
    order = np.random.default_rng(1).permutation(N)
    shuffled = InMemoryEngine(X[order], {key: column[order] for key, column in rows.items()}, block_rows=50)
    _assert_close(_totals(shuffled, name), _totals(InMemoryEngine(X, rows, block_rows=50), name))


@ALL
@CURVATURES
def test_dense_and_sparse_agree(name, curvature):
    X, rows = _data()
    dense, csr = InMemoryEngine(X, rows, block_rows=50), InMemoryEngine(sparse.csr_array(X), rows, block_rows=50)
    _assert_close(_totals(csr, name, curvature), _totals(dense, name, curvature))


@ALL
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_memory_map_equals_memory(name, order, dtype, tmp_path):
    X, rows = _data()
    X = np.asarray(X, dtype=dtype, order=order)
    on_disk = np.memmap(tmp_path / "X", dtype=dtype, mode="w+", shape=X.shape, order=order)
    on_disk[:] = X
    on_disk.flush()
    read_only = np.memmap(tmp_path / "X", dtype=dtype, mode="r", shape=X.shape, order=order)
    engine = InMemoryEngine(read_only, rows, block_rows=64)
    assert engine.X is read_only
    totals = _totals(engine, name)
    _assert_identical(totals, _totals(InMemoryEngine(X, rows, block_rows=64), name))
    assert all(type(field) is np.ndarray for field in totals)


@ALL
@CURVATURES
def test_single_precision_is_close_and_added_up_in_double(name, curvature):
    X, rows = _data()
    single = _totals(InMemoryEngine(X.astype(np.float32), rows, block_rows=10), name, curvature)
    assert all(field.dtype == np.float64 for field in single)
    _assert_close(single, _totals(InMemoryEngine(X, rows, block_rows=10), name, curvature), rtol=2e-5)


def test_sums_of_many_single_precision_blocks_lose_nothing():
    # In single precision, 1e8 + 1 is 1e8, so a sum in single precision would not grow.
    X = np.ones((1001, 1), dtype=np.float32)
    X[0] = 1e8
    engine = InMemoryEngine(X, {}, block_rows=1, n_threads=1)
    (total,) = engine.total(lambda X, rows: (X.sum(axis=0),))
    assert total == 1e8 + 1000


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 5), st.sampled_from(list(OBJECTIVES)))
def test_any_number_of_rows_in_any_blocks(n, block_rows, n_threads, name):
    X, rows = _data(n)
    engine = InMemoryEngine(X, rows, block_rows=block_rows, n_threads=n_threads)
    _assert_close(_totals(engine, name), _totals(InMemoryEngine(X, rows, block_rows=n, n_threads=1), name))
    np.testing.assert_array_equal(engine.collect(lambda X, rows: X[:, 0] + rows["w"]), X[:, 0] + rows["w"])
    (count,) = engine.total(lambda X, rows: (np.asarray(X.shape[0]),))
    assert count == n


def test_sums_over_no_rows_are_zero():
    X, rows = _data(0)
    engine = InMemoryEngine(X, rows)
    value, gradient, matrix, product = _totals(engine, "pair")
    assert value == 0
    assert not gradient.any()
    assert not product.any()
    assert matrix.shape == (10, 10)
    assert engine.collect(lambda X, rows: rows["w"]).shape == (0,)


def test_collect_keeps_the_row_order_with_many_threads():
    X = np.arange(5000.0)[:, None]
    engine = InMemoryEngine(X, {}, block_rows=3, n_threads=8)
    np.testing.assert_array_equal(engine.collect(lambda X, rows, factor: factor * X[:, 0], 2.0), 2.0 * X[:, 0])


def test_derived_values_do_not_copy_the_table():
    X, rows = _data()
    engine = InMemoryEngine(X, rows, block_rows=17, n_threads=3)
    other = attach(engine, w=np.ones(N))
    assert other.X is X
    assert (other.block_rows, other.n_threads) == (17, 3)
    np.testing.assert_array_equal(other.collect(lambda X, rows: rows["w"]), 1.0)
    np.testing.assert_array_equal(engine.collect(lambda X, rows: rows["w"]), rows["w"])


def test_shape_and_precision_are_those_of_the_table():
    engine = InMemoryEngine(np.zeros((5, 2), dtype=np.float32), {})
    assert (engine.n_rows, engine.n_columns, engine.dtype) == (5, 2, np.float32)


@pytest.mark.parametrize(
    ("n_columns", "block_rows"), [(0, 16_384), (1, 16_384), (64, 6144), (1000, 1000), (100_000, 256)]
)
def test_blocks_fit_a_cache_by_default(n_columns, block_rows):
    assert InMemoryEngine(np.empty((3, n_columns)), {}).block_rows == block_rows


@given(n_rows=st.integers(1, 100_000), n_columns=st.integers(0, 40))
def test_blocks_of_many_rows_are_of_one_size_and_a_multiple_of_four(n_rows, n_columns):
    table = np.broadcast_to(0.0, (n_rows, n_columns))
    size, most = (InMemoryEngine(X, {}).block_rows for X in (table, table[:1]))
    n_blocks = -(-n_rows // size)
    assert size <= most
    assert n_blocks == 1 if n_rows <= most else n_blocks % 4 == 0
    assert n_rows - (n_blocks - 1) * size > size - n_blocks or n_blocks == 1  # the last block may be shorter


def test_the_size_of_sparse_blocks_depends_on_stored_entries():
    X = sparse.csr_array((np.ones(5000), (np.repeat(np.arange(50), 100), np.arange(5000))), shape=(50, 100_000))
    assert InMemoryEngine(X, {}).block_rows == 2 * 393_216 // 100
    assert InMemoryEngine(sparse.csr_array((3, 5)), {}).block_rows == 2 * 393_216


def test_sparse_blocks_are_views_and_cache_few_columns():
    X = sparse.csr_array(np.random.default_rng(0).random((300, 40)))
    engine, blocks = InMemoryEngine(X, {}, block_rows=70, n_threads=1), []
    narrow, wide = Design.of(np.array([3, 7])), Design.of(np.arange(39))

    def look(X, rows):
        blocks.append((X, narrow.take(X), wide.take(X)))
        return (np.asarray(X.sum()),)

    for each in (engine, attach(engine, w=np.ones(300))):
        (total,) = each.total(look)
        assert total == pytest.approx(X.sum())
    for (first, few, many), (again, same, other) in zip(blocks[:5], blocks[5:], strict=True):
        assert np.shares_memory(first.data, X.data)
        assert np.shares_memory(first.indices, X.indices)
        assert again is first
        assert same is few
        assert other is not many
        np.testing.assert_array_equal(few.toarray(), first.toarray()[:, [3, 7]])


def test_every_returns_a_sample_of_rows_with_their_values():
    X, rows = _data()
    thin = InMemoryEngine(X, rows, n_threads=2).every(3)
    np.testing.assert_array_equal(thin.collect(lambda X, rows: X[:, 1] + rows["w"]), (X[:, 1] + rows["w"])[::3])
    later = InMemoryEngine(X, rows, n_threads=2).every(3, 2)
    np.testing.assert_array_equal(later.collect(lambda X, rows: X[:, 1] + rows["w"]), (X[:, 1] + rows["w"])[2::3])


def test_blas_uses_one_thread_inside_blocks_and_is_restored():
    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before, seen = blas_threads(), []
    engine = InMemoryEngine(np.ones((64, 2)), {}, block_rows=2, n_threads=4)
    engine.total(lambda X, rows: (seen.extend(blas_threads()) or np.asarray(1.0),))
    assert set(seen) <= {1}
    assert blas_threads() == before


def test_a_limit_on_blas_threads_is_kept():
    with threadpool_limits(1, user_api="blas"):
        assert InMemoryEngine(np.ones((2, 2)), {}).n_threads == 1


def test_sums_keep_field_names_and_do_not_modify_arrays_of_blocks():
    class Pair(NamedTuple):
        first: np.ndarray
        second: np.ndarray

    kept = np.ones(2)
    engine = InMemoryEngine(np.ones((10, 1)), {}, block_rows=1)
    sums = engine.total(lambda X, rows: Pair(kept, X.sum(axis=0)))
    assert isinstance(sums, Pair)
    np.testing.assert_array_equal(sums.first, [10, 10])
    np.testing.assert_array_equal(sums.second, [10])
    np.testing.assert_array_equal(kept, [1, 1])


@pytest.mark.parametrize("n_threads", [1, 4])
def test_an_error_in_a_block_reaches_the_caller(n_threads):
    def fail(X, rows):
        raise ArithmeticError("in a block")

    engine = InMemoryEngine(np.ones((100, 1)), {}, block_rows=1, n_threads=n_threads)
    with pytest.raises(ArithmeticError, match="in a block"):
        engine.total(fail)
    with pytest.raises(ArithmeticError, match="in a block"):
        engine.collect(fail)


class FakeBlas:
    """A fake BLAS with one pool, whose number of threads can be set."""

    def __init__(self):
        self.threads = 4

    @property
    def lib_controllers(self):
        return [SimpleNamespace(user_api="blas", num_threads=self.threads),
                SimpleNamespace(user_api="openmp", num_threads=9)]  # fmt: skip

    def limit(self, *, limits, user_api):
        before, self.threads = self.threads, limits
        return SimpleNamespace(restore_original_limits=lambda: setattr(self, "threads", before))


def test_overlapping_engines_restore_the_blas_threads(monkeypatch):
    """The limit applies to the process: the last engine restores the number of threads that the first one found."""
    blas, fake = BlasThreads(), FakeBlas()
    monkeypatch.setattr("scarless.engines.blas._controller", lambda: fake)
    first, second = blas.on_one_thread(), blas.on_one_thread()
    assert blas.threads() == 4
    first.__enter__()
    second.__enter__()
    assert (fake.threads, blas.threads()) == (1, 4)  # A new engine uses the number of threads without the limit.
    first.__exit__(None, None, None)
    assert (fake.threads, blas.threads()) == (1, 4)
    second.__exit__(None, None, None)
    assert (fake.threads, blas.threads()) == (4, 4)


def test_no_limit_is_set_if_blas_has_one_thread(monkeypatch):
    blas, fake = BlasThreads(), FakeBlas()
    fake.threads, fake.limit = 1, None
    monkeypatch.setattr("scarless.engines.blas._controller", lambda: fake)
    with blas.on_one_thread(), blas.on_one_thread():
        assert blas.threads() == 1
    assert blas.threads() == 1


def _ends(pid, seconds):
    """Return the exit status of a child; kill it and return None if it still runs after some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _sum_in_a_child(engine):
    """Fork; return the exit status of a child that sums over an engine's rows."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            (total,) = engine.total(lambda X, rows: (X.sum(axis=0),))
            status = 0 if total[0] == engine.n_rows else 2
        finally:
            os._exit(status)
    return _ends(pid, seconds=20)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_while_another_thread_sums_does_not_wait_for_it():
    engine, done = InMemoryEngine(np.ones((8, 1)), {}, block_rows=4, n_threads=1), Event()

    def keep_summing():
        while not done.is_set():
            engine.total(lambda X, rows: (X.sum(axis=0),))

    threads = [Thread(target=keep_summing) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert [_sum_in_a_child(engine) for _ in range(15)] == [0] * 15
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_keeps_only_requests_of_its_own_thread(monkeypatch):
    blas, fake = BlasThreads(), FakeBlas()
    monkeypatch.setattr("scarless.engines.blas._controller", lambda: fake)
    inside, leave = Event(), Event()

    def hold():
        with blas.on_one_thread():
            inside.set()
            leave.wait()

    thread = Thread(target=hold)
    thread.start()
    inside.wait()

    def of_child(check):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if check() else 1)
        return _ends(pid, seconds=20)

    def is_released():
        return (blas.threads(), fake.threads) == (4, 4)

    try:
        assert of_child(is_released) == 0
        with blas.on_one_thread():
            assert of_child(lambda: (blas.threads(), fake.threads) == (4, 1)) == 0
    finally:
        leave.set()
        thread.join()
    assert is_released()
