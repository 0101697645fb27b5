"""The fits whose answers are stored, by name; each returns the fitted model and the rows on which it is asked."""

import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from tests.golden import tables

from scarless import (
    ClassPrior,
    LabelFrequency,
    Labelling,
    NaiveClassifier,
    PropensityWeightedClassifier,
    PseudoObservations,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
)
from scarless.scale import ParquetRows

SMOOTH = "smooth"  # the optimum of a smooth function: the same on every machine
HERE = "here"  # the same only with these versions on this kind of machine: trees split at ties by rounding

N_SHOWN = 8  # predictions of the first rows are stored one by one, and the mean and mean square of all


class Case(NamedTuple):
    """A fit, and how closely its answers are the same elsewhere."""

    fit: Callable[[], tuple[Any, Any, Any]]
    kind: str


CASES: dict[str, Case] = {}


def case(kind: str = SMOOTH) -> Callable[[Callable[[], tuple[Any, Any, Any]]], Callable[[], tuple[Any, Any, Any]]]:
    """Register a fit under the name of its function."""

    def register(fit: Callable[[], tuple[Any, Any, Any]]) -> Callable[[], tuple[Any, Any, Any]]:
        CASES[fit.__name__] = Case(fit, kind)
        return fit

    return register


def _fitted(model: Any, X: Any, s: Any, **observed: Any) -> tuple[Any, Any, Any]:
    return model.fit(X, s, **observed), X, s


# --- two logistic models, one label


@case()
def one_label():
    table = tables.plain()
    return _fitted(SAREMClassifier(propensity_attributes=[2]), table.X, table.s)


@case()
def weighted_rows():
    table = tables.plain()
    return _fitted(SAREMClassifier(propensity_attributes=[2]), table.X, table.s, sample_weight=table.weights())


@case()
def groups_of_rows():
    table = tables.plain()
    groups = np.arange(len(table.s)) // 3
    return _fitted(SAREMClassifier(propensity_attributes=[2]), table.X, table.s, groups=groups)


@case()
def survey_weights():
    table = tables.plain()
    model = SAREMClassifier(propensity_attributes=[2])
    return _fitted(model, table.X, table.s, sample_weight=table.weights(), groups="rows")


@case()
def named_columns_of_a_frame():
    table = tables.binary_attributes()
    frame = pd.DataFrame(table.X, columns=list("abcdef"))
    model = SAREMClassifier(propensity_attributes=["e", "f"], classification_attributes=["a", "b", "c", "d"])
    return _fitted(model, frame, np.where(table.s == 1, "yes", "no"))


@case()
def weak_penalties():
    table = tables.binary_attributes()
    return _fitted(SAREMClassifier(propensity_attributes=[4, 5], C=100.0, propensity_C=np.inf), table.X, table.s)


@case()
def five_starts():
    table = tables.binary_attributes()
    starts = ["paper", "exclusion", 0.3, 0.7, "random"]
    model = SAREMClassifier(propensity_attributes=[4, 5], n_starts=starts, random_state=0)
    return _fitted(model, table.X, table.s)


@case()
def pseudo_observations():
    table = tables.few_labels()
    model = SAREMClassifier(propensity_attributes=[4], known=[PseudoObservations(4)])
    return _fitted(model, table.X, table.s)


@case()
def rare_positives():
    table = tables.rare()
    return _fitted(SAREMClassifier(propensity_attributes=[2]), table.X, table.s)


@case()
def all_attributes():
    table = tables.plain()
    return _fitted(SAREMClassifier(propensity_attributes="all"), table.X, table.s)


@case()
def float32_rows():
    table = tables.plain(n=2000, n_columns=6, seed=12)
    return _fitted(SAREMClassifier(propensity_attributes=[5]), table.X.astype(np.float32), table.s)


@case()
def sparse_rows():
    X, s = tables.sparse_rows()
    return _fitted(SAREMClassifier(propensity_attributes=[20]), X, s)


@case()
def rows_in_files():
    table = tables.plain(n=3000, n_columns=4, seed=13)
    names = ["a", "b", "c", "d"]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pd.DataFrame(table.X, columns=names).assign(label=table.s).to_parquet(path, row_group_size=700)
        model = SAREMClassifier(propensity_attributes=["d"]).fit(ParquetRows(path, columns=names), "label")
    return model, pd.DataFrame(table.X, columns=names), table.s


@case(HERE)
def arrays_of_another_library():
    import array_api_strict

    table = tables.plain(n=1000, n_columns=5, seed=14)
    X, s = array_api_strict.asarray(table.X), array_api_strict.asarray(table.s)
    return _fitted(SAREMClassifier(propensity_attributes=[4]), X, s)


# --- known values, audits, several looks


@case()
def known_class_prior():
    table = tables.few_labels()
    model = SAREMClassifier(propensity_attributes=[4], known=[ClassPrior(0.4, 0.03)])
    return _fitted(model, table.X, table.s)


@case()
def known_label_frequency():
    table = tables.plain()
    model = SAREMClassifier(propensity_attributes=[2], known=[LabelFrequency(0.5, 0.05)])
    return _fitted(model, table.X, table.s)


@case()
def audited_rows():
    table = tables.plain()
    return _fitted(SAREMClassifier(propensity_attributes=[2]), table.X, table.s, audit=table.audit())


@case()
def three_looks():
    seen = tables.looks()
    return _fitted(SAREMClassifier(propensity_attributes=[2]), seen.X, seen.S)


@case()
def looks_with_visits():
    seen = tables.looks()
    frame = pd.DataFrame(seen.X, columns=["a", "b", "c"])
    frame[["effort 1", "effort 2", "effort 3"]] = seen.effort
    labelling = Labelling(visit_attributes={"effort": ["effort 1", "effort 2", "effort 3"]})
    model = SAREMClassifier(propensity_attributes=["c"], classification_attributes=["a", "b"], labelling=labelling)
    return _fitted(model, frame, seen.S)


@case()
def looks_of_their_own():
    seen = tables.looks()
    return _fitted(SAREMClassifier(propensity_attributes=[2], labelling=Labelling(shared=False)), seen.X, seen.S)


@case()
def looks_with_false_positives():
    seen = tables.looks(wrong=0.03)
    model = SAREMClassifier(propensity_attributes=[2], labelling=Labelling(false_positive_rate="estimate"))
    return _fitted(model, seen.X, seen.S)


@case()
def looks_with_audits_and_weights():
    seen = tables.looks(wrong=0.02)
    audit = np.where(np.arange(len(seen.y)) % 7 == 0, seen.y, tables.NOT_AUDITED)
    model = SAREMClassifier(propensity_attributes=[2], labelling=Labelling(false_positive_rate=0.02))
    weights = np.linspace(0.5, 1.5, len(seen.y))
    return _fitted(model, seen.X, seen.S, audit=audit, sample_weight=weights)


@case()
def offset_and_bounds():
    seen = tables.looks()
    frame = pd.DataFrame(seen.X, columns=["a", "b", "c"]).assign(effort=seen.effort[:, 0])
    labelling = Labelling(offset="effort", bounds=(0.02, 0.98))
    model = SAREMClassifier(propensity_attributes=["c"], classification_attributes=["a", "b"], labelling=labelling)
    return _fitted(model, frame, seen.S)


# --- chosen columns and penalties


@case()
def search():
    table = tables.binary_attributes()
    return _fitted(SAREMClassifierCV(propensity_attributes=[4, 5], random_state=0), table.X, table.s)


@case()
def search_among_many_columns():
    table = tables.many_columns()
    return _fitted(SAREMClassifierCV(propensity_attributes=[5], Cs=4, random_state=0), table.X, table.s)


@case()
def search_without_names():
    table = tables.plain(n=500, n_columns=4, seed=15)
    return _fitted(SAREMClassifierCV(propensity_attributes="all", Cs=3, random_state=0), table.X, table.s)


@case()
def search_without_recalibration():
    table = tables.plain(n=500, n_columns=4, seed=15)
    model = SAREMClassifierCV(propensity_attributes=[3], Cs=4, recalibrate=False, random_state=0)
    return _fitted(model, table.X, table.s)


@case()
def search_with_looks():
    seen = tables.looks(n=400)
    return _fitted(SAREMClassifierCV(propensity_attributes=[2], Cs=4, random_state=0), seen.X, seen.S)


@case()
def search_with_audits():
    table = tables.plain()
    model = SAREMClassifierCV(propensity_attributes=[2], Cs=4, random_state=0)
    return _fitted(model, table.X, table.s, audit=table.audit())


# --- cross-fitted classifiers and stacks


@case()
def bayes_by_em():
    table = tables.plain(seed=16)
    return _fitted(SAREMClassifier(GaussianNB(), propensity_attributes=[2], random_state=0), table.X, table.s)


@case(HERE)
def boosting():
    table = tables.interaction()
    classifier = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)
    return _fitted(SAREMClassifier(classifier, propensity_attributes=[3], random_state=0), table.X, table.s)


@case(HERE)
def boosting_with_looks():
    seen = tables.looks(n=500)
    classifier = HistGradientBoostingClassifier(max_iter=30, early_stopping=False, random_state=0)
    return _fitted(SAREMClassifier(classifier, propensity_attributes=[2], random_state=0), seen.X, seen.S)


@case(HERE)
def stack():
    table = tables.interaction()
    return _fitted(SARStackingClassifier(propensity_attributes=[3], random_state=0), table.X, table.s)


@case(HERE)
def stack_without_names():
    table = tables.follows_the_class()
    return _fitted(SARStackingClassifier(random_state=0), table.X, table.s)


@case(HERE)
def stack_of_few_labels():
    table = tables.few_labels()
    return _fitted(SARStackingClassifier(propensity_attributes=[4], random_state=0), table.X, table.s)


@case()
def stack_of_smooth_members():
    table = tables.plain(seed=17)
    members = [("logistic", LogisticRegression()), ("bayes", GaussianNB())]
    return _fitted(SARStackingClassifier(members, propensity_attributes=[2], random_state=0), table.X, table.s)


@case(HERE)
def stack_with_audits():
    table = tables.plain(seed=17)
    model = SARStackingClassifier(propensity_attributes=[2], random_state=0)
    return _fitted(model, table.X, table.s, audit=table.audit())


# --- other estimators


@case()
def naive():
    table = tables.plain()
    return _fitted(NaiveClassifier(), table.X, table.s)


@case()
def scar():
    table = tables.plain()
    return _fitted(SCARClassifier(), table.X, table.s)


@case()
def scar_with_a_label_frequency():
    table = tables.plain()
    return _fitted(SCARClassifier(0.5), table.X, table.s)


@case()
def labels_random_within_strata():
    table = tables.binary_attributes()
    return _fitted(StratifiedSCARClassifier([4, 5]), table.X, table.s)


@case()
def known_propensity():
    table = tables.plain()
    propensity = 1 / (1 + np.exp(-1.5 * table.X[:, 2]))
    return _fitted(PropensityWeightedClassifier(), table.X, table.s, propensity=np.maximum(propensity, 0.05))


@case()
def known_propensity_by_likelihood():
    table = tables.plain()
    propensity = np.maximum(1 / (1 + np.exp(-1.5 * table.X[:, 2])), 0.05)
    return _fitted(PropensityWeightedClassifier(method="likelihood"), table.X, table.s, propensity=propensity)


@case()
def published_em():
    table = tables.plain()
    return _fitted(PublishedEMClassifier(propensity_attributes=[2]), table.X, table.s)


# --- answers

ESTIMATES = (
    "coef_",
    "intercept_",
    "propensity_coef_",
    "propensity_intercept_",
    "visit_coef_",
    "false_positive_rate_",
    "class_prior_",
    "label_frequency_",
    "label_frequencies_",
    "log_likelihood_",
    "C_",
    "propensity_C_",
    "classification_attributes_",
    "best_score_",
)
INTERVALS = ("class_prior_interval", "label_frequency_interval")
STANDARD_ERRORS = ("coef", "intercept", "propensity_coef", "class_prior", "label_frequency")
WITHOUT_INTERVALS = {"naive", "scar_with_a_label_frequency", "published_em"}
CLASSIFIERS = ("boosting", "bayes", "stack", "labels_random", "known_propensity")  # no coefficients, no standard errors


def answers(name: str) -> dict[str, Any]:
    """Return what a fitted model answers, as lists of numbers by question, and the kinds of its warnings."""
    with sklearn.config_context(array_api_dispatch=name == "arrays_of_another_library"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model, X, s = CASES[name].fit()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = _estimates(model) | _predictions(model, X, s)
            if name not in WITHOUT_INTERVALS:
                values |= _intervals(model)
            if name not in WITHOUT_INTERVALS and not name.startswith(CLASSIFIERS):
                values |= _errors(model, X)
    kinds = sorted(warning.category.__name__ for warning in said if issubclass(warning.category, UserWarning))
    return {question: _listed(value) for question, value in values.items()} | {"warnings": kinds}


def _estimates(model: Any) -> dict[str, Any]:
    values = {attribute: getattr(model, attribute) for attribute in ESTIMATES if hasattr(model, attribute)}
    if hasattr(model, "recalibration_"):
        values["recalibration"] = [model.recalibration_.slope, model.recalibration_.shift]
    if hasattr(model, "members_"):
        values["weights of members"] = [member.weight for member in model.members_]
    return values


def _predictions(model: Any, X: Any, s: Any) -> dict[str, Any]:
    values = {"predict_proba": _shown(model.predict_proba(X)[:, 1])}
    values["score"] = model.score(X, s)
    if hasattr(model, "predict_propensity"):
        values["predict_propensity"] = _shown(model.predict_propensity(X, **_first_look(model)))
        values["predict_posterior"] = _shown(model.predict_posterior(X, s))
    return values


def _intervals(model: Any) -> dict[str, Any]:
    return {method: tuple(getattr(model, method)())[:2] for method in INTERVALS if hasattr(model, method)}


def _errors(model: Any, X: Any) -> dict[str, Any]:
    errors = model.standard_errors()
    values = {f"standard error of {part}": getattr(errors, part) for part in STANDARD_ERRORS}
    values["predict_proba_interval"] = _shown(model.predict_proba_interval(X)[:, 0])
    values["predict_propensity_interval"] = _shown(model.predict_propensity_interval(X, **_first_look(model))[:, 1])
    return values


def _first_look(model: Any) -> dict[str, int]:
    """Return the look whose propensity is asked, if the looks have propensities of their own."""
    several = getattr(model, "n_looks_", 1) > 1 and len(set(np.ravel(model.label_frequencies_))) > 1
    return {"look": 0} if several else {}


def _shown(values: Any) -> list[float]:
    """Return the first values, the mean and the mean square."""
    array = np.asarray(values, dtype=float)
    return [*array[:N_SHOWN].tolist(), float(array.mean()), float((array**2).mean())]


def _listed(value: Any) -> list[float]:
    return np.ravel(np.asarray(value, dtype=float)).tolist()
