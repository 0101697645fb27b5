r"""The difference estimator of the class prior from audited rows, with its variance and its interval.

A model gives row `i` the probability :math:`q_i` of being positive. Each row is audited with the known probability
:math:`p_i`, and the audit finds its class :math:`a_i`. The mean error of the model, :math:`D`, is estimated by Hajek's
weighted mean of :math:`d_i = a_i - q_i` over the audited rows. The estimate is the mean of `q` over all rows plus
:math:`D`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from scarless.numerics.arrays import Matrix, Rows, Vector
from scarless.numerics.looks_objective import sum_of_squares
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import Interval, find_root

_PROBABILITY_MARGIN = 1e-12  # distance of clipped probabilities from 0 and 1
_MAX_LOGIT_SHIFT = 60.0  # largest error of a model's logits that the interval considers


class Differences(NamedTuple):
    """Audited rows of one stratum, and the stratum's share of all rows."""

    a: Vector  # true class, 0 or 1
    q: Vector  # the model's probability of being positive
    omega: Vector  # w / p: number of rows that each audited row represents
    p: Vector  # probability of being audited
    share: float  # the stratum's share of the weight of all rows

    @property
    def mean(self) -> float:
        """The weighted mean of the differences."""
        return float(self.omega @ (self.a - self.q) / self.omega.sum())

    @property
    def factor(self) -> float:
        r"""The variance of the stratum's part of the estimate, divided by the variance of a single difference.

        It is :math:`\sum(1-p)\omega^2 / (\sum\omega)^2` times the square of `share`. If `n` of `N` rows are drawn with
        equal probabilities, the fraction is :math:`(1 - n/N)/n`.
        """
        return self.share**2 * float((1.0 - self.p) @ self.omega**2) / float(self.omega.sum()) ** 2

    @property
    def spread(self) -> float:
        """The variance of the differences, estimated from the audited rows; 0 if all rows were audited."""
        n, weight = self.a.size, (1.0 - self.p) * self.omega**2
        if n < 2 or not weight.any():
            return 0.0
        return n / (n - 1.0) * float(weight @ (self.a - self.q - self.mean) ** 2 / weight.sum())

    @property
    def effective(self) -> float:
        """The effective sample size: the number of rows of equal probability that would give the same precision."""
        return float(self.omega.sum() ** 2 / (self.omega @ self.omega))

    def shifted(self, delta: float) -> tuple[float, float]:
        r"""Return mean and variance of the differences if every logit of the model had the error `delta`.

        The true probabilities are then :math:`r = \mathrm{expit}(\mathrm{logit}\,q + \delta)`. A difference has the
        mean :math:`r - q` and the variance :math:`r(1-r)`. If `q` is the same for all rows, this is the binomial
        variance of Wilson's interval.
        """
        r = expit(logit(np.clip(self.q, _PROBABILITY_MARGIN, 1.0 - _PROBABILITY_MARGIN)) + delta)
        mean = float(self.omega @ (r - self.q) / self.omega.sum())
        weight = (1.0 - self.p) * self.omega**2
        if not weight.any():
            return mean, 0.0
        within, around = r * (1.0 - r), (r - self.q - mean) ** 2
        return mean, float(weight @ (within + around) / weight.sum())


def difference_interval(value: float, stratum: Differences, rest: float, *, z: float, kish: float) -> Interval:
    r"""Return the interval of class priors within `z` standard errors of the estimate `value`.

    As in Wilson's interval, each class prior :math:`\alpha` is compared with the estimate by the standard error that
    would hold if :math:`\alpha` were true. The interval therefore has a positive width even if all audited rows have
    the same class:

    .. math:: |\hat\alpha - \alpha| \le z \sqrt{\max(v, v_\alpha)\,\phi + \mathrm{rest} + \alpha(1-\alpha)\,\kappa}

    `stratum` has the audited rows of the main stratum, usually the unlabelled rows. :math:`v` is the observed variance
    of their differences (`Differences.spread`), :math:`v_\alpha` the variance at the class prior :math:`\alpha`
    (`Differences.shifted`), and :math:`\phi` the `Differences.factor`. `rest` is the variance of the other strata, and
    :math:`\kappa` (`kish`) is one over the effective number of rows.
    """
    mean, spread, factor = stratum.mean, stratum.spread, stratum.factor

    def at(delta: float) -> tuple[float, float]:
        moved, implied = stratum.shifted(delta)
        alpha = value + stratum.share * (moved - mean)
        inside = min(max(alpha, 0.0), 1.0)
        return alpha, max(spread, implied) * factor + rest + inside * (1.0 - inside) * kish

    def end(side: float) -> float:
        def beyond(delta: float) -> float:
            alpha, variance = at(delta)
            return side * (alpha - value) - z * float(np.sqrt(variance))

        far = side * _MAX_LOGIT_SHIFT
        delta = far if beyond(far) <= 0 else find_root(beyond, -far, far)
        return min(max(at(delta)[0], 0.0), 1.0)

    return Interval(min(end(-1.0), value), max(end(1.0), value))


def information_from_audits(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> tuple[Matrix]:
    r"""Return the information that audits would add, summed over a block of rows.

    The logits of a row of unknown class have the information :math:`D - q(1-q)\,cc'` (`scarless.numerics.looks`). If
    the class is known, they have the information `D`, in expectation over the class. An audit therefore adds
    :math:`q(1-q)\,cc'`, which is 0 for rows that are already audited. `rows` has the values that the objective needs,
    and ``audit_probability``, the probability that a row is audited.
    """
    q, slopes = objective.row_posterior(X, rows, beta), objective.posterior_slopes(X, rows, beta)
    return (sum_of_squares(X, objective, rows["audit_probability"] * q * (1.0 - q), slopes),)


def inclusion_scale(size: Vector, n_rows: int) -> float:
    r"""Return `k` such that the probabilities :math:`\min(1, k \cdot \mathrm{size})` sum to `n_rows`.

    Examples
    --------
    >>> inclusion_scale(np.array([1.0, 1.0, 10.0]), 2)
    0.5
    """
    if n_rows == 0:
        return 0.0
    descending = np.sort(size)[::-1]
    left = np.cumsum(descending[::-1])[::-1]  # sum of the sizes from each position to the end
    for n_certain in range(n_rows):
        k = (n_rows - n_certain) / float(left[n_certain])
        if k * descending[n_certain] <= 1.0:
            return k
    return float(1.0 / descending[n_rows - 1])
