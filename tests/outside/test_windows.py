"""What differs on Windows, as far as it can be imitated on another system. scarless was never run on Windows."""

import ast
import io
import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import scarless
from scarless.analysis.settings import move_into_place, write_toml
from scarless.cli import main
from scarless.cli.screen import every_character, shell
from scarless.outside import shell_words
from scarless.outside.files import aside, write_whole

ROOT = Path(__file__).parents[2]
SOURCE = Path(scarless.__file__).parent
RESERVED_CHARACTERS = set('<>:"|?*\\')
RESERVED_NAMES = {"con", "prn", "aux", "nul", *(f"{kind}{k}" for kind in ("com", "lpt") for k in range(1, 10))}


@pytest.fixture
def windows_shell(monkeypatch):
    monkeypatch.setattr(shell_words, "os", SimpleNamespace(name="nt"))


# --- commands that are shown to users


@pytest.mark.parametrize(
    "word",
    ["visits", "date of visit", 'a "b" c', "C:\\my data\\rows.csv", "ends with \\", 'x y\\"', "C:\\data\\rows.csv"],
    ids=["plain", "spaces", "quotes", "folder with a space", "backslash at the end", "backslash and quote", "folder"],
)
def test_words_are_quoted_as_programs_on_windows_read_them(windows_shell, word):
    """Compare with the rules of Microsoft's C library, as Python implements them."""
    assert shell_words.quoted(word) == subprocess.list2cmdline([word])


def test_words_with_characters_of_the_command_prompt_are_quoted(windows_shell):
    assert shell_words.quoted("a&b") == '"a&b"'
    assert shell("fit", "a&b.csv", "c d") == 'scarless fit "a&b.csv" "c d"'


def test_words_are_quoted_for_unix_elsewhere():
    if os.name == "nt":
        pytest.skip("this is Windows")
    assert shell_words.quoted_words(["scarless", "fit", "a b.csv", "c&d"]) == "scarless fit 'a b.csv' 'c&d'"


# --- files


def test_a_file_that_another_program_has_open_is_named(tmp_path, monkeypatch):
    """Windows does not replace open files. The error of the system would name the temporary file."""
    path = tmp_path / "ranked.csv"
    path.write_bytes(b"old")

    def refuse(source, target):
        raise PermissionError(13, "Access is denied", str(source))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PermissionError, match=r"it cannot be replaced\. Close the program that has it open") as found:
        write_whole(path, "new")
    assert found.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_results_that_cannot_be_replaced_stay(tmp_path, monkeypatch):
    folder, new = tmp_path / "run", tmp_path / "new"
    for each in (folder, new):
        each.mkdir()
        (each / "summary.json").write_bytes(each.name.encode())
    rename, calls = Path.rename, []

    def fail_at_the_second_step(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise PermissionError(13, "Access is denied", str(source))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", fail_at_the_second_step)
    with pytest.raises(PermissionError, match="it cannot be replaced") as found:
        move_into_place(new, folder)
    assert found.value.filename == str(folder)
    assert (folder / "summary.json").read_bytes() == b"run"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new", "run"]
    monkeypatch.setattr(Path, "rename", rename)
    move_into_place(new, folder)
    assert (folder / "summary.json").read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_the_temporary_file_is_closed_before_it_replaces_another(tmp_path):
    with aside(tmp_path / "a.txt") as temporary:
        temporary.write_bytes(b"x")
        assert temporary.parent == tmp_path  # a rename to another drive fails
    assert (tmp_path / "a.txt").read_bytes() == b"x"


def test_settings_keep_paths_with_backslashes():
    values = {"file": "C:\\new\\tables\\u.csv", "label": "y"}
    assert tomllib.loads(write_toml(values)) == values


def files_that_mention(folder: Path, words: set[str]) -> dict[Path, ast.Module]:
    """Return the syntax of the Python files that contain one of the words; reading all would take seconds."""
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    return {path: ast.parse(text) for path, text in texts.items() if any(word in text for word in words)}


def wrong_calls(folder: Path) -> list[tuple[str, str]]:
    """Return each call that Windows does not know, or that writes other bytes there: the file and the called name."""
    wrong = {"os.rename", "os.fork", "os.symlink", "os.link", "signal.alarm", "os.kill"}
    calls = [
        (path.relative_to(folder).as_posix(), ast.unparse(node.func))
        for path, tree in files_that_mention(folder, wrong | {".write_text"}).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]
    return [call for call in calls if call[1] in wrong or call[1].endswith(".write_text")]


def test_the_source_writes_the_same_bytes_on_every_system(tmp_path):
    """`write_text` changes line ends on Windows; `write_whole` does not. `os.rename` does not replace files there."""
    assert wrong_calls(SOURCE) == []
    (tmp_path / "a.py").write_bytes(b"import os\nos.rename('a', 'b')\npath.write_text('c')\nos.path.join('kill')\n")
    assert wrong_calls(tmp_path) == [("a.py", "os.rename"), ("a.py", "path.write_text")]


def imports_of_unix(folder: Path) -> list[str]:
    names = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"}
    return [
        path.name
        for path, tree in files_that_mention(folder, {f"import {name}" for name in names}).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) and names & {alias.name for alias in node.names}
    ]


def test_modules_of_unix_are_imported_only_in_one_place(tmp_path):
    assert imports_of_unix(SOURCE) == []  # outside/files.py imports them by name, with a fallback
    (tmp_path / "a.py").write_bytes(b"def f():\n    import fcntl\n")
    (tmp_path / "b.py").write_bytes(b"'import fcntl'\n")
    assert imports_of_unix(tmp_path) == ["a.py"]


def test_the_names_of_all_files_are_allowed_on_windows():
    if not (ROOT / ".git").exists():
        pytest.skip("an unpacked sdist has no list of tracked files")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode()
    names = listed.strip("\0").split("\0")
    assert [name for name in names if RESERVED_CHARACTERS & set(name) or len(name) > 150] == []
    parts = [part.partition(".")[0].lower() for name in names for part in name.split("/")]
    assert RESERVED_NAMES.isdisjoint(parts)
    assert [name for name, count in Counter(name.lower() for name in names).items() if count > 1] == []


# --- the console


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii"])
def test_a_column_that_the_console_cannot_show_is_printed_with_escapes(encoding, tmp_path, monkeypatch):
    rows = "\n".join(f"{k % 7},{k % 3},{'yes' if k % 5 == 0 and k % 3 else ''}" for k in range(120))
    (tmp_path / "rows.csv").write_bytes(f"größe日,b,y\n{rows}\n".encode())
    monkeypatch.chdir(tmp_path)
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=encoding))
    assert main(["inspect", "rows.csv", "--label", "y"]) == 0
    sys.stdout.flush()
    assert "\\u65e5" in printed.getvalue().decode(encoding)
    assert sys.stdout.errors == "strict"


def test_every_character_can_be_printed(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="cp1252"))
    with pytest.raises(UnicodeEncodeError):
        print("日")
    with every_character():
        print("日 ö", end="")
    sys.stdout.flush()
    assert printed.getvalue().endswith("\\u65e5 ö".encode("cp1252"))
