"""Figures as shapes with coordinates; style sheets set colours and fonts.

A figure is a set of panels, each as wide as a phone screen, so that a page can place them side by side. Coordinates are
pixels of a panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from scarless.experiments.statistics import Comparison, MeanInterval, groups_alike
from scarless.report.names import MAIN_SCORES, SCORES, cut, dataset_label, setting_name, setting_title
from scarless.report.results import Condition, Results, Row
from scarless.report.tables import best_methods
from scarless.report.words import p_sentence, plain

WIDTH = 358.0
ROW, TOP, BOTTOM = 18.0, 42.0, 26.0
PLOT_LEFT, PLOT_RIGHT = 132.0, 258.0
VALUE_WIDTH = 48.0
MIN_AXIS_LENGTH = 0.02  # Three decimals then distinguish the ticks.
DOT_OFFSET = 3.5  # vertical distance in pixels between the dots of one row

RANKS_LEFT, RANKS_RIGHT = 104.0, 254.0
RANKS_CD, RANKS_AXIS, ELBOW, BAR = 48.0, 76.0, 20.0, 8.0


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
    """Panels under one title; `name` is the name of its file."""

    name: str
    title: str
    caption: str
    legend: tuple[tuple[str, str], ...]  # kind of dot, meaning
    panels: tuple[Panel, ...]


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
    for row in rows:
        if (found := results.interval(row, score)).n:
            intervals.setdefault(row.dataset, []).append(found)
    panels = [  # Each panel has its own axis: on a common axis, a hard dataset would compress the others.
        _score_panel(results, score, dataset, setting, methods, _axis(of_dataset))
        for dataset, of_dataset in intervals.items()
    ]
    name = SCORES[score]
    better = "lower" if name.lower_is_better else "higher"
    return Figure(
        f"{score}-{setting}",
        f"{name.label}, {setting_title(setting)}",
        f"{name.explanation[0].upper()}{name.explanation[1:]}; {better} is better; {setting_name(setting)}. Dots are "
        "means over runs, lines are 95% intervals. Bold: the best of the methods that use labels only. Each dataset "
        "has its own axis.",
        tuple((_colour(i), f"k = {k}") for i, k in enumerate(counts) if k),
        tuple(panels),
    )


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
    """Return critical-difference diagrams for each score and setting, with a panel for each contest and `k`."""
    figures = []
    for score in results.scores(scores):
        for setting, counts in results.counts.items():
            asked = [
                (contest, methods, k)
                for contest, methods in results.contests.items()
                for k in counts
                if sum(map(results.has, methods)) > 1
            ]
            found = [results.compare(Condition(setting, k), score, methods) for _, methods, k in asked]
            panels = [
                _rank_panel(results, comparison, f"k = {k}, {contest}" if k else contest.capitalize())
                for (contest, _, k), comparison in zip(asked, found, strict=True)
                if sum(map(isfinite, comparison.average_ranks)) > 1
            ]
            scored = {method for comparison in found for method in comparison.methods}
            without = dict.fromkeys(each for _, methods, _ in asked for each in methods if results.has(each))
            names = [results.method_names[each].label for each in without if each not in scored]
            left_out = f" Not ranked, because they do not have this score: {', '.join(names)}." if names else ""
            title = f"Average ranks by {SCORES[score].label}, {setting_title(setting)}"
            caption = (
                "Rank 1 is best. A thick bar joins methods whose average ranks do not differ significantly (Nemenyi "
                f"test at 5%). CD, the critical difference, is the smallest significant difference.{left_out}"
            )
            if panels:
                figures.append(Figure(f"ranks-{score}-{setting}", title, caption, (), tuple(panels)))
    return figures


def _rank_panel(results: Results, comparison: Comparison, title: str) -> Panel:
    """Draw ranks on a line; the better half of the methods is named on the left, the other half on the right."""
    order = sorted((method for method in comparison.methods if isfinite(comparison.rank(method))), key=comparison.rank)
    m = len(comparison.methods)

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


def _test_in_words(comparison: Comparison) -> str:
    over = f"{comparison.n_datasets} dataset{'' if comparison.n_datasets == 1 else 's'}"
    if comparison.problem:
        return f"No test over {over}."
    verdict = "" if comparison.differs else " (not significant)"
    cd = f"CD {comparison.critical_difference:.2f}"
    return f"Friedman {p_sentence(comparison.friedman_p)}{verdict}; {over}; {cd}"
