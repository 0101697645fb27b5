r"""Learners: a common interface to estimators of any library, with real-valued targets.

A learner fits *targets* :math:`t_i` with weights :math:`w_i`: it minimises
:math:`\sum_i w_i (t_i\,\delta_1(p_i) + (1-t_i)\,\delta_0(p_i))`, with the losses :math:`\delta_1` of a positive and
:math:`\delta_0` of a negative. Targets can be labels (:math:`t=s`), posteriors (:math:`t=q`), or those of the
propensity-weighted risk (:math:`t=s/e`, above 1 for labelled rows).

Some estimators accept real-valued targets. All others get each row up to twice, as a positive of weight :math:`wt` and
a negative of weight :math:`w(1-t)`. The second weight is negative if :math:`t>1`. Few estimators support negative
weights; `negative_weight_problem` in `scarless.models.propensity_weighted` checks an estimator. The expectation
maximisation of the paper alternates between two learners.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from scarless.checks.estimators import final_step, fit_weighted, takes_weights
from scarless.checks.tables import check_numeric, take_rows
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior, posterior_known
from scarless.numerics.newton import Solution
from scarless.numerics.uncertainty import least_squares_slope
from scarless.pair.logistic import all_columns, engine_of, fit_targets, predict


class Learner(Protocol):
    """An object that fits targets and predicts probabilities; `model` is the estimator that users see."""

    model: Any

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit targets `t` with weights `w`; a second call may start from the result of the first."""
        ...

    def probability(self, X: Any) -> Vector:
        """Return the probability of the positive class, in [0, 1]."""
        ...


def as_learner(estimator: Any, *, name: str, C: float, plain_labels: bool = False) -> Learner:
    """Return the learner for an estimator; the estimator None is the logistic model.

    With `plain_labels`, all targets are 0 or 1, so any classifier can be used directly.
    """
    if estimator is None:
        return LogisticLearner(C=C)
    if plain_labels:
        return CopiesLearner(estimator, name=name)
    if type(estimator).__module__.split(".")[0] == "lightgbm":
        return LightGBMLearner(estimator, name=name)
    if has_equivalent_regressor(estimator):
        return TreeLearner(estimator, name=name)
    return CopiesLearner(estimator, name=name)


class ConstantLearner:
    r"""One probability for all rows, :math:`\sum w t / \sum w`."""

    def __init__(self) -> None:
        self.model: Any = None
        self.value = 0.5

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Store the weighted mean of the targets."""
        self.value = float(w @ t) / float(w.sum())

    def probability(self, X: Any) -> Vector:
        """Return the constant for every row."""
        return np.full(X.shape[0], self.value)


class LogisticLearner:
    """The logistic model on real-valued targets, started from its previous fit."""

    def __init__(self, *, C: float, tol: float = 1e-12, max_iter: int = 100) -> None:
        self.C, self.tol, self.max_iter = C, tol, max_iter
        self.model: Any = None
        self.beta: Vector | None = None
        self.solution: Solution | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the solver's history, which is only needed during fitting."""
        return {**self.__dict__, "solution": None}

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit targets by Newton's method."""
        X = check_numeric(X)
        if self.beta is None:
            refuse_gaps(X.data if sparse.issparse(X) else X)
        options: dict[str, Any] = {"C": self.C, "tol": self.tol, "max_iter": self.max_iter}
        engine = engine_of(X, t=t, w=w)
        self.solution = fit_targets(engine, all_columns(engine), start=self.beta, **options)
        self.beta = self.solution.parameters

    def probability(self, X: Any) -> Vector:
        """Return the fitted probabilities."""
        X = check_numeric(X)
        assert self.beta is not None
        engine = engine_of(X)
        p = predict(engine, all_columns(engine), self.beta)
        refuse_gaps(p)
        return p


def refuse_gaps(values: Any) -> None:
    """Raise an error if values are NaN or infinite. They are checked here because some models accept such values."""
    if not np.isfinite(values).all():
        raise ValueError(
            "A logistic model uses columns with NaN or infinite values. It may be the class model or the propensity "
            "model. Fill in these values, for example with sklearn.impute.SimpleImputer, or replace the logistic model "
            "by an estimator that accepts them, such as HistGradientBoostingClassifier()."
        )


class CopiesLearner:
    """Any classifier with ``sample_weight`` and ``predict_proba``; rows with fractional targets are used twice.

    An estimator that splits its rows internally, for early stopping or calibration, may put a row into both parts.
    """

    def __init__(self, estimator: Any, *, name: str) -> None:
        check_weighted_classifier(estimator, name)
        self.model = fresh(estimator)

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit on positives of weight ``w t`` and negatives of weight ``w (1 - t)``."""
        positive, negative = np.flatnonzero(w * t), np.flatnonzero(w * (1.0 - t))
        rows = np.concatenate([positive, negative])
        y = np.repeat([1, 0], [positive.size, negative.size])
        weight = np.concatenate([(w * t)[positive], (w * (1.0 - t))[negative]])
        order = np.argsort(rows, kind="stable")  # the order of the table, so that 0/1 targets give an ordinary fit
        fit_weighted(self.model, take_rows(X, rows[order]), y[order], weight[order])

    def probability(self, X: Any) -> Vector:
        """Return the probability of class 1, clipped to [0, 1], because propensity-weighted counts can exceed 1."""
        return np.clip(positive_probability(self.model, X), 0.0, 1.0)


class TreeLearner:
    r"""Trees and forests, fitted by regression on the targets, which grows the same trees.

    For a node with mean target :math:`\bar t` the Gini impurity is :math:`2\bar t(1-\bar t)`, so both Gini's index and
    the squared error rank splits by :math:`\sum_k n_k \bar t_k^2`. A leaf predicts :math:`\sum wt/\sum w`, which is the
    propensity-weighted share of positives for :math:`t=s/e`. Regression needs no copies of rows and no negative
    weights. Limits on the rows of a leaf, and bootstrap samples, therefore refer to rows and not to copies.
    """

    def __init__(self, estimator: Any, *, name: str) -> None:
        check_weighted_classifier(estimator, name)
        self.model = fresh(with_final_step(estimator, equivalent_regressor(final_step(estimator))))

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Grow trees on the targets."""
        fit_weighted(self.model, X, t, w)

    def probability(self, X: Any) -> Vector:
        """Return the mean target of the leaf, clipped to [0, 1], because propensity-weighted targets can exceed 1."""
        return np.clip(np.asarray(self.model.predict(X), dtype=np.float64), 0.0, 1.0)


class LightGBMLearner:
    r"""LightGBM with its objective replaced: gradient :math:`w(p - t)`, curvature :math:`w p(1-p)`.

    Real-valued targets need no copies and no negative weights: the loss is convex in the score.
    """

    def __init__(self, estimator: Any, *, name: str) -> None:
        from lightgbm import LGBMModel, LGBMRegressor  # noqa: PLC0415  optional dependency

        if not isinstance(estimator, LGBMModel):
            raise ValueError(f"{name} must be an LGBMClassifier; got {type(estimator).__name__}.")
        if estimator.get_params().get("class_weight") is not None:
            raise ValueError(
                f"{name} must not have a class_weight, because the targets of the fit are not classes. Leave "
                "class_weight out, and pass sample_weight to fit instead."
            )
        parameters = {key: value for key, value in estimator.get_params().items() if key != "class_weight"}
        self.model = LGBMRegressor(**{**parameters, "objective": self._objective})
        self.base = 0.0

    @staticmethod
    def _objective(t: Vector, z: Vector, w: Vector | None) -> tuple[Vector, Vector]:
        p = expit(z)
        if w is None:  # LightGBM passes None if all weights are 1
            return p - t, p * (1.0 - p)
        return w * (p - t), w * p * (1.0 - p)

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Boost from the best constant."""
        share = float(w @ t) / float(w.sum())
        self.base = float(logit(np.clip(share, 1e-6, 1.0 - 1e-6)))
        self.model.fit(X, t, sample_weight=w, init_score=np.full(t.size, self.base))

    def probability(self, X: Any) -> Vector:
        """Return the fitted probabilities."""
        return np.asarray(expit(self.base + self.model.predict(X, raw_score=True)))


def check_weighted_classifier(estimator: Any, name: str) -> None:
    """Raise an error unless an estimator accepts row weights and predicts probabilities."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"{name} must be an instance of a scikit-learn classifier, such as LogisticRegression(); got {estimator!r}."
        )
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"{name}={type(estimator).__name__} has no predict_proba. Use a classifier that predicts probabilities, or "
            "wrap it: sklearn.calibration.CalibratedClassifierCV(estimator)."
        )
    if not takes_weights(estimator):
        raise ValueError(
            f"{name}={type(final_step(estimator)).__name__} does not accept sample_weight in fit, which this method "
            "needs. Use a classifier that does, such as LogisticRegression or HistGradientBoostingClassifier."
        )


_REGRESSORS = {
    DecisionTreeClassifier: DecisionTreeRegressor,
    ExtraTreeClassifier: ExtraTreeRegressor,
    RandomForestClassifier: RandomForestRegressor,
    ExtraTreesClassifier: ExtraTreesRegressor,
}


def has_equivalent_regressor(estimator: Any) -> bool:
    """Whether the last step of an estimator is a tree or forest with Gini's index and without class weights."""
    final = final_step(estimator)
    return type(final) in _REGRESSORS and final.criterion == "gini" and final.class_weight is None


def equivalent_regressor(classifier: Any) -> Any:
    """Return the regressor that grows the same trees. Its impurity decreases are half those of Gini's index."""
    parameters = {name: value for name, value in classifier.get_params().items() if name != "class_weight"}
    halved = {name: 0.5 * parameters[name] for name in ("ccp_alpha", "min_impurity_decrease")}
    return _REGRESSORS[type(classifier)](**{**parameters, **halved, "criterion": "squared_error"})


def with_final_step(estimator: Any, final: Any) -> Any:
    """Return a copy of an estimator or pipeline with another final step."""
    if not isinstance(estimator, Pipeline):
        return final
    copy = clone(estimator)
    name, last = copy.steps[-1]
    return copy.set_params(**{name: with_final_step(last, final)})


def fresh(estimator: Any) -> Any:
    """Return a clone without warm start, which would continue the previous fit instead of starting again.

    Logistic regression keeps its warm start: it converges to the same fit, only faster.
    """
    copy = clone(estimator)
    final = final_step(copy)
    if "warm_start" in final.get_params(deep=False):
        final.set_params(warm_start=type(final) is LogisticRegression and final.solver != "liblinear")
    return copy


def positive_probability(estimator: Any, X: Any) -> Vector:
    """Return the probability of class 1, which is 0 if the estimator was not trained on class 1."""
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    classes = np.asarray(estimator.classes_)
    if 1 not in classes:
        return np.zeros(proba.shape[0])
    p = proba[:, int(np.flatnonzero(classes == 1)[0])]
    if not np.isfinite(p).all():
        raise ValueError(
            f"{type(final_step(estimator)).__name__} predicted probabilities that are NaN or infinite. Negative "
            "weights can cause this: with PropensityWeightedClassifier, use method='likelihood', which has no negative "
            "weights. With other models, use another classifier."
        )
    return p


class EMStep(NamedTuple):
    """One iteration of EM: mean observed log-likelihood, and mean absolute slope of the propensities."""

    log_likelihood: float
    slope: float


class EMResult(NamedTuple):
    """Result of EM. The learners hold the models."""

    converged: bool
    history: list[EMStep]
    gain: float  # in log-likelihood per row, over the last `window` entries of the history


def em(
    X_f: Any,
    X_e: Any,
    s: Vector,
    w: Vector,
    f: Learner,
    e: Learner,
    *,
    tol: float,
    slope_tol: float,
    window: int,
    max_iter: int,
    progress: Callable[[EMStep], None] | None = None,
) -> EMResult:
    """Run expectation maximisation until both the likelihood and the propensities have converged.

    The stopping rule follows the published code. Over the last `window` models, the mean observed log-likelihood must
    have risen by less than `tol`, and the mean absolute least-squares slope of the propensities must be below
    `slope_tol`. (The published code uses the expected complete-data likelihood, which need not rise in each iteration,
    and the propensities of unlabelled rows only.)

    References
    ----------
    Bekker, Robberechts and Davis (2019).
    """
    share = float(w @ s) / float(w.sum())
    f.fit(X_f, s, w * np.where(s == 1, 1.0 - share, share))
    p_f = f.probability(X_f)
    e.fit(X_e, s, w * np.where(s == 1, 1.0, p_f))
    p_e = e.probability(X_e)
    recent: deque[Vector] = deque([p_e], maxlen=window)
    history = [EMStep(_mean_log_likelihood(p_f, p_e, s, w), np.inf)]
    gain, converged = np.inf, False
    for _ in range(max_iter):
        q = posterior(p_f, p_e, s)
        f.fit(X_f, q, w)
        e.fit(X_e, s, w * q)
        p_f, p_e = f.probability(X_f), e.probability(X_e)
        recent.append(p_e)
        full = len(recent) == window
        slope = float(w @ np.abs(least_squares_slope(recent))) / float(w.sum()) if full else np.inf
        history.append(EMStep(_mean_log_likelihood(p_f, p_e, s, w), slope))
        if progress is not None:
            progress(history[-1])
        gain = _rise(history[-window:])
        if full and gain < tol and slope < slope_tol:
            converged = True
            break
    return EMResult(converged, history, gain)


def em_known_propensity(
    X: Any, s: Vector, e: Vector, w: Vector, f: Learner, *, tol: float, window: int, max_iter: int
) -> EMResult:
    """Run expectation maximisation over the classifier, given known propensities; all targets are in [0, 1]."""
    share = float(w @ s) / float(w.sum())
    f.fit(X, s, w * np.where(s == 1, 1.0 - share, share))
    p_f = f.probability(X)
    history = [EMStep(_mean_log_likelihood(p_f, e, s, w), 0.0)]
    gain, converged = np.inf, False
    for _ in range(max_iter):
        f.fit(X, posterior_known(p_f, e, s), w)
        p_f = f.probability(X)
        history.append(EMStep(_mean_log_likelihood(p_f, e, s, w), 0.0))
        gain = _rise(history[-window:])
        if len(history) >= window and gain < tol:
            converged = True
            break
    return EMResult(converged, history, gain)


def _rise(steps: list[EMStep]) -> float:
    return max(step.log_likelihood for step in steps) - steps[0].log_likelihood


def _mean_log_likelihood(f: Vector, e: Vector, s: Vector, w: Vector) -> float:
    counted = w > 0
    return float(w[counted] @ log_likelihood_of_probabilities(f, e, s)[counted]) / float(w.sum())
