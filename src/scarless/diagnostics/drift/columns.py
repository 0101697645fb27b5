"""Which columns moved: new rows compared with the rows of the fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.diagnostics.scar._pair_tests import SIGNIFICANT
from scarless.numerics import two_samples
from scarless.numerics.arrays import Vector
from scarless.numerics.label_tests import holm
from scarless.raw.reference import (
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    ReferenceColumn,
    ReferenceRows,
    as_numbers,
    code_matrix,
    is_of_kind,
    raw_values,
)

#: A column moved if its distribution changed by more than chance and its distance (Kolmogorov-Smirnov for numbers,
#: total variation for categories) is at least 0.1. A normal column has this distance if its mean changes by a quarter
#: of a standard deviation. With a million rows, much smaller changes are significant, but hardly change predictions.
#: By judgement.
MOVED_DISTANCE = 0.1
#: Factors between two units of a quantity, such as pounds and kilograms (2.2), feet and metres (3.28), days and weeks,
#: inches and feet, mg/dL and mmol/L of glucose (18), minutes and hours, grams and milligrams. By judgement.
UNIT_FACTORS = (
    *(2.2046, 2.54, 3.2808, 3.6, 7.0, 10.0, 12.0, 18.0, 24.0, 28.35, 30.44, 60.0, 88.4, 100.0, 365.25, 453.6),
    *(1000.0, 1440.0, 3600.0, 1e6),
)
#: The unit of a column seems to have changed if a factor leaves at most a quarter of its distance. By judgement:
#: another season or other patients rarely multiply all quantiles by one number.
SAME_AFTER_FACTOR = 0.25
_ROUNDING = 1e-3  # relative error of factors and of rounded numbers
_MIN_EDGES = 3  # a column with fewer has no range outside of which numbers can lie


class ColumnShift(NamedTuple):
    """Change of the distribution of one column."""

    name: str
    kind: str  # number, category or text
    distance: float  # between the distributions of old and new rows, from 0 to 1
    p_value: float
    p_adjusted: float  # adjusted by Holm's method for the number of columns
    missing_old: float  # share of missing values
    missing_new: float
    change: str  # largest change in words
    factor: float = 1.0  # by which the numbers seem to be larger because of another unit
    low: float = np.nan  # range of a number in the fit, without about a twentieth of the rows at each end
    high: float = np.nan
    outside: float = 0.0  # share of rows farther outside this range than it is wide, less the share of the fit there

    @property
    def moved(self) -> bool:
        """Whether the column moved: by more than chance, and by a distance that matters."""
        return self.p_adjusted < SIGNIFICANT and self.distance >= MOVED_DISTANCE

    @property
    def far(self) -> bool:
        """Whether so many rows are far outside the range of the fit that the column would have moved by them alone."""
        return self.moved and self.outside >= MOVED_DISTANCE


@dataclass(frozen=True, eq=False)
class ColumnShifts:
    """Changes of all columns."""

    columns: tuple[ColumnShift, ...]  # the largest distance first
    n_old: int
    n_new: int
    wrong_types: tuple[str, ...]  # columns whose values have another type than in the fit
    notes: tuple[str, ...]

    @property
    def moved(self) -> list[ColumnShift]:
        """The columns that moved."""
        return [each for each in self.columns if each.moved]

    @property
    def other_units(self) -> list[ColumnShift]:
        """The columns whose numbers seem to have another unit than in the fit."""
        return [each for each in self.columns if each.moved and each.factor != 1.0]

    @property
    def far(self) -> list[ColumnShift]:
        """The columns in which many rows are far outside the range of the fit."""
        return [each for each in self.columns if each.far]


def compare_columns(reference: ReferenceRows, X: Any, names: Sequence[str], prepared: Any, w: Vector) -> ColumnShifts:
    """Compare the columns of new rows with the reference rows of a fit."""
    described, codes = reference.named(names), code_matrix(reference, X, prepared)
    n_new = float(w.sum() ** 2 / (w @ w))
    places = reference.places.tolist()
    found = []
    for j, column in enumerate(described):
        if column.kind != DATE:
            shift = _shift(column, codes[:, j], w, reference.n_effective, n_new)
            found.append(_with_range(shift, column, X, places[j], w) if column.kind == NUMBER else shift)
    merged = _one_for_each_name(found)
    adjusted = holm(np.array([each.p_value for each in merged]))
    columns = sorted(
        (each._replace(p_adjusted=float(p)) for each, p in zip(merged, adjusted, strict=True)),
        key=lambda each: (not each.moved, -each.distance),
    )
    wrong = [each.name for each, place in zip(described, places, strict=True) if not is_of_kind(each, X, place)]
    notes = _notes(reference, described, wrong, codes)
    return ColumnShifts(tuple(columns), reference.n_rows, len(w), tuple(wrong), notes)


def _shift(column: ReferenceColumn, codes: NDArray[np.uint8], w: Vector, n_old: float, n_new: float) -> ColumnShift:
    """Compare the bins of old and new rows; the last bin is for missing values."""
    old, new = column.counts, two_samples.bin_sums(codes, w, column.n_bins)
    missing = old[-1] / old.sum(), new[-1] / new.sum()
    scaled = old * n_old / old.sum(), new * n_new / new.sum()
    if column.kind == CATEGORY:
        distance, p = two_samples.total_variation(old, new), two_samples.homogeneity_p_value(*scaled)
    else:
        distance = two_samples.ks_distance(old[:-1], new[:-1])
        p_values = two_samples.ks_p_value(distance, scaled[0][:-1].sum(), scaled[1][:-1].sum())
        gaps = [np.array([each[-1], each[:-1].sum()]) for each in scaled]
        p = min(2.0 * min(p_values, two_samples.homogeneity_p_value(*gaps)), 1.0)
        distance = max(distance, abs(missing[1] - missing[0]))
    change = _change(column, old, new, missing)
    return ColumnShift(column.name, column.kind, distance, p, p, float(missing[0]), float(missing[1]), change)


def _change(column: ReferenceColumn, old: Vector, new: Vector, missing: tuple[float, float]) -> str:
    """Return the largest change in words."""
    gap = missing[1] - missing[0]
    before, after = old / old.sum(), new / new.sum()
    if column.kind == CATEGORY or column.edges.size < 2:
        j = int(np.argmax(np.abs(after - before)))
        return f"{column.names()[j]}: {before[j]:.0%} then, {after[j]:.0%} now"
    if abs(gap) >= two_samples.ks_distance(old[:-1], new[:-1]):
        return f"missing: {missing[0]:.0%} then, {missing[1]:.0%} now"
    if column.kind == TEXT:
        return "the texts differ"
    return f"median {_median(column, old)} then, {_median(column, new)} now"


def _median(column: ReferenceColumn, counts: Vector) -> str:
    """Return the median, interpolated between the edges of its bin; the outermost bins have only one edge."""
    share = np.cumsum(counts[:-1])[:-1] / max(counts[:-1].sum(), 1e-300)  # of the rows below each edge
    if share[0] > 0.5:
        return f"below {column.edges[0]:.4g}"
    if share[-1] < 0.5:
        return f"above {column.edges[-1]:.4g}"
    return f"about {np.interp(0.5, share, column.edges):.4g}"


def _one_for_each_name(found: list[ColumnShift]) -> list[ColumnShift]:
    """Return one entry for each raw column: of several prepared columns of a text, the one that moved most."""
    names = list(dict.fromkeys(each.name for each in found))
    merged = []
    for name in names:
        own = [each for each in found if each.name == name]
        p = min(len(own) * min(each.p_value for each in own), 1.0)
        merged.append(max(own, key=lambda each: each.distance)._replace(p_value=p, p_adjusted=p))
    return merged


def _with_range(shift: ColumnShift, column: ReferenceColumn, X: Any, place: int, w: Vector) -> ColumnShift:
    """Return the change of a column of numbers, with its unit and the share of rows far outside the range."""
    numbers = as_numbers(raw_values(X, place))
    there = np.zeros(w.size, dtype=bool) if numbers is None else np.isfinite(numbers)
    if shift.distance < MOVED_DISTANCE or column.edges.size < _MIN_EDGES or not w[there].sum() > 0:
        return shift
    assert numbers is not None
    factor = _unit_factor(column, numbers[there], w[there])
    if factor != 1.0:
        return shift._replace(factor=factor, change=in_words(factor))
    low, high = float(column.edges[0]), float(column.edges[-1])
    before = column.counts[:-1] / column.counts[:-1].sum()
    x, own = numbers[there], w[there] / w[there].sum()
    at_ends = own @ (x < 2.0 * low - high) - before[0], own @ (x > 2.0 * high - low) - before[-1]
    return shift._replace(low=low, high=high, outside=float(sum(max(share, 0.0) for share in at_ends)))


def in_words(factor: float) -> str:
    """Return how the numbers of a column changed.

    Examples
    --------
    >>> in_words(1000.0), in_words(1 / 3.2808)
    ('about 1,000 times larger than in the fit', 'about 3.28 times smaller than in the fit')
    """
    size = max(factor, 1.0 / factor)
    number = f"{size:,.0f}" if size >= 100 else f"{size:.3g}"
    return f"about {number} times {'larger' if factor > 1.0 else 'smaller'} than in the fit"


def _unit_factor(column: ReferenceColumn, x: Vector, w: Vector) -> float:
    """Return the factor between two units that explains the change of a column; 1.0 if none does."""
    order = np.argsort(x)
    values, below = x[order], np.append(0.0, np.cumsum(w[order]) / w.sum())
    share = np.cumsum(column.counts[:-1])[:-1] / column.counts[:-1].sum()

    def distance(factor: float) -> float:
        ends = factor * column.edges
        at = np.searchsorted(values, ends + _ROUNDING * np.abs(ends), side="right")
        return float(np.abs(below[at] - share).max())

    best = min((factor for each in UNIT_FACTORS for factor in (each, 1.0 / each)), key=distance)
    return best if distance(best) <= SAME_AFTER_FACTOR * distance(1.0) else 1.0


def _notes(
    reference: ReferenceRows,
    columns: list[ReferenceColumn],
    wrong: list[str],
    codes: NDArray[np.uint8],
) -> tuple[str, ...]:
    notes = []
    for j, column in enumerate(columns):
        if column.name in wrong:
            was = {CATEGORY: "categories", DATE: "dates", TEXT: "texts"}.get(column.kind, "numbers")
            notes.append(
                f"Column {column.name!r} held {was} in the fit, but these rows have values of another type. The model "
                "treats these values as unknown. Correct the column, or fit a new model."
            )
        elif (codes[:, j] == column.n_bins - 1).all() and column.counts[-1] < 0.99 * column.counts.sum():
            notes.append(f"Column {column.name!r} has no values in these rows.")
    dates = [column.name for column in columns if column.kind == DATE]
    if dates:
        notes.append(
            f"Dates are not compared, because new rows usually have new dates: {', '.join(dict.fromkeys(dates))}. The "
            "model extrapolates the effect of dates that are later than those of the fit."
        )
    if reference.n_left_out:
        notes.append(
            f"{reference.n_left_out:,} columns are not compared: the model file describes at most "
            f"{reference.places.size:,} columns."
        )
    return tuple(notes)
