"""Cells of a column; and texts, read as numbers.

How a text is read:

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

from scarless.checks.labels import is_missing_value
from scarless.numerics.arrays import Vector
from scarless.outside.shell_words import quoted

MAX_UNREADABLE_SHARE = 0.01  # of the cells in a fit; if more are unreadable, the user must choose number or text
MAX_UNREADABLE_SHARE_NEW_ROWS = 0.05  # of the cells of new rows; if more are unreadable, an error is raised
MIN_NUMBER_SHARE = 0.5  # of the cells; a column with fewer numbers is text, without a message
MIN_CODE_SHARE = 0.005  # of the cells; a column with more ranges or codes is text
MAX_CODE_SHARE_WITH_MESSAGE = 0.05  # of the cells; with fewer codes, a message reports that the column stays text
MAX_CODED_CATEGORIES = 12  # different numbers up to which a column may hold categories coded as numbers
THOUSANDS_MARGIN = 0.1  # share of the range of the other cells by which a reading of 1,234 may be outside that range
_MAX_CELLS_SHOWN = 12  # cells listed in a message
_MAX_NUMBER_LENGTH = 40  # characters
FIRST_INEXACT_INTEGER = 2**53  # float64 cannot represent every integer above this one

MISSING_WORDS = frozenset(
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


# --- columns of a data frame


def is_text(column: Any) -> bool:
    """Return whether a column of a data frame holds texts, not categories, dates, booleans or numbers."""
    kind = str(column.dtype).lower()
    if not kind.startswith(("object", "str", "large_string")):
        return False
    return kind != "object" or not any(isinstance(cell, bool | np.bool_ | list | dict) for cell in cells_of(column))


def holds_no_numbers(column: Any) -> bool:
    """Return whether the type of a column is neither numeric nor boolean."""
    kind = str(column.dtype).lower()
    numeric = kind.startswith(("int", "uint", "float", "double", "bool", "sparse", "halffloat"))
    return not numeric or kind.startswith("interval")


def cells_of(column: Any) -> Any:
    """Return the cells of a column of pandas or polars as objects."""
    if hasattr(column, "to_list"):
        cells = np.empty(len(column), dtype=object)
        cells[:] = column.to_list()
        return cells
    return np.asarray(column, dtype=object)


# --- texts, read as numbers


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


class CellReading(NamedTuple):
    """Possible readings of one cell as a number, the most likely first."""

    form: str  # plain, zeros (007), comma, either, number, unit, percent, missing, range, code, unreadable
    values: tuple[float, ...] = ()
    unit: str = ""


class ColumnReading(NamedTuple):
    """A column of text read as numbers."""

    verdict: str  # number, text, ask, separator (1,234 kg may be 1234 or 1.234), or "" if no message is needed
    values: Vector
    odd: list[tuple[int, str, float]]  # row (from 0), cell and value of each cell that is not a plain number
    n_unreadable: int
    n_cells: int  # cells that are not missing
    range: NumberRange

    @property
    def unreadable(self) -> float:
        """Share of cells that cannot be read."""
        return self.n_unreadable / max(self.n_cells, 1)

    @property
    def is_plain(self) -> bool:
        """Whether all cells are plain numbers or missing."""
        return self.n_cells > 0 and not self.odd and self.n_unreadable == 0

    @property
    def unread(self) -> list[tuple[int, str, float]]:
        """The cells of `odd` that cannot be read, or are missing."""
        return [each for each in self.odd if np.isnan(each[2])]


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
    if text.casefold() in MISSING_WORDS:
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
    return text.lstrip("+-").isdecimal() and len(text) > 15 and abs(int(text)) >= FIRST_INEXACT_INTEGER


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
    unclear = gone & np.array([cell.form in ("unit", "percent") and len(cell.values) > 1 for cell in found], bool)
    n_unclear = int(counts[unclear].sum())
    few = unclear.sum() <= MAX_CODED_CATEGORIES or n_unclear <= MAX_UNREADABLE_SHARE * n_cells
    if not few and n_cells - n_unreadable + n_unclear >= MIN_NUMBER_SHARE * n_cells:
        verdict = "separator"
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


# --- messages


def message_about_numbers(name: str, found: ColumnReading, *, again: bool = False) -> str:
    """Return a message that lists the cells that are not plain numbers, and how they were read."""
    read = [(row, cell, value) for row, cell, value in found.odd if not np.isnan(value)]
    parts = [f"{len(read):,} {'were' if len(read) > 1 else 'was'} converted: {listed_cells(read)}"] if read else []
    if found.unread:
        verb = "are" if len(found.unread) > 1 else "is"
        parts.append(f"{len(found.unread):,} {verb} treated as missing: {listed_cells(found.unread)}")
    n = len(found.odd)
    cells = f"{n:,} of its cells are not plain numbers" if n > 1 else "1 of its cells is not a plain number"
    change = (
        ""
        if again
        else f" If the column holds categories, use --text {quoted(name)}, or in Python "
        f"table[{name!r}].astype('category')."
    )
    return f"Column {name!r} is read as numbers. {cells}; {'; '.join(parts)} (rows are counted from 1).{change}"


def message_about_commas(name: str) -> str:
    """Return the message that a column has decimal commas."""
    return f"Column {name!r} is read as numbers with a decimal comma."


def question_of(name: str, found: ColumnReading) -> str:
    """Return the question whether a column holds numbers or text."""
    return (
        f"Does column {name!r} hold numbers? {found.n_cells - found.n_unreadable:,} of {found.n_cells:,} cells are "
        f"numbers, and {found.n_unreadable:,} ({found.unreadable:.1%}) cannot be read as numbers: "
        f"{listed_cells(found.unread)} (rows are counted from 1). If the column holds numbers and these cells "
        f"are missing values, use --number {quoted(name)}, or in Python pandas.to_numeric(table[{name!r}], "
        f"errors='coerce'). If it holds text, use --text {quoted(name)}, or in Python "
        f"table[{name!r}].astype('category')."
    )


def question_about_separator(name: str, found: ColumnReading) -> str:
    """Return the question whether a comma in numbers with a unit separates thousands or decimals."""
    return (
        f"Does the comma in column {name!r} separate thousands or decimals? Its cells have a unit, and no cell shows "
        f"it: {listed_cells(found.unread)} (rows are counted from 1). Write the numbers without a comma, such as 1234 "
        f"or 1.234. If the column holds text, use --text {quoted(name)}, or in Python "
        f"table[{name!r}].astype('category')."
    )


def message_about_text(name: str, found: ColumnReading) -> str:
    """Return the message that a column stays text, because some of its cells are ranges or codes."""
    return (
        f"Column {name!r} is read as text: most of its cells are numbers, but {found.n_unreadable:,} of "
        f"{found.n_cells:,} are not, such as ranges or codes: {listed_cells(found.unread)} (rows are counted "
        f"from 1). If the column holds numbers and these cells are missing values, use --number {quoted(name)}, or in "
        f"Python pandas.to_numeric(table[{name!r}], errors='coerce')."
    )


def listed_cells(cells: list[tuple[int, str, float]]) -> str:
    """Return the first cells for a message: row from 0, text, and the value that was read, which may be NaN."""
    shown = [
        f"row {row + 1} {cell[:_MAX_NUMBER_LENGTH]!r}" + ("" if np.isnan(value) else f" as {value:g}")
        for row, cell, value in cells[:_MAX_CELLS_SHOWN]
    ]
    return ", ".join(shown) + (f" and {len(cells) - _MAX_CELLS_SHOWN:,} more" if len(cells) > _MAX_CELLS_SHOWN else "")
