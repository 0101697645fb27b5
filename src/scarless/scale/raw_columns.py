"""Columns of raw tables: their statistics from one pass, and the numeric columns derived from them.

`RawColumn` describes a raw column after a fit. The preparation of a table in files consists of such descriptions. They
can also describe the preparation of a table in memory (`scarless.raw.preparation`).
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Integers, Matrix, Vector
from scarless.outside.extras import need
from scarless.scale.columns import SCALE, PartitionError

# Kinds of columns. Model files contain these texts, so they must not change.
NUMBER, DATE, CATEGORIES, EMPTY = "number", "date", "levels", "empty"
# Kinds for tables in memory only: free text whose outputs are numbered (TEXT) or named by words (WORDS).
TEXT, WORDS = "text", "words"
MISSING, LOG = "missing", "log"  # names of outputs of a column; model files and reports contain them
LONG_TAIL_SKEW = 2.0  # skewness of an exponential distribution
MISSING_AS_TEXT = ("None", "nan", "<NA>", "NaT")  # str() of missing values
MAX_CATEGORIES = 40  # largest number of different texts in a column that is read as categories
# A column of numbers is treated as codes, and gets no logarithm, unless it has more than MAX_CODE_VALUES different
# values in the first CODE_ROWS rows of a partition.
MAX_CODE_VALUES, CODE_ROWS = 40, 10_000
DATE_PARTS = ("year", "month", "day")
_KIND_NAMES = {NUMBER: "numbers", DATE: "dates", CATEGORIES: "text or categories"}
MAX_NUMBER = 1e100  # largest allowed number, as for tables in memory


class ColumnMoments(NamedTuple):
    """Count, mean, sums of squared and cubed deviations from the mean, and range of numbers.

    The moments of two sets of numbers can be merged without loss of precision.

    Examples
    --------
    >>> merged = ColumnMoments.of(np.array([1.0, 2.0])).merged(ColumnMoments.of(np.array([6.0])))
    >>> merged.n, merged.mean, merged.squares, merged.cubes
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
        """Third standardised moment; 0 if all values are equal."""
        return float(np.sqrt(self.n) * self.cubes / self.squares**1.5) if self.squares > 0 else 0.0

    @classmethod
    def of(cls, values: Vector) -> "ColumnMoments":
        """Return the moments of some numbers."""
        if not values.size:
            return NO_VALUES
        mean = float(values.mean())
        centred = values - mean
        squared = centred * centred
        least, most = float(values.min()), float(values.max())
        return cls(values.size, mean, float(squared.sum()), least, most, float(squared @ centred))

    def merged(self, other: "ColumnMoments") -> "ColumnMoments":
        """Return the moments of both sets of numbers together."""
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n, gap = self.n + other.n, other.mean - self.mean
        weight, imbalance = self.n * other.n / n, (self.n - other.n) / n
        between = 3.0 * gap * (self.n * other.squares - other.n * self.squares) / n
        return ColumnMoments(
            n,
            self.mean + gap * other.n / n,
            self.squares + other.squares + gap**2 * weight,
            min(self.least, other.least),
            max(self.most, other.most),
            self.cubes + other.cubes + gap**3 * weight * imbalance + between,
        )


NO_VALUES = ColumnMoments(0, 0.0, 0.0, np.inf, -np.inf)


class Tail(NamedTuple):
    """Parameters of the logarithm of a column with a long tail.

    `unit` is used if the minimum is 0. In memory it is the median of the positive values. In files it is their
    geometric mean, which can be computed from sums over partitions, unlike the median.
    """

    least: float  # minimum in the fit
    unit: float

    def logarithm(self, values: Vector) -> Vector:
        """Return the logarithm of numbers; numbers below the minimum in the fit are replaced by this minimum."""
        raised = np.maximum(values, self.least)
        return np.asarray(np.log(raised) if self.least > 0 else np.log1p(raised / self.unit))

    @staticmethod
    def logarithms(values: Matrix, least: Vector, unit: Vector) -> Matrix:
        """Return the logarithms of several columns at once."""
        raised = np.maximum(values, least)
        with np.errstate(divide="ignore"):
            return np.where(least > 0, np.log(raised), np.log1p(raised / unit))


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of a raw column from one pass: counts of rows and missing values, moments, counts of categories."""

    kind: str
    where: str  # the first partition with this kind, for errors
    n_rows: int
    n_missing: int
    parts: tuple[ColumnMoments, ...] = ()  # moments of the numbers, or of the parts of dates
    counts: dict[str, int] = field(default_factory=dict)  # number of rows of each category
    many: bool = False  # whether there are more categories than allowed
    logs: ColumnMoments = NO_VALUES  # moments of the logarithms of the positive values, if none is negative
    varied: bool = False  # whether a column of numbers has many different values

    @property
    def tail(self) -> Tail | None:
        """Parameters of the logarithm, if the column has numbers with a long tail; otherwise None."""
        if self.kind != NUMBER or not self.varied or not self.parts or self.parts[0].least < 0:
            return None
        if not self.parts[0].skewness > LONG_TAIL_SKEW:
            return None
        return Tail(self.parts[0].least, float(np.exp(self.logs.mean)))

    def merged(self, other: "ColumnStatistics", name: str, max_categories: int) -> "ColumnStatistics":
        """Return the statistics of both sets of rows together."""
        n_rows, n_missing = self.n_rows + other.n_rows, self.n_missing + other.n_missing
        if EMPTY in (self.kind, other.kind):
            return replace(other if self.kind == EMPTY else self, n_rows=n_rows, n_missing=n_missing)
        if self.kind != other.kind:
            raise PartitionError(
                f"{other.where}: the column {name!r} holds {_KIND_NAMES[other.kind]}, but it holds "
                f"{_KIND_NAMES[self.kind]} in {self.where}. Write the same type to all files, or leave the column out: "
                "ParquetRows(folder, columns=[...])."
            )
        parts = tuple(a.merged(b) for a, b in zip(self.parts, other.parts, strict=True))
        counts = {each: self.counts.get(each, 0) + other.counts.get(each, 0) for each in self.counts | other.counts}
        many = self.many or other.many or len(counts) > max_categories
        return replace(
            self,
            parts=parts,
            counts={} if many else counts,
            many=many,
            n_rows=n_rows,
            n_missing=n_missing,
            logs=self.logs.merged(other.logs),
            varied=self.varied or other.varied,
        )


class Output(NamedTuple):
    """A prepared column: ``(x - mean) / scale``, where x is a number, a part of a date, a logarithm or an indicator.

    For tables in memory, a later step centres and scales the columns. The mean here is then 0, and the scale is 1, or
    NaN for an output without a unit, such as a component of free text.
    """

    name: str
    piece: str  # category, part of a date, MISSING, LOG or words; empty for the number itself
    code: int  # position of the part or category; the position after the last one is that of missing values
    mean: float = 0.0
    scale: float = 1.0


class RawColumn(NamedTuple):
    """Description of a raw column after a fit: its kind, its categories, and the columns derived from it."""

    name: str
    kind: str
    categories: tuple[str, ...]
    outputs: tuple[Output, ...]
    tail: Tail | None = None


def new_categories(X: Any, columns: list[RawColumn]) -> list[str]:
    """Return a text about each column of a data frame with categories, or empty cells, that the fit did not have.

    Examples
    --------
    >>> import pandas as pd
    >>> sex = RawColumn("sex", CATEGORIES, ("f", "m"), (Output("sex_m", "m", 1),))
    >>> new_categories(pd.DataFrame({"sex": ["f", None]}), [sex])[0]
    "Column 'sex' has 1 empty cell, but had none in the fit. A row with an empty cell is treated like a row with 'f'."
    """
    found = []
    for column in with_categories(columns):
        if column.name in X.columns:
            cells = X[column.name]
            gaps = cells.isna() if hasattr(cells, "isna") else cells.is_null()
            found += texts_about_new(column, {str(value) for value in list(cells.unique())}, int(gaps.sum()))
    return found


def with_categories(columns: list[RawColumn]) -> list[RawColumn]:
    """Return the columns of categories that are used."""
    return [column for column in columns if column.kind == CATEGORIES and column.outputs]


def texts_about_new(column: RawColumn, texts: set[str], n_missing: int) -> list[str]:
    """Return what is new in the texts and the empty cells of a column of categories."""
    known = [each for each in column.categories if each not in MISSING_AS_TEXT]
    had_gaps = len(known) < len(column.categories) or any(each.piece == MISSING for each in column.outputs)
    # If a category has no output, it is the first. A row without a known category then looks like a row with it.
    dropped = known[:1] if len(column.outputs) < len(known) + had_gaps else []
    like = f"like a row with {dropped[0]!r}" if dropped else "as having none of the known categories"
    new = sorted(texts - set(MISSING_AS_TEXT) - set(known))
    found = []
    if new:
        shown = ", ".join(map(repr, new[:3])) + (", ..." if len(new) > 3 else "")
        found.append(
            f"Column {column.name!r} has {len(new)} {'categories' if len(new) > 1 else 'category'} that "
            f"{'were' if len(new) > 1 else 'was'} not in the fit ({shown}). A row with a new category is treated "
            f"{like}."
        )
    if n_missing and not had_gaps:
        found.append(
            f"Column {column.name!r} has {n_missing:,} empty {'cell' if n_missing == 1 else 'cells'}, but had none in "
            f"the fit. A row with an empty cell is treated {like}."
        )
    return found


def kind_of(kind: Any, name: str, where: str) -> str:
    """Return the kind of a column from its Arrow type; raise an error if it cannot be turned into numbers."""
    types = need("pyarrow", "Preparing a table", SCALE).types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NUMBER
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        return CATEGORIES
    if types.is_timestamp(kind) or types.is_date(kind):
        return DATE
    if types.is_null(kind):
        return EMPTY
    raise PartitionError(
        f"{where}: the column {name!r} holds {kind}, which cannot be turned into numbers. Leave it out: "
        "ParquetRows(folder, columns=[...])."
    )


def column_statistics(column: Any, name: str, where: str, max_categories: int) -> ColumnStatistics:
    """Return the statistics of a column in one partition."""
    kind, n = kind_of(column.type, name, where), len(column)
    if kind == EMPTY or column.null_count == n:
        return ColumnStatistics(EMPTY, where, n, n)
    if kind == CATEGORIES:
        categories, codes = _category_codes(column)
        counts = np.bincount(codes, minlength=len(categories) + 1)
        used = np.flatnonzero(counts[: len(categories)])
        if used.size > max_categories:
            return ColumnStatistics(kind, where, n, int(counts[-1]), many=True)
        found: dict[str, int] = {}
        for code in used:  # Two values may have the same text.
            category = str(categories[code].as_py())
            found[category] = found.get(category, 0) + int(counts[code])
        return ColumnStatistics(kind, where, n, int(counts[-1]), counts=found)
    parts = _parts(column, kind)
    _refuse_huge(parts, name, where)
    present = ~np.isnan(parts[0])
    parts = parts if present.all() else [part[present] for part in parts]
    statistics = ColumnStatistics(kind, where, n, n - int(present.sum()), parts=tuple(map(ColumnMoments.of, parts)))
    if kind != NUMBER or statistics.parts[0].least < 0:
        return statistics
    positive = parts[0][parts[0] > 0]
    varied = np.unique(parts[0][:CODE_ROWS]).size > MAX_CODE_VALUES
    return replace(statistics, logs=ColumnMoments.of(np.log(positive)), varied=varied) if varied else statistics


def log_moments(column: Any, tail: Tail) -> ColumnMoments:
    """Return the moments of the logarithm of a column in one partition."""
    values = _floats(column)
    return ColumnMoments.of(tail.logarithm(values[~np.isnan(values)]))


def describe_column(name: str, statistics: ColumnStatistics, logarithm: ColumnMoments | None = None) -> RawColumn:
    """Return the description of a column, given the statistics of all rows; a constant column has no outputs.

    For a column with a long tail, `logarithm` has the moments of its logarithm.
    """
    n, outputs = statistics.n_rows, []
    categories = tuple(sorted(statistics.counts))
    if statistics.kind == CATEGORIES:
        counts = [statistics.counts[each] for each in categories] + (
            [statistics.n_missing] if statistics.n_missing else []
        )
        first = 1 if len(counts) == 2 else 0  # Two categories need only one column.
        for code in range(first, len(counts) if len(counts) > 1 else 0):
            piece = categories[code] if code < len(categories) else MISSING
            outputs.append(_indicator(name, piece, code, counts[code] / n))
        return RawColumn(name, CATEGORIES, categories, tuple(outputs))
    pieces = DATE_PARTS if statistics.kind == DATE else ("",) if logarithm is None else ("", LOG)
    parts = statistics.parts if logarithm is None else (*statistics.parts, logarithm)
    for code, (piece, part) in enumerate(zip(pieces, parts, strict=False)):
        scale = float(np.sqrt(part.squares / n))  # Missing values are filled with the mean, and add 0.
        if part.most > part.least and scale > 0:
            outputs.append(Output(f"{name}_{piece}" if piece else name, piece, code, part.mean, scale))
    if 0 < statistics.n_missing < n:
        indicator = _indicator(name, MISSING, len(pieces), statistics.n_missing / n)
        outputs.append(indicator._replace(name=f"missingindicator_{name}"))
    return RawColumn(name, statistics.kind, (), tuple(outputs), None if logarithm is None else statistics.tail)


def _indicator(name: str, piece: str, code: int, share: float) -> Output:
    return Output(f"{name}_{piece}", piece, code, share, float(np.sqrt(share * (1.0 - share))))


def fill_outputs(transposed: Any, described: RawColumn, column: Any, where: str) -> None:
    """Write the outputs of a column into the rows of an array, one row for each output."""
    if column.null_count == len(column):
        arrow = need("pyarrow", "Preparing a table", SCALE)
        column = arrow.chunked_array([arrow.nulls(len(column))])  # A column without values may have any type.
    kind = kind_of(column.type, described.name, where)
    if kind not in (described.kind, EMPTY):
        raise PartitionError(
            f"{where}: the column {described.name!r} must hold {_KIND_NAMES[described.kind]}, as in the fit; it holds "
            f"{_KIND_NAMES[kind]}. Write it with the type that it had in the fit."
        )
    if described.kind == CATEGORIES:
        codes = _known_codes(column, described.categories)
        for row, output in zip(transposed, described.outputs, strict=True):
            values = np.full(len(described.categories) + 2, -output.mean / output.scale)
            values[output.code] = (1.0 - output.mean) / output.scale
            row[:] = values.astype(row.dtype)[codes]
        return
    parts = _parts(column, described.kind)
    _refuse_huge(parts, described.name, where)
    gaps = np.isnan(parts[0])
    if described.tail is not None:
        parts.append(described.tail.logarithm(parts[0]))
    for row, output in zip(transposed, described.outputs, strict=True):
        found = parts[output.code] if output.code < len(parts) else gaps
        row[:] = (found - output.mean) / output.scale
        if output.code < len(parts) and gaps.any():
            row[gaps] = 0.0  # The mean of a standardised column is 0.


def _refuse_huge(parts: list[Vector], name: str, where: str) -> None:
    """Raise an error if a number is infinite or too large."""
    for part in parts:
        if np.nanmax(np.abs(part), initial=0.0) > MAX_NUMBER:
            row = int(np.flatnonzero(np.abs(part) > MAX_NUMBER)[0])
            raise PartitionError(
                f"{where}, row {row + 1} (counted from 1): the column {name!r} holds {part[row]:g}, but numbers must "
                "be finite and between -1e100 and 1e100. Correct the cell, leave it empty if the value is not known, "
                "or leave out the column."
            )


def _parts(column: Any, kind: str) -> list[Vector]:
    """Return the numbers, or the years, months and days of dates; missing values are NaN."""
    if kind == NUMBER:
        return [_floats(column)]
    compute, types = (need(name, "Preparing a table", SCALE) for name in ("pyarrow.compute", "pyarrow.types"))
    if types.is_null(column.type):
        return [_floats(column)] * len(DATE_PARTS)
    return [_floats(getattr(compute, part)(column)) for part in DATE_PARTS]


def _floats(column: Any) -> Vector:
    """Return a column in float64; missing values are NaN."""
    arrow = need("pyarrow", "Preparing a table", SCALE)
    if not arrow.types.is_floating(column.type):
        column = column.cast(arrow.float64(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _category_codes(column: Any) -> tuple[Any, Integers]:
    """Return the different values of a column, and the code of each row; missing values get an additional code."""
    types = need("pyarrow", "Preparing a table", SCALE).types
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    found = column.unify_dictionaries().combine_chunks()
    categories = found.dictionary
    codes = np.asarray(found.indices.fill_null(len(categories)).to_numpy(zero_copy_only=False), dtype=np.intp)
    if categories.null_count:  # A dictionary may contain a missing value.
        missing = np.asarray(categories.is_null().to_numpy(zero_copy_only=False))
        codes = np.append(np.where(missing, len(categories), np.arange(len(categories))), len(categories))[codes]
    return categories, codes


def _known_codes(column: Any, known: tuple[str, ...]) -> Integers:
    """Return the code of each row's category; the next two codes are for missing values and for new categories."""
    types = need("pyarrow", "Preparing a table", SCALE).types
    if types.is_null(column.type):
        return np.full(len(column), len(known), dtype=np.intp)
    categories, codes = _category_codes(column)
    place = {category: code for code, category in enumerate(known)}
    unseen = len(known) + 1
    moved = [place.get(str(each), unseen) for each in categories.to_pylist()]
    return np.asarray([*moved, len(known)], dtype=np.intp)[codes]
