"""Columns of looks and of audits as people write them: yes, no, and nothing where nobody looked."""

from typing import Any, NamedTuple

import numpy as np

from scarless.analysis.labels import (
    ANY,
    as_text,
    folded,
    given_values,
    listed,
    marked,
    one_word,
    read_labels,
    told_of_spellings,
    value_counts,
)
from scarless.analysis.settings import Settings
from scarless.checks.labels import NO, YES
from scarless.numerics.arrays import Integers, Mask, Matrix, Vector

_NOT_SEEN = frozenset({"-1", "-1.0"})
Values = tuple[str, ...]


class Observed(NamedTuple):
    """What was seen of the rows: labels of one look or of several, and what checks found."""

    s: Integers  # which rows have any label
    labels: Any  # as a model is given them: 1 and 0; of looks a data frame, with NaN where there was none
    audit: Vector | None  # 1, 0 and NaN; None where there is no column
    positive: Values  # the values that mark a label, as text
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
    positive = settings.positive or None
    labels: Any
    if settings.looks:
        seen, marks, notes = read_looks(table[list(settings.looks)], positive=positive, rows=rows)
        s = (seen == 1).any(axis=1).astype(np.int64)
        labels = as_frame_of_looks(seen, settings, table)
    else:
        found = read_labels(table[settings.label], settings.label, positive=positive, rows=rows)
        s = found.s
        labels = s
        marks, notes = found.positive, [found.note] if found.note else []
    audit = None
    if settings.audit:
        audit = read_audit(table[settings.audit], settings.audit, also=marks, rows=rows)
        notes.append(_told_of_audits(audit, s, rows))
        _refuse_contradictions(s, audit, settings, rows)
    _refuse_unknowable(s, audit, settings)
    return Observed(s, labels, audit, marks, tuple(notes))


def read_looks(table: Any, *, positive: Any = None, rows: Any = None) -> tuple[Matrix, Values, list[str]]:
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
    marks, no = _both_values(counts, names, positive)
    labels = np.column_stack([_coded(text, marks, no) for text in texts])
    spelt = told_of_spellings(counts, ", ".join(names), marks)
    return labels, marks, [_told_of_looks(labels, names, rows), *([spelt] if spelt else [])]


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
    yes = [value for value in known if folded(value) in YES or value in also]
    no = [value for value in known if folded(value) in NO and value not in yes]
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
        others = sorted(set(text[~marked(text, settings.positive)].unique()) - {""})
        if others and not one_word(others):
            said = " or ".join(map(repr, settings.positive))
            raise ValueError(
                f"The column {name!r} of a look must have {said}, one value for no label, and nothing where nobody "
                f"looked; it has {listed(text[text != ''].value_counts())}."
            )
        found[:, k] = _coded(text, settings.positive, tuple(others))
    return found


def audit_again(values: Any, settings: Settings) -> Vector:
    """Return what checks of new rows found; other than in a fit, all may be positive."""
    text = as_text(values)
    if all(value == "" or folded(value) in YES or value in settings.positive for value in text.unique()):
        return np.where(text == "", np.nan, 1.0)
    return read_audit(values, settings.audit, also=settings.positive)


def _without_minus(text: Any) -> Any:
    """Return text without -1 beside 0 and 1, which says that there was no look, or no check, as in Python."""
    there = set(text.unique())
    return text.where(~text.isin(_NOT_SEEN), "") if there & _NOT_SEEN and {"0", "1"} <= there else text


def _stacked(texts: list[Any]) -> Any:
    import pandas as pd  # noqa: PLC0415 (the columns are of its frames)

    return pd.concat(texts, ignore_index=True)


def _both_values(counts: Any, names: list[str], positive: Any) -> tuple[Values, Values]:
    """Return the values that mean label and no label at a look that took place."""
    known, among = list(counts.index), f"The columns of looks ({', '.join(map(repr, names))})"
    if positive is not None:
        marks = given_values(known, names[0], positive)
        if marks == (ANY,):
            raise ValueError(f"--positive {ANY} is for one label column: of a look it must be told what it found.")
        others = [value for value in known if value not in marks]
    else:
        yes = [value for value in known if folded(value) in YES]
        others = [value for value in known if value not in yes]
        marks = tuple(yes) if one_word(yes) else ()
    if not others and marks:
        raise ValueError(
            f"{among} have {listed(counts)} and empty cells only: it is not clear whether an empty cell is a look that "
            "found nothing, or one that did not take place. Write 'no' (or 0) where somebody looked and found nothing, "
            "and leave cells empty only where nobody looked."
        )
    clear = positive is not None or all(folded(value) in NO - _NOT_SEEN for value in others)
    if not marks or not one_word(others) or not clear:
        raise ValueError(
            f"{among} must have two values, one for a label and one for none, and nothing where nobody looked; they "
            f"have {listed(counts)}. Say which marks a label: --positive VALUE (positive=...)."
        )
    return marks, tuple(others)


def _coded(text: Any, yes: Values, no: Values) -> Vector:
    return np.where(marked(text, yes), 1.0, np.where(text.isin(no), 0.0, np.nan))


def _number(which: Any, rows: Any) -> int:
    """Return how many rows these are."""
    return int(np.sum(which if rows is None else np.asarray(rows)[which]))


def _told_of_looks(labels: Matrix, names: list[str], rows: Any = None) -> str:
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


def _told_of_audits(audit: Vector, s: Integers, rows: Any = None) -> str:
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
            "may be wrong: --false-positives estimate "
            "(false_positives='estimate'), or a known rate; else mend the table."
        )


def _refuse_unknowable(s: Integers, audit: Vector | None, settings: Settings) -> None:
    """Raise where nothing tells false positives from true ones."""
    checked = audit is not None and bool((np.isfinite(audit) & (s == 1)).any())
    if settings.estimates_rates and len(settings.looks) < 2 and not checked:
        raise ValueError(
            "--false-positives estimate with one look at each row: only audits of labelled rows tell false positives "
            "from true ones, and there are none. Check some labelled rows (--audit), add a second look (--look), or "
            "give the rate as a number."
        )
