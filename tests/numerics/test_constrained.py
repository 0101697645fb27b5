"""The constrained solver: first-order conditions, the envelope theorem, and an independent solver."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from scarless.numerics.constrained import FixedPriorOptions, PairWithPositives, minimise_at_class_prior
from scarless.numerics.linear import Design
from scarless.numerics.newton import NewtonOptions, minimise
from scarless.numerics.objectives import Curvature, LogisticPair

F, E = Design(slice(0, 2), 2), Design(slice(1, 3), 2)
RIDGE = np.array([1.0, 1.0, 0.0, 0.5, 0.5, 0.0])


class Problem:
    """A small penalised problem on one block, for both solvers."""

    def __init__(self, n=400, seed=0, ridge=RIDGE):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, 3))
        s = rng.random(n) < expit(1.5 * self.X[:, 0] - 0.3) * expit(self.X[:, 2])
        self.rows = {"s": s.astype(float), "w": rng.integers(1, 3, n).astype(float)}
        self.pair, self.ridge = LogisticPair(F, E), ridge
        self.scale = float(self.rows["w"].sum())

    def evaluate(self, beta, curvature):
        sums = PairWithPositives(self.pair).sums(self.X, self.rows, beta, curvature)
        matrix = sums.curvature
        if curvature is Curvature.DIAGONAL:
            matrix = matrix + self.ridge
        elif curvature is not Curvature.NONE:
            matrix = matrix + np.diag(self.ridge)
        return sums._replace(
            value=sums.value + 0.5 * self.ridge @ beta**2, gradient=sums.gradient + self.ridge * beta, curvature=matrix
        )

    def reach(self, direction):
        return self.pair.reach(self.X, self.rows, direction)[0]

    def grams(self):
        return None

    def product(self, beta, direction):
        raise NotImplementedError


@pytest.fixture(scope="module")
def problem():
    return Problem()


@pytest.fixture(scope="module")
def fit(problem):
    return minimise(problem, np.zeros(6), NewtonOptions(scale=problem.scale, tol=1e-14)).parameters


def at_class_prior(problem, start, share, **options):
    return minimise_at_class_prior(
        problem,
        start,
        positives=share * problem.scale,
        multiplier=0.0,
        options=FixedPriorOptions(scale=problem.scale, **options),
    )


def test_derivatives_of_the_positives_are_right(problem):
    beta = np.array([0.7, -0.4, 0.2, 0.3, 0.9, -0.5])
    sums = problem.evaluate(beta, Curvature.OBSERVED)
    steps = 1e-5 * np.eye(6)

    def change(field):
        up = [np.asarray(getattr(problem.evaluate(beta + h, Curvature.NONE), field)) for h in steps]
        down = [np.asarray(getattr(problem.evaluate(beta - h, Curvature.NONE), field)) for h in steps]
        return (np.array(up) - np.array(down)) / 2e-5

    np.testing.assert_allclose(sums.positives_gradient, change("positives"), atol=1e-6)
    np.testing.assert_allclose(sums.positives_curvature, change("positives_gradient")[:3, :3], atol=1e-6)
    np.testing.assert_array_equal(sums.positives_gradient[3:], 0)


@pytest.mark.parametrize("share", [0.35, 0.45, 0.55, 0.65])
def test_first_order_conditions_hold(problem, fit, share):
    found = at_class_prior(problem, fit, share)
    at = problem.evaluate(found.parameters, Curvature.NONE)
    assert found.converged
    assert float(at.positives) / problem.scale == pytest.approx(share, abs=1e-9)
    # The objective's gradient is a multiple of the constraint's: no direction at the same class prior lowers it.
    np.testing.assert_allclose(at.gradient + found.multiplier * at.positives_gradient, 0, atol=1e-3)


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_an_independent_solver_finds_no_lower_value(problem, fit, share):
    found = at_class_prior(problem, fit, share)
    other = minimize(
        lambda beta: float(problem.evaluate(beta, Curvature.NONE).value),
        fit,
        jac=lambda beta: problem.evaluate(beta, Curvature.NONE).gradient,
        method="SLSQP",
        constraints={
            "type": "eq",
            "fun": lambda beta: float(problem.evaluate(beta, Curvature.NONE).positives) / problem.scale - share,
            "jac": lambda beta: problem.evaluate(beta, Curvature.NONE).positives_gradient / problem.scale,
        },
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert other.success
    assert found.value == pytest.approx(other.fun, abs=1e-5)
    np.testing.assert_allclose(found.parameters, other.x, atol=2e-3)


def test_the_multiplier_is_the_slope_of_the_best_value(problem, fit):
    """The envelope theorem."""
    at, up, down = (at_class_prior(problem, fit, share, tol=1e-15) for share in (0.6, 0.601, 0.599))
    slope = (up.value - down.value) / (up.positives - down.positives)
    assert at.multiplier == pytest.approx(-slope, rel=1e-4)


def test_the_unconstrained_optimum_stays_the_solution_at_its_own_class_prior(problem, fit):
    share = float(problem.evaluate(fit, Curvature.NONE).positives) / problem.scale
    found = at_class_prior(problem, fit, share)
    assert found.converged
    assert found.n_iter == 1
    assert found.multiplier == pytest.approx(0, abs=1e-5)
    np.testing.assert_array_equal(found.parameters, fit)


def test_a_distant_start_converges_too(problem):
    found = at_class_prior(problem, np.zeros(6), 0.5)
    near = at_class_prior(problem, found.parameters, 0.5)
    assert found.converged
    assert found.value == pytest.approx(near.value, abs=1e-6)


def test_duplicate_columns_do_no_harm():
    problem = Problem(ridge=np.zeros(6))
    problem.X[:, 1] = problem.X[:, 0]
    found = at_class_prior(problem, np.array([0.5, 0.5, 0.0, 0.1, 0.9, 0.0]), 0.5)
    at = problem.evaluate(found.parameters, Curvature.NONE)
    assert found.converged
    np.testing.assert_allclose(at.gradient + found.multiplier * at.positives_gradient, 0, atol=1e-2)


def test_running_out_of_iterations_is_reported(problem, fit):
    assert not at_class_prior(problem, fit, 0.8, max_iter=1).converged


def test_the_solver_does_not_converge_if_no_parameter_changes_the_class_prior(problem):
    saturated = np.array([0.0, 0.0, 800.0, 0.0, 0.0, 0.0])  # f = 1 on every row, to the last bit
    assert not at_class_prior(problem, saturated, 0.5).converged
