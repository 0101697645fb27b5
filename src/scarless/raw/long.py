"""Conversion of long tables, with one line for each unit and look, into the table and labels that `fit` needs."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from scarless.checks.attributes import nearest_name
from scarless.checks.labels import same_value, yes_or_no
from scarless.checks.options import check_choice, real_number, shown
from scarless.checks.tables import refuse_lazy_query
from scarless.numerics.arrays import Integers, Mask, Matrix, Vector
from scarless.outside.extras import need

MAX_NAMED_LOOKS = 20  # if a look column has more different values, `align="auto"` aligns by order


@dataclass(frozen=True)
class LongColumn:
    """The different values of a column, and for each line the position of its value among them."""

    values: list[Any]
    codes: Integers  # -1 if the value is missing

    @property
    def missing(self) -> Mask:
        """Whether the value of each line is missing."""
        return self.codes < 0

    def shown(self, line: int) -> str:
        """Return the value of a line for an error message."""
        return "missing" if self.codes[line] < 0 else shown(self.values[self.codes[line]])

    def replaced(self, numbers: Any) -> Vector:
        """Return a number for each line, given a number for each different value; NaN if the value is missing."""
        return np.append(np.asarray(numbers, dtype=np.float64), np.nan)[self.codes]


@dataclass(frozen=True)
class LongFrame:
    """Common interface to data frames of pandas and polars."""

    table: Any
    names: list[Any]
    is_pandas: bool

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def column(self, name: Any) -> LongColumn:
        """Return a column as Python objects."""
        column = self.table[name]
        try:
            codes, values = _pandas_codes(column) if self.is_pandas else _polars_codes(column)
        except TypeError:
            raise ValueError(
                f"Column {name!r} holds lists or other values that cannot be compared. Split it into several columns."
            ) from None
        return LongColumn(values, codes)

    def order_of(self, name: Any) -> list[Any] | None:
        """Return the categories of a column of ordered categories; None for other columns."""
        dtype = self.table[name].dtype
        if self.is_pandas:
            return list(dtype.categories) if getattr(dtype, "ordered", False) else None
        return dtype.categories.to_list() if str(dtype).startswith("Enum") else None

    def index(self, name: Any, lines: Integers) -> Any:
        """Return some lines of a column as an index (pandas) or a Series (polars)."""
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


@dataclass(frozen=True, eq=False, repr=False)
class Looks:
    """Result of `from_long`: one row for each unit, one column of labels for each look.

    Parameters
    ----------
    X : DataFrame
        The attributes, then one column for each visit attribute and look. It is a data frame of pandas or polars, like
        the long table. With pandas, its index is `units`.
    S : array of shape (n_units, n_looks)
        1 for labelled, 0 for not labelled, NaN if the look did not take place.
    audit : array of shape (n_units,) or None
        True class of audited units, 1 or 0, and NaN for other units; None if no audit column was given.
    visit_attributes : dict of str to list of str, or None
        Columns of `X` for each visit attribute, one for each look; None if there are no visit attributes.
    units : Index or Series
        The sorted units, one for each row of `X`.
    looks : tuple
        Names of the looks: values of the look column, or 1, 2, ... if looks are aligned by order.
    align : {"value", "order"}
        Meaning of the columns of `S`; see `from_long`.

    Examples
    --------
    >>> import pandas as pd
    >>> from scarless import from_long
    >>> table = pd.DataFrame({"site": [1, 1, 2], "visit": [1, 2, 1], "seen": [0, 1, 0], "forest": [1.0, 1.0, 0.0]})
    >>> from_long(table, unit="site", look="visit", label="seen")
    Looks(2 units x 2 looks by value, 25% of looks missing, 1 unit labelled, no audit)
    """

    X: Any
    S: Matrix
    audit: Vector | None
    visit_attributes: dict[str, list[str]] | None
    units: Any
    looks: tuple[Any, ...]
    align: str

    def __repr__(self) -> str:
        n_units, n_looks = self.S.shape
        labelled = int((self.S == 1.0).any(axis=1).sum())
        known = "no audit" if self.audit is None else f"{int(np.isfinite(self.audit).sum()):,} audited"
        return (
            f"{type(self).__name__}({n_units:,} unit{'s' * (n_units != 1)} x {n_looks} look{'s' * (n_looks != 1)} by "
            f"{self.align}, {np.isnan(self.S).mean():.0%} of looks missing, {labelled:,} unit{'s' * (labelled != 1)} "
            f"labelled, {known})"
        )


@dataclass(frozen=True)
class _Lines:
    """For each line of the long table: its row and its column in the matrix of labels."""

    row: Integers
    look: Integers
    units: list[Any]
    looks: list[Any]
    align: str
    first: Integers  # one line of each unit

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.units), len(self.looks)

    def unit_of(self, line: int) -> str:
        return f"unit {self.units[self.row[line]]!r}"


def from_long(
    table: Any,
    *,
    unit: Any,
    look: Any,
    label: Any,
    audit: Any = None,
    attributes: Sequence[Any] | None = None,
    visit_attributes: Any = None,
    pos_label: Any = None,
    align: str = "auto",
) -> Looks:
    """Convert a long table, with one line for each unit and look, into the table and labels that `fit` needs.

    Parameters
    ----------
    table : DataFrame
        Data frame of pandas or polars. The order of its lines does not matter.
    unit : str
        Column that identifies the unit: a site, a patient, a document. Each unit becomes a row.
    look : str
        Column that identifies the look at a unit: a date, the number of the visit, an annotator.
    label : str
        Column of labels: 0/1, booleans, yes/no, or two values and `pos_label`. A missing label means that the look did
        not take place, like an absent line.
    audit : str or None
        Column with the true class of audited units: 0/1, yes/no, or the values of the labels if `pos_label` is given.
        Other units have a missing value. For an audited unit, a value in one of its lines is enough.
    attributes : list of str or None
        Columns that describe units. They must be constant within a unit. None: all columns without another role.
    visit_attributes : list of str, str or None
        Columns of numbers that describe looks, such as effort or weather. ``"effort"`` becomes ``effort_1``,
        ``effort_2``, ..., one column of `X` for each look. If a look did not take place, the value is 0.0, because `X`
        must not have missing values. A fit ignores this value.
    pos_label : value or None
        Value that marks a labelled unit. Not needed for 0/1, booleans or yes/no.
    align : {"auto", "value", "order"}
        Meaning of a column of labels. ``"value"``: one value of the look column, such as an annotator or a named visit.
        ``"order"``: the first look at each unit, the second look, and so on; use it for dates that differ between
        units. ``"auto"``: by value if the look column has at most 20 different values, and these are text or occur, on
        average, in at least half of the units. Otherwise by order. `Looks.align` stores the choice.

    Returns
    -------
    looks : Looks
        Arguments for a model: ``fit(looks.X, looks.S, audit=looks.audit)``, and ``looks.visit_attributes`` for
        `Labelling`.

    Notes
    -----
    Units and looks are sorted by their values; ordered categories keep their order. If looks are aligned by order and
    the look column is text, the order is alphabetical and has no meaning. All looks should then share their
    coefficients. Without attributes and visit attributes, ``X`` has no columns; join your own columns by
    ``units``.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "site": ["moor", "moor", "fen"], "date": ["2026-05-01", "2026-06-01", "2026-05-07"],
    ...     "seen": [0, 1, 0], "area": [3.5, 3.5, 1.0], "hours": [1.0, 2.0, 0.5],
    ... })
    >>> found = from_long(table, unit="site", look="date", label="seen", visit_attributes="hours", align="order")
    >>> found.S
    array([[ 0., nan],
           [ 0.,  1.]])
    >>> found.X
          area  hours_1  hours_2
    site
    fen    1.0      0.5      0.0
    moor   3.5      1.0      2.0
    >>> found.visit_attributes
    {'hours': ['hours_1', 'hours_2']}
    """
    check_choice(align, "align", ("auto", "value", "order"))
    frame = open_frame(table)
    keys = {name: check_name(frame, value, name) for name, value in (("unit", unit), ("look", look), ("label", label))}
    if audit is not None:
        keys["audit"] = check_name(frame, audit, "audit")
    visits = _check_names(frame, visit_attributes, "visit_attributes")
    kept = _attributes_of(frame, attributes, {*keys.values(), *visits})
    _refuse_two_roles(keys, kept, visits)
    lines = _lines_of(frame, keys["unit"], keys["look"], align)
    s, values = labels_of(frame.column(keys["label"]), keys["label"], pos_label)
    added, columns = _spread(frame, lines, visits, s, {*kept})
    for name in kept:
        _refuse_varying(frame, lines, name)
    found = None
    if audit is not None:
        places: dict[str, Any] = {"row": lines.row, "units": lines.units}
        found = audit_of(frame.column(keys["audit"]), keys["audit"], labels=values, pos_label=pos_label, **places)
    index = frame.index(keys["unit"], lines.first)
    return Looks(
        X=frame.take(kept, lines.first, index, added),
        S=_placed(lines, s),
        audit=found,
        visit_attributes=columns or None,
        units=index,
        looks=tuple(lines.looks),
        align=lines.align,
    )


# --- roles of columns


def _check_names(frame: LongFrame, names: Any, parameter: str) -> list[Any]:
    if names is None:
        return []
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list | tuple):
        raise ValueError(f"{parameter} must be a list of column names; got {shown(names)}.")
    checked = [check_name(frame, name, parameter) for name in names]
    twice = [name for name in checked if checked.count(name) > 1]
    if twice:
        raise ValueError(f"{parameter} names {twice[0]!r} twice. Name each column once.")
    return checked


def _attributes_of(frame: LongFrame, attributes: Any, taken: set[Any]) -> list[Any]:
    if attributes is None:
        return [name for name in frame.names if name not in taken]
    return _check_names(frame, attributes, "attributes")


def _refuse_two_roles(keys: dict[str, Any], attributes: list[Any], visits: list[Any]) -> None:
    roles = [*keys.items(), *(("attributes", name) for name in attributes), *(("visit_attributes", n) for n in visits)]
    seen: dict[Any, str] = {}
    for role, name in roles:
        if name in seen:
            raise ValueError(f"Column {name!r} is named as {seen[name]} and as {role}. Give each column one role.")
        seen[name] = role


# --- positions of lines


def _lines_of(frame: LongFrame, unit: Any, look: Any, align: str) -> _Lines:
    row, units = sorted_values(frame, unit, "unit")
    place, looks = sorted_values(frame, look, "look")
    order = np.lexsort((place, row))
    same = np.flatnonzero((np.diff(row[order]) == 0) & (np.diff(place[order]) == 0))
    if same.size:
        line = order[same[0]]
        raise ValueError(
            f"Each look at a unit must have one line, but {_lines_like(row, place, line)} lines have unit "
            f"{units[row[line]]!r} and look {looks[place[line]]!r} (lines that repeat an earlier unit and look: "
            f"{same.size}). If these lines are different looks, number the looks, or add the time to the date. If they "
            "are copies, drop all but one."
        )
    starts = np.flatnonzero(np.diff(row[order], prepend=-1))
    chosen = _alignment(units, looks, len(frame)) if align == "auto" else align
    if chosen == "order":
        nth = np.empty(len(frame), dtype=np.intp)
        nth[order] = np.arange(len(frame)) - np.repeat(starts, np.diff(starts, append=len(frame)))
        place, looks = nth, list(range(1, int(nth.max()) + 2))
    return _Lines(row, place, units, looks, chosen, order[starts])


def _lines_like(row: Integers, place: Integers, line: int) -> int:
    return int(((row == row[line]) & (place == place[line])).sum())


def _alignment(units: list[Any], looks: list[Any], n_lines: int) -> str:
    """Return how to align looks: by value if the values are names, or if units share them; otherwise by order."""
    if len(looks) > MAX_NAMED_LOOKS:
        return "order"
    named = all(isinstance(value, str) for value in looks)
    return "value" if named or 2 * n_lines >= len(units) * len(looks) else "order"


def _placed(lines: _Lines, values: Vector, fill: float = np.nan) -> Matrix:
    wide = np.full(lines.shape, fill)
    wide[lines.row, lines.look] = values
    return wide


# --- attributes


def _refuse_varying(frame: LongFrame, lines: _Lines, name: Any) -> None:
    column = frame.column(name)
    other = np.flatnonzero(column.codes != column.codes[lines.first][lines.row])
    if other.size:
        line = int(other[0])
        one, two = column.shown(int(lines.first[lines.row[line]])), column.shown(line)
        units = np.unique(lines.row[other]).size
        raise ValueError(
            f"Attribute {name!r} must be constant within a unit, but {lines.unit_of(line)} has {one} and {two} (number "
            f"of such units: {units}). If the column describes looks, name it in visit_attributes. Otherwise leave it "
            "out, by naming the other columns in attributes=[...]."
        )


def _spread(
    frame: LongFrame, lines: _Lines, visits: list[Any], s: Vector, taken: set[Any]
) -> tuple[dict[str, Vector], dict[str, list[str]]]:
    """Return a column for each visit attribute and look, and the names of the columns of each visit attribute."""
    added: dict[str, Vector] = {}
    columns: dict[str, list[str]] = {}
    for name in visits:
        looked = ~np.isnan(s)
        wide = _placed(lines, np.where(looked, _numbers_of(frame, lines, name, looked), 0.0), fill=0.0)
        columns[str(name)] = [f"{name}_{k}" for k in range(1, lines.shape[1] + 1)]
        for called, values in zip(columns[str(name)], wide.T, strict=True):
            if called in taken or called in added:
                raise ValueError(
                    f"Visit attribute {name!r} would add a column {called!r}, but another column has that name. Rename "
                    "one of them."
                )
            added[called] = np.ascontiguousarray(values)
    return added, columns


def _numbers_of(frame: LongFrame, lines: _Lines, name: Any, looked: Mask) -> Vector:
    """Return a visit attribute as floats; NaN if it is missing and the look did not take place."""
    column = frame.column(name)
    absent = np.flatnonzero(column.missing & looked)
    if absent.size:
        raise ValueError(
            f"Visit attribute {name!r} is missing in {absent.size} of {int(looked.sum())} looks that took place "
            f"(first: line {absent[0]}, counted from 0, {lines.unit_of(int(absent[0]))}). Fill in the values. If a "
            "look did not take place, leave its label missing too."
        )
    if {*map(type, column.values)} <= {float} and np.isfinite(column.values).all():  # fast path for many values
        return column.replaced(column.values)
    return column.replaced([_number(value, name) for value in column.values])


def _number(value: Any, name: Any) -> float:
    """Return a number as a float; raise for texts, even if they look like numbers."""
    number = float(value) if isinstance(value, bool | np.bool_ | Decimal) else real_number(value)
    if np.isfinite(number):
        return number
    raise ValueError(
        f"Visit attribute {name!r} must hold finite numbers; it holds {shown(value)}. Encode it first, for example as "
        "a column of 0 and 1 for each category but one, or as the number of days since a date."
    )


# --- columns of data frames of pandas and polars


def open_frame(table: Any) -> LongFrame:
    """Return the table as a `LongFrame`; raise if it is not a data frame in memory."""
    refuse_lazy_query(table, "table")
    # If `table` is a data frame of pandas or polars, that library has already been imported.
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    is_pandas = pandas is not None and isinstance(table, pandas.DataFrame)
    if not is_pandas and not (polars is not None and isinstance(table, polars.DataFrame)):
        raise TypeError(
            f"table must be a data frame of pandas or polars, with one line for each unit and look; got "
            f"{shown(table)} of type {type(table).__name__}. Read files first, for example with pandas.read_csv."
        )
    names = list(table.columns)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"{names.count(twice[0])} columns of table are called {twice[0]!r}. Rename all but one of them."
        )
    if not len(table):
        raise ValueError("table must have one line for each unit and look; it has no lines.")
    return LongFrame(table, names, is_pandas)


def check_name(frame: LongFrame, name: Any, parameter: str) -> Any:
    """Return the name of a column; raise, with the most similar name, if there is no such column."""
    if isinstance(name, str | int | tuple) and name in frame.names:
        return name
    if not isinstance(name, str | int):
        raise ValueError(f"{parameter} must be the name of a column of table; got {shown(name)}.")
    if frame.is_pandas and name in frame.table.index.names:
        raise ValueError(f"{parameter}={name!r} is the index of table, not a column. Pass table.reset_index().")
    raise ValueError(f"table has no column {name!r} ({parameter}). {nearest_name(name, frame.names)}")


def _pandas_codes(column: Any) -> tuple[Integers, list[Any]]:
    """Return the code of each value, -1 if missing, and the different values."""
    codes, values = column.factorize()
    return np.asarray(codes, dtype=np.intp), values.tolist()


def _polars_codes(column: Any) -> tuple[Integers, list[Any]]:
    """Return the code of each value, -1 if missing, and the different values of a polars Series."""
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
    """Return the code of each line's value and the sorted values; raise if a value is missing.

    Ordered categories keep their order.
    """
    column = frame.column(name)
    if column.missing.any():
        raise ValueError(
            f"Column {name!r} ({parameter}) is missing in {int(column.missing.sum())} of {len(frame)} lines (first: "
            f"line {int(np.flatnonzero(column.missing)[0])}, counted from 0). Every line must have a {parameter}. Fill "
            "in the values, or drop these lines."
        )
    values = column.values
    categories = frame.order_of(name)
    rank = None if categories is None else {value: place for place, value in enumerate(categories)}
    try:
        order = sorted(range(len(values)), key=lambda j: values[j] if rank is None else rank[values[j]])
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise ValueError(
            f"Column {name!r} ({parameter}) holds values that cannot be sorted, of types {kinds}. Convert them to one "
            "type, such as text."
        ) from None
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.arange(len(values))
    return place[column.codes], [values[j] for j in order]


# --- labels and audits, coded as 1, 0 or missing


def labels_of(column: LongColumn, name: Any, pos_label: Any) -> tuple[Vector, list[Any]]:
    """Return 1, 0 or NaN for each line, and the different values."""
    values = column.values
    if not values:
        raise ValueError(f"Column {name!r} (label) has no value in any line. At least one look must have taken place.")
    coded = yes_or_no(values) if pos_label is None else None
    if coded is not None:
        return column.replaced(coded), values
    if len(values) > 2:
        raise ValueError(
            f"Column {name!r} (label) must hold two values, one for labelled and one for not labelled; it has "
            f"{len(values)}: {_listed(values)}. If a look did not take place, its label must be missing."
        )
    if pos_label is None:
        raise ValueError(
            f"Column {name!r} (label) holds {_listed(values)}, and it is not clear which value means labelled. Pass "
            "pos_label=, or code labels as 1 and 0, or yes and no."
        )
    if len(values) == 2 and not _among(pos_label, values):
        raise ValueError(
            f"pos_label={shown(pos_label)} is not among the labels {_listed(values)} of column {name!r}. Pass one of "
            "these."
        )
    return _coded_by(column, pos_label), values


def audit_of(
    column: LongColumn, name: Any, *, row: Integers, units: list[Any], labels: list[Any], pos_label: Any
) -> Vector:
    """Return the true class of audited units, NaN for other units; `row` is the position of each line's unit."""
    values = column.values
    as_labels = pos_label is not None and all(_among(value, [*labels, pos_label]) for value in values)
    coded = None if as_labels else yes_or_no(values)
    if not as_labels and coded is None:
        raise ValueError(
            f"Column {name!r} (audit) must hold 1 and 0, yes and no, or, if pos_label is given, the values of the "
            f"labels, and be missing for units that were not audited; it holds {_listed(values)}."
        )
    found = _coded_by(column, pos_label) if coded is None else column.replaced(coded)
    count = [np.bincount(row[found == y], minlength=len(units)) for y in (0.0, 1.0)]
    both = np.flatnonzero((count[0] > 0) & (count[1] > 0))
    if both.size:
        raise ValueError(
            f"Column {name!r} (audit) has both classes for unit {units[both[0]]!r} (number of such units: "
            f"{both.size}). A unit has one true class. Correct the audits of these units, or leave them missing."
        )
    return np.where(count[1] > 0, 1.0, np.where(count[0] > 0, 0.0, np.nan))


def _coded_by(column: LongColumn, positive: Any) -> Vector:
    return column.replaced([same_value(value, positive) for value in column.values])


def _among(value: Any, values: list[Any]) -> bool:
    return any(same_value(other, value) for other in values)


def _listed(values: list[Any]) -> str:
    return ", ".join(shown(value) for value in values[:5]) + ", ..." * (len(values) > 5)
