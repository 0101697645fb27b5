"""TM and JERM: steps by their formulas, rules for rows that look positive, fixed points, errors of public programs."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers import fit_quietly

import scarless
from scarless import NaiveClassifier, PropensityWeightedClassifier
from scarless.field import TMClassifier
from scarless.field.tm import MIN_UNLABELLED_ROWS, above_quantile, above_spies, nearest_unlabelled
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior

JERM = {"positives": "spies", "method": "likelihood"}


def two_classes(n, seed, distance=3.0, *, scar=None):
    """Return rows of two Gaussian classes; the propensity depends on the third attribute, or is constant."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    X = rng.normal(size=(n, 3)) + distance * y[:, None] * [1, 1, 0]
    e = expit(X[:, 2]) if scar is None else np.full(n, scar)
    return X, y, (y & (rng.random(n) < e)).astype(int), e


# --- the steps


def published_weights(e, sx):
    return (1 - e) / e * sx / (1 - sx)


def test_published_weights_are_posteriors_and_at_most_one():
    f, e = np.random.default_rng(0).random((2, 100))
    np.testing.assert_allclose(published_weights(e, f * e), posterior(f, e, np.zeros(100)), atol=1e-12)
    above = np.maximum(e, f)
    assert (published_weights(above, f) <= 1 + 1e-12).all()
    assert (published_weights(0.9 * f, f) > 1).all()  # without the maximum, a negative would get a negative weight


def tight(X, s, weight=None):
    return LogisticRegression(tol=1e-10, max_iter=5000).fit(X, s, sample_weight=weight)


def class_step(X, s, e, sx):
    """Fit the class model as published: unlabelled rows count twice, with the weights of TM."""
    labelled, others = np.flatnonzero(s == 1), np.flatnonzero(s == 0)
    w = published_weights(e, sx)[others]
    rows = np.concatenate([labelled, others, others])
    classes = np.repeat([1, 1, 0], [labelled.size, others.size, others.size])
    return tight(X[rows], classes, np.concatenate([np.ones(labelled.size), w, 1 - w])).predict_proba(X)[:, 1]


def test_fit_is_the_published_algorithm():
    X, _, s, _ = two_classes(200, 0, distance=1.5)
    sx = tight(X, s).predict_proba(X)[:, 1]
    e = (1 + sx) / 2
    for _ in range(3):
        f = class_step(X, s, e, sx)
        selected = (s == 1) | (f > np.quantile(f[s == 1], s.mean()))
        e = np.maximum(tight(X[selected], s[selected]).predict_proba(X)[:, 1], sx)
        sx = e * f
    model = fit_quietly(TMClassifier(n_iter=3), X, s)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], class_step(X, s, e, sx), atol=1e-5)
    assert (model.selected_ == selected).all()


class CountedRegression(LogisticRegression):
    """A logistic regression that counts its fits."""

    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).n_fits += 1
        return super().fit(X, y, sample_weight)


def test_propensity_is_fitted_again_only_if_the_selected_rows_change(monkeypatch):
    X, _, s, _ = two_classes(200, 0, distance=1.5)
    monkeypatch.setattr(CountedRegression, "n_fits", 0)
    model = fit_quietly(TMClassifier(None, CountedRegression()), X, s)
    assert 1 < CountedRegression.n_fits < model.n_iter_
    last = tight(X[model.selected_], s[model.selected_])
    np.testing.assert_allclose(model.predict_propensity(X), last.predict_proba(X)[:, 1], atol=1e-3)


def test_no_iteration_is_the_simple_method():
    X, _, s, _ = two_classes(200, 1, distance=1.5)
    sx = tight(X, s).predict_proba(X)[:, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TMClassifier(n_iter=0).fit(X, s)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], class_step(X, s, (1 + sx) / 2, sx), atol=1e-5)
    np.testing.assert_allclose(model.predict_propensity(X), (1 + sx) / 2, atol=1e-6)
    assert (model.n_iter_, model.converged_) == (0, False)
    assert not hasattr(model, "selected_")


def test_class_model_of_jerm_maximises_the_observed_likelihood_at_its_propensities():
    X, _, s, _ = two_classes(300, 2, distance=2.0)
    jerm = TMClassifier(**JERM).fit(X, s)
    assert jerm.converged_
    e, beta = jerm.predict_propensity(X), np.append(jerm.coef_[0], jerm.intercept_)
    Z = np.column_stack([X, np.ones(300)])

    def penalised(beta):
        return log_likelihood_of_probabilities(expit(Z @ beta), e, s).sum() - beta[:3] @ beta[:3] / 2

    h = 1e-5
    slopes = [(penalised(beta + h * unit) - penalised(beta - h * unit)) / (2 * h) for unit in np.eye(4)]
    np.testing.assert_allclose(slopes, 0, atol=2e-3)
    known = PropensityWeightedClassifier(method="likelihood").fit(X, s, propensity=e)
    np.testing.assert_allclose(jerm.coef_, known.coef_, atol=1e-3)
    assert jerm.log_likelihood_ == pytest.approx(jerm.history_["log_likelihood"][-1])


@pytest.mark.parametrize("positives", ["quantile", "spies"])
def test_a_fixed_point_of_the_likelihood_is_one_of_the_weights(positives):
    X, _, s, _ = two_classes(300, 3, distance=1.5)
    model = TMClassifier(positives=positives, method="likelihood").fit(X, s)
    assert model.converged_
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    np.testing.assert_allclose(class_step(X, s, e, f * e), f, atol=1e-4)
    assert np.abs(class_step(X, s, (1 + f) / 2, f * (1 + f) / 2) - f).max() > 0.01


# --- rows that look positive


def test_quantile_overestimates_the_propensity_even_if_the_classes_are_separable():
    # Labelled and unlabelled positives have the same scores, and all negatives have lower scores.
    scores, c, n_negatives = np.linspace(0.6, 0.9, 1000), 0.5, 2000
    f = np.concatenate([scores, scores, np.full(n_negatives, 0.1)])
    s = np.concatenate([np.ones(1000), np.zeros(1000 + n_negatives)])
    selected = above_quantile(f, s)
    level = s.mean()
    assert selected[s == 1].all()
    assert not selected[2000:].any()
    assert s[selected].mean() == pytest.approx(c / (1 - (1 - c) * level), abs=1e-3)
    assert s[selected].mean() > c + 0.05


def test_spies_are_the_nearest_unlabelled_rows_by_brute_force():
    X, _, s, _ = two_classes(120, 4)
    labelled, others = np.flatnonzero(s == 1), np.flatnonzero(s == 0)
    nearest = {others[np.argmin(((X[others] - X[row]) ** 2).sum(axis=1))] for row in labelled}
    assert set(nearest_unlabelled(X, s)) == nearest
    assert set(nearest_unlabelled(sparse.csr_array(X), s)) == nearest


def test_spies_select_the_unlabelled_rows_above_the_least_of_them():
    f = np.linspace(0.05, 0.95, 40)
    s = (np.arange(40) >= 35).astype(float)
    selected = above_spies(f, np.full(40, 0.4), s, np.array([15, 22]))
    assert (np.flatnonzero(selected) == np.arange(16, 40)).all()


def test_few_rows_above_the_spies_are_replaced_by_the_largest_with_the_first_of_them():
    # The published program takes places 1 to 9 of the order, so that the row with the largest f is left out.
    f = np.linspace(0.05, 0.95, 40)
    s = (np.arange(40) < 5).astype(float)
    selected = above_spies(f, np.full(40, 0.4), s, np.array([38]))
    assert (np.flatnonzero(selected & (s == 0)) == np.arange(40 - MIN_UNLABELLED_ROWS, 40)).all()


def test_no_labels_are_invented_if_no_unlabelled_row_looks_positive():
    # The published JERM flips the labels of two random rows.
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(8, 1, (30, 1)), rng.normal(-8, 1, (60, 1))])
    s = np.repeat([1, 0], [30, 60])
    with pytest.warns(UserWarning, match="TMClassifier: no unlabelled row looks positive, so the propensity is 1"):
        model = TMClassifier().fit(X, s)
    assert (model.predict_propensity(X) == 1).all()
    assert (s == np.repeat([1, 0], [30, 60])).all()
    np.testing.assert_allclose(model.predict_proba(X), NaiveClassifier().fit(X, s).predict_proba(X), atol=1e-4)


# --- results


def test_spies_recover_class_prior_and_propensity_of_separable_classes():
    X, y, s, e = two_classes(2000, 6, distance=4.0)
    model = TMClassifier(**JERM).fit(X, s)
    assert model.class_prior_ == pytest.approx(y.mean(), abs=0.01)
    assert model.label_frequency_ == pytest.approx(e[y].mean(), abs=0.02)
    np.testing.assert_allclose(model.propensity_coef_[0][2], 1, atol=0.2)
    assert np.mean(model.predict(X) == y) > 0.99
    quantile = fit_quietly(TMClassifier(method="likelihood", n_iter=20), X, s)
    assert quantile.label_frequency_ > e[y].mean() + 0.03
    assert quantile.class_prior_ < y.mean() - 0.02


def test_spies_select_nearly_every_row_if_classes_overlap():
    X, y, s, e = two_classes(1500, 7, distance=1.0)
    spies, quantile = (TMClassifier(positives=rule, method="likelihood").fit(X, s) for rule in ("spies", "quantile"))
    assert spies.selected_.mean() > 0.9
    assert spies.class_prior_ > y.mean() + 0.3
    assert spies.label_frequency_ < e[y].mean() - 0.1
    assert abs(quantile.class_prior_ - y.mean()) < 0.15


def test_decision_is_a_cut_of_the_probability_at_one_half():
    # `predict` of the published class cannot be called at all.
    X, _, s, _ = two_classes(300, 8)
    model = TMClassifier(**JERM).fit(X, s)
    f = model.predict_proba(X)[:, 1]
    assert model.cut_ == 0.5
    assert (model.predict(X) == (f > 0.5)).all()
    assert (np.argsort(model.decision_function(X)) == np.argsort(f)).all()


def test_says_stopped_not_converged_in_plain_words():
    X, _, s, _ = two_classes(300, 9, distance=1.5)
    with pytest.warns(ConvergenceWarning, match=r"TMClassifier stopped, not converged: after n_iter=5 iterations, "):
        model = TMClassifier(n_iter=5).fit(X, s)
    assert (model.n_iter_, model.converged_) == (5, False)
    assert model.history_["log_likelihood"].size == 6


def test_says_that_more_iterations_do_not_help_if_the_selected_rows_alternate():
    X, _, s, _ = two_classes(3000, 6, distance=4.0)
    with pytest.warns(ConvergenceWarning, match="rows that look positive change back and forth, so more iterations"):
        TMClassifier(method="likelihood", n_iter=20).fit(X, s)


# --- estimators, tables and labels


@pytest.mark.parametrize("options", [{"n_iter": 3}, JERM], ids=["tm", "jerm"])
def test_sparse_tables_and_data_frames_give_the_same_fit(options):
    X, _, s, _ = two_classes(200, 10)
    X[np.abs(X) < 0.5] = 0.0
    dense = fit_quietly(TMClassifier(**options), X, s)
    for table in (sparse.csr_array(X), pd.DataFrame(X, columns=["a", "b", "c"])):
        model = fit_quietly(TMClassifier(**options), table, s)
        np.testing.assert_allclose(model.predict_proba(table), dense.predict_proba(X), atol=1e-6)
        np.testing.assert_allclose(model.predict_propensity(table), dense.predict_propensity(X), atol=1e-6)
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_any_two_classifiers_and_a_seed():
    X, y, s, _ = two_classes(300, 11)
    forest = RandomForestClassifier(10, min_samples_leaf=20)
    fits = [fit_quietly(TMClassifier(forest, forest, n_iter=2, random_state=seed), X, s) for seed in (0, 0, 1)]
    p = [model.predict_proba(X)[:, 1] for model in fits]
    assert (p[0] == p[1]).all()
    assert (p[0] != p[2]).any()
    assert hasattr(fits[0], "propensity_estimator_")
    jerm = fit_quietly(TMClassifier(None, DecisionTreeClassifier(min_samples_leaf=20), n_iter=5, **JERM), X, s)
    assert np.mean(jerm.predict(X) == y) > 0.9


def test_gaps_are_accepted_only_if_every_part_accepts_them():
    X, _, s, _ = two_classes(100, 12)
    X[0, 2] = np.nan
    boosting = HistGradientBoostingClassifier(max_iter=3)
    model = fit_quietly(TMClassifier(boosting, boosting, n_iter=2), X, s)
    assert np.isfinite(model.predict_proba(X)).all()
    for refused in (TMClassifier(), TMClassifier(boosting), TMClassifier(boosting, boosting, positives="spies")):
        with pytest.raises(ValueError, match="NaN"):
            refused.fit(X, s)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_iter": -1}, "n_iter must be a whole number of at least 0; got -1"),
        ({"positives": "best"}, "positives must be one of 'quantile', 'spies'; got 'best'"),
        ({"method": "em"}, "method must be one of 'weights', 'likelihood'; got 'em'"),
        (
            {"method": "likelihood", "estimator": DecisionTreeClassifier()},
            "has a logistic class model: leave estimator",
        ),
        ({"propensity_estimator": LinearSVC()}, "propensity_estimator=LinearSVC has no predict_proba"),
    ],
    ids=["n_iter", "positives", "method", "estimator", "propensity_estimator"],
)
def test_errors_say_what_to_do(options, message):
    X, _, s, _ = two_classes(50, 13)
    with pytest.raises(ValueError, match=message):
        TMClassifier(**options).fit(X, s)


# --- the contract of all methods


@pytest.mark.filterwarnings("ignore:pos_label is not given:UserWarning")
@pytest.mark.filterwarnings("ignore:.*no unlabelled row looks positive:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([TMClassifier(**JERM, n_iter=2)])
def test_passes_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:pos_label is not given:UserWarning")
@pytest.mark.filterwarnings("ignore:.*no unlabelled row looks positive:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        TMClassifier(),
        TMClassifier(n_iter=0),
        TMClassifier(n_iter=2),
        TMClassifier(positives="spies"),
        TMClassifier(DecisionTreeClassifier(max_depth=2), DecisionTreeClassifier(max_depth=2), n_iter=2),
    ]
)
def test_variants_pass_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_iter", [0, 3])
def test_a_model_file_keeps_the_predictions(n_iter, tmp_path):
    pytest.importorskip("skops")
    X, _, s, _ = two_classes(100, 14)
    model = fit_quietly(TMClassifier(n_iter=n_iter), X, s)
    scarless.save(model, tmp_path / "model.skops")
    read = scarless.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(read.predict_propensity(X), model.predict_propensity(X))
    assert read.cut_ == model.cut_
