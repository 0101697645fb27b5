"""Coverage of missed_positives: the share of positives without a label in each of 20 groups.

Data: simulated tables of 4,000 rows with 20 groups. Groups differ in their class probability and in their propensity.
Time: about half an hour. Runs that were measured before are skipped.

"right models" names all propensity attributes. "attribute missing" leaves out an attribute that is unrelated to the
groups, and "group effect missing" leaves out the attribute that makes groups differ in their propensity. "two looks"
and "audits" name all propensity attributes; a second look, or audits of 5% of the rows drawn at random, identify the
class prior. "cross-fit" is the gradient boosting of scikit-learn, fitted by `SAREMClassifier`.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.runner import add_record_option, append_row, command_parser, print_table, read_rows, record_table
from scarless import SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.diagnostics import missed_positives

NAME = "groups"
METHODS = {
    "logistic": SAREMClassifier,
    "search": SAREMClassifierCV,
    "stack": SARStackingClassifier,
    "cross-fit": lambda **options: SAREMClassifier(HistGradientBoostingClassifier(**BOOSTING), **options),
}
BOOSTING = {"max_iter": 200, "max_leaf_nodes": 6}
NAMED = {
    "right models": [2, 5],
    "attribute missing": [5],
    "group effect missing": [2],
    "two looks": [2, 5],
    "audits": [2, 5],
}
INFORMED = ("two looks", "audits")
AUDITED_SHARE = 0.05
N_TABLES = {"logistic": 100, "search": 100, "stack": 30}  # with one label for each row
N_INFORMED_TABLES = {"stack": 60, "cross-fit": 60}
N_ROWS, N_GROUPS = 4_000, 20
CLASS_EFFECT, PROPENSITY_EFFECT = 0.7 * np.random.default_rng(2026).normal(size=(2, N_GROUPS))


def simulate(seed: int) -> tuple[np.ndarray, ...]:
    """Return attributes, group, class and labels of a table."""
    rng = np.random.default_rng(seed)
    group, X = rng.integers(N_GROUPS, size=N_ROWS), rng.normal(size=(N_ROWS, 4))
    f = expit(-0.5 + 1.5 * X[:, 0] + X[:, 1] + CLASS_EFFECT[group])
    e = expit(-0.3 + X[:, 2] + PROPENSITY_EFFECT[group])
    y = (rng.random(N_ROWS) < f).astype(int)
    s = y * (rng.random(N_ROWS) < e)
    return np.column_stack([X, CLASS_EFFECT[group], PROPENSITY_EFFECT[group]]), group, y, s


def observed(case: str, seed: int, X: np.ndarray, y: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, dict]:
    """Return the labels, at one or two looks, and the audits of a case."""
    if case not in INFORMED:
        return s, {}
    rng = np.random.default_rng([seed, 1])
    if case == "audits":
        return s, {"audit": np.where(rng.random(N_ROWS) < AUDITED_SHARE, y, -1.0)}
    e = expit(-0.3 + X[:, 2] + X[:, 5])
    return y[:, None] * (rng.random((N_ROWS, 2)) < e[:, None]), {}


def score(case: str, method: str, seed: int) -> dict[str, object]:
    """Fit a model to a table, and compare its intervals with the true share of each group."""
    X, group, y, s = simulate(seed)
    labels, given = observed(case, seed, X, y, s)
    options = {} if method == "logistic" else {"random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method](propensity_attributes=NAMED[case], **options).fit(X, labels, **given)
        found = missed_positives(model, X, labels, by=np.char.zfill(group.astype(str), 2), **given)
    labelled = labels.reshape(N_ROWS, -1).any(axis=1)
    truth = 1.0 - np.bincount(group, weights=labelled) / np.bincount(group, weights=y)
    missed = found.missed_share
    covered = (missed.low - 1e-9 <= truth) & (truth <= missed.high + 1e-9)
    return {
        "case": case,
        "method": method,
        "seed": seed,
        "coverage": float(covered.mean()),
        "width": float((missed.high - missed.low).mean()),
        "error": float(np.abs(missed.value - truth).mean()),
        "bias": float((missed.value - truth).mean()),
    }


def run() -> None:
    """Measure the runs that have no stored result."""
    done = {(row["case"], row["method"], row["seed"]) for row in read_rows(NAME)}
    for case in NAMED:
        for method, n_tables in (N_INFORMED_TABLES if case in INFORMED else N_TABLES).items():
            for seed in range(n_tables):
                if (case, method, seed) not in done:
                    append_row(NAME, score(case, method, seed))


def table(record: bool) -> None:
    """Print the mean coverage, width and error of each case and method."""
    lines = []
    for case in NAMED:
        for method in METHODS:
            rows = [row for row in read_rows(NAME) if (row["case"], row["method"]) == (case, method)]
            if rows:
                means = [np.mean([row[name] for row in rows]) for name in ("coverage", "width", "error", "bias")]
                lines.append([f"{case}, {method}", f"{len(rows)}", *(f"{mean:.3f}" for mean in means)])
    heads = ["case", "tables", "coverage", "width", "error", "bias"]
    print_table(heads, lines)
    if record:
        record_table(NAME, "coverage", heads, lines)


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
