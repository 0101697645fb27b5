"""One logistic model on an engine: the fits that every estimator here begins with.

Pure functions of an engine and vectors; parameters are coefficients, then the intercept. `C` is the inverse
penalty of scikit-learn's ``LogisticRegression``; the intercept is free.
"""

import math
from typing import Any

import numpy as np
from scipy.special import expit, logit

from scarless.engines import Engine
from scarless.engines.problem import PenalisedProblem
from scarless.numerics.arrays import Vector
from scarless.numerics.linear import Design, logits
from scarless.numerics.newton import Solution
from scarless.numerics.objectives import KnownPropensity, TargetLogistic

# A start need not be exact: it is left at once.
_ROUGH = 1e-4
_STRONGEST = 1e100  # penalty: a stronger one leaves the range of numbers, and no coefficient is left anyway


def fit_targets(
    engine: Engine,
    design: Design,
    t: Vector,
    w: Vector,
    *,
    C: float,
    tol: float,
    max_iter: int,
    start: Vector | None = None,
) -> Solution:
    """Fit a logistic model to real-valued targets."""
    problem = PenalisedProblem(engine.with_rows(t=t, w=w), TargetLogistic(design), ridge_of(design, C))
    beta = _constant_start(design, t, w) if start is None else start
    return problem.solve(beta, total_weight=float(w.sum()), tol=tol, max_iter=max_iter, may_diverge=math.isinf(C))


def fit_known_propensity(
    engine: Engine,
    design: Design,
    s: Vector,
    e: Vector,
    w: Vector,
    *,
    C: float,
    tol: float,
    max_iter: int,
) -> Solution:
    """Fit a logistic ``f`` by maximum likelihood, propensities given."""
    with np.errstate(divide="ignore"):
        v = logit(e)
    problem = PenalisedProblem(engine.with_rows(s=s, v=v, w=w), KnownPropensity(design), ridge_of(design, C))
    beta = balanced_start(engine, design, s, w, C=C)
    return problem.solve(beta, total_weight=float(w.sum()), tol=tol, max_iter=max_iter, may_diverge=math.isinf(C))


def balanced_start(engine: Engine, design: Design, s: Vector, w: Vector, *, C: float) -> Vector:
    """Return the paper's first classifier: unlabelled as negative, both kinds of rows with equal weight."""
    share = float(w @ s) / float(w.sum())
    balanced = w * np.where(s == 1, 1.0 - share, share)
    return fit_targets(engine, design, s, balanced, C=C, tol=_ROUGH, max_iter=50).parameters


def propensity_start(engine: Engine, design: Design, s: Vector, w: Vector, f: Vector, *, C: float) -> Vector:
    """Return the paper's first propensity model: ``s`` with unlabelled rows weighted by their ``f``."""
    weight = w * np.where(s == 1, 1.0, f)
    return fit_targets(engine, design, s, weight, C=C, tol=_ROUGH, max_iter=50).parameters


def predict(engine: Engine, design: Design, beta: Vector) -> Vector:
    """Return the probability of every row of an engine."""
    return engine.collect(_block_probability, design, beta)


def _block_probability(X: Any, rows: Any, design: Design, beta: Vector) -> Vector:
    return np.asarray(expit(logits(design.take(X), beta)))


def _constant_start(design: Design, t: Vector, w: Vector) -> Vector:
    """Return the best model without attributes, kept off the boundary."""
    share = float(w @ t) / float(w.sum())
    return np.append(np.zeros(design.n_columns), logit(np.clip(share, 1e-3, 1.0 - 1e-3)))


def ridge_of(design: Design, C: float) -> Vector:
    """Return the penalty of each parameter; the intercept has none."""
    strength = 1.0 / max(float(C), 1.0 / _STRONGEST)
    return np.append(np.full(design.n_columns, strength), 0.0)
