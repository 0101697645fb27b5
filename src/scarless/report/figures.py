"""Figures as shapes with coordinates; style sheets set colours and fonts.

A figure is a set of panels, each as wide as a phone screen, so that a page can place them side by side. Coordinates are
pixels of a panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

from scarless.experiments.statistics import Comparison, MeanInterval, groups_alike, mean_interval
from scarless.report.names import BOLD_RULE, KNOWS, MAIN_SCORES, SCORES, cut, dataset_label, setting_name, setting_title
from scarless.report.results import Condition, Results, Row
from scarless.report.tables import best_methods, unbeaten
from scarless.report.words import p_sentence, plain

WIDTH = 358.0
ROW, TOP, BOTTOM = 18.0, 42.0, 26.0
PLOT_LEFT, PLOT_RIGHT = 132.0, 258.0
VALUE_WIDTH = 48.0
MIN_AXIS_LENGTH = 0.02  # Three decimals then distinguish the ticks.
DOT_OFFSET = 3.5  # vertical distance in pixels between the dots of one row

RANKS_LEFT, RANKS_RIGHT = 104.0, 254.0
RANKS_CD, RANKS_AXIS, ELBOW, BAR = 48.0, 76.0, 20.0, 8.0
MAX_METHODS_ON_A_LINE = 10  # With more methods, the names of a rank diagram cross; it is drawn as a list instead.
RANK_LINE = (
    "A thick bar joins methods whose average ranks do not differ significantly (Nemenyi test at 5%). CD, the critical "
    "difference, is the smallest significant difference."
)
RANK_LIST = (
    f"With more than {MAX_METHODS_ON_A_LINE} methods, the lines reach half the critical difference (CD) to each side: "
    "average ranks differ significantly (Nemenyi test at 5%) if the lines do not overlap."
)
MAX_OPEN_PANELS = 40  # of one score; with more, the figures are folded, because the page would be too long
KNOWS_COLOURS = ("k1", "k3", "k2", "k0", "k0")  # of the entries of KNOWS


@dataclass(frozen=True)
class Text:
    """A text at a position; `anchor` is start, middle or end, `kind` is its CSS class."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = "label"


@dataclass(frozen=True)
class Line:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    kind: str


@dataclass(frozen=True)
class Dot:
    """A dot."""

    x: float
    y: float
    kind: str


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: tuple[tuple[float, float], ...]
    kind: str


@dataclass(frozen=True)
class Panel:
    """One drawing; `description` is its text alternative."""

    title: str
    height: float
    lines: tuple[Line, ...]
    dots: tuple[Dot, ...]
    texts: tuple[Text, ...]
    width: float = WIDTH
    areas: tuple[Area, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels under one title; `name` is the name of its files.

    `values` are the numbers that are drawn, with the names of their columns in `columns`: the content of its CSV file.
    If `folded`, the page shows the title, and a reader opens the figure.
    """

    name: str
    title: str
    caption: str
    legend: tuple[tuple[str, str], ...]  # kind of dot, meaning
    panels: tuple[Panel, ...]
    columns: tuple[str, ...] = ()
    values: tuple[tuple[Any, ...], ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Axis:
    """A linear axis that converts values to pixels, with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    decimals: int

    def x(self, value: float) -> float:
        """Return the pixel of a value; values beyond the axis lie at its end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return PLOT_LEFT + share * (PLOT_RIGHT - PLOT_LEFT)


def score_figures(results: Results, scores: Sequence[str] = MAIN_SCORES) -> list[Figure]:
    """Return a figure for each score and setting, with a panel for each dataset and a row for each method."""
    there = results.scores(scores)
    return [_score_figure(results, score, setting) for score in there for setting in results.counts]


def _score_figure(results: Results, score: str, setting: str) -> Figure:
    counts = results.counts[setting]
    methods = [method for method in results.methods if _drawn(results, score, method)]
    rows = [Row(dataset, setting, k, method) for dataset in results.datasets for k in counts for method in methods]
    intervals: dict[str, list[MeanInterval]] = {}
    values = []
    for row in rows:
        if (found := results.interval(row, score)).n:
            intervals.setdefault(row.dataset, []).append(found)
            values.append((*row, found.mean, found.half, found.n))
    panels = [  # Each panel has its own axis: on a common axis, a hard dataset would compress the others.
        _score_panel(results, score, dataset, setting, methods, _axis(of_dataset))
        for dataset, of_dataset in intervals.items()
    ]
    name = SCORES[score]
    return Figure(
        f"{score}-{setting}",
        f"{name.label}, {setting_title(setting)}",
        f"{_explained(score)}; {setting_name(setting)}. Dots are "
        f"means over runs, lines are 95% intervals. {_bold_rule(results)} Each dataset has its own axis.",
        tuple((_colour(i), f"k = {k}") for i, k in enumerate(counts) if k),
        tuple(panels),
        ("dataset", "setting", "k", "method", "mean", "half_width", "n_runs"),
        tuple(values),
        folded=len(results.datasets) * len(results.counts) > MAX_OPEN_PANELS,
    )


def _explained(score: str) -> str:
    name = SCORES[score]
    better = {True: "; lower is better", False: "; higher is better", None: ""}[name.lower_is_better]
    return f"{name.explanation[0].upper()}{name.explanation[1:]}{better}"


def _bold_rule(results: Results) -> str:
    return BOLD_RULE if results.says_what_methods_know else "Bold: the best of the methods that use labels only."


def _drawn(results: Results, score: str, method: str) -> bool:
    return any(score in run for row, runs in results.runs.items() if row.method == method for run in runs.values())


def _colour(i: int) -> str:
    return f"k{i % 4}"


def _axis(intervals: Sequence[MeanInterval]) -> Axis:
    """Return an axis for all intervals, within 0 and 1; it starts at 0 unless all values are far from 0."""
    ends = [
        min(max(value, 0.0), 1.0)
        for item in intervals
        if isfinite(item.mean)
        for value in (item.mean - _half(item), item.mean + _half(item))
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    pad = 0.03 * (high - low)
    high = 1.0 if high > 0.9 else max(high + pad, MIN_AXIS_LENGTH)
    low = 0.0 if low < 0.4 * high else min(max(low - pad, 0.0), high - MIN_AXIS_LENGTH)
    step, ticks = nice_step((high - low) / 4), tuple(ticks_between(low, high))
    return Axis(low, high, ticks, len(f"{step:.9f}".rstrip("0").partition(".")[2]))


def nice_step(step: float) -> float:
    """Return the smallest of 1, 2, 2.5 and 5 times a power of ten that is not below a step."""
    power = 10.0 ** floor(log10(step))
    return next(float(factor * power) for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * (1 - 1e-9))


def ticks_between(low: float, high: float) -> list[float]:
    """Return about five ticks of an axis."""
    if high <= low:
        return [low]
    step = nice_step((high - low) / 4)
    return [step * i for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _half(interval: MeanInterval) -> float:
    return interval.half if isfinite(interval.half) else 0.0


def _score_panel(results: Results, score: str, dataset: str, setting: str, methods: Sequence[str], axis: Axis) -> Panel:
    counts = results.counts[setting]
    bottom = TOP + ROW * len(methods)
    lines = [Line(((axis.x(tick), TOP), (axis.x(tick), bottom)), "grid") for tick in axis.ticks]
    texts = [Text(0.0, 14.0, dataset_label(dataset), kind="title")]
    texts += [Text(axis.x(tick), bottom + 15.0, f"{tick:.{axis.decimals}f}", "middle", "tick") for tick in axis.ticks]
    dots: list[Dot] = []
    texts += [Text(_value_x(i, len(counts)), TOP - 8.0, f"k = {k}", "end", "tick") for i, k in enumerate(counts) if k]
    for number, method in enumerate(methods):
        y = TOP + ROW * (number + 0.5)
        texts.append(Text(0.0, y + 4.0, cut(results.label(method))))
        if number and results.method_names[method].role != results.method_names[methods[number - 1]].role:
            lines.append(Line(((0.0, y - ROW / 2), (WIDTH, y - ROW / 2)), "rule"))
        for i, k in enumerate(counts):
            found = results.interval(Row(dataset, setting, k, method), score)
            best = method in best_methods(results, dataset, Condition(setting, k), score)
            kind = "value best" if best else "value"
            shown = plain(found.mean, SCORES[score].decimals)
            texts.append(Text(_value_x(i, len(counts)), y + 4.0, shown, "end", kind))
            if isfinite(found.mean):
                at = y + DOT_OFFSET * (2 * i - len(counts) + 1)
                ends = (axis.x(found.mean - _half(found)), at), (axis.x(found.mean + _half(found)), at)
                lines.append(Line(ends, f"interval {_colour(i)}"))
                dots.append(Dot(axis.x(found.mean), at, _colour(i)))
    return Panel(dataset_label(dataset), bottom + BOTTOM, tuple(lines), tuple(dots), tuple(texts))


def _value_x(i: int, n: int) -> float:
    return WIDTH - VALUE_WIDTH * (n - 1 - i)


def rank_figures(results: Results, scores: Sequence[str] = MAIN_SCORES) -> list[Figure]:
    """Return critical-difference diagrams for each score and setting, with a panel for each contest and `k`.

    For a large experiment, there is one diagram for each score, which ranks the means over all conditions.
    """
    if results.large:
        found = [_rank_figure(results, score, "", "over all conditions", [None]) for score in results.scores(scores)]
    else:
        found = [
            _rank_figure(results, score, f"-{setting}", setting_title(setting), [Condition(setting, k) for k in counts])
            for score in results.scores(scores)
            for setting, counts in results.counts.items()
        ]
    return [figure for figure in found if figure.panels]


def _rank_figure(
    results: Results, score: str, suffix: str, where: str, conditions: Sequence[Condition | None]
) -> Figure:
    asked = [
        (contest, methods, condition)
        for contest, methods in results.contests.items()
        for condition in conditions
        if sum(map(results.has, methods)) > 1
    ]
    found = [results.compare(condition, score, methods) for _, methods, condition in asked]
    panels, values = [], []
    for (contest, _, condition), comparison in zip(asked, found, strict=True):
        if sum(map(isfinite, comparison.average_ranks)) > 1:
            k = condition.k if condition else 0
            panels.append(_rank_panel(results, comparison, f"k = {k}, {contest}" if k else contest.capitalize()))
            values += _rank_values(comparison, (contest, *(condition or ("all", ""))))
    scored = {method for comparison in found for method in comparison.methods}
    without = dict.fromkeys(each for _, methods, _ in asked for each in methods if results.has(each))
    names = [results.method_names[each].label for each in without if each not in scored]
    left_out = f" Not ranked, because they do not have this score: {', '.join(names)}." if names else ""
    shapes = {
        len(comparison.methods) > MAX_METHODS_ON_A_LINE
        for comparison in found
        if sum(map(isfinite, comparison.average_ranks)) > 1
    }
    meaning = [RANK_LINE] * (False in shapes) + [RANK_LIST] * (True in shapes)
    return Figure(
        f"ranks-{score}{suffix}",
        f"Average ranks by {SCORES[score].label}, {where}",
        f"Rank 1 is best. {' '.join(meaning)}{left_out}",
        (),
        tuple(panels),
        (
            "contest", "setting", "k", "method", "average_rank", "groups_without_difference", "n_datasets",
            "critical_difference", "friedman_p",
        ),
        tuple(values),
    )  # fmt: skip


def _rank_values(comparison: Comparison, where: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    groups = groups_alike(comparison)
    test = comparison.n_datasets, comparison.critical_difference, comparison.friedman_p
    return [
        (*where, method, rank, " ".join(str(i + 1) for i, group in enumerate(groups) if method in group), *test)
        for method, rank in zip(comparison.methods, map(float, comparison.average_ranks), strict=True)
    ]


@dataclass(frozen=True)
class DotRow:
    """A row of a dot panel: a value with an interval, its text at the right edge, and its colour."""

    label: str
    value: float
    low: float
    high: float
    text: str
    kind: str
    strong: bool = False


def dot_panel(title: str, subtitle: str, rows: Sequence[DotRow], axis: Axis, *, mark: float | None = None) -> Panel:
    """Draw a dot with an interval for each row, on one axis; `mark` is a value with a vertical line."""
    top = TOP + (4.0 if subtitle else 0.0)
    bottom = top + ROW * len(rows)
    lines = [Line(((axis.x(tick), top), (axis.x(tick), bottom)), "grid") for tick in axis.ticks]
    if mark is not None:
        lines.append(Line(((axis.x(mark), top), (axis.x(mark), bottom)), "axis"))
    texts = [Text(0.0, 14.0, title, kind="title")]
    texts += [Text(0.0, 30.0, subtitle, kind="tick")] if subtitle else []
    texts += [
        Text(axis.x(tick), bottom + 15.0, f"{tick:.{axis.decimals}f}".replace("-", "−"), "middle", "tick")
        for tick in axis.ticks
    ]
    dots = []
    for number, row in enumerate(rows):
        y = top + ROW * (number + 0.5)
        texts.append(Text(0.0, y + 4.0, cut(row.label)))
        texts.append(Text(WIDTH, y + 4.0, row.text, "end", "value best" if row.strong else "value"))
        if isfinite(row.value):
            lines.append(Line(((axis.x(row.low), y), (axis.x(row.high), y)), f"interval {row.kind}"))
            dots.append(Dot(axis.x(row.value), y, row.kind))
    return Panel(title, bottom + BOTTOM, tuple(lines), tuple(dots), tuple(texts))


def axis_between(low: float, high: float) -> Axis:
    """Return an axis with about five ticks, a little longer than the values."""
    pad = max(0.03 * (high - low), (MIN_AXIS_LENGTH - (high - low)) / 2, 0.0)
    low, high = low - pad, high + pad
    step = nice_step((high - low) / 4)
    return Axis(low, high, tuple(ticks_between(low, high)), len(f"{step:.9f}".rstrip("0").partition(".")[2]))


def colour_of(results: Results, method: str) -> str:
    """Return the colour of a method: by what it knows, if the records say it."""
    levels = results.levels.get(method, {})
    return KNOWS_COLOURS[max(levels.values())] if levels else KNOWS_COLOURS[0]


def knows_legend(results: Results) -> tuple[tuple[str, str], ...]:
    """Return the legend of the colours of methods; empty if the records do not say what methods know."""
    there = sorted({max(levels.values()) for method, levels in results.levels.items() if method in results.methods})
    words: dict[str, list[str]] = {}
    for level in there:
        words.setdefault(KNOWS_COLOURS[level], []).append(KNOWS[level])
    return tuple((colour, f"knows {' or '.join(names)}") for colour, names in words.items())


def condition_figures(results: Results, scores: Sequence[str] = MAIN_SCORES) -> list[Figure]:
    """Return a figure for each score, with a panel for each condition: means over datasets, for a large experiment."""
    return [_condition_figure(results, score) for score in results.scores(scores)]


def _condition_figure(results: Results, score: str) -> Figure:
    means, decimals = results.case_means(score), SCORES[score].decimals
    panels, values = [], []
    for number, condition in enumerate(results.conditions):
        found = {method: mean_interval(means[:, number, i]) for i, method in enumerate(results.methods)}
        found = {method: each for method, each in found.items() if each.n}
        if not found:
            continue
        levels = {method: results.level(method, condition) for method in found}
        lower = SCORES[score].lower_is_better
        whole = {method: each.mean for method, each in found.items() if each.n == max(one.n for one in found.values())}
        best = set() if lower is None else unbeaten(whole, levels, lower_is_better=lower)
        order = sorted(found, key=lambda method: (-found[method].mean if not lower else found[method].mean, method))
        rows = [
            DotRow(
                results.label(method), each.mean, each.mean - _half(each), each.mean + _half(each),
                plain(each.mean, decimals), colour_of(results, method), method in best,
            )
            for method in order
            for each in (found[method],)
        ]  # fmt: skip
        n = max(each.n for each in found.values())
        panels.append(dot_panel(condition.label, f"{n} dataset{'s' * (n > 1)}", rows, _axis(list(found.values()))))
        values += [(*condition, method, found[method].mean, found[method].half, found[method].n) for method in order]
    return Figure(
        f"{score}-by-condition",
        f"{SCORES[score].label}, means over datasets in each condition",
        f"{_explained(score)}. Dots are means over datasets, lines are 95% intervals over datasets. {BOLD_RULE} A "
        "method without a result on every dataset is not marked. Each condition has its own axis.",
        knows_legend(results),
        tuple(panels),
        ("setting", "k", "method", "mean", "half_width", "n_datasets"),
        tuple(values),
        folded=True,
    )


def _rank_panel(results: Results, comparison: Comparison, title: str) -> Panel:
    """Draw ranks on a line; the better half of the methods is named on the left, the other half on the right."""
    order = sorted((method for method in comparison.methods if isfinite(comparison.rank(method))), key=comparison.rank)
    m = len(comparison.methods)
    if m > MAX_METHODS_ON_A_LINE:
        return _rank_list(results, comparison, title, order)

    def x(rank: float) -> float:
        return RANKS_LEFT + (rank - 1) / (m - 1) * (RANKS_RIGHT - RANKS_LEFT)

    texts = [Text(0.0, 14.0, title, kind="title"), Text(0.0, 30.0, _test_in_words(comparison), kind="tick")]
    lines = [Line(((x(1), RANKS_AXIS), (x(m), RANKS_AXIS)), "axis")]
    for rank in range(1, m + 1):
        lines.append(Line(((x(rank), RANKS_AXIS - 4), (x(rank), RANKS_AXIS)), "axis"))
        texts.append(Text(x(rank), RANKS_AXIS - 8, str(rank), "middle", "tick"))
    if not comparison.problem:
        right = min(x(1 + comparison.critical_difference), WIDTH)
        lines.append(Line(((x(1), RANKS_CD), (right, RANKS_CD)), "axis"))
        lines += [Line(((end, RANKS_CD - 3), (end, RANKS_CD + 3)), "axis") for end in (x(1), right)]
        texts.append(Text(x(1) - 6, RANKS_CD + 4, "CD", "end", "tick"))
    groups = groups_alike(comparison)
    first = RANKS_AXIS + 12 + BAR * len(groups)
    half = (len(order) + 1) // 2
    sides = [("start", 0.0, order[:half]), ("end", WIDTH, order[: half - 1 : -1] if half < len(order) else [])]
    for anchor, edge, methods in sides:
        for i, method in enumerate(methods):
            at, y = x(comparison.rank(method)), first + ELBOW * i + ELBOW / 2
            lines.append(Line(((edge, y), (at, y), (at, RANKS_AXIS)), "elbow"))
            name = results.method_names[method]
            texts.append(Text(edge, y - 4, f"{cut(name.short or name.label)} {comparison.rank(method):.2f}", anchor))
    for i, group in enumerate(groups):
        y = RANKS_AXIS + BAR * (i + 1.25)
        ends = comparison.rank(group[0]), comparison.rank(group[-1])
        lines.append(Line(((x(ends[0]) - 3, y), (x(ends[1]) + 3, y)), "bar"))
    height = first + ELBOW * half + 4
    dots = [Dot(x(comparison.rank(method)), RANKS_AXIS, "rank") for method in order]
    return Panel(title, height, tuple(lines), tuple(dots), tuple(texts))


def _rank_list(results: Results, comparison: Comparison, title: str, order: Sequence[str]) -> Panel:
    """Draw a row for each method, with its average rank and half the critical difference to each side."""
    half = 0.0 if comparison.problem else comparison.critical_difference / 2
    m = len(comparison.methods)
    ticks = (1.0, *(float(rank) for rank in range(5, m + 1, 5)))
    rows = []
    for method in order:
        name, rank = results.method_names[method], comparison.rank(method)
        ends = max(rank - half, 0.5), min(rank + half, m + 0.5)
        rows.append(DotRow(name.short or name.label, rank, *ends, f"{rank:.2f}", colour_of(results, method)))
    return dot_panel(title, _test_in_words(comparison), rows, Axis(0.5, m + 0.5, ticks, 0))


def _test_in_words(comparison: Comparison) -> str:
    over = f"{comparison.n_datasets} dataset{'' if comparison.n_datasets == 1 else 's'}"
    if comparison.problem:
        return f"No test over {over}."
    verdict = "" if comparison.differs else " (not significant)"
    cd = f"CD {comparison.critical_difference:.2f}"
    return f"Friedman {p_sentence(comparison.friedman_p)}{verdict}; {over}; {cd}"
