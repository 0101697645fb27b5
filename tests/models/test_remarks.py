"""Remarks of a summary: collinear columns, SCAR and few labels."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.helpers import quick_first

from scarless import SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.diagnostics import identifiability_report
from scarless.numerics.uncertainty import collinear_columns

SCAR = "All positives are assumed to have the same propensity: this is SCAR, by maximum likelihood."
LEVELS = ["town", "village", "farm"]


@pytest.fixture(scope="module")
def homes():
    rng = np.random.default_rng(3)
    home = rng.choice(LEVELS, 3000, p=[0.6, 0.38, 0.02])
    table = pd.DataFrame({"home": home, "age": rng.normal(size=3000), "visits": rng.normal(size=3000)})
    f = expit(-1 + 2.0 * (home == "village") + table["age"])
    return table, (rng.random(3000) < f * expit(table["visits"])).astype(int)


def encoded(table, drop=None):
    encoder = OneHotEncoder(drop=drop, sparse_output=False).set_output(transform="pandas")
    return pd.concat([encoder.fit_transform(table[["home"]]), table[["age", "visits"]]], axis=1)


def fit(X, s, **options):
    return SAREMClassifier(propensity_attributes=["visits"], **options).fit(X, s)


@pytest.mark.parametrize("kind", quick_first("float64", "float32"))
def test_all_categories_of_a_collinear_attribute_are_named(homes, kind):
    """This includes a rare category. With one category dropped, the p-value is small and there is no remark."""
    table, s = homes
    full, dropped = (fit(encoded(table, drop).astype(kind), s).summary() for drop in (None, "first"))
    (remark,) = full.remarks
    assert "These columns are collinear" in remark
    assert "home_farm, home_town and home_village of the classifier. Only the penalty determines" in remark
    assert "OneHotEncoder(drop='first')" in remark
    assert dropped.remarks == ()
    p_value = [dict(zip(each.blocks[0].names, each.blocks[0].p_value, strict=True)) for each in (full, dropped)]
    assert p_value[0]["home_village"] > 0.02
    assert p_value[1]["home_village"] < 1e-3


def test_columns_of_both_models_and_constant_ones(homes):
    table, s = homes
    X = encoded(table).assign(one=1.0, twice=2 * table["age"])
    model = SAREMClassifier(propensity_attributes=["visits", "home_farm", "home_town", "home_village"]).fit(X, s)
    determined, constant = model.summary().remarks
    assert "age and twice of the classifier;" in determined
    assert "home_farm, home_town and home_village of the classifier and the propensity model." in determined
    assert constant.startswith("Constant or almost constant columns: one.")


def test_scales_and_places_of_columns_do_not_matter(homes):
    table, s = homes
    X = encoded(table)
    X = X * [1e-3, 1.0, 1e3, 1.0, 1.0] + [5.0, 0.0, 0.0, 0.0, 100.0]
    (remark,) = fit(X, s, C=100.0).summary().remarks
    assert "home_farm, home_town and home_village of the classifier." in remark


def test_without_a_penalty_nothing_determines_collinear_coefficients(homes):
    table, s = homes
    (remark,) = fit(encoded(table), s, C=np.inf).summary().remarks
    assert "Nothing determines their individual coefficients" in remark


def test_columns_that_are_alike_but_not_collinear_are_not_named(homes):
    table, s = homes
    noise = np.random.default_rng(0).normal(size=len(table))
    X = encoded(table, "first").assign(almost=table["age"] + 1e-3 * noise, year=2000 + np.round(table["age"]))
    assert fit(X, s).summary().remarks == ()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(2, 5), min_size=1, max_size=3))
def test_collinear_sets_are_found_separately(seed, sizes):
    """The result does not depend on the weights of the rows."""
    rng = np.random.default_rng(seed)
    groups = [np.eye(size)[np.append(np.arange(size), rng.integers(size, size=60))[:60]] for size in sizes]
    X = np.column_stack([rng.normal(size=60), *groups, np.ones(60)])
    information = X.T @ (rng.uniform(0.1, 1.0, size=(60, 1)) * X)
    found = collinear_columns(information, X.sum(axis=0), noise=1e-13)
    ends = np.cumsum([1, *sizes])
    expected = [list(range(start, end)) for start, end in pairwise(ends)]
    assert sorted(members.tolist() for members in found) == expected


def test_no_propensity_attributes_is_called_scar(homes):
    table, s = homes
    X = table[["age", "visits"]]
    for model in (SAREMClassifier(), SAREMClassifierCV(Cs=[1.0], propensity_Cs=[1.0], random_state=0)):
        fitted = model.fit(X, s)
        assert any(SCAR in remark for remark in fitted.summary().remarks)
        assert SCAR in str(fitted.summary()).replace("\n", " ")
        assert any(SCAR in note for note in identifiability_report(fitted).notes)
        assert repr(fitted).endswith("  # SCAR: no propensity_attributes")
    named = fit(X, s)
    assert not any(SCAR in text for text in (*named.summary().remarks, *identifiability_report(named).notes))


def test_reprs_equal_those_of_scikit_learn_except_for_the_comment():
    options = {"classification_attributes": list("abcdefghijklmnop"), "C": 3.0, "propensity_C": 2.0, "n_starts": 7}
    for kind in (SAREMClassifier, SAREMClassifierCV):
        names = {name: value for name, value in options.items() if name in kind().get_params()}
        plain = type(kind.__name__, (BaseEstimator,), {"__init__": kind.__init__})
        assert repr(kind(**names)) == f"{plain(**names)!r}  # SCAR: no propensity_attributes"
        assert repr(kind(propensity_attributes=[1], **names)) == repr(plain(propensity_attributes=[1], **names))
        assert eval(repr(kind()), {kind.__name__: kind}).get_params() == kind().get_params()
        assert repr(clone(kind(**names))) == repr(kind(**names))
    assert "SCAR" not in repr(make_pipeline(StandardScaler(), SAREMClassifier()))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (SAREMClassifier, {}),
        (SAREMClassifierCV, {"Cs": [1.0], "cv": 2}),
        (SARStackingClassifier, {"estimators": [("logistic", None)], "cv": 2}),
    ],
)
def test_few_labels_get_a_remark(pu, kind, options):
    rows = np.r_[np.flatnonzero(pu.s == 1)[:6], np.flatnonzero(pu.s == 0)[:30]]
    told = "Only 6 labelled rows: the ranking of rows is rough. Do not rely on the class prior and the label frequency"
    model = kind(propensity_attributes=[2], **options).fit(pu.X[rows], pu.s[rows])
    assert told in " ".join(str(model.summary()).split())
    assert "the ranking of rows is rough" not in str(
        SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s).summary()
    )
