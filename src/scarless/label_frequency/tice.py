"""TIcE: a lower bound on the label frequency from subsets of rows that a decision tree finds.

Attributes are cut into ranges of equal width. A sparse matrix stores which row is in which range. For each attribute,
one range, the *default*, has no column: rows without an entry for the attribute are in it. For a dense table the
default is a range with many rows. For a CSR table it is the range with 0, so a text table is never made dense. A tree
splits the rows into subsets. It is grown on one part of the rows, its *own* rows. The lower bounds come from the other
rows, which were not used to choose the subsets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from heapq import heappop, heappush
from itertools import count, islice
from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.checks.options import check_positive, check_share, check_whole
from scarless.label_frequency._base import FrequencyEstimate, LabelFrequencyEstimator
from scarless.numerics.arrays import Integers, Mask, Vector

Codes = NDArray[np.uint8]
MAX_RANGES = 256  # A code has one byte.
_BLOCK_ROWS = 512  # rows that fit in the processor's cache
_SUBSETS_CUT_AHEAD = 64  # largest number of other subsets that are cut in the same pass as a requested one


@dataclass(frozen=True)
class RangeTable:
    """The range of every row in every attribute; columns are ordered by attribute, then by code."""

    present: sparse.csr_matrix  # rows x columns: 1 if the row is in the column's range
    attribute: Integers  # attribute of each column
    code: Integers  # code of each column: the index of its range
    default: Codes  # for each attribute, the code of the range without a column
    low: Vector  # for each attribute, its smallest value
    step: Vector  # for each attribute, the width of its ranges

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, present=self.present[rows])

    @cached_property
    def codes(self) -> Callable[[int], Codes]:
        """Function that returns the codes of all rows for an attribute; results are cached."""
        columns = self.present.tocsc()

        def codes_of(attribute: int) -> Codes:
            codes = np.full(self.present.shape[0], self.default[attribute])
            start, end = np.searchsorted(self.attribute, [attribute, attribute + 1])
            edges = columns.indptr[start : end + 1]
            codes[columns.indices[edges[0] : edges[-1]]] = np.repeat(self.code[start:end], np.diff(edges))
            return codes

        return cache(codes_of)


def cut_into_ranges(X: Any, n_ranges: int) -> RangeTable:
    r"""Cut every attribute into `n_ranges` ranges of equal width between its smallest and its largest value.

    .. math:: \text{code} = \#\Bigl\{k < K : x - \min \ge \frac{k}{K} (\max - \min) \Bigr\}

    with `k` from 1. Each range includes its lower limit, and the last one also its upper limit. Codes are computed in
    float64 from differences, so codes do not change if a column is shifted and scaled without rounding. A constant
    attribute has no column.

    Examples
    --------
    >>> cut_into_ranges(np.array([[0.0, 7.0], [1.0, 7.0], [3.9, 7.0], [0.5, 7.0], [4.0, 7.0]]), 4).codes(0)
    array([0, 1, 3, 0, 3], dtype=uint8)
    """
    is_sparse = sparse.issparse(X)
    low, high = (np.ravel(x.toarray() if is_sparse else x).astype(float) for x in (X.min(axis=0), X.max(axis=0)))
    span = np.where(high > low, high - low, np.inf)  # A constant attribute is never cut.
    cuts = [k * span / n_ranges for k in range(1, n_ranges)]
    row, attribute, code, default = (_cut_sparse if is_sparse else _cut_dense)(X, low, cuts)
    key = attribute.astype(np.intp) * n_ranges + code
    has_rows = np.zeros(low.size * n_ranges, dtype=np.bool_)
    has_rows[key] = True
    column = np.cumsum(has_rows) - 1
    ones, shape = np.ones(key.size, dtype=np.int8), (X.shape[0], np.count_nonzero(has_rows))
    present = sparse.csr_matrix((ones, (row, column[key])), shape=shape)
    return RangeTable(present, *np.divmod(np.flatnonzero(has_rows), n_ranges), default, low, span / n_ranges)


def _codes(values: Any, low: Any, cuts: Iterable[Any]) -> Codes:
    """Return the number of cuts at or below each value; `cuts` are measured from `low`."""
    height = np.subtract(values, low, dtype=np.float64)
    codes = np.zeros(height.shape, dtype=np.uint8)
    for cut in cuts:
        codes += (height >= cut).view(np.uint8)
    return codes


def _cut_dense(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Integers, Integers, Codes, Codes]:
    """Return row, attribute and code of values outside the default, the most frequent range in the first block."""
    codes = np.concatenate([_codes(X[i : i + _BLOCK_ROWS], low, cuts) for i in range(0, X.shape[0], _BLOCK_ROWS)])
    default = np.array([np.bincount(column).argmax() for column in codes[:_BLOCK_ROWS].T], dtype=np.uint8)
    row, attribute = np.divmod(np.flatnonzero(codes != default), X.shape[1])
    return row, attribute, codes[row, attribute], default


def _cut_sparse(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Integers, Integers, Codes, Codes]:
    """Return row, attribute and code of stored entries outside the default, the range with 0."""
    entries = X.tocoo()
    if not X.has_canonical_format:
        entries.sum_duplicates()
    attribute, default = entries.col, _codes(0.0, low, cuts)
    codes = _codes(entries.data, low[attribute], (cut[attribute] for cut in cuts))
    kept = codes != default[attribute]
    return entries.row[kept], attribute[kept], codes[kept], default


@dataclass(slots=True, eq=False)
class Subset:
    """A subset of attribute space, with its rows among the tree's own rows and among the other rows."""

    path: tuple[tuple[int, int], ...]  # attributes and codes of its ranges, from the root
    rows: Integers  # own labelled, own unlabelled, other labelled, other unlabelled rows; empty after the cut
    ends: list[int]  # end positions of the first three kinds of rows
    own_labelled: float  # weight of labelled own rows
    own_rows: float  # weight of own rows
    n_labelled: float  # weight of labelled other rows
    n_rows: float  # weight of other rows
    parts: "list[Subset] | None" = None  # None: not cut yet; empty: no attribute cuts it


class SubsetTree:
    r"""A tree that cuts a subset at the attribute with the highest *max-bepp* score on the tree's own rows.

    .. math:: \max_{\text{ranges}} \frac{L}{T + k},

    with `T` rows in a range, `L` of them labelled, and `k` the parameter `max_bepp`. If attributes have equal scores,
    the first is used. An attribute does not cut a subset if all rows of the subset are in one range (up to 1e-9,
    because sums of weights are rounded). It also does not cut a subset if all ranges have so few labelled rows that no
    part could give a useful bound:
    :math:`L \frac{n_e}{n_t} (1 - \Pr(s=1))^2 \le v`, with :math:`n_t` own rows, :math:`n_e` other rows, and
    :math:`\Pr(s=1)` the share of labelled rows among own rows. `v` is the largest variance of a bound. The tree
    therefore depends neither on the labels of other rows nor on the iteration: each subset is cut once, and many are
    cut in one pass.
    """

    def __init__(self, table: RangeTable, labelled: Mask, own: Mask, w: Vector | None, v: float, k: float) -> None:
        self._table, self._w, self._variance, self._max_bepp = table, w, v, k  # w is None if all weights are 1
        self._first = np.flatnonzero(np.diff(table.attribute, prepend=-1))  # first column of each attribute
        ends = np.bincount(2 * ~own + ~labelled, minlength=4).cumsum()[:3].tolist()
        self.root = root = self._subset((), np.lexsort((~labelled, ~own)), ends)
        without = 1.0 - root.own_labelled / root.own_rows
        self._labels_factor = without * without * (root.n_rows / root.own_rows)

    def cut(self, subsets: Sequence[Subset]) -> None:
        """Cut subsets that have own rows and were not cut before."""
        best = self._best_attributes(subsets) if self._first.size else [-1] * len(subsets)
        for subset, attribute in zip(subsets, best, strict=True):
            subset.parts = list(self._parts(subset, attribute)) if attribute >= 0 else []
            subset.rows = np.empty(0, dtype=np.intp)

    def _best_attributes(self, subsets: Sequence[Subset]) -> list[int]:
        """Return the attribute with the highest score for each subset; -1 if none cuts it."""
        whole = np.array([(x.own_labelled, x.own_rows) for x in subsets]).T[:, :, None]
        inside, first, k = self._count(subsets), self._first, self._max_bepp
        inside[1] += inside[0]
        rest = whole - np.add.reduceat(inside, first, axis=2)  # rows in the default ranges
        most_labelled, most_rows = np.maximum(np.maximum.reduceat(inside, first, axis=2), rest)
        score = np.maximum(np.maximum.reduceat(inside[0] / (inside[1] + k), first, axis=1), rest[0] / (rest[1] + k))
        cuts = (most_rows < (1.0 - 1e-9) * whole[1]) & (most_labelled * self._labels_factor > self._variance)
        best = self._table.attribute[first[np.argmax(np.where(cuts, score, -1.0), axis=1)]]
        return list(np.where(cuts.any(axis=1), best, -1).tolist())

    def _count(self, subsets: Sequence[Subset]) -> Vector | Integers:
        """Return the weights of labelled and unlabelled own rows in every column, of shape 2 x subsets x columns."""
        rows = np.concatenate([x.rows[: x.ends[1]] for x in subsets])
        sizes = [size for x in subsets for size in (x.ends[0], x.ends[1] - x.ends[0])]
        present, shape = self._table.present, (len(sizes), self._table.code.size)
        end = present.indptr[rows + 1]
        lengths = end - present.indptr[rows]
        entries = np.arange(lengths.sum()) + np.repeat(end - np.cumsum(lengths), lengths)  # faster than present[rows]
        places = present.indices[entries] + np.repeat(np.repeat(shape[1] * np.arange(shape[0]), sizes), lengths)
        weights = None if self._w is None else np.repeat(self._w[rows], lengths)
        return np.bincount(places, weights, shape[0] * shape[1]).reshape(-1, 2, shape[1]).transpose(1, 0, 2)

    def _parts(self, subset: Subset, j: int) -> Iterator[Subset]:
        """Yield the non-empty parts of a subset by the ranges of attribute `j`, in the order of their codes."""
        codes, ends = self._table.codes(j).take(subset.rows), np.array(subset.ends)
        for code in np.bincount(codes).nonzero()[0].tolist():
            here = (codes == code).nonzero()[0]
            yield self._subset((*subset.path, (j, code)), subset.rows.take(here), here.searchsorted(ends).tolist())

    def _subset(self, path: tuple[tuple[int, int], ...], rows: Integers, ends: list[int]) -> Subset:
        """Return a subset with the weights of its rows."""
        a, b, c = ends
        if self._w is None:
            return Subset(path, rows, ends, a, b, c - b, rows.size - b)
        L_t, U_t, L, U = (float(self._w[kind].sum()) for kind in (rows[:a], rows[a:b], rows[b:c], rows[c:]))
        return Subset(path, rows, ends, L_t, L_t + U_t, L, L + U)


class FoundSubset(NamedTuple):
    """The highest bound of a tree, the subset that gave it, and the number of subsets cut."""

    bound: float
    subset: Subset
    n_splits: int


def error_probability(n_rows: float) -> float:
    r"""Return :math:`\delta = \max(0.025, \frac{1}{1 + 0.004\,n})`, which is larger for few rows."""
    return max(0.025, 1.0 / (1.0 + 0.004 * n_rows))


def bound_variance(c: float, delta: float) -> float:
    r"""Return :math:`v = c (1-c) \frac{1-\delta}{\delta}` for :func:`lower_bound`."""
    return c * (1.0 - c) * ((1.0 - delta) / delta)


def lower_bound(n_rows: float, n_labelled: Any, variance: float) -> Any:
    r"""Return the lower bound of the label frequency from a subset with `T` rows, `L` of them labelled.

    .. math:: c \ge \frac{L}{T} - \sqrt{\frac{v}{T}} \quad\text{with probability } 1 - \delta

    This is Cantelli's inequality. The share of labelled rows among `T` positives has the variance
    :math:`\sigma^2 = c(1-c)/T`. It exceeds its mean by :math:`\varepsilon` with a probability of at most
    :math:`\sigma^2/(\sigma^2+\varepsilon^2)`. With negatives in the subset the share is stochastically smaller. The
    bound holds under SCAR for a single subset that was chosen without these rows, and for the true `c` in the variance.
    """
    return n_labelled / n_rows - sqrt(variance / n_rows)


def search(tree: SubsetTree, variance: float, max_splits: int, min_rows: int) -> FoundSubset:
    r"""Return the subset of a tree with the highest bound, by best-first search.

    The subset with the highest bound *on the tree's own rows* is cut first. Of equal bounds, the one with more labelled
    rows comes first, then the one found first. Subsets that cannot raise the best bound are skipped: with `L` labelled
    other rows, no part has a bound above :math:`1 - \sqrt{v/L}`, so :math:`L (1 - \text{best})^2 > v` is required.
    This saves time, and changes the result only if `max_splits` is reached. The search starts with the share of
    labelled rows among all other rows, which is always a lower bound of :math:`c`.
    """
    bound, best, n_splits, number = tree.root.n_labelled / tree.root.n_rows, tree.root, 0, count()

    def may_be_cut(subset: Subset) -> bool:
        # The subset must have enough rows, and labelled as well as unlabelled own rows.
        is_open = 0 < subset.own_labelled < subset.own_rows > min_rows <= subset.n_rows
        return is_open and subset.n_labelled * (1.0 - bound) ** 2 > variance

    def entry(subset: Subset) -> tuple[float, float, int, Subset]:
        priority = -lower_bound(subset.own_rows, subset.own_labelled, variance)
        return priority, -subset.own_labelled, next(number), subset

    queue, cut = [entry(tree.root)], [tree.root]
    while queue and n_splits < max_splits:
        whole = heappop(queue)[-1]
        if not may_be_cut(whole):
            continue
        if whole.parts is None:
            near = (part for subset in cut for part in subset.parts or () if part.parts is None and part is not whole)
            cut = [whole, *islice(filter(may_be_cut, near), _SUBSETS_CUT_AHEAD)]
            tree.cut(cut)
        n_splits += bool(whole.parts)
        for part in whole.parts or ():
            if part.n_rows >= min_rows and (of_part := lower_bound(part.n_rows, part.n_labelled, variance)) > bound:
                bound, best = of_part, part
            if may_be_cut(part):
                heappush(queue, entry(part))
    return FoundSubset(bound, best, n_splits)


class BoundingSubset(NamedTuple):
    """The subset of attribute space with the highest bound in one fold, computed from rows outside the fold."""

    ranges: dict[Any, tuple[float, float]]  # lower and upper limit of each attribute; empty for all rows
    n_rows: float  # sum of the weights of its rows
    n_labelled: float  # sum of the weights of its labelled rows
    lower_bound: float


class TIcE(LabelFrequencyEstimator):
    r"""Label frequency from subsets that a tree finds: Tree Induction for c Estimation (Bekker and Davis, 2018).

    Under SCAR, :math:`\Pr(s=1|\text{subset}) = c\,\Pr(y=1|\text{subset}) \le c` in every subset of attribute space. For
    a subset with `T` rows, `L` of them labelled,

    .. math:: c \ge \frac{L}{T} - \sqrt{\frac{c_0 (1-c_0)(1-\delta)}{\delta\, T}}

    holds with probability :math:`1-\delta`, where :math:`c_0` is an earlier estimate. For each fold, a tree is grown on
    the rows of the fold to find subsets with many labelled rows. The bounds are computed from all other rows, and the
    highest bound is the estimate. It is close to `c` if some subset, defined by ranges of a few attributes, is nearly
    all positive and has thousands of rows. Otherwise it is too low, and the class prior is too high. The method is
    fast, also for large and sparse tables. (In some copies of the published code, the rows that choose a subset also
    give its bound; these bounds are too high.)

    Parameters
    ----------
    n_ranges : int, default=4
        Number of ranges of equal width for each attribute, from 2 to 256. In a column with a long tail, nearly all rows
        are in one range; take logarithms or ranks of such columns first.
    cv : int, default=5
        Number of trees; each is grown on one fold of the rows.
    n_iterations : int, default=2
        Number of iterations. The first uses :math:`c_0 = 1/2`, each later iteration the estimate of the one before.
    max_splits : int, default=500
        Maximum number of subsets that are cut in one tree.
    min_rows : int, default=10
        Minimum number of rows of a subset for a bound. Subsets with at most this number of rows in the tree's own fold
        are not cut.
    max_bepp : float, default=5
        A subset is cut at the attribute with the highest :math:`\max L / (T + \text{max\_bepp})` over its ranges.
    delta : float, optional
        Probability that a single bound is too high. By default :math:`\max(0.025, 1/(1 + 0.004\,n))`, with `n` the
        number of rows outside the fold.
    n_resamples : int, default=0
        Number of random half-samples for `class_prior_interval` and `label_frequency_interval`; use 100 or more for a
        95% interval. With 0, there is no interval.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for folds and half-samples. Pass an int for reproducible results.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        Label frequency :math:`c = \Pr(s=1|y=1)`: the mean of the last row of `fold_estimates_`, but at least the share
        of labelled rows.
    label_frequency_rows_ : int
        Number of rows used: all rows of positive weight, or a sample if the rows are not in memory.
    class_prior_ : float
        Class prior :math:`\Pr(y=1) = \Pr(s=1)/c` of all rows, labelled and unlabelled.
    fold_estimates_ : array of shape (n_iterations, cv)
        Highest bound of each tree.
    n_splits_ : array of shape (n_iterations, cv)
        Number of subsets that were cut. If it equals `max_splits`, the search did not finish.
    subsets_ : list of BoundingSubset
        For each fold, the subset with the highest bound in the last iteration: ``ranges`` of attributes (by name if the
        columns of `X` have names), ``n_rows``, ``n_labelled``, ``lower_bound``. If SCAR holds and the estimate is
        right, nearly all rows of such a subset are positive.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the columns of `X` have names.

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
    >>> print("%.2f to %.2f" % estimator.subsets_[0].ranges[0])  # range of column 0: all its rows are positive
    0.75 to 1.00
    """

    def __init__(
        self,
        n_ranges: int = 4,
        *,
        cv: int = 5,
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
        self.cv = cv
        self.n_iterations = n_iterations
        self.max_splits = max_splits
        self.min_rows = min_rows
        self.max_bepp = max_bepp
        self.delta = delta
        self.n_resamples = n_resamples
        self.random_state = random_state
        self.pos_label = pos_label

    def _check_options(self) -> None:
        if check_whole(self.n_ranges, "n_ranges", at_least=2) > MAX_RANGES:
            raise ValueError(
                f"n_ranges must be at most {MAX_RANGES}; got {self.n_ranges}. Use fewer ranges, with more rows in each."
            )
        for name, least in (("cv", 2), ("n_iterations", 1), ("max_splits", 1), ("min_rows", 1)):
            check_whole(getattr(self, name), name, at_least=least)
        check_positive(self.max_bepp, "max_bepp")
        if self.delta is not None:
            check_share(self.delta, "delta")

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[RangeTable, Vector, Vector]:
        n_rows = s.size // 2 if self.n_resamples else s.size
        if n_rows < self.cv:
            halves = f", {n_rows} in a half-sample" if self.n_resamples else ""
            raise ValueError(
                f"cv={self.cv} needs at least one row for each fold; there are {s.size} rows{halves}. Use a "
                "smaller cv, or more rows: an estimate from so few rows is very uncertain."
            )
        return cut_into_ranges(X, self.n_ranges), s, w

    def _estimate(self, sample: RangeTable, s: Vector, w: Vector, rng: np.random.Generator) -> FrequencyEstimate:
        found = self._bounds(sample, s, rng.permutation(s.size) % self.cv, None if (w == 1.0).all() else w)
        bounds, n_splits = (np.array([[fold[i] for fold in folds] for folds in found]) for i in (0, 2))
        subsets, share = [self._describe(sample, fold) for fold in found[-1]], float(w @ s / w.sum())
        c = max(float(bounds[-1].mean()), share)
        prior = share / c if c > 0 else 1.0  # A half-sample can have no labelled rows.
        return FrequencyEstimate(prior, {"fold_estimates": bounds, "n_splits": n_splits, "subsets": subsets})

    def _bounds(
        self, table: RangeTable, s: Vector, folds: Integers, w: Vector | None = None
    ) -> list[list[FoundSubset]]:
        """Return the highest bounds of the trees of all folds, for every iteration; `folds` is the fold of each row."""
        in_folds = np.bincount(folds, w)
        deltas = [self.delta or error_probability(n) for n in (in_folds.sum() - in_folds).tolist()]
        largest = enumerate(bound_variance(0.5, d) for d in deltas)
        trees = [SubsetTree(table, s == 1, folds == fold, w, v, self.max_bepp) for fold, v in largest]
        c, found = 0.5, []
        for _ in range(self.n_iterations):
            pairs = [(tree, bound_variance(c, d)) for tree, d in zip(trees, deltas, strict=True)]
            found.append([search(tree, v, self.max_splits, self.min_rows) for tree, v in pairs])
            c = float(np.mean([best.bound for best in found[-1]]))
        return found

    def _describe(self, table: RangeTable, found: FoundSubset) -> BoundingSubset:
        names = getattr(self, "feature_names_in_", range(table.low.size))
        low, step = table.low.tolist(), table.step.tolist()
        ranges = {names[j]: (low[j] + k * step[j], low[j] + (k + 1) * step[j]) for j, k in found.subset.path}
        return BoundingSubset(ranges, found.subset.n_rows, found.subset.n_labelled, found.bound)
