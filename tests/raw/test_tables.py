"""Columns of numbers with a few odd cells: read as numbers, reported, refused, or left as text."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scarless import NaiveClassifier, SAREMClassifier, TableClassifier
from scarless.raw.cells import NumberRange, read_cell, read_column
from scarless.raw.tables import (
    has_thousands_points,
    notes_on_numbers,
    numbers_again,
    odd_numbers,
    read_texts,
    scales_of,
    warn_if_far_outside,
)

N = 1500


def make_table(seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"bp": rng.normal(120, 15, N).round(1), "visits": rng.poisson(3, N)})
    ill = rng.random(N) < 1 / (1 + np.exp(-(table["bp"] - 120) / 5))
    seen = rng.random(N) < 1 / (1 + np.exp(2.0 - table["visits"]))
    return table, (ill & seen).astype(int).to_numpy()


def with_cells(table, cells):
    """Return the table with the column bp as text; every seventh of some cells is replaced."""
    texts = table["bp"].astype(str).astype(object)
    texts.iloc[np.arange(len(cells)) * 7] = cells
    return table.assign(bp=texts)


def fitted(table, s):
    return TableClassifier(SAREMClassifier(propensity_attributes=["visits"])).fit(table, s)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("12", [12]), ("-1.5e3", [-1500]), (".5", [0.5]), ("\u22123", [-3]), ("<5", [5]), (">90", [90]),
        ("\u2265 90", [90]), ("<= 0.1", [0.1]), ("~5", [5]), ("1,5", [1.5]), ("0,123", [0.123]), (">1,5", [1.5]),
        ("1 234", [1234]),
        ("1\u202f234,5", [1234.5]), ("1,234,567", [1234567]), ("1.234,5", [1234.5]), ("1'234", [1234]),
        ("1,234", [1234, 1.234]), ("120 mmHg", [120]), ("1.5kg", [1.5]), ("12%", [12]), ("$3.50", [3.5]),
        ("3 \u20ac", [3]), ("< 0.1 mg/l", [0.1]),
    ],
)  # fmt: skip
def test_usual_ways_to_write_a_number(text, values):
    assert list(read_cell(text).values) == values


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("n/a", "missing"), ("-", "missing"), ("?", "missing"), ("Unknown", "missing"), ("5+", "range"),
        ("10-20", "range"), ("A12", "code"), ("V58.1", "code"), ("12A", "code"), ("PC 17599", "code"),
        ("007", "zeros"), ("abc", "unreadable"), ("12:30", "unreadable"), ("2020-01-05", "unreadable"),
        ("3 or 4", "unreadable"), ("12 Main Street", "unreadable"), ("<", "unreadable"),
    ],
)  # fmt: skip
def test_invalid_label_frequencies(text, form):
    assert read_cell(text).form == form


def test_an_ambiguous_comma_is_read_like_the_other_cells():
    def read(others, text):
        return read_column(np.array([*others, text], dtype=object)).values[-1]

    assert read([str(each) for each in range(500, 3000)], "1,234") == 1234
    assert read([f"{each / 1000:.3f}" for each in range(3000)], "1,234") == pytest.approx(1.234)
    assert np.isnan(read([f"{each / 2}" for each in range(3000)], "1,234"))  # both readings are possible
    assert np.isnan(read([f"{each / 10}" for each in range(700, 1700)], "1,234"))  # neither reading is possible


def test_units_must_be_one_and_numbers_near_the_others():
    plain = [str(each / 2) for each in range(240, 400)]
    assert read_column(np.array([*plain, "181 cm"], dtype=object)).values[-1] == 181
    assert np.isnan(read_column(np.array([*plain, "1500 cm"], dtype=object)).values[-1])
    assert np.isnan(read_column(np.array([*plain, "181 cm", "72 in"], dtype=object)).values[-2:]).all()
    mixed = np.array([f"{each / 2} mg/dl" for each in range(240, 400)] + ["7.1 mmol/l"], dtype=object)
    found = read_column(mixed)
    assert (found.verdict, found.n_unreadable, found.values[0]) == ("number", 1, 120.0)
    found = read_column(np.append(mixed, ["7.1 mmol/l"] * 40))  # too many to be left out without a question
    assert (found.verdict, found.n_unreadable) == ("ask", 41)
    shares = [str(each / 200) for each in range(200)]
    assert read_column(np.array([*shares, "12%"], dtype=object)).values[-1] == pytest.approx(0.12)


def test_three_bad_cells_change_a_fit_by_no_more_than_three_cells_can():
    table, s = make_table()
    clean = fitted(table, s)
    with pytest.warns(UserWarning, match="Column 'bp' is read as numbers. 4 of its cells") as caught:
        model = fitted(with_cells(table, ["<100", "121,5", "120 mmHg", "oops"]), s)
    assert "row 1 '<100' as 100, row 8 '121,5' as 121.5, row 15 '120 mmHg' as 120" in str(caught[0].message)
    assert "1 is treated as missing: row 22 'oops'" in str(caught[0].message)
    np.testing.assert_allclose(model.predict_proba(table), clean.predict_proba(table), atol=0.02)


def test_clean_columns_of_text_numbers_and_categories_are_as_before():
    table, s = make_table()
    rng = np.random.default_rng(1)
    table = table.assign(
        digits=rng.integers(0, 9, N).astype(str),  # all are plain numbers
        dependants=rng.choice(["0", "1", "2", "3+"], N, p=[0.5, 0.2, 0.2, 0.1]),
        grade=rng.choice(["1", "2", "other"], N),
        term=rng.choice(["36 months", "60 months"], N),
        ages=rng.choice(["<20", "20-39", "40-59", ">60"], N),
        icd=[f"V{each}" if each % 9 == 0 else str(each) for each in rng.integers(100, 900, N)],
        zip=[f"{each:05d}" for each in rng.integers(500, 99999, N)],
        name=[f"name {each}" for each in rng.integers(0, 900, N)],
    )
    read, notes, questions = read_texts(table)
    assert (notes, questions) == ([], [])
    assert read is table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(table, s)


@pytest.mark.parametrize("cells", [["5+"] * 30, [f"A{each}" for each in range(30)]])
def test_a_column_with_ranges_or_codes_stays_text_with_a_message(cells):
    table, _ = make_table()
    read, notes, questions = read_texts(with_cells(table, cells))
    assert str(read["bp"].dtype) == "category"
    assert "Column 'bp' is read as text: most of its cells are numbers, but 30 of 1,500" in notes[0]
    assert questions == []


def test_above_one_per_cent_unreadable_the_user_must_decide():
    table, s = make_table()
    odd = with_cells(table, ["oops"] * 16)
    with pytest.raises(
        ValueError, match=r"Does column 'bp' hold numbers\? 1,484 of 1,500 cells .* 16 \(1.1%\) cannot .*row 1"
    ):
        fitted(odd, s)
    assert read_texts(with_cells(table, ["oops"] * 15))[2] == []
    number, notes, questions = read_texts(odd, number=["bp"])
    assert number["bp"].isna().sum() == 16
    assert "16 are treated as missing" in notes[0]
    assert questions == []
    assert str(read_texts(odd, text=["bp"])[0]["bp"].dtype) == "category"
    fitted(odd.assign(bp=odd["bp"].astype("category")), s)  # as the question suggests
    fitted(odd.assign(bp=pd.to_numeric(odd["bp"], errors="coerce")), s)


def test_new_rows_are_read_with_the_ranges_of_the_fit():
    table, s = make_table()
    model = fitted(table, s)
    expected = model.predict_proba(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        commas = table.assign(bp=[str(each).replace(".", ",") for each in table["bp"]])
        np.testing.assert_array_equal(model.predict_proba(commas), expected)
    with pytest.warns(UserWarning, match="1 is treated as missing: row 1 'oops'"):
        np.testing.assert_array_equal(model.predict_proba(with_cells(table, ["oops"]))[1:], expected[1:])
    with pytest.warns(UserWarning, match="75 are treated as missing"):
        model.predict_proba(with_cells(table, ["oops"] * 75))
    with pytest.raises(
        ValueError, match=r"'bp' held numbers in the fit, but here 76 of 1,500 cells \(5%\) cannot be read"
    ):
        model.predict_proba(with_cells(table, ["oops"] * 76))
    with pytest.raises(ValueError, match="'visits' held numbers in the fit, but here 1,500 of 1,500"):
        model.predict_proba(table.assign(visits="often"))


def test_booleans_and_gaps_in_columns_of_numbers_are_read_as_before():
    table, s = make_table()
    table = table.assign(flag=(table["visits"] > 3).astype(int))
    model = fitted(table, s)
    expected = model.predict_proba(table)
    np.testing.assert_array_equal(model.predict_proba(table.assign(flag=table["flag"] == 1)), expected)
    model.predict_proba(table.assign(bp=None))


def test_frames_of_polars_are_read_alike():
    table, s = make_table()
    odd = with_cells(table, ["<100", "oops"])
    with pytest.warns(UserWarning, match="row 1 '<100' as 100; 1 is treated as missing: row 8 'oops'"):
        one = fitted(odd, s)
    with pytest.warns(UserWarning, match="row 1 '<100' as 100; 1 is treated as missing: row 8 'oops'"):
        other = fitted(pl.from_pandas(odd), s)
    assert one.class_prior_ == pytest.approx(other.class_prior_, rel=1e-6)
    with pytest.raises(ValueError, match="'visits' held numbers in the fit"):
        other.predict_proba(pl.from_pandas(table.assign(visits="often")))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
def test_infinite_and_huge_cells_are_named(value):
    table, s = make_table()
    odd = table.copy()
    odd.loc[7, "bp"] = value
    message = rf"Column 'bp' holds {value:g} in row 8 \(counted from 1\).*leave it empty".replace("+", r"\+")
    with pytest.raises(ValueError, match=message):
        fitted(odd, s)
    model = fitted(table, s)
    with pytest.raises(ValueError, match=message):
        model.predict_proba(odd)


def test_a_range_holds_nearby_values():
    assert NumberRange(0.0, 10.0, True).holds(20.0)
    assert not NumberRange(0.0, 10.0, True).holds(20.1)
    assert NumberRange(1.0, 1.0, True).holds(1e9)


def test_numbers_are_not_misread_by_a_factor_of_a_thousand():
    weights = read_column(np.array(["6,7 kg", "3,43 kg", "1,369 kg"] * 50, dtype=object))
    assert np.isnan(weights.values[2])  # could be 1.369 or 1369
    points = read_column(np.array(["4.484.109", "2.917.016", "202.050", "-1.500"] * 50, dtype=object))
    assert points.values[:4].tolist() == [4484109, 2917016, 202050, -1500]


def test_per_cent_of_new_rows_is_read_by_the_scale_of_the_fit():
    with pytest.warns(UserWarning, match="read"):
        found = numbers_again(pd.DataFrame({"p": ["0.5%", "0.9%"]}), {"p": (0.0, 1.0, False)})
    assert found["p"].tolist() == pytest.approx([0.005, 0.009])


def test_truth_values_may_be_objects_in_new_rows():
    frame = pd.DataFrame({"flag": [True, False, True], "x": [1.0, 2.0, 3.0]})
    new = pd.DataFrame({"flag": pd.Series([True, None], dtype=object), "x": [1.0, 2.0]})
    assert numbers_again(new, scales_of(frame))["flag"].tolist() == [True, None]


def test_a_column_of_decimal_commas_is_read_as_numbers_with_a_message():
    frame = pd.DataFrame({"crp": [f"{i},{i % 7}" for i in range(1, 200)]})
    read, notes, _ = read_texts(frame)
    assert read["crp"].iloc[3] == pytest.approx(4.4)
    assert notes == ["Column 'crp' is read as numbers with a decimal comma."]
    limits = read_texts(frame.assign(crp=["<0,3", *frame["crp"][1:]]))
    assert limits[0]["crp"].iloc[0] == pytest.approx(0.3)
    assert "'<0,3'" in limits[1][0]


def test_a_column_without_numbers_is_refused_as_number():
    with pytest.raises(ValueError, match="--number names column 'sex', which holds no number"):
        read_texts(pd.DataFrame({"sex": ["f", "m"] * 20}), number=["sex"])


def test_suggested_options_are_quoted():
    cells = [str(i) for i in range(200)] + ["rubbish"] * 5
    _, _, (question,) = read_texts(pd.DataFrame({"Hb $(x)": cells}))
    assert "--number 'Hb $(x)'" in question


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize(
    ("fit", "new", "message"),
    [
        (
            [150, 170, 195.5],
            [1.7],
            r"1 row has a value of 'x' that is far .* between 150 and 195.5 \(the first is 1.7 in",
        ),
        (
            [150, 170, 195.5],
            [None, 1700, 1800.0],
            r"2 of 3 rows have .* \(the first is 1700 in row 2, counted from 1\)",
        ),
        ([0, 1, 1, 0], [1, 2, 2], r"2 of 3 rows have a value of 'x' that is far from all values of the fit, which are"),
        ([2, 1, 1, 2], [1, 0, 0], "2 of 3 rows have .* Check the values and their unit"),
    ],
    ids=["metres", "millimetres", "1 and 2", "0 and 1"],
)
def test_numbers_far_outside_the_range_of_the_fit_cause_a_warning(frame, fit, new, message):
    """A single row in another unit got a probability near 0 or 1 without a word."""
    scales = scales_of(frame({"x": np.array(fit, dtype=float)}))
    with pytest.warns(UserWarning, match=message):
        warn_if_far_outside(frame({"x": np.array(new, dtype=float)}), scales)


@pytest.mark.parametrize(
    ("fit", "new"),
    [
        ([2023, 2024], [2025, 2025, 2026]),
        ([150, 190], [110, 230, np.nan]),
        ([0, 1] * 50, [0, 1] * 50 + [2]),
        ([5, 5], [9]),
    ],
    ids=["year", "height", "rare count", "constant"],
)
def test_numbers_near_the_range_of_the_fit_cause_no_warning(fit, new):
    scales = scales_of(pd.DataFrame({"x": np.array(fit, dtype=float)}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_far_outside(pd.DataFrame({"x": np.array(new, dtype=float)}), scales)
        warn_if_far_outside(pd.DataFrame({"x": np.empty(0)}), scales)


def test_a_table_classifier_warns_about_new_rows_in_another_unit():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"height": rng.normal(170, 10, 300), "visits": rng.poisson(2, 300)})
    model = TableClassifier(NaiveClassifier()).fit(table, table["height"] + rng.normal(0, 10, 300) > 180)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_proba(table)
    with pytest.warns(UserWarning, match="300 of 300 rows have a value of 'height' that is far from all values"):
        model.predict_proba(table.assign(height=table["height"] / 100))


AGES = np.random.default_rng(0).integers(18, 90, N).astype(float)
SIZES = np.random.default_rng(0).lognormal(0.0, 2.0, N)


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ([*AGES, -999, -999, np.nan], {-999: 2}),
        ([*AGES, 1e9], {1e9: 1}),
        ([*AGES, 1e9, 2e9, -999, -999], {-999: 2, 1e9: 1, 2e9: 1}),
        ([*AGES, 888, 888, 999], {888: 2, 999: 1}),
        ([*AGES, 997, 998, 999, 999], {997: 1, 998: 1, 999: 2}),
        ([*AGES, 65535, 65535], {65535: 2}),
        ([*AGES, -1, -1, -9], {-9: 1, -1: 2}),
        ([*AGES, -1, -1, -2, -7, -8, -9], {-9: 1, -8: 1, -7: 1, -2: 1, -1: 2}),
        ([*np.repeat(np.arange(20.0), 6), *[-1] * 19], {-1: 19}),  # more than three times as frequent as 0
        ([*np.repeat(np.arange(1.0, 6), 9), *[-9] * 3], {-9: 3}),
        ([*np.repeat([0.0, 1.0], 30), 9, 9], {9: 2}),
        ([*np.linspace(0, 600, 100), *[999.0] * 5], {999: 5}),  # far more frequent than the numbers near it
        ([*np.linspace(-500, 2000, 100), *[-999.0] * 5], {-999: 5}),
        ([*AGES, 999], {}),  # a single one may be a measurement
        ([*AGES, -1], {}),
        ([*np.linspace(0, 600, 100), 999.0, 999.0], {}),  # not far from the others, and not frequent
        ([*np.repeat(np.arange(20.0), 3), -1, -1], {}),  # such as a temperature
        ([*np.repeat(np.arange(5.0), 30), -1, -1], {}),  # a scale from -1 to 4
        ([*np.repeat(np.arange(30.0), 5), *[-1] * 20, *[-2] * 9], {}),  # days after a date
        ([*np.linspace(-3, 3, 60), -9.0, -9.0], {}),  # there are other negative numbers
        ([*np.repeat([9.0, 19, 29, 39, 49], 9), 99, 99], {}),  # prices
        ([*np.repeat([0.0, 1, 365], 30)], {}),  # so few different numbers may be categories
        ([*np.repeat(20231215.0 + np.arange(17), 5), *[20240101] * 9], {}),  # dates; too many rows for errors
        (SIZES, {}),
        ([*np.exp(np.arange(30.0)), np.exp(50.0)], {}),  # a long tail
        ([*np.ones(30), 1e9], {}),  # no range to compare with
        ([1.0, 2.0, 1e9], {}),
        ([], {}),
    ],
)
def test_numbers_that_look_like_codes_or_errors_are_found(values, odd):
    found = odd_numbers(np.array(values, dtype=float))
    assert found.numbers == odd
    if odd:
        assert found.low == np.nanmin([value for value in values if value not in odd])
        assert found.high == np.nanmax([value for value in values if value not in odd])


def test_continuous_columns_with_long_tails_have_no_odd_numbers():
    rng = np.random.default_rng(1)
    draws = [
        rng.normal(size=N),
        rng.exponential(size=N),
        rng.lognormal(0, 1, N),
        rng.poisson(2.0, N),
        rng.binomial(1, 0.3, N),
    ]
    draws = [each for _ in range(40) for each in (rng.permutation(draws[k]).astype(float) for k in range(5))]
    draws += [rng.pareto(shape, N) for _ in range(100) for shape in (0.5, 1.5)]
    draws += [np.round(rng.normal(8, 4, N)) for _ in range(100)]  # temperatures
    assert sum(bool(odd_numbers(each).numbers) for each in draws) <= 2


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_odd_numbers_are_reported_by_column(frame):
    age, pay = [*AGES[:100], *[-999.0] * 5], [*AGES[:104], 123456789.0]
    _, (note,), _ = read_texts(frame({"age": age, "pay": pay, "flag": [True, False] * 52 + [True], "one": age}))
    low = f"{AGES[:100].min():g} and {AGES[:100].max():g}"
    assert f"'age' has -999 in 5 rows, and its other numbers are between {low}; 'pay' has 123456789 in 1 row" in note
    assert "table['age'].replace(-999, float('nan'))" in note
    many = frame({f"x{j}": age for j in range(9)})
    assert "; 3 more columns have such numbers. The models" in read_texts(many)[1][0]


def test_the_advice_on_a_code_works():
    for code in (99999999.0, 0.1 + 1e7):
        column = pd.Series([*AGES, *[code] * 5])
        (note,) = notes_on_numbers(column.to_frame("x"))
        advice = re.search(r"table\['x'\]\.replace\(.*?float\('nan'\)\)", note).group()
        assert eval(advice, {"table": {"x": column}}).isna().sum() == 5


def test_points_that_separate_thousands_are_reported():
    rng = np.random.default_rng(0)
    sizes = np.round(rng.lognormal(6.5, 1.0, 300))
    points = np.where(sizes < 1000, sizes, sizes / 1000)
    (note,) = notes_on_numbers(pd.DataFrame({"bnp": points, "age": rng.integers(20, 90, 300)}))
    first = points[points != np.round(points)][0]
    assert note.startswith("Points in column 'bnp' probably separate thousands, but were read as decimal points: ")
    assert f"{first:g} would stand for {1000 * first:.0f}. " in note
    assert "Points in columns 'a' and 'b' " in notes_on_numbers(pd.DataFrame({"a": points, "b": points}))[0]


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.lognormal(0.0, 1.0, 300).round(3),
        lambda rng: rng.lognormal(3.0, 1.0, 300).round(2),
        lambda rng: rng.integers(8, 800, 300) / 8,  # eighths
        lambda rng: np.where(rng.random(300) < 0.3, 0.0, rng.random(300).round(3)),
        lambda rng: rng.integers(0, 5000, 300).astype(float),
    ],
    ids=["three decimals", "two decimals", "eighths", "shares", "whole numbers"],
)
def test_decimals_do_not_look_like_thousands(draw):
    assert not any(has_thousands_points(draw(np.random.default_rng(seed))) for seed in range(50))


def test_columns_of_intervals_are_no_numbers():
    table = pd.DataFrame({"age": pd.interval_range(0, 300)})
    assert read_texts(table)[1:] == ([], [])


def test_a_table_classifier_warns_about_codes_for_missing_values():
    table, s = make_table()
    table.loc[:40, "bp"] = -999.0
    with pytest.warns(UserWarning, match="'bp' has -999 in 41 rows, and its other numbers are between"):
        fitted(table, s)
    assert read_texts(table.replace(-999.0, np.nan))[1] == []


def test_new_rows_that_are_mostly_outside_the_range_of_the_fit_are_named():
    scales = scales_of(pd.DataFrame({"glucose": np.linspace(70.0, 300.0, 50)}))
    mmol = pd.DataFrame({"glucose": np.linspace(4.0, 16.0, 12)})
    with pytest.warns(UserWarning, match="12 of 12 rows have a value of 'glucose' that is outside the range of all"):
        warn_if_far_outside(mmol, scales)
    with pytest.warns(UserWarning, match="12 of 40 rows have a value of 'glucose'"):  # missing cells do not count
        warn_if_far_outside(mmol.reindex(range(40)), scales)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_far_outside(mmol.head(9), scales)  # too few rows to tell
        warn_if_far_outside(mmol.assign(glucose=pd.Series([*[5.0] * 9, *[np.nan] * 3])), scales)
        warn_if_far_outside(pd.DataFrame({"glucose": [*np.linspace(40.0, 69.0, 12), *[100.0] * 12]}), scales)
