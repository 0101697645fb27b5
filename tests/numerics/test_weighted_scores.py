"""Calibration with weights 1/e whose squares overflow: no warning, and the usual formulas."""

import math

import numpy as np
import pytest

from scarless.numerics.weighted_scores import (
    average_precision,
    binned,
    chi_square,
    equal_counts,
    equal_widths,
    f1,
    mean_cost,
    precision,
    recall,
    roc_auc,
    score_interval,
)

F = np.linspace(0.1, 0.9, 40)
BINS = equal_counts(F, 4)
S = (np.arange(40) % 3 == 0).astype(float)


def test_bins_of_equal_width_divide_the_range_equally():
    np.testing.assert_array_equal(equal_widths(np.linspace(0.0, 0.99, 100), 4), np.repeat(np.arange(4), 25))
    np.testing.assert_array_equal(equal_widths(np.array([0.0, 0.1, 0.8, 1.0]), 10), [0, 1, 2, 3])


@pytest.mark.parametrize("n_bins", [2, 5, 10])
def test_bins_of_weighted_rows_are_those_of_repeated_rows(n_bins):
    rng = np.random.default_rng(n_bins)
    values, times = rng.normal(size=60), rng.integers(1, 5, size=60)
    found = equal_counts(values, n_bins, times.astype(float))
    np.testing.assert_array_equal(np.repeat(found, times), equal_counts(np.repeat(values, times), n_bins))
    halves = equal_counts(np.repeat(values, 2), n_bins, np.repeat(times / 2, 2))  # two halves are one row
    assert np.mean(halves[::2] == found) > 0.9
    # The weights of the bins differ by no more than two rows of the largest weight.
    assert np.ptp(np.bincount(found, weights=times)) <= 2 * times.max()


@pytest.mark.parametrize("e", [1e-150, 1e-300])
def test_one_tiny_propensity_for_all_scales_means_and_intervals(e):
    tiny, small = (binned(F, np.full(40, value), S, BINS) for value in (e, 1e-9))
    for name in ("observed", "variance", "inflation"):
        assert e * getattr(tiny, name) == pytest.approx(1e-9 * getattr(small, name), rel=1e-6)
    for end, other in zip(score_interval(tiny, 1.96), score_interval(small, 1.96), strict=True):
        assert e * end == pytest.approx(1e-9 * other, rel=1e-6)


@pytest.mark.parametrize("tiny", [1e-150, 1e-300, 5e-324])
def test_impossible_labels_have_a_p_value_of_0_and_no_labels_have_none(tiny):
    none = chi_square(F, np.full(40, tiny), 0 * S, BINS)
    assert math.isnan(none.p_value)
    some = chi_square(F, np.full(40, tiny), S, BINS)
    assert some.p_value == 0.0


@pytest.mark.parametrize("tiny", [1e-40, 1e-150, 1e-300, 5e-324])
def test_one_tiny_propensity_among_others_gives_no_warning(tiny):
    e = np.where(np.arange(40) == 7, tiny, 0.5)
    labels = np.where(np.arange(40) == 7, 0.0, S)
    rows = binned(F, e, labels, BINS)
    assert np.isfinite(rows.observed).all()
    low, high = score_interval(rows, 1.96)
    assert (low[1:] < high[1:]).all()
    assert chi_square(F, e, labels, BINS, at_least=0.0).p_value > 0


def test_the_statistic_does_not_depend_on_the_unit_of_the_weights():
    """Compare with the formula in its original form."""
    rng = np.random.default_rng(0)
    e = rng.uniform(0.2, 0.9, size=40)
    found = chi_square(F, e, S, BINS, at_least=0.0)
    residual = np.bincount(BINS, weights=S / e - F)
    variance = np.bincount(BINS, weights=F * (1 - F * e) / e)
    assert found.statistic == pytest.approx((residual**2 / variance).sum(), rel=1e-12)


SCORES = {
    "mean cost": lambda t, w: mean_cost(F, 2 * (1 - F), t, w),
    "precision": lambda t, w: precision((F > 0.4).astype(float), t, w),
    "recall": lambda t, w: recall((F > 0.4).astype(float), t, w),
    "f1": lambda t, w: f1((F > 0.4).astype(float), t, w),
    "roc auc": lambda t, w: roc_auc(np.round(F, 1), t, w),
    "average precision": lambda t, w: average_precision(np.round(F, 1), t, w),
}


@pytest.mark.parametrize("name", SCORES)
def test_the_derivatives_of_every_score_equal_differences(name):
    """Compare derivatives by each weight, and by the logarithm of a factor of all targets."""
    rng, h, score = np.random.default_rng(1), 1e-5, SCORES[name]
    t, w = rng.uniform(0.1, 0.9, size=40), rng.uniform(0.5, 2.0, size=40)
    found = score(t, w)

    def slope(of):
        return (of(h).value - of(-h).value) / (2 * h)

    assert found.slope == pytest.approx(slope(lambda step: score(t * np.exp(step), w)), abs=1e-8)
    by_weight = [slope(lambda step, i=i: score(t, w * np.exp(step * (np.arange(40) == i)))) for i in range(40)]
    np.testing.assert_allclose(found.influence(), by_weight, atol=1e-8)
    assert np.ptp(by_weight) > 1e-3
