"""Few labels and no named propensity attributes, with the protocol of a published comparison.

Data: fifteen tables of Teisseyre, Martens, Bekker and Davis, "Learning from biased positive-unlabeled data via
threshold calibration", AISTATS 2025, from ../shared/data/teisseyre2025 or the same folder in SCARLESS_DATA. The
mechanisms are SCAR (S1) and three in which the propensity depends on the class probability (S2 to S4). 75% of the rows
are for training, with the published labels.
Time: several hours for all splits. Results that are already stored are not measured again, so you can stop a run and
start it again.

`run` scores methods, `table` prints the scores. Splits 0 to 19 are the published ones; splits from 100 on are for
development.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
from tqdm import tqdm

from benchmarks.other_tables.methods import MEMBERS, members_without
from benchmarks.runner import (
    Row,
    add_record_option,
    append_row,
    command_parser,
    ignore_interrupts,
    one_thread_each,
    print_table,
    read_rows,
    record_table,
    timed,
)
from scarless import NaiveClassifier, SARStackingClassifier, SCARClassifier
from scarless.field import PUBaggingClassifier

NAME = "few_labels"
FOLDER = Path(os.environ.get("SCARLESS_DATA") or Path(__file__).parents[2] / "shared" / "data") / "teisseyre2025"
# Published balanced accuracy of the supervised logistic model.
PUBLISHED_ORACLE = {
    "Abalone": 0.500,
    "Banknote-authentication": 0.991,
    "Breast-w": 0.955,
    "Diabetes": 0.711,
    "Haberman": 0.507,
    "Heart-statlog": 0.822,
    "Ionosphere": 0.847,
    "Kc1": 0.598,
    "Segment": 0.989,
    "Semeion": 0.932,
    "Sonar": 0.778,
    "Vehicle": 0.935,
    "Waveform-5000": 0.842,
    "Wdbc": 0.973,
    "Yeast": 0.517,
}
# Published balanced accuracy of NTC-tMI, mean of the fifteen tables, by mechanism.
PUBLISHED_BEST = {"S1": 0.733, "S2": 0.727, "S3": 0.740, "S4": 0.715}
MECHANISMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "S1": lambda f: np.full(f.size, 0.1),
    "S2": lambda f: 0.1 * f,
    "S3": lambda f: expit(-0.5 * f - 1.5),
    "S4": lambda f: 0.5 * expit(-0.5 * logit(f)),
}
MIN_AUC_DIFFERENCE = 0.005  # Smaller differences of the AUC do not count as differences.


@dataclass(frozen=True)
class Task:
    """One split of a table with the published labels of its training rows."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@cache
def load(table: str) -> tuple[np.ndarray, np.ndarray]:
    """Return attributes and classes; with more than two classes the most frequent one is positive."""
    with (FOLDER / f"{table}.csv").open() as file:
        head, *lines = csv.reader(file)
    kept = [column for column, name in enumerate(head) if name != "BinClass"]
    cells = np.array(lines, dtype=np.float64)[:, kept]
    values, counts = np.unique(cells[:, -1], return_counts=True)
    positive = 1.0 if values.size == 2 else values[np.argmax(counts)]
    return cells[:, :-1], (cells[:, -1] == positive).astype(np.int64)


def make_task(table: str, mechanism: str, split: int) -> Task:
    """Return a split with its published labels.

    The labels come from numpy's legacy generator, with one draw for each positive in the order of the rows.
    """
    X, y = load(table)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Not all fits behind the published labels had converged.
        f = LogisticRegression(random_state=split).fit(X, y).predict_proba(X)[:, 1]
    f = np.where(f == 1, 0.999, np.where(f == 0, 0.001, f))
    e, draws = MECHANISMS[mechanism](f), np.random.RandomState(split)
    s = np.zeros(y.size, dtype=np.int64)
    while not s.any():
        for i in np.flatnonzero(y):
            s[i] = draws.binomial(1, e[i])
    return Task(X, y, s, X_test, y_test)


def oracle(task: Task) -> Row:
    """Score the supervised logistic model, which sees the true classes."""
    model = LogisticRegression(max_iter=1000).fit(task.X, task.y)
    f = model.predict_proba(task.X_test)[:, 1]
    return scores(task, f, f > 0.5, f > 0.5)


def pu_method(make: Callable[[int], Any]) -> Callable[[Task], Row]:
    """Return a function that fits a classifier to a task and scores it."""

    def method(task: Task) -> Row:
        model = make(0).fit(task.X, task.s)
        f = model.predict_proba(task.X_test)[:, 1]
        decided = [model.predict(task.X_test, decision=how) == 1 for how in ("accuracy", "balanced")]
        row = scores(task, f, *decided) | {"prior_error": float(model.class_prior_ - task.y.mean())}
        if hasattr(model, "class_prior_interval"):
            low, high = model.class_prior_interval()
            row |= {"covered": bool(low <= task.y.mean() <= high), "width": float(high - low)}
        return row

    return method


def stack_without(left_out: str | None) -> Callable[[int], SARStackingClassifier]:
    """Return a function that makes the stack for a seed, with all of its default members or with all but one."""
    return lambda seed: SARStackingClassifier(members_without(left_out), random_state=seed)


def median_cut(task: Task) -> Row:
    """Score the naive model with its median as threshold; the predicted probability is 1 above it and 0 below."""
    model = NaiveClassifier().fit(task.X, task.s)
    cut = np.median(model.predict_proba(task.X)[:, 1])
    f = model.predict_proba(task.X_test)[:, 1]
    return scores(task, f, f > cut, f > cut) | {"brier": float(np.mean(((f > cut) - task.y_test) ** 2))}


def scores(task: Task, f: np.ndarray, accurate: np.ndarray, balanced: np.ndarray) -> Row:
    """Return the scores of predictions for the test rows."""
    return {
        "auc": float(roc_auc_score(task.y_test, f)),
        "brier": float(np.mean((f - task.y_test) ** 2)),
        "balanced_accuracy": float(balanced_accuracy_score(task.y_test, balanced)),
        "by_accuracy": float(balanced_accuracy_score(task.y_test, accurate)),
    }


def bagging(task: Task) -> Row:
    """Score PU bagging with trees, which has a ranking and a decision, and no probabilities."""
    tree = DecisionTreeClassifier(min_samples_leaf=3)
    model = PUBaggingClassifier(tree, random_state=0).fit(task.X, task.s)
    called = model.predict(task.X_test) == 1
    return scores(task, model.decision_function(task.X_test), called, called) | {"brier": float("nan")}


METHODS: dict[str, Callable[[Task], Row]] = {
    "oracle": oracle,
    "naive": pu_method(lambda _: NaiveClassifier()),
    "naive, median cut": median_cut,
    "SCAR": pu_method(lambda _: SCARClassifier()),
    "stack": pu_method(stack_without(None)),
    "PU bagging, trees": bagging,
    **{f"stack, no {left_out}": pu_method(stack_without(left_out)) for left_out in MEMBERS},
}


def score_job(job: tuple[str, str, int, str]) -> Row:
    """Return the scores of one method on one task, or the reason why it failed."""
    table, mechanism, split, method = job
    task = make_task(table, mechanism, split)
    row: Row = dict(zip(("table", "mechanism", "split", "method"), job, strict=True))
    row["labels"] = int(task.s.sum())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seconds, found = timed(lambda: METHODS[method](task))
        except ValueError as error:  # A single label cannot be held out.
            return row | {"failed": str(error)}
    warned = any(issubclass(warning.category, UserWarning) for warning in caught)
    return row | found | {"seconds": seconds, "warned": warned, "failed": None}


def run(options: argparse.Namespace) -> None:
    """Measure the jobs that have no stored result."""
    done = {_key(row) for row in read_rows(NAME)}
    wanted = [
        (table, mechanism, split, method)
        for split in options.splits
        for mechanism in MECHANISMS
        for table in PUBLISHED_ORACLE
        for method in options.methods
    ]
    jobs = [job for job in wanted if job not in done]
    one_thread_each()
    with multiprocessing.get_context("spawn").Pool(options.jobs, initializer=ignore_interrupts) as pool:
        for row in tqdm(pool.imap_unordered(score_job, jobs), total=len(jobs), unit="fit", file=sys.stderr):
            append_row(NAME, row)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("table", "mechanism", "split", "method"))


def table(options: argparse.Namespace) -> None:
    """Print scores by method, coverage by number of labels, and our supervised scores next to the published ones."""
    rows = {_key(row): row for row in read_rows(NAME) if row["split"] in options.splits}
    good = {key: row for key, row in rows.items() if row["failed"] is None}
    naive = {key[:3]: row for key, row in good.items() if key[3] == "naive"}
    heads = ["method", "AUC", "Brier", "BA S1", "BA S2", "BA S3", "BA S4", "BA by predict"]
    heads += ["cells below naive, %", "splits below naive, %"]
    lines = []
    for method in options.methods:
        own = {key[:3]: row for key, row in good.items() if key[3] == method and key[:3] in naive}
        if not own:
            continue
        gaps = {key: row["auc"] - naive[key]["auc"] for key, row in own.items()}
        cells = [np.mean([gap for key, gap in gaps.items() if key[:2] == cell]) for cell in {key[:2] for key in gaps}]
        balanced = [_mean(own, "balanced_accuracy", mechanism) for mechanism in MECHANISMS]
        below = [np.mean(np.array(list(each)) < -MIN_AUC_DIFFERENCE) for each in (cells, gaps.values())]
        means = [_mean(own, name) for name in ("auc", "brier")]
        lines.append([method, *(f"{value:.3f}" for value in (*means, *balanced, _mean(own, "by_accuracy"))),
                      *(f"{100 * value:.1f}" for value in below)])  # fmt: skip
    lines.append(["published: NTC-tMI", "", "", *(f"{value:.3f}" for value in PUBLISHED_BEST.values()), "", "", ""])
    failed = [row for row in rows.values() if row["failed"] is not None]
    print(f"{len(naive)} tasks; {len(failed)} fits failed (one labelled row).\n")
    print_table(heads, lines)
    coverage_heads, coverage_lines = _coverage([row for row in good.values() if row["method"] == "stack"])
    print_table(coverage_heads, coverage_lines)
    _print_oracle(good)
    if options.record:
        record_table(NAME, "scores", heads, lines[:-1])
        record_table(NAME, "class prior", coverage_heads, coverage_lines)


def _mean(rows: dict[Any, Row], name: str, mechanism: str | None = None) -> float:
    """Return the mean over tables of the means over splits."""
    kept = [(key[0], key[1], row[name]) for key, row in rows.items() if mechanism in (None, key[1])]
    cells = {cell: [value for *where, value in kept if tuple(where) == cell] for cell in {row[:2] for row in kept}}
    return float(np.mean([np.mean(values) for values in cells.values()])) if cells else np.nan


def _coverage(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return heads and lines of a table of the class prior by number of labels."""
    lines = []
    for low, high in ((2, 10), (10, 20), (20, 50), (50, 200), (200, 10_000)):
        own = [row for row in rows if low <= row["labels"] < high]
        if own:
            cells = [np.mean([row[name] for row in own]) for name in ("covered", "width", "warned")]
            error = np.sqrt(np.mean([row["prior_error"] ** 2 for row in own]))
            labels = f"{low} to {high - 1}" if high < 10_000 else f"{low} and more"
            lines.append([labels, str(len(own)), *(f"{value:.2f}" for value in (*cells, error))])
    return ["labels", "fits", "coverage", "width", "warned", "error of the class prior (rms)"], lines


def _print_oracle(good: dict[Any, Row]) -> None:
    lines = []
    for name, published in PUBLISHED_ORACLE.items():
        own = [row["balanced_accuracy"] for key, row in good.items() if key[0] == name and key[3] == "oracle"]
        if own:
            lines.append([name, f"{np.mean(own):.3f}", f"{published:.3f}", f"{np.mean(own) - published:+.3f}"])
    print_table(["table", "oracle here", "published oracle", "difference"], lines)


def split_range(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main(arguments: list[str]) -> None:
    parser = command_parser(NAME, __doc__)
    parser.add_argument("command", choices=("run", "table"), help="run: measure; table: print the scores")
    parser.add_argument(
        "--splits",
        type=split_range,
        default=split_range("0-19"),
        help="splits to measure or print, such as 100-104 (default: 0-19)",
    )
    parser.add_argument(
        "--methods",
        type=lambda text: text.split(";"),
        default=list(METHODS),
        help=f"methods, separated by semicolons: {'; '.join(METHODS)} (default: all)",
    )
    parser.add_argument("--jobs", type=int, default=2, help="number of processes, each with one thread")
    add_record_option(parser)
    options = parser.parse_args(arguments)
    {"run": run, "table": table}[options.command](options)


if __name__ == "__main__":
    main(sys.argv[1:])
