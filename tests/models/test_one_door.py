"""`SCARClassifier()` and `SAREMClassifier()` without propensity attributes give the same fit."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB

from scarless import SAREMClassifier, SCARClassifier
from scarless.diagnostics import identifiability_report, profile_class_prior

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 3))
Y = RNG.random(1500) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
S = (Y & (RNG.random(1500) < 0.4)).astype(int)
W = RNG.integers(0, 3, size=1500)


@pytest.fixture(params=[{}, {"C": 0.1}, {"C": np.inf, "tol": 1e-6}], ids=str)
def both(request):
    return tuple(kind(**request.param).fit(X, S, sample_weight=W) for kind in (SCARClassifier, SAREMClassifier))


def test_both_classes_give_the_same_fit(both):
    scar, pair = both
    for name in ("coef_", "intercept_", "propensity_coef_", "propensity_intercept_"):
        np.testing.assert_array_equal(getattr(scar, name), getattr(pair, name))
    for name in (
        "class_prior_",
        "label_frequency_",
        "log_likelihood_",
        "n_iter_",
        "converged_",
        "selection_",
        "optima_",
    ):
        assert getattr(scar, name) == getattr(pair, name)
    np.testing.assert_array_equal(scar.predict_proba(X), pair.predict_proba(X))
    np.testing.assert_allclose(scar.predict_propensity(X), pair.predict_propensity(X), rtol=1e-12)
    assert scar.score(X, S) == pytest.approx(pair.score(X, S), rel=1e-12)


def test_both_classes_give_the_same_intervals_and_summary(both):
    scar, pair = both
    assert scar.class_prior_interval(level=0.9) == pair.class_prior_interval(level=0.9)
    assert scar.label_frequency_interval() == pair.label_frequency_interval()
    for one, other in zip(scar.standard_errors(), pair.standard_errors(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(scar.predict_proba_interval(X[:9]), pair.predict_proba_interval(X[:9]))
    np.testing.assert_array_equal(scar.predict_propensity_interval(X[:9]), pair.predict_propensity_interval(X[:9]))
    assert str(scar.summary()).splitlines()[1:] == str(pair.summary()).splitlines()[1:]  # all lines but the title
    assert "this is SCAR, by maximum likelihood" in " ".join(str(scar.summary()).split())


def test_diagnostics_accept_both_classes(both):
    scar, pair = both
    assert str(identifiability_report(scar)) == str(identifiability_report(pair))
    profiles = [profile_class_prior(model, X, S, sample_weight=W, level=0.5) for model in (scar, pair)]
    np.testing.assert_array_equal(profiles[0].difference, profiles[1].difference)


@pytest.mark.parametrize(
    "model", [SCARClassifier(0.4), SCARClassifier("elkan-noto"), SCARClassifier(0.4, estimator=GaussianNB())], ids=str
)
def test_a_given_label_frequency_has_no_standard_errors(model):
    model = clone(model).fit(X, S)
    message = (
        r"This SCARClassifier has no standard errors: .* maximum likelihood \(label_frequency=None, estimator=None\)"
    )
    for call in (model.summary, model.class_prior_interval, model.standard_errors):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_second_fit_forgets_the_first():
    model = SCARClassifier().fit(X, S)
    model.summary()
    model.set_params(label_frequency=0.4).fit(X, S)
    assert not hasattr(model, "selection_")
    with pytest.raises(ValueError, match="no standard errors"):
        model.summary()
    with pytest.raises(NotFittedError):
        SCARClassifier().summary()
