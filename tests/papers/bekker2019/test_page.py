"""The page of the paper's experiment: its parts, and the committed page, which follows from the committed records."""

import csv
import gzip
import re
from dataclasses import asdict
from pathlib import Path

import pytest
import scipy

from scarless.papers.bekker2019 import STORY, specification
from scarless.report import build_report, render_figure, render_page
from scarless.report.page import figure_csv

RESULTS = Path(__file__).parents[3] / "papers" / "bekker2019"
KEY = ("dataset", "setting", "k", "split", "labelling", "method")
WHOLE = {"k", "split", "labelling", "n_iter", "peak_mb"}
TEXTS = {"dataset", "setting", "method"}


def test_page_has_all_parts_in_order_and_cites_the_paper(full):
    page = render_page(build_report(*full.everything, story=STORY))
    parts = ["answers", "figures", "ranks", "tables", "run", "corrections", "deviations"]
    assert re.findall(r'<section id="(\w+)"', page) == re.findall(r'<li><a href="#(\w+)">', page) == parts
    for text in (
        "The experiment of the paper, bekker2019, run with scarless", "Answers to the paper&#39;s questions",
        "The paper&#39;s figures", "as corrected and as published.", "What the corrections change",
        "Jessa Bekker, Pieter Robberechts and Jesse Davis",
        "Differences from the paper", "k = 2, corrected", "k = 4, as published", "publ. SAR-EM",
    ):  # fmt: skip
        assert text in page, text
    assert len(page.encode()) < 3_000_000


def test_rank_panels_use_the_short_names_of_published_methods(full):
    figure = build_report(*full.everything, story=STORY).rank_figures[0]
    assert [panel.title for panel in figure.panels] == [
        "k = 2, corrected", "k = 4, corrected", "k = 2, as published", "k = 4, as published",
    ]  # fmt: skip
    named = [{text.text.rpartition(" ")[0] for text in panel.texts if text.kind == "label"} for panel in figure.panels]
    assert named == [{"naive", "SCAR-KM2", "SCAR-TIcE", "SAR-EM"}] * 4


def test_with_one_method_the_questions_are_not_answered(make):
    made = make(datasets=("adult",), methods=("naive",), settings=("original",), n_propensity_attributes=(1,))
    assert render_page(build_report(*made.everything, story=STORY)).count("Cannot be answered") == 3


def value(name, text):
    """Read a field of the committed records as the run wrote it."""
    if name in TEXTS:
        return text
    if name == "warnings":
        return text.split("; ")
    if name == "converged":
        return text == "True"
    return int(text) if name in WHOLE else float(text)


def committed():
    """Return records, timings and manifest of the committed run; versions and machine from its page."""
    page = (RESULTS / "report.html").read_text(encoding="utf-8")
    where = {name: re.findall(f"<dt>{name}</dt><dd>(.*)</dd>", page)[0] for name in ("versions", "machine")}
    with gzip.open(RESULTS / "records.csv.gz", "rt", newline="") as file:
        rows = [{name: value(name, text) for name, text in row.items() if text} for row in csv.DictReader(file)]
    timed = (*KEY, "seconds", "peak_mb")
    timings = [{**{name: row[name] for name in timed}, **where} for row in rows]
    records = [{name: found for name, found in row.items() if name not in ("seconds", "peak_mb")} for row in rows]
    spec = specification()
    return records, timings, {"name": spec.name, "digest": spec.digest, "spec": asdict(spec)}


@pytest.fixture(scope="module")
def again():
    return build_report(*committed(), story=STORY)


@pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 15), reason="old SciPy rounds a p-value anew"
)
def test_the_committed_page_is_what_the_committed_records_give(again):
    assert render_page(again) == (RESULTS / "report.html").read_text(encoding="utf-8")


def test_the_committed_figures_are_what_the_committed_records_give(again):
    figures = {f"{figure.name}.svg": render_figure(figure) for figure in again.figures}
    figures |= {f"{figure.name}.csv": figure_csv(figure) for figure in again.figures}
    assert figures == {path.name: path.read_text(encoding="utf-8") for path in (RESULTS / "figures").iterdir()}
