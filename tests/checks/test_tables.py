import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier
from scarless.checks.tables import (
    check_foreign_table,
    check_numeric,
    check_table,
    plain_array,
    refuse_invalid_vector,
    refuse_lazy_query,
    refuse_masked,
    take_columns,
)
from scarless.diagnostics import bootstrap_intervals
from scarless.label_frequency import KernelMean
from scarless.labelling import LogisticSAR, simulate_labels
from scarless.metrics import propensity_weighted_roc_auc

ROWS = 9000  # more than one chunk of the search for bad values


class Reader(BaseEstimator):
    """An object with settable attributes."""


def _check(X, y=None):
    return check_table(Reader(), X, y, reset=True)


def _table(row, column, value, dtype=np.float64, n=ROWS):
    X = np.ones((n, 3), dtype=dtype)
    X[row, column] = value
    return X


PLACES = pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 2), (8191, 1), (8192, 0), (ROWS - 1, 2)])
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


# Tables that pass


@DTYPES
@pytest.mark.parametrize("order", ["C", "F"])
def test_float_arrays_are_not_copied(dtype, order):
    X = np.ones((4, 2), dtype=dtype, order=order)
    checked = _check(X)
    assert np.shares_memory(checked, X)
    assert checked.dtype == dtype


@DTYPES
def test_csr_is_unchanged_and_other_formats_become_csr(dtype):
    X = sparse.csr_array(np.eye(4, dtype=dtype))
    checked = _check(X)
    assert np.shares_memory(checked.data, X.data)
    assert checked.dtype == dtype
    for other in (X.tocsc(), X.tocoo(), sparse.csc_matrix(X)):
        assert _check(other).format == "csr"


def test_a_memory_map_stays_a_memory_map(tmp_path):
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(10, 2))
    assert np.shares_memory(_check(X), X)


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1, 2], [3, 4]], dtype=object),
        pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}, dtype=object),
        pd.DataFrame({"a": pd.array([1, 3], dtype="Int64"), "b": [2, 4]}),
        pl.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
        sparse.csr_array(np.array([[1, 2], [3, 4]])),
    ],
)
def test_numbers_of_all_kinds_become_float64(X):
    checked = _check(X)
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked.toarray() if sparse.issparse(checked) else checked, [[1, 2], [3, 4]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_and_number_of_columns_are_kept_and_checked(frame):
    reader = Reader()
    check_table(reader, frame({"a": [1.0], "b": [True]}), reset=True)
    assert list(reader.feature_names_in_) == ["a", "b"]
    assert reader.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        check_table(reader, frame({"a": [1.0], "c": [2.0]}), reset=False)


def test_the_number_of_columns_of_an_array_is_checked():
    reader = Reader()
    check_table(reader, np.ones((1, 2)), reset=True)
    with pytest.raises(ValueError, match="expecting 2 features"):
        check_table(reader, np.ones((1, 3)), reset=False)


def test_labels_are_returned_with_the_table():
    X, y = _check(np.ones((3, 1)), ["a", "b", "a"])
    assert X.shape == (3, 1)
    np.testing.assert_array_equal(y, ["a", "b", "a"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        _check(np.ones((3, 1)), [0, 1])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        _check(np.ones((1, 1)), [1])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from([0.0, 1e-300, 1.0, -1e14]), st.booleans())
def test_any_finite_table_passes_unchanged(n, d, value, is_sparse):
    X = np.full((n, d), value)
    X[0, 0] = 0.0
    checked = _check(sparse.csr_array(X) if is_sparse else X)
    np.testing.assert_array_equal(checked.toarray() if is_sparse else checked, X)


def test_a_sparse_table_without_entries_passes():
    assert _check(sparse.csr_array((5, 3))).nnz == 0


# Bad values


@PLACES
@DTYPES
def test_nan_is_named_by_row_and_column(row, column, dtype):
    message = (
        rf"Input X contains NaN at row {row}, column {column}\. Fill missing values first, for example with "
        r"sklearn\.impute\.SimpleImputer in a Pipeline, or drop the rows\."
    )
    X = _table(row, column, np.nan, dtype)
    for table in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=message):
            _check(table)


@PLACES
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_named_by_row_and_column(row, column, value):
    message = rf"Input X contains infinity at row {row}, column {column}\. Replace it by a finite value\."
    X = _table(row, column, value)
    for table in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=message):
            _check(table)


@pytest.mark.parametrize(
    ("dtype", "largest", "limit"), [(np.float32, 1e15, r"1e\+15"), (np.float64, 1e100, r"1e\+100")]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_values_whose_squares_overflow_are_named(dtype, largest, limit, sign):
    _check(_table(1, 1, sign * largest * 0.99, dtype, n=3))
    message = (
        rf"Input X has the value {'-' if sign < 0 else ''}2e\+\d+ at row 1, column 1. Absolute values must be at most "
        rf"{limit}, so that sums of squares stay finite in {np.dtype(dtype)}\. Scale the columns, for example with "
        r"sklearn\.preprocessing\.StandardScaler\."
    )
    X = _table(1, 1, sign * 2 * largest, dtype, n=3)
    for table in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=message):
            _check(table)


def test_the_first_bad_value_is_named():
    X = _table(5, 2, np.nan, n=10)
    X[7, 0] = np.inf
    with pytest.raises(ValueError, match="NaN at row 5, column 2"):
        _check(X)


@settings(max_examples=50, deadline=None)
@given(st.data(), st.integers(1, 8), st.integers(1, 5))
def test_a_bad_entry_is_found_among_empty_rows(data, n, d):
    dense = np.zeros((n, d))
    row, column = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
    other = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
    dense[other] = 1.0
    dense[row, column] = np.nan
    for table in (dense, sparse.csr_array(dense), sparse.csc_array(dense)):
        with pytest.raises(ValueError, match=f"NaN at row {row}, column {column}\\."):
            _check(table)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"age": [1.0, 2.0], "visits": [3.0, np.nan]}),
        pd.DataFrame({"age": [1, 2], "visits": pd.array([3, None], dtype="Int64")}),
        pd.DataFrame({"age": [1, 2], "visits": [3, None]}, dtype=object),
        pl.DataFrame({"age": [1, 2], "visits": [3, None]}),
        pl.DataFrame({"age": [1.0, 2.0], "visits": [3.0, float("nan")]}),
    ],
    ids=["pandas", "nullable", "object", "polars-null", "polars-nan"],
)
def test_a_missing_value_in_a_frame_is_named_by_its_column(X):
    with pytest.raises(ValueError, match=r"NaN at row 1, column 1 \('visits'\)\."):
        _check(X)
    with pytest.raises(ValueError, match=r"NaN at row 1, column 1 \('visits'\)\."):
        check_numeric(X)


def test_an_infinite_and_a_huge_value_in_a_frame_are_named_by_their_column():
    with pytest.raises(ValueError, match=r"infinity at row 0, column 0 \('age'\)"):
        _check(pd.DataFrame({"age": [np.inf]}))
    with pytest.raises(
        ValueError, match=r"has the value 1e\+200 at row 0, column 0 \('age'\). Absolute values must be at most 1e\+100"
    ):
        _check(pl.DataFrame({"age": [1e200]}))


# Text


TEXT = [
    pd.DataFrame({"age": [1], "town": ["Ghent"]}),
    pd.DataFrame({"age": [1], "town": ["Ghent"]}, dtype=object),
    pd.DataFrame({"age": [1], "town": pd.array(["Ghent"], dtype="string")}),
    pd.DataFrame({"age": [1], "town": pd.Categorical(["Ghent"])}),
    pd.DataFrame({"age": [1], "town": pd.to_datetime(["2019-09-16"])}),
    pl.DataFrame({"age": [1], "town": ["Ghent"]}),
    pl.DataFrame({"age": [1], "town": pl.Series(["Ghent"], dtype=pl.Categorical)}),
    pl.DataFrame({"age": [1], "town": pl.Series(["Ghent"], dtype=pl.Enum(["Ghent"]))}),
    pl.DataFrame({"age": [1], "town": pl.Series(["2019-09-16"]).str.to_date()}),
]


@pytest.mark.parametrize("X", TEXT)
def test_columns_of_text_are_named(X):
    message = (
        r"X must contain only numbers\. Columns with text, categories or dates: 'town' \(1 of 2\)\. Encode dates as "
        r"days since a reference date\. Encode other columns, for example with make_column_transformer\(\("
        r"OneHotEncoder\(drop='first', sparse_output=False\), \['town'\]\), remainder='passthrough', "
    )
    with pytest.raises(ValueError, match=message):
        _check(X)
    with pytest.raises(ValueError, match=message):
        check_numeric(X)


def test_the_advice_on_text_works_and_leaves_no_collinear_columns():
    towns = ["Ghent", "Leuven", "Antwerp", "Ghent", "Leuven", "Antwerp", "Ghent"]
    X = pd.DataFrame({"age": np.arange(7.0) ** 2, "town": towns, "sex": list("fmfmmff")})
    with pytest.raises(ValueError, match=r"text, categories or dates: .* \(2 of 3\)") as caught:
        _check(X)
    recipe = re.search(r"make_column_transformer\(.*\)(?=\. Without drop)", str(caught.value)).group()
    names = {"make_column_transformer": make_column_transformer, "OneHotEncoder": OneHotEncoder}
    encoded = eval(recipe, names).fit_transform(X)
    assert encoded.columns.tolist() == ["town_Ghent", "town_Leuven", "sex_m", "age"]
    with_intercept = np.column_stack([_check(encoded), np.ones(7)])
    assert np.linalg.matrix_rank(with_intercept) == 5


def test_of_many_columns_of_text_five_are_named():
    X = pd.DataFrame({f"c{i}": ["a"] for i in range(7)})
    with pytest.raises(
        ValueError,
        match=r"text, categories or dates: 'c0', 'c1', 'c2', 'c3', 'c4', \.\.\. \(7 of 7\)",
    ):
        _check(X)


# check_numeric


@DTYPES
def test_check_numeric_returns_clean_arrays_unchanged(dtype):
    X = np.eye(3, dtype=dtype)
    assert check_numeric(X) is X
    csr = sparse.csr_array(X)
    assert check_numeric(csr) is csr


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize("dtype", [int, bool, np.float64])
def test_check_numeric_makes_numbers_float_and_sparse_csr(kind, dtype):
    # Integer tables would round the coefficients that they are multiplied by.
    checked = check_numeric(kind(np.eye(3).astype(dtype)))
    assert checked.dtype == np.float64
    assert kind is np.asarray or checked.format == "csr"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_check_numeric_turns_frames_into_arrays(frame):
    np.testing.assert_array_equal(check_numeric(frame({"a": [1, 2], "b": [3.0, 4.0]})), [[1, 3], [2, 4]])


# Tables for other estimators


def _foreign(X, y=None, inner=None, reader=None):
    return check_foreign_table(reader or Reader(), X, y, inner=inner or LogisticRegression(), reset=reader is None)


@pytest.mark.parametrize("X", TEXT)
def test_a_frame_is_returned_unchanged(X):
    reader = Reader()
    assert check_foreign_table(reader, X, inner=LogisticRegression(), reset=True) is X
    assert list(reader.feature_names_in_) == ["age", "town"]
    assert _foreign(X, [1])[0] is X


def test_nan_passes_only_if_the_inner_estimator_supports_it():
    X = np.array([[1.0, np.nan], [0.0, 1.0]])
    np.testing.assert_array_equal(_foreign(X, inner=HistGradientBoostingClassifier()), X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        _foreign(X)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        _foreign(np.array([[np.inf]]), inner=HistGradientBoostingClassifier())


def test_labels_of_a_foreign_table_are_checked():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    _, y = _foreign(X, pd.Series([1, 0, 1]))
    np.testing.assert_array_equal(y, [1, 0, 1])
    with pytest.raises(ValueError, match="X has 3 rows and y has 2 labels; give one label per row"):
        _foreign(X, [0, 1])
    with pytest.raises(ValueError, match="X has 3 rows and y has 4 labels; give one label per row"):
        _foreign(X.to_numpy(), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        _foreign(X, [0.0, np.nan, 1.0])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        _foreign(np.ones((1, 1)), [1])


def test_columns_of_a_foreign_table_are_checked_at_prediction():
    reader = Reader()
    check_foreign_table(reader, pd.DataFrame({"a": [1.0]}), inner=LogisticRegression(), reset=True)
    with pytest.raises(ValueError, match="feature names"):
        _foreign(pd.DataFrame({"b": [1.0]}), reader=reader)


# take_columns


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (np.arange(6.0).reshape(2, 3), np.ndarray),
        (np.arange(6.0).reshape(2, 3).tolist(), np.ndarray),
        (sparse.csr_array(np.arange(6.0).reshape(2, 3)), sparse.csr_array),
        (pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=["a", "b", "c"]), pd.DataFrame),
        (pl.DataFrame(np.arange(6.0).reshape(2, 3), schema=["a", "b", "c"]), pl.DataFrame),
    ],
    ids=["array", "list", "csr", "pandas", "polars"],
)
@pytest.mark.parametrize("columns", [[2, 0], [1], [0, 1, 2]])
def test_take_columns_keeps_the_order_and_the_type_of_the_table(table, kind, columns):
    taken = take_columns(table, np.array(columns))
    assert isinstance(taken, kind)
    values = taken.toarray() if sparse.issparse(taken) else np.asarray(taken)
    np.testing.assert_array_equal(values, np.arange(6.0).reshape(2, 3)[:, columns])


@pytest.mark.parametrize("names", [["a", "a", "b"], [None, None, None]])
@pytest.mark.parametrize("model", [NaiveClassifier(), NaiveClassifier(DecisionTreeClassifier())])
def test_equal_names_of_columns_raise(names, model):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=names)
    count = names.count(names[0])
    message = f"{count} columns of X have the name {names[0]!r}, and names must be unique. Rename these columns, or pa"
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.arange(20) % 2)


def test_columns_of_lists_raise():
    polars = pytest.importorskip("polars")
    X = polars.DataFrame({"a": [0.5, 1.0, 2.0, 3.0], "b": [[1.0], [2.0], [3.0], [4.0]]})
    with pytest.raises(
        ValueError, match=r"Columns with lists: 1 of 2 \(first: 'b'\)\. Split the lists into separate c"
    ):
        NaiveClassifier().fit(X, [0, 1, 0, 1])


# --- kinds of arrays


RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
S = (RNG.random(200) < 0.6 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
E = np.full(200, 0.6)


def masked(values, *places):
    array = np.ma.array(values, copy=True)
    for place in places:
        array[place] = np.ma.masked
    return array


MODELS = [NaiveClassifier(), SCARClassifier(0.9, method="likelihood"), SAREMClassifier(propensity_attributes=[1])]


@pytest.mark.parametrize("model", [*MODELS, KernelMean()], ids=lambda model: type(model).__name__)
def test_masks_are_refused_in_every_fit(model):
    with pytest.raises(ValueError, match=r"X is a masked array with 1 of 400 values masked.*X\.filled\(value\)"):
        model.fit(masked(X, (3, 1)), S)
    with pytest.raises(ValueError, match=r"y is a masked array with 2 of 200 values masked"):
        model.fit(X, masked(S, 3, 8))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_masks_are_refused_after_the_fit_too(model):
    model.fit(X, S)
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="X is a masked array with 1 of 400 values masked"):
            method(masked(X, (0, 0)))
    with pytest.raises(ValueError, match="y is a masked array"):
        model.score(X, masked(S, 0))
    if hasattr(model, "predict_posterior"):
        with pytest.raises(ValueError, match="s is a masked array"):
            model.predict_posterior(X, masked(S, 0))
    with pytest.raises(ValueError, match="sample_weight is a masked array"):
        model.fit(X, S, sample_weight=masked(np.ones(200), 0))


def test_a_masked_array_without_masked_values_is_accepted():
    plain = SAREMClassifier().fit(X, S)
    again = SAREMClassifier().fit(masked(X), masked(S), sample_weight=np.ma.ones(200))
    np.testing.assert_array_equal(plain.coef_, again.coef_)
    refuse_masked([1, 2], "X")


def test_other_functions_refuse_masks():
    with pytest.raises(ValueError, match="propensity is a masked array"):
        PropensityWeightedClassifier().fit(X, S, propensity=masked(E, 1))
    with pytest.raises(ValueError, match="y is a masked array"):
        simulate_labels(masked(S, 1), 0.5)
    with pytest.raises(ValueError, match="X is a masked array"):
        LogisticSAR([0], [1.0]).propensity(masked(X, (1, 1)))
    with pytest.raises(ValueError, match="s is a masked array"):
        propensity_weighted_roc_auc(masked(S, 1), X[:, 0], propensity=E)


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match=r"sample_weight must hold real numbers\. To use .* pass sample_weight\.real"):
        SAREMClassifier().fit(X, S, sample_weight=np.ones(200) + 1j)
    with pytest.raises(ValueError, match="propensity must hold real numbers"):
        PropensityWeightedClassifier().fit(X, S, propensity=pd.Series(E + 0j))
    with pytest.raises(ValueError, match="Complex data not supported: y must hold real numbers"):
        SAREMClassifier().fit(X, S + 0j)


@pytest.mark.parametrize("as_sparse", [lambda s: sparse.csr_matrix(s[:, None]), sparse.coo_array])
def test_sparse_labels_are_refused(as_sparse):
    with pytest.raises(
        TypeError, match=r"y must be a dense array with one value per row; got a sparse matrix\. Pass y\.toarray\(\)"
    ):
        SAREMClassifier().fit(X, as_sparse(S))
    with pytest.raises(TypeError, match="sample_weight must be a dense array"):
        SAREMClassifier().fit(X, S, sample_weight=as_sparse(S))


def test_a_query_must_be_collected():
    frame = pl.DataFrame(X, schema=["a", "b"])
    with pytest.raises(TypeError, match=r"y is a LazyFrame, a query that has not been run yet\. Pass y\.collect\(\)"):
        SAREMClassifier().fit(frame, pl.DataFrame({"s": S}).lazy())
    with pytest.raises(TypeError, match=r"X is a LazyFrame, a query that has not been run yet\. Pass X\.collect\(\)"):
        LogisticSAR(["a"], [1.0]).propensity(frame.lazy())
    refuse_lazy_query(frame, "X")


def test_labels_of_a_query_are_named_columns():
    frame = pl.DataFrame(X, schema=["a", "b"])
    model = SAREMClassifier().fit(frame, S)
    for ask in (
        lambda X: SAREMClassifier().fit(X, S),
        lambda X: bootstrap_intervals(model, X, S, n_resamples=20),
    ):
        with pytest.raises(TypeError, match="y must name a column of the query if X is a LazyFrame"):
            ask(frame.lazy())
    known = PropensityWeightedClassifier(method="likelihood").fit(frame, S, propensity=0.9)
    for ask in (
        model.predict_proba,
        lambda X: known.score(X, S, propensity=0.9),
        lambda X: known.predict_posterior(X, S, 0.9),
    ):
        np.testing.assert_array_equal(ask(frame.lazy()), ask(frame))


@pytest.mark.parametrize("values", [[1, 2], np.arange(3), pd.Series([1.0]), pl.Series([1]), 5, None, "text"])
def test_plain_input_passes(values):
    refuse_invalid_vector(values, "w")


def test_plain_array_needs_one_value_per_row():
    np.testing.assert_array_equal(plain_array([1, 0], "y"), [1, 0])
    with pytest.raises(
        ValueError, match="decisions must contain one value per row, but NumPy cannot convert it to an array: "
    ):
        plain_array([[1], [0, 1]], "decisions")
