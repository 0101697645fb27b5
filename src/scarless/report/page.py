"""The report of an experiment: its data, one HTML page, figures as SVG, and results as CSV."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

from scarless.experiments import Store, check_spec
from scarless.experiments.store import KEY, MANIFEST, key_of
from scarless.outside.extras import REPRODUCE, need
from scarless.outside.files import write_whole
from scarless.outside.notices import listed
from scarless.outside.progress import duration
from scarless.report.anchors import anchors_chapter
from scarless.report.chapters import Chapter
from scarless.report.cut_offs import cut_offs_chapter
from scarless.report.figures import Figure, Panel, condition_figures, rank_figures, score_figures
from scarless.report.names import SCORES, SETTING_NAMES, dataset_label, setting_name
from scarless.report.results import LABEL_FREQUENCY_SUFFIX, Record, Results, group
from scarless.report.story import Answer, Story
from scarless.report.summary import effects_chapter, summary_chapter
from scarless.report.tables import Table, failure_table, method_table, score_tables, time_table, warning_table

PAGE, RESULTS, RECORDS, FIGURES = "report.html", "results.csv", "records.csv", "figures"
CSV_DIGITS = 6  # significant digits of numbers in CSV files
ESTIMATES = (
    "class_prior",
    "label_frequency",
    "n_iter",
    "converged",
    "n_labels",
    "knows",
)  # columns of records.csv beside the scores
PANELS_PER_ROW = 2  # in an SVG file
MARGIN, GAP, HEAD, LEGEND = 24.0, 36.0, 66.0, 22.0  # pixels of an SVG file
LEGEND_STEP, LETTER = 70.0, 6.0  # pixels between the entries of a legend at least, and of a letter
MAX_MECHANISMS_IN_WORDS = 6  # With more, the page lists their names only.
Pairs = tuple[tuple[str, str], ...]
RANKS_NOTE = (
    "For each dataset, the methods are ranked by their mean score over its runs. The Friedman test shows whether the "
    "average ranks differ at all; the Nemenyi test shows which average ranks differ."
)
INTERVALS_OVER_RUNS = (
    "Intervals are t intervals of the mean over the runs of a dataset. Runs share splits, and splits share rows, "
    "so the intervals describe the spread of this protocol and are too narrow for new data."
)
INTERVALS_OVER_DATASETS = (
    "Intervals are t intervals of the mean over datasets, where the score of a dataset is the mean over its runs."
)
RANKED_BY_LABELS = "The ranking compares the methods that use labels only."
RANKED_BY_LEVEL = (
    "Each contest compares the methods that know as much as it says, or less; methods that know the true classes are "
    "in none."
)


@dataclass(frozen=True)
class Report:
    """The contents of the page, in the order of the page; texts are not yet escaped for HTML."""

    heading: str
    lead: str
    notices: tuple[str, ...]
    facts: Pairs
    run_tables: tuple[Table, ...]
    time_table: Table
    method_table: Table
    answers_title: str
    answers_note: str
    answers: tuple[Answer, ...]
    figures_title: str
    interval_note: str
    score_figures: tuple[Figure, ...]
    ranks_note: str
    rank_figures: tuple[Figure, ...]
    score_notes: Pairs
    tables_note: str
    score_tables: tuple[tuple[str, tuple[Table, ...]], ...]
    chapters: tuple[Chapter, ...]
    time_note: str
    footer: ClassVar[str] = (
        "Files in the same folder: results.csv has a row for each dataset, setting, k and method; records.csv has a "
        "row for each run; figures/ has each figure as an SVG file, and the numbers that it shows as a CSV file of the "
        "same name. `scarless report` writes this page again from records.jsonl."
    )

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures of the page."""
        within = [figure for chapter in self.chapters for figure in chapter.figures]
        return (*self.score_figures, *self.rank_figures, *within)


def build_report(
    records: Sequence[Record], timings: Sequence[Record], manifest: Record, *, story: Story | None = None
) -> Report:
    """Return the report of an experiment as data.

    Parameters
    ----------
    records, timings : sequences of dict
        Records and timings of a `scarless.experiments.Store`.
    manifest : dict
        Manifest of the store.
    story : Story, optional
        Questions, chapters and names of the page. By default, the page has tables and figures only.
    """
    story = story or Story()
    results = group(records, timings, manifest, method_names=story.method_names, contests=story.contests)
    return Report(
        heading=results.spec["title"],
        lead=f"{story.whose}, {manifest['name']}, run with scarless{story.citation and f'. {story.citation}'}",
        notices=_notices(results),
        facts=_facts(results, timings, manifest),
        run_tables=tuple(item for item in (failure_table(results), warning_table(results)) if item is not None),
        time_table=time_table(results),
        time_note=_time_note(results, timings),
        method_table=method_table(results),
        answers_title=story.questions.title if story.questions else "",
        answers_note=story.questions.note if story.questions else "",
        answers=_answers(results, story),
        figures_title=story.figures_title,
        interval_note=INTERVALS_OVER_DATASETS if results.large else INTERVALS_OVER_RUNS,
        score_figures=tuple((condition_figures if results.large else score_figures)(results, story.figures)),
        ranks_note=_ranks_note(results, story),
        rank_figures=tuple(rank_figures(results, story.figures)),
        score_notes=tuple((SCORES[name].label, SCORES[name].explanation) for name in results.scores()),
        tables_note=_tables_note(results) if results.large else "",
        score_tables=()
        if results.large
        else tuple((dataset_label(dataset), score_tables(results, dataset)) for dataset in results.datasets),
        chapters=(*_opening(results, story), *(() if story.chapters is None else story.chapters(results))),
    )


def _timed(results: Results) -> str:
    n = sum(map(len, results.seconds.values()))
    return "" if n == results.n_finished else f"; {n:,} of {results.n_finished:,} runs have a time"


def _time_note(results: Results, timings: Sequence[Record]) -> str:
    """Return which times these are, and why their sum exceeds the time of the experiment."""
    clock = (
        "Times are processor times."
        if any("clock" in timing for timing in timings)
        else "Times are wall-clock times on one core; other work on the machine lengthens them."
    )
    left = results.n_finished - sum(map(len, results.seconds.values()))
    unknown = f" The processor times of {left:,} runs are not known, and these runs are left out." if left else ""
    return (
        f"{clock}{unknown} A step that several methods share, such as the fit of SAR-EM, is computed once but counted "
        "for each method, so the sums exceed the time of the experiment."
    )


def _answers(results: Results, story: Story) -> tuple[Answer, ...]:
    """Return the answers to the story's questions; those from incomplete results are marked "so far"."""
    found = story.questions.answers(results) if story.questions else ()
    complete = results.n_finished + results.n_failed >= results.n_expected
    return found if complete else tuple(replace(item, verdict=f"{item.verdict}, so far") for item in found)


def _opening(results: Results, story: Story) -> tuple[Chapter, ...]:
    """Return the chapters before the figures: summary, cut-offs, differences and published numbers.

    Records that do not say what methods know have none of the first three.
    """
    found: list[Chapter | None] = []
    if results.says_what_methods_know:
        found = [
            summary_chapter(results),
            cut_offs_chapter(results),
            effects_chapter(results, story.reference, story.figures),
        ]
    found += [anchors_chapter(results, story.anchors)] if story.anchors else []
    return tuple(replace(chapter, before_figures=True) for chapter in found if chapter is not None)


def _ranks_note(results: Results, story: Story) -> str:
    by_level = results.says_what_methods_know and story.contests is None
    pooled = " Here, the score of a dataset is the mean over its conditions." if results.large else ""
    return f"{RANKS_NOTE}{pooled} {story.ranked or (RANKED_BY_LEVEL if by_level else RANKED_BY_LABELS)}"


def _tables_note(results: Results) -> str:
    return (
        f"With {len(results.datasets)} datasets, {len(results.conditions)} conditions and {len(results.methods)} "
        "methods, the scores of single datasets are not on this page. The file results.csv has them, with their 95% "
        "intervals."
    )


def _notices(results: Results) -> tuple[str, ...]:
    """Return notices of missing datasets, missing runs, failed runs and runs that did not converge."""
    found = []
    missing = results.n_expected - results.n_finished - results.n_failed
    if results.missing_datasets:
        names = listed([dataset_label(name) for name in results.missing_datasets])
        found.append(
            f"There are no results for {names}: the data were not available, or the runs have not started. To add "
            "them, run `scarless compare` or `scarless reproduce` again with this folder as --out."
        )
    if missing > 0:
        found.append(
            f"The experiment is not complete: {results.n_finished + results.n_failed:,} of {results.n_expected:,} runs "
            "are finished. This page is computed from these runs and may change."
        )
    if results.n_failed:
        found.append(f"{results.n_failed:,} runs failed and are left out of all means; see the table of failed runs.")
    stopped = sum(run.get("converged") is False for runs in results.runs.values() for run in runs.values())
    if stopped:
        found.append(f"{stopped:,} runs stopped before they converged; see the table of warnings.")
    early = sum("knows" not in run for runs in results.runs.values() for run in runs.values())
    if early and results.says_what_methods_know:
        found.append(
            f"{early:,} runs are from an earlier version of scarless and lack some scores, so means of these scores "
            "are over different runs. To compute all runs with this version, use another folder as --out."
        )
    return tuple(found)


def _facts(results: Results, timings: Sequence[Record], manifest: Record) -> Pairs:
    spec = results.spec
    total = sum(map(sum, results.seconds.values()))
    per_dataset = f"{spec['n_splits']} splits × {spec['n_labellings']} labellings"
    return (
        ("specification", f"{manifest['name']}, {manifest['digest']}, seed {spec['seed']}"),
        ("datasets", listed([dataset_label(name) for name in spec["datasets"]])),
        *((("own data", _own_data(spec["own_datasets"])),) if spec.get("own_datasets") else ()),
        ("settings", _settings(results)),
        ("labelling", _labelling(results)),
        ("runs per row", f"{results.runs_per_row} ({per_dataset}), tested on {spec['test_share']:.0%} of the rows"),
        (
            "runs",
            f"{results.n_finished:,} finished of {results.n_expected:,}, {results.n_failed:,} failed",
        ),
        ("time", f"{duration(total)} on one core in total, as if each run were computed alone{_timed(results)}"),
        ("versions", _distinct(timings, "versions")),
        ("machine", _distinct(timings, "machine")),
    )


def _own_data(datasets: Record) -> str:
    """Return a description of the user's datasets, with their files, columns and hashes."""
    found = []
    for name, entry in datasets.items():
        words = [str(entry.get("file", entry.get("callable")))]
        words += [f"class {entry['class']}"] if "class" in entry else []
        words += [f"positive {entry['positive']}"] if "positive" in entry else []
        attributes = [str(each) for each in entry.get("propensity_attributes", [])]
        words += [f"labels depend on {listed(attributes)}"] if attributes else []
        words += [f"SHA-256 {entry['sha256'][:12]}"] if "sha256" in entry else []
        found.append(f"{name}: {', '.join(words)}")
    return "; ".join(found)


def _settings(results: Results) -> str:
    if len(results.counts) > MAX_MECHANISMS_IN_WORDS and not set(results.counts) & set(SETTING_NAMES):
        return f"{len(results.counts)} labelling mechanisms: {', '.join(results.counts)}"
    return "; ".join(f"{name}: {setting_name(name)}" for name in results.counts)


def _labelling(results: Results) -> str:
    """Return a description of the labelling mechanisms: added attributes, and others."""
    spec, found = results.spec, []
    if any(condition.k for condition in results.conditions):
        counts = listed([str(k) for k in spec["n_propensity_attributes"]])
        found.append(f"k = {counts} binary attributes, propensity from {spec['low']:g} to {spec['high']:g}")
    own = spec.get("own_mechanisms", {})
    settings = [condition.setting for condition in results.conditions if condition.k == 0]
    # Settings of one mechanism with several label frequencies are described together.
    bases = {name: name.rpartition(LABEL_FREQUENCY_SUFFIX)[0] for name in settings}
    for name in dict.fromkeys(base if name not in own and (base := bases[name]) in own else name for name in settings):
        entry = own.get(name, {})
        usual = f"the datasets' own propensity attributes, propensity from {spec['low']:g} to {spec['high']:g}"
        rest = ", ".join(f"{key} {value}" for key, value in entry.items() if key != "parameters")
        what = entry.get("callable", entry.get("mechanism", rest or usual))
        parameters = f" with {entry['parameters']}" if entry.get("parameters") else ""
        found.append(f"{name}: {what}{parameters}")
    return "; ".join(found)


def _distinct(timings: Sequence[dict[str, Any]], name: str) -> str:
    return "; ".join(sorted({row[name] for row in timings if name in row})) or "not recorded"


# --- files


@dataclass(frozen=True)
class Place:
    """A panel and its position on a sheet."""

    panel: Panel
    x: float
    y: float


@dataclass(frozen=True)
class Sheet:
    """The layout of the panels of a figure in an SVG file."""

    places: tuple[Place, ...]
    width: float
    height: float
    margin: float = MARGIN
    legend_step: float = LEGEND_STEP  # between the entries of the legend


def render_report(folder: str | Path, *, story: Story | None = None) -> Path:
    """Write the page, figures and tables of an experiment into its folder, and return the path of the page.

    Parameters
    ----------
    folder : path
        Folder with the records of `run_experiment`.
    story : Story, optional
        Questions, chapters and names of the page. By default, the page has tables and figures only.
    """
    store = Store(folder)
    manifest = store.manifest()
    check_spec(manifest["spec"], str(store.folder / MANIFEST))
    records, timings = store.records(), store.timings()
    if not records:
        raise ValueError(
            f"{store.folder} has no finished runs, so there is nothing to report. Run `scarless compare` or `scarless "
            "reproduce` again with this folder as --out. The output shows which datasets are missing."
        )
    report = build_report(records, timings, manifest, story=story)
    write_whole(store.folder / RESULTS, results_csv(records, timings, manifest))
    write_whole(store.folder / RECORDS, records_csv(records, timings))
    (store.folder / FIGURES).mkdir(exist_ok=True)
    for figure in report.figures:
        write_whole(store.folder / FIGURES / f"{figure.name}.svg", render_figure(figure))
        write_whole(store.folder / FIGURES / f"{figure.name}.csv", figure_csv(figure))
    write_whole(store.folder / PAGE, render_page(report))
    return store.folder / PAGE


def render_page(report: Report) -> str:
    """Return the report as one self-contained HTML page."""
    text: str = _template("page.html.jinja").render(report=report)
    return text


def render_figure(figure: Figure) -> str:
    """Return a figure as SVG on a white background, for use outside the page."""
    text: str = _template("figure.svg.jinja").render(figure=figure, sheet=_sheet(figure))
    return text


def _template(name: str) -> Any:
    return _environment(need("jinja2", "The report", REPRODUCE)).get_template(name)


@cache
def _environment(jinja2: Any) -> Any:
    """Return the jinja2 environment, which caches compiled templates."""
    loader = jinja2.PackageLoader("scarless.report")
    options = {"autoescape": True, "undefined": jinja2.StrictUndefined, "keep_trailing_newline": True}
    return jinja2.Environment(loader=loader, **options)


def _sheet(figure: Figure) -> Sheet:
    """Return the layout of a figure, with two panels in a row."""
    places, y, width = [], HEAD if figure.legend else HEAD - LEGEND, 0.0
    for start in range(0, len(figure.panels), PANELS_PER_ROW):
        row = figure.panels[start : start + PANELS_PER_ROW]
        places += [Place(panel, MARGIN + i * (panel.width + GAP), y) for i, panel in enumerate(row)]
        y += max(panel.height for panel in row) + GAP / 2
        width = max(width, 2 * MARGIN + len(row) * (row[0].width + GAP) - GAP)
    longest = max((len(meaning) for _, meaning in figure.legend), default=0)
    return Sheet(tuple(places), width, y - GAP / 2 + MARGIN, legend_step=max(LEGEND_STEP, LETTER * longest + 20.0))


# --- CSV


def results_csv(records: Sequence[Record], timings: Sequence[Record], manifest: Record) -> str:
    """Return results.csv: means and half-widths of 95% intervals for each dataset, setting, k and method."""
    results = group(records, timings, manifest)
    scores = results.scores()
    columns = [f"{score}_{part}" for score in scores for part in ("mean", "half_width")]
    knows = ["knows"] if results.says_what_methods_know else []
    head = ["dataset", "setting", "k", "method", *knows, "n_runs", "n_failed", *columns, "mean_seconds"]
    return _csv(head, (_line(results, row, scores) for row in results.rows()))


def _line(results: Results, row: Any, scores: Sequence[str]) -> list[Any]:
    intervals = [results.interval(row, score) for score in scores]
    seconds = results.seconds.get(row, [])
    return [
        *row,
        *([results.knows(row.method)] if results.says_what_methods_know else []),
        len(results.runs.get(row, {})),
        len(results.failed.get(row, [])),
        *(_number(value) for item in intervals for value in (item.mean, item.half)),
        _number(sum(seconds) / len(seconds)) if seconds else "",
    ]


def figure_csv(figure: Figure) -> str:
    """Return the numbers that a figure shows."""
    return _csv(
        figure.columns,
        ([_number(cell) if isinstance(cell, float) else cell for cell in row] for row in figure.values),
    )


def records_csv(records: Sequence[Record], timings: Sequence[Record]) -> str:
    """Return records.csv: the scores, warnings and errors of each run."""
    seconds = {key_of(timing): timing for timing in timings}
    head = [*KEY, *SCORES, *ESTIMATES, "seconds", "peak_mb", "warnings", "error"]
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
    return f"{value:.{CSV_DIGITS}g}" if isfinite(value) else ""
