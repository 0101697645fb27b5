"""A classifier of the user's, cross-fitted and relaxed: from checked rows to what a fit stores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.estimators import final_step
from scarless.checks.tables import check_numeric, take_columns, take_rows
from scarless.engines import attach
from scarless.numerics.arrays import Columns, Vector
from scarless.numerics.linear import Design
from scarless.outside.notices import warn_user
from scarless.pair.boosting import booster_kind, boosters_of, most_rounds
from scarless.pair.cross_fit import Boosted, CrossFit, Tell, alternate, boost, held_out
from scarless.pair.evidence import Evidence, OneLabel
from scarless.pair.facts import KnownShare
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.folds import Fold
from scarless.pair.learners import as_learner, refuse_gaps
from scarless.pair.logistic import fit_known_propensity
from scarless.pair.problem import PairProblem, imagine_audits
from scarless.pair.propensities import FixedPropensity, LearnedPropensity, LogisticPropensity, Propensity
from scarless.pair.relaxed import FOLLOW, Levels, Relaxation, levels_beside, relax
from scarless.pair.rows import Training, engine_of

_FELL, _ROSE = 1e-3, 0.05  # held-out log-likelihood per row, mean propensity: what is no noise any more
_SLOPE_C = 100.0  # as good as no penalty, but finite where held-out labels are separable
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
    """A cross-fitted classifier with its propensity, relaxed."""

    fit: CrossFit
    learned: LearnedPropensity | None  # the propensity, where it is a model of the user's
    relaxation: Relaxation
    f_columns: Columns
    e_columns: Columns
    beside: Levels | None = None  # of a propensity that follows the class too, for intervals
    tilt: Vector | None = None  # of the class's logit, by each propensity attribute, then a constant; see `_tilt`

    @property
    def relaxed_logits(self) -> Vector:
        """The class's logit of each training row, by models that have not seen its label."""
        return self.relaxation(self.fit.u)

    def logits(self, X: Any) -> Vector:
        """Return the class's logits of other rows, relaxed."""
        return self.relaxation(self.plain_logits(X))

    def plain_logits(self, X: Any) -> Vector:
        """Return the class's logits of other rows as the models have them."""
        plain = self.fit.logits(take_columns(X, self.f_columns))
        return plain if self.tilt is None else plain + _tilted(numeric_columns(X, self.e_columns), self.tilt)

    def propensity_logits(self, X: Any) -> Vector:
        """Return the propensity's logits of other rows."""
        beta = self.relaxation.e
        if self.learned is not None:
            return self.learned.logits(take_columns(X, self.e_columns)) + beta[-1]
        seen = numeric_columns(X, self.e_columns)
        return np.asarray(seen @ beta[:-1], dtype=np.float64) + beta[-1]


def cross_fit(
    classifier: Any,
    propensity_model: Any,
    training: Training,
    f_columns: Columns,
    e_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
    tell: Tell,
) -> Crossed:
    """Fit a classifier in folds, together with a propensity, and relax both."""
    X, s, w = training
    guard = bool(np.isin(f_columns, e_columns).all())
    propensity = _propensity(propensity_model, training, e_columns, folds, options, exchangeable=guard)
    fit = fit_classifier(classifier, take_columns(X, f_columns), OneLabel(s), w, folds, propensity, options, tell)
    propensity.v = fit.v  # from where the best step was: the last one may lie elsewhere
    propensity.update(fit.u)
    fit = fit._replace(v=propensity.v)
    if isinstance(propensity, LearnedPropensity):
        engine = engine_of(np.empty((s.size, 0)), s=s, w=fit.weight, u=fit.u, v=fit.v)
        relaxation = relax(engine, Design.of(np.arange(0)), audits=options.audits)
        propensity.forget()
        return Crossed(fit, propensity, relaxation, f_columns, e_columns)
    hold, tilt = propensity.beta if guard else None, None
    if not guard and not is_boosted(fit) and np.isin(e_columns, f_columns).any():
        tilt = _tilt(propensity, fit, s, np.isin(e_columns, f_columns))
        fit = fit._replace(u=fit.u + _tilted(numeric_columns(X, e_columns), tilt))
        propensity.update(fit.u)
        fit = fit._replace(v=propensity.v)
    rows = attach(propensity.engine, u=fit.u, w=fit.weight)
    settings: dict[str, Any] = {"audits": options.audits, "follow": options.follow, "known": options.known}
    relaxation = relax(rows, propensity.design, hold=hold, merge=True, **settings)
    beside = None
    if e_columns.size and hold is None and not options.follow:
        other = relax(rows, propensity.design, merge=True, **{**settings, "follow": FOLLOW})
        beside = levels_beside(relaxation, other)
    return Crossed(fit, None, relaxation, f_columns, e_columns, beside, tilt)


def _tilt(propensity: LogisticPropensity, fit: CrossFit, s: Vector, shared: Any) -> Vector:
    """Return what the class's logit should have besides for each propensity attribute that the classifier sees.

    EM begins with labelled against unlabelled rows, in which the labelling's attributes look like the class's. Forests
    and others that gain nothing from a few steps end there, and their class prior is too low. A logistic model of the
    held-out logit and these attributes, fitted together with the propensity, takes that back.
    """
    Z, held = propensity.engine.collect(_attributes), fit.weight
    mean = np.average(Z, axis=0, weights=held)
    spread = np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=held))
    spread = np.where(spread > 1e-12 * (1.0 + np.abs(mean)), spread, np.inf)
    columns = np.arange(Z.shape[1])
    table = np.column_stack([(Z - mean) / spread, fit.u])
    f = Design.of(np.append(columns[shared], Z.shape[1]))
    problem = PairProblem.of(engine_of(table, s=s, w=fit.weight), f, Design.of(columns), _SLOPE_C, propensity.C)
    coef = np.where(np.isfinite(spread), propensity.beta[:-1] * spread, 0.0)
    level = float(propensity.beta[-1] + propensity.beta[:-1] @ mean)
    start = np.concatenate([np.zeros(int(shared.sum())), [1.0, 0.0], coef, [level]])
    found = fit_pair(problem, start, FitOptions(1e-8, 100))
    *slopes, scale, _ = found.f
    tilt = np.zeros(Z.shape[1])
    if scale > _LEAST_SCALE and found.converged:
        tilt[shared] = np.array(slopes) / (scale * spread[shared])
    return np.append(tilt, -float(tilt @ mean))


def _tilted(Z: Any, tilt: Vector) -> Vector:
    return np.asarray(Z @ tilt[:-1], dtype=np.float64) + tilt[-1]


def _attributes(X: Any, rows: Any) -> Any:
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
    found = fit_known_propensity(engine, design, C=_SLOPE_C, tol=1e-9, max_iter=100)
    slope, level = found.parameters
    return CrossedKnown(fit, float(slope), float(level))


def numeric_columns(X: Any, columns: Columns) -> Any:
    """Return some columns as numbers; none of them as a table without columns."""
    if not columns.size:
        return np.empty((X.shape[0], 0))
    numbers = check_numeric(take_columns(X, columns))
    refuse_gaps(numbers.data if sparse.issparse(numbers) else numbers)
    return numbers


def _propensity(
    model: Any, training: Training, columns: Columns, folds: list[Fold], options: CrossOptions, *, exchangeable: bool
) -> LearnedPropensity | LogisticPropensity:
    (X, s, w), held = training, held_out(training.weight, folds)
    if model is not None:
        learners = [as_learner(model, name="propensity_estimator", C=options.propensity_C) for _ in folds]
        return LearnedPropensity(learners, take_columns(X, columns), s, w, folds)
    engine, design = engine_of(numeric_columns(X, columns), s=s, w=held), Design.of(np.arange(columns.size))
    audits = imagine_audits(engine, design, options.audits, exchangeable=exchangeable)
    return LogisticPropensity(engine, design, C=options.propensity_C, audits=audits, held=exchangeable)


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


def warn_of_collapse(fit: CrossFit, name: str) -> None:
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
