"""Drift of new rows, for `scarless predict`: the check, its page and its JSON file."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scarless.analysis.ranking import observed_again, settings_for, with_pos_label
from scarless.analysis.settings import Settings
from scarless.checks.labels import LabelCoding
from scarless.diagnostics.drift.detect import detect_drift
from scarless.diagnostics.drift.result import Drift
from scarless.outside.extras import need
from scarless.outside.files import write_whole
from scarless.scale import ParquetRows
from scarless.scale.samples import draw_rows

SAMPLE_ROWS = 20_000  # rows of a folder of files that are compared


def table_drift(model: Any, table: Any, *, label: str | None = None, pos_label: Any = None) -> Drift:
    """Check whether a stored model is still right for the rows of a table.

    Parameters
    ----------
    model : TableClassifier
        Model that `Analysis.save` stored and `scarless.load` loaded.
    table : pandas DataFrame
        Raw rows, with or without labels.
    label : str, optional
        Label column of the table, if it has another name than in the fit.
    pos_label : object or list of objects, optional
        Value, or values, that mark a labelled row, if they differ from those of the fit.

    Returns
    -------
    Drift
    """
    settings = with_pos_label(settings_for(model, table.columns, label), table, pos_label)
    observed, _ = observed_again(table, settings)
    X = table[[name for name in model.feature_names_in_ if name in table.columns]]
    given: dict[str, Any] = {"level": settings.level, "random_state": settings.seed, "time": _date_column(X, table)}
    notes: list[str] = []
    if settings.sample_weight:
        given["sample_weight"] = _weights(table, settings, notes)
    if settings.known_propensity and settings.known_propensity in table.columns:
        given["propensity"] = table[settings.known_propensity].to_numpy()
    labels = None if observed is None else _coded_as_in_fit(observed.labels, model.label_coding_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `predict_table` reports the warnings of the preparation.
        found = detect_drift(model, X, labels, **given)
    return with_notes(found, notes)


def _coded_as_in_fit(labels: Any, coding: LabelCoding) -> Any:
    """Return labels of 1 and 0 as the values of the fit: a fit to files keeps values such as yes and no."""
    no, yes = coding.classes[1 - coding.positive], coding.classes[coding.positive]
    if coding.classes.dtype.kind in "biuf":
        return labels
    values = np.asarray(labels, dtype=np.float64)
    found = np.where(values == 1, yes, no).astype(object)
    found[np.isnan(values)] = None
    return type(labels)(found, columns=labels.columns, index=labels.index) if hasattr(labels, "columns") else found


def files_drift(model: Any, rows: ParquetRows, *, label: str | None = None) -> Drift:
    """Check for drift with a random sample of 20,000 rows of Parquet files; see `table_drift`."""
    rows = rows.with_index()
    there = list(rows.plan(raw=True).names)
    settings = settings_for(model, there, label)
    drawn = draw_rows(rows, [name for name in settings.labels if name in there], SAMPLE_ROWS, settings.seed)
    found = table_drift(model, drawn.table.to_pandas(ignore_metadata=True), label=label)
    if drawn.n_rows <= SAMPLE_ROWS:
        return found
    sample = f"These are {SAMPLE_ROWS:,} of the {drawn.n_rows:,} rows, drawn at random with seed {settings.seed}."
    return with_notes(found, [sample])


def with_notes(found: Drift, notes: list[str]) -> Drift:
    """Return a result with more notes in front of its own."""
    return replace(found, notes=(*notes, *found.notes))


def _date_column(X: Any, table: Any) -> Any:
    """Return dates outside the columns of the model, if the model has none; None otherwise."""
    if any(X[name].dtype.kind == "M" for name in X.columns):
        return None
    dates = [name for name in table.columns if table[name].dtype.kind == "M"]
    return table[dates[0]] if dates else None


def _weights(table: Any, settings: Settings, notes: list[str]) -> Any:
    name = settings.sample_weight
    if name not in table.columns:
        notes.append(f"There is no column {name!r}, which held the weights in the fit, so every row has the weight 1.")
        return None
    pandas = need("pandas", "The weights of new rows", "tool")
    weight = pandas.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(weight).all() or (weight < 0).any() or not (weight > 0).any():
        notes.append(f"Column {name!r} holds values that are not weights, so every row has the weight 1.")
        return None
    return weight / weight.mean()


def drift_files(out: Path) -> tuple[Path, Path]:
    """Return the paths of the page and the JSON file that belong to a file of ranked rows.

    The word "ranked" in the name is replaced by "drift". Other names get the ending "-drift". Results of several months
    in one folder therefore have different names.

    Examples
    --------
    >>> [str(path) for path in drift_files(Path("ranked.csv"))]
    ['drift.html', 'drift.json']
    >>> [str(path) for path in drift_files(Path("ranked-may.csv.gz"))]
    ['drift-may.html', 'drift-may.json']
    >>> [str(path) for path in drift_files(Path("may.parquet"))]
    ['may-drift.html', 'may-drift.json']
    """
    stem = out.name.split(".")[0]
    name = stem.replace("ranked", "drift") if "ranked" in stem else f"{stem}-drift"
    return out.with_name(f"{name}.html"), out.with_name(f"{name}.json")


def write_drift(found: Drift, out: Path, facts: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write the page and the JSON file beside a file of ranked rows; return their paths."""
    from scarless.report.drift import drift_json, drift_page  # noqa: PLC0415 (imports the report)

    page, content = drift_files(out)
    html, json = drift_page(found, facts), drift_json(found, facts)
    write_whole(page, html)
    write_whole(content, json)
    return page, content
