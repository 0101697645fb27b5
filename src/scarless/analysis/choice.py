"""Which model `--model auto` fits, the estimator of each model, and the line that says what was fitted."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from scarless.analysis.settings import ALL, Settings
from scarless.checks.tables import take_rows
from scarless.engines.blas import predictions_on_one_thread
from scarless.label_frequency.held_out_scores import PROBABILITY, default_classifier, out_of_fold_scores
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import (
    ClassPrior,
    LabelFrequency,
    Labelling,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
)
from scarless.models.explaining import dense
from scarless.models.sar_stacking import default_boosting
from scarless.numerics.arrays import Vector
from scarless.numerics.scores import ranking_gap
from scarless.outside.notices import listed
from scarless.outside.progress import duration
from scarless.pair.draws import default_forest

AUTO, STACK, TREES, SEARCH, LOGISTIC, BOOSTED = "auto", "stack", "trees", "search", "logistic", "boosted"
SECONDS_ANNOUNCED = 60.0  # a fit that probably takes longer is announced with its time
#: Longest predicted seconds of a stack that `--model auto` prefers to a search. Evidence: measured seconds of a busy
#: core, with two propensity attributes (in brackets without names). Stack 1,000 x 20: 4 (3), 6,000 x 8: 5 (8),
#: 1,470 x 30: 4 (7), 10,000 x 20: 7 (7), 50,000 x 30: 35 (54), 1,000 x 1,500: 128 (32); of these 128, boosting and
#: forest take 43; 3,000 x 500: 40. Search 6,000 x 8: 2, 50,000 x 30: 12, 1,000 x 1,500: 78. Pair 6,000 x 8: 1, 50,000 x
#: 30: 4, 1,000 x 1,500: 14 to 23.
SECONDS_OF_AUTO = 60.0
#: Longest predicted seconds of boosting and a forest that `--model auto` prefers to boosting alone. By judgement.
SECONDS_OF_FOREST = 120.0
# Predicted seconds: a constant, plus a factor of the cells, plus a factor of the products of a Hessian of all columns.
_TREES = (3.0, 2.2e-5, 0.0)
_BOOSTING = (2.0, 1.8e-5, 0.0)  # measured: 3,000 x 600: 16; 8,190 x 1,502: 330
_LOGISTIC_MEMBERS = (0.0, 3e-6, 1.5e-8)
_SEARCH = (1.0, 6e-6, 1.4e-8)
_PAIR = (1.0, 2e-6, 4e-9)
_WITH_LOOKS = 2.0  # times as long with looks or audits: each member uses both sets of attributes. 3,000 x 12: 1.3 times
_NAMELESS = 1.6  # times as long: without named attributes, a second stack with the columns that a search found
ROWS_COMPARED, FOLDS_COMPARED = 20_000, 3  # of the comparison of a search with boosting
MIN_GAIN_OF_BOOSTING = 0.02  # difference between areas under the ROC curve from which a note names boosting
_FITS_ANYWAY = "; --model stack fits {} anyway"
_MEMBER_WORDS = {"logistic": "logistic models", "boosting": "gradient boosting", "forest": "a forest"}
_BESIDE = "Effects and reasons come from logistic models fitted beside it."
_MODEL_WORDS = {
    SEARCH: "logistic models with penalties chosen by cross-validation",
    LOGISTIC: "one logistic model for the class and one for the labelling",
    "scar": "a logistic model for the class, and one label frequency for all positives",
    "known": "a logistic model for the class, with known propensities",
}


class ModelChoice(NamedTuple):
    """The model that is fitted, and the reason if `--model auto` did not choose the full stack."""

    model: str  # a value of --model; "trees" for a stack without logistic models; "scar" or "known"
    why: str = ""
    pair_beside: bool = False  # whether a logistic pair is fitted beside it, for effects and reasons
    seconds: float = 0.0  # predicted time of the fit; 0 if there is no prediction

    @property
    def duration(self) -> str:
        """The predicted time of a fit of more than a minute, in words; empty for shorter fits."""
        return f", which takes about {duration(self.seconds)}" if self.seconds > SECONDS_ANNOUNCED else ""

    @property
    def is_search_for_speed(self) -> bool:
        """Whether `--model auto` chose the search, although another model may be better."""
        return self.model == SEARCH and bool(self.why)

    def sentence(self, fitted: Any) -> str:
        """Return the line that says which model was fitted; `fitted` is the fitted classifier."""
        members = getattr(fitted, "members_", None)
        words = _MODEL_WORDS.get(self.model, "") if members is None else f"a stack of {_shares(members)}"
        why = f", because {self.why}" if self.why else ""
        return f"{words}{why}.{f' {_BESIDE}' if self.pair_beside else ''}"


def _shares(members: Any) -> str:
    """Return the kinds of members of a stack with their shares of the weight."""
    weight: Counter[str] = Counter()
    for member in members:
        weight[_MEMBER_WORDS.get(member.name, member.name)] += member.weight
    total = sum(weight.values())
    if len(weight) == 1:
        return next(iter(weight))
    return listed([f"{name} ({value / total:.0%})" for name, value in weight.items()])


# --- the choice


def choose_model(settings: Settings, n_rows: int, n_columns: int) -> ModelChoice:
    """Return the model for a table in memory with `n_columns` prepared columns."""
    given, seconds = _given_model(settings), predicted_seconds(settings, n_rows, n_columns)
    if given is not None:
        return given._replace(seconds=seconds.get(given.model, 0.0))
    choice = _choose_by_time(seconds, n_rows, n_columns)
    return choice._replace(seconds=seconds[choice.model])


def predicted_seconds(settings: Settings, n_rows: int, n_columns: int) -> dict[str, float]:
    """Return the predicted seconds of each model for a table in memory."""
    times = _NAMELESS if settings.propensity_attributes == (ALL,) else 1.0
    times *= _WITH_LOOKS if settings.looks or settings.audit or settings.may_be_wrong else 1.0
    parts = (_TREES, _BOOSTING, _LOGISTIC_MEMBERS)
    trees, boosting, logistic = (times * _seconds(part, n_rows, n_columns) for part in parts)
    search, pair = (_seconds(part, n_rows, n_columns) for part in (_SEARCH, _PAIR))
    return {STACK: trees + logistic, TREES: trees, BOOSTED: boosting, SEARCH: search, LOGISTIC: pair}


def _choose_by_time(seconds: dict[str, float], n_rows: int, n_columns: int) -> ModelChoice:
    """Return the model that `--model auto` fits, given the predicted seconds of each model."""
    beside = seconds[LOGISTIC] <= SECONDS_OF_AUTO
    if seconds[STACK] <= SECONDS_OF_AUTO:
        return ModelChoice(STACK, pair_beside=beside)
    if seconds[TREES] <= max(SECONDS_OF_AUTO, seconds[SEARCH]):  # a wide table
        if seconds[TREES] > SECONDS_OF_FOREST:
            why = f"a forest and logistic members with {n_columns:,} columns would take several minutes more"
            return ModelChoice(BOOSTED, f"{why}{_FITS_ANYWAY.format('them')}", beside)
        why = f"logistic members with {n_columns:,} columns would take more than a minute"
        return ModelChoice(TREES, f"{why}{_FITS_ANYWAY.format('them')}", beside)
    why = f"a stack of {n_rows:,} rows and {n_columns:,} columns would take more than a minute"
    return ModelChoice(SEARCH, f"{why}{_FITS_ANYWAY.format('it')}")


def choose_model_of_files(settings: Settings) -> ModelChoice:
    """Return the model for a table in files, which only logistic models can read."""
    return _given_model(settings) or ModelChoice(SEARCH, "a stack needs all rows in memory")


def _given_model(settings: Settings) -> ModelChoice | None:
    """Return the model that the settings determine; None if `--model auto` chooses it."""
    if settings.known_propensity:
        return ModelChoice("known")
    if settings.scar:
        return ModelChoice(LOGISTIC if settings.informed else "scar")
    if settings.bounds:
        return ModelChoice(LOGISTIC, "" if settings.model == LOGISTIC else "--bounds needs one")
    return None if settings.model == AUTO else ModelChoice(settings.model)


def _seconds(factors: tuple[float, float, float], n_rows: int, n_columns: int) -> float:
    """Return the predicted seconds of a fit on two cores."""
    constant, per_cell, per_product = factors
    return constant + per_cell * n_rows * n_columns + per_product * (n_rows + n_columns) * n_columns**2


# --- a comparison with boosting


def notes_on_boosting(fitted: Any, X: Any, s: Any, weight: Vector, *, seed: int, advice: str) -> list[str]:
    """Return a note if gradient boosting ranks held-out labels clearly better than a fitted search; usually none.

    At most 20,000 rows are compared. The search ranks them by the probability of a label; it was fitted to them, which
    favours the search.
    """
    rng, counted = np.random.default_rng(seed), np.flatnonzero(weight > 0)
    rows = counted if counted.size <= ROWS_COMPARED else np.sort(rng.choice(counted, ROWS_COMPARED, replace=False))
    some, s, w = take_rows(X, rows), np.asarray(s, dtype=np.float64)[rows], weight[rows]
    try:
        table = dense(some)
        with predictions_on_one_thread(rows.size):
            boosted = out_of_fold_scores(default_classifier(table), PROBABILITY, table, s, w, FOLDS_COMPARED, rng)
    except ValueError:  # too few labels
        return []
    by_search = class_probability(fitted, some, coding_of(fitted)) * fitted.predict_propensity(some)
    gap = ranking_gap(boosted, np.asarray(by_search), s, w)
    if gap.difference < max(MIN_GAIN_OF_BOOSTING, 3.0 * gap.standard_error):
        return []
    return [
        "Gradient boosting ranks held-out labels better than this model: the area under the ROC curve is larger by "
        f"{gap.difference:.2f}. {advice}"
    ]


# --- estimators


def make_estimator(settings: Settings, model: str = "") -> Any:
    """Return the unfitted classifier for the settings; `model` replaces the model of the settings."""
    model = model or settings.model
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
    if model == LOGISTIC or settings.scar:
        return SAREMClassifier(n_starts=5, classification_attributes=seen or None, **options)
    if seen:
        options["attribute_sets"] = {"chosen": seen}
    if model == SEARCH:
        return SAREMClassifierCV(**options)
    if named == (ALL,) and not settings.looks:  # A stack then needs no names: it is not a pair that may be swapped.
        options["propensity_attributes"] = None
    return SARStackingClassifier(_members(model), **options)


def _members(model: str) -> list[tuple[str, Any]] | None:
    """Return the members of a stack; None for the default members."""
    boosting = ("boosting", default_boosting())
    return {BOOSTED: [boosting], TREES: [boosting, ("forest", default_forest())]}.get(model)


def _information(settings: Settings) -> dict[str, Any]:
    """Return the parameters for labelling and known values."""
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
