"""Classifiers cross-fitted to several looks, audits, false positives and known values."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import SimulatedLooks

from scarless import ClassPrior, Labelling, PseudoObservations, SAREMClassifier, load, save
from scarless.saved.values import check_values

BOOSTING = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=4, max_bins=16)
EXACT = LogisticRegression(C=1e4, tol=1e-12, max_iter=1000, solver="newton-cholesky")
LOGISTIC = LogisticRegression(tol=1e-10, max_iter=1000)
quietly = pytest.mark.filterwarnings("ignore:.*cross-fitted EM. did not converge")


@pytest.fixture(scope="module")
def seen():
    return SimulatedLooks()


def crossed(classifier, **options):
    params = {"propensity_attributes": [2], "cv": 3, "max_iter": 15, "random_state": 0} | options
    return SAREMClassifier(classifier, **params)


@pytest.mark.filterwarnings(
    "ignore:.*labels do not fit a model with a false-positive rate"
)  # the data have no false positives
@pytest.mark.parametrize("said", [{}, {"shared": False}, {"false_positive_rate": 0.05}])
def test_em_and_newtons_method_find_the_same_optimum(seen, said):
    """One fold that trains on all rows and predicts all of them is plain EM, which converges to the optimum."""
    rows, weak = np.arange(len(seen.X)), {"C": 1e4, "propensity_C": 1e4}
    settled = {"cv": [(rows, rows)], "tol": 1e-13, "max_iter": 500}
    more = {"labelling": Labelling(**said)}
    em = crossed(EXACT, **settled, **weak, **more).fit(seen.X, seen.S, audit=seen.audit)
    newton = SAREMClassifier(propensity_attributes=[2], **weak, **more).fit(seen.X, seen.S, audit=seen.audit)
    found = em.fitted_pair_.source.fit  # before recalibration, which has its own weak penalties
    assert found.log_likelihood[found.best] * len(rows) == pytest.approx(newton.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(expit(found.u), newton.predict_proba(seen.X)[:, 1], atol=1e-3)
    assert em.class_prior_ == pytest.approx(newton.class_prior_, abs=1e-4)
    np.testing.assert_allclose(em.predict_proba(seen.X), newton.predict_proba(seen.X), atol=1e-3)
    np.testing.assert_allclose(em.propensity_coef_, newton.propensity_coef_, atol=2e-3)
    np.testing.assert_allclose(em.label_frequencies_, newton.label_frequencies_, atol=1e-3)
    posterior = newton.predict_posterior(seen.X, seen.S, audit=seen.audit)
    np.testing.assert_allclose(em.predict_posterior(seen.X, seen.S, audit=seen.audit), posterior, atol=2e-3)
    np.testing.assert_allclose(em.detection_curve(seen.X), newton.detection_curve(seen.X), atol=1e-3)


def test_at_the_optimum_there_is_nothing_to_recalibrate(seen):
    rows = np.arange(len(seen.X))
    settled = {"cv": [(rows, rows)], "tol": 1e-13, "max_iter": 500, "C": 1e4, "propensity_C": 1e4}
    model = crossed(EXACT, **settled).fit(seen.X, seen.S, audit=seen.audit)
    assert model.recalibration_.slope == pytest.approx(1.0, abs=0.01)
    assert model.recalibration_.shift == pytest.approx(0.0, abs=0.01)
    np.testing.assert_allclose(model.fitted_pair_.source.tilt, 0.0, atol=0.01)


@pytest.mark.filterwarnings("ignore:.*unlabelled rows have an audit:UserWarning")  # all rows are audited here
@quietly
def test_audits_of_all_rows_are_supervised_learning(seen):
    classifier = LogisticRegression(tol=1e-7, max_iter=1000)  # Refits start at the optimum and must accept it.
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(seen.X, seen.y))
    labels = np.nan_to_num(seen.S[:, 0])
    model = crossed(classifier, cv=folds).fit(seen.X, labels, audit=seen.y)
    u = np.empty(len(seen.X))
    for train, test in folds:
        u[test] = logit(clone(classifier).fit(seen.X[train], seen.y[train]).predict_proba(seen.X[test])[:, 1])
    found, (slope, level) = model.fitted_pair_.source, model.fitted_pair_.source.tilt
    np.testing.assert_allclose(found.fit.u, u + slope * seen.X[:, 2] + level, atol=1e-4)
    labelling = LogisticRegression(tol=1e-10).fit(seen.X[seen.y][:, [2]], labels[seen.y])
    np.testing.assert_allclose(model.propensity_coef_[0, 2], labelling.coef_[0, 0], atol=1e-3)
    assert model.class_prior_ == pytest.approx(seen.y.mean(), abs=1e-3)  # the shift has no penalty, so the means agree


@quietly
@pytest.mark.parametrize("classifier", [LOGISTIC, BOOSTING])
def test_answers_follow_from_the_parameters(seen, classifier):
    model = crossed(classifier, labelling=Labelling(shared=False)).fit(seen.X, seen.S, audit=seen.audit)
    found = model.fitted_pair_.source
    u = np.mean([each.logits(seen.X) for each in found.fit.models], axis=0)
    f = expit(model.recalibration_(u + seen.X[:, 2] * found.tilt[0] + found.tilt[1]))
    np.testing.assert_allclose(model.predict_proba(seen.X)[:, 1], f, atol=1e-12)
    e = expit(seen.X @ model.propensity_coef_.T + model.propensity_intercept_)
    for k in range(2):
        np.testing.assert_allclose(model.predict_propensity(seen.X, look=k), e[:, k], atol=1e-12)
    A = np.prod(np.where(seen.S == 1, e, np.where(seen.S == 0, 1 - e, 1.0)), axis=1)
    B = np.nansum(seen.S, axis=1) == 0
    q = np.where(seen.audit >= 0, seen.audit, f * A / (f * A + (1 - f) * B))
    np.testing.assert_allclose(model.predict_posterior(seen.X, seen.S, audit=seen.audit), q, atol=1e-10)
    assert model.score(seen.X, seen.S) == pytest.approx(np.log(f * A + (1 - f) * B).mean(), abs=1e-10)
    curve = [f @ e[:, 0] / f.sum(), f @ (1 - (1 - e[:, 0]) * (1 - e[:, 1])) / f.sum()]
    np.testing.assert_allclose(model.detection_curve(seen.X), curve, atol=1e-10)
    held = expit(model.recalibration_(found.fit.u))  # these include the tilt
    assert model.class_prior_ == pytest.approx(held.mean(), abs=1e-10)
    np.testing.assert_allclose(model.label_frequencies_, held @ e / held.sum(), atol=1e-10)


def test_boosting_finds_a_class_that_no_logistic_model_can():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    f = expit(np.where(X[:, 0] * X[:, 1] > 0, 2.5, -2.5))
    y = rng.random(2000) < f
    S = (y[:, None] & (rng.random((2000, 2)) < expit(X[:, [2]]))).astype(int)
    boosted = crossed(HistGradientBoostingClassifier(max_leaf_nodes=8)).fit(X, S)
    logistic = SAREMClassifier(propensity_attributes=[2]).fit(X, S)
    errors = [np.mean((model.predict_proba(X)[:, 1] - f) ** 2) for model in (boosted, logistic)]
    assert errors[0] < 0.05
    assert errors[1] > 0.15
    # The interval ignores errors of the trees: here it ends just below the share of positives.
    assert abs(boosted.class_prior_ - y.mean()) < 0.06


@quietly
@pytest.mark.parametrize("classifier", [LOGISTIC, DecisionTreeClassifier(max_depth=2, random_state=0)])
def test_weights_equal_copies(seen, classifier):
    weight = np.random.default_rng(0).integers(0, 3, len(seen.X))
    rows = np.repeat(np.arange(len(seen.X)), weight)
    weighted = crossed(classifier).fit(seen.X, seen.S, sample_weight=weight, audit=seen.audit)
    copied = crossed(classifier).fit(seen.X[rows], seen.S[rows], audit=seen.audit[rows])
    np.testing.assert_allclose(weighted.predict_proba(seen.X), copied.predict_proba(seen.X), atol=1e-5)
    np.testing.assert_allclose(weighted.predict_propensity(seen.X), copied.predict_propensity(seen.X), atol=1e-5)


@quietly
@pytest.mark.filterwarnings("ignore:.* and the rows disagree")
def test_known_values_hold_for_all_rows_and_for_a_group(seen):
    X = np.column_stack([seen.X, np.arange(len(seen.X)) % 2])
    model = crossed(LOGISTIC, known=[ClassPrior(0.55)]).fit(X, np.nan_to_num(seen.S[:, 0]))
    assert model.class_prior_ == pytest.approx(0.55, abs=1e-5)
    model = crossed(LOGISTIC, known=[ClassPrior(0.4, where={4: 1})], propensity_attributes=[2, 4])
    model.fit(X, np.nan_to_num(seen.S[:, 0]))
    f = expit(model.fitted_pair_.source.held_out())
    assert f[X[:, 4] == 1].mean() == pytest.approx(0.4, abs=1e-5)
    assert abs(f[X[:, 4] == 0].mean() - 0.4) > 0.01


@quietly
def test_false_positives_are_found():
    seen = SimulatedLooks(n=3000, seed=2, rate=0.05)
    model = crossed(LOGISTIC, labelling=Labelling(false_positive_rate="estimate")).fit(seen.X, seen.S)
    assert model.false_positive_rate_ == pytest.approx(0.05, abs=0.02)
    assert model.class_prior_ == pytest.approx(seen.y.mean(), abs=0.04)
    with pytest.warns(UserWarning, match="labels do not fit a model without false positives"):
        ignored = crossed(LOGISTIC).fit(seen.X, seen.S)
    assert ignored.class_prior_ > model.class_prior_ + 0.03


@quietly
def test_visit_attributes_belong_to_their_look(seen):
    effort = np.random.default_rng(1).normal(size=(len(seen.X), 2))
    X = np.column_stack([seen.X, effort])
    model = crossed(LOGISTIC, labelling=Labelling(visit_attributes={"effort": [4, 5]})).fit(X, seen.S)
    assert 4 not in model.fitted_pair_.source.f_columns
    v = X[:, 2] * model.propensity_coef_[0, 2] + effort[:, 1] * model.visit_coef_[0, 0] + model.propensity_intercept_[0]
    np.testing.assert_allclose(model.predict_propensity(X, look=1), expit(v), atol=1e-12)


@quietly
def test_tables_can_have_text_that_the_classifier_reads(seen):
    frame = pd.DataFrame(seen.X, columns=list("abcd"))
    frame["kind"] = pd.Categorical(np.where(seen.X[:, 0] > 0, "left", "right"))
    booster = HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype")
    model = crossed(booster, propensity_attributes=["c"]).fit(frame, seen.S, audit=seen.audit)
    f = model.predict_proba(frame)[:, 1]
    assert np.corrcoef(f, seen.f)[0, 1] > 0.8
    assert np.corrcoef(model.predict_propensity(frame), seen.e)[0, 1] > 0.99
    q = model.predict_posterior(frame, seen.S, audit=seen.audit)
    np.testing.assert_array_equal(q[seen.audit >= 0], seen.audit[seen.audit >= 0])


@quietly
def test_the_summary_has_shares_slope_and_remarks(seen):
    model = crossed(BOOSTING, labelling=Labelling(shared=False)).fit(seen.X, seen.S, audit=seen.audit)
    text = " ".join(str(model.summary()).split())
    audited = np.count_nonzero(seen.audit >= 0)
    assert f"Looks: 2; audited rows: {audited}; label frequency of a look:" in text
    assert "Brackets: 95% intervals from the likelihood on the grid of class priors" in text
    assert "Rows are assumed to be chosen for audits by their attributes, by their labels or at random" in text
    assert f"x2 (look 1) {model.propensity_coef_[1, 2]:.3g}" in text
    low, high = model.class_prior_interval()
    assert model.summary().members[0].class_prior_interval == (low, high)
    assert low < model.class_prior_ < high
    wide = model.class_prior_interval(level=0.99)
    assert wide.low < low < high < wide.high
    low, high = model.label_frequency_interval()
    assert low < model.label_frequency_ < high


@quietly
def test_a_saved_model_predicts_the_same_and_damaged_numbers_are_refused(seen, tmp_path):
    model = crossed(LOGISTIC).fit(seen.X, seen.S, audit=seen.audit)
    save(model, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(seen.X), model.predict_proba(seen.X))
    np.testing.assert_array_equal(again.predict_posterior(seen.X, seen.S), model.predict_posterior(seen.X, seen.S))
    assert again.class_prior_interval() == model.class_prior_interval()
    assert str(again.summary()) == str(model.summary())
    again.fitted_pair_.source.parameters[2] = np.nan
    with pytest.raises(ValueError, match=r"Crossed\.parameters holds NaN"):
        check_values(again)


@quietly
def test_a_fitted_model_holds_no_rows_and_forgets_looks_when_fitted_to_labels(seen):
    model = crossed(LOGISTIC).fit(seen.X, seen.S, audit=seen.audit)
    twice = crossed(LOGISTIC).fit(np.tile(seen.X, (4, 1)), np.tile(seen.S, (4, 1)), audit=np.tile(seen.audit, 4))
    # The model stores out-of-fold logits and propensities of training rows, but no table.
    grown = len(pickle.dumps(twice)) - len(pickle.dumps(model))
    assert grown < 3 * seen.X.nbytes + 60_000
    s = np.nan_to_num(seen.S[:, 0]).astype(int)
    again, fresh = model.fit(seen.X, s), crossed(LOGISTIC).fit(seen.X, s)
    np.testing.assert_array_equal(again.predict_proba(seen.X), fresh.predict_proba(seen.X))
    assert not hasattr(again, "n_looks_")
    assert again.class_prior_interval() == fresh.class_prior_interval()


def test_incompatible_options_are_refused(seen):
    given = {"X": seen.X, "y": seen.S}
    with pytest.raises(ValueError, match="propensity_estimator needs one label for each row"):
        crossed(LOGISTIC, propensity_estimator=LOGISTIC).fit(**given)
    with pytest.raises(ValueError, match=r"cv must not be None .* To fit without folds, .* use PublishedEMClassifier"):
        crossed(LOGISTIC, cv=None).fit(**given)
    for model in (crossed(LOGISTIC, known=[PseudoObservations(3)]), crossed(None, known=[PseudoObservations(0)])):
        with pytest.raises(ValueError, match="PseudoObservations cannot be combined with several looks"):
            model.fit(**given)
    with pytest.raises(ValueError, match=r"n_starts must be a whole number if there are several looks"):
        crossed(None, n_starts=["paper"]).fit(**given)


@quietly
def test_intervals_use_the_grid_by_default_and_unknown_kinds_are_refused(seen):
    model = crossed(LOGISTIC).fit(seen.X, seen.S)
    by_grid, by_model = (model.class_prior_interval(kind=kind) for kind in ("grid", "model"))
    assert model.class_prior_interval() == by_grid
    assert by_grid.low < by_model.low < model.class_prior_ < by_model.high < by_grid.high
    with pytest.raises(ValueError, match="kind must be"):
        model.label_frequency_interval(kind="wide")
    low, high = model.predict_proba_interval(seen.X).T
    assert (low <= model.predict_proba(seen.X)[:, 1]).mean() > 0.99 < (model.predict_proba(seen.X)[:, 1] <= high).mean()
    with pytest.raises(ValueError, match="has no standard errors"):
        model.standard_errors()
    with pytest.raises(ValueError, match="The interval of each row's posterior is not available for this SAREMClassif"):
        model.predict_posterior_interval(seen.X, seen.S)
