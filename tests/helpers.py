"""Functions that tests of several packages use: simulated tables, and fits whose warnings are ignored or returned."""

import importlib.util
import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit
from threadpoolctl import threadpool_limits

from scarless.datasets import load_simulated
from scarless.experiments.protocol import prepare, split_rows


class Simulated(NamedTuple):
    X: np.ndarray
    f: np.ndarray
    e: np.ndarray
    y: np.ndarray
    s: np.ndarray


def simulate(n=400, seed=0, low=0.3, high=0.9):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    f = expit(1.5 * X[:, 0] - X[:, 1] - 0.3)
    e = low + (high - low) * expit(1.5 * X[:, 2])
    y = (rng.random(n) < f).astype(int)
    s = y * (rng.random(n) < e)
    return Simulated(X, f, e, y, s)


def simulate_pair(n, seed=0, class_intercept=0.0, propensity_intercept=0.0):
    """Return three attributes and labels; the class depends on the first two, the propensity on the third."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f, e = expit(1.5 * X[:, 0] - X[:, 1] + class_intercept), expit(1.2 * X[:, 2] + propensity_intercept)
    return X, (rng.random(n) < f * e).astype(int)


class SimulatedLooks:
    """Rows with two looks, some of which are missing, and audits of some rows. ``rate`` is the false positive rate."""

    def __init__(self, n=400, seed=0, rate=0.0):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, 4))
        self.f = expit(2 * self.X[:, 0] - self.X[:, 1])
        self.y = rng.random(n) < self.f
        self.e = expit(self.X[:, 2] + 0.3)
        label = np.where(self.y[:, None], self.e[:, None], rate)
        self.S = (rng.random((n, 2)) < label).astype(float)
        self.S[rng.random((n, 2)) < 0.1] = np.nan
        self.audit = np.where(rng.random(n) < 0.2, self.y, -1)


def gaussian_mixture(n, c, distance, seed=0):
    """Return the log-odds of the positive class, labels completely at random, and the share of positives.

    Two Gaussians with prior 0.4.
    """
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    z = np.log(0.4 / 0.6) + distance * rng.normal(distance * y) - distance**2 / 2
    return z, (y & (rng.random(n) < c)).astype(int), y.mean()


def make_two_optima(seed, n=400):
    """Return a table and labels; binary attributes determine the class, and a propensity attribute depends on them."""
    rng = np.random.default_rng(seed)
    B, E = rng.choice([-1.0, 1.0], size=(n, 5)), rng.choice([-1.0, 1.0], size=(n, 2))
    y = (B[:, 0] > 0) | ((B[:, 1] > 0) & (B[:, 2] > 0))
    E[:, 0] = np.where(rng.random(n) < 0.8, B[:, 0], E[:, 0])
    e = np.where(E[:, 0] > 0, 0.9, 0.3) * np.where(E[:, 1] > 0, 0.9, 0.2)
    return np.column_stack([B, E]), (y & (rng.random(n) < e)).astype(float)


@cache
def simulated_split(spec):
    """Return the first split of a simulated dataset, by the protocol of an experiment."""
    data = load_simulated(300, 3)
    with threadpool_limits(1):
        prepared = prepare(spec, "simulated", data.X, data.y)
    return split_rows(spec, "simulated", 0, prepared)


def cells_of(table):
    """Return the texts of a table of a report, row by row."""
    return [[cell.text for cell in row] for section in table.sections for row in section.rows]


def fit_quietly(model, X, s, **given):
    """Fit a model and ignore its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, s, **given)


def fit_and_listen(model, X, s, **given):
    """Fit a model; return it with the text of every warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, s, **given)
    return model, [str(each.message) for each in caught]


def fit_to_scores(estimator, scores, s, **options):
    """Fit an estimator of the label frequency, of the class ``estimator``, to given scores."""
    return estimator("precomputed", **options).fit(np.asarray(scores, dtype=float)[:, None], s)


def parameters_of(model):
    """Return coefficients and intercepts of both models of a pair."""
    parts = (model.coef_, model.intercept_, model.propensity_coef_, model.propensity_intercept_)
    return np.concatenate([part.ravel() for part in parts])


def slowly(*values):
    """Return parameters of a test with which only `make test-slow` runs it."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def quick_first(*values):
    """Return parameters of a test: `make test` uses the first, `make test-slow` the others."""
    return [values[0], *slowly(*values[1:])]


def load_tool(name: str) -> ModuleType:
    """Import a script of the folder `tools`, which is not a package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "tools" / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
