from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from scarless.metrics import (
    effective_sample_size,
    expected_risk,
    propensity_weighted_brier_score,
    propensity_weighted_log_loss,
    propensity_weighted_risk,
    risk_bias,
    risk_variance,
    true_risk,
)
from scarless.numerics.risk import LOG

COSTS = pytest.mark.parametrize("cost", ["log", "squared", "absolute"])
P = np.array([0.95, 0.7, 0.4, 0.02, 0.5, 0.99, 0.1])
Y = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0])
E = np.array([0.1, 0.9, 0.3, 0.05, 0.5, 1.0, 0.2])
WRONG_E = np.array([0.3, 0.5, 0.3, 0.2, 0.9, 0.6, 0.1])
WEIGHT = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.0, 2.5])
S = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0])


def _enumerate(y, e, estimate):
    """Mean and variance of `estimate(s)` over all labelings of the positive rows."""
    draws = np.array(list(product([0.0, 1.0], repeat=y.size)))
    draws = draws[(draws <= y).all(axis=1)]
    chance = np.where(y == 1, np.where(draws == 1, e, 1 - e), 1.0).prod(axis=1)
    values = np.array([estimate(s) for s in draws])
    mean = chance @ values
    return mean, chance @ (values - mean) ** 2


@COSTS
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_weighted_risk_is_unbiased_over_all_labelings(cost, weight):
    mean, _ = _enumerate(Y, E, lambda s: propensity_weighted_risk(s, P, propensity=E, cost=cost, sample_weight=weight))
    assert mean == pytest.approx(true_risk(Y, P, cost=cost, sample_weight=weight), abs=1e-12)


@COSTS
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_risk_bias_is_true_risk_minus_mean_estimate(cost, weight):
    mean, _ = _enumerate(
        Y, E, lambda s: propensity_weighted_risk(s, P, propensity=WRONG_E, cost=cost, sample_weight=weight)
    )
    bias = risk_bias(Y, P, propensity=E, estimated_propensity=WRONG_E, cost=cost, sample_weight=weight)
    assert abs(bias) > 0.01
    assert bias == pytest.approx(true_risk(Y, P, cost=cost, sample_weight=weight) - mean, abs=1e-12)


@COSTS
def test_bias_of_the_right_propensity_is_zero(cost):
    assert risk_bias(Y, P, propensity=E, estimated_propensity=E, cost=cost) == 0.0


def test_bias_does_not_depend_on_negative_rows():
    other = np.where(Y == 1, WRONG_E, 0.123)
    assert risk_bias(Y, P, propensity=E, estimated_propensity=WRONG_E) == risk_bias(
        Y, P, propensity=E, estimated_propensity=other
    )


@COSTS
def test_clipping_bias_is_that_of_a_raised_propensity(cost):
    clip = 4.0
    mean, clipped_variance = _enumerate(
        Y, E, lambda s: propensity_weighted_risk(s, P, propensity=E, cost=cost, max_weight=clip)
    )
    bias = risk_bias(Y, P, propensity=E, estimated_propensity=np.maximum(E, 1 / clip), cost=cost)
    assert true_risk(Y, P, cost=cost) - mean == pytest.approx(bias, abs=1e-12)
    _, variance = _enumerate(Y, E, lambda s: propensity_weighted_risk(s, P, propensity=E, cost=cost))
    assert clipped_variance < variance


@COSTS
def test_a_clip_above_all_weights_changes_nothing(cost):
    clipped = propensity_weighted_risk(S, P, propensity=E, cost=cost, max_weight=1e6)
    assert clipped == propensity_weighted_risk(S, P, propensity=E, cost=cost)


@COSTS
def test_normalised_follows_its_formula(cost):
    share, prior = S / E, 0.6
    d0 = true_risk(np.zeros(7), P, cost=cost)
    gaps = [true_risk([1], P[[i]], cost=cost) - true_risk([0], P[[i]], cost=cost) for i in range(7)]
    expected = d0 + prior * (share @ gaps) / share.sum()
    found = propensity_weighted_risk(S, P, propensity=E, cost=cost, normalised=True, class_prior=prior)
    assert found == pytest.approx(expected, abs=1e-12)


@COSTS
def test_normalised_is_exact_when_the_gap_is_constant(cost):
    """With one prediction for all rows, the Hajek estimate has no variance."""
    p = np.full(7, 0.3)
    risk = true_risk(Y, p, cost=cost)
    for s in np.eye(7)[Y == 1]:
        found = propensity_weighted_risk(s, p, propensity=E, cost=cost, normalised=True, class_prior=Y.mean())
        assert found == pytest.approx(risk, abs=1e-12)


def test_normalised_without_prior_caps_the_implied_one():
    few = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])  # mean(s/e) = 1/6.3
    same = propensity_weighted_risk(few, P, propensity=E, normalised=True)
    assert same == pytest.approx(propensity_weighted_risk(few, P, propensity=E), rel=1e-14)
    assert (S / E).mean() > 1
    capped = propensity_weighted_risk(S, P, propensity=E, normalised=True)
    prior_one = propensity_weighted_risk(S, P, propensity=E, normalised=True, class_prior=1.0)
    assert capped == pytest.approx(prior_one, abs=1e-12)
    # a negative log loss is impossible and an artefact of a prior above 1
    assert propensity_weighted_risk(S, P, propensity=E) < 0


def test_normalised_without_labels_and_prior_is_the_normal_form():
    none = np.zeros(7)
    assert propensity_weighted_risk(none, P, propensity=E, normalised=True) == true_risk(none, P)


@COSTS
def test_risk_variance_is_unbiased_for_the_variance(cost):
    _, variance = _enumerate(Y, E, lambda s: propensity_weighted_risk(s, P, propensity=E, cost=cost))
    mean, _ = _enumerate(Y, E, lambda s: risk_variance(s, P, propensity=E, cost=cost))
    assert mean == pytest.approx(variance, rel=1e-12)


@COSTS
def test_always_positive_has_expected_risk_zero(cost):
    for e in (1e-6, 0.3, 1.0, E):
        assert expected_risk(S, np.ones(7), propensity=e, cost=cost) == 0.0


@COSTS
def test_expected_risk_of_the_true_probabilities_is_right_on_average(cost):
    """Over classes and labels, with y_pred = Pr(y=1|x): enumerate the class and the label of one row."""
    for p, e in ((0.3, 0.4), (0.9, 0.2)):
        y_is_1 = true_risk([1], [p], cost=cost)
        risk = p * y_is_1 + (1 - p) * true_risk([0], [p], cost=cost)
        labelled, unlabelled = (expected_risk([s], [p], propensity=e, cost=cost) for s in (1, 0))
        assert p * e * labelled + (1 - p * e) * unlabelled == pytest.approx(risk, abs=1e-12)


@COSTS
def test_full_propensity_reduces_to_the_true_risk(cost):
    risk = true_risk(S, P, cost=cost)
    assert propensity_weighted_risk(S, P, propensity=1.0, cost=cost) == risk
    assert risk_variance(S, P, propensity=1.0, cost=cost) == 0.0


def test_true_risk_agrees_with_scikit_learn():
    assert true_risk(Y, P) == pytest.approx(log_loss(Y, P), abs=1e-14)
    assert true_risk(Y, P, cost="squared") == pytest.approx(brier_score_loss(Y, P), abs=1e-14)
    weighted = log_loss(Y, P, sample_weight=WEIGHT)
    assert true_risk(Y, P, sample_weight=WEIGHT) == pytest.approx(weighted, abs=1e-14)


RISKS = {
    "true": lambda i, w: true_risk(S[i], P[i], sample_weight=w),
    "normal": lambda i, w: propensity_weighted_risk(S[i], P[i], propensity=E[i], sample_weight=w),
    "clipped": lambda i, w: propensity_weighted_risk(S[i], P[i], propensity=E[i], sample_weight=w, max_weight=3),
    "normalised": lambda i, w: propensity_weighted_risk(
        S[i], P[i], propensity=E[i], sample_weight=w, normalised=True, class_prior=0.4
    ),
    "implied-prior": lambda i, w: propensity_weighted_risk(
        S[i], P[i], propensity=E[i], sample_weight=w, normalised=True
    ),
    "expected": lambda i, w: expected_risk(S[i], P[i], propensity=E[i], sample_weight=w),
    "bias": lambda i, w: risk_bias(Y[i], P[i], propensity=E[i], estimated_propensity=WRONG_E[i], sample_weight=w),
}


@pytest.mark.parametrize("risk", RISKS.values(), ids=list(RISKS))
@settings(deadline=None)
@given(data=st.data())
def test_duplicates_are_weights_and_order_does_not_matter(risk, data):
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=7, max_size=7)))
    times[0] += 1  # one labelled row at least
    order = np.array(data.draw(st.permutations(range(times.sum()))))
    copies = np.repeat(np.arange(7), times)[order]
    assert risk(copies, None) == pytest.approx(risk(np.arange(7), times), abs=1e-12)


def test_cost_may_be_an_object_and_labels_may_be_signed():
    assert propensity_weighted_risk(2 * S - 1, P, propensity=E, cost=LOG) == propensity_weighted_risk(
        S, P, propensity=E
    )
    assert true_risk(Y == 1, P) == true_risk(Y, P)


def test_effective_sample_size():
    assert effective_sample_size(S, propensity=0.3) == pytest.approx(3)
    assert effective_sample_size(S, propensity=[1, 1, 1, 1, 1, 1e-300, 1]) == pytest.approx(1)
    assert effective_sample_size(np.zeros(3), propensity=0.5) == 0.0
    by_hand = (10 + 1 / 0.9 + 1) ** 2 / (100 + 1 / 0.81 + 1)
    assert effective_sample_size(S, propensity=E) == pytest.approx(by_hand)
    dropped = effective_sample_size(S, propensity=E, sample_weight=[1, 1, 1, 1, 1, 0, 1])
    assert dropped == pytest.approx((10 + 1 / 0.9) ** 2 / (100 + 1 / 0.81))


@settings(deadline=None)
@given(e=st.lists(st.floats(0.01, 1), min_size=7, max_size=7))
def test_effective_sample_size_lies_between_one_and_the_number_of_labels(e):
    assert 1 - 1e-9 <= effective_sample_size(S, propensity=e) <= S.sum() + 1e-9


def test_infinite_risks():
    assert true_risk([1, 0], [0.0, 0.5]) == np.inf
    assert true_risk([0, 1], [0.0, 1.0]) == 0.0
    assert true_risk([1, 0], [0.0, 0.5], sample_weight=[0, 1]) == pytest.approx(np.log(2))
    assert propensity_weighted_risk([1, 0], [0.0, 0.5], propensity=0.5) == np.inf
    assert propensity_weighted_risk([1, 0], [1.0, 0.5], propensity=1.0) == pytest.approx(np.log(2) / 2)


def test_minus_infinity_is_refused():
    with pytest.raises(
        ValueError, match=r"must not be minus infinity, .* Number of such rows: 1 \(first: row 0\).*np\.clip"
    ):
        propensity_weighted_risk([1, 0], [1.0, 0.5], propensity=0.5)
    without_it = propensity_weighted_risk([1, 0], [1.0, 0.5], propensity=0.5, sample_weight=[0, 1])
    assert without_it == pytest.approx(np.log(2))


def test_infinity_minus_infinity_is_refused():
    with pytest.raises(ValueError, match=r"Some rows cost inf and others -inf.*np\.clip"):
        risk_bias([1, 1], [0.0, 1.0], propensity=0.5, estimated_propensity=0.6)


FUNCTIONS = {
    "propensity_weighted_risk": propensity_weighted_risk,
    "expected_risk": expected_risk,
    "risk_variance": risk_variance,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
class TestInputErrors:
    def test_labels(self, function):
        with pytest.raises(ValueError, match="s must be binary, coded 0/1"):
            function(S + 1, P, propensity=E)
        with pytest.raises(ValueError, match="s must be binary"):
            function(np.full(7, np.nan), P, propensity=E)

    @pytest.mark.parametrize("bad", [0.0, 1.5, np.nan, -0.1])
    def test_propensity(self, function, bad):
        with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]\. Invalid values: 1 of 7"):
            function(S, P, propensity=np.where(np.arange(7) == 3, bad, E))

    @pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
    def test_predictions(self, function, bad):
        with pytest.raises(ValueError, match=r"y_pred must contain probabilities in \[0, 1\]"):
            function(S, np.where(np.arange(7) == 3, bad, P), propensity=E)

    def test_lengths(self, function):
        with pytest.raises(ValueError, match="s has 6 values for 7 rows"):
            function(S[:6], P, propensity=E)
        with pytest.raises(ValueError, match="propensity has 6 values for 7 rows"):
            function(S, P, propensity=E[:6])

    def test_no_rows(self, function):
        with pytest.raises(ValueError, match="y_pred has no rows"):
            function([], [], propensity=[])

    def test_cost(self, function):
        with pytest.raises(ValueError, match="cost must be one of 'absolute', 'log', 'squared'"):
            function(S, P, propensity=E, cost="hinge")


def test_errors_of_true_risk_and_bias():
    with pytest.raises(ValueError, match="y must be binary"):
        true_risk(2 + Y, P)
    with pytest.raises(ValueError, match="y has 6 values for 7 rows"):
        true_risk(Y[:6], P)
    with pytest.raises(ValueError, match="y_pred has no rows"):
        true_risk([], [])
    with pytest.raises(ValueError, match="sample_weight has 6 values"):
        true_risk(Y, P, sample_weight=np.ones(6))
    with pytest.raises(ValueError, match=r"estimated_propensity must lie in \(0, 1\]"):
        risk_bias(Y, P, propensity=E, estimated_propensity=np.zeros(7))
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]"):
        risk_bias(Y, P, propensity=2.0, estimated_propensity=E)


def test_errors_of_the_weighting():
    for wrong in (0.5, np.nan, "3", True):
        with pytest.raises(ValueError, match=r"max_weight \(the largest weight s/e\) must be a number of at least 1"):
            propensity_weighted_risk(S, P, propensity=E, max_weight=wrong)
    with pytest.raises(ValueError, match="Pass normalised=True too, or leave class_prior out"):
        propensity_weighted_risk(S, P, propensity=E, class_prior=0.3)
    for prior in (0.0, 1.2, np.nan, True):
        with pytest.raises(ValueError, match=r"class_prior must be a number in \(0, 1\], e.g. 0.3"):
            propensity_weighted_risk(S, P, propensity=E, normalised=True, class_prior=prior)
    with pytest.raises(ValueError, match="normalised must be True or False; got 'hajek'"):
        propensity_weighted_risk(S, P, propensity=E, normalised="hajek")
    with pytest.raises(ValueError, match="needs at least one labelled row with a positive weight"):
        propensity_weighted_risk(0 * S, P, propensity=E, normalised=True, class_prior=0.3)


@pytest.mark.parametrize("cost", ["log", "squared"])
@pytest.mark.parametrize("max_weight", [None, 2.0])
@pytest.mark.parametrize("normalising", [{}, {"normalised": True}, {"normalised": True, "class_prior": 0.4}])
def test_options_of_risks_agree_with_those_of_scores(cost, max_weight, normalising):
    score = {"log": propensity_weighted_log_loss, "squared": propensity_weighted_brier_score}[cost]
    options = {"propensity": E, "max_weight": max_weight, "sample_weight": WEIGHT, **normalising}
    expected = score(S, P, **options).value
    assert propensity_weighted_risk(S, P, cost=cost, **options) == pytest.approx(expected, rel=1e-13)


def test_errors_of_effective_sample_size():
    with pytest.raises(ValueError, match="s has no rows"):
        effective_sample_size([], propensity=[])
    with pytest.raises(ValueError, match="s must be binary"):
        effective_sample_size([0.5], propensity=0.5)
    with pytest.raises(ValueError, match="propensity must lie in"):
        effective_sample_size([1], propensity=0.0)


def test_tiny_propensities_give_infinite_variance_and_no_warning():
    assert risk_variance([1, 0], [0.9, 0.2], propensity=1e-300) == np.inf
    assert risk_variance([1, 0], [0.9, 0.2], propensity=[0.5, 5e-324]) == pytest.approx(
        risk_variance([1, 0], [0.9, 0.2], propensity=0.5)
    )
    assert risk_variance([1, 0], [0.5, 0.2], propensity=5e-324, cost="squared") == 0.0


def test_infinite_weights_are_refused_unless_clipped():
    message = "the weight s/e of a labelled row is infinite.*np.maximum.*max_weight="
    for normalised in (False, True):
        with pytest.raises(ValueError, match=message):
            propensity_weighted_risk([1, 0], [0.9, 0.2], propensity=5e-324, normalised=normalised)
    clipped = propensity_weighted_risk([1, 0], [0.9, 0.2], propensity=5e-324, max_weight=2)
    assert clipped == pytest.approx(propensity_weighted_risk([1, 0], [0.9, 0.2], propensity=0.5))


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), "a", 10**400])
def test_options_of_the_weighted_risk_that_are_no_numbers(value):
    y_pred, s, e = [0.9, 0.2], [1, 0], 0.5
    with pytest.raises(ValueError, match="normalised must be True or False; got "):
        propensity_weighted_risk(s, y_pred, propensity=e, normalised=value)
    with pytest.raises(ValueError, match=r"max_weight \(the largest weight s/e\) must be a number of at least 1"):
        propensity_weighted_risk(s, y_pred, propensity=e, max_weight=value)
    with pytest.raises(ValueError, match=r"class_prior must be a number in \(0, 1\], e.g. 0.3; got "):
        propensity_weighted_risk(s, y_pred, propensity=e, normalised=True, class_prior=value)
