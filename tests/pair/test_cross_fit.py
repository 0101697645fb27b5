"""Cross-fits: out-of-fold logits, weights, the order of rows, folds, threads and the tilt."""

import sys
import warnings
from functools import cache, partial
from threading import get_ident
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import quick_first, simulate
from threadpoolctl import threadpool_limits

from scarless import ClassPriorWarning, PseudoObservations, PublishedEMClassifier, SAREMClassifier
from scarless.engines import blas
from scarless.engines.blas import threads_for_folds, trees_on_one_thread
from scarless.numerics.linear import Design
from scarless.pair.boosting import HistogramBooster
from scarless.pair.cross_fit import CrossFit, LearnedPropensity, held_out, out_of_fold_values
from scarless.pair.crossed import warn_about_collapse
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import ASSUMED_FOLLOW_SLOPE, recalibrate, recalibrate_roughly

TREE = DecisionTreeClassifier(random_state=0)  # fully grown: it reproduces the labels it has seen
BOOSTING = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=4, max_bins=16)
LOGISTIC = LogisticRegression(tol=1e-10, max_iter=1000)
quietly = pytest.mark.filterwarnings("ignore:.* finds that", "ignore:.* began to memorise labels")
# EM with a fully grown tree does not converge in six steps. These tests do not need convergence.
pytestmark = pytest.mark.filterwarnings("ignore:.*cross-fitted EM. did not converge")


def crossed(classifier, **options):
    params = {"propensity_attributes": [2], "cv": 2, "max_iter": 4, "random_state": 0} | options
    return SAREMClassifier(classifier, **params)


@cache
def of_usual_rows(kind):
    """Return the cross-fit of a classifier to the rows of `pu`, which no test changes."""
    data = simulate()
    return crossed({"boosting": BOOSTING, "logistic": LOGISTIC, "tree": TREE}[kind]).fit(data.X, data.s)


def fitted(classifier):
    return of_usual_rows({id(BOOSTING): "boosting", id(LOGISTIC): "logistic", id(TREE): "tree"}[id(classifier)])


@quietly
@pytest.mark.parametrize("classifier", quick_first(TREE, BOOSTING))
def test_held_out_logits_of_noise_do_not_depend_on_the_labels(classifier):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(600, 4)), (rng.random(600) < 0.3).astype(int)
    model = crossed(classifier, propensity_attributes=None, max_iter=12).fit(X, s)
    u = model.fitted_pair_.source.fit.u
    gap = u[s == 1].mean() - u[s == 0].mean()
    assert abs(gap) < 3 * u.std() / np.sqrt(0.3 * 0.7 * 600)
    # The same tree reproduces the labels of its training rows.
    seen = clone(TREE).fit(X, s).predict_proba(X)[:, 1]
    assert seen[s == 1].min() > seen[s == 0].max()


@quietly
def test_a_fully_grown_tree_collapses_unless_it_is_cross_fitted(simulated):
    data = simulated(n=800, low=0.2, high=0.6)
    true = data.s.sum() / data.y.sum()
    plain = PublishedEMClassifier(TREE, propensity_attributes=[2], max_iter=12).fit(data.X, data.s)
    assert plain.label_frequency_ > 0.95
    model = crossed(TREE, cv=5).fit(data.X, data.s)
    assert abs(model.label_frequency_ - true) < 0.25
    assert abs(model.class_prior_ - data.y.mean()) < abs(plain.class_prior_ - data.y.mean())


@quietly
@pytest.mark.parametrize("classifier", quick_first(BOOSTING, LOGISTIC, TREE))
def test_the_order_of_rows_changes_nothing(pu, classifier):
    rows = np.random.default_rng(1).permutation(pu.s.size)
    one = fitted(classifier)
    other = crossed(classifier).fit(pu.X[rows], pu.s[rows])
    np.testing.assert_allclose(other.predict_proba(pu.X), one.predict_proba(pu.X), atol=1e-6)
    assert other.class_prior_ == pytest.approx(one.class_prior_, abs=1e-6)


@quietly
@pytest.mark.parametrize("classifier", quick_first(LOGISTIC, DecisionTreeClassifier(max_depth=2, random_state=0)))
def test_weights_equal_repeated_rows_and_rows_of_weight_0_are_ignored(simulated, classifier):
    data = simulated(n=200)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    rows = np.repeat(np.arange(200), weight)
    weighted = crossed(classifier).fit(data.X, data.s, sample_weight=weight)
    copied = crossed(classifier).fit(data.X[rows], data.s[rows])
    np.testing.assert_allclose(weighted.predict_proba(data.X), copied.predict_proba(data.X), atol=1e-5)
    np.testing.assert_allclose(weighted.predict_propensity(data.X), copied.predict_propensity(data.X), atol=1e-5)
    assert weighted.class_prior_ == pytest.approx(copied.class_prior_, abs=1e-5)


@quietly
@pytest.mark.parametrize("classifier", quick_first(BOOSTING, LOGISTIC))
def test_values_of_rows_of_weight_0_have_no_influence(pu, classifier):
    weight = np.where(np.arange(pu.s.size) < 40, 0.0, 1.0)
    odd = pu.X.copy()
    odd[:40] = 1e6
    one = crossed(classifier).fit(odd, pu.s, sample_weight=weight)
    other = crossed(classifier).fit(pu.X[40:], pu.s[40:])
    np.testing.assert_array_equal(one.predict_proba(pu.X), other.predict_proba(pu.X))


@quietly
def test_a_splitter_and_a_list_of_its_folds_give_the_same_fit(pu):
    splitter = StratifiedKFold(2, shuffle=True, random_state=0)
    folds = list(splitter.split(pu.X, pu.s))
    one = crossed(LOGISTIC, cv=splitter).fit(pu.X, pu.s)
    other = crossed(LOGISTIC, cv=folds).fit(pu.X, pu.s)
    np.testing.assert_array_equal(one.predict_proba(pu.X), other.predict_proba(pu.X))
    groups = np.arange(pu.s.size) % 7
    grouped = crossed(LOGISTIC, cv=list(GroupKFold(4).split(pu.X, pu.s, groups)), max_iter=1).fit(pu.X, pu.s)
    assert len(grouped.estimators_) == 4


def test_invalid_cv_raises(pu):
    for given in (True, 2.5):
        with pytest.raises(ValueError, match="cv must be a number of folds, a splitter such as"):
            crossed(TREE, cv=given).fit(pu.X, pu.s)
    with pytest.raises(ValueError, match="has no folds"):
        crossed(TREE, cv=iter([])).fit(pu.X, pu.s)
    with pytest.raises(ValueError, match="cv must be"):
        crossed(TREE, cv=1).fit(pu.X, pu.s)


def test_a_row_gets_the_mean_of_its_folds_and_other_rows_get_the_overall_mean():
    nothing = np.arange(0)
    folds = [(nothing, np.array([0, 1])), (nothing, np.array([1, 3]))]
    found = out_of_fold_values([np.array([1.0, 2.0]), np.array([4.0, 5.0])], folds, 4)
    np.testing.assert_allclose(found, [1.0, 3.0, 3.0, 5.0])  # row 2: the mean of 1, 3 and 5
    np.testing.assert_array_equal(held_out(np.array([1.0, 2.0, 3.0, 4.0]), folds), [1.0, 2.0, 0.0, 4.0])


@quietly
@pytest.mark.parametrize("classifier", quick_first(BOOSTING, LOGISTIC))
def test_rows_that_no_fold_holds_out_do_not_affect_estimates(pu, classifier):
    rows = np.arange(pu.s.size)
    test = rows[rows % 4 > 0]
    folds = [(np.setdiff1d(rows, part), part) for part in (test[::2], test[1::2])]
    model = crossed(classifier, cv=folds).fit(pu.X, pu.s)
    fit = model.fitted_pair_.source.fit
    np.testing.assert_array_equal(fit.weight > 0, rows % 4 > 0)
    f = expit(model.fitted_pair_.source.held_out())
    assert model.class_prior_ == pytest.approx(f[test].mean(), rel=1e-6)
    # The log-likelihood is that of the held-out rows.
    v = np.log(model.predict_propensity(pu.X[test]) / (1 - model.predict_propensity(pu.X[test])))
    e = expit(v)
    value = np.sum(np.where(pu.s[test] == 1, np.log(f[test] * e), np.log(1 - f[test] * e)))
    assert model.log_likelihood_ == pytest.approx(value, rel=1e-4)


@quietly
def test_repeated_folds_do_not_change_out_of_fold_logits(pu):
    folds = list(StratifiedKFold(2).split(pu.X, pu.s))
    once, twice = (crossed(TREE, cv=each).fit(pu.X, pu.s) for each in (folds, folds * 2))
    np.testing.assert_allclose(twice.fitted_pair_.source.fit.u, once.fitted_pair_.source.fit.u, atol=1e-9)
    np.testing.assert_allclose(twice.predict_proba(pu.X), once.predict_proba(pu.X), atol=1e-9)


@quietly
def test_a_propensity_model_is_cross_fitted(pu):
    rows = np.arange(pu.s.size)
    folds = [(rows[rows % 3 != i], rows[rows % 3 == i]) for i in range(2)]  # no fold holds out a third of the rows
    model = crossed(LOGISTIC, propensity_estimator=TREE, cv=folds).fit(pu.X, pu.s)
    v = model.fitted_pair_.source.fit.v
    held = rows % 3 < 2
    np.testing.assert_allclose(v[~held], v[held].mean())
    e = model.predict_propensity(pu.X)
    assert ((e >= 0) & (e <= 1)).all()
    assert not hasattr(model, "propensity_coef_")


@quietly
@pytest.mark.parametrize("classifier", quick_first(BOOSTING, LOGISTIC))
def test_predictions_follow_from_the_stored_parameters(pu, classifier):
    model = fitted(classifier)
    logit = pu.X @ model.propensity_coef_[0] + model.propensity_intercept_[0]
    np.testing.assert_allclose(model.predict_propensity(pu.X), expit(logit), rtol=1e-9)
    mean, tilt = (
        np.mean([each.logits(pu.X) for each in model.fitted_pair_.source.fit.models], axis=0),
        model.fitted_pair_.source.tilt,
    )
    plain = mean if tilt is None else mean + pu.X[:, model.fitted_pair_.e_columns] @ tilt[:-1] + tilt[-1]
    np.testing.assert_allclose(model.fitted_pair_.source.plain_logits(pu.X), plain, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(pu.X)[:, 1], expit(model.recalibration_(plain)), rtol=1e-9)


@quietly
def test_text_columns_are_accepted_if_only_the_classifier_uses_them(pu):
    # In an earlier version, predictions failed because the logistic propensity model rejected the whole table.
    columns = {name: pu.X[:, i] for i, name in enumerate("abcd")}
    table = pl.DataFrame({**columns, "kind": np.where(pu.X[:, 0] > 0, "high", "low").tolist()})
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["kind"]), remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression(max_iter=1000))
    model = crossed(pipeline, propensity_attributes=["c"], cv=2, tol=1e-2, max_iter=500).fit(table, pu.s)
    e = model.predict_propensity(table)
    np.testing.assert_allclose(e, expit(pu.X @ model.propensity_coef_[0, :4] + model.propensity_intercept_))
    assert model.predict_posterior(table, pu.s).shape == pu.s.shape


@quietly
def test_missing_values_are_accepted_if_only_the_classifier_uses_them(pu):
    X = pu.X.copy()
    X[::7, 0] = np.nan
    model = crossed(HistGradientBoostingClassifier(max_iter=3, max_bins=16), cv=5, tol=0.1).fit(X, pu.s)
    assert np.isfinite(model.predict_propensity(X)).all()
    assert np.isfinite(model.predict_proba(X)).all()


@quietly
def test_a_cross_fit_warns_about_few_labels(pu):
    s = pu.s.copy()
    s[np.flatnonzero(s)[12:]] = 0
    with pytest.warns(ClassPriorWarning, match="SAREMClassifier: there are only 12 labelled rows"):
        crossed(LOGISTIC).fit(pu.X, s)


@pytest.mark.parametrize("models", [{"estimator": TREE}, {"propensity_estimator": TREE}])
def test_cv_none_with_an_estimator_raises(pu, models):
    with pytest.raises(
        ValueError, match=r"cv must not be None .* are cross-fitted.*To fit without folds, .* use PublishedEMClassifier"
    ):
        SAREMClassifier(**models, propensity_attributes=[2], cv=None).fit(pu.X, pu.s)


@quietly
def test_the_summary_of_a_cross_fit_contains_its_results(pu):
    model = fitted(BOOSTING)
    summary = model.summary(level=0.9)
    text = str(summary)
    for part in ("HistGradientBoostingClassifier", "400 rows", "90% interval", "x2", "no standard errors"):
        assert part in text
    low, high = model.class_prior_interval(level=0.9)
    assert low <= model.class_prior_ <= high
    assert f"[{low:.3f}, {high:.3f}]" in text
    assert f"{model.log_likelihood_ / 400:.5f}" in text
    assert "HistGradientBoostingClassifier" in summary._repr_html_()


@quietly
def test_verbose_prints_every_step(pu, capsys):
    for classifier, word in ((LOGISTIC, "step"), (BOOSTING, "stage")):
        model = crossed(classifier, verbose=True).fit(pu.X, pu.s)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"SAREMClassifier: {word} 1, held-out log-likelihood per row -0.")
        assert abs(len(lines) - model.n_iter_) <= 1
    crossed(LOGISTIC, max_iter=1).fit(pu.X, pu.s)
    assert capsys.readouterr().out == ""


@quietly
def test_threads_change_nothing(pu):
    for classifier in (TREE, BOOSTING):
        one, two = fitted(classifier), crossed(classifier, n_jobs=2).fit(pu.X, pu.s)
        np.testing.assert_array_equal(one.predict_proba(pu.X), two.predict_proba(pu.X))


def openmp_threads():
    """Return the numbers of OpenMP threads of the libraries that scikit-learn loads."""
    return {pool["num_threads"] for pool in blas._controller().info() if pool["user_api"] == "openmp"}


class Watched(DecisionTreeClassifier):
    seen: ClassVar[set] = set()

    def fit(self, X, y, sample_weight=None):
        self.seen.update(openmp_threads())
        return super().fit(X, y, sample_weight)


@quietly
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_trees_of_small_tables_use_one_openmp_thread(pu, monkeypatch, n_jobs):
    model = crossed(Watched(random_state=0), n_jobs=n_jobs, max_iter=1)
    with threadpool_limits(2, user_api="openmp"):
        Watched.seen.clear()
        model.fit(pu.X, pu.s)
        assert Watched.seen == {1}
        assert openmp_threads() == {2}
        monkeypatch.setattr("scarless.engines.blas.MAX_ROWS_FOR_ONE_THREAD", 10)
        crossed(Watched(random_state=0), max_iter=1).fit(pu.X, pu.s)
    assert Watched.seen == {1, 2}


@pytest.mark.parametrize(
    ("n_rows", "n_jobs", "at_once", "openmp"),
    [
        (1_000, None, 1, 1),
        (1_000, 3, 3, 1),
        (50_000, None, 2, 1),
        (50_000, 1, 1, 2),
        (50_000, 3, 3, 1),
        (1_000_000, None, 1, 2),
        (1_000_000, 2, 2, 1),
    ],
)
def test_folds_run_in_parallel_with_one_thread_each_or_one_after_another(n_rows, n_jobs, at_once, openmp):
    with threadpool_limits(2, user_api="openmp"):
        assert threads_for_folds(n_rows, 5, n_jobs) == at_once
        with trees_on_one_thread(n_rows, at_once):
            assert openmp_threads() == {openmp}
        assert openmp_threads() == {2}
    with threadpool_limits(1, user_api="openmp"):
        assert threads_for_folds(50_000, 5, None) == 1  # the limit of the caller applies


@pytest.mark.parametrize("few", quick_first(10, 10_000))
def test_boosting_restores_the_number_of_threads_and_parallel_folds_give_the_same_fit(simulated, monkeypatch, few):
    data = simulated(n=400)
    make = partial(HistGradientBoostingClassifier, max_iter=20, max_leaf_nodes=4, max_features=0.5)
    expected = crossed(make(random_state=np.random.RandomState(0))).fit(data.X, data.s).predict_proba(data.X)
    model = crossed(make(random_state=np.random.RandomState(0)))
    threads, judge = set(), HistogramBooster.last
    monkeypatch.setattr(HistogramBooster, "last", lambda *given: threads.add(get_ident()) or judge(*given))
    monkeypatch.setattr("scarless.engines.blas.MAX_ROWS_FOR_ONE_THREAD", few)
    with threadpool_limits(2, user_api="openmp"):
        np.testing.assert_array_equal(model.fit(data.X, data.s).predict_proba(data.X), expected)
        assert openmp_threads() == {2}
    assert (len(threads) > 1) == (few == 10)


@pytest.mark.parametrize(("few", "expected"), [(None, {1}), (10, {2})])
def test_up_to_200_000_rows_are_predicted_on_one_thread(simulated, monkeypatch, few, expected):
    data = simulated(n=400)
    model = crossed(HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=4, random_state=0)).fit(data.X, data.s)
    X = np.resize(data.X, (15_000, data.X.shape[1]))
    if few is not None:
        monkeypatch.setattr("scarless.engines.blas.MIN_ROWS_FOR_TREE_THREADS", few)
    threads, ask = [], HistogramBooster.logits
    monkeypatch.setattr(HistogramBooster, "logits", lambda *given: threads.append(openmp_threads()) or ask(*given))
    with threadpool_limits(2, user_api="openmp"):
        model.predict_proba(X)
        assert openmp_threads() == {2}
    assert len(threads) > 1
    assert set.union(*threads) == expected


def test_thread_limits_include_libraries_that_are_imported_later(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    before = blas._controller()
    monkeypatch.delitem(sys.modules, "xgboost")
    assert blas._controller() is not before
    assert blas._controller() is blas._controller()


def fit_that(values, means, best):
    return CrossFit(np.zeros(2), np.zeros(2), np.ones(2), [], values, means, best, True)


def test_em_warns_if_it_did_not_converge():
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(200, 3)), (rng.random(200) < 0.3).astype(int)
    message = (
        r"SAREMClassifier \(cross-fitted EM\) did not converge in max_iter=1 iterations: the last iteration gained"
    )
    with pytest.warns(ConvergenceWarning, match=message):
        crossed(DecisionTreeClassifier(max_depth=2), max_iter=1).fit(X, s)


def test_a_fit_warns_about_memorised_labels():
    with pytest.warns(
        UserWarning, match="M: the classifier began to memorise labels. After step 2, .*mean propensity rose by 0.30"
    ):
        warn_about_collapse(fit_that([-0.6, -0.5, -0.7], [0.4, 0.5, 0.8], 1), "M")
    # There is no warning if only one of the two changed, or if both changed before the best step.
    warn_about_collapse(fit_that([-0.6, -0.5, -0.7], [0.4, 0.5, 0.5], 1), "M")
    warn_about_collapse(fit_that([-0.6, -0.5, -0.5], [0.4, 0.5, 0.8], 1), "M")
    warn_about_collapse(fit_that([-0.7, -0.6, -0.5], [0.2, 0.5, 0.8], 2), "M")


@pytest.mark.parametrize("attributes", [[2], "all"], ids=["one column", "all columns"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_recalibration_has_the_pseudo_observations_and_holds_a_propensity_of_all_columns(pu, monkeypatch, attributes):
    """If both models use all columns, they could be swapped, so the propensity is held near that of the cross-fit."""
    calls = []

    def spy(*given, **options):
        calls.append(options)
        return recalibrate(*given, **options)

    monkeypatch.setattr("scarless.pair.crossed.recalibrate", spy)
    monkeypatch.setattr("scarless.pair.recalibrated.recalibrate", spy)
    known = [PseudoObservations(7)]
    model = SAREMClassifier(GaussianNB(), propensity_attributes=attributes, cv=3, random_state=0, known=known)
    model.fit(np.asarray(pu.X), pu.s)
    assert all(options["pseudo_weight"] == 7 for options in calls)
    assert (calls[0].get("hold") is not None) is (attributes == "all")


class Recorder:
    """A learner that stores what it is fitted to, and predicts the weighted share of labels."""

    def fit(self, X, s, w):
        self.given, self.share = (X, s, w), (w @ s) / w.sum()

    def probability(self, X):
        return np.full(len(X), self.share)


def test_a_learned_propensity_is_fitted_to_labels_weighted_by_the_posterior():
    rng = np.random.default_rng(0)
    X, s, w, u = rng.normal(size=(20, 2)), np.arange(20) % 4 == 0, rng.uniform(0.5, 2, 20), rng.normal(size=20)
    folds = [(np.arange(10, 20), np.arange(10)), (np.arange(10), np.arange(10, 20))]
    propensity = LearnedPropensity([Recorder(), Recorder()], X, s * 1.0, w, folds)
    f = expit(u)

    def assert_fitted_with(q):
        for learner, (train, test) in zip(propensity.learners, folds, strict=True):
            for got, want in zip(learner.given, (X[train], s[train], (w * q)[train]), strict=True):
                np.testing.assert_allclose(got, want)
            np.testing.assert_allclose(expit(propensity.v[test]), np.average(s[train], weights=(w * q)[train]))

    propensity.start(f)
    assert_fitted_with(np.where(s, 1.0, f))
    e = expit(propensity.v)
    propensity.update(u)
    assert_fitted_with(np.where(s, 1.0, f * (1 - e) / (1 - f * e)))


class TakesLabellingForClass(ClassifierMixin, BaseEstimator):
    """A classifier whose logit is the true class logit plus 0.6 times the propensity attribute, like EM of a forest."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        f = expit(2 * (X[:, 0] ** 2 - 1) + X[:, 1] + 0.6 * X[:, 5])
        return np.column_stack([1 - f, f])


@pytest.mark.parametrize("seed", quick_first(0, 2))
def test_a_tilt_removes_the_effect_of_the_labelling_from_the_class_logit(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 6))
    y = rng.random(1500) < expit(2 * (X[:, 0] ** 2 - 1) + X[:, 1])
    s = (y & (rng.random(1500) < expit(X[:, 5]))).astype(int)
    model = SAREMClassifier(TakesLabellingForClass(), propensity_attributes=[5], cv=3, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, s)
    crossed = model.fitted_pair_.source
    assert crossed.tilt[0] == pytest.approx(-0.6, abs=0.2)
    assert 0 < crossed.following_grid.share < 1
    assert model.fitted_pair_.grids == (model.recalibration_.grid, crossed.following_grid)
    low, high = model.class_prior_interval()
    assert low < y.mean() < high
    plain = crossed.fit.logits(X)
    np.testing.assert_allclose(crossed.plain_logits(X), plain + X[:, 5] * crossed.tilt[0] + crossed.tilt[1])
    before = crossed.fit.u - X[:, 5] * crossed.tilt[0] - crossed.tilt[1]
    rows = engine_of(X[:, [5]], s=s.astype(float), w=np.ones(1500), u=before)
    as_before = recalibrate(PairProblem.of(rows, Design.of(np.arange(0)), Design.of(np.arange(1))), pseudo_weight=4.0)
    assert abs(model.class_prior_ - y.mean()) < abs(as_before.class_prior - y.mean())
    rows = engine_of(X[:, [5]], s=s.astype(float), w=np.ones(1500), u=crossed.fit.u)
    problem = PairProblem.of(rows, Design.of(np.arange(0)), Design.of(np.arange(1)))
    named, other = (recalibrate(problem, follow=follow) for follow in (0.0, ASSUMED_FOLLOW_SLOPE))
    np.testing.assert_allclose(model.recalibration_.grid.class_prior, named.grid.class_prior, rtol=1e-6)
    np.testing.assert_allclose(crossed.following_grid.class_prior, other.grid.class_prior, rtol=1e-6)
    share = 0.2 * np.exp((other.log_likelihood - recalibrate_roughly(problem).log_likelihood) / 5)
    assert crossed.following_grid.share == pytest.approx(share, rel=1e-6)
    mean = (named.grid.mean + share * other.grid.mean) / (1 + share)
    assert model.class_prior_ == pytest.approx(mean, abs=1e-6)


def test_a_tilt_does_not_depend_on_the_mean_of_an_attribute_or_on_sparsity():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 4)).round(3)
    y = rng.random(500) < expit(2 * X[:, 0] + X[:, 1])
    s = (y & (rng.random(500) < expit(0.5 + X[:, 2]))).astype(int)
    tree = DecisionTreeClassifier(min_samples_leaf=20, random_state=0)

    def prior(table):
        model = SAREMClassifier(tree, propensity_attributes=[2], cv=3, max_iter=20, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(table, s).class_prior_

    near = prior(X)
    assert near < 0.9
    assert prior(sparse.csr_matrix(X)) == pytest.approx(near, abs=1e-3)  # tied splits may differ
    folds = list(StratifiedKFold(3).split(X, s))
    models = [SAREMClassifier(tree, propensity_attributes=[2], cv=folds, max_iter=20) for _ in range(2)]
    far = X + np.array([0.0, 0.0, 2010.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = (model.fit(table, s).class_prior_ for model, table in zip(models, (X, far), strict=True))
    assert there == pytest.approx(here, abs=1e-3)
