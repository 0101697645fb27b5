"""The likelihood of one row, compared with 800 digits at logits for which naive formulas overflow or lose digits."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scarless.numerics import likelihood
from scarless.numerics.likelihood import pair_terms

DIGITS = 800
SMALLEST_NORMAL = np.finfo(float).tiny  # Smaller results may lose digits or be 0.
LOGITS = [-800.0, -700.0, -40.0, 0.4, 40.0, 700.0, 800.0]
PAIRS = pytest.mark.parametrize(("u", "v"), [*itertools.product(LOGITS, [*LOGITS, np.inf]), (400.0, 0.0), (0.0, 0.0)])
LABELS = pytest.mark.parametrize("s", [0, 1])
PROBABILITIES = list(itertools.product([0.0, 1e-300, 1e-17, 0.3, 0.5, 1 - 1e-16, 1.0], repeat=2))
moderate = st.floats(-30, 30)


def _row(u, v):
    u, v = np.array([u]), np.array([v])
    return u, v, pair_terms(u, v)


def _exact(u, v):
    """Return f, 1-f, e, 1-e, 1-fe and q; call this function with a precision of `DIGITS`."""
    f, not_f = 1 / (1 + mpmath.exp(-mpmath.mpf(u))), 1 / (1 + mpmath.exp(mpmath.mpf(u)))
    e, not_e = 1 / (1 + mpmath.exp(-mpmath.mpf(v))), 1 / (1 + mpmath.exp(mpmath.mpf(v)))
    unlabelled = not_f + f * not_e
    return f, not_f, e, not_e, unlabelled, f * not_e / unlabelled


def _assert_right(got, want, rtol=1e-13):
    got = mpmath.mpf(np.asarray(got).item())
    assert mpmath.isfinite(got)
    assert abs(got - want) <= rtol * abs(want) + SMALLEST_NORMAL, f"{float(got)} is not {float(want)}"


@PAIRS
def test_posterior_of_an_unlabelled_row(u, v):
    _, _, terms = _row(u, v)
    with mpmath.workdps(DIGITS):
        f, not_f, _, _, unlabelled, q = _exact(u, v)
        _assert_right(terms.q, q)
        _assert_right(terms.not_q, not_f / unlabelled)
        _assert_right(terms.unlabelled, unlabelled)
        _assert_right(terms.f, f)


@PAIRS
@LABELS
def test_value(u, v, s):
    row_u, row_v, terms = _row(u, v)
    with mpmath.workdps(DIGITS):
        f, _, e, _, unlabelled, _ = _exact(u, v)
        want = mpmath.log(f) + mpmath.log(e) if s else mpmath.log(unlabelled)
        _assert_right(likelihood.log_likelihood(row_u, row_v, np.array([float(s)]), terms), want)


@PAIRS
@LABELS
def test_score(u, v, s):
    _, _, terms = _row(u, v)
    du, dv = likelihood.score(np.array([float(s)]), terms)
    with mpmath.workdps(DIGITS):
        f, not_f, e, not_e, unlabelled, _ = _exact(u, v)
        r = 1 if s else -f * e / unlabelled
        _assert_right(du, r * not_f)
        _assert_right(dv, r * not_e)


@PAIRS
def test_expected_information(u, v):
    # At u=700, v=40 the root `a` is e^-680 and its square underflows: the entry uv = e^-700 must not.
    _, _, terms = _row(u, v)
    a, b = likelihood.fisher_roots(terms)
    with mpmath.workdps(DIGITS):
        f, not_f, e, not_e, unlabelled, _ = _exact(u, v)
        odds = f * e / unlabelled
        _assert_right(a * a, odds * not_f**2)
        _assert_right(a * b, odds * not_f * not_e)
        _assert_right(b * b, odds * not_e**2)


@PAIRS
@LABELS
def test_observed_information(u, v, s):
    _, _, terms = _row(u, v)
    uu, uv, vv = likelihood.observed_information(np.array([float(s)]), terms)
    with mpmath.workdps(DIGITS):
        f, not_f, e, not_e, _, q = _exact(u, v)
        missing = 0 if s else q * (1 - q)
        _assert_right(uu, f * not_f - missing)
        _assert_right(uv, e * missing)
        _assert_right(vv, (1 if s else q) * e * not_e - e**2 * missing)


@pytest.mark.parametrize(("f", "e"), PROBABILITIES)
@LABELS
def test_posterior_and_value_of_probabilities(f, e, s):
    row = np.array([f]), np.array([e]), np.array([float(s)])
    q, value = likelihood.posterior(*row), likelihood.log_likelihood_of_probabilities(*row)
    with mpmath.workdps(DIGITS):
        f, e = mpmath.mpf(f), mpmath.mpf(e)
        chance = f * e if s else 1 - f * e
        _assert_right(q, 1 if s or chance == 0 else f * (1 - e) / chance)
        if chance == 0:
            assert value == -np.inf
        else:
            _assert_right(value, mpmath.log(chance))


def test_an_impossible_unlabelled_row_is_positive():
    assert likelihood.posterior(np.ones(1), np.ones(1), np.zeros(1)) == 1


def test_a_known_propensity_of_1_makes_an_unlabelled_row_negative():
    assert likelihood.posterior(np.array([0.9]), np.ones(1), np.zeros(1)) == 0
    assert pair_terms(np.array([900.0]), np.array([np.inf])).q == 0


@settings(max_examples=200, deadline=None)
@given(moderate, moderate)
def test_expected_information_is_the_mean_of_observed_information_and_of_squared_scores(u, v):
    _, _, terms = _row(u, v)
    a, b = likelihood.fisher_roots(terms)
    labelled, unlabelled = terms.f * terms.e, terms.unlabelled
    one, zero = np.ones(1), np.zeros(1)
    fisher = np.array([a * a, a * b, b * b])
    observed = labelled * np.array(likelihood.observed_information(one, terms))
    observed += unlabelled * np.array(likelihood.observed_information(zero, terms))
    parts = labelled * np.array(likelihood.observed_information(one, terms))
    np.testing.assert_allclose(observed, fisher, rtol=1e-13, atol=1e-14 * np.abs(parts).max())
    (du1, dv1), (du0, dv0) = likelihood.score(one, terms), likelihood.score(zero, terms)
    squares = labelled * np.array([du1**2, du1 * dv1, dv1**2]) + unlabelled * np.array([du0**2, du0 * dv0, dv0**2])
    np.testing.assert_allclose(squares, fisher, rtol=1e-13)
    np.testing.assert_allclose(labelled * du1, -unlabelled * du0, rtol=1e-13)  # the mean score is 0
    np.testing.assert_allclose(labelled * dv1, -unlabelled * dv0, rtol=1e-13)


@settings(max_examples=200, deadline=None)
@given(moderate, moderate, st.sampled_from([0.0, 1.0]))
def test_f_and_e_can_be_swapped(u, v, s):
    s = np.array([s])
    row_u, row_v, terms = _row(u, v)
    *_, swapped = _row(v, u)
    value = likelihood.log_likelihood(row_u, row_v, s, terms)
    np.testing.assert_allclose(likelihood.log_likelihood(row_v, row_u, s, swapped), value, rtol=1e-13)
    np.testing.assert_allclose(likelihood.score(s, swapped), likelihood.score(s, terms)[::-1], rtol=1e-13)
    np.testing.assert_allclose(likelihood.fisher_roots(swapped), likelihood.fisher_roots(terms)[::-1], rtol=1e-13)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e6, 1e6), st.one_of(st.floats(-1e6, 1e6), st.just(np.inf)), st.sampled_from([0.0, 1.0]))
@example(3.0, -37.0, 0.0)  # 1 - f and f (1 - e) add up to more than 1 in floating point
def test_nothing_overflows_and_probabilities_stay_probabilities(u, v, s):
    s = np.array([s])
    row_u, row_v, terms = _row(u, v)
    for name, value in terms._asdict().items():
        assert 0 <= value <= 1, name
    assert abs(terms.q + terms.not_q - 1) <= 1e-15
    assert likelihood.log_likelihood(row_u, row_v, s, terms) <= 0
    for derivative in (*likelihood.score(s, terms), *likelihood.observed_information(s, terms)):
        assert np.isfinite(derivative)
        assert abs(derivative) <= 1
    assert np.isfinite(likelihood.fisher_roots(terms)).all()


@settings(max_examples=200, deadline=None)
@given(moderate, moderate, st.sampled_from([0.0, 1.0]))
def test_functions_of_probabilities_and_of_logits_agree(u, v, s):
    s = np.array([s])
    row_u, row_v, terms = _row(u, v)
    # The complement of a probability close to 1 is lost to rounding; compare only the other rows.
    rtol = 1e-14 / min(terms.not_f[0], terms.not_e[0], 1.0) + 1e-14
    q = np.where(s == 1, 1.0, terms.q)
    np.testing.assert_allclose(likelihood.posterior(terms.f, terms.e, s), q, rtol=rtol)
    value = likelihood.log_likelihood(row_u, row_v, s, terms)
    np.testing.assert_allclose(likelihood.log_likelihood_of_probabilities(terms.f, terms.e, s), value, rtol=rtol)


def test_rows_with_large_and_small_logits_in_one_block_do_not_affect_each_other():
    u, v = np.array([0.5, 750.0, -3.0, 800.0]), np.array([-1.0, 720.0, 2.0, np.inf])
    s = np.array([0.0, 0.0, 1.0, 0.0])
    together = pair_terms(u, v)
    value = likelihood.log_likelihood(u, v, s, together)
    for i in range(4):
        alone = pair_terms(u[i : i + 1], v[i : i + 1])
        np.testing.assert_array_equal([field[i] for field in together], [field[0] for field in alone])
        assert value[i] == likelihood.log_likelihood(u[i : i + 1], v[i : i + 1], s[i : i + 1], alone)[0]
