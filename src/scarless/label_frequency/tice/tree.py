"""A tree that cuts rows into subsets: grown on some of the rows, its own, with the others carried along."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scarless.label_frequency.tice.codes import RangeTable
from scarless.numerics.arrays import Integers, Mask, Vector


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
