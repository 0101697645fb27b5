"""The models inside scikit-learn's tools and on data frames."""

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import (
    ClassPriorWarning,
    NaiveClassifier,
    PropensityWeightedClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SCARClassifier,
)
from scarless.models import pair
from scarless.pair import form, optima

MODELS = [
    SAREMClassifier(propensity_attributes=[2]),
    PublishedEMClassifier(tol=1e-2, slope_tol=1e-2),
    SCARClassifier(0.6),
    NaiveClassifier(),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_pipeline_equals_its_steps(pu, model):
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(pu.X, pu.s)
    X = StandardScaler().fit_transform(pu.X)
    np.testing.assert_array_equal(pipeline.predict_proba(pu.X), clone(model).fit(X, pu.s).predict_proba(X))


def test_grid_search_refits_the_best(pu):
    search = GridSearchCV(SAREMClassifier(propensity_attributes=[2]), {"C": [1.0, 5.0]}, cv=3)
    search.fit(pu.X, pu.s)
    best = SAREMClassifier(propensity_attributes=[2], **search.best_params_).fit(pu.X, pu.s)
    np.testing.assert_array_equal(search.predict_proba(pu.X), best.predict_proba(pu.X))


def test_a_search_checks_only_the_model_that_it_keeps(pu, monkeypatch):
    """Checks of a doubtful fit take longer than the fit, so fits that are only scored have none."""
    checked = []
    check = form.check_form
    monkeypatch.setattr(pair, "check_form", lambda *given: checked.append(1) or check(*given))
    search = GridSearchCV(SAREMClassifier(propensity_attributes=[2]), {"C": [0.5, 1.0, 5.0]}, cv=3).fit(pu.X, pu.s)
    assert len(checked) == 1
    assert search.best_estimator_.form_test_ is not None
    found = cross_validate(SAREMClassifier(propensity_attributes=[2]), pu.X, pu.s, cv=2, return_estimator=True)
    assert all(each.form_test_ is not None for each in found["estimator"])


def test_a_wide_model_of_doubtful_form_warns_without_a_thorough_search(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = rng.random(2000) < 1 / (1 + np.exp(-3 * X[:, 0] * X[:, 1] - X[:, 2]))
    s = (y & (rng.random(2000) < 1 / (1 + np.exp(-X[:, 3])))).astype(int)
    monkeypatch.setattr(optima, "MAX_PARAMETERS_OF_TRIAL_FIT", 5)
    monkeypatch.setattr(optima, "make_starts", lambda *given: pytest.fail("a thorough search was made"))
    with pytest.warns(ClassPriorWarning, match="the labels contradict"):
        SAREMClassifier(propensity_attributes=[3]).fit(X, s)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_cross_val_predict_is_manual_folds(pu, model):
    folds = StratifiedKFold(3)
    p = cross_val_predict(model, pu.X, pu.s, cv=folds, method="predict_proba")
    for train, test in folds.split(pu.X, pu.s):
        fold = clone(model).fit(pu.X[train], pu.s[train])
        np.testing.assert_array_equal(p[test], fold.predict_proba(pu.X[test]))


def test_calibration_and_inspection(pu):
    with pytest.warns(UserWarning, match="CalibratedClassifierCV treats y as classes"):
        calibrated = CalibratedClassifierCV(SCARClassifier(0.5), cv=3).fit(pu.X, pu.s)
    np.testing.assert_allclose(calibrated.predict_proba(pu.X).sum(axis=1), 1)
    model = SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    importance = permutation_importance(model, pu.X, pu.y, n_repeats=3, random_state=0).importances_mean
    assert importance.argmax() == 0
    average = partial_dependence(model, pu.X, [0], grid_resolution=5)["average"][0]
    assert (np.diff(average) > 0).all()


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_parallel_fits_equal_serial_fits(pu, backend):
    penalties = [1.0, 5.0]
    fits = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(SAREMClassifier(C=C).fit)(pu.X, pu.s) for C in penalties
    )
    for C, model in zip(penalties, fits, strict=True):
        np.testing.assert_allclose(model.coef_, SAREMClassifier(C=C).fit(pu.X, pu.s).coef_, atol=1e-12)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("model", [*MODELS, PropensityWeightedClassifier()], ids=str)
def test_frames_keep_their_names(pu, frame, model):
    table = frame({name: pu.X[:, i] for i, name in enumerate("abcd")})
    known = {"propensity": pu.e} if isinstance(model, PropensityWeightedClassifier) else {}
    fitted = clone(model).fit(table, pu.s, **known)
    assert list(fitted.feature_names_in_) == list("abcd")
    array = clone(model).fit(pu.X, pu.s, **known)
    np.testing.assert_allclose(fitted.predict_proba(table), array.predict_proba(pu.X))
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        fitted.predict_proba(table[list("bacd")])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(table[list("abc")])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        fitted.predict(pu.X)


def test_labels_and_weights_may_be_series(pu):
    reference = SAREMClassifier().fit(pu.X, pu.s, sample_weight=np.full(pu.s.size, 2.0))
    for series in (pd.Series, pl.Series):
        model = SAREMClassifier().fit(pu.X, series(pu.s), sample_weight=series(np.full(pu.s.size, 2.0)))
        np.testing.assert_array_equal(model.coef_, reference.coef_)
