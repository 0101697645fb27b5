r"""Standard errors of functions of two logistic models by the delta method.

With the penalised information :math:`A = H + R` at the optimum (`H` of the likelihood, `R` the ridge), a smooth
function `g` of the parameters has the variance :math:`\nabla g' A^{-1} \nabla g`. This is the posterior variance if the
ridge is a Gaussian prior. It is the sampling variance, :math:`A^{-1} H A^{-1}`, plus the squared bias expected under
the prior, :math:`A^{-1} R A^{-1}`. Without the second part, a parameter determined by the penalty alone would have no
uncertainty. With 20 small effects drawn from such a prior (C = 0.01, 5,000 rows), 95% intervals covered 94.5% with this
part and 90.0% without it (``python -m benchmarks uncertainty covariance``).

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
from scipy.special import expit, logit, ndtri, stdtrit

from scarless.numerics.arrays import Matrix, Vector, in_float64, like, namespace_of, zeros
from scarless.numerics.likelihood import sigmoid_pair
from scarless.numerics.linear import unit_diagonal

# Entries of a direction below this share of the largest one are rounding errors. The indicator of a category with one
# row in 10,000 has an entry of 0.01.
_MIN_RELATIVE_ENTRY = 1e-5
LARGEST_SHIFT = 30.0  # of log-odds; a probability of 0.001 or 0.999 is then 0 or 1 up to rounding
_EMPTY: Any = np.zeros(0)


class PairSums(NamedTuple):
    """Weighted sums over rows of the probabilities of a fitted pair, with gradients by the parameters.

    `e` is the probability that a look labels a positive row, and `d` the probability that at least one of its looks
    does. With one label for each row, :math:`d = e`. The fields by kind of look have defaults, because early model
    files lack them.
    """

    log_likelihood: Vector
    weight: Vector  # sum of w
    labelled: Vector  # weight of rows with at least one label
    positives: Vector  # sum of w f
    labelled_positives: Vector  # sum of w f d
    propensities: Vector  # sum of w d
    squares: Vector  # sums of w f^2, w f^2 d, w f^2 d^2
    positives_gradient: Vector  # of `positives`, by all parameters
    labelled_positives_gradient: Vector
    columns: Vector  # sums of w [x, 1] for the columns of all models, used for centring
    by_look: Vector = _EMPTY  # sum of w f e, for each kind of look
    by_look_gradient: Matrix = _EMPTY  # one line for each kind of look
    by_look_squares: Matrix = _EMPTY  # sums of w f^2 e and w f^2 e^2, for each kind of look
    audits: Vector = _EMPTY  # weights of audited positives and audited negatives
    looks: Vector = _EMPTY  # weighted number of looks of each kind
    labels: Vector = _EMPTY  # weighted number of labels at each kind of look

    def of_one_look(self) -> "PairSums":
        """Return the sums with the fields by kind of look filled in, for one look at every row and no audit."""
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
    """A quantity that depends on the parameters and on the sample of rows."""

    value: float
    gradient: Vector  # by the parameters, for fixed rows
    row_variance: float  # variance from sampling the rows, for fixed parameters


def class_prior(sums: PairSums) -> Functional:
    r"""Return the mean of `f` as an estimate of :math:`\Pr(y=1)` in the population from which the rows were sampled.

    Its variance is :math:`\nabla' A^{-1} \nabla + \mathrm{Var}(f)/n`, with `n` the sum of the weights. The two parts
    can be added, because the score at the true parameters has mean 0 given the rows.
    """
    n, positives = float(sums.weight), float(sums.positives)
    mean = positives / n
    variance = max(float(sums.squares[0]) / n - mean**2, 0.0)
    return Functional(mean, sums.positives_gradient / n, variance / n)


def label_frequency(sums: PairSums) -> Functional:
    r"""Return the ratio :math:`c = \sum f d / \sum f` as an estimate of :math:`\Pr(s=1|y=1)` in the population.

    The influence of a row is :math:`f (d - c) / \sum f`. The sum of squared influences is the variance from sampling
    the rows.
    """
    return _label_frequency(sums, sums.labelled_positives, sums.labelled_positives_gradient, sums.squares[1:])


def label_frequency_of_look(sums: PairSums, kind: int) -> Functional:
    r"""Return the share of positives that one kind of look would label in all rows, :math:`\sum f e / \sum f`."""
    return _label_frequency(sums, sums.by_look[kind], sums.by_look_gradient[kind], sums.by_look_squares[:, kind])


def _label_frequency(sums: PairSums, found: Any, found_gradient: Vector, squares: Vector) -> Functional:
    positives, f_f = float(sums.positives), float(sums.squares[0])
    c = float(found) / positives
    gradient = (found_gradient - c * sums.positives_gradient) / positives
    f_fe, fe_fe = (float(value) for value in squares)
    return Functional(c, gradient, max(fe_fe - 2.0 * c * f_fe + c**2 * f_f, 0.0) / positives / positives)


@dataclass(frozen=True)
class Precision:
    r"""The eigendecomposition of a positive semi-definite matrix :math:`A`, for products with its inverse.

    :math:`A = D V \Lambda V' D` with :math:`D^2` the diagonal of `A`, because columns can have very different units.
    Directions whose eigenvalue is only rounding error count as null directions. A linear combination of parameters with
    a part along a null direction has an infinite variance.
    """

    values: Vector  # ascending eigenvalues of the matrix with a unit diagonal
    vectors: Matrix
    scale: Vector  # 1 / sqrt(diagonal) for positive entries of the diagonal
    noise: float  # eigenvalues up to this value are rounding errors

    @property
    def null(self) -> Matrix:
        """Directions without information, as columns, in the units of the parameters."""
        return self.scale[:, None] * self.vectors[:, self.values <= self.noise]

    @property
    def root(self) -> Matrix:
        """A square root of the pseudo-inverse: the inverse is ``root @ root.T`` outside the null directions."""
        informed = self.values > self.noise
        return self.scale[:, None] * (self.vectors[:, informed] / np.sqrt(self.values[informed]))

    @property
    def condition(self) -> float:
        """Ratio of the largest to the smallest eigenvalue; infinite if there is a null direction."""
        smallest = float(self.values[0])
        return float(self.values[-1]) / smallest if smallest > self.noise else np.inf

    def errors(self, gradients: Matrix) -> Vector:
        r"""Return :math:`\sqrt{g' A^{-1} g}` for each row `g`; infinite if `g` has a part along a null direction."""
        return self._errors(gradients @ self.root, gradients @ self.null, np.square(gradients) @ self.scale**2)

    def logit_errors(self, X: Any, part: slice) -> Vector:
        r"""Return the standard error of the logit of each row, for the model whose parameters are at `part`.

        .. math:: \sqrt{[x, 1]\, V [x, 1]'}, \qquad V = (A^{-1})_\mathrm{part}

        Rows are dense arrays of any array API namespace or CSR matrices. Float32 rows are computed in float64 too,
        because the terms can cancel.
        """
        squared = X.multiply(X) if sparse.issparse(X) else namespace_of(X).square(X)
        whole = _exactly_along(squared, self.scale[part] ** 2)
        return self._errors(_exactly_along(X, self.root[part]), _exactly_along(X, self.null[part]), whole)

    def _errors(self, along_root: Matrix, along_null: Matrix, squared_length: Vector) -> Vector:
        xp = namespace_of(along_root)
        uninformed = _squared_lengths(along_null)
        return xp.where(uninformed > self.noise * squared_length, np.inf, xp.sqrt(_squared_lengths(along_root)))


def _exactly_along(X: Any, side: Any) -> Any:
    """Return ``[X, 1] @ side``, computed in float64."""
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
    """Return the eigendecomposition of a symmetric matrix. `noise` is the relative error of its entries.

    Examples
    --------
    >>> found = precision(np.array([[4.0, 0.0], [0.0, 0.25]]), noise=1e-13)
    >>> found.errors(np.eye(2))
    array([0.5, 2. ])
    """
    scaled, scale = unit_diagonal(matrix)
    values, vectors = np.linalg.eigh(scaled)
    return Precision(values, vectors, scale, _eigenvalue_noise(matrix, noise))


def is_definite(matrix: Matrix, *, noise: float) -> bool:
    """Return whether all eigenvalues of a matrix, scaled to a unit diagonal, are positive beyond rounding errors.

    Examples
    --------
    >>> is_definite(np.eye(2), noise=1e-13), is_definite(np.ones((2, 2)), noise=1e-13)
    (True, False)
    """
    return _eigenvalues_exceed(matrix, _eigenvalue_noise(matrix, noise))


def is_semi_definite(matrix: Matrix, *, noise: float) -> bool:
    """Return whether no eigenvalue of a matrix, scaled to a unit diagonal, is negative beyond rounding errors.

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
    """Return the error of an eigenvalue if the entries of the matrix have independent relative errors `noise`."""
    return noise * float(np.sqrt(len(matrix)))


_MIN_Z = 1e-300  # lower bound of z, so that an infinite error times z stays infinite


def logit_interval(logit: Vector, error: Vector, z: float) -> tuple[Vector, Vector]:
    r"""Return the limits of :math:`\sigma(\mathrm{logit} \pm z\,\mathrm{error})`, which are in [0, 1].

    An infinite error gives the interval from 0 to 1 for any logit.

    Examples
    --------
    >>> logit_interval(np.zeros(2), np.array([1.0, np.inf]), 1.96)
    (array([0.12346705, 0.        ]), array([0.87653295, 1.        ]))
    """
    xp = namespace_of(logit)
    centre = xp.where(xp.isfinite(error), logit, 0.0)
    margin = xp.where(xp.isfinite(error), max(z, _MIN_Z) * error, xp.inf)
    lower, upper = centre - margin, centre + margin
    return (expit(lower), expit(upper)) if xp is np else (sigmoid_pair(lower)[0], sigmoid_pair(upper)[0])


def centring(parts: list[Vector]) -> Matrix:
    r"""Return the matrix `T` that converts parameters for centred columns into parameters for the original columns.

    A part is the sum of ``w [x, 1]`` over rows for one model. Coefficients are the same for both. With centred columns,
    the intercept is the logit of the average row. Without centring, columns with values far from 0, such as years,
    would look nearly collinear.
    """
    size = sum(part.size for part in parts)
    T, end = np.eye(size), 0
    for part in parts:
        start, end = end, end + part.size
        T[end - 1, start : end - 1] = -part[:-1] / part[-1]
    return T


def centred(matrix: Matrix, T: Matrix, *, noise: float) -> tuple[Matrix, float]:
    """Return ``T' matrix T`` and the relative error of its entries; rows that are only rounding errors become 0."""
    moved = T.T @ matrix @ T
    before, after = np.abs(np.diagonal(matrix)), np.abs(np.diagonal(moved))
    gone = after <= 10.0 * noise * before  # constant columns
    moved[gone] = 0.0
    moved[:, gone] = 0.0
    lost = float((before[~gone] / after[~gone]).max(initial=1.0))
    return moved, noise * max(lost, 1.0)


def with_few_entries(basis: Matrix) -> Matrix:
    """Return a sparse basis of the same space, with columns of length 1, by Gaussian elimination.

    Any basis of a null space is equally valid. The reduced echelon form separates directions that involve different
    columns.

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
    r"""Return the sets of columns of one model that are collinear, the smallest sets first.

    Columns are collinear if a linear combination `v` of them is constant, :math:`X v = a 1`. The information of centred
    columns then satisfies :math:`H v = 0`, whatever the row weights. `information` is that of one model, and `columns`
    is the sum of ``w [x, 1]`` over rows.
    """
    moved, _ = centred(information, centring([columns]), noise=noise)
    decomposed = precision(moved[:-1, :-1], noise=noise)
    before, after = np.abs(np.diagonal(information))[:-1], np.abs(np.diagonal(moved))[:-1]
    # Loss of precision by centring each column.
    lost = np.divide(before, after, out=np.ones_like(before), where=after > 0)
    bound = noise * before.size * (np.maximum(lost, 1.0) @ decomposed.vectors**2)
    null = with_few_entries(decomposed.vectors[:, np.abs(decomposed.values) <= bound])
    smallest = max(_MIN_RELATIVE_ENTRY, np.sqrt(noise))
    found = [np.flatnonzero(np.abs(vector) > smallest * np.abs(vector).max()) for vector in null.T]
    return sorted(found, key=lambda members: (members.size, members.tolist()))


def added_scores(fitted: Matrix, added: Matrix, residual: Vector, ridge: Vector) -> Vector:
    r"""Return Rao's score statistic of each direction in `added` that a fitted model leaves out, one at a time.

    Each row of `fitted` and `added` has the derivatives of one row's linear predictor, times the square root of the
    row's information. `residual` is standardised. With the penalised information :math:`A = F'F + R` and
    :math:`c = A^{-1}F'z`, a direction `z` has the efficient score :math:`(z - Fc)'r` with variance
    :math:`z'z - z'Fc`. The statistic is chi-squared with one degree of freedom if the model is right. It is NaN if the
    fitted directions explain `z`.

    Examples
    --------
    >>> fitted, added = np.array([[1.0], [1.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> added_scores(fitted, added, np.array([1.0, 1.0, -1.0, -1.0]), np.zeros(1))
    array([4.])
    >>> added_scores(fitted, fitted, np.ones(4), np.zeros(1))  # already in the model
    array([nan])
    """
    scale = np.sqrt(np.square(fitted).sum(axis=0) + ridge)
    scale = np.where(scale > 0, scale, 1.0)
    units = fitted / scale
    values, vectors = np.linalg.eigh(units.T @ units + np.diag(ridge / scale**2))
    informed = values > values[-1] * 1e-10
    inverse = (vectors[:, informed] / values[informed]) @ vectors[:, informed].T
    along = units.T @ added
    explained = inverse @ along
    squares = np.square(added).sum(axis=0)
    variance = squares - np.einsum("ij,ij->j", along, explained)
    score = residual @ added - (residual @ units) @ explained
    return np.divide(score**2, variance, out=np.full(squares.size, np.nan), where=variance > 1e-6 * squares)


class Interval(NamedTuple):
    """Lower and upper limit of an interval: ``low, high = interval``.

    It is a confidence interval, or the smallest and the largest possible value. Both limits are NaN if there is no
    interval.

    Examples
    --------
    >>> low, high = Interval(0.2, 0.5)
    >>> Interval(0.2, 0.5).high
    0.5
    """

    low: float
    high: float


def quantile(level: float, freedom: float = math.inf) -> float:
    """Return the number of standard errors from the centre of an interval to its limits, for a confidence level.

    It is a quantile of the normal distribution, or of Student's distribution if the degrees of freedom are finite. It
    is finite for every level below 1.

    Examples
    --------
    >>> round(quantile(0.95), 6), round(quantile(0.9999999999999999), 6)
    (1.959964, 8.292361)
    >>> round(quantile(0.95, 29), 6)
    2.04523
    """
    tail = (1.0 - float(level)) / 2.0
    return -float(ndtri(tail) if math.isinf(freedom) else stdtrit(freedom, tail))


def find_root(function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12) -> float:
    """Return a root of `function`, whose values at `low` and `high` have opposite signs (Brent's method).

    SciPy's `brentq` leaves a reference cycle around its function. Large arrays that the function uses would stay in
    memory until the garbage collector runs. This wrapper drops the reference to the function.

    Examples
    --------
    >>> round(find_root(lambda x: x**2 - 2.0, 0.0, 2.0), 6)
    1.414214
    """
    held = [function]
    try:
        return float(brentq(lambda x: held[0](x), low, high, xtol=xtol))  # noqa: PLW0108 (brentq would keep it)
    finally:
        held.clear()


def prior_shifts(f: Vector, e: Vector, weight: Vector, priors: Vector, estimate: float) -> Matrix:
    r"""Return the shifts of class and propensity logits for each class prior, in two columns.

    The class shift :math:`\delta` moves the mean of :math:`f' = \sigma(\mathrm{logit} f + \delta)` from the estimate
    to the class prior. The label shift :math:`\varepsilon` of :math:`e' = \sigma(\mathrm{logit} e + \varepsilon)`
    keeps the expected number of labels, :math:`\sum w f' e' = \sum w f e`. Both are 0 at the estimate.

    If the mean of `f` differs from the estimate, because `f` are only some of the rows, the log-odds of all class
    priors are moved by the same amount. The label shift is at most `LARGEST_SHIFT`, for class priors so small that
    every positive has a label.

    Examples
    --------
    >>> f, e = np.array([0.2, 0.6]), np.array([0.5, 0.5])
    >>> delta, epsilon = prior_shifts(f, e, np.ones(2), np.array([0.5]), 0.4)[0]
    >>> shifted = expit(logit(f) + delta)
    >>> print(round(shifted.mean(), 6), round((shifted * expit(logit(e) + epsilon)).sum(), 6))
    0.5 0.4
    """
    u, v, total = logit(f), logit(e), weight.sum()
    moved = logit(weight @ f / total) - logit(estimate)
    labels = float(weight @ (f * e))
    found = np.zeros((len(priors), 2))
    for place, prior in enumerate(priors):
        if prior != estimate:
            delta = _shift(u, weight, total * expit(logit(prior) + moved))
            found[place] = delta, _shift(v, weight * expit(u + delta), labels)
    return found


def _shift(logits: Vector, weight: Vector, target: float) -> float:
    """Solve ``weight @ expit(logits + shift) == target`` for the shift, which is at most `LARGEST_SHIFT`."""

    def excess(shift: float) -> float:
        return float(weight @ expit(logits + shift)) - target

    if excess(-LARGEST_SHIFT) >= 0:
        return -LARGEST_SHIFT
    return LARGEST_SHIFT if excess(LARGEST_SHIFT) <= 0 else find_root(excess, -LARGEST_SHIFT, LARGEST_SHIFT)


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
