"""Comparisons of two samples and of observed with predicted labels, against SciPy, scikit-learn and closed forms."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import expit

from scarless.numerics.two_samples import (
    count_p_value,
    fit_shift,
    homogeneity_p_value,
    ks_distance,
    ks_p_value,
    residual_p_value,
    total_variation,
    uneven_p_value,
)


def test_distance_of_bins_is_scipys_if_every_value_has_its_bin():
    rng = np.random.default_rng(0)
    old, new = rng.integers(8, size=300), rng.integers(1, 9, size=200)
    counts = [np.bincount(each, minlength=9).astype(float) for each in (old, new)]
    found = stats.ks_2samp(old, new, method="asymp")
    assert ks_distance(*counts) == pytest.approx(found.statistic, abs=1e-12)
    assert ks_p_value(0.1, 1e6, 1e6) < 1e-100
    assert ks_p_value(0.0, 10, 10) == 1.0
    assert ks_p_value(found.statistic, 300, 200) == pytest.approx(found.pvalue, abs=0.02)


def test_distances_without_rows_are_zero():
    assert ks_distance(np.zeros(3), np.ones(3)) == 0.0
    assert ks_p_value(0.5, 0, 10) == 1.0
    assert homogeneity_p_value(np.zeros(3), np.ones(3)) == 1.0
    assert homogeneity_p_value(np.zeros(3), np.zeros(3)) == 1.0
    assert homogeneity_p_value(np.array([10.0, 0.0]), np.array([20.0, 0.0])) == 1.0


def test_homogeneity_is_pearsons_test_if_no_bin_is_small():
    old, new = np.array([50.0, 70.0, 80.0]), np.array([90.0, 60.0, 50.0])
    expected = stats.chi2_contingency([old, new], correction=False).pvalue
    assert homogeneity_p_value(old, new) == pytest.approx(expected)
    assert total_variation(old, new) == pytest.approx(0.2)


def test_two_bins_and_one_row_are_enough():
    old, new = np.array([50.0, 150.0]), np.array([90.0, 110.0])
    expected = stats.chi2_contingency([old, new], correction=False).pvalue
    assert homogeneity_p_value(old, new) == pytest.approx(expected)
    assert ks_distance(np.array([5.0, 5.0]), np.array([1.0, 0.0])) == 0.5
    assert ks_distance(np.array([1.0, 0.0]), np.array([5.0, 5.0])) == 0.5


def test_small_bins_are_pooled():
    """Two bins of one row each become one bin, as if the user had pooled them."""
    old, new = np.array([100.0, 90.0, 1.0, 4.0]), np.array([100.0, 90.0, 4.0, 1.0])
    pooled = homogeneity_p_value(np.array([100.0, 95.0]), np.array([100.0, 95.0]))
    assert homogeneity_p_value(old, new) == pytest.approx(pooled)


@pytest.mark.parametrize("wrong", [0.0, 0.05], ids=["no false positives", "false positives"])
def test_the_shift_maximises_the_likelihood(wrong):
    rng = np.random.default_rng(2)
    u, e, w = rng.normal(size=400), rng.uniform(0.3, 0.9, size=400), rng.integers(1, 4, size=400).astype(float)
    p = expit(u + 1) * e + (1 - expit(u + 1)) * wrong
    s = (rng.random(400) < p).astype(float)

    def loss(delta):
        f = expit(u + delta)
        q = f * e + (1 - f) * wrong
        return -float(w @ np.where(s == 1, np.log(q), np.log1p(-q)))

    h = np.full((400, 1), wrong)
    found = fit_shift(u[:, None], e[:, None], h, s, w)
    best = minimize_scalar(loss, bounds=(-3, 5), method="bounded", options={"xatol": 1e-9})
    assert found.shift[0] == pytest.approx(best.x, abs=1e-5)
    assert found.gain[0] == pytest.approx(loss(0.0) - best.fun, abs=1e-7)


def test_every_draw_has_its_own_shift():
    rng = np.random.default_rng(3)
    u, e, s = rng.normal(size=(200, 3)), rng.uniform(0.3, 0.9, size=(200, 3)), (rng.random(200) < 0.3).astype(float)
    together = fit_shift(u, e, 0.0, s, np.ones(200))
    for j in range(3):
        alone = fit_shift(u[:, [j]], e[:, [j]], 0.0, s, np.ones(200))
        assert together.shift[j] == pytest.approx(alone.shift[0], abs=1e-6)
        assert together.gain[j] == pytest.approx(alone.gain[0], abs=1e-6)


def test_a_shift_is_finite_if_all_rows_or_none_are_labelled():
    for s in (np.ones(5), np.zeros(5)):
        found = fit_shift(np.zeros((5, 1)), np.full((5, 1), 0.5), 0.0, s, np.ones(5))
        assert np.isfinite(found.shift).all()
        assert np.isfinite(found.gain).all()


def test_a_count_has_the_mid_p_value_of_the_binomial():
    n, q = 20, 0.3
    for observed in (2, 6, 12):
        below = stats.binom.cdf(observed - 1, n, q) + 0.5 * stats.binom.pmf(observed, n, q)
        found = count_p_value(observed, np.array([n * q]), np.array([n * q * (1 - q)]))
        assert found == pytest.approx(min(2 * min(below, 1 - below), 1))
    assert count_p_value(0, np.array([1e-9]), np.array([1e-9])) == pytest.approx(1.0, abs=1e-3)
    assert 0 < count_p_value(500, np.array([10.0]), np.array([5.0])) < 1e-12


def test_residuals_of_correlated_errors():
    """If all error is estimation error along one direction, a residual along it has the p-value of a normal deviate."""
    errors = np.array([[1.0, 1.0], [-1.0, -1.0]])
    found = residual_p_value(np.array([2.0, 2.0]), np.full(2, 1e-9), errors)
    assert found == pytest.approx(stats.chi2.sf(4.0, 2), rel=1e-3)
    assert residual_p_value(np.empty(0), np.empty(0), np.zeros((1, 0))) == 1.0


def test_uneven_groups_do_not_depend_on_a_common_factor():
    expected, observed = np.array([40.0, 60.0, 100.0]), np.array([30.0, 70.0, 100.0])
    one = uneven_p_value(observed, expected, expected, np.zeros((1, 3)))
    other = uneven_p_value(0.5 * observed, expected, 0.25 * expected, np.zeros((1, 3)))
    assert one == pytest.approx(other)


def test_errors_of_the_expected_numbers_add_to_the_variance_of_uneven_groups():
    """With two groups, the residual is a multiple of the difference of the two numbers, whose variance is known."""
    observed, expected, variance = np.array([35.0, 45.0]), np.array([50.0, 50.0]), np.array([30.0, 20.0])
    errors = np.array([[6.0, -2.0], [-6.0, 2.0], [1.0, 3.0], [-1.0, -3.0]])
    of_difference = variance.sum() + 0.8**2 * np.mean((errors[:, 0] - errors[:, 1]) ** 2)
    found = uneven_p_value(observed, expected, variance, errors)
    assert found == pytest.approx(stats.chi2.sf(10.0**2 / of_difference, 1))


def test_uneven_groups_of_rare_labels_have_pearsons_p_value():
    """With Poisson variances and the ratio fitted, the test is Pearson's test of goodness of fit."""
    expected, observed = np.array([40.0, 60.0, 100.0]), np.array([30.0, 50.0, 120.0])
    found = uneven_p_value(observed, expected, expected, np.zeros((1, 3)))
    assert found == pytest.approx(stats.chisquare(observed, expected).pvalue)
    assert uneven_p_value(np.array([5.0]), np.array([3.0]), np.ones(1), np.zeros((1, 1))) == 1.0
    assert uneven_p_value(np.zeros(2), np.ones(2), np.ones(2), np.zeros((1, 2))) == 1.0
