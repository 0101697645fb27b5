"""Records of benchmark results: one JSON line for each row of a table on the results page.

The files ``benchmarks/results/*.jsonl`` are part of the repository. ``python -m benchmarks page`` writes
``benchmarks/README.md`` from them. A program that is started with ``--record`` appends its rows here. For each case of
a table, the newest record counts.

A record has these fields:

- ``benchmark``, ``table``, ``case``: the program, the table, and the row of the table.
- ``values``: what was measured, by name. The names give the unit, for example ``seconds`` or ``extra_mb``.
- ``goal``: what we aimed for, in words; absent if there was no goal. A new record of a case keeps the old goal.
- ``version``, ``machine``, ``source``: the version of scarless, the class of machine, and where the numbers come from.

Numbers keep the digits with which they were stored: 0.290 stays 0.290.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import scarless

Record = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
SIGNIFICANT_DIGITS = 4  # digits of the numbers that programs record
# Fields that identify a measured row; together they are the case of its record.
CASE_FIELDS = ("dataset", "method", "coding", "c", "seed", "rows", "dtype", "what", "spread", "columns", "workers")


def read(folder: Path | None = None) -> list[Record]:
    """Return the newest record of each case, in the order in which the cases were first recorded."""
    folder = RESULTS if folder is None else folder
    newest: dict[tuple[str, str, str], Record] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line, parse_float=Decimal)
            newest[record["benchmark"], record["table"], record["case"]] = record
    return list(newest.values())


def append(
    benchmark: str,
    table: str,
    case: str,
    values: Mapping[str, Any],
    *,
    goal: str | None = None,
    source: str | None = None,
    machine: str | None = None,
    folder: Path | None = None,
) -> Record:
    """Append one record. By default, the goal is that of the previous record of the same case."""
    folder = RESULTS if folder is None else folder
    if goal is None:
        same = [r for r in read(folder) if (r["benchmark"], r["table"], r["case"]) == (benchmark, table, case)]
        goal = same[-1].get("goal") if same else None
    record: Record = {"benchmark": benchmark, "table": table, "case": case, "values": _plain(values)}
    if goal is not None:
        record["goal"] = goal
    record["version"] = scarless.__version__
    record["machine"] = machine or f"{os.cpu_count()} cores"
    record["source"] = source or f"python -m benchmarks {benchmark}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{benchmark}.jsonl").open("a", encoding="utf-8") as file:
        file.write(dumps(record) + "\n")
    return record


def append_row(benchmark: str, row: Mapping[str, Any], **options: Any) -> Record:
    """Append a row as `benchmarks.runner` stores it: its part is the table, its identifying fields are the case."""
    case = ", ".join(_words(row[name]) for name in CASE_FIELDS if row.get(name) is not None)
    left_out = {"part", "machine", *CASE_FIELDS}
    values = {name: value for name, value in row.items() if name not in left_out}
    return append(benchmark, str(row.get("part", benchmark)), case or "all", values, **options)


def dumps(value: Any) -> str:
    """Return JSON in which decimal numbers keep their digits."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _plain(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return values as numbers and text. Nested names are joined; lists other than shapes are left out."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _plain(value, f"{prefix}{name} ")
        elif name == "shape":
            found[f"{prefix}{name}"] = " x ".join(f"{size:,}" for size in value)
        elif isinstance(value, bool):
            found[f"{prefix}{name}"] = "yes" if value else "no"
        elif isinstance(value, float):
            found[f"{prefix}{name}"] = _rounded(value)
        elif isinstance(value, int | str | Decimal):
            found[f"{prefix}{name}"] = value
    return found


def _rounded(value: float) -> Any:
    if not math.isfinite(value):
        return str(value)
    digits = SIGNIFICANT_DIGITS - 1 - (math.floor(math.log10(abs(value))) if value else 0)
    rounded = round(value, digits)
    return int(rounded) if digits <= 0 else rounded


def _words(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
