"""The recalibrated fit: slope and shift are recovered, and every grid point is an optimum."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit, logit
from scipy.stats import norm

from scarless import ClassPrior, SAREMClassifierCV
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.recalibrated import centre_sums
from scarless.pair import recalibrated as recalibrated_module
from scarless.pair.constraints import SE_OF_EXACT_VALUE, Constraint
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem, summarise_observations
from scarless.pair.recalibrated import (
    HELD_PROPENSITY_RIDGE,
    HELD_SHIFT_RIDGE,
    PROPENSITY_RIDGE,
    SLOPE_RIDGE,
    ClassPriorGrid,
    Recalibration,
    _GridFits,
    draw_class_priors,
    grid_interval,
    mixed_interval,
    recalibrate,
    recalibrate_roughly,
)
from scarless.pair.stack import _weighted_quantiles


def simulate(n=600, seed=0):
    """Return attributes, true class logits, and labels; the propensity depends on the last two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1, 1, 2] + [0, 0, 5]
    u = 2.0 * X[:, 0] - 0.3
    e = expit(X[:, 1] - 0.5 * (X[:, 2] - 5) + 0.2)
    return X, u, (rng.random(n) < expit(u) * e).astype(float)


E_COLUMNS = np.array([1, 2])


def recalibrated(X, u, s, w=None, *, v=None, rough=False, columns=E_COLUMNS, **options):
    w = np.ones(s.size) if w is None else np.asarray(w, dtype=float)
    given = {} if v is None else {"v": v}
    options |= {"given": True} if given else {}
    return (recalibrate_roughly if rough else recalibrate)(problem_of(X, columns, u=u, s=s, w=w, **given), **options)


def problem_of(X, columns, **rows):
    """Return the problem of one label for each row; recalibration does not use the columns of the classifier."""
    return PairProblem.of(engine_of(X, **rows), Design.of(np.arange(0)), Design.of(columns))


def assert_same(one, other, *, atol=1e-8, e=True):
    for name in ("centre", "shift", "slope", "class_prior", "label_frequency"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=atol), name
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9)
    if e:
        np.testing.assert_allclose(one.e, other.e, atol=atol)
    for got, want in zip(one.grid, other.grid, strict=True):
        np.testing.assert_allclose(got, want, atol=100 * atol)


@pytest.fixture(scope="module")
def data():
    return simulate()


@pytest.fixture(scope="module")
def found(data):
    X, u, s = data
    return recalibrated(X, 0.5 * u + 0.4, s)


# --- estimates


@pytest.mark.parametrize(("slope", "shift"), [(0.5, 0.0), (2.0, 0.0), (0.5, 0.7), (1.0, -1.0)])
def test_slope_and_shift_are_recovered(slope, shift):
    X, u, s = simulate(n=20000, seed=1)
    found = recalibrated(X, slope * u + shift, s)
    assert found.converged
    assert found.slope == pytest.approx(1 / slope, rel=0.06)
    np.testing.assert_allclose(found(slope * u + shift), u, atol=0.3)
    assert found.class_prior == pytest.approx(expit(u).mean(), abs=0.015)
    np.testing.assert_allclose(found.e, [1.0, -0.5, 2.7], atol=0.2)
    low, high = grid_interval([found.grid], "class_prior", 0.95)
    assert low < expit(u).mean() < high


def test_class_prior_and_label_frequency_follow_from_the_recalibrated_models(data, found):
    X, u, s = data
    f, e = expit(found(0.5 * u + 0.4)), expit(X[:, E_COLUMNS] @ found.e[:-1] + found.e[-1])
    assert found.class_prior == pytest.approx(f.mean(), rel=1e-10)
    assert found.label_frequency == pytest.approx(f @ e / f.sum(), rel=1e-10)
    value = np.where(s == 1, np.log(f * e), np.log1p(-f * e)).sum()
    assert found.log_likelihood == pytest.approx(value, rel=1e-10)
    assert found.class_prior == pytest.approx(found.grid.mean, abs=1e-3)


def test_without_any_expected_positive_the_label_frequency_is_0():
    """One row with an extreme weight makes all probabilities underflow."""
    X, u, _ = simulate(n=60)
    w = np.ones(60)
    w[5] = 1e22
    found = recalibrated(X, -2000.0 * (1.0 + np.abs(u)), np.zeros(60), w, rough=True)
    assert (found.class_prior, found.label_frequency) == (0.0, 0.0)


class Objective:
    """An independent implementation of minus the penalised log-likelihood.

    Log slope and standardised coefficients have a ridge penalty of 1.
    """

    def __init__(self, X, u, s, w, v=0.0):
        Z = X[:, E_COLUMNS]
        mean = np.average(Z, axis=0, weights=w)
        self.Z = (Z - mean) / np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=w))
        self.u, self.s, self.w, self.v, self.m = u, s, w, v, centre_sums(None, {"u": u, "w": w}).centre

    def logits(self, theta, shift):
        return self.m + shift + np.exp(theta[0]) * (self.u - self.m), self.v + self.Z @ theta[1:-1] + theta[-1]

    def log_likelihood(self, theta, shift):
        """Return the sum of log(f e) for labelled rows and log(1 - f e) for others; 1 - f e = (1 - f) + f (1 - e)."""
        u, v = self.logits(theta, shift)
        labelled = log_expit(u) + log_expit(v)
        return self.w @ np.where(self.s == 1, labelled, np.logaddexp(log_expit(-u), log_expit(u) + log_expit(-v)))

    def __call__(self, theta, shift):
        return 0.5 * theta[:-1] @ theta[:-1] - self.log_likelihood(theta, shift)

    def best(self, shift):
        return minimize(self, np.zeros(4), args=(shift,), method="BFGS", options={"gtol": 1e-6})

    def standardised(self, found, X, w):
        """Return the parameters of a recalibration in the units of this objective."""
        Z = X[:, E_COLUMNS]
        mean = np.average(Z, axis=0, weights=w)
        unit = np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=w))
        return np.array([np.log(found.slope), *(found.e[:-1] * unit), found.e[-1] + mean @ found.e[:-1]])


def test_all_parameters_except_the_shift_are_optimal(data, found):
    X, u, s = data
    w = np.ones(s.size)
    own = Objective(X, 0.5 * u + 0.4, s, w)
    theta, h = own.standardised(found, X, w), 1e-4
    steps = h * np.eye(4)
    gradient = [(own(theta + step, found.shift) - own(theta - step, found.shift)) / (2 * h) for step in steps]
    np.testing.assert_allclose(gradient, 0, atol=1e-3)
    best = own.best(found.shift)
    assert own(theta, found.shift) == pytest.approx(best.fun, abs=1e-6)
    along_level = (own(theta, found.shift + h) - own(theta, found.shift - h)) / (2 * h)
    assert abs(along_level) > 0.01  # the mean over the grid is not the optimum


@pytest.mark.parametrize("pseudo_weight", [0.0, 4.0, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_grid_point_is_an_optimum_with_its_log_density(data, pseudo_weight, weighted):
    """Compare with scipy's minimiser: penalised log-likelihood plus a Beta density of the label frequency."""
    X, u, s = data
    rng = np.random.default_rng(0)
    w, v = (rng.random(s.size) + 0.5 if weighted else np.ones(s.size)), 0.3 * rng.normal(size=s.size)
    grid = recalibrated(X, 0.5 * u, s, w, v=v, pseudo_weight=pseudo_weight).grid
    own = Objective(X, 0.5 * u, s, w, v)
    # The first grid point is left out: it was fitted with pseudo-observations, so it is not exactly on the profile.
    top, _ = _GridFits.of(
        problem_of(X, E_COLUMNS, u=0.5 * u, s=s, w=w, v=v), pseudo_weight, None, given=True
    ).fit_optimum()
    first = top.theta[1]
    likely = np.flatnonzero((grid.log_density > grid.log_density.max() - 5) & (grid.shift != first))
    assert likely.size > 4
    for i in likely[:: max(1, likely.size // 4)]:
        best = own.best(grid.shift[i])
        f, e = map(expit, own.logits(best.x, grid.shift[i]))
        c = grid.label_frequency[i]
        assert grid.log_density[i] - pseudo_weight * 0.5 * np.log(c * (1 - c)) == pytest.approx(-best.fun, abs=1e-6)
        # A remaining gain of 1e-9 per row changes parameters by 1e-4.
        assert c == pytest.approx((w * f) @ e / (w @ f), abs=1e-4)
        assert grid.class_prior[i] == pytest.approx(w @ f / w.sum(), abs=1e-4)
        assert grid.slope[i] == pytest.approx(np.exp(best.x[0]), abs=1e-4)


def test_the_rough_recalibration_is_the_optimum(data, found):
    X, u, s = data
    rough = recalibrated(X, 0.5 * u + 0.4, s, rough=True)
    assert rough.grid.class_prior.size == 1
    assert rough.grid.weight.tolist() == [1.0]
    w = np.ones(s.size)
    own = Objective(X, 0.5 * u + 0.4, s, w)
    start = np.append(own.standardised(rough, X, w), rough.shift)

    def audited(theta):
        """Add four pseudo-observations at the mean of the propensity attributes, and a weight of 0.1 on the shift."""
        level, logit = own.m + theta[-1], theta[-2]
        pulls = sum(k * (np.logaddexp(0, z) - 0.5 * z) for k, z in ((4.0, logit), (0.1, level)))
        return own(theta[:-1], theta[-1]) + pulls

    best = minimize(audited, start + 0.1, method="BFGS", options={"gtol": 1e-6})
    assert audited(start) == pytest.approx(best.fun, abs=1e-6)
    np.testing.assert_allclose(start, best.x, atol=5e-3)


# --- grid


@pytest.mark.parametrize("seed", range(4))
def test_grid_points_are_sorted_and_their_weights_add_up_to_1(seed):
    X, u, s = simulate(n=250, seed=seed)
    grid = recalibrated(X, 0.5 * u, s).grid
    assert grid.class_prior.size > 5
    assert (np.diff(grid.class_prior) > 0).all()
    counts = grid.weight > 1e-6
    assert (np.diff(grid.label_frequency[counts]) < 0).all()
    for weight in (grid.weight, grid.interval_weight):
        assert weight.sum() == pytest.approx(1, rel=1e-12)
        assert (weight >= 0).all()
    assert grid.class_prior[0] < grid.mean < grid.class_prior[-1]
    assert grid.log_density[[0, -1]].max() < grid.log_density.max() - 5  # both ends have a negligible likelihood


def lognormal_levels(n=200, deviation=0.2):
    """Return an unevenly spaced grid on which the logarithm of the class prior is normal."""
    x = np.sort(np.log(0.3) + deviation * np.append(norm.ppf((np.arange(n) + 0.5) / n), np.linspace(-9, 9, n)))
    log_density = -0.5 * ((x - np.log(0.3)) / deviation) ** 2
    return ClassPriorGrid(
        np.exp(x), np.full(x.size, 0.5), log_density, np.zeros(x.size), x, np.ones(x.size), np.zeros(x.size, bool)
    )


def test_weights_are_density_times_spacing():
    grid = lognormal_levels()
    assert grid.mean == pytest.approx(0.3 * np.exp(0.5 * 0.2**2), rel=1e-3)
    variance = grid.mean**2 * (np.exp(0.2**2) - 1)
    assert grid.deviation == pytest.approx(np.sqrt(variance), rel=5e-3)


def test_log_likelihood_differences_are_divided_in_intervals():
    grid = lognormal_levels(n=2000)._replace(inflation=3.0)
    low, high = grid_interval([grid], "class_prior", 0.95)
    half = np.sqrt(3) * 0.2 * norm.ppf(0.975)
    np.testing.assert_allclose(np.log([low, high]), np.log(0.3) + np.array([-half, half]), atol=5e-3)


@pytest.mark.parametrize("deviation", [0.02, 0.3])
def test_the_error_of_the_models_adds_to_the_variance_of_the_logit(deviation):
    """The grid is normal in the logit, apart from the density that changes logarithms to logits."""
    z = np.linspace(-3.0, 2.0, 4001)
    prior, ones = expit(z), np.ones(z.size)
    log_density = -0.5 * ((z + 0.5) / deviation) ** 2 - np.log1p(-prior)
    grid = ClassPriorGrid(prior, ones / 2, log_density, 0 * z, z, ones, np.zeros(z.size, bool), model_error=0.4)
    half = np.hypot(deviation, 0.4) * norm.ppf(0.975)
    ends = logit(grid_interval([grid], "class_prior", 0.95))
    np.testing.assert_allclose(ends, [-0.5 - half, -0.5 + half], atol=0.01)
    assert grid.interval_weight.sum() == pytest.approx(1.0)


def test_a_grid_may_reach_a_class_prior_of_1():
    prior, ones = np.array([0.2, 0.5, 0.9, 1.0, 1.0]), np.ones(5)
    grid = ClassPriorGrid(prior, ones / 2, 0 * ones, 0 * ones, ones, ones, ones > 2, model_error=0.35)
    assert np.isfinite(grid.interval_weight).all()
    assert grid.interval_weight.sum() == pytest.approx(1.0)


# --- intervals of mixtures


def test_weighted_quantiles_of_rows_are_the_ends_of_mixed_intervals():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(4, 30)), rng.dirichlet(np.ones(30))
    found = _weighted_quantiles(values, weight, np.array([0.1, 0.9]))
    np.testing.assert_allclose(found, [mixed_interval([row], [weight], 0.8) for row in values], rtol=1e-12)


def test_an_interval_of_a_mixture_has_its_quantiles():
    grid = np.linspace(-8, 14, 20001)
    parts = [(0.0, 1.0), (4.0, 2.0)]
    weights = [norm.pdf(grid, *part) for part in parts]
    weights = [weight / weight.sum() for weight in weights]
    for level in (0.5, 0.8, 0.95):
        got = mixed_interval([grid, grid], weights, level)
        for end, share in zip(got, (0.5 - level / 2, 0.5 + level / 2), strict=True):
            exact = brentq(lambda x, q=share: np.mean([norm.cdf(x, *part) for part in parts]) - q, -8, 14)
            assert end == pytest.approx(exact, abs=2e-3)


def test_parts_of_a_mixture_have_equal_weights_for_any_number_of_values():
    many, one = np.linspace(0.1, 0.2, 1000), np.array([0.9])
    assert mixed_interval([many, one], [np.full(1000, 1e-3), np.ones(1)], 0.5) == pytest.approx((0.15, 0.9), abs=1e-3)
    assert mixed_interval([np.array([0.2]), np.array([0.6])], [np.ones(1)] * 2, 0.5) == (0.2, 0.6)


def test_intervals_of_mixtures_are_nested_and_do_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    parts, weights = [rng.random(30), rng.random(7)], [np.full(30, 1 / 30), np.full(7, 1 / 7)]
    wide, narrow = (mixed_interval(parts, weights, level) for level in (0.9, 0.5))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert mixed_interval(parts[::-1], weights[::-1], 0.9) == pytest.approx(wide, rel=1e-12)
    assert mixed_interval([part[::-1] for part in parts], weights, 0.9) == pytest.approx(wide, rel=1e-12)


# --- invariances


def test_units_and_shifts_of_propensity_attributes_change_nothing(data, found):
    X, u, s = data
    scale, shift = np.array([1.0, 1000.0, -0.01]), np.array([0.0, -30.0, 2.0])
    other = recalibrated(X * scale + shift, 0.5 * u + 0.4, s)
    assert_same(found, other, atol=1e-6, e=False)
    coef = other.e[:-1] * scale[E_COLUMNS]
    np.testing.assert_allclose(coef, found.e[:-1], atol=1e-6)
    assert other.e[-1] + other.e[:-1] @ shift[E_COLUMNS] == pytest.approx(found.e[-1], abs=1e-6)


def test_the_order_of_rows_changes_nothing(data, found):
    X, u, s = data
    order = np.random.default_rng(0).permutation(s.size)
    assert_same(found, recalibrated(X[order], 0.5 * u[order] + 0.4, s[order]), atol=1e-7)


@pytest.mark.parametrize("rough", [True, False])
def test_weights_equal_repeated_rows_and_rows_of_weight_0_are_ignored(data, rough):
    X, u, s = data
    w = np.random.default_rng(0).integers(0, 4, size=s.size)
    wild = np.where(w > 0, u, 1e3)  # rows of weight 0 have extreme logits
    weighted = recalibrated(X + 50.0 * (w == 0)[:, None], wild, np.where(w > 0, s, 1.0 - s), w, rough=rough)
    repeated = recalibrated(np.repeat(X, w, axis=0), np.repeat(u, w), np.repeat(s, w), rough=rough)
    assert_same(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize("outlier", [None, 1e4])
def test_rows_with_nearly_the_same_logit_are_merged_and_give_the_same_fit(monkeypatch, outlier):
    X, u, s = simulate(n=4000)
    w = np.random.default_rng(1).random(4000)
    if outlier is not None:
        u[7] = outlier
    options = {"columns": np.arange(0), "follow": 0.5, "merge": True}
    seen, merged = [], recalibrated_module._merged
    monkeypatch.setattr(recalibrated_module, "_merged", lambda problem: seen.append(merged(problem)) or seen[-1])
    together = recalibrated(X, u, s, w, **options)
    monkeypatch.setattr(recalibrated_module, "_MIN_ROWS_TO_MERGE", 10_000)
    alone = recalibrated(X, u, s, w, **options)
    assert len(seen) == 1
    assert seen[0].engine.n_rows < 2000
    assert together.class_prior == pytest.approx(alone.class_prior, abs=2e-4)
    assert together.slope == pytest.approx(alone.slope, rel=1e-3)
    assert together.log_likelihood == pytest.approx(alone.log_likelihood, abs=0.01)
    ends = [grid_interval([each.grid], "class_prior", 0.95) for each in (together, alone)]
    np.testing.assert_allclose(*ends, atol=1e-3)


def test_rows_are_not_merged_if_a_propensity_is_given_or_all_logits_are_equal(data, monkeypatch):
    X, u, s = data
    flat = problem_of(X, np.arange(0), u=np.ones(s.size), s=s, w=np.ones(s.size))
    assert recalibrated_module._merged(flat) is flat
    monkeypatch.setattr(recalibrated_module, "_MIN_ROWS_TO_MERGE", 10)
    monkeypatch.setattr(recalibrated_module, "_merged", lambda problem: pytest.fail("merged"))
    recalibrated(X, u, s, v=X[:, 1], columns=np.arange(0), merge=True)


def test_sparse_attributes_of_mean_0_give_the_same_fit_as_dense_ones():
    X, u, s = simulate()
    X = X - X.mean(axis=0)
    assert_same(recalibrated(X, u, s), recalibrated(sparse.csr_array(X), u, s), atol=1e-6)


def test_a_given_propensity_logit_is_an_offset(data):
    """Without propensity attributes, only a constant is fitted in addition to the given logit."""
    X, u, s = data
    v = 0.4 * X[:, 1] - 0.1
    constant = recalibrated(X, u, s, v=v, columns=np.arange(0))
    assert constant.e.size == 1
    shifted = recalibrated(X, u, s, v=v + 2.0, columns=np.arange(0), pseudo_weight=0.0)
    plain = recalibrated(X, u, s, v=v, columns=np.arange(0), pseudo_weight=0.0)
    assert shifted.e[0] + 2.0 == pytest.approx(plain.e[0], abs=5e-3)
    assert shifted.class_prior == pytest.approx(plain.class_prior, abs=2e-3)


# --- linear models


def test_a_recalibrated_linear_model_is_linear(data, found):
    X = data[0]
    beta = np.array([0.7, -1.0, 0.2, 0.4])
    logits = X @ beta[:-1] + beta[-1]
    moved = found.of_linear(beta)
    np.testing.assert_allclose(X @ moved[:-1] + moved[-1], found(logits), rtol=1e-11, atol=1e-11)


def test_logits_on_the_grid_are_shifted_and_scaled(found):
    u = np.linspace(-3, 3, 7)
    columns = found.logits_on_grid(u)
    assert columns.shape == (7, found.grid.shift.size)
    for shift, slope, column in zip(found.grid.shift, found.grid.slope, columns.T, strict=True):
        np.testing.assert_allclose(column, found.centre + shift + slope * (u - found.centre), rtol=1e-12)


def test_draws_of_class_priors_give_the_logits_of_the_grid_and_interpolate_between_its_points(found):
    u, v = np.linspace(-3, 3, 7), np.linspace(2, -1, 7)
    priors = found.grid.class_prior
    at, moved = found.at_priors(u, priors)
    np.testing.assert_allclose(at, found.logits_on_grid(u), rtol=1e-12)
    np.testing.assert_allclose(v[:, None] + moved, found.propensity_logits_on_grid(v), rtol=1e-12)
    f, e = expit(at), expit(v[:, None] + moved)
    np.testing.assert_allclose(expit(found.posterior_logits(u, v, priors)), f * (1 - e) / (1 - f * e), rtol=1e-9)
    between = found.at_priors(u, 0.5 * (priors[1:] + priors[:-1]))
    np.testing.assert_allclose(between[0], 0.5 * (at[:, 1:] + at[:, :-1]), rtol=1e-9)
    np.testing.assert_allclose(between[1], 0.5 * (moved[1:] + moved[:-1]), rtol=1e-9, atol=1e-12)


def test_draws_of_class_priors_have_the_quantiles_of_the_interval(found):
    """Uniform numbers at the ends of a level are drawn as the ends of the interval of this level."""

    class Uniform:
        def random(self, n):
            return np.array([0.025, 0.975, 0.25, 0.75])

    other = found.grid._replace(class_prior=found.grid.class_prior * 0.9, share=0.3)
    for grids in ([found.grid], [found.grid, other]):
        drawn = draw_class_priors(grids, 4, Uniform())
        np.testing.assert_allclose(drawn[:2], grid_interval(grids, "class_prior", 0.95), rtol=1e-12)
        np.testing.assert_allclose(drawn[2:], grid_interval(grids, "class_prior", 0.5), rtol=1e-12)


# --- extreme inputs


def assert_finite(found):
    for value in (found.centre, found.shift, found.slope, *found.e, found.log_likelihood):
        assert np.isfinite(value)
    assert 0 < found.class_prior < 1
    assert 0 < found.label_frequency <= 1  # Rounding can make it 1 if all positives are labelled.
    assert all(np.isfinite(field).all() for field in found.grid)
    assert (found.grid.weight >= 0).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda u: np.where(u > 0, 13.8, -13.8),
        lambda u: np.where(u > 0, 700.0, -700.0),
        lambda u: np.where(u > 0, -30.0, 30.0),  # inverted order
        np.zeros_like,
        lambda u: np.full_like(u, 5.0),
        lambda u: np.full_like(u, -40.0),
        lambda u: 1e-9 * u,
    ],
    ids=["clipped", "saturated", "inverted", "zero", "constant", "far", "tiny"],
)
def test_saturated_and_constant_logits_give_finite_results(data, change):
    X, u, s = data
    assert_finite(recalibrated(X, change(u), s))


@pytest.mark.parametrize("kind", ["constant", "copied", "separating", "rare"])
def test_degenerate_propensity_attributes_give_finite_results(data, kind):
    X, u, s = data
    X = X.copy()
    X[:, 2] = {"constant": 7.0, "copied": X[:, 1], "separating": s, "rare": np.arange(s.size) == 3}[kind]
    found = recalibrated(X, u, s)
    assert_finite(found)
    if kind == "constant":
        assert found.e[1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("n_labelled", [1, 2, 590])
def test_few_labelled_or_few_unlabelled_rows_give_finite_results(data, n_labelled):
    X, u, _ = data
    s = np.zeros(u.size)
    s[np.argsort(-u)[:n_labelled]] = 1.0
    assert_finite(recalibrated(X, u, s))


@pytest.mark.parametrize("shift", [-1.5, -0.2, 0.0, 0.7])
def test_a_fixed_shift_stays_fixed_if_the_propensity_is_held_too(shift):
    X, u, s = simulate()
    columns = np.arange(3)
    for hold in (None, np.array([0.1, 0.8, -0.4, 0.2])):
        fits = _GridFits.of(problem_of(X, columns, u=u, s=s, w=np.ones(s.size)), 0.0, hold)
        point = fits.fit_at_shift(shift, np.zeros(6))
        assert point.theta[1] == shift
        assert point.converged


def test_a_held_propensity_stays_near_the_given_parameters():
    X, u, s = simulate(300)
    columns, hold = np.arange(3), np.array([0.5, -0.5, 0.3, -1.0])  # far from the truth
    held = recalibrated(X, u, s, columns=columns, hold=hold, pseudo_weight=0.0)
    free = recalibrated(X, u, s, columns=columns, pseudo_weight=0.0)
    moved, gone = (np.linalg.norm((each.e - hold)[:3] * X.std(axis=0)) for each in (held, free))
    assert 0.1 < moved < gone
    assert held.grid.class_prior.min() < held.class_prior < held.grid.class_prior.max()


@pytest.mark.parametrize("held", [False, True])
def test_the_density_of_a_grid_point_is_its_likelihood_minus_the_penalties(held):
    """A held fit has a penalty on its shift, which keeps the classifier near its own class prior."""
    X, u, s = simulate()
    hold = np.array([0.1, 0.8, -0.4, 0.2]) if held else None
    fits = _GridFits.of(problem_of(X, np.arange(3), u=u, s=s, w=np.ones(s.size)), 0.0, hold)
    point = fits.fit_at_shift(0.7, np.zeros(6))
    of_shift, of_e = (HELD_SHIFT_RIDGE, HELD_PROPENSITY_RIDGE) if held else (0.0, PROPENSITY_RIDGE)
    slope, shift, *coefficients, _ = point.theta
    penalty = SLOPE_RIDGE * slope**2 + of_shift * shift**2 + of_e * np.square(coefficients).sum()
    assert point.log_density == pytest.approx(point.log_likelihood - 0.5 * penalty, rel=1e-12)
    assert np.square(coefficients).sum() > 0.01


def test_an_exact_share_of_a_group_also_holds_at_the_grid_points():
    """The fits on the grid use the multipliers of the optimum, so the fit at its shift is the optimum again."""
    X, u, s = simulate()
    group = (X[:, 0] > 0.3).astype(float)
    problem = problem_of(X, E_COLUMNS, u=u, s=s, w=np.ones(s.size), group=group)
    known = Constraint(problem.engine, problem.objective, None, "group", 0.85, 0.0, "a share")
    problem = problem._replace(constraints=(known,))
    optimum, fits = _GridFits.of(problem, 4.0, None).fit_optimum()
    assert optimum.converged
    again = fits.refit_at_shift_of(optimum)
    shares = [fits.constraints[0].share(point.theta).value for point in (optimum, again)]
    np.testing.assert_allclose(shares, 0.85, atol=1e-4)
    np.testing.assert_allclose(again.theta, optimum.theta, atol=2e-3)


@pytest.mark.parametrize(("se", "error"), [(0.0, SE_OF_EXACT_VALUE), (0.05, 0.05)])
def test_a_softened_share_is_a_penalty_around_the_known_value(se, error):
    """Whatever the multipliers were, its penalty is half the square of the distance in standard errors."""
    X, u, s = simulate()
    problem = problem_of(X, E_COLUMNS, u=u, s=s, w=np.ones(s.size))
    known = Constraint(problem.engine, problem.objective, None, None, 0.6, se**2, "a share", 3.0, 0.2).softened()
    beta = np.zeros(problem.n_parameters)  # a class probability of one half for all rows
    assert known.target == 0.6
    assert float(known.sums(beta).value) == pytest.approx(0.5 * (0.1 / error) ** 2)


def test_an_uncertain_share_of_a_group_is_part_of_the_density_of_the_grid_points():
    """Intervals divide the log-likelihood by 3, but not what is known, so it is stored separately."""
    X, u, s = simulate()
    problem = problem_of(X, E_COLUMNS, u=u, s=s, w=np.ones(s.size), group=(X[:, 0] > 0.3).astype(float))
    known = Constraint(problem.engine, problem.objective, None, "group", 0.6, 0.05**2, "a share")
    optimum, fits = _GridFits.of(problem._replace(constraints=(known,)), 4.0, None).fit_optimum()
    (constraint,) = fits.constraints
    points = [fits.fit_at_shift(shift, optimum.theta) for shift in (-0.5, 0.0, 0.5)]
    for point in points:
        away = constraint.share(point.theta).value - 0.6
        assert point.known == pytest.approx(-0.5 * (away / 0.05) ** 2, rel=1e-9)
        others = point.pseudo_log_density - 0.5 * float(fits.ridge @ point.theta**2)
        assert point.log_density == pytest.approx(point.log_likelihood + others + point.known, rel=1e-12)
    found = recalibrate(problem._replace(constraints=(known,)))
    assert found.grid.known.min() < found.grid.known.max() <= 0.0


@pytest.mark.parametrize("prior", [0.35, 0.5])
def test_a_known_class_prior_is_reached_exactly(data, prior):
    """The fit has the class prior of the mean over the grid, which is nearly the known value, without interpolation."""
    X, u, s = data
    found = recalibrated(X, 0.5 * u + 0.4, s, known=[ClassPrior(prior, se=0.005)])
    assert found.grid.mean == pytest.approx(prior, abs=0.004)
    assert found.class_prior == pytest.approx(found.grid.mean, abs=1e-9)


def test_sampling_of_rows_widens_the_grid_of_an_identified_class_prior():
    """The sampling variance of the mean of f is compared with the variance over the grid times the divisor 3."""
    X, u, s = simulate()
    audit = np.where(np.arange(s.size) < 150, np.random.default_rng(3).random(s.size) < expit(u), -1.0)
    audit = np.where((s == 1) & (audit >= 0), 1.0, audit)
    rows = {"labels": s[:, None], "looks": np.ones((s.size, 1)), "audit": audit, "s": s, "u": u, "w": np.ones(s.size)}
    objective = LooksLikelihood(Design.of(np.arange(0)), ((Design.of(E_COLUMNS),),))
    problem = problem_of(X, E_COLUMNS, **rows).with_objective(objective)
    problem = problem._replace(observations=summarise_observations(problem.engine, objective))
    found = recalibrate(problem)
    assert problem.class_prior_is_identified
    variance = np.var(expit(found(u))) / s.size
    assert found.grid.inflation == pytest.approx(3 + variance / found.grid.deviation**2, rel=1e-6)


def few_labels(seed=101):
    """Return a table with about 20 labels for 1,400 positives; only pseudo-observations limit the class prior."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2_500, 4))
    y = rng.random(2_500) < expit(3 * X[:, 0] - X[:, 1] + 0.5)
    return X, y, (y & (rng.random(2_500) < expit(X[:, 3] - 4.5))).astype(int)


def test_pseudo_observations_do_not_shorten_intervals_and_a_remark_mentions_them():
    X, y, s = few_labels()
    model = SAREMClassifierCV(propensity_attributes=[3], Cs=[1.0], random_state=0).fit(X, s)
    low, high = model.class_prior_interval()
    assert low < y.mean() < high
    assert "The labels say little about the class prior" in str(model.summary())
    plenty = SAREMClassifierCV(propensity_attributes=[1], Cs=[1.0], cv=2, random_state=0).fit(*simulate(2_000)[::2])
    assert "say little about the class prior" not in str(plenty.summary())


def test_intervals_include_swapped_grid_points():
    """If the propensity uses all columns of the classifier, some grid points have swapped models."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 4))
    u = 1.2 * X[:, 0] - 0.5
    y = rng.random(1_000) < expit(u)
    s = (y & (rng.random(1_000) < expit(1.5 * X[:, 3]))).astype(float)
    found = recalibrated(X, u, s, columns=np.arange(4), hold=np.array([0.0, 0.0, 0.0, 1.5, 0.0]), pseudo_weight=0.0)
    grid = found.grid
    assert grid.swapped.any()
    assert not grid.swapped.all()
    assert grid.weight[grid.swapped].sum() == 0.0
    assert grid.interval_weight[grid.swapped].sum() > 0.0
    low, high = grid_interval([grid], "class_prior", 0.95)
    assert low < y.mean() < high


def test_row_errors_are_finite_if_all_or_no_positives_are_labelled_at_a_grid_point():
    frequency = np.array([0.0, 0.2, 0.5, 1.0])
    n = frequency.size
    grid = ClassPriorGrid(
        np.linspace(0.1, 0.4, n), frequency, np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n), np.zeros(n, bool)
    )
    found = Recalibration(0.0, 0.0, 1.0, np.zeros(1), 0.2, 1.0, -1.0, grid, True)
    for of in ("class", "propensity", "posterior"):
        errors = found.grid_errors(np.array([-2.0, 3.0]), np.array([0.0, 1.0]), of)
        assert np.isfinite(errors).all(), of
    np.testing.assert_allclose(found.propensity_logits_on_grid(np.zeros(1))[0, 1:3], np.log([0.25, 1.0]) - 30.0)


def test_the_estimate_is_near_the_mean_of_the_grid():
    """In an earlier version, the fit at the mean ended at another optimum (.907 for a mean of .852)."""
    rng = np.random.default_rng(101)
    n, k = int(rng.choice([150, 300, 600])), int(rng.choice([1, 5, 10, 30, 60]))
    Z, u = rng.normal(size=(n, k)), rng.normal(size=n) * rng.choice([1, 3])
    u = u + Z @ rng.normal(size=k) * rng.choice([0, 0.5, 1]) / np.sqrt(k)
    y = rng.random(n) < expit(u)
    e = expit(2 * (Z @ rng.normal(size=k)) / np.sqrt(k) - 0.5)
    found = recalibrated(Z, u, (y & (rng.random(n) < e)).astype(float), columns=np.arange(k), pseudo_weight=8.0)
    assert (n, k) == (150, 60)
    assert found.class_prior == pytest.approx(found.grid.mean, abs=0.01)


@pytest.mark.parametrize("degree", [0, 1, 2], ids=["constant", "line", "parabola"])
def test_starts_on_the_grid_are_extrapolated_by_a_polynomial(degree):
    coefficients = np.random.default_rng(0).normal(size=(degree + 1, 4))

    def theta(at):
        return at ** np.arange(degree + 1) @ coefficients

    path = [(at, theta(at)) for at in (0.0, 0.3, 0.69)[: degree + 1]]
    np.testing.assert_allclose(recalibrated_module._extrapolated(path, 1.2), theta(1.2), rtol=1e-12)
