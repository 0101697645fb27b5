"""Store the results of an experiment in `papers/`, and make everything that is computed from the stored records.

    python tools/stored_results.py store field results/field
    python tools/stored_results.py write field
    python tools/stored_results.py restore field results/field --without stack stack-balanced

`store` reads a folder of `scarless reproduce` and writes `papers/NAME/records.csv.gz`, with five decimals. `write`
makes the page, the tables and the figures of that folder from these records, and the tables of the README and of the
documentation. `restore` writes the stored records into a new folder, where `scarless reproduce` then computes the runs
that are missing, among them all runs of the methods after `--without`.
"""

import argparse
import csv
import gzip
import io
import json
import re
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from scarless.experiments import Spec, Store
from scarless.experiments.entries import did_you_mean
from scarless.experiments.store import KEY, RECORDS, TIMINGS, comparable_timings, key_of
from scarless.papers import EXPERIMENTS
from scarless.report import build_report, render_figure, render_page
from scarless.report.chapters import Chapter
from scarless.report.names import KNOWS, SCORES
from scarless.report.page import figure_csv, records_csv, results_csv
from scarless.report.results import Condition, Results, group
from scarless.report.story import Answer, story_of_spec
from scarless.report.tables import Table

ROOT = Path(__file__).resolve().parents[1]
DECIMALS = 5
COLUMNS = 8  # of a table in Markdown; the page has all
WHOLE = {"k", "split", "labelling", "n_iter", "peak_mb", "n_labels"}
TEXTS = {"dataset", "setting", "method", "knows", "error"}
PLACE = "place.txt"  # versions, machines and clock of the run, one line each; the last is missing for the wall clock
PLACES = ("versions", "machine", "clock")
MARKS = "<!-- {} -->"  # begin and end of a table that this program writes into a page
FIELD_SCORES = ("balanced_accuracy", "balanced_accuracy_at_prior", "auc_f", "mse_f", "mse_e")
README_METHODS = {  # methods of the table in the README
    "stack": "`SARStackingClassifier`, attributes named",
    "stack-balanced": "`SARStackingClassifier`, attributes named, *balanced*",
    "search": "`SAREMClassifierCV`, attributes named",
    "stack-nameless": "`SARStackingClassifier()`",
    "stack-nameless-balanced": "`SARStackingClassifier()`, *balanced*",
    "bagging-trees": "PU bagging, trees (2014)",
    "lbe": "LBE (2022)",
    "ntc-tmi": "NTC-tMI (2025)",
    "naive": "naive",
}


def folder_of(name: str) -> Path:
    """Return the folder of the stored results of an experiment."""
    return ROOT / "papers" / name


def store(name: str, source: Path) -> None:
    """Write the records of a run, rounded, with the versions and machines that computed them."""
    found = Store(source)
    spec: Spec = EXPERIMENTS[name].specification()
    if found.manifest()["digest"] != spec.digest:
        raise SystemExit(f"{source} has results of another specification than {name}.")
    records = [{key: _rounded(value) for key, value in record.items()} for record in found.records()]
    timings = [
        {**row, "seconds": round(row["seconds"], 3), "peak_mb": ""} for row in comparable_timings(found.timings())
    ]
    done = {key_of(record) for record in records}
    text = records_csv(records, [row for row in timings if key_of(row) in done])
    folder_of(name).mkdir(exist_ok=True)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.write(text.encode())
    (folder_of(name) / "records.csv.gz").write_bytes(packed.getvalue())
    lines = [
        "; ".join(sorted({each for row in timings for each in row.get(key, "").split("; ") if each})) for key in PLACES
    ]
    (folder_of(name) / PLACE).write_text("\n".join(lines) + "\n", encoding="utf-8")


def restore(name: str, target: Path, without: Sequence[str] = ()) -> None:
    """Write the stored records into a new folder of `scarless reproduce`, without the records of some methods."""
    if target.exists():
        raise SystemExit(f"{target} exists already. Name a new folder.")
    records, timings, manifest = read(name)
    for method in without:
        if method not in manifest["spec"]["methods"]:
            hint = did_you_mean(method, manifest["spec"]["methods"])
            raise SystemExit(f"{method!r} is not a method of {name}. {hint}".rstrip())
    target.mkdir(parents=True)
    for file, rows in ((RECORDS, records), (TIMINGS, timings)):
        lines = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows if row["method"] not in without)
        (target / file).write_text(lines, encoding="utf-8")


def _rounded(value: Any) -> Any:
    return round(value, DECIMALS) + 0.0 if isinstance(value, float) else value


def read(name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Return the records, timings and manifest of stored results."""
    lines = (folder_of(name) / PLACE).read_text(encoding="utf-8").splitlines()
    place = {key: line for key, line in zip(PLACES, lines, strict=False) if line}
    with gzip.open(folder_of(name) / "records.csv.gz", "rt", newline="", encoding="utf-8") as file:
        rows = [{key: _value(key, text) for key, text in row.items() if text} for row in csv.DictReader(file)]
    timings = [{**{key: row[key] for key in (*KEY, "seconds")}, **place} for row in rows if "seconds" in row]
    records = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    spec: Spec = EXPERIMENTS[name].specification()
    return records, timings, {"name": spec.name, "digest": spec.digest, "spec": spec.entries()}


def _value(name: str, text: str) -> Any:
    if name in TEXTS:
        return text
    if name == "warnings":
        return text.split("; ")
    if name == "converged":
        return text == "True"
    return int(text) if name in WHOLE else float(text)


def files(name: str) -> dict[Path, str]:
    """Return the content of every file that follows from the stored records, by path."""
    records, timings, manifest = read(name)
    story = story_of_spec(manifest["spec"], EXPERIMENTS[name].STORY)
    report = build_report(records, timings, manifest, story=story)
    folder = folder_of(name)
    found = {
        folder / "report.html": render_page(report),
        folder / "results.csv": results_csv(records, timings, manifest),
    }
    words = {
        "answers.md": [_answer_text(answer) for answer in report.answers],
        "summary.md": [_chapter_text(each) for each in report.chapters if each.anchor in ("summary", "cut-offs")],
        "published.md": [_chapter_text(each) for each in report.chapters if each.anchor == "published"],
    }
    found |= {folder / file: "\n\n".join(texts) + "\n" for file, texts in words.items() if texts}
    found |= {folder / "figures" / f"{figure.name}.svg": render_figure(figure) for figure in report.figures}
    found |= {folder / "figures" / f"{figure.name}.csv": figure_csv(figure) for figure in report.figures}
    if name == "field":
        results = group(records, timings, manifest, method_names=story.method_names)
        page, readme = ROOT / "docs" / "comparison.md", ROOT / "README.md"
        found[page] = replaced(page.read_text(encoding="utf-8"), "field", field_table(results))
        found[readme] = replaced(readme.read_text(encoding="utf-8"), "field", readme_table(results))
    return found


def _answer_text(answer: Answer) -> str:
    """Return an answer as Markdown."""
    lines = [f"**{answer.question}** {answer.verdict}.", *(f"- {sentence}" for sentence in answer.paragraphs)]
    return "\n\n".join([lines[0], "\n".join(lines[1:])])


def _chapter_text(chapter: Chapter) -> str:
    """Return the sentences and tables of a chapter as Markdown, without folded tables."""
    points = [f"- {point.text}" for points in chapter.lists for point in points.points]
    tables = [_markdown(list(each.head[:COLUMNS]), [row[:COLUMNS] for row in _cells(each)]) for each in chapter.tables]
    return "\n\n".join([*(["\n".join(points)] if points else []), *tables])


def _cells(table: Table) -> list[list[str]]:
    """Return the rows of a table; what is bold on the page is bold here."""
    rows = [row for section in table.sections for row in section.rows]
    return [[f"**{cell.text}**" if cell.strong and cell.text else cell.text for cell in row] for row in rows]


def replaced(text: str, mark: str, table: str) -> str:
    """Return a page with another table between its marks."""
    begin, end = MARKS.format(mark), MARKS.format(f"end of {mark}")
    if begin not in text or end not in text:
        raise ValueError(f"The page has no place for the table: write {begin} and {end}.")
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{table}\n{end}", text, flags=re.DOTALL)


def means(results: Results, conditions: Sequence[Condition]) -> dict[str, dict[str, float]]:
    """Return the mean of each score over all cases, by method; without the score, NaN. Methods need a finished run."""
    there = {row.method for row in results.runs}
    places = [results.conditions.index(each) for each in conditions]
    found: dict[str, dict[str, float]] = {method: {} for method in results.methods if method in there}
    for score in results.scores(FIELD_SCORES):
        cases = results.case_means(score)[:, places].reshape(-1, len(results.methods))
        for method, scores in found.items():
            values = cases[:, results.methods.index(method)]
            values = values[np.isfinite(values)]
            scores[score] = float(values.mean()) if values.size else float("nan")
    return found


def field_table(results: Results) -> str:
    """Return the table of all methods with results, as Markdown, sorted by what they know and by balanced accuracy."""
    found = means(results, results.conditions)
    scores = results.scores(FIELD_SCORES)
    head = ["Method", "Knows", *(SCORES[score].label for score in scores)]
    order = sorted(found, key=lambda each: (results.order_of(each), -found[each]["balanced_accuracy"]))
    lines = [
        [results.label(each), results.knows(each), *(_number(found[each].get(score)) for score in scores)]
        for each in order
    ]
    return _markdown(head, lines)


def named_conditions(results: Results, method: str) -> list[Condition]:
    """Return the conditions in which a method is told the names of propensity attributes."""
    return [each for each in results.conditions if results.level(method, each) == KNOWS.index("names")]


def readme_table(results: Results) -> str:
    """Return a short table of some methods in cases that have names; methods without results are left out."""
    found = means(results, named_conditions(results, "stack"))
    scores = ("balanced_accuracy", "auc_f", "mse_f")
    head = ["Method", "Balanced accuracy", "ROC-AUC", "Squared error"]
    lines = [
        [label, *(_number(found[name].get(score)) for score in scores)]
        for name, label in README_METHODS.items()
        if name in found
    ]
    return _markdown(head, lines)


def _number(value: float | None) -> str:
    return "" if value is None or not isfinite(value) else f"{value:.3f}".removeprefix("0")


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    rows = [f"| {' | '.join(row)} |" for row in (head, *lines)]
    return "\n".join([rows[0], "|---" * len(head) + "|", *rows[1:]])


def main() -> None:
    """Store or write, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("store", "write", "restore"))
    parser.add_argument("name", choices=[name for name in EXPERIMENTS if name != "bekker2019"])
    parser.add_argument("source", type=Path, nargs="?", help="folder of `scarless reproduce`, for store and restore")
    parser.add_argument("--without", nargs="+", default=[], metavar="METHOD", help="for restore: methods to run again")
    options = parser.parse_args()
    if options.what != "write" and options.source is None:
        parser.error(f"{options.what} needs a folder of `scarless reproduce`")
    if options.what == "restore":
        restore(options.name, options.source, options.without)
        print(f"Compute the missing runs: scarless reproduce {options.name} --out {options.source}")
        return
    if options.what == "store":
        store(options.name, options.source)
    for path, content in files(options.name).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
