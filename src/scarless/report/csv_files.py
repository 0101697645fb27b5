"""Results as comma-separated values: one file of means, one of single runs."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from math import isfinite
from typing import Any

from scarless.experiments.store import KEY, key_of
from scarless.report.names import SCORES
from scarless.report.results import Record, Results, group

DIGITS = 6
FOUND = ("class_prior", "label_frequency", "n_iter", "converged")


def results_csv(records: Sequence[Record], timings: Sequence[Record], manifest: Record) -> str:
    """Return one line per dataset, setting, k and method: means, half-widths of 95% intervals, runs, seconds."""
    results = group(records, timings, manifest)
    scores = results.scores()
    columns = [f"{score}_{part}" for score in scores for part in ("mean", "half_width")]
    head = ["dataset", "setting", "k", "method", "n_runs", "n_failed", *columns, "mean_seconds"]
    return _csv(head, (_line(results, row, scores) for row in results.rows()))


def _line(results: Results, row: Any, scores: Sequence[str]) -> list[Any]:
    intervals = [results.interval(row, score) for score in scores]
    seconds = results.seconds.get(row, [])
    return [
        *row,
        len(results.runs.get(row, {})),
        len(results.failed.get(row, [])),
        *(_number(value) for item in intervals for value in (item.mean, item.half)),
        _number(sum(seconds) / len(seconds)) if seconds else "",
    ]


def records_csv(records: Sequence[Record], timings: Sequence[Record]) -> str:
    """Return one line per run."""
    seconds = {key_of(timing): timing for timing in timings}
    head = [*KEY, *SCORES, *FOUND, "seconds", "peak_mb", "warnings", "error"]
    lines = []
    for record in records:
        timing = seconds.get(key_of(record), {})
        joined = {**record, **{name: timing.get(name, "") for name in ("seconds", "peak_mb")}}
        joined["warnings"] = "; ".join(record.get("warnings", []))
        lines.append([joined.get(name, "") for name in head])
    return _csv(head, lines)


def _csv(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}" if isfinite(value) else ""
