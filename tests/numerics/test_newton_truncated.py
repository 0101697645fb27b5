"""Conjugate gradients that are cut: the exact step inside, the edge outside, descent always."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.numerics.newton import truncated_step


def _matrix(seed, d, *, lowest):
    """Return a symmetric matrix with eigenvalues from `lowest` to 3, a gradient and a positive diagonal."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    matrix = turn @ np.diag(np.linspace(lowest, 3.0, d)) @ turn.T
    return (matrix + matrix.T) / 2, rng.normal(size=d), rng.uniform(0.5, 2.0, d)


@pytest.mark.parametrize("d", [1, 2, 8])
def test_a_definite_parabola_is_minimised(d):
    H, g, diagonal = _matrix(d, d, lowest=0.2)
    step, cut = truncated_step(lambda v: H @ v, g, diagonal, radius=np.inf, rtol=1e-12)
    assert not cut
    np.testing.assert_allclose(step, -np.linalg.solve(H, g), rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 8), st.floats(-2, 1), st.floats(1e-3, 10))
def test_no_step_is_longer_than_the_radius_and_each_goes_down_at_least_as_far_as_the_gradient_does(
    seed, d, lowest, radius
):
    H, g, diagonal = _matrix(seed, d, lowest=lowest)
    step, cut = truncated_step(lambda v: H @ v, g, diagonal, radius=radius, rtol=1e-10)
    length = np.sqrt(step @ (diagonal * step))
    assert length <= radius * (1 + 1e-9)
    if cut:
        assert length == pytest.approx(radius)

    def parabola(v):
        return g @ v + 0.5 * v @ H @ v

    down = -g / diagonal
    edge = radius / np.sqrt(down @ (diagonal * down))
    bend = down @ H @ down
    best = min(edge, -(g @ down) / bend) if bend > 0 else edge
    assert parabola(step) <= parabola(best * down) + 1e-9
    assert g @ step < 0


def test_a_direction_of_negative_curvature_is_followed_to_the_edge_or_without_one_not_at_all():
    H, g = np.diag([-1.0, 1.0]), np.array([0.1, 1.0])
    step, cut = truncated_step(lambda v: H @ v, g, np.ones(2), radius=5.0, rtol=1e-12)
    assert cut
    assert np.linalg.norm(step) == pytest.approx(5.0)
    assert step[0] < -1  # off the saddle
    step, cut = truncated_step(lambda v: H @ v, g, np.ones(2), radius=np.inf, rtol=1e-12)
    assert cut
    assert g @ step < 0


def test_no_gradient_no_step():
    step, cut = truncated_step(lambda v: v, np.zeros(3), np.ones(3), radius=1.0, rtol=0.1)
    assert not cut
    assert not step.any()
