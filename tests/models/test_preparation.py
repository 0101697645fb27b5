"""What is done to a raw table: long tails, the word none."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless import SAREMClassifier, TableClassifier
from scarless.checks.origins import trace_origins
from scarless.models.preparation import LongTail, table_preparation

RNG = np.random.default_rng(0)
INCOME = RNG.lognormal(10, 1, 500)


def seen(values):
    table = pd.DataFrame({"x": values, "missing": 0.0})
    step = LongTail().fit(table)
    return dict(zip(step.get_feature_names_out(), step.transform(table).T, strict=True))


def test_a_long_tail_gets_its_logarithm_beside_it():
    made = seen(INCOME)
    assert list(made) == ["x", "x_log", "missing"]
    np.testing.assert_array_equal(made["x"], INCOME)
    np.testing.assert_allclose(made["x_log"], np.log(INCOME))


def test_with_zeros_the_logarithm_begins_at_zero():
    values = np.where(np.arange(500) % 3 == 0, 0.0, INCOME)
    made = seen(values)
    np.testing.assert_allclose(made["x_log"], np.log1p(values / np.median(values[values > 0])))


@pytest.mark.parametrize(
    "values",
    [RNG.normal(50, 10, 500), INCOME - INCOME.mean(), RNG.poisson(3, 500), np.repeat(INCOME[:20], 25), np.ones(500)],
    ids=["symmetric", "negative", "counts", "few values", "constant"],
)
def test_other_columns_pass_as_they_are(values):
    assert list(seen(values)) == ["x", "missing"]


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5))
@settings(max_examples=50)
def test_new_values_below_all_that_were_seen_are_finite(new):
    step = LongTail().fit(pd.DataFrame({"x": INCOME}))
    made = step.transform(pd.DataFrame({"x": new}))
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made[:, 1], np.log(np.maximum(new, INCOME.min())))


def test_in_the_preparation_it_is_followed_back():
    table = pd.DataFrame({"income": INCOME, "age": RNG.normal(50, 10, 500)})
    table.loc[::7, "income"] = np.nan
    step = table_preparation()
    made = step.fit_transform(table)
    labels = [each.label for each in trace_origins(step, table.columns, made.shape[1])]
    assert labels == ["income", "log of income", "income = missing", "age"]


@pytest.mark.parametrize(
    "effect", [lambda x: 1.2 * (np.log(x) - 10), lambda x: x / 30_000 - 0.5], ids=["log", "linear"]
)
def test_effects_of_either_form_are_found(effect):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"income": rng.lognormal(10, 1, 6000), "audits": rng.poisson(1, 6000)})
    f = 1 / (1 + np.exp(-(effect(table["income"]) - 1.0)))
    e = 1 / (1 + np.exp(-(1.5 * (table["audits"] - 1) - 0.5)))
    y = rng.random(6000) < f
    s = y & (rng.random(6000) < e)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["audits"], n_starts=5, random_state=0)).fit(table, s)
    low, high = model.class_prior_interval()
    assert low < y.mean() < high
    assert np.mean((model.predict_proba(table)[:, 1] - f) ** 2) < 0.01
