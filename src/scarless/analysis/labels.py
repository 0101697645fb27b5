"""Functions that read label and audit columns, coded as 1/0, yes/no, yes and empty cells, or other values.

In a single label column, an empty cell is a row without a label. In the label column of a look, it is a look that did
not take place. In an audit column, it is a row that was not audited.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.analysis.settings import Settings
from scarless.checks.labels import denies, folded, says
from scarless.numerics.arrays import Integers, Mask, Matrix, Vector
from scarless.outside.shell_words import quoted

ANY_VALUE = "any"  # Every value marks a labelled row, for example dates of a diagnosis.
ANSWERS = "checked_in_worksheets"  # audit column with the answers of worksheets
PROBABILITY = "inclusion_probability"  # column of a worksheet
_MAX_VALUES_SHOWN = 6  # in a message
_NOT_OBSERVED = frozenset({"-1", "-1.0"})
Values = tuple[str, ...]


class LabelColumn(NamedTuple):
    """The labels of a label column, and how they were read."""

    s: NDArray[np.int64]
    pos_label: tuple[str, ...]  # values that mark a labelled row, as text; ANY_VALUE for every value
    note: str  # note for the user, which may be empty


def read_labels(values: Any, name: str, *, pos_label: Any = None, rows: Any = None) -> LabelColumn:
    """Return the labels of a label column.

    Parameters
    ----------
    values : pandas Series
        Label column; a missing value is no label.
    name : str
        Name of the column, for messages.
    pos_label : object or list of objects, optional
        Value, or values, that mark a labelled row; "any" for every value. Upper and lower case are not distinguished,
        except for single letters that mean neither yes nor no. By default, the value is determined from the column, if
        it is clear.
    rows : array, optional
        Number of rows that each cell represents; 1 by default.

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
        raise ValueError(f"The label column {name!r} is empty: no row is labelled. Name another column.")
    marks = _marks(counts, name, pos_label)
    s = marked(text, marks)
    _refuse_all_labelled(s, name, counts)
    notes = [message_about_spellings(counts, name, marks), _note(text, counts, name, marks, rows)]
    return LabelColumn(s.astype(np.int64), marks, " ".join(note for note in notes if note))


def as_text(values: Any) -> Any:
    """Return the values as stripped text, with whole numbers without a decimal point and missing values empty."""
    missing = values.isna().to_numpy()
    if values.dtype.kind in "fiub" and values.dtype.kind != "b":
        text = values.map(lambda value: number_as_text(value) if value == value else "")  # noqa: PLR0124 (NaN)
    else:
        text = values.astype(object).map(str).str.strip()
    return text.astype(object).where(~missing, "")


def number_as_text(value: float) -> str:
    """Return a number as text: all digits of a whole number, without a decimal point; else six significant digits.

    Examples
    --------
    >>> number_as_text(20240101.0), number_as_text(0.5)
    ('20240101', '0.5')
    """
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def spellings(value: str, known: Any) -> list[str]:
    """Return the known values that are spellings of a value, ignoring case.

    A single letter that means neither yes nor no matches only itself if it is among the known values, because `a` and
    `A` may be different codes.

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
    """Return which rows have a value that marks a label, in any spelling."""
    if marks == (ANY_VALUE,):
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
    if one_word(known) and not denies(known[0]):
        return tuple(map(str, known))
    if one_word(yes) and one_word(no) and len(yes) + len(no) == len(known):
        return tuple(map(str, yes))
    if one_word(known):
        raise ValueError(
            f"The label column {name!r} has only the value {known[0]!r}, which usually means no label. If it marks "
            f"labelled rows, use --pos-label {quoted(known[0])} (pos_label={known[0]!r})."
        )
    raise ValueError(
        f"The label column {name!r} has {len(known)} values, and it is not clear which of them mark a labelled row: "
        f"{listed(counts)}. Use --pos-label VALUE (pos_label=...) for each value that marks a labelled row. "
        f"If every value marks a labelled row, and only empty cells do not, use --pos-label {ANY_VALUE}."
    )


def given_values(known: list[str], name: str, pos_label: Any) -> tuple[str, ...]:
    """Return the values of the column that match the given positive values, in all spellings."""
    given = [_as_given(each) for each in (pos_label if isinstance(pos_label, list | tuple) else [pos_label])]
    if ANY_VALUE in given and ANY_VALUE not in known:
        if len(given) > 1:
            raise ValueError(f"--pos-label {ANY_VALUE} already includes every value of {name!r}. Remove the others.")
        return (ANY_VALUE,)
    found: list[str] = []
    for text in given:
        same = spellings(text, known)
        if not same:
            shown = ", ".join(map(repr, known[:_MAX_VALUES_SHOWN])) + (
                ", ..." if len(known) > _MAX_VALUES_SHOWN else ""
            )
            raise ValueError(
                f"--pos-label: no row of the label column {name!r} has the value {text!r}. Use one of these values: "
                f"{shown}."
            )
        found += same
    return tuple(dict.fromkeys(found))


def _as_given(value: Any) -> str:
    return number_as_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def message_about_spellings(counts: Any, name: str, marks: tuple[str, ...]) -> str:
    """Return a note on spellings read as one value, or on values that differ only in case but are read as different."""
    if marks == (ANY_VALUE,):
        return ""
    known = list(counts.index)
    others = [value for value in known if value not in marks]
    close = [value for value in others if folded(value) in map(folded, marks)]
    words = {folded(mark) for mark in marks}
    if close:
        alike = [mark for mark in marks if folded(mark) in map(folded, close)]
        mark, do = "marks" if len(alike) == 1 else "mark", "does" if len(close) == 1 else "do"
        options = " ".join(f"--pos-label {value}" for value in [*marks, *close])
        return (
            f"In {name!r}, {', '.join(map(repr, alike))} {mark} a label, but {listed(counts[close])} {do} not, "
            f"although the only difference is upper or lower case. If all of these values mark a label, use {options}."
        )
    if len(words) < len(marks):
        return f"In {name!r}, {listed(counts[list(marks)])} are all read as labels."
    return ""


def _refuse_all_labelled(s: Any, name: str, counts: Any) -> None:
    if s.all():
        raise ValueError(
            f"Every row is labelled: the label column {name!r} has {listed(counts)} and no row without a label. Add "
            "the unlabelled rows: the models look for positives among them."
        )


def _note(text: Any, counts: Any, name: str, marks: tuple[str, ...], how_many: Any) -> str:
    empty = int(np.sum((text == "").to_numpy() * (1 if how_many is None else np.asarray(how_many))))
    if marks == (ANY_VALUE,) or not empty or len(counts) == len(marks):
        return ""
    rows = f"{empty:,} rows" if empty > 1 else "1 row"
    are = "are" if empty > 1 else "is"
    return (
        f"{rows} with an empty cell in {name!r} {are} treated as unlabelled, like rows whose value does not mark a "
        "label."
    )


def value_counts(text: Any, rows: Any = None) -> Any:
    """Return the number of rows with each value that is not empty, the most frequent first.

    `rows` is the number of rows that each value represents; 1 by default.
    """
    there = text[text != ""]
    if rows is None:
        return there.value_counts()
    counts = type(text)(rows, index=text.index)[text != ""]
    return counts.groupby(there).sum().sort_values(ascending=False, kind="stable")


def listed(counts: Any) -> str:
    """Return values with their numbers of rows, for a sentence."""
    shown = [
        f"{value!r} ({number:,} {'row' if number == 1 else 'rows'})"
        for value, number in counts.head(_MAX_VALUES_SHOWN).items()
    ]
    return ", ".join(shown) + (", ..." if len(counts) > _MAX_VALUES_SHOWN else "")


# --- looks and audits


class ObservedLabels(NamedTuple):
    """The labels of rows at one or several looks, and their audits."""

    s: Integers  # 1 for rows with any label
    labels: Any  # labels for the model: 1 and 0, or a data frame of looks with NaN for looks that did not take place
    audit: Vector | None  # 1, 0 and NaN; None without an audit column
    pos_label: Values  # values that mark a label, as text
    notes: tuple[str, ...]

    @property
    def audited(self) -> Mask:
        """Which rows were audited."""
        return np.zeros(self.s.size, dtype=bool) if self.audit is None else ~np.isnan(self.audit)

    def of(self, rows: Any) -> "ObservedLabels":
        """Return the labels and audits of some rows."""
        audit = None if self.audit is None else self.audit[rows]
        labels = self.labels.iloc[rows] if hasattr(self.labels, "iloc") else self.labels[rows]
        return self._replace(s=self.s[rows], labels=labels, audit=audit)


def read_observed(table: Any, settings: Settings, *, rows: Any = None) -> ObservedLabels:
    """Return the labels and audits of a table; raise if they contradict each other or the settings.

    `rows` is the number of rows that each line of the table represents; 1 by default.
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
        if settings.audit == ANSWERS:
            audit = audit_again(table[settings.audit], settings)
        else:
            audit = read_audit(table[settings.audit], settings.audit, also=marks, rows=rows)
            notes.append(_message_about_audits(audit, s, rows))
        _refuse_contradictions(s, audit, settings, rows)
    _refuse_unidentified_rates(s, audit, settings)
    return ObservedLabels(s, labels, audit, marks, tuple(notes))


def read_looks(table: Any, *, pos_label: Any = None, rows: Any = None) -> tuple[Matrix, Values, list[str]]:
    """Return the labels at looks, with NaN for looks that did not take place; the values that mark a label; and notes.

    In contrast to a single label column, an empty cell is a look that did not take place. The columns must therefore
    have values for both yes and no.

    Examples
    --------
    >>> import pandas as pd
    >>> read_looks(pd.DataFrame({"one": ["yes", "no"], "two": ["no", None]}))[0]
    array([[ 1.,  0.],
           [ 0., nan]])
    """
    names = [str(name) for name in table.columns]
    texts = [_with_minus_one_missing(as_text(table[name])) for name in table.columns]
    for name, text in zip(names, texts, strict=True):
        if (text == "").all():
            raise ValueError(
                f"--looks: column {name!r} is empty: this look did not take place for any row. Remove it from --looks."
            )
    all_of_them = texts[0] if len(texts) == 1 else _stacked(texts)
    counts = value_counts(all_of_them, None if rows is None else np.tile(rows, len(texts)))
    marks, no = _both_values(counts, names, pos_label, has_empty=bool((all_of_them == "").any()))
    labels = np.column_stack([_coded(text, marks, no) for text in texts])
    spelt = message_about_spellings(counts, ", ".join(names), marks)
    return labels, marks, [_message_about_looks(labels, names, rows), *([spelt] if spelt else [])]


def as_frame_of_looks(labels: Matrix, settings: Settings, table: Any) -> Any:
    """Return labels as a data frame with the names of the looks and the index of the table."""
    return type(table)(labels, columns=list(settings.looks), index=table.index)


def read_audit(values: Any, name: str, *, also: Values = (), rows: Any = None) -> Vector:
    """Return audits as 1, 0 and NaN (not audited); `also` are further values that mean yes.

    Examples
    --------
    >>> import pandas as pd
    >>> read_audit(pd.Series(["yes", None, "no"]), "checked")
    array([ 1., nan,  0.])
    """
    text = _with_minus_one_missing(as_text(values))
    counts = value_counts(text, rows)
    known = list(counts.index)
    if not known:
        raise ValueError(f"The audit column {name!r} is empty: no row was audited. Remove --audit.")
    yes = [value for value in known if says(value) is True or value in also]
    no = [value for value in known if says(value) is False and value not in yes]
    odd = [value for value in known if value not in [*yes, *no] or value in _NOT_OBSERVED]
    several = [each for each in (yes, no) if len(each) > 1 and not one_word(each) and not set(each) <= set(also)]
    if odd or several:
        raise ValueError(
            f"The audit column {name!r} must be yes or no (1 or 0, positive or negative) for audited rows and empty "
            f"for all others; it has {listed(counts)}. Use one value for yes and one value for no, and empty all other "
            "cells."
        )
    if not no:
        raise ValueError(
            f"The audit column {name!r} has {listed(counts)} and no audited negative. If only positive findings are "
            "recorded, the estimated share of positives is far too high (by 38 percentage points in our experiment). "
            "Write 'no' for every audited negative, and leave cells empty only for rows that were not audited. If the "
            "audited negatives are not known, remove --audit."
        )
    return _coded(text, tuple(yes), tuple(no))


def looks_again(table: Any, settings: Settings) -> Matrix:
    """Return the labels of new rows at looks, by the values that marked a label in the fit.

    A missing column is a look that did not take place. Unlike in a fit, it is no error if every row is labelled, or no
    row.
    """
    found = np.full((len(table), len(settings.looks)), np.nan)
    for k, name in enumerate(settings.looks):
        if name not in table.columns:
            continue
        text = _with_minus_one_missing(as_text(table[name]))
        others = sorted(set(text[~marked(text, settings.pos_label)].unique()) - {""})
        if others and not one_word(others):
            marks = " or ".join(map(repr, settings.pos_label))
            raise ValueError(
                f"The label column {name!r} of a look must have {marks} for a label, one value for no label, and empty "
                f"cells for rows without this look; it has {listed(text[text != ''].value_counts())}. Recode the "
                "column."
            )
        found[:, k] = _coded(text, settings.pos_label, tuple(others))
    return found


def audit_again(values: Any, settings: Settings) -> Vector:
    """Return the audits of new rows; unlike in a fit, all of them may be positive."""
    text = as_text(values)
    if all(value == "" or says(value) is True or value in settings.pos_label for value in text.unique()):
        return np.where(text == "", np.nan, 1.0)
    return read_audit(values, settings.audit, also=settings.pos_label)


def _with_minus_one_missing(text: Any) -> Any:
    """Return text in which -1 is empty if 0 and 1 occur too; -1 then means not observed, as in the Python API."""
    there = set(text.unique())
    return text.where(~text.isin(_NOT_OBSERVED), "") if there & _NOT_OBSERVED and {"0", "1"} <= there else text


def _stacked(texts: list[Any]) -> Any:
    import pandas as pd  # noqa: PLC0415 (the columns are pandas objects)

    return pd.concat(texts, ignore_index=True)


def _both_values(counts: Any, names: list[str], pos_label: Any, *, has_empty: bool) -> tuple[Values, Values]:
    """Return the values that mark a label, and the values that mark no label, at looks that took place.

    `has_empty` says whether the columns have empty cells.
    """
    known, columns = list(counts.index), f"The label columns of looks ({', '.join(map(repr, names))})"
    if pos_label is not None:
        marks = given_values(known, names[0], pos_label)
        if marks == (ANY_VALUE,):
            raise ValueError(
                f"--pos-label {ANY_VALUE} needs a single label column. With --looks, name the value that marks a label."
            )
        others = [value for value in known if value not in marks]
    else:
        yes = [value for value in known if says(value) is True]
        others = [value for value in known if value not in yes]
        marks = tuple(yes) if one_word(yes) else ()
    if not others and marks and not has_empty:
        raise ValueError(
            f"{columns} have only {listed(counts)}: every look at every row gave a label. Add the unlabelled rows, "
            "with 'no' (or 0) for looks without a label."
        )
    if not others and marks:
        raise ValueError(
            f"{columns} have only {listed(counts)} and empty cells. It is not clear whether an empty cell means a look "
            "without a label, or a look that did not take place. Write 'no' (or 0) for looks without a label, and "
            "leave cells empty only if the look did not take place."
        )
    clear = pos_label is not None or all(
        says(value) is False and folded(value) not in _NOT_OBSERVED for value in others
    )
    if not marks or not one_word(others) or not clear:
        advice = (
            "or name each value that marks a label with --pos-label VALUE (pos_label=...)"
            if pos_label is None
            else "or add each further value that marks a label to --pos-label (pos_label)"
        )
        raise ValueError(
            f"{columns} must have one value for a label, one value for no label, and empty cells for looks that did "
            f"not take place; they have {listed(counts)}. Recode the other values, {advice}."
        )
    return marks, tuple(others)


def _coded(text: Any, yes: Values, no: Values) -> Vector:
    return np.where(marked(text, yes), 1.0, np.where(text.isin(no), 0.0, np.nan))


def _number(which: Any, rows: Any) -> int:
    """Return the number of selected rows."""
    return int(np.sum(which if rows is None else np.asarray(rows)[which]))


def _message_about_looks(labels: Matrix, names: list[str], rows: Any = None) -> str:
    """Return a note on how looks were read, with counts."""
    parts = [
        f"{name!r} {_number(np.isfinite(column), rows):,} rows ({_number(column == 1, rows):,} labels)"
        for name, column in zip(names, labels.T, strict=True)
    ]
    never = _number((~np.isfinite(labels)).all(axis=1), rows)
    total = len(labels) if rows is None else int(np.sum(rows))
    rest = f" For {never:,} {'row' if never == 1 else 'rows'}, no look took place." if never else ""
    return (
        f"Rows examined at each look, of {total:,} rows: {', '.join(parts)}. An empty cell means that the look did not "
        f"take place, not that it gave no label.{rest}"
    )


def _message_about_audits(audit: Vector, s: Integers, rows: Any = None) -> str:
    found, n = _number(audit == 1, rows), _number(np.isfinite(audit), rows)
    without = _number(np.isfinite(audit) & (s == 0), rows)
    return (
        f"Audits: {n:,} rows were audited, and {found:,} of them are positive; {without:,} of the audited rows have no "
        "label. Audited rows must be chosen at random, or by their columns or labels, but not by their class. Negative "
        "findings must be included."
    )


def _refuse_contradictions(s: Integers, audit: Vector, settings: Settings, rows: Any = None) -> None:
    odd = (s == 1) & (audit == 0)
    if odd.any() and not settings.may_be_wrong:
        n = _number(odd, rows)
        have = f"{n:,} rows have" if n > 1 else "1 row has"
        first = f" (the first is row {np.flatnonzero(odd)[0] + 1})" if rows is None else ""
        raise ValueError(
            f"{have} a label although the audit column {settings.audit!r} says negative{first}. If these rows were not "
            "audited, empty their audit cells. If labels can be false positives, use --false-positive-rate estimate "
            "(false_positive_rate='estimate'), or give the rate as a number. Otherwise correct the label or the audit."
        )


def _refuse_unidentified_rates(s: Integers, audit: Vector | None, settings: Settings) -> None:
    """Raise if the false-positive rate is to be estimated but the data do not determine it."""
    checked = audit is not None and bool((np.isfinite(audit) & (s == 1)).any())
    if settings.estimates_rates and len(settings.looks) < 2 and not checked:
        raise ValueError(
            "--false-positive-rate estimate needs several looks, or audits of labelled rows; there is only one look, "
            "and no labelled row was audited. Audit some labelled rows (--audit), add a second look (--looks), or give "
            "the rate as a number."
        )
