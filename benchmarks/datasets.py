"""Rows, attributes and class priors of the paper's eight datasets.

Data: the datasets, from ../shared/data or the folder in the environment variable SCARLESS_DATA.
Time: a few seconds.

Other programs take the datasets from this module, with the paper's labelling protocol.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split

from benchmarks.runner import command_parser
from scarless.datasets import dataset_names, load_dataset
from scarless.labelling import GeometricMeanSAR, simulate_labels

SOURCES = dataset_names()


def find_data_home() -> Path | None:
    """Return the folder ../shared/data of the raw files, or None if SCARLESS_DATA is set or there is no such folder."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    return shared if not os.environ.get("SCARLESS_DATA") and shared.is_dir() else None


def load(name: str, data_home: str | Path | None = None) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return attributes scaled to [-1, 1] (float64, C-contiguous), classes (0/1) and attribute names of a dataset."""
    data = load_dataset(name, data_home=data_home or find_data_home())
    return data.X, data.y, list(data.attribute_names)


def propensity_attributes(X: np.ndarray, rng: np.random.Generator, n_attributes: int = 4) -> np.ndarray:
    """Return binary attributes (-1/+1) that depend on the other attributes through clusters, as in the paper.

    For each attribute: k-means with 5 clusters, a uniform random probability for each cluster, and a Bernoulli draw
    for each row. The clusters are fitted to at most 20,000 rows, which are drawn anew for each attribute.
    """
    n = X.shape[0]
    columns = []
    for _ in range(n_attributes):
        rows = rng.choice(n, size=20_000, replace=False) if n > 20_000 else slice(None)
        k_means = KMeans(n_clusters=5, random_state=int(rng.integers(2**31))).fit(X[rows])
        probability = rng.random(5)[k_means.predict(X)]
        columns.append(np.where(rng.random(n) < probability, 1.0, -1.0))
    return np.column_stack(columns)


@dataclass(frozen=True)
class PaperSetting:
    """A labelled split into training and test rows.

    X has the attributes of the dataset and then the four added ones. ``propensity_columns`` are the first k of the four
    added attributes, which the propensity depends on.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    s_train: np.ndarray
    e_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    s_test: np.ndarray
    e_test: np.ndarray
    names: list[str]
    original_columns: np.ndarray
    propensity_columns: np.ndarray


def paper_setting(name: str, k: int = 4, seed: int = 0, data_home: str | Path | None = None) -> PaperSetting:
    """Return a stratified 80/20 split with four added attributes; the propensity depends on the first ``k``."""
    if k not in (1, 2, 3, 4):
        raise ValueError(f"k must be 1, 2, 3 or 4, because four propensity attributes are added; got {k!r}.")
    rng = np.random.default_rng(seed)
    X, y, names = load(name, data_home)
    n, d = X.shape
    extra = propensity_attributes(X, rng, n_attributes=4)
    X = np.hstack([X, extra])
    e = GeometricMeanSAR(range(k), low=0.2, high=0.8, ranges=[(-1, 1)] * k).propensity(extra)
    s = simulate_labels(y, e, random_state=seed)
    train, test = train_test_split(np.arange(n), test_size=0.2, stratify=y, random_state=int(rng.integers(2**31)))
    return PaperSetting(
        X_train=X[train],
        y_train=y[train],
        s_train=s[train],
        e_train=e[train],
        X_test=X[test],
        y_test=y[test],
        s_test=s[test],
        e_test=e[test],
        names=[*names, *(f"propensity-{i}" for i in range(1, 5))],
        original_columns=np.arange(d),
        propensity_columns=np.arange(d, d + k),
    )


def main(arguments: list[str]) -> None:
    command_parser("datasets", __doc__).parse_args(arguments)
    print(f"{'dataset':<18}{'rows':>8}{'attributes':>12}{'Pr(y=1)':>9}")
    for name in SOURCES:
        X, y, _ = load(name)
        print(f"{name:<18}{X.shape[0]:>8}{X.shape[1]:>12}{y.mean():>9.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
