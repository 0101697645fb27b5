"""A classifier of the user's, cross-fitted to several looks, audits and facts, with logistic propensities beside it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.tables import take_columns
from scarless.engines import Rows, attach
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.linear import logits
from scarless.numerics.objectives import PairObjective
from scarless.pair.cross_fit import CrossFit, Tell
from scarless.pair.crossed import CrossOptions, fit_classifier, numeric_columns
from scarless.pair.evidence import Observed
from scarless.pair.fit import FitOptions
from scarless.pair.folds import Fold
from scarless.pair.logistic import propensity_start
from scarless.pair.looks_relaxed import (
    NO_COLUMNS,
    LooksRelaxation,
    fit_others,
    problem_of_logits,
    relax_looks,
    seen_at_looks,
)
from scarless.pair.problem import PairProblem

_STEP = FitOptions(1e-10, 50)
_END = FitOptions(1e-10, 200)


@dataclass(frozen=True)
class LooksCrossed:
    """A cross-fitted classifier, :math:`a + b u + g'z`, with its propensities. Holds no rows."""

    fit: CrossFit
    objective: PairObjective  # of a table that has logits first, then `columns`; its classifier sees logits only
    columns: Columns  # what propensities see
    slope: float
    shift: float
    shared: Columns  # those columns that the classifier may see too
    added: Vector  # their coefficients, g
    others: Vector  # of propensities and rates
    f_columns: Columns

    def logits(self, X: Any) -> Vector:
        """Return the class's logits of other rows, relaxed."""
        moved = _dense(numeric_columns(X, self.shared)) @ self.added
        return self.shift + self.slope * self.plain_logits(X) + moved

    def plain_logits(self, X: Any) -> Vector:
        """Return the class's logits of other rows as the models have them."""
        return self.fit.logits(take_columns(X, self.f_columns))

    def look_logits(self, X: Any) -> Matrix:
        """Return the logits of propensities, a column for each kind of look, then those of false positives."""
        table = np.hstack([np.zeros((X.shape[0], 1)), _dense(numeric_columns(X, self.columns))])
        return of_looks(table, self.objective, self.others)


class CrossedLooks(NamedTuple):
    """A cross-fit, and the problem of its logits on the training rows."""

    crossed: LooksCrossed
    relaxed: PairProblem
    relaxation: LooksRelaxation


class LooksPropensity:
    """Logistic propensities of looks, and rates of false positives, given logits of the class."""

    def __init__(self, problem: PairProblem, seen: Matrix, w: Vector, rows: dict[str, Any]) -> None:
        self.template, self.seen, self.w, self.rows = problem, seen, w, rows
        self.others = np.zeros(0)
        self.v: Any = np.zeros((w.size, 0))

    def problem(self, u: Vector, shared: Columns = NO_COLUMNS) -> PairProblem:
        """Return the problem whose classifier sees these logits, and perhaps some columns."""
        return problem_of_logits(self.template, u, self.seen, self.w, self.rows, shared)

    def start(self, f: Vector) -> None:
        """Begin as if each row had one look, whether any label was found; unlabelled rows weighted by their class."""
        problem = self.problem(np.zeros(self.w.size))
        known = np.where(self.rows["audit"] >= 0, self.rows["audit"], f)
        any_label = propensity_start(attach(problem.engine, f=known), problem.objective.e, C=self.template.propensity_C)
        self._take(problem, problem.spread(np.concatenate([[1.0, 0.0], any_label]))[2:])

    def update(self, u: Vector) -> None:
        """Maximise the observed likelihood, the class given."""
        problem = self.problem(u)
        self._take(problem, fit_others(problem, self.others, _STEP))

    def _take(self, problem: PairProblem, others: Vector) -> None:
        self.others = others
        self.v = problem.engine.collect(_block_look_logits, problem.objective, others)


def cross_fit_looks(
    classifier: Any,
    X: Any,
    problem: PairProblem,
    observed: Observed,
    weights: tuple[Vector, Vector],
    rows: dict[str, Any],
    f_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
    tell: Tell,
) -> CrossedLooks:
    """Fit a classifier in folds, with propensities of looks, then scale, level, propensities, rates and facts together.

    `weights` are those of all rows, and of rows that some fold holds out; `problem` says what looks are like, in the
    columns of `X`, and which facts there are; `rows` are its values of rows.
    """
    w, held = weights
    columns = seen_at_looks(problem.objective)
    propensity = LooksPropensity(problem, _dense(numeric_columns(X, columns)), held, rows)
    fit = fit_classifier(classifier, take_columns(X, f_columns), observed, w, folds, propensity, options, tell)
    propensity.update(fit.u)  # to where the best step was: the last one may lie elsewhere
    fit = fit._replace(v=propensity.v)
    columns_of_both = np.intersect1d(f_columns, columns)
    relaxed = propensity.problem(fit.u, columns_of_both)
    found = relax_looks(relaxed, propensity.others, _END)
    crossed = LooksCrossed(
        fit=fit,
        objective=propensity.problem(fit.u).objective,
        columns=columns,
        slope=found.slope,
        shift=found.shift,
        shared=columns_of_both,
        added=found.added,
        others=found.others,
        f_columns=f_columns,
    )
    return CrossedLooks(crossed, relaxed, found)


def of_looks(table: Matrix, objective: PairObjective, others: Vector) -> Matrix:
    """Return the logits of propensities and of false positives, from a table that has the class's logits first."""
    beta = np.concatenate([[1.0, 0.0], others])
    columns = [logits(each.design.take(table), beta[each.place]) for each in objective.logits[1:]]
    if objective.false_positives is not None and not isinstance(objective.false_positives, str):
        kinds = objective.n_kinds
        own, known = columns[kinds:], np.asarray(objective.false_positives, dtype=np.float64)
        estimated = iter(own)  # in the order of their looks
        columns = columns[:kinds] + [next(estimated) if np.isnan(h) else np.full(len(table), h) for h in known]
    return np.stack(columns, axis=1)


def _block_look_logits(X: Any, rows: Rows, objective: PairObjective, others: Vector) -> Matrix:
    return of_looks(X, objective, others)


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
