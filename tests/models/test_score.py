"""Scores without negatives: the observed log-likelihood, not accuracy against the labels."""

import numpy as np
import polars as pl
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier


def by_hand(f, e, s, w):
    return np.average(np.where(s == 1, np.log(f * e), np.log1p(-f * e)), weights=w)


@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_the_mean_observed_log_likelihood(pu, weighted):
    w = np.arange(1.0, pu.s.size + 1) if weighted else np.ones(pu.s.size)
    for model in (SAREMClassifier(propensity_attributes=[2]), SCARClassifier(0.5), NaiveClassifier()):
        model.fit(pu.X, pu.s)
        f = model.predict_proba(pu.X)[:, 1]
        e = model.predict_propensity(pu.X) if hasattr(model, "predict_propensity") else np.ones(pu.s.size)
        assert model.score(pu.X, pu.s, w) == pytest.approx(by_hand(f, e, pu.s, w))
    known = PropensityWeightedClassifier(method="likelihood").fit(pu.X, pu.s, propensity=pu.e)
    f = known.predict_proba(pu.X)[:, 1]
    assert known.score(pu.X, pu.s, w, propensity=pu.e) == pytest.approx(by_hand(f, pu.e, pu.s, w))
    with pytest.warns(UserWarning, match=r"propensity is not given to score.*set_score_request\(propensity=True\)"):
        unknown = known.score(pu.X, pu.s, w)
    assert unknown == pytest.approx(by_hand(f, np.ones(pu.s.size), pu.s, w))


def test_score_prefers_the_right_model_and_accuracy_does_not(simulated):
    data, held_out = simulated(n=20_000, seed=1), simulated(n=20_000, seed=2)
    sar, naive = SAREMClassifier(propensity_attributes=[2]), NaiveClassifier()
    for model in (sar, naive):
        model.fit(data.X, data.s)
    assert sar.score(held_out.X, held_out.s) > naive.score(held_out.X, held_out.s)
    sar_accuracy, naive_accuracy = ((m.predict(held_out.X) == held_out.s).mean() for m in (sar, naive))
    assert sar_accuracy < naive_accuracy


def test_propensity_is_routed_to_the_score(pu):
    with config_context(enable_metadata_routing=True):
        model = PropensityWeightedClassifier().set_fit_request(propensity=True).set_score_request(propensity=True)
        routed = cross_val_score(model, pu.X, pu.s, cv=3, params={"propensity": pu.e})
        model.set_score_request(propensity=False)
        with pytest.warns(UserWarning, match="propensity is not given to score"):
            unrouted = cross_val_score(model, pu.X, pu.s, cv=3, params={"propensity": pu.e})
    assert (routed > unrouted).all()


def test_known_propensity_of_one_rules_positives_out():
    """With e = 1 an unlabelled row is negative, even if rounding has made f exactly 1."""
    X = np.array([[-60.0], [-20.0], [20.0], [60.0]])
    model = PropensityWeightedClassifier(C=1e6).fit(X, [0, 0, 1, 1], propensity=1.0)
    assert model.predict_proba([[1e4]])[0, 1] == 1.0
    assert model.predict_posterior([[1e4]], [0], propensity=1.0) == 0.0
    assert model.predict_posterior([[1e4]], [0], propensity=0.5) == 1.0


def test_a_polars_frame_and_a_constant_propensity(pu):
    X = pl.DataFrame(pu.X, schema=[f"c{i}" for i in range(pu.X.shape[1])])
    model = SAREMClassifier(LogisticRegression(), tol=1.0).fit(X, pu.s)
    assert np.unique(model.predict_propensity(X)).size == 1
