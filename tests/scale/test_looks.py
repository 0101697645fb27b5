"""Looks and audits of rows in files: workers read them with the rows, and the results are those in memory."""

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
from sklearn.base import clone
from tests.scale.files import NAMES, Sent
from tests.short_fits import from_one_start

from scarless import (
    ClassPrior,
    LabelFrequency,
    Labelling,
    SAREMClassifier,
    SAREMClassifierCV,
    TableClassifier,
    load,
    save,
)
from scarless.models.inspection import any_label_probability
from scarless.pair import folds as folded
from scarless.scale import FilePreparation, ParquetRows, PartitionError, parquet

N = 1800
LOOKS = ["seen_1", "seen_2"]
COLUMNS = [*NAMES, "effort_1", "effort_2"]


@pytest.fixture(scope="module")
def frame():
    """Return attributes, two looks with missing values, audits and weights."""
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


CONNECTION = duckdb.connect()  # Older versions of DuckDB close a connection that has no reference.

SOURCES = {
    "ParquetRows": ParquetRows,
    "Dataset": ds.dataset,
    "Dataset in memory": lambda folder: ds.InMemoryDataset(pq.read_table(folder)),
    "LazyFrame": lambda folder: pl.scan_parquet(folder / "*.parquet"),
    "DuckDB": lambda folder: CONNECTION.from_parquet(str(folder / "*.parquet")),
    "Dask": lambda folder: dd.from_pandas(pd.read_parquet(folder, dtype_backend="numpy_nullable"), npartitions=4),
}


VISITS = Labelling(visit_attributes={"effort": ["effort_1", "effort_2"]})


def new(**options):
    return SAREMClassifier(**{"propensity_attributes": ["d"], "labelling": VISITS} | options)


@pytest.fixture(scope="module")
def in_memory(frame):
    """Return the fit to the same rows in memory."""
    with from_one_start():
        return new().fit(frame[COLUMNS], frame[LOOKS], audit=frame["checked"])


def assert_same(got, want, **tolerance):
    tolerance = tolerance or {"rtol": 1e-6, "atol": 1e-7}
    for name in ("coef_", "propensity_coef_", "visit_coef_", "class_prior_", "label_frequencies_", "log_likelihood_"):
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), err_msg=name, **tolerance)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_fit_in_memory(frame, folder, source):
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


@pytest.mark.usefixtures("one_start")
@pytest.mark.parametrize("source", ["ParquetRows", "LazyFrame", "Dask"])
def test_known_values_and_false_positives_of_one_look(frame, folder, source):
    options = {"labelling": Labelling(false_positive_rate=0.01)}
    options["known"] = [ClassPrior(0.5, se=0.02), LabelFrequency(0.45, se=0.05)]
    table = frame.dropna(subset="seen_1").head(300)
    rows = SOURCES[source](write(folder.parent / "one", table[[*NAMES, "seen_1"]]))
    got = new(**options).fit(rows, "seen_1")
    assert_same(got, new(**options).fit(table[NAMES], table["seen_1"]))


@pytest.mark.usefixtures("one_start")
def test_rows_of_dask_frames_are_matched_by_position(folder, in_memory):
    table = SOURCES["Dask"](folder)
    got = new().fit(table[COLUMNS], table[LOOKS], audit=table["checked"])
    assert_same(got, in_memory)
    posterior = got.predict_posterior(table[COLUMNS], table[LOOKS], audit=table["checked"])
    np.testing.assert_allclose(posterior, got.predict_posterior(table, LOOKS, audit="checked"), atol=1e-12)
    with pytest.raises(ValueError, match=r"X must be a dask.dataframe, and labels and audits must be Dask columns"):
        new().fit(table[COLUMNS], table[LOOKS].repartition(npartitions=1))
    with pytest.raises(ValueError, match="labels and audits must be Dask columns with the same partitions"):
        new().fit(table[COLUMNS], table[LOOKS].to_dask_array(lengths=True))
    with pytest.raises(ValueError, match="labels and audits must be Dask columns with the same partitions"):
        new().fit(table[COLUMNS].to_dask_array(lengths=True), table[LOOKS])
    with pytest.raises(ValueError, match="one for each row"):
        new().fit(table[COLUMNS], table[LOOKS].map_partitions(lambda part: part.iloc[1:]))


@pytest.mark.usefixtures("one_start")
@pytest.mark.parametrize(
    ("kind", "source"),
    [(kind, "ParquetRows") for kind in ("Int64", "boolean", "words", "-1", "other numbers")]
    + [("words", "LazyFrame"), ("Int64", "Dask")],
)
def test_labels_of_any_kind(frame, tmp_path, in_memory, kind, source):
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
    assert_same(got, in_memory)


def test_errors_are_those_in_memory(frame, tmp_path):
    def fit(audit="checked", looks=LOOKS, **changes):
        rows = ParquetRows(write(tmp_path / "odd", frame.assign(**changes)), columns=COLUMNS)
        return new().fit(rows, looks, audit=audit)

    with pytest.raises(ValueError, match="were audited negative"):
        fit(checked=0.0)
    with pytest.raises(ValueError, match=r"audit must be 1 .* got 7\b"):
        fit(checked=7.0)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        fit(seen_2=np.arange(N) % 3)
    with pytest.raises(ValueError, match="contains 1 and missing values"):
        fit(audit=None, seen_1=1.0, seen_2=-1.0)
    with pytest.raises(ValueError, match="has only missing values"):
        fit(audit=None, seen_1=np.nan, seen_2=np.nan)
    with pytest.raises(ValueError, match="rows have a label at some look"):
        fit(audit=None, seen_1=np.where(np.arange(N) % 2, 1.0, 0.0), seen_2=np.where(np.arange(N) % 2, 0.0, 1.0))
    with pytest.raises(ValueError, match=r"has no column 'seen_3'. Did you mean 'seen_"):
        fit(looks=["seen_1", "seen_3"])
    model = fit()
    with pytest.raises(ValueError, match="s has 1 column, but the model was fitted to 2 looks"):
        model.predict_posterior(ParquetRows(write(tmp_path / "new", frame)), "seen_1")
    other = write(tmp_path / "other", frame.assign(seen_2=np.where(np.arange(N) % 2, 3.0, 1.0)))
    with pytest.raises(ValueError, match=r"The labels contain 3.0, but the model was fitted with the labels"):
        model.predict_posterior(ParquetRows(other), LOOKS)
    pq.write_table(
        pa.table({**{name: [0.0] for name in [*COLUMNS, "checked", "w", "seen_1"]}, "seen_2": ["x"]}),
        tmp_path / "new" / "9.parquet",
    )
    with pytest.raises(PartitionError, match=r"9.parquet.*the type of the label column 'seen_2' is string, but double"):
        new().fit(ParquetRows(tmp_path / "new", columns=COLUMNS), LOOKS)


class Weighed(Sent):
    """An executor that pickles tasks and results, and records the size of the largest task."""

    def __init__(self):
        self.most = 0

    def map(self, task, program, batches, arguments):
        """Return the results."""
        self.most = max(self.most, *(len(pickle.dumps((task, program, batch, arguments))) for batch in batches))
        return super().map(task, program, batches, arguments)


@pytest.fixture
def weighed(monkeypatch):
    found = Weighed()
    monkeypatch.setattr(parquet, "find_executor", lambda scheduler=None: found)
    return found


# Repeating the same rows four times makes a random difference look significant.
@pytest.mark.filterwarnings("ignore:.*audits found .* positives, but labels and models predict:UserWarning")
@pytest.mark.parametrize("search", [False, True])
def test_labels_and_audits_are_not_sent_to_workers(frame, tmp_path, weighed, monkeypatch, search):
    monkeypatch.setattr(folded, "MIN_ROWS_TO_HASH", 100)
    monkeypatch.setattr(folded, "MIN_LABELS_TO_HASH", 10)
    sizes = []
    for times in (1, 4):
        weighed.most = 0
        rows = ParquetRows(write(tmp_path / f"{times}", pd.concat([frame] * times)))
        model = SAREMClassifierCV(propensity_attributes=["d"], Cs=[0.1, 1.0], cv=2) if search else new()
        model.fit(rows, LOOKS, audit="checked")
        model.predict_posterior(rows, LOOKS, audit="checked")
        sizes.append(weighed.most)
    # If labels were sent, 3 N more rows would be at least 9 N more bytes. Only the numbers of row groups are sent.
    assert sizes[1] - sizes[0] < N


@pytest.mark.usefixtures("one_start")
@pytest.mark.parametrize("many", [False, True])
def test_a_search_is_that_of_rows_in_memory(frame, folder, monkeypatch, many):
    if many:
        monkeypatch.setattr(folded, "MIN_ROWS_TO_HASH", 100)
        monkeypatch.setattr(folded, "MIN_LABELS_TO_HASH", 10)
    search = SAREMClassifierCV(propensity_attributes=["d"], Cs=[0.1, 1.0], propensity_Cs=[1.0], cv=2, random_state=0)
    got = search.fit(ParquetRows(folder, columns=NAMES), LOOKS, audit="checked")
    scores = got.cv_results_["mean_test_score"]
    want = clone(search)
    want.fit(frame[NAMES], frame[LOOKS], audit=frame["checked"])
    np.testing.assert_allclose(scores, want.cv_results_["mean_test_score"], rtol=1e-6)
    np.testing.assert_allclose(got.coef_, want.coef_, atol=1e-5)


# Predictions into files, and raw tables


def scored(written):
    return pd.concat([pd.read_parquet(path) for path in written.files], ignore_index=True)


@pytest.mark.usefixtures("one_start")
@pytest.mark.parametrize("rate", [0.0, 0.02])
@pytest.mark.filterwarnings("ignore:.*labels do not fit a model with a false-positive rate:UserWarning")
def test_predictions_use_looks_and_audits(frame, folder, tmp_path, rate):
    model = new(labelling=Labelling(false_positive_rate=rate)).fit(frame[COLUMNS], frame[LOOKS], audit=frame["checked"])
    rows = ParquetRows(folder)
    got = scored(model.predict_to(rows, tmp_path / "all", label=LOOKS, audit="checked", keep=["w", "seen_1"]))
    assert got.columns.tolist() == ["w", "seen_1", "probability", "propensity", "posterior"]
    np.testing.assert_allclose(got["probability"], model.predict_proba(frame[COLUMNS])[:, 1], rtol=1e-12)
    want = model.predict_posterior(frame[COLUMNS], frame[LOOKS], frame["checked"])
    np.testing.assert_allclose(got["posterior"], want, rtol=1e-12)
    np.testing.assert_allclose(
        got["propensity"], any_label_probability(model, frame[COLUMNS], frame[LOOKS]), rtol=1e-12
    )
    unchecked = scored(model.predict_to(rows, tmp_path / "unchecked", label=LOOKS))
    np.testing.assert_allclose(unchecked["posterior"], model.predict_posterior(frame[COLUMNS], frame[LOOKS]))
    bare = scored(model.predict_to(rows, tmp_path / "bare"))
    assert bare.columns.tolist() == ["probability"]
    assert model.predict_to(rows, tmp_path / "bare").n_new == 0


def test_one_look_with_audits_is_predicted_either_way(frame, tmp_path):
    table = frame.dropna(subset="seen_1").reset_index(drop=True)
    rows = ParquetRows(write(tmp_path / "one", table))
    model = new(labelling=Labelling(visit_attributes=None)).fit(table[COLUMNS], table["seen_1"], audit=table["checked"])
    plain = scored(model.predict_to(rows, tmp_path / "plain", label="seen_1"))
    np.testing.assert_allclose(plain["posterior"], model.predict_posterior(table[COLUMNS], table["seen_1"]))
    got = scored(model.predict_to(rows, tmp_path / "audited", label="seen_1", audit="checked"))
    want = model.predict_posterior(table[COLUMNS], table["seen_1"], table["checked"])
    np.testing.assert_allclose(got["posterior"], want)
    np.testing.assert_allclose(got["propensity"], plain["propensity"])


def test_invalid_prediction_requests_are_refused(frame, folder, tmp_path):
    rows, model = ParquetRows(folder), new().fit(frame[COLUMNS], frame[LOOKS], audit=frame["checked"])
    with pytest.raises(ValueError, match="label names 1 column, but the model was fitted to 2 looks"):
        model.predict_to(rows, tmp_path / "out", label="seen_1")
    with pytest.raises(ValueError, match="audit is given without label"):
        model.predict_to(rows, tmp_path / "out", audit="checked")
    with pytest.raises(ValueError, match="has no column 'seen_9'"):
        model.predict_to(rows, tmp_path / "out", label=["seen_1", "seen_9"])
    odd = ParquetRows(write(tmp_path / "odd", frame.assign(seen_2=np.where(np.arange(N) == 700, 3.0, frame["seen_2"]))))
    with pytest.raises(
        PartitionError,
        match=r"1.parquet, row group.*: The labels contain 3.0, but the model was fitted with the labels",
    ):
        model.predict_to(odd, tmp_path / "out", label=LOOKS)
    wrong = ParquetRows(write(tmp_path / "wrong", frame.assign(checked=0)))
    with pytest.raises(PartitionError, match=r"0.parquet, .*audited negative.* from 0 within this partition\.$"):
        model.predict_to(wrong, tmp_path / "wrong-out", label=LOOKS, audit="checked")
    plain = SAREMClassifier(propensity_attributes=["d"]).fit(frame[NAMES], frame["seen_1"].fillna(0))
    with pytest.raises(ValueError, match=r"was fitted to one label for each row\. Pass the name of one column"):
        plain.predict_to(rows, tmp_path / "out", label=LOOKS)


@pytest.fixture(scope="module")
def raw(frame):
    """Return a table with text and missing values."""
    rng = np.random.default_rng(5)
    region = np.where(frame["a"] > 0.5, "north", np.where(frame["b"] > 0, "south", "east"))
    table = frame[["a", "b", "d"]].assign(region=np.where(rng.random(N) < 0.1, None, region))
    table.loc[rng.random(N) < 0.1, "b"] = np.nan
    return table.join(frame[[*LOOKS, "checked", "w"]])


@pytest.mark.parametrize("search", [False, True])
def test_raw_tables_in_files(raw, tmp_path, search):
    attributes = ["a", "b", "d", "region"]
    inner = SAREMClassifierCV(propensity_attributes=["d"], Cs=[0.1, 1.0], cv=2, random_state=0)
    inner = inner if search else SAREMClassifier(propensity_attributes=["d"])
    rows = ParquetRows(write(tmp_path / "raw", raw), dtype="float64")
    got = TableClassifier(inner).fit(rows, LOOKS, audit="checked", sample_weight="w")
    assert got.feature_names_in_.tolist() == attributes
    want = TableClassifier(inner, preparation="passthrough")
    prepared = got.preparation_.transform(raw[attributes])
    want.estimator.set_params(propensity_attributes=[name for name in prepared.columns if name.startswith("d")])
    want.fit(prepared, raw[LOOKS], audit=raw["checked"], sample_weight=raw["w"])
    np.testing.assert_allclose(got.estimator_.coef_, want.estimator_.coef_, atol=1e-5)
    assert got.class_prior_ == pytest.approx(want.class_prior_, abs=1e-6)
    save(got, tmp_path / "model.skops")
    kept = load(tmp_path / "model.skops")
    written = scored(kept.predict_to(rows, tmp_path / "out", label=LOOKS, audit="checked"))
    posterior = got.predict_posterior(raw[attributes], raw[LOOKS], audit=raw["checked"])
    np.testing.assert_allclose(written["posterior"], posterior, atol=1e-9)
    np.testing.assert_allclose(got.predict_posterior(rows, LOOKS, audit="checked"), posterior, atol=1e-9)


@pytest.mark.usefixtures("one_start")
def test_a_raw_model_of_memory_predicts_files(raw, tmp_path):
    attributes = ["a", "b", "d", "region"]
    model = TableClassifier(SAREMClassifier(propensity_attributes=["d"]))
    model.fit(raw[attributes], raw[LOOKS], audit=raw["checked"])
    rows = ParquetRows(write(tmp_path / "raw", raw))
    got = scored(model.predict_to(rows, tmp_path / "out", label=LOOKS, audit="checked"))
    want = model.predict_posterior(raw[attributes], raw[LOOKS], audit=raw["checked"])
    np.testing.assert_allclose(got["posterior"], want, atol=1e-9)
    prepared = model.prepare(raw[attributes])
    np.testing.assert_allclose(
        got["propensity"], any_label_probability(model.estimator_, prepared, raw[LOOKS]), atol=1e-9
    )


def test_unsupported_options_of_raw_tables_in_files_are_refused(frame, folder):
    rows = ParquetRows(folder)
    with pytest.raises(ValueError, match="visit_attributes need a table in memory"):
        TableClassifier(new()).fit(rows, LOOKS)
    with pytest.raises(TypeError, match="y must name columns if the table is in files"):
        TableClassifier(new(labelling=Labelling(visit_attributes=None))).fit(rows, frame[LOOKS].to_numpy())
    with pytest.raises(TypeError, match="audit must name a column if the table is in files"):
        TableClassifier(new(labelling=Labelling(visit_attributes=None)), preparation=FilePreparation()).fit(
            rows, LOOKS, audit=frame["checked"]
        )
