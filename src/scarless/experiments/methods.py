"""Methods to compare, by name: a task in, predictions for the test rows out.

Only `supervised`, `known-e` and `known-c` look at the truth, and say so. Any estimator is a method too: ours by the
name of their class, anybody's by import path. An experiment may have methods of its own beside these: functions of a
module, since worker processes must find them.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from scarless.experiments.own import IMPORT_PATH_FORM, import_object
from scarless.experiments.protocol import Task
from scarless.experiments.spec import Spec, did_you_mean
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

ATTRIBUTES_PARAMETER = "propensity_attributes"  # the word in a signature that gets the columns that drive the labelling
NESTED_KEYS = ("estimator", "parameters")  # keys of a parameter that is an estimator itself
Make = Callable[..., Any]


@dataclass(frozen=True)
class Fit:
    """What a method says of the test rows and of the population."""

    f: Vector
    e: Vector | None  # None where a method has no propensity
    class_prior: float
    label_frequency: float
    n_iter: int
    is_probability: bool = True  # whether `f` are probabilities, or scores that only rank rows


class Made(NamedTuple):
    """A result, the seconds that it took and the warnings that came with it."""

    result: Any
    seconds: float
    warnings: list[Any]


@dataclass
class Kept:
    """Results that several methods, or several cells, need: made once."""

    made: dict[str, Made] = field(default_factory=dict)
    borrowed_seconds: float = 0.0  # of what was made before somebody else asked

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the result of that name; make it if need be. Its time and its warnings count for all who ask."""
        if name in self.made:
            self.borrowed_seconds += self.made[name].seconds
        else:
            start = perf_counter()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                result = make()
            self.made[name] = Made(result, perf_counter() - start, told)
        for warning in self.made[name].warnings:
            warnings.warn(warning.message, warning.category, stacklevel=2)
        return self.made[name].result


@dataclass
class Bench:
    """A task, and what its methods share: the SAR-EM fit and KM2's estimate; with all cells of a split, the
    supervised fit.
    """

    spec: Spec
    task: Task
    of_split: Kept
    of_cell: Kept = field(default_factory=Kept)

    @property
    def borrowed_seconds(self) -> float:
        """Seconds of what methods used although it was there already."""
        return self.of_cell.borrowed_seconds + self.of_split.borrowed_seconds


def supervised(bench: Bench) -> Fit:
    """Logistic regression on the true classes."""
    task = bench.task

    def fit() -> Fit:
        model = NaiveClassifier(C=bench.spec.C).fit(task.seen_train, task.split.y_train)
        return fit_of(bench, model, None, float("nan"))

    return bench.of_split.get(f"supervised/{task.cell.setting}", fit)


def naive(bench: Bench) -> Fit:
    """Unlabelled rows taken as negative."""
    model = NaiveClassifier(C=bench.spec.C).fit(bench.task.seen_train, bench.task.s_train)
    return _constant(bench, model, 1.0)


def known_e(bench: Bench) -> Fit:
    """The propensity-weighted risk with the true propensities."""
    task = bench.task
    model = PropensityWeightedClassifier(C=bench.spec.C).fit(task.seen_train, task.s_train, propensity=task.e_train)
    return fit_of(bench, model, task.e_test, model.label_frequency_)


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


def sar_em(bench: Bench) -> Fit:
    """Classifier and propensity model, learned together."""
    model = sar_em_of(bench)
    return fit_of(bench, model, model.predict_propensity(bench.task.split.X_test), model.label_frequency_, full=True)


def sar_em_refit(bench: Bench) -> Fit:
    """SAR-EM, then the classifier once more on the propensity-weighted risk."""
    task, pair = bench.task, sar_em_of(bench)
    e = pair.predict_propensity(task.split.X_train)
    model = PropensityWeightedClassifier(C=bench.spec.C).fit(task.seen_train, task.s_train, propensity=e)
    return fit_of(bench, model, pair.predict_propensity(task.split.X_test), model.label_frequency_)


Method = Callable[[Bench], Fit]

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
    """Return the fitted pair of models, made once for all methods that need it."""
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
    """Return KM2's estimate, made once for all methods that need it."""
    task = bench.task
    estimator = KernelMean("km2", max_rows=bench.spec.km_max_rows, random_state=task.seed)
    return bench.of_cell.get("km2", lambda: estimator.fit(task.seen_train, task.s_train))


def _scar(bench: Bench, c: float) -> Fit:
    model = SCARClassifier(label_frequency=c, C=bench.spec.C).fit(bench.task.seen_train, bench.task.s_train)
    return _constant(bench, model, c)


def _constant(bench: Bench, model: Any, c: float) -> Fit:
    return fit_of(bench, model, np.full(bench.task.split.X_test.shape[0], c), c)


def fit_of(bench: Bench, model: Any, e: Vector | None, c: float, *, full: bool = False) -> Fit:
    """Return what a fitted classifier says; `full` where it takes all columns and picks its own."""
    X_test = bench.task.split.X_test if full else bench.task.seen_test
    f = model.predict_proba(X_test)[:, 1]
    return Fit(f, e, float(model.class_prior_), float(c), int(model.n_iter_))


def _scar_by(kind: Make) -> Make:
    """Return what makes SCAR's classifier with a label frequency by an estimator, whose parameters it takes."""

    @wraps(kind)
    def make(**parameters: Any) -> SCARClassifier:
        return SCARClassifier(kind(**parameters))

    return make


def boosted(
    *, propensity_attributes: Any = None, attribute_sets: Any = "auto", cv: Any = 5, random_state: Any = None
) -> SARStackingClassifier:
    """Return gradient boosting of the class, with a propensity beside it."""
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
    **{kind.__name__: _scar_by(kind) for kind in (DEDPUL, TIcE, KernelMean, BestBinEstimator, ElkanNoto)},
}


@dataclass(frozen=True)
class EstimatorMethod:
    """A method that fits an estimator to rows and labels, and asks it for probabilities of the test rows.

    It is told nothing else: neither the true class, nor propensities.
    """

    estimator: str  # one of ours, or an import path
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)

    def __call__(self, bench: Bench) -> Fit:
        """Fit it to a task."""
        task = bench.task
        X_train, X_test, told = self._sees(task)
        model = self.make({**told, **self._seeded(task.seed)}, task.seed)
        s = task.s_train.astype(np.int64)
        in_fit = ATTRIBUTES_PARAMETER in words_of(model.fit) and ATTRIBUTES_PARAMETER not in self._words
        extra = {ATTRIBUTES_PARAMETER: task.propensity_columns.tolist()} if in_fit else {}
        fitted = model.fit(X_train, s, **extra)
        return _found(model if fitted is None else fitted, X_train, X_test, s)

    def check(self) -> None:
        """Refuse an estimator that cannot be had, be made or be asked for probabilities, before there are any rows."""
        self.make({**({ATTRIBUTES_PARAMETER: [0]} if ATTRIBUTES_PARAMETER in self._words else {}), **self._seeded(0)})

    def make(self, told: dict[str, Any], seed: int = 0) -> Any:
        """Return the estimator, with what it is told beside its parameters; refuse one without `predict_proba`.

        A parameter that is a table with an `estimator` of its own becomes that estimator.
        """
        try:
            model = self._maker(**{**told, **{name: _made(each, seed) for name, each in self.parameters.items()}})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.estimator!r} cannot be made with {self.parameters}: {error}") from error
        lacking = [name for name in ("fit", "predict_proba") if not callable(getattr(model, name, None))]
        if lacking:
            raise ValueError(
                f"{self.estimator!r} has no {lacking[0]}: a method needs fit(X, s) and predict_proba(X), with the "
                "parameters given."
            )
        return model

    @property
    def _maker(self) -> Make:
        return maker_of(self.estimator)

    @property
    def _words(self) -> set[str]:
        return words_of(self._maker)

    def _seeded(self, seed: int) -> dict[str, Any]:
        return _seeded(self._maker, seed)

    def _sees(self, task: Task) -> tuple[Matrix, Matrix, dict[str, Any]]:
        """Return the rows that it may see, and what it is told of their columns."""
        wants = ATTRIBUTES_PARAMETER in self._words and ATTRIBUTES_PARAMETER not in self.parameters
        columns, seen = task.propensity_columns.tolist(), task.class_columns.tolist()
        if not wants or set(columns) <= set(seen):
            return task.seen_train, task.seen_test, {ATTRIBUTES_PARAMETER: columns} if wants else {}
        # The classifier may not see what drives the labelling; that is for the propensity model alone.
        told: dict[str, Any] = {ATTRIBUTES_PARAMETER: columns}
        if "classification_attributes" in self._words:
            told["classification_attributes"] = seen
        elif "attribute_sets" in self._words:
            told["attribute_sets"] = {"seen": seen}
        else:
            raise ValueError(
                f"{self.estimator!r} takes {ATTRIBUTES_PARAMETER} and no classification_attributes, so that it cannot "
                f"be kept from classifying by the former; leave the setting {task.cell.setting!r} out for it."
            )
        return task.split.X_train, task.split.X_test, told


def maker_of(estimator: str) -> Make:
    """Return what makes an estimator: one of ours by name, anybody's by import path."""
    if estimator in OUR_ESTIMATORS:
        return OUR_ESTIMATORS[estimator]
    if ":" not in estimator:
        hint = did_you_mean(estimator, OUR_ESTIMATORS) or f"Ours are {', '.join(OUR_ESTIMATORS)}."
        raise ValueError(f"There is no estimator {estimator!r}. {hint} For one of your own {IMPORT_PATH_FORM}.")
    made: Make = import_object(estimator)
    return made


def is_nested(value: Any) -> bool:
    """Whether a parameter is a table that says how an estimator is made."""
    return isinstance(value, dict) and isinstance(value.get("estimator"), str) and set(value) <= {*NESTED_KEYS}


def nested_estimators(parameters: Any) -> list[str]:
    """Return the names and import paths of estimators inside of parameters, however deep.

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
    """Return a parameter with estimators in place of the tables that say how to make them."""
    if is_nested(value):
        maker, given = maker_of(value["estimator"]), value.get("parameters", {})
        try:
            return maker(**{**_seeded(maker, seed), **{name: _made(each, seed) for name, each in given.items()}})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{value['estimator']!r} cannot be made with {given}: {error}") from error
    if isinstance(value, list) and nested_estimators(value):
        made = [_made(each, seed) for each in value]
        return tuple(made) if isinstance(value[0], str) else made  # a name and its estimator, as in a list of steps
    return {name: _made(each, seed) for name, each in value.items()} if isinstance(value, dict) else value


def _seeded(maker: Make, seed: int) -> dict[str, Any]:
    return {"random_state": seed} if "random_state" in words_of(maker) else {}


def words_of(function: Make) -> set[str]:
    """Return the names of parameters that a function takes; none where nobody can say."""
    try:
        return set(signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def estimator_methods(spec: Spec, *, taken: Iterable[str] = ()) -> dict[str, Method]:
    """Return all methods that are estimators: ours, and those that a specification adds under names not yet taken."""
    ours: dict[str, Method] = {name: EstimatorMethod(name) for name in OUR_ESTIMATORS}
    for name in spec.own_methods:
        if name in {*ours, *taken}:
            raise ValueError(f"[methods.{name}]: there is a method {name!r} already. Choose another name for yours.")
    own = {
        name: EstimatorMethod(table["estimator"], table.get("parameters", {}))
        for name, table in spec.own_methods.items()
    }
    return {**ours, **own}


def _found(model: Any, X_train: Matrix, X_test: Matrix, s: Any) -> Fit:
    f = _scores(model, X_test)
    probable = _in_unit(f)
    e = np.asarray(model.predict_propensity(X_test), dtype=np.float64) if hasattr(model, "predict_propensity") else None
    prior = getattr(model, "class_prior_", None)
    if prior is None:
        trained = _scores(model, X_train)
        prior = trained.mean() if probable and _in_unit(trained) else np.nan
    if not probable:
        warnings.warn(
            f"predict_proba of {type(model).__name__} gave values that are not between 0 and 1, so only its ranking is "
            "measured, by AUC and average precision. There are no scores of probabilities.",
            UserWarning,
            stacklevel=2,
        )
    prior, c = float(prior), getattr(model, "label_frequency_", None)
    c = min(float(s.mean()) / prior, 1.0) if c is None else float(c)
    e = e if np.isfinite(c) else None
    n_iter = np.asarray(getattr(model, "n_iter_", 0))
    n = int(n_iter.max()) if n_iter.size and n_iter.dtype.kind in "iu" else 0
    return Fit(f, e, prior, c, n, is_probability=probable)


def _scores(model: Any, X: Matrix) -> Vector:
    """Return the column of the positive class, or say what is wrong with it."""
    p = np.asarray(model.predict_proba(X), dtype=np.float64)
    if p.shape != (X.shape[0], 2):
        raise ValueError(f"predict_proba must return a column for each of two classes; its shape is {p.shape}.")
    classes = [int(value) for value in getattr(model, "classes_", (0, 1))]
    positive = p[:, classes.index(1)]
    if not np.isfinite(positive).all():
        raise ValueError("predict_proba must return finite numbers; some are NaN or infinite.")
    return positive


def _in_unit(p: Vector) -> bool:
    return bool(((p >= 0) & (p <= 1)).all())
