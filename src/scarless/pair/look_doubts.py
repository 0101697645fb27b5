"""Whether looks and audits are as the models have them: cheap questions that every fit asks itself."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from scarless.checks.looks import Codes
from scarless.engines import Rows
from scarless.numerics.arrays import Array, Vector
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.pair.fit import FitOptions
from scarless.pair.looks import LooksFit, LooksProblem, climb_looks, fit_looks
from scarless.pair.looks_inference import penalised_loss

_LEAST = 1e-12
_CLOSE = 1e-8  # predicted gain per row: enough for a test
_ENOUGH_ROWS = 20_000
_FIRST = -4.6  # logit of the rate of false positives where a climb begins: 1 in 100


class AuditGap(NamedTuple):
    """Positives among audits, how many labels and models alone expect, and how many standard errors lie between."""

    found: float
    expected: float
    apart: float


class LookGap(NamedTuple):
    """A look, its labels, how many the models expect, and how many standard errors lie between at the least."""

    look: int
    found: float
    expected: float
    apart: float


class UnsaidRate(NamedTuple):
    """The rate of false positives that rows speak for, the one that was given, and standard errors between them."""

    rate: float
    given: float
    apart: float


def audit_gap(problem: LooksProblem, beta: Vector) -> AuditGap | None:
    r"""Compare audits with what labels alone say of the same rows; None where no audit tells of a class.

    .. math:: \frac{\sum w (a - q)}{\sqrt{\sum w^2 q(1-q)}}

    with `q` the class of an audited row given its labels. Fits lean towards their audits, so that this is cautious.
    """
    found, expected, variance = (float(each) for each in problem.engine.total(_block_audits, problem.objective, beta))
    if variance < _LEAST:
        return None
    return AuditGap(found, expected, (found - expected) / float(np.sqrt(variance)))


def look_gaps(problem: LooksProblem, beta: Vector, labels: Codes, kinds: Array) -> list[LookGap]:
    r"""Compare how many labels each look found with how many the models expect.

    By each look alone, :math:`f e_k + (1-f) h_k`, and given all looks before it. The first is wrong where a look took
    place because of earlier ones, the second where rows differ in ways that no attribute knows; a look that differs
    from the others stands out by both, so that the smaller counts.
    """
    shares = problem.engine.collect(_block_shares, problem.objective, beta)
    w, f = shares[:, 0], shares[:, 1]
    e, h = np.split(shares[:, 2:], 2, axis=1)
    now, gaps = f.copy(), []
    for look, kind in enumerate(kinds):
        seen, s = labels[:, look] >= 0, labels[:, look] == 1
        e_k, h_k = e[:, kind], h[:, kind]
        alone, given = (np.clip(p * e_k + (1.0 - p) * h_k, _LEAST, 1.0 - _LEAST) for p in (f, now))
        apart = [_apart(w[seen], s[seen], p[seen]) for p in (alone, given)]
        least = min(apart, key=abs) if apart[0] * apart[1] > 0 else 0.0
        gaps.append(LookGap(look, float(w[seen] @ s[seen]), float(w[seen] @ alone[seen]), least))
        after = np.where(s, now * e_k / given, now * (1.0 - e_k) / (1.0 - given))
        now = np.where(seen, np.clip(after, 0.0, 1.0), now)
    return gaps


def unsaid_rate(problem: LooksProblem, fit: LooksFit, *, max_iter: int) -> UnsaidRate | None:
    r"""Return the rate of false positives that rows speak for, where another was given; None where they cannot say.

    By the likelihood ratio of one rate for all looks: estimated from where the fit ended, or, as a rate that is far too
    high makes models of its own, from the usual starts. Large tables are asked in
    part. Rows need two looks: with one, only audits tell.
    """
    given = problem.objective.false_positives
    if problem.n_looks < 2 or isinstance(given, str) or not fit.converged:
        return None
    if given is not None and (np.isnan(given).any() or np.ptp(given) > 0):
        return None
    asked = _fewer(problem)
    options = FitOptions(_CLOSE, max_iter)
    here = climb_looks(asked, fit.beta, options, fit.start)
    objective = replace(problem.objective, false_positives="shared")
    facts = tuple(replace(fact, objective=objective) for fact in asked.facts)
    logit = _FIRST if given is None else float(given[0])
    free = asked._replace(objective=objective, facts=facts)
    start = np.append(here.beta, logit)
    there = climb_looks(free, start, options, fit.start) if given is None else fit_looks(free, options)
    gained = penalised_loss(asked, here.beta) - penalised_loss(free, there.beta)
    rate = float(expit(there.beta[-1]))
    return UnsaidRate(rate, float(expit(logit)) if given is not None else 0.0, float(np.sqrt(2.0 * max(gained, 0.0))))


def _fewer(problem: LooksProblem) -> LooksProblem:
    """Return the problem on some rows of a large table, each as heavy as it is."""
    step = problem.engine.n_rows // _ENOUGH_ROWS
    if step < 2 or problem.facts:
        return problem
    part = problem.on(problem.engine.every(step))
    return part if 0.0 < part.labelled_share < 1.0 else problem


def _apart(w: Vector, s: Any, p: Vector) -> float:
    spread = float(np.sqrt(w**2 @ (p * (1.0 - p))))
    return float(w @ (s - p)) / spread if spread > 0 else 0.0


def _block_audits(X: Any, rows: Rows, objective: LooksLikelihood, beta: Vector) -> tuple[Any, Any, Any]:
    open_rows: Any = {name: rows[name] for name in ("labels", "looks", "w")} | {"audit": np.full(len(rows["w"]), -1.0)}
    terms, w = objective.terms(X, open_rows, beta), rows["w"] * (rows["audit"] >= 0)
    sums = w @ (rows["audit"] == 1), w @ terms.q, w**2 @ (terms.q * terms.not_q)
    found, expected, variance = (np.asarray(each, dtype=np.float64) for each in sums)
    return found, expected, variance


def _block_shares(X: Any, rows: Rows, objective: LooksLikelihood, beta: Vector) -> Array:
    """Return weights, classes, propensities and rates of false positives, by kinds of looks."""
    terms = objective.terms(X, rows, beta)
    h = np.zeros_like(terms.e) if terms.h is None else terms.h
    return np.column_stack([rows["w"], terms.f, terms.e, h])
