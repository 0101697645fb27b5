"""Distances and kernels against their formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.spatial.distance import cdist

from scarless.label_frequency.kernel_mean import embedding_distance, gaussian_kernel, squared_distances

TABLES = arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.floats(-1e3, 1e3))


@settings(max_examples=50, deadline=None)
@given(TABLES)
def test_squared_distances(X):
    found = squared_distances(X)
    np.testing.assert_allclose(found, cdist(X, X, "sqeuclidean"), atol=1e-8 * max(1.0, np.abs(X).max() ** 2))
    assert (found >= 0).all()
    assert (found.diagonal() == 0).all()
    np.testing.assert_allclose(squared_distances(sparse.csr_array(X)), found, atol=1e-8)


def test_blocks_make_no_difference():
    X = np.random.default_rng(0).normal(size=(600, 3))  # more than two blocks
    np.testing.assert_allclose(squared_distances(X), cdist(X, X, "sqeuclidean"), atol=1e-12)
    difference = np.random.default_rng(1).normal(size=600)
    kernel = np.exp(-0.5 * cdist(X, X, "sqeuclidean") / 0.7**2)
    assert embedding_distance(squared_distances(X), 0.7, difference) == pytest.approx(
        np.sqrt(difference @ kernel @ difference)
    )


def test_kernel_can_take_the_place_of_the_distances():
    squared = squared_distances(np.array([[0.0], [3.0]]))
    kernel = gaussian_kernel(squared, 1.5, out=squared)
    assert kernel is squared
    np.testing.assert_allclose(kernel, [[1, np.exp(-2)], [np.exp(-2), 1]])
