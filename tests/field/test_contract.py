"""The contract of all methods of the field: one coding of labels, the method's own decision, clear errors."""

import subprocess
import sys
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers import simulate

import scarless
from scarless.field import PGlinClassifier, PUBaggingClassifier, ThresholdedNaiveClassifier, TwoStepClassifier

METHODS = {
    "mutual information": ThresholdedNaiveClassifier(),
    "prior": ThresholdedNaiveClassifier(cut="prior", class_prior=0.9),
    "median": ThresholdedNaiveClassifier(cut="median"),
    "max-quarter": ThresholdedNaiveClassifier(cut="max-quarter"),
    "PGlin": PGlinClassifier(),
    "bagging": PUBaggingClassifier(n_estimators=10, random_state=0),
    "spies": TwoStepClassifier(random_state=0),
    "quantile": TwoStepClassifier(reliable="quantile"),
}
EVERY = pytest.mark.parametrize("name", METHODS)
DATA = simulate(300)
X, S = DATA.X, DATA.s


def expected_warnings(test):
    """Ignore correct warnings: some checks use text labels without pos_label, a few rows, or equal scores."""
    for message in ("pos_label is not given", ".* have no out-of-bag score", ".* no unlabelled row scores below"):
        test = pytest.mark.filterwarnings(f"ignore:{message}:UserWarning")(test)
    test = pytest.mark.filterwarnings("ignore:.* no cut-off has enough unlabelled rows:UserWarning")(test)
    return pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")(test)


def run(check, estimator):
    try:
        check(estimator)
    except SkipTest as reason:
        if "SCIPY_ARRAY_API" in str(reason):
            pytest.fail("tests/conftest.py must set SCIPY_ARRAY_API, so that no check of array API dispatch is skipped")
        raise


@expected_warnings
@parametrize_with_checks([ThresholdedNaiveClassifier(), PGlinClassifier()])
def test_estimator_passes_scikit_learns_checks(estimator, check):
    run(check, estimator)


@expected_warnings
@parametrize_with_checks(
    [
        *(METHODS[name] for name in ("prior", "median", "max-quarter", "quantile")),
        PUBaggingClassifier(n_estimators=2),
        TwoStepClassifier(),
        ThresholdedNaiveClassifier(DecisionTreeClassifier(random_state=0)),
        PGlinClassifier(DecisionTreeClassifier(max_depth=3)),
        PUBaggingClassifier(DecisionTreeClassifier(), n_estimators=2),
        TwoStepClassifier(DecisionTreeClassifier()),
    ]
)
def test_other_estimators_pass_scikit_learns_checks(estimator, check):
    run(check, estimator)


@EVERY
def test_predict_is_the_side_of_the_own_cut_off(name):
    model = clone(METHODS[name]).fit(X, S)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > 0)
    assert 0 < model.predict(X).mean() < 1
    assert np.isfinite(model.cut_)


@EVERY
def test_the_ranking_of_labelled_rows_does_not_depend_on_their_code(name):
    """If labelled rows are the first class, scikit-learn's convention reverses the sign of the decision function."""
    model = clone(METHODS[name]).fit(X, S)
    other = clone(METHODS[name]).set_params(pos_label="a").fit(X, np.where(S == 1, "a", "b"))
    assert list(other.classes_) == ["a", "b"]
    np.testing.assert_array_equal(other.decision_function(X), -model.decision_function(X))
    np.testing.assert_array_equal(other.predict(X), np.where(model.predict(X) == 1, "a", "b"))
    assert other.label_coding_.positive == 0


@EVERY
def test_only_methods_that_claim_probabilities_have_them(name):
    claims = name == "PGlin"
    assert hasattr(METHODS[name], "predict_proba") == hasattr(METHODS[name], "predict_propensity") == claims


@EVERY
def test_what_a_method_is_told(name):
    assert METHODS[name].knows == ("prior" if name == "prior" else "nothing")


@EVERY
def test_sparse_tables_and_data_frames_give_the_same_fit(name):
    scores = clone(METHODS[name]).fit(X, S).decision_function(X)
    in_rows = clone(METHODS[name]).fit(sparse.csr_array(X), S)
    np.testing.assert_allclose(in_rows.decision_function(sparse.csc_array(X)), scores, atol=1e-7)
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = clone(METHODS[name]).fit(frame, pd.Series(S))
    np.testing.assert_allclose(named.decision_function(frame), scores, atol=1e-12)
    assert list(named.feature_names_in_) == list("abcd")


@pytest.mark.filterwarnings("ignore:.* no unlabelled row scores below:UserWarning")  # there are only two scores
@EVERY
def test_a_pipeline_inside_reads_text(name):
    frame = pd.DataFrame({"kind": np.where(X[:, 0] > 0, "x", "y"), "value": X[:, 1]})
    inside = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    model = clone(METHODS[name]).set_params(estimator=inside).fit(frame[["kind"]], S)
    assert np.unique(model.decision_function(frame[["kind"]])).size == 2


@EVERY
def test_one_seed_fixes_a_random_estimator(name):
    forest = RandomForestClassifier(5, max_depth=3)  # its own random_state is None
    model = clone(METHODS[name]).set_params(estimator=forest, random_state=3)
    first, again = (clone(model).fit(X, S).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = model.set_params(random_state=4).fit(X, S).decision_function(X)
    assert (first != other).any()


@EVERY
def test_scikit_learns_logistic_regression_gives_the_same_ranking(name):
    inside = LogisticRegression(tol=1e-10, max_iter=1000)
    model = clone(METHODS[name]).set_params(estimator=inside).fit(X, S)
    np.testing.assert_allclose(
        model.decision_function(X), clone(METHODS[name]).fit(X, S).decision_function(X), atol=2e-4
    )


@EVERY
def test_a_model_file_keeps_the_predictions(name, tmp_path):
    pytest.importorskip("skops")
    model = clone(METHODS[name]).fit(X, S)
    scarless.save(model, tmp_path / "model.skops")
    read = scarless.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(read.decision_function(X), model.decision_function(X))
    assert read.cut_ == model.cut_


def test_the_score_is_the_area_under_the_curve_of_the_labels():
    model = ThresholdedNaiveClassifier().fit(X, S)
    w = np.arange(S.size) % 3
    expected = roc_auc_score(S, model.decision_function(X), sample_weight=w)
    assert model.score(X, S, sample_weight=w) == pytest.approx(expected, abs=1e-12)
    other = ThresholdedNaiveClassifier(pos_label="a").fit(X, np.where(S == 1, "a", "b"))
    assert other.score(X, np.where(S == 1, "a", "b")) == model.score(X, S)
    assert 0.5 < cross_val_score(model, X, S, cv=3).mean() < 1
    with pytest.raises(ValueError, match="a score needs at least one labelled and one unlabelled row"):
        model.score(X, np.ones(S.size))


def test_an_estimator_without_weights_works_until_weights_are_given():
    model = ThresholdedNaiveClassifier(KNeighborsClassifier(20), cut="median").fit(X, S)
    assert model.estimator_.n_samples_fit_ == S.size
    model.fit(X, S, sample_weight=np.ones(S.size))
    with pytest.raises(ValueError, match="estimator=KNeighborsClassifier does not accept weights in fit"):
        model.fit(X, S, sample_weight=np.full(S.size, 2.0))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression, "estimator must be None, which means logistic regression, or an instance"),
        (3, "estimator must be None, which means logistic regression, or an instance"),
        (LinearSVC(), "estimator=LinearSVC has no predict_proba. Use a classifier that predicts probabilities"),
    ],
    ids=["class", "number", "no probabilities"],
)
@EVERY
def test_an_unsuitable_estimator_is_refused(name, estimator, message):
    with pytest.raises(ValueError, match=message):
        clone(METHODS[name]).set_params(estimator=estimator).fit(X, S)


@EVERY
@pytest.mark.parametrize("C", [0, -1, "a", None], ids=["zero", "negative", "text", "none"])
def test_the_penalty_must_be_positive(name, C):
    with pytest.raises(ValueError, match="C must be a number above 0"):
        clone(METHODS[name]).set_params(C=C).fit(X, S)


def test_the_penalty_reaches_the_logistic_model():
    strong, weak = (np.abs(TwoStepClassifier(C=C, random_state=0).fit(X, S).coef_).max() for C in (1e-4, 1.0))
    assert strong < 0.1 * weak


def test_an_estimator_has_no_coefficients_and_the_logistic_model_no_estimator():
    for name in ("median", "PGlin", "spies"):
        own = clone(METHODS[name]).fit(X, S)
        assert own.coef_.shape == (1, 4)
        assert not hasattr(own, "estimator_")
        own.set_params(estimator=make_pipeline(StandardScaler(), LogisticRegression())).fit(X, S)
        assert not hasattr(own, "coef_")
        assert hasattr(own, "estimator_")


def test_importing_scarless_does_not_import_the_methods_of_the_field():
    code = "import sys, scarless; sys.exit('scarless.field' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert scarless.field.PGlinClassifier is PGlinClassifier
