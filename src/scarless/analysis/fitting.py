"""The fit of an analysis: preparation, choice of the model, its fit, and logistic models beside a stack."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from scarless.analysis.choice import LOGISTIC, SEARCH, ModelChoice, choose_model, make_estimator, notes_on_boosting
from scarless.analysis.labels import ObservedLabels
from scarless.analysis.settings import ALL, Settings
from scarless.models import SAREMClassifier, SAREMClassifierCV
from scarless.outside.notices import ClassPriorWarning
from scarless.outside.plain_words import plain
from scarless.raw.leaks import ColumnWarning
from scarless.raw.reference import ReferenceRows, describe_rows
from scarless.raw.table_classifier import TableClassifier, finish_fit, start_fit
from scarless.scale.raw_columns import LOG

# With more than MANY_ROWS rows, penalties are chosen with a sample of SAMPLE_ROWS rows. By judgement.
MANY_ROWS, SAMPLE_ROWS = 200_000, 50_000
ReportStep = Callable[[str], None]


class FittedTable(NamedTuple):
    """The models of an analysis, which are fitted to a table in memory."""

    model: TableClassifier
    prepared: Any  # input of the classifier
    choice: ModelChoice
    pair: TableClassifier | None  # logistic models beside a stack
    notes: list[str]
    warned: bool  # whether the fit warned about its class prior


def fit_table(
    columns: Any, groups: Any, found: ObservedLabels, settings: Settings, given: dict[str, Any], report_step: ReportStep
) -> FittedTable:
    """Prepare the columns, choose the model, and fit it; `given` are parameters of its `fit`."""
    notes: list[str] = []
    weight = given.get("sample_weight")
    with warnings_as_notes(notes):
        started = start_fit(make_estimator(settings, SEARCH), columns, found.labels, weight, given.get("audit"))
    choice = choose_model(settings, *started.prepared.shape)

    def fit(estimator: Any) -> TableClassifier:
        return finish_fit(started, estimator, found.labels, **given)

    def narrow(search: SAREMClassifierCV) -> Any:
        return narrowed(search, columns, found, settings, None if groups is None else groups.to_numpy())

    estimator = make_estimator(settings, choice.model)
    model, fit_notes, warned = fit_model(estimator, len(columns), fit, narrow, report_step)
    notes += fit_notes
    if choice.is_search_for_speed and not settings.looks:
        report_step("comparing the models with boosting")
        w, advice = np.ones(len(columns)) if weight is None else weight, "Fit --model stack, which takes longer."
        inner = model.estimator_
        notes += notes_on_boosting(inner, started.prepared, found.s, w, seed=settings.seed, advice=advice)
    pair = None
    if choice.pair_beside:
        report_step("fitting logistic models, for effects and reasons")
        pair, why = fit_pair_beside(fit, make_estimator(settings, LOGISTIC))
        choice, notes = choice._replace(pair_beside=pair is not None), [*notes, *why]
    return FittedTable(model, started.prepared, choice, pair, notes, warned)


def reference_rows(
    classifier: TableClassifier, X: Any, prepared: Any, settings: Settings, *, labelled: Any, weight: Any
) -> ReferenceRows:
    """Return the description of the rows of the fit that the model file stores to detect drift."""
    named = [name for name in settings.propensity_attributes if name != ALL]
    origins = classifier.origins_
    return describe_rows(X, prepared=prepared, origins=origins, labelled=labelled, weight=weight, first=named)


def fit_model(
    estimator: Any,
    n_rows: int,
    fit: Callable[[Any], TableClassifier],
    narrow: Callable[[SAREMClassifierCV], Any],
    report_step: ReportStep,
) -> tuple[TableClassifier, list[str], bool]:
    """Return the fitted classifier of raw tables, notes on the fit, and whether it warned about its class prior.

    `fit` fits the estimator to the table. With many rows, `narrow` first reduces the candidates of a search.
    """
    notes: list[str] = []
    with warnings_as_notes(notes) as caught:
        if isinstance(estimator, SAREMClassifierCV) and n_rows > MANY_ROWS:
            report_step("choosing penalties")
            estimator = narrow(estimator)
            notes.append(
                f"The penalties were chosen with {SAMPLE_ROWS:,} rows, drawn at random; the models were fitted to all "
                "rows."
            )
        report_step("fitting both models")
        classifier = fit(estimator)
    tails = [str(each.column) for each in classifier.origins_ or () if each.piece == LOG]
    if tails:
        listed = ", ".join(map(repr, tails))
        notes.append(f"The distribution of {listed} has a long tail, so the models also use its logarithm.")
    return classifier, notes, any(issubclass(each.category, ClassPriorWarning) for each in caught)


@contextmanager
def warnings_as_notes(notes: list[str]) -> Iterator[list[warnings.WarningMessage]]:
    """Append the warnings of the body to the notes, each once and in plain words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ColumnWarning)  # The notes on the columns say the same.
        yield caught
    new = (plain(each.message) for each in caught if issubclass(each.category, UserWarning))
    notes += [note for note in dict.fromkeys(new) if note not in notes]


def fit_pair_beside(
    fit: Callable[[Any], TableClassifier], estimator: SAREMClassifier
) -> tuple[TableClassifier | None, list[str]]:
    """Return the logistic models beside a stack, and a note if their coefficients are not available or not reliable.

    They are fitted from several starts only if a trial finds that one start gave a local optimum. Warnings about the
    class prior are left out, because no number of the report comes from these models.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            pair = fit(clone(estimator).set_params(n_starts=1))
            if getattr(pair.estimator_, "higher_optimum_", None) is not None:
                caught.clear()
                pair = fit(estimator)
        except ValueError as error:
            return None, [f"There are no coefficients, because logistic models could not be fitted: {plain(error)}"]
    doubts = [plain(each.message) for each in caught if issubclass(each.category, ConvergenceWarning)]
    return pair, [f"Logistic models for effects and reasons: {doubt}" for doubt in dict.fromkeys(doubts)]


def narrowed(
    search: SAREMClassifierCV, X: Any, observed: ObservedLabels, settings: Settings, groups: Any = None
) -> Any:
    """Return a search restricted to the candidates that a first search, on a sample of the rows, selected.

    The sample contains all audited rows.
    """
    drawn = np.random.default_rng(settings.seed).choice(len(X), SAMPLE_ROWS, replace=False)
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
