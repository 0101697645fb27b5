import re

import numpy as np
import pandas as pd
import pytest

from scarless.checks.options import (
    check_choice,
    check_flag,
    check_jobs,
    check_positive,
    check_share,
    check_whole,
    shown,
)


def test_choices():
    assert check_choice("risk", "method", ("risk", "likelihood")) == "risk"
    for value in ("Risk", "", None, 1, ["risk"]):
        with pytest.raises(ValueError, match=r"method must be one of 'risk', 'likelihood'; got "):
            check_choice(value, "method", ("risk", "likelihood"))


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2.5), np.int64(3), np.inf, 1e-300])
def test_positive_numbers(value):
    checked = check_positive(value, "C")
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize("value", [0, -1, -0.0, np.nan, -np.inf, "1", None, [1.0], True, False, np.True_])
def test_numbers_that_are_not_positive(value):
    with pytest.raises(ValueError, match=rf"C must be a number above 0; got {re.escape(repr(value))}\."):
        check_positive(value, "C")


@pytest.mark.parametrize("value", [2, 7, np.int32(2), np.uint8(200)])
def test_whole_numbers(value):
    checked = check_whole(value, "max_iter", at_least=2)
    assert type(checked) is int
    assert checked == value


@pytest.mark.parametrize("value", [1, -5, 2.0, 2.5, np.float64(3.0), np.inf, np.nan, True, "2", None])
def test_numbers_that_are_not_whole_or_too_small(value):
    with pytest.raises(ValueError, match="max_iter must be a whole number of at least 2; got "):
        check_whole(value, "max_iter", at_least=2)


@pytest.mark.parametrize("value", [0.5, 1e-9, 1 - 1e-9, np.float32(0.95)])
def test_shares(value):
    checked = check_share(value, "level")
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 95, np.nan, np.inf, True, "0.5", None])
def test_numbers_outside_0_to_1_are_refused_as_shares(value):
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1; got "):
        check_share(value, "level")


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=["400", "5000"])
def test_integers_too_large_for_floats(value):
    with pytest.raises(
        ValueError, match=r"C must be a number above 0; got an integer of \d+ bits, which is too large for a float"
    ):
        check_positive(value, "C")
    with pytest.raises(ValueError, match=r"level must lie strictly between 0 and 1; got an integer of \d+ bits"):
        check_share(value, "level")
    with pytest.raises(ValueError, match=r"n must be a whole number of at least 1; got an integer of \d+ bits"):
        check_whole(-value, "n", at_least=1)
    with pytest.raises(ValueError, match=r"n must be at most 9\.2e\+18; got an integer of \d+ bits"):
        check_whole(value, "n", at_least=1)


@pytest.mark.parametrize("value", [np.arange(3), np.zeros(500), 1j, np.complex128(1), pd.Series([1, 2])])
def test_arrays_and_complex_numbers_are_refused_as_options(value):
    with pytest.raises(ValueError, match="C must be a number above 0; got "):
        check_positive(value, "C")
    with pytest.raises(ValueError, match=r"kind must be one of 'a', 'b'; got "):
        check_choice(value, "kind", ("a", "b"))


def test_messages_show_short_values_and_describe_long_ones():
    assert shown([1, 2]) == "[1, 2]"
    assert shown(np.zeros(500)) == "a ndarray of shape (500,)"
    assert shown("x" * 100) == "a str of length 100"


@pytest.mark.parametrize("value", [True, np.False_, 0, 1, np.int8(1)])
def test_flags(value):
    assert check_flag(value, "normalised") is bool(value)


@pytest.mark.parametrize("value", [None, "a", 2, 0.0, np.array([True, False]), np.array([1]), pd.NA, -(10**400)])
def test_invalid_flags_raise(value):
    with pytest.raises(ValueError, match="normalised must be True or False; got "):
        check_flag(value, "normalised")


@pytest.mark.parametrize("value", [0, 1.5, "a", np.nan, [], True, 10**400])
def test_invalid_numbers_of_jobs_raise(value):
    with pytest.raises(ValueError, match="a whole number other than 0, such as 2, or -1 for all cores; got"):
        check_jobs(value)


def test_numbers_of_jobs():
    for value in (None, 1, -1, np.int64(2)):
        check_jobs(value)
