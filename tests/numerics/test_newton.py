"""The solver: closed forms, statuses, ill-conditioned matrices, and comparisons with other solvers."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from scarless.engines import InMemoryEngine
from scarless.numerics.linear import Design
from scarless.numerics.newton import (
    MAX_MATRIX_PARAMETERS,
    NewtonOptions,
    QuasiNewton,
    Status,
    minimise,
    solve_positive,
    truncated_step,
)
from scarless.numerics.objectives import Curvature, KnownPropensity, LogisticPair, Sums, TargetLogistic
from scarless.pair.solving import PenalisedProblem

EXACT = NewtonOptions(scale=1.0, tol=1e-15)
NAMES = ["target", "known", "pair"]
ALL = pytest.mark.parametrize("name", NAMES)
PATHS = pytest.mark.parametrize("matrix_free", [False, True], ids=["matrix", "matrix-free"])


@dataclass
class Quadratic:
    """x'Ax/2 - b'x."""

    A: np.ndarray
    b: np.ndarray

    def evaluate(self, beta, curvature):
        matrix = np.diag(self.A) if curvature is Curvature.DIAGONAL else self.A
        return Sums(np.asarray(0.5 * beta @ self.A @ beta - self.b @ beta), self.A @ beta - self.b, matrix)

    def products(self, beta, curvature):
        return lambda direction: self.A @ direction

    def reach(self, direction):
        return np.zeros(1)  # No step is too long, because a parabola never saturates.

    def grams(self):
        return None


@dataclass
class Altered:
    """A problem whose sums were altered."""

    problem: PenalisedProblem
    alter: object

    def evaluate(self, beta, curvature):
        return self.alter(self.problem.evaluate(beta, curvature))

    def products(self, beta, curvature):
        return self.problem.products(beta, curvature)

    def reach(self, direction):
        return self.problem.reach(direction)

    def grams(self):
        return self.problem.grams()


def _design(d):
    return Design.of(np.arange(d))


def _ridge(objective, C):
    if isinstance(objective, LogisticPair):
        return np.concatenate([_ridge(TargetLogistic(objective.f), C), _ridge(TargetLogistic(objective.e), C)])
    return np.append(np.full(objective.n_parameters - 1, 1 / C), 0.0)


def _problem(name, X, rows, *, C=np.inf):
    design = _design(X.shape[1])
    objective = {"target": TargetLogistic(design), "known": KnownPropensity(design)}.get(name)
    objective = objective or LogisticPair(design, _design(1))
    return PenalisedProblem(InMemoryEngine(X, rows, n_threads=1), objective, _ridge(objective, C))


def _random_problem(name, seed, *, n=60, d=3, C=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    e = expit(X[:, 0] + 0.5)
    s = (rng.random(n) < expit(X @ np.linspace(-1, 1, d)) * e).astype(float)
    rows = {"s": s, "t": s / e if seed % 2 else s, "v": logit(e), "w": rng.random(n) + 0.5}
    return _problem(name, X, rows, C=C)


def _start(problem):
    return np.zeros(problem.ridge.size)


def _solve(problem, *, tol=1e-14, start=None, **options):
    scale = float(problem.engine.rows["w"].sum())
    start = _start(problem) if start is None else start
    return minimise(problem, start, NewtonOptions(scale=scale, tol=tol, **options))


# Closed forms


def test_a_quadratic_takes_one_step():
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    problem = Quadratic(A, np.array([1.0, -3.0]))
    solution = minimise(problem, np.array([5.0, 5.0]), EXACT)
    assert solution.status is Status.CONVERGED
    assert [trace.step for trace in solution.history] == [1.0, 0.0]
    assert solution.n_iter == 2
    np.testing.assert_allclose(solution.parameters, np.linalg.solve(A, problem.b), rtol=1e-14)
    # For a quadratic the predicted gain is the gain.
    assert solution.history[0].gain == pytest.approx(solution.history[0].value - solution.value, rel=1e-13)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_quasi_newton_learns_a_parabola_step_by_step(seed, d):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    A = root @ root.T + np.eye(d)
    model, steps = QuasiNewton.of(np.eye(d)), np.linalg.eigh(A)[1].T
    for step in steps:
        model.update(step, A @ step)
        np.testing.assert_allclose(model.step(-A @ step), step, atol=1e-10)  # The update is reproduced.
    # After conjugate steps in all directions, the inverse is exact.
    np.testing.assert_allclose(model.inverse, np.linalg.inv(A), atol=1e-10)
    before = model.inverse
    model.update(np.ones(d), -np.ones(d))  # Negative curvature is ignored.
    np.testing.assert_array_equal(model.inverse, before)


def test_quasi_newton_needs_a_positive_definite_start():
    assert QuasiNewton.of(np.diag([1.0, -1.0])) is None
    assert QuasiNewton.of(np.full((2, 2), np.nan)) is None


@given(seed=st.integers(0, 20), guess=st.sampled_from(["right", "half", "tenfold", "another"]))
@settings(max_examples=30)
def test_an_approximate_hessian_saves_passes_or_does_no_harm(seed, guess):
    problem = _random_problem("pair", seed, n=300)
    plain = _solve(problem, tol=1e-12)
    there, near = plain.parameters, plain.parameters + 0.03
    exact = problem.evaluate(there, Curvature.OBSERVED).curvature
    other = np.diag(np.random.default_rng(seed).uniform(0.01, 100.0, size=len(there)))
    curvature = {"right": exact, "half": exact / 2.0, "tenfold": 10.0 * exact, "another": other}[guess]
    seen: list[Curvature] = []
    counted = Altered(problem, lambda sums: sums)
    counted.evaluate = lambda beta, kind: seen.append(kind) or problem.evaluate(beta, kind)
    options = NewtonOptions(scale=300.0, tol=1e-12, curvature=curvature)
    solution = minimise(counted, near, options)
    assert solution.status is Status.CONVERGED
    assert solution.value == pytest.approx(plain.value, abs=1e-8)
    assert solution.n_passes >= len(seen)  # lengths of steps may need passes of their own
    values = [at.value for at in solution.history]
    assert values == sorted(values, reverse=True)
    if guess == "right":
        assert [kind for kind in seen if kind is not Curvature.NONE] == [Curvature.OBSERVED]
        np.testing.assert_allclose(solution.curvature, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_with_an_approximate_hessian_the_last_step_is_taken(seed):
    problem = _random_problem("pair", seed, n=300)
    best = _solve(problem, tol=1e-15)
    near = best.parameters + 0.03
    curvature = problem.evaluate(best.parameters, Curvature.OBSERVED).curvature
    options = NewtonOptions(scale=300.0, tol=1e-5, curvature=curvature)
    solution = minimise(problem, near, options)
    excess = float(problem.evaluate(solution.parameters, Curvature.NONE).value) - best.value
    assert (solution.status, solution.history[-1].step) == (Status.CONVERGED, 1.0)
    assert 0.0 < solution.gain <= 300.0 * 1e-5
    assert excess <= 0.03 * solution.gain + 1e-10  # The step gained what it predicted: Newton's method is quadratic.
    assert solution.value == pytest.approx(best.value, abs=0.03 * solution.gain + 1e-10)


@pytest.mark.parametrize("times", [0.3, 3.0], ids=["too flat", "too steep"])
def test_most_steps_with_a_wrong_hessian_need_no_hessian(times):
    problem, seen = _random_problem("pair", 0, n=300), []
    best = _solve(problem, tol=1e-15)
    near = best.parameters + 0.1
    counted = Altered(problem, lambda sums: sums)
    counted.evaluate = lambda beta, kind: seen.append(kind) or problem.evaluate(beta, kind)
    curvature = times * problem.evaluate(best.parameters, Curvature.OBSERVED).curvature
    solution = minimise(counted, near, NewtonOptions(scale=300.0, tol=1e-12, curvature=curvature))
    assert solution.value == pytest.approx(best.value, abs=1e-9)
    assert sum(kind is not Curvature.NONE for kind in seen) < solution.n_iter - 1


def test_a_quadratic_without_a_matrix():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 20))
    problem = Quadratic(root.T @ root + np.eye(20), rng.normal(size=20))
    solution = minimise(problem, np.ones(20), replace(EXACT, matrix_free=True))
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.parameters, np.linalg.solve(problem.A, problem.b), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("size", [1.5, 30.0, 1e3, 1e6, 1e9])
def test_a_long_step_gets_the_least_power_of_ten_as_damping(size):
    """A parabola whose optimum is `size` away, in a space where no step may be longer than 1."""

    class Narrow(Quadratic):
        def grams(self):
            return (np.eye(3),)

    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]])
    b = A @ (size * np.array([0.6, 0.0, 0.8]))
    steps = (np.linalg.solve(A + 10.0**power * np.diag(np.diag(A)), b) for power in range(-9, 8))
    expected = next((step for step in steps if np.linalg.norm(step) <= 1.0), None)
    found = minimise(Narrow(A, b), np.zeros(3), NewtonOptions(scale=1.0, max_iter=1)).parameters
    if expected is None:  # The largest damping is used without a check.
        expected = np.linalg.solve(A + 1e7 * np.diag(np.diag(A)), b)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_start_at_the_optimum_stays_there():
    solution = minimise(Quadratic(np.eye(2), np.zeros(2)), np.zeros(2), EXACT)
    assert (solution.status, solution.n_iter, solution.gain) == (Status.CONVERGED, 1, 0.0)


def _groups():
    """Three groups as two dummy columns, one row per group and label, weights that make any rate exact."""
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 2, axis=0)
    return X, np.tile([1.0, 0.0], 3)


def _weights(rate, counts=(10.0, 20.0, 30.0)):
    rate, counts = np.asarray(rate), np.asarray(counts)
    return np.column_stack([counts * rate, counts * (1 - rate)]).ravel()


def _group_logits(parameters):
    return parameters[2] + np.array([0.0, parameters[0], parameters[1]])


@PATHS
def test_logistic_regression_on_groups_has_the_group_shares(matrix_free):
    X, s = _groups()
    rate = np.array([0.2, 0.5, 0.9])
    solution = _solve(_problem("target", X, {"t": s, "w": _weights(rate)}), matrix_free=matrix_free, may_diverge=True)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(_group_logits(solution.parameters), logit(rate), rtol=1e-6, atol=1e-6)


@PATHS
def test_a_known_constant_propensity_divides_the_group_shares(matrix_free):
    X, s = _groups()
    rate, c = np.array([0.1, 0.3, 0.35]), 0.4
    rows = {"s": s, "w": _weights(rate), "v": np.full(6, logit(c))}
    solution = _solve(_problem("known", X, rows), matrix_free=matrix_free, may_diverge=True)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(expit(_group_logits(solution.parameters)), rate / c, rtol=1e-6)


def test_an_unknown_constant_propensity_is_found_in_a_saturated_model():
    # Three values of x, three parameters (slope, intercept, c): at the optimum the model reproduces all rates.
    X, s = np.repeat([[-2.0], [0.0], [2.0]], 2, axis=0), np.tile([1.0, 0.0], 3)
    slope, intercept, c = 1.5, 0.5, 0.3
    rate = c * expit(slope * X[::2, 0] + intercept)
    pair = LogisticPair(_design(1), Design.of(np.array([], dtype=np.intp)))
    engine = InMemoryEngine(X, {"s": s, "w": _weights(rate, (100.0, 100.0, 100.0))})
    problem = PenalisedProblem(engine, pair, np.zeros(3))
    solution = _solve(problem, may_diverge=True, start=np.array([0.5, 0.0, 0.0]), tol=1e-16)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.parameters, [slope, intercept, logit(c)], rtol=1e-5)


# Statuses


@pytest.mark.parametrize("max_iter", [0, 1, 2])
def test_max_iter(max_iter):
    solution = _solve(_random_problem("pair", 0), max_iter=max_iter)
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == max_iter
    assert len(solution.history) == max_iter
    if max_iter:
        assert solution.value < solution.history[0].value


@PATHS
@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e3, 1e6])
def test_separable_classes_without_penalty_have_their_optimum_at_infinity(matrix_free, shift, unit):
    X = (np.array([[-2.0], [-1.0], [1.0], [2.0]]) + shift) * unit
    problem = _problem("target", X, {"t": np.array([0.0, 0.0, 1.0, 1.0]), "w": np.ones(4)})
    solution = _solve(problem, may_diverge=True, tol=1e-10, matrix_free=matrix_free)
    assert solution.status is Status.AT_INFINITY
    assert solution.value < 1e-6
    assert np.isfinite(solution.parameters).all()


def test_labels_of_one_kind_without_penalty_have_their_optimum_at_infinity():
    problem = _problem("target", np.zeros((5, 1)), {"t": np.ones(5), "w": np.ones(5)})
    assert _solve(problem, may_diverge=True, tol=1e-10).status is Status.AT_INFINITY


@ALL
@PATHS
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_overlapping_classes_without_penalty_converge(name, matrix_free, unit):
    problem = _random_problem(name, 4, n=2000, C=np.inf)
    problem = replace(problem, engine=InMemoryEngine(problem.engine.X * unit, problem.engine.rows))
    solution = _solve(problem, may_diverge=True, tol=1e-12, matrix_free=matrix_free)
    assert solution.status is Status.CONVERGED


def test_an_optimum_at_zero_is_not_one_at_infinity():
    rows = {"t": np.full(4, 0.5), "w": np.ones(4)}
    problem = _problem("target", np.array([[-2.0], [-1.0], [1.0], [2.0]]), rows)
    assert _solve(problem, may_diverge=True, start=np.array([1e-3, 1e-3])).status is Status.CONVERGED


def test_a_penalty_brings_the_optimum_back_from_infinity():
    X, t = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    solution = _problem("target", X, {"t": t, "w": np.ones(4)}, C=1.0).solve(
        np.zeros(2), total_weight=4.0, tol=1e-12, max_iter=50
    )
    assert solution.status is Status.CONVERGED


@PATHS
def test_a_wrong_gradient_stalls_and_leaves_the_parameters_alone(matrix_free):
    problem, start = _random_problem("target", 1), np.array([0.1, 0.2, 0.3, 0.4])
    wrong = Altered(problem, lambda sums: sums._replace(gradient=-sums.gradient))
    solution = minimise(wrong, start, NewtonOptions(scale=60.0, matrix_free=matrix_free))
    assert solution.status is Status.STALLED
    np.testing.assert_array_equal(solution.parameters, start)
    assert solution.history[-1].step == 0
    assert solution.gain > 0


def test_values_that_are_not_numbers_stall():
    problem = _random_problem("target", 1)
    calls = []

    def alter(sums):
        calls.append(sums)
        return sums if len(calls) <= 2 else sums._replace(value=np.asarray(np.nan))

    solution = minimise(Altered(problem, alter), _start(problem), NewtonOptions(scale=60.0))
    assert solution.status is Status.STALLED
    assert np.isfinite(solution.value)


def test_solver_counts_its_passes_over_the_rows():
    problem, calls = _random_problem("pair", 2), []
    counted = Altered(problem, lambda sums: calls.append(1) or sums)
    counted.reach = lambda direction: calls.append(1) or problem.reach(direction)
    counted.grams = lambda: calls.append(1) or problem.grams()
    solution = minimise(counted, _start(problem), EXACT)
    assert solution.n_passes == len(calls)
    counted.grams, calls[:] = lambda: None, []  # as for models with too many columns for a matrix
    assert minimise(counted, _start(problem), EXACT).n_passes == len(calls) >= solution.n_passes


@ALL
def test_reach_is_the_squared_change_of_each_models_logits(name):
    problem = _random_problem(name, 3)
    direction = np.random.default_rng(0).normal(size=problem.objective.n_parameters)
    X, w = problem.engine.X, problem.engine.rows["w"]
    designs = [problem.objective.f, problem.objective.e] if name == "pair" else [problem.objective.design]
    parts = np.split(direction, [designs[0].n_parameters])
    want = [w @ (design.take(X) @ part[:-1] + part[-1]) ** 2 for design, part in zip(designs, parts, strict=False)]
    np.testing.assert_allclose(problem.reach(direction), want, rtol=1e-12)
    forms = [part @ matrix @ part for matrix, part in zip(problem.grams(), parts, strict=False)]
    np.testing.assert_allclose(forms, want, rtol=1e-12)


@PATHS
def test_no_step_goes_to_the_plateau_of_saturated_probabilities(matrix_free):
    """From propensities near 1 an undamped step would go to e = 1 and stay there; the optimum is at e = 0.3."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = rng.random(2000) < expit(2.0 * X[:, 0])
    s = (y & (rng.random(2000) < 0.3)).astype(float)
    pair = LogisticPair(_design(1), Design.of(np.arange(0)))
    engine = InMemoryEngine(X, {"s": s, "w": np.ones(2000)})
    problem = PenalisedProblem(engine, pair, np.array([1.0, 0.0, 0.0]))
    options = NewtonOptions(scale=2000.0, matrix_free=matrix_free)
    near, far = (minimise(problem, np.array([1.0, 0.0, v]), options) for v in (0.0, 6.0))
    assert far.status is Status.CONVERGED
    assert far.value == pytest.approx(near.value, abs=2000 * 1e-8)
    assert expit(far.parameters[-1]) == pytest.approx(0.3, abs=0.1)


# Hard matrices and scales


@ALL
@PATHS
@pytest.mark.parametrize("extra", ["constant", "zero", "duplicate"])
def test_redundant_columns_change_no_probability(name, matrix_free, extra):
    plain = _random_problem(name, 6, n=400, C=np.inf)
    X = plain.engine.X
    column = {"constant": np.ones(400), "zero": np.zeros(400), "duplicate": X[:, 1]}[extra]
    singular = _problem(name, np.column_stack([X, column]), plain.engine.rows)
    want = _solve(plain, may_diverge=True)
    got = _solve(singular, may_diverge=True, matrix_free=matrix_free)
    assert want.status is got.status is Status.CONVERGED
    assert got.value == pytest.approx(want.value, rel=1e-11)
    np.testing.assert_allclose(
        X @ got.parameters[:3] + column * got.parameters[3] + got.parameters[4],
        X @ want.parameters[:3] + want.parameters[3],
        atol=2e-4,
    )


@ALL
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_units_of_the_columns_do_not_matter(name, C):
    plain = _random_problem(name, 8, n=300, C=C)
    units = np.array([1e-6, 1.0, 1e6])
    n_parameters = plain.ridge.size
    scale = np.ones(n_parameters)
    scale[:3] = units
    if name == "pair":
        scale[4] = units[0]
    scaled = replace(_problem(name, plain.engine.X * units, plain.engine.rows), ridge=plain.ridge * scale**2)
    want, got = _solve(plain), _solve(scaled)
    assert want.status is got.status is Status.CONVERGED
    assert got.value == pytest.approx(want.value, rel=1e-11)
    np.testing.assert_allclose(got.parameters * scale, want.parameters, atol=1e-5)


@ALL
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_matrix_free_reaches_the_same_optimum(name, C):
    problem = _random_problem(name, 10, n=300, d=6, C=C)
    with_matrix = _solve(problem)
    # Start nearby: a pair has several optima, and another path may end at another optimum.
    start = with_matrix.parameters + 0.05 * np.random.default_rng(0).normal(size=problem.ridge.size)
    without = _solve(problem, start=start, matrix_free=True)
    assert with_matrix.status is without.status is Status.CONVERGED
    assert without.value == pytest.approx(with_matrix.value, rel=1e-12)
    np.testing.assert_allclose(without.parameters, with_matrix.parameters, atol=2e-5)


@pytest.mark.parametrize("distance", [-30.0, -10.0, 10.0, 30.0])
def test_a_convex_objective_comes_back_from_a_far_start(distance):
    problem = _random_problem("target", 11)
    near, far = _solve(problem), _solve(problem, start=np.full(4, distance))
    assert far.status is Status.CONVERGED
    np.testing.assert_allclose(far.parameters, near.parameters, atol=1e-6)


def test_a_trial_point_far_away_overflows_nothing():
    # Logits of 1e4 have no information, so the first step is huge. It goes into the intercept, which has no penalty.
    rows = {"t": np.array([0.0, 1.0]), "w": np.ones(2)}
    sums = _problem("target", np.zeros((2, 1)), rows, C=1.0).evaluate(np.array([0.0, 1e218]), Curvature.EXPECTED)
    assert sums.value == pytest.approx(1e218)
    np.testing.assert_allclose(sums.gradient, [0.0, 1.0])


@ALL
def test_dense_sparse_and_single_precision_reach_the_same_optimum(name):
    problem = _random_problem(name, 12, n=300)
    want = _solve(problem, tol=1e-12)
    csr = replace(problem, engine=InMemoryEngine(sparse.csr_array(problem.engine.X), problem.engine.rows))
    single = replace(problem, engine=InMemoryEngine(problem.engine.X.astype(np.float32), problem.engine.rows))
    options = {"total_weight": float(problem.engine.rows["w"].sum()), "tol": 1e-12, "max_iter": 100}
    np.testing.assert_allclose(csr.solve(_start(csr), **options).parameters, want.parameters, rtol=1e-7, atol=1e-9)
    of_single = single.solve(_start(single), **options)
    assert of_single.status is Status.CONVERGED
    np.testing.assert_allclose(of_single.parameters, want.parameters, atol=2e-3)


def test_models_too_wide_for_a_matrix_are_solved_without_one():
    width = MAX_MATRIX_PARAMETERS + 1
    rng = np.random.default_rng(0)
    X = sparse.random(300, width, density=0.01, format="csr", random_state=0)
    problem = _problem("target", X, {"t": (rng.random(300) < 0.4).astype(float), "w": np.ones(300)}, C=1.0)
    refuse = Altered(problem, lambda sums: sums)
    solution = problem.solve(np.zeros(width + 1), total_weight=300.0, tol=1e-12, max_iter=100)
    assert solution.status is Status.CONVERGED
    gradient = refuse.evaluate(solution.parameters, Curvature.NONE).gradient
    assert np.abs(gradient).max() < 1e-3
    model = LogisticRegression(tol=1e-10, max_iter=1000).fit(X, problem.engine.rows["t"])
    np.testing.assert_allclose(solution.parameters[:-1], model.coef_[0], atol=1e-4)


# Comparisons with other solvers


@ALL
@pytest.mark.parametrize("seed", range(4))
def test_scipy_finds_no_lower_value(name, seed):
    problem = _random_problem(name, seed, C=2.0)
    solution = _solve(problem)

    def function(beta):
        value, gradient, _ = problem.evaluate(beta, Curvature.NONE)
        return float(value), gradient

    for method in ("BFGS", "L-BFGS-B"):
        from_solution = minimize(function, solution.parameters, jac=True, method=method)
        assert from_solution.fun >= solution.value - 1e-9
        if name != "pair":  # The pair is not convex: other starts may end at other optima.
            from_start = minimize(function, _start(problem), jac=True, method=method)
            assert from_start.fun == pytest.approx(solution.value, rel=1e-6)
    assert np.abs(problem.evaluate(solution.parameters, Curvature.NONE).gradient).max() < 1e-5


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky"])
@pytest.mark.parametrize("C", [0.1, 10.0])
@PATHS
def test_targets_that_are_labels_make_scikit_learns_logistic_regression(solver, C, matrix_free):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    t, w = (rng.random(200) < expit(X[:, 0] - 0.3)).astype(float), rng.random(200)
    solution = _solve(_problem("target", X, {"t": t, "w": w}, C=C), tol=1e-15, matrix_free=matrix_free)
    model = LogisticRegression(C=C, solver=solver, tol=1e-10, max_iter=10_000).fit(X, t, sample_weight=w)
    np.testing.assert_allclose(solution.parameters[:-1], model.coef_[0], atol=1e-5)
    np.testing.assert_allclose(solution.parameters[-1], model.intercept_[0], atol=1e-5)


@ALL
def test_penalty_enters_value_gradient_and_every_curvature(name):
    free, bound = _random_problem(name, 0, C=np.inf), _random_problem(name, 0, C=0.5)
    beta, ridge = np.linspace(-1, 1, free.ridge.size), bound.ridge
    for curvature, extra in (
        (Curvature.EXPECTED, np.diag(ridge)),
        (Curvature.OBSERVED, np.diag(ridge)),
        (Curvature.DIAGONAL, ridge),
        (Curvature.NONE, np.zeros(0)),
    ):
        without, with_penalty = free.evaluate(beta, curvature), bound.evaluate(beta, curvature)
        assert with_penalty.value == pytest.approx(without.value + 0.5 * ridge @ beta**2, rel=1e-14)
        np.testing.assert_allclose(with_penalty.gradient, without.gradient + ridge * beta, rtol=1e-13)
        np.testing.assert_allclose(with_penalty.curvature, without.curvature + extra, rtol=1e-13)
    for curvature in (Curvature.EXPECTED, Curvature.OBSERVED):
        with_penalty, without = (problem.products(beta, curvature)(beta) for problem in (bound, free))
        np.testing.assert_allclose(with_penalty, without + ridge * beta, rtol=1e-13)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.integers(0, 2**31),
    st.integers(1, 25),
    st.integers(1, 3),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from([1e-4, 1.0, 1e4]),
    st.booleans(),
)
def test_the_objective_never_rises(name, seed, n, d, C, scale, matrix_free):
    problem = _random_problem(name, 2 * seed, n=n, d=d, C=C)  # even: targets in [0, 1], so that there is a minimum
    problem = replace(problem, engine=InMemoryEngine(problem.engine.X * scale, problem.engine.rows, n_threads=1))
    start = np.random.default_rng(seed).normal(size=problem.ridge.size) / max(1.0, scale)
    solution = _solve(problem, start=start, tol=1e-10, matrix_free=matrix_free)
    values = np.array([*(trace.value for trace in solution.history), solution.value])
    assert (np.diff(values) <= 1e-13 * np.abs(values[:-1])).all()
    assert np.isfinite(solution.parameters).all()
    np.testing.assert_array_equal(solution.history[0].parameters, start)
    assert all(trace.gain >= 0 for trace in solution.history)


# solve_positive


def test_solve_positive_solves():
    matrix, right = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(solve_positive(matrix, right), np.linalg.solve(matrix, right), rtol=1e-15)
    np.testing.assert_allclose(solve_positive(np.array([[2.0]]), np.array([3.0])), [1.5], rtol=1e-15)


def test_solve_positive_is_exact_across_units():
    units = np.array([1e-120, 1e-6, 1.0, 1e90])
    matrix = (np.eye(4) + 0.3) * units[:, None] * units
    x = np.array([1.0, 2.0, 3.0, 4.0]) / units
    np.testing.assert_allclose(solve_positive(matrix, (np.eye(4) + 0.3) @ [1.0, 2.0, 3.0, 4.0] * units), x, rtol=1e-13)


@pytest.mark.parametrize("rank", [1, 2])
def test_solve_positive_solves_a_consistent_singular_system(rank):
    root = np.random.default_rng(rank).normal(size=(rank, 4))
    matrix = root.T @ root
    right = matrix @ np.ones(4)
    np.testing.assert_allclose(matrix @ solve_positive(matrix, right), right, rtol=1e-6)


def test_solve_positive_does_not_move_along_directions_without_information():
    np.testing.assert_allclose(solve_positive(np.diag([2.0, 0.0]), np.array([4.0, 0.0])), [2.0, 0.0], rtol=1e-11)
    np.testing.assert_array_equal(solve_positive(np.zeros((2, 2)), np.zeros(2)), [0.0, 0.0])


@pytest.mark.parametrize(
    "matrix", [[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, -5.0]], [[0.0, 1.0], [1.0, 0.0]], [[1.0, 9.0], [9.0, 1.0]]]
)
def test_solve_positive_of_any_matrix_gives_a_direction_of_descent(matrix):
    right = np.array([1.0, -2.0])
    assert right @ solve_positive(np.array(matrix), right) > 0


def test_solve_positive_of_a_matrix_of_nan_returns_the_right_side():
    right = np.array([1.0, -2.0])
    np.testing.assert_array_equal(solve_positive(np.full((2, 2), np.nan), right), right)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**31), st.lists(st.floats(-8, 8), min_size=6, max_size=6))
def test_solve_positive_inverts_well_conditioned_matrices_in_any_units(d, seed, powers):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    units = 10.0 ** np.array(powers[:d])
    matrix, x = root.T @ root + np.eye(d), rng.normal(size=d)
    got = solve_positive(matrix * units[:, None] * units, matrix @ x * units) * units
    np.testing.assert_allclose(got, x, rtol=1e-9, atol=1e-10)


def test_a_direction_with_almost_no_information_gives_a_finite_step():
    matrix, right = np.diag([1.0, 1e-305]), np.array([1.0, 1e10])
    step = solve_positive(matrix, right)
    assert np.isfinite(step).all()
    assert step[0] == pytest.approx(1.0)
    np.testing.assert_allclose(solve_positive(np.diag([1.0, 1e-200]), right), [1.0, 1e210])


# --- Truncated conjugate gradients: the exact step if it is inside the ball, otherwise a step to the boundary


def _matrix(seed, d, *, lowest):
    """Return a symmetric matrix with eigenvalues from `lowest` to 3, a gradient and a positive diagonal."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    matrix = turn @ np.diag(np.linspace(lowest, 3.0, d)) @ turn.T
    return (matrix + matrix.T) / 2, rng.normal(size=d), rng.uniform(0.5, 2.0, d)


@pytest.mark.parametrize("d", [1, 2, 8])
def test_a_definite_parabola_is_minimised(d):
    H, g, diagonal = _matrix(d, d, lowest=0.2)
    step, cut = truncated_step(lambda v: H @ v, g, diagonal, radius=np.inf, rtol=1e-12)
    assert not cut
    np.testing.assert_allclose(step, -np.linalg.solve(H, g), rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 8), st.floats(-2, 1), st.floats(1e-3, 10))
def test_no_step_is_longer_than_the_radius_and_each_gains_at_least_as_much_as_a_gradient_step(seed, d, lowest, radius):
    H, g, diagonal = _matrix(seed, d, lowest=lowest)
    step, cut = truncated_step(lambda v: H @ v, g, diagonal, radius=radius, rtol=1e-10)
    length = np.sqrt(step @ (diagonal * step))
    assert length <= radius * (1 + 1e-9)
    if cut:
        assert length == pytest.approx(radius)

    def parabola(v):
        return g @ v + 0.5 * v @ H @ v

    down = -g / diagonal
    edge = radius / np.sqrt(down @ (diagonal * down))
    bend = down @ H @ down
    best = min(edge, -(g @ down) / bend) if bend > 0 else edge
    assert parabola(step) <= parabola(best * down) + 1e-9
    assert g @ step < 0


def test_negative_curvature_is_followed_to_the_boundary_and_not_at_all_without_one():
    H, g = np.diag([-1.0, 1.0]), np.array([0.1, 1.0])
    step, cut = truncated_step(lambda v: H @ v, g, np.ones(2), radius=5.0, rtol=1e-12)
    assert cut
    assert np.linalg.norm(step) == pytest.approx(5.0)
    assert step[0] < -1  # away from the saddle point
    step, cut = truncated_step(lambda v: H @ v, g, np.ones(2), radius=np.inf, rtol=1e-12)
    assert cut
    assert g @ step < 0


def test_a_zero_gradient_gives_a_zero_step():
    step, cut = truncated_step(lambda v: v, np.zeros(3), np.ones(3), radius=1.0, rtol=0.1)
    assert not cut
    assert not step.any()
