"""Tests whether labels depend on groups of columns: one group at a time, and all together in one logistic model."""

import numpy as np
from scipy.linalg import pinvh
from scipy.special import expit
from scipy.stats import chi2

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import unit_diagonal

ROWS_PER_COLUMN = 5.0  # of the rarer kind, labelled or not, below which an information matrix promises too much
_RIDGE = 1.0  # keeps levels finite that only one kind of rows has; columns have a standard deviation of about 1
_STEPS, _TOL = 50, 1e-8
_NULL = 1e-9  # share of the largest eigenvalue below which a direction has no variance


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


def wald_test(value: Vector, covariance: Matrix) -> float:
    r"""Return the p-value of :math:`v' V^{-1} v`, chi-squared with the rank of `V`; 1 where that is 0.

    Directions without variance do not count.
    """
    scaled_covariance, scale = unit_diagonal(covariance)
    inverse, rank = pinvh(scaled_covariance, rtol=_NULL, return_rank=True)
    scaled = scale * value
    return float(chi2.sf(scaled @ inverse @ scaled, rank)) if rank else 1.0


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
