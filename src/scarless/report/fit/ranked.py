"""The unlabelled rows that are most probably positive, and why."""

import re
from functools import cache
from typing import Any

import numpy as np

from scarless.checks.tables import take_rows
from scarless.diagnostics import yield_curve
from scarless.models import NaiveClassifier
from scarless.models.explaining import contributions, dense, has_coefficients
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.outside.plain_words import plain
from scarless.report.fit.data import Estimate, Ranked, RankedRow, Reason
from scarless.report.fit.subject import Subject
from scarless.report.fit.words import cell, number, text

N_REASONS = 3
SMALLEST = 0.05  # contribution that is shown
N_WORDS = 3  # of a text that are named
SHORT_TEXT = 3  # words, up to which a text is shown as it is
MOST_CELLS = 4_000_000  # of tables that a model without coefficients is asked about


def make_ranked(subject: Subject, n_ranked: int, row_names: Any) -> Ranked:
    """Rank the unlabelled rows; rows of weight 0 are not there."""
    value, measure, notes = _measure(subject)
    open_ = np.flatnonzero((subject.s == 0) & (subject.weight > 0) & ~subject.audited)
    order = open_[np.argsort(-value[open_], kind="stable")[:n_ranked]]
    top = subject.part(order)
    ends, why = _intervals(top) if order.size else (None, "")
    reasons, told = _reasons(subject, top) if order.size else ([], "")
    names = row_names if row_names is not None else subject.row_names
    rows = tuple(
        RankedRow(
            rank=i + 1,
            position=int(at),
            name=None if names is None else text(_shown(names[at])),
            probability=Estimate(
                number(value[at]), *((None, None) if ends is None else (number(ends[i, 0]), number(ends[i, 1])))
            ),
            propensity=None if subject.e is None else number(subject.e[at]),
            reasons=reasons[i] if reasons else (),
        )
        for i, at in enumerate(order)
    )
    positives, expected = _positives(subject, len(rows)) if rows else (None, "")
    said = tuple(note for note in (*notes, why, told) if note)
    return Ranked(measure, int(open_.size), rows, said, positives, expected)


def _positives(subject: Subject, n_rows: int) -> tuple[Estimate | None, str]:
    """Return how many of the ranked rows are positive, and a sentence; nothing where the model cannot say."""
    if not hasattr(subject.inner, "draw_posteriors"):
        return None, ""
    given: dict[str, Any] = {"audit": subject.audit, "sample_weight": subject.weights, "level": subject.level}
    try:
        found = yield_curve(subject.inner, subject.prepared, subject.labels, n=n_rows, **given)
    except ValueError as error:  # of a model that is too wide for standard errors, or has none
        return None, f"How many of these rows are positive is not known: {plain(error)}"
    said = found.sentence(listed=True)
    if not found.told:
        return None, said
    return Estimate(*(number(field[0]) for field in (found.expected, found.low, found.high))), said


def _shown(name: Any) -> str:
    return " / ".join(map(str, name)) if isinstance(name, tuple) else cell(name) if isinstance(name, float) else name


def _measure(subject: Subject) -> tuple[Vector, str, list[str]]:
    """Return what rows are ranked by, what it is called, and what to know of it."""
    inner = subject.inner
    if isinstance(inner, NaiveClassifier):
        return subject.f, "chance of a label", [
            "Ranked by the chance to have a label, which is all that the naive model knows. It is not the chance to be "
            "positive: rows that are seldom labelled come last although they may be positive."
        ]  # fmt: skip
    if subject.looks is not None:
        told = ["Rows that were checked are not listed: their class is known."] if subject.audited.any() else []
        return subject.posterior, "chance to be positive", told
    if hasattr(inner, "predict_propensity"):
        return np.asarray(inner.predict_posterior(subject.prepared, subject.labels)), "chance to be positive", []
    if subject.e is not None:
        known = inner.predict_posterior(subject.prepared, subject.labels, subject.e)
        return np.asarray(known), "chance to be positive", []
    return subject.f, "chance to be positive, label or no label", [
        "Ranked by the chance to be positive by attributes alone: that a row has no label makes it less, by how much "
        "only its propensity tells. Give it as propensity=, one value per row."
    ]  # fmt: skip


def _intervals(top: Subject) -> tuple[Matrix | None, str]:
    inner = top.inner
    if not hasattr(inner, "predict_posterior_interval"):
        return None, f"{type(inner).__name__} knows no intervals of single rows."
    given = {} if top.looks is None or top.audit is None else {"audit": top.audit}
    try:
        return np.asarray(inner.predict_posterior_interval(top.prepared, top.labels, level=top.level, **given)), ""
    except (ValueError, TypeError) as error:
        return None, f"No intervals of single rows: {plain(error)}"


def _reasons(subject: Subject, top: Subject) -> tuple[list[tuple[Reason, ...]], str]:
    """Return the raw columns that speak most for each row."""
    if is_too_much(subject, top.n_rows):
        return [], f"No reasons: with {len(subject.groups)} columns, and a model without coefficients, they take long."
    columns, parts = list(subject.groups), contributions_of(subject, top)
    values, found = cache(lambda column: _telling(subject, top, column)), []
    for i, row in enumerate(parts):
        best = [j for j in np.argsort(-row, kind="stable")[:N_REASONS] if row[j] >= SMALLEST]
        found.append(tuple(Reason(text(columns[j]), values(columns[j])[i], float(row[j])) for j in best))
    how = (
        "coefficient times distance from the mean, over all that was made of the column"
        if has_coefficients(subject.inner)
        else "how far it falls if what was made of the column is put to its mean"
    )
    has_text = any(_is_text(subject, column) for column in columns)
    shortened = " Of a longer text, only the words that lift them most are shown." if has_text else ""
    return found, (
        "Reasons: the columns that lift a row's log-odds of the class most above those of the average row. The number "
        f"in brackets is by how much: {how}. The model uses these columns; they need not be causes.{shortened}"
    )


def _is_text(subject: Subject, column: str) -> bool:
    """Whether a raw column is free text."""
    return any(subject.origins[j].words for j in subject.groups[column])


def _telling(subject: Subject, top: Subject, column: str) -> list[str]:
    """Return the values of a column as words; of longer texts, those words that speak most for the class."""
    shown = _values(top, column)
    if not _is_text(subject, column) or not hasattr(top.X, "columns"):
        return shown
    name = next(each for each in top.X.columns if str(each) == column)
    found = [set(re.findall(r"\w\w+", value.lower() if isinstance(value, str) else "")) for value in top.X[name]]
    lift = _lift_of_words(subject, top, name, sorted(set().union(*found)))
    return [_strongest(words, lift) or value if len(words) > SHORT_TEXT else value
            for words, value in zip(found, shown, strict=True)]  # fmt: skip


def _lift_of_words(subject: Subject, top: Subject, name: Any, words: list[str]) -> dict[str, float]:
    """Return how far the log-odds of the class rise where a text is one word alone, from those of no text."""
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


def _strongest(words: set[str], lift: dict[str, float]) -> str:
    """Return the words of a text with the largest lift, and at least half of it; nothing where none lifts."""
    order = sorted(words, key=lambda word: (-lift[word], word))[:N_WORDS]
    least = max(lift[order[0]] / 2.0, SMALLEST)
    return ", ".join(f"'{text(word, 20)}'" for word in order if lift[word] >= least)


def _values(top: Subject, column: str) -> list[str]:
    """Return the raw values of a column as words; of one that cannot be followed, the prepared ones."""
    places = {str(name): j for j, name in enumerate(top.raw_names)}
    if column not in places:
        return [cell(value) for value in dense(top.prepared)[:, top.groups[column][0]]]
    j = places[column]
    if hasattr(top.X, "iloc"):
        return [cell(value) for value in top.X.iloc[:, j].tolist()]
    if hasattr(top.X, "get_column"):
        return [cell(value) for value in top.X.get_column(top.raw_names[j]).to_list()]
    return [cell(value) for value in dense(top.X)[:, j]] if _numeric(top.X) else [cell(row[j]) for row in top.X]


def _numeric(X: Any) -> bool:
    return getattr(X, "dtype", np.dtype(object)).kind in "fiub"


def is_too_much(subject: Subject, n_rows: int) -> bool:
    """Whether contributions to so many rows would take long."""
    return not has_coefficients(subject.inner) and n_rows * len(subject.groups) * len(subject.origins) > MOST_CELLS


def contributions_of(subject: Subject, some: Subject) -> Matrix:
    """Return what each raw column adds to the logit of the class of some rows, above the average row of all."""
    return contributions(subject.inner, some.prepared, subject.moments.mean, list(subject.groups.values()))


def some_rows(subject: Subject, most: int, rng: np.random.Generator) -> Columns:
    """Return at most so many rows that count, drawn without regard to labels, in order."""
    there = np.flatnonzero(subject.weight > 0)
    return there if there.size <= most else np.sort(rng.choice(there, most, replace=False))


def sample_of(subject: Subject, most: int, rng: np.random.Generator) -> Subject:
    """Return the same for some rows."""
    return subject.part(some_rows(subject, most, rng))
