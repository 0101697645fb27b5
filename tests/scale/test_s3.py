"""Claims in an S3 bucket, served by moto on this machine: results are identical to those of local files."""

import numpy as np
import pytest
from pyarrow import fs
from tests.scale.files import fit_rows, make_rows, write_files

from scarless.scale import ParquetRows, PartitionError

pytest.importorskip("flask", reason="moto[server] is not installed")
pytest.importorskip("moto.server", reason="moto[server] is not installed")

KEYS = {"access_key": "mock", "secret_key": "mock", "region": "us-east-1"}


@pytest.fixture(scope="module")
def endpoint():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="module")
def claims(tmp_path_factory):
    X, s = make_rows(900)
    return write_files(tmp_path_factory.mktemp("place") / "claims", X, [100, 450], row_group_size=90, s=s)


@pytest.fixture(scope="module")
def system(endpoint, claims):
    system = fs.S3FileSystem(endpoint_override=endpoint, scheme="http", allow_bucket_creation=True, **KEYS)
    system.create_dir("bucket")
    fs.copy_files(str(claims), "bucket/claims", source_filesystem=fs.LocalFileSystem(), destination_filesystem=system)
    return system


def assert_same_bits(found, expected):
    for name in ("coef_", "intercept_", "propensity_coef_", "class_prior_", "log_likelihood_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_an_address_with_keys_and_a_given_file_system(claims, system, endpoint):
    expected = fit_rows(ParquetRows(claims))
    address = f"s3://mock:mock@bucket/claims/?endpoint_override={endpoint}&scheme=http&region=us-east-1"
    rows = ParquetRows(address)
    assert rows.files == [f"s3://bucket/claims/part-00{number}.parquet" for number in range(3)]
    assert_same_bits(fit_rows(rows), expected)
    assert "mock" not in repr(rows.plan("s"))
    for where in ("bucket/claims", "s3://bucket/claims/*.parquet"):
        assert_same_bits(fit_rows(ParquetRows(where, filesystem=system)), expected)


def test_keys_of_the_environment(claims, system, endpoint, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mock")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mock")
    rows = ParquetRows(f"s3://bucket/claims/?endpoint_override={endpoint}&scheme=http&region=us-east-1")
    assert_same_bits(fit_rows(rows), fit_rows(ParquetRows(claims)))


def test_workers_read_from_s3(claims, system):
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        assert_same_bits(
            fit_rows(ParquetRows("bucket/claims", filesystem=system, scheduler=client)), fit_rows(ParquetRows(claims))
        )


def test_predictions_equal_those_of_local_files(claims, system, tmp_path):
    rows = ParquetRows("bucket/claims", filesystem=system)
    model = fit_rows(ParquetRows(claims))
    written = model.predict_to(rows, tmp_path / "scored", label="s")
    assert written.n_rows == 900
    assert model.predict_to(rows, tmp_path / "scored", label="s").n_new == 0
    names = sorted(path.name for path in written.files)
    assert names == sorted(path.name for path in model.predict_to(ParquetRows(claims), tmp_path / "here").files)


def test_replaced_and_removed_files_are_named(claims, system):
    rows = ParquetRows("bucket/claims", filesystem=system)
    plan = rows.plan("s")
    with system.open_output_stream("bucket/claims/part-001.parquet") as file:
        file.write(b"something else")
    with pytest.raises(
        PartitionError, match=r"s3://bucket/claims/part-001\.parquet, .*: the file was replaced or changed"
    ):
        plan.partitions[1].source.load()
    system.delete_file("bucket/claims/part-001.parquet")
    with pytest.raises(PartitionError, match=r"s3://bucket/claims/part-001\.parquet, .*: the file is no longer there"):
        plan.partitions[1].source.load()
    with pytest.raises(FileNotFoundError, match=r"bucket/nothing: no Parquet file was found"):
        ParquetRows("bucket/nothing", filesystem=system)
    with system.open_output_stream("bucket/claims/part-001.parquet") as file:
        file.write((claims / "part-001.parquet").read_bytes())
