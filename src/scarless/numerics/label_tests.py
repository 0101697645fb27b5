r"""Tests of the labelling: is the propensity constant, and do labels depend on groups of columns?

Under SCAR :math:`\Pr(s=1|x) = P = c f(x)`. The score of a row's labelling logit is :math:`1 - c` times

.. math:: r = s - (1-s)\frac{P}{1-P},

a labelled row against the odds of an unlabelled one: :math:`\mathrm{E}[r|x] = 0` and :math:`\mathrm{Var}[r|x] =
P/(1-P)`. Since :math:`P/(1-P)` is, up to a constant, the chance :math:`f(1-c)/(1-P)` that an unlabelled row is
positive, sums of :math:`r` compare the labelled positives with those left unlabelled. Rows count as often as their
weights :math:`w` say.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh
from scipy.special import expit
from scipy.stats import chi2

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.likelihood import pair_terms
from scarless.numerics.linear import logits, unit_diagonal

_MAX_NEWTON_STEPS, _LOSS_TOLERANCE = 50, 1e-8
_MIN_LABEL_PROBABILITY = 1e-12  # of a label, and of none
#: Share of a direction that must be left after the ones before it are taken out, to count as a direction of its own
#: in tests of SCAR. By judgement: half of the digits.
MIN_INDEPENDENT_SHARE = 1e-8
#: Share of a column's variance below which a direction is taken to have none, in tests of labels. By judgement.
_MIN_VARIANCE_SHARE = 1e-9
#: Rows of the rarer kind, labelled or not, that a column needs in a Wald test of labels; with fewer the information
#: matrix promises too much. Evidence: with 5 to 9 events per variable problems were uncommon in simulations of
#: logistic regression (Vittinghoff and McCulloch 2007, American Journal of Epidemiology 165).
ROWS_PER_COLUMN = 5.0
#: Ridge on slopes of standardised columns in tests of labels: it keeps levels finite that only one kind of rows
#: has. By judgement.
_SLOPE_RIDGE = 1.0


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
    strong = values > MIN_INDEPENDENT_SHARE * float(variance @ np.square(Z).sum(axis=1))
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
        if length > MIN_INDEPENDENT_SHARE * total:
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


def label_tests(Z: Matrix, s: Vector, groups: list[list[int]]) -> Vector:
    """Return a p-value for each group of standardised columns: that of no effect on the labels given the others.

    Wald's test in one logistic model of the labels. Columns that the labels are too few for come by the strength of
    their own association (the score test of each group alone), which is also the p-value of a group left out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 3))
    >>> s = (rng.random(500) < expit(Z[:, 0])).astype(float)
    >>> (label_tests(Z, s, [[0], [1, 2]]) < 0.01).tolist()
    [True, False]
    """
    alone = np.array([score_test(Z[:, group], s) for group in groups])
    most = min(s.sum(), s.size - s.sum()) / ROWS_PER_COLUMN
    chosen, taken = [], 0
    for i in np.argsort(alone, kind="stable"):
        if taken + len(groups[i]) <= most:
            chosen.append(int(i))
            taken += len(groups[i])
    if not chosen:
        return alone
    columns = np.concatenate([groups[i] for i in chosen])
    beta, covariance = _ridge_logistic(Z[:, columns], s)
    place = np.cumsum([0, *(len(groups[i]) for i in chosen)])
    found = alone.copy()
    for i, first, last in zip(chosen, place[:-1], place[1:], strict=True):
        part = slice(int(first), int(last))
        found[i] = wald_test(beta[part], covariance[part, part])
    return found


def score_test(Z: Matrix, s: Vector) -> float:
    """Return the p-value of no association of the labels with some columns, taken alone."""
    centred, share = Z - Z.mean(axis=0), float(s.mean())
    return wald_test(centred.T @ (s - share), share * (1.0 - share) * (centred.T @ centred))


def wald_test(value: Vector, covariance: Matrix, whole: Matrix | None = None) -> float:
    r"""Return the p-value of :math:`v' V^{-1} v`, chi-squared with the rank of `V`; 1 where that is 0.

    Directions without variance do not count; `whole` is what `V` was before nuisance parameters took their part, and
    says what is without.
    """
    scale = unit_diagonal(covariance if whole is None else whole)[1]
    scaled_covariance = covariance * scale[:, None] * scale
    inverse, rank = pinvh(scaled_covariance, atol=_MIN_VARIANCE_SHARE * scale.size, return_rank=True)
    scaled = scale * value
    return float(chi2.sf(scaled @ inverse @ scaled, rank)) if rank else 1.0


def second_factor_test(
    Z: Matrix, tested: Matrix, s: Vector, weight: Vector, f: Vector, c: float, groups: list[list[int]] | None = None
) -> float:
    r"""Return the p-value of a constant second factor, where labels come by :math:`p = f(x)\,c` under the hypothesis.

    Rao's efficient score test of the slopes of the second factor, which sees the columns `tested`: of all of them, or
    with `groups` also of each group; then it is twice the smaller of both p-values, the second adjusted for the number
    of groups, since one strong group among many is lost in the test of all. The logit's score is
    :math:`(s - p)/(1 - p)` up to the constant :math:`1 - c`, which cancels, so that a fit with :math:`c = 1` does no
    harm. The slopes of `f`, a logistic model of the columns `Z`, and the level `c` are nuisance parameters. No model
    with two factors is fitted: the test does not depend on a penalty, nor on how flat the likelihood of such a pair is,
    which makes Wald's test lose its power.

    Which of both factors is the class does not matter: swap them.
    """
    p = np.minimum(f * c, 1.0 - _MIN_LABEL_PROBABILITY)
    residual, variance = (s - p) / (1.0 - p), np.maximum(p, _MIN_LABEL_PROBABILITY) / (1.0 - p)
    ones = np.ones((len(tested), 1))
    A = np.hstack([Z, ones]) * (1.0 - f)[:, None]
    nuisance = np.hstack([A, ones])
    centred = tested - np.average(tested, axis=0, weights=weight)
    w = weight * variance
    inner = (nuisance * w[:, None]).T @ nuisance
    across = (nuisance * w[:, None]).T @ centred
    slopes = pinvh(inner, rtol=_MIN_VARIANCE_SHARE) @ across
    rest = centred - nuisance @ slopes
    score, covariance = rest.T @ (weight * residual), (rest * w[:, None]).T @ rest
    whole = (centred * w[:, None]).T @ centred
    joint = wald_test(score, covariance, whole)
    if not groups or len(groups) == 1:
        return joint
    alone = min(wald_test(score[g], covariance[np.ix_(g, g)], whole[np.ix_(g, g)]) for g in groups)
    return float(min(2.0 * min(joint, len(groups) * alone), 1.0))


def _ridge_logistic(Z: Matrix, s: Vector) -> tuple[Vector, Matrix]:
    r"""Return slopes of a logistic model with a weak ridge `R`, and their covariance :math:`A^{-1} H A^{-1}`,
    :math:`A = H + R`.
    """
    X = np.column_stack([Z, np.ones(len(Z))])
    beta, ridge = np.zeros(X.shape[1]), np.append(np.full(Z.shape[1], _SLOPE_RIDGE), 0.0)
    beta[-1] = np.log(s.mean() / (1.0 - s.mean()))

    def loss(at: Vector) -> float:
        u = X @ at
        return float(np.logaddexp(0.0, u).sum() - s @ u + 0.5 * ridge @ at**2)

    now = loss(beta)
    for _ in range(_MAX_NEWTON_STEPS):
        f = expit(X @ beta)
        H = (X * (f * (1.0 - f))[:, None]).T @ X
        step = np.linalg.solve(H + np.diag(ridge), X.T @ (s - f) - ridge * beta)
        size = 1.0
        while (new := loss(beta + size * step)) > now and size > 1e-4:  # Newton's step may overshoot
            size /= 2.0
        if now - new < _LOSS_TOLERANCE:
            break
        beta, now = beta + size * step, new
    inverse = np.linalg.inv(H + np.diag(ridge))
    return beta[:-1], (inverse @ H @ inverse)[:-1, :-1]
