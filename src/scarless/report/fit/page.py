"""The report of a fit and its HTML page: formatted numbers, and drawings as shapes with coordinates.

No statistics are computed here. Drawings are as wide as a phone screen; style sheets set their colours and fonts.
"""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from html import escape
from math import ceil, exp, log
from pathlib import Path
from typing import Any

from scarless.outside.extras import need
from scarless.outside.files import write_whole
from scarless.report import words
from scarless.report.figures import WIDTH, Area, Dot, Line, Panel, Text, nice_step, ticks_between
from scarless.report.fit.data import (
    Check,
    Checked,
    Effect,
    Effects,
    FitAnswer,
    GroupedShares,
    IntervalEstimate,
    NamedValue,
    NumberTable,
    Overlooked,
    Picture,
    Ranked,
    ReportColumn,
    Yield,
)
from scarless.report.fit.working import in_script, page_data, place_of_estimate
from scarless.report.tables import Table, section
from scarless.report.words import NO_VALUE, share, signed, text

SCHEMA = 1  # version of the JSON format: increased if a key is removed or changes its meaning
FIRST_ROWS = 20  # ranked rows that are shown without opening the rest
MAX_EFFECTS_SHOWN = 500  # on the page; the data have all effects
MAX_COLUMNS_SHOWN = 300
# Words for the names of settings; names that are not listed, such as "file", are shown as they are.
SETTING_WORDS = {
    "rows": "number of rows",
    "sha256": "SHA-256 of the file",
    "label": "label column",
    "looks": "label columns, one for each look",
    "audit": "audit column",
    "propensity_attributes": "columns that the labelling depends on",
    "classification_attributes": "columns that the class depends on",
    "model": "kind of model",
    "id": "identifier column",
    "seed": "seed of the random numbers",
    "seed of the report": "seed of the random numbers of this report",
    "level": "confidence level",
}
STATUS = {"good": "OK", "open": "uncertain", "bad": "problem", "none": "not tested"}

# Pixels of a panel: the edges of the axes of a drawing, then the row height and name width of a forest plot.
LEFT, RIGHT, TOP, HEIGHT, BOTTOM = 46.0, 346.0, 28.0, 168.0, 40.0
ROW, NAME_WIDTH, FOREST_TOP = 18.0, 150.0, 10.0
_THIN_LETTERS = frozenset("iIjltfr.,:;'|! ()[]-")
FIRST_EFFECTS = 25  # effects in the forest plot and in the table beside it
MIN_FOREST_LIMIT, MAX_FOREST_LIMIT = log(2.0), log(20.0)  # log odds ratio at the ends of a forest plot
FOREST_TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)  # odds ratios
BAR_ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # possible ends of the bar's axis, as shares of rows


@dataclass(frozen=True, repr=False)
class FitReport:
    """The report of a fit, as `model_report` returns it; prints as its answer.

    Attributes
    ----------
    title : str
    kind : str
        Name of the classifier.
    level : float
        Confidence level.
    answer : FitAnswer
        The estimated number of positives, with cautions.
    ranked : Ranked
        The unlabelled rows with the highest probability of being positive, with the main reasons.
    effects : tuple of Effects
        The effects of columns on the class, then on the labelling.
    overlooked : Overlooked
        Positives without a label in groups of rows.
    checks : tuple of Check
        The results of the diagnostics.
    columns : tuple of ReportColumn
        How the raw columns were encoded and used.
    warnings : tuple of str
        Warnings of the diagnostics, and the warnings of the fit that were passed as ``run["warnings"]``.
    run : tuple of NamedValue
        Versions, seed and other details of the run.
    command : str
        The command that repeats the analysis; empty if none was given.
    given : tuple of NamedValue
        Audits, looks and known values that the fit used; empty if there were none.
    checked : Checked or None
        What the answers of worksheets changed; None without worksheets.
    used : str
        Which model `scarless fit` used, and why; empty for reports of `model_report`.
    """

    title: str
    kind: str
    level: float
    answer: FitAnswer
    ranked: Ranked
    effects: tuple[Effects, ...]
    overlooked: Overlooked
    checks: tuple[Check, ...]
    columns: tuple[ReportColumn, ...]
    warnings: tuple[str, ...]
    run: tuple[NamedValue, ...]
    command: str
    given: tuple[NamedValue, ...] = ()
    checked: Checked | None = None
    used: str = ""

    def to_json(self) -> str:
        """Return the report as JSON, with the same keys for every model; missing numbers are null."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def to_html(self) -> str:
        """Return the report as one self-contained HTML page."""
        return render_fit(self)

    def save(self, path: str | Path) -> Path:
        """Write the HTML page, or JSON if the file name ends in .json.

        Parameters
        ----------
        path : path
            File to write; its folder must exist.

        Returns
        -------
        path
        """
        place = Path(path)
        write_whole(place, self.to_json() if place.suffix.lower() == ".json" else self.to_html())
        return place

    def __str__(self) -> str:
        return " ".join([*self.answer.cautions, self.answer.sentence])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(text)}</p>" for text in (*self.answer.cautions, self.answer.sentence))


@dataclass(frozen=True)
class BarPart:
    """A segment of the bar, in percent of the bar's length."""

    kind: str
    start: float
    length: float


@dataclass(frozen=True)
class Bar:
    """A bar of labelled positives, unlabelled positives and negatives, drawn up to the share `end` of the rows.

    `interval` is the confidence interval in percent of the bar's length, or None.
    """

    description: str
    parts: tuple[BarPart, ...]
    interval: tuple[float, float] | None
    ticks: tuple[tuple[float, str], ...]
    end: float


def render_fit(report: FitReport) -> str:
    """Return the report as one self-contained HTML page.

    Its script uses only the data in the page. Without JavaScript, the page lists the first rows and has no controls.
    """
    curve = report.ranked.curve
    drawn = None if curve is None or not curve.informative or len(curve.n) < 2 else yield_drawing(curve, report.level)
    rows = page_data(report.ranked, report.level, None if drawn is None else drawn[1])
    bars = max((each.mean_change for each in report.effects[0].strengths), default=0.0) or 1.0
    page: str = template_of("fit.html.jinja").render(
        report=report,
        bar=answer_bar(report.answer),
        forests={each.key: forest(each) for each in report.effects if each.effects},
        groups={each.key: group_shares(each, report.overlooked.total) for each in report.overlooked.columns},
        yields=None if drawn is None else drawn[0],
        rows=rows,
        script_data=in_script(rows),
        prior=place_of_estimate(report.ranked.priors),
        drawings={each.key: draw(each.picture) for each in report.checks if each.picture is not None},
        checked_drawings=[draw(each) for each in report.checked.pictures] if report.checked else [],
        status=STATUS,
        first_rows=FIRST_ROWS,
        shown_effects=FIRST_EFFECTS,
        most_effects=MAX_EFFECTS_SHOWN,
        longest_bar=bars,
        most_columns=MAX_COLUMNS_SHOWN,
    )
    return page


def template_of(name: str) -> Any:
    """Return a template of a report's page."""
    return _environment(need("jinja2", "The report's page", "tool")).get_template(name)


@cache
def _environment(jinja2: Any) -> Any:
    """Return the jinja2 environment, which caches compiled templates."""
    own, shared = (jinja2.PackageLoader("scarless.report", path) for path in ("fit/templates", "templates"))
    options = {"autoescape": True, "undefined": jinja2.StrictUndefined, "keep_trailing_newline": True}
    environment = jinja2.Environment(loader=jinja2.ChoiceLoader([own, shared]), **options)
    environment.filters.update(
        brief=_brief,
        chance=words.chance,
        setting=lambda name: SETTING_WORDS.get(name, name),
        count=words.count, share=words.share, ratio=words.ratio, about=words.about, signed=signed, between=_between,
        ratio_between=_ratio_between, as_table=_as_table, count_between=_count_between,
    )  # fmt: skip
    return environment


def _brief(name: str) -> str:
    """Return a name, shortened for a narrow table cell."""
    return text(name, 40)


def _between(estimate: IntervalEstimate) -> str:
    """Return an interval of a probability, or "" if there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{words.chance(estimate.low)} to {words.chance(estimate.high)}"


def _count_between(estimate: IntervalEstimate) -> str:
    """Return an interval of a number of rows, or "" if there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{words.count(round(estimate.low))} to {words.count(round(estimate.high))}"


def _ratio_between(estimate: IntervalEstimate) -> str:
    """Return an interval of ratios, or "" if there is none."""
    if estimate.low is None and estimate.high is None:
        return ""
    return f"{words.ratio(estimate.low)} to {words.ratio(estimate.high)}"


def _as_table(table: NumberTable) -> Table:
    """Return a table of numbers as a table of formatted texts."""
    rows = [[_cell(value, kind) for value, kind in zip(row, table.kinds, strict=True)] for row in table.rows]
    names = tuple(j for j, kind in enumerate(table.kinds) if kind == "text")
    return Table(table.caption, table.head, (section("", rows),), names=names)


def _cell(value: str | float | None, kind: str) -> str:
    if value is None or isinstance(value, str):
        return NO_VALUE if value is None else value
    if kind == "share":
        return words.share(value)
    return words.count(value) if kind == "count" else f"{value:,.4g}".replace("-", "−")


# --- drawings


def answer_bar(answer: FitAnswer) -> Bar:
    """Return the bar of labelled positives, unlabelled positives and negatives."""
    known = (answer.labelled - answer.wrong) / answer.weight
    found = max(answer.share.value or known, known)
    high = max(found, answer.share.high or 0.0)
    end = next(each for each in BAR_ENDS if each >= min(1.6 * high, 1.0))

    def at(value: float) -> float:
        return round(100.0 * min(value, end) / end, 3)

    parts = (
        BarPart("labelled", 0.0, at(known)),
        BarPart("missing", at(known), at(found) - at(known)),
        BarPart("rest", at(found), 100.0 - at(found)),
    )
    low, top = answer.share.low, answer.share.high
    interval = None if low is None or top is None else (at(low), at(top))
    ticks = tuple((20.0 * i, f"{20.0 * end * i:g}%") for i in range(6))
    label = "have a label" if not answer.wrong else "are positive and have a label"
    words = f"{share(known)} of all rows {label}"
    if answer.share.value is not None:
        words += f"; an estimated {share(answer.share.value)} are positive"
    if low is not None and top is not None:
        words += f", with a confidence interval from {share(low)} to {share(top)}"
    ends = f" The bar ends at {share(end)} of the rows." if end < 1 else ""
    return Bar(f"{words}.{ends}", parts, interval, ticks, end)


def forest(effects: Effects) -> Panel:
    """Draw odds ratios per standard deviation with intervals. Arrows mark values beyond the axis."""
    shown = [each for each in effects.effects[:FIRST_EFFECTS] if each.per_sd.value]
    limit = _limit(shown)

    def x(ratio: float) -> float:
        where = min(max(log(ratio), -limit), limit) if ratio > 0 else -limit
        return NAME_WIDTH + 8 + (where + limit) / (2 * limit) * (RIGHT - NAME_WIDTH - 8)

    bottom = FOREST_TOP + ROW * len(shown)
    crowded = limit > log(12.0)
    ticks = [tick for tick in FOREST_TICKS if abs(log(tick)) <= limit + 1e-9 and not (crowded and tick in {0.1, 10.0})]
    lines = [Line(((x(tick), FOREST_TOP), (x(tick), bottom)), "axis" if tick == 1 else "grid") for tick in ticks]
    texts = [Text(x(tick), bottom + 15, f"{tick:g}", "middle", "tick") for tick in ticks]
    texts.append(Text((NAME_WIDTH + 8 + RIGHT) / 2, bottom + 32, "odds ratio per standard deviation", "middle", "tick"))
    areas: list[Area] = []
    dots: list[Dot] = []
    for i, each in enumerate(shown):
        y = FOREST_TOP + ROW * (i + 0.5)
        texts.append(Text(0.0, y + 4, short(_forest_label(each))))
        lines += _bar(each, x, y)
        areas += _arrows(each, limit, y)
        dots.append(Dot(x(each.per_sd.value or 1.0), y, "k1"))
    first = "; ".join(f"{each.label}: {each.per_sd.value:.3g}" for each in shown[:5] if each.per_sd.value)
    description = f"{len(shown)} odds ratios per standard deviation, the strongest first: {first}"
    description += ", and weaker ones." if len(shown) > 5 else "."
    shapes = (tuple(lines), tuple(dots), tuple(texts))
    return Panel(effects.title, bottom + 40, *shapes, areas=tuple(areas), description=description)


def _forest_label(effect: Effect) -> str:
    """Return the name of an effect; in a long name, the column is shortened rather than its category."""
    if not effect.piece or short(effect.label) == effect.label:
        return effect.label
    return replace(effect, column=short(effect.column, NAME_WIDTH / 3)).label


def _limit(shown: Sequence[Effect]) -> float:
    """Return the log odds ratio at the ends of the axis, which holds all points and most of the intervals."""
    points = max((abs(log(each.per_sd.value)) for each in shown if each.per_sd.value), default=0.0)
    ends = sorted(
        abs(log(end)) for each in shown for end in (each.per_sd.low, each.per_sd.high) if end is not None and end > 0
    )
    wanted = max(1.35 * points, ends[int(0.9 * (len(ends) - 1))] if ends else 0.0, MIN_FOREST_LIMIT)
    return min(wanted, max(MAX_FOREST_LIMIT, 1.35 * points)) if points < MAX_FOREST_LIMIT else MAX_FOREST_LIMIT


def _bar(effect: Effect, x: object, y: float) -> list[Line]:
    low, high = effect.per_sd.low, effect.per_sd.high
    if low is None or high is None:
        return []
    return [Line(((x(low), y), (x(high), y)), "interval k1")]  # type: ignore[operator]


def _arrows(effect: Effect, limit: float, y: float) -> list[Area]:
    """Return arrowheads if the interval, or the ratio itself, lies beyond the axis."""
    ends = [end for end in (effect.per_sd.low, effect.per_sd.value, effect.per_sd.high) if end is not None]
    left, found = NAME_WIDTH + 8, []
    if min(ends, default=1.0) < exp(-limit) * (1 - 1e-9):
        found.append(Area(((left - 6, y), (left + 1, y - 4), (left + 1, y + 4)), "k1"))
    if max(ends, default=1.0) > exp(limit) * (1 + 1e-9):
        found.append(Area(((RIGHT + 6, y), (RIGHT - 1, y - 4), (RIGHT - 1, y + 4)), "k1"))
    return found


def group_shares(shares: GroupedShares, total: IntervalEstimate) -> Panel | None:
    """Draw the share of positives without a label in each group, with a line for all rows; None without estimates."""
    shown = [each for each in shares.groups if each.missed.value is not None]
    if not shown:
        return None
    left, names = NAME_WIDTH + 8, told_apart([each.name for each in shown])

    def x(value: float) -> float:
        return left + value * (RIGHT - left)

    bottom = FOREST_TOP + ROW * len(shown)
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    lines = [Line(((x(tick), FOREST_TOP), (x(tick), bottom)), "grid") for tick in ticks]
    texts = [Text(min(x(tick), WIDTH - 14), bottom + 15, share(tick), "middle", "tick") for tick in ticks]
    texts.append(Text((left + RIGHT) / 2, bottom + 32, "positives without a label", "middle", "tick"))
    if total.value is not None:
        lines.append(Line(((x(total.value), FOREST_TOP), (x(total.value), bottom)), "axis"))
    dots: list[Dot] = []
    for i, each in enumerate(shown):
        y, colour = FOREST_TOP + ROW * (i + 0.5), "k2" if each.differs else "k1"
        texts.append(Text(0.0, y + 4, names[i]))
        if each.missed.low is not None and each.missed.high is not None:
            lines.append(Line(((x(each.missed.low), y), (x(each.missed.high), y)), f"interval {colour}"))
        dots.append(Dot(x(each.missed.value or 0.0), y, colour))
    description = "; ".join(f"{each.name}: {share(each.missed.value)}" for each in shown)
    shapes = (tuple(lines), tuple(dots), tuple(texts))
    return Panel(f"Positives without a label, by {shares.column}", bottom + 40, *shapes, description=f"{description}.")


def yield_drawing(curve: Yield, level: float) -> tuple[Panel, dict[str, float]]:
    """Draw the positives to expect by the number of rows that are checked, with the interval and two other orders.

    Also returns the ends of the axes and their pixels, with which the script of the page marks a number of rows.
    """
    xs, frame = (0, *curve.n), Frame(0.0, curve.n[-1], 0.0, max(*curve.high, *curve.random, 1.0))
    lines = [Line(frame.at(xs, (0.0, *curve.random)), "k0 curve dotted")]
    lines += [Line(frame.at(xs, (0.0, *curve.naive)), "k2 curve dashed")] if curve.naive else []
    lines.append(Line(frame.at(xs, (0.0, *curve.expected)), "k1 curve"))
    around = frame.at((*xs, *xs[::-1]), (0.0, *curve.high, *curve.low[::-1], 0.0))
    found = [
        f"{n:,} rows: {expected:,.0f} ({low:,.0f} to {high:,.0f})"
        for n, expected, low, high in zip(curve.n, curve.expected, curve.low, curve.high, strict=True)
        if n >= min(10, curve.n[-1])
    ]
    picture = Picture(
        kind="yield",
        title="Positives to expect among the rows that rank highest",
        description=f"Positives among the first rows, with {100 * level:.6g}% intervals: {'; '.join(found)}.",
        x_label="unlabelled rows checked",
        y_label="positives among them",
        x=tuple(map(float, curve.n)),
        y=curve.expected,
    )
    panel = _framed(picture, frame, (Area(around, "band"),), lines, (), [], x_as_share=False, y_as_share=False)
    edges = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": TOP + HEIGHT, "x": frame.x_high, "y": frame.y_high}
    return panel, edges


def draw(picture: Picture) -> Panel:
    """Draw a profile, a calibration plot, a sensitivity band or a detection curve, depending on its kind."""
    kinds = {"profile": _profile, "calibration": _calibration, "sensitivity": _band, "detection": _steps}
    kinds["rounds"] = _rounds
    return kinds[picture.kind](picture)


@dataclass(frozen=True)
class Frame:
    """Two linear axes that convert values to pixels."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """Return the horizontal pixel of a value."""
        share_ = (min(max(value, self.x_low), self.x_high) - self.x_low) / ((self.x_high - self.x_low) or 1.0)
        return LEFT + share_ * (RIGHT - LEFT)

    def y(self, value: float) -> float:
        """Return the vertical pixel of a value, counted from the top."""
        share_ = (min(max(value, self.y_low), self.y_high) - self.y_low) / ((self.y_high - self.y_low) or 1.0)
        return TOP + HEIGHT * (1.0 - share_)

    def at(self, xs: Sequence[float], ys: Sequence[float]) -> tuple[tuple[float, float], ...]:
        """Return the pixels of points."""
        return tuple((self.x(x), self.y(y)) for x, y in zip(xs, ys, strict=True))


def _profile(picture: Picture) -> Panel:
    low, high = picture.low[0], picture.high[0]
    ends = [*picture.x, low, high]
    frame = Frame(*_ends(min(ends), max(ends)), min(min(picture.y, default=-1.0), -1.0), 0.0)
    box = frame.at((low, high, high, low), (frame.y_low, frame.y_low, 0.0, 0.0))
    lines = [Line(frame.at(picture.x, picture.y), "k1 curve")]
    texts = []
    for mark in picture.marks:
        lines.append(Line(frame.at((mark.x, mark.x), (frame.y_low, 0.0)), "k2"))
        right = frame.x(mark.x) > RIGHT - 40
        texts.append(Text(frame.x(mark.x) + (-5 if right else 5), TOP + HEIGHT - 6, mark.label,
                          "end" if right else "start", "best"))  # fmt: skip
    return _framed(picture, frame, (Area(box, "band"),), lines, (), texts, y_as_share=False)


def _calibration(picture: Picture) -> Panel:
    top = max(*picture.x, *picture.high, 1e-6)
    top = nice_step(top / 4) * ceil(top / nice_step(top / 4) - 1e-9)
    frame = Frame(0.0, top, 0.0, top)
    lines = [Line(frame.at((0.0, top), (0.0, top)), "axis")]
    lines += [
        Line(frame.at((x, x), ends), "interval k1")
        for x, *ends in zip(picture.x, picture.low, picture.high, strict=True)
    ]
    dots = tuple(Dot(*point, "k1") for point in frame.at(picture.x, picture.y))
    return _framed(picture, frame, (), lines, dots, [])


def _band(picture: Picture) -> Panel:
    frame = Frame(picture.x[0], picture.x[-1], *_ends(min(picture.low), max(picture.high)))
    around = frame.at((*picture.x, *picture.x[::-1]), (*picture.high, *picture.low[::-1]))
    lines = [
        Line(frame.at(picture.x, picture.y), "k2"),
        Line(frame.at(picture.x, picture.high), "k1 curve"),
        Line(frame.at(picture.x, picture.low), "k1 curve"),
    ]
    return _framed(picture, frame, (Area(around, "band"),), lines, (), [], x_as_share=False)


def _steps(picture: Picture) -> Panel:
    """Draw a share as a function of a whole number of steps."""
    frame = Frame(picture.x[0] - 0.3, picture.x[-1] + 0.3, 0.0, 1.0)
    lines = [Line(frame.at(picture.x, picture.y), "k1 curve")]
    texts = []
    for mark in picture.marks:
        lines.append(Line(frame.at((mark.x, mark.x), (0.0, 1.0)), "k2"))
        texts.append(Text(frame.x(mark.x) + 5, TOP + HEIGHT - 6, mark.label, "start", "best"))
    texts += [
        Text(frame.x(x), frame.y(y) - 8, share(y), "middle", "tick") for x, y in zip(picture.x, picture.y, strict=True)
    ]
    dots = tuple(Dot(*point, "k1") for point in frame.at(picture.x, picture.y))
    return _framed(picture, frame, (), lines, dots, texts, x_as_share=False, x_ticks=picture.x)


def _rounds(picture: Picture) -> Panel:
    """Draw estimates with their intervals, by a number of rows."""
    most = max(picture.x) or 1.0
    frame = Frame(-0.06 * most, 1.06 * most, *_ends(min(picture.low), max(picture.high)))
    lines = [
        Line(frame.at((x, x), ends), "interval k1")
        for x, *ends in zip(picture.x, picture.low, picture.high, strict=True)
    ]
    dots = tuple(Dot(*point, "k1") for point in frame.at(picture.x, picture.y))
    return _framed(picture, frame, (), lines, dots, [], x_as_share=False, x_ticks=picture.x)


def _framed(
    picture: Picture,
    frame: Frame,
    areas: tuple[Area, ...],
    lines: list[Line],
    dots: tuple[Dot, ...],
    texts: list[Text],
    *,
    x_as_share: bool = True,
    y_as_share: bool = True,
    x_ticks: Sequence[float] = (),
) -> Panel:
    """Add axes, ticks and axis labels to shapes."""
    bottom, grid, labels = TOP + HEIGHT, [], list(texts)
    for tick in x_ticks or ticks_between(frame.x_low, frame.x_high):
        grid.append(Line(((frame.x(tick), TOP), (frame.x(tick), bottom)), "grid"))
        label = _tick(tick, x_as_share)
        inside = min(frame.x(tick), WIDTH - sum(map(_width, label)) / 2)  # Otherwise "100%" is cut off at the right.
        labels.append(Text(inside, bottom + 15, label, "middle", "tick"))
    for tick in ticks_between(frame.y_low, frame.y_high):
        grid.append(Line(((LEFT, frame.y(tick)), (RIGHT, frame.y(tick))), "grid"))
        labels.append(Text(LEFT - 6, frame.y(tick) + 4, _tick(tick, y_as_share), "end", "tick"))
    labels.append(Text((LEFT + RIGHT) / 2, bottom + 33, picture.x_label, "middle", "tick"))
    labels.append(Text(0.0, 12.0, picture.y_label, "start", "tick"))
    shapes = ((*grid, *lines), dots, tuple(labels))
    return Panel(picture.title, bottom + BOTTOM, *shapes, areas=areas, description=picture.description)


def _ends(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis of shares, with a margin around the values."""
    margin = 0.08 * (high - low) + 1e-4
    return max(low - margin, 0.0), min(high + margin, 1.0)


def _tick(value: float, as_share: bool) -> str:
    shown = f"{100 * value:.4g}%" if as_share else f"{value:.4g}"
    return "0" if value == 0 and not as_share else shown.replace("-", "−")


def told_apart(names: list[str]) -> list[str]:
    """Return names that fit into the margin of a picture; a long beginning that all names share is left out.

    Examples
    --------
    >>> told_apart([f"a very long name of a hospital, ward {k}" for k in (3, 4)])
    ['…3', '…4']
    >>> told_apart(["city", "rural"])
    ['city', 'rural']
    """
    shortened = [short(name) for name in names]
    if len(set(shortened)) == len(set(names)):
        return shortened
    ends = min(names), max(names)  # what these two share, all names share
    same = next((i for i, (a, b) in enumerate(zip(*ends, strict=False)) if a != b), min(map(len, ends)))
    first = names[0].rfind(" ", 0, same) + 1
    rests = [short(f"…{name[first:]}") for name in names]
    return rests if len(set(rests)) == len(set(names)) else [short(f"{i + 1}. {each}") for i, each in enumerate(names)]


def short(name: str, room: float = NAME_WIDTH - 4) -> str:
    """Return the beginning of a name that fits into a width in pixels, estimated from the widths of letters.

    Examples
    --------
    >>> short("insurance = full"), short("an endless name of a long column")
    ('insurance = full', 'an endless name of a long…')
    """
    if sum(map(_width, name)) <= room:
        return name
    kept, room = "", room - _width("…")
    for letter in name:
        room -= _width(letter)
        if room < 0:
            break
        kept += letter
    return f"{kept.rstrip()}…"


def _width(letter: str) -> float:
    """Return the approximate width of a letter in pixels."""
    if letter in _THIN_LETTERS:
        return 3.4
    if unicodedata.east_asian_width(letter) in "WF" or letter in "WM@%…—" or not letter.isprintable():
        return 11.2
    return 8.2 if letter.isupper() or ord(letter) > 0x24F else 6.3
