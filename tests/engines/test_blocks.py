"""Badly scaled columns: how they are found, and how they are read."""

import numpy as np
import pytest
from scipy import sparse

from scarless.engines import InMemoryEngine, blocks

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def how_to_read(X):
    return blocks.how_to_read(InMemoryEngine(X, {}))


def _normal(n=500, d=3):
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize(
    "change",
    [
        lambda Z: Z,
        lambda Z: Z * 1e-6 + 5e-6,
        lambda Z: 1e6 * Z,
        lambda Z: Z + 50,
        lambda Z: np.where(Z > 1, 1.0, 0.0),
        lambda Z: np.where(np.arange(len(Z))[:, None] == 17, 1.0, 0.0) + 0 * Z,  # rare: constant in most rows
        lambda Z: np.full_like(Z, 1e6),  # a constant column has no information
        np.zeros_like,
    ],
)
def test_ordinary_columns_are_read_as_they_are(dtype, change):
    reading = how_to_read(change(_normal(n=5000)).astype(dtype))
    assert (reading.dtype, reading.units) == (dtype, None)


def test_a_float32_table_is_read_in_float64_if_digits_would_be_lost():
    Z = _normal()
    for X in (Z + np.array([0, 1000, 0]), Z * [1, 1e-15, 1]):
        reading = how_to_read(X.astype(SINGLE))
        assert (reading.dtype, reading.units) == (DOUBLE, None)
        assert how_to_read(X).units is None  # float64 has enough digits


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_only_columns_far_from_zero_are_centred_and_scaled(dtype):
    X = (_normal() * [1, 4, 1] + [0, 1e7, 3]).astype(dtype)
    reading = how_to_read(X)
    assert reading.dtype == DOUBLE
    np.testing.assert_array_equal(reading.units.shift[[0, 2]], 0)
    np.testing.assert_array_equal(reading.units.scale[[0, 2]], 1)
    engine = InMemoryEngine(X, {}, block_rows=100, reading=reading).in_units()
    (column,) = engine.total(lambda X, rows: (np.array([X[:, 1].sum(), (X[:, 1] ** 2).sum()]) / 500,))
    assert column[0] == pytest.approx(0, abs=1e-6)
    assert 0.5 < column[1] < 2


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_whose_squares_underflow_are_scaled(kind):
    X = _normal() * [1, 1e-170, 1]
    reading = how_to_read(kind(X))
    engine = InMemoryEngine(kind(X), {}, reading=reading).in_units()
    first = engine.collect(lambda X, rows: np.asarray(X[:, [1]].sum(axis=1)).ravel())
    assert 0.1 < np.std(first) < 10
    np.testing.assert_array_equal(reading.units.shift[[0, 2]], 0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_scale_of_the_smallest_numbers_is_finite(kind):
    reading = how_to_read(kind(_normal() * [1, 1e-320, 1]))
    assert reading.units.scale[1] == 2.0**1023


def test_a_rare_value_outside_the_sample_is_found():
    X = np.full((5000, 1), 1e6)
    X[4321] += 1.0  # not in the sample
    assert how_to_read(X).units is not None
    assert how_to_read(np.full((5000, 1), 1e6)).units is None
