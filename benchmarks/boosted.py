"""``python -m benchmarks.boosted [part]``: boosting that has not seen the labels it is judged by.

Parts: ``tables``, on the five tables of `benchmarks.elsewhere` where supervised boosting beats supervised logistic
regression most; ``simulated``, on three tables whose probabilities are known; ``table`` prints what is there of both.
Plain EM is `PublishedEMClassifier` with the same classifier. Errors are mean squared errors on test rows: of ``f`` to
the class (tables) or to the true probability (simulated), of ``e`` on positives. ``speed`` is the CPU time of the stack
as a multiple of that of supervised boosting, each with the threads that it takes by default.
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

from benchmarks.elsewhere_tasks import make_task
from benchmarks.runner import Row, read_rows, run
from scarless import PublishedEMClassifier, SAREMClassifier, SARStackingClassifier
from scarless.labelling import simulate_labels

NAME = "boosted"
# By the means of "supervised" minus "supervised boosting" in the results of `benchmarks.elsewhere`, seed 0.
TABLES = ("monk-2", "vowel", "movement_libras", "penbased", "led7digit")
MECHANISMS = ("paper k=4", "own 1 strong c=.5", "own 2 weak c=.5", "step")
SEEDS = (0, 1)


def boosting(rounds: int = 200) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=6, early_stopping=False)


def rivals(seed: int, columns: np.ndarray) -> dict[str, SAREMClassifier | PublishedEMClassifier]:
    """Return the same classifier, cross-fitted and by plain EM."""
    return {
        "cross-fitted, recalibrated": SAREMClassifier(boosting(), propensity_attributes=columns, random_state=seed),
        "plain EM": PublishedEMClassifier(boosting(100), propensity_attributes=columns, max_iter=50),
    }


def tables() -> Iterator[Row]:
    """Yield the errors on real tables."""
    for table in TABLES:
        for mechanism in MECHANISMS:
            for seed in SEEDS:
                task = make_task(table, mechanism, seed)
                row: Row = {"part": "tables", "dataset": table, "method": mechanism, "seed": seed}
                supervised = boosting(100).fit(task.X_train, task.y_train).predict_proba(task.X_test)[:, 1]
                row["supervised"] = {"mse_f": float(np.mean((supervised - task.y_test) ** 2))}
                positive = task.y_test == 1
                for name, model in rivals(seed, task.propensity_columns).items():
                    f, e = fitted(model, task.X_train, task.s_train, task.X_test)
                    row[name] = {
                        "mse_f": float(np.mean((f - task.y_test) ** 2)),
                        "mse_e": float(np.mean((e - task.e_test)[positive] ** 2)),
                        "mean_e": float(e[positive].mean()),
                    }
                row["true_mean_e"] = float(task.e_test[positive].mean())
                yield row


def simulated() -> Iterator[Row]:
    """Yield the errors on simulated tables: interactions, steps, and a ring."""
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
            for key, model in rivals(seed, np.array([5])).items():
                found_f, found_e = fitted(model, X[:3_000], s[:3_000], X[3_000:])
                row[key] = {
                    "mse_f": float(np.mean((found_f - f[3_000:]) ** 2)),
                    "mse_e": float(np.mean((found_e - e[3_000:])[positive] ** 2)),
                    "mean_e": float(found_e[positive].mean()),
                }
            row["true_mean_e"] = float(e[3_000:][positive].mean())
            yield row


def speed() -> Iterator[Row]:
    """Yield the stack's CPU time over that of supervised boosting with the same trees, measured by turns."""
    for n, d, repeats in ((1_000, 20, 5), (10_000, 20, 3), (50_000, 30, 1)):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        y = rng.random(n) < expit(2.0 * X[:, 0] * X[:, 1] + X[:, 2] + X[:, 3])
        s = simulate_labels(y.astype(float), expit(X[:, 4] + X[:, 5]), random_state=0)
        for method, columns in (("named", [4, 5]), ("nameless", None)):
            stack = SARStackingClassifier(propensity_attributes=columns, random_state=0)
            times = np.array([(cpu_of(boosting(), X, y), cpu_of(stack, X, s)) for _ in range(repeats)])
            supervised, stacked = np.median(times, axis=0)
            row: Row = {"part": "speed", "dataset": f"{n:,} x {d}", "method": method, "supervised": supervised}
            yield {**row, "stack": stacked, "ratio": float(np.median(times[:, 1] / times[:, 0])), "runs": repeats}


def cpu_of(model: Any, X: np.ndarray, labels: np.ndarray) -> float:
    """Return the CPU time of a fit, of all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X, labels)
        return time.process_time() - start


def fitted(model: Any, X: np.ndarray, s: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both probabilities of test rows after a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # plain EM collapses, which the table shows
        model.fit(X, s)
    return model.predict_proba(X_test)[:, 1], model.predict_propensity(X_test)


def table() -> None:
    """Print means over runs."""
    rows = defaultdict(list)
    for row in read_rows(NAME):
        if row["part"] == "speed":
            continue
        rows[row["part"], row["dataset"]].append(row)
    keys = ("cross-fitted, recalibrated", "plain EM")
    print(
        "| data | runs | supervised boosting | "
        + " | ".join(keys)
        + " | ratio | mean e - truth | better than plain EM |"
    )
    print("|---" * 8 + "|")
    for (_, name), runs in rows.items():
        supervised = np.mean([run["supervised"]["mse_f"] for run in runs])
        cells = [
            f"{np.mean([run[key]['mse_f'] for run in runs]):.3f} / {np.mean([run[key]['mse_e'] for run in runs]):.3f}"
            for key in keys
        ]
        best = np.array([run[keys[0]]["mse_f"] for run in runs])
        plain = np.array([run[keys[1]]["mse_f"] for run in runs])
        ratio = f"{best.mean() / supervised:.2f}" if supervised > 1e-3 else "–"  # it makes no errors
        bias = np.mean([run[keys[0]]["mean_e"] - run["true_mean_e"] for run in runs])
        print(
            f"| {name} | {len(runs)} | {supervised:.3f} | {' | '.join(cells)} | {ratio} | "
            f"{bias:+.2f} | {(best <= plain).sum()} of {len(runs)} |"
        )


def main(arguments: list[str]) -> None:
    """Run the parts that are asked for."""
    if arguments == ["table"]:
        table()
    else:
        run(NAME, {"tables": tables, "simulated": simulated, "speed": speed}, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
