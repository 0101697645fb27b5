"""A tree that cuts rows into subsets: grown on some of the rows, its own, with the others carried along."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scarless.label_frequency.tice.codes import RangeTable
from scarless.numerics.arrays import Integers, Mask


@dataclass(slots=True, eq=False)
class Subset:
    """A subset of attribute space: its rows among the tree's own and among the others, and its parts."""

    path: tuple[tuple[int, int], ...]  # attribute and code of its range, from the root down
    rows: Integers  # labelled own rows, unlabelled ones, then others, labelled and unlabelled; none once it is cut
    own_labelled: int
    own_rows: int
    n_labelled: int  # among the others
    n_rows: int
    parts: "list[Subset] | None" = None  # None: not cut yet; empty: no attribute cuts it


class SubsetTree:
    r"""A subset is cut at the attribute with the highest *max-bepp* score on the tree's own rows.

    .. math:: \max_{\text{ranges}} \frac{L}{T + k},

    with `T` rows, `L` of them labelled, in a range, and `max_bepp` for `k`; at the first of several that tie. An
    attribute with all rows of the subset in one range does not cut it. Nor does one whose ranges all have so few
    labelled rows that even alone they would say nothing among the others, :math:`n_e` rows to the tree's :math:`n_t`:
    :math:`L \frac{n_e}{n_t} (1 - \Pr(s=1))^2 \le v`, with the tree's own share of labelled rows. With `v`, the variance
    of a bound, at its largest, the shape of a tree depends neither on labels of the others nor on the iteration: a
    subset is cut once, many at a time and ahead of any search.
    """

    def __init__(self, table: RangeTable, labelled: Mask, own: Mask, variance: float, max_bepp: float) -> None:
        self._table, self._variance, self._max_bepp = table, variance, max_bepp
        self._first = np.flatnonzero(np.diff(table.attribute, prepend=-1))  # columns of the attributes
        n, L, n_t, L_t = own.size, int(labelled.sum()), int(own.sum()), int(labelled[own].sum())
        self.root = Subset((), np.lexsort((~labelled, ~own)), L_t, n_t, L - L_t, n - n_t)
        self._label_worth = (1.0 - L_t / n_t) * (1.0 - L_t / n_t) * ((n - n_t) / n_t)

    def cut(self, subsets: Sequence[Subset]) -> None:
        """Find the parts of subsets that have own rows and have not been cut."""
        best = self._best_attributes(subsets) if self._first.size else [-1] * len(subsets)
        for subset, attribute in zip(subsets, best, strict=True):
            subset.parts = list(self._parts(subset, attribute)) if attribute >= 0 else []
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
        cuts = (most_rows < T) & (most_labelled * self._label_worth > self._variance)
        best = self._table.attribute[first[np.argmax(np.where(cuts, score, -1.0), axis=1)]]
        return list(np.where(cuts.any(axis=1), best, -1).tolist())

    def _count(self, subsets: Sequence[Subset]) -> Integers:
        """Return labelled and unlabelled own rows in the range of every column: 2 x subsets x columns."""
        inside = self._table.present[np.concatenate([x.rows[: x.own_rows] for x in subsets])]
        sizes = [size for x in subsets for size in (x.own_labelled, x.own_rows - x.own_labelled)]
        entries = np.diff(inside.indptr[np.cumsum([0, *sizes])])
        shape = len(sizes), self._table.code.size
        places = inside.indices + np.repeat(shape[1] * np.arange(shape[0]), entries)
        return np.bincount(places, minlength=shape[0] * shape[1]).reshape(-1, 2, shape[1]).transpose(1, 0, 2)

    def _parts(self, subset: Subset, attribute: int) -> Iterator[Subset]:
        """Yield the subset's parts that have rows, by code."""
        kinds = np.array((subset.own_labelled, subset.own_rows, subset.own_rows + subset.n_labelled))
        codes = self._table.codes(attribute).take(subset.rows)
        for code in np.bincount(codes).nonzero()[0].tolist():
            inside = (codes == code).nonzero()[0]
            L_t, n_t, end = inside.searchsorted(kinds).tolist()
            path, rows = (*subset.path, (attribute, code)), subset.rows.take(inside)
            yield Subset(path, rows, L_t, n_t, end - n_t, rows.size - n_t)
