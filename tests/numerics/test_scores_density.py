import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.stats import gaussian_kde

from scarless.numerics.scores import gaussian_density

RNG = np.random.default_rng(0)
SAMPLES = {
    "normal": RNG.normal(size=500),
    "two heaps": np.append(RNG.normal(-6, 0.2, 200), RNG.normal(3, 1, 100)),
    "heavy tails": RNG.standard_t(2, size=400),
    "ties": RNG.integers(0, 4, size=300).astype(float),
}


@pytest.mark.parametrize("factor", [0.05, 0.1, 0.7])
@pytest.mark.parametrize("points", SAMPLES.values(), ids=list(SAMPLES))
def test_grid_agrees_with_the_sum_over_all_pairs(points, factor):
    kde = gaussian_kde(points, factor)
    at = np.concatenate([points, np.linspace(points.min() - 1, points.max() + 1, 301)])
    exact = kde(at)
    found = gaussian_density(points, at, factor * np.std(points, ddof=1))
    assert (found >= 0).all()
    not_tiny = exact > 1e-3 * exact.max()
    np.testing.assert_allclose(found[not_tiny], exact[not_tiny], rtol=1e-3)
    np.testing.assert_allclose(found, exact, atol=1e-3 * exact.max())


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.floats(0.01, 10), st.sampled_from([1e-9, 1.0, 1e9]))
def test_mass_is_one_and_scale_drops_out(points, bandwidth, scale):
    points = np.array(points)
    at = np.linspace(points.min() - 8 * bandwidth, points.max() + 8 * bandwidth, 4001)
    density = gaussian_density(points, at, bandwidth)
    assert trapezoid(density, at) == pytest.approx(1, rel=1e-2)
    np.testing.assert_allclose(
        scale * gaussian_density(scale * points, scale * at, scale * bandwidth), density, rtol=1e-4, atol=1e-6
    )


def test_no_mass_far_away():
    np.testing.assert_array_equal(gaussian_density(np.zeros(3), np.array([-99.0, 99.0]), 1.0), [0.0, 0.0])
