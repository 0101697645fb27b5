"""A first look at a table: columns, gaps, leaks, and what the labels seem to depend on."""

import shlex
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from scarless.analysis.columns import as_pandas, column_kind, notes_on_twins
from scarless.analysis.labels import Observed, read_observed
from scarless.analysis.settings import ALL, Settings, nearest
from scarless.analysis.values import ENOUGH_AUDITS
from scarless.diagnostics.leaks import grade_leak
from scarless.models import NaiveClassifier, SAREMClassifier
from scarless.numerics.label_tests import holm, label_tests
from scarless.raw import TableClassifier
from scarless.raw.origins import Origin
from scarless.raw.preparation import table_preparation
from scarless.raw.tables import read_numbers, refuse_huge

MOST_ROWS = 20_000  # that the labelling is looked at with
LARGEST_P = 0.01  # adjusted p-value below which an attribute is named
_NOT_LOOKED_AT = ("empty", "constant", "label", "look", "audit", "id")
_TOL = 1e-6  # gain in log-likelihood per row at which a fit ends: 0.02 in all, which moves no p-value to speak of
_MANY_PIECES = 40  # prepared columns, above which two starts must do: five take a minute with 140
NOTHING = "Nothing stands out: labels do not show what class or labelling depend on."
_Look = tuple[tuple[tuple["Driver", ...], tuple["Driver", ...]], str, list[str]]


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a table."""

    name: str
    kind: str  # number, category, text, date, yes/no, empty, constant, label, look, audit
    missing: int
    distinct: int
    example: str
    remark: str = ""
    leak: bool = False

    def cells(self, n_rows: int) -> tuple[str, ...]:
        """Return the facts as they are shown in a table."""
        missing = f"{self.missing / n_rows:.0%}" if self.missing else ""
        return _short(self.name), self.kind, missing, f"{self.distinct:,}", _short(self.example), self.remark


@dataclass(frozen=True)
class Driver:
    """A column that one of two models leans on: effect of a standard deviation in log-odds, adjusted p-value."""

    name: str
    effect: float
    p_value: float
    column: str = ""  # the raw column, where `name` says which piece of it

    @property
    def raw(self) -> str:
        """The raw column's name."""
        return self.column or self.name


@dataclass(frozen=True)
class Inspection:
    """What a first look finds.

    Attributes
    ----------
    n_rows, n_labelled : int
    columns : tuple of ColumnSummary
    parts : two tuples of Driver
        A label takes two things, a positive class and a labelling. Which columns either leans on, clearest first; which
        of the two is the class the labels cannot say.
    verdict : str
        That in words.
    notes : tuple of str
    advice : tuple of str
        What makes the files slow to read; comes last.
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
        lines = ["What the labels seem to depend on (two models that see the same columns):"]
        for part, drivers in zip(("one model", "the other"), self.parts, strict=True):
            lines += [
                f"  {part}: {_short(driver.name)} ({driver.effect:+.2f} per standard deviation, p {_p(driver.p_value)})"
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
    """Look at a table before anything is fitted.

    Parameters
    ----------
    table : data frame
    label : str or list of str
        Column that says which rows are labelled; a list names columns of labels, one for each look.
    audit : str, optional
        Column with the class of rows that somebody checked.
    columns : ColumnRoles, optional
        Which columns to leave out, and which are numbers, or text, where their cells leave it open.
    pos_label : object or list of them, optional
        The value that marks a labelled row, where that is not clear, or several values.
    random_state : int, default=0
        Seed of the sample that a large table is looked at with.

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
    read, told, questions = read_numbers(table[others], number=settings.number, text=settings.text)
    table = table.assign(**{name: read[name] for name in others})
    roles = dict.fromkeys(settings.labels, "look" if settings.looks else "label") | {audit: "audit"}
    facts = tuple(_facts(table[name], found.s, role=roles.get(name, "")) for name in table.columns)
    of_no_use = {each.name for each in facts if each.kind in _NOT_LOOKED_AT or each.leak} | set(settings.exclude)
    seen = [name for name in table.columns if name not in of_no_use]
    nothing: _Look = (((), ()), "There is no column to look at.", [])
    parts, verdict, notes = _look(table[seen], found, settings.seed) if seen else nothing
    leaks = _told_leaks([each.name for each in facts if each.leak and each.name not in settings.exclude])
    notes = [*found.notes, *told, *questions, *notes_on_twins(table), *leaks, *notes]
    return Inspection(len(table), int(found.s.sum()), facts, parts, verdict, tuple(notes))


def _told_leaks(names: list[str]) -> list[str]:
    """Return what to do with columns that give the label away."""
    if not names:
        return []
    quoted = " ".join(map(shlex.quote, names))
    return [
        f"Columns that give the label away, or nearly so: {', '.join(map(repr, names))}. They are not looked at below. "
        f"What is recorded because of the label, as a treatment is, must be left out: --exclude {quoted}."
    ]


def _facts(values: Any, s: Any, *, role: str) -> ColumnSummary:
    missing, distinct = int(values.isna().sum()), int(values.nunique())
    example = "" if missing == len(values) else str(values.dropna().iloc[0])
    kind = role or column_kind(values, distinct, missing)
    leak = None if role or kind in ("empty", "constant") else grade_leak(values, s)
    remark = _remark(kind) if leak is None else leak.remark
    return ColumnSummary(str(values.name), kind, missing, distinct, example, remark, leak is not None)


def _remark(kind: str) -> str:
    return {
        "id": "every row has its own: a name of rows (--id), not an attribute (--exclude)",
        "empty": "left out",
        "constant": "left out",
    }.get(kind, "")


def _look(X: Any, observed: Observed, seed: int) -> "_Look":
    """Test which columns the labels depend on, fit two models that both see these, and see what each leans on."""
    notes = []
    if len(X) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), MOST_ROWS, replace=False))
        X, observed = X.iloc[rows], observed.of(rows)
        notes.append(f"What labels depend on is looked at with {MOST_ROWS:,} rows, drawn at random.")
    nobody: tuple[tuple[Driver, ...], tuple[Driver, ...]] = ((), ())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refuse_huge(X)
            found, n_pieces = _columns_that_matter(X, observed.s)
            if not found:
                return nobody, NOTHING, notes
            model = _pair(X[found], observed, n_starts=2 if n_pieces > _MANY_PIECES else 5, seed=seed)
            errors = model.estimator_.standard_errors()
            told = len(np.shape(observed.labels)) == 2 or int(observed.audited.sum()) >= ENOUGH_AUDITS
            two = told or _beats_one(model, X[found], observed.labels, seed)
    except (ValueError, np.linalg.LinAlgError) as error:
        return nobody, f"What the labels depend on cannot be looked at: {error}", notes
    if not two:
        return nobody, _one_thing(found), notes
    inner = model.estimator_
    one, other = _leans_on(
        ((inner.coef_[0], errors.coef[0]), (inner.propensity_coef_[0], errors.propensity_coef[0])), model.origins_ or []
    )
    return (one, other), _settled(one, other) if told else _verdict(one, other, found), notes


def _columns_that_matter(X: Any, s: Any) -> tuple[list[Any], int]:
    """Return the raw columns that the labels depend on, given the others (Holm's rule), and how many are made of them.

    A column that neither the class nor the labelling depends on leaves the labels alone, so one logistic model of the
    labels shows which columns matter. Each is tested with all that was made of it: all levels, its gaps.
    """
    model = TableClassifier(NaiveClassifier(), preparation=table_preparation(drop="first")).fit(X, s)
    pieces: dict[Any, list[int]] = {}
    for j, origin in enumerate(model.origins_ or ()):
        pieces.setdefault(origin.column, []).append(j)
    Z = np.asarray(model.prepare(X), dtype=np.float64)
    p_values = label_tests(Z, np.asarray(s, dtype=np.float64), list(pieces.values()))
    sure = {str(name) for name, p in zip(pieces, holm(p_values), strict=True) if p < LARGEST_P}
    return [name for name in X.columns if str(name) in sure], sum(len(pieces[name]) for name in pieces if name in sure)


def _pair(X: Any, observed: Observed, *, n_starts: int, seed: int) -> TableClassifier:
    """Fit two models that both see all columns."""
    pair = SAREMClassifier(propensity_attributes=ALL, n_starts=n_starts, tol=_TOL, random_state=seed)
    given = {} if observed.audit is None else {"audit": observed.audit}
    return TableClassifier(pair, preparation=table_preparation(drop="first")).fit(X, observed.labels, **given)


def _beats_one(model: TableClassifier, X: Any, s: Any, seed: int) -> bool:
    """Whether two models fit the labels better than one class with the same propensity for all: likelihood ratio."""
    alone = SAREMClassifier(propensity_attributes=None, tol=_TOL, random_state=seed).fit(model.prepare(X), s)
    gain = 2.0 * (model.estimator_.log_likelihood_ - alone.log_likelihood_)
    return bool(chi2.sf(gain, len(model.origins_ or ())) < LARGEST_P)


def _leans_on(
    models: tuple[tuple[Any, Any], tuple[Any, Any]], origins: list[Origin]
) -> tuple[tuple[Driver, ...], tuple[Driver, ...]]:
    """Return the raw columns that each of two models clearly leans on, each by its clearest piece, clearest first.

    p-values are adjusted for the number of pieces in both models, by Holm's rule.
    """
    z = np.concatenate([coef / error for coef, error in models])
    p_values = np.split(holm(2.0 * norm.sf(np.abs(z))), 2)
    found = []
    for (coef, _), p_of_model in zip(models, p_values, strict=True):
        best: dict[str | None, Driver] = {}
        for origin, effect, p in zip(origins, coef, p_of_model, strict=True):
            known = best.get(origin.column)
            if p < LARGEST_P and (known is None or p < known.p_value):
                best[origin.column] = Driver(origin.label, float(effect), float(p), str(origin.column))
        found.append(tuple(sorted(best.values(), key=lambda driver: driver.p_value)))
    return found[0], found[1]


def _settled(one: tuple[Driver, ...], other: tuple[Driver, ...]) -> str:
    """Say what either depends on, where several looks, or audits, tell which is the class."""
    parts = [list(dict.fromkeys(driver.raw for driver in part)) for part in (one, other)]
    shown = [_named(part) if part else "nothing that stands out" for part in parts]
    named = f" To learn with these: --propensity {shlex.join(parts[1])}." if parts[1] else ""
    return (
        f"Looks or audits tell which model is the class. The class (the first) depends on: {shown[0]}; the labelling "
        f"on: {shown[1]}.{named}"
    )


def _one_thing(columns: list[Any]) -> str:
    return (
        f"Only one thing is to be seen, which depends on: {_named(columns)}. Whether that is the class or "
        "the labelling, and what the other depends on, labels do not show; you may know."
    )


def _verdict(one: tuple[Driver, ...], other: tuple[Driver, ...], found: list[Any]) -> str:
    """Say what labels depend on, `found` in a test of their own, and whether the two models share it out."""
    columns = [list(dict.fromkeys(driver.raw for driver in part)) for part in (one, other)]
    if not all(columns):
        return _one_thing(found)
    if set(columns[0]) & set(columns[1]):
        both = _named(dict.fromkeys(map(str, (*columns[0], *columns[1], *found))))
        return (
            f"Labels depend on: {both}. Which of these act on the class, and which on the labelling, cannot be told "
            "from these labels; you may know."
        )
    rest = [str(name) for name in found if str(name) not in columns[0] + columns[1]]
    also = f" Labels also depend on: {_named(rest)}; by which of the two is not clear." if rest else ""
    return (
        f"A label takes a positive class and a labelling. One of them depends on: {_named(columns[0])}; the other "
        f"on: {_named(columns[1])}.{also} Labels cannot say which is which; you can. If the second is how labels "
        f"come about: --propensity {shlex.join(columns[1])}; if the first: --propensity {shlex.join(columns[0])}."
    )


def _named(names: Iterable[Any]) -> str:
    """Return names of columns for a sentence: in quotes, with commas."""
    return ", ".join(repr(str(name)) for name in names)


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """Return the cells of a row, each as wide as its column, numbers to the right."""
    cells = enumerate(zip(row[:5], widths, strict=True))
    return [cell.rjust(width) if j in (2, 3) else cell.ljust(width) for j, (cell, width) in cells]


def _short(text: str, most: int = 28) -> str:
    clean = "".join(each if each.isprintable() else " " for each in text)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"
