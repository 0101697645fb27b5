"""Columns of looks and of audits: codings that are read, and codings that are refused."""

import numpy as np
import pandas as pd
import pytest

from scarless.analysis.labels import looks_again, read_audit, read_looks, read_observed
from scarless.analysis.settings import Settings

NAN = np.nan
SAID = {
    "words": (["yes", "no", None, "no"], [1, 0, NAN, 0]),
    "numbers": ([1, 0, None, 0], [1, 0, NAN, 0]),
    "minus one": ([1, 0, -1, 0], [1, 0, NAN, 0]),
    "truth": ([True, False, None, False], [1, 0, NAN, 0]),
    "findings": (["positive", "negative", "", "negative"], [1, 0, NAN, 0]),
    "capitals": ([" Yes", "NO ", "  ", "NO"], [1, 0, NAN, 0]),
}


@pytest.mark.parametrize("name", SAID)
def test_audits_and_looks_are_read_in_the_same_way(name):
    values, expected = SAID[name]
    column = pd.Series(values, dtype=object if name != "numbers" else "float64")
    np.testing.assert_array_equal(read_audit(column, "checked"), expected)
    labels, marks, _ = read_looks(pd.DataFrame({"one": column, "two": column[::-1].to_numpy()}))
    np.testing.assert_array_equal(labels, np.column_stack([expected, expected[::-1]]))
    assert len(marks) == 1
    assert marks[0].casefold() in ("yes", "1", "true", "positive")


def test_an_audit_may_use_the_value_that_marks_a_label():
    np.testing.assert_array_equal(read_audit(pd.Series(["E11", "no", None]), "checked", also="E11"), [1, 0, NAN])


def test_audits_without_a_positive_are_accepted():
    np.testing.assert_array_equal(read_audit(pd.Series(["no", None, "no"]), "checked"), [0, NAN, 0])


AUDITS_REFUSED = {
    "only positive": (
        ["yes", None, "yes"],
        r"'yes' \(2 rows\) and no audited negative.*by 38 percentage points in our experiment",
    ),
    "nothing": ([None, "", None], "is empty: no row was audited"),
    "a word": (["yes", "no", "unclear"], r"must be yes or no.* and empty for all others.*'unclear' \(1 row\)"),
    "minus one alone": ([1, -1, 1], "must be yes or no"),
    "two words": (["yes", "positive", "no"], "must be yes or no"),
}


@pytest.mark.parametrize("name", AUDITS_REFUSED)
def test_invalid_audit_columns_are_refused(name):
    values, message = AUDITS_REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read_audit(pd.Series(values, dtype=object), "checked")


LOOKS_REFUSED = {
    "only labels": ({"a": ["yes", None], "b": [None, "yes"]}, {}, "It is not clear whether an empty cell means a look"),
    "only labels, said": ({"a": ["x1", None]}, {"pos_label": "x1"}, "Write 'no' .or 0. for looks without a label"),
    "no empty cells": ({"a": ["yes", "yes"]}, {}, r"have only 'yes' \(2 rows\): every look at every row gave a label"),
    "three values, said": (
        {"a": ["x", "y", "z"]},
        {"pos_label": "x"},
        r"Recode the other values, or add each further value that marks a label to --pos-label \(pos_label\)\.$",
    ),
    "empty": ({"a": ["yes", "no"], "b": [None, None]}, {}, "column 'b' is empty: this look did not take place"),
    "three values": ({"a": ["yes", "no", "maybe"]}, {}, r"a label, one value for no label.*--pos-label VALUE"),
    "strange": ({"a": ["seen", "gone"]}, {}, r"a label, one value for no label.*'seen' \(1 row\)"),
    "any": ({"a": ["yes", "no"]}, {"pos_label": "any"}, "--pos-label any needs a single label column"),
    "minus one alone": ({"a": [1, -1, 1]}, {}, "must have one value for a label, one value for no label"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS_REFUSED)
def test_invalid_columns_of_looks_are_refused(name):
    columns, options, message = LOOKS_REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read_looks(pd.DataFrame(columns), **options)


def test_case_is_ignored_in_looks_and_audits():
    table = pd.DataFrame({"one": ["yes", "No", "YES", None], "two": ["no", "Yes", "no", "NO"]})
    labels, marks, notes = read_looks(table)
    np.testing.assert_array_equal(labels, [[1, 0], [0, 1], [1, 0], [NAN, 0]])
    assert set(marks) == {"yes", "Yes", "YES"}
    assert "are all read as labels" in notes[1]
    np.testing.assert_array_equal(read_audit(table["one"], "checked"), [1, 0, 1, NAN])
    several, _, _ = read_looks(pd.DataFrame({"one": ["ill", "Sick", "well"]}), pos_label=["ill", "sick"])
    np.testing.assert_array_equal(several, [[1], [1], [0]])
    settings = Settings(label=("one",), scar=True, pos_label=marks)
    np.testing.assert_array_equal(looks_again(pd.DataFrame({"one": ["yEs", "no", None]}), settings), [[1], [0], [NAN]])


def test_pos_label_names_the_value_of_a_label_at_a_look():
    labels, marks, _ = read_looks(pd.DataFrame({"a": ["seen", "gone", None]}), pos_label="seen")
    np.testing.assert_array_equal(labels[:, 0], [1, 0, NAN])
    assert marks == ("seen",)


def test_an_empty_cell_is_a_missing_look_or_in_a_single_label_column_no_label():
    table = pd.DataFrame({"one": ["yes", "no", None], "two": ["no", "no", None], "label": ["yes", None, None]})
    looks = read_observed(table, Settings(label=("one", "two"), scar=True))
    label = read_observed(table, Settings("label", scar=True))
    np.testing.assert_array_equal(looks.labels.to_numpy(), [[1, 0], [0, 0], [NAN, NAN]])
    np.testing.assert_array_equal(label.labels, [1, 0, 0])
    np.testing.assert_array_equal(looks.s, label.s)
    (note,) = looks.notes
    assert note.startswith("Rows examined at each look, of 3 rows: 'one' 2 rows (1 labels), 'two' 2 rows (0 labels).")
    assert note.endswith("not that it gave no label. For 1 row, no look took place.")
    assert not any("look" in note for note in label.notes)


def test_a_label_of_an_audited_negative_needs_a_false_positive_rate():
    table = pd.DataFrame({"label": ["yes", "yes", None, None], "checked": ["no", "yes", "no", None]})
    with pytest.raises(
        ValueError, match=r"1 row has a label although the audit column 'checked' says negative .*row 1\)"
    ):
        read_observed(table, Settings("label", scar=True, audit="checked"))
    with pytest.raises(ValueError, match="--false-positive-rate estimate"):
        read_observed(table, Settings("label", scar=True, audit="checked"))
    found = read_observed(table, Settings("label", scar=True, audit="checked", false_positive_rate=0.05))
    assert found.audited.tolist() == [True, True, True, False]
    with pytest.raises(ValueError, match="there is only one look, and no labelled row was audited"):
        read_observed(table, Settings("label", scar=True, false_positive_rate="estimate"))


def test_new_rows_are_read_with_the_values_of_the_fit():
    settings = Settings(label=("one", "two"), scar=True, pos_label="seen")
    found = looks_again(pd.DataFrame({"one": ["seen", "gone", None]}), settings)
    np.testing.assert_array_equal(found, [[1, NAN], [0, NAN], [NAN, NAN]])
    with pytest.raises(ValueError, match="must have 'seen' for a label, one value for no label"):
        looks_again(pd.DataFrame({"one": ["seen", "gone", "hidden"]}), settings)
