"""A tree that cuts rows into subsets: grown on some of the rows, its own, with the others carried along."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scarless.label_frequency.tice.codes import Codes, RangeTable
from scarless.numerics.arrays import Integers, Mask, Vector

ALL = 1.0 - 1e-9  # a share that counts as all rows: sums of weights are rounded


@dataclass(slots=True, eq=False)
class Subset:
    """A subset of attribute space: its rows among the tree's own and among the others, and its parts."""

    path: tuple[tuple[int, int], ...]  # attribute and code of its range, from the root down
    rows: Integers  # labelled own rows, unlabelled ones, then others, labelled and unlabelled; none once it is cut
    ends: tuple[int, int, int]  # of the first three kinds of rows
    own_labelled: float  # rows are counted as often as their weights say
    own_rows: float
    n_labelled: float  # among the others
    n_rows: float
    parts: "list[Subset] | None" = None  # None: not cut yet; empty: no attribute cuts it


class SubsetTree:
    r"""A subset is cut at the attribute with the highest *max-bepp* score on the tree's own rows.

    .. math:: \max_{\text{ranges}} \frac{L}{T + k},

    with `T` rows, `L` of them labelled, in a range, and `max_bepp` for `k`; at the first of several that tie. An
    attribute that has all rows of the subset in one range does not cut it. Nor does one whose ranges all have so few
    labelled rows that even alone they would say nothing among the others, :math:`n_e` rows to the tree's :math:`n_t`:
    :math:`L \frac{n_e}{n_t} (1 - \Pr(s=1))^2 \le v`, with the tree's own share of labelled rows. Taking `v`, the
    variance of a bound, at its largest, and no label of the others, makes the shape of a tree depend neither on these
    nor on the iteration: a subset is cut once, many at a time and ahead of any search.
    """

    def __init__(
        self,
        table: RangeTable,
        codes: Callable[[int], Codes],
        labelled: Mask,
        own: Mask,
        w: Vector | None,
        variance: float,
        max_bepp: float,
    ) -> None:
        self._table, self._codes, self._variance, self._max_bepp = table, codes, variance, max_bepp
        self._first = np.flatnonzero(np.diff(table.attribute, prepend=-1))  # columns of the attributes
        self._lengths = np.diff(table.present.indptr)
        self._w = w  # None: every row counts once
        L, n_t, L_t = int(labelled.sum()), int(own.sum()), int(labelled[own].sum())
        self.root = self._subset((), np.lexsort((~labelled, ~own)), (L_t, n_t, n_t + L - L_t))
        without = 1.0 - self.root.own_labelled / self.root.own_rows
        self._label_worth = without * without * (self.root.n_rows / self.root.own_rows)

    def cut(self, subsets: Sequence[Subset]) -> None:
        """Find the parts of subsets that have own rows and have not been cut."""
        best = self._best_attributes(subsets) if self._first.size else [-1] * len(subsets)
        for subset, attribute in zip(subsets, best, strict=True):
            subset.parts = self._parts(subset, attribute) if attribute >= 0 else []
            subset.rows = np.empty(0, dtype=np.intp)

    def _best_attributes(self, subsets: Sequence[Subset]) -> list[int]:
        """Return the attribute that cuts each subset best, -1 where none cuts it."""
        T, L = np.array([(x.own_rows, x.own_labelled) for x in subsets]).T[:, :, None]
        labelled, unlabelled = self._count(subsets)
        rows, first = labelled + unlabelled, self._first
        rest_rows, rest_labelled = (w - np.add.reduceat(x, first, axis=1) for w, x in ((T, rows), (L, labelled)))
        most_rows = np.maximum(np.maximum.reduceat(rows, first, axis=1), rest_rows)
        most_labelled = np.maximum(np.maximum.reduceat(labelled, first, axis=1), rest_labelled)
        score = np.maximum.reduceat(labelled / (rows + self._max_bepp), first, axis=1)
        score = np.maximum(score, rest_labelled / (rest_rows + self._max_bepp))
        cuts = (most_rows < ALL * T) & (most_labelled * self._label_worth > self._variance)
        best = self._table.attribute[first[np.argmax(np.where(cuts, score, -1.0), axis=1)]]
        return list(np.where(cuts.any(axis=1), best, -1).tolist())

    def _count(self, subsets: Sequence[Subset]) -> Vector | Integers:
        """Return labelled and unlabelled own rows in the range of every column: 2 x subsets x columns."""
        present, n_columns = self._table.present, self._table.code.size
        rows = np.concatenate([x.rows[: x.ends[1]] for x in subsets])
        sizes = [size for x in subsets for size in (x.ends[0], x.ends[1] - x.ends[0])]
        shift = np.repeat(n_columns * np.arange(len(sizes)), sizes)
        lengths = self._lengths[rows]
        before = np.cumsum(lengths) - lengths
        entries = np.arange(lengths.sum()) + np.repeat(present.indptr[rows] - before, lengths)
        place, weights = present.indices[entries] + np.repeat(shift, lengths), None
        if self._w is not None:
            weights = np.repeat(self._w[rows], lengths)
        counts = np.bincount(place, weights, minlength=len(sizes) * n_columns)
        return counts.reshape(len(subsets), 2, n_columns).transpose(1, 0, 2)

    def _parts(self, subset: Subset, attribute: int) -> list[Subset]:
        """Return the subset's parts that have rows, by code."""
        codes = self._codes(attribute)[subset.rows]
        parts = []
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            inside = codes == code
            a, b, c = (int(np.count_nonzero(inside[:end])) for end in subset.ends)
            parts.append(self._subset((*subset.path, (attribute, code)), subset.rows[inside], (a, b, c)))
        return parts

    def _subset(self, path: tuple[tuple[int, int], ...], rows: Integers, ends: tuple[int, int, int]) -> Subset:
        """Return a subset with its rows counted."""
        a, b, c = ends
        if self._w is None:
            return Subset(path, rows, ends, a, b, c - b, rows.size - b)
        kinds = (rows[:a], rows[a:b], rows[b:c], rows[c:])
        own_labelled, own_unlabelled, labelled, unlabelled = (float(self._w[kind].sum()) for kind in kinds)
        return Subset(path, rows, ends, own_labelled, own_labelled + own_unlabelled, labelled, labelled + unlabelled)
