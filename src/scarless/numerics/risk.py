"""Costs of predictions, and per-row costs whose means are risks.

A cost is a pair of curves: ``d1(p)`` if the row is positive and ``d0(p)`` if it is negative, where `p` is the predicted
probability of the positive class. Both are also available as functions of the logit ``z``, which are precise even if
``p`` rounds to 0 or 1.

Every risk is the mean of ``t d1 + (1 - t) d0`` for some target ``t``: the class itself (true risk), ``s/e``
(propensity-weighted risk) or the posterior ``q`` (expected risk).

The log loss is infinite for a wrong prediction of exactly 0 or 1. A cost of weight 0 is ignored: ``0 * inf`` is 0. The
two curves of a cost are never infinite at the same `p`, so the cost of a row is never ``inf - inf``.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import posterior, softplus

Curve = Callable[[Vector], Vector]


@dataclass(frozen=True)
class LogitForm:
    """The curves of a cost as functions of the logit ``z``, and their derivatives in ``z``."""

    positive: Curve
    negative: Curve
    positive_slope: Curve
    negative_slope: Curve


@dataclass(frozen=True)
class Cost:
    r"""A pair of cost curves :math:`\delta_1(p), \delta_0(p)`, with derivatives in `p`.

    Parameters
    ----------
    name : str
        Name by which `get_cost` finds the cost.
    positive, negative : callable
        ``d1(p)`` and ``d0(p)``: costs of the prediction `p` for a positive and for a negative row. Both are
        non-negative; at most one of them is infinite at any `p`.
    positive_slope, negative_slope : callable
        Their derivatives with respect to `p`.
    limit : float
        The largest value either curve takes on [0, 1]; infinite for the log loss.
    logit : LogitForm or None
        The same four curves as functions of the logit.

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning
    from Positive and Unlabeled Data", ECML-PKDD (with MAE, MSE and log loss).

    Examples
    --------
    >>> import numpy as np
    >>> SQUARED.positive(np.array([0.0, 0.5, 1.0]))
    array([1.  , 0.25, 0.  ])
    >>> LOG.logit.positive(np.array([-700.0, 0.0, 700.0])).round(4)
    array([7.000e+02, 6.931e-01, 0.000e+00])
    """

    name: str
    positive: Curve
    negative: Curve
    positive_slope: Curve
    negative_slope: Curve
    limit: float
    logit: LogitForm | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the costs of this module by name, because lambdas cannot be pickled."""
        if COSTS.get(self.name) is self:
            return get_cost, (self.name,)
        return Cost, tuple(getattr(self, field.name) for field in fields(self))

    def max_cost(self, p: Vector | None = None) -> float:
        r"""Return the largest cost :math:`\delta_{\max}`, over [0, 1] or over the predictions `p`, for either class.

        For the log loss it is finite only if `p` is given and has no 0 or 1.

        Examples
        --------
        >>> import numpy as np
        >>> SQUARED.max_cost(), LOG.max_cost(), round(LOG.max_cost(np.array([0.1, 0.6])), 4)
        (1.0, inf, 2.3026)
        """
        if p is None:
            return self.limit
        return float(max(self.positive(p).max(), self.negative(p).max()))


def _neg_log(p: Vector) -> Vector:
    with np.errstate(divide="ignore"):  # -log(0) = inf is intended.
        return 0.0 - np.log(p)  # -np.log(p) would give -0.0 for p = 1.


def _neg_log1m(p: Vector) -> Vector:
    with np.errstate(divide="ignore"):
        return 0.0 - np.log1p(-p)


def _neg_inverse(p: Vector) -> Vector:
    with np.errstate(divide="ignore"):
        return -1.0 / p


def _inverse1m(p: Vector) -> Vector:
    with np.errstate(divide="ignore"):
        return 1.0 / (1.0 - p)


LOG = Cost(
    name="log",
    positive=_neg_log,
    negative=_neg_log1m,
    positive_slope=_neg_inverse,
    negative_slope=_inverse1m,
    limit=np.inf,
    logit=LogitForm(
        positive=lambda z: softplus(-z),
        negative=softplus,
        positive_slope=lambda z: -expit(-z),
        negative_slope=expit,
    ),
)

SQUARED = Cost(
    name="squared",
    positive=lambda p: (1.0 - p) ** 2,
    negative=lambda p: p**2,
    positive_slope=lambda p: -2.0 * (1.0 - p),
    negative_slope=lambda p: 2.0 * p,
    limit=1.0,
    logit=LogitForm(
        positive=lambda z: expit(-z) ** 2,
        negative=lambda z: expit(z) ** 2,
        positive_slope=lambda z: -2.0 * expit(z) * expit(-z) ** 2,
        negative_slope=lambda z: 2.0 * expit(-z) * expit(z) ** 2,
    ),
)

ABSOLUTE = Cost(
    name="absolute",
    positive=lambda p: 1.0 - p,
    negative=lambda p: p + 0.0,  # Return a new array, as all other curves do.
    positive_slope=lambda p: np.full_like(p, -1.0),
    negative_slope=np.ones_like,
    limit=1.0,
    logit=LogitForm(
        positive=lambda z: expit(-z),
        negative=expit,
        positive_slope=lambda z: -expit(z) * expit(-z),
        negative_slope=lambda z: expit(z) * expit(-z),
    ),
)

COSTS = {cost.name: cost for cost in (ABSOLUTE, LOG, SQUARED)}


def get_cost(cost: Any) -> Cost:
    """Return the cost with the given name, or `cost` itself if it is a `Cost`.

    Examples
    --------
    >>> get_cost("log").name
    'log'
    >>> get_cost("mse")
    Traceback (most recent call last):
    ...
    ValueError: cost must be one of 'absolute', 'log', 'squared', or a Cost; got 'mse'.
    """
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, str) and cost in COSTS:
        return COSTS[cost]
    raise ValueError(f"cost must be one of {', '.join(map(repr, COSTS))}, or a Cost; got {cost!r}.")


def times(weight: Vector, cost: Vector) -> Vector:
    """Return ``weight * cost`` with ``0 * inf = 0``: a cost of weight 0 is ignored.

    Examples
    --------
    >>> import numpy as np
    >>> times(np.array([0.0, 2.0]), np.array([np.inf, 3.0]))
    array([0., 6.])
    """
    out = np.zeros(np.broadcast_shapes(weight.shape, cost.shape), dtype=np.result_type(weight, cost))
    return np.multiply(weight, cost, out=out, where=weight != 0)


def over_propensity(values: Vector, e: Vector) -> Vector:
    """Return ``values / e``; infinite, without a warning, if the quotient overflows.

    Examples
    --------
    >>> import numpy as np
    >>> over_propensity(np.array([0.0, 1.0, 1.0]), np.array([5e-324, 5e-324, 0.5]))
    array([ 0., inf,  2.])
    """
    with np.errstate(over="ignore"):
        return np.asarray(values / e)


def mixed_cost(target: Vector, cost_pos: Vector, cost_neg: Vector) -> Vector:
    r"""Return the per-row cost with a real-valued target.

    .. math:: t\,\delta_1 + (1 - t)\,\delta_0

    The target can be above 1; the weight of :math:`\delta_0` is then negative.

    Examples
    --------
    >>> import numpy as np
    >>> mixed_cost(np.array([0.0, 0.5, 2.0]), np.full(3, 0.25), np.full(3, 0.75))
    array([ 0.75,  0.5 , -0.25])
    """
    return times(target, cost_pos) + times(1.0 - target, cost_neg)


def true_cost(cost_pos: Vector, cost_neg: Vector, y: Vector) -> Vector:
    r"""Return the per-row cost for a known class: :math:`y\,\delta_1 + (1-y)\,\delta_0`.

    Examples
    --------
    >>> import numpy as np
    >>> true_cost(np.array([0.1, 0.2]), np.array([0.9, 0.8]), np.array([1.0, 0.0]))
    array([0.1, 0.8])
    """
    return mixed_cost(y, cost_pos, cost_neg)


def weighted_cost(cost_pos: Vector, cost_neg: Vector, s: Vector, e: Vector) -> Vector:
    r"""Return the per-row cost whose mean estimates the supervised risk if the class is not known.

    .. math:: \frac{s}{e}\,\delta_1 + \Bigl(1 - \frac{s}{e}\Bigr)\,\delta_0

    The mean is unbiased if ``e = Pr(s=1 | y=1, x) > 0``. The cost of a single row can be negative. With the log loss, a
    labelled row with prediction 1 (``d1 = 0``, ``d0 = inf``) costs ``-inf`` if ``e < 1``, which is the limit of the
    formula. `scarless.metrics` raises an error instead of reporting such a risk.

    Examples
    --------
    >>> import numpy as np
    >>> weighted_cost(np.array([0.1, 0.1]), np.array([0.9, 0.9]), np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    array([-0.7,  0.9])
    """
    return mixed_cost(s / e, cost_pos, cost_neg)


def expected_cost(cost_pos: Vector, cost_neg: Vector, p: Vector, s: Vector, e: Vector) -> Vector:
    r"""Return the per-row cost expected under the prediction itself: :math:`q\,\delta_1 + (1-q)\,\delta_0`.

    ``q`` is the posterior of `scarless.numerics.likelihood` with the prediction `p` as ``Pr(y=1|x)``. The model is
    judged by its own predictions: with ``p = 1`` for all rows, ``q = 1`` and the cost is 0, whatever the classes are.

    Examples
    --------
    >>> import numpy as np
    >>> p, s, e = np.array([1.0, 0.5]), np.array([0.0, 0.0]), np.array([0.5, 0.5])
    >>> expected_cost(1.0 - p, p, p, s, e)
    array([0. , 0.5])
    """
    return mixed_cost(posterior(p, e, s), cost_pos, cost_neg)


def labelling_variance(cost_pos: Vector, cost_neg: Vector, y: Vector, e: Vector) -> Vector:
    r"""Return the per-row variance of `weighted_cost` if only the labels are random, and rows and classes are fixed.

    .. math:: y\,\frac{1-e}{e}\,(\delta_1-\delta_0)^2

    Labels must be independent. With ``s/e`` instead of ``y``, the result is an unbiased estimate of this variance.

    Examples
    --------
    >>> import numpy as np
    >>> labelling_variance(np.array([0.0]), np.array([1.0]), np.array([1.0]), np.array([0.2]))
    array([4.])
    """
    return over_propensity(times(y * (1.0 - e), (cost_pos - cost_neg) ** 2), e)
