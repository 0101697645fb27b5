r"""Labels under a constant propensity, and how far given labels are from that.

Under SCAR :math:`\Pr(s=1|x) = P = c f(x)`. The score of a row's labelling logit is :math:`1 - c` times

.. math:: r = s - (1-s)\frac{P}{1-P},

a labelled row against the odds of an unlabelled one: :math:`\mathrm{E}[r|x] = 0` and
:math:`\mathrm{Var}[r|x] = P/(1-P)`. Since :math:`P/(1-P)` is, up to a constant, the chance :math:`f(1-c)/(1-P)` that an
unlabelled row is positive, sums of :math:`r` compare the labelled positives with those left unlabelled. Rows count as
often as their weights :math:`w` say.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.likelihood import pair_terms
from scarless.numerics.linear import logits

# Share of a direction that must be left after the ones before it are taken out, to count as a direction of its own.
INDEPENDENT = 1e-8


class ConstantPropensity(NamedTuple):
    """The rows under a fitted logistic `f` and a constant `e`."""

    p: Vector  # Pr(s=1 | x)
    odds: Vector  # p / (1-p), the variance of the residuals
    residual: Vector
    tangent: Matrix  # per row, the derivatives of log p by the parameters: those of f, then the logit of e
    w: Vector  # how often each row counts


def constant_propensity(D: Matrix, s: Vector, w: Vector, beta_f: Vector, v: float) -> ConstantPropensity:
    r"""Return what each row's label tells under :math:`P = \sigma(v)\,\sigma(D\beta + \beta_0)`.

    :math:`\partial\log P/\partial\beta = (1-f)\,[D, 1]` and :math:`\partial\log P/\partial v = 1-e`, of which the
    latter is written as 1. At the maximum of the likelihood ``(w * residual) @ tangent`` is 0.

    Examples
    --------
    >>> rows = constant_propensity(np.zeros((2, 0)), np.array([1.0, 0.0]), np.ones(2), np.zeros(1), 0.0)
    >>> rows.p, rows.residual.round(3)  # f = e = 1/2
    (array([0.25, 0.25]), array([ 1.   , -0.333]))
    """
    u = logits(D, beta_f)
    terms = pair_terms(u, np.full(u.size, v))
    p = terms.f * terms.e
    odds = p / np.maximum(terms.unlabelled, np.finfo(float).tiny)
    tangent = np.column_stack([terms.not_f[:, None] * D, terms.not_f, np.ones(u.size)])
    return ConstantPropensity(p, odds, np.where(s == 1, 1.0, -odds), tangent, w)


def efficient_part(rows: ConstantPropensity, A: Matrix) -> Matrix:
    r"""Return the columns of `A` without what the model's own parameters explain.

    The residuals of least squares of `A` on the tangent with weights :math:`w P/(1-P)`: sums :math:`\sum_i w_i r_i a_i`
    then do not change, to first order, when `f` and `c` are estimated from the same labels.

    Examples
    --------
    >>> rows = constant_propensity(np.zeros((4, 0)), np.array([1.0, 0, 0, 0]), np.ones(4), np.zeros(1), 0.0)
    >>> efficient_part(rows, np.array([[1.0], [2.0], [3.0], [6.0]])).ravel().round(9) + 0.0
    array([-2., -1.,  0.,  3.])
    """
    root = np.sqrt(rows.w * rows.odds)[:, None]
    explained = np.linalg.lstsq(root * rows.tangent, root * A, rcond=None)[0]
    return np.asarray(A - rows.tangent @ explained)


class ScoreStatistic(NamedTuple):
    """A statistic that is chi-squared with so many degrees of freedom where the propensity is constant."""

    statistic: float
    degrees_of_freedom: int


def score_statistic(rows: ConstantPropensity, Z: Matrix) -> ScoreStatistic:
    r"""Return Rao's statistic :math:`U'V^{-1}U` of effects of the columns of `Z` on the labelling.

    With `A` the efficient part of `Z`, :math:`U = A'\mathrm{diag}(w)r` is the score of their slopes and
    :math:`V = A'\mathrm{diag}(wP/(1-P))A` its variance. Nothing but the fit with constant propensity is needed, so
    that it holds where the slopes themselves are hardly known. Columns of unit variance; directions without variance
    are left out. C. R. Rao, "Large sample tests of statistical hypotheses concerning several parameters", Mathematical
    Proceedings of the Cambridge Philosophical Society 1948.

    Examples
    --------
    >>> s, z = np.array([1.0, 1, 0, 0, 0, 0]), np.array([[1.0], [1], [1], [-1], [-1], [-1]])
    >>> rows = constant_propensity(np.zeros((6, 0)), s, np.ones(6), np.array([50.0]), np.log(0.5))  # 1/3 is labelled
    >>> statistic, degrees = score_statistic(rows, z)
    >>> round(statistic, 6), degrees  # Pearson's chi-squared of the table of s and z
    (3.0, 1)
    """
    A, variance = efficient_part(rows, Z), rows.w * rows.odds
    values, vectors = np.linalg.eigh((A * variance[:, None]).T @ A)
    along = vectors.T @ ((rows.w * rows.residual) @ A)
    strong = values > INDEPENDENT * float(variance @ np.square(Z).sum(axis=1))
    return ScoreStatistic(float(np.sum(along[strong] ** 2 / values[strong])), int(strong.sum()))


def independent_columns(Z: Matrix) -> NDArray[np.intp]:
    """Return the columns that are neither constant nor a linear combination of those before them.

    Examples
    --------
    >>> independent_columns(np.array([[1.0, 0.0, 2.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1.0, 2.0, -2.0, 0.0]]))
    array([1, 3])
    """
    basis: list[Vector] = []
    kept = []
    for j, z in enumerate(Z.T):
        left = z - z.mean()
        largest = float(np.abs(z).max(initial=0.0))
        total = float(left @ left)
        if total <= z.size * (1e-12 * largest) ** 2:
            continue
        for _ in range(2):  # once more for the digits that the first pass lost
            for direction in basis:
                left = left - (direction @ left) * direction
        length = float(left @ left)
        if length > INDEPENDENT * total:
            basis.append(left / np.sqrt(length))
            kept.append(j)
    return np.array(kept, dtype=np.intp)


def holm(p: Vector) -> Vector:
    r"""Return p-values adjusted for multiplicity by Holm's step-down rule; NaN stays and does not count.

    The :math:`i`-th smallest of :math:`m` is multiplied by :math:`m - i + 1`, kept from falling and cut at 1. The
    chance of any false rejection is at most the level, however the tests depend on each other. Holm, "A simple
    sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    adjusted = np.full(p.size, np.nan)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted last
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1.0)
    return adjusted


def below_thresholds(z: Vector, w: Vector, most: int) -> Matrix:
    """Return indicators ``z <= t``, one column for each value `t` but the largest; at most so many, at quantiles.

    Quantiles are values that occur, of each row as often as it counts.

    Examples
    --------
    >>> below_thresholds(np.array([3.0, 1.0, 2.0]), np.ones(3), 10)
    array([[0., 0.],
           [1., 1.],
           [0., 1.]])
    """
    thresholds = np.unique(z)[:-1]
    if thresholds.size > most:
        order = np.argsort(z, kind="stable")
        ends = np.cumsum(w[order])
        places = (ends[-1] - 1.0) * (np.arange(1, most + 1) / (most + 1))
        at_quantiles = np.unique(z[order][np.searchsorted(ends, places, side="right")])
        below_all = at_quantiles[at_quantiles <= thresholds[-1]]
        thresholds = below_all if below_all.size else thresholds[-1:]
    return (z[:, None] <= thresholds).astype(np.float64)


def largest_distances(sums: Matrix, sizes: list[int]) -> Vector:
    """Return, for each row of `sums`, the largest absolute value within each group of columns, added up over groups.

    Examples
    --------
    >>> largest_distances(np.array([[1.0, -2.0, 0.5], [0.0, 1.0, -3.0]]), [2, 1])
    array([2.5, 4. ])
    """
    starts = np.cumsum([0, *sizes[:-1]])
    return np.asarray(np.maximum.reduceat(np.abs(sums), starts, axis=1).sum(axis=1))
