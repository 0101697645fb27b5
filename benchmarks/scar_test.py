"""Do the tests of SCAR hold their level on real data, and do they see the paper's bias?

``python -m benchmarks.scar_test`` runs all parts; ``python -m benchmarks.scar_test size:adult`` runs one on
one dataset. Each labelling's p-values are appended, as a JSON line, to ``benchmarks/results/scar_test.jsonl`` as soon
as they are known, and a labelling that is there already is not run again. ``python -m benchmarks.scar_test
table`` prints the Markdown tables from that file.

Attributes and classes are real, 2,000 rows (breast cancer has 683); to them come four attributes as in the paper, drawn
anew, like the rows, for every labelling. Labels are drawn: completely at random for the size of the tests, by the
paper's mechanism on two or four of the added attributes for their power, and by a logistic one for the intervals of
single effects. The tests see attributes and labels only. All tests of one labelling share its out-of-fold scores, as
`scar_test` makes them.
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
from benchmarks.runner import KEYS, Row, newest, read_rows, run
from scarless.diagnostics.scar._learned import class_columns, standardised
from scarless.diagnostics.scar._pair_tests import compare
from scarless.diagnostics.scar._roles import Roles, check_roles
from scarless.diagnostics.scar.tests import by_likelihood, by_score, by_simulation
from scarless.labelling import GeometricMeanSAR, LogisticSAR, simulate_labels

NAME = "scar_test"
N_ATTRIBUTES = 4
EFFECTS = (0.6, -0.4, 0.0, 0.0)  # log odds per unit of the added attributes, which are -1 or +1


class Sample(NamedTuple):
    """Rows of a dataset: its attributes, then the added ones, and the classes."""

    X: np.ndarray
    y: np.ndarray
    added: np.ndarray  # columns


@cache
def whole(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = load(name)
    rows = np.random.default_rng(0).permutation(len(y))[:20_000]
    return X[rows], y[rows].astype(np.float64)


def sample(name: str, seed: int, max_rows: int) -> Sample:
    """Rows and added attributes, both drawn anew for each seed: SCAR is a statement about all of them."""
    X, y = whole(name)
    rng = np.random.default_rng([seed, 1])
    rows = rng.permutation(len(y))[:max_rows]
    added = propensity_attributes(X[rows], rng, N_ATTRIBUTES)
    d = X.shape[1]
    return Sample(np.hstack([X[rows], added]), y[rows], np.arange(d, d + N_ATTRIBUTES))


def paper(rows: Sample, k: int = 4) -> np.ndarray:
    """The paper's mechanism on the first `k` added attributes."""
    return GeometricMeanSAR(rows.added[:k], low=0.2, high=0.8, ranges=[(-1, 1)] * k).propensity(rows.X)


def constant(rows: Sample) -> float:
    """SCAR with as many labels as the paper's mechanism gives."""
    return float(paper(rows)[rows.y == 1].mean())


def logistic(rows: Sample) -> np.ndarray:
    return LogisticSAR(attributes=rows.added, coefficients=EFFECTS, intercept=-0.4).propensity(rows.X)


class Plan(NamedTuple):
    """How to label, how often, and which rows."""

    propensity: Callable[[Sample], Any]
    labellings: int
    datasets: tuple[str, ...] = tuple(SOURCES)
    rows: int = 2000


PLANS = {
    "size": Plan(constant, 100),
    "power, k=4": Plan(paper, 25),
    "power, k=2": Plan(partial(paper, k=2), 25),
    "logistic": Plan(logistic, 25),
    "size, 16,000 rows": Plan(constant, 20, ("adult", "covtype"), 16_000),
}


def published(X: np.ndarray, s: np.ndarray, score: np.ndarray, prior: float, rng: np.random.Generator) -> float:
    """The p-value of the ECAI 2024 test with its own positives: labelled rows and the highest scores of the others.

    As many as the true class prior says, which it is given here as in its paper. Kolmogorov-Smirnov distances between
    labelled rows and all positives, added up over columns; labels drawn among the positives at their label frequency.
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
        last = np.append(np.diff(x[order]) > 0, True)  # of equal values
        gap = (
            np.cumsum(labels[:, order], axis=1) / labels.sum(axis=1)[:, None] - np.arange(1, rows.size + 1) / rows.size
        )
        distance += np.abs(gap[:, last]).max(axis=1)
    return float(np.mean(distance >= distance[0]))


def p_values(roles: Roles, y: np.ndarray, seed: int) -> dict[str, float]:
    """All tests of one labelling; the slow one with a logistic `f` of many columns for every fifth only."""
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
    """The p-values of every test, labelling by labelling, the datasets in turn."""
    done = {(r["part"], r["dataset"], r["seed"]) for r in read_rows(NAME)}
    plan = PLANS[part]
    for seed in range(plan.labellings):
        for name in names or plan.datasets:
            if (part, name, seed) in done:
                continue
            rows = sample(name, seed, plan.rows)
            s = simulate_labels(rows.y, plan.propensity(rows), random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # breast cancer has few labelled rows
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


def print_table(rows: list[Row], level: float = 0.05) -> None:
    """Print how often each test rejects, and how often the intervals hold the effect: datasets down, tests across."""
    tests = [
        key for key in rows[0] if key not in KEYS and not key.startswith(("effect", "error", "labelled", "machine"))
    ]
    for part in PLANS:
        some = [row for row in rows if row["part"] == part]
        head = ["data", "labellings", "labelled", *tests, "intervals"]
        print(f"\n{part}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
        for name in (*SOURCES, "all"):
            if chosen := [row for row in some if name in (row["dataset"], "all")]:
                shares = [np.mean([row[test] < level for row in chosen if test in row]) for test in tests]
                labelled = np.mean([row["labelled"] for row in chosen])
                cells = [f"{share:.3f}" for share in (*shares, coverage(chosen))]
                print(f"| {name} | {len(chosen)} | {labelled:.0f} | {' | '.join(cells)} |")


def coverage(rows: list[Row]) -> float:
    """Share of 95% intervals that hold the true log odds, where the mechanism is logistic or constant."""
    truth = {"size": (0, 0, 0, 0), "size, 16,000 rows": (0, 0, 0, 0), "logistic": EFFECTS}.get(rows[0]["part"])
    if truth is None:
        return float("nan")
    gaps = [
        abs(row[f"effect {j + 1}"] - effect) < 1.96 * row[f"error {j + 1}"]
        for row in rows
        for j, effect in enumerate(truth)
    ]
    return float(np.mean(gaps))


PARTS = {part: partial(labellings, part) for part in PLANS}


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        print_table(newest(NAME))
    else:
        run(NAME, PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
