"""Write the answers of all fits with the versions that made them: ``python -m tests.golden.record [NAME ...]``."""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")

from tests.golden.cases import CASES, answers

NUMBERS = Path(__file__).with_name("numbers.json")
PACKAGES = ("numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions and the kind of machine, on which trees depend."""
    return {"machine": platform.machine()} | {package: version(package) for package in PACKAGES}


def made_here() -> bool:
    """Return whether the stored answers were made with these versions on this kind of machine."""
    return bool(json.loads(NUMBERS.read_text())["versions"] == versions())


def main(names: list[str]) -> None:
    """Write the answers of the named fits, or of all; the answers of other fits stay as they are stored."""
    stored = json.loads(NUMBERS.read_text()) if NUMBERS.exists() and names else {"answers": {}}
    fresh = {name: answers(name) for name in names or CASES}
    kept = {name: stored["answers"][name] for name in CASES if name in stored["answers"]}
    everything = {"versions": versions(), "answers": {**kept, **fresh}}
    lines = [
        f' "versions": {json.dumps(everything["versions"])}',
        ' "answers": {\n' + _cases(everything["answers"]) + "\n }",
    ]
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _cases(stored: dict[str, dict[str, list[float | str]]]) -> str:
    """Return one line for each question, so that a difference is seen at once."""
    cases = []
    for name, values in stored.items():
        lines = [f"   {json.dumps(question)}: {json.dumps(value)}" for question, value in values.items()]
        cases.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return ",\n".join(cases)


if __name__ == "__main__":
    main(sys.argv[1:])
