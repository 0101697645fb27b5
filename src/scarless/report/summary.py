"""The whole experiment in tables with one row per method, and differences from a reference method with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from scarless.experiments.statistics import MeanInterval, mean_interval, mean_of_finite
from scarless.outside.progress import duration
from scarless.report.chapters import Chapter
from scarless.report.cut_offs import EQUAL_WITHIN
from scarless.report.figures import DotRow, Figure, axis_between, colour_of, dot_panel, knows_legend
from scarless.report.names import BOLD_RULE, SCORES, SUMMARY_LABELS
from scarless.report.results import MIN_RUNS, Condition, Results
from scarless.report.tables import Section, Table, TableCell, section, unbeaten
from scarless.report.words import NO_VALUE, plain, signed, with_half

# Coverage of the t interval of 95%, measured on 4,000 simulated sets of differences: 0.95 for normal ones; 0.89 with 5
# and 0.93 with 28 datasets for exponential ones; 0.40 and 0.94 if one dataset in ten has all of the difference.
SUMMARY_NOTE = (
    "A case is a dataset in a condition; its score is the mean over its runs, and every case counts the same. Means of "
    "methods with different numbers of cases are not comparable; such methods are not marked, and the differences "
    "below use common runs only. At prior: balanced accuracy with the cut-off at the true class prior. Prior error: "
    "mean absolute error of the class prior. Failed: failed runs, and in brackets cases without any finished run."
)
EFFECTS_NOTE = (
    "With many datasets, small differences become significant; this section shows how large they are. A difference is "
    "paired by run, averaged over the runs and conditions of a dataset, and positive if the method is better. The 95% "
    "interval is the t interval of the mean over datasets, so it describes other datasets of this kind. If a few "
    "datasets decide the mean, the interval is too short; compare the number of datasets on which the method is better."
)


def summary_chapter(results: Results, scores: Sequence[str] = tuple(SUMMARY_LABELS)) -> Chapter:
    """Return the chapter with the means of all methods over all datasets and conditions, and in each condition.

    Parameters
    ----------
    results : Results
        Results whose records say what each method knows.
    scores : sequence of str
        Scores of the table. The first score that has results and a direction decides which method wins a case.

    Returns
    -------
    Chapter
    """
    there = results.scores(scores)
    counts = _count(results)
    everywhere = _summary_section(results, there, counts, results.conditions, "")
    n_cases = len(results.datasets) * len(results.conditions)
    head = _head(there)
    caption = (
        f"Means over {len(results.datasets)} datasets and {len(results.conditions)} conditions ({n_cases} cases). "
    )
    tables = (Table(f"{caption}{_rule(there)}", head, (everywhere,), (0, 1)),)
    details: tuple[tuple[str, Table], ...] = ()
    if len(results.conditions) > 1:
        sections = [_summary_section(results, there, counts, (each,), each.label) for each in results.conditions]
        by_condition = Table(f"Means over datasets. {_rule(there)}", head, tuple(sections), (0, 1))
        details = ((f"The same for each of the {len(results.conditions)} conditions", by_condition),)
    return Chapter("summary", "Summary", "All methods in one table", SUMMARY_NOTE, (), tables, (), details)


def _headline(scores: Sequence[str]) -> str | None:
    return next((score for score in scores if SCORES[score].lower_is_better is not None), None)


def _rule(scores: Sequence[str]) -> str:
    headline = _headline(scores)
    wins = f" A win is a case in which a method is bold in this sense by {SCORES[headline].label}." if headline else ""
    return BOLD_RULE + wins


def _head(scores: Sequence[str]) -> tuple[str, ...]:
    labels = [SUMMARY_LABELS.get(score, SCORES[score].label) for score in scores]
    return ("method", "knows", *labels, "wins", "failed", "warned", "a run")


@dataclass(frozen=True)
class _Counts:
    """For each condition and method: failed runs, runs with warnings, and seconds with their number."""

    failed: NDArray[np.float64]
    warned: NDArray[np.float64]
    seconds: NDArray[np.float64]
    timed: NDArray[np.float64]


def _count(results: Results) -> _Counts:
    conditions = {condition: i for i, condition in enumerate(results.conditions)}
    methods = {method: i for i, method in enumerate(results.methods)}
    failed, warned, seconds, timed = np.zeros((4, len(conditions), len(methods)))
    for row in sorted({*results.runs, *results.failed, *results.seconds}):  # Sums depend on the order.
        condition = Condition(row.setting, row.k)
        if condition in conditions and row.method in methods:
            place = conditions[condition], methods[row.method]
            failed[place] += len(results.failed.get(row, []))
            warned[place] += sum(bool(run.get("warnings")) for run in results.runs.get(row, {}).values())
            seconds[place] += sum(results.seconds.get(row, []))
            timed[place] += len(results.seconds.get(row, []))
    return _Counts(failed, warned, seconds, timed)


def _summary_section(
    results: Results, scores: Sequence[str], counts: _Counts, conditions: Sequence[Condition], heading: str
) -> Section:
    """Return a row for each method that has records, sorted by what it knows and by the first score."""
    chosen = [results.conditions.index(condition) for condition in conditions]
    condition = conditions[0] if len(conditions) == 1 else None
    levels = {method: results.level(method, condition) for method in results.methods}
    cases = {score: results.case_means(score)[:, chosen].reshape(-1, len(results.methods)) for score in scores}
    means = {score: mean_of_finite(values, axis=0) for score, values in cases.items()}
    best = {score: _best(results.methods, values, levels, score) for score, values in cases.items()}
    headline = _headline(scores)
    wins = _wins(results, cases[headline], chosen, headline) if headline else None
    there = _has_runs(results)[:, chosen].reshape(-1, len(results.methods)).sum(axis=0)
    of = len(results.datasets) * len(chosen)
    sign = -1.0 if headline and not SCORES[headline].lower_is_better else 1.0

    def place(i: int) -> tuple[float, float, int]:
        value = sign * means[headline][i] if headline else 0.0
        return results.order_of(results.methods[i]), value if isfinite(value) else np.inf, i

    rows = []
    for i in sorted(range(len(results.methods)), key=place):
        method = results.methods[i]
        failed, warned, seconds, timed = (
            getattr(counts, name)[chosen, i].sum() for name in ("failed", "warned", "seconds", "timed")
        )
        if not (there[i] or failed):
            continue
        rows.append(
            [
                TableCell(results.label(method)),
                TableCell(results.knows(method) or NO_VALUE),
                *(TableCell(plain(means[score][i], SCORES[score].decimals), method in best[score]) for score in scores),
                TableCell(NO_VALUE if wins is None or levels[method] is None else str(wins[i])),
                TableCell(f"{failed:.0f}{f' ({of - there[i]} cases)' if there[i] < of else ''}"),
                TableCell(f"{warned:.0f}"),
                TableCell(duration(seconds / timed) if timed else NO_VALUE),
            ]
        )
    return section(heading, rows)


def _best(methods: Sequence[str], cases: NDArray[np.float64], levels: dict[str, int | None], score: str) -> set[str]:
    """Return the methods to mark, among those with the score in the most cases; none with few cases."""
    lower = SCORES[score].lower_is_better
    n = np.isfinite(cases).sum(axis=0)
    if lower is None or n.max(initial=0) < MIN_RUNS:
        return set()
    means = mean_of_finite(cases, axis=0)
    whole = {method: float(means[i]) for i, method in enumerate(methods) if n[i] == n.max()}
    return unbeaten(whole, levels, lower_is_better=lower)


def _wins(results: Results, cases: NDArray[np.float64], chosen: Sequence[int], score: str) -> NDArray[np.intp]:
    """Return in how many cases no method that knows the same or less is better; equal methods share a win."""
    signed_cases = (-1.0 if SCORES[score].lower_is_better else 1.0) * cases
    finite = np.where(np.isfinite(signed_cases), signed_cases, -np.inf)
    by_condition = np.tile(chosen, len(results.datasets))
    wins = np.zeros(len(results.methods), dtype=np.intp)
    for number in chosen:
        found = [results.level(method, results.conditions[number]) for method in results.methods]
        values = finite[by_condition == number]
        for i, level in enumerate(found):
            if level is not None:
                rivals = [j for j, other in enumerate(found) if other is not None and other <= level]
                best = values[:, rivals].max(axis=1)
                wins[i] += int(((values[:, i] == best) & np.isfinite(best)).sum())
    return wins


def _has_runs(results: Results) -> NDArray[np.intp]:
    """Return 1 for each dataset, condition and method with a finished run, else 0."""
    found = np.zeros((len(results.datasets), len(results.conditions), len(results.methods)), dtype=np.intp)
    datasets, conditions, methods = (
        {name: i for i, name in enumerate(names)} for names in (results.datasets, results.conditions, results.methods)
    )
    for row in results.runs:
        condition = Condition(row.setting, row.k)
        if row.dataset in datasets and condition in conditions and row.method in methods:
            found[datasets[row.dataset], conditions[condition], methods[row.method]] = 1
    return found


# --- effect sizes


@dataclass(frozen=True)
class MethodDifference:
    """How much better a method is than the reference by a score: the mean over datasets, with its interval."""

    method: str
    difference: MeanInterval
    better_on: int  # number of datasets with a positive difference


def effects(results: Results, reference: str, score: str) -> list[MethodDifference]:
    """Return the difference of each method from the reference, the largest first.

    Parameters
    ----------
    results : Results
        Results of the experiment.
    reference : str
        Method with which all others are compared.
    score : str
        Score with a direction.

    Returns
    -------
    list of MethodDifference
        Methods without a run in common with the reference are left out.
    """
    cube = (-1.0 if SCORES[score].lower_is_better else 1.0) * results.cube(score)
    of_reference = cube[:, :, results.methods.index(reference)]
    found = []
    for i, method in enumerate(results.methods):
        # Runs of one case first, so that a case with failed runs counts as much as another.
        gains = mean_of_finite(mean_of_finite(cube[:, :, i] - of_reference, axis=2), axis=1)
        gains[np.abs(gains) <= EQUAL_WITHIN] = 0.0
        difference = mean_interval(gains)
        if method != reference and difference.n:
            found.append(MethodDifference(method, difference, int((gains > 0).sum())))
    return sorted(found, key=lambda each: (-each.difference.mean, each.method))


def effects_chapter(results: Results, reference: str, scores: Sequence[str]) -> Chapter | None:
    """Return the chapter of differences from the reference; None if there is no reference or only one dataset.

    Parameters
    ----------
    results : Results
        Results whose records say what each method knows.
    reference : str
        Method with which all others are compared.
    scores : sequence of str
        Scores to compare by; those without a direction are left out.

    Returns
    -------
    Chapter or None
    """
    there = [score for score in results.scores(scores) if SCORES[score].lower_is_better is not None]
    if not results.has(reference) or len(results.datasets) < 2:
        return None
    by_score = {score: effects(results, reference, score) for score in there}
    by_score = {score: found for score, found in by_score.items() if found}
    if not by_score:
        return None
    name = results.label(reference)
    order = dict.fromkeys(each.method for found in by_score.values() for each in found)
    rows = [
        [
            TableCell(results.label(method)),
            TableCell(results.knows(method) or NO_VALUE),
            *(cell for score, found in by_score.items() for cell in _effect_cells(found, method, score)),
        ]
        for method in sorted(order, key=results.order_of)
    ]
    labels = [label for score in by_score for label in (SCORES[score].label, "better on")]
    caption = (
        f"Mean difference from {name} over {len(results.datasets)} datasets ± half-width of its 95% interval, and the "
        "number of datasets on which the method is better. Bold: the interval excludes zero."
    )
    table = Table(caption, ("method", "knows", *labels), (section("", rows),), (0, 1))
    title = f"How large the differences from {name} are"
    figure = _effect_figure(results, reference, by_score)
    return Chapter("effects", "Differences", title, EFFECTS_NOTE, (), (table,), (figure,))


def _effect_cells(found: Sequence[MethodDifference], method: str, score: str) -> list[TableCell]:
    each = next((each for each in found if each.method == method), None)
    if each is None:
        return [TableCell(NO_VALUE), TableCell("")]
    text = with_half(each.difference, SCORES[score].decimals, sign=True)
    return [TableCell(text, strong=each.difference.clear), TableCell(f"{each.better_on} of {each.difference.n}")]


def _effect_figure(results: Results, reference: str, by_score: dict[str, list[MethodDifference]]) -> Figure:
    panels, values = [], []
    for score, found in by_score.items():
        rows = [_effect_row(results, each, SCORES[score].decimals) for each in found]
        ends = [0.0, *(end for row in rows for end in (row.low, row.high))]
        n = max(each.difference.n for each in found)
        axis = axis_between(min(ends), max(ends))
        panels.append(dot_panel(SCORES[score].label, f"{n} dataset{'s' * (n > 1)}", rows, axis, mark=0.0))
        for each in found:
            mean, half, n_datasets = each.difference.mean, each.difference.half, each.difference.n
            values.append((score, each.method, reference, mean, mean - half, mean + half, n_datasets, each.better_on))
    return Figure(
        "effects",
        f"Differences from {results.label(reference)}",
        "Positive: the method is better. Dots are means over datasets, lines are their 95% intervals. Bold: the "
        "interval excludes zero.",
        knows_legend(results),
        tuple(panels),
        ("score", "method", "reference", "mean_difference", "low", "high", "n_datasets", "n_datasets_better"),
        tuple(values),
    )


def _effect_row(results: Results, each: MethodDifference, decimals: int) -> DotRow:
    mean, half = each.difference.mean, each.difference.half
    reach = half if isfinite(half) else 0.0
    ends = mean - reach, mean + reach
    kind = colour_of(results, each.method)
    return DotRow(results.label(each.method), mean, *ends, signed(mean, decimals), kind, each.difference.clear)
