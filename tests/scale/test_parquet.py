"""Parquet files: types of numbers, and invalid files, which errors name."""

import gc
import os
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.scale.files import NAMES, make_rows, write_files

from scarless import SAREMClassifier
from scarless.diagnostics import profile_class_prior
from scarless.engines import open_rows
from scarless.scale import ParquetRows, PartitionError
from scarless.scale import parquet as module
from scarless.scale.columns import choose_names, common_type
from scarless.scale.parquet import together
from scarless.scale.partitions import STORE

CUTS = [100, 400]  # three files, in groups of 60 rows


@pytest.fixture(scope="module")
def table():
    X, s = make_rows(600)
    return X, s, np.random.default_rng(1).integers(1, 4, 600).astype(float)


@pytest.fixture
def folder(tmp_path, table):
    X, s, w = table
    return write_files(tmp_path / "claims", X, CUTS, row_group_size=60, s=s, w=w)


def second(folder):
    return folder / "part-001.parquet"


def rewrite(path, row_group_size=60, **columns):
    """Write a file again with some columns changed; None removes a column."""
    found = pq.read_table(path)
    for name, values in columns.items():
        place = found.column_names.index(name)
        found = found.remove_column(place) if values is None else found.set_column(place, name, values)
    pq.write_table(found, path, row_group_size=row_group_size)


def changed(path, name, row, value):
    values = pq.read_table(path).column(name).to_pylist()
    values[row] = value
    return {name: pa.array(values)}


def fit(folder, label="s", weight=None, **options):
    rows = ParquetRows(folder, columns=NAMES, scheduler="threads", **options)
    return SAREMClassifier(propensity_attributes=["d"]).fit(rows, label, sample_weight=weight)


def read(where, label=None, weight=None, **options):
    engine = open_rows(ParquetRows(where, scheduler="threads", **options), label, weight)
    return engine.collect(lambda X, rows: X)


# --- errors name the file, and the same call works after the file is repaired


def test_a_file_that_is_not_there(folder, table):
    paths = [str(folder / "part-000.parquet"), str(folder / "part-007.parquet")]
    with pytest.raises(FileNotFoundError, match=r"part-007.parquet: there is no such file."):
        fit(paths)
    with pytest.raises(FileNotFoundError, match=r"nowhere/\*.parquet: no Parquet file was found\. Check"):
        ParquetRows("nowhere/*.parquet")


def test_an_empty_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Parquet file was found"):
        ParquetRows(tmp_path)


def test_a_truncated_file_is_refused(folder, table):
    whole = second(folder).read_bytes()
    for n_bytes in (0, 3, 200, len(whole) - 5):
        second(folder).write_bytes(whole[:n_bytes])
        with pytest.raises(
            PartitionError,
            match=r"part-001\.parquet: the file cannot be read as Parquet \(",
        ):
            fit(folder)
    second(folder).write_bytes(whole)
    np.testing.assert_array_equal(read(folder, "s", "w"), table[0])


def test_pages_that_cannot_be_decoded(folder, table):
    whole = bytearray(second(folder).read_bytes())
    broken = whole.copy()
    broken[4:4000] = b"\xff" * 3996  # The footer is not damaged.
    second(folder).write_bytes(broken)
    with pytest.raises(PartitionError, match=r"part-001.parquet, row groups 0 to 4: the file cannot be read \("):
        fit(folder)
    second(folder).write_bytes(whole)
    np.testing.assert_array_equal(read(folder, "s", "w"), table[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda path: rewrite(path, **changed(path, "a", 0, 7.0)),
            "the file was replaced or changed while it was read",
        ),
        (lambda path: path.unlink(), "the file is no longer there"),
    ],
    ids=["replaced", "removed"],
)
def test_a_file_that_changes_during_a_fit(folder, table, change, words):
    engine = open_rows(ParquetRows(folder, scratch=False, memory=0, scheduler="threads"), "s")
    before = engine.collect(lambda X, rows: rows.number)
    whole = second(folder).read_bytes(), os.stat(second(folder)).st_mtime_ns
    change(second(folder))
    with pytest.raises(PartitionError, match=rf"part-001\.parquet, row groups 0 to 4: {words}"):
        engine.total(lambda X, rows: (X.sum(),))
    second(folder).write_bytes(whole[0])
    os.utime(second(folder), ns=(whole[1], whole[1]))
    np.testing.assert_array_equal(engine.collect(lambda X, rows: rows.number), before)


def test_a_file_that_was_read_before_is_kept(folder, table):
    engine = open_rows(ParquetRows(folder, columns=NAMES, scheduler="threads"), "s")
    first = engine.total(lambda X, rows: (X.sum(),))
    for path in folder.iterdir():
        path.unlink()
    assert engine.total(lambda X, rows: (X.sum(),)) == first


BAD_COLUMNS = {
    "text": ({"b": pa.array(["x"] * 300)}, r"the column 'b' holds string, not numbers"),
    "dates": ({"b": pa.array([0] * 300, pa.date32())}, r"the column 'b' holds date32\[day\], not numbers"),
    "categories": (
        {"b": pa.array(["x"] * 300).dictionary_encode()},
        r"the column 'b' holds dictionary<values=string.*, not numbers",
    ),
    "struct": ({"b": pa.array([{"u": 1.0}] * 300)}, r"the column 'b' holds struct<u: double>, not numbers"),
    "list": ({"b": pa.array([[1.0]] * 300)}, r"the column 'b' holds list<.*, not numbers"),
    "no column": ({"b": None}, r"there is no column 'b', which other files have"),
    "no label": ({"s": None}, r"there is no column 's', which other files have"),
}


@pytest.mark.parametrize("kind", BAD_COLUMNS)
def test_columns_that_are_not_numeric_raise_before_rows_are_read(folder, kind):
    good = second(folder).read_bytes()
    columns, words = BAD_COLUMNS[kind]
    rewrite(second(folder), **columns)
    loads = STORE.loads
    with pytest.raises(PartitionError, match=rf"part-001\.parquet, row groups 0 to 4: {words}"):
        fit(folder)
    assert STORE.loads == loads
    second(folder).write_bytes(good)
    assert fit(folder).n_features_in_ == 4


def test_a_column_that_the_first_file_alone_lacks(folder):
    rewrite(folder / "part-000.parquet", b=None)
    with pytest.raises(PartitionError, match=r"part-000.parquet, row groups 0 to 1: there is no column 'b'"):
        read(folder)
    assert read(folder, columns=["a", "c"]).shape == (600, 2)


BAD_VALUES = {
    "missing": (
        "b",
        None,
        r"part-001\.parquet, row group 3: the column 'b' is missing in 1 of the 300 rows of this partition\. Fill",
    ),
    "NaN": (
        "b",
        np.nan,
        r"contains NaN at row 300, column 1 \('b'\), in .*part-001\.parquet, row group 3\. Fill missing",
    ),
    "infinite": ("b", np.inf, r"infinity at row 300, column 1 \('b'\), in .*part-001\.parquet, row group 3\."),
    "huge": (
        "b",
        1e200,
        r"has the value 1e\+200 at row 300, column 1 \('b'\), in .*part-001\.parquet, row group 3. Absolute values "
        r"must",
    ),
    "label 2": (
        "s",
        2,
        r"there are 3: 0, 1, 2\. The value 2 first occurs in row 300, in .*part-001\.parquet, row group 3\.",
    ),
    "no label": (
        "s",
        None,
        (
            r"part-001.parquet, row group 3: the label 's' is missing in 1 of the 300 rows of this partition. Write 0 "
            r"for unlabelled"
        ),
    ),
    "NaN label": ("s", np.nan, r"1 of 600 labels are missing \(first: row 300, in .*part-001\.parquet, row group 3\)"),
    "weight -1": ("w", -1.0, r"\(first: sample_weight\[300\] = -1, in .*part-001\.parquet, row group 3\)"),
    "no weight": (
        "w",
        None,
        r"part-001\.parquet, row group 3: the column 'w' is missing in 1 of the 300 rows of this partition",
    ),
}


@pytest.mark.parametrize("kind", BAD_VALUES)
def test_errors_of_invalid_values_name_file_row_group_and_column(folder, kind):
    good = second(folder).read_bytes()
    column, value, words = BAD_VALUES[kind]
    rewrite(second(folder), **changed(second(folder), column, 200, value))
    with pytest.raises(ValueError, match=words):
        fit(folder, weight="w")
    second(folder).write_bytes(good)
    assert fit(folder, weight="w").n_features_in_ == 4


def test_a_bad_value_to_predict_and_a_label_that_the_fit_did_not_know(folder):
    model = fit(folder)
    rewrite(second(folder), **changed(second(folder), "b", 200, np.nan))
    with pytest.raises(ValueError, match=r"NaN at row 300, column 1 \('b'\), in .*part-001\.parquet, row group 3"):
        model.predict_proba(ParquetRows(folder))
    rewrite(second(folder), **changed(second(folder), "b", 200, 0.0))
    rewrite(second(folder), **changed(second(folder), "s", 200, 5))
    with pytest.raises(ValueError, match=r"The labels contain 5, but the model was fitted with the labels \[0, 1\]"):
        model.predict_posterior(ParquetRows(folder), "s")
    with pytest.raises(
        ValueError,
        match=r"fitted with the labels \[0, 1\]\..* The value 5 first occurs in row 300, in .*part-001.*, row group 3",
    ):
        profile_class_prior(model, ParquetRows(folder), "s")


@pytest.mark.usefixtures("little_garbage")
def test_an_error_in_one_partition_leaves_no_entries(folder, monkeypatch):
    monkeypatch.setattr(module, "_PARTITION_BYTES", 1)  # each row group a partition
    engine = open_rows(ParquetRows(folder, columns=NAMES, scheduler="threads"), "s")
    rewrite(second(folder))
    loads = STORE.loads
    with pytest.raises(PartitionError, match=r"part-001.parquet, row group 0: the file was replaced"):
        engine.total(lambda X, rows: (X.sum(),))
    assert STORE.loads > loads
    first = [key for key in STORE._entries if key.startswith(engine.plan.partitions[0].key)]
    assert first
    del engine
    gc.collect()
    assert not any(key in STORE._entries for key in first)
    assert fit(folder).n_features_in_ == 4


# --- names


def test_a_missing_column_error_names_the_nearest_column(folder):
    with pytest.raises(ValueError, match=r"part-000\.parquet has no column 'A'\. Did you mean 'a'\?"):
        read(folder, columns=["A", "b"])
    with pytest.raises(ValueError, match=r"has no column 'diagnosed'\. Its columns are 'a', 'b', 'c', 'd', 's', 'w'\."):
        fit(folder, "diagnosed")
    with pytest.raises(ValueError, match=r"has no column 'weight'\."):
        fit(folder, weight="weight")
    with pytest.raises(ValueError, match=r"Its columns are 'c0', .*'c7', \.\.\.\."):
        choose_names([f"c{j}" for j in range(10)], ["visits"], None, None, "X")


def test_labels_and_weights_in_memory_are_refused(folder, table):
    _, s, w = table
    with pytest.raises(TypeError, match=r"y must name a column.*fit\(X, 'diagnosed'\); got ndarray. Add"):
        fit(folder, s)
    with pytest.raises(TypeError, match="sample_weight must name a column of the files"):
        fit(folder, weight=w)
    with pytest.raises(ValueError, match="requires y to be passed"):
        fit(folder, None)


def test_columns_with_the_same_name_are_refused(tmp_path):
    twice = pa.table([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], names=["a", "b", "a"])
    pq.write_table(twice, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet has 2 columns with the name 'a', but names must be unique"):
        read(tmp_path)
    np.testing.assert_array_equal(read(tmp_path, columns=["b"]), [[3.0], [4.0]])


# --- files without rows


def test_files_and_row_groups_without_rows_are_skipped(folder, table):
    empty = pq.read_schema(second(folder)).empty_table()
    pq.write_table(empty, folder / "part-000a.parquet")
    pq.write_table(pa.table({"other": pa.array([], pa.string())}), folder / "a.parquet")  # it is read first
    with pq.ParquetWriter(folder / "b.parquet", empty.schema):
        pass
    assert pq.ParquetFile(folder / "b.parquet").metadata.num_row_groups == 0
    np.testing.assert_array_equal(read(folder, "s", "w"), table[0])


def test_no_row_at_all(tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x.parquet: there are no rows"):
        read(tmp_path)


def test_row_groups_are_merged_up_to_a_size():
    assert together([1, 1, 1], 2**24) == [(0, 1), (2,)]
    assert together([0, 0], 8) == []


# --- kinds of numbers

NUMBERS = {
    "int8": pa.array([1, -2, 3], pa.int8()),
    "uint64": pa.array([1, 2, 2**64 - 1], pa.uint64()),
    "int64 beyond 2^53": pa.array([2**60 + 1, 2**53 + 1, -(2**62) - 1]),
    "bool": pa.array([True, False, True]),
    "decimal": pa.array([Decimal("1.25"), Decimal("-3.50"), Decimal("0.10")]),
    "float16": pa.array(np.array([1.5, -2.0, 0.25], dtype=np.float16)),
    "float32": pa.array([1.5, -2.1, 0.25], pa.float32()),
    "dictionary": pa.array([1.5, 7.25, 1.5]).dictionary_encode(),
    "several chunks": pa.chunked_array([[1.0], [2.0, 3.0]]),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_all_kinds_of_numbers_are_read(tmp_path, kind):
    values = NUMBERS[kind]
    expected = np.array([float(value) for value in values.to_pylist()])
    pq.write_table(pa.table({"a": values}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(read(tmp_path)[:, 0], expected)


def test_precision_is_that_of_all_files(tmp_path):
    for name, kind in (("x", pa.float32()), ("y", pa.float64()), ("z", pa.int64())):
        pq.write_table(pa.table({"a": pa.array([1, 2], kind)}), tmp_path / f"{name}.parquet")
    assert read(tmp_path / "x.parquet").dtype == np.float32
    assert read([tmp_path / "x.parquet", tmp_path / "y.parquet"]).dtype == np.float64
    np.testing.assert_array_equal(read(tmp_path)[:, 0], [1, 2, 1, 2, 1, 2])
    assert common_type([], []) == "float64"


def test_values_beyond_float32_are_reported_as_infinite(folder):
    rewrite(second(folder), **changed(second(folder), "b", 200, 1e60))
    with pytest.raises(ValueError, match=r"infinity at row 300, column 1 \('b'\), in .*part-001\.parquet, row group 3"):
        fit(folder, dtype="float32")


def test_labels_of_any_kind(tmp_path, table):
    X, s, _ = table
    fits = []
    for number, (values, options) in enumerate(
        [
            (s, {}),
            (s.astype(bool), {}),
            (2 * s.astype(float) - 1, {}),
            (np.where(s == 1, "yes", "no"), {"pos_label": "yes"}),
            (pa.array(np.where(s == 1, "yes", "no")).dictionary_encode(), {"pos_label": "yes"}),
        ]
    ):
        folder = write_files(tmp_path / f"{number}", X, CUTS, s=values)
        model = SAREMClassifier(propensity_attributes=["d"], **options).fit(ParquetRows(folder), "s")
        fits.append(model.coef_)
    for each in fits[1:]:
        np.testing.assert_array_equal(each, fits[0])


def test_labels_that_are_text_in_one_file_and_numbers_in_another(folder):
    rewrite(second(folder), s=pa.array(["0", "1"] * 150))
    with pytest.raises(
        PartitionError,
        match=(
            r"part-001.parquet.*the type of the label column 's' is string, but int64 "
            r"in other"
        ),
    ):
        fit(folder)
    rewrite(second(folder), s=pa.array([[1]] * 300))
    with pytest.raises(
        PartitionError,
        match=r"part-001\.parquet.*the label column 's' must have one value for each row; its type is list<",
    ):
        fit(folder)


# --- who wrote the files


def test_files_of_pyarrow_polars_and_duckdb_are_read_alike(tmp_path, table):
    import duckdb

    X, s, _ = table
    frame = pl.DataFrame(X, schema=NAMES).with_columns(s=pl.Series(s), t=pl.lit("a"))
    pq.write_table(frame.to_arrow(), tmp_path / "pyarrow.parquet", row_group_size=100)
    frame.write_parquet(tmp_path / "polars.parquet", row_group_size=100)
    with duckdb.connect() as connection:
        connection.register("frame", frame.to_arrow())
        connection.execute(f"COPY frame TO '{tmp_path / 'duckdb.parquet'}' (FORMAT parquet)")
    for writer in ("pyarrow", "polars", "duckdb"):
        rows = ParquetRows(tmp_path / f"{writer}.parquet", columns=NAMES, scheduler="threads")
        engine = open_rows(rows, "s")
        np.testing.assert_array_equal(engine.collect(lambda X, rows: X), X)
        np.testing.assert_array_equal(engine.collect(lambda X, rows: rows["y"]), s)


def test_the_unnamed_index_of_pandas_is_not_an_attribute():
    there = ["age", "ill", "__index_level_0__"]
    assert choose_names(there, None, "ill", None, "a.parquet") == ["age"]
    assert choose_names(there, ["__index_level_0__"], "ill", None, "a.parquet") == ["__index_level_0__"]


def write_frames(folder, table, index, n_files=2):
    """Write a data frame with this index by pandas, in several files."""
    X, s, w = table
    frame = pd.DataFrame(X, columns=NAMES).assign(s=s, w=w).set_index(index)
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[rows].to_parquet(folder / f"{number}.parquet")
    return folder


PATIENTS = pd.Index(np.arange(600) * 7 % 600, name="patient")
INDICES = {
    "named": PATIENTS,
    "nameless": PATIENTS.rename(None),
    "called as a number": PATIENTS.rename("0"),
    "text": PATIENTS.astype(str),
    "two levels": pd.MultiIndex.from_arrays([PATIENTS, PATIENTS % 3], names=["patient", None]),
    "counted": pd.RangeIndex(600, name="patient"),
}


@pytest.mark.parametrize("kind", INDICES)
def test_the_index_of_pandas_is_not_an_attribute(tmp_path, table, kind):
    folder = write_frames(tmp_path / "claims", table, INDICES[kind])
    engine = open_rows(ParquetRows(folder, scheduler="threads"), "s", "w")
    assert engine.names == NAMES
    np.testing.assert_array_equal(engine.collect(lambda X, rows: X), table[0])
    dataset = open_rows(ds.dataset(folder), "s", "w")
    assert dataset.names == NAMES
    assert open_rows(ds.dataset(ds.dataset(folder).to_table()), "s", "w").names == NAMES


def test_an_index_is_used_if_it_is_named_as_a_column(tmp_path, table):
    folder = write_frames(tmp_path / "claims", table, PATIENTS)
    np.testing.assert_array_equal(read(folder, columns=["a", "patient"])[:, 1], PATIENTS)
    rows = ParquetRows(folder, scheduler="threads")
    assert list(rows.with_index().plan("s", "w").names) == [*NAMES, "patient"]
    assert list(rows.with_index().plan("patient").names) == [*NAMES, "s", "w"]
    written = fit(folder).predict_to(rows, tmp_path / "scored", keep=["patient"])
    assert pq.read_table(written.folder).column("patient").to_pylist() == PATIENTS.tolist()


@pytest.mark.parametrize("other", ["nameless", "none", "of another program"])
@pytest.mark.parametrize("number", [0, 1])
def test_an_index_in_some_files_only(tmp_path, table, other, number):
    folder = write_frames(tmp_path / "claims", table, PATIENTS)
    path = folder / f"{number}.parquet"
    if other == "of another program":  # The file has the index as a column, without the metadata of pandas.
        pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    else:
        frame = pd.read_parquet(path)
        frame.set_axis(frame.index.rename(None)).to_parquet(path, index=other == "nameless")
    np.testing.assert_array_equal(read(folder), np.column_stack(table))
    rows = ParquetRows(folder, columns=["a", "patient"])
    if other == "of another program":
        assert rows.plan().n_rows == 600
    else:
        with pytest.raises(ValueError, match=rf"{number}\.parquet.* no column 'patient'"):
            rows.plan()


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # a warning of Dask when it writes
def test_the_index_of_dask_is_not_an_attribute(tmp_path, table):
    import dask.dataframe as dd

    X, s, w = table
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(s=s, w=w), npartitions=2)
    frame.to_parquet(tmp_path / "claims")
    assert ParquetRows(tmp_path / "claims").with_index().plan("s", "w").names == tuple(NAMES)
