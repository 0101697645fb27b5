"""Writing of tables to files, with protection against formulas in spreadsheets."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scarless.outside.extras import need
from scarless.outside.files import aside
from scarless.outside.table_columns import TableFile, arrow, file_of, repeated

# A spreadsheet treats a text that is not a number as a formula if it begins with a tab, a carriage return, or one of
# these signs (also full-width or small), possibly after white space, line breaks and invisible characters.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
_FORMULA = rf"^[\t\r]|^[\s\pZ\pC]*[{_SIGNS}]"
_NUMBER = r"^ *[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?$"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_MAX_WIDTH = 40  # of a column of a form, in characters
MAX_SHEET_ROWS, MAX_SHEET_COLUMNS, MAX_CELL_LETTERS = 1_048_576, 16_384, 32_767  # limits of Excel


def write_table(table: Any, path: str | os.PathLike[str]) -> None:
    """Write a table to a CSV, TSV, Parquet, Arrow (Feather) or Excel file, depending on its suffix.

    The file is written under a temporary name and moved at the end, so an existing file stays intact until then.

    Parameters
    ----------
    table : pandas.DataFrame
        Table to write, without its index. Columns of mixed types are written as text.
    path : path
        File to write; text files may be compressed (``.csv.gz``, ``.csv.zst``).

    Notes
    -----
    Text files are in UTF-8, with missing values as empty cells and floats with full precision. In text files and
    workbooks, a text or column name that a spreadsheet would run as a formula gets an apostrophe in front. Such a text
    is not a number, and begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return. Reading the table does not
    remove the apostrophe. In workbooks, times with a time zone and whole numbers of more than 15 digits are
    written as text, because Excel would truncate them; a carriage return becomes a line feed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "ranked.csv"
    ...     write_table(pandas.DataFrame({"p": [0.1, None], "note": ["=1+1", "-3"]}), file)
    ...     print(file.read_text())
    "p","note"
    0.1,"'=1+1"
    ,"-3"
    """
    file = file_of(path)
    names, columns = _columns(file, table)
    with aside(Path(file.name)) as temporary:
        if file.form == "text":
            _write_text(file, names, columns, temporary)
        elif file.form == "Parquet":
            arrow("parquet").write_table(arrow().table(columns, names), temporary)
        elif file.form == "Arrow":
            arrow("feather").write_feather(arrow().table(columns, names), str(temporary), compression="zstd")
        else:
            _write_excel(file, names, columns, temporary)


def _columns(file: TableFile, table: Any) -> tuple[list[str], list[Any]]:
    names = [str(name) for name in table.columns]
    twice = repeated(names)
    if twice:
        raise file.fault(f"the table has several columns {twice[0]!r}; give every column its own name.")
    return names, [_arrow_column(table.iloc[:, place]) for place in range(len(names))]


def _arrow_column(series: Any) -> Any:
    """Return a column as an Arrow array; values of mixed types are converted to text."""
    pa = arrow()
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        missing = series.isna()
        column = pa.array(
            [None if gone else str(value) for value, gone in zip(series, missing, strict=True)], pa.string()
        )
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


# --- text


def _write_text(file: TableFile, names: list[str], columns: list[Any], temporary: Path) -> None:
    pa, arrow_csv = arrow(), arrow("csv")
    columns = [_cells(column) for column in columns]
    if len(columns) == 1:  # A missing value would be an empty line, which is not read as a row.
        columns = [column.cast(pa.string()).fill_null("") for column in columns]
    table = pa.table(columns, [_harmless_name(name) for name in names])
    options = arrow_csv.WriteOptions(delimiter="\t" if file.suffix == ".tsv" else ",")
    with pa.OSFile(str(temporary), "wb") as raw:
        if file.compression is None:
            arrow_csv.write_csv(table, raw, options)
        else:
            with pa.CompressedOutputStream(raw, file.compression) as packed:
                arrow_csv.write_csv(table, packed, options)


def _cells(column: Any) -> Any:
    """Return a column in a type that can be written to a text file."""
    pa, types, kind = arrow(), arrow("types"), column.type
    if types.is_dictionary(kind):
        return _cells(column.cast(kind.value_type))
    if types.is_nested(kind) or types.is_binary(kind):
        column = pa.chunked_array(
            [pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())]
        )
    if types.is_timestamp(kind):
        return _short_times(column)
    if types.is_duration(kind):
        return column.cast(pa.int64())
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    return harmless(column) if is_text else column


def _short_times(column: Any) -> Any:
    """Return dates if no value has a time, or times in seconds if none has a fraction."""
    pa, zone = arrow(), column.type.tz
    try:
        seconds = column.cast(pa.timestamp("s", zone))
    except pa.ArrowInvalid:
        return column
    if zone is None and seconds.cast(pa.date32()).cast(pa.timestamp("s")).equals(seconds):
        return seconds.cast(pa.date32())
    return seconds


def harmless(column: Any) -> Any:
    """Return texts, with an apostrophe in front of each text that a spreadsheet would run as a formula.

    Examples
    --------
    >>> import pyarrow
    >>> harmless(pyarrow.chunked_array([["=cmd", "-3", "-a", "+1e5", None, "a=b"]])).to_pylist()
    ["'=cmd", '-3', "'-a", '+1e5', None, 'a=b']
    """
    pc = arrow("compute")
    formula = pc.and_not(pc.match_substring_regex(column, _FORMULA), pc.match_substring_regex(column, _NUMBER))
    if not pc.any(formula).as_py():
        return column
    apostrophe, nothing = (arrow().scalar(text, column.type) for text in ("'", ""))
    return pc.if_else(formula, pc.binary_join_element_wise(apostrophe, column, nothing), column)


def _harmless_name(name: str) -> str:
    return str(harmless(arrow().chunked_array([[name]]))[0].as_py())


# --- Excel


def _write_excel(file: TableFile, names: list[str], columns: list[Any], temporary: Path) -> None:
    openpyxl = need("openpyxl", "Excel", "excel")
    n_rows = len(columns[0]) if columns else 0
    if n_rows >= MAX_SHEET_ROWS or len(names) > MAX_SHEET_COLUMNS:
        raise file.fault(
            f"an Excel sheet has room for {MAX_SHEET_ROWS - 1:,} rows and {MAX_SHEET_COLUMNS:,} columns, but the table "
            f"has {n_rows:,} rows and {len(names):,} columns; write .parquet or .csv."
        )
    header = _excel_texts(file, "header", arrow().chunked_array([names], arrow().string()))
    cells = [_excel_cells(file, name, column) for name, column in zip(names, columns, strict=True)]
    with temporary.open("wb") as stream:  # Opened first, because a workbook prints errors if it cannot be saved.
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet("table")
        for row in (header, *zip(*cells, strict=True)):
            sheet.append(row)
        book.save(stream)


def _excel_cells(file: TableFile, name: str, column: Any) -> list[Any]:
    """Return a column as Python values; values that Excel would truncate become text."""
    pa, pc, types = arrow(), arrow("compute"), arrow("types")
    kind = column.type
    if types.is_timestamp(kind) and kind.tz is None:
        return list(column.cast(pa.timestamp("us"), safe=False).to_pylist())
    if types.is_floating(kind):
        return [str(value) if value in {float("inf"), -float("inf")} else value for value in column.to_pylist()]
    if types.is_boolean(kind) or (types.is_integer(kind) and not pc.any(pc.greater(pc.abs(column), 10**15)).as_py()):
        return list(column.to_pylist())
    return _excel_texts(file, f"column {name!r}", _cells(column).cast(pa.string()))


def _excel_texts(file: TableFile, where: str, column: Any) -> list[Any]:
    """Return texts for Excel; raise an error if they have control characters or are too long."""
    pc = arrow("compute")
    column = harmless(column)
    if pc.any(pc.match_substring_regex(column, _CONTROL)).as_py():
        raise file.fault(f"the {where} has a control character that Excel does not allow; write .parquet or .csv.")
    longest = pc.max(pc.utf8_length(column)).as_py() or 0
    if longest > MAX_CELL_LETTERS:
        raise file.fault(
            f"the {where} has a text of {longest:,} characters, but the limit of Excel is {MAX_CELL_LETTERS:,}; write "
            ".parquet or .csv."
        )
    return list(column.to_pylist())


def write_form(table: Any, path: Path, *, sheet: str, column: str, choices: Sequence[str]) -> None:
    """Write a table as an Excel workbook in which only one column can be edited; its cells are chosen from a list.

    Parameters
    ----------
    table : pandas.DataFrame
        Table to write, without its index.
    path : Path
        File to write, .xlsx.
    sheet : str
        Name of the sheet.
    column : str
        Column that can be edited.
    choices : list of str
        Values that the column accepts.
    """
    openpyxl = need("openpyxl", "Excel", "excel")
    styles, utils = need("openpyxl.styles", "Excel", "excel"), need("openpyxl.utils", "Excel", "excel")
    lists = need("openpyxl.worksheet.datavalidation", "Excel", "excel")
    with aside(path) as temporary:
        plain_file = temporary.with_suffix(".xlsx")
        try:
            write_table(table, plain_file)
            book = openpyxl.load_workbook(plain_file)
        finally:
            plain_file.unlink(missing_ok=True)
        form = book.active
        form.title, form.freeze_panes = sheet, "C2"
        letter = utils.get_column_letter(list(table.columns).index(column) + 1)
        cells = f"{letter}2:{letter}{len(table) + 1}"
        accepted = lists.DataValidation("list", formula1=f'"{",".join(choices)}"', allow_blank=True)
        accepted.error, accepted.showErrorMessage = f"Write {', '.join(choices[:-1])} or {choices[-1]}.", True
        form.add_data_validation(accepted)
        accepted.add(cells)
        for cell in form[1]:
            cell.font = styles.Font(bold=True)
        for (cell,) in form[cells]:
            cell.protection = styles.Protection(locked=False)
            cell.fill = styles.PatternFill("solid", start_color="FFF7D6")
        for place, name in enumerate(table.columns, start=1):
            widest = max([len(str(name)), *(len(str(value)) for value in table[name].head(200))])
            form.column_dimensions[utils.get_column_letter(place)].width = min(max(widest + 2, 10), _MAX_WIDTH)
        form.protection.sheet = True
        form.protection.formatColumns = form.protection.sort = form.protection.autoFilter = False
        with temporary.open("wb") as stream:
            book.save(stream)
