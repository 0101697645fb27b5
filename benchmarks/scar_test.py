"""Do the tests of SCAR hold their level on real data, and do they see the paper's bias?

``python -m benchmarks.scar_test`` runs all parts; ``python -m benchmarks.scar_test size:adult`` runs one on
one dataset. Each labelling's p-values are appended, as a JSON line, to ``benchmarks/results/scar_test.jsonl`` as soon
as they are known, and a labelling that is there already is not run again. ``python -m benchmarks.scar_test
table`` prints the Markdown tables from that file.

Rows and classes are real, 2,000 rows drawn anew for every tenth labelling; labels are drawn, completely at random for
the size of the tests, by the paper's mechanism on two or four of the four added attributes for their power. The tests
see attributes and labels only. All tests of one labelling share its out-of-fold scores, as `scar_test` makes them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from benchmarks.datasets import SOURCES, load, propensity_attributes
from benchmarks.runner import Row, newest, read_rows, run
from scarless.diagnostics._learned import class_columns, standardised
from scarless.diagnostics._pair_tests import Comparison, compare
from scarless.diagnostics._roles import Roles, check_roles
from scarless.diagnostics.scar_test import by_likelihood, by_simulation
from scarless.labelling import GeometricMeanSAR, simulate_labels

NAME = "scar_test"
MAX_ROWS, N_ATTRIBUTES = 2000, 4
PER_SAMPLE = 10  # labellings of one sample of rows
LABELLINGS = {"size": 150, "power k=2": 30, "power k=4": 30}


class Sample(NamedTuple):
    """Rows of a dataset: its attributes, then the added ones, and the classes."""

    X: np.ndarray
    y: np.ndarray
    added: np.ndarray  # columns


@cache
def whole(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, _ = load(name)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(y))[:20_000]
    return X[rows], y[rows].astype(np.float64), propensity_attributes(X[rows], rng, N_ATTRIBUTES)


@cache
def sample(name: str, seed: int, max_rows: int = MAX_ROWS) -> Sample:
    X, y, added = whole(name)
    rows = np.random.default_rng([seed, 1]).permutation(len(y))[:max_rows]
    d = X.shape[1]
    return Sample(np.hstack([X[rows], added[rows]]), y[rows], np.arange(d, d + N_ATTRIBUTES))


def draw_labels(part: str, rows: Sample, seed: int) -> np.ndarray:
    """Labels by the paper's mechanism; for the size of the tests, at its mean propensity for every positive."""
    k = 2 if part == "power k=2" else 4
    mechanism = GeometricMeanSAR(rows.added[:k], low=0.2, high=0.8, ranges=[(-1, 1)] * k)
    e = mechanism.propensity(rows.X)
    return simulate_labels(rows.y, e[rows.y == 1].mean() if part == "size" else e, random_state=seed)


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
    """All tests of one labelling."""
    rng = np.random.default_rng(seed)
    k, Z, s = roles.Z.shape[1], standardised(roles.Z), roles.s
    D = class_columns(roles, classifier=None, n_folds=5, rng=rng)
    raw = class_columns(roles, classifier="logistic", n_folds=5, rng=rng)
    fit, textbook = compare(D, Z, s), compare(raw, Z, s)
    both = compare(standardised(np.column_stack([D, Z])), Z, s)
    return {
        "likelihood ratio": by_likelihood(fit, k, "likelihood-ratio").p_value,
        "Wald": by_likelihood(fit, k, "wald").p_value,
        "Kolmogorov-Smirnov": by_simulation(D, roles.Z, s, 999, rng).p_value,
        "likelihood ratio, f sees x_e": by_likelihood(both, k, "likelihood-ratio").p_value,
        "likelihood ratio, f logistic": by_likelihood(textbook, k, "likelihood-ratio").p_value,
        "Wald, f logistic": by_likelihood(textbook, k, "wald").p_value,
        "published set of positives": published(roles.Z, s, D[:, 0], float(y.mean()), rng),
        **{f"attribute {j + 1}": p for j, p in enumerate(_single(fit, k))},
    }


def _single(fit: Comparison, k: int) -> list[float]:
    error = np.sqrt(np.diagonal(fit.covariance)[-k - 1 : -1])
    return chi2.sf((fit.alternative[-k - 1 : -1] / error) ** 2, 1).tolist()


def labellings(part: str, names: tuple[str, ...] = tuple(SOURCES)) -> Iterator[Row]:
    """The p-values of every test, labelling by labelling, the datasets in turn."""
    done = {(r["part"], r["dataset"], r["seed"]) for r in read_rows(NAME)}
    for seed in range(LABELLINGS[part]):
        for name in names:
            if (part, name, seed) in done:
                continue
            rows = sample(name, seed // PER_SAMPLE)
            s = draw_labels(part, rows, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # breast cancer has few labelled rows
                roles = check_roles(
                    rows.X,
                    s,
                    propensity_attributes=rows.added,
                    classification_attributes=None,
                    pos_label=None,
                    user="scar_test",
                )
                yield {
                    "part": part,
                    "dataset": name,
                    "seed": seed,
                    "labelled": int(s.sum()),
                    **p_values(roles, rows.y, seed),
                }


def print_table(rows: list[Row], level: float = 0.05) -> None:
    """Print how often each test rejects: datasets down, tests across."""
    tests = [key for key in rows[0] if key not in ("part", "dataset", "seed", "labelled", "machine")]
    for part in LABELLINGS:
        print(
            f"\n{part}\n\n| data | labellings | labelled | "
            + " | ".join(tests)
            + " |\n"
            + "|---" * (len(tests) + 3)
            + "|"
        )
        for name in (*SOURCES, "all"):
            some = [row for row in rows if row["part"] == part and name in (row["dataset"], "all")]
            if some:
                labelled = np.mean([row["labelled"] for row in some])
                cells = [f"{np.mean([row[test] < level for row in some]):.3f}" for test in tests]
                print(f"| {name} | {len(some)} | {labelled:.0f} | " + " | ".join(cells) + " |")


PARTS = {part: partial(labellings, part) for part in LABELLINGS}


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        print_table(newest(NAME))
    else:
        run(NAME, PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
