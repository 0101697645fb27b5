"""Groups of rows: the categories of a column, bins of a number, pairs of columns, or groups that the user passes."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.attributes import check_attributes, names_of
from scarless.checks.labels import same_value
from scarless.checks.options import check_whole, shown
from scarless.checks.rows import count_rows, warn_about_row_order
from scarless.checks.tables import table_array, take_columns
from scarless.engines import has_own_engine, open_rows
from scarless.engines.base import NullableColumn, known_rows, on_device
from scarless.engines.blocks import Distinct
from scarless.numerics.arrays import Integers, Vector
from scarless.outside.notices import listed, warn_user

MAX_CATEGORIES = 12  # a column of numbers with more different values is divided into bins
MIN_ROWS = 5  # smaller groups are pooled, so that a table of groups does not describe single persons
MAX_GROUPS = 200  # a table with more groups is not readable, and its column is probably an identifier
MISSING, OTHER = "missing", "other"


class UnusableGroups(ValueError):
    """Error: the groups of a column cannot be compared; `by` is the column."""

    def __init__(self, by: str, message: str) -> None:
        super().__init__(f"by: {by!r} {message}")
        self.by = by


class Grouping(NamedTuple):
    """A division of all rows into groups."""

    by: str  # name of the column, or of the pair of columns
    names: tuple[str, ...]  # names of the groups
    codes: Integers  # group of each row; at most four bytes each, because tables in files may have very many rows
    pooled: int = 0  # number of small groups that were pooled

    @property
    def n_rows(self) -> Integers:
        """Number of rows of each group."""
        return np.bincount(self.codes, minlength=len(self.names))


def group_rows(X: Any, by: Any, *, n_bins: int = 4) -> list[Grouping]:
    """Divide the rows of a table into groups, once for each entry of `by`.

    Parameters
    ----------
    X : table
        Rows to divide.
    by : str, int, tuple of two columns, array of shape (n_rows,), or a list of these
        A column of `X`, a pair of columns, or the group of each row.
    n_bins : int, default=4
        Number of bins with about equally many rows, for a column of numbers with more than 12 different values.

    Returns
    -------
    list of Grouping

    Examples
    --------
    >>> X = np.array([[1.0, 0.0]] * 5 + [[2.0, 0.0]] * 6)
    >>> [found] = group_rows(X, 0)
    >>> found.by, found.names, found.n_rows.tolist()
    ('x0', ('1', '2'), [5, 6])
    """
    X = table_array(X) if isinstance(X, list | tuple) else X
    if not has_own_engine(X) and len(getattr(X, "shape", ())) != 2:
        raise TypeError(f"X must be a table with rows and columns; got {shown(X)}.")
    n_bins, n_rows = check_whole(n_bins, "n_bins", at_least=2), count_rows(X)
    entries = list(by) if isinstance(by, list) else [by]
    if not entries:
        raise ValueError("by is empty. Name at least one column, or pass the group of each row as an array.")
    found = [_grouping(X, each, n_rows, n_bins) for each in entries]
    doubled = [each.by for k, each in enumerate(found) if each.by in {other.by for other in found[:k]}]
    if doubled:
        raise ValueError(f"by contains {doubled[0]!r} twice. Name each column once, and give each Series its own name.")
    return found


def _grouping(X: Any, by: Any, n_rows: int, n_bins: int) -> Grouping:
    if isinstance(by, tuple):
        if len(by) != 2:
            raise ValueError(f"by: a tuple must name two columns, whose groups are combined; got {len(by)} entries.")
        first, second = (_grouping(X, each, n_rows, n_bins) for each in by)
        return _pooled(f"{first.by} and {second.by}", *_crossed(first, second))
    if isinstance(by, str | int | np.integer) and not isinstance(by, bool):
        if has_columns_in_files(X):
            return _pooled(*_groups_in_files(X, by, n_bins))
        name, values = _column(X, by)
    else:
        name, values = _own_values(X, by, n_rows)
    return _pooled(name, *_groups_of(values, n_bins))


def _own_values(X: Any, by: Any, n_rows: int) -> tuple[str, Any]:
    """Return the name and the values of groups that the user passes."""
    if not hasattr(by, "__len__") or isinstance(by, dict):
        raise TypeError(
            "by must be a column of X, a pair of columns as a tuple, an array with the group of each row, or a list of "
            f"these; got {shown(by)}."
        )
    values = by.to_numpy() if hasattr(by, "to_numpy") else np.asarray(by)
    if values.shape != (n_rows,):
        raise ValueError(
            f"by: an array must have one group for each of the {n_rows:,} rows; got the shape {values.shape}. To "
            "group by columns of X, pass their names as a list."
        )
    warn_about_row_order(X, by=by)
    name = getattr(by, "name", None)
    return ("group" if name is None else str(name)), values


def has_columns_in_files(X: Any) -> bool:
    """Return whether `X` is a table in files or on a cluster whose columns can be read one by one."""
    return has_own_engine(X) and not on_device(X) and hasattr(known_rows(X), "select")


def _groups_in_files(X: Any, column: Any, n_bins: int) -> tuple[str, list[str], Integers]:
    """Return the name of a column, the names of its groups, and the group of each row.

    Text is converted to group numbers by the workers, so that the texts of all rows are never in memory at once.
    """
    table = known_rows(X)
    if not isinstance(column, str):
        names = list(table.column_names)
        [place] = check_attributes([column], X, n_columns=len(names), names=names, parameter="by")
        column = names[place]
        if not getattr(table, "has_names", True):  # a Dask array
            return column, *_groups_of(open_rows(table).collect(_block_attribute, place), n_bins)
    engine = open_rows(table.select([]), NullableColumn(column))
    numeric, found = engine.total(_block_texts)
    if numeric or found.values.size >= Distinct.most:
        return column, *_groups_of(engine.collect(_block_values), n_bins)  # bins need the quantiles of all rows
    names, codes = found.values.tolist(), engine.collect(_block_places, found.values)
    return column, [*names, MISSING] if (codes == len(names)).any() else names, codes


def _block_texts(X: Any, rows: Any) -> tuple[float, Distinct]:
    """Return how many numbers or dates a block has, and the distinct texts of a block without them."""
    values = _block_values(X, rows)
    present = _plain(values[~_is_gap(values)])
    if present.dtype.kind in "fiuM":
        return float(present.size), Distinct(np.empty(0, dtype=str))
    return 0.0, Distinct(np.unique(_texts(present))[: Distinct.most])


def _block_places(X: Any, rows: Any, names: Any) -> Integers:
    """Return the place of each text among `names`; missing values get the number of names."""
    values = _block_values(X, rows)
    missing, codes = _is_gap(values), np.full(values.size, names.size, dtype=np.int32)
    codes[~missing] = np.searchsorted(names, _texts(values[~missing]))
    return codes


def _block_values(X: Any, rows: Any) -> Any:
    """Return the values of a column; a block with only missing values has NaN, whatever its type."""
    values = np.asarray(rows["y"])
    empty = values.dtype.kind == "O" and bool(_is_gap(values).all())
    return np.full(values.size, np.nan) if empty else values


def _block_attribute(X: Any, rows: Any, place: int) -> Any:
    return np.asarray(X)[:, place]


def _is_gap(values: Any) -> Any:
    """Return which values are missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.size, dtype=bool)
    return np.array([each is None or not same_value(each, each) for each in values.tolist()], dtype=bool)


def _plain(values: Any) -> Any:
    """Return objects as numbers or dates if all of them are: columns with missing values are often objects."""
    if values.dtype.kind != "O":
        return values
    kinds = {type(each) for each in values.tolist()}
    if all(issubclass(kind, int | float | Decimal | np.number) and kind is not bool for kind in kinds):
        return values.astype(np.float64)
    if kinds and all(issubclass(kind, date) for kind in kinds):
        return np.array([np.datetime64(each.strftime("%Y-%m-%d")) for each in values.tolist()], dtype="datetime64[D]")
    return values


def _texts(values: Any) -> Any:
    return np.array([str(each) for each in values.tolist()], dtype=str) if values.dtype.kind != "U" else values


def _column(X: Any, column: Any) -> tuple[str, Any]:
    names = names_of(X)
    [place] = check_attributes([column], X, n_columns=X.shape[1], names=names, parameter="by")
    if hasattr(X, "iloc"):
        values = X.iloc[:, place].to_numpy()
    elif hasattr(X, "get_column"):
        values = X.get_column(X.columns[place]).to_numpy()
    else:
        chosen = take_columns(X, [place])
        values = (chosen.toarray() if hasattr(chosen, "toarray") else chosen)[:, 0]
    return (f"x{place}" if names is None else str(names[place])), values


def _groups_of(values: Any, n_bins: int) -> tuple[list[str], Integers]:
    """Return the names of the groups of one column, and the group of each row; missing values are the last group."""
    missing = _is_gap(values)
    present = _plain(values[~missing])
    if not present.size:
        names: list[str] = []
        codes: Integers = np.empty(0, dtype=np.intp)
    elif present.dtype.kind in "fiu":
        names, codes = _groups_of_numbers(present.astype(np.float64), n_bins)
    elif present.dtype.kind == "M":
        names, codes = _groups_of_dates(present.astype("datetime64[D]"), n_bins)
    else:
        kinds, codes = np.unique(_texts(present), return_inverse=True)
        names = kinds.tolist()
    every = np.full(missing.size, len(names), dtype=np.int32)
    every[~missing] = codes
    return [*names, MISSING] if missing.any() else names, every


def _groups_of_numbers(x: Vector, n_bins: int) -> tuple[list[str], Integers]:
    different, codes = np.unique(x, return_inverse=True)
    if different.size <= MAX_CATEGORIES:
        return _neighbours_joined(different, codes)
    edges = _edges(x, n_bins)
    codes = np.searchsorted(edges, x, side="left")
    if bool((np.isfinite(different) & (different == np.floor(different))).all()):
        ends, starts = [f"{edge:.0f}" for edge in edges], [f"{edge + 1:.0f}" for edge in edges]
        between = [a if a == b else f"{a} to {b}" for a, b in zip(starts, ends[1:], strict=False)]
        return [f"{ends[0]} or less", *between, f"{starts[-1]} or more"], codes
    return _ranges(_distinct(edges), "{} or less", "above {}"), codes


def _groups_of_dates(days: Any, n_bins: int) -> tuple[list[str], Integers]:
    numbers = days.astype(np.float64)
    if np.unique(numbers).size <= MAX_CATEGORIES:
        kinds, codes = np.unique(days, return_inverse=True)
        return [str(each) for each in kinds], codes
    edges = _edges(numbers, n_bins)
    words = [str(each) for each in edges.astype("datetime64[D]")]
    return _ranges(words, "{} or earlier", "after {}"), np.searchsorted(edges, numbers, side="left")


def _edges(x: Vector, n_bins: int) -> Vector:
    """Return the upper ends of all bins but the last."""
    edges = np.unique(np.quantile(x, np.linspace(0, 1, n_bins + 1)[1:-1], method="higher"))
    return edges[edges < x.max()] if edges[0] < x.max() else np.array([np.unique(x)[-2]])


def _ranges(ends: list[str], first: str, last: str) -> list[str]:
    between = [f"{last.format(a)} to {b}" for a, b in pairwise(ends)]
    return [first.format(ends[0]), *between, last.format(ends[-1])]


def _neighbours_joined(different: Vector, codes: Integers) -> tuple[list[str], Integers]:
    """Return a group for each number; a number of fewer than 5 rows joins the next numbers, or the last group."""
    sizes, groups, last = np.bincount(codes, minlength=different.size), [], 0
    for j in range(different.size):
        if sizes[last : j + 1].sum() >= MIN_ROWS:
            groups.append((last, j))
            last = j + 1
    if last < different.size:
        groups = [*groups[:-1], (groups[-1][0] if groups else 0, different.size - 1)]
    words = [f"{each:.10g}" for each in different]
    names = [words[a] if a == b else f"{words[a]} to {words[b]}" for a, b in groups]
    place = np.repeat(np.arange(len(groups)), [b - a + 1 for a, b in groups])
    return names, place[codes]


def _distinct(edges: Vector) -> list[str]:
    """Return numbers as text with as few digits as keep them apart, and at least three."""
    for digits in range(3, 18):
        words = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(words)) == len(words):
            return words
    return [repr(float(edge)) for edge in edges]


def _crossed(first: Grouping, second: Grouping) -> tuple[list[str], Integers]:
    """Return the groups of two columns together; combinations without rows are left out."""
    both = first.codes * len(second.names) + second.codes
    seen, codes = np.unique(both, return_inverse=True)
    pairs = (divmod(int(each), len(second.names)) for each in seen)
    return [f"{first.names[a]}, {second.names[b]}" for a, b in pairs], codes


def _pooled(by: str, names: Sequence[str], codes: Integers) -> Grouping:
    """Return the groups, with groups of fewer than 5 rows pooled.

    If the pooled group is still too small, the smallest other group joins it.
    """
    sizes = np.bincount(codes, minlength=len(names))
    small = sizes < MIN_ROWS
    if not small.any():
        return _checked(Grouping(by, tuple(names), codes))
    order = np.argsort(sizes, kind="stable")
    if small.sum() == len(names) or sizes[small].sum() < MIN_ROWS:
        taken = np.cumsum(sizes[order]) - sizes[order] < MIN_ROWS
        small[order[taken]] = True
    kept = np.flatnonzero(~small)
    place = np.full(len(names), kept.size, dtype=np.intp)
    place[kept] = np.arange(kept.size)
    label = OTHER
    while label in {names[j] for j in kept.tolist()}:
        label += " groups"
    return _checked(Grouping(by, (*(names[j] for j in kept.tolist()), label), place[codes], int(small.sum())))


def _checked(found: Grouping) -> Grouping:
    if len(found.names) > MAX_GROUPS:
        raise UnusableGroups(
            found.by,
            f"has {len(found.names):,} groups of at least {MIN_ROWS} rows; at most {MAX_GROUPS} are allowed. Pass an "
            "array with fewer groups, for example regions instead of places.",
        )
    if len(found.names) < 2:
        why = f"all groups have fewer than {MIN_ROWS} rows" if found.pooled else "every row is in the same group"
        warn_user(f"by: {found.by!r} has only one group, {listed(found.names)}: {why}.", UserWarning)
    return found
