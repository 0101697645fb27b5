"""Worksheets: three rounds of 50 checked rows, with simulated answers.

Data: simulated patients (examples/make_patients.py), for which the models have the right form; and samples of 3,000
rows of Adult, Cover Type and Diabetes, for which they do not, from ../shared/data or the folder in the environment
variable SCARLESS_DATA.
Time: about an hour on one core. Runs that were measured before are skipped.

The rows are chosen by `scarless audit` (purpose prior), or drawn at random. Measured are the interval of the class
prior of the model, the interval from the answers and their probabilities, and the test of agreement.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.datasets import load
from benchmarks.runner import add_record_option, append_row, command_parser, print_table, read_rows, record_table
from scarless.analysis import Settings, analyse_table
from scarless.analysis.audit_history import NO, YES, with_answers
from scarless.analysis.worksheet import StoredFit, worksheet_of
from scarless.numerics.uncertainty import find_root

NAME = "worksheets"
N_ROUNDS, N_ROWS_OF_SHEET = 3, 50
N_RUNS = {("patients", "optimal"): 100}
N_RUNS |= {(name, design): 10 for name in ("adult", "covtype", "diabetes") for design in ("optimal", "random")}
N_RUNS |= {("patients", "random"): 20}
N_ROWS, N_COLUMNS, LABEL_FREQUENCY = 3_000, 20, 0.3
FIRST_SEED = 4_000  # of the patients; other seeds were used to develop the design


def patients(seed: int) -> tuple[pd.DataFrame, np.ndarray, Settings]:
    """Return simulated patients, their true classes, and the settings of the fit."""
    path = Path(__file__).parents[1] / "examples" / "make_patients.py"
    spec = importlib.util.spec_from_file_location("make_patients", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    table, y = module.make_patients(seed=FIRST_SEED + seed)
    return table, np.asarray(y), Settings("diagnosed", ("visits", "insurance"), id="patient", model="search")


def real_table(name: str, seed: int) -> tuple[pd.DataFrame, np.ndarray, Settings]:
    """Return a sample of a real table with simulated labels, which depend on three of its columns."""
    X, y, _ = load(name)
    rng = np.random.default_rng([seed, 28])
    rows = rng.choice(len(y), N_ROWS, replace=False)
    X, y = X[rows], y[rows] == 1
    X = X[:, np.argsort(-X.std(axis=0))[:N_COLUMNS]]
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    columns = rng.choice(np.flatnonzero(X.std(axis=0) > 0), 3, replace=False)
    v = X[:, columns] @ rng.normal(size=3)
    intercept = find_root(lambda b: float(expit(v[y] + b).mean()) - LABEL_FREQUENCY, -30.0, 30.0)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table["row_id"] = [f"R{i}" for i in range(len(table))]
    table["s"] = (y & (rng.random(y.size) < expit(v + intercept))).astype(int)
    return table, y, Settings("s", tuple(f"x{j}" for j in columns), id="row_id", model="search")


def play(dataset: str, design: str, seed: int) -> Iterator[dict[str, object]]:
    """Play three rounds of worksheets, and measure the estimates after each of them."""
    table, y, settings = patients(seed) if dataset == "patients" else real_table(dataset, seed)
    found = analyse_table(table, settings)
    truth, history, expected = float(y.mean()), None, np.nan
    for number in range(N_ROUNDS + 1):
        low, high = found.subject.prior_interval()
        row: dict[str, object] = {"dataset": dataset, "design": design, "seed": seed, "round": number}
        row |= {"width": high - low, "covered": bool(low <= truth <= high), "expected_width": expected}
        row["error"] = abs(float(found.subject.inner.class_prior_) - truth)
        if found.changes is not None:
            other = found.changes.difference
            row |= {"other_width": other.interval[1] - other.interval[0], "p_value": found.changes.agreement.p_value}
            row["other_covered"] = bool(other.interval[0] <= truth <= other.interval[1])
        yield row
        if number == N_ROUNDS:
            return
        fit = StoredFit.of_analysis(found)
        designs = (design,)
        sheet = worksheet_of(fit, N_ROWS_OF_SHEET, Path("unused"), designs=designs, random_state=10 * seed + number)
        expected, history = sheet.expected_width, sheet.history
        asked = history.sheet == len(history.sheets)
        answer = history.answer.copy()
        answer[asked] = np.where(y[asked], YES, NO)
        history = replace(history, answer=answer)
        joined, history, _ = history.join(table, "")
        found = analyse_table(joined, with_answers(settings), history=history)


def run() -> None:
    """Measure the runs that have no stored result."""
    done = {(row["dataset"], row["design"], row["seed"]) for row in read_rows(NAME) if row["round"] == N_ROUNDS}
    for (dataset, design), n_runs in N_RUNS.items():
        for seed in range(n_runs):
            if (dataset, design, seed) not in done:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for row in list(play(dataset, design, seed)):
                        append_row(NAME, row)


def table(record: bool) -> None:
    """Print mean widths and coverages of each table, design and round."""
    names = ("width", "expected_width", "covered", "error", "other_width", "other_covered")
    lines = []
    for dataset, design in N_RUNS:
        for number in range(N_ROUNDS + 1):
            wanted = (dataset, design, number)
            rows = [row for row in read_rows(NAME) if (row["dataset"], row["design"], row["round"]) == wanted]
            if rows:
                means = [_mean(rows, name) for name in names]
                rejected = np.mean([row["p_value"] < 0.05 for row in rows]) if number else np.nan
                label = f"{dataset}, {design}, {N_ROWS_OF_SHEET * number} checks"
                lines.append([label, f"{len(rows)}", *(_shown(each) for each in (*means, rejected))])
    heads = ["case", "runs", "width", "expected", "coverage", "error", "other_width", "other_coverage", "rejected"]
    print_table(heads, lines)
    if record:
        record_table(NAME, "rounds", heads, lines)


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row.get(name, np.nan) for row in rows]))


def _shown(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def main(arguments: list[str]) -> None:
    parser = command_parser(NAME, __doc__)
    parser.add_argument("command", choices=("run", "table"), help="run: measure; table: print what was measured so far")
    add_record_option(parser)
    options = parser.parse_args(arguments)
    if options.command == "run":
        run()
    table(options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
