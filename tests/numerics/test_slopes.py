import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.numerics.interval import least_squares_slope


@pytest.mark.parametrize("n", [2, 3, 10])
def test_slope_is_that_of_polyfit(n):
    series = np.random.default_rng(n).normal(size=(n, 4))
    np.testing.assert_allclose(least_squares_slope(series), np.polyfit(np.arange(n), series, 1)[0], rtol=1e-12)


@settings(deadline=None)
@given(st.integers(2, 20), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_slope_of_a_line_is_its_slope_wherever_it_starts(n, start, slope):
    series = [np.array([start + slope * t, start - slope * t, start]) for t in range(n)]
    np.testing.assert_allclose(least_squares_slope(series), [slope, -slope, 0], rtol=1e-10, atol=1e-10)


def test_reversed_series_has_the_opposite_slope_and_an_iterator_will_do():
    series = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(least_squares_slope(iter(series[::-1])), -least_squares_slope(series), rtol=1e-13)


def test_a_bump_in_the_middle_has_no_slope():
    assert least_squares_slope([np.zeros(1), np.ones(1), np.zeros(1)]) == 0
