"""What predictions cost, and per-row costs whose means are the risks of DESIGN section 2.

A cost is a pair of curves: ``d1(p)`` if the row is positive and ``d0(p)`` if it is negative, where `p` is the
predicted probability of the positive class. Each also comes as a function of the logit ``z``, which keeps its digits
where ``p`` rounds to 0 or 1.

Every risk here is the mean of ``t d1 + (1 - t) d0`` for some target ``t``: the class itself (true risk), ``s/e``
(propensity-weighted risk) or the posterior ``q`` (expected risk).

Infinite costs. The log loss is infinite for a prediction of exactly 0 or 1. A cost that has no weight does not count,
so ``0 * inf`` is 0 here. The two curves of a cost are never infinite at once, so no single row is ``inf - inf``.
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


def times(weight: Vector, cost: Vector) -> Vector:
    """Return ``weight * cost`` with ``0 * inf = 0``: what has no weight does not count.

    Examples
    --------
    >>> import numpy as np
    >>> times(np.array([0.0, 2.0]), np.array([np.inf, 3.0]))
    array([0., 6.])
    """
    out = np.zeros(np.broadcast_shapes(weight.shape, cost.shape), dtype=np.result_type(weight, cost))
    return np.multiply(weight, cost, out=out, where=weight != 0)


def over_propensity(values: Vector, e: Vector) -> Vector:
    """Return ``values / e``, infinite where a propensity is so small that the quotient leaves the range of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> over_propensity(np.array([0.0, 1.0, 1.0]), np.array([5e-324, 5e-324, 0.5]))
    array([ 0., inf,  2.])
    """
    with np.errstate(over="ignore"):
        return np.asarray(values / e)


def mixed_cost(target: Vector, cost_pos: Vector, cost_neg: Vector) -> Vector:
    r"""Per-row cost with a real-valued target.

    .. math:: t\,\delta_1 + (1 - t)\,\delta_0

    The target may be above 1; the weight of the negative cost is then below 0.

    Examples
    --------
    >>> import numpy as np
    >>> mixed_cost(np.array([0.0, 0.5, 2.0]), np.full(3, 0.25), np.full(3, 0.75))
    array([ 0.75,  0.5 , -0.25])
    """
    return times(target, cost_pos) + times(1.0 - target, cost_neg)


def true_cost(cost_pos: Vector, cost_neg: Vector, y: Vector) -> Vector:
    r"""Per-row cost when the class is known: :math:`y\,\delta_1 + (1-y)\,\delta_0`.

    Examples
    --------
    >>> import numpy as np
    >>> true_cost(np.array([0.1, 0.2]), np.array([0.9, 0.8]), np.array([1.0, 0.0]))
    array([0.1, 0.8])
    """
    return mixed_cost(y, cost_pos, cost_neg)


def weighted_cost(cost_pos: Vector, cost_neg: Vector, s: Vector, e: Vector) -> Vector:
    r"""Per-row cost whose mean estimates the supervised risk without the class.

    .. math:: \frac{s}{e}\,\delta_1 + \Bigl(1 - \frac{s}{e}\Bigr)\,\delta_0

    Unbiased when ``e = Pr(s=1 | y=1, x) > 0``. Single rows may be negative. With the log loss a labelled row
    that is predicted to be positive for sure (``d1 = 0``, ``d0 = inf``) costs ``-inf`` when ``e < 1``: that
    is the limit of the formula, and `scarless.metrics` refuses to report it as a risk.

    Examples
    --------
    >>> import numpy as np
    >>> weighted_cost(np.array([0.1, 0.1]), np.array([0.9, 0.9]), np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    array([-0.7,  0.9])
    """
    return mixed_cost(s / e, cost_pos, cost_neg)


def expected_cost(cost_pos: Vector, cost_neg: Vector, p: Vector, s: Vector, e: Vector) -> Vector:
    r"""Per-row cost expected under the prediction itself: :math:`q\,\delta_1 + (1-q)\,\delta_0`.

    ``q`` is the posterior of `scarless.numerics.likelihood` with the prediction `p` in the place of ``Pr(y=1|x)``, so
    a model marks its own work: with ``p = 1`` everywhere ``q = 1`` and the cost is 0, whatever the classes are.

    Examples
    --------
    >>> import numpy as np
    >>> p, s, e = np.array([1.0, 0.5]), np.array([0.0, 0.0]), np.array([0.5, 0.5])
    >>> expected_cost(1.0 - p, p, p, s, e)
    array([0. , 0.5])
    """
    return mixed_cost(posterior(p, e, s), cost_pos, cost_neg)


def labelling_variance(cost_pos: Vector, cost_neg: Vector, y: Vector, e: Vector) -> Vector:
    r"""Per-row variance of `weighted_cost` when only the label is random: rows and classes are fixed.

    .. math:: y\,\frac{1-e}{e}\,(\delta_1-\delta_0)^2

    Labels are drawn independently. With ``s/e`` in the place of ``y`` it is an unbiased estimate of itself.

    Examples
    --------
    >>> import numpy as np
    >>> labelling_variance(np.array([0.0]), np.array([1.0]), np.array([1.0]), np.array([0.2]))
    array([4.])
    """
    return over_propensity(times(y * (1.0 - e), (cost_pos - cost_neg) ** 2), e)
