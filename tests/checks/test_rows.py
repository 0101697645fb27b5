"""Checks of the table and the label column of a fit."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

from scarless import ElkanNoto, SAREMClassifier, SCARClassifier
from scarless.checks.rows import check_labelled_table, check_row_order, forget_fit, index_of, warn_about_row_order
from scarless.field import PGlinClassifier


class Reader(BaseEstimator):
    """An object with settable attributes."""


X = np.random.default_rng(0).normal(size=(30, 2))
S = (np.arange(30) % 3 == 0).astype(int)


def test_numbers_come_out_as_floats_and_labels_as_zero_and_one():
    reader = Reader()
    table, s, coding = check_labelled_table(reader, X.tolist(), S.tolist())
    np.testing.assert_array_equal(table, X)
    np.testing.assert_array_equal(s, S)
    assert s.dtype == np.float64
    assert coding.classes.tolist() == [0, 1]
    assert coding.positive == 1
    assert reader.n_features_in_ == 2
    assert not hasattr(reader, "feature_names_in_")


def test_names_are_kept_and_the_positive_value_is_the_one_named():
    reader = Reader()
    labels = np.where(S == 1, "known", "open")
    _, s, coding = check_labelled_table(reader, pd.DataFrame(X, columns=["a", "b"]), labels, pos_label="known")
    np.testing.assert_array_equal(s, S)
    assert coding.classes.tolist() == ["known", "open"]
    assert coding.positive == 0
    assert reader.feature_names_in_.tolist() == ["a", "b"]


def test_labels_in_a_column_of_objects():
    _, s, _ = check_labelled_table(Reader(), X, S.astype(object))
    np.testing.assert_array_equal(s, S)


def test_a_frame_for_another_estimator_is_unchanged():
    frame = pd.DataFrame({"a": ["x", "y"] * 15, "b": X[:, 0]})
    reader = Reader()
    table, s, _ = check_labelled_table(reader, frame, S, inner=LogisticRegression())
    assert table is frame
    np.testing.assert_array_equal(s, S)
    assert reader.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"text, categories or dates: .* \(1 of 2\)"):
        check_labelled_table(Reader(), frame, S)


def test_missing_values_pass_if_the_estimator_supports_them():
    gaps = X.copy()
    gaps[4, 1] = np.nan
    check_labelled_table(Reader(), gaps, S, inner=HistGradientBoostingClassifier())
    with pytest.raises(ValueError, match="contains NaN"):
        check_labelled_table(Reader(), gaps, S, inner=LogisticRegression())
    with pytest.raises(ValueError, match="contains NaN at row 4, column 1"):
        check_labelled_table(Reader(), gaps, S)


def test_sparse_tables_become_csr():
    for inner in (None, LogisticRegression()):
        table, _, _ = check_labelled_table(Reader(), sparse.coo_array(X), S, inner=inner)
        assert table.format == "csr"


@pytest.mark.parametrize("inner", [None, LogisticRegression()])
def test_wrong_labels(inner):
    with pytest.raises(ValueError, match=r"Reader requires y to be passed.*1 for labelled rows, 0 for unlabelled"):
        check_labelled_table(Reader(), X, None, inner=inner)
    with pytest.raises(ValueError, match="there is no labelled row"):
        check_labelled_table(Reader(), X, 0 * S, inner=inner)
    with pytest.raises(ValueError, match="Labels must have two values"):
        check_labelled_table(Reader(), X, np.arange(30) % 3, inner=inner)
    with pytest.raises(ValueError, match=r"y contains NaN: 1 of 30 labels are missing \(first: row 2\)"):
        check_labelled_table(Reader(), X, np.where(np.arange(30) == 2, np.nan, S), inner=inner)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples|30 rows and y has 29 labels"):
        check_labelled_table(Reader(), X, S[:-1], inner=inner)
    with pytest.raises(ValueError, match=r"pos_label='a' is not among the labels \[0, 1\]"):
        check_labelled_table(Reader(), X, S, inner=inner, pos_label="a")


def test_the_label_column_among_the_attributes_is_named():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(diagnosed=S)
    with pytest.warns(UserWarning, match="Column 'diagnosed' of X equals the label column") as record:
        check_labelled_table(Reader(), frame, S)
    assert record[0].filename == __file__


def test_forget_fit_deletes_results_only():
    reader = Reader()
    reader.C, reader.coef_, reader._coding, reader.n_features_in_, reader.flag = 1.0, [2.0], "kept", 3, True
    forget_fit(reader)
    assert vars(reader) == {"C": 1.0, "_coding": "kept", "flag": True}
    forget_fit(reader)


# --- names of rows


TABLE = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["x", "y", "z"])
VALUES = pd.Series([0.1, 0.2, 0.3], index=["x", "y", "z"])
TOLD = (
    r"its index has the row names of X in another order \(first difference: position 0 is 'x' in X and 'z' in weight\)"
)


def test_row_names_in_another_order_raise_or_warn_with_advice():
    with pytest.warns(
        UserWarning, match=rf"weight is matched to the rows by position, .*{TOLD}.*weight.loc\[X.index\].*to_numpy"
    ):
        warn_about_row_order(TABLE, weight=VALUES[::-1])
    with pytest.raises(
        ValueError,
        match=rf"weight must be in the order of the rows, but {TOLD}. If the index is right, pass "
        r"weight.loc.*to_numpy\(\)",
    ):
        check_row_order(VALUES[::-1], "weight", index_of(TABLE))
    with pytest.warns(UserWarning, match="labels is matched to the rows by position"):
        warn_about_row_order(TABLE, labels=VALUES.to_frame()[::-1])


def test_without_unique_row_names_no_reordering_is_suggested():
    twice = TABLE.set_axis(["x", "x", "z"])
    with pytest.warns(UserWarning, match="matched to the rows by position") as record:
        warn_about_row_order(twice, weight=VALUES.set_axis(["z", "x", "x"]))
    assert ".loc" not in str(record[0].message)


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        VALUES[::-1].to_numpy(),
        VALUES.reset_index(drop=True),
        VALUES[::-1].set_axis(["u", "v", "w"]),
        VALUES[:2],
        pl.Series([0.1, 0.2, 0.3]),
        [0.1, 0.2, 0.3],
        0.5,
        None,
    ],
    ids=["equal", "array", "numbered", "others", "shorter", "polars", "list", "number", "none"],
)
def test_unsuspicious_indices_pass(values):
    warn_about_row_order(TABLE, weight=values)
    assert check_row_order(values, "weight", index_of(TABLE)) is values


def test_equal_indices_of_other_types_are_equal():
    counted, stored = pd.RangeIndex(3), pd.Index([0, 1, 2], dtype="int32")
    warn_about_row_order(TABLE.set_axis(counted), weight=VALUES.set_axis(stored))
    warn_about_row_order(np.eye(3), weight=VALUES[::-1])


@pytest.mark.parametrize(
    "model", [SAREMClassifier(propensity_attributes=[1]), SCARClassifier("elkan-noto"), ElkanNoto(), PGlinClassifier()]
)
def test_weights_that_balance_labelled_and_unlabelled_rows_get_a_warning(model):
    """They change the share of labelled rows, also if they are rounded. Sampling weights and counts do not warn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    s = (rng.random(400) < 0.4 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    balanced = compute_sample_weight("balanced", s)
    for weight in (balanced, balanced.round(3)):
        assert "for all unlabelled rows, with the same total, as weights for balanced" in messages(model, X, s, weight)
    assert "This is right only if labelled rows are rarer in the table" in messages(model, X, s, 1 + 9 * s)
    for weight in (np.ones(400), rng.uniform(0.5, 2.0, size=400), rng.integers(1, 4, size=400), 10 - 9 * s):
        assert "for all unlabelled rows" not in messages(model, X, s, weight)
    half = np.append(np.flatnonzero(s == 1), np.flatnonzero(s == 0)[: s.sum()])
    assert "for all unlabelled rows" not in messages(model, X[half], s[half], np.full(half.size, 2.0))


def messages(model, X, s, weight):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(model).fit(X, s, sample_weight=weight)
    return " ".join(str(each.message) for each in caught)
