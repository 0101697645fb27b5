"""Names that are imported on first use are available, and `import scarless` and `scarless --help` are fast."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import scarless
from scarless import SAREMClassifier, analysis

DEAR = ("sklearn", "scipy", "pandas", "pyarrow", "skrub", "matplotlib", "rich", "joblib")


def run(code: str, *arguments: str) -> str:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "command",
    [["--help"], ["--version"], ["fit", "--help"], ["inspect", "--help"], ["compare", "--help"], ["fit", "--no-such"]],
    ids=" ".join,
)
def test_help_imports_no_model(command):
    code = f"""
import contextlib, io, sys
from scarless.cli import main
out = io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print([name for name in {DEAR} if name in sys.modules], len([name for name in sys.modules if "scarless" in name]) < 20)
"""
    assert run(code, *command) == "[] True\n"


def test_importing_the_package_is_fast_and_dir_lists_all_names():
    code = f"""
import sys
import scarless
print([name for name in ("numpy", *{DEAR}) if name in sys.modules])
print(set(scarless.__all__) - set(dir(scarless)), "metrics" in dir(scarless))
from scarless import *
print(SAREMClassifier is scarless.models.SAREMClassifier, from_long is scarless.datasets.from_long, TIcE.__module__)
"""
    assert run(code) == "[]\nset() True\nTrue True scarless.label_frequency.tice\n"


@pytest.mark.parametrize("package", [scarless, analysis], ids=lambda package: package.__name__)
def test_every_name_is_found_where_type_checkers_find_it(package):
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (shown,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {alias.name: node.module for node in shown.body for alias in node.names}
    assert homes == package._LATER
    assert set(homes) == set(package.__all__) - {"__version__"}
    for name, home in homes.items():
        assert getattr(package, name) is getattr(sys.modules[home], name)


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(AttributeError, match="module 'scarless' has no attribute 'SAREM'"):
        _ = scarless.SAREM
    with pytest.raises(AttributeError, match=r"module 'scarless\.analysis' has no attribute 'analyze'"):
        _ = analysis.analyze


def test_a_pickle_opens_where_nothing_was_imported(tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(SAREMClassifier(tol=0.25)))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).tol)"
    assert run(code, str(tmp_path / "model.pkl")) == "0.25\n"
