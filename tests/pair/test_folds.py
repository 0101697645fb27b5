"""Folds are stratified, keep equal rows together, do not depend on the order of rows, and treat weights as copies."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import StratifiedKFold

from scarless import SAREMClassifierCV
from scarless.pair.folds import (
    assign_strata,
    check_folds,
    counted_folds,
    fold_of_rows,
    fold_rows,
    folds_of,
    refuse_one_sided,
)
from scarless.pair.logistic import Training


def folds(X, s, w=None, *, n_folds=5, seed=0):
    training = Training(X, np.asarray(s, dtype=float), np.ones(len(s)) if w is None else np.asarray(w, dtype=float))
    return fold_of_rows(training, n_folds, np.random.default_rng(seed))


def few_distinct_rows(n=600, n_distinct=14, seed=0):
    """Return a table with few different rows, each with labelled and unlabelled copies."""
    rng = np.random.default_rng(seed)
    distinct = np.stack(np.meshgrid(*[[0.0, 1.0]] * 4), axis=-1).reshape(-1, 4)[:n_distinct]
    kind = rng.integers(n_distinct, size=n)
    return distinct[kind], (rng.random(n) < 0.1 + 0.05 * kind).astype(float), kind


@pytest.mark.parametrize("as_table", [np.asarray, sparse.csr_array, pd.DataFrame], ids=["dense", "csr", "frame"])
@pytest.mark.parametrize("seed", range(5))
def test_equal_rows_are_in_one_fold_labelled_or_not(as_table, seed):
    X, s, kind = few_distinct_rows(seed=seed)
    found = folds(as_table(X), s, seed=seed)
    for each in np.unique(kind):
        assert np.unique(s[kind == each]).size == 2
        assert np.unique(found[kind == each]).size == 1
    assert set(found) == set(range(5))


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
def test_different_rows_are_spread_evenly_over_folds(n_folds):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(203, 3)), (np.arange(203) % 3 == 0).astype(float)
    found = folds(X, s, n_folds=n_folds)
    for label in (0, 1):
        counts = np.bincount(found[s == label], minlength=n_folds)
        assert np.ptp(counts) <= 1


def test_heavy_groups_are_assigned_first():
    """One group of weight 5 and five of weight 1: light groups first would give weights of 7 and 3."""
    w = np.array([1.0, 1.0, 5.0, 1.0, 1.0, 1.0])
    for seed in range(5):
        fold = assign_strata(np.arange(6), np.zeros(6), np.full(6, -1), w, 2, np.random.default_rng(seed))
        np.testing.assert_array_equal(np.bincount(fold, weights=w), [5, 5])


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n_folds=st.integers(2, 6))
def test_weights_of_folds_differ_by_no_more_than_one_group(seed, n_folds):
    """Each group goes to the lightest fold, so the weights of two folds differ by at most the heaviest group."""
    rng = np.random.default_rng(seed)
    X, s = rng.normal(size=(60, 2)), (rng.random(60) < 0.5).astype(float)
    s[: 2 * n_folds] = np.tile([0.0, 1.0], n_folds)
    w = rng.exponential(size=60)
    found = folds(X, s, w, n_folds=n_folds, seed=seed)
    for label in (0, 1):
        held = np.bincount(found[s == label], weights=w[s == label], minlength=n_folds)
        assert np.ptp(held) <= w[s == label].max() * (1 + 1e-12)
        assert (held > 0).all()


@pytest.mark.parametrize("table", ["distinct", "few"])
def test_folds_do_not_depend_on_the_order_of_rows(table):
    rng = np.random.default_rng(1)
    X, s, _ = few_distinct_rows()
    if table == "distinct":
        X = rng.normal(size=X.shape)
    w = rng.integers(1, 4, size=s.size)
    order = rng.permutation(s.size)
    np.testing.assert_array_equal(folds(X[order], s[order], w[order]), folds(X, s, w)[order])


@pytest.mark.parametrize("table", ["distinct", "few"])
def test_weights_equal_repeated_rows(table):
    rng = np.random.default_rng(2)
    X, s, _ = few_distinct_rows()
    if table == "distinct":
        X = rng.normal(size=X.shape)
    w = rng.integers(1, 4, size=s.size)
    repeated = folds(np.repeat(X, w, axis=0), np.repeat(s, w))
    np.testing.assert_array_equal(repeated, np.repeat(folds(X, s, w), w))


def test_another_seed_gives_other_folds():
    X, s = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 2
    np.testing.assert_array_equal(folds(X, s, seed=3), folds(X, s, seed=3))
    assert (folds(X, s, seed=3) != folds(X, s, seed=4)).any()


def test_fewer_different_rows_mean_fewer_folds():
    X = np.repeat(np.arange(5.0)[:, None], 20, axis=0)
    s = np.zeros(100)
    s[[0, 20, 40]] = 1.0  # three different labelled rows
    found = folds(X, s, n_folds=5)
    assert set(found) == {0, 1, 2}
    for part in range(3):
        assert np.unique(s[found == part]).size == 2


def test_a_table_with_fourteen_different_rows_has_five_folds():
    X, s, _ = few_distinct_rows()
    pairs = check_folds(5, Training(X, s, np.ones(s.size)), Training(X, s, np.ones(s.size)), 0, name="cv")
    assert len(pairs) == 5
    for train, test in pairs:
        assert np.unique(s[train]).size == 2
        assert not set(map(tuple, X[train])) & set(map(tuple, X[test]))


def test_each_pair_contains_every_row_once():
    fold = np.array([0, 2, 1, 0, 2])
    pairs = folds_of(fold)
    assert [test.tolist() for _, test in pairs] == [[0, 3], [2], [1, 4]]
    for train, test in pairs:
        assert sorted([*train, *test]) == list(range(5))


def test_folds_of_all_rows_become_folds_of_rows_with_a_positive_weight():
    s, w = np.array([1.0, 0, 1, 0, 1, 0]), np.array([1.0, 1, 0, 1, 2, 0])
    given_folds = [([0, 1, 2, 3], [4, 5]), (np.array([False, True, False, False, True, True]), np.arange(4))]
    found = counted_folds(given_folds, Training(np.zeros((6, 1)), s, w), "cv")
    assert [[part.tolist() for part in fold] for fold in found] == [[[0, 1, 2], [3]], [[1, 3], [0, 1, 2]]]


@pytest.mark.parametrize(
    "splitter", [StratifiedKFold(3), list(StratifiedKFold(3).split(np.zeros(60), np.arange(60) % 2))]
)
def test_folds_of_splitters_and_lists_are_not_changed(splitter):
    s = (np.arange(60) % 2).astype(float)
    training = Training(np.arange(60.0)[:, None], s, np.ones(60))
    found = check_folds(splitter, training, training, None, name="cv")
    for got, want in zip(found, StratifiedKFold(3).split(np.zeros(60), s), strict=True):
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])


# --- errors


@pytest.mark.parametrize(("labelled", "told"), [([0], "got 1 and 5"), ([0, 1, 2, 3, 4], "got 5 and 0")])
def test_too_few_different_rows_raise(labelled, told):
    X, s = np.arange(5.0)[:, None], np.isin(np.arange(5), labelled).astype(float)
    if len(labelled) == 1:
        X, s = (
            np.vstack([X, X[:1]]),
            np.append(s, 0.0),
        )  # an unlabelled copy of the labelled row counts as unlabelled row
    with pytest.raises(
        ValueError,
        match=rf"at least 2 different labelled rows and 2 different unlabelled rows; {told}\. Use SAREMClassifier",
    ):
        folds(X, s)


def test_copies_of_a_labelled_row_count_once():
    X, s = np.array([[1.0]] * 10 + [[2.0], [3.0], [4.0]]), np.append(np.ones(10), np.zeros(3))
    with pytest.raises(ValueError, match="got 1 and 3"):
        folds(X, s)


def test_folds_without_test_rows_or_with_one_label_raise():
    s = np.array([1.0, 1, 0, 0])
    for train, test in (([0, 1], [2, 3]), ([0, 2], [])):
        with pytest.raises(
            ValueError, match=r"training rows are all labelled or all unlabelled\. Give a smaller number of folds"
        ):
            refuse_one_sided([(np.array(train, dtype=int), np.array(test, dtype=int))], s)
    refuse_one_sided([(np.array([0, 2]), np.array([1, 3]))], s)


def test_without_cv_the_folds_of_an_engine_are_stratified_by_the_label():
    """Labelled rows are the last rows, so folds that ignore labels would have all labels in one fold."""
    X, s = np.random.default_rng(0).normal(size=(50, 2)), (np.arange(50) >= 40).astype(int)
    folded = fold_rows(None, SAREMClassifierCV()._check_rows(X, s, None), 0, name="cv").engine
    tested = folded.collect(lambda X, rows: rows["scores"])  # one column for each fold
    assert (s @ tested).tolist() == [2] * 5


def test_an_empty_list_and_a_single_fold_raise():
    training = Training(np.arange(4.0)[:, None], np.array([1.0, 1, 0, 0]), np.ones(4))
    with pytest.raises(ValueError, match=r"cv has no folds\. If it is a generator, it is empty after one fit"):
        counted_folds([], training, "cv")
    with pytest.raises(ValueError, match="cv must be a whole number of at least 2"):
        check_folds(1, training, training, 0, name="cv")


@pytest.mark.parametrize("n", [600, 120_000])
def test_folds_of_an_engine_do_not_depend_on_the_order_of_binary_columns_with_equal_counts(n):
    rng = np.random.default_rng(0)
    X = np.array([rng.permutation(np.arange(n) < n // 2) for _ in range(12)]).T.astype(float)
    s = (X[:, 0] * (rng.random(n) < 0.5)).astype(int)
    folds = [
        fold_rows(5, SAREMClassifierCV()._check_rows(table, s, None), 0, name="cv").engine.collect(_fold)
        for table in (X, X[:, ::-1].copy())
    ]
    np.testing.assert_array_equal(*folds)


def _fold(X, rows):
    return rows["fold"]
