"""Raw files of datasets, which are read from a directory of the user or from the cache, or downloaded into the cache.

The unpacked content of every file is checked before it is parsed. Compressed files are read in memory: nothing is
extracted to disk, and no name inside an archive is trusted.
"""

import gzip
import hashlib
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any
from uuid import uuid4

from scarless.checks.options import shown
from scarless.datasets.registry import Archive, RawFile
from scarless.outside.extras import need
from scarless.outside.notices import listed

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_MAX_NESTING = 4  # A gz file in a zip archive in a zip archive needs 3.
_UNPACKING_ERRORS = (
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
)
DATA_VARIABLE, CACHE_VARIABLE = "SCARLESS_DATA", "SCARLESS_CACHE"
_SUFFIXES = ("", ".gz", ".xz")
_MAX_DOWNLOAD_BYTES = 200_000_000
_TIMEOUT_SECONDS = 30  # longest time without receiving a byte


def unpack(packed: bytes, name: str, *, largest: int) -> bytes:
    """Return the content of the file `name`, which may be plain, gz, xz, or in a zip archive, even a nested one.

    The first bytes determine the format, because a file may have been renamed.

    Parameters
    ----------
    packed : bytes
        Content of the file on disk.
    name : str
        Name of the wanted file, without a suffix for compression and without folders. Used in zip archives only.
    largest : int
        Largest allowed number of bytes; larger files are not unpacked.

    Raises
    ------
    ValueError
        If the file cannot be unpacked. The message continues a sentence that begins with the name of the file: "is
        damaged ...", "has no ...".

    Examples
    --------
    >>> unpack(gzip.compress(b"1,2,3"), "numbers.csv", largest=100)
    b'1,2,3'
    """
    for _ in range(_MAX_NESTING):
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
        except _UNPACKING_ERRORS as error:
            raise ValueError(f"is damaged or truncated ({error})") from error
    raise ValueError(f"is compressed more than {_MAX_NESTING} times")


def _read_up_to(largest: int, file: Any) -> bytes:
    content: bytes = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"unpacks to more than the allowed {largest:,} bytes")
    return content


def _read_member(packed: bytes, name: str, largest: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        files = [info for info in archive.infolist() if not info.is_dir() and _stays_inside(info.filename)]
        wanted = [info for info in files if PurePosixPath(info.filename).name in (name, f"{name}.gz", f"{name}.xz")]
        inner = [info for info in files if info.filename.endswith(".zip")]
        if not wanted and not inner:
            listed = ", ".join(repr(info.filename) for info in archive.infolist()[:8]) or "nothing"
            raise ValueError(f"has no file {name!r}; it contains {listed}")
        member = min(wanted or inner, key=lambda info: info.filename.count("/"))
        if member.file_size > largest:
            raise ValueError(f"unpacks to {member.file_size:,} bytes, more than the allowed {largest:,}")
        with archive.open(member) as file:
            return _read_up_to(largest, file)


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


class DatasetFileError(OSError):
    """A raw file of a dataset does not exist, cannot be downloaded, or has wrong content."""


@dataclass(frozen=True)
class FileContent:
    """Checked content of a raw file, and the path that it was read from."""

    data: bytes
    path: str


def read_files(
    folder: str, files: Sequence[RawFile], *, data_home: str | os.PathLike[str] | None = None, download: bool = True
) -> list[FileContent]:
    """Return the content of the files of a dataset; download them if necessary.

    Parameters
    ----------
    folder : str
        Folder of the dataset, in `data_home` and in the cache.
    files : sequence of RawFile
        Files to read.
    data_home : path or None
        Directory that is searched first. Default: the environment variable ``SCARLESS_DATA``, if it is set.
    download : bool
        Whether to download files that are neither in `data_home` nor in the cache.
    """
    return [_read_file(folder, file, files, data_home, download) for file in files]


def _read_file(
    folder: str, file: RawFile, siblings: Sequence[RawFile], data_home: str | os.PathLike[str] | None, download: bool
) -> FileContent:
    home = _given_home(data_home)
    found = None if home is None else _find(home / folder, file)
    if found is None:
        cache = cache_home()
        found = _find(cache / folder, file)
    if found is None and not download:
        raise DatasetFileError(_not_found(folder, file, home, cache))
    if found is None:
        members = [other for other in siblings if other.archive == file.archive]
        found = _download(file.archive, members, cache / folder)
    return FileContent(_checked_content(found, file), str(found))


def cache_home() -> Path:
    """Return the directory of downloads: ``SCARLESS_CACHE`` if set, else a folder in the system's cache directory."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    pooch = need("pooch", f"The default cache of datasets, which is used if {CACHE_VARIABLE} is not set,")
    return Path(pooch.os_cache("scarless"))


def _given_home(data_home: str | os.PathLike[str] | None) -> Path | None:
    source = "data_home" if data_home is not None else f"the environment variable {DATA_VARIABLE}"
    value = data_home if data_home is not None else os.environ.get(DATA_VARIABLE)
    if value is None or value == "":
        return None
    if not isinstance(value, str | os.PathLike):
        raise TypeError(
            f"{source} must be the path of a directory, as text or a pathlib.Path; got {shown(value)} of type "
            f"{type(value).__name__}."
        )
    home = Path(os.path.expanduser(value))  # Path.expanduser raises if the user does not exist
    if not home.is_dir():
        raise DatasetFileError(
            f"{source} must name a directory that has one folder for each dataset, such as the folder adult with the "
            f"file adult.data.gz; there is no directory {str(home)!r}."
        )
    return home


def _names(file: RawFile) -> list[str]:
    """Return the names that a file may have in its folder: plain, compressed, or the downloaded archive."""
    plain = (file.name, *file.also_named)
    return [name + suffix for name in plain for suffix in _SUFFIXES] + [file.archive.name]


def _find(folder: Path, file: RawFile) -> Path | None:
    return next((folder / name for name in _names(file) if (folder / name).is_file()), None)


def _checked_content(path: Path, file: RawFile) -> bytes:
    try:
        return _content(path.read_bytes(), file)
    except ValueError as error:
        raise DatasetFileError(
            f"{path} {error}. Delete it, so that it is downloaded again, or replace it by {_addresses(file.archive)}."
        ) from error


def _content(packed: bytes, file: RawFile) -> bytes:
    """Return the content of a file; raise ValueError if it is wrong, with a message as in `unpack`."""
    content = unpack(packed, file.name, largest=file.largest)
    if file.normalise is not None:
        content = file.normalise(content)
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ValueError(
            f"is not the expected {file.name}: its content should have {file.n_bytes:,} bytes and SHA-256 "
            f"{file.sha256}, but has {len(content):,} bytes and SHA-256 {found} (it begins with {content[:40]!r})"
        )
    return content


def _download(archive: Archive, members: Sequence[RawFile], folder: Path) -> Path:
    """Download an archive from the first address with the right content; return its path in the cache."""
    download = _downloader(archive)
    _make_folder(folder)
    target = folder / archive.name
    problems = []
    for url in archive.urls:
        try:
            _fetch(url, target, members, download)
        except OSError as error:
            problems.append(f"{url}: {type(error).__name__}: {error}")
        except ValueError as error:
            problems.append(f"{url}: the downloaded file {error}")
        else:
            return target
    raise DatasetFileError(
        f"{archive.name} could not be downloaded.\n  " + "\n  ".join(problems) + f"\nIf the network is the problem, "
        f"download {_addresses(archive)} on another machine, and save it as {target}. Or set the environment variable "
        f"{DATA_VARIABLE} to a directory with {folder.name}/{archive.name} or, unpacked, "
        f"{folder.name}/{members[0].name}."
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DatasetFileError(
            f"Cannot write to the cache {folder} ({error}). Set the environment variable {CACHE_VARIABLE} to a "
            "directory that can be written to."
        ) from error


def _fetch(url: str, target: Path, members: Sequence[RawFile], download: Callable[..., Any]) -> None:
    """Download a file under a temporary name and rename it after checks, so that no partial file has the final name."""
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        with unfinished.open("xb") as out:
            download(url, _LimitedFile(out, _MAX_DOWNLOAD_BYTES), None)
            out.flush()
            os.fsync(out.fileno())
        packed = unfinished.read_bytes()
        for member in members:
            _content(packed, member)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


class _LimitedFile:
    """File for writing that raises an error after a given number of bytes."""

    def __init__(self, file: IO[bytes], largest: int) -> None:
        self.file, self.room, self.largest = file, largest, largest

    def write(self, chunk: bytes) -> None:
        self.room -= len(chunk)
        if self.room < 0:
            raise ValueError(f"is larger than {self.largest:,} bytes, more than any dataset of this package")
        self.file.write(chunk)

    def flush(self) -> None:
        """Do nothing: a flush for each chunk would be slow."""


def _downloader(archive: Archive) -> Callable[..., Any]:
    pooch = need("pooch", f"Downloading {archive.name}")
    return pooch.HTTPDownloader(progressbar=find_spec("tqdm") is not None, chunk_size=2**16, timeout=_TIMEOUT_SECONDS)


def _addresses(archive: Archive) -> str:
    return " or ".join(archive.urls)


def _not_found(folder: str, file: RawFile, home: Path | None, cache: Path) -> str:
    searched = [str(place / folder) for place in (home, cache) if place is not None]
    return (
        f"{file.name} is not on this machine (searched {listed(searched)} for {', '.join(_names(file))}), and "
        f"download=False. Use download=True, or save {_addresses(file.archive)} in one of these folders as "
        f"{file.archive.name}."
    )
