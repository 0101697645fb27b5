"""Draws of the probabilities of new rows, and their errors to first order."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from scarless import PropensityWeightedClassifier, SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.models.inspection import draw_predictions
from scarless.pair.predictive import label_probability_errors


def table(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = rng.random(n) < expit(2 * X[:, 0])
    return X, (y & (rng.random(n) < expit(X[:, 2]))).astype(int)


@pytest.fixture(scope="module")
def fitted():
    X, s = table()
    return SAREMClassifier(propensity_attributes=[2]).fit(X, s)


def test_errors_are_the_derivatives_times_the_noise(fitted):
    """Derivatives by hand: of f, f(1 - f) times the columns of the class model; of e the same."""
    X, _ = table(50, seed=1)
    pair = fitted.fitted_pair_
    of_f, of_e = label_probability_errors(pair, fitted._rows(X), 30, np.random.default_rng(5))
    noise = pair.inference.parameter_draws(30, np.random.default_rng(5))
    f, e = fitted.predict_proba(X)[:, 1], fitted.predict_propensity(X)
    ones = np.ones((50, 1))
    np.testing.assert_allclose(of_f, (f * (1 - f))[:, None] * (np.hstack([X, ones]) @ noise[:, :4].T), atol=1e-5)
    np.testing.assert_allclose(
        of_e, (e * (1 - e))[:, None] * (np.hstack([X[:, [2]], ones]) @ noise[:, 4:].T), atol=1e-5
    )


MODELS = {
    "logistic": SAREMClassifier(propensity_attributes=[2]),
    "search": SAREMClassifierCV(propensity_attributes=[2], random_state=0, Cs=[1.0], propensity_Cs=[1.0]),
    "stack": SARStackingClassifier([("naive Bayes", GaussianNB())], propensity_attributes=[2], random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_draws_agree_with_draws_of_posteriors(name):
    """With the same seed, both draw the same parameters, so q = f(1 - e)/(1 - fe) for rows without a label.

    Draws of posteriors of a search add the errors of class prior and coefficients, so they agree only approximately.
    """
    model = clone(MODELS[name]).fit(*table(400))
    X, _ = table(40, seed=2)
    q = model.draw_posteriors(X, np.zeros(40, dtype=int), n_draws=25, random_state=7).T
    f, e = draw_predictions(model, X, None, 25, np.random.default_rng(7)).draws
    np.testing.assert_allclose(f * (1 - e) / (1 - f * e), q, rtol=1e-6, atol=0.05 if name == "search" else 1e-9)


def test_models_without_uncertainty_have_no_draws():
    X, s = table(400)
    model = PropensityWeightedClassifier().fit(X, s, propensity=np.full(400, 0.5))
    assert draw_predictions(model, X, None, 20, np.random.default_rng(0)) == (None, None)


def test_looks_need_labels_for_the_probability_of_a_label():
    X, _ = table(600)
    rng = np.random.default_rng(3)
    y = rng.random((600, 1)) < expit(2 * X[:, [0]])
    looks = (y & (rng.random((600, 2)) < expit(X[:, [2]]))).astype(int)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, looks)
    found = draw_predictions(model, X, None, 20, np.random.default_rng(0))
    assert np.isfinite(found.draws.f).all()
    assert np.isnan(found.draws.e).all()
    seen = draw_predictions(model, X, looks, 20, np.random.default_rng(0))
    np.testing.assert_allclose(seen.draws.f, found.draws.f)
    assert np.isfinite(seen.draws.e).all()
