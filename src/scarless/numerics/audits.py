r"""What rows whose class was checked say of all rows: the difference estimator, its variance and its interval.

A model thinks of row `i` that it is positive with probability :math:`q_i`; of some rows the class :math:`a_i` was
checked, each with the known probability :math:`p_i`. What the model gets wrong on average, :math:`D`, is estimated from
those rows by Hajek's weighted mean of :math:`d_i = a_i - q_i`, and added to the mean of `q`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from scarless.numerics.arrays import Matrix, Rows, Vector
from scarless.numerics.looks_objective import sum_of_squares
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import Interval, find_root

_PROBABILITY_MARGIN = 1e-12  # nearest to 0 and 1 that a probability is shifted from
_MAX_LOGIT_SHIFT = 60.0  # logits that a model may be off


class Differences(NamedTuple):
    """Checked rows of one stratum, and how much of the whole it is."""

    a: Vector  # the class: 0 or 1
    q: Vector  # what the model thought
    omega: Vector  # w / p: how many rows each one stands for
    p: Vector  # with which probability each was checked
    share: float  # of the weight of all rows

    @property
    def mean(self) -> float:
        """The weighted mean of the differences."""
        return float(self.omega @ (self.a - self.q) / self.omega.sum())

    @property
    def factor(self) -> float:
        r"""What a variance of differences is multiplied with: :math:`\sum(1-p)\omega^2 / (\sum\omega)^2`, times share².

        Of `n` rows drawn from `N` with equal probabilities that is :math:`(1 - n/N)/n`.
        """
        return self.share**2 * float((1.0 - self.p) @ self.omega**2) / float(self.omega.sum()) ** 2

    @property
    def spread(self) -> float:
        """The variance of differences between rows, from the checked ones; 0 where all rows were checked."""
        n, weight = self.a.size, (1.0 - self.p) * self.omega**2
        if n < 2 or not weight.any():
            return 0.0
        return n / (n - 1.0) * float(weight @ (self.a - self.q - self.mean) ** 2 / weight.sum())

    @property
    def effective(self) -> float:
        """How many rows with equal probabilities would say as much."""
        return float(self.omega.sum() ** 2 / (self.omega @ self.omega))

    def shifted(self, delta: float) -> tuple[float, float]:
        r"""Return mean and variance of the differences if the model's logits were all off by `delta`.

        With :math:`r = \mathrm{expit}(\mathrm{logit}\,q + \delta)` the true probabilities, a difference has the mean
        :math:`r - q` and the variance :math:`r(1-r)`. Where `q` is the same for all rows, this is the binomial
        variance of Wilson's interval.
        """
        r = expit(logit(np.clip(self.q, _PROBABILITY_MARGIN, 1.0 - _PROBABILITY_MARGIN)) + delta)
        mean = float(self.omega @ (r - self.q) / self.omega.sum())
        weight = (1.0 - self.p) * self.omega**2
        if not weight.any():
            return mean, 0.0
        within, around = r * (1.0 - r), (r - self.q - mean) ** 2
        return mean, float(weight @ (within + around) / weight.sum())


def difference_interval(value: float, open_: Differences, rest: float, *, z: float, kish: float) -> Interval:
    r"""Return the values of the class prior that are not more than `z` of *their* standard errors away.

    As in Wilson's interval a value is judged by the variance that it implies itself, so that audits without any
    positive, or with positives only, still leave room:

    .. math:: |\hat\alpha - \alpha| \le z \sqrt{\max(v, v_\alpha)\,\phi + \mathrm{rest} + \alpha(1-\alpha)\,\kappa}

    with `v` the spread of the differences that was seen, :math:`v_\alpha` that of `Differences.shifted` where the class
    prior is :math:`\alpha`, :math:`\phi` its factor, `rest` the variance of other strata, and :math:`\kappa` (`kish`)
    one over the number of rows.
    """
    mean, spread, factor = open_.mean, open_.spread, open_.factor

    def at(delta: float) -> tuple[float, float]:
        moved, implied = open_.shifted(delta)
        alpha = value + open_.share * (moved - mean)
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


def lost_information(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> tuple[Matrix]:
    r"""Return what a block of rows would add to the information if classes were checked.

    An open row has the information :math:`D - q(1-q)\,cc'` of its logits, one whose class is known has `D` in
    expectation over that class: the square is what a check is worth. Rows: as the objective's, and ``chance``, with
    which probability each is checked. Rows that were checked already have nothing to add.
    """
    q, slopes = objective.row_posterior(X, rows, beta), objective.posterior_slopes(X, rows, beta)
    return (sum_of_squares(X, objective, rows["chance"] * q * (1.0 - q), slopes),)


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
    left = np.cumsum(descending[::-1])[::-1]  # of all that are not above 1
    for n_sure in range(n_rows):
        k = (n_rows - n_sure) / float(left[n_sure])
        if k * descending[n_sure] <= 1.0:
            return k
    return float(1.0 / descending[n_rows - 1])
