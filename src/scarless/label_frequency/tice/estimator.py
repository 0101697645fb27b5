"""TIcE: a lower bound on the label frequency from subsets that a decision tree finds."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.options import check_positive, check_share, check_whole
from scarless.label_frequency._base import Estimate, LabelFrequencyEstimator
from scarless.label_frequency.tice.bounds import Found, bound_variance, chance_of_error, search
from scarless.label_frequency.tice.codes import MOST_RANGES, RangeTable, cut_into_ranges
from scarless.label_frequency.tice.tree import SubsetTree
from scarless.numerics.arrays import Integers, Vector


class BoundingSubset(NamedTuple):
    """The subset of attribute space with the highest bound in one fold, judged by the rows outside that fold."""

    ranges: dict[Any, tuple[float, float]]  # attribute -> lower and upper limit; empty: all rows
    n_rows: float  # sums of weights; whole numbers where the weights are
    n_labelled: float
    lower_bound: float


class TIcE(LabelFrequencyEstimator):
    r"""Label frequency from subsets that a tree finds: Tree Induction for c Estimation (Bekker and Davis, 2018).

    Under SCAR :math:`\Pr(s=1|\text{subset}) = c\,\Pr(y=1|\text{subset}) \le c` in every subset of attribute space. A
    subset with `T` rows, `L` of them labelled, says that

    .. math:: c \ge \frac{L}{T} - \sqrt{\frac{c_0 (1-c_0)(1-\delta)}{\delta\, T}}

    with probability :math:`1-\delta`, where :math:`c_0` is an earlier estimate. The tree of each fold is grown on that
    fold alone, towards subsets with many labelled rows, which are judged by all other rows; the best bound is the
    estimate. It is near `c` where some subset, describable by ranges of a few attributes, is nearly all positive and
    has thousands of rows; else it is too low, and the class prior too high. Fast, on large and sparse tables too.
    (Copies of the published code go around where rows that chose a subset also judge it: their bounds are too high.)

    Parameters
    ----------
    n_ranges : int, default=4
        Every attribute is cut into so many ranges of equal width between its smallest and its largest value, 2 to 256.
        A long tail puts nearly all rows into one range: take logarithms or ranks of such columns first.
    n_folds : int, default=5
        Number of trees; each is grown on one fold of the rows.
    n_iterations : int, default=2
        The first takes 1/2 for :math:`c_0`, each further one the estimate of the one before.
    max_splits : int, default=500
        Most nodes that are cut in one tree.
    min_rows : int, default=10
        Subsets with fewer rows give no bound; subsets with no more rows in the tree's own fold are not cut.
    max_bepp : float, default=5
        A node is cut at the attribute with the highest :math:`\max L / (T + \text{max\_bepp})` over its ranges.
    delta : float, optional
        The chance that one bound is too high. None: :math:`\max(0.025, 1/(1 + 0.004\,n))`, `n` rows outside the fold.
    n_resamples : int, default=0
        Random half-samples for the intervals, 100 or more for intervals of 95%; 0: no interval.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seeds the folds and the half-samples.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        :math:`c = \Pr(s=1|y=1)`: the mean of the last row of `fold_estimates_`, at least the share of labelled rows.
    label_frequency_rows_ : int
        How many rows it comes from: all that count, or a sample where rows are not in memory.
    class_prior_ : float
        :math:`\Pr(y=1) = \Pr(s=1)/c` among all rows, labelled and unlabelled, of one table drawn from the population.
    fold_estimates_ : array of shape (n_iterations, n_folds)
        The best bound that each tree gave.
    n_splits_ : array of shape (n_iterations, n_folds)
        Number of nodes cut. Where it is `max_splits`, the search was not finished.
    subsets_ : list of BoundingSubset
        Per fold, what gave the last bound: ``ranges`` of attributes (by name where `X` has names), ``n_rows``,
        ``n_labelled``, ``lower_bound``. If SCAR holds and the estimate is right, nearly all its rows are positive.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    References
    ----------
    J. Bekker and J. Davis, "Estimating the class prior in positive and unlabeled data through decision tree induction",
    AAAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.label_frequency.tice import TIcE
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((20_000, 2))
    >>> y = X[:, 0] > 0.6
    >>> s = y & (rng.random(20_000) < 0.4)
    >>> estimator = TIcE(random_state=0).fit(X, s)
    >>> print(f"{s.sum() / y.sum():.2f} true, {estimator.label_frequency_:.2f} estimated")
    0.40 true, 0.35 estimated
    >>> print("%.2f to %.2f" % estimator.subsets_[0].ranges[0])  # of column 0: all rows there are positive
    0.75 to 1.00
    """

    def __init__(
        self,
        n_ranges: int = 4,
        *,
        n_folds: int = 5,
        n_iterations: int = 2,
        max_splits: int = 500,
        min_rows: int = 10,
        max_bepp: float = 5,
        delta: float | None = None,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.n_ranges = n_ranges
        self.n_folds = n_folds
        self.n_iterations = n_iterations
        self.max_splits = max_splits
        self.min_rows = min_rows
        self.max_bepp = max_bepp
        self.delta = delta
        self.n_resamples = n_resamples
        self.random_state = random_state
        self.pos_label = pos_label

    def _check_options(self) -> None:
        if check_whole(self.n_ranges, "n_ranges", at_least=2) > MOST_RANGES:
            raise ValueError(
                f"n_ranges must be at most {MOST_RANGES}; got {self.n_ranges}. Fewer, fuller ranges do better."
            )
        for name, least in (("n_folds", 2), ("n_iterations", 1), ("max_splits", 1), ("min_rows", 1)):
            check_whole(getattr(self, name), name, at_least=least)
        check_positive(self.max_bepp, "max_bepp")
        if self.delta is not None:
            check_share(self.delta, "delta")

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[RangeTable, Vector, Vector]:
        n_rows = s.size // 2 if self.n_resamples else s.size
        if n_rows < self.n_folds:
            halves = f", {n_rows} in a half-sample" if self.n_resamples else ""
            raise ValueError(
                f"n_folds={self.n_folds} needs at least one row for each fold; there are {s.size} rows{halves}. Set "
                "n_folds to a smaller number, though from so few rows no estimate says much."
            )
        return cut_into_ranges(X, self.n_ranges), s, w

    def _estimate(self, sample: RangeTable, s: Vector, w: Vector, rng: np.random.Generator) -> Estimate:
        found = self._bounds(sample, s, rng.permutation(s.size) % self.n_folds, None if (w == 1.0).all() else w)
        bounds, n_splits = (np.array([[fold[i] for fold in folds] for folds in found]) for i in (0, 2))
        subsets, share = [self._describe(sample, fold) for fold in found[-1]], float(w @ s / w.sum())
        c = max(float(bounds[-1].mean()), share)
        prior = share / c if c > 0 else 1.0  # a half-sample may be without labelled rows
        return Estimate(prior, {"fold_estimates": bounds, "n_splits": n_splits, "subsets": subsets})

    def _bounds(self, table: RangeTable, s: Vector, folds: Integers, w: Vector | None = None) -> list[list[Found]]:
        """Return the best bounds of all folds' trees, for every iteration; each row has the number of its fold."""
        in_folds = np.bincount(folds, w)
        deltas = [self.delta or chance_of_error(n) for n in (in_folds.sum() - in_folds).tolist()]
        largest = enumerate(bound_variance(0.5, d) for d in deltas)
        trees = [SubsetTree(table, s == 1, folds == fold, w, v, self.max_bepp) for fold, v in largest]
        c, found = 0.5, []
        for _ in range(self.n_iterations):
            pairs = [(tree, bound_variance(c, d)) for tree, d in zip(trees, deltas, strict=True)]
            found.append([search(tree, v, self.max_splits, self.min_rows) for tree, v in pairs])
            c = float(np.mean([best.bound for best in found[-1]]))
        return found

    def _describe(self, table: RangeTable, found: Found) -> BoundingSubset:
        names = getattr(self, "feature_names_in_", range(table.low.size))
        low, step = table.low.tolist(), table.step.tolist()
        ranges = {names[j]: (low[j] + k * step[j], low[j] + (k + 1) * step[j]) for j, k in found.subset.path}
        return BoundingSubset(ranges, found.subset.n_rows, found.subset.n_labelled, found.bound)
