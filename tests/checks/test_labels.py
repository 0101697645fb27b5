import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.checks.labels import check_labels, check_observed


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([0, 1, 0], [0, 1]),
        ([1.0, 0.0], [0, 1]),
        ([-1, 1], [-1, 1]),
        ([True, False], [False, True]),
        (np.array([1, 0], dtype=np.uint8), [0, 1]),
        (pd.Series([1, 0, 1]), [0, 1]),
    ],
)
def test_usual_codings_need_no_pos_label(y, classes):
    coding = check_labels(y)
    np.testing.assert_array_equal(coding.classes, classes)
    assert coding.positive == 1
    np.testing.assert_array_equal(coding.encode(y), np.asarray(y) == 1)


@pytest.mark.parametrize(
    ("y", "named"),
    [(["case", "other"], "'other'"), ([1, 2], "2"), ([-1, 0], "0"), ([0.0, 3.0], r"3\.0"), ([-1, 2], "2")],
)
def test_other_codings_warn_with_the_value_that_is_used(y, named):
    message = rf"pos_label is not given.* The last value in sorted order, {named}, is assumed to mark labelled rows"
    with pytest.warns(UserWarning, match=message):
        coding = check_labels(y)
    assert coding.positive == 1


@pytest.mark.parametrize(
    ("y", "meant", "asked"),
    [
        (["churned", "unknown"], "unknown", "churned"),
        (["ill", "not tested"], "not tested", "ill"),
        (["case", "Unlabeled"][::-1], "case", None),
        (["case", "unlabelled"], "unlabelled", "case"),
        (["healthy", "ill"], "ill", None),
    ],
)
def test_a_word_for_no_label_is_never_assumed_to_mark_labelled_rows(y, meant, asked):
    if asked is None:
        with pytest.warns(UserWarning, match=f"The last value in sorted order, '{meant}'"):
            assert check_labels(y).classes[1] == meant
        return
    with pytest.raises(ValueError, match=rf"'{meant}' usually means no label\. .* for example pos_label='{asked}'\."):
        check_labels(y)


@pytest.mark.parametrize(
    ("y", "pos_label", "positive"),
    [
        (["positive", "unlabeled"], "positive", 0),
        (["positive", "unlabeled"], "unlabeled", 1),
        ([1, 2], 1, 0),
        ([0, 1], 0, 0),
        ([0, 1], 1, 1),
        ([True, False], True, 1),
        ([0, 1], True, 1),
        (np.array(["a", "b"], dtype=object), "a", 0),
    ],
)
def test_pos_label_chooses_without_a_warning(y, pos_label, positive):
    coding = check_labels(y, pos_label=pos_label)
    assert coding.positive == positive
    np.testing.assert_array_equal(coding.encode(y), np.asarray(y) == pos_label)


@pytest.mark.parametrize("pos_label", ["1", 2, "positive"])
def test_a_pos_label_that_is_not_a_label_is_refused(pos_label):
    with pytest.raises(ValueError, match=rf"pos_label={pos_label!r} is not among the labels \[0, 1\]"):
        check_labels([0, 1], pos_label=pos_label)


@pytest.mark.parametrize(
    ("y", "shown"),
    [
        ([0, 1, 2], "there are 3: 0, 1, 2"),
        (["a", "b", "c"], "there are 3: 'a', 'b', 'c'"),
        (list(range(7)), r"there are 7: 0, 1, 2, 3, 4, \.\.\."),
        ([-1, 0, 1], "there are 3: -1, 0, 1"),
    ],
)
def test_more_than_two_values_are_refused(y, shown):
    message = (
        r"Only binary classification is supported\. The type of the target is multiclass\. Labels must have two "
        rf"values, one for labelled and one for unlabelled rows, but {shown}\."
    )
    with pytest.raises(ValueError, match=message):
        check_labels(y)


@pytest.mark.parametrize(
    ("y", "pos_label", "shown", "missing"),
    [
        ([0, 0], None, "0", "labelled row"),
        ([1, 1], None, "1", "unlabelled row"),
        ([-1, -1], None, "-1", "labelled row"),
        ([True, True], None, "True", "unlabelled row"),
        ([False, False], None, "False", "labelled row"),
        (["u", "u"], "p", "'u'", "labelled row"),
        (["p", "p"], "p", "'p'", "unlabelled row"),
        (["p", "p"], None, "'p'", "second value"),
        ([0, 0], 0, "0", "unlabelled row"),
    ],
)
def test_one_value_is_refused_and_the_missing_kind_named(y, pos_label, shown, missing):
    message = (
        rf"y has one class only, {shown}: there is no {missing}\. The fit needs labelled rows, "
        "coded 1, and unlabelled rows, coded 0"
    )
    with pytest.raises(ValueError, match=message):
        check_labels(y, pos_label=pos_label)


def test_measurements_are_refused_as_labels():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        check_labels([0.1, 0.7, 2.5])


@pytest.mark.parametrize(
    ("y", "unknown"),
    [
        ([0, 2], "2"),
        ([-1, 1], "-1"),
        (["1", "0"], "'1'"),
        (np.array(["x", 1], dtype=object), "'x'"),
    ],
)
def test_labels_that_the_model_has_not_seen_are_refused(y, unknown):
    with pytest.raises(
        ValueError, match=rf"The labels contain {unknown}, but the model was fitted with the labels \[0, 1\]\."
    ):
        check_labels([0, 1]).encode(y)


def test_a_missing_label_is_reported_as_missing_not_as_unknown():
    with pytest.raises(ValueError, match=r"y contains NaN: 1 of 2 labels are missing \(first: row 0\)"):
        check_labels([0, 1]).encode([np.nan, 1.0])


def test_numbers_where_the_model_saw_text_are_refused():
    with pytest.raises(
        ValueError, match=r"The labels contain 1, but the model was fitted with the labels \['p', 'u'\]"
    ):
        check_labels(["p", "u"], pos_label="p").encode([1, 1])


@settings(deadline=None)
@given(
    st.sampled_from([([0, 1], None), ([-1, 1], None), (["p", "u"], "p"), (["n", "p"], "p"), ([False, True], None)]),
    st.lists(st.integers(0, 1), max_size=8),
)
def test_encode_decode_and_columns_agree(case, positions):
    values, pos_label = case
    coding = check_labels(values, pos_label=pos_label)
    y = np.array(values)[positions]
    s = coding.encode(y)
    assert s.dtype == np.float64
    np.testing.assert_array_equal(coding.decode(s == 1), y)
    p = np.linspace(0, 1, len(positions))
    columns = coding.columns(p)
    np.testing.assert_array_equal(columns[:, coding.positive], p)
    np.testing.assert_array_equal(columns.sum(axis=1), 1)


def test_labels_of_an_equal_type_are_encoded():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coding = check_labels([0, 1])
        np.testing.assert_array_equal(coding.encode([True, False]), [1, 0])
        np.testing.assert_array_equal(coding.encode([1.0, 0.0]), [1, 0])
        assert coding.encode([]).shape == (0,)


@pytest.mark.parametrize("kind", ["boolean", "string", "Int64", "Float64", "object", "category", "bool[pyarrow]"])
def test_a_missing_label_of_any_pandas_type_raises(kind):
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    values = ["p", "u", "p"] if kind == "string" else [True, False, True] if "bool" in kind else [1, 0, 1]
    y = pd.Series(values, dtype=kind)
    assert len(check_observed(y)) == 3
    y[1] = None if kind == "object" else pd.NA
    message = r"contains NaN: 1 of 3 labels are missing \(first: row 1\)\. If .* replace it by 0 \(in pandas: "
    with pytest.raises(ValueError, match=rf"y {message}y\.fillna\(0\)"):
        check_observed(y)
    with pytest.raises(ValueError, match=rf"s {message}s\.fillna\(0\)"):
        check_labels(values, pos_label=values[0]).encode(y, "s")


def test_present_labels_are_not_taken_as_missing():
    y = np.array([False, True, False, 0, 1], dtype=object)
    np.testing.assert_array_equal(check_observed(y), [0, 1, 0, 0, 1])


@pytest.mark.parametrize("pos_label", [np.array([0.5, 1.0]), np.array([1.0]), pd.DataFrame({"a": [1]}), pd.NA, [1]])
def test_a_positive_label_that_cannot_be_compared_is_not_among_the_labels(pos_label):
    with pytest.raises(ValueError, match=r"pos_label=.* is not among the labels \[0, 1\]"):
        check_labels([0, 1], pos_label=pos_label)
    with pytest.raises(ValueError, match="there is no labelled row"):
        check_labels([0, 0], pos_label=pos_label)


def test_labels_of_unequal_length_are_refused():
    with pytest.raises(
        ValueError, match=r"s must contain one value per row, but NumPy cannot convert it to an array: .*a list"
    ):
        check_observed([[0], [0, 1], 1], "s")


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_labels_too_large_for_integers_are_refused_without_a_warning(kind):
    with pytest.raises(
        ValueError, match=r"y has the value 1e\+38, which is too large for a label\. Code labelled rows"
    ):
        check_labels(np.array([0.0, 1e38], dtype=kind))


def test_labels_that_cannot_be_sorted_are_refused():
    with pytest.raises(ValueError, match=r"all booleans, but they have the types dict, int. Code labelled"):
        check_labels(np.array([{}, 1, 0], dtype=object))
