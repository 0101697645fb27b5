"""The paper's eight datasets, with its labelling protocol on top.

Run ``python -m benchmarks.datasets`` for the table of rows, attributes and class priors.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split

from scarless.datasets import dataset_names, load_dataset
from scarless.labelling import GeometricMeanSAR, simulate_labels

SOURCES = dataset_names()


def find_data_home() -> Path | None:
    """Directory of the raw files: ``SCARLESS_DATA``, which the library reads itself, else ``../shared/data``."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    return shared if not os.environ.get("SCARLESS_DATA") and shared.is_dir() else None


def load(name: str, data_home: str | Path | None = None) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Attributes scaled to [-1, 1] (float64, C-contiguous), class (0/1) and attribute names of a dataset."""
    data = load_dataset(name, data_home=data_home or find_data_home())
    return data.X, data.y, list(data.attribute_names)


def propensity_attributes(X: np.ndarray, rng: np.random.Generator, n_attributes: int = 4) -> np.ndarray:
    """Binary attributes (-1/+1) that depend on the others through clusters, as in the paper.

    For each: k-means with 5 clusters, a uniform random probability per cluster, a Bernoulli draw per row. The
    clusters are fitted on at most 20,000 rows, drawn anew for each attribute.
    """
    n = X.shape[0]
    columns = []
    for _ in range(n_attributes):
        rows = rng.choice(n, size=20_000, replace=False) if n > 20_000 else slice(None)
        k_means = KMeans(n_clusters=5, random_state=int(rng.integers(2**31))).fit(X[rows])
        chance = rng.random(5)[k_means.predict(X)]
        columns.append(np.where(rng.random(n) < chance, 1.0, -1.0))
    return np.column_stack(columns)


@dataclass(frozen=True)
class PaperSetting:
    """One labelled train/test split; X holds the dataset's attributes, then the four propensity ones.

    ``propensity_columns`` are those that drive e: the first k of the four.
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
    """Stratified 80/20 split, with four propensity attributes added, the first ``k`` of which drive e."""
    if k not in (1, 2, 3, 4):
        raise ValueError(f"k must be 1, 2, 3 or 4, as four propensity attributes are made; got {k!r}.")
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


def main() -> None:
    print(f"{'dataset':<18}{'rows':>8}{'attributes':>12}{'Pr(y=1)':>9}")
    for name in SOURCES:
        X, y, _ = load(name)
        print(f"{name:<18}{X.shape[0]:>8}{X.shape[1]:>12}{y.mean():>9.3f}", flush=True)


if __name__ == "__main__":
    main()
