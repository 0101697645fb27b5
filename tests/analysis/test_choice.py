"""`--model auto`: which model is fitted, the line that says so, and the logistic models beside a stack."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.analysis.conftest import make_patients

from scarless import ClassPrior, SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.analysis import ColumnRoles, analyse, choice
from scarless.analysis.choice import ModelChoice, choose_model, choose_model_of_files, make_estimator
from scarless.analysis.settings import Settings
from scarless.cli import main
from scarless.report.fit.parts import EFFECTS_OF_PAIR, REASONS_OF_PAIR

COLUMNS = ColumnRoles(exclude=["patient", "weight", "known"])
NAMED = {"propensity_attributes": ["visits", "insurance"], "columns": COLUMNS}
FLAGS = ["--label", "diagnosed", "--exclude", "weight", "known", "--id", "patient", "--quiet", "--out", "run"]


@pytest.fixture(scope="module")
def table():
    return make_patients(600, seed=1)


@pytest.fixture(scope="module")
def found(table):
    return analyse(table, "diagnosed", **NAMED)


def test_a_small_table_gets_a_stack_whose_estimates_are_reported(found):
    assert isinstance(found.model.estimator_, SARStackingClassifier)
    assert found.choice._replace(seconds=0.0) == ModelChoice("stack", "", pair_beside=True)
    assert found.used.startswith("a stack of logistic models (")
    report = found.report()
    assert report.used == found.used == found.summary()["used"]
    assert f"Model: {found.used}" in report.to_html()
    assert report.answer.share.value == found.model.class_prior_
    by_stack = found.ranked().set_index("row")["posterior"]
    for row in report.ranked.rows:
        assert row.probability.value == by_stack[row.position + 1]


def test_effects_and_reasons_are_those_of_logistic_models_on_the_same_columns(found, table):
    alone = analyse(table, "diagnosed", model="logistic", **NAMED)
    np.testing.assert_allclose(found.pair.estimator_.coef_, alone.model.estimator_.coef_, rtol=1e-6)
    report, by_hand = found.report(), alone.report()
    for part, expected in zip(report.effects, by_hand.effects, strict=True):
        assert [each.column for each in part.effects] == [each.column for each in expected.effects] != []
        for one, other in zip(part.effects, expected.effects, strict=True):
            assert one.per_sd.value == pytest.approx(other.per_sd.value, rel=1e-6)
        assert part.notes == (EFFECTS_OF_PAIR, *expected.notes)
    assert any(note.startswith(REASONS_OF_PAIR) for note in report.ranked.notes)
    row = report.ranked.rows[0]
    (first, *_) = row.reasons
    explained = alone.model.explain(table.drop(columns=["diagnosed"]).iloc[[row.position]], n_reasons=None)
    expected = explained.set_index("column")["contribution"][first.column]
    assert first.contribution == pytest.approx(expected, rel=1e-6)


def test_beyond_the_time_the_search_is_fitted_and_the_line_says_why(table, monkeypatch):
    monkeypatch.setattr(choice, "SECONDS_OF_AUTO", 0.0)
    found = analyse(table, "diagnosed", **NAMED)
    assert isinstance(found.model.estimator_, SAREMClassifierCV)
    assert found.pair is None
    n_columns = found.subject.prepared.shape[1]
    assert found.used == (
        "logistic models with penalties chosen by cross-validation, because a stack of 600 rows and "
        f"{n_columns} columns would take more than a minute; --model stack fits it anyway."
    )
    assert found.report().effects[0].notes[0] != EFFECTS_OF_PAIR


@pytest.mark.parametrize("is_linear", [True, False])
def test_a_search_says_if_boosting_ranks_labels_clearly_better(monkeypatch, is_linear):
    monkeypatch.setattr(choice, "SECONDS_OF_AUTO", 0.0)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(3000, 4)), columns=["a", "b", "c", "effort"])
    u = 2.0 * table["a"] if is_linear else 3.0 * table["a"] * table["b"]
    labelled = (rng.random(3000) < expit(u)) & (rng.random(3000) < expit(table["effort"]))
    found = analyse(table.assign(label=labelled.astype(int)), "label", propensity_attributes=["effort"])
    said = [note for note in found.notes if note.startswith("Gradient boosting ranks held-out labels better")]
    assert len(said) == (0 if is_linear else 1)


SIZES = {
    "small": (1_470, 30, "stack"),
    "long": (50_000, 30, "stack"),
    "longer": (581_012, 54, "search"),
    "wide": (1_000, 1_500, "trees"),
    "wide, and the search takes longer": (3_279, 1_558, "trees"),
    "wide, and a forest takes several minutes more": (8_190, 1_502, "boosted"),
}


@pytest.mark.parametrize("name", SIZES)
def test_the_size_of_the_table_determines_the_model(name):
    n_rows, n_columns, model = SIZES[name]
    assert choose_model(Settings("s", ("a",)), n_rows, n_columns).model == model


def test_more_work_for_each_row_lowers_the_limit():
    size = (60_000, 30)
    assert choose_model(Settings("s", ("a",)), *size).model == "stack"
    assert choose_model(Settings("s", ("all",)), *size).model == "search"
    assert choose_model(Settings("s", ("a",), audit="checked"), *size).model == "search"


def test_a_wide_table_gets_a_stack_without_logistic_members():
    made = make_estimator(Settings("s", ("a",)), "trees")
    assert [name for name, _ in made.estimators] == ["boosting", "forest"]


@pytest.mark.parametrize("model", ["search", "logistic", "boosted", "stack"])
def test_a_given_model_is_used_for_every_size(model):
    settings = Settings("s", ("a",), model=model)
    small, large = (choose_model(settings, *size) for size in ((1_000, 10), (10**7, 100)))
    assert small._replace(seconds=0.0) == large._replace(seconds=0.0) == ModelChoice(model)
    assert small.duration == ""
    assert re.fullmatch(r", which takes about [\d.]+ (min|h)", large.duration)


def fit_logistic(**given):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "effort"])
    table["label"] = ((table["a"] > 0) & (rng.random(300) < expit(table["effort"]))).astype(int)
    return analyse(table, "label", propensity_attributes=["effort"], model="logistic", **given)


def test_a_fit_of_more_than_a_minute_is_announced_with_its_time(monkeypatch):
    stages = []
    monkeypatch.setattr(choice, "_PAIR", (300.0, 0.0, 0.0))
    fit_logistic(progress=stages.append)
    assert "fitting both models, which takes about 5 min" in stages


def test_no_convergence_is_a_doubt_with_advice_for_the_command_line(monkeypatch):
    monkeypatch.setattr(choice, "SAREMClassifier", partial(SAREMClassifier, max_iter=1))
    found = fit_logistic()
    summary = found.summary()
    assert not summary["converged"]
    assert summary["doubt"].startswith("not reliable")
    (note,) = [note for note in summary["notes"] if "did not converge" in note]
    assert "--model boosted" in note
    assert "max_iter" not in note


def test_options_that_a_stack_does_not_support():
    bounded = choose_model(Settings("s", ("a",), bounds=(0.2, 1.0)), 1_000, 10)
    assert bounded._replace(seconds=0.0) == ModelChoice("logistic", "--bounds needs one")
    assert choose_model_of_files(Settings("s", ("a",))) == ModelChoice("search", "a stack needs all rows in memory")
    assert choose_model(Settings("s", scar=True), 1_000, 10) == ModelChoice("scar")
    assert choose_model(Settings("s", known_propensity="e"), 1_000, 10) == ModelChoice("known")


def test_a_stack_needs_no_names_and_its_rows_are_ranked_by_the_class(table):
    found = analyse(table, "diagnosed", propensity_attributes=["all"], columns=COLUMNS)
    assert not found.may_be_swapped
    assert "posterior" in found.ranked()
    report = found.report()
    assert not any(note.startswith(REASONS_OF_PAIR) for note in report.ranked.notes)  # the pair may be swapped
    assert report.ranked.rows[0].reasons
    assert "do not show whether" in report.effects[0].verdict or "do not detectably" in report.effects[0].verdict


def test_the_command_prints_the_line(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table.to_csv("patients.csv", index=False)
    assert main(["fit", "patients.csv", "--propensity", "visits", "insurance", *FLAGS]) == 0
    (line,) = [each for each in capsys.readouterr().out.split("\n") if each.startswith("Model: ")]
    assert line.startswith("Model: a stack of logistic models (")
    assert line.endswith(". Effects and reasons come from logistic models fitted beside it.")
    assert f"{line}</p>" in (tmp_path / "run" / "report.html").read_text()


def test_a_stack_uses_a_known_prevalence_of_rows_with_one_label(table):
    told = analyse(table, "diagnosed", known=[ClassPrior(0.3, 0.01)], **NAMED)
    facts = told.summary()
    assert told.choice.model == "stack"
    assert facts["class_prior"] == pytest.approx(0.3, abs=0.03)
    assert facts["missing_positives"] == pytest.approx(facts["class_prior"] * facts["rows"] - facts["labelled"])
