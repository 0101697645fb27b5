"""The files in the root folder agree with the package and with each other."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("papers/*/*.md"), *ROOT.glob("paper/*.md")])


def test_the_citation_has_the_version_the_name_and_the_licence_of_the_package():
    cited = dict(re.findall(r'^(\w[\w-]*): "?([^"\n]+)"?$', (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE))
    assert cited["version"] == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]
    assert cited["title"].startswith(f"{PROJECT['name']}: ")
    assert f"## {PROJECT['version'].removesuffix('.dev0')} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_listed_version_of_python_can_install_the_package():
    listed = re.findall(r"Python :: 3\.(\d+)", " ".join(PROJECT["classifiers"]))
    oldest = int(PROJECT["requires-python"].removeprefix(">=3."))
    assert list(map(int, listed)) == list(range(oldest, oldest + len(listed)))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_links_and_pictures_name_exist(document):
    links = re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8"))
    links += re.findall(r'src="([^"]+)"', document.read_text(encoding="utf-8"))
    within = [link.split("#")[0] for link in links if "://" not in link and not link.startswith("#")]
    assert [link for link in within if not (document.parent / link).exists()] == []


def lists_of_tests():
    """Return the values of the constants in tests/conftest.py that are tuples of words."""
    tree = ast.parse((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    assigned = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    return {name: ast.literal_eval(assigned[name]) for name in ("SLOW", "EXTRA", "PACKAGES_OF_EXTRAS")}


@pytest.mark.parametrize("name", ["SLOW", "EXTRA"])
def test_every_test_in_the_lists_of_tests_exists(name):
    """If a slow test is renamed and SLOW is not, `make test` would run it."""
    for prefix in lists_of_tests()[name]:
        path, _, test = prefix.partition("::")
        function = test.partition("[")[0].rpartition("::")[2]
        texts = [found.read_text(encoding="utf-8") for found in ROOT.glob(f"{path}*")]
        assert any(f"def {function}" in text or not function for text in texts), prefix


def test_files_that_import_packages_of_the_extras_are_in_the_list_of_extra_tests():
    lists = lists_of_tests()
    for path in ROOT.glob("tests/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
        named += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
        if {name.partition(".")[0] for name in named} & set(lists["PACKAGES_OF_EXTRAS"]):
            assert path.relative_to(ROOT).as_posix().startswith(lists["EXTRA"]), path


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="the sdist has no folder .ci")
def test_ci_runs_all_groups_of_fast_tests():
    commands = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert commands[-3:] == ["make test", "make test-extras", "make test-oldest"]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
