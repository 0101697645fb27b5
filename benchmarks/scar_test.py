"""Size and power of the tests of SCAR on real attributes and classes.

Data: samples of 2,000 rows of the paper's eight datasets (breast cancer has 683), from ../shared/data or the folder in
the environment variable SCARLESS_DATA, with four added attributes as in the paper.
Time: a few hours for all 1,440 labellings. Labellings that were measured before are skipped.

Rows, added attributes and labels are drawn anew for each labelling: labels completely at random for the size of the
tests, by the paper's mechanism on two or four of the added attributes for their power, and by a logistic mechanism for
the intervals of single effects. The tests use attributes and labels only. All tests of one labelling share the same
out-of-fold scores.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from benchmarks.datasets import SOURCES, load, propensity_attributes
from benchmarks.runner import KEYS, Part, Row, newest, print_table, read_rows, record_table, run_parts
from scarless.diagnostics.scar._learned import class_columns, standardised
from scarless.diagnostics.scar._pair_tests import compare
from scarless.diagnostics.scar._roles import Roles, check_roles
from scarless.diagnostics.scar.tests import by_likelihood, by_score, by_simulation
from scarless.labelling import GeometricMeanSAR, LogisticSAR, simulate_labels

NAME = "scar_test"
N_ATTRIBUTES = 4
EFFECTS = (0.6, -0.4, 0.0, 0.0)  # log odds per unit of the added attributes, whose values are -1 and +1


class Sample(NamedTuple):
    """Rows of a dataset: its attributes and the added ones, and the classes."""

    X: np.ndarray
    y: np.ndarray
    added: np.ndarray  # indices of the added columns


@cache
def whole(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = load(name)
    rows = np.random.default_rng(0).permutation(len(y))[:20_000]
    return X[rows], y[rows].astype(np.float64)


def sample(name: str, seed: int, max_rows: int) -> Sample:
    """Return a sample of rows with added attributes, both drawn anew for each seed."""
    X, y = whole(name)
    rng = np.random.default_rng([seed, 1])
    rows = rng.permutation(len(y))[:max_rows]
    added = propensity_attributes(X[rows], rng, N_ATTRIBUTES)
    d = X.shape[1]
    return Sample(np.hstack([X[rows], added]), y[rows], np.arange(d, d + N_ATTRIBUTES))


def paper(rows: Sample, k: int = 4) -> np.ndarray:
    """Return propensities by the paper's mechanism on the first `k` added attributes."""
    return GeometricMeanSAR(rows.added[:k], low=0.2, high=0.8, ranges=[(-1, 1)] * k).propensity(rows.X)


def constant(rows: Sample) -> float:
    """Return a constant propensity that gives as many labels as the paper's mechanism."""
    return float(paper(rows)[rows.y == 1].mean())


def logistic(rows: Sample) -> np.ndarray:
    return LogisticSAR(attributes=rows.added, coefficients=EFFECTS, intercept=-0.4).propensity(rows.X)


class Plan(NamedTuple):
    """The labelling mechanism, the number of labellings, the datasets and the number of rows of one part."""

    text: str
    propensity: Callable[[Sample], Any]
    labellings: int
    datasets: tuple[str, ...] = tuple(SOURCES)
    rows: int = 2000


PLANS = {
    "size": Plan("labels completely at random: how often the tests reject SCAR", constant, 100),
    "power, k=4": Plan("labels that depend on four attributes by the paper's mechanism", paper, 25),
    "power, k=2": Plan("labels that depend on two attributes by the paper's mechanism", partial(paper, k=2), 25),
    "logistic": Plan("labels that depend on two attributes by a logistic mechanism", logistic, 25),
    "size, 16,000 rows": Plan("the same as size, with more rows", constant, 20, ("adult", "covtype"), 16_000),
}


def published(X: np.ndarray, s: np.ndarray, score: np.ndarray, prior: float, rng: np.random.Generator) -> float:
    """Return the p-value of a test that was published at ECAI 2024.

    Its positives are the labelled rows and the unlabelled rows with the highest scores. Their number follows from the
    true class prior, which the test gets as an input, as in its paper. The statistic is the sum over columns of the
    Kolmogorov-Smirnov distances between labelled rows and positives. Under the null hypothesis, labels are drawn among
    the positives.
    """
    unlabelled = np.flatnonzero(s == 0)
    n_missing = max(10, round(s.size * prior - s.sum()))
    top = unlabelled[np.argsort(-score[unlabelled], kind="stable")[:n_missing]]
    rows = np.append(np.flatnonzero(s == 1), top)
    drawn = (rng.random((199, rows.size)) < s.sum() / rows.size).astype(np.float64)
    labels = np.vstack([s[rows], drawn])
    distance = np.zeros(len(labels))
    for x in X[rows].T:
        order = np.argsort(x, kind="stable")
        last = np.append(np.diff(x[order]) > 0, True)  # marks the last of equal values
        gap = (
            np.cumsum(labels[:, order], axis=1) / labels.sum(axis=1)[:, None] - np.arange(1, rows.size + 1) / rows.size
        )
        distance += np.abs(gap[:, last]).max(axis=1)
    return float(np.mean(distance >= distance[0]))


def p_values(roles: Roles, y: np.ndarray, seed: int) -> dict[str, float]:
    """Return the p-values of all tests of one labelling. Slow tests (logistic `f`) run for every fifth labelling."""
    rng = np.random.default_rng(seed)
    k, Z, s, w = roles.Z.shape[1], standardised(roles.Z, roles.w), roles.s, roles.w
    D = class_columns(roles, estimator=None, cv=5, rng=rng)
    fit = compare(D, Z, s, w)
    found = {
        "score": by_score(D, Z, s, w).p_value,
        "likelihood ratio": by_likelihood(fit, k, "likelihood-ratio").p_value,
        "Wald": by_likelihood(fit, k, "wald").p_value,
        "Kolmogorov-Smirnov": by_simulation(D, roles.Z, s, w, 999, rng).p_value,
        "score, f sees x_e": by_score(standardised(np.column_stack([D, Z]), w), Z, s, w).p_value,
        "published set of positives": published(roles.Z, s, D[:, 0], float(y.mean()), rng),
    }
    if seed % 5 == 0:
        raw = class_columns(roles, estimator="logistic", cv=5, rng=rng)
        found["score, f logistic"] = by_score(raw, Z, s, w).p_value
        found["likelihood ratio, f logistic"] = by_likelihood(compare(raw, Z, s, w), k, "likelihood-ratio").p_value
    effects, errors = fit.alternative[-k - 1 : -1], np.sqrt(np.diagonal(fit.covariance)[-k - 1 : -1])
    per_unit = roles.Z.std(axis=0)
    for j in range(k):
        found[f"attribute {j + 1}"] = float(chi2.sf((effects[j] / errors[j]) ** 2, 1))
        found[f"effect {j + 1}"], found[f"error {j + 1}"] = effects[j] / per_unit[j], errors[j] / per_unit[j]
    return found


def labellings(part: str, names: tuple[str, ...] | None = None) -> Iterator[Row]:
    """Yield the p-values of all tests for each labelling and dataset."""
    done = {(r["part"], r["dataset"], r["seed"]) for r in read_rows(NAME)}
    plan = PLANS[part]
    for seed in range(plan.labellings):
        for name in names or plan.datasets:
            if (part, name, seed) in done:
                continue
            rows = sample(name, seed, plan.rows)
            s = simulate_labels(rows.y, plan.propensity(rows), random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Breast cancer has few labelled rows.
                roles = check_roles(
                    rows.X,
                    s,
                    propensity_attributes=rows.added,
                    classification_attributes=None,
                    sample_weight=None,
                    pos_label=None,
                    user="scar_test",
                )
                found = p_values(roles, rows.y, seed)
            yield {"part": part, "dataset": name, "seed": seed, "labelled": int(s.sum()), **found}


def table(record: bool) -> None:
    """Print how often each test rejects, and how often the intervals contain the effect; record it if asked to."""
    rows, level = newest(NAME), 0.05
    if not rows:
        return
    no_tests = ("effect", "error", "labelled", "machine")
    tests = [key for key in rows[0] if key not in KEYS and not key.startswith(no_tests)]
    heads = ["data", "labellings", "labelled", *tests, "intervals"]
    for part in PLANS:
        of_part = [row for row in rows if row["part"] == part]
        lines = []
        for name in (*SOURCES, "all"):
            if chosen := [row for row in of_part if name in (row["dataset"], "all")]:
                shares = [np.mean([row[test] < level for row in chosen if test in row]) for test in tests]
                labelled = np.mean([row["labelled"] for row in chosen])
                cells = [f"{share:.3f}" for share in (*shares, coverage(chosen))]
                lines.append([name, f"{len(chosen)}", f"{labelled:.0f}", *cells])
        print(f"\n{part}\n")
        print_table(heads, lines)
        if record:
            record_table(NAME, part, heads, lines)


def coverage(rows: list[Row]) -> float:
    """Return the coverage of 95% intervals of the log odds; NaN if the mechanism is not logistic or constant."""
    truth = {"size": (0, 0, 0, 0), "size, 16,000 rows": (0, 0, 0, 0), "logistic": EFFECTS}.get(rows[0]["part"])
    if truth is None:
        return float("nan")
    gaps = [
        abs(row[f"effect {j + 1}"] - effect) < 1.96 * row[f"error {j + 1}"]
        for row in rows
        for j, effect in enumerate(truth)
    ]
    return float(np.mean(gaps))


def _part(name: str) -> Part:
    def measure(datasets: tuple[str, ...] | None = None) -> Iterator[Row]:
        yield from labellings(name, datasets)

    measure.__doc__ = PLANS[name].text
    return measure


PARTS = {name: _part(name) for name in PLANS}


def main(arguments: list[str]) -> None:
    run_parts(NAME, __doc__, PARTS, arguments, table=table)


if __name__ == "__main__":
    main(sys.argv[1:])
