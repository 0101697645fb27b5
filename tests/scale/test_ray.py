"""Results of Ray actors are identical to those of threads, even if an actor is killed.

Not part of `make test`, because Ray is large. After ``pip install ray``:
``SCARLESS_TEST_RAY=1 pytest tests/scale/test_ray.py``.
"""

import mmap
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from tests.scale.files import fitted_bits, make_rows, write_files

from scarless.engines import open_rows
from scarless.scale import ParquetRows, PartitionError
from scarless.scale.executors import ClusterError, RayActors, _RayWorker
from scarless.scale.partitions import STORE

N = 3000
TRIM = "MALLOC_TRIM_THRESHOLD_"
ROUNDS = 100
WALK = """
import pickle
from scarless.scale.executors import _RayWorker
from tests.scale.test_ray import page_faults
worker = _RayWorker()
if {begin}:
    worker.begin(pickle.dumps((page_faults, None, (None,))))
print(page_faults(None, None)[0][0])
"""


@pytest.fixture(scope="module")
def session():
    if find_spec("ray") is None or not os.environ.get("SCARLESS_TEST_RAY"):
        pytest.skip("needs ray, and SCARLESS_TEST_RAY=1")
    import ray

    with pytest.raises(ClusterError, match=r'scheduler="ray" needs a Ray session. Call ray.init'):
        RayActors()
    paths = os.pathsep.join(["src", "."])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRIM, "65536")  # as an earlier Dask cluster in this process leaves it
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": paths}}
        )
    yield ray
    ray.shutdown()


def process_of(X, rows):
    return ([os.getpid()],)


@pytest.mark.parametrize("how", [{}, {"memory": 0}, {"memory": 0, "scratch": False}])
def test_bits_are_those_of_threads(session, folder, how):
    ours = fitted_bits(ParquetRows(folder, scheduler="ray", **how))
    assert ours == fitted_bits(ParquetRows(folder, scheduler="threads"))


def test_an_existing_session_is_used_with_one_actor_per_cpu(session, folder):
    engine = open_rows(ParquetRows(folder), "s")
    assert isinstance(engine.executor, RayActors)
    first = engine.total(process_of)[0]
    assert len(set(first)) == 2
    assert engine.total(process_of)[0] == first


def test_results_are_identical_if_an_actor_is_killed(session, folder, monkeypatch):
    killed = []
    plain = RayActors._process

    def process_once(self, *arguments):
        if len(killed) < 3:
            killed.append(session.get(self.actors[0].__ray_call__.remote(process)))
            if len(killed) == 3:
                os.kill(killed[-1], signal.SIGKILL)
        return plain(self, *arguments)

    monkeypatch.setattr(RayActors, "_process", process_once)
    assert fitted_bits(ParquetRows(folder, scheduler="ray")) == fitted_bits(ParquetRows(folder, scheduler="threads"))
    assert len(killed) == 3


def process(_):
    return os.getpid()


def test_partitions_that_end_every_actor_raise(session, folder):
    with pytest.raises(ClusterError, match=r"5 Ray actors in a row ended .* out of memory"):
        open_rows(ParquetRows(folder, scheduler="ray"), "s").total(deadly)


def deadly(X, rows):
    os.kill(os.getpid(), signal.SIGKILL)


def test_errors_of_a_partition_are_raised_unchanged(session, tmp_path):
    X, s = make_rows(600)
    engine = open_rows(ParquetRows(write_files(tmp_path / "rows", X, [300], s=s), scheduler="ray"), "s")
    (tmp_path / "rows" / "part-001.parquet").write_bytes(b"no longer")
    with pytest.raises(PartitionError, match=r"part-001.parquet, row group 0: the file was replaced or changed"):
        engine.total(process_of)


def test_without_ray_there_is_an_error(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'scheduler="ray" needs the package ray: pip install ray'):
        open_rows(ParquetRows(folder, scheduler="ray"), "s")


def test_an_actor_forgets_entries():
    STORE._entries["scarless-test/1"] = {}
    _RayWorker().forget("scarless-test/")
    assert "scarless-test/1" not in STORE._entries


def page_faults(X, rows):
    """Return the number of new memory pages while a megabyte is allocated again and again."""
    import resource  # available on POSIX systems only

    np.ones(2**17)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(ROUNDS):
        np.ones(2**17)
    return ([resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before],)


def a_round_of_pages():
    return 2**20 // mmap.PAGESIZE


def test_actors_reuse_memory(session, folder):
    faults = open_rows(ParquetRows(folder, scheduler="ray"), "s").total(page_faults)[0]
    assert min(faults) < a_round_of_pages()


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
@pytest.mark.parametrize("begin", [True, False])
def test_memory_is_reused_despite_the_environment_variable(begin):
    paths = os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, TRIM: "65536", "PYTHONPATH": paths}
    code = WALK.format(begin=begin)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    if begin:
        assert int(done.stdout) < a_round_of_pages()
    else:  # Otherwise the test would show nothing.
        assert int(done.stdout) > ROUNDS / 2 * a_round_of_pages()
