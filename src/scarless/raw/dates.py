"""Dates that are written as text or numbers: the order of day and month, and cells that cannot be read as dates.

The preparation reads dates with skrub, which is silent in five cases: it reads 03/04/2024 and 03.04.2024 with the month
first if no other cell shows the order, a single cell that is no date makes the column text, dates with two digits for
the year are text, cells in another format than in the fit are missing, and numbers are nanoseconds since 1970. The
functions of this module read such dates, or report them.

A column holds dates if at least half of its cells are dates in one form: 2024-01-31, 31.01.2024, 01/31/2024 and the
like, with or without a time of the day. In a fit, one other cell, or up to 1% of other cells, are treated as missing;
with more, the column stays text, and a message says so.
"""

import re
from collections import Counter
from collections.abc import Mapping
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
_TIME = r"(?:(?:\s+|T)\d{1,2}(?::\d\d){1,2}(?:[.,]\d+)?(?:\s*[ap]m)?\s*(?:z|utc|[+-]\d\d:?\d\d)?)?\s*"
_NUMERIC_DATE = re.compile(r"\s*(\d{1,2})([./-])(\d{1,2})\2(\d{4}|(?<!-)\d\d)" + _TIME, re.ASCII | re.IGNORECASE)
_DATE_WITH_YEAR_FIRST = re.compile(r"\s*(\d{4})([./-])(\d{1,2})\2(\d{1,2})" + _TIME, re.ASCII | re.IGNORECASE)
_ZERO_DATE = re.compile(r"0+([./-])0+\1 ?0+" + _TIME, re.ASCII)  # 0000-00-00, a missing date in databases
_DIGITS = re.compile(r"\d+")
_FIRST_YEAR_WITH_TWO_DIGITS = 1969  # as in Python: 69 is 1969, and 68 is 2068
_N_CELLS_TRIED = 1000  # of a column; if they are filled, and none of them is a date, the others are not read


class DateReading(NamedTuple):
    """A column of texts, most of which are dates."""

    cells: NDArray[Any]
    dates: NDArray[Any]  # datetime64, without the time of the day; NaT for a cell that is missing or is no date
    unread: list[tuple[int, str, float]]  # row (from 0), cell and NaN for each cell that is no date
    n_cells: int  # cells that are not missing
    first: str  # DAY, MONTH or YEAR
    example: str  # a date that is another date if day and month change places; "" if a cell shows the order
    has_short_years: bool
    has_one_form: bool  # whether all times of the day are written alike

    @property
    def stays_text(self) -> bool:
        """Whether too many cells are no dates for reading the column as dates in a fit."""
        return len(self.unread) > max(1.0, MAX_UNREADABLE_SHARE * self.n_cells)

    @property
    def values(self) -> Any:
        """The column for the preparation.

        These are the texts without cells that are no dates, if the preparation reads them in the same way. It then
        remembers how they are written. Otherwise they are the dates.
        """
        if self.has_short_years or not self.has_one_form or (self.example and self.first == DAY):
            return self.dates
        return [None if np.isnat(date) else cell for cell, date in zip(self.cells, self.dates, strict=True)]

    def messages(self, name: str) -> list[str]:
        """Return messages for a fit: what is not obvious about the dates, or why the column is text."""
        listed = f"{listed_cells(self.unread)} (rows are counted from 1)"
        n = len(self.unread)
        if self.stays_text:
            return [
                f"Column {name!r} is read as text: most of its cells are dates, but {n:,} of {self.n_cells:,} are not, "
                f"or are written in another way: {listed}. If the column holds dates, write all of them alike, such as "
                "2024-01-31, and leave the other cells empty."
            ]
        found = []
        if n:
            found.append(
                f"{_message_about_unread(name, n, listed)} If the column holds categories, use --text {quoted(name)}, "
                f"or in Python table[{name!r}].astype('category')."
            )
        if self.has_short_years:
            there = self.dates[~np.isnat(self.dates)].astype("datetime64[D]")
            found.append(
                f"Column {name!r} has years with two digits. They are read as {_FIRST_YEAR_WITH_TWO_DIGITS} to "
                f"{_FIRST_YEAR_WITH_TWO_DIGITS + 99}, so the dates are from {there.min()} to {there.max()}. If this is "
                "wrong, write years with four digits."
            )
        if self.has_short_years and self.example and self.first == MONTH:
            found.append(_message_about_order(name, self.example, MONTH))
        return found


def read_dates(cells: Any) -> DateReading | None:
    """Return the dates of a column of texts; None unless at least half of the cells that are not missing are dates.

    If no cell shows whether the day or the month comes first, it is the day in 03.04.2024, because every country that
    writes dates with points does so, and the month in 03/04/2024 and 03-04-2024.

    Examples
    --------
    >>> found = read_dates(["03.04.2024", "soon", None, "12.05.2024"])
    >>> found.dates.astype("datetime64[D]").astype(str).tolist(), found.unread, found.first
    (['2024-04-03', 'NaT', 'NaT', '2024-05-12'], [(1, 'soon', nan)], 'day')
    >>> read_dates(["A 12", "2024-01-31", "B 7"]) is None
    True
    """
    distinct = _distinct(cells[:_N_CELLS_TRIED])
    if distinct and not any(isinstance(cell, str) and _form(cell) for cell in distinct):
        return None
    distinct = _distinct(cells)
    if not distinct or not all(isinstance(cell, str) for cell in distinct):
        return None
    forms = {cell: _form(cell) for cell in distinct}
    form = max(filter(None, forms.values()), key=Counter(forms.values()).__getitem__, default="")
    alike = [cell for cell in distinct if form and forms[cell] == form]
    orders = (YEAR,) if form == YEAR else (DAY, MONTH)
    read = {first: {cell: date for cell in alike if (date := _date(cell, first)) is not None} for first in orders}
    first = YEAR if form == YEAR else DAY if len(read[DAY]) >= len(read[MONTH]) + (form != ".") else MONTH
    dates = np.array([read[first].get(cell) for cell in cells], dtype="datetime64[us]")
    filled = np.array([cell in forms for cell in cells], dtype=bool)
    unread = np.flatnonzero(filled & np.isnat(dates))
    n_cells = int(filled.sum())
    if unread.size > (1.0 - MIN_NUMBER_SHARE) * n_cells:
        return None
    same = form != YEAR and len(read[DAY]) == len(read[MONTH])
    either = [
        cell for cell, date in read[first].items() if same and read[MONTH].get(cell, date) != read[DAY].get(cell, date)
    ]
    return DateReading(
        cells=np.asarray(cells, dtype=object),
        dates=dates,
        unread=[(int(row), cells[row], np.nan) for row in unread],
        n_cells=n_cells,
        first=first,
        example=either[0] if either else "",
        has_short_years=any((found := _NUMERIC_DATE.fullmatch(cell)) and len(found[4]) == 2 for cell in alike),
        has_one_form=len({_DIGITS.sub("0", cell.strip()) for cell in alike}) == 1,
    )


def holds_written_dates(column: Any) -> bool:
    """Return whether a column of a data frame holds texts that are read as dates in a fit."""
    found = read_dates(cells_of(column)) if is_text(column) else None
    return found is not None and not found.stays_text


def warn_about_order(X: Any, formats: Mapping[str, str | None]) -> None:
    """Warn about each column of dates in a fit whose cells do not show whether the day or the month comes first.

    `formats` are the formats by which the columns of dates are read; None for columns that hold dates, not text.
    """
    for name, form in formats.items():
        found = read_dates(cells_of(X[name])) if is_text(X[name]) else None
        if found is not None and found.example:
            first = DAY if str(form).startswith("%d") else MONTH
            warn_user(_message_about_order(name, found.example, first), UserWarning)


def dates_again(X: Any, formats: Mapping[str, str | None]) -> dict[str, Any]:
    """Return, for new rows, the columns of texts that held dates, not text, in the fit, as dates.

    Raise if a column that held dates holds numbers. Columns that were text in the fit keep the format of the fit.
    """
    changed = {}
    for name, form in formats.items():
        column = X[name]
        if not holds_no_numbers(column):
            _refuse_numbers(name, column)
        elif form is None and is_text(column) and (found := read_dates(cells_of(column))) is not None:
            if found.example and found.first == MONTH:
                warn_user(_message_about_order(name, found.example, MONTH), UserWarning)
            changed[name] = found.dates
    return changed


def refuse_unread(X: Any, parts: Any, outputs: Mapping[str, list[str]], formats: Mapping[str, str | None]) -> None:
    """Raise if more than 5% of the filled cells of a column of dates could not be read; warn if there are fewer.

    `parts` is the output of the preparation, before missing values are filled, and `outputs` has the names of its
    columns for each raw column.
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
        expected = "" if form is None else f" (in the fit, they had the format {form})"
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


def _form(cell: str) -> str:
    """Return how a date is written: YEAR if the year comes first, otherwise its separator; "" if it is no date."""
    if _DATE_WITH_YEAR_FIRST.fullmatch(cell):
        return YEAR
    found = _NUMERIC_DATE.fullmatch(cell)
    return found[2] if found else ""


def _date(cell: str, first: str) -> np.datetime64 | None:
    """Return a date without the time of the day, which the preparation does not use; None for 31/02/2024."""
    found = (_DATE_WITH_YEAR_FIRST if first == YEAR else _NUMERIC_DATE).fullmatch(cell)
    assert found is not None
    parts = found[1], found[3], found[4]
    year, month, day = parts if first == YEAR else parts[::-1] if first == DAY else (parts[2], parts[0], parts[1])
    full_year = int(year) if len(year) == 4 else _year_of(int(year))
    try:
        return np.datetime64(f"{full_year:04d}-{int(month):02d}-{int(day):02d}")
    except ValueError:
        return None


def _year_of(two_digits: int) -> int:
    return (two_digits - _FIRST_YEAR_WITH_TWO_DIGITS) % 100 + _FIRST_YEAR_WITH_TWO_DIGITS


def _message_about_unread(name: str, n: int, listed: str, expected: str = "") -> str:
    number = f"{n:,} of its cells are" if n > 1 else "1 of its cells is"
    return f"Column {name!r} is read as dates{expected}. {number} treated as missing: {listed}."


def _message_about_order(name: str, example: str, first: str) -> str:
    here, other = (_date(example, each) for each in ((DAY, MONTH) if first == DAY else (MONTH, DAY)))
    return (
        f"Column {name!r} has dates such as {example!r}, and no cell shows whether the day or the month comes first. "
        f"They are read with the {first} first, here {here}. If {other} is right, write the dates in this form, with "
        "the year first."
    )


def _refuse_numbers(name: str, column: Any) -> None:
    cells = cells_of(column)
    there = [row for row, cell in enumerate(cells) if not is_missing_value(cell)]
    if there:
        raise ValueError(
            f"Column {name!r} held dates in the fit, but here it holds numbers (first: {cells[there[0]]} in row "
            f"{there[0] + 1}, counted from 1). A spreadsheet stores dates as numbers of days: format the cells as "
            "dates, or write the dates as 2024-01-31."
        )
