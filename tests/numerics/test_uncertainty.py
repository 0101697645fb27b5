"""Delta-method variances: gradients, inverses, null directions, centring."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit

from scarless.numerics import uncertainty
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair

F, E = Design(slice(0, 3), 3), Design(slice(2, 4), 2)


def block(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    rows = {"s": (rng.random(n) < 0.3).astype(float), "w": rng.integers(0, 4, n).astype(float)}
    return X, rows, rng.normal(size=4), rng.normal(size=3)


def with_parameters(beta):
    X, rows, *_ = block()
    return LogisticPair(F, E).totals(X, rows, beta)


def test_sums_are_those_of_the_rows():
    X, rows, beta_f, beta_e = block()
    s, w = rows["s"], rows["w"]
    f, e = expit(X[:, :3] @ beta_f[:3] + beta_f[3]), expit(X[:, 2:] @ beta_e[:2] + beta_e[2])
    sums = LogisticPair(F, E).totals(X, rows, np.append(beta_f, beta_e))
    assert sums.log_likelihood == pytest.approx(w @ np.where(s == 1, np.log(f * e), np.log1p(-f * e)))
    assert (sums.weight, sums.labelled) == (w.sum(), w @ s)
    assert (sums.positives, sums.labelled_positives) == pytest.approx((w @ f, w @ (f * e)))
    np.testing.assert_allclose(sums.squares, [w @ f**2, w @ (f**2 * e), w @ (f * e) ** 2])
    np.testing.assert_allclose(sums.columns, [*(w @ X[:, :3]), w.sum(), *(w @ X[:, 2:]), w.sum()])


@pytest.mark.parametrize(
    ("value", "gradient"),
    [("positives", "positives_gradient"), ("labelled_positives", "labelled_positives_gradient")],
)
def test_gradients_are_derivatives(value, gradient):
    *_, beta_f, beta_e = block()
    beta = np.append(beta_f, beta_e)
    steps = 1e-6 * np.eye(beta.size)
    numeric = [
        (float(getattr(with_parameters(beta + h), value)) - float(getattr(with_parameters(beta - h), value))) / 2e-6
        for h in steps
    ]
    np.testing.assert_allclose(getattr(with_parameters(beta), gradient), numeric, atol=1e-7)


def test_the_only_look_has_the_label_frequency_of_all_looks():
    *_, beta_f, beta_e = block()
    sums = with_parameters(np.append(beta_f, beta_e)).of_one_look()
    for got, want in zip(uncertainty.label_frequency_of_look(sums, 0), uncertainty.label_frequency(sums), strict=True):
        np.testing.assert_allclose(got, want)
    assert (sums.looks.item(), sums.labels.item(), *sums.audits) == (sums.weight, sums.labelled, 0.0, 0.0)


@pytest.mark.parametrize("functional", [uncertainty.class_prior, uncertainty.label_frequency])
def test_functionals_have_the_gradient_of_their_value(functional):
    *_, beta_f, beta_e = block()
    beta = np.append(beta_f, beta_e)
    numeric = [
        (functional(with_parameters(beta + h)).value - functional(with_parameters(beta - h)).value) / 2e-6
        for h in 1e-6 * np.eye(beta.size)
    ]
    np.testing.assert_allclose(functional(with_parameters(beta)).gradient, numeric, atol=1e-9)


@pytest.mark.parametrize("functional", [uncertainty.class_prior, uncertainty.label_frequency])
def test_the_variance_of_drawing_rows_is_that_of_their_influence(functional):
    """A small change of one row's weight changes the value by its influence; squared influences sum to the variance."""
    X, rows, beta_f, beta_e = block()
    w = rows["w"]

    def value(weight):
        return functional(LogisticPair(F, E).totals(X, {**rows, "w": weight}, np.append(beta_f, beta_e))).value

    influence = np.array([(value(w + 1e-6 * unit) - value(w - 1e-6 * unit)) / 2e-6 for unit in np.eye(w.size)])
    sums = LogisticPair(F, E).totals(X, rows, np.append(beta_f, beta_e))
    assert functional(sums).row_variance == pytest.approx(w @ influence**2, rel=1e-6)


def test_a_constant_propensity_has_no_variance_from_sampling_rows():
    X, rows, beta_f, _ = block()
    constant = Design(slice(0, 0), 0)
    sums = LogisticPair(F, constant).totals(X, rows, np.append(beta_f, 0.4))
    frequency = uncertainty.label_frequency(sums)
    assert frequency.value == pytest.approx(expit(0.4))
    assert frequency.row_variance == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(frequency.gradient[:-1], 0, atol=1e-15)
    assert frequency.gradient[-1] == pytest.approx(expit(0.4) * expit(-0.4))


# --- the inverse of an information matrix


def definite(p, seed, spread=0.0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3 * p, p))
    units = 10.0 ** rng.uniform(-spread, spread, p)
    return (A.T @ A) * units[:, None] * units


@given(p=st.integers(1, 8), seed=st.integers(0, 100), spread=st.sampled_from([0.0, 3.0, 8.0]))
def test_errors_are_those_of_the_inverse_in_any_units(p, seed, spread):
    matrix = definite(p, seed, spread)
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(4, p)) * np.sqrt(np.diagonal(matrix))
    scale = 1 / np.sqrt(np.diagonal(matrix))
    inverse = np.linalg.inv(matrix * scale[:, None] * scale)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", G * scale, inverse, G * scale))
    np.testing.assert_allclose(uncertainty.precision(matrix, noise=1e-13).errors(G), expected, rtol=1e-7)


@given(seed=st.integers(0, 50))
def test_errors_are_infinite_along_a_null_direction_and_finite_otherwise(seed):
    """With two equal columns, only the sum of their coefficients is identified, with the precision of one column."""
    one = definite(3, seed)
    copy = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1.0]])
    both = uncertainty.precision(copy @ one @ copy.T, noise=1e-13)
    errors = both.errors(np.array([[0, 0, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0.5, 0.5]], dtype=float))
    alone = uncertainty.precision(one, noise=1e-13).errors(np.eye(3))
    assert errors[0] == np.inf
    np.testing.assert_allclose(errors[1:], [alone[2], alone[0], alone[2] / 2], rtol=1e-6)
    assert both.condition == np.inf


def test_a_parameter_without_information_has_an_infinite_error():
    apart = uncertainty.precision(np.diag([4.0, 0.0]), noise=1e-13)
    np.testing.assert_array_equal(apart.errors(np.eye(2)), [0.5, np.inf])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_logit_errors_are_quadratic_forms(dtype, make):
    X, *_ = block(20)
    X = X[:, 2:].astype(dtype)
    matrix = definite(7, 3)
    part = slice(4, 7)
    V = np.linalg.inv(matrix)[part, part]
    rows = np.column_stack([X, np.ones(20)])
    found = uncertainty.precision(matrix, noise=1e-13).logit_errors(make(X), part)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.sqrt(np.einsum("ij,jk,ik->i", rows, V, rows)), rtol=1e-6)


def test_logit_errors_are_infinite_along_null_directions():
    X, *_ = block(30)
    doubled = np.column_stack([X[:, 0], X[:, 0]])
    A = np.column_stack([doubled, np.ones(30)])
    apart = uncertainty.precision(A.T @ A, noise=1e-13)
    single = np.column_stack([X[:, 0], np.ones(30)])
    inverse = np.linalg.inv(single.T @ single)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", single, inverse, single))
    np.testing.assert_allclose(apart.logit_errors(doubled, slice(0, 3)), expected, rtol=1e-7)
    assert np.isinf(apart.logit_errors(np.array([[1.0, -1.0]]), slice(0, 3))).all()


@pytest.mark.parametrize(
    ("matrix", "definite", "semi_definite"),
    [
        (np.eye(3), True, True),
        (np.ones((3, 3)), False, True),
        (np.diag([1e-30, 1.0]), True, True),
        (np.diag([0.0, 1.0]), False, True),
        (np.diag([1.0, -1e-3]), False, False),
        (np.array([[1.0, 1.1], [1.1, 1.0]]), False, False),
    ],
)
def test_definite_matrices_are_recognised(matrix, definite, semi_definite):
    assert uncertainty.is_definite(matrix, noise=1e-13) is definite
    assert uncertainty.is_semi_definite(matrix, noise=1e-13) is semi_definite


def test_intervals_in_the_logit():
    low, high = uncertainty.logit_interval(np.array([0.0, 2.0, np.inf, 1.0]), np.array([1.0, 0.0, np.inf, np.inf]), 2.0)
    np.testing.assert_allclose(low, [expit(-2), expit(2), 0, 0])
    np.testing.assert_allclose(high, [expit(2), expit(2), 1, 1])


# --- centring


def test_centring_gives_the_information_about_centred_columns():
    X, rows, beta_f, beta_e = block()
    X += np.array([10.0, -3.0, 5.0, 0.0])
    beta_f[-1] -= beta_f[:3] @ [10.0, -3.0, 5.0]
    beta_e[-1] -= beta_e[0] * 5.0
    means = (rows["w"] @ X) / rows["w"].sum()
    moved_f = np.append(beta_f[:3], beta_f[3] + beta_f[:3] @ means[:3])
    moved_e = np.append(beta_e[:2], beta_e[2] + beta_e[:2] @ means[2:])
    pair = LogisticPair(F, E)
    matrix = pair.sums(X, rows, np.append(beta_f, beta_e), Curvature.OBSERVED).curvature
    expected = pair.sums(X - means, rows, np.append(moved_f, moved_e), Curvature.OBSERVED).curvature
    columns = LogisticPair(F, E).totals(X, rows, np.append(beta_f, beta_e)).columns
    T = uncertainty.centring([columns[:4], columns[4:]])
    np.testing.assert_allclose(T @ np.append(moved_f, moved_e), np.append(beta_f, beta_e))
    found, noise = uncertainty.centred(matrix, T, noise=1e-13)
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    assert 1e-13 <= noise < 1e-9


def test_a_constant_column_has_no_information_about_centred_columns():
    matrix = np.array([[9.0, 3.0], [3.0, 1.0]]) * 7.0 + np.array([[1e-14, 0.0], [0.0, 0.0]])
    found, _ = uncertainty.centred(matrix, uncertainty.centring([np.array([21.0, 7.0])]), noise=1e-13)
    np.testing.assert_array_equal(found, [[0.0, 0.0], [0.0, 7.0]])


@pytest.mark.parametrize("z", [0.0, 5e-324, 1.0])
def test_an_infinite_error_gives_the_interval_from_0_to_1_at_any_level(z):
    lower, upper = uncertainty.logit_interval(np.array([3.0, 3.0]), np.array([np.inf, 0.0]), z)
    np.testing.assert_array_equal([lower[0], upper[0]], [0.0, 1.0])
    assert lower[1] == upper[1] == expit(3.0)
