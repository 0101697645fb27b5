"""Write the results page, benchmarks/README.md, from the stored records, and the tables of two other documents.

The text is in benchmarks/page_template.md; the numbers come from benchmarks/results/*.jsonl. A test checks that the
page agrees with both. Takes less than a second.

docs/method.md and paper/paper.md contain their own text. There, a placeholder is a comment above a table or paragraph,
as in <!-- {{core.refit[splice].without}} -->. The program replaces each table. For a paragraph, the comment lists the
records of all its decimal numbers, or {{file PATH}} for numbers that a file of the repository contains; `misquoted`
finds the numbers that differ, and a test calls it.

The template contains these placeholders:

  {{table BENCHMARK.TABLE | case: HEAD | NAME: HEAD | ... | goal}}
      A table with one line for each record. NAME is the name of a value; OTHER TABLE/NAME is a value of another table
      of the same benchmark. "only: PATTERN" and "but: PATTERN" choose cases, with * as in file names.
  {{BENCHMARK.TABLE[CASE].NAME}}
      One value; the name "goal" gives the goal.
  {{lowest BENCHMARK.TABLE[PATTERN].PATTERN}}, {{highest ...}}
      The lowest or highest value of all cases and names that match.
"""

from __future__ import annotations

import re
import sys
import textwrap
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.runner import command_parser

HERE = Path(__file__).parent
TEMPLATE, PAGE = HERE / "page_template.md", HERE / "README.md"
# Pages whose numbers have records; `misquoted` says how.
RECORDED_PAGES = ("method", "coming-from", "guide")
DOCUMENTS = (*(HERE.parent / "docs" / f"{name}.md" for name in RECORDED_PAGES), HERE.parent / "paper" / "paper.md")
LINE_LENGTH = 120
PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}")
CODE = re.compile(r"`[^`]+`")
COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|arXiv:[\d.]+", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?![\w.]*\w)|(?<![\w.])\.\d+")
REFERENCE = re.compile(r"(?P<benchmark>\w+)\.(?P<table>[^\[\]]+)\[(?P<case>[^\]]+)\]\.(?P<name>.+)")


class Results:
    """The newest records, by benchmark and table."""

    def __init__(self, found: list[records.Record]) -> None:
        self.tables: dict[tuple[str, str], dict[str, records.Record]] = {}
        for record in found:
            self.tables.setdefault((record["benchmark"], record["table"]), {})[record["case"]] = record

    def table(self, benchmark: str, table: str) -> dict[str, records.Record]:
        """Return the records of a table, by case."""
        if (benchmark, table) not in self.tables:
            raise LookupError(f"No records of the table {table!r} of the benchmark {benchmark!r}.")
        return self.tables[benchmark, table]

    def fill(self, placeholder: str) -> str:
        """Return the text that replaces a placeholder."""
        if placeholder.startswith("table "):
            return self._markdown(placeholder.removeprefix("table "))
        kind, _, rest = placeholder.partition(" ")
        if kind in ("lowest", "highest"):
            return shown((min if kind == "lowest" else max)(self._matching(rest)))
        benchmark, table, case, name = _reference(placeholder)
        record = self.table(benchmark, table).get(case)
        if record is None:
            raise LookupError(f"No record of the case {case!r} in {benchmark}.{table}.")
        if name == "goal":
            return str(record["goal"])
        if name not in record["values"]:
            raise LookupError(f"No value {name!r} in {placeholder!r}; there are {', '.join(record['values'])}.")
        return shown(record["values"][name])

    def _matching(self, reference: str) -> list[Any]:
        benchmark, table, cases, names = _reference(reference)
        found = [
            value
            for case, record in self.table(benchmark, table).items()
            for name, value in record["values"].items()
            if fnmatchcase(case, cases) and fnmatchcase(name, names) and not isinstance(value, str)
        ]
        if not found:
            raise LookupError(f"No value matches {reference!r}.")
        return found

    def _markdown(self, text: str) -> str:
        """Return a table as lines of Markdown."""
        place, *columns = [part.strip() for part in text.split("|")]
        benchmark, _, table = place.partition(".")
        pairs = [(name, head or name) for name, _, head in (column.partition(": ") for column in columns)]
        only = [head for name, head in pairs if name == "only"]
        but = [head for name, head in pairs if name == "but"]
        pairs = [pair for pair in pairs if pair[0] not in ("only", "but")]
        lines = ["| " + " | ".join(head for _, head in pairs) + " |", "|---" * len(pairs) + "|"]
        for case, record in self.table(benchmark, table).items():
            if (only and not any(fnmatchcase(case, each) for each in only)) or any(fnmatchcase(case, b) for b in but):
                continue
            lines.append("| " + " | ".join(self._cell(record, name) for name, _ in pairs) + " |")
        return "\n".join(lines)

    def _cell(self, record: records.Record, name: str) -> str:
        if name == "case":
            return str(record["case"])
        if name == "goal":
            return str(record.get("goal", ""))
        table, _, value = name.rpartition("/")
        if table in {other for benchmark, other in self.tables if benchmark == record["benchmark"]}:
            other = self.table(record["benchmark"], table).get(record["case"], {"values": {}})
            return shown(other["values"].get(value, ""))
        return shown(record["values"].get(name, ""))


def _reference(text: str) -> tuple[str, str, str, str]:
    found = REFERENCE.fullmatch(text)
    if found is None:
        raise LookupError(f"Cannot read {text!r}: expected BENCHMARK.TABLE[CASE].NAME.")
    return found["benchmark"], found["table"], found["case"], found["name"]


def shown(value: Any) -> str:
    """Return a value as the page shows it."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Decimal):
        return f"{value:,}".lower().replace("e+", "e")
    return str(value)


def page() -> str:
    """Return the page."""
    results = Results(records.read())
    text = PLACEHOLDER.sub(lambda found: results.fill(found[1]), TEMPLATE.read_text(encoding="utf-8"))
    return "\n\n".join(wrapped(block) for block in text.rstrip().split("\n\n")) + "\n"


def with_current_tables(text: str, results: Results) -> str:
    """Return a document with the tables below its comments written anew."""
    blocks = text.split("\n\n")
    for i, block in enumerate(blocks[:-1]):
        found = PLACEHOLDER.findall(block) if COMMENT.fullmatch(block.strip()) else []
        if len(found) == 1 and found[0].startswith("table "):
            blocks[i + 1] = results.fill(found[0])
    return "\n\n".join(blocks)


def misquoted(text: str, results: Results) -> list[str]:
    """Return the numbers of a document that its comments do not name, and the named numbers that it does not contain.

    Only decimal numbers in paragraphs and lists count: tables are written by this program, and code is tested.
    """
    wrong, known, seen = [], set[str](), set[str]()
    for block in text.split("\n\n"):
        if COMMENT.fullmatch(block.strip()):
            names = PLACEHOLDER.findall(block)
            known = {number for name in names if not name.startswith("table ") for number in _numbers(name, results)}
            seen = {name for name in names if not name.startswith(("table ", "file "))}
            continue
        if not block.startswith(("|", "#", "```", ">>>", "    ")):
            quoted = set(map(_plain, NUMBER.findall(CODE.sub("", FORMULA.sub("", block)))))
            wrong += sorted(quoted - known)
            wrong += sorted(name for name in seen if not set(_numbers(name, results)) & set(_all_numbers(block)))
        known, seen = set(), set()
    return wrong


def _numbers(name: str, results: Results) -> list[str]:
    """Return the numbers of a record, or of a file of the repository, without signs and leading zeros."""
    path = name.removeprefix("file ")
    text = results.fill(name) if path == name else (HERE.parent / path).read_text(encoding="utf-8")
    return _all_numbers(text)


def _all_numbers(text: str) -> list[str]:
    return [_plain(number) for number in re.findall(r"\d[\d,]*\.?\d*|\.\d+", text)]


def _plain(number: str) -> str:
    return number.replace(",", "").rstrip(".").lstrip("0")


def wrapped(block: str) -> str:
    """Return a paragraph with its lines filled anew; headings, tables and comments stay as they are."""
    options: Any = {"break_long_words": False, "break_on_hyphens": False}
    if block.startswith(("#", "|", "<!--")):
        return block
    # Code must stay on one line, so its spaces are hidden from the line breaking.
    block = CODE.sub(lambda found: found[0].replace(" ", "\0").replace("\n", "\0"), block)
    items = re.split(r"\n(?=- )", block)
    indent = "  " if block.startswith("- ") else ""
    lines = [textwrap.fill(item, LINE_LENGTH, subsequent_indent=indent, **options) for item in items]
    return "\n".join(lines).replace("\0", " ")


def main(arguments: list[str]) -> None:
    """Write the page."""
    command_parser("page", __doc__).parse_args(arguments)
    PAGE.write_text(page(), encoding="utf-8")
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        path.write_text(with_current_tables(text, Results(records.read())), encoding="utf-8")
    print(f"Wrote {', '.join(str(path.relative_to(HERE.parent)) for path in (PAGE, *DOCUMENTS))}.")


if __name__ == "__main__":
    main(sys.argv[1:])
