"""`scarless predict` prints whether the model is still right, and writes drift.html and drift.json."""

import json

import pytest
from tests.analysis.conftest import make_patients

from scarless.cli import main

FIT = ["--label", "diagnosed", "--propensity", "visits", "insurance", "--model", "logistic", "--id", "patient"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    make_patients(500).to_csv(place / "old.csv", index=False)
    make_patients(200, seed=5).to_csv(place / "new.csv", index=False)
    options = [*FIT, "--exclude", "known", "weight", "--out", str(place / "run"), "--quiet"]
    assert main(["fit", str(place / "old.csv"), *options]) == 0
    return place


@pytest.fixture
def predict(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*options, file=None):
        code = main(["predict", str(place / "run"), str(file or place / "new.csv"), *options])
        return code, capsys.readouterr()

    return run


def test_the_check_is_printed_and_written_beside_the_ranked_rows(predict, tmp_path):
    code, said = predict("--out", "may/ranked.csv")
    assert code == 0
    lines = said.out.splitlines()
    assert lines[0] == "Ranked 200 rows: may/ranked.csv"
    assert lines[1].startswith("Is the model still right? ")
    assert lines[-1] == "Drift: may/drift.html"
    assert {path.name for path in (tmp_path / "may").iterdir()} == {"ranked.csv", "drift.html", "drift.json"}
    read = json.loads((tmp_path / "may" / "drift.json").read_text())
    assert read["sentences"][0] == lines[1]
    assert read["run"]["ranked rows"] == "may/ranked.csv"


def test_results_of_several_months_do_not_overwrite_each_other(predict, tmp_path):
    assert predict("--out", "ranked-april.csv")[0] == predict("--out", "ranked-may.csv")[0] == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"drift-april.html", "drift-may.html", "drift-april.json", "drift-may.json"} <= names


def test_an_existing_check_is_not_overwritten(predict, tmp_path):
    (tmp_path / "drift.json").write_text("mine")
    code, said = predict("--out", "ranked.csv")
    assert code == 1
    assert "drift.json exists. Choose another name (--out), or replace it with --force." in said.err
    assert not (tmp_path / "ranked.csv").exists()
    assert (tmp_path / "drift.json").read_text() == "mine"
    assert predict("--out", "ranked.csv", "--force")[0] == 0
    assert json.loads((tmp_path / "drift.json").read_text())["schema"] == 2


def test_labels_may_have_another_name_or_be_absent(predict, place, tmp_path):
    table = make_patients(200, seed=5)
    table.rename(columns={"diagnosed": "dx"}).to_csv(tmp_path / "dx.csv", index=False)
    code, said = predict("--label", "dx", "--out", "a.csv", file=tmp_path / "dx.csv")
    assert code == 0
    assert f"Labels: {(table['diagnosed'] == 'yes').sum()} rows have one;" in said.out
    code, said = predict("--out", "b.csv", file=tmp_path / "dx.csv")
    assert code == 0
    assert "Note: There are no labels in column 'diagnosed'" in said.out
    assert "Labels: there are none, so nothing shows whether they arrive as often as predicted." in said.out


def test_nothing_is_written_if_a_column_has_text_instead_of_numbers(predict, tmp_path):
    make_patients(50).assign(age="old").to_csv(tmp_path / "odd.csv", index=False)
    code, said = predict("--out", "ranked.csv", file=tmp_path / "odd.csv")
    assert code == 1
    assert "Column 'age' held numbers in the fit" in said.err
    assert not (tmp_path / "ranked.csv").exists()
    assert not (tmp_path / "drift.html").exists()


def test_another_unit_is_the_first_thing_said(predict, tmp_path):
    table = make_patients(200, seed=5)
    table.assign(age=12 * table["age"]).to_csv(tmp_path / "months.csv", index=False)
    code, said = predict("--out", "ranked.csv", file=tmp_path / "months.csv")
    assert code == 0
    [line] = [line for line in said.out.splitlines() if line.startswith("Is the model still right?")]
    assert line.startswith(
        "Is the model still right? This cannot be said. Column 'age' is about 12 times larger than in the fit: was its "
        "unit changed?"
    )


def test_an_empty_file_is_refused(predict, tmp_path):
    make_patients(50).iloc[:0].to_csv(tmp_path / "empty.csv", index=False)
    code, said = predict("--out", "ranked.csv", file=tmp_path / "empty.csv")
    assert code == 1
    assert "this file has a header but no rows" in said.err


def test_one_row(predict, tmp_path):
    make_patients(50).iloc[:1].to_csv(tmp_path / "one.csv", index=False)
    code, said = predict("--out", "ranked.csv", file=tmp_path / "one.csv")
    assert code == 0
    assert "This cannot be said. No change was found, but 1 new row is not enough to find one." in said.out


def test_a_folder_of_files(predict, tmp_path):
    (tmp_path / "june").mkdir()
    rows = make_patients(150, seed=6).drop(columns="diagnosed")
    rows.to_parquet(tmp_path / "june" / "rows.parquet", index=False)
    code, said = predict("--out", "scored", file=tmp_path / "june")
    assert code == 0
    assert said.out.splitlines()[-1] == "Drift: scored-drift.html"
    code, said = predict("--out", "scored", file=tmp_path / "june")
    assert code == 0
    assert (
        "scored-drift.html exists, so the rows are not checked for drift again. To replace it, use --force." in said.out
    )
