from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from scarless.numerics.scores import (
    best_bin,
    labelled_share_of_scores,
    largest_score,
    mean_labelled_score,
    prior_of_all,
    ranking_gap,
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
def test_best_bin_reads_ranks_only(labelled, unlabelled):
    labelled, unlabelled = np.array(labelled, dtype=float), np.array(unlabelled, dtype=float)
    plain = bin_of(labelled, unlabelled)
    moved = bin_of(np.exp(labelled) - 40, np.exp(unlabelled) - 40)
    assert moved[1:] == plain[1:]
    assert moved.threshold == np.exp(plain.threshold) - 40


def test_best_bin_finds_the_share_above_a_gap():
    # 30 of 100 unlabelled rows score like labelled ones, the others below all of them
    found = bin_of(np.full(50, 2.0), np.repeat([2.0, 1.0], [30, 70]))
    assert found.unlabelled_prior == 0.3
    assert found.threshold == 2.0


def test_smaller_delta_asks_for_more_rows():
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


def test_no_score_above_zero_is_no_label_frequency():
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
