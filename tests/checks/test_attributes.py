import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_selector

from scarless.checks.attributes import check_attributes, check_selector, count_columns, select_columns
from scarless.checks.raw_names import nearest_name

NAMES = ["age", "visits", "income", "region"]


def _columns(attributes, *, names=NAMES, n_columns=4, X=None, parameter="propensity_attributes"):
    return check_attributes(attributes, X, n_columns=n_columns, names=names, parameter=parameter)


@pytest.mark.parametrize(
    ("attributes", "columns"),
    [
        ("visits", [1]),
        (["income", "age"], [0, 2]),
        (np.array(["age", "region"]), [0, 3]),
        (pd.Index(["age", "region"]), [0, 3]),
        (2, [2]),
        (np.int64(2), [2]),
        (-1, [3]),
        ([-4, 2], [0, 2]),
        (np.array([3, 1]), [1, 3]),
        ({"income", "age"}, [0, 2]),
        (dict.fromkeys(["income", "age"]), [0, 2]),
        (range(1, 3), [1, 2]),
        (["age", -1], [0, 3]),
        (slice(1, 3), [1, 2]),
        (slice(None), [0, 1, 2, 3]),
        (slice(None, None, 2), [0, 2]),
        (slice(-2, None), [2, 3]),
        (slice("visits", "income"), [1, 2]),
        (slice("visits", None), [1, 2, 3]),
        (slice(None, "visits"), [0, 1]),
        (slice("age", 2), [0, 1]),
        (slice(None, None, -1), [0, 1, 2, 3]),
        (slice("income", "age", -1), [0, 1, 2]),
        (slice("region", "visits", -2), [1, 3]),
        ([True, False, False, True], [0, 3]),
        (np.array([False, True, False, False]), [1]),
        (pd.Series([False, True, True, False]), [1, 2]),
        (pl.Series([False, True, True, False]), [1, 2]),
        (pd.Series({"region": True, "income": False, "age": True, "visits": False}), [0, 3]),
    ],
)
def test_every_way_to_select(attributes, columns):
    selected = _columns(attributes)
    assert selected.dtype == np.intp
    np.testing.assert_array_equal(selected, columns)


@pytest.mark.parametrize("attributes", [2, [0, -1], slice(1, None), [True, False, True, False]])
def test_numbers_and_masks_need_no_names(attributes):
    np.testing.assert_array_equal(_columns(attributes, names=None), _columns(attributes))


def test_a_callable_gets_the_table_and_returns_any_selection():
    frame = pd.DataFrame(np.zeros((2, 4)), columns=NAMES)
    np.testing.assert_array_equal(_columns(lambda X: X.columns[1:3], X=frame), [1, 2])
    np.testing.assert_array_equal(_columns(lambda X: X.columns.str.startswith("r"), X=frame), [3])
    np.testing.assert_array_equal(_columns(lambda X: slice("age", "visits"), X=frame), [0, 1])
    np.testing.assert_array_equal(_columns(lambda X: "age", X=pl.DataFrame({"age": [1]}), n_columns=1), [0])


def test_names_come_as_pandas_polars_and_scikit_learn_keep_them():
    for names in (pd.Index(NAMES), np.array(NAMES, dtype=object), tuple(NAMES), pl.DataFrame({"age": [1]}).columns):
        np.testing.assert_array_equal(_columns("age", names=names), [0])


@pytest.mark.parametrize("empty", [[], np.array([], dtype=int), slice(2, 2), slice("region", "age"), [False] * 4, ()])
def test_an_empty_selection_is_refused(empty):
    message = (
        "propensity_attributes selects no column; name at least one attribute, "
        "or use None for a propensity that is the same for every row"
    )
    with pytest.raises(ValueError, match=message):
        _columns(empty)
    with pytest.raises(
        ValueError, match=r"classification_attributes selects no column; name at least one attribute\.$"
    ):
        _columns(empty, parameter="classification_attributes")


@pytest.mark.parametrize("twice", [[1, 1], [1, -3], ["visits", 1], ["visits", "visits"]])
def test_a_column_twice_is_refused(twice):
    called = "1" if twice == [1, 1] else "'visits'"  # what needs no table to be seen is told before there is one
    with pytest.raises(ValueError, match=rf"propensity_attributes selects a column more than once: {called}\.$"):
        _columns(twice)


@pytest.mark.parametrize("column", [4, -5, 100])
def test_a_column_out_of_range_is_refused(column):
    message = rf"propensity_attributes names column {column}, but X has 4 columns \(0 to 3\)"
    with pytest.raises(ValueError, match=message):
        _columns([0, column])
    with pytest.raises(ValueError, match=message):
        _columns(column)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.5, "1.5 of type float"),
        ([0, 2.0], "2.0 of type float"),
        ([None], "None of type NoneType"),
        ([["age"]], r"\['age'\] of type list"),
        (None, "None of type NoneType"),
        (lambda X: None, "None of type NoneType"),
        (np.array(1.5), r"array\(1.5\) of type ndarray"),
        (True, "True of type bool"),
        ([True, 0], "True of type bool"),
        ({True, False}, ".* of type bool"),
        (b"age", "b'age' of type bytes"),
    ],
)
def test_what_is_neither_name_nor_number_is_refused(value, shown):
    message = (
        "propensity_attributes must hold names or column numbers, or be a slice, a mask, a callable or a polars "
        "selector; got " + shown
    )
    with pytest.raises(ValueError, match=message):
        _columns(value)


@pytest.mark.parametrize("mask", [[True], [True, False, True], [True] * 5, np.ones(3, dtype=bool)])
def test_a_mask_of_the_wrong_length_is_refused(mask):
    length = np.size(mask)
    with pytest.raises(ValueError, match=f"propensity_attributes is a mask of length {length} for 4 columns"):
        _columns(mask)


@pytest.mark.parametrize("attributes", ["age", ["age"], slice("age", None), slice(None, "age")])
def test_a_name_without_names_is_refused(attributes):
    message = (
        "propensity_attributes names the column 'age', but X has no column names: pass a DataFrame or column numbers"
    )
    with pytest.raises(ValueError, match=message):
        _columns(attributes, names=None)


@pytest.mark.parametrize("attributes", ["Visit", ["age", "Visit"], slice("Visit", None), slice(None, "Visit")])
def test_an_unknown_name_gets_the_nearest_one(attributes):
    message = r"propensity_attributes names 'Visit', which is not a column of X\. Did you mean 'visits'\?"
    with pytest.raises(ValueError, match=message):
        _columns(attributes)


def test_an_unknown_name_like_no_other_gets_the_columns():
    message = r"which is not a column of X\. Its columns are 'age', 'visits', 'income', 'region'\.$"
    with pytest.raises(ValueError, match=message):
        _columns("zzz")
    assert nearest_name("zzz", [f"x{i}" for i in range(9)]).endswith("'x7', ....")
    assert nearest_name("AGE", ["Age", "visits"]) == "Did you mean 'Age'?"


@settings(deadline=None)
@given(st.lists(st.integers(-6, 5), min_size=1, max_size=6, unique_by=lambda column: column % 6))
def test_numbers_names_and_masks_select_the_same(columns):
    names = list("abcdef")
    order = [column % 6 for column in columns]
    by_number = _columns(columns, names=names, n_columns=6)
    np.testing.assert_array_equal(by_number, sorted(order))
    np.testing.assert_array_equal(_columns([names[i] for i in order], names=names, n_columns=6), sorted(order))
    in_order = select_columns(columns, None, n_columns=6, names=names, parameter="attributes")
    np.testing.assert_array_equal(in_order, order)
    mask = np.isin(np.arange(6), order)
    np.testing.assert_array_equal(_columns(mask, names=names, n_columns=6), sorted(order))


@pytest.mark.parametrize("ends", [slice(0.5), slice(None, None, 0.5), slice(None, [1]), slice(np.nan, 1)])
def test_ends_of_a_slice_are_names_or_numbers(ends):
    with pytest.raises(ValueError, match="attributes is a slice, whose ends must be names or column numbers; got "):
        check_attributes(ends, None, n_columns=3, names=None, parameter="attributes")


def test_a_step_of_zero_leads_nowhere():
    with pytest.raises(ValueError, match="attributes is a slice with a step of 0; leave the step out"):
        check_attributes(slice(None, None, 0), None, n_columns=3, names=None, parameter="attributes")


NUMBERED = pd.DataFrame(np.eye(4), columns=[3, 0, 1, 2])
TOLD = (
    r"has the number 3, which is a position, as in scikit-learn: the column called 2. The column called 3 is at "
    r"position 0. Call .*: X.rename\(columns=str\), and '2' or '3'"
)


@pytest.mark.parametrize(
    "attributes",
    [3, [3], [np.int64(3)], range(3, 4), lambda X: [X.columns[0]]],
    ids=["3", "[3]", "np", "range", "call"],
)
def test_numbers_that_are_the_name_of_another_column_are_told_of(attributes):
    with pytest.warns(UserWarning, match=f"propensity_attributes {TOLD}"):
        columns = _columns(attributes, names=None, X=NUMBERED)
    assert columns.tolist() == [3]


@pytest.mark.parametrize("attributes", [-1, slice(3, 4), [False, False, False, True], lambda X: [False] * 3 + [True]])
def test_what_no_name_says_is_a_position_without_a_word(attributes):
    assert _columns(attributes, names=None, X=NUMBERED).tolist() == [3]


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [10, 20, 30, 40], [3.0, 0.0, 1.0, 2.0], list("3012")], ids=str)
def test_columns_called_by_their_positions_or_by_something_else_are_left_alone(labels):
    assert _columns([3], names=None, X=pd.DataFrame(np.eye(4), columns=labels)).tolist() == [3]


FRAME = pl.DataFrame({"age": [1.0], "visits": [1], "income": [2.5], "region": ["north"]})


@pytest.mark.parametrize(
    ("selector", "columns"),
    [
        (cs.starts_with("i", "a"), [0, 2]),
        (cs.float(), [0, 2]),
        (~cs.numeric(), [3]),
        (pl.col("visits", "age"), [0, 1]),
        (pl.col("^.*i.*$"), [1, 2, 3]),
        (pl.all().exclude("age"), [1, 2, 3]),
        ([cs.float(), "region"], [0, 2, 3]),
        ([-1, pl.col("age")], [0, 3]),
        (lambda X: cs.string(), [3]),
    ],
)
def test_polars_selectors(selector, columns):
    np.testing.assert_array_equal(_columns(selector, X=FRAME), columns)


@pytest.mark.parametrize("selector", [pl.col("age") + 1, pl.col("agee"), pl.col("age").alias("a"), cs.by_name("agee")])
def test_polars_expressions_that_are_no_columns_of_the_table(selector):
    with pytest.raises(ValueError, match=r"propensity_attributes has the polars expression .* select columns of X as"):
        _columns(selector, X=FRAME)


def test_a_polars_selector_that_finds_nothing():
    with pytest.raises(ValueError, match="propensity_attributes selects no column"):
        _columns(cs.starts_with("z"), X=FRAME)


@pytest.mark.parametrize(
    "X", [pd.DataFrame(np.zeros((2, 4)), columns=NAMES), np.zeros((2, 4))], ids=["pandas", "array"]
)
def test_polars_selectors_are_for_polars_frames(X):
    kind = type(X).__name__
    with pytest.raises(ValueError, match=f"read against a polars DataFrame; X is a {kind}. Give names or positions"):
        _columns([0, cs.last()], X=X)


def test_scikit_learns_column_selector():
    frame = pd.DataFrame({"age": [1.0], "visits": [1], "income": [2.5], "region": ["north"]})
    np.testing.assert_array_equal(_columns(make_column_selector("i.*e"), X=frame), [2])
    np.testing.assert_array_equal(_columns(make_column_selector(dtype_include=np.number), X=frame), [0, 1, 2])


def test_scikit_learns_selector_needs_a_data_frame():
    with pytest.raises(
        ValueError, match=r"reads data frames of pandas, and X is none but of type ndarray. Give a data"
    ):
        _columns(make_column_selector("i.*e"), X=np.ones((3, 3)))


def test_a_callable_is_called_once_and_returns_no_other():
    with pytest.raises(ValueError, match="propensity_attributes is a callable that returns another"):
        _columns(lambda X: len)


def test_a_name_that_two_columns_share_is_refused_and_their_positions_are_not():
    names = ["a", "a", "b"]
    with pytest.raises(ValueError, match="names 'a', and 2 columns of X are called so; give each a name of its own"):
        _columns("a", names=names, n_columns=3)
    np.testing.assert_array_equal(_columns([0, 1], names=names, n_columns=3), [0, 1])


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        ("age", ("age",)),
        (np.int64(-1), (-1,)),
        (np.array(["age", "b"]), ("age", "b")),
        (range(2), (0, 1)),
        ([np.True_, False], (True, False)),
        ({0}, frozenset({0})),
        (slice("a", None), slice("a", None)),
        (len, len),
    ],
)
def test_a_selection_is_kept_as_plain_values_until_there_is_a_table(attributes, kept):
    assert check_selector(attributes, "attributes") == kept


def test_a_polars_selector_is_kept_as_it_is():
    selector = cs.numeric()
    assert check_selector(selector, "attributes") is selector


@pytest.mark.parametrize(
    ("attributes", "count"),
    [
        ([0, -1], (2, True)),
        (["age", 1], (2, False)),
        ([True, False], (1, True)),
        (slice(3), (1, False)),
        (len, (1, False)),
    ],
)
def test_how_many_columns_there_will_be(attributes, count):
    assert count_columns(check_selector(attributes, "attributes")) == count


def test_values_that_go_with_columns_follow_the_order_given():
    frame = pd.DataFrame({"home_a": [0, 1], "age": [1, 2], "home_b": [1, 0], "sex": [0, 1]})
    options = {"n_columns": 4, "names": list(frame.columns), "parameter": "attributes"}
    for attributes, columns in [
        (["sex", "home", "age"], [3, 0, 2, 1]),
        ([-1, "home"], [3, 0, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        ({"sex", "age"}, [1, 3]),
        (lambda X: ["sex", "age"], [3, 1]),
    ]:
        np.testing.assert_array_equal(select_columns(attributes, frame, **options), columns)
