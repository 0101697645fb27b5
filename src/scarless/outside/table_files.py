"""A user's table from a file, and a table into one, by the suffix of the file's name."""

import os
from typing import Any

from scarless.outside.notices import warn_user
from scarless.outside.tables.binary import read_binary
from scarless.outside.tables.columns import arrow, to_frame
from scarless.outside.tables.excel import read_excel
from scarless.outside.tables.kinds import (
    COMPRESSIONS,
    SUFFIXES,
    TableFile,
    TableFileError,
    file_of,
    first_bytes,
    repeated,
)
from scarless.outside.tables.text import read_text
from scarless.outside.tables.writing import write_table

__all__ = ["TableFileError", "read_table", "table_suffixes", "write_table"]


def table_suffixes() -> tuple[str, ...]:
    """Return the suffixes of files that can be read, for help texts.

    Examples
    --------
    >>> table_suffixes()[:4]
    ('.csv', '.csv.gz', '.csv.zst', '.csv.zstd')
    """
    behind = ("", *COMPRESSIONS)
    return tuple(f"{suffix}{end}" for suffix, form in SUFFIXES.items() for end in (behind if form == "text" else ("",)))


def read_table(
    path: str | os.PathLike[str], *, separator: str | None = None, encoding: str = "utf-8", sheet: str | None = None
) -> Any:
    r"""Read a table from a CSV, TSV, Parquet, Arrow (Feather) or Excel file.

    The suffix of the name says which; text files may be compressed (``.csv.gz``, ``.tsv.zst``). Nothing is guessed that
    would change a value: what is not sure stays text.

    Parameters
    ----------
    path : path
        The file.
    separator : str, optional
        What stands between cells of a text file. Without it, one of comma, semicolon, tab and ``|`` is found from the
        header and the first rows; in ``.tsv`` it is the tab.
    encoding : str, default="utf-8"
        Encoding of a text file; a byte order mark is skipped.
    sheet : str, optional
        Name of a sheet of an Excel workbook; by default the first, with a warning where there are more.

    Returns
    -------
    pandas.DataFrame
        With names free of white space around them, and rows numbered from 0. In text files and sheets of
        Excel:

        - empty cells and the spellings of "missing" that pandas knows (NA, n/a, null, NaN, None, ...) are missing, also
          in columns of text;
        - types are found from all values of a column: whole numbers, numbers, booleans (true, false), datetimes (ISO
          form; with an offset they become UTC), text. White space around all but text is ignored;
        - a column with a code in it stays text: 00123 (a zero before a digit, no decimal point), +491701234567, whole
          numbers that would lose digits, hexadecimal numbers, numbers too large for a float;
        - numbers may have a decimal comma where the separator is a semicolon; beside such a column, one whose points
          may all group thousands (1.234) stays text, with a warning;
        - empty lines are no rows;
        - a first column without a name (or "Unnamed: 0") that counts rows from 0 or 1, as pandas and R write it, is
          left out with a warning, and so is a nameless column without values.

        Whole numbers with missing values become floats, or nullable integers where floats would lose digits; booleans
        with missing values are nullable. In Parquet and Arrow files, decimals become floats and a named index a column;
        a nameless index is left out with a warning.

    Raises
    ------
    TableFileError
        One sentence that names the file and says what is wrong: no such file, not of the kind that its name says,
        damaged, empty, rows of different lengths (with line), wrong encoding (with byte and line), names that are
        missing or there twice, nested columns.

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
    arrow()  # the package before the file: what is missing is said first
    file = file_of_reading(path, encoding)
    begin = first_bytes(file)
    if sheet is not None and file.form != "Excel":
        raise file.fault(f"sheet={sheet!r} (--sheet) is for Excel workbooks, and this is {file.suffix}; leave it out.")
    if file.form == "text":
        names, columns = read_text(file, separator)
    elif file.form == "Excel":
        names, columns = read_excel(file, sheet)
    else:
        names, columns = read_binary(file, begin)
    names, columns = _named(file, names, columns)
    return to_frame(file, names, columns)


def file_of_reading(path: str | os.PathLike[str], encoding: str) -> TableFile:
    """Return the file that is to be read; that there is none is said before that its suffix is unknown."""
    name = os.fspath(path)
    if not os.path.exists(name) or os.path.isdir(name):
        first_bytes(TableFile(name, "text"))
    return file_of(path, encoding=encoding)


def _named(file: TableFile, names: list[str], columns: list[Any]) -> tuple[list[str], list[Any]]:
    """Return columns that have a name each, or say which have none or share one."""
    dropped = {place for place, name in enumerate(names) if _may_go(place, name, columns[place])}
    if dropped:
        warn_user(
            f"{file.name}: {_listed('column', [place + 1 for place in sorted(dropped)])} left out: without a name, and "
            "with row numbers or nothing in it. Give it a name in the file to keep it.",
            UserWarning,
        )
    kept = [place for place in range(len(names)) if place not in dropped]
    nameless = [place + 1 for place in kept if not names[place]]
    if nameless:
        raise file.fault(f"the header has no name for {_listed('column', nameless)}; give every column a name.")
    names = [names[place] for place in kept]
    twice = repeated(names)
    if twice:
        raise file.fault(
            f"the header has {_listed('name', twice)} more than once; give every column a name of its own."
        )
    return names, [columns[place] for place in kept]


def _may_go(place: int, name: str, column: Any) -> bool:
    """Return whether a column is nothing but row numbers as pandas and R write them, or nothing at all."""
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
