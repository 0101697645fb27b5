"""Files in other file systems are found, read and reported like local files, with identical results."""

import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from tests.scale.files import NAMES, Sent, fit_rows, make_rows, write_files

from scarless.analysis.files import inspect_files
from scarless.scale import ParquetRows, PartitionError, file_advice
from scarless.scale import parquet as module
from scarless.scale.files import find_files
from scarless.scale.samples import draw_rows

N = 600


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a bucket of claims in several files, one of them in a subfolder."""
    X, s = make_rows(N)
    place = tmp_path_factory.mktemp("place")
    folder = write_files(place / "bucket", X[:400], [100, 250], row_group_size=60, s=s[:400])
    write_files(folder / "year=2020", X[400:], [], row_group_size=60, s=s[400:])
    (folder / "notes.txt").write_text("no table")
    return place


@pytest.fixture
def system(place):
    return fs.SubTreeFileSystem(str(place), fs.LocalFileSystem())


def names(found):
    return [path.split("bucket/")[1] for path in found.files]


ALL = ["part-000.parquet", "part-001.parquet", "part-002.parquet", "year=2020/part-000.parquet"]
WAYS = {
    "a folder": ("bucket", ALL),
    "a folder with a slash": ("bucket/", ALL),
    "a file": ("bucket/part-001.parquet", ALL[1:2]),
    "a pattern": ("bucket/part-*.parquet", ALL[:3]),
    "a pattern of folders": ("bucket/year=*/*.parquet", ALL[3:]),
    "several": (["bucket/year=2020", "bucket/part-00[01].parquet"], [ALL[3], *ALL[:2]]),
    "an address": ("subtree://bucket/part-*.parquet", ALL[:3]),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_files_are_found_anywhere(place, system, way):
    where, expected = WAYS[way]
    found = find_files(where, system)
    assert names(found) == expected
    assert all(path.startswith("subtree://bucket/") for path in found.files)
    if way != "an address":
        here = [place / each for each in ([where] if isinstance(where, str) else where)]
        assert names(find_files(here)) == expected


def test_relative_paths_become_absolute(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    for where in ("bucket", Path("bucket"), "./bucket", ["bucket"]):
        assert find_files(where) == find_files(place / "bucket")
    plan = ParquetRows("bucket/part-*.parquet").plan("s")
    monkeypatch.chdir(tmp_path)
    assert plan.partitions[0].source.load()["y"].size == 100


def test_an_address_of_this_machine_is_a_path(place):
    for where in ((place / "bucket").as_uri(), [(place / "bucket").as_uri()]):
        found = find_files(where)
        assert found == find_files(place / "bucket")
        assert found.filesystem is None
    assert find_files(str(place / "bucket"), fs.LocalFileSystem()) == find_files(place / "bucket")


def test_a_fit_is_identical_to_that_of_local_files(place, system, tmp_path, monkeypatch):
    here, there = ParquetRows(place / "bucket"), ParquetRows("bucket", filesystem=system)
    expected, found = fit_rows(here), fit_rows(there)
    for name in ("coef_", "propensity_coef_", "class_prior_", "log_likelihood_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.predict_proba(there), expected.predict_proba(here))
    monkeypatch.setattr(module, "find_executor", lambda scheduler: Sent())
    np.testing.assert_array_equal(fit_rows(ParquetRows("bucket", filesystem=system)).coef_, expected.coef_)


def test_rows_and_partitions_can_be_pickled(system):
    rows = pickle.loads(pickle.dumps(ParquetRows("bucket", filesystem=system)))
    part = pickle.loads(pickle.dumps(rows.plan("s").partitions[0].source))
    assert part.load()["X"].shape == (100, 4)
    assert "SubTree" not in repr(part)  # The text does not contain the keys of a file system either.


def test_predictions_of_remote_files(place, system, tmp_path, monkeypatch):
    here, there = ParquetRows(place / "bucket"), ParquetRows("bucket", filesystem=system)
    model = fit_rows(here)
    for name, rows in (("here", here), ("there", there)):
        model.predict_to(rows, tmp_path / name, keep=["a"], label="s")
    found, expected = (sorted(path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*.parquet"))
                       for name in ("there", "here"))  # fmt: skip
    assert found == expected
    assert Path("year=2020/part-000.00000-00003.parquet") in found
    for path in expected:
        assert pq.read_table(tmp_path / "there" / path).equals(pq.read_table(tmp_path / "here" / path))
    monkeypatch.chdir(tmp_path)  # An address does not depend on the current folder.
    assert model.predict_to(there, tmp_path / "there", keep=["a"], label="s").n_new == 0
    assert model.predict_to(there, ".", keep=["a"], label="s", force=True).n_rows == N


def test_predictions_are_written_to_local_folders_only(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ParquetRows(place / "bucket")
    with pytest.raises(
        ValueError, match=r"s3://bucket/scored is a remote address\. Write to a local folder, and copy it"
    ):
        fit_rows(rows).predict_to(rows, "s3://bucket/scored")
    assert list(tmp_path.iterdir()) == []


def test_samples_advice_and_inspection_of_remote_files(place, system):
    here, there = ParquetRows(place / "bucket"), ParquetRows("bucket", filesystem=system)
    assert draw_rows(there, "s", 100, 0).table.equals(draw_rows(here, "s", 100, 0).table)
    assert file_advice(there.files, filesystem=there.filesystem) == file_advice(here.files)
    assert str(inspect_files(there, "s")) == str(inspect_files(here, "s"))


def test_changed_and_removed_files_are_named(tmp_path):
    X, s = make_rows(N)
    write_files(tmp_path / "bucket", X, [300], s=s)
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    plan = ParquetRows("bucket", filesystem=system).plan("s")
    os.utime(tmp_path / "bucket" / "part-001.parquet", ns=(1, 1))
    with pytest.raises(
        PartitionError, match=r"subtree://bucket/part-001.parquet, row group 0: the file was replaced or changed"
    ):
        plan.partitions[1].source.load()
    (tmp_path / "bucket" / "part-001.parquet").unlink()
    with pytest.raises(PartitionError, match=r"subtree://bucket/part-001.parquet, .*file is no longer there"):
        plan.partitions[1].source.load()
    rows = ParquetRows(["bucket/part-000.parquet"], filesystem=system)
    (tmp_path / "bucket" / "part-000.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        PartitionError,
        match=(
            r"subtree://bucket/part-000.parquet: the file cannot be read as Parquet "
            r"\(Parquet file size is 4 bytes,"
        ),
    ):
        rows.plan()
    (tmp_path / "bucket" / "part-000.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"subtree://bucket/part-000\.parquet: there is no such file"):
        rows.plan()


def test_invalid_paths_and_file_systems_are_refused(system, place):
    with pytest.raises(FileNotFoundError, match=r"^bucket/none: no Parquet file was found"):
        ParquetRows("bucket/none", filesystem=system)
    with pytest.raises(
        ValueError, match=r"moon://claims/: pyarrow cannot open this address .*pass a file system .* as filesystem="
    ):
        ParquetRows("moon://claims/")
    with pytest.raises(TypeError, match=r"filesystem must be a file system of pyarrow.fs or fsspec, .*got str"):
        ParquetRows("bucket", filesystem="s3")
    keys = "region=eu-west-1&endpoint_override=127.0.0.1:9&scheme=http"
    with pytest.raises(
        ValueError, match=r"and s3://b\?region.* are in different file systems, but all files of a table"
    ):
        ParquetRows([(place / "bucket").as_uri(), f"s3://b?{keys}"])


def test_a_file_system_of_fsspec(place):
    fsspec = pytest.importorskip("fsspec")
    rows = ParquetRows(f"{place}/bucket/part-*.parquet", filesystem=fsspec.filesystem("file"))
    assert names(rows) == ALL[:3]
    assert rows.files[0].startswith("remote://")
    np.testing.assert_array_equal(fit_rows(rows).coef_, fit_rows(ParquetRows(f"{place}/bucket/part-*.parquet")).coef_)


def test_text_of_remote_files_is_dictionary_encoded(tmp_path):
    (tmp_path / "bucket").mkdir()
    table = pa.table({"sex": ["f", "m"] * 50, "s": [0, 1, 1, 0] * 25})
    pq.write_table(table, tmp_path / "bucket" / "a.parquet")
    rows = ParquetRows("bucket", filesystem=fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    read = rows.plan("s", raw=True).partitions[0].source.read(dictionaries=True)
    assert pa.types.is_dictionary(read.column("sex").type)


def test_column_names_of_remote_files(place, system):
    assert list(ParquetRows("bucket", filesystem=system).plan("s").names) == NAMES
