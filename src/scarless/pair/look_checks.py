"""Checks of the assumptions about looks and audits, fast enough to run in every fit."""

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
    heterogeneity,
    heterogeneity_sums,
    number_by_histories,
    number_by_models,
    score_sums,
    score_tests,
)
from scarless.numerics.likelihood import at_least_one
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood, dense_column
from scarless.numerics.newton import MAX_MATRIX_PARAMETERS, Status, solve_positive
from scarless.numerics.objectives import Curvature, PairObjective
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.groups import overcount_factor
from scarless.pair.inference import pair_inference, penalised_loss
from scarless.pair.logistic import fit_targets
from scarless.pair.optima import best_fit
from scarless.pair.problem import PairProblem, changed, same_columns, summarise_observations, swap
from scarless.pair.solving import PenalisedProblem

MIN_VARIANCE = 1e-12  # smallest variance with which a statistic is computed, and margin of probabilities at 0 and 1
TEST_TOL = 1e-8  # tolerance per row of fits for tests
#: A large table is tested on a part first. The part has at least these numbers of rows and of labelled rows. By
#: judgement: relevant violations reach 4 standard errors in a part of this size.
ROWS_OF_TEST_PART, LABELLED_OF_TEST_PART = 20_000, 2_000
#: All rows are tested if a statistic in that part reaches this many standard errors. By judgement: a statistic seldom
#: reaches this number if the assumptions hold.
Z_TO_TEST_ALL_ROWS = 2.0
#: The test of the histories of labelled rows (`prior_gap`) begins with a smaller part. Its size is the size of the
#: usual part divided by the first number. If the statistic reaches the second number, in standard errors, the test is
#: repeated in the usual part. By judgement.
FIRST_PART_DIVISOR, Z_TO_TEST_LARGER_PART = 4, 1.0
LOGIT_OF_FIRST_RATE = -4.6  # logit of the false positive rate at the start of a fit: 1 in 100
MAX_PARAMETERS_TESTED = 500  # models with more parameters have no score tests, which need a dense matrix
#: Smallest number of labels per parameter for a score test. With fewer labels, the estimated variance of the score
#: would be too small. By judgement.
MIN_LABELS_PER_PARAMETER = 3.0
MAX_LOOKS_PAIRED = 12  # with more looks, only consecutive looks are compared, not all pairs
#: A fit with an estimated false positive rate is tried only if the score of the rate reaches this number, in standard
#: errors. Evidence: in 80 fits to two and three looks with rates of 0 to .02, the likelihood ratio statistic was at
#: most 1.1 standard errors if the score was below 1, and 0 if the score was below 0.
MIN_RATE_SCORE = 1.0
#: Rows are taken to differ in ways that no column measures if the score test reaches this number, in standard errors.
#: Its size is then 1%. Evidence: in 120 fits of correct models to two, three and five looks, one statistic was larger.
HETEROGENEITY_Z = 2.326
#: Histories give an estimate of the number of positives only if rows have at least this number of second and later
#: labels in total. With fewer, the estimate is skewed and uncertain. By judgement.
MIN_SECOND_LABELS = 20.0
#: Smallest variance of the difference between the fit and the estimate from histories, relative to the variance of that
#: estimate. By judgement.
MIN_SHARE_OF_VARIANCE = 0.25
#: Largest difference, in standard errors, between the frequency of looks after a label and the frequency of looks
#: without an earlier label. If the difference is larger, looks depend on labels, and histories cannot be used. By
#: judgement.
MAX_Z_OF_LATER_LOOKS = 3.0
DEFAULT_C = 1.0  # default of `C` and `propensity_C`
#: A propensity is at a bound if its distance from the bound is less than this share of the range between both bounds.
#: By judgement.
BOUND_MARGIN = 0.02
#: A propensity is outside the bounds if it is below or above them by more than this number. By judgement.
OUTSIDE_MARGIN = 0.02
#: Two fits are both possible if their log-likelihoods differ by at most this number: a likelihood ratio of 7. By
#: judgement.
MAX_GAP_OF_POSSIBLE_FIT = 2.0


class AuditGap(NamedTuple):
    """Number of positives among audited rows, compared with the number that labels and models predict."""

    found: float
    expected: float
    z_score: float  # the difference in standard errors; in the classes below too


class EnteredFindings(NamedTuple):
    """Counts that show whether findings of audits were entered as labels."""

    positives: float  # audited positives
    labelled: float  # audited positives with a label
    labels: float  # labels of audited rows
    expected: float  # expected labels of audited rows
    others: float  # labels of rows that were not audited
    z_score: float  # labels of audited rows beyond the expected number, in standard errors
    missing: float  # audited positives below the number expected from the labels, in standard errors


class AuditSelectionGap(NamedTuple):
    """Fit under the opposite assumption about the selection of rows for audits: "undo" for "drop", or vice versa."""

    gained: float  # log-likelihood gain by this fit, for labels, audits and their selection together
    class_prior: float  # of this fit


class PairGap(NamedTuple):
    """How often two looks agree, compared with independent looks."""

    looks: tuple[int, int]
    z_score: float  # positive if the two looks agree more often than independent looks


class OffsetGap(NamedTuple):
    """Estimated coefficient of an offset, compared with 1."""

    coefficient: float
    z_score: float
    by_log: float  # log-likelihood gain if the logarithm of the offset is used instead


class BoundGap(NamedTuple):
    """Shares of positives with a propensity at a bound and, in a fit without bounds, outside the bounds."""

    on_bound: float  # share of positives with a propensity at `bound`
    bound: float  # the lower or the upper bound: the one with the larger share
    outside: float  # share of positives with a propensity outside the bounds, in a fit without bounds
    z_score: float  # square root of the likelihood ratio statistic


class LookGap(NamedTuple):
    """Number of labels of a look, compared with the number that the models predict."""

    look: int
    found: float
    expected: float
    z_score: float


Gap = TypeVar("Gap", PairGap, LookGap)


class RateGap(NamedTuple):
    """Estimated false positive rate, compared with the given rate."""

    rate: float
    given: float
    z_score: float


class HeterogeneityGap(NamedTuple):
    """Evidence that rows differ in how easily they are seen, in ways that no column measures."""

    z_score: float  # score test of a random shift of the logits of a row's propensities

    @property
    def gained(self) -> float:
        """Log-likelihood gain by such a shift, to second order."""
        return 0.5 * max(self.z_score, 0.0) ** 2


class PriorGap(NamedTuple):
    """Class prior of the rows with a look, estimated by the fit and by the histories of labelled rows alone."""

    by_fit: float
    by_histories: float
    z_score: float  # on the logarithmic scale


def audit_gap(problem: PairProblem, fit: PairFit, alone: list[PairFit]) -> AuditGap | None:
    r"""Compare the audited classes with the posteriors of the audited rows; None without informative audits.

    The statistic is

    .. math:: \frac{\sum w (a - q)}{\sqrt{\sum w^2 q(1-q) + g'Vg}}

    where `a` is the audited class, `q` the posterior given the labels, `g` the gradient of :math:`\sum w q`, and `V`
    the covariance of the parameters. The statistic is computed twice, and the larger result is returned. The first
    computation uses the fit itself and :math:`V = 0`. This is conservative, because the fit already uses the audits.
    Many audits even dominate that fit. The second computation therefore uses `alone`: fits to the labels without
    audits. Of several such fits, the fit that agrees best with the audits is used.
    """
    if not problem.observations.n_audited:
        return None
    found = problem.engine.total(_block_audits, problem.objective, fit.parameters)
    if float(found.variance) < MIN_VARIANCE:
        return None
    gaps = [_audit_gap(found, 0.0)]
    if alone:
        without, times = without_audits(problem), row_weight(problem)
        by_labels = []
        for each in alone:
            sums = problem.engine.total(_block_audits, problem.objective, each.parameters)
            error = float(pair_inference(without, each).precision.errors(sums.gradient[None, :])[0]) * np.sqrt(times)
            if float(sums.variance) + error**2 >= MIN_VARIANCE:  # A saturated fit does not know its own error.
                by_labels.append(_audit_gap(sums, error))
        gaps += sorted(by_labels, key=lambda gap: abs(gap.z_score))[:1]
    return max(gaps, key=lambda gap: abs(gap.z_score))


def entered_findings(problem: PairProblem, alone: list[PairFit]) -> EnteredFindings | None:
    """Return counts that show whether findings of audits were entered as labels; None if there is nothing to count.

    If findings were entered, audited rows have labels more often than similar rows, and few audited positives have no
    label. If rows were selected for audits because of their labels, audited rows also have labels more often, but more
    of the audited positives have no label. `alone` are fits to the labels without audits.
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
        z_score = (labels - expected) / float(np.sqrt(sums.label_variance))
        others = problem.labelled_share * problem.weight - labels
        found.append(EnteredFindings(positives, labelled, labels, expected, others, z_score, -missing))
    return min(found, key=lambda each: each.missing) if found else None


def compare_audit_selection(
    problem: PairProblem, fit: PairFit, audit_labels: str, *, max_iter: int
) -> AuditSelectionGap | None:
    r"""Compare two assumptions about the selection of rows for audits; None if there is nothing to compare.

    The assumptions are that rows were audited whether or not they had a label ("drop"), and that only unlabelled rows
    were audited ("undo"). Let :math:`a` be 1 for audited rows and 0 for others, and let :math:`L` be the likelihood of
    labels and audits given `a`. Then

    .. math::
        \text{drop: } L \prod_i p(x_i)^{a_i} (1 - p(x_i))^{1 - a_i}, \qquad
        \text{undo: } L \prod_{i: s_i = 0} r(x_i)^{a_i} (1 - r(x_i))^{1 - a_i}

    are likelihoods of the same observations: the selection for audits, the labels of rows without an audit, and the
    classes of audited rows. `p` and `r` are logistic in the attributes, or constant if a constant has the better AIC.
    The difference of the two log-likelihoods is about normal, and its variance is twice its mean. The log-likelihood of
    the wrong assumption is therefore higher by 3 in fewer than 1 of 100 cases. If rows were selected in another way,
    such as at both ends of an attribute, the wrong assumption may have the higher likelihood.

    The result is None if `audit_labels` is "keep", if the fit did not converge, if the models have too many parameters,
    or if `audit_labels` is "drop" and rows have several looks.
    """
    undone = audit_labels == "undo"
    wide = problem.objective.n_parameters > MAX_MATRIX_PARAMETERS
    if audit_labels == "keep" or wide or not fit.converged or not (undone or not problem.observations.has_second_looks):
        return None
    engine = problem.engine.derive(_as_dropped if undone else _as_undone, keep=True)
    other = problem.on(engine)._replace(observations=summarise_observations(engine, problem.objective))
    options = FitOptions(TEST_TOL, max_iter)
    fits = [fit_pair(other, fit.parameters, options), best_fit(other, options)]
    best = min((each for each in fits if each.converged), key=lambda each: each.solution.value, default=None)
    if best is None:
        return None
    by_labels = penalised_loss(problem, fit.parameters) - penalised_loss(other, best.parameters)
    times = row_weight(problem)
    dropped, rest = (
        _audit_selection_likelihood(problem, times, among=among, max_iter=max_iter) for among in ("all", "rest")
    )
    gained = by_labels / times + (dropped - rest if undone else rest - dropped)
    return AuditSelectionGap(gained, float(other.sums(best.parameters).positives) / problem.weight)


def _audit_selection_likelihood(problem: PairProblem, times: float, *, among: str, max_iter: int) -> float:
    """Return the log-likelihood of the selection of rows for audits, minus its number of parameters.

    `among` are the rows that could be selected: "all" rows, or the "rest", which are all rows that are audited or
    unlabelled.
    """
    engine = problem.engine.derive(_audit_selection, among, keep=True)
    audited, weight = (float(each) for each in engine.total(_block_audited_weight))
    constant = sum(n * np.log(n / weight) for n in (audited, weight - audited) if n > 0)
    designs = [problem.objective.f, *(design for model in problem.objective.models for design in model)]
    design = Design.of(np.unique(np.concatenate([each.indices for each in designs])).astype(np.intp))
    fit = fit_targets(engine, design, C=DEFAULT_C / times, tol=TEST_TOL, max_iter=max_iter)
    return max(constant / times, -float(fit.value) / times - design.n_columns)


def _as_dropped(X: Any, rows: Rows) -> dict[str, Any]:
    """Return rows as if audited rows had no looks."""
    kept = (rows["audit"] < 0)[:, None]
    return {"labels": rows["labels"] * kept, "looks": rows["looks"] * kept}


def _as_undone(X: Any, rows: Rows) -> dict[str, Any]:
    """Return rows as if audited rows had one look without a label."""
    audited = (rows["audit"] >= 0)[:, None]
    return {"labels": rows["labels"] * ~audited, "looks": np.where(audited, 1, rows["looks"])}


def _audit_selection(X: Any, rows: Rows, among: str) -> dict[str, Any]:
    unlabelled = np.sum(rows["labels"], axis=1) == 0
    audited = rows["audit"] >= 0
    w = rows["w"] * (unlabelled | audited) if among == "rest" else rows["w"]
    return {"t": audited.astype(np.float64), "w": w}


def _block_audited_weight(X: Any, rows: Rows) -> tuple[Any, Any]:
    return np.asarray(rows["w"] @ rows["t"]), np.asarray(np.sum(rows["w"]))


def row_weight(problem: PairProblem) -> float:
    """Return the factor by which survey weights overstate the information of the rows; see `overcount_factor`."""
    squares, broken = (float(each) for each in problem.engine.total(_block_weights))
    return overcount_factor(problem.weight, squares, float(problem.totals.n_rows), counts=not broken)


def _block_weights(X: Any, rows: Rows) -> tuple[Any, Any]:
    w = np.asarray(rows["w"], dtype=np.float64)
    return np.asarray(w @ w), np.asarray(float(np.count_nonzero(w != np.floor(w))))


def fit_labels_alone(problem: PairProblem, fit: PairFit, *, max_iter: int) -> list[PairFit]:
    """Fit the models to the labels without audits; return several optima if their likelihoods are similar.

    The list is empty if there are no audits, if the fit did not converge, or if the models have too many parameters. It
    is also empty for one look with an unknown false positive rate, because labels alone then do not identify the
    models.
    """
    objective = problem.objective
    unknown = bool(objective.n_rates) and not problem.observations.has_second_looks
    too_wide = objective.n_parameters > MAX_MATRIX_PARAMETERS
    if not problem.observations.n_audited or unknown or too_wide or not fit.converged:
        return []
    without, options = without_audits(problem), FitOptions(TEST_TOL, max_iter)
    fits = [best_fit(without, options), fit_pair(without, fit.parameters, options)]
    if without.swappable and same_columns(objective.f, objective.e):
        first = fits[0].parameters
        image = swap(first[objective.places[0]], first[objective.places[1]], objective.f, objective.e)
        fits.append(fit_pair(without, np.append(image, first[image.size :]), options))
    fits = [each for each in fits if each.converged]
    lowest = min((each.solution.value for each in fits), default=0.0)
    behind = MAX_GAP_OF_POSSIBLE_FIT * row_weight(problem)
    return [each for each in fits if each.solution.value <= lowest + behind]


def without_audits(problem: PairProblem) -> PairProblem:
    """Return the problem without audits and without strong penalties.

    A penalty that is right for a fit with audits may change the class prior of a fit without audits by far more than
    the standard error of the class prior.
    """
    without = problem.on(problem.engine.derive(_no_audits))._replace(
        observations=problem.observations._replace(n_audited=0.0)
    )
    return without._replace(C=max(problem.C, DEFAULT_C), propensity_C=max(problem.propensity_C, DEFAULT_C))


def pair_gaps(problem: PairProblem, beta: Vector, labels: Codes, kinds: Array) -> list[PairGap]:
    r"""Test whether pairs of looks are independent given class and attributes.

    The result contains a score test for each pair of looks. The tested parameter makes the two looks agree more often.
    Its score is :math:`q(s_j - e_j)(s_k - e_k) + (1-q)(s_j - h_j)(s_k - h_k)`, adjusted for the scores of all other
    parameters; `h` is the false positive rate. With two looks, the test relies on the form of the models. With three
    looks or audits, it also uses how often looks agree. In large tables, a part is tested first, and all rows are
    tested if a statistic of the part is large.
    """
    if problem.objective.heterogeneity or not _can_be_tested(problem):
        return []
    n_looks = labels.shape[1]
    pairs = list(combinations(range(n_looks), 2)) if n_looks <= MAX_LOOKS_PAIRED else _neighbours(n_looks)
    whole = problem._replace(engine=_with_codes(problem.engine, labels))

    def gaps(tested: PairProblem) -> list[PairGap]:
        counts = row_weight(tested) == 1.0
        sums = tested.engine.total(_block_pair_scores, tested.objective, beta, pairs, kinds, counts)
        return [PairGap(pair, z_score) for pair, z_score in zip(pairs, score_tests(sums), strict=True)]

    return _test_part_first(whole, gaps)


def offset_gap(problem: PairProblem, fit: PairFit, *, max_iter: int) -> OffsetGap | None:
    """Estimate the coefficient of the propensity's offset, which the fit assumes to be 1; None without an offset.

    The offset becomes one more propensity attribute, and its coefficient is tested by the likelihood ratio, because a
    score test has little power. In 6 runs with one look, the offset was wrongly an effort instead of its logarithm. The
    score test gave 0.5 to 2.0 standard errors, and the likelihood ratio 1.5 to 5.5.
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
    options, before = FitOptions(TEST_TOL, max_iter), fit.parameters
    parts = [np.insert(before[place], -1, 1.0) for place in objective.places[1 : 1 + len(objective.models)]]
    rates = before[objective.places[len(objective.models)].stop :]
    start = np.concatenate([before[objective.places[0]], *parts, rates])
    fits = [fit_pair(free, start, options), best_fit(free, options)]
    best = min((each for each in fits if each.converged), key=lambda each: each.solution.value, default=None)
    if best is None:
        return None
    times = row_weight(problem)
    gained = (penalised_loss(problem, before) - penalised_loss(free, best.parameters)) / times
    by_log = _gain_by_log(problem, fit, options) / times
    coefficients = [best.parameters[place][-2] for place in free.objective.places[1 : 1 + len(objective.models)]]
    return OffsetGap(float(np.mean(coefficients)), float(np.sqrt(2.0 * max(gained, 0.0))), by_log)


def _gain_by_log(problem: PairProblem, fit: PairFit, options: FitOptions) -> float:
    """Return the log-likelihood gain if offsets are replaced by their logarithms; 0 if an offset is not positive."""
    objective = problem.objective
    (least,) = problem.engine.collect(_block_least_offset, objective).min(axis=0, keepdims=True)
    if not least > 0.0:
        return 0.0
    made: Any = objective
    fields = {each.name: getattr(objective, each.name) for each in dataclass_fields(made)}
    other = problem.with_objective(LogOffset(**fields))
    best = best_fit(other, options)
    return penalised_loss(problem, fit.parameters) - penalised_loss(other, best.parameters) if best.converged else 0.0


@dataclass(frozen=True)
class LogOffset(LooksLikelihood):
    """The likelihood with every offset replaced by its logarithm."""

    def offset(self, X: Any, column: int) -> Vector:
        """Return the term that a column adds to the propensity's logit."""
        return np.asarray(np.log(dense_column(X, column)))


def _block_least_offset(X: Any, rows: Rows, objective: PairObjective) -> Vector:
    return np.min([dense_column(X, column) for column in objective.offsets or ()], axis=0)


def bound_gap(problem: PairProblem, fit: PairFit, *, max_iter: int) -> BoundGap | None:
    """Compare the fit with a fit without bounds; None if no bounds were given."""
    bounds = problem.objective.bounds
    if bounds is None:
        return None
    (sums,) = problem.engine.total(_block_on_bounds, problem.objective, fit.parameters, BOUND_MARGIN)
    shares = sums[1:] / float(sums[0])
    free = problem.with_objective(changed(problem.objective, bounds=None))
    best = best_fit(free, FitOptions(TEST_TOL, max_iter))
    gained = (penalised_loss(problem, fit.parameters) - penalised_loss(free, best.parameters)) / row_weight(problem)
    (outside,) = free.engine.total(_block_outside, free.objective, best.parameters, bounds)
    z_score = float(np.sqrt(2.0 * max(gained, 0.0))) if best.converged else 0.0
    most = int(np.argmax(shares))
    return BoundGap(float(shares[most]), bounds[most], float(outside[1] / outside[0]), z_score)


def _with_codes(engine: Engine, labels: Codes) -> Engine:
    """Return rows with the codes of their looks. Some engines have these codes already."""
    (known,) = engine.every(max(1, engine.n_rows)).total(_block_has_codes)
    return engine if float(known) > 0 else attach(engine, codes=labels)


def _block_has_codes(X: Any, rows: Rows) -> tuple[Any]:
    return (np.asarray(float("codes" in rows)),)


def _codes_of_looks(rows: Rows, kinds: Array) -> Array:
    """Return the codes of the looks. The column after them, if there is one, contains the audit."""
    return np.asarray(rows["codes"])[:, : len(kinds)]


def look_gaps(problem: PairProblem, beta: Vector, labels: Codes, kinds: Array) -> list[LookGap]:
    r"""Compare the number of labels of each look with the number that the models predict.

    There are two predictions for each look. The first, :math:`f e_k + (1-f) h_k`, ignores all other looks. It is wrong
    if a look took place because of earlier looks. The second prediction uses the labels of all earlier looks. It is
    wrong if rows differ in unobserved ways. If a look really differs from the others, both statistics are large, so the
    smaller statistic is returned. In large tables, a part is tested first, and all rows are tested if a statistic of
    the part is large. The returned numbers of labels are sums over the tested rows.
    """
    whole = problem._replace(engine=_with_codes(problem.engine, labels))

    def gaps(tested: PairProblem) -> list[LookGap]:
        found = tested.engine.total(_block_look_gaps, tested.objective, beta, kinds)
        return [_look_gap(look, sums) for look, sums in enumerate(found)]

    return _test_part_first(whole, gaps)


def _look_gap(look: int, sums: Matrix) -> LookGap:
    z_scores = [(found - expected) / np.sqrt(variance) if variance > 0 else 0.0 for found, expected, variance in sums]
    least = min(z_scores, key=abs) if z_scores[0] * z_scores[1] > 0 else 0.0
    return LookGap(look, float(sums[0, 0]), float(sums[0, 1]), float(least))


def _test_part_first(problem: PairProblem, gaps: Callable[[PairProblem], list[Gap]]) -> list[Gap]:
    """Return the gaps in a part of the rows, or in all rows if some gap in the part is large."""
    part = _part_to_test(problem)
    found = gaps(part)
    doubtful = any(abs(gap.z_score) >= Z_TO_TEST_ALL_ROWS for gap in found)
    return gaps(problem) if doubtful and part is not problem else found


def _block_look_gaps(X: Any, rows: Rows, objective: PairObjective, beta: Vector, kinds: Array) -> tuple[Matrix, ...]:
    """Return, for each look, the number of labels, its expectation and its variance, by both predictions.

    See `look_gaps`.
    """
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


def rate_gap(problem: PairProblem, fit: PairFit, *, max_iter: int) -> RateGap | None:
    """Estimate the false positive rate and compare it with the given rate; None if the rows do not identify the rate.

    The statistic is the square root of the likelihood ratio of a fit with one estimated rate for all looks. If the
    given rate is 0, that fit starts at the given fit. Otherwise it uses the usual starts, because a given rate that is
    far too high leads to very different models. In large tables, only a part is tested. With one look, only a rate that
    is too high can be detected: some rows then have fewer labels than the given rate implies. A rate of 0 is tested
    only if some rows have a second look.
    """
    given = problem.objective.false_positives
    if isinstance(given, str) or not fit.converged or (not problem.observations.has_second_looks and given is None):
        return None
    if given is not None and (np.isnan(given).any() or np.ptp(given) > 0):
        return None
    tested = _part_to_test(problem)
    if given is None and _can_be_tested(tested):
        counts = row_weight(tested) == 1.0
        (score,) = score_tests(tested.engine.total(false_positive_scores, tested.objective, fit.parameters, counts))
        if score < MIN_RATE_SCORE:
            return RateGap(0.0, 0.0, max(score, 0.0))
    options = FitOptions(TEST_TOL, max_iter)
    here = fit_pair(tested, fit.parameters, options)
    logit = LOGIT_OF_FIRST_RATE if given is None else float(given[0])
    free = tested.with_objective(changed(problem.objective, false_positives="shared"))
    start = np.append(here.parameters, logit)
    best = fit_pair(free, start, options) if given is None else best_fit(free, options)
    gained = (penalised_loss(tested, here.parameters) - penalised_loss(free, best.parameters)) / row_weight(tested)
    rate, said = float(expit(best.parameters[-1])), float(expit(logit)) if given is not None else 0.0
    if not problem.observations.has_second_looks and rate > said:
        return None
    return RateGap(rate, said, float(np.sqrt(2.0 * max(gained, 0.0))))


def heterogeneity_gap(problem: PairProblem, fit: PairFit) -> HeterogeneityGap | None:
    """Test whether rows differ in how easily they are seen, in ways that no column measures.

    The score test of `goodness_of_fit` needs one pass over the rows. In large tables, only a part is tested.
    """
    objective = problem.objective
    if not isinstance(objective, LooksLikelihood) or objective.heterogeneity or not fit.converged:
        return None
    if not problem.observations.has_second_looks or not _can_be_tested(problem):
        return None
    tested = _part_to_test(problem)
    z_score = heterogeneity(tested.engine.total(heterogeneity_sums, objective, fit.parameters))
    return HeterogeneityGap(z_score / float(np.sqrt(row_weight(tested))))


def prior_gap(problem: PairProblem, fit: PairFit, labels: Codes, kinds: Array, *, max_iter: int) -> PriorGap | None:
    r"""Compare the class prior of a fit with an estimate that does not depend on the class model.

    Without false positives, the propensities can be fitted to the histories of labelled rows alone (Huggins). Let `p`
    be the resulting probability that a positive gets any label. The sum :math:`\sum w_i / p_i` over the labelled rows
    then estimates the number of positives, whatever the class model is. The variance of this estimate includes the
    sampling of positives and labels, and the error of the propensities. The estimate is skewed if few rows have a small
    `p`. Its variance is therefore computed twice, from the labelled rows and from both models, and the larger variance
    is used.
    If the models are correct, the fit is efficient, and the variance of the difference is the difference of the
    variances (Hausman).

    In 700 simulated fits of correct models to 300 to 2,000 rows, no difference exceeded 1.9 standard errors. If the
    class logit was quadratic and the fit was linear, the difference was 2.5 to 3.1. The result is None with one look,
    few second labels, or looks that depend on earlier labels.
    """
    objective = problem.objective
    if not isinstance(objective, LooksLikelihood) or objective.false_positives is not None or not fit.converged:
        return None
    if objective.heterogeneity or not problem.observations.has_second_looks or not _can_be_tested(problem):
        return None
    larger = _part_to_test(problem)
    smaller = problem if larger is problem else _part_to_test(problem, FIRST_PART_DIVISOR)
    found = _prior_gap_in(smaller, fit, labels, kinds, max_iter)
    if smaller is problem or (found is not None and abs(found.z_score) < Z_TO_TEST_LARGER_PART):
        return found
    return _prior_gap_in(larger, fit, labels, kinds, max_iter)


def _prior_gap_in(tested: PairProblem, fit: PairFit, labels: Codes, kinds: Array, max_iter: int) -> PriorGap | None:
    objective, n_f = cast(LooksLikelihood, tested.objective), tested.objective.f.n_parameters
    engine, histories = _with_codes(tested.engine, labels), LabelledHistories(objective)
    if not tested.observations.has_second_looks or _looks_follow_labels(engine, kinds):
        return None
    times, weak = row_weight(tested), tested._replace(propensity_C=max(tested.propensity_C, DEFAULT_C))
    penalised, weight = PenalisedProblem(engine, histories, weak.ridge[n_f:]), tested.labelled_share * tested.weight
    found = penalised.solve(fit.parameters[n_f:], total_weight=weight, tol=TEST_TOL, max_iter=max_iter)
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
    information = tested.penalised(fit.constraints).evaluate(fit.parameters, Curvature.OBSERVED).curvature
    of_fit = times * float(gradient @ solve_positive(information, gradient)) / float(by_models.number) ** 2
    error = np.sqrt(max(max(variances) - of_fit, MIN_SHARE_OF_VARIANCE * max(variances)))
    z_score = float(np.log(by_histories.number / by_models.number) / error)
    looked_at = float(by_models.looked_at)
    return PriorGap(float(by_models.number) / looked_at, float(by_histories.number) / looked_at, z_score)


def _block_positives_gradient(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> tuple[Vector]:
    terms, of_f, gradient = objective.terms(X, rows, beta), objective.logits[0], np.zeros(beta.size)
    w = rows["w"] * (terms.looks.sum(axis=1) > 0)
    gradient[of_f.place] = linear.transposed_product(of_f.design.take(X), w * terms.f * terms.not_f)
    return (gradient,)


def _looks_follow_labels(engine: Engine, kinds: Array) -> bool:
    """Whether looks took place less often or more often after a label than without an earlier label."""
    after, n_after, without, n_without = (float(each) for each in engine.total(_block_later_looks, kinds))
    if not n_after or not n_without:
        return True
    share = (after + without) / (n_after + n_without)
    error = np.sqrt(max(share * (1.0 - share), 0.0) * (1.0 / n_after + 1.0 / n_without))
    return bool(abs(after / n_after - without / n_without) > MAX_Z_OF_LATER_LOOKS * error)


def _block_later_looks(X: Any, rows: Rows, kinds: Array) -> tuple[Any, ...]:
    """Return the numbers of actual and of possible looks after a label, then both numbers without an earlier label."""
    codes, counted = _codes_of_looks(rows, kinds), (rows["w"] > 0)[:, None]
    after = np.cumsum(codes == 1, axis=1)[:, :-1] > 0
    took_place = codes[:, 1:] >= 0
    parts = (after & took_place, after, ~after & took_place, ~after)
    return tuple(np.asarray(np.count_nonzero(each & counted) * 1.0) for each in parts)


def _part_to_test(problem: PairProblem, times: int = 1) -> PairProblem:
    """Return the problem on a part of a large table, with unchanged weights; the usual size is divided by `times`."""
    n_rows, labelled = problem.engine.n_rows, int(problem.labelled_share * problem.engine.n_rows)
    step = min(times * n_rows // ROWS_OF_TEST_PART, times * labelled // LABELLED_OF_TEST_PART)
    if step < 2 or problem.constraints:
        return problem
    part = problem.on(problem.engine.every(step))
    return part if 0.0 < part.labelled_share < 1.0 else problem


class _AuditSums(NamedTuple):
    """Sums over audited rows."""

    found: Any  # positives
    expected: Any  # expected positives, given the labels
    variance: Any  # of the number of positives
    gradient: Any  # of `expected`
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
    """Whether the models are small enough, and there are enough labels, for a score test."""
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
    """Return three expected numbers of looks at positives: all, those at the lower bound, and those at the upper bound.

    A look is at a bound if its propensity is at the bound. Bounds of 0 and 1 are ignored.
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
    """Return two expected numbers of looks at positives: all, and those with a propensity outside the bounds."""
    terms = objective.terms(X, rows, beta)
    w = (rows["w"] * terms.f)[:, None] * terms.looks
    outside = (terms.e < bounds[0] - OUTSIDE_MARGIN) | (terms.e > bounds[1] + OUTSIDE_MARGIN)
    return (np.array([w.sum(), (w * outside).sum()]),)
