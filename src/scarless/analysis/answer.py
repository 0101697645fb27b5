"""A table in, an answer out: preparation, both models, ranked rows, report, files."""

import json
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
from sklearn.base import clone

from scarless.analysis.columns import as_pandas, choose_features, fit_params, notes_on_twins, seen_levels, with_numbers
from scarless.analysis.labels import Observed, read_observed
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
from scarless.diagnostics.fit.subject import Subject
from scarless.diagnostics.leaks import Leak
from scarless.models import (
    ClassPrior,
    LabelFrequency,
    Labelling,
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
)
from scarless.models.sar_stacking import default_boosting
from scarless.outside.plain_words import plain
from scarless.pair.groups import means_rows
from scarless.raw.table_classifier import TableClassifier, fit_and_prepare, with_prepared
from scarless.scale.raw_columns import LOG

SCHEMA = 1  # of summary.json
MANY_ROWS, SAMPLE = 200_000, 50_000  # from so many rows on, penalties are chosen with so many of them
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

    @cached_property
    def subject(self) -> Subject:
        """The model with the rows that it is asked about, as diagnostics and the report take them."""
        model, features = self._asked
        return Subject.of(
            model,
            features,
            self._observed(),
            audit=self.label.audit,
            sample_weight=self._column("sample_weight"),
            propensity=self._column("known_propensity"),
            level=self.settings.level,
            leaks=self.leaks,
        )

    @property
    def either_way(self) -> bool:
        """Whether nothing says which of both models is the class, so that they may have changed places."""
        return self.subject.either_way

    @property
    def silent(self) -> bool:
        """Whether the fit says nothing of positives without a label: it takes every positive to have one.

        Not where audits, several looks or numbers from elsewhere say how many are missing.
        """
        return self.subject.silent

    def ranked(self) -> Any:
        """Return a data frame of all rows, the most likely missing positives first.

        Where nothing says which of both models is the class (`either_way`), by the chance of a label.
        """
        if self.either_way:
            return rank_by_labels(self.model.naive_, self._asked[1], self.table, self.settings, self.label)
        model, features = self._asked
        known = self._column("known_propensity")
        return rank_rows(model, self.table, self.settings, self.label, propensity=known, features=features)

    def summary(self) -> dict[str, Any]:
        """Return the answer in plain values, for machines.

        Positives are counted by the weights of rows where there are any. Where the fit says nothing of positives
        without a label, there is no number of them, and no interval.
        """
        from scarless.report.fit.answer import SILENT, reservation  # noqa: PLC0415 (as the report)

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
            "doubt": SILENT if self.silent else reservation(self.either_way, self.leaks).removeprefix(", "),
            "level": self.settings.level,
            "model": type(inner).__name__,
            "converged": bool(getattr(inner, "converged_", True)),
            "notes": self.notes,
            "settings": self.settings.to_dict(),
            "source": self.source,
            "versions": versions(),
        }
        if self.settings.sample_weight:
            found |= {"weight": weight, "weight_labelled": weight_labelled}
        found |= self._informed() if self.settings.informed else {}
        return found | (dict.fromkeys(_COUNTED) if self.silent else self._first_rows())

    def _fitted(self) -> dict[str, Any]:
        """Return the model's own numbers."""
        inner = self.subject.inner
        return {
            "class_prior": _plain(getattr(inner, "class_prior_", np.nan)),
            "class_prior_interval": _ends(self.subject.prior_interval),
            "label_frequency": _plain(getattr(inner, "label_frequency_", np.nan)),
            "label_frequency_interval": _ends(lambda: inner.label_frequency_interval(level=self.settings.level)),
        }

    def _weights(self) -> tuple[float, float]:
        """Return the weight of all rows, and of labelled ones: their numbers, where rows have no weights."""
        return float(self.subject.weight.sum()), float(self.subject.weight @ self.subject.s)

    def _informed(self) -> dict[str, Any]:
        """Return the keys of a summary that only fits with looks, audits or facts have.

        Where labels may be wrong, those that are right are counted by their posteriors. Rows count by their weights.
        """
        subject, facts = self.subject, self.subject.looks
        assert facts is not None
        missing = float(subject.inner.class_prior_) * float(subject.weight.sum()) - subject.right_labels
        found: dict[str, Any] = {"missing_positives": max(missing, 0.0)}
        if self.label.audit is not None:
            checked = self.label.audit[self.label.audited]
            found["audits"] = {"rows": int(checked.size), "positive": int(checked.sum())}
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

    def _first_rows(self) -> dict[str, Any]:
        """Return how many of the rows that rank first are positive; nothing where the model cannot say."""
        if self.either_way:
            return {}
        subject = self.subject
        given: dict[str, Any] = {"audit": subject.audit, "sample_weight": subject.weights, "level": subject.level}
        try:
            found = yield_curve(subject.inner, subject.prepared, subject.labels, n=FIRST_ROWS, **given)
        except (TypeError, ValueError):  # a kind of model that knows nothing of its uncertainty, or is too wide
            return {}
        ends = [_plain(found.low[0]), _plain(found.high[0])]
        positives = {"positives": _plain(found.expected[0]), "interval": ends} if found.told else {}
        return {"first_rows": {"rows": int(found.n[0]), **positives, "sentence": found.sentence()}}

    def report(self, *, progress: Tell | None = None) -> Any:
        """Return the report of the fit; ``to_html()``, ``to_json()``, ``save(path)``."""
        from scarless.report.fit.build import report_on  # noqa: PLC0415 (draws; most callers do not)

        return report_on(
            lambda: self.subject,
            row_names=self._column("id"),
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
    model: str = "search",
    scar: bool = False,
    known_propensity: str = "",
    pos_label: Any = None,
    random_state: int = 0,
    level: float = 0.95,
    source: Any = None,
    progress: Any = None,
) -> Analysis:
    """Learn from a raw table who is positive, and who gets labelled.

    Parameters
    ----------
    table : data frame
        Raw: text, dates and gaps are prepared by skrub, see `scarless.raw.preparation.table_preparation`.
    label : str or list of str
        Column that says which rows are labelled: 1/0, yes/no, yes and nothing, true and null. A list names columns of
        labels, one for each look at the rows, as yes/no or 1/0. There an empty cell is a look that did not take place,
        and not one that found nothing.
    propensity_attributes : list of str
        Columns that the labelling may depend on; "all" where none can be named.
    classification_attributes : list of str, optional
        Columns that the class may depend on. Default: all.
    labelling : Labelling, optional
        What is said of the labelling beyond its attributes: attributes of looks (``visit_attributes={"effort":
        ["effort_1", "effort_2"]}``, columns of numbers), bounds of the propensity (with ``model="logistic"``), whether
        looks share one propensity, how often negatives are labelled, what labels of audited rows mean. It takes no
        offset.
    known : list of ClassPrior and LabelFrequency, optional
        Shares that are known from elsewhere, with their standard errors.
    audit : str, optional
        Column with the class of rows that somebody checked, yes or no; empty where nobody did. Rows must not be chosen
        by what the check would find, and negative results count: with positive ones alone it is refused.
    columns : ColumnRoles, optional
        What other columns are for: names of rows, row weights, groups of rows, columns to leave out, columns that are
        numbers or text.
    model : {"search", "stack", "logistic", "boosted"}, default="search"
        "search": logistic models, penalties chosen by held-out labels (`SAREMClassifierCV`). "logistic": one such pair
        (`SAREMClassifier`), fastest. "boosted": gradient boosting for the class; "stack": both
        (`SARStackingClassifier`).
    scar : bool, default=False
        Every positive is as likely to be labelled as any other (`SCARClassifier`).
    known_propensity : str, optional
        Column with known propensities (`PropensityWeightedClassifier`).
    pos_label : object or list of them, optional
        The value of the label column that marks a labelled row, where that is not clear, or several values; "any" for
        every value. Capital and small letters are alike.
    random_state : int, default=0
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
    settings = Settings.of_call(
        label=label, propensity_attributes=propensity_attributes, classification_attributes=classification_attributes,
        labelling=labelling, known=known, audit=audit, columns=columns, model=model, scar=scar,
        known_propensity=known_propensity, pos_label=pos_label, random_state=random_state, level=level,
    )  # fmt: skip
    return analyse_table(table, settings, source=source, progress=progress)


def analyse_table(
    table: Any, settings: Settings, *, source: dict[str, Any] | None = None, progress: Tell | None = None
) -> Analysis:
    """Learn from a raw table what settings ask for: `analyse` for callers that have settings already."""
    tell = progress or (lambda what: None)
    table = as_pandas(table)
    settings.check_columns(list(table.columns))
    found = read_observed(table, settings)
    given = fit_params(table, settings, found.s) | ({} if found.audit is None else {"audit": found.audit})
    table, read = with_numbers(table, settings.features(list(table.columns)), settings)
    tell("preparing the columns")
    features, told, leaks = choose_features(table, settings, found.s)
    before = [*found.notes, *read, *notes_on_twins(table, settings.id, settings.groups), *notes_on(settings), *told]
    columns, groups = table[features], table[settings.groups].to_numpy() if settings.groups else None
    prepared: list[Any] = []

    def fit(classifier: TableClassifier) -> None:
        prepared.append(fit_and_prepare(classifier, columns, found.labels, **given))

    classifier, notes = fit_model(
        settings, len(table), fit, lambda search: narrowed(search, columns, found, settings, groups), tell
    )
    if means_rows(given.get("groups")):
        before.append(
            f"The weights of {settings.sample_weight!r} add up to {given['sample_weight'].sum():,.0f} for "
            f"{len(table):,} rows. They are taken for survey weights, which say for how many others a row stands: "
            "standard errors and intervals count the rows."
        )
    classifier.settings_ = {**settings.to_dict(), "pos_label": list(found.pos_label)}
    classifier.levels_ = seen_levels(columns)
    kept: dict[str, Any] = {"fitted_to": (columns, prepared[0]), "leaks": leaks}
    made = Analysis(classifier, settings, before, table, found, dict(source or {}), **kept)
    if made.either_way:  # for new rows too
        classifier.naive_ = TableClassifier(NaiveClassifier()).fit(columns, found.s)
        before += [EITHER_WAY, BY_LABELS] if settings.propensity_attributes == (ALL,) else []
    before += notes
    return made


def fit_model(
    settings: Settings,
    n_rows: int,
    fit: Callable[[TableClassifier], Any],
    narrow: Callable[[SAREMClassifierCV], Any],
    tell: Tell,
) -> tuple[TableClassifier, list[str]]:
    """Return the fitted classifier that settings ask for, and what to say of the fit.

    `fit` is given the unfitted classifier. With many rows a search is first made narrower, by `narrow`.
    """
    notes = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = make_estimator(settings)
        if isinstance(estimator, SAREMClassifierCV) and n_rows > MANY_ROWS:
            tell("choosing penalties")
            estimator = narrow(estimator)
            notes.append(f"Penalties were chosen with {SAMPLE:,} rows, drawn at random; the models are fitted to all.")
        tell("fitting both models")
        classifier = TableClassifier(estimator)
        fit(classifier)
    notes += list(dict.fromkeys(plain(each.message) for each in caught if issubclass(each.category, UserWarning)))
    tails = [str(each.column) for each in classifier.origins_ or () if each.piece == LOG]
    if tails:
        listed = ", ".join(map(repr, tails))
        notes.append(f"Long tails: beside {listed} the models see the logarithm too, as effects may follow either.")
    return classifier, notes


# --- the one place where settings become estimators


def make_estimator(settings: Settings) -> Any:
    """Return the unfitted classifier that settings ask for."""
    if settings.known_propensity:
        return PropensityWeightedClassifier(method="likelihood")
    if settings.scar and not settings.informed:
        return SCARClassifier()
    named = settings.propensity_attributes
    options: dict[str, Any] = {
        "propensity_attributes": ALL if named == (ALL,) else list(named) or None,
        "random_state": settings.seed,
        **_information(settings),
    }
    seen = list(settings.classification_attributes)
    if settings.model == "logistic" or settings.scar:
        return SAREMClassifier(n_starts=5, classification_attributes=seen or None, **options)
    if seen:
        options["attribute_sets"] = {"chosen": seen}
    if settings.model == "search":
        return SAREMClassifierCV(**options)
    members = [("boosting", default_boosting())] if settings.model == "boosted" else None
    return SARStackingClassifier(members, **options)


def _information(settings: Settings) -> dict[str, Any]:
    """Return what models are told beside one label of each row."""
    if not settings.informed:
        return {}
    known: list[Any] = []
    if settings.prevalence is not None:
        known.append(ClassPrior(float(settings.prevalence), se=float(settings.prevalence_se or 0.0)))
    for name, share in settings.label_frequency.items():
        error = float(settings.label_frequency_se.get(name, 0.0))
        known.append(LabelFrequency(share, se=error, look=settings.labels.index(name)))
    rates = settings.false_positive_rate
    labelling = Labelling(
        visit_attributes={name: list(columns) for name, columns in settings.visit_attributes.items()} or None,
        bounds=settings.bounds or None,
        shared=settings.shared,
        false_positive_rate=list(rates) if isinstance(rates, tuple) else rates,
        audit_labels=settings.audit_labels,
    )
    return {"labelling": labelling, "known": known or None}


def narrowed(search: SAREMClassifierCV, X: Any, observed: Observed, settings: Settings, groups: Any = None) -> Any:
    """Return a search among those candidates only that a sample of the rows leaves possible.

    Rows that were checked are all in the sample.
    """
    drawn = np.random.default_rng(settings.seed).choice(len(X), SAMPLE, replace=False)
    rows = np.union1d(drawn, np.flatnonzero(observed.audited))
    part = observed.of(rows)
    given = {} if part.audit is None else {"audit": part.audit}
    given |= {} if groups is None else {"groups": groups[rows]}
    tried = TableClassifier(search).fit(X.iloc[rows], part.labels, **given)
    found, chosen = tried.estimator_.cv_results_, list(tried.estimator_.selection_.members)
    penalties: dict[str, Any] = {
        name: sorted({float(value) for value in found[f"param_{name[:-1]}"][chosen]})
        for name in ("Cs", "propensity_Cs")
    }
    names = set(found["param_attributes"][chosen])
    if search.attribute_sets == "auto" and len(names) < len(set(found["param_attributes"])):
        seen = [column for column in X.columns if column not in settings.visit_columns]
        penalties["attribute_sets"] = [
            seen if names == {ALL} else [c for c in seen if c not in search.propensity_attributes]
        ]
    return clone(search).set_params(**penalties)


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


def _ends(ask: Callable[[], Any]) -> list[float | None] | None:
    """Return the ends of an interval in plain values; None where the model knows none."""
    try:
        return _plain_ends(ask())
    except (AttributeError, TypeError, ValueError):
        return None


def _plain_ends(interval: Any) -> list[float | None] | None:
    return None if interval is None else [_plain(end) for end in interval]
