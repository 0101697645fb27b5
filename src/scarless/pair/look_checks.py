"""Whether looks and audits are as the models have them: cheap questions that every fit asks itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from itertools import combinations
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from scipy.special import expit

from scarless.checks.looks import Codes
from scarless.engines import Engine, Rows, attach
from scarless.numerics import linear
from scarless.numerics import looks as look_numerics
from scarless.numerics.arrays import Array, Matrix, Vector
from scarless.numerics.histories import (
    LabelledHistories,
    ScoreSums,
    false_positive_scores,
    number_by_histories,
    number_by_models,
    score_sums,
    score_tests,
)
from scarless.numerics.likelihood import at_least_one
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood, dense_column
from scarless.numerics.newton import WIDEST_MATRIX, Status, solve_positive
from scarless.numerics.objectives import Curvature, PairObjective
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.groups import times_too_sure
from scarless.pair.inference import pair_inference, penalised_loss
from scarless.pair.logistic import fit_targets
from scarless.pair.optima import best_fit
from scarless.pair.problem import PairProblem, changed, see_the_same, swap, what_is_seen
from scarless.pair.solving import PenalisedProblem

MIN_VARIANCE = 1e-12  # of a score, and distance of probabilities from 0 and 1: both are divided by
GAIN_TO_TEST = 1e-8  # predicted per row: a fit so near its optimum is enough for a test
#: Rows, and rows with a label, in which large tables are asked what looks take for granted. By judgement: what matters
#: stands at 4 standard errors in so many.
ENOUGH_ROWS, ENOUGH_LABELLED = 20_000, 2_000
#: Standard errors in that part from which on all rows are asked. By judgement: chance alone seldom gets there.
ASK_ALL_FROM = 2.0
#: How many times fewer rows the histories of labelled rows are asked in first, and the standard errors there from which
#: on more are asked. By judgement.
FIRST_PART, ASK_MORE_FROM = 4, 1.0
LOGIT_OF_FIRST_RATE = -4.6  # of false positives, where a fit begins: 1 in 100
MAX_PARAMETERS_TESTED = 500  # of models for which score tests are made: they need a dense matrix of all parameters
#: Labels for each parameter below which no score test is made: its variance would be too small. By judgement.
MIN_LABELS_PER_PARAMETER = 3.0
MAX_LOOKS_PAIRED = 12  # looks of which all pairs are compared; of more, those next to each other
#: Score of a rate of false positives, in standard errors, below which no fit with such a rate is tried. Evidence: in 80
#: fits of two and three looks with rates of 0 to .02, those below 1 gained at most 1.1 standard errors by it, those
#: below 0 none.
MIN_RATE_SCORE = 1.0
#: Labels after the first of each row below which histories are not asked for the number of positives: it would be
#: skewed and unsure. By judgement.
MIN_SECOND_LABELS = 20.0
#: Share of the variance of that number that the fit's own may leave of it. By judgement.
MIN_SHARE_OF_VARIANCE = 0.25
#: Standard errors from which on looks depend on earlier labels, so that histories say nothing. By judgement.
LATER_LOOKS_DIFFER = 3.0
DEFAULT_C = 1.0  # inverse penalty: the models' default
#: Share of the way between both bounds: a propensity that is closer to a bound sits on it. By judgement.
NEAR_BOUND = 0.02
#: Distance from its bounds at which a propensity counts as outside of them. By judgement.
BEYOND_BOUNDS = 0.02
#: Log-likelihood between two optima of which both count as possible: odds of 7. By judgement.
ABOUT_AS_LIKELY = 2.0


class AuditGap(NamedTuple):
    """Positives among audits, how many labels and models alone expect, and how many standard errors lie between."""

    found: float
    expected: float
    apart: float


class EnteredFindings(NamedTuple):
    """Audited positives, those with a label; labels of audited rows, and how many are expected; labels of other rows.

    `apart` and `missing` are standard errors: labels among audited rows above, and positives among audited rows without
    a label below, what labels alone let expect.
    """

    positives: float
    labelled: float
    labels: float
    expected: float
    others: float
    apart: float
    missing: float


class OtherChoice(NamedTuple):
    """What labels and audits say if rows were chosen for audits in the other way than said."""

    gained: float  # log-likelihood of audits, labels and of who was audited, above that of the way that was said
    class_prior: float


class PairGap(NamedTuple):
    """Two looks, and by how many standard errors they agree more often than independent looks would."""

    looks: tuple[int, int]
    apart: float


class OffsetGap(NamedTuple):
    """The coefficient of an offset that rows speak for, and by how many standard errors it is not 1.

    `by_log` is the log-likelihood that is gained if the logarithm of the offset is added in its place.
    """

    coefficient: float
    apart: float
    by_log: float


class BoundGap(NamedTuple):
    """The share of positives whose propensity sits on a bound; what is to be had without bounds."""

    on_bound: float
    bound: float  # the one that more of them sit on
    outside: float  # share of positives whose propensity is outside, where there are no bounds
    apart: float  # standard errors, by the likelihood ratio


class LookGap(NamedTuple):
    """A look, its labels, how many the models expect, and how many standard errors lie between at the least."""

    look: int
    found: float
    expected: float
    apart: float


Gap = TypeVar("Gap", PairGap, LookGap)


class UnsaidRate(NamedTuple):
    """The rate of false positives that rows speak for, the one that was given, and standard errors between them."""

    rate: float
    given: float
    apart: float


class PriorGap(NamedTuple):
    """The class prior of rows that were looked at, by the fit and by the histories of labelled rows alone.

    `apart` is in standard errors of the latter, on the scale of logarithms.
    """

    by_fit: float
    by_histories: float
    apart: float


def audit_gap(problem: PairProblem, fit: PairFit, alone: list[PairFit]) -> AuditGap | None:
    r"""Compare audits with what labels alone say of the same rows; None where no audit tells of a class.

    .. math:: \frac{\sum w (a - q)}{\sqrt{\sum w^2 q(1-q) + g'Vg}}

    with `q` the class of an audited row given its labels. Once by the fit itself, which leans towards its audits, so
    that this is cautious (`V` is 0), and once by the fits to labels `alone`, with `V` their covariance and `g` the
    gradient of :math:`\sum w q`: many audits dominate the fit itself. The larger of both counts; of several fits to
    labels the one that is nearest to the audits.
    """
    if not problem.seen.n_audited:
        return None
    found = problem.engine.total(_block_audits, problem.objective, fit.parameters)
    if float(found.variance) < MIN_VARIANCE:
        return None
    gaps = [_audit_gap(found, 0.0)]
    if alone:
        without, times = unaudited(problem), row_weight(problem)
        by_labels = []
        for each in alone:
            sums = problem.engine.total(_block_audits, problem.objective, each.parameters)
            error = pair_inference(without, each).precision.errors(sums.gradient[None, :])[0]
            by_labels.append(_audit_gap(sums, float(error) * np.sqrt(times)))
        gaps.append(min(by_labels, key=lambda gap: abs(gap.apart)))
    return max(gaps, key=lambda gap: abs(gap.apart))


def entered_findings(problem: PairProblem, alone: list[PairFit]) -> EnteredFindings | None:
    """Return whether audited rows have labels more often than others like them, and no positive without a label.

    Labels that were entered because an audit found a positive look so. Rows that were chosen by their labels also have
    labels more often, but then positives without a label are among them.
    """
    found = []
    for each in alone:
        sums = problem.engine.total(_block_audits, problem.objective, each.parameters)
        if float(sums.label_variance) < MIN_VARIANCE or float(sums.variance) < MIN_VARIANCE:
            continue
        labels, expected, positives, labelled = (
            float(sum_) for sum_ in (sums.labels, sums.expected_labels, sums.found, sums.labelled)
        )
        missing = (positives - float(sums.expected)) / float(np.sqrt(sums.variance))
        apart = (labels - expected) / float(np.sqrt(sums.label_variance))
        others = problem.labelled_share * problem.weight - labels
        found.append(EnteredFindings(positives, labelled, labels, expected, others, apart, -missing))
    return min(found, key=lambda each: each.missing) if found else None


def other_choice(problem: PairProblem, fit: PairFit, audit_labels: str, *, max_iter: int) -> OtherChoice | None:
    r"""Compare rows audited whether or not they had a label ("drop") with rows audited that had none ("undo").

    Of a row :math:`a` says whether it was audited. With :math:`L` the likelihood of labels and audits, given `a`,

    .. math::
        \text{drop: } L \prod_i p(x_i)^{a_i} (1 - p(x_i))^{1 - a_i}, \qquad
        \text{undo: } L \prod_{i: s_i = 0} r(x_i)^{a_i} (1 - r(x_i))^{1 - a_i}

    are the likelihoods of the same observations: labels of rows without an audit, classes of those with one. `p` and
    `r` are logistic in the attributes, or constant where this is better by AIC. Where one of them holds, the other is
    ahead by 3 in fewer than 1 of 100 cases: the difference is about normal, with a variance of twice its mean. Where
    rows were chosen by something else, as both ends of an attribute, it may be ahead and wrong.
    None where there is nothing to compare: labels are kept, models too wide, several looks whose labels were dropped.
    """
    undone = audit_labels == "undo"
    wide = problem.objective.n_parameters > WIDEST_MATRIX
    if audit_labels == "keep" or wide or not fit.converged or not (undone or not problem.seen.twice):
        return None
    engine = problem.engine.derive(_as_dropped if undone else _as_undone, keep=True)
    other = problem.on(engine)._replace(seen=what_is_seen(engine, problem.objective))
    options = FitOptions(GAIN_TO_TEST, max_iter)
    fits = [fit_pair(other, fit.parameters, options), best_fit(other, options)]
    there = min((each for each in fits if each.converged), key=lambda each: each.solution.value, default=None)
    if there is None:
        return None
    by_labels = penalised_loss(problem, fit.parameters) - penalised_loss(other, there.parameters)
    times = row_weight(problem)
    dropped, rest = (_chosen_likelihood(problem, times, among=among, max_iter=max_iter) for among in ("all", "rest"))
    gained = by_labels / times + (dropped - rest if undone else rest - dropped)
    return OtherChoice(gained, float(other.sums(there.parameters).positives) / problem.weight)


def _chosen_likelihood(problem: PairProblem, times: float, *, among: str, max_iter: int) -> float:
    """Return the log-likelihood of who was audited, among all rows or the rest without a label, less its parameters."""
    engine = problem.engine.derive(_chosen, among, keep=True)
    audited, weight = (float(each) for each in engine.total(_block_chosen))
    constant = sum(n * np.log(n / weight) for n in (audited, weight - audited) if n > 0)
    designs = [problem.objective.f, *(design for model in problem.objective.models for design in model)]
    design = Design.of(np.unique(np.concatenate([each.indices for each in designs])).astype(np.intp))
    fit = fit_targets(engine, design, C=DEFAULT_C / times, tol=GAIN_TO_TEST, max_iter=max_iter)
    return max(constant / times, -float(fit.value) / times - design.n_columns)


def _as_dropped(X: Any, rows: Rows) -> dict[str, Any]:
    """Return rows as if nobody had looked at those that were audited."""
    kept = (rows["audit"] < 0)[:, None]
    return {"labels": rows["labels"] * kept, "looks": rows["looks"] * kept}


def _as_undone(X: Any, rows: Rows) -> dict[str, Any]:
    """Return rows as if somebody had looked once at those that were audited, and found none."""
    audited = (rows["audit"] >= 0)[:, None]
    return {"labels": rows["labels"] * ~audited, "looks": np.where(audited, 1, rows["looks"])}


def _chosen(X: Any, rows: Rows, among: str) -> dict[str, Any]:
    unlabelled = np.sum(rows["labels"], axis=1) == 0
    audited = rows["audit"] >= 0
    w = rows["w"] * (unlabelled | audited) if among == "rest" else rows["w"]
    return {"t": audited.astype(np.float64), "w": w}


def _block_chosen(X: Any, rows: Rows) -> tuple[Any, Any]:
    return np.asarray(rows["w"] @ rows["t"]), np.asarray(np.sum(rows["w"]))


def row_weight(problem: PairProblem) -> float:
    r"""Return how many times too sure a likelihood is where weights are not counts of rows, as in a survey; else 1.

    By Kish's effective number of rows, :math:`\sum w^2 / \sum w`. Whole numbers whose mean is small are counts.
    """
    squares, broken = (float(each) for each in problem.engine.total(_block_weights))
    return times_too_sure(problem.weight, squares, float(problem.totals.n_rows), counts=not broken)


def _block_weights(X: Any, rows: Rows) -> tuple[Any, Any]:
    w = np.asarray(rows["w"], dtype=np.float64)
    return np.asarray(w @ w), np.asarray(float(np.count_nonzero(w != np.floor(w))))


def labels_alone(problem: PairProblem, fit: PairFit, *, max_iter: int) -> list[PairFit]:
    """Fit the models to labels without any audit; several optima where these are about as likely.

    Nothing where labels alone say nothing: one look with a rate of false positives to be estimated.
    """
    objective = problem.objective
    unknown = bool(objective.n_rates) and not problem.seen.twice
    if not problem.seen.n_audited or unknown or objective.n_parameters > WIDEST_MATRIX or not fit.converged:
        return []
    without, options = unaudited(problem), FitOptions(GAIN_TO_TEST, max_iter)
    fits = [best_fit(without, options), fit_pair(without, fit.parameters, options)]
    if without.swappable and see_the_same(objective.f, objective.e):
        first = fits[0].parameters
        image = swap(first[objective.places[0]], first[objective.places[1]], objective.f, objective.e)
        fits.append(fit_pair(without, np.append(image, first[image.size :]), options))
    fits = [each for each in fits if each.converged]
    lowest = min((each.solution.value for each in fits), default=0.0)
    behind = ABOUT_AS_LIKELY * row_weight(problem)
    return [each for each in fits if each.solution.value <= lowest + behind]


def unaudited(problem: PairProblem) -> PairProblem:
    """Return the problem without its audits, and without strong penalties.

    A penalty that suits a fit with audits moves the class prior of a fit without them by far more than its standard
    error.
    """
    without = problem.on(problem.engine.derive(_no_audits))._replace(seen=problem.seen._replace(n_audited=0.0))
    return without._replace(C=max(problem.C, DEFAULT_C), propensity_C=max(problem.propensity_C, DEFAULT_C))


def pair_gaps(problem: PairProblem, beta: Vector, labels: Codes, kinds: Array) -> list[PairGap]:
    r"""Test whether looks are independent of each other given class and attributes, pair by pair.

    By the score test of a further parameter that makes two looks agree: its score is
    :math:`q(s_j - e_j)(s_k - e_k) + (1-q)(s_j - h_j)(s_k - h_k)`. What the scores of all parameters explain of it is
    taken away. With two looks only the form of the models tells, with three or with audits also how often looks agree.
    Large tables are asked in part first, and as a whole where that gives reason to.
    """
    if not _can_be_tested(problem):
        return []
    n_looks = labels.shape[1]
    pairs = list(combinations(range(n_looks), 2)) if n_looks <= MAX_LOOKS_PAIRED else _neighbours(n_looks)
    whole = problem._replace(engine=_with_codes(problem.engine, labels))

    def gaps(asked: PairProblem) -> list[PairGap]:
        counts = row_weight(asked) == 1.0
        sums = asked.engine.total(_block_pair_scores, asked.objective, beta, pairs, kinds, counts)
        return [PairGap(pair, apart) for pair, apart in zip(pairs, score_tests(sums), strict=True)]

    return _in_part_first(whole, gaps)


def offset_gap(problem: PairProblem, fit: PairFit, *, max_iter: int) -> OffsetGap | None:
    """Return which coefficient of a propensity's offset rows speak for, by the likelihood ratio; 1 is taken for it.

    The offset becomes one more attribute of the propensity. A score test at the fit has no power here: with one look an
    effort given in place of its logarithm was 0.5 to 2.0 standard errors away in 6 runs, by the likelihood ratio
    1.5 to 5.5.
    """
    objective = problem.objective
    if objective.offsets is None:
        return None
    columns = iter(objective.offsets)
    models = tuple(
        tuple(Design.of(np.append(design.indices, next(columns)).astype(np.intp)) for design in model)
        for model in objective.models
    )
    free = problem.with_objective(changed(objective, models=models, offsets=None))
    options, before = FitOptions(GAIN_TO_TEST, max_iter), fit.parameters
    parts = [np.insert(before[place], -1, 1.0) for place in objective.places[1 : 1 + len(objective.models)]]
    rates = before[objective.places[len(objective.models)].stop :]
    start = np.concatenate([before[objective.places[0]], *parts, rates])
    fits = [fit_pair(free, start, options), best_fit(free, options)]
    there = min((each for each in fits if each.converged), key=lambda each: each.solution.value, default=None)
    if there is None:
        return None
    times = row_weight(problem)
    gained = (penalised_loss(problem, before) - penalised_loss(free, there.parameters)) / times
    by_log = _gain_by_log(problem, fit, options) / times
    own = [there.parameters[place][-2] for place in free.objective.places[1 : 1 + len(objective.models)]]
    return OffsetGap(float(np.mean(own)), float(np.sqrt(2.0 * max(gained, 0.0))), by_log)


def _gain_by_log(problem: PairProblem, fit: PairFit, options: FitOptions) -> float:
    """Return the log-likelihood that the logarithm of an offset gains over the offset; 0 where it has none."""
    objective = problem.objective
    (least,) = problem.engine.collect(_block_least_offset, objective).min(axis=0, keepdims=True)
    if not least > 0.0:
        return 0.0
    made: Any = objective
    fields = {each.name: getattr(objective, each.name) for each in dataclass_fields(made)}
    other = problem.with_objective(LogOffset(**fields))
    there = best_fit(other, options)
    return penalised_loss(problem, fit.parameters) - penalised_loss(other, there.parameters) if there.converged else 0.0


@dataclass(frozen=True)
class LogOffset(LooksLikelihood):
    """The same likelihood with the logarithm of every offset in its place."""

    def offset(self, X: Any, column: int) -> Vector:
        """Return what a column adds to the logit of a propensity."""
        return np.asarray(np.log(dense_column(X, column)))


def _block_least_offset(X: Any, rows: Rows, objective: PairObjective) -> Vector:
    return np.min([dense_column(X, column) for column in objective.offsets or ()], axis=0)


def bound_gap(problem: PairProblem, fit: PairFit, *, max_iter: int) -> BoundGap | None:
    """Return whether propensities sit on a bound that was given, and whether rows speak for others outside of it."""
    bounds = problem.objective.bounds
    if bounds is None:
        return None
    (sums,) = problem.engine.total(_block_on_bounds, problem.objective, fit.parameters, NEAR_BOUND)
    shares = sums[1:] / float(sums[0])
    free = problem.with_objective(changed(problem.objective, bounds=None))
    there = best_fit(free, FitOptions(GAIN_TO_TEST, max_iter))
    gained = (penalised_loss(problem, fit.parameters) - penalised_loss(free, there.parameters)) / row_weight(problem)
    (outside,) = free.engine.total(_block_outside, free.objective, there.parameters, bounds)
    apart = float(np.sqrt(2.0 * max(gained, 0.0))) if there.converged else 0.0
    most = int(np.argmax(shares))
    return BoundGap(float(shares[most]), bounds[most], float(outside[1] / outside[0]), apart)


def _with_codes(engine: Engine, labels: Codes) -> Engine:
    """Return rows that have the codes of their looks; those whose labels live elsewhere have them already."""
    (known,) = engine.every(max(1, engine.n_rows)).total(_block_has_codes)
    return engine if float(known) > 0 else attach(engine, codes=labels)


def _block_has_codes(X: Any, rows: Rows) -> tuple[Any]:
    return (np.asarray(float("codes" in rows)),)


def _codes_of_looks(rows: Rows, kinds: Array) -> Array:
    """Return the codes of looks alone: audits may stand behind them."""
    return np.asarray(rows["codes"])[:, : len(kinds)]


def look_gaps(problem: PairProblem, beta: Vector, labels: Codes, kinds: Array) -> list[LookGap]:
    r"""Compare how many labels each look found with how many the models expect.

    By each look alone, :math:`f e_k + (1-f) h_k`, and given all looks before it. The first is wrong where a look took
    place because of earlier ones, the second where rows differ in ways that no attribute knows; a look that differs
    from the others stands out by both, so that the smaller counts. Large tables are asked in part first, and as a whole
    where that gives reason to; below `ASK_ALL_FROM` numbers of labels are those of the part.
    """
    whole = problem._replace(engine=_with_codes(problem.engine, labels))

    def gaps(asked: PairProblem) -> list[LookGap]:
        found = asked.engine.total(_block_look_gaps, asked.objective, beta, kinds)
        return [_look_gap(look, sums) for look, sums in enumerate(found)]

    return _in_part_first(whole, gaps)


def _look_gap(look: int, sums: Matrix) -> LookGap:
    apart = [(own[0] - own[1]) / np.sqrt(own[2]) if own[2] > 0 else 0.0 for own in sums]
    least = min(apart, key=abs) if apart[0] * apart[1] > 0 else 0.0
    return LookGap(look, float(sums[0, 0]), float(sums[0, 1]), float(least))


def _in_part_first(problem: PairProblem, gaps: Callable[[PairProblem], list[Gap]]) -> list[Gap]:
    """Return gaps in a part of the rows, or in all rows where some gap in the part is not chance alone."""
    part = _fewer(problem)
    found = gaps(part)
    doubtful = any(abs(gap.apart) >= ASK_ALL_FROM for gap in found)
    return gaps(problem) if doubtful and part is not problem else found


def _block_look_gaps(X: Any, rows: Rows, objective: PairObjective, beta: Vector, kinds: Array) -> tuple[Matrix, ...]:
    """Return, for each look, labels found and expected and the variance: by the look alone, given those before it."""
    terms, w, codes = objective.terms(X, rows, beta), rows["w"], _codes_of_looks(rows, kinds)
    now, sums = terms.f, []
    for look, kind in enumerate(kinds):
        seen, s = (codes[:, look] >= 0).astype(np.float64), (codes[:, look] == 1).astype(np.float64)
        e, h = terms.e[:, kind], 0.0 if terms.h is None else terms.h[:, kind]
        weight, lines = w * seen, []
        for p in (terms.f, now):
            given = np.clip(h + p * (e - h), MIN_VARIANCE, 1.0 - MIN_VARIANCE)
            lines.append([weight @ s, weight @ given, weight**2 @ (given * (1.0 - given))])
        sums.append(np.array(lines))
        odds = s * e / given + (1.0 - s) * (1.0 - e) / (1.0 - given)
        now = np.clip(now * (1.0 + seen * (odds - 1.0)), 0.0, 1.0)
    return tuple(sums)


def unsaid_rate(problem: PairProblem, fit: PairFit, *, max_iter: int) -> UnsaidRate | None:
    r"""Return the rate of false positives that rows speak for, where another was given; None where they cannot say.

    By the likelihood ratio of one rate for all looks: estimated from where the fit ended, or, as a rate that is far too
    high makes models of its own, from the usual starts. Large tables are asked in
    part. With one look a rate can only be too high: labels are then rarer somewhere than false positives alone would
    be. A rate of 0 needs two looks, or audits, to be told from another.
    """
    given = problem.objective.false_positives
    if isinstance(given, str) or not fit.converged or (not problem.seen.twice and given is None):
        return None
    if given is not None and (np.isnan(given).any() or np.ptp(given) > 0):
        return None
    asked = _fewer(problem)
    if given is None and _can_be_tested(asked):
        counts = row_weight(asked) == 1.0
        (score,) = score_tests(asked.engine.total(false_positive_scores, asked.objective, fit.parameters, counts))
        if score < MIN_RATE_SCORE:
            return UnsaidRate(0.0, 0.0, max(score, 0.0))
    options = FitOptions(GAIN_TO_TEST, max_iter)
    here = fit_pair(asked, fit.parameters, options)
    logit = LOGIT_OF_FIRST_RATE if given is None else float(given[0])
    free = asked.with_objective(changed(problem.objective, false_positives="shared"))
    start = np.append(here.parameters, logit)
    there = fit_pair(free, start, options) if given is None else best_fit(free, options)
    gained = (penalised_loss(asked, here.parameters) - penalised_loss(free, there.parameters)) / row_weight(asked)
    rate, said = float(expit(there.parameters[-1])), float(expit(logit)) if given is not None else 0.0
    if not problem.seen.twice and rate > said:
        return None
    return UnsaidRate(rate, said, float(np.sqrt(2.0 * max(gained, 0.0))))


def prior_gap(problem: PairProblem, fit: PairFit, labels: Codes, kinds: Array, *, max_iter: int) -> PriorGap | None:
    r"""Compare the class prior of a fit with one that does not depend on the class model.

    Without false positives the propensities can be fitted to the histories of rows that have a label alone (Huggins),
    and :math:`\sum w_i / p_i` over these, with `p` the chance of any label, estimates the number of positives whatever
    the class depends on. Its variance counts that positives and labels are drawn, and the error of the propensities.
    It is skewed where few rows have a small chance of a label: so the variance is taken twice, from the labelled rows
    and as both models expect it, and the larger counts. If the models are right, the fit is efficient, and the variance
    of the difference is the difference of the variances (Hausman). In 700 simulated fits of right models to 300 to
    2,000 rows none was more than 1.9 standard errors apart; a quadratic class fitted as linear was 2.5 to 3.1.
    None where nothing can be said: one look, few second labels, or looks that depend on earlier labels, as where nobody
    looks again after a label.
    """
    objective = problem.objective
    if not isinstance(objective, LooksLikelihood) or objective.false_positives is not None or not fit.converged:
        return None
    if not problem.seen.twice or not _can_be_tested(problem):
        return None
    larger = _fewer(problem)
    smaller = problem if larger is problem else _fewer(problem, FIRST_PART)
    found = _prior_gap_in(smaller, fit, labels, kinds, max_iter)
    if smaller is problem or (found is not None and abs(found.apart) < ASK_MORE_FROM):
        return found
    return _prior_gap_in(larger, fit, labels, kinds, max_iter)


def _prior_gap_in(asked: PairProblem, fit: PairFit, labels: Codes, kinds: Array, max_iter: int) -> PriorGap | None:
    objective, n_f = cast(LooksLikelihood, asked.objective), asked.objective.f.n_parameters
    engine, histories = _with_codes(asked.engine, labels), LabelledHistories(objective)
    if not asked.seen.twice or _looks_follow_labels(engine, kinds):
        return None
    times, weak = row_weight(asked), asked._replace(propensity_C=max(asked.propensity_C, DEFAULT_C))
    penalised, weight = PenalisedProblem(engine, histories, weak.ridge[n_f:]), asked.labelled_share * asked.weight
    found = penalised.solve(fit.parameters[n_f:], total_weight=weight, tol=GAIN_TO_TEST, max_iter=max_iter)
    by_histories = engine.total(number_by_histories, histories, found.parameters, fit.parameters, times == 1.0)
    by_models = engine.total(number_by_models, histories, fit.parameters, times == 1.0)
    if found.status is not Status.CONVERGED or float(by_models.again) < MIN_SECOND_LABELS * times:
        return None
    variances = []
    for sums, beta in ((by_histories, found.parameters), (by_models, fit.parameters[n_f:])):
        information = penalised.evaluate(beta, Curvature.OBSERVED).curvature
        variance = float(sums.variance) + times * float(sums.gradient @ solve_positive(information, sums.gradient))
        variances.append(variance / float(sums.number) ** 2)
    (gradient,) = engine.total(_block_positives_gradient, objective, fit.parameters)
    information = asked.penalised(fit.facts).evaluate(fit.parameters, Curvature.OBSERVED).curvature
    of_fit = times * float(gradient @ solve_positive(information, gradient)) / float(by_models.number) ** 2
    error = np.sqrt(max(max(variances) - of_fit, MIN_SHARE_OF_VARIANCE * max(variances)))
    apart = float(np.log(by_histories.number / by_models.number) / error)
    looked_at = float(by_models.looked_at)
    return PriorGap(float(by_models.number) / looked_at, float(by_histories.number) / looked_at, apart)


def _block_positives_gradient(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> tuple[Vector]:
    terms, of_f, gradient = objective.terms(X, rows, beta), objective.logits[0], np.zeros(beta.size)
    w = rows["w"] * (terms.looks.sum(axis=1) > 0)
    gradient[of_f.place] = linear.transposed_product(of_f.design.take(X), w * terms.f * terms.not_f)
    return (gradient,)


def _looks_follow_labels(engine: Engine, kinds: Array) -> bool:
    """Whether looks took place less often, or more often, after a label than without one."""
    after, n_after, without, n_without = (float(each) for each in engine.total(_block_later_looks, kinds))
    if not n_after or not n_without:
        return True
    share = (after + without) / (n_after + n_without)
    error = np.sqrt(max(share * (1.0 - share), 0.0) * (1.0 / n_after + 1.0 / n_without))
    return bool(abs(after / n_after - without / n_without) > LATER_LOOKS_DIFFER * error)


def _block_later_looks(X: Any, rows: Rows, kinds: Array) -> tuple[Any, ...]:
    """Return how many looks after a label took place, how many there might have been, and both without one."""
    codes, counted = _codes_of_looks(rows, kinds), (rows["w"] > 0)[:, None]
    after = np.cumsum(codes == 1, axis=1)[:, :-1] > 0
    took_place = codes[:, 1:] >= 0
    parts = (after & took_place, after, ~after & took_place, ~after)
    return tuple(np.asarray(np.count_nonzero(each & counted) * 1.0) for each in parts)


def _fewer(problem: PairProblem, times: int = 1) -> PairProblem:
    """Return the problem on some rows of a large table, each as heavy as it is; on so many times fewer of them."""
    n_rows, labelled = problem.engine.n_rows, int(problem.labelled_share * problem.engine.n_rows)
    step = min(times * n_rows // ENOUGH_ROWS, times * labelled // ENOUGH_LABELLED)
    if step < 2 or problem.facts:
        return problem
    part = problem.on(problem.engine.every(step))
    return part if 0.0 < part.labelled_share < 1.0 else problem


class _AuditSums(NamedTuple):
    """Of audited rows: positives found and expected given labels, with variance and gradient; and their labels."""

    found: Any
    expected: Any
    variance: Any
    gradient: Any  # of what is expected
    labels: Any
    expected_labels: Any
    label_variance: Any
    labelled: Any  # positives with a label


def _audit_gap(sums: _AuditSums, error: float) -> AuditGap:
    found, expected = float(sums.found), float(sums.expected)
    return AuditGap(found, expected, (found - expected) / float(np.sqrt(float(sums.variance) + error**2)))


def _block_audits(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> _AuditSums:
    open_rows: Any = {name: rows[name] for name in ("labels", "looks", "w")} | {"audit": np.full(len(rows["w"]), -1.0)}
    terms, w = objective.terms(X, open_rows, beta), rows["w"] * (rows["audit"] >= 0)
    positive, labelled = rows["audit"] == 1, terms.labels.sum(axis=1) > 0
    spread = w * terms.q * terms.not_q
    along = look_numerics.observed_look_information(terms).along
    detected, _ = look_numerics.detected(terms)
    wrongly = 0.0 if terms.h is None else at_least_one(terms.h * terms.looks)
    p = terms.f * detected + terms.not_f * wrongly
    gradient = np.zeros(objective.n_parameters)
    for logit in objective.logits:
        gradient[logit.place] += linear.transposed_product(logit.design.take(X), spread * along[:, logit.column])
    sums = (w @ positive, w @ terms.q, w @ spread, gradient, w @ labelled, w @ p, w**2 @ (p * (1.0 - p)))
    return _AuditSums(*(np.asarray(each, dtype=np.float64) for each in (*sums, w @ (positive & labelled))))


def _no_audits(X: Any, rows: Rows) -> dict[str, Any]:
    return {"audit": np.full(len(rows["w"]), -1.0)}


def _can_be_tested(problem: PairProblem) -> bool:
    """Whether models are small enough, and labels many enough, for a score test."""
    n, labelled = problem.objective.n_parameters, problem.labelled_share * problem.weight
    return n <= MAX_PARAMETERS_TESTED and n * MIN_LABELS_PER_PARAMETER <= labelled


def _block_pair_scores(
    X: Any,
    rows: Rows,
    objective: PairObjective,
    beta: Vector,
    pairs: Sequence[tuple[int, int]],
    kinds: Array,
    counts: bool,
) -> ScoreSums:
    terms, codes = objective.terms(X, rows, beta), _codes_of_looks(rows, kinds)
    further = np.zeros((len(codes), len(pairs)), order="F")
    for column, (j, k) in enumerate(pairs):
        both, one, other = (codes[:, j] >= 0) & (codes[:, k] >= 0), kinds[j], kinds[k]
        s_j, s_k = codes[:, j] == 1, codes[:, k] == 1
        together = terms.q * (s_j - terms.e[:, one]) * (s_k - terms.e[:, other])
        if terms.h is not None:
            together = together + terms.not_q * (s_j - terms.h[:, one]) * (s_k - terms.h[:, other])
        further[:, column] = both * together
    scores = look_numerics.look_scores(terms)[:, [logit.column for logit in objective.logits]]
    return score_sums(X, rows["w"], objective, scores, further, counts=counts)


def _neighbours(n_looks: int) -> list[tuple[int, int]]:
    return [(k, k + 1) for k in range(n_looks - 1)]


def _block_on_bounds(X: Any, rows: Rows, objective: PairObjective, beta: Vector, near: float) -> tuple[Vector]:
    """Return how many looks at positives there are, and how many with a propensity next to either bound.

    0 and 1 are no bounds that somebody gave.
    """
    assert objective.bounds is not None
    low, high = objective.bounds
    terms = objective.terms(X, rows, beta)
    share, w = (terms.e - low) / (high - low), (rows["w"] * terms.f)[:, None] * terms.looks
    below, above = w * (share < near) * (low > 0.0), w * (share > 1.0 - near) * (high < 1.0)
    return (np.array([w.sum(), below.sum(), above.sum()]),)


def _block_outside(
    X: Any, rows: Rows, objective: PairObjective, beta: Vector, bounds: tuple[float, float]
) -> tuple[Vector]:
    """Return how many looks at positives there are, and how many with a propensity outside of bounds."""
    terms = objective.terms(X, rows, beta)
    w = (rows["w"] * terms.f)[:, None] * terms.looks
    outside = (terms.e < bounds[0] - BEYOND_BOUNDS) | (terms.e > bounds[1] + BEYOND_BOUNDS)
    return (np.array([w.sum(), (w * outside).sum()]),)
