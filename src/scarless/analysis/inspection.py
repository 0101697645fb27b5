"""An overview of a table: its columns, columns that leak the label, and the columns that labels depend on."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from scarless.analysis.columns import as_pandas, column_kind, notes_on_both_labels, notes_on_duplicates
from scarless.analysis.labels import ObservedLabels, read_observed
from scarless.analysis.settings import ALL, Settings, nearest
from scarless.analysis.values import ENOUGH_AUDITS
from scarless.models import NaiveClassifier, SAREMClassifier
from scarless.numerics.label_tests import holm, label_tests
from scarless.outside.shell_words import quoted_words
from scarless.raw import TableClassifier
from scarless.raw.leaks import grade_leak
from scarless.raw.origins import Origin
from scarless.raw.preparation import table_preparation
from scarless.raw.tables import read_texts, refuse_huge, replaced

MAX_ROWS = 20_000  # rows that the models of an inspection are fitted to; a larger table is sampled
MAX_P_VALUE = 0.01  # adjusted p-value below which a column is named
_KINDS_NOT_TESTED = ("empty", "constant", "label", "look", "audit", "id")
# Gain in log-likelihood per row at which a fit ends: at most 0.02 in total, which hardly changes a p-value.
_TOL = 1e-6
#: A column counts as one of a single model only if its effect in the other model is clearly smaller than this share of
#: its effect. By judgement.
MAX_SHARE_ELSEWHERE = 0.5
_ELSEWHERE_Z = 2.576  # standard errors of an effect that may exist, although no test finds it
# With more prepared columns, 2 starts are used instead of 5, which take a minute with 140 columns.
_MAX_COLUMNS_FOR_FIVE_STARTS = 40
NOTHING_FOUND = "No column stands out: the labels do not show what the class or the labelling depends on."
_Finding = tuple[tuple[tuple["Driver", ...], tuple["Driver", ...]], str, list[str]]


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a table."""

    name: str
    kind: str  # number, category, text, date, yes/no, id, empty, constant, label, look, audit
    missing: int
    distinct: int
    example: str
    remark: str = ""
    leak: bool = False

    def cells(self, n_rows: int) -> tuple[str, ...]:
        """Return the cells of this column's line in the printed table."""
        missing = f"{self.missing / n_rows:.0%}" if self.missing else ""
        return _short(self.name), self.kind, missing, f"{self.distinct:,}", _short(self.example), self.remark


@dataclass(frozen=True)
class Driver:
    """A column that one of the two models depends on."""

    name: str
    effect: float  # change of the log-odds per standard deviation
    p_value: float  # adjusted for the number of tests
    column: str = ""  # the raw column, if `name` also names a category
    is_elsewhere: bool = False  # whether the other model clearly depends on the column too, or may do so as well

    @property
    def raw(self) -> str:
        """The name of the raw column."""
        return self.column or self.name


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect_table`; prints as text.

    Attributes
    ----------
    n_rows, n_labelled : int
    columns : tuple of ColumnSummary
    parts : two tuples of Driver
        The columns that each of two models depends on, the smallest p-value first. A row is labelled only if it is
        positive and someone recorded it, so one model describes the class and the other describes the labelling. The
        labels do not determine which of the two is the class model.
    verdict : str
        The conclusion in words.
    notes : tuple of str
    advice : tuple of str
        Reasons why the files are slow to read.
    """

    n_rows: int
    n_labelled: int
    columns: tuple[ColumnSummary, ...]
    parts: tuple[tuple[Driver, ...], tuple[Driver, ...]]
    verdict: str
    notes: tuple[str, ...]
    advice: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = ["", *self.advice] if self.advice else []
        return "\n".join([*self._head(), "", *self._table(), "", *self._labelling(), *files])

    def _head(self) -> list[str]:
        share = f"{self.n_labelled / self.n_rows:.1%}"
        rows = f"{self.n_rows:,} rows, {len(self.columns)} columns; {self.n_labelled:,} rows are labelled ({share})."
        return [rows, *self.notes]

    def _table(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("column", "kind", "missing", "distinct", "example", "")]
        rows += [each.cells(self.n_rows) for each in self.columns]
        widths = [max(len(row[j]) for row in rows) for j in range(5)]
        return ["  ".join([*_aligned(row, widths), row[5]]).rstrip() for row in rows]

    def _labelling(self) -> list[str]:
        lines = ["Columns that the labels depend on, according to two models that use the same columns:"]
        for part, drivers in zip(("model 1", "model 2"), self.parts, strict=True):
            lines += [
                f"  {part}: {_short(driver.name)} (log-odds {driver.effect:+.2f} per standard deviation, "
                f"p {_p(driver.p_value)})"
                for driver in drivers[:8]
            ]
        return [*lines, self.verdict]


def inspect_table(
    table: Any,
    label: Any = None,
    *,
    audit: str = "",
    columns: Any = None,
    pos_label: Any = None,
    random_state: int = 0,
) -> Inspection:
    """Return an overview of a table: its columns, leaks, and the columns that labels depend on.

    Parameters
    ----------
    table : data frame
        Raw table.
    label : str or list of str
        Label column; a list names one label column for each look.
    audit : str, optional
        Column with the true class of audited rows.
    columns : ColumnRoles, optional
        Columns to leave out, and columns to read as numbers or text.
    pos_label : object or list of objects, optional
        Value, or values, that mark a labelled row. Not needed for 1/0, yes/no and the like.
    random_state : int, default=0
        Seed of the random numbers; a sample of a large table is used.

    Returns
    -------
    Inspection
        Prints as text.
    """
    table = as_pandas(table)
    options: dict[str, Any] = {"columns": columns, "pos_label": pos_label, "random_state": random_state}
    settings = Settings.of_call(label=label, audit=audit, propensity_attributes=ALL, **options)
    for name in (*settings.labels, *((audit,) if audit else ()), *settings.exclude, *settings.number, *settings.text):
        if name not in table.columns:
            raise ValueError(f"There is no column {name!r}.{nearest(name, list(table.columns))}")
    found = read_observed(table, settings)
    others = [name for name in table.columns if name not in settings.aside]
    read, text_notes, questions = read_texts(table[others], number=settings.number, text=settings.text)
    table = replaced(table, {name: read[name] for name in others})
    roles = dict.fromkeys(settings.labels, "look" if settings.looks else "label") | {audit: "audit"}
    summaries = tuple(_summary(table[name], found.s, role=roles.get(name, "")) for name in table.columns)
    unused = {each.name for each in summaries if each.kind in _KINDS_NOT_TESTED or each.leak} | set(settings.exclude)
    seen = [name for name in table.columns if name not in unused]
    nothing: _Finding = (((), ()), "There is no column left to test.", [])
    parts, verdict, notes = _find_drivers(table[seen], found, settings.seed) if seen else nothing
    leaks = _leak_notes([each.name for each in summaries if each.leak and each.name not in settings.exclude])
    duplicates = [*notes_on_duplicates(table), *notes_on_both_labels(table, found.s, seen)]
    notes = [*found.notes, *text_notes, *questions, *duplicates, *leaks, *notes]
    return Inspection(len(table), int(found.s.sum()), summaries, parts, verdict, tuple(notes))


def _leak_notes(names: list[str]) -> list[str]:
    """Return advice for columns that leak the label."""
    if not names:
        return []
    return [
        f"These columns determine the label, or nearly determine it: {', '.join(map(repr, names))}. They are left out "
        "of the models below. If they were filled in after the label was known, such as a treatment, leave them out of "
        f"the fit: --exclude {quoted_words(names)}."
    ]


def _summary(values: Any, s: Any, *, role: str) -> ColumnSummary:
    missing, distinct = int(values.isna().sum()), int(values.nunique())
    example = "" if missing == len(values) else str(values.dropna().iloc[0])
    kind = role or column_kind(values, distinct, missing)
    leak = None if role or kind in ("empty", "constant") else grade_leak(values, s)
    remark = _remark(kind) if leak is None else leak.remark
    return ColumnSummary(str(values.name), kind, missing, distinct, example, remark, leak is not None)


def _remark(kind: str) -> str:
    return {
        "id": "all values differ: probably an identifier; use --id or --exclude",
        "empty": "left out",
        "constant": "left out",
    }.get(kind, "")


def _find_drivers(X: Any, observed: ObservedLabels, seed: int) -> "_Finding":
    """Find the columns that the labels depend on, fit two models to them, and find the columns of each model."""
    notes = []
    if len(X) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), MAX_ROWS, replace=False))
        X, observed = X.iloc[rows], observed.of(rows)
        notes.append(f"The columns that labels depend on are found with {MAX_ROWS:,} rows, drawn at random.")
    no_drivers: tuple[tuple[Driver, ...], tuple[Driver, ...]] = ((), ())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refuse_huge(X)
            found, n_pieces = _columns_that_matter(X, observed.s)
            if not found:
                return no_drivers, NOTHING_FOUND, notes
            model = _pair(X[found], observed, n_starts=2 if n_pieces > _MAX_COLUMNS_FOR_FIVE_STARTS else 5, seed=seed)
            errors = model.estimator_.standard_errors()
            identified = len(np.shape(observed.labels)) == 2 or int(observed.audited.sum()) >= ENOUGH_AUDITS
            two = identified or _two_models_fit_better(model, X[found], observed.labels, seed)
    except (ValueError, np.linalg.LinAlgError) as error:
        return no_drivers, f"The columns that labels depend on could not be found: {error}", notes
    if not two:
        return no_drivers, _one_model(found), notes
    inner = model.estimator_
    one, other = _drivers(
        ((inner.coef_[0], errors.coef[0]), (inner.propensity_coef_[0], errors.propensity_coef[0])), model.origins_ or []
    )
    return (one, other), _identified_verdict(one, other) if identified else _verdict(one, other, found), notes


def _columns_that_matter(X: Any, s: Any) -> tuple[list[Any], int]:
    """Return the raw columns that the labels depend on, given the others, and the number of their prepared columns.

    If neither the class nor the labelling depends on a column, the labels do not either, so one logistic model of the
    labels shows which columns matter. All prepared columns of a raw column are tested together. Holm's method adjusts
    the p-values.
    """
    model = TableClassifier(NaiveClassifier(), preparation=table_preparation(drop="first")).fit(X, s)
    pieces: dict[Any, list[int]] = {}
    for j, origin in enumerate(model.origins_ or ()):
        pieces.setdefault(origin.column, []).append(j)
    Z = np.asarray(model.prepare(X), dtype=np.float64)
    p_values = label_tests(Z, np.asarray(s, dtype=np.float64), list(pieces.values()))
    clear = {str(name) for name, p in zip(pieces, holm(p_values), strict=True) if p < MAX_P_VALUE}
    n_pieces = sum(len(pieces[name]) for name in pieces if name in clear)
    return [name for name in X.columns if str(name) in clear], n_pieces


def _pair(X: Any, observed: ObservedLabels, *, n_starts: int, seed: int) -> TableClassifier:
    """Return two fitted models that both use all columns."""
    pair = SAREMClassifier(propensity_attributes=ALL, n_starts=n_starts, tol=_TOL, random_state=seed)
    given = {} if observed.audit is None else {"audit": observed.audit}
    return TableClassifier(pair, preparation=table_preparation(drop="first")).fit(X, observed.labels, **given)


def _two_models_fit_better(model: TableClassifier, X: Any, s: Any, seed: int) -> bool:
    """Whether two models fit the labels better than a constant propensity, by a likelihood-ratio test."""
    alone = SAREMClassifier(propensity_attributes=None, tol=_TOL, random_state=seed).fit(model.prepare(X), s)
    gain = 2.0 * (model.estimator_.log_likelihood_ - alone.log_likelihood_)
    return bool(chi2.sf(gain, len(model.origins_ or ())) < MAX_P_VALUE)


def _drivers(
    models: tuple[tuple[Any, Any], tuple[Any, Any]], origins: list[Origin]
) -> tuple[tuple[Driver, ...], tuple[Driver, ...]]:
    """Return the raw columns that each of two models clearly depends on, the smallest p-value first.

    Each raw column is represented by its prepared column with the smallest p-value. Holm's method adjusts the p-values
    for the number of prepared columns in both models.
    """
    z = np.concatenate([coef / error for coef, error in models])
    p_values = np.split(holm(2.0 * norm.sf(np.abs(z))), 2)
    found = []
    for (coef, _), p_of_model, (other, error) in zip(models, p_values, models[::-1], strict=True):
        elsewhere = _largest(np.abs(other) + _ELSEWHERE_Z * error, origins)
        here = _largest(np.abs(coef), origins)
        best: dict[str | None, Driver] = {}
        for origin, effect, p in zip(origins, coef, p_of_model, strict=True):
            name, known = str(origin.column), best.get(origin.column)
            if p < MAX_P_VALUE and (known is None or p < known.p_value):
                is_elsewhere = elsewhere[name] >= MAX_SHARE_ELSEWHERE * here[name]
                best[origin.column] = Driver(origin.label, float(effect), float(p), name, is_elsewhere)
        found.append(tuple(sorted(best.values(), key=lambda driver: driver.p_value)))
    return found[0], found[1]


def _largest(values: Any, origins: list[Origin]) -> dict[str, float]:
    """Return the largest value among the prepared columns of each raw column."""
    largest: dict[str, float] = {}
    for origin, value in zip(origins, values, strict=True):
        largest[str(origin.column)] = max(float(value), largest.get(str(origin.column), 0.0))
    return largest


def _identified_verdict(one: tuple[Driver, ...], other: tuple[Driver, ...]) -> str:
    """Return the verdict if several looks, or audits, determine which model is the class model."""
    parts = [list(dict.fromkeys(driver.raw for driver in part)) for part in (one, other)]
    shown = [_named(part) if part else "no column that stands out" for part in parts]
    flag = f" To fit with these columns: --propensity {quoted_words(parts[1])}." if parts[1] else ""
    return (
        "The looks or audits determine which model is the class model. The class (model 1) depends on: "
        f"{shown[0]}. The labelling (model 2) depends on: {shown[1]}.{_perhaps_in_both(one, other)}{flag}"
    )


def _perhaps_in_both(one: tuple[Driver, ...], other: tuple[Driver, ...]) -> str:
    """Return which columns of a single model may drive both the class and the labelling; empty if there are none."""
    both = {driver.raw for driver in one} & {driver.raw for driver in other}
    columns = dict.fromkeys(driver.raw for driver in (*one, *other) if driver.is_elsewhere and driver.raw not in both)
    if not columns:
        return ""
    return (
        f" These columns may act in both models, and so drive both the class and the labelling: {_named(columns)}. The "
        "rows do not determine this."
    )


def _one_model(columns: list[Any]) -> str:
    return (
        f"A single model explains the labels. It depends on: {_named(columns)}. The labels do not show whether this "
        "model describes the class or the labelling. If you know which columns drive the labelling, name them with "
        "--propensity."
    )


def _verdict(one: tuple[Driver, ...], other: tuple[Driver, ...], found: list[Any]) -> str:
    """Return the verdict on the columns that the labels depend on; `found` lists all of these columns."""
    columns = [list(dict.fromkeys(driver.raw for driver in part)) for part in (one, other)]
    if not all(columns):
        return _one_model(found)
    if set(columns[0]) & set(columns[1]):
        both = _named(dict.fromkeys(map(str, (*columns[0], *columns[1], *found))))
        return (
            f"The labels depend on: {both}. The labels do not show which of these columns drive the class, and which "
            "drive the labelling. If you know which columns drive the labelling, name them with --propensity."
        )
    rest = [str(name) for name in found if str(name) not in columns[0] + columns[1]]
    also = f" The labels also depend on: {_named(rest)}. It is not clear in which model." if rest else ""
    return (
        "A row is labelled only if it is positive and someone recorded it. One model therefore describes the class, "
        f"and the other describes the labelling. Model 1 depends on: {_named(columns[0])}. Model 2 depends on: "
        f"{_named(columns[1])}.{_perhaps_in_both(one, other)}{also} "
        "The labels cannot show which model describes the labelling, but you may know. If "
        f"model 1 describes the labelling, use --propensity {quoted_words(columns[0])}. If model 2 describes the "
        f"labelling, use --propensity {quoted_words(columns[1])}."
    )


def _named(names: Iterable[Any]) -> str:
    """Return column names in quotes, separated by commas."""
    return ", ".join(repr(str(name)) for name in names)


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """Return the cells of a row, padded to the widths of their columns."""
    cells = enumerate(zip(row[:5], widths, strict=True))
    return [cell.rjust(width) if j in (2, 3) else cell.ljust(width) for j, (cell, width) in cells]


def _short(text: str, most: int = 28) -> str:
    clean = "".join(each if each.isprintable() else " " for each in text)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"
