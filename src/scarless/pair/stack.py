"""Members of a stack: cross-fitted, recalibrated classifiers.

This module also computes intervals of single rows from all members, and searches for propensity attributes if none were
named.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, log_expit, logit
from scipy.stats import spearmanr
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from scarless.checks.rows import row_totals
from scarless.checks.tables import take_rows
from scarless.engines import Engine, InMemoryEngine, Rows, attach
from scarless.engines.device import DeviceEngine
from scarless.numerics.arrays import Columns, Integers, Matrix, Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities, softplus
from scarless.numerics.linear import Design
from scarless.numerics.newton import Solution
from scarless.numerics.objectives import KnownPropensity, LogisticPair
from scarless.numerics.recalibrated import columns_of_propensities
from scarless.numerics.scores import LikelihoodGap, RankingGap, likelihood_gap, ranking_gap
from scarless.pair.cross_fit import ProgressText, held_out, logit_of, out_of_fold_values
from scarless.pair.crossed import (
    CrossOptions,
    cross_fit,
    numeric_columns,
    on_rows,
    out_of_fold_problem,
    row_values,
    with_values,
)
from scarless.pair.folds import Fold, FoldedRows
from scarless.pair.logistic import (
    Training,
    as_targets,
    block_logits,
    constant_model,
    engine_of,
    fit_targets,
    in_memory,
    ridge_of,
)
from scarless.pair.problem import PairProblem, add_pseudo_observations, changed
from scarless.pair.recalibrated import LOGIT_CAP, ClassPriorGrid, Recalibration, recalibrate, recalibrate_roughly
from scarless.pair.search import (
    Grid,
    PenaltyPath,
    fit_at_penalties,
    fit_folds,
    held_out_rows,
    held_out_sums,
    recalibrate_candidates,
    results_table,
    select,
)
from scarless.pair.solving import PenalisedProblem

#: A member whose log-likelihood of held-out labels is lower by this number has 1/e of the weight of the best member.
#: Evidence: on 104 and 91 development tasks, without and with names, weights by 5 lower the mean squared error by .0005
#: and .0019 and by 10 about as much, compared with equal weights; on large tables, 5 raises it by .003.
LOG_LIKELIHOOD_SCALE = 10.0
#: Members with a smaller weight are left out. By judgement.
MIN_WEIGHT = 0.05
#: Slopes of the propensity's logit in the class logit that are tried if no propensity attributes were named and looks,
#: audits or constraints identify the class prior. By judgement.
FOLLOW_SLOPES_TRIED = (0.0, 0.5, 1.0)
#: Inverse penalties that the logistic member of a stack tries if propensity attributes are named. Evidence: on 80
#: and 16 development tasks, without 0.1 and 10 the area under the ROC curve is lower by .002 +- .002 and .002 +- .001.
_CS_TRIED = np.array([0.01, 0.1, 1.0, 10.0, 100.0])
_PATH_TOL = 1e-6  # tolerance per row of the fits that choose a penalty
_DIRECTION_TOL = 1e-5  # tolerance per row of the fits that are averaged
# In large tables, rankings are compared on every k-th row. There are at least these numbers of rows, of labelled rows,
# and of rows for each parameter, but no more rows are asked for than the last number.
_ROWS_RANKED, _LABELS_RANKED, _ROWS_RANKED_PER_PARAMETER, _MOST_ROWS_RANKED = 10_000, 1_000, 100, 100_000
# Fewest audited positives, and audited negatives, at which rankings of audited rows are compared.
MIN_AUDITS_OF_EACH_CLASS = 5
#: Inverse penalties of the logistic models that a user's classifier is compared with. By judgement.
_CS_COMPARED = np.array([0.1, 1.0])
#: A user's classifier and logistic models rank rows alike if the rank correlation is larger. By judgement.
_RANKED_ALIKE = 0.8
#: Inverse penalties of the logistic member if no propensity attributes were named, for standardised columns. By
#: judgement.
_STANDARD_CS = (0.01, 0.1, 1.0, 10.0)
#: Label frequency that this member assumes, as a power of the labelled share. Power 0 assumes that all unlabelled rows
#: are negative, and power 1 that all rows are positive. Evidence: on 79 development tasks, the area under the ROC curve
#: is .773 with power 0, .779 with 1/3, .784 with 2/3, and .780 with the mean of all three.
_FREQUENCY_POWER = 2.0 / 3.0


@dataclass(frozen=True)
class Member:
    """A cross-fitted classifier of a stack, which uses one set of attributes."""

    name: str
    attributes: str
    u: Vector  # out-of-fold logits of the training rows
    recalibration: Recalibration
    logits: Callable[[Any], Vector]  # logits of new rows before recalibration
    model: Any
    n_iter: int
    weight: float = 1.0  # weight in the mean, relative to the best member; see `weighed`

    @property
    def f(self) -> Vector:
        """Recalibrated probabilities of the training rows."""
        return np.asarray(expit(self.recalibration(self.u)))


@dataclass(frozen=True)
class LinearMember:
    """A logistic model of some columns."""

    columns: Columns
    beta: Vector
    C: float

    def __call__(self, X: Any) -> Vector:
        """Return the logits of rows."""
        return np.asarray(numeric_columns(X, self.columns) @ self.beta[:-1], dtype=np.float64) + self.beta[-1]


def mean_logits(members: Sequence[Member], logits: list[Vector] | None = None) -> Vector:
    """Return the logit of the mean probability of all members.

    By default, the result is for the training rows, from their out-of-fold logits. For other rows, pass the `logits` of
    each member before recalibration.
    """
    logits = [member.u for member in members] if logits is None else logits
    f = [expit(member.recalibration(u)) for member, u in zip(members, logits, strict=True)]
    return logit_of(np.average(f, axis=0, weights=[member.weight for member in members]))


def needs_dense(classifier: Any) -> bool:
    """Whether scikit-learn's tags say that a classifier does not accept sparse rows.

    The result is False for pipelines, because a step may make the rows dense. It is also False for None, which is the
    logistic model.
    """
    return not (classifier is None or isinstance(classifier, Pipeline) or get_tags(classifier).input_tags.sparse)


def refuse_sparse(X: Any, dense: list[str]) -> None:
    """Raise an error if rows are sparse and the named members need dense rows."""
    if dense and sparse.issparse(X):
        named = ", ".join(map(repr, dense))
        raise ValueError(
            f"X is sparse, but these members need dense rows: {named}. Pass X.toarray(), or leave these members out. "
            "The logistic model, ('logistic', None), accepts sparse rows."
        )


def logistic_member(
    name: str,
    attributes: str,
    training: Training,
    problem: PairProblem,
    f_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
    Cs: Vector = _CS_TRIED,
) -> Member:
    """Fit a logistic class model and a logistic propensity model.

    Of all penalties that are tied with the best on held-out rows, the penalty nearest to 1 is used. `problem` contains
    the observations of the training rows, as in `cross_fit`.
    """
    engine = engine_of(training.X, **row_values(problem), w=training.weight)
    folded, grid = FoldedRows.of(engine, folds), Grid(Cs, np.array([options.propensity_C]))
    extra = problem.has_extra_information
    swappable = not extra and bool(np.isin(f_columns, problem.e.indices).all())
    problem = on_rows(problem, engine, changed(problem.objective, f=Design.of(f_columns)))
    if not extra:
        pseudo = add_pseudo_observations(engine, problem.e, options.pseudo_weight, swappable=swappable)
        problem = problem._replace(pseudo_observations=pseudo)
    path = PenaltyPath(0, problem)
    settings: dict[str, Any] = {"tol": _PATH_TOL, "max_iter": options.max_iter}
    fits = fit_folds([path], grid, [folded.to_fit(fold) for fold in range(folded.n_folds)], **settings)
    candidates = fits if extra else recalibrate_candidates(fits, folded, problem, options.pseudo_weight)
    sums = held_out_sums(candidates, folded)
    results = results_table([path], grid, sums, [attributes], tested=problem.weight, n_standard_errors=2.0)
    chosen = select(results, combine=not extra, by_score=extra).index
    C, propensity_C = grid.pairs()[chosen]
    fit = fit_at_penalties(path, grid, C, propensity_C, **settings)
    out_of_fold = held_out_rows(fits, folded, chosen)
    hold, start = fit.e if swappable else None, fit.e if extra else None
    settings = {"pseudo_weight": options.pseudo_weight, "known": options.known}
    recalibration = recalibrate(problem._replace(engine=out_of_fold), hold=hold, start=start, **settings)
    linear, u = LinearMember(f_columns, fit.f, C), out_of_fold.collect(_logits)
    return Member(name, attributes, u, recalibration, linear, linear, max(fit.solution.n_iter, 1))


def _logits(X: Any, rows: Rows) -> Vector:
    return np.asarray(rows["u"])


def logistic_member_without_attributes(
    name: str,
    attributes: str,
    training: Training,
    problem: PairProblem,
    columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
) -> Member:
    """Fit a logistic member if no propensity attributes were named.

    The class model is fitted with a constant label frequency, and with several penalties on standardised columns. The
    logits of each fit are scaled to a standard deviation of 1. They are then averaged, with weights proportional to the
    likelihood of held-out labels. With few labels, choosing a single fit would be unreliable.
    """
    rows = _FoldedTraining.of(training, columns, folds)
    frequency = rows.labelled_share**_FREQUENCY_POWER
    candidates = _linear_path(rows, frequency, _STANDARD_CS, _spread(rows.X, rows.w), options)
    values = np.array([each.log_likelihood for each in candidates])
    weight = np.exp(values - values.max())
    parts = [w / each.spread for w, each in zip(weight / weight.sum(), candidates, strict=True)]
    u = np.sum([part * each.held_out for part, each in zip(parts, candidates, strict=True)], axis=0)
    beta = np.sum([part * each.beta for part, each in zip(parts, candidates, strict=True)], axis=0)
    best = candidates[int(np.argmax(values))]
    linear = LinearMember(columns, beta, best.C)
    return Member(name, attributes, u, recalibrated_logits(training, problem, u, folds, options), linear, linear, 1)


def weighed(members: Sequence[Member]) -> list[Member]:
    """Return the members with their weights in the mean, from the log-likelihood of held-out labels."""
    gain = np.array([member.recalibration.log_likelihood for member in members])
    weight = np.exp((gain - gain.max()) / LOG_LIKELIHOOD_SCALE)
    kept = np.where(weight < MIN_WEIGHT, 0.0, weight)
    return [replace(member, weight=float(each)) for member, each in zip(members, kept, strict=True)]


def held_out_gap_to_naive(
    u: Vector,
    training: Training,
    folds: list[Fold],
    options: CrossOptions,
    *,
    audit: NDArray[np.integer[Any]] | None = None,
) -> RankingGap | None:
    """Compare how well out-of-fold logits `u` and the naive model rank held-out labels.

    With `audit`, they rank the classes of audited rows instead; the result is None if too few rows were audited.
    """
    rows = _FoldedTraining.of(training, np.arange(training.X.shape[1]), folds)
    (naive,) = _linear_path(rows, 1.0, (1.0,), np.ones(training.X.shape[1]), options)
    return _gap(u, naive.held_out, training.s, held_out(training.weight, folds), audit)


def gap_to_naive(
    problem: PairProblem, beta_f: Vector, beta_e: Vector | None = None, *, by_audits: bool = False
) -> RankingGap | None:
    """Compare how well a fit and the naive model rank the training labels or, `by_audits`, the classes of audited rows.

    The result is None for rows that are neither in memory nor on a device, because reading them takes too long, and if
    too few rows were audited.

    The naive model has the same penalty as the fit. The fit ranks rows by the class probability or, with `beta_e`, by
    the product of class probability and propensity. The naive model of audited rows uses the columns of both models.
    """
    if not isinstance(problem.engine, InMemoryEngine | DeviceEngine):
        return None
    only_class = beta_e is None and not by_audits
    seen = problem.f if only_class else Design.of(np.union1d(problem.f.indices, problem.e.indices))
    enough = max(
        _ROWS_RANKED,
        _ROWS_RANKED_PER_PARAMETER * seen.n_parameters,
        math.ceil(_LABELS_RANKED / max(problem.labelled_share, _LABELS_RANKED / _MOST_ROWS_RANKED)),
    )
    part = problem.thinned(min(enough, _MOST_ROWS_RANKED))
    naive = fit_targets(part.engine.derive(as_targets), seen, C=part.C, tol=1e-6, max_iter=100).parameters
    ranked = problem.engine if by_audits else part.engine
    u, by_naive = ranked.collect(block_logits, part.f, beta_f), ranked.collect(block_logits, seen, naive)
    if beta_e is not None:
        u = log_expit(u) + log_expit(ranked.collect(block_logits, part.e, beta_e))
    audit = in_memory(ranked, "audit") if by_audits else None
    return _gap(u, by_naive, in_memory(ranked, "s"), in_memory(ranked, "w"), audit)


def _gap(u: Vector, by_naive: Vector, s: Vector, w: Vector, audit: Any) -> RankingGap | None:
    """Compare two rankings by the labels of rows with positive weight, or by the classes of those that were audited."""
    counted, truth = w > 0, s
    if audit is not None:
        counted, truth = counted & (audit >= 0), (audit == 1).astype(np.float64)
        n_positive, n = np.count_nonzero(truth[counted]), np.count_nonzero(counted)
        if min(n_positive, n - n_positive) < MIN_AUDITS_OF_EACH_CLASS:
            return None
    return ranking_gap(u[counted], by_naive[counted], truth[counted], w[counted])


def gap_to_logistic(
    u: Vector,
    recalibration: Recalibration,
    training: Training,
    problem: PairProblem,
    f_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
) -> LikelihoodGap | None:
    """Compare how likely held-out labels are with a recalibrated classifier and with two logistic models.

    `u` are the out-of-fold logits of the classifier, and `problem` has its propensity attributes, with one label for
    each row. Both class models are recalibrated together with a logistic propensity in the same attributes, so only the
    class models differ. Rankings of labels would be a poor comparison, because the propensity alone ranks labels well.
    The result is None if both rank the rows nearly alike.
    """
    logistic = logistic_member("logistic", "", training, problem, f_columns, folds, options, _CS_COMPARED)
    held = held_out(training.weight, folds)
    if spearmanr(u[held > 0], logistic.u[held > 0]).statistic > _RANKED_ALIKE:
        return None
    seen = numeric_columns(training.X, columns_of_propensities(problem.objective))
    first = _label_log_likelihood(u, recalibration, seen, training.s)
    second = _label_log_likelihood(logistic.u, logistic.recalibration, seen, training.s)
    return likelihood_gap(first, second, held)


def _label_log_likelihood(u: Vector, recalibration: Recalibration, seen: Any, s: Vector) -> Vector:
    """Return the log-likelihood of each row's label; `seen` are the propensity attributes."""
    *slopes, intercept = recalibration.e
    v = np.asarray(seen @ np.array(slopes)) + intercept
    return log_likelihood_of_probabilities(np.asarray(expit(recalibration(u))), np.asarray(expit(v)), s)


@dataclass(frozen=True)
class _FoldedTraining:
    """Some columns of the training rows, with one engine of all rows, then one engine for each fold."""

    X: Any
    s: Vector
    w: Vector
    folds: list[Fold]
    engines: list[Engine]

    @classmethod
    def of(cls, training: Training, columns: Columns, folds: list[Fold]) -> "_FoldedTraining":
        X, s, w = numeric_columns(training.X, columns), training.s, training.weight
        parts = [np.arange(s.size), *(train for train, _ in folds)]
        return cls(X, s, w, folds, [engine_of(take_rows(X, rows), s=s[rows], w=w[rows]) for rows in parts])

    @property
    def labelled_share(self) -> float:
        """Share of rows that are labelled."""
        return float(self.w @ self.s) / float(self.w.sum())


@dataclass(frozen=True)
class _LinearFit:
    """A logistic class model, fitted with an assumed label frequency and a penalty."""

    C: float
    held_out: Vector  # out-of-fold logits of the training rows
    beta: Vector  # parameters of the fit to all rows, in the units of the table
    spread: float  # standard deviation of the logits
    log_likelihood: float  # of held-out labels


def _linear_path(
    rows: _FoldedTraining, frequency: float, Cs: tuple[float, ...], scale: Vector, options: CrossOptions
) -> list[_LinearFit]:
    """Fit logistic class models to all rows and to the training rows of each fold, for each penalty.

    All positives are assumed to be labelled with the same probability, `frequency`. The penalties refer to columns
    divided by `scale`. Each fit starts at the result of the previous penalty.
    """
    design = Design.of(np.arange(rows.X.shape[1]))
    first = constant_model(design, min(rows.labelled_share / frequency, 0.9))
    with np.errstate(divide="ignore"):
        v = float(logit(frequency))
    engines = [attach(each, v=np.full(each.n_rows, v)) for each in rows.engines]
    betas, held, path = [first] * len(engines), held_out(rows.w, rows.folds), []
    for C in Cs:
        ridge = ridge_of(design, C) * np.append(scale**2, 1.0)
        betas = [_solved(each, design, ridge, beta, options) for each, beta in zip(engines, betas, strict=True)]
        pieces = [_linear(take_rows(rows.X, test), beta) for (_, test), beta in zip(rows.folds, betas[1:], strict=True)]
        u = out_of_fold_values(pieces, rows.folds, rows.s.size)
        likelihood = log_likelihood_of_probabilities(np.asarray(expit(u)), np.full(u.size, frequency), rows.s)
        spread = float(np.sqrt(np.cov(_linear(rows.X, betas[0]), aweights=rows.w)))
        path.append(_LinearFit(C, u, betas[0], max(spread, 1e-12), float(held @ likelihood)))
    return path


def _solved(engine: Engine, design: Design, ridge: Vector, start: Vector, options: CrossOptions) -> Vector:
    problem = PenalisedProblem(engine, KnownPropensity(design), ridge)
    weight = row_totals(engine).weight
    return problem.solve(start, total_weight=weight, tol=_DIRECTION_TOL, max_iter=options.max_iter).parameters


def _linear(X: Any, beta: Vector) -> Vector:
    return np.asarray(X @ beta[:-1], dtype=np.float64) + beta[-1]


def recalibrated_logits(
    training: Training,
    problem: PairProblem,
    u: Vector,
    folds: list[Fold],
    options: CrossOptions,
    *,
    roughly: bool = False,
    beside: ClassPriorGrid | None = None,
) -> Recalibration:
    """Return the recalibration of out-of-fold logits `u`, with the propensities of the problem.

    If no propensity attributes were named, the propensity's logit is linear in the class logit. If looks, audits or
    constraints identify the class prior, several slopes are tried, and the slope with the highest likelihood is used.
    Otherwise the slope is ``options.follow``. With `roughly`, there is no grid of class priors. `beside` is the grid of
    another model, over which the class prior is averaged too.
    """
    columns = columns_of_propensities(problem.objective)
    out_of_fold = with_values(out_of_fold_problem(training, problem, columns, folds), u=u)
    if roughly:
        return recalibrate_roughly(out_of_fold, pseudo_weight=options.pseudo_weight, follow=options.follow)
    settings: dict[str, Any] = {"pseudo_weight": options.pseudo_weight, "known": options.known, "merge": True}
    if not (options.follow and problem.class_prior_is_identified):
        return recalibrate(out_of_fold, follow=options.follow, beside=beside, **settings)
    found = [recalibrate(out_of_fold, follow=follow, **settings) for follow in FOLLOW_SLOPES_TRIED]
    return max(found, key=lambda each: each.log_likelihood)


def _spread(X: Any, w: Vector) -> Vector:
    """Return the standard deviation of each column, or 1 if the column is constant.

    The result for a sparse column is its root mean square.
    """
    if sparse.issparse(X):
        square, mean = np.asarray(X.multiply(X).T @ w) / w.sum(), np.zeros(X.shape[1])
    else:
        mean = np.average(X, axis=0, weights=w)
        square = np.average(np.square(X - mean), axis=0, weights=w)
    return np.sqrt(np.where(square <= 1e-20 * (mean**2 + 1.0), 1.0, square))


def cross_fit_member(
    name: str,
    attributes: str,
    classifier: Any,
    training: Training,
    problem: PairProblem,
    f_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
    progress: ProgressText,
    first: Vector | None,
) -> Member:
    """Cross-fit any classifier together with logistic propensities.

    `first` are the recalibrated out-of-fold logits of the members that were fitted before; see `cross_fit`.
    """
    following = bool(options.follow) and problem.class_prior_is_identified
    plain = replace(options, follow=0.0) if following else options
    crossed = cross_fit(classifier, training, problem, f_columns, folds, plain, progress, first=first)
    fit, steps, recalibration = crossed.fit, len(crossed.fit.log_likelihood), crossed.recalibration
    if following:
        recalibration = recalibrated_logits(training, problem, fit.u, folds, options)
    return Member(name, attributes, fit.u, recalibration, crossed.plain_logits, crossed, steps)


_ROWS_PER_CHUNK = 1024  # rows whose mixtures are sorted at a time, to limit memory


def row_intervals(
    logits: list[Vector], recalibrations: list[Recalibration], level: float, *, v: Vector | None = None
) -> Matrix:
    """Return the interval of the class probability of each row: quantiles over all models and their grids.

    If the propensity logits `v` are passed, the result is the interval of the posterior, for an unlabelled row.
    Intervals include the uncertainty of the class prior and the differences between models, but not the estimation
    error of each model.
    """
    weight = np.concatenate([each.grid.interval_weight for each in recalibrations]) / len(recalibrations)
    tails = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    out = np.empty((logits[0].size, 2))
    for start in range(0, out.shape[0], _ROWS_PER_CHUNK):
        rows = slice(start, start + _ROWS_PER_CHUNK)
        values = np.hstack([_on_grid(each, u, v, rows) for each, u in zip(recalibrations, logits, strict=True)])
        out[rows] = expit(_weighted_quantiles(values, weight, tails))
    return out


def draw_posteriors(
    logits: list[Vector], recalibrations: list[Recalibration], v: Vector, priors: Vector, model: Integers
) -> Matrix:
    """Return drawn posteriors of unlabelled rows: one for each class prior, each by the model with the given number."""
    out = np.empty((v.size, priors.size))
    for j, (u, recalibration) in enumerate(zip(logits, recalibrations, strict=True)):
        drawn = model == j
        out[:, drawn] = expit(recalibration.posterior_logits(u, v, priors[drawn]))
    return out


def _on_grid(recalibration: Recalibration, u: Vector, v: Vector | None, rows: slice) -> Matrix:
    at = recalibration.logits_on_grid(u[rows])
    return at if v is None else at - softplus(recalibration.propensity_logits_on_grid(v[rows]))


def _weighted_quantiles(values: Matrix, weight: Vector, shares: Vector) -> Matrix:
    """Return weighted quantiles of the values in each row, interpolated between values."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    below = np.cumsum(weight[order], axis=1) - 0.5 * weight[order]
    pairs: Any = zip(below, ordered, strict=True)
    return np.array([np.interp(shares, at, value) for at, value in pairs])


#: A stack does not search wider tables for propensity attributes, because the search was not tested on them. By
#: judgement.
MAX_COLUMNS_SEARCHED = 100
#: Largest number of propensity attributes that a stack finds itself. By judgement.
_MAX_COLUMNS_FOUND = 3
_MAX_COLUMNS_RETRIED = 10  # number of the best columns that are tried again after a column was found
_MAX_ROWS_PER_LABEL = 5_000  # the search uses at most this many labelled rows, and as many unlabelled rows, for speed
#: Ridge penalties of this search: on class logits, on columns of the class model, on columns of the propensity model,
#: and on the intercept of the propensity model. By judgement.
_LOGIT_RIDGE, _CLASS_RIDGE, _PROPENSITY_RIDGE, _INTERCEPT_RIDGE = 0.05, 1.0, 0.25, 0.1
_TOL, _MAX_ITER = 1e-5, 50


class FoundColumn(NamedTuple):
    """A column that drives the labelling."""

    column: int
    gain: float  # in penalised log-likelihood


def min_gain(n_columns: int) -> float:
    """Return the smallest log-likelihood gain at which a column is accepted, given the number of columns.

    Examples
    --------
    >>> print(f"{min_gain(1):.1f} {min_gain(20):.1f}")
    1.0 2.5
    """
    return 1.0 + 0.5 * float(np.log(n_columns))


def find_columns(
    training: Training,
    logits: list[Vector],
    held: Vector,
    *,
    named: tuple[int, ...] = (),
    tried: Columns | None = None,
    most: int = _MAX_COLUMNS_FOUND,
) -> list[FoundColumn]:
    """Search for columns that drive the labelling, by forward selection; return at most `most` columns.

    `logits` are the out-of-fold class logits of one or several classifiers, and `held` are the weights of held-out
    rows. Each column is tested in addition to the `named` columns and the columns found before. If `tried` is given,
    only these columns are tested.
    """
    rows, weight = _sampled(training.s, held)
    X, n_columns = _dense(training.X[rows]), training.X.shape[1]
    table = np.column_stack([_standardised(each, weight) for each in (*(u[rows] for u in logits), *X.T)])
    engine = engine_of(table, s=training.s[rows], w=weight)
    search = _ColumnSearch(engine, table, weight, len(logits), named)
    varies = np.ptp(table[:, len(logits) :], axis=0) > 0
    tried = np.arange(n_columns) if tried is None else tried
    candidates = [int(column) for column in tried if varies[column] and column not in named]
    found: list[FoundColumn] = []
    while candidates and len(found) < most:
        gains = [search.gain(column) for column in candidates]
        best = int(np.argmax(gains))
        if gains[best] < min_gain(n_columns):
            break
        found.append(FoundColumn(candidates[best], gains[best]))
        search = search.with_column(candidates[best])
        candidates = [candidates[at] for at in np.argsort(gains)[::-1][:_MAX_COLUMNS_RETRIED] if at != best]
    return found


class _ColumnSearch(NamedTuple):
    """State of a search: a table whose first columns are class logits, and the columns that both models use so far."""

    engine: Engine
    table: Matrix
    weight: Vector
    n_logits: int
    columns: tuple[int, ...]

    def gain(self, column: int) -> float:
        """Return the log-likelihood gain if both models use a column, compared with the class model alone."""
        plain = self._fit((*self.columns, column), self.columns, self._begin())
        n_class = self.n_logits + len(self.columns) + 1
        ends = []
        for effect in (1.0, -1.0):  # a fit that starts without an effect may end at a lower optimum
            start = np.insert(plain.parameters, plain.parameters.size - 1, effect)
            start[n_class - 1] -= 0.5 * effect
            end = self._fit((*self.columns, column), (*self.columns, column), start)
            if self._class_varies_more(end.parameters, (*self.columns, column)):
                ends.append(end.value)
        return plain.value - min(ends, default=np.inf)

    def _class_varies_more(self, parameters: Vector, columns: tuple[int, ...]) -> bool:
        """Whether the class logit varies more between rows than the propensity logit."""
        places, n_class = [self.n_logits + column for column in columns], self.n_logits + len(columns)
        u = self.table[:, [*range(self.n_logits), *places]] @ parameters[:n_class]
        v = self.table[:, places] @ parameters[n_class + 1 : -1]
        return weighted_variance(u, self.weight) > weighted_variance(v, self.weight)

    def with_column(self, column: int) -> "_ColumnSearch":
        """Return the search with one more column in both models."""
        return self._replace(columns=(*self.columns, column))

    def _begin(self) -> Vector:
        """Return the start of a fit with one more column in the class model, at the mean of all class logits."""
        share = np.zeros(self.n_logits + len(self.columns) + 2)
        share[: self.n_logits] = 1.0 / self.n_logits
        return np.concatenate([share, np.zeros(len(self.columns) + 1)])

    def _fit(self, of_class: tuple[int, ...], of_propensity: tuple[int, ...], start: Vector) -> Solution:
        f, e = ([self.n_logits + column for column in columns] for columns in (of_class, of_propensity))
        pair = LogisticPair(Design.of(np.array([*range(self.n_logits), *f])), Design.of(np.array(e, dtype=np.intp)))
        ridge = np.concatenate([
            np.full(self.n_logits, _LOGIT_RIDGE), np.full(len(f), _CLASS_RIDGE), [0.0],
            np.full(len(e), _PROPENSITY_RIDGE), [_INTERCEPT_RIDGE],
        ])  # fmt: skip
        total, problem = float(self.weight.sum()), PenalisedProblem(self.engine, pair, ridge)
        return problem.solve(start, total_weight=total, tol=_TOL, max_iter=_MAX_ITER, damp_indefinite=True)


def _sampled(s: Vector, w: Vector) -> tuple[Columns, Vector]:
    """Return a sample of labelled rows and of unlabelled rows, with their weights.

    The weights of each kind of row are scaled to the total weight of all rows of this kind.
    """
    rng, parts = np.random.default_rng(0), []
    for kind in (s == 1, s != 1):
        rows = np.flatnonzero(kind & (w > 0))
        kept = (
            rows if rows.size <= _MAX_ROWS_PER_LABEL else np.sort(rng.choice(rows, _MAX_ROWS_PER_LABEL, replace=False))
        )
        parts.append((kept, w[kept] * (w[rows].sum() / max(w[kept].sum(), 1e-300))))
    rows, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows, weight


def _dense(X: Any) -> Any:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def weighted_variance(x: Vector, w: Vector) -> float:
    """Return the weighted variance of logits, which are clipped to [-10, 10].

    Examples
    --------
    >>> weighted_variance(np.array([-1.0, 1.0]), np.ones(2)), weighted_variance(np.array([-1e9, 1e9]), np.ones(2))
    (1.0, 100.0)
    """
    x = np.clip(x, -LOGIT_CAP, LOGIT_CAP)
    return float(np.average((x - np.average(x, weights=w)) ** 2, weights=w))


def _standardised(x: Vector, w: Vector) -> Vector:
    """Return values with mean 0 and standard deviation 1; constant values become 0."""
    centred = x - np.average(x, weights=w)
    spread = float(np.sqrt(np.average(centred**2, weights=w)))
    return centred / spread if spread > 1e-10 * (1.0 + float(np.abs(x).max())) else np.zeros(x.size)
