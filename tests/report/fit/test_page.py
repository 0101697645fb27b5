"""The page of a fit: valid, self-contained, escaped and accessible; numbers and drawings."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.report.fit.conftest import KINDS

import scarless.report.fit
from scarless import SCARClassifier, TableClassifier
from scarless.report import model_report
from scarless.report.fit.data import Effect, Effects, FitAnswer, IntervalEstimate, Picture
from scarless.report.fit.page import NAME_WIDTH, RIGHT, answer_bar, draw, forest, short

HOSTILE = (
    '"><script>alert(1)</script>',
    "'onmouseover='alert(1)",
    "]]><!-- </title></style></svg>",
    "&lt;{{ 7 * 7 }}{% raw %}",
    "\u202eright to left\u2066",
    "W" * 300,
    "javascript:alert(1)",
)
TEMPLATES = Path(scarless.report.fit.__file__).parent / "templates"
VOID = {"input", "meta", "link", "polyline", "polygon", "circle", "rect", "line", "br"}


class Outline(HTMLParser):
    """Parser that collects tags, attributes and text, and checks that tags are nested."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["script"]:
            self.text.append(data)


def outline(page):
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def own_scripts(found, page):
    """Return whether the only scripts of a page are the data of its rows and the script that comes with the package."""
    scripts = [attributes for tag, attributes in found.attributes if tag == "script"]
    (code,) = re.findall(r"<script>\n(.*?)\n\n?</script>", page, re.DOTALL)
    ours = (TEMPLATES / "fit.js").read_text(encoding="utf-8")
    return scripts == [{"type": "application/json", "id": "row-data"}, {}] and code.strip() == ours.strip()


@pytest.fixture(scope="module")
def hostile():
    """Return the report of a table in which every name, value and id is hostile."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.normal(size=500) for name in HOSTILE[:5]})
    X[HOSTILE[5]] = rng.choice(HOSTILE, 500)
    X[HOSTILE[6]] = rng.choice(HOSTILE[:2], 500)
    s = (rng.random(500) < 0.5 / (1 + np.exp(-X[HOSTILE[0]] - 2 * (X[HOSTILE[5]] == HOSTILE[5])))).astype(int)
    model = TableClassifier(SCARClassifier(0.6)).fit(X, s)
    names = [f"{HOSTILE[i % len(HOSTILE)]}{i}" for i in range(500)]
    run = {"file": HOSTILE[0], HOSTILE[0]: HOSTILE[1], "command": HOSTILE[2], "title": HOSTILE[3]}
    return model_report(model, X, s, row_names=names, run={**run, "warnings": list(HOSTILE)})


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_valid_and_self_contained(kind, reported):
    page = reported(kind).to_html()
    found = outline(page)
    assert own_scripts(found, page)
    links = [value for _, attributes in found.attributes for name, value in attributes.items() if name in LINKS]
    assert all(link == "data:," or link.startswith("#") for link in links)
    assert not re.search(r"url\(|@import|https?:(?!//www\.w3\.org)|fetch\(|XMLHttp|import\(|eval\(|innerHTML", page)
    assert "nan" not in " ".join(found.text).lower().split()
    assert not re.search(r"(?<!=)(?<!, )None", page)  # except in the call that creates the model


LINKS = {"href", "src", "srcset", "action", "data", "xlink:href"}


@pytest.mark.parametrize("kind", ["SAREMClassifier", "SARStackingClassifier", "NaiveClassifier"])
def test_pages_are_accessible(kind, reported):
    found = outline(reported(kind).to_html())
    headings = [int(tag[1]) for tag in found.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    assert found.tags.count("caption") == found.tags.count("table") > 0
    assert all("scope" in attributes for tag, attributes in found.attributes if tag == "th")
    drawings = [attributes for tag, attributes in found.attributes if tag == "svg"]
    ids = [attributes["id"] for _, attributes in found.attributes if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in drawings:
        assert attributes["role"] == "img"
        assert set(attributes["aria-labelledby"].split()) <= set(ids)
    assert found.tags.count("desc") == len(drawings)
    targets = [attributes["href"][1:] for tag, attributes in found.attributes if tag == "a"]
    assert set(targets) <= set(ids)
    regions = [attributes for _, attributes in found.attributes if attributes.get("class", "").startswith("scroll")]
    assert all(attributes["tabindex"] == "0" and attributes["aria-label"] for attributes in regions)


def test_the_order_of_the_sections(reported):
    found = outline(reported("SAREMClassifier").to_html())
    sections = [attributes["id"] for tag, attributes in found.attributes if tag == "section"]
    assert sections == ["answer", "rows", "overlooked", "drivers", "belief", "columns", "run"]


def test_hostile_names_values_and_ids_never_become_markup(hostile):
    page = hostile.to_html()
    found = outline(page)
    assert own_scripts(found, page)
    assert not any(name.startswith("on") for _, attributes in found.attributes for name in attributes)
    assert page.count("<script") == page.count("</script") == 2
    assert "49" not in [word for text in found.text for word in text.split() if word == "49"]
    assert "\u202e" not in page
    assert "\u2066" not in page
    shown = "".join(found.text)
    for name in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[3], HOSTILE[6]):
        assert name in shown
    assert "\N{REPLACEMENT CHARACTER}right to left" in shown


def test_hostile_names_are_in_the_data(hostile):
    assert {column.name for column in hostile.columns} >= {HOSTILE[0], HOSTILE[1], "W" * 300}
    assert any(reason.value.startswith("WWW") for row in hostile.ranked.rows for reason in row.reasons)
    assert hostile.ranked.rows[0].name


def test_a_surrogate_can_be_written(small, tmp_path):
    model, X, s = small
    report = model_report(model, X, s, n_ranked=2, row_names=[f"\ud800{i}\x00" for i in range(700)])
    for name in ("a.html", "a.json"):
        assert "\N{REPLACEMENT CHARACTER}" in report.save(tmp_path / name).read_text(encoding="utf-8")


def test_numbers_are_rounded(reported):
    page = reported("SAREMClassifier").to_html()
    assert re.search(
        r"of 900 rows have a label\. We estimate that about \d+ rows \(\d+%; 95% interval \d+ to \d+%\) are positive",
        page,
    )
    text = " ".join(outline(page).text)
    assert not re.search(r"\d\.\d{6,}", text.replace(">1,000,000", ""))


def test_long_lists_are_collapsed(reported, small):
    page = reported("SAREMClassifier").to_html()
    assert "The first 20 of" in page
    assert "Show the next 10" in page


# --- drawings


def answer(known, value, low=None, high=None):
    share = IntervalEstimate(value, low, high)
    nothing = IntervalEstimate(None)
    return FitAnswer(1000, 1000.0, 1000 * known, share, nothing, nothing, nothing, (), "", ())


def test_the_bar_has_the_parts_of_all_rows():
    bar = answer_bar(answer(0.1, 0.3, 0.2, 0.5))
    assert [(part.kind, part.start, part.length) for part in bar.parts] == [
        ("labelled", 0.0, 10.0), ("missing", 10.0, 20.0), ("rest", 30.0, 70.0),
    ]  # fmt: skip
    assert bar.interval == (20.0, 50.0)
    assert (
        bar.description
        == "10% of all rows have a label; an estimated 30% are positive, with a confidence interval from 20% to 50%."
    )


def test_the_axis_of_the_bar_is_shorter_for_few_positives():
    bar = answer_bar(answer(0.001, 0.004, 0.003, 0.006))
    assert bar.end == 0.01
    assert [part.length for part in bar.parts] == pytest.approx([10.0, 30.0, 60.0])
    assert bar.ticks[-1] == (100.0, "1%")
    nothing = answer_bar(answer(0.2, None))
    assert nothing.interval is None
    assert [part.length for part in nothing.parts] == pytest.approx([40.0, 0.0, 60.0])


def effects(*ratios):
    made = [
        Effect(f"c{i}", "", 0.0, IntervalEstimate(None), IntervalEstimate(*each), None) for i, each in enumerate(ratios)
    ]
    return Effects("class", "", "", tuple(made), (), ())


def test_a_forest_plot_has_a_logarithmic_axis_and_arrows_beyond_its_ends():
    drawing = forest(effects((2.0, 1.5, 2.6), (0.5, 0.4, 0.7), (1.1, 1e-9, 1e9)))
    centre = (NAME_WIDTH + 8 + RIGHT) / 2
    assert drawing.dots[0].x - centre == pytest.approx(centre - drawing.dots[1].x)
    assert len(drawing.areas) == 2  # Both ends of the last interval are beyond the axis.
    bars = [line for line in drawing.lines if line.kind == "interval k1"]
    assert [point[0] for point in bars[2].points] == pytest.approx([NAME_WIDTH + 8, RIGHT])
    assert all(NAME_WIDTH <= x <= RIGHT for line in bars for x, _ in line.points)


def test_a_forest_plot_of_very_large_ratios_stays_in_its_frame():
    drawing = forest(effects((1e200, None, None), (1e-200, 1e-300, None), (1.0, None, None)))
    assert all(NAME_WIDTH <= dot.x <= RIGHT for dot in drawing.dots)
    assert len(drawing.areas) == 2


def test_long_names_are_shortened():
    assert short("W" * 300).endswith("W…")
    assert len(short("W" * 300)) < 16
    assert len(short("漢" * 300)) < 16
    assert short("age") == "age"


@pytest.mark.parametrize("kind", ["profile", "calibration", "sensitivity"])
def test_curves_with_one_point_are_drawn(kind):
    drawing = draw(Picture(kind, "t", "d", "x", "y", (0.5,), (0.5,), (0.5,), (0.5,)))
    assert drawing.height > 100
    assert all(0 <= x <= drawing.width for line in drawing.lines for x, _ in line.points)


def test_effects_and_reasons_of_free_text_are_words(narrated):
    (part,) = [each for each in narrated.effects if each.key == "class"]
    labels = [effect.label for effect in part.effects]
    assert len(set(labels)) == len(labels)
    strongest = part.effects[0]
    assert strongest.label.startswith("remarks: '")
    assert re.search("'engine'|'ingested'", strongest.label)
    more, _, less = strongest.piece.partition(" rather than ")
    assert (strongest.per_sd.value > 1) == bool(re.search("'engine'|'ingested'", more))
    assert bool(re.search("'bird'|'small'|'wing'|'amp'", more if strongest.per_sd.value < 1 else less))
    assert (strongest.per_unit.value, strongest.sd) == (None, None)  # a direction has no unit
    reasons = {reason.value for row in narrated.ranked.rows for reason in row.reasons if reason.column == "remarks"}
    assert reasons
    assert all(re.search("'engine'|'ingested'", value) for value in reasons)
    assert any("Of long texts" in note for note in narrated.ranked.notes)


def test_words_of_free_text_are_on_the_page_and_escaped(narrated):
    page = narrated.to_html()
    assert "remarks: &#39;" in page
    assert "<b>ingested" not in page
    assert "words 1<" not in page


def test_forest_labels_distinguish_the_categories_of_a_long_column_name(narrated):
    (part,) = [each for each in narrated.effects if each.key == "labelling"]
    names = [each.text for each in forest(part).texts if each.text.startswith("region")]
    assert len(names) == 3
    assert len(set(names)) == 3
