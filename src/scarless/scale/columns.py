"""Columns of a partition: selection by name, checks of types, and conversion to arrays."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from scarless.engines.base import LabelColumns, NullableColumn, column_names
from scarless.outside.extras import need
from scarless.scale.partitions import Arrays

SCALE = "scale"
# Names that pandas and Dask give to the column of an unnamed index. Such a column is never an attribute.
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")
# Function that returns, for messages, the location of a row of a partition or, for None, of the whole partition.
Place = Callable[[int | None], str]


class PartitionError(ValueError):
    """A partition cannot be read, or contains invalid values."""


def row_names_of(schema: Any) -> frozenset[str]:
    """Return the columns of an Arrow schema that pandas or Dask wrote as the index of a data frame."""
    metadata = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return frozenset(name for name in metadata.get("index_columns", ()) if isinstance(name, str))


def without_row_names(there: Sequence[str], row_names: Collection[str] = ()) -> list[str]:
    """Return the columns that may be attributes: all columns but the index of a data frame."""
    return [name for name in there if name not in row_names and not _UNNAMED_INDEX.fullmatch(name)]


def choose_names(
    there: Sequence[str],
    wanted: Sequence[str] | None,
    label: str | LabelColumns | None,
    weight: str | None,
    called: str,
    row_names: Collection[str] = (),
) -> list[str]:
    """Return the attributes: the wanted columns, or all columns but labels, weights and the index.

    `there` are the columns of the table, and `called` is its name in errors.

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
            f"{called} has {counts[twice]} columns with the name {twice!r}, but names must be unique. Rename these "
            "columns, or leave them out."
        )
    return names


def _nearest(name: str, there: Sequence[str]) -> str:
    folded = {str(each).lower(): each for each in there}
    near = get_close_matches(name.lower(), folded, n=1)
    shown = ", ".join(map(repr, there[:8])) + (", ..." if len(there) > 8 else "")
    return f"Did you mean {folded[near[0]]!r}?" if near else f"Its columns are {shown}."


def common_type(kinds: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return "float32" if the Arrow types of all attributes in all files are float32 or float16, else "float64"."""
    small = {"float", "halffloat"}
    return "float32" if names and all(str(each[name]) in small for each in kinds for name in names) else "float64"


def check_kind(kind: Any, name: str, place: str) -> None:
    """Raise an error if the Arrow type of a column is not numeric.

    A column without any value has Arrow's null type. It passes this check, because `numbers` raises an error for it.
    """
    types = need("pyarrow", "ParquetRows", SCALE).types
    plain = kind.value_type if types.is_dictionary(kind) else kind
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if not any(check(plain) for check in numeric):
        raise PartitionError(
            f"{place}: the column {name!r} holds {_shortened(kind)}, not numbers. Write numbers to this column, or "
            "leave it out."
        )


def check_labels_alike(kind: Any, other: Any, name: str, place: str) -> None:
    """Raise an error if labels are numbers in one file and text in another, or if they are nested."""
    types = need("pyarrow", "ParquetRows", SCALE).types
    plain = [each.value_type if types.is_dictionary(each) else each for each in (kind, other)]
    as_text = [types.is_string(each) or types.is_large_string(each) or "view" in str(each) for each in plain]
    if types.is_nested(kind):
        raise _nested_labels(kind, name, place)
    if as_text[0] != as_text[1]:
        raise PartitionError(
            f"{place}: the type of the label column {name!r} is {_shortened(kind)}, but {_shortened(other)} in other "
            "files. Write the column with the same type to all files."
        )


def _nested_labels(kind: Any, name: str, place: str) -> PartitionError:
    return PartitionError(
        f"{place}: the label column {name!r} must have one value for each row; its type is {_shortened(kind)}. Write "
        "one number or text for each row."
    )


def arrays_of(
    table: Any, names: Sequence[str], label: str | LabelColumns | None, weight: str | None, dtype: str, place: Place
) -> Arrays:
    """Return an Arrow table as arrays. X is in Fortran order: copying it to C order would take as long as decoding."""
    transposed = np.empty((len(names), table.num_rows), dtype=dtype)
    with np.errstate(over="ignore"):  # Numbers that are too large become infinite. Infinite values are reported later.
        for row, name in zip(transposed, names, strict=True):
            row[:] = numbers(table.column(name), name, place)
    return {"X": transposed.T, **labels_and_weights(table, label, weight, place)}


def labels_and_weights(table: Any, label: str | LabelColumns | None, weight: str | None, place: Place) -> Arrays:
    """Return the labels and weights, if there are any."""
    arrays: Arrays = {}
    if isinstance(label, LabelColumns):
        for number, name in enumerate(label):
            arrays[f"y{number}"] = in_few_bytes(labels(table.column(name), NullableColumn(name), place))
    elif label is not None:
        arrays["y"] = labels(table.column(label), label, place)
    if weight is not None:
        arrays["w"] = numbers(table.column(weight), weight, place).astype(np.float64)
    return arrays


def numbers(column: Any, name: str, place: Place) -> Any:
    """Return a column of numbers as an array; decimals become float64. Raise an error if a value is missing."""
    pyarrow = need("pyarrow", "ParquetRows", SCALE)
    check_kind(column.type, name, place(None))
    if column.null_count:
        raise PartitionError(
            f"{place(_first_null(column))}: the column {name!r} is missing in {column.null_count} of the {len(column)} "
            "rows of this partition. Fill in the values, leave out the column, or use scarless.analyse, which fills in "
            "missing attributes."
        )
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.cast(pyarrow.float64()) if pyarrow.types.is_decimal(column.type) else column)


def labels(column: Any, name: str, place: Place) -> Any:
    """Return a column of labels as an array, of numbers or of text."""
    types = need("pyarrow", "ParquetRows", SCALE).types
    if types.is_nested(column.type):
        raise _nested_labels(column.type, name, place(None))
    if column.null_count and not isinstance(name, NullableColumn):
        raise PartitionError(
            f"{place(_first_null(column))}: the label {name!r} is missing in {column.null_count} of the {len(column)} "
            "rows of this partition. Write 0 for unlabelled rows."
        )
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values = np.asarray(column)
    return values.astype(str) if values.dtype.hasobject and not column.null_count else values


def in_few_bytes(values: Any) -> Any:
    """Return labels of a look as int8 if they are 0, 1 or missing; missing values become -1.

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
