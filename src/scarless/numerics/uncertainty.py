r"""How sure one can be of two logistic models fitted together: variances by the delta method.

With the penalised information :math:`A = H + R` at the optimum (`H` of the likelihood, `R` the ridge), a smooth
function `g` of the parameters has the variance :math:`\nabla g' A^{-1} \nabla g`. That is the posterior variance of the
Gaussian prior which the ridge stands for. It adds to the sampling variance of the estimate,
:math:`A^{-1} H A^{-1}`, the square of the bias that such a prior expects, :math:`A^{-1} R A^{-1}`; without that part,
what the penalty alone decides would have no uncertainty at all. Over 20 small effects drawn from such a prior
(C = 0.01, 5,000 rows) 95% intervals covered 94.5% of the time with it and 90.0% without (``python -m
benchmarks.uncertainty covariance``).

References
----------
Nychka (1988), "Bayesian confidence intervals for smoothing splines", JASA 83. Wood (2017), "Generalized Additive
Models", 2nd edition, section 6.10.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit, ndtri, stdtrit

from scarless.numerics.arrays import Matrix, Vector, in_float64, like, namespace_of, zeros
from scarless.numerics.likelihood import sigmoid_pair
from scarless.numerics.linear import unit_diagonal

_NO_PART = 1e-5  # of the largest entry of a direction: less is rounding. A level of one row in 10,000 has 0.01.


_NO_LOOKS: Any = np.zeros(0)


class PairSums(NamedTuple):
    """What a fitted pair says of all rows together; each a sum over rows, weighted by how often a row counts.

    With `d` the probability that a positive row gets any label at its looks, and `e` that of a label at one look; one
    label of each row has :math:`d = e`. Fields by kind of look are last: model files have sums without them.
    """

    log_likelihood: Vector
    weight: Vector  # sum of w
    labelled: Vector  # rows with any label
    positives: Vector  # of w f
    labelled_positives: Vector  # of w f d
    propensities: Vector  # of w d
    squares: Vector  # of w f^2, w f^2 d, w f^2 d^2
    positives_gradient: Vector  # of the sum of w f, by all parameters
    labelled_positives_gradient: Vector
    columns: Vector  # of w [x, 1], for the columns of all models: where their zeros lie
    by_look: Vector = _NO_LOOKS  # of w f e, for each kind of look
    by_look_gradient: Matrix = _NO_LOOKS  # a line for each kind of look
    by_look_squares: Matrix = _NO_LOOKS  # of w f^2 e and w f^2 e^2, for each kind of look
    audits: Vector = _NO_LOOKS  # how many rows were checked: positive, negative
    looks: Vector = _NO_LOOKS  # how often each kind took place
    labels: Vector = _NO_LOOKS  # and how often it found a label

    def of_one_look(self) -> "PairSums":
        """Return the same with the fields by kind of look, where every row had one look and no audit."""
        xp = namespace_of(self.squares)
        return self._replace(
            by_look=xp.reshape(self.labelled_positives, (1,)),
            by_look_gradient=xp.reshape(self.labelled_positives_gradient, (1, -1)),
            by_look_squares=xp.reshape(self.squares[1:], (2, 1)),
            audits=zeros(self.squares, 2),
            looks=xp.reshape(self.weight, (1,)),
            labels=xp.reshape(self.labelled, (1,)),
        )


class Functional(NamedTuple):
    """A number that depends on the parameters and on which rows were drawn."""

    value: float
    gradient: Vector  # by the parameters, the rows kept
    row_variance: float  # from drawing the rows, the parameters kept


def class_prior(sums: PairSums) -> Functional:
    r"""The mean of `f`, as an estimate of :math:`\Pr(y=1)` in the population that the rows come from.

    Its variance is :math:`\nabla' A^{-1} \nabla + \mathrm{Var}(f)/n`. The two parts add up, since at the true
    parameters the score has mean 0 given the rows. Weights count rows: `n` is their sum.
    """
    n, positives = float(sums.weight), float(sums.positives)
    mean = positives / n
    variance = max(float(sums.squares[0]) / n - mean**2, 0.0)
    return Functional(mean, sums.positives_gradient / n, variance / n)


def label_frequency(sums: PairSums) -> Functional:
    r"""The ratio :math:`c = \sum f d / \sum f`, as an estimate of :math:`\Pr(s=1|y=1)` in the population.

    A row moves it by :math:`f (d - c) / \sum f`; the sum of the squares of that is the variance from drawing the rows.
    """
    return _label_frequency(sums, sums.labelled_positives, sums.labelled_positives_gradient, sums.squares[1:])


def label_frequency_of_look(sums: PairSums, kind: int) -> Functional:
    r"""The share of positives that a kind of look labels, :math:`\sum f e / \sum f`, if it took place at every row."""
    return _label_frequency(sums, sums.by_look[kind], sums.by_look_gradient[kind], sums.by_look_squares[:, kind])


def _label_frequency(sums: PairSums, found: Any, found_gradient: Vector, squares: Vector) -> Functional:
    positives, f_f = float(sums.positives), float(sums.squares[0])
    c = float(found) / positives
    gradient = (found_gradient - c * sums.positives_gradient) / positives
    f_fe, fe_fe = (float(value) for value in squares)
    return Functional(c, gradient, max(fe_fe - 2.0 * c * f_fe + c**2 * f_f, 0.0) / positives / positives)


@dataclass(frozen=True)
class Precision:
    r"""A positive semi-definite matrix :math:`A`, taken apart so that it can be divided by.

    :math:`A = D V \Lambda V' D` with :math:`D^2` the diagonal of `A`, so columns of very different units do no harm.
    Directions whose eigenvalue is rounding noise are kept apart: what leans on them has an infinite variance.
    """

    values: Vector  # ascending eigenvalues of the matrix with a unit diagonal
    vectors: Matrix
    scale: Vector  # 1 / sqrt(diagonal), where the diagonal is positive
    noise: float

    @property
    def null(self) -> Matrix:
        """Directions without information, as columns, in the units of the parameters."""
        return self.scale[:, None] * self.vectors[:, self.values <= self.noise]

    @property
    def root(self) -> Matrix:
        """A root of the inverse, as far as there is one: the inverse is ``root @ root.T`` off the null directions."""
        told = self.values > self.noise
        return self.scale[:, None] * (self.vectors[:, told] / np.sqrt(self.values[told]))

    @property
    def condition(self) -> float:
        """Ratio of the largest to the smallest eigenvalue; infinite where a direction has no information."""
        smallest = float(self.values[0])
        return float(self.values[-1]) / smallest if smallest > self.noise else np.inf

    def errors(self, gradients: Matrix) -> Vector:
        r"""Return :math:`\sqrt{g' A^{-1} g}` for each row `g`; infinity where it leans on a null direction."""
        return self._errors(gradients @ self.root, gradients @ self.null, np.square(gradients) @ self.scale**2)

    def logit_errors(self, X: Any, part: slice) -> Vector:
        r"""Return the standard error of each row's logit under the model whose parameters are at `part`.

        .. math:: \sqrt{[x, 1]\, V [x, 1]'}, \qquad V = (A^{-1})_\mathrm{part}

        Rows dense, CSR or of any array API namespace. In float64 also for float32 rows, since what adds up may cancel.
        """
        squared = X.multiply(X) if sparse.issparse(X) else namespace_of(X).square(X)
        whole = _exactly_along(squared, self.scale[part] ** 2)
        return self._errors(_exactly_along(X, self.root[part]), _exactly_along(X, self.null[part]), whole)

    def _errors(self, along_root: Matrix, along_null: Matrix, squared_length: Vector) -> Vector:
        xp = namespace_of(along_root)
        astray = _squared_lengths(along_null)
        return xp.where(astray > self.noise * squared_length, np.inf, xp.sqrt(_squared_lengths(along_root)))


def _exactly_along(X: Any, side: Any) -> Any:
    """Return ``[X, 1] @ side`` in float64, whatever the rows are in."""
    xp = namespace_of(X)
    if xp is np:
        return np.asarray(X @ side[:-1], dtype=np.float64) + side[-1]
    X = in_float64(X)
    side = like(X, side)
    return X @ side[:-1, ...] + side[-1, ...]


def _squared_lengths(rows: Any) -> Any:
    xp = namespace_of(rows)
    return np.einsum("ij,ij->i", rows, rows) if xp is np else xp.sum(rows * rows, axis=1)


def precision(matrix: Matrix, *, noise: float) -> Precision:
    """Take a symmetric matrix apart. `noise` is the relative error of its entries.

    Examples
    --------
    >>> apart = precision(np.array([[4.0, 0.0], [0.0, 0.25]]), noise=1e-13)
    >>> apart.errors(np.eye(2))
    array([0.5, 2. ])
    """
    scaled, scale = unit_diagonal(matrix)
    values, vectors = np.linalg.eigh(scaled)
    return Precision(values, vectors, scale, _eigenvalue_noise(matrix, noise))


def is_definite(matrix: Matrix, *, noise: float) -> bool:
    """Whether a symmetric matrix, scaled to a unit diagonal, has positive eigenvalues only, all beyond rounding.

    Examples
    --------
    >>> is_definite(np.eye(2), noise=1e-13), is_definite(np.ones((2, 2)), noise=1e-13)
    (True, False)
    """
    return _eigenvalues_exceed(matrix, _eigenvalue_noise(matrix, noise))


def is_semi_definite(matrix: Matrix, *, noise: float) -> bool:
    """Whether a symmetric matrix, scaled to a unit diagonal, has no negative eigenvalue beyond rounding.

    Examples
    --------
    >>> is_semi_definite(np.ones((2, 2)), noise=1e-13), is_semi_definite(np.diag([1.0, -1.0]), noise=1e-13)
    (True, False)
    """
    return _eigenvalues_exceed(matrix, -_eigenvalue_noise(matrix, noise))


def _eigenvalues_exceed(matrix: Matrix, bound: float) -> bool:
    scaled, _ = unit_diagonal(matrix)
    try:
        np.linalg.cholesky(scaled - bound * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def _eigenvalue_noise(matrix: Matrix, noise: float) -> float:
    """Return the error of an eigenvalue: that of a matrix of independent small errors."""
    return noise * float(np.sqrt(len(matrix)))


_LEAST_Z = 1e-300


def logit_interval(logit: Vector, error: Vector, z: float) -> tuple[Vector, Vector]:
    r"""Return the ends of :math:`\sigma(\mathrm{logit} \pm z\,\mathrm{error})`, which stay inside 0 and 1.

    An infinite error gives the interval from 0 to 1, wherever its centre is.

    Examples
    --------
    >>> logit_interval(np.zeros(2), np.array([1.0, np.inf]), 1.96)
    (array([0.12346705, 0.        ]), array([0.87653295, 1.        ]))
    """
    xp = namespace_of(logit)
    centre = xp.where(xp.isfinite(error), logit, 0.0)
    reach = xp.where(xp.isfinite(error), max(z, _LEAST_Z) * error, xp.inf)  # also where z is 0 to rounding
    lower, upper = centre - reach, centre + reach
    return (expit(lower), expit(upper)) if xp is np else (sigmoid_pair(lower)[0], sigmoid_pair(upper)[0])


def centring(parts: list[Vector]) -> Matrix:
    r"""Return `T` such that :math:`T\gamma` are the parameters, :math:`\gamma` those of columns about their means.

    A part is the sum of ``w [x, 1]`` over rows for one model. Coefficients stay; the intercept becomes the logit of the
    average row. Whether columns lie far from 0, as years do, then makes no difference to what is near-collinear.
    """
    size = sum(part.size for part in parts)
    T, end = np.eye(size), 0
    for part in parts:
        start, end = end, end + part.size
        T[end - 1, start : end - 1] = -part[:-1] / part[-1]
    return T


def centred(matrix: Matrix, T: Matrix, *, noise: float) -> tuple[Matrix, float]:
    """Return ``T' matrix T``, with rows of mere rounding set to 0, and the relative error of what is left."""
    moved = T.T @ matrix @ T
    before, after = np.abs(np.diagonal(matrix)), np.abs(np.diagonal(moved))
    gone = after <= 10.0 * noise * before  # a column that does not vary
    moved[gone] = 0.0
    moved[:, gone] = 0.0
    lost = float((before[~gone] / after[~gone]).max(initial=1.0))
    return moved, noise * max(lost, 1.0)


def with_few_entries(basis: Matrix) -> Matrix:
    """Return a basis of the same space, columns of length 1, each with as few entries as elimination finds.

    Reduced echelon form: any mixture of directions is as good, and those that belong to different things come apart.

    Examples
    --------
    >>> mixed = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    >>> np.abs(with_few_entries(mixed)).round(2)
    array([[0.71, 0.  ],
           [0.71, 0.  ],
           [0.  , 1.  ]])
    """
    rows = basis.T.copy()
    for k in range(len(rows)):
        row, column = divmod(int(np.argmax(np.abs(rows[k:]))), rows.shape[1])
        rows[[k, k + row]] = rows[[k + row, k]]
        rows[k] /= rows[k, column]
        others = np.arange(len(rows)) != k
        rows[others] -= np.outer(rows[others, column], rows[k])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T


def collinear_columns(information: Matrix, columns: Vector, *, noise: float) -> list[NDArray[np.intp]]:
    r"""Return the sets of columns of one model that a linear combination makes constant, the smallest sets first.

    Such a combination `v` has :math:`X v = a 1`, and so no information, whatever the weights of the rows: about the
    columns' means :math:`H v = 0`. `information` is that of one model, `columns` the sum of ``w [x, 1]`` over rows.
    """
    moved, _ = centred(information, centring([columns]), noise=noise)
    apart = precision(moved[:-1, :-1], noise=noise)
    before, after = np.abs(np.diagonal(information))[:-1], np.abs(np.diagonal(moved))[:-1]
    lost = np.divide(before, after, out=np.ones_like(before), where=after > 0)  # digits, to the mean of each column
    bound = noise * before.size * (np.maximum(lost, 1.0) @ apart.vectors**2)
    null = with_few_entries(apart.vectors[:, np.abs(apart.values) <= bound])
    smallest = max(_NO_PART, np.sqrt(noise))
    found = [np.flatnonzero(np.abs(vector) > smallest * np.abs(vector).max()) for vector in null.T]
    return sorted(found, key=lambda members: (members.size, members.tolist()))


def added_scores(fitted: Matrix, added: Matrix, residual: Vector, ridge: Vector) -> Vector:
    r"""Return Rao's score statistic of each direction that a fitted model leaves out, one at a time.

    Rows of `fitted` and `added` are derivatives of the row's linear predictors times the root of its information;
    `residual` is standardised. With :math:`A = F'F + R` the penalised information and :math:`c = A^{-1}F'z`, a
    direction `z` has the efficient score :math:`(z - Fc)'r` with variance :math:`z'z - z'Fc`. NaN where the fitted
    directions leave nothing of it. Chi-squared with one degree of freedom where the model holds.

    Examples
    --------
    >>> fitted, added = np.array([[1.0], [1.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> added_scores(fitted, added, np.array([1.0, 1.0, -1.0, -1.0]), np.zeros(1))
    array([4.])
    >>> added_scores(fitted, fitted, np.ones(4), np.zeros(1))  # nothing new
    array([nan])
    """
    scale = np.sqrt(np.square(fitted).sum(axis=0) + ridge)
    scale = np.where(scale > 0, scale, 1.0)
    units = fitted / scale
    values, vectors = np.linalg.eigh(units.T @ units + np.diag(ridge / scale**2))
    told = values > values[-1] * 1e-10
    inverse = (vectors[:, told] / values[told]) @ vectors[:, told].T
    along = units.T @ added
    explained = inverse @ along
    squares = np.square(added).sum(axis=0)
    variance = squares - np.einsum("ij,ij->j", along, explained)
    score = residual @ added - (residual @ units) @ explained
    return np.divide(score**2, variance, out=np.full(squares.size, np.nan), where=variance > 1e-6 * squares)


class Interval(NamedTuple):
    """The ends of an interval of one number: ``low, high = interval``.

    A confidence interval, or the smallest and the largest possible value; NaN twice where there is none.

    Examples
    --------
    >>> low, high = Interval(0.2, 0.5)
    >>> Interval(0.2, 0.5).high
    0.5
    """

    low: float
    high: float


def quantile(level: float, freedom: float = math.inf) -> float:
    """Return how many standard errors an interval reaches to each side; finite also for the level nearest to 1.

    By Student's distribution where errors have a finite number of degrees of freedom.

    Examples
    --------
    >>> round(quantile(0.95), 6), round(quantile(0.9999999999999999), 6)
    (1.959964, 8.292361)
    >>> round(quantile(0.95, 29), 6)
    2.04523
    """
    tail = (1.0 - level) / 2.0
    return -float(ndtri(tail) if math.isinf(freedom) else stdtrit(freedom, tail))


def find_root(function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12) -> float:
    """Return where `function`, of opposite signs at both ends, is 0 (Brent's method).

    SciPy leaves a reference cycle around its function, and with it everything that the function can reach, until the
    garbage collector comes by: kernel matrices of a hundred megabytes, one for each call. Here the function is let go.

    Examples
    --------
    >>> round(find_root(lambda x: x**2 - 2.0, 0.0, 2.0), 6)
    1.414214
    """
    held = [function]
    try:
        return float(brentq(lambda x: held[0](x), low, high, xtol=xtol))  # noqa: PLW0108 (it would hold the function)
    finally:
        held.clear()


def least_squares_slope(series: Iterable[Vector]) -> Vector:
    r"""Return the slope, per entry, of the least-squares line through equally spaced vectors.

    .. math:: \frac{\sum_t (t - \bar t)\,x_t}{\sum_t (t - \bar t)^2}

    Examples
    --------
    >>> least_squares_slope([np.array([0.0, 1.0]), np.array([2.0, 1.0]), np.array([4.0, 1.0])])
    array([2., 0.])
    """
    values = list(series)
    centred = np.arange(len(values)) - (len(values) - 1) / 2.0
    total = sum(c * x for c, x in zip(centred, values, strict=True))
    return np.asarray(total / (centred @ centred))
