"""Raw data frames: texts that are numbers or dates, odd numbers, and conversions between kinds of columns."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scarless.checks.attributes import with_text_names
from scarless.checks.tables import refuse_lazy_query, table_array
from scarless.numerics.arrays import Integers, Vector
from scarless.outside.extras import need
from scarless.outside.notices import listed, warn_user
from scarless.raw.cells import (
    FIRST_INEXACT_INTEGER,
    MAX_CODED_CATEGORIES,
    MAX_UNREADABLE_SHARE_NEW_ROWS,
    NumberRange,
    cells_of,
    holds_no_numbers,
    is_text,
    listed_cells,
    message_about_commas,
    message_about_numbers,
    message_about_text,
    question_about_separator,
    question_of,
    read_cell,
    read_column,
)
from scarless.raw.dates import read_dates

MAX_CELL = float(np.finfo(np.float32).max)  # the preparation uses single precision
# A number of new rows is far outside the range of the fit if it is outside by more than this many times its width.
FAR_OUTSIDE = 2.0
MIN_OUTSIDE = 10  # new rows; if this many, and most rows, are outside the range of the fit, the unit may differ
MAX_OUTSIDE_SHARE = 0.5
MIN_NUMBERS_COMPARED = 20  # numbers in a column, for a search for odd numbers
# A number is odd if its distance from the other numbers is more than this many times their range.
ODD_DISTANCE = 100.0
_MAX_ODD_NUMBERS, _MAX_NEGATIVE_CODES = 3, 6  # at each end of a column; negative codes of one column
_MAX_ODD_SHARE = 0.05  # share of the rows with numbers far from the others
_MIN_CODES = 5  # rows with a number, before it counts as more frequent than others
_LARGEST_INTEGERS = ("32767", "32768", "65535", "2147483647", "2147483648")  # of columns of 16 or 32 bits
_MAX_COLUMNS_SHOWN = 6  # in a message

_SMALLEST_DATE = 1000.0  # The preparation would read texts such as 2024 and 20240131 as dates, smaller ones as numbers.
_TWO_CODES = (NumberRange(0.0, 1.0, True), NumberRange(1.0, 2.0, True))  # usual codes for two categories


def read_texts(X: Any, *, number: Any = (), text: Any = ()) -> tuple[Any, list[str], list[str]]:
    """Return a data frame in which columns of numbers that are written as text hold numbers.

    Columns of dates stay text, but cells that are no dates become missing. The preparation reads the other cells.

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
        The questions are about columns that may be numbers, dates or text. Columns that may be dates or versions are
        returned as categories, and the others are not changed.
    """
    changed: dict[str, Any] = {}
    messages, questions = [], []
    for name in X.columns:
        _refuse_nested(name, X[name])
        if name in text:
            changed[name] = _as_categories(X[name])
        elif is_text(X[name]):
            cells = cells_of(X[name])
            dates = None if name in number else read_dates(cells)
            if dates is not None and dates.may_be_versions and not dates.stays_text:
                questions.append(dates.question_of(str(name)))
                changed[name] = _as_categories(X[name])  # for an overview; a fit does not begin with an open question
                continue
            if dates is not None:
                kept = None if dates.stays_text else dates.without_other_cells()
                changed |= {} if kept is None else {name: kept}
                messages.extend(dates.messages_about_cells(str(name)))
                continue
            found = read_column(cells)
            if found.verdict == "separator":
                questions.append(question_about_separator(str(name), found))
                continue
            if name in number and found.n_cells and not np.isfinite(found.values).any():
                raise ValueError(
                    f"--number names column {str(name)!r}, which holds no number. Remove the column from --number."
                )
            if found.verdict == "number" or name in number:
                changed[name] = found.values
                message = message_about_numbers(str(name), found) if found.odd else message_about_commas(str(name))
                messages.append(message)
            elif found.verdict == "ask":
                questions.append(question_of(str(name), found))
            elif found.verdict == "text":
                changed[name] = _as_categories(X[name])
                messages.append(message_about_text(str(name), found))
            elif found.is_plain and np.nanmax(found.values) >= _SMALLEST_DATE:
                changed[name] = found.values
    X = replaced(X, changed)
    return X, [*messages, *notes_on_numbers(X)], questions


# --- numbers that may be codes for missing values, or errors


class OddNumbers(NamedTuple):
    """Numbers of a column that may be codes for missing values, or errors."""

    numbers: dict[float, int]  # number of rows with each number
    low: float  # range of the other numbers
    high: float


def odd_numbers(values: Vector) -> OddNumbers:
    """Return the numbers at both ends of a column that are far from all other numbers, or look like codes.

    - Far: a few rows whose distance from the other numbers is more than 100 times their range, unless the other numbers
      have a long tail.
    - Codes: numbers such as 99, 998 or -888 in several rows. Their distance from the other numbers is more than their
      range; or it is more than a tenth of the range, and one number is far more frequent than the numbers near it.
    - Negative codes: up to six numbers from -1 to -9, -99 and the like in several rows, if all other numbers are at
      least 0. There is an unusual gap between the codes and the other numbers; or there is one code only, and it is
      more than three times as frequent as the smallest other number.

    Examples
    --------
    >>> ages = np.tile(np.arange(20.0, 60.0), 5)
    >>> odd_numbers(np.append(ages, [-999, -999, 1e9])).numbers, odd_numbers(np.append(ages, [-1, -1])).numbers
    ({-999.0: 2, 1000000000.0: 1}, {-1.0: 2})
    >>> odd_numbers(ages).numbers
    {}
    """
    numbers, counts = np.unique(values[np.abs(values) <= MAX_CELL], return_counts=True)  # larger ones are refused
    if counts.sum() < MIN_NUMBERS_COMPARED:
        return OddNumbers({}, np.nan, np.nan)
    low, high = 0, numbers.size
    while True:
        above = _n_odd_at_end(numbers[low:high], counts[low:high], 1.0)
        below = _n_odd_at_end(numbers[low : high - above][::-1], counts[low : high - above][::-1], -1.0)
        low, high = low + below, high - above
        if not above + below:
            break
    low += _n_negative_codes(numbers[low:high], counts[low:high])
    odd = [*range(low), *range(high, numbers.size)]
    return OddNumbers({float(numbers[j]): int(counts[j]) for j in odd}, float(numbers[low]), float(numbers[high - 1]))


def _n_odd_at_end(numbers: Vector, counts: Integers, sign: float) -> int:
    """Return how many of the last numbers are far from the others, or are codes; `sign` is -1 if the numbers fall."""
    for n in range(1, min(_MAX_ODD_NUMBERS, numbers.size - 2) + 1):
        others, odd = numbers[:-n], numbers[-n:]
        width, distance = sign * (others[-1] - others[0]), sign * (odd[0] - others[-1])
        if all(map(_is_code, odd)) and not _are_mostly_prices(others):
            short = abs(odd[0]) < 10  # 9 is a usual code only if the other numbers are 0 and 1, or 1 and 2
            near, most = counts[:-n][others.size // 2 :].max(), counts[-n:].max()
            frequent = most >= _MIN_CODES and most > 3 * near and distance > 0.1 * width and not short
            if frequent or (most > 1 and distance > (4.0 if short and sign > 0 else 1.0) * width):
                return n
        few = others.size > MAX_CODED_CATEGORIES and counts[-n:].sum() <= _MAX_ODD_SHARE * counts.sum()
        if few and distance > ODD_DISTANCE * width and not _has_tail(sign * others, sign * odd[0]):
            return n
    return 0


def _n_negative_codes(numbers: Vector, counts: Integers) -> int:
    """Return how many of the smallest numbers are codes for missing values among numbers that are not negative."""
    n = int(np.sum(numbers < 0))
    others = numbers[n:]
    if not 0 < n <= _MAX_NEGATIVE_CODES or others.size <= MAX_CODED_CATEGORIES or counts[:n].max() < 2:
        return 0
    gaps = np.diff(others[: others.size // 2 + 1])  # the upper half can have wide gaps
    apart = others[0] - numbers[n - 1] > 3.0 * gaps.max()
    frequent = n == 1 and counts[n] >= _MIN_CODES and counts[0] > 3 * counts[n]
    coded = all(number in range(-9, 0) or _is_code(number) for number in numbers[:n])
    return n if coded and (apart or frequent) else 0


def _is_code(number: float) -> bool:
    """Whether a whole number is a usual code, such as 9, 99, 998, -777 or -32768."""
    digits = f"{abs(number):.0f}"
    nines = set(digits[:-1]) <= {"9"} and digits[-1] in "789"
    usual = nines or (digits[0] in "78" and len(set(digits)) == 1) or digits in _LARGEST_INTEGERS
    return usual and float(digits) == abs(number)


def _are_mostly_prices(numbers: Vector) -> bool:
    """Whether most numbers are positive and end in 9, so that 99 or 999 is nothing unusual."""
    return bool(np.mean((numbers > 0) & (numbers % 10 == 9)) > 0.5)


def _has_tail(numbers: Vector, odd: float) -> bool:
    """Whether positive numbers have a tail so long, on a logarithmic scale, that `odd` may belong to it."""
    positive = numbers[numbers > 0]
    return positive.size > 0 and odd / numbers[-1] < numbers[-1] / np.quantile(positive, 0.05)


def has_thousands_points(values: Vector) -> bool:
    """Return whether points in a column probably separate thousands, although they were read as decimal points.

    Then numbers up to 999 are whole, and all larger ones have three decimals: 278, 628, 1.43 (instead of 1430). Such a
    mixture is rare among measurements.

    Examples
    --------
    >>> numbers = np.arange(120.0, 2500.0, 37.0)
    >>> read = np.where(numbers < 1000, numbers, numbers / 1000)
    >>> has_thousands_points(read), has_thousands_points(numbers), has_thousands_points(numbers / 1000)
    (True, False, False)
    """
    known = values[~np.isnan(values)]
    parts = known[known != np.round(known)]
    if parts.size < _MIN_CODES or parts.size > 0.95 * known.size or not (known < 1000.0).all() or parts.min() < 1.0:
        return False
    three = np.isclose(1000.0 * parts, np.round(1000.0 * parts), rtol=0.0, atol=1e-3)
    two = np.isclose(100.0 * parts, np.round(100.0 * parts), rtol=0.0, atol=1e-3)
    return bool(three.all() and np.mean(two) < 1.0 / 3.0)


def notes_on_numbers(X: Any) -> list[str]:
    """Return notes on numbers of a data frame that were probably misread, are codes for missing values, or errors."""
    numbers = {str(name): _floats(X[name]) for name in X.columns if not holds_no_numbers(X[name])}
    return [*_notes_on_thousands(numbers), *_notes_on_odd_numbers(numbers)]


def _notes_on_thousands(numbers: dict[str, Vector]) -> list[str]:
    names = [name for name, values in numbers.items() if has_thousands_points(values)]
    if not names:
        return []
    values = numbers[names[0]]
    first = float(values[np.flatnonzero(values != np.round(values))[0]])
    which = (
        f"columns {listed(list(map(repr, names)), _MAX_COLUMNS_SHOWN)}" if len(names) > 1 else f"column {names[0]!r}"
    )
    return [
        f"Points in {which} probably separate thousands, but were read as decimal points: {first:g} would stand for "
        f"{1000.0 * first:.0f}. No number is above 999, and most numbers that are not whole have three decimals. "
        "If so, the largest values were read as the smallest. Write numbers without such points, or read the file with "
        "pandas.read_csv(..., thousands='.')."
    ]


def _notes_on_odd_numbers(numbers: dict[str, Vector]) -> list[str]:
    found = {name: odd_numbers(values) for name, values in numbers.items()}
    odd = {name: each for name, each in found.items() if each.numbers}
    if not odd:
        return []
    parts = []
    for name, each in list(odd.items())[:_MAX_COLUMNS_SHOWN]:
        words = " and ".join(f"{number:.15g} in {n:,} row{'s' if n > 1 else ''}" for number, n in each.numbers.items())
        low, high = (f"{end:.15g}" if end == round(end) else f"{end:g}" for end in (each.low, each.high))
        parts.append(f"{name!r} has {words}, and its other numbers are between {low} and {high}")
    if len(odd) > _MAX_COLUMNS_SHOWN:
        parts.append(f"{len(odd) - _MAX_COLUMNS_SHOWN:,} more columns have such numbers")
    name, number = next((name, next(iter(each.numbers))) for name, each in odd.items())
    return [
        f"Some numbers may be codes for missing values, or errors: {'; '.join(parts)}. The models use them as numbers, "
        "so a few of them can change the estimates and the ranking of all rows. If they mark missing values, leave the "
        f"cells empty, or in Python table[{name!r}].replace({number:.15g}, float('nan')). If they are errors, correct "
        "them."
    ]


# --- new rows


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
                f"cells ({found.unreadable:.0%}) cannot be read as numbers: {listed_cells(found.unread)} (rows "
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

    If at least ten rows, and most of all rows, are outside the range, there is a warning even if they are near it. If
    the column had only the numbers 0 and 1 (or 1 and 2) in the fit, other numbers in more than 5% of the rows cause a
    warning, because these rows may be coded in another way.
    """
    for name in X.columns:
        if str(name) not in scales or holds_no_numbers(X[name]):
            continue
        scale = NumberRange(*scales[str(name)])
        values = _floats(X[name])
        outside = (values < scale.low) | (values > scale.high)
        n_known = np.count_nonzero(~np.isnan(values))
        recoded = scale in _TWO_CODES and outside.sum() > MAX_UNREADABLE_SHARE_NEW_ROWS * n_known
        most = scale.high > scale.low and outside.sum() > max(MIN_OUTSIDE - 1, MAX_OUTSIDE_SHARE * n_known)
        far = ~scale.within(values, FAR_OUTSIDE) & ~np.isnan(values)
        rows = np.flatnonzero(outside if recoded or most else far)
        if rows.size:
            which = f"{rows.size:,} of {values.size:,} rows have" if rows.size > 1 else "1 row has"
            where = "far from" if far[rows].all() or recoded else "outside the range of"
            warn_user(
                f"{which} a value of {str(name)!r} that is {where} all values of the fit, which are between "
                f"{scale.low:g} and {scale.high:g} (the first is {values[rows[0]]:g} in row {rows[0] + 1}, counted "
                "from 1). The predictions for such rows are not reliable. Check the values and their unit.",
                UserWarning,
            )


def scales_of(X: Any) -> dict[str, tuple[float, float, bool]]:
    """Return the columns of numbers of a data frame, with the range of each and whether all values are integers."""
    found = {}
    for name in X.columns:
        if is_text(X[name]):
            read = read_column(cells_of(X[name]))
            values = read.values if read.is_plain else None
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
    exact = (values == np.floor(values)) & (np.abs(values) < FIRST_INEXACT_INTEGER)
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
        for name, values in changed.items():  # `assign` does not accept `self` and names that are numbers
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
    values = table_array(X)
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
