"""Candidates of a search, relaxed: judged by their directions, and averaged where labels cannot choose."""

from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Vector
from scarless.numerics.linear import Design
from scarless.pair.fit import PairFit
from scarless.pair.folds import Fold
from scarless.pair.penalty_path import FoldFits
from scarless.pair.problem import PairProblem
from scarless.pair.relaxed import Relaxation, relax, relax_roughly
from scarless.pair.rows import Training


class RelaxedPairFit(NamedTuple):
    """Two logistic models, relaxed, and how that came about."""

    problem: PairProblem  # with the columns of all members, and the penalty that the relaxed coefficients bear
    f: Vector
    e: Vector
    relaxation: Relaxation
    possible: list[Relaxation]  # of every set of attributes that the labels leave possible


def held_out_logits(fits: list[FoldFits], folds: list[Fold], X: Any, candidate: int) -> tuple[Vector, Vector]:
    """Return one candidate's logit of the class for each row by fits that have not seen it, and how many there were."""
    u, times = np.zeros(X.shape[0]), np.zeros(X.shape[0])
    for fit, (_, test) in zip(fits, folds, strict=True):
        beta = fit.f[:, candidate]
        used = np.flatnonzero(beta[:-1])
        u[test] += np.asarray(X[test][:, used] @ beta[used].astype(X.dtype), dtype=np.float64) + beta[-1]
        times[test] += 1.0
    return u / np.maximum(times, 1.0), times


def relax_candidates(
    fits: list[FoldFits], folds: list[Fold], training: Training, problem: PairProblem, audits: float
) -> list[FoldFits]:
    """Return the folds' fits with scale, level and propensity of each candidate as its held-out labels like them."""
    relaxed = [FoldFits(fit.f.copy(), fit.e.copy(), fit.converged) for fit in fits]
    columns = np.append(problem.e.indices, training.X.shape[1])
    exchangeable = problem.e.indices.size == training.X.shape[1]
    for candidate in range(fits[0].f.shape[1]):
        u, times = held_out_logits(fits, folds, training.X, candidate)
        weight = np.where(times > 0, training.weight, 0.0)
        hold = np.mean([fit.e[columns, candidate] for fit in fits], axis=0) if exchangeable else None
        found = relax_roughly(problem.engine, problem.e, u, training.s, weight, audits=audits, hold=hold)
        for fit in relaxed:
            fit.f[:, candidate] = found.of_linear(fit.f[:, candidate])
            fit.e[columns, candidate] = found.e
    return relaxed


def combine(
    members: list[tuple[PairProblem, PairFit, int]],
    fits: list[FoldFits],
    folds: list[Fold],
    training: Training,
    audits: float,
    possible: tuple[int, ...],
) -> RelaxedPairFit:
    """Relax each member, take the mean of their logits, and relax that once more; one member alone is relaxed once.

    Each member comes with its fit to all rows and its number among the candidates. `possible` are candidates that are
    relaxed for the sake of intervals, the members among them.
    """
    problem, n_columns = members[0][0], training.X.shape[1]
    beta, u = np.zeros(n_columns + 1), np.zeros(training.s.size)
    found: list[Relaxation] = []

    hold = np.mean([fit.e for _, fit, _ in members], axis=0) if problem.e.indices.size == n_columns else None

    def relaxed(logits: Vector, times: Vector) -> Relaxation:
        weight = np.where(times > 0, training.weight, 0.0)
        return relax(problem.engine, problem.e, logits, training.s, weight, audits=audits, hold=hold)

    for own, fit, candidate in members:
        logits, times = held_out_logits(fits, folds, training.X, candidate)
        found.append(relaxed(logits, times))
        beta[np.append(own.f.indices, n_columns)] += found[-1].of_linear(fit.f) / len(members)
        u += found[-1](logits) / len(members)
    last = found[0]
    if len(members) > 1:
        last = relaxed(u, times)
        beta = last.of_linear(beta)
    columns = np.unique(np.concatenate([own.f.indices for own, *_ in members]))
    bears = float(np.mean([own.C * each.slope**2 for (own, *_), each in zip(members, found, strict=True)]))
    whole = problem._replace(f=Design.of(columns), C=bears * (last.slope**2 if len(members) > 1 else 1.0))
    chosen = {candidate for *_, candidate in members}
    others = [relaxed(*held_out_logits(fits, folds, training.X, other)) for other in possible if other not in chosen]
    return RelaxedPairFit(whole, beta[np.append(columns, n_columns)], last.e, last, [*found, *others])
