"""The classifier that settings ask for."""

from typing import Any

import numpy as np
from sklearn.base import clone

from scarless.analysis.looks import Observed
from scarless.analysis.settings import ALL, Settings
from scarless.models import (
    Labelling,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    TableClassifier,
)
from scarless.models.sar_stacking import default_boosting
from scarless.pair.facts import ClassPrior, LabelFrequency
from scarless.pair.labelling import labelling_of

MANY_ROWS, SAMPLE = 200_000, 50_000  # from so many rows on, penalties are chosen with so many of them


def make_estimator(settings: Settings) -> Any:
    """Return the unfitted classifier that settings ask for."""
    if settings.known_propensity:
        return PropensityWeightedClassifier(method="likelihood")
    if settings.scar and not settings.informed:
        return SCARClassifier()
    options: dict[str, Any] = {
        "propensity_attributes": ALL if settings.propensity == (ALL,) else list(settings.propensity) or None,
        "random_state": settings.seed,
        **_information(settings),
    }
    if settings.scar:
        options["propensity_attributes"] = None
    seen = list(settings.class_attributes)
    if settings.model == "logistic" or (settings.scar and settings.informed):
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
    rates = settings.false_positives
    labelling = Labelling(
        visit_attributes={name: list(columns) for name, columns in settings.visits.items()} or None,
        bounds=settings.propensity_bounds or None,
        shared=not settings.own_propensities,
        false_positive_rate=list(rates) if isinstance(rates, tuple) else rates,
        audit_labels=settings.audit_labels,
    )
    return {"labelling": labelling, "known": known or None}


def narrowed(search: SAREMClassifierCV, X: Any, observed: Observed, seed: int, groups: Any = None) -> SAREMClassifierCV:
    """Return a search among those candidates only that a sample of the rows leaves possible.

    Rows that were checked are all in the sample.
    """
    drawn = np.random.default_rng(seed).choice(len(X), SAMPLE, replace=False)
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
        visits = {column for columns in (labelling_of(search).visit_attributes or {}).values() for column in columns}
        seen = [column for column in X.columns if column not in visits]
        penalties["attribute_sets"] = [
            seen if names == {ALL} else [c for c in seen if c not in search.propensity_attributes]
        ]
    return clone(search).set_params(**penalties)
