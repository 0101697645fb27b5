"""Without optional packages, every estimator works, and everything else says in one line what to install.

The calls run in one process of their own, in which the optional packages cannot be found.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.outside.test_windows import files_that_mention
from tests.test_house import OPTIONAL

import scarless

ROOT = Path(__file__).parents[1]
SOURCE = Path(scarless.__file__).parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
DISTRIBUTIONS = {"scikit_posthocs": "scikit-posthocs", "distributed": "dask"}  # the name of a package on the index
MODEL_FILE = ROOT / "tests" / "saved" / "files" / "schema-1-sarem.skops"
BROUGHT = {("cloudpickle", "dask"), ("pandas", "dask")}  # dependencies of a package in an extra

PROGRAM = '''
import contextlib, importlib, io, json, sys, warnings
from importlib.machinery import PathFinder

HIDDEN = set(json.loads(sys.argv[1]))


class Hiding:
    """Finds no optional package."""

    find_distributions, invalidate_caches = PathFinder.find_distributions, PathFinder.invalidate_caches

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else PathFinder.find_spec(name, path, target)


sys.meta_path = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
warnings.simplefilter("ignore")
import numpy as np

import scarless
from scarless import diagnostics, field, label_frequency, report, scale, datasets
from scarless.cli import main

found = {"imports": {}, "fits": {}, "calls": {}, "commands": {}}
for name in json.loads(sys.argv[2]):
    module = importlib.import_module(name)
    found["imports"][name] = len([getattr(module, each) for each in module.__all__])
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
X[:, 2] = X[:, 2] > 0
y = rng.random(300) < 1 / (1 + np.exp(-2 * X[:, 0]))
s = (y & (rng.random(300) < 0.4 + 0.3 * X[:, 2])).astype(int)
OPTIONS = {
    "SAREMClassifier": {"propensity_attributes": [2]},
    "SAREMClassifierCV": {"propensity_attributes": [2], "Cs": [1.0], "cv": 2, "random_state": 0},
    "SARStackingClassifier": {"estimators": [("l", None)], "propensity_attributes": [2], "cv": 2, "random_state": 0},
    "PublishedEMClassifier": {"propensity_attributes": [2]},
    "StratifiedSCARClassifier": {"propensity_attributes": [2]},
    "KernelMean": {"max_rows": 100},
    "PUBaggingClassifier": {"n_estimators": 5},
}
models = {}
for module in (scarless, field):
    for name in module.__all__:
        kind = getattr(module, name)
        if not (isinstance(kind, type) and hasattr(kind, "fit")) or name == "TableClassifier":
            continue
        known = {"propensity": np.full(300, 0.5)} if name == "PropensityWeightedClassifier" else {}
        models[name] = kind(**OPTIONS.get(name, {})).fit(X, s, **known)
        predicted = models[name].predict(X) if hasattr(kind, "predict") else models[name].label_frequency_
        found["fits"][name] = bool(np.isfinite(np.asarray(predicted, dtype=float)).all())

model = models["SAREMClassifier"]
with open("rows.parquet", "wb") as file:
    file.write(b"PAR1")


def call(name, function):
    try:
        function()
        found["calls"][name] = "done"
    except Exception as error:
        found["calls"][name] = f"{type(error).__name__}: {error}"


call("summary", lambda: str(model.summary()))
call("to_frame", lambda: model.summary().to_frame())
call("explain", lambda: model.explain(X[:5], X))
call("save", lambda: scarless.save(model, "a.skops"))
call("load", lambda: scarless.load(sys.argv[4]))
call("to_onnx", lambda: scarless.to_onnx(model))
call("save_onnx", lambda: scarless.save_onnx(model, "a.onnx"))
call("analyse", lambda: scarless.analyse({"a": [1]}, "a", scar=True))
call("TableClassifier", lambda: scarless.TableClassifier(scarless.SAREMClassifier()).fit(X, s))
call("model_report", lambda: report.model_report(model, X, s).to_html())
call("ParquetRows", lambda: scarless.NaiveClassifier().fit(scale.ParquetRows("rows.parquet"), "s"))
call("load_adult", lambda: datasets.load_adult(data_home=".", download=True))
profile = diagnostics.profile_class_prior(model, X, s)
call("profile", lambda: profile)
call("plot", lambda: diagnostics.ProfileDisplay(profile).plot())
call("identifiability", lambda: diagnostics.identifiability_report(model))
quick = {"n_resamples": 20, "random_state": 0}
call("bootstrap", lambda: diagnostics.bootstrap_intervals(model, X, s, **quick))
call("bar", lambda: diagnostics.bootstrap_intervals(model, X, s, progress=True, **quick))
call("torch", lambda: importlib.import_module("scarless.torch"))

for command in json.loads(sys.argv[3]):
    err, out = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        status = main(command.split())
    found["commands"][command] = [status, err.getvalue()]
print(json.dumps(found))
'''
PACKAGES = [
    *("scarless", "scarless.analysis", "scarless.datasets", "scarless.diagnostics", "scarless.engines"),
    *("scarless.experiments", "scarless.field", "scarless.label_frequency", "scarless.labelling", "scarless.metrics"),
    *("scarless.models", "scarless.raw", "scarless.report", "scarless.saved", "scarless.scale", "scarless.papers"),
]
COMMANDS = {
    "inspect a.csv --label y": "tool",
    "fit a.csv --label y": "tool",
    "fit a.xlsx --label y": "tool",
    "fit a.parquet --label y": "tool",
    "predict m.skops a.csv --out r.csv": "tool",
    "audit run --n 5 --out w.csv": "tool",
    "export m.skops --out m.onnx": "tool,onnx",
    "compare spec.toml": "reproduce",
    "reproduce bekker2019": "reproduce",
    "report results": "reproduce",
}
CALLS = {
    "to_frame": ("pandas", "frames"),
    "explain": ("pandas", "frames"),
    "save": ("skops", "tool"),
    "load": ("skops", "tool"),
    "to_onnx": ("onnx", "onnx"),
    "save_onnx": ("onnx", "onnx"),
    "analyse": ("pandas", "tool"),
    "TableClassifier": ("pandas", "tool"),
    "model_report": ("jinja2", "tool"),
    "ParquetRows": ("pyarrow", "scale"),
    "load_adult": ("pooch", "data"),
    "plot": ("matplotlib", "plot"),
    "bar": ("rich", "reproduce"),
    "torch": ("torch", "torch"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Run the program without optional packages."""
    arguments = [json.dumps(each) for each in (sorted(OPTIONAL), PACKAGES, list(COMMANDS))]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments, str(MODEL_FILE)],
        cwd=tmp_path_factory.mktemp("empty"),
        env=os.environ | {"PYTHONPATH": str(SOURCE.parent), "SCIPY_ARRAY_API": "0"},
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_all_packages_can_be_imported(found):
    assert set(found["imports"]) == set(PACKAGES)
    assert min(found["imports"].values()) > 0


def test_every_estimator_can_be_fitted(found):
    assert len(found["fits"]) >= 20
    assert [name for name, is_finite in found["fits"].items() if not is_finite] == []


@pytest.mark.parametrize("name", ["summary", "profile", "identifiability", "bootstrap"])
def test_these_functions_need_no_extra(found, name):
    assert found["calls"][name] == "done"


@pytest.mark.parametrize("name", CALLS)
def test_a_function_says_in_one_line_what_to_install(found, name):
    package, extra = CALLS[name]
    said = found["calls"][name]
    assert re.fullmatch(rf'ImportError: .* needs {package}: pip install "scarless\[{extra}\]"\.', said), said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_in_one_line_what_to_install(found, command):
    status, said = found["commands"][command]
    assert status == 2
    needed = (
        rf'scarless: this command needs [\w, ]+\. Install it with pip install "scarless\[{COMMANDS[command]}\]"\.\n'
    )
    assert re.fullmatch(needed, said), said


def packages_of(extra: str) -> set[str]:
    """Return the packages that an extra brings, also through other extras."""
    names = set()
    for requirement in EXTRAS[extra]:
        name, _, inner = re.match(r"([\w-]+)(\[([\w,]+)\])?", requirement).groups()
        names |= {each for part in inner.split(",") for each in packages_of(part)} if name == "scarless" else {name}
    return names


def needs_of(tree: ast.Module, constants: dict[str, str]) -> list[tuple[str, str]]:
    """Return package and extra of each call of `need` whose arguments are written out, or are constants."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "need"]
    found = []
    for call in calls:
        given = [*call.args[2:3], *(each.value for each in call.keywords if each.arg == "extra")]
        extra = "'data'" if not given else ast.unparse(given[0])
        package = ast.unparse(call.args[0])
        if package.startswith("'"):
            found.append((ast.literal_eval(package).partition(".")[0], constants.get(extra, extra).strip("'")))
    return found


def test_the_extra_that_a_message_names_brings_the_package():
    """Otherwise a user would install what the message says, and get the same message again."""
    trees = files_that_mention(SOURCE, {"need(", "SCALE", "DASK", "REPRODUCE"})
    constants = {
        node.targets[0].id: node.value.value
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.targets[0], ast.Name)
        if node.targets[0].id in {"SCALE", "DASK", "REPRODUCE"}
    } | {"EXTRA": "onnx"}
    calls = [(path.name, *each) for path, tree in trees.items() for each in needs_of(tree, constants)]
    assert len(calls) > 80
    wrong = [
        call
        for call in calls
        if call[1:] not in BROUGHT and DISTRIBUTIONS.get(call[1], call[1]) not in packages_of(call[2])
    ]
    assert wrong == []
