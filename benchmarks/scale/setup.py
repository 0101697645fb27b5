"""Files, ways to process them, and CPU seconds of all processes, for the benchmarks of large tables."""

from __future__ import annotations

import gc
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import expit

FILES = Path(os.environ.get("SCARLESS_BENCHMARK_FILES") or Path(tempfile.gettempdir(), "scarless-files"))
ROWS, COLUMNS, FILE_ROWS, GROUP_ROWS = 5_000_000, 20, 1_000_000, 250_000
NAMES = [f"x{j:02d}" for j in range(COLUMNS)]
EFFECTS = np.linspace(1.0, -1.0, 16)
PROPENSITY = NAMES[16:]


def make_file(path: Path, seed: int, n: int) -> None:
    """Write rows with labels that depend on the last four columns: float32, plain encoding, no compression."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((COLUMNS, n), dtype=np.float32)
    y = rng.random(n) < expit(EFFECTS @ X[:16] - 1.0)
    s = y & (rng.random(n) < expit(X[16] - 0.5 * X[17]))
    table = pa.table({**{name: X[j] for j, name in enumerate(NAMES)}, "s": s.astype(np.int8), "y": y.astype(np.int8)})
    part = path.with_suffix(".part")
    pq.write_table(table, part, row_group_size=GROUP_ROWS, use_dictionary=False, compression="none")
    part.replace(path)


def files(n: int = ROWS) -> Path:
    """Return a folder with `n` rows; files that do not exist yet are written."""
    folder = FILES / f"{n}x{COLUMNS}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n // FILE_ROWS):
        path = folder / f"part-{number:04d}.parquet"
        if not path.exists():
            make_file(path, number, FILE_ROWS)
    return folder


def in_memory(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Load the files into one array, as a user with enough memory would."""
    tables = [pq.read_table(path, columns=[*NAMES, "s"], use_threads=False) for path in sorted(folder.iterdir())]
    table = pa.concat_tables(tables)
    X = np.empty((COLUMNS, table.num_rows), dtype=np.float32)
    for row, name in zip(X, NAMES, strict=True):
        row[:] = table.column(name).to_numpy()
    return np.ascontiguousarray(X.T), table.column("s").to_numpy()


def own_cpu() -> float:
    times = os.times()
    return times.user + times.system


class Clock:
    """Measures the CPU seconds of this process and of its workers, without the time of the measurement itself."""

    def __init__(self, others: Callable[[], float] = lambda: 0.0) -> None:
        self.others = others

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        """Return the CPU seconds of a call, and its result."""
        gc.collect()
        others = self.others()
        start = own_cpu()
        value = function(*arguments)
        own = own_cpu() - start
        return own + self.others() - others, value


@contextmanager
def executor(kind: str) -> Iterator[tuple[Any, Clock]]:
    """Start an executor: yield its name for ParquetRows, and a clock that counts its workers."""
    if kind == "threads":
        yield "threads", Clock()
    elif kind == "dask":
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            yield client, Clock(lambda: sum(client.run(own_cpu).values()))
    else:
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            yield "ray", Clock(descendants_cpu)
        finally:
            ray.shutdown()


def descendants_cpu() -> float:
    """Return the CPU seconds of all child processes and their descendants (Linux).

    For Ray these are the actors and servers of this session.
    """
    ticks, children, seconds = os.sysconf("SC_CLK_TCK"), defaultdict(list), {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:  # The process has just ended.
            continue
        process = int(stat.parent.name)
        children[int(fields[1])].append(process)
        seconds[process] = sum(map(int, fields[11:15])) / ticks  # includes children that have ended
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        here = children[waiting.pop()]
        total += sum(seconds[process] for process in here)
        waiting += here
    return total


def has(package: str) -> bool:
    return find_spec(package) is not None
