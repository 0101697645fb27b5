"""Shifts of the intercepts of both models with which they have a given class prior."""

import numpy as np
from scipy.special import expit, logit

from scarless.numerics.arrays import Matrix, Vector

LARGEST_SHIFT = 30.0  # of log-odds; a probability of 0.001 or 0.999 is then 0 or 1 up to rounding
_MAX_ITER, _TOL = 60, 1e-12


def prior_shifts(f: Vector, e: Vector, weight: Vector, priors: Vector, estimate: float) -> Matrix:
    r"""Return the shifts of class and propensity logits for each class prior, in two columns.

    The class shift :math:`\delta` moves the mean of :math:`f' = \sigma(\mathrm{logit} f + \delta)` from the estimate
    to the class prior. The label shift :math:`\varepsilon` of :math:`e' = \sigma(\mathrm{logit} e + \varepsilon)`
    keeps the expected number of labels, :math:`\sum w f' e' = \sum w f e`. Both are 0 at the estimate.

    If the mean of `f` differs from the estimate, because `f` are only some of the rows, the log-odds of all class
    priors are moved by the same amount. The label shift is at most `LARGEST_SHIFT`, for class priors so small that
    every positive has a label.

    Examples
    --------
    >>> f, e = np.array([0.2, 0.6]), np.array([0.5, 0.5])
    >>> delta, epsilon = prior_shifts(f, e, np.ones(2), np.array([0.5]), 0.4)[0]
    >>> shifted = expit(logit(f) + delta)
    >>> print(round(shifted.mean(), 6), round((shifted * expit(logit(e) + epsilon)).sum(), 6))
    0.5 0.4
    """
    u, v, total = logit(f), logit(e), weight.sum()
    moved = logit(weight @ f / total) - logit(estimate)
    labels = float(weight @ (f * e))
    found, start = [], np.zeros(2)
    for prior in priors:
        start[0] = _shift(u, weight, total * expit(logit(prior) + moved), start[0])
        start[1] = _shift(v, weight * expit(u + start[0]), labels, start[1])
        found.append(np.where(prior == estimate, 0.0, start))
    return np.array(found)


def _shift(logits: Vector, weight: Vector, target: float, start: float) -> float:
    """Solve ``weight @ expit(logits + shift) == target`` for the shift, by Newton steps within a bracket."""
    low, high, shift = -LARGEST_SHIFT, LARGEST_SHIFT, start
    for _ in range(_MAX_ITER):
        p = expit(logits + shift)
        error = weight @ p - target
        low, high = (low, shift) if error > 0 else (shift, high)
        slope = weight @ (p * (1.0 - p))
        step = shift - error / slope if slope > 0 else np.inf
        after = step if low < step < high else 0.5 * (low + high)
        if abs(after - shift) <= _TOL:
            return float(after)
        shift = after
    return float(shift)
