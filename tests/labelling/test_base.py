"""Tables of different types give the same propensities, and errors name wrong attributes."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
import scipy.sparse as sp

from scarless.labelling import GeometricMeanSAR, LogisticSAR, StepSAR, StratifiedSAR

VALUES = np.array([[0.0, 5.0, 1.0], [2.0, 0.0, 0.0], [1.0, 3.0, 0.0], [0.0, 1.0, 4.0]])
NAMES = ["age", "visits", "Income"]
SPARSE = [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.coo_array, sp.lil_matrix]
BY_POSITION = [np.asarray, np.asfortranarray, np.ndarray.tolist, *SPARSE]
BY_NAME = [lambda v: pd.DataFrame(v, columns=NAMES), lambda v: pl.DataFrame(v, schema=NAMES)]
EXPECTED = LogisticSAR([2, 0], [0.5, -1.0], 0.2).propensity(VALUES)


@pytest.mark.parametrize("form", BY_POSITION + BY_NAME)
def test_attributes_by_position(form):
    e = LogisticSAR([2, 0], [0.5, -1.0], 0.2).propensity(form(VALUES))
    np.testing.assert_array_equal(e, EXPECTED)


@pytest.mark.parametrize("form", BY_NAME)
def test_attributes_by_name(form):
    e = LogisticSAR(["Income", "age"], [0.5, -1.0], 0.2).propensity(form(VALUES))
    np.testing.assert_array_equal(e, EXPECTED)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, *BY_NAME])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_dtypes(form, dtype):
    e = GeometricMeanSAR([0, 1]).propensity(form(VALUES.astype(dtype)))
    np.testing.assert_array_equal(e, GeometricMeanSAR([0, 1]).propensity(VALUES))


def test_integers_are_positions_even_where_a_frame_has_integer_names():
    X = pd.DataFrame(VALUES, columns=[2, 0, 1])
    told = "attributes?: the number 2 is a position, .* column named 2 is at position 0"
    for mechanism in (
        LogisticSAR([2], [1.0]),
        GeometricMeanSAR(2),
        StepSAR(2, [0.5], [0.2, 0.8]),
        StratifiedSAR(2, {0: 0.5, 1: 0.6, 4: 0.7}),
    ):
        with pytest.warns(UserWarning, match=told):
            e = mechanism.propensity(X)
        np.testing.assert_array_equal(e, mechanism.propensity(VALUES))


def test_other_columns_may_hold_anything():
    X = pd.DataFrame({"age": [1.0, 2.0], "text": ["a", None], "nan": [np.nan, 1.0]})
    assert GeometricMeanSAR("age").propensity(X).tolist() == [0.2, 0.8]


def test_a_wide_sparse_matrix_is_not_made_dense():
    # Dense, this would be 80 TB.
    X = sp.csr_matrix(([1.0, 1.0], ([0, 1], [7, 9_999_999])), shape=(1_000_000, 10_000_000))
    e = GeometricMeanSAR([7, 9_999_999]).propensity(X)
    np.testing.assert_allclose(e[:3], [0.4, 0.4, 0.2])


def test_one_attribute_needs_no_list():
    assert GeometricMeanSAR("age") == GeometricMeanSAR(["age"])
    assert GeometricMeanSAR(np.int64(3)).attributes == (3,)


@pytest.mark.parametrize("form", BY_NAME)
@pytest.mark.parametrize(("wrong", "right"), [("visit", "visits"), ("income", "Income"), ("aeg", "age")])
def test_unknown_name_suggests_the_nearest(form, wrong, right):
    with pytest.raises(ValueError, match=rf"names '{wrong}', which is not a column of X\. Did you mean '{right}'\?"):
        GeometricMeanSAR([wrong]).propensity(form(VALUES))


@pytest.mark.parametrize("form", BY_NAME)
def test_unknown_name_with_nothing_near_lists_the_columns(form):
    with pytest.raises(
        ValueError,
        match=r"attributes names 'zzz', which is not a column of X\. The columns are 'age', 'visits', 'Income'",
    ):
        GeometricMeanSAR(["zzz"]).propensity(form(VALUES))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, *BY_NAME])
def test_position_out_of_range(form):
    with pytest.raises(ValueError, match="attributes selects column 3, but columns of X are numbered 0 to 2"):
        GeometricMeanSAR([0, 3]).propensity(form(VALUES))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_name_without_names(form):
    with pytest.raises(ValueError, match=r"attributes names the column 'age', but X has no column names. Pass"):
        GeometricMeanSAR(["age"]).propensity(form(VALUES))


def test_name_of_two_columns():
    X = pd.DataFrame(VALUES, columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="attributes names 'a', but 2 columns of X have this name"):
        GeometricMeanSAR(["a"]).propensity(X)
    np.testing.assert_array_equal(GeometricMeanSAR([1]).propensity(X), GeometricMeanSAR([1]).propensity(VALUES))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, *BY_NAME])
@pytest.mark.parametrize(("bad", "shown"), [(np.nan, "nan"), (np.inf, "inf")])
def test_values_that_are_not_finite(form, bad, shown):
    values = VALUES.copy()
    values[2, 1] = bad
    with pytest.raises(
        ValueError,
        match=rf"must have finite numbers; 1 of 4 values are not finite \(first: row 2 = {shown}; rows are",
    ):
        GeometricMeanSAR([0, 1]).propensity(form(values))


def test_a_null_in_polars_is_missing():
    with pytest.raises(
        ValueError, match=r"attribute 'a' must have finite numbers.*\(first: row 1 = nan; rows are counted from 0\)"
    ):
        GeometricMeanSAR("a").propensity(pl.DataFrame({"a": [1, None, 3]}))


def test_text_is_not_a_number():
    with pytest.raises(ValueError, match="attribute 'a' must contain only numbers"):
        GeometricMeanSAR("a").propensity(pd.DataFrame({"a": ["x", "y"]}))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ([], r"attributes selects no column; select at least one, or use SCAR\(c\) for labels that"),
        ([False, False], "attributes selects no column"),
        (["a", "b", "a"], "attributes must select each column only once. Selected more than once: 'a'"),
        ([-1, -1], "attributes must select each column only once. Selected more than once: -1"),
        ([0.5], "attributes must be names or column numbers, a slice, .*; got 0.5 of type float"),
        ([True, 0], "attributes must be names or column numbers, a slice, .*; got True of type bool"),
        (None, "attributes must be names or column numbers, a slice, .*; got None of type NoneType"),
        (slice(0.5), "attributes: a slice must begin and end with a name or a column number, .*; got 0.5"),
    ],
)
def test_attribute_list_errors(attributes, message):
    with pytest.raises(ValueError, match=message):
        GeometricMeanSAR(attributes)


HOMES = pd.DataFrame({"home_farm": [1, 0, 0], "age": [20.0, 30.0, 40.0], "home_town": [0, 1, 0], "visits": [0, 1, 2]})
SEVERAL = [(["home", "visits"], ["home_farm", "home_town", "visits"]), ("home", ["home_farm", "home_town"])]


@pytest.mark.parametrize(("raw", "columns"), SEVERAL)
@pytest.mark.parametrize("form", [lambda X: X, lambda X: pl.DataFrame(X.to_dict("list"))], ids=["pandas", "polars"])
def test_a_raw_name_takes_one_value_for_each_of_its_columns(raw, columns, form):
    X, k = form(HOMES), len(columns)
    table = dict.fromkeys(zip(*(HOMES[name] for name in columns), strict=True), 0.5)
    for make in (
        lambda a: LogisticSAR(a, np.arange(1.0, k + 1.0)),
        lambda a: GeometricMeanSAR(a, signs=[-1, 1, 1][:k]),
        lambda a: GeometricMeanSAR(a, ranges=[(0, i + 2) for i in range(k)]),
        lambda a: StratifiedSAR(a, table),
    ):
        np.testing.assert_array_equal(make(raw).propensity(X), make(columns).propensity(X))


LISTED = (
    r"must have one value for each of 2 columns of X, in this order: attribute 'home_farm', attribute 'home_town'\. "
    "Number of values:"
)


@pytest.mark.parametrize(
    ("mechanism", "named", "n_values"),
    [
        (LogisticSAR("home", [1.0]), "coefficients", 1),
        (LogisticSAR(slice("home_farm", "home_town", 2), [1.0, 2.0, 3.0]), "coefficients", 3),
        (GeometricMeanSAR("home", signs=[1, 1, -1]), "signs", 3),
        (GeometricMeanSAR(lambda X: ["home"], ranges=[(0, 1)]), "ranges", 1),
        (StratifiedSAR("home", {0: 0.5}), r"table: the stratum \(0,\)", 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_do_not_fit_the_columns(mechanism, named, n_values):
    with pytest.raises(ValueError, match=f"{named} {LISTED} {n_values}"):
        mechanism.propensity(HOMES)


def test_steps_go_along_one_column():
    assert StepSAR(slice(1, 2), [25], [0.2, 0.6]).propensity(HOMES).tolist() == [0.2, 0.6, 0.6]
    message = r"attribute must select one column; it selects 2 \(attribute 'home_farm', attribute 'home_town'\)"
    with pytest.raises(ValueError, match=message):
        StepSAR("home", [0.5], [0.2, 0.6]).propensity(HOMES)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (
            lambda: LogisticSAR([0, 1], [1.0]),
            "coefficients must have one value for each attribute.*: 2; number of values: 1",
        ),
        (
            lambda: LogisticSAR([0, -1], [1.0, 2.0, 3.0]),
            "coefficients must have one value for each attribute.*: 2; number of values: 3",
        ),
        (
            lambda: LogisticSAR(["a", "b"], [1.0]),
            "coefficients must have one value for each attribute.*: 2; number of values: 1",
        ),
        (
            lambda: GeometricMeanSAR([True, False, True], signs=[1]),
            "signs must have one value for each attribute.*: 2; number of values: 1",
        ),
        (
            lambda: GeometricMeanSAR(-1, ranges=[(0, 1), (0, 1)]),
            "ranges must have one value for each attribute.*: 1; number of values: 2",
        ),
        (lambda: StepSAR([True, True], [0.5], [0.2, 0.6]), "attribute must select one column; it selects 2"),
    ],
)
def test_numbers_that_cannot_fit_are_refused_at_once(make, named):
    with pytest.raises(ValueError, match=named):
        make()


@pytest.mark.parametrize("attributes", ["home", slice(0, 3, 2), [0, 2], [-4, -2], [True, False, True, False], "call"])
def test_a_mechanism_of_any_selection_is_a_value(attributes):
    given = home_columns if attributes == "call" else attributes
    for mechanism in (LogisticSAR(given, [1.0, 2.0]), GeometricMeanSAR(given), StratifiedSAR(given, {(0, 1): 0.5})):
        copy = pickle.loads(pickle.dumps(mechanism))
        assert copy == mechanism == replace(mechanism)
        assert hash(copy) == hash(mechanism)
        assert repr(mechanism.attributes) in repr(mechanism)


def home_columns(X):
    return [name for name in X.columns if name.startswith("home")]


def test_a_mechanism_with_a_polars_selector():
    frame = pl.DataFrame(HOMES.to_dict("list"))
    mechanism = pickle.loads(pickle.dumps(LogisticSAR(cs.starts_with("home"), [1.0, 2.0])))
    expected = LogisticSAR("home", [1.0, 2.0]).propensity(HOMES)
    np.testing.assert_array_equal(mechanism.propensity(frame), expected)
    np.testing.assert_array_equal(mechanism.fitted(frame).propensity(HOMES), expected)
    assert "home" in repr(mechanism)
    assert isinstance(hash(mechanism), int)


@pytest.mark.parametrize(
    ("attributes", "fixed"),
    [
        (lambda X: X.nunique() == 2, ("home_farm", "home_town")),
        ("home", ("home_farm", "home_town")),
        (slice("home", None, 2), ("home_farm", "home_town")),
        ([True, False, True, False], ("home_farm", "home_town")),
        (["home_town", "home_farm"], ("home_town", "home_farm")),
        ([0, -2], (0, -2)),
    ],
)
def test_a_fitted_mechanism_means_the_same_columns_in_every_table(attributes, fixed):
    """A callable can select other columns in another table; a fitted mechanism has fixed columns."""
    for mechanism in (
        LogisticSAR(attributes, [1.0, 2.0]),
        GeometricMeanSAR(attributes),
        StratifiedSAR(attributes, {(0, 1): 0.5}),
    ):
        assert mechanism.fitted(HOMES).attributes == fixed
    other = HOMES.assign(visits=[0, 0, 1], home_farm=[0, 0, 0])
    e = LogisticSAR(attributes, [1.0, 2.0]).fitted(HOMES).propensity(other)
    np.testing.assert_array_equal(e, LogisticSAR(list(fixed), [1.0, 2.0]).propensity(other))


def test_a_fitted_mechanism_keeps_ranges_that_were_given():
    X = np.array([[0.0, 2.0], [1.0, 4.0]])
    given = GeometricMeanSAR([0, 1], ranges=[(0, 2), (0, 8)])
    assert given.fitted(X).ranges == ((0.0, 2.0), (0.0, 8.0))
    np.testing.assert_array_equal(given.fitted(X).propensity(X), given.propensity(X))
    assert GeometricMeanSAR([0, 1]).fitted(X).ranges == ((0.0, 1.0), (2.0, 4.0))
    with pytest.raises(ValueError, match="ranges"):
        GeometricMeanSAR(slice(None), ranges=[(0, 2)]).fitted(X)


def test_a_fitted_mechanism_without_names_has_positions():
    assert LogisticSAR(slice(1, None, 2), [1.0, 2.0]).fitted(HOMES.to_numpy()).attributes == (1, 3)
    assert StepSAR([True, False, False, False], [0.5], [0.2, 0.6]).fitted(HOMES.to_numpy()).attribute == 0
    assert StepSAR("age", [0.5], [0.2, 0.6]).fitted(HOMES).attribute == "age"


def test_rows_of_unequal_length():
    with pytest.raises(ValueError, match=r"X must be a table with rows of equal length\. NumPy cannot convert it to "):
        LogisticSAR([0], [1.0]).propensity([[1.0, 2.0], [3.0]])
