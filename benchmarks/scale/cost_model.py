"""A formula for the time of a fit, checked on a size that was not used, and its prediction for a billion rows.

Data: simulated rows, which are written to the folder in SCARLESS_BENCHMARK_FILES as for `scale`.
Time: a few minutes.

The program measures passes and decoding at three widths, the time of a task on a Dask cluster, and whole fits. It
prints the formula, its error, and the prediction for 1,000,000,000 rows of 100 columns. Seconds are CPU seconds of this
machine; workers are assumed to be like its cores.
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

from benchmarks import records
from benchmarks.runner import add_record_option, append_row, command_parser
from benchmarks.scale.setup import FILES, Clock, executor
from scarless import SAREMClassifier
from scarless.engines import open_rows
from scarless.engines.memory import InMemoryEngine
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.scale import ParquetRows, PartitionedEngine

N_PROPENSITY_COLUMNS = 4  # the last columns
MEASURED_WIDTHS = (5, 20, 60)
ROWS = 1_000_000
NAME = "scale_cost"
FITTED_SIZES, CHECKED_SIZE = ((2_000_000, 10), (1_000_000, 60)), (3_000_000, 40)
NETWORK_BYTES_PER_SECOND = 1e9
LIKELIHOOD_PASSES = ("OBSERVED", "EXPECTED", "NONE")  # kinds of passes over the likelihood, which are measured alone


def files(n: int, d: int) -> Path:
    """Return a folder with `n` rows of `d` columns; files that do not exist yet are written."""
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
    """Return the CPU seconds per row of decoding and of each kind of pass."""
    clock, engine = Clock(), open_rows(rows_of(ROWS, d, scheduler="threads"), "s")
    decoding, _ = clock(engine.total, _count)
    engine = engine.derive(_labels, keep=True)
    pair = LogisticPair(Design.of(np.arange(d)), Design.of(np.arange(d - N_PROPENSITY_COLUMNS, d)))
    beta, found = np.full(pair.n_parameters, 0.05), {"decode": decoding / ROWS}
    for kind in (Curvature.NONE, Curvature.EXPECTED, Curvature.OBSERVED):
        engine.total(pair.sums, beta, kind)
        found[kind.name] = min(clock(engine.total, pair.sums, beta, kind)[0] for _ in range(3)) / ROWS
    return found


def _count(X: Any, rows: Any) -> tuple[float]:
    return (float(X.shape[0]),)


def _labels(X: Any, rows: Any) -> dict[str, Any]:
    return {"s": np.asarray(rows["y"], dtype=float), "w": np.ones(rows.size)}


def basis(kind: str, d: int) -> list[float]:
    """Return the terms of the cost of a row.

    Decoding and gradients grow with the number of columns, Hessians with its square.
    """
    return [1.0, float(d), 0.0 if kind in ("decode", "NONE", "other") else float(d * d)]


def formula(costs: dict[int, dict[str, float]]) -> dict[str, list[float]]:
    """Return the non-negative coefficients with the smallest relative errors of the measured costs."""
    found = {}
    for kind in next(iter(costs.values())):
        measured = np.array([costs[d][kind] for d in costs])
        A = np.array([basis(kind, d) for d in costs]) / measured[:, None]
        found[kind] = nnls(A, np.ones(len(costs)))[0].tolist()
    return found


def counted_fit(n: int, d: int) -> tuple[float, Counter[str]]:
    """Return the CPU seconds of a whole fit, and its number of passes of each kind."""
    counts: Counter[str] = Counter()

    def counting(engine: type) -> Any:
        plain = engine.total

        def total(self: Any, function: Any, *parameters: Any) -> Any:
            kind = next((each.name for each in parameters if isinstance(each, Curvature)), "other")
            counts[kind] += self.n_rows / n
            return plain(self, function, *parameters)

        return patch.object(engine, "total", total)

    model = SAREMClassifier(propensity_attributes=np.arange(d - N_PROPENSITY_COLUMNS, d))
    with counting(PartitionedEngine), counting(InMemoryEngine):
        seconds, _ = Clock()(model.fit, rows_of(n, d, scheduler="threads"), "s")
    return seconds, counts


def predicted(terms: dict[str, list[float]], n: float, d: int, counts: dict[str, float]) -> dict[str, float]:
    """Return the CPU seconds of each part of a fit."""

    def cost(kind: str) -> float:
        return float(np.dot(terms[kind], basis(kind, d)))

    passes = {kind: n * counts[kind] * cost(kind) for kind in LIKELIHOOD_PASSES if kind in counts}
    rest = n * _others(counts) * cost("other") if "other" in terms else 0.0
    return {"decode": n * cost("decode"), **passes, "other": rest}


def _others(counts: dict[str, float]) -> float:
    """Return the number of other passes: checks, labels, line searches, rows that are copied into memory."""
    return sum(value for kind, value in counts.items() if kind not in LIKELIHOOD_PASSES)


def cost_of_other_passes(terms: dict[str, list[float]], runs: dict[tuple[int, int], tuple[float, Any]]) -> list[float]:
    """Return the cost per row of the other passes, from the time of whole fits beyond the measured passes."""
    left = {size: seconds - sum(predicted(terms, *size, seen).values()) for size, (seconds, seen) in runs.items()}
    A = np.array([[n * _others(runs[n, d][1]) * each for each in basis("other", d)] for n, d in left])
    found: list[float] = nnls(A, np.maximum(list(left.values()), 0.0))[0].tolist()
    return found


def task_seconds() -> float:
    """Return the wall seconds of an empty task on a Dask cluster."""
    with tempfile.TemporaryDirectory(dir=FILES) as folder, executor("dask") as (client, _):
        table = pa.table({"x000": np.zeros(64, np.float32), "s": np.arange(64) % 2})
        for number in range(64):
            pq.write_table(table, Path(folder, f"{number:02d}.parquet"))
        engine = open_rows(ParquetRows(folder, columns=["x000"], scheduler=client), "s")
        engine.total(_count)
        start = time.perf_counter()
        for _ in range(10):
            engine.total(_count)
        return (time.perf_counter() - start) / 10 / 64


def projection(terms: Any, counts: dict[str, float], task: float, n: float, d: int, workers: int) -> dict[str, float]:
    """Return the predicted times and memory of a fit on this number of workers with one core each."""
    parts = n * d * 4 / 2**25
    lanes = float(np.clip(parts / 8, 64, 1024))
    cpu = sum(predicted(terms, n, d, counts).values())
    passes = sum(counts.values())
    width = d + N_PROPENSITY_COLUMNS + 2
    return {
        "workers": workers,
        "cpu_hours": cpu / 3600,
        "compute_minutes": cpu / workers / 60,
        "tasks_minutes": passes * lanes * task / 60,
        "bytes_seconds": passes * lanes * 8 * width**2 / NETWORK_BYTES_PER_SECOND,
        "gb_per_worker": n * d * 4 / workers / 1e9,
    }


def main(arguments: list[str]) -> None:
    parser = command_parser(NAME, __doc__)
    add_record_option(parser)
    options = parser.parse_args(arguments)

    def store(row: dict[str, Any]) -> None:
        append_row(NAME, row)
        print(json.dumps(row))
        if options.record:
            records.append_row(NAME, row)

    costs = {d: pass_costs(d) for d in MEASURED_WIDTHS}
    terms = formula(costs)
    runs = {size: counted_fit(*size) for size in (*FITTED_SIZES, CHECKED_SIZE)}
    terms["other"] = cost_of_other_passes(terms, {size: runs[size] for size in FITTED_SIZES})
    kinds = runs[FITTED_SIZES[0]][1]
    counts = {kind: float(np.mean([runs[size][1][kind] for size in FITTED_SIZES])) for kind in kinds}
    for size, (seconds, seen) in runs.items():
        parts = predicted(terms, *size, counts)
        row = {
            "part": "model",
            "rows": size[0],
            "columns": size[1],
            "seconds": seconds,
            "predicted": sum(parts.values()),
            "ratio": sum(parts.values()) / seconds,
            "likelihood passes": sum(seen.values()) - _others(seen),
            "all passes": sum(seen.values()),
            "fitted_to": size != CHECKED_SIZE,
        }
        store(row)
    task = task_seconds()
    print(json.dumps({"part": "terms", "terms": terms, "counts": counts}))
    store({"part": "task", "method": "dask", "milliseconds": 1000 * task})
    for workers in (16, 64, 256):
        store({"part": "projection", **projection(terms, counts, task, 1e9, 100, workers)})


if __name__ == "__main__":
    main(sys.argv[1:])
