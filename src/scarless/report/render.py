"""From data to files: one HTML page, figures as SVG, results as CSV."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any

from scarless.experiments import Store, check_spec
from scarless.experiments.store import KEY, MANIFEST, key_of
from scarless.outside.extras import REPRODUCE, need
from scarless.outside.files import write_whole
from scarless.report.build import Report, build_report
from scarless.report.figures import Figure, Panel
from scarless.report.names import SCORES
from scarless.report.results import Record, Results, group
from scarless.report.story import Story

PAGE, RESULTS, RECORDS, FIGURES = "report.html", "results.csv", "records.csv", "figures"
DIGITS = 6  # of numbers in CSV files
FOUND = ("class_prior", "label_frequency", "n_iter", "converged")
COLUMNS, MARGIN, GAP, HEAD, LEGEND = 2, 24.0, 36.0, 66.0, 22.0


@dataclass(frozen=True)
class Place:
    """A panel on a sheet."""

    panel: Panel
    x: float
    y: float


@dataclass(frozen=True)
class Sheet:
    """The panels of a figure side by side, for a file of its own."""

    places: tuple[Place, ...]
    width: float
    height: float
    margin: float = MARGIN


def render_report(folder: str | Path, *, story: Story | None = None) -> Path:
    """Write the page, the figures and the tables of an experiment's results into its folder; return the page's path.

    Parameters
    ----------
    folder : path
        Where `run_experiment` left its records.
    story : Story, optional
        What the page adds to the numbers; None: nothing.
    """
    store = Store(folder)
    manifest = store.manifest()
    check_spec(manifest["spec"], str(store.folder / MANIFEST))
    records, timings = store.records(), store.timings()
    if not records:
        raise ValueError(
            f"{store.folder} holds no finished runs yet, so that there is nothing to report. Run the same command "
            "again, with this folder as --out, and see what it says of the datasets."
        )
    report = build_report(records, timings, manifest, story=story)
    write_whole(store.folder / RESULTS, results_csv(records, timings, manifest))
    write_whole(store.folder / RECORDS, records_csv(records, timings))
    (store.folder / FIGURES).mkdir(exist_ok=True)
    for figure in (*report.score_figures, *report.rank_figures):
        write_whole(store.folder / FIGURES / f"{figure.name}.svg", render_figure(figure))
    write_whole(store.folder / PAGE, render_page(report))
    return store.folder / PAGE


def render_page(report: Report) -> str:
    """Return the page: one HTML text that needs nothing else."""
    text: str = _template("page.html.jinja").render(report=report)
    return text


def render_figure(figure: Figure) -> str:
    """Return a figure as SVG, on white, to be used outside the page."""
    text: str = _template("figure.svg.jinja").render(figure=figure, sheet=_sheet(figure))
    return text


def _template(name: str) -> Any:
    return _environment(need("jinja2", "The report", REPRODUCE)).get_template(name)


@cache
def _environment(jinja2: Any) -> Any:
    """Return what knows the templates; it keeps those that it has compiled."""
    loader = jinja2.PackageLoader("scarless.report")
    options = {"autoescape": True, "undefined": jinja2.StrictUndefined, "keep_trailing_newline": True}
    return jinja2.Environment(loader=loader, **options)


def _sheet(figure: Figure) -> Sheet:
    """Lay out panels in rows of two."""
    places, y, width = [], HEAD if figure.legend else HEAD - LEGEND, 0.0
    for start in range(0, len(figure.panels), COLUMNS):
        row = figure.panels[start : start + COLUMNS]
        places += [Place(panel, MARGIN + i * (panel.width + GAP), y) for i, panel in enumerate(row)]
        y += max(panel.height for panel in row) + GAP / 2
        width = max(width, 2 * MARGIN + len(row) * (row[0].width + GAP) - GAP)
    return Sheet(tuple(places), width, y - GAP / 2 + MARGIN)


# --- CSV


def results_csv(records: Sequence[Record], timings: Sequence[Record], manifest: Record) -> str:
    """Return one line per dataset, setting, k and method: means, half-widths of 95% intervals, runs, seconds."""
    results = group(records, timings, manifest)
    scores = results.scores()
    columns = [f"{score}_{part}" for score in scores for part in ("mean", "half_width")]
    head = ["dataset", "setting", "k", "method", "n_runs", "n_failed", *columns, "mean_seconds"]
    return _csv(head, (_line(results, row, scores) for row in results.rows()))


def _line(results: Results, row: Any, scores: Sequence[str]) -> list[Any]:
    intervals = [results.interval(row, score) for score in scores]
    seconds = results.seconds.get(row, [])
    return [
        *row,
        len(results.runs.get(row, {})),
        len(results.failed.get(row, [])),
        *(_number(value) for item in intervals for value in (item.mean, item.half)),
        _number(sum(seconds) / len(seconds)) if seconds else "",
    ]


def records_csv(records: Sequence[Record], timings: Sequence[Record]) -> str:
    """Return one line per run."""
    seconds = {key_of(timing): timing for timing in timings}
    head = [*KEY, *SCORES, *FOUND, "seconds", "peak_mb", "warnings", "error"]
    lines = []
    for record in records:
        timing = seconds.get(key_of(record), {})
        joined = {**record, **{name: timing.get(name, "") for name in ("seconds", "peak_mb")}}
        joined["warnings"] = "; ".join(record.get("warnings", []))
        lines.append([joined.get(name, "") for name in head])
    return _csv(head, lines)


def _csv(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}" if isfinite(value) else ""
