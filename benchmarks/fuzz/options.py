"""Valid and unusual values for each parameter of the public names."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from inspect import Parameter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
from sklearn.cluster import KMeans
from sklearn.compose import make_column_selector
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.fuzz.base import Base, Maker, Pool, draw, fitted, folder
from benchmarks.fuzz.tables import TABLES
from benchmarks.fuzz.vectors import LABELS, PROBABILITIES, PROPENSITIES, WEIGHTS
from scarless import (
    BalancedDraws,
    ClassPrior,
    LabelFrequency,
    Labelling,
    NaiveClassifier,
    PseudoObservations,
    SAREMClassifier,
    SAREMClassifierCV,
)
from scarless.diagnostics import (
    Sensitivity,
    compare_fits,
    detect_drift,
    goodness_of_fit,
    labelling_attributes,
    missed_positives,
    plan_audit,
    profile_class_prior,
    yield_curve,
)


def pool(values: Iterable[Any]) -> Pool:
    """Return a pool of constants, described by their representation."""
    return {reprlib.repr(value): lambda _, value=value: value for value in values}


NOT_NUMBERS: Pool = {
    **pool([None, "a", "", "auto", "nan", b"x", [], [1], (), {}, {"a": 1}, 1j, pd.NA, pd.NaT, Ellipsis, slice(1)]),
    "object": lambda _: object(),
    "function": lambda _: lambda *_: None,
    "array": lambda _: np.array([0.5, 0.5]),
    "array of one": lambda _: np.array([0.5]),
    "0-d array": lambda _: np.array(0.5),
    "0-d array of text": lambda _: np.array("a"),
    "frame": lambda _: pd.DataFrame({"a": [1]}),
}
SMALL: Pool = {
    **NOT_NUMBERS,
    **pool([0, -1, 1, 2, 3, 0.5, 1.0, 1.5, -0.5, 0.0, -0.0, np.nan, np.inf, -np.inf, 1e-300, 5e-324, True, False]),
    **pool([np.int8(3), np.uint8(2), np.float32(0.5), np.float16(0.3), np.float64("nan"), np.bool_(True)]),
    **pool([Fraction(1, 3), Decimal("0.5"), -(10**400), np.longdouble(0.5), np.datetime64("2020"), np.str_("a")]),
}
NUMBERS: Pool = {**SMALL, **pool([1e300, 1.7e308, 10**400, 10**18, 1e18, np.float32(3e38), 1e-30, 1 - 1e-16, 1e10])}
ATTRIBUTES: Pool = {
    **NOT_NUMBERS,
    **pool([0, -1, 1, 99, -99, 10**30, 0.0, np.nan, True, "a0", ["a0"], ["a0", "a1"], [0, 0], [0, 1], [0, 99], [[0]]]),
    **pool(
        [[0, "a0"], [True], [True, False], [True] * 99, [0.0], [None], [np.nan], slice(None), slice(0), slice(2, 3)]
    ),
    **pool([slice("a0", "a1"), slice("a", "b"), slice(None, None, -1), slice(0.5), range(2), {0}, {"a0": 1}, "all"]),
    **pool([np.int8(0), np.array([0]), np.array(0), np.array([], int), np.array([True, False]), ("a0",), [b"a0"]]),
    "every column": lambda b: list(range(b.X.shape[1])),
    "a mask": lambda b: [i == 0 for i in range(b.X.shape[1])],
    "function of X": lambda _: lambda X: [0],
    "function that gives None": lambda _: lambda X: None,
    "function that gives text": lambda _: lambda X: "zzz",
    "pandas names": lambda _: pd.Index(["a0"]),
    "a mask with names": lambda _: pd.Series({"a1": False, "a0": True}),
    "scikit-learn's selector": lambda _: make_column_selector("a[01]"),
    "polars selector": lambda _: cs.starts_with("a"),
    "polars expression": lambda _: pl.col("a0") + 1,
    "a raw name": lambda _: "a",
}
CLASSIFIERS: Pool = {
    **NOT_NUMBERS,
    "logistic": lambda _: LogisticRegression(),
    "tree": lambda _: DecisionTreeClassifier(max_depth=2, random_state=0),
    "naive Bayes": lambda _: GaussianNB(),
    "boosting": lambda _: HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "dummy": lambda _: DummyClassifier(),
    "pipeline": lambda _: make_pipeline(StandardScaler(), LogisticRegression()),
    "no sample_weight": lambda _: KNeighborsClassifier(3),
    "no predict_proba": lambda _: Perceptron(random_state=0),
    "regressor": lambda _: LinearRegression(),
    "clustering": lambda _: KMeans(2, n_init=1, random_state=0),
    "class, not model": lambda _: LogisticRegression,
    "wrong parameter": lambda _: LogisticRegression(C=-1),
    "one of ours": lambda _: NaiveClassifier(),
    "scaler": lambda _: StandardScaler(),
}
MODELS: Pool = {
    **NOT_NUMBERS,
    "unfitted": lambda _: SAREMClassifier(),
    "class, not model": lambda _: SAREMClassifier,
    "scikit-learn's": lambda b: LogisticRegression().fit(b.X, b.s),
    "scikit-learn's, unfitted": lambda _: LogisticRegression(),
    "naive": lambda b: NaiveClassifier().fit(b.X, b.s),
    "SCAR": lambda b: SAREMClassifier().fit(b.X, b.s),
    "by EM": lambda b: SAREMClassifier(GaussianNB(), propensity_attributes=[0], max_iter=20).fit(b.X, b.s),
    "both see all": lambda b: SAREMClassifier(propensity_attributes=slice(None)).fit(b.X, b.s),
    "no penalty": lambda b: SAREMClassifier(propensity_attributes=[0], C=np.inf).fit(b.X, b.s),
    "of fewer columns": lambda b: NaiveClassifier().fit(b.X[:, :1], b.s),
    "of words": lambda b: SAREMClassifier(pos_label="a").fit(b.X, np.where(b.s == 1, "a", "b")),
    "regressor": lambda b: LinearRegression().fit(b.X, b.s),
}
FUNCTIONS: Pool = {
    **NOT_NUMBERS,
    "gives NaN": lambda _: lambda X, p=None: np.full(_length(X), np.nan),
    "gives None": lambda _: lambda X, p=None: None,
    "gives text": lambda _: lambda X, p=None: "a",
    "gives one number": lambda _: lambda X, p=None: 0.5,
    "gives a matrix": lambda _: lambda X, p=None: np.ones((3, 3)),
    "gives 2": lambda _: lambda X, p=None: np.full(_length(X), 2.0),
}
SEQUENCES: Pool = {
    **NUMBERS,
    **pool([[0.5], [0.5, 0.7], [0.5, 0.5], [0.7, 0.5], [np.nan], [np.inf], ["a"], [None], [[0.5]], [0], [-1.0, 2.0]]),
    **pool([range(2), [True, False], [(-1, 1)], [(1, -1)], [(0, 0)], [(np.nan, 1)], [1e300, -1e300], [1j], {"a": 0.5}]),
    **pool([{-1.0: 0.5, 1.0: 0.7}, {(1.0,): 0.5}, {-1.0: 2.0, 1.0: 0.5}, {1.0: "a"}, {(1, 2): 0.5}, [1, -1], [5]]),
}
FOLDS: Pool = {
    **SMALL,
    **pool([5, 30, 10**6, [([0, 1], [2])], [([], [])], [([0], [99])], [5], [(0, 1)], [("a", "b")], [([0.5], [1.5])]]),
    **pool([[[0, 1]], [([0, 1, 2],)], iter(()), [([[0]], [[1]])], [(None, None)], [([-1, -2], [0])]]),
    "a splitter": lambda _: StratifiedKFold(2),
    "not stratified": lambda _: KFold(3),
    "groups": lambda _: GroupKFold(2),
    "pairs": lambda b: list(StratifiedKFold(2).split(b.X, b.s)),
    "masks": lambda b: [(np.arange(len(b.s)) % 2 == 0, np.arange(len(b.s)) % 2 == 1)],
}
SETS: Pool = pool(
    [[None], [[0], [1]], [None, None], {"a": [0], "b": None}, {}, {"a": []}, [[]], ["a0"], {1: 0}, ["all"]]
)
STACKS: Pool = {
    **pool([[("a", None)], [("a", None), ("a", None)], [("a",)], [("a", None, 1)], [["a", None]], [(1, None)], [None]]),
    **pool([("a", None), (("a", None),), {"a": None}, [("", None)], [("a", 0.5)], [("a", "b")], iter([("a", None)])]),
    "a tree": lambda _: [("tree", DecisionTreeClassifier(max_depth=2, random_state=0))],
    "naive Bayes among them": lambda _: [("logistic", None), ("bayes", GaussianNB())],
    "boosting alone": lambda _: [("boosting", HistGradientBoostingClassifier(max_iter=3, random_state=0))],
    "no weights": lambda _: [("neighbours", KNeighborsClassifier(3))],
    "draws": lambda _: [("draws", BalancedDraws(DecisionTreeClassifier(max_depth=2), n_draws=5, max_labelled=20))],
    "no draws": lambda _: [("draws", BalancedDraws(KNeighborsClassifier(3), n_draws=0))],
    "draws of no classifier": lambda _: [("draws", BalancedDraws(None))],
    "class, not a model": lambda _: [("logistic", LogisticRegression)],
    "wrong parameter inside": lambda _: [("logistic", LogisticRegression(C=-1))],
    "clustering inside": lambda _: [("means", KMeans(2, n_init=1, random_state=0))],
    "pipeline inside": lambda _: [("pipeline", make_pipeline(StandardScaler(), LogisticRegression()))],
    "one of ours inside": lambda _: [("ours", NaiveClassifier())],
    "itself inside": lambda _: [("ours", SAREMClassifier())],
}
COLUMNS: Pool = {
    **ATTRIBUTES,
    **pool(["unit", "look", "label", "audit", "effort", "Unit", ["effort", "a0"], ["effort", "effort"], ["label"]]),
}


def _lines(base: Base, *, polars: bool = False) -> Any:
    """Return the base table in long form, with two rows for each unit."""
    n, pairs = len(base.s), np.tile([0, 1], len(base.s))
    columns = {
        "unit": np.repeat(np.arange(n), 2),
        "look": pairs,
        "label": np.repeat(base.s, 2) * pairs,
        "audit": np.where(np.repeat(np.arange(n), 2) % 9 == 0, np.repeat(base.y, 2), np.nan),
        "effort": np.repeat(base.w, 2) + pairs,
        "a0": np.repeat(base.X[:, 0], 2),
    }
    return (pl if polars else pd).DataFrame(columns)


LONG: Pool = {
    "polars": lambda b: _lines(b, polars=True),
    "a query": lambda b: _lines(b, polars=True).lazy(),
    "no lines": lambda b: _lines(b).iloc[:0],
    "lines twice": lambda b: pd.concat([_lines(b)] * 2),
    "an index": lambda b: _lines(b).set_index("unit"),
    "gaps": lambda b: _lines(b).where(pd.Series(np.arange(2 * len(b.s)) % 5 > 0), axis=0),
    "texts": lambda b: _lines(b).astype(str),
    "objects": lambda b: _lines(b).astype(object).assign(a0=[[]] * (2 * len(b.s))),
    "kinds mixed": lambda b: _lines(b).assign(look=["x", 1] * len(b.s)),
    "looks of times": lambda b: _lines(b).assign(look=pd.date_range("2026", periods=2 * len(b.s))),
    "equal names": lambda b: pd.concat([_lines(b)] * 2, axis=1),
    "an array": lambda b: b.X,
}
PLACES: Pool = {
    **pool([None, 5, "", "\0", b"/nowhere", "/nowhere/at/all", [], 0.5, "~nobody/x", "/dev/null", True]),
    "an empty folder": lambda _: folder(),
}


def without_none(values: Pool) -> Pool:
    """Return a pool without None."""
    return {name: maker for name, maker in values.items() if name != "None"}


class Choice(NamedTuple):
    """A valid value of a parameter, or None if its default is valid, and unusual values."""

    good: Maker | None
    unusual: Pool


def _sensitivity(base: Base) -> Sensitivity:
    return Sensitivity(base.f * base.e, base.e)


def _audit(base: Base) -> np.ndarray:
    """Return the class of every other row."""
    return np.where(np.arange(base.y.size) % 2, base.y, -1)


def _looks(base: Base) -> np.ndarray:
    """Return labels at two looks, the second of which finds every other positive."""
    return np.column_stack([base.s, base.y * (np.arange(base.y.size) % 2)])


def _fitted_to_looks(base: Base) -> SAREMClassifier:
    return SAREMClassifier(propensity_attributes=_last(base)).fit(base.X, _looks(base))


def _members(base: Base) -> list[tuple[str, Any]]:
    """Return one or two members that are fast to fit."""
    boosting = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=3, random_state=0)
    both = [("logistic", None), ("boosting", boosting)]
    return [both, both[:1], both[1:]][int(base.rng.integers(3))]


def _last(base: Base) -> list[int]:
    return [base.X.shape[1] - 1]


def _length(X: Any) -> int:
    shape = getattr(X, "shape", ())
    return shape[0] if shape else 1


KNOWN_VALUES: Pool = {
    "a prior": lambda _: ClassPrior(0.5),
    "a sure prior": lambda _: [ClassPrior(0.5)],
    "an impossible prior": lambda _: [ClassPrior(1e-9)],
    "a group": lambda _: [ClassPrior(0.5, where={0: 1.0})],
    "an unknown group": lambda _: [ClassPrior(0.5, where={"a": "b"})],
    "a label frequency": lambda _: (LabelFrequency(0.5, se=0.1),),
    "of a third look": lambda _: [LabelFrequency(0.5, se=0.1, look=2)],
    "a number": lambda _: [0.5],
    "pseudo-observations": lambda _: [PseudoObservations(3)],
    "pseudo-observations twice": lambda _: [PseudoObservations(3), PseudoObservations(0)],
    "pseudo-observations and a prior": lambda _: [PseudoObservations(2.5), ClassPrior(0.5, se=0.1)],
}
VISITS: Pool = {**ATTRIBUTES, **pool([{"v": [0]}, {"v": [0, 1]}, {"v": 0}, {0: ["a0"]}])}
FALSE_RATES: Pool = {**NUMBERS, **pool(["estimate", 0.01, [0.01], [0.0, 0.1], [[0.1]]])}
AUDIT_LABELS: Pool = {**NUMBERS, **pool(["keep", "drop", "undo", "found", None])}
BOUNDS: Pool = {**NUMBERS, **pool([(0.2, 1), (0.0, 1.0), [0.5, 0.5], (0.9, 0.1), (0.2,), ("a", "b"), (0.1, np.nan)])}


def _any_labelling(base: Base) -> Labelling:
    """Return an object with an unusual value of one parameter."""
    parameters = {
        "visit_attributes": VISITS,
        "offset": ATTRIBUTES,
        "bounds": BOUNDS,
        "shared": NOT_NUMBERS,
        "false_positive_rate": FALSE_RATES,
        "heterogeneity": FALSE_RATES,
        "audit_labels": AUDIT_LABELS,
    }
    name = list(parameters)[int(base.rng.integers(len(parameters)))]
    return Labelling(**{name: draw(parameters[name], base)[1]})


LOOKS: Pool = {
    "two looks": lambda b: np.column_stack([b.s, b.s]),
    "two looks with gaps": lambda b: np.where(np.arange(2 * b.s.size).reshape(-1, 2) % 5 == 0, np.nan, b.s[:, None]),
    "codes": lambda b: np.where(np.arange(b.s.size)[:, None] % 3 == [0, 1], -1, b.s[:, None]),
    "gaps only": lambda b: np.full((b.s.size, 2), np.nan),
    "labelled only": lambda b: np.where(b.s == 1, 1.0, np.nan),
}


def _audit(b: Base) -> Any:
    return np.where((b.s == 1) & (np.arange(b.s.size) % 2 == 0), 1.0, np.nan)


# By name of the parameter, or by "name of the call.name of the parameter" if a name has several meanings.
CHOICES: dict[str, Choice] = {
    "X": Choice(lambda b: b.X, TABLES),
    "background": Choice(lambda b: b.X, TABLES),
    "n_reasons": Choice(lambda b: 2, SMALL),
    "y": Choice(lambda b: b.s, LABELS),
    "s": Choice(lambda b: b.s, LABELS),
    "required audit": Choice(_audit, LABELS),
    "plan": Choice(lambda b: plan_audit(fitted(b), b.X, b.s, 10), MODELS),
    "plan_audit.n_rows": Choice(lambda b: 10, SMALL),
    "yield_curve.n": Choice(lambda b: 10, SMALL),
    "yield_curve.compare": Choice(lambda b: True, pool([False, 1, "yes", None])),
    "YieldCurveDisplay.result": Choice(lambda b: yield_curve(fitted(b), b.X, b.s, n=[5, 10], n_draws=20), MODELS),
    "n_draws": Choice(lambda b: 20, SMALL),
    "by": Choice(lambda b: 0, {**ATTRIBUTES, **LABELS, **pool([(0, 1), [0, (0, 1)], [[0]], (0,), {}])}),
    "n_bins": Choice(lambda b: 3, SMALL),
    "reference": Choice(lambda b: "", pool(["west", 1, None, ["a"]])),
    "decision": Choice(lambda b: "accuracy", {**NUMBERS, **pool(["f1", "prior"])}),
    "missed_positives.scores": Choice(lambda b: True, pool([False, 1, "yes", None])),
    "missed_positives.propensity": Choice(None, PROPENSITIES),
    "missed_positives.audit": Choice(None, {**LABELS, **LOOKS}),
    "MissedPositivesDisplay.result": Choice(lambda b: missed_positives(fitted(b), b.X, b.s, by=0), MODELS),
    "detect_drift.reference": Choice(lambda b: b.X, TABLES),
    "detect_drift.propensity": Choice(None, PROPENSITIES),
    "detect_drift.time": Choice(None, {**NOT_NUMBERS, **LABELS}),
    "compare_fits.old": Choice(fitted, MODELS),
    "compare_fits.new": Choice(fitted, MODELS),
    "compare_fits.n_top": Choice(lambda b: 10, SMALL),
    "DriftDisplay.result": Choice(lambda b: detect_drift(fitted(b), b.X, b.s, reference=b.X), MODELS),
    "DriftDisplay.part": Choice(lambda b: "auto", pool(["labels", "columns", "rows", 1, None])),
    "FitComparisonDisplay.result": Choice(lambda b: compare_fits(fitted(b), fitted(b)), MODELS),
    "FitComparisonDisplay.old": Choice(fitted, MODELS),
    "FitComparisonDisplay.new": Choice(fitted, MODELS),
    "AuditPlanDisplay.n_rows": Choice(lambda b: 10, SMALL),
    "goodness_of_fit.estimator": Choice(_fitted_to_looks, MODELS),
    "goodness_of_fit.s": Choice(_looks, LABELS),
    "goodness_of_fit.n_resamples": Choice(lambda b: 0, SMALL),
    "GoodnessOfFitDisplay.estimator": Choice(_fitted_to_looks, MODELS),
    "GoodnessOfFitDisplay.s": Choice(_looks, LABELS),
    "GoodnessOfFitDisplay.n_resamples": Choice(lambda b: 0, SMALL),
    "GoodnessOfFitDisplay.fit": Choice(
        lambda b: goodness_of_fit(_fitted_to_looks(b), b.X, _looks(b), n_resamples=0), MODELS
    ),
    "decisions": Choice(lambda b: b.y, LABELS),
    "sample_weight": Choice(lambda b: b.w, WEIGHTS),
    "propensity": Choice(lambda b: b.e, PROPENSITIES),
    "estimated_propensity": Choice(lambda b: np.sqrt(b.e), PROPENSITIES),
    "lower": Choice(lambda b: b.e / 2, {**PROPENSITIES, **NUMBERS}),
    "upper": Choice(None, {**PROPENSITIES, **NUMBERS}),
    "y_pred": Choice(lambda b: b.f, PROBABILITIES),
    "propensity_weighted_roc_auc.y_pred": Choice(lambda b: b.f, {**PROBABILITIES, **WEIGHTS}),
    "propensity_weighted_average_precision.y_pred": Choice(lambda b: b.f, {**PROBABILITIES, **WEIGHTS}),
    "scores": Choice(lambda b: b.f, {**PROBABILITIES, **WEIGHTS}),
    "class_probability": Choice(lambda b: b.f, PROBABILITIES),
    "label_probability": Choice(lambda b: b.f * b.e, PROBABILITIES),
    "estimator": Choice(None, CLASSIFIERS),
    "propensity_estimator": Choice(None, CLASSIFIERS),
    "required estimator": Choice(fitted, MODELS),  # a fitted model
    "SelectionPathDisplay.from_estimator.estimator": Choice(
        lambda b: SAREMClassifierCV(Cs=[0.1, 1], cv=3, random_state=0).fit(b.X, b.s), MODELS
    ),
    "propensity_attributes": Choice(_last, ATTRIBUTES),
    "SARStackingClassifier.propensity_attributes": Choice(lambda b: "all", ATTRIBUTES),
    "classification_attributes": Choice(None, ATTRIBUTES),
    "attribute_sets": Choice(lambda b: "auto", {**ATTRIBUTES, **SETS}),
    "attributes": Choice(_last, ATTRIBUTES),
    "attribute": Choice(lambda b: 0, ATTRIBUTES),
    "coefficients": Choice(lambda b: [1.0], SEQUENCES),
    "thresholds": Choice(lambda b: [0.0], SEQUENCES),
    "propensities": Choice(lambda b: [0.3, 0.7], SEQUENCES),
    "table": Choice(lambda b: {-1.0: 0.3, 1.0: 0.7}, SEQUENCES),
    "from_long.table": Choice(_lines, {**NOT_NUMBERS, **LONG}),
    "from_long.unit": Choice(lambda b: "unit", COLUMNS),
    "from_long.look": Choice(lambda b: "look", COLUMNS),
    "from_long.label": Choice(lambda b: "label", COLUMNS),
    "from_long.audit": Choice(lambda b: "audit", COLUMNS),
    "from_long.attributes": Choice(lambda b: ["a0"], COLUMNS),
    "from_long.visit_attributes": Choice(lambda b: ["effort"], COLUMNS),
    "from_long.align": Choice(None, {**NUMBERS, **pool(["value", "order"])}),
    "simulate_looks.propensities": Choice(lambda b: [0.3, b.e], {**SEQUENCES, **PROPENSITIES, **TABLES}),
    "simulate_looks.false_positive_rate": Choice(None, {**SEQUENCES, **PROBABILITIES, **TABLES}),
    "simulate_looks.observed": Choice(None, {**SEQUENCES, **PROBABILITIES, **TABLES}),
    "simulate_audit.probability": Choice(None, {**NUMBERS, **PROBABILITIES}),
    "simulate_audit.n_rows": Choice(lambda b: 20, {**SMALL, **pool([10**6])}),
    "signs": Choice(None, SEQUENCES),
    "ranges": Choice(None, SEQUENCES),
    "gammas": Choice(lambda b: [1.0, 1.5], SEQUENCES),
    "grid": Choice(None, SEQUENCES),
    "cost_range": Choice(None, SEQUENCES),
    "Cs": Choice(lambda b: [0.1, 1.0], {**SMALL, **pool([[0.5], [1, 1], [np.nan], [1e300], [1e-300], ["a"], [-1]])}),
    "propensity_Cs": Choice(lambda b: [1.0], {**SMALL, **pool([[0.5], [np.inf], [1e300, 1e-300], [10**400]])}),
    "cv": Choice(lambda b: 3, FOLDS),
    "SARStackingClassifier.cv": Choice(lambda b: 2, FOLDS),
    "method": Choice(None, {**NUMBERS, **pool(["risk", "likelihood", "basic", "percentile", "clopper", "stratified"])}),
    "variant": Choice(None, {**NUMBERS, **pool(["e1", "e2", "e3", "e4", "km1", "km2", "E1"])}),
    "label_frequency": Choice(
        lambda b: 0.5, {**NUMBERS, **CLASSIFIERS, **pool(["best-bin", "tice", "km2", "elkan-noto", "dedpul", "km1"])}
    ),
    "StratifiedSCARClassifier.label_frequency": Choice(
        lambda b: "best-bin", {**NUMBERS, **pool([{-1.0: 0.5, 1.0: 0.5}, {1.0: 0.5}, "tice", "dedpul", {(1.0,): 2}])}
    ),
    "metric": Choice(lambda b: "roc_auc", {**NUMBERS, **pool(["neg_log_loss", "recall", "observed_log_likelihood"])}),
    "quantity": Choice(
        lambda b: "class_prior",
        {**NUMBERS, **pool(["recall", "precision", "roc_auc", "label_frequency", "rank", "f1"])},
    ),
    "cost": Choice(None, {**NUMBERS, **pool(["log", "squared", "absolute", "sigmoid", "zero-one"])}),
    "get_cost.cost": Choice(lambda b: "log", {**NUMBERS, **pool(["log", "squared", "absolute", "zero-one"])}),
    "function": Choice(lambda b: lambda X, p=None: np.full(_length(X), 0.5), FUNCTIONS),
    "obj": Choice(lambda b: 0.5, {**NUMBERS, **FUNCTIONS}),
    "gamma": Choice(lambda b: 1.5, NUMBERS),
    "at_least": Choice(lambda b: 0.1, NUMBERS),
    "delta_max": Choice(lambda b: 1.0, NUMBERS),
    "n": Choice(lambda b: 100, NUMBERS),
    "row": Choice(None, ATTRIBUTES),
    "rival": Choice(None, ATTRIBUTES),
    "rows": Choice(None, {**ATTRIBUTES, **TABLES}),
    "row_names": Choice(None, {**ATTRIBUTES, **LABELS}),
    "result": Choice(lambda b: labelling_attributes(b.X, b.s, propensity_attributes=_last(b)), MODELS),
    "SARStackingClassifier.estimators": Choice(
        _members,
        {**CLASSIFIERS, **STACKS},
    ),
    "recalibrate": Choice(lambda b: False, NUMBERS),
    "PseudoObservations.weight": Choice(lambda b: 4.0, NUMBERS),
    "profile": Choice(lambda b: profile_class_prior(fitted(b), b.X, b.s), MODELS),
    "sensitivity": Choice(_sensitivity, MODELS),
    "name": Choice(lambda b: "mushroom", {**NUMBERS, **pool(["../x", "Adult", "mushrooms", "breastcancer"])}),
    "data_home": Choice(lambda b: folder(), PLACES),
    "folder": Choice(lambda b: folder(), PLACES),
    "download": Choice(lambda b: False, pool([False])),  # No call may access the network.
    "n_jobs": Choice(None, pool(["a", 0, 1.5, np.nan, None, 1, [], True])),  # Larger numbers would start processes.
    "verbose": Choice(None, pool([False, 0, None, "", []])),
    "progress": Choice(lambda b: False, pool([False, None, 0, "", []])),
    # None would give a different result each time.
    "random_state": Choice(lambda b: 0, {**without_none(NUMBERS), **pool([[1, 2], [-1], 2**64])}),
    "SAREMClassifier.y": Choice(lambda b: b.s, {**LABELS, **LOOKS}),
    "SAREMClassifier.s": Choice(lambda b: b.s, {**LABELS, **LOOKS}),
    "audit": Choice(_audit, {**LABELS, **LOOKS}),
    "labelling": Choice(None, {**NOT_NUMBERS, **{f"Labelling {i}": _any_labelling for i in range(8)}}),
    "audit_labels": Choice(None, AUDIT_LABELS),
    "look": Choice(None, {**SMALL, **ATTRIBUTES}),
    "SAREMClassifier.n_looks": Choice(None, SMALL),
    "visit_attributes": Choice(None, VISITS),
    "Labelling.offset": Choice(None, ATTRIBUTES),
    "Labelling.bounds": Choice(None, BOUNDS),
    "false_positive_rate": Choice(None, FALSE_RATES),
    "Labelling.heterogeneity": Choice(None, FALSE_RATES),
    "known": Choice(lambda b: [ClassPrior(0.5, se=0.2)], {**NUMBERS, **KNOWN_VALUES}),
    "value": Choice(lambda b: 0.4, NUMBERS),
    "se": Choice(lambda b: 0.1, NUMBERS),
    "where": Choice(None, {**ATTRIBUTES, **pool([{0: 1.0}, {"a0": np.nan}])}),
    "SAREMClassifier.n_starts": Choice(
        None,
        {**SMALL, **pool([4, ["paper"], ["exclusion", 0.5], ["random"] * 2, ["scout"], [1.0], [1e-300]])},
    ),
    "bootstrap_intervals.n_resamples": Choice(lambda b: 3, SMALL),
    "risk_interval.n_resamples": Choice(lambda b: 20, SMALL),
    "n_simulations": Choice(lambda b: 19, SMALL),
    "n_labellings": Choice(lambda b: 2, SMALL),
    "n_rows": Choice(lambda b: 50, SMALL),
    "n_estimators": Choice(lambda b: 3, SMALL),
    "cut": Choice(None, {**NUMBERS, **pool(["mutual-information", "prior", "median", "max-quarter"])}),
    "class_prior": Choice(None, {**NUMBERS, **CLASSIFIERS, **pool(["km2", "tice", "dedpul", "km 2", 0.9, [0.5]])}),
    "beta": Choice(None, NUMBERS),
    "positives": Choice(None, {**NUMBERS, **pool(["quantile", "spies"])}),
    "start": Choice(None, {**NUMBERS, **pool(["balanced", "sar-em"])}),
    "n_iter": Choice(lambda b: 3, SMALL),
    "reliable": Choice(None, {**NUMBERS, **pool(["spies", "quantile"])}),
    "n_attributes": Choice(lambda b: 3, SMALL),
}
COUNTS = ("n_", "decimals", "window", "max_splits")  # Large values of these would take very long.


def choice_of(call: str, parameter: Parameter) -> Choice:
    """Return the values for a parameter of a public call."""
    name, required = parameter.name, parameter.default is Parameter.empty
    places = (f"{call}.{name}", f"{call.partition('.')[0]}.{name}", f"required {name}" if required else name, name)
    for known in places:
        if known in CHOICES:
            return CHOICES[known]
    if required:
        raise LookupError(f"CHOICES has no valid value of the parameter {name!r} of {call}. Add one.")
    unusual = SMALL if name.startswith(COUNTS) else NUMBERS
    words = pool([parameter.default, f"{parameter.default}"])
    return Choice(None, {**unusual, **words})
