"""Drift of new rows, from a stored model and a table or a folder of files."""

import pandas as pd
import pytest
from tests.analysis.conftest import make_patients

from scarless import load, save
from scarless.analysis import Settings, analyse_files, analyse_table, files_drift, predict_table, table_drift
from scarless.analysis.drift import SAMPLE_ROWS
from scarless.diagnostics.drift.detect import NO_REFERENCE
from scarless.raw.reference import ReferenceRows
from scarless.scale import ParquetRows

OPTIONS = {"label": "diagnosed", "propensity_attributes": ["visits", "insurance"], "model": "logistic", "id": "patient"}


def fit(table, **changes):
    settings = Settings.from_dict({**OPTIONS, "exclude": ["known", "weight"], **changes}, source="a test")
    return analyse_table(table, settings).model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return a model that was saved and loaded."""
    place = tmp_path_factory.mktemp("model") / "model.skops"
    save(fit(make_patients(800)), place)
    return load(place)


@pytest.fixture(scope="module")
def new():
    return make_patients(400, seed=7)


def test_the_model_file_holds_no_identifier_label_or_excluded_column(model):
    found = model.reference_
    assert isinstance(found, ReferenceRows)
    names = list(model.feature_names_in_)
    assert {each.name for each in found.named(names)} == set(names)
    assert not {"patient", "diagnosed", "known", "weight"} & set(names)
    assert "P000" not in found.columns
    assert found.labelled == pytest.approx((make_patients(800)["diagnosed"] == "yes").mean())


def test_new_rows_that_are_alike(model, new):
    found = table_drift(model, new)
    assert found.verdict == "fine"
    assert found.n_labelled == (new["diagnosed"] == "yes").sum()
    assert found.labels.time.by == "last_visit"
    assert [each.name for each in found.columns.columns if each.moved] == []
    assert any(each.startswith("Dates are not compared") for each in found.notes)


def test_a_label_column_of_another_name_or_none(model, new):
    renamed = new.rename(columns={"diagnosed": "dx"})
    assert table_drift(model, renamed, label="dx").to_dict() == table_drift(model, new).to_dict()
    assert table_drift(model, renamed).labels is None
    ranked, notes = predict_table(model, renamed, label="dx")
    assert ranked["labelled"].sum() == (new["diagnosed"] == "yes").sum()
    assert notes == []
    with pytest.raises(ValueError, match=r"--label: there is no column 'sick'. The table has 'patient', 'age'"):
        table_drift(model, new, label="sick")
    with pytest.raises(ValueError, match="--label: column 'age' is an attribute of the model"):
        predict_table(model, new, label="age")


def test_a_model_of_looks_has_no_other_label(hospital):
    table, _ = hospital
    looks = ["visit_1", "visit_2", "visit_3"]
    others = {"exclude": ["hours_1", "hours_2", "hours_3", "diagnosed", "checked"]}
    fitted = fit(table.iloc[:1200], label=looks, propensity_attributes=["visits"], **others)
    found = table_drift(fitted, table.iloc[1200:1800])
    labelled = (table.iloc[1200:1800][looks] == "yes").any(axis=1).sum()
    assert found.labels.total.observed == labelled
    assert found.labels.total.low < labelled < found.labels.total.high
    with pytest.raises(ValueError, match="--label: this model was fitted to several looks"):
        table_drift(fitted, table, label="diagnosed")


def test_a_model_file_of_an_earlier_version(model, new):
    earlier = fit(make_patients(500))
    del earlier.reference_
    found = table_drift(earlier, new)
    assert found.columns is None
    assert found.labels is not None
    assert NO_REFERENCE in found.notes


def test_columns_of_another_type(model, new):
    coded = new.assign(insurance=new["insurance"].map({"none": 0, "basic": 1, "full": 2}))
    found = table_drift(model, coded)
    assert (found.verdict, found.columns.wrong_types) == ("unknown", ("insurance",))
    assert any(each.startswith("Column 'insurance' held categories in the fit, but") for each in found.notes)
    with pytest.raises(ValueError, match="Column 'age' held numbers in the fit, but here 400 of 400 cells"):
        table_drift(model, new.assign(age="old"))
    gone = table_drift(model, new.drop(columns="smoker"))
    assert "Column 'smoker' has no values in these rows." in gone.notes
    with pytest.raises(ValueError, match="The table has no rows, so there is nothing to rank"):
        predict_table(model, new.iloc[:0])


def test_weights(new):
    table = make_patients(600)
    fitted = fit(table, sample_weight="weight", exclude=["known"])
    assert table_drift(fitted, new).columns.n_new == 400
    absent = table_drift(fitted, new.drop(columns="weight"))
    assert absent.notes[0].startswith("There is no column 'weight', which held the weights in the fit")
    wrong = table_drift(fitted, new.assign(weight="heavy"))
    assert wrong.notes[0].startswith("Column 'weight' holds values that are not weights")


def test_dates_outside_the_model_are_used(new):
    fitted = fit(make_patients(500), exclude=["known", "weight", "last_visit"])
    assert table_drift(fitted, new).labels.time.by == "last_visit"


def test_known_propensities(new):
    fitted = fit(make_patients(500), propensity_attributes=[], known_propensity="known", exclude=["weight"])
    assert table_drift(fitted, new).labels.total.predicted > 0


def test_folders_of_files(tmp_path, new):
    table = make_patients(700)
    table = table.assign(diagnosed=(table["diagnosed"] == "yes").astype(int))
    for name, rows in (("old", table.iloc[:500]), ("new", table.iloc[500:])):
        (tmp_path / name).mkdir()
        rows.to_parquet(tmp_path / name / "rows.parquet", index=False)
    settings = Settings.from_dict({**OPTIONS, "exclude": ["known", "weight"]}, source="a test")
    fitted = analyse_files(ParquetRows(tmp_path / "old"), settings).model
    assert fitted.reference_.n_rows == 500
    found = files_drift(fitted, ParquetRows(tmp_path / "new"))
    assert found.n_rows == 200
    assert found.n_labelled == table["diagnosed"].iloc[500:].sum()
    (tmp_path / "unlabelled").mkdir()
    table.iloc[500:].drop(columns="diagnosed").to_parquet(tmp_path / "unlabelled" / "rows.parquet", index=False)
    assert files_drift(fitted, ParquetRows(tmp_path / "unlabelled")).labels is None
    assert SAMPLE_ROWS >= 20_000


def test_large_folders_are_sampled(tmp_path, model, new, monkeypatch):
    monkeypatch.setattr("scarless.analysis.drift.SAMPLE_ROWS", 120)
    (tmp_path / "new").mkdir()
    pd.concat([new, new]).to_parquet(tmp_path / "new" / "rows.parquet", index=False)
    found = files_drift(model, ParquetRows(tmp_path / "new"))
    assert found.n_rows == 120
    assert found.notes[0] == "These are 120 of the 800 rows, drawn at random with seed 0."
