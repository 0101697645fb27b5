"""The protocol of an experiment: propensity attributes from clusters, stratified splits, and simulated labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split

from scarless.experiments.spec import Cell, Spec
from scarless.labelling import GeometricMeanSAR, simulate_labels
from scarless.numerics.arrays import Matrix, Vector

#: Maximum number of rows that the clusters of an added propensity attribute are fitted to. By judgement.
ROWS_FOR_CLUSTERS = 20_000


@dataclass(frozen=True)
class Prepared:
    """The attributes of a dataset, followed by the added attributes (-1/+1), and its classes.

    `columns` are the positions of the propensity attributes that the dataset names. `propensities` are the propensities
    of the rows for each mechanism that needs no added attributes.
    """

    X: Matrix
    y: Vector
    n_original: int
    columns: tuple[int, ...] = ()
    propensities: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """The training and test rows of a split."""

    X_train: Matrix
    y_train: Vector
    X_test: Matrix
    y_test: Vector
    n_original: int
    columns: tuple[int, ...] = ()
    e_train: Mapping[str, Vector] = field(default_factory=dict)
    e_test: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """The data of one run: labels for the method, and the truth for the scores.

    Only methods that are documented to know the truth may read `y_*` and `e_*`.
    """

    cell: Cell
    split: Split
    s_train: Vector
    e_train: Vector
    e_test: Vector
    seed: int

    @property
    def class_columns(self) -> NDArray[np.intp]:
        """The columns that the classifier may use."""
        n = self.split.X_train.shape[1] if self.cell.setting == "all" else self.split.n_original
        return np.arange(n)

    @property
    def propensity_columns(self) -> NDArray[np.intp]:
        """The propensity attributes; all columns if the dataset does not name any."""
        if self.cell.k == 0:
            return np.asarray(self.split.columns or range(self.split.n_original), dtype=np.intp)
        return np.arange(self.split.n_original, self.split.n_original + self.cell.k)

    @property
    def seen_train(self) -> Matrix:
        """The training rows with the columns that the classifier may use."""
        return self.split.X_train[:, : self.class_columns.size]

    @property
    def seen_test(self) -> Matrix:
        """The test rows with the columns that the classifier may use."""
        return self.split.X_test[:, : self.class_columns.size]


def prepare(spec: Spec, dataset: str, X: Any, y: Any) -> Prepared:
    """Return a dataset with added propensity attributes."""
    rng = np.random.default_rng(spec.seed_of("attributes", dataset))
    added = [_attribute(X, spec.clusters, rng) for _ in range(spec.n_added)]
    return Prepared(np.column_stack([X, *added]), np.asarray(y, dtype=np.float64), X.shape[1])


def _attribute(X: Matrix, n_clusters: int, rng: np.random.Generator) -> Vector:
    """Return -1 or +1 for each row, with a random probability for each cluster of rows.

    The clusters are fitted to at most `ROWS_FOR_CLUSTERS` rows, drawn anew for each attribute.
    """
    n = X.shape[0]
    rows = rng.choice(n, size=ROWS_FOR_CLUSTERS, replace=False) if n > ROWS_FOR_CLUSTERS else slice(None)
    clusters = KMeans(n_clusters=n_clusters, n_init=1, random_state=int(rng.integers(2**31))).fit(X[rows])
    probability = rng.random(n_clusters)[clusters.predict(X)]
    return np.where(rng.random(n) < probability, 1.0, -1.0)


def split_rows(spec: Spec, dataset: str, split: int, data: Prepared) -> Split:
    """Split the rows into training and test rows with equal shares of positives."""
    seed = int(spec.seed_of("split", dataset, split).generate_state(1)[0])
    rows = np.arange(data.y.size)
    train, test = train_test_split(rows, test_size=spec.test_share, stratify=data.y, random_state=seed)
    train, test = np.sort(train), np.sort(test)
    e_train, e_test = ({name: e[part] for name, e in data.propensities.items()} for part in (train, test))
    rows_of = (data.X[train], data.y[train], data.X[test], data.y[test])
    return Split(*rows_of, data.n_original, data.columns, e_train, e_test)


def label(spec: Spec, cell: Cell, split: Split) -> Task:
    """Draw the labels of a cell; both settings of a split get the same labels."""
    if cell.k == 0:
        e_train, e_test = split.e_train[cell.setting], split.e_test[cell.setting]
    else:
        columns = range(split.n_original, split.n_original + cell.k)
        mechanism = GeometricMeanSAR(columns, low=spec.low, high=spec.high, ranges=[(-1, 1)] * cell.k)
        e_train, e_test = mechanism.propensity(split.X_train), mechanism.propensity(split.X_test)
    labels = spec.seed_of("labels", cell.dataset, cell.k or cell.setting, cell.split, cell.labelling)
    s_train = np.asarray(simulate_labels(split.y_train, e_train, random_state=labels), dtype=np.float64)
    method = spec.seed_of("methods", cell.dataset, cell.setting, cell.k, cell.split, cell.labelling)
    return Task(cell, split, s_train, e_train, e_test, int(method.generate_state(1)[0]))
