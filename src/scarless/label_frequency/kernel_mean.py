r"""KM1 and KM2: the largest share of unlabelled rows that can have the distribution of the labelled rows.

The central problem is to find the distribution on given points that is nearest to signed weights `u`, in the distance
of a kernel:

.. math:: d^2(u) = \min_{w \ge 0,\; 1'w = 1} (u - w)' K (u - w), \qquad 1'u = 1

If `u` has negative entries, the minimiser is on a face of the simplex. With `A` the points of weight 0, the optimality
conditions are :math:`K(w-u) = \mu + y 1`, :math:`\mu_A \ge 0`, :math:`\mu = 0` elsewhere, :math:`w_A = 0` and
:math:`w \ge 0`.

Block principal pivoting (Portugal, Judice and Vicente, "A comparison of block pivoting and interior-point algorithms
for linear least squares problems with nonnegative variables", 1994) starts with a set `A` and solves the linear
equations of its face. It then moves every point that violates a sign condition into `A` or out of it, and repeats. Five
to ten faces are usually enough. One inverse of `K` is used for all faces and all `u`. Each face needs one
factorisation, of the size of `A` or of its complement, whichever is smaller.

Smooth kernels on few columns make `K` nearly singular, and pivoting may not terminate. An interior-point method is then
fast, because `K` is :math:`L L' + \epsilon I` with `L` of low rank. The matrix of Newton's equations is
:math:`L L' + \mathrm{diag}`, so a step costs the squared rank times the number of points. The predictor-corrector steps
follow Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on Optimization 1992.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, dpotri, dpstrf
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.options import check_choice, check_share, check_whole
from scarless.label_frequency._base import FrequencyEstimate, LabelFrequencyEstimator
from scarless.numerics.arrays import Mask, Matrix, Vector
from scarless.numerics.uncertainty import find_root

_BLOCK_ROWS = 256  # rows of temporary arrays, which are small compared with the square matrix
MAX_INTERIOR_STEPS = 60
ZERO_SQUARED_DISTANCE = 1e-14  # squared distances up to this value count as 0
SHARE_OF_LONGEST_STEP = 0.995  # share of the longest step that keeps all weights positive
DISTANCE_TOLERANCE = 1e-3  # A sign counts as violated beyond this tolerance, relative to the squared distance.
MAX_EXCHANGES_WITHOUT_PROGRESS = 4  # After this number, the interior-point method replaces pivoting.
LOW_RANK_SHARE = 0.2  # rank relative to the number of points up to which the interior-point method is faster
FACTOR_TOLERANCE = 1e-8  # largest error of an entry of K in its low-rank factorisation
SHARE_STEP = 0.1  # step of the share of positives, until the slope exceeds the threshold
#: Ridge on the kernel matrix of KM1 and KM2 per point, and its maximum. Evidence: it changes slopes by about 0.001
#: (notes of `KernelMean`).
RIDGE_PER_POINT, MAX_RIDGE = 1e-7, 1e-4
#: Widths of the Gaussian kernel that KM1 and KM2 try, relative to the median distance between rows. The width with the
#: largest distance between labelled and unlabelled rows is used. Evidence: the code published with Ramaswamy, Scott and
#: Tewari (2016).
KERNEL_WIDTHS = np.logspace(-1, 1, 5)
#: Lambda up to which KM2 measures the initial slope of the distance. Evidence: the code published with Ramaswamy, Scott
#: and Tewari (2016).
KM2_FIRST_LAMBDA = 1.05
#: Weight of the initial slope in KM2's threshold; the slope at infinity has the remaining weight. Evidence: the code
#: published with Ramaswamy, Scott and Tewari (2016).
KM2_SHARE_OF_FIRST_SLOPE = 0.8
#: Threshold of KM1 above which KM2's threshold is used instead. Evidence: the code published with Ramaswamy, Scott and
#: Tewari (2016).
KM1_MAX_THRESHOLD = 0.9
#: Largest number of rows for the median distance of KM1 and KM2. By judgement.
POINTS_FOR_MEDIAN = 1000
#: Precision of the share of positives in KM1 and KM2. Evidence: an interior-point solution of the original formulation
#: with lambda to 0.01 gives 0.289, this method 0.290 (benchmarks/README.md, KM2).
SHARE_PRECISION = 1e-3
#: Number of labelled rows below which KM1 and KM2 warn. By judgement.
MIN_LABELLED_WITHOUT_WARNING = 10
FEW_LABELLED_WARNING = (
    "KernelMean: the number of labelled rows is only {n}, so the estimate is very uncertain. Use more labelled rows."
)


def squared_distances(X: Any) -> Matrix:
    r"""Return :math:`\|x_i - x_j\|^2` for all pairs of dense or sparse rows, exactly 0 on the diagonal."""
    cross = X @ X.T
    product: Matrix = cross.toarray() if sparse.issparse(cross) else np.asarray(cross)
    norms = product.diagonal().copy()
    for rows in _blocks(norms.size):
        block = product[rows]
        block *= -2.0
        block += norms
        block += norms[rows, None]
        np.maximum(block, 0.0, out=block)
    np.fill_diagonal(product, 0.0)
    return product


def gaussian_kernel(squared: Matrix, width: float, *, out: Matrix | None = None) -> Matrix:
    r"""Return :math:`k(x, x') = \exp(-\|x-x'\|^2 / 2\sigma^2)`; `out` may be `squared` itself."""
    result = np.multiply(squared, -0.5 / width**2, out=out)
    return np.exp(result, out=result)


def embedding_distance(squared: Matrix, width: float, difference: Vector) -> float:
    r"""Return the RKHS distance between two distributions on the rows, given the difference of their weights.

    .. math:: \Bigl(\sum_{ij} \delta_i \delta_j k(x_i, x_j)\Bigr)^{1/2}, \qquad \sum_i \delta_i = 0
    """
    total = 0.0
    for rows in _blocks(difference.size):
        total += float(difference[rows] @ (gaussian_kernel(squared[rows], width) @ difference))
    return float(np.sqrt(max(total, 0.0)))


def _blocks(n_rows: int) -> list[slice]:
    """Return blocks of rows, so that temporary arrays are small compared with the square matrix."""
    return [slice(start, min(start + _BLOCK_ROWS, n_rows)) for start in range(0, n_rows, _BLOCK_ROWS)]


def low_rank_factor(matrix: Matrix, tol: float) -> Matrix:
    """Return `L` with few columns such that no entry of `matrix - L L'` exceeds `tol`, by pivoted Cholesky."""
    factor, pivots, rank, _ = dpstrf(np.array(matrix, order="F"), tol=tol, lower=1, overwrite_a=1)
    result = np.empty((matrix.shape[0], rank))
    result[pivots - 1] = np.tril(factor)[:, :rank]
    return result


def nearest_distribution(factor: Matrix, ridge: float, u: Vector, tol: float) -> tuple[Vector, Vector, int, bool]:
    """Return the weights nearest to `u`, their multipliers, the number of iterations, and whether they converged.

    The method is a primal-dual interior-point method. It has converged if the duality gap is at most `tol` times the
    objective.
    """

    def gradient(weights: Vector) -> Vector:
        change = weights - u
        return np.asarray(factor @ (factor.T @ change) + ridge * change)

    w = np.full(u.size, 1.0 / u.size)
    g = gradient(w)
    y = float(g.min() - 0.1 * (g.max() - g.min()) - 1e-12)
    z = g - y
    for iteration in range(1, MAX_INTERIOR_STEPS + 1):
        objective, gap = 0.5 * (w - u) @ g, w @ z
        dual, primal = g - z - y, 1.0 - w.sum()
        enough = max(tol * float(objective), ZERO_SQUARED_DISTANCE)
        if gap <= enough and np.abs(dual).max() <= enough:
            return w, z, iteration, True
        solve = _newton_solver(factor, ridge + z / w)
        ones = solve(np.ones(u.size))
        step = _step(solve, ones, w, z, dual, primal, np.zeros(u.size))
        centring = (((w + _max_step(w, step[0]) * step[0]) @ (z + _max_step(z, step[1]) * step[1])) / gap) ** 3
        step = _step(solve, ones, w, z, dual, primal, centring * gap / u.size - step[0] * step[1])
        length = SHARE_OF_LONGEST_STEP * min(_max_step(w, step[0]), _max_step(z, step[1]))
        w, z, y = w + length * step[0], z + length * step[1], y + length * step[2]
        g = gradient(w)
    return w, z, MAX_INTERIOR_STEPS, False


def _newton_solver(factor: Matrix, diagonal: Vector) -> Callable[[Vector], Vector]:
    """Return a function that solves `(L L' + diag) x = b` with a factorised matrix of the size of the rank."""
    scaled = factor / diagonal[:, None]
    inner = cho_factor(np.eye(factor.shape[1]) + factor.T @ scaled, check_finite=False)
    return lambda b: np.asarray(b / diagonal - scaled @ cho_solve(inner, scaled.T @ b, check_finite=False))


def _step(
    solve: Callable[[Vector], Vector], ones: Vector, w: Vector, z: Vector, dual: Vector, primal: float, target: Vector
) -> tuple[Vector, Vector, float]:
    """Return the Newton step of weights, multipliers and constant towards `w z = target`."""
    wanted = target / w - z
    change = solve(wanted - dual)
    of_constant = float((primal - change.sum()) / ones.sum())
    of_weights = change + of_constant * ones
    return of_weights, wanted - z / w * of_weights, of_constant


def _max_step(values: Vector, step: Vector) -> float:
    """Return the largest step of at most 1 that keeps the values non-negative."""
    shrinking = step < 0
    return float(min(1.0, (-values[shrinking] / step[shrinking]).min(initial=1.0)))


@dataclass(frozen=True)
class NearestDistribution:
    """The distribution nearest to signed weights, and its distance."""

    weights: Vector
    multipliers: Vector  # mu, of points of weight 0
    squared_distance: float
    zero: Mask  # points of weight 0
    n_iter: int
    converged: bool

    def slope(self, direction: Vector) -> float:
        r"""Return the derivative of the distance along a direction of `u` whose entries sum to 0.

        By the envelope theorem it is :math:`(u-w)'K\,\delta / d = -\mu'\delta / d`.
        """
        if self.squared_distance <= 0.0:
            return 0.0
        return float(-(self.multipliers @ direction) / np.sqrt(self.squared_distance))


def ridge(n_points: int) -> float:
    """Return the ridge on the diagonal of `K`, which would otherwise be singular to working precision.

    It adds the ridge times :math:`|u-w|^2` to a squared distance. This norm decreases with the number of points.
    """
    return min(RIDGE_PER_POINT * n_points, MAX_RIDGE)


class Hull:
    """Distances to the convex hull of points with a given kernel matrix, to which the ridge is added in place."""

    def __init__(self, kernel: Matrix) -> None:
        self._ridge = ridge(kernel.shape[0])
        kernel[np.diag_indices_from(kernel)] += self._ridge
        self._kernel = kernel
        self._factor: Matrix | None = None  # low-rank factor; computed if pivoting fails
        factor, failed = dpotrf(np.array(kernel, order="F"), lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the kernel matrix is not positive definite")
        self._inverse, _ = dpotri(factor, lower=1, overwrite_c=1)  # only the lower triangle
        self._of_ones = self._times_inverse(np.ones(kernel.shape[0]))

    def nearest(self, u: Vector, zero: Mask) -> NearestDistribution:
        """Return the distribution nearest to `u`; the search starts at the face on which `zero` points have weight 0.

        Weights sum to 1, so not all points can have weight 0. If `zero` has all points, which happens in a table with
        few distinct rows, the search starts with the negative entries of `u`.
        """
        zero = u < 0 if zero.all() else zero
        return (None if self._is_smooth else self._by_pivoting(u, zero)) or self._by_interior_point(u)

    @property
    def _is_smooth(self) -> bool:
        """Whether pivoting has failed before and the rank is low, so that pivoting is not tried again."""
        return self._factor is not None and self._factor.shape[1] <= LOW_RANK_SHARE * self._factor.shape[0]

    def _by_interior_point(self, u: Vector) -> NearestDistribution:
        if self._factor is None:
            self._factor = low_rank_factor(self._kernel - self._ridge * np.eye(u.size), FACTOR_TOLERANCE)
        weights, mu, n_iter, converged = nearest_distribution(self._factor, self._ridge, u, DISTANCE_TOLERANCE)
        change = weights - u
        squared = float(((self._factor.T @ change) ** 2).sum() + self._ridge * (change @ change))
        return NearestDistribution(weights, mu, squared, weights < mu, n_iter, converged)

    def _by_pivoting(self, u: Vector, zero: Mask) -> NearestDistribution | None:
        """Exchange blocks of points until no sign is violated; return None if there is no progress."""
        min_violated, max_squared, patience, n_faces = u.size + 1, 0.0, MAX_EXCHANGES_WITHOUT_PROGRESS, 0
        while patience > 0:
            n_faces += 1
            weights, mu = self._on_face(u, zero)
            squared = float(-(mu @ u))
            violated = np.where(zero, mu < -DISTANCE_TOLERANCE * squared, weights < -DISTANCE_TOLERANCE / u.size)
            n_violated = int(violated.sum())
            if n_violated == 0:
                return NearestDistribution(weights, mu, max(squared, 0.0), zero, n_faces, True)
            progress = n_violated < min_violated or squared > (1.0 + DISTANCE_TOLERANCE) * max_squared
            patience = MAX_EXCHANGES_WITHOUT_PROGRESS if progress else patience - 1
            min_violated, max_squared = min(min_violated, n_violated), max(max_squared, squared)
            zero = zero ^ violated
        return None

    def _on_face(self, u: Vector, zero: Mask) -> tuple[Vector, Vector]:
        solve = self._by_zero_points if 2 * zero.sum() <= u.size else self._by_other_points
        return solve(u, zero)

    def _by_zero_points(self, u: Vector, zero: Mask) -> tuple[Vector, Vector]:
        r"""Solve :math:`w - u = K^{-1}(\mu + y 1)` with :math:`w_A = 0` and :math:`1'(w-u) = 0` for the multipliers."""
        a, q = np.flatnonzero(zero), self._of_ones
        first, second = self._solve(self._inverse[np.ix_(a, a)], -u[a], q[a])
        y = -(q[a] @ first) / (q.sum() - q[a] @ second)
        mu = np.zeros(u.size)
        mu[a] = first - y * second
        weights = u + self._times_inverse(mu) + y * q
        weights[a] = 0.0
        return weights, mu

    def _by_other_points(self, u: Vector, zero: Mask) -> tuple[Vector, Vector]:
        r"""Solve :math:`K_{BB} (w-u)_B = y 1 + K_{BA} u_A` for the points `B` whose weights are not fixed at 0."""
        b = np.flatnonzero(~zero)
        fixed = np.where(zero, -u, 0.0)
        first, second = self._solve(self._kernel[np.ix_(b, b)], -(self._kernel @ fixed)[b], np.ones(b.size))
        y = (-fixed.sum() - first.sum()) / second.sum()
        change = fixed
        change[b] = first + y * second
        mu = np.where(zero, self._kernel @ change - y, 0.0)
        return np.where(zero, 0.0, u + change), mu

    @staticmethod
    def _solve(matrix: Matrix, first: Vector, second: Vector) -> tuple[Vector, Vector]:
        if matrix.size == 0:
            return first, second
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        both = cho_solve(factor, np.column_stack([first, second]), check_finite=False)
        return both[:, 0], both[:, 1]

    def _times_inverse(self, values: Vector) -> Vector:
        return np.asarray(dsymv(1.0, self._inverse, values, lower=1))


class KernelMean(LabelFrequencyEstimator):
    r"""Label frequency by kernel embeddings of the rows: KM1 and KM2 (Ramaswamy, Scott and Tewari, 2016).

    Let `U`, `H` and `G` be the distributions of unlabelled rows, of positives and of negatives. Then
    :math:`U = \pi H + (1-\pi) G`. If more than :math:`\pi H` is subtracted from `U`, some weights of the rest are
    negative, and the rest is no longer a distribution. Consider the distance of
    :math:`\lambda \phi(U) + (1-\lambda)\phi(H)` from the nearest distribution on the rows,

    .. math:: d(\lambda) = \min_{w \ge 0,\, \sum w = 1}
        \Bigl\| \lambda \phi(U) + (1-\lambda) \phi(H) - \sum_i w_i \phi(x_i) \Bigr\|.

    The distance starts to increase at :math:`\lambda = 1/(1-\pi)`. The estimate is the point at which the slope
    of the distance exceeds :math:`\nu D`, where :math:`D = \|\phi(U) - \phi(H)\|` is the slope at infinity. KM2 uses
    :math:`\nu = 0.8\, d(1.05) / (0.05 D) + 0.2`. KM1 uses :math:`\nu = 1/(D\sqrt{\min(n_u, n_l)})`, or KM2's value if
    KM1's is above 0.9. The kernel is Gaussian. Of five widths from a tenth to ten times the median distance, the one
    with the largest `D` is used.

    The method compares two independent samples, the unlabelled and the labelled rows. It estimates :math:`\pi`, the
    share of positives among the *unlabelled* rows. The class prior of all rows is
    :math:`\alpha = \Pr(s=1) + \Pr(s=0)\,\pi`.

    The method assumes that some region of attribute space contains only positives (irreducibility). If the classes
    overlap much, the class prior is biased, mostly upwards.

    Parameters
    ----------
    variant : {"km2", "km1"}, default="km2"
        KM2 was more accurate on eight datasets (``python -m benchmarks label_frequency accuracy``).
    max_rows : int, default=4000
        Maximum number of rows. From a larger table, this number of rows is drawn without replacement. Half of them are
        labelled if there are enough, because the precision depends on the smaller of the two samples. The time grows
        with the cube of the number: a few seconds for 4,000 rows.
    max_share : float, default=0.99
        Largest share of positives among unlabelled rows to consider. The published code stops at 0.875.
    n_resamples : int, default=0
        Number of random half-samples for `class_prior_interval` and `label_frequency_interval`; use 100 or more for a
        95% interval. With 0, there is no interval.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for drawn rows and half-samples. Pass an int for reproducible results.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        Label frequency :math:`c = \Pr(s=1|y=1)`.
    label_frequency_rows_ : int
        Number of rows from which at most `max_rows` are drawn: all rows of positive weight, or a sample if the rows are
        not in memory.
    class_prior_ : float
        Class prior :math:`\alpha = \Pr(y=1)` of all rows.
    kernel_width_ : float
        Width of the kernel, for columns divided by their ranges.
    slopes_ : array of shape (n_evaluations, 2)
        Shares :math:`\pi` that were evaluated and the slopes divided by `D`, in increasing order of the share.
    threshold_ : float
        Threshold :math:`\nu` of the slope.
    bound_reached_ : bool
        Whether the slope stayed below the threshold up to `max_share`, which is then the estimated share.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the columns of `X` have names.

    Notes
    -----
    Columns are divided by their ranges. The derivative of `d` is exact (envelope theorem), not a difference quotient.
    The share is accurate to 0.001; in the published code, lambda is accurate to 0.04. A ridge on the kernel matrix,
    1e-7 times the number of points and at most 0.0001, changes slopes by about 0.001.

    References
    ----------
    Ramaswamy, Scott and Tewari, "Mixture proportion estimation via kernel embeddings of distributions", ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.label_frequency import KernelMean
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(1000) < 0.5
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> s = y & (rng.random(1000) < 0.4)
    >>> estimator = KernelMean().fit(X, s)
    >>> print(f"{y.mean():.2f} true, {estimator.class_prior_:.2f} estimated")
    0.47 true, 0.47 estimated
    """

    def __init__(
        self,
        variant: str = "km2",
        *,
        max_rows: int = 4000,
        max_share: float = 0.99,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.variant = variant
        self.max_rows = max_rows
        self.max_share = max_share
        self.n_resamples = n_resamples
        self.random_state = random_state
        self.pos_label = pos_label

    def _check_options(self) -> None:
        check_choice(self.variant, "variant", ("km1", "km2"))
        check_whole(self.max_rows, "max_rows", at_least=10)
        check_share(self.max_share, "max_share")

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        rows = draw_rows(s, self.max_rows, rng)
        return scale_by_range(X, rows), s[rows], w[rows]

    def _estimate(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator) -> FrequencyEstimate:
        points, unlabelled, labelled = merge_equal_rows(sample, s, w)
        n_l, n_u = float(w @ s), float(w @ (1.0 - s))
        counts = n_u * unlabelled + n_l * labelled
        width, distance, squared = choose_width(points, counts, unlabelled - labelled, rng)
        few = ((FEW_LABELLED_WARNING.format(n=int(n_l)), UserWarning),) if n_l < MIN_LABELLED_WITHOUT_WARNING else ()
        if distance == 0.0:  # Labelled and unlabelled rows have the same distribution.
            attributes = {"kernel_width": width, "threshold": 1.0, "bound_reached": True, "slopes": np.zeros((0, 2))}
            same = "labelled and unlabelled rows have the same distribution"
            warned = (*few, self._bound_warning(same))
            return FrequencyEstimate(share_of_unlabelled=self.max_share, attributes=attributes, warnings=warned)
        curve = DistanceCurve(hull_of(squared, width), unlabelled, labelled, distance)
        nu = curve.initial_slope() * KM2_SHARE_OF_FIRST_SLOPE + (1.0 - KM2_SHARE_OF_FIRST_SLOPE)
        km1 = 1.0 / (distance * np.sqrt(min(n_l, n_u)))
        if self.variant == "km1" and km1 <= KM1_MAX_THRESHOLD:
            nu = km1
        found = curve.find_share(nu, self.max_share)
        return FrequencyEstimate(
            share_of_unlabelled=self.max_share if found is None else found,
            attributes={
                "kernel_width": width,
                "threshold": float(nu),
                "bound_reached": found is None,
                "slopes": np.array(sorted(curve.slopes.items())),
            },
            warnings=few + self._warnings(curve, found is None, nu),
        )

    def _warnings(self, curve: "DistanceCurve", reached: bool, nu: float) -> tuple[tuple[str, type[Warning]], ...]:
        bound = self._bound_warning(
            f"the slope of the distance stayed below its threshold ({nu:.3g}) up to this share. The unlabelled rows "
            "look much like the labelled rows"
        )
        precision = (
            "KernelMean did not compute all distances to full precision. Try another max_rows or random_state.",
            ConvergenceWarning,
        )
        return (bound,) * reached + (precision,) * (not curve.converged)

    def _bound_warning(self, reason: str) -> tuple[str, type[Warning]]:
        return (
            f"KernelMean sets the share of positives among unlabelled rows to max_share={self.max_share:g}, because "
            f"{reason}. Use attributes that separate positives from negatives better, or more labelled rows. If "
            "max_share is low, increase it.",
            UserWarning,
        )


@dataclass
class DistanceCurve:
    """The slope of the distance as a function of the share of positives; values are cached."""

    hull: Hull
    mixture: Vector
    component: Vector
    distance: float

    def __post_init__(self) -> None:
        self.slopes: dict[float, float] = {}
        self.converged = True
        labelled = self.component > 0
        self._zero = {0.0: labelled}  # points of weight 0, by share
        # Up to this share the signed weights are themselves a distribution, and the distance is 0.
        self.flat_to = float((self.mixture[labelled] / self.component[labelled]).min())

    def initial_slope(self) -> float:
        """Return the mean slope of the distance between lambda = 1 and `KM2_FIRST_LAMBDA`, divided by `distance`."""
        share = 1.0 - 1.0 / KM2_FIRST_LAMBDA
        if share <= self.flat_to:
            return 0.0
        found = self._nearest(share)
        return float(np.sqrt(found.squared_distance)) / (KM2_FIRST_LAMBDA - 1.0) / self.distance

    def slope(self, share: float) -> float:
        """Return the derivative of the distance by lambda = 1/(1-share), divided by `distance`."""
        if share not in self.slopes:
            slope = 0.0
            if share > self.flat_to:
                slope = self._nearest(share).slope(self.mixture - self.component) / self.distance
            self.slopes[share] = slope
        return self.slopes[share]

    def find_share(self, nu: float, largest: float) -> float | None:
        """Return the share at which the slope reaches `nu`; None if it stays below `nu` up to the share `largest`."""
        low, high = self.flat_to, self.flat_to
        while self.slope(high) < nu:
            if high >= largest:
                return None
            low, high = high, min(high + SHARE_STEP, largest)
        if high == low:
            return low
        return find_root(lambda share: self.slope(share) - nu, low, high, xtol=SHARE_PRECISION)

    def _nearest(self, share: float) -> NearestDistribution:
        stretch = 1.0 / (1.0 - share)
        # More points get weight 0 as the share grows, so the search starts from the nearest smaller share.
        near = max(known for known in self._zero if known <= share)
        found = self.hull.nearest(stretch * self.mixture + (1.0 - stretch) * self.component, self._zero[near])
        self._zero[share] = found.zero
        self.converged &= found.converged
        return found


def draw_rows(s: Vector, max_rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw at most `max_rows` rows without replacement, half of them labelled if there are enough of both kinds."""
    if s.size <= max_rows:
        return np.arange(s.size)
    labelled, unlabelled = (rng.permutation(np.flatnonzero(s == kind)) for kind in (1, 0))
    n_labelled = max(min(labelled.size, max_rows // 2), max_rows - unlabelled.size)
    return np.sort(np.concatenate([labelled[:n_labelled], unlabelled[: max_rows - n_labelled]]))


def scale_by_range(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows with columns divided by their ranges in the whole table; constant columns are not divided.

    Dense columns are centred at their medians, which does not change distances. It keeps the precision of columns that
    are far from 0 or have an outlier.
    """
    if sparse.issparse(X):
        spread = (X.max(axis=0) - X.min(axis=0)).toarray().ravel().astype(np.float64)
        scale = sparse.diags_array(1.0 / np.where(spread > 0, spread, 1.0))
        return sparse.csr_array(X[rows].astype(np.float64) @ scale)
    spread = X.max(axis=0).astype(np.float64) - X.min(axis=0)
    chosen = X[rows].astype(np.float64)
    return (chosen - np.median(chosen, axis=0)) / np.where(spread > 0, spread, 1.0)


def hull_of(squared: Matrix, width: float) -> Hull:
    """Return the hull of points with these squared distances, which are overwritten."""
    try:
        return Hull(gaussian_kernel(squared, width, out=squared))
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "KernelMean: rounding errors are larger than the distances between rows, because the values of some column "
            "of X are much larger than their differences. Centre the columns, for example with "
            "sklearn.preprocessing.StandardScaler. If X is sparse, centre the columns before you make it sparse."
        ) from error


def merge_equal_rows(X: Any, s: Vector, w: Vector) -> tuple[Any, Vector, Vector]:
    """Return the distinct rows, and the distributions of unlabelled and of labelled rows over them."""
    if sparse.issparse(X):  # Equal rows are rare in sparse tables, so they are not merged.
        first, group = np.arange(s.size), np.arange(s.size)
    else:
        rows = np.ascontiguousarray(X + 0.0).view(np.dtype((np.void, X.shape[1] * X.itemsize))).ravel()
        _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    unlabelled, labelled = (np.bincount(group, weights=w * kind, minlength=first.size) for kind in (1.0 - s, s))
    return X[first], unlabelled / unlabelled.sum(), labelled / labelled.sum()


def choose_width(
    points: Any, counts: Vector, difference: Vector, rng: np.random.Generator
) -> tuple[float, float, Matrix]:
    """Return the kernel width with the largest distance between the samples, this distance, and squared distances."""
    squared = squared_distances(points)
    typical = median_distance(squared, counts, rng)
    if typical == 0.0:
        return 1.0, 0.0, squared
    widths = KERNEL_WIDTHS * typical
    distances = [embedding_distance(squared, width, difference) for width in widths]
    best = int(np.argmax(distances))
    return float(widths[best]), distances[best], squared


def median_distance(squared: Matrix, counts: Vector, rng: np.random.Generator) -> float:
    """Return the median distance between all pairs of rows, where each point occurs `counts` times.

    If the median is 0, return the median of the positive distances. If there are many points, `POINTS_FOR_MEDIAN` of
    them are drawn.
    """
    if counts.size > POINTS_FOR_MEDIAN:
        drawn = np.sort(rng.choice(counts.size, size=POINTS_FOR_MEDIAN, p=counts / counts.sum()))
        squared, counts = squared[np.ix_(drawn, drawn)], np.ones(drawn.size)
    weights = np.outer(counts, counts).ravel()
    order = np.argsort(squared, axis=None)
    values, below = squared.ravel()[order], np.cumsum(weights[order])
    none = np.searchsorted(values, 0.0, side="right")  # pairs of equal rows
    at_zero = below[none - 1]
    half = 0.5 * below[-1] if at_zero < 0.5 * below[-1] else 0.5 * (at_zero + below[-1])
    return float(np.sqrt(values[min(np.searchsorted(below, half), values.size - 1)]))
