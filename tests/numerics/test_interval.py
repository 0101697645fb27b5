"""There is one `Interval` class, and functions that return two limits return it."""

import ast
import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scarless
from scarless import BestBinEstimator, SAREMClassifier
from scarless.diagnostics import Sensitivity
from scarless.metrics import propensity_weighted_recall, risk_interval
from scarless.numerics.uncertainty import Interval, find_root, least_squares_slope

SOURCE = Path(scarless.__file__).parent


def _defined():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "class Interval" in text or "Interval =" in text else ():
            named = [node.name] if isinstance(node, ast.ClassDef) else []
            named += [t.id for t in node.targets if isinstance(t, ast.Name)] if isinstance(node, ast.Assign) else []
            if "Interval" in named:
                yield path.relative_to(SOURCE).as_posix()


def test_interval_is_defined_once():
    assert list(_defined()) == ["numerics/uncertainty.py"]
    assert scarless.models.Interval is scarless.metrics.Interval is Interval


def test_functions_with_two_limits_return_an_interval():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    f = 1 / (1 + np.exp(-2 * X[:, 0]))
    s = (rng.random(300) < f) & (rng.random(300) < 0.5)
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s)
    estimate = BestBinEstimator(n_resamples=20, random_state=0).fit(X, s)
    for found in (
        model.class_prior_interval(),
        model.label_frequency_interval(),
        estimate.class_prior_interval(),
        estimate.label_frequency_interval(),
        propensity_weighted_recall(s, f, propensity=0.5).interval,
        risk_interval(s, f, propensity=0.5, method="normal").interval,
        Sensitivity(0.5 * f, 0.5).at(1.5).class_prior,
    ):
        assert type(found) is Interval
        assert found.low < found.high


# --- Roots, without reference cycles


class Cubic:
    def __call__(self, x):
        return x**3 - 8.0


def test_the_root_is_found():
    assert find_root(Cubic(), 0.0, 5.0) == pytest.approx(2.0, abs=1e-10)


@pytest.mark.parametrize("high", [5.0, 1.0])
def test_the_function_is_released_without_the_garbage_collector(high):
    function = Cubic()
    watched = weakref.ref(function)
    gc.disable()
    try:
        if high == 1.0:
            with pytest.raises(ValueError, match="different signs"):
                find_root(function, 0.0, high)
        else:
            find_root(function, 0.0, high)
        del function
        assert watched() is None
    finally:
        gc.enable()


# --- Slopes


@pytest.mark.parametrize("n", [2, 3, 10])
def test_slope_is_that_of_polyfit(n):
    series = np.random.default_rng(n).normal(size=(n, 4))
    np.testing.assert_allclose(least_squares_slope(series), np.polyfit(np.arange(n), series, 1)[0], rtol=1e-12)


@settings(deadline=None)
@given(st.integers(2, 20), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_slope_of_a_line_does_not_depend_on_its_origin(n, start, slope):
    series = [np.array([start + slope * t, start - slope * t, start]) for t in range(n)]
    np.testing.assert_allclose(least_squares_slope(series), [slope, -slope, 0], rtol=1e-10, atol=1e-10)


def test_reversed_series_has_the_opposite_slope_and_iterators_are_accepted():
    series = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(least_squares_slope(iter(series[::-1])), -least_squares_slope(series), rtol=1e-13)


def test_a_bump_in_the_middle_has_no_slope():
    assert least_squares_slope([np.zeros(1), np.ones(1), np.zeros(1)]) == 0
