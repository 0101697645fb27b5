"""Prepared columns are traced back to raw columns; known values show what each step does."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

from scarless.raw.origins import Origin, trace_origins
from scarless.raw.preparation import table_preparation

TABLE = pd.DataFrame(
    {
        "age": [20.0, 30.0, np.nan, 50.0, 70.0, 80.0],
        "age_group": ["young", "young", None, "old", "old", "older"],
        "visits": [1, 5, 2, 2, 0, 9],
        "sex": ["f", "m", "f", "m", "f", "m"],
        "day": pd.to_datetime(["2020-01-01", "2021-02-03", "2022-03-04", None, "2020-05-06", "2019-07-08"]),
        "nothing": [np.nan] * 6,
    }
)
NUMBERS = TABLE[["age", "visits"]].fillna(40.0)


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((-1, 3)), MaxAbsScaler(), RobustScaler()])
def test_a_unit_is_the_number_of_raw_units_per_prepared_unit(scaler):
    scaled = scaler.fit_transform(NUMBERS)
    origins = trace_origins(scaler, NUMBERS.columns, 2)
    raw, made = (np.diff(np.asarray(each), axis=0) for each in (NUMBERS, scaled))
    np.testing.assert_allclose(made * [each.unit for each in origins], raw)
    assert [each.label for each in origins] == ["age", "visits"]


def test_units_multiply_along_a_pipeline():
    steps = make_pipeline(
        StandardScaler(), "passthrough", make_pipeline(MinMaxScaler()), StandardScaler(with_std=False)
    )
    made = steps.fit_transform(NUMBERS)
    origins = trace_origins(steps, NUMBERS.columns)
    np.testing.assert_allclose(np.diff(made, axis=0) * [each.unit for each in origins], np.diff(NUMBERS, axis=0))


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
@pytest.mark.parametrize("options", [{}, {"min_frequency": 2}, {"max_categories": 2}])
def test_categories_agree_with_the_names_of_the_encoder(drop, options):
    text = TABLE[["age_group", "sex"]]
    encoder = OneHotEncoder(drop=drop, sparse_output=False, handle_unknown="ignore", **options).fit(text)
    names = list(encoder.get_feature_names_out())
    origins = trace_origins(encoder, text.columns, len(names))
    pieces = [each.piece.replace("others", "infrequent_sklearn") for each in origins]
    assert [f"{each.column}_{piece}" for each, piece in zip(origins, pieces, strict=True)] == names


@pytest.mark.parametrize(
    "columns", [["sex"], [3], [-3], slice("sex", "sex"), slice(3, 4), [c == "sex" for c in TABLE if c != "nothing"]]
)
def test_all_column_selections_of_a_column_transformer_are_traced(columns):
    if columns == [-3]:
        columns = lambda table: ["sex"]  # noqa: E731
    steps = ColumnTransformer(
        [("level", OneHotEncoder(), columns), ("none", "drop", ["day"]), ("same", "passthrough", ["visits"])],
        remainder=SimpleImputer(strategy="most_frequent"),
    )
    table = TABLE.drop(columns="nothing")
    made = steps.fit_transform(table)
    origins = trace_origins(steps, table.columns, made.shape[1])
    assert [each.label for each in origins] == ["sex = f", "sex = m", "visits", "age", "age_group"]


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_columns_that_an_imputer_adds_or_drops_are_traced():
    table = TABLE[["age", "visits", "nothing"]]
    imputer = SimpleImputer(add_indicator=True).fit(table)
    made = imputer.transform(table)
    assert [each.label for each in trace_origins(imputer, table.columns, made.shape[1])] == [
        "age",
        "visits",
        "age = missing",
        "nothing = missing",
    ]


def test_a_union_has_its_columns_beside_each_other():
    union = FeatureUnion([("raw", "passthrough"), ("scaled", StandardScaler())]).fit(NUMBERS)
    assert [each.unit == 1.0 for each in trace_origins(union, NUMBERS.columns, 4)] == [True, True, False, False]


def test_the_default_preparation_is_traced_for_any_names():
    preparation = table_preparation()
    made = preparation.fit_transform(TABLE)
    origins = trace_origins(preparation, TABLE.columns, made.shape[1])
    assert {each.column for each in origins} == set(TABLE) - {"nothing"}
    of = dict(zip(made.columns, origins, strict=True))
    assert of["age"].label == "age"
    assert of["missingindicator_age"] == Origin("age", "missing", of["missingindicator_age"].unit)
    assert of["age_group_old"].label == "age_group = old"  # not a category of `age`
    assert of["day_year"].label == "year of day"
    filled = TABLE["age"].fillna(TABLE["age"].median())
    assert of["age"].unit == pytest.approx(filled.std(ddof=0))


def test_an_unknown_step_that_keeps_columns_has_unknown_units():
    power = PowerTransformer().fit(NUMBERS)
    assert [(each.column, np.isnan(each.unit)) for each in trace_origins(power, NUMBERS.columns)] == [
        ("age", True),
        ("visits", True),
    ]


@pytest.mark.parametrize("step", [PCA(1), VarianceThreshold(50.0), FunctionTransformer(np.log1p)])
def test_steps_that_cannot_be_traced_have_no_origins(step):
    assert trace_origins(step.fit(NUMBERS), NUMBERS.columns) is None
    assert trace_origins(make_pipeline(step, StandardScaler()).fit(NUMBERS), NUMBERS.columns) is None


def test_a_wrong_number_of_columns_gives_no_origins():
    assert trace_origins("passthrough", ["a", "b"], 3) is None
    assert trace_origins(None, ["a"], 1) == [Origin("a")]
