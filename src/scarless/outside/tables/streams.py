"""Bytes of a text file, unpacked and in UTF-8, and what is wrong where they cannot be had."""

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scarless.outside.tables.columns import arrow
from scarless.outside.tables.kinds import TableFile, TableFileError

_STEP = 1 << 20


@contextmanager
def open_bytes(file: TableFile) -> Iterator[Any]:
    """Open a file and unpack it, if its name says that it is compressed; say so where it is damaged."""
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
            raise file.fault(f"this file cannot be read ({error.strerror or error}).") from error
        raise file.fault(
            f"this {file.compression} file is damaged or incomplete ({_short(error)}); copy or download it again."
        ) from error


@contextmanager
def open_utf8(file: TableFile) -> Iterator[Any]:
    """Open a file as UTF-8, whatever its encoding."""
    with open_bytes(file) as stream:
        same = codecs.lookup(file.encoding).name in {"utf-8", "utf-8-sig"}
        yield stream if same else arrow().transcoding_input_stream(stream, file.encoding, "utf-8")


def check_encoding(file: TableFile) -> None:
    """Refuse what Python does not know as an encoding of text."""
    try:
        "".encode(file.encoding)
    except LookupError:
        raise file.fault(
            f"encoding={file.encoding!r} is unknown; use 'utf-8', 'latin-1', 'cp1252' or another name that "
            "Python knows."
        ) from None


def encoding_fault(file: TableFile) -> TableFileError:
    """Return an error that names the first byte that is not of the file's encoding, and its line."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(file.encoding)(), translate=True)
    lines, begin = 1, b""
    with open_bytes(file) as stream:
        while True:
            step = stream.read(_STEP)
            begin = begin or step[:2]
            try:
                lines += decoder.decode(step, final=not step).count("\n")
            except UnicodeDecodeError as error:
                return _wrong_byte(file, error, lines, begin)
            if not step:
                return file.fault(f"this file cannot be read as {file.encoding}; give another encoding.")


def _wrong_byte(file: TableFile, error: UnicodeDecodeError, lines: int, begin: bytes) -> TableFileError:
    before = error.object[: error.start].decode(file.encoding, "ignore")
    line = lines + len(io.StringIO(before, newline=None).read().split("\n")) - 1
    others = [name for name in ("latin-1", "cp1252", "utf-8") if name != file.encoding][:2]
    if begin in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
        others = ["utf-16"]
    wanted = " or ".join(f'encoding="{name}"' for name in others)
    return file.fault(
        f"line {line} has the byte 0x{error.object[error.start]:02x}, which is not {file.encoding.upper()}; if the "
        f"file was written in another encoding, give it: {wanted} (--encoding {others[0]})."
    )


# --- rows, one by one: slow, and only where something is wrong or might be


@contextmanager
def large_cells() -> Iterator[None]:
    """Let Python's csv module take cells of any length."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def find_row_fault(file: TableFile, separator: str, expected: int, *, skip: int) -> TableFileError | None:
    """Return an error that names the line of the first bad row after `skip` lines, or None where all are good."""
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
                f'the row that begins in line {line} has a quotation mark (") that is not closed where its cell ends; '
                "quote a cell as a whole, and double quotation marks inside it."
            )
    return None


def _ragged(file: TableFile, separator: str, line: int, expected: int, found: int) -> TableFileError:
    name = {"\t": "tabs"}.get(separator, repr(separator))
    advice = f"quote cells that hold {name}" if found > expected else "write missing cells as empty ones"
    return file.fault(
        f"the row in line {line} has {found} cell{'s' * (found != 1)}, and the header has {expected} (cells end at "
        f"{name}); {advice}, or give the right separator."
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
