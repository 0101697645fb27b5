"""Which columns drive the labelling, where nobody named them: each must earn its place by the likelihood of the labels.

A class logit that has not seen the row's own label is given. A column that is tried enters both models: the class,
since the given logit may have taken the labelling for the class there, and the propensity. It earns what the labels
gain by the second. Only where the class is nearly sure can labels tell the two apart: with few labels gains are small.

Labels do not say which of two factors is the class. A propensity that tells rows further apart than the class is not
believed, as elsewhere here: the column is then one of the class's, and the two have changed places.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scarless.engines import Engine
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.linear import Design
from scarless.numerics.newton import Solution
from scarless.numerics.objectives import LogisticPair
from scarless.pair.relaxed import FAR
from scarless.pair.rows import Training, engine_of
from scarless.pair.solving import PenalisedProblem

MOST_COLUMNS = 100  # that are searched; wider tables were not tried
_MOST_FOUND = 3
_LASTING = 10  # columns that are tried again once the first one is found
_MOST_ROWS = 5_000  # of each kind, labelled and unlabelled; more take longer
_LOGIT_RIDGE, _CLASS_RIDGE, _PROPENSITY_RIDGE, _LEVEL_RIDGE = 0.05, 1.0, 0.25, 0.1
_TOL, _MAX_ITER = 1e-5, 50


class FoundColumn(NamedTuple):
    """A column that drives the labelling, and what the labels gain by it."""

    column: int
    gain: float  # of penalised log-likelihood


def least_gain(n_columns: int) -> float:
    """Return what a column must gain: the more are tried, the more the best of them gains by chance.

    Examples
    --------
    >>> print(f"{least_gain(1):.1f} {least_gain(20):.1f}")
    1.0 2.5
    """
    return 1.0 + 0.5 * float(np.log(n_columns))


def find_columns(
    training: Training,
    logits: list[Vector],
    held: Vector,
    *,
    named: tuple[int, ...] = (),
    tried: Columns | None = None,
    most: int = _MOST_FOUND,
) -> list[FoundColumn]:
    """Return columns that the labels say drive the labelling, the first found first, at most so many.

    `logits` are the class's, each by models that have not seen the row's label; rows that nobody `held` out do not
    count. Forward selection: each column is judged beside those that were `named` or found before. `tried` limits the
    columns that are judged.
    """
    rows, weight = _sampled(training.s, held)
    X, n_columns = _dense(training.X[rows]), training.X.shape[1]
    table = np.column_stack([_standardised(each, weight) for each in (*(u[rows] for u in logits), *X.T)])
    engine = engine_of(table, s=training.s[rows], w=weight)
    search = _Search(engine, table, weight, len(logits), named)
    lively = np.ptp(table[:, len(logits) :], axis=0) > 0
    tried = np.arange(n_columns) if tried is None else tried
    candidates = [int(column) for column in tried if lively[column] and column not in named]
    found: list[FoundColumn] = []
    while candidates and len(found) < most:
        gains = [search.gain(column) for column in candidates]
        best = int(np.argmax(gains))
        if gains[best] < least_gain(n_columns):
            break
        found.append(FoundColumn(candidates[best], gains[best]))
        search = search.with_column(candidates[best])
        candidates = [candidates[at] for at in np.argsort(gains)[::-1][:_LASTING] if at != best]
    return found


class _Search(NamedTuple):
    """The rows, the class logits in the first columns, and the columns that both models see already."""

    engine: Engine
    table: Matrix
    weight: Vector
    n_logits: int
    columns: tuple[int, ...]

    def gain(self, column: int) -> float:
        """Return what the labels gain if a column may drive the labelling, not the class alone."""
        plain = self._fit((*self.columns, column), self.columns, self._begin())
        n_class = self.n_logits + len(self.columns) + 1
        ends = []
        for effect in (1.0, -1.0):  # from no effect at all, the way to a strong one may lead uphill
            start = np.insert(plain.parameters, plain.parameters.size - 1, effect)
            start[n_class - 1] -= 0.5 * effect
            end = self._fit((*self.columns, column), (*self.columns, column), start)
            if self._class_tells_more(end.parameters, (*self.columns, column)):
                ends.append(end.value)
        return plain.value - min(ends, default=np.inf)

    def _class_tells_more(self, parameters: Vector, columns: tuple[int, ...]) -> bool:
        """Whether the class logit differs more between rows than the propensity's."""
        places, n_class = [self.n_logits + column for column in columns], self.n_logits + len(columns)
        u = self.table[:, [*range(self.n_logits), *places]] @ parameters[:n_class]
        v = self.table[:, places] @ parameters[n_class + 1 : -1]
        return weighted_variance(u, self.weight) > weighted_variance(v, self.weight)

    def with_column(self, column: int) -> "_Search":
        """Return the search with one more column in both models."""
        return self._replace(columns=(*self.columns, column))

    def _begin(self) -> Vector:
        """Return the start of a fit with one more column in the class: slopes of 1 over all logits together."""
        share = np.zeros(self.n_logits + len(self.columns) + 2)
        share[: self.n_logits] = 1.0 / self.n_logits
        return np.concatenate([share, np.zeros(len(self.columns) + 1)])

    def _fit(self, of_class: tuple[int, ...], of_propensity: tuple[int, ...], start: Vector) -> Solution:
        f, e = ([self.n_logits + column for column in columns] for columns in (of_class, of_propensity))
        pair = LogisticPair(Design.of(np.array([*range(self.n_logits), *f])), Design.of(np.array(e, dtype=np.intp)))
        ridge = np.concatenate([
            np.full(self.n_logits, _LOGIT_RIDGE), np.full(len(f), _CLASS_RIDGE), [0.0],
            np.full(len(e), _PROPENSITY_RIDGE), [_LEVEL_RIDGE],
        ])  # fmt: skip
        total, problem = float(self.weight.sum()), PenalisedProblem(self.engine, pair, ridge)
        return problem.solve(start, total_weight=total, tol=_TOL, max_iter=_MAX_ITER, damp_indefinite=True)


def _sampled(s: Vector, w: Vector) -> tuple[Columns, Vector]:
    """Return rows of both kinds, at most so many of each, and weights by which they stand for all."""
    rng, parts = np.random.default_rng(0), []
    for kind in (s == 1, s != 1):
        rows = np.flatnonzero(kind & (w > 0))
        kept = rows if rows.size <= _MOST_ROWS else np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
        parts.append((kept, w[kept] * (w[rows].sum() / max(w[kept].sum(), 1e-300))))
    rows, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows, weight


def _dense(X: Any) -> Any:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def weighted_variance(x: Vector, w: Vector) -> float:
    """Return the variance of values, logits beyond 10 as good as sure.

    Examples
    --------
    >>> weighted_variance(np.array([-1.0, 1.0]), np.ones(2)), weighted_variance(np.array([-1e9, 1e9]), np.ones(2))
    (1.0, 100.0)
    """
    x = np.clip(x, -FAR, FAR)
    return float(np.average((x - np.average(x, weights=w)) ** 2, weights=w))


def _standardised(x: Vector, w: Vector) -> Vector:
    """Return values around 0 with unit spread; constant ones as zeros."""
    centred = x - np.average(x, weights=w)
    spread = float(np.sqrt(np.average(centred**2, weights=w)))
    return centred / spread if spread > 1e-10 * (1.0 + float(np.abs(x).max())) else np.zeros(x.size)
