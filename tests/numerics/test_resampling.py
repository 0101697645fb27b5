"""Poisson counts of the bootstrap: the same for every kind of array, and from a hash that is written down elsewhere."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from scarless.numerics.resampling import poisson_counts, uniforms

WORD = 2**64


def splitmix64(state: int) -> int:
    """Return the output of splitmix64 for a state, with Python's unlimited integers."""
    z = state % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


@given(st.integers(0, 2**40), st.integers(0, 2**63 - 1))
def test_uniforms_are_the_first_53_bits_of_splitmix64(number, seed):
    expected = splitmix64(number * 0x9E3779B97F4A7C15 + splitmix64(seed)) >> 11
    assert uniforms(np.array([number]), seed)[0] == expected * 2.0**-53


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.uint64, np.int64])
def test_the_type_of_row_numbers_does_not_matter(kind):
    np.testing.assert_array_equal(uniforms(np.arange(200).astype(kind), 3), uniforms(np.arange(200), 3))


@pytest.mark.parametrize("mean", [1.0, 0.3, 12.5])
def test_counts_are_quantiles_and_the_same_on_a_device(mean):
    number, means = np.arange(5, 4000, 3), np.full(1332, mean)
    counts = poisson_counts(number, means, 11)
    np.testing.assert_array_equal(counts, poisson.ppf(uniforms(number, 11), mean))
    there = poisson_counts(number, array_api_strict.asarray(means), 11)
    assert isinstance(there, type(array_api_strict.asarray(means)))
    np.testing.assert_array_equal(np.asarray(there), counts)


@pytest.mark.parametrize("means", [np.arange(300.0) % 4, np.linspace(0.0, 5.0, 300), np.zeros(300), np.empty(0)])
def test_each_row_has_its_own_mean(means):
    number = np.arange(means.size)
    expected = np.where(means > 0, poisson.ppf(uniforms(number, 2), np.maximum(means, 1e-9)), 0.0)
    np.testing.assert_array_equal(poisson_counts(number, means, 2), expected)
    np.testing.assert_array_equal(np.asarray(poisson_counts(number, array_api_strict.asarray(means), 2)), expected)
