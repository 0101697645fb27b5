"""The checklist of a release: each item accepts a correct repository, and complains about one fault."""

import subprocess
import zipfile
from types import SimpleNamespace
from urllib.error import HTTPError, URLError

import pytest
from tests.helpers import load_tool

release = load_tool("release")
FILES = {
    "pyproject.toml": '[project]\nversion = "1.2.3"\nlicense-files = ["LICENSE", "THIRD_PARTY_NOTICES.md"]\n',
    "CITATION.cff": "version: 1.2.3\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2026-01-31)\n\n- Something new.\n\n## 1.2.2 (2026-01-01)\n\n- Old.\n",
    "conda/recipe/meta.yaml": '{% set version = "1.2.3" %}\n',
    "docs/conf.py": "release = scarless.__version__\n",
    "docs/one.md": (
        "# One\n\nSee [two](two.md#a-second-heading), [here](#one), {doc}`two`, {doc}`x <auto_gallery/plot_a>` and "
        "[the site](https://example.org/page).\n"
    ),
    "docs/two.md": "# Two\n\n(mark)=\n## A *second* heading!\n\n```\n[no link](nowhere.md)\n# no heading\n```\n",
    "docs/gallery/plot_a.py": "",
    "docs/api.txt": "",
    "src/scarless/a.py": '"""See docs/one.md."""\n',
    "data.csv": "a,b\n",
    "LICENSE": "",
    "THIRD_PARTY_NOTICES.md": (
        "## Files with data of other people\n\n| File | Content | Source | Licence |\n|---|---|---|---|\n"
        "| `data.csv` | a | b | CC0 |\n\n## Files that we made\n\n| `docs/api.*` | written |\n"
    ),
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return a small repository in which every item is done."""
    monkeypatch.setattr(release, "installed_version", lambda: "1.2.3")
    for name, text in FILES.items():
        write(tmp_path, name, text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    commit(tmp_path)
    return tmp_path


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def commit(root):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    subprocess.run(["git", *who, "commit", "--quiet", "-m", "All"], cwd=root, check=True)


OFFLINE = [item.name for item in release.ITEMS if not item.slow and not item.online and item.name != "api"]


@pytest.mark.parametrize("name", OFFLINE)
def test_a_correct_repository_has_no_complaints(root, name):
    assert item(name).complaints(root) == []


def item(name):
    return next(each for each in release.ITEMS if each.name == name)


@pytest.mark.parametrize(
    ("name", "file", "text", "complaint"),
    [
        (
            *("versions", "CITATION.cff", "version: 1.2.2\n"),
            "CITATION.cff has 1.2.2, pyproject.toml has 1.2.3: make them equal",
        ),
        (
            *("versions", "conda/recipe/meta.yaml", "package:\n"),
            "conda/recipe/meta.yaml has no version, pyproject.toml has 1.2.3: make them equal",
        ),
        (
            *("versions", "docs/conf.py", "release = '1.2.3'\n"),
            "docs/conf.py does not take its version from scarless.__version__: write it so",
        ),
        (
            *("changelog", "CHANGELOG.md", "# Changelog\n\n## 1.2.3 (not yet released)\n\n- New.\n"),
            "the first heading of CHANGELOG.md is '1.2.3 (not yet released)': write the date of the release, as "
            "(2026-01-31)",
        ),
        (
            *("changelog", "CHANGELOG.md", "# Changelog\n\n## 1.2.3 (2026-01-31)\n\n## 1.2.2 (2026-01-01)\n\n- Old.\n"),
            "the first section of CHANGELOG.md is empty: list what changed",
        ),
        (
            *("links", "docs/two.md", "[three](three.md)\n\n# A second heading\n"),
            "docs/two.md links to three.md, which does not exist",
        ),
        (
            *("links", "docs/two.md", "# Another heading\n"),
            "docs/one.md links to two.md#a-second-heading, which does not exist",
        ),
        (
            *("links", "docs/three.md", "{doc}`auto_gallery/plot_z`\n"),
            "docs/three.md names the page auto_gallery/plot_z, which does not exist",
        ),
        (
            *("links", "src/scarless/a.py", '"""See docs/gone.md."""\n'),
            "a docstring of src/scarless/a.py names docs/gone.md, which does not exist",
        ),
        (
            *("paths", "docs/two.md", "# A second heading\n\nRun /home/anna/scarless/run.py or /root/x\n"),
            "docs/two.md contains /home/anna: write a relative path",
        ),
        (
            *("paths", "data.csv", "C:\\Users\\anna\n"),
            "data.csv contains C:\\Users\\anna: write a relative path",
        ),
        (
            *("notices", "other.csv", "a\n"),
            "other.csv is not in THIRD_PARTY_NOTICES.md: list it with source and licence",
        ),
        (
            *("notices", "THIRD_PARTY_NOTICES.md", FILES["THIRD_PARTY_NOTICES.md"] + "| `gone.csv` | made |\n"),
            "THIRD_PARTY_NOTICES.md lists gone.csv, which does not exist: remove the line",
        ),
        (
            *("notices", "THIRD_PARTY_NOTICES.md", FILES["THIRD_PARTY_NOTICES.md"].replace("| CC0 |", "|  |")),
            "THIRD_PARTY_NOTICES.md: the line of `data.csv` needs content, source and licence",
        ),
        (
            *("licences", "pyproject.toml", '[project]\nversion = "1.2.3"\nlicense-files = ["LICENSE"]\n'),
            "pyproject.toml: add THIRD_PARTY_NOTICES.md to license-files",
        ),
    ],
    ids=[
        *("citation", "recipe", "documentation", "no date", "empty section", "file", "heading", "page", "docstring"),
        *("home folder", "folder of Windows", "unlisted", "listed and gone", "no licence", "not in the package"),
    ],
)
def test_a_fault_is_named(root, name, file, text, complaint):
    write(root, file, text)
    commit(root)
    assert complaint in item(name).complaints(root)


def test_an_installed_version_that_is_old_and_a_version_in_development_are_named(root, monkeypatch):
    monkeypatch.setattr(release, "installed_version", lambda: "1.2.2")
    assert item("versions").complaints(root) == [
        "scarless.__version__ is 1.2.2, pyproject.toml has 1.2.3: run pip install -e ."
    ]
    monkeypatch.setattr(release, "installed_version", lambda: "1.2.3.dev0")
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "conda/recipe/meta.yaml"):
        write(root, name, FILES[name].replace("1.2.3", "1.2.3.dev0"))
    assert item("versions").complaints(root) == [
        "1.2.3.dev0 is no version of a release: remove what follows the three numbers"
    ]


def test_missing_notices_and_licences_are_named(root):
    for name in ("THIRD_PARTY_NOTICES.md", "LICENSE"):
        (root / name).unlink()
    assert item("notices").complaints(root) == [
        "THIRD_PARTY_NOTICES.md does not exist: list the files that are not ours, with source and licence"
    ]
    assert item("licences").complaints(root) == [
        "LICENSE does not exist: write it",
        "THIRD_PARTY_NOTICES.md does not exist: write it",
    ]


def test_uncommitted_files_and_an_existing_tag_are_named(root):
    write(root, "new.md", "")
    assert item("tree").complaints(root) == ["1 files are not committed, such as new.md: commit or remove them"]
    subprocess.run(["git", "tag", "v1.2.3"], cwd=root, check=True)
    assert item("tag").complaints(root) == ["the tag v1.2.3 exists: choose the next version"]


def test_links_to_other_sites_are_opened(root, monkeypatch):
    asked = []

    def urlopen(request, timeout):
        asked.append(request.full_url)
        raise HTTPError(request.full_url, 404, "Not Found", {}, None)

    monkeypatch.setattr(release, "urlopen", urlopen)
    assert item("outside-links").complaints(root) == ["docs/one.md: https://example.org/page answers 404"]
    assert asked == ["https://example.org/page"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (HTTPError("", 403, "Forbidden", {}, None), None),
        (HTTPError("", 410, "Gone", {}, None), "answers 410"),
        (URLError("no such host"), "cannot be opened (no such host)"),
    ],
    ids=["refused", "gone", "unknown"],
)
def test_why_a_link_fails(error, why, monkeypatch):
    def urlopen(request, timeout):
        raise error

    monkeypatch.setattr(release, "urlopen", urlopen)
    assert release.failure("https://example.org") == why


def finished(returncode=0, stdout="", stderr=""):
    return SimpleNamespace(returncode=returncode, stdout=stdout, stderr=stderr)


def test_a_public_interface_that_changed_is_named(root, monkeypatch):
    write(root, "docs/api.txt", "one\ntwo\n")
    monkeypatch.setattr(release, "python", lambda *_: finished(stdout="one\ntwo\n\n"))
    assert item("api").complaints(root) == []
    monkeypatch.setattr(release, "python", lambda *_: finished(stdout="one\nthree\n\n"))
    assert item("api").complaints(root) == [
        "docs/api.txt is not current: run python tools/public_api.py, and name the change in the CHANGELOG"
    ]
    monkeypatch.setattr(release, "python", lambda *_: finished(1, stderr="Traceback\nLookupError: no\n"))
    assert item("api").complaints(root) == ["tools/public_api.py failed: LookupError: no"]


def test_an_example_that_fails_is_named(root, monkeypatch):
    write(root, "examples/patients.csv", "a\n")
    monkeypatch.setattr(release, "python", lambda *_: finished(1, stdout="1 failed"))
    assert item("examples").complaints(root) == [
        "an example failed (1 failed): run pytest README.md docs",
        "examples/make_patients.py does not write examples/patients.csv as it is: run it, or mend it",
        "examples/make_patients.py does not write examples/next-month.csv as it is: run it, or mend it",
    ]


def test_a_distribution_that_fails_or_contains_a_path_is_named(root, monkeypatch):
    monkeypatch.setattr(release, "python", lambda *_: finished(1, stderr="The wheel would also install x.\n"))
    assert item("dist").complaints(root) == ["make test-dist failed: The wheel would also install x."]

    def build(_, program, option, folder):
        with zipfile.ZipFile(f"{folder}/a.whl", "w") as wheel:
            wheel.writestr("a/b.py", "x = '/Users/eve/checkout'\n")
        return finished()

    monkeypatch.setattr(release, "python", build)
    assert item("dist").complaints(root) == ["a.whl: a/b.py contains /Users/eve: write a relative path"]


def test_the_texts_of_an_sdist_are_read(tmp_path):
    import tarfile

    write(tmp_path, "folder/a.py", "/tmp/x\n")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "folder", "folder")
    assert list(release.packed_texts(tmp_path / "a.tar.gz")) == [("folder/a.py", "/tmp/x\n")]


def test_paths_of_machines_are_found():
    text = (
        "See https://a.org/home/x, ~/my/x, docs/tmp/x, "
        + "/home"
        + "/somebody/y, '/Users/eve/z' and D:\\\\Users\\\\bob\\\\c."
    )
    assert release.machine_paths(text) == ["/Users/eve", "D:\\\\Users\\\\bob"]


def test_the_program_prints_one_line_for_each_item_and_its_status(root, monkeypatch, capsys):
    monkeypatch.setattr(release, "python", lambda *_: finished(stdout="\n"))
    assert release.main(["--check", "--fast"], root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ok      versions: the version is the same everywhere"
    assert len(lines) == len(OFFLINE) + 2
    assert lines[-1] == "Not checked: outside-links, examples, dist."
    for k in range(4):
        write(root, f"{k}.csv", "")
    commit(root)
    assert release.main(["--check", "--fast"], root) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(("ok", "Not"))]
    assert line.startswith("not ok  notices: 0.csv is not in ")
    assert line.endswith("; 2 more, see --only notices")
    assert release.main(["--only", "notices"], root) == 1
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_the_list_of_items_is_printed(capsys):
    assert release.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(release.ITEMS)
    assert "outside-links: links to other sites can be opened (with --online)" in lines
    assert "dist: wheel and sdist can be built, installed and used (slow)" in lines


@pytest.mark.parametrize("name", ["links", "notices", "licences", "paths"])
def test_this_repository_passes(name):
    """These items must hold at any time, not only for a release."""
    if not (release.ROOT / ".git").exists():
        pytest.skip("an unpacked sdist has no list of tracked files")
    assert item(name).complaints(release.ROOT) == []
