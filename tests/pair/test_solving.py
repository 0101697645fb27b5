"""Penalised problems: pulls equal pseudo-observations, and rescaled columns have the same optimum."""

import numpy as np
import pytest
from scipy.special import expit

from scarless.engines import InMemoryEngine, attach
from scarless.engines.blocks import Units, how_to_read
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.newton import Status
from scarless.numerics.objectives import Curvature, KnownPropensity, LogisticPair, TargetLogistic
from scarless.pair import solving
from scarless.pair.constraints import Constraint
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.problem import PairProblem, add_pseudo_observations
from scarless.pair.solving import ChangeOfUnits, PenalisedProblem, Pull

OPTIONS = {"tol": 1e-15, "max_iter": 200}


@pytest.fixture
def pull():
    return Pull(3.0, np.array([0.5, -2.0, 0.0, 1.0]), offset=0.7)


def differences(function, beta, h=1e-5):
    steps = h * np.eye(beta.size)
    return np.array([(function(beta + step) - function(beta - step)) / (2 * h) for step in steps])


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_of_a_pull_match_finite_differences(pull, seed):
    beta = np.random.default_rng(seed).normal(size=4)
    value, gradient, curvature = pull.sums(beta)
    z = pull.offset + pull.point @ beta
    assert value == pytest.approx(-1.5 * np.log(expit(z)) - 1.5 * np.log(expit(-z)), rel=1e-12)
    np.testing.assert_allclose(gradient, differences(lambda at: float(pull.sums(at).value), beta), atol=1e-8)
    np.testing.assert_allclose(curvature, differences(lambda at: pull.sums(at).gradient, beta), atol=1e-8)
    direction = np.random.default_rng(seed + 9).normal(size=4)
    np.testing.assert_allclose(pull.product(beta, direction), curvature @ direction, atol=1e-14)


def test_a_pull_has_its_minimum_at_probability_one_half(pull):
    beta = np.array([0.0, 0.35, 4.0, 0.0])
    assert pull.offset + pull.point @ beta == 0
    np.testing.assert_array_equal(pull.sums(beta).gradient, 0)
    assert pull.sums(beta).value == pytest.approx(3.0 * np.log(2))


def test_a_pull_is_linear_far_from_its_minimum(pull):
    for sign in (1.0, -1.0):
        sums = pull.sums(np.array([0.0, 0.0, 0.0, sign * 1e4]))
        assert sums.value == pytest.approx(3.0 * 0.5 * (1e4 + sign * 0.7), rel=1e-12)
        np.testing.assert_allclose(sums.gradient, sign * 1.5 * pull.point)


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    s = (rng.random(n) < expit(X @ [1, -1, 0.5]) * expit(X[:, 1] + 1)).astype(float)
    return X, s, rng.random(n) + 0.5, rng.normal(size=n)


def test_values_and_derivatives_of_a_problem_include_its_pulls():
    X, s, w, v = table()
    objective, ridge = KnownPropensity(Design.of(np.arange(3))), np.array([1.0, 2.0, 0.5, 0.0])
    rng = np.random.default_rng(3)
    pulls = tuple(Pull(k, rng.normal(size=4), z) for k, z in ((2.0, 0.3), (7.0, -1.0)))
    engine = InMemoryEngine(X, {"s": s, "w": w, "v": v})
    plain, pulled = PenalisedProblem(engine, objective, ridge), PenalisedProblem(engine, objective, ridge, pulls)
    beta, direction = rng.normal(size=(2, 4))
    added = [pull.sums(beta) for pull in pulls]
    value, gradient, matrix = (sum(each) for each in zip(*added, strict=True))
    for curvature in Curvature:
        with_, without = pulled.evaluate(beta, curvature), plain.evaluate(beta, curvature)
        assert with_.value == pytest.approx(float(without.value + value), rel=1e-13)
        np.testing.assert_allclose(with_.gradient, without.gradient + gradient, rtol=1e-12)
        if curvature is Curvature.DIAGONAL:
            np.testing.assert_allclose(with_.curvature, without.curvature + np.diagonal(matrix), rtol=1e-12)
        elif curvature is not Curvature.NONE:
            np.testing.assert_allclose(with_.curvature, without.curvature + matrix, rtol=1e-12)
    whole = pulled.evaluate(beta, Curvature.EXPECTED).curvature
    np.testing.assert_allclose(pulled.products(beta, Curvature.EXPECTED)(direction), whole @ direction, rtol=1e-10)
    assert pulled.penalty(beta) == pytest.approx(float(value) + 0.5 * ridge @ beta**2, rel=1e-13)
    np.testing.assert_allclose(pulled.penalty_curvature(beta), np.diag(ridge) + matrix, rtol=1e-13)


def test_progress_is_reported_after_every_iteration():
    X, s, w, v = table()
    problem = PenalisedProblem(
        InMemoryEngine(X, {"s": s, "w": w, "v": v}), KnownPropensity(Design.of(np.arange(3))), np.ones(4)
    )
    traces = []
    solution = problem.solve(np.zeros(4), total_weight=w.sum(), progress=traces.append, **OPTIONS)
    assert 1 < len(traces) <= solution.n_iter + 1
    assert [trace.value for trace in traces] == sorted((trace.value for trace in traces), reverse=True)


@pytest.mark.parametrize("se", [0.0, 0.02])
def test_the_information_of_a_constrained_fit_is_that_of_the_likelihood_at_its_parameters(se):
    """Penalty and constraint are subtracted, with the multipliers of the end and not of an earlier iteration."""
    X, s, w, _ = table()
    rows = {"labels": s[:, None], "looks": np.ones((s.size, 1)), "audit": np.full(s.size, -1.0), "s": s, "w": w}
    f, e = Design.of(np.arange(3)), Design.of(np.array([1]))
    problem = PairProblem.of(InMemoryEngine(X, rows), f, e).with_objective(LooksLikelihood(f, ((e,),)))
    share = Constraint(problem.engine, problem.objective, None, None, 0.55, se**2, "the class prior")
    fit = fit_pair(problem._replace(constraints=(share,)), None, FitOptions(1e-12, 200))
    assert fit.converged
    found = expit(X @ fit.parameters[:3] + fit.parameters[3])
    assert np.average(found, weights=w) == pytest.approx(0.55, abs=1e-5 if se == 0 else 0.02)
    expected = problem.objective.sums(X, rows, fit.parameters, Curvature.OBSERVED).curvature
    np.testing.assert_allclose(fit.information, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def with_pseudo_rows(X, rows, point, weight, **fields):
    """Return the table with two more rows at one point, a labelled and an unlabelled one, each with half the weight."""
    more = {"w": np.full(2, 0.5 * weight), **fields}
    return np.vstack([X, point, point]), {name: np.append(rows[name], more[name]) for name in rows}


@pytest.mark.parametrize("weight", [0.5, 4.0, 100.0])
@pytest.mark.parametrize("kind", ["labels", "known class"])
def test_pseudo_observations_equal_added_positives_half_of_them_labelled(kind, weight):
    """For a propensity alone, they can be added to the table as rows of a known class (an infinite class logit)."""
    X, s, w, v = table()
    design, both = Design.of(np.arange(3)), np.array([1.0, 0.0])
    if kind == "labels":
        objective, rows, fields = TargetLogistic(design), {"t": s, "w": w}, {"t": both}
    else:
        objective, rows = KnownPropensity(design), {"s": s, "w": w, "v": v}
        fields = {"s": both, "v": np.full(2, np.inf)}
    engine, ridge = InMemoryEngine(X, rows), np.array([1.0, 1.0, 1.0, 0.0])
    pseudo = add_pseudo_observations(attach(engine, w=w), design, weight)
    np.testing.assert_allclose(pseudo.point, np.append(np.average(X, axis=0, weights=w), 1.0), rtol=1e-12)
    total = float(w.sum())
    pulled = PenalisedProblem(engine, objective, ridge, (pseudo.pull(0),)).solve(
        np.zeros(4), total_weight=total, **OPTIONS
    )
    X_more, rows_more = with_pseudo_rows(X, rows, pseudo.point[:-1], weight, **fields)
    real = PenalisedProblem(InMemoryEngine(X_more, rows_more), objective, ridge)
    appended = real.solve(np.zeros(4), total_weight=total, **OPTIONS)
    assert pulled.status is appended.status is Status.CONVERGED
    np.testing.assert_allclose(pulled.parameters, appended.parameters, atol=1e-7)
    assert pulled.value == pytest.approx(appended.value, rel=1e-12)


def test_a_weight_of_0_gives_no_pseudo_observations():
    X, _, w, _ = table()
    assert add_pseudo_observations(InMemoryEngine(X, {"w": w}), Design.of(np.arange(3)), 0.0) is None


def test_pseudo_observations_affect_only_the_propensity_parameters():
    X, _, w, _ = table()
    pseudo = add_pseudo_observations(InMemoryEngine(X, {"w": w}), Design.of(np.array([1, 2])), 4.0)
    beta = np.random.default_rng(0).normal(size=8)
    gradient = pseudo.pull(3, 2).sums(beta).gradient
    np.testing.assert_array_equal(gradient[[0, 1, 2, 6, 7]], 0)
    # Matrix products may add up in another order, so rounding may differ.
    np.testing.assert_allclose(gradient[3:6], pseudo.pull(0).sums(beta[3:6]).gradient, rtol=0, atol=1e-14)


def test_pulls_have_the_same_effect_on_wide_models(monkeypatch):
    """Wide models are fitted without a Hessian matrix, by products with it."""
    X, s, w, v = table()
    engine, objective = InMemoryEngine(X, {"s": s, "w": w, "v": v}), KnownPropensity(Design.of(np.arange(3)))
    pulled = PenalisedProblem(
        engine, objective, np.array([1.0, 1.0, 1.0, 0.0]), (Pull(50.0, np.array([1.0, 0, 0, 1])),)
    )
    options = {**OPTIONS, "total_weight": float(w.sum())}
    narrow = pulled.solve(np.zeros(4), **options)
    monkeypatch.setattr(solving, "MAX_MATRIX_PARAMETERS", 2)
    wide = pulled.solve(np.zeros(4), **options)
    np.testing.assert_allclose(wide.parameters, narrow.parameters, atol=1e-6)


PAIR = LogisticPair(Design.of(np.array([2, 0])), Design.of(np.array([1, 2])))


def test_a_point_in_other_units_has_the_same_logit():
    units = Units(np.array([0.0, 3.0, -2.0]), np.array([1.0, 0.5, 4.0]))
    change = ChangeOfUnits.of(units, PAIR.designs, np.ones(6))
    for point, beta in np.random.default_rng(0).normal(size=(10, 2, 6)):
        assert change.point(point) @ change.to_scaled(beta) == pytest.approx(point @ beta, rel=1e-11)
        here, there = Pull(2.0, point).sums(beta), Pull(2.0, change.point(point)).sums(change.to_scaled(beta))
        assert there.value == pytest.approx(float(here.value), rel=1e-11)
        np.testing.assert_allclose(
            change._curvature_to_original(there.curvature), here.curvature, rtol=1e-9, atol=1e-12
        )


def test_the_optimum_with_pseudo_observations_does_not_depend_on_units():
    Z, s, w, _ = table(n=2000)
    shift = np.array([0.0, 1e6, 1e6])
    X = Z + shift
    centred, ridge = X - shift, np.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    options = {**OPTIONS, "total_weight": float(w.sum())}
    found = []
    for table_, reading in ((centred, None), (X, how_to_read(InMemoryEngine(X, {})))):
        engine = InMemoryEngine(table_, {"s": s, "w": w}, **({} if reading is None else {"reading": reading}))
        pseudo = add_pseudo_observations(attach(engine, w=w), PAIR.e, 200.0)
        pulled = PenalisedProblem(engine, PAIR, ridge, (pseudo.pull(3),))
        found.append((pulled.solve(np.zeros(6), **options), PenalisedProblem(engine, PAIR, ridge)))
    (here, _), (there, unpulled) = found
    np.testing.assert_allclose(there.parameters[[0, 1, 3, 4]], here.parameters[[0, 1, 3, 4]], atol=1e-5)
    assert there.value == pytest.approx(here.value, rel=1e-10)
    without = unpulled.solve(np.zeros(6), **options).parameters
    assert np.abs(without[[0, 1, 3, 4]] - there.parameters[[0, 1, 3, 4]]).max() > 0.01


OBJECTIVES = {
    "target": TargetLogistic(Design.of(np.array([2, 0]))),
    "known": KnownPropensity(Design.of(np.arange(3))),
    "pair": LogisticPair(Design.of(np.array([2, 0])), Design.of(np.array([1, 2]))),
}


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_a_change_of_units_changes_no_value_and_can_be_reversed(name):
    rng, objective, X = np.random.default_rng(1), OBJECTIVES[name], np.random.default_rng(0).normal(size=(500, 3))
    units = Units(np.array([0.0, 3.0, -2.0]), np.array([1.0, 0.5, 4.0]))
    s = (rng.random(500) < 0.4).astype(float)
    rows = {"s": s, "t": s, "w": rng.random(500), "v": rng.normal(size=500)}
    ridge, beta = rng.random(objective.n_parameters), rng.normal(size=objective.n_parameters)
    plain = PenalisedProblem(InMemoryEngine(X, rows), objective, ridge)
    change = ChangeOfUnits.of(units, objective.designs, ridge)
    scaled = (X - units.shift) * units.scale
    for _, intercept, _ in change.shift:
        ridge[intercept] = 0.0  # intercepts are not penalised
    other = PenalisedProblem(InMemoryEngine(scaled, rows), objective, change.ridge(ridge))
    here, there = plain.evaluate(beta, Curvature.OBSERVED), other.evaluate(change.to_scaled(beta), Curvature.OBSERVED)
    assert there.value == pytest.approx(float(here.value), rel=1e-12)
    np.testing.assert_allclose(change._to_original(change.to_scaled(beta)), beta, rtol=1e-12)
    np.testing.assert_allclose(change._curvature_to_original(there.curvature), here.curvature, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(change.curvature(here.curvature), there.curvature, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_the_optimum_equals_that_of_centred_columns(name, C):
    rng, objective, Z = np.random.default_rng(2), OBJECTIVES[name], np.random.default_rng(0).normal(size=(2000, 3))
    s = (rng.random(2000) < expit(Z @ [1, -1, 0.5]) * expit(Z[:, 1])).astype(float)
    rows = {"s": s, "t": s, "w": np.ones(2000), "v": Z[:, 1]}
    X = (Z + np.array([1e6, 0, 1e6])).astype(np.float32)
    centred = X.astype(np.float64) - [1e6, 0, 1e6]
    lengths = [d.n_columns for d in objective.designs]
    ridge = np.concatenate([np.append(np.full(n, 1 / C), 0.0) for n in lengths])
    options = {"total_weight": 2000.0, "tol": 1e-14, "max_iter": 200, "may_diverge": bool(np.isinf(C))}
    there = PenalisedProblem(InMemoryEngine(centred, rows), objective, ridge).solve(np.zeros(ridge.size), **options)
    far = PenalisedProblem(InMemoryEngine(X, rows, reading=how_to_read(InMemoryEngine(X, {}))), objective, ridge)
    here = far.solve(np.zeros(ridge.size), **options)
    assert here.status is there.status
    assert here.value == pytest.approx(there.value, rel=1e-11)
    start = 0
    for n in lengths:
        np.testing.assert_allclose(here.parameters[start : start + n], there.parameters[start : start + n], atol=1e-5)
        start += n + 1
