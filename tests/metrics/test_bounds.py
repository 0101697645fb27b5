import math
from itertools import product

import numpy as np
import pytest

from scarless.metrics import corrected_bound, paper_bound, propensity_weighted_risk, true_risk
from scarless.numerics.risk import get_cost, weighted_cost

COSTS = pytest.mark.parametrize("cost", ["log", "squared", "absolute"])
ETA = 0.05
P = np.linspace(0.95, 0.6, 14)
Y = np.array([1.0] * 12 + [0.0] * 2)


def _deviations(p, y, e, cost, s):
    cost = get_cost(cost)
    estimates = weighted_cost(cost.positive(p), cost.negative(p), s, e).mean(axis=1)
    return estimates - true_risk(y, p, cost=cost)


def _exact_coverage(p, y, e, cost, bound, *, one_sided=False):
    """Probability over all labelings that the estimate is within `bound` of the true risk."""
    positives = np.flatnonzero(y)
    draws = np.array(list(product([0.0, 1.0], repeat=positives.size)))
    chance = np.where(draws == 1, e[positives], 1 - e[positives]).prod(axis=1)
    s = np.zeros((draws.shape[0], y.size))
    s[:, positives] = draws
    deviation = _deviations(p, y, e, cost, s)
    deviation = -deviation if one_sided else abs(deviation)
    return chance[deviation <= bound].sum()


def test_formulas_by_hand():
    assert paper_bound(200, delta_max=2.0, eta=0.1) == pytest.approx(math.sqrt(4 * math.log(20) / 400))
    union = math.sqrt(4 * math.log(500) / 400)
    assert paper_bound(200, delta_max=2.0, eta=0.1, n_hypotheses=50) == pytest.approx(union)
    assert paper_bound(10, delta_max=np.inf) == np.inf
    # absolute cost: d1 - d0 = 1 - 2p
    gaps, e = np.array([0.8, 0.2, -0.6]), np.array([0.5, 0.25, 1.0])
    y_pred = (1 - gaps) / 2
    spread = (1.6**2 + 0.8**2 + 0.6**2) / (2 * 9)
    found = corrected_bound(y_pred, propensity=e, cost="absolute", eta=0.1)
    assert found == pytest.approx(math.sqrt(math.log(20) * spread))
    found = corrected_bound(y_pred, propensity=e, cost="absolute", eta=0.1, n_hypotheses=7)
    assert found == pytest.approx(math.sqrt(math.log(70) * spread))
    found = corrected_bound(y_pred, propensity=e, y=[0, 1, 0], cost="absolute", eta=0.1)
    assert found == pytest.approx(math.sqrt(math.log(20) * 0.8**2 / 18))


@COSTS
def test_equal_to_the_paper_where_its_range_is_right(cost):
    """One prediction for all, full labelling, all positive: the jump is |d1 - d0| in every row."""
    p = np.full(14, 0.8)
    gap = abs(true_risk(np.ones(14), p, cost=cost) - true_risk(np.zeros(14), p, cost=cost))
    assert corrected_bound(p, propensity=1.0, cost=cost) == pytest.approx(paper_bound(14, delta_max=gap))


@COSTS
@pytest.mark.parametrize("propensity", [0.05, 0.1, 0.2, 0.5, 0.9])
def test_corrected_bound_covers_exactly(cost, propensity):
    e = np.linspace(0.5, 1.0, 14) * propensity
    known = corrected_bound(P, propensity=e, y=Y, cost=cost, eta=ETA)
    worst = corrected_bound(P, propensity=e, cost=cost, eta=ETA)
    assert known <= worst
    assert _exact_coverage(P, Y, e, cost, known) >= 1 - ETA
    one_sided = corrected_bound(P, propensity=e, y=Y, cost=cost, eta=ETA, n_hypotheses=1)
    assert one_sided < known
    assert _exact_coverage(P, Y, e, cost, one_sided, one_sided=True) >= 1 - ETA


@COSTS
@pytest.mark.parametrize(("propensity", "below"), [(0.05, 0.3), (0.1, 0.6), (0.2, 0.9)])
def test_paper_bound_fails_exactly_for_small_propensities(cost, propensity, below):
    bound = paper_bound(P.size, delta_max=get_cost(cost).max_cost(P), eta=ETA)
    assert _exact_coverage(P, Y, np.full(P.size, propensity), cost, bound) < below < 1 - ETA


@pytest.mark.parametrize("cost", ["squared", "absolute"])
def test_coverage_by_simulation_with_many_rows(cost):
    rng = np.random.default_rng(20190916)
    n = 2000
    f = 1 / (1 + np.exp(-2 * rng.normal(size=n)))
    y = (rng.random(n) < f).astype(float)
    e = np.where(rng.random(n) < 0.5, 0.05, 0.5)
    s = (rng.random((2000, n)) < e) * y
    deviation = abs(_deviations(f, y, e, cost, s))
    paper = paper_bound(n, delta_max=get_cost(cost).max_cost(), eta=ETA)
    assert np.mean(deviation <= paper) < 0.75
    assert np.mean(deviation <= corrected_bound(f, propensity=e, y=y, cost=cost, eta=ETA)) >= 1 - ETA


def test_union_bound_covers_the_best_of_several_predictors():
    """The chosen predictor looks best, so its risk is underestimated; the bound must still hold."""
    rng = np.random.default_rng(3)
    n, n_hypotheses, e = 60, 20, np.full(60, 0.2)
    y = (rng.random(n) < 0.5).astype(float)
    predictors = rng.uniform(size=(n_hypotheses, n))
    risks = np.array([true_risk(y, p, cost="squared") for p in predictors])
    bounds = np.array(
        [corrected_bound(p, propensity=e, y=y, cost="squared", n_hypotheses=n_hypotheses) for p in predictors]
    )
    covered = []
    for _ in range(200):
        s = (rng.random(n) < e) * y
        found = np.array([propensity_weighted_risk(s, p, propensity=e, cost="squared") for p in predictors])
        best = found.argmin()
        covered.append(risks[best] <= found[best] + bounds[best])
    assert np.mean(covered) >= 1 - ETA


def test_log_loss_of_certain_predictions_has_no_finite_bound():
    assert corrected_bound([1.0, 0.5], propensity=0.5) == np.inf
    assert corrected_bound([1.0, 0.5], propensity=0.5, y=[0, 1]) == 0.0
    assert np.isfinite(corrected_bound([1.0, 0.5], propensity=0.5, cost="squared"))


@COSTS
def test_order_does_not_matter_and_two_copies_divide_by_root_two(cost):
    e = np.linspace(0.2, 1.0, 14)
    order = np.random.default_rng(0).permutation(14)
    bound = corrected_bound(P, propensity=e, y=Y, cost=cost)
    assert corrected_bound(P[order], propensity=e[order], y=Y[order], cost=cost) == pytest.approx(bound, rel=1e-14)
    twice = corrected_bound(np.tile(P, 2), propensity=np.tile(e, 2), y=np.tile(Y, 2), cost=cost)
    assert twice == pytest.approx(bound / math.sqrt(2), rel=1e-14)


@pytest.mark.parametrize("eta", [0.0, 1.0, -0.1, 5, np.nan])
def test_eta_out_of_range(eta):
    with pytest.raises(ValueError, match="eta must lie strictly between 0 and 1"):
        paper_bound(10, delta_max=1.0, eta=eta)
    with pytest.raises(ValueError, match="eta must lie strictly between 0 and 1"):
        corrected_bound(P, propensity=0.5, eta=eta)


def test_input_errors():
    for function in (
        lambda h: paper_bound(10, delta_max=1.0, n_hypotheses=h),
        lambda h: corrected_bound(P, propensity=0.5, n_hypotheses=h),
    ):
        with pytest.raises(ValueError, match="n_hypotheses must be a finite number of at least 1; got 0"):
            function(0)
    with pytest.raises(ValueError, match="n must be a finite number of at least 1; got 0"):
        paper_bound(0, delta_max=1.0)
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match="delta_max must be a number of at least 0"):
            paper_bound(10, delta_max=bad)
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]"):
        corrected_bound(P, propensity=0.0)
    with pytest.raises(ValueError, match="y has 3 values for 14 rows"):
        corrected_bound(P, propensity=0.5, y=[0, 1, 1])
    with pytest.raises(ValueError, match="y must be binary"):
        corrected_bound(P, propensity=0.5, y=P)
    with pytest.raises(ValueError, match="y_pred has no rows"):
        corrected_bound([], propensity=[])
    with pytest.raises(ValueError, match="y_pred must contain probabilities"):
        corrected_bound([1.5], propensity=0.5)
    with pytest.raises(ValueError, match="cost must be one of"):
        corrected_bound(P, propensity=0.5, cost="hinge")


@pytest.mark.parametrize("bad", ["a", math.nan, None, [3], 10**400, 0, -1])
def test_invalid_numbers_of_rows_and_hypotheses_are_refused(bad):
    with pytest.raises(ValueError, match=r"n must be a finite number of at least 1; got "):
        paper_bound(bad, delta_max=1.0)
    if bad is not None:
        with pytest.raises(ValueError, match="n_hypotheses must be a finite number of at least 1; got "):
            paper_bound(10, delta_max=1.0, n_hypotheses=bad)


@pytest.mark.parametrize("bad", ["a", math.nan, None, 10**400, -1e-9])
def test_an_invalid_largest_cost_is_refused(bad):
    with pytest.raises(ValueError, match="delta_max must be a number of at least 0; got "):
        paper_bound(10, delta_max=bad)


def test_propensities_whose_inverse_leaves_the_range_of_numbers():
    y_pred = [0.9, 0.5, 0.2]
    assert corrected_bound(y_pred, propensity=[5e-324, 0.5, 0.5], cost="squared") == np.inf
    # At 0.5 both classes cost the same, so a label of this row does not change the risk.
    here = corrected_bound(y_pred, propensity=[0.5, 5e-324, 0.5], cost="squared")
    assert here == pytest.approx(corrected_bound(y_pred, propensity=0.5, cost="squared"))
    assert corrected_bound(y_pred, propensity=1e-300, cost="squared") == pytest.approx(
        1e300 * corrected_bound(y_pred, propensity=1.0, cost="squared")
    )
