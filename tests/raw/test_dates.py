"""Dates in new rows: the order of day and month, other formats, numbers, and cells that are not dates."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scarless.raw.dates import possible_orders
from scarless.raw.preparation import table_preparation

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
    ("cells", "orders"),
    [
        (["03/04/2024", "25/04/2024", None, ""], {"day"}),
        (["03/04/2024", "04/25/2024"], {"month"}),
        (["03/04/2024", "1.2.2024", "03-04-24"], set()),
        (["03/04/2024", "11/12/24 13:45"], {"day", "month"}),
        (["25/04/2024", "04/25/2024"], set()),
        (["05/05/2024"], set()),
        (["2024-04-03"], set()),
        (["24-04-03"], set()),
        ([None], set()),
    ],
    ids=["day", "month", "other", "either", "contradiction", "same", "iso", "short iso", "empty"],
)
def test_the_order_of_day_and_month_follows_from_all_cells(cells, orders):
    assert possible_orders(cells) == orders


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
    with warnings.catch_warnings():  # the format of the fit is used again, and the fit has warned
        warnings.simplefilter("error")
        months(fitted(text), text)
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


def test_cells_in_another_format_than_in_the_fit_are_refused_if_there_are_many():
    preparation = fitted(DATES.dt.strftime("%d/%m/%Y"))
    message = (
        r"here 100 of 100 cells \(100%\) cannot be read as dates \(in the fit, they had the format %d/%m/%Y\): row 1"
    )
    with pytest.raises(ValueError, match=message):
        months(preparation, DATES.dt.strftime("%Y-%m-%d"))
    few = DATES.dt.strftime("%d/%m/%Y").copy()
    few[4], few[5], few[6] = "soon", None, ""
    with pytest.warns(UserWarning, match="1 of its cells is treated as missing: row 5 'soon'"):
        assert np.isnan(months(preparation, few)).sum() == 3
