"""Rules of the source code: which packages may import from which, no import cycles, no access to private names."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import scarless

ROOT = Path(scarless.__file__).parent
# A package may import from packages in earlier layers and from itself, but not from other packages in its own layer.
LAYERS = [
    {"numerics"},
    {"engines"},
    {"outside"},
    {"scale"},
    {"checks"},
    {"datasets", "labelling"},
    {"label_frequency"},  # before the models, because SCARClassifier finds its estimators by name
    {"pair"},
    {"models", "metrics", "torch"},
    {"raw", "field"},
    {"saved"},
    {"diagnostics"},
    {"experiments"},
    {"report"},
    {"papers", "analysis"},
    {"cli"},
    {"__main__"},
]
LAYER_OF = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}
OPTIONAL = {
    "pandas", "polars", "matplotlib", "rich", "lightgbm", "xgboost", "pooch", "tqdm", "jinja2", "scikit_posthocs",
    "skrub", "skops", "pyarrow", "openpyxl", "dask", "distributed", "ray", "duckdb", "onnx", "skl2onnx", "onnxruntime",
    "torch", "skorch",
}  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))
PACKAGE_FILES = [path for path in FILES if path != ROOT / "__init__.py"]


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@cache
def imports_in(path: Path) -> list[str]:
    return imports_of(tree_of(path))


def wrong_imports(package: str, imported: list[str]) -> list[str]:
    packages = [name.split(".")[1] for name in imported if name.startswith("scarless.")]
    return [other for other in packages if other != package and LAYER_OF[other] >= LAYER_OF[package]]


def test_packages_import_from_earlier_layers_only():
    assert {package_of(path) for path in PACKAGE_FILES} <= LAYER_OF.keys(), "a package is missing from LAYERS"
    found = {str(path): wrong_imports(package_of(path), imports_in(path)) for path in PACKAGE_FILES}
    assert {path: edges for path, edges in found.items() if edges} == {}


def private_imports(package: str, imported: list[str]) -> list[str]:
    """Return the modules and names with a leading underscore that are imported from another package."""
    inside = [name.split(".")[1:] for name in imported if name.startswith("scarless.")]
    return [".".join(parts) for parts in inside if parts[0] != package and any(part.startswith("_") for part in parts)]


def test_no_package_imports_private_names_of_another():
    found = {str(path): private_imports(package_of(path), imports_in(path)) for path in PACKAGE_FILES}
    assert {path: edges for path, edges in found.items() if edges} == {}


# --- import cycles

MODULES = {
    ".".join(("scarless", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in FILES
}


def modules_among(imported: list[str], known: set[str]) -> set[str]:
    """Return the known modules that are imported, or from which a name is imported."""
    named = {name if name in known else name.rpartition(".")[0] for name in imported}
    return named & known


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or through other modules."""
    reached: dict[str, set[str]] = {}
    for module in edges:
        seen, ahead = set[str](), [module]
        while ahead:
            new = edges[ahead.pop()] - seen
            seen |= new
            ahead += new
        reached[module] = seen
    together = {module: {other for other in seen if module in reached[other]} for module, seen in reached.items()}
    return sorted({tuple(sorted(group)): sorted(group) for group in together.values() if len(group) > 1}.values())


def test_there_are_no_import_cycles():
    """Imports inside functions and for type annotations count too."""
    edges = {module: modules_among(imports_in(path), set(MODULES)) - {module} for module, path in MODULES.items()}
    assert sum(map(len, edges.values())) > 1000
    assert cycles(edges) == []


def test_cycles_are_found():
    late = ast.parse("def f():\n    from scarless.a import x\n    import scarless.b.c")
    assert modules_among(imports_of(late), {"scarless.a", "scarless.b.c"}) == {"scarless.a", "scarless.b.c"}
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}) == [["a", "b", "c"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


# --- private attributes

NAMED_TUPLE_NAMES = {"_replace", "_fields", "_asdict", "_make"}  # methods and attributes of named tuples
SCIKIT_LEARN_NAMES = {"_bin_mapper", "_score_func"}  # our replacements of its classes have them too
ATTRIBUTE_FUNCTIONS = {"getattr", "hasattr", "setattr", "delattr"}


def private_definitions(tree: ast.AST) -> set[str]:
    """Return the private names that classes of a module define: methods, fields, attributes of `self`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            fields = [part for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign)]
            names |= {each.id for field in fields for each in ast.walk(field) if _is_stored(each, ast.Name)}
        elif _is_stored(node, ast.Attribute) and _is_own(node.value):
            names.add(node.attr)
    return only_private(names)


def private_reads(tree: ast.AST) -> set[str]:
    """Return the private names that a module reads or sets on objects other than `self`, also by `getattr`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ATTRIBUTE_FUNCTIONS:
            named = [each for each in node.args[1:2] if isinstance(each, ast.Constant) and not _is_own(node.args[0])]
            names |= {str(each.value) for each in named}
    return only_private(names)


def only_private(names: set[str]) -> set[str]:
    """Return the names with one leading underscore, without those of named tuples and scikit-learn."""
    private = {name for name in names if name.startswith("_") and not name.startswith("__")}
    return private - NAMED_TUPLE_NAMES - SCIKIT_LEARN_NAMES


def _is_own(value: ast.AST) -> bool:
    """Return whether an expression is `self`, `cls` or `super()`."""
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, ast.Name) and value.id in {"self", "cls", "super"}


def _is_stored(node: ast.AST, kind: type[ast.Name | ast.Attribute]) -> bool:
    return isinstance(node, kind) and isinstance(node.ctx, ast.Store)


def test_no_package_uses_private_attributes_of_another():
    """A name counts if a class of another package defines it, and no class of the package that reads it."""
    defined: dict[str, set[str]] = {}
    for path in PACKAGE_FILES:
        defined.setdefault(package_of(path), set()).update(private_definitions(tree_of(path)))
    defined_anywhere = set().union(*defined.values())
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in PACKAGE_FILES
        for name in private_reads(tree_of(path)) & defined_anywhere - defined[package_of(path)]
    }
    assert found == set()


def test_private_attributes_are_found():
    tree = ast.parse(
        "class A:\n    _a: int\n    _b = 1\n    def _c(self, x):\n        self._d = x._e\n        super()._f\n"
        "        getattr(x, '_g')\n        setattr(self, '_h', 1)\n        x._i = x._replace(_j=1).__dict__\n"
    )
    assert private_definitions(tree) == {"_a", "_b", "_c", "_d"}
    assert private_reads(tree) == {"_e", "_g", "_i"}


def test_optional_packages_are_imported_inside_functions_only():
    found = {str(path): OPTIONAL & set(top_level_packages(tree_of(path))) for path in FILES}
    assert len(found) > 150
    assert {path: packages for path, packages in found.items() if packages} == {}


def top_level_packages(tree: ast.Module) -> list[str]:
    """Return the packages that are imported at the top level of a module."""
    outside = ast.Module([node for node in tree.body if not _is_definition(node)], [])
    return [name.split(".")[0] for name in imports_of(outside)]


@pytest.mark.parametrize("package", ["experiments", "report"])
def test_packages_for_any_experiment_do_not_mention_a_paper(package):
    files = [path for path in (ROOT / package).rglob("*") if path.suffix in {".py", ".toml", ".jinja", ".css", ".md"}]
    assert len(files) > 7
    found = {path.name: re.findall(r"(?i)paper|publish|bekker", path.read_text(encoding="utf-8")) for path in files}
    # Any experiment may be compared with published numbers; the modules that read and show them say so.
    allowed = {"anchors.py": {"publish"}, "story.py": {"publish"}, "page.py": {"publish"}, "__init__.py": {"publish"}}
    wrong = {name: set(map(str.lower, words)) - allowed.get(name, set()) for name, words in found.items()}
    assert {name: words for name, words in wrong.items() if words} == {}


def test_array_types_are_named_in_one_module():
    alias = re.compile(r"^ *(\w+) *(?::[^=\n]*)?= *NDArray\[np\.(?:float64|intp|bool_)\]", re.MULTILINE)
    found = {path.relative_to(ROOT).as_posix(): alias.findall(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name: aliases for name, aliases in found.items() if aliases} == {
        "numerics/arrays.py": ["Vector", "Matrix", "Columns", "Integers", "Mask"]
    }


def _is_definition(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def test_wrong_imports_are_found():
    assert wrong_imports("numerics", ["scarless.models.sar_em"]) == ["models"]
    assert wrong_imports("metrics", ["scarless.models"]) == ["models"]
    assert wrong_imports("models", ["scarless.numerics.newton", "numpy"]) == []
    assert top_level_packages(ast.parse("import dask.array\ndef f():\n    import ray")) == ["dask"]
    assert private_imports("models", ["scarless.models._pair.x", "scarless.pair.logistic.engine_of"]) == []
    assert private_imports("diagnostics", ["scarless.models._pair.x", "scarless.pair.logistic._x"]) == [
        "models._pair.x",
        "pair.logistic._x",
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


def test_no_estimator_has_more_than_two_base_classes_of_scarless():
    import scarless
    import scarless.field
    import scarless.label_frequency
    import scarless.models

    found = {
        each
        for package in (scarless, scarless.models, scarless.label_frequency, scarless.field)
        for name in package.__all__
        if name != "SARNetClassifier"
        and isinstance(each := getattr(package, name), type)
        and issubclass(each, BaseEstimator)
    }
    above = {
        each.__name__: [base.__name__ for base in each.__mro__[1:] if base.__module__.startswith("scarless.")]
        for each in found
    }
    assert len(above) > 12
    assert {name: bases for name, bases in above.items() if len(bases) > 2} == {}
    assert above["SAREMClassifier"] == ["PairClassifier", "PUClassifier"]
