"""A table in, an answer out: preparation, both models, ranked rows, report, files."""

import json
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from scarless.analysis.estimators import MANY_ROWS, SAMPLE, make_estimator, narrowed
from scarless.analysis.folders import MODEL, REPORT, RUN, SUMMARY, check_folder, check_name, move_into_place
from scarless.analysis.information import told_of
from scarless.analysis.informed import informed_summary
from scarless.analysis.kinds import row_names, told_of_twins
from scarless.analysis.looks import Observed, read_observed
from scarless.analysis.ranking import BY_LABELS, EITHER_WAY, rank_by_labels, rank_rows
from scarless.analysis.settings import ALL, Settings, write_toml
from scarless.checks.attributes import with_text_names
from scarless.checks.estimators import opened
from scarless.checks.vectors import check_counts
from scarless.diagnostics import yield_curve
from scarless.diagnostics.leaks import Leak, find_leaks, settle_leaks
from scarless.models import NaiveClassifier, SAREMClassifierCV
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.outside.plain_words import plain
from scarless.pair.groups import HEAVY, means_rows
from scarless.raw.table_classifier import TableClassifier, fit_and_prepare, with_prepared
from scarless.raw.tables import read_numbers
from scarless.scale.raw_columns import LOG, MOST_LEVELS

SCHEMA = 1  # of summary.json
FIRST_ROWS = 50  # of the ranking, of which the summary says how many are positive
_COUNTED = ("class_prior_interval", "label_frequency_interval", "positives", "missing_positives")  # of a summary
_PACKAGES = ("scarless", "numpy", "scipy", "scikit-learn", "pandas", "skrub", "skops")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Analysis:
    """What `analyse` found: the model, and ways to show and keep it.

    Attributes
    ----------
    model : TableClassifier
        Fitted; takes raw tables.
    settings : Settings
        What was asked for.
    notes : list of str
        What the user should know: how the label was read, warnings of the fit.
    """

    model: TableClassifier
    settings: Settings
    notes: list[str]
    table: Any = field(repr=False)
    label: Observed = field(repr=False)
    source: dict[str, Any] = field(default_factory=dict, repr=False)
    fitted_to: tuple[Any, Any] | None = field(default=None, repr=False, kw_only=True)  # raw columns, and prepared ones
    leaks: tuple[Leak, ...] = field(default=(), repr=False, kw_only=True)  # columns that the models see all the same

    @property
    def s(self) -> Any:
        """Which rows are labelled."""
        return self.label.s

    def ranked(self) -> Any:
        """Return a data frame of all rows, the most likely missing positives first.

        Where nothing says which of both models is the class (`either_way`), by the chance of a label.
        """
        if self.either_way:
            return rank_by_labels(self.model.naive_, self._asked[1], self.table, self.settings, self.label)
        model, features = self._asked
        known = self._column("known_propensity")
        return rank_rows(model, self.table, self.settings, self.label, propensity=known, features=features)

    @property
    def either_way(self) -> bool:
        """Whether nothing says which of both models is the class, so that they may have changed places."""
        seen = set(self.model.feature_names_in_) - set(self.settings.visit_columns)
        everything = self.settings.propensity == (ALL,) or seen <= set(self.settings.propensity)
        return everything and not self.settings.tells_apart(int(self.label.audited.sum()))

    @property
    def silent(self) -> bool:
        """Whether the fit says nothing of positives without a label: it takes every positive to have one.

        Not where audits, several looks or numbers from elsewhere say how many are missing.
        """
        from scarless.report.fit.answer import says_nothing  # noqa: PLC0415 (as the report)

        chosen, found = self.settings, self._fitted()
        told = chosen.tells_apart(int(self.label.audited.sum())) or chosen.known_propensity
        if told or chosen.prevalence is not None or chosen.label_frequency or bool(np.all(self.s)):
            return False
        return says_nothing(found["label_frequency"], *(found["class_prior_interval"] or (None, None)))

    def summary(self) -> dict[str, Any]:
        """Return the answer in plain values, for machines.

        Positives are counted by the weights of rows where there are any. Where the fit says nothing of positives
        without a label, there is no number of them, and no interval.
        """
        from scarless.report.fit.answer import SILENT, reservation  # noqa: PLC0415 (as the report)

        n, labelled, fitted = len(self.table), int(self.s.sum()), self._fitted()
        weight, weight_labelled = self._weights()
        positives = None if fitted["class_prior"] is None else fitted["class_prior"] * weight
        found = {
            "schema": SCHEMA,
            "rows": n,
            "labelled": labelled,
            **fitted,
            "positives": positives,
            "missing_positives": None if positives is None else max(positives - weight_labelled, 0.0),
            "doubt": SILENT if self.silent else reservation(self.either_way, self.leaks).removeprefix(", "),
            "level": self.settings.level,
            "model": type(opened(self.model)[0]).__name__,
            "converged": bool(getattr(opened(self.model)[0], "converged_", True)),
            "notes": self.notes,
            "settings": self.settings.to_dict(),
            "source": self.source,
            "versions": versions(),
        }
        if self.settings.weights:
            found |= {"weight": weight, "weight_labelled": weight_labelled}
        found |= self._informed() if self.settings.informed else {}
        return found | (dict.fromkeys(_COUNTED) if self.silent else self._first_rows())

    def _fitted(self) -> dict[str, Any]:
        """Return the model's own numbers."""
        inner, _ = opened(self.model)
        return {
            "class_prior": _plain(getattr(inner, "class_prior_", np.nan)),
            "class_prior_interval": self._at_least_labelled(self._interval("class_prior_interval")),
            "label_frequency": _plain(getattr(inner, "label_frequency_", np.nan)),
            "label_frequency_interval": self._interval("label_frequency_interval"),
        }

    def _weights(self) -> tuple[float, float]:
        """Return the weight of all rows, and of labelled ones: their numbers, where rows have no weights."""
        weight, s = self._column("weights"), np.asarray(self.s, dtype=np.float64)
        return (float(len(s)), float(s.sum())) if weight is None else (float(weight.sum()), float(weight @ s))

    def _first_rows(self) -> dict[str, Any]:
        """Return how many of the rows that rank first are positive; nothing where the model cannot say."""
        if self.either_way:
            return {}
        model, features = self._asked
        given = {"audit": self.label.audit, "sample_weight": self._column("weights"), "level": self.settings.level}
        try:
            found = yield_curve(model, features, self._observed(), n=FIRST_ROWS, **given)
        except (TypeError, ValueError):  # a kind of model that knows nothing of its uncertainty, or is too wide
            return {}
        ends = [_plain(found.low[0]), _plain(found.high[0])]
        positives = {"positives": _plain(found.expected[0]), "interval": ends} if found.told else {}
        return {"first_rows": {"rows": int(found.n[0]), **positives, "sentence": found.sentence()}}

    def report(self, *, progress: Tell | None = None) -> Any:
        """Return the report of the fit; ``to_html()``, ``to_json()``, ``save(path)``."""
        from scarless.report import model_report  # noqa: PLC0415 (draws; most callers do not)

        return model_report(
            *self._asked,
            self._observed(),
            audit=self.label.audit,
            sample_weight=self._column("weights"),
            propensity=self._column("known_propensity"),
            row_names=self._column("id"),
            level=self.settings.level,
            random_state=self.settings.seed,
            run={**self._title(), "warnings": self.notes, **self.source, **self.settings.to_dict()},
            progress=progress,
        )

    def save(
        self, folder: str | Path, *, force: bool = False, ranked: str = "ranked.csv", progress: Tell | None = None
    ) -> Path:
        """Write model, report, ranked rows, summary and the run itself into a folder: all of it, or nothing.

        Parameters
        ----------
        folder : path
            Made; must not exist unless `force`.
        force : bool, default=False
            Whether a folder of that name is replaced.
        ranked : str, default="ranked.csv"
            Name of the file of ranked rows; its suffix says of which kind.
        progress : callable, optional
            Told what is being done.

        Returns
        -------
        Path
            The folder.
        """
        from scarless.saved.files import save  # noqa: PLC0415 (an optional package)

        tell = progress or (lambda what: None)
        folder, ranked = check_folder(folder, force=force), check_name(ranked)
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            tell("writing the model")
            save(self.model, aside / MODEL)
            tell("ranking the rows")
            self._ranked_into(aside, ranked)
            (aside / SUMMARY).write_text(json.dumps(self.summary(), indent=2) + "\n", encoding="utf-8")
            (aside / RUN).write_text(write_toml(self._run(ranked)), encoding="utf-8")
            self.report(progress=tell).save(aside / REPORT)
            move_into_place(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return folder

    def _informed(self) -> dict[str, Any]:
        model, features = self._asked
        return informed_summary(model, self.label, features, self.settings, self._column("weights"))

    @cached_property
    def _asked(self) -> tuple[TableClassifier, Any]:
        """The model and the columns that it is asked about, which are prepared only once."""
        if self.fitted_to is not None:
            return with_prepared(self.model, *self.fitted_to), self.fitted_to[0]
        features = self.table[list(self.model.feature_names_in_)]
        return with_prepared(self.model, features, self.model.prepare(features)), features

    def _observed(self) -> Any:
        """Return the labels as the model was given them."""
        return self.label.labels

    def _title(self) -> dict[str, str]:
        """Return what heads the report, where that is not as always."""
        return {}

    def _ranked_into(self, folder: Path, ranked: str) -> None:
        from scarless.outside.table_files import write_table  # noqa: PLC0415 (an optional package)

        write_table(self.ranked(), folder / ranked)

    def _run(self, ranked: str) -> dict[str, Any]:
        """Return what repeats this analysis."""
        return {**self.settings.to_dict(), "ranked": ranked, "source": self.source, "versions": versions()}

    def _interval(self, method: str) -> list[float | None] | None:
        try:
            low, high = getattr(self.model, method)(level=self.settings.level)
        except (AttributeError, ValueError):
            return None
        return [_plain(low), _plain(high)]

    def _at_least_labelled(self, ends: list[float | None] | None) -> list[float | None] | None:
        """Return the ends of an interval as the report has them: labelled rows are positive, if labels are sure."""
        if ends is None or self.settings.false_positives != 0.0:
            return ends
        weight, s = self._column("weights"), np.asarray(self.s, dtype=np.float64)
        known = float(np.average(s, weights=weight))
        return [None if end is None else max(end, known) for end in ends]

    def _column(self, role: str) -> Any:
        name = getattr(self.settings, role)
        return self.table[name].to_numpy() if name else None


def analyse(
    table: Any,
    label: Any = None,
    *,
    looks: Any = (),
    visits: Any = None,
    audit: str = "",
    audit_labels: str = "keep",
    prevalence: Any = None,
    prevalence_se: Any = None,
    label_frequency: Any = None,
    label_frequency_se: Any = None,
    propensity_bounds: Any = (),
    false_positives: Any = 0.0,
    own_propensities: bool = False,
    propensity_attributes: Any = (),
    class_attributes: Any = (),
    model: str = "search",
    scar: Any = False,
    known_propensity: str = "",
    weights: str = "",
    id: str = "",
    group: str = "",
    exclude: Any = (),
    positive: Any = None,
    number: Any = (),
    text: Any = (),
    seed: int = 0,
    level: float = 0.95,
    source: Any = None,
    progress: Any = None,
) -> Analysis:
    """Learn from a raw table who is positive, and who gets labelled.

    Parameters
    ----------
    table : data frame
        Raw: text, dates and gaps are prepared by skrub, see `scarless.raw.preparation.table_preparation`.
    label : str, optional
        Column that says which rows are labelled: 1/0, yes/no, yes and nothing, true and null.
    looks : list of str, optional
        In place of `label`: columns of labels, one for each look at the rows, as yes/no or 1/0. Here an empty cell is
        a look that did not take place, and not one that found nothing.
    visits : dict, optional
        Attributes of looks, a column for each look: ``{"effort": ["effort_1", "effort_2"]}``. Numbers.
    audit : str, optional
        Column with the class of rows that somebody checked, yes or no; empty where nobody did. Rows must not be chosen
        by what the check would find, and negative results count: with positive ones alone it is refused.
    audit_labels : {"keep", "drop", "undo"}, default="keep"
        If findings of the audit were entered as labels: "drop", or "undo" where only rows without a label were audited.
        See `SAREMClassifier`.
    prevalence, prevalence_se : float, optional
        The share of positives, where it is known from elsewhere, and its standard error.
    label_frequency, label_frequency_se : float or dict, optional
        The share of positives that a look labels, where it is known from elsewhere, and its standard error; of several
        looks by their columns, ``{"visit_1": 0.8}``.
    propensity_bounds : (float, float), optional
        The least and the largest propensity there may be; with ``model="logistic"``.
    false_positives : float or "estimate", or a list of them, default=0.0
        The share of negatives that a look labels; with `own_propensities` one for each look. To be estimated it takes
        several looks, or audits of labelled rows.
    own_propensities : bool, default=False
        Whether each look, an annotator say, has coefficients of its own.
    propensity_attributes : list of str
        Columns that the labelling may depend on; "all" where none can be named.
    class_attributes : list of str, optional
        Columns that the class may depend on. Default: all.
    model : {"search", "stack", "logistic", "boosted"}, default="search"
        "search": logistic models, penalties chosen by held-out labels (`SAREMClassifierCV`). "logistic": one such pair
        (`SAREMClassifier`), fastest. "boosted": gradient boosting for the class; "stack": both
        (`SARStackingClassifier`).
    scar : bool, default=False
        Every positive is as likely to be labelled as any other (`SCARClassifier`).
    known_propensity : str, optional
        Column with known propensities (`PropensityWeightedClassifier`).
    weights, id : str, optional
        Columns with row weights, and with names of rows.
    group : str, optional
        Column with what each row belongs to, where several rows are of one patient or thing: folds never split a group,
        and intervals of the share of positives account for groups.
    exclude : list of str, optional
        Columns to leave out.
    positive : object or list of them, optional
        The value of the label column that marks a labelled row, where that is not clear, or several values; "any" for
        every value. Capital and small letters are alike.
    number, text : list of str, optional
        Columns that are numbers, or text, where more than 1% of the cells of a column of numbers cannot be read.
        Fewer are taken for missing, with a note that names them; see `scarless.raw.tables`.
    seed : int, default=0
        Seed of everything that is drawn.
    level : float, default=0.95
        Nominal probability that an interval covers.
    source : dict, optional
        Facts of where the table comes from, kept with the result.
    progress : callable, optional
        Told what is being done.

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
    tell = progress or (lambda what: None)
    values = {
        "label": label or "", "propensity": propensity_attributes, "class_attributes": class_attributes, "model": model,
        "scar": scar, "known_propensity": known_propensity, "weights": weights, "id": id, "exclude": exclude,
        "group": group, "positive": positive, "seed": seed, "level": level, "looks": looks,
        "visits": visits or {}, "audit": audit, "audit_labels": audit_labels,
        "prevalence": prevalence, "prevalence_se": prevalence_se,
        "false_positives": false_positives, "own_propensities": own_propensities,
        "label_frequency": label_frequency, "label_frequency_se": label_frequency_se,
        "propensity_bounds": tuple(propensity_bounds), "number": number, "text": text,
    }  # fmt: skip
    settings = Settings.from_dict(values, source="analyse")
    table = as_pandas(table)
    settings.check_columns(list(table.columns))
    found = read_observed(table, settings)
    given = _fit_params(table, settings, found.s) | ({} if found.audit is None else {"audit": found.audit})
    table, read = with_numbers(table, settings.features(list(table.columns)), settings)
    tell("preparing the columns")
    features, told, leaks = choose_features(table, settings, found.s)
    notes = [*found.notes, *read, *told_of_twins(table, settings.id, settings.group), *told_of(settings), *told]
    if settings.propensity == (ALL,) and not settings.tells_apart(int(found.audited.sum())):
        notes += [EITHER_WAY, BY_LABELS]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = make_estimator(settings)
        if isinstance(estimator, SAREMClassifierCV) and len(table) > MANY_ROWS:
            tell("choosing penalties")
            groups = table[settings.group].to_numpy() if settings.group else None
            estimator = narrowed(estimator, table[features], found, settings.seed, groups)
            notes.append(f"Penalties were chosen with {SAMPLE:,} rows, drawn at random; the models are fitted to all.")
        tell("fitting both models")
        if means_rows(given.get("groups")):
            notes.append(
                f"The weights of {settings.weights!r} add up to {given['sample_weight'].sum():,.0f} for {len(table):,} "
                "rows. They are taken for survey weights, which say for how many others a row stands: standard errors "
                "and intervals count the rows."
            )
        classifier, columns = TableClassifier(estimator), table[features]
        prepared = fit_and_prepare(classifier, columns, found.labels, **given)
    notes += list(dict.fromkeys(plain(each.message) for each in caught if issubclass(each.category, UserWarning)))
    notes += told_tails(classifier)
    classifier.settings_ = {**settings.to_dict(), "positive": list(found.positive)}
    classifier.levels_ = seen_levels(table[features])
    kept = {"fitted_to": (columns, prepared), "leaks": leaks}
    made = Analysis(classifier, settings, notes, table, found, dict(source or {}), **kept)
    if made.either_way:  # for new rows too
        classifier.naive_ = TableClassifier(NaiveClassifier()).fit(columns, found.s)
    return made


def choose_features(table: Any, settings: Settings, s: Any) -> tuple[list[str], list[str], tuple[Leak, ...]]:
    """Return the columns that models see, what to say of ids and leaks, and those leaks that stay."""
    features, notes = settings.features(list(table.columns)), []
    named = {*settings.propensity, *settings.class_attributes, *settings.visit_columns}
    for name in row_names(table[features]):
        like = f"Column {name!r} is another one in every row, as an id is"
        if name not in named:
            features.remove(name)
            notes.append(f"{like}: left out (--id {shlex.quote(name)} shows it).")
        elif name not in settings.visit_columns:
            option = "--propensity" if name in settings.propensity else "--class-attributes"
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


def told_tails(classifier: TableClassifier) -> list[str]:
    """Return what to say of columns whose logarithm was put beside them."""
    tails = [str(each.column) for each in classifier.origins_ or () if each.piece == LOG]
    listed = ", ".join(map(repr, tails))
    said = f"Long tails: beside {listed} the models see the logarithm too, as effects may follow either."
    return [said] if tails else []


def seen_levels(X: Any) -> dict[str, list[str]]:
    """Return the values of columns of categories, to tell new ones."""
    text = [name for name in X.columns if X[name].dtype.kind not in "fiubM"]
    found = {str(name): sorted(X[name].dropna().astype(str).unique()) for name in text}
    return {name: levels for name, levels in found.items() if len(levels) <= MOST_LEVELS}


def _fit_params(table: Any, settings: Settings, s: Any) -> dict[str, Any]:
    """Return weights, propensities and groups of the rows, checked, so that bad cells are told before any work."""
    found: dict[str, Any] = {}
    if settings.weights:
        found["sample_weight"] = _weights(table[settings.weights], settings.weights, s)
    if settings.known_propensity:
        found["propensity"] = _propensities(table[settings.known_propensity], settings.known_propensity)
    if settings.group:
        gaps = np.flatnonzero(table[settings.group].isna().to_numpy())
        if gaps.size:
            raise ValueError(
                f"Column {settings.group!r} (--group) has {gaps.size:,} missing values, the first in row {gaps[0] + 1} "
                "(counted from 1). Give such rows a group of their own, or drop them."
            )
        found["groups"] = table[settings.group].to_numpy()
    elif settings.weights and not settings.takes_no_groups and found["sample_weight"].mean() > HEAVY:
        found["groups"] = "rows"
    return found


def _weights(values: Any, name: str, s: Any) -> Vector:
    """Return weights that are finite, at least 0, and not 0 for all labelled rows or all others."""
    weight = _numbers(values, name, "--weights")
    bad = ~((weight >= 0) & (weight < np.inf))
    if bad.any():
        raise _bad_cells(values, name, "--weights", bad, "must hold finite numbers of at least 0")
    labelled = np.asarray(s) == 1
    for rows, kind in ((labelled, "labelled"), (~labelled, "unlabelled")):
        if rows.any() and not weight[rows].any():
            raise ValueError(f"Column {name!r} (--weights) is 0 for every {kind} row; at least one of them must count.")
    try:
        check_counts(weight, n_rows=weight.size)
    except ValueError as error:
        raise ValueError(f"Column {name!r} (--weights): {error}") from error
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


def versions() -> dict[str, str]:
    """Return the versions of what an answer depends on."""
    found = {"python": python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> float | None:
    """Return a number that JSON knows."""
    return float(value) if np.isfinite(value) else None
