"""Guards of the propensity-weighted risk: shares that make sense, estimators that can bear negative weights."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.estimators import final_step, fit_weighted
from scarless.engines import Engine, Rows
from scarless.models._implied_prior import implied_prior, shares
from scarless.numerics.arrays import Array, Vector
from scarless.outside.notices import warn_user
from scarless.pair.learners import CopiesLearner, Learner, TreeLearner
from scarless.pair.rows import engine_of

_LARGEST_PRIOR = 0.999  # to which an implied class prior of 1 or more is lowered
# Parameters that suit the user's table may forbid any split of the few rows and columns of a trial fit.
_FREE: dict[str, Any] = {"min_samples_leaf": 1, "min_samples_split": 2, "monotonic_cst": None}


def possible_shares(s: Vector, e: Vector, w: Vector, learner: Learner | None = None) -> Vector:
    """Return ``s/e`` of rows in memory, scaled down where it would mean more positives than rows.

    Trees by regression have a minimum whatever their targets, so their shares are left alone.
    """
    if isinstance(learner, TreeLearner):
        return shares(s, e)
    return shares(s, e) * _possible_part(engine_of(np.empty((s.size, 0)), s=s, e=e, w=w))


def with_shares(engine: Engine) -> Engine:
    """Return rows whose targets ``t`` are ``s/e``, scaled down where that would mean more positives than rows."""
    return engine.derive(_targets, _possible_part(engine), keep=True)


def _targets(X: Any, rows: Rows, part: float) -> dict[str, Any]:
    return {"t": shares(rows["s"], rows["e"]) * part}


def _possible_part(engine: Engine) -> float:
    """Return by what shares are to be multiplied.

    The propensity-weighted log loss of a model with a free intercept has a minimum only while the weighted mean
    of ``s/e``, its estimate of the class prior, is below 1. (With a penalty on all other coefficients that is also
    enough.)
    """
    prior = implied_prior(engine).mean
    if prior < 1.0:
        return 1.0
    warn_user(
        f"The propensities imply a class prior of {prior:.3f}, the mean of s/e: more positives than rows, and the risk "
        "has no minimum. The weights are scaled down to just below 1; nearly all rows will be called positive. "
        "Check the propensities, or use SAREMClassifier to estimate them. method='likelihood' helps only if this is "
        "chance: with propensities that are too low it calls nearly all rows positive too.",
        ConvergenceWarning,
    )
    return _LARGEST_PRIOR / prior


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
            "does: LogisticRegression(solver='lbfgs'), DecisionTreeClassifier, RandomForestClassifier, "
            "HistGradientBoostingClassifier, naive Bayes, LGBMClassifier."
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


def _probe(estimator: Any, X: Any, y: Array, weight: Vector) -> Vector:
    model = clone(estimator)
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in _FREE.items() if name in known})
    fit_weighted(model, X, y, weight)
    return np.asarray(model.predict_proba(np.array([[0.0, 1.0], [1.0, 0.0]])))[:, 1]
