"""EM for any pair of models: ascent, stopping rule, estimators of every kind."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from scarless import NaiveClassifier, SAREMClassifier


@pytest.mark.parametrize("attributes", [None, [2]])
def test_log_likelihood_rises_without_a_penalty(pu, attributes):
    model = SAREMClassifier(solver="em", propensity_attributes=attributes, C=np.inf, propensity_C=np.inf)
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
    options = {"solver": "em", "propensity_attributes": [2], "window": window}
    model = SAREMClassifier(tol=tol, slope_tol=slope_tol, **options).fit(pu.X, pu.s)
    mean = model.history_["log_likelihood"] / pu.s.size
    slope = model.history_["slope"]
    met = [i >= window - 1 and mean[i] - mean[i - window + 1] < tol and slope[i] < slope_tol for i in range(mean.size)]
    assert model.converged_
    assert met[-1]
    assert not any(met[:-1])
    assert np.isinf(slope[: window - 1]).all()
    assert np.isfinite(slope[window - 1 :]).all()


def test_slope_is_that_of_a_line_through_the_last_propensities(pu):
    # Runs cut after each number of iterations give the propensities on the way.
    e = []
    for max_iter in range(1, 5):
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            model = SAREMClassifier(
                solver="em", propensity_attributes=[2], window=3, tol=1e-12, slope_tol=1e-12, max_iter=max_iter
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
    model = SAREMClassifier(
        estimator, propensity_estimator, propensity_attributes=[2], cv=None, tol=1e-2, slope_tol=1e-3, max_iter=15
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
    foreign = SAREMClassifier(inner, inner, cv=None, **options).fit(pu.X, pu.s)
    own = SAREMClassifier(solver="em", **options).fit(pu.X, pu.s)
    np.testing.assert_allclose(foreign.predict_proba(pu.X), own.predict_proba(pu.X), atol=1e-4)
    np.testing.assert_allclose(foreign.predict_propensity(pu.X), own.predict_propensity(pu.X), atol=1e-4)


@pytest.mark.parametrize(("frame", "cross_fit"), [(pd.DataFrame, None), (pl.DataFrame, 2)])
def test_text_columns_are_the_classifiers_business(pu, frame, cross_fit):
    # The logistic propensity model used to refuse the whole table at prediction, after a fit that went well.
    columns = {name: pu.X[:, i] for i, name in enumerate("abcd")}
    table = frame({**columns, "kind": np.where(pu.X[:, 0] > 0, "high", "low").tolist()})
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["kind"]), remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression(max_iter=1000))
    model = SAREMClassifier(pipeline, propensity_attributes=["c"], cv=cross_fit, tol=1e-2).fit(table, pu.s)
    e = model.predict_propensity(table)
    np.testing.assert_allclose(e, 1 / (1 + np.exp(-pu.X @ model.propensity_coef_[0, :4] - model.propensity_intercept_)))
    assert model.predict_posterior(table, pu.s).shape == pu.s.shape


@pytest.mark.parametrize("cross_fit", [5, None])
def test_missing_values_are_the_classifiers_business(pu, cross_fit):
    X = pu.X.copy()
    X[::7, 0] = np.nan
    boosting = HistGradientBoostingClassifier(max_iter=3, max_bins=16)
    options = {"tol": 0.1, "slope_tol": 0.1, "window": 2, "cross_fit": cross_fit, "random_state": 0}
    model = SAREMClassifier(boosting, propensity_attributes=[2], **options).fit(X, pu.s)
    assert np.isfinite(model.predict_propensity(X)).all()
    assert np.isfinite(model.predict_proba(X)).all()


def test_verbose_prints_each_iteration_of_newton(pu, capsys):
    model = SAREMClassifier(propensity_attributes=[2], n_starts=2, verbose=True).fit(pu.X, pu.s)
    lines = capsys.readouterr().out.splitlines()
    paper = [line for line in lines if line.startswith("paper, iteration ")]
    assert len(paper) < len(lines)
    history, objective = model.history_, model.basins_[0].objective / pu.s.size
    assert len(paper) == model.n_iter_ == history["gain"].size
    assert paper[-1] == (
        f"paper, iteration {model.n_iter_}: objective per row {objective:.6f}, predicted gain "
        f"{history['gain'][-1] / pu.s.size:.1e}, step 0"
    )
    SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    assert not capsys.readouterr().out


def test_verbose_prints_each_iteration(pu, capsys):
    model = SAREMClassifier(solver="em", tol=1e-2, slope_tol=1e-2, verbose=True).fit(pu.X, pu.s)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("log-likelihood per row")
