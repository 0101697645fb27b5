"""The analysis of a folder of Parquet files: models of all rows, a report on a sample, and predictions as files."""

import json
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.analysis.conftest import make_patients

from scarless import SAREMClassifierCV, load
from scarless.analysis import Settings, analyse_files, answer, files, fitting
from scarless.cli import main
from scarless.outside.table_files import read_table
from scarless.scale import ParquetRows
from scarless.scale.samples import draw_rows

FIT = ["fit", "claims", "--label", "diagnosed", "--propensity", "visits", "insurance", "--model", "logistic"]
FIT += ["--exclude", "known", "weight", "--id", "patient", "--quiet"]
N = 1200


def patients(**changes):
    table = make_patients(N)
    return table.assign(diagnosed=(table["diagnosed"] == "yes").astype(int), **changes)


def write(folder, table, n_files=3):
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=100)
    return folder


class Page:
    def save(self, path):
        path.write_text("")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with Parquet files and the results of a fit."""
    place = tmp_path_factory.mktemp("place")
    write(place / "claims", patients())
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as said:
        patch.chdir(place)
        assert main(FIT) == 0
    (place / "said.txt").write_text(said.getvalue())
    return place


@pytest.fixture
def claims(place, monkeypatch):
    monkeypatch.chdir(place)
    return place / "claims"


def settings(**options):
    values = {
        "label": "diagnosed",
        "propensity_attributes": ["visits"],
        "model": "logistic",
        "exclude": ["known", "weight"],
    }
    return Settings.from_dict({**values, "id": "patient", **options}, source="a test")


def test_rows_are_drawn_without_replacement_and_with_equal_probability(tmp_path):
    table = patients(number=np.arange(N))
    rows = ParquetRows(write(tmp_path / "claims", table))
    drawn = draw_rows(rows, "diagnosed", 300, 0)
    numbers = np.array(drawn.table.column("number"))
    assert (drawn.n_rows, len(numbers), len(set(numbers.tolist()))) == (N, 300, 300)
    assert (np.diff(numbers) > 0).all()
    np.testing.assert_array_equal(np.array(drawn.table.column("visits")), table["visits"][numbers])
    assert drawn.labels == table["diagnosed"].value_counts().to_dict()
    times = np.zeros(N)
    for seed in range(100):
        times[np.array(draw_rows(rows, "diagnosed", 300, seed).table.column("number"))] += 1
    assert abs(times - 25).max() < 5 * np.sqrt(100 * 0.25 * 0.75)  # 5 standard deviations of a binomial count
    assert draw_rows(rows, "diagnosed", 5000, 0).table.num_rows == N


def test_fit_uses_all_rows_and_writes_predictions_for_all_rows(place):
    said, folder = (place / "said.txt").read_text(), place / "claims-run"
    n_labelled = int(patients()["diagnosed"].sum())
    assert f"{n_labelled:,} of 1,200 rows have a label." in said
    assert {path.name for path in folder.iterdir()} == {
        "model.skops", "report.html", "summary.json", "run.toml", "scored"
    }  # fmt: skip
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["rows"], summary["labelled"], summary["rows_of_the_report"]) == (N, n_labelled, N)
    scored = pq.read_table(folder / "scored").to_pandas()
    table = patients()
    assert scored["patient"].tolist() == table["patient"].tolist()
    model = load(folder / "model.skops")
    np.testing.assert_allclose(scored["posterior"], model.predict_posterior(table, table["diagnosed"]), rtol=1e-5)
    assert (scored["posterior"][scored["diagnosed"] == 1] == 1).all()


def test_predict_writes_only_files_that_are_missing(claims, capsys):
    scored = claims.parent / "claims-run" / "scored"
    before = {path.name: path.read_bytes() for path in scored.glob("*.parquet")}
    (scored / next(iter(before))).unlink()
    assert main(["predict", "claims-run", "claims", "--out", str(scored)]) == 0
    files = f"{len(before)} files in {scored}, 1 written by this command"
    assert f"Predictions of 1,200 rows: {files}" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in scored.glob("*.parquet")} == before


def test_a_fit_can_be_repeated_from_run_toml(claims, monkeypatch):
    monkeypatch.setattr(answer.Analysis, "report", lambda self, progress: Page())  # saves time
    assert main(["fit", "--config", "claims-run/run.toml", "--out", "again", "--quiet", "--scheduler", "threads"]) == 0
    one, other = (load(claims.parent / name / "model.skops") for name in ("claims-run", "again"))
    np.testing.assert_array_equal(one.estimator_.coef_, other.estimator_.coef_)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_report_states_that_it_is_based_on_a_sample(tmp_path, monkeypatch):
    table = patients()
    claims = write(tmp_path / "words", table.assign(diagnosed=np.where(table["diagnosed"] == 1, "yes", "no")))
    monkeypatch.setattr(files, "SAMPLE_ROWS", 600)
    monkeypatch.setattr(fitting, "SAMPLE_ROWS", 600)
    monkeypatch.setattr(fitting, "MANY_ROWS", 700)
    small = SAREMClassifierCV(propensity_attributes=["visits"], Cs=[0.1, 1.0], cv=2, random_state=4)
    monkeypatch.setattr(files, "make_estimator", lambda *_: small)
    found = analyse_files(ParquetRows(claims), settings(model="search", seed=4))
    assert (len(found.table), found.n_rows) == (600, N)
    page = found.report().to_html()
    assert "How many rows are positive? Report on a random sample of 600 of the 1,200 rows of the fit" in page
    assert "is based on 600 rows, drawn at random with seed 4" in page
    assert any("The penalties were chosen with 600 rows" in note for note in found.notes)
    n_labelled = int(patients()["diagnosed"].sum())
    summary = found.summary()
    assert (summary["rows"], summary["labelled"]) == (N, n_labelled)
    np.testing.assert_allclose(summary["positives"], found.model.class_prior_ * N)
    np.testing.assert_allclose(summary["missing_positives"], found.model.class_prior_ * N - n_labelled)


def test_labels_may_be_text(tmp_path):
    table = patients()
    words = table.assign(diagnosed=np.where(table["diagnosed"] == 1, "yes", "no"))
    found = [
        analyse_files(ParquetRows(write(tmp_path / name, each)), settings(id="", exclude=["patient", "known"]))
        for name, each in (("numbers", table), ("words", words))
    ]
    np.testing.assert_allclose(found[0].model.estimator_.coef_, found[1].model.estimator_.coef_, rtol=1e-9)
    assert found[0].n_labelled == found[1].n_labelled == table["diagnosed"].sum()


def test_ids_are_left_out_and_weights_are_used(claims):
    found = analyse_files(ParquetRows(claims), settings(id="", exclude=["known"], sample_weight="weight"))
    assert "patient" not in found.model.feature_names_in_
    assert "weight" not in found.model.feature_names_in_
    assert any("Column 'patient' has a different value in every row" in note for note in found.notes)
    assert found.model.summary().weight == patients()["weight"].sum()


def test_settings_that_need_all_rows_in_memory_are_refused(claims, tmp_path):
    with pytest.raises(
        ValueError, match=r"--model stack needs all rows in memory, so it is not available for a folder"
    ):
        analyse_files(ParquetRows(claims), settings(model="stack"))
    with pytest.raises(ValueError, match="--known-propensity needs all rows in memory"):
        analyse_files(
            ParquetRows(claims), settings(propensity_attributes=[], known_propensity="known", exclude=["weight"])
        )
    with pytest.raises(ValueError, match="There is no column 'visit'"):
        analyse_files(ParquetRows(claims), settings(propensity_attributes=["visit"]))
    gaps = write(tmp_path / "gaps", make_patients(N))
    with pytest.raises(
        ValueError, match=r"the label column 'diagnosed' must have one value for labelled rows, .* no missing values"
    ):
        analyse_files(ParquetRows(gaps), settings())


def test_a_pandas_index_is_read_as_a_column(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims").mkdir()
    table = patients().set_index("patient")
    for number, rows in enumerate(np.array_split(np.arange(N), 2)):
        table.iloc[rows].to_parquet(tmp_path / "claims" / f"{number}.parquet")
    assert main(["inspect", "claims", "--label", "diagnosed"]) == 0
    assert "patient" in capsys.readouterr().out
    found = analyse_files(ParquetRows(tmp_path / "claims"), settings())
    assert "patient" not in found.model.feature_names_in_
    written = found.score(tmp_path / "scored")
    assert pq.read_table(written.folder).column("patient").to_pylist() == table.index.tolist()
    told = analyse_files(ParquetRows(tmp_path / "claims"), settings(id=""))
    assert any("Column 'patient' has a different value in every row" in note for note in told.notes)
    one = read_table(write_one(tmp_path / "one.parquet", table))
    assert "patient" in one.columns


def write_one(path, table):
    table.to_parquet(path)
    return path


def test_predictions_need_the_id_column_of_the_fit(claims, tmp_path):
    found = analyse_files(ParquetRows(claims), settings())
    other = write(tmp_path / "other", patients().drop(columns="patient"))
    with pytest.raises(ValueError, match=r"There is no column 'patient', the id column of the fit"):
        files.predict_files(found.model, ParquetRows(other), tmp_path / "scored")
    unlabelled = write(tmp_path / "unlabelled", patients().drop(columns="diagnosed"))
    done = files.predict_files(found.model, ParquetRows(unlabelled), tmp_path / "scored")
    assert pq.read_schema(done.files[0]).names == ["patient", "probability", "propensity", "posterior"]


def test_inspect_uses_a_sample_of_a_folder_and_reports_slow_files(claims, monkeypatch, capsys):
    monkeypatch.setattr(files, "SAMPLE_ROWS", 900)
    assert main(["inspect", str(claims), "--label", "diagnosed"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("900 rows, ")
    assert "These rows are a random sample of 1,200 rows in 3 files." in said
    assert "Files: 12 row groups have 100 rows each" in said
    assert main(["inspect", str(claims / "part-0.parquet"), "--label", "diagnosed"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("400 rows, ")
    assert "Files: 4 row groups have 100 rows each" in said


def test_codes_in_a_sample_of_the_rows_are_reported(tmp_path, monkeypatch, capsys):
    table = patients(pressure=np.where(np.arange(N) % 30, np.arange(N) % 50 + 90.0, -999.0))
    write(tmp_path / "claims", table)
    monkeypatch.chdir(tmp_path)
    assert main(FIT) == 0
    assert capsys.readouterr().out.count("'pressure' has -999 in 40 rows") == 1


def test_combinations_are_counted_and_all_audited_rows_are_returned(tmp_path):
    rng = np.random.default_rng(0)
    checked = np.where(rng.random(N) < 0.05, rng.integers(0, 2, N), np.nan)
    table = patients(number=np.arange(N), checked=checked)
    rows = ParquetRows(write(tmp_path / "claims", table))
    drawn = draw_rows(rows, ["diagnosed", "checked"], 300, 0, also="checked")
    numbers, more = (np.array(each.column("number")) for each in (drawn.table, drawn.checked))
    np.testing.assert_array_equal(numbers, draw_rows(rows, "diagnosed", 300, 0).table.column("number"))
    assert not set(numbers) & set(more)
    assert set(np.flatnonzero(np.isfinite(checked))) == set(more) | set(numbers[np.isfinite(checked[numbers])])
    kinds = drawn.kinds.to_pandas()
    want = table.groupby(["diagnosed", "checked"], dropna=False).size()
    assert dict(zip(map(str, kinds.iloc[:, :2].to_numpy()), kinds.iloc[:, 2], strict=True)) == {
        str(np.array(key, dtype=float)): count for key, count in want.items()
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_penalties_are_chosen_with_all_audited_rows(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    table = patients()
    ill = (table["diagnosed"] == 1) | (rng.random(N) < 0.2)
    claims = write(tmp_path / "claims", table.assign(checked=np.where(rng.random(N) < 0.1, ill, np.nan)))
    monkeypatch.setattr(files, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(fitting, "MANY_ROWS", 700)
    seen = []

    def narrow(search, X, observed, seed):
        seen.append((len(X), int(observed.audited.sum())))
        return search

    monkeypatch.setattr(files, "narrowed", narrow)
    small = SAREMClassifierCV(propensity_attributes=["visits"], Cs=[1.0], cv=2, random_state=4)
    monkeypatch.setattr(files, "make_estimator", lambda *_: small)
    found = analyse_files(ParquetRows(claims), settings(model="search", audit="checked"))
    n_audited = int(found.model.estimator_.n_audited_)
    assert seen == [(400 + n_audited - int(found.label.audited.sum()), n_audited)]
    assert found.summary()["audits"]["rows"] == n_audited
    assert found.summary()["labelled"] == int(table["diagnosed"].sum())
    assert any(f"The fit used all {n_audited} audits." in note for note in found.notes)
    with pytest.raises(
        ValueError, match=r"no column 'visit_2', which was a look of the fit, but the columns of other looks exist"
    ):
        files._label_columns_of(Settings(label=("visit_1", "visit_2"), scar=True), ["visit_1"])
