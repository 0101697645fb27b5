"""docs/api.txt lists the public interface as the source defines it."""

import ast
import enum
import importlib
import inspect
import json

import pytest
from tests.helpers import load_tool

api = load_tool("public_api")
CLASSES = """
@dataclass
class A:
    '''One.

    Attributes
    ----------
    a_, b_ : int
        Two.
    c : int
    '''
    x: int
    y: int = 2
    w: int = field(kw_only=True)
    v: int = field(init=False)
    def m(self, z=1): ...
    @property
    def p(self): ...
    def _q(self): ...
class B(A):
    def __init__(self, x): ...
    @staticmethod
    def s(k): ...
    t = function
    u = _q = function
    r = x
def function(self, a): ...
"""
WHAT_TO_DO = (
    "The public interface changed. If this is on purpose, run python tools/public_api.py and name the change in the "
    "CHANGELOG; CONTRIBUTING.md, 'Versions and deprecation', says which changes are allowed."
)


def test_the_file_agrees_with_the_source():
    assert api.FILE.read_text(encoding="utf-8").splitlines() == api.text().splitlines(), WHAT_TO_DO


@pytest.mark.parametrize("package", [name for name in api.PACKAGES if name != "scarless.torch"])
def test_signatures_are_those_of_python(package):
    """The file is made from the syntax of the source; compare parameters with those of the imported objects."""
    module = importlib.import_module(package)
    assert sorted(api.public_names(package)) == sorted(module.__all__)
    for name in module.__all__:
        found, value = api.resolved(package, name), getattr(module, name)
        if isinstance(found.node, ast.FunctionDef):
            line = api.lines_of_name(name, found)[0]
        elif isinstance(found.node, ast.ClassDef) and not issubclass(value, Exception):
            line = api.lines_of_name(name, found)[0]
            if getattr(value, "_is_protocol", False):
                continue
        else:
            continue
        read = ast.parse(f"def f{line.removeprefix(name)}: ...")
        arguments = read.body[0].args
        names = [each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
        known = [
            each.name
            for each in inspect.signature(value).parameters.values()
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        assert sorted(names) == sorted(known), f"{package}.{name}"


def test_methods_of_base_classes_and_attributes_of_fits_are_listed():
    lines = api.FILE.read_text(encoding="utf-8").splitlines()
    assert "scarless.SAREMClassifier.class_prior_: attribute of a fit" in lines
    assert "scarless.SAREMClassifier.predict_proba(X: Any) -> Matrix" in lines
    assert "scarless.models.SAREMClassifier is scarless.SAREMClassifier" in lines
    assert "scarless.saved.ModelFileError(ValueError)" in lines
    assert "scarless audit --purpose {prior, find, both}" in lines
    assert [line for line in lines if "._" in line.partition("(")[0]] == ["scarless.__version__: value"]


@pytest.mark.parametrize("package", [name for name in api.PACKAGES if name != "scarless.torch"])
def test_every_public_method_of_a_class_is_listed(package):
    """Also methods that are assigned in the class body, and those of base classes in scarless."""
    lines = api.FILE.read_text(encoding="utf-8").splitlines()
    listed = {line.partition("(")[0].partition(":")[0].partition(" is ")[0] for line in lines}
    first = dict(line.split(" is ") for line in lines if " is scarless." in line)
    module = importlib.import_module(package)
    missing = []
    for name in module.__all__:
        value, shown = getattr(module, name), first.get(f"{package}.{name}", f"{package}.{name}")
        if inspect.isclass(value) and not issubclass(value, Exception | enum.Enum):
            for key, member in inspect.getmembers(value, inspect.isfunction):
                ours = member.__module__.startswith("scarless") and not key.startswith("_")
                missing += [f"{shown}.{key}"] if ours and f"{shown}.{key}" not in listed else []
    assert missing == []


def test_a_new_parameter_changes_the_line():
    before, after = (ast.parse(f"def f(a, *, b=1{more}) -> int: ...").body[0] for more in ("", ", c=None"))
    assert api.signature(before) == "(a, *, b=1) -> int"
    assert api.signature(after) == "(a, *, b=1, c=None) -> int"


def test_lines_of_a_class(monkeypatch):
    monkeypatch.setattr(api, "tree_of", lambda _: ast.parse(CLASSES))
    lines = {name: sorted(api.lines_of_name(name, api.resolved("scarless", name))) for name in "AB"}
    fits = [": attribute of a fit"] * 2
    assert lines["A"] == [
        "A(x: int, y: int = 2, *, w: int)",
        f"A.a_{fits[0]}",
        f"A.b_{fits[1]}",
        "A.m(z=1)",
        "A.p: property",
    ]
    assert lines["B"] == sorted(
        [
            *("B(x)", f"B.a_{fits[0]}", f"B.b_{fits[1]}", "B.m(z=1)", "B.p: property", "B.s(k)", "B.t(a)", "B.u(a)"),
            *("B.w: int", "B.y: int = 2"),
        ]
    )


def test_a_public_name_that_nothing_defines_is_refused(monkeypatch):
    monkeypatch.setattr(api, "tree_of", lambda _: ast.parse("__all__ = ['A']"))
    with pytest.raises(LookupError, match=r"^scarless\.A is in __all__, and no module of scarless defines it\.$"):
        api.lines_of_package("scarless", {})


def test_the_keys_of_a_summary_are_listed(patients_answer):
    section = api.FILE.read_text(encoding="utf-8").partition("# keys of summary.json\n")[2].split()
    found = json.loads(json.dumps(patients_answer.summary()))
    assert set(found) <= set(section)


@pytest.fixture(scope="module")
def patients_answer():
    pd = pytest.importorskip("pandas")
    import numpy as np

    import scarless

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    table["s"] = ((table["a"] + rng.normal(size=400) > 0) & (rng.random(400) < 0.6)).astype(int)
    return scarless.analyse(table, "s", propensity_attributes=["b"], model="logistic")
