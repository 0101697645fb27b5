"""Intervals and tests of ranks, against formulas worked by hand, published tables and invariances."""

from math import exp, isnan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scarless.experiments.statistics import (
    MeanInterval,
    _nemenyi_p_values,
    compare_methods,
    critical_difference,
    groups_alike,
    mean_interval,
)

METHODS = ["a", "b", "c", "d"]
# Four datasets, no ties: rank sums 5, 8, 11, 16 by hand.
SCORES = np.array([[0.1, 0.2, 0.3, 0.4], [0.2, 0.1, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], [0.1, 0.3, 0.2, 0.4]])


def test_interval_is_the_t_interval():
    found = mean_interval([1.0, 2.0, 3.0, 4.0])
    t = 3.182446305  # 97.5% point at 3 degrees of freedom, from tables
    assert found.mean == 2.5
    assert found.half == pytest.approx(t * sqrt(5 / 3) / 2, rel=1e-9)
    assert found.n == 4


@pytest.mark.parametrize(("values", "mean", "n"), [([0.3], 0.3, 1), ([0.3, np.nan], 0.3, 1), ([], np.nan, 0)])
def test_one_value_or_none_has_no_interval_and_nothing_is_clear(values, mean, n):
    found = mean_interval(values)
    assert found.mean == pytest.approx(mean, nan_ok=True)
    assert isnan(found.half)
    assert found.n == n
    assert not found.clear


def test_equal_values_have_an_interval_of_no_width_exactly():
    found = mean_interval([0.1] * 7)
    assert (found.mean, found.half) == (0.1, 0.0)
    assert found.clear
    assert not mean_interval([0.0] * 7).clear


def test_clear_means_that_zero_is_outside():
    assert MeanInterval(-0.2, 0.1, 5).clear
    assert not MeanInterval(0.1, 0.2, 5).clear
    assert not MeanInterval(0.1, 0.1, 5).clear


@given(
    st.lists(st.floats(-10, 10), min_size=2, max_size=30),
    st.floats(0.1, 10),
    st.floats(-10, 10),
)
def test_interval_moves_and_stretches_with_the_values(values, factor, shift):
    plain, moved = mean_interval(values), mean_interval([factor * value + shift for value in values])
    assert moved.mean == pytest.approx(factor * plain.mean + shift, abs=1e-9)
    assert moved.half == pytest.approx(factor * plain.half, rel=1e-6, abs=1e-9)


def test_friedman_by_hand():
    found = compare_methods(SCORES, METHODS, lower_is_better=True)
    sums, n, m = np.array([5, 8, 11, 16]), 4, 4
    statistic = 12 / (n * m * (m + 1)) * (sums**2).sum() - 3 * n * (m + 1)
    assert found.average_ranks.tolist() == (sums / n).tolist()
    assert found.friedman_statistic == pytest.approx(statistic)
    assert found.friedman_p == pytest.approx(stats.chi2.sf(statistic, m - 1))
    assert found.n_datasets == 4
    assert not found.problem


def test_friedman_of_three_methods_has_a_closed_form():
    scores = [[1, 2, 3], [1, 2, 3], [2, 1, 3], [1, 2, 3]]  # rank sums 5, 7, 12: statistic 6.5
    found = compare_methods(scores, METHODS[:3], lower_is_better=True)
    assert found.friedman_statistic == pytest.approx(6.5)
    assert found.friedman_p == pytest.approx(exp(-6.5 / 2))


@pytest.mark.parametrize(
    ("n_methods", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (10, 3.164)]
)
def test_critical_difference_has_the_quantiles_of_demsars_table(n_methods, quantile):
    expected = quantile * sqrt(n_methods * (n_methods + 1) / (6 * 8))
    assert critical_difference(n_methods, 8) == pytest.approx(expected, abs=2e-3)


@given(st.integers(3, 10), st.integers(3, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_nemenyi_and_the_critical_difference_agree(n, m, seed):
    scores = np.random.default_rng(seed).random((n, m)) + np.arange(m)
    methods = METHODS[:m] if m <= 4 else [*METHODS, "e"]
    found = compare_methods(scores, methods, lower_is_better=True)
    apart = np.abs(found.average_ranks[:, None] - found.average_ranks)
    assert np.array_equal(found.nemenyi_p < 0.05, apart > found.critical_difference)


@given(st.permutations(range(4)), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_order_of_methods_direction_of_the_score_and_its_scale_do_not_matter(order, seed):
    scores = np.random.default_rng(seed).random((6, 4))
    plain = compare_methods(scores, METHODS, lower_is_better=True)
    others = [
        compare_methods(scores[:, order], [METHODS[i] for i in order], lower_is_better=True),
        compare_methods(-scores, METHODS, lower_is_better=False),
        compare_methods(np.exp(5 * scores) * np.arange(1, 7)[:, None], METHODS, lower_is_better=True),
    ]
    for other in others:
        assert other.friedman_p == pytest.approx(plain.friedman_p)
        for one in METHODS:
            assert other.rank(one) == plain.rank(one)
            assert other.p_value("a", one) == pytest.approx(plain.p_value("a", one))


def test_equal_scores_share_ranks():
    found = compare_methods([[1, 1, 2], [1, 2, 3], [1, 2, 3]], METHODS[:3], lower_is_better=True)
    assert found.average_ranks == pytest.approx([(1.5 + 1 + 1) / 3, (1.5 + 2 + 2) / 3, 3])


def test_datasets_without_all_scores_are_left_out():
    with_gap = np.vstack([SCORES, [0.9, np.nan, 0.1, 0.1]])
    found, without = (compare_methods(scores, METHODS, lower_is_better=True) for scores in (with_gap, SCORES))
    assert found.n_datasets == 4
    assert found.average_ranks.tolist() == without.average_ranks.tolist()


@pytest.mark.parametrize(
    ("scores", "methods", "words"),
    [
        (SCORES[:2], METHODS, "at least 3 datasets with results of all methods; there are 2"),
        (SCORES[:1], METHODS, "there is 1"),
        (SCORES[:0], METHODS, "there is none"),
        (SCORES[:, :2], METHODS[:2], "at least 3 methods; there are 2"),
        (np.ones((5, 4)), METHODS, "all methods have the same score on every dataset"),
        (np.full((5, 4), np.nan), METHODS, "there is none"),
    ],
)
def test_without_a_test_the_reason_is_given(scores, methods, words):
    found = compare_methods(scores, methods, lower_is_better=True)
    assert words in found.problem
    assert isnan(found.friedman_p)
    assert isnan(found.critical_difference)
    assert isnan(found.p_value("a", "b"))
    assert not found.differs
    assert not found.significant("a", "b")
    assert groups_alike(found) == []


def test_ranks_are_there_without_a_test():
    found = compare_methods(SCORES[:2], METHODS, lower_is_better=True)
    assert found.average_ranks.tolist() == [1.5, 1.5, 3, 4]


def test_a_method_that_was_not_compared_has_no_rank():
    found = compare_methods(SCORES, METHODS, lower_is_better=True)
    assert isnan(found.rank("x"))
    assert isnan(found.p_value("a", "x"))


def test_no_pair_is_significant_unless_friedman_is():
    scores = np.array([[1, 2, 3, 4], [1, 3, 4, 2], [2, 1, 4, 3], [1, 4, 2, 3]], dtype=float)
    found = compare_methods(scores, METHODS, lower_is_better=True)
    assert not found.differs
    assert not any(found.significant("a", other) for other in METHODS)


@given(st.integers(3, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_groups_are_the_largest_runs_within_the_critical_difference(n, seed):
    rng = np.random.default_rng(seed)
    found = compare_methods(rng.random((n, 4)) + rng.random(4), METHODS, lower_is_better=True)
    order = sorted(METHODS, key=found.rank)
    near = [
        set(order[i:j])
        for i in range(4)
        for j in range(i + 2, 5)
        if found.rank(order[j - 1]) - found.rank(order[i]) < found.critical_difference
    ]
    largest = [group for group in near if not any(group < other for other in near)]
    assert [set(group) for group in groups_alike(found)] == largest


def test_the_p_value_of_the_critical_difference_is_the_significance_level():
    """Four methods whose average ranks on 8 datasets differ by about the critical difference."""
    m, n = 4, 8
    cd = critical_difference(m, n)
    ranks = np.array([1.0, 1.0 + cd, 2.0, 2.0 + cd])
    p = _nemenyi_p_values(ranks, n)
    np.testing.assert_array_equal(p, p.T)
    np.testing.assert_array_equal(np.diagonal(p), 1.0)
    assert p[0, 1] == pytest.approx(0.05, abs=1e-6)
    assert p[2, 3] == pytest.approx(0.05, abs=1e-6)
    assert p[0, 3] < 0.05 < p[0, 2]
