"""Labels and audits drawn from a fitted model, and the model fitted to them again."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.looks import Codes
from scarless.engines import Engine, attach
from scarless.numerics import histories
from scarless.numerics.arrays import Array, Matrix, Vector
from scarless.numerics.histories import MOST_LOOKS, Histories
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.problem import PairProblem

_LEAST_EXPECTED = 5.0  # rows of a history that is looked at by itself


class Probabilities(NamedTuple):
    """What a fit thinks of each row: of its class, and of each of its looks."""

    f: Vector
    e: Matrix
    h: Matrix | None


class Statistics(NamedTuple):
    """How far labels are from what a fit to them expects."""

    heterogeneity: float
    chi_square: float
    converged: bool


@dataclass(frozen=True)
class Refits:
    """A fitted model and its rows, for fits to labels that it draws itself."""

    problem: PairProblem  # with the rows' own labels
    looks: Any  # of the model
    beta: Vector
    labels: Codes
    audit: Codes
    tol: float
    max_iter: int

    def statistics(self, engine: Engine, beta: Vector, labels: Codes, audit: Codes) -> tuple[float, Histories]:
        """Return the score statistic of heterogeneity, and histories."""
        sums = engine.total(histories.heterogeneity_sums, self.problem.objective, beta)
        found = self.probabilities(engine, beta)
        f = np.where(audit >= 0, audit == 1, found.f)
        count = histories.count_histories if labels.shape[1] <= MOST_LOOKS else histories.count_labels
        return histories.heterogeneity(sums), count(labels, f, found.e, found.h)

    def probabilities(self, engine: Engine, beta: Vector) -> Probabilities:
        """Return what the models with these parameters think of each row."""
        objective = self.problem.objective
        columns = np.asarray(engine.collect(_block_probabilities, objective, beta))
        kinds, order = objective.n_kinds, self.looks.kinds
        has_h = columns.shape[1] > 1 + kinds
        return Probabilities(columns[:, 0], columns[:, 1 + order], columns[:, 1 + kinds + order] if has_h else None)

    def own(self) -> tuple[float, Histories]:
        """Return the statistics of the rows themselves."""
        return self.statistics(self.problem.engine, self.beta, self.labels, self.audit)

    def drawn(self, seed: int) -> Statistics:
        """Draw labels and audits where there are some, fit again from the fit itself, and return the statistics."""
        rng = np.random.default_rng(seed)
        own = self.probabilities(self.problem.engine, self.beta)
        y = rng.random(own.f.size) < own.f
        negative = 0.0 if own.h is None else own.h
        chance = np.where(y[:, None], own.e, negative)
        labels = np.where(self.labels >= 0, rng.random(chance.shape) < chance, -1).astype(np.int8)
        audit = np.where(self.audit >= 0, y, -1).astype(np.int8)
        problem = self.problem.on(with_labels(self.problem.engine, self.looks, labels, audit))
        fit = fit_pair(problem, self.beta, FitOptions(self.tol, self.max_iter))
        score, counted = self.statistics(problem.engine, fit.parameters, labels, audit)
        return Statistics(score, histories.chi_square(counted_pooled(counted)), fit.converged)


def counted_pooled(counted: Histories) -> Histories:
    """Return histories as the test sees them."""
    return histories.pooled(counted, _LEAST_EXPECTED)


def with_labels(engine: Engine, looks: Any, labels: Codes, audit: Codes) -> Engine:
    """Return rows with these labels and audits."""
    found, seen = looks.counts(labels)
    s = (labels == 1).any(axis=1).astype(np.float64)
    return attach(engine, s=s, labels=found, looks=seen, audit=audit, w=np.ones(s.size))


def _block_probabilities(X: Any, rows: Any, objective: LooksLikelihood, beta: Vector) -> Array:
    terms = objective.terms(X, rows, beta)
    parts = [terms.f[:, None], terms.e, *([] if terms.h is None else [np.asarray(terms.h)])]
    return np.concatenate(parts, axis=1)
