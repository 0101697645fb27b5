"""A fit is identical if workers are killed or run out of memory. Without a scheduler it ends, and can be resumed.

A slow test is not part of `make test`: ``SCARLESS_TEST_FAULTS=1 pytest tests/scale/test_dask_faults.py``.
"""

import os
import signal
import time
from contextlib import ExitStack

import numpy as np
import pytest
from distributed import Client, LocalCluster
from tests.scale.cluster import PATIENCE, Cluster
from tests.scale.files import fitted_bits, write_files

from scarless.engines import open_rows
from scarless.scale import ParquetRows
from scarless.scale import executors as module
from scarless.scale.engine import Passes
from scarless.scale.executors import ClusterError, DaskWorkers

N = 3000
LIMIT = 700 * 2**20  # bytes: three times the memory of a worker without rows


@pytest.fixture(scope="module")
def by_threads(folder):
    return bits_by(folder, "threads")


@pytest.fixture(scope="module")
def shared():
    """Return a function that returns a cluster. Tests share it until its scheduler ends, because starting is slow."""
    made = []
    with ExitStack() as stack:

        def cluster():
            if not made or made[-1].scheduler.poll() is not None:
                made.append(stack.enter_context(Cluster()))
            return made[-1]

        yield cluster


@pytest.fixture
def cluster(shared):
    return shared()


@pytest.fixture
def client(cluster):
    with cluster.client() as client:
        yield client


def with_workers(cluster, client, number):
    """Return this many running workers, and end all others."""
    living = [worker for worker in cluster.workers if worker.poll() is None]
    for worker in living[number:]:
        worker.kill()
    living += [cluster.start_worker() for _ in range(number - len(living))]
    cluster.wait_for(lambda: len(client.nthreads()) == number)
    return living[:number]


def bits_by(folder, scheduler, **options):
    return fitted_bits(ParquetRows(folder, scheduler=scheduler, **options))


class Watched(DaskWorkers):
    """Workers that count their passes, so that a test can act during one of them."""

    passes = 0

    def map(self, *arguments):
        self.passes += 1
        return super().map(*arguments)


def at_pass(monkeypatch, executor, name, number, deed):
    """Call `deed` once, when a step of the pass with this number begins."""
    plain = getattr(module._DaskPass, name)

    async def step(self, *arguments):
        if executor.passes == number and not done:
            done.append(number)
            await deed(self)
        return await plain(self, *arguments)

    done = []
    monkeypatch.setattr(module._DaskPass, name, step)
    return done


def test_results_are_identical_if_workers_are_killed(monkeypatch, cluster, client, folder, by_threads):
    """One of two workers is killed during its tasks, the other before its results are fetched; a third joins."""
    first, last = with_workers(cluster, client, 2)
    workers = Watched(client, worker_timeout=PATIENCE)
    others = []

    async def stop_first(_):
        first.send_signal(signal.SIGSTOP)  # so that it finishes none of its tasks

    async def kill_first(walk):
        assert len({each.worker for each in walk.sent}) == 2
        first.kill()

    async def kill_last(walk):
        for each in walk.sent:
            await each.future._state.wait()
        assert {each.future.status for each in walk.sent} == {"finished"}
        last.kill()
        last.wait(PATIENCE)

    async def join(_):
        if last.poll() is not None and not others:
            others.append(cluster.start_worker())

    deeds = [
        at_pass(monkeypatch, workers, "_send_waiting", 5, stop_first),
        at_pass(monkeypatch, workers, "_gathered", 5, kill_first),
        at_pass(monkeypatch, workers, "_gathered", 9, kill_last),
    ]
    plain = DaskWorkers.available_workers

    async def available_workers(self):
        found = await plain(self)
        if not found:
            await join(None)
        return found

    monkeypatch.setattr(DaskWorkers, "available_workers", available_workers)
    assert bits_by(folder, workers) == by_threads
    assert deeds == [[5], [5], [9]]
    assert workers.passes > 9
    assert len(others) == 1
    assert list(client.nthreads().values()) == [1]


@pytest.mark.skipif(not os.environ.get("SCARLESS_TEST_FAULTS"), reason="takes long: SCARLESS_TEST_FAULTS=1")
def test_a_worker_that_runs_out_of_memory(tmp_path, monkeypatch):
    """Dask's nanny ends it, and another process takes its partitions. Partitions that end every worker are named."""
    folder = write_files(tmp_path / "rows", np.ones((600, 4)), [300])
    with Cluster() as cluster, cluster.client() as client:
        cluster.start_worker("--memory-limit", str(LIMIT), nanny="--nanny")
        client.wait_for_workers(1, timeout=PATIENCE)
        before = client.run(os.getpid)
        engine = open_rows(ParquetRows(folder, scheduler=DaskWorkers(client, worker_timeout=PATIENCE)))
        assert engine.total(greedy, str(tmp_path / "once")) == (600,)
        assert (tmp_path / "once").exists()
        after = client.run(os.getpid)
        assert len(after) == 1
        assert set(before.values()).isdisjoint(after.values())
        monkeypatch.setattr(module, "MAX_WORKERS_PER_BATCH", 1)
        with pytest.raises(
            ClusterError, match=r"1 Dask workers in a row ended or .* while .*rows.part-00.* out of memory"
        ):
            engine.total(greedy, None)


def greedy(X, rows, once):
    """Allocate memory until this process is ended: only the first time, or always."""
    if once is None or not os.path.exists(once):
        if once is not None:
            open(once, "w", encoding="utf-8").close()
        hoard = [np.ones(2**17)]
        while sum(each.nbytes for each in hoard) < 1.5 * LIMIT:
            hoard.append(np.ones(2**20))
        time.sleep(PATIENCE)
        raise AssertionError("nobody ended this process")
    return (X.shape[0],)


def test_a_fit_without_its_scheduler_can_be_resumed(monkeypatch, cluster, client, folder, by_threads, tmp_path):
    with_workers(cluster, client, 1)
    workers = Watched(client, scheduler_timeout=5)
    assert DaskWorkers(client).scheduler_timeout <= 20  # default, in seconds

    async def kill(_):
        cluster.scheduler.kill()
        cluster.scheduler.wait(PATIENCE)

    deed = at_pass(monkeypatch, workers, "_gathered", 7, kill)
    with pytest.raises(
        ClusterError, match=r"scheduler has not answered for 5 seconds: .* checkpoint=folder\) resumes after"
    ):
        bits_by(folder, workers, checkpoint=tmp_path / "passes")
    assert deed == [7]
    remembered = []
    plain = Passes.recall

    def recall(self, *arguments):
        found = plain(self, *arguments)
        remembered.append((self.recalled, self.computed))
        return found

    monkeypatch.setattr(Passes, "recall", recall)
    assert bits_by(folder, "threads", checkpoint=tmp_path / "passes") == by_threads
    recalled, computed = remembered[-1]
    assert recalled > 0
    assert computed > 0


def test_a_cluster_without_workers_raises(folder):
    nobody = LocalCluster(n_workers=0, processes=False, dashboard_address=":0")
    with nobody as cluster, Client(cluster, set_as_default=False) as client:
        engine = open_rows(ParquetRows(folder, scheduler=DaskWorkers(client, worker_timeout=0.2)), "s")
        with pytest.raises(ClusterError, match=r"No Dask worker accepted tasks for 0.2 seconds: .* Start workers"):
            engine.total(greedy, None)
