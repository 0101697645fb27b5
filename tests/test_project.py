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


def test_every_test_in_the_list_of_slow_tests_exists():
    """If a slow test is renamed and SLOW is not, `make test` would run it."""
    tree = ast.parse((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    (slow,) = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SLOW"
    ]
    for prefix in ast.literal_eval(slow):
        path, _, name = prefix.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        texts = [found.read_text(encoding="utf-8") for found in ROOT.glob(f"{path}*")]
        assert any(f"def {function}" in text or not function for text in texts), prefix


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
