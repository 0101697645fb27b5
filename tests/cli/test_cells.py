"""The command line with odd cells in files: they are read, reported or refused."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.analysis.conftest import make_patients
from tests.cli.conftest import save_empty_page

from scarless.analysis import Analysis
from scarless.cli import main
from scarless.outside.table_files import read_table

FIT = ["--label", "diagnosed", "--propensity", "visits", "insurance", "--model", "logistic", "--quiet", "--out", "run"]
FIT += ["--exclude", "known", "weight"]


@pytest.fixture
def patients(empty_folder):
    return make_patients(400)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a folder with the results of a fit, in run. Tests must not write into it."""
    place = tmp_path_factory.mktemp("fitted")
    make_patients(400).to_csv(place / "patients.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Analysis, "report", lambda *_, **__: SimpleNamespace(save=save_empty_page))
        patch.chdir(place)
        assert main(["fit", "patients.csv", *FIT]) == 0
    return place


def with_ages(table, cells):
    ages = table["age"].astype(object)
    ages.iloc[1 : 1 + len(cells)] = cells
    return table.assign(age=ages)


@pytest.mark.usefixtures("reports")
def test_inspect_fit_and_report_list_odd_cells(patients, capsys):
    with_ages(patients, ["<40", "51,5", "oops"]).to_csv("odd.csv", index=False)
    told = "row 2 '<40' as 40, row 3 '51,5' as 51.5; 1 is treated as missing: row 4 'oops'"
    assert main(["inspect", "odd.csv", "--label", "diagnosed"]) == 0
    looked = capsys.readouterr().out
    assert told in looked
    assert "age         number" in looked
    assert main(["fit", "odd.csv", *FIT]) == 0
    assert told in capsys.readouterr().out
    assert any(told in note for note in json.loads(Path("run/summary.json").read_text(encoding="utf-8"))["notes"])
    assert "&#39;oops&#39;" in Path("run/report.html").read_text(encoding="utf-8")


def test_a_column_of_numbers_and_text_needs_the_option_number_or_text(patients, capsys):
    with_ages(patients, ["oops"] * 9).to_csv("odd.csv", index=False)
    assert main(["inspect", "odd.csv", "--label", "diagnosed"]) == 0
    assert "Does column 'age' hold numbers?" in capsys.readouterr().out
    assert main(["fit", "odd.csv", *FIT]) == 1
    assert "--number age" in capsys.readouterr().err
    assert main(["fit", "odd.csv", *FIT, "--text", "age"]) == 0
    assert main(["predict", "run", "odd.csv", "--out", "one.csv"]) == 0
    assert main(["fit", "odd.csv", *FIT, "--number", "age", "--force"]) == 0
    assert "9 are treated as missing: row 2 'oops'" in capsys.readouterr().out
    assert main(["fit", "--config", "run/run.toml", "--force", "--quiet"]) == 0  # run.toml contains the option
    assert main(["fit", "odd.csv", *FIT, "--number", "age", "--text", "age", "--force"]) == 1
    assert "'age' is named by both --number and --text" in capsys.readouterr().err


def test_new_rows_with_unreadable_cells_are_noted_or_refused(patients, fitted, capsys):
    run = str(fitted / "run")
    with_ages(patients, ["oops"] * 3).to_csv("few.csv", index=False)
    with_ages(patients, ["oops"] * 30).to_csv("many.csv", index=False)
    patients.drop(columns="age").assign(age=patients["age"].astype(str).str.replace(".", ",")).to_csv(
        "commas.csv", index=False
    )
    capsys.readouterr()
    assert main(["predict", run, "few.csv", "--out", "few-ranked.csv"]) == 0
    assert "Note: Column 'age' is read as numbers. 3 of its cells" in capsys.readouterr().out
    assert main(["predict", run, "many.csv", "--out", "many-ranked.csv"]) == 1
    assert "Column 'age' held numbers in the fit, but here 30 of" in capsys.readouterr().err
    assert main(["predict", run, "commas.csv", "--out", "commas-ranked.csv"]) == 0
    assert main(["predict", run, str(fitted / "patients.csv"), "--out", "ranked.csv"]) == 0
    assert read_table("commas-ranked.csv").equals(read_table("ranked.csv"))


def test_label_values_ignore_case_and_can_be_several(patients, capsys):
    yes = patients["diagnosed"] == "yes"
    n = int(yes.sum())
    spelt = patients["diagnosed"].where(~yes, [["yes", "Yes", "YES"][row % 3] for row in range(len(yes))]).fillna("no")
    patients.assign(diagnosed=spelt).to_csv("spelt.csv", index=False)
    assert main(["fit", "spelt.csv", *FIT, "--pos-label", "yes"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{n} of 400 rows have a label.")
    assert "are all read as labels" in told
    capital = patients["diagnosed"].where(~yes, "yEs").fillna("no")
    patients.assign(diagnosed=capital).to_csv("capital.csv", index=False)
    assert main(["predict", "run", "capital.csv", "--out", "ranked.csv"]) == 0
    assert read_table("ranked.csv")["labelled"].sum() == n
    numbers = patients.assign(diagnosed=yes.astype(int))
    numbers.to_csv("numbers.csv", index=False)
    capsys.readouterr()
    assert main(["predict", "run", "numbers.csv", "--out", "ranked.csv", "--force"]) == 0
    assert "which marked a label in the fit. All rows are treated as unlabelled" in capsys.readouterr().out
    two = spelt.where(spelt != "Yes", "perhaps")
    patients.assign(diagnosed=two).to_csv("two.csv", index=False)
    assert main(["fit", "two.csv", *FIT, "--pos-label", "yes", "--pos-label", "Perhaps", "--force"]) == 0
    assert capsys.readouterr().out.startswith(f"{n} of 400 rows have a label.")
    assert main(["fit", "--config", "run/run.toml", "--force", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(f"{n} of 400 rows have a label.")
    assert (
        main(["predict", "run", "spelt.csv", "--out", "ranked.csv", "--force"]) == 0
    )  # no row has the value 'perhaps'
    assert read_table("ranked.csv")["labelled"].sum() == n


@pytest.mark.parametrize("cell", ["inf", "1e300"])
def test_fit_and_predict_report_infinite_and_huge_cells(patients, fitted, capsys, cell):
    with_ages(patients, [cell]).to_csv("huge.csv", index=False)
    assert main(["fit", "huge.csv", *FIT]) == 1
    told = f"Column 'age' holds {float(cell):g} in row 2 (counted from 1)"
    assert told in capsys.readouterr().err
    assert main(["predict", str(fitted / "run"), "huge.csv", "--out", "ranked.csv"]) == 1
    assert told in capsys.readouterr().err


BAD_WEIGHTS = {
    "negative": (
        {7: -2.0},
        "must hold finite numbers of at least 0. 1 of 400 cells is wrong; the first is ",
    ),
    "infinite": ({3: np.inf, 9: np.inf}, "2 of 400 cells are wrong; the first is 'inf' in row 4 (counted from 1)"),
    "missing": ({0: np.nan}, "has 1 missing value, in row 1 (counted from 1)"),
    "text": (
        {5: "heavy"},
        "must hold numbers. 1 of 400 cells is wrong; the first is 'heavy' in row 6 (counted from 1)",
    ),
    "nothing": (dict.fromkeys(range(400), 0.0), "is 0 for every labelled row. Give at least one labelled row a weight"),
    "huge": ({2: 1e200}, "the largest weight must lie between 1e-100 and 1e+100"),
}


@pytest.mark.parametrize("kind", BAD_WEIGHTS)
def test_weights_are_checked_before_the_fit_and_errors_name_row_and_column(patients, capsys, monkeypatch, kind):
    cells, told = BAD_WEIGHTS[kind]
    weights = np.ones(400).astype(object)
    weights[list(cells)] = list(cells.values())
    patients.assign(weight=weights).to_csv("patients.csv", index=False)
    monkeypatch.setattr("scarless.analysis.answer.choose_features", lambda *_: pytest.fail("the work has begun"))
    assert main(["fit", "patients.csv", *(each for each in FIT if each != "weight"), "--sample-weight", "weight"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("scarless: Column 'weight' (--sample-weight)")
    assert told in line


def test_known_propensities_are_checked_before_the_fit(patients, capsys, monkeypatch):
    patients.assign(known=np.where(np.arange(400) == 11, 0.0, 0.5)).to_csv("patients.csv", index=False)
    monkeypatch.setattr("scarless.analysis.answer.choose_features", lambda *_: pytest.fail("the work has begun"))
    assert main(["fit", "patients.csv", "--label", "diagnosed", "--known-propensity", "known", "--out", "run"]) == 1
    assert (
        "Column 'known' (--known-propensity) must hold probabilities above 0 and at most 1. 1 of 400 cells is wrong; "
        "the first is '0.0' in row 12 (counted from 1). Correct these cells, or drop the rows."
    ) in capsys.readouterr().err


def test_an_output_path_is_tried_before_the_fit(patients, capsys, monkeypatch):
    patients.to_csv("patients.csv", index=False)
    fit = ["fit", "patients.csv", *[each for each in FIT if each not in ("--out", "run")]]
    monkeypatch.setattr("scarless.cli.tables._read", lambda options: pytest.fail("the work has begun"))
    before = sorted(Path().iterdir())
    places = ["x" * 300, *(["/proc/run"] if Path("/proc/self").exists() else [])]
    for place in places:
        assert main([*fit, "--out", place]) == 1
        assert f"{place} cannot be written: " in (told := capsys.readouterr().err)
        assert "Choose another path (--out)." in told
    assert sorted(Path().iterdir()) == before
    assert main([*fit, "--out", "/"]) == 1  # an existing folder, whose name is empty
    assert "IndexError" not in capsys.readouterr().err


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_the_error_about_an_output_folder_suggests_a_file_name(patients, capsys, force):
    patients.to_csv("patients.csv", index=False)
    Path("my results").mkdir()
    assert main(["predict", "run", "patients.csv", "--out", "my results", *force]) == 1
    assert capsys.readouterr().err == (
        "scarless: my results is a folder. The ranked rows of one table are written to a file. Name this file, for "
        "example --out 'my results/ranked.csv'.\n"
    )
    assert main(["export", "run", "--out", "my results", *force]) == 1
    assert (
        "An ONNX graph is written to a file. Name this file, for example --out 'my results/model.onnx'"
        in capsys.readouterr().err
    )


def test_output_paths_are_checked_before_the_fit_and_created_after_it(patients, capsys, monkeypatch):
    patients.to_csv("patients.csv", index=False)
    fit = ["fit", "patients.csv", *[each for each in FIT if each not in ("--out", "run")]]
    monkeypatch.setattr("scarless.cli.tables._read", lambda options: pytest.fail("the work has begun"))
    assert main([*fit, "--out", "patients.csv/run"]) == 1
    assert "patients.csv is a file, not a folder" in capsys.readouterr().err
    assert main([*fit, "--out", "run", "--ranked", "ranked.doc"]) == 1
    assert "the suffix of a table file must be one of" in capsys.readouterr().err
    with monkeypatch.context() as patched:
        patched.setattr("scarless.outside.files.os.access", lambda path, mode: False)
        assert main([*fit, "--out", "closed/run"]) == 1
    assert "closed/run cannot be written: you have no permission to write to the folder" in capsys.readouterr().err
    monkeypatch.undo()
    assert not Path("closed").exists()


def test_missing_output_folders_are_created(patients, capsys, tmp_path, monkeypatch):
    patients.to_csv("patients.csv", index=False)
    fit = ["fit", "patients.csv", *[each for each in FIT if each not in ("--out", "run")]]
    assert main([*fit, "--out", "deep/down/run"]) == 0
    assert main(["predict", "deep/down/run", "patients.csv", "--out", "other/place/ranked.csv"]) == 0
    assert len(read_table("other/place/ranked.csv")) == 400
    capsys.readouterr()
    assert main(["predict", "deep/down/run", "patients.csv", "--out", "patients.csv/ranked.csv"]) == 1
    assert "is a file, not a folder" in capsys.readouterr().err
    patients[["patient", "diagnosed"]].to_csv("none.csv", index=False)
    assert main(["predict", "deep/down/run", "none.csv", "--out", "none-ranked.csv"]) == 1
    assert "This table has none of the columns that the model was fitted to. The fit had" in capsys.readouterr().err
