r"""Tests of the labelling: whether the propensity is constant, and whether labels depend on groups of columns.

Under SCAR :math:`\Pr(s=1|x) = P = c f(x)`. The score of a row's labelling logit is :math:`1 - c` times

.. math:: r = s - (1-s)\frac{P}{1-P},

with :math:`\mathrm{E}[r|x] = 0` and :math:`\mathrm{Var}[r|x] = P/(1-P)`. Up to a constant, :math:`P/(1-P)` is the
probability :math:`f(1-c)/(1-P)` that an unlabelled row is positive. Sums of :math:`r` therefore compare labelled with
unlabelled positives. Row weights :math:`w` are counts of rows.
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
_MIN_LABEL_PROBABILITY = 1e-12  # lower bound of the probabilities of a label and of no label
#: A column counts as linearly independent in tests of SCAR if at least this share of its variance remains after a
#: regression on the columns before it. By judgement: half of the digits of float64.
MIN_INDEPENDENT_SHARE = 1e-8
#: Share of a column's variance below which a direction counts as constant, in tests of labels. By judgement.
_MIN_VARIANCE_SHARE = 1e-9
#: Minimum number of rows of the rarer kind (labelled or unlabelled) for each column in a Wald test of labels. With
#: fewer, the standard errors are too small. Evidence: with 5 to 9 events per variable problems were uncommon in
#: simulations of logistic regression (Vittinghoff and McCulloch 2007, American Journal of Epidemiology 165).
ROWS_PER_COLUMN = 5.0
#: Ridge penalty on slopes of standardised columns in tests of labels. It keeps slopes finite for categories that occur
#: only in labelled or only in unlabelled rows. By judgement.
_SLOPE_RIDGE = 1.0


class ConstantPropensity(NamedTuple):
    """Probabilities and residuals of the rows under a logistic `f` and a constant `e`."""

    p: Vector  # Pr(s=1 | x)
    odds: Vector  # p / (1-p), the variance of the residuals
    residual: Vector
    tangent: Matrix  # for each row, the derivatives of log p by the parameters of f and by the logit of e
    w: Vector  # row weights


def constant_propensity(D: Matrix, s: Vector, w: Vector, beta_f: Vector, v: float) -> ConstantPropensity:
    r"""Return probability, residual and derivatives of each row for :math:`P = \sigma(v)\,\sigma(D\beta + \beta_0)`.

    :math:`\partial\log P/\partial\beta = (1-f)\,[D, 1]` and :math:`\partial\log P/\partial v = 1-e`. The latter is
    constant, so its column is 1. At the maximum of the likelihood, ``(w * residual) @ tangent`` is 0.

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
    r"""Return the residuals of the columns of `A` after a regression on the derivatives by the model's parameters.

    The regression is least squares on the tangent with weights :math:`w P/(1-P)`. With residuals in place of `A`, the
    errors of the estimated `f` and `c` do not change the sums :math:`\sum_i w_i r_i a_i` to first order.

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
    """A statistic that is chi-squared distributed if the propensity is constant, and its degrees of freedom."""

    statistic: float
    degrees_of_freedom: int


def score_statistic(rows: ConstantPropensity, Z: Matrix) -> ScoreStatistic:
    r"""Return Rao's statistic :math:`U'V^{-1}U` of effects of the columns of `Z` on the labelling.

    With `A` the efficient part of `Z`, :math:`U = A'\mathrm{diag}(w)r` is the score of their slopes and
    :math:`V = A'\mathrm{diag}(wP/(1-P))A` its variance. The test needs only the fit with constant propensity. It is
    valid even if the slopes themselves are poorly determined. Columns must have unit variance; directions without
    variance are left out. C. R. Rao, "Large sample tests of statistical hypotheses concerning several parameters",
    Mathematical Proceedings of the Cambridge Philosophical Society 1948.

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
    """Return the positions of columns that are neither constant nor a linear combination of earlier columns.

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
        for _ in range(2):  # The second pass of Gram-Schmidt restores the digits that the first one loses.
            for direction in basis:
                left = left - (direction @ left) * direction
        length = float(left @ left)
        if length > MIN_INDEPENDENT_SHARE * total:
            basis.append(left / np.sqrt(length))
            kept.append(j)
    return np.array(kept, dtype=np.intp)


def holm(p: Vector) -> Vector:
    r"""Return p-values adjusted for multiple tests by Holm's step-down method; NaN values are ignored.

    The :math:`i`-th smallest of :math:`m` p-values is multiplied by :math:`m - i + 1`. The adjusted values are made
    non-decreasing and at most 1. The probability of any false rejection is at most the significance level, whatever
    the dependence between the tests. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 1979.

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
    """Return indicators ``z <= t``, one column for each value `t` of `z` except the largest.

    If there are more than `most` values, the thresholds are `most` weighted quantiles of `z`.

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
    """Return, for each row of `sums`, the largest absolute value within each group of columns, summed over groups.

    Examples
    --------
    >>> largest_distances(np.array([[1.0, -2.0, 0.5], [0.0, 1.0, -3.0]]), [2, 1])
    array([2.5, 4. ])
    """
    starts = np.cumsum([0, *sizes[:-1]])
    return np.asarray(np.maximum.reduceat(np.abs(sums), starts, axis=1).sum(axis=1))


def label_tests(Z: Matrix, s: Vector, groups: list[list[int]]) -> Vector:
    """Return, for each group of standardised columns, the p-value of no effect on the labels given the other groups.

    The tests are Wald tests in one logistic model of the labels. If there are too few labels for all columns,
    only the groups with the strongest association enter the model. The other groups get the p-value of a score test of
    the group alone.

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
    """Return the p-value of the score test of no association between the labels and the columns `Z`."""
    centred, share = Z - Z.mean(axis=0), float(s.mean())
    return wald_test(centred.T @ (s - share), share * (1.0 - share) * (centred.T @ centred))


def wald_test(value: Vector, covariance: Matrix, whole: Matrix | None = None) -> float:
    r"""Return the p-value of :math:`v' V^{-1} v`, which is chi-squared with the rank of `V` as degrees of freedom.

    Directions without variance are left out. If no direction has variance, the p-value is 1. `whole` is the covariance
    before adjustment for nuisance parameters. A variance counts as 0 if it is negligible compared with `whole`.
    """
    scale = unit_diagonal(covariance if whole is None else whole)[1]
    scaled_covariance = covariance * scale[:, None] * scale
    inverse, rank = pinvh(scaled_covariance, atol=_MIN_VARIANCE_SHARE * scale.size, return_rank=True)
    scaled = scale * value
    return float(chi2.sf(scaled @ inverse @ scaled, rank)) if rank else 1.0


def second_factor_test(
    Z: Matrix, tested: Matrix, s: Vector, weight: Vector, f: Vector, c: float, groups: list[list[int]] | None = None
) -> float:
    r"""Return the p-value of the hypothesis that the second factor `c` in :math:`\Pr(s=1|x) = p = f(x)\,c` is constant.

    This is Rao's efficient score test of slopes of the second factor in the columns `tested`. The slopes of `f`, a
    logistic model of the columns `Z`, and the constant `c` are nuisance parameters. The score of the second logit is
    :math:`(s - p)/(1 - p)` times :math:`1 - c`. This constant cancels, so a fit with :math:`c = 1` can be tested too.

    With `groups`, each group is also tested alone, because a joint test can miss one strong group among many. The
    smallest p-value of a group is multiplied by the number of groups (Bonferroni). The result is twice the smaller of
    this product and the joint p-value.

    The test fits no model with two factors. It does not depend on a penalty. It keeps its power if the
    likelihood of a pair is flat, whereas Wald's test loses power. Either of the two factors can be the class model.
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
    r"""Return slopes of a ridge logistic model and their covariance :math:`A^{-1} H A^{-1}`, :math:`A = H + R`."""
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
        while (new := loss(beta + size * step)) > now and size > 1e-4:  # Newton's step can overshoot.
            size /= 2.0
        if now - new < _LOSS_TOLERANCE:
            break
        beta, now = beta + size * step, new
    inverse = np.linalg.inv(H + np.diag(ridge))
    return beta[:-1], (inverse @ H @ inverse)[:-1, :-1]
