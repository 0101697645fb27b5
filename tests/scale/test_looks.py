"""Looks and audits of rows that live elsewhere: read where the rows are, the same answers, and nothing travels."""

import pickle

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from scipy.special import expit
from tests.scale.files import NAMES, Sent

from scarless import ClassPrior, LabelFrequency, SAREMClassifier, SAREMClassifierCV
from scarless.pair import folded
from scarless.scale import ParquetRows, PartitionError, parquet

N = 1800
LOOKS = ["seen_1", "seen_2"]
COLUMNS = [*NAMES, "effort_1", "effort_2"]


@pytest.fixture(scope="module")
def frame():
    """Return attributes, two looks of which some did not take place, audits, weights."""
    rng = np.random.default_rng(0)
    X, effort = rng.normal(size=(N, 4)), rng.normal(size=(N, 2))
    ill = rng.random(N) < expit(1.5 * X[:, 0] - X[:, 1])
    S = (ill[:, None] & (rng.random((N, 2)) < expit(X[:, 3:] + effort))).astype(float)
    S[rng.random((N, 2)) < 0.2] = np.nan
    audit = np.where(rng.random(N) < 0.1, ill, np.nan)
    table = pd.DataFrame(np.column_stack([X, effort]), columns=COLUMNS)
    return table.assign(seen_1=S[:, 0], seen_2=S[:, 1], checked=audit, w=rng.integers(1, 4, N).astype(float))


def write(folder, frame, n_files=3):
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        part = pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=200)
    return folder


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return write(tmp_path_factory.mktemp("looks") / "rows", frame)


SOURCES = {
    "ParquetRows": ParquetRows,
    "Dataset": ds.dataset,
    "Dataset in memory": lambda folder: ds.InMemoryDataset(pq.read_table(folder)),
    "LazyFrame": lambda folder: pl.scan_parquet(folder / "*.parquet"),
    "DuckDB": lambda folder: duckdb.connect().from_parquet(str(folder / "*.parquet")),
    "Dask": lambda folder: dd.from_pandas(pd.read_parquet(folder, dtype_backend="numpy_nullable"), npartitions=4),
}


def new(**options):
    given = {"propensity_attributes": ["d"], "visit_attributes": {"effort": ["effort_1", "effort_2"]}}
    return SAREMClassifier(**given | options)


def assert_same(got, want, **tolerance):
    tolerance = tolerance or {"rtol": 1e-6, "atol": 1e-7}
    for name in ("coef_", "propensity_coef_", "visit_coef_", "class_prior_", "label_frequencies_", "log_likelihood_"):
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), err_msg=name, **tolerance)


@pytest.mark.parametrize("source", SOURCES)
def test_any_table_gives_what_one_in_memory_gives(frame, folder, source):
    rows = SOURCES[source](folder)
    got = new().fit(rows, LOOKS, audit="checked", sample_weight="w")
    want = new().fit(frame[COLUMNS], frame[LOOKS], audit=frame["checked"], sample_weight=frame["w"])
    assert got.feature_names_in_.tolist() == COLUMNS
    assert got.n_audited_ == want.n_audited_
    assert_same(got, want)
    posterior = got.predict_posterior(rows, LOOKS, audit="checked")
    np.testing.assert_allclose(
        posterior, want.predict_posterior(frame[COLUMNS], frame[LOOKS], frame["checked"]), atol=1e-6
    )
    assert got.score(rows, LOOKS) == pytest.approx(want.score(frame[COLUMNS], frame[LOOKS]), rel=1e-7)
    ends = got.predict_posterior_interval(rows, LOOKS, audit="checked")
    assert ends.shape == (N, 2)


@pytest.mark.parametrize("source", SOURCES)
def test_facts_and_false_positives_of_one_look(frame, folder, source):
    options = {"visit_attributes": None, "false_positive_rate": 0.01}
    options["known"] = [ClassPrior(0.5, se=0.02), LabelFrequency(0.45, se=0.05)]
    table = frame.dropna(subset="seen_1")
    rows = SOURCES[source](write(folder.parent / "one", table[[*NAMES, "seen_1"]]))
    got = new(**options).fit(rows, "seen_1")
    assert_same(got, new(**options).fit(table[NAMES], table["seen_1"]))


def test_frames_of_dask_go_by_position(frame, folder):
    table = SOURCES["Dask"](folder)
    got = new().fit(table[COLUMNS], table[LOOKS], audit=table["checked"])
    assert_same(got, new().fit(frame[COLUMNS], frame[LOOKS], audit=frame["checked"]))
    posterior = got.predict_posterior(table[COLUMNS], table[LOOKS], audit=table["checked"])
    np.testing.assert_allclose(posterior, got.predict_posterior(table, LOOKS, audit="checked"), atol=1e-12)
    with pytest.raises(ValueError, match="cut as they are: each of its partitions needs one"):
        new().fit(table[COLUMNS], table[LOOKS].repartition(npartitions=1))
    with pytest.raises(ValueError, match="go with a dask.dataframe that is cut as they are"):
        new().fit(table[COLUMNS], table[LOOKS].to_dask_array(lengths=True))
    with pytest.raises(ValueError, match="go with a dask.dataframe that is cut as they are"):
        new().fit(table[COLUMNS].to_dask_array(lengths=True), table[LOOKS])
    with pytest.raises(ValueError, match="one is needed for each row"):
        new().fit(table[COLUMNS], table[LOOKS].map_partitions(lambda part: part.iloc[1:]))


@pytest.mark.parametrize("kind", ["Int64", "boolean", "words", "-1", "other numbers"])
@pytest.mark.parametrize("source", ["ParquetRows", "LazyFrame", "Dask"])
def test_labels_of_any_kind(frame, tmp_path, kind, source):
    names, options = [*LOOKS, "checked"], {}
    if kind == "words":
        coded = frame[names].apply(lambda column: column.map({0.0: "no", 1.0: "yes"}))
        options["pos_label"] = "yes"
    elif kind == "-1":
        coded = frame[names].fillna(-1).astype(int)
    elif kind == "other numbers":
        coded = frame[names].assign(seen_1=frame["seen_1"] + 4, seen_2=frame["seen_2"] + 4)
        options["pos_label"] = 5
    else:
        coded = frame[names].astype(kind)
    rows = SOURCES[source](write(tmp_path / "rows", frame[COLUMNS].join(coded)))
    got = new(**options).fit(rows, LOOKS, audit="checked")
    assert_same(got, new().fit(frame[COLUMNS], frame[LOOKS], audit=frame["checked"]))


def test_what_is_wrong_is_said_as_in_memory(frame, tmp_path):
    def fit(audit="checked", looks=LOOKS, **changes):
        rows = ParquetRows(write(tmp_path / "odd", frame.assign(**changes)), columns=COLUMNS)
        return new().fit(rows, looks, audit=audit)

    with pytest.raises(ValueError, match="rows have a label although their audit says negative"):
        fit(checked=0.0)
    with pytest.raises(ValueError, match="audit holds 7"):
        fit(checked=7.0)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        fit(seen_2=np.arange(N) % 3)
    with pytest.raises(ValueError, match="holds labels of 1 only, beside looks that did not take place"):
        fit(audit=None, seen_1=1.0, seen_2=-1.0)
    with pytest.raises(ValueError, match="holds no label at all"):
        fit(audit=None, seen_1=np.nan, seen_2=np.nan)
    with pytest.raises(ValueError, match="rows has a label at some look"):
        fit(audit=None, seen_1=np.where(np.arange(N) % 2, 1.0, 0.0), seen_2=np.where(np.arange(N) % 2, 0.0, 1.0))
    with pytest.raises(ValueError, match=r"has no column 'seen_3'. Did you mean 'seen_"):
        fit(looks=["seen_1", "seen_3"])
    model = fit()
    with pytest.raises(ValueError, match="s names 1 columns; the model was fitted to 2 looks"):
        model.predict_posterior(ParquetRows(write(tmp_path / "new", frame)), "seen_1")
    other = write(tmp_path / "other", frame.assign(seen_2=np.where(np.arange(N) % 2, 3.0, 1.0)))
    with pytest.raises(ValueError, match="labels hold 3.0; the model was fitted on"):
        model.predict_posterior(ParquetRows(other), LOOKS)
    pq.write_table(
        pa.table({**dict.fromkeys([*COLUMNS, "checked", "w", "seen_1"], [0.0]), "seen_2": ["x"]}),
        tmp_path / "new" / "9.parquet",
    )
    with pytest.raises(PartitionError, match=r"9.parquet.*the label 'seen_2' holds string, and double"):
        new().fit(ParquetRows(tmp_path / "new", columns=COLUMNS), LOOKS)


class Weighed(Sent):
    """Sends everything as a pickle, and remembers how large the largest was beside what comes back."""

    def __init__(self):
        self.most = 0

    def map(self, task, program, lanes, arguments):
        """Return the results."""
        self.most = max(self.most, *(len(pickle.dumps((task, program, lane, arguments))) for lane in lanes))
        return super().map(task, program, lanes, arguments)


@pytest.fixture
def weighed(monkeypatch):
    found = Weighed()
    monkeypatch.setattr(parquet, "find_executor", lambda scheduler=None: found)
    return found


@pytest.mark.parametrize("search", [False, True])
def test_labels_and_audits_do_not_travel(frame, tmp_path, weighed, monkeypatch, search):
    monkeypatch.setattr(folded, "_MANY_ROWS", 100)
    monkeypatch.setattr(folded, "_MANY_LABELS", 10)
    sizes = []
    for times in (1, 4):
        weighed.most = 0
        rows = ParquetRows(write(tmp_path / f"{times}", pd.concat([frame] * times)))
        model = SAREMClassifierCV(propensity_attributes=["d"], Cs=[0.1, 1.0], cv=2) if search else new()
        model.fit(rows, LOOKS, audit="checked")
        model.predict_posterior(rows, LOOKS, audit="checked")
        sizes.append(weighed.most)
    # A row more is a byte more for each label, were it sent: 3 N x 3 of them. Row groups have their numbers, and no more.
    assert sizes[1] - sizes[0] < N


@pytest.mark.parametrize("many", [False, True])
def test_a_search_is_that_of_rows_in_memory(frame, folder, monkeypatch, many):
    if many:
        monkeypatch.setattr(folded, "_MANY_ROWS", 100)
        monkeypatch.setattr(folded, "_MANY_LABELS", 10)
    search = SAREMClassifierCV(propensity_attributes=["d"], Cs=[0.1, 1.0], cv=3, random_state=0)
    got = search.fit(ParquetRows(folder, columns=NAMES), LOOKS, audit="checked")
    scores = got.cv_results_["mean_test_score"]
    want = SAREMClassifierCV(propensity_attributes=["d"], Cs=[0.1, 1.0], cv=3, random_state=0)
    want.fit(frame[NAMES], frame[LOOKS], audit=frame["checked"])
    np.testing.assert_allclose(scores, want.cv_results_["mean_test_score"], rtol=1e-6)
    np.testing.assert_allclose(got.coef_, want.coef_, atol=1e-5)
