"""The likelihood of rows with several looks, compared with sums over classes and labels, also in the far tails."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.numerics.looks import (
    detected,
    expected_look_information,
    look_scores,
    look_terms,
    observed_look_information,
)
from scarless.numerics.looks_objective import MIXING_FORMS, mixing_of

DIGITS = 340
SMALLEST_NORMAL = np.finfo(float).tiny
LOGITS = [-700.0, -40.0, 0.5, 40.0, 700.0]
MODERATE = st.floats(-3.0, 3.0)


def _terms(u, v, g, labels, looks, audit=-1.0):
    """One row: lists of logits, labels and looks of each kind."""
    line = lambda values: np.array([values], dtype=float)  # noqa: E731
    of_negatives = None if g is None else line(g)
    return look_terms(np.array([float(u)]), line(v), of_negatives, line(labels), line(looks), np.array([float(audit)]))


def _sigma(z):
    return 1 / (1 + mpmath.exp(-mpmath.mpf(z)))


def _joint(y, u, v, g, labels, looks):
    """Pr(y, labels): one class at a time, and one look at a time."""
    found = _sigma(u) if y else _sigma(-mpmath.mpf(u))
    for kind, (t, m) in enumerate(zip(labels, looks, strict=True)):
        if y:
            yes, no = _sigma(v[kind]), _sigma(-mpmath.mpf(v[kind]))
        elif g is None:
            yes, no = mpmath.mpf(0), mpmath.mpf(1)
        else:
            yes, no = _sigma(g[kind]), _sigma(-mpmath.mpf(g[kind]))
        found *= yes ** int(t) * no ** int(m - t)
    return found


def _assert_right(got, want, rtol=1e-12, atol=SMALLEST_NORMAL):
    assert np.isfinite(got)
    with mpmath.workdps(DIGITS):
        error = abs(mpmath.mpf(float(got)) - want)
        assert error <= rtol * abs(want) + atol, f"{got} is not {mpmath.nstr(want, 15)}"


def _all_labels(looks):
    """Return all combinations of numbers of labels by kind, each with its number of possible orders of looks."""
    for labels in itertools.product(*(range(int(m) + 1) for m in looks)):
        yield labels, np.prod([float(mpmath.binomial(int(m), t)) for m, t in zip(looks, labels, strict=True)])


RATES = pytest.mark.parametrize("g", [None, [-4.0, -2.0]], ids=["no false positives", "false positives"])


@pytest.mark.parametrize("g", [None, [-30.0], [0.3], [-700.0]])
@pytest.mark.parametrize("u", LOGITS)
@pytest.mark.parametrize("v", LOGITS)
def test_value_posterior_and_scores_are_exact_in_the_far_tails(u, v, g):
    for (labels, looks), audit in itertools.product([(0, 0), (0, 1), (1, 1), (0, 3), (2, 3)], [-1, 0, 1]):
        if not (audit == 0 and labels and g is None):  # `refuse_contradictions` refuses this combination.
            _assert_exact(u, v, g, labels, looks, audit)


def _assert_exact(u, v, g, labels, looks, audit):
    terms = _terms(u, [v], g, [labels], [looks], audit)
    with mpmath.workdps(DIGITS):
        both = [_joint(y, u, [v], g, [labels], [looks]) for y in (1, 0)]
        if audit >= 0:
            both = [both[0], mpmath.mpf(0)] if audit else [mpmath.mpf(0), both[1]]
        q, not_q = (each / sum(both) for each in both)
        f, e = _sigma(u), _sigma(v)
        wanted = [q - f, q * (labels - looks * e)]
        if g is not None:
            wanted.append(not_q * (labels - looks * _sigma(g[0])))
        # If both logarithms are in the hundreds, their difference has a larger rounding error.
        _assert_right(terms.q[0], q, rtol=1e-11)
        _assert_right(terms.not_q[0], not_q, rtol=1e-11)
        _assert_right(terms.value[0], mpmath.log(sum(both)), atol=1e-15)  # The logarithm can be near 0.
        for got, want in zip(look_scores(terms)[0], wanted, strict=True):
            assert np.isfinite(got)
            assert abs(got - float(want)) < 1e-12 * (1 + looks)


@pytest.mark.parametrize("u", LOGITS)
@pytest.mark.parametrize("v", LOGITS)
@pytest.mark.parametrize("g", [None, -700.0, 0.0, 700.0])
def test_nothing_is_nan_in_the_far_tails(u, v, g):
    for (labels, looks), audit in itertools.product([(0, 0), (0, 5), (5, 5), (2, 5)], [-1, 0, 1]):
        if audit == 0 and labels and g is None:
            continue
        terms = _terms(u, [v], None if g is None else [g], [labels], [looks], audit)
        for information in (observed_look_information(terms), expected_look_information(terms)):
            for part in information:
                assert np.isfinite(part).all()
        assert np.isfinite(look_scores(terms)).all()
        assert np.isfinite(np.ravel(detected(terms))).all()


@given(u=MODERATE, v=st.tuples(MODERATE, MODERATE), g=st.none() | st.tuples(MODERATE, MODERATE))
@settings(max_examples=40)
def test_all_labels_together_have_probability_one(u, v, g):
    looks = (2, 3)
    total = sum(n * np.exp(_terms(u, v, g, labels, looks).value[0]) for labels, n in _all_labels(looks))
    np.testing.assert_allclose(total, 1.0, rtol=1e-13)


@given(u=MODERATE, v=st.tuples(MODERATE, MODERATE), g=st.tuples(MODERATE, MODERATE))
@settings(max_examples=40)
def test_the_likelihood_without_an_audit_is_the_sum_over_both_audit_results(u, v, g):
    for labels, _ in _all_labels((1, 2)):
        whole, *parts = (np.exp(_terms(u, v, g, labels, (1, 2), audit).value[0]) for audit in (-1, 0, 1))
        np.testing.assert_allclose(whole, sum(parts), rtol=1e-13)


@pytest.mark.parametrize("deviation", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("labels", [(0, 0), (2, 1), (2, 3)])
@pytest.mark.parametrize("g", [None, [-4.0, -2.0]])
def test_the_likelihood_with_a_normal_shift_is_its_integral(deviation, labels, g):
    """The integral over the shift, by adaptive quadrature, agrees with the nodes to 4 digits."""
    u, v, looks = -0.7, np.array([0.4, -1.1]), (2, 3)

    def likelihood(z):
        return np.exp(_terms(u, v + deviation * z, g, labels, looks).value[0]) * norm.pdf(z)

    line = lambda values: np.array([values], dtype=float)  # noqa: E731
    rates = None if g is None else line(g)
    mixed = look_terms(
        np.array([u]), line(v), rates, line(labels), line(looks), np.array([-1.0]), None, mixing_of(deviation)
    )
    integral, _ = quad(likelihood, -12, 12, epsabs=1e-13, limit=200)
    np.testing.assert_allclose(np.exp(mixed.value[0]), integral, rtol=1e-4)


@pytest.mark.parametrize("form", MIXING_FORMS)
def test_shifts_have_mean_0_and_the_given_deviation(form):
    shifts, weights = map(np.array, mixing_of(1.7, form))
    np.testing.assert_allclose([weights.sum(), weights @ shifts, weights @ shifts**2], [1.0, 0.0, 1.7**2], atol=1e-12)


def _matrix(information):
    diagonal, omega, along = (part[0] for part in information[:3])
    return np.diag(diagonal) - omega * np.outer(along, along)


def _at(logits, n_kinds, labels, looks, audit=-1):
    g = logits[1 + n_kinds :]
    return _terms(logits[0], logits[1 : 1 + n_kinds], g if g.size else None, labels, looks, audit)


@RATES
@pytest.mark.parametrize("audit", [-1, 0, 1])
@pytest.mark.parametrize("labels", [(0, 0), (0, 2), (1, 1), (1, 3)])
def test_scores_and_observed_information_are_derivatives(g, audit, labels):
    if audit == 0 and sum(labels) and g is None:
        pytest.skip("a labelled row cannot be found negative without false positives")
    at, looks, step = np.array([0.4, -0.7, 1.1, *(g or ())]), (1, 3), 1e-5

    def moved(function, j):
        up, down = (function(_at(at + sign * step * np.eye(at.size)[j], 2, labels, looks, audit)) for sign in (1, -1))
        return (up - down) / (2 * step)

    terms = _at(at, 2, labels, looks, audit)
    scores = [moved(lambda terms: terms.value[0], j) for j in range(at.size)]
    np.testing.assert_allclose(look_scores(terms)[0], scores, atol=1e-9)
    bend = [moved(lambda terms: look_scores(terms)[0], j) for j in range(at.size)]
    np.testing.assert_allclose(_matrix(observed_look_information(terms)), -np.array(bend), atol=1e-9)


@given(u=MODERATE, v=st.tuples(MODERATE, MODERATE), looks=st.tuples(st.integers(0, 2), st.integers(0, 3)))
@settings(max_examples=40)
def test_expected_information_is_the_mean_over_all_labels(u, v, looks):
    mean, scores = np.zeros((3, 3)), np.zeros((3, 3))
    for labels, n in _all_labels(looks):
        terms = _terms(u, v, None, labels, looks)
        probability, score = n * np.exp(terms.value[0]), look_scores(terms)[0]
        mean += probability * _matrix(observed_look_information(terms))
        scores += probability * np.outer(score, score)
    got = _matrix(expected_look_information(_terms(u, v, None, (0, 0), looks)))
    np.testing.assert_allclose(got, mean, atol=1e-13)
    np.testing.assert_allclose(got, scores, atol=1e-13)  # Fisher's identity


@given(u=MODERATE, v=st.tuples(MODERATE, MODERATE), looks=st.tuples(st.integers(0, 2), st.integers(0, 3)))
@settings(max_examples=40)
def test_expected_information_with_bounds_is_the_mean_over_all_labels(u, v, looks):
    def terms_of(labels):
        line = [np.array([each], dtype=float) for each in (v, labels, looks)]
        return look_terms(np.array([u]), line[0], None, line[1], line[2], np.array([-1.0]), bounds=(0.1, 0.7))

    mean, scores = np.zeros((3, 3)), np.zeros((3, 3))
    for labels, n in _all_labels(looks):
        terms = terms_of(labels)
        probability, score = n * np.exp(terms.value[0]), look_scores(terms)[0]
        mean += probability * _matrix(observed_look_information(terms))
        scores += probability * np.outer(score, score)
    got = _matrix(expected_look_information(terms_of((0, 0))))
    np.testing.assert_allclose(got, mean, atol=1e-13)
    np.testing.assert_allclose(got, scores, atol=1e-13)


@given(u=MODERATE, v=MODERATE)
@settings(max_examples=30)
def test_expected_information_of_an_audited_row_is_the_complete_one(u, v):
    mean = np.zeros((2, 2))
    for audit, labels in [(0, 0), (1, 0), (1, 1), (1, 2)]:
        n = 2 if labels == 1 else 1
        terms = _terms(u, [v], None, [labels], [2], audit)
        mean += n * np.exp(terms.value[0]) * _matrix(observed_look_information(terms))
    got = _matrix(expected_look_information(_terms(u, [v], None, [0], [2], 0)))
    np.testing.assert_allclose(got, mean, atol=1e-13)


@RATES
@given(
    u=st.floats(-30, 30), v=st.tuples(st.floats(-30, 30), st.floats(-30, 30)), labels=st.sampled_from([(0, 0), (1, 2)])
)
@settings(max_examples=40)
def test_expected_information_is_never_indefinite(g, u, v, labels):
    matrix = _matrix(expected_look_information(_terms(u, v, g, labels, (1, 2))))
    assert np.linalg.eigvalsh(matrix).min() > -1e-14


@given(u=MODERATE, v=st.tuples(MODERATE, MODERATE), g=st.tuples(MODERATE, MODERATE))
@settings(max_examples=30)
def test_with_false_positives_the_scoring_matrix_is_never_below_the_expected_one(u, v, g):
    looks, mean = (1, 2), np.zeros((5, 5))
    for labels, n in _all_labels(looks):
        terms = _terms(u, v, g, labels, looks)
        mean += n * np.exp(terms.value[0]) * _matrix(observed_look_information(terms))
    got = _matrix(expected_look_information(_terms(u, v, g, (0, 0), looks)))
    assert np.linalg.eigvalsh(got - mean).min() > -1e-13


@pytest.mark.parametrize("u", LOGITS)
@pytest.mark.parametrize("v", LOGITS)
@pytest.mark.parametrize("s", [0, 1])
def test_one_look_is_the_plain_likelihood(u, v, s):
    terms = _terms(u, [v], None, [s], [1])
    pair = pair_terms(np.array([u]), np.array([v]))
    want = log_likelihood(np.array([u]), np.array([v]), np.array([float(s)]), pair)
    np.testing.assert_allclose(terms.value, want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("v", LOGITS)
@pytest.mark.parametrize("looks", [0, 1, 3])
def test_detected_and_missed_are_exact(v, looks):
    found, none = detected(_terms(0.0, [v, -1.0], None, [0, 0], [looks, 1]))
    with mpmath.workdps(DIGITS):
        missed = _sigma(-mpmath.mpf(v)) ** looks * _sigma(1)
        _assert_right(found[0], 1 - missed)
        _assert_right(none[0], missed)
