"""Columns of a data frame of pandas or polars, as plain values, and frames of the same library made of them."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scarless.checks.kinds import refuse_unread
from scarless.checks.options import shown
from scarless.checks.raw_names import nearest_name
from scarless.numerics.arrays import Integers, Mask, Vector
from scarless.outside.extras import need


@dataclass(frozen=True)
class Column:
    """The different values of a column, and the place of each line's value among them, -1 where it is missing."""

    values: list[Any]
    codes: Integers

    @property
    def missing(self) -> Mask:
        """Which lines have no value."""
        return self.codes < 0

    def said(self, line: int) -> str:
        """Return a line's value, in words."""
        return "missing" if self.codes[line] < 0 else shown(self.values[self.codes[line]])

    def replaced(self, numbers: Any) -> Vector:
        """Return a number for each line, given one for each different value; NaN where there is none."""
        return np.append(np.asarray(numbers, dtype=np.float64), np.nan)[self.codes]


@dataclass(frozen=True)
class LongFrame:
    """A data frame in memory; what depends on its library is here, and nowhere else."""

    table: Any
    names: list[Any]
    is_pandas: bool

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def column(self, name: Any) -> Column:
        """Return a column, its values as Python's own."""
        column = self.table[name]
        try:
            codes, values = _pandas_codes(column) if self.is_pandas else _polars_codes(column)
        except TypeError:
            raise ValueError(
                f"Column {name!r} holds lists or other values that cannot be compared; give each part a column of its "
                "own."
            ) from None
        return Column(values, codes)

    def order_of(self, name: Any) -> list[Any] | None:
        """Return the categories of a column that says their order, None of any other."""
        dtype = self.table[name].dtype
        if self.is_pandas:
            return list(dtype.categories) if getattr(dtype, "ordered", False) else None
        return dtype.categories.to_list() if str(dtype).startswith("Enum") else None

    def index(self, name: Any, lines: Integers) -> Any:
        """Return some lines of a column, as what the library calls rows by: an Index, or a Series."""
        if not self.is_pandas:
            return self.table[name][lines]
        return need("pandas", "from_long", "frames").Index(self.table[name].iloc[lines].array, name=name)

    def take(self, names: Sequence[Any], lines: Integers, index: Any, added: dict[str, Vector]) -> Any:
        """Return some lines of some columns as a new frame, with columns of floats added."""
        if self.is_pandas:
            columns = {name: self.table[name].iloc[lines].array for name in names}
            return need("pandas", "from_long", "frames").DataFrame({**columns, **added}, index=index)
        polars = need("polars", "from_long", "frames")
        taken = [self.table[name][lines] for name in names]
        return polars.DataFrame([*taken, *(polars.Series(name, values) for name, values in added.items())])


def open_frame(table: Any) -> LongFrame:
    """Return a table that can be read column by column, or say what it is instead."""
    refuse_unread(table, "table")
    pandas, polars = (
        sys.modules.get("pandas"),
        sys.modules.get("polars"),
    )  # whoever has a frame has imported its library
    is_pandas = pandas is not None and isinstance(table, pandas.DataFrame)
    if not is_pandas and not (polars is not None and isinstance(table, polars.DataFrame)):
        raise TypeError(
            f"table must be a data frame of pandas or polars, with one line for each unit and look; got "
            f"{shown(table)} of type {type(table).__name__}. Read files first, e.g. with pandas.read_csv."
        )
    names = list(table.columns)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"{names.count(twice[0])} columns of table are called {twice[0]!r}; rename all but one of them."
        )
    if not len(table):
        raise ValueError("table has no lines; it must have one for each unit and look.")
    return LongFrame(table, names, is_pandas)


def check_name(frame: LongFrame, name: Any, parameter: str) -> Any:
    """Return the name of a column, or say which one may be meant."""
    if isinstance(name, str | int | tuple) and name in frame.names:
        return name
    if not isinstance(name, str | int):
        raise ValueError(f"{parameter} must be the name of a column of table; got {shown(name)}.")
    if frame.is_pandas and name in frame.table.index.names:
        raise ValueError(f"{parameter}={name!r} is the index of table and no column of it; pass table.reset_index().")
    raise ValueError(f"table has no column {name!r} ({parameter}). {nearest_name(name, frame.names)}")


def _pandas_codes(column: Any) -> tuple[Integers, list[Any]]:
    """Return the place of each value among the different ones, -1 for none, and these."""
    codes, values = column.factorize()
    return np.asarray(codes, dtype=np.intp), values.tolist()


def _polars_codes(column: Any) -> tuple[Integers, list[Any]]:
    """Return the same of a Series of polars."""
    dtype = column.dtype
    missing = column.is_null().to_numpy()
    if dtype.is_float():
        missing = missing | column.is_nan().fill_null(False).to_numpy()
    codes = np.full(len(column), -1, dtype=np.intp)
    if dtype.is_integer() or dtype.is_float() or dtype.is_temporal():
        there = np.flatnonzero(~missing)
        numbers = column.to_physical().fill_null(0).to_numpy()[there]
        _, first, codes[there] = np.unique(numbers, return_index=True, return_inverse=True)
        return codes, column[there[first]].to_list()
    place: dict[Any, int] = {}
    for line, value in enumerate(column.to_list()):
        if value is not None:
            codes[line] = place.setdefault(value, len(place))
    return codes, list(place)


def sorted_values(frame: LongFrame, name: Any, parameter: str) -> tuple[Integers, list[Any]]:
    """Return the place of each line's value among all that there are, and these, sorted; none may be missing.

    An ordered category keeps its order; all else is sorted as Python does.
    """
    column = frame.column(name)
    if column.missing.any():
        raise ValueError(
            f"Column {name!r} ({parameter}) is missing in {int(column.missing.sum())} of {len(frame)} lines (first: "
            f"line {int(np.flatnonzero(column.missing)[0])}); every line must say its {parameter}. Fill it in, or drop "
            "such lines."
        )
    values = column.values
    categories = frame.order_of(name)
    rank = None if categories is None else {value: place for place, value in enumerate(categories)}
    try:
        order = sorted(range(len(values)), key=lambda j: values[j] if rank is None else rank[values[j]])
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise ValueError(
            f"Column {name!r} ({parameter}) holds values that have no order, of the kinds {kinds}; make them all of "
            "one kind, e.g. text."
        ) from None
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.arange(len(values))
    return place[column.codes], [values[j] for j in order]
