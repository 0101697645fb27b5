"""Formats of table files, and conversion of their columns.

Columns of texts are converted to numbers, booleans and dates without loss, and Arrow columns to pandas columns.
"""

import difflib
import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from scarless.outside.extras import need

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
SUFFIXES = {
    ".csv": "text", ".tsv": "text", ".txt": "text", ".parquet": "Parquet", ".arrow": "Arrow", ".feather": "Arrow",
    ".ipc": "Arrow", ".xlsx": "Excel",
}  # fmt: skip
_FIRST_BYTES = {
    b"PAR1": "Parquet", b"ARROW1": "Arrow", b"FEA1": "Arrow", b"PK\x03\x04": "Excel", b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd", b"\xff\xff\xff\xff": "Arrow", b"\xd0\xcf\x11\xe0": "old Excel (.xls)",
    b"BZh": "bzip2", b"%PDF": "PDF", b"SQLite format 3": "SQLite", b"\xfd7zXZ": "xz",
}  # fmt: skip
_USUAL_SUFFIX = {"Parquet": ".parquet", "Arrow": ".arrow", "Excel": ".xlsx", "text": ".csv"}
EXTRA_USER = "Reading and writing tables"
MISSING_WORDS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
# Among numbers and dates, this word is a missing value. Among texts, it is a category, such as no insurance.
NONE_WORD = "None"
_MAX_EXACT_INTEGER = 2**53  # Whole numbers up to here are exact as floats.
_NUMBER = re.compile(
    r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*|\s*[+-]?inf(inity)?\s*", re.IGNORECASE | re.ASCII
)
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d([ T]\d\d(:?\d\d.*)?)?\s*", re.ASCII)
# Texts that are codes rather than numbers: 00123, 007e5 (but 00.5 is a number), and +491701234567.
_CODE = r"^([+-]?0[0-9][^.]*|\+[0-9]{7,})$"


class TableFileError(ValueError):
    """A table file cannot be read or written. The message names the file and the reason, and says what to do."""


class TableFile(NamedTuple):
    """The name of a table file, and its format."""

    name: str
    form: str
    compression: str | None = None
    suffix: str = ".csv"
    encoding: str = "utf-8"

    def fault(self, text: str) -> TableFileError:
        """Return an error that names this file."""
        return TableFileError(f"{self.name}: {text}")


def file_of(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> TableFile:
    """Return the format of a file according to its suffix, in upper or lower case.

    Examples
    --------
    >>> file_of("data/Patients.TSV.gz")
    TableFile(name='data/Patients.TSV.gz', form='text', compression='gzip', suffix='.tsv', encoding='utf-8')
    """
    name = os.fspath(path)
    stem, suffix = os.path.splitext(name.lower())
    compression = COMPRESSIONS.get(suffix)
    if compression is not None:
        suffix = os.path.splitext(stem)[1]
    form = SUFFIXES.get(suffix)
    if form is None or (compression is not None and form != "text"):
        ending = "".join(Path(name).suffixes[-2:]) or "no suffix"
        raise TableFileError(
            f"{name}: the suffix of a table file must be one of {', '.join(SUFFIXES)}, and text files may be "
            f"compressed ({', '.join(COMPRESSIONS)}); got {ending}. Rename or convert the file."
        )
    return TableFile(name, form, compression, suffix, encoding)


def repeated(names: list[str]) -> list[str]:
    """Return the names that occur more than once.

    Examples
    --------
    >>> repeated(["a", "b", "a"])
    ['a']
    """
    return [name for name, count in Counter(names).items() if count > 1]


def first_bytes(file: TableFile) -> bytes:
    """Return the first bytes of a file; raise an error if it cannot be read or does not match its suffix."""
    path = Path(file.name)
    if path.is_dir():
        raise file.fault("this is a folder; pass the path of a file.")
    try:
        with path.open("rb") as stream:
            begin = stream.read(4096)
    except FileNotFoundError:
        raise file.fault(f"there is no such file{_nearest(path)}.") from None
    except PermissionError:
        raise file.fault(
            "you have no permission to read this file; change its permissions, or ask its owner."
        ) from None
    except OSError as error:
        raise file.fault(f"this file cannot be read ({error.strerror or error}); copy it again.") from error
    if not begin:
        raise file.fault("this file is empty (0 bytes); write it again.")
    check_form(file, begin, file.compression or file.form)
    return begin


def check_form(file: TableFile, begin: bytes, expected: str) -> None:
    """Raise an error if the first bytes of a file are those of another format."""
    found = form_by_bytes(begin)
    if expected == "Arrow" and found is None and not looks_like_text(begin):
        return  # A stream of an old version of Arrow begins with the length of its schema.
    if found != expected and not (expected == "text" and found is None):
        actual = "text" if found is None and looks_like_text(begin) else found
        content = f"the file seems to be {_with_article(actual)} file" if actual else "its first bytes do not match"
        suffix = _USUAL_SUFFIX.get(actual or "")
        raise file.fault(
            f"the suffix means {_with_article(expected)} file, but {content}; "
            + (f"rename it to end in {suffix}." if suffix else "convert it, or write it again.")
        )


def form_by_bytes(begin: bytes) -> str | None:
    """Return the format of a file that begins with these bytes, or None.

    Examples
    --------
    >>> form_by_bytes(b"PAR1...")
    'Parquet'
    """
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n")[:14].lower().startswith((b"<!doctype html", b"<html")):
        return "HTML"
    return next((form for magic, form in _FIRST_BYTES.items() if begin.startswith(magic)), None)


def looks_like_text(begin: bytes) -> bool:
    """Return whether bytes are UTF-8 text; the last character may be incomplete."""
    try:
        begin[:-4].decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in begin


def _with_article(form: str) -> str:
    return f"an {form}" if form[0] in "AEIOaeioHx" else f"a {form}"


def _nearest(path: Path) -> str:
    try:
        names = [other.name for other in path.parent.iterdir() if other.is_file()]
    except OSError:
        return f", and no folder {str(path.parent)!r}"
    near = difflib.get_close_matches(path.name, names, 1)
    return f"; perhaps you meant {str(path.with_name(near[0]))!r}" if near else "; check its name and folder"


def arrow(part: str = "") -> Any:
    """Return pyarrow, or one of its modules."""
    return need(f"pyarrow.{part}" if part else "pyarrow", EXTRA_USER, "tool")


def typed_columns(columns: list[Any], *, decimal_comma: bool = False) -> list[Any]:
    """Return each column of texts with the type that all of its values have.

    Examples
    --------
    >>> import pyarrow
    >>> texts = [["1", None], ["1", "2.5"], ["001", "2"], ["true", "False"], ["2020-01-31", None], ["a", "1"]]
    >>> columns = [pyarrow.chunked_array([column], pyarrow.string()) for column in texts]
    >>> [str(column.type) for column in typed_columns(columns)]
    ['int64', 'double', 'string', 'bool', 'timestamp[us]', 'string']
    """
    with ThreadPoolExecutor(max(1, arrow().cpu_count())) as pool:
        return list(pool.map(lambda column: typed_column(column, decimal_comma=decimal_comma), columns))


def typed_column(column: Any, *, decimal_comma: bool = False) -> Any:
    """Return a column of texts as numbers, booleans or datetimes if all values have this type; otherwise unchanged."""
    pc = arrow("compute")
    found = _typed(column, decimal_comma)
    if found is None and _any(pc.equal(column, NONE_WORD)):
        none = arrow().scalar(None, column.type)
        found = _typed(pc.if_else(pc.equal(column, NONE_WORD), none, column), decimal_comma)
        found = None if found is not None and found.null_count == len(found) else found
    if found is not None:
        return found
    trimmed = pc.utf8_trim_whitespace(column)
    if pc.sum(pc.binary_length(trimmed)) == pc.sum(pc.binary_length(column)):
        return column
    none = arrow().scalar(None, column.type)
    trimmed = pc.if_else(pc.is_in(trimmed, arrow().array(MISSING_WORDS)), none, trimmed)
    found = _typed(trimmed, decimal_comma)
    return pc.if_else(pc.is_valid(trimmed), column, none) if found is None else found


def _typed(column: Any, decimal_comma: bool) -> Any:
    """Return a column with the type of its first value, or None if not all values have this type."""
    first = _first(column)
    if first is None:
        return arrow().chunked_array([arrow().nulls(len(column), arrow().float64())])
    if _NUMBER.fullmatch(first):
        return _numbers(column, decimal_comma, may_be_whole="." not in first)
    if first.lower() in {"true", "false"}:
        return _booleans(column)
    return _datetimes(column) if _DATE.fullmatch(first) else None


def _first(column: Any) -> str | None:
    for chunk in column.chunks:
        if chunk.null_count < len(chunk):
            place = arrow("compute").index(chunk.is_valid(), True).as_py()
            return str(chunk[place].as_py())
    return None


def _numbers(column: Any, decimal_comma: bool, *, may_be_whole: bool) -> Any:
    pa, pc = arrow(), arrow("compute")
    whole = _cast(column, pa.int64()) if may_be_whole else None
    if whole is not None:
        return None if _any(_maybe_code(column)) else whole
    values = _cast(column, pa.float64())
    if values is None and decimal_comma and not _any(pc.match_substring(column, ".")):
        column = pc.replace_substring(column, ",", ".")
        values = _cast(column, pa.float64())
    if values is None or _is_code(column) or _loses_digits(column, values):
        return None
    return values


def _maybe_code(column: Any) -> Any:
    """Return which texts may be codes. Comparing only how they begin is many times faster than a regular expression."""
    pc = arrow("compute")
    length = pc.binary_length(column)
    zero = pc.and_not(pc.and_(pc.starts_with(column, "0"), pc.greater(length, 1)), pc.starts_with(column, "0."))
    minus = pc.and_not(pc.and_(pc.starts_with(column, "-0"), pc.greater(length, 2)), pc.starts_with(column, "-0."))
    return pc.or_(pc.or_(zero, minus), pc.starts_with(column, "+"))


def _is_code(column: Any) -> bool:
    few = column.filter(_maybe_code(column))
    return _any(arrow("compute").match_substring_regex(few, _CODE))


def _loses_digits(column: Any, values: Any) -> bool:
    """Return whether floats may differ from their texts: whole numbers above 2**53, or numbers that became infinite."""
    pc = arrow("compute")
    large = pc.greater_equal(pc.abs(values), float(_MAX_EXACT_INTEGER))
    if not _any(large):
        return False
    texts, values = column.filter(large), values.filter(large)
    infinite = pc.and_not(pc.is_inf(values), pc.match_substring(texts, "inf", ignore_case=True))
    return _any(pc.or_(infinite, pc.match_substring_regex(texts, "^[+-]?[0-9]+$")))


def _booleans(column: Any) -> Any:
    pc = arrow("compute")
    lower = pc.utf8_lower(column)
    known = pc.is_in(lower, arrow().array(["true", "false", None]))
    return pc.equal(lower, "true") if pc.all(known).as_py() else None


def _datetimes(column: Any) -> Any:
    pa = arrow()
    for unit in ("us", "ns"):
        for zone in (None, "UTC"):
            found = _cast(column, pa.timestamp(unit, zone))
            if found is not None:
                return found
    return None


def _cast(column: Any, to: Any) -> Any:
    try:
        return arrow("compute").cast(column, to)
    except arrow().ArrowInvalid:
        return None


def _any(mask: Any) -> bool:
    return bool(arrow("compute").any(mask).as_py())


# --- from Arrow to pandas


def to_frame(file: TableFile, names: list[str], columns: list[Any]) -> Any:
    """Return Arrow columns as a DataFrame. The list `columns` is emptied, to save memory."""
    pandas = need("pandas", EXTRA_USER, "tool")
    rows = pandas.RangeIndex(len(columns[0]) if columns else 0)
    columns.reverse()
    series = {name: _values(pandas, plain(file, name, columns.pop())) for name in names}
    return pandas.DataFrame(series, index=rows, copy=False)


def plain(file: TableFile, name: str, column: Any) -> Any:
    """Return a column in a type that pandas supports; raise an error if there is none."""
    pa, types = arrow(), arrow("types")
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        return plain(file, name, column)
    if types.is_dictionary(kind):
        plain(file, name, pa.chunked_array([], kind.value_type))
        return column
    if types.is_nested(kind):
        raise file.fault(f"column {name!r} has nested values ({kind}); write each part as a separate column.")
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _text_of_bytes(file, name, column)
    return _cast_to_known(column)


def _cast_to_known(column: Any) -> Any:
    pa, types, kind = arrow(), arrow("types"), column.type
    if types.is_date(kind):
        return column.cast(pa.timestamp("s"))
    if types.is_decimal(kind) or types.is_null(kind):
        return column.cast(pa.float64())
    return column.cast(pa.string()) if types.is_time(kind) else column


def _text_of_bytes(file: TableFile, name: str, column: Any) -> Any:
    try:
        return column.cast(arrow().binary()).cast(arrow().string())
    except arrow().ArrowInvalid:
        raise file.fault(f"column {name!r} has bytes that are not text; leave it out of the file.") from None


def _values(pandas: Any, column: Any) -> Any:
    """Return a column for pandas; whole numbers with missing values become floats only if the floats are exact."""
    types, kind = arrow("types"), column.type
    if column.null_count and types.is_boolean(kind):
        return pandas.BooleanDtype().__from_arrow__(column)
    if column.null_count and types.is_integer(kind):
        if not _fits_floats(column):
            wide = pandas.UInt64Dtype() if kind == arrow().uint64() else pandas.Int64Dtype()
            return wide.__from_arrow__(column.cast(str(wide).lower()))
        column = column.cast(arrow().float64())
    if types.is_floating(column.type) or types.is_integer(column.type):
        values = column.to_numpy()
        return values if values.flags.writeable else values.copy()  # The memory of Arrow must not be written to.
    return column.to_pandas().array


def _fits_floats(column: Any) -> bool:
    ends = arrow("compute").min_max(column).as_py()
    return ends["min"] is None or (ends["min"] >= -_MAX_EXACT_INTEGER and ends["max"] <= _MAX_EXACT_INTEGER)
