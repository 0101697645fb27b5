"""Classifiers that never judge a row whose label they have seen.

A flexible classifier reproduces the labels that it was fitted to. In EM it then finds that every positive is labelled,
and its start is its answer. Here each row's class is judged by models that were fitted without its fold, and the
propensity is fitted to these judgements.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, logit

from scarless.checks.tables import take_rows
from scarless.engines import Rows, attach
from scarless.engines.blas import threads_for_folds, trees_alone
from scarless.numerics import likelihood
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.likelihood import posterior
from scarless.numerics.looks import LookTerms, detected, look_terms
from scarless.numerics.objectives import KnownPropensity, PairObjective
from scarless.numerics.recalibrated import LEVEL, SLOPE, RecalibratedPair
from scarless.pair.boosting import Booster, rounds_of_stages
from scarless.pair.folds import Fold
from scarless.pair.learners import Learner
from scarless.pair.logistic import in_memory, propensity_start
from scarless.pair.problem import PSEUDO_FALSE_LABEL_WEIGHT, PairProblem
from scarless.pair.recalibrated import standard_scales
from scarless.pair.solving import PenalisedProblem, Pull

Tell = Callable[[str], None]

_START_ROUNDS = 20  # of boosting labelled against unlabelled rows, where a propensity begins
_BETTER = 1e-5  # in log-likelihood per row, to count as better
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
    """Logistic propensities of any number of looks, and rates of false positives, given the class's logits.

    The problem's table is what the propensities see; its class model is not asked. A propensity that is `held` stays
    where the paper's start has it: it sees all that the classifier sees, and fitted while the classifier is still
    nearly constant it would take its place.
    """

    def __init__(self, problem: PairProblem, *, held: bool = False) -> None:
        self.problem, self.held = problem, held
        self.others = np.zeros(problem.n_parameters - problem.f.n_parameters)
        self.v: Any = np.zeros(problem.engine.n_rows)

    @cached_property
    def _pair(self) -> RecalibratedPair:
        """The likelihood of propensities and rates alone, for looks: slope and level of the class are held."""
        objective = self.problem.objective
        scales = standard_scales(self.problem.engine, objective, self.problem.weight)
        return RecalibratedPair.of(objective, 0.0, *scales, held=(SLOPE, LEVEL))

    def start(self, f: Vector) -> None:
        """Fit labels, unlabelled rows weighted by their probability of being positive.

        With several looks as if each row had one: whether any label was found. The class of audited rows is known.
        """
        problem, n_f = self.problem, self.problem.f.n_parameters
        if problem.told_by_height:
            audit = in_memory(problem.engine, "audit")
            f = np.where(audit >= 0, audit, f)
        found = propensity_start(attach(problem.engine, f=f), problem.e, C=problem.propensity_C)
        self._take(problem.spread(np.concatenate([np.zeros(n_f), found]))[n_f:])

    def update(self, u: Vector) -> None:
        """Maximise the observed likelihood, the class given. The likelihood is the same in both models."""
        if self.held:
            return
        problem = self.problem
        ridge, weight = problem.ridge[problem.f.n_parameters :], problem.weight
        if not problem.told_by_height:  # one look and nothing more: its own kernel takes fewer operations
            rows, objective = attach(problem.engine, v=u), KnownPropensity(problem.e)
            pulls = () if problem.audits is None else (problem.audits.pull(0),)
            alone = PenalisedProblem(rows, objective, ridge, pulls)
            self._take(alone.solve(self.others, total_weight=weight, tol=1e-7, max_iter=50).parameters)
            return
        pair, nothing = self._pair, np.zeros(2)
        rates = problem.objective.n_rates
        false = tuple(Pull(PSEUDO_FALSE_LABEL_WEIGHT, np.eye(pair.n_parameters)[-1 - i]) for i in range(rates))
        ridge = np.append(nothing, ridge / pair.parameter_units**2)
        found = PenalisedProblem(attach(problem.engine, u=u), pair, ridge, false).solve(
            np.append(nothing, pair.standardised(self.others)),
            total_weight=weight,
            tol=1e-10,
            max_iter=50,
            damp_indefinite=problem.objective.false_positives is not None,
        )
        self._take(pair.in_table_units(found.parameters[2:]))

    def _take(self, others: Vector) -> None:
        self.others = others
        objective = self.problem.objective
        beta = np.append(np.zeros(objective.f.n_parameters), others)
        found = self.problem.engine.collect(block_look_logits, objective, beta)
        self.v = found if self.problem.told_by_height else found[:, 0]


def block_look_logits(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Matrix:
    """Return the logits of all propensities, a column for each kind of look, then those of false positives."""
    kinds, columns = objective.n_kinds, objective.logit_values(X, beta)[1:]
    estimated, given = iter(columns[kinds:]), objective.false_positives  # in the order of their looks
    if given is not None and not isinstance(given, str):
        known = np.asarray(given, dtype=np.float64)
        columns[kinds:] = [next(estimated) if np.isnan(h) else np.full(X.shape[0], h) for h in known]
    return np.stack(columns, axis=1)


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


class Evidence(Protocol):
    """What was observed of each row; all answers are per row."""

    @property
    def s(self) -> Vector:
        """Whether there was any label."""
        ...

    def of(self, rows: Any) -> Self:
        """Return what was observed of some rows."""
        ...

    def first(self, w: Vector) -> tuple[Vector, Vector]:
        """Return targets and weights of a first classifier: unlabelled rows as negatives, both kinds alike in sum."""
        ...

    def value(self, u: Vector, v: Any) -> Vector:
        """Return the log-likelihood."""
        ...

    def posterior(self, u: Vector, v: Any) -> Vector:
        """Return the probability of the positive class, given all that was observed."""
        ...

    def climb(self, u: Vector, v: Any, w: Vector) -> tuple[Vector, Vector]:
        """Return the weighted derivative of the log-likelihood by the class's logit, and complete data's curvature."""
        ...

    def found(self, v: Any) -> Vector:
        """Return the probability that a positive row has a label."""
        ...


class OneLabel(NamedTuple):
    """One label of each row."""

    s: Vector

    def of(self, rows: Any) -> "OneLabel":
        """Return what was observed of some rows."""
        return OneLabel(self.s[rows])

    def first(self, w: Vector) -> tuple[Vector, Vector]:
        """Return targets and weights of a first classifier."""
        return self.s, _balanced(self.s, w)

    def value(self, u: Vector, v: Any) -> Vector:
        """Return the log-likelihood."""
        return likelihood.log_likelihood(u, v, self.s, likelihood.pair_terms(u, v))

    def posterior(self, u: Vector, v: Any) -> Vector:
        """Return the probability of the positive class."""
        return likelihood.posterior(np.asarray(expit(u)), np.asarray(expit(v)), self.s)

    def climb(self, u: Vector, v: Any, w: Vector) -> tuple[Vector, Vector]:
        """Return the derivative by the class's logit, and a curvature."""
        terms = likelihood.pair_terms(u, v)
        du, _ = likelihood.score(self.s, terms)
        return w * du, w * terms.f * terms.not_f

    def found(self, v: Any) -> Vector:
        """Return the propensity."""
        return np.asarray(expit(v))


class Observed(NamedTuple):
    """Labels at looks, and audits. The logits ``v`` have a column for each kind of look, then those of false positives
    where there are any.
    """

    s: Vector
    labels: Matrix  # how many of each kind
    looks: Matrix
    audit: Vector  # 1, 0, and -1 for rows that nobody checked
    bounds: tuple[float, float] | None = None  # of all propensities

    def of(self, rows: Any) -> "Observed":
        """Return what was observed of some rows."""
        return Observed(self.s[rows], self.labels[rows], self.looks[rows], self.audit[rows], self.bounds)

    def first(self, w: Vector) -> tuple[Vector, Vector]:
        """Return targets and weights of a first classifier; whose class was checked, its class is known."""
        targets = np.where(self.audit >= 0, self.audit, self.s)
        return targets, _balanced(targets, w)

    def terms(self, u: Vector, v: Any) -> LookTerms:
        """Return what each row says."""
        n_kinds = self.looks.shape[1]
        rates = v[:, n_kinds:] if v.shape[1] > n_kinds else None
        return look_terms(u, v[:, :n_kinds], rates, self.labels, self.looks, self.audit, self.bounds)

    def value(self, u: Vector, v: Any) -> Vector:
        """Return the log-likelihood."""
        return self.terms(u, v).value

    def posterior(self, u: Vector, v: Any) -> Vector:
        """Return the probability of the positive class: 1 or 0 where that was checked."""
        return self.terms(u, v).q

    def climb(self, u: Vector, v: Any, w: Vector) -> tuple[Vector, Vector]:
        """Return the derivative by the class's logit, and a curvature."""
        terms = self.terms(u, v)
        return w * (terms.q * terms.not_f - terms.not_q * terms.f), w * terms.f * terms.not_f

    def found(self, v: Any) -> Vector:
        """Return the probability that a positive row has a label at any of its looks."""
        return detected(self.terms(np.zeros(len(v)), v))[0]


def evidence_of(problem: PairProblem) -> Evidence:
    """Return what was observed of each row of a problem, in memory."""
    s = in_memory(problem.engine, "s")
    if not problem.told_by_height:
        return OneLabel(s)
    labels, looks, audit = (in_memory(problem.engine, name).astype(np.float64) for name in problem.objective.observed)
    return Observed(s, labels, looks, audit, problem.objective.bounds)


def _balanced(targets: Vector, w: Vector) -> Vector:
    share = float(w @ targets) / float(w.sum())
    return w * np.where(targets == 1, 1.0 - share, share)


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
