"""What labels tell under a constant propensity."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from scipy.stats import chi2_contingency, ks_2samp

from scarless.diagnostics.scar._pair_tests import compare
from scarless.numerics.label_tests import (
    below_thresholds,
    constant_propensity,
    efficient_part,
    holm,
    independent_columns,
    largest_distances,
    score_statistic,
)
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    D, Z = rng.normal(size=(60, 2)), rng.normal(size=(60, 3))
    s = (rng.random(60) < 0.3).astype(float)
    beta, v = np.array([0.8, -0.4, 0.2]), 0.3
    return D, Z, s, beta, v


def test_residuals_have_mean_zero_and_the_odds_as_variance(rows):
    D, _, _, beta, v = rows
    labelled, unlabelled = (constant_propensity(D, np.full(60, value), np.ones(60), beta, v) for value in (1.0, 0.0))
    p = expit(v) * expit(D @ beta[:-1] + beta[-1])
    np.testing.assert_allclose(labelled.p, p, rtol=1e-13)
    np.testing.assert_allclose(p * labelled.residual + (1 - p) * unlabelled.residual, 0.0, atol=1e-15)
    variance = p * labelled.residual**2 + (1 - p) * unlabelled.residual**2
    np.testing.assert_allclose(variance, labelled.odds, rtol=1e-13)


def test_residuals_are_the_likelihoods_score_at_a_constant_propensity(rows):
    """Gradient of the two-model likelihood at slopes 0: that of `e` and, through the tangent, that of `f`."""
    D, Z, s, beta, v = rows
    pair = LogisticPair(Design.of(np.arange(2)), Design.of(np.arange(2, 5)))
    at = np.concatenate([beta, np.zeros(3), [v]])
    X, values = np.column_stack([D, Z]), {"s": s, "w": np.ones(60)}
    gradient = -pair.sums(X, values, at, Curvature.NONE).gradient
    null = constant_propensity(D, s, np.ones(s.size), beta, v)
    slopes = (1 - expit(v)) * null.residual @ Z
    np.testing.assert_allclose(slopes, gradient[3:6], rtol=1e-11)
    scale = np.array([1.0, 1.0, 1.0, 1 - expit(v)])
    np.testing.assert_allclose(scale * (null.residual @ null.tangent), gradient[[0, 1, 2, 6]], rtol=1e-11)


def test_far_logits_leave_finite_numbers():
    D = np.array([[-700.0], [700.0], [0.0]])
    null = constant_propensity(D, np.array([0.0, 0.0, 1.0]), np.ones(3), np.array([1.0, 0.0]), 600.0)
    assert all(np.isfinite(field).all() for field in null)


def test_the_efficient_part_is_orthogonal_to_the_tangent_and_nothing_more_is_taken(rows):
    D, Z, s, beta, v = rows
    null = constant_propensity(D, s, np.ones(s.size), beta, v)
    A = efficient_part(null, Z)
    np.testing.assert_allclose((null.tangent * null.odds[:, None]).T @ A, 0.0, atol=1e-11)
    np.testing.assert_allclose(efficient_part(null, A), A, atol=1e-12)
    np.testing.assert_allclose(efficient_part(null, Z + null.tangent @ np.ones((4, 3))), A, atol=1e-11)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_where_all_rows_are_alike_the_score_statistic_is_pearsons(share):
    rng = np.random.default_rng(5)
    z = rng.integers(0, 2, 200).astype(float)
    s = (rng.random(200) < share).astype(float)
    table = [[np.sum((s == a) & (z == b)) for b in (0, 1)] for a in (0, 1)]
    null = constant_propensity(np.zeros((200, 0)), s, np.ones(200), np.array([60.0]), np.log(s.sum() / (1 - s).sum()))
    expected = chi2_contingency(table, correction=False).statistic
    assert score_statistic(null, z[:, None]).statistic == pytest.approx(expected, rel=1e-9)


def test_the_score_statistic_does_not_depend_on_the_basis(rows):
    D, Z, s, beta, v = rows
    null = constant_propensity(D, s, np.ones(s.size), beta, v)
    mix = np.random.default_rng(1).normal(size=(3, 3))
    one, other = score_statistic(null, Z), score_statistic(null, Z @ mix + null.tangent @ np.ones((4, 3)))
    assert one.statistic == pytest.approx(other.statistic, rel=1e-8)
    assert one.degrees_of_freedom == other.degrees_of_freedom == 3


def test_directions_without_variance_do_not_count(rows):
    D, Z, s, beta, v = rows
    null = constant_propensity(D, s, np.ones(s.size), beta, v)
    padded = np.column_stack([Z, Z @ [1.0, -3.0, 0.0], np.zeros(60), null.tangent[:, 2]])
    assert score_statistic(null, padded).degrees_of_freedom == 3
    assert score_statistic(null, padded).statistic == pytest.approx(score_statistic(null, Z).statistic, rel=1e-8)
    assert score_statistic(null, null.tangent) == (0.0, 0)


def test_the_score_statistic_is_the_likelihood_ratios_first_approximation():
    """Near the maximum twice the gain in likelihood is the squared score over the information."""
    rng = np.random.default_rng(6)
    n = 20_000
    D, Z = rng.normal(size=(n, 1)), rng.normal(size=(n, 2))
    s = (rng.random(n) < 0.5 * expit(2 * D[:, 0])).astype(float)
    fit = compare(D, Z, s, np.ones(s.size))
    null = constant_propensity(D, s, np.ones(s.size), fit.null.beta_f, fit.null.v)
    assert score_statistic(null, Z).statistic == pytest.approx(fit.statistic, rel=0.02)


def closed_test(p):
    """Adjust by definition: a hypothesis falls if every set that it is in falls by Bonferroni."""
    places = range(len(p))
    sets = list(chain.from_iterable(combinations(places, size) for size in range(1, len(p) + 1)))
    return [max(min(1.0, len(S) * min(p[i] for i in S)) for S in sets if j in S) for j in places]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p):
    np.testing.assert_allclose(holm(np.array(p)), closed_test(p), rtol=1e-14, atol=0)


def test_holm_leaves_missing_p_values_out():
    np.testing.assert_allclose(holm(np.array([np.nan, 0.02, np.nan, 0.03])), [np.nan, 0.04, np.nan, 0.04])
    assert holm(np.array([])).size == 0


@settings(derandomize=True, deadline=None, max_examples=60)
@given(arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 5)), elements=st.integers(-3, 3)))
def test_independent_columns_span_what_all_columns_span(Z):
    centred = Z - Z.mean(axis=0)
    kept = independent_columns(Z)
    assert kept.size == np.linalg.matrix_rank(centred, tol=1e-9)
    assert np.linalg.matrix_rank(centred[:, kept], tol=1e-9) == kept.size


def test_independence_does_not_depend_on_units():
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(50, 3))
    Z = np.column_stack([Z, Z.sum(axis=1), np.full(50, 7e40)]) * [1e-80, 1.0, 1e80, 1.0, 1.0]
    assert independent_columns(Z).tolist() == [0, 1, 2]
    assert independent_columns(Z[:, ::-1]).tolist() == [1, 2, 3]  # the sum comes first now


@settings(derandomize=True, deadline=None, max_examples=60)
@given(arrays(np.float64, st.integers(3, 30), elements=st.integers(-4, 4)), st.data())
def test_where_all_rows_are_alike_the_distance_is_that_of_kolmogorov_and_smirnov(z, data):
    labelled = data.draw(st.integers(1, z.size - 1))
    s = (np.arange(z.size) < labelled).astype(float)
    logit_share = np.log(labelled / (z.size - labelled))
    null = constant_propensity(np.zeros((z.size, 0)), s, np.ones(z.size), np.array([50.0]), logit_share)
    below = below_thresholds(z, np.ones(z.size), 50)
    if below.shape[1] == 0:
        return
    distance = largest_distances((null.residual @ below)[None], [below.shape[1]])[0] / labelled
    assert distance == pytest.approx(ks_2samp(z[s == 1], z[s == 0]).statistic, abs=1e-12)


def test_many_values_are_cut_at_quantiles():
    below = below_thresholds(np.arange(1000.0), np.ones(1000), 4)
    np.testing.assert_allclose(below.mean(axis=0), [0.2, 0.4, 0.6, 0.8], atol=1e-3)
    heavy = np.append(np.zeros(900), np.arange(1.0, 101.0))
    assert below_thresholds(heavy, np.ones(heavy.size), 4).shape[1] == 1  # equal quantiles are one threshold
    np.testing.assert_array_equal(
        below_thresholds(-heavy, np.ones(heavy.size), 4)[:, 0], heavy > 0
    )  # and one that tells rows apart
    assert below_thresholds(np.ones(5), np.ones(5), 4).shape == (5, 0)
