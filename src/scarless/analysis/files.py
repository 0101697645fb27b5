"""A folder of Parquet files in, an answer out: models of all rows, a report on a sample, predictions as files."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scarless.analysis.answer import (
    Analysis,
    Tell,
    choose_features,
    seen_levels,
    told_tails,
)
from scarless.analysis.estimators import MANY_ROWS, SAMPLE, make_estimator, narrowed
from scarless.analysis.file_looks import Whole
from scarless.analysis.information import told_of
from scarless.analysis.informed import informed_summary
from scarless.analysis.inspection import Inspection, inspect_table
from scarless.analysis.labels import ANY
from scarless.analysis.ranking import EITHER_WAY
from scarless.analysis.settings import ALL, Settings
from scarless.models import SAREMClassifierCV
from scarless.outside.extras import need
from scarless.outside.plain_words import plain
from scarless.raw import TableClassifier
from scarless.scale import ParquetRows, Written, file_advice
from scarless.scale.samples import draw_rows


@dataclass(frozen=True)
class FileAnalysis(Analysis):
    """What `analyse_files` found; `table` is the sample that the report is about.

    Attributes
    ----------
    rows : ParquetRows
        All rows.
    n_rows, n_labelled : int
        How many there are, and how many are labelled.
    """

    rows: Any = field(default=None, repr=False)
    n_rows: int = 0
    n_labelled: int = 0
    whole: Whole | None = field(default=None, repr=False)

    def summary(self) -> dict[str, Any]:
        """Return the answer in plain values, for machines: of all rows."""
        found = super().summary()
        if self.settings.informed and found["missing_positives"] is not None:  # labels may be wrong
            found["missing_positives"] *= self.n_rows / len(self.table)
        return found | {"rows": self.n_rows, "labelled": self.n_labelled, "rows_of_the_report": len(self.table)}

    def _weights(self) -> tuple[float, float]:
        """Return the weight of all rows, and of labelled ones; by the mean weights of the report's rows."""
        weight, labelled = super()._weights()
        n, n_labelled = len(self.table), float(self.s.sum())
        return weight * self.n_rows / n, labelled * self.n_labelled / n_labelled if n_labelled else 0.0

    def _first_rows(self) -> dict[str, Any]:
        return {}  # the first rows of a sample are not those of all rows

    def score(self, folder: str | Path, *, force: bool = False) -> Written:
        """Write predictions of all rows into a folder; what is there already is not done again."""
        return predict_files(self.model, self.rows, folder, force=force)

    def _informed(self) -> dict[str, Any]:
        observed = self.label._replace(labels=self._observed())
        model, features = self._asked
        found = informed_summary(model, observed, features, self.settings, self._column("weights"))
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
        return {"title": f"Report of a fit to {self.n_rows:,} rows, by {len(self.table):,} of them drawn at random"}

    def _ranked_into(self, folder: Path, ranked: str) -> None:
        """Leave ranked rows to `score`: there may be too many for one file."""


def inspect_files(
    rows: ParquetRows,
    label: str | None = None,
    *,
    looks: Any = (),
    audit: str = "",
    positive: Any = None,
    exclude: Any = (),
    seed: int = 0,
) -> Inspection:
    """Look at files as `inspect_table` looks at a table, by 50,000 rows at most; and at the files themselves.

    Parameters
    ----------
    rows : ParquetRows
    label : str, optional
        Column that says which rows are labelled.
    looks : list of str, optional
        In place of it: columns of labels, one for each look.
    audit : str, optional
        Column with the class of rows that somebody checked.
    positive : object, optional
        The value that marks a labelled row.
    exclude : list of str, default=()
        Columns that are left out.
    seed : int, default=0

    Returns
    -------
    Inspection
    """
    named = [name for name in (label, *looks, audit) if name]
    drawn = draw_rows(rows.with_index(), named, SAMPLE, seed)
    table = drawn.table.to_pandas(ignore_metadata=True)
    options: dict[str, Any] = {"looks": looks, "audit": audit, "positive": positive, "exclude": exclude, "seed": seed}
    found = inspect_table(table, label, **options)
    if drawn.n_rows > found.n_rows:
        among = f"These are drawn at random, of {drawn.n_rows:,} in {len(rows.files):,} files."
        found = replace(found, notes=(among, *found.notes))
    return with_advice(found, rows.files, rows.filesystem)


def with_advice(found: Inspection, files: list[str], filesystem: Any = None) -> Inspection:
    """Return what an inspection found, and what makes the Parquet files slow to walk."""
    said = file_advice(files, filesystem=filesystem)
    return replace(found, advice=tuple(f"The files: {sentence}" for sentence in said))


def analyse_files(
    rows: ParquetRows,
    settings: Settings,
    *,
    source: dict[str, Any] | None = None,
    progress: Tell | None = None,
) -> FileAnalysis:
    """Learn from a raw table in files who is positive, and who gets labelled.

    Models are fitted to all rows. Which columns are left out, how labels are read, which penalties are tried (of more
    than 200,000 rows), and the report, go by 50,000 rows drawn at random.

    Parameters
    ----------
    rows : ParquetRows
        With all columns of the files.
    settings : Settings
        As of `analyse`; logistic models only.
    source : dict, optional
        Facts of where the table comes from, kept with the result.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    FileAnalysis
    """
    tell = progress or (lambda what: None)
    _refuse_in_memory(settings)
    rows = rows.with_index()  # as the tool reads one file: it may be the id
    columns = list(rows.plan(raw=True).names)
    settings.check_columns(columns)
    tell("drawing a sample")
    named = [*settings.labels, *([settings.audit] if settings.audit else [])]
    drawn = draw_rows(rows, named, SAMPLE, settings.seed, also=settings.audit)
    sample = drawn.table.to_pandas(ignore_metadata=True)[columns]
    whole = Whole.of(drawn.kinds, settings)
    observed, pos_label = whole.of_sample(sample, settings), _pos_label(whole, drawn.labels, settings)
    features, told, leaks = choose_features(sample, settings, observed.s)
    notes = [*(whole.observed.notes if settings.informed else ()), *told_of(settings), *told]
    if settings.propensity == (ALL,) and not settings.tells_apart(whole.n_audited):
        notes.append(EITHER_WAY)
    if drawn.n_rows > SAMPLE:
        notes.append(
            f"The models are fitted to all {drawn.n_rows:,} rows. This report, its counts of rows and its checks are "
            f"about {SAMPLE:,} of them, drawn at random with seed {settings.seed}."
        )
        if settings.audit:
            notes.append(
                f"Of {whole.n_audited:,} audits, which all count in the fit, the report shows those "
                f"{int(observed.audited.sum()):,} that are among its rows."
            )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = make_estimator(settings)
        if isinstance(estimator, SAREMClassifierCV) and drawn.n_rows > MANY_ROWS:
            tell("choosing penalties")
            more = _with_checked(sample, drawn.checked.to_pandas(ignore_metadata=True)[columns])
            estimator = narrowed(estimator, more[features], whole.of_sample(more, settings), settings.seed)
            notes.append(f"Penalties were chosen with {SAMPLE:,} rows, drawn at random; the models are fitted to all.")
        tell("fitting both models")
        given = {"sample_weight": settings.weights} if settings.weights else {}
        classifier = TableClassifier(estimator.set_params(pos_label=pos_label))
        given |= {"audit": settings.audit} if settings.audit else {}
        classifier.fit(rows.select(features), list(settings.looks) or settings.label, **given)
    notes += list(dict.fromkeys(plain(each.message) for each in caught if issubclass(each.category, UserWarning)))
    notes += told_tails(classifier)
    classifier.settings_ = {**settings.to_dict(), "positive": list(observed.positive)}
    classifier.levels_ = seen_levels(sample[features])
    facts = dict(source or {})
    counted = (drawn.n_rows, whole.n_labelled, whole if settings.informed else None)
    return FileAnalysis(classifier, settings, notes, sample, observed, facts, rows, *counted, leaks=leaks)


def predict_files(model: Any, rows: ParquetRows, folder: str | Path, *, force: bool = False) -> Written:
    """Write a stored model's predictions of a table in files, with id and label as of its fit.

    Parameters
    ----------
    model : TableClassifier
        With the settings of its fit.
    rows : ParquetRows
    folder : path
    force : bool, default=False
        Replace predictions of another model.

    Returns
    -------
    Written
    """
    settings = Settings.from_dict(getattr(model, "settings_", {}), source="the model file")
    there = rows.with_index().plan(raw=True).names
    if settings.id and settings.id not in there:
        raise ValueError(f"There is no column {settings.id!r} (the id of the fit).")
    keep = [name for name in (settings.id, *settings.labels, settings.audit) if name in there]
    found: Written = model.predict_to(rows, folder, **_labels_there(settings, there), keep=keep, force=force)
    return found


def _labels_there(settings: Settings, there: Sequence[str]) -> dict[str, Any]:
    """Return the columns of labels and audits that a table has."""
    found = [name for name in settings.labels if name in there]
    if not found:
        return {}
    if len(found) < len(settings.labels):
        lost = next(name for name in settings.labels if name not in there)
        raise ValueError(
            f"There is no column {lost!r} (a look of the fit), and others are there. If that look did not take place, "
            "write an empty column; without any column of labels rows get a probability only."
        )
    audit = {"audit": settings.audit} if settings.audit and settings.audit in there else {}
    return {"label": list(settings.looks) or settings.label, **audit}


def _refuse_in_memory(settings: Settings) -> None:
    if settings.model not in ("search", "logistic"):
        raise ValueError(
            f"--model {settings.model} needs all rows in memory; a folder of files is fitted by --model search or "
            "logistic."
        )
    if settings.visits:
        raise ValueError(
            "--visit needs all rows in memory; a folder of files has --look and --audit without it. Give one file, "
            "such as a sample of the rows drawn at random."
        )
    if settings.group:
        raise ValueError("--group needs all rows in memory. Give one file, such as a sample of whole groups.")
    if settings.number or settings.text:
        option, name = ("--number", settings.number) if settings.number else ("--text", settings.text)
        raise ValueError(
            f"{option} {name[0]} is for one file: in a folder of files, a column is what the files say. Write it as "
            "numbers, or as text, there."
        )
    if settings.known_propensity:
        raise ValueError(
            "--known-propensity needs all rows in memory; a folder of files is fitted by --propensity or --scar."
        )


def _with_checked(sample: Any, checked: Any) -> Any:
    """Return a sample with those rows that were checked and not drawn: they are the only truth there is."""
    pandas = need("pandas", "analyse_files", "tool")
    return pandas.concat([sample, checked], ignore_index=True) if len(checked) else sample


def _pos_label(whole: Whole, labels: dict[Any, int], settings: Settings) -> Any:
    """Return the value that marks a labelled row, as it is in the files; raise where there are not two of them."""
    positive = whole.observed.positive
    if settings.looks:
        return whole.pos_label(settings)
    if len(labels) != 2 or None in labels or positive == (ANY,):
        found = ", ".join(f"{value!r} ({number:,} rows)" for value, number in list(labels.items())[:6])
        raise ValueError(
            f"In files the label column {settings.label!r} must have two values, one of them for unlabelled rows, and "
            f"no gaps; it has {found}. Write 1 and 0."
        )
    if settings.audit:
        whole.pos_label(settings)  # what audits say is understood
    return next(value for value in labels if set(positive) & set(_as_read(value)))


def _as_read(value: Any) -> tuple[str, ...]:
    """Return a label as `read_labels` writes it."""
    text = str(value).strip()
    return (text, f"{value:g}") if isinstance(value, int | float) and not isinstance(value, bool) else (text,)
