"""KM1 and KM2: how much of the labelled rows' distribution can be taken out of the population's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.options import check_choice, check_share, check_whole
from scarless.label_frequency._base import Estimate, LabelFrequencyEstimator
from scarless.label_frequency.kernel_mean.hull import Hull, Nearest
from scarless.label_frequency.kernel_mean.kernels import embedding_distance, gaussian_kernel, squared_distances
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.roots import find_root

WIDTHS = np.logspace(-1, 1, 5)  # times the median distance
FIRST_STEP = 1.05  # in lambda, for the slope at the start
SHARE_OF_SLOPE = 0.8  # KM2's threshold: so much of the slope at the start, and the rest of the slope at infinity
STEEPEST = 0.9  # KM1's threshold, where it leaves nothing to find
POINTS_FOR_MEDIAN = 1000
STEP = 0.1  # of the share, until the threshold is passed
PRECISION = 1e-3  # of the share
FEW_LABELLED = 10
FEW = "KernelMean has only {n} labelled rows to compare with; the estimate says little."


class KernelMean(LabelFrequencyEstimator):
    r"""Estimate the label frequency by kernel embeddings of the rows: KM1 and KM2.

    With `U` the distribution of the unlabelled rows and `H` that of the positives, :math:`U = \pi H + (1-\pi) G`.
    Taking out more than :math:`\pi` leaves no distribution: the distance of
    :math:`\lambda \phi(U) + (1-\lambda)\phi(H)` from the nearest distribution on the rows,

    .. math:: d(\lambda) = \min_{w \ge 0,\, \sum w = 1}
        \Bigl\| \lambda \phi(U) + (1-\lambda) \phi(H) - \sum_i w_i \phi(x_i) \Bigr\|,

    starts to rise at :math:`\lambda = 1/(1-\pi)`. The estimate is where its slope passes a threshold
    :math:`\nu`, in units of :math:`D = \|\phi(U) - \phi(H)\|`, the slope at infinity: KM1
    :math:`\nu = 1/(D\sqrt{\min(n_u, n_l)})`, or KM2's where that is above 0.9; KM2
    :math:`\nu = 0.8\, d(1.05) / (0.05 D) + 0.2`. The kernel is Gaussian; of five widths from a tenth to ten times
    the median distance the one with the largest `D` is taken.

    The method compares two independent samples, here the unlabelled and the labelled rows, and so finds
    :math:`\pi`, the share of positives among the *unlabelled*. What is stored is the class prior of the whole
    population, :math:`\alpha = \Pr(s=1) + \Pr(s=0)\,\pi`. (With all rows as the mixture the labelled ones would be in
    both samples; the slope at the start, which tells KM2 how noisy the samples are, is 0 then.)

    It needs rows that no positive could be (irreducibility), as all estimates of a class prior do. Where the classes
    overlap much, the class prior comes out wrong, mostly too high.

    Parameters
    ----------
    variant : {"km2", "km1"}, default="km2"
        KM2 did better on our eight datasets (``python -m benchmarks.label_frequency accuracy``).
    max_rows : int, default=4000
        Of a larger table, so many rows are drawn without replacement, up to half of them labelled: the two kinds are
        samples of their own, and the larger the smaller one, the better. Time grows with the cube: a few seconds for
        4,000 rows. Rows that are drawn keep their weights.
    max_share : float, default=0.99
        The largest share of positives among the unlabelled to look at. The published code stops at 0.875.
    n_resamples : int, default=0
        Random half-samples for `class_prior_interval` and `label_frequency_interval`, 100 or more for one of 95%; 0:
        no interval.
    random_state : int, Generator, RandomState or None
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        :math:`c = \Pr(s=1|y=1)`.
    label_frequency_rows_ : int
        How many rows it comes from: all that count, or a sample where rows are not in memory.
    class_prior_ : float
        :math:`\alpha = \Pr(y=1)` in the whole population.
    kernel_width_ : float
        In units of columns divided by their ranges.
    slopes_ : array of shape (n_evaluations, 2)
        Shares :math:`\pi` tried and the slopes there, divided by `D`, in increasing order.
    threshold_ : float
        The threshold :math:`\nu` for the slope.
    bound_reached_ : bool
        Whether the slope stayed below the threshold up to `max_share`: there is a warning then.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    Notes
    -----
    Columns are divided by their ranges. The derivative of `d` is exact (envelope theorem), not a difference
    quotient, and the search is in the share, to 0.001; the published code bisects lambda to 0.04. A ridge on the
    kernel matrix, 1e-7 times the number of points and at most 0.0001, changes slopes by about 0.001.

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
        return by_range(X, rows), s[rows], w[rows]

    def _estimate(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator) -> Estimate:
        points, unlabelled, labelled = merge_equal_rows(sample, s, w)
        n_l, n_u = float(w @ s), float(w @ (1.0 - s))
        counts = n_u * unlabelled + n_l * labelled
        width, distance, squared = choose_width(points, counts, unlabelled - labelled, rng)
        few = ((FEW.format(n=int(n_l)), UserWarning),) if n_l < FEW_LABELLED else ()
        if distance == 0.0:  # labelled rows look like unlabelled ones
            attributes = {"kernel_width": width, "threshold": 1.0, "bound_reached": True, "slopes": np.zeros((0, 2))}
            return Estimate(share_of_unlabelled=self.max_share, attributes=attributes, warnings=few)
        curve = DistanceCurve(hull_of(squared, width), unlabelled, labelled, distance)
        nu = curve.start() * SHARE_OF_SLOPE + (1.0 - SHARE_OF_SLOPE)
        km1 = 1.0 / (distance * np.sqrt(min(n_l, n_u)))
        if self.variant == "km1" and km1 <= STEEPEST:
            nu = km1
        found = curve.where_slope_is(nu, self.max_share)
        return Estimate(
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
        bound = (
            f"KernelMean: the slope is below its threshold, {nu:.3g}, up to max_share={self.max_share:g}, which is "
            "returned: nearly all unlabelled rows look like labelled ones. The attributes may not tell positives from "
            "negatives, or the labelled rows are too few.",
            UserWarning,
        )
        precision = (
            "KernelMean: a distance was not found to full precision; try another max_rows or random_state.",
            ConvergenceWarning,
        )
        return (bound,) * reached + (precision,) * (not curve.converged)


@dataclass
class DistanceCurve:
    """The slope of the distance as a function of the share taken out; remembers what it has seen."""

    hull: Hull
    mixture: Vector
    component: Vector
    distance: float

    def __post_init__(self) -> None:
        self.slopes: dict[float, float] = {}
        self.converged = True
        labelled = self.component > 0
        self._zero = {0.0: labelled}  # by share
        # Up to this share the signed weighting is itself a distribution.
        self.flat_to = float((self.mixture[labelled] / self.component[labelled]).min())

    def start(self) -> float:
        """Return the mean slope between lambda = 1 and `FIRST_STEP`, in units of the distance."""
        share = 1.0 - 1.0 / FIRST_STEP
        if share <= self.flat_to:
            return 0.0
        found = self._nearest(share)
        return float(np.sqrt(found.squared_distance)) / (FIRST_STEP - 1.0) / self.distance

    def slope(self, share: float) -> float:
        """Return the derivative of the distance with respect to lambda = 1/(1-share), in units of the distance."""
        if share not in self.slopes:
            slope = 0.0
            if share > self.flat_to:
                slope = self._nearest(share).slope(self.mixture - self.component) / self.distance
            self.slopes[share] = slope
        return self.slopes[share]

    def where_slope_is(self, nu: float, largest: float) -> float | None:
        """Return the share at which the slope passes `nu`; None where it does not up to `largest`."""
        low, high = self.flat_to, self.flat_to
        while self.slope(high) < nu:
            if high >= largest:
                return None
            low, high = high, min(high + STEP, largest)
        if high == low:
            return low
        return find_root(lambda share: self.slope(share) - nu, low, high, xtol=PRECISION)

    def _nearest(self, share: float) -> Nearest:
        stretch = 1.0 / (1.0 - share)
        near = max(known for known in self._zero if known <= share)  # points leave as the share grows
        found = self.hull.nearest(stretch * self.mixture + (1.0 - stretch) * self.component, self._zero[near])
        self._zero[share] = found.zero
        self.converged &= found.converged
        return found


def draw_rows(s: Vector, max_rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return at most `max_rows` rows, drawn without replacement, as many of the rarer kind as possible up to half."""
    if s.size <= max_rows:
        return np.arange(s.size)
    labelled, unlabelled = (rng.permutation(np.flatnonzero(s == kind)) for kind in (1, 0))
    n_labelled = max(min(labelled.size, max_rows // 2), max_rows - unlabelled.size)
    return np.sort(np.concatenate([labelled[:n_labelled], unlabelled[: max_rows - n_labelled]]))


def by_range(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows with their columns divided by the ranges in the whole table (constant ones as they are).

    Distances need no shift; one to the median keeps the digits of columns that are far from 0 or have an outlier.
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
            "KernelMean: the distances between rows are lost in rounding: some column of X is far from 0 compared with "
            "its differences. Centre the columns first, e.g. with sklearn.preprocessing.StandardScaler (dense) or by "
            "subtracting a typical value before X is made sparse."
        ) from error


def merge_equal_rows(X: Any, s: Vector, w: Vector) -> tuple[Any, Vector, Vector]:
    """Return the distinct rows, and how unlabelled and labelled rows are distributed over them."""
    if sparse.issparse(X):  # equal rows are rare there
        first, group = np.arange(s.size), np.arange(s.size)
    else:
        rows = np.ascontiguousarray(X + 0.0).view(np.dtype((np.void, X.shape[1] * X.itemsize))).ravel()
        _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    unlabelled, labelled = (np.bincount(group, weights=w * kind, minlength=first.size) for kind in (1.0 - s, s))
    return X[first], unlabelled / unlabelled.sum(), labelled / labelled.sum()


def choose_width(
    points: Any, counts: Vector, difference: Vector, rng: np.random.Generator
) -> tuple[float, float, Matrix]:
    """Return the kernel width with the largest distance between both samples, that distance, and those of all pairs."""
    squared = squared_distances(points)
    typical = median_distance(squared, counts, rng)
    if typical == 0.0:
        return 1.0, 0.0, squared
    widths = WIDTHS * typical
    distances = [embedding_distance(squared, width, difference) for width in widths]
    best = int(np.argmax(distances))
    return float(widths[best]), distances[best], squared


def median_distance(squared: Matrix, counts: Vector, rng: np.random.Generator) -> float:
    """Return the median distance of all pairs of a sample that has each point `counts` times; the median of the
    positive distances where that is 0. Of many points, `POINTS_FOR_MEDIAN` are drawn from the sample.
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
