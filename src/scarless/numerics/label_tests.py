"""Tests whether labels depend on groups of columns: in one logistic model, and beyond one of two models."""

import numpy as np
from scipy.linalg import pinvh
from scipy.special import expit
from scipy.stats import chi2

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import unit_diagonal

ROWS_PER_COLUMN = 5.0  # of the rarer kind, labelled or not, below which an information matrix promises too much
_RIDGE = 1.0  # keeps levels finite that only one kind of rows has; columns have a standard deviation of about 1
_STEPS, _TOL = 50, 1e-8
_NULL = 1e-9  # share of a column's variance below which a direction has none
_SMALLEST = 1e-12  # chance of a label, and of none


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
    inverse, rank = pinvh(scaled_covariance, atol=_NULL * scale.size, return_rank=True)
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

    Which of both factors is the class does not matter: exchange them.
    """
    p = np.minimum(f * c, 1.0 - _SMALLEST)
    residual, variance = (s - p) / (1.0 - p), np.maximum(p, _SMALLEST) / (1.0 - p)
    ones = np.ones((len(tested), 1))
    A = np.hstack([Z, ones]) * (1.0 - f)[:, None]
    nuisance = np.hstack([A, ones])
    centred = tested - np.average(tested, axis=0, weights=weight)
    w = weight * variance
    inner = (nuisance * w[:, None]).T @ nuisance
    across = (nuisance * w[:, None]).T @ centred
    slopes = pinvh(inner, rtol=_NULL) @ across
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
    beta, ridge = np.zeros(X.shape[1]), np.append(np.full(Z.shape[1], _RIDGE), 0.0)
    beta[-1] = np.log(s.mean() / (1.0 - s.mean()))

    def loss(at: Vector) -> float:
        u = X @ at
        return float(np.logaddexp(0.0, u).sum() - s @ u + 0.5 * ridge @ at**2)

    now = loss(beta)
    for _ in range(_STEPS):
        f = expit(X @ beta)
        H = (X * (f * (1.0 - f))[:, None]).T @ X
        step = np.linalg.solve(H + np.diag(ridge), X.T @ (s - f) - ridge * beta)
        size = 1.0
        while (new := loss(beta + size * step)) > now and size > 1e-4:  # Newton's step may overshoot
            size /= 2.0
        if now - new < _TOL:
            break
        beta, now = beta + size * step, new
    inverse = np.linalg.inv(H + np.diag(ridge))
    return beta[:-1], (inverse @ H @ inverse)[:-1, :-1]
