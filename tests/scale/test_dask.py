"""Results of Dask workers are identical to those of threads; workers cache their rows, and errors are unchanged."""

import asyncio
import gc
import time

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask import config
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from tests.scale.cluster import PATIENCE, Cluster, make_security
from tests.scale.files import fit_rows, make_rows, write_files

from scarless.engines import attach, open_rows
from scarless.scale import ParquetRows, PartitionError, executors
from scarless.scale import executors as module
from scarless.scale.executors import ClusterError, DaskWorkers, assign_batches
from scarless.scale.partitions import STORE, Cache, PartitionStore

N = 3000
CUTS = range(250, N, 250)
HOW = {"memory": {}, "files": {"memory": 0}, "nothing": {"memory": 0, "scratch": False}}


@pytest.fixture(scope="module")
def security(tmp_path_factory):
    return make_security(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def client(security):
    """Return a client of two workers; client, scheduler and workers are separate processes that use TLS."""
    with Cluster(security) as cluster:
        for _ in range(2):
            cluster.start_worker()
        with cluster.client() as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            yield client


@pytest.fixture(autouse=True)
def nothing_left():
    """Delete engines that errors still refer to, because their decoded rows would count in other tests."""
    yield
    gc.collect()


def bits(model):
    found = (model.coef_, model.intercept_, model.propensity_coef_, model.propensity_intercept_)
    return [np.asarray(each).tobytes() for each in found]


def loads_here():
    return STORE.loads


def modules_of_ours():
    import sys

    return [name for name in sys.modules if name.startswith("scarless")]


modules_of_ours.__module__ = "__main__"  # by value: by name, scarless would be imported


def keys_here():
    return sorted(STORE._entries)


@pytest.mark.parametrize("how", HOW)
def test_bits_are_those_of_threads(client, folder, how):
    ours = fit_rows(ParquetRows(folder, scheduler=client, **HOW[how]))
    assert bits(ours) == bits(fit_rows(ParquetRows(folder, scheduler="threads")))


def test_an_existing_client_is_used(client, folder):
    with client.as_current():
        assert open_rows(ParquetRows(folder), "s").executor.client is client


def test_a_client_made_for_an_address_follows_the_configuration_and_ends_with_the_rows(client, security, folder):
    with config.set(in_configuration(security)):
        engine = open_rows(ParquetRows(folder, scheduler=client.scheduler.address), "s")
    made = engine.executor.client
    assert made is not client
    assert engine.total(rows_and_labels)[0] == N
    del engine
    gc.collect()
    deadline = time.monotonic() + PATIENCE
    while made.status != "closed" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert made.status == "closed"
    assert client.status == "running"


def in_configuration(security):
    if security is None:
        return {}
    tls = "distributed.comm.tls"
    files = {"cert": security.tls_client_cert, "key": security.tls_client_key}
    return {f"{tls}.ca-file": security.tls_ca_file, **{f"{tls}.client.{name}": path for name, path in files.items()}}


def test_processes_refuse_connections_without_a_certificate(client, security):
    if security is None:
        pytest.skip("openssl makes the certificates, and is not there")
    assert all(address.startswith("tls://") for address in (client.scheduler.address, *client.nthreads()))
    with pytest.raises(ClusterError, match="No Dask scheduler answers at 'tls://"):
        DaskWorkers.of(client.scheduler.address)


def rows_and_labels(X, rows):
    return X.shape[0], rows["y"].sum()


def test_one_worker_loads_each_partition_once_and_forgets_it(client, folder):
    before = sum(client.run(loads_here).values())
    engine = open_rows(ParquetRows(folder, scheduler=client), "s")
    for _ in range(4):
        engine.total(rows_and_labels)
    assert sum(client.run(loads_here).values()) - before == len(CUTS) + 1
    kept = list(client.run(keys_here).values())
    assert [len(keys) for keys in kept] == [6, 6]
    assert not set(kept[0]) & set(kept[1])
    del engine
    gc.collect()
    deadline = time.monotonic() + PATIENCE
    while any(client.run(keys_here).values()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(client.run(keys_here).values())


def test_large_parameters_are_sent_once_per_worker(client, tmp_path):
    n = 150_000  # 8 bytes each: more than may be sent with a task
    folder = write_files(tmp_path / "rows", np.ones((n, 4)), [50_000])
    engine = attach(open_rows(ParquetRows(folder, scheduler=client)), p=np.arange(float(n)))
    assert engine.total(sum_of_attached) == (n * (n - 1) / 2,)
    np.testing.assert_array_equal(engine.collect(lambda X, rows: rows["p"]), np.arange(float(n)))
    assert engine.collect(lambda X, rows: rows["p"]).flags.aligned


def sum_of_attached(X, rows):
    return (rows["p"].sum(),)


def test_errors_of_a_partition_are_those_of_threads(client, tmp_path):
    X, s = make_rows(600)
    folder = write_files(tmp_path / "rows", X, [300], s=s)
    table = pa.table({"a": [1.0, None], "b": [1.0, 2.0], "c": [1.0, 2.0], "d": [1.0, 2.0], "s": [0, 1]})
    pq.write_table(table, folder / "part-002.parquet")
    said = []
    for scheduler in ("threads", client):
        with pytest.raises(PartitionError, match=r"part-002.parquet, row group 0: the column 'a' has no") as caught:
            fit_rows(ParquetRows(folder, scheduler=scheduler))
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_an_oserror_of_a_task_is_raised(client, folder):
    with pytest.raises(ConnectionError, match="the bucket is closed"):
        open_rows(ParquetRows(folder, scheduler=client), "s").total(out_of_reach)


def out_of_reach(X, rows):
    raise ConnectionError("the bucket is closed")


def test_the_scheduler_does_not_import_scarless(client, folder):
    fit_rows(ParquetRows(folder, scheduler=client))
    assert not client.run_on_scheduler(modules_of_ours)


# --- assignment of batches


WORKERS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4), min_size=1)


@given(n=st.integers(1, 64), before=WORKERS, after=WORKERS)
def test_batches_keep_their_worker_if_it_is_available_and_has_room(n, before, after):
    batches = [str(number) for number in range(n)]
    assigned = assign_batches(batches, {}, before)
    assert assign_batches(batches, assigned, before) == assigned
    moved = assign_batches(batches, assigned, after)
    assert set(moved) == set(batches)
    for worker, threads in after.items():
        share = -(-n * threads // sum(after.values()))
        had, has = ({batch for batch in batches if where[batch] == worker} for where in (assigned, moved))
        assert len(has) <= share
        assert len(had & has) == min(len(had), share)


def test_a_worker_caches_no_more_than_its_memory_limit_allows(folder):
    limit = 571_430_000
    unwatched = {f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")}
    with (
        config.set(unwatched),  # The worker is this process, whose memory other tests have increased.
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, memory_limit=limit, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        engine = open_rows(ParquetRows(folder, scheduler=client, scratch=False), "s")
        before = STORE.loads
        for _ in range(2):
            engine.total(rows_and_labels)
    partition = 250 * (4 * 8 + 8)
    assert partition > 0.7 * limit - 400_000_000  # so no row may be cached
    assert STORE.loads - before == 2 * (len(CUTS) + 1)


def test_pages_of_files_do_not_count_as_memory_of_the_process(tmp_path):
    n_bytes = 2**26
    store, here = PartitionStore(), psutil.Process()
    rows = store.get("k/1", Cache(0, str(tmp_path)), lambda: {"x": np.ones((8, n_bytes // 64)).T})["x"]
    before = here.memory_info().shared
    total = rows.sum()
    assert here.memory_info().shared - before > 0.9 * n_bytes
    store.release_pages("k/1")
    assert here.memory_info().shared - before < 0.1 * n_bytes
    assert rows.sum() == total
    store.release_pages("nobody/1")


def test_a_worker_that_is_paused_for_long_gets_no_tasks(monkeypatch):
    workers, now = DaskWorkers(FakeClient()), [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    found = []
    for moment, running in ((0, "ab"), (1, "a"), (5, "ab"), (6, "a"), (16, "a"), (17, "a"), (18, "ab")):
        now[0], workers.client.running = float(moment), running
        found.append("".join(asyncio.run(workers.available_workers())))
    assert found == ["ab", "ab", "ab", "ab", "ab", "a", "ab"]


class FakeClient:
    """A client of a scheduler with workers a and b, and one without a thread."""

    asynchronous = False
    running = ""

    @property
    def scheduler(self):
        return self

    async def ncores(self):
        return {"b": 2, "a": 1, "none": 0}

    async def ncores_running(self):
        return dict.fromkeys(self.running, 1)


def test_free_memory_is_kept_and_released_near_the_limit(monkeypatch):
    asked = []
    monkeypatch.setattr(executors, "_call_glibc", lambda *what: asked.append(what))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    executors.reuse_memory.__wrapped__()
    assert asked == [("mallopt", -1, 2**26), ("mallopt", -3, 2**25)]
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    executors.reuse_memory.__wrapped__()
    executors.release_memory()
    assert asked[2:] == [("malloc_trim", 0)]


def test_missing_functions_of_glibc_are_ignored():
    executors._call_glibc("scarless_has_no_such_function", 1)


# --- errors


def test_an_address_without_a_scheduler_is_refused():
    with (
        config.set({"distributed.comm.timeouts.connect": "0.5s"}),
        pytest.raises(
            ClusterError, match=r"No Dask scheduler answers at 'tcp://127.0.0.1:9'.*such as \"tcp://host:8786\""
        ),
    ):
        DaskWorkers.of("tcp://127.0.0.1:9")


def test_an_invalid_scheduler_is_refused(folder):
    with pytest.raises(TypeError, match=r'scheduler must be "threads", "ray", a Dask client or the address .* got int'):
        open_rows(ParquetRows(folder, scheduler=3), "s")


def test_a_closed_client_is_refused(folder):
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        with Client(cluster, set_as_default=False) as client:
            engine = open_rows(ParquetRows(folder, scheduler=client), "s")
        with pytest.raises(ClusterError, match=r"client is closed\. Open a new client"):
            engine.total(rows_and_labels)


def test_an_asynchronous_client_is_refused():
    class Asynchronous:
        asynchronous = True

    with pytest.raises(ValueError, match="client must not be asynchronous"):
        DaskWorkers(Asynchronous())
