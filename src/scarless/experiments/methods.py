"""Methods to compare, by name: a task in, predictions for the test rows out.

Only `supervised`, `known-e` and `known-c` look at the truth, and say so. An experiment may have methods of its own
beside these: functions of a module, since worker processes must find them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from scarless.experiments.protocol import Task
from scarless.experiments.spec import Spec
from scarless.label_frequency import KernelMean, TIcE
from scarless.models import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier
from scarless.numerics.arrays import Vector


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
