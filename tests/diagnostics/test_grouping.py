"""Groups of rows: categories, bins, pairs of columns, and groups that the user passes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from scarless.checks.tables import take_rows
from scarless.diagnostics.grouping import MIN_ROWS, group_rows
from scarless.scale import ParquetRows


def sizes(found):
    return dict(zip(found.names, found.n_rows.tolist(), strict=True))


def one(X, by, **options):
    (found,) = group_rows(X, by, **options)
    return found


def test_a_text_column_has_a_group_for_each_value_and_missing_values_are_a_group():
    table = pd.DataFrame({"region": ["west"] * 6 + ["east"] * 7 + [None] * 5})
    found = one(table, "region")
    assert found.by == "region"
    assert sizes(found) == {"east": 7, "west": 6, "missing": 5}


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
def test_every_sparse_format_is_a_table(form):
    rows = np.array([[1.0, 5.0]] * 5 + [[2.0, 5.0]] * 6)
    [found] = group_rows(sparse.csr_array(rows).asformat(form), 0)
    assert (found.names, found.n_rows.tolist()) == (("1", "2"), [5, 6])
    np.testing.assert_array_equal(take_rows(sparse.csr_array(rows).asformat(form), [0, 7]).toarray(), rows[[0, 7]])


def test_a_list_of_rows_is_a_table():
    rows = [[1.0, 5.0]] * 5 + [[2.0, 5.0]] * 6
    for table in (rows, tuple(rows)):
        [found] = group_rows(table, 0)
        assert (found.names, found.n_rows.tolist()) == (("1", "2"), [5, 6])
    for wrong in (None, 5, "table", [1.0, 2.0], np.ones(3)):
        with pytest.raises(TypeError, match="X must be a table with rows and columns; got "):
            group_rows(wrong, 0)


def test_few_numbers_are_groups_and_rare_numbers_join_their_neighbours():
    visits = np.repeat([0, 1, 2, 3, 4], [9, 8, 7, 2, 3])
    assert sizes(one(visits[:, None], 0)) == {"0": 9, "1": 8, "2": 7, "3 to 4": 5}
    visits = np.repeat([0, 1, 2], [9, 8, 2])
    assert sizes(one(visits[:, None], 0)) == {"0": 9, "1 to 2": 10}


def test_many_whole_numbers_are_divided_into_bins_that_do_not_overlap():
    found = one(np.arange(100)[:, None], 0)
    assert found.names == ("25 or less", "26 to 50", "51 to 75", "76 or more")
    assert found.n_rows.tolist() == [26, 25, 25, 24]


def test_many_numbers_are_divided_into_bins():
    x = np.linspace(0, 1, 101) ** 2
    found = one(x[:, None], 0, n_bins=2)
    assert found.names == ("0.25 or less", "above 0.25")
    assert ((x > 0.25) == (found.codes == 1)).all()


def test_one_value_for_most_rows_still_gives_two_groups():
    x = np.r_[np.zeros(100), np.arange(1.0, 14.0)]
    assert sizes(one(x[:, None], 0)) == {"0 or less": 100, "1 or more": 13}


def test_dates_are_divided_into_bins():
    days = pd.Series(pd.date_range("2024-01-01", periods=100), name="seen")
    found = one(pd.DataFrame({"x": np.arange(100.0)}), days)
    assert found.by == "seen"
    assert found.names[0] == "2024-01-26 or earlier"
    assert found.names[-1] == "after 2024-03-16"


def test_pairs_of_columns_are_crossed_and_combinations_without_rows_are_left_out():
    table = pd.DataFrame({"a": ["x"] * 10 + ["y"] * 5, "b": ["u"] * 5 + ["v"] * 10})
    found = one(table, ("a", "b"))
    assert found.by == "a and b"
    assert sizes(found) == {"x, u": 5, "x, v": 5, "y, v": 5}


def test_small_groups_are_pooled_and_the_pool_is_never_small():
    table = pd.DataFrame({"a": ["x"] * 20 + ["y"] * 6 + ["z"] * 2})
    found = one(table, "a")
    assert sizes(found) == {"x": 20, "other": 8}  # z alone would be a group of 2 rows
    assert found.pooled == 2
    table = pd.DataFrame({"a": ["other"] * 20 + ["y"] * 4 + ["z"] * 2})
    assert sizes(one(table, "a")) == {"other": 20, "other groups": 6}


@pytest.mark.filterwarnings("ignore:by. 'a' has only one group:UserWarning")
@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60))
def test_every_row_is_in_one_group_and_no_group_is_small(values):
    found = one(pd.DataFrame({"a": values}), "a")
    assert found.codes.shape == (len(values),)
    assert found.n_rows.sum() == len(values)
    assert found.n_rows.min() >= min(MIN_ROWS, len(values))


@pytest.mark.parametrize(
    "convert",
    [pl.from_pandas, lambda t: t.to_numpy(), lambda t: sparse.csr_array(t.to_numpy())],
    ids=["polars", "array", "sparse"],
)
def test_every_kind_of_table_gives_the_same_groups(convert):
    table = pd.DataFrame({"a": np.arange(40.0) % 3, "b": np.arange(40.0)})
    expected = one(table, 0)
    found = one(convert(table), 0)
    assert found.names == expected.names
    assert (found.codes == expected.codes).all()


def test_one_group_gets_a_warning():
    with pytest.warns(UserWarning, match="'a' has only one group, x: every row is in the same group"):
        one(pd.DataFrame({"a": ["x"] * 9}), "a")
    with pytest.warns(UserWarning, match="'a' has only one group, other: all groups have fewer than 5 rows"):
        one(pd.DataFrame({"a": list("uvwxyz")}), "a")


def test_columns_with_missing_values_are_numbers_and_dates_whatever_their_type():
    numbers = pd.Series(pd.array([*range(100), None, None, None, None, None], dtype="Int64"), name="n")
    table = pd.DataFrame({"x": np.arange(105.0)})
    for values in (numbers, numbers.astype(object).where(numbers.notna(), None), numbers.astype("Float64")):
        assert one(table, values).names == ("25 or less", "26 to 50", "51 to 75", "76 or more", "missing")
    days = pd.Series(pd.date_range("2024-01-01", periods=105, tz="UTC"))
    for values in (days, days.dt.date, days.dt.tz_localize(None)):
        assert one(table, values).names[0] == "2024-01-27 or earlier"


@pytest.mark.parametrize("dtype", ["boolean", "object", "string", "category"])
def test_values_of_every_type_have_a_group_for_missing_values(dtype):
    values = pd.Series([True, False] * 12).astype(str if dtype in ("string", "category") else bool).astype(dtype)
    found = one(pd.DataFrame({"x": np.arange(24.0)}), values.where(np.arange(24) < 16))
    assert sizes(found) == {"False": 8, "True": 8, "missing": 8}


def test_infinite_numbers_are_in_the_last_bin():
    x = np.where(np.arange(100) < 90, np.arange(100.0), np.inf)
    found = one(x[:, None], 0)
    assert (found.codes[90:] == len(found.names) - 1).all()


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (np.full(9, np.nan), "missing"),
        (np.array([None] * 9), "missing"),
        (pd.Series([pd.NaT] * 9), "missing"),
        (pd.Series([pd.Timestamp("2024-05-01")] * 9), "2024-05-01"),
        (np.full(9, 3.0), "3"),
    ],
    ids=["NaN", "None", "no dates", "equal dates", "equal numbers"],
)
def test_one_value_in_all_rows_is_one_group_with_a_warning(values, name):
    with pytest.warns(UserWarning, match=f"'group' has only one group, {name}: every row is in the same group"):
        assert sizes(one(pd.DataFrame({"x": np.arange(9.0)}), np.asarray(values))) == {name: 9}


def test_a_series_in_another_order_gets_a_warning():
    by = pd.Series(["u", "v"] * 6, index=range(12)[::-1], name="kind")
    with pytest.warns(UserWarning, match="by is matched to the rows by position"):
        one(TABLE, by)


def test_text_columns_of_files_with_very_many_values_give_the_groups_of_memory(tmp_path):
    rng = np.random.default_rng(0)
    names = np.where(rng.random(6000) < 0.5, "usual", [f"rare {k}" for k in range(6000)])
    table = pd.DataFrame({"x": rng.normal(size=6000), "place": names, "none": np.nan, "empty": [None] * 6000})
    table.loc[table.index % 7 == 0, "place"] = None
    table.to_parquet(tmp_path / "a.parquet", row_group_size=1000, index=False)
    rows = ParquetRows(tmp_path)
    assert sizes(one(rows, "place")) == sizes(one(table, "place"))
    for column in ("none", "empty"):
        with pytest.warns(UserWarning, match="only one group, missing"):
            assert sizes(one(rows, column)) == {"missing": 6000}


TABLE = pd.DataFrame({"a": np.arange(12.0), "b": ["u", "v"] * 6})


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        ([], ValueError, "by is empty. Name at least one column"),
        ("c", ValueError, "by names 'c', which is not a column of X"),
        (["b", "b"], ValueError, "by contains 'b' twice"),
        (("a", "b", "a"), ValueError, "a tuple must name two columns, whose groups are combined; got 3 entries"),
        (np.arange(3), ValueError, r"one group for each of the 12 rows; got the shape \(3,\)"),
        (1.5, TypeError, "by must be a column of X, a pair of columns as a tuple"),
        ({"b": 1}, TypeError, "by must be a column of X, a pair of columns as a tuple"),
        (True, TypeError, "by must be a column of X"),
    ],
    ids=["empty", "unknown", "twice", "triple", "array", "number", "dict", "flag"],
)
def test_wrong_groups_are_refused(by, error, message):
    with pytest.raises(error, match=message):
        group_rows(TABLE, by)


def test_too_many_groups_are_refused():
    table = pd.DataFrame({"place": np.repeat([f"p{i}" for i in range(201)], 5)})
    with pytest.raises(ValueError, match="'place' has 201 groups of at least 5 rows; at most 200 are allowed"):
        group_rows(table, "place")
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 2"):
        group_rows(TABLE, "a", n_bins=1)


def test_lists_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="X must be a table with rows of equal length"):
        group_rows([[1.0, 2.0], [1.0]], 0)
