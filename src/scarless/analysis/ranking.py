"""Rows with everything a model says of them, the most likely missing positives first."""

import warnings
from typing import Any

import numpy as np

from scarless.analysis.labels import (
    Observed,
    as_frame_of_looks,
    as_text,
    audit_again,
    listed,
    looks_again,
    marked,
    value_counts,
)
from scarless.analysis.settings import ALL, Settings
from scarless.checks.estimators import opened
from scarless.checks.labels import says
from scarless.checks.looks import looks_of
from scarless.models.inspection import any_label
from scarless.numerics.arrays import Vector
from scarless.outside.plain_words import plain

EITHER_WAY = (
    "Class and labelling may both depend on every column, and labels alone cannot say which of the two models is the "
    "class: the answer may be the other one's. Name what the labelling depends on, or look up the class of a few rows."
)
BY_LABELS = (
    "Rows are ranked by their chance of a label, as the naive model has it, and not by models that may have changed "
    "places. Rows that are seldom labelled come last although they may be positive."
)
_INTERVALS = {"probability": "predict_proba_interval", "propensity": "predict_propensity_interval"}


def rank_rows(
    model: Any,
    table: Any,
    settings: Settings,
    observed: Observed | None = None,
    *,
    propensity: Any = None,
    features: Any = None,
) -> Any:
    """Return a data frame with a row for each of the table's, best candidates first.

    Parameters
    ----------
    model : TableClassifier
        Fitted.
    table : pandas DataFrame
        Raw rows.
    settings : Settings
        Of the fit.
    observed : Observed, optional
        Labels, and what checks found. Without them nobody knows who was looked at: there is no posterior, and the
        probability by attributes alone is what ranks.
    propensity : array, optional
        Known propensities, where the model does not learn any.
    features : pandas DataFrame, optional
        The columns of the table that the model reads. Default: those that it names.

    Returns
    -------
    pandas DataFrame
        ``rank`` (of rows that are neither labelled nor checked, by ``posterior``), ``row``, the row's number in the
        table counted from 1, the id where there is one, ``labelled``, ``checked`` where there are audits, ``looks``
        that took place where there are several, and ``probability``, ``propensity`` (of a label at any of them),
        ``posterior``, each with ``_low`` and ``_high`` where the model knows its uncertainty.
    """
    if features is None:
        features = table[[name for name in model.feature_names_in_ if name in table.columns]]
    columns = _places(table, settings)
    open_rows = np.ones(len(table), dtype=bool)
    if observed is not None:
        columns["labelled"] = np.asarray(observed.s, dtype=np.int64)
        columns |= _of_information(observed, settings)
        open_rows = (np.asarray(observed.s) == 0) & ~observed.audited
    columns |= _predictions(model, features, observed, propensity, settings.level)
    return _in_order(columns, columns["probability" if observed is None else "posterior"], open_rows)


def rank_by_labels(naive: Any, features: Any, table: Any, settings: Settings, observed: Observed | None) -> Any:
    """Return what `rank_rows` returns, ranked by ``label_chance``, the chance of a label by the naive model.

    For rows of which nothing says which model is the class. There are no probabilities of the class.
    """
    columns, open_rows = _places(table, settings), np.ones(len(table), dtype=bool)
    if observed is not None:
        columns["labelled"] = np.asarray(observed.s, dtype=np.int64)
        columns |= _of_information(observed, settings)
        open_rows = (np.asarray(observed.s) == 0) & ~observed.audited
    columns["label_chance"] = _of_positive(naive, features)
    return _in_order(columns, columns["label_chance"], open_rows)


def _places(table: Any, settings: Settings) -> dict[str, Any]:
    """Return the number of each row, counted from 1, and its id where there is one."""
    number = {"row": np.arange(1, len(table) + 1)}
    return number | ({settings.id: table[settings.id].to_numpy()} if settings.id else {})


def _in_order(columns: dict[str, Any], by: Any, open_rows: Any) -> Any:
    """Return columns as a data frame, rows that nobody knows the class of first, the largest value first."""
    import pandas as pd  # noqa: PLC0415 (the table is one of its frames)

    n = len(open_rows)
    order = np.lexsort((np.arange(n), -by, ~open_rows))
    rank = np.full(n, -1, dtype=np.int64)
    rank[order[: open_rows.sum()]] = np.arange(1, open_rows.sum() + 1)
    ranks = pd.array(np.where(rank > 0, rank, 0), dtype="Int64")
    ranks[rank < 0] = pd.NA
    return pd.DataFrame({"rank": ranks, **columns}).iloc[order].reset_index(drop=True)


def _of_information(observed: Observed, settings: Settings) -> dict[str, Any]:
    """Return what was seen of rows beside a label, as columns."""
    found: dict[str, Any] = {}
    if settings.looks:
        found["looks"] = np.isfinite(np.asarray(observed.labels, dtype=np.float64)).sum(axis=1)
    if observed.audit is not None:
        found["checked"] = np.where(observed.audited, np.where(observed.audit == 1, "yes", "no"), "")
    return found


def _predictions(model: Any, table: Any, observed: Observed | None, propensity: Any, level: float) -> dict[str, Vector]:
    """Return what a model says of rows, in the order of the columns."""
    inner, prepare = opened(model)
    X = prepare(table)
    found: dict[str, Vector] = {"probability": _of_positive(inner, X)}
    found |= _ends(inner, "probability", X, level)
    if looks_of(model) is not None and not looks_of(model).plain:
        found |= {} if observed is None else {"propensity": any_label(inner, X, observed.labels)}
    elif hasattr(inner, "predict_propensity"):
        found["propensity"] = inner.predict_propensity(X)
        found |= _ends(inner, "propensity", X, level)
    elif propensity is not None:
        found["propensity"] = np.asarray(propensity, dtype=np.float64)
    if observed is None:
        return found
    given = {} if propensity is None else {"propensity": propensity}
    given |= {} if observed.audit is None else {"audit": observed.audit}
    ends_given = {name: value for name, value in given.items() if name == "audit"}
    if looks_of(model) is not None:  # a gap in what a look depends on is refused by name
        found["posterior"] = model.predict_posterior(table, observed.labels, **given)
    else:
        found["posterior"] = inner.predict_posterior(X, observed.labels, **given)
    ends = _try(lambda: inner.predict_posterior_interval(X, observed.labels, level=level, **ends_given))
    if ends is not None:
        found["posterior_low"], found["posterior_high"] = ends[:, 0], ends[:, 1]
    return found


def _of_positive(model: Any, X: Any) -> Vector:
    return np.asarray(model.predict_proba(X)[:, list(model.classes_).index(1)])


def _ends(model: Any, name: str, X: Any, level: float) -> dict[str, Vector]:
    ends = _try(lambda: getattr(model, _INTERVALS[name])(X, level=level))
    return {} if ends is None else {f"{name}_low": ends[:, 0], f"{name}_high": ends[:, 1]}


def _try(ask: Any) -> Any:
    """Return what a model answers, None where it is of a kind that knows nothing of its uncertainty."""
    try:
        return ask()
    except (AttributeError, ValueError):
        return None


def predict_table(model: Any, table: Any) -> tuple[Any, list[str]]:
    """Return new rows ranked by a model that `Analysis.save` stored, and what needs to be said of them.

    Parameters
    ----------
    model : TableClassifier
        As `scarless.load` gives it back, with the settings of its fit.
    table : pandas DataFrame
        Raw rows; a column of the fit that is missing is taken for empty, and said.

    Returns
    -------
    pandas DataFrame, list of str
        See `rank_rows`; remarks in words.
    """
    settings = Settings.from_dict(getattr(model, "settings_", {}), source="the model file")
    propensity = None
    if not any(name in table.columns for name in model.feature_names_in_):
        wanted, given = (", ".join(map(repr, list(names)[:6])) for names in (model.feature_names_in_, table.columns))
        raise ValueError(
            f"This table has none of the columns that the model was fitted to. The fit had {wanted}"
            f"{', ...' if len(model.feature_names_in_) > 6 else ''}; this table has {given}"
            f"{', ...' if len(table.columns) > 6 else ''}. Give the table with the names of the fit."
        )
    if settings.id and settings.id not in table.columns:
        raise ValueError(f"There is no column {settings.id!r} (the id of the fit).")
    observed, notes = _observed_again(table, settings)
    if settings.known_propensity:
        if settings.known_propensity not in table.columns and observed is not None:
            raise ValueError(f"There is no column {settings.known_propensity!r} (the known propensity of the fit).")
        propensity = table[settings.known_propensity].to_numpy() if settings.known_propensity in table.columns else None
    if settings.propensity_attributes == (ALL,) and len(settings.looks) < 2 and not settings.audit:
        notes.append(EITHER_WAY)
    notes += new_levels(model, table)
    naive = getattr(model, "naive_", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if naive is None:
            ranked = rank_rows(model, table, settings, observed, propensity=propensity)
        else:
            ranked = rank_by_labels(naive, table.reindex(columns=naive.feature_names_in_), table, settings, observed)
            notes.append(BY_LABELS)
    told = [plain(each.message) for each in caught if "unknown categories" not in str(each.message)]
    return ranked, notes + list(dict.fromkeys(told))


def _observed_again(table: Any, settings: Settings) -> tuple[Observed | None, list[str]]:
    """Return labels and audits of new rows where there are any, and what to say."""
    there = [name for name in settings.labels if name in table.columns and table[name].notna().any()]
    notes = []
    if not there:
        several = f"columns {', '.join(map(repr, settings.looks))}"
        named = several if settings.looks else f"column {settings.label!r}"
        return None, [
            f"There is no label in {named}, so nobody knows which of these rows were looked at: they are ranked by "
            "probability, and there is no posterior."
        ]
    if settings.looks:
        gone = [name for name in settings.looks if name not in table.columns]
        if gone:
            notes.append(f"Looks that are not in this table, and so did not take place: {', '.join(map(repr, gone))}.")
        seen = looks_again(table, settings)
        s = (seen == 1).any(axis=1).astype(np.int64)
        labels = as_frame_of_looks(seen, settings, table)
    else:
        s, told = _labels_again(table[settings.label], settings)
        labels, notes = s, [*notes, *told]
    audit = None
    if settings.audit and settings.audit in table.columns and table[settings.audit].notna().any():
        audit = audit_again(table[settings.audit], settings)
    return Observed(s, labels, audit, settings.pos_label, ()), notes


def _labels_again(values: Any, settings: Settings) -> tuple[Any, list[str]]:
    """Return the labels of new rows, and what to say; other than in a fit, all or none of them may be labelled."""
    text = as_text(values)
    s = marked(text, settings.pos_label).astype(np.int64)
    counts = value_counts(text)
    if s.any() or all(says(value) is False for value in counts.index):
        return s, []
    said = " or ".join(map(repr, settings.pos_label))
    return s, [
        f"No row of the label column {settings.label!r} has {said}, which marked a label in the fit: all rows are "
        f"taken for unlabelled. It has {listed(counts)}."
    ]


def new_levels(model: Any, table: Any) -> list[str]:
    """Return a sentence for each column with values that the fit has not seen."""
    notes = []
    for column, known in getattr(model, "levels_", {}).items():
        if column not in table.columns:
            continue
        values = table[column].dropna().astype(str).unique()
        new = sorted(set(values) - set(known))
        if new:
            shown = ", ".join(map(repr, new[:3])) + (", ..." if len(new) > 3 else "")
            notes.append(
                f"Column {column!r} has {len(new)} value{'s' if len(new) > 1 else ''} that the fit has not seen "
                f"({shown}): such a row is taken for one with none of the known values."
            )
    return notes
