"""Parquet files for tests."""

import pickle
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import expit
from tests.helpers import parameters_of

from scarless import SAREMClassifier

NAMES = ["a", "b", "c", "d"]


def make_rows(n=3000, seed=0, dtype=np.float64):
    """Return attributes, and labels whose propensity depends on the last of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(dtype)
    y = rng.random(n) < expit(1.5 * X[:, 0] - X[:, 1])
    return X, (y & (rng.random(n) < expit(1.2 * X[:, 3]))).astype(np.int64)


def write_files(folder, X, cuts, *, row_group_size=300, **columns):
    """Write a table in several files, cut at these rows."""
    folder.mkdir(exist_ok=True)
    for number, (start, stop) in enumerate(pairwise([0, *cuts, len(X)])):
        attributes = {name: X[start:stop, j] for j, name in enumerate(NAMES)}
        others = {name: values[start:stop] for name, values in columns.items()}
        pq.write_table(
            pa.table({**attributes, **others}), folder / f"part-{number:03d}.parquet", row_group_size=row_group_size
        )
    return folder


def fit_rows(rows):
    """Fit a pair of logistic models whose labelling depends on the last column."""
    return SAREMClassifier(propensity_attributes=["d"]).fit(rows, "s")


def fitted_bits(rows):
    """Return the bytes of all coefficients of a fit by `fit_rows`."""
    return parameters_of(fit_rows(rows)).tobytes()


class Sent:
    """An executor that pickles tasks and results, like an executor in other processes."""

    def map(self, task, program, batches, arguments):
        """Return ``task(program, batch, *arguments)`` of every batch, in their order."""
        found = []
        for batch in batches:
            function, program_there, batch_there, given = pickle.loads(pickle.dumps((task, program, batch, arguments)))
            found.append(pickle.loads(pickle.dumps(function(program_there, batch_there, *given))))
        return found

    def forget(self, prefix):
        """Do nothing, because nothing is stored."""
