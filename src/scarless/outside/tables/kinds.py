"""What a file is: by its name, and by its first bytes."""

import difflib
import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

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
_CALLED = {"Parquet": ".parquet", "Arrow": ".arrow", "Excel": ".xlsx", "text": ".csv"}


class TableFileError(ValueError):
    """A file that cannot be read as a table, or not written: one sentence that names the file and says what to do."""


class TableFile(NamedTuple):
    """A file as the user named it, and how to read it."""

    name: str
    form: str
    compression: str | None = None
    suffix: str = ".csv"
    encoding: str = "utf-8"

    def fault(self, text: str) -> TableFileError:
        """Return an error that names this file."""
        return TableFileError(f"{self.name}: {text}")


def file_of(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> TableFile:
    """Return what a file is by its name, in capital letters or small ones.

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
            f"{name}: the kind of a table is known by its suffix, and {ending} is none of these: "
            f"{', '.join(SUFFIXES)}, nor one of the text files with {', '.join(COMPRESSIONS)} behind it; rename or "
            "convert the file."
        )
    return TableFile(name, form, compression, suffix, encoding)


def repeated(names: list[str]) -> list[str]:
    """Return the names that are there more than once.

    Examples
    --------
    >>> repeated(["a", "b", "a"])
    ['a']
    """
    return [name for name, count in Counter(names).items() if count > 1]


def first_bytes(file: TableFile) -> bytes:
    """Return how a file begins, or say why it cannot be read or is not of the kind that its name says."""
    path = Path(file.name)
    if path.is_dir():
        raise file.fault("this is a folder; name one file in it.")
    try:
        with path.open("rb") as stream:
            begin = stream.read(4096)
    except FileNotFoundError:
        raise file.fault(f"there is no such file{_nearest(path)}.") from None
    except PermissionError:
        raise file.fault("you have no permission to read this file; ask its owner, or copy it.") from None
    except OSError as error:
        raise file.fault(f"this file cannot be read ({error.strerror or error}).") from error
    if not begin:
        raise file.fault("this file is empty (0 bytes); write it again.")
    check_form(file, begin, file.compression or file.form)
    return begin


def check_form(file: TableFile, begin: bytes, expected: str) -> None:
    """Refuse a file that begins like one of another kind."""
    found = form_by_bytes(begin)
    if expected == "Arrow" and found is None and not looks_like_text(begin):
        return  # a stream of an old version of Arrow begins with the length of its schema
    if found != expected and not (expected == "text" and found is None):
        seems = "text" if found is None and looks_like_text(begin) else found
        said = f"this seems to be {_with_article(seems)} file" if seems else "its first bytes are those of no such file"
        called = _CALLED.get(seems or "")
        raise file.fault(
            f"by its name this is {_with_article(expected)} file, but {said}; "
            + (f"rename it to end in {called}." if called else "convert it, or write it again.")
        )


def form_by_bytes(begin: bytes) -> str | None:
    """Return the kind of file that begins so, or None.

    Examples
    --------
    >>> form_by_bytes(b"PAR1...")
    'Parquet'
    """
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n")[:14].lower().startswith((b"<!doctype html", b"<html")):
        return "HTML"
    return next((form for magic, form in _FIRST_BYTES.items() if begin.startswith(magic)), None)


def looks_like_text(begin: bytes) -> bool:
    """Return whether bytes are those of a text in UTF-8, the last letter perhaps cut."""
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
        return f", nor a folder {str(path.parent)!r}"
    near = difflib.get_close_matches(path.name, names, 1)
    return f"; perhaps {str(path.with_name(near[0]))!r} was meant" if near else "; look at its name and folder"
