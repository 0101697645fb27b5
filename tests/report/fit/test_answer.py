"""The answer of a report: its numbers, its sentence and its cautions."""

import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import escape
from sklearn.exceptions import ConvergenceWarning

from scarless import SAREMClassifier, SAREMClassifierCV, SARStackingClassifier, SCARClassifier
from scarless.models import Interval
from scarless.report import model_report
from scarless.report.fit.answer import NO_ESTIMATE
from scarless.report.words import share_range


def test_the_answer_has_the_numbers_of_the_model(small):
    model, X, s = small
    answer = model_report(model, X, s, level=0.9, n_ranked=0).answer
    low, high = model.class_prior_interval(level=0.9)
    assert (answer.n_rows, answer.weight, answer.labelled) == (700, 700.0, s.sum())
    assert (answer.share.value, answer.share.low, answer.share.high) == (model.class_prior_, low, high)
    assert answer.positives.value == pytest.approx(700 * model.class_prior_)
    assert answer.missing.value == pytest.approx(700 * model.class_prior_ - s.sum())
    assert answer.missing.low == pytest.approx(max(700 * low - s.sum(), 0))
    assert answer.missing.high == pytest.approx(700 * high - s.sum())
    assert answer.label_frequency.value == model.label_frequency_
    assert tuple(model.label_frequency_interval(level=0.9)) == (answer.label_frequency.low, answer.label_frequency.high)
    assert answer.cautions == ()


def test_the_sentence_has_these_numbers(small, monkeypatch):
    _, X, s = small
    model = SCARClassifier().fit(X, s)
    model.class_prior_ = 0.4123
    monkeypatch.setattr(SCARClassifier, "class_prior_interval", lambda self, level: Interval(0.354, 0.462))
    labelled = int(s.sum())
    told = model_report(model, X, s, n_ranked=0).answer.sentence
    assert told == (
        f"{labelled} of 700 rows have a label. We estimate that about 289 rows (41%; 95% interval 35 to 46%) are "
        f"positive, so about {289 - labelled} positives have no label."
    )


def test_the_interval_starts_at_the_share_of_labelled_rows(small, monkeypatch):
    model, X, s = small
    monkeypatch.setattr(SAREMClassifier, "class_prior_interval", lambda self, level: Interval(0.01, 0.6))
    answer = model_report(model, X, s, n_ranked=0).answer
    assert answer.share.low == s.mean()
    assert answer.missing.low == 0


def test_a_weight_of_two_equals_two_copies_of_the_row(small):
    _, X, s = small
    w = np.where(np.arange(700) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(700), w.astype(int))
    weighted = SCARClassifier().fit(X, s, sample_weight=w)
    repeated = SCARClassifier().fit(X.iloc[twice], s[twice])
    one = model_report(weighted, X, s, sample_weight=w, n_ranked=0)
    other = model_report(repeated, X.iloc[twice].reset_index(drop=True), s[twice], n_ranked=0)
    assert one.answer.weighted
    assert one.answer.weight == other.answer.weight
    assert one.answer.labelled == other.answer.labelled
    for name in ("share", "positives", "missing", "label_frequency"):
        mine, theirs = getattr(one.answer, name), getattr(other.answer, name)
        assert (mine.value, mine.low, mine.high) == pytest.approx((theirs.value, theirs.low, theirs.high), rel=1e-6)
    for mine, theirs in zip(one.effects[0].effects, other.effects[0].effects, strict=True):
        assert mine.per_sd.value == pytest.approx(theirs.per_sd.value, rel=1e-6)
    assert "counted by their weights" in one.answer.sentence


def test_a_model_without_an_interval_states_the_reason(reported):
    answer = reported("SCARClassifier, known").answer
    assert answer.share.low is None
    assert "no confidence interval" in answer.sentence
    assert "No interval: This model has no standard errors" in answer.notes[0]


def test_the_naive_model_does_not_estimate_missing_positives(reported):
    answer = reported("NaiveClassifier").answer
    assert answer.share.value is answer.positives.value is answer.missing.value is None
    assert answer.sentence.endswith(
        "This model treats all other rows as negative, so it cannot estimate how many positives have no label."
    )
    assert answer.cautions[0].startswith("This model treats every row without a label as negative.")


# --- cautions


def cautions(model, X, s, **given):
    return " ".join(model_report(model, X, s, n_ranked=0, **given).answer.cautions)


def test_few_labels(small):
    _, X, s = small
    few = np.zeros_like(s)
    few[np.flatnonzero(s)[:12]] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SAREMClassifier(propensity_attributes=["z"], classification_attributes=["a", "b"]).fit(X, few)
    told = cautions(model, X, few)
    assert told.startswith("Only 12 rows have a label. Rely on the order of the rows, not on the number")
    assert "or audit about 30 rows without a label (--audit)" in told


def test_a_stack_without_propensity_attributes_states_its_assumption(small):
    _, X, s = small
    model = SARStackingClassifier([("logistic", None)], find_attributes=False, cv=2, random_state=0).fit(X, s)
    told = cautions(model, X, s)
    assert (
        "No columns were named that drive the labelling (--propensity). The estimate assumes that rows with a higher "
        in told
    )
    assert "all positives are equally likely to be labelled" not in told


def test_a_wide_interval(small, monkeypatch):
    model, X, s = small
    monkeypatch.setattr(SAREMClassifier, "class_prior_interval", lambda self, level: Interval(0.2, 0.98))
    assert "The data hardly determine the number of positives: all shares of positives from" in cautions(model, X, s)
    assert "to 98% are compatible with the labels" in cautions(model, X, s)


def test_no_convergence(small):
    _, X, s = small
    with pytest.warns(ConvergenceWarning):
        model = SAREMClassifier(propensity_attributes=["z"], max_iter=1).fit(X, s)
    assert "The fit did not converge" in cautions(model, X, s)
    assert model_report(model, X, s).answer.sentence.endswith("This estimate is not reliable.")


def test_all_labelled(small):
    _, X, s = small
    assert "all positives already have a label" in cautions(SCARClassifier(1.0).fit(X, s), X, s)


def test_one_propensity_for_all(reported):
    told = " ".join(reported("SCARClassifier").answer.cautions)
    assert "assumes that all positives are equally likely to be labelled" in told


def test_models_that_could_be_swapped(reported, fitted, patients):
    other = fitted("swappable").predict_propensity(patients[0]).mean()
    told = " ".join(reported("swappable").answer.cautions)
    assert f"may be swapped. Swapped, they fit the labels equally well, with {other:.0%} positives" in told


def test_nearly_all_positive(small):
    model, X, s = small
    high = copy(model)
    high.class_prior_ = 0.97
    assert "nearly every row is positive" in cautions(high, X, s)


def test_a_higher_optimum(small):
    model, X, s = small
    stuck = copy(model)
    stuck.higher_optimum_ = replace(model.optima_[0], class_prior=0.66, parameters=model.optima_[0].parameters)
    report = model_report(stuck, X, s, n_ranked=0)
    assert "another start of the optimiser finds a better fit, with 66% positives" in " ".join(report.answer.cautions)
    assert {check.key: check.status for check in report.checks}["selection"] == "bad"


def test_rows_that_are_not_those_of_the_fit(small):
    model, X, s = small
    fewer = s * (np.arange(700) % 2)
    assert "The model was probably fitted to other rows" in cautions(model, X, fewer)


def test_labels_that_the_model_does_not_predict(small):
    model, X, s = small
    order = np.argsort(model.predict_proba(X)[:, 1] * model.predict_propensity(X))
    turned = np.empty_like(s)
    turned[order] = s[order[::-1]]
    assert "The model does not fit the labels" in cautions(model, X, turned)


def test_a_model_with_nearly_equal_probabilities(small):
    _, X, s = small
    model = SCARClassifier(0.9, C=1e-9).fit(X, s)
    assert "gives nearly every row the same probability" in cautions(model, X, s)


def test_cautions_come_before_the_number_on_the_page(reported):
    for kind in ("swappable", "NaiveClassifier", "SCARClassifier"):
        report = reported(kind)
        page = report.to_html()
        assert report.answer.cautions
        for caution in report.answer.cautions:
            assert 0 < page.index(str(escape(caution))[:30]) < page.index(report.answer.sentence[:20])
        assert str(report).index(report.answer.cautions[-1]) < str(report).index(report.answer.sentence)


def test_every_row_labelled(small):
    model, X, s = small
    report = model_report(model, X, np.ones_like(s))
    assert "Every row has a label, so there are no rows without a label to rank." in report.answer.cautions
    assert report.ranked.rows == ()
    assert report.to_html()


def test_an_overconfident_model(small):
    model, X, s = small
    sure = copy(model)
    at = np.eye(model._pair.parameters.size)[model._pair.objective.f.n_parameters - 1]
    sure._pair = replace(model._pair, parameters=model._pair.parameters + 12.0 * at)
    f = sure.predict_proba(X)[:, 1]
    n = np.count_nonzero((f > 0.999) & (s == 0))
    assert n > 100
    assert f"The model gives {n} rows without a label a probability of more than 99.9% of being positive." in cautions(
        sure, X, s
    )


def test_no_interval_is_shown_if_every_positive_is_labelled(small, monkeypatch):
    _, X, s = small
    model = SCARClassifier().fit(X, s)
    model.class_prior_, model.label_frequency_ = float(s.mean()), 1.0
    ends = Interval(float(s.mean()) - 1e-4, float(s.mean()) + 1e-4)
    monkeypatch.setattr(SCARClassifier, "class_prior_interval", lambda self, level: ends)
    report = model_report(model, X, s, n_ranked=0)
    assert report.answer.sentence == f"{s.sum()} of 700 rows have a label. T{NO_ESTIMATE[1:]}."
    assert report.answer.share.value is report.answer.missing.value is report.answer.label_frequency.value is None
    settled = next(check for check in report.checks if check.key == "identifiability")
    assert "a wide range" not in settled.verdict


def test_the_notes_say_that_the_interval_of_one_logistic_model_is_too_short(small):
    model, X, s = small
    told = " ".join(model_report(model, X, s, n_ranked=0).answer.notes)
    assert "contained the true share in only 64 to 77% of the tests, so the interval is probably too short" in told
    search = SAREMClassifierCV(propensity_attributes=model.propensity_attributes, Cs=[1.0], random_state=0).fit(X, s)
    assert "probably too short" not in " ".join(model_report(search, X, s, n_ranked=0).answer.notes)


def test_the_whole_page_shows_the_same_interval(small, monkeypatch):
    _, X, s = small
    model = SAREMClassifierCV(propensity_attributes=["z"], Cs=[1.0], random_state=0).fit(X, s)
    known = float(s.mean())
    monkeypatch.setattr(SAREMClassifierCV, "class_prior_interval", lambda self, **_: Interval(known - 0.1, known + 0.2))
    report = model_report(model, X, s, n_ranked=0)
    assert (report.answer.share.low, report.answer.share.high) == (known, known + 0.2)
    told = [report.answer.sentence, *(each.verdict for each in report.checks if each.key == "profile")]
    assert len(told) == 2
    for sentence in told:
        assert share_range(known, known + 0.2) in sentence
    page = report.to_html()
    assert f"{known - 0.1:.3f}" not in page
    assert share_range(known - 0.1, known + 0.2) not in page
