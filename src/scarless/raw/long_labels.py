"""Labels and answers of audits in a column of a long table -> 1, 0 or missing."""

from typing import Any

import numpy as np

from scarless.checks.label_words import yes_or_no
from scarless.checks.options import shown
from scarless.numerics.arrays import Integers, Vector
from scarless.raw.long_frames import Column


def labels_of(column: Column, name: Any, pos_label: Any) -> tuple[Vector, list[Any]]:
    """Return 1, 0 or NaN for each line, and the values that there are."""
    values = column.values
    if not values:
        raise ValueError(f"Column {name!r} (label) is missing in every line; at least one look must have taken place.")
    words = yes_or_no(values) if pos_label is None else None
    if words is not None:
        return column.replaced(words), values
    if len(values) > 2:
        raise ValueError(
            f"Column {name!r} (label) must hold two values, labelled and not; it has {len(values)}: {_listed(values)}. "
            "Where a look did not take place the label must be missing."
        )
    if pos_label is None and not _is_binary(values):
        raise ValueError(
            f"Column {name!r} (label) holds {_listed(values)}, and which means labelled is not said; pass pos_label=, "
            "or code labels as 1 and 0, or yes and no."
        )
    if pos_label is not None and len(values) == 2 and not _among(pos_label, values):
        raise ValueError(f"pos_label={shown(pos_label)} is not among the labels {_listed(values)} of column {name!r}.")
    return _coded_by(column, 1 if pos_label is None else pos_label), values


def audit_of(
    column: Column, name: Any, *, row: Integers, units: list[Any], labels: list[Any], pos_label: Any
) -> Vector:
    """Return the true class of units where one of their lines says it, NaN elsewhere; `row` is each line's unit."""
    values = column.values
    as_labels = pos_label is not None and all(_among(value, [*labels, pos_label]) for value in values)
    words = None if as_labels else yes_or_no(values)
    if not as_labels and words is None and not _is_binary(values):
        raise ValueError(
            f"Column {name!r} (audit) must hold 1, 0 or nothing, yes or no, or the values of the labels; it holds "
            f"{_listed(values)}."
        )
    found = _coded_by(column, pos_label if as_labels else 1) if words is None else column.replaced(words)
    count = [np.bincount(row[found == y], minlength=len(units)) for y in (0.0, 1.0)]
    both = np.flatnonzero((count[0] > 0) & (count[1] > 0))
    if both.size:
        raise ValueError(
            f"Column {name!r} (audit) contradicts itself: lines of unit {units[both[0]]!r} say both classes "
            f"(units like that: {both.size}). A unit has one true class; settle it, or leave it missing."
        )
    return np.where(count[1] > 0, 1.0, np.where(count[0] > 0, 0.0, np.nan))


def _coded_by(column: Column, positive: Any) -> Vector:
    return column.replaced([_same(value, positive) for value in column.values])


def _same(value: Any, other: Any) -> bool:
    equal = value == other
    return isinstance(equal, bool | np.bool_) and bool(equal)


def _among(value: Any, values: list[Any]) -> bool:
    return any(_same(other, value) for other in values)


def _is_binary(values: list[Any]) -> bool:
    return all(_among(value, [0, 1]) for value in values)


def _listed(values: list[Any]) -> str:
    return ", ".join(shown(value) for value in values[:5]) + ", ..." * (len(values) > 5)
