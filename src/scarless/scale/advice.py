"""What makes Parquet files slow to walk, told from their footers alone."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from scarless.outside.extras import need
from scarless.scale.files import opened

_FEW_ROWS, _MANY_BYTES = 20_000, 2**28  # of a row group, decoded
_MANY_FILES = 10_000


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
        said.append(f"Compressed by {' and '.join(packed)}, which takes long to undo; zstd, snappy or none do not.")
    if len(seen) > _MANY_FILES:
        said.append(f"{len(seen):,} files: opening them takes long. Put them together, some 100 MB each or more.")
    return said


def _about_groups(seen: list[_Seen]) -> list[str]:
    said, groups, rows = [], sum(each.groups for each in seen), sum(each.rows for each in seen)
    if groups > 1 and rows / groups < _FEW_ROWS:
        said.append(
            f"{groups:,} row groups hold {rows // groups:,} rows each: reading them one by one takes longer than the "
            "rows. Write 100,000 to 1,000,000 rows to a group (row_group_size)."
        )
    largest = max((each.largest for each in seen), default=0)
    if largest > _MANY_BYTES:
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
