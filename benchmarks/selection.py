"""Test errors of SAREMClassifierCV, which chooses penalties and attributes from the labels alone.

Data: the paper's eight datasets, from ../shared/data or the folder in the environment variable SCARLESS_DATA. The runs
are those of the paper's experiment with four propensity attributes and a classifier that sees all attributes.
Time: many hours for all datasets. The part `errors` skips runs that were measured before.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from benchmarks import records
from benchmarks.datasets import SOURCES, load
from benchmarks.runner import Row, newest, print_table, read_rows, record_table, run_parts, timed
from scarless import SAREMClassifier, SAREMClassifierCV
from scarless.experiments.protocol import Task, label, prepare, split_rows
from scarless.experiments.spec import Cell
from scarless.papers.bekker2019 import specification

# Numbers of training rows for the larger datasets. All test rows are used.
MAX_TRAINING_ROWS = {"newsgroups": 4_000, "adult": 4_000, "covtype": 4_000, "diabetes": 4_000}
NAME = "selection"


def tasks(name: str) -> Iterator[Task]:
    """Yield the 25 labelled splits of a dataset."""
    spec = specification()
    X, y, _ = load(name)
    prepared = prepare(spec, name, X, y)
    for split in range(spec.n_splits):
        rows = split_rows(spec, name, split, prepared)
        for labelling in range(spec.n_labellings):
            yield label(spec, Cell(name, "all", 4, split, labelling), rows)


def models(task: Task) -> dict[str, SAREMClassifier | SAREMClassifierCV]:
    """Return the two models: C = 1 from the paper's start, and the search."""
    columns = {"propensity_attributes": task.propensity_columns}
    return {
        "paper start, C = 1": SAREMClassifier(**columns),
        "search": SAREMClassifierCV(random_state=task.seed, **columns),
    }


def errors(names: tuple[str, ...] = tuple(SOURCES)) -> Iterator[Row]:
    """Test errors of both models on the runs that were not measured before."""
    done = {(row["dataset"], row["split"], row["labelling"]) for row in read_rows(NAME) if row["part"] == "errors"}
    for name in names:
        for task in tasks(name):
            if (name, task.cell.split, task.cell.labelling) not in done:
                yield one_run(task)


def one_run(task: Task) -> Row:
    """Return the test errors of both models on one labelled split."""
    cell, split = task.cell, task.split
    thin = np.random.default_rng(task.seed).permutation(task.s_train.size)[: MAX_TRAINING_ROWS.get(cell.dataset)]
    X, s = split.X_train[thin], task.s_train[thin]
    row: Row = {"part": "errors", "dataset": cell.dataset, "split": cell.split, "labelling": cell.labelling}
    row["rows"] = int(thin.size)
    fitted = models(task)
    for key, model in fitted.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The fit warns about high label frequencies, which are stored anyway.
            seconds, _ = timed(lambda model=model: model.fit(X, s))
        row[key] = {**test_errors(model, task), "seconds": seconds}
    chosen = fitted["search"]
    row["chosen"] = {
        "members": [chosen.cv_results_["params"][i] for i in chosen.selection_.members],
        "tied": chosen.selection_.n_tied,
        "class_priors": chosen.selection_.class_priors,
        "interval": tuple(chosen.class_prior_interval()),
        "true": float(split.y_train.mean()),
    }
    return row


def test_errors(model: SAREMClassifier | SAREMClassifierCV, task: Task) -> Row:
    """Return the errors of a fit on the test rows, by comparison with the true classes and propensities."""
    X, y = task.split.X_test, task.split.y_test
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    return {
        "mse_f": float(np.mean((f - y) ** 2)),
        "mse_e": float(np.mean((e - task.e_test)[y == 1] ** 2)),
        "label_frequency": model.label_frequency_,
    }


def path() -> Iterator[Row]:
    """Time of a whole search on Adult: 10 penalties, one or two sets of attributes, 5 folds."""
    task = next(iter(tasks("adult")))
    X, s = task.split.X_train, task.s_train
    for sets in ("auto", [None]):
        model = SAREMClassifierCV(propensity_attributes=task.propensity_columns, attribute_sets=sets, random_state=0)
        seconds, _ = timed(lambda model=model: model.fit(X, s))
        yield {
            "part": "path",
            "dataset": "adult",
            "method": "two attribute sets" if sets == "auto" else "one attribute set",
            "rows": X.shape[0],
            "candidates": len(model.cv_results_["params"]),
            "folds": 5,
            "seconds": seconds,
        }


def table(record: bool) -> None:
    """Print means over runs, with the standard error of the paired difference, and record them if asked to."""
    rows = defaultdict(list)
    for row in read_rows(NAME):
        if row["part"] == "errors":
            rows[row["dataset"]].append(row)
    keys = ("paper start, C = 1", "search")
    lines = []
    for name in SOURCES:
        if not (runs := rows[name]):
            continue
        score = {key: np.array([[run[key]["mse_f"], run[key]["mse_e"]] for run in runs]) for key in keys}
        cells = [f"{score[key][:, 0].mean():.3f} / {score[key][:, 1].mean():.3f}" for key in keys]
        gain = score[keys[1]][:, 0] - score[keys[0]][:, 0]
        error = gain.std(ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.nan
        ends = np.array([run["chosen"]["interval"] for run in runs])
        true = np.array([run["chosen"]["true"] for run in runs])
        covers = int(((ends[:, 0] <= true) & (true <= ends[:, 1])).sum())
        counts = [f"{runs[0]['rows']:,}", f"{len(runs)}"]
        interval = [f"{covers} of {len(runs)}", f"{np.ptp(ends, axis=1).mean():.2f}"]
        lines.append([name, *counts, *cells, f"{gain.mean():+.3f} ± {error:.3f}", *interval])
    heads = ["data", "rows", "runs", "paper start", "search", "difference", "intervals that cover", "width"]
    print_table(heads, lines)
    if record:
        record_table(NAME, "errors", heads, lines)
        for row in newest(NAME):
            if row["part"] == "path":
                records.append_row(NAME, row)


def main(arguments: list[str]) -> None:
    """Run the parts that are named."""
    run_parts(NAME, __doc__, {"errors": errors, "path": path}, arguments, table=table)


if __name__ == "__main__":
    main(sys.argv[1:])
