"""The checks of a report: the same results as the diagnostics, or the reason why a diagnostic does not apply."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from scarless import SAREMClassifier
from scarless.diagnostics import (
    Sensitivity,
    identifiability_report,
    label_calibration,
    profile_class_prior,
    scar_test,
)
from scarless.diagnostics.fit import examination as module
from scarless.report import model_report
from scarless.report.fit.data import find
from scarless.report.words import share, share_range

KEYS = ["identifiability", "selection", "scar", "profile", "calibration", "sensitivity"]


@pytest.fixture(scope="module")
def report(small):
    return model_report(*small, n_ranked=20)


def test_all_checks_are_in_order(report):
    assert [check.key for check in report.checks] == KEYS
    assert all(check.status in {"good", "open", "bad", "none"} for check in report.checks)


def test_identifiability(report, small):
    found, check = identifiability_report(small[0]), find(report.checks, "identifiability")
    low, high = found.class_prior_interval
    assert check.details[0].startswith(
        f"The estimated share of positives is {share(found.class_prior)} ({share_range(low, high)})."
    )
    assert (
        "exactly right" not in check.details[0]
    )  # The interval of a fit that is not recalibrated is the data interval.
    assert len(check.details) == 1 + len(found.directions) + 1  # the last detail is on rows that are certainly positive
    expected = {"identified": "good", "weakly identified": "open", "not identified": "bad"}
    assert check.status == expected[found.verdict]


def test_identifiability_names_raw_columns(reported, fitted):
    told = " ".join(find(reported("SAREMClassifier").checks, "identifiability").details)
    assert "For insurance, the data determine only the differences between categories." in told
    assert "insurance_full" not in told
    assert not hasattr(fitted("SAREMClassifier").estimator_, "origins_")
    assert "insurance_full" in fitted("SAREMClassifier").estimator_.feature_names_in_  # the model is unchanged


def test_profile(report, small):
    model, X, s = small
    found, check = profile_class_prior(model, X, s), find(report.checks, "profile")
    assert (check.picture.low, check.picture.high) == ((found.interval.low,), (found.interval.high,))
    assert set(check.picture.x) <= set(found.class_prior)
    assert check.details == tuple(found.sentences()[1:])  # The first sentence repeats the verdict.
    assert max(check.picture.y) == 0


@pytest.mark.parametrize("kind", ["SAREMClassifierCV", "SARStackingClassifier"])
def test_a_recalibrated_fit_shows_its_grid_of_class_priors(kind, reported, fitted):
    model, check = fitted(kind), find(reported(kind).checks, "profile")
    levels = model.estimator_.recalibration_.grid
    assert set(check.picture.x) <= set(levels.class_prior)
    low, high = model.class_prior_interval()
    assert (check.picture.low, check.picture.high) == ((low,), (high,))
    assert check.picture.marks[0].x == model.class_prior_


def test_calibration(report, small):
    model, X, s = small
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    found, picture = label_calibration(s, f, propensity=e), find(report.checks, "calibration").picture
    assert picture.x == tuple(found.predicted)
    assert picture.y == tuple(found.observed)
    assert (picture.low, picture.high) == (tuple(found.low), tuple(found.high))


def test_sensitivity(report, small):
    model, X, s = small
    found, check = Sensitivity.from_estimator(model, X, s), find(report.checks, "sensitivity")
    for gamma, low, high in check.tables[0].rows:
        assert (low, high) == tuple(found.at(gamma).class_prior)
    low, high = model.class_prior_interval()
    ends = (
        found.tipping_point("class_prior", at_least=low).gamma,
        found.tipping_point("class_prior", at_most=high).gamma,
    )
    assert f"wrong by a factor of more than {min(ends):.2f}, the share" in check.details[0]
    assert check.status == ("good" if min(ends) >= 2 else "open")


def test_sensitivity_does_not_describe_ranked_rows(report):
    said = " ".join([*find(report.checks, "sensitivity").details, report.ranked.expected])
    assert "unless the odds are wrong" not in said.split("Most positives")[0]
    assert "half of the" not in said


def test_scar(small, full_reports):
    _, X, s = small
    check = find(model_report(*small, n_ranked=0).checks, "scar")
    assert check.title == "Does the labelling depend on z?"
    assert check.verdict == "Yes (p < 0.001), and this model allows for it."
    assert check.details[0].startswith(
        "Score test of the hypothesis that all positives are equally likely to get a label: chi-squared "
    )
    assert scar_test(X, s, propensity_attributes=["z"], cv=3, random_state=0).p_value < 0.001


def test_scar_is_not_tested_without_propensity_attributes(reported):
    check = find(reported("SCARClassifier").checks, "scar")
    assert (check.status, check.verdict[:11]) == ("open", "Not tested:")


def test_the_table_of_candidates(reported, fitted, small):
    model = fitted("SAREMClassifierCV").estimator_
    check = find(reported("SAREMClassifierCV").checks, "selection")
    assert check.details == (model.selection_.reason,)
    assert len(check.tables[0].rows) == min(model.cv_results_["tied"].sum(), 12)
    assert sum(row[-1] == "yes" for row in check.tables[0].rows) == len(model.selection_.members)
    stack = find(reported("SARStackingClassifier").checks, "selection").tables[0]
    members = fitted("SARStackingClassifier").summary().members
    assert [row[1] for row in stack.rows] == [member.class_prior for member in members]
    _, X, s = small
    several = SAREMClassifier(propensity_attributes=["z"], classification_attributes=["a", "b"], n_starts=3).fit(X, s)
    check = find(model_report(several, X, s, n_ranked=0).checks, "selection")
    assert check.verdict == "No other candidate fits as well as the chosen model."


@pytest.mark.parametrize(
    ("kind", "key", "sentence"),
    [
        ("NaiveClassifier", "identifiability", "This model has no standard errors"),
        ("NaiveClassifier", "profile", "This model has no standard errors"),
        ("NaiveClassifier", "sensitivity", "The naive model has no predict_propensity"),
        ("PropensityWeightedClassifier", "sensitivity", "does not predict propensities"),
        ("PropensityWeightedClassifier", "calibration", "This check needs the propensity of each row"),
        ("swappable", "scar", "The labelling may depend on every column"),
        ("SCARClassifier, known", "profile", "This model has no standard errors"),
    ],
)
def test_a_check_that_does_not_apply_states_the_reason(kind, key, sentence, reported):
    report = reported(kind)
    check = find(report.checks, key)
    assert check.status == "none"
    assert sentence in check.details[0]
    assert sentence in report.to_html()


@pytest.mark.parametrize("error", [RuntimeError, ValueError, ZeroDivisionError, np.linalg.LinAlgError])
def test_a_diagnostic_that_fails_does_not_affect_the_others(error, small, monkeypatch):
    def fail(*_, **__):
        raise error("out of order")

    for name in ("identifiability_report", "profile_class_prior", "scar_test", "label_calibration"):
        monkeypatch.setattr(module, name, fail)
    monkeypatch.setattr(module.Sensitivity, "from_estimator", fail)
    report = model_report(*small, n_ranked=2)
    failed = [check.key for check in report.checks if check.status == "none"]
    assert failed == ["identifiability", "scar", "profile", "calibration", "sensitivity"]
    assert all(check.details == ("out of order",) for check in report.checks if check.status == "none")
    assert report.answer.share.value == small[0].class_prior_


def test_large_tables_are_sampled_with_a_note(small, monkeypatch):
    model, X, s = small
    for name, value in (("MAX_ROWS", 600), ("SAMPLE_ROWS", 500), ("MIN_SCAR_ROWS", 300), ("MAX_SCAR_ROWS", 400)):
        monkeypatch.setattr(module, name, value)
    seen = []
    monkeypatch.setattr(module, "scar_test", lambda X, s, **given: seen.append(len(s)) or scar_test(X, s, **given))
    monkeypatch.setattr(
        module,
        "profile_class_prior",
        lambda model, X, s, **given: seen.append(len(s)) or profile_class_prior(model, X, s, **given),
    )
    report = model_report(model, X, s, n_ranked=5)
    assert seen == [400, 500]
    assert "Computed on 400 of 700 rows, drawn at random." in find(report.checks, "scar").details
    assert "500 of 700 rows" in find(report.checks, "profile").details[-1]
    assert "Computed on 500 of 700 rows, drawn at random." in find(report.checks, "sensitivity").details
    assert report.answer.n_rows == 700


def test_the_test_of_scar_uses_enough_rows_for_enough_labels(small, monkeypatch):
    model, X, s = small
    for name, value in (("MIN_SCAR_ROWS", 100), ("MAX_SCAR_ROWS", 600), ("ENOUGH_LABELS", 0.5 * np.sum(s))):
        monkeypatch.setattr(module, name, value)
    seen = []
    monkeypatch.setattr(module, "scar_test", lambda X, s, **given: seen.append(len(s)) or scar_test(X, s, **given))
    model_report(model, X, s, n_ranked=2)
    assert seen == [350]


def test_warnings_are_shown_and_not_printed(small, monkeypatch):
    def noisy(*given, **options):
        warnings.warn("the wind is high", UserWarning, stacklevel=1)
        warnings.warn("the wind is high", UserWarning, stacklevel=2)
        warnings.warn("a library's own business", DeprecationWarning, stacklevel=1)
        return label_calibration(*given, **options)

    monkeypatch.setattr(module, "label_calibration", noisy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = model_report(*small, n_ranked=0, run={"warnings": ["from the fit"]})
    assert report.warnings == ("from the fit", "the wind is high")
    assert "the wind is high" in report.to_html()


@pytest.mark.parametrize(("n_columns", "forest"), [(10, False), (module.MIN_COLUMNS_FOR_FOREST, True)])
def test_with_many_columns_the_test_of_scar_uses_a_forest(n_columns, forest, full_reports):
    found = module.scorer_of(SimpleNamespace(prepared=np.zeros((50, n_columns)), n_rows=50))
    assert isinstance(found, ExtraTreesClassifier) if forest else found is None
