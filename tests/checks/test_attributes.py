import re

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, SplineTransformer, StandardScaler

from scarless.checks.attributes import (
    SeveralAttributes,
    check_attributes,
    check_selector,
    count_columns,
    find_family,
    names_of,
    nearest_name,
    select_columns,
)

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


def test_names_may_be_a_list_an_index_or_an_array():
    for names in (pd.Index(NAMES), np.array(NAMES, dtype=object), tuple(NAMES), pl.DataFrame({"age": [1]}).columns):
        np.testing.assert_array_equal(_columns("age", names=names), [0])


@pytest.mark.parametrize("empty", [[], np.array([], dtype=int), slice(2, 2), slice("region", "age"), [False] * 4, ()])
def test_an_empty_selection_is_refused(empty):
    message = (
        "propensity_attributes selects no column; select at least one, "
        "or use None for a propensity that is the same for every row"
    )
    with pytest.raises(ValueError, match=message):
        _columns(empty)
    with pytest.raises(ValueError, match=r"classification_attributes selects no column; select at least one\.$"):
        _columns(empty, parameter="classification_attributes")


@pytest.mark.parametrize("twice", [[1, 1], [1, -3], ["visits", 1], ["visits", "visits"]])
def test_a_column_twice_is_refused(twice):
    called = "1" if twice == [1, 1] else "'visits'"  # duplicate entries are refused before the table is known
    with pytest.raises(
        ValueError,
        match=rf"propensity_attributes must select each column only once\. Selected more than once: {called}\.$",
    ):
        _columns(twice)


@pytest.mark.parametrize("column", [4, -5, 100])
def test_a_column_out_of_range_is_refused(column):
    message = rf"propensity_attributes selects column {column}, but columns of X are numbered 0 to 3"
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
def test_other_types_of_entries_are_refused(value, shown):
    message = (
        "propensity_attributes must be names or column numbers, a slice, a mask, a callable or a polars "
        "selector; got " + shown
    )
    with pytest.raises(ValueError, match=message):
        _columns(value)


@pytest.mark.parametrize("mask", [[True], [True, False, True], [True] * 5, np.ones(3, dtype=bool)])
def test_a_mask_of_the_wrong_length_is_refused(mask):
    length = np.size(mask)
    with pytest.raises(ValueError, match=f"propensity_attributes is a mask of length {length}, but X has 4 columns"):
        _columns(mask)


@pytest.mark.parametrize("attributes", ["age", ["age"], slice("age", None), slice(None, "age")])
def test_a_name_without_names_is_refused(attributes):
    message = "propensity_attributes names the column 'age', but X has no column names. Pass X as a DataFrame, or"
    with pytest.raises(ValueError, match=message):
        _columns(attributes, names=None)


@pytest.mark.parametrize("attributes", ["Visit", ["age", "Visit"], slice("Visit", None), slice(None, "Visit")])
def test_an_unknown_name_suggests_the_nearest_name(attributes):
    message = r"propensity_attributes names 'Visit', which is not a column of X\. Did you mean 'visits'\?"
    with pytest.raises(ValueError, match=message):
        _columns(attributes)


def test_an_unknown_name_without_a_similar_name_lists_the_columns():
    message = r"which is not a column of X\. The columns are 'age', 'visits', 'income', 'region'\.$"
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
def test_slices_of_other_types_are_refused(ends):
    with pytest.raises(
        ValueError, match=r"attributes: a slice must begin and end with a name or a column number, .*; got "
    ):
        check_attributes(ends, None, n_columns=3, names=None, parameter="attributes")


def test_a_step_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"attributes: the step of a slice must not be 0. Leave the step out"):
        check_attributes(slice(None, None, 0), None, n_columns=3, names=None, parameter="attributes")


NUMBERED = pd.DataFrame(np.eye(4), columns=[3, 0, 1, 2])
TOLD = (
    r"the number 3 is a position, as in scikit-learn, and selects the column named 2. The column named 3 is at "
    r"position 0. To avoid confusion, make the names text with X.rename\(columns=str\), and select '2' or '3'"
)


@pytest.mark.parametrize(
    "attributes",
    [3, [3], [np.int64(3)], range(3, 4), lambda X: [X.columns[0]]],
    ids=["3", "[3]", "np", "range", "call"],
)
def test_a_position_that_is_the_name_of_another_column_warns(attributes):
    with pytest.warns(UserWarning, match=f"propensity_attributes: {TOLD}"):
        columns = _columns(attributes, names=None, X=NUMBERED)
    assert columns.tolist() == [3]


@pytest.mark.parametrize("attributes", [-1, slice(3, 4), [False, False, False, True], lambda X: [False] * 3 + [True]])
def test_slices_masks_and_negative_positions_do_not_warn(attributes):
    assert _columns(attributes, names=None, X=NUMBERED).tolist() == [3]


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [10, 20, 30, 40], [3.0, 0.0, 1.0, 2.0], list("3012")], ids=str)
def test_columns_named_by_their_positions_do_not_warn(labels):
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
def test_polars_expressions_that_do_not_select_columns_are_refused(selector):
    with pytest.raises(
        ValueError, match=r"propensity_attributes: the polars expression .* is not a selection of columns of X"
    ):
        _columns(selector, X=FRAME)


def test_a_polars_selector_that_finds_nothing():
    with pytest.raises(ValueError, match="propensity_attributes selects no column"):
        _columns(cs.starts_with("z"), X=FRAME)


@pytest.mark.parametrize(
    "X", [pd.DataFrame(np.zeros((2, 4)), columns=NAMES), np.zeros((2, 4))], ids=["pandas", "array"]
)
def test_polars_selectors_are_for_polars_frames(X):
    kind = type(X).__name__
    with pytest.raises(
        ValueError, match=f"which needs a polars DataFrame, but X is of type {kind}. Give names or column numbers"
    ):
        _columns([0, cs.last()], X=X)


def test_scikit_learns_column_selector():
    frame = pd.DataFrame({"age": [1.0], "visits": [1], "income": [2.5], "region": ["north"]})
    np.testing.assert_array_equal(_columns(make_column_selector("i.*e"), X=frame), [2])
    np.testing.assert_array_equal(_columns(make_column_selector(dtype_include=np.number), X=frame), [0, 1, 2])


def test_scikit_learns_selector_needs_a_data_frame():
    with pytest.raises(ValueError, match=r"needs a pandas data frame, but X is of type ndarray. Pass a pandas data"):
        _columns(make_column_selector("i.*e"), X=np.ones((3, 3)))


def test_a_callable_that_returns_a_callable_is_refused():
    with pytest.raises(
        ValueError, match=r"propensity_attributes: the callable must return names, .*; it returned another callable"
    ):
        _columns(lambda X: len)


def test_a_name_that_two_columns_share_is_refused_and_their_positions_are_not():
    names = ["a", "a", "b"]
    with pytest.raises(ValueError, match=r"names 'a', but 2 columns of X have this name. Rename these columns"):
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
def test_check_selector_returns_plain_values(attributes, kept):
    assert check_selector(attributes, "attributes") == kept


def test_check_selector_returns_a_polars_selector_unchanged():
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
def test_count_columns(attributes, count):
    assert count_columns(check_selector(attributes, "attributes")) == count


def test_select_columns_keeps_the_order_given():
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


# --- columns that an encoder made of one attribute


RAW = pd.DataFrame(
    {
        "age": [20.0, 31.0, 42.0, 53.0, 64.0, 75.0],
        "sex": ["f", "m", "m", "f", "non_binary", "m"],
        "marital-status": ["Never-married", "Married-civ", "Married-AF", "Divorced", "Married-civ", "Divorced"],
        "visits": [1.0, 2.0, 0.0, 5.0, 3.0, 2.0],
    }
)
CATEGORIES = ["sex", "marital-status"]
WORDS = st.text("abcxyz", min_size=1, max_size=4)


def select(attributes, X, parameter="propensity_attributes"):
    columns = check_attributes(attributes, X, n_columns=X.shape[1], names=names_of(X), parameter=parameter)
    return [X.columns[j] for j in columns]


def one_hot(verbose, **options):
    return make_column_transformer(
        (OneHotEncoder(sparse_output=False, **options), CATEGORIES),
        (StandardScaler(), ["age", "visits"]),
        verbose_feature_names_out=verbose,
    ).set_output(transform="pandas")


ENCODERS = {
    "ColumnTransformer": lambda raw: one_hot(True).fit_transform(raw),
    "without steps": lambda raw: one_hot(False).fit_transform(raw),
    "another separator": lambda raw: one_hot(
        False, feature_name_combiner=lambda name, level: f"{name}={level}"
    ).fit_transform(raw),
    "dummies": lambda raw: pd.get_dummies(raw, columns=CATEGORIES),
    "dummies, first dropped": lambda raw: pd.get_dummies(raw[raw["sex"] != "non_binary"], drop_first=True),
    "dummies with __": lambda raw: pd.get_dummies(raw, columns=CATEGORIES, prefix_sep="__"),
    "dummies with a dot": lambda raw: pd.get_dummies(raw, columns=CATEGORIES, prefix_sep="."),
    "levels that begin with a space": lambda raw: pd.get_dummies(
        raw.assign(**{name: " " + raw[name] for name in CATEGORIES}), columns=CATEGORIES
    ),
    "polars": lambda raw: pl.DataFrame(raw.to_dict("list")).to_dummies(CATEGORIES),
}


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS)
def test_every_encoders_columns_are_found_by_the_raw_name(encode):
    X = encode(RAW)
    for name in RAW.columns:
        made = [column for column in X.columns if name in column]
        assert made
        assert select(name, X) == made
    assert select(["marital-status", "sex"], X) == [c for c in X.columns if "sex" in c or "status" in c]


def test_dictionaries_as_scikit_learn_encodes_them():
    vectoriser = DictVectorizer(sparse=False)
    values = vectoriser.fit_transform(RAW.to_dict("records"))
    X = pd.DataFrame(values, columns=vectoriser.get_feature_names_out())
    assert select("sex", X) == ["sex=f", "sex=m", "sex=non_binary"]
    assert select("age", X) == ["age"]


def test_numbers_cut_into_ranges_or_splines():
    for step, made in [
        (SplineTransformer(n_knots=3), 5),
        (KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"), 3),
    ]:
        X = make_column_transformer((step, ["age"]), remainder="passthrough").set_output(transform="pandas")
        assert len(select("age", X.fit_transform(RAW[["age", "visits"]]))) == made


DATE = ["date_year", "date_month", "date_day", "date_total_seconds", "date_day_of_year"]
PERIODS = ["date_month_circular_0", "date_month_circular_1", "date_hour_spline_00", "date_hour_spline_01"]


@pytest.mark.parametrize(
    "made", [DATE, DATE + PERIODS, ["text_00", "text_01", "text_02"]], ids=["date", "more", "text"]
)
def test_numeric_columns_of_one_attribute_as_skrub_calls_them(made):
    """Parts of a date and numbered columns do not warn, because encoders produce them."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(5, len(made) + 1)), columns=[*made, "age"])
    assert select(made[0].partition("_")[0], X) == made


@settings(deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=4, unique=True), st.data())
def test_one_hot_columns_are_found_for_any_names(attributes, data):
    """Names without separators are never ambiguous, even if one begins with another."""
    levels = {name: data.draw(st.lists(WORDS, min_size=2, max_size=3, unique=True)) for name in attributes}
    made = [(name, f"{name}_{level}") for name in attributes for level in levels[name]]
    made = data.draw(st.permutations(made))
    X = pd.DataFrame(np.eye(3, len(made)), columns=[column for _, column in made])
    for name in attributes:
        assert select(name, X) == [column for of, column in made if of == name]


def frame(names, values=None):
    """Return a table in which each column is 1 in a row of its own."""
    return pd.DataFrame(np.eye(len(names)) if values is None else values, columns=names)


def test_an_exact_name_selects_only_its_column():
    assert select("age", frame(["age", "age_old", "age_young"])) == ["age"]
    assert select("sex_f", frame(["age", "sex_f", "sex_m", "sex_f_x"])) == ["sex_f"]


def test_similar_names_are_not_selected():
    X = frame(["sex_f", "sex_m", "sexes", "unisex_a", "a_sex_f", "naïve", "na_x"])
    assert select("sex", X) == ["sex_f", "sex_m"]
    assert select("na", X) == ["na_x"]


SEVERAL = {
    "a longer name": (
        ["age_low", "age_high", "age_group_old", "age_group_young", "sex_f"],
        "'age_group' selects only the columns that",
    ),
    "two steps": (["scale__age", "onehot__age_group_old", "onehot__age_group_young"], ""),
    "encoded twice": (["scale__age", "bin__age_0.0", "bin__age_1.0"], ""),
    "two separators": (["age_low", "age_high", "age-gap"], ""),
    "two longer names": (["age_a_x", "age_a_y", "age_b_x", "age_b_y"], "'age_a' selects only the columns that"),
}


@pytest.mark.parametrize(("names", "also"), SEVERAL.values(), ids=SEVERAL)
def test_a_raw_name_that_may_mean_several_attributes_is_refused(names, also):
    begin = [name for name in names if "age" in name]
    message = "names 'age', which is not a column of X. Columns that begin with this name seem to come from several "
    with pytest.raises(ValueError, match=message) as told:
        select("age", frame(names))
    assert all(repr(name) in str(told.value) for name in begin)
    assert "Give full column names, or select the columns by a slice or a mask." in str(told.value)
    assert also in str(told.value)


@pytest.mark.parametrize("separator", ["_", "-", " "])
def test_a_raw_name_whose_columns_all_have_a_longer_one(separator):
    made = [f"age{separator}group_old", f"age{separator}group_young"]
    longer = f"age{separator}group"
    with pytest.raises(ValueError, match=rf"Did you mean '{longer}' \(columns '{made[0]}', '{made[1]}'\)\? If not"):
        select("age", frame([*made, "visits"]))
    assert select(longer, frame([*made, "visits"])) == made


def test_naming_both_attributes_selects_the_columns_of_each():
    X = frame(["age_low", "age_group_old", "sex_f", "age_high", "age_group_young"])
    assert select(["age_group", "age"], X) == [name for name in X.columns if name != "sex_f"]
    assert select(["age", "age_group", "sex"], X) == list(X.columns)
    with pytest.raises(ValueError, match=r"each column only once\. Selected more than once: 'sex_f'"):
        select(["sex", "sex_f"], X)


DOUBTFUL = {
    "numbers": (["blood_pressure", "blood_sugar"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "one number": (["blood_pressure"], [[1.0], [2.0], [3.0]]),
    "not exclusive": (["blood_a", "blood_b"], [[1, 1], [0, 1], [1, 0]]),
    "text": (["blood_a"], [["x"], ["y"], ["z"]]),
    "missing": (["blood_a", "blood_b"], [[1, np.nan], [0, 1], [1, 0]]),
    "one column of a longer name": (["blood_sugar_high"], [[1], [0], [0]]),
    "another's only column": (["blood_a", "blood_b", "blood_sugar_high"], [[1, 0, 1], [0, 1, 0], [0, 0, 0]]),
}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(("names", "values"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_values_that_do_not_look_like_categories_warn(names, values, kind):
    X = kind({name: [row[j] for row in values] for j, name in enumerate(names)})
    one = "the column" if len(names) == 1 else "all columns"
    listed = ", ".join(map(repr, names))
    doubt = "This column may belong to another" if len(names) == 1 else "These may come from several"
    with pytest.warns(
        UserWarning,
        match=rf"names 'blood', .* The name selects {one} of the form blood.\.\.\.: {listed}. {doubt} attribute",
    ):
        assert select("blood", X) == names


CLEAR = {
    "first dropped": [[0, 0], [1, 0], [0, 1]],
    "scaled": [[-0.5, 1.5], [2.5, -0.5], [-0.5, -0.5]],
    "a level that no row has": [[0, 1], [0, 0], [0, 0]],
    "no rows": np.empty((0, 2)),
}


@pytest.mark.parametrize("values", CLEAR.values(), ids=CLEAR)
def test_mutually_exclusive_columns_do_not_warn(values):
    assert select("sex", frame(["sex_f", "sex_m"], values)) == ["sex_f", "sex_m"]


def test_categories_of_two_words_do_not_warn_if_all_are_present():
    assert len(select("sex", frame(["sex_f", "sex_non_binary"], [[1, 0], [0, 1], [1, 0]]))) == 2


@settings(deadline=None)
@given(st.permutations(["age_low", "age_high", "age_group_old", "age_group_young", "sex_f", "sex_m"]))
def test_acceptance_does_not_depend_on_column_order_or_rows(names):
    assert find_family("sex", names).columns == sorted([names.index("sex_f"), names.index("sex_m")])
    with pytest.raises(SeveralAttributes, match="'age_group' selects only the columns that begin with 'age_group'"):
        find_family("age", names)


# Suggestions in errors

HOMES = [
    "insurance_none",
    "insurance_private",
    "has_car",
    "has_dog",
    "blood_pressure",
    "blood_sugar",
    "x__home_a",
    "x__home_b",
]
VALUES = np.column_stack(
    [[1, 0, 0, 1], [0, 1, 0, 0], [1, 1, 0, 1], [1, 0, 0, 1], [1, 2, 3, 4], [4, 3, 2, 1], [1, 0, 0, 1], [0, 1, 1, 0]]
)
TABLE = pd.DataFrame(VALUES, columns=HOMES)
INSURANCE = "'insurance' (columns 'insurance_none', 'insurance_private')"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("insurance_privat", INSURANCE),
        ("Insurance_None", INSURANCE),
        ("insurence", INSURANCE),
        ("Insurance", INSURANCE),
        ("homes", "'home' (columns 'x__home_a', 'x__home_b')"),
        ("home_c", "'home' (columns 'x__home_a', 'x__home_b')"),
        ("x__home_c", "'x__home' (columns 'x__home_a', 'x__home_b')"),
        ("has_cat", "'has_car'"),
        ("blood_presure", "'blood_pressure'"),
        ("bloood", "'blood' (columns 'blood_pressure', 'blood_sugar')"),
    ],
)
def test_the_nearest_name_is_never_a_single_category(wrong, right):
    with pytest.raises(ValueError, match=f"which is not a column of X. Did you mean {re.escape(right)}\\?"):
        select(wrong, TABLE)


def test_categories_of_an_attribute_with_an_ambiguous_name():
    X = frame(["age_low", "age_high", "age_group_old", "age_group_young"])
    with pytest.raises(ValueError, match=r"Did you mean the columns 'age_low', 'age_high'\?"):
        select("age_lo", X)
    with pytest.raises(ValueError, match=r"Did you mean 'age_group' \(columns 'age_group_old', 'age_group_young'\)"):
        select("age_group_youngg", X)


@settings(deadline=None)
@given(st.text("insuracepvtenoh_", max_size=20))
def test_no_text_suggests_a_single_category(wrong):
    names = ["age", "insurance_none", "insurance_private", "insurance_other"]
    told = nearest_name(wrong, names)
    levels = [name for name in names[1:] if name in told.partition("(")[0]]
    assert told.startswith("The columns are") or not levels


@pytest.mark.parametrize("name", ["", "sex_", "_", "__"])
def test_incomplete_and_empty_names_find_no_family(name):
    assert find_family(name, ["sex_f", "sex_m"]) is None


def test_many_names_are_cut_short():
    assert nearest_name("zzz", [f"x{i}" for i in range(9)]).endswith("'x7', ....")
    assert nearest_name("Sex", ["sex", "sex_f"]) == "Did you mean 'sex'?"
