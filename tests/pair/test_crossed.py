"""Cross-fits of pairs with offsets, bounds, constraints and learned propensities, and their tables."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from scarless.engines import attach
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.pair.constraints import Constraint
from scarless.pair.cross_fit import LogisticPropensity
from scarless.pair.crossed import CrossOptions, cross_fit, numeric_columns, one_label_problem, problem_on_table
from scarless.pair.fit import FitOptions
from scarless.pair.logistic import Training, engine_of, in_memory
from scarless.pair.optima import best_fit
from scarless.pair.problem import PSEUDO_FALSE_LABEL_WEIGHT, PairProblem, summarise_observations
from scarless.pair.recalibrated import grid_interval

NOTHING = Design.of(np.arange(0))
EXACT = LogisticRegression(C=1e4, tol=1e-12, max_iter=1000, solver="newton-cholesky")
N = 500
CASES = {
    "shared": {"models": ((Design.of(np.array([2])),),)},
    "offset": {"models": ((Design.of(np.array([2])),),), "offsets": (3,)},
    "bounds": {"models": ((Design.of(np.array([2])),),), "bounds": (0.2, 0.9)},
    "own, with a visit attribute": {"models": ((Design.of(np.array([2, 3])),), (Design.of(np.array([2, 4])),))},
    "a visit attribute": {"models": ((Design.of(np.array([2, 3])), Design.of(np.array([2, 4]))),)},
    "rates": {"models": ((Design.of(np.array([2])),),), "false_positives": "shared"},
}


def options(**more):
    settings = {"C": 1.0, "propensity_C": 1e4, "pseudo_weight": 4.0, "tol": 1e-13, "max_iter": 400, "n_jobs": None}
    return CrossOptions(**{**settings, **more})


def case(name, seed=0, constraints=()):
    """Return rows with two looks, their problem with the options of the case, and the classes."""
    rng = np.random.default_rng(seed)
    objective = LooksLikelihood(NOTHING, **CASES[name])
    X = rng.normal(size=(N, 5))
    y = rng.random(N) < expit(2 * X[:, 0] - X[:, 1])
    v = X[:, 2] + 0.3 + (X[:, 3] if name == "offset" else 0.0)
    low, high = objective.bounds or (0.0, 1.0)
    rate = 0.05 if objective.false_positives else 0.0
    label = np.where(y, low + (high - low) * expit(v), rate)
    S = (rng.random((N, 2)) < label[:, None]).astype(float)
    each = np.ones_like(S)
    labels, looks = (S, each) if objective.n_kinds == 2 else (S.sum(1, keepdims=True), each.sum(1, keepdims=True))
    rows = {"s": (S.sum(axis=1) > 0).astype(float), "w": np.ones(N), "labels": labels, "looks": looks}
    rows |= {"audit": np.where(rng.random(N) < 0.2, y, -1.0), "half": (X[:, 0] > 0).astype(float)}
    engine = engine_of(X, **rows)
    made = tuple(Constraint(engine, objective, *each) for each in constraints)
    problem = PairProblem.of(engine, NOTHING, NOTHING, 1e4, 1e4)
    seen = summarise_observations(engine, objective)
    return (
        Training(X, rows["s"], rows["w"]),
        problem._replace(objective=objective, constraints=made, observations=seen),
        y,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_cross_fit_with_one_fold_of_all_rows_equals_newtons_method(name):
    training, problem, _ = case(name)
    every = np.arange(N)
    found = cross_fit(EXACT, training, problem, np.arange(2), [(every, every)], options(), print_nothing)
    newton = best_fit(problem.with_class_design(Design.of(np.arange(2))), FitOptions(1e-12, 300))
    sums = problem.with_class_design(Design.of(np.arange(2))).sums(newton.parameters)
    assert found.recalibration.class_prior == pytest.approx(float(sums.positives) / N, abs=2e-4)
    np.testing.assert_allclose(found.recalibration.e, newton.e, atol=2e-2 if name == "rates" else 5e-3)
    assert found.recalibration.slope == pytest.approx(1.0, abs=0.01)
    low, high = grid_interval(found.grids, "class_prior", 0.95)
    assert low < found.recalibration.class_prior < high


def print_nothing(_):
    pass


@pytest.mark.parametrize("name", CASES)
def test_the_table_reproduces_the_likelihood_and_logits_of_the_fit(name):
    training, problem, _ = case(name)
    folds = [(np.flatnonzero(np.arange(N) % 3 != i), np.flatnonzero(np.arange(N) % 3 == i)) for i in range(3)]
    found = cross_fit(EXACT, training, problem, np.arange(3), folds, options(max_iter=10), print_nothing)
    on_table, parameters = problem_on_table(found, training, problem)
    sums = on_table.sums(parameters)
    assert float(sums.log_likelihood) == pytest.approx(found.recalibration.log_likelihood, rel=1e-10)
    assert float(sums.positives) / N == pytest.approx(found.recalibration.class_prior, rel=1e-10)
    table = found.table(training.X)
    u = found.objective.logit_values(table, found.parameters)[0]
    np.testing.assert_allclose(u, found.recalibration(found.plain_logits(training.X)), atol=1e-12)


def test_constraints_on_a_look_and_a_group_hold_and_narrow_the_interval():
    sure = [(None, "half", 0.8, 0.0, "half"), (0, None, 0.6, 0.0, "look")]
    training, problem, _ = case("shared", constraints=sure)
    folds = [(np.flatnonzero(np.arange(N) % 2 != i), np.flatnonzero(np.arange(N) % 2 == i)) for i in range(2)]
    found = cross_fit(EXACT, training, problem, np.arange(3), folds, options(max_iter=10), print_nothing)
    on_table, parameters = problem_on_table(found, training, problem)
    for constraint, value in zip(on_table.constraints, (0.8, 0.6), strict=True):
        assert constraint.share(parameters).value == pytest.approx(value, abs=1e-6)
    soft = [(None, None, 0.45, 0.01**2, "all")]
    wide, narrow = (
        cross_fit(
            EXACT,
            *case("shared", constraints=constraints)[:2],
            np.arange(3),
            folds,
            options(max_iter=10),
            print_nothing,
        )
        for constraints in ((), soft)
    )
    ends = [grid_interval(each.grids, "class_prior", 0.95) for each in (wide, narrow)]
    assert ends[1].high - ends[1].low < 0.8 * (ends[0].high - ends[0].low)
    assert ends[1].low < 0.45 < ends[1].high


def test_a_learned_propensity_has_its_own_column_in_the_table():
    training, _, _ = case("shared")
    folds = [(np.flatnonzero(np.arange(N) % 3 != i), np.flatnonzero(np.arange(N) % 3 == i)) for i in range(3)]
    problem, tree = one_label_problem(training, np.array([2]), options()), DecisionTreeClassifier(max_depth=2)
    found = cross_fit(
        EXACT, training, problem, np.arange(2), folds, options(max_iter=5), print_nothing, propensity_model=tree
    )
    table = found.table(training.X)
    np.testing.assert_allclose(table[:, 1], found.learned.logits(training.X[:, [2]]))
    assert found.parameters[2] == 1.0
    np.testing.assert_allclose(
        found.objective.logit_values(found.table(training.X), found.parameters)[1],
        table[:, 1] + found.recalibration.e[0],
        atol=1e-12,
    )


def test_a_propensity_that_follows_the_class_uses_the_class_logit_of_the_table():
    training, _, _ = case("shared")
    folds = [(np.flatnonzero(np.arange(N) % 3 != i), np.flatnonzero(np.arange(N) % 3 == i)) for i in range(3)]
    problem = one_label_problem(training, np.arange(0), options())
    found = cross_fit(EXACT, training, problem, np.arange(2), folds, options(max_iter=5, follow=0.5), print_nothing)
    u, v = found.objective.logit_values(found.table(training.X), found.parameters)
    np.testing.assert_allclose(v, found.recalibration.e[0] + 0.5 * u, atol=1e-12)
    np.testing.assert_allclose(
        found.objective.logit_values(found.table(training.X), found.parameters)[1], v, atol=1e-12
    )


@pytest.mark.parametrize("false_labels", [True, False])
def test_pseudo_observations_keep_the_logit_of_a_false_positive_rate_finite(false_labels):
    """With known classes, the rate is the share of labelled looks at negatives, with pseudo-observations added."""
    _, problem, y = case("rates")
    labels, looks = (in_memory(problem.engine, name) for name in ("labels", "looks"))
    if not false_labels:
        labels = labels * y[:, None]
    engine = attach(problem.engine, labels=labels, s=(labels[:, 0] > 0).astype(float))
    propensity = LogisticPropensity(problem._replace(engine=engine))
    u = np.where(y, 40.0, -40.0)
    propensity.start(expit(u))
    propensity.update(u)
    n_labels, n_looks = labels[~y].sum(), looks[~y].sum()
    weight = PSEUDO_FALSE_LABEL_WEIGHT
    expected = (n_labels + weight / 2) / (n_looks + weight)
    assert propensity.others[-1] == pytest.approx(np.log(expected / (1 - expected)), abs=0.1)  # the solver stops early


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_huge_values_of_propensity_attributes_are_refused_with_their_place(kind):
    X = np.ones((30, 4))
    X[7, 2] = 1e120
    assert numeric_columns(kind(X), np.array([0, 3])).shape == (30, 2)
    with pytest.raises(ValueError, match=r"Input X has the value 1e\+120 at row 7, column 2\. Absolute values must be"):
        numeric_columns(kind(X), np.array([0, 2]))
