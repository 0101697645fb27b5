import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from scarless.numerics import linear
from scarless.numerics.linear import Design

RNG = np.random.default_rng(0)
KINDS = pytest.mark.parametrize(
    "kind", [np.asarray, sparse.csr_array, sparse.csr_matrix], ids=["dense", "csr", "csr_matrix"]
)
WIDTHS = pytest.mark.parametrize("width", [0, 1, 3, 20])  # both ways of scaling columns, and no column at all


def _block(width, n=30):
    X = RNG.normal(size=(n, width)) * (RNG.random((n, width)) < 0.6)
    return X, np.column_stack([X, np.ones(n)])


def test_design_is_a_slice_if_columns_are_adjacent():
    assert Design.of(np.array([2])).columns == slice(2, 3)
    assert Design.of(np.arange(4)).columns == slice(0, 4)
    np.testing.assert_array_equal(Design.of(np.array([1, 3])).columns, [1, 3])
    np.testing.assert_array_equal(Design.of(np.array([2, 1])).columns, [2, 1])


def test_design_without_columns_has_an_intercept():
    design = Design.of(np.array([], dtype=np.intp))
    assert design.n_parameters == 1
    assert design.take(np.ones((4, 3))).shape == (4, 0)
    assert design.take(sparse.csr_array(np.ones((4, 3)))).shape == (4, 0)


def test_a_slice_of_a_dense_block_is_a_view():
    X = np.ones((4, 3))
    assert np.shares_memory(Design.of(np.array([1, 2])).take(X), X)


@KINDS
def test_slice_and_indices_take_the_same_columns(kind):
    X = RNG.normal(size=(5, 6))
    by_slice, by_index = Design.of(np.array([1, 2, 3])), Design(np.array([1, 2, 3]), 3)
    for design in (by_slice, by_index):
        taken = design.take(kind(X))
        assert sparse.issparse(taken) == (kind is not np.asarray)
        np.testing.assert_array_equal(taken.toarray() if sparse.issparse(taken) else taken, X[:, 1:4])


@KINDS
@WIDTHS
def test_products_are_those_of_the_matrix_with_a_column_of_ones(kind, width):
    X, A = _block(width)
    beta, r = RNG.normal(size=width + 1), RNG.normal(size=30)
    np.testing.assert_allclose(linear.logits(kind(X), beta), A @ beta, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(linear.transposed_product(kind(X), r), A.T @ r, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(linear.squared_sums(kind(X), r), (A**2).T @ r, rtol=1e-13, atol=1e-14)


@KINDS
@WIDTHS
def test_cross_product_accepts_weights_of_any_sign(kind, width):
    (left, A), (right, B) = _block(width), _block(2)
    weight = RNG.normal(size=30)
    product = linear.cross_product(kind(left), weight, kind(right))
    np.testing.assert_allclose(product, A.T @ np.diag(weight) @ B, rtol=1e-12, atol=1e-13)
    beside = linear.cross_products(kind(left), [(weight, kind(left)), (-weight, kind(right))])
    of_left = linear.cross_product(kind(left), weight, kind(left))
    np.testing.assert_allclose(beside, np.hstack([of_left, -product]), rtol=1e-12, atol=1e-13)


@KINDS
@WIDTHS
def test_gram_is_the_product_of_scaled_parts_side_by_side(kind, width):
    (left, A), (right, B) = _block(width), _block(2)
    a, b = RNG.normal(size=(2, 30))
    whole = np.hstack([a[:, None] * A, b[:, None] * B])
    product = linear.gram([(kind(left), a), (kind(right), b)])
    np.testing.assert_allclose(product, whole.T @ whole, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        linear.gram([(kind(left), a)]), product[: width + 1, : width + 1], rtol=1e-12, atol=1e-13
    )


@KINDS
def test_input_is_not_changed(kind):
    X, weight = kind(_block(3)[0]), RNG.normal(size=30)
    before = X.copy()
    linear.cross_product(X, weight, X)
    linear.gram([(X, weight)])
    linear.squared_sums(X, weight)
    assert abs(X - before).max() == 0


@KINDS
def test_single_precision_products_are_returned_in_double(kind):
    X, A = _block(3)
    single, r = kind(X.astype(np.float32)), RNG.random(30)
    results = [
        (linear.logits(single, np.arange(4.0)), A @ np.arange(4.0)),
        (linear.transposed_product(single, r), A.T @ r),
        (linear.squared_sums(single, r), (A**2).T @ r),
        (linear.cross_product(single, r, single), A.T @ (r[:, None] * A)),
        (linear.gram([(single, np.sqrt(r))]), A.T @ (r[:, None] * A)),
    ]
    for got, want in results:
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_intercept_of_single_precision_rows_keeps_all_digits():
    X = np.zeros((3, 1), dtype=np.float32)
    np.testing.assert_array_equal(linear.logits(X, np.array([0.0, 1 / 3])), 1 / 3)
    assert linear.transposed_product(X, np.full(3, 0.1))[-1] == pytest.approx(0.3, rel=1e-15)


def test_rows_without_entries_are_zeros():
    X = sparse.csr_array((4, 3))
    np.testing.assert_array_equal(linear.logits(X, np.array([1.0, 2.0, 3.0, 4.0])), 4.0)
    np.testing.assert_array_equal(linear.gram([(X, np.ones(4))]), np.diag([0.0, 0.0, 0.0, 4.0]))


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=18),
        elements=st.sampled_from([0.0, 1.0, -1.0, 1e-8, 3e6, -2e-3]),
    ),
    st.integers(0, 2**31),
)
def test_dense_and_sparse_products_agree(X, seed):
    rng = np.random.default_rng(seed)
    n, d = X.shape
    beta, weight = rng.normal(size=d + 1), rng.random(n)
    S = sparse.csr_array(X)
    size = np.abs(X).max() + 1
    np.testing.assert_allclose(linear.logits(S, beta), linear.logits(X, beta), rtol=1e-12, atol=1e-12 * size)
    np.testing.assert_allclose(linear.gram([(S, weight)]), linear.gram([(X, weight)]), rtol=1e-12, atol=1e-12 * size**2)
    np.testing.assert_allclose(
        linear.squared_sums(S, weight**2), np.diag(linear.gram([(X, weight)])), rtol=1e-12, atol=1e-300
    )


@pytest.mark.parametrize("sign", ["mixed", "positive", "negative"])
def test_products_of_many_columns_are_those_of_general_matrices(sign):
    rng = np.random.default_rng(0)
    X, Z, weight, other = rng.normal(size=(50, 80)), rng.normal(size=(50, 2)), rng.normal(size=50), rng.normal(size=50)
    weight = {"mixed": weight, "positive": np.abs(weight), "negative": -np.abs(weight)}[sign]
    left, right = (np.column_stack([each, np.ones(50)]) for each in (X, Z))
    expected = np.hstack([left.T @ (weight[:, None] * left), left.T @ (other[:, None] * right)])
    np.testing.assert_allclose(linear.cross_products(X, [(weight, X), (other, Z)]), expected, atol=1e-12)


@KINDS
@pytest.mark.parametrize("widths", [(3, 20), (0, 3), (20, 20), (3, 70)])
@pytest.mark.parametrize("n", [30, 2500])  # fewer rows than are transposed at a time, and more
def test_products_of_pairs_are_those_of_dense_columns(kind, widths, n):
    (X, ones_X), (Y, ones_Y) = (_block(width, n) for width in widths)
    weights = {pair: RNG.normal(size=n) for pair in ((0, 0), (0, 1), (1, 1))}
    got = linear.products_of_pairs([kind(X), kind(Y)], weights)
    with_ones = [ones_X, ones_Y]
    for (j, k), weight in weights.items():
        want = (with_ones[j].T * weight) @ with_ones[k]
        np.testing.assert_allclose(got[j, k], want, atol=1e-10)


def test_products_of_pairs_of_one_block_are_in_float64():
    X, with_ones = _block(4, 3000)
    single = X.astype(np.float32)
    weight = RNG.random(3000)
    got = linear.products_of_pairs([single, single], {(0, 1): weight})[0, 1]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, (with_ones.T * weight) @ with_ones, rtol=1e-4, atol=1e-3)


@KINDS
@WIDTHS
def test_several_lines_and_several_models_at_once(kind, width):
    X, with_ones = _block(width)
    lines, betas = RNG.normal(size=(3, 30)), list(RNG.normal(size=(2, width + 1)))
    np.testing.assert_allclose(linear.transposed_products(kind(X), lines), with_ones.T @ lines.T, atol=1e-12)
    for got, beta in zip(linear.logits_of_several(kind(X), betas), betas, strict=True):
        np.testing.assert_allclose(got, with_ones @ beta, atol=1e-12)
