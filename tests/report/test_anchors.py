"""Files of published numbers: every error, and the chapter that compares them with ours."""

import pytest
from tests.helpers import cells_of

from scarless.report import Story, build_report, read_anchors, render_page
from scarless.report.anchors import anchors_chapter, check_anchors, compare_anchors
from scarless.report.results import Condition, group
from scarless.report.story import story_of_spec

SOURCES = {"a2025": "A. Author (2025), table 6"}
ONE = {
    "method": "naive", "table": "adult", "mechanism": "S1", "metric": "balanced_accuracy", "value": 0.7,
    "source": "a2025",
}  # fmt: skip
GRID = {
    "method": "sar-em", "mechanism": ["S1", "S2"], "metric": "balanced_accuracy", "source": "a2025",
    "values": {"adult": [0.8, 0.82], "splice": 0.9},
}  # fmt: skip
FILE = """
tolerance = 0.01

[source]
a2025 = "A. Author (2025), table 6"

[[anchor]]
method = "naive"
table = "adult"
mechanism = "S1"
metric = "balanced_accuracy"
value = 0.7
source = "a2025"

[[anchor]]
method = "sar-em"
mechanism = ["S1", "S2"]
metric = "balanced_accuracy"
source = "a2025"
tolerance = 0.02
values = { adult = [0.8, 0.82], splice = 0.9 }
"""


def whole(*anchors, **changes):
    return {"source": SOURCES, "anchor": list(anchors), **changes}


def without(name):
    return {key: value for key, value in ONE.items() if key != name}


def test_a_file_has_single_numbers_and_grids(tmp_path):
    path = tmp_path / "numbers.toml"
    path.write_text(FILE)
    found = read_anchors(path)
    assert [(each.method, each.dataset, each.condition.setting, each.value, each.tolerance) for each in found] == [
        ("naive", "adult", "S1", 0.7, 0.01),
        ("sar-em", "adult", "S1", 0.8, 0.02),
        ("sar-em", "adult", "S2", 0.82, 0.02),
        ("sar-em", "splice", "S1", 0.9, 0.02),  # One number holds for all mechanisms.
        ("sar-em", "splice", "S2", 0.9, 0.02),
    ]
    assert {each.source for each in found} == {"A. Author (2025), table 6"}
    assert found == check_anchors(whole(ONE, {**GRID, "tolerance": 0.02}, tolerance=0.01), "here")


def test_a_condition_may_have_added_attributes():
    (found,) = check_anchors(whole({**ONE, "mechanism": "all", "k": 4}), "here")
    assert found.condition == Condition("all", 4)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], r"here must be a table; it is \[\]"),
        (whole(ONE, sources={}), r"here has an unknown entry sources. Did you mean 'source'\?"),
        (whole(ONE, colour=1), r"unknown entry colour. The known entries are source, tolerance, anchor"),
        (whole(), r"here has no published number. Add at least one table \[\[anchor\]\]"),
        ({"source": SOURCES, "anchor": {}}, r"here has no published number"),
        (whole(ONE, source={"a2025": 7}), r"here: \[source\] must be a table of texts, such as a2025"),
        (whole(ONE, source={"a2025": " "}), r"\[source\] must be a table of texts"),
        (whole(ONE, tolerance=0), r"here: tolerance must be a number above 0; it is 0"),
        (whole({**ONE, "tolerance": "x"}), r"here, anchor 1: tolerance must be a number above 0; it is 'x'"),
        (whole(7), r"here, anchor 1 must be a table; it is 7"),
        (whole(ONE, {**ONE, "tabel": "x"}), r"here, anchor 2 has an unknown entry tabel. Did you mean 'table'\?"),
        (whole(without("value")), r"anchor 1 lacks value. Add what is missing"),
        (whole({"method": "naive"}), r"anchor 1 lacks mechanism, metric, source, table and value"),
        (whole({**GRID, "value": 1.0}), r"anchor 1 has values and also value. Write one number, or a grid"),
        (whole({**ONE, "method": 3}), r"anchor 1: method must be a text; it is 3"),
        (whole({**ONE, "table": ""}), r"anchor 1: table must be a text; it is ''"),
        (whole({**ONE, "metric": "auc"}), r"there is no score 'auc'. Did you mean 'auc_f'\?"),
        (whole({**ONE, "metric": "zzz"}), r"there is no score 'zzz'. The scores are mse_f, "),
        (whole({**ONE, "source": "a2026"}), r"there is no source 'a2026'. Did you mean 'a2025'\?"),
        (whole({**ONE, "source": "zzz"}), r"there is no source 'zzz'. Add its text to the table \[source\]"),
        (whole({**ONE, "mechanism": 1}), r"mechanism must be a name, or a list of different names; it is 1"),
        (whole({**GRID, "mechanism": ["S1", "S1"]}), r"a list of different names; it is \['S1', 'S1'\]"),
        (whole({**GRID, "mechanism": []}), r"a list of different names; it is \[\]"),
        (whole({**ONE, "k": -1}), r"k must be a whole number of at least 0; it is -1"),
        (whole({**ONE, "k": True}), r"k must be a whole number of at least 0; it is True"),
        (whole({**GRID, "values": {}}), r"values must be a table with the numbers of each dataset; it is \{\}"),
        (whole({**GRID, "values": {"adult": [0.1]}}), r"anchor 1, adult has 1 numbers, but there are 2 mechanisms"),
        (whole({**ONE, "value": "x"}), r"anchor 1, adult: a published number must be a finite number; it is 'x'"),
        (whole({**ONE, "value": float("nan")}), r"a published number must be a finite number; it is nan"),
        (whole({**ONE, "value": True}), r"a published number must be a finite number; it is True"),
        (whole(ONE, ONE), r"here has balanced_accuracy of naive on adult in S1 twice from one source. Remove one"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "table",
)
def test_wrong_entries_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        check_anchors(table, "here")


def test_two_sources_may_have_the_same_number():
    table = whole(ONE, {**ONE, "source": "b"}, source={**SOURCES, "b": "B"})
    assert [each.source for each in check_anchors(table, "here")] == ["A. Author (2025), table 6", "B"]


def test_files_that_cannot_be_read_are_refused(tmp_path):
    path = tmp_path / "numbers.toml"
    with pytest.raises(
        ValueError, match=r"numbers.toml does not exist. Correct the entry anchors of the specification"
    ):
        read_anchors(path)
    path.write_text("[[anchor")
    with pytest.raises(ValueError, match=r"numbers.toml is not valid TOML: "):
        read_anchors(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"numbers.toml is not UTF-8 text: "):
        read_anchors(path)


@pytest.fixture
def made(told):
    """Return results: naive 0.705 everywhere, sar-em 0.81 on adult and 0.93 on splice."""

    def scores(dataset, setting, method, run):
        return {"balanced_accuracy": 0.705 if method == "naive" else {"adult": 0.81, "splice": 0.93}[dataset]}

    return told(scores, datasets=("adult", "splice"), mechanisms=("S1", "S2"), methods=("naive", "sar-em"))


def test_the_chapter_has_ours_published_differences_and_verdicts(made):
    results = group(*made.everything)
    chapter = anchors_chapter(results, check_anchors(whole(ONE, GRID, tolerance=0.01), "here"))
    (table,) = chapter.tables
    assert [section.heading for section in table.sections] == ["A. Author (2025), table 6"]
    assert cells_of(table) == [
        ["naive", "balanced accuracy", "within 0.01", "1", "0.005", "+0.005", "Adult, S1"],
        ["SAR-EM", "balanced accuracy", "not within 0.01: 2 of 4", "4", "0.020", "+0.030", "Splice, S1"],
    ]
    bold = [[cell.text for cell in row if cell.strong] for row in table.sections[0].rows]
    assert bold == [[], ["not within 0.01: 2 of 4", "+0.030"]]
    (_, naive), (title, sar_em) = chapter.details
    assert title == "SAR-EM, balanced accuracy: all numbers"
    assert cells_of(naive) == [["Adult", "S1", "0.705 ± 0.000", "0.7", "+0.005"]]
    assert [row[3] for row in cells_of(sar_em)] == ["0.80", "0.82", "0.90", "0.90"]
    assert [row[4] for row in cells_of(sar_em)] == ["+0.010", "−0.010", "+0.030", "+0.030"]
    assert [row[4].strong for row in sar_em.sections[0].rows] == [False, False, True, True]
    assert [point.text for point in chapter.lists[0].points] == [
        "Within the tolerance: naive.",
        "Not within the tolerance: SAR-EM.",
    ]


def test_a_difference_of_exactly_the_tolerance_is_within_it(made):
    results = group(*made.everything)
    (found,) = compare_anchors(results, check_anchors(whole({**ONE, "value": 0.695}, tolerance=0.01), "here"))
    assert found.difference == pytest.approx(0.01)
    assert found.within


def test_without_a_tolerance_there_is_no_verdict(made):
    chapter = anchors_chapter(group(*made.everything), check_anchors(whole(ONE), "here"))
    assert cells_of(chapter.tables[0])[0][2] == "no tolerance given"
    assert chapter.lists == ()


def test_several_tolerances_of_one_method_are_not_named(made):
    other = {**ONE, "mechanism": "S2", "tolerance": 0.02}
    chapter = anchors_chapter(group(*made.everything), check_anchors(whole(ONE, other, tolerance=0.01), "here"))
    assert cells_of(chapter.tables[0])[0][2] == "within the tolerances"


def test_numbers_without_results_are_counted_and_named(made):
    made.records = [each for each in made.records if (each["dataset"], each["setting"]) != ("splice", "S2")]
    other = {**ONE, "method": "lbe", "table": "moon", "mechanism": "S9", "source": "b"}
    table = whole(ONE, GRID, other, tolerance=0.05, source={**SOURCES, "b": "B. Author"})
    chapter = anchors_chapter(group(*made.everything), check_anchors(table, "here"))
    assert cells_of(chapter.tables[0])[1][2] == "within 0.05, so far (3 of 4 numbers)"
    points, sources = ([point.text for point in each.points] for each in chapter.lists)
    assert points == [
        "Within the tolerance so far, because some numbers have no results yet: naive and SAR-EM.",
        "2 of 6 published numbers have no result here and are not compared. The experiment has no results for the "
        "methods lbe; the datasets moon; the conditions S9.",
    ]
    assert sources == ["B. Author"]


def test_a_verdict_before_all_runs_have_ended_is_a_verdict_so_far(made):
    anchors = check_anchors(whole(ONE, GRID, tolerance=0.01), "here")
    made.fail(split=1)  # A failed run has ended.
    chapter = anchors_chapter(group(*made.everything), anchors)
    assert [row[2] for row in cells_of(chapter.tables[0])] == ["within 0.01", "not within 0.01: 2 of 4"]
    made.records = [each for each in made.records if each["split"] == 0]
    chapter = anchors_chapter(group(*made.everything), anchors)
    assert [row[2] for row in cells_of(chapter.tables[0])] == [
        "within 0.01, so far (some runs are missing)",
        "not within 0.01: 2 of 4, so far (some runs are missing)",
    ]
    assert [point.text for point in chapter.lists[0].points] == [
        "Within the tolerance so far, because some runs are missing: naive.",
        "Not within the tolerance so far, because some runs are missing: SAR-EM.",
    ]


def test_a_chapter_without_any_result_has_no_table(made):
    chapter = anchors_chapter(group(*made.everything), check_anchors(whole({**ONE, "table": "moon"}), "here"))
    assert (chapter.tables, chapter.details) == ((), ())


@pytest.mark.parametrize("way", ["relative path", "absolute path", "content"])
def test_a_specification_may_name_the_file_or_have_its_content(made, tmp_path, way):
    (tmp_path / "numbers.toml").write_text(FILE)
    given = {"relative path": "numbers.toml", "absolute path": str(tmp_path / "numbers.toml"), "content": whole(ONE)}
    spec = {**made.spec, "anchors": given[way], "folder": str(tmp_path) if way == "relative path" else ""}
    story = story_of_spec(spec, Story())
    page = render_page(build_report(*made.everything, story=story))
    assert "<h2>Published numbers beside ours</h2>" in page
    assert '<a href="#published">Published numbers</a>' in page
    assert "A. Author (2025), table 6" in page


def test_the_texts_of_the_file_are_escaped(made):
    hostile = "<script>alert(1)</script>"
    story = Story(anchors=check_anchors(whole(ONE, {**ONE, "method": hostile}, source={"a2025": hostile}), "here"))
    page = render_page(build_report(*made.everything, story=story))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
