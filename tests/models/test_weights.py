"""Every fit treats a weight as a number of copies, and ignores rows of weight 0."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import simulate

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SCARClassifier,
)

TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
LOGISTIC = LogisticRegression(tol=1e-8, max_iter=500)
CROSSED = {"propensity_attributes": [2], "tol": 1e-3, "random_state": 0}
EM = {"propensity_attributes": [2], "tol": 1e-3, "slope_tol": 1e-3}

MODELS = [
    SAREMClassifier(),
    SAREMClassifier(propensity_attributes=[2]),
    PublishedEMClassifier(**EM),
    PublishedEMClassifier(refit=True, **EM),
    PublishedEMClassifier(TREE, **EM),
    PublishedEMClassifier(LOGISTIC, GaussianNB(), **EM),
    PropensityWeightedClassifier(),
    PropensityWeightedClassifier(method="likelihood"),
    PropensityWeightedClassifier(TREE),
    PropensityWeightedClassifier(GaussianNB()),
    PropensityWeightedClassifier(LOGISTIC),
    PropensityWeightedClassifier(TREE, method="likelihood", cv=None),
    PropensityWeightedClassifier(make_pipeline(FunctionTransformer(), LOGISTIC), method="likelihood", cv=None),
    SCARClassifier(),
    SCARClassifier(0.7),
    SCARClassifier(0.7, method="likelihood"),
    SCARClassifier(0.7, estimator=TREE),
    NaiveClassifier(),
    NaiveClassifier(TREE),
    NaiveClassifier(LOGISTIC),
    SAREMClassifier(TREE, **CROSSED),
    SAREMClassifier(LOGISTIC, **CROSSED),
    SAREMClassifier(LOGISTIC, GaussianNB(), **CROSSED),
    PropensityWeightedClassifier(TREE, method="likelihood", random_state=0),
    PropensityWeightedClassifier(make_pipeline(FunctionTransformer(), LOGISTIC), method="likelihood", random_state=0),
]


@pytest.fixture(scope="module")
def pu():
    return simulate(240, seed=2)


def fit(model, data, rows, weight=None):
    known = {"propensity": data.e[rows]} if isinstance(model, PropensityWeightedClassifier) else {}
    return clone(model).fit(data.X[rows], data.s[rows], sample_weight=weight, **known)


def summary(model, X):
    parts = [model.predict_proba(X)[:, 1], [model.class_prior_, model.label_frequency_]]
    if isinstance(model, SAREMClassifier):
        parts += [model.predict_propensity(X), [model.log_likelihood_ / 1e3]]
    return np.concatenate(parts)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_equal_copies(pu, model):
    weight = np.random.default_rng(0).integers(0, 4, size=pu.s.size)
    weighted = fit(model, pu, slice(None), weight)
    copied = fit(model, pu, np.repeat(np.arange(pu.s.size), weight))
    np.testing.assert_allclose(summary(weighted, pu.X), summary(copied, pu.X), atol=2e-4)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_rows_of_weight_0_have_no_influence(pu, model):
    weight = (np.arange(pu.s.size) % 4 > 0).astype(float)
    weighted = fit(model, pu, slice(None), weight)
    removed = fit(model, pu, weight > 0)
    np.testing.assert_allclose(summary(weighted, pu.X), summary(removed, pu.X), atol=2e-4)


@pytest.mark.parametrize(
    "model",
    [
        SAREMClassifier(),
        PropensityWeightedClassifier(),
        PropensityWeightedClassifier(method="likelihood"),
        SCARClassifier(),
        NaiveClassifier(),
    ],
    ids=str,
)
def test_weights_of_1_equal_no_weights(pu, model):
    ones = fit(model, pu, slice(None), np.ones(pu.s.size))
    np.testing.assert_array_equal(ones.coef_, fit(model, pu, slice(None)).coef_)
