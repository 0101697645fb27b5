r"""Learners: what a fit needs of any estimator, whatever library it comes from.

A learner fits *targets* :math:`t_i` with weights :math:`w_i`: it minimises
:math:`\sum_i w_i (t_i\,\delta_1(p_i) + (1-t_i)\,\delta_0(p_i))`. Labels, posteriors (:math:`t=q`) and the
propensity-weighted risk (:math:`t=s/e`, above 1 for labelled rows) are all targets.

Some estimators take real-valued targets as they are; all others get each row up to twice, as a positive of
weight :math:`wt` and a negative of weight :math:`w(1-t)`. The latter is negative where :math:`t>1`, which few
estimators honour: `negative_weight_trouble` finds out.
"""

import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from scarless.data.tables import check_numeric
from scarless.models._base import all_columns, engine_of, warn_user
from scarless.models._logistic import fit_targets, predict

Vector = NDArray[np.float64]

# An implied class prior of 1 or more is lowered to this.
_LARGEST_PRIOR = 0.999
# Parameters that suit the user's table may forbid any split of the few rows and columns of a trial fit.
_FREE: dict[str, Any] = {"min_samples_leaf": 1, "min_samples_split": 2, "monotonic_cst": None}


class Learner(Protocol):
    """Fits targets, predicts probabilities; `model` is what the user gets to see."""

    model: Any

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit targets `t` with weights `w`; a second call may start from the first one's result."""
        ...

    def probability(self, X: Any) -> Vector:
        """Return the probability of the positive class, in [0, 1]."""
        ...


def as_learner(estimator: Any, *, name: str, C: float) -> Learner:
    """Return the learner for an estimator; None stands for the logistic model."""
    if estimator is None:
        return LogisticLearner(C=C)
    if type(estimator).__module__.split(".")[0] == "lightgbm":
        return LightGBMLearner(estimator, name=name)
    return CopiesLearner(estimator, name=name)


class ConstantLearner:
    r"""One probability for all rows, :math:`\sum w t / \sum w`."""

    def __init__(self) -> None:
        self.model: Any = None
        self.value = 0.5

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Take the weighted mean of the targets."""
        self.value = float(w @ t) / float(w.sum())

    def probability(self, X: Any) -> Vector:
        """Return the constant for every row."""
        return np.full(X.shape[0], self.value)


class LogisticLearner:
    """The logistic model on real-valued targets, started from where it ended last."""

    def __init__(self, *, C: float, tol: float = 1e-12, max_iter: int = 100) -> None:
        self.C, self.tol, self.max_iter = C, tol, max_iter
        self.model: Any = None
        self.beta: Vector | None = None

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit targets by Newton's method."""
        X = check_numeric(X)
        if self.beta is None:
            _refuse_gaps(X.data if sparse.issparse(X) else X)
        options: dict[str, Any] = {"C": self.C, "tol": self.tol, "max_iter": self.max_iter}
        solution = fit_targets(engine_of(X), all_columns(X), t, w, start=self.beta, **options)
        self.beta = solution.parameters

    def probability(self, X: Any) -> Vector:
        """Return the fitted probabilities."""
        X = check_numeric(X)
        assert self.beta is not None
        p = predict(engine_of(X), all_columns(X), self.beta)
        _refuse_gaps(p)
        return p


def _refuse_gaps(values: Any) -> None:
    """Refuse NaN and infinity, which the other model of a pair may have been right to let through."""
    if not np.isfinite(values).all():
        raise ValueError(
            "The logistic model reads columns that hold NaN or infinity. Fill them in first, e.g. with "
            "sklearn.impute.SimpleImputer, or give a model that copes, e.g. HistGradientBoostingClassifier."
        )


class CopiesLearner:
    """Any classifier with ``sample_weight`` and ``predict_proba``, on rows that are copied where needed."""

    def __init__(self, estimator: Any, *, name: str) -> None:
        check_weighted_classifier(estimator, name)
        self.model = clone(estimator)
        # A warm-started fit of these models ends where a cold one does, only sooner.
        if type(self.model) is LogisticRegression and self.model.solver != "liblinear":
            self.model.set_params(warm_start=True)

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit on positives of weight ``w t`` and negatives of weight ``w (1 - t)``."""
        positive, negative = np.flatnonzero(w * t), np.flatnonzero(w * (1.0 - t))
        rows = np.concatenate([positive, negative])
        y = np.repeat([1, 0], [positive.size, negative.size])
        weight = np.concatenate([(w * t)[positive], (w * (1.0 - t))[negative]])
        fit_weighted(self.model, take_rows(X, rows), y, weight)

    def probability(self, X: Any) -> Vector:
        """Return the probability of class 1; counts corrected by propensities can leave [0, 1] and are cut."""
        return np.clip(positive_probability(self.model, X), 0.0, 1.0)


class LightGBMLearner:
    r"""LightGBM with its objective replaced: gradient :math:`w(p - t)`, curvature :math:`w p(1-p)`.

    Real-valued targets need no copies and no negative weights: the loss is convex in the score.
    """

    def __init__(self, estimator: Any, *, name: str) -> None:
        from lightgbm import LGBMModel, LGBMRegressor  # noqa: PLC0415  an extra

        if not isinstance(estimator, LGBMModel):
            raise ValueError(f"{name} is {type(estimator).__name__}; of LightGBM give an LGBMClassifier.")
        parameters = {key: value for key, value in estimator.get_params().items() if key != "class_weight"}
        self.model = LGBMRegressor(**{**parameters, "objective": self._objective})
        self.base = 0.0

    @staticmethod
    def _objective(t: Vector, z: Vector, w: Vector | None) -> tuple[Vector, Vector]:
        p = expit(z)
        if w is None:  # LightGBM's way to say that all weights are 1
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
    """Refuse what cannot be fitted with row weights or cannot give probabilities."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(f"{name} must be a scikit-learn classifier (an instance); got {estimator!r}.")
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"{name}={type(estimator).__name__} has no predict_proba. Use a classifier that gives probabilities, or "
            "wrap it: sklearn.calibration.CalibratedClassifierCV(estimator)."
        )
    if not has_fit_parameter(final_step(estimator), "sample_weight"):
        raise ValueError(
            f"{name}={type(final_step(estimator)).__name__} takes no sample_weight in fit, which this method needs. "
            "Use for example LogisticRegression, HistGradientBoostingClassifier or RandomForestClassifier."
        )


def final_step(estimator: Any) -> Any:
    """Return the classifier at the end of a pipeline, or the estimator itself."""
    return final_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def fit_weighted(estimator: Any, X: Any, y: NDArray[Any], weight: Vector) -> None:
    """Fit with row weights, which a pipeline gets under the name of its last step."""
    key, inner = "sample_weight", estimator
    while isinstance(inner, Pipeline):
        step, inner = inner.steps[-1]
        key = f"{step}__{key}"
    if estimator is not inner and get_config()["enable_metadata_routing"]:
        # A pipeline then takes the plain name, if its last step asks for it.
        inner.set_fit_request(sample_weight=True)
        key = "sample_weight"
    estimator.fit(X, y, **{key: weight})


def positive_probability(estimator: Any, X: Any) -> Vector:
    """Return the column of class 1; an estimator that only ever saw one class has one column."""
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    classes = np.asarray(estimator.classes_)
    if 1 not in classes:
        return np.zeros(proba.shape[0])
    p = proba[:, int(np.flatnonzero(classes == 1)[0])]
    if not np.isfinite(p).all():
        raise ValueError(
            f"{type(final_step(estimator)).__name__} gave probabilities that are not numbers: its corrected counts or "
            "variances have become negative. Use method='likelihood', whose weights never are."
        )
    return p


def possible_shares(s: Vector, e: Vector, w: Vector) -> Vector:
    """Return ``s/e``, scaled down where it would mean more positives than rows.

    The propensity-weighted log loss of a model with a free intercept has a minimum only while the weighted mean
    of ``s/e``, its estimate of the class prior, is below 1.
    """
    share = np.divide(s, e, out=np.zeros_like(s), where=s > 0)  # an estimated e may be 0 where there are no labels
    prior = float(w @ share) / float(w.sum())
    if prior < 1.0:
        return share
    warn_user(
        f"The propensities imply a class prior of {prior:.3f}, the mean of s/e: more positives than rows, and the risk "
        "has no minimum. The weights are scaled down to just below 1; nearly all rows will be called positive. "
        "Check the propensities, or use method='likelihood'.",
        ConvergenceWarning,
    )
    return share * _LARGEST_PRIOR / prior


def refuse_unless_negative_weights(learner: Learner) -> None:
    """Raise if the learner works by copies and a trial fit shows that its estimator misreads negative weights."""
    if not isinstance(learner, CopiesLearner):
        return
    estimator = final_step(learner.model)
    trouble = negative_weight_trouble(estimator)
    if trouble is not None:
        raise ValueError(
            f"The propensity-weighted risk needs negative row weights, and {type(estimator).__name__} does not honour "
            f"them: {trouble}. Use estimator=None (logistic, exact), method='likelihood' (any estimator), or one that "
            "does: LogisticRegression(solver='lbfgs'), DecisionTreeClassifier, "
            "RandomForestClassifier(bootstrap=False), HistGradientBoostingClassifier, naive Bayes, LGBMClassifier."
        )


def negative_weight_trouble(estimator: Any) -> str | None:
    """Find out by three small fits whether negative row weights do what they should; return what is wrong.

    Two places with 600 positives and 600 negatives each; at one of them 500 negatives are taken back by weights
    of -1, at the other 500 positives. An honest learner predicts the same as from the 600 and 100 that are left
    over. One that drops rows of negative weight sees 600 against 600 instead.
    """
    place, y, weight = _probe_rows()
    X = np.column_stack([place, 1 - place]).astype(np.float64)
    kept = weight > 0
    left_over = np.where(place == y, 1.0, 1.0 / 6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            signed = _probe(estimator, X, y, weight)
        except (ValueError, TypeError, ArithmeticError) as error:
            return f"it refuses them ({str(error).splitlines()[0]})"
        honest = _probe(estimator, X[kept], y[kept], left_over[kept])
        dropped = _probe(estimator, X[kept], y[kept], weight[kept])
    if np.abs(signed - honest).max() < 0.25 * np.abs(dropped - honest).max():  # False for NaN
        return None
    return "a trial fit came out wrong, as if it dropped or misread rows of negative weight"


def _probe_rows() -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    counts = [600, 600, 500, 600, 600, 500]
    place = np.repeat([0, 0, 0, 1, 1, 1], counts)
    y = np.repeat([0, 1, 1, 1, 0, 0], counts)
    weight = np.repeat([1.0, 1.0, -1.0, 1.0, 1.0, -1.0], counts)
    return place, y, weight


def _probe(estimator: Any, X: Any, y: NDArray[Any], weight: Vector) -> Vector:
    model = clone(estimator)
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in _FREE.items() if name in known})
    fit_weighted(model, X, y, weight)
    return np.asarray(model.predict_proba(np.array([[0.0, 1.0], [1.0, 0.0]])))[:, 1]


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows of an array, a sparse matrix or a data frame, as the same kind of table."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
