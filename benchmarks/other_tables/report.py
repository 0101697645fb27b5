"""The tables of scores that ``python -m benchmarks other_tables table`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import rankdata

from benchmarks.other_tables.methods import METHODS, ORACLES
from benchmarks.other_tables.tasks import MECHANISMS, TABLES
from benchmarks.runner import Row, print_table, read_rows, record_table

NAME = "other_tables"
# Smaller differences of the MSE do not count: a fit that takes every positive to be labelled is the naive model up to
# rounding.
MIN_MSE_DIFFERENCE = 1e-4
BASELINE = "SAREM, without propensity attributes"
Key = tuple[str, str, int, str]
Scores = dict[str, list[Row]]  # rows of each method, in the same order of tasks


def key_of(row: Row) -> Key:
    """Return the fields that identify a measurement."""
    return row["table"], row["mechanism"], row["seed"], row["method"]


def newest_rows() -> list[Row]:
    """Return the newest row of each measurement."""
    return list({key_of(row): row for row in read_rows(NAME)}.values())


def common_scores(
    methods: Sequence[str] | None,
    tables: Sequence[str] | None,
    mechanisms: Sequence[str] | None,
    seeds: Sequence[int] | None,
) -> tuple[Scores, dict[str, int]]:
    """Return the scores on the tasks that all methods have, and the number of failures of each method."""
    wanted = (("table", tables), ("mechanism", mechanisms), ("seed", seeds), ("method", methods))
    rows = [row for row in newest_rows() if all(chosen is None or row[name] in chosen for name, chosen in wanted)]
    names = methods or [name for name in METHODS if any(row["method"] == name for row in rows)]
    good = {key_of(row): row for row in rows if row["failed"] is None}
    tasks = sorted({key[:3] for key in good})
    common = [task for task in tasks if all((*task, name) in good for name in names)]
    failed = {name: sum(row["failed"] is not None for row in rows if row["method"] == name) for name in names}
    return {name: [good[*task, name] for task in common] for name in names}, failed


def column(rows: Iterable[Row], name: str) -> np.ndarray:
    """Return one score of all rows; NaN for rows without this score."""
    return np.array([np.nan if row[name] is None else float(row[name]) for row in rows])


def mean(values: np.ndarray, digits: int = 4) -> str:
    """Return the mean as text; a dash if a method does not have this score."""
    return f"{values.mean():.{digits}f}" if values.size and not np.isnan(values).any() else "–"


def mean_ranks(scores: Scores) -> dict[str, float]:
    """Return the mean rank of the MSE of f of each method that sees labels only."""
    names = [name for name in scores if name not in ORACLES]
    ranks = rankdata(np.array([column(scores[name], "mse_f") for name in names]), axis=0)
    return dict(zip(names, ranks.mean(axis=1), strict=True))


def difference(gain: np.ndarray) -> str:
    """Return a mean with its standard error over tasks."""
    if gain.size < 2 or not gain.any():
        return "–"
    return f"{gain.mean():+.4f} ± {gain.std(ddof=1) / np.sqrt(gain.size):.4f}"


def overview(scores: Scores, failed: dict[str, int]) -> Iterable[list[str]]:
    """Yield one line per method."""
    ranks = mean_ranks(scores)
    mse = {name: column(rows, "mse_f") for name, rows in scores.items()}
    for name, rows in scores.items():
        worse = np.mean(mse[name] > mse["naive"] + MIN_MSE_DIFFERENCE) if "naive" in mse and name != "naive" else np.nan
        yield [
            name,
            mean(mse[name]),
            difference(mse[name] - mse[BASELINE]) if BASELINE in mse else "–",
            mean(column(rows, "mse_e")),
            mean(column(rows, "prior_error"), 3),
            mean(column(rows, "covered"), 3),
            mean(column(rows, "width"), 3),
            f"{ranks[name]:.2f}" if name in ranks else "–",
            "–" if np.isnan(worse) else f"{100 * worse:.1f}",
            mean(column(rows, "seconds"), 2),
            str(failed[name]),
        ]


OVERVIEW = (
    "method",
    "MSE of f",
    "difference",
    "MSE of e",
    "error of the class prior",
    "coverage",
    "width",
    "rank",
    "worse than naive, %",
    "seconds",
    "failed",
)


def grouped(scores: Scores, name: str, order: Sequence[str], score: str = "mse_f") -> tuple[list[str], list[list[str]]]:
    """Return heads and lines of a table with the means of a score by mechanism or by table."""
    group = np.array([row[name] for row in next(iter(scores.values()))])
    values = {method: column(rows, score) for method, rows in scores.items()}
    kept = {method: value for method, value in values.items() if not np.isnan(value).any()}
    lines = [
        [one, str((group == one).sum()), *(f"{value[group == one].mean():.3f}" for value in kept.values())]
        for one in order
        if (group == one).any()
    ]
    return [name, "tasks", *kept], lines


def print_report(
    methods: Sequence[str] | None = None,
    tables: Sequence[str] | None = None,
    mechanisms: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    *,
    record: bool = False,
) -> None:
    """Print means, ranks and coverage of the methods over the tasks that all of them have; record them if asked to."""
    scores, failed = common_scores(methods, tables, mechanisms, seeds)
    n_tasks = len(next(iter(scores.values()), ()))
    if not n_tasks:
        print("No task has scores of all these methods yet. `python -m benchmarks other_tables run` measures them.")
        return
    print(f"{n_tasks} tasks; differences are to the method {BASELINE!r}.\n")
    report = {"overview": (list(OVERVIEW), list(overview(scores, failed)))}
    for score in ("mse_f", "mse_e", "covered"):
        report[f"{score} by mechanism"] = grouped(scores, "mechanism", tuple(MECHANISMS), score)
    report["mse_f by table"] = grouped(scores, "table", TABLES)
    for title, (heads, lines) in report.items():
        print(f"{title}:\n")
        print_table(heads, lines)
        if record:
            record_table(NAME, title, heads, lines)
