"""A small, well-behaved problem that every hostile call starts from."""

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
    """Attributes, class, labels, propensities, probabilities and weights of a few rows; numbers to draw from."""

    rng: np.random.Generator
    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    e: np.ndarray
    f: np.ndarray
    w: np.ndarray


Maker = Callable[[Base], Any]
Pool = dict[str, Maker]  # in words -> value


def make_base(rng: np.random.Generator) -> Base:
    """Draw a table of a few columns, the last of them binary, which is also the one that drives the labelling."""
    n, d = int(rng.integers(80, 120)), int(rng.integers(2, 5))
    while True:
        X = rng.normal(size=(n, d))
        X[:, -1] = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        f = expit(2.0 * X[:, 0] + 0.5)
        e = np.where(X[:, -1] > 0, 0.7, 0.4)
        y = (rng.random(n) < f).astype(np.int64)
        s = y * (rng.random(n) < e)
        if s.sum() >= 22:  # diagnostics ask for 20
            return Base(rng, X, y, s, e, f, rng.uniform(0.5, 2.0, size=n))


def fitted(base: Base) -> SAREMClassifier:
    """Return a model of the base table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small table may look as if all positives were labelled
        return SAREMClassifier(propensity_attributes=[base.X.shape[1] - 1]).fit(base.X, base.s)


@cache
def folder() -> Path:
    """Return a folder of this process's own, which goes when the process ends."""
    holder = tempfile.TemporaryDirectory(prefix="scarless-fuzz-")
    _KEPT.append(holder)
    return Path(holder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


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
    """Return one of the pool's values, and what it is in words."""
    name = list(pool)[int(base.rng.integers(len(pool)))]
    return name, pool[name](base)
