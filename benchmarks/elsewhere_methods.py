"""The rivals of ``python -m benchmarks.elsewhere``: each a function of a task that returns an answer.

To add one, write ``function(task) -> Answer`` and enter it in ``METHODS``; a fitted model with ``predict_proba`` and,
where it has them, ``predict_propensity``, ``class_prior_`` and ``class_prior_interval`` needs only ``answer_of``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.elsewhere_tasks import Task
from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
)


@dataclass(frozen=True)
class Answer:
    """What a method says of a task; None where it says nothing."""

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


def stopped() -> HistGradientBoostingClassifier:
    """Boosting that may go on for longer, since held-out labels stop it."""
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
    model = SAREMClassifier(stopped(), propensity_attributes=task.propensity_columns, random_state=task.method_seed)
    return answer_of(model.fit(task.X_train, task.s_train), task)


def stacked(task: Task) -> Answer:
    columns = "all" if task.nameless else task.propensity_columns
    model = SARStackingClassifier(propensity_attributes=columns, random_state=task.method_seed)
    return answer_of(model.fit(task.X_train, task.s_train), task)


def nameless(method: Method) -> Method:
    """Return a method as somebody would use it who cannot name any propensity attribute: all are named."""
    return lambda task: method(task.without_names())


# These see the true class or the true propensity.
ORACLES: dict[str, Method] = {
    "supervised": supervised,
    "supervised boosting": supervised_boosting,
    "known e": known_e,
}
METHODS: dict[str, Method] = {
    **ORACLES,
    "naive": naive,
    "naive boosting": naive_boosting,
    "scar": scar,
    "SAREM C=1, all": sarem_all,
    "SAREM C=1, without x_e": sarem_without,
    "SAREM C=1, nameless": nameless(sarem_all),
    "search": search,
    "boosted": boosted,
    "stacked": stacked,
    "search, nameless": nameless(search),
    "boosted, nameless": nameless(boosted),
    "stacked, nameless": nameless(stacked),
}
