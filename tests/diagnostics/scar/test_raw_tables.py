"""Tests of the labelling accept tables with text, like TableClassifier."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scarless.diagnostics import labelling_attributes, scar_test

RNG = np.random.default_rng(0)
N = 1500
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50, 10, N),
        "kind": RNG.choice(["a", "b", "c"], N),
        "insurance": RNG.choice(["none", "basic", "full"], N),
        "weight": RNG.normal(70, 8, N),
        "empty": "x",
    }
)
F = 1 / (1 + np.exp(-((TABLE["age"] - 50) / 4 + 1.5 * (TABLE["kind"] == "a"))))
E = TABLE["insurance"].map({"none": 0.2, "basic": 0.5, "full": 0.9})
Y = RNG.random(N) < F
SAR, SCAR = (Y & (RNG.random(N) < e) for e in (E, 0.5))
QUICK = {"estimator": "logistic", "random_state": 0}
OPTIONS = {"propensity_attributes": ["insurance", "weight"], **QUICK}


def by_hand():
    dummies = {f"{name}_{level}": (TABLE[name] == level) * 1.0 for name, level in
               [("kind", "b"), ("kind", "c"), ("insurance", "basic"), ("insurance", "full")]}  # fmt: skip
    return pd.DataFrame({"age": TABLE["age"], "weight": TABLE["weight"], **dummies})


@pytest.mark.parametrize("s", [SAR, SCAR], ids=["SAR", "SCAR"])
def test_a_raw_table_gives_the_same_test_as_its_encoded_columns(s):
    raw = scar_test(TABLE, s, **OPTIONS)
    numbers = scar_test(by_hand(), s, **OPTIONS)
    assert raw.degrees_of_freedom == numbers.degrees_of_freedom == 3
    assert raw.statistic == pytest.approx(numbers.statistic, rel=1e-3)
    assert (raw.p_value < 0.05) == (s is SAR)
    assert set(raw.attributes) == {"insurance_basic", "insurance_full", "weight"}


def test_effects_are_per_unit_of_the_raw_table():
    found = labelling_attributes(TABLE, SAR, **OPTIONS)
    numbers = labelling_attributes(by_hand(), SAR, **OPTIONS)
    at = [list(each.attributes).index("weight") for each in (found, numbers)]
    assert found.effect[at[0]] == pytest.approx(numbers.effect[at[1]], rel=0.02, abs=1e-4)


def test_columns_are_selected_as_in_the_raw_table():
    expected = scar_test(TABLE, SAR, **OPTIONS).statistic
    frame = pl.DataFrame({name: TABLE[name].tolist() for name in TABLE})
    for table, selected in [(TABLE, [2, 3]), (TABLE, slice("insurance", "weight")), (frame, ["insurance", "weight"])]:
        found = scar_test(table, SAR, propensity_attributes=selected, **QUICK)
        assert found.statistic == pytest.approx(expected, rel=1e-6)
    others = scar_test(TABLE, SAR, classification_attributes=["age", "kind"], **QUICK)
    assert others.statistic == pytest.approx(expected, rel=1e-6)


def test_missing_values_are_filled_and_constant_columns_are_refused():
    gaps = TABLE.assign(age=TABLE["age"].where(RNG.random(N) > 0.05))
    assert scar_test(gaps, SAR, **OPTIONS).p_value < 0.05
    with pytest.raises(
        ValueError,
        match=r"propensity_attributes: 'empty' is constant or empty, so no effect can be estimated. Remove this",
    ):
        scar_test(TABLE, SAR, propensity_attributes=["empty"], **QUICK)


def test_a_series_is_refused_as_a_table():
    with pytest.raises(ValueError, match=r"Expected a 2-dimensional container|Expected 2D array"):
        scar_test(pd.Series(np.arange(5.0)), [0, 1, 0, 1, 0])
