"""`model_report`: checks of its arguments, plain data, reproducible output, and the table of columns."""

import json
import math
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.report.fit.conftest import KINDS

from scarless import SAREMClassifier, SCARClassifier, TableClassifier
from scarless.report import FitReport, model_report


def plain(value, where="report"):
    """Return the parts of a report that are not plain data."""
    if is_dataclass(value):
        found = [(getattr(value, field.name), f"{where}.{field.name}") for field in fields(value)]
    elif type(value) is tuple:
        found = [(each, f"{where}[{i}]") for i, each in enumerate(value)]
    else:
        fine = value is None or type(value) in {str, int, bool} or (type(value) is float and math.isfinite(value))
        return [] if fine else [(where, type(value), value)]
    return [bad for each, place in found for bad in plain(each, place)]


def keys_of(value):
    if isinstance(value, dict):
        return {name: keys_of(each) for name, each in value.items() if not isinstance(each, list)}
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_a_report_of_plain_data(kind, reported):
    report = reported(kind)
    assert isinstance(report, FitReport)
    assert plain(report) == []
    assert report.to_html().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("kind", KINDS)
def test_json_has_the_same_keys_for_every_model_and_all_numbers(kind, reported):
    report = reported(kind)
    read = json.loads(report.to_json(), parse_constant=pytest.fail)
    first = json.loads(reported("SAREMClassifier").to_json())
    assert read.keys() == first.keys()
    assert keys_of(read["answer"]) == keys_of(first["answer"])
    assert read["schema"] == 1
    assert read["answer"]["share"]["value"] == report.answer.share.value
    assert [row["position"] for row in read["ranked"]["rows"]] == [row.position for row in report.ranked.rows]
    assert [each["key"] for each in read["checks"]] == [check.key for check in report.checks]


def test_json_has_all_data_of_the_report(reported):
    report = reported("SAREMClassifier")

    def lists(value):
        if is_dataclass(value):
            return {field.name: lists(getattr(value, field.name)) for field in fields(value)}
        return [lists(each) for each in value] if isinstance(value, tuple) else value

    assert json.loads(report.to_json()) == {"schema": 1, **lists(report)}


def test_the_same_seed_gives_the_same_bytes(small, full_reports, monkeypatch):
    monkeypatch.setattr("scarless.diagnostics.scar._learned.TREES_PER_FOREST", 25)
    one, other = (model_report(*small, n_ranked=3, random_state=5) for _ in range(2))
    assert one == other
    assert one.to_json() == other.to_json()
    assert one.to_html() == other.to_html()


def test_the_suffix_determines_the_format_of_a_saved_report(reported, tmp_path):
    report = reported("SCARClassifier")
    assert report.save(tmp_path / "report.html").read_text(encoding="utf-8") == report.to_html()
    assert report.save(str(tmp_path / "report.json")).read_text(encoding="utf-8") == report.to_json()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        report.save(tmp_path / "nowhere" / "report.html")


def test_details_of_the_run(small):
    run = {"file": "patients.csv", "sha256": "ab12", "seed": 3, "command": "scarless fit patients.csv", "title": "Ward"}
    report = model_report(*small, n_ranked=0, run=run, random_state=8)
    facts = {fact.name: fact.value for fact in report.run}
    assert (facts["file"], facts["sha256"], facts["seed"], facts["seed of the report"]) == (
        "patients.csv", "ab12", "3", "8",
    )  # fmt: skip
    assert (report.title, report.command) == ("Ward", "scarless fit patients.csv")
    assert {"scarless", "numpy", "scikit-learn", "Python", "model in Python"} <= set(facts)
    assert "propensity_attributes=['z']" in facts["model in Python"]


def test_progress_is_reported(small):
    told = []
    model_report(*small, n_ranked=0, progress=told.append)
    assert told[0] == "preparing the table for the report"
    assert "checking whether the data determine the number of positives" in told
    assert not [line for line in told if "?" in line]
    assert len(told) == 10


# --- columns


def test_columns_describe_their_encoding_and_use(reported, patients):
    table, _ = patients
    found = {column.name: column for column in reported("SAREMClassifier").columns}
    assert list(found) == list(table)
    assert {name: column.n_missing for name, column in found.items()} == table.isna().sum().to_dict()
    assert {name: column.kind for name, column in found.items()} == {
        "age": "number", "visits": "number", "insurance": "text, few values", "seen": "date", "ward": "text",
        "empty": "number",
    }  # fmt: skip
    assert found["insurance"].became == "0/1 columns for none, basic, full and missing"
    assert found["age"].became.startswith("number, divided by ")
    assert found["age"].became.endswith("; missing values replaced by the median; 0/1 column for missing values")
    assert found["seen"].became == "year, month and day"
    assert {name: column.left_out for name, column in found.items() if column.left_out} == {
        "ward": "constant",
        "empty": "empty",
    }
    assert (found["visits"].used_for, found["age"].used_for) == ("class and labelling", "class")
    assert found["ward"].used_for == "nothing"


def test_tables_of_every_kind(small):
    _, X, s = small
    rows = X.to_numpy()
    expected = None
    for table in (X, rows, pl.from_pandas(X), sparse.csr_array(rows), rows.astype(np.float32), rows.tolist()):
        model = SCARClassifier(0.5).fit(table, s)
        report = model_report(model, table, s, n_ranked=5)
        assert [column.n_missing for column in report.columns] == [0, 0, 0]
        assert [column.kind for column in report.columns] == ["number"] * 3
        positions = [row.position for row in report.ranked.rows]
        expected = positions if expected is None else expected
        assert positions == expected
        assert all(row.reasons for row in report.ranked.rows)


def test_polars_tables_with_text_and_missing_values(patients):
    table, s = patients
    frame = pl.from_pandas(table.drop(columns=["seen", "ward", "empty"]))
    model = TableClassifier(SCARClassifier(0.5)).fit(frame, s)
    report = model_report(model, frame, s, n_ranked=5)
    assert {column.name: column.n_missing for column in report.columns} == {
        "age": 100, "visits": 0, "insurance": table["insurance"].isna().sum(),
    }  # fmt: skip
    assert report.ranked.rows[0].reasons


def test_every_form_of_a_missing_value_counts():
    rng = np.random.default_rng(0)
    wards = np.array([None, np.nan, pd.NA, pd.NaT, *rng.choice(["n", "s", "w"], 396)], dtype=object)
    table = pd.DataFrame({"a": rng.normal(size=400), "ward": pd.Series(wards, dtype=object)})
    s = (rng.random(400) < 0.3 * (table["a"] > 0)) * 1
    model = TableClassifier(SCARClassifier(0.8)).fit(table, s)
    report = model_report(model, table, s, n_ranked=0)
    assert {column.name: column.n_missing for column in report.columns} == {"a": 0, "ward": 4}


# --- invalid arguments


@pytest.mark.parametrize(("label", "word"), [(0, "unlabelled"), (1, "labelled")])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_of_one_label_cannot_be_ranked_if_the_models_may_be_swapped(small, label, word):
    _, X, s = small
    model = SAREMClassifier(propensity_attributes="all").fit(X, s)
    rows = np.flatnonzero(np.asarray(s) == label)[:5]
    with pytest.raises(ValueError, match=f"fitted to X; but all rows of X are {word}. Pass the rows of the fit"):
        model_report(model, X.iloc[rows], np.asarray(s)[rows])


def test_other_models_are_refused(small):
    _, X, s = small
    with pytest.raises(TypeError, match=r"be a fitted TableClassifier, .* or a pipeline .* got LogisticRegression"):
        model_report(LogisticRegression().fit(X, s), X, s)
    with pytest.raises(TypeError, match=r"must end in a classifier of this package.* ends in LogisticRegression"):
        model_report(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, s), X, s)
    with pytest.raises(ValueError, match="not fitted"):
        model_report(SCARClassifier(), X, s)


def test_options_are_checked(small):
    model, X, s = small
    with pytest.raises(ValueError, match="level must"):
        model_report(model, X, s, level=95)
    with pytest.raises(ValueError, match="n_ranked must"):
        model_report(model, X, s, n_ranked=-1)
    with pytest.raises(ValueError, match="row_names must have one name for each of the 700 rows; got 2 names"):
        model_report(model, X, s, row_names=["a", "b"])
    with pytest.raises(ValueError, match="row_names must have one name for each of the 700 rows; got 'abc'"):
        model_report(model, X, s, row_names="abc")
    with pytest.raises(TypeError, match=r"run must be a dict, such as.* got list"):
        model_report(model, X, s, run=[1])
    with pytest.raises(ValueError, match="propensity was passed, but SAREMClassifier predicts its own"):
        model_report(model, X, s, propensity=np.full(700, 0.5))
    with pytest.raises(ValueError, match=r"s .*700"):
        model_report(model, X, s[:-1])


def test_labels_in_another_order_give_a_warning(small):
    model, X, s = small
    turned = pd.Series(s, index=X.index[::-1])
    report = model_report(model, X, turned, n_ranked=0)
    assert any("s is matched to the rows by position" in warning for warning in report.warnings)


def test_a_table_without_rows_is_refused(small):
    model, X, s = small
    with pytest.raises(ValueError, match="X has no rows"):
        model_report(model, X.iloc[:0], s[:0])


def test_sparse_and_dense_tables_have_the_same_effects(small):
    _, X, s = small
    rows = np.where(np.abs(X.to_numpy()) > 1.0, X.to_numpy(), 0.0)
    model = SCARClassifier(0.5).fit(rows, s)
    dense, thin = (model_report(model, table, s, n_ranked=3) for table in (rows, sparse.csr_array(rows)))
    for mine, theirs in zip(dense.effects[0].effects, thin.effects[0].effects, strict=True):
        assert mine.per_sd.value == pytest.approx(theirs.per_sd.value)
    for mine, theirs in zip(dense.ranked.rows, thin.ranked.rows, strict=True):
        assert [reason.column for reason in mine.reasons] == [reason.column for reason in theirs.reasons]


def test_columns_that_were_added_or_removed_after_the_fit_are_reported(fitted, patients):
    table, s = patients
    report = model_report(fitted("SCARClassifier"), table.assign(extra=1), s, n_ranked=2)
    assert report.columns[-1].left_out == "not a column of the fit"
    less = model_report(fitted("SCARClassifier"), table.drop(columns="age"), s, n_ranked=2)
    assert any("'age' of the fit is not in this table" in warning for warning in less.warnings)
