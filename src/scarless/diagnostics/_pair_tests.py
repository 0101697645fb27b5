"""A constant propensity against one that depends on attributes, inside the likelihood of two logistic models."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from scarless.engines import InMemoryEngine
from scarless.engines.problem import PenalisedProblem
from scarless.models._base import engine_of
from scarless.models._logistic import fit_pair
from scarless.numerics.linear import Design, logits
from scarless.numerics.newton import Solution
from scarless.numerics.objectives import Curvature, LogisticPair

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Inverse penalty on columns of unit variance: it moves no estimate that the data determine, and keeps a model of
# separable rows finite.
FREE = 1e4
TOL, MAX_ITER = 1e-10, 500
UNKNOWN = 10.0  # standard error, in log odds per standard deviation, from which on an effect counts as unknown


class NullFit(NamedTuple):
    """A logistic `f` and the logit of a constant `e`."""

    beta_f: Vector
    v: float
    value: float  # minus the log-likelihood, with the slight penalty


class Comparison(NamedTuple):
    """Both fits; `alternative` holds the parameters of `f`, the slopes of `e` and its intercept."""

    null: NullFit
    alternative: Vector
    statistic: float  # of the likelihood ratio
    covariance: Matrix  # of `alternative`; NaN where unknown
    label_frequency: float  # Pr(s=1 | y=1) by the alternative


def fit_null(D: Matrix, s: Vector) -> NullFit:
    """Fit a logistic `f` on the columns of `D` with a constant propensity."""
    engine, w = engine_of(D), np.ones(s.size)
    designs = Design.of(np.arange(D.shape[1])), Design.of(np.arange(0))
    fit = fit_pair(engine, *designs, s, w, C=FREE, propensity_C=FREE, tol=TOL, max_iter=MAX_ITER)
    return NullFit(fit.f, float(fit.e[-1]), float(fit.solution.value))


def compare(D: Matrix, Z: Matrix, s: Vector) -> Comparison:
    """Fit `f` on `D` with a constant `e`, then with a logistic `e` on `Z`; columns of unit variance.

    Either likelihood may have several basins. The alternative is climbed from the null fit too, and the null model
    from the alternative's `f`, so that neither is ahead for having started better.
    """
    engine, w = engine_of(np.column_stack([D, Z])), np.ones(s.size)
    f = Design.of(np.arange(D.shape[1]))
    e = Design.of(np.arange(D.shape[1], D.shape[1] + Z.shape[1]))
    constant, pair = LogisticPair(f, Design.of(np.arange(0))), LogisticPair(f, e)
    null = fit_null(D, s)
    full = fit_pair(engine, f, e, s, w, C=FREE, propensity_C=FREE, tol=TOL, max_iter=MAX_ITER).solution
    full = min(full, _climb(engine, pair, s, _with_slopes(null, Z.shape[1])), key=_height)
    beta_f, beta_e = pair.split(full.parameters)
    share = _label_frequency(logits(D, beta_f), logits(Z, beta_e))
    again = _climb(engine, constant, s, np.append(beta_f, logit(share)))
    if again.value < null.value:
        null = NullFit(again.parameters[:-1], float(again.parameters[-1]), again.value)
        full = min(full, _climb(engine, pair, s, _with_slopes(null, Z.shape[1])), key=_height)
    covariance = _covariance(_problem(engine, pair, s), full.parameters)
    if D.shape[1] == 0:  # only the product of `f` and `e` is known then, and log odds of `e` have no level
        covariance[:] = np.nan
    return Comparison(null, full.parameters, max(2.0 * (null.value - full.value), 0.0), covariance, share)


def wald_statistic(estimate: Vector, covariance: Matrix) -> float:
    """Return ``b' V^-1 b``; NaN where the covariance is."""
    if np.isnan(covariance).any():
        return float("nan")
    return float(estimate @ np.linalg.lstsq(covariance, estimate, rcond=None)[0])


def _problem(engine: InMemoryEngine, pair: LogisticPair, s: Vector) -> PenalisedProblem:
    ridge = np.full(pair.n_parameters, 1.0 / FREE)
    ridge[[pair.f.n_columns, -1]] = 0.0  # intercepts
    return PenalisedProblem(engine.with_rows(s=s, w=np.ones(s.size)), pair, ridge)


def _climb(engine: InMemoryEngine, pair: LogisticPair, s: Vector, start: Vector) -> Solution:
    return _problem(engine, pair, s).solve(start, total_weight=float(s.size), tol=TOL, max_iter=MAX_ITER)


def _height(solution: Solution) -> float:
    return solution.value


def _with_slopes(null: NullFit, n_slopes: int) -> Vector:
    return np.concatenate([null.beta_f, np.zeros(n_slopes), [null.v]])


def _label_frequency(u: Vector, v: Vector) -> float:
    f = expit(u)
    return float(np.clip(f @ expit(v) / f.sum(), 1e-6, 1.0 - 1e-6))


def _covariance(problem: PenalisedProblem, beta: Vector) -> Matrix:
    """Return the inverse of the observed information; NaN for parameters that the likelihood leaves open.

    The sandwich formula would allow for a wrong model, but with a hundred labelled rows its tests reject too often.
    """
    information = problem.evaluate(beta, Curvature.OBSERVED).curvature
    information[np.diag_indices(beta.size)] += 1.0 / FREE  # the intercepts too: they may run off to infinity
    if np.linalg.eigvalsh(information)[0] <= 0:
        return np.full(information.shape, np.nan)
    covariance = np.linalg.inv(information)
    unknown = np.diagonal(covariance) > UNKNOWN**2
    covariance[unknown] = covariance[:, unknown] = np.nan
    return np.asarray(covariance)
