"""EM as published, for any pair of models: rising likelihood, stopping rule, refit, estimators and tables."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import parameters_of

from scarless import NaiveClassifier, PropensityWeightedClassifier, PublishedEMClassifier


@pytest.mark.parametrize("attributes", [None, [2]])
def test_log_likelihood_rises_without_a_penalty(pu, attributes):
    model = PublishedEMClassifier(propensity_attributes=attributes, C=np.inf, propensity_C=np.inf)
    model.fit(pu.X, pu.s)
    history = model.history_
    assert (np.diff(history["log_likelihood"]) > -1e-8).all()
    assert history["log_likelihood"].size == history["slope"].size == model.n_iter_ + 1
    assert history["log_likelihood"][-1] == pytest.approx(model.log_likelihood_)


@pytest.mark.parametrize(
    ("tol", "slope_tol", "window"),
    [(1e-3, 1.0, 2), (1e-3, 1.0, 10), (1.0, 1e-3, 2), (1.0, 1e-3, 10), (1e-4, 1e-4, 5)],
)
def test_stops_at_the_first_iteration_that_meets_both_rules(pu, window, tol, slope_tol):
    options = {"propensity_attributes": [2], "window": window}
    model = PublishedEMClassifier(tol=tol, slope_tol=slope_tol, **options).fit(pu.X, pu.s)
    mean = model.history_["log_likelihood"] / pu.s.size
    slope = model.history_["slope"]
    met = [i >= window - 1 and mean[i] - mean[i - window + 1] < tol and slope[i] < slope_tol for i in range(mean.size)]
    assert model.converged_
    assert met[-1]
    assert not any(met[:-1])
    assert np.isinf(slope[: window - 1]).all()
    assert np.isfinite(slope[window - 1 :]).all()


def test_slope_is_that_of_a_line_through_the_last_propensities(pu):
    # Fits with max_iter of 1, 2, ... give the propensities after each iteration.
    e = []
    for max_iter in range(1, 5):
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            model = PublishedEMClassifier(
                propensity_attributes=[2], window=3, tol=1e-12, slope_tol=1e-12, max_iter=max_iter
            ).fit(pu.X, pu.s)
        e.append(model.predict_propensity(pu.X))
    expected = np.abs(np.polyfit(np.arange(3), np.array(e[-3:]), 1)[0]).mean()
    assert model.history_["slope"][-1] == pytest.approx(expected, rel=1e-6)


PAIRS = [
    (LogisticRegression(), LogisticRegression()),
    (make_pipeline(StandardScaler(), LogisticRegression()), None),
    (None, GaussianNB()),
    (
        HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, learning_rate=0.5, max_bins=16),
        DecisionTreeClassifier(max_depth=2),
    ),
    (RandomForestClassifier(10, min_samples_leaf=20, random_state=0), LogisticRegression()),
    (GaussianNB(), RandomForestClassifier(5, min_samples_leaf=30, random_state=0)),
]


@pytest.mark.parametrize(("estimator", "propensity_estimator"), PAIRS, ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_pair_of_classifiers(pu, estimator, propensity_estimator):
    model = PublishedEMClassifier(
        estimator, propensity_estimator, propensity_attributes=[2], tol=1e-2, slope_tol=1e-3, max_iter=15
    ).fit(pu.X, pu.s)
    p, e = model.predict_proba(pu.X), model.predict_propensity(pu.X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert ((e >= 0) & (e <= 1)).all()
    assert hasattr(model, "estimator_") == (estimator is not None) != hasattr(model, "coef_")
    assert (
        hasattr(model, "propensity_estimator_")
        == (propensity_estimator is not None)
        != hasattr(model, "propensity_coef_")
    )
    naive = NaiveClassifier(estimator).fit(pu.X, pu.s)
    assert np.mean((p[:, 1] - pu.f) ** 2) < np.mean((naive.predict_proba(pu.X)[:, 1] - pu.f) ** 2)


def test_logistic_regressions_of_scikit_learn_are_ours(pu):
    inner = LogisticRegression(tol=1e-10, max_iter=1000)
    options = {"propensity_attributes": [2], "tol": 1e-9, "slope_tol": 1e-6, "max_iter": 5000}
    foreign = PublishedEMClassifier(inner, inner, **options).fit(pu.X, pu.s)
    own = PublishedEMClassifier(**options).fit(pu.X, pu.s)
    np.testing.assert_allclose(foreign.predict_proba(pu.X), own.predict_proba(pu.X), atol=1e-4)
    np.testing.assert_allclose(foreign.predict_propensity(pu.X), own.predict_propensity(pu.X), atol=1e-4)


def test_the_classifier_can_read_text_columns(pu):
    # Regression: after a successful fit, the logistic propensity model refused the table at prediction.
    columns = {name: pu.X[:, i] for i, name in enumerate("abcd")}
    table = pd.DataFrame({**columns, "kind": np.where(pu.X[:, 0] > 0, "high", "low").tolist()})
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["kind"]), remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression(max_iter=1000))
    model = PublishedEMClassifier(pipeline, propensity_attributes=["c"], tol=1e-2, slope_tol=1e-2).fit(table, pu.s)
    e = model.predict_propensity(table)
    np.testing.assert_allclose(e, 1 / (1 + np.exp(-pu.X @ model.propensity_coef_[0, :4] - model.propensity_intercept_)))
    assert model.predict_posterior(table, pu.s).shape == pu.s.shape


def test_the_classifier_can_read_missing_values(pu):
    X = pu.X.copy()
    X[::7, 0] = np.nan
    boosting = HistGradientBoostingClassifier(max_iter=3, max_bins=16)
    options = {"tol": 0.1, "slope_tol": 0.1, "window": 2}
    model = PublishedEMClassifier(boosting, propensity_attributes=[2], **options).fit(X, pu.s)
    assert np.isfinite(model.predict_propensity(X)).all()
    assert np.isfinite(model.predict_proba(X)).all()


def test_verbose_prints_each_iteration(pu, capsys):
    model = PublishedEMClassifier(tol=1e-2, slope_tol=1e-2, verbose=True).fit(pu.X, pu.s)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("log-likelihood per row")


def test_without_attributes_the_propensity_is_one_constant_that_solves_its_equation(pu):
    model = PublishedEMClassifier(tol=1e-11, slope_tol=1e-9, max_iter=20_000).fit(pu.X, pu.s)
    e = model.predict_propensity(pu.X)
    assert np.ptp(e) == 0
    q = model.predict_posterior(pu.X, pu.s)
    assert e[0] == pytest.approx((q @ pu.s) / q.sum(), abs=1e-5)
    assert model.label_frequency_ == pytest.approx(e[0])
    assert (model.propensity_coef_ == 0).all()
    assert expit(model.propensity_intercept_[0]) == pytest.approx(e[0])


def test_classifier_sees_its_attributes_only(pu):
    model = PublishedEMClassifier(propensity_attributes=[3, 2], classification_attributes=[1, 0]).fit(pu.X, pu.s)
    assert (model.coef_[0, 2:] == 0).all()
    assert (model.propensity_coef_[0, :2] == 0).all()
    changed = pu.X.copy()
    changed[:, 2:] = 7.0
    np.testing.assert_array_equal(model.predict_proba(changed), model.predict_proba(pu.X))
    ordered = PublishedEMClassifier(propensity_attributes=[2, 3], classification_attributes=slice(0, 2))
    np.testing.assert_allclose(parameters_of(ordered.fit(pu.X, pu.s)), parameters_of(model), atol=1e-6)


# --- refit


def test_refit_is_the_risk_with_the_estimated_propensity(pu):
    plain = PublishedEMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    refit = PublishedEMClassifier(propensity_attributes=[2], refit=True).fit(pu.X, pu.s)
    known = PropensityWeightedClassifier(tol=1e-13).fit(pu.X, pu.s, propensity=plain.predict_propensity(pu.X))
    np.testing.assert_allclose(refit.coef_, known.coef_, atol=1e-4)
    np.testing.assert_array_equal(refit.propensity_coef_, plain.propensity_coef_)
    with pytest.raises(ValueError, match="has no standard errors"):
        refit.standard_errors()


def test_refit_of_other_estimators(pu):
    options = {"propensity_attributes": [2], "tol": 1e-3, "slope_tol": 1e-3}
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    refit = PublishedEMClassifier(tree, tree, refit=True, **options).fit(pu.X, pu.s)
    e = refit.predict_propensity(pu.X)
    known = PropensityWeightedClassifier(tree).fit(pu.X, pu.s, propensity=np.maximum(e, 1e-3))
    np.testing.assert_allclose(refit.predict_proba(pu.X), known.predict_proba(pu.X))


def test_refit_with_a_leaf_without_labels(pu):
    # Regression: e is 0 in such a leaf, and s/e was 0/0.
    X = pu.X.copy()
    X[:, 3] = 0.0
    X[np.flatnonzero(pu.s == 0)[:40], 3] = 1.0
    tree = DecisionTreeClassifier(max_depth=1)
    model = PublishedEMClassifier(None, tree, propensity_attributes=[3], classification_attributes=[0, 1], refit=True)
    model.fit(X, pu.s)
    assert model.predict_propensity(X).min() == 0
    assert np.isfinite(model.coef_).all()


# --- tables, protocol


@pytest.mark.parametrize(
    ("convert", "tolerance"), [(sparse.csr_array, 1e-7), (lambda X: X.astype(np.float32), 2e-2)], ids=["csr", "float32"]
)
def test_kinds_of_tables_give_the_same_model(pu, convert, tolerance):
    X = convert(pu.X)
    model = PublishedEMClassifier(propensity_attributes=[2]).fit(X, pu.s)
    reference = PublishedEMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(pu.X), atol=tolerance)
    np.testing.assert_allclose(model.predict_propensity(X), reference.predict_propensity(pu.X), atol=tolerance)


def test_order_of_rows_does_not_matter(pu):
    order = np.random.default_rng(0).permutation(pu.s.size)
    one, other = (
        PublishedEMClassifier(tol=1e-2, slope_tol=1e-2).fit(pu.X[rows], pu.s[rows]) for rows in (slice(None), order)
    )
    np.testing.assert_allclose(parameters_of(one), parameters_of(other), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        PublishedEMClassifier(tol=1e-2),
        PublishedEMClassifier(GaussianNB(), propensity_attributes=[2], tol=1e-2, slope_tol=1e-2),
    ],
)
def test_pickles_clones_and_parameters(pu, model):
    model = clone(model).fit(pu.X, pu.s)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(pu.X), model.predict_proba(pu.X))
    np.testing.assert_array_equal(copy.predict_propensity(pu.X), model.predict_propensity(pu.X))
    twin = PublishedEMClassifier().set_params(**model.get_params(deep=False))
    assert str(twin) == str(clone(model)) == str(model)


def test_a_second_fit_forgets_the_first(pu):
    tree, options = (
        DecisionTreeClassifier(max_depth=2, random_state=0),
        {"propensity_attributes": [2], "tol": 1e-2, "slope_tol": 1e-2},
    )
    model = PublishedEMClassifier(**options).fit(pu.X, pu.s)
    model.set_params(estimator=tree).fit(pu.X, pu.s)
    fresh = PublishedEMClassifier(tree, **options).fit(pu.X, pu.s)
    np.testing.assert_array_equal(model.predict_proba(pu.X), fresh.predict_proba(pu.X))
    assert not hasattr(model, "coef_")
    model.set_params(estimator=None).fit(pu.X, pu.s)
    assert not hasattr(model, "estimator_")
    reference = PublishedEMClassifier(**options).fit(pu.X, pu.s)
    np.testing.assert_array_equal(model.predict_proba(pu.X), reference.predict_proba(pu.X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 1}, "window must be a whole number of at least 2: a slope needs two iterations. Got 1"),
        ({"window": 2.5}, "window must be a whole number of at least 2"),
        ({"slope_tol": 0.0}, "slope_tol must be"),
        ({"propensity_C": -1.0}, "propensity_C must be"),
        ({"refit": "yes"}, "refit must be"),
        ({"propensity_estimator": GaussianNB()}, "propensity_estimator is given, but propensity_attributes is None"),
        ({"estimator": LogisticRegression(solver="liblinear"), "refit": True}, "negative weight"),
    ],
    ids=str,
)
def test_the_error_names_the_wrong_parameter(pu, options, message):
    with pytest.raises(ValueError, match=message):
        PublishedEMClassifier(**options).fit(pu.X, pu.s)


def test_two_models_of_the_same_type_and_columns_get_a_warning(pu):
    with pytest.warns(UserWarning, match="PublishedEMClassifier: the classifier and .* use the same 4 attributes"):
        PublishedEMClassifier(propensity_attributes=[0, 1, 2, 3], max_iter=30, tol=1e-3, slope_tol=1e-2).fit(pu.X, pu.s)


def test_the_tolerance_must_be_a_number():
    with pytest.raises(ValueError, match="tol must be"):
        PublishedEMClassifier(propensity_attributes=[0], tol=None).fit([[0.0], [1.0], [2.0]], [0, 1, 0])


def test_whole_numbers_may_be_numpy_integers(pu):
    one, other = (
        PublishedEMClassifier(propensity_attributes=[2], window=kind(3), max_iter=kind(100), slope_tol=0.1).fit(
            pu.X, pu.s
        )
        for kind in (int, np.int8)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)
