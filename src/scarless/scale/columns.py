"""Columns of a partition: which are wanted, whether they hold numbers, and the arrays that become of them."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from scarless.engines.base import MayMiss, Several, column_names
from scarless.outside.extras import need
from scarless.scale.partitions import Arrays

SCALE = "scale"
_NAMELESS = re.compile(r"__index_level_\d+__|__null_dask_index__")  # names of rows without a name: never an attribute
Place = Callable[[int | None], str]  # where a row of a partition is, in words; None for the partition as a whole


class PartitionError(ValueError):
    """Something in one partition is not as it should be; the others were not touched."""


def row_names_of(schema: Any) -> frozenset[str]:
    """Return the columns of an Arrow schema that pandas, or Dask, wrote as names of rows: the index of a data frame."""
    told = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return frozenset(name for name in told.get("index_columns", ()) if isinstance(name, str))


def without_row_names(there: Sequence[str], row_names: Collection[str] = ()) -> list[str]:
    """Return the columns that may be attributes."""
    return [name for name in there if name not in row_names and not _NAMELESS.fullmatch(name)]


def choose_names(
    there: Sequence[str],
    wanted: Sequence[str] | None,
    label: str | Several | None,
    weight: str | None,
    called: str,
    row_names: Collection[str] = (),
) -> list[str]:
    """Return the attributes: those wanted, or all columns but labels, weights and names of rows.

    `called` is the table, in errors.

    Examples
    --------
    >>> choose_names(["age", "visits", "ill"], None, "ill", None, "claims.parquet")
    ['age', 'visits']
    >>> choose_names(["age", "visits", "ill"], ["agge"], "ill", None, "claims.parquet")
    Traceback (most recent call last):
    ...
    ValueError: claims.parquet has no column 'agge'. Did you mean 'age'?
    """
    aside = column_names(label, weight)
    for name in (*aside, *(wanted or ())):
        if name not in there:
            raise ValueError(f"{called} has no column {name!r}. {_nearest(name, there)}")
    plain = without_row_names(there, row_names)
    names = [name for name in plain if name not in aside] if wanted is None else list(wanted)
    counts = Counter(there)
    twice = next((name for name, times in counts.items() if times > 1 and name in (*names, *aside)), None)
    if twice is not None:
        raise ValueError(
            f"{counts[twice]} columns of {called} are called {twice!r}; each needs a name of its own. Rename them, or "
            "leave them out of columns=."
        )
    return names


def _nearest(name: str, there: Sequence[str]) -> str:
    folded = {str(each).lower(): each for each in there}
    near = get_close_matches(name.lower(), folded, n=1)
    shown = ", ".join(map(repr, there[:8])) + (", ..." if len(there) > 8 else "")
    return f"Did you mean {folded[near[0]]!r}?" if near else f"Its columns are {shown}."


def common_type(kinds: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return float32 where Arrow types of all attributes are that or smaller floats, in all files; else float64."""
    small = {"float", "halffloat"}
    return "float32" if names and all(str(each[name]) in small for each in kinds for name in names) else "float64"


def check_kind(kind: Any, name: str, place: str) -> None:
    """Raise where a column's Arrow type is not one of numbers; one without any value is told of as missing later."""
    types = need("pyarrow", "ParquetRows", SCALE).types
    plain = kind.value_type if types.is_dictionary(kind) else kind
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if not any(check(plain) for check in numeric):
        raise PartitionError(
            f"{place}: the column {name!r} holds {_shortened(kind)}, not numbers. Write it as numbers, or leave it out "
            "of the columns."
        )


def check_labels_alike(kind: Any, other: Any, name: str, place: str) -> None:
    """Raise where labels are numbers in one file and text in another, or neither."""
    types = need("pyarrow", "ParquetRows", SCALE).types
    plain = [each.value_type if types.is_dictionary(each) else each for each in (kind, other)]
    as_text = [types.is_string(each) or types.is_large_string(each) or "view" in str(each) for each in plain]
    if as_text[0] != as_text[1] or types.is_nested(kind):
        raise PartitionError(
            f"{place}: the label {name!r} holds {_shortened(kind)}, and {_shortened(other)} in other files. Write one "
            "kind of label to all."
        )


def arrays_of(
    table: Any, names: Sequence[str], label: str | Several | None, weight: str | None, dtype: str, place: Place
) -> Arrays:
    """Return an Arrow table as arrays, the attributes one below the other: turning them costs as much as decoding."""
    below = np.empty((len(names), table.num_rows), dtype=dtype)
    with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite, and is told of as that
        for row, name in zip(below, names, strict=True):
            row[:] = numbers(table.column(name), name, place)
    return {"X": below.T, **arrays_beside(table, label, weight, place)}


def arrays_beside(table: Any, label: str | Several | None, weight: str | None, place: Place) -> Arrays:
    """Return labels and weights, where there are any."""
    arrays: Arrays = {}
    if isinstance(label, Several):
        for number, name in enumerate(label):
            arrays[f"y{number}"] = in_few_bytes(labels(table.column(name), MayMiss(name), place))
    elif label is not None:
        arrays["y"] = labels(table.column(label), label, place)
    if weight is not None:
        arrays["w"] = numbers(table.column(weight), weight, place).astype(np.float64)
    return arrays


def numbers(column: Any, name: str, place: Place) -> Any:
    """Return a column of numbers as an array; decimals as float64."""
    pyarrow = need("pyarrow", "ParquetRows", SCALE)
    check_kind(column.type, name, place(None))
    if column.null_count:
        raise PartitionError(
            f"{place(_first_null(column))}: the column {name!r} is missing in {column.null_count} of {len(column)} "
            "rows. Fill the gaps, leave the column out, or have the table prepared: scarless.analyse does."
        )
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.cast(pyarrow.float64()) if pyarrow.types.is_decimal(column.type) else column)


def labels(column: Any, name: str, place: Place) -> Any:
    """Return a column of labels as an array, of numbers or of text."""
    types = need("pyarrow", "ParquetRows", SCALE).types
    if types.is_nested(column.type):
        raise PartitionError(f"{place(None)}: the label {name!r} holds {_shortened(column.type)}, not one value a row.")
    if column.null_count and not isinstance(name, MayMiss):
        raise PartitionError(
            f"{place(_first_null(column))}: the label {name!r} is missing in {column.null_count} of {len(column)} "
            "rows; an unlabelled row has a label too, such as 0."
        )
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values = np.asarray(column)
    return values.astype(str) if values.dtype.hasobject and not column.null_count else values


def in_few_bytes(values: Any) -> Any:
    """Return labels of a look as bytes where they are 0, 1 and gaps, -1 for these: it means the same.

    Examples
    --------
    >>> in_few_bytes(np.array([1.0, np.nan, 0.0]))
    array([ 1, -1,  0], dtype=int8)
    """
    if values.dtype.kind not in "iuf":
        return values
    filled = np.where(np.isnan(values), -1, values) if values.dtype.kind == "f" else values
    return filled.astype(np.int8) if np.isin(filled, (-1, 0, 1)).all() else values


def _first_null(column: Any) -> int:
    compute = need("pyarrow.compute", "ParquetRows", SCALE)
    return int(compute.index(column.is_null(), value=True).as_py())


def _shortened(kind: Any) -> str:
    return str(kind) if len(str(kind)) <= 60 else f"{str(kind)[:57]}..."
