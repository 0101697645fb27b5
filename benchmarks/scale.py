"""Rows beyond memory: passes and fits from Parquet files, on threads, Dask and Ray, against the same rows in memory.

``python -m benchmarks.scale`` runs all parts but `big`; ``python -m benchmarks.scale passes fit`` some; ``big`` writes
100,000,000 rows (8 GB) and fits them out of core. Files go to ``SCARLESS_BENCHMARK_FILES`` (default: a folder
``scarless-files`` in the system's temporary one) and stay there. Times are CPU seconds of all processes, since workers
on one machine share its cores; ratios are within one run. ``python -m benchmarks.scale table`` prints the rows.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, SGDClassifier

from benchmarks.runner import Row, newest, print_rows, run
from scarless import SAREMClassifier
from scarless.engines import Engine, InMemoryEngine, open_rows
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.scale import ParquetRows

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
    """Return a folder with so many rows, written where they are not there."""
    folder = FILES / f"{n}x{COLUMNS}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n // FILE_ROWS):
        path = folder / f"part-{number:04d}.parquet"
        if not path.exists():
            make_file(path, number, FILE_ROWS)
    return folder


def in_memory(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Load the files into one array, as a user would who has the memory."""
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
    """CPU seconds of this process and of workers."""

    def __init__(self, others: Callable[[], float] = lambda: 0.0) -> None:
        self.others = others

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        """Return the CPU seconds that a call takes, and what it returns."""
        gc.collect()
        start = own_cpu() + self.others()
        value = function(*arguments)
        return own_cpu() + self.others() - start, value


@contextmanager
def executor(kind: str) -> Iterator[tuple[Any, Clock]]:
    """Open a way to walk rows: its name for ParquetRows, and a clock that knows its workers."""
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
            yield "ray", Clock(_ray_cpu)
        finally:
            ray.shutdown()


def _ray_cpu() -> float:
    """Return the CPU seconds of Ray's worker processes (Linux)."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.read_text().rsplit(")", 1)
        except OSError:
            continue
        if "ray::" in name:
            user, system = fields.split()[11:13]
            total += (int(user) + int(system)) / ticks
    return total


def labelled(engine: Engine) -> Engine:
    return engine.derive(_labels, keep=True)


def _labels(X: Any, rows: Any) -> dict[str, Any]:
    return {"s": np.asarray(rows["y"], dtype=float), "w": np.ones(rows.size)}


def one_pass(engine: Engine, curvature: Curvature) -> Any:
    pair = LogisticPair(Design.of(np.arange(COLUMNS)), Design.of(np.arange(16, COLUMNS)))
    beta = np.full(pair.n_parameters, 0.1)
    return engine.total(pair.sums, beta, curvature)


def passes() -> Iterator[Row]:
    """A pass over cached rows, and one that decodes them, against a pass in memory."""
    folder = files()
    X, s = in_memory(folder)
    plain = labelled(InMemoryEngine(X, {"y": s}))
    base = {}
    for curvature in (Curvature.EXPECTED, Curvature.OBSERVED):
        one_pass(plain, curvature)
        base[curvature] = min(Clock()(one_pass, plain, curvature)[0] for _ in range(3))
    del X, s, plain
    for kind in ("threads", "threads, in files", "threads, not cached", "dask", "ray"):
        if kind == "ray" and not _has("ray"):
            continue
        options = {"threads, in files": {"memory": 0}, "threads, not cached": {"memory": 0, "scratch": False}}
        with executor(kind.split(",")[0]) as (scheduler, clock):
            rows = ParquetRows(folder, columns=NAMES, scheduler=scheduler, **options.get(kind, {}))
            engine = labelled(open_rows(rows, "s"))
            row: Row = {"part": "passes", "method": kind}
            for curvature, memory in base.items():
                one_pass(engine, curvature)
                seconds = min(clock(one_pass, engine, curvature)[0] for _ in range(3))
                row[curvature.name.lower()] = {"seconds": seconds, "in_memory": memory, "ratio": seconds / memory}
            yield row
            del engine


def fit() -> Iterator[Row]:
    """A fit from files, decoding included, against a fit in memory with its loading; and whether the bits agree."""
    folder = files()

    def at_home() -> Any:
        X, s = in_memory(folder)
        return SAREMClassifier(propensity_attributes=np.arange(16, COLUMNS)).fit(X, s)

    memory, plain = Clock()(at_home)
    first = None
    for kind in ("threads", "threads, in files", "dask", "ray"):
        if kind == "ray" and not _has("ray"):
            continue
        with executor(kind.split(",")[0]) as (scheduler, clock):
            options = {"memory": 0} if "files" in kind else {}
            rows = ParquetRows(folder, columns=[*NAMES, "s"], scheduler=scheduler, **options).select(NAMES)
            seconds, model = clock(SAREMClassifier(propensity_attributes=PROPENSITY).fit, rows, "s")
        first = model.coef_ if first is None else first
        yield {
            "part": "fit",
            "method": kind,
            "seconds": seconds,
            "in_memory": memory,
            "ratio": seconds / memory,
            "same_bits": bool((model.coef_ == first).all()),
            "from_memory": float(np.abs(model.coef_ - plain.coef_).max()),
        }


def predict() -> Iterator[Row]:
    """Predictions to files, per million rows."""
    folder = files()
    rows = ParquetRows(folder, columns=NAMES, scheduler="threads")
    model = SAREMClassifier(propensity_attributes=PROPENSITY).fit(rows, "s")
    with tempfile.TemporaryDirectory(dir=FILES) as target:
        seconds, _ = Clock()(model.predict_to, rows, Path(target, "scored"))
    yield {"part": "predict", "method": "threads", "seconds_per_million": seconds / (ROWS / 1e6)}


def big(n: int = 100_000_000) -> Iterator[Row]:
    """A fit out of core, in a process of its own, whose memory is watched; rows per CPU second against memory's."""
    folder = files(n)
    small = files()

    def at_home() -> Any:
        X, s = in_memory(small)
        return SAREMClassifier(propensity_attributes=np.arange(16, COLUMNS)).fit(X, s)

    memory, _ = Clock()(at_home)
    code = f"from benchmarks.scale import fit_watched; fit_watched({str(folder)!r})"
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    cpu, anonymous, resident, prior = map(float, done.stdout.split())
    yield {
        "part": "big",
        "rows": n,
        "method": "threads, in files",
        "cpu_seconds": cpu,
        "seconds": time.perf_counter() - start,
        "rows_per_cpu_second": n / cpu,
        "in_memory_at_5e6": ROWS / memory,
        "ratio": (n / cpu) / (ROWS / memory),
        "anonymous_mb": anonymous,
        "resident_mb": resident,
        "class_prior": prior,
    }


def fit_watched(folder: str) -> None:
    """Fit with half a gigabyte of cache, and print CPU seconds, the peaks of memory in MB, and the class prior."""
    stop, peaks = Event(), {"RssAnon": 0.0, "VmRSS": 0.0}

    def watch() -> None:
        while not stop.wait(0.2):
            for line in Path("/proc/self/status").read_text().splitlines():
                name = line.split(":")[0]
                if name in peaks:
                    peaks[name] = max(peaks[name], int(line.split()[1]) * 1024 / 1e6)

    Thread(target=watch, daemon=True).start()
    rows = ParquetRows(folder, columns=NAMES, memory=2**29, scratch=FILES, scheduler="threads")
    seconds, model = Clock()(SAREMClassifier(propensity_attributes=PROPENSITY).fit, rows, "s")
    stop.set()
    print(seconds, peaks["RssAnon"], peaks["VmRSS"], model.class_prior_)


def peers() -> Iterator[Row]:
    """Others on the same files: supervised, on the true classes, so that all solve the same problem to its end."""
    folder = files()
    tables = [pq.read_table(path, columns=[*NAMES, "y"], use_threads=False) for path in sorted(folder.iterdir())]
    table = pa.concat_tables(tables)
    X = np.ascontiguousarray(np.stack([table.column(name).to_numpy() for name in NAMES]).T)
    y = table.column("y").to_numpy()
    del tables, table
    seconds, exact = Clock()(LogisticRegression(solver="newton-cholesky", tol=1e-8).fit, X, y)
    yield {"part": "peers", "method": "scikit-learn newton-cholesky, in memory", "seconds": seconds, "distance": 0.0}
    for name, others in (("scikit-learn lbfgs, in memory", LogisticRegression(max_iter=1000)),):
        seconds, model = Clock()(others.fit, X, y)
        yield {"part": "peers", "method": name, "seconds": seconds, "distance": _apart(model, exact)}

    def in_parts(passes: int) -> Any:
        model = SGDClassifier(loss="log_loss", alpha=1.0 / len(y), random_state=0)
        for _ in range(passes):
            for path in sorted(folder.iterdir()):
                part = pq.read_table(path, columns=[*NAMES, "y"], use_threads=False)
                rows = np.stack([part.column(name).to_numpy() for name in NAMES]).T
                model.partial_fit(rows, part.column("y").to_numpy(), classes=[0, 1])
        return model

    for n_passes in (1, 10):
        seconds, model = Clock()(in_parts, n_passes)
        name = f"scikit-learn SGDClassifier.partial_fit, {n_passes} passes over the files"
        yield {"part": "peers", "method": name, "seconds": seconds, "distance": _apart(model, exact)}
    del X
    yield from _dask_ml(folder, exact)
    rows = ParquetRows(folder, columns=NAMES, scheduler="threads")
    seconds, model = Clock()(SAREMClassifier(propensity_attributes=PROPENSITY).fit, rows, "s")
    yield {
        "part": "peers",
        "method": "ours, both models, from labels alone, from the files",
        "seconds": seconds,
        "distance": _apart(model, exact),
    }


def _dask_ml(folder: Path, exact: Any) -> Iterator[Row]:
    """dask-ml's logistic regression on the same files; what it cannot do is a row too."""
    name = "dask-ml LogisticRegression (lbfgs), Dask on threads"
    if not _has("dask_ml"):
        return
    try:
        import dask.dataframe as dd
        from dask_ml.linear_model import LogisticRegression as DaskLogisticRegression

        def fit() -> Any:
            table = dd.read_parquet(folder)
            X, y = table[NAMES].to_dask_array(lengths=True), table["y"].to_dask_array(lengths=True)
            return DaskLogisticRegression(solver="lbfgs", C=1.0).fit(X, y)

        seconds, model = Clock()(fit)
    except Exception as error:  # of any library in the chain
        yield {"part": "peers", "method": name, "failed": f"{type(error).__name__}: {error}"[:200]}
        return
    yield {"part": "peers", "method": name, "seconds": seconds, "distance": _apart(model, exact)}


def _apart(model: Any, exact: Any) -> float:
    """Return the largest difference of coefficients."""
    return float(np.abs(np.asarray(model.coef_) - exact.coef_).max())


def _has(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None


PARTS = {"passes": passes, "fit": fit, "predict": predict, "peers": peers, "big": big}


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        print_rows(newest("scale"))
        return
    run("scale", PARTS, arguments or [name for name in PARTS if name != "big"])


if __name__ == "__main__":
    main(sys.argv[1:])
