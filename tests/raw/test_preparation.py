"""Preparation of raw tables: long tails, the word none, and text."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skrub
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import scarless
from scarless import SAREMClassifier, TableClassifier
from scarless.raw.origins import trace_origins
from scarless.raw.preparation import N_HASHED_PARTS, LongTail, WordParts, described, table_preparation
from scarless.scale import FilePreparation, ParquetRows

RNG = np.random.default_rng(0)
INCOME = RNG.lognormal(10, 1, 500)


def seen(values):
    table = pd.DataFrame({"x": values, "missing": 0.0})
    step = LongTail().fit(table)
    return dict(zip(step.get_feature_names_out(), step.transform(table).T, strict=True))


def test_a_long_tail_adds_its_logarithm():
    made = seen(INCOME)
    assert list(made) == ["x", "x_log", "missing"]
    np.testing.assert_array_equal(made["x"], INCOME)
    np.testing.assert_allclose(made["x_log"], np.log(INCOME))


def test_with_zeros_the_logarithm_begins_at_zero():
    values = np.where(np.arange(500) % 3 == 0, 0.0, INCOME)
    made = seen(values)
    np.testing.assert_allclose(made["x_log"], np.log1p(values / np.median(values[values > 0])))


@pytest.mark.parametrize(
    "values",
    [RNG.normal(50, 10, 500), INCOME - INCOME.mean(), RNG.poisson(3, 500), np.repeat(INCOME[:20], 25), np.ones(500)],
    ids=["symmetric", "negative", "counts", "few values", "constant"],
)
def test_other_columns_pass_as_they_are(values):
    assert list(seen(values)) == ["x", "missing"]


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5))
@settings(max_examples=50)
def test_new_values_below_all_that_were_seen_are_finite(new):
    step = LongTail().fit(pd.DataFrame({"x": INCOME}))
    made = step.transform(pd.DataFrame({"x": new}))
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made[:, 1], np.log(np.maximum(new, INCOME.min())))


def test_the_logarithm_is_traced_through_the_preparation():
    table = pd.DataFrame({"income": INCOME, "age": RNG.normal(50, 10, 500)})
    table.loc[::7, "income"] = np.nan
    step = table_preparation()
    made = step.fit_transform(table)
    labels = [each.label for each in trace_origins(step, table.columns, made.shape[1])]
    assert labels == ["income", "log of income", "income = missing", "age"]


@pytest.mark.parametrize(
    "effect", [lambda x: 1.2 * (np.log(x) - 10), lambda x: x / 30_000 - 0.5], ids=["log", "linear"]
)
def test_effects_of_either_form_are_found(effect):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"income": rng.lognormal(10, 1, 6000), "audits": rng.poisson(1, 6000)})
    f = 1 / (1 + np.exp(-(effect(table["income"]) - 1.0)))
    e = 1 / (1 + np.exp(-(1.5 * (table["audits"] - 1) - 0.5)))
    y = rng.random(6000) < f
    s = y & (rng.random(6000) < e)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["audits"], n_starts=5, random_state=0)).fit(table, s)
    low, high = model.class_prior_interval()
    assert low < y.mean() < high
    assert np.mean((model.predict_proba(table)[:, 1] - f) ** 2) < 0.01


def remarks(n=600):
    rng = np.random.default_rng(3)
    words = [f"{a}{b}{c}" for a in ("eng", "bir", "fue", "smo") for b in ("ine", "ds", "el") for c in ("", "s", "less")]
    return [" ".join(rng.choice(words, 6)) for _ in range(n)]


def test_text_becomes_the_columns_of_skrubs_encoder_at_a_sixteenth_of_its_width():
    text = pd.Series(remarks(), name="remarks")
    step = WordParts()
    made = step.fit_transform(text.to_frame())
    expected = skrub.StringEncoder(n_components=10, vectorizer="hashing", random_state=0).fit_transform(text)
    bases = [np.linalg.qr(np.asarray(each, dtype=np.float64))[0] for each in (made, expected)]
    assert np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).min() > 0.99
    assert step.tsvd_.components_.shape == (10, N_HASHED_PARTS)
    assert N_HASHED_PARTS == 2**16
    np.testing.assert_array_equal(step.transform(text.to_frame()), made)
    assert list(step.get_feature_names_out())[:2] == ["remarks_0", "remarks_1"]


def test_text_of_any_kind_of_column_is_read_alike():
    text = remarks(200)
    text[3] = None
    made = [
        WordParts().fit_transform(frame)
        for frame in (
            pd.DataFrame({"x": text}),
            pd.DataFrame({"x": pd.array(text, dtype="string")}),
            pd.DataFrame({"x": pd.Categorical(text)}),
            pl.DataFrame({"x": text}),
            pd.DataFrame({"x": [np.nan if each is None else each for each in text]}, dtype=object),
        )
    ]
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])
    np.testing.assert_array_equal(made[0][3], 0.0)


def strikes(n=800):
    """Return remarks on engines or birds, each with a unique name, and the topic of each remark."""
    rng = np.random.default_rng(5)
    engine = rng.random(n) < 0.5
    about = np.where(engine, "engine ingested one", "small bird near wing")
    when = rng.choice(["climb", "approach", "landing"], n)
    remarks = [f"{a} during {b}, said Captain{k}" for k, (a, b) in enumerate(zip(about, when, strict=True))]
    return pd.DataFrame({"remarks": remarks}), engine


def test_columns_of_text_are_named_by_the_words_that_go_with_them():
    table, engine = strikes()
    step = WordParts()
    made = step.fit_transform(table)
    np.testing.assert_allclose(step.transform(table), made, atol=1e-6)
    k = int(np.argmax([abs(np.corrcoef(column, engine)[0, 1]) for column in made.T]))
    sides = step.words_[k].removesuffix(f" (words {k + 1})").split(" rather than ")
    if np.corrcoef(made[:, k], engine)[0, 1] < 0:
        sides.reverse()
    assert set(sides[0].split(", ")) <= {"'engine'", "'ingested'", "'one'"}
    assert set(sides[1].split(", ")) <= {"'small'", "'bird'", "'near'", "'wing'"}
    assert len(set(step.words_)) == 10
    assert max(map(len, step.words_)) < 120
    for column, said in zip(made.T, step.words_, strict=True):
        if said.startswith("'"):  # the first word has a positive correlation
            word = said[1:].split("'")[0].rstrip("…")
            there = table["remarks"].str.lower().str.contains(word).to_numpy()
            assert column[there].mean() > column[~there].mean()


def test_words_of_few_rows_are_not_named_and_codes_are_named_by_their_parts():
    table, _ = strikes()
    assert not any("captain" in said for said in WordParts().fit(table).words_)
    rng = np.random.default_rng(0)
    codes = [f"ward{rng.choice(['north', 'south'])}{k}" for k in range(300)]  # no word occurs twice
    said = WordParts().fit(pd.DataFrame({"code": codes})).words_
    parts = [part for each in said for part in each.split("'")[1::2]]
    assert any(part in place for part in parts for place in ("wardnorth", "wardsouth"))
    few = WordParts().fit(pd.DataFrame({"code": list("abcdefghijkl")})).words_
    assert few == [f"words {k + 1}" for k in range(len(few))]


def test_long_words_are_cut_and_columns_of_the_same_words_told_apart():
    word = "x" * 50
    said = WordParts().fit(pd.DataFrame({"a": [f"{word} {k}" if k % 2 else f"{k}" for k in range(100)]})).words_
    assert len(set(said)) == len(said)
    assert any("xxx…'" in each for each in said)
    assert not any("x" * 20 in each for each in said)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_new_categories_and_gaps_of_new_rows_are_reported(frame):
    """scikit-learn's warning names neither the column nor the category."""
    fitted = {"sex": ["f", "m"] * 10, "ward": ["a", "none", "?", "c"] * 5, "age": [1.0, 2.0, 3.0, 4.0] * 5}
    preparation = table_preparation().fit(frame(fitted))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        preparation.transform(frame(fitted))
        assert not caught
        preparation.transform(frame({"sex": ["x", None, "f"], "ward": ["b", "NA", "none"], "age": [1.0, 2.0, 9.0]}))
    assert [str(each.message) for each in caught] == [
        "Column 'sex' has 1 category that was not in the fit ('x'). A row with a new category is treated like a row "
        "with 'f'.",
        "Column 'sex' has 1 empty cell, but had none in the fit. A row with an empty cell is treated like a row with "
        "'f'.",
        "Column 'ward' has 1 category that was not in the fit ('b'). A row with a new category is treated as having "
        "none of the known categories.",
    ]
    assert {each.filename for each in caught} == {__file__}


def test_a_dropped_category_none_is_called_none():
    fitted = pd.DataFrame({"insurance": ["none", "basic", "full"] * 5, "age": np.arange(15.0)})
    preparation = table_preparation(drop="first").fit(fitted)
    with pytest.warns(UserWarning, match=r"\('gold', 'silver'\).*treated like a row with 'none'\."):
        preparation.transform(fitted.assign(insurance=["gold", "silver", "full"] * 5))


def test_summary_and_file_know_the_words_of_text(tmp_path):
    table, engine = strikes()
    table["age"] = RNG.normal(50, 10, len(table))
    model = TableClassifier(SAREMClassifier(propensity_attributes=["age"]))
    chance = np.where(engine, 0.8, 0.1) / (1 + np.exp((50 - table["age"]) / 10))
    model.fit(table, (RNG.random(len(table)) < chance).astype(int))
    labels = [each.label for each in model.origins_]
    assert sum(label.startswith("remarks: '") for label in labels) >= 2
    assert any("'engine'" in label for label in labels)
    assert len(set(labels)) == len(labels)
    names = [str(name) for name in model.summary().blocks[0].names]
    assert {f"{label} (prepared)" for label in labels if label.startswith("remarks")} <= set(names)
    scarless.save(model, tmp_path / "model.skops")
    again = scarless.load(tmp_path / "model.skops")
    assert [each.label for each in again.origins_] == labels
    assert str(again.summary()) == str(model.summary())


def test_a_model_with_text_is_unchanged_after_save_and_load(tmp_path):
    table = pd.DataFrame({"remarks": remarks(), "age": RNG.normal(50, 10, 600)})
    s = (table["remarks"].str.contains("engine") & (RNG.random(600) < 0.5)).astype(int)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["age"])).fit(table, s)
    scarless.save(model, tmp_path / "model.skops")
    again = scarless.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    assert again.columns_of("remarks").size == 10


def wide_table(n=300, rng=RNG):
    table = pd.DataFrame({f"x{j}": rng.normal(size=n) for j in range(5)})
    table["sex"] = rng.choice(["f", "m"], n)
    table["income"] = np.where(np.arange(n) % 5 == 0, np.nan, INCOME[:n])
    table["savings"] = np.where(np.arange(n) % 3 == 0, 0.0, INCOME[:n])
    table["visits"] = rng.poisson(3, n)
    table["small"] = rng.normal(size=n).astype(np.float32)
    table["level with gaps"] = np.where(np.arange(n) % 7 == 0, np.nan, 5.0)
    table["constant"], table["empty"] = 3.0, np.nan
    table["since"] = pd.date_range("2020-01-01", periods=n)
    table["smokes"] = rng.random(n) < 0.3
    table["children"] = pd.array([1, 2, None] * (n // 3), dtype="Int64")
    return table


def by_skrub_alone():
    steps = table_preparation().steps
    steps[1] = ("columns", steps[1][1].vectoriser)
    return Pipeline(steps).set_output(transform="pandas")


def test_columns_of_numbers_are_prepared_together_as_skrub_prepares_each():
    table = wide_table()
    own, skrubs = table_preparation(), by_skrub_alone()
    pd.testing.assert_frame_equal(own.fit_transform(table), skrubs.fit_transform(table), check_exact=True)
    assert trace_origins(own, table.columns) == trace_origins(skrubs, table.columns)
    assert own["columns"].column_to_kind_ == skrubs["columns"].column_to_kind_
    left = {"sex", "constant", "empty", "since", "smokes", "children"}
    assert set(own["columns"].vectoriser_.feature_names_in_) == left
    new = table.tail(9).copy()
    new["income"] = [-1.0, 0.0, 1e6, *[np.nan] * 6]
    new["visits"] = new["visits"].where(new["visits"] > 2)  # the fit had no gaps here
    new["savings"] = [*map(str, new["savings"][:-1]), "none of this"]  # text in a column of numbers
    new["x0"] = pd.array(range(8), dtype="Int64").take([*range(8), -1], allow_fill=True)
    pd.testing.assert_frame_equal(own.transform(new), skrubs.transform(new.astype({"x0": float})), check_exact=True)


@pytest.mark.parametrize("names", [["x", "x_log"], ["x", "missingindicator_x"], ["x", "x"]])
def test_names_that_would_clash_are_left_to_skrub(names):
    table = pd.DataFrame(np.column_stack([np.where(np.arange(500) % 5 == 0, np.nan, INCOME), RNG.normal(size=500)]))
    table.columns = names
    made = []
    for preparation in (table_preparation(), by_skrub_alone()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # skrub warns that two columns have the same name
            made.append(preparation.fit_transform(table).to_numpy())
            assert preparation.transform(table).shape == made[-1].shape
    np.testing.assert_array_equal(*made)


def test_other_columns_than_those_of_the_fit_are_named():
    table = wide_table()
    step = table_preparation().fit(table)
    with pytest.raises(
        ValueError, match=r"columns of the fit, in the same order. Columns only in X: age. Columns only in the fit: x0."
    ):
        step.transform(table.rename(columns={"x0": "age"}))


def test_infinite_cells_of_new_rows_are_refused():
    table = wide_table()
    step = table_preparation().fit(table)
    with pytest.raises(ValueError, match="infinity"):
        step.transform(table.assign(x0=1e300))


# --- one description of columns, of tables in memory and in files


def mixed_table(n=400):
    rng = np.random.default_rng(1)
    income = rng.lognormal(10, 1.5, n)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(50, 10, n)),
            "income": np.where(np.arange(n) % 7 == 0, np.nan, income),
            "sex": rng.choice(["f", "m"], n),
            "ward": rng.choice(["east", "north", "west"], n),
            "seen": pd.to_datetime("2020-01-15") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )


def shape_of(columns):
    return [
        (each.name, each.kind, each.categories, [(out.name, out.piece) for out in each.outputs]) for each in columns
    ]


def test_both_preparations_describe_a_table_alike(tmp_path):
    table = mixed_table()
    table.to_parquet(tmp_path / "rows.parquet", index=False)
    here, there = table_preparation().fit(table), FilePreparation().fit(ParquetRows(tmp_path))
    columns = described(here[1])
    assert shape_of(columns) == shape_of(described(there))
    assert [column.kind for column in columns] == ["number", "number", "levels", "levels", "date"]
    assert [column.tail is not None for column in columns] == [False, True, False, False, False]
    labels = [[each.label for each in trace_origins(step, table.columns)] for step in (here, there)]
    assert labels[0] == labels[1]
    assert labels[0][:4] == ["age", "age = missing", "income", "log of income"]


def test_by_itself_skrubs_vectoriser_is_described_as_within_the_preparation():
    table = mixed_table().assign(note=[f"engine {k} failed" for k in range(400)])
    ours = table_preparation().fit(table)[1]
    alone = ours.vectoriser.fit(table)
    found = described(alone)
    assert shape_of(found) == shape_of(described(ours))
    assert found[1].tail == described(ours)[1].tail
    assert [column.kind for column in found] == ["number", "number", "levels", "levels", "date", "words"]


def test_a_step_without_column_information_is_not_described():
    assert described(StandardScaler()) is None
