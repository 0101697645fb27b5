"""What the benchmarks share: timing, memory, rows of results on disk, the table."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Part = Callable[..., Iterator[Row]]

RESULTS = Path(os.environ.get("SCARLESS_BENCHMARK_RESULTS") or Path(__file__).parent / "results")
KEYS = ("part", "dataset", "method", "c", "seed", "coding", "rows", "dtype")  # what makes two rows the same measurement


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and what it returns."""
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def best_of(repeats: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest of several times, which other work on the machine disturbs least."""
    runs = [timed(function) for _ in range(repeats)]
    return min(runs, key=lambda run: run[0])


def resident(field: str) -> float:
    """Return a field of the process status, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / 1e6


def extra_memory(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the growth of the resident set's high-water mark over a call, in MB, and what it returns (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = resident("VmHWM")
    value = function()
    return resident("VmHWM") - before, value


def read_rows(name: str) -> list[Row]:
    """Return all rows measured so far."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(name: str, parts: Mapping[str, Part], arguments: list[str]) -> None:
    """Run the parts that are asked for, or all, and append their rows to the results as they come."""
    for argument in arguments or list(parts):
        part, _, dataset = argument.partition(":")  # "speed:adult" runs the part on one dataset
        for row in parts[part]((dataset,)) if dataset else parts[part]():
            append_row(name, row)
            print(json.dumps(row), flush=True)


def append_row(name: str, row: Row) -> None:
    """Add a row, with the machine it was measured on, to the results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    row["machine"] = f"{platform.machine()}, Python {platform.python_version()}"
    with (RESULTS / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def newest(name: str) -> list[Row]:
    """Return the newest row of each measurement."""
    return list({tuple(row.get(key) for key in KEYS): row for row in read_rows(name)}.values())


def print_rows(rows: list[Row]) -> None:
    """Print rows as lines of a Markdown table."""
    for row in rows:
        cells = [f"{key} {_short(value)}" for key, value in row.items() if key not in ("part", "machine")]
        print(f"| {row['part']} | {', '.join(cells)} |")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, dict):
        return "; ".join(f"{key} {_short(item)}" for key, item in value.items())
    return str(value)
