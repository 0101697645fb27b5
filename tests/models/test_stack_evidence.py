"""Stacks with looks, audits, false-positive rates, visit attributes, offsets, bounds and known values."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from tests.helpers import SimulatedLooks

import scarless
from scarless import ClassPrior, Labelling, SAREMClassifier, SARStackingClassifier
from scarless.numerics.likelihood import at_least_one

LOGISTIC = (("logistic", None),)
BOTH = (*LOGISTIC, ("bayes", GaussianNB()))


def stack(members=BOTH, **options):
    given = {"propensity_attributes": [2], "attribute_sets": [None], "cv": 2, "random_state": 0, "max_iter": 50}
    return SARStackingClassifier(list(members), **(given | options))


@pytest.fixture(scope="module")
def seen():
    return SimulatedLooks(n=1500, seed=3)


@pytest.fixture(scope="module")
def looked(seen):
    return stack().fit(seen.X, seen.S)


@pytest.fixture(scope="module")
def one_look(seen):
    return stack().fit(seen.X, np.nan_to_num(seen.S[:, 0]))


def test_answers_follow_from_the_members_and_the_recalibrated_mean(seen, looked):
    f = [expit(member.recalibration(member.logits(seen.X))) for member in looked.members_]
    weights = [member.weight for member in looked.members_]
    found = expit(looked.recalibration_(logit(np.average(f, axis=0, weights=weights))))
    np.testing.assert_allclose(looked.predict_proba(seen.X)[:, 1], found, rtol=1e-9)
    e = expit(seen.X[:, 2] * looked.propensity_coef_[0, 2] + looked.propensity_intercept_[0])
    np.testing.assert_allclose(looked.predict_propensity(seen.X), e, rtol=1e-9)
    missed = 1 - at_least_one(np.where(np.isnan(seen.S), 0.0, e[:, None]))
    q = np.where((seen.S == 1).any(axis=1), 1.0, found * missed / (1 - found * (1 - missed)))
    np.testing.assert_allclose(looked.predict_posterior(seen.X, seen.S), q, atol=1e-9)
    np.testing.assert_allclose(looked.detection_curve(seen.X), found @ (1 - (1 - e[:, None]) ** [1, 2]) / found.sum())
    assert (looked.n_looks_, looked.n_audited_) == (2, 0)


def test_looks_identify_the_class_prior(seen, looked, one_look):
    low, high = looked.class_prior_interval()
    assert low < seen.y.mean() < high
    assert high - low < 0.6 * np.subtract(*one_look.class_prior_interval()[::-1])


def test_audited_rows_have_a_known_posterior(seen):
    s = np.nan_to_num(seen.S[:, 0])
    model = stack().fit(seen.X, s, audit=seen.audit)
    low, high = model.class_prior_interval()
    assert low < seen.y.mean() < high
    q, checked = model.predict_posterior(seen.X, s, audit=seen.audit), seen.audit >= 0
    np.testing.assert_array_equal(q[checked], seen.audit[checked])
    assert model.n_audited_ == checked.sum()
    assert "audited rows: " in " ".join(str(model.summary()).split())


def test_looks_with_own_propensities_and_visit_attributes(seen):
    X = np.column_stack([seen.X, np.random.default_rng(0).uniform(0.5, 2.0, (len(seen.X), 2))])
    model = stack(LOGISTIC, labelling=Labelling(shared=False, visit_attributes={"effort": [4, 5]})).fit(X, seen.S)
    assert model.propensity_coef_.shape == (2, 6)
    assert model.visit_coef_.shape == (2, 1)
    for k in range(2):
        v = X @ model.propensity_coef_[k] + X[:, 4 + k] * model.visit_coef_[k, 0] + model.propensity_intercept_[k]
        np.testing.assert_allclose(model.predict_propensity(X, look=k), expit(v), rtol=1e-9)
    assert {name for name, _ in model.summary().propensity} >= {"effort (look 0)", "effort (look 1)"}
    with pytest.raises(ValueError, match="the 2 looks of this model have different propensities"):
        model.predict_propensity(X)


def test_false_positives_are_estimated():
    seen = SimulatedLooks(n=1500, seed=1, rate=0.1)
    model = stack(LOGISTIC, labelling=Labelling(false_positive_rate="estimate")).fit(seen.X, seen.S, audit=seen.audit)
    assert model.false_positive_rate_ == pytest.approx(0.1, abs=0.04)
    low, high = model.class_prior_interval()
    assert low < seen.y.mean() < high


def test_known_values_of_a_group_hold(seen):
    X = np.column_stack([seen.X, seen.X[:, 3] > 0])
    model = stack(known=[ClassPrior(0.4, where={4: 1})]).fit(X, np.nan_to_num(seen.S[:, 0]))
    f = expit(model.fitted_pair_.source.held_out())
    assert f[X[:, 4] == 1].mean() == pytest.approx(0.4, abs=1e-4)


def test_offsets_and_bounds_are_parts_of_the_propensity(seen):
    s = np.nan_to_num(seen.S[:, 0])
    model = stack(propensity_attributes=[3], labelling=Labelling(offset=2, bounds=(0.01, 1.0))).fit(seen.X, s)
    v = seen.X @ model.propensity_coef_[0] + seen.X[:, 2] + model.propensity_intercept_[0]
    np.testing.assert_allclose(model.predict_propensity(seen.X), 0.01 + 0.99 * expit(v), rtol=1e-9)
    assert all(member.model.columns.size == 3 for member in model.members_ if member.name == "logistic")


def test_looks_identify_the_slope_of_the_propensity_in_the_class_logit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    u = 1.5 * X[:, 0] - X[:, 1]
    y = rng.random(2000) < expit(u)
    S = (y[:, None] & (rng.random((2000, 3)) < expit(u - 0.5)[:, None])).astype(int)
    model = stack(LOGISTIC, propensity_attributes=None, find_attributes=False).fit(X, S)
    assert model.recalibration_.follow == 1.0
    even = (y[:, None] & (rng.random((2000, 3)) < 0.4)).astype(int)
    assert clone(model).fit(X, even).recalibration_.follow == 0.0


def test_groups_widen_intervals_of_looks(seen, looked):
    twice = np.repeat(np.arange(len(seen.X)), 2)
    grouped = stack(cv=2).fit(seen.X[twice], seen.S[twice], groups=twice)
    plain, wide = (np.subtract(*each.class_prior_interval()[::-1]) for each in (looked, grouped))
    assert grouped.fitted_pair_.n_groups == len(seen.X)
    assert wide > 0.8 * plain  # copies of rows add no information


def test_posteriors_of_a_stack_of_looks_are_drawn(seen, looked):
    drawn, q = looked.draw_posteriors(seen.X, seen.S, n_draws=100), looked.predict_posterior(seen.X, seen.S)
    assert drawn.shape == (100, len(q))
    assert (drawn[:, q == 1] == 1).all()  # labelled rows are positive
    assert np.abs(drawn.mean(axis=0) - q).mean() < 0.02
    assert (drawn[:, q < 1].std(axis=0) > 0).all()
    without = copy(looked)  # as in files of earlier versions
    without._pair = replace(looked.fitted_pair_, shares=None)
    with pytest.raises(ValueError, match="draw_posteriors is not available for this SARStackingClassifier"):
        without.draw_posteriors(seen.X, seen.S)


def test_draws_have_the_given_class_priors(looked):
    inference, priors = looked.fitted_pair_.shares, np.linspace(0.3, 0.5, 7)
    drawn = inference.draws_at(priors, np.random.default_rng(0))
    changed = (drawn - inference.parameters) @ inference.class_prior.gradient
    np.testing.assert_allclose(changed, priors - inference.class_prior.value, atol=1e-12)


def test_groups_widen_the_standard_errors_of_looks(looked):
    inference = replace(looked.fitted_pair_.shares, added=0.0 * looked.fitted_pair_.shares.added)
    wide = inference.widened(4.0, 1000)
    for name in ("class_prior", "label_frequency"):
        one, other = (each.error_of(getattr(each, name)) for each in (inference, wide))
        assert other == pytest.approx(2.0 * one)


def test_a_stack_of_looks_is_saved_and_loaded(seen, looked, tmp_path):
    scarless.save(looked, tmp_path / "a.skops")
    again = scarless.load(tmp_path / "a.skops")
    np.testing.assert_array_equal(again.predict_posterior(seen.X, seen.S), looked.predict_posterior(seen.X, seen.S))
    assert str(again.summary()) == str(looked.summary())


def test_unsupported_methods_of_a_stack_of_looks_are_refused(seen, looked, one_look):
    told = r"is not available for this SARStackingClassifier\. With several looks, .* are both logistic"
    with pytest.raises(ValueError, match=told):
        looked.predict_posterior_interval(seen.X, seen.S)
    with pytest.raises(ValueError, match="out_of_fold_logits is only for fits to one label for each row"):
        looked.out_of_fold_logits(seen.X, seen.S)
    with pytest.raises(ValueError, match="audit: this model was fitted without audits"):
        one_look.predict_posterior(seen.X, seen.S[:, 0], audit=seen.audit)


def test_columns_of_single_looks_in_attribute_sets_are_refused(seen):
    X = np.column_stack([seen.X, np.random.default_rng(5).normal(size=(len(seen.X), 2))])
    model = stack(labelling=Labelling(visit_attributes={"effort": [4, 5]}), attribute_sets=[[0, 4]])
    with pytest.raises(ValueError, match="attribute_sets has columns that are also visit_attributes or offset"):
        model.fit(X, seen.S)


def test_one_member_of_looks_is_near_the_plain_fit(seen):
    model = SARStackingClassifier([("logistic", None)], propensity_attributes=[2], attribute_sets=[None], cv=3)
    plain = SAREMClassifier(propensity_attributes=[2]).fit(seen.X, seen.S, audit=seen.audit)
    found = model.set_params(random_state=0).fit(seen.X, seen.S, audit=seen.audit)
    assert found.class_prior_ == pytest.approx(plain.class_prior_, abs=0.01)
    np.testing.assert_allclose(found.propensity_coef_, plain.propensity_coef_, atol=0.1)
