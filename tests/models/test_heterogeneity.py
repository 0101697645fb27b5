"""Rows that differ in how easily they are seen, in ways that no column measures: the doubt, and the model of them."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

import scarless
from scarless import Labelling, SAREMClassifier, SAREMClassifierCV, goodness_of_fit
from scarless.diagnostics.fit.examination import Examination
from scarless.diagnostics.fit.subject import Subject
from scarless.models.inspection import any_label_probability, looks_summary
from scarless.models.messages import messages_about_causes
from scarless.pair.look_checks import HeterogeneityGap, RateGap

REASON = "rows differ in how easily they are seen, in ways that no column measures"


def simulate(seed, n_looks, *, deviation=2.0, rate=0.0, n=2000):
    """Return columns, labels at each look, and classes; the logits of a row's propensities share a random shift."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = rng.random(n) < expit(1.5 * X[:, 0] + 0.7 * X[:, 1] - 1.7)
    e = expit(0.8 * X[:, 2] - 0.5 + deviation * rng.normal(size=n))
    s = rng.random((n, n_looks)) < np.where(y, e, rate)[:, None]
    return X, s.astype(int), y


def fit(X, s, **labelling):
    """Return a fit and its warnings."""
    model = SAREMClassifier(propensity_attributes=[2], labelling=Labelling(**labelling))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, s)
    return model, [str(each.message) for each in caught]


@pytest.fixture(scope="module", params=[3, 5])
def estimated(request):
    """Return simulated rows and a fit that allows for their differences."""
    X, s, y = simulate(1, request.param)
    return X, s, y, *fit(X, s, heterogeneity="estimate")


@pytest.mark.parametrize("n_looks", [3, 5])
@pytest.mark.parametrize("rate", [0.0, "estimate"])
def test_the_doubt_names_differences_between_rows(n_looks, rate):
    """The interval is too low, and the doubt names the reason, also if false positives are estimated."""
    X, s, y = simulate(0, n_looks)
    model, told = fit(X, s, false_positive_rate=rate)
    assert model.class_prior_interval().high < y.mean()
    assert sum(REASON in each for each in told) == 1
    assert not any("there may be false positives" in each for each in told)
    assert "fit with heterogeneity='estimate'" in " ".join(told)
    assert REASON[1:] in " ".join(" ".join(looks_summary(model).warnings).split())


def test_false_positives_are_named_if_they_explain_the_labels():
    X, s, _ = simulate(0, 5, deviation=0.0, rate=0.03)
    _, told = fit(X, s)
    assert any("there may be false positives" in each for each in told)
    assert not any(REASON in each for each in told)


def test_both_reasons_are_named_if_both_explain_the_labels():
    spread = HeterogeneityGap(np.sqrt(2 * 12.0))
    (both,) = messages_about_causes(RateGap(0.02, 0.0, np.sqrt(2 * 11.0)), spread, 3)
    assert REASON in both
    assert "some labels are false positives (a rate of 0.020 fits about as well)" in both
    (one,) = messages_about_causes(RateGap(0.02, 0.0, 2.0), spread, 3)
    assert "false positives" not in one
    assert messages_about_causes(RateGap(0.02, 0.0, np.sqrt(2 * 15.0)), spread, 3) == []
    assert messages_about_causes(None, HeterogeneityGap(2.0), 3) == []
    assert "heterogeneity=" not in messages_about_causes(None, spread, 2)[0]


@pytest.mark.parametrize("n_looks", [2, 3, 5])
def test_equal_rows_are_not_accused(n_looks):
    for seed in range(3):
        _, told = fit(*simulate(seed, n_looks, deviation=0.0)[:2])
        assert not any(REASON in each for each in told)


def test_the_interval_contains_the_truth(estimated):
    X, s, y, model, told = estimated
    low, high = model.class_prior_interval()
    assert low < y.mean() < high
    assert low < model.class_prior_ < high
    plain = fit(X, s)[0].class_prior_interval()
    assert high - low > 2 * (plain.high - plain.low)
    assert 1.2 < model.heterogeneity_ < 3.0
    assert not any(REASON in each for each in told)
    low, high = model.label_frequency_interval()
    assert low < s.any(axis=1).sum() / y.sum() < high


def test_the_summary_says_that_the_class_prior_depends_on_the_form(estimated):
    text = " ".join(str(estimated[3].summary()).split())
    assert "Heterogeneity standard deviation" in text
    assert "the class prior depends on it: 0." in text
    assert "skewed towards rows that are hardly ever seen" in text


def test_all_numbers_of_a_fit_agree(estimated):
    """The expected labels add up to the labels; two ways to the probability of any label give the same numbers."""
    X, s, _, model, _ = estimated
    posterior = model.predict_posterior(X, s)
    assert abs(posterior.mean() - model.class_prior_) < 0.01  # exact but for the penalty
    any_label = any_label_probability(model, X, s)
    f = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose((f * any_label).sum() / f.sum(), model.label_frequency_, rtol=1e-6)
    np.testing.assert_allclose(model.detection_curve(X)[-1], model.label_frequency_, rtol=1e-6)
    counts = Examination.of(Subject.of(model, X, s), np.random.default_rng(0)).repeats()
    np.testing.assert_allclose(counts.counted.expected.sum(), len(X), rtol=1e-9)
    assert counts.p_value > 0.01
    ends = model.predict_propensity_interval(X)
    assert ((ends[:, 0] < model.predict_propensity(X)) & (model.predict_propensity(X) < ends[:, 1])).all()


def test_a_saved_fit_has_the_same_intervals(estimated, tmp_path):
    X, s, _, model, _ = estimated
    scarless.save(model, tmp_path / "model.skops")
    again = scarless.load(tmp_path / "model.skops")
    assert again.class_prior_interval() == model.class_prior_interval()
    np.testing.assert_array_equal(again.predict_posterior(X, s), model.predict_posterior(X, s))


def test_a_given_deviation_is_used():
    X, s, y = simulate(1, 3)
    model, _ = fit(X, s, heterogeneity=2.0)
    assert model.heterogeneity_ == 2.0
    assert abs(model.class_prior_ - y.mean()) < 0.04
    assert "taken as given" in str(model.summary())


X3, S3, _ = simulate(0, 3, n=300)
REFUSED = {
    "two looks": (SAREMClassifier(labelling=Labelling(heterogeneity="estimate")), S3[:, :2], {}, "at least 3 looks"),
    "one look": (SAREMClassifier(labelling=Labelling(heterogeneity=1.0)), S3[:, 0], {}, "at least 2 looks"),
    "negative": (SAREMClassifier(labelling=Labelling(heterogeneity=-1.0)), S3, {}, "from 0 to 5"),
    "a word": (SAREMClassifier(labelling=Labelling(heterogeneity="guess")), S3, {}, "or 'estimate'; got 'guess'"),
    "a search": (SAREMClassifierCV(labelling=Labelling(heterogeneity=1.0)), S3, {}, "needs SAREMClassifier"),
    "groups": (
        SAREMClassifier(labelling=Labelling(heterogeneity="estimate")), S3, {"groups": "rows"}, "groups cannot be"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_combinations_without_support_are_refused(name):
    model, s, given, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        model.fit(X3, s, **given)


def test_goodness_of_fit_refuses_a_fit_with_heterogeneity():
    model, _ = fit(X3, S3, heterogeneity=1.0)
    with pytest.raises(ValueError, match="fitted with heterogeneity"):
        goodness_of_fit(model, X3, S3)
