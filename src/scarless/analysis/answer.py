"""The analysis of a table: preprocessing, fit of both models, ranked rows, report and files."""

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from scarless.analysis.audit_history import AUDITS, AuditHistory, refuse_lost_worksheets
from scarless.analysis.choice import ModelChoice
from scarless.analysis.columns import (
    as_pandas,
    choose_features,
    fit_params,
    notes_on_both_labels,
    notes_on_duplicates,
    notes_on_values_without_labels,
    with_texts_read,
)
from scarless.analysis.fitting import ReportStep, fit_table, reference_rows
from scarless.analysis.labels import ObservedLabels, read_observed
from scarless.analysis.ranking import BY_LABELS, EITHER_WAY, rank_by_labels, rank_rows
from scarless.analysis.settings import (
    ALL,
    MODEL,
    REPORT,
    RUN,
    SUMMARY,
    Settings,
    check_folder,
    check_name,
    move_into_place,
    write_toml,
)
from scarless.analysis.values import notes_on
from scarless.diagnostics import yield_curve
from scarless.diagnostics.audits.changes import AuditChanges
from scarless.diagnostics.fit.subject import Subject
from scarless.models import NaiveClassifier
from scarless.models.inspection import LooksSummary
from scarless.models.messages import AUDITS_DIFFER, PROBABLY_SWAPPED
from scarless.models.summary import remark_on_heterogeneity
from scarless.outside.files import write_whole
from scarless.outside.plain_words import plain
from scarless.outside.shell_words import quoted_words
from scarless.pair.groups import is_rows_keyword
from scarless.raw.leaks import Leak
from scarless.raw.table_classifier import TableClassifier, with_prepared

SCHEMA = 1  # version of summary.json
FIRST_ROWS = 50  # highest-ranked rows for which the summary has the expected number of positives
_ESTIMATE_KEYS = ("class_prior_interval", "label_frequency_interval", "positives", "missing_positives")
_PACKAGES = ("scarless", "numpy", "scipy", "scikit-learn", "pandas", "skrub", "skops")


@dataclass(frozen=True)
class Analysis:
    """The result of `analyse`: the fitted model, with methods for its summary, report and files.

    Attributes
    ----------
    model : TableClassifier
        Fitted model, which takes raw tables.
    settings : Settings
        Settings of the analysis.
    notes : list of str
        Notes for the user, such as how the label column was read, and warnings of the fit.
    choice : ModelChoice
        Which model was fitted, and why.
    pair : TableClassifier or None
        Logistic models fitted beside a stack, from which the report takes effects and reasons; None for other models.
    """

    model: TableClassifier
    settings: Settings
    notes: list[str]
    table: Any = field(repr=False)
    label: ObservedLabels = field(repr=False)
    source: dict[str, Any] = field(default_factory=dict, repr=False)
    fitted_to: tuple[Any, Any] | None = field(default=None, repr=False, kw_only=True)  # raw and prepared columns
    leaks: tuple[Leak, ...] = field(default=(), repr=False, kw_only=True)  # leaking columns that were not left out
    warned: bool = field(default=False, repr=False, kw_only=True)  # whether the fit warned about its class prior
    choice: ModelChoice = field(kw_only=True)  # which model was fitted, and why
    pair: TableClassifier | None = field(default=None, repr=False, kw_only=True)  # logistic models beside a stack
    history: AuditHistory | None = field(default=None, repr=False, kw_only=True)  # worksheets and their answers
    audits_differ: bool = field(default=False, repr=False, kw_only=True)  # whether the fit warned about the answers

    @property
    def s(self) -> Any:
        """Which rows are labelled."""
        return self.label.s

    @cached_property
    def subject(self) -> Subject:
        """The model, its rows and its predictions, for the diagnostics and the report."""
        model, features = self._model_and_columns
        given: dict[str, Any] = {
            "audit": self.label.audit,
            "sample_weight": self._column("sample_weight"),
            "propensity": self._column("known_propensity"),
            "level": self.settings.level,
            "leaks": self.leaks,
        }
        subject = Subject.of(model, features, self._observed(), **given, is_contradicted=self.warned)
        if self.pair is None:
            return subject
        pair = with_prepared(self.pair, features, subject.prepared)
        return replace(subject, pair=Subject.of(pair, features, self._observed(), **given))

    @property
    def used(self) -> str:
        """The sentence that says which model was fitted, and why."""
        return self.choice.sentence(self.model.estimator_)

    @property
    def may_be_swapped(self) -> bool:
        """Whether the two models may be swapped, because nothing determines which of them is the class model."""
        return self.subject.may_be_swapped

    @property
    def is_uninformative(self) -> bool:
        """Whether the fit cannot estimate the number of positives without a label, because it finds none.

        Always False with audits, several looks or known values, which determine how many positives have no label.
        """
        return self.subject.is_uninformative

    @cached_property
    def changes(self) -> AuditChanges | None:
        """What the answers of worksheets changed; None without answers."""
        from scarless.analysis.worksheet import changes_of  # noqa: PLC0415 (an optional package)

        return None if self.history is None or not self.history.answered.any() else changes_of(self, self.history)

    def ranked(self) -> Any:
        """Return a data frame of all rows, with the most probable unlabelled positives first.

        If the models may be swapped (`may_be_swapped`), rows are ranked by their probability of a label.
        """
        if self.may_be_swapped:
            return rank_by_labels(self.model.naive_, self._model_and_columns[1], self.table, self.settings, self.label)
        model, features = self._model_and_columns
        known = self._column("known_propensity")
        return rank_rows(model, self.table, self.settings, self.label, propensity=known, features=features)

    def summary(self) -> dict[str, Any]:
        """Return the estimates as a dict of plain values.

        If rows have weights, positives are counted by weight. If the fit cannot estimate the number of positives
        without a label (`is_uninformative`), the numbers of positives and the intervals are None.
        """
        from scarless.report.fit.answer import NO_ESTIMATE, reservation  # noqa: PLC0415 (imports the report)

        n, labelled, fitted, inner = len(self.table), int(self.s.sum()), self._fitted(), self.subject.inner
        weight, weight_labelled = self._weights()
        positives = None if fitted["class_prior"] is None else fitted["class_prior"] * weight
        found = {
            "schema": SCHEMA,
            "rows": n,
            "labelled": labelled,
            **fitted,
            "positives": positives,
            "missing_positives": None if positives is None else max(positives - weight_labelled, 0.0),
            "doubt": NO_ESTIMATE if self.is_uninformative else reservation(self.subject, self.changes),
            "level": self.settings.level,
            "model": type(inner).__name__,
            "used": self.used,
            "converged": bool(getattr(inner, "converged_", True)),
            "notes": self.notes,
            "settings": self.settings.to_dict(),
            "source": self.source,
            "versions": versions(),
        }
        if self.settings.sample_weight:
            found |= {"weight": weight, "weight_labelled": weight_labelled}
        found |= self._informed() if self.settings.informed else {}
        found |= {} if self.changes is None else {"worksheets": self.changes.to_dict()}
        return found | self._first_rows | (dict.fromkeys(_ESTIMATE_KEYS) if self.is_uninformative else {})

    def _fitted(self) -> dict[str, Any]:
        """Return the estimates of the model with their intervals."""
        inner = self.subject.inner
        return {
            "class_prior": _plain(getattr(inner, "class_prior_", np.nan)),
            "class_prior_interval": _ends(self.subject.prior_interval),
            "label_frequency": _plain(getattr(inner, "label_frequency_", np.nan)),
            "label_frequency_interval": _ends(lambda: inner.label_frequency_interval(level=self.settings.level)),
        }

    def _weights(self) -> tuple[float, float]:
        """Return the total weight of all rows and of labelled rows; without weights, the numbers of these rows."""
        return float(self.subject.weight.sum()), float(self.subject.weight @ self.subject.s)

    def _informed(self) -> dict[str, Any]:
        """Return the entries of a summary that only fits with looks, audits or known values have.

        With false positives, labelled positives are counted by their posteriors. Rows are counted by their weights.
        """
        subject = self.subject
        missing = float(subject.inner.class_prior_) * float(subject.weight.sum()) - subject.labelled_positives
        found: dict[str, Any] = {"missing_positives": max(missing, 0.0)}
        if self.label.audit is not None:
            checked = self.label.audit[self.label.audited]
            found["audits"] = {"rows": int(checked.size), "positive": int(checked.sum())}
        return found if subject.looks is None else found | self._of_looks(subject.looks)

    def _of_looks(self, facts: LooksSummary) -> dict[str, Any]:
        """Return the entries about looks, their differences between rows, and false positives."""
        subject, found = self.subject, dict[str, Any]()
        if self.settings.looks:
            found["looks"] = [
                {
                    "column": name,
                    "took_place": int(np.isfinite(subject.codes[:, k]).sum()),
                    "labels": int((subject.codes[:, k] == 1).sum()),
                    "label_frequency": facts.frequencies[k][0],
                    "label_frequency_interval": _plain_ends(facts.frequencies[k][1]),
                }
                for k, name in enumerate(self.settings.looks)
            ]
        if facts.heterogeneity[0]:
            value, interval = facts.heterogeneity
            known = "given" if interval is None else "estimated"
            remarks = list(map(plain, remark_on_heterogeneity(subject.inner.fitted_pair_)))
            found["heterogeneity"] = {
                "value": value, "interval": _plain_ends(interval), "is": known, "remarks": remarks
            }  # fmt: skip
        if facts.rate_is != "none":
            partly = facts.rate_is == "estimated in part"
            found["false_positive_rates"] = [
                {
                    "value": value,
                    "interval": _plain_ends(interval),
                    "is": ("given" if interval is None else "estimated") if partly else facts.rate_is,
                }
                for value, interval in facts.rates
            ]
        return found

    @cached_property
    def _first_rows(self) -> dict[str, Any]:
        """The expected number of positives among the highest-ranked rows; empty if it is not available."""
        if self.may_be_swapped:
            return {}
        subject = self.subject
        given: dict[str, Any] = {"audit": subject.audit, "sample_weight": subject.weights, "level": subject.level}
        try:
            found = yield_curve(subject.inner, subject.prepared, subject.labels, n=FIRST_ROWS, compare=False, **given)
        except (TypeError, ValueError):  # The model has no standard errors, or too many columns for them.
            return {}
        found = replace(found, informative=found.informative and not self.is_uninformative)
        ends = [_plain(found.low[0]), _plain(found.high[0])]
        positives = {"positives": _plain(found.expected[0]), "interval": ends} if found.informative else {}
        return {"first_rows": {"rows": int(found.n[0]), **positives, "sentence": found.sentence()}}

    def report(self, *, progress: ReportStep | None = None) -> Any:
        """Return the report of the fit, which has the methods ``to_html()``, ``to_json()`` and ``save(path)``."""
        from scarless.report.fit.build import report_on  # noqa: PLC0415 (imports the drawings, which few callers need)

        return report_on(
            lambda: self.subject,
            row_names=self._column("id"),
            **self._groups(),
            changes=self.changes,
            used=self.used,
            random_state=self.settings.seed,
            run={
                **self._title(),
                "command": self._command(),
                "warnings": self.notes,
                **self.source,
                **self.settings.to_dict(),
            },
            progress=progress,
        )

    def _groups(self) -> dict[str, Any]:
        """Return what defines the groups of the section "Who is overlooked?", and its rows."""
        known = self.model.feature_names_in_
        return {"by": [name if name in known else self.table[name] for name in self.settings.by]}

    def save(
        self, folder: str | Path, *, force: bool = False, ranked: str = "ranked.csv", progress: ReportStep | None = None
    ) -> Path:
        """Write the model, report, ranked rows, summary and settings into a folder, or nothing if an error occurs.

        Parameters
        ----------
        folder : path
            Folder to create; it must not exist, unless `force` is True.
        force : bool, default=False
            Whether to replace the folder if it exists.
        ranked : str, default="ranked.csv"
            Name of the file of ranked rows; its suffix determines the format.
        progress : callable, optional
            Called with a description of the current step.

        Returns
        -------
        Path
            The folder.
        """
        from scarless.saved.files import save  # noqa: PLC0415 (an optional package)

        report_step = progress or (lambda what: None)
        folder, ranked = check_folder(folder, force=force), check_name(ranked)
        refuse_lost_worksheets(folder, self.history)
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            report_step("writing the model")
            save(self.model, aside / MODEL)
            report_step("ranking the rows")
            self._ranked_into(aside, ranked)
            write_whole(aside / SUMMARY, json.dumps(self.summary(), indent=2) + "\n")
            write_whole(aside / RUN, write_toml(self._run(ranked)))
            self.report(progress=report_step).save(aside / REPORT)
            if self.history is not None:
                self.history.save(aside / AUDITS)
            move_into_place(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return folder

    @cached_property
    def _model_and_columns(self) -> tuple[TableClassifier, Any]:
        """The model and its raw columns, whose prepared form is cached."""
        if self.fitted_to is not None:
            return with_prepared(self.model, *self.fitted_to), self.fitted_to[0]
        features = self.table[list(self.model.feature_names_in_)]
        return with_prepared(self.model, features, self.model.prepare(features)), features

    def _observed(self) -> Any:
        """Return the labels in the form that was passed to the model."""
        return self.label.labels

    def _title(self) -> dict[str, str]:
        """Return the title of the report; empty for the default title."""
        return {}

    def _ranked_into(self, folder: Path, ranked: str) -> None:
        from scarless.outside.table_files import write_table  # noqa: PLC0415 (an optional package)

        write_table(self.ranked(), folder / ranked)

    def _run(self, ranked: str) -> dict[str, Any]:
        """Return the contents of `run.toml`, which repeats this analysis."""
        return {**self.settings.to_dict(), "ranked": ranked, "source": self.source, "versions": versions()}

    def _command(self) -> str:
        """Return the command that repeats this analysis; empty if the table was not read from a file."""
        if "file" not in self.source:
            return ""
        if self.history is not None and self.history.answered.any():
            return quoted_words(["scarless", "fit", "--config", f"FOLDER/{RUN}", "--out", "NEW_FOLDER"])
        sheet = ["--sheet", str(self.source["sheet"])] if "sheet" in self.source else []
        words = ["scarless", "fit", str(self.source["file"]), *self.settings.to_flags(), *sheet, "--out", "NEW_FOLDER"]
        return quoted_words(words)

    def _column(self, role: str) -> Any:
        name = getattr(self.settings, role)
        return self.table[name].to_numpy() if name else None


def analyse(
    table: Any,
    label: Any = None,
    *,
    propensity_attributes: Any = (),
    classification_attributes: Any = (),
    labelling: Any = None,
    known: Any = (),
    audit: str = "",
    columns: Any = None,
    model: str = "auto",
    scar: bool = False,
    known_propensity: str = "",
    pos_label: Any = None,
    random_state: int = 0,
    level: float = 0.95,
    source: Any = None,
    progress: Any = None,
) -> Analysis:
    """Fit the class model and the labelling model to a raw table.

    Parameters
    ----------
    table : data frame
        Raw table; skrub encodes text, dates and missing values (see `scarless.raw.preparation.table_preparation`).
    label : str or list of str
        Label column: 1/0, yes/no, true/false, or a value for labelled rows and empty cells for the others. A list names
        one label column for each look, as yes/no or 1/0; an empty cell is then a look that did not take place.
    propensity_attributes : list of str
        Columns that the propensity depends on; "all" if you cannot name them.
    classification_attributes : list of str, optional
        Columns that the class probability depends on. By default, all columns.
    labelling : Labelling, optional
        Further properties of the labelling: attributes of looks (``visit_attributes={"effort": ["effort_1",
        "effort_2"]}``), bounds of the propensity (with ``model="logistic"``), false positives, and the use of labels of
        audited rows. An offset is not supported.
    known : list of ClassPrior and LabelFrequency, optional
        Known values with their standard errors.
    audit : str, optional
        Column with the true class of audited rows, yes or no; empty for other rows. The audited rows must not be chosen
        by their class, and negative findings must be included.
    columns : ColumnRoles, optional
        Roles of other columns: id, weights, groups, excluded columns, and columns to read as numbers or text.
    model : {"auto", "stack", "search", "logistic", "boosted"}, default="auto"
        "auto": the stack if it probably takes less than a minute, otherwise the search. Effects of columns and reasons
        of rows then come from a logistic pair fitted beside the stack. "stack": a stack of a logistic model, gradient
        boosting and a forest (`SARStackingClassifier`). "search": logistic models, with penalties chosen by
        cross-validation (`SAREMClassifierCV`). "logistic": one logistic pair (`SAREMClassifier`), the fastest.
        "boosted": gradient boosting for the class.
    scar : bool, default=False
        Whether all positives are equally likely to be labelled (`SCARClassifier`).
    known_propensity : str, optional
        Column with known propensities (`PropensityWeightedClassifier`).
    pos_label : object or list of objects, optional
        Value, or values, of the label column that mark a labelled row; "any" for every value. Not needed for 1/0,
        yes/no and the like. Upper and lower case are not distinguished.
    random_state : int, default=0
        Seed of the random numbers.
    level : float in (0, 1), default=0.95
        Confidence level.
    source : dict, optional
        Origin of the table, such as its file; stored with the result.
    progress : callable, optional
        Called with a description of the current step.

    Returns
    -------
    Analysis

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> patients = pd.DataFrame({"age": rng.normal(50, 10, 2000), "visits": rng.poisson(3, 2000)})
    >>> ill = rng.random(2000) < 1 / (1 + np.exp(-(patients["age"] - 50) / 5))
    >>> seen = rng.random(2000) < 1 / (1 + np.exp(3 - patients["visits"]))
    >>> patients["diagnosed"] = np.where(ill & seen, "yes", None)
    >>> found = analyse(patients, "diagnosed", propensity_attributes=["visits"], model="logistic")
    >>> low, high = found.model.class_prior_interval()
    >>> bool(low < ill.mean() < high)
    True
    >>> list(found.ranked().columns[:4])
    ['rank', 'row', 'labelled', 'probability']
    """
    settings = Settings.of_call(
        label=label, propensity_attributes=propensity_attributes, classification_attributes=classification_attributes,
        labelling=labelling, known=known, audit=audit, columns=columns, model=model, scar=scar,
        known_propensity=known_propensity, pos_label=pos_label, random_state=random_state, level=level,
    )  # fmt: skip
    return analyse_table(table, settings, source=source, progress=progress)


def analyse_table(
    table: Any,
    settings: Settings,
    *,
    source: dict[str, Any] | None = None,
    history: AuditHistory | None = None,
    progress: ReportStep | None = None,
) -> Analysis:
    """Fit both models to a raw table, like `analyse`, with `Settings` instead of parameters.

    `history` are the worksheets of the analysis, whose answers are a column of the table.
    """
    report_step = progress or (lambda what: None)
    table = as_pandas(table)
    settings.check_columns(list(table.columns))
    found = read_observed(table, settings)
    given = fit_params(table, settings, found.s) | ({} if found.audit is None else {"audit": found.audit})
    table, read = with_texts_read(table, settings.features(list(table.columns)), settings)
    report_step("preparing the columns")
    features, feature_notes, leaks = choose_features(table, settings, found.s)
    duplicate_notes = notes_on_duplicates(table, settings.id, settings.groups)
    duplicate_notes += notes_on_both_labels(table, found.s, features, settings.id)
    never_labelled = notes_on_values_without_labels(table[features], settings, found, leaks)
    before = [*found.notes, *read, *duplicate_notes, *notes_on(settings), *feature_notes, *never_labelled]
    columns = table[features]
    fitted = fit_table(
        columns, table[settings.groups] if settings.groups else None, found, settings, given, report_step
    )
    if is_rows_keyword(given.get("groups")):
        before.append(
            f"The weights of {settings.sample_weight!r} add up to {given['sample_weight'].sum():,.0f} for "
            f"{len(table):,} rows, so they are treated as survey weights. Standard errors and intervals are based on "
            "the number of rows, not on the sum of the weights."
        )
    classifier, weight = fitted.model, given.get("sample_weight")
    classifier.settings_ = {**settings.to_dict(), "pos_label": list(found.pos_label)}
    classifier.reference_ = reference_rows(
        classifier, columns, fitted.prepared, settings, labelled=found.s, weight=weight
    )
    kept: dict[str, Any] = {"fitted_to": (columns, fitted.prepared), "leaks": leaks, "history": history}
    kept |= {"warned": fitted.warned, "choice": fitted.choice, "pair": fitted.pair}
    answered = history is not None and bool(history.answered.any())
    kept["audits_differ"] = answered and any(AUDITS_DIFFER in note for note in fitted.notes)
    made = Analysis(classifier, settings, before, table, found, dict(source or {}), **kept)
    if made.may_be_swapped:  # `predict_table` needs the naive model to rank new rows.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The fit above has warned about the same table.
            classifier.naive_ = TableClassifier(NaiveClassifier()).fit(columns, found.s)
        before += [EITHER_WAY, BY_LABELS] if settings.propensity_attributes == (ALL,) else []
    # The fit reads the numbers again. Two statements about swapped models, or about the answers of worksheets, would
    # contradict each other: the notes above and `changes` make them.
    said = [PROBABLY_SWAPPED] if EITHER_WAY in before else []
    said += [AUDITS_DIFFER] if answered else []
    before += [note for note in fitted.notes if note not in before and not any(part in note for part in said)]
    return made


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the results depend on."""
    found = {"python": python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> float | None:
    """Return a number for JSON: a float, or None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def _ends(ask: Callable[[], Any]) -> list[float | None] | None:
    """Return the ends of an interval, or None if the model has no intervals."""
    try:
        return _plain_ends(ask())
    except (AttributeError, TypeError, ValueError):
        return None


def _plain_ends(interval: Any) -> list[float | None] | None:
    return None if interval is None else [_plain(end) for end in interval]
