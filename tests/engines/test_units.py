"""Columns out of proportion: which they are, and a problem in other units that has the same optimum."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from scarless.engines import InMemoryEngine, units
from scarless.engines.change import ChangeOfUnits
from scarless.engines.problem import PenalisedProblem
from scarless.engines.units import Units
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, KnownPropensity, LogisticPair, TargetLogistic

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def how_to_read(X):
    return units.how_to_read(InMemoryEngine(X, {}))


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
        lambda Z: np.full_like(Z, 1e6),  # tells nothing
        np.zeros_like,
    ],
)
def test_ordinary_columns_are_read_as_they_are(dtype, change):
    reading = how_to_read(change(_normal(n=5000)).astype(dtype))
    assert (reading.dtype, reading.units) == (dtype, None)


def test_a_single_precision_table_is_read_in_double_precision_where_digits_would_be_lost():
    Z = _normal()
    for X in (Z + np.array([0, 1000, 0]), Z * [1, 1e-15, 1]):
        reading = how_to_read(X.astype(SINGLE))
        assert (reading.dtype, reading.units) == (DOUBLE, None)
        assert how_to_read(X).units is None  # in double precision there are digits enough


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_columns_far_from_zero_are_centred_and_scaled_and_no_others(dtype):
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
def test_columns_whose_squares_vanish_are_scaled(kind):
    X = _normal() * [1, 1e-170, 1]
    reading = how_to_read(kind(X))
    engine = InMemoryEngine(kind(X), {}, reading=reading).in_units()
    first = engine.collect(lambda X, rows: np.asarray(X[:, [1]].sum(axis=1)).ravel())
    assert 0.1 < np.std(first) < 10
    np.testing.assert_array_equal(reading.units.shift[[0, 2]], 0)


def test_a_value_that_hides_among_many_rows_is_found():
    X = np.full((5000, 1), 1e6)
    X[4321] += 1.0  # not in the sample
    assert how_to_read(X).units is not None
    assert how_to_read(np.full((5000, 1), 1e6)).units is None


OBJECTIVES = {
    "target": TargetLogistic(Design.of(np.array([2, 0]))),
    "known": KnownPropensity(Design.of(np.arange(3))),
    "pair": LogisticPair(Design.of(np.array([2, 0])), Design.of(np.array([1, 2]))),
}


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_a_change_of_units_changes_no_value_and_turns_back(name):
    rng, objective, X = np.random.default_rng(1), OBJECTIVES[name], _normal()
    units = Units(np.array([0.0, 3.0, -2.0]), np.array([1.0, 0.5, 4.0]))
    s = (rng.random(500) < 0.4).astype(float)
    rows = {"s": s, "t": s, "w": rng.random(500), "v": rng.normal(size=500)}
    ridge, beta = rng.random(objective.n_parameters), rng.normal(size=objective.n_parameters)
    plain = PenalisedProblem(InMemoryEngine(X, rows), objective, ridge)
    change = ChangeOfUnits.of(units, objective.designs, ridge)
    scaled = (X - units.shift) * units.scale
    for _, intercept, _ in change.shift:
        ridge[intercept] = 0.0  # as ever
    other = PenalisedProblem(InMemoryEngine(scaled, rows), objective, change.ridge(ridge))
    here, there = plain.evaluate(beta, Curvature.OBSERVED), other.evaluate(change.forth(beta), Curvature.OBSERVED)
    assert there.value == pytest.approx(float(here.value), rel=1e-12)
    np.testing.assert_allclose(change._old(change.forth(beta)), beta, rtol=1e-12)
    np.testing.assert_allclose(change._old_curvature(there.curvature), here.curvature, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(change.curvature(here.curvature), there.curvature, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_the_optimum_is_that_of_centred_columns(name, C):
    rng, objective, Z = np.random.default_rng(2), OBJECTIVES[name], _normal(n=2000)
    s = (rng.random(2000) < expit(Z @ [1, -1, 0.5]) * expit(Z[:, 1])).astype(float)
    rows = {"s": s, "t": s, "w": np.ones(2000), "v": Z[:, 1]}
    X = (Z + np.array([1e6, 0, 1e6])).astype(np.float32)
    centred = X.astype(np.float64) - [1e6, 0, 1e6]
    lengths = [d.n_columns for d in objective.designs]
    ridge = np.concatenate([np.append(np.full(n, 1 / C), 0.0) for n in lengths])
    options = {"total_weight": 2000.0, "tol": 1e-14, "max_iter": 200, "may_diverge": bool(np.isinf(C))}
    there = PenalisedProblem(InMemoryEngine(centred, rows), objective, ridge).solve(np.zeros(ridge.size), **options)
    far = PenalisedProblem(InMemoryEngine(X, rows, reading=how_to_read(X)), objective, ridge)
    here = far.solve(np.zeros(ridge.size), **options)
    assert here.status is there.status
    assert here.value == pytest.approx(there.value, rel=1e-11)
    start = 0
    for n in lengths:
        np.testing.assert_allclose(here.parameters[start : start + n], there.parameters[start : start + n], atol=1e-5)
        start += n + 1
