"""Scores from labels and propensities: bias, consistency and standard errors."""

import dataclasses
import math
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.exceptions import UndefinedMetricWarning

from scarless.metrics import effective_sample_size, propensity_weighted_risk, risk_interval
from scarless.metrics.score import Score, spread, student_interval
from scarless.metrics.scores import (
    observed_log_likelihood,
    propensity_weighted_accuracy,
    propensity_weighted_average_precision,
    propensity_weighted_brier_score,
    propensity_weighted_f1,
    propensity_weighted_log_loss,
    propensity_weighted_precision,
    propensity_weighted_recall,
    propensity_weighted_roc_auc,
)
from scarless.numerics import weighted_scores as ws
from scarless.numerics.risk import LOG, SQUARED

P = np.array([0.95, 0.7, 0.4, 0.6, 0.4, 0.99, 0.1])  # a tie between a positive and a negative row
Y = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
E = np.array([0.1, 0.9, 0.3, 0.5, 0.6, 1.0, 0.2])
WEIGHT = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.7, 2.5])
S = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
WEIGHTS = pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])

LINEAR = {
    "log loss": propensity_weighted_log_loss,
    "Brier": propensity_weighted_brier_score,
    "accuracy": propensity_weighted_accuracy,
    "precision": propensity_weighted_precision,  # its bottom does not depend on labels
}
RATIOS = {
    "recall": propensity_weighted_recall,
    "F1": propensity_weighted_f1,
    "ROC-AUC": propensity_weighted_roc_auc,
    "average precision": propensity_weighted_average_precision,
}
SCORES = LINEAR | RATIOS
EVERY = pytest.mark.parametrize("name", SCORES)


def supervised(name, p, y, weight=None):
    d = p > 0.5
    by_name = {
        "log loss": lambda: sk.log_loss(y, p, sample_weight=weight, labels=[0, 1]),
        "Brier": lambda: sk.brier_score_loss(y, p, sample_weight=weight),
        "accuracy": lambda: sk.accuracy_score(y, d, sample_weight=weight),
        "precision": lambda: sk.precision_score(y, d, sample_weight=weight),
        "recall": lambda: sk.recall_score(y, d, sample_weight=weight),
        "F1": lambda: sk.f1_score(y, d, sample_weight=weight),
        "ROC-AUC": lambda: sk.roc_auc_score(y, p, sample_weight=weight),
        "average precision": lambda: sk.average_precision_score(y, p, sample_weight=weight),
    }
    return by_name[name]()


def ratio(name, p, t, w):
    d = (p > 0.5).astype(float)
    by_name = {
        "log loss": lambda: ws.mean_cost(LOG.positive(p), LOG.negative(p), t, w),
        "Brier": lambda: ws.mean_cost(SQUARED.positive(p), SQUARED.negative(p), t, w),
        "accuracy": lambda: ws.mean_cost(d, 1 - d, t, w),
        "precision": lambda: ws.precision(d, t, w),
        "recall": lambda: ws.recall(d, t, w),
        "F1": lambda: ws.f1(d, t, w),
        "ROC-AUC": lambda: ws.roc_auc(p, t, w),
        "average precision": lambda: ws.average_precision(p, t, w),
    }
    return by_name[name]()


def labelings(y, e):
    """All labelings of the positive rows, and their probabilities."""
    draws = np.array(list(product([0.0, 1.0], repeat=y.size)))
    draws = draws[(draws <= y).all(axis=1)]
    return draws, np.where(y == 1, np.where(draws == 1, e, 1 - e), 1.0).prod(axis=1)


def simulate(n, seed, low=0.2, high=0.9):
    rng = np.random.default_rng(seed)
    x, v = rng.normal(size=(2, n))
    f = 1 / (1 + np.exp(1 - 2 * x))
    y = (rng.random(n) < f).astype(float)
    e = low + (high - low) / (1 + np.exp(-2 * v - x))
    return f, y, e, y * (rng.random(n) < e)


# With known classes, scores equal those of scikit-learn.


@EVERY
@WEIGHTS
def test_with_all_positives_labelled_it_is_scikit_learns_score(name, weight):
    found = SCORES[name](Y, P, propensity=1.0, sample_weight=weight)
    assert found.value == pytest.approx(supervised(name, P, Y, weight), rel=1e-14, abs=1e-15)


@settings(max_examples=20)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 6), st.booleans(), st.sampled_from([0.0, 0.25, 1.0, 3.0])), min_size=2, max_size=30
    )
)
def test_with_all_positives_labelled_it_is_scikit_learns_score_on_any_rows(rows):
    p, y, w = np.array([(k / 6, float(label), weight) for k, label, weight in rows]).T
    counted = w > 0
    assume(np.unique(y[counted]).size == 2)
    assume((p[counted] > 0.5).any())
    for name, score in SCORES.items():
        expected = supervised(name, p, y, w)
        assert score(y, p, propensity=1.0, sample_weight=w).value == pytest.approx(expected, rel=1e-12, abs=1e-13), name


def test_predictions_of_zero_and_one_are_kept_inside_as_scikit_learn_does():
    y = np.array([0.0, 1.0, 1.0])
    for p in (np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0], dtype=np.float32)):
        assert float(propensity_weighted_log_loss(y, p, propensity=1.0)) == pytest.approx(sk.log_loss(y, p), rel=1e-6)


# Over all labelings.


@pytest.mark.parametrize("name", LINEAR)
@WEIGHTS
def test_linear_scores_are_unbiased_over_all_labelings(name, weight):
    draws, chance = labelings(Y, E)
    mean = chance @ [LINEAR[name](s, P, propensity=E, sample_weight=weight).value for s in draws]
    assert mean == pytest.approx(supervised(name, P, Y, weight), abs=1e-12)


@EVERY
@WEIGHTS
def test_top_and_bottom_are_unbiased_over_all_labelings(name, weight):
    w = np.ones(Y.size) if weight is None else weight
    draws, chance = labelings(Y, E)
    found = [ratio(name, P, s / E, w) for s in draws]
    known = ratio(name, P, Y, w)
    assert chance @ [r.top for r in found] == pytest.approx(known.top, abs=1e-12)
    assert chance @ [r.bottom for r in found] == pytest.approx(known.bottom, abs=1e-12)
    assert known.value == pytest.approx(supervised(name, P, Y, weight), rel=1e-14)


def test_pairs_of_a_row_with_itself_would_bias_the_area_under_the_curve():
    """The mean of t (1 - t) is y (1 - 1/e), not 0; the test above can therefore fail."""
    draws, chance = labelings(Y, E)
    own_pairs = chance @ [0.5 * (s / E) @ (1 - s / E) for s in draws]
    assert own_pairs == pytest.approx(0.5 * Y @ (1 - 1 / E), abs=1e-12)
    assert own_pairs < -4


@pytest.mark.parametrize("name", LINEAR)
def test_the_bias_of_clipping_is_as_stated(name):
    """Positives of small propensity count e M times; d1 - d0 is what one positive adds to the top."""
    cap = 2.5
    draws, chance = labelings(Y, E)
    mean = chance @ [LINEAR[name](s, P, propensity=E, max_weight=cap).value for s in draws]
    bottom = ratio(name, P, Y, np.ones(Y.size)).bottom
    one = np.eye(Y.size)
    none = ratio(name, P, 0 * Y, np.ones(Y.size)).top
    step = np.array([ratio(name, P, row, np.ones(Y.size)).top - none for row in one])
    bias = -(Y * np.maximum(0, 1 - E * cap)) @ step / bottom
    assert abs(bias) > 0.01
    assert mean - supervised(name, P, Y) == pytest.approx(bias, abs=1e-12)


@EVERY
def test_the_mean_over_many_labelings_is_the_supervised_score(name):
    f, y, e, _ = simulate(1500, seed=3)
    rng = np.random.default_rng(4)
    found = np.array([SCORES[name](y * (rng.random(y.size) < e), f, propensity=e).value for _ in range(200)])
    error = found.std(ddof=1) / math.sqrt(found.size)
    assert error < 0.005
    assert abs(found.mean() - supervised(name, f, y)) < 2.5 * error


@EVERY
@pytest.mark.parametrize("known_prior", [False, True])
@pytest.mark.parametrize("max_weight", [None, 6.0])
def test_all_variants_that_clip_nothing_converge(name, known_prior, max_weight):
    f, y, e, s = simulate(100_000, seed=5)
    options = {"normalised": True, "class_prior": y.mean()} if known_prior and name != "recall" else {}
    found = SCORES[name](s, f, propensity=e, max_weight=max_weight, **options)
    assert found.n_clipped == 0
    assert found.standard_error < 0.01
    assert abs(found.value - supervised(name, f, y)) < 3 * found.standard_error


# Definitions.


@WEIGHTS
def test_area_under_the_curve_by_all_pairs(weight):
    w = np.ones(P.size) if weight is None else weight
    t = S / E
    top = bottom = 0.0
    for i, j in product(range(P.size), repeat=2):
        if i != j:
            pair = w[i] * w[j] * t[i] * (1 - t[j])
            top += pair * ((P[i] > P[j]) + 0.5 * (P[i] == P[j]))
            bottom += pair
    found = ws.roc_auc(P, t, w)
    assert (found.top, found.bottom) == pytest.approx((top, bottom), rel=1e-12)


@WEIGHTS
def test_average_precision_by_all_pairs(weight):
    w = np.ones(P.size) if weight is None else weight
    t = S / E
    top = 0.0
    for i in range(P.size):
        above = P[i] <= P
        others = above & (np.arange(P.size) != i)
        top += w[i] * t[i] * (w[i] + (w * t)[others].sum()) / w[above].sum()
    found = ws.average_precision(P, t, w)
    assert (found.top, found.bottom) == pytest.approx((top, w @ t), rel=1e-12)


def test_losses_are_the_propensity_weighted_risk():
    for score, cost in ((propensity_weighted_log_loss, "log"), (propensity_weighted_brier_score, "squared")):
        found = score(S, P, propensity=E)
        assert found.value == pytest.approx(propensity_weighted_risk(S, P, propensity=E, cost=cost), rel=1e-14)
        other = risk_interval(S, P, propensity=E, cost=cost, method="normal")
        assert found.standard_error == pytest.approx(other.standard_error, rel=1e-12)
        assert other.interval.high - other.value == pytest.approx(1.959963985 * other.standard_error, rel=1e-8)


def test_under_scar_recall_is_that_of_labelled_rows():
    assert float(propensity_weighted_recall(S, P, propensity=0.3)) == pytest.approx(1.0)
    assert float(propensity_weighted_recall(S, P, propensity=0.3, threshold=0.9)) == pytest.approx(2 / 3)


def test_observed_log_likelihood_by_hand():
    expected = np.where(S == 1, np.log(P * E), np.log1p(-P * E))
    found = observed_log_likelihood(S, P, propensity=E, sample_weight=WEIGHT)
    assert found.value == pytest.approx(np.average(expected, weights=WEIGHT), rel=1e-14)
    plain = observed_log_likelihood(S, P, propensity=E)
    assert plain.standard_error == pytest.approx(expected.std(ddof=1) / math.sqrt(7), rel=1e-14)


def test_observed_log_likelihood_of_impossible_labels():
    found = observed_log_likelihood([1, 0], [0.0, 0.5], propensity=0.5)
    assert found.value == -math.inf
    assert math.isnan(found.standard_error)


# Standard errors.

OPTIONS = {
    "plain": {},
    "clipped": {"max_weight": 2.0},
    "normalised": {"normalised": True},
    "normalised and clipped": {"normalised": True, "max_weight": 2.0},
    "prior": {"normalised": True, "class_prior": 0.4},
    "prior and clipped": {"normalised": True, "class_prior": 0.4, "max_weight": 2.0},
}


@EVERY
@pytest.mark.parametrize("variant", OPTIONS)
@pytest.mark.parametrize("crowded", [False, True], ids=["", "labels stand for more positives than rows"])
def test_the_standard_error_is_made_of_derivatives_in_the_weights(name, variant, crowded):
    """The infinitesimal jackknife: rows contribute w times the derivative of the score in w."""
    options = OPTIONS[variant]
    if name == "recall":
        options = {key: value for key, value in options.items() if key == "max_weight"}
    f, _, e, s = simulate(16, seed=8)
    f = np.round(f, 1)  # ties
    e = np.where(crowded & (s == 1), e / 5, e)
    w = np.random.default_rng(9).uniform(0.5, 2.0, size=16)
    assert (np.average(s / e, weights=w) > 1) == crowded

    def value(weight):
        return SCORES[name](s, f, propensity=e, sample_weight=weight, **options).value

    if name == "ROC-AUC" and crowded and variant not in ("clipped", "prior", "prior and clipped"):
        with pytest.warns(UndefinedMetricWarning, match="ROC-AUC is undefined"):
            assert math.isnan(value(w))
        return
    slopes = [(value(w + d) - value(w - d)) / 2e-5 for d in 1e-5 * np.diag(w)]
    expected = math.sqrt(16 / 15 * np.square(slopes).sum())
    assert SCORES[name](s, f, propensity=e, sample_weight=w, **options).standard_error == pytest.approx(
        expected, rel=1e-6
    )


@EVERY
def test_the_standard_error_is_near_the_jackknifes(name):
    f, _, e, s = simulate(500, seed=10)
    rows = np.arange(f.size)
    without = np.array([SCORES[name](s[rows != i], f[rows != i], propensity=e[rows != i]).value for i in rows])
    jackknife = math.sqrt((f.size - 1) / f.size * np.square(without - without.mean()).sum())
    assert SCORES[name](s, f, propensity=e).standard_error == pytest.approx(jackknife, rel=0.03)


@pytest.mark.parametrize("name", ["ROC-AUC", "average precision"])
def test_the_standard_error_is_near_the_bootstraps(name):
    f, _, e, s = simulate(1000, seed=11)
    rng = np.random.default_rng(12)
    resamples = rng.integers(0, f.size, size=(800, f.size))
    found = [SCORES[name](s[rows], f[rows], propensity=e[rows]).value for rows in resamples]
    assert SCORES[name](s, f, propensity=e).standard_error == pytest.approx(np.std(found), rel=0.08)


def test_a_known_class_prior_is_exact_where_all_positives_cost_the_same():
    """Hajek's ratio then has no variance."""
    p = np.full(Y.size, 0.8)
    draws, _ = labelings(Y, E)
    for score in (propensity_weighted_brier_score, propensity_weighted_accuracy, propensity_weighted_precision):
        known = {score(s, p, propensity=E, normalised=True, class_prior=Y.mean()).value for s in draws if s.any()}
        assert max(known) - min(known) < 1e-14
        assert known.pop() == pytest.approx(score(Y, p, propensity=1.0).value, rel=1e-14)


def test_intervals_cover():
    """Two hundred draws: a coverage of 0.95 is found between 0.905 and 0.985 with probability 0.99."""
    big = simulate(400_000, seed=14)
    truth = {name: ratio(name, big[0], big[0], np.ones(big[0].size)).value for name in SCORES}
    covered = dict.fromkeys(SCORES, 0)
    for seed in range(200):
        f, _, e, s = simulate(1000, seed=1000 + seed)
        for name, score in SCORES.items():
            low, high = score(s, f, propensity=e).interval
            covered[name] += low <= truth[name] <= high
    assert {name: count for name, count in covered.items() if not 181 <= count <= 197} == {}


def test_spread_of_normal_influences_has_as_many_degrees_of_freedom_as_rows():
    psi = np.random.default_rng(0).normal(size=10_000)
    error, freedom = spread(psi - psi.mean())
    assert error == pytest.approx(100.0, rel=0.05)
    assert freedom == pytest.approx(10_000, rel=0.1)


def test_spread_where_few_rows_matter():
    """Four rows with influence and many without: about eight degrees of freedom."""
    psi = np.append([1.0, -1.0, 1.0, -1.0], np.zeros(9996))
    error, freedom = spread(psi)
    assert error == pytest.approx(2.0, rel=1e-3)
    assert freedom == pytest.approx(8.0, rel=1e-2)
    (low, high), _ = student_interval(3.0, error, 8.0, 0.95)
    assert (low, high) == pytest.approx((3.0 - 2.306 * error, 3.0 + 2.306 * error), abs=1e-3)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_spread_does_not_see_the_scale(scale):
    psi = np.array([1.0, -2.0, 0.5, 0.5])
    error, freedom = spread(scale * psi)
    assert (error / scale, freedom) == pytest.approx(spread(psi))


def test_spread_without_variation_is_unknown():
    for psi in (np.zeros(5), np.array([1.0]), np.array([math.nan, 1.0]), np.array([math.inf, 1.0])):
        assert math.isnan(spread(psi)[0])
    assert math.isnan(spread(np.full(4, 1e-20), rounding=1e-18)[0])


@pytest.mark.parametrize("name", ["log loss", "Brier", "ROC-AUC", "average precision"])
def test_few_labels_have_few_degrees_of_freedom(name):
    """At most the effective sample size minus 1; for average precision, on the log scale."""
    f, _, _, s = simulate(60, seed=8)
    s[np.flatnonzero(s)[4:]] = 0.0
    found = SCORES[name](s, f, propensity=0.5)
    assert found.effective_sample_size == pytest.approx(4.0)
    half = 3.182446 * found.standard_error  # Student's t at 3
    ends = (found.value - half, found.value + half)
    if name == "average precision":
        ends = (found.value * math.exp(-half / found.value), min(1.0, found.value * math.exp(half / found.value)))
    assert found.interval == pytest.approx(ends, rel=1e-6)


@pytest.mark.parametrize("name", ["log loss", "Brier", "ROC-AUC", "average precision"])
def test_one_label_gives_no_interval(name):
    s = (np.arange(P.size) == 1).astype(float)
    found = SCORES[name](s, P, propensity=0.9)
    assert math.isfinite(found.value)
    assert np.isnan(found.interval).all()
    assert "no interval: the effective sample size is below 2" in str(found)


def test_a_perfect_ranking_of_few_rows_is_not_certain():
    found = propensity_weighted_roc_auc([1, 1, 0, 0], [0.9, 0.8, 0.2, 0.1], propensity=1.0)
    assert found.value == 1.0
    assert math.isnan(found.standard_error)
    assert str(found) == (
        "ROC-AUC 1.0000 (standard error unknown, no interval: all rows contribute the same value; 2 labelled rows, "
        "effective size 2)"
    )


# Invariances.


@EVERY
def test_rows_of_weight_zero_do_not_count(name):
    f, _, e, s = simulate(40, seed=15)
    w = np.tile([1.0, 2.0, 0.0, 1.0, 0.5], 8)
    kept = w > 0
    without = SCORES[name](s[kept], f[kept], propensity=e[kept], sample_weight=w[kept])
    assert SCORES[name](s, f, propensity=e, sample_weight=w) == without
    assert math.isfinite(without.standard_error)


@EVERY
def test_neither_the_scale_of_the_weights_nor_the_order_of_rows_matters(name):
    f, _, e, s = simulate(40, seed=15)
    f, w = np.round(f, 1), np.tile(WEIGHT[:5], 8)
    order = np.random.default_rng(16).permutation(40)
    found = SCORES[name](s, f, propensity=e, sample_weight=w)
    other = SCORES[name](s[order], f[order], propensity=e[order], sample_weight=7 * w[order])
    for field in ("value", "standard_error", "effective_sample_size"):
        assert getattr(other, field) == pytest.approx(getattr(found, field), rel=1e-12)


def test_rankings_see_only_the_order_and_reversing_it_turns_the_area_around():
    f, _, e, s = simulate(40, seed=15)
    for name in ("ROC-AUC", "average precision"):
        assert SCORES[name](s, np.log(f), propensity=e) == SCORES[name](s, f, propensity=e)
    area = float(propensity_weighted_roc_auc(s, f, propensity=e))
    assert 0.6 < area < 1
    assert float(propensity_weighted_roc_auc(s, -f, propensity=e)) == pytest.approx(1 - area, rel=1e-12)


@EVERY
def test_the_type_of_the_input_does_not_matter(name):
    p = np.float32([0.875, 0.25, 0.5, 0.75])
    s, e = [True, False, False, True], np.float32([0.5, 0.25, 0.5, 0.75])
    expected = SCORES[name](np.array(s, dtype=float), p.astype(float), propensity=e.astype(float))
    for wrap in (pd.Series, pl.Series, list, lambda v: np.reshape(v, (-1, 1))):
        assert SCORES[name](wrap(s), wrap(p), propensity=wrap(e)) == expected
    assert SCORES[name](np.where(s, 1, -1), p, propensity=e) == expected


# The result.


def test_the_result_prints_all_numbers():
    found = propensity_weighted_accuracy(S, P, propensity=E, max_weight=3.0, level=0.9)
    assert float(found) == found.value
    low, high = found.interval
    assert low < found.value < high
    assert found.n_labelled == 3
    assert found.n_clipped == 1
    assert found.effective_sample_size == pytest.approx(effective_sample_size(S, propensity=np.maximum(E, 1 / 3)))
    assert str(found).startswith("Accuracy 1.1587 (standard error 0.3393, 90% interval ")
    assert "3 labelled rows (1 clipped), effective size 2)" in str(found)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.value = 1.0


def test_a_higher_level_is_a_longer_interval():
    f, _, e, s = simulate(40, seed=15)
    short, long = (propensity_weighted_roc_auc(s, f, propensity=e, level=level) for level in (0.8, 0.99))
    assert long.interval[0] < short.interval[0] < short.value < short.interval[1] < long.interval[1]
    assert isinstance(short, Score)


# Edges.


@pytest.mark.parametrize("name", ["recall", "ROC-AUC", "average precision"])
def test_without_labels_some_scores_are_undefined(name):
    with pytest.warns(UndefinedMetricWarning, match="0 of 7 rows are labelled; .*Score more rows"):
        found = SCORES[name](0 * S, P, propensity=E)
    assert math.isnan(found.value)
    assert math.isnan(found.standard_error)


@pytest.mark.parametrize("name", ["log loss", "Brier", "accuracy", "precision"])
def test_without_labels_no_standard_error_is_claimed(name):
    found = SCORES[name](0 * S, P, propensity=E, normalised=True)
    assert math.isfinite(found.value)
    assert math.isnan(found.standard_error)
    assert np.isnan(found.interval).all()
    assert found.effective_sample_size == found.n_labelled == 0
    assert str(found).endswith(
        "(standard error unknown, no interval: no row is labelled; 0 labelled rows, effective size 0)"
    )


def test_precision_without_decisions_and_f1_without_anything_are_undefined():
    with pytest.warns(UndefinedMetricWarning, match="Precision is undefined.*predicted positive"):
        assert math.isnan(float(propensity_weighted_precision(S, 0.1 * P, propensity=E)))
    with pytest.warns(UndefinedMetricWarning, match="F1 is undefined"):
        assert math.isnan(float(propensity_weighted_f1(0 * S, 0.1 * P, propensity=E)))
    assert float(propensity_weighted_f1(S, 0.1 * P, propensity=E)) == 0.0


def test_labels_that_imply_only_positives_leave_no_negative():
    with pytest.warns(UndefinedMetricWarning, match=r"the share of positives is 1\.\d+\. .*propensities are too small"):
        assert math.isnan(float(propensity_weighted_roc_auc([1, 1, 0], [0.9, 0.4, 0.2], propensity=0.5)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@settings(max_examples=50)
@given(
    p=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    seed=st.integers(0, 100),
    tiny=st.sampled_from([1.0, 1e-3, 1e-200, 5e-324]),
)
def test_any_rows_give_a_number_or_nan_and_no_other_warning(p, seed, tiny):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, size=len(p))
    e = np.maximum(rng.uniform(size=len(p)) * tiny, 5e-324)
    for name, score in SCORES.items():
        plain = score(s, p, propensity=e)
        clipped = score(s, p, propensity=e, max_weight=5.0)
        for found in (plain, clipped):
            assert isinstance(found.value, float), name
            assert math.isnan(found.standard_error) or found.standard_error >= 0
        assert not math.isinf(clipped.value)


def test_one_row_has_a_score_and_no_standard_error():
    found = propensity_weighted_brier_score([1], [0.5], propensity=0.5)
    assert found.value == 0.25
    assert math.isnan(found.standard_error)


def test_equal_rows_have_no_standard_error():
    for found in (
        propensity_weighted_brier_score([1] * 4, [0.8] * 4, propensity=1.0),
        observed_log_likelihood([1] * 4, [0.8] * 4, propensity=1),
    ):
        assert math.isnan(found.standard_error)
        assert found.no_interval == "all rows contribute the same value"


@EVERY
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300])
def test_the_scale_of_the_weights_may_be_extreme(name, scale):
    f, _, e, s = simulate(40, seed=15)
    found, plain = SCORES[name](s, f, propensity=e, sample_weight=np.full(40, scale)), SCORES[name](s, f, propensity=e)
    assert found.value == pytest.approx(plain.value, rel=1e-12)
    assert found.interval == pytest.approx(plain.interval, rel=1e-9)


def test_the_effective_sample_size_of_tiny_propensities_and_weights():
    assert effective_sample_size([1, 1], propensity=[1e-320, 1]) == 1.0
    assert effective_sample_size([1, 1], propensity=[1e-200, 1], sample_weight=[1e-200, 1]) == pytest.approx(2.0)
    assert effective_sample_size([1, 1, 0], propensity=5e-324, sample_weight=[1.0, 0.0, 1.0]) == 1.0
    assert "effective size 1)" in str(observed_log_likelihood([1, 1], [0.5, 0.5], propensity=[1e-320, 1]))


# Errors.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_weight": 0.5},
            r"max_weight \(the largest weight s/e\) must be a number of at least 1, e.g. 10; got 0.5",
        ),
        ({"max_weight": math.nan}, "must be a number of at least 1, e.g. 10; got nan"),
        ({"max_weight": "3"}, "must be a number of at least 1, e.g. 10; got '3'"),
        ({"class_prior": 0.3}, "Pass normalised=True too, or leave class_prior out"),
        ({"class_prior": 1.5, "normalised": True}, r"class_prior must be a number in \(0, 1\], e.g. 0.3; got 1.5"),
        ({"class_prior": "0.3", "normalised": True}, r"class_prior must be a number in \(0, 1\], e.g. 0.3; got '0.3'"),
        ({"level": 95}, "level must lie strictly between 0 and 1.*got 95"),
        ({"level": "x"}, "level must lie strictly between 0 and 1.*got 'x'"),
        ({"level": None}, "level must lie strictly between 0 and 1.*got None"),
        ({"threshold": "high"}, "threshold must lie strictly between 0 and 1.*got 'high'"),
        ({"sample_weight": [-1.0] * 7}, "sample_weight must be finite and at least 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        propensity_weighted_f1(S, P, propensity=E, **options)


@EVERY
def test_wrong_rows_are_refused(name):
    score = SCORES[name]
    with pytest.raises(ValueError, match="y_pred has no rows"):
        score([], [], propensity=[])
    with pytest.raises(ValueError, match="s has 3 values for 7 rows"):
        score(S[:3], P, propensity=E)
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]"):
        score(S, P, propensity=0 * E)
    with pytest.raises(ValueError, match="s must be binary"):
        score(S + 0.5, P, propensity=E)


def test_a_class_prior_needs_a_label():
    with pytest.raises(ValueError, match="needs at least one labelled row with a positive weight"):
        propensity_weighted_accuracy(0 * S, P, propensity=E, normalised=True, class_prior=0.3)


def test_rankings_need_an_order_and_decisions_a_threshold():
    with pytest.raises(ValueError, match=r"y_pred must not contain NaN, .* Rows with NaN: 1 of 2 \(first: row 1\)"):
        propensity_weighted_roc_auc([0, 1], [0.1, math.nan], propensity=0.5)
    with pytest.raises(ValueError, match="threshold must lie strictly between 0 and 1"):
        propensity_weighted_accuracy(S, P, propensity=E, threshold=1.0)
    with pytest.raises(ValueError, match=r"y_pred must contain probabilities in \[0, 1\]"):
        propensity_weighted_accuracy(S, -P, propensity=E)
    with pytest.raises(ValueError, match="level must lie"):
        observed_log_likelihood(S, P, propensity=E, level=0.0)
    with pytest.raises(ValueError, match=r"level must lie.*got 'x'"):
        observed_log_likelihood(S, P, propensity=E, level="x")


@pytest.mark.parametrize("flag", [np.array([True, False]), pd.DataFrame({"a": [1]}), pd.NA, "yes"])
def test_whether_weights_are_normalised_is_a_flag(flag):
    with pytest.raises(ValueError, match="normalised must be True or False; got "):
        propensity_weighted_roc_auc([1, 0], [0.9, 0.1], propensity=0.5, normalised=flag)


def test_an_integer_too_large_for_a_float_is_refused_as_max_weight():
    with pytest.raises(ValueError, match=r"max_weight .*number of at least 1, e.g. 10; got an integer of 1329 bits"):
        propensity_weighted_roc_auc([1, 0], [0.9, 0.1], propensity=0.5, max_weight=10**400)


def test_a_level_of_higher_precision_is_a_level():
    s, p, e = [1, 0, 1, 0], [0.9, 0.4, 0.6, 0.1], [0.5, 0.5, 0.8, 0.8]
    wide = propensity_weighted_brier_score(s, p, propensity=e, level=np.longdouble(0.5))
    assert wide.interval == propensity_weighted_brier_score(s, p, propensity=e, level=0.5).interval


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"propensity_weighted_recall\(\) missing a required argument: 'propensity'"),
        ({"propensity": 1.0, "normalised": True}, r"propensity_weighted_recall\(\) got an unexpected .* 'normalised'"),
    ],
)
def test_wrong_options_are_refused_by_the_name_of_the_score(options, message):
    with pytest.raises(TypeError, match=message):
        propensity_weighted_recall([1, 0], [1, 0], **options)
