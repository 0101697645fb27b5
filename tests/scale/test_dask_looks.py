"""Dask workers read looks and audits from files, with results identical to those of threads."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit
from tests.scale.cluster import PATIENCE, Cluster

from scarless import SAREMClassifier, SAREMClassifierCV, TableClassifier
from scarless.scale import ParquetRows, executors

N = 2000
LOOKS = ["seen_1", "seen_2"]


@pytest.fixture(scope="module")
def client():
    with Cluster() as cluster:
        for _ in range(2):
            cluster.start_worker()
        with cluster.client() as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("looks")
    X = rng.normal(size=(N, 3))
    ill = rng.random(N) < expit(1.5 * X[:, 0] - X[:, 1])
    S = np.where(rng.random((N, 2)) < 0.8, ill[:, None] & (rng.random((N, 2)) < expit(X[:, 2:])), np.nan)
    table = pd.DataFrame(X, columns=list("abc")).assign(
        region=np.where(X[:, 0] > 0, "north", "south"),
        seen_1=S[:, 0],
        seen_2=S[:, 1],
        checked=np.where(rng.random(N) < 0.1, ill, np.nan),
    )
    for number, rows in enumerate(np.array_split(np.arange(N), 8)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=100)
    return folder


MODELS = {
    "one fit": (lambda: SAREMClassifier(propensity_attributes=["c"]), ["a", "b", "c"]),
    "search": (
        lambda: SAREMClassifierCV(propensity_attributes=["c"], Cs=[0.1, 1.0], cv=2, random_state=0),
        ["a", "b", "c"],
    ),
    "raw": (lambda: TableClassifier(SAREMClassifier(propensity_attributes=["c"])), ["a", "b", "c", "region"]),
}


@pytest.mark.parametrize("name", MODELS)
def test_results_of_workers_are_identical_to_threads(client, folder, tmp_path, name, monkeypatch):
    make, columns = MODELS[name]
    sent = []
    monkeypatch.setattr(
        executors, "MIN_SCATTERED_BYTES", 0
    )  # The payload of a pass is sent separately from its tasks, and recorded here.
    whole = executors._DaskPass._scattered

    async def weighed(self, worker):
        sent.append(len(self.payload))
        return await whole(self, worker)

    monkeypatch.setattr(executors._DaskPass, "_scattered", weighed)
    found = {}
    for who in ("threads", client):
        rows = ParquetRows(folder, columns=columns, scheduler=who)
        model = make().fit(rows, LOOKS, audit="checked")
        posterior = model.predict_posterior(rows, LOOKS, audit="checked")
        written = model.predict_to(rows, tmp_path / f"{len(found)}", label=LOOKS, audit="checked")
        scored = pd.concat([pd.read_parquet(path) for path in written.files])
        found[str(who)] = (getattr(model, "estimator_", model), posterior, scored["posterior"].to_numpy())
    (one, *values), (other, *others) = found.values()
    for attribute in ("coef_", "propensity_coef_", "class_prior_"):
        np.testing.assert_array_equal(getattr(one, attribute), getattr(other, attribute))
    for value, same in zip(values, others, strict=True):
        np.testing.assert_array_equal(value, same)
    if name == "one fit":
        assert max(sent) < 8 * N  # Labels of the looks, audits and one column of labels would be 13 bytes per row.
