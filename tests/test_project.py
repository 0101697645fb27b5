"""The files in the root folder agree with the package and with each other."""

import re
import tomllib
from itertools import product
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


GROUPS = tomllib.loads((ROOT / "tests/groups.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("group", ["long", "slow", "extra"])
def test_every_test_in_a_group_exists(group):
    """If a slow test is renamed and its entry is not, `make test` would run it."""
    for prefix in GROUPS[group]:
        path, _, test = prefix.partition("::")
        function = test.partition("[")[0].rpartition("::")[2].rpartition(".")[2]
        texts = [found.read_text(encoding="utf-8") for found in ROOT.glob(f"{path}*")]
        assert any(re.search(rf"(def|class) {function}|^{function} =", text) or not function for text in texts), prefix
    assert len(set(GROUPS[group])) == len(GROUPS[group])


def test_files_that_import_packages_of_the_extras_are_in_the_group_of_extra_tests():
    for path in ROOT.glob("tests/**/*.py"):
        named = re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if set(named) & set(GROUPS["packages_of_extras"]):
            assert path.relative_to(ROOT).as_posix().startswith(tuple(GROUPS["extra"])), path


def groups_run_by(target: str) -> str:
    """Return the expression by which a target of the Makefile selects its tests."""
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return re.search(r'pytest .*-m "?([^"\n]+)', recipe[1])[1]


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="the sdist has no folder .ci")
def test_ci_runs_every_test_that_is_not_slow():
    commands = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    targets = [command.removeprefix("make ") for command in commands if command.startswith("make ")]
    assert targets == ["test", "test-long", "test-extras", "test-oldest"]
    selections = [groups_run_by(target) for target in targets]
    assert selections[-1] == "not slow"
    for long, extra in product([False, True], repeat=2):
        of_test = {"long": long, "extra": extra, "slow": False}
        assert sum(eval(selection, {}, of_test) for selection in selections[:-1]) == 1


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
