"""From the data of a report to one page: templates and numbers in people's form, nothing computed."""

from functools import cache
from typing import Any

from scarless.outside.extras import need
from scarless.report.fit import words
from scarless.report.fit.data import Estimate, FitReport, Table
from scarless.report.fit.figures import SHOWN, answer_bar, draw, forest
from scarless.report.numbers import NOTHING, signed

FIRST_ROWS = 20  # ranked rows above the fold
MOST_EFFECTS = 500  # on the page; the data have all
MOST_COLUMNS = 300
STATUS = {"good": "fine", "open": "open", "bad": "beware", "none": "not asked"}


def render_fit(report: FitReport) -> str:
    """Return the page: one HTML text that needs nothing else, and no script."""
    bars = max((each.mean_change for each in report.effects[0].strengths), default=0.0) or 1.0
    text: str = _template("fit.html.jinja").render(
        report=report,
        bar=answer_bar(report.answer),
        forests={each.key: forest(each) for each in report.effects if each.effects},
        drawings={each.key: draw(each.picture) for each in report.checks if each.picture is not None},
        status=STATUS,
        first_rows=FIRST_ROWS,
        shown_effects=SHOWN,
        most_effects=MOST_EFFECTS,
        longest_bar=bars,
        most_columns=MOST_COLUMNS,
    )
    return text


def _template(name: str) -> Any:
    return _environment(need("jinja2", "The report's page", "tool")).get_template(name)


@cache
def _environment(jinja2: Any) -> Any:
    """Return what knows the templates; it keeps those that it has compiled."""
    own, shared = (jinja2.PackageLoader("scarless.report", path) for path in ("fit/templates", "templates"))
    options = {"autoescape": True, "undefined": jinja2.StrictUndefined, "keep_trailing_newline": True}
    environment = jinja2.Environment(loader=jinja2.ChoiceLoader([own, shared]), **options)
    environment.filters.update(
        brief=_brief,
        chance=words.chance,
        count=words.count, share=words.share, ratio=words.ratio, about=words.about, signed=signed, between=_between,
        ratio_between=_ratio_between, cells=_cells,
    )  # fmt: skip
    return environment


def _brief(name: str) -> str:
    """Return a name for a crowded cell; the whole of it is in other tables."""
    return words.text(name, 40)


def _between(estimate: Estimate) -> str:
    """Return an interval of a chance; nothing where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{words.chance(estimate.low)} to {words.chance(estimate.high)}"


def _ratio_between(estimate: Estimate) -> str:
    """Return an interval of ratios; nothing where there is none."""
    if estimate.low is None and estimate.high is None:
        return ""
    return f"{words.ratio(estimate.low)} to {words.ratio(estimate.high)}"


def _cells(table: Table) -> list[list[str]]:
    """Return a table's cells as text."""
    return [[_cell(value, kind) for value, kind in zip(row, table.kinds, strict=True)] for row in table.rows]


def _cell(value: str | float | None, kind: str) -> str:
    if value is None or isinstance(value, str):
        return NOTHING if value is None else value
    if kind == "share":
        return words.share(value)
    return words.count(value) if kind == "count" else f"{value:,.4g}".replace("-", "−")
