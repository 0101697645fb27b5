from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.numerics.likelihood import posterior
from scarless.numerics.risk import (
    COSTS,
    LOG,
    expected_cost,
    labelling_variance,
    mixed_cost,
    times,
    true_cost,
    weighted_cost,
)

ALL = pytest.mark.parametrize("cost", COSTS.values(), ids=list(COSTS))
P = np.array([0.95, 0.7, 0.4, 0.02, 0.5, 0.99, 0.1])
Y = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0])
E = np.array([0.1, 0.9, 0.3, 0.05, 0.5, 1.0, 0.2])


def _labelings(y, e):
    """All labelings of the positives, one per row, and their probabilities."""
    draws = np.array(list(product([0.0, 1.0], repeat=y.size)))
    draws = draws[(draws <= y).all(axis=1)]
    chance = np.where(y == 1, np.where(draws == 1, e, 1 - e), 1.0)
    return draws, chance.prod(axis=1)


@ALL
def test_weighted_cost_is_unbiased_row_by_row(cost):
    d1, d0 = cost.positive(P), cost.negative(P)
    s, chance = _labelings(Y, E)
    assert chance.sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_allclose(chance @ weighted_cost(d1, d0, s, E), true_cost(d1, d0, Y), atol=1e-12)


@ALL
def test_labelling_variance_is_the_variance_and_estimates_itself(cost):
    d1, d0 = cost.positive(P), cost.negative(P)
    s, chance = _labelings(Y, E)
    variance = chance @ (weighted_cost(d1, d0, s, E) - true_cost(d1, d0, Y)) ** 2
    np.testing.assert_allclose(labelling_variance(d1, d0, Y, E), variance, rtol=1e-12, atol=1e-12)
    estimates = labelling_variance(d1, d0, s / E, E)
    np.testing.assert_allclose(chance @ estimates, variance, rtol=1e-12, atol=1e-12)


@ALL
def test_posterior_is_bayes_rule(cost):
    # enumerate the class of a row with Pr(y=1) = p; the expected cost is the mean given the label
    e, zeros, ones = np.full(P.size, 0.3), np.zeros(P.size), np.ones(P.size)
    joint_pos, joint_neg = P * (1 - e), 1 - P
    d1, d0 = cost.positive(P), cost.negative(P)
    np.testing.assert_allclose(
        expected_cost(d1, d0, P, zeros, e),
        (joint_pos * d1 + joint_neg * d0) / (joint_pos + joint_neg),
        rtol=1e-14,
    )
    np.testing.assert_array_equal(expected_cost(d1, d0, P, ones, e), d1)


@settings(deadline=None)
@given(p=st.floats(1e-9, 1), e=st.floats(1e-9, 1 - 1e-9))
def test_posterior_keeps_its_digits(p, e):
    with mpmath.workdps(60):
        exact = float(mpmath.mpf(p) * (1 - mpmath.mpf(e)) / (1 - mpmath.mpf(p) * mpmath.mpf(e)))
    found = posterior(np.array([p]), np.array([e]), np.array([0.0]))[0]
    assert found == pytest.approx(exact, rel=1e-15, abs=0)


def test_posterior_of_the_impossible_row_is_one():
    one = np.ones(1)
    assert posterior(one, one, np.zeros(1))[0] == 1.0
    assert posterior(one, one, one)[0] == 1.0


@ALL
@settings(deadline=None)
@given(e=st.floats(1e-9, 1))
def test_always_positive_costs_nothing_in_expectation(cost, e):
    p = np.ones(2)
    found = expected_cost(cost.positive(p), cost.negative(p), p, np.array([0.0, 1.0]), np.full(2, e))
    np.testing.assert_array_equal(found, [0.0, 0.0])


def test_what_has_no_weight_does_not_count():
    np.testing.assert_array_equal(times(np.array([0.0, -2.0]), np.array([np.inf, np.inf])), [0.0, -np.inf])


def test_infinite_costs_of_certain_predictions():
    p = np.array([1.0, 1.0, 0.0, 0.0])
    d1, d0 = LOG.positive(p), LOG.negative(p)
    y = np.array([1.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(true_cost(d1, d0, y), [0, np.inf, np.inf, 0])
    np.testing.assert_array_equal(weighted_cost(d1, d0, y, np.ones(4)), [0, np.inf, np.inf, 0])
    # -inf is the limit of d1/e - (1/e - 1) d0 as the prediction goes to 1
    np.testing.assert_array_equal(weighted_cost(d1, d0, y, np.full(4, 0.5)), [-np.inf, np.inf, np.inf, 0])


@ALL
@settings(deadline=None)
@given(p=st.floats(0.01, 0.99), t=st.floats(-5, 5))
def test_mixed_cost_is_linear_in_the_target(cost, p, t):
    d1, d0 = cost.positive(np.array([p])), cost.negative(np.array([p]))
    np.testing.assert_allclose(mixed_cost(np.array([t]), d1, d0), d0 + t * (d1 - d0), rtol=1e-9, atol=1e-12)


@ALL
def test_full_labelling_reduces_to_the_true_cost(cost):
    d1, d0 = cost.positive(P), cost.negative(P)
    np.testing.assert_array_equal(weighted_cost(d1, d0, Y, np.ones_like(P)), true_cost(d1, d0, Y))
