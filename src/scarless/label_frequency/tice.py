"""TIcE: a lower bound on the label frequency from subsets that a decision tree finds.

Attributes are cut into ranges of equal width, kept as a sparse matrix of which row lies in which range. Per attribute
one range, the *default*, has no column: a row without an entry for the attribute lies there. For a dense table that
is a full range, for a CSR table the one that holds 0, so that a text table is never made dense. A tree cuts rows into
subsets: it is grown on some of the rows, its own, with the others carried along. The best lower bound comes from rows
that the subsets were not chosen on.
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
from scarless.label_frequency._base import Estimate, LabelFrequencyEstimator
from scarless.numerics.arrays import Integers, Mask, Vector

Codes = NDArray[np.uint8]
MAX_RANGES = 256  # a code is one byte
_BLOCK_ROWS = 512  # few enough for the processor's cache
_SUBSETS_CUT_AHEAD = 64  # most subsets that are cut before the search asks for them, together with one that it asks for


@dataclass(frozen=True)
class RangeTable:
    """Rows and the ranges they lie in; columns are ordered by attribute, then by code."""

    present: sparse.csr_matrix  # rows x columns: 1 where the row lies in the column's range
    attribute: Integers  # per column
    code: Integers  # per column: which range of the attribute
    default: Codes  # per attribute: code of the range without a column
    low: Vector  # per attribute
    step: Vector  # per attribute: width of its ranges

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, present=self.present[rows])

    @cached_property
    def codes(self) -> Callable[[int], Codes]:
        """A function of an attribute: the range of every row, found once."""
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

    with `k` from 1: each range is closed below, and the last one above, too. Computed in float64 from differences, so
    that an exact change of unit and origin changes no code. A constant attribute gets no column.

    Examples
    --------
    >>> cut_into_ranges(np.array([[0.0, 7.0], [1.0, 7.0], [3.9, 7.0], [0.5, 7.0], [4.0, 7.0]]), 4).codes(0)
    array([0, 1, 3, 0, 3], dtype=uint8)
    """
    is_sparse = sparse.issparse(X)
    low, high = (np.ravel(x.toarray() if is_sparse else x).astype(float) for x in (X.min(axis=0), X.max(axis=0)))
    span = np.where(high > low, high - low, np.inf)  # a constant attribute is never cut
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
    """Return how many cuts lie at or below each value; `cuts` are measured from `low`."""
    height = np.subtract(values, low, dtype=np.float64)
    codes = np.zeros(height.shape, dtype=np.uint8)
    for cut in cuts:
        codes += (height >= cut).view(np.uint8)
    return codes


def _cut_dense(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Integers, Integers, Codes, Codes]:
    """Return row, attribute and code of every value outside the default, the fullest range in the first rows."""
    codes = np.concatenate([_codes(X[i : i + _BLOCK_ROWS], low, cuts) for i in range(0, X.shape[0], _BLOCK_ROWS)])
    default = np.array([np.bincount(column).argmax() for column in codes[:_BLOCK_ROWS].T], dtype=np.uint8)
    row, attribute = np.divmod(np.flatnonzero(codes != default), X.shape[1])
    return row, attribute, codes[row, attribute], default


def _cut_sparse(X: Any, low: Vector, cuts: list[Vector]) -> tuple[Integers, Integers, Codes, Codes]:
    """Cut the stored entries; all others are 0. Where none is, 0 may be out of range, and any default will do."""
    entries = X.tocoo()
    if not X.has_canonical_format:
        entries.sum_duplicates()
    attribute, default = entries.col, _codes(0.0, low, cuts)
    codes = _codes(entries.data, low[attribute], (cut[attribute] for cut in cuts))
    kept = codes != default[attribute]
    return entries.row[kept], attribute[kept], codes[kept], default


@dataclass(slots=True, eq=False)
class Subset:
    """A subset of attribute space: its rows among the tree's own and among the others, and its parts."""

    path: tuple[tuple[int, int], ...]  # attribute and code of its range, from the root down
    rows: Integers  # labelled own rows, unlabelled ones, then others, labelled and unlabelled; none once it is cut
    ends: list[int]  # of the first three kinds of rows
    own_labelled: float  # rows count as often as their weights say
    own_rows: float
    n_labelled: float  # among the others
    n_rows: float
    parts: "list[Subset] | None" = None  # None: not cut yet; empty: no attribute cuts it


class SubsetTree:
    r"""A subset is cut at the attribute with the highest *max-bepp* score on the tree's own rows.

    .. math:: \max_{\text{ranges}} \frac{L}{T + k},

    with `T` rows, `L` of them labelled, in a range, and `max_bepp` for `k`; at the first of several that tie. An
    attribute with all rows of the subset in one range (to 1e-9: sums of weights are rounded) does not cut it. Nor does
    one whose ranges all have so few labelled rows that even alone they would say nothing among the others, :math:`n_e`
    rows to the tree's :math:`n_t`: :math:`L \frac{n_e}{n_t} (1 - \Pr(s=1))^2 \le v`, with the tree's own share of
    labelled rows. With `v`, the variance of a bound, at its largest, the shape of a tree depends neither on labels of
    the others nor on the iteration: a subset is cut once, many at a time and ahead of any search.
    """

    def __init__(self, table: RangeTable, labelled: Mask, own: Mask, w: Vector | None, v: float, k: float) -> None:
        self._table, self._w, self._variance, self._max_bepp = table, w, v, k  # w is None: each row counts once
        self._first = np.flatnonzero(np.diff(table.attribute, prepend=-1))  # columns of the attributes
        ends = np.bincount(2 * ~own + ~labelled, minlength=4).cumsum()[:3].tolist()
        self.root = root = self._subset((), np.lexsort((~labelled, ~own)), ends)
        without = 1.0 - root.own_labelled / root.own_rows
        self._label_worth = without * without * (root.n_rows / root.own_rows)

    def cut(self, subsets: Sequence[Subset]) -> None:
        """Find the parts of subsets that have own rows and have not been cut."""
        best = self._best_attributes(subsets) if self._first.size else [-1] * len(subsets)
        for subset, attribute in zip(subsets, best, strict=True):
            subset.parts = list(self._parts(subset, attribute)) if attribute >= 0 else []
            subset.rows = np.empty(0, dtype=np.intp)

    def _best_attributes(self, subsets: Sequence[Subset]) -> list[int]:
        """Return the attribute that cuts each subset best, -1 where none cuts it."""
        whole = np.array([(x.own_labelled, x.own_rows) for x in subsets]).T[:, :, None]
        inside, first, k = self._count(subsets), self._first, self._max_bepp
        inside[1] += inside[0]
        rest = whole - np.add.reduceat(inside, first, axis=2)  # in the ranges without a column
        most_labelled, most_rows = np.maximum(np.maximum.reduceat(inside, first, axis=2), rest)
        score = np.maximum(np.maximum.reduceat(inside[0] / (inside[1] + k), first, axis=1), rest[0] / (rest[1] + k))
        cuts = (most_rows < (1.0 - 1e-9) * whole[1]) & (most_labelled * self._label_worth > self._variance)
        best = self._table.attribute[first[np.argmax(np.where(cuts, score, -1.0), axis=1)]]
        return list(np.where(cuts.any(axis=1), best, -1).tolist())

    def _count(self, subsets: Sequence[Subset]) -> Vector | Integers:
        """Return labelled and unlabelled own rows in the range of every column: 2 x subsets x columns."""
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
        """Yield the parts by attribute `j` that have rows, by code."""
        codes, ends = self._table.codes(j).take(subset.rows), np.array(subset.ends)
        for code in np.bincount(codes).nonzero()[0].tolist():
            here = (codes == code).nonzero()[0]
            yield self._subset((*subset.path, (j, code)), subset.rows.take(here), here.searchsorted(ends).tolist())

    def _subset(self, path: tuple[tuple[int, int], ...], rows: Integers, ends: list[int]) -> Subset:
        """Return a subset with its rows counted."""
        a, b, c = ends
        if self._w is None:
            return Subset(path, rows, ends, a, b, c - b, rows.size - b)
        L_t, U_t, L, U = (float(self._w[kind].sum()) for kind in (rows[:a], rows[a:b], rows[b:c], rows[c:]))
        return Subset(path, rows, ends, L_t, L_t + U_t, L, L + U)


class Found(NamedTuple):
    """The best bound of a tree, the subset that gave it, and the number of subsets cut."""

    bound: float
    subset: Subset
    n_splits: int


def chance_of_error(n_rows: float) -> float:
    r"""Return :math:`\delta = \max(0.025, \frac{1}{1 + 0.004\,n})`: few rows would give no bound at a small chance."""
    return max(0.025, 1.0 / (1.0 + 0.004 * n_rows))


def bound_variance(c: float, delta: float) -> float:
    r"""Return :math:`v = c (1-c) \frac{1-\delta}{\delta}`, of which :func:`lower_bound` takes the share of each row."""
    return c * (1.0 - c) * ((1.0 - delta) / delta)


def lower_bound(n_rows: float, n_labelled: Any, variance: float) -> Any:
    r"""Return what a subset says about the label frequency at least.

    .. math:: c \ge \frac{L}{T} - \sqrt{\frac{v}{T}} \quad\text{with probability } 1 - \delta

    Cantelli's inequality: the share of labelled rows among `T` positives has the variance :math:`\sigma^2 = c(1-c)/T`
    and exceeds its mean by :math:`\varepsilon` with a probability of at most :math:`\sigma^2/(\sigma^2+\varepsilon^2)`;
    with negatives among them it is stochastically smaller. Holds under SCAR for a subset chosen without a look at these
    rows, one at a time, and for the true `c` in the variance.
    """
    return n_labelled / n_rows - sqrt(variance / n_rows)


def search(tree: SubsetTree, variance: float, max_splits: int, min_rows: int) -> Found:
    r"""Search a tree, best first, for the subset with the highest bound.

    The subset with the highest bound *on the tree's own rows* is cut first; of equal ones that with more labelled
    rows, then the one found first. It waits only while it can still raise the best bound: no part of a subset with `L`
    labelled other rows has a higher bound than these alone, :math:`1 - \sqrt{v/L}`, so it takes
    :math:`L (1 - \text{best})^2 > v`, which changes nothing but the time taken where `max_splits` is no limit. All
    other rows together count without a margin, since :math:`c \ge \Pr(s=1)` always.
    """
    bound, best, n_splits, number = tree.root.n_labelled / tree.root.n_rows, tree.root, 0, count()

    def may_be_cut(subset: Subset) -> bool:
        is_open = 0 < subset.own_labelled < subset.own_rows > min_rows <= subset.n_rows  # large and mixed enough
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
    return Found(bound, best, n_splits)


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
    cv : int, default=5
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
    fold_estimates_ : array of shape (n_iterations, cv)
        The best bound that each tree gave.
    n_splits_ : array of shape (n_iterations, cv)
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
                f"n_ranges must be at most {MAX_RANGES}; got {self.n_ranges}. Fewer, fuller ranges do better."
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
                f"cv={self.cv} needs at least one row for each fold; there are {s.size} rows{halves}. Set "
                "cv to a smaller number, though from so few rows no estimate says much."
            )
        return cut_into_ranges(X, self.n_ranges), s, w

    def _estimate(self, sample: RangeTable, s: Vector, w: Vector, rng: np.random.Generator) -> Estimate:
        found = self._bounds(sample, s, rng.permutation(s.size) % self.cv, None if (w == 1.0).all() else w)
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
