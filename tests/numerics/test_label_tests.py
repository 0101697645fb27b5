"""Tests of labels against groups of columns: closed forms, equivalent computations, and their size."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from scipy.stats import chi2, chi2_contingency, ks_2samp, kstest
from sklearn.linear_model import LogisticRegression

from scarless.diagnostics.scar._pair_tests import compare
from scarless.numerics.label_tests import (
    below_thresholds,
    constant_propensity,
    efficient_part,
    holm,
    independent_columns,
    label_tests,
    largest_distances,
    score_statistic,
    score_test,
    second_factor_test,
    wald_test,
)
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair


def test_the_score_test_of_categories_is_pearsons_test_of_the_table():
    rng = np.random.default_rng(0)
    levels, s = rng.integers(0, 4, 300), (rng.random(300) < 0.3).astype(float)
    table = np.array([[np.sum((levels == k) & (s == j)) for k in range(4)] for j in (0, 1)])
    expected = chi2_contingency(table, correction=False).pvalue
    assert score_test(np.eye(4)[levels], s) == pytest.approx(expected)
    assert score_test(np.eye(4)[levels][:, 1:], s) == pytest.approx(expected)


def test_without_a_first_factor_the_second_factor_test_is_the_score_test():
    rng = np.random.default_rng(1)
    Z, s = rng.normal(size=(400, 3)), (rng.random(400) < 0.2).astype(float)
    found = second_factor_test(Z[:, :0], Z, s, np.ones(400), np.ones(400), float(s.mean()))
    assert found == pytest.approx(score_test(Z, s))


def test_weights_count_rows():
    rng = np.random.default_rng(2)
    Z, w = rng.normal(size=(200, 3)), rng.integers(1, 4, 200).astype(float)
    f = expit(Z[:, 0])
    s = (rng.random(200) < 0.6 * f).astype(float)
    twice = np.repeat(np.arange(200), w.astype(int))
    one = second_factor_test(Z[:, :1], Z[:, 1:], s, w, f, 0.6)
    many = second_factor_test(Z[twice, :1], Z[twice, 1:], s[twice], np.ones(twice.size), f[twice], 0.6)
    assert one == pytest.approx(many)


def test_duplicate_columns_count_once():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(300, 2))
    f = expit(Z[:, 0])
    s = (rng.random(300) < 0.5 * f).astype(float)
    one = second_factor_test(Z[:, :1], Z[:, 1:], s, np.ones(300), f, 0.5)
    assert second_factor_test(Z[:, :1], Z[:, [1, 1]], s, np.ones(300), f, 0.5) == pytest.approx(one, rel=1e-6)
    assert wald_test(np.zeros(2), np.zeros((2, 2))) == 1.0


def test_p_values_of_irrelevant_columns_are_uniform():
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(800, 5))
        f = expit(1.5 * Z[:, 0])
        s = (rng.random(800) < 0.6 * f).astype(float)
        found.append((second_factor_test(Z[:, :1], Z[:, 1:], s, np.ones(800), f, 0.6),
                      label_tests(Z, s, [[0], [1], [2, 3], [4]])[2]))  # fmt: skip
    for p in np.array(found).T:
        assert kstest(p, "uniform").pvalue > 0.01


def test_the_test_of_a_group_given_the_others_agrees_with_the_likelihood_ratio():
    """A column that only depends on another one is associated with the labels, but has no effect of its own."""
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(4000, 4))
    Z[:, 1] = 0.9 * Z[:, 0] + 0.3 * Z[:, 1]
    s = (rng.random(4000) < expit(0.8 * Z[:, 0] + 0.1 * Z[:, 2] - 1)).astype(float)
    found = label_tests(Z, s, [[0], [1], [2, 3]])

    def log_likelihood(columns):
        model = LogisticRegression(C=1e6, tol=1e-8).fit(Z[:, columns], s)
        p = model.predict_proba(Z[:, columns])[:, 1]
        return float(np.sum(s * np.log(p) + (1 - s) * np.log1p(-p)))

    assert score_test(Z[:, [1]], s) < 1e-10
    assert found[1] > 0.01
    ratio = 2 * (log_likelihood([0, 1, 2, 3]) - log_likelihood([0, 1]))
    assert found[2] == pytest.approx(chi2.sf(ratio, 2), rel=0.05)


def test_columns_beyond_the_number_of_labels_are_tested_alone():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(300, 60))
    s = (rng.random(300) < expit(2 * Z[:, 7] - 2.5)).astype(float)
    found = label_tests(Z, s, [[j] for j in range(60)])
    assert np.argmin(found) == 7
    assert found[7] < 1e-4
    assert np.isfinite(found).all()


# --- Scores and statistics under a constant propensity


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


def test_large_logits_give_finite_numbers():
    D = np.array([[-700.0], [700.0], [0.0]])
    null = constant_propensity(D, np.array([0.0, 0.0, 1.0]), np.ones(3), np.array([1.0, 0.0]), 600.0)
    assert all(np.isfinite(field).all() for field in null)


def test_the_efficient_part_is_the_projection_orthogonal_to_the_tangent(rows):
    D, Z, s, beta, v = rows
    null = constant_propensity(D, s, np.ones(s.size), beta, v)
    A = efficient_part(null, Z)
    np.testing.assert_allclose((null.tangent * null.odds[:, None]).T @ A, 0.0, atol=1e-11)
    np.testing.assert_allclose(efficient_part(null, A), A, atol=1e-12)
    np.testing.assert_allclose(efficient_part(null, Z + null.tangent @ np.ones((4, 3))), A, atol=1e-11)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_if_all_rows_have_equal_attributes_the_score_statistic_is_pearsons(share):
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
    """Adjust p-values by definition: a hypothesis is rejected if Bonferroni's test rejects every set with it."""
    places = range(len(p))
    sets = list(chain.from_iterable(combinations(places, size) for size in range(1, len(p) + 1)))
    return [max(min(1.0, len(S) * min(p[i] for i in S)) for S in sets if j in S) for j in places]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p):
    np.testing.assert_allclose(holm(np.array(p)), closed_test(p), rtol=1e-14, atol=0)


def test_holm_ignores_missing_p_values():
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
def test_if_all_rows_have_equal_attributes_the_distance_is_that_of_kolmogorov_and_smirnov(z, data):
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
    assert below_thresholds(heavy, np.ones(heavy.size), 4).shape[1] == 1  # Equal quantiles give one threshold.
    # The only threshold is below the largest value, so its column is not constant.
    np.testing.assert_array_equal(below_thresholds(-heavy, np.ones(heavy.size), 4)[:, 0], heavy > 0)
    assert below_thresholds(np.ones(5), np.ones(5), 4).shape == (5, 0)
