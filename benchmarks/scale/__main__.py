"""Passes and fits from Parquet files, by threads, Dask and Ray, against the same rows in memory.

Data: simulated rows, 5,000,000 x 20 in float32, which are written once to the folder in SCARLESS_BENCHMARK_FILES
(default: scarless-files in the system's temporary folder) and stay there. The part `big` writes 100,000,000 rows (8
GB).
Time: about ten minutes; the part `big`, which runs only if named, takes a few more.

Times are CPU seconds of all processes, because workers on one machine share its cores.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from benchmarks.runner import Row, run_parts
from benchmarks.scale.memory import memory
from benchmarks.scale.peers import peers
from benchmarks.scale.setup import COLUMNS, FILES, NAMES, PROPENSITY, ROWS, Clock, executor, files, has, in_memory
from scarless import SAREMClassifier
from scarless.engines import Engine, InMemoryEngine, open_rows
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.scale import ParquetRows


def labelled(engine: Engine) -> Engine:
    return engine.derive(_labels, keep=True)


def _labels(X: Any, rows: Any) -> dict[str, Any]:
    return {"s": np.asarray(rows["y"], dtype=float), "w": np.ones(rows.size)}


def one_pass(engine: Engine, curvature: Curvature) -> Any:
    pair = LogisticPair(Design.of(np.arange(COLUMNS)), Design.of(np.arange(16, COLUMNS)))
    beta = np.full(pair.n_parameters, 0.1)
    return engine.total(pair.sums, beta, curvature)


def passes(
    kinds: Sequence[str] = ("threads", "threads, in files", "threads, not cached", "dask", "ray"),
) -> Iterator[Row]:
    """CPU time of a pass over rows that are cached, stored in files or decoded, against a pass in memory."""
    folder = files()
    X, s = in_memory(folder)
    plain = labelled(InMemoryEngine(X, {"y": s}))
    del X, s
    for kind in kinds:
        if kind == "ray" and not has("ray"):
            continue
        options = {"threads, in files": {"memory": 0}, "threads, not cached": {"memory": 0, "scratch": False}}
        with executor(kind.split(",")[0]) as (scheduler, clock):
            rows = ParquetRows(folder, columns=NAMES, scheduler=scheduler, **options.get(kind, {}))
            engine = labelled(open_rows(rows, "s"))
            row: Row = {"part": "passes", "method": kind}
            for curvature in (Curvature.EXPECTED, Curvature.OBSERVED):
                one_pass(plain, curvature), one_pass(engine, curvature)
                times = [  # Both take turns, so that other work on the machine affects them alike.
                    (Clock()(one_pass, plain, curvature)[0], clock(one_pass, engine, curvature)[0]) for _ in range(3)
                ]
                in_memory_seconds, seconds = map(min, zip(*times, strict=True))
                ratio = seconds / in_memory_seconds
                row[curvature.name.lower()] = {"seconds": seconds, "in_memory": in_memory_seconds, "ratio": ratio}
            yield row
            del engine


def fit(kinds: Sequence[str] = ("threads", "threads, in files", "dask", "ray")) -> Iterator[Row]:
    """CPU time of a fit from files, against loading and fitting in memory, and whether the results agree."""
    folder = files()

    def load_and_fit() -> Any:
        X, s = in_memory(folder)
        return SAREMClassifier(propensity_attributes=np.arange(16, COLUMNS)).fit(X, s)

    first = None
    for kind in kinds:
        if kind == "ray" and not has("ray"):
            continue
        with executor(kind.split(",")[0]) as (scheduler, clock):
            options = {"memory": 0} if "files" in kind else {}
            # Timed before and after, because other work may slow the machine down at one of these times.
            before, plain = Clock()(load_and_fit)
            rows = ParquetRows(folder, columns=[*NAMES, "s"], scheduler=scheduler, **options).select(NAMES)
            seconds, model = clock(SAREMClassifier(propensity_attributes=PROPENSITY).fit, rows, "s")
            memory_seconds = min(before, Clock()(load_and_fit)[0])
        first = model.coef_ if first is None else first
        yield {
            "part": "fit",
            "method": kind,
            "seconds": seconds,
            "in_memory": memory_seconds,
            "ratio": seconds / memory_seconds,
            "same_bits": bool((model.coef_ == first).all()),
            "from_memory": float(np.abs(model.coef_ - plain.coef_).max()),
        }


def predict() -> Iterator[Row]:
    """CPU time of predictions that are written to files, per million rows."""
    folder = files()
    rows = ParquetRows(folder, columns=NAMES, scheduler="threads")
    model = SAREMClassifier(propensity_attributes=PROPENSITY).fit(rows, "s")
    with tempfile.TemporaryDirectory(dir=FILES) as target:
        seconds, _ = Clock()(model.predict_to, rows, Path(target, "scored"))
    yield {"part": "predict", "method": "threads", "seconds_per_million": seconds / (ROWS / 1e6)}


def big(n: int = 100_000_000) -> Iterator[Row]:
    """Time and memory of a fit to 100,000,000 rows, in a separate process."""
    folder = files(n)
    small = files()

    def load_and_fit() -> Any:
        X, s = in_memory(small)
        return SAREMClassifier(propensity_attributes=np.arange(16, COLUMNS)).fit(X, s)

    seconds_in_memory, _ = Clock()(load_and_fit)
    code = f"from benchmarks.scale.__main__ import fit_watched; fit_watched({str(folder)!r})"
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    cpu, anonymous, resident, prior = map(float, done.stdout.split())
    yield {
        "part": "big",
        "rows": n,
        "method": "threads, in files",
        "cpu_seconds": cpu,
        "seconds": time.perf_counter() - start,
        "million_rows_per_cpu_second": n / cpu / 1e6,
        "million_rows_per_cpu_second_in_memory": ROWS / seconds_in_memory / 1e6,
        "ratio": (n / cpu) / (ROWS / seconds_in_memory),
        "anonymous_gb": anonymous / 1e3,
        "resident_gb": resident / 1e3,
        "class_prior": prior,
    }


def fit_watched(folder: str) -> None:
    """Fit with a cache of half a gigabyte, and print CPU seconds, peaks of memory in MB, and the class prior."""
    stop, peaks = Event(), {"RssAnon": 0.0, "VmRSS": 0.0}

    def watch() -> None:
        while not stop.wait(0.2):
            for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
                name = line.split(":")[0]
                if name in peaks:
                    peaks[name] = max(peaks[name], int(line.split()[1]) * 1024 / 1e6)

    Thread(target=watch, daemon=True).start()
    rows = ParquetRows(folder, columns=NAMES, memory=2**29, scratch=FILES, scheduler="threads")
    seconds, model = Clock()(SAREMClassifier(propensity_attributes=PROPENSITY).fit, rows, "s")
    stop.set()
    print(seconds, peaks["RssAnon"], peaks["VmRSS"], model.class_prior_)


PARTS = {"passes": passes, "fit": fit, "predict": predict, "memory": memory, "peers": peers, "big": big}


def main(arguments: list[str]) -> None:
    by_default = [name for name in PARTS if name != "big"]
    run_parts("scale", __doc__, PARTS, arguments, by_default=by_default)


if __name__ == "__main__":
    main(sys.argv[1:])
