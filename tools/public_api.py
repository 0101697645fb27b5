"""Write docs/api.txt: every public name with its signature, one per line.

``python tools/public_api.py`` writes the file; a test compares it with the source. Names are read from the source
without importing it, except for decorated functions, so the file does not depend on the version of Python. The lines of
a class are its constructor, its attributes besides the parameters, and its methods, with those of its base classes in
scarless. A name that two packages export has all its lines in the first of them. Commands and options come from the
parser of the command line.
"""

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
FILE = ROOT / "docs" / "api.txt"
# Packages whose `__all__` is public. CONTRIBUTING.md says that the others are private.
PACKAGES = (
    *("scarless", "scarless.analysis", "scarless.datasets", "scarless.diagnostics", "scarless.engines"),
    *("scarless.experiments", "scarless.field", "scarless.label_frequency", "scarless.labelling", "scarless.metrics"),
    *("scarless.models", "scarless.raw", "scarless.report", "scarless.saved", "scarless.scale", "scarless.torch"),
)
HEAD = """\
# Public interface of scarless. `python tools/public_api.py` writes this file; a test compares it with the source.
# A change of this file is a change for users: see "Versions and deprecation" in CONTRIBUTING.md.
"""
SUMMARY = (
    "scarless.analysis.answer",
    ("summary", "_fitted", "_informed", "_first_rows"),
)  # methods that make summary.json
NO_FIELDS = (": property", ": attribute of a fit")
Definition = ast.FunctionDef | ast.ClassDef


class Found(NamedTuple):
    """A definition and the module that contains it; `node` is None for a name that is assigned a value."""

    module: str
    name: str
    node: Definition | None


def main() -> None:
    FILE.write_text(text(), encoding="utf-8", newline="\n")
    print(FILE.relative_to(ROOT))


def text() -> str:
    """Return the content of the file."""
    first: dict[tuple[str, str], str] = {}
    names = sorted(line for package in PACKAGES for line in lines_of_package(package, first))
    parts = {
        "names": names,
        "exceptions and warnings": sorted(set(error_lines())),
        "command line": sorted(command_lines()),
        "keys of summary.json": summary_keys(),
    }
    return HEAD + "".join(f"\n# {title}\n" + "".join(f"{line}\n" for line in lines) for title, lines in parts.items())


# --- names of Python


def path_of(module: str) -> Path:
    """Return the file of a module or package."""
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree_of(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


def public_names(package: str) -> list[str]:
    """Return `__all__` of a package; an empty list if it has none."""
    for node in tree_of(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def resolved(module: str, name: str) -> Found | None:
    """Follow the imports of a name inside scarless to its definition; None if it is not defined there."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("scarless"):
            for alias in node.names:
                if (alias.asname or alias.name) == name and path_of(node.module).exists():
                    return resolved(node.module, alias.name)
    for node in tree_of(module).body:
        if isinstance(node, Definition) and node.name == name:
            return Found(module, name, node)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return Found(module, name, None)
    return None


def lines_of_package(package: str, first: dict[tuple[str, str], str]) -> list[str]:
    """Return the lines of all public names of a package; `first` has the names of earlier packages by definition."""
    lines = []
    for name in public_names(package):
        found = resolved(package, name)
        if found is None:
            raise LookupError(f"{package}.{name} is in __all__, and no module of scarless defines it.")
        shown = f"{package}.{name}"
        known = first.setdefault((found.module, found.name), shown)
        lines += lines_of_name(shown, found) if known == shown else [f"{shown} is {known}"]
    return lines


def lines_of_name(shown: str, found: Found) -> list[str]:
    """Return the lines of one name: a value, a function, or a class with its methods and attributes."""
    if found.node is None:
        return [f"{shown}: value"]
    if isinstance(found.node, ast.FunctionDef):
        return [f"{shown}{run_time_signature(found) if found.node.decorator_list else signature(found.node)}"]
    members: dict[str, str] = {}
    classes = list(classes_of(found))
    for each in reversed(classes):
        members |= members_of(each)
    nodes = [each.node for each in classes if isinstance(each.node, ast.ClassDef)]
    constructor = members.pop("__init__", None) or _fields_signature(members, nodes)
    parameters = set(re.findall(r"[(,] ?(\w+)(?=[:,)=])", constructor))
    others = {name: rest for name, rest in members.items() if name not in parameters}
    return [f"{shown}{constructor}", *(f"{shown}.{name}{rest}" for name, rest in others.items())]


def classes_of(found: Found) -> Iterator[Found]:
    """Yield a class and its base classes in scarless, the class itself first."""
    assert isinstance(found.node, ast.ClassDef)
    yield found
    for base in found.node.bases:
        target = base.value if isinstance(base, ast.Subscript) else base
        above = resolved(found.module, target.id) if isinstance(target, ast.Name) else None
        if above is not None and isinstance(above.node, ast.ClassDef):
            yield from classes_of(above)


def members_of(owner: Found) -> dict[str, str]:
    """Return the public members of one class, each with the rest of its line; also attributes of its docstring."""
    assert isinstance(owner.node, ast.ClassDef)
    found = dict.fromkeys(fitted_attributes(ast.get_docstring(owner.node) or ""), ": attribute of a fit")
    for part in owner.node.body:
        if isinstance(part, ast.FunctionDef) and (part.name == "__init__" or not part.name.startswith("_")):
            kinds = {ast.unparse(each).rpartition(".")[2] for each in part.decorator_list}
            if "setter" in kinds:
                continue
            found[part.name] = ": property" if kinds & {"property", "cached_property"} else signature(part, bound=True)
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.target.id[0] != "_":
            kind = ast.unparse(part.annotation)
            if "ClassVar" not in kind and (default := _default(part.value)) is not None:
                found[part.target.id] = f": {kind}{default}"
        elif isinstance(part, ast.Assign) and isinstance(part.value, ast.Name):  # a function that is used as a method
            assigned = resolved(owner.module, part.value.id)
            if assigned is not None and isinstance(assigned.node, ast.FunctionDef):
                names = [target.id for target in part.targets if isinstance(target, ast.Name) and target.id[0] != "_"]
                found |= dict.fromkeys(names, signature(assigned.node, bound=True))
    return found


def _default(value: ast.expr | None) -> str | None:
    """Return the default of a field as text; empty if it has none, and None if it is no parameter."""
    if value is None:
        return ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field")):
        return f" = {ast.unparse(value)}"
    options = {each.arg: each.value for each in value.keywords}
    if "init" in options and not ast.literal_eval(options["init"]):
        return None
    given = options.get("default") or options.get("default_factory")
    return "" if given is None else f" = {ast.unparse(given)}{'()' if 'default_factory' in options else ''}"


def fitted_attributes(docstring: str) -> list[str]:
    """Return the attributes with a trailing underscore that the section "Attributes" of a docstring describes."""
    section = re.search(r"^Attributes\n-+\n(.*?)(?=^\w[^\n]*\n-+$|\Z)", docstring, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^(\w[\w, ]*?) ?:", section[1], re.MULTILINE) if section else []
    return [name for entry in entries for name in re.split(r", *", entry) if name.endswith("_")]


def _fields_signature(members: dict[str, str], classes: list[ast.ClassDef]) -> str:
    """Return the signature of a class without a constructor: its fields, if it is a dataclass or a named tuple."""
    heads = [ast.unparse(part) for node in classes for part in [*node.decorator_list, *node.bases]]
    if not any("dataclass" in head or "NamedTuple" in head for head in heads):
        return "()"
    parts = [part for node in classes for part in node.body if isinstance(part, ast.AnnAssign)]
    named = {_name(part) for part in parts if part.value is not None and "kw_only=True" in ast.unparse(part.value)}
    fields = {name: rest for name, rest in members.items() if rest.startswith(": ") and rest not in NO_FIELDS}
    first = [f"{name}{rest}" for name, rest in fields.items() if name not in named]
    last = [f"{name}{rest}" for name, rest in fields.items() if name in named]
    return f"({', '.join([*first, *(['*', *last] if last else [])])})"


def run_time_signature(found: Found) -> str:
    """Return the signature of a decorated function, to which the decorator may add parameters; without annotations."""
    sys.path.insert(0, str(SOURCE))
    given = inspect.signature(getattr(importlib.import_module(found.module), found.name))
    bare = [each.replace(annotation=each.empty) for each in given.parameters.values()]
    return str(given.replace(parameters=bare, return_annotation=given.empty))


def signature(node: ast.FunctionDef, *, bound: bool = False) -> str:
    """Return parameters, annotations and defaults of a function; `bound` leaves out ``self`` or ``cls``."""
    static = any(ast.unparse(each) == "staticmethod" for each in node.decorator_list)
    arguments = ast.parse(ast.unparse(node)).body[0].args  # type: ignore[attr-defined]  # a copy
    if bound and not static:
        (arguments.posonlyargs or arguments.args).pop(0)
    returned = "" if node.returns is None or node.name == "__init__" else f" -> {ast.unparse(node.returns)}"
    return f"({ast.unparse(arguments)}){returned}"


def error_lines() -> Iterator[str]:
    """Yield the public exceptions and warnings with their base classes, which users name in ``except``."""
    for package in PACKAGES:
        for name in public_names(package):
            found = resolved(package, name)
            if found is not None and isinstance(found.node, ast.ClassDef) and name.endswith(("Error", "Warning")):
                bases = ", ".join(map(ast.unparse, found.node.bases))
                yield f"{package}.{name}({bases})"


# --- the command line, and files


def command_lines() -> list[str]:
    """Return each command with its arguments and options: their flags, choices, and numbers of values."""
    sys.path.insert(0, str(SOURCE))
    from scarless.cli import make_parser  # noqa: PLC0415 (this file is also read without scarless)

    lines = []
    for action in make_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, parser in action.choices.items():
                lines.append(f"scarless {command}")
                lines += [f"scarless {command} {option(each)}" for each in parser._actions if _is_shown(each)]
        elif _is_shown(action):
            lines.append(f"scarless {option(action)}")
    return lines


def _is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)


def option(action: argparse.Action) -> str:
    """Return one argument or option of a command."""
    name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    values = "" if action.nargs is None else f" [values: {action.nargs}]"
    choices = "" if action.choices is None else f" {{{', '.join(map(str, action.choices))}}}"
    return f"{name}{values}{choices}{' required' if action.required and action.option_strings else ''}"


def summary_keys() -> list[str]:
    """Return the keys of summary.json, which other programs read; keys of nested entries are among them."""
    module, methods = SUMMARY
    keys = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.FunctionDef) and node.name in methods:
            options = [each for each in ast.walk(node) if isinstance(each, ast.AnnAssign) and _name(each) == "given"]
            left_out = {id(part) for each in options for part in ast.walk(each)}  # arguments of a call, not entries
            for part in (each for each in ast.walk(node) if id(each) not in left_out):
                if isinstance(part, ast.Dict):
                    keys |= {each.value for each in part.keys if isinstance(each, ast.Constant)}
                elif isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                    keys |= {each.value for each in [part.slice] if isinstance(each, ast.Constant)}
    return sorted(map(str, keys))


def _name(node: ast.AnnAssign) -> str:
    return ast.unparse(node.target)


if __name__ == "__main__":
    main()
