"""Classifier and propensity from several looks, audits and facts: the problem, where climbs begin, and the fit."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from scarless.checks.rows import RowTotals, row_totals
from scarless.engines import Engine, Rows
from scarless.numerics.arrays import Vector
<<<<<<< HEAD
from scarless.numerics.looks_objective import LooksLikelihood, LooksSums, looks_sums
from scarless.numerics.newton import WIDEST_MATRIX, Solution, Status, solve_positive
=======
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.newton import Solution, Status, solve_positive
>>>>>>> g5
from scarless.numerics.objectives import Curvature
from scarless.numerics.uncertainty import PairSums
from scarless.pair.basins import Progress, reporter
from scarless.pair.facts import Fact
from scarless.pair.fit import FitOptions, paper_start
from scarless.pair.logistic import as_targets, constant_model, fit_targets, propensity_start, ridge_of, with_probability
from scarless.pair.problem import PairProblem, exchange, see_the_same
from scarless.pair.solving import Addition, PenalisedProblem, Pull

_ROUGH = 1e-5
_FINER = 1e-7  # where rates of false positives are estimated: such likelihoods are flat
_MANY_ROWS, _PART_ROWS = 40_000, 10_000  # from so many rows on, starts are compared on a part of them
_FEWEST_AUDITS = 10  # of each class, for a start from them
_RATE = 0.01  # of false positives, where a climb begins
_OFTEN, _LEAST = 0.4, 1e-12
_HALF = 1e-4  # of a negative that is labelled, and of one that is not: keeps a rate off 0
_HIGH = 0.9
_ROUNDS = 50  # of the method of multipliers
_SHARE_OF_IT = 0.05  # of the variance that a share of so many rows has
_MET = 1e-7  # a share that is this close to where it should be
_NOTHING = 1e-9  # of the objective: more is no last step
_HARDLY = 2.0  # of log-likelihood between two optima: odds of 7
_EXACT = 1e-15  # predicted gain per row, where shares are to be met


class LooksProblem(NamedTuple):
    """Rows with labels at looks, audits and weights; the models; the penalties; facts."""

    engine: Engine
    totals: RowTotals
    objective: LooksLikelihood
    C: float = 1.0
    propensity_C: float = 1.0
    facts: tuple[Fact, ...] = ()
    n_audited: float = 0.0  # that tell of a class: without false positives, of rows without a label
    n_looks: int = 2  # of a row, at most; more than two count as two

    @property
    def exchangeable(self) -> bool:
        """Whether nothing but the paper's start says which of two models is the classifier.

        One look at each row, no audit, and both models see the same attributes. What is known of a share holds for
        either of them.
        """
        return self.n_looks == 1 and not self.n_audited and see_the_same(self.objective.f, self.objective.e)

    @property
    def weight(self) -> float:
        """All rows together."""
        return float(self.totals.weight)

    @property
    def labelled_share(self) -> float:
        """Share of rows with any label."""
        return self.totals.labelled_share

    @property
    def ridge(self) -> Vector:
        """The penalty's weight on the square of each parameter."""
        designs, n_models = self.objective.designs, 1 + len(self.objective.models)
        penalties = [self.C, *[self.propensity_C] * (n_models - 1), *[math.inf] * (len(designs) - n_models)]
        return np.concatenate([ridge_of(design, C) for design, C in zip(designs, penalties, strict=True)])

    @property
    def pulls(self) -> tuple[Pull, ...]:
        """A trace of imaginary labels of negatives, and of looks without: a rate stays off 0 where there are none."""
        n, rates = self.objective.n_parameters, self.objective.places[1 + len(self.objective.models) :]
        return tuple(Pull(_HALF, np.eye(n)[place.start]) for place in rates)

    def penalised(self, facts: tuple[Fact, ...]) -> PenalisedProblem:
        """Return what a solver minimises."""
        additions: tuple[Addition, ...] = (*self.pulls, *facts)
        return PenalisedProblem(self.engine, self.objective, self.ridge, additions)

    def sums(self, beta: Vector) -> PairSums:
        """Return what fitted models say of all rows together, in one pass."""
        return self.engine.total(self.objective.totals, beta)

    def on(self, engine: Engine) -> "LooksProblem":
        """Return the problem on other rows."""
        facts = tuple(replace(fact, engine=engine) for fact in self.facts)
        return self._replace(engine=engine, totals=row_totals(engine), facts=facts)

    def part(self, n_rows: int) -> "LooksProblem":
        """Return the problem on about `n_rows` rows that weigh as much as all."""
        step = max(1, self.engine.n_rows // n_rows)
        part = self.engine.every(step)
        weight = row_totals(part).weight
        return self.on(part.derive(_weighted, self.weight / weight)) if weight > 0 else self


class Rival(NamedTuple):
    """Another optimum, which rows hardly tell from the one that was taken."""

    class_prior: float
    behind: float  # log-likelihood, with penalties, that it has less


class LooksFit(NamedTuple):
    """The parameters of all models, and how they were found."""

    beta: Vector
    solution: Solution
    facts: tuple[Fact, ...]  # with their multipliers
    met: bool  # whether every fact that is sure is kept to
    start: str
    rivals: tuple[Rival, ...] = ()

    @property
    def converged(self) -> bool:
        """Whether the solver met its stopping rule, and facts are kept to."""
        return self.solution.status is Status.CONVERGED and self.met


def fit_looks(
    problem: LooksProblem, options: FitOptions, *, n_starts: int = 1, progress: Progress | None = None
) -> LooksFit:
    """Fit all models, from the best of a few starts."""
    whole = problem.n_audited > 0 or bool(problem.facts) or problem.engine.n_rows < _MANY_ROWS
    part = problem if whole else problem.part(_PART_ROWS)
    if not 0.0 < part.labelled_share < 1.0:
        part = problem
    near = _FINER if problem.objective.n_rates else _ROUGH
    rough = options._replace(tol=max(near, options.tol), max_iter=min(100, options.max_iter))
    starts = make_looks_starts(part, n_starts)
    starts = starts[:1] if problem.exchangeable else starts  # of two images of one optimum either might be higher
    climbs = [climb_looks(part, beta, rough, name, progress) for name, beta in starts]
    climbs = [climb for climb in climbs if _finds_positives(part, climb)] or climbs
    # Ends that such climbs cannot tell apart are one optimum: the earlier start is believed.
    lowest = min(climb.solution.value for climb in climbs) + near * part.weight
    best = next(climb for climb in climbs if climb.solution.value <= lowest)
    fit = climb_looks(problem, best.beta, options, best.start, progress)
    return fit._replace(rivals=_rivals(problem, fit, climbs, rough)) if part is problem else fit


def _finds_positives(problem: LooksProblem, fit: LooksFit) -> bool:
    """Whether looks label positives more often than negatives, which is what the two words mean.

    With rates to be estimated, models with both classes in each other's place may fit as well.
    """
    objective = problem.objective
    if not objective.n_rates:
        return True
    sums, own = problem.sums(fit.beta), objective.places[1 + len(objective.models) :]
    rates = [(kind, expit(fit.beta[own[rate].start])) for kind, rate in enumerate(objective.rates) if rate is not None]
    return all(float(sums.by_look[kind] / sums.positives) > rate for kind, rate in rates)


def _rivals(problem: LooksProblem, fit: LooksFit, climbs: list[LooksFit], rough: FitOptions) -> tuple[Rival, ...]:
    """Return optima that rows hardly tell from the fit: of other starts, and with both models in each other's place."""
    if problem.exchangeable or not fit.converged:
        return ()
    objective = problem.objective
    if see_the_same(objective.f, objective.e):
        image = exchange(fit.beta[objective.places[0]], fit.beta[objective.places[1]], objective.f, objective.e)
        looks = float(problem.engine.total(_block_looks)[1]) / problem.weight
        climbs = [*climbs, climb_looks(problem, spread_start(objective, image, looks), rough, "exchanged")]
    found = []
    for climb in climbs:
        behind = climb.solution.value - fit.solution.value
        if climb.start != fit.start and climb.met and behind < _HARDLY:
            found.append(Rival(float(problem.sums(climb.beta).positives) / problem.weight, max(behind, 0.0)))
    return tuple(found)


def climb_looks(
    problem: LooksProblem, start: Vector, options: FitOptions, name: str, progress: Progress | None = None
) -> LooksFit:
    """Climb from one start. Facts that are nearly sure are kept to by the method of multipliers.

    A penalty as stiff as such a fact stalls Newton's method. In its place stands one as wide as the share of as many
    rows as there are would be if their classes were known, whose target moves until the share is where it should be.
    """
    free = math.isinf(problem.C) or math.isinf(problem.propensity_C)
    facts = tuple(_widened(fact, problem.weight) for fact in problem.facts)
    beta, solution, met = start, None, True
    tol = min(options.tol, _EXACT) if any(fact.widened for fact in facts) else options.tol
    for _ in range(_ROUNDS):
        found = problem.penalised(facts).solve(
            beta,
            total_weight=problem.weight,
            tol=tol,
            max_iter=options.max_iter,
            may_diverge=free,
            damp_indefinite=problem.objective.false_positives is not None,
            progress=reporter(progress, name, problem.weight),
        )
        solution = found if solution is None else solution.followed_by(found)
        beta = solution.parameters
        if not any(fact.widened for fact in facts):
            break
        moved = tuple(fact.moved(fact.share(beta, bend=False).value) if fact.widened else fact for fact in facts)
        away = [fact.widened * abs(new.multiplier - fact.multiplier) for fact, new in zip(facts, moved, strict=True)]
        facts, met = moved, max(away) < _MET
        if met or solution.status is not Status.CONVERGED:
            break
    assert solution is not None
    if options.tol < _ROUGH and solution.status is Status.CONVERGED:
        beta = _last_step(problem.penalised(facts), beta)
    return LooksFit(beta, solution, facts, met, name)


def _last_step(penalised: PenalisedProblem, beta: Vector) -> Vector:
    """Return where one more step leads, by Newton's method: too short for the objective to tell, but nearer its top."""
    if beta.size > WIDEST_MATRIX:
        return beta
    there = penalised.evaluate(beta, Curvature.OBSERVED)
    step = -solve_positive(there.curvature, there.gradient)
    return beta + step if 0.0 <= -there.gradient @ step <= _NOTHING * abs(float(there.value)) else beta


def _widened(fact: Fact, weight: float) -> Fact:
    least = _SHARE_OF_IT * fact.value * (1.0 - fact.value) / weight
    return replace(fact, widened=least if fact.variance < least else 0.0, multiplier=0.0)


def make_looks_starts(problem: LooksProblem, n_starts: int) -> list[tuple[str, Vector]]:
    """Return where to begin: as if a row had one look, whether any label was found; both extremes; from audits."""
    e = problem.objective.e
    pair = PairProblem(problem.engine, problem.totals, problem.objective.f, e, problem.C, problem.propensity_C)
    found, looks = (float(each) / problem.weight for each in problem.engine.total(_block_looks))
    labels, high = problem.engine.derive(as_targets), constant_model(e, _HIGH)
    naive = fit_targets(labels, pair.f, C=pair.C, tol=_ROUGH, max_iter=50).parameters
    alone = fit_targets(labels, e, C=pair.propensity_C, tol=_ROUGH, max_iter=50).parameters
    starts = [
        ("paper", paper_start(pair)),
        ("all labelled", np.concatenate([naive, high])),
        ("all positive", np.concatenate([constant_model(pair.f, _HIGH), alone])),
    ]
    if problem.n_audited > 0 and (audited := _audited_start(problem, pair)) is not None:
        starts.insert(0, ("audits", audited))
    steps = np.arange(1, n_starts) / n_starts
    for share in problem.labelled_share + (1.0 - problem.labelled_share) * steps:
        starts.append((f"class prior {share:.2g}", np.concatenate([constant_model(pair.f, share), alone])))
    spread = [(name, spread_start(problem.objective, beta, looks)) for name, beta in starts]
    if not problem.objective.n_rates:
        return spread
    # As if all labels were false: from a rate next to 0 alone, 6 climbs of 49 small problems ended in a lower optimum.
    often = float(np.clip(found / max(looks, _LEAST), _RATE, _OFTEN))
    false = [(f"{name}, all false", beta) for name, beta in starts if name in ("paper", "all positive")]
    return spread + [(name, spread_start(problem.objective, beta, looks, rate=often)) for name, beta in false]


def spread_start(objective: LooksLikelihood, beta: Vector, looks: float, *, rate: float = _RATE) -> Vector:
    """Return parameters for all looks from those of one, whether any label was found at about so many looks."""
    beta_f, beta_e = beta[: objective.f.n_parameters], beta[objective.f.n_parameters :].copy()
    found = float(np.clip(expit(beta_e[-1]), 1e-6, 1.0 - 1e-6))
    once = -math.expm1(math.log1p(-found) / max(looks, 1.0))
    beta_e[-1] = logit(np.clip(once, 1e-6, 1.0 - 1e-6))
    return np.concatenate([beta_f, *[beta_e] * len(objective.models), np.full(objective.n_rates, logit(rate))])


def _audited_start(problem: LooksProblem, pair: PairProblem) -> Vector | None:
    """Return a classifier of the rows that were checked, and the propensity that it implies."""
    (counts,) = problem.engine.total(_block_audits)
    if min(counts) < _FEWEST_AUDITS:
        return None
    checked = problem.engine.derive(_audit_targets)
    f = fit_targets(checked, pair.f, C=pair.C, tol=_ROUGH, max_iter=50).parameters
    engine = with_probability(problem.engine, pair.f, f, "f")
    return np.concatenate([f, propensity_start(engine, pair.e, C=pair.propensity_C)])


def _weighted(X: Any, rows: Rows, times: float) -> dict[str, Any]:
    return {"w": rows["w"] * times}


def told_by(engine: Engine, objective: LooksLikelihood) -> tuple[float, int]:
    """Return how many audits tell of a class, and whether any row has two looks: as 1 or 2, the most of a row.

    Without false positives the class of a labelled row is known, and its audit tells nothing. Nor do rows of weight 0.
    """
    audits, twice = engine.total(_block_told, objective.false_positives is None)
    return float(audits), 2 if float(twice) > 0 else 1


def _block_told(X: Any, rows: Rows, sure: bool) -> tuple[Any, Any]:
    counts = rows["w"] > 0
    audited = counts & (rows["audit"] >= 0)
    if sure:
        audited = audited & (np.sum(rows["labels"], axis=1) == 0)
    twice = counts & (np.sum(rows["looks"], axis=1, dtype=np.int64) > 1)
    return np.asarray(np.count_nonzero(audited) * 1.0), np.asarray(np.count_nonzero(twice) * 1.0)


def _block_looks(X: Any, rows: Rows) -> tuple[Any, Any]:
    """Return how many labels, and how many looks, there are."""
    sums = (rows["w"] @ np.sum(rows[name], axis=1, dtype=np.float64) for name in ("labels", "looks"))
    labels, looks = (np.asarray(each) for each in sums)
    return labels, looks


def _block_audits(X: Any, rows: Rows) -> tuple[Any]:
    return (np.array([np.count_nonzero((rows["audit"] == value) & (rows["w"] > 0)) for value in (0, 1)]) * 1.0,)


def _audit_targets(X: Any, rows: Rows) -> dict[str, Any]:
    return {"t": (rows["audit"] == 1).astype(np.float64), "w": rows["w"] * (rows["audit"] >= 0)}
