"""Per-row costs whose means are the risks of DESIGN section 2.

Every risk here is the mean of ``t d1 + (1 - t) d0`` for some target ``t``: the class itself (true risk),
``s/e`` (propensity-weighted risk) or the posterior ``q`` (expected risk).

Infinite costs. The log loss is infinite for a prediction of exactly 0 or 1. A cost that has no weight does
not count, so ``0 * inf`` is 0 here. The two curves of a cost are never infinite at once, so no single row is
``inf - inf``.
"""

import numpy as np

from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import posterior


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
