"""Candidates of a search, relaxed: judged by their directions, and averaged where labels cannot choose."""

from typing import Any, NamedTuple

import numpy as np

from scarless.engines import Engine, Rows
from scarless.numerics.arrays import Vector
from scarless.numerics.linear import Design
from scarless.pair.fit import PairFit
from scarless.pair.folded import FoldedRows, held_out_logits
from scarless.pair.penalty_path import FoldFits
from scarless.pair.problem import PairProblem
from scarless.pair.relaxed import Relaxation, relax, relax_roughly


class RelaxedPairFit(NamedTuple):
    """Two logistic models, relaxed, and how that came about."""

    problem: PairProblem  # with the columns of all members, and the penalty that the relaxed coefficients bear
    f: Vector
    e: Vector
    relaxation: Relaxation
    possible: list[Relaxation]  # of every set of attributes that the labels leave possible


def held_out_rows(fits: list[FoldFits], folded: FoldedRows, candidate: int) -> Engine:
    """Return the rows with one candidate's logit ``u`` of the class, by fits that have not seen them."""
    return folded.judged_by([fit.f[:, candidate] for fit in fits])


def relax_candidates(fits: list[FoldFits], folded: FoldedRows, problem: PairProblem, audits: float) -> list[FoldFits]:
    """Return the folds' fits with scale, level and propensity of each candidate as its held-out labels like them."""
    relaxed = [FoldFits(fit.f.copy(), fit.e.copy(), fit.converged) for fit in fits]
    n_columns = problem.engine.n_columns
    columns, exchangeable = np.append(problem.e.indices, n_columns), problem.e.indices.size == n_columns
    for candidate in range(fits[0].f.shape[1]):
        hold = np.mean([fit.e[columns, candidate] for fit in fits], axis=0) if exchangeable else None
        found = relax_roughly(held_out_rows(fits, folded, candidate), problem.e, audits=audits, hold=hold)
        for fit in relaxed:
            fit.f[:, candidate] = found.of_linear(fit.f[:, candidate])
            fit.e[columns, candidate] = found.e
    return relaxed


def combine(
    members: list[tuple[PairProblem, PairFit, int]],
    fits: list[FoldFits],
    folded: FoldedRows,
    audits: float,
    possible: tuple[int, ...],
) -> RelaxedPairFit:
    """Relax each member, take the mean of their logits, and relax that once more; one member alone is relaxed once.

    Each member comes with its fit to all rows and its number among the candidates. `possible` are candidates that are
    relaxed for the sake of intervals, the members among them.
    """
    problem, n_columns = members[0][0], folded.engine.n_columns
    hold = np.mean([fit.e for _, fit, _ in members], axis=0) if problem.e.indices.size == n_columns else None

    def relaxed(rows: Engine) -> Relaxation:
        return relax(rows, problem.e, audits=audits, hold=hold)

    beta = np.zeros(n_columns + 1)
    found: list[Relaxation] = []
    for own, fit, candidate in members:
        found.append(relaxed(held_out_rows(fits, folded, candidate)))
        beta[np.append(own.f.indices, n_columns)] += found[-1].of_linear(fit.f) / len(members)
    last = found[0]
    if len(members) > 1:
        judges = [[fit.f[:, candidate] for fit in fits] for *_, candidate in members]
        last = relaxed(folded.engine.derive(_mean_logits, judges, found, keep=True))
        beta = last.of_linear(beta)
    columns = np.unique(np.concatenate([own.f.indices for own, *_ in members]))
    bears = float(np.mean([own.C * each.slope**2 for (own, *_), each in zip(members, found, strict=True)]))
    whole = problem._replace(f=Design.of(columns), C=bears * (last.slope**2 if len(members) > 1 else 1.0))
    chosen = {candidate for *_, candidate in members}
    others = [relaxed(held_out_rows(fits, folded, other)) for other in possible if other not in chosen]
    return RelaxedPairFit(whole, beta[np.append(columns, n_columns)], last.e, last, [*found, *others])


def _mean_logits(X: Any, rows: Rows, judges: list[list[Vector]], found: list[Relaxation]) -> dict[str, Any]:
    """Return the mean of some candidates' held-out logits, each relaxed."""
    judged = [held_out_logits(X, rows, models) for models in judges]
    relaxed = [relaxation(each["u"]) for each, relaxation in zip(judged, found, strict=True)]
    return {"u": sum(relaxed) / len(relaxed), "w": judged[0]["w"]}
