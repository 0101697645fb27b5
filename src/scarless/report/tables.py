"""The tables of an experiment's report: cells in sections, without any styling."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite

from scarless.outside.progress import duration
from scarless.report.names import BOLD_RULE, KNOWS_EXPLAINED, SCORE_GROUPS, SCORES, dataset_label
from scarless.report.results import MIN_RUNS, Condition, Duel, Results, Row
from scarless.report.words import NO_VALUE, p_value, plain, signed, with_half

MAX_SCORES_PER_TABLE = 9  # With more columns, a table is wider than a desktop screen, and is split.
NUMBER = re.compile(r"\b\d[\d.,]*(?:e[-+]?\d+)?\b")
MAX_MESSAGES = 40  # messages of failed runs, or warnings, on the page of a large experiment


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


def unbeaten(means: Mapping[str, float], levels: Mapping[str, int | None], *, lower_is_better: bool) -> set[str]:
    """Return the methods whose mean is at least as good as that of every method that knows the same or less.

    Methods without a finite mean, and methods whose level is None, neither win nor beat others.

    Examples
    --------
    >>> levels = {"a": 0, "b": 0, "c": 1, "d": 2, "oracle": None}
    >>> means = {"a": 0.7, "b": 0.6, "c": 0.65, "d": 0.8, "oracle": 0.9}
    >>> sorted(unbeaten(means, levels, lower_is_better=False))
    ['a', 'd']
    """
    sign = -1.0 if lower_is_better else 1.0
    found = {
        name: (sign * mean, level)
        for name, mean in means.items()
        if isfinite(mean) and (level := levels[name]) is not None
    }
    return {
        name
        for name, (mean, level) in found.items()
        if all(mean >= other for other, of in found.values() if of <= level)
    }


def best_methods(results: Results, dataset: str, condition: Condition, score: str) -> set[str]:
    """Return the methods with the best mean of a score, among those that know the same or less.

    If the records do not say what methods know, these are all methods that do not use true classes. The set is empty
    for scores without a direction, and if a method has fewer than `MIN_RUNS` runs.
    """
    lower = SCORES[score].lower_is_better
    if lower is None:
        return set()
    levels = {method: results.level(method, condition) for method in results.methods}
    found = {
        method: results.interval(Row(dataset, *condition, method), score)
        for method, level in levels.items()
        if level is not None
    }
    if any(each.n < MIN_RUNS for each in found.values() if isfinite(each.mean)):
        return set()
    return unbeaten({method: each.mean for method, each in found.items()}, levels, lower_is_better=lower)


def score_tables(results: Results, dataset: str) -> tuple[Table, ...]:
    """Return all scores of a dataset, in one table, or in a table for each group of scores if there are many."""
    scores = results.scores()
    if len(scores) <= MAX_SCORES_PER_TABLE:
        return (score_table(results, dataset),)
    groups = {title: results.scores(names) for title, names in SCORE_GROUPS.items()}
    return tuple(score_table(results, dataset, names, title) for title, names in groups.items() if names)


def score_table(results: Results, dataset: str, scores: Sequence[str] | None = None, title: str = "") -> Table:
    """Return scores of a dataset, with a row for each method and condition."""
    scores = results.scores() if scores is None else scores
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
    what = f"{dataset_label(dataset)}{title and f', {title}'}: mean ± half-width of the 95% interval"
    there = [Row(dataset, *condition, method) for condition in results.conditions for method in results.methods]
    fewest = min((n for row in there if (n := len(results.runs.get(row, {})))), default=MIN_RUNS)
    if fewest < MIN_RUNS:
        note = f" ({fewest} run{'s' * (fewest > 1)}: too few to mark the best)"
    else:
        note = f". {BOLD_RULE}" if results.says_what_methods_know else ""
    return Table(what + note, head, tuple(sections))


def _score_cell(results: Results, row: Row, score: str, best: set[str]) -> TableCell:
    name = SCORES[score]
    text = with_half(results.interval(row, score), name.decimals, sign=name.signed)
    return TableCell(text, strong=row.method in best)


def _n_runs(results: Results, row: Row) -> str:
    n, failed = len(results.runs.get(row, {})), len(results.failed.get(row, []))
    return f"{n} ({failed} failed)" if failed else str(n)


def time_table(results: Results) -> Table:
    """Return the mean time per run of each method on each dataset, and the totals.

    For a large experiment, the table has a row for each method, with its slowest dataset.
    """
    spent = {method: [_seconds(results, dataset, method) for dataset in results.datasets] for method in results.methods}
    totals = [sum(map(sum, times)) for times in spent.values()]
    if results.large:
        return _time_by_method(results, spent)
    rows: list[list[str]] = []
    for i, dataset in enumerate(results.datasets):
        times = [of_method[i] for of_method in spent.values()]
        means = [duration(sum(each) / len(each)) if each else NO_VALUE for each in times]
        rows.append([dataset_label(dataset), *means, duration(sum(map(sum, times)))])
    rows.append(["all runs together", *map(duration, totals), duration(sum(totals))])
    head = ("dataset", *map(results.label, results.methods), "all runs")
    return table("Time per run, on one core", head, rows)


def _time_by_method(results: Results, spent: Mapping[str, Sequence[Sequence[float]]]) -> Table:
    rows = []
    for method, times in spent.items():
        means = {name: sum(each) / len(each) for name, each in zip(results.datasets, times, strict=True) if each}
        n, total = sum(map(len, times)), sum(map(sum, times))
        slowest = max(means, key=means.__getitem__, default="")
        last = [dataset_label(slowest), duration(means[slowest])] if means else [NO_VALUE, NO_VALUE]
        rows.append([results.label(method), *last, duration(total / n) if n else NO_VALUE, duration(total)])
    head = ("method", "slowest dataset", "a run there", "mean run", "all runs")
    return table("Time per run, on one core", head, rows, n_names=2)


def _seconds(results: Results, dataset: str, method: str) -> list[float]:
    return [
        seconds
        for condition in results.conditions
        for seconds in results.seconds.get(Row(dataset, *condition, method), [])
    ]


def failure_table(results: Results) -> Table | None:
    """Return the failed runs, grouped by error message; None if there are none."""
    found = [(str(record["error"]), row) for row, records in results.failed.items() for record in records]
    return _counted(results, "Failed runs, left out of all means", found)


def warning_table(results: Results) -> Table | None:
    """Return the warnings of methods with the number of runs; None if there are none."""
    texts = [
        (text, row) for row, runs in results.runs.items() for run in runs.values() for text in run.get("warnings", [])
    ]
    return _counted(results, "Warnings of methods", texts)


def _counted(results: Results, caption: str, found: Iterable[tuple[str, Row]]) -> Table | None:
    """Return a table with a section for each message, or None if there are no messages.

    It counts runs by dataset, condition and method. For a large experiment, it counts them by method only.
    """
    places: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    texts = list(found)
    if len({message for message, _ in texts}) > MAX_MESSAGES:  # Messages that differ only in numbers count as one.
        texts = [(NUMBER.sub("…", message), row) for message, row in texts]
    for message, row in texts:
        label = results.label(row.method)
        where = (label,) if results.large else (dataset_label(row.dataset), Condition(row.setting, row.k).label, label)
        places.setdefault(message, {}).setdefault(where, []).append(row)
    if not places:
        return None
    if not results.large:
        sections = [
            section(message, [[*where, str(len(rows))] for where, rows in sorted(of_message.items())])
            for message, of_message in sorted(places.items())
        ]
        return Table(caption, ("dataset", "condition", "method", "runs"), tuple(sections), names=(0, 1, 2))
    often = sorted(places, key=lambda message: (-sum(map(len, places[message].values())), message))
    sections = [
        section(message, [[*where, *_spread(rows)] for where, rows in sorted(places[message].items())])
        for message in often[:MAX_MESSAGES]
    ]
    more = len(often) - MAX_MESSAGES
    note = f"; the {MAX_MESSAGES} most frequent messages, {more} more are in records.csv" if more > 0 else ""
    return Table(caption + note, ("method", "runs", "datasets", "conditions"), tuple(sections))


def _spread(rows: Sequence[Row]) -> list[str]:
    counts = len(rows), len({row.dataset for row in rows}), len({(row.setting, row.k) for row in rows})
    return list(map(str, counts))


def method_table(results: Results) -> Table:
    """Return a description of each method; if the records say what it knows, sorted by this."""
    described = {method: (results.method_names[method].explanation, method) for method in results.methods}
    if results.says_what_methods_know:
        order = sorted(results.methods, key=results.order_of)
        rows = [[results.label(method), results.knows(method) or NO_VALUE, *described[method]] for method in order]
        explained = "; ".join(f"{name}: {text}" for name, text in KNOWS_EXPLAINED.items())
        caption = f"The methods, and what they know. {explained[0].upper()}{explained[1:]}."
        return table(caption, ("method", "knows", "description", "name in the files"), rows, n_names=4)
    sections = [
        section(role, [[results.label(method), *described[method]] for method in methods])
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
