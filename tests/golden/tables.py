"""Simulated tables whose answers are stored: the class follows some columns, and the labelling follows others."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit

NOT_LOOKED = np.nan
NOT_AUDITED = -1


class Table(NamedTuple):
    """Rows, their labels, and what else was observed; the true class is used only for audits."""

    X: np.ndarray
    s: np.ndarray
    y: np.ndarray

    def audit(self, share: float = 0.1, seed: int = 9) -> np.ndarray:
        """Return the true class of a random share of the rows, and `NOT_AUDITED` for the others."""
        chosen = np.random.default_rng(seed).random(len(self.y)) < share
        return np.where(chosen, self.y, NOT_AUDITED)

    def weights(self, seed: int = 8) -> np.ndarray:
        """Return positive weights that differ between rows."""
        return np.random.default_rng(seed).uniform(0.5, 2.0, len(self.y))


def plain(n: int = 600, n_columns: int = 3, seed: int = 0, level: float = 0.0) -> Table:
    """The class follows all columns but the last, and the propensity follows the last."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns))
    slopes = np.linspace(1.5, -1.0, n_columns - 1)
    y = rng.random(n) < expit(X[:, :-1] @ slopes - 0.3)
    s = y & (rng.random(n) < expit(1.5 * X[:, -1] + level))
    return Table(X, s.astype(int), y.astype(int))


def few_labels() -> Table:
    """About 25 labels, which leaves the number of positives uncertain."""
    return plain(n=400, n_columns=5, seed=3, level=-2.5)


def rare() -> Table:
    """About 6% of the rows are positive."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1500, 4))
    y = rng.random(1500) < expit(1.5 * X[:, 0] + X[:, 1] - 4.0)
    s = y & (rng.random(1500) < expit(X[:, 2] + 0.5))
    return Table(X, s.astype(int), y.astype(int))


def binary_attributes() -> Table:
    """Binary attributes, of which two drive the labelling and one of these drives the class too."""
    rng = np.random.default_rng(5)
    X = rng.choice([-1.0, 1.0], size=(900, 6))
    y = rng.random(900) < expit(X[:, 0] + X[:, 1] + 0.8 * X[:, 4])
    s = y & (rng.random(900) < expit(X[:, 4] + X[:, 5]))
    return Table(X, s.astype(int), y.astype(int))


def interaction() -> Table:
    """The class depends on a product of two columns, which a logistic model does not fit."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(700, 4))
    y = rng.random(700) < expit(2 * X[:, 0] * X[:, 1] + X[:, 2])
    s = y & (rng.random(700) < expit(1.2 * X[:, 3]))
    return Table(X, s.astype(int), y.astype(int))


def follows_the_class() -> Table:
    """The surer the class, the likelier the label; no attribute of its own drives the labelling."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(800, 4))
    probability = expit(1.5 * X[:, 0] - X[:, 1])
    y = rng.random(800) < probability
    s = y & (rng.random(800) < 0.6 * probability**2)
    return Table(X, s.astype(int), y.astype(int))


def many_columns() -> Table:
    """Thirty columns, of which five affect the class and one the labelling."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(800, 30))
    y = rng.random(800) < expit(X[:, :5].sum(axis=1))
    s = y & (rng.random(800) < expit(1.5 * X[:, 5] - 0.5))
    return Table(X, s.astype(int), y.astype(int))


def sparse_rows() -> tuple[sparse.csr_array, np.ndarray]:
    """Sparse counts, one of whose columns drives the labelling."""
    rng = np.random.default_rng(10)
    dense = rng.poisson(0.15, size=(1000, 40)).astype(float)
    y = rng.random(1000) < expit(dense[:, :10].sum(axis=1) - 2.0)
    s = y & (rng.random(1000) < expit(dense[:, 20] - 0.5))
    return sparse.csr_array(dense), s.astype(int)


class Looks(NamedTuple):
    """Rows with three looks, of which some did not take place; with false positives at the rate `wrong`."""

    X: np.ndarray
    S: np.ndarray
    y: np.ndarray
    effort: np.ndarray


def looks(wrong: float = 0.0, n: int = 700, seed: int = 11) -> Looks:
    """Return three looks at each row; the propensity of a look follows a column and the effort of the look."""
    rng = np.random.default_rng(seed)
    X, effort = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    y = rng.random(n) < expit(1.5 * X[:, 0] - X[:, 1])
    propensity = expit(X[:, 2][:, None] + 0.7 * effort - 0.2)
    S = (rng.random((n, 3)) < np.where(y[:, None], propensity, wrong)).astype(float)
    S[rng.random((n, 3)) < 0.15] = NOT_LOOKED
    return Looks(X, S, y.astype(int), effort)
