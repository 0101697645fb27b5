"""Raw tables as they are given: data frames, with columns of text that are numbers but for a few cells read as numbers.

What becomes of a cell:

- plain numbers (``12``, ``1.5``, ``2e3``): themselves;
- a limit (``<5``, ``>90``, ``<= 5``): the limit itself, 5 or 90. It is the value nearest to what was measured;
- a decimal comma (``1,5``), and thousands in groups (``1 234``, ``1,234,567``, ``1.234,5``). ``1,234`` may be
  either: it is what the other cells allow, and missing where they allow both; where all cells are so, thousands, and a
  note shows some of them. ``1.234`` is 1234 beside cells such as ``1.234.567``;
- a unit, currency or per cent (``120 mmHg``, ``$3.50``, ``12%``): the number, where the column has one unit only and
  the number lies near the others. 12% among shares between 0 and 1 is 0.12;
- words for a missing value (``n/a``, ``-``, ``?``, ``unknown``): missing;
- all else: unreadable, and taken for missing.

A column stays text where its odd cells carry a meaning: open or closed classes (``5+``, ``10-20``) and codes (``A12``).
"""

import math
import re
from collections import Counter
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scarless.checks.attributes import with_text_names
from scarless.checks.labels import is_missing_value
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.outside.notices import warn_user

MAX_UNREADABLE_SHARE = 0.01  # share of cells of a fit; above it, the user is asked
MAX_UNREADABLE_SHARE_LATER = 0.05  # share of cells of new rows; above it, they are refused
LARGEST_CELL = float(np.finfo(np.float32).max)  # the preparation reads single precision
MIN_NUMBER_SHARE = 0.5  # share of cells that are numbers, below which a column is text and nobody asks
MIN_CODE_SHARE = 0.005  # share of cells with classes or codes, from which on a column is text
MAX_CODE_SHARE_WITH_NOTE = 0.05  # up to this share of classes or codes a note says that the column stays text
MAX_VALUES_OF_A_CATEGORY = 12  # different numbers, up to which a column may be a category
THOUSANDS_MARGIN = 0.1  # widths of the range by which 1,234 may lie outside it, to be read at all
_CELLS_SHOWN = 12  # cells in a message
_MAX_LETTERS_OF_A_NUMBER = 40  # letters of a cell that may be a number
_FIRST_INEXACT_INTEGER = 2**53

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
_CODE = re.compile(r"[+-]?0\d[^.]*|\+\d{7,}", re.ASCII)  # as of a table's files: 00123, +491701234567
_BODY = r"[+-]?(?:\d[\d.,'’ ]*\d|\d)(?:[eE][+-]?\d+)?|[+-]?[.,]\d+"
_LIMIT = re.compile(r"(?:<=|>=|=<|=>|[<>≤≥])\s*(?P<rest>.+)", re.ASCII)
_ABOUT = re.compile(r"(?:~|≈|ca\.?|approx\.?)\s*(?P<rest>.+)", re.ASCII | re.IGNORECASE)
_BEFORE = re.compile(rf"(?P<unit>[$€£¥]|USD|EUR|GBP|CHF)\s*(?P<body>{_BODY})", re.ASCII)
_BEHIND = re.compile(rf"(?P<body>{_BODY})(?P<space>\s*)(?P<unit>[^\d\s.,+\-<>=()][^\s,+<>=()]{{0,11}})", re.ASCII)
_CLASS = re.compile(rf"(?:{_BODY})\s*\+|(?:{_BODY})\s*(?:-|–|to|bis)\s*(?:{_BODY})", re.ASCII)
_POINTED_MILLIONS, _POINTED_THOUSANDS = re.compile(r"-?\d{1,3}(?:\.\d{3}){2,}"), re.compile(r"-?\d{1,3}\.\d{3}")
_LETTERED = re.compile(r"[^\W\d_]{1,5}[-./ ]*\d[\w./-]*|\d+[^\W\d_]{1,3}\d*", re.UNICODE)


class Scale(NamedTuple):
    """What the plain cells of a column are like: by it doubtful cells are read."""

    least: float
    most: float
    whole: bool

    def holds(self, value: float, margin: float = 1.0) -> bool:
        """Whether a number is no farther outside the others' range than `margin` times its width."""
        beyond = margin * (self.most - self.least)
        return not self.most > self.least or self.least - beyond <= value <= self.most + beyond


class Cell(NamedTuple):
    """What one text may mean: numbers, in the order of likelihood."""

    form: str  # plain, zeros (007), comma, either, number, unit, percent, missing, class, code, unreadable
    values: tuple[float, ...] = ()
    unit: str = ""


class ColumnRead(NamedTuple):
    """A column of text read as numbers."""

    verdict: str  # number, text, ask, or nothing where there is nothing to say
    values: Vector
    odd: list[tuple[int, str, float]]  # rows (from 0), cells, and what they were read as
    n_unreadable: int
    n_cells: int  # that are not missing
    scale: Scale

    @property
    def unreadable(self) -> float:
        """Share of cells that cannot be read."""
        return self.n_unreadable / max(self.n_cells, 1)


def read_cell(text: str) -> Cell:  # noqa: PLR0911 (one form after the other)
    """Return what a text may mean as a number.

    Examples
    --------
    >>> read_cell("<5"), read_cell("1,5").values, read_cell("1,234").values
    (Cell(form='number', values=(5.0,), unit=''), (1.5,), (1234.0, 1.234))
    >>> read_cell("120 mmHg"), read_cell("5+").form, read_cell("A12").form, read_cell("n/a").form
    (Cell(form='unit', values=(120.0,), unit='mmhg'), 'class', 'code', 'missing')
    """
    text = _SPACES.sub(" ", text).replace("\u2212", "-").strip()
    if text.casefold() in _MISSING_WORDS:
        return Cell("missing")
    if _PLAIN.fullmatch(text):
        return Cell("zeros" if _CODE.fullmatch(text) or _loses_digits(text) else "plain", (float(text),))
    if len(text) > _MAX_LETTERS_OF_A_NUMBER:
        return Cell("unreadable")
    if (found := _LIMIT.fullmatch(text) or _ABOUT.fullmatch(text)) is not None:
        inner = read_cell(found["rest"])
        if inner.form in ("plain", "comma"):
            return Cell("number", inner.values)
        return inner if inner.values and inner.form != "zeros" else Cell("unreadable")
    if (found := _BEFORE.fullmatch(text)) is not None and (body := _body(found["body"])).values:
        return Cell("unit", body.values, found["unit"].casefold())
    if (body := _body(text)).values:
        return body
    if _CLASS.fullmatch(text):
        return Cell("class")
    if (found := _BEHIND.fullmatch(text)) is not None:
        unit = found["unit"].casefold()
        known = unit in _UNITS and not (len(unit) == 1 and unit.isalpha())  # 12A is a house number, and no current
        if (known or found["space"]) and (body := _body(found["body"])).values:
            return Cell("percent" if unit == "%" else "unit", body.values, unit)
    return Cell("code" if _LETTERED.fullmatch(text) else "unreadable")


def _body(text: str) -> Cell:
    """Return a number with a decimal comma, or thousands in groups."""
    sign, digits = (text[0], text[1:]) if text[:1] in "+-" else ("", text)
    if _PLAIN.fullmatch(text):
        return Cell("plain", (float(text),))
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
                return Cell("comma", (decimal,)) if digits[0] == "0" else Cell("either", (value, decimal))
            return Cell("number", (value,))
    if re.fullmatch(r"\d*,\d+(?:[eE][+-]?\d+)?", digits, re.ASCII):
        return Cell("comma", (float(sign + digits.replace(",", ".")),))
    return Cell("unreadable")


def _loses_digits(text: str) -> bool:
    return text.lstrip("+-").isdecimal() and len(text) > 15 and abs(int(text)) >= _FIRST_INEXACT_INTEGER


def read_column(cells: Any, scale: Scale | None = None) -> ColumnRead:
    """Return what a column of texts (and numbers, and missing cells) is, and its numbers.

    Parameters
    ----------
    cells : array of object
        None and NaN are missing.
    scale : Scale, optional
        Of the column in the fit; by default that of its plain cells.
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
    number = Counter[str]()
    for cell, count in zip(found, counts, strict=True):
        number[cell.form] += int(count)
    sure = scale is not None or number["plain"] > 0
    scale = _scale_of(found) if scale is None else scale
    read = np.array([_settled(cell, scale, found, number, sure=sure) for cell in found] + [np.nan])
    values = read[codes]
    gone = np.array([cell.form != "missing" for cell in found], dtype=bool) & np.isnan(read[:-1])
    n_cells = int(counts.sum()) - number["missing"]
    usual = "comma" if number["comma"] > MIN_NUMBER_SHARE * n_cells else "plain"
    odd = np.array([cell.form not in ("plain", usual) for cell in found] + [False])[codes]
    rows = np.flatnonzero(odd)
    listed = [(int(row), str(cells[row]), float(values[row])) for row in rows]
    n_unreadable = int(counts[gone].sum())
    verdict = _verdict(number, n_cells, n_unreadable, np.unique(read[:-1][~np.isnan(read[:-1])]).size)
    said = verdict if rows.size or usual == "comma" else ""
    return ColumnRead(said, values, listed, n_unreadable, n_cells, scale)


def _scale_of(found: list[Cell]) -> Scale:
    sure = [
        cell.values[0] for cell in found if cell.form in ("plain", "comma", "number") and np.isfinite(cell.values[0])
    ]
    least, most = (min(sure), max(sure)) if sure else (0.0, 0.0)
    return Scale(least, most, all(value.is_integer() for value in sure))


def _thousands(text: str) -> Cell | None:
    """Return ``1.234`` as 1234, for columns that group thousands by points; None for other cells."""
    text = text.strip()
    return Cell("number", (float(text.replace(".", "")),)) if _POINTED_THOUSANDS.fullmatch(text) else None


def _settled(cell: Cell, scale: Scale, found: list[Cell], number: Counter[str], *, sure: bool) -> float:
    """Return the number that a cell is read as, NaN for missing; `sure` where the scale is that of plain numbers."""
    if cell.form in ("plain", "comma", "number", "zeros"):
        return cell.values[0]
    if cell.form in ("unit", "percent"):
        units = {other.unit for other in found if other.unit}
        share = cell.form == "percent" and sure and scale.least >= -1 and scale.most <= 1
        values = [value / 100 if share else value for value in cell.values]
        if len(values) > 1:  # 1,234 kg
            values = [value for value in values if sure and scale.holds(value, THOUSANDS_MARGIN)]
        return values[0] if len(units) == 1 and len(values) == 1 and scale.holds(values[0]) else math.nan
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
    """Return whether a column is a number, text, or a question."""
    numbers = n_cells - n_unreadable
    meaning = number["class"] + number["code"]
    zeros = number["zeros"] > max(1, MIN_CODE_SHARE * n_cells)
    if not n_cells or numbers < MIN_NUMBER_SHARE * n_cells or zeros:
        return ""
    if n_values <= MAX_VALUES_OF_A_CATEGORY and (
        number["plain"] < MIN_NUMBER_SHARE * n_cells or n_unreadable > MAX_UNREADABLE_SHARE * n_cells
    ):
        return ""
    if meaning > 1 and (meaning > MIN_CODE_SHARE * n_cells or n_values <= MAX_VALUES_OF_A_CATEGORY):
        return "text" if n_unreadable <= MAX_CODE_SHARE_WITH_NOTE * n_cells else ""
    return "ask" if n_unreadable > MAX_UNREADABLE_SHARE * n_cells else "number"


# --- tables


def read_numbers(X: Any, *, number: Any = (), text: Any = ()) -> tuple[Any, list[str], list[str]]:
    """Return a data frame whose columns of text that are numbers but for a few cells hold numbers.

    Parameters
    ----------
    X : data frame
    number : list of str
        Columns that are numbers whatever they hold.
    text : list of str
        Columns that are text whatever they hold; they become categories.

    Returns
    -------
    frame, notes, questions
        Questions of columns that may be numbers or text, which are left as they are.
    """
    changed: dict[str, Any] = {}
    notes, questions = [], []
    for name in X.columns:
        if name in text:
            changed[name] = _as_categories(X[name])
        elif is_text(X[name]):
            found = read_column(_cells(X[name]))
            if name in number and found.n_cells and not np.isfinite(found.values).any():
                raise ValueError(f"Column {str(name)!r} holds no number, though --number names it. Leave that out.")
            if found.verdict == "number" or name in number:
                changed[name] = found.values
                notes.append(message_about_numbers(str(name), found) if found.odd else _message_about_commas(str(name)))
            elif found.verdict == "ask":
                questions.append(question_of(str(name), found))
            elif found.verdict == "text":
                changed[name] = _as_categories(X[name])
                notes.append(_message_about_text(str(name), found))
    return replaced(X, changed), notes, questions


def numbers_again(X: Any, scales: dict[str, tuple[Any, ...]]) -> Any:
    """Return new rows whose columns that were numbers in the fit are numbers again, or raise.

    Up to 5% of a column's cells may be unreadable: they are taken for missing, with a warning that names them.
    """
    changed: dict[str, Any] = {}
    for name in X.columns:
        scale = scales.get(str(name))
        if scale is None or not holds_no_numbers(X[name]):
            continue
        found = read_column(_cells(X[name]), Scale(*scale))
        if found.unreadable > MAX_UNREADABLE_SHARE_LATER:
            raise ValueError(
                f"Column {str(name)!r} held numbers in the fit, and {found.n_unreadable:,} of {found.n_cells:,} cells "
                f"({found.unreadable:.0%}) cannot be read as numbers here: {_shown(_gone(found))}. Up to "
                f"{MAX_UNREADABLE_SHARE_LATER:.0%} are taken for missing. Write numbers, or leave cells empty."
            )
        changed[name] = found.values
        odd = [each for each in found.odd if read_cell(each[1]).form != "missing"]  # words for that need no warning
        if odd:
            warn_user(message_about_numbers(str(name), found._replace(odd=odd), again=True), UserWarning)
    return replaced(X, changed)


def scales_of(X: Any) -> dict[str, tuple[float, float, bool]]:
    """Return the columns of a data frame that are numbers, and what their cells are like."""
    found = {}
    for name in X.columns:
        if is_text(X[name]):
            read = read_column(_cells(X[name]))
            # Texts that are all plain numbers are read as numbers by the preparation.
            numbers = read.n_cells > 0 and not read.odd and read.n_unreadable == 0
            values = read.values if numbers else None
        else:
            truth = str(X[name].dtype).lower().startswith("bool")  # may be texts or objects in new rows
            values = None if truth or holds_no_numbers(X[name]) else _floats(X[name])
        if values is not None:
            there = values[np.isfinite(values)]
            least, most = (float(there.min()), float(there.max())) if there.size else (0.0, 0.0)
            found[str(name)] = (least, most, bool((there == np.floor(there)).all()))
    return found


def refuse_huge(X: Any) -> None:
    """Raise where a number is infinite or beyond single precision, with column, row and remedy."""
    for name in X.columns:
        if holds_no_numbers(X[name]):
            continue
        values = _floats(X[name])
        bad = np.flatnonzero(np.abs(values) > LARGEST_CELL)
        if bad.size:
            raise ValueError(huge_cells(str(name), int(bad[0]), float(values[bad[0]]), bad.size))


def huge_cells(name: str, row: int, value: float, n_cells: int) -> str:
    """Return a sentence about a cell that no model can use; rows come counted from 0."""
    follow = "1 more such cell follows" if n_cells == 2 else f"{n_cells - 1:,} more such cells follow"
    others = f" ({follow})" if n_cells > 1 else ""
    what = "infinity" if np.isinf(value) else f"beyond {LARGEST_CELL:.1g}, the largest number that can be used"
    return (
        f"Column {name!r} holds {value:g} in row {row + 1} (counted from 1){others}: {what}. Correct the cell, leave "
        "it empty if the value is not known, or leave the column out."
    )


def is_text(column: Any) -> bool:
    """Whether a column of a data frame holds texts, and no categories, dates, truth values or numbers."""
    kind = str(column.dtype).lower()
    if not kind.startswith(("object", "str", "large_string")):
        return False
    return kind != "object" or not any(isinstance(cell, bool | np.bool_ | list | dict) for cell in _cells(column))


def holds_no_numbers(column: Any) -> bool:
    """Whether a column of a data frame is of another kind than numbers and truth values."""
    return not str(column.dtype).lower().startswith(("int", "uint", "float", "double", "bool", "sparse", "halffloat"))


def message_about_numbers(name: str, found: ColumnRead, *, again: bool = False) -> str:
    """Say which cells of a column of numbers are no plain numbers, and what they are taken for."""
    read = [(row, cell, value) for row, cell, value in found.odd if not np.isnan(value)]
    gone = _gone(found)
    parts = [f"{len(read):,} {'are' if len(read) > 1 else 'is'} read: {_shown(read)}"] if read else []
    if gone:
        parts.append(f"{len(gone):,} {'are' if len(gone) > 1 else 'is'} taken for missing: {_shown(gone)}")
    n = len(found.odd)
    cells = f"{n:,} of its cells are not plain numbers" if n > 1 else "1 of its cells is not a plain number"
    change = (
        ""
        if again
        else f" If it holds categories: --text {quote(name)}, or in Python table[{name!r}].astype('category')."
    )
    return f"Column {name!r} is read as numbers. {cells}; {'; '.join(parts)} (rows are counted from 1).{change}"


def _message_about_commas(name: str) -> str:
    return f"Column {name!r} is read as numbers with a decimal comma."


def question_of(name: str, found: ColumnRead) -> str:
    """Ask whether a column is a number."""
    return (
        f"Is column {name!r} a number? {found.n_cells - found.n_unreadable:,} of {found.n_cells:,} cells are numbers, "
        f"and {found.n_unreadable:,} ({found.unreadable:.1%}) cannot be read as one: {_shown(_gone(found))} (rows are "
        f"counted from 1). If it is a number, with these cells missing: --number {quote(name)}, or in Python "
        f"pandas.to_numeric(table[{name!r}], errors='coerce'). If it is text: --text {quote(name)}, or "
        f"table[{name!r}].astype('category')."
    )


def _message_about_text(name: str, found: ColumnRead) -> str:
    return (
        f"Column {name!r} is read as text: most of its cells are numbers, but {found.n_unreadable:,} of "
        f"{found.n_cells:,} are classes or codes: {_shown(_gone(found))} (rows are counted from 1). If it is a number, "
        f"with these cells missing: --number {quote(name)}, or in Python pandas.to_numeric(table[{name!r}], "
        "errors='coerce')."
    )


def _gone(found: ColumnRead) -> list[tuple[int, str, float]]:
    return [each for each in found.odd if np.isnan(each[2])]


def _shown(cells: list[tuple[int, str, float]]) -> str:
    shown = [
        f"row {row + 1} {cell[:_MAX_LETTERS_OF_A_NUMBER]!r}" + ("" if np.isnan(value) else f" as {value:g}")
        for row, cell, value in cells[:_CELLS_SHOWN]
    ]
    return ", ".join(shown) + (f" and {len(cells) - _CELLS_SHOWN:,} more" if len(cells) > _CELLS_SHOWN else "")


def _cells(column: Any) -> Any:
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
    """Return a data frame with other values in some columns."""
    if not changed:
        return X
    if hasattr(X, "assign"):
        X = X.copy(deep=False)
        for name, values in changed.items():  # not `assign`, which takes no names that are numbers
            X[name] = values
        return X
    import polars as pl  # noqa: PLC0415 (the table is one of its frames)

    return X.with_columns([pl.Series(name, values) for name, values in changed.items()])


# --- data frames, with the columns that are wanted


def as_frame(X: Any) -> Any:
    """Return a data frame whose columns have text for names, which skrub needs; those of an array are x0, x1, ..."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return with_text_names(X)
    if sparse.issparse(X):
        raise TypeError(
            "The preparation of raw tables needs a data frame or a dense array, got a sparse matrix. Use "
            "preparation='passthrough', or a transformer that takes one."
        )
    pandas = need("pandas", "TableClassifier", "tool")
    values = np.asarray(X)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns, got an array of shape {values.shape}.")
    return pandas.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])]).infer_objects()


def refuse_twins(names: list[Any]) -> None:
    """Raise where two columns have one name, or one has none."""
    nameless = [number for number, name in enumerate(names) if name is None or name != name]  # noqa: PLR0124 (NaN)
    if nameless:
        raise ValueError(f"Every column must have a name; column {nameless[0]} has none.")
    twins = sorted({str(name) for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"Columns must have different names; more than one is called {', '.join(map(repr, twins))}.")


def arranged(X: Any, known: list[str], missing: list[str]) -> Any:
    """Return a data frame with the known columns in order, the missing ones empty."""
    if hasattr(X, "reindex"):
        return X.reindex(columns=known)
    import polars as pl  # noqa: PLC0415 (the table is one of its frames)

    return X.with_columns([pl.lit(None).alias(name) for name in missing]).select(known)
