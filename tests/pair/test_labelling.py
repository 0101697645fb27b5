"""The class `Labelling`: its parameters, clones, grid searches and errors."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from scarless import (
    Labelling,
    NaiveClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    TableClassifier,
)
from scarless.pair.constraints import check_labelling, labelling_of

DEFAULTS = {
    "visit_attributes": None,
    "offset": None,
    "bounds": None,
    "shared": True,
    "false_positive_rate": 0.0,
    "audit_labels": "keep",
    "heterogeneity": 0.0,
}


def test_parameters_behave_like_those_of_an_estimator():
    labelling = Labelling(bounds=(0.2, 1), shared=False)
    assert Labelling().get_params() == DEFAULTS
    assert labelling.get_params() == {**DEFAULTS, "bounds": (0.2, 1), "shared": False}
    assert repr(labelling) == "Labelling(bounds=(0.2, 1), shared=False)"
    assert labelling.set_params(bounds=None) is labelling
    assert labelling.get_params() == {**DEFAULTS, "shared": False}
    with pytest.raises(ValueError, match="Invalid parameter 'bound' for estimator Labelling"):
        labelling.set_params(bound=(0.2, 1))
    with pytest.raises(TypeError, match="positional"):
        Labelling({"effort": [0, 1]})


@pytest.mark.parametrize("kind", [SAREMClassifier, SAREMClassifierCV])
def test_models_can_set_nested_parameters(kind):
    model = kind(propensity_attributes=[2], labelling=Labelling(bounds=(0.2, 1)))
    assert model.get_params()["labelling__bounds"] == (0.2, 1)
    assert {f"labelling__{name}" for name in DEFAULTS} <= set(model.get_params())
    twin = clone(model)
    assert twin.labelling is not model.labelling
    assert repr(twin) == repr(model)
    twin.set_params(labelling__bounds=(0.1, 0.9), labelling__shared=False)
    assert repr(twin.labelling) == "Labelling(bounds=(0.1, 0.9), shared=False)"
    assert model.labelling.bounds == (0.2, 1)
    table = TableClassifier(twin).set_params(estimator__labelling__bounds=(0.3, 1))
    assert table.estimator.labelling.bounds == (0.3, 1)


@pytest.mark.filterwarnings("ignore:.* finds that nearly every row is positive:UserWarning")
def test_a_grid_search_over_bounds_refits_the_best_bounds(pu):
    grid = {"labelling__bounds": [None, (0.3, 0.9), (0.0, 0.2)]}
    search = GridSearchCV(SAREMClassifier(propensity_attributes=[2], labelling=Labelling()), grid, cv=3)
    with pytest.warns(UserWarning, match="rows contradict the bounds"):
        search.fit(pu.X, pu.s)
    bounds = search.best_params_["labelling__bounds"]
    assert bounds != (0.0, 0.2)
    best = SAREMClassifier(propensity_attributes=[2], labelling=Labelling(bounds=bounds))
    np.testing.assert_array_equal(search.predict_proba(pu.X), best.fit(pu.X, pu.s).predict_proba(pu.X))


def test_a_fit_does_not_change_the_labelling_object(pu):
    labelling = Labelling(bounds=(0.1, 1))
    before = labelling.get_params()
    SAREMClassifier(propensity_attributes=[2], labelling=labelling).fit(pu.X, pu.s)
    assert labelling.get_params() == before


def test_the_default_labelling_equals_none(pu):
    plain, same = (SAREMClassifier(propensity_attributes=[2], labelling=each) for each in (None, Labelling()))
    np.testing.assert_array_equal(plain.fit(pu.X, pu.s).coef_, same.fit(pu.X, pu.s).coef_)
    assert hasattr(same, "optima_")


def test_none_means_the_defaults():
    for model in (SAREMClassifier(), NaiveClassifier(), PublishedEMClassifier()):
        assert labelling_of(model).get_params() == DEFAULTS
    labelling = Labelling(shared=False)
    assert check_labelling(labelling) is labelling


@pytest.mark.parametrize("other", [{"bounds": (0.2, 1)}, "estimate", Labelling, 0.2])
@pytest.mark.parametrize("kind", [SAREMClassifier, SAREMClassifierCV])
def test_other_objects_raise(pu, kind, other):
    with pytest.raises(ValueError, match=r"labelling must be a Labelling\(\.\.\.\), or None; got "):
        kind(propensity_attributes=[2], labelling=other).fit(pu.X, pu.s)
