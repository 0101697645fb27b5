"""Functions that all benchmark programs use: the command line, timing, memory, and files of measured rows."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import records

Row = dict[str, Any]
Part = Callable[..., Iterator[Row]]

# Measured rows, which git ignores. The stored results are in `benchmarks/results`, see `benchmarks.records`.
RUNS = Path(os.environ.get("SCARLESS_BENCHMARK_RUNS") or Path(__file__).parent / "runs")
# Two rows that agree in these fields are the same measurement.
KEYS = ("part", "dataset", "method", "c", "seed", "coding", "rows", "dtype")
TABLE = "table"  # this word on the command line prints measured rows instead of measuring


def command_parser(name: str, description: str | None, **options: Any) -> argparse.ArgumentParser:
    """Return the parser of a program: its help is the docstring of the program's module."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **options,
    )


def add_record_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--record``."""
    parser.add_argument("--record", action="store_true", help=f"also append the results to {_shown(records.RESULTS)}")


def run_parts(
    name: str,
    description: str | None,
    parts: Mapping[str, Part],
    arguments: Sequence[str],
    *,
    by_default: Collection[str] | None = None,
    table: Callable[[bool], None] | None = None,
) -> None:
    """Run a program that consists of parts.

    Parameters
    ----------
    name : str
        Name of the program.
    description : str
        Docstring of its module.
    parts : dict
        Functions that yield measured rows.
    arguments : list of str
        Arguments of the command line.
    by_default : collection of str
        Parts that run if none is named; all by default.
    table : callable
        Called with the flag ``--record`` if ``table`` is on the command line. By default, the newest rows are printed,
        and recorded if the flag is set.
        A program whose table is a summary of many rows passes its own function; its single rows are not recorded.
    """
    parser = command_parser(name, description, epilog=_parts_text(parts))
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"parts to run (default: {'all' if by_default is None else ', '.join(by_default)}); PART:CASE runs one "
        f"dataset or case of a part; the word {TABLE!r} prints the results that were measured so far",
    )
    add_record_option(parser)
    options = parser.parse_args(arguments)
    if options.parts == [TABLE]:
        (table or _default_table(name))(options.record)
        return
    unknown = [part for part in options.parts if part.partition(":")[0] not in parts]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; expected {', '.join(parts)} or {TABLE}")
    for argument in options.parts or by_default or parts:
        part, _, case = argument.partition(":")
        for row in parts[part]((case,)) if case else parts[part]():
            append_row(name, row)
            print(json.dumps(row), flush=True)
            if options.record and table is None:
                records.append_row(name, row)
    if options.record and table is not None:
        table(True)


def _default_table(name: str) -> Callable[[bool], None]:
    def table(record: bool) -> None:
        rows = newest(name)
        print_rows(rows)
        for row in rows if record else ():
            records.append_row(name, row)

    return table


def _parts_text(parts: Mapping[str, Part]) -> str:
    width = max(map(len, parts)) + 2
    summaries = {part: (getattr(make, "func", make).__doc__ or "").strip().splitlines() for part, make in parts.items()}
    lines = [f"  {part:<{width}}{' '.join(text[:1])}" for part, text in summaries.items()]
    return "\n".join(["parts:", *lines, f"\nMeasured rows are appended to {_shown(RUNS / '*.jsonl')}."])


def _shown(path: Path) -> str:
    """Return a path relative to the repository if it lies inside."""
    root = Path(__file__).parents[1]
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and its result."""
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def best_of(repeats: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest of several times, and its result. Other work on the machine disturbs the minimum least."""
    runs = [timed(function) for _ in range(repeats)]
    return min(runs, key=lambda run: run[0])


def resident(field: str) -> float:
    """Return a field of the process status, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / 1e6


def extra_memory(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return by how many MB a call raises the peak of resident memory, and its result (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # Writing 5 resets the peak.
    before = resident("VmHWM")
    value = function()
    return resident("VmHWM") - before, value


def one_thread_each() -> None:
    """Limit every process that is started from now on to one thread; numpy reads these variables on import."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent process, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def read_rows(name: str) -> list[Row]:
    """Return all rows of a program that were measured so far."""
    path = RUNS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append_row(name: str, row: Row) -> None:
    """Store a measured row, with the kind of machine."""
    RUNS.mkdir(parents=True, exist_ok=True)
    row["machine"] = f"{platform.machine()}, Python {platform.python_version()}"
    with (RUNS / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def newest(name: str) -> list[Row]:
    """Return the newest row of each measurement."""
    return list({tuple(row.get(key) for key in KEYS): row for row in read_rows(name)}.values())


def print_rows(rows: list[Row]) -> None:
    """Print rows as lines of a Markdown table."""
    for row in rows:
        cells = [f"{key} {_short(value)}" for key, value in row.items() if key not in ("part", "machine")]
        print(f"| {row['part']} | {', '.join(cells)} |")


def print_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def record_table(benchmark: str, table: str, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Append the lines of a printed table as records: the first column is the case, the others are values."""
    for case, *cells in lines:
        values = {head: number(cell) for head, cell in zip(heads[1:], cells, strict=True) if cell not in ("", "–")}
        records.append(benchmark, table, case, values)


def number(text: str) -> Any:
    """Return printed text as a number with its digits, or unchanged if it is not a number."""
    plain = text.replace(",", "").removeprefix("+").removesuffix("%").strip("*")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        return records.Decimal(plain)
    except ArithmeticError:
        return text


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, dict):
        return "; ".join(f"{key} {_short(item)}" for key, item in value.items())
    return str(value)
