"""Calibration with weights 1/e whose squares overflow: no warning, and the usual formulas."""

import math

import numpy as np
import pytest

from scarless.numerics.weighted_scores import (
    average_precision,
    binned,
    chi_square,
    equal_counts,
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
