"""A raw name stands for all columns that an encoder made of it, or is refused; never for some of them in silence."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, SplineTransformer, StandardScaler

from scarless.checks.attributes import check_attributes, names_of
from scarless.checks.raw_names import SeveralAttributes, find_family, nearest_name

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
    """No note: parts of a date and numbered columns are an encoder's."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(5, len(made) + 1)), columns=[*made, "age"])
    assert select(made[0].partition("_")[0], X) == made


@settings(deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=4, unique=True), st.data())
def test_one_hot_columns_are_found_whatever_their_names(attributes, data):
    """Names without separators cannot be mistaken for each other, not even where one begins with another."""
    levels = {name: data.draw(st.lists(WORDS, min_size=2, max_size=3, unique=True)) for name in attributes}
    made = [(name, f"{name}_{level}") for name in attributes for level in levels[name]]
    made = data.draw(st.permutations(made))
    X = pd.DataFrame(np.eye(3, len(made)), columns=[column for _, column in made])
    for name in attributes:
        assert select(name, X) == [column for of, column in made if of == name]


def frame(names, values=None):
    """Return a table in which each column is 1 in a row of its own."""
    return pd.DataFrame(np.eye(len(names)) if values is None else values, columns=names)


def test_the_exact_name_wins():
    assert select("age", frame(["age", "age_old", "age_young"])) == ["age"]
    assert select("sex_f", frame(["age", "sex_f", "sex_m", "sex_f_x"])) == ["sex_f"]


def test_what_only_looks_alike_is_not_taken():
    X = frame(["sex_f", "sex_m", "sexes", "unisex_a", "a_sex_f", "naïve", "na_x"])
    assert select("sex", X) == ["sex_f", "sex_m"]
    assert select("na", X) == ["na_x"]


SEVERAL = {
    "a longer name": (["age_low", "age_high", "age_group_old", "age_group_young", "sex_f"], "'age_group' alone"),
    "two steps": (["scale__age", "onehot__age_group_old", "onehot__age_group_young"], ""),
    "encoded twice": (["scale__age", "bin__age_0.0", "bin__age_1.0"], ""),
    "two separators": (["age_low", "age_high", "age-gap"], ""),
    "two longer names": (["age_a_x", "age_a_y", "age_b_x", "age_b_y"], "'age_a' alone"),
}


@pytest.mark.parametrize(("names", "also"), SEVERAL.values(), ids=SEVERAL)
def test_a_raw_name_that_may_mean_several_attributes_is_refused(names, also):
    begin = [name for name in names if "age" in name]
    message = "names 'age', which is not a column of X. Columns that begin with it seem to come from more than one "
    with pytest.raises(ValueError, match=message) as told:
        select("age", frame(names))
    assert all(repr(name) in str(told.value) for name in begin)
    assert "Name the columns that are meant, or select them by a slice or a mask." in str(told.value)
    assert also in str(told.value)


@pytest.mark.parametrize("separator", ["_", "-", " "])
def test_a_raw_name_whose_columns_all_have_a_longer_one(separator):
    made = [f"age{separator}group_old", f"age{separator}group_young"]
    longer = f"age{separator}group"
    with pytest.raises(ValueError, match=rf"Did you mean '{longer}' \(its columns '{made[0]}', '{made[1]}'\)\? If not"):
        select("age", frame([*made, "visits"]))
    assert select(longer, frame([*made, "visits"])) == made


def test_whoever_names_both_attributes_is_understood():
    X = frame(["age_low", "age_group_old", "sex_f", "age_high", "age_group_young"])
    assert select(["age_group", "age"], X) == [name for name in X.columns if name != "sex_f"]
    assert select(["age", "age_group", "sex"], X) == list(X.columns)
    with pytest.raises(ValueError, match="selects a column more than once: 'sex_f'"):
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
def test_a_note_where_values_do_not_look_like_levels(names, values, kind):
    X = kind({name: [row[j] for row in values] for j, name in enumerate(names)})
    one = "the column" if len(names) == 1 else "all columns"
    listed = ", ".join(map(repr, names))
    with pytest.warns(UserWarning, match=f"names 'blood', .* takes it for {one} whose name begins so: {listed}. Names"):
        assert select("blood", X) == names


CLEAR = {
    "first dropped": [[0, 0], [1, 0], [0, 1]],
    "scaled": [[-0.5, 1.5], [2.5, -0.5], [-0.5, -0.5]],
    "a level that no row has": [[0, 1], [0, 0], [0, 0]],
    "no rows": np.empty((0, 2)),
}


@pytest.mark.parametrize("values", CLEAR.values(), ids=CLEAR)
def test_no_note_where_columns_exclude_each_other(values):
    assert select("sex", frame(["sex_f", "sex_m"], values)) == ["sex_f", "sex_m"]


def test_no_note_for_a_level_of_two_words_where_all_levels_are_there():
    assert len(select("sex", frame(["sex_f", "sex_non_binary"], [[1, 0], [0, 1], [1, 0]]))) == 2


@settings(deadline=None)
@given(st.permutations(["age_low", "age_high", "age_group_old", "age_group_young", "sex_f", "sex_m"]))
def test_neither_the_order_of_columns_nor_the_rows_decide(names):
    assert find_family("sex", names).columns == sorted([names.index("sex_f"), names.index("sex_m")])
    with pytest.raises(SeveralAttributes, match="'age_group' alone stands for its own"):
        find_family("age", names)


# What errors suggest

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
INSURANCE = "'insurance' (its columns 'insurance_none', 'insurance_private')"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("insurance_privat", INSURANCE),
        ("Insurance_None", INSURANCE),
        ("insurence", INSURANCE),
        ("Insurance", INSURANCE),
        ("homes", "'home' (its columns 'x__home_a', 'x__home_b')"),
        ("home_c", "'home' (its columns 'x__home_a', 'x__home_b')"),
        ("x__home_c", "'x__home' (its columns 'x__home_a', 'x__home_b')"),
        ("has_cat", "'has_car'"),
        ("blood_presure", "'blood_pressure'"),
        ("bloood", "'blood' (its columns 'blood_pressure', 'blood_sugar')"),
    ],
)
def test_the_nearest_name_is_never_one_level_of_a_category(wrong, right):
    with pytest.raises(ValueError, match=f"which is not a column of X. Did you mean {re.escape(right)}\\?"):
        select(wrong, TABLE)


def test_levels_of_an_attribute_that_is_refused_by_its_name():
    X = frame(["age_low", "age_high", "age_group_old", "age_group_young"])
    with pytest.raises(ValueError, match=r"Did you mean all of 'age_low', 'age_high'\?"):
        select("age_lo", X)
    with pytest.raises(
        ValueError, match=r"Did you mean 'age_group' \(its columns 'age_group_old', 'age_group_young'\)"
    ):
        select("age_group_youngg", X)


@settings(deadline=None)
@given(st.text("insuracepvtenoh_", max_size=20))
def test_no_text_leads_to_one_level(wrong):
    names = ["age", "insurance_none", "insurance_private", "insurance_other"]
    told = nearest_name(wrong, names)
    levels = [name for name in names[1:] if name in told.partition("(")[0]]
    assert told.startswith("Its columns are") or not levels


@pytest.mark.parametrize("name", ["", "sex_", "_", "__"])
def test_names_that_end_before_a_level_or_are_empty_stand_for_nothing(name):
    assert find_family(name, ["sex_f", "sex_m"]) is None


def test_many_names_are_cut_short():
    assert nearest_name("zzz", [f"x{i}" for i in range(9)]).endswith("'x7', ....")
    assert nearest_name("Sex", ["sex", "sex_f"]) == "Did you mean 'sex'?"
