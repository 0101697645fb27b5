"""`TableClassifier` gives the same results as its classifier on a table that is prepared by hand."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.raw.table_classifier import finish_fit, start_fit, with_prepared


def make_table(n=900, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n),
            "age_group": rng.choice(["young", "old"], n),
            "visits": rng.poisson(3, n),
            "insurance": rng.choice(["none", "basic", "full"], n),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    f = 1 / (1 + np.exp(-(table["age"] - 50) / 5))
    e = table["insurance"].map({"none": 0.2, "basic": 0.5, "full": 0.9})
    s = ((rng.random(n) < f) & (rng.random(n) < e)).astype(int)
    table.loc[::9, "age"] = np.nan
    table.loc[::7, "insurance"] = None
    return table, s.to_numpy()


@pytest.fixture(scope="module")
def data():
    return make_table()


@pytest.fixture(scope="module")
def model(data):
    return TableClassifier(SAREMClassifier(propensity_attributes=["insurance", "visits"])).fit(*data)


def test_it_is_the_classifier_on_the_prepared_table(data, model):
    table, s = data
    prepared = model.prepare(table)
    columns = [name for name in prepared if name.startswith("insurance_") or name == "visits"]
    by_hand = SAREMClassifier(propensity_attributes=columns).fit(prepared, s)
    assert model.class_prior_ == by_hand.class_prior_
    assert model.label_frequency_ == by_hand.label_frequency_
    for call in ("predict_proba", "predict", "predict_propensity", "predict_proba_interval"):
        np.testing.assert_array_equal(getattr(model, call)(table), getattr(by_hand, call)(prepared))
    np.testing.assert_array_equal(
        model.predict_propensity_interval(table), by_hand.predict_propensity_interval(prepared)
    )
    for call in ("predict_posterior", "predict_posterior_interval", "score"):
        np.testing.assert_array_equal(getattr(model, call)(table, s), getattr(by_hand, call)(prepared, s))
    for call in ("class_prior_interval", "label_frequency_interval"):
        assert str(getattr(model, call)(level=0.9)) == str(getattr(by_hand, call)(level=0.9))


def test_the_summary_is_in_raw_columns_and_units(data, model):
    found = model.summary()
    frame, prepared = found.to_frame(), model.estimator_.summary().to_frame()
    names = [each.label for each in model.origins_]
    assert {"age", "insurance = basic", "year of seen"} <= set(names)
    assert list(frame.loc["classifier"].index) == [*names, "intercept"]
    units = [*(each.unit for each in model.origins_), 1.0]
    np.testing.assert_allclose(frame.loc["classifier", "coef"] * units, prepared.loc["classifier", "coef"])
    np.testing.assert_array_equal(frame["p_value"], prepared["p_value"])
    ratios = found.odds_ratios()
    assert "intercept" not in ratios.index.get_level_values("attribute")
    assert ratios.loc[("classifier", "age"), "odds_ratio"] == pytest.approx(
        np.exp(frame.loc[("classifier", "age"), "coef"])
    )
    raw = data[0].assign(age=data[0]["age"] + 1.0)
    steps = [model.predict_proba(table.dropna(subset=["age"]))[:, 1] for table in (data[0], raw)]
    odds = [p / (1 - p) for p in steps]  # one more year multiplies the odds by this ratio
    np.testing.assert_allclose(odds[1] / odds[0], ratios.loc[("classifier", "age"), "odds_ratio"], rtol=1e-5)
    page = found.to_html()
    assert page.startswith("<!DOCTYPE html>")
    assert "age_group = young" in page


def test_columns_that_cannot_be_traced_keep_their_prepared_names(data):
    table, s = data
    numbers = table[["visits"]].assign(age=table["age"].fillna(50.0))
    model = TableClassifier(SAREMClassifier(propensity_attributes=["visits"]), preparation=PowerTransformer()).fit(
        numbers, s
    )
    assert list(model.summary().blocks[0].names) == ["x0 (prepared)", "x1 (prepared)", "intercept"]


def test_a_raw_name_selects_only_its_own_columns(model):
    seen = {model.origins_[j].label for j in np.flatnonzero(model.estimator_.propensity_coef_[0])}
    assert seen == {"visits", *(f"insurance = {level}" for level in ("(none)", "basic", "full", "nan"))}
    assert [model.origins_[j].piece for j in model.columns_of("age_group")] == ["young"]
    assert [model.origins_[j].piece for j in model.columns_of("age")] == ["", "missing"]


SELECTIONS = [3, [-2], slice("insurance", "insurance"), [False] * 3 + [True, False], lambda X: ["insurance"]]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_selections_are_read_against_the_raw_table(data, selection):
    few = [each[:300] for each in data]
    one, other = (
        TableClassifier(SAREMClassifier(propensity_attributes=each)).fit(*few) for each in (selection, "insurance")
    )
    np.testing.assert_array_equal(one.estimator_.propensity_coef_, other.estimator_.propensity_coef_)


@pytest.mark.parametrize("sets", [{"few": ["age", "visits"], "all": slice(None)}, [["age"], ["visits", "insurance"]]])
def test_attribute_sets_name_raw_columns(data, sets):
    search = SAREMClassifierCV(propensity_attributes=["insurance"], attribute_sets=sets, Cs=[1.0], cv=2, random_state=0)
    model = TableClassifier(search).fit(*data)
    first = next(iter(sets.values())) if isinstance(sets, dict) else sets[0]
    given = model.estimator_.attribute_sets
    columns = next(iter(given.values())) if isinstance(sets, dict) else given[0]
    assert {model.origins_[j].column for j in columns} == set(first)
    assert model.estimator.attribute_sets is sets  # parameters are not changed


@pytest.mark.parametrize("sets", [[None], {"chosen": None}, ["all"]])
def test_an_attribute_set_of_none_or_all_selects_all_columns(data, sets):
    options = {"propensity_attributes": ["insurance"], "Cs": [1.0], "cv": 2, "random_state": 0}
    every = [list(data[0].columns)]
    one, other = (
        TableClassifier(SAREMClassifierCV(**options, attribute_sets=each)).fit(*data) for each in (sets, every)
    )
    np.testing.assert_array_equal(one.estimator_.coef_, other.estimator_.coef_)


def test_frames_of_polars_give_the_same(data, model):
    table, s = data
    other = clone(model).fit(pl.from_pandas(table), s)
    np.testing.assert_allclose(other.predict_proba(pl.from_pandas(table)), model.predict_proba(table), atol=1e-6)
    with pytest.warns(
        UserWarning, match="Column 'age' of the fit is not in this table. Its values are treated as missing"
    ):
        other.predict_proba(pl.from_pandas(table.drop(columns="age")))


def test_frames_of_polars_with_numbers_text_and_dates_only():
    table, s = make_table(300)
    frame = pl.from_pandas(table[["visits", "insurance", "seen"]])
    model = TableClassifier(SAREMClassifier(propensity_attributes=["insurance"])).fit(frame, s)
    assert {each.column for each in model.origins_} == {"visits", "insurance", "seen"}


def test_column_order_and_additional_columns_do_not_matter(data, model):
    table, _ = data
    other = table[list(table)[::-1]].assign(more=1.0)
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(table))


def test_an_absent_column_is_treated_as_missing_with_a_warning(data, model):
    table, _ = data
    with pytest.warns(UserWarning, match="Columns 'age', 'visits' of the fit are not in this table"):
        found = model.predict_proba(table.drop(columns=["visits", "age"]))
    empty = table.assign(age=np.nan, visits=np.nan)
    np.testing.assert_array_equal(found, model.predict_proba(empty))
    with pytest.raises(ValueError, match=r"X has no column of the fit. The fit had age, age_group"):
        model.predict_proba(pd.DataFrame({"other": [1.0]}))


def test_a_wrapped_pipeline_has_the_methods_of_its_classifier(data):
    table, s = data
    table = table.dropna()
    s = s[table.index]
    steps = make_column_transformer(
        (StandardScaler(), ["age", "visits"]), (OneHotEncoder(sparse_output=False), ["insurance"])
    ).set_output(transform="pandas")
    pipeline = make_pipeline(steps, SAREMClassifier(propensity_attributes=["insurance"])).fit(table, s)
    model = TableClassifier.from_pipeline(pipeline)
    np.testing.assert_array_equal(model.predict_proba(table), pipeline.predict_proba(table))
    prepared = pipeline[:-1].transform(table)
    np.testing.assert_array_equal(model.predict_posterior(table, s), pipeline[-1].predict_posterior(prepared, s))
    assert model.class_prior_ == pipeline[-1].class_prior_
    assert [each.label for each in model.origins_][:3] == ["age", "visits", "insurance = basic"]
    with pytest.raises(TypeError, match="must be a scikit-learn Pipeline; got SAREMClassifier"):
        TableClassifier.from_pipeline(pipeline[-1])
    with pytest.raises(NotFittedError):
        TableClassifier.from_pipeline(clone(pipeline))


@pytest.mark.parametrize(
    "inner",
    [
        SARStackingClassifier([("logistic", None)], propensity_attributes=["insurance"], cv=2, random_state=0),
        StratifiedSCARClassifier(propensity_attributes=["age_group"]),
        NaiveClassifier(),
    ],
)
def test_other_classifiers_of_the_package(data, inner):
    table, s = data
    model = TableClassifier(inner).fit(table, s, sample_weight=np.ones(len(s)))
    p = model.predict_proba(table)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert hasattr(model, "predict_propensity") == hasattr(inner, "predict_propensity")


def test_known_propensities_reach_the_fit(data):
    table, s = data
    model = TableClassifier(PropensityWeightedClassifier(method="likelihood")).fit(
        table, s, propensity=np.full(len(s), 0.5)
    )
    prepared = model.prepare(table)
    by_hand = PropensityWeightedClassifier(method="likelihood").fit(prepared, s, propensity=np.full(len(s), 0.5))
    np.testing.assert_array_equal(model.predict_proba(table), by_hand.predict_proba(prepared))


def test_arrays_are_tables_without_names(data):
    table, s = data
    numbers = table[["visits"]].assign(age=table["age"]).to_numpy(dtype=float)
    model = TableClassifier(SAREMClassifier(propensity_attributes=[0])).fit(numbers, s)
    assert [each.label for each in model.origins_] == ["x0", "x1", "x1 = missing"]
    assert model.predict_proba(numbers).shape == (len(s), 2)
    with pytest.raises(
        TypeError, match="must be a data frame or a dense array for the default preparation; got a sparse matrix"
    ):
        TableClassifier().fit(sparse.csr_array(np.nan_to_num(numbers)), s)
    with pytest.raises(ValueError, match=r"X must be a table with rows and columns; got an array of shape \(3,\)"):
        TableClassifier().fit([1, 2, 3], [0, 1, 0])


def test_refusals(data, model):
    table, s = data
    with pytest.raises(TypeError, match=r"estimator must be a classifier of this package, such as SAREMClassifierCV"):
        TableClassifier(PCA()).fit(table, s)
    with pytest.raises(ValueError, match="propensity was passed, but SAREMClassifier has estimated it"):
        model.predict_posterior(table, s, propensity=np.full(len(s), 0.5))
    with pytest.raises(ValueError, match=r"must have a name; the column at position 1 \(counted from 0\) has none"):
        TableClassifier().fit(table.set_axis([table.columns[0], None, *table.columns[2:]], axis=1), s)
    with pytest.raises(ValueError, match="Used more than once: 'age'"):
        TableClassifier().fit(pd.concat([table, table[["age"]]], axis=1), s)
    for cell, kind in (({}, "dict"), ([1, 2], "list"), (np.ones(2), "ndarray")):
        nested = table.assign(odd=pd.Series([1, cell, *[2] * (len(s) - 2)], dtype=object))
        with pytest.raises(
            ValueError, match=rf"Column 'odd' holds a {kind} in row 2 \(counted from 1\)\. Cells must be"
        ):
            TableClassifier().fit(nested, s)
    with pytest.raises(TypeError, match=r"X is a LazyFrame, a query that has not been run yet\. Pass X\.collect"):
        TableClassifier().fit(pl.from_pandas(table[["age"]]).lazy(), s)
    with pytest.raises(ValueError, match="Used more than once: 'age'"):
        model.predict(pd.concat([table, table[["age"]]], axis=1))
    with pytest.raises(ValueError, match=r"must have a name; the column at position 0 \(counted from 0\) has none"):
        model.prepare(table.set_axis([None] * table.shape[1], axis=1))
    with pytest.raises(ValueError, match=r"selects columns that the preparation dropped: 'same'"):
        TableClassifier(SAREMClassifier(propensity_attributes=["same"])).fit(table.assign(same=1.0), s)
    numbers = table[["visits"]].assign(other=1.0 * s)
    with pytest.raises(ValueError, match="the columns that this preparation derives from them cannot be traced"):
        TableClassifier(SAREMClassifier(propensity_attributes=["visits"]), preparation=PCA(1)).fit(numbers, s)
    with pytest.raises(ValueError, match="Did you mean 'insurance'"):
        TableClassifier(SAREMClassifier(propensity_attributes=["insurence"])).fit(table, s)
    with pytest.raises(NotFittedError):
        TableClassifier().predict_proba(table)


def numbered(names=(0, 1, 2), n=600):
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=n), rng.normal(size=n), rng.choice(["a", "b"], n).astype(object)]
    table = pd.DataFrame(dict(zip(names, columns, strict=True)))
    y = rng.random(n) < 1 / (1 + np.exp(-2 * columns[0]))
    return table, (y & (rng.random(n) < 1 / (1 + np.exp(-2 * columns[1])))).astype(int)


@pytest.mark.parametrize("odd", [False, True], ids=["text", "numbers with an odd cell"])
def test_columns_named_by_numbers_are_those_named_by_their_texts(odd):
    table, s = numbered()
    if odd:
        table[2] = table[0].round(2).astype(str).astype(object)
        table.loc[5, 2] = "oops"
    found = []
    for given in (table, table.rename(columns=str)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = TableClassifier(SAREMClassifier(propensity_attributes=[1])).fit(given, s)
            found.append((model.predict_proba(given), [each.label for each in model.origins_]))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert list(model.feature_names_in_) == ["0", "1", "2"]


def test_a_number_that_is_a_name_and_the_position_of_another_column_warns():
    table, s = numbered((1, 0, 2))
    with pytest.warns(UserWarning, match=r"propensity_attributes: the number 1 is a position"):
        model = TableClassifier(SAREMClassifier(propensity_attributes=[1])).fit(table, s)
    assert [model.origins_[j].column for j in np.flatnonzero(model.estimator_.propensity_coef_[0])] == ["0"]
    with pytest.raises(ValueError, match="Used more than once: '1'"):
        TableClassifier(SAREMClassifier()).fit(table.rename(columns={0: "1"}), s)


def test_a_fit_gives_the_prepared_table_which_need_not_be_prepared_again(data, monkeypatch):
    table, s = data
    started = start_fit(NaiveClassifier(), table, s)
    model, prepared = finish_fit(started, NaiveClassifier(), s), started.prepared
    assert prepared.equals(model.prepare(table))
    known = with_prepared(model, table, prepared)
    monkeypatch.setattr(type(known.preparation_), "transform", lambda *_: pytest.fail("it was prepared again"))
    np.testing.assert_array_equal(known.predict_proba(table), known.estimator_.predict_proba(prepared))


def test_the_coding_of_labels_is_that_of_the_fit(data):
    table, s = data
    words = np.where(np.asarray(s) == 1, "case", "control")
    model = TableClassifier(NaiveClassifier(pos_label="case"))
    assert not hasattr(model, "label_coding_")
    coding = model.fit(table, words).label_coding_
    assert coding.classes[coding.positive] == "case"
    assert coding is model.estimator_.label_coding_


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.DataFrame({"a": [1.0, 2.0], "b": [1j, 2.0]}), "column 'b' has complex numbers"),
        (np.array([[1j], [2.0]]), "the table has complex numbers"),
        ([[1.0, 2.0], [3.0]], "X must be a table with rows of equal length. NumPy cannot convert it"),
    ],
    ids=["frame", "array", "ragged"],
)
def test_tables_that_are_not_real_numbers_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        TableClassifier(NaiveClassifier()).fit(X, [0, 1])


@pytest.mark.parametrize("preparation", [[], StandardScaler, "scale"], ids=["list", "class", "word"])
def test_a_preparation_must_be_a_transformer(data, preparation):
    with pytest.raises(ValueError, match=r"preparation must be None, 'passthrough', or a transformer with fit_trans"):
        TableClassifier(NaiveClassifier(), preparation=preparation).fit(*data)


def test_one_weight_is_the_weight_of_every_row(data):
    table, s = data
    one, each = (
        TableClassifier(NaiveClassifier()).fit(table, s, sample_weight=w) for w in (np.array(2.0), np.full(len(s), 2.0))
    )
    np.testing.assert_allclose(one._mean, each._mean)


def test_names_of_two_levels_are_explained_with_their_values(data):
    table, s = data
    numbers = table[["age", "visits"]].fillna(50.0)
    numbers.columns = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    found = TableClassifier(NaiveClassifier()).fit(numbers, s).explain(numbers.iloc[:3])
    assert set(found["column"]) == {"('a', 1)", "('b', 2)"}
    assert found["value"].notna().all()


def test_a_decision_that_is_a_table_is_refused(data, model):
    with pytest.raises((ValueError, TypeError), match="decision"):
        model.predict(data[0], decision=pd.DataFrame({"a": [1.0]}))


def test_a_fit_to_polars_and_rows_in_pandas_do_not_go_together(data):
    table, s = data
    table = table[["age"]]
    model = TableClassifier(SAREMClassifier()).fit(pl.from_pandas(table), s)
    with pytest.raises(TypeError, match=r"X is a pandas data frame, but the fit had a data frame of another library"):
        model.predict(table)


@pytest.mark.filterwarnings("ignore")
def test_rows_that_cannot_be_scaled_are_refused():
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    model = TableClassifier(SAREMClassifier(propensity_attributes=[1])).fit((X * 1e-40).astype(np.float32), s)
    with pytest.raises(ValueError, match=r"so far outside the range of the fit that they cannot be scaled\. Check the"):
        model.predict_proba(X)


def test_sparse_columns_of_a_data_frame_are_read_like_dense_columns(data):
    table, s = data
    dense = table.select_dtypes("number").fillna(0.0)
    thin = dense.astype(pd.SparseDtype("float64", 0.0))
    models = [TableClassifier(SAREMClassifier(propensity_attributes=[dense.columns[0]])) for _ in range(2)]
    expected, found = (
        model.fit(each, s).predict_proba(each) for model, each in zip(models, (dense, thin), strict=True)
    )
    np.testing.assert_array_equal(found, expected)
