"""Rows of a sensitivity analysis, checked once, and the quantities that can be bounded for them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import opened
from scarless.checks.labels import LabelCoding
from scarless.checks.looks import refuse_looks
from scarless.checks.options import check_choice, check_indicator, check_propensity, check_vector
from scarless.checks.rows import check_row_order
from scarless.checks.tables import plain_array, refuse_odd_vector
from scarless.diagnostics.sensitivity._row_names import called
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import PropensityWeightedClassifier
from scarless.models.pair import refuse_wrapped
from scarless.numerics import sharp_bounds
from scarless.numerics.arrays import Array, ArrayLike, Vector
from scarless.numerics.likelihood import posterior
from scarless.numerics.sharp_bounds import Box
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import listed

ROUNDING = 1e-12  # by which f e of the user's own making may exceed e


@dataclass(frozen=True)
class Rows:
    """What is known of each row."""

    P: Vector  # Pr(s=1|x), identified
    e: Vector  # the propensity that may be wrong
    s: Vector | None  # the labels, where the question is about these very rows
    weight: Vector
    index: Array | range | None = None  # their names in order, a range where they are just numbered
    coding: LabelCoding | None = None  # of the estimator that the rows come from

    @property
    def names(self) -> Array | None:
        """Names of the rows; None where they go by position."""
        return None if isinstance(self.index, range) else self.index

    @cached_property
    def f(self) -> Vector:
        """The class probability under the fitted propensity."""
        return self.P / self.e

    @cached_property
    def q(self) -> Vector | None:
        """The posterior under the fitted propensity, where labels are given."""
        return None if self.s is None else posterior(self.f, self.e, self.s)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.P.size

    @property
    def labelled(self) -> float:
        """Weight of labelled rows: expected, or counted where labels are given."""
        return float(self.weight @ (self.P if self.s is None else self.s))

    def probability_within_odds(self, gamma: float) -> Box:
        """Return the probabilities of being positive that a factor `gamma` leaves possible."""
        if self.q is None:
            return sharp_bounds.class_probability_within_odds(self.f, self.e, gamma)
        return sharp_bounds.posterior_within_odds(self.q, (self.s == 0) & (self.e < 1), gamma)

    def probability(self, f: Box) -> Box:
        """Return what is asked of each row: its class probability, or the posterior where labels are given."""
        return f if self.s is None else sharp_bounds.posterior_box(self.P, self.s, f)

    def decisions(self, decisions: ArrayLike) -> Vector:
        """Return decisions as 0 and 1; they may be coded as the estimator's classes."""
        refuse_odd_vector(decisions, "decisions")
        values = plain_array(check_row_order(decisions, "decisions", self.index), "decisions").reshape(-1)
        if self.coding is not None and values.dtype.kind != "b" and np.isin(values, self.coding.classes).all():
            values = self.coding.encode(values)
        return check_indicator(values, "decisions", n_rows=self.n)

    def order(self, scores: ArrayLike) -> NDArray[np.intp]:
        """Return the place of each score among the different ones, from the lowest."""
        values = check_vector(check_row_order(scores, "scores", self.index), "scores", n_rows=self.n)
        if np.isnan(values).any():
            raise ValueError(f"scores hold NaN in {np.isnan(values).sum()} of {self.n} rows; rows need a score each.")
        return np.unique(values, return_inverse=True)[1].reshape(-1)

    def position(self, row: Any) -> int:
        """Return where a row is that was named as in the data frame, or by its position where there are no names."""
        if self.names is None:
            if not isinstance(row, int | np.integer) or isinstance(row, bool) or not 0 <= row < self.n:
                raise ValueError(
                    f"rows have no names here and go by position, 0 to {self.n - 1}; got {row!r}. Name them with "
                    "row_names=, or give a pandas data frame: its index holds the names."
                )
            return int(row)
        try:
            found = self._places.get(row, [])
        except TypeError:  # not hashable, so no name
            found = []
        if len(found) != 1:
            problem = "is not the name of a row" if not found else f"is the name of {len(found)} rows"
            shown = ", ".join(repr(name) for name in self.names[:3].tolist())
            raise ValueError(
                f"{row!r} {problem}; names are those of the data frame's index or of row_names: {shown}, ..."
            )
        return found[0]

    def name(self, position: int) -> Any:
        """Return the name of a row, or its position where there are no names."""
        return position if self.names is None else self.names[position]

    def called(self, position: int) -> str:
        """Return how to call a row in a sentence."""
        return called(self.name(position))

    @cached_property
    def _places(self) -> dict[Any, list[int]]:
        places: dict[Any, list[int]] = {}
        for position, name in enumerate([] if self.names is None else self.names.tolist()):
            places.setdefault(name, []).append(position)
        return places


def fitted_values(model: Any, X: Any, propensity: ArrayLike | None) -> tuple[Vector, Vector, LabelCoding]:
    """Return class probability, propensity and label coding of a fitted model."""
    refuse_wrapped(model)
    model, prepare = opened(model)
    X = prepare(X)
    name = type(model).__name__
    tells = hasattr(model, "predict_propensity")
    if not tells and not isinstance(model, PropensityWeightedClassifier):
        raise TypeError(
            f"{name} has no predict_propensity, so its fit says nothing of f and e apart. For a model of the labels, "
            "Pr(s=1|x), such as NaiveClassifier: Sensitivity(label_probability, propensity)."
        )
    if tells and propensity is not None:
        raise ValueError(
            f"propensity is given, but {name} has one of its own. To put another in its place: "
            "Sensitivity(label_probability=f * e, propensity=propensity) with the f and e of the model."
        )
    if not tells and propensity is None:
        raise ValueError(f"{name} does not keep propensities: pass propensity=, one value per row of X.")
    check_is_fitted(model)
    refuse_looks(
        model,
        "Sensitivity",
        instead="For one look: Sensitivity(label_probability, propensity) with its labels and predict_propensity.",
    )
    coding = coding_of(model)
    f = class_probability(model, X, coding)
    e = check_propensity(model.predict_propensity(X) if propensity is None else propensity, n_rows=f.size)
    return f, e, coding


def check_explained(P: Vector, e: Vector, name: str) -> Vector:
    """Return `P`, at most `e`, or say which propensities cannot explain so many labels."""
    bad = np.flatnonzero(e * (1.0 + ROUNDING) < P)
    if bad.size:
        raise ValueError(
            f"{name} must be at least Pr(s=1|x), since f = Pr(s=1|x) / e is a probability; {bad.size} of {P.size} rows "
            f"contradict that (first: row {bad[0]}, {name} {e[bad[0]]:g} < label_probability {P[bad[0]]:g}). Either "
            f"the propensity is larger or label_probability is off; raise it on purpose with "
            f"np.maximum({name}, label_probability)."
        )
    return np.minimum(P, e)


@dataclass(frozen=True)
class Quantity:
    """A number that depends on the probabilities of all rows, and its sharp bounds over a box of them."""

    label: str
    values: Callable[[Box], Interval]  # NaN where the quantity is defined nowhere in the box
    undefined: str = "it is a share of the positives, and no row can be positive"

    def bounds(self, box: Box) -> Interval:
        """Return the bounds, or raise where there is nothing to bound."""
        found = self.values(box)
        if np.isnan(found.low):
            raise ValueError(f"{self.label} is undefined for these rows: {self.undefined}.")
        return found


NEEDS: dict[str, tuple[str, ...]] = {
    "class_prior": (),
    "label_frequency": (),
    "precision": ("decisions",),
    "recall": ("decisions",),
    "f1": ("decisions",),
    "accuracy": ("decisions",),
    "roc_auc": ("scores",),
    "probability": ("row",),
    "rank": ("row",),
    "difference": ("row", "rival"),
}
_OF_DECISIONS = {
    "precision": ("precision", sharp_bounds.precision_bounds),
    "recall": ("recall", sharp_bounds.recall_bounds),
    "f1": ("F1", sharp_bounds.f1_bounds),
    "accuracy": ("accuracy", sharp_bounds.accuracy_bounds),
}


def make_quantity(
    name: str, rows: Rows, *, decisions: Any = None, scores: Any = None, row: Any = None, rival: Any = None
) -> Quantity:
    """Return a quantity by name, once what it needs is checked; then it can be bounded for many boxes."""
    check_choice(name, "quantity", tuple(NEEDS))
    given = {"decisions": decisions, "scores": scores, "row": row, "rival": rival}
    for option, value in given.items():
        if value is None and option in NEEDS[name]:
            raise ValueError(f"quantity={name!r} needs {option}=; it is not given.")
        if value is not None and option not in NEEDS[name]:
            takes = listed(NEEDS[name]) or "nothing more"
            raise ValueError(f"{option} is not used by quantity={name!r}, which takes {takes}.")
    if name in _OF_DECISIONS:
        return _of_decisions(name, rows, decisions)
    if name == "roc_auc":
        order = rows.order(scores)
        return Quantity(
            "ROC-AUC",
            lambda box: sharp_bounds.roc_auc_bounds(order, box, rows.weight),
            undefined="it compares positives with negatives, and all rows are certain to be of one class",
        )
    if NEEDS[name]:
        return _of_rows(name, rows, row, rival)
    if name == "class_prior":
        label = "class prior" if rows.s is None else "share of positives"
        return Quantity(label, lambda box: sharp_bounds.mean_bounds(box, rows.weight))
    return Quantity("label frequency", lambda box: sharp_bounds.label_frequency_bounds(box, rows.weight, rows.labelled))


def _of_decisions(name: str, rows: Rows, decisions: Any) -> Quantity:
    d = rows.decisions(decisions)
    if name == "precision" and not (rows.weight * d).any():
        raise ValueError(
            "decisions call no row positive that counts, and precision is a share of such rows. Lower the threshold "
            "that made the decisions."
        )
    label, bounds = _OF_DECISIONS[name]
    return Quantity(label, lambda box: bounds(box, d, rows.weight))


def _of_rows(name: str, rows: Rows, row: Any, rival: Any) -> Quantity:
    i = rows.position(row)
    called = rows.called(i)
    if name == "probability":
        return Quantity(f"probability of {called}", lambda box: Interval(float(box.low[i]), float(box.high[i])))
    if name == "rank":
        return Quantity(f"rank of {called}", lambda box: _rank(box, i))
    j = rows.position(rival)
    if i == j:
        raise ValueError(f"row and rival are the same row, {row!r}; name two.")
    return Quantity(
        f"lead of {called} over {rows.called(j)}",
        lambda box: Interval(float(box.low[i] - box.high[j]), float(box.high[i] - box.low[j])),
    )


def _rank(box: Box, i: int) -> Interval:
    """Return the best and worst rank of one row among all."""
    best = 1 + np.count_nonzero(box.low > box.high[i])
    worst = 1 + np.count_nonzero(box.high > box.low[i]) - int(box.high[i] > box.low[i])  # not above itself
    return Interval(float(best), float(worst))
