"""Packed files -> content, in memory: nothing is extracted to disk, and no name inside an archive is trusted."""

import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import Any

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_DEPTH = 4  # a gz in a zip in a zip, and one to spare
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError)


def unpack(packed: bytes, name: str, *, largest: int) -> bytes:
    """Return the content of the file `name`, stored as it is, as gz or xz, or in a zip archive, even one in another.

    What it is shows in its first bytes, since a file may have been renamed on its way.

    Parameters
    ----------
    packed : bytes
        The file as it lies on disk.
    name : str
        Name of the file wanted, without a suffix for compression and without folders; matters in zip archives only.
    largest : int
        Number of bytes beyond which content is refused before it is unpacked any further.

    Raises
    ------
    ValueError
        With a text that goes on after the file's name: "is damaged ...", "holds no ...".

    Examples
    --------
    >>> unpack(gzip.compress(b"1,2,3"), "numbers.csv", largest=100)
    b'1,2,3'
    """
    for _ in range(_DEPTH):
        try:
            if packed.startswith(_ZIP):
                packed = _read_member(packed, name, largest)
            elif packed.startswith(_GZIP):
                with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
                    packed = _read_up_to(largest, file)
            elif packed.startswith(_XZ):
                with lzma.LZMAFile(io.BytesIO(packed)) as file:
                    packed = _read_up_to(largest, file)
            else:
                return packed
        except _BROKEN as error:
            raise ValueError(f"is damaged or was cut short ({error})") from error
    raise ValueError(f"is packed more than {_DEPTH} times over")


def _read_up_to(largest: int, file: Any) -> bytes:
    content: bytes = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"unpacks to more than the {largest:,} bytes that it may have")
    return content


def _read_member(packed: bytes, name: str, largest: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        files = [info for info in archive.infolist() if not info.is_dir() and _stays_inside(info.filename)]
        wanted = [info for info in files if PurePosixPath(info.filename).name in (name, f"{name}.gz", f"{name}.xz")]
        inner = [info for info in files if info.filename.endswith(".zip")]
        if not wanted and not inner:
            listed = ", ".join(repr(info.filename) for info in archive.infolist()[:8]) or "nothing"
            raise ValueError(f"holds no file {name!r}, but {listed}")
        member = min(wanted or inner, key=lambda info: info.filename.count("/"))
        if member.file_size > largest:
            raise ValueError(f"unpacks to {member.file_size:,} bytes, more than the {largest:,} that it may have")
        with archive.open(member) as file:
            return _read_up_to(largest, file)


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
