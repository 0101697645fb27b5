"""Columns that leak the label, and good attributes that do not."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scarless import NaiveClassifier, SAREMClassifier, TableClassifier
from scarless.raw.leaks import (
    CERTAIN,
    ONLY_LABELLED,
    STRONG,
    columns_to_leave_out,
    find_leaks,
    find_never_labelled,
    grade_leak,
    label_auc,
    notes_on_never_labelled,
)

N, LABELLED = 2000, 200


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    s = np.zeros(N, dtype=int)
    s[rng.choice(N, LABELLED, replace=False)] = 1
    return rng, s


def leaks(rng, s):
    """Return columns that leak the label, with the correct grade."""
    most, half = (s == 1) & (rng.random(N) < 0.96), (s == 1) & (rng.random(N) < 0.4)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, N), "D")
    noisy = rng.normal(size=N)
    return {
        "code": (CERTAIN, np.where(s == 1, "E11", "Z00")),
        "filled": (ONLY_LABELLED, pd.Series(day).where(most)),
        "filled in some": (ONLY_LABELLED, np.where(half, 1.5, np.nan)),
        "days of treatment": (ONLY_LABELLED, np.where(half, rng.integers(1, 90, N), 0)),
        "treated": (ONLY_LABELLED, np.where(most, "yes", "no")),
        "score": (STRONG, np.where(s == 1, noisy + 3, noisy)),
        "score with gaps": (STRONG, np.where(rng.random(N) < 0.1, np.nan, np.where(s == 1, noisy + 3.5, noisy))),
        "in the middle": (STRONG, np.where(s == 1, noisy * 0.05, np.sign(noisy) + noisy)),
        "group": (STRONG, np.where(rng.random(N) < 0.97, s, 1 - s) * 5 + rng.integers(0, 5, N)),
        "empty": (STRONG, np.where((s == 1) == (rng.random(N) < 0.97), np.nan, noisy)),
        "medicine": (STRONG, np.where(rng.random(N) < np.where(s == 1, 0.6, 0.05), "ja", "nein")),
        "measured if labelled": (STRONG, np.where((s == 1) | (rng.random(N) < 0.15), noisy, np.nan)),
        "remarks": (STRONG, [f"case {i % 90} {'on insulin' if most[i] else 'is well'}" for i in range(N)]),
    }


def innocent(rng, s):
    """Return columns that do not leak the label: strong effects, rare values, missing values, identifiers, text."""
    noisy = rng.normal(size=N)
    return {
        "strong": np.where(s == 1, noisy + 1.5, noisy),
        "rare": np.where(rng.random(N) < 0.004, "yes", "no"),
        "rare but telling": np.where((s == 1) & (rng.random(N) < 0.15), 1, rng.random(N) < 0.03),
        "gaps": np.where(rng.random(N) < 0.98, np.nan, noisy),
        "ward": rng.choice([f"w{i}" for i in range(35)], N),
        "text": [f"case {rng.integers(500)} seen {rng.integers(40)}" for _ in range(N)],
        "unique": [f"P{i:05d}" for i in range(N)],
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, N), "D"),
        "flag": pd.array(rng.random(N) < 0.5, dtype="boolean"),
        "constant": 1,
        "nothing": np.nan,
    }


def test_leaks_are_graded(rows):
    rng, s = rows
    wanted = leaks(rng, s)
    found = {leak.column: leak.grade for leak in find_leaks(pd.DataFrame({k: v for k, (_, v) in wanted.items()}), s)}
    assert found == {name: grade for name, (grade, _) in wanted.items()}


def test_a_value_that_is_tied_to_the_label_is_described(rows):
    rng, s = rows
    found = find_leaks(pd.DataFrame({name: leaks(rng, s)[name][1] for name in ("medicine", "measured if labelled")}), s)
    assert re.fullmatch(
        r"may leak the label: \d\d% of the \d+ rows with the value 'ja' are labelled, but \d.\d% of the others",
        found[0].remark,
    )
    assert re.fullmatch(
        r"may leak the label: \d\d% of the \d+ rows in which it is filled are labelled, but none of the others",
        found[1].remark,
    )


def test_a_table_classifier_warns_about_leaks_and_values_without_labels(rows):
    rng, s = rows
    good, visits = rng.normal(size=N), rng.poisson(3, N)
    site = np.where((s == 0) & (rng.random(N) < 0.3), "B", "A")
    table = pd.DataFrame({"good": good, "visits": visits, "medicine": leaks(rng, s)["medicine"][1], "site": site})
    inner = SAREMClassifier(propensity_attributes=["visits"])
    for X in (table, pl.from_pandas(table)):
        with (
            pytest.warns(
                UserWarning, match="Column 'medicine' may leak the label: .* If the column is recorded because"
            ),
            pytest.warns(UserWarning, match="No row with the value 'B' in 'site' has a label"),
        ):
            TableClassifier(inner).fit(X, s)
    audit = np.where((site == "B") & (rng.random(N) < 0.5), 0.0, np.nan)
    TableClassifier(inner).fit(table[["good", "visits", "site"]], s, audit=audit)  # audits show that B has no positives
    TableClassifier(inner).fit(table[["good", "visits"]], s)  # Warnings are errors in these tests.
    TableClassifier(NaiveClassifier()).fit(table, s)


def test_values_without_labels():
    rng = np.random.default_rng(0)
    visits, site = rng.poisson(3, 1000), rng.choice(["A", "B"], 1000)
    table = pd.DataFrame({"visits": visits, "site": site, "filled": np.where(site == "A", 1.5, np.nan)})
    s = ((rng.random(1000) < 0.2) & (visits > 1) & (site == "A")).astype(int)
    rows = {each.rows for each in find_never_labelled(table, s, named=["visits"])}
    empty, low = "with an empty cell in 'filled'", "in which 'visits' is at most 1"
    assert rows == {"with the value 'B' in 'site'", empty, low}
    assert {each.rows for each in find_never_labelled(table, s)} == rows - {low}  # other columns may drive the class
    assert find_never_labelled(table, s, named=["visits"], audited=np.ones(1000)) == []
    (high,) = find_never_labelled(-table[["visits"]], s, named=["visits"])
    assert high.rows == "in which 'visits' is at least -1"
    assert find_never_labelled(table, rng.random(1000) < 0.2, named=["visits"]) == []
    numbered = table.set_axis(range(3), axis=1)
    assert len(find_never_labelled(numbered, s, named=["0"])) == 3
    last = np.arange(1000) == 999  # no row follows
    assert find_never_labelled(pd.DataFrame({"x": np.arange(1000.0)}), last, named=["x"]) == []
    notes = notes_on_never_labelled([high._replace(column=f"x{j}") for j in range(6)], ["x0"])
    assert notes[0].endswith("remove 'x0' from propensity_attributes.")
    assert "The same is true of 1 more value. If positives among these rows are never labelled" in notes[1]


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_a_logistic_labelling_has_no_threshold(slope):
    """With a slope of 3, some tables have a threshold: none of hundreds of rows is labelled there."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(50):
        x = rng.normal(size=2000)
        s = rng.random(2000) < 0.3 / (1 + np.exp(0.5 - slope * x))
        found += len(find_never_labelled(pd.DataFrame({"x": x}), s, named=["x"]))
    assert found == 0


def test_a_good_attribute_is_not_a_leak(rows):
    rng, s = rows
    assert find_leaks(pd.DataFrame(innocent(rng, s)), s) == []


@pytest.mark.parametrize("n_labelled", [10, 15, 40])
def test_few_labels_and_many_columns_give_no_leak_by_chance(n_labelled):
    rng = np.random.default_rng(n_labelled)
    s = np.repeat([1, 0], [n_labelled, 400 - n_labelled])
    table = pd.DataFrame({f"x{j}": rng.normal(size=400) for j in range(60)})
    for j in range(40):
        table[f"c{j}"] = rng.choice([f"level {i}" for i in range(30)], 400)
        table[f"g{j}"] = np.where(rng.random(400) < 0.03, 1.0, np.nan)
    assert find_leaks(table, s) == []


def test_fewer_than_ten_labels_give_no_leak():
    s = np.repeat([1, 0], [9, 100])
    assert grade_leak(pd.Series(s * 1.0, name="x"), s) is None


def test_nearly_all_rows_labelled_is_no_leak():
    rng = np.random.default_rng(0)
    s = (rng.random(1000) < 0.97).astype(int)
    assert find_leaks(pd.DataFrame({"x": np.where(rng.random(1000) < 0.5, 1.0, np.nan)}), s) == []


def test_the_auc_is_at_least_that_of_counted_pairs():
    rng = np.random.default_rng(3)
    values, labelled = pd.Series(rng.normal(size=60).round(1)), rng.random(60) < 0.3
    inside, outside = values[labelled].to_numpy(), values[~labelled].to_numpy()
    pairs = np.sign(inside[:, None] - outside[None])
    auc = 0.5 + 0.5 * pairs.mean()
    assert label_auc(values, labelled) >= max(auc, 1 - auc) - 1e-12


def test_a_leak_is_refused_or_left_out_or_reported():
    s = np.repeat([1, 0], [40, 400])
    filled = np.where(np.arange(440) < 38, 1.0, np.nan)
    score = np.where(s == 1, 3.0, 0.0) + np.random.default_rng(0).normal(size=440)
    found = find_leaks(pd.DataFrame({"date of it": filled, "score": score}), s)
    out, notes = columns_to_leave_out(found, [])
    assert out == ["date of it"]
    assert "filled in 38 of 40 labelled rows and in no unlabelled row" in notes[0]
    assert "was left out. To keep it, name it in --propensity or --classification-attributes" in notes[0]
    assert "--exclude score" in notes[1]
    out, notes = columns_to_leave_out(found, ["date of it"])
    assert out == []
    assert "--exclude 'date of it'" in notes[0]
    with pytest.raises(ValueError, match=r"Column 'x' leaks the label: .* --exclude x \(exclude=\['x'\]\)"):
        columns_to_leave_out(find_leaks(pd.DataFrame({"x": s * 2.0}), s), [])
