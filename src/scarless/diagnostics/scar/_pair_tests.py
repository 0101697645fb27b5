"""A constant propensity against one that depends on attributes, inside the likelihood of two logistic models."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from scarless.engines import Engine
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import Design, logits
from scarless.numerics.newton import Solution
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem

# Inverse penalty on columns of unit variance: it moves no estimate that the data determine, and keeps a model of
# separable rows finite.
FREE = 1e4
TOL, MAX_ITER = 1e-10, 500
SIGNIFICANT = 0.05  # p-values below this count as findings
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


def fit_null(D: Matrix, s: Vector, w: Vector) -> NullFit:
    """Fit a logistic `f` on the columns of `D` with a constant propensity."""
    return _null(_climb(engine_of(D, s=s, w=w), _pair(D.shape[1], 0)))


def compare(D: Matrix, Z: Matrix, s: Vector, w: Vector) -> Comparison:
    """Fit `f` on `D` with a constant `e`, then with a logistic `e` on `Z`; columns of unit variance.

    Either likelihood may have several optima. The alternative is climbed from the null fit too, and the null model
    from the alternative's `f`, so that neither is ahead for having started better.
    """
    engine = engine_of(np.column_stack([D, Z]), s=s, w=w)
    constant, varying = _pair(D.shape[1], 0), _pair(D.shape[1], Z.shape[1])
    null = _null(_climb(engine, constant))
    full = min(_climb(engine, varying), _climb(engine, varying, _without_slopes(null, Z)), key=_height)
    beta_f, beta_e = varying.split(full.parameters)
    share = _label_frequency(logits(D, beta_f), logits(Z, beta_e), w)
    again = _null(_climb(engine, constant, np.append(beta_f, logit(share))))
    if again.value < null.value:
        null = again
        full = min(full, _climb(engine, varying, _without_slopes(null, Z)), key=_height)
    covariance = _covariance(engine, varying, full.parameters)
    if D.shape[1] == 0:  # only the product of `f` and `e` is known then, and log odds of `e` have no level
        covariance[:] = np.nan
    return Comparison(null, full.parameters, max(2.0 * (null.value - full.value), 0.0), covariance, share)


def wald_statistic(estimate: Vector, covariance: Matrix) -> float:
    """Return ``b' V^-1 b``; NaN where the covariance is."""
    if np.isnan(covariance).any():
        return float("nan")
    return float(estimate @ np.linalg.solve(covariance, estimate))


def p_text(p: float) -> str:
    """Return a p-value in two digits, or in as many as show on which side of `SIGNIFICANT` it lies.

    Examples
    --------
    >>> p_text(0.0123), p_text(0.0498)
    ('0.012', '0.0498')
    """
    shown = (f"{p:.{digits}g}" for digits in range(2, 18))
    return next(text for text in shown if (float(text) < SIGNIFICANT) == (p < SIGNIFICANT))


def _pair(n_class: int, n_labelling: int) -> LogisticPair:
    return LogisticPair(Design.of(np.arange(n_class)), Design.of(np.arange(n_class, n_class + n_labelling)))


def _climb(engine: Engine, pair: LogisticPair, start: Vector | None = None) -> Solution:
    problem = PairProblem.of(engine, pair.f, pair.e, FREE, FREE)
    return fit_pair(problem, start, FitOptions(TOL, MAX_ITER)).solution


def _height(solution: Solution) -> float:
    return solution.value


def _null(solution: Solution) -> NullFit:
    return NullFit(solution.parameters[:-1], float(solution.parameters[-1]), solution.value)


def _without_slopes(null: NullFit, Z: Matrix) -> Vector:
    return np.concatenate([null.beta_f, np.zeros(Z.shape[1]), [null.v]])


def _label_frequency(u: Vector, v: Vector, w: Vector) -> float:
    f = w * expit(u)
    return float(np.clip(f @ expit(v) / f.sum(), 1e-6, 1.0 - 1e-6))


def _covariance(engine: Engine, pair: LogisticPair, beta: Vector) -> Matrix:
    """Return the inverse of the observed information; NaN for parameters that the likelihood leaves open.

    The sandwich formula would allow for a wrong model, but with a hundred labelled rows its tests reject too often.
    """
    information = np.asarray(engine.total(pair.sums, beta, Curvature.OBSERVED)[2])
    information[np.diag_indices(beta.size)] += 1.0 / FREE  # the intercepts too: they may run off to infinity
    if np.linalg.eigvalsh(information)[0] <= 0:
        return np.full(information.shape, np.nan)
    covariance = np.linalg.inv(information)
    unknown = np.diagonal(covariance) > UNKNOWN**2
    covariance[unknown] = covariance[:, unknown] = np.nan
    return np.asarray(covariance)
