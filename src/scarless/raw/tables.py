"""Raw data frames: numbers that are written as text are read as numbers.

How a cell is read:

- plain numbers (``12``, ``1.5``, ``2e3``): the number;
- a limit (``<5``, ``>90``, ``<= 5``): the limit, 5 or 90, which is the closest known value;
- a decimal comma (``1,5``) or grouped thousands (``1 234``, ``1,234,567``, ``1.234,5``): the number. ``1,234`` is
  ambiguous. The other cells decide between thousands and decimals; if they allow both, the cell is missing. If all
  cells are ambiguous, they are thousands, and a message lists some of them. ``1.234`` is 1234 if other cells are like
  ``1.234.567``;
- a unit, currency or per cent (``120 mmHg``, ``$3.50``, ``12%``): the number, if the column has a single unit and the
  number is in the range of the other numbers. 12% among numbers between 0 and 1 is 0.12;
- words for a missing value (``n/a``, ``-``, ``?``, ``unknown``): missing;
- everything else: unreadable, and treated as missing.

A column stays text if cells that are not numbers have a meaning: ranges (``5+``, ``10-20``) or codes (``A12``).
"""

import math
import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scarless.checks.attributes import with_text_names
from scarless.checks.labels import is_missing_value
from scarless.checks.tables import refuse_lazy_query
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.shell_words import quoted

MAX_UNREADABLE_SHARE = 0.01  # of the cells in a fit; if more are unreadable, the user must choose number or text
MAX_UNREADABLE_SHARE_NEW_ROWS = 0.05  # of the cells of new rows; if more are unreadable, an error is raised
MAX_CELL = float(np.finfo(np.float32).max)  # the preparation uses single precision
MIN_NUMBER_SHARE = 0.5  # of the cells; a column with fewer numbers is text, without a message
MIN_CODE_SHARE = 0.005  # of the cells; a column with more ranges or codes is text
MAX_CODE_SHARE_WITH_MESSAGE = 0.05  # of the cells; with fewer codes, a message reports that the column stays text
MAX_CODED_CATEGORIES = 12  # different numbers up to which a column may hold categories coded as numbers
# A number of new rows is far outside the range of the fit if it is outside by more than this many times its width.
FAR_OUTSIDE = 2.0
THOUSANDS_MARGIN = 0.1  # share of the range of the other cells by which a reading of 1,234 may be outside that range
_MAX_CELLS_SHOWN = 12  # cells listed in a message
_MAX_NUMBER_LENGTH = 40  # characters
_FIRST_INEXACT_INTEGER = 2**53  # float64 cannot represent every integer above this one

_MISSING_WORDS = frozenset(
    {"", "-", "--", "---", "–", "—", ".", "..", "...", "?", "??", "*", "na", "n/a", "n.a.", "n.a", "n. a.", "nan",
     "null", "none", "missing", "unknown", "unk", "not available", "not known", "not applicable", "not done", "nd",
     "n.d.", "nr", "k.a.", "k. a.", "keine angabe", "unbekannt", "inconnu", "desconocido", "blank", "empty", "<na>",
     "(null)", "#n/a", "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!", "nat"}
)  # fmt: skip
_UNITS = frozenset(
    {"%", "°", "°c", "°f", "c", "f", "k", "kg", "g", "mg", "µg", "ug", "ng", "lb", "lbs", "oz", "st", "t", "km", "m",
     "cm", "mm", "µm", "nm", "mi", "ft", "in", '"', "'", "l", "dl", "cl", "ml", "µl", "s", "sec", "min", "h", "hr",
     "hrs", "d", "days", "day", "w", "weeks", "months", "y", "yr", "yrs", "yo", "years", "year", "bpm", "mmhg", "kpa",
     "pa", "hpa", "bar", "iu", "u", "mol", "mmol", "mmol/l", "µmol/l", "mg/dl", "g/dl", "g/l", "mg/l", "u/l", "iu/l",
     "ng/ml", "kg/m2", "kg/m²", "m/s", "km/h", "mph", "kw", "kwh", "v", "a", "hz", "khz", "mhz", "ghz", "mb", "gb",
     "kb", "kcal", "cal", "j", "kj", "x", "€", "$", "£", "¥", "eur", "usd", "gbp", "chf"}
)  # fmt: skip
_SPACES = re.compile("[\u00a0\u2007\u2009\u202f]")
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
_CODE = re.compile(r"[+-]?0\d[^.]*|\+\d{7,}", re.ASCII)  # such as 00123 or a telephone number, +491701234567
_BODY = r"[+-]?(?:\d[\d.,'’ ]*\d|\d)(?:[eE][+-]?\d+)?|[+-]?[.,]\d+"
_LIMIT = re.compile(r"(?:<=|>=|=<|=>|[<>≤≥])\s*(?P<rest>.+)", re.ASCII)
_ABOUT = re.compile(r"(?:~|≈|ca\.?|approx\.?)\s*(?P<rest>.+)", re.ASCII | re.IGNORECASE)
_BEFORE = re.compile(rf"(?P<unit>[$€£¥]|USD|EUR|GBP|CHF)\s*(?P<body>{_BODY})", re.ASCII)
_BEHIND = re.compile(rf"(?P<body>{_BODY})(?P<space>\s*)(?P<unit>[^\d\s.,+\-<>=()][^\s,+<>=()]{{0,11}})", re.ASCII)
_RANGE = re.compile(rf"(?:{_BODY})\s*\+|(?:{_BODY})\s*(?:-|–|to|bis)\s*(?:{_BODY})", re.ASCII)
_POINTED_MILLIONS, _POINTED_THOUSANDS = re.compile(r"-?\d{1,3}(?:\.\d{3}){2,}"), re.compile(r"-?\d{1,3}\.\d{3}")
_LETTERED = re.compile(r"[^\W\d_]{1,5}[-./ ]*\d[\w./-]*|\d+[^\W\d_]{1,3}\d*", re.UNICODE)


class NumberRange(NamedTuple):
    """Range of the unambiguous numbers of a column, used to read the ambiguous cells."""

    low: float
    high: float
    whole: bool  # whether all numbers are integers

    def holds(self, value: float, margin: float = 1.0) -> bool:
        """Return whether a number is in the range, widened on both sides by `margin` times its width."""
        return bool(self.within(np.float64(value), margin))

    def within(self, values: Any, margin: float) -> Any:
        """Return which numbers `holds` accepts."""
        beyond = margin * (self.high - self.low)
        return (self.low - beyond <= values) & (values <= self.high + beyond) | (not self.high > self.low)


_TWO_CODES = (NumberRange(0.0, 1.0, True), NumberRange(1.0, 2.0, True))  # usual codes for two categories


class CellReading(NamedTuple):
    """Possible readings of one cell as a number, the most likely first."""

    form: str  # plain, zeros (007), comma, either, number, unit, percent, missing, range, code, unreadable
    values: tuple[float, ...] = ()
    unit: str = ""


class ColumnReading(NamedTuple):
    """A column of text read as numbers."""

    verdict: str  # number, text, ask, or "" if no message is needed
    values: Vector
    odd: list[tuple[int, str, float]]  # row (from 0), cell and value of each cell that is not a plain number
    n_unreadable: int
    n_cells: int  # cells that are not missing
    range: NumberRange

    @property
    def unreadable(self) -> float:
        """Share of cells that cannot be read."""
        return self.n_unreadable / max(self.n_cells, 1)


def read_cell(text: str) -> CellReading:  # noqa: PLR0911 (one form after the other)
    """Return the possible readings of a text as a number.

    Examples
    --------
    >>> read_cell("<5"), read_cell("1,5").values, read_cell("1,234").values
    (CellReading(form='number', values=(5.0,), unit=''), (1.5,), (1234.0, 1.234))
    >>> read_cell("120 mmHg"), read_cell("5+").form, read_cell("A12").form, read_cell("n/a").form
    (CellReading(form='unit', values=(120.0,), unit='mmhg'), 'range', 'code', 'missing')
    """
    text = _SPACES.sub(" ", text).replace("\u2212", "-").strip()
    if text.casefold() in _MISSING_WORDS:
        return CellReading("missing")
    if _PLAIN.fullmatch(text):
        return CellReading("zeros" if _CODE.fullmatch(text) or _loses_digits(text) else "plain", (float(text),))
    if len(text) > _MAX_NUMBER_LENGTH:
        return CellReading("unreadable")
    if (found := _LIMIT.fullmatch(text) or _ABOUT.fullmatch(text)) is not None:
        inner = read_cell(found["rest"])
        if inner.form in ("plain", "comma"):
            return CellReading("number", inner.values)
        return inner if inner.values and inner.form != "zeros" else CellReading("unreadable")
    if (found := _BEFORE.fullmatch(text)) is not None and (body := _body(found["body"])).values:
        return CellReading("unit", body.values, found["unit"].casefold())
    if (body := _body(text)).values:
        return body
    if _RANGE.fullmatch(text):
        return CellReading("range")
    if (found := _BEHIND.fullmatch(text)) is not None:
        unit = found["unit"].casefold()
        # 12A without a space is more likely a house number than an electric current.
        known = unit in _UNITS and not (len(unit) == 1 and unit.isalpha())
        if (known or found["space"]) and (body := _body(found["body"])).values:
            return CellReading("percent" if unit == "%" else "unit", body.values, unit)
    return CellReading("code" if _LETTERED.fullmatch(text) else "unreadable")


def _body(text: str) -> CellReading:
    """Return the reading of a number that may have a decimal comma or grouped thousands."""
    sign, digits = (text[0], text[1:]) if text[:1] in "+-" else ("", text)
    if _PLAIN.fullmatch(text):
        return CellReading("plain", (float(text),))
    for group, point in (
        (",", "."),
        (".", ","),
        (" ", "."),
        (" ", ","),
        ("'", "."),
        ("’", "."),
        ("'", ","),
        ("’", ","),
    ):
        grouped = rf"\d{{1,3}}(?:{re.escape(group)}\d{{3}})+(?:{re.escape(point)}\d+)?"
        if re.fullmatch(grouped, digits, re.ASCII):
            value = float(sign + digits.replace(group, "").replace(point, "."))
            either = group == "," and digits.count(",") == 1 and "." not in digits
            if either:
                decimal = float(sign + digits.replace(",", "."))
                return CellReading("comma", (decimal,)) if digits[0] == "0" else CellReading("either", (value, decimal))
            return CellReading("number", (value,))
    if re.fullmatch(r"\d*,\d+(?:[eE][+-]?\d+)?", digits, re.ASCII):
        return CellReading("comma", (float(sign + digits.replace(",", ".")),))
    return CellReading("unreadable")


def _loses_digits(text: str) -> bool:
    return text.lstrip("+-").isdecimal() and len(text) > 15 and abs(int(text)) >= _FIRST_INEXACT_INTEGER


def read_column(cells: Any, scale: NumberRange | None = None) -> ColumnReading:
    """Read a column of texts, numbers and missing cells as numbers, and decide whether it is a column of numbers.

    Parameters
    ----------
    cells : array of object
        None and NaN are missing.
    scale : NumberRange, optional
        Range of the column in the fit; by default, the range of its unambiguous cells.
    """
    known: dict[str, int] = {}
    codes = np.array(
        [-1 if is_missing_value(cell) else known.setdefault(str(cell), len(known)) for cell in cells], np.intp
    )
    texts = list(known)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    found = [read_cell(text) for text in texts]
    if any(_POINTED_MILLIONS.fullmatch(text.strip()) for text in texts):
        found = [_thousands(text) or cell for text, cell in zip(texts, found, strict=True)]
    number, units = Counter[str](), Counter[str]()
    for cell, count in zip(found, counts, strict=True):
        number[cell.form] += int(count)
        if cell.unit:
            units[cell.unit] += int(count)
    n_cells = int(counts.sum()) - number["missing"]
    # If there are several units, numbers with the unit of most cells can be read.
    common = [each for each, n in units.items() if len(units) == 1 or n > MIN_NUMBER_SHARE * n_cells]
    unit = common[0] if common else ""
    certain = scale is not None or number["plain"] > 0
    scale = _range_of(found) if scale is None else scale
    read = np.array([_value_of(cell, scale, found, number, unit, certain=certain) for cell in found] + [np.nan])
    values = read[codes]
    gone = np.array([cell.form != "missing" for cell in found], dtype=bool) & np.isnan(read[:-1])
    usual = "comma" if number["comma"] > MIN_NUMBER_SHARE * n_cells else "plain"
    odd = np.array([cell.form not in ("plain", usual) for cell in found] + [False])[codes]
    rows = np.flatnonzero(odd)
    listed = [(int(row), str(cells[row]), float(values[row])) for row in rows]
    n_unreadable = int(counts[gone].sum())
    verdict = _verdict(number, n_cells, n_unreadable, np.unique(read[:-1][~np.isnan(read[:-1])]).size)
    verdict = verdict if rows.size or usual == "comma" else ""
    return ColumnReading(verdict, values, listed, n_unreadable, n_cells, scale)


def _range_of(found: list[CellReading]) -> NumberRange:
    certain = [
        cell.values[0] for cell in found if cell.form in ("plain", "comma", "number") and np.isfinite(cell.values[0])
    ]
    low, high = (min(certain), max(certain)) if certain else (0.0, 0.0)
    return NumberRange(low, high, all(value.is_integer() for value in certain))


def _thousands(text: str) -> CellReading | None:
    """Return the reading of ``1.234`` as 1234, for columns that group thousands by points; None for other cells."""
    text = text.strip()
    return CellReading("number", (float(text.replace(".", "")),)) if _POINTED_THOUSANDS.fullmatch(text) else None


def _value_of(
    cell: CellReading,
    scale: NumberRange,
    found: list[CellReading],
    number: Counter[str],
    unit: str,
    *,
    certain: bool,
) -> float:
    """Return the value of a cell, or NaN if it is missing or cannot be read.

    `unit` is the unit whose numbers can be read, and `certain` is whether the range `scale` comes from plain numbers or
    from the fit.
    """
    if cell.form in ("plain", "comma", "number", "zeros"):
        return cell.values[0]
    if cell.form in ("unit", "percent"):
        share = cell.form == "percent" and certain and scale.low >= -1 and scale.high <= 1
        values = [value / 100 if share else value for value in cell.values]
        if len(values) > 1:  # 1,234 kg
            values = [value for value in values if certain and scale.holds(value, THOUSANDS_MARGIN)]
        return values[0] if cell.unit == unit and len(values) == 1 and scale.holds(values[0]) else math.nan
    if cell.form == "either":
        thousands, decimal = cell.values
        if number["comma"] and all(other.form != "plain" or other.values[0].is_integer() for other in found):
            return decimal
        many = number["either"] > max(1, MAX_UNREADABLE_SHARE * number["plain"])
        if scale.whole and not number["comma"] and (many or scale.holds(thousands)):
            return thousands
        allowed = [value for value in cell.values if scale.holds(value, THOUSANDS_MARGIN)]
        return allowed[0] if len(allowed) == 1 else math.nan
    return math.nan


def _verdict(number: Counter[str], n_cells: int, n_unreadable: int, n_values: int) -> str:
    """Return "number", "text", "ask" if the user must decide, or "" for text that needs no message."""
    numbers = n_cells - n_unreadable
    meaningful = number["range"] + number["code"]
    zeros = number["zeros"] > max(1, MIN_CODE_SHARE * n_cells)
    if not n_cells or numbers < MIN_NUMBER_SHARE * n_cells or zeros:
        return ""
    if n_values <= MAX_CODED_CATEGORIES and (
        number["plain"] < MIN_NUMBER_SHARE * n_cells or n_unreadable > MAX_UNREADABLE_SHARE * n_cells
    ):
        return ""
    if meaningful > 1 and (meaningful > MIN_CODE_SHARE * n_cells or n_values <= MAX_CODED_CATEGORIES):
        return "text" if n_unreadable <= MAX_CODE_SHARE_WITH_MESSAGE * n_cells else ""
    return "ask" if n_unreadable > MAX_UNREADABLE_SHARE * n_cells else "number"


# --- tables


def read_numbers(X: Any, *, number: Any = (), text: Any = ()) -> tuple[Any, list[str], list[str]]:
    """Return a data frame in which columns of numbers that are written as text hold numbers.

    Parameters
    ----------
    X : data frame
        Raw table.
    number : list of str
        Columns that are always read as numbers.
    text : list of str
        Columns that are always read as text; they become categories.

    Returns
    -------
    frame, messages, questions
        The questions are about columns that may be numbers or text. These columns are not changed.
    """
    changed: dict[str, Any] = {}
    messages, questions = [], []
    for name in X.columns:
        _refuse_nested(name, X[name])
        if name in text:
            changed[name] = _as_categories(X[name])
        elif is_text(X[name]):
            found = read_column(cells_of(X[name]))
            if name in number and found.n_cells and not np.isfinite(found.values).any():
                raise ValueError(
                    f"--number names column {str(name)!r}, which holds no number. Remove the column from --number."
                )
            if found.verdict == "number" or name in number:
                changed[name] = found.values
                message = message_about_numbers(str(name), found) if found.odd else _message_about_commas(str(name))
                messages.append(message)
            elif found.verdict == "ask":
                questions.append(question_of(str(name), found))
            elif found.verdict == "text":
                changed[name] = _as_categories(X[name])
                messages.append(_message_about_text(str(name), found))
    return replaced(X, changed), messages, questions


def numbers_again(X: Any, scales: dict[str, tuple[Any, ...]]) -> Any:
    """Return new rows in which the columns that held numbers in the fit hold numbers.

    Up to 5% of a column's cells may be unreadable. They are treated as missing, with a warning that lists them. If
    there are more, an error is raised.
    """
    changed: dict[str, Any] = {}
    for name in X.columns:
        scale = scales.get(str(name))
        if scale is None or not holds_no_numbers(X[name]):
            continue
        found = read_column(cells_of(X[name]), NumberRange(*scale))
        if found.unreadable > MAX_UNREADABLE_SHARE_NEW_ROWS:
            raise ValueError(
                f"Column {str(name)!r} held numbers in the fit, but here {found.n_unreadable:,} of {found.n_cells:,} "
                f"cells ({found.unreadable:.0%}) cannot be read as numbers: {listed_cells(_unreadable(found))} (rows "
                f"are counted from 1). Only up to {MAX_UNREADABLE_SHARE_NEW_ROWS:.0%} are treated as missing. Write "
                "numbers, or leave the cells empty."
            )
        changed[name] = found.values
        odd = [each for each in found.odd if read_cell(each[1]).form != "missing"]
        if odd:
            warn_user(message_about_numbers(str(name), found._replace(odd=odd), again=True), UserWarning)
    return replaced(X, changed)


def warn_if_far_outside(X: Any, scales: dict[str, tuple[Any, ...]]) -> None:
    """Warn about columns with numbers far outside the range of the fit, for example because of another unit.

    If the column had only the numbers 0 and 1 (or 1 and 2) in the fit, other numbers in more than 5% of the rows cause
    a warning, because these rows may be coded in another way.
    """
    for name in X.columns:
        if str(name) not in scales or holds_no_numbers(X[name]):
            continue
        scale = NumberRange(*scales[str(name)])
        values = _floats(X[name])
        outside = (values < scale.low) | (values > scale.high)
        recoded = scale in _TWO_CODES and outside.sum() > MAX_UNREADABLE_SHARE_NEW_ROWS * values.size
        far = np.flatnonzero(outside if recoded else ~scale.within(values, FAR_OUTSIDE) & ~np.isnan(values))
        if far.size:
            rows = f"{far.size:,} of {values.size:,} rows have" if far.size > 1 else "1 row has"
            warn_user(
                f"{rows} a value of {str(name)!r} that is far from all values of the fit, which are between "
                f"{scale.low:g} and {scale.high:g} (the first is {values[far[0]]:g} in row {far[0] + 1}, counted from "
                "1). The predictions for such rows are not reliable. Check the values and their unit.",
                UserWarning,
            )


def scales_of(X: Any) -> dict[str, tuple[float, float, bool]]:
    """Return the columns of numbers of a data frame, with the range of each and whether all values are integers."""
    found = {}
    for name in X.columns:
        if is_text(X[name]):
            read = read_column(cells_of(X[name]))
            # The preparation reads texts as numbers if all of them are plain numbers.
            numbers = read.n_cells > 0 and not read.odd and read.n_unreadable == 0
            values = read.values if numbers else None
        else:
            # Booleans are not numbers here: in new rows they may be texts or objects.
            boolean = str(X[name].dtype).lower().startswith("bool")
            values = None if boolean or holds_no_numbers(X[name]) else _floats(X[name])
        if values is not None:
            finite = values[np.isfinite(values)]
            low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
            found[str(name)] = (low, high, bool((finite == np.floor(finite)).all()))
    return found


def codes_again(column: Any, known: Any) -> Any:
    """Return a column of new rows with whole numbers instead of floats, if the categories of the fit have no floats.

    If all cells of a column are numbers or missing, pandas reads the codes 1 and 2 as 1.0 and 2.0. The fit may have
    read them as text, because of a code such as A1. `known` are the categories of the fit.

    Examples
    --------
    >>> import pandas as pd
    >>> codes_again(pd.Series([1.0, None]), ["1", "A1"]).tolist(), codes_again(pd.Series([1.0]), ["1.0"]).tolist()
    ([1, <NA>], [1.0])
    """
    if not str(column.dtype).lower().startswith("float"):
        return column
    values = _floats(column)
    values = values[~np.isnan(values)]
    exact = (values == np.floor(values)) & (np.abs(values) < _FIRST_INEXACT_INTEGER)
    if not values.size or not exact.all() or {str(value) for value in values.tolist()} & set(known):
        return column
    if hasattr(column, "astype"):
        return column.astype("Int64")
    import polars as pl  # noqa: PLC0415 (the column is one of its series)

    return column.fill_nan(None).cast(pl.Int64)


def refuse_huge(X: Any) -> None:
    """Raise if a number is infinite or too large for single precision."""
    for name in X.columns:
        if holds_no_numbers(X[name]):
            continue
        values = _floats(X[name])
        bad = np.flatnonzero(np.abs(values) > MAX_CELL)
        if bad.size:
            raise ValueError(huge_cells(str(name), int(bad[0]), float(values[bad[0]]), bad.size))


def huge_cells(name: str, row: int, value: float, n_cells: int) -> str:
    """Return the error text for a cell that is too large; `row` counts from 0."""
    follow = "1 more such cell follows" if n_cells == 2 else f"{n_cells - 1:,} more such cells follow"
    others = f"; {follow}" if n_cells > 1 else ""
    needed = "Values must be finite" if np.isinf(value) else f"Absolute values must be at most {MAX_CELL:.1g}"
    return (
        f"Column {name!r} holds {value:g} in row {row + 1} (counted from 1{others}). {needed}. Correct the cell, leave "
        "it empty if the value is not known, or leave out the column."
    )


def is_text(column: Any) -> bool:
    """Return whether a column of a data frame holds texts, not categories, dates, booleans or numbers."""
    kind = str(column.dtype).lower()
    if not kind.startswith(("object", "str", "large_string")):
        return False
    return kind != "object" or not any(isinstance(cell, bool | np.bool_ | list | dict) for cell in cells_of(column))


def holds_no_numbers(column: Any) -> bool:
    """Return whether the type of a column is neither numeric nor boolean."""
    return not str(column.dtype).lower().startswith(("int", "uint", "float", "double", "bool", "sparse", "halffloat"))


def message_about_numbers(name: str, found: ColumnReading, *, again: bool = False) -> str:
    """Return a message that lists the cells that are not plain numbers, and how they were read."""
    read = [(row, cell, value) for row, cell, value in found.odd if not np.isnan(value)]
    unread = _unreadable(found)
    parts = [f"{len(read):,} {'were' if len(read) > 1 else 'was'} converted: {listed_cells(read)}"] if read else []
    if unread:
        verb = "are" if len(unread) > 1 else "is"
        parts.append(f"{len(unread):,} {verb} treated as missing: {listed_cells(unread)}")
    n = len(found.odd)
    cells = f"{n:,} of its cells are not plain numbers" if n > 1 else "1 of its cells is not a plain number"
    change = (
        ""
        if again
        else f" If the column holds categories, use --text {quoted(name)}, or in Python "
        f"table[{name!r}].astype('category')."
    )
    return f"Column {name!r} is read as numbers. {cells}; {'; '.join(parts)} (rows are counted from 1).{change}"


def _message_about_commas(name: str) -> str:
    return f"Column {name!r} is read as numbers with a decimal comma."


def question_of(name: str, found: ColumnReading) -> str:
    """Return the question whether a column holds numbers or text."""
    return (
        f"Does column {name!r} hold numbers? {found.n_cells - found.n_unreadable:,} of {found.n_cells:,} cells are "
        f"numbers, and {found.n_unreadable:,} ({found.unreadable:.1%}) cannot be read as numbers: "
        f"{listed_cells(_unreadable(found))} (rows are counted from 1). If the column holds numbers and these cells "
        f"are missing values, use --number {quoted(name)}, or in Python pandas.to_numeric(table[{name!r}], "
        f"errors='coerce'). If it holds text, use --text {quoted(name)}, or in Python "
        f"table[{name!r}].astype('category')."
    )


def _message_about_text(name: str, found: ColumnReading) -> str:
    return (
        f"Column {name!r} is read as text: most of its cells are numbers, but {found.n_unreadable:,} of "
        f"{found.n_cells:,} are not, such as ranges or codes: {listed_cells(_unreadable(found))} (rows are counted "
        f"from 1). If the column holds numbers and these cells are missing values, use --number {quoted(name)}, or in "
        f"Python pandas.to_numeric(table[{name!r}], errors='coerce')."
    )


def _unreadable(found: ColumnReading) -> list[tuple[int, str, float]]:
    return [each for each in found.odd if np.isnan(each[2])]


def listed_cells(cells: list[tuple[int, str, float]]) -> str:
    """Return the first cells for a message: row from 0, text, and the value that was read, which may be NaN."""
    shown = [
        f"row {row + 1} {cell[:_MAX_NUMBER_LENGTH]!r}" + ("" if np.isnan(value) else f" as {value:g}")
        for row, cell, value in cells[:_MAX_CELLS_SHOWN]
    ]
    return ", ".join(shown) + (f" and {len(cells) - _MAX_CELLS_SHOWN:,} more" if len(cells) > _MAX_CELLS_SHOWN else "")


def _refuse_nested(name: Any, column: Any) -> None:
    """Raise if a cell is a list or another collection."""
    if str(column.dtype).lower() != "object":
        return
    kinds = (list, tuple, dict, set, np.ndarray)
    row, cell = next(((row, cell) for row, cell in enumerate(column.to_list()) if isinstance(cell, kinds)), (0, None))
    if cell is not None:
        raise ValueError(
            f"Column {str(name)!r} holds a {type(cell).__name__} in row {row + 1} (counted from 1). Cells must be "
            "numbers, text, dates, or true and false. Convert the column, or leave it out."
        )


def cells_of(column: Any) -> Any:
    """Return the cells of a column of pandas or polars as objects."""
    if hasattr(column, "to_list"):
        cells = np.empty(len(column), dtype=object)
        cells[:] = column.to_list()
        return cells
    return np.asarray(column, dtype=object)


def _floats(column: Any) -> Vector:
    if hasattr(column, "isna"):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _as_categories(column: Any) -> Any:
    return column.astype("category") if hasattr(column, "astype") else column


def replaced(X: Any, changed: dict[str, Any]) -> Any:
    """Return a data frame in which some columns have new values."""
    if not changed:
        return X
    if hasattr(X, "assign"):
        X = X.copy(deep=False)
        for name, values in changed.items():  # `assign` does not accept names that are numbers
            X[name] = values
        return X
    import polars as pl  # noqa: PLC0415 (the table is one of its frames)

    return X.with_columns([pl.Series(name, values) for name, values in changed.items()])


# --- data frames and their columns

_COMPLEX = "X must have real numbers; {} has complex numbers. Pass their real and imaginary parts as two columns."


def as_frame(X: Any) -> Any:
    """Return a data frame of dense columns whose names are text, as skrub needs.

    Columns of an array are named x0, x1, ...
    """
    refuse_lazy_query(X, "X")
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        kinds = list(zip(X.columns, X.dtypes, strict=True))
        thin = {name: kind.subtype for name, kind in kinds if str(kind).startswith("Sparse")}
        X = X.astype(thin) if thin else X
        if complex_columns := [name for name, kind in kinds if getattr(kind, "kind", "") == "c"]:
            raise ValueError(_COMPLEX.format(f"column {complex_columns[0]!r}"))
        return with_text_names(X)
    if sparse.issparse(X):
        raise TypeError(
            "X must be a data frame or a dense array for the default preparation; got a sparse matrix. Use "
            "preparation='passthrough', or a transformer that accepts sparse matrices."
        )
    pandas = need("pandas", "TableClassifier", "tool")
    try:
        values = np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"X must be a table with rows of equal length. NumPy cannot convert it to an array: {error}"
        ) from error
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns; got an array of shape {values.shape}.")
    if values.dtype.kind == "c":
        raise ValueError(_COMPLEX.format("the table"))
    return pandas.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])]).infer_objects()


def refuse_duplicate_names(names: list[Any]) -> None:
    """Raise if a column has no name, or two columns have the same name."""
    nameless = [number for number, name in enumerate(names) if name is None or name != name]  # noqa: PLR0124 (NaN)
    if nameless:
        raise ValueError(
            f"Every column must have a name; the column at position {nameless[0]} (counted from 0) has none. Name it."
        )
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"Column names must be unique. Used more than once: {', '.join(map(repr, repeated))}. Rename these columns."
        )


def arranged(X: Any, known: list[str], missing: list[str]) -> Any:
    """Return a data frame with the columns `known` in this order; the columns `missing` are added without values."""
    if hasattr(X, "reindex"):
        return X.reindex(columns=known)
    import polars as pl  # noqa: PLC0415 (the table is one of its frames)

    return X.with_columns([pl.lit(None).alias(name) for name in missing]).select(known)
