"""Block functions give the same sums for arrays of any array API namespace as for NumPy arrays."""

import sys
from types import ModuleType
from typing import NamedTuple

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy import sparse

from scarless.numerics import likelihood, linear, uncertainty
from scarless.numerics.arrays import block, concat, in_float64, in_numpy, like, namespace_of, zeros
from scarless.numerics.constrained import PairWithPositives
from scarless.numerics.likelihood import sigmoid_pair, softplus
from scarless.numerics.linear import Design
from scarless.numerics.newton import NewtonOptions, Status, minimise
from scarless.numerics.objectives import Curvature, KnownPropensity, LogisticPair, Sums, TargetLogistic
from scarless.numerics.recalibrated import RecalibratedPair

HOME, AWAY = strict.Device("CPU_DEVICE"), strict.Device("device1")  # Arrays on different devices cannot be mixed.
EPS = {np.float64: 1e-12, np.float32: 1e-5}
FEW_EXAMPLES = settings(max_examples=3)  # Each example makes many comparisons.
# A slice and a view; a choice of columns; all columns, which is the block itself.
COLUMNS = [np.arange(1, 3), np.array([0, 2, 3]), np.arange(4)]


def recalibrated_pair(columns, centre, shift, unit, **options):
    template = LogisticPair(Design.of(np.arange(4)), Design.of(columns))
    return RecalibratedPair.of(template, centre, np.array(shift), np.array(unit), given=True, **options)


OBJECTIVES = {
    "target": TargetLogistic(Design.of(COLUMNS[1])),
    "known": KnownPropensity(Design.of(COLUMNS[0])),
    "pair": LogisticPair(Design.of(COLUMNS[2]), Design.of(COLUMNS[1])),
    "pair of the same": LogisticPair(Design.of(COLUMNS[0]), Design.of(COLUMNS[0])),
    "recalibrated": recalibrated_pair(COLUMNS[1], 0.4, [0.1, -0.2, 0.3], [1.0, 2.0, 0.5]),
    "level held": recalibrated_pair(COLUMNS[0], -1.0, [0.1, 0.5], [1.5, 0.5], held=(1,)),
    "follows the class": recalibrated_pair(COLUMNS[0], 0.2, [0.1, 0.5], [1.5, 0.5], follow=0.5),
}
MODERATE = st.floats(-4.0, 4.0, width=32, allow_subnormal=False)
LOGIT = st.one_of(MODERATE, st.sampled_from([-1e3, 1e3, -700.0, 700.0, 40.0]))


def test_arrays_of_cupy_have_scikit_learns_namespace(monkeypatch):
    """CuPy's own namespace does not follow the standard, and old versions have none; subclasses are CuPy arrays too."""
    brought = ModuleType("brought")
    monkeypatch.setitem(sys.modules, "sklearn.externals.array_api_compat.cupy", brought)
    array = type("ndarray", (), {"__module__": "cupy._core.core", "__array_namespace__": lambda self: None})
    assert namespace_of(array()) is brought
    assert namespace_of(type("Mine", (array,), {"__module__": "mine"})()) is brought


class Case(NamedTuple):
    X: np.ndarray
    rows: dict[str, np.ndarray]
    beta: np.ndarray
    direction: np.ndarray


@st.composite
def cases(draw):
    n = draw(st.integers(1, 9))
    vector = lambda elements: draw(arrays(np.float64, n, elements=elements))  # noqa: E731
    rows = {
        "s": vector(st.sampled_from([0.0, 1.0])),
        "w": vector(st.sampled_from([0.0, 1.0, 2.5])),
        "t": vector(st.floats(0.0, 3.0, width=32, allow_subnormal=False)),
        "v": vector(st.one_of(LOGIT, st.just(np.inf))),
        "u": vector(LOGIT),
    }
    beta = draw(arrays(np.float64, 9, elements=LOGIT))
    direction = draw(arrays(np.float64, 9, elements=MODERATE))
    return Case(draw(arrays(np.float64, (n, 4), elements=MODERATE)), rows, beta, direction)


def far_out():
    """Rows whose probabilities all round to 0 or 1, in each of the four corners, and propensities that are 1."""
    u, v = np.array([1e3, 1e3, -1e3, -1e3, 700.0, 1e3]), np.array([1e3, -1e3, 1e3, -1e3, 700.0, np.inf])
    X = np.column_stack([u, v, np.ones(6), np.zeros(6)]) / 1e3
    rows = {"s": np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0]), "w": np.ones(6), "t": np.full(6, 0.5), "u": u, "v": v}
    X[5, 1] = 1.0
    return Case(X, rows, np.array([1e3, 0.0, 0.0, 0.0, 1e3, 0.0, 0.0, 0.0, 0.0]), np.ones(9))


def elsewhere(values, dtype=None):
    """Convert an array to one that NumPy cannot read."""
    return strict.asarray(values, dtype=dtype, device=AWAY)


def back(values):
    """Convert such an array back to NumPy; fail if it is on another device or not in float64."""
    assert values.device == AWAY
    assert values.dtype == strict.float64
    return np.asarray(strict.asarray(values, device=HOME))


def both(case, dtype):
    """Return the block and its values per row, as NumPy arrays and as arrays of another namespace."""
    X = case.X.astype(dtype)
    return (X, case.rows), (elsewhere(X), {name: elsewhere(values) for name, values in case.rows.items()})


def size_of(case, objective=None):
    """The size of sums over rows without cancellation."""
    largest = 1.0 + np.abs(case.X).max()
    if isinstance(objective, RecalibratedPair):  # it has the logits as a column
        largest += np.e * np.abs(case.rows["u"]).max()
    return len(case.X) * largest**2 * (1.0 + np.abs(case.direction).max())


def assert_same(found, expected, *, eps, size):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == np.shape(other)
        assert_allclose(back(one), other, rtol=eps, atol=0.01 * eps * size)


def moderate_slope(objective, beta):
    """The recalibrated pair's first parameter is a logarithm."""
    return np.append(np.clip(beta[:1], -1.0, 1.0), beta[1:]) if isinstance(objective, RecalibratedPair) else beta


def test_the_namespace_of_numpy_sparse_and_plain_numbers_is_numpy():
    for X in (np.zeros(3), np.zeros((2, 2), dtype=np.float32), sparse.csr_array(np.eye(2)), np.float64(1.0), 1.0):
        assert namespace_of(X) is np
    assert namespace_of(strict.zeros(3)) is strict


def test_arrays_and_sparse_tables_of_numpy_are_returned_unchanged_and_others_become_arrays():
    for X in (np.zeros(3), sparse.csr_array(np.eye(2))):
        assert in_numpy(X) is X
    others = [1.0, strict.ones(3)]
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # Older versions do not copy from other devices.
        others.append(elsewhere(np.ones(3), strict.float64))
    for X in others:
        assert isinstance(in_numpy(X), np.ndarray)
        assert (in_numpy(X) == 1.0).all()


def test_helpers_stay_with_their_block():
    X = elsewhere(np.ones((2, 2)), strict.float32)
    moved = like(X, np.array([1.0, 2.0]))
    assert (moved.dtype, moved.device) == (strict.float32, AWAY)
    assert_allclose(back(in_float64(moved)), [1.0, 2.0])
    assert back(zeros(X, 0, 3)).shape == (0, 3)
    assert_allclose(back(concat([in_float64(moved), zeros(X, 1)])), [1.0, 2.0, 0.0])
    corner = in_float64(X)
    parts = [[corner, zeros(X, 2, 1)], [zeros(X, 1, 2), zeros(X, 1, 1)]]
    assert_allclose(back(block(parts)), np.pad(np.ones((2, 2)), (0, 1)))
    assert namespace_of(zeros(np.ones(1), 2)) is np


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", OBJECTIVES)
@FEW_EXAMPLES
@given(case=cases())
@example(case=far_out())
def test_sums_are_those_of_numpy(name, dtype, case):
    objective = OBJECTIVES[name]
    beta = moderate_slope(objective, case.beta[: objective.n_parameters])
    here, there = both(case, dtype)
    for curvature in Curvature:
        expected = objective.sums(*here, beta, curvature)
        assert_same(objective.sums(*there, beta, curvature), expected, eps=EPS[dtype], size=size_of(case, objective))


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", OBJECTIVES)
@FEW_EXAMPLES
@given(case=cases())
@example(case=far_out())
def test_products_reach_and_grams_are_those_of_numpy(name, dtype, case):
    objective = OBJECTIVES[name]
    beta, direction = case.beta[: objective.n_parameters], case.direction[: objective.n_parameters]
    (X, rows), (X_there, rows_there) = both(case, dtype)
    close = {"eps": EPS[dtype], "size": size_of(case, objective)}
    for curvature in (Curvature.EXPECTED, Curvature.OBSERVED):
        of_rows = objective.row_curvature(X, rows, moderate_slope(objective, beta), curvature)
        found = objective.row_curvature(X_there, rows_there, moderate_slope(objective, beta), curvature)
        assert_same([found], [of_rows], **close)
        product = objective.product(X_there, {**rows_there, "curvature": elsewhere(of_rows)}, direction)
        assert_same(product, objective.product(X, {**rows, "curvature": of_rows}, direction), **close)
    assert_same(objective.reach(X_there, rows_there, direction), objective.reach(X, rows, direction), **close)
    assert_same(objective.grams(X_there, rows_there), objective.grams(X, rows), **close)


@pytest.mark.parametrize("dtype", EPS)
@FEW_EXAMPLES
@given(case=cases())
@example(case=far_out())
def test_the_pair_with_its_positives_is_that_of_numpy(dtype, case):
    objective = PairWithPositives(OBJECTIVES["pair"])
    here, there = both(case, dtype)
    for curvature in Curvature:
        expected = objective.sums(*here, case.beta, curvature)
        assert_same(objective.sums(*there, case.beta, curvature), expected, eps=EPS[dtype], size=size_of(case))


@pytest.mark.parametrize("dtype", EPS)
@FEW_EXAMPLES
@given(case=cases())
@example(case=far_out())
def test_totals_of_a_pair_are_those_of_numpy(dtype, case):
    pair = OBJECTIVES["pair"]
    here, there = both(case, dtype)
    assert_same(pair.totals(*there, case.beta), pair.totals(*here, case.beta), eps=EPS[dtype], size=size_of(case))


@given(u=arrays(np.float64, 7, elements=LOGIT), v=arrays(np.float64, 7, elements=st.one_of(LOGIT, st.just(np.inf))))
@example(u=far_out().rows["u"], v=far_out().rows["v"])
def test_rows_agree_one_by_one_however_small(u, v):
    """Sums hide small numbers; here each number is compared by itself, down to the smallest doubles."""
    terms, terms_there = likelihood.pair_terms(u, v), likelihood.pair_terms(elsewhere(u), elsewhere(v))
    close = {"eps": 1e-12, "size": 1e-290}
    assert_same(terms_there, terms, **close)
    assert_same(likelihood.fisher_roots(terms_there), likelihood.fisher_roots(terms), **close)
    for label in (0.0, 1.0):
        s, s_there = np.full(u.size, label), elsewhere(np.full(u.size, label))
        expected = likelihood.log_likelihood(u, v, s, terms)
        assert_same([likelihood.log_likelihood(elsewhere(u), elsewhere(v), s_there, terms_there)], [expected], **close)
        assert_same(likelihood.score(s_there, terms_there), likelihood.score(s, terms), **close)
        information = likelihood.observed_information(s, terms)
        assert_same(likelihood.observed_information(s_there, terms_there), information, eps=1e-12, size=1e-2)


@given(z=arrays(np.float64, 5, elements=LOGIT))
def test_sigmoids_agree(z):
    assert_same(sigmoid_pair(elsewhere(z)), sigmoid_pair(z), eps=1e-15, size=0.0)
    assert_same([softplus(elsewhere(z))], [softplus(z)], eps=1e-15, size=0.0)


@pytest.mark.parametrize(
    "function", [likelihood.posterior, likelihood.posterior_known, likelihood.log_likelihood_of_probabilities]
)
def test_probabilities_at_their_ends_agree(function):
    grid = np.meshgrid([0.0, 0.3, 0.6, 1.0], [0.0, 0.2, 0.7, 1.0], [0.0, 1.0])
    f, e, s = (values.ravel() for values in grid)
    assert_same([function(*map(elsewhere, (f, e, s)))], [function(f, e, s)], eps=1e-15, size=0.0)


@pytest.mark.parametrize("dtype", EPS)
def test_standard_errors_and_intervals_of_rows_agree(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)).astype(dtype)
    X[:, 2] = X[:, 1]  # Rows in which these columns differ have no standard error.
    precision = uncertainty.precision(linear.exact_gram(X, np.ones(20)), noise=1e-13)
    X[::2, 2] += 1.0
    errors, found = precision.logit_errors(X, slice(None)), precision.logit_errors(elsewhere(X), slice(None))
    assert np.isinf(errors).any()
    assert np.isfinite(errors).any()
    assert_same([found], [errors], eps=1e-12, size=1.0)
    z = rng.normal(size=20)
    expected = uncertainty.logit_interval(z, errors, 1.96)
    assert_same(uncertainty.logit_interval(elsewhere(z), found, 1.96), expected, eps=1e-12, size=1.0)


class BlockwiseProblem:
    """A penalised objective that converts the sums of each block to NumPy and adds them, like an engine."""

    def __init__(self, objective, blocks, to_numpy):
        self.objective, self.blocks, self.to_numpy = objective, blocks, to_numpy

    def total(self, function, *parameters):
        parts = [[self.to_numpy(field) for field in function(X, rows, *parameters)] for X, rows in self.blocks]
        return [np.sum(fields, axis=0) for fields in zip(*parts, strict=True)]

    def evaluate(self, beta, curvature):
        value, gradient, matrix = self.total(self.objective.sums, beta, curvature)
        if matrix.size:
            matrix = matrix + (np.eye(beta.size) if matrix.ndim == 2 else 1.0)
        return Sums(value + 0.5 * beta @ beta, gradient + beta, matrix)

    def reach(self, direction):
        return self.total(self.objective.reach, direction)[0]

    def grams(self):
        return tuple(self.total(self.objective.grams))


def test_newton_reaches_the_same_optimum_with_sums_of_other_array_libraries(pu):
    objective = LogisticPair(Design.of(np.arange(4)), Design.of(np.array([0, 2])))
    rows = {"s": pu.s.astype(float), "w": np.linspace(0.5, 1.5, len(pu.s))}
    cuts = [slice(start, start + 150) for start in range(0, len(pu.s), 150)]
    here = [(pu.X[cut], {name: values[cut] for name, values in rows.items()}) for cut in cuts]
    there = [(elsewhere(X), {name: elsewhere(values) for name, values in part.items()}) for X, part in here]
    options = NewtonOptions(scale=float(rows["w"].sum()), tol=1e-14)
    start = np.zeros(objective.n_parameters)
    expected = minimise(BlockwiseProblem(objective, here, np.asarray), start, options)
    found = minimise(BlockwiseProblem(objective, there, back), start, options)
    assert expected.status is found.status is Status.CONVERGED
    assert np.abs(expected.parameters).max() > 0.5
    assert_allclose(found.parameters, expected.parameters, rtol=1e-10, atol=1e-10)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
