"""Several climbs, the distinct optima that they reach, and which of them to believe.

Nothing here sees the true class. Optima of clearly different height are told apart by it. Of optima that the labels
cannot tell apart, the paper's principle chooses: as many missing labels as possible are put down to the labelling.
Where looks, audits or facts say more than one label of each row, height alone chooses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from scarless.engines.blas import BLAS
from scarless.engines.lockstep import go_in_lockstep, in_lockstep
from scarless.numerics.arrays import Matrix, Vector, like, namespace_of
from scarless.numerics.likelihood import sigmoid
from scarless.numerics.linear import Design, logits
from scarless.numerics.newton import WIDEST_MATRIX, Trace
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import Interval, PairSums
from scarless.outside.notices import warn_user
from scarless.pair.fit import ROUGH_GAIN, FitOptions, PairFit, fit_pair
from scarless.pair.problem import PairProblem, see_the_same
from scarless.pair.starts import (
    PAPER,
    Start,
    all_positive_start,
    asks_for_papers_start,
    make_starts,
    starts_by_evidence,
    swapped_start,
    the_papers_start,
)

#: Range of class priors among optima, or candidates, that the labels cannot tell apart, above which a fit warns. By
#: judgement.
WARN_RANGE_OF_CLASS_PRIORS = 0.25
#: Two fits are one optimum where their penalised log-likelihoods agree to this (relative), and class prior, mean
#: propensity and label frequency to that. By judgement.
SAME_OBJECTIVE, SAME_MEAN = 1e-6, 1e-3
ROUGH_GAIN_WITH_RATES = 1e-7  # per row, where rates of false positives are estimated: such likelihoods are flat
#: From so many rows on, the starts of fits to several looks are compared on a part of so many rows. By judgement.
MIN_ROWS_FOR_PART, ROWS_OF_PART = 40_000, 10_000
#: Rows, and labels in them, of the part before that part, on which these starts are first optimised. By judgement.
ROWS_OF_FIRST_PART, LABELS_OF_FIRST_PART = 2_500, 500
#: Penalised log-likelihood between two optima below which both count as possible: odds of 7. By judgement.
HARDLY_LOWER = 2.0
#: Rows of the part on which a fit from the paper's start alone is compared with another start, and labels in it where
#: these are rare. By judgement.
ROWS_OF_LOOK_ELSEWHERE, LABELS_OF_LOOK_ELSEWHERE = 1000, 50
#: The same where a score test rejects the form of the models: rows of the part, and starts. By judgement.
ROWS_IN_DOUBT, STARTS_IN_DOUBT = 5000, 6
STEPS_ON_PART, STEPS_ON_ALL_ROWS = 30, 6  # of fits that are only compared
#: A fit warns of another optimum if that is higher by this, in penalised log-likelihood, and its class prior so far
#: away. By judgement.
WARN_HIGHER_BY, WARN_CLASS_PRIOR_GAP = 2.0, 0.02


@dataclass(frozen=True)
class Selection:
    """Which candidates were chosen, and why; prints as the reason.

    Candidates are the optima in ``optima_``, or the rows of ``cv_results_``; all numbers below are places there.

    Attributes
    ----------
    index : int
        The chosen candidate; of several, the best.
    members : tuple of int
        All that were chosen: several where a search takes their mean.
    possible : tuple of int
        What intervals look at: all that labels leave possible.
    n_tied : int
        How many candidates the labels cannot tell from the best.
    class_priors : Interval
        Lowest and highest class prior of the chosen; where one was chosen, of those tied with it.
    reason : str
    behind : tuple of float
        How far each candidate is behind the best: in penalised log-likelihood, or in held-out log-likelihood per row.
    standard_error : tuple of float
        Of that difference.
    """

    index: int
    members: tuple[int, ...]
    possible: tuple[int, ...]
    n_tied: int
    class_priors: Interval
    reason: str
    behind: tuple[float, ...]
    standard_error: tuple[float, ...]

    @property
    def wide(self) -> bool:
        """Whether what the labels cannot tell apart differs in what it says of the population."""
        return self.class_priors.high - self.class_priors.low > WARN_RANGE_OF_CLASS_PRIORS

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Optimum:
    """A local optimum of the penalised likelihood, and the starts that led to it."""

    objective: float  # minus the penalised log-likelihood: lower is better
    log_likelihood: float
    class_prior: float  # mean of f
    mean_propensity: float  # mean of e, over all rows
    label_frequency: float  # mean of e over positives
    starts: tuple[str, ...]
    converged: bool
    swapped: bool = False  # the other way round than the paper's start leads to, where both models see the same
    parameters: Vector = field(
        repr=False, compare=False, kw_only=True
    )  # of the classifier, then of the propensity model

    def same_as(self, other: "Optimum", slack: float = 0.0) -> bool:
        """Whether two fits agree in height and in what they say of the population."""
        return self._as_high(other, slack) and all(
            abs(a - b) <= SAME_MEAN
            for a, b in (
                (self.class_prior, other.class_prior),
                (self.mean_propensity, other.mean_propensity),
                (self.label_frequency, other.label_frequency),
            )
        )

    def _as_high(self, other: "Optimum", slack: float) -> bool:
        return abs(self.objective - other.objective) <= SAME_OBJECTIVE * (1.0 + abs(self.objective)) + slack


class Climb(NamedTuple):
    """A optimum, the fit that found it, and what it says of all rows together."""

    optimum: Optimum
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


def find_optima(
    problem: PairProblem,
    asked: Any,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> list[Climb]:
    """Climb from as many starts as were asked for, or from those; return the distinct optima, best first."""
    if problem.told_by_height:
        return _highest(problem, asked, _Rules(tol, max_iter, progress))
    alone = asks_for_papers_start(asked)
    starts = [the_papers_start(problem)] if alone else make_starts(problem, asked, rng)
    return climb_all(problem, starts, tol=tol, max_iter=max_iter, progress=progress)


def best_fit(problem: PairProblem, options: FitOptions) -> PairFit:
    """Return the fit that a first climb ends at: from the paper's start, or the highest of some."""
    found = find_optima(problem, 1, np.random.default_rng(0), tol=options.tol, max_iter=options.max_iter)
    return found[0].fit


def _highest(problem: PairProblem, asked: Any, rules: "_Rules") -> list[Climb]:
    """Compare rough climbs, on a part of many rows; climb on from the highest; return it, and what comes near it."""
    whole = problem.seen.n_audited > 0 or bool(problem.facts) or problem.engine.n_rows < MIN_ROWS_FOR_PART
    part = problem if whole else problem.part(ROWS_OF_PART)
    if not 0.0 < part.labelled_share < 1.0:
        part = problem
    near = ROUGH_GAIN_WITH_RATES if problem.objective.n_rates else ROUGH_GAIN
    rough = rules._replace(tol=max(near, rules.tol), max_iter=min(100, rules.max_iter))
    asked = asked if isinstance(asked, int | np.integer) else len(asked)
    climbs = _compared(problem, part, asked, rough)
    climbs = [climb for climb in climbs if _finds_positives(part, climb)] or climbs
    # Ends that such climbs cannot tell apart are one optimum: the earlier start is believed.
    lowest = min(climb.optimum.objective for climb in climbs) + near * part.weight
    best = next(climb for climb in climbs if climb.optimum.objective <= lowest)
    curvature = None if part is problem else best.fit.solution.curvature  # leads close by gradients alone
    highest = _climb(problem, Start(best.optimum.starts[0], best.fit.parameters, curvature), rules)
    if part is not problem or not highest.fit.converged:
        return [highest]
    others = [climb for climb in climbs if climb is not best and climb.fit.met]
    if not problem.swappable and see_the_same(problem.f, problem.e):
        image = problem.spread(problem.swapped(highest.fit.parameters))
        others.append(_climb(problem, Start("swapped", image), rough))
    return _distinct([highest, *sorted(others, key=lambda climb: climb.optimum.objective)], slack=near * problem.weight)


def _compared(problem: PairProblem, part: PairProblem, asked: int, rough: "_Rules") -> list[Climb]:
    """Climb on a part from every start; where that has many rows, from where the starts lead to on a few of them."""
    few_rows = max(ROWS_OF_FIRST_PART, math.ceil(LABELS_OF_FIRST_PART / problem.labelled_share))
    few = part if part is problem or few_rows > 0.5 * ROWS_OF_PART else problem.part(few_rows)
    climbs = [_climb(few, start, rough) for start in starts_by_evidence(few, asked)]
    if few is part or not all(climb.fit.converged for climb in climbs):
        return climbs if few is part else [_climb(part, start, rough) for start in starts_by_evidence(part, asked)]
    ends = _distinct(climbs, slack=rough.tol * few.weight)
    starts = [Start(end.optimum.starts[0], end.fit.parameters, end.fit.solution.curvature) for end in ends]
    return [_climb(part, start, rough) for start in starts]


def _finds_positives(problem: PairProblem, climb: Climb) -> bool:
    """Whether looks label positives more often than negatives, which is what the two words mean.

    With rates to be estimated, models with both classes in each other's place may fit as well.
    """
    objective, sums = problem.objective, climb.sums
    own = objective.places[1 + len(objective.models) :]
    rates = [
        (kind, expit(climb.fit.parameters[own[rate].start]))
        for kind, rate in enumerate(objective.rates)
        if rate is not None
    ]
    return all(float(sums.by_look[kind] / sums.positives) > rate for kind, rate in rates)


def climb_all(
    problem: PairProblem, starts: list[Start], *, tol: float, max_iter: int, progress: Progress | None = None
) -> list[Climb]:
    """Climb from every start; return the distinct summits, best first.

    Models that see the same attributes can be swapped, and every summit has a mirror image. Which of the two models
    is the classifier is then decided by the paper's start alone, and never by height:

    - Under one penalty both images are as high. Those that are the other way round than the paper's start leads to are
      turned round, climbed from there, and left out if they turn back.
    - Under two penalties the images differ in height, since a penalty prefers the larger model where it is weak, which
      says nothing of which model is which. Every summit is climbed both ways round and all are returned, so the
      best of them is that of the problem with both penalties swapped too; those of the other way round are marked.

    `progress` is called after each iteration.
    """
    rules = _Rules(tol, max_iter, progress)
    engines, climbs = [problem.engine] * len(starts), list[Climb]()
    if go_in_lockstep(engines):
        climbs = in_lockstep(engines, lambda i, engine: _climb(problem._replace(engine=engine), starts[i], rules))
    else:
        for start in starts:
            climbs.append(_climb(problem, start, rules))
    if problem.swappable:
        climbs = _one_way_round(problem, climbs, rules)
    return sorted(_distinct(climbs), key=lambda climb: climb.optimum.objective)


def choose(problem: PairProblem, climbs: list[Climb]) -> Selection:
    r"""Choose the highest summit, unless others are as high within noise; of these the lowest label frequency.

    Of swappable models only summits of the paper's way round are considered. Where looks, audits or facts tell
    summits apart, the highest is taken.

    Two summits are two models of the same rows, neither inside the other. With the per-row differences
    :math:`d_i` of their log-likelihoods, :math:`\sum_i w_i d_i` has the standard error
    :math:`\sqrt{\sum_i w_i (d_i - \bar d)^2}` (Vuong 1989). Summits whose penalised log-likelihoods differ by no more
    than that are tied.
    """
    optima = [climb.optimum for climb in climbs]
    allowed = [i for i, optimum in enumerate(optima) if not optimum.swapped]
    if len(climbs) == 1:
        return _selection(optima, 0, [0], _only_one(optima[0]), [0.0], [0.0])
    best = allowed[0]
    behind = [optimum.objective - optima[best].objective for optimum in optima]
    errors = _standard_errors(problem, [climb.fit for climb in climbs], best)
    noise = SAME_OBJECTIVE * (1 + abs(optima[best].objective))
    if problem.told_by_height:
        tied = [i for i in allowed if behind[i] <= HARDLY_LOWER]
        return _selection(optima, best, tied, _told_by_height(optima, tied), behind, errors)
    tied = [i for i in allowed if behind[i] <= errors[i] + noise]
    chosen = min(tied, key=lambda i: optima[i].label_frequency)
    reason = _reason(optima, chosen, tied, behind, errors) if len(allowed) > 1 else _only_one(optima[best])
    return _selection(optima, chosen, tied, reason + _other_way(optima, allowed), behind, errors)


def _selection(
    optima: list[Optimum], chosen: int, tied: list[int], reason: str, behind: list[float], errors: list[float]
) -> Selection:
    priors = [optima[i].class_prior for i in tied]
    spread = Interval(min(priors), max(priors))
    return Selection(chosen, (chosen,), tuple(tied), len(tied), spread, reason, tuple(behind), tuple(errors))


def _told_by_height(optima: list[Optimum], tied: list[int]) -> str:
    if len(tied) == 1:
        return f"{len(optima)} optima. The highest is taken: what was observed tells it from the rest."
    return (
        f"{len(optima)} optima, of which {len(tied)} are within {HARDLY_LOWER:g} of the highest in penalised "
        "log-likelihood; the highest is taken."
    )


def warn_if_swappable(
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
            f"swapped {unchanged}. The way round that the "
            "paper's start leads to is kept: its classifier begins as labelled against unlabelled. Name in "
            "propensity_attributes only what drives the labelling, or leave some of it out of "
            "classification_attributes.",
            UserWarning,
        )


def _climb(problem: PairProblem, start: Start, rules: _Rules) -> Climb:
    total = problem.weight
    options = FitOptions(rules.tol, rules.max_iter, progress=rules.reporter(start.name, total))
    fit = fit_pair(problem, start.parameters, options, curvature=start.curvature)
    sums = problem.sums(fit.parameters)
    optimum = Optimum(
        objective=fit.solution.value,
        log_likelihood=float(sums.log_likelihood),
        class_prior=float(sums.positives) / total,
        mean_propensity=float(sums.propensities) / total,
        label_frequency=float(sums.labelled_positives) / float(sums.positives),
        starts=(start.name,),
        converged=fit.converged,
        parameters=fit.parameters,
    )
    return Climb(optimum, fit, sums)


def _one_way_round(problem: PairProblem, climbs: list[Climb], rules: _Rules) -> list[Climb]:
    """Return the summits the way round of the paper's, and under two penalties the others too, marked."""
    by_paper = next((climb for climb in climbs if climb.optimum.starts == ("paper",)), None)
    if by_paper is None:
        by_paper = _climb(problem, the_papers_start(problem), rules)

    def wrong(climb: Climb) -> bool:
        return _is_swapped(problem, climb.fit, by_paper.fit)

    if problem.propensity_C == problem.C:
        right = [climb for climb in climbs if not wrong(climb)]
        turned = [_turned(problem, climb, rules) for climb in climbs if wrong(climb)]
        return right + [climb for climb in turned if not wrong(climb)] or [by_paper]
    climbs = climbs + [_turned(problem, climb, rules) for climb in climbs]
    marked = [climb._replace(optimum=replace(climb.optimum, swapped=wrong(climb))) for climb in climbs]
    return marked if any(not climb.optimum.swapped for climb in marked) else [*marked, by_paper]


def _turned(problem: PairProblem, climb: Climb, rules: _Rules) -> Climb:
    """Climb again from a summit with both models swapped."""
    (name,) = climb.optimum.starts
    start = swapped_start(problem, Start(name, climb.fit.solution.parameters))
    return _climb(problem, start._replace(name=name), rules)


def _is_swapped(problem: PairProblem, fit: PairFit, other: PairFit) -> bool:
    """Whether a fit is closer to another with its models swapped: by their probabilities for the rows."""
    as_it_is, turned = problem.engine.total(_block_distances, problem.f, problem.e, (fit.f, fit.e), (other.f, other.e))
    return bool(turned < as_it_is)


def _block_distances(X: Any, rows: Any, f: Design, e: Design, pair: Any, other: Any) -> tuple[Any, Any]:
    """Return how far two pairs' probabilities are apart, as they are and with those of one swapped."""
    (p_f, p_e), (q_f, q_e) = (
        [sigmoid(logits(*at)) for at in zip((f.take(X), e.take(X)), each, strict=True)] for each in (pair, other)
    )
    w = rows["w"]
    return w @ ((p_f - q_f) ** 2 + (p_e - q_e) ** 2), w @ ((p_e - q_f) ** 2 + (p_f - q_e) ** 2)


def _distinct(climbs: list[Climb], slack: float = 0.0) -> list[Climb]:
    """Return one climb to each summit, with the names of all starts that led there; heights may differ by `slack`."""
    found: list[Climb] = []
    for climb in climbs:
        known = next((i for i, other in enumerate(found) if climb.optimum.same_as(other.optimum, slack)), None)
        if known is None:
            found.append(climb)
        else:
            optimum = found[known].optimum
            starts = tuple(dict.fromkeys((*optimum.starts, *climb.optimum.starts)))
            found[known] = found[known]._replace(optimum=replace(optimum, starts=starts))
    return found


def _standard_errors(problem: PairProblem, fits: list[PairFit], best: int) -> list[float]:
    """Return the standard error of each fit's log-likelihood minus the best one's, paired over rows: sums in two
    passes, the second around the mean.
    """
    place = (problem.objective, [fit.parameters for fit in fits], best)
    (total,) = problem.engine.total(_block_differences, *place)
    (squares,) = problem.engine.total(_block_squared_differences, *place, total / problem.weight)
    return [float(each) for each in np.sqrt(squares)]


def _block_differences(X: Any, rows: Any, objective: PairObjective, points: list[Vector], best: int) -> tuple[Vector]:
    return (rows["w"] @ _differences(X, rows, objective, points, best),)


def _block_squared_differences(
    X: Any, rows: Any, objective: PairObjective, points: list[Vector], best: int, mean: Vector
) -> tuple[Vector]:
    differences = _differences(X, rows, objective, points, best)
    return (rows["w"] @ (differences - like(differences, mean)) ** 2,)


def _differences(X: Any, rows: Any, objective: PairObjective, points: list[Vector], best: int) -> Matrix:
    values = [objective.row_log_likelihood(X, rows, beta) for beta in points]
    return namespace_of(values[0]).stack([values[best] - value for value in values], axis=1)


def _only_one(optimum: Optimum) -> str:
    if len(optimum.starts) == 1:
        return f"One start ({optimum.starts[0]}), so nothing to choose from; n_starts=5 looks for other optima."
    return f"All {len(optimum.starts)} starts led to the same optimum; that there is no other is not shown by that."


def _other_way(optima: list[Optimum], allowed: list[int]) -> str:
    """Say that a higher summit was passed over because its models are the other way round."""
    ahead = optima[allowed[0]].objective - optima[0].objective
    if allowed[0] == 0:
        return ""
    return (
        f" With classifier and propensity model swapped there is an optimum whose penalised log-likelihood is higher "
        f"by {ahead:.2f}, by the penalties; the way round that the paper's start leads to is kept."
    )


def _reason(optima: list[Optimum], chosen: int, tied: list[int], behind: list[float], errors: list[float]) -> str:
    told = f"{sum(not optimum.swapped for optimum in optima)} optima. "
    if len(tied) == 1:
        return told + "The best penalised likelihood is ahead of the rest by more than the difference's standard error."
    if chosen == tied[0]:
        return told + (
            f"{len(tied)} cannot be told apart by the labels; the one with the best penalised likelihood also has the "
            f"lowest label frequency ({optima[tied[0]].label_frequency:.2f})."
        )
    return told + (
        f"This one's penalised log-likelihood is behind the best by {behind[chosen]:.2f}, within its standard error of "
        f"{errors[chosen]:.2f}: the labels cannot tell them apart. It has the lowest label frequency "
        f"({optima[chosen].label_frequency:.2f}; the best has {optima[tied[0]].label_frequency:.2f}), which puts as "
        "many missing labels as possible down to the labelling."
    )


def seen_higher(problem: PairProblem, found: Optimum, *, thoroughly: bool = False) -> Optimum | None:
    """Return what another start leads to where that is clearly higher than what was found from the paper's; else None.

    The look begins where all rows are positive, so that the labelling alone explains the labels: of all starts but
    scouted ones, only this led to a clearly higher optimum in each of the 15 random problems of 257 that had one. Where
    there is reason to doubt what was found, look `thoroughly`: from five starts, on more rows.

    Looks at a part of the rows first; what seems to be another optimum there, and not a worse one, is climbed on from
    for a few steps on all rows. It is told only if a fit from several starts would have taken it (see `choose`).
    Models wider than a matrix are not looked at, nor is a climb that did not end.
    """
    rows = ROWS_IN_DOUBT if thoroughly else ROWS_OF_LOOK_ELSEWHERE
    part = problem.part(max(rows, int(LABELS_OF_LOOK_ELSEWHERE / problem.labelled_share)))
    if problem.n_parameters > WIDEST_MATRIX or not found.converged or not 0.0 < part.labelled_share < 1.0:
        return None
    paper = Start(PAPER, found.parameters)
    with BLAS.on_one_thread():  # once for all: setting it takes as long as a pass over so few rows
        others = [all_positive_start(part)]
        if thoroughly:
            others = make_starts(part, STARTS_IN_DOUBT, np.random.default_rng(0))[1:]
        climbs = climb_all(part, [paper, *others], tol=ROUGH_GAIN, max_iter=STEPS_ON_PART)
    times = problem.engine.n_rows / part.engine.n_rows
    if times > 1.0:
        rival = _rival(part, climbs, times)
        if rival is None:
            return None
        climbs = climb_all(problem, [paper, rival], tol=ROUGH_GAIN, max_iter=STEPS_ON_ALL_ROWS)
    taken = climbs[choose(problem, climbs).index].optimum
    return taken if taken.objective < found.objective - WARN_HIGHER_BY and _are_apart(taken, found) else None


def _rival(part: PairProblem, climbs: list[Climb], times: float) -> Start | None:
    """Return where to climb on from with all rows: another optimum that may be the better one there.

    Each row of the part stands for `times` rows, so sums over it are less sure than the standard error of
    as many single rows.
    """
    own = next((climb.optimum for climb in climbs if PAPER in climb.optimum.starts), None)
    selection = choose(part, climbs)
    for i, climb in enumerate(climbs):
        other = climb.optimum
        if other.swapped or other is own or (own is not None and not _are_apart(other, own)):
            continue
        if selection.behind[i] <= np.sqrt(times) * selection.standard_error[i]:
            return Start(other.starts[0], other.parameters)
    return None


def _are_apart(optimum: Optimum, other: Optimum) -> bool:
    return abs(optimum.class_prior - other.class_prior) > WARN_CLASS_PRIOR_GAP


def message_about_optima(higher: Optimum, own: Optimum) -> str:
    """Say what was seen, and what to do."""
    farther = "" if higher.converged else ", and on from there"
    return (
        f"the paper's start led to a local optimum, with a penalised log-likelihood of {-own.objective:.2f} and a "
        f"class prior of {own.class_prior:.3f}. Another start ({higher.starts[0]}) leads higher: to "
        f"{-higher.objective:.2f} and {higher.class_prior:.3f}{farther}. Use n_starts=5 (or SAREMClassifierCV) to look "
        "for the highest."
    )


def warn_about_higher(higher: Optimum, own: Optimum, name: str) -> None:
    """Warn that the fit that was asked for is not the best one."""
    warn_user(f"{name}: {message_about_optima(higher, own)} This fit is still that of the paper's start.", UserWarning)
