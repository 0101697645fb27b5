"""The unlabelled rows that are most probably positive, and the contributions of columns and words to their log-odds."""

import re
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.tables import take_rows
from scarless.diagnostics.audits.yields import YieldCurve, yield_curve
from scarless.diagnostics.fit.subject import Subject
from scarless.models import NaiveClassifier
from scarless.models.explaining import contributions, dense, has_coefficients
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.outside.plain_words import plain

N_REASONS = 3  # largest number of columns that are named for a row
SMALLEST_REASON = 0.05  # smallest contribution to the log-odds that is shown
N_WORDS = 3  # largest number of words of a text that are named
MAX_SHORT_TEXT = 3  # number of words up to which a text is shown in full
MAX_PREDICTED_CELLS = 4_000_000  # largest number of cells to predict for contributions without coefficients

POSTERIOR, CLASS, LABEL = "posterior", "class", "label"  # probabilities that rows can be ranked by


class RowReason(NamedTuple):
    """Contribution of a raw column to the class logit of a row, relative to the average row."""

    column: str
    value: Any  # in the raw table; for a long text, a tuple of the words with the largest contributions
    contribution: float


class TopRows(NamedTuple):
    """The unlabelled rows that rank first."""

    by: str  # probability by which the rows are ranked: POSTERIOR, CLASS or LABEL
    n_open: int  # number of rows that could be ranked
    rows: Columns
    value: Vector  # the probability
    ends: Matrix | None  # ends of the intervals of `value`; None without intervals
    why_no_ends: str
    reasons: list[tuple[RowReason, ...]]  # empty if they would take too long to compute
    positives: YieldCurve | None  # expected number of positives; None if the model cannot estimate it
    why_no_positives: str


def top_rows(subject: Subject, n_rows: int) -> TopRows:
    """Rank the unlabelled rows that were not audited and have a positive weight."""
    by, value = _measure(subject)
    open_ = np.flatnonzero((subject.s == 0) & (subject.weight > 0) & ~subject.audited)
    order = open_[np.argsort(-value[open_], kind="stable")[:n_rows]]
    if not order.size:
        return TopRows(by, int(open_.size), order, value[order], None, "", [], None, "")
    top = subject.part(order)
    return TopRows(by, int(open_.size), order, value[order], *_intervals(top), _reasons(subject, top),
                   *_positives(subject, int(order.size)))  # fmt: skip


def _measure(subject: Subject) -> tuple[str, Vector]:
    """Return the probability that rows are ranked by."""
    if isinstance(subject.inner, NaiveClassifier):
        return LABEL, subject.f
    return (CLASS, subject.f) if subject.e is None else (POSTERIOR, subject.posterior)


def _intervals(top: Subject) -> tuple[Matrix | None, str]:
    inner = top.inner
    if not hasattr(inner, "predict_posterior_interval"):
        return None, f"{type(inner).__name__} has no confidence intervals for single rows."
    given = {} if top.looks is None or top.audit is None else {"audit": top.audit}
    try:
        return np.asarray(inner.predict_posterior_interval(top.prepared, top.labels, level=top.level, **given)), ""
    except (ValueError, TypeError) as error:
        return None, f"There are no confidence intervals for single rows. {plain(error)}"


def _positives(subject: Subject, n_rows: int) -> tuple[YieldCurve | None, str]:
    """Return the expected number of positives among the first rows, or the reason why there is none."""
    if not hasattr(subject.inner, "draw_posteriors"):
        return None, ""
    given: dict[str, Any] = {"audit": subject.audit, "sample_weight": subject.weights, "level": subject.level}
    try:
        return yield_curve(subject.inner, subject.prepared, subject.labels, n=n_rows, **given), ""
    except ValueError as error:  # the model has no standard errors
        return None, f"The number of positives among these rows is unknown. {plain(error)}"


# --- reasons


def takes_long(subject: Subject, n_rows: int) -> bool:
    """Return whether contributions for this number of rows would take too long to compute."""
    cells = n_rows * len(subject.groups) * len(subject.origins)
    return not has_coefficients(subject.inner) and cells > MAX_PREDICTED_CELLS


def contributions_of(subject: Subject, some: Subject) -> Matrix:
    """Return the contribution of each raw column to the class logit of some rows, relative to the average row."""
    return contributions(subject.inner, some.prepared, subject.moments.mean, list(subject.groups.values()))


def is_text(subject: Subject, column: str) -> bool:
    """Return whether a raw column is free text."""
    return any(subject.origins[j].words for j in subject.groups[column])


def _reasons(subject: Subject, top: Subject) -> list[tuple[RowReason, ...]]:
    """Return the raw columns with the largest contributions to each row."""
    if takes_long(subject, top.n_rows):
        return []
    columns, parts = list(subject.groups), contributions_of(subject, top)
    values, found = cache(lambda column: _shown_values(subject, top, column)), []
    for i, row in enumerate(parts):
        best = [j for j in np.argsort(-row, kind="stable")[:N_REASONS] if row[j] >= SMALLEST_REASON]
        found.append(tuple(RowReason(columns[j], values(columns[j])[i], float(row[j])) for j in best))
    return found


def _shown_values(subject: Subject, top: Subject, column: str) -> list[Any]:
    """Return the values of a column; for long texts, the words with the largest contributions."""
    shown = _values(top, column)
    if not is_text(subject, column) or not hasattr(top.X, "columns"):
        return shown
    name = next(each for each in top.X.columns if str(each) == column)
    found = [set(re.findall(r"\w\w+", value.lower() if isinstance(value, str) else "")) for value in top.X[name]]
    lift = _lift_of_words(subject, top, name, sorted(set().union(*found)))
    return [_strongest(words, lift) or value if len(words) > MAX_SHORT_TEXT else value
            for words, value in zip(found, shown, strict=True)]  # fmt: skip


def _lift_of_words(subject: Subject, top: Subject, name: Any, words: list[str]) -> dict[str, float]:
    """Return the change of the class log-odds if a text consists of one word, compared with an empty text."""
    rows = take_rows(top.X, np.zeros(len(words) + 1, dtype=np.intp))
    texts = np.array(["", *words], dtype=object)
    if hasattr(rows, "iloc"):
        rows = rows.copy()
        rows[name] = texts
    else:
        rows = rows.with_columns(type(rows[name])(name, texts.tolist()))
    parts = contributions(
        subject.inner, subject.model.prepare(rows), subject.moments.mean, [subject.groups[str(name)]]
    )[:, 0]
    return dict(zip(words, (parts[1:] - parts[0]).tolist(), strict=True))


def _strongest(words: set[str], lift: dict[str, float]) -> tuple[str, ...]:
    """Return at most three words, each with at least half of the largest contribution; empty if all are small."""
    order = sorted(words, key=lambda word: (-lift[word], word))[:N_WORDS]
    least = max(lift[order[0]] / 2.0, SMALLEST_REASON)
    return tuple(word for word in order if lift[word] >= least)


def _values(top: Subject, column: str) -> list[Any]:
    """Return the raw values of a column; the prepared values if it cannot be traced to a raw column."""
    places = {str(name): j for j, name in enumerate(top.raw_names)}
    if column not in places:
        return list(dense(top.prepared)[:, top.groups[column][0]])
    j = places[column]
    if hasattr(top.X, "iloc"):
        return list(top.X.iloc[:, j].tolist())
    if hasattr(top.X, "get_column"):
        return list(top.X.get_column(top.raw_names[j]).to_list())
    return list(dense(top.X)[:, j]) if _numeric(top.X) else [row[j] for row in top.X]


def _numeric(X: Any) -> bool:
    return getattr(X, "dtype", np.dtype(object)).kind in "fiub"
