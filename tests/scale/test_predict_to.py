"""Predictions in files equal those in memory; files are complete or absent, and a second call writes missing ones."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from tests.scale.files import NAMES, Sent, make_rows, write_files

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.models.predict_to import OUTPUTS
from scarless.outside.files import lock
from scarless.outside.progress import progress_bar
from scarless.scale import ParquetRows, PartitionError, parquet
from scarless.scale import predictions as module
from scarless.scale.partitions import STORE
from scarless.scale.predictions import WrittenPredictions

N = 1500


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch):
    monkeypatch.setattr(parquet, "_PARTITION_BYTES", 300 * 4 * 8)  # one row group


@pytest.fixture(scope="module")
def rows():
    return make_rows(N)


@pytest.fixture
def claims(tmp_path, rows):
    X, s = rows
    return write_files(
        tmp_path / "claims", X, [700, 800], s=s, id=np.arange(N), town=np.array(["a", "b", "c"])[np.arange(N) % 3]
    )


@pytest.fixture(scope="module")
def model(rows):
    return SAREMClassifier(propensity_attributes=["d"]).fit(pd.DataFrame(rows[0], columns=NAMES), rows[1])


def read(written):
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in written.files]).to_pydict()


def column(written, name):
    return np.array(read(written)[name])


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir() if not path.name.endswith(".lock"))


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)


# --- contents of the files


def test_files_hold_what_the_model_predicts_in_memory(tmp_path, claims, rows, model):
    X = pd.DataFrame(rows[0], columns=NAMES)
    loads = STORE.loads
    found = model.predict_to(ParquetRows(claims), tmp_path / "scored", keep=["id", "town"])
    assert isinstance(found, WrittenPredictions)
    assert (found.folder, found.n_rows, found.n_new) == (tmp_path / "scored", N, 3 + 1 + 3)
    assert STORE.loads == loads  # No input column is kept.
    table = read(found)
    assert list(table) == ["id", "town", "probability", "propensity", "posterior"]
    np.testing.assert_array_equal(table["id"], np.arange(N))
    assert table["town"][:4] == ["a", "b", "c", "a"]
    same(table["probability"], model.predict_proba(X)[:, 1])
    same(table["propensity"], model.predict_propensity(X))
    same(table["posterior"], model.predict_posterior(X, np.zeros(N, dtype=int)))


def test_posteriors_are_those_of_the_given_labels(tmp_path, claims, rows, model):
    found = model.predict_to(ParquetRows(claims), tmp_path / "scored", label="s")
    same(column(found, "posterior"), model.predict_posterior(pd.DataFrame(rows[0], columns=NAMES), rows[1]))


def test_names_follow_from_the_input_alone(tmp_path, claims, model):
    found = model.predict_to(ParquetRows(claims), tmp_path / "scored")
    assert names_in(tmp_path / "scored")[:4] == [
        "part-000.00000-00000.parquet",
        "part-000.00001-00001.parquet",
        "part-000.00002-00002.parquet",
        "part-001.00000-00000.parquet",
    ]
    assert [path.name for path in found.files] == names_in(tmp_path / "scored")


def test_folders_with_a_value_are_kept(tmp_path, rows, model):
    X, s = rows
    for year, half in ((2020, slice(0, 700)), (2021, slice(700, N))):
        (tmp_path / "claims").mkdir(exist_ok=True)
        write_files(tmp_path / "claims" / f"year={year}", X[half], [], row_group_size=N, s=s[half])
    model.predict_to(ParquetRows(tmp_path / "claims" / "year=2020"), tmp_path / "scored")
    found = model.predict_to(ParquetRows(tmp_path / "claims"), tmp_path / "scored")
    assert found.n_new == 1
    assert pq.read_table(tmp_path / "scored").column("year").to_pylist() == [2020] * 700 + [2021] * 800


def fitted(kind, X, s):
    if kind is PropensityWeightedClassifier:
        return kind().fit(X, s, propensity=np.clip(np.abs(X[:, 3]), 0.2, 1.0))
    options = {
        SAREMClassifierCV: {"propensity_attributes": [3], "Cs": [1.0], "cv": 2, "random_state": 0},
        SCARClassifier: {"label_frequency": 0.5},
    }
    return kind(**options.get(kind, {})).fit(X, s)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "kind", [SAREMClassifierCV, SCARClassifier, PropensityWeightedClassifier, NaiveClassifier], ids=lambda k: k.__name__
)
def test_every_logistic_classifier_writes_what_it_knows(tmp_path, claims, rows, kind):
    X, s = rows
    model = fitted(kind, X, s)
    table = read(model.predict_to(ParquetRows(claims, columns=NAMES), tmp_path / "scored", label="s"))
    same(table["probability"], model.predict_proba(X)[:, 1])
    if hasattr(model, "predict_propensity"):
        same(table["propensity"], model.predict_propensity(X))
        same(table["posterior"], model.predict_posterior(X, s))
    else:
        assert list(table) == ["probability"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_models_predict_one_frame_at_a_time(tmp_path, claims, rows):
    X, s = rows
    own = SAREMClassifier(LogisticRegression(), propensity_attributes=[3], cv=2, max_iter=3, random_state=0)
    strata = StratifiedSCARClassifier([0], label_frequency="tice")
    for number, model in enumerate((own.fit(X, s), strata.fit(np.c_[X[:, 0] > 0, X[:, 1:]], s))):
        given = write_files(
            tmp_path / f"claims{number}", X if number == 0 else np.c_[X[:, 0] > 0, X[:, 1:]], [700], s=s
        )
        rows_in_files = ParquetRows(given, columns=NAMES)
        found = model.predict_to(rows_in_files, tmp_path / f"scored{number}")
        table = pa.concat_tables([pq.read_table(path) for path in rows_in_files.files]).select(NAMES)
        seen = table.to_pandas().to_numpy()
        same(column(found, "probability"), model.predict_proba(seen)[:, 1])
        same(column(found, "propensity"), model.predict_propensity(seen))
        same(column(found, "posterior"), model.predict_posterior(seen, np.zeros(N, dtype=int)))
        assert model.predict_to(rows_in_files, tmp_path / f"scored{number}").n_new == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("given", ["e", 0.5])
def test_known_propensities_are_a_column_or_a_number(tmp_path, rows, given):
    X, s = rows
    e = np.where(np.arange(N) % 5 == 0, 1.0, 0.4)
    claims = write_files(tmp_path / "claims", X, [700], s=s, e=e)
    model = fitted(PropensityWeightedClassifier, X, s)
    found = model.predict_to(ParquetRows(claims, columns=NAMES), tmp_path / "scored", propensity=given)
    used = e if given == "e" else np.full(N, 0.5)
    same(column(found, "propensity"), used)
    same(column(found, "posterior"), model.predict_posterior(X, np.zeros(N, dtype=int), used))


def test_single_precision_is_double_rounded(tmp_path, claims, model):
    double = model.predict_to(ParquetRows(claims), tmp_path / "double")
    single = model.predict_to(ParquetRows(claims), tmp_path / "single", dtype="float32")
    assert pq.read_schema(single.files[0]).field("posterior").type == pa.float32()
    for name in OUTPUTS:
        np.testing.assert_array_equal(column(single, name).astype(np.float32), column(double, name).astype(np.float32))


def test_labels_of_other_values(tmp_path, rows):
    X, s = rows
    text = np.where(s == 1, "ill", "unknown")
    claims = write_files(tmp_path / "claims", X, [700], s=text)
    model = SAREMClassifier(propensity_attributes=["d"], pos_label="ill").fit(ParquetRows(claims), "s")
    found = model.predict_to(ParquetRows(claims), tmp_path / "scored", label="s")
    assert (column(found, "posterior")[s == 1] == 1).all()
    assert (column(found, "posterior")[s == 0] < 1).all()
    same(column(found, "probability"), model.predict_proba(_frame(X))[:, 0])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_prediction_request_can_be_pickled(tmp_path, claims, rows, model, monkeypatch):
    own = StratifiedSCARClassifier([0], label_frequency="tice").fit(np.c_[rows[0][:, 0] > 0, rows[0][:, 1:]], rows[1])
    for number, each in enumerate((model, own)):
        table = ParquetRows(claims, columns=NAMES)
        here = each.predict_to(table, tmp_path / f"here{number}", keep=["id"])
        with monkeypatch.context() as patch:
            patch.setattr(module, "find_executor", lambda _: Sent())
            there = each.predict_to(table, tmp_path / f"there{number}", keep=["id"])
        assert there.n_new == 7
        assert [file.read_bytes() for file in there.files] == [file.read_bytes() for file in here.files]


# --- files are complete or absent


KILLED = """
import os, pickle, signal, sys
import pyarrow.parquet as pq
from scarless.scale import ParquetRows, parquet
model, claims, scored, whole = pickle.load(open(sys.argv[1], "rb"))
parquet._PARTITION_BYTES = 300 * 4 * 8
write, count = pq.write_table, 0

def write_half(table, path, **options):
    global count
    write(table, path, **options)
    count += 1
    if count > whole:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)

pq.write_table = write_half
model.predict_to(ParquetRows(claims, scheduler="threads"), scored, keep=["id"])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal on this system")
def test_after_a_kill_no_partial_file_is_left_and_the_rest_is_written(tmp_path, claims, model):
    whole, scored = 3, tmp_path / "scored"
    (tmp_path / "what.pickle").write_bytes(pickle.dumps((model, str(claims), str(scored), whole)))
    path = os.pathsep.join(sys.path)
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "what.pickle")],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    seen = sorted(scored.glob("*.parquet"))
    assert len(seen) == whole
    assert sum(pq.read_table(file).num_rows for file in seen) == 700  # All files are complete.
    assert len([name for name in names_in(scored) if name.endswith(".part")]) == 1
    before = {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in seen}
    found = model.predict_to(ParquetRows(claims), scored, keep=["id"])
    assert found.n_new == 7 - whole
    assert {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in seen} == before
    assert names_in(scored) == [file.name for file in found.files]
    fresh = model.predict_to(ParquetRows(claims), tmp_path / "fresh", keep=["id"])
    assert read(found) == read(fresh)
    assert [file.read_bytes() for file in found.files] == [file.read_bytes() for file in fresh.files]


def test_an_error_in_one_partition_keeps_the_files_of_others(tmp_path, claims, rows, model):
    X, s = rows
    good = claims / "part-002.parquet"
    kept = good.read_bytes()
    bad = X[800:].copy()
    bad[450, 1] = np.nan
    columns = {name: bad[:, j] for j, name in enumerate(NAMES)}
    pq.write_table(pa.table({**columns, "s": s[800:]}), good, row_group_size=300)
    with pytest.raises(
        PartitionError, match=r"part-002.parquet, row group 1: the column 'b' has the value nan in row 150 of"
    ):
        model.predict_to(ParquetRows(claims, scheduler="threads"), tmp_path / "scored")
    assert not [name for name in names_in(tmp_path / "scored") if name.endswith(".part")]
    done = len(names_in(tmp_path / "scored"))
    assert done >= 4
    good.write_bytes(kept)
    again = model.predict_to(ParquetRows(claims), tmp_path / "scored")
    assert again.n_new >= 3  # all files of the input file that was replaced
    same(column(again, "probability"), model.predict_proba(_frame(X))[:, 1])


def _frame(X):
    return pd.DataFrame(X, columns=NAMES)


# --- existing files


def test_a_second_call_writes_nothing(tmp_path, claims, model):
    first = model.predict_to(ParquetRows(claims), tmp_path / "scored")
    again = pickle.loads(pickle.dumps(model)).predict_to(ParquetRows(claims), tmp_path / "scored")
    assert (again.n_new, again.files) == (0, first.files)


def test_predictions_of_a_changed_input_are_replaced(tmp_path, claims, rows, model):
    X, s = rows
    first = model.predict_to(ParquetRows(claims), tmp_path / "scored")
    columns = {name: X[:300, j] for j, name in enumerate(NAMES)}
    pq.write_table(pa.table({**columns, "s": s[:300]}), claims / "part-000.parquet")
    again = model.predict_to(ParquetRows(claims), tmp_path / "scored")
    assert (again.n_new, again.n_rows) == (1, N - 400)
    assert len(again.files) == len(first.files) - 2
    assert names_in(tmp_path / "scored") == [path.name for path in again.files]


def test_models_are_not_mixed(tmp_path, claims, rows, model):
    X, s = rows
    scored = tmp_path / "scored"
    first = model.predict_to(ParquetRows(claims), scored)
    other = SAREMClassifier(propensity_attributes=["d"], C=0.01).fit(_frame(X), s)
    with pytest.raises(
        ValueError,
        match=(
            r"part-000.00000-00000.parquet contains predictions of another model\. "
            r"Choose another folder"
        ),
    ):
        other.predict_to(ParquetRows(claims), scored)
    assert model.predict_to(ParquetRows(claims), scored).n_new == 0  # No file has changed.
    some = ParquetRows(claims / "part-000.parquet")
    found = other.predict_to(some, scored, force=True)
    assert (found.n_new, names_in(scored)) == (3, [path.name for path in found.files])
    assert len(first.files) == 7
    same(column(found, "probability"), other.predict_proba(_frame(X[:700]))[:, 1])


def test_other_columns_and_other_tables_are_not_mixed(tmp_path, claims, rows, model):
    scored = tmp_path / "scored"
    model.predict_to(ParquetRows(claims), scored)
    for options in ({"keep": ["id"]}, {"label": "s"}, {"dtype": "float32"}):
        with pytest.raises(ValueError, match="contains predictions with other columns"):
            model.predict_to(ParquetRows(claims), scored, **options)
    elsewhere = write_files(tmp_path / "more", rows[0], [700, 800], s=rows[1])
    with pytest.raises(ValueError, match=r"contains predictions of another table \(.*claims.part-000.parquet\)"):
        model.predict_to(ParquetRows(elsewhere), scored)
    assert model.predict_to(ParquetRows(elsewhere), scored, force=True).n_new == 7


def test_other_files_are_never_changed(tmp_path, claims, rows, model):
    others = write_files(tmp_path / "scored", rows[0], [700])
    for folder, said in ((claims, "is in the output folder"), (others, "was not written by predict_to")):
        before = {path: path.read_bytes() for path in folder.iterdir()}
        for force in (False, True):
            with pytest.raises(ValueError, match=rf"part-000.parquet {said}"):
                model.predict_to(ParquetRows(claims), folder, force=force)
        assert {path: path.read_bytes() for path in folder.glob("*.parquet")} == before


def test_an_input_file_in_the_output_folder_is_refused(claims, model):
    model.predict_to(ParquetRows(claims / "part-00*.parquet"), claims / "scored")
    with pytest.raises(ValueError, match=r"input file .*00000-00000.parquet is in the output folder .*scored. Choose"):
        model.predict_to(ParquetRows(claims), claims / "scored")
    assert model.predict_to(ParquetRows(claims / "part-00*.parquet"), claims / "scored").n_new == 0


def test_a_damaged_file_is_written_again(tmp_path, claims, model):
    first = model.predict_to(ParquetRows(claims), tmp_path / "scored")
    content = first.files[2].read_bytes()
    first.files[2].write_bytes(content[:100])
    assert model.predict_to(ParquetRows(claims), tmp_path / "scored").n_new == 1
    assert first.files[2].read_bytes() == content


def test_two_processes_do_not_write_into_one_folder(tmp_path, claims, model):
    (tmp_path / "scored").mkdir()
    with (
        lock(tmp_path / "scored" / module.LOCK_NAME),
        pytest.raises(RuntimeError, match=r"Another process is writing predictions into .*scored. Wait"),
    ):
        model.predict_to(ParquetRows(claims), tmp_path / "scored")


def test_the_progress_bar_counts_files(tmp_path, claims, model, capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(module, "progress_bar", lambda what, total: progress_bar(what, total, show=True))
    model.predict_to(ParquetRows(claims), tmp_path / "scored")
    shown = capsys.readouterr().err
    assert "writing predictions" in shown
    assert "100%" in shown


# --- errors


def test_invalid_requests_are_refused(tmp_path, claims, rows, model):
    def ask(model=model, table=None, **options):
        model.predict_to(ParquetRows(claims) if table is None else table, tmp_path / "scored", **options)

    with pytest.raises(ValueError, match="has no column 'name'; its columns are a, b, c, d, s, id, town"):
        ask(keep=["name"])
    with pytest.raises(ValueError, match="has no column 'diagnosed'"):
        ask(label="diagnosed")
    with pytest.raises(ValueError, match="dtype must be"):
        ask(dtype="int8")
    with pytest.raises(ValueError, match="propensity is given, but SAREMClassifier estimates it"):
        ask(propensity="d")
    with pytest.raises(TypeError, match=r"X must be a table in files, scarless.scale.ParquetRows"):
        ask(table=_frame(rows[0]))
    nameless = SAREMClassifier(propensity_attributes=[3]).fit(*rows)
    with pytest.raises(ValueError, match=r"X has the columns a, b, c, d, s, ..., but SAREMClassifier was fitted to 4"):
        ask(nameless)
    with pytest.raises(ValueError, match="propensity is given, but NaiveClassifier does not use it"):
        ask(NaiveClassifier().fit(*rows), propensity=0.5)


def test_a_column_with_the_name_of_a_prediction_is_refused(tmp_path, rows, model):
    claims = write_files(tmp_path / "claims", rows[0], [], s=rows[1], posterior=rows[1])
    with pytest.raises(ValueError, match=r"keep: 'posterior' is also the name of a prediction. Rename the column"):
        model.predict_to(ParquetRows(claims), tmp_path / "scored", keep=["posterior"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_invalid_labels_and_propensities_are_named(tmp_path, rows, model):
    X, s = rows
    odd, e = s.copy(), np.full(N, 0.5)
    odd[750], e[1200] = 2, 0.0
    claims = write_files(tmp_path / "claims", X, [700, 800], s=odd, e=e)
    with pytest.raises(
        PartitionError, match=r"part-001.parquet, row group 0: the label column 's' has the value 2 in row 50"
    ):
        model.predict_to(ParquetRows(claims), tmp_path / "scored", label="s")
    known = fitted(PropensityWeightedClassifier, X, s)
    with pytest.raises(
        PartitionError, match=r"part-002.parquet, row group 1: propensities in the column 'e' .* \(first: 0 in row 100"
    ):
        known.predict_to(ParquetRows(claims, columns=NAMES), tmp_path / "known", propensity="e")


def test_too_large_numbers_are_refused_as_in_memory(tmp_path, rows, model):
    X, s = rows
    X = X.copy()
    X[3, 2] = 1e101
    claims = write_files(tmp_path / "claims", X, [], s=s)
    with pytest.raises(
        PartitionError,
        match=r"the column 'c' has the value 1e\+101 in row 3 of this partition\. Values must be finite and at most",
    ):
        model.predict_to(ParquetRows(claims), tmp_path / "scored")


def test_raw_tables_are_prepared_for_predictions(tmp_path, rows):
    pytest.importorskip("skrub")
    X, s = rows
    town = np.array(["a", "b", None])[np.arange(N) % 3]
    claims = write_files(tmp_path / "claims", X, [700], s=s, town=town)
    table = pd.DataFrame(X, columns=NAMES).assign(town=town)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["d"])).fit(table, s)
    found = model.predict_to(ParquetRows(claims), tmp_path / "scored", label="s", keep=["town"])
    same(column(found, "probability"), model.predict_proba(table)[:, 1])
    same(column(found, "posterior"), model.predict_posterior(table, s))
    assert model.predict_to(ParquetRows(claims), tmp_path / "scored", label="s", keep=["town"]).n_new == 0
