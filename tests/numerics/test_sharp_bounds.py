"""Bounds, compared with enumeration of all corners of the box and of all stationary points between them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score, roc_auc_score

from scarless.numerics.likelihood import posterior
from scarless.numerics.sharp_bounds import (
    Box,
    accuracy_bounds,
    class_probability_box,
    class_probability_within_odds,
    f1_bounds,
    gamma_across,
    label_frequency_bounds,
    mean_bounds,
    posterior_box,
    posterior_within_odds,
    precision_bounds,
    propensities_within_odds,
    rank_bounds,
    recall_bounds,
    roc_auc_bounds,
)

PROBABILITY = st.floats(0, 1)
INSIDE = st.floats(1e-6, 1 - 1e-6)
GAMMA = st.floats(1, 1e6)
SEEDS = pytest.mark.parametrize("seed", range(12))


def order_of(scores):
    return np.unique(scores, return_inverse=True)[1]


def auc(f, scores, w):
    """Probability that a positive scores higher than a negative, pair by pair."""
    higher = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (w * f) @ higher @ (w * (1 - f)) / ((w @ f) * (w @ (1 - f)))


def random_box(rng, n):
    """Return a wide box, or a box of nearly certain classes in which few rows can vary."""
    if rng.random() < 0.5:
        ends, fixed = rng.random((2, n)) ** rng.choice([0.2, 1.0, 5.0]), rng.random(n) < 0.15
    else:
        ends, fixed = rng.beta(0.2, 0.2, (2, n)), rng.random(n) < 0.7
    ends = np.sort(ends, axis=0)
    return Box(ends[0], np.where(fixed, ends[0], ends[1]))


def random_problem(seed, most_rows=7):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, most_rows + 1))
    box = random_box(rng, n)
    scores = rng.integers(0, rng.integers(2, n + 3), n).astype(float)
    if rng.random() < 0.5:  # For reversed scores, the largest area can be inside the box.
        scores = -np.round(box.low + box.high, 1)
    return box, scores, rng.integers(1, 4, n).astype(float), rng


def corners(box):
    for choice in product([0, 1], repeat=box.low.size):
        yield np.where(np.array(choice) == 1, box.high, box.low)


def between(box, rng, n_points=200):
    return box.low + (box.high - box.low) * rng.random((n_points, box.low.size))


# --- boxes


def test_boxes_by_hand():
    P, e = np.array([0.1, 0.45]), np.array([0.5, 0.5])
    found = propensities_within_odds(P, e, 4.0)
    np.testing.assert_allclose(found.low, [0.2, 0.45])  # 0.2 is cut at P in the second row
    np.testing.assert_allclose(found.high, [0.8, 0.8])
    found = class_probability_within_odds(P / e, e, 4.0)
    np.testing.assert_allclose(found.low, P / 0.8)
    np.testing.assert_allclose(found.high, [0.5, 1.0])
    found = class_probability_box(
        np.array([0.2, 0.2, 0.0, 0.0]), np.array([0.4, 0.1, 0.0, 0.3]), np.array([0.5, 1, 0, 1])
    )
    np.testing.assert_allclose(found.low, [0.4, 0.2, 0.0, 0.0])
    np.testing.assert_allclose(found.high, [0.5, 1.0, 1.0, 0.0])


@given(f=INSIDE, e=INSIDE, gamma=GAMMA)
def test_the_box_of_f_is_the_identified_product_over_the_box_of_e(f, e, gamma):
    f, e = np.array([f]), np.array([e])
    P = f * e
    admissible, box = propensities_within_odds(P, e, gamma), class_probability_within_odds(f, e, gamma)
    np.testing.assert_allclose(box.low, P / admissible.high, rtol=1e-12)
    np.testing.assert_allclose(box.high, P / admissible.low, rtol=1e-12)
    general = class_probability_box(P, *admissible)
    np.testing.assert_allclose(general, box, rtol=1e-9)
    odds = e / (1 - e)
    np.testing.assert_allclose(admissible.high / (1 - admissible.high), odds * gamma, rtol=1e-4)
    if P[0] < admissible.low[0]:
        np.testing.assert_allclose(admissible.low / (1 - admissible.low), odds / gamma, rtol=1e-4)


@given(f=PROBABILITY, e=st.floats(1e-12, 1), gamma=GAMMA, more=st.floats(1, 1e6))
def test_boxes_are_points_at_one_and_grow_from_there(f, e, gamma, more):
    f, e = np.array([f]), np.array([e])
    np.testing.assert_array_equal(class_probability_within_odds(f, e, 1.0), [f, f])
    smaller, larger = (class_probability_within_odds(f, e, factor) for factor in (gamma, gamma * more))
    limit = class_probability_within_odds(f, e, np.inf)
    assert 0 <= limit.low <= larger.low <= smaller.low <= f <= smaller.high <= larger.high <= limit.high <= 1


def test_with_an_infinite_factor_f_is_only_known_to_be_at_least_P():
    f, e = np.array([0.5, 0.0, 0.5, 1e-300]), np.array([0.5, 0.5, 1.0, 1e-8])
    limit = class_probability_within_odds(f, e, np.inf)
    np.testing.assert_allclose(limit.low, f * e, rtol=1e-12)
    np.testing.assert_array_equal(limit.high, [1, 0, 0.5, 1])  # Rows with e = 1 or f = 0 do not change.
    np.testing.assert_allclose(propensities_within_odds(f * e, e, np.inf), [[0.25, 0, 1, 1e-308], [1, 1, 1, 1]])


@given(f=st.lists(INSIDE, min_size=2, max_size=5), e=INSIDE, gamma=GAMMA)
def test_the_posterior_box_is_the_posterior_at_either_end(f, e, gamma):
    f = np.array(f)
    e, s = np.full(f.size, e), np.arange(f.size) % 2.0
    box = class_probability_within_odds(f, e, gamma)
    found = posterior_box(f * e, s, box)
    for end, q in zip(box, found, strict=True):
        np.testing.assert_allclose(q, posterior(end, np.minimum(f * e / end, 1), s), atol=1e-9)
    assert ((found.low >= 0) & (found.high <= 1) & (found.low <= found.high)).all()


@given(f=st.lists(INSIDE, min_size=1, max_size=5), e=INSIDE, gamma=GAMMA)
def test_a_factor_on_the_odds_is_a_factor_on_the_posterior(f, e, gamma):
    f = np.array(f)
    e, s = np.full(f.size, e), np.arange(f.size) % 2.0
    general = posterior_box(f * e, s, class_probability_within_odds(f, e, gamma))
    found = posterior_within_odds(posterior(f, e, s), s == 0, gamma)
    np.testing.assert_allclose(found, general, rtol=1e-9, atol=1e-10)


def test_an_unlabelled_row_that_had_to_be_labelled():
    one = np.ones(1)
    np.testing.assert_array_equal(posterior_box(one, np.zeros(1), Box(one, one)), [one, one])
    assert posterior(one, one, np.zeros(1)) == 1.0


@given(f=PROBABILITY, e=st.floats(1e-6, 1), t=st.floats(1e-3, 1 - 1e-3))
def test_the_factor_that_moves_a_row_across_a_threshold(f, e, t):
    f, e, t = np.array([f]), np.array([e]), np.array([t])
    gamma = gamma_across(f, e, t)[0]
    assert gamma >= 1

    def can_cross(factor):
        box = class_probability_within_odds(f, e, factor)
        return box.low[0] <= t[0] if f[0] > t[0] else box.high[0] > t[0]

    # If the denominator of the factor is nearly 0, the result depends on rounding errors.
    assume(not 0 < f[0] * (1 - e[0]) < 1e-6)
    assume(abs(t[0] - f[0] * e[0]) > 1e-6)
    if np.isinf(gamma):
        assert not can_cross(1e15)
    else:
        assert can_cross(gamma * (1 + 1e-9) + 1e-9)
        assert gamma < 1 + 1e-9 or not can_cross(gamma * (1 - 1e-9))


# --- quantities computed from a box


def simple_quantities(d, w):
    """Return each quantity as a plain function of `f`, with its bounds."""
    return {
        "mean": (lambda f: w @ f / w.sum(), lambda box: mean_bounds(box, w)),
        "label frequency": (lambda f: 0.1 / (w @ f), lambda box: label_frequency_bounds(box, w, 0.1)),
        "precision": (lambda f: w @ (f * d) / (w @ d), lambda box: precision_bounds(box, d, w)),
        "recall": (lambda f: w @ (f * d) / (w @ f), lambda box: recall_bounds(box, d, w)),
        "f1": (lambda f: 2 * (w @ (f * d)) / (w @ d + w @ f), lambda box: f1_bounds(box, d, w)),
        "accuracy": (lambda f: w @ (f * d + (1 - f) * (1 - d)) / w.sum(), lambda box: accuracy_bounds(box, d, w)),
    }


@SEEDS
def test_simple_quantities_are_bounded_by_the_best_and_worst_corner(seed):
    box, _, w, rng = random_problem(seed, most_rows=8)
    box = Box(np.maximum(box.low, 0.1), np.maximum(box.high, 0.1))  # no fewer positives than labelled ones
    d = rng.integers(0, 2, w.size).astype(float)
    d[0] = 1.0
    for name, (value, bounds) in simple_quantities(d, w).items():
        low, high = bounds(box)
        found = [value(corner) for corner in corners(box)]
        assert (low, high) == pytest.approx((min(found), max(found)), rel=1e-12), name
        inner = np.array([value(f) for f in between(box, rng)])
        assert (low - 1e-12 <= inner).all(), name
        assert (inner <= high + 1e-12).all(), name


def test_known_classes_give_the_usual_scores():
    rng = np.random.default_rng(0)
    y, d, w = rng.integers(0, 2, 50), rng.integers(0, 2, 50), rng.random(50)
    scores = rng.integers(0, 9, 50).astype(float)
    box = Box(y.astype(float), y.astype(float))
    for bounds, score in (
        (precision_bounds, precision_score),
        (recall_bounds, recall_score),
        (f1_bounds, f1_score),
        (accuracy_bounds, accuracy_score),
    ):
        assert bounds(box, d.astype(float), w) == pytest.approx((score(y, d, sample_weight=w),) * 2)
    assert roc_auc_bounds(order_of(scores), box, w) == pytest.approx((roc_auc_score(y, scores, sample_weight=w),) * 2)


def test_shares_without_any_positive():
    nothing, some, w = Box(np.zeros(2), np.zeros(2)), Box(np.zeros(2), np.full(2, 0.5)), np.ones(2)
    first, none = np.array([1.0, 0.0]), np.zeros(2)
    for bounds in (recall_bounds, f1_bounds):
        assert np.isnan(bounds(nothing, none, w)).all()
        assert bounds(some, none, w) == (0, 0)  # There may be positives, but none is found.
        assert bounds(some, first, w)[0] == 0
    assert np.isnan(precision_bounds(some, none, w)).all()
    assert np.isnan(recall_bounds(nothing, first, w)).all()
    assert f1_bounds(nothing, first, w) == (0, 0)
    assert recall_bounds(some, first, w) == (0, 1)
    assert recall_bounds(some, np.ones(2), w) == (1, 1)  # in every part of the box with a positive
    assert recall_bounds(Box(np.zeros(2), np.array([0.0, 0.5])), first, w) == (0, 0)
    assert np.isnan(label_frequency_bounds(nothing, w, 0.0)).all()
    assert label_frequency_bounds(some, w, 0.0) == (0, 0)
    assert np.isnan(roc_auc_bounds(np.arange(2), nothing, w)).all()
    assert np.isnan(roc_auc_bounds(np.arange(2), Box(w, w), w)).all()


@SEEDS
def test_ranks_are_those_of_the_best_and_worst_corner(seed):
    box, _, _, _ = random_problem(seed)
    found = np.array([[1 + np.count_nonzero(f > own) for own in f] for f in corners(box)])
    best, worst = rank_bounds(box)
    np.testing.assert_array_equal(best, found.min(axis=0))
    np.testing.assert_array_equal(worst, found.max(axis=0))


def test_ranks_of_equal_rows():
    point = np.array([0.5, 0.5, 0.9, 0.1])
    np.testing.assert_array_equal(rank_bounds(Box(point, point)), [[2, 2, 1, 4], [2, 2, 1, 4]])
    touching = Box(np.array([0.5, 0.2]), np.array([0.9, 0.5]))  # The rows can be equal, but never in reverse order.
    np.testing.assert_array_equal(rank_bounds(touching), [[1, 1], [1, 2]])


# --- the area under the ROC curve


def extreme_aucs(box, scores, w):
    """Return the smallest and the largest area if one row varies between its limits, for all corners of the other rows.

    The area is then a ratio of two quadratics in that row's probability, found by interpolation.
    """
    found = []
    for free in range(w.size):
        rest = Box(np.delete(box.low, free), np.delete(box.high, free))
        for corner in corners(rest):

            def at(x, corner=corner, free=free):
                return np.insert(corner, free, x)

            nodes = np.array([0.0, 0.5, 1.0])
            totals = np.array([(w @ at(x)) * (w @ (1 - at(x))) for x in nodes])
            pairs = np.array(
                [0.0 if total == 0 else auc(at(x), scores, w) * total for x, total in zip(nodes, totals, strict=True)]
            )
            N, D = np.poly1d(np.polyfit(nodes, pairs, 2)), np.poly1d(np.polyfit(nodes, totals, 2))
            slope = (N.deriv() * D - N * D.deriv()).c
            roots = np.roots(np.where(abs(slope) < 1e-12, 0.0, slope))
            roots = roots.real[abs(roots.imag) < 1e-9]
            inside = roots[(roots > box.low[free]) & (roots < box.high[free])]
            found += [auc(at(x), scores, w) for x in (box.low[free], box.high[free], *inside)]
    return np.nanmin(found), np.nanmax(found)


@pytest.mark.parametrize("seed", range(15))
def test_auc_is_bounded_by_the_best_and_worst_of_all_corners_and_stationary_points(seed):
    box, scores, w, rng = random_problem(seed, most_rows=6)
    low, high = roc_auc_bounds(order_of(scores), box, w)
    assert (low, high) == pytest.approx(extreme_aucs(box, scores, w), abs=1e-10)
    inner = np.array([auc(f, scores, w) for f in between(box, rng)])
    assert (low - 1e-12 <= inner).all()
    assert (inner <= high + 1e-12).all()


def test_auc_without_ties_or_inner_optima_is_bounded_by_corners():
    """There are so many rows that the tie of a row with itself is never the best case."""
    rng = np.random.default_rng(3)
    low = rng.uniform(0.1, 0.3, 9)
    box, w = Box(low, low + 0.2), np.ones(9)
    found = [auc(corner, np.arange(9.0), w) for corner in corners(box)]
    assert roc_auc_bounds(np.arange(9), box, w) == pytest.approx((min(found), max(found)), abs=1e-14)


def test_the_largest_auc_can_lie_inside_the_box():
    """A row between a certain negative and a certain positive wins only ties with itself: x(1-x) / (2(1+x)(2-x))."""
    box = Box(np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0]))
    low, high = roc_auc_bounds(np.arange(3), box, np.ones(3))
    assert (low, high) == pytest.approx((0, 1 / 18), abs=1e-15)
    assert max(auc(corner, np.arange(3.0), np.ones(3)) for corner in corners(box)) == 0


def test_auc_bounds_include_limits_where_a_class_vanishes():
    box, w = Box(np.array([0.0, 0.0]), np.array([0.4, 0.0])), np.ones(2)
    low, high = roc_auc_bounds(np.arange(2), box, w)
    # Only the row with the lower score can be positive. It wins only ties with itself, fewer as its probability grows.
    assert high == pytest.approx(0.25)
    assert auc(np.array([1e-9, 0]), np.arange(2.0), w) == pytest.approx(high, abs=1e-9)
    assert low == pytest.approx(auc(np.array([0.4, 0.0]), np.arange(2.0), w))
    # Classes and scores reversed, the same.
    mirrored = Box(1 - box.high[::-1], 1 - box.low[::-1])
    assert roc_auc_bounds(np.arange(2), mirrored, w) == pytest.approx((low, high))


@pytest.mark.parametrize("tiny", [5e-324, 1e-308, 1e-160])
def test_products_of_tiny_probabilities_do_not_underflow(tiny):
    order, w = np.arange(2), np.ones(2)
    assert np.isnan(roc_auc_bounds(order, Box(np.full(2, tiny), np.full(2, tiny)), w)).all()
    exact = roc_auc_bounds(order, Box(np.zeros(2), np.full(2, 0.5)), w)
    assert roc_auc_bounds(order, Box(np.full(2, tiny), np.full(2, 0.5)), w) == exact


def test_auc_of_one_row_or_one_score_is_a_half():
    assert roc_auc_bounds(np.zeros(1, int), Box(np.array([0.2]), np.array([0.7])), np.ones(1)) == (0.5, 0.5)
    box = Box(np.array([0.2, 0.0, 0.5]), np.array([0.7, 1.0, 0.5]))
    assert roc_auc_bounds(np.zeros(3, int), box, np.ones(3)) == pytest.approx((0.5, 0.5))


@SEEDS
def test_auc_symmetries(seed):
    box, scores, w, rng = random_problem(seed, most_rows=40)
    low, high = roc_auc_bounds(order_of(scores), box, w)
    assert roc_auc_bounds(order_of(-scores), box, w) == pytest.approx((1 - high, 1 - low), abs=1e-12)
    swapped = Box(1 - box.high, 1 - box.low)
    assert roc_auc_bounds(order_of(-scores), swapped, w) == pytest.approx((low, high), abs=1e-12)
    shuffled = rng.permutation(w.size)
    permuted = Box(box.low[shuffled], box.high[shuffled])
    assert roc_auc_bounds(order_of(scores)[shuffled], permuted, w[shuffled]) == pytest.approx((low, high), abs=1e-12)
    repeats = np.repeat(np.arange(w.size), w.astype(int))
    repeated = Box(box.low[repeats], box.high[repeats])
    assert roc_auc_bounds(order_of(scores)[repeats], repeated, np.ones(repeats.size)) == pytest.approx(
        (low, high), abs=1e-12
    )
    heavier = roc_auc_bounds(order_of(scores), box, 1e-9 * w)
    assert heavier == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize("tiny", [1e-3, 1e-9, 1e-14])
def test_auc_keeps_its_digits_where_one_class_is_rare(tiny):
    rng = np.random.default_rng(1)
    rare, scores = tiny * rng.integers(1, 9, 30), rng.permutation(30)
    for f in (rare, 1 - rare):
        exact = [Fraction(value) for value in f]
        won = sum(
            a * (1 - b) * (2 * (i > j) + (i == j))
            for a, i in zip(exact, scores, strict=True)
            for b, j in zip(exact, scores, strict=True)
        )
        expected = float(won / (2 * sum(exact) * (30 - sum(exact))))
        assert roc_auc_bounds(scores, Box(f, f), np.ones(30)) == pytest.approx((expected, expected), rel=1e-12)


@given(st.lists(st.tuples(PROBABILITY, PROBABILITY, st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8))
def test_auc_bounds_hold_for_any_box(rows):
    a, b, scores, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    a, b = (np.where(end < 1e-150, 0.0, end) for end in (a, b))
    assume(w.any())
    box = Box(np.minimum(a, b), np.maximum(a, b))
    low, high = roc_auc_bounds(order_of(scores), box, w)
    if np.isnan(low):
        assert np.isnan(high)
        assert np.isnan(auc(box.low, scores, w))
        return
    assert 0 <= low <= high + 1e-12
    assert high <= 1
    for share in (0.0, 0.3, 0.7, 1.0):
        value = auc(box.low + share * (box.high - box.low), scores, w)
        assert np.isnan(value) or low - 1e-9 <= value <= high + 1e-9
