"""SAR-EM for any pair of learners, with the paper's start and stopping rule."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Vector
from scarless.numerics.interval import least_squares_slope
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior, posterior_known
from scarless.pair.learners import Learner


class EMStep(NamedTuple):
    """One iteration: mean observed log-likelihood, and mean absolute slope of the propensities."""

    log_likelihood: float
    slope: float


class EMResult(NamedTuple):
    """How the iterations ended. The learners hold the models."""

    converged: bool
    history: list[EMStep]
    gain: float  # over the last `window` entries of the history, per row


def em(
    X_f: Any,
    X_e: Any,
    s: Vector,
    w: Vector,
    f: Learner,
    e: Learner,
    *,
    tol: float,
    slope_tol: float,
    window: int,
    max_iter: int,
    progress: Callable[[EMStep], None] | None = None,
) -> EMResult:
    """Alternate posteriors and fits until likelihood and propensities have both come to rest.

    After the published code's rule. Both tests look back over the last `window` models: the mean observed
    log-likelihood rose by less than `tol`, and the least-squares slope of the rows' propensities is below `slope_tol`
    in the mean of absolute values. (The published code looks at the expected complete-data likelihood, which EM does
    not climb, and at the propensities of unlabelled rows.)

    References
    ----------
    Bekker, Robberechts and Davis (2019).
    """
    share = float(w @ s) / float(w.sum())
    f.fit(X_f, s, w * np.where(s == 1, 1.0 - share, share))
    p_f = f.probability(X_f)
    e.fit(X_e, s, w * np.where(s == 1, 1.0, p_f))
    p_e = e.probability(X_e)
    recent: deque[Vector] = deque([p_e], maxlen=window)
    history = [EMStep(_mean_log_likelihood(p_f, p_e, s, w), np.inf)]
    gain, converged = np.inf, False
    for _ in range(max_iter):
        q = posterior(p_f, p_e, s)
        f.fit(X_f, q, w)
        e.fit(X_e, s, w * q)
        p_f, p_e = f.probability(X_f), e.probability(X_e)
        recent.append(p_e)
        full = len(recent) == window
        slope = float(w @ np.abs(least_squares_slope(recent))) / float(w.sum()) if full else np.inf
        history.append(EMStep(_mean_log_likelihood(p_f, p_e, s, w), slope))
        if progress is not None:
            progress(history[-1])
        gain = _rise(history[-window:])
        if full and gain < tol and slope < slope_tol:
            converged = True
            break
    return EMResult(converged, history, gain)


def em_known_propensity(
    X: Any, s: Vector, e: Vector, w: Vector, f: Learner, *, tol: float, window: int, max_iter: int
) -> EMResult:
    """Maximise the likelihood of the labels over the classifier alone; weights stay in [0, 1]."""
    share = float(w @ s) / float(w.sum())
    f.fit(X, s, w * np.where(s == 1, 1.0 - share, share))
    p_f = f.probability(X)
    history = [EMStep(_mean_log_likelihood(p_f, e, s, w), 0.0)]
    gain, converged = np.inf, False
    for _ in range(max_iter):
        f.fit(X, posterior_known(p_f, e, s), w)
        p_f = f.probability(X)
        history.append(EMStep(_mean_log_likelihood(p_f, e, s, w), 0.0))
        gain = _rise(history[-window:])
        if len(history) >= window and gain < tol:
            converged = True
            break
    return EMResult(converged, history, gain)


def _rise(steps: list[EMStep]) -> float:
    return max(step.log_likelihood for step in steps) - steps[0].log_likelihood


def _mean_log_likelihood(f: Vector, e: Vector, s: Vector, w: Vector) -> float:
    counted = w > 0
    return float(w[counted] @ log_likelihood_of_probabilities(f, e, s)[counted]) / float(w.sum())
