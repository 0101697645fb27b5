"""Workbooks of Excel: the cells of one sheet, in and out."""

import datetime
import zipfile
from typing import Any

from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.tables.columns import MISSING, arrow, typed_column
from scarless.outside.tables.kinds import TableFile, TableFileError

_ERRORS = {"#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA"}
_MISSING = _ERRORS | set(MISSING)
MAX_ROWS, MAX_COLUMNS, MAX_LETTERS = 1_048_576, 16_384, 32_767


def read_excel(file: TableFile, sheet: str | None = None) -> tuple[list[str], list[Any]]:
    """Return names and typed columns of a sheet of a workbook; of the first, where none is named."""
    rows = _rows(file, sheet, values=True)
    _refuse_uncomputed(file, sheet, rows)
    while rows and not any(_filled(cell) for cell in rows[-1]):
        rows.pop()
    if not rows:
        which = "the first sheet" if sheet is None else f"the sheet {sheet!r}"
        raise file.fault(f"{which} of this workbook is empty; put the table there, or name another sheet (--sheet).")
    if len(rows) == 1:
        raise file.fault("this file has a header and no rows below it; write it again with its rows.")
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
                    f"another one, name it: --sheet (sheet={sheets[1].title!r}).",
                    UserWarning,
                )
            chosen = sheets[0] if sheet is None else _sheet_called(file, sheets, sheet)
            chosen.reset_dimensions()  # what a file says of its size may be wrong
            return [tuple(row) for row in chosen.iter_rows(values_only=True)]
        finally:
            book.close()
    except (UserWarning, TableFileError):
        raise  # where warnings are errors, and where there is no such sheet
    except Exception as error:  # openpyxl lets whatever a broken file provokes through
        raise file.fault(
            f"this Excel workbook is damaged or none ({type(error).__name__}: {str(error)[:100]}); save it again "
            "as .xlsx."
        ) from error


def _sheet_called(file: TableFile, sheets: list[Any], name: str) -> Any:
    """Return the sheet of that name, in capital letters or small ones; or say which there are."""
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
    """Refuse formulas that no program has computed: they would come as missing values."""
    if not _has_formulas(file) or all(cell is not None for row in rows for cell in row):
        return
    for line, (row, written) in enumerate(zip(rows, _rows(file, sheet, values=False), strict=False), start=1):
        for cell, formula in zip(row, written, strict=False):
            if cell is None and isinstance(formula, str) and formula.startswith("="):
                raise file.fault(
                    f"row {line} has the formula {formula[:60]!r} without a value; open and save the workbook in "
                    "Excel or LibreOffice, which compute it."
                )


def _has_formulas(file: TableFile) -> bool:
    with zipfile.ZipFile(file.name) as parts:
        sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/")]
        return any(b"<f" in parts.read(name) for name in sheets)


def _column(values: list[Any]) -> Any:
    """Return cells of one column: as Excel has them where they are of one kind, else by what they look like."""
    pa = arrow()
    values = [None if isinstance(value, str) and value.strip() in _MISSING else value for value in values]
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
