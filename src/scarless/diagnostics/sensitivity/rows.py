"""Rows of a sensitivity analysis, and the quantities that can be bounded for them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import opened
from scarless.checks.labels import LabelCoding
from scarless.checks.looks import refuse_looks
from scarless.checks.options import check_choice, check_indicator, check_propensity, check_vector, shown
from scarless.checks.rows import check_row_order
from scarless.checks.tables import plain_array, refuse_invalid_vector, refuse_lazy_query
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import PropensityWeightedClassifier
from scarless.models.pair import refuse_wrapped
from scarless.numerics import sharp_bounds
from scarless.numerics.arrays import Array, ArrayLike, Vector
from scarless.numerics.likelihood import posterior
from scarless.numerics.sharp_bounds import Box
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import listed

MAX_ROUNDING_ERROR = 1e-12  # relative error by which `P`, the product of `f` and `e`, may exceed `e`


@dataclass(frozen=True)
class SensitivityRows:
    """Fitted values, labels, weights and names of the rows."""

    P: Vector  # Pr(s=1|x), which the labels identify
    e: Vector  # propensity that may be wrong
    s: Vector | None  # labels, if the bounds are for these rows
    weight: Vector
    index: Array | range | None = None  # names of the rows; a range if they are numbered
    coding: LabelCoding | None = None  # label coding of the estimator

    @property
    def names(self) -> Array | None:
        """Names of the rows; None if they are numbered."""
        return None if isinstance(self.index, range) else self.index

    @cached_property
    def f(self) -> Vector:
        """Class probability under the fitted propensity."""
        return self.P / self.e

    @cached_property
    def q(self) -> Vector | None:
        """Posterior under the fitted propensity; None without labels."""
        return None if self.s is None else posterior(self.f, self.e, self.s)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.P.size

    @property
    def labelled(self) -> float:
        """Weight of the labelled rows; without labels, its expected value."""
        return float(self.weight @ (self.P if self.s is None else self.s))

    def probability_within_odds(self, gamma: float) -> Box:
        """Return the bounds on the probability of being positive for a factor `gamma`."""
        if self.q is None:
            return sharp_bounds.class_probability_within_odds(self.f, self.e, gamma)
        return sharp_bounds.posterior_within_odds(self.q, (self.s == 0) & (self.e < 1), gamma)

    def probability(self, f: Box) -> Box:
        """Return bounds on the posterior if there are labels, otherwise on the class probability."""
        return f if self.s is None else sharp_bounds.posterior_box(self.P, self.s, f)

    def decisions(self, decisions: ArrayLike) -> Vector:
        """Return predicted classes as 0 and 1; the input may be coded like the classes of the estimator."""
        refuse_invalid_vector(decisions, "decisions")
        values = plain_array(check_row_order(decisions, "decisions", self.index), "decisions").reshape(-1)
        if self.coding is not None and values.dtype.kind != "b" and np.isin(values, self.coding.classes).all():
            values = self.coding.encode(values)
        return check_indicator(values, "decisions", n_rows=self.n)

    def order(self, scores: ArrayLike) -> NDArray[np.intp]:
        """Return the rank of each score among the distinct scores; the lowest score has rank 0."""
        values = check_vector(check_row_order(scores, "scores", self.index), "scores", n_rows=self.n)
        if np.isnan(values).any():
            raise ValueError(
                f"scores must not contain NaN; {np.isnan(values).sum()} of {self.n} values are NaN. Pass a score for "
                "each row."
            )
        return np.unique(values, return_inverse=True)[1].reshape(-1)

    def position(self, row: Any) -> int:
        """Return the position of the row with this name. If rows have no names, check that `row` is a position."""
        if self.names is None:
            if not isinstance(row, int | np.integer) or isinstance(row, bool) or not 0 <= row < self.n:
                raise ValueError(
                    f"a row must be a position from 0 to {self.n - 1}, because the rows have no names; got {row!r}. To "
                    "use names, pass row_names=, or a pandas data frame with the names in its index."
                )
            return int(row)
        try:
            found = self._places.get(row, [])
        except TypeError:  # an object that is not hashable is not a name
            found = []
        if len(found) != 1:
            if found:
                raise ValueError(f"{row!r} is the name of {len(found)} rows. Give each row a different name.")
            first = listed([repr(name) for name in self.names[:3].tolist()])
            raise ValueError(
                f"{row!r} is not the name of a row. Use a name from the index of the data frame or from row_names. The "
                f"first names are {first}."
            )
        return found[0]

    def name(self, position: int) -> Any:
        """Return the name of a row; its position without names."""
        return position if self.names is None else self.names[position]

    def label(self, position: int) -> str:
        """Return the name of a row for use in a sentence."""
        return row_label(self.name(position))

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
    predicts = hasattr(model, "predict_propensity")
    if not predicts and not isinstance(model, PropensityWeightedClassifier):
        raise TypeError(
            f"{name} has no predict_propensity, so it does not separate the class from the labelling. For a model of "
            "the labels, Pr(s=1|x), such as NaiveClassifier, use Sensitivity(label_probability, propensity)."
        )
    if predicts and propensity is not None:
        raise ValueError(
            f"propensity was passed, but {name} predicts its own propensities. Leave propensity out. To use other "
            "propensities, call Sensitivity(label_probability=f * e, propensity=propensity), where f and e are the "
            "class probabilities and propensities of the model."
        )
    if not predicts and propensity is None:
        raise ValueError(f"{name} does not predict propensities. Pass propensity=, one value for each row of X.")
    check_is_fitted(model)
    refuse_looks(
        model,
        "Sensitivity",
        instead="For one look, use Sensitivity(label_probability, propensity) with predict_propensity of that look.",
    )
    coding = coding_of(model)
    f = class_probability(model, X, coding)
    e = check_propensity(model.predict_propensity(X) if propensity is None else propensity, n_rows=f.size)
    return f, e, coding


def check_explained(P: Vector, e: Vector, name: str) -> Vector:
    """Check that the propensity is at least `P`, up to rounding errors. Return `P`, at most equal to the propensity."""
    bad = np.flatnonzero(e * (1.0 + MAX_ROUNDING_ERROR) < P)
    if bad.size:
        raise ValueError(
            f"{name} must be at least Pr(s=1|x), because the class probability, Pr(s=1|x) / {name}, is at most 1; "
            f"{bad.size} of {P.size} rows violate this (first: row {bad[0]}, {name} {e[bad[0]]:g} < label_probability "
            f"{P[bad[0]]:g}). Correct label_probability, or pass np.maximum({name}, label_probability) as {name}."
        )
    return np.minimum(P, e)


@dataclass(frozen=True)
class Quantity:
    """A number that depends on the probabilities of all rows, with its sharp bounds over a box of probabilities."""

    label: str
    values: Callable[[Box], Interval]  # NaN if the quantity is undefined everywhere in the box
    undefined: str = "it is a share of the positives, and no row can be positive"

    def bounds(self, box: Box) -> Interval:
        """Return the bounds; raise an error if the quantity is undefined."""
        found = self.values(box)
        if np.isnan(found.low):
            raise ValueError(f"{self.label} is undefined for these rows: {self.undefined}.")
        return found


REQUIRED_OPTIONS: dict[str, tuple[str, ...]] = {
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
_DECISION_METRICS = {
    "precision": ("precision", sharp_bounds.precision_bounds),
    "recall": ("recall", sharp_bounds.recall_bounds),
    "f1": ("F1", sharp_bounds.f1_bounds),
    "accuracy": ("accuracy", sharp_bounds.accuracy_bounds),
}


def make_quantity(
    name: str, rows: SensitivityRows, *, decisions: Any = None, scores: Any = None, row: Any = None, rival: Any = None
) -> Quantity:
    """Check the options, and return the quantity with this name. Its bounds can be computed for many boxes."""
    check_choice(name, "quantity", tuple(REQUIRED_OPTIONS))
    required = REQUIRED_OPTIONS[name]
    given = {"decisions": decisions, "scores": scores, "row": row, "rival": rival}
    for option, value in given.items():
        if value is None and option in required:
            raise ValueError(f"quantity={name!r} needs {option}=, which was not passed. Pass {option}=.")
        if value is not None and option not in required:
            accepted = listed(required) or "no options"
            raise ValueError(
                f"{option} is not used by quantity={name!r}, which accepts {accepted}. Leave {option} out."
            )
    if name in _DECISION_METRICS:
        return _decision_metric(name, rows, decisions)
    if name == "roc_auc":
        order = rows.order(scores)
        return Quantity(
            "ROC-AUC",
            lambda box: sharp_bounds.roc_auc_bounds(order, box, rows.weight),
            undefined="it compares positives with negatives, and all rows are certain to be of one class",
        )
    if required:
        return _row_quantity(name, rows, row, rival)
    if name == "class_prior":
        label = "class prior" if rows.s is None else "share of positives"
        return Quantity(label, lambda box: sharp_bounds.mean_bounds(box, rows.weight))
    return Quantity("label frequency", lambda box: sharp_bounds.label_frequency_bounds(box, rows.weight, rows.labelled))


def _decision_metric(name: str, rows: SensitivityRows, decisions: Any) -> Quantity:
    d = rows.decisions(decisions)
    if name == "precision" and not (rows.weight * d).any():
        raise ValueError(
            "decisions: no row with a positive weight is predicted positive, so precision is undefined. Lower the "
            "threshold of the decisions."
        )
    label, bounds = _DECISION_METRICS[name]
    found = Quantity(label, lambda box: bounds(box, d, rows.weight))
    return (
        replace(found, undefined="no row is predicted positive, and no row can be positive") if name == "f1" else found
    )


def _row_quantity(name: str, rows: SensitivityRows, row: Any, rival: Any) -> Quantity:
    i = rows.position(row)
    label = rows.label(i)
    if name == "probability":
        return Quantity(f"probability of {label}", lambda box: Interval(float(box.low[i]), float(box.high[i])))
    if name == "rank":
        return Quantity(f"rank of {label}", lambda box: _rank(box, i))
    j = rows.position(rival)
    if i == j:
        raise ValueError(f"row and rival must be two different rows; both are {row!r}. Pass another rival.")
    return Quantity(
        f"difference between {label} and {rows.label(j)}",
        lambda box: Interval(float(box.low[i] - box.high[j]), float(box.high[i] - box.low[j])),
    )


def _rank(box: Box, i: int) -> Interval:
    """Return the best and worst rank of one row."""
    best = 1 + np.count_nonzero(box.low > box.high[i])
    worst = 1 + np.count_nonzero(box.high > box.low[i]) - int(box.high[i] > box.low[i])  # do not count the row itself
    return Interval(float(best), float(worst))


def check_names(row_names: Any, n_rows: int) -> Array | range | None:
    """Check that there is one name for each row, and return the names; a range if rows are numbered."""
    refuse_lazy_query(row_names, "row_names")
    if row_names is None or (isinstance(row_names, range) and row_names == range(n_rows)):
        return row_names
    if isinstance(row_names, str) or sparse.issparse(row_names) or not np.iterable(row_names):
        raise TypeError(f"row_names must be a sequence with a name for each row; got {shown(row_names)}.")
    given = list(row_names)
    odd = next((name for name in given if not isinstance(name, Hashable)), None)
    if odd is not None:
        raise TypeError(f"row_names must contain text or numbers; found {shown(odd)} of type {type(odd).__name__}.")
    names = np.empty(len(given), dtype=object)
    names[:] = given  # assigned this way, a tuple of a multi-index stays one object
    if names.size != n_rows:
        raise ValueError(f"row_names has {names.size} names for {n_rows} rows; pass one name for each row.")
    return names


def row_label(name: Any) -> str:
    """Return a name for a row that can be used in a sentence."""
    return name if isinstance(name, str) else f"row {name}"
