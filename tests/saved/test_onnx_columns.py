"""Raw tables with the default preparation: the graph reads every kind of column as the model does."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from tests.saved.asking import ask, assert_same, feeds_of, fit_and_draw, ours, stamp_of

import scarless
from scarless import SAREMClassifier, TableClassifier
from scarless.raw.preparation import table_preparation
from scarless.saved import ModelFileError
from scarless.saved.onnx_columns import _add_scale, _rounds_first
from scarless.saved.onnx_graph import Graph, GraphInput

skrub = pytest.importorskip("skrub", reason="skrub is an extra")
SECONDS = hasattr(skrub, "DurationToFloat")  # older versions read a duration as its stored number
WORDS = ["none", "None", "full", "half", None, "", "  ", "\t\u00a0", "NA", "?", "null", "n/a"]


def make_table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    gaps = rng.random((3, n)) < 0.1
    hours = pd.to_timedelta(np.random.default_rng(seed + 100).integers(0, 90, n), unit="h")
    return pd.DataFrame(
        {
            "age": np.where(gaps[0], np.nan, rng.normal(50, 10, n)),
            "income": rng.lognormal(0, 2, n),
            "savings": np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(3, 2, n)),
            "visits": rng.integers(0, 9, n),
            "sex": rng.choice(["m", "f"], n),
            "insurance": rng.choice(np.array(WORDS, dtype=object), n),
            "smokes": rng.random(n) < 0.5,
            "fit": pd.array(np.where(gaps[1], None, rng.random(n) < 0.5), dtype="boolean"),
            "children": pd.array(np.where(gaps[2], None, rng.integers(0, 4, n)), dtype="Int64"),
            "ward": pd.Categorical(rng.choice(["a", "none", "NA"], n)),  # NA is a category here, not a missing value
            "room": pd.Categorical(rng.choice(["(none)", "b", "c"], n)),
            "code": rng.choice(["1.5", "2", "?", "3e2"], n),
            "stay": hours if SECONDS else hours.total_seconds(),
            "since": pd.Timestamp("1900-01-01") + pd.to_timedelta(rng.integers(0, 45_000, n), "D"),
            "seen": [f"{y}-0{m}-1{d}" if m else None for y, m, d in rng.integers([2000, 0, 0], [2020, 9, 9], (n, 3))],
            "one": 1.0,
            "nothing": np.nan,
        }
    )


def fit(table, preparation=None):
    return fit_and_draw(TableClassifier(SAREMClassifier(), preparation=preparation), table)


@pytest.fixture(scope="module")
def model():
    return fit(make_table())


@pytest.fixture(scope="module")
def graph(model):
    return scarless.to_onnx(model)


@pytest.mark.filterwarnings("ignore:.* rows have a value of .* that is far from all values:UserWarning")
@pytest.mark.parametrize("seed", [1, 2])
def test_new_rows_of_a_raw_table_get_the_same_predictions(model, graph, seed):
    new = make_table(600, seed)
    new.loc[new.index[::50], "insurance"] = "never seen"
    new.loc[new.index[::40], ["income", "savings", "visits", "sex", "stay", "since"]] = None
    new.loc[new.index[::30], ["income", "savings", "age"]] = 1e9
    new.loc[new.index[::29], ["income", "savings"]] = -3.0  # below the minimum in the fit
    assert_same(ask(graph, feeds_of(graph, new)), ours(model, new), 1e-6)


def test_the_graph_rounds_like_the_model(graph, model):
    """Everything except logarithms is rounded at the same step as in the model."""
    new = make_table(600, 3).assign(income=1.0, savings=0.0)
    assert_same(ask(graph, feeds_of(graph, new)), ours(model, new), 1e-13)


def test_every_text_is_read_as_in_the_model(graph, model):
    words = [*WORDS, "never seen", "none ", "(none)", "a\nb", "\n", "\u2028\x1f\x0b\x85", "Ünicode", "nan", "NULL"]
    new = make_table(len(words), 4).assign(insurance=pd.Series(words, dtype=object))
    for column in ("ward", "room"):
        new[column] = pd.Categorical([word or None for word in words])
    found, expected = ask(graph, feeds_of(graph, new)), ours(model, new)
    np.testing.assert_allclose(found["propensity"], expected["propensity"], rtol=0, atol=1e-13)


def test_dates_of_all_years():
    days = np.arange(-700_000, 2_932_896, 487).astype("datetime64[D]")  # from 0053 to 9999
    leap = np.array(["1600-02-29", "1900-02-28", "1900-03-01", "2000-02-29", "2100-03-01", "0004-02-29", "1969-12-31"])
    days = np.concatenate([days, leap.astype("datetime64[D]"), [np.datetime64("NaT")]])
    table = pd.DataFrame({"since": days.astype("datetime64[s]"), "x": np.arange(days.size) % 7})
    model = fit(table)
    assert_same(ask(graph := scarless.to_onnx(model), feeds_of(graph, table)), ours(model, table), 1e-13)


@pytest.mark.parametrize("n", [0, 1])
def test_tables_of_no_row_and_of_one(graph, n):
    found = ask(graph, feeds_of(graph, make_table(5)[:n]))
    assert {name: each.shape for name, each in found.items()} == dict.fromkeys(found, (n,))


@pytest.mark.filterwarnings("ignore:.* rows have a value of .* that is far from all values:UserWarning")
def test_extreme_rows_have_predictions_and_refused_rows_have_nan(graph, model):
    new = make_table(6)
    sizes = np.array([1e6, -1e6, 1e12, -1e12, 1e17, 1e39])
    new = new.assign(age=sizes, income=sizes, savings=sizes)
    found = ask(graph, feeds_of(graph, new))
    assert np.isnan(found["probability"]).tolist() == [False] * 4 + [True] * 2
    with pytest.raises(ValueError, match=r"Input X has the value .* Absolute values must be at most 1e\+15"):
        model.predict_proba(new[:5])
    assert_same({name: each[:4] for name, each in found.items()}, ours(model, new[:4]), 1e-6)


def test_constant_and_empty_columns_are_not_inputs(graph, model):
    asked = [each["name"] for each in stamp_of(graph)["inputs"]]
    assert asked == [name for name in model.feature_names_in_ if name not in ("one", "nothing")]


def test_the_metadata_describe_each_input(graph):
    kinds = {each["name"]: (each["kind"], each["type"], each["missing"]) for each in stamp_of(graph)["inputs"]}
    assert {kinds[name] for name in ("age", "visits", "smokes", "fit", "children", "code")} == {
        ("number", "double", "NaN")
    }
    assert {kinds[name] for name in ("sex", "insurance", "ward", "room")} == {("text", "string", "")}
    assert {kinds[name] for name in ("since", "seen")} == {("date", "int64", str(-(2**63)))}
    assert kinds["stay"] == ("duration" if SECONDS else "number", "double", "NaN")
    assert stamp_of(graph)["preparation"] == ["KeepNone", "TableColumns", "SimpleImputer", "StandardScaler"]


def test_pandas_and_polars_make_the_same_graph():
    table = make_table()[["sex", "insurance", "age", "income", "smokes", "since", "one"]]
    table["since"] = table["since"].astype("datetime64[us]")
    one, other = fit(table), fit(pl.from_pandas(table))
    assert scarless.to_onnx(one) == scarless.to_onnx(other)


def test_the_preparation_in_a_pipeline_is_the_same():
    table = make_table()[["sex", "ward", "age", "one"]]
    pipeline = fit_and_draw(make_pipeline(table_preparation(drop="first"), SAREMClassifier()), table)
    graph = scarless.to_onnx(pipeline)
    assert_same(ask(graph, feeds_of(graph, table)), ours(pipeline, table), 1e-13)


def test_without_keep_none_the_word_none_is_missing():
    table = make_table()[["insurance", "age"]]
    steps = [step for name, step in table_preparation().steps if name != "words"]
    pipeline = fit_and_draw(make_pipeline(*steps, SAREMClassifier()), table)
    graph = scarless.to_onnx(pipeline)
    assert_same(ask(graph, feeds_of(graph, table)), ours(pipeline, table), 1e-13)


class LateRounding(StandardScaler):
    """A scaler that uses means in double precision and rounds the results to single precision."""

    def transform(self, X):
        X = np.array(X, dtype=np.float32)
        X -= self.mean_
        X /= self.scale_
        return X


@pytest.mark.parametrize("kind", [StandardScaler, LateRounding])
def test_scaling_rounds_where_scikit_learn_does(kind):
    X = np.random.default_rng(0).normal(2020.3, 0.7, (200, 3)).astype(np.float32)
    scaler = kind().fit(X)
    graph = Graph()
    x = graph.cast(graph.input(GraphInput("X", "numbers", "double", None, "", ("a", "b", "c"))), "float")
    total = graph.add("ReduceSum", graph.cast(_add_scale(graph, x, scaler), "double"), np.array([1]), keepdims=0)
    graph.output(total, "probability", "double", "")
    found = ask(graph.model("", {}), {"X": X.astype(float)})["probability"]
    assert np.array_equal(found, scaler.transform(X).astype(float).sum(axis=1))
    assert not (kind is LateRounding and _rounds_first(scaler))


def vectoriser(**options):
    """Return the preparation with skrub's vectoriser for all columns, as in models of earlier versions."""
    steps = dict(table_preparation().steps)
    return Pipeline([*list(steps.items())[:1], ("columns", steps["columns"].vectoriser.set_params(**options)),
                     *list(steps.items())[2:]]).set_output(transform="pandas")  # fmt: skip


def test_skrubs_vectoriser_for_all_columns_makes_the_same_graph():
    table = make_table()
    one, other = (scarless.to_onnx(fit(table, preparation)) for preparation in (None, vectoriser()))
    assert_same(ask(one, feeds_of(one, table)), ask(other, feeds_of(other, table)), 1e-13)


def test_columns_without_a_counterpart_are_refused_by_name():
    rng = np.random.default_rng(0)
    base = make_table(60)[["sex", "age"]]
    zone = pd.Series(pd.date_range("2020-01-01", periods=60, tz="Europe/Berlin"))
    many, blank = [f"word {k}" for k in range(60)], pd.Categorical(rng.choice(["", "a", "b"], 60))
    quick = vectoriser(high_cardinality=skrub.StringEncoder(2, vectorizer="tfidf"))  # the default encoder takes seconds
    for values, message in (
        (
            many,
            r"Column 'odd' cannot be written as ONNX: it is text with many different values, .* Leave it out, "
            r"or group",
        ),
        (zone, r"Column 'odd' cannot be written as ONNX: its dates have a time zone. Convert them to dates without"),
        (blank, r"Column 'odd' .*: one of its categories is the empty string, .* Rename that category, or store the"),
    ):
        with pytest.raises(ModelFileError, match=message):
            scarless.to_onnx(fit(base.assign(odd=values), quick))


@pytest.mark.parametrize("name", ["probability", "label", "_scarless/3"])
def test_a_column_named_as_an_output_is_refused(name):
    table = make_table()[["sex", "age"]].rename(columns={"age": name})
    with pytest.raises(ModelFileError, match=f"Column '{name}' cannot be an input of the graph.*Rename the column"):
        scarless.to_onnx(fit(table))


OWN = "Use the default preparation, or store the model with scarless.save."


@pytest.mark.parametrize(
    ("preparation", "message"),
    [
        (lambda: vectoriser(numeric=StandardScaler()), f"'age' .*: StandardScaler is not supported. {OWN}"),
        (
            lambda: vectoriser(numeric=make_pipeline(SimpleImputer(), StandardScaler())),
            f"'age' .*: its numbers are prepared by SimpleImputer, StandardScaler. {OWN}",
        ),
        (
            lambda: vectoriser(low_cardinality=OneHotEncoder(sparse_output=False, max_categories=2)),
            f"'sex' .*: its OneHotEncoder merges rare categories, or refuses new ones. {OWN}",
        ),
        (
            lambda: vectoriser(low_cardinality=OrdinalEncoder()),
            r"'sex' .*ONNX: OrdinalEncoder is not supported. "
            r"Use the default",
        ),
        (
            lambda: vectoriser(datetime=skrub.DatetimeEncoder(resolution="hour")),
            f"'since' .*: its date encoder creates columns other than year, month and day. {OWN}",
        ),
        (
            lambda: vectoriser(specific_transformers=[(StandardScaler(), ["age"])]),
            r"This preparation of raw tables cannot be written as ONNX: KeepNone, TableVectorizer, SimpleImputer, "
            r"StandardScaler. Use the default preparation \(TableClassifier without `preparation`",
        ),
        (
            lambda: make_pipeline(table_preparation(), MinMaxScaler()),
            "This preparation of raw tables .* TableColumns, SimpleImputer, StandardScaler, MinMaxScaler. Use the",
        ),
    ],
)
def test_other_preparations_with_skrub_are_refused(preparation, message):
    table = make_table()[["sex", "age", "since"]]
    table["age"] = table["age"].fillna(50.0)
    with pytest.raises(ModelFileError, match=message):
        scarless.to_onnx(fit(table, preparation()))


def test_a_step_of_skrub_that_is_not_known_is_refused():
    model = fit(make_table()[["sex", "age"]])
    columns = model.preparation_["columns"].vectoriser_
    columns.all_processing_steps_["sex"].insert(0, SimpleNamespace(fit_transform=None))
    with pytest.raises(ModelFileError, match=r"'sex' .*ONNX: SimpleNamespace is not supported. Leave that step out"):
        scarless.to_onnx(model)
