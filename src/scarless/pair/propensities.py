"""The propensity's side of a cross-fit: fitted to labels, given logits of the class that have not seen them."""

from typing import Any, Protocol

import numpy as np
from scipy.special import expit, logit

from scarless.checks.rows import row_totals
from scarless.checks.tables import take_rows
from scarless.engines import Engine, attach
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import posterior
from scarless.numerics.linear import Design
from scarless.numerics.objectives import KnownPropensity
from scarless.pair.folds import Fold
from scarless.pair.learners import Learner
from scarless.pair.logistic import block_logits, propensity_start, ridge_of
from scarless.pair.problem import Audits
from scarless.pair.solving import PenalisedProblem

_EDGE = 1e-6  # of probabilities whose logits are taken


class Propensity(Protocol):
    """Holds the logit of every training row's propensity."""

    v: Vector

    def start(self, f: Vector) -> None:
        """Fit from the first probabilities of the class, as the paper does."""
        ...

    def update(self, u: Vector) -> None:
        """Fit given logits of the class."""
        ...


class FixedPropensity:
    """A propensity that is known."""

    def __init__(self, e: Vector) -> None:
        with np.errstate(divide="ignore"):
            self.v = np.asarray(logit(e))

    def start(self, f: Vector) -> None:
        """Nothing is to be learned."""

    def update(self, u: Vector) -> None:
        """Nothing is to be learned."""


class LogisticPropensity:
    """A logistic model of some columns. The likelihood is the same in both models, so `f` given is `e` given.

    One that is `held` stays where the paper's start has it: it sees all that the classifier sees, and fitted while the
    classifier is still nearly constant it would take its place.
    """

    def __init__(self, engine: Engine, e: Design, *, C: float, audits: Audits | None, held: bool = False) -> None:
        self.held = held
        self.engine, self.design, self.C = engine, e, C
        self.pulls = () if audits is None else (audits.pull(0),)
        self.beta = np.zeros(e.n_parameters)
        self.v = np.zeros(engine.n_rows)

    def start(self, f: Vector) -> None:
        """Fit labels, unlabelled rows weighted by their probability of being positive."""
        self._take(propensity_start(attach(self.engine, f=f), self.design, C=self.C))

    def update(self, u: Vector) -> None:
        """Maximise the observed likelihood, the class given."""
        if self.held:
            return
        rows = attach(self.engine, v=u)
        problem = PenalisedProblem(rows, KnownPropensity(self.design), ridge_of(self.design, self.C), self.pulls)
        total = row_totals(self.engine).weight
        self._take(problem.solve(self.beta, total_weight=total, tol=1e-7, max_iter=50).parameters)

    def _take(self, beta: Vector) -> None:
        self.beta = beta
        self.v = self.engine.collect(block_logits, self.design, beta)


class LearnedPropensity:
    """Any learner, cross-fitted too: one that has seen a row's label does not judge that row."""

    def __init__(self, learners: list[Learner], X: Any, s: Vector, w: Vector, folds: list[Fold]) -> None:
        self.learners, self.X, self.s, self.w, self.folds = learners, X, s, w, folds
        self.v = np.zeros(s.size)

    def start(self, f: Vector) -> None:
        """Fit labels, unlabelled rows weighted by their probability of being positive."""
        self._fit(np.where(self.s == 1, 1.0, f))

    def update(self, u: Vector) -> None:
        """Take one step of EM."""
        self._fit(posterior(np.asarray(expit(u)), np.asarray(expit(self.v)), self.s))

    def forget(self) -> None:
        """Let go of the training rows."""
        self.X, self.s, self.w, self.folds = None, np.empty(0), np.empty(0), []

    def logits(self, X: Any) -> Vector:
        """Return the mean of the learners' logits for other rows."""
        return np.mean([logit_of(learner.probability(X)) for learner in self.learners], axis=0)

    def _fit(self, q: Vector) -> None:
        pieces = []
        for learner, (train, test) in zip(self.learners, self.folds, strict=True):
            learner.fit(take_rows(self.X, train), self.s[train], (self.w * q)[train])
            pieces.append(logit_of(learner.probability(take_rows(self.X, test))))
        self.v = judged(pieces, self.folds, self.s.size)


def judged(pieces: list[Vector], folds: list[Fold], n_rows: int) -> Vector:
    """Return one value per row from those of the rows that each fold holds out.

    A row that several folds hold out gets their mean; one that none does, about which nothing honest is known, the mean
    of all others.
    """
    total, times = np.zeros(n_rows), np.zeros(n_rows)
    for values, (_, test) in zip(pieces, folds, strict=True):
        np.add.at(total, test, values)
        np.add.at(times, test, 1.0)
    value = total / np.maximum(times, 1.0)
    return np.where(times > 0, value, value[times > 0].mean())


def logit_of(p: Vector) -> Vector:
    """Return logits of probabilities that may be 0 or 1."""
    return np.asarray(logit(np.clip(p, _EDGE, 1.0 - _EDGE)))
