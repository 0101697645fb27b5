"""Label columns: clear columns are read, and ambiguous columns are refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scarless.analysis.labels import ANY_VALUE, read_labels

CLEAR = {
    "1/0": ([1, 0, 1, 0], "1"),
    "1.0/0.0": ([1.0, 0.0, 1.0, 0.0], "1"),
    "1/-1": ([1, -1, 1, -1], "1"),
    "1/nothing": ([1.0, np.nan, 1.0, np.nan], "1"),
    "True/False": ([True, False, True, False], "True"),
    "true/null": (pd.array([True, None, True, None], dtype="boolean"), "True"),
    "yes/no": (["yes", "no", "yes", "no"], "yes"),
    "Yes/blank": (["Yes", "", " Yes", None], "Yes"),
    "x/nothing": (["x", None, "x", None], "x"),
    "code/nothing": (["E11.9", None, "E11.9", None], "E11.9"),
    "POS/neg": (["POS", "neg", "POS", "neg"], "POS"),
    "text numbers": (["1", "0", "1", "0"], "1"),
}


@pytest.mark.parametrize("name", CLEAR)
def test_clear_columns_are_read(name):
    values, positive = CLEAR[name]
    found = read_labels(pd.Series(values), "label")
    np.testing.assert_array_equal(found.s, [1, 0, 1, 0])
    assert found.pos_label == (positive,)
    assert found.note == ""


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_text_columns_of_every_dtype_are_read(dtype):
    values = pd.Series(["yes", None, "no", "yes"], dtype=object).astype(dtype)
    found = read_labels(values, "seen")
    np.testing.assert_array_equal(found.s, [1, 0, 0, 1])
    assert found.note == (
        "1 row with an empty cell in 'seen' is treated as unlabelled, like rows whose value does not mark a label."
    )


@pytest.mark.parametrize(("values", "positive"), [(["a", "b", "a", "c"], "a"), ([3, 4, 3, 5], 3), ([3, 4, 3, 5], "3")])
def test_pos_label_names_the_value_of_labelled_rows(values, positive):
    np.testing.assert_array_equal(read_labels(pd.Series(values), "kind", pos_label=positive).s, [1, 0, 1, 0])


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("positive", [20240101, 20240101.0, "20240101"])
def test_long_numbers_keep_all_digits(dtype, positive):
    values = pd.Series([20240101, 20240102, 20240101, 20240199], dtype=dtype)
    found = read_labels(values, "code", pos_label=positive)
    np.testing.assert_array_equal(found.s, [1, 0, 1, 0])
    assert found.pos_label == ("20240101",)
    with pytest.raises(ValueError, match=r"has 3 values, .*'20240101' \(2 rows\), '20240102' \(1 row\)"):
        read_labels(values, "code")


@pytest.mark.parametrize("positive", [None, "yes", "Yes", "YES"])
def test_case_is_ignored(positive):
    values = pd.Series(["yes", "No", "Yes", "no", "YES", None])
    found = read_labels(values, "dx", pos_label=positive)
    np.testing.assert_array_equal(found.s, [1, 0, 1, 0, 1, 0])
    assert found.note.startswith("In 'dx', 'yes' (1 row), 'Yes' (1 row), 'YES' (1 row) are all read as labels.")


def test_single_letters_are_case_sensitive_unless_they_mean_yes():
    values = pd.Series(["a", "A", "b", "a"])
    found = read_labels(values, "allele", pos_label="a")
    np.testing.assert_array_equal(found.s, [1, 0, 0, 1])
    assert "'a' marks a label, but 'A' (1 row) does not" in found.note
    np.testing.assert_array_equal(read_labels(values, "allele", pos_label=["a", "A"]).s, [1, 1, 0, 1])
    several = read_labels(pd.Series(["a", "A", "b", "B", "c", "d"]), "allele", pos_label=["a", "b", "c"]).note
    assert "'a', 'b' mark a label, but 'A' (1 row), 'B' (1 row) do not, although the only difference is" in several
    assert several.endswith("use --pos-label a --pos-label b --pos-label c --pos-label A --pos-label B.")
    np.testing.assert_array_equal(read_labels(pd.Series(["Y", "y", "n", "N"]), "dx").s, [1, 1, 0, 0])


def test_several_values_may_mark_a_label():
    values = pd.Series(["yes", "no", "Maybe", "maybe", "never", None])
    found = read_labels(values, "dx", pos_label=["yes", "maybe"])
    np.testing.assert_array_equal(found.s, [1, 0, 1, 1, 0, 0])
    assert set(found.pos_label) == {"yes", "Maybe", "maybe"}
    with pytest.raises(ValueError, match="no row of the label column 'dx' has the value 'perhaps'"):
        read_labels(values, "dx", pos_label=["yes", "perhaps"])
    with pytest.raises(ValueError, match=r"--pos-label any already includes every value of 'dx'\. Remove the other"):
        read_labels(values, "dx", pos_label=["yes", ANY_VALUE])


@pytest.mark.parametrize(
    ("yes", "no"),
    [("ja", "nein"), ("Oui", "Non"), ("si", "no"), ("sí", "no"), ("sì", "no"), ("Sim", "Não"), ("ja", "nee"),
     ("да", "нет"), ("tak", "nie"), ("vrai", "faux"), ("positiv", "negativ"), ("si\u0301", "no")],
)  # fmt: skip
def test_yes_and_no_in_other_languages(yes, no):
    np.testing.assert_array_equal(read_labels(pd.Series([yes, no, yes.upper(), None]), "dx").s, [1, 0, 1, 0])


def test_any_value_can_mark_a_label():
    dates = pd.Series(pd.to_datetime(["2020-01-01", None, "2021-05-06"]))
    found = read_labels(dates, "diagnosed_on", pos_label=ANY_VALUE)
    np.testing.assert_array_equal(found.s, [1, 0, 1])


@pytest.mark.parametrize("value", ["healthy", "Unknown", "none", "not tested", "No diagnosis", "nicht getestet"])
def test_a_single_value_that_denies_the_class_does_not_mark_a_label(value):
    """Next to empty cells, such a value was read as the label, which turned the classes round without a word."""
    values = pd.Series([value, None, value])
    with pytest.raises(ValueError, match=f"has only the value '{value}', which usually means no label"):
        read_labels(values, "dx")
    np.testing.assert_array_equal(read_labels(values, "dx", pos_label=value).s, [1, 0, 1])


@pytest.mark.parametrize("value", ["E11.9", "Non-Hodgkin lymphoma", "Diabetes without complications", "x"])
def test_a_single_name_of_a_disease_marks_a_label(value):
    np.testing.assert_array_equal(read_labels(pd.Series([value, None]), "dx").s, [1, 0])


REFUSED = {
    "two values": (["a", "b"], None, r"'kind' has 2 values, and it is not clear which of them mark a labelled row"),
    "three values": (
        [1, 2, 3],
        None,
        r"has 3 values, and it is not clear which of them mark a labelled row: '1' \(1 row\).*--pos-label VALUE",
    ),
    "many values": (
        list("abcdefgh"),
        None,
        r"has 8 values.*, \.\.\..*If every value marks a labelled row.*--pos-label any",
    ),
    "nothing": ([None, np.nan], None, "The label column 'kind' is empty: no row is labelled"),
    "all labelled": (["yes", "yes"], None, r"Every row is labelled: the label column 'kind' has 'yes' \(2 rows\)"),
    "only no": ([0, 0], None, r"has only the value '0', which usually means no label.*--pos-label 0"),
    "no such value": (
        ["a", None],
        "b",
        "no row of the label column 'kind' has the value 'b'. Use one of these values: 'a'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_columns_are_refused(name):
    values, positive, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read_labels(pd.Series(values), "kind", pos_label=positive)


@given(st.lists(st.sampled_from(["yes", "no", None]), min_size=2, max_size=20))
def test_rows_with_yes_are_labelled(values):
    if not any(value == "yes" for value in values) or all(value == "yes" for value in values):
        with pytest.raises(ValueError, match="label column"):
            read_labels(pd.Series(values, dtype=object), "seen")
        return
    np.testing.assert_array_equal(read_labels(pd.Series(values, dtype=object), "seen").s, [v == "yes" for v in values])
