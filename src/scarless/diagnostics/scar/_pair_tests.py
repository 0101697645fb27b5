"""Fits the pair twice, once with a constant propensity and once with a logistic propensity, for tests of SCAR."""

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

# Inverse penalty on columns of unit variance. The penalty is too weak to change estimates that the data determine, but
# keeps coefficients finite if the rows are separable.
WEAK_PENALTY_C = 1e4
TOL, MAX_ITER = 1e-10, 500
SIGNIFICANT = 0.05  # p-values below this are reported as findings
MAX_STANDARD_ERROR = 10.0  # in log odds per standard deviation; effects with larger standard errors are unknown


class NullFit(NamedTuple):
    """Coefficients of a logistic `f`, and the logit of a constant `e`."""

    beta_f: Vector
    v: float
    value: float  # minus the penalised log-likelihood


class PairComparison(NamedTuple):
    """A fit with a constant propensity (`null`), compared with a fit with a logistic propensity (`alternative`)."""

    null: NullFit
    alternative: Vector  # coefficients of `f`, then slopes and intercept of `e`
    statistic: float  # of the likelihood ratio test
    covariance: Matrix  # of `alternative`; NaN for unknown effects
    label_frequency: float  # Pr(s=1 | y=1) in the alternative


def fit_null(D: Matrix, s: Vector, w: Vector) -> NullFit:
    """Fit a logistic `f` on the columns of `D` with a constant propensity."""
    return _null(_fit(engine_of(D, s=s, w=w), _pair(D.shape[1], 0)))


def compare(D: Matrix, Z: Matrix, s: Vector, w: Vector) -> PairComparison:
    """Fit `f` on `D` with a constant `e`, then with a logistic `e` on `Z`. All columns must have unit variance.

    Both likelihoods may have several optima. The fit with a constant `e` is therefore also started from the fit with a
    logistic `e`, and vice versa, so that the likelihood ratio depends less on the starts.
    """
    engine = engine_of(np.column_stack([D, Z]), s=s, w=w)
    constant, varying = _pair(D.shape[1], 0), _pair(D.shape[1], Z.shape[1])

    def label_frequency(fit: Solution) -> float:
        beta_f, beta_e = varying.split(fit.parameters)
        return _label_frequency(logits(D, beta_f), logits(Z, beta_e), w)

    null = _null(_fit(engine, constant))
    full = min(_fit(engine, varying), _fit(engine, varying, _without_slopes(null, Z)), key=_objective)
    again = _null(_fit(engine, constant, np.append(varying.split(full.parameters)[0], logit(label_frequency(full)))))
    if again.value < null.value:
        null = again
        full = min(full, _fit(engine, varying, _without_slopes(null, Z)), key=_objective)
    covariance = _covariance(engine, varying, full.parameters)
    if D.shape[1] == 0:  # a constant `f` and the intercept of `e` are only weakly identified, so effects are unknown
        covariance[:] = np.nan
    statistic = max(2.0 * (null.value - full.value), 0.0)
    return PairComparison(null, full.parameters, statistic, covariance, label_frequency(full))


def wald_statistic(estimate: Vector, covariance: Matrix) -> float:
    """Return ``b' V^-1 b``; NaN if the covariance contains NaN."""
    if np.isnan(covariance).any():
        return float("nan")
    return float(estimate @ np.linalg.solve(covariance, estimate))


def p_text(p: float) -> str:
    """Return a p-value with two digits, or with as many as are needed to show whether it is below `SIGNIFICANT`.

    Examples
    --------
    >>> p_text(0.0123), p_text(0.0498)
    ('0.012', '0.0498')
    """
    shown = (f"{p:.{digits}g}" for digits in range(2, 18))
    return next(text for text in shown if (float(text) < SIGNIFICANT) == (p < SIGNIFICANT))


def _pair(n_class: int, n_labelling: int) -> LogisticPair:
    return LogisticPair(Design.of(np.arange(n_class)), Design.of(np.arange(n_class, n_class + n_labelling)))


def _fit(engine: Engine, pair: LogisticPair, start: Vector | None = None) -> Solution:
    problem = PairProblem.of(engine, pair.f, pair.e, WEAK_PENALTY_C, WEAK_PENALTY_C)
    return fit_pair(problem, start, FitOptions(TOL, MAX_ITER)).solution


def _objective(solution: Solution) -> float:
    return solution.value


def _null(solution: Solution) -> NullFit:
    return NullFit(solution.parameters[:-1], float(solution.parameters[-1]), solution.value)


def _without_slopes(null: NullFit, Z: Matrix) -> Vector:
    return np.concatenate([null.beta_f, np.zeros(Z.shape[1]), [null.v]])


def _label_frequency(u: Vector, v: Vector, w: Vector) -> float:
    f = w * expit(u)
    return float(np.clip(f @ expit(v) / f.sum(), 1e-6, 1.0 - 1e-6))


def _covariance(engine: Engine, pair: LogisticPair, beta: Vector) -> Matrix:
    """Return the inverse of the observed information; NaN for parameters that the likelihood does not determine.

    The sandwich formula would allow for a wrong model, but its tests reject too often with about 100 labelled rows.
    """
    information = np.asarray(engine.total(pair.sums, beta, Curvature.OBSERVED)[2])
    information[np.diag_indices(beta.size)] += 1.0 / WEAK_PENALTY_C  # intercepts too, because they may diverge
    if np.linalg.eigvalsh(information)[0] <= 0:
        return np.full(information.shape, np.nan)
    covariance = np.linalg.inv(information)
    unknown = np.diagonal(covariance) > MAX_STANDARD_ERROR**2
    covariance[unknown] = covariance[:, unknown] = np.nan
    return np.asarray(covariance)
