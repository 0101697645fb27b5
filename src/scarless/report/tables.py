"""Tables: rows of cells, in sections. What is in them, and nothing of how they look."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite

from scarless.outside.progress import duration
from scarless.report.names import SCORES, dataset_label
from scarless.report.results import FEWEST_RUNS, Condition, Duel, Results, Row
from scarless.report.words import NOTHING, p_value, plain, signed, with_half


@dataclass(frozen=True)
class Cell:
    """A text, and whether it stands out."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Section:
    """Rows of a table under a heading; without one if it is empty."""

    heading: str
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table; the columns `names` hold names or words, the rest numbers."""

    caption: str
    head: tuple[str, ...]
    sections: tuple[Section, ...]
    names: tuple[int, ...] = (0,)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str | Cell]], n_names: int = 1) -> Table:
    """Return a table of one section, whose first columns hold names; texts become cells."""
    return Table(caption, tuple(head), (section("", rows),), tuple(range(n_names)))


def section(heading: str, rows: Iterable[Sequence[str | Cell]]) -> Section:
    """Return a section; texts become cells."""
    return Section(heading, tuple(tuple(Cell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows))


def best_methods(results: Results, dataset: str, condition: Condition, score: str) -> set[str]:
    """Return the methods with the best mean of a score, among those that do not know the truth.

    Where the best score is the nearest to zero, as for errors with a sign, none is called best; nor where there are
    fewer than `FEWEST_RUNS` runs of one of them.
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
    if any(found[method].n < FEWEST_RUNS for method in means):
        return set()
    best = (min if lower else max)(means.values(), default=None)
    return {method for method, mean in means.items() if mean == best}


def score_table(results: Results, dataset: str) -> Table:
    """Return all scores of a dataset: a row per method and condition."""
    scores = results.scores()
    sections = []
    for condition in results.conditions:
        best = {score: best_methods(results, dataset, condition, score) for score in scores}
        rows = [
            [
                Cell(results.label(method)),
                *(_score_cell(results, Row(dataset, *condition, method), score, best[score]) for score in scores),
                Cell(_n_runs(results, Row(dataset, *condition, method))),
            ]
            for method in results.methods
        ]
        sections.append(section(condition.label, rows))
    head = ("method", *(SCORES[score].label for score in scores), "runs")
    title = f"{dataset_label(dataset)}: mean ± half a 95% interval"
    there = [Row(dataset, *condition, method) for condition in results.conditions for method in results.methods]
    fewest = min((n for row in there if (n := len(results.runs.get(row, {})))), default=FEWEST_RUNS)
    told = f" ({fewest} run{'s' * (fewest > 1)}: too few to mark the best)" if fewest < FEWEST_RUNS else ""
    return Table(title + told, head, tuple(sections))


def _score_cell(results: Results, row: Row, score: str, best: set[str]) -> Cell:
    name = SCORES[score]
    text = with_half(results.interval(row, score), name.decimals, sign=name.lower_is_better is None)
    return Cell(text, strong=row.method in best)


def _n_runs(results: Results, row: Row) -> str:
    n, failed = len(results.runs.get(row, {})), len(results.failed.get(row, []))
    return f"{n} ({failed} failed)" if failed else str(n)


def time_table(results: Results) -> Table:
    """Return the mean seconds per run of each method on each dataset, and the sum over all runs."""
    rows: list[list[str]] = []
    totals = dict.fromkeys(results.methods, 0.0)
    for dataset in results.datasets:
        spent = {method: _seconds(results, dataset, method) for method in results.methods}
        totals = {method: totals[method] + sum(seconds) for method, seconds in spent.items()}
        means = [duration(sum(times) / len(times)) if times else NOTHING for times in spent.values()]
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
    """Return the failed runs, those with the same message together; None if there are none."""
    counts: dict[str, dict[tuple[str, ...], int]] = {}
    for row, records in results.failed.items():
        where = (dataset_label(row.dataset), Condition(row.setting, row.k).label, results.label(row.method))
        for record in records:
            _add_one(counts.setdefault(str(record["error"]), {}), where)
    return _counted("Failed runs, left out of all means", ("dataset", "condition", "method", "runs"), counts)


def warning_table(results: Results) -> Table | None:
    """Return what methods warned of, and in how many runs; None if nothing."""
    counts: dict[str, dict[tuple[str, ...], int]] = {}
    for row, runs in results.runs.items():
        where = (dataset_label(row.dataset), Condition(row.setting, row.k).label, results.label(row.method))
        for text in (text for run in runs.values() for text in run.get("warnings", [])):
            _add_one(counts.setdefault(text, {}), where)
    return _counted("Warnings of methods", ("dataset", "condition", "method", "runs"), counts)


def _add_one(counts: dict[tuple[str, ...], int], key: tuple[str, ...]) -> None:
    counts[key] = counts.get(key, 0) + 1


def _counted(caption: str, head: tuple[str, ...], counts: dict[str, dict[tuple[str, ...], int]]) -> Table | None:
    """Return a table with a section per message, or None without any."""
    sections = [
        section(message, [[*where, str(n)] for where, n in sorted(places.items())])
        for message, places in sorted(counts.items())
    ]
    return Table(caption, head, tuple(sections), names=tuple(range(len(head) - 1))) if sections else None


def method_table(results: Results) -> Table:
    """Return what each method is."""
    sections = [
        section(role, [[results.label(method), results.method_names[method].explanation, method] for method in methods])
        for role, methods in groupby(results.methods, lambda method: results.method_names[method].role)
    ]
    return Table("The methods", ("method", "what it does", "in the files"), tuple(sections), (0, 1, 2))


def duel_table(results: Results, found: Sequence[Duel]) -> Table:
    """Return duels of one method by one score as a table."""
    one, score = found[0].one, SCORES[found[0].score]
    sections = [
        section(condition.label, [_duel_row(results, item) for item in found if item.condition == condition])
        for condition in dict.fromkeys(item.condition for item in found)
    ]
    head = ("against", "better on", "clearly better", "clearly worse", "mean gain", "average ranks", "Nemenyi p")
    return Table(f"{results.label(one)} against others, by {score.label}", head, tuple(sections))


def _duel_row(results: Results, item: Duel) -> list[str | Cell]:
    ranks = [plain(item.comparison.rank(method), 2) for method in (item.one, item.other)]
    return [
        results.label(item.other),
        f"{len(item.better)} of {len(item.gains)}",
        str(len(item.clearly_better)),
        str(len(item.clearly_worse)),
        signed(item.mean_gain, SCORES[item.score].decimals),
        " / ".join(ranks),
        Cell(p_value(item.comparison.p_value(item.one, item.other)), strong=item.significant),
    ]
