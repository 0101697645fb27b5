"""nnPU by boosting: gradients by finite differences, the step back, closed forms, boosting libraries and errors."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers import simulate

import scarless
from scarless.field import NNPUBoostingClassifier
from scarless.field.non_negative import COSTS, non_negative_step
from scarless.label_frequency import KernelMean

DATA = simulate(300)
X, S = DATA.X, DATA.s
EACH_COST = pytest.mark.parametrize("cost", ["sigmoid", "log"])
NO_STEP_BACK = 1e6  # beta with which the risk of the negatives is never too low


def trees(**options):
    return HistGradientBoostingClassifier(**{"max_iter": 10, "random_state": 0, **options})


def scores_and_targets(n=12, seed=0):
    rng = np.random.default_rng(seed)
    s = np.arange(n) < n // 3
    return 2 * rng.normal(size=n), s, np.where(s, 0.6 / s.mean(), 0.0)  # class prior 0.6


def parts(z, s, cost, prior=0.6):
    """Return both parts of the risk by their definition: means over labelled rows, and over all rows."""
    d1, d0 = {"sigmoid": (expit(-z), expit(z)), "log": (np.logaddexp(0, -z), np.logaddexp(0, z))}[cost]
    return prior * d1[s].mean(), d0.mean() - prior * d0[s].mean()


def slopes_of(function, z, step=1e-6):
    """Return the gradient by finite differences."""
    each = step * np.eye(z.size)
    return np.array([(function(z + d) - function(z - d)) / (2 * step) for d in each])


# --- the risk and its steps


@EACH_COST
def test_a_step_is_minus_the_gradient_of_the_risk(cost):
    z, s, t = scores_and_targets()
    step = non_negative_step(z, t, COSTS[cost], beta=0.0, gamma=1.0)
    np.testing.assert_allclose((step.positive, step.negative), parts(z, s, cost), atol=1e-12)
    assert step.negative > 0
    assert not step.stepped_back
    expected = -z.size * slopes_of(lambda z: sum(parts(z, s, cost)), z)
    np.testing.assert_allclose(step.slope, expected, atol=1e-7)


@EACH_COST
def test_a_step_back_reverses_the_gradient_of_the_risk_of_negatives(cost):
    _, s, t = scores_and_targets()
    z = np.where(s, 4.0, -4.0) + np.arange(s.size) / 10
    negative_part = parts(z, s, cost)[1]
    assert negative_part < -0.1
    slope = slopes_of(lambda z: parts(z, s, cost)[1], z)
    for gamma in (1.0, 0.3):
        step = non_negative_step(z, t, COSTS[cost], beta=0.1, gamma=gamma)
        assert step.stepped_back
        np.testing.assert_allclose(step.slope, gamma * z.size * slope, atol=1e-7)
    # The step raises the risk of negatives. A step on the positive part alone, the gradient of max(0, .), lowers it.
    assert parts(z + 0.1 * step.slope, s, cost)[1] > negative_part
    positive_slope = z.size * slopes_of(lambda z: parts(z, s, cost)[0], z)
    assert parts(z - 0.1 * positive_slope, s, cost)[1] < negative_part
    allowed = non_negative_step(z, t, COSTS[cost], beta=1 - negative_part, gamma=1.0)
    assert not allowed.stepped_back


@EACH_COST
def test_each_step_back_of_a_fit_raises_the_risk_of_negatives(cost):
    rng = np.random.default_rng(0)
    noise, s = rng.normal(size=(400, 5)), rng.random(400) < 0.1  # The trees can only memorise the labels.
    model = NNPUBoostingClassifier(trees(max_iter=60), class_prior=0.5, cost=cost).fit(noise, s)
    back, negative = model.history_["stepped_back"], model.history_["negative"]
    assert model.n_steps_back_ == back.sum() > 5
    np.testing.assert_array_equal(back, negative < 0)
    assert (np.diff(negative)[back[:-1]] > 0).all()
    unbiased = clone(model).set_params(beta=NO_STEP_BACK).fit(noise, s)
    assert unbiased.n_steps_back_ == 0
    assert unbiased.history_["negative"][-1] < 2 * negative.min() < 0
    assert model.n_iter_ == 60
    for name in ("positive", "negative"):  # Both are the same until the first step back.
        first = int(np.argmax(back)) + 1
        np.testing.assert_array_equal(model.history_[name][:first], unbiased.history_[name][:first])


def test_gamma_0_waits_at_a_negative_risk():
    rng = np.random.default_rng(0)
    noise, s = rng.normal(size=(400, 5)), rng.random(400) < 0.1
    model = NNPUBoostingClassifier(trees(max_iter=60), class_prior=0.5, gamma=0.0).fit(noise, s)
    first = int(np.argmax(model.history_["stepped_back"]))
    assert model.history_["stepped_back"][first:].all()
    np.testing.assert_allclose(model.history_["negative"][first:], model.history_["negative"][first], atol=1e-12)


# --- closed forms


def binary_table():
    x = np.repeat([0.0, 1.0], [200, 300])[:, None]
    s = np.zeros(500, dtype=int)
    s[:12], s[200:260] = 1, 1
    return x, s


def test_with_one_binary_attribute_the_log_cost_finds_the_share_of_labels_over_the_label_frequency():
    x, s = binary_table()
    boosting = trees(max_iter=120, learning_rate=1.0)
    model = NNPUBoostingClassifier(boosting, class_prior=0.36, cost="log").fit(x, s)
    c = s.mean() / 0.36
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]])[:, 1], [0.06 / c, 0.2 / c], atol=1e-4)
    assert model.label_frequency_ == pytest.approx(c, rel=1e-12)
    assert model.n_steps_back_ == 0


@pytest.mark.parametrize(
    ("prior", "decisions"), [(0.3, [0, 0]), (0.5, [0, 1])], ids=["both below one half", "one above one half"]
)
def test_the_sigmoid_cost_finds_the_decision(prior, decisions):
    x, s = binary_table()  # f is 0.125 and 0.42 for class prior 0.3, and 0.21 and 0.69 for class prior 0.5
    model = NNPUBoostingClassifier(trees(max_iter=50), class_prior=prior).fit(x, s)
    assert list(model.predict([[0.0], [1.0]])) == decisions
    assert model.cut_ == 0


def test_one_round_is_a_gradient_step_times_the_learning_rate():
    x, s = binary_table()
    model = NNPUBoostingClassifier(trees(max_iter=1, learning_rate=0.2), class_prior=0.5).fit(x, s)
    t = s * 0.5 / s.mean()
    slope = 0.25 * (2 * t - 1)  # minus the gradient at score 0, times the number of rows
    expected = [0.2 * slope[x[:, 0] == value].mean() / 0.25 for value in (0, 1)]
    np.testing.assert_allclose(model.decision_function([[0.0], [1.0]]), expected, atol=1e-7)  # trees use float32


def test_a_column_without_information_gives_the_class_prior():
    s = np.repeat([1, 0], [20, 80])
    model = NNPUBoostingClassifier(trees(), class_prior=0.4, cost="log")
    with pytest.warns(UserWarning, match="gives all rows the same score"):
        model.fit(np.ones((100, 1)), s)
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 1)))[0, 1], 0.4, atol=1e-9)


# --- the contract


def expected_warnings(test):
    """Ignore correct warnings: the checks have few labelled rows, and text labels."""
    for message in ("pos_label is not given", "KernelMean"):
        test = pytest.mark.filterwarnings(f"ignore:{message}:UserWarning")(test)
    test = pytest.mark.filterwarnings("ignore:.* gives all rows the same score:UserWarning")(test)  # few rows
    return pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")(test)


@expected_warnings
@parametrize_with_checks([NNPUBoostingClassifier(trees(max_iter=2), class_prior=0.9)])
def test_estimator_passes_scikit_learns_checks(estimator, check):
    check(estimator)


@expected_warnings
@parametrize_with_checks(
    [NNPUBoostingClassifier(), NNPUBoostingClassifier(trees(max_iter=2), class_prior=0.9, cost="log")]
)
def test_variants_pass_scikit_learns_checks(estimator, check):
    check(estimator)


def test_only_the_log_cost_has_probabilities():
    assert not hasattr(NNPUBoostingClassifier(), "predict_proba")
    model = NNPUBoostingClassifier(trees(), class_prior=0.6, cost="log").fit(X, S)
    f = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(f, expit(model.decision_function(X)), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), f > 0.5)
    assert not hasattr(model, "predict_propensity")


def test_what_the_method_is_told():
    assert NNPUBoostingClassifier().knows == NNPUBoostingClassifier(class_prior="tice").knows == "nothing"
    assert NNPUBoostingClassifier(class_prior=0.6).knows == "prior"
    model = NNPUBoostingClassifier(trees()).fit(X, S)
    assert model.class_prior_ == pytest.approx(KernelMean("km2", random_state=0).fit(X, S).class_prior_, rel=1e-12)
    with pytest.raises(ValueError, match=r"class_prior=0\.1 is below the share of labelled rows"):
        NNPUBoostingClassifier(class_prior=0.1).fit(X, S)


def test_the_ranking_of_labelled_rows_does_not_depend_on_their_code():
    model = NNPUBoostingClassifier(trees(), class_prior=0.6).fit(X, S)
    other = NNPUBoostingClassifier(trees(), class_prior=0.6, pos_label="a").fit(X, np.where(S == 1, "a", "b"))
    np.testing.assert_array_equal(other.decision_function(X), -model.decision_function(X))
    np.testing.assert_array_equal(other.predict(X), np.where(model.predict(X) == 1, "a", "b"))


def test_missing_values_and_text_need_an_estimator_that_reads_them():
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    model = NNPUBoostingClassifier(trees(), class_prior=0.6).fit(gaps, S)
    assert np.isfinite(model.decision_function(gaps)).all()
    with pytest.raises(ValueError, match="NaN"):
        NNPUBoostingClassifier(class_prior=0.6).fit(gaps, S)
    frame = pd.DataFrame({"kind": np.where(X[:, 0] > 0, "x", "y")})
    inside = make_pipeline(OrdinalEncoder(), trees())
    model = NNPUBoostingClassifier(inside, class_prior=0.6).fit(frame, S)
    assert np.unique(model.decision_function(frame)).size == 2


@pytest.mark.parametrize("estimator", [None, trees()], ids=["default", "given"])
def test_sparse_tables_are_refused(estimator):
    model = NNPUBoostingClassifier(estimator, class_prior=0.6)
    with pytest.raises(TypeError, match=r"X is sparse, and the trees of HistGradient.* need a dense table. Pass X"):
        model.fit(sparse.csr_array(X), S)
    with pytest.raises(TypeError, match="X is sparse, and the trees of HistGradientBoostingClassifier need"):
        model.fit(X, S).predict(sparse.csr_array(X))


def test_one_seed_fixes_a_random_estimator():
    boosting = HistGradientBoostingClassifier(max_iter=5, max_features=0.5)
    model = NNPUBoostingClassifier(boosting, class_prior=0.6, random_state=3)
    first, again = (clone(model).fit(X, S).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first != model.set_params(random_state=4).fit(X, S).decision_function(X)).any()


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_other_boosting_libraries(library):
    module = pytest.importorskip(library)
    kind = module.LGBMClassifier if library == "lightgbm" else module.XGBClassifier
    rng = np.random.default_rng(0)
    noise, s = rng.normal(size=(400, 5)), rng.random(400) < 0.1
    boosting = kind(n_estimators=60, random_state=0, n_jobs=1)
    model = NNPUBoostingClassifier(boosting, class_prior=0.5).fit(noise, s)
    assert model.n_steps_back_ > 5
    assert (np.diff(model.history_["negative"])[model.history_["stepped_back"][:-1]] > 0).all()
    assert np.isfinite(model.decision_function(noise)).all()


def test_a_model_file_keeps_the_predictions(tmp_path):
    pytest.importorskip("skops")
    model = NNPUBoostingClassifier(trees(), cost="log").fit(X, S)
    scarless.save(model, tmp_path / "model.skops")
    read = scarless.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    assert read.n_steps_back_ == model.n_steps_back_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": "hinge"}, "cost must be one of 'sigmoid', 'log'; got 'hinge'"),
        ({"beta": -1}, "beta must be a number of at least 0"),
        ({"gamma": "a"}, "gamma must be a number of at least 0"),
        ({"estimator": RandomForestClassifier()}, "gradient boosting that accepts gradients.*got RandomForestClass"),
        ({"estimator": trees(class_weight="balanced")}, "without class weights; got HistGradientBoosting"),
        ({"estimator": LogisticRegression}, "estimator must be None.*an instance"),
        ({"random_state": "a"}, "random_state"),
    ],
    ids=["cost", "beta", "gamma", "forest", "class weights", "class", "seed"],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        NNPUBoostingClassifier(**{"class_prior": 0.6, **options}).fit(X, S)


@pytest.mark.parametrize(
    "X", [np.arange(30.0)[:, None], np.ones((300, 2))], ids=["fewer rows than two leaves need", "equal rows"]
)
def test_trees_without_a_split_are_reported(X):
    s = np.arange(len(X)) % 3 == 0
    model = NNPUBoostingClassifier(class_prior=0.6, random_state=0)
    with pytest.warns(UserWarning, match="gives all rows the same score, because no tree divides the rows"):
        model.fit(X, s)
    assert np.ptp(model.decision_function(X)) == 0


def test_small_leaves_divide_few_rows(recwarn):
    X = np.arange(30.0)[:, None]
    small = HistGradientBoostingClassifier(min_samples_leaf=5)
    model = NNPUBoostingClassifier(small, class_prior=0.6, random_state=0).fit(X, X[:, 0] > 20)
    assert len(recwarn) == 0
    assert np.ptp(model.decision_function(X)) > 0
