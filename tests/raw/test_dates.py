"""Dates in new rows: the order of day and month, other formats, numbers, and cells that are not dates."""

import warnings
import zipfile
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scarless
from scarless.raw.dates import holds_written_dates, read_dates
from scarless.raw.preparation import table_preparation
from scarless.raw.tables import read_texts

DATES = pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(0, 700, 7), "D"))
EARLY = pd.Series(pd.to_datetime([f"2023-{1 + k % 12:02d}-{1 + (k * 7) % 11:02d}" for k in range(100)]))


def fitted(dates):
    table = pd.DataFrame({"age": np.arange(100.0), "seen": dates})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return table_preparation()[:2].fit(table)


def months(preparation, dates, frame=pd.DataFrame):
    """Return the months that the preparation reads from new rows."""
    table = frame({"age": np.arange(float(len(dates))), "seen": dates})
    return np.asarray(preparation.transform(table)["seen_month"], dtype=np.float64)


@pytest.mark.parametrize(
    ("cells", "first", "example"),
    [
        (["03/04/2024", "25/04/2024", None, ""], "day", ""),
        (["03/04/2024", "04/25/2024"], "month", ""),
        (["03/04/2024", "11/12/24 13:45"], "month", "03/04/2024"),
        (["03.04.2024", "11.12.2024"], "day", "03.04.2024"),
        (["3-4-2024"], "month", "3-4-2024"),
        (["05/05/2024"], "month", ""),
        (["2024-04-03", "2024-12-11T10:00:00.5+02:00"], "year", ""),
        (["1/31/2024 3:30 PM", "2/1/2024 11:00 am"], "month", ""),
        (["03.04.2024", "0000-00-00", "n/a", "00.00.0000"], "day", "03.04.2024"),
        (["31 Jan 2024", "May 3, 2024", "1st June 2024", "3-Okt-24", "24 Dezember 2024 18 Uhr"], "year", ""),
        ([pd.Timestamp("2024-04-03"), date(2024, 4, 3), np.datetime64("2024-04-03"), "2024-04-03"], "year", ""),
    ],
)
def test_the_order_of_day_and_month_follows_from_all_cells(cells, first, example):
    found = read_dates(cells)
    assert (found.first, found.example, found.unread) == (first, example, [])


@pytest.mark.parametrize(
    "cells",
    [
        ["24-04-03"], [None], ["03/04/2024-0017"], ["A", "B", "2024-01-01"], ["1.2.3", "2.0.11"], ["20240501"],
        [1, 2.5, "2024-01-01"], ["12-34-5678"], ["2024-0017"], ["1.2.2024-17"], ["12 marbles 24"], ["10:30"],
        ["06 12 34 56 78"], ["12 05 1234"], [True],
    ],
)  # fmt: skip
def test_texts_that_are_no_dates_are_not_read(cells):
    assert read_dates(cells) is None


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%d.%m.%y", "%Y-%m-%d"])
@pytest.mark.parametrize("early_first", [True, False], ids=["ambiguous first", "clear first"])
def test_dates_of_new_rows_do_not_depend_on_their_format_or_order(form, early_first):
    """pandas takes the format of the first cell, so cells such as 25/04/2024 became missing without a word."""
    order = np.argsort(DATES.dt.day.to_numpy() > 12, kind="stable")
    dates = DATES.iloc[order if early_first else order[::-1]].reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(months(fitted(DATES), dates.dt.strftime(form)), dates.dt.month)


def test_points_put_the_day_first_and_a_polars_frame_has_the_same_dates():
    preparation = fitted(DATES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(months(preparation, EARLY.dt.strftime("%d.%m.%Y")), EARLY.dt.month)
        read = months(preparation, EARLY.dt.strftime("%d.%m.%Y").tolist(), pl.DataFrame)
    np.testing.assert_array_equal(read, EARLY.dt.month)


def test_dates_that_can_be_read_in_two_ways_cause_a_warning():
    text = EARLY.dt.strftime("%d/%m/%Y")
    message = (
        r"Column 'seen' has dates such as '08/02/2023', and no cell shows whether the day or the month comes first. "
        r"They are read with the month first, here 2023-08-02. If 2023-02-08 is right, write the dates in this form"
    )
    with pytest.warns(UserWarning, match=message):
        assert months(fitted(DATES), text)[1] == 8
    with pytest.warns(UserWarning, match=message):  # in a fit as well
        table_preparation().fit(pd.DataFrame({"age": np.arange(100.0), "seen": text}))
    with warnings.catch_warnings():  # the order of the fit is used again, and the fit has warned
        warnings.simplefilter("error")
        months(fitted(text), text)
        assert months(fitted(DATES.dt.strftime("%d/%m/%Y")), ["03/04/2024"]) == [4]
        table_preparation().fit(pd.DataFrame({"age": np.arange(100.0), "seen": DATES.dt.strftime("%d/%m/%Y")}))


@pytest.mark.parametrize("fit", [DATES, DATES.dt.strftime("%Y-%m-%d"), DATES.dt.strftime("%d/%m/%Y")])
def test_numbers_are_not_read_as_dates(fit):
    """Dates as numbers of days were read as nanoseconds since 1970, without a word."""
    days = (DATES - pd.Timestamp("1899-12-30")).dt.days.astype(float)
    days[0] = np.nan
    with pytest.raises(
        ValueError, match=r"'seen' held dates in the fit, but here it holds numbers \(first: 44934.0 in"
    ):
        months(fitted(fit), days)
    assert np.isnan(months(fitted(fit), np.full(3, np.nan))).all()  # an empty column has no type


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("form", ["%d/%m/%Y", "%Y-%m-%d"])
def test_many_cells_that_are_no_dates_are_refused_in_new_rows(form, frame):
    preparation = fitted(DATES.dt.strftime(form))
    order = r" \(in the fit, the day came first\)" if form == "%d/%m/%Y" else ""
    message = rf"here 3 of 3 cells \(100%\) cannot be read as dates{order}: row 1 'soon', row 2"
    with pytest.raises(ValueError, match=message):
        months(preparation, ["soon", "later", "31.02.2024"], frame)
    few = [*DATES.dt.strftime(form), "soon", None, "", "unknown"]
    with pytest.warns(UserWarning, match="1 of its cells is treated as missing: row 101 'soon'"):
        assert np.isnan(months(preparation, few, frame)).sum() == 4
    assert np.isnan(months(preparation, [None, None], frame)).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%y", "%d %b %Y", "%d. %m. %Y, %H:%M", "%Y-%m-%dT%H:%M:%SZ"])
def test_new_rows_may_be_written_in_another_form(form, frame):
    for fit in (DATES, DATES.dt.strftime("%d/%m/%Y"), DATES.dt.date):
        np.testing.assert_array_equal(months(fitted(fit), DATES.dt.strftime(form).tolist(), frame), DATES.dt.month)
    named = pd.Series(DATES.dt.strftime("%d.%m.%Y"), dtype="category")
    np.testing.assert_array_equal(months(fitted(DATES), named), DATES.dt.month)


# --- dates of a fit


def read(cells):
    """Return the prepared years, months and days, and the messages."""
    table, messages, questions = read_texts(pd.DataFrame({"seen": pd.Series(cells), "x": np.arange(float(len(cells)))}))
    assert questions == []
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        made = table_preparation()[:2].fit_transform(table)
    names = [f"seen_{part}" for part in ("year", "month", "day")]
    there = set(names) <= set(made.columns)
    return made[names].to_numpy(float) if there else None, [*messages, *(str(each.message) for each in raised)]


def parts_of(dates):
    dates = pd.Series(dates)
    return np.column_stack([dates.dt.year, dates.dt.month, dates.dt.day])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("form", ["%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%d.%m.%y", "%Y-%m-%d", "%m/%d/%Y %H:%M"])
def test_one_cell_that_is_no_date_does_not_make_a_column_text(form, frame):
    """skrub made categories or parts of words of such columns, without a word."""
    cells = DATES.dt.strftime(form).tolist()
    cells[3], cells[4], cells[5], cells[6] = "last spring", "unbekannt", "00.00.0000", f" {cells[6]} "
    table, (message,), _ = read_texts(frame({"age": np.arange(100.0), "seen": cells}))
    assert message == (
        "Column 'seen' is read as dates. 1 of its cells is treated as missing: row 4 'last spring' (rows are counted "
        "from 1). If the column holds categories, use --text seen, or in Python table['seen'].astype('category')."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if form == "%d.%m.%y" else "error")
        fit = table_preparation()[:2].fit(table)
    expected = DATES.dt.month.astype(float).to_numpy(copy=True)
    expected[3:6] = np.nan
    np.testing.assert_array_equal(np.asarray(fit.transform(table)["seen_month"], dtype=float), expected)


def test_more_cells_that_are_no_dates_leave_the_column_text_with_a_message():
    cells = DATES.dt.strftime("%d.%m.%Y").tolist()
    cells[3], cells[4] = "last spring", "2023-07-01"
    made, (message,) = read(cells)
    assert made is None
    assert not holds_written_dates(pd.Series(cells))
    assert message == (
        "Column 'seen' is read as text: most of its cells are dates, but 2 of 100 are not, or are written in another "
        "way: row 4 'last spring', row 5 '2023-07-01' (rows are counted from 1). If the column holds dates, write all "
        "of them alike, such as 2024-01-31, and leave the other cells empty."
    )
    assert read(["2024-01-31", "A 1", "A 2", "A 3"]) == (None, [])


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y", "%d. %m. %Y", "%d.%m.%Y, %H:%M", "%d.%m.%Y - %H:%M", "%d.%m.%Y %Hh%M", " %d.%m.%Y"]
)
def test_dates_with_points_have_the_day_first(form):
    """Without a day above 12, skrub read 08.02.2023 as the second of August."""
    made, messages = read(EARLY.dt.strftime(form))
    assert messages == []
    np.testing.assert_array_equal(made, parts_of(EARLY))


def test_a_single_cell_shows_the_order():
    """skrub looks at 30 cells only, and made a column of text if one of the others contradicted them."""
    many = pd.concat([EARLY] * 30, ignore_index=True)
    many[1500] = pd.Timestamp("2023-03-25")
    made, messages = read(many.dt.strftime("%d/%m/%Y"))
    assert messages == []
    np.testing.assert_array_equal(made, parts_of(many))


def test_dates_are_found_behind_many_other_cells():
    cells = np.array(["soon"] * 1500 + DATES.dt.strftime("%d.%m.%Y").tolist() * 40, dtype=object)
    assert len(read_dates(cells).unread) == len(read_dates(cells[::-1]).unread) == 1500


@pytest.mark.parametrize(
    "kind", [pd.Timestamp, pd.Timestamp.to_pydatetime, pd.Timestamp.date, pd.Timestamp.to_datetime64]
)
def test_objects_are_dates_also_beside_a_word_for_missing(kind):
    """skrub made text of columns of datetime objects, and of dates beside one text."""
    cells = pd.Series([*map(kind, DATES), "unknown"], dtype=object)
    made, messages = read(cells)
    assert messages == []
    np.testing.assert_array_equal(made[:-1], parts_of(DATES))
    assert np.isnan(made[-1]).all()


@pytest.mark.parametrize(
    "kind", ["date32[day][pyarrow]", "timestamp[us][pyarrow]", "timestamp[us, tz=US/Eastern][pyarrow]"]
)
def test_dates_of_arrow_are_dates(kind):
    made, messages = read(DATES.astype(kind))
    assert messages == []
    written = DATES.dt.tz_localize("UTC").dt.tz_convert("US/Eastern").dt.tz_localize(None) if "tz" in kind else DATES
    np.testing.assert_array_equal(made, parts_of(written))


def test_plain_numbers_in_texts_are_numbers_not_dates():
    """skrub read 20240131, and codes such as 2014, as dates, and new rows were then refused."""
    for form in ("%Y%m%d", "%Y"):
        table, messages, _ = read_texts(pd.DataFrame({"seen": DATES.dt.strftime(form)}))
        assert (table["seen"].dtype.kind, messages) == ("f", [])


def test_months_are_read_with_a_message():
    made, (message,) = read(DATES.dt.strftime("%Y-%m"))
    assert made is not None
    assert message == (
        "Column 'seen' is read as dates with the format %Y-%m. If the column holds categories, use --text seen, or in "
        "Python table['seen'].astype('category')."
    )


def test_years_with_two_digits_are_read_with_a_message():
    made, (message,) = read(["12.05.78", "03.11.49"])
    assert made[:, 0].tolist() == [1978, 2049]
    assert message == (
        "Column 'seen' has years with two digits. They are read as 1969 to 2068, so the dates are from 1978-05-12 to "
        "2049-11-03. If this is wrong, write years with four digits."
    )
    assert "no cell shows whether the day or the month comes first" in read(["12/05/78", "03/11/49"])[1][1]


@settings(max_examples=20)
@given(
    days=st.lists(st.dates(date(1900, 1, 1), date(2100, 1, 1)), min_size=2, max_size=30, unique=True),
    form=st.sampled_from(["%d.%m.%Y", "%Y-%m-%d", "%d %b %Y", "%B %d, %Y", "%Y/%m/%d %H:%M:%S"]),
)
def test_what_is_written_is_read(days, form):
    cells = [each.strftime(form) for each in days]
    assert holds_written_dates(pd.Series(cells))
    np.testing.assert_array_equal(read_dates(cells).dates, np.array(days, dtype="datetime64[us]"))


@pytest.mark.parametrize("zone", ["UTC", "US/Eastern"])
def test_a_time_zone_does_not_enter_the_model_file(zone, tmp_path):
    """Before pandas 3, skrub stored the zone as an object that `scarless.load` does not trust: no file was written."""
    rng = np.random.default_rng(0)
    seen = pd.Series(pd.date_range("2020-01-01", periods=200, freq="7h", tz="UTC")).dt.tz_convert(zone)
    table, s = pd.DataFrame({"age": rng.normal(size=200), "seen": seen}), np.arange(200) % 3 == 0
    model = scarless.TableClassifier(scarless.NaiveClassifier()).fit(table, s)
    scarless.save(model, tmp_path / "model.skops")
    with zipfile.ZipFile(tmp_path / "model.skops") as file:
        assert not any(word in file.read("schema.json") for word in (b"DatetimeTZDtype", b"ZoneInfo", b"timezone"))
    again = scarless.load(tmp_path / "model.skops")
    without = table.assign(seen=seen.dt.tz_localize(None))
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(without))
