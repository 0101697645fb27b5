"""Rows with their predictions, ranked by the probability of being an unlabelled positive."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from scarless.analysis.labels import (
    ANY_VALUE,
    ObservedLabels,
    as_frame_of_looks,
    as_text,
    audit_again,
    given_values,
    listed,
    looks_again,
    marked,
    value_counts,
)
from scarless.analysis.settings import ALL, Settings
from scarless.checks.estimators import opened
from scarless.checks.labels import says
from scarless.checks.looks import looks_of
from scarless.models.inspection import any_label_probability
from scarless.numerics.arrays import Vector
from scarless.outside.plain_words import plain

EITHER_WAY = (
    "Both models use all columns, and labels alone cannot determine which of the two models is the class model. The "
    "two models may therefore be swapped. Name the columns that drive the labelling (--propensity), or audit some rows "
    "(--audit)."
)
BY_LABELS = (
    "Because the models may be swapped, the rows are ranked by their probability of having a label, not by their "
    "probability of being positive. Positives that are seldom labelled rank low."
)
_INTERVALS = {"probability": "predict_proba_interval", "propensity": "predict_propensity_interval"}


def rank_rows(
    model: Any,
    table: Any,
    settings: Settings,
    observed: ObservedLabels | None = None,
    *,
    propensity: Any = None,
    features: Any = None,
) -> Any:
    """Return a data frame of all rows with their predictions, the best candidates first.

    Parameters
    ----------
    model : TableClassifier
        Fitted model.
    table : pandas DataFrame
        Raw rows.
    settings : Settings
        Settings of the fit.
    observed : ObservedLabels, optional
        Labels and audits of the rows. Without them there is no posterior, and rows are ranked by class probability.
    propensity : array, optional
        Known propensities, if the model does not estimate them.
    features : pandas DataFrame, optional
        Columns of the table that the model uses. By default, the columns that it was fitted to.

    Returns
    -------
    pandas DataFrame
        ``rank`` by ``posterior`` (missing for labelled and audited rows), ``row`` (number of the row, counted from 1),
        the id column if there is one, ``labelled``, ``checked`` (with audits), ``looks`` (number of looks that took
        place, if there are several), ``probability``, ``propensity`` (of a label at any look) and ``posterior``. The
        last three have ``_low`` and ``_high`` if the model has standard errors.
    """
    if features is None:
        features = table[[name for name in model.feature_names_in_ if name in table.columns]]
    columns = _row_numbers_and_ids(table, settings)
    open_rows = np.ones(len(table), dtype=bool)
    if observed is not None:
        columns["labelled"] = np.asarray(observed.s, dtype=np.int64)
        columns |= _looks_and_audits(observed, settings)
        open_rows = (np.asarray(observed.s) == 0) & ~observed.audited
    columns |= _predictions(model, features, observed, propensity, settings.level)
    return _ranked_frame(columns, columns["probability" if observed is None else "posterior"], open_rows)


def rank_by_labels(naive: Any, features: Any, table: Any, settings: Settings, observed: ObservedLabels | None) -> Any:
    """Return rows ranked by ``label_probability``, the probability of a label according to the naive model.

    Used instead of `rank_rows` if the models may be swapped; there are no class probabilities.
    """
    columns, open_rows = _row_numbers_and_ids(table, settings), np.ones(len(table), dtype=bool)
    if observed is not None:
        columns["labelled"] = np.asarray(observed.s, dtype=np.int64)
        columns |= _looks_and_audits(observed, settings)
        open_rows = (np.asarray(observed.s) == 0) & ~observed.audited
    columns["label_probability"] = _probability_of_positive(naive, features)
    return _ranked_frame(columns, columns["label_probability"], open_rows)


def _row_numbers_and_ids(table: Any, settings: Settings) -> dict[str, Any]:
    """Return the number of each row, counted from 1, and its id if there is an id column."""
    number = {"row": np.arange(1, len(table) + 1)}
    return number | ({settings.id: table[settings.id].to_numpy()} if settings.id else {})


def _ranked_frame(columns: dict[str, Any], by: Any, open_rows: Any) -> Any:
    """Return columns as a data frame, sorted by `by`, with rows of unknown class first."""
    import pandas as pd  # noqa: PLC0415 (the table is a pandas object)

    n = len(open_rows)
    order = np.lexsort((np.arange(n), -by, ~open_rows))
    rank = np.full(n, -1, dtype=np.int64)
    rank[order[: open_rows.sum()]] = np.arange(1, open_rows.sum() + 1)
    ranks = pd.array(np.where(rank > 0, rank, 0), dtype="Int64")
    ranks[rank < 0] = pd.NA
    return pd.DataFrame({"rank": ranks, **columns}).iloc[order].reset_index(drop=True)


def _looks_and_audits(observed: ObservedLabels, settings: Settings) -> dict[str, Any]:
    """Return the number of looks and the audited class of each row as columns."""
    found: dict[str, Any] = {}
    if settings.looks:
        found["looks"] = np.isfinite(np.asarray(observed.labels, dtype=np.float64)).sum(axis=1)
    if observed.audit is not None:
        found["checked"] = np.where(observed.audited, np.where(observed.audit == 1, "yes", "no"), "")
    return found


def _predictions(
    model: Any, table: Any, observed: ObservedLabels | None, propensity: Any, level: float
) -> dict[str, Vector]:
    """Return the predictions for rows by column name."""
    inner, prepare = opened(model)
    X = prepare(table)
    found: dict[str, Vector] = {"probability": _probability_of_positive(inner, X)}
    found |= _ends(inner, "probability", X, level)
    if looks_of(model) is not None and not looks_of(model).plain:
        found |= {} if observed is None else {"propensity": any_label_probability(inner, X, observed.labels)}
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
    if looks_of(model) is not None:
        # Unlike the inner model, the table model raises an error that names the visit attribute with missing values.
        found["posterior"] = model.predict_posterior(table, observed.labels, **given)
    else:
        found["posterior"] = inner.predict_posterior(X, observed.labels, **given)
    ends = _try(lambda: inner.predict_posterior_interval(X, observed.labels, level=level, **ends_given))
    if ends is not None:
        found["posterior_low"], found["posterior_high"] = ends[:, 0], ends[:, 1]
    return found


def _probability_of_positive(model: Any, X: Any) -> Vector:
    return np.asarray(model.predict_proba(X)[:, list(model.classes_).index(1)])


def _ends(model: Any, name: str, X: Any, level: float) -> dict[str, Vector]:
    ends = _try(lambda: getattr(model, _INTERVALS[name])(X, level=level))
    return {} if ends is None else {f"{name}_low": ends[:, 0], f"{name}_high": ends[:, 1]}


def _try(ask: Any) -> Any:
    """Return an interval, or None if the model has no standard errors."""
    try:
        return ask()
    except (AttributeError, ValueError):
        return None


def predict_table(model: Any, table: Any, *, label: str | None = None, pos_label: Any = None) -> tuple[Any, list[str]]:
    """Return new rows ranked by a stored model, and notes.

    Parameters
    ----------
    model : TableClassifier
        Model that `Analysis.save` stored and `scarless.load` loaded.
    table : pandas DataFrame
        Raw rows. Columns of the fit that the table lacks are treated as missing values, with a note.
    label : str, optional
        Label column of the table, if it has another name than in the fit.
    pos_label : object or list of objects, optional
        Value, or values, that mark a labelled row, if they differ from those of the fit.

    Returns
    -------
    pandas DataFrame, list of str
        The ranked rows (see `rank_rows`) and the notes.
    """
    settings = with_pos_label(settings_for(model, table.columns, label), table, pos_label)
    propensity = None
    if not len(table):
        raise ValueError("The table has no rows, so there is nothing to rank. Check the file.")
    if not any(name in table.columns for name in model.feature_names_in_):
        wanted, given = (", ".join(map(repr, list(names)[:6])) for names in (model.feature_names_in_, table.columns))
        raise ValueError(
            f"This table has none of the columns that the model was fitted to. The fit had {wanted}"
            f"{', ...' if len(model.feature_names_in_) > 6 else ''}; this table has {given}"
            f"{', ...' if len(table.columns) > 6 else ''}. Rename the columns to the names of the fit."
        )
    if settings.id and settings.id not in table.columns:
        raise ValueError(f"There is no column {settings.id!r}, the id column of the fit. Add it to the table.")
    observed, notes = observed_again(table, settings)
    if settings.known_propensity:
        if settings.known_propensity not in table.columns and observed is not None:
            raise ValueError(
                f"There is no column {settings.known_propensity!r}, which contained the known propensity in the fit. "
                "Add it to the table."
            )
        propensity = table[settings.known_propensity].to_numpy() if settings.known_propensity in table.columns else None
    naive = getattr(model, "naive_", None)
    alone = settings.propensity_attributes == (ALL,) and len(settings.looks) < 2 and not settings.audit
    # A stack without names is not a pair of models that may be swapped.
    if alone and getattr(model.estimator_, "propensity_attributes", None) is not None:
        notes.append(EITHER_WAY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if naive is None:
            ranked = rank_rows(model, table, settings, observed, propensity=propensity)
        else:
            ranked = rank_by_labels(naive, table.reindex(columns=naive.feature_names_in_), table, settings, observed)
            notes.append(BY_LABELS)
    return ranked, notes + list(dict.fromkeys(plain(each.message) for each in caught))


def settings_for(model: Any, columns: Any, label: str | None = None) -> Settings:
    """Return the settings of a stored model for a new table, whose label column may have another name."""
    settings = Settings.from_dict(getattr(model, "settings_", {}), source="the model file")
    if label is None:
        return settings
    if settings.looks:
        raise ValueError(
            f"--label: this model was fitted to several looks ({', '.join(map(repr, settings.looks))}). Name the "
            "columns of the new file as in the fit, and leave --label out."
        )
    if label not in columns:
        there = ", ".join(map(repr, list(columns)[:6])) + (", ..." if len(columns) > 6 else "")
        raise ValueError(f"--label: there is no column {label!r}. The table has {there}.")
    if label in model.feature_names_in_:
        raise ValueError(f"--label: column {label!r} is an attribute of the model. Name the column with the labels.")
    return replace(settings, label=label)


def with_pos_label(settings: Settings, table: Any, pos_label: Any) -> Settings:
    """Return settings for new rows in which another value than in the fit marks a label; None changes nothing."""
    if pos_label is None:
        return settings
    if settings.looks:
        raise ValueError(
            "--pos-label: this model was fitted to several looks. Code the labels of the new rows as in the fit, and "
            "leave --pos-label out."
        )
    if settings.label not in table.columns:
        raise ValueError(
            f"--pos-label: there is no label column {settings.label!r}. Name the label column of the new rows with "
            "--label."
        )
    (name,) = settings.labels
    known = list(value_counts(as_text(table[name])).index)
    return replace(settings, pos_label=given_values(known, name, pos_label))


def observed_again(table: Any, settings: Settings) -> tuple[ObservedLabels | None, list[str]]:
    """Return the labels and audits of new rows (None if there are no labels), and notes."""
    there = [name for name in settings.labels if name in table.columns and table[name].notna().any()]
    notes = []
    if not there:
        several = f"columns {', '.join(map(repr, settings.looks))}"
        named = several if settings.looks else f"column {settings.label!r}"
        return None, [
            f"There are no labels in {named}, so the rows are ranked by their class probability, and there is no "
            "posterior."
        ]
    if settings.looks:
        gone = [name for name in settings.looks if name not in table.columns]
        if gone:
            these = "this look is" if len(gone) == 1 else "these looks are"
            notes.append(
                f"This table has no column {', '.join(map(repr, gone))}, so {these} treated as not having taken place."
            )
        seen = looks_again(table, settings)
        s = (seen == 1).any(axis=1).astype(np.int64)
        labels = as_frame_of_looks(seen, settings, table)
    else:
        s, label_notes = _labels_again(table[settings.label], settings)
        labels, notes = s, [*notes, *label_notes]
    audit = None
    if settings.audit and settings.audit in table.columns and table[settings.audit].notna().any():
        audit = audit_again(table[settings.audit], settings)
    return ObservedLabels(s, labels, audit, settings.pos_label, ()), notes


def _labels_again(values: Any, settings: Settings) -> tuple[Any, list[str]]:
    """Return the labels of new rows, and notes; unlike in a fit, all or none of the rows may be labelled."""
    text = as_text(values)
    s = marked(text, settings.pos_label).astype(np.int64)
    counts = value_counts(text)
    odd = _odd_labels(counts, settings)
    if odd:
        return s, [odd]
    if s.any() or all(says(value) is False for value in counts.index):
        return s, []
    marks = " or ".join(map(repr, settings.pos_label))
    return s, [
        f"No row of the label column {settings.label!r} has the value {marks}, which marked a label in the fit. All "
        f"rows are treated as unlabelled. The column has {listed(counts)}. If another value marks a label in these "
        "rows, use --pos-label VALUE (pos_label=...)."
    ]


def _odd_labels(counts: Any, settings: Settings) -> str:
    """Return a note on values that mean yes but do not mark a label, or mean no but mark one; empty without them.

    There is no note if a value that means no marked a label in the fit, because the user has then chosen it.
    """
    is_label = marked(counts.index.to_series(), settings.pos_label)
    meaning = [says(value) for value in counts.index]
    wrong = [each is not None and each != bool(label) for each, label in zip(meaning, is_label, strict=True)]
    if not any(wrong) or not is_label.any() or any(says(mark) is False for mark in settings.pos_label):
        return ""
    marks = "every value" if settings.pos_label == (ANY_VALUE,) else " or ".join(map(repr, settings.pos_label))
    read = "a label" if settings.pos_label == (ANY_VALUE,) else "no label"
    return (
        f"In the label column {settings.label!r}, {marks} marks a label, as in the fit, so {listed(counts[wrong])} is "
        f"read as {read}. If this is wrong, code the labels as in the fit."
    )
