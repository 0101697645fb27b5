"""Models of earlier versions: every removed parameter is converted to the current state."""

import inspect
import warnings
from copy import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from scarless import (
    ClassPrior,
    Labelling,
    PropensityWeightedClassifier,
    PseudoObservations,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
)
from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, TIcE
from scarless.saved.earlier import NoLongerFitted, current_state, renew

# The parameters of SAREMClassifier before there was a Labelling, with their defaults.
EARLIER = {
    "estimator": None,
    "propensity_estimator": None,
    "propensity_attributes": None,
    "classification_attributes": None,
    "visit_attributes": None,
    "propensity_offset": None,
    "propensity_bounds": None,
    "shared_propensity": True,
    "false_positive_rate": 0.0,
    "audit_labels": "keep",
    "known": None,
    "solver": "auto",
    "refit": False,
    "cross_fit": 5,
    "relax": True,
    "C": 1.0,
    "propensity_C": 1.0,
    "imaginary_audits": "auto",
    "n_starts": 1,
    "start": "auto",
    "tol": None,
    "slope_tol": 1e-4,
    "window": 10,
    "max_iter": 500,
    "pos_label": None,
    "random_state": None,
    "n_jobs": None,
    "verbose": False,
}


def today(name="SAREMClassifier", **given):
    """Return the current form of an earlier model with these parameters."""
    name, state = current_state(name, {**EARLIER, **given} if name == "SAREMClassifier" else given)
    model = {"SAREMClassifier": SAREMClassifier, "PublishedEMClassifier": PublishedEMClassifier}[name]()
    assert list(state) == list(inspect.signature(type(model)).parameters)
    model.__dict__.update(state)
    return model


SAME = [
    ({}, {}),
    ({"C": 3.0, "propensity_C": 2.0, "tol": 1e-3}, {"C": 3.0, "propensity_C": 2.0, "tol": 1e-3}),
    ({"cross_fit": 3}, {"cv": 3}),
    ({"n_starts": 4}, {"n_starts": 4}),
    ({"start": "paper"}, {"n_starts": ["paper"]}),
    ({"start": "exclusion"}, {"n_starts": ["exclusion"]}),
    ({"start": 0.3}, {"n_starts": [0.3]}),
    ({"start": "random", "n_starts": 2}, {"n_starts": ["random", "random"]}),
    ({"start": "class_prior", "n_starts": 3}, {"n_starts": [0.25, 0.5, 0.75]}),
    ({"imaginary_audits": 0}, {"known": [PseudoObservations(0)]}),
    (
        {"imaginary_audits": 2.0, "known": [ClassPrior(0.4)]},
        {"known": [ClassPrior(0.4), PseudoObservations(2.0)]},
    ),
    ({"visit_attributes": {"v": [0, 1]}}, {"labelling": Labelling(visit_attributes={"v": [0, 1]})}),
    ({"propensity_offset": "effort"}, {"labelling": Labelling(offset="effort")}),
    ({"propensity_bounds": (0.2, 1)}, {"labelling": Labelling(bounds=(0.2, 1))}),
    ({"shared_propensity": False}, {"labelling": Labelling(shared=False)}),
    ({"false_positive_rate": "estimate"}, {"labelling": Labelling(false_positive_rate="estimate")}),
    ({"false_positive_rate": [0.0, 0.1]}, {"labelling": Labelling(false_positive_rate=[0.0, 0.1])}),
    ({"audit_labels": "undo"}, {"labelling": Labelling(audit_labels="undo")}),
    (
        {"shared_propensity": False, "propensity_bounds": (0, 0.5)},
        {"labelling": Labelling(shared=False, bounds=(0, 0.5))},
    ),
    ({"solver": "newton"}, {}),
    ({"relax": False, "slope_tol": 1e-2, "window": 3}, {}),  # two logistic models ignored these parameters
]  # fmt: skip


@pytest.mark.parametrize(("before", "now"), SAME, ids=str)
def test_each_earlier_parameter_is_converted(before, now):
    found, expected = today(**before), SAREMClassifier(**now)
    assert type(found) is SAREMClassifier
    assert str(found.get_params()) == str(expected.get_params())


PUBLISHED = [
    ({"solver": "em"}, {}),
    ({"solver": "em", "tol": 1e-3, "slope_tol": 1e-2, "window": 3}, {"tol": 1e-3, "slope_tol": 1e-2, "window": 3}),
    ({"solver": "em", "refit": True, "C": 2.0}, {"refit": True, "C": 2.0}),
    ({"refit": True}, {"refit": True}),
    ({"estimator": GaussianNB(), "cross_fit": None, "n_jobs": 2}, {"estimator": GaussianNB()}),
    (
        {"propensity_estimator": GaussianNB(), "propensity_attributes": [1], "cross_fit": None},
        {"propensity_estimator": GaussianNB(), "propensity_attributes": [1]},
    ),
    ({"estimator": GaussianNB(), "refit": True}, {"estimator": GaussianNB(), "refit": True}),
]


@pytest.mark.parametrize(("before", "now"), PUBLISHED, ids=str)
def test_plain_em_becomes_published_em(before, now):
    found, expected = today(**before), PublishedEMClassifier(**now)
    assert type(found) is PublishedEMClassifier
    assert str(found.get_params()) == str(expected.get_params())


def test_folds_of_two_logistic_models_are_ignored():
    assert type(today(cross_fit=None)) is SAREMClassifier


def test_parameters_that_came_later_have_their_defaults():
    """The first version had neither looks nor known values."""
    later = ("known", "visit_attributes", "audit_labels")
    first = {name: value for name, value in EARLIER.items() if name not in later}
    name, state = current_state("SAREMClassifier", first)
    assert (name, state["known"], state["labelling"]) == ("SAREMClassifier", None, None)


def test_searches_stacks_and_known_propensities():
    said = {"visit_attributes": None, "shared_propensity": False, "false_positive_rate": 0.0, "audit_labels": "keep"}
    _, search = current_state("SAREMClassifierCV", {**said, "known": None, "imaginary_audits": 8.0, "relax": False})
    assert str(search["labelling"]) == "Labelling(shared=False)"
    assert (search["known"], search["recalibrate"]) == (None, False)
    assert list(search) == list(inspect.signature(SAREMClassifierCV).parameters)
    assert current_state("SAREMClassifierCV", {"imaginary_audits": 0})[1]["known"] == [PseudoObservations(0)]
    assert current_state("SARStackingClassifier", {"imaginary_audits": "auto"})[1]["known"] is None
    _, stack = current_state("SARStackingClassifier", {"imaginary_audits": 3, "known": [ClassPrior(0.4)]})
    assert stack["known"] == [ClassPrior(0.4), PseudoObservations(3)]
    assert list(stack) == list(inspect.signature(SARStackingClassifier).parameters)
    _, weighted = current_state("PropensityWeightedClassifier", {"cross_fit": None})
    assert list(weighted) == list(inspect.signature(PropensityWeightedClassifier).parameters)
    assert weighted["cv"] is None


@pytest.mark.parametrize("kind", [BestBinEstimator, DEDPUL, ElkanNoto, TIcE])
def test_folds_of_label_frequency_estimators(kind):
    old, now = kind(), kind(cv=3)
    old.__dict__["n_folds"] = 3
    del old.__dict__["cv"]
    renew(old)
    assert old.get_params() == now.get_params()
    assert list(old.__dict__) == list(now.__dict__)


@pytest.mark.parametrize(
    "model",
    [
        SAREMClassifier(propensity_attributes=[2], labelling=Labelling(bounds=(0.1, 1)), known=[ClassPrior(0.4)]),
        SAREMClassifier(DecisionTreeClassifier(max_depth=2), cv=2, known=[PseudoObservations(2)]),
        SAREMClassifier(propensity_attributes=[2], n_starts=["paper", 0.4]),
        SAREMClassifierCV(labelling=Labelling(shared=False), known=[PseudoObservations(2)]),
        SARStackingClassifier(known=[PseudoObservations(2)]),
        PropensityWeightedClassifier(cv=3),
        PublishedEMClassifier(window=3, refit=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_current_states_are_unchanged(model):
    same = clone(model)
    renew(same)
    assert type(same) is type(model)
    assert str(same.get_params()) == str(model.get_params())
    assert list(vars(same)) == list(vars(model))


def as_earlier(model, **params):
    """Return a fitted model in the form that an earlier version stored."""
    old = SAREMClassifier()
    fitted = {name: value for name, value in vars(model).items() if name not in model.get_params(deep=False)}
    old.__dict__.clear()
    old.__dict__.update({**EARLIER, **params, **fitted})
    return old


@pytest.mark.parametrize("models", [(None, None), (DecisionTreeClassifier(max_depth=2, random_state=0), None)])
def test_fits_by_plain_em_predict_the_same(pu, models):
    model = PublishedEMClassifier(*models, propensity_attributes=[2], tol=1e-3).fit(pu.X, pu.s)
    old = as_earlier(model, estimator=models[0], propensity_attributes=[2], solver="em", tol=1e-3)
    old.__dict__.update(zip(("_f_learner", "_e_learner"), old.__dict__.pop("_learned") or (None, None), strict=True))
    renew(old)
    assert type(old) is PublishedEMClassifier
    np.testing.assert_array_equal(old.predict_proba(pu.X), model.predict_proba(pu.X))
    np.testing.assert_array_equal(old.predict_propensity(pu.X), model.predict_propensity(pu.X))
    np.testing.assert_array_equal(old.fit(pu.X, pu.s).predict_proba(pu.X), model.predict_proba(pu.X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_cross_fits_predict_the_same_unless_they_were_not_recalibrated(pu):
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    model = SAREMClassifier(tree, propensity_attributes=[2], cv=2, max_iter=5, random_state=0).fit(pu.X, pu.s)
    params = {"estimator": tree, "propensity_attributes": [2], "cross_fit": 2, "max_iter": 5, "random_state": 0}
    old = as_earlier(model, **params)
    renew(old)
    np.testing.assert_array_equal(old.predict_proba(pu.X), model.predict_proba(pu.X))
    assert old.cv == 2
    with pytest.raises(NoLongerFitted, match=r"holds a cross-fit with relax=False, .*predictions cannot be computed"):
        renew(as_earlier(model, relax=False, **params))


def test_cross_fits_of_before_have_a_table_and_parameters_today(pu):
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    for models in ({}, {"propensity_estimator": tree}):
        model = SAREMClassifier(tree, propensity_attributes=[2], cv=2, max_iter=5, random_state=0, **models)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(pu.X, pu.s)
        old, new = copy(model.fitted_pair_.source), model.fitted_pair_.source
        for name in ("objective", "parameters"):
            old.__dict__.pop(name)
        renew(old)
        np.testing.assert_array_equal(old.parameters, new.parameters)
        np.testing.assert_array_equal(old.table(pu.X), new.table(pu.X))


def test_a_cross_fit_to_looks_of_before_predicts_the_same(pu):
    rng = np.random.default_rng(0)
    S = np.column_stack([pu.s, pu.s * (rng.random(pu.s.size) < 0.5)])
    model = SAREMClassifier(DecisionTreeClassifier(max_depth=2), propensity_attributes=[2], cv=2, max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(pu.X, S)
    new, found = model.fitted_pair_.source, model.recalibration_
    old = copy(new)
    old.__dict__.clear()
    # The logit of the class was ``shift + slope u + added z``, and held-out logits had no tilt.
    level = float(found(np.zeros(1))[0]) + found.slope * new.tilt[-1]
    old.__dict__.update(
        fit=new.fit,
        objective=new.objective,
        columns=new.e_columns,
        slope=found.slope,
        shift=level,
        shared=new.e_columns,
        added=found.slope * new.tilt[:-1],
        others=found.e,
        f_columns=new.f_columns,
        plain_others=found.e,
    )
    renew(old)
    before, now = (each.objective.logit_values(each.table(pu.X), each.parameters) for each in (old, new))
    np.testing.assert_allclose(before, now, atol=1e-12)
