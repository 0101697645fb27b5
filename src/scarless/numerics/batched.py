"""Sums over the same rows for several fits (*problems*) at once, each with its own weights and parameters.

A GPU is efficient with few large products. The logits of all problems are therefore computed by one product with
the rows, and so are the gradients. The second derivatives of all problems are computed by one product with the
*products of pairs of columns*, which are the same for all problems.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics import likelihood
from scarless.numerics.arrays import Matrix, concat, in_float64, in_numpy, namespace_of
from scarless.numerics.likelihood import sigmoid_pair
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair, Sums, TargetLogistic


class BatchTerms(NamedTuple):
    """Values, first and second derivatives by the logits for several problems. The first axis is the problem.

    A single logistic model has no `by_v`, `uv` and `vv`.
    """

    values: Any  # sums over rows
    by_u: Any  # derivatives by u, for each row
    by_v: Any
    uu: Any  # second derivatives by u, for each row
    uv: Any
    vv: Any


# The arguments are the logits u and v, the labels, the weights and the kind of curvature.
BatchTermsFunction = Callable[[Any, Any, Any, Any, Curvature], BatchTerms]


def row_terms(u: Any, v: Any, s: Any, w: Any, curvature: Curvature) -> BatchTerms:
    """Return the terms of several problems from logits of shape (n_problems, n_rows).

    For a single logistic model, `v` is None.
    """
    xp = namespace_of(u)
    if v is None:
        p, not_p = sigmoid_pair(u)
        value = xp.log1p(xp.exp(-xp.abs(u))) + xp.where(u > 0, (1.0 - s) * u, -s * u)
        residual = xp.where(u > 0, (1.0 - s) - not_p, p - s)
        return BatchTerms(xp.sum(w * value, axis=1), w * residual, None, w * p * not_p, None, None)
    terms = likelihood.pair_terms(u, v)
    value = xp.sum(-w * likelihood.log_likelihood(u, v, s, terms), axis=1)
    du, dv = likelihood.score(s, terms)
    if curvature is Curvature.OBSERVED:
        uu, uv, vv = likelihood.observed_information(s, terms)
    else:
        a, b = likelihood.fisher_roots(terms)
        uu, uv, vv = a * a, a * b, b * b
    return BatchTerms(value, -w * du, -w * dv, w * uu, w * uv, w * vv)


@dataclass(frozen=True, eq=False)
class ColumnPairs:
    """Pairs of columns of ``[left, 1]`` and ``[right, 1]`` whose products are needed, each pair once."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    place: NDArray[np.intp]  # position among the products, for each entry of the matrix
    shape: tuple[int, int]  # of the matrix

    @classmethod
    def of(cls, left: tuple[int, ...], right: tuple[int, ...]) -> "ColumnPairs":
        """Build the pairs for two lists of columns; the matrix has one row for each of `left`.

        Examples
        --------
        >>> ColumnPairs.of((0, 1), (0, 1)).place
        array([0, 1, 1, 2])
        """
        number: dict[tuple[int, int], int] = {}
        place = [number.setdefault((min(i, j), max(i, j)), len(number)) for i in left for j in right]
        first, second = np.array(list(number), dtype=np.intp).T
        return cls(first, second, np.array(place, dtype=np.intp), (len(left), len(right)))

    def columns(self, X: Any) -> Any:
        """Return the products of the pairs of columns, for each row of `X`."""
        return _taken(X, self.first) * _taken(X, self.second)

    def matrices(self, sums: Matrix) -> Matrix:
        """Return the matrix of each problem from its sums of products."""
        return np.take(sums, self.place, axis=1).reshape(-1, *self.shape)


def needed_pairs(f: tuple[int, ...], e: tuple[int, ...] | None) -> tuple[ColumnPairs, ...]:
    """Return the pairs for the blocks ``ff``, ``fe`` and ``ee`` of a matrix of second derivatives."""
    return (_pairs(f, f),) if e is None else (_pairs(f, f), _pairs(f, e), _pairs(e, e))


@lru_cache(32)  # A pair's class model and a single classifier get the same object, and so share products of columns.
def _pairs(left: tuple[int, ...], right: tuple[int, ...]) -> ColumnPairs:
    return ColumnPairs.of(left, right)


@dataclass(frozen=True)
class BatchObjective:
    """An objective that is evaluated for several problems at once, on rows ``[X, 1]``, whose last column is 1."""

    f: NDArray[np.intp]  # columns of the class model
    e: NDArray[np.intp] | None  # columns of the propensity model; None for a single logistic model

    @classmethod
    def of(cls, objective: LogisticPair | TargetLogistic, n_columns: int) -> "BatchObjective":
        """Build the batch objective of an objective that all problems share."""
        if isinstance(objective, TargetLogistic):
            return cls(_with_one(objective.design, n_columns), None)
        return cls(_with_one(objective.f, n_columns), _with_one(objective.e, n_columns))

    @property
    def pairs(self) -> tuple[ColumnPairs, ...]:
        """Pairs of columns whose products the second derivatives need."""
        return needed_pairs(tuple(self.f.tolist()), None if self.e is None else tuple(self.e.tolist()))

    def sums(
        self,
        X: Any,
        products: tuple[Any, ...],
        rows: tuple[Any, Any],
        betas: Matrix,
        curvature: Curvature,
        terms_of: BatchTermsFunction = row_terms,
    ) -> tuple[Any, ...]:
        """Return values, gradients, and weighted sums of each of the `products`. The first axis is the problem.

        `rows` are the labels or targets, which are the same for all problems, and weights of shape
        (n_problems, n_rows).
        """
        xp = namespace_of(X)
        f, e = _taken(X, self.f), None if self.e is None else _taken(X, self.e)
        of_f, of_e = (xp.asarray(each, device=X.device) for each in np.split(betas, [self.f.size], axis=1))
        v = None if e is None else of_e @ e.T
        terms = terms_of(of_f @ f.T, v, *rows, curvature)
        gradients = terms.by_u @ f
        if e is not None:
            gradients = concat([gradients, terms.by_v @ e], axis=1)
        if curvature is Curvature.NONE:
            return terms.values, gradients
        if curvature is Curvature.DIAGONAL:
            squares = [terms.uu @ (f * f)] + ([] if e is None else [terms.vv @ (e * e)])
            return terms.values, gradients, concat(squares, axis=1)
        weights = (terms.uu,) if e is None else (terms.uu, terms.uv, terms.vv)
        return terms.values, gradients, *(w @ each for w, each in zip(weights, products, strict=True))

    def split_by_problem(self, totals: tuple[Any, ...], curvature: Curvature) -> list[Sums]:
        """Return the sums of each problem as NumPy arrays."""
        values, gradients, *rest = (np.asarray(in_numpy(each), dtype=np.float64) for each in totals)
        if curvature is Curvature.NONE:
            matrices = np.zeros((len(values), 0))
        elif curvature is Curvature.DIAGONAL:
            (matrices,) = rest
        else:
            blocks = [pairs.matrices(sums) for pairs, sums in zip(self.pairs, rest, strict=True)]
            matrices = blocks[0] if self.e is None else _joined_blocks(*blocks)
        return [Sums(*each) for each in zip(values, gradients, matrices, strict=True)]


def _joined_blocks(ff: Matrix, fe: Matrix, ee: Matrix) -> Matrix:
    n_f, n_e = fe.shape[1:]
    whole = np.empty((len(ff), n_f + n_e, n_f + n_e))
    whole[:, :n_f, :n_f], whole[:, n_f:, n_f:] = ff, ee
    whole[:, :n_f, n_f:], whole[:, n_f:, :n_f] = fe, fe.transpose(0, 2, 1)
    return whole


def with_ones(X: Any) -> Any:
    """Return ``[X, 1]`` in float64."""
    xp, wide = namespace_of(X), in_float64(X)
    return concat([wide, xp.ones((X.shape[0], 1), dtype=wide.dtype, device=X.device)], axis=1)


def _with_one(design: Design, n_columns: int) -> NDArray[np.intp]:
    return np.append(design.indices, n_columns)


def _taken(X: Any, columns: Any) -> Any:
    if len(columns) == X.shape[1] and list(columns) == list(range(X.shape[1])):
        return X
    if (xp := namespace_of(X)) is np:
        return X[:, columns]
    return xp.take(X, xp.asarray(np.asarray(columns), device=X.device), axis=1)
