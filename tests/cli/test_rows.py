"""The command line with duplicate rows, sheets of workbooks, visit attributes and groups."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.analysis.conftest import HOURS, LOOKS, make_hospital, make_patients

from scarless.analysis.columns import notes_on_duplicates
from scarless.cli import main
from scarless.outside.table_files import read_table

FIT = ["--label", "diagnosed", "--propensity", "visits", "insurance", "--model", "logistic", "--quiet", "--out", "run"]
FIT += ["--exclude", "known", "weight"]


@pytest.fixture
def patients(empty_folder):
    return make_patients(400)


def test_ranked_rows_keep_their_numbers_and_duplicates_are_reported(patients, capsys):
    twice = pd.concat([patients, patients.iloc[[4, 7]]], ignore_index=True)
    twice.to_csv("twice.csv", index=False)
    assert main(["fit", "twice.csv", *FIT, "--id", "patient"]) == 0
    told = capsys.readouterr().out
    assert (
        "The id 'patient' is not unique: 4 rows share their id with another row (for example 'P00004' in rows 5, 401"
        in told
    )
    assert "2 rows are duplicates of an earlier row in every column (the first is row 401" in told
    ranked = read_table("run/ranked.csv")
    assert list(ranked.columns[:3]) == ["rank", "row", "patient"]
    np.testing.assert_array_equal(twice["patient"].to_numpy()[ranked["row"] - 1], ranked["patient"])
    assert main(["inspect", "twice.csv", "--label", "diagnosed"]) == 0
    assert "2 rows are duplicates of an earlier row" in capsys.readouterr().out


def test_rows_alike_by_chance_and_unique_ids_are_not_reported(patients):
    assert notes_on_duplicates(patients, "patient") == []
    rng = np.random.default_rng(0)
    few = pd.DataFrame({"sex": rng.choice(["f", "m"], 500), "smokes": rng.choice(["yes", "no"], 500)})
    assert notes_on_duplicates(few) == []


def test_a_sheet_can_be_selected_by_name(patients, capsys):
    with pd.ExcelWriter("book.xlsx") as book:
        pd.DataFrame({"note": ["nothing here"]}).to_excel(book, sheet_name="Read me", index=False)
        patients.to_excel(book, sheet_name="Patients", index=False)
    assert main(["inspect", "book.xlsx", "--label", "diagnosed", "--sheet", "patients"]) == 0
    assert capsys.readouterr().out.startswith("400 rows, 9 columns")
    assert main(["fit", "book.xlsx", *FIT, "--sheet", "Patients"]) == 0
    assert main(["predict", "run", "book.xlsx", "--sheet", "Patients", "--out", "ranked.csv"]) == 0
    assert len(read_table("ranked.csv")) == 400
    assert main(["fit", "--config", "run/run.toml", "--force", "--quiet"]) == 0  # run.toml contains the sheet
    capsys.readouterr()
    assert main(["inspect", "book.xlsx", "--label", "diagnosed", "--sheet", "Patient"]) == 1
    assert "this workbook has no sheet 'Patient'; it has 'Read me', 'Patients'" in capsys.readouterr().err
    patients.to_csv("patients.csv", index=False)
    assert main(["inspect", "patients.csv", "--label", "diagnosed", "--sheet", "Patients"]) == 1
    assert "(--sheet) is only for Excel workbooks, but the suffix of this file is .csv" in capsys.readouterr().err
    with pytest.warns(UserWarning, match=r"only the first of 2 sheets, 'Read me', is read. .*sheet='Patients'"):
        assert list(read_table("book.xlsx").columns) == ["note"]


@pytest.mark.parametrize("model", ["logistic", "search"])
def test_visit_attributes_can_be_the_only_propensity_attributes(tmp_path, monkeypatch, capsys, model):
    monkeypatch.chdir(tmp_path)
    make_hospital(800)[0].to_csv("hospital.csv", index=False)
    options = ["--looks", *LOOKS, "--visit-attributes", f"hours={','.join(HOURS)}", "--exclude", "diagnosed", "checked"]
    assert main(["fit", "hospital.csv", *options, "--model", model, "--id", "patient", "--quiet"]) == 0
    assert "Share of positives that got a label at each look: visit_1 " in capsys.readouterr().out


def test_rows_of_one_patient_are_a_group(patients, capsys):
    several = pd.concat([patients] * 3, ignore_index=True)
    several["age"] += np.random.default_rng(0).normal(size=len(several))
    several.to_csv("several.csv", index=False)
    widths = []
    for group in ([], ["--groups", "patient"]):
        assert main(["fit", "several.csv", *FIT, "--id", "patient", "--force", *group]) == 0
        low, high = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))["class_prior_interval"]
        widths.append(high - low)
    assert widths[1] > 1.3 * widths[0]
    assert "--groups patient" in capsys.readouterr().out  # suggested by the first fit
    assert main(["fit", "--config", "run/run.toml", "--force", "--quiet"]) == 0
    low, high = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))["class_prior_interval"]
    assert high - low == pytest.approx(widths[1])
    assert main(["fit", "several.csv", "--label", "diagnosed", "--scar", "--groups", "patient", "--out", "new"]) == 1
    assert (
        "--groups cannot be combined with --scar. Name the columns that drive the labelling" in capsys.readouterr().err
    )
    several["patient"] = several["patient"].where(several.index != 3)
    several.to_csv("gaps.csv", index=False)
    assert main(["fit", "gaps.csv", *FIT, "--groups", "patient", "--force"]) == 1
    assert "Column 'patient' (--groups) has 1 missing value, in row 4" in capsys.readouterr().err


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize(
    "options",
    [
        ["--looks", *LOOKS, "--propensity", "visits", "--not-shared", "--exclude", "diagnosed", "checked", *HOURS],
        ["--label", "diagnosed", "--audit", "checked", "--propensity", "visits", "--exclude", *LOOKS, *HOURS],
        ["--label", "diagnosed", "--audit", "checked", "--scar", "--exclude", *LOOKS, *HOURS],
    ],
    ids=["looks", "audits", "audits and one propensity"],
)
def test_rows_of_one_patient_with_looks_and_audits(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    several = pd.concat([make_hospital(400)[0]] * 3, ignore_index=True)
    several["age"] += np.random.default_rng(0).normal(size=len(several)).round(1)
    several.to_csv("several.csv", index=False)
    widths, said = [], "Rows belong to 400 groups. The intervals allow for dependence within a group"
    for group in ([], ["--groups", "patient"]):
        given = [*options, "--model", "logistic", "--id", "patient", "--out", "run", "--force", "--quiet", *group]
        assert main(["fit", "several.csv", *given]) == 0
        low, high = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))["class_prior_interval"]
        widths.append(high - low)
        assert (said in Path("run/report.html").read_text(encoding="utf-8")) == bool(group)
    assert widths[1] > 1.3 * widths[0]
