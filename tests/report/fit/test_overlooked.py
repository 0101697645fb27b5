"""The section "Who is overlooked?" of the report."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.helpers import fit_quietly

from scarless import NaiveClassifier, SAREMClassifier, TableClassifier
from scarless.analysis.files import analyse_files
from scarless.analysis.settings import Settings
from scarless.cli import main
from scarless.report import model_report
from scarless.report.fit.page import told_apart
from scarless.scale import ParquetRows


@pytest.fixture(scope="module")
def clinics():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"marker": rng.normal(size=1500), "visits": rng.poisson(2, size=1500)})
    table["clinic"] = rng.choice(["city", "rural"], size=1500)
    table["ward"] = [f"ward {i}" for i in rng.integers(40, size=1500)]
    y = rng.random(1500) < expit(2 * table["marker"])
    s = (y & (rng.random(1500) < np.where(table["clinic"] == "city", 0.7, 0.3))).astype(int)
    return table, s


def fitted(table, s):
    return fit_quietly(TableClassifier(SAREMClassifier(propensity_attributes=["clinic"])), table, s)


def test_the_default_columns_are_those_of_the_labelling_and_columns_with_few_categories(clinics):
    table, s = clinics
    report = model_report(fitted(table, s), table, s, n_ranked=0)
    assert [each.column for each in report.overlooked.columns] == ["clinic"]  # 40 wards are too many
    (clinic,) = report.overlooked.columns
    assert [group.name for group in clinic.groups] == ["city", "rural"]
    assert [group.differs for group in clinic.groups] == [True, True]
    assert "of positives have no label where clinic is rural" in clinic.finding
    page = report.to_html()
    assert "Who is overlooked?" in page
    assert clinic.finding in page
    assert json.loads(report.to_json())["overlooked"]["columns"][0]["groups"][1]["name"] == "rural"


def test_by_selects_columns(clinics):
    table, s = clinics
    report = model_report(fitted(table, s), table, s, n_ranked=0, by=["visits", "marker"])
    assert [each.column for each in report.overlooked.columns] == ["visits", "marker"]
    assert any("does not use visits and marker" in note for note in report.overlooked.notes)


def test_a_naive_model_has_no_estimate(clinics):
    table, s = clinics
    model = fit_quietly(NaiveClassifier(), table[["marker", "visits"]], s)
    found = model_report(model, table[["marker", "visits"]], s, n_ranked=0).overlooked
    assert found.columns == ()
    assert "does not estimate which positives have no label" in found.notes[0]


def test_columns_that_cannot_be_compared_are_named_in_a_note(clinics):
    table, s = clinics
    late = pd.Series(np.where(s == 1, "yes", "no"), name="entered")
    places = pd.Series([f"place {k}" for k in np.arange(1500) % 250], name="place")
    found = model_report(fitted(table, s), table, s, n_ranked=0, by=["clinic", late, places]).overlooked
    assert [each.column for each in found.columns] == ["clinic"]
    assert any(note.startswith("Groups are not shown: 'entered' separates labelled from") for note in found.notes)
    assert any(
        note.startswith("Groups are not shown: 'place' has 250 groups of at least 5 rows") for note in found.notes
    )
    none = model_report(fitted(table, s), table, s, n_ranked=0, by=[late]).overlooked
    assert none.columns == ()
    assert len(none.notes) == 1


def test_files_are_grouped_with_all_rows(clinics, tmp_path, monkeypatch):
    monkeypatch.setattr("scarless.analysis.files.SAMPLE_ROWS", 600)
    table, s = clinics
    for k, rows in enumerate(np.array_split(np.arange(1500), 3)):
        table.assign(label=s).iloc[rows].to_parquet(tmp_path / f"{k}.parquet", index=False)
    settings = Settings(label="label", propensity_attributes=["clinic"], model="logistic", by=["clinic", "visits"])
    analysis = analyse_files(ParquetRows(tmp_path), settings)
    found = analysis.report().overlooked
    clinic, visits = found.columns
    assert [group.rows for group in clinic.groups] == table["clinic"].value_counts().sort_index().tolist()
    assert sum(group.labelled for group in visits.groups) == s.sum()
    assert found.notes[0] == "This section is about all 1,500 rows of the files, not only about the sample."
    assert any("Only the section 'Who is overlooked?' is about all rows." in note for note in analysis.notes)


@pytest.mark.parametrize("role", ["label", "audit", "id"], ids=["label", "audit", "id"])
def test_groups_by_the_label_the_audit_or_the_id_are_refused(role):
    settings = Settings(label="label", audit="audit", id="id", by=[role], scar=True)
    with pytest.raises(ValueError, match=rf"Column '{role}' \(--by\) is also the {role} column, so its groups do not"):
        settings.check_columns(["label", "audit", "id", "x"])


def test_the_command_line_selects_columns_and_refuses_unknown_ones(clinics, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, s = clinics
    table.assign(label=s).to_csv("clinics.csv", index=False)
    fit = ["fit", "clinics.csv", "--label", "label", "--propensity", "clinic", "--model", "logistic", "--quiet"]
    assert main([*fit, "--by", "visits", "--out", "run"]) == 0
    assert 'by = ["visits"]' in (tmp_path / "run" / "run.toml").read_text()
    assert "Groups of <bdi>visits</bdi>" in (tmp_path / "run" / "report.html").read_text()
    assert main([*fit, "--by", "ward", "--exclude", "ward", "--out", "wards"]) == 0  # a column that no model uses
    assert "Groups of <bdi>ward</bdi>" in (tmp_path / "wards" / "report.html").read_text()
    capsys.readouterr()
    assert main([*fit, "--by", "hospital", "--out", "other"]) != 0
    assert "hospital" in capsys.readouterr().err


def test_long_names_of_groups_are_told_apart_in_pictures():
    long = "a hospital with a name that is much too long for the margin"
    assert len(set(told_apart([f"{long}, ward {k} of many wards of this hospital" for k in range(40)]))) == 40
    other = [f"{long} {k}" for k in ("north of the river and of the road x", "north of the river and of the road y")]
    assert told_apart([*other, "city"])[0].startswith("1. a hospital")  # The names share no beginning.
    assert told_apart(["city"]) == ["city"]
