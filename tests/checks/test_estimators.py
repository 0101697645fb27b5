"""Tools that treat observed labels as classes cause a warning at the user's own line; other tools do not."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, make_scorer, roc_auc_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    TableClassifier,
)
from scarless.diagnostics import ClassCalibrationDisplay
from scarless.field import LBEClassifier, PGlinClassifier, ThresholdedNaiveClassifier
from scarless.label_frequency import DEDPUL, ElkanNoto
from scarless.metrics import make_pu_scorer, propensity_weighted_f1

RNG = np.random.default_rng(1)
X = RNG.normal(size=(600, 3))
Y = (RNG.random(600) < expit(2 * X[:, 0])).astype(int)
E = expit(X[:, 1])
S = Y * (RNG.random(600) < E)
MODEL = SAREMClassifier(propensity_attributes=[1], classification_attributes=[0, 2])
PIPELINE = make_pipeline(StandardScaler(), MODEL)
TABLE = TableClassifier(MODEL, preparation=StandardScaler())


@pytest.fixture(params=[MODEL, PIPELINE, TABLE], ids=["model", "pipeline", "table"])
def model(request):
    return request.param


def labels_as_scores(warned):
    return [str(one.message) for one in warned if "treats y as classes" in str(one.message)]


@pytest.mark.parametrize("options", [{}, {"ensemble": False}, {"n_jobs": 2, "ensemble": False}])
def test_calibration_to_labels_warns_and_undoes_the_correction(model, options):
    with pytest.warns(
        UserWarning, match="CalibratedClassifierCV treats y as classes, but SAREMClassifier gets"
    ) as told:
        calibrated = CalibratedClassifierCV(model, cv=2, **options).fit(X, S)
    assert {one.filename for one in told if "treats y" in str(one.message)} == {__file__}
    own = model.fit(X, S).predict_proba(X)[:, 1].mean()
    assert abs(own - Y.mean()) < 0.08
    assert calibrated.predict_proba(X)[:, 1].mean() == pytest.approx(S.mean(), abs=0.03)


def test_a_stacking_classifier_trained_on_labels_warns():
    with pytest.warns(UserWarning, match="StackingClassifier treats y as classes, but SCARClassifier gets"):
        StackingClassifier([("scar", SCARClassifier(0.9, method="likelihood"))], cv=2).fit(X, S)


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "accuracy", "f1", make_scorer(roc_auc_score)])
def test_scores_against_labels_warn(model, scoring):
    with pytest.warns(UserWarning, match=r"treats y as classes, but SAREMClassifier gets .*make_pu_scorer") as told:
        cross_val_score(model, X, S, cv=2, scoring=scoring)
    assert {one.filename for one in told} == {__file__}


def test_several_scores_and_searches_warn(model):
    with pytest.warns(UserWarning, match=r"(roc_auc|accuracy)_score treats y as classes"):
        cross_validate(model, X, S, cv=2, scoring=["roc_auc", "accuracy"])
    for scoring in ("roc_auc", make_scorer(roc_auc_score)):
        with pytest.warns(UserWarning, match="treats y as classes"):
            GridSearchCV(model, {}, cv=2, scoring=scoring).fit(X, S)


def test_a_threshold_tuned_to_labels_warns(model):
    with pytest.warns(
        UserWarning, match="balanced_accuracy_score treats y as classes.*Use a scorer that allows for missing labels"
    ):
        TunedThresholdClassifierCV(model, cv=2, thresholds=5).fit(X, S)


def test_a_calibration_display_warns():
    pytest.importorskip("matplotlib")
    fitted = MODEL.fit(X, S)
    with pytest.warns(UserWarning, match="CalibrationDisplay treats y as classes. If y are observed labels"):
        CalibrationDisplay.from_estimator(fitted, X, S)
    ClassCalibrationDisplay.from_estimator(fitted, X, S)


def test_correct_uses_do_not_warn(model):
    """Warnings are errors in these tests."""
    scorer = make_pu_scorer("roc_auc")
    cross_val_score(model, X, S, cv=2)
    cross_validate(model, X, S, cv=2, scoring={"a": scorer, "b": make_pu_scorer("observed_log_likelihood")})
    GridSearchCV(model, {}, cv=2, scoring=scorer).fit(X, S).predict(X)
    cross_val_predict(model, X, S, cv=2, method="predict_proba")
    FixedThresholdClassifier(model, threshold=0.3).fit(X, S).predict(X)
    BaggingClassifier(model, n_estimators=2, random_state=0).fit(X, S).predict_proba(X)
    VotingClassifier([("one", model)], voting="soft").fit(X, S).predict(X)
    fitted = model.fit(X, S)
    get_scorer("roc_auc")(fitted, X, Y)
    permutation_importance(fitted, X, Y, scoring="roc_auc", n_repeats=2, random_state=0)
    CalibratedClassifierCV(FrozenEstimator(fitted)).fit(X, Y)
    TunedThresholdClassifierCV(fitted, cv="prefit", refit=False).fit(X, Y)


def test_a_threshold_may_be_tuned_by_propensities():
    scorer = make_scorer(lambda s, d, propensity: float(propensity_weighted_f1(s, d, propensity=propensity)))
    with config_context(enable_metadata_routing=True):
        TunedThresholdClassifierCV(MODEL, cv=2, thresholds=5, scoring=scorer.set_score_request(propensity=True)).fit(
            X, S, propensity=E
        )


def test_the_naive_model_does_not_warn():
    CalibratedClassifierCV(NaiveClassifier(), cv=2).fit(X, S)
    cross_val_score(NaiveClassifier(), X, S, cv=2, scoring="roc_auc")


def test_our_search_inside_a_tool_warns():
    search = SAREMClassifierCV(propensity_attributes=[1], Cs=[1.0], propensity_Cs=[1.0], cv=2, random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        CalibratedClassifierCV(search, cv=2).fit(X, S)
    assert "CalibratedClassifierCV treats y as classes, but SAREMClassifierCV gets" in labels_as_scores(told)[0]


BALANCED = LogisticRegression(class_weight="balanced")


@pytest.mark.parametrize(
    "model",
    [
        PublishedEMClassifier(BALANCED, propensity_attributes=[1], max_iter=2),
        PropensityWeightedClassifier(BALANCED),
        PropensityWeightedClassifier(GaussianNB(priors=[0.5, 0.5])),
        SCARClassifier(0.5, estimator=BALANCED),
        SCARClassifier(0.5, method="likelihood", estimator=BALANCED),
        SCARClassifier(0.5, estimator=make_pipeline(StandardScaler(), BALANCED)),
        PGlinClassifier(BALANCED),
        LBEClassifier(propensity_estimator=BALANCED),
        ElkanNoto(BALANCED),
    ],
    ids=lambda model: type(model).__name__,
)
def test_class_weights_inside_a_model_warn(model):
    given = {"propensity": np.full(len(S), 0.5)} if isinstance(model, PropensityWeightedClassifier) else {}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, S, **given)
    texts = [str(one.message) for one in told if "which changes the share of positive" in str(one.message)]
    assert len(texts) == 1
    option = "priors" if isinstance(getattr(model, "estimator", None), GaussianNB) else "class_weight"
    assert texts[0].startswith(f"{type(model).__name__}: ")
    assert f"has {option}=" in texts[0]
    assert f"Leave {option} out" in texts[0]


@pytest.mark.parametrize(
    "model",
    [
        ThresholdedNaiveClassifier(BALANCED),  # no labels are corrected
        NaiveClassifier(BALANCED),
        DEDPUL(BALANCED),
        SCARClassifier(0.5, estimator=LogisticRegression(class_weight={0: 1, 1: 1})),
        SCARClassifier(0.5, estimator=make_pipeline(SelectFromModel(BALANCED), LogisticRegression())),
    ],
    ids=["ranking", "naive", "frequency", "equal weights", "selection of columns"],
)
def test_harmless_class_weights_do_not_warn(model):
    """Warnings are errors in these tests."""
    model.fit(X, S)


def test_class_weights_do_not_change_models_that_recalibrate(simulated):
    """These do not warn; a model that uses the probabilities as they are has another class prior."""
    pu = simulated(n=3000)
    plain = LogisticRegression()
    for make in (
        lambda inner: SAREMClassifier(inner, propensity_attributes=[1], random_state=0).fit(pu.X, pu.s),
        lambda inner: SARStackingClassifier([("a", inner)], propensity_attributes=[1], random_state=0).fit(pu.X, pu.s),
    ):
        assert make(BALANCED).class_prior_ == pytest.approx(make(plain).class_prior_, abs=0.02)
    with pytest.warns(UserWarning, match="estimator has class_weight='balanced'"):
        balanced = PropensityWeightedClassifier(BALANCED).fit(pu.X, pu.s, propensity=pu.e)
    right = PropensityWeightedClassifier(plain).fit(pu.X, pu.s, propensity=pu.e)
    assert abs(balanced.class_prior_ - right.class_prior_) > 0.03
