"""The page of an experiment and its files: complete, self-contained, escaped and reproducible."""

import csv
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from scarless.report import (
    Answer,
    Chapter,
    Point,
    Points,
    Questions,
    Story,
    build_report,
    render_figure,
    render_page,
    render_report,
)
from scarless.report.tables import table

HOSTILE = '"><script>alert(1)</script>&{{ 7 * 7 }}'
VOID = {"meta", "link", "polyline", "circle", "br", "rect"}


class Outline(HTMLParser):
    """Parser that collects tags, attributes and text, and checks that tags are nested."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def outline(page):
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def folder(full, tmp_path_factory):
    folder = full.write(tmp_path_factory.mktemp("full"))
    assert render_report(folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def test_page_is_well_formed_with_unique_ids_and_links_that_lead_somewhere(page):
    read = outline(page)
    ids = [value for name, value in read.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    links = [value for name, value in read.attributes if name == "href" and value.startswith("#")]
    assert links
    assert {link[1:] for link in links} <= set(ids)


def test_page_is_self_contained(page):
    read = outline(page)
    assert not {"script", "img", "iframe", "object", "embed"} & set(read.tags)
    assert not [value for name, value in read.attributes if name == "src"]
    assert {value for name, value in read.attributes if name == "href" and not value.startswith("#")} == {"data:,"}
    assert not re.search(r"url\(|@import|https?://", page)


def test_page_has_its_parts_in_order(page):
    assert re.findall(r'<section id="(\w+)"', page) == ["figures", "ranks", "tables", "run"]
    assert re.findall(r'<li><a href="#(\w+)">', page) == ["figures", "ranks", "tables", "run"]


def test_the_texts_of_a_story_are_on_the_page(make):
    made = make(datasets=("adult",))
    asked = Questions("What we asked", "By rule.", lambda found: (Answer("Q?", f"{found.n_finished} runs", ("So.",)),))
    points = Points("Because", (Point("use `a < b` there", lead="Mind."), Point("plain")))
    chapter = Chapter("remarks", "Remarks", "What to mind", "A `note`.", (points,), (table("T", ("a",), [["x"]]),))
    story = Story(
        whose="Our experiment", ranked="Ranked are two.", contests={"two": ("naive", "sar-em")}, figures=("auc_f",),
        figures_title="One score", questions=asked, chapters=lambda _: (chapter,),
    )  # fmt: skip
    report = build_report(*made.everything, story=story)
    page = render_page(report)
    parts = ["answers", "figures", "ranks", "tables", "run", "remarks"]
    assert re.findall(r'<section id="(\w+)"', page) == re.findall(r'<li><a href="#(\w+)">', page) == parts
    for text in (
        "Our experiment, made-up, run with scarless", "<h2>What we asked</h2>\n<p>By rule.</p>", "<h3>Q?</h3>",
        '<p class="verdict">128 runs</p>\n<p>So.</p>', "<h2>One score</h2>",
        "which average ranks differ. Ranked are two.",
        "k = 2, two", '<a href="#remarks">Remarks</a>', "<h2>What to mind</h2>\n<p>A <code>note</code>.</p>",
        "<h3>Because</h3>", "<li><strong>Mind.</strong> use <code>a &lt; b</code> there</li>\n<li>plain</li>",
    ):  # fmt: skip
        assert text in page, text
    assert [figure.name for figure in report.score_figures] == ["auc_f-all", "auc_f-original"]
    outline(page)


def test_page_describes_the_run(page, full):
    for text in (full.spec.digest, "6,400 finished of 6,400, 0 failed", "scarless 0.1.0", "abacus, 2 cores", "27 min"):
        assert text in page
    assert 'class="notice"' not in page


def test_page_of_the_whole_experiment_is_small(page):
    assert len(page.encode()) < 3_000_000


def test_figures_are_files_of_valid_svg(folder):
    files = sorted((folder / "figures").glob("*.svg"))
    assert len(files) == 12
    for file in files:
        root = ElementTree.parse(file).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert float(root.get("width")) == 2 * 24 + 2 * 358 + 36


def test_every_figure_is_also_a_csv_file_with_the_numbers_that_it_shows(folder, full):
    figures = folder / "figures"
    assert {path.stem for path in figures.glob("*.csv")} == {path.stem for path in figures.glob("*.svg")}
    report = build_report(*full.everything)
    for figure in report.figures:
        with (figures / f"{figure.name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == sum(len(panel.dots) for panel in figure.panels)
    with (figures / "mse_f-all.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    values = [
        each["mse_f"]
        for each in full.records
        if all(each[name] == value for name, value in (("k", 2), ("setting", "all")))
        and (each["dataset"], each["method"]) == (first["dataset"], first["method"])
    ]
    assert float(first["mean"]) == pytest.approx(sum(values) / 25, rel=1e-5)
    with (figures / "ranks-mse_f-all.csv").open(newline="") as file:
        ranks = [row for row in csv.DictReader(file) if row["k"] == "2"]
    assert {row["method"]: float(row["average_rank"]) for row in ranks}["sar-em"] == 1.0
    assert "as a CSV file of the same name" in report.footer


def test_rendering_again_gives_the_same_bytes(make, tmp_path):
    made = make(datasets=("adult", "splice"))
    folder = made.write(tmp_path / "one")
    render_report(folder)
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    render_report(folder)
    assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    elsewhere = made.write(tmp_path / "other")
    lines = (elsewhere / "records.jsonl").read_text().splitlines(keepends=True)
    (elsewhere / "records.jsonl").write_text("".join(lines[::-1]))  # The order of the records must not matter.
    render_report(elsewhere)
    for name in ("report.html", "results.csv", "records.csv"):
        assert (elsewhere / name).read_bytes() == (folder / name).read_bytes()


def test_results_csv_by_hand(folder, full):
    with (folder / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 * 2 * 2 * 8
    row = next(r for r in rows if (r["dataset"], r["setting"], r["k"], r["method"]) == ("adult", "all", "4", "sar-em"))
    values = [
        r["mse_f"]
        for r in full.records
        if (r["dataset"], r["setting"], r["k"], r["method"]) == ("adult", "all", 4, "sar-em")
    ]
    assert (row["n_runs"], row["n_failed"], row["mean_seconds"]) == ("25", "0", "0.25")
    assert float(row["mse_f_mean"]) == pytest.approx(sum(values) / 25, rel=1e-5)
    assert 0 < float(row["mse_f_half_width"]) < 0.01
    supervised = next(r for r in rows if r["method"] == "supervised")
    assert supervised["mse_e_mean"] == supervised["mse_e_half_width"] == ""


def test_records_csv_has_a_line_per_run(folder, full):
    with (folder / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(full.records)
    first = full.records[0]
    row = next(r for r in rows if all(r[name] == str(first[name]) for name in ("dataset", "setting", "k", "method")))
    assert float(row["mse_f"]) == first["mse_f"]
    assert (row["seconds"], row["error"]) == ("0.25", "")


@pytest.fixture
def hostile(make):
    made = make(
        datasets=(HOSTILE, "adult", "splice"),
        title=HOSTILE,
        name=HOSTILE,
        methods=("naive", "scar-tice", "sar-em", HOSTILE),
        error=lambda d, s, k, m: {"naive": 0.2, "scar-tice": 0.1}.get(m, 0.05),
    )
    made.records[0] |= {"error": HOSTILE}
    made.records[5] |= {"warnings": [HOSTILE]}
    return made


def test_text_from_data_is_escaped(hostile):
    report = build_report(*hostile.everything)
    page = render_page(report)
    assert "script" not in outline(page).tags
    assert HOSTILE in "".join(outline(page).text)
    assert "49" not in re.findall(r"&amp;(\S+)", page)  # {{ 7 * 7 }} is not evaluated as a template
    for figure in (*report.score_figures, *report.rank_figures):
        root = ElementTree.fromstring(render_figure(figure))
        assert not [item for item in root.iter() if item.tag.endswith("script")]


def test_csv_files_quote_hostile_names(hostile, tmp_path):
    folder = hostile.write(tmp_path / "hostile")
    render_report(folder)
    for name in ("results.csv", "records.csv"):
        with (folder / name).open(newline="") as file:
            assert HOSTILE in {row["dataset"] for row in csv.DictReader(file)}
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["figures", "records.csv", "records.jsonl", "report.html", "results.csv", "spec.json", "timings.jsonl"]
    )


def test_failures_and_missing_datasets_are_on_the_page(make):
    made = make(datasets=("adult", "splice", "mushroom", "covtype"))
    made.records = [record for record in made.records if record["dataset"] not in ("mushroom", "covtype")]
    for record in made.records[:3]:
        record["error"] = "ValueError: the sky fell"
    made.records[5]["converged"] = False
    page = render_page(build_report(*made.everything))
    assert (
        "There are no results for Cover Type and Mushroom" in page
        or "There are no results for Mushroom and Cover Type" in page
    )
    assert "256 of 512 runs are finished" in page
    assert "3 runs failed and are left out of all means" in page
    assert "1 runs stopped before they converged" in page
    assert page.count("ValueError: the sky fell") == 1


def test_records_without_timings_are_reported(make):
    made = make(datasets=("adult",))
    page = render_page(build_report(made.records, [], made.manifest))
    assert "not recorded" in page


def test_one_dataset_one_method_one_run_makes_a_page(make):
    made = make(
        datasets=("adult",), methods=("naive",), settings=("original",), n_propensity_attributes=(1,), n_splits=1,
        n_labellings=1,
    )  # fmt: skip
    page = render_page(build_report(*made.everything))
    assert re.findall(r'<section id="(\w+)"', page) == ["figures", "tables", "run"]  # One method has no ranks.
    outline(page)


def test_only_failures_make_a_page(make):
    made = make(datasets=("adult",))
    made.records = [{**record, "error": "no"} for record in made.records]
    page = render_page(build_report(*made.everything))
    assert "128 runs failed" in page


def test_empty_folder_and_folder_without_runs_are_refused(make, tmp_path):
    with pytest.raises(
        ValueError,
        match=r"has no results: there is no spec.json. Run `scarless compare` or `scarless reproduce` first",
    ):
        render_report(tmp_path)
    made = make(datasets=("adult",))
    made.records = []
    with pytest.raises(ValueError, match="has no finished runs, so there is nothing to report"):
        render_report(made.write(tmp_path))
    assert not (tmp_path / "report.html").exists()


def test_without_jinja2_the_error_names_the_extra(make, monkeypatch):
    report = build_report(*make(datasets=("adult",)).everything)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'The report needs jinja2: pip install "scarless\[reproduce\]"'):
        render_page(report)
