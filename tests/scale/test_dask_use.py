"""Use of an existing cluster of real processes: all results are identical to those of threads."""

from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from tests.analysis.conftest import make_patients
from tests.scale.cluster import PATIENCE, Cluster
from tests.scale.files import NAMES, make_rows, write_files

from scarless import SAREMClassifier, SCARClassifier, TableClassifier, load
from scarless.cli import main
from scarless.label_frequency import samples
from scarless.scale import FilePreparation, ParquetRows, PartitionError
from scarless.scale.partitions import STORE
from scarless.scale.samples import draw_rows

N = 3000
FIT = ["fit", "claims", "--label", "diagnosed", "--propensity", "visits", "--exclude", "known", "weight"]
FIT += ["--id", "patient", "--quiet"]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        for _ in range(2):
            cluster.start_worker()
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with cluster.client() as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


@pytest.fixture(scope="module")
def frame():
    X, s = make_rows(N)
    return pd.DataFrame(X, columns=NAMES).assign(s=s, w=np.random.default_rng(1).integers(1, 4, N).astype(float))


@pytest.fixture
def raw(tmp_path):
    """Return files with text, missing values and dates."""
    return write_patients(tmp_path / "claims")


def write_patients(folder, n_files=2):
    table = make_patients(1200)
    table = table.assign(diagnosed=(table["diagnosed"] == "yes").astype(int))
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=100)
    return folder


def new():
    return SAREMClassifier(propensity_attributes=["d"])


def bits(model):
    found = (model.coef_, model.intercept_, model.propensity_coef_, model.propensity_intercept_, model.class_prior_)
    return [np.asarray(each).tobytes() for each in found]


def loads_here():
    return STORE.loads


@contextmanager
def walked_by_workers(client):
    """Check that workers decoded rows in the meantime, and this process none."""
    before, here = sum(client.run(loads_here).values()), STORE.loads
    yield
    assert sum(client.run(loads_here).values()) > before
    assert STORE.loads == here


# --- the tool


def test_the_tool_gives_the_same_results_with_a_scheduler(client, raw, monkeypatch):
    monkeypatch.chdir(raw.parent)
    said = {}
    for name in ("threads", "dask"):
        address = [] if name == "threads" else ["--scheduler", client.scheduler.address]
        with nullcontext() if name == "threads" else walked_by_workers(client), redirect_stdout(StringIO()) as out:
            assert main([*FIT, "--model", "logistic", "--out", name, *address]) == 0
        said[name] = out.getvalue().replace(f"{name}/", "OUT/")
    assert said["dask"] == said["threads"]
    threads, dask = raw.parent / "threads", raw.parent / "dask"
    assert (dask / "summary.json").read_text() == (threads / "summary.json").read_text()
    assert (dask / "report.html").read_text() == (threads / "report.html").read_text()
    assert pq.read_table(dask / "scored").equals(pq.read_table(threads / "scored"))
    models = [load(each / "model.skops").estimator_ for each in (threads, dask)]
    assert bits(models[0]) == bits(models[1])


def test_the_tool_predicts_with_a_scheduler(client, raw, monkeypatch, capsys):
    monkeypatch.chdir(raw.parent)
    assert main([*FIT, "--model", "logistic", "--out", "run"]) == 0
    address = ["--scheduler", client.scheduler.address]
    assert main(["predict", "run", "claims", "--out", "scored", *address]) == 0
    assert "Predictions of 1,200 rows: 2 files in scored, 2 written by this command" in capsys.readouterr().out
    assert pq.read_table("scored").equals(pq.read_table("run/scored"))


# --- Dask tables that are persisted on the cluster


def labelled_there(table):
    return {"by name": (table[[*NAMES, "s"]], "s"), "beside": (table[NAMES], table["s"])}


@pytest.mark.parametrize("how", ["by name", "beside"])
@pytest.mark.parametrize("persisted", [True, False])
def test_a_data_frame_of_the_cluster(client, frame, how, persisted):
    with client.as_current():
        table = dd.from_pandas(frame, npartitions=6)
        table = client.persist(table) if persisted else table
        X, y = labelled_there(table)[how]
        with walked_by_workers(client):
            found = new().fit(X, y)
        expected = new().fit(frame[NAMES], frame["s"])
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
        assert found.class_prior_ == pytest.approx(expected.class_prior_, rel=1e-9)
        np.testing.assert_allclose(found.predict_proba(X[NAMES]), expected.predict_proba(frame[NAMES]), rtol=1e-9)
    here = new().fit(*labelled_there(dd.from_pandas(frame, npartitions=6))[how])  # by threads
    assert bits(found) == bits(here)


@pytest.mark.parametrize("persisted", [True, False])
def test_an_array_of_the_cluster(client, frame, persisted):
    def arrays():
        columns = frame[NAMES].to_numpy(), frame["s"].to_numpy(), frame["w"].to_numpy()
        return [da.from_array(each, chunks=(700, 2)[: each.ndim]) for each in columns]

    by_number = SAREMClassifier(propensity_attributes=[3])
    with client.as_current():
        X, y, w = client.persist(arrays()) if persisted else arrays()
        with walked_by_workers(client):
            found = clone(by_number).fit(X, y, sample_weight=w)
    X, y, w = arrays()
    assert bits(found) == bits(clone(by_number).fit(X, y, sample_weight=w))


# --- samples, predictions and preparation


def test_rows_are_drawn_by_the_workers(client, folder):
    drawn = [draw_rows(ParquetRows(folder, scheduler=each), "s", 500, 7) for each in (client, "threads")]
    assert drawn[0].table.equals(drawn[1].table)
    assert drawn[0][1:] == drawn[1][1:]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_label_frequencies_come_from_the_same_sample(client, folder, monkeypatch):
    monkeypatch.setattr(samples, "MAX_SAMPLE_ROWS", 800)
    found = [SCARClassifier("elkan-noto").fit(ParquetRows(folder, scheduler=each), "s") for each in (client, "threads")]
    assert [each.label_frequency_rows_ for each in found] == [800, 800]
    assert found[0].label_frequency_ == found[1].label_frequency_
    assert found[0].coef_.tobytes() == found[1].coef_.tobytes()


def test_predictions_are_written_by_the_workers(client, folder, tmp_path):
    model = new().fit(ParquetRows(folder, scheduler="threads"), "s")
    written = [
        model.predict_to(ParquetRows(folder, scheduler=each), tmp_path / name, label="s", keep=["a"])
        for name, each in (("dask", client), ("threads", "threads"))
    ]
    assert [each.n_new for each in written] == [12, 12]
    for found, expected in zip(*(each.files for each in written), strict=True):
        assert found.read_bytes() == expected.read_bytes()
    assert model.predict_to(ParquetRows(folder, scheduler=client), tmp_path / "dask", label="s", keep=["a"]).n_new == 0
    written[0].files[3].unlink()
    assert model.predict_to(ParquetRows(folder, scheduler=client), tmp_path / "dask", label="s", keep=["a"]).n_new == 1


def test_an_error_of_a_worker_in_predict_to_is_raised(client, tmp_path):
    X, s = make_rows(600)
    X[455, 2] = np.nan
    broken = write_files(tmp_path / "broken", X, [300], s=s)
    good, s = make_rows(600)
    model = new().fit(pd.DataFrame(good, columns=NAMES), s)
    message = r"part-001\.parquet, row group 0: the column 'c' has the value nan in row 155"
    with pytest.raises(PartitionError, match=message):
        model.predict_to(ParquetRows(broken, columns=NAMES, scheduler=client), tmp_path / "scored")
    assert [path.name for path in (tmp_path / "scored").rglob("*.parquet")] == ["part-000.00000-00000.parquet"]


def test_a_raw_table_is_prepared_by_the_workers(client, raw, tmp_path):
    columns = ["age", "smoker", "visits", "insurance"]
    prepared, models, scored = {}, {}, {}
    for name, each in (("dask", client), ("threads", "threads")):
        rows = ParquetRows(raw, columns=columns, scheduler=each)
        prepared[name] = FilePreparation().fit(rows, "diagnosed")
        models[name] = TableClassifier(SAREMClassifier(propensity_attributes=["visits"])).fit(rows, "diagnosed")
        scored[name] = pq.read_table(models[name].predict_to(rows, tmp_path / name).folder)
    assert prepared["dask"].columns_ == prepared["threads"].columns_
    assert bits(models["dask"].estimator_) == bits(models["threads"].estimator_)
    assert scored["dask"].equals(scored["threads"])
