"""`scarless inspect`, `fit`, `predict` and `export`: from a file to a report, and one-line errors."""

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from tests.analysis.conftest import make_patients

from scarless import NaiveClassifier, save
from scarless.analysis.settings import RANKED_COLUMNS
from scarless.cli import main, tables
from scarless.outside.table_files import read_table

FIT = ["fit", "patients.csv", "--label", "diagnosed", "--propensity", "visits", "insurance", "--model", "logistic"]
FIT += ["--exclude", "known", "weight", "--id", "patient"]


@pytest.fixture
def folder(empty_folder):
    make_patients(400).to_csv("patients.csv", index=False)
    return empty_folder


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a folder with a file and the results of a fit. Tests must not write into it."""
    place = tmp_path_factory.mktemp("fitted")
    make_patients(400).to_csv(place / "patients.csv", index=False)
    arguments = [str(place / each) if each == "patients.csv" else each for each in FIT]
    assert main([*arguments, "--out", str(place / "run"), "--quiet"]) == 0
    return place


@pytest.mark.usefixtures("reports")
def test_from_a_file_to_a_report_and_to_next_months_rows(folder, capsys):
    assert main(["inspect", "patients.csv", "--label", "diagnosed"]) == 0
    looked = capsys.readouterr().out
    assert looked.startswith("400 rows, 9 columns;")
    assert main([*FIT, "--out", "run"]) == 0
    told = capsys.readouterr()
    labelled = json.loads((folder / "run" / "summary.json").read_text())["labelled"]
    assert told.out.startswith(f"{labelled} of 400 rows have a label.\nWe estimate that about ")
    assert "\nIf you can check 50 rows, expect " in told.out
    assert "Report: run/report.html" in told.out
    assert "Fitting both models (" in told.err
    assert {path.name for path in (folder / "run").iterdir()} == {
        "model.skops", "ranked.csv", "report.html", "run.toml", "summary.json"
    }  # fmt: skip
    assert main(["predict", "run/model.skops", "patients.csv", "--out", "next.parquet"]) == 0
    assert capsys.readouterr().out.startswith("Ranked 400 rows: next.parquet\nIs the model still right? ")
    one, other = read_table("run/ranked.csv"), read_table("next.parquet")
    pd.testing.assert_frame_equal(one, other, check_dtype=False)
    assert main(["predict", "run", "patients.csv", "--out", "next.parquet"]) == 1
    assert "next.parquet exists. Choose another" in capsys.readouterr().err
    before = Path("patients.csv").read_bytes()
    assert main(["predict", "run", "patients.csv", "--out", "patients.csv", "--force"]) == 1
    assert "patients.csv is an input of this command. Choose another name (--out)." in capsys.readouterr().err
    assert Path("patients.csv").read_bytes() == before
    assert main(["predict", "run", "patients.csv", "--out", "next.parquet", "--force"]) == 0


def test_run_toml_repeats_a_fit_and_options_take_precedence(folder, fitted, capsys):
    run = fitted / "run"
    assert main(["fit", "--config", str(run / "run.toml"), "--out", "again", "--quiet"]) == 0
    assert (run / "ranked.csv").read_bytes() == (folder / "again" / "ranked.csv").read_bytes()
    assert (run / "run.toml").read_bytes() == (folder / "again" / "run.toml").read_bytes()
    assert capsys.readouterr().err == ""
    assert main(["fit", "--config", str(run / "run.toml"), "--out", "scar", "--scar", "--quiet"]) == 0
    facts = json.loads((folder / "scar" / "summary.json").read_text())
    assert facts["model"] == "SCARClassifier"
    assert "propensity_attributes" not in facts["settings"]


@pytest.mark.usefixtures("reports")
def test_a_stopped_fit_writes_nothing(folder, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("scarless.report.fit.build.report_on", stop)
    assert main([*FIT, "--out", "run", "--quiet"]) == 130
    assert capsys.readouterr().err == "\nStopped. Nothing was written.\n"
    assert [path.name for path in folder.iterdir()] == ["patients.csv"]


@pytest.mark.parametrize("name", ["patients.csv.gz", "patients.tsv", "patients.parquet", "patients.feather"])
def test_all_file_formats_can_be_read(folder, name, capsys):
    table = make_patients(400)
    if name.endswith(".gz"):
        with gzip.open(name, "wt") as file:
            table.to_csv(file, index=False)
    elif name.endswith("tsv"):
        table.to_csv(name, sep="\t", index=False)
    else:
        getattr(table, f"to_{name.split('.')[1]}")(name)
    assert main(["inspect", name, "--label", "diagnosed"]) == 0
    assert capsys.readouterr().out.startswith("400 rows, 9 columns;")


def changed(**columns):
    return lambda: make_patients(60).assign(**columns).to_csv("patients.csv", index=False)


def text(content, encoding="utf-8"):
    def write():
        with open("patients.csv", "wb") as file:
            file.write(content.encode(encoding))

    return write


ROWS = "age,visits,diagnosed\n" + "".join(f"{i},{i % 3},{'yes' if i % 4 == 0 else ''}\n" for i in range(40))
SHORT = ["fit", "patients.csv", "--label", "diagnosed", "--propensity", "visits", "--model", "logistic"]
HOSTILE = {
    "no such file": (["fit", "patient.csv", "--label", "diagnosed", "--scar"], None, r"patient\.csv.*patients\.csv"),
    "a folder": (["fit", ".", "--label", "diagnosed", "--scar"], None, r"folder"),
    "empty file": (SHORT, text(""), "empty"),
    "header only": (SHORT, text("age,visits,diagnosed\n"), "no rows"),
    "too many cells": (SHORT, text(ROWS + "1,2,yes,4\n"), r"line 42 has 4 cells, but the header has 3"),
    "too few cells": (SHORT, text(ROWS + "1,2\n"), r"line 42 has 2 cells, but the header has 3"),
    "wrong encoding": (SHORT, text(ROWS.replace("0,0,yes", "0,0,oui é"), "latin-1"), "latin-1"),
    "duplicate names": (SHORT, text(ROWS.replace("age,visits", "age,age")), "'age'"),
    "no label": (["fit", "patients.csv", "--scar"], None, "No label column is given. Name it with --label COLUMN"),
    "no propensity": (["fit", "patients.csv", "--label", "diagnosed"], None, "No columns are named that drive the"),
    "missing label": ([*SHORT[:3], "diagnosis", *SHORT[4:]], None, "no column 'diagnosis'.*Did you mean 'diagnosed'"),
    "missing column": ([*SHORT[:5], "insurence"], None, "no column 'insurence'.*Did you mean 'insurance'"),
    "one value": (SHORT, changed(diagnosed="yes"), "Every row is labelled"),
    "no labels": (SHORT, changed(diagnosed=None), "The label column 'diagnosed' is empty"),
    "three values": (SHORT, changed(diagnosed=["a", "b", "c"] * 20), "has 3 values, and it is not clear which"),
    "versions": (
        SHORT, changed(build=["1.2.10", "1.3.11", "2.4.10", "3.1.12"] * 15),
        r"Does column 'build' hold dates\? .* such as '1\.2\.10', .* Otherwise use --text build",
    ),
    "euros": (
        SHORT, changed(price=[f"€{k},{389 + k}" for k in range(1, 61)]),
        r"Does the comma in column 'price' separate thousands or decimals\? .* row 1 '€1,390', .* use --text price",
    ),
    "euros behind": (
        SHORT, changed(price=[f"{k},{389 + k} EUR" for k in range(1, 61)]), r"Does the comma in column 'price' separate"
    ),
    "a leak": (SHORT, changed(code=lambda t: t["diagnosed"].notna() * 1.5), r"'code' leaks the label.*--exclude code"),
    "a constant": ([*SHORT[:5], "same"], changed(same=1), "the preparation dropped: 'same'"),
    "text weights": ([*SHORT, "--sample-weight", "smoker"], None, r"'smoker' \(--sample-weight\) must hold numbers"),
    "the label as propensity": ([*SHORT[:5], "diagnosed"], None, r"is also the label column \(--label"),
    "two ways": ([*SHORT, "--scar"], None, "--propensity and --scar cannot be combined"),
    "a config that is none": (["fit", "--config", "patients.csv"], None, "is not a TOML file"),
    "no file at all": (["fit", "--label", "a", "--scar"], None, "No input file is given"),
    "an unknown kind": (["fit", "p.docx", "--label", "a", "--scar"], lambda: Path("p.docx").touch(), "docx"),
    "a Parquet file that is none": (
        ["fit", "p.parquet", "--label", "a", "--scar"],
        lambda: Path("p.parquet").write_bytes(ROWS.encode()),
        r"p\.parquet",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_wrong_input_is_a_one_line_error_and_writes_nothing(folder, name, capsys):
    arguments, prepare, message = HOSTILE[name]
    if prepare is not None:
        prepare()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main([*arguments, "--out", "run", "--quiet"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("scarless: ")
    assert re.search(message, line), line
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert not (folder / "run").exists()


def test_results_are_not_overwritten_without_force(fitted, capsys, monkeypatch):
    monkeypatch.chdir(fitted)
    assert main([*FIT, "--out", "run"]) == 1
    assert capsys.readouterr().err == (
        "scarless: run exists. Choose another folder (--out), or replace it with --force.\n"
    )


def stranger(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("schema.json", '{"__class__": "system", "__module__": "os"}')


@pytest.mark.parametrize("write", [stranger, lambda path: path.write_text("no model")])
def test_an_untrusted_model_file_is_refused(fitted, tmp_path, write, capsys):
    path = tmp_path / "model.skops"
    write(path)
    assert main(["predict", str(path), str(fitted / "patients.csv"), "--out", str(tmp_path / "out.csv")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "model.skops" in line
    assert not (tmp_path / "out.csv").exists()


def test_predict_reports_new_and_missing_columns(fitted, tmp_path, capsys):
    new = make_patients(30).drop(columns=["age"]).assign(insurance="gold")
    new.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(fitted / "run"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    told = capsys.readouterr().out
    assert "Note: Column 'insurance' has 1 category that was not in the fit ('gold')" in told
    assert "Note: Column 'age' of the fit is not in this table. Its values are treated as missing." in told
    assert len(read_table(tmp_path / "out.csv")) == 30


def test_another_model_and_another_label_value(folder):
    table = make_patients(400).drop(columns=["known", "weight", "patient"])
    table["diagnosed"] = np.where(table["diagnosed"].notna(), "E11", "other")
    table.to_csv("patients.csv", index=False)
    arguments = ["fit", "patients.csv", "--label", "diagnosed", "--pos-label", "E11", "--propensity", "visits"]
    assert main([*arguments, "--model", "search", "--out", "run", "--ranked", "ranked.parquet", "--quiet"]) == 0
    ranked = read_table("run/ranked.parquet")
    assert ranked["labelled"].sum() == (table["diagnosed"] == "E11").sum()


def test_the_help_lists_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "130 stopped" in capsys.readouterr().out


def test_a_stored_model_is_exported_completely_or_not_at_all(fitted, tmp_path, capsys, monkeypatch):
    onnx = pytest.importorskip("onnx", reason="onnx is an extra")
    monkeypatch.chdir(tmp_path)
    model = str(fitted / "run" / "model.skops")
    assert main(["export", model, "--out", "model.onnx"]) == 0
    assert capsys.readouterr().out.startswith(
        "ONNX graph: model.onnx. The metadata `scarless`, and the doc string of each input, describe"
    )
    asked = [each.name for each in onnx.load("model.onnx").graph.input]
    assert asked == ["age", "visits", "insurance", "smoker", "last_visit"]
    written = Path("model.onnx").read_bytes()
    assert main(["export", model, "--out", "model.onnx"]) == 1
    assert "model.onnx exists. Choose another name (--out), or replace" in capsys.readouterr().err
    assert main(["export", str(fitted / "run"), "--out", "model.onnx", "--force"]) == 0
    assert Path("model.onnx").read_bytes() == written
    assert main(["export", model, "--out", "model.bin"]) == 1
    assert "path must end in .onnx; got 'model.bin'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_a_model_that_cannot_be_an_onnx_graph_is_refused(tmp_path, capsys):
    pytest.importorskip("onnx", reason="onnx is an extra")
    rng = np.random.default_rng(0)
    model = NaiveClassifier(GaussianNB()).fit(rng.normal(size=(50, 2)), rng.integers(0, 2, 50))
    save(model, tmp_path / "model.skops")
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "model.onnx")]) == 1
    told = capsys.readouterr().err
    assert told.startswith("scarless: NaiveClassifier with estimator=GaussianNB cannot be written as ONNX")
    assert not (tmp_path / "model.onnx").exists()


def test_without_onnx_an_export_names_the_extras(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "model.onnx")]) == 2
    assert (
        capsys.readouterr().err
        == 'scarless: this command needs onnx. Install it with pip install "scarless[tool,onnx]".\n'
    )


@pytest.mark.usefixtures("reports")
def test_leaking_columns_are_listed_and_never_suggested(folder, capsys):
    rng = np.random.default_rng(0)
    table = make_patients(800).drop(columns=["known", "weight"])
    labelled = table["diagnosed"].notna().to_numpy()
    table["treatment date"] = table["last_visit"].where(labelled & (rng.random(800) < 0.97))
    table["score"] = np.where(labelled, 4.0, 0.0) + rng.normal(size=800)
    table.to_csv("patients.csv", index=False)
    assert main(["inspect", "patients.csv", "--label", "diagnosed"]) == 0
    told = capsys.readouterr().out
    assert "leave them out of the fit: --exclude 'treatment date' score." in told
    assert "almost certainly leaks the label: it is filled in" in told
    assert "may leak the label: this column alone ranks labelled before unlabelled rows with an AUC of 0.9" in told
    for suggested in re.findall(r"--propensity ([^;.]*)", told):
        assert "treatment" not in suggested
        assert "score" not in suggested
    arguments = ["--propensity", "visits", "insurance", "--model", "logistic", "--id", "patient", "--quiet"]
    assert main(["fit", "patients.csv", "--label", "diagnosed", *arguments, "--out", "run"]) == 0
    told = capsys.readouterr().out
    assert "Note: Column 'treatment date' almost certainly leaks the label" in told
    assert "Note: Column 'score' may leak the label" in told
    assert "Column score may leak the label" in Path("run/report.html").read_text(encoding="utf-8")


@pytest.fixture
def leaking(folder):
    """Write a table with a column that ranks labels with an AUC of .99. It is kept, and the fit repeats the labels."""
    table = make_patients(800)[["age", "visits", "smoker", "diagnosed"]]
    rng = np.random.default_rng(0)
    table["dose"] = np.where(table["diagnosed"] == "yes", 3.5, 0.0) + rng.normal(size=800)
    table.to_csv("patients.csv", index=False)
    return ["fit", "patients.csv", "--label", "diagnosed", "--propensity", "visits", "--quiet"]


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize("model", ["search", "logistic"])
def test_no_number_of_positives_is_shown_if_the_fit_cannot_estimate_it(leaking, capsys, model):
    assert main([*leaking, "--model", model, "--out", "run"]) == 0
    told, facts = capsys.readouterr().out, json.loads(Path("run/summary.json").read_text(encoding="utf-8"))
    assert facts["label_frequency"] > 0.99
    assert "This fit cannot estimate how many rows without a label are positive, because according to it every " in told
    assert "We estimate" not in told
    assert "have no label" not in told
    assert "\nThis fit cannot estimate how many of the 50 rows that rank highest are positive.\n" in told
    assert facts["positives"] is facts["missing_positives"] is facts["class_prior_interval"] is None
    assert facts["doubt"].startswith("this fit cannot estimate how many rows without a label are positive")
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "have a label. This fit cannot estimate how many rows without a label are positive" in page
    for gone in (
        "no label is missing",
        "We estimate",
        ">fine<",
        "wrong by a factor of up to 2",
        "if the model&#39;s odds that a positive gets a label",
    ):
        assert gone not in page
    assert "Whether a positive gets a label depends" not in page
    assert not re.search(
        r"profile_class_prior|classification_attributes|SAREMClassifier(CV)? finds|within\(", page + told
    )


@pytest.mark.usefixtures("reports")
def test_terminal_and_page_say_the_same_of_the_first_rows_if_no_number_can_be_estimated(folder, capsys, monkeypatch):
    """A label frequency of 0.995 gave no number on the terminal, and "expect 0 positives" in the report."""
    monkeypatch.setattr("scarless.diagnostics.fit.subject.is_uninformative", lambda *_: True)
    make_patients(600).to_csv("patients.csv", index=False)
    assert main([*FIT[:4], "--scar", "--exclude", "known", "weight", "--out", "run", "--quiet"]) == 0
    said = "This fit cannot estimate how many of the 50 rows that rank highest are positive."
    assert f"\n{said}\n" in capsys.readouterr().out
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert said in page
    assert "If you can check 50" not in page


@pytest.mark.usefixtures("reports")
def test_a_kept_leaking_column_adds_a_reservation_to_the_number(folder, capsys):
    table = make_patients(1200)[["age", "visits", "smoker", "diagnosed", "insurance"]]
    rng = np.random.default_rng(1)
    table["dose"] = np.where(table["diagnosed"] == "yes", 2.6, 0.0) + rng.normal(size=1200)
    table.to_csv("patients.csv", index=False)
    arguments = ["--propensity", "visits", "insurance", "--model", "search", "--quiet", "--out", "run"]
    assert main(["fit", "patients.csv", "--label", "diagnosed", *arguments]) == 0
    told, page = capsys.readouterr().out, Path("run/report.html").read_text(encoding="utf-8")
    assert json.loads(Path("run/summary.json").read_text(encoding="utf-8"))["label_frequency"] < 0.99
    for said in (told, page):
        doubt = r" This estimate is not reliable(, least of all)? if dose is recorded because of the label\."
        assert re.search(doubt, said)
    assert ">fine<" not in page
    assert "This check cannot detect whether dose is recorded because of the label." in page


@pytest.mark.usefixtures("reports")
def test_a_clean_fit_has_no_reservation(empty_folder, capsys):
    make_patients(3000).to_csv("patients.csv", index=False)  # with 400 rows, the interval is too wide to rely on
    arguments = ["--label", "diagnosed", "--propensity", "visits", "insurance", "--quiet", "--out", "run"]
    assert main(["fit", "patients.csv", "--model", "search", *arguments]) == 0
    told, page = capsys.readouterr().out, Path("run/report.html").read_text(encoding="utf-8")
    rows = r"about [\d,]+ rows \(\d+%; 95% interval \d+ to \d+%\) are positive"
    assert re.search(rf"We estimate that {rows}, so about \d+ positives have no label\.\n", told)
    for said in (told, page):
        assert "not reliable" not in said
        assert "does not tell" not in said
        assert "like an ID. It is used" not in said
    assert page.count(">kind of model<") == 1
    assert "too short" not in page


@pytest.mark.usefixtures("reports")
def test_terminal_and_page_use_the_same_weights(folder, capsys):
    table = make_patients(800)
    table["weight"] = np.where(table["diagnosed"] == "yes", 3, 1)  # so that unweighted counts would be wrong
    table.to_csv("patients.csv", index=False)
    arguments = ["--label", "diagnosed", "--propensity", "visits", "insurance", "--sample-weight", "weight", "--quiet"]
    assert main(["fit", "patients.csv", *arguments, "--model", "logistic", "--exclude", "known", "--out", "run"]) == 0
    told, facts = capsys.readouterr().out, json.loads(Path("run/summary.json").read_text(encoding="utf-8"))
    labelled = int((table["diagnosed"] == "yes").sum())
    total = 800 + 2 * labelled
    sums = f"{3 * labelled:,} of {total:,}"
    assert f"{labelled} of 800 rows have a label. Weighted by 'weight', these are {sums}. Estimated numbers of" in told
    assert facts["positives"] == pytest.approx(facts["class_prior"] * total)
    assert facts["missing_positives"] == pytest.approx(facts["positives"] - 3 * labelled)
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert f"{3 * labelled:,} of {total:,} rows (counted by their weights) have a label. We estimate" in page
    estimate = re.search(r"We estimate that about [\d,]+ rows", told)[0]
    assert estimate in page


@pytest.mark.usefixtures("reports")
def test_a_named_column_that_is_like_an_id_is_kept_with_a_note(folder, capsys):
    table = make_patients(400)
    table["patient_nr"] = np.random.default_rng(0).permutation(400) + 1000
    table.to_csv("patients.csv", index=False)
    arguments = ["--label", "diagnosed", "--model", "logistic", "--id", "patient", "--quiet", "--out", "run"]
    assert main(["fit", "patients.csv", *arguments, "--propensity", "visits", "patient_nr"]) == 0
    said = (
        "Column 'patient_nr' has a different value in every row, like an ID. It is used because --propensity names it."
    )
    assert f"Note: {said}" in capsys.readouterr().out
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "like an ID. It is used because --propensity names it." in page


@pytest.mark.usefixtures("reports")
def test_warnings_of_reading_a_file_are_notes(folder, capsys):
    make_patients(400).to_csv("patients.csv")  # with the index as a column without a name
    said = (
        "patients.csv is read without column 1. A column without a name is left out if it has only row numbers or no "
        "values."
    )
    assert main(["inspect", "patients.csv", "--label", "diagnosed"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].startswith(said)
    arguments = ["--label", "diagnosed", "--model", "logistic", "--propensity", "visits", "--quiet", "--out", "run"]
    assert main(["fit", "patients.csv", *arguments]) == 0
    told = capsys.readouterr()
    assert f"Note: {said}" in told.out
    assert said in Path("run/report.html").read_text(encoding="utf-8")
    assert main(["predict", "run", "patients.csv", "--out", "next.csv"]) == 0
    again = capsys.readouterr()
    assert f"Note: {said}" in again.out
    assert "UserWarning" not in shown.err + told.err + again.err


def test_other_warnings_are_notes_without_lines_of_python(folder, capsys, monkeypatch):
    def command(options):
        warnings.warn("SAREMClassifierCV: rows are few.", UserWarning, stacklevel=1)
        return 0

    monkeypatch.setattr("scarless.cli.tables.inspect", command)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["inspect", "patients.csv", "--label", "diagnosed"]) == 0
    assert capsys.readouterr().err == "Note: Rows are few.\n"


@pytest.mark.usefixtures("reports")
def test_all_columns_for_both_models_give_an_unreliable_number(folder, capsys):
    make_patients(400)[["age", "visits", "smoker", "diagnosed"]].to_csv("patients.csv", index=False)
    arguments = ["--label", "diagnosed", "--propensity", "all", "--model", "logistic", "--quiet"]
    assert main(["fit", "patients.csv", *arguments, "--out", "run"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"We estimate .* This estimate is not reliable\.", told)
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert re.search(r"We estimate .* This estimate is not reliable\.", page)
    assert "named columns" not in page
    assert "contained the true share" not in page
    assert page.count("but the labels do not show whether the columns affect the class or the labelling.") == 2
    assert "this may be due to chance" not in page
    assert "the rows are ranked by their probability of having a label, not by their probability" in told
    assert list(read_table("run/ranked.csv").columns) == ["rank", "row", "labelled", "label_probability"]
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "No other candidate fits as well as the chosen model.</" not in page
    assert main(["predict", "run", "patients.csv", "--out", "next.csv"]) == 0
    assert "labels alone cannot determine which of the two models is the class model" in capsys.readouterr().out
    ranked, again = read_table("run/ranked.csv"), read_table("next.csv")
    assert list(again.columns) == list(ranked.columns)
    assert again["row"].tolist() == ranked["row"].tolist()


def test_ranked_rows_are_written_to_the_folder_of_results(folder, capsys):
    assert main([*FIT, "--out", "run", "--ranked", "../elsewhere.csv"]) == 1
    assert "--ranked must be a file name without a folder; got '../elsewhere.csv'" in capsys.readouterr().err


def test_the_label_column_cannot_be_the_group(folder, capsys):
    assert main([*FIT, "--out", "run", "--groups", "diagnosed"]) == 1
    assert "Column 'diagnosed' (--groups) is also the label column." in capsys.readouterr().err


def test_unwritable_folders_are_refused_before_the_file_is_read(fitted, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for arguments in (
        ["fit", "missing.csv", "--label", "s", "--propensity", "v", "--out", str(tmp_path / "run")],
        ["predict", str(fitted / "run"), "missing.csv", "--out", str(tmp_path / "next.csv")],
        ["export", str(fitted / "run"), "--out", str(tmp_path / "model.onnx")],
    ):
        assert main(arguments) == 1
        told = capsys.readouterr().err
        assert "you have no permission to write to the folder" in told
        assert "Traceback" not in told


def test_suggested_commands_can_be_pasted_into_a_shell(folder, capsys):
    assert main([*FIT, "--out", "May; echo 'x'", "--quiet"]) == 0
    command = re.search("To repeat this analysis: (.*)", capsys.readouterr().out)[1]
    assert shlex.split(command) == ["scarless", "fit", "--config", "May; echo 'x'/run.toml"]


def test_python_m_scarless_is_the_command_line():
    shown = subprocess.run([sys.executable, "-m", "scarless", "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("usage: scarless")


def test_a_stage_that_takes_long_is_named_while_it_runs(capsys, monkeypatch):
    monkeypatch.setattr(tables, "SECONDS_BEFORE_NOTICE", 0.01)
    screen = tables.Stages(quiet=False)
    screen("fitting both models")
    screen._timer.join(10)
    assert capsys.readouterr().err == "Fitting both models ...\n"
    screen.end()
    assert capsys.readouterr().err.startswith("Fitting both models (")
    quiet = tables.Stages(quiet=True)
    quiet("fitting both models")
    assert quiet._timer is None


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "p.csv", "--label", "s", "--audit", ""],
        ["fit", "p.csv", "--label", ""],
        ["fit", "p.csv", "--label", "s", "--exclude", "a", " "],
        ["fit", "p.csv", "--looks", "one", ""],
        ["predict", "run", "p.csv", "--out", "ranked.csv", "--label", ""],
        ["audit", "run", "--out", "sheet.csv", "--strata", ""],
    ],
)
def test_an_empty_name_of_a_column_is_refused(words, capsys):
    """A variable of the shell that is not set gives an empty name, which must not mean that the option is left out."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "the name of the column is empty; name a column, or leave out the option" in capsys.readouterr().err


ODD_NAMES = ["self", "index", "probability", "posterior", "row", "rank", "labelled", "x" * 200]


@pytest.mark.usefixtures("empty_folder")
def test_columns_may_have_names_that_python_pandas_or_outputs_use():
    table = make_patients(300)
    visits, noise = table["visits"].to_numpy(), np.random.default_rng(0).normal(size=(300, len(ODD_NAMES)))
    table = table[["patient", "age", "diagnosed"]].assign(visits=visits)
    for name, column in zip(ODD_NAMES, noise.T, strict=True):
        table[name] = column.round(3)
    table = table.rename(columns={"age": "class", "visits": "self", "self": "frame"})
    table.to_csv("odd.csv", index=False)
    assert main(["inspect", "odd.csv", "--label", "diagnosed"]) == 0
    fit = ["fit", "odd.csv", "--label", "diagnosed", "--propensity", "self", "index", "--model", "logistic"]
    assert main([*fit, "--id", "patient", "--out", "run", "--quiet"]) == 0
    assert sorted(read_table("run/ranked.csv")["patient"]) == sorted(table["patient"])
    assert main(["predict", "run", "odd.csv", "--out", "next.csv"]) == 0
    assert main(["audit", "run", "--n", "9", "--out", "sheet.csv"]) == 0
    assert list(read_table("sheet.csv").columns)[:2] == ["patient", "checked"]


def test_an_id_that_the_ranked_rows_would_overwrite_is_refused(folder, fitted, capsys):
    assert {*read_table(fitted / "run" / "ranked.csv").columns} <= {*RANKED_COLUMNS, "patient"}
    for name in ("probability", "row", "posterior_low"):
        make_patients(60).rename(columns={"patient": name}).to_csv("patients.csv", index=False)
        assert main([*FIT[:-1], name, "--out", "run"]) == 1
        assert capsys.readouterr().err.endswith(
            f"scarless: Column {name!r} (--id) has the name of a column of the ranked rows, so its values would be "
            f"lost. Rename it in the table, for example to '{name}_id'.\n"
        )
    assert not (folder / "run").exists()


def test_a_file_behind_an_option_with_several_names_is_refused_with_the_right_order(folder, capsys):
    assert main(["fit", "--label", "diagnosed", "--propensity", "visits", "patients.csv"]) == 1
    assert capsys.readouterr().err == (
        "scarless: patients.csv is a file, but it was read as a value of --propensity, which takes several. Write the "
        "file before the options: scarless fit patients.csv --propensity ...\n"
    )
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    assert capsys.readouterr().out.startswith("usage: scarless fit FILE --label COLUMN --propensity COLUMN")


def test_a_stack_needs_no_names_and_is_not_called_two_models_that_may_be_swapped(folder, capsys):
    make_patients(300)[["age", "visits", "diagnosed"]].to_csv("patients.csv", index=False)
    assert main(["fit", "patients.csv", "--label", "diagnosed", "--model", "stack", "--out", "run", "--quiet"]) == 0
    assert 'propensity_attributes = ["all"]' in (folder / "run" / "run.toml").read_text()
    assert main(["predict", "run", "patients.csv", "--out", "next.csv"]) == 0
    assert "Both models use all columns" not in capsys.readouterr().out


def test_all_columns_for_both_models_have_one_statement_about_swapping(folder, capsys):
    make_patients(600).drop(columns=["known", "weight"]).to_csv("patients.csv", index=False)
    assert main([*FIT[:4], "--propensity", "all", "--model", "search", "--out", "run", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert told.count("models may therefore be swapped") == 1
    assert "probably swapped" not in told


def test_new_rows_may_mark_labels_with_another_value(folder, fitted, capsys):
    table = make_patients(400)
    table["diagnosed"] = np.where(table["diagnosed"].notna(), "found", "open")
    table.to_csv("next_month.csv", index=False)
    run = str(fitted / "run")
    assert main(["predict", run, "next_month.csv", "--out", "one.csv"]) == 0
    assert "If another value marks a label in these rows, use --pos-label VALUE" in capsys.readouterr().out
    assert main(["predict", run, "next_month.csv", "--out", "next.csv", "--pos-label", "found"]) == 0
    pd.testing.assert_frame_equal(read_table("next.csv"), read_table(fitted / "run" / "ranked.csv"))
    assert main(["predict", run, "next_month.csv", "--out", "two.csv", "--pos-label", "fond"]) == 1
    assert "has the value 'fond'. Use one of these values: 'open', 'found'." in capsys.readouterr().err
