"""Files that are slow to read get advice; good files get none."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scarless.scale import files
from scarless.scale.files import file_advice


def written(folder, columns, name="a.parquet", **options):
    given = {"use_dictionary": False, "compression": "none", "row_group_size": 50_000} | options
    pq.write_table(pa.table(columns), folder / name, **given)
    return str(folder / name)


def floats(n=50_000, dtype=np.float32):
    return np.random.default_rng(0).normal(size=n).astype(dtype)


def test_good_files_get_no_advice(tmp_path):
    paths = [written(tmp_path, {"x": floats(), "s": np.ones(50_000, np.int8)}, f"{i}.parquet") for i in range(3)]
    assert file_advice(paths) == []
    assert file_advice([]) == []


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ({"x": floats()}, {"row_group_size": 500}, "100 row groups have 500 rows each on average"),
        ({"x": floats()}, {"use_dictionary": True}, "'x': floats are written with a dictionary"),
        ({"x": floats(dtype=np.float64)}, {}, "'x': the type is float64"),
        ({"x": floats()}, {"compression": "gzip"}, "The compression GZIP is slow to decode"),
        (
            {f"x{j}": floats() for j in range(7)},
            {"use_dictionary": True},
            "'x4' and 2 more columns: floats are",
        ),
    ],
)
def test_slow_files_get_advice(tmp_path, columns, options, told):
    (said,) = file_advice([written(tmp_path, columns, **options)])
    assert told in said


def test_large_row_groups_and_many_files_get_advice(tmp_path, monkeypatch):
    path = written(tmp_path, {"x": floats()})
    monkeypatch.setattr(files, "MAX_BYTES_PER_GROUP", 100_000)
    monkeypatch.setattr(files, "MAX_FILES", 2)
    said = file_advice([path, path, path])
    assert said[0].startswith("A row group takes 0 MB of memory in every worker")
    assert said[1].startswith("3 files are slow to open.")


def test_a_file_without_rows_gets_no_advice(tmp_path):
    assert file_advice([written(tmp_path, {"x": floats(0)})]) == []
