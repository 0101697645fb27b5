"""Intervals for scores of predicted classes: Wilson's in special cases, the usual ones with many labels."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from scarless.metrics.score import (
    accuracy_equation,
    decided_rows,
    precision_equation,
    proportion_interval,
)
from scarless.metrics.scores import (
    propensity_weighted_accuracy,
    propensity_weighted_f1,
    propensity_weighted_precision,
    propensity_weighted_recall,
)

SCORES = {
    "accuracy": propensity_weighted_accuracy,
    "precision": propensity_weighted_precision,
    "recall": propensity_weighted_recall,
    "F1": propensity_weighted_f1,
}
EVERY = pytest.mark.parametrize("name", SCORES)
Z = stats.norm.ppf(0.975)


def wilson(successes, n):
    found = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    return found.low, found.high


def draw(rng, n, decided, precision, missed, low, high):
    """Rows with given shares of positives on both sides of a decision, and two propensities."""
    d = rng.random(n) < decided
    y = rng.random(n) < np.where(d, precision, missed)
    e = np.where(rng.random(n) < 0.5, low, high)
    return d.astype(float), (y & (rng.random(n) < e)).astype(float), e


@cache
def many_rows():
    """Return decisions, labels, propensities and weights, shared by tests that do not change them."""
    rng = np.random.default_rng(0)
    d, s, e = draw(rng, 400_000, 0.3, 0.7, 0.13, 0.2, 0.8)
    e = np.where(d == 1, e, np.sqrt(e))  # the sides have different propensities
    return d, s, e, rng.uniform(0.2, 3.0, size=d.size) * (1 + s)


def truth(decided, precision, missed):
    found, lost = decided * precision, (1 - decided) * missed
    return {
        "accuracy": found + 1 - decided - lost,
        "precision": precision,
        "recall": found / (found + lost),
        "F1": 2 * found / (found + lost + decided),
    }


@pytest.mark.parametrize("found", [0, 1, 4, 9, 10])
def test_with_all_positives_labelled_precision_has_wilsons_interval(found):
    s = (np.arange(10) < found).astype(float)
    rows = decided_rows(np.ones(10), s, np.ones(10), np.ones(10))
    assert proportion_interval(precision_equation, found / 10, rows, Z) == pytest.approx(wilson(found, 10), abs=1e-12)


@pytest.mark.parametrize("found", [0, 1, 4, 9, 10])
@pytest.mark.parametrize("e", [1.0, 0.3])
def test_under_scar_recall_has_wilsons_interval_of_the_labelled_rows(found, e):
    d = (np.arange(30) < found).astype(float)
    s = (np.arange(30) < 10).astype(float)
    assert propensity_weighted_recall(s, d, propensity=e).interval == pytest.approx(wilson(found, 10), abs=1e-12)


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_with_all_classes_known_and_few_errors_accuracy_has_wilsons_interval(wrong):
    d = np.repeat([1.0, 0.0], 10)
    s = d.copy()
    s[:wrong] = 0.0
    rows = decided_rows(d, s, np.ones(20), np.ones(20))
    found = proportion_interval(accuracy_equation, 1 - wrong / 20, rows, Z)
    assert found == pytest.approx(wilson(20 - wrong, 20), abs=1e-12)
    assert propensity_weighted_accuracy(s, d, propensity=1.0).interval == pytest.approx(found, abs=1e-12)


@EVERY
@pytest.mark.parametrize("options", [{}, {"normalised": True, "class_prior": 0.3}, {"max_weight": 3.0}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_with_many_labels_the_interval_is_the_estimate_and_its_standard_error(name, options, weighted):
    """The variance at the estimate is the infinitesimal jackknife's, so both ends agree to first order."""
    if name == "recall":
        options = {key: value for key, value in options.items() if key == "max_weight"}
    d, s, e, w = many_rows()
    found = SCORES[name](s, d, propensity=e, sample_weight=w if weighted else None, **options)
    half = Z * found.standard_error
    assert found.interval == pytest.approx((found.value - half, found.value + half), abs=0.02 * half)


@EVERY
@pytest.mark.parametrize("options", [{}, {"normalised": True, "class_prior": 0.2}, {"normalised": True}], ids=str)
@pytest.mark.parametrize("labelled", [[0], [9], [0, 1, 2], [8, 9], [0, 9], list(range(10))], ids=str)
@pytest.mark.parametrize("e", [1.0, 0.5, 0.05])
def test_no_number_of_labels_gives_an_interval_of_no_length(name, options, labelled, e):
    d, s = np.zeros(10), np.zeros(10)
    d[:3], s[labelled] = 1.0, 1.0
    found = SCORES[name](s, d, propensity=e, **({} if name == "recall" else options))
    low, high = found.interval
    assert high - low > 0.02
    assert low <= found.value <= high
    assert "standard error" in str(found)
    assert found.no_interval == ""


def test_one_labelled_row_is_not_certain_of_recall():
    found = propensity_weighted_recall([1, 0, 0, 0, 0], [0.9, 0.2, 0.7, 0.2, 0.1], propensity=0.5)
    assert math.isnan(found.standard_error)
    assert found.interval == pytest.approx(wilson(1, 1))
    assert str(found) == (
        "Recall 1.0000 (standard error unknown, 95% interval 0.2065 to 1.0000; 1 labelled row, effective size 1)"
    )


def test_no_labelled_row_among_the_decided_ones_leaves_precision_open():
    """No row of three predicted positive is labelled; three positives with e = 1/2 have no label in 1 of 8 cases."""
    p = np.r_[np.full(3, 0.9), np.full(197, 0.1)]
    s = np.zeros(200)
    s[50:70] = 1
    for score in (propensity_weighted_precision, propensity_weighted_f1):
        low, high = score(s, p, propensity=0.5).interval
        assert low == 0
        assert high > (1.0 if score is propensity_weighted_precision else 0.13)


def test_no_row_decided_positive_leaves_recall_open():
    found = propensity_weighted_recall(np.repeat([1, 0], 15), np.zeros(30), propensity=0.4)
    assert found.interval == pytest.approx(wilson(0, 15), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "shares", "low", "high"),
    [
        (300, (1 / 30, 0.3, 0.03), 0.2, 0.2),  # ten rows decided positive, two or three labels
        (350, (0.4, 0.523, 0.1516), 0.05, 0.25),  # 16 labels, effective sample size 10
        (1200, (0.4, 0.523, 0.1516), 0.05, 0.25),  # 54 labels
    ],
    ids=["3 labels", "16 labels", "54 labels"],
)
def test_intervals_cover_with_few_labels(n, shares, low, high):
    """300 draws: a coverage of 0.93 is found above 0.88 with probability 0.999."""
    rng = np.random.default_rng(3)
    expected, prior = truth(*shares), shares[0] * shares[1] + (1 - shares[0]) * shares[2]
    covered = {}
    for _ in range(300):
        d, s, e = draw(rng, n, *shares, low, high)
        if not s.any() or not d.any():
            continue
        for name, score in SCORES.items():
            known = {} if name == "recall" else {"normalised": True, "class_prior": prior}
            for key, options in ((name, {}), (f"{name}, known prior", known)):
                ends = score(s, d, propensity=e, **options).interval
                covered.setdefault(key, []).append(ends[0] <= expected[name] <= ends[1])
    assert {key: np.mean(values) for key, values in covered.items() if not np.mean(values) > 0.88} == {}


@EVERY
def test_ends_do_not_depend_on_the_scale_of_weights_or_the_order_of_rows(name):
    rng = np.random.default_rng(4)
    d, s, e = draw(rng, 60, 0.4, 0.7, 0.2, 0.1, 0.6)
    w, order = rng.uniform(0.5, 2.0, size=60), rng.permutation(60)
    found = SCORES[name](s, d, propensity=e, sample_weight=w).interval
    other = SCORES[name](s[order], d[order], propensity=e[order], sample_weight=1e-200 * w[order]).interval
    assert other == pytest.approx(found, rel=1e-9)


def test_a_higher_level_is_a_longer_interval_around_the_value():
    d, s, e = draw(np.random.default_rng(5), 60, 0.4, 0.7, 0.2, 0.1, 0.6)
    for score in SCORES.values():
        short, long = (score(s, d, propensity=e, level=level) for level in (0.8, 0.99))
        assert long.interval[0] < short.interval[0] < short.value < short.interval[1] < long.interval[1]


@EVERY
def test_weights_that_cannot_be_squared_leave_no_interval(name):
    found = SCORES[name]([1, 0, 1, 0], [0.9, 0.8, 0.1, 0.2], propensity=[1e-200, 0.5, 0.5, 0.5])
    assert np.isnan(found.interval).all()
    assert "no interval: the weights s/e are too large to compute a variance;" in str(found)


def test_clipped_weights_that_are_scaled_up_again_have_students_interval():
    d, s, e = draw(np.random.default_rng(6), 400, 0.4, 0.7, 0.2, 0.1, 0.6)
    found = propensity_weighted_precision(s, d, propensity=e, normalised=True, max_weight=2.0)
    assert found.n_clipped > 0
    assert sum(found.interval) / 2 == pytest.approx(found.value, rel=1e-12)
    assert found.interval[0] < found.value


@pytest.mark.parametrize(("prior", "recall", "e"), [(0.2, 1.0, 0.2), (0.2, 0.98, 0.05)])
def test_intervals_with_a_class_prior_cover_where_all_labelled_rows_are_found(prior, recall, e):
    """The share of rows predicted positive varies too, so values that imply a recall above 1 are not rejected."""
    rng = np.random.default_rng(1)
    covered, truth = 0, prior * recall / (prior * recall + (1 - prior) * 0.1)
    for _ in range(200):
        y = rng.random(1000) < prior
        d = rng.random(1000) < np.where(y, recall, 0.1)
        s = y & (rng.random(1000) < e)
        low, high = propensity_weighted_precision(s, d, propensity=e, normalised=True, class_prior=prior).interval
        covered += low <= truth <= high
    assert covered > 0.91 * 200


def test_the_search_for_the_ends_covers_scaled_targets():
    s, d = np.zeros(100, dtype=int), np.zeros(100)
    s[:18] = s[60:62] = d[:24] = 1
    found = propensity_weighted_precision(s, d, propensity=0.9, normalised=True, class_prior=0.3)
    assert 0.7 < found.interval[0] < found.value < found.interval[1]
    s, e = np.array([0, 0, 0, 1, 0, 1, 0, 0]), np.where(np.arange(8) == 3, 0.055, 0.095)
    found = propensity_weighted_precision(
        s, np.arange(8) == 3, propensity=e, normalised=True, max_weight=1, class_prior=1
    )
    assert found.interval[0] <= found.value <= found.interval[1]


@pytest.mark.parametrize("decided", [0, 1])
def test_rows_with_one_predicted_class_and_a_known_prior_have_no_interval(decided):
    s = np.repeat([1, 0], [4, 8])
    found = propensity_weighted_accuracy(s, np.full(12, decided), propensity=0.4, normalised=True, class_prior=0.3)
    assert found.value == pytest.approx(0.3 if decided else 0.7)
    assert found.no_interval == "all rows have the same predicted class, so the class prior determines the score"
