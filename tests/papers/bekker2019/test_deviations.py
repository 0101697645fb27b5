"""Differences from the paper: one document, which the page shows completely, with evidence that exists."""

import re
from itertools import chain
from pathlib import Path

import scarless
from scarless.papers.bekker2019 import METHODS, STORY, story
from scarless.papers.bekker2019.story import deviations, read_chapter
from scarless.report import build_report, render_page

DOCUMENT = Path(story.__file__).with_name("DEVIATIONS.md")
ROOT = Path(__file__).parents[3]


def words(text):
    return re.sub(r"[*`#-]", " ", text).split()


def entries(chapter):
    return list(chain.from_iterable(part.points for part in chapter.lists))


def test_the_chapter_has_all_words_of_the_document():
    chapter = deviations()
    told = [chapter.title, chapter.note]
    for part in chapter.lists:
        told += [part.title, *chain.from_iterable((point.lead, point.text) for point in part.points)]
    assert words(" ".join(told)) == words(DOCUMENT.read_text(encoding="utf-8"))
    assert [len(part.points) for part in chapter.lists] == [9, 5, 5]


def test_every_deviation_has_a_lead_and_a_text_without_markup():
    for point in entries(deviations()):
        assert point.lead.endswith(".")
        assert point.text.endswith(".")
        assert point.text.count("`") % 2 == point.lead.count("`") % 2 == 0
        assert not re.search(r"\*|\]\(|<", point.text + point.lead)


def test_the_document_is_on_the_page(make):
    page = render_page(build_report(*make(datasets=("adult",)).everything, story=STORY))
    section = page[page.index('<section id="deviations">') :]
    assert section.count("<li><strong>") == len(entries(deviations())) == 19
    for point in entries(deviations()):
        shown = point.lead.replace("'", "&#39;")
        assert re.sub("`(.*?)`", r"<code>\1</code>", shown) in section


def test_the_evidence_exists():
    text = DOCUMENT.read_text(encoding="utf-8")
    files = re.findall(r"`(tests/\S+)`", text)
    assert len(files) == 4
    assert [name for name in files if not (ROOT / name).exists()] == []
    parts = re.findall(r"`python -m benchmarks.core (\w+)`", text)
    assert parts == ["known_propensity", "refit"]
    benchmark = (ROOT / "benchmarks" / "core.py").read_text(encoding="utf-8")
    assert all(f"def {part}(" in benchmark for part in parts)
    assert set(re.findall(r"`(published-\w[\w-]*)`", text)) == set(METHODS)


def test_the_deviations_are_written_only_once():
    """Other files of the repository link to the document and do not repeat it."""
    lead = entries(deviations())[0].lead
    package = Path(scarless.__file__).parent
    places = [*package.rglob("*.py"), *package.rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("papers/**/*.md")]
    assert [path.name for path in places if lead in path.read_text(encoding="utf-8")] == ["DEVIATIONS.md"]


def test_continuation_lines_belong_to_their_point():
    chapter = read_chapter("# T\n\nN.\n\n## A\n\n- **x - y.** one\n  two.\n- **z.** three.\n\n## B\n\n- **u.** v.\n")
    assert [(part.title, len(part.points)) for part in chapter.lists] == [("A", 2), ("B", 1)]
    assert (chapter.lists[0].points[0].lead, chapter.lists[0].points[0].text) == ("x - y.", "one two.")
