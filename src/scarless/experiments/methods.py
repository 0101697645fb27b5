"""The methods of an experiment: functions that fit a task and return predictions for its test rows.

Each method says what it knows besides the rows and labels: nothing, the names of the propensity attributes, the class
prior, the propensities, or the classes. Any estimator is a method too: those of this package by class name, others by
import path. Further methods must be functions of a module, so that worker processes can import them.
"""

import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from scarless import field as field_methods
from scarless.experiments.entries import did_you_mean
from scarless.experiments.own import IMPORT_PATH_FORM, import_object
from scarless.experiments.protocol import Task
from scarless.experiments.spec import Spec
from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE
from scarless.models import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
)
from scarless.models.sar_stacking import default_boosting
from scarless.numerics.arrays import Matrix, Vector
from scarless.outside.notices import listed

NOTHING, NAMES, PRIOR, PROPENSITY, CLASSES = "nothing", "names", "prior", "propensity", "classes"  # what methods know
ATTRIBUTES_PARAMETER = "propensity_attributes"  # parameter of an estimator that receives the propensity attributes
ALL_ATTRIBUTES = "all"  # value of this parameter that names none of them
PRIOR_PARAMETERS = ("class_prior", "label_frequency")  # a number for one of them tells the class prior
KNOWN_PRIORS = {"ClassPrior", "LabelFrequency"}  # values from another source, for the parameter `known`
SCORING = ("predict_proba", "decision_function")  # a method needs one of them
ROUNDING_DIGITS = 9  # A propensity of 1 may be slightly larger after rounding.
NESTED_KEYS = ("estimator", "parameters")  # keys of a parameter that describes an estimator
Make = Callable[..., Any]


@dataclass(frozen=True)
class Fit:
    """The predictions of a method for the test rows, and its estimates."""

    f: Vector
    e: Vector | None  # None if the method has no propensity
    class_prior: float
    label_frequency: float
    n_iter: int
    is_probability: bool = True  # False if `f` are scores that only rank rows
    decision: Vector | None = None  # 1 for rows that the method calls positive
    interval: tuple[float, float] | None = None  # confidence interval of the class prior


class Made(NamedTuple):
    """A result, its time in seconds and its warnings."""

    result: Any
    seconds: float
    warnings: list[Any]


@dataclass
class KeptFits:
    """A cache of results that several methods, or several cells, share."""

    made: dict[str, Made] = field(default_factory=dict)
    borrowed_seconds: float = 0.0  # time of results that were taken from the cache

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a result from the cache, or compute it; its time and warnings count for every method that uses it."""
        if name in self.made:
            self.borrowed_seconds += self.made[name].seconds
        else:
            start = process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = make()
            self.made[name] = Made(result, process_time() - start, caught)
        for warning in self.made[name].warnings:
            warnings.warn(warning.message, warning.category, stacklevel=2)
        return self.made[name].result


@dataclass
class Bench:
    """A task, and caches of the results that methods share.

    The methods of a cell share the SAR-EM fit and KM2's estimate; the cells of a split share the supervised fit.
    """

    spec: Spec
    task: Task
    of_split: KeptFits
    of_cell: KeptFits = field(default_factory=KeptFits)

    @property
    def borrowed_seconds(self) -> float:
        """The time of results that were taken from the caches."""
        return self.of_cell.borrowed_seconds + self.of_split.borrowed_seconds


Method = Callable[[Bench], Fit]


def knowing(what: str) -> Callable[[Method], Method]:
    """Return a decorator that states what a method knows besides rows and labels."""

    def mark(method: Method) -> Method:
        setattr(method, "knows", what)  # noqa: B010 (functions have no declared attributes)
        return method

    return mark


def knows_of(method: Method, task: Task | None = None) -> str:
    """Return what a method knows besides rows and labels; names only if the task has any."""
    knows = str(getattr(method, "knows", NOTHING))
    return NOTHING if knows == NAMES and task is not None and not task.named else knows


@knowing(CLASSES)
def supervised(bench: Bench) -> Fit:
    """Logistic regression on the true classes."""
    task = bench.task

    def fit() -> Fit:
        model = NaiveClassifier(C=bench.spec.C).fit(task.seen_train, task.split.y_train)
        return fit_of(bench, model, None, float("nan"))

    return bench.of_split.get(f"supervised/{task.n_seen}", fit)


def naive(bench: Bench) -> Fit:
    """Logistic regression that treats unlabelled rows as negative."""
    model = NaiveClassifier(C=bench.spec.C).fit(bench.task.seen_train, bench.task.s_train)
    return _constant(bench, model, 1.0)


@knowing(PROPENSITY)
def known_e(bench: Bench) -> Fit:
    """Propensity-weighted risk with the true propensities."""
    task = bench.task
    model = PropensityWeightedClassifier(C=bench.spec.C).fit(task.seen_train, task.s_train, propensity=task.e_train)
    return fit_of(bench, model, task.e_test, model.label_frequency_)


@knowing(PRIOR)
def known_c(bench: Bench) -> Fit:
    """SCAR with the true label frequency of the training rows."""
    task = bench.task
    return _scar(bench, float(task.s_train.sum() / task.split.y_train.sum()))


def scar_km2(bench: Bench) -> Fit:
    """SCAR with KM2's label frequency."""
    return _scar(bench, km2_of(bench).label_frequency_)


def scar_tice(bench: Bench) -> Fit:
    """SCAR with TIcE's label frequency."""
    task = bench.task
    found = TIcE(random_state=task.seed).fit(task.seen_train, task.s_train)
    return _scar(bench, found.label_frequency_)


@knowing(NAMES)
def sar_em(bench: Bench) -> Fit:
    """Classifier and propensity model, fitted together."""
    model = sar_em_of(bench)
    return fit_of(bench, model, model.predict_propensity(bench.task.split.X_test), model.label_frequency_, full=True)


@knowing(NAMES)
def sar_em_refit(bench: Bench) -> Fit:
    """SAR-EM, then the classifier refitted to the propensity-weighted risk."""
    task, pair = bench.task, sar_em_of(bench)
    e = pair.predict_propensity(task.split.X_train)
    model = PropensityWeightedClassifier(C=bench.spec.C).fit(task.seen_train, task.s_train, propensity=e)
    return fit_of(bench, model, pair.predict_propensity(task.split.X_test), model.label_frequency_)


METHODS: dict[str, Method] = {
    "supervised": supervised,
    "naive": naive,
    "known-e": known_e,
    "known-c": known_c,
    "scar-km2": scar_km2,
    "scar-tice": scar_tice,
    "sar-em": sar_em,
    "sar-em-refit": sar_em_refit,
}


def sar_em_of(bench: Bench) -> SAREMClassifier:
    """Return the fitted pair of models, which is shared by the methods of a cell."""
    task, C = bench.task, bench.spec.C

    def fit() -> SAREMClassifier:
        model = SAREMClassifier(
            propensity_attributes=task.propensity_columns,
            classification_attributes=task.class_columns,
            C=C,
            propensity_C=C,
        )
        return model.fit(task.split.X_train, task.s_train)

    return bench.of_cell.get("pair", fit)


def km2_of(bench: Bench) -> KernelMean:
    """Return KM2's estimate, which is shared by the methods of a cell."""
    task = bench.task
    estimator = KernelMean("km2", max_rows=bench.spec.km_max_rows, random_state=task.seed)
    return bench.of_cell.get("km2", lambda: estimator.fit(task.seen_train, task.s_train))


def _scar(bench: Bench, c: float) -> Fit:
    model = SCARClassifier(label_frequency=c, C=bench.spec.C).fit(bench.task.seen_train, bench.task.s_train)
    return _constant(bench, model, c)


def _constant(bench: Bench, model: Any, c: float) -> Fit:
    return fit_of(bench, model, np.full(bench.task.split.X_test.shape[0], c), c)


def fit_of(bench: Bench, model: Any, e: Vector | None, c: float, *, full: bool = False) -> Fit:
    """Return the predictions of a fitted classifier; if `full`, it gets all columns, and selects those that it uses."""
    X_test = bench.task.split.X_test if full else bench.task.seen_test
    f = model.predict_proba(X_test)[:, 1]
    decision = (model.predict(X_test) == 1).astype(np.float64)
    n_iter = int(getattr(model, "n_iter_", 0))
    return Fit(f, e, float(model.class_prior_), float(c), n_iter, decision=decision, interval=_interval(model))


def _interval(model: Any) -> tuple[float, float] | None:
    """Return the confidence interval of the class prior, or None if the model has none."""
    if not hasattr(model, "class_prior_interval"):
        return None
    try:
        low, high = model.class_prior_interval()
    except ValueError:  # This model has no standard errors.
        return None
    return (float(low), float(high)) if np.isfinite([low, high]).all() else None


def _scar_by(kind: Make) -> Make:
    """Return a function that makes a `SCARClassifier` whose label frequency estimator is of the class `kind`."""

    @wraps(kind)
    def make(*, C: float = 1.0, **parameters: Any) -> SCARClassifier:
        return SCARClassifier(kind(**parameters), C=C)

    own, penalty = signature(kind), signature(make, follow_wrapped=False).parameters["C"]
    setattr(make, "__signature__", own.replace(parameters=[*own.parameters.values(), penalty]))  # noqa: B010
    return make


def boosted(
    *, propensity_attributes: Any = None, attribute_sets: Any = "auto", cv: Any = 5, random_state: Any = None
) -> SARStackingClassifier:
    """Return gradient boosting for the class, with a propensity model."""
    return SARStackingClassifier(
        [("boosting", default_boosting())],
        propensity_attributes=propensity_attributes,
        attribute_sets=attribute_sets,
        cv=cv,
        random_state=random_state,
    )


OUR_ESTIMATORS: dict[str, Make] = {
    "SAREMClassifier": SAREMClassifier,
    "SAREMClassifierCV": SAREMClassifierCV,
    "SARStackingClassifier": SARStackingClassifier,
    "SCARClassifier": SCARClassifier,
    "StratifiedSCARClassifier": StratifiedSCARClassifier,
    "NaiveClassifier": NaiveClassifier,
    "boosted": boosted,
    **{name: getattr(field_methods, name) for name in field_methods.__all__},
    **{kind.__name__: _scar_by(kind) for kind in (DEDPUL, TIcE, KernelMean, BestBinEstimator, ElkanNoto)},
}


@dataclass(frozen=True)
class EstimatorMethod:
    """A method that fits an estimator to rows and labels, and predicts the test rows.

    The estimator gets neither the true classes nor the propensities. If `told` is "prior", it gets the true share of
    positives among the training rows. If it has a parameter for propensity attributes, it gets their names. Methods of
    a cell that differ only in their `decision` share a fit.
    """

    estimator: str  # name of an estimator of this package, or an import path
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)
    told: str = ""
    decision: str = ""  # argument `decision` of predict; "" calls predict without it

    @property
    def knows(self) -> str:
        """What the estimator knows besides rows and labels, from the task or from its parameters."""
        given = [self.parameters.get(name) for name in PRIOR_PARAMETERS]
        known = {path.rpartition(":")[2] for path in nested_estimators(self.parameters)} & KNOWN_PRIORS
        if self.told == PRIOR or known or any(isinstance(value, int | float) for value in given):
            return PRIOR
        if ATTRIBUTES_PARAMETER in self.parameters:
            return NOTHING if self.parameters[ATTRIBUTES_PARAMETER] == ALL_ATTRIBUTES else NAMES
        wants = ATTRIBUTES_PARAMETER in self._accepted | parameters_of(getattr(self._maker, "fit", None))
        return NAMES if wants else NOTHING

    def __call__(self, bench: Bench) -> Fit:
        """Fit the estimator to a task, or take the fit of a method with another decision."""
        task = bench.task
        X_train, X_test, options = self._sees(task)
        options |= self._prior(float(task.split.y_train.mean()), float(task.s_train.mean())) | self._penalty(bench.spec)
        s = task.s_train.astype(np.int64)

        def fit() -> Any:
            model = self.make({**options, **self._seeded(task.seed)}, task.seed)
            in_fit = ATTRIBUTES_PARAMETER in parameters_of(model.fit) and ATTRIBUTES_PARAMETER not in self._accepted
            extra = {ATTRIBUTES_PARAMETER: task.propensity_columns.tolist()} if in_fit else {}
            fitted = model.fit(X_train, s, **extra)
            return model if fitted is None else fitted

        model = bench.of_cell.get(json.dumps([self.estimator, self.parameters, self.told]), fit)
        return _found(model, X_train, X_test, s, self.decision)

    def check(self) -> None:
        """Raise if the estimator cannot be imported or made, or lacks a method; called before any run."""
        attributes = {ATTRIBUTES_PARAMETER: [0]} if ATTRIBUTES_PARAMETER in self._accepted else {}
        model = self.make({**attributes, **self._prior(0.5, 0.25), **self._seeded(0)})
        if self.decision and "decision" not in parameters_of(getattr(model, "predict", None)):
            raise ValueError(
                f"decision = {self.decision!r} needs an estimator with predict(X, decision=...), but predict of "
                f"{self.estimator!r} has no parameter decision. Remove decision."
            )

    def make(self, options: dict[str, Any], seed: int = 0) -> Any:
        """Return the estimator with options and its parameters; raise if it cannot fit and score rows.

        A parameter that is a table with an `estimator` entry becomes that estimator.
        """
        try:
            model = self._maker(**{**options, **{name: _made(each, seed) for name, each in self.parameters.items()}})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.estimator!r} cannot be created with {self.parameters}: {error}") from error
        has = {name for name in ("fit", *SCORING) if callable(getattr(model, name, None))}
        if "fit" not in has or not has & set(SCORING):
            lacking = "fit" if "fit" not in has else " and no ".join(SCORING)
            raise ValueError(
                f"{self.estimator!r} with the parameters {self.parameters} has no {lacking}. A method needs "
                "fit(X, s), and predict_proba(X) or decision_function(X)."
            )
        return model

    def _prior(self, class_prior: float, share_labelled: float) -> dict[str, float]:
        """Return the option that tells the class prior, if the estimator is told it."""
        if self.told != PRIOR:
            return {}
        known = dict(zip(PRIOR_PARAMETERS, (class_prior, min(share_labelled / class_prior, 1.0)), strict=True))
        for name in (name for name in known if name in self._accepted and name not in self.parameters):
            return {name: known[name]}
        raise ValueError(
            f"{self.estimator!r} cannot be told the class prior: it has no free parameter class_prior or "
            "label_frequency. Remove told."
        )

    def _penalty(self, spec: Spec) -> dict[str, float]:
        """Return the penalties of the logistic models inside an estimator of this package."""
        ours = self.estimator in OUR_ESTIMATORS
        names = [name for name in ("C", "propensity_C") if ours and name in self._accepted]
        return {name: spec.C for name in names if name not in self.parameters}

    @property
    def _maker(self) -> Make:
        return maker_of(self.estimator)

    @property
    def _accepted(self) -> set[str]:
        return parameters_of(self._maker)

    def _seeded(self, seed: int) -> dict[str, Any]:
        return _seeded(self._maker, seed)

    def _sees(self, task: Task) -> tuple[Matrix, Matrix, dict[str, Any]]:
        """Return the training and test rows for the estimator, and the options that name their columns."""
        wants = ATTRIBUTES_PARAMETER in self._accepted and ATTRIBUTES_PARAMETER not in self.parameters
        columns, seen = task.propensity_columns.tolist(), task.class_columns.tolist()
        if not wants or set(columns) <= set(seen):
            return task.seen_train, task.seen_test, {ATTRIBUTES_PARAMETER: columns} if wants else {}
        # In this setting, the propensity attributes are for the propensity model only.
        options: dict[str, Any] = {ATTRIBUTES_PARAMETER: columns}
        if "classification_attributes" in self._accepted:
            options["classification_attributes"] = seen
        elif "attribute_sets" in self._accepted:
            options["attribute_sets"] = {"seen": seen}
        else:
            raise ValueError(
                f"{self.estimator!r} has the parameter {ATTRIBUTES_PARAMETER} but not classification_attributes, so "
                "its classifier would use the propensity attributes. Remove the setting "
                f"{task.cell.setting!r} from the specification."
            )
        return task.split.X_train, task.split.X_test, options


def maker_of(estimator: str) -> Make:
    """Return the class or function that makes an estimator, given its name or import path."""
    if estimator in OUR_ESTIMATORS:
        return OUR_ESTIMATORS[estimator]
    if ":" not in estimator:
        hint = did_you_mean(estimator, OUR_ESTIMATORS) or f"Built-in estimators are {', '.join(OUR_ESTIMATORS)}."
        raise ValueError(f"There is no estimator {estimator!r}. {hint} For your own estimator, {IMPORT_PATH_FORM}.")
    made: Make = import_object(estimator)
    return made


def is_nested(value: Any) -> bool:
    """Return whether a parameter is a table that describes an estimator."""
    return isinstance(value, dict) and isinstance(value.get("estimator"), str) and set(value) <= {*NESTED_KEYS}


def nested_estimators(parameters: Any) -> list[str]:
    """Return the names and import paths of estimators that are nested in parameters.

    Examples
    --------
    >>> nested_estimators({"n": 3, "base": {"estimator": "sklearn.svm:SVC", "parameters": {"probability": True}}})
    ['sklearn.svm:SVC']
    """
    if isinstance(parameters, dict):
        own = [parameters["estimator"]] if is_nested(parameters) else []
        return own + [path for each in parameters.values() for path in nested_estimators(each)]
    return [path for each in parameters for path in nested_estimators(each)] if isinstance(parameters, list) else []


def _made(value: Any, seed: int) -> Any:
    """Return a parameter in which tables that describe estimators are replaced by the estimators."""
    if is_nested(value):
        maker, given = maker_of(value["estimator"]), value.get("parameters", {})
        try:
            return maker(**{**_seeded(maker, seed), **{name: _made(each, seed) for name, each in given.items()}})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{value['estimator']!r} cannot be created with {given}: {error}") from error
    if isinstance(value, list) and nested_estimators(value):
        made = [_made(each, seed) for each in value]
        return tuple(made) if isinstance(value[0], str) else made  # A pair of name and estimator must be a tuple.
    return {name: _made(each, seed) for name, each in value.items()} if isinstance(value, dict) else value


def _seeded(maker: Make, seed: int) -> dict[str, Any]:
    return {"random_state": seed} if "random_state" in parameters_of(maker) else {}


def parameters_of(function: Make | None) -> set[str]:
    """Return the names of a function's parameters; empty if it has no signature."""
    if function is None:
        return set()
    try:
        return set(signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def estimator_methods(spec: Spec, *, taken: Iterable[str] = ()) -> dict[str, Method]:
    """Return all methods that are estimators: built-in ones, and those of a specification."""
    ours: dict[str, Method] = {name: EstimatorMethod(name) for name in OUR_ESTIMATORS}
    for name in spec.own_methods:
        if name in {*ours, *taken}:
            raise ValueError(f"[methods.{name}]: {name!r} is the name of a built-in method. Choose another name.")
    own = {
        name: EstimatorMethod(
            table["estimator"], table.get("parameters", {}), table.get("told", ""), table.get("decision", "")
        )
        for name, table in spec.own_methods.items()
    }
    return {**ours, **own}


def _found(model: Any, X_train: Matrix, X_test: Matrix, s: Any, by: str) -> Fit:
    f, probable = _scores(model, X_test)
    e = _propensity(model, X_test) if hasattr(model, "predict_propensity") else None
    prior = _number(model, "class_prior_")
    if prior is None:
        trained, also = _scores(model, X_train) if probable else (f, False)
        prior = float(trained.mean()) if also else np.nan
    if not probable and hasattr(model, "predict_proba"):
        warnings.warn(
            f"predict_proba of {type(model).__name__} returned values outside 0 to 1, so only the ranking and the "
            "decision are scored.",
            UserWarning,
            stacklevel=2,
        )
    c = _number(model, "label_frequency_")
    if c is None:
        c = 1.0 if prior == 0 else min(float(s.mean()) / prior, 1.0)
    e = e if np.isfinite(c) else None
    n_iter = np.asarray(getattr(model, "n_iter_", 0))
    n = int(n_iter.max()) if n_iter.size and n_iter.dtype.kind in "iu" else 0
    decision = _decision(model, X_test, f, by, probable=probable)
    return Fit(f, e, prior, c, n, is_probability=probable, decision=decision, interval=_interval(model))


def _decision(model: Any, X: Matrix, f: Vector, by: str, *, probable: bool) -> Vector | None:
    """Return 1 for the rows that a method calls positive; without `predict`, those with a probability of 1/2 or more.

    If `by` is not empty, it is the argument `decision` of `predict`. Scores that are no probabilities need `predict`;
    without it, there is no decision.
    """
    by_half = (f >= 0.5).astype(np.float64) if probable else None
    if not hasattr(model, "predict"):
        return by_half
    try:
        called = np.asarray(model.predict(X, decision=by) if by else model.predict(X))
    except Exception as error:  # An estimator of the user may inherit a `predict` that it cannot use.
        instead = "rows with a probability of 1/2 or more are called positive" if probable else "no decision is scored"
        warnings.warn(
            f"predict of {type(model).__name__} failed with {type(error).__name__}, so {instead}.",
            UserWarning,
            stacklevel=2,
        )
        return by_half
    if called.shape != (X.shape[0],):
        raise ValueError(f"predict must return one class for each of {X.shape[0]} rows; its shape is {called.shape}.")
    values = set(called.tolist())
    if not values <= {0, 1} and not values <= {-1, 1}:  # True equals 1.
        raise ValueError(
            "predict must return 1 for positive rows, and 0 or -1 for negative rows; it returned "
            f"{listed(sorted(map(repr, values)), most=4)}."
        )
    return (called == 1).astype(np.float64)


def _propensity(model: Any, X: Matrix) -> Vector | None:
    """Return the propensity of each row, or None with a warning if the values are no probabilities."""
    e = _numbers(model.predict_propensity(X), "predict_propensity")
    if e.shape != (X.shape[0],):
        raise ValueError(f"predict_propensity must return an array of shape ({X.shape[0]},); its shape is {e.shape}.")
    if _in_unit(e.round(ROUNDING_DIGITS)):
        return e
    warnings.warn(
        f"predict_propensity of {type(model).__name__} returned values outside 0 to 1, so the propensity is not "
        "scored.",
        UserWarning,
        stacklevel=2,
    )
    return None


def _number(model: Any, name: str) -> float | None:
    """Return an estimate of a fitted model as a number, or None if the model does not have it."""
    value = getattr(model, name, None)
    if value is None:
        return None
    found = _numbers(value, name, verb="be")
    if found.size != 1:
        raise ValueError(f"{name} must be one number; its shape is {found.shape}.")
    return float(found.reshape(-1)[0])


def _numbers(values: Any, name: str, verb: str = "return") -> Vector:
    """Return values of the user's estimator as numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        what = "a number" if verb == "be" else "numbers"
        raise ValueError(f"{name} must {verb} {what}; {error}.") from error


def _scores(model: Any, X: Matrix) -> tuple[Vector, bool]:
    """Return the score of each row, and whether the scores are probabilities; raise if they are not valid."""
    classes = np.asarray(getattr(model, "classes_", (0, 1))).tolist()
    if classes not in ([0, 1], [1, 0], [-1, 1], [1, -1]):
        raise ValueError(f"classes_ must be 0 and 1, or -1 and 1, because labels are 0 and 1; it is {classes!r}.")
    name = SCORING[0] if hasattr(model, SCORING[0]) else SCORING[1]
    found = _numbers(getattr(model, name)(X), name)
    n = X.shape[0]
    if found.shape != ((n, 2) if name == "predict_proba" else (n,)):
        wanted = f"({n}, 2), one column for each class" if name == "predict_proba" else f"({n},)"
        raise ValueError(f"{name} must return an array of shape {wanted}; its shape is {found.shape}.")
    scores = found[:, classes.index(1)] if name == "predict_proba" else found if classes[-1] == 1 else -found
    if not np.isfinite(scores).all():
        raise ValueError(f"{name} must return finite numbers; it returned NaN or infinity.")
    return scores, name == "predict_proba" and _in_unit(scores)


def _in_unit(p: Vector) -> bool:
    return bool(((p >= 0) & (p <= 1)).all())
