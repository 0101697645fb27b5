import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from scipy.stats import gaussian_kde

from scarless.numerics.scores import (
    MeanPosterior,
    bandwidths,
    fixed_point,
    negative_share,
    rolling_median,
    smoothed_ratio,
)

TOL = 1e-5


@settings(deadline=None)
@given(arrays(float, st.integers(1, 30), elements=st.integers(0, 5).map(float)), st.integers(0, 20))
def test_rolling_median_by_definition(values, half):
    n = values.size
    near = [min(half, i, n - 1 - i) for i in range(n)]
    by_hand = [np.median(values[i - h : i + h + 1]) for i, h in enumerate(near)]
    np.testing.assert_array_equal(rolling_median(values, half), by_hand)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.integers(0, 20))
def test_rolling_median_leaves_a_monotone_sequence_alone(values, half):
    np.testing.assert_array_equal(rolling_median(np.sort(values), half), np.sort(values))


def ratio_by_definition(labelled, unlabelled):
    """The smoothed ratio step by step, in order of falling log-odds, with sums over all pairs."""
    z = np.sort(unlabelled)[::-1]
    ratio = np.minimum(gaussian_kde(labelled, 0.1)(z) / gaussian_kde(unlabelled, 0.05)(z), 50)
    ratio = by_windows(ratio, 5)
    midway = (expit(labelled).mean() + expit(unlabelled).mean()) / 2
    for i in reversed(range(z.size - 1)):
        if expit(z[i + 1]) >= midway:
            ratio[i] = max(ratio[i], ratio[i + 1])
    return by_windows(ratio, z.size // 20)


def by_windows(values, half):
    n = values.size
    return np.array([np.median(values[i - h : i + h + 1]) for i in range(n) for h in [min(half, i, n - 1 - i)]])


@pytest.mark.parametrize("shift", [0.0, 2.0, 6.0])
def test_smoothed_ratio_by_definition(shift):
    rng = np.random.default_rng(1)
    labelled = rng.normal(shift, size=150)
    unlabelled = np.append(rng.normal(shift, size=100), rng.normal(size=301))
    found, slow = smoothed_ratio(labelled, unlabelled), ratio_by_definition(labelled, unlabelled)
    np.testing.assert_allclose(found, slow, rtol=5e-3, atol=5e-3)
    assert negative_share(found).value == pytest.approx(negative_share(slow).value, abs=0.005)


@settings(deadline=None)
@given(arrays(float, st.integers(1, 20), elements=st.floats(0, 50)), st.floats(0, 1))
def test_mean_posterior_by_definition(ratio, a):
    assert MeanPosterior(ratio)(a) == pytest.approx(np.maximum(0, 1 - ratio * (1 - a)).mean(), abs=1e-12)


def mixture(prior, labelled, negative, n_rows):
    """Ratios of rows in cells, where a share `labelled` of positives and `negative` of negatives lies in each."""
    labelled, negative = np.array(labelled), np.array(negative)
    unlabelled = prior * labelled + (1 - prior) * negative
    counts = np.rint(n_rows * unlabelled).astype(int)
    np.testing.assert_allclose(counts, n_rows * unlabelled, atol=1e-9)
    return np.repeat(labelled / unlabelled, counts)


@pytest.mark.parametrize("prior", [0.125, 0.25, 0.5, 0.75])
def test_fixed_point_is_the_largest_prior_that_leaves_no_cell_below_zero(prior):
    # a cell without negatives: exactly the true prior; without such a cell the largest that the cells admit
    pure = mixture(prior, [0.25, 0.25, 0.5], [0.0, 0.5, 0.5], 640)
    assert 1 - fixed_point(MeanPosterior(pure), TOL) == pytest.approx(prior, abs=5 * TOL)
    mixed = mixture(prior, [0.5, 0.25, 0.25], [0.25, 0.25, 0.5], 640)
    largest = 1 / mixed.max()
    assert largest > prior
    assert 1 - fixed_point(MeanPosterior(mixed), TOL) == pytest.approx(largest, abs=5 * TOL)


@pytest.mark.parametrize("prior", [0.125, 0.25, 0.5, 0.75])
def test_negative_share_of_an_exact_mixture(prior):
    ratio = mixture(prior, [0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 640)
    assert 1 - negative_share(ratio).value == pytest.approx(prior, abs=0.001)


def test_bend_is_taken_where_posteriors_never_give_the_share_back():
    # ratios a twentieth too low: their mean is below 1, so that only the share 1 reproduces itself
    ratio = 0.95 * mixture(0.25, [1.0, 0.0], [0.0, 1.0], 640)
    found = negative_share(ratio)
    assert not found.converged
    assert found.value == pytest.approx(1 - 0.25 / 0.95, abs=0.002)


def test_bend_with_a_large_error_does_not_count():
    # bends at a = 1/3 and a = 3/4; the first is sharper, but the mean posterior there is off by 0.27
    ratio = np.repeat([1.5, 4.0, 0.0], [30, 10, 60])
    assert negative_share(ratio) == pytest.approx((0.75, False), abs=0.002)


def test_ratio_is_capped():
    # one unlabelled row in a thousand is where all labelled ones are
    unlabelled = np.append(5.0, np.linspace(-6, -5, 999))
    labelled = np.linspace(4.99, 5.01, 50)
    assert smoothed_ratio(labelled, unlabelled).max() == 50


def test_ratios_above_their_mean_converge():
    ratio = 1.2 * mixture(0.25, [1.0, 0.0], [0.0, 1.0], 640)
    found = negative_share(ratio)
    assert found.converged
    assert found.value == pytest.approx(0.75, abs=1e-4)


@pytest.mark.parametrize(
    ("ratio", "share"),
    [(1.0, 0.0), (0.9999, 0.0), (0.0, 1.0), (0.3, 1.0)],
    ids=["no information", "nearly none", "no overlap", "hardly any overlap"],
)
def test_constant_ratios(ratio, share):
    assert negative_share(np.full(7, ratio)).value == share


ANY = st.lists(st.sampled_from([-1e3, -30.0, -1.0, 0.0, 1.0, 1.0 + 1e-15, 1e3]), min_size=1, max_size=8)


@settings(deadline=None)
@given(ANY, ANY)
def test_few_and_equal_scores_give_a_share(labelled, unlabelled):
    ratio = smoothed_ratio(np.array(labelled), np.array(unlabelled))
    assert ratio.size == len(unlabelled)
    assert 0 <= negative_share(ratio).value <= 1


def test_groups_without_spread():
    here, there = np.zeros(5), np.full(6, 3.0)
    assert bandwidths(here, there) == (1.0, 1.0)
    assert negative_share(smoothed_ratio(here, here)).value == 0.0
    assert negative_share(smoothed_ratio(there, here)).value == 1.0
    # labelled rows all score 3, as do 6 of 11 unlabelled ones: they take the width of the unlabelled scores
    unlabelled = np.append(here, there)
    assert bandwidths(there, unlabelled)[0] == bandwidths(there, unlabelled)[1] == 0.05 * np.std(unlabelled, ddof=1)
    assert negative_share(smoothed_ratio(there, unlabelled)).value == pytest.approx(5 / 11, abs=0.002)
