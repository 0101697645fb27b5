"""The tables of an experiment's report: cells in sections, without any styling."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite

from scarless.outside.progress import duration
from scarless.report.names import SCORES, dataset_label
from scarless.report.results import MIN_RUNS, Condition, Duel, Results, Row
from scarless.report.words import NO_VALUE, p_value, plain, signed, with_half


@dataclass(frozen=True)
class TableCell:
    """The text of a table cell, and whether it is bold."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Section:
    """Rows of a table under a heading, which may be empty."""

    heading: str
    rows: tuple[tuple[TableCell, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table; the columns at positions `names` hold words, the others numbers."""

    caption: str
    head: tuple[str, ...]
    sections: tuple[Section, ...]
    names: tuple[int, ...] = (0,)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str | TableCell]], n_names: int = 1) -> Table:
    """Return a table of one section; its first `n_names` columns hold words."""
    return Table(caption, tuple(head), (section("", rows),), tuple(range(n_names)))


def section(heading: str, rows: Iterable[Sequence[str | TableCell]]) -> Section:
    """Return a section of a table; texts are converted to cells."""
    return Section(
        heading, tuple(tuple(TableCell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows)
    )


def best_methods(results: Results, dataset: str, condition: Condition, score: str) -> set[str]:
    """Return the methods with the best mean of a score, among those that do not use true classes.

    The set is empty for signed errors, which are best near zero, and if a method has fewer than `MIN_RUNS` runs.
    """
    lower = SCORES[score].lower_is_better
    if lower is None:
        return set()
    rows = {
        method: Row(dataset, *condition, method)
        for method in results.methods
        if results.method_names[method].in_contest
    }
    found = {method: results.interval(row, score) for method, row in rows.items()}
    means = {method: each.mean for method, each in found.items() if isfinite(each.mean)}
    if any(found[method].n < MIN_RUNS for method in means):
        return set()
    best = (min if lower else max)(means.values(), default=None)
    return {method for method, mean in means.items() if mean == best}


def score_table(results: Results, dataset: str) -> Table:
    """Return all scores of a dataset, with a row for each method and condition."""
    scores = results.scores()
    sections = []
    for condition in results.conditions:
        best = {score: best_methods(results, dataset, condition, score) for score in scores}
        rows = [
            [
                TableCell(results.label(method)),
                *(_score_cell(results, Row(dataset, *condition, method), score, best[score]) for score in scores),
                TableCell(_n_runs(results, Row(dataset, *condition, method))),
            ]
            for method in results.methods
        ]
        sections.append(section(condition.label, rows))
    head = ("method", *(SCORES[score].label for score in scores), "runs")
    title = f"{dataset_label(dataset)}: mean ± half-width of the 95% interval"
    there = [Row(dataset, *condition, method) for condition in results.conditions for method in results.methods]
    fewest = min((n for row in there if (n := len(results.runs.get(row, {})))), default=MIN_RUNS)
    note = f" ({fewest} run{'s' * (fewest > 1)}: too few to mark the best)" if fewest < MIN_RUNS else ""
    return Table(title + note, head, tuple(sections))


def _score_cell(results: Results, row: Row, score: str, best: set[str]) -> TableCell:
    name = SCORES[score]
    text = with_half(results.interval(row, score), name.decimals, sign=name.lower_is_better is None)
    return TableCell(text, strong=row.method in best)


def _n_runs(results: Results, row: Row) -> str:
    n, failed = len(results.runs.get(row, {})), len(results.failed.get(row, []))
    return f"{n} ({failed} failed)" if failed else str(n)


def time_table(results: Results) -> Table:
    """Return the mean time per run of each method on each dataset, and the totals."""
    rows: list[list[str]] = []
    totals = dict.fromkeys(results.methods, 0.0)
    for dataset in results.datasets:
        spent = {method: _seconds(results, dataset, method) for method in results.methods}
        totals = {method: totals[method] + sum(seconds) for method, seconds in spent.items()}
        means = [duration(sum(times) / len(times)) if times else NO_VALUE for times in spent.values()]
        rows.append([dataset_label(dataset), *means, duration(sum(map(sum, spent.values())))])
    rows.append(["all runs together", *map(duration, totals.values()), duration(sum(totals.values()))])
    head = ("dataset", *map(results.label, results.methods), "all runs")
    return table("Time per run, on one core", head, rows)


def _seconds(results: Results, dataset: str, method: str) -> list[float]:
    return [
        seconds
        for condition in results.conditions
        for seconds in results.seconds.get(Row(dataset, *condition, method), [])
    ]


def failure_table(results: Results) -> Table | None:
    """Return the failed runs, grouped by error message; None if there are none."""
    counts: dict[str, dict[tuple[str, ...], int]] = {}
    for row, records in results.failed.items():
        where = (dataset_label(row.dataset), Condition(row.setting, row.k).label, results.label(row.method))
        for record in records:
            _add_one(counts.setdefault(str(record["error"]), {}), where)
    return _counted("Failed runs, left out of all means", ("dataset", "condition", "method", "runs"), counts)


def warning_table(results: Results) -> Table | None:
    """Return the warnings of methods with the number of runs; None if there are none."""
    counts: dict[str, dict[tuple[str, ...], int]] = {}
    for row, runs in results.runs.items():
        where = (dataset_label(row.dataset), Condition(row.setting, row.k).label, results.label(row.method))
        for text in (text for run in runs.values() for text in run.get("warnings", [])):
            _add_one(counts.setdefault(text, {}), where)
    return _counted("Warnings of methods", ("dataset", "condition", "method", "runs"), counts)


def _add_one(counts: dict[tuple[str, ...], int], key: tuple[str, ...]) -> None:
    counts[key] = counts.get(key, 0) + 1


def _counted(caption: str, head: tuple[str, ...], counts: dict[str, dict[tuple[str, ...], int]]) -> Table | None:
    """Return a table with a section for each message, or None if there are no messages."""
    sections = [
        section(message, [[*where, str(n)] for where, n in sorted(places.items())])
        for message, places in sorted(counts.items())
    ]
    return Table(caption, head, tuple(sections), names=tuple(range(len(head) - 1))) if sections else None


def method_table(results: Results) -> Table:
    """Return a description of each method."""
    sections = [
        section(role, [[results.label(method), results.method_names[method].explanation, method] for method in methods])
        for role, methods in groupby(results.methods, lambda method: results.method_names[method].role)
    ]
    return Table("The methods", ("method", "description", "name in the files"), tuple(sections), (0, 1, 2))


def duel_table(results: Results, found: Sequence[Duel]) -> Table:
    """Return comparisons of one method with others by one score as a table."""
    one, score = found[0].one, SCORES[found[0].score]
    sections = [
        section(condition.label, [_duel_row(results, item) for item in found if item.condition == condition])
        for condition in dict.fromkeys(item.condition for item in found)
    ]
    head = ("compared with", "better on", "clearly better", "clearly worse", "mean gain", "average ranks", "Nemenyi p")
    return Table(f"{results.label(one)} compared with other methods, by {score.label}", head, tuple(sections))


def _duel_row(results: Results, item: Duel) -> list[str | TableCell]:
    ranks = [plain(item.comparison.rank(method), 2) for method in (item.one, item.other)]
    return [
        results.label(item.other),
        f"{len(item.better)} of {len(item.gains)}",
        str(len(item.clearly_better)),
        str(len(item.clearly_worse)),
        signed(item.mean_gain, SCORES[item.score].decimals),
        " / ".join(ranks),
        TableCell(p_value(item.comparison.p_value(item.one, item.other)), strong=item.significant),
    ]
