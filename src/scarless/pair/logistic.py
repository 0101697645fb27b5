"""Logistic models on an engine: the fits that every estimator here is made of.

Pure functions of an engine and vectors; parameters are coefficients, then the intercept. `C` is the inverse
penalty of scikit-learn's ``LogisticRegression``; the intercept is free.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from scarless.engines import Engine
from scarless.engines.problem import PenalisedProblem, Pull
from scarless.numerics import likelihood
from scarless.numerics.linear import Design, Matrix, logits, transposed_product
from scarless.numerics.newton import Solution, Status, Trace
from scarless.numerics.objectives import KnownPropensity, LogisticPair, TargetLogistic

Vector = NDArray[np.float64]
Columns = NDArray[np.intp]

# A start need not be exact: it is left at once.
_ROUGH = 1e-4
_STRONGEST = 1e100  # penalty: a stronger one leaves the range of numbers, and no coefficient is left anyway


class PairFit(NamedTuple):
    """Both models' parameters and how they were found."""

    f: Vector
    e: Vector
    solution: Solution
    log_likelihoods: list[float]  # observed, without penalty, at the start of each iteration
    information: Matrix | None  # observed, of the rows, at the solution; None where the solver did not need it

    @property
    def converged(self) -> bool:
        """Whether the solver met its stopping rule."""
        return self.solution.status is Status.CONVERGED


class PairSummary(NamedTuple):
    """What a fitted pair says of all rows together; each a weighted sum over rows."""

    log_likelihood: float
    positives: float
    labelled_positives: float
    propensities: float  # over all rows, positive or not


class Audits(NamedTuple):
    """Imaginary positives at the mean of the propensity attributes, half of them labelled.

    Where labels hardly tell a label frequency of 1, or of next to nothing, from one between, the likelihood often has
    its top there; a few audits that nobody made settle it, as Laplace's rule of succession does for a share.
    """

    weight: float
    point: Vector  # mean of the propensity attributes, then 1

    def pull(self, before: int, after: int = 0) -> Pull:
        """Return the pull on a parameter vector that has others before and after the propensity's."""
        return Pull(self.weight, np.concatenate([np.zeros(before), self.point, np.zeros(after)]))


def imagine_audits(engine: Engine, e: Design, w: Vector, weight: float, *, exchangeable: bool = False) -> Audits | None:
    """Return that many imaginary audits for the rows of an engine; None for none.

    Models that can be exchanged get none: where all positives are labelled, audits would have them change places.
    """
    if weight == 0 or exchangeable:
        return None
    (sums,) = engine.with_rows(w=w).total(_block_sums, e)
    return Audits(weight, sums / sums[-1])


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


def fit_pair(
    engine: Engine,
    f: Design,
    e: Design,
    s: Vector,
    w: Vector,
    *,
    C: float,
    propensity_C: float,
    tol: float,
    max_iter: int,
    start: Vector | None = None,
    damp_indefinite: bool = False,
    audits: Audits | None = None,
    progress: Callable[[Trace], None] | None = None,
) -> PairFit:
    """Fit classifier and propensity model together, by default from the paper's start, by Fisher scoring and Newton."""
    if start is None:
        start = paper_start(engine, f, e, s, w, C=C, propensity_C=propensity_C)
    pair = LogisticPair(f, e)
    ridge = np.concatenate([ridge_of(f, C), ridge_of(e, propensity_C)])
    pulls = () if audits is None else (audits.pull(f.n_parameters),)
    problem = PenalisedProblem(engine.with_rows(s=s, w=w), pair, ridge, pulls)
    free = math.isinf(C) or math.isinf(propensity_C)
    climb = partial(
        problem.solve,
        total_weight=float(w.sum()),
        tol=tol,
        may_diverge=free,
        damp_indefinite=damp_indefinite,
        progress=progress,
    )
    solution = climb(start, max_iter=max_iter)
    # Without a penalty what bends down may lead to infinity: followed only where equal models make a true saddle.
    follow = not free or _see_the_same(f, e)
    while follow and solution.n_iter < max_iter and (beside := problem.beside_saddle(solution)) is not None:
        solution = solution.followed_by(climb(beside, max_iter=max_iter - solution.n_iter))
    log_likelihoods = [problem.penalty(at.parameters) - at.value for at in solution.history]
    information = None if solution.curvature is None else solution.curvature - problem.bend(solution.parameters)
    return PairFit(*pair.split(solution.parameters), solution, log_likelihoods, information)


def summarise_pair(
    engine: Engine, f: Design, e: Design, s: Vector, w: Vector, beta_f: Vector, beta_e: Vector
) -> PairSummary:
    """Return observed log-likelihood, expected positives and labelled positives, and propensities, in one pass."""
    sums = engine.with_rows(s=s, w=w).total(_block_summary, f, e, beta_f, beta_e)
    return PairSummary(*(float(total) for total in sums))


def paper_start(engine: Engine, f: Design, e: Design, s: Vector, w: Vector, *, C: float, propensity_C: float) -> Vector:
    """Return the paper's first pair: a balanced classifier, then the propensity that its probabilities imply."""
    start_f = balanced_start(engine, f, s, w, C=C)
    probability = predict(engine, f, start_f)
    return np.concatenate([start_f, propensity_start(engine, e, s, w, probability, C=propensity_C)])


def balanced_start(engine: Engine, design: Design, s: Vector, w: Vector, *, C: float) -> Vector:
    """Return the paper's first classifier: unlabelled as negative, both kinds of rows with equal weight."""
    share = float(w @ s) / float(w.sum())
    balanced = w * np.where(s == 1, 1.0 - share, share)
    return fit_targets(engine, design, s, balanced, C=C, tol=_ROUGH, max_iter=50).parameters


def propensity_start(engine: Engine, design: Design, s: Vector, w: Vector, f: Vector, *, C: float) -> Vector:
    """Return the paper's first propensity model: ``s`` with unlabelled rows weighted by their ``f``."""
    weight = w * np.where(s == 1, 1.0, f)
    return fit_targets(engine, design, s, weight, C=C, tol=_ROUGH, max_iter=50).parameters


def exchange(beta_f: Vector, beta_e: Vector, f_columns: Columns, e_columns: Columns) -> Vector:
    """Return the parameters of two models that see the same columns with each model in the other's place."""
    f, e = np.argsort(f_columns), np.argsort(e_columns)
    coef_f, coef_e = np.empty(f.size), np.empty(e.size)
    coef_f[f], coef_e[e] = beta_e[:-1][e], beta_f[:-1][f]
    return np.concatenate([coef_f, beta_e[-1:], coef_e, beta_f[-1:]])


def predict(engine: Engine, design: Design, beta: Vector) -> Vector:
    """Return the probability of every row of an engine."""
    return engine.collect(_block_probability, design, beta)


def _block_summary(
    X: Any, rows: Any, f: Design, e: Design, beta_f: Vector, beta_e: Vector
) -> tuple[NDArray[np.float64], ...]:
    u, v = logits(f.take(X), beta_f), logits(e.take(X), beta_e)
    terms = likelihood.pair_terms(u, v)
    value = likelihood.log_likelihood(u, v, rows["s"], terms)
    return tuple(np.asarray(rows["w"] @ field) for field in (value, terms.f, terms.f * terms.e, terms.e))


def _block_sums(X: Any, rows: Any, design: Design) -> tuple[Vector]:
    return (transposed_product(design.take(X), rows["w"]),)


def _block_probability(X: Any, rows: Any, design: Design, beta: Vector) -> Vector:
    return np.asarray(expit(logits(design.take(X), beta)))


def _see_the_same(f: Design, e: Design) -> bool:
    return np.array_equal(np.sort(np.r_[f.columns]), np.sort(np.r_[e.columns]))


def ridge_of(design: Design, C: float) -> Vector:
    """Return the penalty of each parameter; the intercept has none."""
    strength = 1.0 / max(float(C), 1.0 / _STRONGEST)
    return np.append(np.full(design.n_columns, strength), 0.0)


def _constant_start(design: Design, t: Vector, w: Vector) -> Vector:
    """Return the best model without attributes, kept off the boundary."""
    share = float(w @ t) / float(w.sum())
    return np.append(np.zeros(design.n_columns), logit(np.clip(share, 1e-3, 1.0 - 1e-3)))
