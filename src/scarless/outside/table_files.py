"""Reading of table files, whose suffix determines the format.

This module reads Parquet, Arrow and Excel files; `table_text` reads text files.
"""

import datetime
import json
import os
import re
import zipfile
from typing import Any

from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.table_columns import (
    COMPRESSIONS,
    MISSING_WORDS,
    SUFFIXES,
    TableFile,
    TableFileError,
    arrow,
    file_of,
    first_bytes,
    repeated,
    to_frame,
    typed_column,
)
from scarless.outside.table_text import read_text
from scarless.outside.table_writing import write_table

__all__ = ["TableFileError", "read_table", "table_suffixes", "write_table"]

_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")
_ERRORS = {"#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA"}
_MISSING_CELLS = _ERRORS | set(MISSING_WORDS)


def table_suffixes() -> tuple[str, ...]:
    """Return the suffixes of files that can be read.

    Examples
    --------
    >>> table_suffixes()[:4]
    ('.csv', '.csv.gz', '.csv.zst', '.csv.zstd')
    """
    ends = ("", *COMPRESSIONS)
    return tuple(f"{suffix}{end}" for suffix, form in SUFFIXES.items() for end in (ends if form == "text" else ("",)))


def read_table(
    path: str | os.PathLike[str], *, separator: str | None = None, encoding: str = "utf-8", sheet: str | None = None
) -> Any:
    r"""Read a table from a CSV, TSV, Parquet, Arrow (Feather) or Excel file.

    The suffix determines the format; text files may be compressed (``.csv.gz``, ``.tsv.zst``). A column is converted
    from text only if this does not change any value.

    Parameters
    ----------
    path : path
        File to read.
    separator : str, optional
        Separator of a text file. By default, comma, semicolon, tab or ``|``, detected from the first rows; a tab for
        ``.tsv`` files.
    encoding : str, default="utf-8"
        Encoding of a text file; a byte order mark is skipped.
    sheet : str, optional
        Name of a sheet of an Excel workbook. By default, the first sheet, with a warning if there are more.

    Returns
    -------
    pandas.DataFrame
        Table with rows numbered from 0; white space around column names is removed. In text files and Excel sheets:

        - empty cells and the spellings of missing values that pandas knows (NA, n/a, null, NaN, ...) are missing, also
          in text columns;
        - all values of a column determine its type: whole number, number, boolean (true, false), datetime (ISO format;
          values with an offset become UTC) or text. White space is ignored, except in text;
        - columns with codes stay text: 00123 (a zero before a digit, no decimal point), +491701234567, whole numbers
          that would lose digits, hexadecimal numbers, numbers too large for a float;
        - numbers may have a decimal comma if the separator is a semicolon. In such a file, a column whose points may
          all group thousands (1.234) stays text, with a warning;
        - empty lines are ignored;
        - a first column without a name (or "Unnamed: 0") that counts the rows, as written by pandas and R, is left out
          with a warning. An empty column without a name is left out, too.

        Whole numbers with missing values become floats, or nullable integers if floats would lose digits; booleans with
        missing values are nullable. In Parquet and Arrow files, decimals become floats, a named index becomes a column,
        and an index without a name is left out with a warning.

    Raises
    ------
    TableFileError
        If the file does not exist, does not match its suffix, is damaged or empty, has rows of different lengths or
        another encoding, or if column names are missing or repeated, or columns are nested.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "patients.csv"
    ...     _ = file.write_text("id;weight;smokes\n007;3,5;true\n012;4;\n")
    ...     read_table(file)
        id  weight  smokes
    0  007     3.5    True
    1  012     4.0    <NA>
    """
    arrow()  # A missing package is reported before a missing file.
    file = file_of_reading(path, encoding)
    begin = first_bytes(file)
    if sheet is not None and file.form != "Excel":
        raise file.fault(
            f"sheet={sheet!r} (--sheet) is only for Excel workbooks, but the suffix of this file is {file.suffix}; "
            "leave sheet out."
        )
    if file.form == "text":
        names, columns = read_text(file, separator)
    elif file.form == "Excel":
        names, columns = read_excel(file, sheet)
    else:
        names, columns = read_binary(file, begin)
    names, columns = _named(file, names, columns)
    return to_frame(file, names, columns)


def file_of_reading(path: str | os.PathLike[str], encoding: str) -> TableFile:
    """Return the file to read; a missing file is reported before an unknown suffix."""
    name = os.fspath(path)
    if not os.path.exists(name) or os.path.isdir(name):
        first_bytes(TableFile(name, "text"))
    return file_of(path, encoding=encoding)


def _named(file: TableFile, names: list[str], columns: list[Any]) -> tuple[list[str], list[Any]]:
    """Return the columns that have names; raise an error if names are missing or repeated."""
    dropped = {place for place, name in enumerate(names) if _can_be_dropped(place, name, columns[place])}
    if dropped:
        warn_user(
            f"{file.name} is read without {_listed('column', [place + 1 for place in sorted(dropped)])}. A column "
            "without a name is left out if it has only row numbers or no values. To keep it, give it a name in the "
            "file.",
            UserWarning,
        )
    kept = [place for place in range(len(names)) if place not in dropped]
    nameless = [place + 1 for place in kept if not names[place]]
    if nameless:
        have = "has" if len(nameless) == 1 else "have"
        raise file.fault(f"{_listed('column', nameless)} {have} no name; give every column a name.")
    names = [names[place] for place in kept]
    twice = repeated(names)
    if twice:
        occur = "occurs" if len(twice) == 1 else "occur"
        raise file.fault(f"the {_listed('column name', twice)} {occur} more than once; give every column its own name.")
    return names, [columns[place] for place in kept]


def _can_be_dropped(place: int, name: str, column: Any) -> bool:
    """Return whether a column without a name has only row numbers, as written by pandas and R, or no values."""
    if not name and column.null_count == len(column):
        return True
    if place or name not in {"", "Unnamed: 0"} or column.null_count or not arrow("types").is_int64(column.type):
        return False
    return any(column.equals(_counted(column, start)) for start in (0, 1))


def _counted(column: Any, start: int) -> Any:
    return arrow().chunked_array([arrow().array(range(start, start + len(column)), arrow().int64())])


def _listed(noun: str, items: list[Any]) -> str:
    shown = ", ".join(map(repr, items[:10])) + (", ..." if len(items) > 10 else "")
    return f"{noun}{'s' * (len(items) > 1)} {shown}"


# --- Parquet, Arrow and Excel


def read_binary(file: TableFile, begin: bytes) -> tuple[list[str], list[Any]]:
    """Return names and columns of a Parquet or Arrow file."""
    pa = arrow()
    try:
        table = _table(file, begin)
    except (pa.ArrowException, OSError) as error:
        raise file.fault(
            f"this {file.form} file is damaged or incomplete ({' '.join(str(error).split())[:150]}); copy it again, or "
            "write it again."
        ) from error
    if not len(table):
        raise file.fault("this file has no rows; write it again with its rows.")
    names, columns = list(table.column_names), list(table.columns)
    for name in _nameless_index(table):
        warn_user(
            f"{file.name}: the row index of pandas, which has no name, was left out. To keep it as a column, use "
            'table.rename_axis("name").reset_index() before writing.',
            UserWarning,
        )
        columns.pop(names.index(name))
        names.remove(name)
    return [name.strip() for name in names], columns


def _table(file: TableFile, begin: bytes) -> Any:
    pa = arrow()
    if file.form == "Parquet":
        return arrow("parquet").ParquetFile(file.name).read()
    if begin.startswith(b"FEA1"):
        return arrow("feather").read_table(file.name, memory_map=False)
    with pa.OSFile(file.name) as stream:
        reader = pa.ipc.open_file(stream) if begin.startswith(b"ARROW1") else pa.ipc.open_stream(stream)
        return reader.read_all()


def _nameless_index(table: Any) -> list[str]:
    metadata = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    index = metadata.get("index_columns", [])
    return [
        name
        for name in index
        if isinstance(name, str) and _NAMELESS_INDEX.fullmatch(name) and name in table.column_names
    ]


def read_excel(file: TableFile, sheet: str | None = None) -> tuple[list[str], list[Any]]:
    """Return names and typed columns of a sheet of a workbook; by default, of the first sheet."""
    rows = _rows(file, sheet, values=True)
    _refuse_uncomputed(file, sheet, rows)
    while rows and not any(_filled(cell) for cell in rows[-1]):
        rows.pop()
    if not rows:
        which = "the first sheet" if sheet is None else f"the sheet {sheet!r}"
        raise file.fault(f"{which} of this workbook is empty; put the table there, or name another sheet (--sheet).")
    if len(rows) == 1:
        raise file.fault("this file has a header but no rows; write it again with its rows.")
    width = max(place + 1 for row in rows for place, cell in enumerate(row) if _filled(cell))
    names = ["" if cell is None else str(cell).strip() for cell in _wide(rows[0], width)]
    columns = [list(column) for column in zip(*(_wide(row, width) for row in rows[1:]), strict=True)]
    return names, [_column(values) for values in columns]


def _rows(file: TableFile, sheet: str | None, *, values: bool) -> list[tuple[Any, ...]]:
    openpyxl = need("openpyxl", "Excel", "excel")
    try:
        book = openpyxl.load_workbook(file.name, read_only=True, data_only=values)
        try:
            sheets = book.worksheets
            if len(sheets) > 1 and values and sheet is None:
                warn_user(
                    f"{file.name}: only the first of {len(sheets)} sheets, {sheets[0].title!r}, is read. To read "
                    f'another sheet, name it: --sheet "{sheets[1].title}" (in Python: sheet={sheets[1].title!r}).',
                    UserWarning,
                )
            chosen = sheets[0] if sheet is None else _sheet_called(file, sheets, sheet)
            chosen.reset_dimensions()  # The size that is stored in a file may be wrong.
            return [tuple(row) for row in chosen.iter_rows(values_only=True)]
        finally:
            book.close()
    except (UserWarning, TableFileError):
        raise
    except Exception as error:  # A damaged file may raise anything in openpyxl.
        raise file.fault(
            f"this file is damaged or not an Excel workbook ({type(error).__name__}: {str(error)[:100]}); save it "
            "again as .xlsx."
        ) from error


def _sheet_called(file: TableFile, sheets: list[Any], name: str) -> Any:
    """Return the sheet with a name, in upper or lower case; raise an error if there is none."""
    exact = [sheet for sheet in sheets if sheet.title == name]
    alike = exact or [sheet for sheet in sheets if sheet.title.strip().casefold() == name.strip().casefold()]
    if len(alike) != 1:
        known = ", ".join(repr(sheet.title) for sheet in sheets[:12])
        raise file.fault(f"this workbook has no sheet {name!r}; it has {known}. Name one of them (--sheet).")
    return alike[0]


def _filled(cell: Any) -> bool:
    return cell is not None and cell != ""


def _wide(row: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    return (row + (None,) * width)[:width]


def _refuse_uncomputed(file: TableFile, sheet: str | None, rows: list[tuple[Any, ...]]) -> None:
    """Raise an error if a formula has no computed value, because it would be read as a missing value."""
    if not _has_formulas(file) or all(cell is not None for row in rows for cell in row):
        return
    for line, (row, written) in enumerate(zip(rows, _rows(file, sheet, values=False), strict=False), start=1):
        for cell, formula in zip(row, written, strict=False):
            if cell is None and isinstance(formula, str) and formula.startswith("="):
                raise file.fault(
                    f"row {line} has the formula {formula[:60]!r} without a value; open and save the workbook in "
                    "Excel or LibreOffice to compute it."
                )


def _has_formulas(file: TableFile) -> bool:
    with zipfile.ZipFile(file.name) as parts:
        sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/")]
        return any(b"<f" in parts.read(name) for name in sheets)


def _column(values: list[Any]) -> Any:
    """Return a column with the type of its cells in Excel; cells of several types are read as if they were text."""
    pa = arrow()
    values = [None if isinstance(value, str) and value.strip() in _MISSING_CELLS else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int} and all(value is None or abs(value) < 2**63 for value in values):
        return pa.chunked_array([pa.array(values, pa.int64() if kinds else pa.float64())])
    if kinds <= {int, float} and all(
        value is None or isinstance(value, float) or abs(value) <= 2**53 for value in values
    ):
        return pa.chunked_array([pa.array(values, pa.float64())])
    if kinds == {bool}:
        return pa.chunked_array([pa.array(values, pa.bool_())])
    if kinds == {datetime.datetime}:
        return pa.chunked_array([pa.array(values, pa.timestamp("us"))])
    return typed_column(
        pa.chunked_array([pa.array([None if value is None else str(value) for value in values], pa.string())])
    )
