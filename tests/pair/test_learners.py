"""Learners: negative weights, propensity-corrected counts, real-valued targets and LightGBM."""

import pickle
import warnings
import weakref

import numpy as np
import pytest
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scarless.pair.logistic
from scarless import NaiveClassifier, PropensityWeightedClassifier, PublishedEMClassifier, SAREMClassifier
from scarless.models.propensity_weighted import negative_weight_problem
from scarless.pair.learners import LogisticLearner, TreeLearner, as_learner, em


def fit_risk(estimator, data, **options):
    return PropensityWeightedClassifier(estimator, **options).fit(data.X, data.s, propensity=data.e)


# --- negative weights

SUPPORTED = [
    LogisticRegression(),
    LogisticRegression(solver="newton-cholesky"),
    LogisticRegression(C=1e-4),
    SGDClassifier(loss="log_loss", random_state=0),
    MLPClassifier(random_state=0, max_iter=20),
    DecisionTreeClassifier(),
    DecisionTreeClassifier(criterion="entropy", max_depth=1),
    DecisionTreeClassifier(min_samples_leaf=2000),
    RandomForestClassifier(10, bootstrap=False, random_state=0),
    ExtraTreesClassifier(10, random_state=0),
    GradientBoostingClassifier(n_estimators=20),
    HistGradientBoostingClassifier(max_iter=20, max_bins=16),
    HistGradientBoostingClassifier(max_iter=20, monotonic_cst=[1, 0, 0, -1], max_bins=16),
    GaussianNB(),
    BernoulliNB(),
    MultinomialNB(),
    ComplementNB(),
    CategoricalNB(),
]


@pytest.mark.parametrize("estimator", SUPPORTED, ids=str)
def test_estimators_that_support_negative_weights_are_accepted(estimator):
    assert negative_weight_problem(estimator) is None


@pytest.mark.parametrize(
    ("estimator", "trouble"),
    [
        (LogisticRegression(solver="liblinear"), "as if rows of negative weight were dropped or misread"),
        (AdaBoostClassifier(), "it raises an error"),
        (CalibratedClassifierCV(GaussianNB(), cv=2), "it raises an error"),
    ],
    ids=str,
)
def test_estimators_that_do_not_support_negative_weights_raise_with_advice(pu, estimator, trouble):
    assert trouble in negative_weight_problem(estimator)
    with pytest.raises(ValueError, match=rf"does not support them: .*{trouble}.*Use estimator=None .*'lbfgs'"):
        fit_risk(estimator, pu)
    with pytest.raises(ValueError, match="does not support them"):
        fit_risk(make_pipeline(StandardScaler(), estimator), pu)


def test_liblinear_silently_drops_rows_of_negative_weight(pu):
    labelled = np.flatnonzero(pu.s)
    X, y = np.vstack([pu.X[labelled], pu.X]), np.append(np.ones(labelled.size), np.zeros(pu.s.size))
    weight = np.append(1 / pu.e[labelled], 1 - pu.s / pu.e)
    model = LogisticRegression(solver="liblinear", tol=1e-8, max_iter=1000, random_state=0)
    signed = clone(model).fit(X, y, sample_weight=weight)
    kept = weight > 0
    dropped = clone(model).fit(X[kept], y[kept], sample_weight=weight[kept])
    np.testing.assert_allclose(signed.coef_, dropped.coef_, atol=1e-4)
    exact = fit_risk(None, pu)
    assert np.abs(signed.coef_ - exact.coef_).max() > 0.05


def test_liblinear_is_accepted_if_no_weight_is_negative(pu):
    inner = LogisticRegression(solver="liblinear")
    PropensityWeightedClassifier(inner).fit(pu.X, pu.s, propensity=1.0)
    NaiveClassifier(inner).fit(pu.X, pu.s)
    fit_risk(inner, pu, method="likelihood")


def test_refits_check_negative_weights_too(pu):
    with pytest.raises(ValueError, match="LogisticRegression does not support them"):
        PublishedEMClassifier(LogisticRegression(solver="liblinear"), refit=True).fit(pu.X, pu.s)


# --- estimators that predict by counts use propensity-corrected counts


def test_leaf_values_are_corrected_shares(pu):
    model = fit_risk(DecisionTreeClassifier(max_depth=3, random_state=0), pu)
    leaf = model.estimator_.apply(pu.X)
    p = model.predict_proba(pu.X)[:, 1]
    for number in np.unique(leaf):
        here = leaf == number
        share = (pu.s / pu.e)[here].mean()
        np.testing.assert_allclose(p[here], np.clip(share, 0, 1), atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(pu.X).sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("forest", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"max_depth": 3}, {"max_depth": 4, "ccp_alpha": 0.004}, {"max_depth": 4, "min_impurity_decrease": 0.002}],
    ids=str,
)
def test_regression_trees_equal_the_classification_trees(options, forest, seed):
    """Gini's index and the squared error rank splits in the same way, so the trees are equal.

    The trees are not fully grown: in small nodes many splits are tied, and rounding decides.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 3))
    s = (rng.random(600) < expit(X[:, 0])).astype(int)
    estimator = RandomForestClassifier(3, **options) if forest else DecisionTreeClassifier(**options)
    estimator.set_params(random_state=0)
    twin = TreeLearner(estimator, name="estimator")
    twin.fit(X, s.astype(float), np.ones(600))
    direct = clone(estimator).fit(X, s, sample_weight=np.ones(600)).predict_proba(X)
    np.testing.assert_allclose(twin.probability(X), direct[:, 1], atol=1e-12)
    naive = NaiveClassifier(estimator).fit(X, s)
    np.testing.assert_allclose(naive.predict_proba(X), direct, atol=1e-12)
    assert type(naive.estimator_) is type(estimator)  # plain labels need no regressor


def test_trees_do_not_scale_targets_whose_mean_is_above_1(pu):
    """Leaf means always exist, so targets are not scaled down, and there is no warning."""
    e = np.full(pu.s.size, 0.9 * pu.s.mean())
    model = PropensityWeightedClassifier(DecisionTreeClassifier(max_depth=1, random_state=0)).fit(
        pu.X, pu.s, propensity=e
    )
    leaf = model.estimator_.apply(pu.X)
    for number in np.unique(leaf):
        share = (pu.s / e)[leaf == number].mean()
        np.testing.assert_allclose(model.predict_proba(pu.X)[leaf == number, 1], min(share, 1.0))


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(5, max_depth=2, random_state=0), HistGradientBoostingClassifier(max_iter=5, max_bins=16)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_start_of_the_estimator_does_not_stop_em(pu, estimator):
    options = {"method": "likelihood", "cv": None, "max_iter": 3, "tol": 1e-12}
    cold = fit_risk(estimator, pu, **options)
    warm = fit_risk(clone(estimator).set_params(warm_start=True), pu, **options)
    np.testing.assert_allclose(cold.predict_proba(pu.X), warm.predict_proba(pu.X))


def test_a_nested_pipeline_needs_no_metadata_requests(pu):
    inner = make_pipeline(StandardScaler(), GaussianNB())
    plain = fit_risk(inner, pu, method="likelihood", random_state=0)
    with config_context(enable_metadata_routing=True):
        routed = fit_risk(inner, pu, method="likelihood", random_state=0)
    np.testing.assert_allclose(plain.predict_proba(pu.X), routed.predict_proba(pu.X))


def test_signed_copies_give_the_same_first_split(pu):
    """A classification tree on the paper's weighted copies equals the regression tree."""
    labelled = np.flatnonzero(pu.s)
    X, y = np.vstack([pu.X[labelled], pu.X]), np.append(np.ones(labelled.size), np.zeros(pu.s.size))
    weight = np.append(1 / pu.e[labelled], 1 - pu.s / pu.e)
    stump = DecisionTreeClassifier(max_depth=1, random_state=0)
    copies = clone(stump).fit(X, y, sample_weight=weight)
    model = fit_risk(stump, pu)
    np.testing.assert_allclose(model.predict_proba(pu.X), np.clip(copies.predict_proba(pu.X), 0, 1), atol=1e-9)


def test_forest_with_bootstrap_averages_corrected_shares(pu):
    model = fit_risk(RandomForestClassifier(5, max_depth=3, random_state=0), pu)
    trees = [tree.predict(pu.X) for tree in model.estimator_.estimators_]
    np.testing.assert_allclose(model.predict_proba(pu.X)[:, 1], np.clip(np.mean(trees, axis=0), 0, 1), atol=1e-12)
    assert model.class_prior_ == pytest.approx((pu.s / pu.e).mean(), abs=0.05)


def test_limits_on_rows_per_leaf_count_rows_and_not_copies(pu):
    model = fit_risk(DecisionTreeClassifier(min_samples_leaf=40, random_state=0), pu)
    assert np.unique(model.estimator_.apply(pu.X), return_counts=True)[1].min() >= 40


def test_trees_at_the_end_of_a_pipeline_and_with_class_weights(pu):
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    bare, piped = fit_risk(tree, pu), fit_risk(make_pipeline(StandardScaler(), tree), pu)
    np.testing.assert_allclose(bare.predict_proba(pu.X), piped.predict_proba(pu.X))
    assert isinstance(tree, DecisionTreeClassifier)
    with pytest.warns(UserWarning, match=r"has class_weight=.*Leave class_weight out"):
        weighted = fit_risk(DecisionTreeClassifier(max_depth=2, class_weight={0: 1, 1: 3}, random_state=0), pu)
    assert isinstance(weighted.estimator_, DecisionTreeClassifier)  # fitted with copies, so class weights apply
    assert weighted.class_prior_ > bare.class_prior_


def test_forest_of_equal_trees_is_the_tree(pu):
    options = {"max_depth": 3, "random_state": 0}
    forest = fit_risk(RandomForestClassifier(3, bootstrap=False, max_features=None, **options), pu)
    tree = fit_risk(DecisionTreeClassifier(**options), pu)
    np.testing.assert_allclose(forest.predict_proba(pu.X), tree.predict_proba(pu.X), atol=1e-9)


@pytest.mark.parametrize("estimator", [BernoulliNB(), MultinomialNB()], ids=str)
def test_naive_bayes_holds_corrected_counts(pu, estimator):
    X = (pu.X > 0).astype(float)
    share = pu.s / pu.e
    model = PropensityWeightedClassifier(estimator).fit(X, pu.s, propensity=pu.e).estimator_
    np.testing.assert_allclose(model.class_count_, [(1 - share).sum(), share.sum()])
    np.testing.assert_allclose(model.feature_count_, [(1 - share) @ X, share @ X])


def test_gaussian_naive_bayes_holds_corrected_means(pu):
    share = pu.s / pu.e
    model = fit_risk(GaussianNB(), pu).estimator_
    np.testing.assert_allclose(model.theta_[1], share @ pu.X / share.sum())
    np.testing.assert_allclose(model.theta_[0], (1 - share) @ pu.X / (1 - share).sum())


def test_negative_variances_raise():
    # Labelled rows far from the others have a weight of -19 as negatives, so the variance of negatives is negative.
    X = np.append([-50.0, 50.0], np.linspace(-1, 1, 200))[:, None]
    s = np.append([1, 1], np.zeros(200, dtype=int))
    message = r"probabilities that are NaN or infinite\. Use another classifier.*negative weights.*method='likelihood'"
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        PropensityWeightedClassifier(GaussianNB()).fit(X, s, propensity=0.05)


def test_boosting_on_copies_equals_boosting_on_real_valued_targets(pu):
    # Both copies of a row are in one leaf. Their gradients add up to p - s/e, and their weights to 1.
    options = {"max_iter": 1, "max_leaf_nodes": 4, "min_samples_leaf": 1, "learning_rate": 1.0}
    model = fit_risk(HistGradientBoostingClassifier(early_stopping=False, **options), pu)
    share = pu.s / pu.e
    z = np.log(model.predict_proba(pu.X)[:, 1] / model.predict_proba(pu.X)[:, 0])
    prior = share.mean()
    for value in np.unique(z.round(9)):
        here = np.isclose(z, value)
        newton = (share[here] - prior).sum() / (here.sum() * prior * (1 - prior))
        assert value == pytest.approx(np.log(prior / (1 - prior)) + newton, abs=1e-4)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), DecisionTreeClassifier(max_depth=2, random_state=0), GaussianNB()], ids=str
)
@pytest.mark.parametrize("method", ["risk", "likelihood"])
def test_pipelines_receive_sample_weights(pu, estimator, method):
    options = {"method": method, "max_iter": 500, "random_state": 0}
    plain = fit_risk(estimator, pu, **options)
    shifted = fit_risk(make_pipeline(StandardScaler(with_mean=False, with_std=False), estimator), pu, **options)
    np.testing.assert_allclose(shifted.predict_proba(pu.X), plain.predict_proba(pu.X), atol=1e-3)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        DecisionTreeClassifier(max_depth=2, random_state=0),
        RandomForestClassifier(5, max_depth=2, random_state=0),
        HistGradientBoostingClassifier(max_iter=5, max_bins=16),
        GaussianNB(),
        make_pipeline(StandardScaler(), LogisticRegression(solver="liblinear")),
    ],
    ids=str,
)
def test_likelihood_works_for_every_estimator_with_weights(pu, estimator):
    model = fit_risk(estimator, pu, method="likelihood", tol=1e-3)
    naive = NaiveClassifier(estimator).fit(pu.X, pu.s)
    error = [np.mean((m.predict_proba(pu.X)[:, 1] - pu.f) ** 2) for m in (model, naive)]
    assert error[0] < error[1]


@pytest.mark.parametrize("kind", [SAREMClassifier, PublishedEMClassifier])
def test_a_logistic_model_refuses_missing_values_that_the_other_model_accepts(pu, kind):
    # In an earlier version, Newton's method did not end if there were NaNs.
    X = pu.X.copy()
    X[3, 2] = np.nan
    boosting = HistGradientBoostingClassifier(max_iter=3, max_bins=16)
    message = "A logistic model uses columns with NaN or infinite values"
    for model in (
        kind(boosting, propensity_attributes=[2]),
        kind(None, boosting, propensity_attributes=[0]),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, pu.s)
    options = {"slope_tol": 0.1} if kind is PublishedEMClassifier else {"cv": 2}
    fitted = kind(boosting, propensity_attributes=[2], tol=0.1, **options)
    with pytest.raises(ValueError, match=message):
        fitted.fit(pu.X, pu.s).predict_propensity(X)


def test_logistic_learner_starts_from_its_last_result(pu):
    learner = LogisticLearner(C=1.0)
    learner.fit(pu.X, pu.s.astype(float), np.ones(pu.s.size))
    first = learner.beta.copy()
    learner.fit(pu.X, pu.s.astype(float), np.ones(pu.s.size))
    np.testing.assert_allclose(learner.beta, first, atol=1e-8)


def test_logistic_regression_cv_may_be_a_classifier(pu):
    # LogisticRegressionCV is a subclass of LogisticRegression without warm_start.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about defaults of scikit-learn
        warnings.filterwarnings("ignore", ".*began to memorise labels", UserWarning)  # with some versions
        plain = PublishedEMClassifier(LogisticRegressionCV(Cs=2, cv=2), tol=1e-2, slope_tol=1e-2).fit(pu.X, pu.s)
        crossed = SAREMClassifier(LogisticRegressionCV(Cs=2, cv=2), cv=2, tol=1e-2).fit(pu.X, pu.s)
        assert negative_weight_problem(LogisticRegressionCV()) is not None
    assert [model.Cs for model in (plain.estimator_, *crossed.estimators_)] == [2, 2, 2]


def test_em_reports_every_step():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    s = (rng.random(200) < 0.8 * (X[:, 0] > 0)).astype(float)
    f, e = (as_learner(LogisticRegression(), name="estimator", C=1.0) for _ in range(2))
    seen = []
    found = em(X, X, s, np.ones(200), f, e, tol=1e-3, slope_tol=1e-2, window=2, max_iter=5, progress=seen.append)
    assert seen == found.history[1:]
    assert len({step.log_likelihood for step in seen}) == len(seen) > 1


# --- LightGBM


@pytest.fixture
def lightgbm():
    return pytest.importorskip("lightgbm", exc_type=(ImportError, OSError))


def test_lightgbm_objective_is_the_derivative_of_softplus_minus_share_times_score(lightgbm):
    from scarless.pair.learners import LightGBMLearner

    t, z, w = np.array([0.0, 0.4, 3.0]), np.array([-1.0, 0.3, 2.0]), np.array([1.0, 2.0, 0.5])
    gradient, curvature = LightGBMLearner._objective(t, z, w)

    def loss(z):
        return w * (np.logaddexp(0, z) - t * z)

    h = 1e-4
    np.testing.assert_allclose(gradient, (loss(z + h) - loss(z - h)) / (2 * h), atol=1e-7)
    np.testing.assert_allclose(curvature, (loss(z + h) - 2 * loss(z) + loss(z - h)) / h**2, atol=1e-6)
    for weighted, plain in zip((gradient, curvature), LightGBMLearner._objective(t, z, None), strict=True):
        np.testing.assert_allclose(weighted, w * plain)


@pytest.mark.parametrize("method", ["risk", "likelihood"])
def test_lightgbm_recovers_probabilities_better_than_naive(simulated, lightgbm, method):
    data = simulated(n=1500)
    inner = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=6, verbose=-1, n_jobs=1)
    model = fit_risk(inner, data, method=method, tol=1e-2)
    naive = NaiveClassifier(inner).fit(data.X, data.s)
    error = [np.mean((m.predict_proba(data.X)[:, 1] - data.f) ** 2) for m in (model, naive)]
    assert error[0] < 0.5 * error[1]


def test_lightgbm_has_the_mean_of_the_targets_in_the_mean(pu, lightgbm):
    """At the optimum, the gradient of a constant is 0; boosting starts at this constant, far from a logit of 0."""
    from scarless.pair.learners import LightGBMLearner

    learner = LightGBMLearner(lightgbm.LGBMClassifier(n_estimators=60, num_leaves=4, verbose=-1), name="estimator")
    t, w = 0.05 + 0.1 * (pu.X[:, 0] > 0), np.ones(len(pu.X))
    learner.fit(pu.X, t, w)
    assert learner.base == pytest.approx(np.log(t.mean() / (1 - t.mean())))
    assert learner.probability(pu.X).mean() == pytest.approx(t.mean(), rel=0.01)
    np.testing.assert_allclose(learner.probability(pu.X), t, rtol=0.1)


def test_lightgbm_without_a_split_predicts_the_mean_share(pu, lightgbm):
    inner = lightgbm.LGBMClassifier(n_estimators=1, min_split_gain=1e9, verbose=-1, n_jobs=1)
    model = fit_risk(inner, pu)
    np.testing.assert_allclose(model.predict_proba(pu.X)[:, 1], (pu.s / pu.e).mean(), rtol=1e-5)


def test_regressors_of_lightgbm_raise(pu, lightgbm):
    with pytest.raises(ValueError, match="estimator=LGBMRegressor has no predict_proba"):
        fit_risk(lightgbm.LGBMRegressor(), pu)


def test_clipped_probabilities_are_probabilities(pu):
    with pytest.warns(UserWarning, match="memorises labels"):
        model = fit_risk(DecisionTreeClassifier(random_state=0), pu)
    p = model.predict_proba(pu.X)
    assert p.min() >= 0
    assert p.max() <= 1
    assert (pu.s / pu.e).max() > 1


def test_a_logistic_learner_measures_each_table_once_and_does_not_keep_it(monkeypatch):
    """A fit to another table measures again: a badly scaled column after a well-scaled one loses no digits."""
    measured = []
    original = scarless.pair.logistic.how_to_read
    monkeypatch.setattr(scarless.pair.logistic, "how_to_read", lambda engine: measured.append(1) or original(engine))
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(200, 2)), np.ones(200)
    far = X * 1e-3 + 1e8
    t = (X[:, 0] > 0).astype(float)
    learner, other = LogisticLearner(C=1.0), LogisticLearner(C=1.0)
    for _ in range(3):
        learner.fit(X, t, w)
        learner.probability(X)
    assert len(measured) == 1
    learner.fit(far, t, w)
    assert len(measured) == 2
    other.fit(far, t, w)
    np.testing.assert_allclose(learner.probability(far), other.probability(far), atol=1e-6)
    table = weakref.ref(far)
    del far
    assert table() is None
    assert "_measured" not in learner.__getstate__()
    copied = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(copied.probability(X), learner.probability(X))
