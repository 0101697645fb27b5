"""Numbers and functions as mechanisms."""

import numpy as np
import pandas as pd
import pytest

from scarless.labelling import SCAR, CallableMechanism, GeometricMeanSAR, LogisticSAR, as_mechanism

X = np.array([[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]])


@pytest.mark.parametrize("number", [0.3, np.float64(0.3), 1, np.float32(0.5)])
def test_a_number_is_scar(number):
    assert as_mechanism(number) == SCAR(float(number))


def test_a_mechanism_is_itself():
    mechanism = GeometricMeanSAR([0])
    assert as_mechanism(mechanism) is mechanism


def test_a_function_is_sar():
    logistic = LogisticSAR([0], [1.0])
    wrapped = as_mechanism(logistic.propensity)
    assert wrapped.assumption == "SAR"
    np.testing.assert_array_equal(wrapped.propensity(X), logistic.propensity(X))


def test_a_function_gets_x_as_it_is():
    frame = pd.DataFrame(X, columns=["a", "b"])
    np.testing.assert_array_equal(as_mechanism(lambda f: 1 / f["b"]).propensity(frame), 1 / X[:, 1])


def test_a_function_of_named_attributes_sees_nothing_else():
    seen = []
    mechanism = CallableMechanism(lambda x: seen.append(x) or 0.5, attributes=[1])
    np.testing.assert_array_equal(mechanism.propensity(X), [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(seen[0], X[:, [1]])


def test_a_function_of_the_class_probability_is_snar():
    mechanism = CallableMechanism(lambda x, p: 0.5 + p / 2, uses_class_probability=True)
    assert mechanism.assumption == "SNAR"
    np.testing.assert_array_equal(mechanism.propensity(X, class_probability=[0, 0.5, 1]), [0.5, 0.75, 1.0])


def too_clever(X, p):
    return p


def test_a_function_of_the_class_probability_needs_it():
    with pytest.raises(ValueError, match="too_clever needs the true class probability"):
        CallableMechanism(too_clever, uses_class_probability=True).propensity(X)


def short(X):
    return np.full(2, 0.5)


def too_high(X):
    return np.array([0.5, 1.5, 0.5])


def zero(X):
    return np.array([0.5, 0.5, 0.0])


def not_a_number(X):
    return np.array([np.nan, 0.5, 0.5])


def words(X):
    return ["a", "b", "c"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (short, r"short\(X\) has 2 values for 3 rows"),
        (
            too_high,
            r"too_high\(X\) must lie in \(0, 1\]; 1 of 3 values do not \(first: too_high\(X\)\[1\] = 1.5\)",
        ),
        (zero, r"zero\(X\) must lie in \(0, 1\].*zero\(X\)\[2\] = 0"),
        (not_a_number, r"not_a_number\(X\) must lie in \(0, 1\].*not_a_number\(X\)\[0\] = nan"),
        (words, r"words\(X\) must hold numbers"),
    ],
)
def test_function_values_are_checked(function, message):
    with pytest.raises(ValueError, match=message):
        as_mechanism(function).propensity(X)


def test_not_callable():
    with pytest.raises(ValueError, match=r"function must be callable, as function\(X\); it is 0.3"):
        CallableMechanism(0.3)


def test_a_class_is_not_an_instance():
    with pytest.raises(TypeError, match="SCAR is a class; give an instance of it"):
        as_mechanism(SCAR)


@pytest.mark.parametrize("thing", ["scar", None, True, [0.3]])
def test_not_a_mechanism(thing):
    with pytest.raises(TypeError, match="a labelling mechanism is a number"):
        as_mechanism(thing)


def test_a_number_out_of_range():
    with pytest.raises(ValueError, match=r"label_frequency must lie in \(0, 1\]; it is 1.5"):
        as_mechanism(1.5)


@pytest.mark.parametrize("value", [np.array([True, False]), np.uint8(2), -(10**400), "yes"])
def test_whether_the_class_probability_is_used_is_a_flag(value):
    with pytest.raises(ValueError, match="uses_class_probability must be True or False; got "):
        CallableMechanism(lambda X: 0.5, uses_class_probability=value)


def test_an_integer_beyond_floats_is_no_label_frequency():
    with pytest.raises(ValueError, match="label_frequency must be one finite number; it is an integer of 1329 bits"):
        as_mechanism(10**400)
