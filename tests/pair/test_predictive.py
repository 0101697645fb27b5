"""Draws of the probabilities of new rows, and their errors to first order."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from scarless import PropensityWeightedClassifier, SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.models.inspection import draw_predictions
from scarless.numerics.linear import Design
from scarless.numerics.objectives import LogisticPair
from scarless.pair.predictive import _block_member_draws, draw_probabilities, label_probability_errors
from scarless.pair.recalibrated import ClassPriorGrid, Recalibration


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


def recalibration(shift, slope):
    """Return a recalibration with a grid of three class priors, which shift the logits up one by one."""
    grid = ClassPriorGrid(
        np.array([0.2, 0.4, 0.6]), np.array([0.9, 0.5, 0.3]), np.zeros(3), np.zeros(3), shift + np.arange(3.0),
        np.full(3, slope), np.zeros(3, dtype=bool),
    )  # fmt: skip
    return Recalibration(0.1, shift, slope, np.zeros(1), 0.4, 0.5, 0.0, grid, True)


class TwoMembers:
    def members(self, X):
        return [(X[:, 0], recalibration(0.3, 1.5)), (X[:, 1], recalibration(-0.2, 0.5))]


def test_each_draw_uses_one_member_of_a_stack_at_the_drawn_class_prior():
    X, beta = np.random.default_rng(0).normal(size=(6, 3)), np.array([0.0, 0.7, -0.4])
    objective = LogisticPair(Design.of(np.arange(0)), Design.of(np.array([2])))
    priors, pick = np.array([0.2, 0.6, 0.5, 0.4]), np.array([0.1, 0.6, 0.9, 0.49])
    drawn = _block_member_draws(X, {}, TwoMembers(), objective, beta, priors, pick)
    for j, member in enumerate([0, 1, 1, 0]):
        u, own = TwoMembers().members(X)[member]
        at, moved = own.at_priors(u, priors[[j]])
        np.testing.assert_allclose(drawn[:, j], expit(at[:, 0]), rtol=1e-12)
        np.testing.assert_allclose(drawn[:, 4 + j], expit(0.7 * X[:, 2] - 0.4 + moved), rtol=1e-12)
    # At class prior 0.2, the first point of the grid, the label frequency is 0.9 instead of 0.5.
    np.testing.assert_allclose(drawn[:, 0], expit(0.1 + 0.3 + 1.5 * (X[:, 0] - 0.1)), rtol=1e-12)
    np.testing.assert_allclose(drawn[:, 4], expit(0.7 * X[:, 2] - 0.4 + np.log(9)), rtol=1e-12)


def test_a_model_with_neither_standard_errors_nor_members_has_no_draws(fitted):
    X, _ = table(20, seed=1)
    alone = replace(fitted.fitted_pair_, inference=None)
    for grids in ((), (recalibration(0.0, 1.0).grid,)):
        pair = replace(alone, grids=grids)
        assert draw_probabilities(pair, fitted._rows(X), 5, np.random.default_rng(0)) is None


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
