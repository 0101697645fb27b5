"""What flexible models learn out of fold of who is labelled, as columns of a logistic model."""

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from scarless.data.options import check_whole
from scarless.diagnostics._roles import Roles
from scarless.label_frequency._scores import (
    MANY_ROWS,
    PROBABILITY,
    check_scorer,
    default_classifier,
    out_of_fold_scores,
)
from scarless.models._base import engine_of
from scarless.models._logistic import fit_pair
from scarless.numerics.linear import Design

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Logits beyond this say the same: certainly, or certainly not. Unbounded, one over-confident row would rule a fit.
FARTHEST = 8.0
LOGISTIC = "logistic"


def check_learning(classifier: Any, n_folds: int, user: str) -> None:
    """Check the parameters that say how to learn."""
    check_whole(n_folds, "n_folds", at_least=2)
    if isinstance(classifier, str) and classifier != LOGISTIC:
        raise ValueError(
            f"classifier must be None, {LOGISTIC!r} or a scikit-learn classifier (an instance); got {classifier!r}."
        )
    if classifier is not None and not isinstance(classifier, str):
        check_scorer(classifier, (PROBABILITY,), user)


def class_columns(roles: Roles, *, classifier: Any, n_folds: int, rng: np.random.Generator) -> Matrix:
    """Return the columns of the logistic `f`, of unit variance.

    Two scores that stand for the columns of the class alone, or those columns themselves, then the attributes that
    class and labelling share.
    """
    X = standardised(roles.X_class)
    if classifier == LOGISTIC:
        D = X.toarray() if sparse.issparse(X) else X
    else:
        D = class_scores(X, roles.s, classifier=classifier, n_folds=n_folds, rng=rng)
    return standardised(np.column_stack([D, roles.Z[:, roles.shared]]).astype(np.float64))


def standardised(X: Any) -> Any:
    """Return columns of unit variance, constant ones as they are; of a sparse table the zeros stay."""
    if X.shape[1] == 0:
        return X
    return StandardScaler(with_mean=not sparse.issparse(X)).fit_transform(X)


def class_scores(X: Any, s: Vector, *, classifier: Any, n_folds: int, rng: np.random.Generator) -> Matrix:
    """Return two scores of every row, each from models that have not seen the row's fold.

    The logit of being labelled by the classifier, and the logit of being positive by a logistic model with a constant
    propensity: gradient boosting finds what is not linear, the other does better on few rows. Without columns to learn
    from there is no score.
    """
    if X.shape[1] == 0:
        return np.empty((s.size, 0))
    chosen = default_classifier(X) if classifier is None else classifier
    with _one_thread(X):
        chance = out_of_fold_scores(chosen, "predict_proba", X, s, n_folds, rng)
    limit = 1.0 / (1.0 + np.exp(FARTHEST))
    learned = logit(np.clip(chance, limit, 1.0 - limit))
    linear = np.clip(_logistic_scores(X, s, n_folds, rng), -FARTHEST, FARTHEST)
    return np.column_stack([learned, linear])


def _logistic_scores(X: Any, s: Vector, n_folds: int, rng: np.random.Generator) -> Vector:
    f, constant = Design.of(np.arange(X.shape[1])), Design.of(np.arange(0))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31 - 1)))
    scores = np.empty(s.size)
    for others, fold in folds.split(s, s.astype(np.int64)):
        engine, w = engine_of(X[others]), np.ones(others.size)
        fit = fit_pair(engine, f, constant, s[others], w, C=1.0, propensity_C=1.0, tol=1e-8, max_iter=200)
        scores[fold] = X[fold] @ fit.f[:-1] + fit.f[-1]
    return scores


def _one_thread(X: Any) -> Any:
    """Small fits on many threads wait for each other."""
    return threadpool_limits(limits=1, user_api="openmp") if X.shape[0] <= MANY_ROWS else nullcontext()
