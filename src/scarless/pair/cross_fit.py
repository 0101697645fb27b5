"""Classifiers that never judge a row whose label they have seen.

A flexible classifier reproduces the labels that it was fitted to. In EM it then finds that every positive is labelled,
and its start is its answer. Here each row's class is judged by models that were fitted without its fold, and the
propensity is fitted to these judgements.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, logit

from scarless.checks.tables import take_rows
from scarless.engines.blas import threads_for_folds, trees_alone
from scarless.numerics.arrays import Vector
from scarless.pair.boosting import Booster, rounds_of_stages
from scarless.pair.evidence import Evidence
from scarless.pair.folds import Fold
from scarless.pair.learners import Learner
from scarless.pair.propensities import Propensity, judged, logit_of

Tell = Callable[[str], None]

_START_ROUNDS = 20  # of boosting labelled against unlabelled rows, where a propensity begins
_BETTER = 1e-5  # in log-likelihood per row, to count as better


class FoldModel(Protocol):
    """A classifier fitted without one fold."""

    def logits(self, X: Any) -> Vector:
        """Return the class's logits of rows."""
        ...


class CrossFit(NamedTuple):
    """The class's logit of each training row by models that have not seen its label, and those models."""

    u: Vector
    v: Vector  # the propensity's logits that go with them
    weight: Vector  # of rows; 0 where no fold holds them out
    models: list[FoldModel]
    log_likelihood: list[float]  # held out, per row, after each step
    mean_propensity: list[float]
    best: int  # the step that was taken
    converged: bool

    def logits(self, X: Any) -> Vector:
        """Return the mean of the models' logits for other rows."""
        with trees_alone(X.shape[0]):
            return np.mean([model.logits(X) for model in self.models], axis=0)


class Boosted(NamedTuple):
    """A booster, and where its logits begin."""

    booster: Booster
    base: float

    def logits(self, X: Any) -> Vector:
        """Return the class's logits of rows."""
        return self.base + self.booster.logits(X)


class Learned(NamedTuple):
    """A learner's probabilities as logits."""

    learner: Learner

    def logits(self, X: Any) -> Vector:
        """Return the class's logits of rows."""
        return logit_of(self.learner.probability(X))


def boost(
    prepared: tuple[list[Booster], list[Any]],
    seen: Evidence,
    w: Vector,
    folds: list[Fold],
    propensity: Propensity,
    *,
    most: int,
    patience: int,
    n_jobs: int | None,
    tell: Tell,
) -> CrossFit:
    """Boost the observed likelihood in all folds at once, the propensity fitted anew after every stage.

    `prepared` are the boosters, and for each the rows that it holds out. Boosting ends after `most` rounds, or when the
    held-out likelihood has not risen for `patience` rounds; then it goes back to where the likelihood was best.
    """
    boosters, tests = prepared
    base = _start_propensity(boosters, tests, seen, w, folds, propensity, n_jobs)
    u, best, held, stages = np.full(w.size, base), None, held_out(w, folds), rounds_of_stages(most)
    values: list[float] = []
    means: list[float] = []
    for stage, rounds in enumerate(stages):
        gradients = [_observed(base, propensity.v[train], seen.of(train), w[train]) for train, _ in folds]
        u = _advance(boosters, gradients, rounds, tests, folds, u, n_jobs)
        propensity.update(u)
        values.append(_mean(seen.value(u, propensity.v), held))
        means.append(_mean(seen.found(propensity.v), held))
        tell(f"stage {stage + 1}, held-out log-likelihood per row {values[-1]:.6f}")
        if best is None or values[-1] > values[best[0]] + _BETTER:
            best = stage, u.copy(), propensity.v.copy()
        elif sum(stages[best[0] + 1 : stage + 1]) >= patience:
            break
    assert best is not None
    at, u, v = best
    for booster in boosters:
        booster.keep(at + 1)
    models: list[FoldModel] = [Boosted(booster, base) for booster in boosters]
    return CrossFit(u, v, held, models, values, means, at, converged=at + 1 < len(stages))


def alternate(
    learners: list[Learner],
    X: Any,
    seen: Evidence,
    w: Vector,
    folds: list[Fold],
    propensity: Propensity,
    *,
    tol: float,
    window: int,
    max_iter: int,
    n_jobs: int | None,
    tell: Tell,
) -> CrossFit:
    """Expectation maximisation with posteriors from models that have not seen the row's label.

    Such steps need not climb. They end when the held-out likelihood has risen by less than `tol` per row over `window`
    steps, and go back to the best one.
    """
    parts, held = [(take_rows(X, train), take_rows(X, test)) for train, test in folds], held_out(w, folds)

    def fit(targets: Vector, weight: Vector) -> Vector:
        jobs = (
            delayed(_fit_and_judge)(learner, part, targets[train], weight[train])
            for learner, part, (train, _) in zip(learners, parts, folds, strict=True)
        )
        return judged(Parallel(n_jobs=n_jobs, prefer="threads")(jobs), folds, w.size)

    targets, weight = seen.first(w)
    u = fit(targets, weight)
    propensity.start(np.asarray(expit(u)))
    values, means = [_mean(seen.value(u, propensity.v), held)], [_mean(seen.found(propensity.v), held)]
    best, kept, step, converged = 0, (targets, weight, u, propensity.v), 0, False
    for step in range(1, max_iter + 1):
        targets = seen.posterior(u, propensity.v)
        u = fit(targets, w)
        propensity.update(u)
        values.append(_mean(seen.value(u, propensity.v), held))
        means.append(_mean(seen.found(propensity.v), held))
        tell(f"step {step}, held-out log-likelihood per row {values[-1]:.6f}")
        if values[-1] > values[best]:
            best, kept = step, (targets, w, u, propensity.v)
        if step >= window and max(values[-window:]) - values[-window] < tol:
            converged = True
            break
    targets, weight, u, v = kept
    if best < step:
        u = fit(targets, weight)
    models: list[FoldModel] = [Learned(learner) for learner in learners]
    return CrossFit(u, v, held, models, values, means, best, converged)


def held_out(w: Vector, folds: list[Fold]) -> Vector:
    """Return the weight of rows that a fold holds out, and 0 for those that none does: nobody may judge them."""
    held = np.zeros(w.size)
    for _, test in folds:
        held[test] = w[test]
    return held


def _start_propensity(
    boosters: list[Booster],
    tests: list[Any],
    seen: Evidence,
    w: Vector,
    folds: list[Fold],
    propensity: Propensity,
    n_jobs: int | None,
) -> float:
    """Begin as the paper does, with labelled against unlabelled rows; return the logit of the class prior implied."""
    share = float(w @ seen.s) / float(w.sum())
    targets, balanced = seen.first(w)
    u = np.zeros(w.size)
    for rounds in rounds_of_stages(_START_ROUNDS):
        gradients = [_logistic(targets[train], balanced[train] / balanced[train].mean()) for train, _ in folds]
        u = _advance(boosters, gradients, rounds, tests, folds, u, n_jobs)
    for booster in boosters:
        booster.begin_again()
    f = np.asarray(expit(u))
    propensity.start(f)
    frequency = float((w * f) @ seen.found(propensity.v)) / float(w @ f)
    return float(logit(np.clip(share / frequency, 1.1 * share if share < 0.5 else share, 0.95)))


def _advance(
    boosters: list[Booster],
    gradients: list[Any],
    rounds: int,
    tests: list[Any],
    folds: list[Fold],
    u: Vector,
    n_jobs: Any,
) -> Vector:
    """Grow one stage in every fold; return the logits of the rows that each has not seen."""
    n_threads = threads_for_folds(u.size, len(folds), n_jobs)

    def grow(booster: Booster, gradient: Any, test: Any) -> Vector:
        with trees_alone(u.size, n_threads):
            booster.advance(gradient, rounds)
            return booster.last(test)

    jobs = (
        delayed(grow)(booster, gradient, test)
        for booster, gradient, test in zip(boosters, gradients, tests, strict=True)
    )
    return u + judged(Parallel(n_jobs=n_threads, prefer="threads")(jobs), folds, u.size)


def _fit_and_judge(learner: Learner, part: tuple[Any, Any], targets: Vector, weight: Vector) -> Vector:
    train, test = part
    with trees_alone(targets.size):
        learner.fit(train, targets, weight)
        return logit_of(learner.probability(test))


def _observed(base: float, v: Any, seen: Evidence, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
    """Return the gradient of the observed log-likelihood in the class's logit, with the curvature of complete data.

    The observed labels' own information is smaller, most so where few positives are labelled: its steps would learn
    single labels by heart there, and high propensities, which make most of a held-out likelihood, would not notice.
    """

    def gradient(z: Vector) -> tuple[Vector, Vector]:
        return seen.climb(base + z, v, w)

    return gradient


def _logistic(t: Vector, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
    """Return the gradient of a plain logistic log-likelihood."""

    def gradient(z: Vector) -> tuple[Vector, Vector]:
        p = np.asarray(expit(z))
        return w * (t - p), w * p * (1.0 - p)

    return gradient


def _mean(values: Vector, w: Vector) -> float:
    return float(w @ values) / float(w.sum())
