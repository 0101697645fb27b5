import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.numerics.likelihood import at_least_one, logistic_terms, sigmoid_pair, softplus

LOGITS = np.array([-800.0, -700.0, -40.0, -1.5, -1e-9, 0.0, 0.3, 40.0, 700.0, 800.0])
SMALLEST_NORMAL = np.finfo(float).tiny


@pytest.mark.parametrize("z", LOGITS)
def test_sigmoid_and_softplus_are_right_for_all_digits(z):
    with mpmath.workdps(800):
        exact = mpmath.exp(z)
        p, not_p, plus = exact / (1 + exact), 1 / (1 + exact), mpmath.log(1 + exact)
        (got_p,), (got_not_p,) = sigmoid_pair(np.array([z]))
        (got_plus,) = softplus(np.array([z]))
        for got, want in ((got_p, p), (got_not_p, not_p), (got_plus, plus)):
            assert abs(mpmath.mpf(float(got)) - want) <= 1e-15 * want + SMALLEST_NORMAL


@pytest.mark.parametrize("z", LOGITS)
def test_logistic_terms_are_right_for_all_digits(z):
    with mpmath.workdps(800):
        exact = mpmath.exp(z)
        p, not_p = exact / (1 + exact), 1 / (1 + exact)
        for got, want in zip(logistic_terms(np.array([z])), (p, not_p, mpmath.log(p), mpmath.log(not_p)), strict=True):
            assert abs(mpmath.mpf(float(got[0])) - want) <= 1e-15 * abs(want) + SMALLEST_NORMAL


def test_an_infinite_logit_gives_a_probability_of_0_or_1():
    p, not_p = sigmoid_pair(np.array([np.inf, -np.inf]))
    np.testing.assert_array_equal(p, [1, 0])
    np.testing.assert_array_equal(not_p, [0, 1])
    np.testing.assert_array_equal(softplus(np.array([np.inf, -np.inf])), [np.inf, 0])


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_a_probability_and_its_complement_swap_with_the_sign(z):
    p, not_p = sigmoid_pair(np.array([z]))
    swapped = sigmoid_pair(np.array([-z]))
    assert p == swapped[1]
    assert not_p == swapped[0]
    assert abs(p + not_p - 1) <= 3e-16
    assert 0 <= p <= 1


@settings(deadline=None)
@given(st.floats(-1e300, 1e300))
def test_softplus_is_slightly_above_the_hinge(z):
    (value,) = softplus(np.array([z]))
    assert max(z, 0) <= value <= max(z, 0) + np.log(2)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4))
def test_the_probability_of_at_least_one_event_is_one_minus_the_product_of_complements(p):
    with mpmath.workdps(400):
        exact = [float(1 - mpmath.fprod(1 - mpmath.mpf(each) for each in row)) for row in p]
    np.testing.assert_allclose(at_least_one(np.array(p)), exact, rtol=1e-14, atol=0)
