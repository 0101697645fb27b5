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
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import SOURCES, load, propensity_attributes
from benchmarks.runner import Row, newest, read_rows, run
from scarless.diagnostics._learned import class_columns, standardised
from scarless.diagnostics._pair_tests import compare
from scarless.diagnostics._roles import Roles, check_roles
from scarless.diagnostics.scar_test import by_likelihood, by_score, by_simulation
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
