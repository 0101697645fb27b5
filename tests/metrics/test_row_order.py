"""Metrics match vectors by position: a pandas index in another order gets a warning."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest

from scarless import metrics

NAMES = ["x", "y", "z", "u"]
VECTORS = {
    "s": pd.Series([1, 0, 0, 1], index=NAMES),
    "y": pd.Series([1, 0, 0, 1], index=NAMES),
    "y_pred": pd.Series([0.9, 0.2, 0.4, 0.8], index=NAMES),
    "propensity": pd.Series([0.5, 0.4, 0.8, 0.9], index=NAMES),
    "estimated_propensity": pd.Series([0.6, 0.5, 0.8, 0.9], index=NAMES),
    "sample_weight": pd.Series([1.0, 2.0, 1.0, 1.0], index=NAMES),
}
FUNCTIONS = {
    name: function
    for name, function in vars(metrics).items()
    if name in metrics.__all__ and {"y_pred", "propensity"} & set(inspect.signature(function).parameters)
}
CASES = [
    (name, vector)
    for name, function in FUNCTIONS.items()
    for vector in [each for each in inspect.signature(function).parameters if each in VECTORS][1:]
]


def given_to(function):
    parameters = inspect.signature(function).parameters
    seed = {"random_state": 0} if "random_state" in parameters else {}
    return {each: VECTORS[each] for each in parameters if each in VECTORS} | seed


@pytest.mark.parametrize(("name", "vector"), CASES)
def test_another_order_of_row_names_gets_a_warning(name, vector):
    function = FUNCTIONS[name]
    given = given_to(function)
    first = next(iter(given))
    with pytest.warns(UserWarning, match="by position") as record:
        function(**{**given, vector: VECTORS[vector][::-1]})
    (said,) = [str(each.message) for each in record if "position 0" in str(each.message)]
    assert said == (
        f"{vector} is matched to {first} by position, as in scikit-learn, but its index has the row names of {first} "
        f"in another order (first difference: position 0 is 'x' in {first} and 'u' in {vector}). If the index is "
        f"right, pass {vector}.loc[{first}.index]. If the order is right, pass {vector}.to_numpy()."
    )
    assert record[0].filename == __file__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_indices_and_arrays_get_no_warning(name):
    function = FUNCTIONS[name]
    given = given_to(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = function(**given)
        arrays = {each: values.to_numpy() if each in VECTORS else values for each, values in given.items()}
        np.testing.assert_array_equal(function(**arrays), found)
