"""False alarms and power of detect_drift: a model fitted to one month, and the rows and labels of the next month.

Data: simulated months of 3,000 rows for the fit and 1,500 new rows, with six attributes. Every run has its own fit.
Time: about 50 minutes. Runs that were measured before are skipped.

"covariates moved" shifts one attribute by half a standard deviation. "class prior changed" multiplies the odds of the
classes by 2.7, with the same attributes in each class. "labelling halved" halves the propensity of all rows, or of the
rows of one group.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np
from scipy.special import expit

from benchmarks.runner import add_record_option, append_row, command_parser, print_table, read_rows, record_table
from scarless import SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.diagnostics import detect_drift

NAME = "drift"
METHODS = {"logistic": SAREMClassifier, "search": SAREMClassifierCV, "stack": SARStackingClassifier}
CASES = (
    "nothing changed",
    "covariates moved",
    "class prior changed",
    "labelling halved in one group",
    "labelling halved everywhere",
)
N_FIT, N_NEW = 3_000, 1_500
VERDICTS = ("fine", "refit", "look at the labelling")


def n_runs(case: str, method: str) -> int:
    """Return the number of runs of a case."""
    several = {"logistic": (200, 60), "search": (200, 40), "stack": (20, 10)}[method]
    return several[0] if case == CASES[0] else several[1]


def simulate(n: int, rng: np.random.Generator, case: str = CASES[0]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return attributes, class and labels of a month."""
    pool = 6 * n
    X = np.column_stack([rng.normal(size=(pool, 4)), rng.integers(2, size=pool), rng.normal(size=pool)])
    if case == "covariates moved":
        X[:, 0] += 0.5
    y = rng.random(pool) < expit(-1.0 + 1.5 * X[:, 0] + X[:, 1])
    weight = np.where(y, np.exp(1.0), 1.0) if case == "class prior changed" else np.ones(pool)
    rows = rng.choice(pool, n, replace=False, p=weight / weight.sum())
    X, y = X[rows], y[rows]
    e = expit(-0.5 + X[:, 2] + X[:, 4])
    e = np.where((X[:, 4] == 1) & (case == "labelling halved in one group"), 0.5 * e, e)
    e = 0.5 * e if case == "labelling halved everywhere" else e
    return X, y, (y & (rng.random(n) < e)).astype(int)


def score(case: str, method: str, seed: int) -> dict[str, object]:
    """Fit a model to one month, and look for drift in the next."""
    rng = np.random.default_rng([2026, seed])
    X, _, s = simulate(N_FIT, rng)
    X_new, y_new, s_new = simulate(N_NEW, rng, case)
    options = {} if method == "logistic" else {"random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method](propensity_attributes=[2, 4], **options).fit(X, s)
        found = detect_drift(model, X_new, s_new, reference=X)
    columns, labels = found.columns, found.labels
    estimate = found.positives_if_prior_changed if case == "class prior changed" else found.positives
    return {
        "case": case,
        "method": method,
        "seed": seed,
        "verdict": found.verdict,
        "without_labels": replace(found, labels=None).verdict,
        "p_labels": labels.p_value,
        "p_total": labels.total.p_value,
        "p_bins": labels.bins.p_value,
        "p_column": min(each.p_value for each in labels.columns),
        "p_moved": min(each.p_adjusted for each in columns.columns),
        "moved": len(columns.moved),
        "preference": labels.preference,
        "preferred": labels.preferred,
        "covered": bool(estimate.low <= y_new.sum() <= estimate.high),
        "width": (estimate.high - estimate.low) / N_NEW,
    }


def run() -> None:
    """Measure the runs that have no stored result."""
    done = {(row["case"], row["method"], row["seed"]) for row in read_rows(NAME)}
    for method in METHODS:
        for case in CASES:
            for seed in range(n_runs(case, method)):
                if (case, method, seed) not in done:
                    append_row(NAME, score(case, method, seed))


def table(record: bool) -> None:
    """Print the share of runs with each verdict, and with significant tests."""
    lines = []
    for case in CASES:
        for method in METHODS:
            rows = [row for row in read_rows(NAME) if (row["case"], row["method"]) == (case, method)]
            if not rows:
                continue
            shares = [np.mean([row["verdict"] == verdict for row in rows]) for verdict in VERDICTS]
            shares += [np.mean([row[name] < 0.05 for row in rows]) for name in ("p_labels", "p_total")]
            shares += [np.mean([row["moved"] > 0 for row in rows]), np.mean([row["covered"] for row in rows])]
            lines.append([f"{case}, {method}", f"{len(rows)}", *(f"{share:.3f}" for share in shares)])
    heads = ["case", "months", *VERDICTS, "labels differ", "total differs", "columns moved", "coverage"]
    print_table(heads, lines)
    if record:
        record_table(NAME, "rates", heads, lines)


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
