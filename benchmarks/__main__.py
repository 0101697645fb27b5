"""``python -m benchmarks NAME``: run one of the benchmark programs."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
# The programs, by name, and their modules.
PROGRAMS = {
    "core": "core",
    "label_frequency": "label_frequency",
    "plain_tice": "plain_tice",
    "paper_em": "paper_em",
    "datasets": "datasets",
    "kill_and_resume": "kill_and_resume",
    "reproduce": "reproduce",
    "starts": "starts",
    "selection": "selection",
    "uncertainty": "uncertainty",
    "scar_test": "scar_test",
    "scorers": "scorers",
    "yield_curves": "yield_curves",
    "groups": "groups",
    "drift": "drift",
    "other_tables": "other_tables.__main__",
    "boosted": "boosted",
    "few_labels": "few_labels",
    "class_prior_weights": "class_prior_weights",
    "information": "information",
    "audits": "audits",
    "trials": "trials",
    "worksheets": "worksheets",
    "occupancy": "occupancy",
    "occupancy_examples": "occupancy_examples",
    "occupancy_simulated": "occupancy_simulated",
    "scale": "scale.__main__",
    "scale_cost": "scale.cost_model",
    "device": "device",
    "networks": "networks.__main__",
    "fuzz": "fuzz.__main__",
    "page": "page",
}
ALL = ("core", "label_frequency", "selection", "uncertainty", "scar_test", "scorers", "starts")
USAGE = f"""usage: python -m benchmarks NAME [options]

  python -m benchmarks NAME --help   describes a program: what it measures, its data, how long it takes, its options
  python -m benchmarks all           runs {", ".join(ALL)}; takes several hours
  python -m benchmarks page          writes the results page, benchmarks/README.md

programs:
"""


def summary(module: str) -> str:
    """Return the first line of a module's docstring.

    The module is not imported, because it may need packages that are not installed.
    """
    path = HERE.joinpath(*module.split(".")).with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]


def listing() -> str:
    """Return the usage and all programs, one line each."""
    width = max(map(len, PROGRAMS)) + 2
    return USAGE + "\n".join(f"  {name:<{width}}{summary(module)}" for name, module in PROGRAMS.items())


def run(name: str, arguments: list[str]) -> int:
    """Run a program; return its exit status."""
    return importlib.import_module(f"benchmarks.{PROGRAMS[name]}").main(arguments) or 0


def main(arguments: list[str]) -> int:
    """Run the program that the arguments name, or list all programs."""
    name, *rest = arguments or ["--list"]
    if name in ("--list", "-h", "--help"):
        print(listing())
        return 0
    if name == "all":
        return max(run(each, []) for each in ALL)
    if name not in PROGRAMS:
        print(f"Unknown program {name!r}. `python -m benchmarks` lists all programs.", file=sys.stderr)
        return 2
    return run(name, rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
