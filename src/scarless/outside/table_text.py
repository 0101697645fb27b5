"""Reading of text files: detection of separator and header, reading of rows by Arrow, and errors with line numbers."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from scarless.outside.notices import warn_user
from scarless.outside.table_columns import MISSING_WORDS, TableFile, TableFileError, arrow, check_form, typed_columns

_READ_BYTES = 1 << 20
SEPARATORS = (",", ";", "\t", "|")
_SPELT_SEPARATORS = {"\\t": "\t", "tab": "\t"}  # spellings of a tab on the command line
_HEAD_BYTES, _BLOCK_BYTES, _MAX_BLOCK_BYTES = 1 << 20, 1 << 22, 1 << 30
_BOM = "\ufeff"


@contextmanager
def open_bytes(file: TableFile) -> Iterator[Any]:
    """Open a file, and decompress it if its suffix says so; raise an error if it is damaged."""
    pa = arrow()
    try:
        with pa.OSFile(file.name) as raw:
            if file.compression is None:
                yield raw
            else:
                with pa.CompressedInputStream(raw, file.compression) as unpacked:
                    yield unpacked
    except OSError as error:
        if file.compression is None or error.errno is not None:
            raise file.fault(f"this file cannot be read ({error.strerror or error}); copy it again.") from error
        raise file.fault(
            f"this {file.compression} file is damaged or incomplete ({_short(error)}); copy or download it again."
        ) from error


@contextmanager
def open_utf8(file: TableFile) -> Iterator[Any]:
    """Open a file, and convert it to UTF-8 if it has another encoding."""
    with open_bytes(file) as stream:
        same = codecs.lookup(file.encoding).name in {"utf-8", "utf-8-sig"}
        yield stream if same else arrow().transcoding_input_stream(stream, file.encoding, "utf-8")


def check_encoding(file: TableFile) -> None:
    """Raise an error if Python does not know the encoding of a file."""
    try:
        "".encode(file.encoding)
    except LookupError:
        raise file.fault(
            f"encoding={file.encoding!r} is unknown; use 'utf-8', 'latin-1', 'cp1252' or another encoding that Python "
            "knows."
        ) from None


def encoding_fault(file: TableFile) -> TableFileError:
    """Return an error with the first byte that is not valid in the file's encoding, and its line."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(file.encoding)(), translate=True)
    lines, begin = 1, b""
    with open_bytes(file) as stream:
        while True:
            step = stream.read(_READ_BYTES)
            begin = begin or step[:2]
            try:
                lines += decoder.decode(step, final=not step).count("\n")
            except UnicodeDecodeError as error:
                return _wrong_byte(file, error, lines, begin)
            if not step:
                return file.fault(f"this file cannot be read as {file.encoding}; name its encoding (--encoding).")


def _wrong_byte(file: TableFile, error: UnicodeDecodeError, lines: int, begin: bytes) -> TableFileError:
    before = error.object[: error.start].decode(file.encoding, "ignore")
    line = lines + len(io.StringIO(before, newline=None).read().split("\n")) - 1
    others = [name for name in ("latin-1", "cp1252", "utf-8") if name != file.encoding][:2]
    if begin in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
        others = ["utf-16"]
    wanted = " or ".join(f'encoding="{name}"' for name in others)
    return file.fault(
        f"line {line} has the byte 0x{error.object[error.start]:02x}, which is not valid in {file.encoding.upper()}; "
        f"if the file has another encoding, name it: {wanted} (--encoding {others[0]})."
    )


# --- errors in rows. Python reads each row, which is slow, so this is done only if something may be wrong.


@contextmanager
def large_cells() -> Iterator[None]:
    """Allow cells of any length in Python's csv module."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def find_row_fault(file: TableFile, separator: str, expected: int, *, skip: int) -> TableFileError | None:
    """Return an error with the line of the first invalid row after `skip` lines; None if all rows are valid."""
    with large_cells(), open_bytes(file) as stream:
        lines = io.TextIOWrapper(stream, encoding=file.encoding, newline="")
        rows = csv.reader(lines, delimiter=separator, strict=True)
        line = 1
        try:
            for row in rows:
                if line > skip and row and len(row) != expected:
                    return _ragged(file, separator, line, expected, len(row))
                line = rows.line_num + 1
        except csv.Error:
            return file.fault(
                f'the row that begins in line {line} has a quotation mark (") that is not closed at the end of its '
                "cell; quote whole cells, and double the quotation marks inside them."
            )
    return None


def _ragged(file: TableFile, separator: str, line: int, expected: int, found: int) -> TableFileError:
    name = {"\t": "tabs"}.get(separator, repr(separator))
    advice = f"quote cells that contain {name}" if found > expected else "write missing cells as empty cells"
    return file.fault(
        f"the row in line {line} has {found} cell{'s' * (found != 1)}, but the header has {expected} (separated by "
        f"{name}); {advice}, or give the right separator (--separator)."
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


class Head(NamedTuple):
    """The header of a text file: column names, separator, and its length in lines and bytes."""

    names: list[str]
    separator: str
    n_lines: int
    n_bytes: int


def read_text(file: TableFile, separator: str | None) -> tuple[list[str], list[Any]]:
    """Return names and typed columns of a text file."""
    check_encoding(file)
    separator = _checked_separator(file, separator)
    try:
        head = find_head(file, separator)
        texts = _texts(file, head)
    except UnicodeDecodeError:
        raise encoding_fault(file) from None
    columns = typed_columns(texts, decimal_comma=head.separator == ";")
    if head.separator == ";":
        columns = _without_doubtful_points(file, head.names, texts, columns)
    if _swallowed_rows(columns, head.separator):
        fault = find_row_fault(file, head.separator, len(head.names), skip=head.n_lines)
        if fault is not None:
            raise fault
    return head.names, columns


def _checked_separator(file: TableFile, separator: str | None) -> str | None:
    if separator is None:
        return "\t" if file.suffix == ".tsv" else None
    separator = _SPELT_SEPARATORS.get(separator, separator)
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise file.fault(
            f"separator={separator!r} must be one ASCII character, and not a quotation mark or a line break."
        )
    return separator


# --- the head


def find_head(file: TableFile, separator: str | None) -> Head:
    """Return the header of a file. More of the file is read until the header is complete."""
    size = _HEAD_BYTES
    while True:
        text, cut = _beginning(file, size)
        head = _head_of(text, separator)
        if head is not None and not (cut and head.n_bytes >= len(text.encode())):
            return head
        if not cut:
            raise file.fault("this file is empty: it has only white space; write it again.")
        size *= 4


def _beginning(file: TableFile, size: int) -> tuple[str, bool]:
    """Return the first characters of a file, and whether there are more."""
    with open_utf8(file) as stream:
        data = b""
        while len(data) < size and (step := stream.read(size - len(data))):
            data += step
    cut = len(data) == size
    if cut:  # The last character may be incomplete, so the last line is dropped.
        data = data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]
    if file.compression is not None:
        check_form(file, data, "text")
    text = data.decode("utf-8")
    if "\0" in text:
        raise file.fault(
            'this is not a text file: it contains zero bytes; if it is UTF-16 text, use encoding="utf-16" '
            "(--encoding utf-16)."
        )
    return text, cut


def _head_of(text: str, separator: str | None) -> Head | None:
    """Return the header of a text, or None if there is only white space."""
    lines = list(io.StringIO(text.removeprefix(_BOM), newline=""))
    skip = next((place for place, line in enumerate(lines) if line.strip(" \t\r\n")), None)
    if skip is None:
        return None
    hint = re.fullmatch(r'"?sep=([^"\r\n])"?\s*', lines[skip])  # Excel writes this line.
    if hint is not None:
        skip, separator = skip + 1, separator or hint[1]
    separator = separator or find_separator(lines[skip:])
    with large_cells():
        rows = csv.reader(lines[skip:], delimiter=separator)
        names = [name.strip() for name in next(rows, [])]
    n_lines = skip + rows.line_num
    n_bytes = len("".join(lines[:n_lines]).encode()) + (3 if text.startswith(_BOM) else 0)
    return Head(names, separator, n_lines, n_bytes)


def find_separator(lines: list[str]) -> str:
    r"""Return the separator with which most rows have as many cells as the header.

    Examples
    --------
    >>> find_separator(["name;weight\n", "'Smith, J.';3,5\n"])
    ';'
    """
    best, separator = (0.0, 1), ","
    for candidate in SEPARATORS:
        counts, good = _counts_of_cells(lines, candidate)
        alike = good * sum(count == counts[0] for count in counts) / max(len(counts), 1)
        if counts and counts[0] > 1 and (alike, counts[0]) > best:
            best, separator = (alike, counts[0]), candidate
    return separator


def _counts_of_cells(lines: list[str], separator: str) -> tuple[list[int], float]:
    """Return the numbers of cells of the first rows, and a weight: 1.0, or 0.5 if a quotation mark is not closed."""
    counts: list[int] = []
    with large_cells():
        try:
            for row in islice(csv.reader(lines, delimiter=separator, strict=True), 100):
                counts += [len(row)] if row else []
        except csv.Error:
            return counts, 0.5
    return counts, 1.0


# --- the rows


def _texts(file: TableFile, head: Head) -> list[Any]:
    """Return all rows as columns of texts, because Arrow would infer types from the first megabytes only."""
    pa, arrow_csv = arrow(), arrow("csv")
    keys = [str(place) for place in range(len(head.names))]
    parse = arrow_csv.ParseOptions(delimiter=head.separator, newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=True, null_values=list(MISSING_WORDS)
    )
    block, threads = _BLOCK_BYTES, pa.cpu_count() > 1  # In old versions of Arrow, a pool of one thread never ends.
    while True:
        read = arrow_csv.ReadOptions(column_names=keys, block_size=block, use_threads=threads)
        try:
            with open_utf8(file) as stream:
                _skip(stream, head.n_bytes)
                table = arrow_csv.read_csv(stream, read_options=read, parse_options=parse, convert_options=convert)
        except pa.ArrowInvalid as error:
            if "straddl" in str(error) and block < _MAX_BLOCK_BYTES:
                block *= 8  # A row was longer than a block.
                continue
            raise _body_fault(file, head, error) from error
        if not len(table):
            raise _no_rows(file)
        return list(table.columns)


def _skip(stream: Any, n_bytes: int) -> None:
    while n_bytes > 0:
        n_bytes -= len(stream.read(n_bytes))


def _body_fault(file: TableFile, head: Head, error: Exception) -> TableFileError:
    """Return the error for a file that Arrow cannot read, with the line if it is known."""
    if "Empty CSV" in str(error):
        return _no_rows(file)
    if "UTF8" in str(error):
        return encoding_fault(file)
    try:
        fault = find_row_fault(file, head.separator, len(head.names), skip=head.n_lines)
    except UnicodeDecodeError:
        return encoding_fault(file)
    return fault or file.fault(
        f"this file cannot be read as a table ({' '.join(str(error).split())[:200]}); check the separator "
        "(--separator)."
    )


def _no_rows(file: TableFile) -> TableFileError:
    return file.fault("this file has a header but no rows; write it again with its rows.")


def _without_doubtful_points(file: TableFile, names: list[str], texts: list[Any], columns: list[Any]) -> list[Any]:
    """Return the columns. If some have decimal commas, a column in which all points may group thousands stays text."""
    pc, double = arrow("compute"), arrow().float64()
    floats = [place for place, column in enumerate(columns) if column.type == double]
    commas = [place for place in floats if pc.any(pc.match_substring(texts[place], ",")).as_py()]
    for place in set(floats) - set(commas) if commas else ():
        if columns[place].null_count < len(columns[place]) and pc.all(_grouped(texts[place])).as_py():
            columns[place] = texts[place]
            warn_user(
                f"{file.name}: column {names[place]!r} is read as text. Column {names[commas[0]]!r} has decimal "
                f"commas, so the points in {names[place]!r} may be decimal points or may group thousands. Write "
                "decimal commas instead of decimal points, and remove points that group thousands.",
                UserWarning,
            )
    return columns


def _grouped(column: Any) -> Any:
    return arrow("compute").match_substring_regex(column, r"^\s*[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})*\s*$")


def _swallowed_rows(columns: list[Any], separator: str) -> bool:
    """Return whether a cell may contain whole rows: Arrow reads an unclosed cell up to the next quotation mark."""
    pa, pc = arrow(), arrow("compute")
    for place, column in enumerate(columns):
        if pa.types.is_string(column.type):
            broken = column.filter(pc.match_substring(column, "\n"))
            if (
                len(broken)
                and pc.any(pc.greater_equal(pc.count_substring(broken, separator), len(columns) - 1)).as_py()
            ):
                return True
            if place == len(columns) - 1 and "\n" in (column[-1].as_py() or ""):
                return True
    return False
