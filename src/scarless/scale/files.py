"""Where Parquet files lie: on disks of this machine, or in a file system of pyarrow's, such as that of S3.

A file elsewhere is called by an address, ``s3://bucket/claims/2020.parquet``; what knows how to reach it is the file
system, which goes to workers with their partitions. `file_advice` says what makes files slow to walk.
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

MIN_ROWS_PER_GROUP, MAX_BYTES_PER_GROUP = 20_000, 2**28  # of a row group, decoded
MAX_FILES = 10_000

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # not a drive letter
FOOTERS_AT_ONCE = 16  # files elsewhere whose ends are read at a time


class Found(NamedTuple):
    """Files in their order, and the file system that they are in; None for this machine's own.

    Paths are absolute: a worker may stand in another folder.
    """

    files: list[str]
    filesystem: Any


def find_files(where: Any, filesystem: Any = None) -> Found:
    """Return all files that paths, folders, patterns or addresses mean."""
    given: list[Any] = [where] if isinstance(where, str | Path) else list(where)
    asked = ", ".join(map(str, given))
    system = None if filesystem is None else _of_pyarrow(filesystem)
    if system is None and any(is_address(each) for each in given):
        system, given = _by_address([str(each) for each in given])
    elif system is not None:
        given = [_inside(str(each)) if is_address(each) else each for each in given]
    if system is not None and system.type_name == "local":
        system = None
    found: list[str] = []
    for each in given:
        found += _here(each) if system is None else _elsewhere(str(each), system)
    if not found:
        raise FileNotFoundError(f"{asked}: no Parquet file is there.")
    return Found(found, system)


def is_address(path: Any) -> bool:
    """Whether a path says in which file system it is.

    Examples
    --------
    >>> is_address("s3://bucket/claims"), is_address("C:/claims")
    (True, False)
    """
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def address_of(path: str, filesystem: Any) -> str:
    """Return what a file is called: its absolute path on this machine, or its address."""
    return os.path.abspath(path) if filesystem is None else f"{_kind(filesystem)}://{path}"


def absolute(path: str) -> str:
    """Return a path that means the same file wherever a process stands; an address does."""
    return path if is_address(path) else os.path.abspath(path)


def stamp_of(path: str, filesystem: Any = None) -> tuple[int, int]:
    """Return a file's size and time of change."""
    if filesystem is None:
        found = Path(path).stat()
        return found.st_size, found.st_mtime_ns
    info = filesystem.get_file_info(_inside(path))
    if not info.is_file:
        raise FileNotFoundError(f"{path}: no such file is there.")
    return int(info.size), int(info.mtime_ns or -1)


@contextmanager
def opened(path: str, filesystem: Any = None) -> Iterator[Any]:
    """Open a file for reading at any place: what pyarrow takes for a file."""
    if filesystem is None:
        yield path
    else:
        with filesystem.open_input_file(_inside(path)) as file:
            yield file


@dataclass(frozen=True)
class Footer:
    """What stands at the end of a Parquet file."""

    path: str
    called: str
    there: tuple[str, ...]  # names of columns
    kinds: dict[str, Any]  # of columns, by name
    group_rows: tuple[int, ...]
    stamp: tuple[int, int]
    row_names: frozenset[str]  # columns that are the index of a data frame


def read_footer(path: str, called: str, filesystem: Any = None) -> Footer:
    """Read the end of a Parquet file, or raise by the name that the user knows it by."""
    parquet = need("pyarrow.parquet", "ParquetRows", SCALE)
    try:
        stamp = stamp_of(path, filesystem)
        with opened(path, filesystem) as place, parquet.ParquetFile(place) as file:
            there = tuple(file.schema_arrow.names)
            kinds = dict(zip(there, file.schema_arrow.types, strict=True))
            row_names = row_names_of(file.schema_arrow)
            rows = tuple(file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{called}: no such file is there.") from error
    except (OSError, need("pyarrow", "ParquetRows", SCALE).ArrowException) as error:
        raise PartitionError(f"{called}: is no Parquet file, or was cut short ({line_of(error)}).") from error
    return Footer(path, called, there, kinds, rows, stamp, row_names)


def read_footers(files: list[str], called: str, filesystem: Any = None) -> list[Footer]:
    """Read the ends of files, in their order; elsewhere many at a time, since each is a wait."""

    def read(path: str) -> Footer:
        return read_footer(path, called or path, filesystem)

    if filesystem is None:
        return [read(path) for path in files]
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        return list(pool.map(read, files))


def line_of(error: BaseException) -> str:
    """Return the beginning of what an error says."""
    return str(error).split("\n", maxsplit=1)[0][:200]


def _here(where: Any) -> list[str]:
    path = os.path.abspath(where)
    if os.path.isdir(path):
        return sorted(str(file) for file in Path(path).rglob("*.parquet"))
    return sorted(glob.glob(path)) if glob.has_magic(path) else [path]


def _elsewhere(where: str, filesystem: Any) -> list[str]:
    """Return the addresses of files that a path, a folder or a pattern in another file system means."""
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
        raise OSError(f"{kind}://{root}: cannot be listed ({line_of(error)}).") from error
    if plain == len(parts):
        found = [path for path in inside if path.endswith(".parquet")]
    else:
        found = [path for path in inside if len(PurePosixPath(path).parts) == len(parts) and _fits(path, where)]
    return sorted(f"{kind}://{path}" for path in found)


def _fits(path: str, pattern: str) -> bool:
    return PurePosixPath(path).match(pattern)


def _by_address(given: list[str]) -> tuple[Any, list[str]]:
    """Return the file system of addresses, which must be one for all, and the paths in it."""
    fs = need("pyarrow.fs", "ParquetRows", SCALE)
    pairs = []
    for each in given:
        try:
            pairs.append(fs.FileSystem.from_uri(each if is_address(each) else Path(each).absolute().as_uri()))
        except (OSError, ValueError, NotImplementedError) as error:
            raise ValueError(
                f"{each}: pyarrow cannot open this address ({line_of(error)}). It knows s3://, gs://, abfss://, "
                "hdfs:// and file://; for others give filesystem=, one of pyarrow.fs or of fsspec."
            ) from error
    first = pairs[0][0]
    other = next((each for each, (system, _) in zip(given, pairs, strict=True) if not system.equals(first)), None)
    if other is not None:
        raise ValueError(
            f"{given[0]} and {other} lie in different file systems; all files of a table must lie in one. Copy them, "
            "or give filesystem= for both."
        )
    return first, [path for _, path in pairs]


def _of_pyarrow(filesystem: Any) -> Any:
    """Return a file system of pyarrow's; one of fsspec in its coat."""
    fs = need("pyarrow.fs", "ParquetRows", SCALE)
    if isinstance(filesystem, fs.FileSystem):
        return filesystem
    if hasattr(filesystem, "protocol") and hasattr(filesystem, "open"):
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem))
    raise TypeError(
        f"filesystem must be a file system of pyarrow.fs or of fsspec, such as pyarrow.fs.S3FileSystem(...), got "
        f"{type(filesystem).__name__}."
    )


def _kind(filesystem: Any) -> str:
    """Return what addresses in a file system begin with."""
    name = str(filesystem.type_name)
    return name if name.isalnum() else "remote"


def _inside(address: str) -> str:
    """Return the path that a file system knows a file by."""
    return address.split("://", maxsplit=1)[1]


# --- what makes files slow to walk


class _Seen(NamedTuple):
    rows: int
    groups: int
    largest: int  # bytes of a row group, decoded
    dictionary: tuple[str, ...]  # columns of floats that have one
    double: tuple[str, ...]
    packed: tuple[str, ...]  # codecs that take long to undo


def file_advice(paths: Iterable[str], *, filesystem: Any = None) -> list[str]:
    """Return, in sentences, what would make Parquet files quicker to walk again and again.

    Parameters
    ----------
    paths : iterable of str
    filesystem : file system of pyarrow.fs, optional
        Where they are: `files` and `filesystem` of `ParquetRows` go together. Default: this machine's.

    Returns
    -------
    list of str
        Empty where the files are good.

    Examples
    --------
    >>> import pyarrow, pyarrow.parquet
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "small.parquet")
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": range(100_000)}), path, row_group_size=1_000)
    ...     print(file_advice([str(path)])[0][:36])
    100 row groups hold 1,000 rows each:
    """
    seen = [_look(path, filesystem) for path in paths]
    said = _about_groups(seen)
    dictionary = sorted({name for each in seen for name in each.dictionary})
    if dictionary:
        said.append(
            f"{_named(dictionary)}: floats with a dictionary, which makes files larger and slower unless few values "
            "come again and again. Write them plain (use_dictionary=[] or the names of text columns)."
        )
    double = sorted({name for each in seen for name in each.double})
    if double:
        said.append(
            f"{_named(double)}: double precision. Single precision (float32) takes half the memory and time, and is "
            "enough for most attributes."
        )
    packed = sorted({codec for each in seen for codec in each.packed})
    if packed:
        said.append(f"Compressed by {listed(packed)}, which takes long to undo; zstd, snappy or none do not.")
    if len(seen) > MAX_FILES:
        said.append(f"{len(seen):,} files: opening them takes long. Put them together, some 100 MB each or more.")
    return said


def _about_groups(seen: list[_Seen]) -> list[str]:
    said, groups, rows = [], sum(each.groups for each in seen), sum(each.rows for each in seen)
    if groups > 1 and rows / groups < MIN_ROWS_PER_GROUP:
        said.append(
            f"{groups:,} row groups hold {rows // groups:,} rows each: reading them one by one takes longer than the "
            "rows. Write 100,000 to 1,000,000 rows to a group (row_group_size)."
        )
    largest = max((each.largest for each in seen), default=0)
    if largest > MAX_BYTES_PER_GROUP:
        said.append(
            f"A row group takes {largest / 1e6:,.0f} MB once it is decoded, and is decoded as a whole in every worker. "
            "Write fewer rows to a group (row_group_size)."
        )
    return said


def _look(path: str, filesystem: Any) -> _Seen:
    parquet, types = need("pyarrow.parquet", "Parquet files", "scale"), need("pyarrow", "Parquet files", "scale").types
    with opened(path, filesystem) as place, parquet.ParquetFile(place) as file:
        meta, kinds = file.metadata, dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    first = [groups[0].column(number) for number in range(groups[0].num_columns)] if groups else []
    floats = {name for name, kind in kinds.items() if types.is_floating(kind)}
    return _Seen(
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
