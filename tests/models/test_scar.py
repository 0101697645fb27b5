"""Stronger assumptions: one label frequency, or no missing labels."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier


@pytest.mark.parametrize("method", ["risk", "likelihood"])
@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=2, random_state=0)])
def test_given_frequency_is_a_constant_known_propensity(pu, method, estimator):
    scar = SCARClassifier(0.6, estimator=estimator, method=method).fit(pu.X, pu.s)
    known = PropensityWeightedClassifier(estimator, method=method).fit(pu.X, pu.s, propensity=0.6)
    np.testing.assert_array_equal(scar.predict_proba(pu.X), known.predict_proba(pu.X))
    assert scar.label_frequency_ == 0.6
    assert scar.class_prior_ == known.class_prior_
    np.testing.assert_array_equal(scar.predict_propensity(pu.X), np.full(pu.s.size, 0.6))
    np.testing.assert_allclose(scar.predict_posterior(pu.X, pu.s), known.predict_posterior(pu.X, pu.s, 0.6))


def test_estimated_frequency_is_sar_em_without_attributes(pu):
    scar = SCARClassifier(tol=1e-12).fit(pu.X, pu.s)
    sar = SAREMClassifier(tol=1e-12).fit(pu.X, pu.s)
    np.testing.assert_allclose(scar.predict_proba(pu.X), sar.predict_proba(pu.X), atol=1e-6)
    assert scar.label_frequency_ == pytest.approx(sar.label_frequency_, abs=1e-6)
    assert scar.class_prior_ == pytest.approx(sar.class_prior_, abs=1e-6)
    np.testing.assert_allclose(scar.predict_posterior(pu.X, pu.s), sar.predict_posterior(pu.X, pu.s), atol=1e-5)


def test_frequency_is_recovered_from_many_rows(simulated):
    data = simulated(n=40_000, low=0.4, high=0.4)
    model = SCARClassifier(C=np.inf).fit(data.X, data.s)
    assert model.label_frequency_ == pytest.approx(0.4, abs=0.03)
    assert model.class_prior_ == pytest.approx(data.y.mean(), abs=0.03)


def test_naive_is_logistic_regression_of_the_labels(pu):
    naive = NaiveClassifier(tol=1e-14, C=0.7).fit(pu.X, pu.s)
    plain = LogisticRegression(tol=1e-10, C=0.7, max_iter=1000).fit(pu.X, pu.s)
    np.testing.assert_allclose(naive.coef_, plain.coef_, atol=1e-5)
    assert naive.label_frequency_ == 1
    assert naive.class_prior_ == pytest.approx(pu.s.mean(), abs=1e-6)


def test_naive_hands_the_labels_to_an_estimator(pu):
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    naive = NaiveClassifier(tree).fit(pu.X, pu.s)
    np.testing.assert_allclose(naive.predict_proba(pu.X), tree.fit(pu.X, pu.s).predict_proba(pu.X))
    assert naive.estimator_ is not tree


def test_propensity_checks_its_table(pu):
    model = SCARClassifier(0.5).fit(pu.X, pu.s)
    with pytest.raises(ValueError, match="X has 2 features, but SCARClassifier is expecting 4"):
        model.predict_propensity(pu.X[:, :2])
    frame = pd.DataFrame(pu.X, columns=list("abcd"))
    with pytest.raises(ValueError, match="feature names should match"):
        SCARClassifier(0.5).fit(frame, pu.s).predict_propensity(frame[list("badc")])
