import pickle
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.numerics.likelihood import posterior
from scarless.numerics.risk import (
    ABSOLUTE,
    COSTS,
    LOG,
    SQUARED,
    Cost,
    expected_cost,
    get_cost,
    labelling_variance,
    mixed_cost,
    softplus,
    times,
    true_cost,
    weighted_cost,
)

ALL = pytest.mark.parametrize("cost", COSTS.values(), ids=list(COSTS))
P = np.array([0.95, 0.7, 0.4, 0.02, 0.5, 0.99, 0.1])
Y = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0])
E = np.array([0.1, 0.9, 0.3, 0.05, 0.5, 1.0, 0.2])


def _labellings(y, e):
    """Return all labellings of the positives, one per row, and their probabilities."""
    draws = np.array(list(product([0.0, 1.0], repeat=y.size)))
    draws = draws[(draws <= y).all(axis=1)]
    chance = np.where(y == 1, np.where(draws == 1, e, 1 - e), 1.0)
    return draws, chance.prod(axis=1)


@ALL
def test_weighted_cost_is_unbiased_row_by_row(cost):
    d1, d0 = cost.positive(P), cost.negative(P)
    s, chance = _labellings(Y, E)
    assert chance.sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_allclose(chance @ weighted_cost(d1, d0, s, E), true_cost(d1, d0, Y), atol=1e-12)


@ALL
def test_labelling_variance_is_the_variance_and_estimates_itself(cost):
    d1, d0 = cost.positive(P), cost.negative(P)
    s, chance = _labellings(Y, E)
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


def test_costs_of_weight_0_are_ignored():
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


# --- Risk costs


LOGITS = np.array([-700.0, -40.0, -1.5, 0.0, 0.3, 40.0, 700.0])


def _exact(cost, z):
    """Cost and slope in the logit of a positive and of a negative row, with 400 digits."""
    with mpmath.workdps(400):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(float(z))))
        r = 1 / (1 + mpmath.exp(mpmath.mpf(float(z))))  # 1 - p
        return {
            "log": (-mpmath.log(p), -mpmath.log(r), -r, p),
            "squared": (r**2, p**2, -2 * p * r**2, 2 * r * p**2),
            "absolute": (r, p, -p * r, p * r),
        }[cost.name]


def test_costs_at_simple_predictions():
    p = np.array([0.0, 0.25, 1.0])
    np.testing.assert_array_equal(ABSOLUTE.positive(p), [1, 0.75, 0])
    np.testing.assert_array_equal(ABSOLUTE.negative(p), [0, 0.25, 1])
    np.testing.assert_array_equal(SQUARED.positive(p), [1, 0.5625, 0])
    np.testing.assert_array_equal(SQUARED.negative(p), [0, 0.0625, 1])
    np.testing.assert_allclose(LOG.positive(p), [np.inf, np.log(4), 0], rtol=1e-15)
    np.testing.assert_allclose(LOG.negative(p), [0, np.log(4 / 3), np.inf], rtol=1e-15)


@ALL
def test_costs_return_new_arrays_without_negative_zeros(cost):
    p = np.array([0.0, 1.0])
    for curve in (cost.positive, cost.negative):
        assert not np.shares_memory(curve(p), p)
        assert not np.signbit(curve(p)).any()


@ALL
def test_slopes_match_finite_differences(cost):
    p, h = np.linspace(0.05, 0.95, 19), 1e-6
    for curve, slope in ((cost.positive, cost.positive_slope), (cost.negative, cost.negative_slope)):
        np.testing.assert_allclose(slope(p), (curve(p + h) - curve(p - h)) / (2 * h), rtol=1e-7)


def test_slopes_of_the_log_loss_at_the_ends_are_infinite():
    np.testing.assert_array_equal(LOG.positive_slope(np.array([0.0, 1.0])), [-np.inf, -1])
    np.testing.assert_array_equal(LOG.negative_slope(np.array([0.0, 1.0])), [1, np.inf])


@ALL
def test_logit_slopes_match_finite_differences(cost):
    z, h = np.linspace(-4, 4, 17), 1e-5
    for curve, slope in (
        (cost.logit.positive, cost.logit.positive_slope),
        (cost.logit.negative, cost.logit.negative_slope),
    ):
        np.testing.assert_allclose(slope(z), (curve(z + h) - curve(z - h)) / (2 * h), rtol=1e-6)


@ALL
def test_logit_form_keeps_its_digits_at_large_logits(cost):
    form = cost.logit
    curves = (form.positive, form.negative, form.positive_slope, form.negative_slope)
    for z in LOGITS:
        for curve, exact in zip(curves, _exact(cost, z), strict=True):
            found = float(curve(np.array([z]))[0])
            assert np.isfinite(found)
            # Results below the smallest normal number, such as exp(-1400), may be 0.
            assert abs(found - float(exact)) <= 2e-15 * abs(float(exact)) + 1e-307


@ALL
def test_logit_form_agrees_with_the_probability_form(cost):
    z = np.linspace(-5, 5, 21)
    p = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(cost.logit.positive(z), cost.positive(p), rtol=1e-12)
    np.testing.assert_allclose(cost.logit.negative(z), cost.negative(p), rtol=1e-12)
    chain = p * (1 - p)
    np.testing.assert_allclose(cost.logit.positive_slope(z), cost.positive_slope(p) * chain, rtol=1e-12)
    np.testing.assert_allclose(cost.logit.negative_slope(z), cost.negative_slope(p) * chain, rtol=1e-12)


@ALL
@settings(deadline=None)
@given(z=st.floats(-800, 800))
def test_positive_and_negative_mirror_each_other(cost, z):
    z = np.array([z])
    np.testing.assert_array_equal(cost.logit.positive(z), cost.logit.negative(-z))
    np.testing.assert_allclose(cost.logit.positive_slope(z), -cost.logit.negative_slope(-z), rtol=1e-15)


@settings(deadline=None)
@given(z=st.floats(-1e6, 1e6))
def test_log_loss_difference_is_minus_the_logit(z):
    z = np.array([z])
    np.testing.assert_allclose(LOG.logit.positive(z) - LOG.logit.negative(z), -z, rtol=1e-13, atol=1e-15)


@ALL
@settings(deadline=None)
@given(p=st.floats(0, 1))
def test_costs_are_not_negative_and_below_the_limit(cost, p):
    p = np.array([p])
    both = np.array([cost.positive(p), cost.negative(p)])
    assert (both >= 0).all()
    assert (both <= cost.limit).all()
    assert np.isfinite(both).any()
    assert cost.max_cost(p) == both.max()


def test_max_cost():
    assert SQUARED.max_cost() == ABSOLUTE.max_cost() == 1.0
    assert LOG.max_cost() == np.inf
    assert LOG.max_cost(np.array([0.5, 1.0])) == np.inf
    assert LOG.max_cost(np.array([0.5, 0.9])) == pytest.approx(np.log(10))
    assert SQUARED.max_cost(np.array([0.3, 0.6])) == pytest.approx(0.49)


def test_softplus_at_the_far_ends():
    assert softplus(np.array([-800.0]))[0] == 0.0
    assert softplus(np.array([1e300]))[0] == 1e300


def test_get_cost_by_name_and_by_object():
    assert get_cost("log") is LOG
    assert get_cost(SQUARED) is SQUARED


@pytest.mark.parametrize("unknown", ["mse", None, 3])
def test_get_cost_lists_the_names(unknown):
    with pytest.raises(ValueError, match=r"one of 'absolute', 'log', 'squared', or a Cost; got "):
        get_cost(unknown)


@ALL
def test_costs_can_be_pickled(cost):
    assert pickle.loads(pickle.dumps(cost)) is cost


def test_a_custom_cost_can_be_pickled():
    own = Cost("own", np.cos, np.sin, np.cos, np.sin, 1.0)
    assert pickle.loads(pickle.dumps(own)) == own
