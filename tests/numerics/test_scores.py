from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import trapezoid
from scipy.special import expit
from scipy.stats import gaussian_kde
from sklearn.metrics import roc_auc_score

from scarless.numerics.scores import (
    MeanPosterior,
    bandwidths,
    best_bin,
    fixed_point,
    gaussian_density,
    labelled_share_of_scores,
    largest_score,
    mean_labelled_score,
    negative_share,
    prior_of_all,
    ranking_gap,
    rolling_median,
    smoothed_ratio,
)

FEW = st.lists(st.integers(-3, 3), min_size=1, max_size=12)
DELTA, GAMMA = 0.1, 0.01


def bin_of(labelled, unlabelled, **options):
    s = np.repeat([1.0, 0.0], [labelled.size, unlabelled.size])
    return best_bin(np.append(labelled, unlabelled), s, np.ones(s.size), **{"delta": DELTA, "gamma": GAMMA, **options})


def enumerated(labelled, unlabelled, delta=DELTA, gamma=GAMMA):
    """Upper bound and ratio at every threshold that keeps a labelled row, from the definition."""
    found = {}
    slack = np.sqrt(np.log(4 / delta) / (2 * unlabelled.size)) + np.sqrt(np.log(4 / delta) / (2 * labelled.size))
    for z in np.union1d(labelled, unlabelled):
        q_l, q_u = np.mean(labelled >= z), np.mean(unlabelled >= z)
        if q_l > 0:
            found[z] = (q_u / q_l + (1 + gamma) / q_l * slack, min(q_u / q_l, 1.0))
    return found


@settings(deadline=None)
@given(FEW, FEW)
def test_best_bin_is_the_best_of_all_thresholds(labelled, unlabelled):
    labelled, unlabelled = np.array(labelled, dtype=float), np.array(unlabelled, dtype=float)
    found, all_bins = bin_of(labelled, unlabelled), enumerated(labelled, unlabelled)
    assert found.upper_bound == pytest.approx(min(bound for bound, _ in all_bins.values()), rel=1e-12)
    bound, ratio = all_bins[found.threshold]
    assert found.upper_bound == pytest.approx(bound, rel=1e-12)
    assert found.unlabelled_prior == pytest.approx(ratio, rel=1e-12)


@settings(deadline=None)
@given(FEW, FEW)
def test_best_bin_uses_ranks_only(labelled, unlabelled):
    labelled, unlabelled = np.array(labelled, dtype=float), np.array(unlabelled, dtype=float)
    plain = bin_of(labelled, unlabelled)
    moved = bin_of(np.exp(labelled) - 40, np.exp(unlabelled) - 40)
    assert moved[1:] == plain[1:]
    assert moved.threshold == np.exp(plain.threshold) - 40


def test_a_huge_gamma_uses_all_labelled_rows():
    rng = np.random.default_rng(0)
    scores, s = rng.normal(size=80), (np.arange(80) < 30) * 1.0
    with np.errstate(all="raise"):
        thresholds = [best_bin(scores, s, np.ones(80), delta=0.1, gamma=g).threshold for g in (1e12, 1.7e308)]
    assert thresholds == [scores[:30].min()] * 2


def test_best_bin_finds_the_share_above_a_gap():
    # 30 of 100 unlabelled rows score like labelled ones, the others below all of them
    found = bin_of(np.full(50, 2.0), np.repeat([2.0, 1.0], [30, 70]))
    assert found.unlabelled_prior == 0.3
    assert found.threshold == 2.0


def test_a_smaller_delta_requires_more_rows():
    rng = np.random.default_rng(0)
    labelled, unlabelled = rng.normal(1.5, size=200), np.append(rng.normal(1.5, size=150), rng.normal(size=350))
    thresholds = [bin_of(labelled, unlabelled, delta=delta).threshold for delta in (0.9, 0.1, 1e-6, 1e-40)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[0] > thresholds[-1]


G = [Fraction(3, 4), Fraction(1, 4), Fraction(1, 2), Fraction(0), Fraction(1, 8)]
S = [1, 0, 1, 0, 0]


def test_elkan_noto_by_fractions():
    g, s = np.array(G, dtype=float), np.array(S, dtype=float)
    labelled = [value for value, label in zip(G, S, strict=True) if label]
    assert mean_labelled_score(g, s, np.ones(g.size)) == sum(labelled) / len(labelled)
    assert labelled_share_of_scores(g, s, np.ones(g.size)) == pytest.approx(float(sum(labelled) / sum(G)), rel=1e-15)
    assert largest_score(g, s, np.ones(g.size)) == max(G)


def test_elkan_noto_on_an_exact_population():
    # kinds of rows: how many, and Pr(y=1|x); a share c of all positives of each kind is labelled, and g = c f
    count, f, c = np.array([40, 80, 40, 160]), np.array([1.0, 0.5, 0.25, 0.0]), 0.5
    n_labelled = (count * f * c).astype(int)
    g = np.repeat(c * f, count)
    s = np.concatenate([np.arange(n) < k for n, k in zip(count, n_labelled, strict=True)]).astype(float)
    overlap = float((count * f) @ f / (count @ f))  # E[f | y=1]
    assert mean_labelled_score(g, s, np.ones(g.size)) == pytest.approx(c * overlap, rel=1e-12)
    assert labelled_share_of_scores(g, s, np.ones(g.size)) == pytest.approx(c * overlap, rel=1e-12)
    assert largest_score(g, s, np.ones(g.size)) == c
    assert labelled_share_of_scores(0.25 * g, s, np.ones(g.size)) == pytest.approx(
        labelled_share_of_scores(g, s, np.ones(g.size)), rel=1e-12
    )


def test_scores_of_0_give_a_label_frequency_of_0():
    assert labelled_share_of_scores(np.zeros(3), np.array([1.0, 0.0, 0.0]), np.ones(3)) == 0.0


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 50))
def test_prior_of_all_counts_positives(n_labelled, n_unlabelled, hidden):
    hidden = min(hidden, n_unlabelled)
    n = n_labelled + n_unlabelled
    assert prior_of_all(hidden / n_unlabelled, n_labelled, n_unlabelled) == pytest.approx((n_labelled + hidden) / n)


def test_a_ranking_gap_is_the_difference_of_areas_and_weights_are_copies():
    rng = np.random.default_rng(0)
    s, w = (rng.random(60) < 0.3).astype(float), rng.integers(1, 4, 60).astype(float)
    first, second = rng.normal(size=60) + s, np.round(rng.normal(size=60) + 0.5 * s)  # the second has ties
    found = ranking_gap(first, second, s, w)
    areas = [roc_auc_score(s, each, sample_weight=w) for each in (first, second)]
    assert found.difference == pytest.approx(areas[0] - areas[1], abs=1e-12)
    copies = np.repeat(np.arange(60), w.astype(int))
    again = ranking_gap(first[copies], second[copies], s[copies], np.ones(copies.size))
    np.testing.assert_allclose(again, found, rtol=1e-12)


def test_the_error_of_a_ranking_gap_is_that_of_repeated_draws():
    rng = np.random.default_rng(1)

    def draw():
        s = np.repeat([1.0, 0.0], [40, 200])
        common = rng.normal(size=240) + s
        return ranking_gap(common + 0.5 * rng.normal(size=240), common + rng.normal(size=240), s, np.ones(240))

    found = np.array([draw() for _ in range(400)])
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.15)


def test_equal_rankings_have_no_gap_and_reversed_ones_a_loss():
    s, score = np.repeat([1.0, 0.0], [10, 30]), np.arange(40.0)[::-1].copy()
    assert ranking_gap(score, score, s, np.ones(40)) == (0.0, 0.0)
    assert not ranking_gap(score, score, s, np.ones(40)).is_loss
    assert ranking_gap(-score, score, s, np.ones(40)).is_loss
    assert not ranking_gap(score, -score, s, np.ones(40)).is_loss


# --- density of scores


RNG = np.random.default_rng(0)
SAMPLES = {
    "normal": RNG.normal(size=500),
    "two heaps": np.append(RNG.normal(-6, 0.2, 200), RNG.normal(3, 1, 100)),
    "heavy tails": RNG.standard_t(2, size=400),
    "ties": RNG.integers(0, 4, size=300).astype(float),
}


@pytest.mark.parametrize("factor", [0.05, 0.1, 0.7])
@pytest.mark.parametrize("points", SAMPLES.values(), ids=list(SAMPLES))
def test_grid_agrees_with_the_sum_over_all_pairs(points, factor):
    kde = gaussian_kde(points, factor)
    at = np.concatenate([points, np.linspace(points.min() - 1, points.max() + 1, 301)])
    exact = kde(at)
    found = gaussian_density(points, at, factor * np.std(points, ddof=1))
    assert (found >= 0).all()
    not_tiny = exact > 1e-3 * exact.max()
    np.testing.assert_allclose(found[not_tiny], exact[not_tiny], rtol=1e-3)
    np.testing.assert_allclose(found, exact, atol=1e-3 * exact.max())


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.floats(0.01, 10), st.sampled_from([1e-9, 1.0, 1e9]))
def test_mass_is_one_and_scale_drops_out(points, bandwidth, scale):
    points = np.array(points)
    at = np.linspace(points.min() - 8 * bandwidth, points.max() + 8 * bandwidth, 4001)
    density = gaussian_density(points, at, bandwidth)
    assert trapezoid(density, at) == pytest.approx(1, rel=1e-2)
    np.testing.assert_allclose(
        scale * gaussian_density(scale * points, scale * at, scale * bandwidth), density, rtol=1e-4, atol=1e-6
    )


def test_no_mass_far_away():
    np.testing.assert_array_equal(gaussian_density(np.zeros(3), np.array([-99.0, 99.0]), 1.0), [0.0, 0.0])


# --- ratio of the densities of scores


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
    """Return density ratios of rows in cells, which contain the given shares of all positives and of all negatives."""
    labelled, negative = np.array(labelled), np.array(negative)
    unlabelled = prior * labelled + (1 - prior) * negative
    counts = np.rint(n_rows * unlabelled).astype(int)
    np.testing.assert_allclose(counts, n_rows * unlabelled, atol=1e-9)
    return np.repeat(labelled / unlabelled, counts)


@pytest.mark.parametrize("prior", [0.125, 0.25, 0.5, 0.75])
def test_fixed_point_is_the_largest_prior_that_leaves_no_cell_below_zero(prior):
    # If a cell has no negatives, the result is the true prior; otherwise, the largest prior that the cells allow.
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


def test_the_kink_is_used_if_no_share_agrees_with_its_mean_posterior():
    # ratios a twentieth too low: their mean is below 1, so that only the share 1 reproduces itself
    ratio = 0.95 * mixture(0.25, [1.0, 0.0], [0.0, 1.0], 640)
    found = negative_share(ratio)
    assert not found.converged
    assert found.value == pytest.approx(1 - 0.25 / 0.95, abs=0.002)


def test_a_kink_with_a_large_error_is_ignored():
    # bends at a = 1/3 and a = 3/4; the first is sharper, but the mean posterior there is off by 0.27
    ratio = np.repeat([1.5, 4.0, 0.0], [30, 10, 60])
    assert negative_share(ratio) == pytest.approx((0.75, False), abs=0.002)


def test_both_kernels_have_one_bandwidth_if_most_scores_are_tied():
    labelled, distinct = np.linspace(0, 4, 30), np.linspace(-3, 1, 40)
    h_l, h_u = bandwidths(labelled, distinct)
    assert h_l != h_u
    for n_copies, tied in ((1, False), (2, False), (3, True), (10, True)):
        found = bandwidths(labelled, np.repeat(distinct, n_copies))
        assert (found[0] == found[1]) is tied
        assert found[0] == (min(h_l, found[1]) if tied else h_l)


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
    # labelled rows all score 3, as do 6 of 11 unlabelled ones: they get the bandwidth of the unlabelled scores
    unlabelled = np.append(here, there)
    assert bandwidths(there, unlabelled)[0] == bandwidths(there, unlabelled)[1] == 0.05 * np.std(unlabelled, ddof=1)
    assert negative_share(smoothed_ratio(there, unlabelled)).value == pytest.approx(5 / 11, abs=0.002)
