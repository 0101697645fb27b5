"""What a stack is made of: classifiers that have not seen the labels that they are judged by, each recalibrated.

Beside them, the spread of what they think of a row, and the search for columns that drive the labelling where nobody
named any.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, log_expit, logit
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from scarless.checks.rows import row_totals
from scarless.checks.tables import take_rows
from scarless.engines import Engine, InMemoryEngine, Rows, attach
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities, softplus
from scarless.numerics.linear import Design
from scarless.numerics.newton import Solution
from scarless.numerics.objectives import KnownPropensity, LogisticPair
from scarless.numerics.recalibrated import columns_of_propensities
from scarless.numerics.scores import RankingGap, ranking_gap
from scarless.pair.cross_fit import Tell, held_out, judged, logit_of
from scarless.pair.crossed import (
    CrossOptions,
    cross_fit,
    judged_problem,
    numeric_columns,
    on_rows,
    row_values,
    with_values,
)
from scarless.pair.folds import Fold, FoldedRows
from scarless.pair.logistic import Training, as_targets, block_logits, constant_model, engine_of, fit_targets, ridge_of
from scarless.pair.problem import PairProblem, add_pseudo_observations, changed
from scarless.pair.recalibrated import FAR, Recalibration, recalibrate
from scarless.pair.search import (
    Grid,
    Path,
    fits_without,
    held_out_rows,
    held_out_sums,
    recalibrate_candidates,
    results_of,
    select,
    walk_to,
)
from scarless.pair.solving import PenalisedProblem

NAIVE = "naive"
#: Slopes of the propensity's logit in the class's that looks and audits choose from, where nobody named an attribute.
#: By judgement.
FOLLOWS_TRIED = (0.0, 0.5, 1.0)
_CS = np.array([0.01, 0.1, 1.0, 10.0, 100.0])
_PATH_TOL = 1e-6
_DIRECTION_TOL = 1e-5  # of directions that are averaged
_MOST_RANKED = 100_000  # rows that rankings are compared on
# Inverse penalties of the nameless logistic member, on standardised columns.
_STANDARD_CS = (0.01, 0.1, 1.0, 10.0)
# Label frequencies that it assumes, as powers of the share of labelled rows: the class prior lies between that share
# (power 0: unlabelled rows are negative) and 1 (power 1).
_FREQUENCY_POWERS = (0.0, 1.0 / 3.0, 2.0 / 3.0)


@dataclass(frozen=True)
class Member:
    """One classifier on one set of attributes."""

    name: str
    attributes: str
    u: Vector  # logits of the training rows, by fits that have not seen them
    recalibration: Recalibration
    logits: Callable[[Any], Vector]  # of other rows, not recalibrated
    model: Any
    n_iter: int
    weight: float = 1.0  # in the mean of the members; 0 where it ranks held-out labels worse than the naive model

    @property
    def f(self) -> Vector:
        """Recalibrated probabilities of the training rows."""
        return np.asarray(expit(self.recalibration(self.u)))


@dataclass(frozen=True)
class Linear:
    """A logistic model of some columns."""

    columns: Columns
    beta: Vector
    C: float

    def __call__(self, X: Any) -> Vector:
        """Return the logits of rows."""
        return np.asarray(numeric_columns(X, self.columns) @ self.beta[:-1], dtype=np.float64) + self.beta[-1]


def mean_logits(members: Sequence[Member], logits: list[Vector] | None = None) -> Vector:
    """Return the logit of the members' mean probability: of training rows, or of rows with these logits."""
    logits = [member.u for member in members] if logits is None else logits
    f = [expit(member.recalibration(u)) for member, u in zip(members, logits, strict=True)]
    return logit_of(np.average(f, axis=0, weights=[member.weight for member in members]))


def needs_dense(classifier: Any) -> bool:
    """Whether a member is known to refuse sparse rows, by scikit-learn's tags.

    A pipeline may make its rows dense on the way, which its tags do not say; None is the logistic model.
    """
    return not (classifier is None or isinstance(classifier, Pipeline) or get_tags(classifier).input_tags.sparse)


def refuse_sparse(X: Any, dense: list[str]) -> None:
    """Raise where rows are sparse and members of these names need dense ones."""
    if dense and sparse.issparse(X):
        named = ", ".join(map(repr, dense))
        raise ValueError(
            f"X is sparse, and {named} of the members cannot read sparse rows. Pass X.toarray(), or only members that "
            "can: None, the logistic model, is one."
        )


def logistic_member(
    name: str,
    attributes: str,
    training: Training,
    problem: PairProblem,
    f_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
) -> Member:
    """Fit two logistic models with the penalty nearest to 1 of those that held-out rows cannot tell from the best.

    The `problem` says what was observed, as in `cross_fit`.
    """
    engine = engine_of(training.X, **row_values(problem), w=training.weight)
    folded, grid = FoldedRows.of(engine, folds), Grid(_CS, np.array([options.propensity_C]))
    by_height = problem.told_by_height
    swappable = not by_height and bool(np.isin(f_columns, problem.e.indices).all())
    problem = on_rows(problem, engine, changed(problem.objective, f=Design.of(f_columns)))
    if not by_height:
        audits = add_pseudo_observations(engine, problem.e, options.audits, swappable=swappable)
        problem = problem._replace(audits=audits)
    path = Path(0, problem)
    settings: dict[str, Any] = {"tol": _PATH_TOL, "max_iter": options.max_iter}
    fits = fits_without([path], grid, [folded.to_fit(fold) for fold in range(folded.n_folds)], **settings)
    candidates = fits if by_height else recalibrate_candidates(fits, folded, problem, options.audits)
    sums = held_out_sums(candidates, folded)
    results = results_of([path], grid, sums, [attributes], tested=problem.weight, n_standard_errors=2.0)
    chosen = select(results, combine=not by_height, by_score=by_height).index
    C, propensity_C = grid.pairs()[chosen]
    fit = walk_to(path, grid, C, propensity_C, **settings)
    judged = held_out_rows(fits, folded, chosen)
    hold, start = fit.e if swappable else None, fit.e if by_height else None
    settings = {"audits": options.audits, "known": options.known}
    recalibration = recalibrate(problem._replace(engine=judged), hold=hold, start=start, **settings)
    linear, u = Linear(f_columns, fit.f, C), judged.collect(_logits)
    return Member(name, attributes, u, recalibration, linear, linear, max(fit.solution.n_iter, 1))


def _logits(X: Any, rows: Rows) -> Vector:
    return np.asarray(rows["u"])


def naive_member(training: Training, problem: PairProblem, folds: list[Fold], options: CrossOptions) -> Member:
    """Fit the naive logistic model, labelled against unlabelled rows, and recalibrate its held-out logits."""
    columns = np.arange(training.X.shape[1])
    rows = _FoldedTraining.of(training, columns, folds)
    (fit,) = _linear_path(rows, 1.0, (options.C,), np.ones(columns.size), options)
    linear = Linear(columns, fit.beta, options.C)
    recalibration = recalibrated_logits(training, problem, fit.held_out, folds, options)
    return Member(NAIVE, "all", fit.held_out, recalibration, linear, linear, 1)


def nameless_logistic_member(
    name: str,
    attributes: str,
    training: Training,
    problem: PairProblem,
    columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
) -> Member:
    """Fit a logistic direction where nobody named a propensity attribute.

    Several label frequencies, the same for all rows, and several penalties on standardised columns are tried. Their
    directions are averaged, each at unit spread, with weights proportional to the likelihood of held-out labels: from
    few labels no single candidate can be chosen reliably.
    """
    rows = _FoldedTraining.of(training, columns, folds)
    scale = _spread(rows.X, rows.w)
    candidates = [
        fit
        for power in _FREQUENCY_POWERS
        for fit in _linear_path(rows, rows.labelled_share**power, _STANDARD_CS, scale, options)
    ]
    values = np.array([each.log_likelihood for each in candidates])
    weight = np.exp(values - values.max())
    parts = [w / each.spread for w, each in zip(weight / weight.sum(), candidates, strict=True)]
    u = np.sum([part * each.held_out for part, each in zip(parts, candidates, strict=True)], axis=0)
    beta = np.sum([part * each.beta for part, each in zip(parts, candidates, strict=True)], axis=0)
    best = candidates[int(np.argmax(values))]
    linear = Linear(columns, beta, best.C)
    return Member(name, attributes, u, recalibrated_logits(training, problem, u, folds, options), linear, linear, 1)


def judge_by_naive(members: list[Member], naive: Member, training: Training, folds: list[Fold]) -> list[Member]:
    """Return the members with weight 0 where they rank held-out labels worse than the naive model, beyond chance.

    The naive model itself takes their place where no other member is left.
    """
    held = held_out(training.weight, folds)
    kept = held > 0
    s, w = training.s[kept], held[kept]
    weighed = [
        replace(each, weight=0.0 if ranking_gap(each.u[kept], naive.u[kept], s, w).is_loss else 1.0) for each in members
    ]
    return weighed if any(each.weight for each in weighed) else [*weighed, naive]


def gap_to_naive(problem: PairProblem, beta_f: Vector, beta_e: Vector | None = None) -> RankingGap | None:
    """Compare how a fit and the naive model with the same penalty rank the labels that they were fitted to.

    The classifier is compared, or with `beta_e` the product of both models. None where the rows are not in this
    machine's memory.
    """
    if not isinstance(problem.engine, InMemoryEngine):
        return None
    part = problem.thinned(_MOST_RANKED)
    seen = part.f if beta_e is None else Design.of(np.union1d(part.f.indices, part.e.indices))
    naive = fit_targets(part.engine.derive(as_targets), seen, C=part.C, tol=1e-6, max_iter=100).parameters
    u, by_naive = part.engine.collect(block_logits, part.f, beta_f), part.engine.collect(block_logits, seen, naive)
    if beta_e is not None:
        u = log_expit(u) + log_expit(part.engine.collect(block_logits, part.e, beta_e))
    s, w = (part.engine.collect(_value, name) for name in ("s", "w"))
    return ranking_gap(u, by_naive, s, w)


def _value(X: Any, rows: Rows, name: str) -> Vector:
    return np.asarray(rows[name])


@dataclass(frozen=True)
class _FoldedTraining:
    """Some columns of the training rows as numbers: all rows first, then all but each fold, as engines."""

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
    """One logistic model for an assumed label frequency and penalty."""

    C: float
    held_out: Vector  # logits of the training rows, by fits that have not seen them
    beta: Vector  # of all rows, in the units of the table
    spread: float  # standard deviation of its logits
    log_likelihood: float  # of held-out labels


def _linear_path(
    rows: _FoldedTraining, frequency: float, Cs: tuple[float, ...], scale: Vector, options: CrossOptions
) -> list[_LinearFit]:
    """Fit logistic models of the class to all rows and without each fold, from strong to weak penalties.

    Every positive is labelled with the same `frequency`. A coefficient's penalty counts per `scale` of its column.
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
        u = judged(pieces, rows.folds, rows.s.size)
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
    training: Training, problem: PairProblem, u: Vector, folds: list[Fold], options: CrossOptions
) -> Recalibration:
    """Return scale and level of held-out logits, with the problem's propensities, as all that was observed likes them.

    Where nobody named a propensity attribute, the propensity follows the class's logit. One label of each row does not
    say how much; several looks and audits do.
    """
    columns = columns_of_propensities(problem.objective)
    judged = with_values(judged_problem(training, problem, columns, folds), u=u)
    settings: dict[str, Any] = {"audits": options.audits, "known": options.known, "merge": True}
    if not (options.follow and problem.class_prior_is_identified):
        return recalibrate(judged, follow=options.follow, **settings)
    found = [recalibrate(judged, follow=follow, **settings) for follow in FOLLOWS_TRIED]
    return max(found, key=lambda each: each.log_likelihood)


def _spread(X: Any, w: Vector) -> Vector:
    """Return the standard deviation of each column, 1 for constant columns; sparse ones are not centred."""
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
    tell: Tell,
) -> Member:
    """Cross-fit any classifier together with logistic propensities."""
    following = bool(options.follow) and problem.class_prior_is_identified
    plain = replace(options, follow=0.0) if following else options
    crossed = cross_fit(classifier, training, problem, f_columns, folds, plain, tell)
    fit, steps, recalibration = crossed.fit, len(crossed.fit.log_likelihood), crossed.recalibration
    if following:
        recalibration = recalibrated_logits(training, problem, fit.u, folds, options)
    return Member(name, attributes, fit.u, recalibration, crossed.plain_logits, crossed, steps)


_ROWS = 1024  # whose mixtures are sorted at a time


def row_intervals(
    logits: list[Vector], recalibrations: list[Recalibration], level: float, *, v: Vector | None = None
) -> Matrix:
    """Return the ends of each row's interval for `f`: models in equal shares, each at all its levels.

    With logits `v` of the propensity: for the class of a row without a label.

    What the labels cannot tell of the level, and what the models differ in, is in it; the noise of each model's
    direction is not.
    """
    weight = np.concatenate([each.grid.doubtful_weight for each in recalibrations]) / len(recalibrations)
    tails = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    out = np.empty((logits[0].size, 2))
    for start in range(0, out.shape[0], _ROWS):
        rows = slice(start, start + _ROWS)
        values = np.hstack([_at_levels(each, u, v, rows) for each, u in zip(recalibrations, logits, strict=True)])
        out[rows] = expit(_weighted_quantiles(values, weight, tails))
    return out


def draw_posteriors(
    logits: list[Vector], recalibrations: list[Recalibration], v: Vector, priors: Vector, rng: np.random.Generator
) -> Matrix:
    """Draw each row's chance to be positive without a label, at each of these class priors by one of the models."""
    model, out = rng.integers(len(recalibrations), size=priors.size), np.empty((v.size, priors.size))
    for j, (u, recalibration) in enumerate(zip(logits, recalibrations, strict=True)):
        mine = model == j
        out[:, mine] = expit(recalibration.posterior_logits(u, v, priors[mine]))
    return out


def _at_levels(recalibration: Recalibration, u: Vector, v: Vector | None, rows: slice) -> Matrix:
    at = recalibration.at_levels(u[rows])
    return at if v is None else at - softplus(recalibration.propensity_at_levels(v[rows]))


def _weighted_quantiles(values: Matrix, weight: Vector, shares: Vector) -> Matrix:
    """Return quantiles of each row's values, interpolated between the middles of their weights."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    below = np.cumsum(weight[order], axis=1) - 0.5 * weight[order]
    pairs: Any = zip(below, ordered, strict=True)
    return np.array([np.interp(shares, at, value) for at, value in pairs])


MOST_COLUMNS = 100  # that are searched; wider tables were not tried
_MOST_FOUND = 3
_LASTING = 10  # columns that are tried again once the first one is found
_MOST_ROWS = 5_000  # of each kind, labelled and unlabelled; more take longer
_LOGIT_RIDGE, _CLASS_RIDGE, _PROPENSITY_RIDGE, _LEVEL_RIDGE = 0.05, 1.0, 0.25, 0.1
_TOL, _MAX_ITER = 1e-5, 50


class FoundColumn(NamedTuple):
    """A column that drives the labelling, and what the labels gain by it."""

    column: int
    gain: float  # of penalised log-likelihood


def least_gain(n_columns: int) -> float:
    """Return what a column must gain: the more are tried, the more the best of them gains by chance.

    Examples
    --------
    >>> print(f"{least_gain(1):.1f} {least_gain(20):.1f}")
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
    most: int = _MOST_FOUND,
) -> list[FoundColumn]:
    """Return columns that the labels say drive the labelling, the first found first, at most so many.

    `logits` are the class's, each by models that have not seen the row's label; rows that nobody `held` out do not
    count. Forward selection: each column is judged beside those that were `named` or found before. `tried` limits the
    columns that are judged.
    """
    rows, weight = _sampled(training.s, held)
    X, n_columns = _dense(training.X[rows]), training.X.shape[1]
    table = np.column_stack([_standardised(each, weight) for each in (*(u[rows] for u in logits), *X.T)])
    engine = engine_of(table, s=training.s[rows], w=weight)
    search = _Search(engine, table, weight, len(logits), named)
    lively = np.ptp(table[:, len(logits) :], axis=0) > 0
    tried = np.arange(n_columns) if tried is None else tried
    candidates = [int(column) for column in tried if lively[column] and column not in named]
    found: list[FoundColumn] = []
    while candidates and len(found) < most:
        gains = [search.gain(column) for column in candidates]
        best = int(np.argmax(gains))
        if gains[best] < least_gain(n_columns):
            break
        found.append(FoundColumn(candidates[best], gains[best]))
        search = search.with_column(candidates[best])
        candidates = [candidates[at] for at in np.argsort(gains)[::-1][:_LASTING] if at != best]
    return found


class _Search(NamedTuple):
    """The rows, the class logits in the first columns, and the columns that both models see already."""

    engine: Engine
    table: Matrix
    weight: Vector
    n_logits: int
    columns: tuple[int, ...]

    def gain(self, column: int) -> float:
        """Return what the labels gain if a column may drive the labelling, not the class alone."""
        plain = self._fit((*self.columns, column), self.columns, self._begin())
        n_class = self.n_logits + len(self.columns) + 1
        ends = []
        for effect in (1.0, -1.0):  # from no effect at all, the way to a strong one may lead uphill
            start = np.insert(plain.parameters, plain.parameters.size - 1, effect)
            start[n_class - 1] -= 0.5 * effect
            end = self._fit((*self.columns, column), (*self.columns, column), start)
            if self._class_tells_more(end.parameters, (*self.columns, column)):
                ends.append(end.value)
        return plain.value - min(ends, default=np.inf)

    def _class_tells_more(self, parameters: Vector, columns: tuple[int, ...]) -> bool:
        """Whether the class logit differs more between rows than the propensity's."""
        places, n_class = [self.n_logits + column for column in columns], self.n_logits + len(columns)
        u = self.table[:, [*range(self.n_logits), *places]] @ parameters[:n_class]
        v = self.table[:, places] @ parameters[n_class + 1 : -1]
        return weighted_variance(u, self.weight) > weighted_variance(v, self.weight)

    def with_column(self, column: int) -> "_Search":
        """Return the search with one more column in both models."""
        return self._replace(columns=(*self.columns, column))

    def _begin(self) -> Vector:
        """Return the start of a fit with one more column in the class: slopes of 1 over all logits together."""
        share = np.zeros(self.n_logits + len(self.columns) + 2)
        share[: self.n_logits] = 1.0 / self.n_logits
        return np.concatenate([share, np.zeros(len(self.columns) + 1)])

    def _fit(self, of_class: tuple[int, ...], of_propensity: tuple[int, ...], start: Vector) -> Solution:
        f, e = ([self.n_logits + column for column in columns] for columns in (of_class, of_propensity))
        pair = LogisticPair(Design.of(np.array([*range(self.n_logits), *f])), Design.of(np.array(e, dtype=np.intp)))
        ridge = np.concatenate([
            np.full(self.n_logits, _LOGIT_RIDGE), np.full(len(f), _CLASS_RIDGE), [0.0],
            np.full(len(e), _PROPENSITY_RIDGE), [_LEVEL_RIDGE],
        ])  # fmt: skip
        total, problem = float(self.weight.sum()), PenalisedProblem(self.engine, pair, ridge)
        return problem.solve(start, total_weight=total, tol=_TOL, max_iter=_MAX_ITER, damp_indefinite=True)


def _sampled(s: Vector, w: Vector) -> tuple[Columns, Vector]:
    """Return rows of both kinds, at most so many of each, and weights by which they stand for all."""
    rng, parts = np.random.default_rng(0), []
    for kind in (s == 1, s != 1):
        rows = np.flatnonzero(kind & (w > 0))
        kept = rows if rows.size <= _MOST_ROWS else np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
        parts.append((kept, w[kept] * (w[rows].sum() / max(w[kept].sum(), 1e-300))))
    rows, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows, weight


def _dense(X: Any) -> Any:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def weighted_variance(x: Vector, w: Vector) -> float:
    """Return the variance of values, logits beyond 10 as good as sure.

    Examples
    --------
    >>> weighted_variance(np.array([-1.0, 1.0]), np.ones(2)), weighted_variance(np.array([-1e9, 1e9]), np.ones(2))
    (1.0, 100.0)
    """
    x = np.clip(x, -FAR, FAR)
    return float(np.average((x - np.average(x, weights=w)) ** 2, weights=w))


def _standardised(x: Vector, w: Vector) -> Vector:
    """Return values around 0 with unit spread; constant ones as zeros."""
    centred = x - np.average(x, weights=w)
    spread = float(np.sqrt(np.average(centred**2, weights=w)))
    return centred / spread if spread > 1e-10 * (1.0 + float(np.abs(x).max())) else np.zeros(x.size)
