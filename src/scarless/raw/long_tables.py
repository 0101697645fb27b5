"""Long tables, with one line for each unit and look, as field data come, made into what a fit wants."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from scarless.checks.options import check_choice, real_number, shown
from scarless.numerics.arrays import Integers, Mask, Matrix, Vector
from scarless.raw.long_frames import LongFrame, check_name, open_frame, sorted_values
from scarless.raw.long_labels import audit_of, labels_of

_MOST_NAMED = 20  # different looks, beyond which `align="auto"` counts them rather than names them


@dataclass(frozen=True, eq=False, repr=False)
class Looks:
    """What `from_long` makes of a long table: one row per unit, one column of labels per look.

    Parameters
    ----------
    X : DataFrame
        Of the library of the long table: the attributes, then a column for each visit attribute and look. With
        pandas, its index is `units`.
    S : array of shape (n_units, n_looks)
        1 for labelled, 0 for looked at and not labelled, NaN where a look did not take place.
    audit : array of shape (n_units,) or None
        1 or 0 where the true class is known, NaN elsewhere; None where no column was named.
    visit_attributes : dict of str to list of str, or None
        For each visit attribute its columns of `X`, one per look; None where none was named.
    units : Index or Series
        The units, in the order of the rows: sorted, whatever the order of the lines.
    looks : tuple
        What each look is called: values of the look column, or 1, 2, ... where looks are aligned by their order.
    align : {"value", "order"}
        What the columns of `S` stand for: see `from_long`.

    Examples
    --------
    >>> import pandas as pd
    >>> from scarless import from_long
    >>> table = pd.DataFrame({"site": [1, 1, 2], "visit": [1, 2, 1], "seen": [0, 1, 0], "forest": [1.0, 1.0, 0.0]})
    >>> from_long(table, unit="site", look="visit", label="seen")
    Looks(2 units x 2 looks by value, 25% not looked, 1 unit labelled, no audit)
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
            f"{self.align}, {np.isnan(self.S).mean():.0%} not looked, {labelled:,} unit{'s' * (labelled != 1)} "
            f"labelled, {known})"
        )


@dataclass(frozen=True)
class _Lines:
    """Where each line of the table goes: its row, its column, and a line of each row."""

    row: Integers
    look: Integers
    units: list[Any]
    looks: list[Any]
    align: str
    first: Integers  # a line of each unit

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.units), len(self.looks)

    def said(self, line: int) -> str:
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
    """Turn a long table, one line for each unit and look, into the rows and label columns that `fit` wants.

    Parameters
    ----------
    table : DataFrame
        Of pandas or polars. The order of its lines does not matter.
    unit : str
        The column that says what was looked at: a site, a patient, a document. Each unit becomes a row.
    look : str
        The column that tells looks at one unit apart: a date, a number of the visit, an annotator.
    label : str
        The column of labels: 0/1, booleans, yes/no, or two values of which `pos_label` is the positive one. A missing
        label means that the look did not take place, like a line that is not there.
    audit : str or None
        A column with the true class of units where somebody found it out, coded as the labels, 0/1 or yes/no, and
        missing elsewhere. One line of a unit that says it is enough.
    attributes : list of str or None
        The columns that describe units, and must not differ between the lines of a unit. None: all columns that are
        named nowhere else.
    visit_attributes : list of str, str or None
        Columns of numbers that describe looks, such as effort or weather. ``"effort"`` becomes ``effort_1``,
        ``effort_2``, ..., one column of `X` for each look. Where a look did not take place they are 0.0: that has no
        influence on a fit, which leaves such looks out, and `X` may not have gaps.
    pos_label : value or None
        The label of a positive, where labels are not 0/1, booleans or yes/no.
    align : {"auto", "value", "order"}
        What a column of labels stands for. ``"value"``: one value of the look column, such as an annotator or a named
        visit. ``"order"``: the first look at each unit, the second one, ..., as dates need it that differ between
        units. ``"auto"``: by value if there are at most 20 different values that are text, or that fill at least half
        of all pairs of unit and value; else by order. The result says which it was.

    Returns
    -------
    looks : Looks
        With ``X``, ``S``, ``audit`` and ``visit_attributes``, as a model takes them: ``fit(looks.X, looks.S,
        audit=looks.audit)``.

    Notes
    -----
    Looks are sorted by the values of their column (dates, numbers, texts; categories with an order by that), units as
    well. Where looks are aligned by order and the look column is text, the order is the alphabet's and means nothing:
    let all looks share their coefficients then. Where there are neither attributes nor visit attributes, ``X`` has no
    columns; join your own by ``units``.

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


# --- which columns


def _check_names(frame: LongFrame, names: Any, parameter: str) -> list[Any]:
    if names is None:
        return []
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list | tuple):
        raise ValueError(f"{parameter} must be a list of names of columns; got {shown(names)}.")
    checked = [check_name(frame, name, parameter) for name in names]
    twice = [name for name in checked if checked.count(name) > 1]
    if twice:
        raise ValueError(f"{parameter} names {twice[0]!r} twice; name each column once.")
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
            raise ValueError(
                f"Column {name!r} is named as {seen[name]} and as {role}; a column can be one of them only."
            )
        seen[name] = role


# --- where a line goes


def _lines_of(frame: LongFrame, unit: Any, look: Any, align: str) -> _Lines:
    row, units = sorted_values(frame, unit, "unit")
    place, looks = sorted_values(frame, look, "look")
    order = np.lexsort((place, row))
    same = np.flatnonzero((np.diff(row[order]) == 0) & (np.diff(place[order]) == 0))
    if same.size:
        line = order[same[0]]
        raise ValueError(
            f"{_lines_too_many(row, place, line)} lines are about unit {units[row[line]]!r} and look "
            f"{looks[place[line]]!r} (lines that repeat an earlier pair: {same.size}); each look at a unit needs one "
            "line. If they are different looks, tell them apart: number them, or add the time to the date."
        )
    starts = np.flatnonzero(np.diff(row[order], prepend=-1))
    chosen = _alignment(units, looks, len(frame)) if align == "auto" else align
    if chosen == "order":
        nth = np.empty(len(frame), dtype=np.intp)
        nth[order] = np.arange(len(frame)) - np.repeat(starts, np.diff(starts, append=len(frame)))
        place, looks = nth, list(range(1, int(nth.max()) + 2))
    return _Lines(row, place, units, looks, chosen, order[starts])


def _lines_too_many(row: Integers, place: Integers, line: int) -> int:
    return int(((row == row[line]) & (place == place[line])).sum())


def _alignment(units: list[Any], looks: list[Any], n_lines: int) -> str:
    """Return what looks are aligned by: names, and values that units share, mean the same for all units."""
    if len(looks) > _MOST_NAMED:
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
        one, two = column.said(int(lines.first[lines.row[line]])), column.said(line)
        units = np.unique(lines.row[other]).size
        raise ValueError(
            f"Attribute {name!r} differs within {lines.said(line)}: {one} and {two} (units like that: {units}). If it "
            "belongs to looks, name it in visit_attributes; if to nothing, leave it out: attributes=[...] says what "
            "to keep."
        )


def _spread(
    frame: LongFrame, lines: _Lines, visits: list[Any], s: Vector, taken: set[Any]
) -> tuple[dict[str, Vector], dict[str, list[str]]]:
    """Return a column for each visit attribute and look, and which belong to each visit attribute."""
    added: dict[str, Vector] = {}
    columns: dict[str, list[str]] = {}
    for name in visits:
        looked = ~np.isnan(s)
        wide = _placed(lines, np.where(looked, _numbers_of(frame, lines, name, looked), 0.0), fill=0.0)
        columns[str(name)] = [f"{name}_{k}" for k in range(1, lines.shape[1] + 1)]
        for called, values in zip(columns[str(name)], wide.T, strict=True):
            if called in taken or called in added:
                raise ValueError(
                    f"Visit attribute {name!r} needs a column {called!r}, and there is another one of that name; "
                    "rename one of them."
                )
            added[called] = np.ascontiguousarray(values)
    return added, columns


def _numbers_of(frame: LongFrame, lines: _Lines, name: Any, looked: Mask) -> Vector:
    """Return a visit attribute as floats, NaN where it is missing and no look took place."""
    column = frame.column(name)
    gone = np.flatnonzero(column.missing & looked)
    if gone.size:
        raise ValueError(
            f"Visit attribute {name!r} is missing in {gone.size} of {int(looked.sum())} looks that took place "
            f"(first: line {gone[0]}, {lines.said(int(gone[0]))}). Fill it in; if there was no look, leave its "
            "label missing."
        )
    if {*map(type, column.values)} <= {float} and np.isfinite(column.values).all():  # there may be many
        return column.replaced(column.values)
    return column.replaced([_number(value, name) for value in column.values])


def _number(value: Any, name: Any) -> float:
    """Return a number as a float; a text is none, even where it reads like one."""
    number = float(value) if isinstance(value, bool | np.bool_ | Decimal) else real_number(value)
    if np.isfinite(number):
        return number
    raise ValueError(
        f"Visit attribute {name!r} must hold finite numbers, and holds {shown(value)}. Encode it first, e.g. a column "
        "of 0 and 1 for each category but one, or days since some day."
    )
