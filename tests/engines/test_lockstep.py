"""Fits in lockstep give the same results as separate fits."""

import _thread
import signal
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context, get_config

from scarless.engines import lockstep, open_rows
from scarless.engines.blocks import Reading, Units
from scarless.engines.device import DeviceRows
from scarless.engines.lockstep import in_lockstep
from scarless.numerics.arrays import in_numpy
from scarless.numerics.batched import ColumnPairs, needed_pairs
from scarless.numerics.linear import Design
from scarless.numerics.newton import Status
from scarless.numerics.objectives import Curvature, LogisticPair, TargetLogistic
from scarless.pair.solving import PenalisedProblem

strict = pytest.importorskip("array_api_strict")


def same_sums(got, want, rtol=1e-11):
    """Compare sums. The tolerance of small entries is relative to the largest ones, because they share its rounding."""
    pairs = ([np.asarray(in_numpy(each)) for each in pair] for pair in zip(got, want, strict=True))
    for name, (one, other) in zip(want._fields, pairs, strict=True):
        size = np.abs(other).max(initial=1e-300)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-13 * size, err_msg=name)


@pytest.fixture
def engines():
    """Six engines on the same rows, with different weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    s = (rng.random(200) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    base = open_rows(DeviceRows(strict.asarray(X))).derive(lambda X, rows: {"s": s, "t": s})
    return [
        base.derive(lambda X, rows, i=i: {"w": np.random.default_rng(i).poisson(1.0, 200).astype(float)})
        for i in range(6)
    ]


OBJECTIVES = [
    LogisticPair(Design.of(np.arange(4)), Design.of(np.arange(1, 3))),
    LogisticPair(Design.of(np.array([3, 0])), Design.of(np.arange(4))),
    LogisticPair(Design.of(np.arange(4)), Design.of(np.arange(0))),
    TargetLogistic(Design.of(np.arange(4))),
    TargetLogistic(Design.of(np.array([2, 1]))),
]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("curvature", list(Curvature))
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_batched_sums_equal_separate_sums(engines, objective, curvature, kept, monkeypatch):
    if not kept:
        monkeypatch.setattr(lockstep, "_MAX_CACHED_NUMBERS_ON_CPU", 0)
        monkeypatch.setattr(lockstep, "_MAX_ROWS_TIMES_PROBLEMS", 6 * 64)
    betas = np.random.default_rng(1).normal(size=(6, objective.n_parameters))
    walked = []
    monkeypatch.setattr(lockstep._BatchedPasses, "_batched", _noted(lockstep._BatchedPasses._batched, walked))
    got = in_lockstep(engines, lambda i, engine: engine.total(objective.sums, betas[i], curvature))
    assert walked == [6]  # in one pass
    for i, engine in enumerate(engines):
        same_sums(got[i], engine.total(objective.sums, betas[i], curvature))


def _noted(function, walked):
    def noting(self, questions):
        walked.append(len(questions))
        return function(self, questions)

    return noting


def test_fits_in_lockstep_equal_separate_fits(engines):
    pair = OBJECTIVES[0]
    ridges = [np.full(pair.n_parameters, 10.0**-i) for i in range(6)]

    def fit(i, engine):
        problem = PenalisedProblem(engine, pair, ridges[i])
        return problem.solve(np.zeros(pair.n_parameters), total_weight=200.0, tol=1e-12, max_iter=100)

    for got, want in zip(in_lockstep(engines, fit), [fit(i, engine) for i, engine in enumerate(engines)], strict=True):
        assert got.status is want.status is Status.CONVERGED
        assert got.n_iter == want.n_iter
        np.testing.assert_allclose(got.parameters, want.parameters, rtol=1e-8, atol=1e-10)


def test_tasks_of_different_lengths_and_kinds(engines):
    """The run does not wait for tasks that have ended, and requests that cannot be combined are served one by one."""

    def weight(i, engine):
        total = 0.0
        for _ in range(i):
            (total,) = engine.total(lambda X, rows: (strict.sum(rows["w"]),))
        return float(total)

    want = [0.0] + [float(np.random.default_rng(i).poisson(1.0, 200).sum()) for i in range(1, 6)]
    assert in_lockstep(engines, weight) == want


def test_more_fits_than_run_at_once(engines, monkeypatch):
    monkeypatch.setattr(lockstep, "MAX_FITS_AT_ONCE", 4)
    at_once = []

    def task(i, engine):
        at_once.append(threading.active_count())
        return i

    assert in_lockstep(engines, task) == list(range(6))


def test_an_error_is_that_of_the_first_task_and_no_thread_is_left(engines):
    before = threading.active_count()

    def task(i, engine):
        engine.total(OBJECTIVES[3].sums, np.zeros(5), Curvature.NONE)
        if i in (2, 4):
            raise ValueError(f"task {i}")
        return engine.total(OBJECTIVES[3].sums, np.zeros(5), Curvature.NONE)

    with pytest.raises(ValueError, match="task 2"):
        in_lockstep(engines, task)
    assert threading.active_count() == before


def test_an_error_of_a_block_function_is_raised_in_its_task(engines):
    def wrong(X, rows):
        raise RuntimeError("no such sums")

    def task(i, engine):
        if i == 3:
            try:
                engine.total(wrong)
            except RuntimeError as error:
                return str(error)
        return "fine"

    assert in_lockstep(engines, task) == ["fine"] * 3 + ["no such sums"] + ["fine"] * 2


def test_an_error_in_a_pass_cancels_all_tasks(engines, monkeypatch):
    before = threading.active_count()
    monkeypatch.setattr(lockstep._BatchedPasses, "sums", lambda self, requests: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        in_lockstep(engines, lambda i, engine: engine.total(OBJECTIVES[3].sums, np.zeros(5), Curvature.NONE))
    assert threading.active_count() == before


@pytest.fixture
def interruptible():
    """Let Ctrl-C reach the test, also in a process that was begun in the background."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("older versions of execnet run tests in a thread that Ctrl-C does not reach")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_task_ends_at_its_next_request(engines):
    """This includes the task that is running, even if it catches every `Exception`."""
    before, asked = threading.active_count(), []

    def task(i, engine):
        for number in range(1000):
            if (i, number) == (2, 3):
                _thread.interrupt_main()
                threading.Event().wait(0.2)
            asked.append(i)
            try:
                engine.total(OBJECTIVES[3].sums, np.zeros(5), Curvature.NONE)
            except Exception:
                continue

    with pytest.raises(KeyboardInterrupt):
        in_lockstep(engines, task)
    assert len(asked) < 30
    assert threading.active_count() == before


def test_requests_of_threads_of_a_task_are_served_alone(engines):
    """These threads do not take turns. Otherwise two requests with the number of one task could swap their sums."""
    betas = np.random.default_rng(1).normal(size=(6, 4, 5))

    def task(i, engine):
        found = {}

        def ask(k):
            found[k] = engine.total(OBJECTIVES[3].sums, betas[i, k], Curvature.NONE)

        threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[k] for k in range(4)]

    for i, answers in enumerate(in_lockstep(engines, task)):
        for k, got in enumerate(answers):
            same_sums(got, engines[i].total(OBJECTIVES[3].sums, betas[i, k], Curvature.NONE))


def test_products_that_are_not_cached_are_computed_for_few_rows_at_a_time(engines, monkeypatch):
    monkeypatch.setattr(lockstep, "_MAX_CACHED_NUMBERS_ON_CPU", 0)
    monkeypatch.setattr(lockstep, "_MAX_PRODUCT_NUMBERS", 600)
    formed, before = [], ColumnPairs.columns

    def noting(self, X):
        formed.append(len(self.first) * X.shape[0])
        return before(self, X)

    monkeypatch.setattr(ColumnPairs, "columns", noting)
    betas = np.random.default_rng(1).normal(size=(6, 8))
    got = in_lockstep(engines, lambda i, engine: engine.total(OBJECTIVES[0].sums, betas[i], Curvature.OBSERVED))
    assert max(formed) <= 600
    for i, engine in enumerate(engines):
        same_sums(got[i], engine.total(OBJECTIVES[0].sums, betas[i], Curvature.OBSERVED))


def test_a_classifier_alone_and_in_a_pair_share_products_of_columns():
    assert needed_pairs((0, 2, 4), None)[0] is needed_pairs((0, 2, 4), (1, 4))[0]


def test_a_table_is_converted_to_its_units_once(engines, monkeypatch):
    """With one copy for each fit, the copies would fill the device, and passes could not be combined."""
    reading = Reading(np.dtype(np.float64), Units(np.arange(4.0), np.full(4, 2.0)))
    read = [engine.read_as(reading) for engine in engines]
    walked = []
    monkeypatch.setattr(lockstep._BatchedPasses, "_batched", _noted(lockstep._BatchedPasses._batched, walked))

    def task(i, engine):
        own = engine.in_units()
        return own.X, own.total(OBJECTIVES[3].sums, np.ones(5), Curvature.OBSERVED)

    got = in_lockstep(read, task)
    assert walked == [6]
    for (X, sums), engine in zip(got, read, strict=True):
        assert X is got[0][0]
        same_sums(sums, engine.in_units().total(OBJECTIVES[3].sums, np.ones(5), Curvature.OBSERVED))


def test_samples_in_their_units_are_not_cached(engines):
    """Each fit has its own samples; caching them all would fill a device."""
    reading = Reading(np.dtype(np.float64), Units(np.arange(4.0), np.full(4, 2.0)))
    parts, alive = [], []

    def task(i, engine):
        parts.append(weakref.ref(engine.every(1, 50).in_units().X))
        engine.total(OBJECTIVES[3].sums, np.ones(5), Curvature.NONE)  # The other tasks run now.
        alive.append(sum(part() is not None for part in parts))

    in_lockstep([engine.read_as(reading) for engine in engines], task)
    assert len(alive) == 6
    assert not any(alive)


@pytest.mark.parametrize(("device", "n_kept"), [("cpu", 0), ("cuda:0", 1)])
def test_fewer_products_are_cached_in_main_memory(device, n_kept, monkeypatch):
    monkeypatch.setattr(lockstep, "_MAX_CACHED_NUMBERS_ON_CPU", 10)
    passes, X = lockstep._BatchedPasses([]), SimpleNamespace(shape=(20, 2), device=device)
    pairs = SimpleNamespace(first=[0], columns=lambda X: "products")
    assert passes._products(X, X, pairs) == (pairs, "products" if n_kept else None)
    assert len(passes._cache) == n_kept


def test_settings_of_scikit_learn_reach_the_tasks(engines):
    with config_context(assume_finite=True):
        assert all(in_lockstep(engines, lambda i, engine: get_config()["assume_finite"]))


def test_tasks_on_engines_in_memory_run_one_by_one():
    engines = [open_rows(np.eye(2)), open_rows(np.eye(3))]
    assert in_lockstep(engines, lambda i, engine: (i, engine.n_rows)) == [(0, 2), (1, 3)]


def test_samples_and_units_run_in_lockstep_too(engines):
    def task(i, engine):
        part = engine.every(2, 1)
        return part.n_rows, part.total(OBJECTIVES[3].sums, np.ones(5), Curvature.NONE).value

    alone = [task(i, engine) for i, engine in enumerate(engines)]
    got = in_lockstep(engines, task)
    assert [rows for rows, _ in got] == [100] * 6
    np.testing.assert_allclose([value for _, value in got], [value for _, value in alone])


def test_pairs_of_columns_are_the_entries_of_a_matrix():
    X = np.random.default_rng(0).normal(size=(20, 5))
    pairs = ColumnPairs.of((0, 3, 4), (3, 1, 4, 0))
    w = np.random.default_rng(1).random((2, 20))
    got = pairs.matrices(w @ pairs.columns(X))
    for i in range(2):
        np.testing.assert_allclose(got[i], X[:, [0, 3, 4]].T @ (X[:, [3, 1, 4, 0]] * w[i][:, None]), rtol=1e-12)
    assert len(pairs.first) == 9  # 12 entries, three of which occur twice
