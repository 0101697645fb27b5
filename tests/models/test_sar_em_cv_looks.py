"""Selection of penalties and attributes by the looks and audits of held-out rows."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from tests.helpers import SimulatedLooks

from scarless import ClassPrior, LabelFrequency, Labelling, PseudoObservations, SAREMClassifier, SAREMClassifierCV
from scarless.models import sar_em_cv as module
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import Curvature

ALONE = {
    "recalibrate": False,
    "attribute_sets": [None],
    "Cs": [0.7],
    "propensity_Cs": [2.0],
    "cv": 3,
    "random_state": 0,
}
SMALL = {"Cs": [0.1, 1.0, 10.0], "propensity_Cs": [0.5, 2.0], "random_state": 0}


@pytest.fixture(scope="module")
def seen():
    return SimulatedLooks()


def same_fit(one, other, atol):
    for name in ("coef_", "intercept_", "propensity_coef_", "propensity_intercept_", "class_prior_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=atol)


@pytest.mark.parametrize("given", ["looks", "audits", "both", "own", "rates", "facts"])
def test_one_candidate_is_the_plain_fit(seen, given):
    y = seen.S[:, 0] if given == "audits" else seen.S
    y = np.nan_to_num(y) if given == "audits" else y
    audit = None if given == "looks" else seen.audit
    more = {
        "own": {"labelling": Labelling(shared=False)},
        "rates": {"labelling": Labelling(false_positive_rate="estimate")},
        "facts": {"known": [ClassPrior(0.48, se=0.02), LabelFrequency(0.55, se=0.05, look=1)]},
    }.get(given, {})
    search = SAREMClassifierCV(propensity_attributes=[2], **ALONE, **more).fit(seen.X, y, audit=audit)
    plain = SAREMClassifier(propensity_attributes=[2], C=0.7, propensity_C=2.0, **more).fit(seen.X, y, audit=audit)
    same_fit(search, plain, 1e-6)
    assert search.C_ == 0.7
    assert search.propensity_C_ == 2.0
    assert search.class_prior_interval() == pytest.approx(plain.class_prior_interval(), abs=1e-5)
    np.testing.assert_allclose(search.label_frequencies_, plain.label_frequencies_, atol=1e-6)
    np.testing.assert_allclose(
        search.predict_posterior(seen.X, y, audit=audit), plain.predict_posterior(seen.X, y, audit=audit), atol=1e-5
    )
    assert search.score(seen.X, y) == pytest.approx(plain.score(seen.X, y), abs=1e-6)


def held_out_by_hand(seen, folds, params):
    """Return the log-likelihood of the labels and audits of each row, by a model that was not trained on the row."""
    sees = None if params["attributes"] == "all" else [0, 1, 3]
    model = SAREMClassifier(
        propensity_attributes=[2],
        classification_attributes=sees,
        C=params["C"],
        propensity_C=params["propensity_C"],
    )
    value = np.empty(len(seen.X))
    for train, test in folds:
        model.fit(seen.X[train], seen.S[train], audit=seen.audit[train])
        f, e, S = model.predict_proba(seen.X[test])[:, 1], model.predict_propensity(seen.X[test]), seen.S[test]
        A = np.prod(np.where(S == 1, e[:, None], np.where(S == 0, 1 - e[:, None], 1.0)), axis=1)
        B = (np.nansum(S, axis=1) == 0) * 1.0
        audit = seen.audit[test]
        value[test] = np.log(np.select([audit == 1, audit == 0], [f * A, (1 - f) * B], f * A + (1 - f) * B))
    return value


def test_candidates_are_judged_by_labels_and_audits_of_rows_they_have_not_seen(seen):
    folds = list(StratifiedKFold(3, shuffle=True, random_state=1).split(seen.X, np.nansum(seen.S, axis=1) > 0))
    model = SAREMClassifierCV(propensity_attributes=[2], cv=folds, **SMALL).fit(seen.X, seen.S, audit=seen.audit)
    results = model.cv_results_
    rows = np.array([held_out_by_hand(seen, folds, params) for params in results["params"]])
    np.testing.assert_allclose(results["mean_test_score"], rows.mean(axis=1), atol=1e-5)
    best = results["mean_test_score"].argmax()
    np.testing.assert_allclose(results["behind_best"], (rows[best] - rows).mean(axis=1), atol=1e-5)
    error = (rows[best] - rows).std(axis=1) / np.sqrt(len(seen.X))
    np.testing.assert_allclose(results["standard_error"], error, atol=1e-5)
    assert results["params"][model.best_index_] == model.best_params_
    assert model.best_score_ == results["mean_test_score"][model.best_index_]


def test_the_best_tied_set_is_selected_with_the_penalty_nearest_to_1(seen):
    model = SAREMClassifierCV(propensity_attributes=[2], cv=4, **SMALL).fit(seen.X, seen.S, audit=seen.audit)
    results = model.cv_results_
    tied = np.flatnonzero(results["tied"])
    assert np.unique(results["path"][tied]).size == 2
    far = np.abs(np.log(results["param_C"])) + 1e-3 * np.abs(np.log(results["param_propensity_C"]))
    nearest = [min(tied[results["path"][tied] == path], key=lambda i: far[i]) for path in (0, 1)]
    assert model.best_index_ == max(nearest, key=lambda i: results["mean_test_score"][i])
    assert "The candidate with the best score was chosen" in str(model.selection_)
    assert "Standard errors of coefficients ignore this choice" in " ".join(str(model.summary()).split())
    seen_by = model.classification_attributes_
    assert set(np.flatnonzero(model.coef_[0])) <= set(seen_by)


@pytest.mark.filterwarnings("ignore:.*unlabelled rows have an audit:UserWarning")  # all rows are audited here
def test_audits_of_all_rows_are_supervised_learning(seen):
    labels = np.nan_to_num(seen.S[:, 0])
    model = SAREMClassifierCV(propensity_attributes=[2], **ALONE).fit(seen.X, labels, audit=seen.y)
    supervised = LogisticRegression(C=0.7, tol=1e-10, max_iter=1000).fit(seen.X, seen.y)
    np.testing.assert_allclose(model.coef_, supervised.coef_, atol=1e-4)
    labelling = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000).fit(seen.X[seen.y][:, [2]], labels[seen.y])
    np.testing.assert_allclose(model.propensity_coef_[0, 2], labelling.coef_[0, 0], atol=1e-4)


def test_audits_select_a_set_that_labels_cannot_select():
    """With one look, labels do not show whether x1 affects the class or the labelling; audits do."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 3))
    y = rng.random(3000) < expit(1.5 * X[:, 0] - 2.0 * X[:, 1])
    s = (y & (rng.random(3000) < expit(X[:, 1]))).astype(int)
    audit = np.where(np.arange(3000) < 1000, y, -1)
    model = SAREMClassifierCV(propensity_attributes=[1], Cs=[1.0], random_state=0).fit(X, s, audit=audit)
    behind = model.cv_results_["behind_best"] / np.maximum(model.cv_results_["standard_error"], 1e-12)
    assert model.best_params_["attributes"] == "all"
    assert behind[1] > 4
    assert model.selection_.n_tied == 1


def test_known_values_hold_in_every_training_fold(seen, monkeypatch):
    kept = []
    plain = module.fit_folds

    def noted(paths, grid, engines, **options):
        found = plain(paths, grid, engines, **options)
        for fold, engine in zip(found, engines, strict=True):
            for each, path in zip(fold.models, paths, strict=True):
                sums = path.problem.on(engine).sums(each.parameters)
                kept.append(float(sums.positives / sums.weight))
        return found

    monkeypatch.setattr(module, "fit_folds", noted)
    model = SAREMClassifierCV(propensity_attributes=[2], known=[ClassPrior(0.5)], **ALONE)
    model.fit(seen.X, np.nan_to_num(seen.S[:, 0]))
    np.testing.assert_allclose(kept, [0.5] * 3, atol=1e-5)
    assert model.class_prior_ == pytest.approx(0.5, abs=1e-5)


def test_recalibration_applies_slope_and_shift_to_the_fit_to_all_rows(seen):
    folds = list(StratifiedKFold(3, shuffle=True, random_state=1).split(seen.X, np.nansum(seen.S, axis=1) > 0))
    options = {"propensity_attributes": [2], "cv": folds, "attribute_sets": [None], "Cs": [0.05]}
    plain, recalibrated = (
        SAREMClassifierCV(**options, recalibrate=recalibrate).fit(seen.X, seen.S, audit=seen.audit)
        for recalibrate in (False, True)
    )
    u = np.empty(len(seen.X))
    for train, test in folds:
        one = SAREMClassifier(propensity_attributes=[2], C=0.05).fit(
            seen.X[train], seen.S[train], audit=seen.audit[train]
        )
        u[test] = seen.X[test] @ one.coef_[0] + one.intercept_[0]
    # Recalibration is a logistic model of one column, the out-of-fold logits, fitted with the same propensity and a
    # ridge of 1 on the logarithm of the slope.
    table, seen_at = np.column_stack([u, seen.X[:, 2]]), seen.S >= 0
    counts = {"labels": np.nansum(seen.S, axis=1)[:, None], "looks": seen_at.sum(axis=1)[:, None].astype(float)}
    rows = {**counts, "audit": seen.audit.astype(float), "w": np.ones(len(u))}
    likelihood = LooksLikelihood(Design.of(np.arange(1)), ((Design.of(np.array([1])),),))

    def penalised(theta):
        at = np.append(np.exp(theta[0]), theta[1:])
        return float(likelihood.sums(table, rows, at, Curvature.NONE).value) + 0.5 * (theta[0] ** 2 + theta[2] ** 2)

    log_slope, shift, e_slope, _ = minimize(penalised, np.zeros(4), method="BFGS", options={"gtol": 1e-6}).x
    slope = np.exp(log_slope)
    assert slope > 1.1  # because the strong penalty made the logits too flat
    np.testing.assert_allclose(recalibrated.coef_, slope * plain.coef_, atol=1e-4)
    np.testing.assert_allclose(recalibrated.intercept_, shift + slope * plain.intercept_, atol=1e-4)
    np.testing.assert_allclose(recalibrated.propensity_coef_[0, 2], e_slope, atol=1e-4)
    np.testing.assert_allclose(recalibrated.class_prior_, recalibrated.predict_proba(seen.X)[:, 1].mean(), atol=1e-9)
    low, high = recalibrated.class_prior_interval()
    assert low < recalibrated.class_prior_ < high


def test_one_look_with_audits_is_not_recalibrated(seen):
    s, options = np.nan_to_num(seen.S[:, 0]), {**ALONE, "Cs": [0.05]}
    one, other = (
        SAREMClassifierCV(propensity_attributes=[2], **{**options, "recalibrate": recalibrate}).fit(
            seen.X, s, audit=seen.audit
        )
        for recalibrate in (True, False)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_known_values_prevent_recalibration_and_pseudo_observations(seen):
    options = {"propensity_attributes": [2], "cv": 3, "known": [ClassPrior(0.5)], **SMALL}
    models = [
        SAREMClassifierCV(**{**options, **more}).fit(seen.X, seen.S)
        for more in ({}, {"recalibrate": False}, {"known": [ClassPrior(0.5), PseudoObservations(0)]})
    ]
    for other in models[1:]:
        np.testing.assert_array_equal(other.predict_proba(seen.X), models[0].predict_proba(seen.X))
    assert models[0].class_prior_ == pytest.approx(0.5, abs=1e-5)
    assert not hasattr(models[0], "recalibration_")


def test_weights_equal_copies(seen):
    weight = np.random.default_rng(0).integers(0, 3, len(seen.X))
    rows = np.repeat(np.arange(len(seen.X)), weight)
    model = SAREMClassifierCV(propensity_attributes=[2], cv=3, **SMALL)
    weighted = clone(model).fit(seen.X, seen.S, sample_weight=weight, audit=seen.audit)
    copied = clone(model).fit(seen.X[rows], seen.S[rows], audit=seen.audit[rows])
    assert weighted.best_params_ == copied.best_params_
    same_fit(weighted, copied, 1e-6)


def test_attribute_sets_exclude_visit_attributes(seen):
    rng = np.random.default_rng(5)
    effort = rng.normal(size=(len(seen.X), 2))
    X = np.column_stack([seen.X, effort])
    model = SAREMClassifierCV(
        propensity_attributes=[2],
        Cs=[1.0],
        cv=3,
        random_state=0,
        labelling=Labelling(visit_attributes={"effort": [4, 5]}),
    ).fit(X, seen.S)
    assert (model.coef_[0, 4:] == 0).all()
    assert model.visit_coef_.shape == (1, 1)
    with pytest.raises(ValueError, match="attribute_sets has columns that are also visit_attributes"):
        clone(model).set_params(attribute_sets=[[0, 4]]).fit(X, seen.S)


def test_a_fit_to_one_label_forgets_an_earlier_fit_to_looks(seen):
    s = np.nan_to_num(seen.S[:, 0]).astype(int)
    model = SAREMClassifierCV(propensity_attributes=[2], cv=3, Cs=[1.0], random_state=0)
    fresh = clone(model).fit(seen.X, s)
    again = clone(model).fit(seen.X, seen.S, audit=seen.audit).fit(seen.X, s)
    np.testing.assert_array_equal(again.predict_proba(seen.X), fresh.predict_proba(seen.X))
    assert not hasattr(again, "n_looks_")
    assert hasattr(again, "recalibration_")
    with pytest.raises(ValueError, match="look=1: this model was fitted to one label for each row"):
        again.predict_propensity(seen.X, look=1)
    with pytest.raises(ValueError, match="audit: this model was fitted without audits"):
        again.predict_posterior(seen.X, s, audit=seen.audit)
    with pytest.raises(ValueError, match="detection_curve needs a fit to several looks"):
        again.detection_curve(seen.X)


def test_labels_can_be_words(seen):
    words = np.where(seen.S == 1, "seen", np.where(np.isnan(seen.S), None, "not"))
    model = SAREMClassifierCV(propensity_attributes=[2], pos_label="seen", **ALONE)
    same_fit(model.fit(seen.X, words), clone(model).set_params(pos_label=None).fit(seen.X, seen.S), 1e-9)
    assert list(model.classes_) == ["not", "seen"]


def test_wrong_input_is_refused(seen):
    model = SAREMClassifierCV(propensity_attributes=[2], **ALONE)
    with pytest.raises(ValueError, match="known must be a list"):
        clone(model).set_params(known=ClassPrior(0.4)).fit(seen.X, seen.S)
    with pytest.raises(ValueError, match=r"false_positive_rate, .*, must be in"):
        clone(model).set_params(labelling=Labelling(false_positive_rate=0.7)).fit(seen.X, seen.S)
    with pytest.raises(ValueError, match="audit has 3 values for 400 rows"):
        model.fit(seen.X, seen.S, audit=[1, 0, 1])
    with pytest.raises(ValueError, match="known has the label frequency of look 2, but labels have 2 looks"):
        clone(model).set_params(known=[LabelFrequency(0.5, look=2)]).fit(seen.X, seen.S)
    with pytest.raises(ValueError, match="were audited negative"):
        model.fit(seen.X, seen.S, audit=np.zeros(400))
