"""The class prior that propensities imply: its standard error, and warnings if a fit has another class prior."""

import re

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from scarless import NaiveClassifier, PropensityWeightedClassifier, SCARClassifier
from scarless.models.propensity_weighted import implied_prior
from scarless.pair.logistic import engine_of


def _implied(s, e, w):
    return implied_prior(engine_of(np.empty((s.size, 0)), s=s, e=e, w=w))


@pytest.fixture
def data(simulated):
    return simulated(n=1000, low=0.15, high=0.6)


def test_implied_prior_is_the_mean_share_with_its_error_and_weights_are_copies(data):
    share = data.s / data.e
    mean, error, *_ = _implied(data.s, data.e, np.ones(1000))
    assert mean == pytest.approx(share.mean())
    assert error == pytest.approx(share.std() / np.sqrt(1000))
    w = np.arange(1000) % 3
    copied = np.repeat(np.arange(1000), w)
    expected = _implied(data.s[copied], data.e[copied], np.ones(copied.size))
    assert _implied(data.s, data.e, w.astype(float)) == pytest.approx(expected)


def test_overflowing_shares_give_a_standard_error_that_excludes_nothing():
    for weight in (1.0, 1e10, 1e90):
        implied = _implied(np.array([1.0, 0.0]), np.array([5e-324, 0.0]), np.full(2, weight))
        assert implied.possible == 1
        assert np.isfinite(implied.mean)
        assert 1 < implied.error < np.inf


@pytest.mark.parametrize(
    "estimator",
    [DecisionTreeClassifier(random_state=0), RandomForestClassifier(20, random_state=0)],
    ids=["tree", "forest"],
)
def test_the_warning_about_memorised_labels_points_to_the_users_line(data, estimator):
    implied = (data.s / data.e).mean()
    told = rf"gives a class prior of (0\.\d{{3}}), .* imply {implied:.3f}, the mean of s/e \(standard .*depth"
    with pytest.warns(UserWarning, match=told) as record:
        model = PropensityWeightedClassifier(estimator).fit(data.X, data.s, propensity=data.e)
    assert record[0].filename == __file__
    assert re.search(told, str(record[0].message)).group(1) == f"{model.class_prior_:.3f}"
    assert model.class_prior_ < implied - 0.1


def test_the_advice_of_the_warning_removes_the_warning(data):
    for model in (
        PropensityWeightedClassifier(DecisionTreeClassifier(max_depth=4, random_state=0)),
        PropensityWeightedClassifier(RandomForestClassifier(20, min_samples_leaf=20, random_state=0)),
        PropensityWeightedClassifier(DecisionTreeClassifier(random_state=0), method="likelihood", random_state=0),
    ):
        model.fit(data.X, data.s, propensity=data.e)
        assert model.class_prior_ == pytest.approx((data.s / data.e).mean(), abs=0.1)


def test_every_classifier_with_given_propensities_warns_about_class_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    s = (rng.random(3000) < 0.05).astype(int)
    balanced = LogisticRegression(class_weight="balanced")
    for model, options in (
        (SCARClassifier(0.7, estimator=balanced), {}),
        (SCARClassifier(0.7, estimator=balanced, method="likelihood"), {}),
        (PropensityWeightedClassifier(balanced), {"propensity": 0.7}),
        (PropensityWeightedClassifier(balanced), {"propensity": 1.0}),
    ):
        name = type(model).__name__
        with pytest.warns(UserWarning, match=f"{name}: estimator has class_weight='balanced', which changes the share"):
            model.fit(X, s, **options)
    SCARClassifier(0.7, estimator=LogisticRegression()).fit(X, s)
    NaiveClassifier(balanced).fit(X, s)  # The naive model does not correct for missing labels, so it does not warn.


def test_a_cross_fit_with_another_class_prior_warns_about_the_propensities(simulated):
    pu = simulated(n=2000, low=0.05, high=0.95)
    upside_down = 1 - pu.e
    tree = DecisionTreeClassifier(min_samples_leaf=50, random_state=0)
    model = PropensityWeightedClassifier(tree, method="likelihood", random_state=0)
    with pytest.warns(UserWarning, match="The estimator is cross-fitted, .* Check the propensities"):
        model.fit(pu.X, pu.s, propensity=np.maximum(upside_down, 0.25))


LOW = r"imply a class prior of \d+\.\d{3} \(the mean of s/e.* more positives than rows.* SAREMClassifier to estimate"


@pytest.mark.parametrize(
    ("estimator", "propensity"),
    [
        (None, 0.02),
        (None, 0.1),
        (LogisticRegression(), 0.02),
        (DecisionTreeClassifier(max_depth=3, random_state=0), 0.1),
    ],
    ids=str,
)
def test_both_methods_warn_about_propensities_that_are_too_low(data, estimator, propensity):
    X = 0.1 * data.X
    for method in ("risk", "likelihood"):
        model = PropensityWeightedClassifier(estimator, method=method, random_state=0)
        with pytest.warns(UserWarning, match=LOW) as record:
            model.fit(X, data.s, propensity=propensity)
        assert len(record) == 1
        with pytest.warns(UserWarning, match=LOW):
            SCARClassifier(propensity, estimator=estimator, method=method).fit(X, data.s)


def test_few_rows_get_a_warning_if_all_are_predicted_positive():
    X, s = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 20 == 0
    assert (
        _implied(s, np.full(100, 0.03), np.ones(100)).error > 0.3
    )  # The implied class prior is 1.67, and 1 is within its error.
    with pytest.warns(UserWarning, match=LOW):
        model = PropensityWeightedClassifier(method="likelihood").fit(X, s, propensity=0.03)
    assert model.class_prior_ > 0.95


def test_a_table_of_mostly_labelled_positives_gets_no_warning():
    X, s = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 20 > 0
    PropensityWeightedClassifier(method="likelihood").fit(X, s, propensity=0.94)


def test_the_warning_of_the_risk_says_when_the_likelihood_helps(data):
    with pytest.warns(ConvergenceWarning, match="method='likelihood' helps only if the excess is due to chance"):
        PropensityWeightedClassifier().fit(0.1 * data.X, data.s, propensity=0.02)


def test_a_logistic_likelihood_with_another_class_prior_gets_a_warning(simulated):
    pu = simulated(n=2000, low=0.05, high=0.95)
    wrong = np.maximum(1 - pu.e, 0.25)
    with pytest.warns(
        UserWarning, match=r"Possible causes are wrong propensities, a class that is not logistic .*Check all three"
    ):
        PropensityWeightedClassifier(method="likelihood").fit(pu.X, pu.s, propensity=wrong)
    PropensityWeightedClassifier(method="likelihood").fit(pu.X, pu.s, propensity=pu.e)
