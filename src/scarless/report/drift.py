"""The page about drift: whether a model is still right for new rows."""

import json
from collections.abc import Mapping
from typing import Any

from scarless.diagnostics.drift.columns import MOVED_DISTANCE
from scarless.diagnostics.drift.labels import LabelGroups
from scarless.diagnostics.drift.result import FINE, LABELLING, REFIT, THRESHOLDS, UNKNOWN, Drift
from scarless.report.figures import Dot, Line, Panel, Text, ticks_between
from scarless.report.fit.page import FOREST_TOP, NAME_WIDTH, RIGHT, ROW, short, template_of
from scarless.report.tables import Table, section, table
from scarless.report.words import count, text

SCHEMA = 2  # version of drift.json
MAX_COLUMNS_DRAWN, MAX_COLUMNS_LISTED = 15, 300
STATUS = {FINE: ("good", "fine"), REFIT: ("bad", "refit"), LABELLING: ("bad", "look at the labelling"),
          UNKNOWN: ("open", "unknown")}  # fmt: skip


def drift_page(found: Drift, facts: Mapping[str, Any] | None = None) -> str:
    """Return the result of `detect_drift` as one self-contained HTML page.

    Parameters
    ----------
    found : Drift
        Result of `scarless.diagnostics.detect_drift`.
    facts : dict, optional
        Details of the run, such as the files, shown at the end of the page.

    Returns
    -------
    str
    """
    kind, word = STATUS[found.verdict]
    groups = found.shown_groups()
    page: str = template_of("drift.html.jinja").render(
        found=found,
        status=kind,
        verdict=word,
        column_panel=column_panel(found),
        column_table=_column_table(found),
        group_panels=[(f"labels-{j}", group_panel(each)) for j, each in enumerate(groups[1:])],
        label_table=table("Labels in groups of rows", found.label_cells([])[0], found.label_cells(groups)[1:]),
        thresholds=THRESHOLDS,
        facts={str(name): text(value, 2000) for name, value in (facts or {}).items()},
    )
    return page


def drift_json(found: Drift, facts: Mapping[str, Any] | None = None) -> str:
    """Return the result of `detect_drift` as JSON, with details of the run; unknown numbers are null."""
    content = {"schema": SCHEMA, **found.to_dict(), "run": {name: str(value) for name, value in (facts or {}).items()}}
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _column_table(found: Drift) -> Table:
    head, *rows = [[row[0], row[-1], *row[1:-1]] for row in found.column_cells(MAX_COLUMNS_LISTED)]
    cells = [[text(cell, 60) for cell in row] for row in rows]
    return Table("Columns, the largest change first", tuple(head), (section("", cells),), names=(0, 1))


def column_panel(found: Drift) -> Panel | None:
    """Draw the distance of each column, with a line at the distance from which a column counts as moved."""
    if found.columns is None or not found.columns.columns:
        return None
    shown = found.columns.columns[:MAX_COLUMNS_DRAWN]
    end = max(2 * MOVED_DISTANCE, *(each.distance for each in shown))
    x, bottom = _axis(0.0, end), FOREST_TOP + ROW * len(shown)
    lines, texts = _grid(0.0, end, bottom, "distance between the rows of the fit and the new rows")
    lines.append(Line(((x(MOVED_DISTANCE), FOREST_TOP), (x(MOVED_DISTANCE), bottom)), "axis"))
    dots = []
    for i, each in enumerate(shown):
        y, colour = FOREST_TOP + ROW * (i + 0.5), "k2" if each.moved else "k1"
        texts.append(Text(0.0, y + 4, short(each.name)))
        lines.append(Line(((x(0.0), y), (x(each.distance), y)), f"interval {colour}"))
        dots.append(Dot(x(each.distance), y, colour))
    description = "; ".join(f"{each.name}: {each.distance:.2f}" for each in shown)
    shapes = (tuple(lines), tuple(dots), tuple(texts))
    return Panel("Change of each column", bottom + 40, *shapes, description=f"{description}.")


def group_panel(groups: LabelGroups) -> Panel:
    """Draw observed labels as dots, and the range of predicted labels as lines."""
    end = float(max(groups.high.max(), groups.observed.max(), 1.0)) * 1.05
    x, bottom = _axis(0.0, end), FOREST_TOP + ROW * len(groups.names)
    lines, texts = _grid(0.0, end, bottom, "rows with a label: observed (dot), predicted (line)")
    dots = []
    for i, name in enumerate(groups.names):
        y = FOREST_TOP + ROW * (i + 0.5)
        outside = groups.observed[i] < groups.low[i] or groups.observed[i] > groups.high[i]
        brief = name.removeprefix("after ") if " to " in name else name  # A range of dates must fit into the margin.
        texts.append(Text(0.0, y + 4, short(brief)))
        lines.append(Line(((x(groups.low[i]), y), (x(groups.high[i]), y)), "bar faint"))
        dots.append(Dot(x(groups.observed[i]), y, "k2" if outside else "k1"))
    words = "; ".join(
        f"{name}: {count(round(seen))} observed, {count(round(expected))} predicted"
        for name, seen, expected in zip(groups.names, groups.observed, groups.predicted, strict=True)
    )
    shapes = (tuple(lines), tuple(dots), tuple(texts))
    return Panel(f"Labels by {groups.by}", bottom + 40, *shapes, description=f"{words}.")


def _axis(low: float, high: float) -> Any:
    left = NAME_WIDTH + 8
    return lambda value: left + (float(value) - low) / (high - low) * (RIGHT - left)


def _grid(low: float, high: float, bottom: float, label: str) -> tuple[list[Line], list[Text]]:
    x = _axis(low, high)
    ticks = ticks_between(low, high)
    lines = [Line(((x(tick), FOREST_TOP), (x(tick), bottom)), "grid") for tick in ticks]
    texts = [Text(x(tick), bottom + 15, f"{tick:,.4g}", "middle", "tick") for tick in ticks]
    return lines, [*texts, Text(RIGHT, bottom + 32, label, "end", "tick")]
