"""``python -m benchmarks.yields run | table``: of the rows that rank highest, how many are positive?

The tables of ``benchmarks.few`` with at most 60 columns, at most 2,000 rows, labels hidden by mechanisms of
``benchmarks.elsewhere`` that depend on the tables' own attributes, these attributes named. `yield_curve` says how many
of the first 50 rows (20 where fewer than 150 are unlabelled) are positive, before and after held-out labels moved it;
the table then tells. Rows are added to ``results/yields.jsonl``; what is there already is skipped.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from benchmarks import elsewhere_tasks, few
from benchmarks.elsewhere_report import print_table
from benchmarks.runner import append_row, read_rows
from scarless import SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.diagnostics import yield_curve
from scarless.labelling import simulate_labels

NAME = "yields"
MECHANISMS = ("own 1 weak c=.5", "own 2 weak c=.5", "own 1 strong c=.5", "own 1 weak c=.2", "step")
METHODS = {"search": SAREMClassifierCV, "stack": SARStackingClassifier, "logistic": SAREMClassifier}
SEED = 2026
MOST_ROWS, MOST_COLUMNS = 2_000, 60


def tables() -> list[str]:
    """Return the tables that are narrow enough."""
    return [name for name in few.PUBLISHED_ORACLE if few.load(name)[0].shape[1] <= MOST_COLUMNS]


def run() -> None:
    """Score what is not there yet."""
    done = {(row["dataset"], row["mechanism"], row["method"]) for row in read_rows(NAME)}
    for mechanism in MECHANISMS:
        for table in tables():
            for method in METHODS:
                if (table, mechanism, method) not in done:
                    append_row(NAME, score(table, mechanism, method))


def score(table: str, mechanism: str, method: str) -> dict[str, object]:
    """Fit a method, and compare what it expects of its first rows with the truth."""
    rng = np.random.default_rng(elsewhere_tasks.seed_of(table, mechanism, SEED))
    X, y = few.load(table)
    rows = rng.permutation(y.size)[:MOST_ROWS]
    X, e, named = elsewhere_tasks.MECHANISMS[mechanism](X[rows], y[rows], rng)
    s = simulate_labels(y[rows], e, random_state=int(rng.integers(2**31)))
    n = 50 if (s == 0).sum() >= 150 else 20
    row: dict[str, object] = {"dataset": table, "mechanism": mechanism, "method": method, "labelled": int(s.sum())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method](propensity_attributes=named, random_state=0).fit(X, s)
        found = yield_curve(model, X, s, n=n)
        plain = float(np.sort(model.predict_posterior(X, s)[s == 0])[-n:].mean())
    ends = (float(end[0] / n) for end in (found.expected, found.low, found.high))
    expected, low, high = ends
    truth = float(y[rows][found.order].mean())
    return row | {"n": n, "truth": truth, "posterior": plain, "expected": expected, "low": low, "high": high,
                  "told": found.told}  # fmt: skip


def table() -> None:
    """Print errors and coverage, as Markdown."""
    lines = []
    for method in METHODS:
        found = [row for row in read_rows(NAME) if row["method"] == method]
        told = [row for row in found if row["told"]]
        if told:
            truth, plain, expected, low, high = (
                np.array([row[name] for row in told]) for name in ("truth", "posterior", "expected", "low", "high")
            )
            errors = [f"{np.abs(each - truth).mean():.3f}" for each in (plain, expected)]
            covers = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
            lines.append(
                [method, f"{len(found)}", f"{len(told)}", *errors, f"{covers.mean():.2f}", f"{(high - low).mean():.2f}"]
            )
    print_table(["method", "runs", "told", "error of posteriors", "error", "coverage", "width"], lines)


if __name__ == "__main__":
    {"run": run, "table": table}[sys.argv[1] if len(sys.argv) > 1 else "table"]()
