"""Columns of raw tables, one at a time: what is learned of one, and what numbers are made of it.

`Column` is the one description of a raw column after a fit. The preparation of tables in files is made of such; that of
tables in memory, by skrub, can be described by them (`scarless.raw.preparation`).
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Integers, Matrix, Vector
from scarless.outside.extras import need
from scarless.scale.columns import SCALE, PartitionError

NUMBER, DATE, LEVELS, EMPTY = "number", "date", "levels", "empty"
TEXT, WORDS = "text", "words"  # in memory only: many different texts, each output a number, or some words
MISSING, LOG = "missing", "log"  # pieces of a column, called so in models and reports too
LONG_TAIL = 2.0  # skewness; that of an exponential distribution
MOST_LEVELS = 40  # of text that is read as categories
# A number with more different values than this, among the first rows of a partition, is no code.
MOST_VALUES_OF_A_CODE, FIRST_ROWS = 40, 10_000
DATE_PARTS = ("year", "month", "day")
_WORDS = {NUMBER: "numbers", DATE: "dates", LEVELS: "text or categories"}
LARGEST_NUMBER = 1e100  # as for tables in memory


class Moments(NamedTuple):
    """Count, mean, sums of squares and cubes about the mean, range of numbers; two are joined without cancellation.

    Examples
    --------
    >>> joined = Moments.of(np.array([1.0, 2.0])).and_those(Moments.of(np.array([6.0])))
    >>> joined.n, joined.mean, joined.squares, joined.cubes
    (3, 3.0, 14.0, 18.0)
    """

    n: int
    mean: float
    squares: float
    least: float
    most: float
    cubes: float = 0.0

    @property
    def skewness(self) -> float:
        """Third standardised moment; 0 of what does not vary."""
        return float(np.sqrt(self.n) * self.cubes / self.squares**1.5) if self.squares > 0 else 0.0

    @classmethod
    def of(cls, values: Vector) -> "Moments":
        """Return those of some numbers."""
        if not values.size:
            return NONE
        mean = float(values.mean())
        apart = values - mean
        squared = apart * apart
        least, most = float(values.min()), float(values.max())
        return cls(values.size, mean, float(squared.sum()), least, most, float(squared @ apart))

    def and_those(self, other: "Moments") -> "Moments":
        """Return the moments of both together."""
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n, apart = self.n + other.n, other.mean - self.mean
        both, lopsided = self.n * other.n / n, (self.n - other.n) / n
        between = 3.0 * apart * (self.n * other.squares - other.n * self.squares) / n
        return Moments(
            n,
            self.mean + apart * other.n / n,
            self.squares + other.squares + apart**2 * both,
            min(self.least, other.least),
            max(self.most, other.most),
            self.cubes + other.cubes + apart**3 * both * lopsided + between,
        )


NONE = Moments(0, 0.0, 0.0, np.inf, -np.inf)


class Tail(NamedTuple):
    """Of a column with a long tail, how its logarithm is taken.

    `least` is the least value of the fit. `unit` counts where that is 0: in memory the median of what is above 0, in
    files the geometric mean of it (sums add up, medians do not).
    """

    least: float
    unit: float

    def logarithm(self, values: Vector) -> Vector:
        """Return the logarithm of numbers; of what is below the least that was seen, that of the least."""
        above = np.maximum(values, self.least)
        return np.asarray(np.log(above) if self.least > 0 else np.log1p(above / self.unit))

    @staticmethod
    def logarithms(values: Matrix, least: Vector, unit: Vector) -> Matrix:
        """Return the same of several columns at once."""
        above = np.maximum(values, least)
        with np.errstate(divide="ignore"):
            return np.where(least > 0, np.log(above), np.log1p(above / unit))


@dataclass(frozen=True)
class Facts:
    """What a pass tells of a column: how many rows, how many without a value, moments of parts, counts of levels."""

    kind: str
    where: str  # the first partition that it was seen in
    n_rows: int
    n_missing: int
    parts: tuple[Moments, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    many: bool = False  # levels, more than anyone wants
    logs: Moments = NONE  # of what is above 0, where nothing is below
    varied: bool = False  # whether a number takes many values

    @property
    def tail(self) -> Tail | None:
        """How the logarithm of a number is taken, where its tail is long."""
        if self.kind != NUMBER or not self.varied or not self.parts or self.parts[0].least < 0:
            return None
        if not self.parts[0].skewness > LONG_TAIL:
            return None
        return Tail(self.parts[0].least, float(np.exp(self.logs.mean)))

    def and_those(self, other: "Facts", name: str, max_categories: int) -> "Facts":
        """Return the facts of both together."""
        n_rows, n_missing = self.n_rows + other.n_rows, self.n_missing + other.n_missing
        if EMPTY in (self.kind, other.kind):
            return replace(other if self.kind == EMPTY else self, n_rows=n_rows, n_missing=n_missing)
        if self.kind != other.kind:
            raise PartitionError(
                f"{other.where}: the column {name!r} holds {_WORDS[other.kind]}, and {_WORDS[self.kind]} in "
                f"{self.where}. Write it in one way, or leave it out: ParquetRows(folder, columns=[...])."
            )
        parts = tuple(a.and_those(b) for a, b in zip(self.parts, other.parts, strict=True))
        counts = {level: self.counts.get(level, 0) + other.counts.get(level, 0) for level in self.counts | other.counts}
        many = self.many or other.many or len(counts) > max_categories
        return replace(
            self,
            parts=parts,
            counts={} if many else counts,
            many=many,
            n_rows=n_rows,
            n_missing=n_missing,
            logs=self.logs.and_those(other.logs),
            varied=self.varied or other.varied,
        )


class Output(NamedTuple):
    """A prepared column: ``(x - mean) / scale`` of a part of a raw one, or of whether it has a level, or none.

    In memory a later step centres and scales: the mean is 0 here and the scale 1, or NaN where an output has no unit.
    """

    name: str
    piece: str  # a level, a part of a date, MISSING, LOG, words; empty for the column itself
    code: int  # which part or level; behind the last of them: missing
    mean: float = 0.0
    scale: float = 1.0


class Column(NamedTuple):
    """What was learned of a raw column: how it is read, its levels and tail, and what is made of it."""

    name: str
    kind: str
    levels: tuple[str, ...]
    outputs: tuple[Output, ...]
    tail: Tail | None = None


def kind_of(kind: Any, name: str, where: str) -> str:
    """Return what a column of an Arrow type is read as."""
    types = need("pyarrow", "Preparing a table", SCALE).types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NUMBER
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        return LEVELS
    if types.is_timestamp(kind) or types.is_date(kind):
        return DATE
    if types.is_null(kind):
        return EMPTY
    raise PartitionError(
        f"{where}: the column {name!r} holds {kind}, of which no numbers are made. Leave it out: "
        "ParquetRows(folder, columns=[...])."
    )


def facts_of_column(column: Any, name: str, where: str, max_categories: int) -> Facts:
    """Return what one partition tells of a column."""
    kind, n = kind_of(column.type, name, where), len(column)
    if kind == EMPTY or column.null_count == n:
        return Facts(EMPTY, where, n, n)
    if kind == LEVELS:
        levels, codes = _level_codes(column)
        counts = np.bincount(codes, minlength=len(levels) + 1)
        used = np.flatnonzero(counts[: len(levels)])
        if used.size > max_categories:
            return Facts(kind, where, n, int(counts[-1]), many=True)
        found: dict[str, int] = {}
        for code in used:  # two values may read the same
            level = str(levels[code].as_py())
            found[level] = found.get(level, 0) + int(counts[code])
        return Facts(kind, where, n, int(counts[-1]), counts=found)
    parts = _parts(column, kind)
    _refuse_huge(parts, name, where)
    there = ~np.isnan(parts[0])
    parts = parts if there.all() else [part[there] for part in parts]
    facts = Facts(kind, where, n, n - int(there.sum()), parts=tuple(map(Moments.of, parts)))
    if kind != NUMBER or facts.parts[0].least < 0:
        return facts
    above = parts[0][parts[0] > 0]
    varied = np.unique(parts[0][:FIRST_ROWS]).size > MOST_VALUES_OF_A_CODE
    return replace(facts, logs=Moments.of(np.log(above)), varied=varied) if varied else facts


def tail_of_column(column: Any, tail: Tail) -> Moments:
    """Return the moments of a column's logarithm in one partition."""
    values = _floats(column)
    return Moments.of(tail.logarithm(values[~np.isnan(values)]))


def recipe_of(name: str, facts: Facts, logarithm: Moments | None = None) -> Column:
    """Return what is made of a column, once all of it was seen: nothing of what is the same in every row.

    `logarithm` has the moments of that of a column whose tail is long.
    """
    n, outputs = facts.n_rows, []
    levels = tuple(sorted(facts.counts))
    if facts.kind == LEVELS:
        counts = [facts.counts[level] for level in levels] + ([facts.n_missing] if facts.n_missing else [])
        first = 1 if len(counts) == 2 else 0  # of two, one says it all
        for code in range(first, len(counts) if len(counts) > 1 else 0):
            outputs.append(_indicator(name, levels[code] if code < len(levels) else MISSING, code, counts[code] / n))
        return Column(name, LEVELS, levels, tuple(outputs))
    pieces = DATE_PARTS if facts.kind == DATE else ("",) if logarithm is None else ("", LOG)
    parts = facts.parts if logarithm is None else (*facts.parts, logarithm)
    for code, (piece, part) in enumerate(zip(pieces, parts, strict=False)):
        scale = float(np.sqrt(part.squares / n))  # with gaps filled by the mean
        if part.most > part.least and scale > 0:
            outputs.append(Output(f"{name}_{piece}" if piece else name, piece, code, part.mean, scale))
    if 0 < facts.n_missing < n:
        indicator = _indicator(name, MISSING, len(pieces), facts.n_missing / n)
        outputs.append(indicator._replace(name=f"missingindicator_{name}"))
    return Column(name, facts.kind, (), tuple(outputs), None if logarithm is None else facts.tail)


def _indicator(name: str, piece: str, code: int, share: float) -> Output:
    return Output(f"{name}_{piece}", piece, code, share, float(np.sqrt(share * (1.0 - share))))


def fill(below: Any, recipe: Column, column: Any, where: str) -> None:
    """Write what is made of a column into rows of an array, one for each output."""
    if column.null_count == len(column):
        arrow = need("pyarrow", "Preparing a table", SCALE)
        column = arrow.chunked_array([arrow.nulls(len(column))])  # of whatever type
    kind = kind_of(column.type, recipe.name, where)
    if kind not in (recipe.kind, EMPTY):
        raise PartitionError(
            f"{where}: the column {recipe.name!r} holds {_WORDS[kind]}, and {_WORDS[recipe.kind]} when the preparation "
            "was fitted."
        )
    if recipe.kind == LEVELS:
        codes = _known_codes(column, recipe.levels)
        for row, output in zip(below, recipe.outputs, strict=True):
            values = np.full(len(recipe.levels) + 2, -output.mean / output.scale)
            values[output.code] = (1.0 - output.mean) / output.scale
            row[:] = values.astype(row.dtype)[codes]
        return
    parts = _parts(column, recipe.kind)
    _refuse_huge(parts, recipe.name, where)
    gaps = np.isnan(parts[0])
    if recipe.tail is not None:
        parts.append(recipe.tail.logarithm(parts[0]))
    for row, output in zip(below, recipe.outputs, strict=True):
        found = parts[output.code] if output.code < len(parts) else gaps
        row[:] = (found - output.mean) / output.scale
        if output.code < len(parts) and gaps.any():
            row[gaps] = 0.0  # the mean


def _refuse_huge(parts: list[Vector], name: str, where: str) -> None:
    """Raise where a number is infinite or beyond use, with its row."""
    for part in parts:
        if np.nanmax(np.abs(part), initial=0.0) > LARGEST_NUMBER:
            row = int(np.flatnonzero(np.abs(part) > LARGEST_NUMBER)[0])
            raise PartitionError(
                f"{where}: the column {name!r} holds {part[row]:g} in row {row + 1} (counted from 1), which is "
                "infinite or beyond 1e100. Correct the cell, leave it empty if the value is not known, or leave the "
                "column out."
            )


def _parts(column: Any, kind: str) -> list[Vector]:
    """Return numbers, or the parts of dates, NaN where there is none."""
    if kind == NUMBER:
        return [_floats(column)]
    compute, types = (need(name, "Preparing a table", SCALE) for name in ("pyarrow.compute", "pyarrow.types"))
    if types.is_null(column.type):
        return [_floats(column)] * len(DATE_PARTS)
    return [_floats(getattr(compute, part)(column)) for part in DATE_PARTS]


def _floats(column: Any) -> Vector:
    """Return a column in float64, NaN where there is nothing."""
    arrow = need("pyarrow", "Preparing a table", SCALE)
    if not arrow.types.is_floating(column.type):
        column = column.cast(arrow.float64(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _level_codes(column: Any) -> tuple[Any, Integers]:
    """Return the values of a column, and of each row the number of its own; missing is behind the last."""
    types = need("pyarrow", "Preparing a table", SCALE).types
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    found = column.unify_dictionaries().combine_chunks()
    levels = found.dictionary
    codes = np.asarray(found.indices.fill_null(len(levels)).to_numpy(zero_copy_only=False), dtype=np.intp)
    if levels.null_count:  # a dictionary that has no value among its values
        missing = np.asarray(levels.is_null().to_numpy(zero_copy_only=False))
        codes = np.append(np.where(missing, len(levels), np.arange(len(levels))), len(levels))[codes]
    return levels, codes


def _known_codes(column: Any, known: tuple[str, ...]) -> Integers:
    """Return the number of each row's level among the known; behind them: missing, and what was never seen."""
    types = need("pyarrow", "Preparing a table", SCALE).types
    if types.is_null(column.type):
        return np.full(len(column), len(known), dtype=np.intp)
    levels, codes = _level_codes(column)
    place = {level: code for code, level in enumerate(known)}
    unseen = len(known) + 1
    moved = [place.get(str(level), unseen) for level in levels.to_pylist()]
    return np.asarray([*moved, len(known)], dtype=np.intp)[codes]
