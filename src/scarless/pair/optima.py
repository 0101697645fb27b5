"""Optimisation from several starts, and the choice among the optima that it finds.

Optima are tied if their penalised likelihoods differ from the highest by no more than noise. Of the tied optima, the
one with the lowest label frequency is chosen, as in the paper: it explains missing labels by the labelling rather than
by the class. With looks, audits or constraints, the optimum with the highest penalised likelihood is chosen.
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
from scarless.numerics.newton import MAX_MATRIX_PARAMETERS, Trace
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import Interval, PairSums
from scarless.outside.notices import warn_user
from scarless.pair.fit import ROUGH_GAIN, FitOptions, PairFit, fit_pair
from scarless.pair.problem import PairProblem, same_columns
from scarless.pair.starts import (
    MAX_PARAMETERS_OF_TRIAL_FIT,
    PAPER,
    Start,
    all_positive_start,
    is_paper_start_alone,
    make_paper_start,
    make_starts,
    starts_for_extra_information,
    swapped_start,
)

#: A fit warns if the class priors of tied optima or candidates differ by more than this number. By judgement.
WARN_RANGE_OF_CLASS_PRIORS = 0.25
#: Two fits are the same optimum if their objectives differ by at most the first number (relative), and if class prior,
#: mean propensity and label frequency each differ by at most the second number. By judgement.
SAME_OBJECTIVE, SAME_MEAN = 1e-6, 1e-3
ROUGH_GAIN_WITH_RATES = 1e-7  # tolerance per row if false positive rates are estimated: such likelihoods are flat
#: Fits with extra information compare their starts on a part of the rows if the table has at least the first number of
#: rows. The second number is the number of rows in the part. By judgement.
MIN_ROWS_FOR_PART, ROWS_OF_PART = 40_000, 10_000
#: The starts are optimised on a still smaller part first. It has at least these numbers of rows and of labels. By
#: judgement.
ROWS_OF_FIRST_PART, LABELS_OF_FIRST_PART = 2_500, 500
#: An optimum is possible if its penalised log-likelihood is below the highest by at most this number: a likelihood
#: ratio of 7. By judgement.
MAX_GAP_OF_POSSIBLE_OPTIMUM = 2.0
#: The paper's start is compared with another start on a part of the rows. The part has at least these numbers of rows
#: and of labels. By judgement.
ROWS_OF_OTHER_START, LABELS_OF_OTHER_START = 1000, 50
#: Smallest number of rows of that part, and number of starts, if a score test rejects the form of the models. By
#: judgement.
ROWS_IF_FORM_REJECTED, STARTS_IF_FORM_REJECTED = 5000, 6
STEPS_ON_PART, STEPS_ON_ALL_ROWS = 30, 6  # largest numbers of iterations of fits that are only compared
#: A fit warns about another optimum if the penalised log-likelihood of that optimum is higher by more than the first
#: number, and if its class prior differs by more than the second. By judgement.
WARN_HIGHER_BY, WARN_CLASS_PRIOR_GAP = 2.0, 0.02


@dataclass(frozen=True)
class Selection:
    """The chosen candidates and the reason for the choice. ``print`` shows the reason.

    The candidates are the optima in ``optima_`` or the rows of ``cv_results_``, and all indices refer to this list.

    Attributes
    ----------
    index : int
        Index of the chosen candidate. If several were chosen, this is the best of them.
    members : tuple of int
        Indices of all chosen candidates. A search may choose several candidates and average them.
    possible : tuple of int
        Indices of all candidates that the labels do not rule out. Intervals use all of these candidates.
    n_tied : int
        Number of candidates that differ from the best by no more than noise.
    class_priors : Interval
        Lowest and highest class prior of the chosen candidates or, if one was chosen, of all tied candidates.
    reason : str
        Explanation of the choice.
    behind : tuple of float
        Gap of each candidate to the best: in penalised log-likelihood for optima, in held-out log-likelihood per row
        for candidates of a search.
    standard_error : tuple of float
        Standard error of each gap.
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
        """Whether tied candidates have very different class priors."""
        return self.class_priors.high - self.class_priors.low > WARN_RANGE_OF_CLASS_PRIORS

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Optimum:
    """A local optimum of the penalised likelihood, and the names of the starts that led to it."""

    objective: float  # minus the penalised log-likelihood: lower is better
    log_likelihood: float
    class_prior: float  # mean of f
    mean_propensity: float  # mean of e over all rows
    label_frequency: float  # share of positives with a label
    starts: tuple[str, ...]
    converged: bool
    swapped: bool = False  # whether the models are swapped relative to the optimum of the paper's start
    # Parameters of the classifier, then of the propensity model.
    parameters: Vector = field(repr=False, compare=False, kw_only=True)

    def same_as(self, other: "Optimum", slack: float = 0.0) -> bool:
        """Whether two fits are the same optimum; their objectives may differ by an additional `slack`."""
        return self._same_objective(other, slack) and all(
            abs(a - b) <= SAME_MEAN
            for a, b in (
                (self.class_prior, other.class_prior),
                (self.mean_propensity, other.mean_propensity),
                (self.label_frequency, other.label_frequency),
            )
        )

    def _same_objective(self, other: "Optimum", slack: float) -> bool:
        return abs(self.objective - other.objective) <= SAME_OBJECTIVE * (1.0 + abs(self.objective)) + slack


class OptimumFit(NamedTuple):
    """An optimum, the fit that found it, and its sums over all rows."""

    optimum: Optimum
    fit: PairFit
    sums: PairSums


class IterationReport(NamedTuple):
    """One iteration of an optimisation, for progress reports."""

    start: str  # name of the start
    number: int
    objective: float  # per unit of row weight
    gain: float  # predicted gain of the step, per unit of row weight
    share: float  # length of the step relative to the full Newton step; 0 at the end


Progress = Callable[[IterationReport], None]


def reporter(progress: Progress | None, name: str, total: float) -> Callable[[Trace], None] | None:
    """Return the function that a solver calls after each iteration; None if `progress` is None.

    `total` is the weight of all rows.
    """
    if progress is None:
        return None
    numbers = count(1)
    return lambda at: progress(IterationReport(name, next(numbers), at.value / total, at.gain / total, at.step))


class _OptimiserOptions(NamedTuple):
    """Stopping rule and progress callback of an optimisation."""

    tol: float
    max_iter: int
    progress: Progress | None

    def reporter(self, name: str, total: float) -> Callable[[Trace], None] | None:
        """Return the function that a solver calls after each iteration."""
        return reporter(self.progress, name, total)


def find_optima(
    problem: PairProblem,
    n_starts: Any,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> list[OptimumFit]:
    """Optimise from several starts and return the distinct optima, best first.

    `n_starts` is a number of starts or a list of starts.
    """
    if problem.has_extra_information:
        return _fit_highest(problem, n_starts, _OptimiserOptions(tol, max_iter, progress))
    alone = is_paper_start_alone(n_starts)
    starts = [make_paper_start(problem)] if alone else make_starts(problem, n_starts, rng)
    return fit_from_starts(problem, starts, tol=tol, max_iter=max_iter, progress=progress)


def best_fit(problem: PairProblem, options: FitOptions) -> PairFit:
    """Return the fit from the paper's start or, with extra information, the highest optimum from several starts."""
    found = find_optima(problem, 1, np.random.default_rng(0), tol=options.tol, max_iter=options.max_iter)
    return found[0].fit


def _fit_highest(problem: PairProblem, n_starts: Any, options: "_OptimiserOptions") -> list[OptimumFit]:
    """Optimise roughly from several starts; then exactly, starting at the highest rough optimum.

    For large tables, the rough fits use only a part of the rows, and only the exact optimum is returned. Otherwise the
    exact optimum comes first, then the other rough optima.
    """
    whole = problem.observations.n_audited > 0 or bool(problem.constraints) or problem.engine.n_rows < MIN_ROWS_FOR_PART
    part = problem if whole else problem.part(ROWS_OF_PART)
    if not 0.0 < part.labelled_share < 1.0:
        part = problem
    near = ROUGH_GAIN_WITH_RATES if problem.objective.n_rates else ROUGH_GAIN
    rough = options._replace(tol=max(near, options.tol), max_iter=min(100, options.max_iter))
    number = int(n_starts) if isinstance(n_starts, int | np.integer) else len(n_starts)
    candidates = _rough_fits(problem, part, number, rough)
    candidates = [candidate for candidate in candidates if _positives_are_labelled_more(part, candidate)] or candidates
    # Rough fits whose objectives differ by less than the tolerance count as one optimum: that of the earlier start.
    lowest = min(candidate.optimum.objective for candidate in candidates) + near * part.weight
    best = next(candidate for candidate in candidates if candidate.optimum.objective <= lowest)
    # If the solver knows the Hessian of the part, its first steps on all rows need only gradients.
    curvature = None if part is problem else best.fit.solution.curvature
    highest = _fit_start(problem, Start(best.optimum.starts[0], best.fit.parameters, curvature), options)
    if part is not problem or not highest.fit.converged:
        return [highest]
    others = [candidate for candidate in candidates if candidate is not best and candidate.fit.constraints_met]
    if not problem.swappable and same_columns(problem.f, problem.e):
        image = problem.to_all_looks(problem.swapped(highest.fit.parameters))
        others.append(_fit_start(problem, Start("swapped", image), rough))
    others.sort(key=lambda candidate: candidate.optimum.objective)
    return _distinct([highest, *others], slack=near * problem.weight)


def _rough_fits(problem: PairProblem, part: PairProblem, n_starts: int, rough: "_OptimiserOptions") -> list[OptimumFit]:
    """Optimise roughly on `part` from every start; for large tables, start on even fewer rows."""
    few_rows = max(ROWS_OF_FIRST_PART, math.ceil(LABELS_OF_FIRST_PART / problem.labelled_share))
    few = part if part is problem or few_rows > 0.5 * ROWS_OF_PART else problem.part(few_rows)
    candidates = [_fit_start(few, start, rough) for start in starts_for_extra_information(few, n_starts)]
    if few is part or not all(candidate.fit.converged for candidate in candidates):
        if few is part:
            return candidates
        return [_fit_start(part, start, rough) for start in starts_for_extra_information(part, n_starts)]
    ends = _distinct(candidates, slack=rough.tol * few.weight)
    starts = [Start(end.optimum.starts[0], end.fit.parameters, end.fit.solution.curvature) for end in ends]
    return [_fit_start(part, start, rough) for start in starts]


def _positives_are_labelled_more(problem: PairProblem, candidate: OptimumFit) -> bool:
    """Whether looks label positives more often than negatives.

    If false positive rates are estimated, another fit, which interchanges positives and negatives, may have the same
    likelihood.
    """
    objective, sums = problem.objective, candidate.sums
    places = objective.places[1 + len(objective.models) :]
    rates = [
        (kind, expit(candidate.fit.parameters[places[rate].start]))
        for kind, rate in enumerate(objective.rates)
        if rate is not None
    ]
    return all(float(sums.by_look[kind] / sums.positives) > rate for kind, rate in rates)


def fit_from_starts(
    problem: PairProblem, starts: list[Start], *, tol: float, max_iter: int, progress: Progress | None = None
) -> list[OptimumFit]:
    """Optimise from every start; return the distinct optima, best first.

    Two models with the same attributes can be swapped, so every optimum has a mirror image. Only the paper's start
    decides which of the two models is the classifier. The likelihood does not:

    - With equal penalties, an optimum and its mirror image have the same likelihood. Optima that are swapped relative
      to the optimum of the paper's start are swapped back and optimised again. They are left out if the optimisation
      swaps them once more.
    - With different penalties, an optimum and its mirror image differ: the model with the weaker penalty has larger
      coefficients. That does not show which model is the classifier. Both are optimised and returned, and swapped
      optima are marked.

    `progress` is called after each iteration.
    """
    options = _OptimiserOptions(tol, max_iter, progress)
    engines, candidates = [problem.engine] * len(starts), list[OptimumFit]()
    if go_in_lockstep(engines):
        candidates = in_lockstep(
            engines, lambda i, engine: _fit_start(problem._replace(engine=engine), starts[i], options)
        )
    else:
        for start in starts:
            candidates.append(_fit_start(problem, start, options))
    if problem.swappable:
        candidates = _orient_by_paper(problem, candidates, options)
    return sorted(_distinct(candidates), key=lambda candidate: candidate.optimum.objective)


def choose(problem: PairProblem, candidates: list[OptimumFit]) -> Selection:
    r"""Choose an optimum: of those tied with the highest optimum, the one with the lowest label frequency.

    Swapped optima are never chosen. With looks, audits or constraints, the highest optimum is chosen.

    Two optima are two non-nested models of the same rows. Let :math:`d_i` be the difference of their log-likelihoods in
    row `i`. The standard error of :math:`\sum_i w_i d_i` is :math:`\sqrt{\sum_i w_i (d_i - \bar d)^2}` (Vuong 1989).
    An optimum is tied with the highest optimum if their penalised log-likelihoods differ by at most this standard
    error.
    """
    optima = [candidate.optimum for candidate in candidates]
    allowed = [i for i, optimum in enumerate(optima) if not optimum.swapped]
    if len(candidates) == 1:
        return _selection(optima, 0, [0], _reason_for_only_optimum(problem, optima[0]), [0.0], [0.0])
    best = allowed[0]
    behind = [optimum.objective - optima[best].objective for optimum in optima]
    errors = _standard_errors(problem, [candidate.fit for candidate in candidates], best)
    noise = SAME_OBJECTIVE * (1 + abs(optima[best].objective))
    if problem.has_extra_information:
        tied = [i for i in allowed if behind[i] <= MAX_GAP_OF_POSSIBLE_OPTIMUM]
        return _selection(optima, best, tied, _reason_by_likelihood(optima, tied), behind, errors)
    tied = [i for i in allowed if behind[i] <= errors[i] + noise]
    chosen = min(tied, key=lambda i: optima[i].label_frequency)
    reason = (
        _reason(optima, chosen, tied, behind, errors)
        if len(allowed) > 1
        else _reason_for_only_optimum(problem, optima[best])
    )
    return _selection(optima, chosen, tied, reason + _note_on_swapped(optima, allowed), behind, errors)


def _selection(
    optima: list[Optimum], chosen: int, tied: list[int], reason: str, behind: list[float], errors: list[float]
) -> Selection:
    priors = [optima[i].class_prior for i in tied]
    spread = Interval(min(priors), max(priors))
    return Selection(chosen, (chosen,), tuple(tied), len(tied), spread, reason, tuple(behind), tuple(errors))


def _reason_by_likelihood(optima: list[Optimum], tied: list[int]) -> str:
    if len(tied) == 1:
        return (
            f"{len(optima)} optima were found. The highest was chosen: its penalised log-likelihood exceeds that of "
            f"the others by more than {MAX_GAP_OF_POSSIBLE_OPTIMUM:g}."
        )
    return (
        f"{len(optima)} optima were found. The highest was chosen, although the penalised log-likelihoods of "
        f"{len(tied)} optima differ by at most {MAX_GAP_OF_POSSIBLE_OPTIMUM:g}."
    )


def warn_if_swappable(
    f: Design,
    e: Design,
    name: str,
    *,
    penalties: tuple[float, float] | None = None,
) -> None:
    """Warn if the labels cannot show which of the two models is the classifier; `penalties` are C and propensity_C."""
    if same_columns(f, e):
        attributes = "the same attribute" if f.n_columns == 1 else f"the same {f.n_columns} attributes"
        unchanged = "without changing the fit"
        if penalties is not None and penalties[0] != penalties[1]:
            unchanged = (
                "without changing the likelihood. The penalties differ "
                f"(C={penalties[0]:g}, propensity_C={penalties[1]:g}), but do not show which model is the classifier"
            )
        warn_user(
            f"{name}: the classifier and the propensity model use {attributes}, so the two models can be swapped "
            f"{unchanged}. Only the start of the fit, with a classifier that separates labelled from unlabelled rows, "
            "decides which model is the classifier. In propensity_attributes, name only attributes that affect the "
            "labelling, or leave some attributes out of classification_attributes.",
            UserWarning,
        )


def _fit_start(problem: PairProblem, start: Start, options: _OptimiserOptions) -> OptimumFit:
    total = problem.weight
    fit_options = FitOptions(options.tol, options.max_iter, progress=options.reporter(start.name, total))
    fit = fit_pair(problem, start.parameters, fit_options, curvature=start.curvature)
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
    return OptimumFit(optimum, fit, sums)


def _orient_by_paper(
    problem: PairProblem, candidates: list[OptimumFit], options: _OptimiserOptions
) -> list[OptimumFit]:
    """Return the optima that are not swapped relative to the optimum of the paper's start; see `fit_from_starts`.

    With different penalties, swapped optima are also returned, and are marked as swapped.
    """
    by_paper = next((candidate for candidate in candidates if candidate.optimum.starts == ("paper",)), None)
    if by_paper is None:
        by_paper = _fit_start(problem, make_paper_start(problem), options)

    def wrong(candidate: OptimumFit) -> bool:
        return _is_swapped(problem, candidate.fit, by_paper.fit)

    if problem.propensity_C == problem.C:
        right = [candidate for candidate in candidates if not wrong(candidate)]
        turned = [_fit_swapped(problem, candidate, options) for candidate in candidates if wrong(candidate)]
        return right + [candidate for candidate in turned if not wrong(candidate)] or [by_paper]
    candidates = candidates + [_fit_swapped(problem, candidate, options) for candidate in candidates]
    marked = [
        candidate._replace(optimum=replace(candidate.optimum, swapped=wrong(candidate))) for candidate in candidates
    ]
    return marked if any(not candidate.optimum.swapped for candidate in marked) else [*marked, by_paper]


def _fit_swapped(problem: PairProblem, candidate: OptimumFit, options: _OptimiserOptions) -> OptimumFit:
    """Swap the two models of an optimum, and optimise again from there."""
    (name,) = candidate.optimum.starts
    start = swapped_start(problem, Start(name, candidate.fit.solution.parameters))
    return _fit_start(problem, start._replace(name=name), options)


def _is_swapped(problem: PairProblem, fit: PairFit, other: PairFit) -> bool:
    """Whether swapping the models of `fit` would bring its probabilities closer to the probabilities of `other`."""
    unchanged, swapped = problem.engine.total(
        _block_distances, problem.f, problem.e, (fit.f, fit.e), (other.f, other.e)
    )
    return bool(swapped < unchanged)


def _block_distances(X: Any, rows: Any, f: Design, e: Design, pair: Any, other: Any) -> tuple[Any, Any]:
    """Return the squared distance between the probabilities of two pairs, as they are and with one pair swapped."""
    (p_f, p_e), (q_f, q_e) = (
        [sigmoid(logits(*at)) for at in zip((f.take(X), e.take(X)), each, strict=True)] for each in (pair, other)
    )
    w = rows["w"]
    return w @ ((p_f - q_f) ** 2 + (p_e - q_e) ** 2), w @ ((p_e - q_f) ** 2 + (p_f - q_e) ** 2)


def _distinct(candidates: list[OptimumFit], slack: float = 0.0) -> list[OptimumFit]:
    """Return each optimum once, with the names of all starts that led to it.

    The objectives of two fits to the same optimum may differ by `slack`.
    """
    found: list[OptimumFit] = []
    for candidate in candidates:
        known = next((i for i, other in enumerate(found) if candidate.optimum.same_as(other.optimum, slack)), None)
        if known is None:
            found.append(candidate)
        else:
            optimum = found[known].optimum
            starts = tuple(dict.fromkeys((*optimum.starts, *candidate.optimum.starts)))
            found[known] = found[known]._replace(optimum=replace(optimum, starts=starts))
    return found


def _standard_errors(problem: PairProblem, fits: list[PairFit], best: int) -> list[float]:
    """Return the standard error of the log-likelihood difference between each fit and the best, paired over rows."""
    place = (problem.objective, [fit.parameters for fit in fits], best)
    # Two passes: squared distances from the mean are more precise than a difference of two large sums.
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


def _reason_for_only_optimum(problem: PairProblem, optimum: Optimum) -> str:
    name = optimum.starts[0]
    if len(optimum.starts) == 1 and not problem.has_extra_information:
        return f"Only one start ({name}) was used. SAREMClassifier with n_starts=5 searches for other optima."
    if len(optimum.starts) == 1 and problem.swappable:
        return f"Only one start ({name}) was used, because both models use the same attributes and could be swapped."
    if len(optimum.starts) == 1:
        return f"Rough fits from several starts were compared. The fit to all rows began at the best of them ({name})."
    return f"All {len(optimum.starts)} starts led to the same optimum. Other optima may still exist."


def _note_on_swapped(optima: list[Optimum], allowed: list[int]) -> str:
    """Return a note if the highest optimum was not chosen because its models are swapped."""
    ahead = optima[allowed[0]].objective - optima[0].objective
    if allowed[0] == 0:
        return ""
    return (
        f" An optimum in which the two models are swapped has a penalised log-likelihood that is {ahead:.2f} higher, "
        "because the penalties of the two models differ. It was not chosen, because the paper's start decides which "
        "model is the classifier."
    )


def _reason(optima: list[Optimum], chosen: int, tied: list[int], behind: list[float], errors: list[float]) -> str:
    number = f"{sum(not optimum.swapped for optimum in optima)} optima were found. "
    if len(tied) == 1:
        return number + (
            "The highest was chosen: its penalised log-likelihood exceeds that of the others by more than the standard "
            "error of the difference."
        )
    if chosen == tied[0]:
        return number + (
            f"The labels cannot distinguish {len(tied)} of these optima. The chosen optimum has the highest penalised "
            f"likelihood and the lowest label frequency ({optima[tied[0]].label_frequency:.2f})."
        )
    return number + (
        f"The penalised log-likelihood of the chosen optimum is {behind[chosen]:.2f} lower than that of the highest "
        f"optimum. The labels cannot distinguish the two, because the standard error of this difference is "
        f"{errors[chosen]:.2f}. Of {len(tied)} tied optima, the one with the lowest label frequency was chosen "
        f"({optima[chosen].label_frequency:.2f}; the highest optimum has {optima[tied[0]].label_frequency:.2f})."
    )


def find_higher_optimum(problem: PairProblem, found: Optimum, *, thoroughly: bool = False) -> Optimum | None:
    """Return an optimum that is clearly higher than the optimum of the paper's start; None if none was found.

    The search begins at the start "all positive", in which the propensity model alone explains the labels. Of 257
    random problems, 15 had a clearly higher optimum. Apart from trial fits, only this start found the higher optimum in
    all 15 problems. With `thoroughly`, the search uses five starts and more rows. There is no thorough search for
    models of more than 300 parameters, because it takes several times as long as the fit: with 602 columns, 38 seconds
    after a fit of 16.

    The search optimises on a part of the rows first. If this finds another optimum that is not clearly worse, a few
    iterations on all rows follow. A device that processes all rows as fast as a few rows needs no such part. The
    optimum is returned only if a fit from several starts would have chosen it (see `choose`). There is no search, and
    the result is None, if the given optimum did not converge or if the models have more than `MAX_MATRIX_PARAMETERS`
    parameters.
    """
    if thoroughly and problem.n_parameters > MAX_PARAMETERS_OF_TRIAL_FIT:
        return None
    rows = ROWS_IF_FORM_REJECTED if thoroughly else ROWS_OF_OTHER_START
    whole = problem.engine.n_rows <= getattr(problem.engine, "flat_rows", 0)
    part = problem if whole else problem.part(max(rows, int(LABELS_OF_OTHER_START / problem.labelled_share)))
    if problem.n_parameters > MAX_MATRIX_PARAMETERS or not found.converged or not 0.0 < part.labelled_share < 1.0:
        return None
    if whole and not thoroughly and not problem.swappable:  # In most fits, one look at all rows is enough.
        rough = _OptimiserOptions(ROUGH_GAIN, STEPS_ON_PART, None)
        alone = _fit_start(problem, all_positive_start(problem), rough).optimum
        if alone.objective >= found.objective - WARN_HIGHER_BY or not _differ_in_class_prior(alone, found):
            return None
    paper = Start(PAPER, found.parameters)
    with BLAS.on_one_thread():  # set once for all fits, because setting it takes as long as a pass over these few rows
        others = [all_positive_start(part)]
        if thoroughly:
            others = make_starts(part, STARTS_IF_FORM_REJECTED, np.random.default_rng(0))[1:]
        candidates = fit_from_starts(part, [paper, *others], tol=ROUGH_GAIN, max_iter=STEPS_ON_PART)
    times = problem.engine.n_rows / part.engine.n_rows
    if times > 1.0:
        other = _start_on_all_rows(part, candidates, times)
        if other is None:
            return None
        candidates = fit_from_starts(problem, [paper, other], tol=ROUGH_GAIN, max_iter=STEPS_ON_ALL_ROWS)
    best = candidates[choose(problem, candidates).index].optimum
    is_higher = best.objective < found.objective - WARN_HIGHER_BY
    return best if is_higher and _differ_in_class_prior(best, found) else None


def _start_on_all_rows(part: PairProblem, candidates: list[OptimumFit], times: float) -> Start | None:
    """Return another optimum of the part as a start for all rows, if it may be higher on all rows; None otherwise.

    Each row of the part represents `times` rows of the table. Standard errors of sums over the part are therefore
    multiplied by the square root of `times`.
    """
    by_paper = next((candidate.optimum for candidate in candidates if PAPER in candidate.optimum.starts), None)
    selection = choose(part, candidates)
    for i, candidate in enumerate(candidates):
        other = candidate.optimum
        same = other is by_paper or (by_paper is not None and not _differ_in_class_prior(other, by_paper))
        if other.swapped or same:
            continue
        if selection.behind[i] <= np.sqrt(times) * selection.standard_error[i]:
            return Start(other.starts[0], other.parameters)
    return None


def _differ_in_class_prior(optimum: Optimum, other: Optimum) -> bool:
    return abs(optimum.class_prior - other.class_prior) > WARN_CLASS_PRIOR_GAP


def describe_higher_optimum(higher: Optimum, own: Optimum) -> str:
    """Return a message about the higher optimum, and what to do."""
    at_least = "" if higher.converged else "at least "
    return (
        f"the paper's start led to a local optimum with a penalised log-likelihood of {-own.objective:.2f} and a "
        f"class prior of {own.class_prior:.3f}. Another start ({higher.starts[0]}) leads to a higher optimum: its "
        f"penalised log-likelihood is {at_least}{-higher.objective:.2f}, and its class prior "
        f"{higher.class_prior:.3f}. Use SAREMClassifier with n_starts=5, or SAREMClassifierCV, to search for the "
        "highest optimum."
    )


def warn_about_higher_optimum(higher: Optimum, own: Optimum, name: str) -> None:
    """Warn that another start leads to a higher optimum."""
    warn_user(f"{name}: {describe_higher_optimum(higher, own)} This fit uses the paper's start.", UserWarning)
