"""Parquet and Arrow files, as pandas, polars, Spark and others write them."""

import json
import re
from typing import Any

from scarless.outside.notices import warn_user
from scarless.outside.tables.columns import arrow
from scarless.outside.tables.kinds import TableFile

_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")


def read_binary(file: TableFile, begin: bytes) -> tuple[list[str], list[Any]]:
    """Return names and columns of a Parquet or Arrow file."""
    pa = arrow()
    try:
        table = _table(file, begin)
    except (pa.ArrowException, OSError) as error:
        raise file.fault(
            f"this {file.form} file is damaged or incomplete ({' '.join(str(error).split())[:150]}); copy it again, or "
            "write it again."
        ) from error
    if not len(table):
        raise file.fault("this file has columns and no rows; write it again with its rows.")
    names, columns = list(table.column_names), list(table.columns)
    for name in _nameless_index(table):
        warn_user(
            f"{file.name}: pandas' nameless row index was left out; to keep it as a column, write the table after "
            'table.rename_axis("name").reset_index().',
            UserWarning,
        )
        columns.pop(names.index(name))
        names.remove(name)
    return [name.strip() for name in names], columns


def _table(file: TableFile, begin: bytes) -> Any:
    pa = arrow()
    if file.form == "Parquet":
        return arrow("parquet").ParquetFile(file.name).read()
    if begin.startswith(b"FEA1"):
        return arrow("feather").read_table(file.name, memory_map=False)
    with pa.OSFile(file.name) as stream:
        reader = pa.ipc.open_file(stream) if begin.startswith(b"ARROW1") else pa.ipc.open_stream(stream)
        return reader.read_all()


def _nameless_index(table: Any) -> list[str]:
    told = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    index = told.get("index_columns", [])
    return [
        name
        for name in index
        if isinstance(name, str) and _NAMELESS_INDEX.fullmatch(name) and name in table.column_names
    ]
