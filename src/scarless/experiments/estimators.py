"""Methods that are estimators: ours by the name of their class, and anybody's by import path."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

from scarless.experiments.importing import FORM, import_object
from scarless.experiments.methods import Bench, Fit, Method
from scarless.experiments.protocol import Task
from scarless.experiments.spec import Spec, did_you_mean
from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE
from scarless.models import (
    NaiveClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
)
from scarless.models.sar_stacking import default_boosting
from scarless.numerics.arrays import Matrix, Vector

ATTRIBUTES = "propensity_attributes"  # the word in a signature that gets the columns that drive the labelling
Make = Callable[..., Any]


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


OURS: dict[str, Make] = {
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
        model = self.make({**told, **self._seeded(task.seed)})
        s = task.s_train.astype(np.int64)
        in_fit = ATTRIBUTES in words_of(model.fit) and ATTRIBUTES not in self._words
        extra = {ATTRIBUTES: task.propensity_columns.tolist()} if in_fit else {}
        fitted = model.fit(X_train, s, **extra)
        return _found(model if fitted is None else fitted, X_train, X_test, s)

    def check(self) -> None:
        """Refuse an estimator that cannot be had, be made or be asked for probabilities, before there are any rows."""
        self.make({**({ATTRIBUTES: [0]} if ATTRIBUTES in self._words else {}), **self._seeded(0)})

    def make(self, told: dict[str, Any]) -> Any:
        """Return the estimator, with what it is told beside its parameters; refuse one without `predict_proba`."""
        try:
            model = self._maker(**{**told, **self.parameters})
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
        return {"random_state": seed} if "random_state" in self._words else {}

    def _sees(self, task: Task) -> tuple[Matrix, Matrix, dict[str, Any]]:
        """Return the rows that it may see, and what it is told of their columns."""
        wants = ATTRIBUTES in self._words and ATTRIBUTES not in self.parameters
        columns, seen = task.propensity_columns.tolist(), task.class_columns.tolist()
        if not wants or set(columns) <= set(seen):
            return task.seen_train, task.seen_test, {ATTRIBUTES: columns} if wants else {}
        # The classifier may not see what drives the labelling; that is for the propensity model alone.
        told: dict[str, Any] = {ATTRIBUTES: columns}
        if "classification_attributes" in self._words:
            told["classification_attributes"] = seen
        elif "attribute_sets" in self._words:
            told["attribute_sets"] = {"seen": seen}
        else:
            raise ValueError(
                f"{self.estimator!r} takes {ATTRIBUTES} and no classification_attributes, so that it cannot be kept "
                f"from classifying by the former; leave the setting {task.cell.setting!r} out for it."
            )
        return task.split.X_train, task.split.X_test, told


def maker_of(estimator: str) -> Make:
    """Return what makes an estimator: one of ours by name, anybody's by import path."""
    if estimator in OURS:
        return OURS[estimator]
    if ":" not in estimator:
        hint = did_you_mean(estimator, OURS) or f"Ours are {', '.join(OURS)}."
        raise ValueError(f"There is no estimator {estimator!r}. {hint} For one of your own {FORM}.")
    made: Make = import_object(estimator)
    return made


def words_of(function: Make) -> set[str]:
    """Return the names of parameters that a function takes; none where nobody can say."""
    try:
        return set(signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def estimator_methods(spec: Spec, *, taken: Iterable[str] = ()) -> dict[str, Method]:
    """Return all methods that are estimators: ours, and those that a specification adds under names not yet taken."""
    ours: dict[str, Method] = {name: EstimatorMethod(name) for name in OURS}
    for name in spec.own_methods:
        if name in {*ours, *taken}:
            raise ValueError(f"[methods.{name}]: there is a method {name!r} already. Choose another name for yours.")
    own = {
        name: EstimatorMethod(table["estimator"], table.get("parameters", {}))
        for name, table in spec.own_methods.items()
    }
    return {**ours, **own}


def _found(model: Any, X_train: Matrix, X_test: Matrix, s: Any) -> Fit:
    f = _probability(model, X_test)
    e = np.asarray(model.predict_propensity(X_test), dtype=np.float64) if hasattr(model, "predict_propensity") else None
    prior = getattr(model, "class_prior_", None)
    prior = float(_probability(model, X_train).mean() if prior is None else prior)
    c = getattr(model, "label_frequency_", None)
    c = min(float(s.mean()) / prior, 1.0) if c is None else float(c)
    n_iter = np.asarray(getattr(model, "n_iter_", 0))
    return Fit(f, e, prior, c, int(n_iter.max()) if n_iter.size and n_iter.dtype.kind in "iu" else 0)


def _probability(model: Any, X: Matrix) -> Vector:
    """Return the probability of the positive class, or say what is wrong with it."""
    p = np.asarray(model.predict_proba(X), dtype=np.float64)
    if p.shape != (X.shape[0], 2):
        raise ValueError(f"predict_proba must return a column for each of two classes; its shape is {p.shape}.")
    classes = [int(value) for value in getattr(model, "classes_", (0, 1))]
    positive = p[:, classes.index(1)]
    if not ((positive >= 0) & (positive <= 1)).all():
        raise ValueError("predict_proba must return probabilities; some are not between 0 and 1.")
    return positive
