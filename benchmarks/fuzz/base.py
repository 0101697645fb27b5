"""A small valid problem, from which the arguments of all calls are made."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from scarless import SAREMClassifier


@dataclass(frozen=True)
class Base:
    """A small table: attributes, classes, labels, propensities, class probabilities and weights; a generator."""

    rng: np.random.Generator
    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    e: np.ndarray
    f: np.ndarray
    w: np.ndarray


Maker = Callable[[Base], Any]
Pool = dict[str, Maker]  # descriptions and makers of values


def make_base(rng: np.random.Generator) -> Base:
    """Draw a table with a few columns; the propensity depends on the last one, which is binary."""
    n, d = int(rng.integers(80, 120)), int(rng.integers(2, 5))
    while True:
        X = rng.normal(size=(n, d))
        X[:, -1] = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        f = expit(2.0 * X[:, 0] + 0.5)
        e = np.where(X[:, -1] > 0, 0.7, 0.4)
        y = (rng.random(n) < f).astype(np.int64)
        s = y * (rng.random(n) < e)
        if s.sum() >= 22:  # Diagnostics need 20 labelled rows.
            return Base(rng, X, y, s, e, f, rng.uniform(0.5, 2.0, size=n))


def fitted(base: Base) -> SAREMClassifier:
    """Return a model that is fitted to the base table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A fit to few rows may warn that all positives are labelled.
        return SAREMClassifier(propensity_attributes=[base.X.shape[1] - 1]).fit(base.X, base.s)


@cache
def folder() -> Path:
    """Return a temporary folder of this process, which is removed when the process ends."""
    holder = tempfile.TemporaryDirectory(prefix="scarless-fuzz-")
    _TEMPORARY_FOLDERS.append(holder)
    return Path(holder.name)


# References keep the folders from being removed early.
_TEMPORARY_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def mapped(values: np.ndarray) -> np.memmap:
    """Return the values as a read-only memory map."""
    path = folder() / f"{values.ndim}-{values.dtype.str[1:]}.dat"
    path.unlink(missing_ok=True)
    filled = np.memmap(path, dtype=values.dtype, mode="w+", shape=values.shape)
    filled[...] = values
    filled.flush()
    return np.memmap(path, dtype=values.dtype, mode="r", shape=values.shape)


def read_only(values: np.ndarray) -> np.ndarray:
    copy = values.copy()
    copy.setflags(write=False)
    return copy


def replaced(values: Any, where: Any, value: Any, dtype: Any = None) -> np.ndarray:
    """Return a copy with some entries replaced."""
    copy = np.array(values, dtype=dtype)
    copy[where] = value
    return copy


def draw(pool: Pool, base: Base) -> tuple[str, Any]:
    """Return the description of a random value of the pool, and the value."""
    name = list(pool)[int(base.rng.integers(len(pool)))]
    return name, pool[name](base)
