"""Column selection by name, position, slice, mask, callable or polars selector, for all parameters that select columns.

A name that is not a column may be the name of an attribute that an encoder split into several columns. Encoders build
column names from the name of the attribute, a separator and a category: `sex` becomes ``sex_f`` or ``sex=f``, and the
year of `date` becomes ``date_year``. A ``ColumnTransformer`` adds the name of its step and ``__``: ``onehot__sex_f``,
``scale__age``. The name of an attribute therefore selects all columns of this form. These columns must share one step
and one separator. Whether a name is accepted depends on column names only, not on the rows:

- If two or more columns share a longer prefix (``age_group_old`` and ``age_group_young``, for `age`), they probably
  come from another attribute, and the name `age` is refused. Parts of dates and splines (``date_month_spline_00``) are
  exceptions.
- If the name is accepted but the values do not look encoded, for example because two of the columns are 1 in the same
  row, a warning lists the selected columns.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import make_column_selector

from scarless.checks.options import shown
from scarless.checks.tables import take_columns
from scarless.engines import has_own_engine
from scarless.numerics.arrays import Columns
from scarless.outside.notices import warn_user

_ADVICE_IF_EMPTY = {
    "propensity_attributes": ", or use None for a propensity that is the same for every row",
    "attributes": ", or use SCAR(c) for labels that depend on no attribute",
}
_SEPARATOR = re.compile(r"[\W_]")
_PART = (  # suffixes that encoders of dates and splines add to a name
    "(year|month|day|hour|minute|second|millisecond|microsecond|nanosecond|weekday|dayofweek|day_of_year|total_seconds"
    r"|total_time)(_(circular|spline)_\d+)?|sp_\d+"
)
_PARTS, _NUMBERED = re.compile(_PART), re.compile(rf"{_PART}|\d+")
_MAX_NAMES_SHOWN = 8  # names of columns in a message


class _SelectionTable(NamedTuple):
    """Table from which columns are selected."""

    X: Any
    n_columns: int
    names: list[Any] | None
    parameter: str  # name of the parameter in errors
    place: dict[Any, int]  # position of each name


def check_attributes(attributes: Any, X: Any, *, n_columns: int, names: Any, parameter: str) -> Columns:
    """Return the indices of the columns that `attributes` selects, in the table's order.

    Parameters
    ----------
    attributes : column selector
        A name or position (negative positions count from the end), or a list of these; a slice of names (the last name
        is included) or of positions; a boolean mask; a callable of `X` that returns one of these, such as
        scikit-learn's ``make_column_selector``; for a polars frame, a polars selector. The name of an encoded attribute
        selects all of its columns.
    X : table
        Table from which the columns are selected.
    n_columns : int
        Number of columns of `X`.
    names : sequence of str or None
        Names of the columns, if there are any.
    parameter : str
        Name of the parameter in errors.

    Examples
    --------
    >>> check_attributes(["b", -3], None, n_columns=3, names=["a", "b", "c"], parameter="attributes")
    array([0, 1])
    >>> check_attributes(slice(1, None), None, n_columns=3, names=None, parameter="attributes")
    array([1, 2])
    """
    return np.sort(select_columns(attributes, X, n_columns=n_columns, names=names, parameter=parameter))


def select_columns(attributes: Any, X: Any, *, n_columns: int, names: Any, parameter: str) -> Columns:
    """Return the indices of the selected columns in the order of `attributes`.

    Parameters that pair each column with a value need this order. Columns that are selected by a mask, by a set or by
    the name of an encoded attribute are in the order of the table.

    Examples
    --------
    >>> names = ["age", "sex_f", "sex_m"]
    >>> X = np.array([[30, 0, 1], [40, 1, 0]])
    >>> select_columns(["sex", "age"], X, n_columns=3, names=names, parameter="attributes")
    array([1, 2, 0])
    """
    known = None if names is None else list(names)
    table = _SelectionTable(X, n_columns, known, parameter, {name: j for j, name in enumerate(known or ())})
    given = check_selector(attributes, parameter)
    if callable(given):
        given = check_selector(_called(given, X, parameter), parameter)
    columns = _columns_of(given, table)
    if not columns:
        raise ValueError(_no_column(parameter))
    _refuse_duplicates(columns, parameter, names=known)
    return np.array(sorted(columns) if isinstance(given, Set) else columns, dtype=np.intp)


def _called(selector: Any, X: Any, parameter: str) -> Any:
    """Call a selector and return its selection; raise if `X` is not the data frame that the selector needs."""
    if isinstance(selector, make_column_selector) and not hasattr(X, "iloc"):
        raise ValueError(
            f"{parameter} is scikit-learn's make_column_selector, which needs a pandas data frame, but X is of type "
            f"{type(X).__name__}. Pass a pandas data frame, or select the columns by name or number."
        )
    return selector(X)


def check_selector(attributes: Any, parameter: str) -> Any:
    """Check a column selector without its table, and return it in a normal form, such as a tuple of names.

    Examples
    --------
    >>> check_selector("age", "attributes"), check_selector(np.array([0, -1]), "attributes")
    (('age',), (0, -1))
    >>> check_selector(slice(2), "attributes")
    slice(None, 2, None)
    """
    if isinstance(attributes, slice):
        return _check_slice(attributes, parameter)
    if callable(attributes) or _is_polars(attributes):
        return attributes
    if isinstance(attributes, str | bytes) or not np.iterable(attributes):
        return (_check_entry(attributes, parameter),)
    values = list(attributes)
    if values and all(isinstance(value, bool | np.bool_) for value in values) and not isinstance(attributes, Set):
        return _check_mask(values, getattr(attributes, "index", None), parameter)
    entries = [_check_entry(value, parameter) for value in values]
    if not entries:
        raise ValueError(_no_column(parameter))
    _refuse_duplicates([entry for entry in entries if not _is_polars(entry)], parameter)
    return frozenset(entries) if isinstance(attributes, Set) else tuple(entries)


def count_columns(selector: Any) -> tuple[int, bool]:
    """Return the smallest number of columns that a checked selector can select, and whether this number is exact.

    Examples
    --------
    >>> count_columns((0, -1)), count_columns((True, False, True)), count_columns(("age", "sex"))
    ((2, True), (2, True), (2, False))
    """
    if not isinstance(selector, tuple | frozenset):
        return 1, False
    if _is_mask(selector):
        return sum(selector), True
    return len(selector), all(isinstance(entry, int) for entry in selector)


def names_of(X: Any) -> list[Any] | None:
    """Return the names of the columns; None if the table has no text names.

    Examples
    --------
    >>> names_of(np.eye(2)) is None
    True
    """
    names = list(getattr(X, "columns", ()))
    return names if any(isinstance(name, str) for name in names) else None


def with_text_names(X: Any) -> Any:
    """Return a pandas data frame whose column names are text, which preparations and models require.

    Examples
    --------
    >>> import pandas as pd
    >>> list(with_text_names(pd.DataFrame({0: [1.0], "sex": ["f"]})).columns)
    ['0', 'sex']
    """
    names = list(X.columns)
    nameless = any(name is None or name != name for name in names)  # noqa: PLR0124 (NaN)
    if nameless or all(isinstance(name, str) for name in names):
        return X
    return X.set_axis([str(name) for name in names], axis=1)


def _is_polars(value: Any) -> bool:
    polars = sys.modules.get("polars")  # a selector exists only if polars was imported
    return polars is not None and isinstance(value, polars.Expr)


def _is_mask(selector: Any) -> bool:
    return isinstance(selector, tuple) and isinstance(selector[0], bool)


def _check_entry(value: Any, parameter: str) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    if _is_polars(value):
        return value
    raise ValueError(
        f"{parameter} must be names or column numbers, a slice, a mask, a callable or a polars selector; got "
        f"{shown(value)} of type {type(value).__name__}."
    )


def _check_mask(values: list[Any], index: Any, parameter: str) -> tuple[bool, ...] | frozenset[str]:
    """Return a mask as a tuple; for a pandas mask with text names, the set of selected names."""
    labels = [] if index is None or callable(index) else list(index)
    if not any(values):
        raise ValueError(_no_column(parameter))
    if labels and all(isinstance(label, str) for label in labels):
        return frozenset(label for label, value in zip(labels, values, strict=True) if value)
    return tuple(bool(value) for value in values)


def _check_slice(columns: slice, parameter: str) -> slice:
    for end, kind in ((columns.start, str | int), (columns.stop, str | int), (columns.step, int)):
        if end is not None and not isinstance(end, kind | np.integer):
            raise ValueError(
                f"{parameter}: a slice must begin and end with a name or a column number, and its step must be a whole "
                f"number; got {shown(end)}."
            )
    if columns.step == 0:
        raise ValueError(f"{parameter}: the step of a slice must not be 0. Leave the step out.")
    return columns


def _no_column(parameter: str) -> str:
    return f"{parameter} selects no column; select at least one{_ADVICE_IF_EMPTY.get(parameter, '')}."


def _refuse_duplicates(entries: Sequence[Any], parameter: str, names: Sequence[Any] | None = None) -> None:
    twice = [entry for entry, times in Counter(entries).items() if times > 1]
    if twice:
        called = twice if names is None else [names[j] for j in twice]
        raise ValueError(f"{parameter} must select each column only once. Selected more than once: {quoted(called)}.")


def _columns_of(given: Any, table: _SelectionTable) -> list[int]:
    if isinstance(given, slice):
        return _from_slice(given, table)
    if _is_polars(given):
        return _from_polars(given, table)
    if callable(given):
        raise ValueError(
            f"{table.parameter}: the callable must return names, column numbers, a slice or a mask; it returned "
            f"another callable, {shown(given)}."
        )
    if _is_mask(given):
        if len(given) != table.n_columns:
            raise ValueError(
                f"{table.parameter} is a mask of length {len(given)}, but X has {table.n_columns} columns. Give one "
                "value for each column."
            )
        return [j for j, chosen in enumerate(given) if chosen]
    families = _families([entry for entry in given if isinstance(entry, str)], table)
    columns: list[int] = []
    for entry in given:
        if isinstance(entry, str):
            columns += families[entry]
        else:
            columns += _from_polars(entry, table) if _is_polars(entry) else [_at(entry, table)]
    _warn_about_numbered_columns(given, table)
    return columns


def _families(entries: list[str], table: _SelectionTable) -> dict[str, list[int]]:
    """Return the columns that each name selects; a name does not select columns that a longer name selects."""
    found: dict[str, list[int]] = {}
    taken: set[int] = set()
    for entry in sorted(entries, key=len, reverse=True):
        found[entry] = _named(entry, table, frozenset(taken))
        if entry not in table.place:
            taken.update(found[entry])
    return found


def _named(name: str, table: _SelectionTable, taken: frozenset[int] = frozenset()) -> list[int]:
    """Return the column with this name, or the columns of the encoded attribute."""
    if table.names is None:
        raise ValueError(
            f"{table.parameter} names the column {name!r}, but X has no column names. Pass X as a DataFrame, or select "
            "columns by number. In a Pipeline, keep the names with pipeline.set_output(transform='pandas')."
        )
    if name in table.place:
        if table.names.count(name) > 1:
            raise ValueError(
                f"{table.parameter} names {name!r}, but {table.names.count(name)} columns of X have this name. Rename "
                "these columns, or give a column number."
            )
        return [table.place[name]]
    absent = f"{table.parameter} names {name!r}, which is not a column of X. "
    try:
        family = find_family(name, table.names, taken)
    except SeveralAttributes as error:
        raise ValueError(f"{absent}{error}") from None
    if family is None:
        raise ValueError(f"{absent}{nearest_name(name, table.names, table.X)}")
    warn_if_doubtful(family, table.X, table.names, table.parameter)
    return family.columns


def _at(position: int, table: _SelectionTable) -> int:
    n = table.n_columns
    if not -n <= position < n:
        raise ValueError(f"{table.parameter} selects column {position}, but columns of X are numbered 0 to {n - 1}.")
    return position % n


def _from_slice(columns: slice, table: _SelectionTable) -> list[int]:
    """Return the columns of a slice; a slice of names includes the last name."""
    start, stop, step = columns.start, columns.stop, columns.step
    backwards = step is not None and step < 0
    if isinstance(start, str):
        start = _named(start, table)[-1 if backwards else 0]
    if isinstance(stop, str):
        stop = (_named(stop, table)[0] - 1) if backwards else _named(stop, table)[-1] + 1
        stop = None if stop < 0 else stop
    return list(range(table.n_columns))[start:stop:step]


def _from_polars(selector: Any, table: _SelectionTable) -> list[int]:
    import polars as pl  # noqa: PLC0415
    import polars.selectors as cs  # noqa: PLC0415

    if not isinstance(table.X, pl.DataFrame):
        raise ValueError(
            f"{table.parameter} has a polars selector, which needs a polars DataFrame, but X is of type "
            f"{type(table.X).__name__}. Give names or column numbers."
        )
    try:
        chosen = cs.expand_selector(table.X, selector, strict=False)
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise ValueError(
            f"{table.parameter}: the polars expression {selector} is not a selection of columns of X: {error}. Use a "
            "selector, such as polars.selectors.starts_with('age'), or names."
        ) from error
    return [table.place[name] for name in chosen]


def _warn_about_numbered_columns(entries: Any, table: _SelectionTable) -> None:
    """Warn if a position is also the name of another column of a data frame."""
    labels = [] if has_own_engine(table.X) else list(getattr(table.X, "columns", ()))
    numbers = {label for label in labels if isinstance(label, int | np.integer) and not isinstance(label, bool)}
    for value in entries:
        if isinstance(value, int) and value in numbers and labels[value] != value:
            warn_user(
                f"{table.parameter}: the number {value} is a position, as in scikit-learn, and selects the column "
                f"named {labels[value]}. The column named {value} is at position {labels.index(value)}. To avoid "
                f"confusion, make the names text with X.rename(columns=str), and select '{labels[value]}' or "
                f"'{value}'.",
                UserWarning,
            )
            return


# --- columns of an encoded attribute


class Family(NamedTuple):
    """Columns of one encoded attribute."""

    name: str
    columns: list[int]
    categories: list[str]  # rest of each column name, after name and separator
    separator: str


class SeveralAttributes(ValueError):
    """Error for columns that share a prefix but seem to come from several attributes.

    `groups` has the columns of each of these attributes.
    """

    def __init__(self, groups: list[list[int]], names: Sequence[Any], longer: str = "") -> None:
        self.groups = groups
        super().__init__(_several([[names[j] for j in group] for group in groups], longer))


def find_family(name: str, names: Sequence[Any], taken: frozenset[int] = frozenset()) -> Family | None:
    """Return the columns of an encoded attribute; None if there are none.

    Parameters
    ----------
    name : str
        Name of the attribute before encoding.
    names : sequence
        Names of the columns.
    taken : set of int
        Columns that are already assigned to other attributes.

    Raises
    ------
    SeveralAttributes
        If the columns may come from more than one attribute.

    Examples
    --------
    >>> find_family("sex", ["age", "sex_f", "sex_m", "sexes"]).columns
    [1, 2]
    >>> find_family("age", ["scale__age", "scale__visits"]).columns
    [0]
    """
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for j, known in enumerate(names):
        match = _split(name, known) if j not in taken else None
        if match is not None:
            step, separator, category = match
            found.setdefault((step, separator), []).append((j, category))
    if not found:
        return None
    if len(found) > 1:
        raise SeveralAttributes([[j for j, _ in members] for members in found.values()], names)
    ((_, separator), members), *_ = found.items()
    family = Family(name, [j for j, _ in members], [category for _, category in members], separator)
    _refuse_longer_names(family, names)
    return family


def _split(name: str, known: Any) -> tuple[str, str, str] | None:
    """Return step, separator and category of a column; None if the column does not come from the attribute `name`."""
    if not isinstance(known, str) or not name:
        return None
    for start in _starts(known):
        rest = known[start + len(name) :]
        if known.startswith(name, start) and (not rest or _SEPARATOR.match(rest)):
            return known[:start], rest[:1], rest[1:]
    return None


def _starts(known: str) -> tuple[int, ...]:
    """Return the positions in a column name at which an attribute's name may begin: 0, or after the name of a step."""
    return (0, *(match.end() for match in re.finditer("__", known)))


def _longer_names(category: str, separator: str) -> Iterator[str]:
    """Yield the prefixes of a category that end before the separator of the family, or before an underscore."""
    separators = f"{separator}_"
    if _PARTS.fullmatch(category):
        return
    for at in range(1, len(category)):
        before, after = category[:at].strip(separators), category[at + 1 :].strip(separators)
        if category[at] in separators and before and after:
            yield category[:at]


def _refuse_longer_names(family: Family, names: Sequence[Any]) -> None:
    beginnings = [list(_longer_names(category, family.separator)) for category in family.categories]
    shared = Counter(beginning for each in beginnings for beginning in each)
    groups: dict[str, list[int]] = {}
    for j, each in zip(family.columns, beginnings, strict=True):
        longer = next((beginning for beginning in each if shared[beginning] > 1), "")
        groups.setdefault(longer, []).append(j)
    longer = next((each for each in groups if each), "")
    if longer:
        raise SeveralAttributes(list(groups.values()), names, f"{family.name}{family.separator}{longer}")


def _several(groups: list[list[Any]], longer: str = "") -> str:
    seen = "; ".join(quoted(group) for group in groups)
    if len(groups) == 1:
        return f"Did you mean {longer!r} (columns {seen})? If not, name the columns, or select them by a mask."
    example = f" {longer!r} selects only the columns that begin with {longer!r}." if longer else ""
    return (
        "Columns that begin with this name seem to come from several attributes: "
        f"{seen}. Give full column names, or select the columns by a slice or a mask.{example}"
    )


def quoted(names: Sequence[Any]) -> str:
    """Return names in quotes for a message; if there are many, only the first few.

    Examples
    --------
    >>> quoted(["a", "b"])
    "'a', 'b'"
    """
    more = ", ..." if len(names) > _MAX_NAMES_SHOWN else ""
    return ", ".join(repr(name) for name in names[:_MAX_NAMES_SHOWN]) + more


def warn_if_doubtful(family: Family, X: Any, names: Sequence[Any], parameter: str) -> None:
    """Warn if a name selected columns whose values do not look like the output of an encoder."""
    if not family.separator or all(_NUMBERED.fullmatch(category) for category in family.categories):
        return
    most, fewest = _most_and_fewest(X, family.columns)
    plain = not any(family.separator in category.strip(family.separator) for category in family.categories)
    if most <= 1 and (plain or fewest == 1):
        return
    one = len(family.columns) == 1
    warn_user(
        f"{parameter} names {family.name!r}, which is not a column of X. The name selects "
        f"{'the column' if one else 'all columns'} of the form {family.name}{family.separator}...: "
        f"{quoted([names[j] for j in family.columns])}. "
        f"{'This column may belong to another attribute' if one else 'These may come from several attributes'}. To "
        "avoid this warning, give full column names.",
        UserWarning,
    )


def _most_and_fewest(X: Any, columns: Sequence[int]) -> tuple[float, float]:
    """Count, in each row, the columns at the higher of their two values; return the largest and the smallest count.

    The largest count is infinite if a column has more than two values, or values that are not numeric.
    """
    if X is None or has_own_engine(X):  # reading all values of a table in files would take too long
        return np.inf, 0.0
    at_top = np.zeros(X.shape[0])
    for j in columns:
        try:
            values = np.asarray(take_columns(X, [j]), dtype=np.float64)[:, 0]
        except (TypeError, ValueError):
            return np.inf, 0
        low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
        if not ((values == low) | (values == high)).all():
            return np.inf, 0
        at_top += (values == high) & ((low < high) | (high == 1))
    return float(at_top.max(initial=0.0)), float(at_top.min(initial=np.inf))


def nearest_name(name: Any, names: Sequence[Any], X: Any = None) -> str:
    """Return a hint for the name of a column that does not exist.

    The hint suggests a column or an encoded attribute, but never the column of a single category.

    Examples
    --------
    >>> nearest_name("Agge", ["age", "visits"])
    "Did you mean 'age'?"
    >>> nearest_name("income", ["age", "visits"])
    "The columns are 'age', 'visits'."
    >>> nearest_name("sex_n", ["age", "sex_f", "sex_m"])
    "Did you mean 'sex' (columns 'sex_f', 'sex_m')?"
    """
    words = {str(word).lower(): word for word in (*_beginnings(names), *names)}
    for near in get_close_matches(str(name).lower(), words, n=6):
        word = words[near]
        raw, columns = _attribute_of(word, names, X)
        if columns:
            listed = quoted([names[j] for j in columns])
            return f"Did you mean {raw!r} (columns {listed})?" if raw else f"Did you mean the columns {listed}?"
        if word in names:
            return f"Did you mean {word!r}?"
    return f"The columns are {quoted(names)}."


def _beginnings(names: Sequence[Any]) -> list[str]:
    """Return prefixes, up to a separator, that two or more columns share, with and without the name of a step."""
    count: Counter[str] = Counter()
    for known in names:
        bare = [known[start:] for start in _starts(known)] if isinstance(known, str) else []
        count.update({each[: match.start()] for each in bare for match in _SEPARATOR.finditer(each)})
    return [beginning for beginning, times in count.items() if times > 1 and beginning]


def _attribute_of(word: Any, names: Sequence[Any], X: Any) -> tuple[str, list[int]]:
    """Return the name and the columns of the attribute that a word refers to.

    The word is the name of an attribute, or of a column for one category of an attribute. If it is neither, no columns
    are returned. If the name of the attribute is ambiguous, it is returned as an empty string.
    """
    if word not in names:
        groups = _groups_of(word, names)
        return word, groups[0] if len(groups) == 1 else []
    place = list(names).index(word)
    bare = [str(word)[start:] for start in _starts(str(word))]
    for raw in sorted((each[: m.start()] for each in bare for m in _SEPARATOR.finditer(each)), key=len, reverse=True):
        groups = [] if raw in names else _groups_of(raw, names)
        group = next((group for group in groups if place in group), [])
        if len(group) > 1 and (X is None or _most_and_fewest(X, group)[0] <= 1):
            return raw if len(groups) == 1 else "", group
    return "", []


def _groups_of(name: str, names: Sequence[Any]) -> list[list[int]]:
    """Return the columns that begin with a name, in groups by the attributes that they seem to come from."""
    try:
        family = find_family(name, names)
    except SeveralAttributes as error:
        return error.groups if len(error.groups) > 1 else []
    return [] if family is None else [family.columns]
