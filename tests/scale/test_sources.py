"""Tables of other libraries that are not in memory: Dask, pyarrow, polars and DuckDB."""

import gc
import pickle
import tempfile
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from tests.scale.files import NAMES, make_rows

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SCARClassifier,
    TableClassifier,
)
from scarless.checks.rows import count_rows
from scarless.diagnostics import bootstrap_intervals, profile_class_prior
from scarless.engines import has_own_engine, open_rows
from scarless.engines.base import known_rows
from scarless.label_frequency import ElkanNoto, samples
from scarless.scale import ParquetRows, PartitionError, file_advice
from scarless.scale.parquet import DatasetRows
from scarless.scale.samples import draw_rows
from scarless.scale.sources import DaskRows, QueryRows

N = 1200


@pytest.fixture(scope="module")
def frame():
    """Return attributes, labels, weights, and a text column that is not used."""
    X, s = make_rows(N)
    w = np.random.default_rng(1).integers(1, 4, N).astype(float)
    return pd.DataFrame(X, columns=NAMES).assign(s=s, w=w)


@pytest.fixture(scope="module")
def model(frame):
    return new().fit(frame[NAMES], frame["s"], sample_weight=frame["w"])


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Return the folder of temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        yield opened


def new(**options):
    return SAREMClassifier(propensity_attributes=["d"], **options)


def relation(connection, frame):
    connection.register("claims", pa.Table.from_pandas(frame, preserve_index=False))
    return connection.sql("SELECT * FROM claims")


def write_dataset(folder, frame, **options):
    folder.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=folder))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    ds.write_dataset(table, folder, max_rows_per_group=100, max_rows_per_file=500, **options)
    return folder


def dataset(folder, frame, kind):
    schema = pa.Table.from_pandas(frame, preserve_index=False).schema
    return ds.dataset(write_dataset(folder, frame, format=kind), format=kind, schema=schema)


KINDS = {
    "dask": lambda frame, folder, connection: dd.from_pandas(frame, npartitions=5),
    "dataset": lambda frame, folder, connection: dataset(folder, frame, "parquet"),
    "dataset of csv": lambda frame, folder, connection: dataset(folder, frame, "csv"),
    "dataset in memory": lambda frame, folder, connection: ds.dataset(
        pa.Table.from_pandas(frame, preserve_index=False)
    ),
    "polars": lambda frame, folder, connection: pl.from_pandas(frame).lazy(),
    "duckdb": lambda frame, folder, connection: relation(connection, frame),
}


@pytest.fixture(params=KINDS)
def make(request, tmp_path, connection, scratch):
    return lambda frame: KINDS[request.param](frame, tmp_path / "claims", connection)


def assert_same(found, expected):
    for name in ("coef_", "intercept_", "propensity_coef_", "propensity_intercept_", "class_prior_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12, err_msg=name)


# --- every kind of table gives the results in memory


def test_a_fit_and_its_predictions_are_those_in_memory(make, frame, model):
    found = new().fit(make(frame), "s", sample_weight="w")
    assert_same(found, model)
    assert found.feature_names_in_.tolist() == NAMES
    more = make(frame[["w", *NAMES[::-1], "s"]].assign(text="t"))  # other columns and the order do not matter
    np.testing.assert_allclose(found.predict_proba(more), model.predict_proba(frame[NAMES]), rtol=1e-9)
    np.testing.assert_allclose(
        found.predict_posterior(more, "s"), model.predict_posterior(frame[NAMES], frame["s"]), rtol=1e-9
    )
    assert found.score(more, "s", sample_weight="w") == pytest.approx(
        model.score(frame[NAMES], frame["s"], sample_weight=frame["w"])
    )


def test_models_without_a_propensity(make, frame):
    X = make(frame)
    naive = NaiveClassifier().fit(X, "s", sample_weight="w")
    expected = NaiveClassifier().fit(frame[NAMES], frame["s"], sample_weight=frame["w"])
    assert naive.score(X, "s") == pytest.approx(expected.score(frame[NAMES], frame["s"]))
    known = PropensityWeightedClassifier().fit(X, "s", propensity=0.9, sample_weight="w")
    assert known.predict_posterior(X, "s", 0.9).shape == (N,)
    assert count_rows(X) == N


def test_diagnostics_accept_these_tables(make, frame, model):
    X = make(frame)
    found = profile_class_prior(model, X, "s", sample_weight="w")
    expected = profile_class_prior(model, frame[NAMES], frame["s"], sample_weight=frame["w"])
    np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-6)


@pytest.mark.parametrize("kind", ["dask", "polars"])
def test_a_bootstrap_reads_the_table_once(kind, frame, model, tmp_path, connection, scratch):
    X = KINDS[kind](frame, tmp_path / "claims", connection)
    options = {"n_resamples": 20, "random_state": 0}
    drawn = bootstrap_intervals(model, X, "s", sample_weight="w", rows=X, **options)
    again = bootstrap_intervals(model, frame[NAMES], frame["s"], sample_weight=frame["w"], rows=frame[NAMES], **options)
    np.testing.assert_allclose(drawn.samples["class_prior_"], again.samples["class_prior_"], rtol=1e-6)
    np.testing.assert_allclose(drawn.samples["f"], again.samples["f"], rtol=1e-5)


def test_methods_that_need_memory_say_what_to_do(make, frame):
    X = make(frame)
    call = {"LazyFrame": "collect", "DataFrame": "compute", "DuckDBPyRelation": "df"}.get(type(X).__name__, "to_table")
    with pytest.raises(
        ValueError, match=rf"needs all rows in memory, .*or all rows if they fit into memory: X\.{call}\(\)"
    ):
        NaiveClassifier(LogisticRegression()).fit(X, "s")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_label_frequencies_are_estimated_on_a_sample(make, frame, monkeypatch):
    X = make(frame)
    expected = SCARClassifier("elkan-noto").fit(frame[NAMES], frame["s"], sample_weight=frame["w"])
    found = SCARClassifier("elkan-noto").fit(X, "s", sample_weight="w")
    assert found.label_frequency_ == expected.label_frequency_
    assert found.label_frequency_rows_ == N
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7)
    alone = ElkanNoto(random_state=0).fit(X, "s", sample_weight="w")
    assert alone.label_frequency_ == expected.label_frequency_
    monkeypatch.setattr(samples, "MAX_SAMPLE_ROWS", 500)
    assert SCARClassifier("elkan-noto").fit(X, "s", sample_weight="w").label_frequency_rows_ == 500


def test_a_column_that_is_not_there(make, frame, model):
    with pytest.raises(ValueError, match=r"has no column 'S'\. Did you mean 's'\?"):
        new().fit(make(frame), "S")
    with pytest.raises(ValueError, match="has no column 'd'"):
        model.predict_proba(make(frame.drop(columns="d")))


def test_text_among_the_attributes_is_named(make, frame):
    with pytest.raises(PartitionError, match=r"the column 'text' holds (large_string|string|str|object), not numbers"):
        new().fit(make(frame.assign(text="t")), "s")


def test_a_missing_value_is_named(make, frame):
    gap = frame.copy()
    gap.loc[700, "b"] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN at row 700, column 1 \('b'\)|'b' is missing in 1 of"):
        new().fit(make(gap), "s", sample_weight="w")


def test_labels_in_memory_are_refused(make, frame):
    with pytest.raises(TypeError, match=r"y must name a column of the|Labels and weights must be a Dask Series"):
        new().fit(make(frame), frame["s"].to_numpy())


def test_a_table_without_rows_is_refused(make, frame):
    with pytest.raises(ValueError, match=r"the result of the .*: there are no rows|has no rows|X has no rows"):
        new().fit(make(frame[:0]), "s")


def test_a_missing_attribute_is_refused(make, frame):
    with pytest.raises(ValueError, match=r"propensity_attributes names 'dd', which is not a column of X"):
        SAREMClassifier(propensity_attributes=["dd"]).fit(make(frame), "s", sample_weight="w")


# --- recognised types, without an import of their libraries


def test_tables_in_memory_have_no_engine_of_their_own(frame):
    for X in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.to_numpy()):
        assert not has_own_engine(X)
        assert known_rows(X) is X


def test_a_registered_type_uses_its_own_engine(frame):
    class Mine(dd.DataFrame):
        pass

    table = Mine(dd.from_pandas(frame, npartitions=2).expr)
    assert isinstance(known_rows(table), DaskRows)
    open_rows.register(Mine, lambda X, y=None, sample_weight=None: "mine")
    assert known_rows(table) is table
    assert open_rows(table) == "mine"


# --- Dask


def test_labels_and_weights_as_series_of_the_same_frame(frame, model):
    table = dd.from_pandas(frame, npartitions=5)
    found = new().fit(table[NAMES], table["s"], sample_weight=table["w"])
    assert_same(found, model)
    np.testing.assert_allclose(
        found.predict_posterior(table, table["s"]), model.predict_posterior(frame[NAMES], frame["s"]), rtol=1e-9
    )


def test_arrays(frame):
    X, s, w = (frame[name].to_numpy() for name in (NAMES, "s", "w"))
    table = da.from_array(X, chunks=(500, 3))
    found = SAREMClassifier(propensity_attributes=[3])
    found.fit(table, da.from_array(s, chunks=500), sample_weight=da.from_array(w, chunks=500))
    expected = SAREMClassifier(propensity_attributes=[3]).fit(X, s, sample_weight=w)
    assert_same(found, expected)
    assert not hasattr(found, "feature_names_in_")
    np.testing.assert_allclose(found.predict_proba(table), expected.predict_proba(X), rtol=1e-12)
    unknown = table[table[:, 0] > -10]  # chunks of unknown length
    np.testing.assert_allclose(found.predict_proba(unknown), expected.predict_proba(X), rtol=1e-12)
    single = SAREMClassifier(propensity_attributes=[3]).fit(table.astype(np.float32), da.from_array(s, chunks=500))
    plain = SAREMClassifier(propensity_attributes=[3]).fit(X.astype(np.float32), s)
    np.testing.assert_allclose(single.coef_, plain.coef_, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # a warning of pandas, raised in Dask
def test_files_that_dask_reads(tmp_path, frame, model):
    table = dd.read_parquet(write_dataset(tmp_path, frame.assign(text="t"), format="parquet"))
    assert table["s"].optimize().npartitions < table[NAMES].optimize().npartitions  # Dask merges small files.
    found = new().fit(table[NAMES], table["s"], sample_weight=table["w"])
    assert_same(found, model)
    assert_same(new().fit(table[[*NAMES, "s", "w"]], "s", sample_weight="w"), model)
    mixed = new().fit(table[[*NAMES, "s"]], "s", sample_weight=table["w"])
    assert_same(mixed, model)
    np.testing.assert_allclose(found.predict_proba(table), model.predict_proba(frame[NAMES]), rtol=1e-9)
    assert count_rows(table) == N


def test_only_the_requested_partition_is_computed():
    computed = []

    def part(number):
        computed.append(number)
        return pd.DataFrame({"a": np.full(3, float(number)), "s": [0, 1, 0]})

    with dask.config.set(scheduler="synchronous"):
        table = dd.from_map(part, range(6), meta=pd.DataFrame({"a": [0.0], "s": [0]}))
        plan = DaskRows(table).plan("s")
    assert sorted(computed) == list(range(6))
    with dask.config.set(scheduler="synchronous"):
        apart = DaskRows(table[["a"]]).plan(table["s"])
    for each in (plan, apart):
        computed.clear()
        np.testing.assert_array_equal(each.partitions[4].source.load()["X"], np.full((3, 1), 4.0))
        assert computed == [4]  # once, for attributes and labels


def test_partitions_that_do_not_match_are_refused(frame):
    table = dd.from_pandas(frame, npartitions=4)
    with pytest.raises(
        ValueError, match=("X has 4 partitions, but the labels have 3; both must have the same partitions")
    ):
        new().fit(table[NAMES], dd.from_pandas(frame, npartitions=3)["s"])
    X = da.from_array(frame[NAMES].to_numpy(), chunks=(600, 4))
    s, w = da.from_array(frame["s"].to_numpy(), chunks=600), da.ones(N, chunks=((700, 500),))
    with pytest.raises(
        ValueError, match=("Partition 0 of X has 600 rows but 700 weights; there must be one for each row")
    ):
        new().fit(X, s, sample_weight=w)
    with pytest.raises(
        TypeError,
        match=(
            r"a one-dimensional Dask array, .*; got the text 's'. Convert values in memory "
            r"with dask"
        ),
    ):
        new().fit(X, "s")
    with pytest.raises(ValueError, match="two dimensions, rows and columns; this Dask array has 1"):
        new().fit(X[:, 0], X[:, 0])


def test_a_partition_with_changing_rows_is_refused():
    lengths = iter([3, 3, 4, 4])

    def part(number):
        return pd.DataFrame({"a": np.zeros(next(lengths))})

    with dask.config.set(scheduler="synchronous"):
        table = dd.from_map(part, range(2), meta=pd.DataFrame({"a": [0.0]}))
        plan = DaskRows(table).plan()
    with pytest.raises(
        PartitionError,
        match=(
            r"partition 0 of X has 4 rows, but had 3 when it was first "
            r"computed. A partition must"
        ),
    ):
        plan.partitions[0].source.load()


def test_errors_of_invalid_values_name_the_partition(frame):
    gap = frame.assign(b=frame["b"].where(np.arange(N) != 700))
    with pytest.raises(ValueError, match=r"NaN at row 700, column 1 \('b'\), in partition 2 of X\."):
        new().fit(dd.from_pandas(gap, npartitions=4), "s", sample_weight="w")
    two = frame.assign(s=np.where(np.arange(N) == 700, 2, frame["s"]))
    with pytest.raises(
        ValueError, match=r"there are 3: 0, 1, 2\. The value 2 first occurs in row 700, in partition 2 of X\."
    ):
        new().fit(dd.from_pandas(two, npartitions=4), "s", sample_weight="w")
    blank = frame.assign(s=pd.array(frame["s"], dtype="Int64"))
    blank.loc[700, "s"] = pd.NA
    with pytest.raises(ValueError, match=r"1 of 1200 labels are missing \(first: row 700, in partition 2 of X\)"):
        new().fit(dd.from_pandas(blank, npartitions=4), "s", sample_weight="w")
    dates = da.from_array(np.zeros((N, 2), dtype="M8[s]"), chunks=(600, 2))
    with pytest.raises(PartitionError, match=r"partition 0 of X: the array holds datetime64\[s\], not numbers"):
        new().fit(dates, da.zeros(N, chunks=600))


def test_types_of_pandas_columns(frame, model):
    kinds = frame.assign(
        a=frame["a"].astype("Float64"), s=np.where(frame["s"] == 1, "yes", "no"), w=frame["w"].astype("Int64")
    )
    found = new(pos_label="yes").fit(dd.from_pandas(kinds, npartitions=3), "s", sample_weight="w")
    assert_same(found, model)


def test_sparse_blocks_are_refused(frame):
    from scipy import sparse

    X = da.from_array(frame[NAMES].to_numpy(), chunks=(600, 4)).map_blocks(sparse.csr_array)
    with pytest.raises(
        PartitionError,
        match=(
            r"partition 0 of X must be a dense NumPy array; got csr_array. For "
            r"sparse arrays, use X.map"
        ),
    ):
        new().fit(X, da.from_array(frame["s"].to_numpy(), chunks=600))


def test_a_persisted_table_is_read_on_the_workers(frame):
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        table = dd.from_pandas(frame, npartitions=4).persist()
        for X, y in ((DaskRows(table, NAMES), "s"), (DaskRows(table[NAMES]), table["s"] + 0)):
            plan = X.plan(y)
            sources = [pickle.loads(pickle.dumps(part.source)) for part in plan.partitions]
            assert all(len(pickle.dumps(part.source)) < 2000 for part in plan.partitions)  # The pickle has no rows.
            there = client.gather([client.submit(type(source).load, source, pure=False) for source in sources])
            here = [part.source.load() for part in plan.partitions]
            for found in (there, here):
                np.testing.assert_array_equal(np.concatenate([each["X"] for each in found]), frame[NAMES])
                np.testing.assert_array_equal(np.concatenate([each["y"] for each in found]), frame["s"])


# --- pyarrow


def test_folders_are_columns_and_filters_are_kept(tmp_path, frame):
    grouped = frame.assign(year=2000 + np.arange(N) // 450)
    folder = write_dataset(tmp_path, grouped, format="parquet", partitioning=["year"], partitioning_flavor="hive")
    whole = ds.dataset(folder, partitioning="hive")
    names = [*NAMES, "year"]
    some = whole.filter(ds.field("a") > -0.5).filter(ds.field("year") < 2002)
    for table, rows in ((whole, grouped), (some, grouped[(grouped["a"] > -0.5) & (grouped["year"] < 2002)])):
        engine = open_rows(known_rows(table).select(names), "s", "w")
        np.testing.assert_array_equal(engine.collect(lambda X, rows: X), rows[names])
        np.testing.assert_array_equal(engine.collect(lambda X, rows: rows["y"]), rows["s"])
        assert_same(
            new().fit(table, "s", sample_weight="w"), new().fit(rows[names], rows["s"], sample_weight=rows["w"])
        )
    with pytest.raises(ValueError, match=r"The dataset has no rows that pass its filter, \(a > 100\)"):
        new().fit(whole.filter(ds.field("a") > 100), "s")


def test_partitions_of_a_dataset_can_be_pickled(tmp_path, frame):
    table = ds.dataset(write_dataset(tmp_path, frame, format="parquet")).filter(ds.field("a") > 0)
    plan = DatasetRows(table).plan("s", "w")
    again = [pickle.loads(pickle.dumps(part.source)).load() for part in plan.partitions]
    np.testing.assert_array_equal(np.concatenate([each["X"] for each in again]), frame.loc[frame["a"] > 0, NAMES])
    assert plan.key == DatasetRows(table).plan("s", "w").key
    assert plan.key != DatasetRows(table.filter(ds.field("b") > 0)).plan("s", "w").key


@pytest.fixture
def by_year(tmp_path, frame):
    """Return a filtered dataset with text and one folder per year, and the rows that pass the filter."""
    table = frame.assign(year=2000 + np.arange(N) // 450, sex=np.where(frame["b"] > 0, "f", "m"))
    folder = write_dataset(tmp_path, table, format="parquet", partitioning=["year"], partitioning_flavor="hive")
    some = ds.dataset(folder, partitioning="hive").filter(ds.field("a") > -0.5)
    return some, table[table["a"] > -0.5].reset_index(drop=True)


@pytest.mark.parametrize("how", [{}, {"memory": 0}, {"memory": 0, "scratch": False}, {"scheduler": "threads"}])
def test_a_dataset_accepts_the_options_of_parquet_rows(by_year, how):
    dataset, rows = by_year
    columns = [*NAMES, "year"]
    found = new().fit(ParquetRows(dataset, columns=columns, **how), "s", sample_weight="w")
    assert_same(found, new().fit(rows[columns], rows["s"], sample_weight=rows["w"]))
    plain = new().fit(known_rows(dataset).select(columns), "s", sample_weight="w")
    assert found.coef_.tobytes() == plain.coef_.tobytes()
    engine = open_rows(ParquetRows(dataset, columns=NAMES, dtype="float32", **how))
    assert engine.dtype == np.float32


def test_passes_over_a_dataset_are_stored(by_year, tmp_path):
    dataset, _ = by_year
    engine = open_rows(ParquetRows(dataset, columns=NAMES, checkpoint=tmp_path / "passes"), "s")
    engine.total(summed)
    again = open_rows(ParquetRows(dataset, columns=NAMES, checkpoint=tmp_path / "passes"), "s")
    assert again.total(summed) == engine.total(summed)
    assert (again.passes.recalled, again.passes.computed) == (1, 0)


def summed(X, rows):
    return (float(X.sum()),)


def test_predictions_of_a_dataset_use_its_filter(by_year, tmp_path, model):
    dataset, rows = by_year
    done = model.predict_to(ParquetRows(dataset), tmp_path / "scored", keep=["year", "a"], label="s")
    found = pa.concat_tables([pq.ParquetFile(path).read() for path in done.files])
    np.testing.assert_array_equal(found.column("a"), rows["a"])
    np.testing.assert_array_equal(found.column("year"), rows["year"])
    np.testing.assert_allclose(found.column("probability"), model.predict_proba(rows[NAMES])[:, 1], rtol=1e-12)
    assert model.predict_to(ParquetRows(dataset), tmp_path / "scored", keep=["year", "a"], label="s").n_new == 0
    fewer = ParquetRows(dataset.filter(ds.field("year") < 2001))
    with pytest.raises(
        ValueError,
        match=(
            r"predictions with other columns or of other rows \(.* or the filter "
            r"differs\)\. Choose another folder, or pass force=True to replace all 3 such files"
        ),
    ):
        model.predict_to(fewer, tmp_path / "scored", keep=["year", "a"], label="s")


def test_a_raw_dataset_is_prepared(by_year, tmp_path):
    dataset, rows = by_year
    columns = [*NAMES, "sex", "year"]
    files = tmp_path / "plain"
    files.mkdir()
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), files / "a.parquet")
    found, expected = (
        TableClassifier(new()).fit(ParquetRows(each, columns=columns), "s", sample_weight="w")
        for each in (dataset, files)
    )
    np.testing.assert_allclose(found.estimator_.coef_, expected.estimator_.coef_, rtol=1e-5, atol=1e-6)
    assert "sex_m" in found.estimator_.feature_names_in_
    drawn = draw_rows(ParquetRows(dataset), "s", 10**6, 0)
    assert drawn.n_rows == len(rows)
    assert drawn.labels == rows["s"].value_counts().to_dict()


def test_a_dataset_at_a_relative_path_is_read_from_anywhere(tmp_path, frame, monkeypatch):
    folder = write_dataset(tmp_path / "claims", frame, format="parquet")
    monkeypatch.chdir(folder.parent)
    dataset = ds.dataset(folder.name)
    plans = [DatasetRows(dataset).plan("s", "w"), ParquetRows(dataset).plan("s", "w")]
    assert ParquetRows(dataset).files == sorted(str(path) for path in folder.glob("*.parquet"))
    monkeypatch.chdir(tmp_path)
    for plan in plans:
        assert plan.partitions[0].source.path.startswith(str(folder))
        there = [pickle.loads(pickle.dumps(part.source)).load()["X"] for part in plan.partitions]
        np.testing.assert_array_equal(np.concatenate(there), frame[NAMES])


def test_remote_files_of_a_dataset_have_addresses(tmp_path, frame):
    folder = write_dataset(tmp_path / "claims", frame, format="parquet")
    system = pa.fs.SubTreeFileSystem(str(folder.parent), pa.fs.LocalFileSystem())
    rows = ParquetRows(ds.dataset(folder.name, filesystem=system))
    assert all(path.startswith(f"subtree://{folder.name}/") for path in rows.files)
    assert rows.plan("s", "w").partitions[0].source.path == rows.files[0]
    assert file_advice(rows.files, filesystem=rows.filesystem) == file_advice(map(str, folder.glob("*.parquet")))
    with pytest.raises(ValueError, match="filesystem: a pyarrow Dataset has its own file system"):
        ParquetRows(ds.dataset(folder), filesystem=system)


def test_datasets_without_parquet_files_are_refused(tmp_path, frame):
    with pytest.raises(
        TypeError,
        match=(
            r"needs Parquet files .* this Dataset is of csv files. Pass it "
            r"directly to fit"
        ),
    ):
        ParquetRows(dataset(tmp_path / "claims", frame, "csv"))
    with pytest.raises(TypeError, match=r"this Dataset is not made of files. Pass it directly to fit"):
        ParquetRows(ds.dataset(pa.Table.from_pandas(frame)))


def test_bad_files_of_a_dataset_are_named(tmp_path, frame):
    folder = write_dataset(tmp_path, frame, format="parquet")
    first, last = sorted(folder.glob("*.parquet"))[:: len(list(folder.iterdir())) - 1]
    table, good = ds.dataset(folder), last.read_bytes()
    engine = open_rows(table, "s", "w")
    bad = pq.read_table(last)
    values = bad.column("b").to_pylist()
    values[0] = np.nan
    pq.write_table(bad.set_column(1, "b", pa.array(values)), last)
    with pytest.raises(PartitionError, match=rf"{last.name}, row groups 0 to 1: the file was replaced or changed"):
        engine.total(lambda X, rows: (X.sum(),))
    with pytest.raises(ValueError, match=rf"NaN at row 1000, column 1 \('b'\), in .*{last.name}, row group 0"):
        new().fit(ds.dataset(folder), "s", sample_weight="w")
    last.write_bytes(good[:500])
    with pytest.raises(PartitionError, match=rf"{last.name}: the file is absent or damaged"):
        new().fit(ds.dataset(folder), "s", sample_weight="w")
    last.write_bytes(good)
    assert new().fit(ds.dataset(folder), "s", sample_weight="w").n_features_in_ == 4
    whole = ds.dataset(folder)
    first.unlink()
    with pytest.raises(PartitionError, match=rf"{first.name}: the file is absent or damaged"):
        new().fit(whole, "s", sample_weight="w")


# --- queries


def counted(frame):
    """Return a query, and a list that records its runs."""
    runs = []

    def note(part):
        runs.append(part.height)
        return part

    return pl.from_pandas(frame).lazy().map_batches(note, schema=None), runs


@pytest.mark.usefixtures("little_garbage")
def test_a_query_runs_once_for_a_fit_and_leaves_no_files(frame, model, scratch):
    query, runs = counted(frame)
    X = known_rows(query)
    before = len(runs)
    found = new().fit(X, "s", sample_weight="w")
    assert sum(runs[before:]) == N
    found.predict_proba(X)
    found.predict_posterior(X, "s")
    assert sum(runs[before:]) == N  # These columns were written before.
    assert len(list(scratch.glob("scarless-query-*"))) == 1
    assert_same(found, model)
    del X
    gc.collect()
    assert not list(scratch.glob("scarless-query-*"))
    new().fit(query, "s", sample_weight="w")
    gc.collect()
    assert not list(scratch.glob("scarless-query-*"))


@pytest.mark.usefixtures("little_garbage")
def test_an_engine_keeps_the_result_of_its_query(frame, scratch):
    engine = open_rows(pl.from_pandas(frame).lazy(), "s", "w")
    gc.collect()
    np.testing.assert_array_equal(engine.derive(lambda X, rows: {}).collect(lambda X, rows: X), frame[NAMES])


def test_errors_name_the_query_not_its_temporary_file(frame, scratch, connection):
    with pytest.raises(
        PartitionError,
        match="the result of the DuckDB relation, row group 0: the column 'b' is missing in 1 of the 1200",
    ):
        new().fit(relation(connection, frame.assign(b=frame["b"].where(np.arange(N) != 700))), "s")


def test_a_pickled_query_has_the_columns_that_were_read(frame, scratch, connection):
    X = QueryRows("DuckDB relation", NAMES, lambda columns, path: pq.write_table(pa.table({"a": [1.0]}), path))
    there = pickle.loads(pickle.dumps(X.select(["a"])))
    with pytest.raises(ValueError, match="This DuckDB relation was sent from another process"):
        open_rows(there)
    engine = open_rows(X.select(["a"]))
    assert open_rows(pickle.loads(pickle.dumps(X.select(["a"])))).n_rows == engine.n_rows == 1


def test_names_that_need_quotes(connection):
    query = connection.sql('SELECT range::DOUBLE AS "a ""b"", c", (range % 2)::INT AS "select" FROM range(50)')
    engine = open_rows(query, "select")
    assert engine.names == ['a "b", c']
    np.testing.assert_array_equal(engine.collect(lambda X, rows: X[:, 0]), np.arange(50.0))
