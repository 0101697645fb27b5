"""Known propensities: the risk and the likelihood against independent optimisers and exact counts."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from scarless import PropensityWeightedClassifier, SCARClassifier
from scarless.metrics import make_pu_scorer
from scarless.models.propensity_weighted import implied_prior
from scarless.pair.logistic import engine_of


def minimum(loss, n_columns, C):
    """Return coefficients and intercept of the penalised minimum of ``loss(z)`` by scipy's BFGS."""

    def objective(beta, X):
        z = X @ beta[:-1] + beta[-1]
        value, slope = loss(z)
        gradient = np.append(X.T @ slope + beta[:-1] / C, slope.sum())
        return value + beta[:-1] @ beta[:-1] / (2 * C), gradient

    def solve(X):
        options = {"gtol": 1e-9, "maxiter": 5000}
        return minimize(objective, np.zeros(n_columns + 1), args=(X,), jac=True, method="BFGS", options=options).x

    return solve


def parameters(model):
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("C", [0.1, 1.0, 50.0])
def test_logistic_risk_is_the_minimum_of_softplus_minus_share_times_logit(pu, C):
    t = pu.s / pu.e
    expected = minimum(lambda z: (np.logaddexp(0, z).sum() - t @ z, expit(z) - t), 4, C)(pu.X)
    model = PropensityWeightedClassifier(C=C, tol=1e-14).fit(pu.X, pu.s, propensity=pu.e)
    np.testing.assert_allclose(parameters(model), expected, atol=1e-6)


def test_logistic_risk_is_the_papers_risk_on_signed_copies(pu):
    labelled = pu.s == 1
    X = np.vstack([pu.X[labelled], pu.X])
    y = np.append(np.ones(labelled.sum()), np.zeros(pu.s.size))
    weight = np.append(1 / pu.e[labelled], 1 - pu.s / pu.e)
    paper = LogisticRegression(tol=1e-10, max_iter=2000).fit(X, y, sample_weight=weight)
    model = PropensityWeightedClassifier(tol=1e-14).fit(pu.X, pu.s, propensity=pu.e)
    np.testing.assert_allclose(parameters(model), parameters(paper), atol=1e-5)


@pytest.mark.parametrize("method", ["risk", "likelihood"])
def test_propensity_one_is_plain_logistic_regression(pu, method):
    plain = LogisticRegression(tol=1e-10, max_iter=2000).fit(pu.X, pu.s)
    model = PropensityWeightedClassifier(method=method, tol=1e-14).fit(pu.X, pu.s, propensity=1.0)
    np.testing.assert_allclose(parameters(model), parameters(plain), atol=1e-5)


@pytest.mark.parametrize("C", [0.1, 1.0, 50.0])
def test_logistic_likelihood_is_the_maximum_of_the_observed_likelihood(pu, C):
    s, e = pu.s, pu.e

    def loss(z):
        f = expit(z)
        value = -np.where(s == 1, np.log(f * e), np.log1p(-f * e)).sum()
        return value, -np.where(s == 1, 1 - f, -f * (1 - f) * e / (1 - f * e))

    expected = minimum(loss, 4, C)(pu.X)
    model = PropensityWeightedClassifier(method="likelihood", C=C, tol=1e-14).fit(pu.X, s, propensity=e)
    np.testing.assert_allclose(parameters(model), expected, atol=1e-5)


def test_em_with_logistic_regression_reaches_the_direct_maximum(pu):
    inner = LogisticRegression(tol=1e-10, max_iter=1000)
    em = PropensityWeightedClassifier(inner, method="likelihood", cv=None, tol=1e-12, max_iter=2000)
    em.fit(pu.X, pu.s, propensity=pu.e)
    direct = PropensityWeightedClassifier(method="likelihood", tol=1e-14).fit(pu.X, pu.s, propensity=pu.e)
    np.testing.assert_allclose(parameters(em.estimator_), parameters(direct), atol=1e-4)


def test_the_likelihood_beats_the_risk_for_small_propensities(simulated):
    errors = {"risk": [], "likelihood": []}
    for seed in range(8):
        data = simulated(n=600, seed=seed, low=0.05, high=0.3)
        for method, error in errors.items():
            model = PropensityWeightedClassifier(method=method).fit(data.X, data.s, propensity=data.e)
            error.append(np.mean((model.predict_proba(data.X)[:, 1] - data.f) ** 2))
    assert np.mean(errors["likelihood"]) < 0.7 * np.mean(errors["risk"])


def test_class_prior_of_the_risk_is_the_mean_share(pu):
    # The intercept is free, so its equation holds exactly: the mean prediction is the mean of s/e.
    model = PropensityWeightedClassifier(tol=1e-14).fit(pu.X, pu.s, propensity=pu.e)
    assert model.class_prior_ == pytest.approx((pu.s / pu.e).mean(), abs=1e-8)
    p = model.predict_proba(pu.X)[:, 1]
    assert model.label_frequency_ == pytest.approx((p @ pu.e) / p.sum())


def test_posterior_is_one_for_labelled_rows_and_the_formula_for_others(pu):
    model = PropensityWeightedClassifier().fit(pu.X, pu.s, propensity=pu.e)
    f = model.predict_proba(pu.X)[:, 1]
    expected = np.where(pu.s == 1, 1.0, f * (1 - pu.e) / (1 - f * pu.e))
    np.testing.assert_allclose(model.predict_posterior(pu.X, pu.s, pu.e), expected)
    assert model.predict_posterior(pu.X[:3], pu.s[:3], 0.5).shape == (3,)


def test_prior_above_one_warns_at_the_users_line_and_stays_finite(simulated):
    data = simulated(n=300)
    X = 0.1 * data.X
    with pytest.warns(ConvergenceWarning, match="imply a class prior of .* more positives than rows") as record:
        model = PropensityWeightedClassifier().fit(X, data.s, propensity=0.9 * data.s.mean())
    assert np.isfinite(parameters(model)).all()
    assert model.class_prior_ > 0.99
    assert record[0].filename == __file__


def test_prior_above_one_keeps_weights_equal_to_copies(simulated):
    data = simulated(n=200)
    X, weight = 0.1 * data.X, np.where(np.arange(200) % 3 == 0, 2, 1)
    e = np.full(200, 0.5 * data.s.mean())
    model = PropensityWeightedClassifier(tol=1e-13)
    with pytest.warns(ConvergenceWarning, match="class prior"):
        weighted = clone(model).fit(X, data.s, propensity=e, sample_weight=weight)
    rows = np.repeat(np.arange(200), weight)
    with pytest.warns(ConvergenceWarning, match="class prior"):
        copied = clone(model).fit(X[rows], data.s[rows], propensity=e[rows])
    np.testing.assert_allclose(parameters(weighted), parameters(copied), rtol=1e-4)


def test_a_second_fit_forgets_the_first(pu):
    # Regression: predictions used the coefficients of an earlier logistic fit instead of the new estimator.
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    model = PropensityWeightedClassifier().fit(pu.X, pu.s, propensity=pu.e)
    model.set_params(estimator=tree).fit(pu.X, pu.s, propensity=pu.e)
    fresh = PropensityWeightedClassifier(tree).fit(pu.X, pu.s, propensity=pu.e)
    np.testing.assert_array_equal(model.predict_proba(pu.X), fresh.predict_proba(pu.X))
    assert not hasattr(model, "coef_")
    model.set_params(estimator=None).fit(pu.X, pu.s, propensity=pu.e)
    assert not hasattr(model, "estimator_")


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_routed_propensities_follow_their_rows(pu, in_pipeline):
    with config_context(enable_metadata_routing=True):
        model = PropensityWeightedClassifier().set_fit_request(propensity=True)
        if in_pipeline:
            model = Pipeline([("scale", StandardScaler()), ("model", model)])
        folds = StratifiedKFold(4, shuffle=True, random_state=0)
        scoring = make_scorer(lambda s, p: -log_loss(s, p), response_method="predict_proba")
        params = {"propensity": pu.e}
        routed = cross_val_score(model, pu.X, pu.s, cv=folds, params=params, scoring=scoring)
        for score, (train, test) in zip(routed, folds.split(pu.X, pu.s), strict=True):
            fold = clone(model).fit(pu.X[train], pu.s[train], propensity=pu.e[train])
            p = fold.predict_proba(pu.X[test])[:, 1]
            s = pu.s[test]
            assert score == pytest.approx(np.mean(s * np.log(p) + (1 - s) * np.log(1 - p)))
        shuffled = {"propensity": np.random.default_rng(0).permutation(pu.e)}
        assert not np.allclose(cross_val_score(model, pu.X, pu.s, cv=folds, params=shuffled, scoring=scoring), routed)


def test_routed_propensities_reach_a_grid_search(pu):
    with config_context(enable_metadata_routing=True):
        model = PropensityWeightedClassifier().set_fit_request(propensity=True)
        search = GridSearchCV(model, {"C": [0.01, 1.0]}, scoring=make_pu_scorer("roc_auc"), cv=3)
        search.fit(pu.X, pu.s, propensity=pu.e)
        best = PropensityWeightedClassifier(C=search.best_params_["C"]).fit(pu.X, pu.s, propensity=pu.e)
        np.testing.assert_array_equal(search.best_estimator_.coef_, best.coef_)


def memorising(**options):
    from sklearn.tree import DecisionTreeClassifier

    params = {"method": "likelihood", "max_iter": 20, "random_state": 0} | options
    return PropensityWeightedClassifier(DecisionTreeClassifier(random_state=0), **params)


def test_a_memorising_tree_finds_the_class_prior_only_if_cross_fitted(simulated):
    data = simulated(n=600, low=0.2, high=0.6)
    true = data.y.mean()
    crossed = memorising(cv=5).fit(data.X, data.s, propensity=data.e).class_prior_
    with pytest.warns(UserWarning, match="an estimator that memorises labels"):
        plain = memorising(cv=None).fit(data.X, data.s, propensity=data.e).class_prior_
    assert abs(plain - true) > 0.15  # it finds only the labelled rows
    assert abs(crossed - true) < 0.5 * abs(plain - true)


def test_a_cross_fit_has_one_estimator_for_each_fold_and_predicts_their_mean(pu):
    model = memorising(cv=3).fit(pu.X, pu.s, propensity=pu.e)
    assert len(model.estimators_) == 3
    assert not hasattr(model, "estimator_")
    p = [np.clip(each.predict(pu.X), 1e-6, 1 - 1e-6) for each in model.estimators_]
    u = np.mean([np.log(each / (1 - each)) for each in p], axis=0)
    crossed = model._learner.crossed
    np.testing.assert_allclose(model.predict_proba(pu.X)[:, 1], expit(crossed.slope * u + crossed.level))


def test_slope_and_shift_of_a_cross_fit_maximise_the_likelihood(pu):
    model = memorising(cv=3).fit(pu.X, pu.s, propensity=pu.e)
    crossed = model._learner.crossed

    def loss(theta):
        f = expit(theta[0] * crossed.fit.u + theta[1])
        return -np.where(pu.s == 1, np.log(f), np.log1p(-f * pu.e)).sum() + 0.5 * theta[0] ** 2 / 100.0

    best = minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose([crossed.slope, crossed.level], best, atol=1e-3)
    assert model.class_prior_ == pytest.approx(expit(best[0] * crossed.fit.u + best[1]).mean(), abs=1e-3)


def test_a_cross_fit_boosts_and_pickles(pu):
    import pickle

    from sklearn.ensemble import HistGradientBoostingClassifier

    boosting = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=4, max_bins=16)
    model = PropensityWeightedClassifier(boosting, method="likelihood", cv=3, random_state=0)
    model.fit(pu.X, pu.s, propensity=pu.e)
    stored = pickle.dumps(model)
    np.testing.assert_array_equal(pickle.loads(stored).predict_proba(pu.X), model.predict_proba(pu.X))
    assert pu.X[:3].tobytes() not in stored
    naive = LogisticRegression().fit(pu.X, pu.s).predict_proba(pu.X)[:, 1]
    assert np.mean((model.predict_proba(pu.X)[:, 1] - pu.f) ** 2) < 0.5 * np.mean((naive - pu.f) ** 2)


def test_rows_of_weight_0_and_of_no_fold_do_not_count_in_a_cross_fit(pu):
    weight = (np.arange(pu.s.size) >= 40).astype(float)
    odd = pu.e.copy()
    odd[:40] = 0.01
    one = memorising(cv=3).fit(pu.X, pu.s, propensity=odd, sample_weight=weight)
    other = memorising(cv=3).fit(pu.X[40:], pu.s[40:], propensity=pu.e[40:])
    np.testing.assert_array_equal(one.predict_proba(pu.X), other.predict_proba(pu.X))
    assert one.class_prior_ == pytest.approx(other.class_prior_)
    folds = list(StratifiedKFold(4).split(pu.X, pu.s))[:3]
    some, judged = memorising(cv=folds).fit(pu.X, pu.s, propensity=pu.e), np.concatenate([b for _, b in folds])
    crossed = some._learner.crossed
    assert some.class_prior_ == pytest.approx(expit(crossed(crossed.fit.u[judged])).mean())


def test_invalid_folds_of_a_cross_fit_are_refused(pu):
    for given in (True, 0.5, "five"):
        with pytest.raises(ValueError, match="cv must be a number of folds, a splitter such as"):
            memorising(cv=given).fit(pu.X, pu.s, propensity=pu.e)


def test_propensities_whose_inverse_overflows_get_a_warning():
    s = np.array([1, 0, 1, 0])
    with pytest.warns(ConvergenceWarning, match="more positives than rows"):
        model = PropensityWeightedClassifier().fit(np.eye(4), s, propensity=np.full(4, 5e-324))
    assert np.isfinite(model.predict_proba(np.eye(4))).all()


def _with_propensities_down_to(smallest, seed=0, n=3000):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = rng.random(n) < expit(2 * X[:, 0] - X[:, 1] - 0.6)
    e = np.exp(np.log(smallest) * rng.random(n))
    return X, y, (y & (rng.random(n) < e)).astype(int), e


@pytest.mark.parametrize("seed", range(4))
def test_a_few_rows_with_most_of_the_weight_get_a_warning(seed):
    X, _, s, e = _with_propensities_down_to(1e-4, seed)
    with pytest.warns(UserWarning, match=r"labelled rows are worth only \d+ rows of equal weight.*max_weight=20"):
        PropensityWeightedClassifier().fit(X, s, propensity=e)


def test_effective_rows_are_those_of_the_weights():
    rng = np.random.default_rng(0)
    s, e, w = (rng.random(200) < 0.3).astype(float), rng.uniform(0.01, 1, 200), rng.integers(1, 4, 200).astype(float)
    found = implied_prior(engine_of(np.empty((200, 0)), s=s, e=e, w=w))
    k = s / e
    assert found.effective == pytest.approx((w @ k) ** 2 / (w @ k**2))
    assert found.labelled == w @ s


@pytest.mark.parametrize("seed", range(4))
def test_moderate_propensities_get_no_warning(seed):
    X, _, s, e = _with_propensities_down_to(0.1, seed)
    PropensityWeightedClassifier().fit(X, s, propensity=e)  # pytest turns warnings into errors


def test_max_weight_equals_larger_propensities():
    X, _, s, e = _with_propensities_down_to(1e-3)
    cut = PropensityWeightedClassifier(max_weight=10).fit(X, s, propensity=e)
    with pytest.warns(UserWarning, match=r"predict 105\.2 labelled rows .* but 162 are labelled\. Possible causes are"):
        same = PropensityWeightedClassifier().fit(X, s, propensity=np.maximum(e, 0.1))
    np.testing.assert_array_equal(cut.coef_, same.coef_)


@pytest.mark.parametrize("method", ["risk", "likelihood"])
@pytest.mark.parametrize("seed", range(3))
def test_probabilities_of_a_label_are_no_propensities(method, seed):
    """A "propensity score" is Pr(s=1|x); with it, nearly all rows would be positive. True propensities do not warn."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 4))
    y, e = rng.random(3000) < expit(1.5 * X[:, 0] - 0.7), expit(1.5 * X[:, 1] - 0.5)
    s = (y & (rng.random(3000) < e)).astype(int)
    score = LogisticRegression().fit(X, s).predict_proba(X)[:, 1]
    model = PropensityWeightedClassifier(method=method)
    with pytest.warns(UserWarning, match=r"They seem to be probabilities Pr\(s=1\|x\) that a row is labelled, often"):
        assert model.fit(X, s, propensity=score).class_prior_ > 0.8
    assert abs(model.fit(X, s, propensity=e).class_prior_ - y.mean()) < 0.07
    if method == "risk":
        with pytest.warns(UserWarning, match="the estimate of the risk is negative.* Either the propensities are too"):
            model.fit(X, s, propensity=1.0 - e)


def test_probabilities_that_do_not_predict_the_number_of_labels_get_a_warning():
    """The penalty is so strong that the risk is not negative, although the propensities are wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y, e = rng.random(3000) < expit(1.5 * X[:, 0] - 0.7), expit(1.5 * X[:, 1] - 0.5)
    s = (y & (rng.random(3000) < e)).astype(int)
    wrong = np.clip(expit(-0.5 * X[:, 1]), 0.2, 0.9)
    with pytest.warns(
        UserWarning, match=r"predict 540 labelled rows \(.*\), but \d+ are labelled\. Possible causes are"
    ):
        PropensityWeightedClassifier(C=0.0003).fit(X, s, propensity=wrong)


@pytest.mark.parametrize("share", [0.18, 0.38])
def test_a_label_frequency_that_is_too_low_gets_a_warning(share):
    """With the right one, the risk is positive, and both methods find the class prior."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5))
    z = 3.0 * X @ [1.0, -1.0, 0.5, 0.0, 0.0]
    y = rng.random(5000) < expit(z - np.quantile(z, 1.0 - share))
    s = (y & (rng.random(5000) < 0.5)).astype(int)
    for method in ("risk", "likelihood"):
        assert abs(SCARClassifier(0.5, method=method).fit(X, s).class_prior_ - y.mean()) < 0.03
    with pytest.warns(
        UserWarning,
        match=r"SCARClassifier: the estimate of the risk is negative \(-.*Either the label frequency is too",
    ):
        assert SCARClassifier(0.2).fit(X, s).class_prior_ > 2 * y.mean()
    with pytest.warns(UserWarning, match=r"gives a class prior of 0\.[0-9]+, .* but the propensities imply 0\.[0-9]+"):
        SCARClassifier(0.2, method="likelihood").fit(X, s)


@pytest.mark.parametrize("wrong", [0.5, "10", True, np.nan, 10**400])
def test_max_weight_below_1_is_refused(wrong):
    X, _, s, e = _with_propensities_down_to(0.1)
    with pytest.raises(ValueError, match="max_weight, the largest weight 1/e of a labelled row, must be a number"):
        PropensityWeightedClassifier(max_weight=wrong).fit(X, s, propensity=e)


def test_max_weight_needs_the_risk():
    X, _, s, e = _with_propensities_down_to(0.1)
    with pytest.raises(ValueError, match="max_weight needs method='risk'"):
        PropensityWeightedClassifier(method="likelihood", max_weight=10).fit(X, s, propensity=e)
