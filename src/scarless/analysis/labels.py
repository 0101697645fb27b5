"""Columns of labels, looks and audits as people write them: 1 and 0, yes and nothing, true and null, or other values.

In a single column of labels an empty cell is a row without a label. In a column of a look it is a look that did not
take place, and in a column of audits a row that nobody checked.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.analysis.settings import Settings
from scarless.checks.labels import folded, says
from scarless.numerics.arrays import Integers, Mask, Matrix, Vector

ANY = "any"  # every value there is marks a labelled row: dates of a diagnosis, say
_SHOWN_VALUES = 6  # in a message
_NOT_SEEN = frozenset({"-1", "-1.0"})
Values = tuple[str, ...]


class LabelColumn(NamedTuple):
    """Which rows are labelled, and how that was read."""

    s: NDArray[np.int64]
    pos_label: tuple[str, ...]  # the values that mark a labelled row, as text; ANY for every value
    note: str  # in words, empty where nothing needs to be said


def read_labels(values: Any, name: str, *, pos_label: Any = None, rows: Any = None) -> LabelColumn:
    """Return which rows a label column marks.

    Parameters
    ----------
    values : pandas Series
        The label column. Missing values are no labels.
    name : str
        The column's name, for messages.
    pos_label : object or list of them, optional
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
    marks = _marks(counts, name, pos_label)
    s = marked(text, marks)
    _refuse_one_kind(s, name, counts)
    notes = [message_about_spellings(counts, name, marks), _note(text, counts, name, marks, rows)]
    return LabelColumn(s.astype(np.int64), marks, " ".join(note for note in notes if note))


def as_text(values: Any) -> Any:
    """Return the values as text without blanks around, whole numbers without a point; missing ones are empty."""
    missing = values.isna().to_numpy()
    if values.dtype.kind in "fiub" and values.dtype.kind != "b":
        text = values.map(lambda value: f"{value:g}" if value == value else "")  # noqa: PLR0124 (NaN)
    else:
        text = values.astype(object).map(str).str.strip()
    return text.astype(object).where(~missing, "")


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
    strict = len(word) == 1 and word.isalpha() and says(word) is None and value in alike
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


def _marks(counts: Any, name: str, pos_label: Any) -> tuple[str, ...]:
    """Return the values that mark a labelled row."""
    known = list(counts.index)
    if pos_label is not None:
        return given_values(known, name, pos_label)
    yes = [value for value in known if says(value) is True]
    no = [value for value in known if says(value) is False]
    if one_word(known) and not no:
        return tuple(map(str, known))
    if one_word(yes) and one_word(no) and len(yes) + len(no) == len(known):
        return tuple(map(str, yes))
    what = "two values, and it is not clear which of them" if len(known) == 2 else f"{len(known)} values; which of them"
    if one_word(known):
        raise ValueError(
            f"The label column {name!r} has the one value {known[0]!r}, which reads as no label. If it marks the "
            f"labelled rows after all, say so: --pos-label {known[0]} (pos_label={known[0]!r})."
        )
    raise ValueError(
        f"The label column {name!r} has {what} marks a labelled row: {listed(counts)}. Say which: --pos-label VALUE "
        f"(pos_label=...), once for each, or --pos-label {ANY} if every value does and only empty cells are unlabelled."
    )


def given_values(known: list[str], name: str, pos_label: Any) -> tuple[str, ...]:
    """Return the values that the user says mark a label, in all spellings of the column."""
    given = [_as_said(each) for each in (pos_label if isinstance(pos_label, list | tuple) else [pos_label])]
    if ANY in given and ANY not in known:
        if len(given) > 1:
            raise ValueError(f"--pos-label {ANY} means every value of {name!r}; leave the others out.")
        return (ANY,)
    found: list[str] = []
    for text in given:
        same = spellings(text, known)
        if not same:
            shown = ", ".join(map(repr, known[:_SHOWN_VALUES])) + (", ..." if len(known) > _SHOWN_VALUES else "")
            raise ValueError(f"No row of the label column {name!r} has the value {text!r}; it has {shown}.")
        found += same
    return tuple(dict.fromkeys(found))


def _as_said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def message_about_spellings(counts: Any, name: str, marks: tuple[str, ...]) -> str:
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
            f"differs by a capital letter only. If both do, name both: --pos-label {marks[0]} --pos-label {close[0]}."
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
    shown = [f"{value!r} ({number:,} rows)" for value, number in counts.head(_SHOWN_VALUES).items()]
    return ", ".join(shown) + (", ..." if len(counts) > _SHOWN_VALUES else "")


# --- looks and audits


class Observed(NamedTuple):
    """What was seen of the rows: labels of one look or of several, and what checks found."""

    s: Integers  # which rows have any label
    labels: Any  # as a model is given them: 1 and 0; of looks a data frame, with NaN where there was none
    audit: Vector | None  # 1, 0 and NaN; None where there is no column
    pos_label: Values  # the values that mark a label, as text
    notes: tuple[str, ...]

    @property
    def audited(self) -> Mask:
        """Which rows were checked."""
        return np.zeros(self.s.size, dtype=bool) if self.audit is None else ~np.isnan(self.audit)

    def of(self, rows: Any) -> "Observed":
        """Return the same of some rows."""
        audit = None if self.audit is None else self.audit[rows]
        labels = self.labels.iloc[rows] if hasattr(self.labels, "iloc") else self.labels[rows]
        return self._replace(s=self.s[rows], labels=labels, audit=audit)


def read_observed(table: Any, settings: Settings, *, rows: Any = None) -> Observed:
    """Return what settings say was observed, read from a table, or say what is wrong with it.

    `rows`: how many rows each line of the table stands for, where that is not one.
    """
    pos_label = settings.pos_label or None
    labels: Any
    if settings.looks:
        seen, marks, notes = read_looks(table[list(settings.looks)], pos_label=pos_label, rows=rows)
        s = (seen == 1).any(axis=1).astype(np.int64)
        labels = as_frame_of_looks(seen, settings, table)
    else:
        (name,) = settings.labels
        found = read_labels(table[name], name, pos_label=pos_label, rows=rows)
        s = found.s
        labels = s
        marks, notes = found.pos_label, [found.note] if found.note else []
    audit = None
    if settings.audit:
        audit = read_audit(table[settings.audit], settings.audit, also=marks, rows=rows)
        notes.append(_message_about_audits(audit, s, rows))
        _refuse_contradictions(s, audit, settings, rows)
    _refuse_unknowable(s, audit, settings)
    return Observed(s, labels, audit, marks, tuple(notes))


def read_looks(table: Any, *, pos_label: Any = None, rows: Any = None) -> tuple[Matrix, Values, list[str]]:
    """Return labels at looks, NaN where a look did not take place; the values that mark a label; and notes.

    Other than in a single column of labels, where a row without an entry is one without a label, an empty cell is a
    look that did not take place. So there must be words for both: yes and no.

    Examples
    --------
    >>> import pandas as pd
    >>> read_looks(pd.DataFrame({"one": ["yes", "no"], "two": ["no", None]}))[0]
    array([[ 1.,  0.],
           [ 0., nan]])
    """
    names = [str(name) for name in table.columns]
    texts = [_without_minus(as_text(table[name])) for name in table.columns]
    for name, text in zip(names, texts, strict=True):
        if (text == "").all():
            raise ValueError(f"The column {name!r} of a look is empty: that look took place nowhere. Leave it out.")
    all_of_them = texts[0] if len(texts) == 1 else _stacked(texts)
    counts = value_counts(all_of_them, None if rows is None else np.tile(rows, len(texts)))
    marks, no = _both_values(counts, names, pos_label)
    labels = np.column_stack([_coded(text, marks, no) for text in texts])
    spelt = message_about_spellings(counts, ", ".join(names), marks)
    return labels, marks, [_message_about_looks(labels, names, rows), *([spelt] if spelt else [])]


def as_frame_of_looks(labels: Matrix, settings: Settings, table: Any) -> Any:
    """Return labels as a data frame that knows the names of the looks, and the table's rows."""
    return type(table)(labels, columns=list(settings.looks), index=table.index)


def read_audit(values: Any, name: str, *, also: Values = (), rows: Any = None) -> Vector:
    """Return what checks found: 1, 0, and NaN where nobody checked; `also` are values that mean yes among labels.

    Examples
    --------
    >>> import pandas as pd
    >>> read_audit(pd.Series(["yes", None, "no"]), "checked")
    array([ 1., nan,  0.])
    """
    text = _without_minus(as_text(values))
    counts = value_counts(text, rows)
    known = list(counts.index)
    if not known:
        raise ValueError(f"The column of audits {name!r} is empty: nobody was checked. Leave --audit out.")
    yes = [value for value in known if says(value) is True or value in also]
    no = [value for value in known if says(value) is False and value not in yes]
    odd = [value for value in known if value not in [*yes, *no] or value in _NOT_SEEN]
    several = [each for each in (yes, no) if len(each) > 1 and not one_word(each) and not set(each) <= set(also)]
    if odd or several:
        raise ValueError(
            f"The column of audits {name!r} must say yes or no (1 or 0, positive or negative) of rows that somebody "
            f"checked, and nothing of the others; it has {listed(counts)}. Leave cells empty where nobody checked."
        )
    if not no:
        raise ValueError(
            f"The column of audits {name!r} has {listed(counts)} and no row that was checked and found negative. If "
            "only positive findings are written down, the estimated share of positives is far too high (by 0.18 to "
            "0.46 where that was tried). Write 'no' for every row that was checked and is not positive, and leave "
            "cells empty only where nobody checked; without such rows leave --audit out."
        )
    return _coded(text, tuple(yes), tuple(no))


def looks_again(table: Any, settings: Settings) -> Matrix:
    """Return labels at looks of new rows, by the value that marked one in the fit.

    A column that is not there is a look that did not take place; all, or none, may be labelled.
    """
    found = np.full((len(table), len(settings.looks)), np.nan)
    for k, name in enumerate(settings.looks):
        if name not in table.columns:
            continue
        text = _without_minus(as_text(table[name]))
        others = sorted(set(text[~marked(text, settings.pos_label)].unique()) - {""})
        if others and not one_word(others):
            said = " or ".join(map(repr, settings.pos_label))
            raise ValueError(
                f"The column {name!r} of a look must have {said}, one value for no label, and nothing where nobody "
                f"looked; it has {listed(text[text != ''].value_counts())}."
            )
        found[:, k] = _coded(text, settings.pos_label, tuple(others))
    return found


def audit_again(values: Any, settings: Settings) -> Vector:
    """Return what checks of new rows found; other than in a fit, all may be positive."""
    text = as_text(values)
    if all(value == "" or says(value) is True or value in settings.pos_label for value in text.unique()):
        return np.where(text == "", np.nan, 1.0)
    return read_audit(values, settings.audit, also=settings.pos_label)


def _without_minus(text: Any) -> Any:
    """Return text without -1 beside 0 and 1, which says that there was no look, or no check, as in Python."""
    there = set(text.unique())
    return text.where(~text.isin(_NOT_SEEN), "") if there & _NOT_SEEN and {"0", "1"} <= there else text


def _stacked(texts: list[Any]) -> Any:
    import pandas as pd  # noqa: PLC0415 (the columns are of its frames)

    return pd.concat(texts, ignore_index=True)


def _both_values(counts: Any, names: list[str], pos_label: Any) -> tuple[Values, Values]:
    """Return the values that mean label and no label at a look that took place."""
    known, among = list(counts.index), f"The columns of looks ({', '.join(map(repr, names))})"
    if pos_label is not None:
        marks = given_values(known, names[0], pos_label)
        if marks == (ANY,):
            raise ValueError(f"--pos-label {ANY} is for one label column: of a look it must be told what it found.")
        others = [value for value in known if value not in marks]
    else:
        yes = [value for value in known if says(value) is True]
        others = [value for value in known if value not in yes]
        marks = tuple(yes) if one_word(yes) else ()
    if not others and marks:
        raise ValueError(
            f"{among} have {listed(counts)} and empty cells only: it is not clear whether an empty cell is a look that "
            "found nothing, or one that did not take place. Write 'no' (or 0) where somebody looked and found nothing, "
            "and leave cells empty only where nobody looked."
        )
    clear = pos_label is not None or all(says(value) is False and folded(value) not in _NOT_SEEN for value in others)
    if not marks or not one_word(others) or not clear:
        raise ValueError(
            f"{among} must have two values, one for a label and one for none, and nothing where nobody looked; they "
            f"have {listed(counts)}. Say which marks a label: --pos-label VALUE (pos_label=...)."
        )
    return marks, tuple(others)


def _coded(text: Any, yes: Values, no: Values) -> Vector:
    return np.where(marked(text, yes), 1.0, np.where(text.isin(no), 0.0, np.nan))


def _number(which: Any, rows: Any) -> int:
    """Return how many rows these are."""
    return int(np.sum(which if rows is None else np.asarray(rows)[which]))


def _message_about_looks(labels: Matrix, names: list[str], rows: Any = None) -> str:
    """Say how looks were read, with counts."""
    parts = [
        f"{name!r} {_number(np.isfinite(column), rows):,} ({_number(column == 1, rows):,} labels)"
        for name, column in zip(names, labels.T, strict=True)
    ]
    never = _number((~np.isfinite(labels)).all(axis=1), rows)
    total = len(labels) if rows is None else int(np.sum(rows))
    rest = f" {never:,} rows were never looked at." if never else ""
    return (
        f"Looks that took place: {', '.join(parts)}; of {total:,} rows. An empty cell is a look that did not "
        f"take place, not one that found nothing.{rest}"
    )


def _message_about_audits(audit: Vector, s: Integers, rows: Any = None) -> str:
    found, n = _number(audit == 1, rows), _number(np.isfinite(audit), rows)
    without = _number(np.isfinite(audit) & (s == 0), rows)
    return (
        f"Audits: {n:,} rows were checked, {without:,} of them without a label; {found:,} are positive. They must be "
        "rows that were chosen by chance, by their columns or by their labels, and not by what the check would find; "
        "every result counts, also a negative one."
    )


def _refuse_contradictions(s: Integers, audit: Vector, settings: Settings, rows: Any = None) -> None:
    odd = (s == 1) & (audit == 0)
    if odd.any() and not settings.may_be_wrong:
        n = _number(odd, rows)
        have = f"{n:,} rows have" if n > 1 else "1 row has"
        first = f" (the first is row {np.flatnonzero(odd)[0] + 1})" if rows is None else ""
        raise ValueError(
            f"{have} a label although the audit ({settings.audit!r}) says negative{first}, which "
            "cannot be unless labels may be wrong. Where nobody checked, the cell must be empty, and not 0. If labels "
            "may be wrong: --false-positive-rate estimate "
            "(false_positive_rate='estimate'), or a known rate; else mend the table."
        )


def _refuse_unknowable(s: Integers, audit: Vector | None, settings: Settings) -> None:
    """Raise where nothing tells false positives from true ones."""
    checked = audit is not None and bool((np.isfinite(audit) & (s == 1)).any())
    if settings.estimates_rates and len(settings.looks) < 2 and not checked:
        raise ValueError(
            "--false-positive-rate estimate with one look at each row: only audits of labelled rows tell false "
            "positives from true ones, and there are none. Check some labelled rows (--audit), add a second look "
            "(--looks), or give the rate as a number."
        )
