"""Tables and steps: the propensity is constant within a stratum."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scarless.labelling import StepSAR, StratifiedSAR

TABLE = {("north", 0): 0.2, ("north", 1): 0.4, ("south", 0): 0.6, ("south", 1): 0.8}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_every_stratum_gets_its_entry(frame):
    strata = list(product(["south", "north"], [1, 0]))
    X = frame({"region": [a for a, _ in strata], "sex": [b for _, b in strata], "other": [1.5] * 4})
    e = StratifiedSAR(["region", "sex"], TABLE).propensity(X)
    np.testing.assert_array_equal(e, [TABLE[stratum] for stratum in strata])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, np.float64, object])
def test_numbers_are_compared_by_value(dtype):
    X = np.array([[1], [0], [1]], dtype=dtype)
    np.testing.assert_array_equal(StratifiedSAR(0, {0: 0.25, 1: 0.75}).propensity(X), [0.75, 0.25, 0.75])


def test_a_categorical_column():
    X = pd.DataFrame({"region": pd.Categorical(["south", "north"])})
    np.testing.assert_array_equal(StratifiedSAR("region", {"north": 0.1, "south": 0.9}).propensity(X), [0.9, 0.1])


def test_the_table_is_a_copy_and_its_order_does_not_count():
    table = dict(TABLE)
    mechanism = StratifiedSAR(["a", "b"], table)
    table[("north", 0)] = 1.0
    assert mechanism.table[("north", 0)] == 0.2
    same = StratifiedSAR(["a", "b"], dict(reversed(TABLE.items())))
    assert mechanism == same
    assert hash(mechanism) == hash(same)


def test_unknown_stratum():
    X = pd.DataFrame({"region": ["north", "west", "west", "east"], "sex": [1, 0, 0, 1]})
    with pytest.raises(
        ValueError,
        match=r"no propensity for the stratum with attribute 'region' = 'west', attribute 'sex' = 0 \(row 1, counted "
        r"from 0\). "
        r"Number of rows without a propensity: 3 of 4; number of strata to add to the table: 2",
    ):
        StratifiedSAR(["region", "sex"], TABLE).propensity(X)


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["north", None, "south"], dtype=object),
        pd.Series(["north", None, "south"], dtype="string"),
        pd.Series([0, None, 1], dtype="Int64"),
        pd.Series([0, np.nan, 1]),
        pd.Series([pd.Timestamp(0), pd.NaT, pd.Timestamp(0)], dtype=object),
    ],
)
def test_missing_value(values):
    table = {"north": 0.1, "south": 0.9, 0: 0.1, 1: 0.9, pd.Timestamp(0): 0.3}
    with pytest.raises(ValueError, match=r"attribute 'a' has missing values \(1 of 3; first: row 1, counted from 0\)"):
        StratifiedSAR("a", table).propensity(pd.DataFrame({"a": values}))


@pytest.mark.parametrize("cell", [["north"], {"area": "north"}, {1}])
def test_cells_that_cannot_be_compared(cell):
    with pytest.raises(
        ValueError, match=r"attribute 'a' holds lists or other values that cannot be compared\. Each cell"
    ):
        StratifiedSAR("a", {"north": 0.1}).propensity(pd.DataFrame({"a": ["north", cell]}))


def test_missing_value_in_polars():
    with pytest.raises(ValueError, match=r"attribute 'a' has missing values \(1 of 2; first: row 1, counted from 0\)"):
        StratifiedSAR("a", {"x": 0.5}).propensity(pl.DataFrame({"a": ["x", None]}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "table must be a dictionary with the propensity of each stratum, .*; got"),
        ([0.1, 0.2], "table must be a dictionary with the propensity of each stratum, .*; got"),
        (
            {("north",): 0.1},
            r"table: the stratum \('north',\) must have one value for each attribute.*: 2; number of values: 1",
        ),
        (
            {"north": 0.1},
            "table: the stratum 'north' must have one value for each attribute.*: 2; number of values: 1",
        ),
        ({("a", 1): 0.0}, r"table: the propensity of the stratum \('a', 1\) must lie in \(0, 1\]; it is 0"),
        ({("a", 1): 1.1}, r"table: the propensity of the stratum \('a', 1\) must lie in \(0, 1\]; it is 1.1"),
    ],
)
def test_table_errors(table, message):
    with pytest.raises(ValueError, match=message):
        StratifiedSAR(["region", "sex"], table)


def test_stratum_given_bare_and_as_a_tuple():
    with pytest.raises(ValueError, match=r"table has two entries for the stratum \(1,\)"):
        StratifiedSAR([0], {1: 0.5, (1,): 0.6})


def test_a_value_on_a_threshold_is_in_the_step_above():
    mechanism = StepSAR(0, [0.0, 1.0], [0.1, 0.2, 0.3])
    X = np.array([-1e9, np.nextafter(0, -1), 0.0, np.nextafter(1, 0), 1.0, 1e9]).reshape(-1, 1)
    np.testing.assert_array_equal(mechanism.propensity(X), [0.1, 0.1, 0.2, 0.2, 0.3, 0.3])


@given(
    st.lists(st.integers(-20, 20), min_size=0, max_size=5, unique=True).map(sorted),
    st.lists(st.floats(-25, 25), min_size=1, max_size=10),
    st.data(),
)
def test_the_step_is_the_number_of_thresholds_below(thresholds, x, data):
    n_steps = len(thresholds) + 1
    propensities = data.draw(st.lists(st.floats(0.01, 1), min_size=n_steps, max_size=n_steps))
    e = StepSAR(0, thresholds, propensities).propensity(np.array(x).reshape(-1, 1))
    np.testing.assert_array_equal(e, [propensities[sum(t <= value for t in thresholds)] for value in x])


def test_steps_equal_a_table_on_discrete_values():
    X = np.arange(6).reshape(-1, 1)
    steps = StepSAR(0, [2, 4], [0.2, 0.5, 0.9]).propensity(X)
    table = StratifiedSAR(0, dict(enumerate([0.2, 0.2, 0.5, 0.5, 0.9, 0.9]))).propensity(X)
    np.testing.assert_array_equal(steps, table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], [0], [0.1, 0.2]), "attribute must select one column; it selects 2"),
        (("a", [1, 0], [0.1, 0.2, 0.3]), r"thresholds must increase; they are \(1.0, 0.0\)"),
        (("a", [1, 1], [0.1, 0.2, 0.3]), "thresholds must increase"),
        (("a", [np.nan], [0.1, 0.2]), r"thresholds\[0\] must be a finite number"),
        (("a", [0], [0.1]), "propensities must have one value for each step, .* steps: 2; .* propensities: 1"),
        (("a", [0], [0.1, 0]), r"propensities\[1\] must lie in \(0, 1\]; it is 0"),
    ],
)
def test_step_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        StepSAR(*arguments)
