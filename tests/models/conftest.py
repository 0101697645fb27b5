"""One small simulated table that most tests of the models share."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit
from threadpoolctl import threadpool_limits


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
def one_thread():
    """Keep OpenMP and BLAS of several test processes from fighting over few cores."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def pu():
    return simulate()


@pytest.fixture
def simulated():
    return simulate
