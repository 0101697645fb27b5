"""The import direction of the house, read from the source: data flows one way."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import scarless

ROOT = Path(scarless.__file__).parent
# A package may import from those on lower floors, and from itself; rooms on one floor do not see each other.
FLOORS = [
    {"numerics"},
    {"engines"},
    {"outside"},
    {"scale"},
    {"checks"},
    {"datasets", "labelling"},
    {"label_frequency"},  # below the models: SCARClassifier takes its estimators by name
    {"pair"},
    {"models", "metrics", "torch"},
    {"diagnostics"},
    {"experiments"},
    {"report"},
    {"papers", "analysis"},
    {"cli"},
    {"__main__"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
OPTIONAL = {
    "pandas", "polars", "matplotlib", "rich", "lightgbm", "xgboost", "pooch", "tqdm", "jinja2", "scikit_posthocs",
    "skrub", "skops", "pyarrow", "openpyxl", "dask", "distributed", "ray", "duckdb", "onnx", "skl2onnx", "onnxruntime",
    "torch", "skorch",
}  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))
INSIDE = [path for path in FILES if path != ROOT / "__init__.py"]


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def wrong_edges(room: str, imported: list[str]) -> list[str]:
    rooms = [name.split(".")[1] for name in imported if name.startswith("scarless.")]
    return [other for other in rooms if other != room and FLOOR_OF[other] >= FLOOR_OF[room]]


def test_imports_go_down_only():
    assert {room_of(path) for path in INSIDE} <= FLOOR_OF.keys(), "a room has no floor in DESIGN section 4"
    found = {str(path): wrong_edges(room_of(path), imports_of(tree_of(path))) for path in INSIDE}
    assert {path: edges for path, edges in found.items() if edges} == {}


def private_edges(room: str, imported: list[str]) -> list[str]:
    """Return what is imported from behind another room's door: modules and names that begin with an underscore."""
    inside = [name.split(".")[1:] for name in imported if name.startswith("scarless.")]
    return [".".join(parts) for parts in inside if parts[0] != room and any(part.startswith("_") for part in parts)]


def test_no_room_imports_what_is_private_to_another():
    found = {str(path): private_edges(room_of(path), imports_of(tree_of(path))) for path in INSIDE}
    assert {path: edges for path, edges in found.items() if edges} == {}


def test_optional_packages_are_imported_inside_functions_only():
    found = {str(path): OPTIONAL & set(top_level_packages(tree_of(path))) for path in FILES}
    assert len(found) > 200
    assert {path: packages for path, packages in found.items() if packages} == {}


def top_level_packages(tree: ast.Module) -> list[str]:
    """Return the packages that are imported with a module itself."""
    outside = ast.Module([node for node in tree.body if not _is_definition(node)], [])
    return [name.split(".")[0] for name in imports_of(outside)]


@pytest.mark.parametrize("room", ["experiments", "report"])
def test_what_serves_any_experiment_knows_of_no_paper(room):
    files = [path for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".toml", ".jinja", ".css", ".md"}]
    assert len(files) > 7
    found = {path.name: re.findall(r"(?i)paper|publish|bekker", path.read_text(encoding="utf-8")) for path in files}
    assert {name: words for name, words in found.items() if words} == {}


def test_kinds_of_arrays_have_their_names_from_one_place():
    alias = re.compile(r"^ *(\w+) *(?::[^=\n]*)?= *NDArray\[np\.(?:float64|intp|bool_)\]", re.MULTILINE)
    found = {path.relative_to(ROOT).as_posix(): alias.findall(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name: aliases for name, aliases in found.items() if aliases} == {
        "numerics/arrays.py": ["Vector", "Matrix", "Columns", "Integers", "Mask"]
    }


def _is_definition(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def test_the_test_itself_sees_a_wrong_edge():
    assert wrong_edges("numerics", ["scarless.models.sar_em"]) == ["models"]
    assert wrong_edges("metrics", ["scarless.models"]) == ["models"]
    assert wrong_edges("models", ["scarless.numerics.newton", "numpy"]) == []
    assert top_level_packages(ast.parse("import dask.array\ndef f():\n    import ray")) == ["dask"]
    assert private_edges("models", ["scarless.models._base.x", "scarless.pair.rows.engine_of"]) == []
    assert private_edges("diagnostics", ["scarless.models._base.x", "scarless.pair.rows._x"]) == [
        "models._base.x",
        "pair.rows._x",
    ]


def test_numerics_have_no_output_no_randomness_and_no_scikit_learn():
    for path in (ROOT / "numerics").glob("*.py"):
        tree = tree_of(path)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not {"print", "open", "input"} & names
        assert not {"random", "default_rng"} & (names | attributes)
        imported = imports_of(tree)
        assert not [
            name for name in imported if name.startswith(("sklearn", "random", "numpy.random", "warnings", "os"))
        ]
