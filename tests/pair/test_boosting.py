"""Boosting on the observed likelihood: stages, gradients, kinds of tables and libraries."""

import copy
import pickle
from functools import cache, partial

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.helpers import simulate

from scarless import SAREMClassifier
from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.pair.boosting import (
    HistogramBooster,
    LightGBMBooster,
    XGBoostBooster,
    booster_kind,
    boosters_of,
    max_rounds,
    rounds_of_stages,
)
from scarless.pair.cross_fit import OneLabel, _logistic, _observed


def small(library, **options):
    """Return a small boosted classifier of a library, or skip."""
    if library == "sklearn":
        params = {"max_iter": 30, "max_leaf_nodes": 5, "learning_rate": 0.2} | options
        return HistGradientBoostingClassifier(**params)
    module = pytest.importorskip(library)
    if library == "lightgbm":
        params = {"n_estimators": 30, "num_leaves": 5, "learning_rate": 0.2, "n_jobs": 1, "verbose": -1} | options
        return module.LGBMClassifier(**params)
    params = {"n_estimators": 30, "max_leaves": 5, "learning_rate": 0.2, "n_jobs": 1, "grow_policy": "lossguide"}
    return module.XGBClassifier(**(params | {"max_depth": 0} | options))


LIBRARIES = ["sklearn", "lightgbm", "xgboost"]
# Small tables are memorised. The warning about this is tested in test_cross_fit.
pytestmark = pytest.mark.filterwarnings("ignore:.* began to memorise labels")


def labels_gradient(pu):
    return _observed(-0.2, np.log(pu.e / (1 - pu.e)), OneLabel(pu.s.astype(float)), np.ones(pu.s.size))


@pytest.mark.parametrize("library", LIBRARIES)
def test_contributions_of_the_stages_add_up_to_the_logits(pu, library):
    estimator = small(library)
    booster = booster_kind(estimator)(estimator, pu.X, pu.s.astype(float))
    other = pu.X[:50] + 0.1
    total, seen = np.zeros(50), []
    np.testing.assert_array_equal(booster.logits(other), np.zeros(50))
    for _ in range(3):
        booster.advance(labels_gradient(pu), 5)
        total += booster.last(booster.ready(other))
        seen.append(total.copy())
        np.testing.assert_allclose(booster.logits(other), total, atol=1e-5)
    assert np.ptp(seen[-1]) > 0.5
    for stage in (3, 2, 1):  # only the trees of the first stages are kept
        again = copy.deepcopy(booster) if library == "sklearn" else booster
        again.keep(stage)
        np.testing.assert_allclose(again.logits(other), seen[stage - 1], atol=1e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_stages_increase_the_observed_likelihood(pu, library):
    estimator = small(library)
    booster, v = booster_kind(estimator)(estimator, pu.X, pu.s.astype(float)), np.log(pu.e / (1 - pu.e))
    values = []
    for _ in range(4):
        u = -0.2 + booster.logits(pu.X)
        values.append(log_likelihood(u, v, pu.s, pair_terms(u, v)).mean())
        booster.advance(labels_gradient(pu), 5)
    assert (np.diff(values) > 1e-3).all()


def test_gradients_match_finite_differences_of_the_observed_log_likelihood():
    rng = np.random.default_rng(0)
    z, v, w = rng.normal(size=40), rng.normal(size=40), rng.random(40)
    s = (rng.random(40) < 0.4).astype(float)

    def value(z):
        f, e = 1 / (1 + np.exp(-(z + 0.3))), 1 / (1 + np.exp(-v))
        return w * (s * np.log(f * e) + (1 - s) * np.log(1 - f * e))

    slope, curvature = _observed(0.3, v, OneLabel(s), w)(z)
    np.testing.assert_allclose(slope, (value(z + 1e-6) - value(z - 1e-6)) / 2e-6, atol=1e-8)
    # The complete-data curvature is at least the expected information of a label.
    f, e = 1 / (1 + np.exp(-(z + 0.3))), 1 / (1 + np.exp(-v))
    labelled, unlabelled = (1 - f), -f * (1 - f) * e / (1 - f * e)
    np.testing.assert_allclose(curvature, w * f * (1 - f), rtol=1e-9)
    assert (curvature >= w * (f * e * labelled**2 + (1 - f * e) * unlabelled**2)).all()


def test_gradients_of_the_start_match_finite_differences_of_the_logistic_log_likelihood():
    rng = np.random.default_rng(1)
    z, t, w = rng.normal(size=30), rng.random(30), rng.random(30)

    def value(z):
        return w * (t * z - np.logaddexp(0, z))

    slope, curvature = _logistic(t, w)(z)
    np.testing.assert_allclose(slope, (value(z + 1e-6) - value(z - 1e-6)) / 2e-6, atol=1e-8)
    bent = (value(z + 1e-4) - 2 * value(z) + value(z - 1e-4)) / 1e-8
    np.testing.assert_allclose(curvature, -bent, atol=1e-6)


@pytest.mark.parametrize("rare", [False, True])
def test_binned_rows_grow_the_same_trees_as_the_original_rows(rare):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 9, 3000), rng.choice([-1.5, 0.25, 7.0], 3000)]).astype(float)
    if rare:  # a value with fewer rows than a quantile must keep its own bin
        X[:, 1] = np.where(np.arange(3000) < 10, 0.0, 1.0)
    s = (rng.random(3000) < np.where(X[:, 1] < 0.3, 0.7, 0.2)).astype(float)
    estimator = HistGradientBoostingClassifier(max_leaf_nodes=4, min_samples_leaf=5)
    gradient = _logistic(s, np.ones(3000))
    stepped, plain = HistogramBooster(estimator, X, s), HistogramBooster(estimator, pandas.DataFrame(X), s)
    assert stepped.prepare.edges is not None
    assert plain.prepare.edges is None
    for booster in (stepped, plain):
        booster.advance(gradient, 5)
        booster.advance(gradient, 5)
    other = X + rng.choice([-0.2, 0.0, 0.2], size=X.shape)  # new values go to the nearest bin
    expected = plain.logits(pandas.DataFrame(other))
    np.testing.assert_allclose(stepped.logits(other), expected, atol=1e-12)
    if rare:
        at_10 = stepped.logits(np.column_stack([X[:20, 0], np.zeros(20)]))
        at_others = stepped.logits(np.column_stack([X[:20, 0], np.ones(20)]))
        assert (at_10 != at_others).any()


def test_columns_with_many_values_have_max_bins_bins():
    X = np.random.default_rng(0).normal(size=(2000, 1))
    booster = HistogramBooster(HistGradientBoostingClassifier(max_bins=16), X, np.zeros(2000))
    counts = np.unique(booster.X, return_counts=True)[1]
    assert counts.size == 16
    assert counts.max() - counts.min() <= 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_values_are_used(library):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    gap = rng.random(400) < 0.4
    X[gap, 0] = np.nan
    s = (rng.random(400) < np.where(gap, 0.6, 0.1)).astype(int)
    model = SAREMClassifier(small(library), cv=3, random_state=0).fit(X, s)
    f = model.predict_proba(X)[:, 1]
    assert np.isfinite(f).all()
    assert f[gap].mean() > f[~gap].mean() + 0.2


def test_missing_values_in_propensity_attributes_raise():
    X = np.random.default_rng(0).normal(size=(100, 2))
    X[3, 1] = np.nan
    model = SAREMClassifier(small("sklearn"), propensity_attributes=[1], cv=2)
    with pytest.raises(ValueError, match="logistic model uses columns with NaN or infinite values"):
        model.fit(X, np.arange(100) % 2)


@pytest.mark.parametrize("library", LIBRARIES)
def test_pipelines_are_boosted_and_scaling_changes_nothing(pu, library):
    X = np.round(4 * pu.X)  # with few values, bins do not depend on the scale
    options = {"propensity_attributes": [2], "cv": 2, "random_state": 0}
    bare = SAREMClassifier(small(library), **options).fit(X, pu.s)
    scaled = SAREMClassifier(make_pipeline(StandardScaler(), small(library)), **options).fit(X, pu.s)
    assert type(scaled.estimators_[0]) is booster_kind(small(library))
    np.testing.assert_allclose(scaled.predict_proba(X), bare.predict_proba(X), atol=1e-4)


def test_transformers_of_a_pipeline_are_fitted_once_for_each_booster(pu):
    class Counted(StandardScaler):
        fits = 0

        def fit(self, X, y=None):
            type(self).fits += 1
            return super().fit(X, y)

    pipeline = make_pipeline(Counted(), small("sklearn"))
    booster = HistogramBooster(pipeline, pu.X, pu.s.astype(float))
    for _ in range(3):
        booster.advance(labels_gradient(pu), 5)
        booster.last(booster.ready(pu.X[:5]))
    assert Counted.fits == 1


def test_categories_of_a_data_frame_are_split_as_categories():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    place = rng.choice(list("abcdef"), 900)
    y = rng.random(900) < np.where(np.isin(place, ["a", "c", "e"]), 0.9, 0.05)
    s = (y & (rng.random(900) < 0.6)).astype(int)
    X = pandas.DataFrame({"age": rng.normal(size=900), "place": pandas.Categorical(place)})
    classifier = small("sklearn", categorical_features="from_dtype")
    model = SAREMClassifier(classifier, propensity_attributes=["age"], cv=2, random_state=0).fit(X, s)
    f = model.predict_proba(X)[:, 1]
    assert f[np.isin(place, ["a", "c", "e"])].min() > f[~np.isin(place, ["a", "c", "e"])].max()
    assert list(model.feature_names_in_) == ["age", "place"]


@cache
def fit_to_1500_rows(library):
    data = simulate(n=1500)
    return SAREMClassifier(small(library), propensity_attributes=[2], cv=2, random_state=0).fit(data.X, data.s)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_libraries_agree(simulated, library):
    data = simulated(n=1500)
    answers = [fit_to_1500_rows(each) for each in ("sklearn", library)]
    ours, theirs = (model.predict_proba(data.X)[:, 1] for model in answers)
    assert np.abs(ours - theirs).mean() < 0.06
    assert abs(answers[0].class_prior_ - answers[1].class_prior_) < 0.06
    assert np.mean((theirs - data.f) ** 2) < 0.025


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("limit", "rounds"), [(3, 3), (12, 10)])
def test_the_number_of_rounds_does_not_exceed_the_limit_of_the_estimator(pu, library, limit, rounds):
    name = "max_iter" if library == "sklearn" else "n_estimators"
    estimator = small(library, **{name: limit, "learning_rate": 0.01})  # too slow to stop early
    model = SAREMClassifier(estimator, cv=2, random_state=0).fit(pu.X, pu.s)
    assert model.n_iter_ == len(rounds_of_stages(limit))
    booster = model.estimators_[0]
    grown = sum(each.n_iter_ for each in booster.models) if library == "sklearn" else booster.ends[-1]
    assert grown == rounds


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pickled_cross_fit_predicts_the_same_and_stores_no_training_rows(pu, library):
    model = SAREMClassifier(small(library), propensity_attributes=[2], cv=2, random_state=0).fit(pu.X, pu.s)
    stored = pickle.dumps(model)
    copy = pickle.loads(stored)
    np.testing.assert_array_equal(copy.predict_proba(pu.X), model.predict_proba(pu.X))
    np.testing.assert_array_equal(copy.predict_propensity(pu.X), model.predict_propensity(pu.X))
    assert pu.X[:3].tobytes() not in stored


@pytest.mark.parametrize("library", ["sklearn", "xgboost"])
def test_constant_columns_do_not_change_the_logits(library):
    estimator = small(library)
    s = np.arange(60) % 2.0
    booster = booster_kind(estimator)(estimator, np.ones((60, 2)), s)
    for _ in range(2):
        booster.advance(_logistic(s, np.ones(60)), 5)
        np.testing.assert_allclose(booster.last(booster.ready(np.ones((4, 2)))), 0.0, atol=1e-6)
    np.testing.assert_allclose(booster.logits(np.ones((4, 2))), 0.0, atol=1e-6)


def test_which_estimators_are_boosted_directly():
    plain = HistGradientBoostingClassifier(max_iter=7)
    assert booster_kind(plain) is HistogramBooster
    assert booster_kind(make_pipeline(StandardScaler(), plain)) is HistogramBooster
    assert booster_kind(HistGradientBoostingClassifier(class_weight="balanced")) is None
    assert booster_kind(RandomForestClassifier()) is None
    assert max_rounds(plain) == 7
    assert max_rounds(make_pipeline(StandardScaler(), plain)) == 7


def test_which_estimators_of_other_libraries_are_boosted_directly():
    kinds = [("lightgbm", LightGBMBooster, {"boosting_type": "dart"}), ("xgboost", XGBoostBooster, {"booster": "dart"})]
    for library, kind, other in kinds:
        make = partial(small, library)
        assert booster_kind(make()) is kind
        assert booster_kind(make(**other)) is None


@pytest.mark.filterwarnings("ignore:.*cross-fitted EM. did not converge")
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "forest"])
def test_importances_have_sum_one_and_name_the_right_columns(simulated, library):
    data = simulated(n=600)
    forest = RandomForestClassifier(10, max_depth=4, random_state=0)
    classifier = forest if library == "forest" else small(library)
    model = SAREMClassifier(classifier, propensity_attributes=[2], cv=2, max_iter=6, random_state=0)
    found = model.fit(data.X, data.s).feature_importances_
    assert found.sum() == pytest.approx(1.0)
    assert found.shape == (4,)
    assert set(np.argsort(-found)[:2]) == {0, 1}  # the class depends on these


def test_models_without_importances_raise_with_advice(pu):
    fits = [
        SAREMClassifier(small("sklearn"), cv=2, random_state=0).fit(pu.X, pu.s),
        SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s),
    ]
    for model in fits:
        assert not hasattr(model, "feature_importances_")
        with pytest.raises(
            AttributeError, match=r"needs a cross-fitted estimator that has importances.*permutation_imp"
        ):
            _ = model.feature_importances_


def test_rows_are_binned_once_and_trees_equal_those_of_repeated_binning(monkeypatch):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(300, 4)), (rng.random(300) < 0.4).astype(float)
    calls, bin_data = [], HistGradientBoostingRegressor._bin_data

    def counted(self, *args, **kwargs):
        calls.append(self)
        return bin_data(self, *args, **kwargs)

    monkeypatch.setattr(HistGradientBoostingRegressor, "_bin_data", counted)
    once, always = (HistogramBooster(small("sklearn"), X, s) for _ in range(2))
    for _ in range(3):
        once.advance(_logistic(s, np.ones(300)), 5)
    assert len(calls) == 1
    for _ in range(3):
        always.bins = None
        always.advance(_logistic(s, np.ones(300)), 5)
    assert len(calls) == 4
    np.testing.assert_array_equal(once.logits(X), always.logits(X))
    np.testing.assert_allclose(
        once.z, once.logits(X), rtol=1e-12
    )  # stored predictions of the growing trees equal their later predictions
    assert not any("gradient_hessian" in vars(model._loss) for model in once.models)
    assert all(type(model) is HistGradientBoostingRegressor for model in once.models)
    once.keep(2)
    assert once.bins is None


def test_bins_are_computed_once_for_all_folds(pu):
    s, folds = (
        pu.s.astype(float),
        [(np.arange(40, pu.s.size), np.arange(40)), (np.arange(pu.s.size - 40), np.arange(40))],
    )
    boosters, tests = boosters_of(small("sklearn"), pu.X, s, folds)
    assert boosters[0].prepare is boosters[1].prepare
    np.testing.assert_array_equal(tests[0], boosters[0].ready(pu.X[:40]))
    np.testing.assert_array_equal(boosters[1].X, boosters[0].ready(pu.X)[:-40])
    scaled, _ = boosters_of(make_pipeline(StandardScaler(), small("sklearn")), pu.X, s, folds)
    assert scaled[0].prepare is not scaled[1].prepare  # a transformer may use labels


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_restarted_booster_grows_the_same_trees(pu, library):
    booster = booster_kind(small(library))(small(library), pu.X, pu.s.astype(float))
    grown = []
    for _ in range(2):
        booster.advance(labels_gradient(pu), 5)
        booster.advance(labels_gradient(pu), 10)
        grown.append(booster.logits(pu.X))
        booster.restart()
        np.testing.assert_array_equal(booster.logits(pu.X), np.zeros(pu.s.size))
    np.testing.assert_allclose(*grown, atol=1e-6)
    assert np.ptp(grown[0]) > 0.5


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_importances_use_only_the_trees_that_are_kept(pu, library):
    booster, early = (booster_kind(small(library))(small(library), pu.X, pu.s.astype(float)) for _ in range(2))
    early.advance(labels_gradient(pu), 5)
    for _ in range(3):
        booster.advance(labels_gradient(pu), 5)
    assert not np.allclose(booster.importances, early.importances)
    booster.keep(1)
    np.testing.assert_allclose(booster.importances, early.importances, rtol=1e-6)
    booster.keep(0)
    assert not booster.importances.any()
