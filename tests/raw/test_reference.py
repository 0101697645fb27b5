"""The description of the rows of a fit that a model file stores: bins, counts, a sample, and nothing else."""

import json

import numpy as np
import pandas as pd
import pytest

from scarless import SAREMClassifier, TableClassifier, load, save
from scarless.raw.reference import (
    CATEGORY,
    DATE,
    MAX_COLUMNS,
    NUMBER,
    TEXT,
    as_days,
    as_numbers,
    bin_edges,
    code_matrix,
    describe_rows,
    is_of_kind,
)
from scarless.raw.table_classifier import finish_fit, start_fit


def patients(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 10, n)),
            "clinic": rng.choice(["city", "rural", None], n, p=[0.5, 0.4, 0.1]),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "remark": [f"patient {i} lives in street {rng.integers(10**6)}" for i in range(n)],
        }
    )


def fitted(table, seed=0):
    rng = np.random.default_rng(seed)
    s = ((table["age"].fillna(50) > 50) & (rng.random(len(table)) < 0.5)).astype(int)
    s[np.flatnonzero(table["age"].isna())[:1]] = 1
    estimator = SAREMClassifier(propensity_attributes=["clinic"])
    started = start_fit(estimator, table, s)
    model = finish_fit(started, estimator, s)
    return model, describe_rows(table, prepared=started.prepared, origins=model.origins_, labelled=s)


def test_kinds_counts_and_sample():
    table = patients()
    model, found = fitted(table)
    columns = {each.name: each for each in found.named(list(table.columns))}
    assert {name: each.kind for name, each in columns.items()} == {
        "age": NUMBER, "clinic": CATEGORY, "seen": DATE, "remark": TEXT
    }  # fmt: skip
    clinic = columns["clinic"]
    assert clinic.levels == ("city", "rural")
    assert clinic.names() == ["city", "rural", "other or new", "missing"]
    expected = [(table["clinic"] == "city").sum(), (table["clinic"] == "rural").sum(), 0, table["clinic"].isna().sum()]
    np.testing.assert_array_equal(clinic.counts, expected)
    assert columns["age"].counts.sum() == 400
    assert columns["age"].counts[-1] == table["age"].isna().sum()
    codes = code_matrix(found, table, model.prepare(table))
    for j, column in enumerate(found.named(list(table.columns))):
        np.testing.assert_array_equal(np.bincount(codes[:, j], minlength=column.n_bins), column.counts)
    assert 0 < found.labelled < 1


def test_bins_hold_the_values_up_to_their_upper_end():
    table = pd.DataFrame({"x": np.r_[np.arange(100.0), np.nan]})
    found = describe_rows(table)
    [column] = found.named(["x"])
    new = pd.DataFrame({"x": [column.edges[0], np.nextafter(column.edges[0], 200), -1e9, 1e9, np.nan]})
    assert code_matrix(found, new)[:, 0].tolist() == [0, 1, 0, column.edges.size, column.edges.size + 1]
    assert column.names()[0] == f"{column.edges[0]:.6g} or less"
    assert describe_rows(pd.DataFrame({"x": [1.0, 1.0]})).named(["x"])[0].names() == ["any value", "missing"]


def test_weights_are_counts():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=200), "g": rng.choice(["a", "b"], 200)})
    w = rng.integers(1, 4, 200)
    weighted, copies = describe_rows(table, weight=w), describe_rows(table.loc[table.index.repeat(w)])
    np.testing.assert_allclose(weighted.edges, copies.edges)
    np.testing.assert_allclose(weighted.counts, copies.counts)
    assert weighted.n_effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert bin_edges(np.empty(0), np.empty(0)).size == 0


def test_texts_ids_and_rare_categories_are_not_stored():
    table = patients()
    table["clinic"] = table["clinic"].where(table.index != 3, "Dr. Unique Name")
    _, found = fitted(table)
    stored = found.columns
    assert "Unique" not in stored
    assert "street" not in stored
    assert json.loads(stored)[1][2] == ["city", "rural"]
    assert not any(isinstance(value, str) and "patient" in value for value in vars(found).values())


def test_the_addition_to_the_model_file_is_small_for_many_and_wide_columns(tmp_path):
    rng = np.random.default_rng(0)
    n, n_numbers, n_texts = 1000, 500, 80
    names = [f"measurement {j} with a long name " * 5 for j in range(n_numbers)]
    table = pd.DataFrame(rng.normal(size=(n, n_numbers)), columns=names)
    for j in range(n_texts):
        table[f"category {j}"] = rng.choice([f"level {k} " + "of a long name " * 20 for k in range(15)], n)
    X, s = table[names[:3]], (rng.random(n) < 0.2).astype(int)
    model = TableClassifier(SAREMClassifier(propensity_attributes=[names[1]]))
    model.fit(X.iloc[:200], (s * (X[names[0]] > 0)).iloc[:200])
    save(model, tmp_path / "without.skops")
    model.reference_ = describe_rows(table, first=["category 1"])
    save(model, tmp_path / "with.skops")
    added = (tmp_path / "with.skops").stat().st_size - (tmp_path / "without.skops").stat().st_size
    assert 20_000 < added <= 110_000
    found = load(tmp_path / "with.skops").reference_
    assert found.places.size == MAX_COLUMNS
    assert found.n_left_out == n_numbers + n_texts - MAX_COLUMNS
    assert found.named(list(table.columns))[0].name == "category 1"
    np.testing.assert_array_equal(found.counts, model.reference_.counts)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (["a", "b"], ["c", "d"], True),
        (["a", "b"], [1.0, 2.0], False),
        (["1", "2"], [1.0, 2.0], True),
        ([1.0, 2.0], ["a", "b"], False),
        ([1.0, 2.0], [None, None], True),
        (["2024-01-01", "2024-02-01"], ["a", "b"], True),
    ],
    ids=["texts", "numbers for texts", "numbers written as text", "texts for numbers", "empty", "texts again"],
)
def test_types_of_new_columns(old, new, same):
    found = describe_rows(pd.DataFrame({"x": old * 20}))
    [column] = found.named(["x"])
    assert is_of_kind(column, pd.DataFrame({"x": new}), 0) is same


def test_dates_may_be_written_as_text():
    days = as_days(np.array(["2024-01-02", "1970-01-02", "nonsense", None], dtype=object))
    np.testing.assert_array_equal(days, [19724.0, 1.0, np.nan, np.nan])
    table = patients()
    _, found = fitted(table)
    column = found.named(list(table.columns))[2]
    assert is_of_kind(column, table.assign(seen="2025-01-01"), 2)
    assert not is_of_kind(column, table.assign(seen=5), 2)
    assert not is_of_kind(column, table.assign(seen="soon"), 2)


def test_objects_of_numbers_are_numbers():
    np.testing.assert_array_equal(as_numbers(np.array([1, None, 2.5], dtype=object)), [1.0, np.nan, 2.5])
    assert as_numbers(np.array([True, False], dtype=object)) is None
    assert as_numbers(np.array([None], dtype=object)) is None
