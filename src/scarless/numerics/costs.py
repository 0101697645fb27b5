"""What one prediction costs: log loss, squared and absolute error.

A cost is a pair of curves: ``d1(p)`` if the row is positive and ``d0(p)`` if it is negative, where `p` is the
predicted probability of the positive class. Each also comes as a function of the logit ``z``, which keeps its
digits where ``p`` rounds to 0 or 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Vector
from scarless.numerics.sigmoid import softplus

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
        The word that `get_cost` knows it by.
    positive, negative : callable
        ``d1(p)`` and ``d0(p)``: what predicting `p` costs on a positive and on a negative row. Both are at
        least 0; at most one of them is infinite at any `p`.
    positive_slope, negative_slope : callable
        Their derivatives with respect to `p`.
    limit : float
        The largest value either curve takes on [0, 1]; infinite for the log loss.
    logit : LogitForm or None
        The same four curves as functions of the logit.

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning
    from Positive and Unlabeled Data", ECML-PKDD (there MAE, MSE and log loss).

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
        """Pickle the costs of this module by name, since their curves are lambdas."""
        if COSTS.get(self.name) is self:
            return get_cost, (self.name,)
        return Cost, tuple(getattr(self, field.name) for field in fields(self))

    def max_cost(self, p: Vector | None = None) -> float:
        r"""Return :math:`\delta_{\max}`: over all of [0, 1], or over the predictions `p` and either class.

        For the log loss this is finite only with predictions that stay away from 0 and 1.

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
    with np.errstate(divide="ignore"):  # -log(0) is inf on purpose, not an accident
        return 0.0 - np.log(p)  # 0 - x, because -x turns log(1) into -0.0


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
    negative=lambda p: p + 0.0,  # a new array, as from every other curve
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
    """Return the cost of that name, or `cost` itself where it is a `Cost`.

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
