"""Errors and coverage of yield_curve: how many of the highest-ranked rows are positive.

Data: the tables of `few_labels` with at most 60 columns, at most 2,000 rows each. Labels are drawn by mechanisms of
`other_tables` that depend on attributes of the table. The fits get the names of these attributes.
Time: about half an hour. Runs that were measured before are skipped.

Each run compares the expected share of positives among the first 50 unlabelled rows (20 if fewer than 150 are
unlabelled) with the true share.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from benchmarks import few_labels
from benchmarks.other_tables import tasks
from benchmarks.runner import add_record_option, append_row, command_parser, print_table, read_rows, record_table
from scarless import SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.diagnostics import yield_curve
from scarless.labelling import simulate_labels

NAME = "yield_curves"
MECHANISMS = ("own 1 weak c=.5", "own 2 weak c=.5", "own 1 strong c=.5", "own 1 weak c=.2", "step")
METHODS = {"search": SAREMClassifierCV, "stack": SARStackingClassifier, "logistic": SAREMClassifier}
SEED = 2026
MAX_ROWS, MAX_COLUMNS = 2_000, 60


def tables() -> list[str]:
    """Return the names of the tables that have few enough columns."""
    return [name for name in few_labels.PUBLISHED_ORACLE if few_labels.load(name)[0].shape[1] <= MAX_COLUMNS]


def run() -> None:
    """Measure the runs that have no stored result."""
    done = {(row["dataset"], row["mechanism"], row["method"]) for row in read_rows(NAME)}
    for mechanism in MECHANISMS:
        for table in tables():
            for method in METHODS:
                if (table, mechanism, method) not in done:
                    append_row(NAME, score(table, mechanism, method))


def score(table: str, mechanism: str, method: str) -> dict[str, object]:
    """Fit a method, and compare the expected share of positives among the first rows with the true share."""
    rng = np.random.default_rng(tasks.seed_of(table, mechanism, SEED))
    X, y = few_labels.load(table)
    rows = rng.permutation(y.size)[:MAX_ROWS]
    X, e, named = tasks.MECHANISMS[mechanism](X[rows], y[rows], rng)
    s = simulate_labels(y[rows], e, random_state=int(rng.integers(2**31)))
    n = 50 if (s == 0).sum() >= 150 else 20
    row: dict[str, object] = {"dataset": table, "mechanism": mechanism, "method": method, "labelled": int(s.sum())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method](propensity_attributes=named, random_state=0).fit(X, s)
        found = yield_curve(model, X, s, n=n, compare=False)
        plain = float(np.sort(model.predict_posterior(X, s)[s == 0])[-n:].mean())
    ends = (float(end[0] / n) for end in (found.expected, found.low, found.high))
    expected, low, high = ends
    truth = float(y[rows][found.order].mean())
    return row | {"n": n, "truth": truth, "posterior": plain, "expected": expected, "low": low, "high": high,
                  "told": found.informative}  # fmt: skip


def table(record: bool) -> None:
    """Print errors and coverage over the runs whose fit does not conclude that every positive is labelled."""
    lines = []
    for method in METHODS:
        found = [row for row in read_rows(NAME) if row["method"] == method]
        informative = [row for row in found if row["told"]]
        if informative:
            truth, plain, expected, low, high = (
                np.array([row[name] for row in informative])
                for name in ("truth", "posterior", "expected", "low", "high")
            )
            errors = [f"{np.abs(each - truth).mean():.3f}" for each in (plain, expected)]
            covers = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
            counts = [f"{len(found)}", f"{len(informative)}"]
            lines.append([method, *counts, *errors, f"{covers.mean():.2f}", f"{(high - low).mean():.2f}"])
    heads = ["method", "runs", "informative runs", "error of posteriors", "error", "coverage", "width"]
    print_table(heads, lines)
    if record:
        record_table(NAME, "errors", heads, lines)


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
