"""Dates that are written as text or numbers: the order of day and month, and cells that cannot be read as dates.

The preparation reads dates with skrub, which is silent in three cases: it reads 03/04/2024 with the month first if no
other cell shows the order, it treats cells in another format than in the fit as missing, and it reads numbers as
nanoseconds since 1970. The functions of this module report these cases.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from scarless.checks.labels import is_missing_value
from scarless.outside.notices import warn_user
from scarless.raw.cells import MAX_UNREADABLE_SHARE_NEW_ROWS, listed_cells
from scarless.raw.tables import cells_of, holds_no_numbers, is_text, replaced

DAY, MONTH = "day", "month"  # the first part of a date such as 03/04/2024
_NUMERIC_DATE = re.compile(r"\s*(\d{1,2})([./-])(\d{1,2})\2(\d{4}|(?<!-)\d\d)(?!\d)", re.ASCII)
_FIRST_YEAR_WITH_TWO_DIGITS = 1969  # as in Python: 69 is 1969, and 68 is 2068
_MISSING_WORDS = frozenset({"", "none", "nan", "na", "n/a", "null", "nat", "?", "-", ".", "<na>", "unknown"})


def possible_orders(cells: Any) -> set[str]:
    """Return which part may come first in the dates of a column: the day, the month, or either.

    The set is empty if a cell is not a date such as 03/04/2024, or if no order fits all cells. Dates that are the same
    in both orders, such as 05/05/2024, do not count.

    Examples
    --------
    >>> possible_orders(["03/04/2024", "25/04/2024", None]), sorted(possible_orders(["03/04/2024"]))
    ({'day'}, ['day', 'month'])
    >>> possible_orders(["2024-04-03"]), possible_orders(["05/05/2024"])
    (set(), set())
    """
    found = [_NUMERIC_DATE.match(str(cell)) for cell in _distinct(cells)]
    if not found or not all(found):
        return set()
    pairs = [(int(each[1]), int(each[3])) for each in found if each is not None and int(each[1]) != int(each[3])]
    if not pairs:
        return set()
    orders = set()
    if all(first <= 31 and second <= 12 for first, second in pairs):
        orders.add(DAY)
    if all(first <= 12 and second <= 31 for first, second in pairs):
        orders.add(MONTH)
    return orders


def warn_about_order(X: Any, formats: Mapping[str, str | None]) -> None:
    """Warn about each column of dates in a fit whose cells do not show whether the day or the month comes first.

    `formats` are the formats by which the columns of dates are read; None for columns that hold dates, not text.
    """
    for name in formats:
        if is_text(X[name]) and len(possible_orders(cells_of(X[name]))) > 1:
            _warn_about_either(name, cells_of(X[name]), DAY if str(formats[name]).startswith("%d") else MONTH)


def dates_again(X: Any, formats: Mapping[str, str | None]) -> Any:
    """Return new rows in which texts such as 25/04/2024 are dates, if the column held dates, not text, in the fit.

    Raise if a column that held dates holds numbers. Columns that were text in the fit keep the format of the fit.
    """
    changed = {}
    for name, form in formats.items():
        column = X[name]
        if not holds_no_numbers(column):
            _refuse_numbers(name, column)
        elif form is None and is_text(column) and (orders := possible_orders(cells_of(column))):
            cells = cells_of(column)
            # With points, the day comes first in every country that writes dates in this way.
            first = DAY if DAY in orders and (len(orders) == 1 or "." in str(_distinct(cells)[0])) else MONTH
            if len(orders) > 1 and first == MONTH:
                _warn_about_either(name, cells, first)
            changed[name] = np.array([_date(cell, first) for cell in cells], dtype="datetime64[us]")
    return replaced(X, changed)


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
        number = f"{bad.size:,} of its cells are" if bad.size > 1 else "1 of its cells is"
        warn_user(
            f"Column {name!r} is read as dates{expected}. {number} treated as missing: {listed} (rows are counted from "
            "1).",
            UserWarning,
        )


def _distinct(cells: Any) -> list[Any]:
    """Return the different cells that are not missing, in the order in which they occur."""
    return list(dict.fromkeys(cell for cell in cells if not _is_gap(cell)))


def _is_gap(cell: Any) -> bool:
    return is_missing_value(cell) or (isinstance(cell, str) and cell.strip().casefold() in _MISSING_WORDS)


def _date(cell: Any, first: str) -> np.datetime64:
    """Return a date such as 03/04/2024; a time of the day is left out, because the preparation does not use it."""
    found = None if _is_gap(cell) else _NUMERIC_DATE.match(str(cell))
    if found is None:
        return np.datetime64("NaT")
    day, month = (found[1], found[3]) if first == DAY else (found[3], found[1])
    year = int(found[4]) if len(found[4]) == 4 else _year_of(int(found[4]))
    try:
        return np.datetime64(f"{year:04d}-{int(month):02d}-{int(day):02d}")
    except ValueError:  # such as 31/02/2024
        return np.datetime64("NaT")


def _year_of(two_digits: int) -> int:
    return (two_digits - _FIRST_YEAR_WITH_TWO_DIGITS) % 100 + _FIRST_YEAR_WITH_TWO_DIGITS


def _warn_about_either(name: str, cells: Any, first: str) -> None:
    example = next(cell for cell in _distinct(cells) if _date(cell, DAY) != _date(cell, MONTH))
    here, other = (_date(example, each) for each in ((DAY, MONTH) if first == DAY else (MONTH, DAY)))
    warn_user(
        f"Column {name!r} has dates such as {str(example)!r}, and no cell shows whether the day or the month comes "
        f"first. They are read with the {first} first, here {here}. If {other} is right, write the dates in this form, "
        "with the year first.",
        UserWarning,
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
