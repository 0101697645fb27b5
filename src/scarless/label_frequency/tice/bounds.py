r"""TIcE: the best lower bound on the label frequency that any subset of attribute space gives.

Under SCAR every subset has :math:`\Pr(s=1 \mid \text{subset}) = c \Pr(y=1 \mid \text{subset}) \le c`. The share of
labelled rows in a subset of positives is :math:`c` itself, so one looks for subsets where that share is high: with a
tree on some of the rows, whose subsets are then judged by the *other* rows. Judged by its own rows a subset would look
better than it is, because it was chosen for looking good there.

Source: Bekker and Davis (2018), "Estimating the class prior in positive and unlabeled data through decision tree
induction", AAAI.
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.label_frequency.tice.codes import Integers, RangeTable
from scarless.label_frequency.tice.trees import SubsetTrees
from scarless.numerics.arrays import Vector

_AHEAD = 16  # nodes of each tree that are cut before the search asks for them


class Subset(NamedTuple):
    """A subset of attribute space, and its rows outside the fold whose tree found it."""

    path: list[tuple[int, int]]  # rank of the attribute and code of the range, from the root down
    n_rows: int
    n_labelled: int


class FoldBounds(NamedTuple):
    """Lower bounds by iteration and fold, and the subsets that gave those of the last iteration."""

    bounds: Vector
    n_splits: Integers
    subsets: list[Subset]


def chance_of_error(n_rows: Any) -> Any:
    r"""Return :math:`\delta = \max(0.025, \frac{1}{1 + 0.004\,n})`, the chance that one bound is too high.

    Few rows would give no bound worth having at a small chance of error.

    Examples
    --------
    >>> float(chance_of_error(250)), float(chance_of_error(100_000))
    (0.5, 0.025)
    """
    return np.maximum(0.025, 1.0 / (1.0 + 0.004 * np.asarray(n_rows)))


def bound_variance(c: float, delta: Any) -> Any:
    r"""Return :math:`v = c (1-c) \frac{1-\delta}{\delta}`, of which :func:`lower_bound` takes the share of each row.

    Examples
    --------
    >>> bound_variance(0.5, 0.2)
    1.0
    """
    return c * (1.0 - c) * ((1.0 - delta) / delta)


def lower_bound(n_rows: Any, n_labelled: Any, variance: Any) -> Any:
    r"""Return what a subset says about the label frequency at least.

    .. math:: c \ge \frac{L}{T} - \sqrt{\frac{v}{T}} \quad\text{with probability } 1 - \delta

    The one-sided inequality of Chebyshev (Cantelli): the share of labelled rows among `T` positives has the variance
    :math:`\sigma^2 = c(1-c)/T` and exceeds its mean by :math:`\varepsilon` with a probability of at most
    :math:`\frac{\sigma^2}{\sigma^2 + \varepsilon^2}`. With negatives among them it is stochastically smaller.

    Holds under SCAR for a subset chosen without a look at these rows, and for one such subset at a time: the maximum
    over many is no bound of that confidence. The true `c` in the variance is not known; an earlier estimate stands in.

    Examples
    --------
    >>> float(lower_bound(100, 60, variance=1.0))
    0.5
    """
    return n_labelled / n_rows - np.sqrt(variance / n_rows)


def label_frequency_bounds(
    table: RangeTable,
    s: Vector,
    folds: Integers,
    *,
    n_iterations: int,
    max_splits: int,
    min_rows: int,
    max_bepp: float,
    delta: float | None,
) -> FoldBounds:
    r"""Return the best bound of every fold's tree, for every iteration.

    Each fold's tree is grown on the rows of that fold alone, and its subsets are judged by all other rows. The first
    iteration takes 1/2 for the label frequency in the variance of the bound, every further one the mean bound of the
    one before. The share of labelled rows among all rows outside the fold counts without a margin, since
    :math:`c \ge \Pr(s=1)` always.

    Parameters
    ----------
    table : RangeTable
    s : array
        0 and 1.
    folds : array of int
        Number of the fold of every row, from 0 on; none is empty, and there are two or more.
    n_iterations, max_splits, min_rows, max_bepp, delta
        As in :class:`scarless.label_frequency.TIcE`.
    """
    n_others = folds.size - np.bincount(folds)
    deltas = chance_of_error(n_others) if delta is None else np.full(n_others.size, delta)
    labelled = s == 1
    largest = bound_variance(0.5, deltas)
    trees = SubsetTrees(table, labelled, folds, largest, min_rows=min_rows, max_bepp=max_bepp)
    c, bounds, n_splits = 0.5, [], []
    for _ in range(n_iterations):
        searches = search_trees(trees, bound_variance(c, deltas), max_splits)
        bounds.append([search.best for search in searches])
        n_splits.append([search.n_splits for search in searches])
        c = float(np.mean(bounds[-1]))
    return FoldBounds(np.array(bounds), np.array(n_splits), [_subset(trees, search.best_node) for search in searches])


def search_trees(trees: SubsetTrees, variance: Vector, max_splits: int) -> list["Search"]:
    """Search the tree of every fold to its end, all of them side by side."""
    scores = _Scores(trees, variance)
    roots = trees.nodes[: variance.size]
    floors = (roots["n_labelled"] / roots["n_rows"]).tolist()
    searches = [Search(fold, floors[fold], v, max_splits) for fold, v in enumerate(variance.tolist())]
    while waiting := [search for search in searches if search.run(scores)]:
        uncut = np.flatnonzero(trees.nodes["slot"] >= 0)
        scores.cut(np.concatenate([search.wanted(trees.nodes, uncut) for search in waiting]))
    return searches


class Search:
    r"""Best-first search of one fold's tree for the subset with the highest bound.

    The node with the highest bound *on the tree's own rows* is cut first; of equal ones that with more labelled rows,
    then the one that was found first. A node waits to be cut only while it can still raise the best bound: no part of
    a subset with `L` labelled rows has a higher bound than those rows alone would have, :math:`1 - \sqrt{v/L}`, so it
    takes :math:`L (1 - \text{best})^2 > v`. The rows counted for that are those outside the fold, the ones that make
    the bound. The rule is then exact: it never drops a node that would have mattered, and without a limit on the
    number of splits it changes nothing but the time taken.
    """

    def __init__(self, root: int, floor: float, variance: float, max_splits: int) -> None:
        self.best, self.best_node, self.n_splits = floor, root, 0
        self._fold, self._variance, self._max_splits = root, variance, max_splits
        self._queue = [(0.0, 0, 0, root)]
        self._n_queued = 0

    def run(self, scores: "_Scores") -> bool:
        """Go on until a node is met that has not been cut, and return True; False at the end."""
        queue, v = self._queue, self._variance
        gap = (1.0 - self.best) ** 2
        while queue and self.n_splits < self._max_splits:
            node = queue[0][-1]
            promising = scores.n_labelled[node] * gap > v
            if promising and not scores.is_cut[node]:
                return True
            heappop(queue)
            children = scores.children[node] if promising else range(0)
            self.n_splits += len(children) > 0
            for child in children:
                if scores.bound[child] > self.best:
                    self.best, self.best_node = scores.bound[child], child
                    gap = (1.0 - self.best) ** 2
                if scores.n_labelled[child] * gap > v:
                    self._n_queued += 1
                    heappush(queue, (scores.priority[child], scores.tie[child], self._n_queued, child))
        return False

    def wanted(self, nodes: NDArray[Any], uncut: Integers) -> Integers:
        """Return the node that the search waits for and those of its tree that it is likely to want next."""
        gap = (1.0 - self.best) ** 2
        mine = uncut[nodes["fold"][uncut] == self._fold]
        mine = mine[nodes["n_labelled"][mine] * gap > self._variance]
        n = min(_AHEAD, self._max_splits - self.n_splits)
        if mine.size <= n:
            return mine
        chosen = mine[np.argsort(_priority(nodes[mine], self._variance), kind="stable")[:n]]
        awaited = self._queue[0][-1]
        return chosen if awaited in chosen else np.append(chosen, awaited)


class _Scores:
    """What the searches read of the nodes, as lists: a search looks at one node at a time."""

    def __init__(self, trees: SubsetTrees, variance: Vector) -> None:
        self._trees, self._variance = trees, variance
        self.bound: list[float] = []
        self.priority: list[float] = []
        self.tie: list[int] = []
        self.n_labelled: list[int] = []  # 0 for a node that is not to be cut
        self.is_cut: list[bool] = []
        self.children: list[range] = []
        self._extend()
        self.children = _children(trees.nodes)

    def cut(self, which: Integers) -> None:
        """Cut nodes and take in their children."""
        self._trees.cut(which)
        self._extend()
        for node, children in zip(which.tolist(), _children(self._trees.nodes[which]), strict=True):
            self.is_cut[node], self.children[node] = True, children

    def _extend(self) -> None:
        new = self._trees.nodes[len(self.bound) :]
        variance, n_rows = self._variance[new["fold"]], np.maximum(new["n_rows"], 1)
        bound = lower_bound(n_rows, new["n_labelled"], variance)
        self.bound += np.where(new["n_rows"] >= self._trees.min_rows, bound, -np.inf).tolist()
        self.priority += _priority(new, variance).tolist()
        self.tie += (-new["tree_labelled"]).tolist()
        self.n_labelled += (new["n_labelled"] * new["is_open"]).tolist()
        self.is_cut += (new["slot"] < 0).tolist()
        self.children += [range(0)] * new.size


def _priority(nodes: NDArray[Any], variance: Any) -> Vector:
    rows = np.maximum(nodes["tree_rows"], 1)
    return np.asarray(-lower_bound(rows, nodes["tree_labelled"], variance))


def _children(nodes: NDArray[Any]) -> list[range]:
    first = nodes["first_child"]
    return list(map(range, first.tolist(), (first + nodes["n_children"]).tolist()))


def _subset(trees: SubsetTrees, node: int) -> Subset:
    nodes, path, at = trees.nodes, [], node
    while nodes["parent"][at] >= 0:
        path.append((int(nodes["rank"][nodes["parent"][at]]), int(nodes["code"][at])))
        at = nodes["parent"][at]
    return Subset(path[::-1], int(nodes["n_rows"][node]), int(nodes["n_labelled"][node]))
