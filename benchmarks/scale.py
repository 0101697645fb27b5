"""Rows beyond memory: passes and fits from Parquet files, on threads, Dask and Ray, against the same rows in memory.

``python -m benchmarks.scale`` runs all parts but `big`; ``python -m benchmarks.scale passes fit`` some; ``passes:ray``
one row of a part; ``big`` writes 100,000,000 rows (8 GB) and fits them out of core. Files go to
``SCARLESS_BENCHMARK_FILES`` (default: a folder ``scarless-files`` in the system's temporary one) and stay there. Times
are CPU seconds of all processes, since workers on one machine share its cores; ratios are within one run.
``python -m benchmarks.scale table`` prints the rows.
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

from benchmarks.runner import Row, newest, print_rows, run
from benchmarks.scale_ground import COLUMNS, FILES, NAMES, PROPENSITY, ROWS, Clock, executor, files, has, in_memory
from benchmarks.scale_memory import memory
from benchmarks.scale_peers import peers
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
    """A pass over cached rows, and one that decodes them, against a pass in memory."""
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
                times = [  # in turn, since a machine that others use too is faster at one time than at another
                    (Clock()(one_pass, plain, curvature)[0], clock(one_pass, engine, curvature)[0]) for _ in range(3)
                ]
                at_home, seconds = map(min, zip(*times, strict=True))
                row[curvature.name.lower()] = {"seconds": seconds, "in_memory": at_home, "ratio": seconds / at_home}
            yield row
            del engine


def fit(kinds: Sequence[str] = ("threads", "threads, in files", "dask", "ray")) -> Iterator[Row]:
    """A fit from files, decoding included, against a fit in memory with its loading; and whether the bits agree."""
    folder = files()

    def at_home() -> Any:
        X, s = in_memory(folder)
        return SAREMClassifier(propensity_attributes=np.arange(16, COLUMNS)).fit(X, s)

    first = None
    for kind in kinds:
        if kind == "ray" and not has("ray"):
            continue
        with executor(kind.split(",")[0]) as (scheduler, clock):
            options = {"memory": 0} if "files" in kind else {}
            before, plain = Clock()(at_home)  # before and after, since others may use the machine too
            rows = ParquetRows(folder, columns=[*NAMES, "s"], scheduler=scheduler, **options).select(NAMES)
            seconds, model = clock(SAREMClassifier(propensity_attributes=PROPENSITY).fit, rows, "s")
            memory_seconds = min(before, Clock()(at_home)[0])
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

    seconds_at_home, _ = Clock()(at_home)
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
        "in_memory_at_5e6": ROWS / seconds_at_home,
        "ratio": (n / cpu) / (ROWS / seconds_at_home),
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


PARTS = {"passes": passes, "fit": fit, "predict": predict, "memory": memory, "peers": peers, "big": big}


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        print_rows(newest("scale"))
        return
    run("scale", PARTS, arguments or [name for name in PARTS if name != "big"])


if __name__ == "__main__":
    main(sys.argv[1:])
