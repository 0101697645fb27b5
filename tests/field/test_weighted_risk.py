"""uPU and PUe: closed forms, exact populations, where PUe fails, the class prior, tables and errors."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers import fit_and_listen, fit_quietly, simulate

import scarless
from scarless import PropensityWeightedClassifier, SCARClassifier
from scarless.field import PUeClassifier, UPUClassifier
from scarless.field.weighted_risk import risk_targets
from scarless.label_frequency import KernelMean, TIcE
from scarless.pair.logistic import Training

DATA = simulate(300)
X, S = DATA.X, DATA.s
BOTH = pytest.mark.parametrize("kind", [UPUClassifier, PUeClassifier])
OVERLAP = "ignore:PUeClassifier. the mean of s/sigma is:UserWarning"
FREE = 1e12  # C of a fit without a penalty


def population(f, e, share):
    """Return one row for each cell, class and label, with its probability as weight, for one-hot cells."""
    cells = np.arange(len(f))
    rows = [(k, y, s) for k in cells for y in (0, 1) for s in (0, 1)]
    weight = [
        share[k] * (f[k] if y else 1 - f[k]) * ((e[k] if s else 1 - e[k]) if y else float(s == 0)) for k, y, s in rows
    ]
    cell, _, s = (np.array(each) for each in zip(*rows, strict=True))
    return np.eye(len(f))[cell], s, 1e4 * np.array(weight)


def binary_table():
    """Return one binary column; labels of 12 of 200 rows with 0, and of 60 of 300 rows with 1."""
    x = np.repeat([0.0, 1.0], [200, 300])[:, None]
    s = np.zeros(500, dtype=int)
    s[:12], s[200:260] = 1, 1
    return x, s


# --- uPU


def test_with_one_binary_attribute_upu_is_the_share_of_labels_over_the_label_frequency():
    x, s = binary_table()
    prior = 0.36
    c = s.mean() / prior
    model = UPUClassifier(class_prior=prior, C=FREE).fit(x, s)
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]])[:, 1], [12 / 200 / c, 60 / 300 / c], atol=1e-7)
    assert model.label_frequency_ == pytest.approx(c, rel=1e-12)
    np.testing.assert_allclose(model.predict_propensity(x), c)
    assert model.cut_ == 0.5


def test_upu_is_right_in_one_sample_and_the_mean_over_unlabelled_rows_is_not():
    f, share, c = np.array([0.1, 0.7]), np.array([0.6, 0.4]), 0.4
    prior = float(f @ share)
    table, s, w = population(f, [c, c], share)
    model = UPUClassifier(class_prior=prior, C=FREE).fit(table, s, sample_weight=w)
    np.testing.assert_allclose(model.predict_proba(np.eye(2))[:, 1], f, atol=1e-6)
    # The case-control formula sets the mean over unlabelled rows in place of the mean over all rows.
    labelled, unlabelled = (w * (s == k) / w[s == k].sum() for k in (1, 0))
    wrong = prior * (labelled @ table) / (unlabelled @ table)
    np.testing.assert_allclose(wrong, f * (1 - c * prior) / (1 - c * f), atol=1e-12)
    assert np.abs(wrong - f).max() > 0.1


def test_upu_is_a_name_for_models_that_exist():
    c = 0.6
    prior = S.mean() / c
    model = UPUClassifier(class_prior=prior, C=0.5).fit(X, S)
    for same in (
        SCARClassifier(c, C=0.5, tol=1e-12).fit(X, S),
        PropensityWeightedClassifier(C=0.5, tol=1e-12).fit(X, S, propensity=np.full(S.size, c)),
    ):
        np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-5)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(prior, abs=1e-7)
    assert np.abs(UPUClassifier(class_prior=prior, C=1e-4).fit(X, S).coef_).max() < 0.02


def test_a_leaf_of_a_tree_is_the_share_of_labels_over_the_label_frequency():
    x, s = binary_table()
    model = UPUClassifier(DecisionTreeClassifier(), class_prior=0.5).fit(x, s)
    c = s.mean() / 0.5
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]])[:, 1], [0.06 / c, 0.2 / c], atol=1e-12)
    assert hasattr(model, "estimator_")
    assert not hasattr(model, "coef_")


# --- PUe


def test_weights_are_inverse_and_add_up_to_one():
    s, w, sigma = np.array([1.0, 0, 1, 1, 0]), np.array([1.0, 1, 2, 0, 3]), np.array([0.2, 0.3, 0.5, 0.1, 0.4])
    t = risk_targets(Training(np.empty((5, 0)), s, w), np.log(sigma), 0.4)
    inverse = np.array([5.0, 0, 2, 0, 0])
    np.testing.assert_allclose(t, 0.4 * 7 * inverse / (w @ inverse), atol=1e-12)
    assert w @ t / w.sum() == pytest.approx(0.4)
    # Probabilities of a label that round to 0 do not make the weights infinite.
    assert np.isfinite(risk_targets(Training(np.empty((5, 0)), s, w), np.log(sigma) * 700, 0.4)).all()


def test_pue_is_the_propensity_weighted_classifier_with_normalised_propensities():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 2))
    y = table.sum(axis=1) > 0.5
    s = (y & (rng.random(500) < 0.5 * expit(table[:, 1]))).astype(int)
    prior = y.mean()
    model = fit_quietly(PUeClassifier(class_prior=prior, C=0.7, propensity_C=0.01), table, s)
    naive = LogisticRegression(C=0.01, tol=1e-12, max_iter=10_000).fit(table, s).predict_proba(table)[:, 1]
    e = naive * (s / naive).mean() / prior
    assert e[s == 1].max() < 1
    same = PropensityWeightedClassifier(C=0.7, tol=1e-12).fit(table, s, propensity=np.minimum(e, 1.0))
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_propensity(table), np.minimum(1.0, e), atol=1e-5)
    assert model.implied_class_prior_ == pytest.approx((s / naive).mean(), abs=1e-5)


def test_pue_is_right_if_classes_do_not_overlap():
    """The probability of a label is then the propensity of every positive."""
    f, e, share = np.array([0.0, 1.0, 1.0]), np.array([0.5, 0.2, 0.8]), np.array([0.5, 0.3, 0.2])
    table, s, w = population(f, e, share)
    model = PUeClassifier(
        DecisionTreeClassifier(), DecisionTreeClassifier(random_state=0), class_prior=0.5, random_state=0
    ).fit(table, s, sample_weight=w)
    np.testing.assert_allclose(model.predict_proba(np.eye(3))[:, 1], f, atol=1e-9)
    np.testing.assert_allclose(model.predict_propensity(np.eye(3))[1:], e[1:], atol=1e-9)
    assert model.implied_class_prior_ == pytest.approx(0.5, abs=1e-9)
    other = UPUClassifier(DecisionTreeClassifier(), class_prior=0.5).fit(table, s, sample_weight=w)
    assert other.predict_proba(np.eye(3))[1, 1] < 0.6


@pytest.mark.parametrize("c", [0.9, 0.2], ids=["many labels", "few labels"])
def test_with_a_right_model_of_the_label_pue_gives_every_row_the_class_prior(c):
    f, share = np.array([0.1, 0.3, 0.8]), np.array([0.3, 0.3, 0.4])
    prior = float(f @ share)
    table, s, w = population(f, c * f**0.5, share)
    model = PUeClassifier(class_prior=prior, C=FREE, propensity_C=FREE)
    with pytest.warns(UserWarning, match=r"the mean of s/sigma is 1.00.*should be near the class prior, 0.44"):
        model.fit(table, s, sample_weight=w)
    np.testing.assert_allclose(model.predict_proba(np.eye(3))[:, 1], prior, atol=1e-5)
    assert model.implied_class_prior_ == pytest.approx(1.0, abs=1e-6)


def test_a_strong_penalty_on_the_weights_gives_upu():
    equal = fit_quietly(PUeClassifier(class_prior=0.6, propensity_C=1e-9), X, S)
    np.testing.assert_allclose(equal.coef_, UPUClassifier(class_prior=0.6).fit(X, S).coef_, atol=1e-6)
    other = fit_quietly(PUeClassifier(class_prior=0.6), X, S)
    assert np.abs(other.coef_ - equal.coef_).max() > 0.1


def test_the_published_penalty_on_the_sum_of_propensities_is_zero_at_the_optimum():
    w = 1.0 + np.arange(S.size) % 3
    for propensity_C in (0.01, 1.0):
        model = fit_quietly(PUeClassifier(class_prior=0.6, propensity_C=propensity_C), X, S, sample_weight=w)
        assert w @ model._naive.probability(X) == pytest.approx(w @ S, abs=1e-4)

    def penalised(beta):
        z = X @ beta[:-1] + beta[-1]
        return (w * (np.logaddexp(0, z) - S * z)).sum() + beta[:-1] @ beta[:-1] / 2 + 15 * abs(w @ (expit(z) - S))

    found = model._naive.model.beta
    for seed in range(3):
        near = found + 0.1 * np.random.default_rng(seed).normal(size=found.size)
        lowest = minimize(penalised, near, method="Nelder-Mead", options={"maxfev": 1000})
        assert penalised(found) <= lowest.fun + 1e-6


@pytest.mark.filterwarnings(OVERLAP)
def test_a_few_rows_with_most_of_the_weight_get_a_warning():
    rng = np.random.default_rng(0)
    table = np.append(rng.normal(size=(2000, 1)), np.zeros((2000, 1)), axis=1)
    s = rng.random(2000) < expit(4 * table[:, 0] - 4)
    table[:3], s[:3] = [-4, 0], True
    with pytest.warns(UserWarning, match="give a few labelled rows most of the weight.*Lower propensity_C"):
        PUeClassifier(class_prior=0.5, propensity_C=100).fit(table, s)


# --- the class prior


@pytest.mark.filterwarnings(OVERLAP)
@BOTH
def test_what_the_method_is_told(kind):
    assert kind(class_prior=0.7).knows == kind(class_prior=np.float64(0.7)).knows == "prior"
    for estimated in (None, "tice", TIcE()):
        assert kind(class_prior=estimated).knows == "nothing"
    model = kind().fit(X, S)
    by_name, by_estimator = kind(class_prior="km2").fit(X, S), kind(class_prior=KernelMean(random_state=0)).fit(X, S)
    expected = KernelMean("km2", random_state=0).fit(X, S).class_prior_
    assert model.class_prior_ == by_name.class_prior_ == pytest.approx(expected, rel=1e-12)
    assert by_estimator.class_prior_ == pytest.approx(expected, rel=1e-12)
    assert model.class_prior_estimator_.class_prior_ == pytest.approx(expected, rel=1e-12)
    assert not hasattr(kind(class_prior=0.7).fit(X, S), "class_prior_estimator_")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.1, "class_prior=0.1 is below the share of labelled rows, 0."),
        (1.0, "class_prior must lie strictly between 0 and 1; got 1.0"),
        (True, "class_prior must lie strictly between 0 and 1; got True"),
        ("km3", "class_prior='km3' is not the name of an estimator.*Did you mean"),
        ([0.3], r"class_prior must be a number between 0 and 1, the name of an estimator.*got \[0.3\]"),
        (TIcE, r"class_prior must be the name of an estimator.*Pass an instance: TIcE\(\)"),
    ],
    ids=["below the labels", "one", "boolean", "unknown name", "list", "class"],
)
@BOTH
def test_an_impossible_class_prior_is_refused(kind, value, message):
    with pytest.raises(ValueError, match=message):
        kind(class_prior=value).fit(X, S)


def test_the_estimator_of_the_class_prior_reads_the_table_itself():
    frame = pd.DataFrame({"kind": np.where(X[:, 0] > 0, "x", "y")})
    encoded = make_pipeline(OneHotEncoder(sparse_output=False), LogisticRegression())
    with pytest.raises(
        ValueError, match=r"class_prior: KernelMean could not be fitted.*class_prior=make_pipeline\(enc"
    ):
        UPUClassifier(encoded).fit(frame, S)
    model = UPUClassifier(encoded, class_prior=make_pipeline(OneHotEncoder(sparse_output=False), TIcE(random_state=0)))
    assert 0 < fit_quietly(model, frame, S).class_prior_ < 1


# --- tables and the contract


def expected_warnings(test):
    """Ignore correct warnings: the checks have overlapping classes, few labelled rows and text labels."""
    for message in ("pos_label is not given", "KernelMean", "PUeClassifier. the mean of s/sigma is"):
        test = pytest.mark.filterwarnings(f"ignore:{message}:UserWarning")(test)
    return pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")(test)


@expected_warnings
@parametrize_with_checks([UPUClassifier(), PUeClassifier()])
def test_estimator_passes_scikit_learns_checks(estimator, check):
    check(estimator)


@expected_warnings
@parametrize_with_checks(
    [
        UPUClassifier(class_prior=0.9),
        PUeClassifier(class_prior=0.9),
        UPUClassifier(DecisionTreeClassifier(random_state=0), class_prior=0.9),
        PUeClassifier(None, DecisionTreeClassifier(max_depth=2), class_prior=0.9),
    ]
)
def test_variants_pass_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings(OVERLAP)
@BOTH
def test_predictions_agree_with_each_other_whatever_the_code_of_the_labels(kind):
    model = kind(class_prior=0.6).fit(X, S)
    f = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X), f > 0.5)
    np.testing.assert_allclose(model.decision_function(X), f - 0.5, atol=1e-12)
    assert ((model.predict_propensity(X) > 0) & (model.predict_propensity(X) <= 1)).all()
    other = kind(class_prior=0.6, pos_label="a").fit(X, np.where(S == 1, "a", "b"))
    np.testing.assert_allclose(other.predict_proba(X)[:, 0], f, atol=1e-12)
    np.testing.assert_array_equal(other.decision_function(X), -model.decision_function(X))


@pytest.mark.filterwarnings(OVERLAP)
@BOTH
def test_weights_are_repeated_rows(kind):
    w = np.arange(S.size) % 3
    model = kind(class_prior=0.7).fit(X, S, sample_weight=w)
    again = kind(class_prior=0.7).fit(np.repeat(X, w, axis=0), np.repeat(S, w))
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-7)
    assert model.class_prior_ == again.class_prior_
    assert model.label_frequency_ == pytest.approx(again.label_frequency_, rel=1e-12)


@pytest.mark.filterwarnings(OVERLAP)
@BOTH
def test_sparse_tables_and_data_frames_give_the_same_fit(kind):
    f = kind(class_prior=0.6).fit(X, S).predict_proba(X)
    in_rows = kind(class_prior=0.6).fit(sparse.csr_array(X), S)
    np.testing.assert_allclose(in_rows.predict_proba(sparse.csc_array(X)), f, atol=1e-7)
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = kind(class_prior=0.6).fit(frame, pd.Series(S))
    np.testing.assert_allclose(named.predict_proba(frame), f, atol=1e-12)
    assert list(named.feature_names_in_) == list("abcd")


@pytest.mark.filterwarnings(OVERLAP)
def test_pipelines_inside_read_text():
    frame = pd.DataFrame({"kind": np.where(X[:, 0] > 0, "x", "y")})
    inside = make_pipeline(OneHotEncoder(), LogisticRegression())
    model = PUeClassifier(inside, inside, class_prior=0.6).fit(frame, S)
    assert np.unique(model.decision_function(frame)).size == 2
    assert set(np.unique(model.predict_propensity(frame)).round(3)) != {1.0}


@pytest.mark.filterwarnings(OVERLAP)
def test_an_estimator_and_a_logistic_model_of_the_label_read_the_same_table():
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    model, swapped = (PUeClassifier(tree, class_prior=0.6).fit(table, S) for table in (X, X.astype(">f8")))
    np.testing.assert_array_equal(model.predict_proba(X), swapped.predict_proba(X.astype(">f8")))
    np.testing.assert_array_equal(model.predict_propensity(X), swapped.predict_propensity(X.astype(">f8")))
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    with pytest.raises(ValueError, match="A logistic model uses columns with NaN"):
        PUeClassifier(tree, class_prior=0.6).fit(gaps, S)


@pytest.mark.filterwarnings(OVERLAP)
@BOTH
def test_one_seed_fixes_a_random_estimator(kind):
    model = kind(RandomForestClassifier(5, max_depth=3), class_prior=0.6, random_state=3)
    first, again = (clone(model).fit(X, S).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first != model.set_params(random_state=4).fit(X, S).decision_function(X)).any()


@pytest.mark.filterwarnings(OVERLAP)
@BOTH
@pytest.mark.parametrize("inside", [None, DecisionTreeClassifier(max_depth=3)], ids=["logistic", "tree"])
def test_a_model_file_keeps_the_predictions(kind, inside, tmp_path):
    pytest.importorskip("skops")
    model = kind(inside).fit(X, S)
    scarless.save(model, tmp_path / "model.skops")
    read = scarless.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(read.predict_propensity(X), model.predict_propensity(X))
    assert read.class_prior_ == model.class_prior_


@BOTH
def test_an_estimator_must_support_negative_weights(kind):
    boosted = fit_quietly(kind(HistGradientBoostingClassifier(max_iter=3), class_prior=0.6), X, S)
    assert boosted.estimator_.n_iter_ == 3
    with pytest.raises(ValueError, match="unbiased risk needs negative row weights, and AdaBoostClassifier does"):
        fit_quietly(kind(AdaBoostClassifier(n_estimators=3), class_prior=0.6), X, S)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C must be a number above 0"),
        ({"propensity_C": -1}, "propensity_C must be a number above 0"),
        ({"estimator": LogisticRegression}, "estimator must be None, which means logistic regression, or an instance"),
        ({"estimator": LinearSVC()}, "estimator=LinearSVC has no predict_proba"),
        ({"estimator": KNeighborsClassifier()}, "estimator=KNeighborsClassifier does not accept sample_weight in fit"),
        ({"propensity_estimator": LinearSVC()}, "propensity_estimator=LinearSVC has no predict_proba"),
        ({"random_state": "a"}, "random_state"),
    ],
    ids=["C", "propensity_C", "class", "no probabilities", "no weights", "propensity", "seed"],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PUeClassifier(**{"class_prior": 0.6, **options}).fit(X, S)


def test_no_warning_if_classes_hardly_overlap():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(1000, 2))
    y = table.sum(axis=1) > 0.5
    s = y & (rng.random(1000) < 0.5)
    model, said = fit_and_listen(PUeClassifier(class_prior=y.mean()), table, s)
    assert said == []
    assert y.mean() < model.implied_class_prior_ < 0.5 * (1 + y.mean())
