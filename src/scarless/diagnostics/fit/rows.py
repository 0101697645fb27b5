"""The unlabelled rows that are most probably positive, and the contributions of columns and words to their log-odds."""

import re
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.tables import take_rows
from scarless.diagnostics.audits.yields import YieldCurve, yield_curve
from scarless.diagnostics.fit.subject import Subject
from scarless.models import NaiveClassifier
from scarless.models.explaining import contributions, dense, has_coefficients
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.uncertainty import prior_shifts
from scarless.outside.plain_words import plain

N_REASONS = 3  # largest number of columns that are named for a row
SMALLEST_REASON = 0.05  # smallest contribution to the log-odds that is shown
N_WORDS = 3  # largest number of words of a text that are named
MAX_SHORT_TEXT = 3  # number of words up to which a text is shown in full
MAX_PREDICTED_CELLS = 4_000_000  # largest number of cells to predict for contributions without coefficients
YIELD_NUMBERS = (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 500, 700, 1000, 2000, 5000)  # of rows, for the yield curve
N_PRIORS = 40  # class priors within their interval, beside the estimate
MAX_ROWS_FOR_PRIORS = 50_000  # largest number of rows from which their shifts are computed
MAX_POSTERIOR_ERROR = 1e-6  # largest error of f(1-e)/(1-fe) with which the shifts apply to the posteriors of a model

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
    n_reasons: int  # number of the first rows that have reasons


def top_rows(subject: Subject, n_first: int, n_more: int = 0) -> TopRows:
    """Rank the unlabelled rows that were not audited and have a positive weight.

    The result has `n_first` rows, and `n_more` rows after them. These have no reasons if that would take too long.
    """
    by, value = _measure(subject)
    n_rows = n_first + n_more if n_first else 0
    open_ = np.flatnonzero((subject.s == 0) & (subject.weight > 0) & ~subject.audited)
    order = open_[np.argsort(-value[open_], kind="stable")[:n_rows]]
    if not order.size:
        return TopRows(by, int(open_.size), order, value[order], None, "", [], None, "", 0)
    top, first, explaining = subject.part(order), order[:n_first], subject.of_reasons
    reasons = _reasons(explaining, explaining.part(first if takes_long(explaining, order.size) else order))
    return TopRows(by, int(open_.size), order, value[order], *_intervals(top),
                   reasons + [()] * (order.size - len(reasons)) if reasons else [],
                   *_positives(subject, first.size, order.size), len(reasons))  # fmt: skip


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


def _positives(subject: Subject, n_first: int, n_rows: int) -> tuple[YieldCurve | None, str]:
    """Return the expected numbers of positives among the first rows, or the reason why there are none."""
    if not hasattr(subject.inner, "draw_posteriors"):
        return None, ""
    given: dict[str, Any] = {"audit": subject.audit, "sample_weight": subject.weights, "level": subject.level}
    numbers = sorted({n_first, n_rows, *(n for n in YIELD_NUMBERS if n < n_rows)})
    try:
        found = yield_curve(subject.inner, subject.prepared, subject.labels, n=numbers, **given)
        return replace(found, informative=found.informative and not subject.is_uninformative), ""
    except ValueError as error:  # the model has no standard errors
        return None, f"The number of positives among these rows is unknown. {plain(error)}"


# --- class priors within their interval


class ShiftedPrior(NamedTuple):
    """A class prior, and the shifts of the log-odds of class and label with which the models have that class prior."""

    share: float
    class_shift: float
    label_shift: float


def shifted_priors(subject: Subject) -> list[ShiftedPrior]:
    """Return class priors within their interval, with the shifts of both models; empty if there is no interval.

    The estimate is one of the class priors, with shifts of 0. Known propensities and false positives do not allow
    shifts, and nor do fits that have no information on unlabelled rows.
    """
    fixed = subject.propensity is not None or not subject.has_no_false_positives
    if subject.e is None or fixed or subject.is_uninformative or subject.may_be_swapped:
        return []
    interval, _ = subject.interval_of("class_prior_interval")
    estimate = float(getattr(subject.inner, "class_prior_", np.nan))
    if interval is None or not np.isfinite([estimate, *interval]).all() or not _has_usual_posteriors(subject):
        return []
    low, high = subject.prior_interval()
    if not 0 < low < high < 1 or not low <= estimate <= high:
        return []
    rows = subject.some_rows(MAX_ROWS_FOR_PRIORS, np.random.default_rng(0))
    shares = np.unique([*np.linspace(low, high, N_PRIORS), estimate])
    f, e, weight = subject.f[rows], subject.e[rows], subject.weight[rows]
    shifts = prior_shifts(f, e, weight, shares, estimate)
    return [ShiftedPrior(float(share), *map(float, shift)) for share, shift in zip(shares, shifts, strict=True)]


def _has_usual_posteriors(subject: Subject) -> bool:
    """Return whether the posterior of an unlabelled row is f(1-e)/(1-fe)."""
    rows = np.flatnonzero((subject.s == 0) & (subject.weight > 0) & ~subject.audited)
    f, e = subject.f[rows], np.asarray(subject.e)[rows]
    usual = f * (1.0 - e) / np.maximum(1.0 - f * e, 1e-300)
    return bool(np.abs(usual - subject.posterior[rows]).max(initial=0.0) <= MAX_POSTERIOR_ERROR)


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
