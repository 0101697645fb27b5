"""Make an HTML page of the paper, paper/paper.md, which has the form of the Journal of Open Source Software.

``make paper`` runs this script. It needs markdown-it-py, PyYAML and the copy of MathJax in the package
sphinx-mathjax-offline, all of which the extra "docs" installs, and no network. The page is a single file.
"""

import html
import importlib.util
import re
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt

PAPER = Path(__file__).parents[1] / "paper" / "paper.md"
PAGE = PAPER.parent / "build" / "paper.html"
HEAD = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
CODE = re.compile(r"`[^`]*`")
FORMULA = re.compile(r"\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$\n]+)\$", re.DOTALL)
CITATION = re.compile(r"\[(?P<several>@[^\]]+)\]|(?<![\w@`])@(?P<one>\w+)")
ENTRY = re.compile(r"^@(\w+)\{(\w+),\n(.*?)^\}", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^  (\w+) = \{(.*?)\},?$", re.DOTALL | re.MULTILINE)
STYLE = """
body { font: 17px/1.55 Georgia, serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; color: #1b1b1b; }
h1 { font-size: 1.9rem; line-height: 1.2; } h2 { font-size: 1.3rem; margin-top: 2rem; }
.by { color: #555; } table { border-collapse: collapse; margin: 1rem 0; font-size: .93em; }
th, td { border-bottom: 1px solid #ccc; padding: .25rem .8rem; text-align: left; } code { font-size: .88em; }
.references p { padding-left: 1.5rem; text-indent: -1.5rem; overflow-wrap: anywhere; }
"""


def read_paper(text: str) -> tuple[dict[str, Any], str]:
    """Return the head of the paper, as a mapping, and its body."""
    found = HEAD.match(text)
    if found is None:
        raise ValueError("The paper must begin with a head between two lines of three dashes.")
    return yaml.safe_load(found[1]), text[found.end() :]


def read_bibliography(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of each entry, by key.

    Entries have one field on each line, in braces and indented by two spaces, as in paper/paper.bib.
    """
    return {
        key: {name: " ".join(value.split()) for name, value in FIELD.findall(fields)}
        for _, key, fields in ENTRY.findall(text)
    }


def cited_keys(body: str) -> list[str]:
    """Return the keys that a text cites, in the order in which they first occur."""
    found = CITATION.findall(CODE.sub("", COMMENT.sub("", body)))
    keys = [key.strip().lstrip("@") for several, one in found for key in (several.split(";") if several else [one])]
    return list(dict.fromkeys(keys))


def check_citations(body: str, bibliography: dict[str, dict[str, str]]) -> None:
    """Raise an error if a citation has no entry, or an entry is not cited."""
    cited = set(cited_keys(body))
    if unknown := sorted(cited - set(bibliography)):
        raise ValueError(f"The paper cites {', '.join(unknown)}, but the bibliography has no such entry. Add it.")
    if unused := sorted(set(bibliography) - cited):
        raise ValueError(f"The bibliography has {', '.join(unused)}, but the paper does not cite it. Remove the entry.")


def page(text: str, bibliography: dict[str, dict[str, str]], mathjax: str = "") -> str:
    """Return the paper as a page of HTML. `mathjax` is the script that draws its formulas."""
    head, body = read_paper(text)
    check_citations(body, bibliography)
    formulas: list[str] = []

    def hide(found: re.Match[str]) -> str:
        display = found["display"] is not None
        inside = html.escape(found["display"] or found["inline"])
        formulas.append(f"\\[{inside}\\]" if display else f"\\({inside}\\)")
        return f"FORMULA{len(formulas) - 1}END"

    body = FORMULA.sub(hide, COMMENT.sub("", body))
    body = CITATION.sub(lambda found: _citation(found, bibliography), body)
    written = MarkdownIt("commonmark", {"html": False}).enable("table").render(body)
    written = re.sub(r"FORMULA(\d+)END", lambda found: formulas[int(found[1])], written)
    written = re.sub(r"<(/?)h1>", r"<\1h2>", written)
    places = {place["index"]: place["name"] for place in head["affiliations"]}
    authors = ", ".join(f"{each['name']} ({places[each['affiliation']]})" for each in head["authors"])
    entries = "".join(f"<p>{_reference(entry)}</p>\n" for entry in sorted(bibliography.values(), key=_sort_key))
    return (
        f'<!doctype html>\n<html lang="en-GB">\n<meta charset="utf-8">\n<title>{html.escape(head["title"])}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{html.escape(head['title'])}</h1>\n"
        f'<p class="by">{html.escape(authors)}<br>{html.escape(str(head["date"]))}</p>\n'
        f'{written}<div class="references">\n{entries}</div>\n<script>{mathjax}</script>\n</html>\n'
    )


def _citation(found: re.Match[str], bibliography: dict[str, dict[str, str]]) -> str:
    if found["one"]:
        entry = bibliography[found["one"]]
        return f"{_short_names(entry)} ({entry['year']})"
    entries = [bibliography[key.strip().lstrip("@")] for key in found["several"].split(";")]
    return "(" + "; ".join(f"{_short_names(entry)}, {entry['year']}" for entry in entries) + ")"


def _short_names(entry: dict[str, str]) -> str:
    families = [name.partition(",")[0] for name in entry["author"].split(" and ")]
    return f"{families[0]} et al." if len(families) > 2 else " and ".join(families)


def _reference(entry: dict[str, str]) -> str:
    names = [name.partition(", ")[::-2] for name in entry["author"].split(" and ") if name != "others"]
    authors = ", ".join(" ".join(filter(None, name)) for name in names)
    authors += " and others" if entry["author"].endswith(" and others") else ""
    place = entry.get("journal") or entry.get("booktitle") or ""
    parts = [f"{authors} ({entry['year']}). {entry['title']}.", f"<em>{html.escape(place)}</em>" if place else ""]
    parts[0] = html.escape(parts[0])
    numbers = ", ".join(filter(None, [entry.get("volume"), entry.get("pages", "").replace("--", "–")]))
    link = f"https://doi.org/{entry['doi']}" if "doi" in entry else entry.get("url", "")
    link = f'<a href="{html.escape(link)}">{html.escape(link)}</a>' if link else ""
    return " ".join(filter(None, [*parts, f"{numbers}." if numbers else "", link]))


def _sort_key(entry: dict[str, str]) -> tuple[str, str]:
    return entry["author"], entry["year"]


def mathjax_script() -> str:
    """Return the script of MathJax that draws formulas as SVG and needs no other file."""
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("The paper needs MathJax: run make paper, or pip install 'scarless[docs]'.")
    script = Path(found.origin).parent / "static" / "mathjax" / "tex-svg.js"
    return script.read_text(encoding="utf-8").replace("</script", "<\\/script")


def main() -> None:
    """Write the page."""
    bibliography = read_bibliography((PAPER.parent / "paper.bib").read_text(encoding="utf-8"))
    written = page(PAPER.read_text(encoding="utf-8"), bibliography, mathjax_script())
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(written, encoding="utf-8")
    print(f"The paper: {PAGE.relative_to(PAPER.parents[1])}")


if __name__ == "__main__":
    main()
