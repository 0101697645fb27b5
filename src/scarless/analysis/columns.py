"""The columns of a raw table: their kinds, the columns that the models use, and columns that must be numeric."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from scarless.analysis.labels import PROBABILITY, ObservedLabels
from scarless.analysis.settings import Settings
from scarless.checks.attributes import with_text_names
from scarless.checks.options import MAX_MEAN_COUNT_WEIGHT, check_counts
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.outside.plain_words import plain
from scarless.outside.shell_words import quoted
from scarless.raw.dates import holds_written_dates
from scarless.raw.leaks import (
    Leak,
    columns_to_leave_out,
    find_leaks,
    find_never_labelled,
    notes_on_never_labelled,
)
from scarless.raw.tables import read_texts, replaced
from scarless.scale.raw_columns import MAX_CATEGORIES

MIN_ROWS_FOR_IDS = 20  # With fewer rows, numbers may be distinct or sorted by chance.
# Unique whole numbers are an id if a measurement in their range would have at least this many ties.
MIN_EXPECTED_TIES = 10.0
# Correlation with the row position above which sorted numbers are an id; sorted normal values have 0.98, incomes less.
MIN_ID_CORRELATION = 0.99
MAX_PAIRS_BY_CHANCE = 0.05  # Duplicate rows are reported if fewer pairs of equal rows than this are expected.
_ID_COLUMN_NAME = re.compile(r"(?i:(?:^|[_\W])(?:id|nr|no|number|key|mrn)$)|[a-z](?:Id|ID|Nr|No|Number|Key)$")


def as_pandas(table: Any) -> Any:
    """Return a pandas data frame; convert other data frames, and raise for arrays."""
    pandas = need("pandas", "analyse", "tool")
    if isinstance(table, pandas.DataFrame):
        return with_text_names(table)
    if hasattr(table, "to_pandas"):
        return table.to_pandas()
    raise TypeError(
        f"table must be a data frame with named columns; got {type(table).__name__}. Convert it, for example with "
        "pandas.DataFrame(table, columns=[...])."
    )


def with_texts_read(table: Any, features: list[str], settings: Settings) -> tuple[Any, list[str]]:
    """Return a table in which numbers and dates that are written as text are read, and notes on their cells.

    Raise if a column may hold numbers or text.
    """
    given = table[features]
    read, notes, questions = read_texts(given, number=settings.number, text=settings.text)
    if questions:
        raise ValueError(questions[0])
    return table if read is given else replaced(table, {name: read[name] for name in features}), notes


# --- kinds of columns


def column_kind(values: Any, distinct: int, missing: int) -> str:
    """Return the kind of a column: number, category, text, date, yes/no, id, constant or empty."""
    if distinct <= 1 and not (distinct and missing):
        return "constant" if distinct else "empty"
    if values.dtype.kind in "fiu":
        return "id" if distinct == len(values) and are_ids(values.to_numpy(), str(values.name)) else "number"
    if values.dtype.kind == "M" or holds_written_dates(values):
        return "date"
    if values.dtype.kind == "b" or str(values.dtype) == "boolean":
        return "yes/no"
    if distinct <= MAX_CATEGORIES:
        return "category"
    return "id" if distinct == len(values) - missing else "text"


def are_ids(values: Any, name: str = "") -> bool:
    """Whether unique numbers identify the rows, like patient numbers.

    They must be whole numbers, and one of these conditions must hold:

    - they increase by 1 from row to row;
    - a measurement with so many values in this range would have at least ten ties, whatever its distribution (a uniform
      distribution has the fewest);
    - they increase, or decrease, evenly from row to row;
    - the column is called an id or a number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> numbers = np.cumsum(rng.integers(1, 4, 500))
    >>> are_ids(rng.permutation(numbers)), are_ids(rng.normal(size=500)), are_ids(np.exp2(np.arange(20)))
    (True, False, False)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        return False
    steps, n = np.diff(numbers), numbers.size
    if (steps == 1).all():
        return True
    if n < MIN_ROWS_FOR_IDS:
        return False
    ties = n * (n - 1) / 2 / (np.ptp(numbers) + 1.0)
    if ties >= MIN_EXPECTED_TIES or _ID_COLUMN_NAME.search(name):
        return True
    in_order = bool((steps > 0).all() or (steps < 0).all())
    return in_order and abs(float(np.corrcoef(numbers, np.arange(n))[0, 1])) > MIN_ID_CORRELATION


def notes_on_duplicates(table: Any, id: str = "", groups: str = "") -> list[str]:
    """Return notes on empty rows, duplicate ids and duplicate rows.

    In a table with few columns and few distinct values, rows are equal by chance. Duplicate rows are reported only if
    fewer than 0.05 pairs are expected by chance with independent columns.
    """
    notes = []
    if id:
        ids = table[id]
        again = (ids.duplicated(keep=False) & ids.notna()).to_numpy()
        if again.any():
            name = ids[again].iloc[0]
            rows = ", ".join(str(row + 1) for row in np.flatnonzero((ids == name).to_numpy())[:3])
            advice = "" if groups else f" If such rows belong together, for example to one patient, use --groups {id}."
            notes.append(
                f"The id {id!r} is not unique: {int(again.sum()):,} rows share their id with another row (for example "
                f"{str(name)!r} in rows {rows}, counted from 1).{advice}"
            )
    empty = table.isna().all(axis=1).to_numpy()
    if empty.any():
        first = int(np.flatnonzero(empty)[0])
        number = f"{int(empty.sum()):,} rows have no value" if empty.sum() > 1 else "1 row has no value"
        notes.append(
            f"{number} in any column (the first is row {first + 1}, counted from 1), but count as rows without a "
            "label. Remove empty rows from the file: they change the share of positives."
        )
    copies = table.duplicated().to_numpy() & ~empty
    if copies.any() and _expected_pairs(table) < MAX_PAIRS_BY_CHANCE:
        first = int(np.flatnonzero(copies)[0])
        number = f"{int(copies.sum()):,} rows are duplicates" if copies.sum() > 1 else "1 row is a duplicate"
        notes.append(
            f"{number} of an earlier row in every column (the first is row {first + 1}, counted from 1). All rows are "
            "used. If rows were entered twice by mistake, remove the duplicates: they make the intervals too short."
        )
    return notes


def notes_on_both_labels(table: Any, s: Any, features: list[str], id: str = "") -> list[str]:
    """Return a note on rows without a label that share their id, or all features, with a labelled row.

    `s` marks the labelled rows, and `features` are the columns that describe a row. Rows that are equal by chance are
    not reported, as in `notes_on_duplicates`.
    """
    if id:
        filled = table[id].notna().to_numpy()
        keys, shared = table[[id]], f"share their id ({id!r})"
    else:
        keys, shared = table[features], "have the same values in all columns of the models"
        filled = keys.notna().any(axis=1).to_numpy()
        if not features or _expected_pairs(keys) >= MAX_PAIRS_BY_CHANCE:
            return []
    again = np.flatnonzero(keys.duplicated(keep=False).to_numpy() & filled)
    labelled = np.asarray(s, dtype=bool)[again]
    unit = keys.iloc[again].groupby(list(keys.columns), dropna=False, observed=True).ngroup().to_numpy()
    both = again[~labelled & np.isin(unit, unit[labelled])]
    if not both.size:
        return []
    return [
        f"Rows without a label that {shared} with a labelled row: {both.size:,} (the first is row {both[0] + 1}, "
        "counted from 1). If they are the same units, known positives count as rows without a label: keep one row for "
        "each unit, labelled if any of its rows is, or give the labels as looks (--looks)."
    ]


def _expected_pairs(table: Any) -> float:
    """Return the number of pairs of equal rows that are expected by chance if columns are independent."""
    n = len(table)
    alike = [float(np.square(table[name].value_counts(normalize=True, dropna=False)).sum()) for name in table.columns]
    return 0.5 * n * (n - 1) * float(np.prod(alike))


def id_columns(X: Any) -> list[str]:
    """Return the columns that look like ids."""
    return [
        name for name in X.columns if column_kind(X[name], int(X[name].nunique()), int(X[name].isna().sum())) == "id"
    ]


# --- columns of the models


def choose_features(table: Any, settings: Settings, s: Any) -> tuple[list[str], list[str], tuple[Leak, ...]]:
    """Return the columns of the models, notes on ids and leaks, and the leaking columns that are kept."""
    features, notes = settings.features(list(table.columns)), []
    if PROBABILITY in features:
        raise ValueError(
            f"Column {PROBABILITY!r} comes from a worksheet, and the models must not use it. If you joined a worksheet "
            "to the table, pass the worksheet instead: --config FOLDER/run.toml --audit WORKSHEET. It was drawn with "
            f"unequal probabilities, which the table does not show. Otherwise use --exclude {PROBABILITY}."
        )
    named = {*settings.propensity_attributes, *settings.classification_attributes, *settings.visit_columns}
    for name in id_columns(table[features]):
        like_an_id = f"Column {name!r} has a different value in every row, like an ID"
        if name not in named:
            features.remove(name)
            notes.append(f"{like_an_id}, and was left out. To show it beside the ranked rows, use --id {quoted(name)}.")
        elif name not in settings.visit_columns:
            option = "--propensity" if name in settings.propensity_attributes else "--classification-attributes"
            notes.append(
                f"{like_an_id}. It is used because {option} names it. If it is an identifier, remove it from {option}."
            )
    seen = [name for name in features if name not in settings.visit_columns]
    leaks = find_leaks(table[seen], s)
    left_out, leak_notes = columns_to_leave_out(leaks, named)
    features = [name for name in features if name not in left_out]
    if not features:
        reasons = " ".join([*notes, *leak_notes])
        raise ValueError(f"No column is left for the models. {reasons or 'Add columns to the table.'}")
    return features, [*notes, *leak_notes], tuple(leak for leak in leaks if leak.column in features)


def notes_on_values_without_labels(
    X: Any, settings: Settings, observed: ObservedLabels, leaks: Sequence[Leak] = ()
) -> list[str]:
    """Return notes on values that many rows have, but no labelled row; columns that may leak the label are left out."""
    left_out = {*settings.visit_columns, *(leak.column for leak in leaks)}
    named = [name for name in settings.propensity_attributes if name in X.columns]
    seen = [name for name in X.columns if name not in left_out]
    found = find_never_labelled(X[seen], observed.s, audited=observed.audited, named=named)
    notes = notes_on_never_labelled(found, named)
    return [plain(note) for note in notes]


def fit_params(table: Any, settings: Settings, s: Any) -> dict[str, Any]:
    """Return the weights, known propensities and groups of the rows; raise if a cell is not valid."""
    found: dict[str, Any] = {}
    if settings.sample_weight:
        found["sample_weight"] = _weights(table[settings.sample_weight], settings.sample_weight, s)
    if settings.known_propensity:
        found["propensity"] = _propensities(table[settings.known_propensity], settings.known_propensity)
    if settings.groups:
        gaps = np.flatnonzero(table[settings.groups].isna().to_numpy())
        if gaps.size:
            raise ValueError(
                f"Column {settings.groups!r} (--groups) has {_missing_values(gaps)}. Give each row without a group its "
                "own group, or drop these rows."
            )
        found["groups"] = table[settings.groups].to_numpy()
    elif (
        settings.sample_weight
        and not settings.takes_no_groups
        and found["sample_weight"].mean() > MAX_MEAN_COUNT_WEIGHT
    ):
        found["groups"] = "rows"
    return found


def _weights(values: Any, name: str, s: Any) -> Vector:
    """Return the weights; raise unless they are finite, at least 0, and not 0 for all labelled or unlabelled rows."""
    weight = _numbers(values, name, "--sample-weight")
    bad = ~((weight >= 0) & (weight < np.inf))
    if bad.any():
        raise _bad_cells(values, name, "--sample-weight", bad, "must hold finite numbers of at least 0")
    labelled = np.asarray(s) == 1
    for rows, kind in ((labelled, "labelled"), (~labelled, "unlabelled")):
        if rows.any() and not weight[rows].any():
            raise ValueError(
                f"Column {name!r} (--sample-weight) is 0 for every {kind} row. Give at least one {kind} row a weight "
                "above 0."
            )
    try:
        check_counts(weight, n_rows=weight.size)
    except ValueError as error:
        raise ValueError(f"Column {name!r} (--sample-weight): {error}") from error
    return weight


def _propensities(values: Any, name: str) -> Vector:
    """Return the propensities; raise unless they are above 0 and at most 1."""
    e = _numbers(values, name, "--known-propensity")
    bad = ~((e > 0) & (e <= 1))
    if bad.any():
        raise _bad_cells(values, name, "--known-propensity", bad, "must hold probabilities above 0 and at most 1")
    return e


def _numbers(values: Any, name: str, option: str) -> Vector:
    """Return a column as numbers; raise if a cell is missing or not a number."""
    if values.isna().any():
        gaps = np.flatnonzero(values.isna().to_numpy())
        raise ValueError(
            f"Column {name!r} ({option}) has {_missing_values(gaps)}. Fill the empty cells, or drop these rows."
        )
    if values.dtype.kind not in "fiu":
        unread = need("pandas", "analyse", "tool").to_numeric(values, errors="coerce").isna().to_numpy(dtype=bool)
        raise _bad_cells(values, name, option, unread if unread.any() else ~unread, "must hold numbers")
    return np.asarray(values.to_numpy(dtype=np.float64))


def _missing_values(gaps: Any) -> str:
    """Return the number of missing values, and the first row that has one."""
    if gaps.size == 1:
        return f"1 missing value, in row {gaps[0] + 1} (counted from 1)"
    return f"{gaps.size:,} missing values, the first in row {gaps[0] + 1} (counted from 1)"


def _bad_cells(values: Any, name: str, option: str, bad: Any, what: str) -> ValueError:
    """Return an error that states the column, the number of wrong cells and the first wrong cell."""
    rows = np.flatnonzero(bad)
    return ValueError(
        f"Column {name!r} ({option}) {what}. {rows.size:,} of {len(values):,} cells {'is' if rows.size == 1 else 'are'}"
        f" wrong; the first is {str(values.iloc[rows[0]])[:40]!r} in row {rows[0] + 1} (counted from 1). Correct these "
        "cells, or drop the rows."
    )
