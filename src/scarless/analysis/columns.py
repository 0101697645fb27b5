"""The columns of a raw table: what each holds, which of them the models see, and cells that must be numbers."""

import re
import shlex
from typing import Any

import numpy as np

from scarless.analysis.settings import Settings
from scarless.checks.attributes import with_text_names
from scarless.checks.options import check_counts
from scarless.diagnostics.leaks import Leak, find_leaks, settle_leaks
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.pair.groups import HEAVY
from scarless.raw.tables import read_numbers
from scarless.scale.raw_columns import MOST_LEVELS

FEWEST_ROWS_FOR_IDS = 20  # rows, below which numbers may differ, or be in order, by chance
EXPECTED_TIES = 10.0  # pairs of equal values, of which there are none
EVEN_CORRELATION = 0.99  # with the row's position; sorted normal values have .98, sorted incomes less
PAIRS_BY_CHANCE = 0.05  # pairs of equal rows that chance may make where copies are told of
_NAME_OF_ROWS = re.compile(r"(?i:(?:^|[_\W])(?:id|nr|no|number|key|mrn)$)|[a-z](?:Id|ID|Nr|No|Number|Key)$")


def as_pandas(table: Any) -> Any:
    """Return a data frame of pandas; others are converted, arrays refused."""
    pandas = need("pandas", "analyse", "tool")
    if isinstance(table, pandas.DataFrame):
        return with_text_names(table)
    if hasattr(table, "to_pandas"):
        return table.to_pandas()
    raise TypeError(f"analyse takes a data frame with named columns, got {type(table).__name__}.")


def with_numbers(table: Any, features: list[str], settings: Settings) -> tuple[Any, list[str]]:
    """Return a table whose columns that are numbers but for a few cells hold numbers, and notes; raise a question."""
    read, notes, questions = read_numbers(table[features], number=settings.number, text=settings.text)
    if questions:
        raise ValueError(questions[0])
    return table.assign(**{name: read[name] for name in features}) if notes or settings.text else table, notes


# --- what a column holds


def column_kind(values: Any, distinct: int, missing: int) -> str:
    """Return what a column holds: number, category, text, date, yes/no, id, constant, empty."""
    if distinct <= 1 and not (distinct and missing):
        return "constant" if distinct else "empty"
    if values.dtype.kind in "fiu":
        return "id" if distinct == len(values) and names_rows(values.to_numpy(), str(values.name)) else "number"
    if values.dtype.kind == "M":
        return "date"
    if values.dtype.kind == "b" or str(values.dtype) == "boolean":
        return "yes/no"
    if distinct <= MOST_LEVELS:
        return "category"
    return "id" if distinct == len(values) - missing else "text"


def names_rows(values: Any, name: str = "") -> bool:
    """Whether numbers that all differ name the rows, as a patient's number does, with or without gaps.

    They are whole, and one of these holds. They count the rows. A measurement with so many values in so short a range
    would have at least ten ties, whatever its distribution (a uniform one has the fewest). They rise, or fall, evenly
    from row to row. The column is called an id or a number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> numbers = np.cumsum(rng.integers(1, 4, 500))
    >>> names_rows(rng.permutation(numbers)), names_rows(rng.normal(size=500)), names_rows(np.exp2(np.arange(20)))
    (True, False, False)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        return False
    steps, n = np.diff(numbers), numbers.size
    if (steps == 1).all():
        return True
    if n < FEWEST_ROWS_FOR_IDS:
        return False
    ties = n * (n - 1) / 2 / (np.ptp(numbers) + 1.0)
    if ties >= EXPECTED_TIES or _NAME_OF_ROWS.search(name):
        return True
    in_order = bool((steps > 0).all() or (steps < 0).all())
    return in_order and abs(float(np.corrcoef(numbers, np.arange(n))[0, 1])) > EVEN_CORRELATION


def notes_on_twins(table: Any, id: str = "", groups: str = "") -> list[str]:
    """Return what to say of ids that are there more than once, and of rows that are copies of others.

    Rows of a table with few values in few columns are alike by chance: copies are told of only where chance, with
    columns independent of each other, would make less than a twentieth of a pair.
    """
    notes = []
    if id:
        ids = table[id]
        again = (ids.duplicated(keep=False) & ids.notna()).to_numpy()
        if again.any():
            name = ids[again].iloc[0]
            rows = ", ".join(str(row + 1) for row in np.flatnonzero((ids == name).to_numpy())[:3])
            advice = "" if groups else f" If they are rows of the same patient or thing, say so: --groups {id}."
            notes.append(
                f"The id {id!r} is not unique: {int(again.sum()):,} rows share theirs with another row (the first is "
                f"{str(name)!r}, rows {rows}; rows are counted from 1).{advice}"
            )
    copies = table.duplicated().to_numpy()
    if copies.any() and _expected_pairs(table) < PAIRS_BY_CHANCE:
        first = int(np.flatnonzero(copies)[0])
        number = f"{int(copies.sum()):,} rows are copies" if copies.sum() > 1 else "1 row is a copy"
        notes.append(
            f"{number} of an earlier row in every column (the first is row {first + 1}, counted from 1). Each of them "
            "counts. If they were entered twice, drop them: intervals are too narrow with them."
        )
    return notes


def _expected_pairs(table: Any) -> float:
    """Return how many pairs of equal rows chance would make, if columns were independent."""
    n = len(table)
    alike = [float(np.square(table[name].value_counts(normalize=True, dropna=False)).sum()) for name in table.columns]
    return 0.5 * n * (n - 1) * float(np.prod(alike))


def row_names(X: Any) -> list[str]:
    """Return the columns whose value is another one in every row, as an id's is, and no measurement's."""
    return [
        name for name in X.columns if column_kind(X[name], int(X[name].nunique()), int(X[name].isna().sum())) == "id"
    ]


# --- which of them the models see


def choose_features(table: Any, settings: Settings, s: Any) -> tuple[list[str], list[str], tuple[Leak, ...]]:
    """Return the columns that models see, what to say of ids and leaks, and those leaks that stay."""
    features, notes = settings.features(list(table.columns)), []
    named = {*settings.propensity_attributes, *settings.classification_attributes, *settings.visit_columns}
    for name in row_names(table[features]):
        like = f"Column {name!r} is another one in every row, as an id is"
        if name not in named:
            features.remove(name)
            notes.append(f"{like}: left out (--id {shlex.quote(name)} shows it).")
        elif name not in settings.visit_columns:
            option = "--propensity" if name in settings.propensity_attributes else "--classification-attributes"
            notes.append(
                f"{like}. It is kept, as {option} names it. If it only names the rows, it drives neither class nor "
                f"labelling: take it out of {option}."
            )
    seen = [name for name in features if name not in settings.visit_columns]
    leaks = find_leaks(table[seen], s)
    left_out, told = settle_leaks(leaks, named)
    features = [name for name in features if name not in left_out]
    if not features:
        raise ValueError(f"No column is left for the models to see. {' '.join(told)}")
    return features, [*notes, *told], tuple(leak for leak in leaks if leak.column in features)


def seen_levels(X: Any) -> dict[str, list[str]]:
    """Return the values of columns of categories, to tell new ones."""
    text = [name for name in X.columns if X[name].dtype.kind not in "fiubM"]
    found = {str(name): sorted(X[name].dropna().astype(str).unique()) for name in text}
    return {name: levels for name, levels in found.items() if len(levels) <= MOST_LEVELS}


def fit_params(table: Any, settings: Settings, s: Any) -> dict[str, Any]:
    """Return weights, propensities and groups of the rows, checked, so that bad cells are told before any work."""
    found: dict[str, Any] = {}
    if settings.sample_weight:
        found["sample_weight"] = _weights(table[settings.sample_weight], settings.sample_weight, s)
    if settings.known_propensity:
        found["propensity"] = _propensities(table[settings.known_propensity], settings.known_propensity)
    if settings.groups:
        gaps = np.flatnonzero(table[settings.groups].isna().to_numpy())
        if gaps.size:
            raise ValueError(
                f"Column {settings.groups!r} (--groups) has {gaps.size:,} missing values, the first in row "
                f"{gaps[0] + 1} (counted from 1). Give such rows a group of their own, or drop them."
            )
        found["groups"] = table[settings.groups].to_numpy()
    elif settings.sample_weight and not settings.takes_no_groups and found["sample_weight"].mean() > HEAVY:
        found["groups"] = "rows"
    return found


def _weights(values: Any, name: str, s: Any) -> Vector:
    """Return weights that are finite, at least 0, and not 0 for all labelled rows or all others."""
    weight = _numbers(values, name, "--sample-weight")
    bad = ~((weight >= 0) & (weight < np.inf))
    if bad.any():
        raise _bad_cells(values, name, "--sample-weight", bad, "must hold finite numbers of at least 0")
    labelled = np.asarray(s) == 1
    for rows, kind in ((labelled, "labelled"), (~labelled, "unlabelled")):
        if rows.any() and not weight[rows].any():
            raise ValueError(
                f"Column {name!r} (--sample-weight) is 0 for every {kind} row; at least one of them must count."
            )
    try:
        check_counts(weight, n_rows=weight.size)
    except ValueError as error:
        raise ValueError(f"Column {name!r} (--sample-weight): {error}") from error
    return weight


def _propensities(values: Any, name: str) -> Vector:
    """Return propensities above 0 and up to 1."""
    e = _numbers(values, name, "--known-propensity")
    bad = ~((e > 0) & (e <= 1))
    if bad.any():
        raise _bad_cells(values, name, "--known-propensity", bad, "must hold probabilities above 0 and up to 1")
    return e


def _numbers(values: Any, name: str, option: str) -> Vector:
    """Return a column as numbers, or say which cell is none."""
    if values.isna().any():
        first = int(np.flatnonzero(values.isna().to_numpy())[0])
        raise ValueError(
            f"Column {name!r} ({option}) has {int(values.isna().sum()):,} missing values, the first in row {first + 1} "
            "(counted from 1). Fill them, or drop the rows."
        )
    if values.dtype.kind not in "fiu":
        unread = need("pandas", "analyse", "tool").to_numeric(values, errors="coerce").isna().to_numpy(dtype=bool)
        raise _bad_cells(values, name, option, unread if unread.any() else ~unread, "must hold numbers")
    return np.asarray(values.to_numpy(dtype=np.float64))


def _bad_cells(values: Any, name: str, option: str, bad: Any, what: str) -> ValueError:
    """Return an error that names the column, how many cells of it are wrong, and the first of them."""
    rows = np.flatnonzero(bad)
    return ValueError(
        f"Column {name!r} ({option}) {what}; {rows.size:,} of {len(values):,} rows do not, the first is row "
        f"{rows[0] + 1} (counted from 1) with {str(values.iloc[rows[0]])[:40]!r}. Correct these cells, or drop the "
        "rows."
    )
