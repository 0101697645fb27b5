"""LBE: one EM step by enumeration, fixed points, start, stop, tables and errors."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers import fit_quietly

import scarless
from scarless import PublishedEMClassifier
from scarless.field import LBEClassifier
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior
from scarless.pair.learners import LogisticLearner, balanced_weights, em_step


def two_logistic_models(n, seed):
    """Return rows whose class depends on the first attribute, and whose propensity depends on the third."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f, e = expit(3 * X[:, 0] + 1), expit(X[:, 2])
    y = rng.random(n) < f
    return X, y, (y & (rng.random(n) < e)).astype(int), f, e


# --- the steps


def test_posterior_is_that_of_an_enumeration_of_classes_and_labels():
    f, e = np.array([0.3, 0.8]), np.array([0.6, 0.25])
    for s in (0, 1):
        joint = {y: (f if y else 1 - f) * ((e if s else 1 - e) if y else float(s == 0)) for y in (0, 1)}
        np.testing.assert_allclose(posterior(f, e, np.full(2, float(s))), joint[1] / (joint[0] + joint[1]), atol=1e-15)


def one_step_by_enumeration(s, f, e):
    """Return both constant models after one EM step: the maxima of the expected log-likelihood of all classes."""
    positives, labelled, total = 0.0, 0.0, 0.0
    for y in product((0, 1), repeat=s.size):
        classes = np.array(y)
        if (classes < s).any():
            continue  # a labelled negative is impossible
        rows = np.where(classes == 1, f * np.where(s == 1, e, 1 - e), 1 - f)
        probability = rows.prod()
        total += probability
        positives += probability * classes.sum()
        labelled += probability * (classes * s).sum()
    return positives / total / s.size, labelled / positives


def test_one_step_is_the_maximum_of_the_likelihood_expected_over_all_classes():
    # Without attributes that vary, each model is one number, and the M step has a closed form.
    s = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    X, f, e = np.zeros((7, 1)), 0.45, 0.7
    models = LogisticLearner(C=1.0), LogisticLearner(C=1.0)
    em_step(X, X, posterior(np.full(7, f), np.full(7, e), s), s, np.ones(7), *models)
    expected = one_step_by_enumeration(s, f, e)
    np.testing.assert_allclose([model.probability(X)[0] for model in models], expected, atol=1e-8)


def test_fit_is_the_authors_start_and_then_em_steps():
    X, _, s, _, _ = two_logistic_models(300, 0)
    w = np.ones(300)
    f, e = (LogisticRegression(C=1.0, tol=1e-12, max_iter=5000) for _ in range(2))
    for model in (f, e):
        model.fit(X, s, sample_weight=balanced_weights(s, w))
    for _ in range(4):
        q = posterior(f.predict_proba(X)[:, 1], e.predict_proba(X)[:, 1], s)
        twice, classes = np.vstack([X, X]), np.repeat([1, 0], 300)
        f.fit(twice, classes, sample_weight=np.concatenate([q, 1 - q]))
        e.fit(X, s, sample_weight=q)
    model = fit_quietly(LBEClassifier(n_iter=4), X, s)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], f.predict_proba(X)[:, 1], atol=1e-5)
    np.testing.assert_allclose(model.predict_propensity(X), e.predict_proba(X)[:, 1], atol=1e-5)


def test_lbe_is_sar_em_on_all_attributes_except_for_its_start():
    X, _, s, _, _ = two_logistic_models(300, 1)
    model = fit_quietly(LBEClassifier(n_iter=7, start="sar-em"), X, s)
    sar_em = fit_quietly(PublishedEMClassifier(propensity_attributes="all", max_iter=7), X, s)
    np.testing.assert_allclose(model.coef_, sar_em.coef_, atol=1e-10)
    np.testing.assert_allclose(model.propensity_coef_, sar_em.propensity_coef_, atol=1e-10)
    np.testing.assert_allclose(model.history_["log_likelihood"], sar_em.history_["log_likelihood"], atol=1e-8)
    other = fit_quietly(LBEClassifier(n_iter=7), X, s)
    assert np.abs(other.coef_ - model.coef_).max() > 0.01


def test_log_likelihood_rises_without_a_penalty():
    X, _, s, _, _ = two_logistic_models(300, 2)
    model = fit_quietly(LBEClassifier(n_iter=20, C=np.inf, propensity_C=np.inf), X, s)
    rise = np.diff(model.history_["log_likelihood"])
    assert (rise > -1e-8).all()
    assert rise[0] > 1


def test_converged_fit_is_a_stationary_point_of_the_penalised_likelihood():
    X, _, s, _, _ = two_logistic_models(300, 3)
    model = LBEClassifier(n_iter=2000, change_tol=1e-5, C=0.2, propensity_C=2.0).fit(X, s)
    assert model.converged_
    beta = np.concatenate([model.coef_[0], model.intercept_, model.propensity_coef_[0], model.propensity_intercept_])
    Z = np.column_stack([X, np.ones(300)])

    def penalised(beta):
        f, e = expit(Z @ beta[:4]), expit(Z @ beta[4:])
        ridge = beta[:3] @ beta[:3] / (2 * 0.2) + beta[4:7] @ beta[4:7] / (2 * 2.0)
        return log_likelihood_of_probabilities(f, e, s).sum() - ridge

    def slopes(beta, h=1e-5):
        return [(penalised(beta + h * unit) - penalised(beta - h * unit)) / (2 * h) for unit in np.eye(8)]

    np.testing.assert_allclose(slopes(beta), 0, atol=5e-3)
    assert np.abs(slopes(beta + 0.01)).max() > 0.1


# --- results


def test_recovers_both_models_if_the_assumption_holds_and_em_is_not_stopped_early():
    X, y, s, f, e = two_logistic_models(4000, 1)
    model = fit_quietly(LBEClassifier(n_iter=100), X, s)
    np.testing.assert_allclose(model.coef_[0], [3, 0, 0], atol=0.3)
    np.testing.assert_allclose(model.propensity_coef_[0], [0, 0, 1], atol=0.3)
    assert model.class_prior_ == pytest.approx(f.mean(), abs=0.04)
    assert model.label_frequency_ == pytest.approx(e[y].mean(), abs=0.05)
    published = fit_quietly(LBEClassifier(), X, s)
    errors = [np.mean((each.predict_proba(X)[:, 1] - f) ** 2) for each in (model, published)]
    assert errors[0] < 0.003
    assert errors[1] > 5 * errors[0]  # 20 iterations, as published, are too few here


def test_exchanged_models_have_the_same_likelihood():
    X, _, s, _, _ = two_logistic_models(300, 5)
    model = fit_quietly(LBEClassifier(), X, s)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    assert log_likelihood_of_probabilities(e, f, s).sum() == pytest.approx(model.log_likelihood_, abs=1e-9)
    assert np.abs(f - e).max() > 0.1


def test_decision_is_a_cut_of_the_probability_at_one_half():
    X, _, s, _, _ = two_logistic_models(300, 6)
    model = fit_quietly(LBEClassifier(), X, s)
    f = model.predict_proba(X)[:, 1]
    assert model.cut_ == 0.5
    assert (model.predict(X) == (f > 0.5)).all()
    assert (np.argsort(model.decision_function(X)) == np.argsort(f)).all()
    assert model.class_prior_ == pytest.approx(f.mean())


def test_weights_are_copies_of_rows():
    X, _, s, _, _ = two_logistic_models(200, 7)
    counts = np.random.default_rng(0).integers(0, 4, 200)
    weighted = LBEClassifier(n_iter=5)
    with pytest.warns(ConvergenceWarning, match="stopped, not converged"):
        weighted.fit(X, s, sample_weight=counts)
    copies = fit_quietly(LBEClassifier(n_iter=5), np.repeat(X, counts, axis=0), np.repeat(s, counts))
    np.testing.assert_allclose(weighted.coef_, copies.coef_, atol=1e-7)
    assert weighted.class_prior_ == pytest.approx(copies.class_prior_, abs=1e-8)


def test_says_stopped_not_converged_in_plain_words():
    X, _, s, _, _ = two_logistic_models(300, 8)
    message = r"LBEClassifier stopped, not converged: after n_iter=20 iterations, .*by 0\.0\d+ \(change_tol is 1e-06\)"
    with pytest.warns(ConvergenceWarning, match=message):
        model = LBEClassifier().fit(X, s)
    assert (model.n_iter_, model.converged_) == (20, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settled = LBEClassifier(n_iter=5000, change_tol=0.005).fit(X, s)
    assert settled.converged_
    assert 20 < settled.n_iter_ < 5000


# --- estimators, tables and labels


def test_sparse_tables_and_data_frames_give_the_same_fit():
    X, _, s, _, _ = two_logistic_models(200, 9)
    X[np.abs(X) < 0.5] = 0.0
    dense = fit_quietly(LBEClassifier(n_iter=3), X, s)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for table in (sparse.csr_array(X), frame):
        model = fit_quietly(LBEClassifier(n_iter=3), table, s)
        np.testing.assert_allclose(model.predict_proba(table), dense.predict_proba(X), atol=1e-8)
        np.testing.assert_allclose(model.predict_propensity(table), dense.predict_propensity(X), atol=1e-8)
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_any_two_classifiers_and_a_seed():
    X, y, s, _, _ = two_logistic_models(300, 10)
    forest = RandomForestClassifier(10, min_samples_leaf=20)
    fits = [
        fit_quietly(LBEClassifier(forest, LogisticRegression(), n_iter=3, random_state=seed), X, s)
        for seed in (0, 0, 1)
    ]
    p = [model.predict_proba(X)[:, 1] for model in fits]
    assert (p[0] == p[1]).all()
    assert (p[0] != p[2]).any()
    assert fits[0].propensity_estimator_.coef_.shape == (1, 3)
    assert not hasattr(fits[0], "coef_")
    mixed = fit_quietly(LBEClassifier(GaussianNB(), n_iter=3), X, s)
    assert mixed.propensity_coef_.shape == (1, 3)
    assert np.mean(mixed.predict(X) == y) > 0.6


def test_labels_of_any_coding():
    X, _, s, _, _ = two_logistic_models(200, 11)
    model = fit_quietly(LBEClassifier(n_iter=2, pos_label="found"), X, np.where(s == 1, "found", "unknown"))
    plain = fit_quietly(LBEClassifier(n_iter=2), X, s)
    assert (model.predict(X) == np.where(plain.predict(X) == 1, "found", "unknown")).all()
    np.testing.assert_allclose(model.predict_proba(X)[:, 0], plain.predict_proba(X)[:, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_iter": 0}, "n_iter must be a whole number of at least 1; got 0"),
        ({"start": "random"}, "start must be one of 'balanced', 'sar-em'; got 'random'"),
        ({"change_tol": -1.0}, "change_tol must be"),
        ({"C": 0.0}, "C must be"),
        ({"propensity_C": -1.0}, "propensity_C must be"),
        ({"estimator": LinearSVC()}, "estimator=LinearSVC has no predict_proba"),
        ({"propensity_estimator": KNeighborsClassifier()}, "propensity_estimator=KNeighborsClassifier does not accept"),
        ({"estimator": LogisticRegression}, "estimator must be an instance of a scikit-learn classifier"),
        ({"random_state": "a"}, "random_state"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_errors_say_what_to_do(options, message):
    X, _, s, _, _ = two_logistic_models(50, 12)
    with pytest.raises((ValueError, TypeError), match=message):
        LBEClassifier(**options).fit(X, s)


def test_logistic_propensity_model_refuses_gaps():
    X, _, s, _, _ = two_logistic_models(50, 13)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LBEClassifier().fit(X, s)


# --- the contract of all methods


@pytest.mark.filterwarnings("ignore:pos_label is not given:UserWarning")
@pytest.mark.filterwarnings("ignore:.*no unlabelled row looks positive:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([LBEClassifier(n_iter=2)])
def test_passes_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:pos_label is not given:UserWarning")
@pytest.mark.filterwarnings("ignore:.*no unlabelled row looks positive:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([LBEClassifier(), LBEClassifier(LogisticRegression(), LogisticRegression(), n_iter=2)])
def test_variants_pass_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_iter", [1, 3])
def test_a_model_file_keeps_the_predictions(n_iter, tmp_path):
    pytest.importorskip("skops")
    X, _, s, _, _ = two_logistic_models(100, 14)
    model = fit_quietly(LBEClassifier(n_iter=n_iter), X, s)
    scarless.save(model, tmp_path / "model.skops")
    read = scarless.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(read.predict_propensity(X), model.predict_propensity(X))
    assert read.cut_ == model.cut_
