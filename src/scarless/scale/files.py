"""Access to Parquet files: on local disks, or in a file system of pyarrow, such as S3.

A remote file has an address, ``s3://bucket/claims/2020.parquet``. The file system object that can read it is sent to
workers with their partitions. `file_advice` reports what makes files slow to read.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from scarless.outside.extras import need
from scarless.outside.notices import listed
from scarless.scale.columns import SCALE, PartitionError, row_names_of

# Limits beyond which `file_advice` gives advice: rows and decoded bytes of a row group, and number of files.
MIN_ROWS_PER_GROUP, MAX_BYTES_PER_GROUP = 20_000, 2**28
MAX_FILES = 10_000

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # A scheme has two letters or more, unlike a drive such as C:/.
MAX_PARALLEL_FOOTERS = 16  # remote files whose footers are read at the same time


class FoundFiles(NamedTuple):
    """Files in their order, and their file system; None for local files.

    Paths are absolute, because workers may run in another folder.
    """

    files: list[str]
    filesystem: Any


def find_files(where: Any, filesystem: Any = None) -> FoundFiles:
    """Return all files that match paths, folders, patterns or addresses."""
    given: list[Any] = [where] if isinstance(where, str | Path) else list(where)
    wanted = ", ".join(map(str, given))
    system = None if filesystem is None else _of_pyarrow(filesystem)
    if system is None and any(is_address(each) for each in given):
        system, given = _by_address([str(each) for each in given])
    elif system is not None:
        given = [_inside(str(each)) if is_address(each) else each for each in given]
    if system is not None and system.type_name == "local":
        system = None
    found: list[str] = []
    for each in given:
        found += _local_files(each) if system is None else _remote_files(str(each), system)
    if not found:
        raise FileNotFoundError(
            f"{wanted}: no Parquet file was found. Check the path. In a folder, the names of files must end in "
            ".parquet."
        )
    return FoundFiles(found, system)


def is_address(path: Any) -> bool:
    """Return whether a path is an address, which begins with the scheme of its file system.

    Examples
    --------
    >>> is_address("s3://bucket/claims"), is_address("C:/claims")
    (True, False)
    """
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def address_of(path: str, filesystem: Any) -> str:
    """Return the absolute path of a local file, or the address of a remote file."""
    return os.path.abspath(path) if filesystem is None else f"{_kind(filesystem)}://{path}"


def absolute(path: str) -> str:
    """Return the absolute path of a local file; an address is returned unchanged."""
    return path if is_address(path) else os.path.abspath(path)


def stamp_of(path: str, filesystem: Any = None) -> tuple[int, int]:
    """Return the size and modification time of a file."""
    if filesystem is None:
        found = Path(path).stat()
        return found.st_size, found.st_mtime_ns
    info = filesystem.get_file_info(_inside(path))
    if not info.is_file:
        raise FileNotFoundError(f"{path}: there is no such file. Check the path.")
    return int(info.size), int(info.mtime_ns or -1)


@contextmanager
def opened(path: str, filesystem: Any = None) -> Iterator[Any]:
    """Yield a file that pyarrow can read: the path of a local file, or an open remote file."""
    if filesystem is None:
        yield path
    else:
        with filesystem.open_input_file(_inside(path)) as file:
            yield file


@dataclass(frozen=True)
class Footer:
    """Metadata of a Parquet file."""

    path: str
    called: str  # name in errors
    there: tuple[str, ...]  # names of the columns
    kinds: dict[str, Any]  # Arrow types by name
    group_rows: tuple[int, ...]  # rows of each row group
    stamp: tuple[int, int]
    row_names: frozenset[str]  # columns that are the index of a data frame


def read_footer(path: str, called: str, filesystem: Any = None) -> Footer:
    """Return the metadata of a Parquet file; `called` is its name in errors."""
    parquet = need("pyarrow.parquet", "ParquetRows", SCALE)
    try:
        stamp = stamp_of(path, filesystem)
        with opened(path, filesystem) as place, parquet.ParquetFile(place) as file:
            there = tuple(file.schema_arrow.names)
            kinds = dict(zip(there, file.schema_arrow.types, strict=True))
            row_names = row_names_of(file.schema_arrow)
            rows = tuple(file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{called}: there is no such file. Check the path.") from error
    except (OSError, need("pyarrow", "ParquetRows", SCALE).ArrowException) as error:
        raise PartitionError(
            f"{called}: the file cannot be read as Parquet ({first_line(error)}). If it is damaged, write it again."
        ) from error
    return Footer(path, called, there, kinds, rows, stamp, row_names)


def read_footers(files: list[str], called: str, filesystem: Any = None) -> list[Footer]:
    """Return the metadata of files, in their order; remote files are read in parallel, because requests are slow."""

    def read(path: str) -> Footer:
        return read_footer(path, called or path, filesystem)

    if filesystem is None:
        return [read(path) for path in files]
    with ThreadPoolExecutor(MAX_PARALLEL_FOOTERS) as pool:
        return list(pool.map(read, files))


def first_line(error: BaseException) -> str:
    """Return the first line of the text of an error, shortened."""
    return str(error).split("\n", maxsplit=1)[0][:200]


def _local_files(where: Any) -> list[str]:
    path = os.path.abspath(where)
    if os.path.isdir(path):
        return sorted(str(file) for file in Path(path).rglob("*.parquet"))
    return sorted(glob.glob(path)) if glob.has_magic(path) else [path]


def _remote_files(where: str, filesystem: Any) -> list[str]:
    """Return the addresses of the files that match a path, a folder or a pattern in a remote file system."""
    fs, kind = need("pyarrow.fs", "ParquetRows", SCALE), _kind(filesystem)
    parts = PurePosixPath(where.rstrip("/")).parts
    plain = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    root = str(PurePosixPath(*parts[:plain])) if plain else ""
    try:
        info = filesystem.get_file_info(root)
        if info.is_file:
            return [f"{kind}://{info.path}"]
        chosen = fs.FileSelector(root, recursive=True, allow_not_found=True)
        inside = [each.path for each in filesystem.get_file_info(chosen) if each.is_file]
    except OSError as error:
        raise OSError(
            f"{kind}://{root}: the files cannot be listed ({first_line(error)}). Check the address and the credentials."
        ) from error
    if plain == len(parts):
        found = [path for path in inside if path.endswith(".parquet")]
    else:
        found = [path for path in inside if len(PurePosixPath(path).parts) == len(parts) and _fits(path, where)]
    return sorted(f"{kind}://{path}" for path in found)


def _fits(path: str, pattern: str) -> bool:
    return PurePosixPath(path).match(pattern)


def _by_address(given: list[str]) -> tuple[Any, list[str]]:
    """Return the file system of addresses, and the paths in it; raise an error if there are several file systems."""
    fs = need("pyarrow.fs", "ParquetRows", SCALE)
    pairs = []
    for each in given:
        try:
            pairs.append(fs.FileSystem.from_uri(each if is_address(each) else Path(each).absolute().as_uri()))
        except (OSError, ValueError, NotImplementedError) as error:
            raise ValueError(
                f"{each}: pyarrow cannot open this address ({first_line(error)}). It supports s3://, gs://, abfss://, "
                "hdfs:// and file://. For other addresses, pass a file system of pyarrow.fs or fsspec as filesystem=."
            ) from error
    first = pairs[0][0]
    other = next((each for each, (system, _) in zip(given, pairs, strict=True) if not system.equals(first)), None)
    if other is not None:
        raise ValueError(
            f"{given[0]} and {other} are in different file systems, but all files of a table must be in the same "
            "one. Copy them to one file system, or pass a filesystem= that can read both."
        )
    return first, [path for _, path in pairs]


def _of_pyarrow(filesystem: Any) -> Any:
    """Return a file system of pyarrow; a file system of fsspec is wrapped."""
    fs = need("pyarrow.fs", "ParquetRows", SCALE)
    if isinstance(filesystem, fs.FileSystem):
        return filesystem
    if hasattr(filesystem, "protocol") and hasattr(filesystem, "open"):
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem))
    raise TypeError(
        f"filesystem must be a file system of pyarrow.fs or fsspec, such as pyarrow.fs.S3FileSystem(...); got "
        f"{type(filesystem).__name__}."
    )


def _kind(filesystem: Any) -> str:
    """Return the scheme of addresses in a file system."""
    name = str(filesystem.type_name)
    return name if name.isalnum() else "remote"


def _inside(address: str) -> str:
    """Return the path of an address within its file system."""
    return address.split("://", maxsplit=1)[1]


# --- advice on slow files


class _Layout(NamedTuple):
    rows: int
    groups: int
    largest: int  # bytes of the largest row group, decoded
    dictionary: tuple[str, ...]  # columns of floats that are written with a dictionary
    double: tuple[str, ...]  # columns of float64
    slow_codecs: tuple[str, ...]


def file_advice(paths: Iterable[str], *, filesystem: Any = None) -> list[str]:
    """Return advice on how to write Parquet files that can be read faster.

    Parameters
    ----------
    paths : iterable of str
        Paths of the files, such as `ParquetRows.files`.
    filesystem : file system of pyarrow.fs, optional
        File system of the paths, such as `ParquetRows.filesystem`. Default: local files.

    Returns
    -------
    list of str
        Sentences; empty if there is no advice.

    Examples
    --------
    >>> import pyarrow, pyarrow.parquet
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "small.parquet")
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": range(100_000)}), path, row_group_size=1_000)
    ...     print(file_advice([str(path)])[0][:35])
    100 row groups have 1,000 rows each
    """
    layouts = [_layout_of(path, filesystem) for path in paths]
    advice = _advice_on_groups(layouts)
    dictionary = sorted({name for each in layouts for name in each.dictionary})
    if dictionary:
        advice.append(
            f"{_named(dictionary)}: floats are written with a dictionary. Unless there are few different values, this "
            "makes files larger and slower to read. Write floats without a dictionary: in "
            "pyarrow.parquet.write_table, pass use_dictionary=[...] with the names of the text columns."
        )
    double = sorted({name for each in layouts for name in each.double})
    if double:
        advice.append(
            f"{_named(double)}: the type is float64. float32 takes half the memory and time, and is precise enough for "
            "most attributes."
        )
    slow = sorted({codec for each in layouts for codec in each.slow_codecs})
    if slow:
        advice.append(f"The compression {listed(slow)} is slow to decode. Use zstd, snappy or none.")
    if len(layouts) > MAX_FILES:
        advice.append(f"{len(layouts):,} files are slow to open. Merge them into files of 100 MB or more.")
    return advice


def _advice_on_groups(layouts: list[_Layout]) -> list[str]:
    advice, groups, rows = [], sum(each.groups for each in layouts), sum(each.rows for each in layouts)
    if groups > 1 and rows / groups < MIN_ROWS_PER_GROUP:
        advice.append(
            f"{groups:,} row groups have {rows // groups:,} rows each on average: small groups are slow to read. Write "
            "100,000 to 1,000,000 rows to each group (row_group_size)."
        )
    largest = max((each.largest for each in layouts), default=0)
    if largest > MAX_BYTES_PER_GROUP:
        advice.append(
            f"A row group takes {largest / 1e6:,.0f} MB of memory in every worker that decodes it. Write fewer rows to "
            "each group (row_group_size)."
        )
    return advice


def _layout_of(path: str, filesystem: Any) -> _Layout:
    parquet, types = need("pyarrow.parquet", "Parquet files", "scale"), need("pyarrow", "Parquet files", "scale").types
    with opened(path, filesystem) as place, parquet.ParquetFile(place) as file:
        meta, kinds = file.metadata, dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    first = [groups[0].column(number) for number in range(groups[0].num_columns)] if groups else []
    floats = {name for name, kind in kinds.items() if types.is_floating(kind)}
    return _Layout(
        meta.num_rows,
        len(groups),
        max((_decoded(group, kinds) for group in groups), default=0),
        tuple(c.path_in_schema for c in first if c.path_in_schema in floats and c.has_dictionary_page),
        tuple(name for name in kinds if types.is_float64(kinds[name])),
        tuple({c.compression for c in first} & {"GZIP", "BROTLI"}),
    )


def _decoded(group: Any, kinds: dict[str, Any]) -> int:
    return int(group.num_rows) * 8 * len(kinds)


def _named(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more columns"
