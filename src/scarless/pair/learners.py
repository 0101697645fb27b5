r"""Learners: a common interface to the estimators of all libraries, with real-valued targets.

A learner fits probabilities :math:`p_i` to *targets* :math:`t_i` with weights :math:`w_i`. It minimises
:math:`\sum_i w_i (t_i\,\delta_1(p_i) + (1-t_i)\,\delta_0(p_i))`, where :math:`\delta_1` is the loss of a positive and
:math:`\delta_0` the loss of a negative. The targets are labels (:math:`t=s`), posteriors (:math:`t=q`), or the targets
of the propensity-weighted risk (:math:`t=s/e`, which is above 1 for labelled rows with :math:`e<1`).

Some estimators accept real-valued targets. For the others, a row can become two rows: a positive of weight :math:`wt`
and a negative of weight :math:`w(1-t)`. The second weight is negative if :math:`t>1`. Few estimators support negative
weights; `negative_weight_problem` in `scarless.models.propensity_weighted` checks whether an estimator does. The
function `em` runs the expectation maximisation of the paper with two learners.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from weakref import ReferenceType, ref

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
from scarless.engines import Engine
from scarless.engines.blocks import Reading
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior, posterior_known
from scarless.numerics.newton import Solution
from scarless.numerics.uncertainty import least_squares_slope
from scarless.pair.logistic import all_columns, engine_of, fit_known_propensity, fit_targets, predict


class Learner(Protocol):
    """An object that fits targets and predicts probabilities; `model` is the fitted estimator."""

    model: Any

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit targets `t` with weights `w`. A second call may start at the result of the first call."""
        ...

    def probability(self, X: Any) -> Vector:
        """Return the probability of the positive class, in [0, 1]."""
        ...


def as_learner(estimator: Any, *, name: str, C: float, plain_labels: bool = False) -> Learner:
    """Return the learner for an estimator; None means the logistic model.

    Set `plain_labels` if all targets are 0 or 1. Every classifier can then be used directly.
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
    r"""A learner that predicts the same probability for all rows, :math:`\sum w t / \sum w`."""

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
    """A logistic model of real-valued targets. Each fit starts at the result of the previous fit.

    The precision and the units of the columns are measured in the first fit to a table, not in each one.
    """

    _measured: tuple[ReferenceType[Any], Reading] | None = None  # the table of the last fit, and how to read it

    def __init__(self, *, C: float, tol: float = 1e-12, max_iter: int = 100) -> None:
        self.C, self.tol, self.max_iter = C, tol, max_iter
        self.model: Any = None
        self.beta: Vector | None = None
        self.solution: Solution | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the solver's history and the last table, which are only needed during fitting."""
        state = {**self.__dict__, "solution": None}
        state.pop("_measured", None)
        return state

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit targets by Newton's method."""
        if self.beta is None:
            numeric = check_numeric(X)
            refuse_gaps(numeric.data if sparse.issparse(numeric) else numeric)
        engine = self.open(X, t=t, w=w)
        self.solution = fit_targets(
            engine, all_columns(engine), C=self.C, tol=self.tol, max_iter=self.max_iter, start=self.beta
        )
        self.beta = self.solution.parameters

    def fit_with_propensity(self, X: Any, s: Vector, e: Vector, w: Vector) -> None:
        """Fit a class model to labels by the likelihood with known propensities `e`."""
        engine = self.open(X, s=s, w=w, e=e)
        self.solution = fit_known_propensity(
            engine, all_columns(engine), C=self.C, tol=self.tol, max_iter=self.max_iter, start=self.beta
        )
        self.beta = self.solution.parameters

    def open(self, X: Any, **rows: Vector) -> Engine:
        """Return an engine over a table for a fit, and remember how to read the table."""
        engine = engine_of(check_numeric(X), self._reading(X), **rows)
        self._measured = (ref(X), Reading(np.dtype(engine.dtype), engine.units))
        return engine

    def _reading(self, X: Any) -> Reading | None:
        measured = self._measured
        return measured[1] if measured is not None and measured[0]() is X else None

    def probability(self, X: Any) -> Vector:
        """Return the fitted probabilities."""
        assert self.beta is not None
        engine = engine_of(check_numeric(X), self._reading(X))
        p = predict(engine, all_columns(engine), self.beta)
        refuse_gaps(p)
        return p


def refuse_gaps(values: Any) -> None:
    """Raise an error if values that a logistic model uses are NaN or infinite. Other models may accept such values."""
    if not np.isfinite(values).all():
        raise ValueError(
            "A logistic model uses columns with NaN or infinite values. It is the class model or the propensity model. "
            "Fill in these values, for example with sklearn.impute.SimpleImputer. If estimator or propensity_estimator "
            "is None, which means a logistic model, you can instead pass an estimator that accepts these values, such "
            "as HistGradientBoostingClassifier()."
        )


class CopiesLearner:
    """Any classifier with ``sample_weight`` and ``predict_proba``; rows with fractional targets are used twice.

    An estimator may split its rows, for early stopping or calibration. The two copies of a row may then be in different
    parts.
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
        order = np.argsort(rows, kind="stable")  # as in the table, so that targets of 0 and 1 give an ordinary fit
        fit_weighted(self.model, take_rows(X, rows[order]), y[order], weight[order])

    def probability(self, X: Any) -> Vector:
        """Return the probability of class 1, clipped to [0, 1]: with negative weights, it can be outside."""
        return np.clip(positive_probability(self.model, X), 0.0, 1.0)


class TreeLearner:
    r"""Trees and forests, fitted by regression on the targets. The regression grows the same trees as the classifier.

    The Gini impurity of a node with mean target :math:`\bar t` is :math:`2\bar t(1-\bar t)`. Gini impurity and squared
    error therefore both rank splits by :math:`\sum_k n_k \bar t_k^2`. A leaf predicts :math:`\sum wt/\sum w`. For
    :math:`t=s/e`, this is the propensity-weighted share of positives. Regression needs no copies of rows and no
    negative weights. Limits on the rows of a leaf, and bootstrap samples, therefore refer to rows and not to copies.
    """

    def __init__(self, estimator: Any, *, name: str) -> None:
        check_weighted_classifier(estimator, name)
        self.model = fresh(with_final_step(estimator, equivalent_regressor(final_step(estimator))))

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Grow trees on the targets."""
        fit_weighted(self.model, X, t, w)

    def probability(self, X: Any) -> Vector:
        """Return the mean target of the row's leaf, clipped to [0, 1]: propensity-weighted targets can exceed 1."""
        return np.clip(np.asarray(self.model.predict(X), dtype=np.float64), 0.0, 1.0)


class LightGBMLearner:
    r"""LightGBM with another objective, which has the gradient :math:`w(p - t)` and the curvature :math:`w p(1-p)`.

    This objective accepts real-valued targets, so no copies of rows and no negative weights are needed. It is convex
    in the score.
    """

    def __init__(self, estimator: Any, *, name: str) -> None:
        from lightgbm import LGBMModel, LGBMRegressor  # noqa: PLC0415  optional dependency

        if not isinstance(estimator, LGBMModel):
            raise ValueError(f"{name} must be an LGBMClassifier; got {type(estimator).__name__}.")
        if estimator.get_params().get("class_weight") is not None:
            raise ValueError(
                f"{name} must not have a class_weight, because its targets are numbers and not classes. Leave "
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
        """Boost, starting at the logit of the mean target."""
        share = float(w @ t) / float(w.sum())
        self.base = float(logit(np.clip(share, 1e-6, 1.0 - 1e-6)))
        self.model.fit(X, t, sample_weight=w, init_score=np.full(t.size, self.base))

    def probability(self, X: Any) -> Vector:
        """Return the fitted probabilities."""
        return np.asarray(expit(self.base + self.model.predict(X, raw_score=True)))


def check_classifier(estimator: Any, name: str) -> None:
    """Raise an error unless an estimator predicts probabilities."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"{name} must be an instance of a scikit-learn classifier, such as LogisticRegression(); got {estimator!r}."
        )
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"{name}={type(estimator).__name__} has no predict_proba. Use a classifier that predicts probabilities, or "
            "wrap this classifier in sklearn.calibration.CalibratedClassifierCV."
        )


def check_weighted_classifier(estimator: Any, name: str) -> None:
    """Raise an error unless an estimator accepts row weights and predicts probabilities."""
    check_classifier(estimator, name)
    if not takes_weights(estimator):
        raise ValueError(
            f"{name}={type(final_step(estimator)).__name__} does not accept sample_weight in fit. Use a classifier "
            "that accepts sample_weight, such as LogisticRegression or HistGradientBoostingClassifier."
        )


_REGRESSORS = {
    DecisionTreeClassifier: DecisionTreeRegressor,
    ExtraTreeClassifier: ExtraTreeRegressor,
    RandomForestClassifier: RandomForestRegressor,
    ExtraTreesClassifier: ExtraTreesRegressor,
}


def has_equivalent_regressor(estimator: Any) -> bool:
    """Whether the last step of an estimator is a tree or forest with the Gini criterion and without class weights."""
    final = final_step(estimator)
    return type(final) in _REGRESSORS and final.criterion == "gini" and final.class_weight is None


def equivalent_regressor(classifier: Any) -> Any:
    """Return the regressor that grows the same trees. Its impurities, and limits on them, are half of Gini's."""
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
    """Return a clone with warm start switched off, so that each fit starts again.

    For logistic regression, warm start is switched on: the result is the same, but fits are faster.
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
            f"{type(final_step(estimator)).__name__} predicted probabilities that are NaN or infinite. Use another "
            "classifier. In PropensityWeightedClassifier, negative weights can be the cause; method='likelihood' has "
            "no negative weights."
        )
    return p


class EMStep(NamedTuple):
    """One iteration of EM."""

    log_likelihood: float  # observed log-likelihood per row
    slope: float  # mean absolute slope of the propensities over the last iterations


class EMResult(NamedTuple):
    """Result of EM, without the models: these are stored in the learners."""

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

    The iteration ends if, over the last `window` models, the observed log-likelihood per row has risen by less than
    `tol`, and the mean absolute least-squares slope of the propensities is below `slope_tol`. The published code has
    the same rule, but uses the expected complete-data likelihood, which need not rise in each iteration, and only the
    propensities of unlabelled rows.

    References
    ----------
    Bekker, Robberechts and Davis (2019).
    """
    f.fit(X_f, s, balanced_weights(s, w))
    p_f = f.probability(X_f)
    e.fit(X_e, s, w * np.where(s == 1, 1.0, p_f))
    p_e = e.probability(X_e)
    recent: deque[Vector] = deque([p_e], maxlen=window)
    history = [EMStep(_mean_log_likelihood(p_f, p_e, s, w), np.inf)]
    gain, converged = np.inf, False
    for _ in range(max_iter):
        em_step(X_f, X_e, posterior(p_f, p_e, s), s, w, f, e)
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


def em_step(X_f: Any, X_e: Any, q: Vector, s: Vector, w: Vector, f: Learner, e: Learner) -> None:
    """Run the M step: fit the class model to the posteriors `q`, and the propensity model to `s` with weights `q`."""
    f.fit(X_f, q, w)
    e.fit(X_e, s, w * q)


def balanced_weights(s: Vector, w: Vector) -> Vector:
    """Return weights that give labelled rows and unlabelled rows the same total weight.

    Examples
    --------
    >>> balanced_weights(np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4))
    array([0.75, 0.25, 0.25, 0.25])
    """
    share = float(w @ s) / float(w.sum())
    return w * np.where(s == 1, 1.0 - share, share)


def em_known_propensity(
    X: Any, s: Vector, e: Vector, w: Vector, f: Learner, *, tol: float, window: int, max_iter: int
) -> EMResult:
    """Run expectation maximisation for the classifier, with known propensities."""
    f.fit(X, s, balanced_weights(s, w))
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
