"""Checks of `cv`: which values are accepted, and the errors for others."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from scarless.pair.folds import check_folds, refuse_odd_cv
from scarless.pair.logistic import Training

N = 12


@pytest.fixture
def rows():
    X = np.random.default_rng(0).normal(size=(N, 2))
    return Training(X, np.arange(N) % 2 * 1.0, np.ones(N))


def folds(cv, rows):
    return check_folds(cv, rows, rows, 0, name="cv")


@pytest.mark.parametrize("cv", [True, np.True_, 0.5, np.nan, "a", b"x", {"a": 1}, Ellipsis, object(), StratifiedKFold])
def test_invalid_cv_raises(cv, rows):
    message = r"cv must be a number of folds, a splitter such as StratifiedKFold\(5\), or a list of pairs .*; got "
    with pytest.raises(ValueError, match=message):
        folds(cv, rows)
    with pytest.raises(ValueError, match="cv must be a number of folds"):
        refuse_odd_cv(cv, "cv")


@pytest.mark.parametrize("cv", [[5], [(0, 1, 2)], [("a",)], ["ab"], [([0, 1],)], [None]])
def test_an_entry_that_is_not_a_pair_raises(cv, rows):
    message = r"cv must contain pairs \(training rows, test rows\); its entry 0 \(counted from 0\) is "
    with pytest.raises(ValueError, match=message):
        folds(cv, rows)


@pytest.mark.parametrize("part", [[0.5], ["a"], [[0]], [True, False], 0, None])
def test_rows_that_are_neither_indices_nor_a_mask_raise(part, rows):
    with pytest.raises(ValueError, match="cv must select rows by index, or by a boolean mask of length 12; its ent"):
        folds([([0, 1, 2, 3], part)], rows)


def test_rows_of_unequal_length_raise(rows):
    with pytest.raises(ValueError, match="entry 0 of cv must contain one value per row"):
        folds([([[0], [1, 2]], [3])], rows)


@pytest.mark.parametrize("row", [12, 99, -13])
def test_row_indices_out_of_range_raise(row, rows):
    with pytest.raises(
        ValueError, match=f"cv has the row index {row}, but there are 12 rows. Use indices from 0 to 11"
    ):
        folds([([0, 1, row], [2])], rows)


@pytest.mark.parametrize("cv", [[([], [])], [([0, 1], [])], [([], [0, 1])]])
def test_empty_folds_raise(cv, rows):
    with pytest.raises(ValueError, match="cv has a fold without test rows, or a fold whose training rows are all"):
        folds(cv, rows)


def test_pairs_masks_and_splitters_give_the_same_folds(rows):
    pairs = list(KFold(5).split(rows.X))  # the folds have unequal sizes
    masks = [tuple(np.isin(np.arange(N), part) for part in pair) for pair in pairs]
    for cv in (pairs, masks, KFold(5), iter(pairs)):
        found = folds(cv, rows)
        assert len(found) == 5
        for (train, test), (known_train, known_test) in zip(found, pairs, strict=True):
            np.testing.assert_array_equal(train, known_train)
            np.testing.assert_array_equal(test, known_test)
