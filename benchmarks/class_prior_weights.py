"""Comparison of prior weights on the grid of class priors, for fits with few labels.

Data: samples of the fifteen tables of `few_labels`, with class priors from 0.05 to 0.8. Three mechanisms label the
positives, with label frequencies from 0.05 to 0.7.
Time: about an hour for one split on 2 cores. Results that are already stored are not measured again.

With few labels the likelihood is nearly flat in the class prior, so the estimate depends on the prior weight. A
logistic model is fitted without named propensity attributes. Its likelihood on the grid of class priors is then
combined with several weights, for several slopes. A slope is the coefficient of the class logit in the logit of the
propensity. A weight is c^a (1-c)^b for the label frequency c, times the step of the logarithm of the class prior. If a
and b + 1 are positive, this is a Beta distribution of c with the parameters a and b + 1.

`--named N` compares numbers of pseudo-observations if propensity attributes are named, on the first N of 540 tasks in a
fixed random order. It fits the default stack four times to each task, which takes about 15 seconds.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, logsumexp, xlog1py, xlogy
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from tqdm import tqdm

from benchmarks.few_labels import PUBLISHED_ORACLE, load, split_range
from benchmarks.other_tables.tasks import Mechanism, own, paper, seed_of
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
)
from scarless import PseudoObservations, SARStackingClassifier
from scarless.numerics.linear import Design
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import ClassPriorGrid, Recalibration, recalibrate

NAME = "class_prior_weights"
CLASS_PRIORS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
LABEL_FREQUENCIES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
SLOPES = (0.0, 0.5, 1.0)
MIN_LABELLED = 4
MAX_ROWS = 1_000
# Slope of the logit of the propensity in the true class logit.
MECHANISMS = {"constant": 0.0, "rises with the class": 0.5, "falls with the class": -0.5}
# A function that returns the logarithm of the weight, given class prior and label frequency.
Weight = Callable[[np.ndarray, np.ndarray], np.ndarray]


def beta(a: float, b: float) -> Weight:
    return lambda prior, c: xlogy(a, c) + xlog1py(b, -np.minimum(c, 1.0 - 1e-9))


def mixture(*parts: Weight) -> Weight:
    """Return a mixture of weights in equal shares, each normalised over the grid of class priors."""

    def weight(prior: np.ndarray, c: np.ndarray) -> np.ndarray:
        step = np.log(np.maximum(np.gradient(np.log(prior)), 1e-12))
        values = [part(prior, c) for part in parts]
        return logsumexp([value - logsumexp(value + step) for value in values], axis=0)

    return weight


WEIGHTS: dict[str, Weight] = {
    "flat in the class prior (a = -1, b = 0)": beta(-1.0, 0.0),
    "flat in its logarithm (0, 0)": beta(0.0, 0.0),
    "flat in the label frequency (1, 0)": beta(1.0, 0.0),
    "half a pseudo-observation (1/4, 1/4)": beta(0.25, 0.25),
    "1 pseudo-observation (1/2, 1/2)": beta(0.5, 0.5),
    "2 pseudo-observations (1, 1)": beta(1.0, 1.0),
    "4 pseudo-observations (2, 2)": beta(2.0, 2.0),
    "(0, 1/2)": beta(0.0, 0.5),
    "(0, 1)": beta(0.0, 1.0),
    "(1/2, 1)": beta(0.5, 1.0),
    "(-1/2, 1/2)": beta(-0.5, 0.5),
    "flat in the class prior or its logarithm": mixture(beta(-1.0, 0.0), beta(0.0, 0.0)),
    "flat in the class prior or the label frequency": mixture(beta(-1.0, 0.0), beta(1.0, 0.0)),
}
DIVISORS = (1.0, 2.0, 3.0)  # For intervals, log-likelihoods are divided by one of these numbers.

NAMED = "named_pseudo_observations"  # measured rows of fits with named propensity attributes
PSEUDO_OBSERVATIONS = (0.5, 1.0, 2.0, 4.0)
NAMED_CLASS_PRIORS, NAMED_LABEL_FREQUENCIES = (0.1, 0.3, 0.6), (0.1, 0.3, 0.5)
MIN_LABELLED_NAMED = 5
# Mechanisms for a label frequency: two attributes of the table, of which one or both are named, or two added ones.
NAMED_MECHANISMS: dict[str, Callable[[float], Mechanism]] = {
    "weak": lambda c: own(2, 1.0, c),
    "strong": lambda c: own(2, 3.0, c),
    "missing": lambda c: own(2, 3.0, c, n_named=1),
    "added": lambda c: paper(2),
}


def score_job(job: tuple[str, str, float, float, int]) -> list[Row]:
    """Return a row for each slope and weight; one empty row if there are too few labels or only one class."""
    table, mechanism, prior, frequency, split = job
    rng = np.random.default_rng(seed_of("few levels", *job))
    key: Row = dict(zip(("table", "mechanism", "prior", "frequency", "split"), job, strict=True))
    X, y = _thinned(*load(table), prior, rng)
    s = _labelled(X, y, MECHANISMS[mechanism], frequency, rng)
    train = rng.random(y.size) < 0.75
    X_test, y_test, X, y, s = X[~train], y[~train], X[train], y[train], s[train]
    if s.sum() < MIN_LABELLED or not 0 < y_test.mean() < 1:
        return [key | {"slope": None}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SARStackingClassifier([("logistic", None)], find_attributes=False, random_state=split).fit(X, s)
    member = model.members_[0]
    engine = engine_of(np.empty((s.size, 0)), s=s.astype(float), w=np.ones(s.size), u=member.u)
    rows, no_columns = [], Design.of(np.arange(0))
    for slope in SLOPES:
        found = recalibrate(PairProblem.of(engine, no_columns, no_columns), pseudo_weight=1.0, follow=slope)
        for name, weight in WEIGHTS.items():
            rows.append(key | _scores(found, weight, member.logits(X_test), y_test, y.mean(), int(s.sum()))
                        | {"slope": slope, "weight": name})  # fmt: skip
    return rows


def _thinned(X: np.ndarray, y: np.ndarray, prior: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample with this class prior, as large as possible but at most `MAX_ROWS` rows."""
    positive, negative = (rng.permutation(np.flatnonzero(y == value)) for value in (1, 0))
    n = int(min(MAX_ROWS, positive.size / prior, negative.size / (1.0 - prior)))
    rows = rng.permutation(np.concatenate([positive[: round(n * prior)], negative[: n - round(n * prior)]]))
    return X[rows], y[rows]


def _labelled(X: np.ndarray, y: np.ndarray, slope: float, frequency: float, rng: np.random.Generator) -> np.ndarray:
    """Return labels with this frequency; the propensity depends on the class logit of a logistic model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        z = slope * np.clip(LogisticRegression().fit(X, y).decision_function(X), -5.0, 5.0)
    intercept = brentq(lambda a: expit(a + z[y == 1]).mean() - frequency, -50.0, 50.0)
    return ((rng.random(y.size) < expit(intercept + z)) & (y == 1)).astype(int)


def _scores(found: Recalibration, weight: Weight, u: np.ndarray, y: np.ndarray, prior: float, labels: int) -> Row:
    grid = found.grid
    density = grid.log_density - grid.pseudo_log_density
    prior_weight = weight(grid.class_prior, grid.label_frequency)
    share = _shares(grid, density + prior_weight)
    mean = float(share @ grid.class_prior)
    shift, slope = (np.interp(mean, grid.class_prior, each) for each in (grid.shift, grid.slope))
    f = expit(found.centre + shift + slope * (u - found.centre))
    row: Row = {
        "labels": labels,
        "error": mean - prior,
        "log_error": float(logit(np.clip(mean, 1e-3, 1 - 1e-3)) - logit(prior)),
        "brier": float(np.mean((f - y) ** 2)),
        "balanced_accuracy": float(balanced_accuracy_score(y, f > mean)),
    }
    for divisor in DIVISORS:
        for kind, value in (("labels", density), ("all", density + prior_weight)):
            below = np.cumsum(_shares(grid, value / divisor)) - 0.5 * _shares(grid, value / divisor)
            low, high = np.interp([0.025, 0.975], below, grid.class_prior)
            row[f"covered, {kind}, {divisor:g}"] = bool(low <= prior <= high)
            row[f"width, {kind}, {divisor:g}"] = float(high - low)
    return row


def _shares(grid: ClassPriorGrid, log_density: np.ndarray) -> np.ndarray:
    step = np.gradient(np.log(grid.class_prior)) if log_density.size > 1 else np.ones(1)
    share = np.exp(log_density - log_density.max()) * np.maximum(step, 1e-12)
    return share / share.sum()


def run(splits: list[int], jobs: int) -> None:
    """Measure the jobs that have no stored result."""
    done = {_key(row) for row in read_rows(NAME)}
    wanted = [
        (table, mechanism, prior, frequency, split)
        for split in splits
        for table in PUBLISHED_ORACLE
        for mechanism in MECHANISMS
        for prior in CLASS_PRIORS
        for frequency in LABEL_FREQUENCIES
    ]
    missing = [job for job in wanted if job not in done]
    one_thread_each()
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=ignore_interrupts) as pool:
        for rows in tqdm(pool.imap_unordered(score_job, missing), total=len(missing), unit="task", file=sys.stderr):
            for row in rows:
                append_row(NAME, row)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("table", "mechanism", "prior", "frequency", "split"))


def table(splits: list[int], record: bool) -> None:
    """Print the mean errors for each slope and weight; each pair of class prior and label frequency counts once."""
    rows = [row for row in read_rows(NAME) if row["split"] in splits and row["slope"] is not None]
    print(f"{len({_key(row) for row in rows})} tasks.\n")
    lines = []
    for slope in SLOPES:
        for weight in WEIGHTS:
            own = [row for row in rows if row["slope"] == slope and row["weight"] == weight]
            cells = {(row["prior"], row["frequency"]) for row in own}
            by_cell = [[row for row in own if (row["prior"], row["frequency"]) == cell] for cell in cells]

            def mean(value: Callable[[Row], float], by_cell: list[list[Row]] = by_cell) -> float:
                return float(np.mean([np.mean([value(row) for row in cell]) for cell in by_cell]))

            few, many = ([r for r in own if (r["labels"] < 50) == is_few] for is_few in (True, False))
            lines.append([
                f"slope {slope:g}, {weight}",
                f"{np.sqrt(mean(lambda row: row['error'] ** 2)):.3f}",
                *(f"{np.sqrt(np.mean([row['error'] ** 2 for row in part])):.3f}" for part in (few, many)),
                f"{mean(lambda row: row['brier']):.4f}",
                f"{mean(lambda row: row['balanced_accuracy']):.4f}",
                *(f"{mean(lambda row, n=name: row[n]):.2f}" for name in
                  ("covered, labels, 3", "width, labels, 3", "covered, all, 2", "width, all, 2")),
            ])  # fmt: skip
    heads = [
        *("slope, weight", "error of the class prior (rms)", "below 50 labels", "50 labels or more", "Brier"),
        *("balanced accuracy", "coverage", "width", "coverage, weight included", "width, weight included"),
    ]
    print_table(heads, lines)
    if record:
        record_table(NAME, "weights", heads, lines)


def score_named_job(job: tuple[str, str, float, float]) -> list[Row]:
    """Return a row for each number of pseudo-observations; none if there are too few labels or only one class."""
    table, mechanism, prior, frequency = job
    rng = np.random.default_rng(seed_of("named weights", *job))
    X, y = _thinned(*load(table), prior, rng)
    X, e, named = NAMED_MECHANISMS[mechanism](frequency)(X[:, X.std(axis=0) > 0], y, rng)
    z = logit(e)
    e = expit(z + brentq(lambda a: expit(a + z[y == 1]).mean() - frequency, -50.0, 50.0))
    s = ((rng.random(y.size) < e) & (y == 1)).astype(int)
    train = rng.random(y.size) < 0.75
    X_test, y_test, e_test, X, y, s = X[~train], y[~train], e[~train], X[train], y[train], s[train]
    if s.sum() < MIN_LABELLED_NAMED or not 0 < y_test.mean() < 1:
        return []
    rows = []
    for number in PSEUDO_OBSERVATIONS:
        options = {"propensity_attributes": named.tolist(), "known": [PseudoObservations(number)]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SARStackingClassifier(**options, random_state=0).fit(X, s)
            f, (low, high) = model.predict_proba(X_test)[:, 1], model.class_prior_interval()
            error = (model.predict_propensity(X_test) - e_test)[y_test == 1]
            rows.append({
                **dict(zip(("table", "mechanism", "prior", "frequency"), job, strict=True)),
                "labels": int(s.sum()), "pseudo_observations": number, "error": float(model.class_prior_ - y.mean()),
                "brier": float(np.mean((f - y_test) ** 2)), "mse_e": float(np.mean(error**2)),
                "balanced_accuracy": float(balanced_accuracy_score(y_test, model.predict(X_test))),
                "auc": float(roc_auc_score(y_test, f)), "covered": bool(low <= y.mean() <= high),
                "width": float(high - low),
            })  # fmt: skip
    return rows


def run_named(n_tasks: int, jobs: int) -> None:
    """Measure the first tasks that have no stored result."""
    choices = (PUBLISHED_ORACLE, NAMED_MECHANISMS, NAMED_CLASS_PRIORS, NAMED_LABEL_FREQUENCIES)
    wanted = list(itertools.product(*choices))
    wanted = [wanted[i] for i in np.random.default_rng(5).permutation(len(wanted))[:n_tasks]]
    done = {_named_key(row) for row in read_rows(NAMED)}
    missing = [job for job in wanted if job not in done]
    one_thread_each()
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=ignore_interrupts) as pool:
        for rows in tqdm(pool.imap_unordered(score_named_job, missing), total=len(missing), unit="task"):
            for row in rows:
                append_row(NAMED, row)


def _named_key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("table", "mechanism", "prior", "frequency"))


def named_table(record: bool) -> None:
    """Print the mean scores for each number of pseudo-observations."""
    rows = read_rows(NAMED)
    print(f"{len({_named_key(row) for row in rows})} tasks.\n")
    lines = []
    for number in PSEUDO_OBSERVATIONS:
        every = [row for row in rows if row["pseudo_observations"] == number]
        few, many = ([row for row in every if (row["labels"] < 50) == is_few] for is_few in (True, False))
        errors = (f"{np.sqrt(np.mean([row['error'] ** 2 for row in part])):.3f}" for part in (every, few, many))
        scores = ("brier", "mse_e", "balanced_accuracy", "auc", "covered", "width")
        lines.append([f"{number:g}", *errors, *(f"{np.mean([row[name] for row in every]):.3f}" for name in scores)])
    heads = [
        *("pseudo-observations", "error of the class prior (rms)", "below 50 labels", "50 labels or more", "Brier"),
        *("MSE of e", "balanced accuracy", "AUC", "coverage", "width"),
    ]
    print_table(heads, lines)
    if record:
        record_table(NAME, "named", heads, lines)


def main(arguments: list[str]) -> None:
    parser = command_parser(NAME, __doc__)
    parser.add_argument(
        "--splits", type=split_range, default=[100], help="splits to measure, such as 100-101 (default: 100)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="number of processes, each with one thread")
    parser.add_argument("--named", type=int, metavar="N", help="number of tasks with named propensity attributes")
    add_record_option(parser)
    options = parser.parse_args(arguments)
    if options.named is not None:
        run_named(options.named, options.jobs)
        named_table(options.record)
        return
    run(options.splits, options.jobs)
    table(options.splits, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
