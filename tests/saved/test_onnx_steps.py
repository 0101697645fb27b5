"""Steps of scikit-learn before a model: skl2onnx converts them in double precision, or they are refused."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from tests.saved.asking import ask, assert_same, feeds_of, fit_and_draw, ours, stamp_of

import scarless
from scarless import SAREMClassifier, TableClassifier
from scarless.saved import ModelFileError

pytest.importorskip("skl2onnx", reason="skl2onnx is an extra")


def numbers(n=300, seed=0, gaps=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(2020.0, 0.7, (n, 4))  # single precision would keep only four digits of the differences
    if gaps:
        X[rng.random((n, 4)) < [0.2, 0.1, 0.0, 0.0]] = np.nan
    return X


def mixed(n=300, seed=0):
    X, rng = numbers(n, seed, gaps=True), np.random.default_rng(seed + 1)
    kinds = rng.choice(["low", "middle", "high"], n)
    return pd.DataFrame({"a": X[:, 0], "kind": kinds, "b": X[:, 2], "sick": rng.random(n) < 0.5})


def by_column():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop="first"), ["kind"]),
        remainder="passthrough",
    )


STEPS = {
    "scaled": lambda: (StandardScaler(),),
    "min to max": lambda: (MinMaxScaler(),),
    "components": lambda: (StandardScaler(), PCA(3)),
    "robust": lambda: (make_pipeline(RobustScaler(), "passthrough"), PCA(2)),
    "some columns": lambda: (
        make_column_transformer((StandardScaler(), [0, 2]), remainder="passthrough"),
        MinMaxScaler(),
    ),
    "large numbers": lambda: (make_column_transformer((StandardScaler(), [0, 2]), remainder="passthrough"),),
    "gaps filled": lambda: (SimpleImputer(), StandardScaler()),
    "gaps told": lambda: (SimpleImputer(strategy="median", add_indicator=True), StandardScaler()),
}


@pytest.mark.parametrize("with_rows", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_pipeline_of_numbers_gives_the_same_predictions(name, with_rows):
    X, new = (numbers(seed=seed, gaps="gaps" in name) for seed in (0, 1))
    model = fit_and_draw(make_pipeline(*STEPS[name](), SAREMClassifier()), X)
    graph = scarless.to_onnx(model, X=X if with_rows else None)
    assert_same(ask(graph, {"X": new}), ours(model, new), 1e-10)
    assert [each["columns"] for each in stamp_of(graph)["inputs"]] == [["x0", "x1", "x2", "x3"]]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.from_pandas])
@pytest.mark.parametrize("in_table", [False, True])
def test_columns_of_numbers_and_text_are_inputs_by_name(in_table, frame):
    table, new = frame(mixed()), frame(mixed(seed=3).replace({"kind": {"low": "never seen"}}))
    model = TableClassifier(SAREMClassifier(), preparation=by_column())
    model = fit_and_draw(model if in_table else make_pipeline(by_column(), SAREMClassifier()), table)
    graph = scarless.to_onnx(model, X=table)
    asked = {each["name"]: (each["kind"], each["missing"]) for each in stamp_of(graph)["inputs"]}
    number = ("number", "NaN")
    assert asked == {"a": number, "kind": ("text", None), "b": number, "sick": number}
    assert_same(ask(graph, feeds_of(graph, new)), ours(model, new), 1e-10)


def test_whole_numbers_with_gaps_are_numbers_and_dates_are_refused_by_name():
    table = mixed().astype({"sick": "Int64"})
    table.loc[::5, "sick"] = None
    steps = make_column_transformer((SimpleImputer(), ["a", "sick"]), (StandardScaler(), ["b"]))
    model = fit_and_draw(make_pipeline(steps, SAREMClassifier()), table)
    graph = scarless.to_onnx(model, X=table)
    assert [each["kind"] for each in stamp_of(graph)["inputs"]] == ["number", "text", "number", "number"]
    assert_same(ask(graph, feeds_of(graph, table)), ours(model, table), 1e-10)
    with pytest.raises(
        ModelFileError,
        match=r"Column 'kind' of X must hold numbers or text, so that .* can be written as ONNX; it holds datetime64",
    ):
        scarless.to_onnx(model, X=table.assign(kind=pd.Timestamp("2020-01-01")))


def test_columns_of_one_type_need_no_column_transformer():
    table = mixed()[["b", "sick"]]
    model = fit_and_draw(make_pipeline(StandardScaler(), SAREMClassifier()), table)
    graph = scarless.to_onnx(model, X=table)
    assert_same(ask(graph, feeds_of(graph, table)), ours(model, table), 1e-10)
    words = mixed()[["kind"]].assign(other=mixed(seed=5)["kind"])
    model = fit_and_draw(make_pipeline(OneHotEncoder(sparse_output=False), SAREMClassifier()), words)
    graph = scarless.to_onnx(model, X=words)
    assert_same(ask(graph, feeds_of(graph, words)), ours(model, words), 1e-12)


@pytest.mark.parametrize("n", [0, 1])
def test_tables_of_no_row_and_of_one(n):
    model = fit_and_draw(make_pipeline(*STEPS["gaps told"](), SAREMClassifier()), numbers(gaps=True))
    found = ask(scarless.to_onnx(model), {"X": numbers()[:n]})
    assert {name: each.shape for name, each in found.items()} == dict.fromkeys(found, (n,))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (PolynomialFeatures(2), "skl2onnx cannot convert these steps in double precision: "),
        (FunctionTransformer(np.log), "double precision: RuntimeError: FunctionTransformer is not supported"),
        (
            SimpleImputer(missing_values=-1.0),
            "ValueError: SimpleImputer must have numbers, missing_values=nan and no empty column. Steps that "
            "read text, "
            "or columns by name, need rows of the table: to_onnx(model, X=table). Otherwise use other steps, or store "
            "the model with scarless.save.",
        ),
    ],
)
def test_steps_that_cannot_be_converted_are_refused(step, message):
    model = fit_and_draw(make_pipeline(step, SAREMClassifier()), numbers())
    with pytest.raises(ModelFileError) as error:
        scarless.to_onnx(model, X=numbers())
    assert message in str(error.value)


class Silent(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X

    def __sklearn_is_fitted__(self):
        return True


def test_a_step_without_a_number_of_columns_is_refused():
    model = fit_and_draw(make_pipeline(Silent(), SAREMClassifier()), numbers())
    with pytest.raises(ModelFileError, match="Silent has no attribute n_features_in_, the number of its columns"):
        scarless.to_onnx(model)


def test_columns_by_name_need_rows_to_say_what_they_hold():
    model = fit_and_draw(make_pipeline(by_column(), SAREMClassifier()), mixed())
    with pytest.raises(ModelFileError, match=r"Unable to find column name 'a'.* need rows of the table: to_onnx\("):
        scarless.to_onnx(model)
    for wrong in (3, mixed()["a"], mixed().drop(columns="a"), [[1.0]], sparse.eye_array(4)):
        with pytest.raises(
            ModelFileError, match="X must be a data frame or a dense array with the 4 columns of the fit; got "
        ):
            scarless.to_onnx(model, X=wrong)


def test_numbers_and_text_for_one_step_are_refused():
    table = mixed()[["kind", "sick"]].astype({"sick": int})
    model = fit_and_draw(make_pipeline(OneHotEncoder(sparse_output=False), SAREMClassifier()), table)
    with pytest.raises(
        ModelFileError, match=r"OneHotEncoder reads columns of numbers and of text together, .* Put a ColumnTransformer"
    ):
        scarless.to_onnx(model, X=table)


def test_a_graph_with_different_predictions_is_refused():
    """skl2onnx truncates categories that are numbers to integers; in the model, 1.5 is a new category."""
    X = np.random.default_rng(0).integers(0, 4, (200, 2)).astype(float)
    model = fit_and_draw(make_pipeline(OneHotEncoder(handle_unknown="ignore"), SAREMClassifier()), X)
    new = X.copy()
    scarless.to_onnx(model, X=new)
    new[7, 0] = 1.5
    said = r"skl2onnx's conversion of these steps predicts different probabilities: 0\.\d+ for row 7 of X"
    with pytest.raises(ModelFileError, match=said):
        scarless.to_onnx(model, X=new)


def test_text_is_not_filled_and_not_cut_into_words():
    table = mixed()
    for step, columns, message in (
        (
            SimpleImputer(strategy="most_frequent"),
            ["kind"],
            "SimpleImputer must have numbers, missing_values",
        ),
        (TfidfVectorizer(), "kind", r"The steps need operators of com.microsoft, which not every runtime has\."),
    ):
        kinds = OneHotEncoder(sparse_output=False) if isinstance(columns, list) else "passthrough"
        model = fit_and_draw(make_pipeline(make_column_transformer((step, columns)), kinds, SAREMClassifier()), table)
        with pytest.raises(ModelFileError, match=message):
            scarless.to_onnx(model, X=table)


def test_a_graph_that_cannot_be_run_is_refused(monkeypatch):
    def run(*_):
        raise TypeError("no such operator")

    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", run)
    model = fit_and_draw(make_pipeline(StandardScaler(), SAREMClassifier()), numbers())
    with pytest.raises(
        ModelFileError, match=r"cannot be run on rows of X: TypeError: no such operator\. Fill missing texts"
    ):
        scarless.to_onnx(model, X=numbers())


def test_without_skl2onnx_the_extra_is_named(monkeypatch):
    model = fit_and_draw(make_pipeline(StandardScaler(), SAREMClassifier()), numbers())
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r'Writing a model as ONNX needs skl2onnx: pip install "scarless\[onnx\]"'):
        scarless.to_onnx(model)
