"""Names of attributes as they were before encoding: which columns of a table an encoder made of one.

An encoder calls what it makes of `sex` by that name, a separator and a level: ``sex_f``, ``sex=f``, ``date_year``;
a ``ColumnTransformer`` puts the name of its step and ``__`` in front: ``onehot__sex_f``, ``scale__age``. So a raw name
stands for all columns of that form, provided that they share step and separator. By their names alone it is decided
whether that may be wrong, so that the same columns give the same answer whatever the rows:

- Two columns or more that share a longer beginning (``age_group_old`` and ``age_group_young``, for `age`) are taken to
  come from another attribute, and the raw name is refused. Dates and splines have such names by themselves
  (``date_month_spline_00``) and are no other attribute.
- Where names leave no doubt and the values do (columns that do not exclude each other), a note says what was taken.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.tables import take_columns
from scarless.engines import has_own_engine
from scarless.outside.notices import warn_user

_SEPARATOR = re.compile(r"[\W_]")
_PART = (  # what encoders of dates and splines put behind a name, all of it without another attribute's name
    "(year|month|day|hour|minute|second|millisecond|microsecond|nanosecond|weekday|dayofweek|day_of_year|total_seconds"
    r"|total_time)(_(circular|spline)_\d+)?|sp_\d+"
)
_PARTS, _NUMBERED = re.compile(_PART), re.compile(rf"{_PART}|\d+")
_MOST = 8  # names in a message


class Family(NamedTuple):
    """Columns that one attribute was encoded to."""

    name: str
    columns: list[int]
    levels: list[str]  # what follows name and separator
    separator: str


class SeveralAttributes(ValueError):
    """Columns that begin with a raw name, and seem to come from more than one attribute: one group for each."""

    def __init__(self, groups: list[list[int]], names: Sequence[Any], longer: str = "") -> None:
        self.groups = groups
        super().__init__(_several([[names[j] for j in group] for group in groups], longer))


def find_family(name: str, names: Sequence[Any], taken: frozenset[int] = frozenset()) -> Family | None:
    """Return the columns that an encoder made of an attribute, None where there are none.

    Parameters
    ----------
    name : str
        The attribute's name before encoding.
    names : sequence
        Names of the columns.
    taken : set of int
        Columns that are known to come from other attributes.

    Raises
    ------
    SeveralAttributes
        Where the columns may be those of more than one attribute.

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
            step, separator, level = match
            found.setdefault((step, separator), []).append((j, level))
    if not found:
        return None
    if len(found) > 1:
        raise SeveralAttributes([[j for j, _ in members] for members in found.values()], names)
    ((_, separator), members), *_ = found.items()
    family = Family(name, [j for j, _ in members], [level for _, level in members], separator)
    _refuse_longer_names(family, names)
    return family


def _split(name: str, known: Any) -> tuple[str, str, str] | None:
    """Return step, separator and level of a column, None where it does not come from the attribute."""
    if not isinstance(known, str) or not name:
        return None
    for start in _starts(known):
        rest = known[start + len(name) :]
        if known.startswith(name, start) and (not rest or _SEPARATOR.match(rest)):
            return known[:start], rest[:1], rest[1:]
    return None


def _starts(known: str) -> tuple[int, ...]:
    """Return where an attribute's name may begin: at once, or behind the name of a step."""
    return (0, *(match.end() for match in re.finditer("__", known)))


def _longer_names(level: str, separator: str) -> Iterator[str]:
    """Yield the beginnings of a level that end before a separator, the family's or the one that is most in use."""
    separators = f"{separator}_"
    if _PARTS.fullmatch(level):
        return
    for at in range(1, len(level)):
        before, after = level[:at].strip(separators), level[at + 1 :].strip(separators)
        if level[at] in separators and before and after:
            yield level[:at]


def _refuse_longer_names(family: Family, names: Sequence[Any]) -> None:
    beginnings = [list(_longer_names(level, family.separator)) for level in family.levels]
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
        return f"Did you mean {longer!r} (its columns {seen})? If not, name the columns, or select them by a mask."
    example = f" {longer!r} alone stands for its own." if longer else ""
    return (
        "Columns that begin with it seem to come from more than one attribute: "
        f"{seen}. Name the columns that are meant, or select them by a slice or a mask.{example}"
    )


def quoted(names: Sequence[Any]) -> str:
    """Return names for a message, the first few of many.

    Examples
    --------
    >>> quoted(["a", "b"])
    "'a', 'b'"
    """
    return ", ".join(repr(name) for name in names[:_MOST]) + (", ..." if len(names) > _MOST else "")


def tell_doubtful(family: Family, X: Any, names: Sequence[Any], parameter: str) -> None:
    """Note what a raw name was taken for, where the values do not look like an encoder's."""
    if not family.separator or all(_NUMBERED.fullmatch(level) for level in family.levels):
        return
    most, fewest = _most_and_fewest(X, family.columns)
    plain = not any(family.separator in level.strip(family.separator) for level in family.levels)
    if most <= 1 and (plain or fewest == 1):
        return
    one = len(family.columns) == 1
    warn_user(
        f"{parameter} names {family.name!r}, which is not a column of X, and takes it for "
        f"{'the column' if one else 'all columns'} whose name begins so: "
        f"{quoted([names[j] for j in family.columns])}. Names and values leave open whether that is one attribute: "
        "name the columns that are meant.",
        UserWarning,
    )


def _most_and_fewest(X: Any, columns: Sequence[int]) -> tuple[float, float]:
    """Return how many columns of two values each are at the upper one, in the rows where most and fewest are.

    The first is infinite where a column has more than two values, or none that can be compared.
    """
    if X is None or has_own_engine(X):  # nobody looks at values for a name
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
    """Return what to tell someone who named a column that is not there; never one level of a category.

    Examples
    --------
    >>> nearest_name("Agge", ["age", "visits"])
    "Did you mean 'age'?"
    >>> nearest_name("income", ["age", "visits"])
    "Its columns are 'age', 'visits'."
    >>> nearest_name("sex_n", ["age", "sex_f", "sex_m"])
    "Did you mean 'sex' (its columns 'sex_f', 'sex_m')?"
    """
    words = {str(word).lower(): word for word in (*_beginnings(names), *names)}
    for near in get_close_matches(str(name).lower(), words, n=6):
        word = words[near]
        raw, columns = _attribute_of(word, names, X)
        if columns:
            listed = quoted([names[j] for j in columns])
            return f"Did you mean {raw!r} (its columns {listed})?" if raw else f"Did you mean all of {listed}?"
        if word in names:
            return f"Did you mean {word!r}?"
    return f"Its columns are {quoted(names)}."


def _beginnings(names: Sequence[Any]) -> list[str]:
    """Return what two columns or more begin with, up to a separator, with and without the name of a step."""
    count: Counter[str] = Counter()
    for known in names:
        bare = [known[start:] for start in _starts(known)] if isinstance(known, str) else []
        count.update({each[: match.start()] for each in bare for match in _SEPARATOR.finditer(each)})
    return [beginning for beginning, times in count.items() if times > 1 and beginning]


def _attribute_of(word: Any, names: Sequence[Any], X: Any) -> tuple[str, list[int]]:
    """Return the attribute that a word names, or that a column of that name is a level of; no columns: neither.

    Columns without a name are levels of an attribute whose name would be taken for that of others too.
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
    """Return the columns that begin with a raw name, one group for each attribute that they seem to come from."""
    try:
        family = find_family(name, names)
    except SeveralAttributes as error:
        return error.groups if len(error.groups) > 1 else []
    return [] if family is None else [family.columns]
