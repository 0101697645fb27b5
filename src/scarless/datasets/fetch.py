"""Raw files: from a directory of the user's, from the cache, or from their public home into the cache.

Whatever a file comes from, its unpacked content is checked before anybody reads it. Packed files are read in memory:
nothing is extracted to disk, and no name inside an archive is trusted.
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
_MAX_NESTING = 4  # a gz in a zip in a zip, and one to spare
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError)
DATA_VARIABLE, CACHE_VARIABLE = "SCARLESS_DATA", "SCARLESS_CACHE"
_SUFFIXES = ("", ".gz", ".xz")
_MAX_DOWNLOAD_BYTES = 200_000_000
_TIMEOUT_SECONDS = 30  # seconds without a byte


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
        except _BROKEN as error:
            raise ValueError(f"is damaged or was cut short ({error})") from error
    raise ValueError(f"is packed more than {_MAX_NESTING} times over")


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


class DatasetFileError(OSError):
    """A raw file of a dataset is not there, cannot be fetched, or is not what it should be."""


@dataclass(frozen=True)
class Content:
    """The checked content of a raw file, and the path that it was read from."""

    data: bytes
    path: str


def read_files(
    folder: str, files: Sequence[RawFile], *, data_home: str | os.PathLike[str] | None = None, download: bool = True
) -> list[Content]:
    """Return the content of the files of a dataset, fetched where need be.

    Parameters
    ----------
    folder : str
        The dataset's folder under a data home and in the cache.
    files : sequence of RawFile
        The files.
    data_home : path or None
        Directory to look in first; None stands for the environment variable ``SCARLESS_DATA``, where it is set.
    download : bool
        Whether to fetch what is neither there nor in the cache.
    """
    return [_read_file(folder, file, files, data_home, download) for file in files]


def _read_file(
    folder: str, file: RawFile, siblings: Sequence[RawFile], data_home: str | os.PathLike[str] | None, download: bool
) -> Content:
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
    return Content(_checked_content(found, file), str(found))


def cache_home() -> Path:
    """Return the directory that downloads are kept in: ``SCARLESS_CACHE``, else the system's place for caches."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    pooch = need("pooch", f"the cache of datasets, unless {CACHE_VARIABLE} names a directory for it,")
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
    home = Path(os.path.expanduser(value))  # pathlib's raises where there is no such user
    if not home.is_dir():
        raise DatasetFileError(
            f"{source} must name a directory with one folder per dataset, such as adult/adult.data.gz; there is no "
            f"directory {str(home)!r}."
        )
    return home


def _names(file: RawFile) -> list[str]:
    """Names under which a file may lie in its folder: plain, compressed, or as the archive that was downloaded."""
    plain = (file.name, *file.also_named)
    return [name + suffix for name in plain for suffix in _SUFFIXES] + [file.archive.name]


def _find(folder: Path, file: RawFile) -> Path | None:
    return next((folder / name for name in _names(file) if (folder / name).is_file()), None)


def _checked_content(path: Path, file: RawFile) -> bytes:
    try:
        return _content(path.read_bytes(), file)
    except ValueError as error:
        raise DatasetFileError(
            f"{path} {error}. Delete it, so that it is downloaded again, or replace it by {_where_from(file.archive)}."
        ) from error


def _content(packed: bytes, file: RawFile) -> bytes:
    """Return what a file must contain, or raise a ValueError whose text goes on after the file's name."""
    content = unpack(packed, file.name, largest=file.largest)
    if file.normalise is not None:
        content = file.normalise(content)
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ValueError(
            f"is not the {file.name} expected: its content should have {file.n_bytes:,} bytes and SHA-256 "
            f"{file.sha256}, but has {len(content):,} bytes and SHA-256 {found} (it begins with {content[:40]!r})"
        )
    return content


def _download(archive: Archive, members: Sequence[RawFile], folder: Path) -> Path:
    """Fetch an archive from the first address that serves the right content; return its path in the cache."""
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
            problems.append(f"{url}: what came {error}")
        else:
            return target
    raise DatasetFileError(
        f"{archive.name} could not be fetched.\n  " + "\n  ".join(problems) + f"\nWhere the network is the trouble, "
        f"fetch {_where_from(archive)} and save it as {target}; or name a directory that has it in the environment "
        f"variable {DATA_VARIABLE}, as {folder.name}/{archive.name} or, unpacked, as {folder.name}/{members[0].name}."
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DatasetFileError(
            f"cannot write to the cache {folder} ({error}). Name a directory that can be written to in the "
            f"environment variable {CACHE_VARIABLE}."
        ) from error


def _fetch(url: str, target: Path, members: Sequence[RawFile], download: Callable[..., Any]) -> None:
    """Write to a name of its own, check, then rename: nobody ever sees half a file under the final name."""
    part = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as out:
            download(url, _Capped(out, _MAX_DOWNLOAD_BYTES), None)
            out.flush()
            os.fsync(out.fileno())
        packed = part.read_bytes()
        for member in members:
            _content(packed, member)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


class _Capped:
    """A file to write to that takes so many bytes and no more."""

    def __init__(self, file: IO[bytes], largest: int) -> None:
        self.file, self.room, self.largest = file, largest, largest

    def write(self, chunk: bytes) -> None:
        self.room -= len(chunk)
        if self.room < 0:
            raise ValueError(f"is larger than {self.largest:,} bytes, more than any dataset here")
        self.file.write(chunk)

    def flush(self) -> None:
        """Leave it to the end: a flush per chunk is slow."""


def _downloader(archive: Archive) -> Callable[..., Any]:
    pooch = need("pooch", f"downloading {archive.name}")
    return pooch.HTTPDownloader(progressbar=find_spec("tqdm") is not None, chunk_size=2**16, timeout=_TIMEOUT_SECONDS)


def _where_from(archive: Archive) -> str:
    return " or ".join(archive.urls)


def _not_found(folder: str, file: RawFile, home: Path | None, cache: Path) -> str:
    looked = [str(place / folder) for place in (home, cache) if place is not None]
    return (
        f"{file.name} is not on this machine (looked in {listed(looked)} for {', '.join(_names(file))}), and "
        f"download=False forbids to fetch it. Allow that, or save {_where_from(file.archive)} there as "
        f"{file.archive.name}."
    )
