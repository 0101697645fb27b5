"""Property tests draw the same examples on every run, so a red run is about the change and not about the draw.

``make test-random`` draws anew; what it finds becomes an explicit example.
"""

import os

# SciPy reads it once, when it is imported: only then do scikit-learn's checks of array API dispatch run.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse
from scipy.special import expit
from tests.engines.shards import in_pieces
from threadpoolctl import threadpool_limits

from scarless.engines import open_rows

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_configure():
    """Let a table in three pieces take the place of one in memory, where ``make test-shards`` asks for that."""
    if os.environ.get("SCARLESS_TEST_ENGINE") == "shards":
        for kind in (np.ndarray, sparse.sparray, sparse.spmatrix):
            open_rows.register(kind, in_pieces)


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


@pytest.fixture(autouse=True)
def one_thread(request):
    """Keep OpenMP and BLAS of several test processes from fighting over few cores."""
    with threadpool_limits(1 if {"models", "pair"} & set(request.path.parts) else None):
        yield


@pytest.fixture
def pu():
    return simulate()


@pytest.fixture
def simulated():
    return simulate


@pytest.fixture
def two_optima():
    return make_two_optima


def make_two_optima(seed, n=400):
    """Return a table with classes that binary attributes separate, and propensity attributes that follow them."""
    rng = np.random.default_rng(seed)
    B, E = rng.choice([-1.0, 1.0], size=(n, 5)), rng.choice([-1.0, 1.0], size=(n, 2))
    y = (B[:, 0] > 0) | ((B[:, 1] > 0) & (B[:, 2] > 0))
    E[:, 0] = np.where(rng.random(n) < 0.8, B[:, 0], E[:, 0])
    e = np.where(E[:, 0] > 0, 0.9, 0.3) * np.where(E[:, 1] > 0, 0.9, 0.2)
    return np.column_stack([B, E]), (y & (rng.random(n) < e)).astype(float)
