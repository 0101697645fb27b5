"""One X in many forms gives one propensity; a wrong attribute is named."""

import numpy as np
import pandas as pd
import polars as pl
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
    told = "attributes has the number 2, which is a position, .* column called 2 is at position 0"
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
    with pytest.raises(ValueError, match=f"X has no attribute '{wrong}'. Did you mean '{right}'?"):
        GeometricMeanSAR([wrong]).propensity(form(VALUES))


@pytest.mark.parametrize("form", BY_NAME)
def test_unknown_name_with_nothing_near_lists_the_columns(form):
    with pytest.raises(ValueError, match=r"X has no attribute 'zzz'. Its columns are 'age', 'visits', 'Income'"):
        GeometricMeanSAR(["zzz"]).propensity(form(VALUES))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, *BY_NAME])
def test_position_out_of_range(form):
    with pytest.raises(ValueError, match="attribute 3 is out of range; X has 3 columns, at positions 0 to 2"):
        GeometricMeanSAR([0, 3]).propensity(form(VALUES))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_name_without_names(form):
    with pytest.raises(ValueError, match=r"attribute 'age' is a name, but X has no column names.*0 to 2"):
        GeometricMeanSAR(["age"]).propensity(form(VALUES))


def test_name_of_two_columns():
    X = pd.DataFrame(VALUES, columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="attribute 'a' names 2 columns of X"):
        GeometricMeanSAR(["a"]).propensity(X)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, *BY_NAME])
@pytest.mark.parametrize(("bad", "shown"), [(np.nan, "nan"), (np.inf, "inf")])
def test_values_that_are_not_finite(form, bad, shown):
    values = VALUES.copy()
    values[2, 1] = bad
    with pytest.raises(ValueError, match=rf"must hold finite numbers; 1 of 4 values do not \(first: row 2 = {shown}\)"):
        GeometricMeanSAR([0, 1]).propensity(form(values))


def test_a_null_in_polars_is_missing():
    with pytest.raises(ValueError, match=r"attribute 'a' must hold finite numbers.*\(first: row 1 = nan\)"):
        GeometricMeanSAR("a").propensity(pl.DataFrame({"a": [1, None, 3]}))


def test_text_is_not_a_number():
    with pytest.raises(ValueError, match="attribute 'a' must hold numbers"):
        GeometricMeanSAR("a").propensity(pd.DataFrame({"a": ["x", "y"]}))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ([], "attributes is empty; name at least one"),
        (["a", "b", "a"], "attribute 'a' is listed twice"),
        ([0, -1], "attributes has the position -1; positions count from 0"),
        ([0.5], "attributes must be column names or positions; 0.5 is neither"),
        ([True], "attributes must be column names or positions; True is neither"),
    ],
)
def test_attribute_list_errors(attributes, message):
    with pytest.raises(ValueError, match=message):
        GeometricMeanSAR(attributes)


@pytest.mark.parametrize(
    "attributes", [slice(2, 3), None, 1.5, lambda X: [0]], ids=["slice", "None", "float", "function"]
)
@pytest.mark.parametrize(
    "make",
    [lambda a: LogisticSAR(a, [1.0]), lambda a: StepSAR(a, [0.5], [0.2, 0.8]), GeometricMeanSAR],
    ids=["logistic", "step", "geometric"],
)
def test_attributes_that_need_a_table_to_be_read_are_refused(make, attributes):
    message = r"attributes must be a column name or position, or a list of them; got .*write positions, e\.g\. list\("
    with pytest.raises(ValueError, match=message):
        make(attributes)


def test_rows_of_unequal_length():
    with pytest.raises(ValueError, match="X must be a table with rows of equal length; NumPy can make none of it"):
        LogisticSAR([0], [1.0]).propensity([[1.0, 2.0], [3.0]])
