"""Dates that are written as text: their forms, the order of day and month, and cells that are no dates.

The preparation encodes dates with skrub, but the functions of this module read them. skrub reads 03/04/2024 and
03.04.2024 with the month first if a sample of cells does not show the order, and leaves a column as text if its guess
does not fit one cell, without a message in either case.

A column holds dates if at least half of its cells are dates in one form: 2024-01-31, 31.01.2024, 01/31/2024,
31 Jan 2024 and the like, with or without a time of the day, which is ignored like its time zone. In a fit, one other
cell, or up to 1% of other cells, are treated as missing; with more, the column stays text, and a message says so.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.labels import is_missing_value
from scarless.outside.notices import warn_user
from scarless.outside.shell_words import quoted
from scarless.raw.cells import (
    MAX_UNREADABLE_SHARE,
    MAX_UNREADABLE_SHARE_NEW_ROWS,
    MIN_NUMBER_SHARE,
    MISSING_WORDS,
    cells_of,
    holds_no_numbers,
    is_text,
    listed_cells,
)

DAY, MONTH, YEAR = "day", "month", "year"  # the first part of a date such as 03/04/2024 or 2024-04-03
_NAMED = "name"  # form of a date with the name of its month
_TIME = (
    r"(?:(?:,?\s*T|,?\s+[-–]\s+|[,\s]+(?:(?:at|um)\s+)?)\d{1,2}(?:(?:[:.h]\d\d){1,2}h?(?:[.,]\d+)?|h|\d\d)?"
    r"(?:\s*[ap]\.?m\.?)?(?:\s*uhr)?(?:\s*(?:[a-z]{1,4}|[+-]\d\d:?\d\d))?)?\s*"
)
_NUMERIC_DATE = re.compile(
    r"\s*(\d{1,2})(?:\s*([./-])\s*(\d{1,2})\s*\2\s*(\d{4}|(?<!-)\d\d)\.?|\s(\d{1,2})\s((?:1[89]|2[01])\d\d))" + _TIME,
    re.IGNORECASE,
)
_DATE_WITH_YEAR_FIRST = re.compile(r"\s*(\d{4})\s*([./-])\s*(\d{1,2})\s*\2\s*(\d{1,2})\.?" + _TIME, re.IGNORECASE)
_SEPARATOR = r"(?:\s*[.,/-]\s*|\s*)"
_DAY_AND_NAME = re.compile(
    rf"\s*(\d{{1,2}})(?:st|nd|rd|th)?{_SEPARATOR}([^\W\d_]{{3,9}}){_SEPARATOR}(\d{{4}}|\d\d){_TIME}", re.IGNORECASE
)
_NAME_AND_DAY = re.compile(
    rf"\s*([^\W\d_]{{3,9}}){_SEPARATOR}(\d{{1,2}})(?:st|nd|rd|th)?[\s,]+(\d{{4}}){_TIME}", re.IGNORECASE
)
_ZERO_DATE = re.compile(r"0+([./-])0+\1 ?0+" + _TIME, re.IGNORECASE)  # 0000-00-00, a missing date in databases
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar", "feb february februar", "mar march mär märz mrz", "apr april", "may mai",
            "jun june juni", "jul july juli", "aug august", "sep sept september", "oct october okt oktober",
            "nov november", "dec december dez dezember",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_FIRST_YEAR_WITH_TWO_DIGITS = 1969  # as in Python: 69 is 1969, and 68 is 2068
_N_CELLS_TRIED = 1000  # cells of a column; if none of them is a date, the others are not read


class DateReading(NamedTuple):
    """A column, most of whose cells are dates."""

    cells: NDArray[Any]  # as they are in the table
    dates: NDArray[Any]  # datetime64, without the time of the day; NaT for a cell that is missing or is no date
    unread: list[tuple[int, str, float]]  # row (from 0), cell and NaN for each cell that is no date
    n_cells: int  # cells that are not missing
    first: str  # DAY, MONTH or YEAR
    example: str  # a date that is another date if day and month change places; "" if a cell shows the order
    has_short_years: bool
    may_be_versions: bool  # whether all cells are like 1.2.10: no leading zero, and no year with four digits

    @property
    def stays_text(self) -> bool:
        """Whether too many cells are no dates for reading the column as dates in a fit."""
        return len(self.unread) > max(1.0, MAX_UNREADABLE_SHARE * self.n_cells)

    def without_other_cells(self) -> list[Any] | None:
        """Return the cells, with None for those that are no dates; None if all cells are dates or missing."""
        other = [row for row in np.flatnonzero(np.isnat(self.dates)) if not is_missing_value(self.cells[row])]
        if not other:
            return None
        cells = self.cells.copy()
        cells[other] = None
        return cells.tolist()

    def messages_about_cells(self, name: str) -> list[str]:
        """Return a message about the cells that are no dates, if there are any."""
        listed, n = f"{listed_cells(self.unread)} (rows are counted from 1)", len(self.unread)
        if self.stays_text:
            return [
                f"Column {name!r} is read as text: most of its cells are dates, but {n:,} of {self.n_cells:,} are not, "
                f"or are written in another way: {listed}. If the column holds dates, write all of them alike, such as "
                "2024-01-31, and leave the other cells empty."
            ]
        return [f"{_message_about_unread(name, n, listed)} {_if_categories(name)}"] if n else []

    def question_of(self, name: str) -> str:
        """Return the question whether a column holds dates or numbers of versions."""
        cell = next(str(self.cells[row]) for row in np.flatnonzero(~np.isnat(self.dates)))
        return (
            f"Does column {name!r} hold dates? Its cells, such as {cell!r}, may be dates with years of two digits, or "
            "numbers of versions or sections. If they are dates, write them with years of four digits, such as "
            f"31.01.2024. Otherwise use --text {quoted(name)}, or in Python table[{name!r}].astype('category')."
        )

    def messages_about_dates(self, name: str) -> list[str]:
        """Return messages about dates that can be read in two ways."""
        found = []
        if self.has_short_years:
            there = self.dates[~np.isnat(self.dates)].astype("datetime64[D]")
            found.append(
                f"Column {name!r} has years with two digits. They are read as {_FIRST_YEAR_WITH_TWO_DIGITS} to "
                f"{_FIRST_YEAR_WITH_TWO_DIGITS + 99}, so the dates are from {there.min()} to {there.max()}. If this is "
                "wrong, write years with four digits."
            )
        if self.example and self.first == MONTH:
            day, month = (_date(_parts(self.example), first) for first in (DAY, MONTH))
            found.append(
                f"Column {name!r} has dates such as {self.example!r}, and no cell shows whether the day or the month "
                f"comes first. They are read with the month first, here {month}. If {day} is right, write the dates in "
                "this form, with the year first."
            )
        return found


class _Parts(NamedTuple):
    """A cell that may be a date, taken apart."""

    form: str  # YEAR, _NAMED, or the separator of a date such as 31.01.2024; "" for a cell that is no date
    numbers: tuple[str, str, str] = ("", "", "")  # in the order of the cell; for _NAMED year, month and day


def read_dates(cells: Any, first: str = "") -> DateReading | None:
    """Return the dates of a column of texts; None unless at least half of the cells that are not missing are dates.

    `first` says whether the day or the month comes first in dates such as 03/04/2024. By default, the cells show it. If
    they do not, it is the day in 03.04.2024, because every country that writes dates with points does so, and
    otherwise the month.

    Examples
    --------
    >>> found = read_dates(["03.04.2024", "soon", None, "12.05.2024 10:30"])
    >>> found.dates.astype("datetime64[D]").astype(str).tolist(), found.unread, found.first
    (['2024-04-03', 'NaT', 'NaT', '2024-05-12'], [(1, 'soon', nan)], 'day')
    >>> read_dates(["A 12", "2024-01-31", "B 7"]) is None
    True
    """
    some = _distinct(cells[:: max(1, len(cells) // _N_CELLS_TRIED)])
    if some and not any(_parts(cell).form for cell in some):
        return None
    parts = {cell: _parts(cell) for cell in _distinct(cells)}
    n_of_form = Counter(each.form for each in parts.values() if each.form)
    if not n_of_form:
        return None
    form = max(n_of_form, key=n_of_form.__getitem__)
    alike = {each for each in parts.values() if each.form == form}
    orders = (YEAR,) if form in {YEAR, _NAMED} else (DAY, MONTH)
    read = {order: {each: found for each in alike if (found := _date(each, order)) is not None} for order in orders}
    either = len(orders) == 2 and not first and len(read[DAY]) == len(read[MONTH])
    if len(orders) == 1:
        first = YEAR
    elif first not in orders:
        first = DAY if len(read[DAY]) >= len(read[MONTH]) + (form != ".") else MONTH
    of_cell = {cell: read[first].get(each) for cell, each in parts.items()}
    dates = np.array([of_cell.get(cell) for cell in cells], dtype="datetime64[us]")
    filled = np.array([cell in parts for cell in cells], dtype=bool)
    unread, n_cells = np.flatnonzero(filled & np.isnat(dates)), int(filled.sum())
    if unread.size > (1.0 - MIN_NUMBER_SHARE) * n_cells:
        return None
    both = read[DAY].keys() & read[MONTH].keys() if either else set()
    return DateReading(
        cells=np.asarray(cells, dtype=object),
        dates=dates,
        unread=[(int(row), str(cells[row]), np.nan) for row in unread],
        n_cells=n_cells,
        first=first,
        example=next(
            (cell for cell, each in parts.items() if each in both and read[DAY][each] != read[MONTH][each]), ""
        ),
        may_be_versions=form == "." and not any(len(each.numbers[2]) == 4 or _is_padded(each) for each in alike),
        has_short_years=any(len(each.numbers[-1 if form != _NAMED else 0]) == 2 for each in alike if form != YEAR),
    )


def holds_written_dates(column: Any) -> bool:
    """Return whether a column of a data frame holds texts that are read as dates in a fit."""
    found = read_dates(cells_of(column)) if is_text(column) else None
    return found is not None and not found.stays_text


def dates_of_fit(X: Any) -> dict[str, DateReading]:
    """Return the columns of texts, of dates of Arrow and of dates with a time zone that are read as dates in a fit."""
    wanted = [name for name in X.columns if is_text(X[name]) or is_of_arrow(X[name]) or has_zone(X[name])]
    found = {name: read_dates(cells_of(X[name])) for name in wanted}
    return {name: each for name, each in found.items() if each is not None and not each.stays_text}


def dates_again(X: Any, formats: Mapping[str, str | None], orders: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of new rows that must be read as dates, because they held dates in the fit.

    Columns of a type of dates are left out, and so are columns with a format, because skrub reads them. Raise if a
    column holds numbers. `orders` says, for columns that were texts in the fit, which part of a date came first.
    """
    changed: dict[str, Any] = {}
    for name, form in formats.items():
        column = X[name]
        if not holds_no_numbers(column):
            _refuse_numbers(name, column)
        if form is None and (is_of_arrow(column) or has_zone(column) or not _is_of_dates(column)):
            cells = cells_of(column)
            order = orders.get(name, "")
            found = read_dates(cells, "" if order == YEAR else order)
            changed[name] = np.full(len(cells), "NaT", dtype="datetime64[us]") if found is None else found.dates
            if found is not None and found.example:
                for message in found._replace(has_short_years=False).messages_about_dates(name):
                    warn_user(message, UserWarning)
    return changed


def _is_of_dates(column: Any) -> bool:
    return str(column.dtype).lower().startswith(("datetime", "date", "timestamp"))


def message_about_format(name: str, form: str) -> str:
    """Return the message that skrub read a column of texts, such as 2024-05, as dates."""
    return f"Column {name!r} is read as dates with the format {form}. {_if_categories(name)}"


def refuse_unread(
    X: Any,
    parts: Any,
    outputs: Mapping[str, list[str]],
    formats: Mapping[str, str | None],
    orders: Mapping[str, str],
) -> None:
    """Raise if more than 5% of the filled cells of a column of dates could not be read; warn if there are fewer.

    `parts` is the output of the preparation, before missing values are filled, and `outputs` has the names of its
    columns for each raw column. `orders` is as in `dates_again`.
    """
    for name, form in formats.items():
        if not outputs.get(name):
            continue
        unread = np.isnan(np.asarray(parts[outputs[name][0]], dtype=np.float64))
        if not unread.any():
            continue
        cells = cells_of(X[name])
        filled = np.array([not _is_gap(cell) for cell in cells], dtype=bool)
        bad = np.flatnonzero(unread & filled)
        if not bad.size:
            continue
        listed = listed_cells([(int(row), str(cells[row]), np.nan) for row in bad])
        expected = f" (in the fit, the {orders[name]} came first)" if orders.get(name) in {DAY, MONTH} else ""
        expected = expected if form is None else f" (in the fit, they had the format {form})"
        share = bad.size / filled.sum()
        if share > MAX_UNREADABLE_SHARE_NEW_ROWS:
            raise ValueError(
                f"Column {name!r} held dates in the fit, but here {bad.size:,} of {filled.sum():,} cells ({share:.0%}) "
                f"cannot be read as dates{expected}: {listed} (rows are counted from 1). Only up to "
                f"{MAX_UNREADABLE_SHARE_NEW_ROWS:.0%} are treated as missing. Write the dates as in the fit."
            )
        message = _message_about_unread(str(name), bad.size, f"{listed} (rows are counted from 1)", expected)
        warn_user(message, UserWarning)


def _distinct(cells: Any) -> list[Any]:
    """Return the different cells that are not missing, in the order in which they occur."""
    return [cell for cell in dict.fromkeys(cells) if not _is_gap(cell)]


def _is_gap(cell: Any) -> bool:
    if not isinstance(cell, str):
        return bool(is_missing_value(cell))
    return cell.strip().casefold() in MISSING_WORDS or _ZERO_DATE.fullmatch(cell.strip()) is not None


def is_of_arrow(column: Any) -> bool:
    """Return whether a column holds dates of a type of Arrow."""
    return _is_of_dates(column) and str(column.dtype).endswith("[pyarrow]")


def has_zone(column: Any) -> bool:
    """Return whether a column holds dates of pandas with a time zone.

    skrub would store the zone in the model. `scarless.load` does not trust the classes of zones before pandas 3.
    """
    return str(column.dtype).startswith("datetime64[") and "," in str(column.dtype)


def _parts(cell: Any) -> _Parts:
    if isinstance(cell, date | np.datetime64):
        cell = str(cell)[:10]
    if not isinstance(cell, str):
        return _Parts("")
    if found := _DATE_WITH_YEAR_FIRST.fullmatch(cell):
        return _Parts(YEAR, (found[1], found[3], found[4]))
    if found := _NUMERIC_DATE.fullmatch(cell):
        return _Parts(found[2] or " ", (found[1], found[3] or found[5], found[4] or found[6]))
    if found := _DAY_AND_NAME.fullmatch(cell):
        day, name, year = found.groups()
    elif found := _NAME_AND_DAY.fullmatch(cell):
        name, day, year = found.groups()
    month = _MONTHS.get(name.casefold()) if found else None
    return _Parts("") if month is None else _Parts(_NAMED, (year, str(month), day))


def _is_padded(parts: _Parts) -> bool:
    """Return whether the day or the month of a date has a leading zero."""
    return any(number.startswith("0") for number in parts.numbers[:2])


def _date(parts: _Parts, first: str) -> np.datetime64 | None:
    """Return a date; None for 31/02/2024 and the like."""
    a, b, c = parts.numbers
    year, month, day = (a, b, c) if first == YEAR else (c, b, a) if first == DAY else (c, a, b)
    full_year = int(year) if len(year) == 4 else _year_of(int(year))
    try:
        return np.datetime64(f"{full_year:04d}-{int(month):02d}-{int(day):02d}")
    except ValueError:
        return None


def _year_of(two_digits: int) -> int:
    return (two_digits - _FIRST_YEAR_WITH_TWO_DIGITS) % 100 + _FIRST_YEAR_WITH_TWO_DIGITS


def _if_categories(name: str) -> str:
    return (
        f"If the column holds categories, use --text {quoted(name)}, or in Python table[{name!r}].astype('category')."
    )


def _message_about_unread(name: str, n: int, listed: str, expected: str = "") -> str:
    number = f"{n:,} of its cells are" if n > 1 else "1 of its cells is"
    return f"Column {name!r} is read as dates{expected}. {number} treated as missing: {listed}."


def _refuse_numbers(name: str, column: Any) -> None:
    cells = cells_of(column)
    there = [row for row, cell in enumerate(cells) if not is_missing_value(cell)]
    if there:
        raise ValueError(
            f"Column {name!r} held dates in the fit, but here it holds numbers (first: {cells[there[0]]} in row "
            f"{there[0] + 1}, counted from 1). A spreadsheet stores dates as numbers of days: format the cells as "
            "dates, or write the dates as 2024-01-31."
        )
