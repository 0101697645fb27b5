"""Run the commands that pages show, and write what they print below them.

    python tools/console.py

A block ``console`` of a page contains commands, each after ``$``, and below each command its output. The commands of
all pages run in one folder, which contains `examples`. A command that is on several pages runs once.
`tests/test_docs.py` compares the pages with the output.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/start.md", "docs/command-line.md", "README.md")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*\n)", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
COLUMNS = 100
PROGRAMS = {"scarless": [sys.executable, "-m", "scarless.cli"], "python": [sys.executable]}
# The last digits depend on the versions of the dependencies.
RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 0.1, 5.0


class Console:
    """A folder with the shipped examples, in which each command runs once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed: dict[str, str] = {}
        shutil.copytree(ROOT / "examples", folder / "examples")

    def run(self, command: str) -> str:
        """Return what a command prints; messages about its progress are left out."""
        program, *words = shlex.split(command.replace("\\\n", " "))
        key = shlex.join([program, *words])
        if key not in self.printed:
            environment = {**os.environ, "COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT / "src")}
            arguments = [*PROGRAMS[program], *words]
            done = subprocess.run(
                arguments, check=False, cwd=self.folder, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(f"{key} failed: {done.stderr}")
            self.printed[key] = done.stdout
        return self.printed[key]


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return the commands in the console blocks of a page, each with the output that the page shows."""
    found = []
    for block in BLOCK.findall(text):
        parts = COMMAND.split(block)[1:]
        found += list(zip(parts[::2], parts[1::2], strict=True))
    return found


def wrapped(line: str) -> str:
    """Return a sentence as a console shows it, without broken words; a line of a table stays as it is."""
    return (
        line if "  " in line.strip() else textwrap.fill(line, COLUMNS, break_long_words=False, break_on_hyphens=False)
    )


def with_output(text: str, console: Console) -> str:
    """Return a page with the output of its commands."""

    def run(command: re.Match[str]) -> str:
        lines = console.run(command[1]).rstrip().splitlines()
        return command[0] + "".join(f"{wrapped(line)}\n" for line in lines)

    def replaced(block: re.Match[str]) -> str:
        prompts = "".join(f"$ {command}" for command, _ in commands_of(block[0]))
        return f"```console\n{COMMAND.sub(run, prompts)}```"

    return BLOCK.sub(replaced, text)


def is_same(shown: str, printed: str, *, compare_numbers: bool = True) -> bool:
    """Return whether two texts have the same words and, unless told otherwise, about the same numbers."""
    texts = (" ".join(shown.split()), " ".join(printed.split()))
    words = [NUMBER.sub("0", text) for text in texts]
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in texts]
    if not compare_numbers:
        return words[0] == words[1]
    return words[0] == words[1] and all(
        isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE) for a, b in zip(*numbers, strict=True)
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        console = Console(Path(folder))
        for page in PAGES:
            path = ROOT / page
            path.write_text(with_output(path.read_text(encoding="utf-8"), console), encoding="utf-8")
            print(page)
