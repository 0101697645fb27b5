"""The recalibrated pair: derivatives, products with its matrices, and centres that outliers do not move."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from scarless.engines import InMemoryEngine
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.numerics.recalibrated import RecalibratedPair, _ColumnAndSparse, centre_sums

N = 60
KINDS = pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
FOLLOW = pytest.mark.parametrize("follow", [0.0, 0.5])
HOLD = pytest.mark.parametrize("hold_level", [False, True], ids=["free", "held"])
CURVATURES = pytest.mark.parametrize("curvature", [Curvature.EXPECTED, Curvature.DIAGONAL, Curvature.OBSERVED])


def case(kind, *, hold_level=False, follow=0.0, seed=0):
    """Return a pair that uses every feature: weights, an offset, attributes with different units."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4)) * [1, 5, 0.1, 1] + [0, 3, 0, 1]
    columns, is_sparse = np.array([1, 2]), kind is sparse.csr_array
    shift = np.zeros(2) if is_sparse else X[:, columns].mean(axis=0)
    template, unit = LogisticPair(Design.of(np.arange(4)), Design.of(columns)), X[:, columns].std(axis=0)
    held = (1,) if hold_level else ()
    pair = RecalibratedPair.of(template, 0.4, shift, unit, given=True, held=held, follow=follow)
    rows = {
        "u": 2.0 * rng.normal(size=N),
        "v": 0.5 * rng.normal(size=N),
        "s": (rng.random(N) < 0.4).astype(float),
        "w": rng.random(N) + 0.1,
    }
    return pair, kind(X), rows, 0.5 * rng.normal(size=pair.n_parameters)


def differences(function, beta, h=1e-5):
    """Return the derivative of a function of the parameters, along each of them."""
    steps = h * np.eye(beta.size)
    return np.array([(function(beta + step) - function(beta - step)) / (2 * h) for step in steps])


def logits_of(pair, X, rows, beta):
    return pair.inner.logit_values(pair.table(X, rows, beta), pair.inside(beta))


def free_parts(pair):
    """Return the parameters that the solver changes."""
    return np.delete(np.arange(pair.n_parameters), pair.held)


@KINDS
@FOLLOW
def test_the_value_is_minus_the_log_likelihood_of_shifted_and_scaled_logits(kind, follow):
    pair, X, rows, beta = case(kind, follow=follow)
    Z = X[:, [1, 2]].toarray() if sparse.issparse(X) else X[:, [1, 2]]
    u = pair.centre + beta[1] + np.exp(beta[0]) * rows["u"]
    f, e = expit(u), expit(rows["v"] + (Z - pair.shift) / pair.unit @ beta[2:-1] + beta[-1] + follow * u)
    value = -rows["w"] @ np.where(rows["s"] == 1, np.log(f * e), np.log1p(-f * e))
    assert float(pair.sums(X, rows, beta, Curvature.NONE).value) == pytest.approx(value, rel=1e-13)


@KINDS
@HOLD
@FOLLOW
def test_the_gradient_is_the_derivative_of_the_value_except_along_a_held_shift(kind, hold_level, follow):
    pair, X, rows, beta = case(kind, hold_level=hold_level, follow=follow)
    gradient = pair.sums(X, rows, beta, Curvature.NONE).gradient
    expected = differences(lambda at: float(pair.sums(X, rows, at, Curvature.NONE).value), beta)
    free = free_parts(pair)
    np.testing.assert_allclose(gradient[free], expected[free], atol=1e-7)
    if hold_level:
        assert gradient[1] == 0
        assert abs(expected[1]) > 0.1


@KINDS
@HOLD
@FOLLOW
def test_the_observed_information_is_the_derivative_of_the_gradient(kind, hold_level, follow):
    pair, X, rows, beta = case(kind, hold_level=hold_level, follow=follow)
    matrix = pair.sums(X, rows, beta, Curvature.OBSERVED).curvature
    expected = differences(lambda at: pair.sums(X, rows, at, Curvature.NONE).gradient, beta)
    free = np.ix_(free_parts(pair), free_parts(pair))
    np.testing.assert_allclose(matrix[free], expected[free], atol=1e-6)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)


@KINDS
@FOLLOW
def test_the_expected_information_is_the_observed_one_averaged_over_labels(kind, follow):
    """The mean over both labels of each row, by their probability: enumeration, not simulation."""
    pair, X, rows, beta = case(kind, follow=follow)
    u, v = logits_of(pair, X, rows, beta)
    p = expit(u) * expit(v)
    mean = sum(
        pair.sums(X, {**rows, "s": np.full(N, s), "w": rows["w"] * weight}, beta, Curvature.OBSERVED).curvature
        for s, weight in ((1.0, p), (0.0, 1.0 - p))
    )
    got = pair.sums(X, rows, beta, Curvature.EXPECTED).curvature
    np.testing.assert_allclose(got, mean, atol=1e-10)
    diagonal = pair.sums(X, rows, beta, Curvature.DIAGONAL).curvature
    np.testing.assert_allclose(diagonal, np.diagonal(got), atol=1e-10)


@KINDS
@CURVATURES
def test_nothing_depends_on_a_held_shift(kind, curvature):
    pair, X, rows, beta = case(kind, hold_level=True)
    held, free = (each.sums(X, rows, beta, curvature).curvature for each in (pair, replace(pair, held=())))
    expected = free.copy()
    if curvature is not Curvature.DIAGONAL:
        expected[1, :] = expected[:, 1] = 0.0
        expected[1, 1] = 1.0
    else:
        expected[1] = 1.0
    np.testing.assert_array_equal(held, expected)


@KINDS
@HOLD
@FOLLOW
def test_products_are_those_of_the_matrix(kind, hold_level, follow):
    pair, X, rows, beta = case(kind, hold_level=hold_level, follow=follow)
    matrix = pair.sums(X, rows, beta, Curvature.EXPECTED).curvature
    of_rows = {**rows, "curvature": pair.row_curvature(X, rows, beta, Curvature.EXPECTED)}
    for direction in np.random.default_rng(1).normal(size=(5, pair.n_parameters)):
        (product,) = pair.product(X, of_rows, direction)
        expected = matrix @ direction
        free = free_parts(pair)
        np.testing.assert_allclose(product[free], expected[free], atol=1e-11)
        if hold_level:
            assert product[1] == 0


@KINDS
@HOLD
def test_reach_is_the_squared_change_of_the_logits_at_a_slope_of_1(kind, hold_level):
    pair, X, rows, _ = case(kind, hold_level=hold_level)
    direction = np.random.default_rng(2).normal(size=pair.n_parameters)
    moves = direction * np.where(np.arange(direction.size) == 1, 0.0 if hold_level else 1.0, 1.0)
    h = 1e-6
    up = logits_of(pair, X, rows, h * moves)
    down = logits_of(pair, X, rows, -h * moves)
    expected = [rows["w"] @ ((a - b) / (2 * h)) ** 2 for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(pair.reach(X, rows, direction)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("curvature", list(Curvature))
def test_blocks_of_rows_add_up(curvature):
    pair, X, rows, beta = case(np.asarray)
    whole = pair.sums(X, rows, beta, curvature)
    blocks = InMemoryEngine(X, rows, block_rows=7).total(pair.sums, beta, curvature)
    for got, want in zip(blocks, whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_dense_and_sparse_attributes_without_a_shift_agree():
    pair, X, rows, beta = case(sparse.csr_array)
    for curvature in Curvature:
        for got, want in zip(
            pair.sums(X, rows, beta, curvature), pair.sums(X.toarray(), rows, beta, curvature), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


def test_no_slope_overflows():
    pair, X, rows, beta = case(np.asarray)
    beta[0] = 1e4
    sums = pair.sums(X, rows, beta, Curvature.OBSERVED)
    assert all(np.isfinite(field).all() for field in sums)


# --- all kinds of observations

KINDS_OF_LOOKS = {
    "one look": {"models": ((Design.of(np.array([2, 1])),),)},
    "a visit attribute": {"models": ((Design.of(np.array([1, 2])), Design.of(np.array([1, 3]))),)},
    "models of their own": {"models": ((Design.of(np.array([1])),), (Design.of(np.array([3])),))},
    "rates": {"models": ((Design.of(np.array([1])),),), "false_positives": "shared"},
    "offset and bounds": {"models": ((Design.of(np.array([1])),),), "offsets": (3,), "bounds": (0.1, 0.8)},
}
ALL_OBSERVATIONS = pytest.mark.parametrize("name", KINDS_OF_LOOKS)
ALL_OPTIONS = pytest.mark.parametrize("options", [{}, {"follow": 0.5}, {"held": (1,)}, {"held": (0, 1), "given": True}])


def looks_case(name, options, kind=np.asarray):
    rng = np.random.default_rng(3)
    template = LooksLikelihood(Design.of(np.arange(4)), **KINDS_OF_LOOKS[name])
    X, n_kinds = rng.normal(size=(N, 4)), template.n_kinds
    n_seen = np.unique(np.concatenate([*(d.indices for m in template.models for d in m), template.offsets or ()])).size
    looks = rng.integers(0, 3, size=(N, n_kinds)).astype(float)
    rows = {
        "u": 2.0 * rng.normal(size=N),
        "v": 0.5 * rng.normal(size=N),
        "w": rng.random(N) + 0.1,
        "labels": np.minimum(looks, rng.integers(0, 2, size=(N, n_kinds))),
        "looks": looks,
        "audit": np.full(N, -1.0),
    }
    checked = rng.random(N) < 0.3
    rows["audit"][checked] = np.where(rows["labels"][checked].any(axis=1), 1.0, rng.integers(0, 2, checked.sum()))
    unit = np.full(n_seen, 1.5)
    if template.offsets is not None:
        unit[-1] = 1.0
    pair = RecalibratedPair.of(template, 0.4, np.zeros(n_seen), unit, **options)
    return pair, kind(X), rows, 0.5 * rng.normal(size=pair.n_parameters)


@ALL_OBSERVATIONS
@ALL_OPTIONS
def test_derivatives_match_finite_differences_for_all_kinds_of_observations(name, options):
    pair, X, rows, beta = looks_case(name, options)
    free = np.delete(np.arange(pair.n_parameters), pair.held)
    sums = pair.sums(X, rows, beta, Curvature.OBSERVED)
    slopes = differences(lambda at: float(pair.sums(X, rows, at, Curvature.NONE).value), beta)
    np.testing.assert_allclose(sums.gradient[free], slopes[free], atol=1e-7)
    bends = differences(lambda at: pair.sums(X, rows, at, Curvature.NONE).gradient, beta)
    np.testing.assert_allclose(sums.curvature[np.ix_(free, free)], bends[np.ix_(free, free)], atol=1e-6)
    assert not sums.gradient[list(pair.held)].any()


@ALL_OBSERVATIONS
@ALL_OPTIONS
def test_products_and_diagonals_are_those_of_the_matrix_for_all_kinds_of_observations(name, options):
    pair, X, rows, beta = looks_case(name, options)
    matrix = pair.sums(X, rows, beta, Curvature.EXPECTED).curvature
    of_rows = {**rows, "curvature": pair.row_curvature(X, rows, beta, Curvature.EXPECTED)}
    direction = np.random.default_rng(1).normal(size=pair.n_parameters)
    direction[list(pair.held)] = 0.0
    np.testing.assert_allclose(pair.product(X, of_rows, direction)[0], matrix @ direction, atol=1e-10)
    reach, grams = pair.reach(X, rows, direction)[0], pair.grams(X, rows)
    ends = np.cumsum([0, *(len(gram) for gram in grams)])
    assert ends[-1] == pair.n_parameters
    for i, gram in enumerate(grams):
        along = direction[ends[i] : ends[i + 1]]
        assert along @ gram @ along == pytest.approx(reach[i], rel=1e-10)


@ALL_OBSERVATIONS
def test_the_likelihood_is_that_of_shifted_and_scaled_logits_for_all_kinds_of_observations(name):
    pair, X, rows, beta = looks_case(name, {})
    others = pair.in_table_units(beta[2:])
    np.testing.assert_allclose(pair.standardised(others), beta[2:], atol=1e-14)
    template = LooksLikelihood(Design.of(np.array([4])), **KINDS_OF_LOOKS[name])
    table = np.column_stack([X, pair.centre + rows["u"]])
    slope = np.exp(beta[0])
    at = np.concatenate([[slope, pair.centre + beta[1] - slope * pair.centre], others])
    value = template.sums(table, rows, at, Curvature.NONE).value
    assert float(pair.sums(X, rows, beta, Curvature.NONE).value) == pytest.approx(float(value), rel=1e-12)


def test_parameters_of_the_propensity_are_differences_from_hold():
    pair, X, rows, beta = looks_case("a visit attribute", {})
    hold = np.array([0.3, -0.2, 0.5])
    held = replace(pair, hold=hold)
    moved = np.append(beta[:2], beta[2:] + hold)
    for got, want in zip(
        held.sums(X, rows, beta, Curvature.OBSERVED), pair.sums(X, rows, moved, Curvature.OBSERVED), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_many_sparse_attributes_give_the_sums_of_dense_attributes():
    rng = np.random.default_rng(0)
    X, n = sparse.csr_array(rng.normal(size=(N, 40)) * (rng.random((N, 40)) < 0.2)), 40
    rows = {"u": rng.normal(size=N), "v": rng.normal(size=N), "w": np.ones(N), "audit": np.full(N, -1.0)}
    rows["s"] = (rng.random(N) < 0.4).astype(float)
    rows |= {"labels": np.column_stack([rows["s"], 0 * rows["s"]]), "looks": np.ones((N, 2))}
    design = Design.of(np.arange(n))
    for template in (LogisticPair(design, design), LooksLikelihood(design, ((design,), (design,)))):
        for options in ({}, {"follow": 0.5}, {"given": True}):
            pair = RecalibratedPair.of(template, 0.1, np.zeros(n), np.full(n, 2.0), **options)
            beta = 0.3 * rng.normal(size=pair.n_parameters)
            for curvature in Curvature:
                for got, want in zip(
                    pair.sums(X, rows, beta, curvature), pair.sums(X.toarray(), rows, beta, curvature), strict=True
                ):
                    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


# --- the centre


def centre_of(u, w):
    return centre_sums(None, {"u": u, "w": w}).centre


def exact_centre(u, w):
    with mpmath.workdps(60):
        f = [1 / (1 + mpmath.exp(-mpmath.mpf(float(x)))) for x in u]
        weight = [mpmath.mpf(float(k)) * p * (1 - p) for k, p in zip(w, f, strict=True)]
        return float(mpmath.fdot(weight, [mpmath.mpf(float(x)) for x in u]) / mpmath.fsum(weight))


def test_the_centre_is_the_mean_weighted_by_the_variance_of_the_class():
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0, 100.0):
        u, w = scale * rng.normal(size=30), rng.random(30)
        assert centre_of(u, w) == pytest.approx(exact_centre(u, w), rel=1e-12, abs=1e-14)


def test_at_the_centre_a_change_of_slope_moves_the_class_prior_least():
    """The derivative of mean sigmoid(m + b (u - m)) by b is 0 at b = 1."""
    rng = np.random.default_rng(1)
    u, w, h = 1.0 + 3 * rng.normal(size=50), rng.random(50), 1e-5
    m = centre_of(u, w)
    prior = [w @ expit(m + b * (u - m)) for b in (1 - h, 1 + h)]
    assert (prior[1] - prior[0]) / (2 * h) == pytest.approx(0, abs=1e-8)


def test_the_centre_of_saturated_logits_is_their_mean():
    assert centre_of(np.array([-2000.0, 1000.0]), np.array([1.0, 3.0])) == 250.0
    assert centre_of(np.array([3.0, 1000.0]), np.array([0.0, 1.0])) == 1000.0


def test_the_centre_moves_with_the_logits_sign_and_ignores_rows_of_no_weight():
    u, w = np.array([-1.0, 0.5, 2.0]), np.array([1.0, 2.0, 0.0])
    assert centre_of(-u, w) == pytest.approx(-centre_of(u, w), rel=1e-14)
    assert centre_of(u, w) == pytest.approx(centre_of(u[:2], w[:2]), rel=1e-14)
    assert centre_of(np.repeat(u, [1, 2, 0]), np.ones(3)) == pytest.approx(centre_of(u, w), rel=1e-14)


def test_columns_of_a_dense_column_next_to_sparse_columns():
    rng = np.random.default_rng(0)
    first, rest = rng.normal(size=(5, 1)), rng.integers(0, 2, size=(5, 4)).astype(float)
    table, whole = _ColumnAndSparse(first, sparse.csr_array(rest)), np.hstack([first, rest])
    assert table.shape == whole.shape
    for columns in (np.array([0]), np.array([1, 2, 3, 4]), np.array([2, 4]), slice(1, 3), np.arange(0)):
        found = table[:, columns]
        np.testing.assert_array_equal(found.toarray() if sparse.issparse(found) else found, whole[:, columns])
