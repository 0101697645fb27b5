"""Command lines on unusual files: from a file to a report, a worksheet with answers, a second fit and new rows.

The commands run in this process. An error counts as clear if it was written for users, as for other calls; the results
of a successful command must be numbers and probabilities.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from calendar import month_name
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fuzz.base import Base, folder
from benchmarks.fuzz.judge import Ended, Trial
from scarless.cli import make_parser

Change = Callable[[str, np.random.Generator], str | bytes]  # of the text of a file
MAX_ROWS_OF_WORKSHEETS = 12
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = {f"{number:02d}": name for number, name in enumerate(month_name)}


def patients(base: Base) -> pd.DataFrame:
    """Return the base table as a table of patients, with a column for each role that a column can have."""
    rng, n = base.rng, base.s.size
    table = pd.DataFrame({f"a{j}": column.round(3) for j, column in enumerate(base.X.T)})
    table["id"] = [f"P{i:03d}" for i in range(n)]
    table["site"] = rng.choice(["north", "south", "far away"], n)
    table["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
    table["e"], table["w"] = base.e, base.w.round(2)
    table["found"] = np.where(base.s == 1, "yes", None)
    for k in (1, 2):
        seen = np.where(base.y * (rng.random(n) < base.e), "yes", "no").astype(object)
        seen[rng.random(n) < 0.1] = None
        table[f"look{k}"], table[f"hours{k}"] = seen, rng.gamma(2.0, size=n).round(2)
    table["audited"] = np.where(rng.random(n) < 0.2, np.where(base.y == 1, "yes", "no"), None)
    return table


def cells(column: str, *values: str, share: float = 0.3) -> Change:
    """Return a change that writes values into random cells of a column."""

    def change(text: str, rng: np.random.Generator) -> str:
        lines = [line.split(",") for line in text.split("\n")]
        names = [name.strip('"') for name in lines[0]]
        if column in names:
            j = names.index(column)
            for line in [each for each in lines[1:] if len(each) > max(j, 1) and rng.random() < share]:
                line[j] = values[int(rng.integers(len(values)))]
        return "\n".join(map(",".join, lines))

    return change


def whole(column: str, *values: str) -> Change:
    """Return a change that writes values into all cells of a column."""
    return cells(column, *values, share=1.0)


def _lines(edit: Callable[[list[str], np.random.Generator], list[str]]) -> Change:
    return lambda text, rng: "\n".join(edit(text.split("\n"), rng))


def _moved(text: str, rng: np.random.Generator) -> str:
    at = int(rng.integers(len(text) + 1))
    return text[at:] + text[:at]


FILES: dict[str, Change] = {
    "empty file": lambda text, rng: "",
    "only spaces": lambda text, rng: " \n \n",
    "header only": _lines(lambda lines, rng: lines[:1]),
    "no header": _lines(lambda lines, rng: lines[1:]),
    "1 row": _lines(lambda lines, rng: lines[:2]),
    "5 rows": _lines(lambda lines, rng: lines[:6]),
    "truncated": lambda text, rng: text[: int(rng.integers(len(text)))],
    "begins in the middle": _moved,
    "line ends of Windows": lambda text, rng: text.replace("\n", "\r\n"),
    "line ends of old Macs": lambda text, rng: text.replace("\n", "\r"),
    "byte order mark": lambda text, rng: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text, rng: text.encode("utf-16"),
    "Latin-1": lambda text, rng: text.replace("north", "Köln").encode("latin-1"),
    "zero bytes": lambda text, rng: text.replace("north", "\0"),
    "random bytes": lambda text, rng: rng.bytes(500),
    "semicolons": lambda text, rng: text.replace(",", ";"),
    "semicolons and decimal commas": lambda text, rng: text.replace(",", ";").replace(".", ","),
    "tabs": lambda text, rng: text.replace(",", "\t"),
    "spaces around cells": lambda text, rng: text.replace(",", " , "),
    "open quote": lambda text, rng: text.replace("north", '"north', 1),
    "cells in two lines": lambda text, rng: text.replace("north", '"nor\nth"'),
    "a cell too many": _lines(lambda lines, rng: [*lines[:3], f"{lines[min(3, len(lines) - 1)]},9", *lines[4:]]),
    "a cell too few": _lines(lambda lines, rng: [*lines[:3], lines[-1].rpartition(",")[0], *lines[4:]]),
    "empty last column": _lines(lambda lines, rng: [f"{line}," for line in lines]),
    "blank lines": lambda text, rng: text.replace("\n", "\n\n"),
    "a line of sums": lambda text, rng: text + "Total,99,99\n",
    "all rows twice": _lines(lambda lines, rng: lines[:1] + lines[1:-1] * 2),
    "sorted by text": _lines(lambda lines, rng: [lines[0], *sorted(lines[1:])]),
    "two columns of one name": lambda text, rng: text.replace("a1", "a0", 1),
    "column without a name": lambda text, rng: text.replace("a0", "", 1),
    "names with spaces": lambda text, rng: text.replace("a0", " a 0 ", 1),
    "names that are numbers": lambda text, rng: text.replace("a0", "0", 1).replace("a1", "1", 1),
    "name of a formula": lambda text, rng: text.replace("a0", "=1+1", 1),
    "name in quotes": lambda text, rng: text.replace("a0", "'a0'", 1),
    "names of results": lambda text, rng: text.replace("a0", "probability", 1).replace("a1", "rank", 1),
    "name in capitals": lambda text, rng: text.replace("found", "FOUND", 1),
    "no labels": whole("found", ""),
    "all labelled": whole("found", "yes"),
    "three label values": whole("found", "yes", "no", "perhaps"),
    "labels in other words": whole("found", "ja", "nein", ""),
    "labels as numbers": whole("found", "1", "0", "0", "0.0"),
    "negative word only": whole("found", "no", ""),
    "labels of numbers and words": cells("found", "1", "yes", "TRUE"),
    "odd numbers": cells("a0", "1e400", "-inf", "nan", "NA", "-", "1,5", "0x1F", "1_000", "½"),
    "huge numbers": cells("a0", "1e300", "-1e300", "99999999999999999999"),
    "tiny numbers": whole("a0", "1e-320", "0", "-1e-310"),
    "numbers with units": cells("a0", "5 kg", "7kg", "12 %"),
    "constant column": whole("a0", "3"),
    "empty column": whole("a0", ""),
    "text in numbers": cells("a0", "unknown", "?"),
    "dates in several forms": cells("when", "01.02.2023", "2023/02/30", "yesterday", "12/13/14", ""),
    "dates with points": lambda text, rng: _DATE.sub(r"\3.\2.\1", text),
    "dates with the month first": lambda text, rng: _DATE.sub(r"\2/\3/\1", text),
    "years with two digits": lambda text, rng: _DATE.sub(lambda found: f"{found[3]}.{found[2]}.{found[1][2:]}", text),
    "months with names": lambda text, rng: _DATE.sub(lambda found: f"{found[3]} {_MONTHS[found[2]]} {found[1]}", text),
    "some words in dates": cells("when", "soon", "unknown", "00.00.0000", share=0.01),
    "times with zones": cells("when", "2024-03-31T02:30:00+02:00", "2024-01-01 12:00"),
    "many categories": lambda text, rng: "\n".join(f"{line}x{i}" for i, line in enumerate(text.split("\n"))),
    "equal ids": whole("id", "P1"),
    "missing ids": cells("id", ""),
    "odd weights": cells("w", "-1", "0", "", "1e300", "x"),
    "weights of zero": whole("w", "0"),
    "odd propensities": cells("e", "0", "1.5", "-0.1", "", "nan"),
    "looks never made": whole("look1", ""),
    "looks that always find": whole("look1", "yes"),
    "equal looks": whole("look2", "yes", "no"),
    "odd looks": cells("look1", "maybe", "2", "-1"),
    "audits of nobody": whole("audited", ""),
    "odd audits": cells("audited", "maybe", "?", "0.5"),
    "only positive audits": whole("audited", "yes", "", ""),
}
SHEETS: dict[str, Change] = {
    "worksheet not filled in": lambda text, rng: text,
    "answers yes and no": whole("checked", "yes", "no"),
    "answers 1 and 0": whole("checked", "1", "0", "0"),
    "answers no": whole("checked", "no"),
    "odd answers": whole("checked", "yes", "maybe", "?"),
    "some answers": cells("checked", "yes", "no"),
    "other column name": lambda text, rng: whole("checked", "yes", "no")(text, rng).replace("checked", "Checked", 1),
    "rows in another order": _lines(lambda lines, rng: [lines[0], *lines[1:][::-1]]),
    "a row twice": _lines(lambda lines, rng: [*lines[:2], *lines[1:]]),
    "a row left out": _lines(lambda lines, rng: lines[:1] + lines[2:]),
    "no rows": _lines(lambda lines, rng: lines[:1]),
    "empty worksheet": lambda text, rng: "",
    "semicolons in the worksheet": lambda text, rng: whole("checked", "yes", "no")(text, rng).replace(",", ";"),
    "cut off": lambda text, rng: text[: int(rng.integers(len(text) + 1))],
    "random bytes in the worksheet": lambda text, rng: rng.bytes(200),
}
COLUMNS = ("a0", "a1", "site", "when", "found", "look1", "look2", "audited", "id", "w", "e", "nowhere", "", "all")
WORDS = ("", "nan", "-1", "0", "0.5", "1", "1.5", "inf", "x", "1e-9", "ä", "-", "yes", "any")
GOOD_ROLES = (
    ["--label", "found", "--propensity", "a1"],
    ["--label", "found", "--propensity", "site", "when"],
    ["--label", "found", "--propensity", "all"],
    ["--label", "found", "--propensity", "a1", "--groups", "site"],
    ["--label", "found", "--scar"],
    ["--label", "found", "--known-propensity", "e"],
    ["--label", "found", "--propensity", "a1", "--audit", "audited"],
    ["--looks", "look1", "look2", "--propensity", "a1", "--exclude", "found"],
    ["--looks", "look1", "look2", "--scar", "--not-shared"],
    ["--looks", "look1", "look2", "--propensity", "a1", "--visit-attributes", "hours=hours1,hours2"],
    ["--label", "found", "--propensity", "a1", "--prevalence", "0.5", "--prevalence-se", "0.05"],
    ["--label", "found", "--scar", "--label-frequency", "0.6"],
)
GOOD_OPTIONS = (
    ["--model", "logistic"],
    ["--model", "logistic"],
    ["--id", "id"],
    ["--sample-weight", "w"],
    ["--by", "site"],
    ["--text", "a1"],
    ["--number", "a0"],
    ["--pos-label", "yes"],
    ["--exclude", "hours1"],
    ["--level", "0.8"],
    ["--seed", "3"],
)
WORDS_OF = "prevalence prevalence-se label-frequency label-frequency-se level seed false-positive-rate pos-label"
WORDS_OF += " audit-labels separator encoding sheet"
COLUMNS_OF = "label audit known-propensity id sample-weight groups exclude by propensity classification-attributes"
COLUMNS_OF += " number text looks"
ODD_OPTIONS = {f"--{name}": WORDS for name in WORDS_OF.split()} | {f"--{name}": COLUMNS for name in COLUMNS_OF.split()}


def command_line(caller: Any, name: str, what: Any) -> None:
    """Describe a file, fit a model, draw a worksheet, use its answers, and rank new rows."""
    base, trial = caller.base, caller.trial
    place = folder() / "commands"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    before = Path.cwd()
    os.chdir(place)
    try:
        _all_commands(base, trial, caller.rate)
    finally:
        os.chdir(before)


def _all_commands(base: Base, trial: Trial, rate: float) -> None:
    rng, table = base.rng, patients(base).to_csv(index=False, lineterminator="\n")
    Path("rows.csv").write_bytes(_changed(table, FILES, trial, rng, rate))
    roles = list(GOOD_ROLES[int(rng.integers(len(GOOD_ROLES)))])
    more = [word for option in GOOD_OPTIONS if rng.random() < 0.2 for word in option]
    odd: list[str] = []
    for option, pool in ODD_OPTIONS.items():
        if rng.random() < rate / 8:
            odd += [option, pool[int(rng.integers(len(pool)))]]
    if odd:
        trial.arguments.append(f"options: {' '.join(map(repr, odd))}")
    with contextlib.suppress(Ended):
        run(trial, ["inspect", "rows.csv", *roles[:2]])
    run(trial, ["fit", "rows.csv", *roles, *more, *odd, "--out", "run", "--quiet"])
    check_results(trial, Path("run"))
    Path("new.csv").write_bytes(_changed(table, FILES, trial, rng, rate))
    with contextlib.suppress(Ended):
        run(trial, ["predict", "run", "new.csv", "--out", "ranked.csv"])
        check_ranks(trial, Path("ranked.csv"))
    purpose = ("prior", "find", "both")[int(rng.integers(3))]
    n = str(int(rng.integers(1, MAX_ROWS_OF_WORKSHEETS))) if rng.random() > rate else "100000"
    run(trial, ["audit", "run", "--n", n, "--purpose", purpose, "--out", "sheet.csv"])
    sheet = Path("sheet.csv").read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    answered = SHEETS["answers yes and no"](sheet, rng)
    Path("sheet.csv").write_bytes(_changed(str(answered), SHEETS, trial, rng, rate))
    run(trial, ["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "again", "--quiet"])
    check_results(trial, Path("again"))


def _changed(text: str, changes: dict[str, Change], trial: Trial, rng: np.random.Generator, rate: float) -> bytes:
    """Return the text of a file after none, one or two changes."""
    found: str | bytes = text
    for _ in range(2):
        if rng.random() < 2 * rate and isinstance(found, str):
            name = list(changes)[int(rng.integers(len(changes)))]
            trial.arguments.append(name)
            found = changes[name](found, rng)
    return found if isinstance(found, bytes) else found.encode("utf-8")


def run(trial: Trial, arguments: list[str]) -> None:
    """Run a command in this process; what it prints is dropped."""

    def command() -> None:
        try:
            options = make_parser().parse_args(arguments)
        except SystemExit as stop:
            trial.refused("SystemExit", "The command line was refused with a message.")
            raise Ended from stop
        options.command(options)

    with contextlib.redirect_stderr(io.StringIO()):
        trial.do(f"scarless {' '.join(arguments)}", command)


def check_results(trial: Trial, results: Path) -> None:
    """Judge what a fit has written: the summary has no NaN, and the ranks are probabilities."""
    summary = (results / "summary.json").read_text(encoding="utf-8")
    try:
        json.loads(summary, parse_constant=_refuse)
    except ValueError as error:
        trial.unclear("NaN", "summary.json", str(error))
    check_ranks(trial, results / "ranked.csv")


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is in the summary")


def check_ranks(trial: Trial, path: Path) -> None:
    ranked = pd.read_csv(path)
    for name in ("probability", "propensity", "posterior"):
        if name in ranked and not ranked[name].between(0.0, 1.0).all():
            trial.unclear("not in [0, 1]", f"{path.name}: {name}", ranked[name].describe().to_string())
