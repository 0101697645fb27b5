"""What a fit costs, as a formula: measured on some sizes, checked on another, and asked about sizes that are not here.

``python -m benchmarks.scale_model`` measures passes and decoding at a few widths, the time of a task on a Dask cluster,
and whole fits; prints the formula, its error at a size that it was not fitted to, and the table for 1,000,000,000 rows
of 100 columns. Seconds are CPU seconds of this machine; workers are taken to be like its cores.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import nnls
from scipy.special import expit

from benchmarks.runner import append_row
from benchmarks.scale_ground import FILES, Clock, executor
from scarless import SAREMClassifier
from scarless.engines import open_rows
from scarless.engines.memory import InMemoryEngine
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.scale import ParquetRows, PartitionedEngine

PROPENSITY = 4  # columns, the last ones
MEASURED = (5, 20, 60)  # widths at which passes are measured
ROWS = 1_000_000
FITTED, CHECKED = ((2_000_000, 10), (1_000_000, 60)), (3_000_000, 40)
BYTES_PER_SECOND = 1e9  # between machines
NAMED = ("OBSERVED", "EXPECTED", "NONE")  # passes that are measured by themselves


def files(n: int, d: int) -> Path:
    """Return a folder with `n` rows of `d` columns; as in `benchmarks.scale`, of any width."""
    folder = FILES / f"{n}x{d}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n // ROWS):
        path = folder / f"part-{number:04d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        X = rng.standard_normal((d, ROWS), dtype=np.float32)
        y = rng.random(ROWS) < expit(np.linspace(1, -1, d) @ X - 1.0)
        s = y & (rng.random(ROWS) < expit(X[-1] - 0.5 * X[-2]))
        table = pa.table({**{f"x{j:03d}": X[j] for j in range(d)}, "s": s.astype(np.int8)})
        pq.write_table(
            table, path.with_suffix(".part"), row_group_size=250_000, use_dictionary=False, compression="none"
        )
        path.with_suffix(".part").replace(path)
    return folder


def rows_of(n: int, d: int, **options: Any) -> ParquetRows:
    return ParquetRows(files(n, d), columns=[f"x{j:03d}" for j in range(d)], **options)


def pass_costs(d: int) -> dict[str, float]:
    """Return CPU seconds per row of decoding, and of each kind of pass."""
    clock, engine = Clock(), open_rows(rows_of(ROWS, d, scheduler="threads"), "s")
    decoding, _ = clock(engine.total, _nothing)
    engine = engine.derive(_labels, keep=True)
    pair = LogisticPair(Design.of(np.arange(d)), Design.of(np.arange(d - PROPENSITY, d)))
    beta, found = np.full(pair.n_parameters, 0.05), {"decode": decoding / ROWS}
    for kind in (Curvature.NONE, Curvature.EXPECTED, Curvature.OBSERVED):
        engine.total(pair.sums, beta, kind)
        found[kind.name] = min(clock(engine.total, pair.sums, beta, kind)[0] for _ in range(3)) / ROWS
    return found


def _nothing(X: Any, rows: Any) -> tuple[float]:
    return (float(X.shape[0]),)


def _labels(X: Any, rows: Any) -> dict[str, Any]:
    return {"s": np.asarray(rows["y"], dtype=float), "w": np.ones(rows.size)}


def basis(kind: str, d: int) -> list[float]:
    """Return what the cost of a row is made of: decoding and gradients grow with the columns, Hessians with pairs."""
    return [1.0, float(d), 0.0 if kind in ("decode", "NONE", "other") else float(d * d)]


def formula(costs: dict[int, dict[str, float]]) -> dict[str, list[float]]:
    """Return the non-negative coefficients that explain measured costs best, relative to each."""
    found = {}
    for kind in next(iter(costs.values())):
        measured = np.array([costs[d][kind] for d in costs])
        A = np.array([basis(kind, d) for d in costs]) / measured[:, None]
        found[kind] = nnls(A, np.ones(len(costs)))[0].tolist()
    return found


def walked(n: int, d: int) -> tuple[float, Counter[str]]:
    """Return the CPU seconds of a whole fit, and how often it walked all rows, in passes of each kind."""
    counts: Counter[str] = Counter()

    def counting(engine: type) -> Any:
        plain = engine.total

        def total(self: Any, function: Any, *parameters: Any) -> Any:
            kind = next((each.name for each in parameters if isinstance(each, Curvature)), "other")
            counts[kind] += self.n_rows / n
            return plain(self, function, *parameters)

        return patch.object(engine, "total", total)

    model = SAREMClassifier(propensity_attributes=np.arange(d - PROPENSITY, d))
    with counting(PartitionedEngine), counting(InMemoryEngine):
        seconds, _ = Clock()(model.fit, rows_of(n, d, scheduler="threads"), "s")
    return seconds, counts


def predicted(terms: dict[str, list[float]], n: float, d: int, counts: dict[str, float]) -> dict[str, float]:
    """Return the CPU seconds of each part of a fit."""

    def cost(kind: str) -> float:
        return float(np.dot(terms[kind], basis(kind, d)))

    passes = {kind: n * counts[kind] * cost(kind) for kind in NAMED if kind in counts}
    rest = n * _others(counts) * cost("other") if "other" in terms else 0.0
    return {"decode": n * cost("decode"), **passes, "other": rest}


def _others(counts: dict[str, float]) -> float:
    """Return how often rows are walked for something else: checks, labels, lengths of steps, parts brought home."""
    return sum(value for kind, value in counts.items() if kind not in NAMED)


def of_the_rest(terms: dict[str, list[float]], runs: dict[tuple[int, int], tuple[float, Any]]) -> list[float]:
    """Return what a row of the other walks costs, from what whole fits take beyond the passes that were measured."""
    left = {size: seconds - sum(predicted(terms, *size, seen).values()) for size, (seconds, seen) in runs.items()}
    A = np.array([[n * _others(runs[n, d][1]) * each for each in basis("other", d)] for n, d in left])
    found: list[float] = nnls(A, np.maximum(list(left.values()), 0.0))[0].tolist()
    return found


def task_seconds() -> float:
    """Return the wall seconds that a Dask cluster takes for a task with nothing to do."""
    with tempfile.TemporaryDirectory(dir=FILES) as folder, executor("dask") as (client, _):
        table = pa.table({"x000": np.zeros(64, np.float32), "s": np.arange(64) % 2})
        for number in range(64):
            pq.write_table(table, Path(folder, f"{number:02d}.parquet"))
        engine = open_rows(ParquetRows(folder, columns=["x000"], scheduler=client), "s")
        engine.total(_nothing)
        start = time.perf_counter()
        for _ in range(10):
            engine.total(_nothing)
        return (time.perf_counter() - start) / 10 / 64


def projection(terms: Any, counts: dict[str, float], task: float, n: float, d: int, workers: int) -> dict[str, float]:
    """Return what a fit takes on so many workers of one core each."""
    parts = n * d * 4 / 2**25
    lanes = float(np.clip(parts / 8, 64, 1024))
    cpu = sum(predicted(terms, n, d, counts).values())
    passes = sum(counts.values())
    width = d + PROPENSITY + 2
    return {
        "workers": workers,
        "cpu_hours": cpu / 3600,
        "compute_minutes": cpu / workers / 60,
        "tasks_minutes": passes * lanes * task / 60,
        "bytes_minutes": passes * lanes * 8 * width**2 / BYTES_PER_SECOND / 60,
        "gb_a_worker": n * d * 4 / workers / 1e9,
    }


def main() -> None:
    costs = {d: pass_costs(d) for d in MEASURED}
    terms = formula(costs)
    runs = {size: walked(*size) for size in (*FITTED, CHECKED)}
    terms["other"] = of_the_rest(terms, {size: runs[size] for size in FITTED})
    counts = {kind: float(np.mean([runs[size][1][kind] for size in FITTED])) for kind in runs[FITTED[0]][1]}
    for size, (seconds, seen) in runs.items():
        parts = predicted(terms, *size, counts)
        row = {
            "part": "model",
            "rows": size[0],
            "columns": size[1],
            "seconds": seconds,
            "predicted": sum(parts.values()),
            "ratio": sum(parts.values()) / seconds,
            "passes": dict(seen),
            "fitted_to": size != CHECKED,
        }
        append_row("scale_model", row)
        print(json.dumps(row))
    task = task_seconds()
    print(json.dumps({"part": "terms", "terms": terms, "counts": counts, "task_seconds": task}))
    for workers in (16, 64, 256):
        row = {"part": "projection", **projection(terms, counts, task, 1e9, 100, workers)}
        append_row("scale_model", row)
        print(json.dumps(row))


if __name__ == "__main__":
    sys.exit(main())
