"""Raw tables in files are prepared like scikit-learn and skrub prepare tables in memory; errors name the column."""

import datetime
import warnings
from functools import reduce

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.scale.files import Sent

import scarless
from scarless import SAREMClassifier, SAREMClassifierCV, TableClassifier
from scarless.engines import open_rows
from scarless.raw.origins import trace_origins
from scarless.scale import FilePreparation, ParquetRows, PartitionError, PreparedRows, parquet
from scarless.scale import raw_columns as module
from scarless.scale.executors import Threads
from scarless.scale.raw_columns import MISSING, ColumnMoments

N = 1200
RAW = ["age", "income", "smoker", "insurance", "region", "since", "always"]


def raw_table(n=N, seed=0, gaps=True):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, n)
    insurance = rng.choice(["full", "half", "none"], n).astype(object)
    visits = rng.normal(0, 1, n)
    ill = rng.random(n) < expit((age - 50) / 5)
    seen = rng.random(n) < np.where(insurance == "full", 0.8, 0.3)
    if gaps:
        insurance[rng.random(n) < 0.1] = None
    days = pd.to_timedelta(rng.integers(0, 900, n), "D")
    return pd.DataFrame(
        {
            "age": age,
            "income": np.where(rng.random(n) < (0.2 if gaps else 0.0), np.nan, 1000.0 + 300.0 * visits),
            "smoker": rng.random(n) < 0.3,
            "insurance": insurance,
            "region": pd.Categorical(rng.choice(["north", "south"], n), categories=["west", "north", "south"]),
            "since": pd.Timestamp("2020-01-01") + days,
            "always": 7,
            "diagnosed": (ill & seen).astype(int),
        }
    )


def write(folder, table, cuts=(500, 800), row_group_size=200):
    folder.mkdir(exist_ok=True)
    for number, (start, stop) in enumerate(zip((0, *cuts), (*cuts, len(table)), strict=True)):
        part = pa.Table.from_pandas(table.iloc[start:stop], preserve_index=False)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=row_group_size)
    return folder


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch):
    monkeypatch.setattr(parquet, "_PARTITION_BYTES", 200 * 8)  # one row group


@pytest.fixture(scope="module")
def table():
    return raw_table()


@pytest.fixture
def claims(tmp_path, table):
    return write(tmp_path / "claims", table)


def all_of(X, rows):
    return X


def matrix(rows):
    return open_rows(rows).collect(all_of)


def prepared(folder, **options):
    rows = ParquetRows(folder, dtype="float64", **options)
    return PreparedRows(rows, FilePreparation().fit(rows, "diagnosed"))


# --- the numbers


def in_memory(table):
    """Prepare with scikit-learn: missing values become the mean, one column per category, all standardised."""
    filled = SimpleImputer(strategy="mean", add_indicator=True)
    levels = OneHotEncoder(drop="if_binary", sparse_output=False)
    steps = [
        ("numbers", filled, ["age", "income", "smoker"]),
        ("levels", levels, ["insurance", "region"]),
        ("dates", "passthrough", ["year", "month", "day"]),
    ]
    dates = {part: getattr(table["since"].dt, part) for part in ("year", "month", "day")}
    seen = table.assign(**dates, smoker=table["smoker"].astype(float), region=table["region"].astype(object))
    return make_pipeline(ColumnTransformer(steps), StandardScaler()).fit_transform(seen)


def test_one_pass_prepares_as_scikit_learn_does_in_memory(claims, table):
    rows = prepared(claims)
    assert rows.preparation.names == [
        "age", "income", "missingindicator_income", "smoker",
        "insurance_full", "insurance_half", "insurance_none", "insurance_missing",
        "region_south", "since_year", "since_month", "since_day",
    ]  # fmt: skip
    expected = in_memory(table)[:, [0, 1, 3, 2, *range(4, 12)]]
    np.testing.assert_allclose(matrix(rows), expected, rtol=1e-10, atol=1e-12)


def test_every_partition_is_read_once_to_fit(claims, monkeypatch):
    read, count = parquet.RowGroups.read, []
    monkeypatch.setattr(parquet.RowGroups, "read", lambda self, *a, **k: count.append(self) or read(self, *a, **k))
    FilePreparation().fit(ParquetRows(claims), "diagnosed")
    assert len(count) == len(set(count)) == 3 + 2 + 2


def test_results_do_not_depend_on_the_scheduler(claims, monkeypatch):
    plain = matrix(prepared(claims))
    for executor in (Threads(1), Threads(3), Sent()):
        monkeypatch.setattr("scarless.scale.preparing.find_executor", lambda _, found=executor: found)
        np.testing.assert_array_equal(matrix(prepared(claims, scratch=False, memory=0)), plain)


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    cut=st.integers(0, 60),
    shift=st.sampled_from([0.0, 1e9]),
)
@settings(max_examples=100)
def test_moments_of_parts_are_those_of_the_whole(values, cut, shift):
    x = np.array(values) + shift
    joined = ColumnMoments.of(x[:cut]).merged(ColumnMoments.of(x[cut:]))
    assert (joined.n, joined.least, joined.most) == (x.size, x.min(), x.max())
    np.testing.assert_allclose(joined.mean, x.mean(), rtol=1e-14, atol=1e-9)
    np.testing.assert_allclose(joined.squares, ((x - x.mean()) ** 2).sum(), rtol=1e-9, atol=1e-9 + shift * 1e-12)


def test_moments_far_from_zero_do_not_cancel():
    x = 1e9 + np.tile([0.0, 1.0], 500)
    parts = [ColumnMoments.of(part) for part in np.split(x, 10)]
    joined = parts[0]
    for each in parts[1:]:
        joined = joined.merged(each)
    np.testing.assert_allclose(joined.squares, 250.0, rtol=1e-9)


def test_single_precision_by_default(claims):
    rows = ParquetRows(claims)
    single = matrix(PreparedRows(rows, FilePreparation().fit(rows, "diagnosed")))
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, matrix(prepared(claims)).astype(np.float32))


def test_a_data_frame_is_prepared_like_files(claims, table):
    rows = prepared(claims)
    frame = rows.preparation.transform(table)
    assert list(frame.columns) == rows.preparation.names
    np.testing.assert_array_equal(frame.to_numpy(), matrix(rows))


# --- kinds of columns


def prepare_one(folder, values, then=None, **options):
    """Fit to one column `x` in two files; return the prepared names and numbers, of the values `then` if given."""

    def put(folder, values):
        folder.mkdir()
        half = len(values) // 2
        for number, part in enumerate((values[:half], values[half:])):
            pq.write_table(
                pa.table({"x": pa.array(part) if isinstance(part, list) else part}), folder / f"{number}.parquet"
            )
        return ParquetRows(folder, dtype="float64")

    fitted = FilePreparation(**options).fit(put(folder / "fit", values))
    rows = put(folder / "then", values if then is None else then)
    return fitted.names, matrix(PreparedRows(rows, fitted))


def coded(share, indicator):
    return (np.asarray(indicator, dtype=float) - share) / np.sqrt(share * (1 - share))


def test_new_categories_and_new_missing_values_are_zero(tmp_path):
    names, X = prepare_one(tmp_path, ["a", "b", "c", "c"], then=["d", "c", None, "a"])
    assert names == ["x_a", "x_b", "x_c"]
    np.testing.assert_allclose(X[:, 0], coded(0.25, [0, 0, 0, 1]))
    np.testing.assert_allclose(X[:, 2], coded(0.5, [0, 1, 0, 0]))


@pytest.fixture
def in_folder(tmp_path):
    return lambda name, table: ParquetRows(write(tmp_path / name, table, cuts=(1,)))


@pytest.mark.parametrize("in_files", [False, True])
def test_new_categories_are_reported(in_folder, in_files):
    table = pd.DataFrame({"sex": ["f", "m"] * 4, "ward": ["a", None] * 4, "region": ["n", "s", None, "w"] * 2})
    new = pd.DataFrame({"sex": ["f", None], "ward": ["b", None], "region": ["e", None]})
    fitted = FilePreparation().fit(in_folder("fit", table))
    if in_files:
        table, new = in_folder("same", table), in_folder("new", new)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.transform(table)
        assert not caught
        fitted.transform(new)
    assert [str(each.message).split(". A row")[0] + str(each.message).split("is treated")[1] for each in caught] == [
        "Column 'sex' has 1 empty cell, but had none in the fit like a row with 'f'.",
        "Column 'ward' has 1 category that was not in the fit ('b') like a row with 'a'.",
        "Column 'region' has 1 category that was not in the fit ('e') as having none of the known categories.",
    ]


def test_a_new_column_of_categories_without_values_is_reported(in_folder):
    fitted = FilePreparation().fit(in_folder("fit", pd.DataFrame({"sex": ["f", "m"] * 4})))
    with pytest.warns(UserWarning, match="Column 'sex' has 3 empty cells, but had none in the fit"):
        fitted.transform(in_folder("new", pd.DataFrame({"sex": pd.Series([None] * 3, dtype="string")})))


def test_a_new_missing_number_becomes_the_mean(tmp_path):
    names, X = prepare_one(tmp_path, [1.0, 2.0, 3.0, 6.0], then=[None, 3.0, float("nan"), 3.0])
    assert names == ["x"]
    np.testing.assert_array_equal(X, np.zeros((4, 1)))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1.0, 1.0, 1.0, 1.0], []),
        ([0.1] * 7, []),
        (["a", "a", "a", "a"], []),
        ([None, None, None, None], []),
        ([1.0, 1.0, None, 1.0], ["missingindicator_x"]),
        (["a", "a", None, "a"], ["x_missing"]),
        ([None, None, "a", "b"], ["x_a", "x_b", "x_missing"]),
        (["a", "b", "a", "b"], ["x_b"]),
        ([True, False, True, True], ["x"]),
        ([True, None, False, True], ["x", "missingindicator_x"]),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)] * 2, ["x_day"]),
        ([datetime.date(2020, 1, 1), None, datetime.date(2021, 1, 1), None], ["x_year", "missingindicator_x"]),
    ],
    ids=str,
)
def test_constant_columns_are_left_out(tmp_path, values, names):
    if names:
        found, X = prepare_one(tmp_path, values)
        assert found == names
        np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(X.std(axis=0), 1)
    else:
        with pytest.raises(ValueError, match=r"every column is constant\. At least one attribute must vary"):
            prepare_one(tmp_path, values)


@pytest.mark.parametrize("kind", [pa.decimal128(6, 2), pa.int8(), pa.float32(), pa.uint64()], ids=str)
def test_numbers_of_any_type(tmp_path, kind):
    values = np.array([1.0, 2.0, 3.0, 6.0])
    _, X = prepare_one(tmp_path, pa.array([1, 2, 3, 6]).cast(pa.int8()).cast(kind))
    np.testing.assert_allclose(X[:, 0], (values - 3) / np.sqrt(3.5))


def test_half_precision_and_missing_floats(tmp_path):
    for kind in (np.float16, np.float32):
        values = pa.array(np.array([1, 2, 0, 3], dtype=kind), mask=np.array([False, False, True, False]))
        names, X = prepare_one(tmp_path / "ab"[kind is np.float32], values)
        assert names == ["x", "missingindicator_x"]
        np.testing.assert_allclose(X[:, 0], np.array([-1, 0, 0, 1]) / np.sqrt(0.5))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_all_text_types_are_prepared_alike(tmp_path, kind):
    values = pa.array(["b", None, "a", "c"])
    assert prepare_one(tmp_path, values.cast(kind))[0] == ["x_a", "x_b", "x_c", "x_missing"]


def test_dictionaries_differ_from_file_to_file(tmp_path):
    for number, (levels, codes) in enumerate(((["b", "a"], [0, 1, 0]), (["c", "unused", "a"], [2, 0, None]))):
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), levels)
        pq.write_table(pa.table({"x": column}), tmp_path / f"{number}.parquet")
    rows = ParquetRows(tmp_path, dtype="float64")
    fitted = FilePreparation().fit(rows)
    assert fitted.names == ["x_a", "x_b", "x_c", "x_missing"]
    np.testing.assert_array_equal(
        matrix(PreparedRows(rows, fitted)) > 0,
        np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=bool),
    )


def test_equal_names_of_prepared_columns_are_made_unique(tmp_path):
    pq.write_table(pa.table({"a_b": [1.0, 2.0, 4.0], "a": ["b", "c", "d"]}), tmp_path / "x.parquet")
    fitted = FilePreparation().fit(ParquetRows(tmp_path))
    assert fitted.names == ["a_b", "a_b_", "a_c", "a_d"]
    assert [each.column for each in trace_origins(fitted, ["a_b", "a"])] == ["a_b", "a", "a", "a"]


def test_partitions_depend_on_the_size_of_prepared_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_PARTITION_BYTES", 100 * 8)
    pq.write_table(pa.table({"x": ["a", "b", "c", "d"] * 100}), tmp_path / "x.parquet", row_group_size=25)
    rows = ParquetRows(tmp_path, dtype="float64")
    assert [part.source.n_rows for part in PreparedRows(rows, FilePreparation().fit(rows)).plan().partitions] == [
        25
    ] * 16
    assert [part.source.n_rows for part in rows.plan(raw=True).partitions] == [100] * 4


# --- errors


def test_text_with_many_values_is_refused_by_name(tmp_path):
    few, many = [f"v{i % 40}" for i in range(82)], [f"v{i % 41}" for i in range(82)]
    halves = [f"v{i}" for i in range(21)] * 2 + [f"w{i}" for i in range(20)] * 2
    pq.write_table(pa.table({"few": few, "town": many, "code": halves}), tmp_path / "x.parquet", row_group_size=42)
    with pytest.raises(
        ValueError, match=r"'town', 'code': each of these columns has more than 40 different texts, .* dates as dates"
    ):
        FilePreparation().fit(ParquetRows(tmp_path))
    assert len(FilePreparation().fit(ParquetRows(tmp_path, columns=["few"])).names) == 40
    assert len(FilePreparation(max_categories=41).fit(ParquetRows(tmp_path, columns=["few", "town"])).names) == 81


def test_invalid_columns_are_named(tmp_path):
    with pytest.raises(PartitionError, match=r"0.parquet, row group 0: the column 'x' holds list.*int64>, which"):
        prepare_one(tmp_path / "a", [[1], [2], [3], [4]])


@pytest.fixture(autouse=True)
def folders(tmp_path):
    for name in "abcd":
        (tmp_path / name).mkdir()


def test_a_column_with_different_types_is_named(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": ["a", "b"]}), tmp_path / "1.parquet")
    expected = (
        r"1.parquet, row group 0: the column 'x' holds text or categories, but it holds numbers in .*0.parquet, "
        r"row group 0"
    )
    with pytest.raises(PartitionError, match=expected):
        FilePreparation().fit(ParquetRows(tmp_path))
    with pytest.raises(PartitionError, match="the column 'x' must hold text or categories, as"):
        prepare_one(tmp_path / "a", ["a", "b", "c", "d"], then=[1.0, 2.0, 3.0, 4.0])


def test_infinite_numbers_are_named(tmp_path):
    with pytest.raises(
        PartitionError, match=r"1.parquet, row group 0, row 1 \(counted from 1\): the column 'x' holds inf, .*Correct"
    ):
        prepare_one(tmp_path / "a", [1.0, 2.0, float("inf"), 4.0])


def test_invalid_inputs_of_the_preparation_are_refused(table, claims):
    with pytest.raises(TypeError, match="X must be ParquetRows; got DataFrame"):
        FilePreparation().fit(table)
    fitted = prepared(claims).preparation
    with pytest.raises(TypeError, match="X must be ParquetRows or a data frame, with named columns; got ndarray"):
        fitted.transform(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"X must have the columns of the fit; it has no column 'age'"):
        fitted.transform(table.drop(columns="age"))
    with pytest.raises(TypeError, match="y must name a column of the files if X is PreparedRows"):
        open_rows(prepared(claims), np.ones(N))


# --- with a model


def fit_files(claims, estimator=None, **options):
    inner = SAREMClassifier(propensity_attributes=["insurance"]) if estimator is None else estimator
    return TableClassifier(inner, **options).fit(ParquetRows(claims, dtype="float64"), "diagnosed")


def test_a_fit_to_files_is_that_to_the_prepared_table_in_memory(claims, table):
    model = fit_files(claims)
    X = model.preparation_.transform(table)
    columns = [j for j, name in enumerate(X.columns) if name.startswith("insurance_")]
    plain = SAREMClassifier(propensity_attributes=columns).fit(X, table["diagnosed"])
    np.testing.assert_allclose(model.estimator_.coef_, plain.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.estimator_.propensity_coef_, plain.propensity_coef_, rtol=1e-6, atol=1e-8)
    assert list(np.flatnonzero(model.estimator_.propensity_coef_[0])) == columns
    assert list(model.feature_names_in_) == RAW


def test_a_fit_to_files_is_that_of_the_tool_in_memory(tmp_path):
    pytest.importorskip("skrub")
    table = raw_table(seed=3, gaps=False).drop(columns="always").replace({"insurance": {"none": "nothing"}})
    inner = SAREMClassifier(propensity_attributes=["insurance"])
    files = fit_files(write(tmp_path / "claims", table), inner)
    memory = TableClassifier(inner).fit(table.drop(columns="diagnosed"), table["diagnosed"])
    assert [each.label for each in files.origins_] == [each.label for each in memory.origins_]
    np.testing.assert_allclose(files.estimator_.coef_, memory.estimator_.coef_, rtol=1e-4, atol=1e-5)
    one, other = (model.summary().to_frame() for model in (files, memory))
    assert list(one.index) == list(other.index)
    np.testing.assert_allclose(one["coef"], other["coef"], rtol=1e-4, atol=1e-5)


def test_the_default_preparation(claims):
    search = SAREMClassifierCV(propensity_attributes=["insurance"], Cs=[1.0], cv=2, random_state=0)
    model = TableClassifier(search).fit(ParquetRows(claims), "diagnosed")
    assert isinstance(model.preparation_, FilePreparation)
    assert 0.2 < model.class_prior_ < 0.8


def test_summary_has_raw_names_and_units(claims):
    model = fit_files(claims)
    labels = [each.label for each in model.origins_]
    assert labels[:4] == ["age", "income", "income = missing", "smoker"]
    assert labels[4:9] == [*(f"insurance = {x}" for x in ("full", "half", "none", MISSING)), "region = south"]
    assert module.MISSING == MISSING
    frame = model.summary().to_frame()
    scale = model.preparation_.columns_[0].outputs[0].scale
    np.testing.assert_allclose(frame.loc[("classifier", "age"), "coef"], model.estimator_.coef_[0, 0] / scale)
    np.testing.assert_array_equal(model.columns_of("insurance"), [4, 5, 6, 7])


def test_predictions_for_files_and_frames_agree(tmp_path, claims, table):
    model = fit_files(claims)
    rows = ParquetRows(claims, dtype="float64")
    p = model.predict_proba(table)
    np.testing.assert_allclose(model.predict_proba(rows), p, rtol=1e-12)
    np.testing.assert_allclose(model.predict_propensity(rows), model.predict_propensity(table), rtol=1e-12)
    found = model.predict_to(rows, tmp_path / "scored", label="diagnosed", keep=["insurance", "age"])
    written = pa.concat_tables([pq.read_table(path) for path in found.files]).to_pandas()
    assert list(written.columns) == ["insurance", "age", "probability", "propensity", "posterior"]
    np.testing.assert_array_equal(written["age"], table["age"])
    np.testing.assert_allclose(written["probability"], p[:, 1], rtol=1e-12)
    np.testing.assert_allclose(written["posterior"], model.predict_posterior(table, table["diagnosed"]), rtol=1e-12)
    with pytest.warns(
        UserWarning, match="'insurance' of the fit is not in this table. Its values are treated as missing"
    ):
        lost = model.predict_proba(table.drop(columns="insurance"))
    np.testing.assert_array_equal(lost, model.predict_proba(table.assign(insurance=None)))


def test_predictions_for_files_warn_about_new_categories(tmp_path, claims, table):
    model = fit_files(claims)
    new = write(tmp_path / "new", table.assign(region=["north", "island"] * (N // 2)))
    with pytest.warns(UserWarning, match=r"'region' has 1 category that was not in the fit \('island'\)"):
        model.predict_to(ParquetRows(new), tmp_path / "scored")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_to(ParquetRows(claims), tmp_path / "again")


def test_predictions_of_another_preparation_are_not_mixed(tmp_path, claims):
    model = fit_files(claims)
    model.predict_to(ParquetRows(claims, dtype="float64"), tmp_path / "scored")
    first = model.preparation_.columns_[0]
    output = first.outputs[0]._replace(mean=0.0)
    model.preparation_.columns_[0] = first._replace(outputs=(output,))
    with pytest.raises(ValueError, match="contains predictions of another model"):
        model.predict_to(ParquetRows(claims, dtype="float64"), tmp_path / "scored")


def test_the_preparation_is_stored_with_the_model(tmp_path, claims, table):
    pytest.importorskip("skops")
    model = fit_files(claims)
    scarless.save(model, tmp_path / "model.skops")
    again = scarless.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    assert again.preparation_.token == model.preparation_.token
    model.predict_to(ParquetRows(claims), tmp_path / "scored")
    assert again.predict_to(ParquetRows(claims), tmp_path / "scored").n_new == 0


def test_tables_in_files_need_their_own_preparation(claims, table):
    with pytest.raises(
        TypeError,
        match=(
            r"preparation must be scarless.scale.FilePreparation\(\) or 'passthrough' if the table is in files; got "
            r"StandardScaler, which needs all rows in memory"
        ),
    ):
        fit_files(claims, preparation=StandardScaler())
    numbers = table[["age", "smoker"]].astype(float)
    memory = TableClassifier(SAREMClassifier(), preparation=StandardScaler()).fit(numbers, table["diagnosed"])
    with pytest.raises(
        TypeError, match=r"X must be a table in memory, as in the fit; got ParquetRows. Use predict_to\(X"
    ):
        memory.predict_proba(ParquetRows(claims))


def test_passthrough_leaves_numbers_unchanged(tmp_path, table):
    numbers = table[["age", "smoker", "diagnosed"]].astype(float)
    claims = write(tmp_path / "claims", numbers)
    model = fit_files(claims, SAREMClassifier(propensity_attributes=["smoker"]), preparation="passthrough")
    plain = clone(model.estimator).fit(numbers[["age", "smoker"]], numbers["diagnosed"])
    np.testing.assert_allclose(model.estimator_.coef_, plain.coef_, rtol=1e-6)
    found = model.predict_to(ParquetRows(claims, dtype="float64"), tmp_path / "scored")
    written = pa.concat_tables([pq.read_table(path) for path in found.files])
    np.testing.assert_allclose(written["probability"], model.predict_proba(numbers[["age", "smoker"]])[:, 1])


# --- long tails


def incomes(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    income, savings = rng.lognormal(3, 1.2, n), np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(1, 1.5, n))
    savings[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame(
        {"income": income, "savings": savings, "age": rng.normal(50, 10, n), "code": rng.integers(0, 3, n) ** 8.0}
    )


def test_the_logarithm_of_a_long_tail_is_added(tmp_path):
    table = incomes()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[rows].to_parquet(tmp_path / f"{number}.parquet", row_group_size=500, index=False)
    found = FilePreparation().fit(ParquetRows(tmp_path))
    assert found.names == ["income", "income_log", "savings", "savings_log", "missingindicator_savings", "age", "code"]
    columns = found.transform(table)
    expected = np.log(table["income"])
    np.testing.assert_allclose(columns["income_log"], (expected - expected.mean()) / expected.std(ddof=0), rtol=1e-9)
    above = table["savings"][table["savings"] > 0]
    logarithm = np.log1p(table["savings"] / np.exp(np.log(above).mean()))
    centred = (logarithm - logarithm.mean()).fillna(0.0)
    np.testing.assert_allclose(columns["savings_log"], centred / np.sqrt((centred**2).mean()), rtol=1e-9, atol=1e-12)
    labels = [origin.label for origin in trace_origins(found, found.raw_names, len(found.names))]
    assert labels[:5] == ["income", "log of income", "savings", "log of savings", "savings = missing"]
    lower = found.transform(table.head(2).assign(income=[-5.0, 1e-9]))["income_log"]
    assert lower.nunique() == 1  # A value below the minimum of the fit is replaced by the minimum.


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), min_size=1, max_size=5))
def test_moments_of_parts_are_those_of_all(parts):
    joined = reduce(ColumnMoments.merged, (ColumnMoments.of(np.array(part)) for part in parts))
    whole = ColumnMoments.of(np.concatenate([np.array(part) for part in parts]))
    assert (joined.n, joined.least, joined.most) == (whole.n, whole.least, whole.most)
    size = max(whole.most - whole.least, 1e-9)
    np.testing.assert_allclose(joined.mean, whole.mean, atol=1e-9)
    np.testing.assert_allclose(joined.squares / size**2, whole.squares / size**2, atol=1e-9 * whole.n)
    np.testing.assert_allclose(joined.cubes / size**3, whole.cubes / size**3, atol=1e-8 * whole.n)


def test_effects_of_a_logarithm_are_estimated_in_files(tmp_path):
    """As in memory, the interval misses the true value without the logarithm."""
    table = incomes(20_000, seed=1)[["income", "age"]]
    rng = np.random.default_rng(2)
    ill = rng.random(len(table)) < expit(1.5 * (np.log(table["income"]) - 3) - 1.0)
    seen = rng.random(len(table)) < expit(0.1 * (table["age"] - 50))
    table.assign(s=(ill & seen).astype(int)).to_parquet(tmp_path / "a.parquet")
    model = TableClassifier(SAREMClassifier(propensity_attributes=["age"], classification_attributes=["income"]))
    low, high = model.fit(ParquetRows(tmp_path), "s").class_prior_interval()
    assert low < ill.mean() < high
