r"""TIcE: the best lower bound on the label frequency that any subset of attribute space gives.

The share of labelled rows in a subset of positives is :math:`c`, so one looks for subsets where that share is high:
with a tree on some of the rows, whose subsets are then judged by the *others*. Judged by the tree's own rows a subset
would look better than it is, because it was chosen for looking good there.
"""

from functools import cache
from heapq import heappop, heappush
from itertools import count, islice
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from scarless.label_frequency.tice.codes import RangeTable
from scarless.label_frequency.tice.tree import Subset, SubsetTree
from scarless.numerics.arrays import Integers, Vector

_AHEAD = 64  # most subsets that are cut before the search asks for them, together with one that it asks for


class Found(NamedTuple):
    """The best bound of a tree, the subset that gave it, and the number of subsets cut."""

    bound: float
    subset: Subset
    n_splits: int


def chance_of_error(n_rows: int) -> float:
    r"""Return :math:`\delta = \max(0.025, \frac{1}{1 + 0.004\,n})`: few rows would give no bound at a small chance."""
    return max(0.025, 1.0 / (1.0 + 0.004 * n_rows))


def bound_variance(c: float, delta: float) -> float:
    r"""Return :math:`v = c (1-c) \frac{1-\delta}{\delta}`, of which :func:`lower_bound` takes the share of each row."""
    return c * (1.0 - c) * ((1.0 - delta) / delta)


def lower_bound(n_rows: int, n_labelled: Any, variance: float) -> Any:
    r"""Return what a subset says about the label frequency at least.

    .. math:: c \ge \frac{L}{T} - \sqrt{\frac{v}{T}} \quad\text{with probability } 1 - \delta

    The one-sided inequality of Chebyshev (Cantelli): the share of labelled rows among `T` positives has the variance
    :math:`\sigma^2 = c(1-c)/T` and exceeds its mean by :math:`\varepsilon` with a probability of at most
    :math:`\frac{\sigma^2}{\sigma^2 + \varepsilon^2}`. With negatives among them it is stochastically smaller. Holds
    under SCAR for a subset chosen without a look at these rows, one at a time, and for the true `c` in the variance.
    """
    return n_labelled / n_rows - sqrt(variance / n_rows)


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
) -> list[list[Found]]:
    """Return the best bounds of all folds' trees, for every iteration.

    The first takes 1/2 for `c` in the variance, every further one the mean bound of the one before. `folds` has the
    number of each row's fold, two or more, none empty; the options are those of :class:`TIcE`.
    """
    codes = cache(table.codes)
    deltas = [chance_of_error(n) if delta is None else delta for n in (folds.size - np.bincount(folds)).tolist()]
    largest = enumerate(bound_variance(0.5, d) for d in deltas)
    trees = [SubsetTree(table, codes, s == 1, folds == fold, v, max_bepp) for fold, v in largest]
    c, found = 0.5, []
    for _ in range(n_iterations):
        variances = [bound_variance(c, d) for d in deltas]
        found.append([search(tree, v, max_splits, min_rows) for tree, v in zip(trees, variances, strict=True)])
        c = float(np.mean([best.bound for best in found[-1]]))
    return found


def search(tree: SubsetTree, variance: float, max_splits: int, min_rows: int) -> Found:
    r"""Search a tree, best first, for the subset with the highest bound.

    The subset with the highest bound *on the tree's own rows* is cut first; of equal ones that with more labelled
    rows, then the one found first. A subset waits only while it can still raise the best bound: no part of a subset
    with `L` labelled rows has a higher bound than those rows alone would have, :math:`1 - \sqrt{v/L}`, so it takes
    :math:`L (1 - \text{best})^2 > v`, with the other rows, the ones that make the bound. The rule is exact: without a
    limit on the number of splits it changes nothing but the time taken. All other rows together count without a
    margin, since :math:`c \ge \Pr(s=1)` always.
    """
    bound, best, n_splits = tree.root.n_labelled / tree.root.n_rows, tree.root, 0
    number = count()

    def may_be_cut(subset: Subset) -> bool:
        is_open = 0 < subset.own_labelled < subset.own_rows > min_rows <= subset.n_rows  # large and mixed enough
        return is_open and subset.n_labelled * (1.0 - bound) ** 2 > variance

    def entry(subset: Subset) -> tuple[float, int, int, Subset]:
        priority = -lower_bound(subset.own_rows, subset.own_labelled, variance)
        return priority, -subset.own_labelled, next(number), subset

    queue, cut = [entry(tree.root)], [tree.root]
    while queue and n_splits < max_splits:
        whole = heappop(queue)[-1]
        if not may_be_cut(whole):
            continue
        if whole.parts is None:
            near = (part for subset in cut for part in subset.parts or () if part.parts is None and part is not whole)
            cut = [whole, *islice(filter(may_be_cut, near), _AHEAD)]
            tree.cut(cut)
        n_splits += bool(whole.parts)
        for part in whole.parts or ():
            if part.n_rows >= min_rows and (of_part := lower_bound(part.n_rows, part.n_labelled, variance)) > bound:
                bound, best = of_part, part
            if may_be_cut(part):
                heappush(queue, entry(part))
    return Found(bound, best, n_splits)
