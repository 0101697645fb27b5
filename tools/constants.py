"""Write docs/constants.md: constants of the source that change results.

A constant is listed if the comment above it begins with ``#:``. The comment says what the constant measures, and then
either "Evidence: ..." or "By judgement". ``python tools/constants.py`` writes the page; a test checks that it is
current.
"""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "constants.md"
MARK = "#:"
HEAD = """# Constants

This page lists numbers in the source that change results and are not parameters. For each, it gives the evidence (a
publication, a published implementation or one of our benchmarks), or says that we chose the number by judgement. The
[reference](api.rst) lists parameters and their defaults.

`python tools/constants.py` writes this page from the comments of the source; a test checks that it is current.
"""


class Constant(NamedTuple):
    """One line of the page: a constant, or several constants that are assigned together."""

    module: str
    names: tuple[str, ...]
    value: str
    text: str


def constants_of(source: str, module: str) -> list[Constant]:
    """Return those constants of a module that have a comment with the mark."""
    lines, found = source.splitlines(), []
    if MARK not in source:
        return found
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        first = node.lineno - 1
        while first > 0 and lines[first - 1].startswith(MARK):
            first -= 1
        if text := " ".join(line.removeprefix(MARK).strip() for line in lines[first : node.lineno - 1]):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            found.append(Constant(module, tuple(names), _value(node.value), text))
    return found


@cache
def all_constants() -> list[Constant]:
    """Return the constants of the whole package, by module."""
    source = ROOT / "src"
    paths = sorted(source.rglob("*.py"))
    names = [".".join(path.relative_to(source).with_suffix("").parts) for path in paths]
    both = zip(paths, names, strict=True)
    return [each for path, name in both for each in constants_of(path.read_text(encoding="utf-8"), name)]


def page() -> str:
    """Return the page."""
    parts, package = [HEAD], ""
    for each in all_constants():
        if (now := each.module.rpartition(".")[0]) != package:
            package = now
            parts.append(f"\n## {package}\n\n| constant | value | what it is |\n|---|---|---|\n")
        names = ", ".join(f"`{name.lstrip('_')}`" for name in each.names)
        module = each.module.rpartition(".")[2]
        parts.append(f"| {names} (`{module}`) | `{each.value}` | {each.text} |\n")
    return "".join(parts)


def _value(node: ast.expr) -> str:
    """Return the source of a value; for a tuple, without its brackets."""
    return ", ".join(map(ast.unparse, node.elts)) if isinstance(node, ast.Tuple) else ast.unparse(node)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
