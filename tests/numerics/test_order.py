"""The canonical order of rows is the same for a table and for its permutations."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from scarless.checks.tables import take_rows
from scarless.engines.blocks import Wrapped
from scarless.numerics.order import canonical_order, column_salts, equal_rows, salts_by_rows, table_salts

TABLES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 4)),
    elements=st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1e-300, 1e100, 5e-324]),
)


def as_rows(X, s, order):
    X = take_rows(X, order)
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return [(*row, label) for row, label in zip(X.tolist(), np.asarray(s)[order].tolist(), strict=True)]


@settings(max_examples=150, deadline=None)
@given(X=TABLES, seed=st.integers(0, 1000), kind=st.sampled_from([np.asarray, sparse.csr_array, sparse.csr_matrix]))
def test_a_shuffled_table_gets_the_same_order(X, seed, kind):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, size=len(X)).astype(float)
    shuffle = rng.permutation(len(X))
    order, other = canonical_order(kind(X), s), canonical_order(kind(X[shuffle]), s[shuffle])
    assert sorted(order) == list(range(len(X)))
    assert as_rows(kind(X), s, order) == as_rows(kind(X[shuffle]), s[shuffle], other)


def test_distinct_rows_get_distinct_places():
    # 100,000 distinct rows of small numbers, the hardest for a hash: all shuffles must agree.
    X = np.stack(np.meshgrid(*[np.arange(10.0)] * 5), axis=-1).reshape(-1, 5)
    s = np.zeros(len(X))
    shuffle = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(X[canonical_order(X, s)], X[shuffle][canonical_order(X[shuffle], s)])
    np.testing.assert_array_equal(X[canonical_order(X, s)], X[::-1][canonical_order(X[::-1], s)])


def test_rows_with_swapped_values_are_different_rows():
    X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0], [0.0, 0.0]])
    keys = {tuple(X[canonical_order(X, np.roll([1.0, 0, 0, 0], shift))].ravel()) for shift in range(4)}
    assert len(keys) > 1  # the label counts too
    for table in (X, sparse.csr_array(X)):
        flipped = table[::-1] if isinstance(table, np.ndarray) else sparse.csr_array(X[::-1])
        order, other = canonical_order(table, np.zeros(4)), canonical_order(flipped, np.zeros(4))
        np.testing.assert_array_equal(order, 3 - other)


def test_rows_that_differ_by_their_label_only():
    X, s = np.ones((6, 2)), np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    for shuffle in (np.arange(6), np.arange(6)[::-1], np.array([3, 1, 4, 0, 2, 5])):
        np.testing.assert_array_equal(s[shuffle][canonical_order(X, s[shuffle])], s[canonical_order(X, s)])


def test_minus_zero_and_stored_zeros_are_zeros():
    X = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    s = np.array([1.0, 0.0, 0.0])
    np.testing.assert_array_equal(canonical_order(np.where(X == 0, -0.0, X), s), canonical_order(X, s))
    stored = sparse.csr_array(X + 5.0)
    stored.data -= 5.0
    assert stored.nnz == 6
    np.testing.assert_array_equal(canonical_order(stored, s), canonical_order(sparse.csr_array(X), s))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_with_text(kind):
    columns = {
        "region": np.array(["north", "south", "north", "east"] * 5, dtype=object),
        "age": np.arange(20) % 7,
        "member": np.arange(20) % 2 == 0,
        "income": np.linspace(0, 1, 20),
    }
    s = (np.arange(20) % 3 == 0).astype(float)
    order = canonical_order(kind(columns), s)
    shuffle = np.random.default_rng(0).permutation(20)
    shuffled = {name: values[shuffle] for name, values in columns.items()}
    np.testing.assert_array_equal(shuffle[canonical_order(kind(shuffled), s[shuffle])], order)


def test_a_frame_of_numbers_is_its_array():
    X = np.random.default_rng(0).normal(size=(30, 3))
    s = (X[:, 0] > 0).astype(float)
    for frame in (pd.DataFrame(X), pl.DataFrame(X)):
        np.testing.assert_array_equal(canonical_order(frame, s), canonical_order(X, s))


def test_an_array_of_objects_and_one_of_whole_numbers():
    X = np.array([["a", 1], ["b", 2], ["a", 3]], dtype=object)
    order, other = canonical_order(X, np.zeros(3)), canonical_order(X[::-1], np.zeros(3))
    np.testing.assert_array_equal(order, 2 - other)
    whole = np.arange(12).reshape(6, 2)
    np.testing.assert_array_equal(canonical_order(whole, np.zeros(6)), canonical_order(whole * 1.0, np.zeros(6)))


# --- equal rows


@settings(max_examples=150, deadline=None)
@given(X=TABLES, seed=st.integers(0, 1000), kind=st.sampled_from([np.asarray, sparse.csr_array, pd.DataFrame]))
def test_rows_have_one_number_if_and_only_if_they_are_equal_whatever_their_order(X, seed, kind):
    X = X[np.random.default_rng(seed).integers(0, len(X), size=len(X))]
    number = equal_rows(kind(X))
    assert set(number) == set(range(number.max() + 1))
    np.testing.assert_array_equal(number[:, None] == number, (X[:, None] == X).all(axis=2))
    shuffle = np.random.default_rng(seed).permutation(len(X))
    np.testing.assert_array_equal(equal_rows(kind(X[shuffle])), number[shuffle])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_equal_rows_of_frames_with_text(kind):
    columns = {"region": np.array(["north", "south"] * 6, dtype=object), "age": np.arange(12) % 3}
    number = equal_rows(kind(columns))
    expected = [*zip(columns["region"], columns["age"], strict=True)]
    for i in range(12):
        assert [number[i] == number[j] for j in range(12)] == [expected[i] == row for row in expected]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_folds_do_not_depend_on_the_order_or_precision_of_columns(kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(200, 3)), rng.integers(0, 2, (200, 2)), np.eye(4)[rng.integers(0, 4, 200)]])
    number = equal_rows(kind(X))
    np.testing.assert_array_equal(equal_rows(kind(X[:, rng.permutation(X.shape[1])])), number)
    np.testing.assert_array_equal(equal_rows(kind(X.astype(np.float32))), number)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
@pytest.mark.parametrize("seed", range(4))
def test_folds_do_not_depend_on_the_order_of_columns_with_equal_counts(kind, seed):
    """Binary columns with equally many ones; one column occurs twice and one is empty."""
    rng = np.random.default_rng(seed)
    X = np.array([rng.permutation(np.arange(60) < 30) for _ in range(6)]).T.astype(float)
    X = np.column_stack([X, X[:, 0], np.zeros(60)])
    assert np.unique(column_salts(X)).size == 2
    assert np.unique(table_salts(X)).size == 7
    number = equal_rows(kind(X))
    for _ in range(3):
        np.testing.assert_array_equal(equal_rows(kind(X[:, rng.permutation(8)])), number)


def test_labels_distinguish_columns_of_a_balanced_design():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)
    s = (X[:, 0] == 1) * (np.arange(40) % 3 == 0) * 1.0
    assert np.unique(table_salts(X)).size == 1
    np.testing.assert_array_equal(equal_rows(X[:, ::-1], s=s), equal_rows(X, s=s))
    np.testing.assert_array_equal(canonical_order(X[:, ::-1], s), canonical_order(X, s))


def test_columns_that_differ_keep_their_salts():
    X = np.random.default_rng(0).normal(size=(30, 4))
    np.testing.assert_array_equal(table_salts(X), column_salts(X))


def test_rows_that_differ_in_double_precision_only_are_not_equal():
    X = 1e9 + np.arange(6.0)[:, None]
    assert np.unique(equal_rows(X)).size == 6


def test_a_row_of_weight_two_is_as_two_rows():
    rng = np.random.default_rng(1)
    X, w = rng.integers(0, 2, (60, 4)).astype(float), rng.integers(0, 3, 60)
    copies = np.repeat(np.arange(60), w)
    np.testing.assert_array_equal(column_salts(X, w.astype(float)), column_salts(X[copies]))


def test_salts_of_parts_add_up():
    X = np.random.default_rng(2).normal(size=(50, 3))
    whole, parts = column_salts(X), Wrapped(column_salts(X[:20])) + Wrapped(column_salts(X[20:]))
    np.testing.assert_array_equal(whole, parts.values)
    refined = [Wrapped(salts_by_rows(X[part], whole)) for part in (slice(20), slice(20, None))]
    np.testing.assert_array_equal(salts_by_rows(X, whole), (refined[0] + refined[1]).values)
