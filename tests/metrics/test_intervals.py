import dataclasses
import inspect
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from scarless.metrics import (
    effective_sample_size,
    propensity_weighted_brier_score,
    propensity_weighted_log_loss,
    propensity_weighted_risk,
    risk_interval,
)
from scarless.numerics.risk import get_cost, weighted_cost

METHODS = ["empirical-bernstein", "bootstrap", "normal"]
SCIPYS_SEED = "rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state"
EVERY = pytest.mark.parametrize("method", METHODS)


def _draw(rng, n, low_propensity=0.2):
    f = 1 / (1 + np.exp(-2 * rng.uniform(-2, 2, size=n)))
    y = rng.random(n) < f
    e = np.where(rng.random(n) < 0.5, low_propensity, 0.8)
    return f, (y & (rng.random(n) < e)).astype(float), e


def _population_risk(cost):
    """Risk of the true probabilities of `_draw`, by the midpoint rule."""
    grid = (np.arange(100_000) + 0.5) / 100_000 * 4 - 2
    f = 1 / (1 + np.exp(-2 * grid))
    return (f * cost.positive(f) + (1 - f) * cost.negative(f)).mean()


def _costs(f, s, e, cost="squared"):
    cost = get_cost(cost)
    return weighted_cost(cost.positive(f), cost.negative(f), s, e)


@pytest.mark.parametrize("cost", ["log", "squared"])
def test_coverage_in_a_moderate_setting(cost):
    rng = np.random.default_rng(5)
    risk, n_draws = _population_risk(get_cost(cost)), 200
    covered, length = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0.0)
    for seed in range(n_draws):
        f, s, e = _draw(rng, 500)
        for method in METHODS:
            found = risk_interval(s, f, propensity=e, cost=cost, method=method, n_resamples=400, random_state=seed)
            covered[method] += found.interval.low <= risk <= found.interval.high
            length[method] += found.interval.high - found.interval.low
    # two standard errors of a coverage of 0.95 over 200 draws are 0.031
    assert 0.92 <= covered["normal"] / n_draws <= 0.98
    assert 0.92 <= covered["bootstrap"] / n_draws <= 0.98
    assert covered["empirical-bernstein"] / n_draws >= 0.95
    assert length["bootstrap"] == pytest.approx(length["normal"], rel=0.05)
    assert length["empirical-bernstein"] > length["normal"]


def test_empirical_bernstein_covers_exactly_where_the_others_cannot():
    """Rows differ in class and label only, so the number of labels is binomial and coverage is a sum."""
    n, alpha, e, p = 60, 0.5, 0.02, 0.8
    risk = alpha * (1 - p) ** 2 + (1 - alpha) * p**2
    coverage = dict.fromkeys(["empirical-bernstein", "normal"], 0.0)
    for n_labels in range(n + 1):
        s = (np.arange(n) < n_labels).astype(float)
        for method in coverage:
            if n_labels == 0 and method == "normal":
                continue  # refused, so it does not cover
            found = risk_interval(s, np.full(n, p), propensity=e, cost="squared", method=method)
            if found.interval.low <= risk <= found.interval.high:
                coverage[method] += stats.binom.pmf(n_labels, n, alpha * e)
    assert coverage["empirical-bernstein"] >= 0.95
    assert coverage["normal"] < 0.6


@EVERY
def test_interval_is_around_the_weighted_risk(method):
    f, s, e = _draw(np.random.default_rng(1), 200)
    found = risk_interval(s, f, propensity=e, method=method, random_state=0)
    assert found.value == pytest.approx(propensity_weighted_risk(s, f, propensity=e), abs=1e-14)
    assert found.interval.low < found.value < found.interval.high
    assert found.level == 0.95
    assert found.effective_sample_size == effective_sample_size(s, propensity=e)
    wider = risk_interval(s, f, propensity=e, method=method, level=0.99, random_state=0)
    assert wider.interval.low < found.interval.low < found.interval.high < wider.interval.high


def test_formulas_by_hand():
    f, s, e = _draw(np.random.default_rng(2), 50)
    costs = _costs(f, s, e)
    normal = risk_interval(s, f, propensity=e, cost="squared", method="normal", level=0.9)
    low, high = stats.norm.interval(0.9, loc=costs.mean(), scale=stats.sem(costs))
    assert normal.interval == pytest.approx((low, high), abs=1e-12)
    bernstein = risk_interval(
        s, f, propensity=e, cost="squared", level=0.9, cost_range=(-4, 5), method="empirical-bernstein"
    )
    half = math.sqrt(2 * costs.var(ddof=1) * math.log(30) / 50) + 7 * 9 * math.log(30) / (3 * 49)
    ends = (costs.mean() - half, costs.mean() + half)
    assert bernstein.interval == pytest.approx(ends, abs=1e-12)


def test_default_range_is_what_the_rows_can_cost():
    f, s, e = _draw(np.random.default_rng(2), 50)
    without, with_label = _costs(f, 0 * s, e), _costs(f, 0 * s + 1, e)
    attainable = (min(without.min(), with_label.min()), max(without.max(), with_label.max()))
    default = risk_interval(s, f, propensity=e, cost="squared", method="empirical-bernstein")
    explicit = risk_interval(s, f, propensity=e, cost="squared", cost_range=attainable, method="empirical-bernstein")
    assert default.interval == pytest.approx(explicit.interval, abs=1e-12)
    assert attainable[0] >= 1 - 1 / 0.2
    assert attainable[1] <= 1 / 0.2


def test_bootstrap_agrees_with_scipy():
    f, s, e = _draw(np.random.default_rng(3), 120, low_propensity=0.05)
    costs = _costs(f, s, e)
    ours, theirs = [], []
    for k in range(10):
        found = risk_interval(s, f, propensity=e, cost="squared", method="bootstrap", n_resamples=5000, random_state=k)
        ours.append(found.interval)
        stream = {SCIPYS_SEED: np.random.default_rng(100 + k)}
        reference = stats.bootstrap((costs,), np.mean, method="BCa", n_resamples=5000, batch=500, **stream)
        theirs.append(tuple(reference.confidence_interval))
    # the ends themselves are random: allow four standard errors of the difference of two means
    tolerance = 4 * math.sqrt(2 / 10) * np.std(theirs, axis=0, ddof=1)
    assert (tolerance < 0.2 * stats.sem(costs)).all()
    assert (abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)) < tolerance).all()


def test_bootstrap_is_reproducible_and_in_batches(monkeypatch):
    f, s, e = _draw(np.random.default_rng(4), 64)
    first = risk_interval(s, f, propensity=e, method="bootstrap", random_state=7)
    assert risk_interval(s, f, propensity=e, method="bootstrap", random_state=7) == first
    assert risk_interval(s, f, propensity=e, method="bootstrap", random_state=8) != first
    monkeypatch.setattr("scarless.metrics.intervals.CELLS_PER_BATCH", 64 * 10)
    batched = risk_interval(s, f, propensity=e, method="bootstrap", random_state=7)
    assert batched.interval == pytest.approx(first.interval, abs=1e-12)


@EVERY
def test_rows_that_all_cost_the_same(method):
    """Fully labelled positives with one prediction: nothing varies, so only the range term is left."""
    found = risk_interval(np.ones(5), np.full(5, 0.5), propensity=1.0, cost="squared", method=method, random_state=0)
    assert found.value == found.interval.low == found.interval.high == 0.25


def test_bootstrap_of_one_huge_label_stays_within_the_samples():
    """The acceleration is at its largest and the level beyond the pole of Efron's formula."""
    s = (np.arange(30) == 0).astype(float)
    for p in (0.2, 0.8):
        found = risk_interval(
            s, np.full(30, p), propensity=0.001, cost="squared", method="bootstrap", level=0.9999, random_state=0
        )
        costs = _costs(np.full(30, p), s, np.full(30, 0.001))
        assert costs.min() <= found.interval.low <= found.value <= found.interval.high <= costs.max() + 1e-12


@EVERY
def test_intervals_of_tiny_propensities_scale_with_their_inverse(method):
    """The squares of costs of 1e300 are not representable, and nothing may overflow in silence or aloud."""
    f, s, e = _draw(np.random.default_rng(7), 80)
    found = [risk_interval(s, f, propensity=e * tiny, method=method, random_state=0) for tiny in (1e-100, 1e-300)]
    for one, other in zip(*((*each.interval, each.standard_error) for each in found), strict=True):
        assert one * 1e-100 == pytest.approx(other * 1e-300, rel=1e-9)
        assert one != 0


@EVERY
def test_propensities_whose_inverse_is_infinite_are_refused(method):
    f, s, _ = _draw(np.random.default_rng(7), 80)
    with pytest.raises(
        ValueError, match=r"propensity must be at least 1e-305.*the smallest is 4.94e-324\. Raise small"
    ):
        risk_interval(s, f, propensity=np.full(80, 5e-324), method=method)
    for cost in ("log", "squared"):
        found = risk_interval(s, f, propensity=np.full(80, 1e-305), method=method, cost=cost, random_state=0)
        assert np.isfinite([*found.interval, found.standard_error]).all()


def test_order_does_not_matter():
    f, s, e = _draw(np.random.default_rng(6), 80)
    order = np.random.default_rng(0).permutation(80)
    for method in ("normal", "empirical-bernstein"):
        first = dataclasses.astuple(risk_interval(s, f, propensity=e, method=method))
        second = dataclasses.astuple(risk_interval(s[order], f[order], propensity=e[order], method=method))
        assert first[:3] == pytest.approx(second[:3], abs=1e-12)


def test_without_labels():
    f = np.linspace(0.1, 0.9, 20)
    assert risk_interval(np.zeros(20), f, propensity=0.5, method="empirical-bernstein").effective_sample_size == 0.0
    for method in ("normal", "bootstrap"):
        with pytest.raises(ValueError, match=f"method='{method}' needs at least one labelled row"):
            risk_interval(np.zeros(20), f, propensity=0.5, method=method)


# Weights.

WEIGHT = np.tile([1.0, 3.0, 0.5, 2.0], 50)


@EVERY
def test_the_value_with_weights_is_that_of_copies(method):
    f, s, e = _draw(np.random.default_rng(1), 200)
    times = np.arange(200) % 4
    found = risk_interval(s, f, propensity=e, sample_weight=times, method=method, random_state=0)
    copies = propensity_weighted_risk(np.repeat(s, times), np.repeat(f, times), propensity=np.repeat(e, times))
    assert found.value == pytest.approx(copies, rel=1e-12)
    assert found.interval.low < found.value < found.interval.high


@EVERY
def test_weights_count_by_their_ratios_and_rows_of_weight_zero_do_not(method):
    f, s, e = _draw(np.random.default_rng(1), 200)
    options = {"method": method, "random_state": 0}

    def ends(rows, weight):
        found = risk_interval(s[rows], f[rows], propensity=e[rows], sample_weight=weight, **options)
        return found.value, found.standard_error, *found.interval, found.effective_sample_size

    every, some = np.arange(200), WEIGHT > 0.5
    assert ends(every, np.full(200, 0.1)) == pytest.approx(ends(every, None), rel=1e-9)
    assert ends(every, 7 * WEIGHT) == pytest.approx(ends(every, WEIGHT), rel=1e-9)
    assert ends(every, WEIGHT * some) == pytest.approx(ends(some, WEIGHT[some]), rel=1e-9)


@pytest.mark.parametrize(
    ("cost", "score"), [("log", propensity_weighted_log_loss), ("squared", propensity_weighted_brier_score)]
)
def test_the_weighted_error_is_the_scores_own(cost, score):
    f, s, e = _draw(np.random.default_rng(1), 200)
    found = risk_interval(s, f, propensity=e, cost=cost, sample_weight=WEIGHT, method="normal")
    own = score(s, f, propensity=e, sample_weight=WEIGHT)
    for name in ("value", "standard_error", "effective_sample_size", "n_labelled", "level"):
        assert getattr(found, name) == pytest.approx(getattr(own, name), rel=1e-9)


def test_the_weighted_bootstrap_is_near_scipys():
    f, s, e = _draw(np.random.default_rng(4), 200)
    costs = _costs(f, s, e)
    found = risk_interval(s, f, propensity=e, cost="squared", sample_weight=WEIGHT, n_resamples=9999, random_state=0)

    def mean(c, w, axis=-1):
        return (c * w).sum(axis=axis) / w.sum(axis=axis)

    stream = {SCIPYS_SEED: np.random.default_rng(1)}
    options = {"paired": True, "vectorized": True, "method": "BCa", "n_resamples": 9999, "batch": 500}
    reference = stats.bootstrap((costs, WEIGHT), mean, **options, **stream).confidence_interval
    assert found.interval == pytest.approx(tuple(reference), abs=0.05 * (reference.high - reference.low))


def test_weighted_bernstein_by_its_formula():
    f, s, e = _draw(np.random.default_rng(2), 200)
    found = risk_interval(
        s,
        f,
        propensity=e,
        cost="squared",
        sample_weight=WEIGHT,
        level=0.9,
        cost_range=(-4, 6),
        method="empirical-bernstein",
    )
    terms = 200 * WEIGHT / WEIGHT.sum() * (_costs(f, s, e) - 1.0)
    log = math.log(3 / 0.1)
    half = math.sqrt(2 * terms.var(ddof=1) * log / 200) + 7 * 10 * 200 * 3.0 / WEIGHT.sum() * log / (3 * 199)
    assert found.interval.high - found.value == pytest.approx(half, rel=1e-12)


def test_weights_that_leave_one_row_are_refused():
    with pytest.raises(ValueError, match="risk_interval needs at least 2 rows with a positive weight; got 1"):
        risk_interval([1, 0, 0], [0.5, 0.4, 0.3], propensity=0.5, sample_weight=[0, 1, 0])
    with pytest.raises(ValueError, match="sample_weight must be finite and at least 0"):
        risk_interval([1, 0], [0.5, 0.4], propensity=0.5, sample_weight=[1, -1])


@pytest.mark.parametrize("level", [0.0, 1.0, 95, np.nan, "x", None])
def test_level_out_of_range(level):
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        risk_interval([1, 0], [0.5, 0.5], propensity=0.5, level=level)


def test_input_errors():
    f, s = np.array([0.3, 0.6]), np.array([0, 1])
    with pytest.raises(ValueError, match="method must be one of 'empirical-bernstein', 'bootstrap', 'normal'; got 't'"):
        risk_interval(s, f, propensity=0.5, method="t")
    with pytest.raises(
        ValueError, match="cost_range is used only with method='empirical-bernstein'; method is 'normal'"
    ):
        risk_interval(s, f, propensity=0.5, method="normal", cost_range=(0, 1))
    for wrong in ((1, 0), (0, np.inf), (np.nan, 1), 5, (0, 1, 2), ("a", "b")):
        with pytest.raises(ValueError, match="cost_range must be two finite numbers"):
            risk_interval(s, f, propensity=0.5, cost_range=wrong, method="empirical-bernstein")
    with pytest.raises(
        ValueError, match=r"cost_range is \(0, 1\), but the weighted costs of the rows range from -0.04 to"
    ):
        risk_interval(s, f, propensity=0.5, cost="squared", cost_range=(0, 1), method="empirical-bernstein")
    for wrong in (10, "many", 500.5):
        with pytest.raises(ValueError, match=f"n_resamples must be a whole number of at least 100.*got {wrong!r}"):
            risk_interval(s, f, propensity=0.5, method="bootstrap", n_resamples=wrong)
    with pytest.raises(ValueError, match="at least 2 rows with a positive weight; got 1"):
        risk_interval([1], [0.5], propensity=0.5)
    with pytest.raises(ValueError, match=r"the cost of 1 of 2 predictions can be infinite .first: row 1.*np\.clip"):
        risk_interval(s, [0.5, 1.0], propensity=0.5)
    with pytest.raises(ValueError, match="y_pred has no rows"):
        risk_interval([], [], propensity=[])
    with pytest.raises(ValueError, match="s must be binary"):
        risk_interval([0, 2], f, propensity=0.5)
    with pytest.raises(ValueError, match="propensity must lie in"):
        risk_interval(s, f, propensity=[0.5, 0.0])
    with pytest.raises(ValueError, match="y_pred must contain probabilities"):
        risk_interval(s, [0.5, -1], propensity=0.5)
    with pytest.raises(ValueError, match="s has 3 values for 2 rows"):
        risk_interval([0, 1, 1], f, propensity=0.5)
    with pytest.raises(ValueError, match="cost must be one of"):
        risk_interval(s, f, propensity=0.5, cost="hinge")


@pytest.mark.parametrize("method", [np.array(["normal", "normal"]), pd.NA, None, 3])
def test_a_method_of_a_wrong_type_is_refused(method):
    with pytest.raises(ValueError, match="method must be one of 'empirical-bernstein', 'bootstrap', 'normal'; got"):
        risk_interval([0, 1], [0.2, 0.8], propensity=0.5, method=method)
