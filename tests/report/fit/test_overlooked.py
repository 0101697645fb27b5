"""The section "Who is overlooked?" of the report."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.helpers import fit_quietly

from scarless import NaiveClassifier, SAREMClassifier, TableClassifier
from scarless.cli import main
from scarless.report import model_report


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
