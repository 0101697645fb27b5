"""The methods that ``python -m benchmarks other_tables`` compares.

A method is a function of a task that returns an answer. To add one, write ``function(task) -> Answer`` and enter it in
``METHODS``. For a fitted model with ``predict_proba`` use ``answer_of``; it also uses ``predict_propensity``,
``class_prior_`` and ``class_prior_interval`` if the model has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.other_tables.tasks import Task
from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
)
from scarless.models.sar_stacking import default_boosting
from scarless.pair.draws import default_forest


@dataclass(frozen=True)
class Answer:
    """The estimates of a method; None for what the method does not estimate."""

    f_test: np.ndarray
    class_prior: float
    e_test: np.ndarray | None = None
    interval: tuple[float, float] | None = None


Method = Callable[[Task], Answer]


def answer_of(model: Any, task: Task, *, propensity: bool = True) -> Answer:
    """Return the answer of a fitted model."""
    prior = getattr(model, "class_prior_", None)
    interval = model.class_prior_interval() if hasattr(model, "class_prior_interval") else None
    return Answer(
        f_test=model.predict_proba(task.X_test)[:, 1],
        class_prior=float(model.predict_proba(task.X_train)[:, 1].mean() if prior is None else prior),
        e_test=model.predict_propensity(task.X_test) if propensity and hasattr(model, "predict_propensity") else None,
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
    )


def boosting() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=6, learning_rate=0.1, early_stopping=False)


def boosting_with_early_stopping() -> HistGradientBoostingClassifier:
    """Return boosting with more rounds, which held-out labels stop early."""
    return HistGradientBoostingClassifier(max_iter=200, max_leaf_nodes=6, learning_rate=0.1)


def supervised(task: Task) -> Answer:
    return answer_of(LogisticRegression(max_iter=5_000).fit(task.X_train, task.y_train), task)


def supervised_boosting(task: Task) -> Answer:
    return answer_of(boosting().fit(task.X_train, task.y_train), task)


def known_e(task: Task) -> Answer:
    model = PropensityWeightedClassifier(method="likelihood")
    return answer_of(model.fit(task.X_train, task.s_train, propensity=task.e_train), task, propensity=False)


def naive(task: Task) -> Answer:
    return answer_of(NaiveClassifier().fit(task.X_train, task.s_train), task, propensity=False)


def naive_boosting(task: Task) -> Answer:
    return answer_of(boosting().fit(task.X_train, task.s_train), task)


def scar(task: Task) -> Answer:
    return answer_of(SAREMClassifier().fit(task.X_train, task.s_train), task)


def sarem_all(task: Task) -> Answer:
    model = SAREMClassifier(propensity_attributes=task.propensity_columns)
    return answer_of(model.fit(task.X_train, task.s_train), task)


def sarem_without(task: Task) -> Answer:
    model = SAREMClassifier(propensity_attributes=task.propensity_columns, classification_attributes=task.other_columns)
    return answer_of(model.fit(task.X_train, task.s_train), task)


def search(task: Task) -> Answer:
    model = SAREMClassifierCV(propensity_attributes=task.propensity_columns, random_state=task.method_seed)
    return answer_of(model.fit(task.X_train, task.s_train), task)


def boosted(task: Task) -> Answer:
    model = SAREMClassifier(
        boosting_with_early_stopping(), propensity_attributes=task.propensity_columns, random_state=task.method_seed
    )
    return answer_of(model.fit(task.X_train, task.s_train), task)


def members_without(left_out: str | None) -> list[tuple[str, Any]] | None:
    """Return the default members of a stack but one; None, which means all of them, if none is left out."""
    members = [("logistic", None), ("boosting", default_boosting()), ("forest", default_forest())]
    return None if left_out is None else [member for member in members if member[0] != left_out]


def stack_without(left_out: str | None) -> Method:
    """Return the stack, with all of its default members or with all but one."""

    def method(task: Task) -> Answer:
        columns, members = "all" if task.unnamed else task.propensity_columns, members_without(left_out)
        model = SARStackingClassifier(members, propensity_attributes=columns, random_state=task.method_seed)
        return answer_of(model.fit(task.X_train, task.s_train), task)

    return method


def unnamed(method: Method) -> Method:
    """Return the method for users who do not know the propensity attributes: all attributes are used."""
    return lambda task: method(task.without_names())


MEMBERS = ("logistic", "boosting", "forest")  # default members of a stack, left out one at a time
# Methods that see the true classes or the true propensities.
ORACLES: dict[str, Method] = {
    "supervised": supervised,
    "supervised boosting": supervised_boosting,
    "known e": known_e,
}
METHODS: dict[str, Method] = {
    **ORACLES,
    "naive": naive,
    "naive boosting": naive_boosting,
    "SCAR": scar,
    "SAREM, all attributes": sarem_all,
    "SAREM, without propensity attributes": sarem_without,
    "SAREM, no attributes named": unnamed(sarem_all),
    "search": search,
    "boosting": boosted,
    "stack": stack_without(None),
    "search, no attributes named": unnamed(search),
    "boosting, no attributes named": unnamed(boosted),
    "stack, no attributes named": unnamed(stack_without(None)),
    **{f"stack, no {left_out}": stack_without(left_out) for left_out in MEMBERS},
    **{f"stack, no attributes named, no {left_out}": unnamed(stack_without(left_out)) for left_out in MEMBERS},
}
