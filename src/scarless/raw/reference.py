"""Reference rows: a coarse description of the rows of a fit, which the model file stores to detect drift later.

Every column is divided into bins: quantiles for numbers, categories for texts with few different values. Stored are the
edges of the bins and the number of rows in each bin. Single rows, texts with many different values, identifiers and
labels are not stored.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.attributes import names_of
from scarless.checks.labels import is_missing
from scarless.numerics.arrays import Vector
from scarless.numerics.two_samples import bin_sums
from scarless.raw.dates import read_dates

MAX_COLUMNS = 300  # described columns; the description needs less than 110 kB
N_BINS = 20  # bins of a number
MAX_LEVELS = 20  # a column of texts with more different values is described by its prepared numbers
MIN_LEVEL_ROWS = 5  # categories of fewer rows are pooled, so that no category describes a single person
MAX_LEVEL_CHARACTERS = 20_000  # of the names of all categories together
MAX_PREPARED = 3  # prepared columns by which a column of texts is described
NUMBER, CATEGORY, DATE, TEXT = "number", "category", "date", "text"
OTHER, MISSING = "other or new", "missing"
_DAY = np.timedelta64(1, "D")


class ReferenceColumn(NamedTuple):
    """Bins of one column."""

    name: str
    kind: str  # number, category, date, or text
    edges: Vector  # upper ends of all bins of a number but the last
    levels: tuple[str, ...]  # categories; others are pooled
    counts: Vector  # weight of the rows in each bin; the last bin is for missing values
    prepared: int = -1  # position of the prepared column that describes a text; -1 for other kinds

    @property
    def n_bins(self) -> int:
        """Number of bins, with the bin of missing values."""
        return int(self.counts.size)

    def names(self) -> list[str]:
        """Return the names of the bins."""
        if self.kind == CATEGORY:
            return [*self.levels, OTHER, MISSING]
        words = [f"{edge:.6g}" for edge in self.edges]
        if not words:
            return ["any value", MISSING]
        between = [f"{a} to {b}" for a, b in pairwise(words)]
        return [f"{words[0]} or less", *between, f"more than {words[-1]}", MISSING]


@dataclass(frozen=True, eq=False, repr=False)
class ReferenceRows:
    """Bins of the columns of a fit.

    The names of columns are not stored: `places` are positions among the columns of the model.
    """

    places: NDArray[np.int32]  # position of each described column
    columns: str  # JSON: kind, number of edges, categories and prepared column of each described column
    edges: Vector  # edges of all columns, one column after the other
    counts: NDArray[np.float32]  # weights of all bins, one column after the other
    n_rows: int
    n_effective: float  # number of rows with equal weights that would be as informative
    labelled: float  # share of rows with a label; -1 if it is unknown
    n_left_out: int = 0  # columns that are not described, because there are too many

    @cached_property
    def described(self) -> list[tuple[str, int, list[str], int]]:
        """Kind, number of edges, categories and prepared column of each described column."""
        return [(str(kind), int(n), list(levels), int(j)) for kind, n, levels, j in json.loads(self.columns)]

    def named(self, names: Sequence[str]) -> list[ReferenceColumn]:
        """Return the columns with their names, given the names of the columns of the model."""
        found, edge, count = [], 0, 0
        for place, (kind, n_edges, levels, prepared) in zip(self.places.tolist(), self.described, strict=True):
            n_bins = len(levels) + 2 if kind == CATEGORY else n_edges + 2
            edges = np.asarray(self.edges[edge : edge + n_edges], dtype=np.float64)
            counts = np.asarray(self.counts[count : count + n_bins], dtype=np.float64)
            found.append(ReferenceColumn(str(names[place]), kind, edges, tuple(levels), counts, prepared))
            edge, count = edge + n_edges, count + n_bins
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached properties."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def describe_rows(
    X: Any,
    *,
    prepared: Any = None,
    origins: Any = None,
    labelled: Any = None,
    weight: Vector | None = None,
    first: Sequence[str] = (),
) -> ReferenceRows:
    """Return the description of the rows of a fit.

    Parameters
    ----------
    X : data frame or array
        Columns of the model, before the preparation.
    prepared : data frame or array, optional
        Prepared columns, by which columns of texts are described.
    origins : list of Origin, optional
        Raw column of each prepared column.
    labelled : array of shape (n_rows,), optional
        Which rows have a label.
    weight : array of shape (n_rows,), optional
        Weight of each row; 1 by default.
    first : list of str
        Columns that are described first, if there are too many columns.

    Returns
    -------
    ReferenceRows
    """
    names, n_rows = _names(X), int(X.shape[0])
    w = np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
    order = sorted(range(len(names)), key=lambda j: names[j] not in set(first))
    places: list[int] = []
    found: list[ReferenceColumn] = []
    left_out, characters = 0, 0
    for place in order:
        if len(found) >= MAX_COLUMNS:
            left_out += 1
            continue
        allowed = MAX_LEVEL_CHARACTERS - characters
        for column in _describe(names[place], place, X, prepared, origins, w, allowed)[: MAX_COLUMNS - len(found)]:
            characters += sum(map(len, column.levels))
            counts = bin_sums(column_codes(column, X, place, prepared), w, column.n_bins)
            found.append(column._replace(counts=counts))
            places.append(place)
    text = json.dumps([[c.kind, int(c.edges.size), list(c.levels), c.prepared] for c in found], ensure_ascii=False)
    return ReferenceRows(
        places=np.asarray(places, dtype=np.int32),
        columns=text,
        edges=np.concatenate([np.empty(0), *(column.edges for column in found)]),
        counts=np.concatenate([np.empty(0), *(column.counts for column in found)]).astype(np.float32),
        n_rows=n_rows,
        n_effective=float(w.sum() ** 2 / max(float(w @ w), 1e-300)),
        labelled=-1.0 if labelled is None else float(w @ np.asarray(labelled, dtype=np.float64) / w.sum()),
        n_left_out=left_out,
    )


def _names(X: Any) -> list[str]:
    names = names_of(X)
    return [f"x{j}" for j in range(X.shape[1])] if names is None else [str(name) for name in names]


# --- kinds and bins


def _describe(
    name: str, place: int, X: Any, prepared: Any, origins: Any, w: Vector, allowed: int
) -> list[ReferenceColumn]:
    """Return the bins of a raw column; a column of texts may have several, or none if it was not prepared."""
    derived = [j for j, each in enumerate(origins or ()) if each.column == name]
    values = raw_values(X, place)
    numbers = as_numbers(values)
    if numbers is None and any(origins[j].date for j in derived):
        numbers = as_days(values)
        return [_with_edges(name, DATE, numbers, w)]
    if numbers is not None:
        return [_with_edges(name, DATE if values.dtype.kind == "M" else NUMBER, numbers, w)]
    words = _words(values)
    kinds, counts = np.unique(words[~_gaps(values)], return_counts=True)
    usual = [str(kind) for kind in kinds[counts >= MIN_LEVEL_ROWS]]
    if kinds.size <= MAX_LEVELS and sum(map(len, usual)) <= allowed:
        return [ReferenceColumn(name, CATEGORY, np.empty(0), tuple(usual), np.zeros(len(usual) + 2))]
    columns = []
    for j in derived[:MAX_PREPARED] if prepared is not None else ():
        numbers = as_numbers(raw_values(prepared, j))
        if numbers is not None:
            columns.append(_with_edges(name, TEXT, numbers, w)._replace(prepared=j))
    return columns


def _with_edges(name: str, kind: str, numbers: Vector, w: Vector) -> ReferenceColumn:
    there = np.isfinite(numbers) & (w > 0)
    edges = bin_edges(numbers[there], w[there])
    return ReferenceColumn(name, kind, edges, (), np.zeros(edges.size + 2))


def bin_edges(x: Vector, w: Vector) -> Vector:
    """Return the upper ends of bins with about equal weight, without the end of the last bin.

    Examples
    --------
    >>> bin_edges(np.array([0.0, 1.0, 1.0, 2.0]), np.ones(4))
    array([0., 1.])
    """
    if x.size == 0:
        return np.empty(0)
    values, place = np.unique(x, return_inverse=True)
    if values.size > N_BINS:
        n_bins = int(np.clip(x.size // MIN_LEVEL_ROWS, 2, N_BINS))
        share = np.cumsum(np.bincount(place, weights=w)) / w.sum()
        at = np.searchsorted(share, np.arange(1, n_bins) / n_bins - 1e-12)
        values = np.unique(values[np.append(at, values.size - 1)])
    return np.asarray(values[:-1], dtype=np.float64)


def column_codes(column: ReferenceColumn, X: Any, place: int, prepared: Any = None) -> NDArray[np.uint8]:
    """Return the bin of each row of a table."""
    missing = column.n_bins - 1
    if column.kind == CATEGORY:
        values = raw_values(X, place)
        known = {level: code for code, level in enumerate(column.levels)}
        other, gaps = len(column.levels), _gaps(values)
        codes = np.array([known.get(word, other) for word in _words(values).tolist()], dtype=np.uint8)
        return np.where(gaps, np.uint8(missing), codes).astype(np.uint8)
    values = raw_values(prepared, column.prepared) if column.kind == TEXT else raw_values(X, place)
    numbers = as_numbers(values)
    if numbers is None:
        numbers = as_days(values) if column.kind == DATE else np.full(values.shape[0], np.nan)
    places = np.searchsorted(column.edges, numbers, side="left")
    return np.where(np.isfinite(numbers), places, missing).astype(np.uint8)


def is_of_kind(column: ReferenceColumn, X: Any, place: int) -> bool:
    """Return whether a column of new rows has the kind that it had in the fit: numbers, texts or dates."""
    values = raw_values(X, place)
    if _gaps(values).all():
        return True
    numeric, is_date = as_numbers(values) is not None, values.dtype.kind == "M"
    if column.kind == DATE:
        return is_date or (not numeric and bool(np.isfinite(as_days(values)).any()))
    if column.kind == NUMBER:
        return numeric and not is_date
    return not is_date and (not numeric or column.kind == TEXT or any(_is_number(each) for each in column.levels))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- values


def raw_values(X: Any, place: int) -> NDArray[Any]:
    """Return a column of a table as an array."""
    if hasattr(X, "iloc"):
        values = X.iloc[:, place].to_numpy()
    elif hasattr(X, "get_column"):
        values = X.get_column(X.columns[place]).to_numpy()
    else:
        values = X.tocsc()[:, [place]].toarray()[:, 0] if hasattr(X, "tocsc") else np.asarray(X)[:, place]
    return np.asarray(values)


def as_numbers(values: NDArray[Any]) -> Vector | None:
    """Return numbers, and dates as days; None for texts and categories."""
    if values.dtype.kind in "fiu":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        return np.where(np.isnat(values), np.nan, (values - np.datetime64(0, "D")) / _DAY)
    if values.dtype.kind != "O":
        return None
    there = values[~is_missing(values)].tolist()
    if not there or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in there):
        return None
    numbers = np.full(values.size, np.nan)
    numbers[~is_missing(values)] = there
    return numbers


def as_days(values: NDArray[Any]) -> Vector:
    """Return dates, which may be written as text, as days; other texts are missing values."""
    import pandas as pd  # noqa: PLC0415 (the preparation of dates needs pandas too)

    read = read_dates(values)
    if read is None:
        dates = pd.to_datetime(pd.Series(values), errors="coerce", utc=True, format="mixed").dt.tz_localize(None)
    found = as_numbers(dates.to_numpy() if read is None else read.dates)
    assert found is not None
    return found


def _words(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as texts; whole numbers are written without a decimal point."""
    return np.array(
        [str(int(each)) if isinstance(each, float) and each.is_integer() else str(each) for each in values.tolist()],
        dtype=object,
    )


def _gaps(values: NDArray[Any]) -> NDArray[np.bool_]:
    gaps = is_missing(values)
    if values.dtype.kind in "OU":
        gaps = gaps | np.array([isinstance(each, str) and not each.strip() for each in values.tolist()], dtype=bool)
    return gaps


def code_matrix(reference: ReferenceRows, X: Any, prepared: Any = None) -> NDArray[np.uint8]:
    """Return the bins of new rows, a column for each described column."""
    columns = reference.named(_names(X))
    codes = [
        column_codes(column, X, place, prepared)
        for column, place in zip(columns, reference.places.tolist(), strict=True)
    ]
    return np.column_stack(codes) if codes else np.zeros((X.shape[0], 0), dtype=np.uint8)
