"""The label column as people write it: 1 and 0, yes and nothing, true and null, or a value of their own."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ANY = "any"  # every value there is marks a labelled row: dates of a diagnosis, say
YES = frozenset({"1", "1.0", "yes", "y", "true", "t", "positive", "pos", "case", "labelled", "labeled", "x"})
NO = frozenset(
    {"0", "0.0", "-1", "-1.0", "no", "n", "false", "f", "negative", "neg", "control", "unlabelled", "unlabeled"}
)
_SHOWN = 6  # values in a message


class LabelColumn(NamedTuple):
    """Which rows are labelled, and how that was read."""

    s: NDArray[np.int64]
    positive: Any  # the value that marks a labelled row, as text; ANY for every value
    note: str  # in words, empty where nothing needs to be said


def read_labels(values: Any, name: str, *, positive: Any = None, rows: Any = None) -> LabelColumn:
    """Return which rows a label column marks.

    Parameters
    ----------
    values : pandas Series
        The label column. Missing values are no labels.
    name : str
        The column's name, for messages.
    positive : object, optional
        The value that marks a labelled row; "any" for every value there is. None: found where it is clear.
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
    s = (text != "").to_numpy() if marks == ANY else (text == marks).to_numpy()
    _refuse_one_kind(s, name, marks, counts)
    return LabelColumn(s.astype(np.int64), marks, _note(text, counts, name, marks, rows))


def as_text(values: Any) -> Any:
    """Return the values as text without blanks around, whole numbers without a point; missing ones are empty."""
    missing = values.isna().to_numpy()
    if values.dtype.kind in "fiub" and values.dtype.kind != "b":
        text = values.map(lambda value: f"{value:g}" if value == value else "")  # noqa: PLR0124 (NaN)
    else:
        text = values.astype(object).map(str).str.strip()
    return text.astype(object).where(~missing, "")


def _marks(counts: Any, name: str, positive: Any) -> str:
    """Return the value that marks a labelled row."""
    known = list(counts.index)
    if positive is not None:
        return given_value(known, name, positive)
    folded = {value: value.casefold() for value in known}
    if len(known) == 1 and folded[known[0]] not in NO:
        return str(known[0])
    yes = [value for value in known if folded[value] in YES]
    if len(known) == 2 and len(yes) == 1 and all(folded[value] in NO for value in known if value not in yes):
        return str(yes[0])
    what = "two values, and it is not clear which of them" if len(known) == 2 else f"{len(known)} values; which of them"
    if len(known) == 1:
        raise ValueError(
            f"The label column {name!r} has the one value {known[0]!r}, which reads as no label. If it marks the "
            f"labelled rows after all, say so: --positive {known[0]} (positive={known[0]!r})."
        )
    raise ValueError(
        f"The label column {name!r} has {what} marks a labelled row: {listed(counts)}. Say which: --positive VALUE "
        f"(positive=...), or --positive {ANY} if every value does and only empty cells are unlabelled."
    )


def given_value(known: list[str], name: str, positive: Any) -> str:
    """Return the value that the user says marks a label, as it is written in the column."""
    text = f"{positive:g}" if isinstance(positive, int | float) and not isinstance(positive, bool) else str(positive)
    if text == ANY and ANY not in known:
        return ANY
    same = [value for value in known if value == text] or [v for v in known if v.casefold() == text.casefold()]
    if not same:
        shown = ", ".join(map(repr, known[:_SHOWN])) + (", ..." if len(known) > _SHOWN else "")
        raise ValueError(f"No row of the label column {name!r} has the value {text!r}; it has {shown}.")
    return same[0]


def _refuse_one_kind(s: Any, name: str, marks: str, counts: Any) -> None:
    if s.all():
        raise ValueError(
            f"Every row is labelled: the label column {name!r} has {listed(counts)} and no row without a label. "
            "Unlabelled rows are needed too: the ones among which positives are to be found."
        )


def _note(text: Any, counts: Any, name: str, marks: str, how_many: Any) -> str:
    empty = int(np.sum((text == "").to_numpy() * (1 if how_many is None else np.asarray(how_many))))
    if marks == ANY or not empty or len(counts) == 1:
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
