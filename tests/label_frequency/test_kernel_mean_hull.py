"""The nearest distribution: against enumeration of all faces, the optimality conditions, and finite differences."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.label_frequency import kernel_mean
from scarless.label_frequency.kernel_mean import Hull, low_rank_factor, ridge


def kernel_of(points):
    return np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=2))


def by_enumeration(kernel, u):
    """Return the least squared distance over all faces of the simplex whose solution is a distribution."""
    kernel = kernel + ridge(u.size) * np.eye(u.size)
    best = np.inf
    for chosen in product([False, True], repeat=u.size):
        b = np.flatnonzero(chosen)
        if b.size == 0:
            continue
        system = np.block([[kernel[np.ix_(b, b)], np.ones((b.size, 1))], [np.ones((1, b.size)), np.zeros((1, 1))]])
        w = np.zeros(u.size)
        w[b] = np.linalg.solve(system, np.append(kernel[b] @ u, 1.0))[:-1]
        if (w >= -1e-12).all():
            best = min(best, (u - w) @ kernel @ (u - w))
    return best


def signed_weighting(rng, n, stretch):
    mixture, component = rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 0.3))
    return stretch * mixture + (1 - stretch) * component


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 7), st.floats(1.0, 20.0), st.sampled_from([0.1, 1.0, 10.0]))
def test_distance_is_the_least_over_all_faces(seed, n, stretch, spread):
    rng = np.random.default_rng(seed)
    kernel = kernel_of(rng.normal(size=(n, 2)) * spread)
    u = signed_weighting(rng, n, stretch)
    found = Hull(kernel.copy()).nearest(u, u < 0)
    assert found.converged
    assert found.squared_distance == pytest.approx(by_enumeration(kernel, u), rel=5e-3, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.floats(1.0, 20.0))
def test_a_start_that_holds_every_point_at_zero(seed, n, stretch):
    """There is no distribution without a point: such a start must not be solved for."""
    rng = np.random.default_rng(seed)
    kernel, u = kernel_of(rng.normal(size=(n, 2))), signed_weighting(rng, n, stretch)
    found = Hull(kernel.copy()).nearest(u, np.ones(n, dtype=bool))
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.squared_distance == pytest.approx(by_enumeration(kernel, u), rel=5e-3, abs=1e-12)


@pytest.mark.parametrize("start", ["none", "labelled", "all but one", "wrong"])
@pytest.mark.parametrize("stretch", [1.2, 2.0, 8.0])
def test_optimality_conditions_hold_from_any_start(start, stretch):
    rng = np.random.default_rng(1)
    n = 120
    kernel = kernel_of(rng.normal(size=(n, 6)))
    u = signed_weighting(rng, n, stretch)
    zero = {
        "none": np.zeros(n, dtype=bool),
        "labelled": u < 0,
        "all but one": np.arange(n) > 0,
        "wrong": u > 0,
    }[start]
    points = Hull(kernel.copy())
    found = points.nearest(u, zero)
    w, mu = found.weights, found.multipliers
    assert not points._is_smooth
    gradient = (kernel + ridge(n) * np.eye(n)) @ (w - u)
    assert found.converged
    assert w.sum() == pytest.approx(1.0)
    assert w.min() > -2e-3 / n
    assert (w[found.zero] == 0).all()
    assert (mu[~found.zero] == 0).all()
    assert mu.min() > -2e-3 * found.squared_distance
    np.testing.assert_allclose(gradient - mu, (gradient - mu)[0], atol=1e-9)  # one constant for all points
    assert found.squared_distance == pytest.approx((u - w) @ gradient * -1, rel=1e-6)


def test_a_distribution_is_its_own_nearest():
    rng = np.random.default_rng(2)
    u = rng.dirichlet(np.ones(30))
    found = Hull(kernel_of(rng.normal(size=(30, 2)))).nearest(u, np.zeros(30, dtype=bool))
    assert found.squared_distance == 0.0
    assert found.slope(u - 1 / 30) == 0.0
    np.testing.assert_allclose(found.weights, u, atol=1e-12)


def test_slope_is_the_derivative_of_the_distance():
    rng = np.random.default_rng(3)
    n, step = 60, 1e-5
    hull_of_points = Hull(kernel_of(rng.normal(size=(n, 6))))
    mixture, component = rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 0.2))

    def nearest(stretch):
        return hull_of_points.nearest(stretch * mixture + (1 - stretch) * component, component > mixture)

    rise = np.sqrt(nearest(3 + step).squared_distance) - np.sqrt(nearest(3 - step).squared_distance)
    assert nearest(3).slope(mixture - component) == pytest.approx(rise / (2 * step), rel=1e-3)


def test_both_ways_through_a_face_agree():
    rng = np.random.default_rng(4)
    n = 50
    points = Hull(kernel_of(rng.normal(size=(n, 4))))
    u, zero = signed_weighting(rng, n, 3.0), rng.random(n) < 0.5
    for one, other in zip(points._by_zero_points(u, zero), points._by_other_points(u, zero), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.floats(1.01, 50.0), st.sampled_from([0.1, 1.0, 10.0]))
def test_interior_point_ends_where_exchanges_do(seed, n, stretch, spread):
    rng = np.random.default_rng(seed)
    kernel = kernel_of(rng.normal(size=(n, 2)) * spread)
    u = signed_weighting(rng, n, stretch)
    points = Hull(kernel)
    inside, exchanged = points._by_interior_point(u), points._by_pivoting(u, u < 0)
    assert inside.converged
    if exchanged is not None:
        assert inside.squared_distance == pytest.approx(exchanged.squared_distance, rel=5e-3, abs=1e-10)


def test_exchanges_that_go_in_circles_are_left_for_the_interior_point_method(monkeypatch):
    """Smooth kernel, few columns: the kernel matrix has low rank."""
    n = 600
    points = Hull(kernel_of(np.random.default_rng(0).normal(size=(n, 2)) * 3.0))
    u = 3.0 / n - 2.0 * np.where(np.arange(n) < n / 10, 10 / n, 0.0)
    monkeypatch.setattr(kernel_mean, "MAX_FRUITLESS_EXCHANGES", 1)
    assert points._by_pivoting(u, u < 0) is None
    found = points.nearest(u, u < 0)
    assert found.converged
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(points._factor @ points._factor.T, points._kernel - ridge(n) * np.eye(n), atol=1e-6)


def test_a_solver_that_runs_out_of_iterations_says_so(monkeypatch):
    rng = np.random.default_rng(6)
    u = signed_weighting(rng, 40, 4.0)
    monkeypatch.setattr(kernel_mean, "MAX_INTERIOR_STEPS", 2)
    assert not Hull(kernel_of(rng.normal(size=(40, 2))))._by_interior_point(u).converged


def test_low_rank_factor_misses_no_entry_by_more_than_allowed():
    kernel = kernel_of(np.random.default_rng(7).normal(size=(80, 1)))
    factor = low_rank_factor(kernel, 1e-5)
    assert factor.shape[1] < 30
    assert np.abs(factor @ factor.T - kernel).max() <= 1e-5


def test_a_matrix_that_is_no_kernel_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        Hull(np.array([[1.0, 2.0], [2.0, 1.0]]))
