r"""A classifier of the user's, cross-fitted and recalibrated: from checked rows to what a fit stores.

The class's logit is :math:`m + a + b (u + g'z - m)`, with `u` from models that have not seen the row and `z`
propensity attributes that the classifier may see too: the tilt. Measured with boosting and 4,000 rows, 10 runs each,
without and with a tilt: error of the class prior .025 and .021 with two looks, .021 and .014 with 200 audits.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.estimators import final_step
from scarless.checks.rows import row_totals
from scarless.checks.tables import check_numeric, take_columns, take_rows
from scarless.engines import Engine, attach
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.linear import Design
from scarless.numerics.objectives import PairObjective
from scarless.numerics.recalibrated import RecalibratedPair, columns_of_propensities, moved_to_logits
from scarless.outside.notices import warn_user
from scarless.pair.boosting import booster_kind, boosters_of, most_rounds
from scarless.pair.constraints import KnownShare
from scarless.pair.cross_fit import (
    Boosted,
    CrossFit,
    Evidence,
    FixedPropensity,
    LearnedPropensity,
    LogisticPropensity,
    OneLabel,
    Propensity,
    Tell,
    alternate,
    boost,
    evidence_of,
    held_out,
)
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.folds import Fold
from scarless.pair.learners import as_learner, refuse_gaps
from scarless.pair.logistic import Training, engine_of, fit_known_propensity, in_memory
from scarless.pair.problem import PairProblem, add_pseudo_observations, changed
from scarless.pair.recalibrated import FOLLOW, ClassPriorGrid, Recalibration, grid_beside, recalibrate, standard_scales

NO_COLUMNS = np.arange(0)
_FELL, _ROSE = 1e-3, 0.05  # held-out log-likelihood per row, mean propensity: what is no noise any more
SLOPE_C = 100.0  # as good as no penalty, but finite where held-out labels are separable
_LEAST_SCALE = 0.1  # of held-out logits, below which they say too little of the class to be tilted
_PATIENCE = 25  # rounds of boosting without a better held-out likelihood


@dataclass(frozen=True)
class CrossOptions:
    """How to cross-fit."""

    C: float
    propensity_C: float
    audits: float
    tol: float
    max_iter: int
    n_jobs: int | None
    window: int = 10  # steps of EM, which together must gain less than `tol`
    follow: float = 0.0  # the slope of the propensity's logit in the class logit, where nobody named its attributes
    known: tuple[KnownShare, ...] = ()  # from elsewhere


@dataclass(frozen=True)
class Crossed:
    """A cross-fitted classifier with its propensities, recalibrated. Holds no table.

    `objective` is a likelihood of the table that `table` makes of any rows, and `parameters` are those of the fit.
    """

    fit: CrossFit
    learned: LearnedPropensity | None  # the propensity, where it is a model of the user's
    recalibration: Recalibration
    f_columns: Columns
    e_columns: Columns  # what propensities see
    objective: PairObjective
    parameters: Vector
    beside: ClassPriorGrid | None = None  # of a propensity that follows the class too, for intervals
    tilt: Vector | None = None  # of the class's logit, by each of `e_columns`, then a constant; see `_tilt`

    @property
    def grids(self) -> tuple[ClassPriorGrid, ...]:
        """How likely each class prior is, for intervals."""
        return (self.recalibration.grid,) if self.beside is None else (self.recalibration.grid, self.beside)

    def table(self, X: Any) -> Matrix:
        """Return what the likelihood reads of rows: the class's logit before it is recalibrated, then what propensities see.

        A propensity that is a model of the user's has its own logit there.
        """
        u = self.plain_logits(X)
        if self.learned is not None:
            return np.column_stack([u, self.learned.logits(take_columns(X, self.e_columns))])
        return np.column_stack([u, dense(numeric_columns(X, self.e_columns))])

    def members(self, table: Matrix) -> list[tuple[Vector, Recalibration]]:
        """Return the class's logits in a table, and how they are recalibrated."""
        return [(table[:, 0], self.recalibration)]

    def held_out(self) -> Vector:
        """Return the class's logit of each training row, recalibrated, by models that have not seen its label."""
        return self.recalibration(self.fit.u)

    def plain_logits(self, X: Any) -> Vector:
        """Return the class's logits of other rows as the models have them."""
        plain = self.fit.logits(take_columns(X, self.f_columns))
        return plain if self.tilt is None else plain + _tilted(numeric_columns(X, self.e_columns), self.tilt)


def cross_fit(
    classifier: Any,
    training: Training,
    problem: PairProblem,
    f_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
    tell: Tell,
    *,
    propensity_model: Any = None,
) -> Crossed:
    """Fit a classifier in folds, together with propensities, and recalibrate both.

    The `problem` says what was observed: its rows have all values of the rows of `training`, its likelihood and facts
    are in the columns of that table. What its class model sees, and what its own table holds, does not matter.
    A `propensity_model` of the user's takes the place of a logistic propensity; with one label of each row.
    """
    X, e_columns = training.X, columns_of_propensities(problem.objective)
    guard = not problem.told_by_height and bool(np.isin(f_columns, e_columns).all())
    propensity: LearnedPropensity | LogisticPropensity
    if propensity_model is not None:
        e_columns = problem.e.indices
        learners = [as_learner(propensity_model, name="propensity_estimator", C=options.propensity_C) for _ in folds]
        propensity = LearnedPropensity(learners, take_columns(X, e_columns), training.s, training.weight, folds)
        judged = judged_problem(training, problem, NO_COLUMNS, folds)
    else:
        judged = judged_problem(training, problem, e_columns, folds)
        audits = 0.0 if problem.class_prior_is_identified else options.audits
        judged = judged._replace(audits=add_pseudo_observations(judged.engine, judged.e, audits, swappable=guard))
        propensity = LogisticPropensity(judged, held=guard)
    seen, f_table = evidence_of(judged), take_columns(X, f_columns)
    fit = fit_classifier(classifier, f_table, seen, training.weight, folds, propensity, options, tell)
    propensity.v = fit.v  # from where the best step was: the last one may lie elsewhere
    propensity.update(fit.u)
    if isinstance(propensity, LearnedPropensity):
        fit = fit._replace(v=propensity.v)
        found = recalibrate(with_values(judged, u=fit.u, v=fit.v), audits=options.audits, given=True)
        propensity.forget()
        objective, parameters = found.on_table_of_logits(judged.objective, given=True)
        return Crossed(fit, propensity, found, f_columns, e_columns, objective, parameters)
    tilt, shared = None, np.isin(e_columns, f_columns)
    # Measured for boosting with looks and audits (see the top of this module); with one label it was not better.
    if shared.any() and (problem.told_by_height or not (guard or is_boosted(fit))):
        tilt = _tilt(judged, propensity.others, fit.u, shared)
        fit = fit._replace(u=fit.u + _tilted(numeric_columns(X, e_columns), tilt))
        propensity.update(fit.u)
    fit, rows = fit._replace(v=propensity.v), with_values(judged, u=fit.u)
    settings: dict[str, Any] = {"audits": options.audits, "known": options.known, "merge": True}
    settings |= {"start": propensity.others} if problem.told_by_height else {}
    found = recalibrate(rows, hold=propensity.others if guard else None, follow=options.follow, **settings)
    beside = None
    if e_columns.size and not (guard or options.follow or problem.class_prior_is_identified):
        beside = grid_beside(found, recalibrate(rows, follow=FOLLOW, **settings))
    objective, parameters = found.on_table_of_logits(judged.objective)
    return Crossed(fit, None, found, f_columns, e_columns, objective, parameters, beside, tilt)


def one_label_problem(training: Training, e_columns: Columns, options: CrossOptions) -> PairProblem:
    """Return what a cross-fit is told of one label of each row, and of the columns that drive the labelling."""
    engine = engine_of(np.empty((training.s.size, 0)), s=training.s, w=training.weight)
    return PairProblem.of(engine, Design.of(NO_COLUMNS), Design.of(e_columns), options.C, options.propensity_C)


def problem_on_table(crossed: Crossed, training: Training, problem: PairProblem) -> tuple[PairProblem, Vector]:
    """Return the problem of a cross-fit's own table on the training rows, and the parameters of the fit there.

    For doubts, and for the delta method: the class model sees what its logit was tilted by too, with coefficients that
    are 0 at the fit, so that intervals count what the rows do not tell of the tilt.
    """
    shared = np.isin(crossed.e_columns, crossed.f_columns) & (crossed.tilt is not None)
    seen = dense(numeric_columns(training.X, crossed.e_columns))
    rows = row_values(problem) | {"w": crossed.fit.weight}
    engine = engine_of(np.column_stack([crossed.fit.u, seen]), **rows)
    objective = changed(crossed.objective, f=_logit_and(shared))
    parameters = np.insert(crossed.parameters, 1, np.zeros(int(shared.sum())))
    return on_rows(problem, engine, objective)._replace(C=SLOPE_C), parameters


def _logit_and(shared: Any) -> Design:
    """Return what a class model sees of a table that has logits first: these, and some of the columns behind them."""
    return Design.of(np.append(0, 1 + np.flatnonzero(shared)).astype(np.intp))


def judged_problem(training: Training, problem: PairProblem, columns: Columns, folds: list[Fold]) -> PairProblem:
    """Return the problem on a table of some columns alone, with the weight of rows that some fold holds out."""
    rows = row_values(problem) | {"w": held_out(training.weight, folds)}
    engine = engine_of(numeric_columns(training.X, columns), **rows)
    return on_rows(problem, engine, moved_to_logits(problem.objective, columns, 0))


def on_rows(problem: PairProblem, engine: Engine, objective: PairObjective) -> PairProblem:
    """Return the problem on other rows, or on a table with other columns."""
    facts = tuple(replace(fact, engine=engine, objective=objective) for fact in problem.facts)
    return problem._replace(engine=engine, totals=row_totals(engine), objective=objective, facts=facts)


def with_values(problem: PairProblem, **values: Vector) -> PairProblem:
    """Return the problem on rows that have other values as well."""
    return problem._replace(engine=attach(problem.engine, **values))


def row_values(problem: PairProblem) -> dict[str, Any]:
    """Return what was observed of each row, and who belongs to groups that something is known of."""
    groups = {fact.group for fact in problem.facts if fact.group is not None}
    return {name: in_memory(problem.engine, name) for name in ("s", *problem.objective.observed, *sorted(groups))}


def _tilt(problem: PairProblem, others: Vector, u: Vector, shared: Any) -> Vector:
    """Return what the class's logit should have besides for each propensity attribute that the classifier sees.

    Held-out logits are noisy, and EM begins with labelled against unlabelled rows, in which the labelling's attributes
    look like the class's. What the logits miss must not depend on what the labelling depends on, or the propensity
    makes up for it. A logistic model of the held-out logit and these attributes, fitted together with the propensities
    to all that was observed, takes that back.
    """
    Z, rows = problem.engine.collect(_attributes), row_values(problem) | {"w": in_memory(problem.engine, "w")}
    shift, unit = standard_scales(engine_of(Z, **rows), problem.objective, problem.weight)
    pair = RecalibratedPair.of(problem.objective, 0.0, shift, unit)
    table = pair.table(Z, {"u": u}, np.zeros(1))
    objective = changed(pair.inner, f=_logit_and(shared))
    tilted = on_rows(problem, engine_of(table, **rows), objective)._replace(C=SLOPE_C, audits=None)
    start = np.concatenate([[1.0], np.zeros(int(shared.sum()) + 1), pair.standardised(others)])
    found = fit_pair(tilted, start, FitOptions(1e-8, 100))
    scale, *slopes, _ = found.f
    tilt = np.zeros(shared.size)
    if scale > _LEAST_SCALE and found.converged:
        tilt[shared] = np.array(slopes) / (scale * unit[shared])
    return np.append(tilt, -float(tilt @ shift))


def _tilted(Z: Any, tilt: Vector) -> Vector:
    return np.asarray(Z @ tilt[:-1], dtype=np.float64) + tilt[-1]


def _attributes(X: Any, rows: Any) -> Any:
    return dense(X)


def dense(X: Any) -> Matrix:
    """Return a table of numbers, dense and in float64."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


@dataclass(frozen=True)
class CrossedKnown:
    """A cross-fitted classifier where the propensity is known, its logits moved and stretched as labels like them."""

    fit: CrossFit
    slope: float
    level: float

    def __call__(self, u: Vector) -> Vector:
        """Return the logits as labels like them."""
        return self.slope * u + self.level

    def logits(self, X: Any) -> Vector:
        """Return the class's logits of other rows."""
        return self(self.fit.logits(X))


def cross_fit_known(
    classifier: Any, training: Training, e: Vector, folds: list[Fold], options: CrossOptions, tell: Tell
) -> CrossedKnown:
    """Fit a classifier in folds by the likelihood of labels whose propensity is known, then its scale and level."""
    X, s, w = training
    fit = fit_classifier(classifier, X, OneLabel(s), w, folds, FixedPropensity(e), options, tell)
    engine, design = engine_of(fit.u[:, None], s=s, e=e, w=fit.weight), Design.of(np.arange(1))
    found = fit_known_propensity(engine, design, C=SLOPE_C, tol=1e-9, max_iter=100)
    slope, level = found.parameters
    return CrossedKnown(fit, float(slope), float(level))


def numeric_columns(X: Any, columns: Columns) -> Any:
    """Return some columns as numbers; none of them as a table without columns."""
    if not columns.size:
        return np.empty((X.shape[0], 0))
    numbers = check_numeric(take_columns(X, columns))
    refuse_gaps(numbers.data if sparse.issparse(numbers) else numbers)
    return numbers


def fit_classifier(
    classifier: Any,
    X: Any,
    seen: Evidence,
    w: Vector,
    folds: list[Fold],
    propensity: Propensity,
    options: CrossOptions,
    tell: Tell,
) -> CrossFit:
    """Fit a classifier in folds, by boosting where its library allows that, else by expectation maximisation."""
    if classifier is not None and booster_kind(classifier) is not None:
        boosters = boosters_of(classifier, X, seen.s, folds)
        most, n_jobs = most_rounds(classifier), options.n_jobs
        return boost(boosters, seen, w, folds, propensity, most=most, patience=_PATIENCE, n_jobs=n_jobs, tell=tell)
    learners = [as_learner(classifier, name="estimator", C=options.C) for _ in folds]
    return alternate(
        learners,
        X,
        seen,
        w,
        folds,
        propensity,
        tol=options.tol,
        window=options.window,
        max_iter=options.max_iter,
        n_jobs=options.n_jobs,
        tell=tell,
    )


def model_of(model: Any) -> Any:
    """Return what a user may look at of a model of one fold."""
    return model.booster if isinstance(model, Boosted) else model.learner.model


def importances_of(model: Any) -> Vector | None:
    """Return the importance of each column for one fold's model, where it knows that."""
    if isinstance(model, Boosted):
        return model.booster.importances
    found = getattr(final_step(model.learner.model), "feature_importances_", None)
    return None if found is None else np.asarray(found, dtype=np.float64)


def warn_about_collapse(fit: CrossFit, name: str) -> None:
    """Warn where a classifier was about to explain the labels by itself."""
    fell = fit.log_likelihood[fit.best] - fit.log_likelihood[-1]
    rose = fit.mean_propensity[-1] - fit.mean_propensity[fit.best]
    # Boosting goes on for a while on purpose, to see whether it gets better again.
    if fell > _FELL and rose > _ROSE and not is_boosted(fit):
        warn_user(
            f"{name}: after step {fit.best + 1} the likelihood of held-out labels fell while the mean propensity rose "
            f"by {rose:.2f}: the classifier began to memorise labels. The models of that step are taken. A simpler "
            "classifier may serve better: smaller trees, fewer rounds, a stronger penalty.",
            UserWarning,
        )


def warn_unless_settled(fit: CrossFit, name: str, *, max_iter: int) -> None:
    """Warn where cross-fitted EM was cut off; boosting ends at its number of rounds, and that is no failure."""
    if not fit.converged and not is_boosted(fit):
        rise = max(fit.log_likelihood[-2:]) - fit.log_likelihood[-2] if len(fit.log_likelihood) > 1 else np.nan
        warn_user(
            f"{name} (cross-fitted EM) did not converge in max_iter={max_iter} iterations: the last one gained "
            f"{rise:.1e} in held-out log-likelihood per row. Raise max_iter or tol.",
            ConvergenceWarning,
        )


def is_boosted(fit: CrossFit) -> bool:
    """Whether the models of a cross-fit maximise the observed likelihood by boosting."""
    return any(isinstance(model, Boosted) for model in fit.models)


def counted(training: Training) -> Training:
    """Leave out rows of weight 0: they must not decide where the folds lie."""
    X, s, w = training
    rows = np.flatnonzero(w)
    return training if rows.size == w.size else Training(take_rows(X, rows), s[rows], w[rows])
