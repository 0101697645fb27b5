"""Trees that cut rows into subsets, one tree per fold, many nodes cut at a time.

A tree is grown on the rows of its own fold. Every subset also has rows in the other folds; they are carried along, and
no decision here looks at their labels. The best-first search that walks the trees is in :mod:`.bounds`;
whatever order it takes, a node has one way to be cut, so nodes are cut in batches, ahead of the search, and only once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.label_frequency.tice.bits import RowBits, Words
from scarless.label_frequency.tice.codes import Integers, RangeTable
from scarless.label_frequency.tice.counts import RangeBits, RangeCounts
from scarless.numerics.arrays import Vector

_FEWEST_FOR_SUBTRACTION = 256  # tree rows; below, counting them is as fast
_BATCH_COUNTS = 1 << 19  # columns times nodes that are cut at a time: some 10 MB for each array of counts

_SIZES = ("n_rows", "n_labelled", "tree_rows", "tree_labelled")  # in the other folds, then in the tree's own
_NODE = np.dtype(
    [
        (name, np.intp)
        for name in (
            "fold",
            *_SIZES,
            "parent",
            "code",  # which range of the parent's attribute
            "is_open",  # whether it is large and mixed enough to be cut
            "slot",  # where its bits are; -1 for a node that is not open, or has been cut
            "rank",  # the attribute that cuts it; -1 where none does
            "first_child",
            "n_children",
        )
    ]
)


class SubsetTrees:
    r"""One tree per fold; :meth:`cut` finds the children of nodes.

    A node is cut at the attribute with the highest *max-bepp* score on the tree's own rows,

    .. math:: \max_{\text{ranges}} \frac{L}{T + k},

    with `T` rows, `L` of them labelled, in a range; at the first of the table's attributes where several tie. An
    attribute that has all rows of the node in one range does not cut it. Nor does one whose ranges all have so few
    labelled rows that even alone, without any unlabelled row, they would say nothing in the other folds: with
    :math:`n_t` rows in the tree's fold and :math:`n_e` in the others,
    :math:`L \frac{n_e}{n_t} (1 - \Pr(s=1))^2 \le v`, with the share of labelled rows in the tree's fold. Taking `v` at
    its largest, and no number from outside the fold, makes the shape of a tree depend neither on the other rows nor on
    the iteration.

    Nodes are numbers; ``nodes`` has what is known of each. The roots are the first ones, in the order of the folds,
    and the children of a node follow each other, in the order of their ranges.

    Source: Bekker and Davis (2018), "Estimating the class prior in positive and unlabeled data through decision tree
    induction", AAAI.

    Parameters
    ----------
    table : RangeTable
    labelled : array of bool
    folds : array of int
        Number of the fold of every row; each fold has rows.
    variance : array
        Per fold: `v`, the variance in the bound of a subset with one row, at its largest.
    min_rows : int
        A subset with no more tree rows, or with fewer rows in the other folds, is not cut.
    max_bepp : float
        The `k` of the score.
    """

    def __init__(
        self,
        table: RangeTable,
        labelled: NDArray[np.bool_],
        folds: Integers,
        variance: Vector,
        *,
        min_rows: int,
        max_bepp: float,
    ) -> None:
        self.table, self.min_rows, self.max_bepp, self._variance = table, min_rows, max_bepp, variance
        self._layout = RowBits.of(labelled, folds, variance.size)
        self._counts = RangeCounts(table, labelled, self._layout)
        self._ranges = RangeBits(table, self._layout)
        self._attributes_with = [int(np.sum(table.width > place)) for place in range(table.width.max(initial=0))]
        self._blocks = np.cumsum([0, *self._attributes_with])
        self._rank_of_attribute = np.argsort(table.attribute)
        sizes = np.bincount(folds, minlength=variance.size)
        n_labelled = np.bincount(folds[labelled], minlength=variance.size)
        self._label_worth = (1.0 - n_labelled / sizes) ** 2 * ((folds.size - sizes) / sizes)
        self._storage = np.empty(1024, dtype=_NODE)
        self._bits = np.empty((256, self._layout.n_words), dtype=np.uint64)
        self._free = list(range(len(self._bits)))
        # Open nodes share no rows, so few are large at a time. That bounds the memory for counts that wait, too: all of
        # them have no more numbers than the table has entries.
        self._many_rows = max(_FEWEST_FOR_SUBTRACTION, 2 * table.n_columns * table.n_rows // max(1, table.present.nnz))
        self._waiting: dict[int, Integers] = {}  # counts of large nodes
        self.n_nodes = 0
        self._plant(sizes, n_labelled)

    @property
    def nodes(self) -> NDArray[Any]:
        """What is known of every node."""
        return self._storage[: self.n_nodes]

    def _plant(self, sizes: Integers, n_labelled: Integers) -> None:
        counts = np.column_stack([sizes.sum() - sizes, n_labelled.sum() - n_labelled, sizes, n_labelled])
        new = self._append(np.arange(sizes.size), counts, parent=-1, code=-1)
        new["is_open"] &= self.table.n_columns > 0
        is_open = np.flatnonzero(new["is_open"])
        everything = self._layout.bits(np.arange(self.table.n_rows))
        new["slot"][is_open] = self._keep_bits(np.repeat(everything[None], is_open.size, axis=0))

    def _append(self, folds: Any, counts: Integers, *, parent: Any, code: Any) -> NDArray[Any]:
        start, end = self.n_nodes, self.n_nodes + len(counts)
        if end > self._storage.size:
            self._storage = np.concatenate([self._storage, np.empty(end, dtype=_NODE)])
        self.n_nodes = end
        new = self._storage[start:end]
        new["fold"], new["parent"], new["code"] = folds, parent, code
        for name, column in zip(_SIZES, counts.T, strict=True):
            new[name] = column
        new["is_open"] = self._is_open(new)
        new["slot"], new["rank"], new["first_child"], new["n_children"] = -1, -1, 0, 0
        return new

    def _is_open(self, nodes: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which subsets are large and mixed enough to be cut."""
        rows, labelled = nodes["tree_rows"], nodes["tree_labelled"]
        return (labelled > 0) & (labelled < rows) & (rows > self.min_rows) & (nodes["n_rows"] >= self.min_rows)

    def _keep_bits(self, bits: Words) -> list[int]:
        missing = len(bits) - len(self._free)
        if missing > 0:
            n, more = len(self._bits), max(missing, len(self._bits))
            self._bits = np.concatenate([self._bits, np.empty((more, self._layout.n_words), dtype=np.uint64)])
            self._free += range(n, n + more)
        slots, self._free = self._free[: len(bits)], self._free[len(bits) :]
        self._bits[slots] = bits
        return slots

    def cut(self, which: Integers) -> None:
        """Find the children of nodes that are open and have not been cut."""
        step = max(1, _BATCH_COUNTS // self.table.n_columns)
        for start in range(0, which.size, step):
            self._cut(which[start : start + step])

    def _cut(self, which: Integers) -> None:
        nodes = self.nodes[which]
        bits = self._bits.take(nodes["slot"], axis=0)
        counts = self._count(which, nodes, bits)
        ranks = self._best_attributes(nodes, counts)
        self._free += nodes["slot"].tolist()
        self._storage["slot"][which] = -1
        self._storage["rank"][which] = ranks
        kept = np.flatnonzero(ranks >= 0)
        if kept.size == ranks.size:
            self._make_children(which, nodes, ranks, bits, counts)
        elif kept.size:
            self._make_children(which[kept], nodes[kept], ranks[kept], bits[kept], counts[kept])

    def _count(self, which: Integers, nodes: NDArray[Any], bits: Words) -> Integers:
        """Return unlabelled and labelled tree rows of every node in every column's range."""
        known = [self._waiting.pop(node, None) for node in which.tolist()]
        new = [i for i, counts in enumerate(known) if counts is None]
        counts = np.empty((which.size, 2, self.table.n_columns), dtype=np.intp)
        if new:
            counts[new] = self._counts.count(bits[new], nodes["fold"][new], nodes["tree_rows"][new])
        for i, count in enumerate(known):
            if count is not None:
                counts[i] = count
        return counts

    def _best_attributes(self, nodes: NDArray[Any], counts: Integers) -> Integers:
        """Return the rank of the attribute that cuts each node best, -1 where none cuts it."""
        T, L, folds = (nodes[name][:, None] for name in ("tree_rows", "tree_labelled", "fold"))
        labelled = counts[:, 1]
        rows = counts[:, 0] + labelled
        rest_rows, rest_labelled = T - self._over_ranges(np.add, rows), L - self._over_ranges(np.add, labelled)
        most_rows = np.maximum(self._over_ranges(np.maximum, rows), rest_rows)
        most_labelled = np.maximum(self._over_ranges(np.maximum, labelled), rest_labelled)
        score = self._over_ranges(np.maximum, labelled / (rows + self.max_bepp))
        score = np.maximum(score, rest_labelled / (rest_rows + self.max_bepp))
        cuts = (most_rows < T) & (most_labelled * self._label_worth[folds] > self._variance[folds])
        score = np.where(cuts, score, -1.0)[:, self._rank_of_attribute]
        first = np.argmax(score, axis=1)
        return np.where(score[np.arange(first.size), first] >= 0, self._rank_of_attribute[first], -1)

    def _over_ranges(self, combine: Any, values: Any) -> Any:
        """Combine the columns of each attribute; its default range, which has none, is left to the caller."""
        out = values[:, : self._blocks[1]].copy()
        for start, n in zip(self._blocks[1:], self._attributes_with[1:], strict=False):
            combine(out[:, :n], values[:, start : start + n], out=out[:, :n])
        return out

    def _make_children(
        self, which: Integers, nodes: NDArray[Any], ranks: Integers, bits: Words, counts: Integers
    ) -> None:
        """Make one node per range of the attributes that cut the nodes."""
        width = self.table.width[ranks]
        first = np.cumsum(width) - width
        parent = np.repeat(np.arange(ranks.size), width)
        columns = self._blocks[np.arange(parent.size) - first[parent]] + ranks[parent]
        children = self._child_bits(bits, columns, parent, first, width)
        sizes = self._sizes(children[: parent.size], nodes["fold"][parent])
        whole = np.column_stack([nodes[name] for name in _SIZES])
        sizes = np.concatenate([sizes, whole - np.add.reduceat(sizes, first, axis=0)])
        parent = np.concatenate([parent, np.arange(ranks.size)])
        code = np.concatenate([self.table.code[columns], self.table.default[ranks]])
        order = np.lexsort((code, parent))
        parent, start = parent[order], self.n_nodes
        new = self._append(nodes["fold"][parent], sizes[order], parent=which[parent], code=code[order])
        self._storage["first_child"][which] = start + first + np.arange(ranks.size)
        self._storage["n_children"][which] = width + 1
        is_open = np.flatnonzero(new["is_open"])
        new["slot"][is_open] = self._keep_bits(children.take(order[is_open], axis=0))
        self._subtract_counts(start, new, parent, order, children, counts)

    def _child_bits(self, bits: Words, columns: Integers, parent: Integers, first: Integers, width: Integers) -> Words:
        """Return the bits of all children with a column, then those in the default range of each parent."""
        children = np.empty((parent.size + first.size, bits.shape[1]), dtype=np.uint64)
        own, rest = children[: parent.size], children[parent.size :]
        np.bitwise_and(self._ranges.of(columns), bits.take(parent, axis=0), out=own)
        np.bitwise_xor(bits, own.take(first, axis=0), out=rest)
        for place in range(1, width.max()):
            wide = np.flatnonzero(width > place)
            rest[wide] ^= own[first[wide] + place]
        return children

    def _sizes(self, bits: Words, folds: Integers) -> Integers:
        """Return rows and labelled rows in the other folds, then rows and labelled rows in the tree's own."""
        by_fold = self._layout.sizes(bits)
        own = by_fold[np.arange(folds.size), folds]
        others = by_fold.sum(axis=1) - own
        return np.column_stack([others.sum(axis=1), others[:, 0], own.sum(axis=1), own[:, 0]])

    def _subtract_counts(
        self, start: int, new: NDArray[Any], parent: Integers, order: Integers, bits: Words, counts: Integers
    ) -> None:
        """Give large children their counts: the parent's less those of the siblings, if these have fewer rows."""
        rows = new["tree_rows"]
        large = np.flatnonzero((new["is_open"] == 1) & (rows >= self._many_rows))
        large = large[2 * rows[large] >= self._storage["tree_rows"][new["parent"][large]]]
        if not large.size:
            return
        largest = np.full(len(counts), -1)
        largest[parent[large]] = large
        of_parent = largest[parent]
        others = np.flatnonzero((of_parent >= 0) & (of_parent != np.arange(parent.size)) & (rows > 0))
        theirs = self._counts.count(bits.take(order[others], axis=0), new["fold"][others], rows[others])
        for p, count in zip(parent[others].tolist(), theirs, strict=True):
            counts[p] -= count
        for p, i in enumerate(largest.tolist()):
            if i >= 0:
                self._waiting[start + i] = counts[p].copy()
