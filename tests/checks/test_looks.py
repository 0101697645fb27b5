"""Labels of looks and audits: codings of missing looks, and errors."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from scarless.checks.labels import check_labels
from scarless.checks.looks import (
    check_audit,
    check_looks,
    has_several_looks,
    refuse_contradictions,
    warnings_about_audits,
    warnings_about_looks,
)

CODES = np.array([[1, -1], [0, 0], [-1, 0], [1, 1]])
GAPS = np.where(CODES == -1, np.nan, CODES)
NONES = np.where(CODES == -1, None, CODES)
WORDS = np.where(CODES == -1, None, np.where(CODES == 1, "yes", "no"))
TABLES = {
    "-1": CODES,
    "-1.0": CODES.astype(float),
    "NaN": GAPS,
    "None": NONES,
    "NaN in objects": GAPS.astype(object),
    "masked": np.ma.masked_equal(CODES, -1),
    "masked floats": np.ma.masked_invalid(GAPS),
    "lists": NONES.tolist(),
    "booleans": np.where(CODES == -1, None, CODES == 1),
    "pandas": pd.DataFrame(GAPS),
    "pandas, Int64": pd.DataFrame(GAPS).astype("Int64"),
    "pandas, boolean": pd.DataFrame(GAPS).astype("boolean"),
    "polars": pl.DataFrame(GAPS).fill_nan(None),
    "polars, booleans": pl.DataFrame(GAPS).fill_nan(None).cast(pl.Boolean),
    "polars, mixed": pl.DataFrame({"a": [1, 0, None, 1], "b": [None, 0.0, 0.0, 1.0]}),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_all_codings_of_a_missing_look_are_equal(name):
    checked = check_looks(TABLES[name])
    np.testing.assert_array_equal(checked.labels, CODES)
    assert checked.coding.positive == 1
    assert has_several_looks(TABLES[name])


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, lambda t: pd.DataFrame(t).astype("category")])
def test_text_labels_without_pos_label_warn(kind):
    checked = check_looks(kind(WORDS), pos_label="yes")
    np.testing.assert_array_equal(checked.labels, CODES)
    with pytest.warns(UserWarning, match="pos_label is not given"):
        check_looks(kind(WORDS))


def test_looks_have_the_names_of_their_columns():
    assert check_looks(pd.DataFrame(CODES, columns=["first", "second"])).names == ("first", "second")
    assert check_looks(CODES).names == ("look 0", "look 1")


@pytest.mark.parametrize(
    ("y", "several"),
    [
        (None, False),
        ("column", False),
        ([0, 1], False),
        ([[0], [1]], False),
        ([[-1], [1]], False),  # labels of -1 and 1
        ([[-1], [0], [1]], True),
        ([[np.nan], [0], [1]], True),
        ([[None], [0], [1]], True),
        ([[0, 1], [0, 0]], True),
        (np.zeros((3, 0)), False),
        (np.zeros((3, 2, 2)), False),
        ([[1], [0, 1]], False),
    ],
)
def test_what_counts_as_several_looks(y, several):
    assert has_several_looks(y) is several


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        (np.full((3, 2), np.nan), ValueError, "y has only missing values"),
        (
            [[1, -1], [-1, 1]],
            ValueError,
            "-1 marks a look that did not take place. Use 0 for a look at which the row was not labelled",
        ),
        ([[1, 1], [1, 1]], ValueError, "y has one class only, 1"),
        ([[0, 0], [0, -1]], ValueError, "y has one class only, 0: there is no labelled row"),
        ([[0, 1], [2, 0]], ValueError, "Labels must have two values"),
        (np.zeros((2, 2, 2)), ValueError, r"one column for each look; its shape is \(2, 2, 2\)"),
        (np.zeros((2, 0)), ValueError, r"one column for each look; its shape is \(2, 0\)"),
        (sparse.csr_array(np.eye(2)), TypeError, r"could mean 0 or a missing value. If it means 0, pass y.toarray"),
        ([["yes", 1], ["no", 0]], ValueError, "Labels must have two values"),
    ],
)
def test_labels_that_are_refused(y, error, match):
    with pytest.raises(error, match=match):
        check_looks(y)


def test_new_rows_must_have_the_labels_of_the_fit():
    coding = check_looks(WORDS, pos_label="yes").coding
    np.testing.assert_array_equal(check_looks(WORDS[1:], coding=coding).labels, CODES[1:])
    np.testing.assert_array_equal(check_looks([[None, None]], coding=coding).labels, [[-1, -1]])
    np.testing.assert_array_equal(check_looks([["yes", None]], coding=coding).labels, [[1, -1]])
    with pytest.raises(
        ValueError, match=r"The labels contain 'maybe', but the model was fitted with the labels \['no', 'yes'\]"
    ):
        check_looks([["maybe", "no"]], coding=coding)


AUDITS = {
    "NaN": [1.0, np.nan, 0.0],
    "None": [1, None, 0],
    "-1": [1, -1, 0],
    "booleans": [True, None, False],
    "masked": np.ma.array([1, 0, 0], mask=[False, True, False]),
    "pandas": pd.Series([1, None, 0], dtype="Int64"),
    "polars": pl.Series([True, None, False]),
    "a column": np.array([[1.0], [np.nan], [0.0]]),
    "a frame": pd.DataFrame({"audit": [1.0, np.nan, 0.0]}),
}


@pytest.mark.parametrize("name", list(AUDITS))
def test_all_codings_of_audits_are_equal(name):
    np.testing.assert_array_equal(check_audit(AUDITS[name], n_rows=3), [1, -1, 0])


def test_no_audit_means_no_audited_row():
    np.testing.assert_array_equal(check_audit(None, n_rows=2), [-1, -1])
    np.testing.assert_array_equal(check_audit([np.nan, None], n_rows=2), [-1, -1])


def test_audits_may_have_the_values_of_labels():
    coding = check_looks(WORDS, pos_label="yes").coding
    np.testing.assert_array_equal(check_audit(["no", None, "yes"], n_rows=3, coding=coding), [0, -1, 1])
    np.testing.assert_array_equal(check_audit([0, None, 1], n_rows=3, coding=coding), [0, -1, 1])
    numbers = check_looks([[2, 3], [3, 3]], pos_label=2).coding
    np.testing.assert_array_equal(check_audit([2, 3, 3], n_rows=3, coding=numbers), [1, 0, 0])


def test_an_unambiguous_audit_is_accepted():
    coding = check_looks([[1, 2], [1, 2]], pos_label=1).coding
    np.testing.assert_array_equal(check_audit([0, 1], n_rows=2, coding=coding), [0, 1])


@pytest.mark.parametrize(("labels", "positive", "audit"), [([1, 2], 2, [1, 1]), ([0, 1], 0, [0, 1])])
def test_an_ambiguous_audit_is_refused(labels, positive, audit):
    coding = check_looks([labels, labels], pos_label=positive).coding
    with pytest.raises(ValueError, match=r"which is ambiguous: in an audit . means .* In audit, use True for positive"):
        check_audit(audit, n_rows=2, coding=coding)
    np.testing.assert_array_equal(check_audit([True, False], n_rows=2, coding=coding), [1, 0])


@pytest.mark.parametrize(
    ("audit", "match"),
    [
        ([1, 0], "audit has 2 values for 3 rows. Give one value for each row: 1 .positive. or 0 .negative. for"),
        (np.zeros((3, 2)), "audit has 6 values for 3 rows"),
        ([1, 2, 0], r"audit must be 1 \(or True\) for audited positives, .* got 2\."),
        (["a", None, "b"], r"audit must be 1 .* got 'a'\."),
        ([0.5, 1, 0], r"audit must be 1 .* got 0\.5\."),
    ],
)
def test_audits_that_are_refused(audit, match):
    with pytest.raises(ValueError, match=match):
        check_audit(audit, n_rows=3)


def test_a_labelled_row_that_was_audited_negative_is_refused():
    labels, audit = np.array([[0, 0], [1, -1], [0, 1]]), np.array([0, 1, 0])
    with pytest.raises(ValueError, match=r"Labelled rows that were audited negative: 1 \(first: row 2\)"):
        refuse_contradictions(labels, audit)
    refuse_contradictions(labels, np.array([0, 1, 1]))


# --- what is odd


PLUS_MINUS = check_labels(np.array([-1, 1]), pos_label=None)


def codes(*columns):
    return np.array(columns, dtype=np.int8).T


def test_a_copy_of_a_look_is_reported_despite_gaps():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 100)
    other = np.where(rng.random(100) < 0.1, 1 - first, first)
    copy = np.where(rng.random(100) < 0.3, -1, first)
    (told,) = warnings_about_looks(codes(first, other, copy), ("a", "b", "c"))
    assert told.startswith(f"a and c are equal in all {(copy >= 0).sum()} rows that have both values.")
    assert warnings_about_looks(codes(first, other), ("a", "b")) == []


def test_a_copy_with_a_few_corrections_is_reported_and_two_good_observers_are_not():
    rng = np.random.default_rng(1)
    positive = rng.random(1000) < 0.3
    first = (positive & (rng.random(1000) < 0.9)).astype(int)
    corrected = first.copy()
    corrected[np.flatnonzero(positive & (first == 0))[:5]] = 1
    (told,) = warnings_about_looks(codes(first, corrected), ("a", "b"))
    assert told.startswith(f"a and b differ in only 5 of the {corrected.sum()} rows that at least one of them labels. ")
    for share in (0.9, 0.95):
        second = (positive & (rng.random(1000) < share)).astype(int)
        assert warnings_about_looks(codes(first, second), ("a", "b")) == []


def test_few_labels_may_agree_by_chance():
    few = np.r_[np.ones(19, dtype=int), np.zeros(80, dtype=int)]
    assert warnings_about_looks(codes(few, few), ("a", "b")) == []
    assert len(warnings_about_looks(codes(np.r_[few, 1], np.r_[few, 1]), ("a", "b"))) == 1


def test_a_look_that_was_recorded_only_with_a_label_is_reported():
    first, second = np.tile([0, 1], 10), np.tile([-1, 1], 10)
    (told,) = warnings_about_looks(codes(first, second), ("a", "b"))
    assert told.startswith("all 10 recorded values of b are 1 (labelled), and 10 values are missing.")
    second[0] = 0
    assert warnings_about_looks(codes(first, second), ("a", "b")) == []


def test_audits_with_positives_only_are_reported():
    labels = codes(np.r_[np.ones(5, dtype=int), np.zeros(15, dtype=int)])
    audit = np.full(20, -1, dtype=np.int8)
    audit[:10] = 1  # five of these rows have a label, and do not count
    (told,) = warnings_about_audits(labels, audit)
    assert told.startswith("all 5 audits of unlabelled rows are positive.")
    audit[10] = 0
    assert warnings_about_audits(labels, audit) == []
    audit[10], audit[9] = -1, -1
    assert warnings_about_audits(labels, audit) == []


@pytest.mark.parametrize(
    ("audit", "coding"), [([1, -1, np.nan], None), ([1, -1, None], None), ([1, -1, 1], PLUS_MINUS)]
)
def test_minus_one_for_an_audited_negative_is_refused(audit, coding):
    with pytest.raises(ValueError, match=r"audit has the value -1 but no 0\. In audit, -1 does not mean negative"):
        check_audit(audit, n_rows=3, coding=coding)


def test_minus_one_with_0_or_alone_means_not_audited():
    assert check_audit([1, -1, 0], n_rows=3).tolist() == [1, -1, 0]
    assert check_audit([1, -1, -1], n_rows=3).tolist() == [1, -1, -1]


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (1, 6), (6, 1, 1)])
def test_a_table_of_audits_is_refused(shape):
    with pytest.raises(ValueError, match="audit has 6 values for 6 rows, in the shape"):
        check_audit(np.zeros(shape), n_rows=6)


def test_one_column_of_minus_one_and_one_is_read_as_labels():
    checked = check_looks(np.array([-1, 1, -1]))
    assert checked.labels.ravel().tolist() == [0, 1, 0]
    assert check_looks([1, -1], coding=checked.coding).labels.ravel().tolist() == [1, 0]
    assert check_looks([-1, -1], coding=checked.coding).labels.ravel().tolist() == [0, 0]
