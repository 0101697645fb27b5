"""The label column as people write it: 1 and 0, yes and nothing, true and null, or a value of their own."""

import re
import unicodedata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.labels import NO, YES

ANY = "any"  # every value there is marks a labelled row: dates of a diagnosis, say
_SHOWN = 6  # values in a message
_WHOLE = re.compile(r"([+-]?\d+)\.0+", re.ASCII)


class LabelColumn(NamedTuple):
    """Which rows are labelled, and how that was read."""

    s: NDArray[np.int64]
    positive: tuple[str, ...]  # the values that mark a labelled row, as text; ANY for every value
    note: str  # in words, empty where nothing needs to be said


def read_labels(values: Any, name: str, *, positive: Any = None, rows: Any = None) -> LabelColumn:
    """Return which rows a label column marks.

    Parameters
    ----------
    values : pandas Series
        The label column. Missing values are no labels.
    name : str
        The column's name, for messages.
    positive : object or list of them, optional
        The value that marks a labelled row, or several; "any" for every value there is. Capital and small letters are
        alike, but for single letters that are no word for yes. None: found where it is clear.
    rows : array, optional
        How many rows have each of the values, where that is not one.

    Returns
    -------
    LabelColumn

    Examples
    --------
    >>> import pandas as pd
    >>> read_labels(pd.Series(["yes", None, "yes", ""]), "diagnosed").s
    array([1, 0, 1, 0])
    """
    text = as_text(values)
    counts = value_counts(text, rows)
    if counts.empty:
        raise ValueError(f"The label column {name!r} is empty: no row is labelled, so there is nothing to learn from.")
    marks = _marks(counts, name, positive)
    s = marked(text, marks)
    _refuse_one_kind(s, name, counts)
    notes = [told_of_spellings(counts, name, marks), _note(text, counts, name, marks, rows)]
    return LabelColumn(s.astype(np.int64), marks, " ".join(note for note in notes if note))


def as_text(values: Any) -> Any:
    """Return the values as text without blanks around, whole numbers without a point; missing ones are empty."""
    missing = values.isna().to_numpy()
    if values.dtype.kind in "fiub" and values.dtype.kind != "b":
        text = values.map(lambda value: f"{value:g}" if value == value else "")  # noqa: PLR0124 (NaN)
    else:
        text = values.astype(object).map(str).str.strip()
    return text.astype(object).where(~missing, "")


def folded(value: str) -> str:
    """Return a value as it is compared with others: no capital letters, one space between words, 1 for 1.0.

    Examples
    --------
    >>> folded("YES"), folded("1.0"), folded("Not  done")
    ('yes', '1', 'not done')
    """
    text = " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def spellings(value: str, known: Any) -> list[str]:
    """Return those of known values that are another spelling of one.

    A single letter that is no word for yes or no is itself only: `a` and `A` may be two things.

    Examples
    --------
    >>> spellings("yes", ["yes", "YES", "no"]), spellings("a", ["a", "A"])
    (['yes', 'YES'], ['a'])
    """
    word = folded(value)
    alike = [each for each in known if folded(each) == word]
    strict = len(word) == 1 and word.isalpha() and word not in YES | NO and value in alike
    return [value] if strict else alike


def marked(text: Any, marks: tuple[str, ...]) -> Any:
    """Return which rows have one of the values that mark a label, in any spelling."""
    if marks == (ANY,):
        return (text != "").to_numpy()
    known = [value for value in text.unique() if value != ""]
    return text.isin([value for mark in marks for value in spellings(mark, known)]).to_numpy()


def one_word(values: Any) -> bool:
    """Whether all values are spellings of one word."""
    values = list(values)
    return bool(values) and len(spellings(values[0], values)) == len(values)


def _marks(counts: Any, name: str, positive: Any) -> tuple[str, ...]:
    """Return the values that mark a labelled row."""
    known = list(counts.index)
    if positive is not None:
        return given_values(known, name, positive)
    yes = [value for value in known if folded(value) in YES]
    no = [value for value in known if folded(value) in NO]
    if one_word(known) and not no:
        return tuple(map(str, known))
    if one_word(yes) and one_word(no) and len(yes) + len(no) == len(known):
        return tuple(map(str, yes))
    what = "two values, and it is not clear which of them" if len(known) == 2 else f"{len(known)} values; which of them"
    if one_word(known):
        raise ValueError(
            f"The label column {name!r} has the one value {known[0]!r}, which reads as no label. If it marks the "
            f"labelled rows after all, say so: --positive {known[0]} (positive={known[0]!r})."
        )
    raise ValueError(
        f"The label column {name!r} has {what} marks a labelled row: {listed(counts)}. Say which: --positive VALUE "
        f"(positive=...), once for each, or --positive {ANY} if every value does and only empty cells are unlabelled."
    )


def given_values(known: list[str], name: str, positive: Any) -> tuple[str, ...]:
    """Return the values that the user says mark a label, in all spellings of the column."""
    given = [_as_said(each) for each in (positive if isinstance(positive, list | tuple) else [positive])]
    if ANY in given and ANY not in known:
        if len(given) > 1:
            raise ValueError(f"--positive {ANY} means every value of {name!r}; leave the others out.")
        return (ANY,)
    found: list[str] = []
    for text in given:
        same = spellings(text, known)
        if not same:
            shown = ", ".join(map(repr, known[:_SHOWN])) + (", ..." if len(known) > _SHOWN else "")
            raise ValueError(f"No row of the label column {name!r} has the value {text!r}; it has {shown}.")
        found += same
    return tuple(dict.fromkeys(found))


def _as_said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def told_of_spellings(counts: Any, name: str, marks: tuple[str, ...]) -> str:
    """Say which spellings are read as one value, and which are not although only capital letters differ."""
    if marks == (ANY,):
        return ""
    known = list(counts.index)
    others = [value for value in known if value not in marks]
    close = [value for value in others if folded(value) in map(folded, marks)]
    words = {folded(mark) for mark in marks}
    if close:
        return (
            f"In {name!r}, {', '.join(map(repr, marks))} marks a label, and {listed(counts[close])} does not, which "
            f"differs by a capital letter only. If both do, name both: --positive {marks[0]} --positive {close[0]}."
        )
    if len(words) < len(marks):
        return f"In {name!r}, {listed(counts[list(marks)])} are all read as a label."
    return ""


def _refuse_one_kind(s: Any, name: str, counts: Any) -> None:
    if s.all():
        raise ValueError(
            f"Every row is labelled: the label column {name!r} has {listed(counts)} and no row without a label. "
            "Unlabelled rows are needed too: the ones among which positives are to be found."
        )


def _note(text: Any, counts: Any, name: str, marks: tuple[str, ...], how_many: Any) -> str:
    empty = int(np.sum((text == "").to_numpy() * (1 if how_many is None else np.asarray(how_many))))
    if marks == (ANY,) or not empty or len(counts) == len(marks):
        return ""
    rows = f"{empty:,} rows" if empty > 1 else "1 row"
    taken = "are" if empty > 1 else "is"
    return f"{rows} with nothing in {name!r} {taken} taken for unlabelled, as those with another value."


def value_counts(text: Any, rows: Any = None) -> Any:
    """Return how many rows have each value that is not empty, the most frequent first; `rows` of each, if not one."""
    there = text[text != ""]
    if rows is None:
        return there.value_counts()
    counts = type(text)(rows, index=text.index)[text != ""]
    return counts.groupby(there).sum().sort_values(ascending=False, kind="stable")


def listed(counts: Any) -> str:
    """Return values with how many rows have each, for a sentence."""
    shown = [f"{value!r} ({number:,} rows)" for value, number in counts.head(_SHOWN).items()]
    return ", ".join(shown) + (", ..." if len(counts) > _SHOWN else "")
