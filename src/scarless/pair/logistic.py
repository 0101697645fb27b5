"""Fits of one logistic model to the rows of an engine, and helpers for rows in memory.

Parameter vectors contain the coefficients, then the intercept. `C` is the inverse regularisation strength, as in
scikit-learn's ``LogisticRegression``. The intercept is not penalised.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logit

from scarless.checks.labels import LabelCoding
from scarless.checks.rows import LabelledRows, row_totals
from scarless.engines import Engine, Rows, attach, open_rows
from scarless.engines.blocks import Reading, how_to_read
from scarless.numerics.arrays import Vector, namespace_of
from scarless.numerics.likelihood import sigmoid
from scarless.numerics.linear import Design, logits
from scarless.numerics.newton import Solution
from scarless.numerics.objectives import KnownPropensity, TargetLogistic
from scarless.pair.solving import PenalisedProblem

_START_TOL = 1e-4  # tolerance per row of fits that make a start: these need not be exact
_MAX_PENALTY = 1e100  # larger penalties are reduced to this: they could overflow, and all coefficients are 0 anyway


def fit_targets(
    engine: Engine, design: Design, *, C: float, tol: float, max_iter: int, start: Vector | None = None
) -> Solution:
    """Fit a logistic model to real-valued targets. The rows must have the target ``t`` and the weight ``w``."""
    weight, target = engine.total(_block_targets)
    problem = PenalisedProblem(engine, TargetLogistic(design), ridge_of(design, C))
    beta = constant_model(design, float(np.clip(target / weight, 1e-3, 1.0 - 1e-3))) if start is None else start
    return problem.solve(beta, total_weight=float(weight), tol=tol, max_iter=max_iter, may_diverge=math.isinf(C))


def fit_known_propensity(
    engine: Engine, design: Design, *, C: float, tol: float, max_iter: int, start: Vector | None = None
) -> Solution:
    """Fit a logistic class model with known propensities. The rows must have ``s``, ``w`` and the propensity ``e``."""
    known, totals = engine.derive(_propensity_logits, keep=True), row_totals(engine)
    problem = PenalisedProblem(known, KnownPropensity(design), ridge_of(design, C))
    beta = balanced_start(engine, design, totals.labelled_share, C=C) if start is None else start
    return problem.solve(beta, total_weight=totals.weight, tol=tol, max_iter=max_iter, may_diverge=math.isinf(C))


def balanced_start(engine: Engine, design: Design, labelled_share: float, *, C: float) -> Vector:
    """Return the first classifier of the paper, which separates labelled from unlabelled rows.

    Labelled rows and unlabelled rows have the same total weight.
    """
    balanced = engine.derive(_balanced, labelled_share)
    return fit_targets(balanced, design, C=C, tol=_START_TOL, max_iter=50).parameters


def propensity_start(engine: Engine, design: Design, *, C: float) -> Vector:
    """Return the first propensity model of the paper: a fit to ``s`` with unlabelled rows weighted by their ``f``."""
    return fit_targets(engine.derive(_weighted_by_class), design, C=C, tol=_START_TOL, max_iter=50).parameters


def predict(engine: Engine, design: Design, beta: Vector) -> Vector:
    """Return a model's probability for every row of an engine."""
    return np.asarray(engine.collect(_block_probability, design, beta))


def with_probability(engine: Engine, design: Design, beta: Vector, name: str) -> Engine:
    """Return the engine with a model's probabilities as a row value."""
    return engine.derive(_named_probability, design, beta, name, keep=True)


def with_logits(engine: Engine, design: Design, beta: Vector, name: str) -> Engine:
    """Return the engine with a model's logits as a row value."""
    return engine.derive(_named_logits, design, beta, name, keep=True)


def as_targets(X: Any, rows: Rows) -> dict[str, Any]:
    """Return the labels as targets of a logistic model."""
    return {"t": rows["s"]}


def constant_model(design: Design, mean: float) -> Vector:
    """Return the model that predicts the same probability for all rows."""
    return np.append(np.zeros(design.n_columns), logit(mean))


def ridge_of(design: Design, C: float) -> Vector:
    """Return the ridge penalty of each parameter; 0 for the intercept."""
    strength = 1.0 / max(float(C), 1.0 / _MAX_PENALTY)
    return np.append(np.full(design.n_columns, strength), 0.0)


def block_logits(X: Any, rows: Rows, design: Design, beta: Vector) -> Vector:
    """Return a model's logits for a block of rows."""
    return logits(design.take(X), beta)


def _block_probability(X: Any, rows: Rows, design: Design, beta: Vector) -> Vector:
    return sigmoid(logits(design.take(X), beta))


def _named_probability(X: Any, rows: Rows, design: Design, beta: Vector, name: str) -> dict[str, Any]:
    return {name: _block_probability(X, rows, design, beta)}


def _named_logits(X: Any, rows: Rows, design: Design, beta: Vector, name: str) -> dict[str, Any]:
    return {name: logits(design.take(X), beta)}


def _block_targets(X: Any, rows: Rows) -> tuple[Any, Any]:
    w = rows["w"]
    return namespace_of(w).sum(w), w @ rows["t"]


def _balanced(X: Any, rows: Rows, share: float) -> dict[str, Any]:
    s = rows["s"]
    return {"t": s, "w": rows["w"] * (share + (1.0 - 2.0 * share) * s)}


def _weighted_by_class(X: Any, rows: Rows) -> dict[str, Any]:
    s = rows["s"]
    return {"t": s, "w": rows["w"] * namespace_of(s).where(s == 1, 1.0, rows["f"])}


def _propensity_logits(X: Any, rows: Rows) -> dict[str, Any]:
    with np.errstate(divide="ignore"):
        return {"v": logit(rows["e"])}


class Training(NamedTuple):
    """Checked input of a fit whose rows are in memory: table, labels and weights."""

    X: Any
    s: Vector
    weight: Vector

    @property
    def is_numeric(self) -> bool:
        """Whether the table contains only finite numbers."""
        values = self.X.data if sparse.issparse(self.X) else self.X
        return isinstance(values, np.ndarray) and values.dtype.kind in "fiub" and bool(np.isfinite(values).all())


def all_columns(engine: Engine) -> Design:
    """Return the design of all columns."""
    return Design(slice(None), engine.n_columns)


def engine_of(X: Any, reading: Reading | None = None, /, **rows: Vector) -> Engine:
    """Return an engine for a checked table in memory, with the given row values attached.

    `reading` is the precision and the units of its columns, if they have been measured before.
    """
    engine = open_rows(X)
    return attach(engine.read_as(how_to_read(engine) if reading is None else reading), **rows)


def labelled_rows(training: Training, coding: LabelCoding) -> LabelledRows:
    """Convert checked rows in memory to labelled rows of an engine."""
    engine = engine_of(training.X, s=training.s, w=training.weight)
    return LabelledRows(engine, coding, row_totals(engine))


def in_memory(engine: Engine, name: str) -> Vector:
    """Return a row value as a vector in memory."""
    return np.asarray(engine.collect(_named, name))


def _named(X: Any, rows: Rows, name: str) -> Any:
    return rows[name]


def all_labelled(label_frequency: float) -> bool:
    """Whether a label frequency is above 0.9999, so that it counts as 1."""
    return label_frequency > 1.0 - 1e-4
