"""The best lower bound on the label frequency that a tree's subsets give, by rows that they were not chosen on."""

from heapq import heappop, heappush
from itertools import count, islice
from math import sqrt
from typing import Any, NamedTuple

from scarless.label_frequency.tice.tree import Subset, SubsetTree

_AHEAD = 64  # most subsets that are cut before the search asks for them, together with one that it asks for


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
            cut = [whole, *islice(filter(may_be_cut, near), _AHEAD)]
            tree.cut(cut)
        n_splits += bool(whole.parts)
        for part in whole.parts or ():
            if part.n_rows >= min_rows and (of_part := lower_bound(part.n_rows, part.n_labelled, variance)) > bound:
                bound, best = of_part, part
            if may_be_cut(part):
                heappush(queue, entry(part))
    return Found(bound, best, n_splits)
