"""The analysis of a folder of Parquet files: models fitted to all rows, a report on a sample, and predictions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scarless.analysis.answer import Analysis
from scarless.analysis.choice import choose_model_of_files, make_estimator, notes_on_boosting
from scarless.analysis.columns import choose_features, notes_on_values_without_labels
from scarless.analysis.fitting import SAMPLE_ROWS, ReportStep, fit_model, narrowed, reference_rows
from scarless.analysis.inspection import Inspection, inspect_table
from scarless.analysis.labels import (
    ANY_VALUE,
    ObservedLabels,
    as_frame_of_looks,
    as_text,
    listed,
    number_as_text,
    read_observed,
    value_counts,
)
from scarless.analysis.ranking import EITHER_WAY, settings_for
from scarless.analysis.settings import ALL, Settings
from scarless.analysis.values import notes_on
from scarless.numerics.arrays import Integers, Vector
from scarless.outside.extras import need
from scarless.raw import TableClassifier
from scarless.raw.tables import notes_on_numbers
from scarless.scale import ParquetRows, WrittenPredictions, file_advice
from scarless.scale.samples import draw_rows


class FileLabelCounts(NamedTuple):
    """The combinations of labels and audits in all files, with the number of rows of each combination."""

    kinds: Any  # data frame of the combinations
    rows: Integers
    observed: ObservedLabels

    @classmethod
    def of(cls, kinds: Any, settings: Settings) -> "FileLabelCounts":
        """Return the counts from the table that `draw_rows` returns."""
        frame = kinds.to_pandas(ignore_metadata=True)
        names, rows = list(frame.columns[:-1]), frame.iloc[:, -1].to_numpy(dtype=np.int64)
        return cls(frame[names], rows, read_observed(frame[names], settings, rows=rows))

    @property
    def n_labelled(self) -> int:
        """The number of rows with any label."""
        return int(self.rows[self.observed.s == 1].sum())

    @property
    def n_audited(self) -> int:
        """The number of audited rows."""
        return int(self.rows[self.observed.audited].sum())

    def pos_label(self, settings: Settings) -> Any:
        """Return the value that marks a label in the files; raise if the label columns do not have two values."""
        text = {name: as_text(self.kinds[name]) for name in settings.labels}
        seen = {name: (self.kinds[name].notna() & (self.kinds[name] != -1)).to_numpy() for name in settings.labels}
        values = {value for name in settings.labels for value in self.kinds[name][seen[name]].tolist()}
        if len(values) != 2:
            counts = value_counts(text[settings.labels[0]], self.rows)
            raise ValueError(
                "In a folder of files, the label columns of looks must have two values, and missing values for looks "
                f"that did not take place. These columns have {len(values)} values (in {settings.labels[0]!r}: "
                f"{listed(counts)}; an empty text is also a value). Recode the columns as 1, 0 and missing values."
            )
        self._check_audit_values(values, settings)
        marks = self.observed.pos_label
        return next(
            value
            for name in settings.labels
            for value, said in zip(self.kinds[name].tolist(), text[name], strict=True)
            if said in marks
        )

    def _check_audit_values(self, values: set[Any], settings: Settings) -> None:
        """Raise if audits have other values than 1, 0 and the values of the labels."""
        if not settings.audit:
            return
        column = self.kinds[settings.audit]
        found = set(column[(column.notna() & (column != -1)).to_numpy()].tolist())
        if not found <= {0, 1} and not found <= values:
            raise ValueError(
                "In a folder of files, audits must be 1 and 0, or have the values of the labels "
                f"({', '.join(map(repr, sorted(values)))}); {settings.audit!r} has "
                f"{listed(value_counts(as_text(column), self.rows))}. Recode {settings.audit!r}."
            )

    def of_sample(self, table: Any, settings: Settings) -> ObservedLabels:
        """Return the labels and audits of a sample of the rows."""
        audit = None
        if settings.audit and self.observed.audit is not None:
            audit = self._codes(table, settings.audit, self.observed.audit)
        if not settings.looks:
            s = self._codes(table, settings.labels[0], self.observed.s.astype(np.float64)).astype(np.int64)
            return ObservedLabels(s, s, audit, self.observed.pos_label, ())
        labels = np.asarray(self.observed.labels, dtype=np.float64)
        seen = np.column_stack([self._codes(table, name, labels[:, k]) for k, name in enumerate(settings.looks)])
        s = (seen == 1).any(axis=1).astype(np.int64)
        return ObservedLabels(s, as_frame_of_looks(seen, settings, table), audit, self.observed.pos_label, ())

    def _codes(self, table: Any, name: str, codes: Vector) -> Vector:
        known = dict(zip(as_text(self.kinds[name]), codes, strict=True))
        return as_text(table[name]).map(known).to_numpy(dtype=np.float64)

    def summary(self, settings: Settings) -> dict[str, Any]:
        """Return the counts of audits and looks over all rows, as entries of a summary."""
        found: dict[str, Any] = {}
        if self.observed.audit is not None:
            positive = int(self.rows[self.observed.audit == 1].sum())
            found["audits"] = {"rows": self.n_audited, "positive": positive}
        if settings.looks:
            labels = np.asarray(self.observed.labels, dtype=np.float64)
            found["looks"] = [
                {
                    "column": name,
                    "took_place": int(self.rows[np.isfinite(labels[:, k])].sum()),
                    "labels": int(self.rows[labels[:, k] == 1].sum()),
                }
                for k, name in enumerate(settings.looks)
            ]
        return found


@dataclass(frozen=True)
class FileAnalysis(Analysis):
    """The result of `analyse_files`; `table` is the sample of rows that the report is based on.

    Attributes
    ----------
    rows : ParquetRows
        All rows.
    n_rows, n_labelled : int
        The number of rows, and of labelled rows.
    """

    rows: Any = field(default=None, repr=False)
    n_rows: int = 0
    n_labelled: int = 0
    whole: FileLabelCounts | None = field(default=None, repr=False)

    def summary(self) -> dict[str, Any]:
        """Return the estimates for all rows as a dict of plain values."""
        found = super().summary()
        # The base class counts the missing positives of the sample.
        if self.settings.informed and found["missing_positives"] is not None:
            found["missing_positives"] *= self.n_rows / len(self.table)
        return found | {"rows": self.n_rows, "labelled": self.n_labelled, "rows_of_the_report": len(self.table)}

    def _weights(self) -> tuple[float, float]:
        """Return the total weight of all rows and of labelled rows, extrapolated from the sample."""
        weight, labelled = super()._weights()
        n, n_labelled = len(self.table), float(self.s.sum())
        return weight * self.n_rows / n, labelled * self.n_labelled / n_labelled if n_labelled else 0.0

    @cached_property
    def _first_rows(self) -> dict[str, Any]:
        return {}  # The highest-ranked rows of a sample are not those of all rows.

    def score(self, folder: str | Path, *, force: bool = False) -> WrittenPredictions:
        """Write predictions for all rows into a folder; files that exist already are not written again."""
        return predict_files(self.model, self.rows, folder, force=force)

    def _informed(self) -> dict[str, Any]:
        found = super()._informed()
        counted = {} if self.whole is None else self.whole.summary(self.settings)
        looks = [each | of_all for each, of_all in zip(found.get("looks", ()), counted.get("looks", ()), strict=True)]
        return found | counted | ({"looks": looks} if looks else {})

    def _observed(self) -> Any:
        if self.settings.looks:
            return self.table[list(self.settings.looks)]
        return self.table[self.settings.label].to_numpy()

    def _title(self) -> dict[str, str]:
        if len(self.table) == self.n_rows:
            return {}
        return {
            "title": f"How many rows are positive? Report on a random sample of {len(self.table):,} of the "
            f"{self.n_rows:,} rows of the fit"
        }

    def _groups(self) -> dict[str, Any]:
        from scarless.report.fit.parts import RowsInFiles  # noqa: PLC0415 (as in `report`)

        settings = self.settings
        rows = RowsInFiles(
            self.rows.select([str(name) for name in self.model.feature_names_in_]),
            list(settings.looks) or settings.label,
            settings.audit or None,
            settings.sample_weight or None,
            self.n_rows,
        )
        return {"by": list(settings.by), "all_rows": rows}

    def _ranked_into(self, folder: Path, ranked: str) -> None:
        """Do nothing: there may be too many rows for one file, and `score` writes predictions."""


def inspect_files(
    rows: ParquetRows,
    label: Any = None,
    *,
    audit: str = "",
    columns: Any = None,
    pos_label: Any = None,
    random_state: int = 0,
) -> Inspection:
    """Return an overview of files, from a sample of at most 50,000 rows, with advice on slow files.

    Parameters
    ----------
    rows : ParquetRows
        Rows of the files.
    label : str or list of str
        Label column; a list names one label column for each look.
    audit : str, optional
        Column with the true class of audited rows.
    columns : ColumnRoles, optional
        Columns to leave out.
    pos_label : object or list of objects, optional
        Value, or values, that mark a labelled row.
    random_state : int, default=0
        Seed of the random numbers.

    Returns
    -------
    Inspection
    """
    labels = [label] if isinstance(label, str) else list(label or ())
    drawn = draw_rows(rows.with_index(), [name for name in (*labels, audit) if name], SAMPLE_ROWS, random_state)
    table = drawn.table.to_pandas(ignore_metadata=True)
    options: dict[str, Any] = {"pos_label": pos_label, "columns": columns, "random_state": random_state}
    found = inspect_table(table, label, audit=audit, **options)
    if drawn.n_rows > found.n_rows:
        sample = f"These rows are a random sample of {drawn.n_rows:,} rows in {len(rows.files):,} files."
        found = replace(found, notes=(sample, *found.notes))
    return with_advice(found, rows.files, rows.filesystem)


def with_advice(found: Inspection, files: list[str], filesystem: Any = None) -> Inspection:
    """Return an inspection with advice on Parquet files that are slow to read."""
    advice = file_advice(files, filesystem=filesystem)
    return replace(found, advice=tuple(f"Files: {sentence}" for sentence in advice))


def analyse_files(
    rows: ParquetRows,
    settings: Settings,
    *,
    source: dict[str, Any] | None = None,
    progress: ReportStep | None = None,
) -> FileAnalysis:
    """Fit the class model and the labelling model to a raw table in Parquet files.

    The models are fitted to all rows. The report and the choice of columns are based on 50,000 rows, drawn at random.
    With more than 200,000 rows, the choice of penalties is based on these rows too.

    Parameters
    ----------
    rows : ParquetRows
        Rows with all columns of the files.
    settings : Settings
        Settings as for `analyse`; only logistic models are supported.
    source : dict, optional
        Origin of the table, such as its files; stored with the result.
    progress : callable, optional
        Called with a description of the current step.

    Returns
    -------
    FileAnalysis
    """
    report_step = progress or (lambda what: None)
    _refuse_settings_that_need_memory(settings)
    rows = rows.with_index()  # A named index may be the id, as in a single file.
    columns = list(rows.plan(raw=True).names)
    settings.check_columns(columns)
    report_step("drawing a sample of the rows")
    named = [*settings.labels, *([settings.audit] if settings.audit else [])]
    drawn = draw_rows(rows, named, SAMPLE_ROWS, settings.seed, also=settings.audit)
    sample = drawn.table.to_pandas(ignore_metadata=True)[columns]
    counts = FileLabelCounts.of(drawn.kinds, settings)
    observed, pos_label = counts.of_sample(sample, settings), _pos_label(counts, drawn.labels, settings)
    features, feature_notes, leaks = choose_features(sample, settings, observed.s)
    observed_notes = counts.observed.notes if settings.informed else ()
    never_labelled = notes_on_values_without_labels(sample[features], settings, observed, leaks)
    number_notes = notes_on_numbers(sample[features])
    before = [*observed_notes, *number_notes, *notes_on(settings), *feature_notes, *never_labelled]
    given = {"sample_weight": settings.sample_weight} if settings.sample_weight else {}
    given |= {"audit": settings.audit} if settings.audit else {}

    choice = choose_model_of_files(settings)

    def fit(estimator: Any) -> TableClassifier:
        classifier = TableClassifier(estimator.set_params(pos_label=pos_label))
        return classifier.fit(rows.select(features), list(settings.looks) or settings.label, **given)

    def narrow(search: Any) -> Any:
        more = _with_audited(sample, drawn.checked.to_pandas(ignore_metadata=True)[columns])
        return narrowed(search, more[features], counts.of_sample(more, settings), settings)

    estimator = make_estimator(settings, choice.model)
    classifier, notes, warned = fit_model(estimator, drawn.n_rows, fit, narrow, report_step)
    classifier.settings_ = {**settings.to_dict(), "pos_label": list(observed.pos_label)}
    weight = sample[settings.sample_weight].to_numpy(dtype=np.float64) if settings.sample_weight else None
    prepared = classifier.prepare(sample[features])
    classifier.reference_ = reference_rows(
        classifier, sample[features], prepared, settings, labelled=observed.s, weight=weight
    )
    if choice.is_search_for_speed and not settings.looks:
        report_step("comparing the models with boosting")
        w, advice = np.ones(len(sample)) if weight is None else weight, "Fit --model stack to a sample in one file."
        inner = classifier.estimator_
        notes += notes_on_boosting(inner, prepared, observed.s, w, seed=settings.seed, advice=advice)
    totals = (drawn.n_rows, counts.n_labelled, counts if settings.informed else None)
    origin = dict(source or {})
    kept: dict[str, Any] = {"leaks": leaks, "warned": warned, "choice": choice}
    made = FileAnalysis(classifier, settings, before, sample, observed, origin, rows, *totals, **kept)
    if settings.propensity_attributes == (ALL,) and made.may_be_swapped:
        before.append(EITHER_WAY)
    before += [*_notes_on_sample(counts, observed, drawn.n_rows, settings), *notes]
    return made


def _notes_on_sample(counts: FileLabelCounts, observed: ObservedLabels, n_rows: int, settings: Settings) -> list[str]:
    if n_rows <= SAMPLE_ROWS:
        return []
    notes = [
        f"The models were fitted to all {n_rows:,} rows. The report, with its counts and diagnostics, is based on "
        f"{SAMPLE_ROWS:,} rows, drawn at random with seed {settings.seed}. Only the section 'Who is overlooked?' is "
        "about all rows."
    ]
    if settings.audit:
        notes.append(
            f"The fit used all {counts.n_audited:,} audits. The report shows the {int(observed.audited.sum()):,} "
            "audits of its own rows."
        )
    return notes


def predict_files(
    model: Any, rows: ParquetRows, folder: str | Path, *, force: bool = False, label: str | None = None
) -> WrittenPredictions:
    """Write the predictions of a stored model for a table in Parquet files.

    Parameters
    ----------
    model : TableClassifier
        Stored model with the settings of its fit.
    rows : ParquetRows
        Rows to predict.
    folder : path
        Folder for the predictions; id, label and audit columns are copied into them.
    force : bool, default=False
        Whether to replace predictions of another model.
    label : str, optional
        Label column of the files, if it has another name than in the fit.

    Returns
    -------
    WrittenPredictions
    """
    there = rows.with_index().plan(raw=True).names
    settings = settings_for(model, there, label)
    if settings.id and settings.id not in there:
        raise ValueError(f"There is no column {settings.id!r}, the id column of the fit. Add it to the files.")
    keep = [name for name in (settings.id, *settings.labels, settings.audit) if name in there]
    found: WrittenPredictions = model.predict_to(
        rows, folder, **_label_columns_of(settings, there), keep=keep, force=force
    )
    return found


def _label_columns_of(settings: Settings, there: Sequence[str]) -> dict[str, Any]:
    """Return the label and audit columns that a table has."""
    found = [name for name in settings.labels if name in there]
    if not found:
        return {}
    if len(found) < len(settings.labels):
        lost = next(name for name in settings.labels if name not in there)
        raise ValueError(
            f"There is no column {lost!r}, which was a look of the fit, but the columns of other looks exist. If that "
            "look did not take place, add an empty column. For class probabilities only, remove all columns of looks."
        )
    audit = {"audit": settings.audit} if settings.audit and settings.audit in there else {}
    return {"label": list(settings.looks) or settings.label, **audit}


def _refuse_settings_that_need_memory(settings: Settings) -> None:
    if settings.model not in ("auto", "search", "logistic"):
        raise ValueError(
            f"--model {settings.model} needs all rows in memory, so it is not available for a folder of files. Use "
            "--model search or --model logistic."
        )
    if settings.visit_attributes:
        raise ValueError(
            "--visit-attributes needs all rows in memory, so it is not available for a folder of files. Use one file, "
            "such as a random sample of the rows."
        )
    if settings.groups:
        raise ValueError(
            "--groups needs all rows in memory, so it is not available for a folder of files. Use one file, such as a "
            "random sample of groups with all of their rows."
        )
    if settings.number or settings.text:
        option, name = ("--number", settings.number) if settings.number else ("--text", settings.text)
        raise ValueError(
            f"{option} {name[0]} is not available for a folder of files, because the files determine the type of each "
            "column. Store the column as numbers, or as text, in the files."
        )
    if settings.known_propensity:
        raise ValueError(
            "--known-propensity needs all rows in memory, so it is not available for a folder of files. Use "
            "--propensity or --scar."
        )


def _with_audited(sample: Any, audited: Any) -> Any:
    """Return a sample with all audited rows added, because audits are few."""
    pandas = need("pandas", "analyse_files", "tool")
    return pandas.concat([sample, audited], ignore_index=True) if len(audited) else sample


def _pos_label(counts: FileLabelCounts, labels: dict[Any, int], settings: Settings) -> Any:
    """Return the value that marks a labelled row in the files; raise if the label column does not have two values."""
    positive = counts.observed.pos_label
    if settings.looks:
        return counts.pos_label(settings)
    if len(labels) != 2 or None in labels or positive == (ANY_VALUE,):
        found = ", ".join(f"{value!r} ({number:,} rows)" for value, number in list(labels.items())[:6])
        raise ValueError(
            f"In a folder of files, the label column {settings.label!r} must have one value for labelled rows, another "
            f"for unlabelled rows, and no missing values; it has {found}. Use 1 for labelled and 0 for unlabelled rows."
        )
    if settings.audit:
        counts.pos_label(settings)  # Raises if the values of the audits are not recognised.
    return next(value for value in labels if set(positive) & set(_as_read(value)))


def _as_read(value: Any) -> tuple[str, ...]:
    """Return the texts with which `read_labels` may represent a label value."""
    text = str(value).strip()
    return (text, number_as_text(value)) if isinstance(value, int | float) and not isinstance(value, bool) else (text,)
