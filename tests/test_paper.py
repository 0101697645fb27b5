"""The paper has the form of its journal, and every citation has an entry in the bibliography."""

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPER, BIBLIOGRAPHY = ((ROOT / "paper" / name).read_text(encoding="utf-8") for name in ("paper.md", "paper.bib"))
SECTIONS = ["Summary", "Statement of need", "State of the field", "Software design and method", "Results"]
SECTIONS += ["Research impact statement", "Limitations", "AI usage disclosure", "References"]
ENTRY = "@article{a2000,\n  author = {Ab, Cd},\n  title = {A title},\n  year = {2000}\n}\n"
SMALL = """---
title: "A & b"
authors:
  - name: Us
    affiliation: 1
affiliations:
  - name: Here
    index: 1
date: 1 May 2026
---
# Summary

By $a < b$ and @a2000 [@a2000; @b2001].

<!-- {{a number}} -->

$$x_1$$
"""
OTHER = (
    "@misc{b2001,\n  author = {Ef, Gh and Ij, Kl and Mn, Op},\n  title = {B},\n  year = {2001},\n  doi = {10.1/x}\n}\n"
)


@pytest.fixture(scope="module")
def build():
    pytest.importorskip("yaml")
    pytest.importorskip("markdown_it")
    spec = importlib.util.spec_from_file_location("build_paper", ROOT / "tools" / "build_paper.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Tags(HTMLParser):
    """Collects the elements of a page, and the elements that were never closed."""

    def __init__(self):
        super().__init__()
        self.seen, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_head_has_what_the_journal_needs(build):
    head, _ = build.read_paper(PAPER)
    assert set(head) == {"title", "tags", "authors", "affiliations", "date", "bibliography"}
    assert head["title"].startswith("scarless: ")
    assert (ROOT / "paper" / head["bibliography"]).exists()
    known = {place["index"] for place in head["affiliations"]}
    assert {author["affiliation"] for author in head["authors"]} <= known
    assert re.fullmatch(r"\d{1,2} [A-Z][a-z]+ 20\d\d", str(head["date"]))
    assert f'title: "{head["title"]}"' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_paper_has_all_sections_and_the_right_length(build):
    _, body = build.read_paper(PAPER)
    assert re.findall(r"^# (.+)$", body, flags=re.MULTILINE) == SECTIONS
    assert 750 <= len(build.COMMENT.sub("", body).split()) <= 1750


def test_every_citation_has_an_entry_and_every_entry_is_cited(build):
    _, body = build.read_paper(PAPER)
    entries = build.read_bibliography(BIBLIOGRAPHY)
    assert len(entries) == BIBLIOGRAPHY.count("\n@") + 1
    build.check_citations(body, entries)
    assert set(build.cited_keys(body)) == set(entries)
    assert all({"author", "title", "year"} <= set(entry) for entry in entries.values())


def test_a_citation_without_an_entry_is_refused(build):
    with pytest.raises(ValueError, match=r"cites b2001, but the bibliography has no such entry\. Add it\."):
        build.page(SMALL, build.read_bibliography(ENTRY))


def test_an_entry_that_is_not_cited_is_refused(build):
    both = build.read_bibliography(ENTRY + "\n" + OTHER)
    with pytest.raises(ValueError, match=r"has b2001, but the paper does not cite it\. Remove the entry\."):
        build.page(SMALL.replace("; @b2001", ""), both)


def test_a_paper_without_a_head_is_refused(build):
    with pytest.raises(ValueError, match="must begin with a head between two lines of three dashes"):
        build.read_paper("# Summary\n")


def test_citations_and_formulas_become_text_and_commands_of_mathjax(build):
    made = build.page(SMALL, build.read_bibliography(ENTRY + "\n" + OTHER))
    assert r"<p>By \(a &lt; b\) and Ab (2000) (Ab, 2000; Ef et al., 2001).</p>" in made
    assert r"\[x_1\]" in made
    assert "<h1>A &amp; b</h1>" in made
    assert "<p>Cd Ab (2000). A title.</p>" in made
    assert '<p>Gh Ef, Kl Ij, Op Mn (2001). B. <a href="https://doi.org/10.1/x">https://doi.org/10.1/x</a></p>' in made
    assert "a number" not in made


def test_the_page_of_the_paper_is_well_formed_and_needs_no_other_file(build):
    made, tags = build.page(PAPER, build.read_bibliography(BIBLIOGRAPHY)), Tags()
    tags.feed(made)
    assert tags.open == []
    assert {"h1", "h2", "table", "li", "a"} <= set(tags.seen)
    assert not {"img", "link", "iframe"} & set(tags.seen)
    assert not re.search(r"@\w+\d{4}|FORMULA\d|\{\{|<script src", made)


def test_without_mathjax_the_message_says_what_to_run(build, monkeypatch):
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="The paper needs MathJax: run make paper, or pip install"):
        build.mathjax_script()
