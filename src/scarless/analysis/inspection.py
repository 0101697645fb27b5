"""A first look at a table: columns, gaps, leaks, and what the labels seem to depend on."""

import shlex
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from scarless.analysis.answer import as_pandas
from scarless.analysis.kinds import column_kind
from scarless.analysis.leaks import tells_label
from scarless.analysis.looks import Observed, read_observed
from scarless.analysis.settings import ALL, ENOUGH_AUDITS, Settings, nearest_column
from scarless.checks.origins import Origin
from scarless.models import SAREMClassifier, TableClassifier
from scarless.models.preparation import table_preparation

_MOST_ROWS = 20_000  # that the labelling is looked at with
_LIKELY = 0.01  # adjusted p-value below which an attribute is named
_Look = tuple[tuple[tuple["Driver", ...], tuple["Driver", ...]], str, list[str]]


@dataclass(frozen=True)
class ColumnFacts:
    """One column of a table."""

    name: str
    kind: str  # number, category, text, date, yes/no, empty, constant, label, look, audit
    missing: int
    distinct: int
    example: str
    remark: str = ""

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


@dataclass(frozen=True)
class Inspection:
    """What a first look finds.

    Attributes
    ----------
    n_rows, n_labelled : int
    columns : tuple of ColumnFacts
    parts : two tuples of Driver
        A label takes two things, a positive class and a labelling. Which columns either leans on, clearest first; which
        of the two is the class the labels cannot say.
    verdict : str
        That in words.
    notes : tuple of str
    """

    n_rows: int
    n_labelled: int
    columns: tuple[ColumnFacts, ...]
    parts: tuple[tuple[Driver, ...], tuple[Driver, ...]]
    verdict: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", *self._table(), "", *self._labelling()])

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
    label: str | None = None,
    *,
    looks: Any = (),
    audit: str = "",
    positive: Any = None,
    exclude: Any = (),
    seed: int = 0,
) -> Inspection:
    """Look at a table before anything is fitted.

    Parameters
    ----------
    table : data frame
    label : str, optional
        Column that says which rows are labelled.
    looks : list of str, optional
        In place of it: columns of labels, one for each look.
    audit : str, optional
        Column with the class of rows that somebody checked.
    positive : object, optional
        The value that marks a labelled row, where that is not clear.
    exclude : list of str, optional
        Columns to leave out.
    seed : int, default=0
        Seed of the sample that a large table is looked at with.

    Returns
    -------
    Inspection
        Prints as text.
    """
    table = as_pandas(table)
    settings = Settings.from_dict(
        {"label": label or "", "looks": looks, "audit": audit, "propensity": ALL, "exclude": exclude,
         "positive": "" if positive is None else str(positive)}, source="inspect",
    )  # fmt: skip
    for name in (*settings.labels, *((audit,) if audit else ()), *settings.exclude):
        if name not in table.columns:
            raise ValueError(f"There is no column {name!r}.{nearest_column(name, list(table.columns))}")
    found = read_observed(table, settings)
    roles = dict.fromkeys(settings.looks, "look") | ({label: "label"} if label else {}) | {audit: "audit"}
    facts = tuple(_facts(table[name], found.s, role=roles.get(name, "")) for name in table.columns)
    of_no_use = {
        each.name
        for each in facts
        if each.kind in ("empty", "constant", "label", "look", "audit", "id") or "gives" in each.remark
    }
    seen = [name for name in table.columns if name not in of_no_use | set(exclude)]
    nothing: _Look = (((), ()), "There is no column to look at.", [])
    parts, verdict, notes = _look(table[seen], found, seed) if seen else nothing
    return Inspection(len(table), int(found.s.sum()), facts, parts, verdict, (*found.notes, *notes))


def _facts(values: Any, s: Any, *, role: str) -> ColumnFacts:
    missing, distinct = int(values.isna().sum()), int(values.nunique())
    example = "" if missing == len(values) else str(values.dropna().iloc[0])
    kind = role or column_kind(values, distinct, missing)
    leak = None if role else tells_label(values, s)
    remark = f"gives the label away: {leak}" if leak else _remark(kind)
    return ColumnFacts(str(values.name), kind, missing, distinct, example, remark)


def _remark(kind: str) -> str:
    return {
        "id": "every row has its own: a name of rows (--id), not an attribute (--exclude)",
        "empty": "left out",
        "constant": "left out",
    }.get(kind, "")


def _look(X: Any, observed: Observed, seed: int) -> "_Look":
    """Fit two models that both see everything, and see what each leans on."""
    notes = []
    if len(X) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), _MOST_ROWS, replace=False))
        X, observed = X.iloc[rows], observed.of(rows)
        notes.append(f"What labels depend on is looked at with {_MOST_ROWS:,} rows, drawn at random.")
    model = TableClassifier(
        SAREMClassifier(propensity_attributes=ALL, n_starts=5, random_state=seed),
        preparation=table_preparation(drop="first"),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = {} if observed.audit is None else {"audit": observed.audit}
            errors = model.fit(X, observed.labels, **given).estimator_.standard_errors()
    except (ValueError, np.linalg.LinAlgError) as error:
        return ((), ()), f"What the labels depend on cannot be looked at: {error}", notes
    inner, origins = model.estimator_, model.origins_ or []
    one, other = (
        _leans_on(coef[0], error[0], origins)
        for coef, error in ((inner.coef_, errors.coef), (inner.propensity_coef_, errors.propensity_coef))
    )
    told = len(np.shape(observed.labels)) == 2 or int(observed.audited.sum()) >= ENOUGH_AUDITS
    return (one, other), _settled(one, other) if told else _verdict(one, other), notes


def _leans_on(coef: Any, error: Any, origins: list[Origin]) -> tuple[Driver, ...]:
    """Return the raw columns that a model clearly leans on, each by its clearest piece, clearest column first."""
    best: dict[str | None, Driver] = {}
    p_values = np.minimum(2.0 * norm.sf(np.abs(coef) / error) * len(origins), 1.0)  # for the number of pieces
    for origin, effect, p in zip(origins, coef, p_values, strict=True):
        known = best.get(origin.column)
        if p < _LIKELY and (known is None or p < known.p_value):
            best[origin.column] = Driver(origin.label, float(effect), float(p))
    return tuple(sorted(best.values(), key=lambda driver: driver.p_value))


def _settled(one: tuple[Driver, ...], other: tuple[Driver, ...]) -> str:
    """Say what either depends on, where several looks, or audits, tell which is the class."""
    parts = [list(dict.fromkeys(driver.name.split(" = ")[0] for driver in part)) for part in (one, other)]
    shown = [" ".join(part) if part else "nothing that stands out" for part in parts]
    named = f" To learn with these: --propensity {shlex.join(parts[1])}." if parts[1] else ""
    return (
        f"Looks or audits tell which model is the class. The class (the first) depends on: {shown[0]}; the labelling "
        f"on: {shown[1]}.{named}"
    )


def _verdict(one: tuple[Driver, ...], other: tuple[Driver, ...]) -> str:
    columns = [list(dict.fromkeys(driver.name.split(" = ")[0] for driver in part)) for part in (one, other)]
    if not any(columns):
        return "Nothing stands out: labels do not show what class or labelling depend on."
    if not all(columns):
        seen = " ".join(columns[0] or columns[1])
        return (
            f"Only one thing is to be seen, which depends on: {seen}. Whether that is the class or the labelling, and "
            "what the other depends on, labels do not show; you may know."
        )
    if set(columns[0]) & set(columns[1]):
        both = " ".join(dict.fromkeys(columns[0] + columns[1]))
        return (
            f"Labels depend on: {both}. Which of these act on the class, and which on the labelling, cannot be told "
            "from these labels; you may know."
        )
    return (
        f"A label takes a positive class and a labelling. One of them depends on: {' '.join(columns[0])}; the other "
        f"on: {' '.join(columns[1])}. Labels cannot say which is which; you can. If the second is how labels come "
        f"about: --propensity {shlex.join(columns[1])}; if the first: --propensity {shlex.join(columns[0])}."
    )


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """Return the cells of a row, each as wide as its column, numbers to the right."""
    cells = enumerate(zip(row[:5], widths, strict=True))
    return [cell.rjust(width) if j in (2, 3) else cell.ljust(width) for j, (cell, width) in cells]


def _short(text: str, most: int = 28) -> str:
    clean = "".join(each if each.isprintable() else " " for each in text)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"
