"""Positives without a label in groups of rows that Dask workers read, or that are in Dask data frames."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.helpers import fit_quietly
from tests.scale.cluster import PATIENCE, Cluster

from scarless import SAREMClassifier, TableClassifier
from scarless.diagnostics import missed_positives
from scarless.scale import ParquetRows

N, COLUMNS, LOOKS = 1200, ["a", "b", "c"], ["seen_1", "seen_2"]
BY = ["region", "age", ("region", "urban")]


@pytest.fixture(scope="module")
def client():
    with Cluster() as cluster:
        for _ in range(2):
            cluster.start_worker()
        with cluster.client() as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            yield client


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = rng.random(N) < expit(1.5 * X[:, 0] - X[:, 1])
    seen = y[:, None] & (rng.random((N, 2)) < expit(X[:, 2:]))
    return pd.DataFrame(X, columns=COLUMNS).assign(
        region=rng.choice(["north", "south", None], size=N, p=[0.5, 0.4, 0.1]),
        age=rng.integers(18, 90, size=N),
        urban=rng.random(N) < 0.5,
        seen_1=seen[:, 0].astype(int),
        seen_2=np.where(rng.random(N) < 0.9, seen[:, 1], np.nan),
        checked=np.where(rng.random(N) < 0.1, y, np.nan),
        weight=rng.integers(1, 4, size=N) * 1.0,
    )


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    for number, rows in enumerate(np.array_split(np.arange(N), 6)):
        table.iloc[rows].to_parquet(folder / f"{number}.parquet", index=False, row_group_size=100)
    return folder


def assert_same(found, expected):
    assert (found.by, found.groups, found.notes) == (expected.by, expected.groups, expected.notes)
    for name in ("n_rows", "n_labelled", "p_adjusted"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)
    for name in ("positives", "missed_share", "class_prior", "difference", "ratio"):
        for one, other in zip(getattr(found, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def in_memory(table, by):
    return [table[each] if isinstance(each, str) else tuple(table[name] for name in each) for each in by]


def test_workers_give_the_groups_of_memory(client, folder, table):
    model = fit_quietly(SAREMClassifier(propensity_attributes=["c"]), table[COLUMNS], table["seen_1"])
    expected = missed_positives(model, table[COLUMNS], table["seen_1"], in_memory(table, BY), n_draws=30)
    rows = ParquetRows(folder, columns=COLUMNS, scheduler=client)
    assert_same(missed_positives(model, rows, "seen_1", BY, n_draws=30), expected)


def test_workers_give_the_groups_of_looks_audits_and_weights(client, folder, table):
    model = fit_quietly(
        TableClassifier(SAREMClassifier(propensity_attributes=["c"])),
        ParquetRows(folder, columns=[*COLUMNS, "region"], scheduler=client),
        LOOKS,
        audit="checked",
        sample_weight="weight",
    )
    given = {"audit": table["checked"], "sample_weight": table["weight"], "n_draws": 30}
    expected = missed_positives(model, table[[*COLUMNS, "region"]], table[LOOKS], in_memory(table, BY), **given)
    rows = ParquetRows(folder, columns=[*COLUMNS, "region"], scheduler=client)
    named = {"audit": "checked", "sample_weight": "weight", "n_draws": 30}
    assert_same(missed_positives(model, rows, LOOKS, BY, **named), expected)


@pytest.mark.parametrize("how", ["name", "Series"])
def test_dask_data_frames_give_the_groups_of_memory(client, table, how):
    model = fit_quietly(SAREMClassifier(propensity_attributes=["c"]), table[COLUMNS], table["seen_1"])
    expected = missed_positives(model, table[COLUMNS], table["seen_1"], in_memory(table, BY), n_draws=30)
    frame = dd.from_pandas(table, npartitions=5)
    if how == "name":
        assert_same(missed_positives(model, frame, "seen_1", BY, n_draws=30), expected)
    else:
        assert_same(
            missed_positives(model, frame[[*COLUMNS, "region", "age", "urban"]], frame["seen_1"], BY, n_draws=30),
            expected,
        )
