"""Several climbs, the distinct summits that they reach, and which of them to believe.

Nothing here sees the true class. Summits of clearly different height are told apart by it. Of summits that the labels
cannot tell apart, the paper's principle chooses: as many missing labels as possible are put down to the labelling.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from scarless.engines.lockstep import in_lockstep
from scarless.numerics import likelihood
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.interval import Interval
from scarless.numerics.linear import Design, logits
from scarless.numerics.namespace import like, namespace_of
from scarless.numerics.newton import Status, Trace
from scarless.numerics.sigmoid import sigmoid
from scarless.numerics.uncertainty import PairSums
from scarless.outside.notices import warn_user
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.problem import PairProblem, see_the_same
from scarless.pair.selection import Selection
from scarless.pair.starts import Start, exchanged_start, the_papers_start

__all__ = [
    "Basin",
    "Climb",
    "Progress",
    "Step",
    "choose",
    "climb_all",
    "see_the_same",
    "warn_if_exchangeable",
]


# Two fits are one where their objectives agree to this (relative) and their means to that.
_SAME_OBJECTIVE, _SAME_MEAN = 1e-6, 1e-3


@dataclass(frozen=True)
class Basin:
    """A local optimum of the penalised likelihood, and the starts that led to it."""

    objective: float  # minus the penalised log-likelihood: lower is better
    log_likelihood: float
    class_prior: float  # mean of f
    mean_propensity: float  # mean of e, over all rows
    label_frequency: float  # mean of e over positives
    starts: tuple[str, ...]
    converged: bool
    exchanged: bool = False  # the other way round than the paper's start leads to, where both models see the same
    parameters: Vector = field(
        repr=False, compare=False, kw_only=True
    )  # of the classifier, then of the propensity model

    def same_as(self, other: "Basin") -> bool:
        """Whether two fits agree in height and in what they say of the population."""
        return self._as_high(other) and all(
            abs(a - b) <= _SAME_MEAN
            for a, b in (
                (self.class_prior, other.class_prior),
                (self.mean_propensity, other.mean_propensity),
                (self.label_frequency, other.label_frequency),
            )
        )

    def _as_high(self, other: "Basin") -> bool:
        return abs(self.objective - other.objective) <= _SAME_OBJECTIVE * (1.0 + abs(self.objective))


class Climb(NamedTuple):
    """A basin, the fit that found it, and what it says of all rows together."""

    basin: Basin
    fit: PairFit
    sums: PairSums


class Step(NamedTuple):
    """One iteration of a climb: what to tell someone who waits."""

    start: str  # the climb's name
    number: int
    objective: float  # per unit of row weight
    gain: float  # predicted by the step, per unit of row weight
    share: float  # of the step that was taken; 0 at the end


Progress = Callable[[Step], None]


def reporter(progress: Progress | None, name: str, total: float) -> Callable[[Trace], None] | None:
    """Return what a solver calls after each iteration of a climb, if anyone waits; `total` is all rows' weight."""
    if progress is None:
        return None
    numbers = count(1)
    return lambda at: progress(Step(name, next(numbers), at.value / total, at.gain / total, at.step))


class _Rules(NamedTuple):
    """When a climb ends, and who is told of it."""

    tol: float
    max_iter: int
    progress: Progress | None

    def reporter(self, name: str, total: float) -> Callable[[Trace], None] | None:
        """Return what a solver calls after each iteration."""
        return reporter(self.progress, name, total)


def climb_all(
    problem: PairProblem, starts: list[Start], *, tol: float, max_iter: int, progress: Progress | None = None
) -> list[Climb]:
    """Climb from every start; return the distinct summits, best first.

    Models that see the same attributes can be exchanged, and every summit has a mirror image. Which of the two models
    is the classifier is then decided by the paper's start alone, and never by height:

    - Under one penalty both images are as high. Those that are the other way round than the paper's start leads to are
      turned round, climbed from there, and left out if they turn back.
    - Under two penalties the images differ in height, since a penalty prefers the larger model where it is weak, which
      says nothing of which model is which. Every summit is climbed both ways round and all are returned, so the
      best of them is that of the problem with both penalties swapped too; those of the other way round are marked.

    `progress` is called after each iteration.
    """
    rules = _Rules(tol, max_iter, progress)
    climbs = in_lockstep(
        [problem.engine] * len(starts), lambda i, engine: _climb(problem._replace(engine=engine), starts[i], rules)
    )
    if problem.exchangeable:
        climbs = _one_way_round(problem, climbs, rules)
    return sorted(_distinct(climbs), key=lambda climb: climb.basin.objective)


def choose(problem: PairProblem, climbs: list[Climb]) -> Selection:
    r"""Choose the highest summit, unless others are as high within noise; of these the lowest label frequency.

    Of exchangeable models only summits of the paper's way round are considered.

    Two summits are two models of the same rows, neither inside the other. With the per-row differences
    :math:`d_i` of their log-likelihoods, :math:`\sum_i w_i d_i` has the standard error
    :math:`\sqrt{\sum_i w_i (d_i - \bar d)^2}` (Vuong 1989). Summits whose penalised log-likelihoods differ by no more
    than that are tied.
    """
    basins = [climb.basin for climb in climbs]
    allowed = [i for i, basin in enumerate(basins) if not basin.exchanged]
    if len(climbs) == 1:
        return _selection(basins, 0, [0], _only_one(basins[0]), [0.0], [0.0])
    best = allowed[0]
    behind = [basin.objective - basins[best].objective for basin in basins]
    errors = _standard_errors(problem, [climb.fit for climb in climbs], best)
    noise = _SAME_OBJECTIVE * (1 + abs(basins[best].objective))
    tied = [i for i in allowed if behind[i] <= errors[i] + noise]
    chosen = min(tied, key=lambda i: basins[i].label_frequency)
    reason = _reason(basins, chosen, tied, behind, errors) if len(allowed) > 1 else _only_one(basins[best])
    return _selection(basins, chosen, tied, reason + _other_way(basins, allowed), behind, errors)


def _selection(
    basins: list[Basin], chosen: int, tied: list[int], reason: str, behind: list[float], errors: list[float]
) -> Selection:
    priors = [basins[i].class_prior for i in tied]
    spread = Interval(min(priors), max(priors))
    return Selection(chosen, (chosen,), tuple(tied), len(tied), spread, reason, tuple(behind), tuple(errors))


def warn_if_exchangeable(
    f: Design,
    e: Design,
    name: str,
    *,
    penalties: tuple[float, float] | None = None,
) -> None:
    """Warn that the labels cannot say which of two models is the classifier; `penalties` are those of both models."""
    if see_the_same(f, e):
        unchanged = "without changing the fit, and the labels cannot say which is which"
        if penalties is not None and penalties[0] != penalties[1]:
            unchanged = (
                "without changing the likelihood of any label, and the labels cannot say which is which. Only the "
                f"penalties differ (C={penalties[0]:g}, propensity_C={penalties[1]:g}); they decide how far each model "
                "is shrunk, and say nothing of which is the classifier"
            )
        warn_user(
            f"{name}: classifier and propensity model see the same {f.n_columns} attributes, so the two can be "
            f"exchanged {unchanged}. The way round that the "
            "paper's start leads to is kept: its classifier begins as labelled against unlabelled. Name in "
            "propensity_attributes only what drives the labelling, or leave some of it out of "
            "classification_attributes.",
            UserWarning,
        )


def _climb(problem: PairProblem, start: Start, rules: _Rules) -> Climb:
    total = problem.weight
    options = FitOptions(rules.tol, rules.max_iter, progress=rules.reporter(start.name, total))
    fit = fit_pair(problem, start.parameters, options, curvature=start.curvature)
    sums = problem.sums(fit.f, fit.e)
    basin = Basin(
        objective=fit.solution.value,
        log_likelihood=float(sums.log_likelihood),
        class_prior=float(sums.positives) / total,
        mean_propensity=float(sums.propensities) / total,
        label_frequency=float(sums.labelled_positives) / float(sums.positives),
        starts=(start.name,),
        converged=fit.solution.status is Status.CONVERGED,
        parameters=fit.solution.parameters,
    )
    return Climb(basin, fit, sums)


def _one_way_round(problem: PairProblem, climbs: list[Climb], rules: _Rules) -> list[Climb]:
    """Return the summits the way round of the paper's, and under two penalties the others too, marked."""
    by_paper = next((climb for climb in climbs if climb.basin.starts == ("paper",)), None)
    if by_paper is None:
        by_paper = _climb(problem, the_papers_start(problem), rules)

    def wrong(climb: Climb) -> bool:
        return _is_exchanged(problem, climb.fit, by_paper.fit)

    if problem.propensity_C == problem.C:
        right = [climb for climb in climbs if not wrong(climb)]
        turned = [_turned(problem, climb, rules) for climb in climbs if wrong(climb)]
        return right + [climb for climb in turned if not wrong(climb)] or [by_paper]
    climbs = climbs + [_turned(problem, climb, rules) for climb in climbs]
    marked = [climb._replace(basin=replace(climb.basin, exchanged=wrong(climb))) for climb in climbs]
    return marked if any(not climb.basin.exchanged for climb in marked) else [*marked, by_paper]


def _turned(problem: PairProblem, climb: Climb, rules: _Rules) -> Climb:
    """Climb again from a summit with both models exchanged."""
    (name,) = climb.basin.starts
    start = exchanged_start(problem, Start(name, climb.fit.solution.parameters))
    return _climb(problem, start._replace(name=name), rules)


def _is_exchanged(problem: PairProblem, fit: PairFit, other: PairFit) -> bool:
    """Whether a fit is closer to another with its models exchanged: by their probabilities for the rows."""
    as_it_is, turned = problem.engine.total(_block_distances, problem.f, problem.e, (fit.f, fit.e), (other.f, other.e))
    return bool(turned < as_it_is)


def _block_distances(X: Any, rows: Any, f: Design, e: Design, pair: Any, other: Any) -> tuple[Any, Any]:
    """Return how far two pairs' probabilities are apart, as they are and with those of one exchanged."""
    (p_f, p_e), (q_f, q_e) = (
        [sigmoid(logits(*at)) for at in zip((f.take(X), e.take(X)), each, strict=True)] for each in (pair, other)
    )
    w = rows["w"]
    return w @ ((p_f - q_f) ** 2 + (p_e - q_e) ** 2), w @ ((p_e - q_f) ** 2 + (p_f - q_e) ** 2)


def _distinct(climbs: list[Climb]) -> list[Climb]:
    """Return one climb to each summit, with the names of all starts that led there."""
    found: list[Climb] = []
    for climb in climbs:
        known = next((i for i, other in enumerate(found) if climb.basin.same_as(other.basin)), None)
        if known is None:
            found.append(climb)
        else:
            basin = found[known].basin
            starts = tuple(dict.fromkeys((*basin.starts, *climb.basin.starts)))
            found[known] = found[known]._replace(basin=replace(basin, starts=starts))
    return found


def _standard_errors(problem: PairProblem, fits: list[PairFit], best: int) -> list[float]:
    """Return the standard error of each fit's log-likelihood minus the best one's, paired over rows: sums in two
    passes, the second around the mean.
    """
    pairs = [(fit.f, fit.e) for fit in fits]
    place = (problem.f, problem.e, pairs, best)
    (total,) = problem.engine.total(_block_differences, *place)
    (squares,) = problem.engine.total(_block_squared_differences, *place, total / problem.weight)
    return [float(each) for each in np.sqrt(squares)]


def _block_differences(X: Any, rows: Any, f: Design, e: Design, pairs: Any, best: int) -> tuple[Vector]:
    return (rows["w"] @ _differences(X, rows, f, e, pairs, best),)


def _block_squared_differences(
    X: Any, rows: Any, f: Design, e: Design, pairs: Any, best: int, mean: Vector
) -> tuple[Vector]:
    differences = _differences(X, rows, f, e, pairs, best)
    return (rows["w"] @ (differences - like(differences, mean)) ** 2,)


def _differences(X: Any, rows: Any, f: Design, e: Design, pairs: Any, best: int) -> Matrix:
    X_f, X_e = f.take(X), e.take(X)
    values = []
    for beta_f, beta_e in pairs:
        u, v = logits(X_f, beta_f), logits(X_e, beta_e)
        values.append(likelihood.log_likelihood(u, v, rows["s"], likelihood.pair_terms(u, v)))
    return namespace_of(values[0]).stack([values[best] - value for value in values], axis=1)


def _only_one(basin: Basin) -> str:
    if len(basin.starts) == 1:
        return f"One start ({basin.starts[0]}), so nothing to choose from; n_starts=5 looks for other optima."
    return f"All {len(basin.starts)} starts led to the same optimum; that there is no other is not shown by that."


def _other_way(basins: list[Basin], allowed: list[int]) -> str:
    """Say that a higher summit was passed over because its models are the other way round."""
    ahead = basins[allowed[0]].objective - basins[0].objective
    if allowed[0] == 0:
        return ""
    return (
        f" With classifier and propensity model exchanged there is an optimum whose penalised log-likelihood is higher "
        f"by {ahead:.2f}, by the penalties; the way round that the paper's start leads to is kept."
    )


def _reason(basins: list[Basin], chosen: int, tied: list[int], behind: list[float], errors: list[float]) -> str:
    told = f"{sum(not basin.exchanged for basin in basins)} optima. "
    if len(tied) == 1:
        return told + "The best penalised likelihood is ahead of the rest by more than the difference's standard error."
    if chosen == tied[0]:
        return told + (
            f"{len(tied)} cannot be told apart by the labels; the one with the best penalised likelihood also has the "
            f"lowest label frequency ({basins[tied[0]].label_frequency:.2f})."
        )
    return told + (
        f"This one's penalised log-likelihood is behind the best by {behind[chosen]:.2f}, within its standard error of "
        f"{errors[chosen]:.2f}: the labels cannot tell them apart. It has the lowest label frequency "
        f"({basins[chosen].label_frequency:.2f}; the best has {basins[tied[0]].label_frequency:.2f}), which puts as "
        "many missing labels as possible down to the labelling."
    )
