"""Block functions: precision in the far tails, derivatives, and sums that do not depend on the partition."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from scarless.engines import InMemoryEngine, attach
from scarless.numerics.likelihood import sigmoid_pair
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, KnownPropensity, LogisticPair, TargetLogistic

DIGITS = 800
SMALLEST_NORMAL = np.finfo(float).tiny
LOGITS = [-800.0, -700.0, -40.0, 40.0, 700.0, 800.0]
N, D = 40, 5
F_COLUMNS, E_COLUMNS = np.array([0, 1, 3]), np.array([2, 3, 4])


def _rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return {
        "s": (rng.random(n) < 0.4).astype(float),
        "t": 2.0 * rng.random(n),
        "w": rng.random(n) + 0.1,
        "v": np.where(rng.random(n) < 0.2, np.inf, rng.normal(size=n)),
    }


def _objective(name, f=None, e=None):
    f, e = f or Design.of(F_COLUMNS), e or Design.of(E_COLUMNS)
    return {"target": TargetLogistic(f), "known": KnownPropensity(f), "pair": LogisticPair(f, e)}[name]


def _case(name, seed=0):
    rng = np.random.default_rng(seed)
    objective = _objective(name)
    return objective, rng.normal(size=(N, D)), _rows(seed), 0.5 * rng.normal(size=objective.n_parameters)


def _assert_same_sums(got, want, rtol=1e-12):
    for field_got, field_want in zip(got, want, strict=True):
        scale = np.abs(field_want).max(initial=0.0)
        np.testing.assert_allclose(field_got, field_want, rtol=rtol, atol=rtol * scale)


ALL = pytest.mark.parametrize("name", ["target", "known", "pair"])
CURVATURES = pytest.mark.parametrize("curvature", list(Curvature))
KINDS = pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "csr"])


# The far tails, against mpmath


def _assert_right(got, want, rtol=1e-13):
    assert np.isfinite(got)
    with mpmath.workdps(DIGITS):
        error = abs(mpmath.mpf(float(got)) - want)
        assert error <= rtol * abs(want) + SMALLEST_NORMAL, f"{got} is not {float(want)}"


def _exact_pair(u, v, s):
    """Minus log-likelihood, gradient, expected and observed information (uu, uv, vv) of one row."""
    u, v = mpmath.mpf(u), mpmath.mpf(v)
    f, not_f = 1 / (1 + mpmath.exp(-u)), 1 / (1 + mpmath.exp(u))
    e, not_e = 1 / (1 + mpmath.exp(-v)), 1 / (1 + mpmath.exp(v))
    unlabelled = not_f + f * not_e
    q, not_q, odds = f * not_e / unlabelled, not_f / unlabelled, f * e / unlabelled
    expected = odds * not_f**2, odds * not_f * not_e, odds * not_e**2
    if s:
        return -mpmath.log(f * e), (-not_f, -not_e), expected, (f * not_f, mpmath.mpf(0), e * not_e)
    observed = f * not_f - q * not_q, e * q * not_q, q * e * not_e - e**2 * q * not_q
    return -mpmath.log(unlabelled), (odds * not_f, odds * not_e), expected, observed


def _product(objective, X, rows, beta, direction, curvature=Curvature.EXPECTED):
    of_rows = {"curvature": objective.row_curvature(X, rows, beta, curvature)}
    return objective.product(X, of_rows, direction)


@pytest.mark.parametrize(("u", "v"), list(itertools.product(LOGITS, LOGITS)))
@pytest.mark.parametrize("s", [0.0, 1.0])
@KINDS
def test_pair_in_the_tails(u, v, s, kind):
    pair = LogisticPair(Design.of(np.array([0])), Design.of(np.array([1])))
    X, beta = kind(np.array([[u, v]])), np.array([1.0, 0.0, 1.0, 0.0])
    rows = {"s": np.array([s]), "w": np.ones(1)}
    intercepts = [1, 3]
    with mpmath.workdps(DIGITS):
        value, gradient, expected, observed = _exact_pair(u, v, s)
    for curvature, information in ((Curvature.EXPECTED, expected), (Curvature.OBSERVED, observed)):
        sums = pair.sums(X, rows, beta, curvature)
        _assert_right(sums.value, value)
        for j, want in zip(intercepts, gradient, strict=True):
            _assert_right(sums.gradient[j], want)
        uu, uv, vv = information
        _assert_right(sums.curvature[1, 1], uu)
        _assert_right(sums.curvature[1, 3], uv)
        _assert_right(sums.curvature[3, 1], uv)
        _assert_right(sums.curvature[3, 3], vv)
    diagonal = pair.sums(X, rows, beta, Curvature.DIAGONAL).curvature
    _assert_right(diagonal[1], expected[0])
    _assert_right(diagonal[3], expected[2])
    for direction, (on_u, on_v) in ((1, expected[:2]), (3, expected[1:])):
        (product,) = _product(pair, X, rows, beta, np.eye(4)[direction])
        _assert_right(product[1], on_u)
        _assert_right(product[3], on_v)


@pytest.mark.parametrize(("u", "v"), list(itertools.product(LOGITS, [*LOGITS, np.inf])))
@pytest.mark.parametrize("s", [0.0, 1.0])
def test_known_propensity_in_the_tails(u, v, s):
    objective, beta = KnownPropensity(Design.of(np.array([0]))), np.array([1.0, 0.0])
    rows = {"s": np.array([s]), "w": np.ones(1), "v": np.array([v])}
    with mpmath.workdps(DIGITS):
        value, gradient, expected, observed = _exact_pair(u, v, s)
    for curvature, information in ((Curvature.EXPECTED, expected), (Curvature.OBSERVED, observed)):
        sums = objective.sums(np.array([[u]]), rows, beta, curvature)
        _assert_right(sums.value, value)
        _assert_right(sums.gradient[1], gradient[0])
        _assert_right(sums.curvature[1, 1], information[0])


@pytest.mark.parametrize("z", [*LOGITS, -1e-9, 0.0, 0.3])
@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 5.0])
def test_target_logistic_in_the_tails(z, t):
    objective, beta = TargetLogistic(Design.of(np.array([0]))), np.array([1.0, 0.0])
    sums = objective.sums(np.array([[z]]), {"t": np.array([t]), "w": np.ones(1)}, beta, Curvature.EXPECTED)
    with mpmath.workdps(DIGITS):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(z)))
        value = mpmath.log(1 + mpmath.exp(mpmath.mpf(z))) - mpmath.mpf(t) * mpmath.mpf(z)
        gradient, information = p - mpmath.mpf(t), p / (1 + mpmath.exp(mpmath.mpf(z)))
    _assert_right(sums.value, value)
    _assert_right(sums.gradient[1], gradient)
    _assert_right(sums.curvature[1, 1], information)


# Derivatives


@ALL
@pytest.mark.parametrize("seed", range(3))
def test_derivatives_match_finite_differences(name, seed):
    objective, X, rows, beta = _case(name, seed)
    at = objective.sums(X, rows, beta, Curvature.OBSERVED)
    h = 1e-5
    ahead = [objective.sums(X, rows, beta + h * unit, Curvature.NONE) for unit in np.eye(beta.size)]
    behind = [objective.sums(X, rows, beta - h * unit, Curvature.NONE) for unit in np.eye(beta.size)]
    slopes = [(a.value - b.value) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    bends = [(a.gradient - b.gradient) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    np.testing.assert_allclose(at.gradient, slopes, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(at.curvature, bends, rtol=1e-7, atol=1e-7)


def _label_probability(name, objective, X, rows, beta):
    f = sigmoid_pair(X[:, F_COLUMNS] @ beta[:3] + beta[3])[0]
    e = sigmoid_pair(rows["v"] if name == "known" else X[:, E_COLUMNS] @ beta[4:7] + beta[7])[0]
    return f * e


@pytest.mark.parametrize("name", ["known", "pair"])
def test_expected_information_is_the_mean_of_observed_information_over_labels(name):
    objective, X, rows, beta = _case(name)
    chance = _label_probability(name, objective, X, rows, beta)
    mean = sum(
        objective.sums(
            X, {**rows, "s": np.full(N, s), "w": rows["w"] * (chance if s else 1 - chance)}, beta, Curvature.OBSERVED
        ).curvature
        for s in (0.0, 1.0)
    )
    np.testing.assert_allclose(
        objective.sums(X, rows, beta, Curvature.EXPECTED).curvature, mean, rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("name", ["known", "pair"])
def test_expected_information_is_the_mean_of_squared_scores_and_the_mean_score_is_zero(name):
    objective, X, rows, beta = _case(name)
    chance = _label_probability(name, objective, X, rows, beta)
    squares, scores = np.zeros((beta.size, beta.size)), np.zeros(beta.size)
    for i, s in itertools.product(range(N), (0.0, 1.0)):
        row = {"s": np.array([s]), "w": np.ones(1), "v": rows["v"][i : i + 1]}
        score = objective.sums(X[i : i + 1], row, beta, Curvature.NONE).gradient
        share = rows["w"][i] * (chance[i] if s else 1 - chance[i])
        squares += share * np.outer(score, score)
        scores += share * score
    expected = objective.sums(X, rows, beta, Curvature.EXPECTED).curvature
    np.testing.assert_allclose(expected, squares, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(scores, 0, atol=1e-13)


@ALL
@KINDS
@pytest.mark.parametrize("curvature", [Curvature.EXPECTED, Curvature.OBSERVED])
def test_product_diagonal_and_matrix_agree(name, kind, curvature):
    objective, X, rows, beta = _case(name)
    matrix = objective.sums(kind(X), rows, beta, curvature).curvature
    # Entries are sums of terms that cancel, so rounding errors are compared with the largest entry.
    np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=1e-14 * np.abs(matrix).max())
    if curvature is Curvature.EXPECTED:
        diagonal = objective.sums(kind(X), rows, beta, Curvature.DIAGONAL).curvature
        np.testing.assert_allclose(diagonal, np.diag(matrix), rtol=1e-13)
    for direction in (*np.eye(beta.size), np.arange(beta.size) - 2.0):
        (product,) = _product(objective, kind(X), rows, beta, direction, curvature)
        np.testing.assert_allclose(product, matrix @ direction, rtol=1e-12, atol=1e-13)


@ALL
def test_expected_information_is_positive_semidefinite(name):
    objective, X, rows, beta = _case(name)
    eigenvalues = np.linalg.eigvalsh(objective.sums(X, rows, beta, Curvature.EXPECTED).curvature)
    assert eigenvalues.min() >= -1e-14 * eigenvalues.max()


@ALL
def test_no_curvature_is_computed_unless_requested(name):
    objective, X, rows, beta = _case(name)
    with_matrix, without = (objective.sums(X, rows, beta, c) for c in (Curvature.EXPECTED, Curvature.NONE))
    assert without.curvature.size == 0
    assert without.value == with_matrix.value
    np.testing.assert_array_equal(without.gradient, with_matrix.gradient)


# Models that are special cases of each other


@pytest.mark.parametrize("curvature", [Curvature.EXPECTED, Curvature.OBSERVED])
def test_propensities_of_one_make_plain_logistic_regression(curvature):
    known, X, rows, beta = _case("known")
    rows = {**rows, "v": np.full(N, np.inf), "t": rows["s"]}
    _assert_same_sums(known.sums(X, rows, beta, curvature), _objective("target").sums(X, rows, beta, curvature))


def test_a_pair_with_a_given_propensity_is_the_known_propensity():
    pair, X, rows, beta = _case("pair")
    beta_f, beta_e = pair.split(beta)
    rows["v"] = X[:, E_COLUMNS] @ beta_e[:-1] + beta_e[-1]
    together = pair.sums(X, rows, beta, Curvature.OBSERVED)
    alone = _objective("known").sums(X, rows, beta_f, Curvature.OBSERVED)
    n = beta_f.size
    _assert_same_sums(alone, (together.value, together.gradient[:n], together.curvature[:n, :n]))


@CURVATURES
def test_swapping_the_two_models_swaps_the_parameters(curvature):
    pair, X, rows, beta = _case("pair")
    beta_f, beta_e = pair.split(beta)
    swapped = LogisticPair(pair.e, pair.f).sums(X, rows, np.concatenate([beta_e, beta_f]), curvature)
    value, gradient, matrix = pair.sums(X, rows, beta, curvature)
    order = np.concatenate([np.arange(beta_f.size, beta.size), np.arange(beta_f.size)])
    matrix = matrix[np.ix_(order, order)] if matrix.ndim == 2 else matrix[order[: matrix.size]]
    _assert_same_sums(swapped, (value, gradient[order], matrix))


def test_propensity_weighted_log_loss_is_the_target_logistic_of_s_over_e():
    objective, X, rows, beta = _case("target")
    e = np.linspace(0.2, 1, N)
    p, not_p = sigmoid_pair(X[:, F_COLUMNS] @ beta[:3] + beta[3])
    share = rows["s"] / e
    risk = rows["w"] @ (-share * np.log(p) - (1 - share) * np.log(not_p))
    assert objective.sums(X, {**rows, "t": share}, beta, Curvature.NONE).value == pytest.approx(risk, rel=1e-13)


# Sums over rows


@ALL
@CURVATURES
def test_a_row_twice_is_a_row_of_weight_two(name, curvature):
    objective, X, rows, beta = _case(name)
    times = np.arange(N) % 3  # never, once, twice
    copies = np.repeat(np.arange(N), times)
    repeated = objective.sums(X[copies], {key: column[copies] for key, column in rows.items()}, beta, curvature)
    weighted = objective.sums(X, {**rows, "w": times * rows["w"]}, beta, curvature)
    _assert_same_sums(repeated, weighted)


@ALL
@CURVATURES
def test_rows_of_weight_zero_have_no_influence(name, curvature):
    objective, X, rows, beta = _case(name)
    kept = np.arange(N) % 2 == 0
    X_wild = np.where(kept[:, None], X, 1e6)  # far from all others
    weighted = objective.sums(X_wild, {**rows, "w": kept * rows["w"]}, beta, curvature)
    _assert_same_sums(weighted, objective.sums(X[kept], {k: c[kept] for k, c in rows.items()}, beta, curvature))


@ALL
@CURVATURES
@KINDS
def test_sums_over_no_rows_are_zero(name, curvature, kind):
    objective, X, rows, beta = _case(name)
    sums = objective.sums(kind(X)[:0], {key: column[:0] for key, column in rows.items()}, beta, curvature)
    full = objective.sums(kind(X), rows, beta, curvature)
    for nothing, something in zip(sums, full, strict=True):
        assert nothing.shape == something.shape
        assert not nothing.any()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["target", "known", "pair"]), st.permutations(range(N)), st.integers(0, N), st.booleans())
def test_order_and_partition_of_the_rows_do_not_matter(name, order, cut, is_sparse):
    objective, X, rows, beta = _case(name)
    whole = objective.sums(X, rows, beta, Curvature.EXPECTED)
    kind = sparse.csr_array if is_sparse else np.asarray
    parts = [
        objective.sums(kind(X[part]), {k: c[part] for k, c in rows.items()}, beta, Curvature.EXPECTED)
        for part in (order[:cut], order[cut:])
        if part
    ]
    _assert_same_sums([sum(fields) for fields in zip(*parts, strict=True)], whole)


@ALL
@CURVATURES
def test_dense_and_sparse_agree(name, curvature):
    objective, X, rows, beta = _case(name)
    X = X * (np.random.default_rng(1).random(X.shape) < 0.4)
    _assert_same_sums(
        objective.sums(sparse.csr_array(X), rows, beta, curvature), objective.sums(X, rows, beta, curvature)
    )


@ALL
@CURVATURES
@KINDS
def test_columns_by_slice_and_by_index_agree(name, curvature, kind):
    _, X, rows, _ = _case(name)
    by_slice = _objective(name, Design.of(np.array([0, 1, 2])), Design.of(np.array([2, 3, 4])))
    by_index = _objective(name, Design(np.array([0, 1, 2]), 3), Design(np.array([2, 3, 4]), 3))
    beta = np.linspace(-1, 1, by_slice.n_parameters)
    _assert_same_sums(by_index.sums(kind(X), rows, beta, curvature), by_slice.sums(kind(X), rows, beta, curvature))


@ALL
@KINDS
def test_a_model_without_columns_is_its_intercept(name, kind):
    none = Design.of(np.array([], dtype=np.intp))
    objective, (_, X, rows, _) = _objective(name, none, none), _case(name)
    beta = np.array([0.3, -0.2])[: objective.n_parameters]
    ones = Design.of(np.array([0]))  # a column of zeros changes nothing
    other = _objective(name, ones, ones)
    wide = np.column_stack([np.zeros_like(beta), beta]).ravel()
    for curvature in Curvature:
        got = objective.sums(kind(X), rows, beta, curvature)
        value, gradient, matrix = other.sums(kind(0 * X), rows, wide, curvature)
        matrix = matrix[1::2, 1::2] if matrix.ndim == 2 else matrix[1::2]
        _assert_same_sums(got, (value, gradient[1::2], matrix))


@ALL
@CURVATURES
@KINDS
def test_single_precision_rows_are_close_and_their_sums_double(name, curvature, kind):
    objective, X, rows, beta = _case(name)
    single = objective.sums(kind(X.astype(np.float32)), rows, beta, curvature)
    assert all(field.dtype == np.float64 for field in single)
    _assert_same_sums(single, objective.sums(X, rows, beta, curvature), rtol=1e-5)
    (product,) = _product(objective, kind(X.astype(np.float32)), rows, beta, beta)
    assert product.dtype == np.float64
    np.testing.assert_allclose(product, _product(objective, X, rows, beta, beta)[0], rtol=1e-4, atol=1e-5)


@ALL
def test_wide_sparse_rows_are_never_made_dense(name):
    n = width = 100_000  # 80 GB as a dense table
    entries = np.arange(2000)
    X = sparse.csr_array((np.ones(2000), (entries * 49 % n, entries * 31 % width)), shape=(n, width))
    rows = _rows(n=n)
    everything = Design.of(np.arange(width))
    objective = _objective(name, everything, everything)
    beta = np.full(objective.n_parameters, 0.01)
    engine = InMemoryEngine(X, rows, block_rows=20_000, n_threads=1)
    value, gradient, diagonal = engine.total(objective.sums, beta, Curvature.DIAGONAL)
    of_rows = attach(engine, curvature=engine.collect(objective.row_curvature, beta, Curvature.EXPECTED))
    (product,) = of_rows.total(objective.product, np.eye(1, beta.size, 0)[0])
    # The same problem without the columns that are empty.
    used = np.unique(X.indices)
    narrow = _objective(name, Design.of(np.arange(used.size)), Design.of(np.arange(used.size)))
    kept = np.concatenate([np.append(used, width) + i * (width + 1) for i in range(beta.size // (width + 1))])
    small = InMemoryEngine(X[:, used], rows, block_rows=20_000, n_threads=1)
    want = small.total(narrow.sums, beta[kept], Curvature.DIAGONAL)
    _assert_same_sums((value, gradient[kept], diagonal[kept]), want, rtol=1e-10)
    assert np.abs(np.delete(gradient, kept)).max() == 0
    assert product[0] == pytest.approx(diagonal[0], rel=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["target", "known", "pair"]),
    st.integers(1, 4),
    st.sampled_from([1e-30, 1e-6, 1.0, 1e6]),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_everything_is_finite_for_few_rows_constant_columns_and_extreme_scales(name, n, scale, dtype, is_sparse, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)) * scale, np.full(n, scale), np.zeros(n), rng.normal(size=n)])
    X = sparse.csr_array(X.astype(dtype)) if is_sparse else X.astype(dtype)
    objective = _objective(name)
    beta = rng.normal(size=objective.n_parameters)
    for curvature in Curvature:
        for field in objective.sums(X, _rows(seed, n), beta, curvature):
            assert np.isfinite(field).all()
            assert field.dtype == np.float64
