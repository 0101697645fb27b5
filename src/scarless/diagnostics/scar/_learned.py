"""What flexible models learn of the rows out of fold, as columns of a logistic model of the class."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from scarless.checks.options import check_whole
from scarless.diagnostics.scar._roles import Roles
from scarless.engines.blas import trees_alone
from scarless.label_frequency.held_out_scores import (
    PROBABILITY,
    check_scorer,
    default_classifier,
    out_of_fold_scores,
)
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import Design
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem

# Logits beyond this say the same: certainly, or certainly not. Unbounded, one over-confident row would rule a fit.
FARTHEST = 8.0
TREES = 100  # of a forest
LOGISTIC = "logistic"


def check_learning(estimator: Any, cv: int, user: str) -> None:
    """Check the parameters that say how to learn."""
    check_whole(cv, "cv", at_least=2)
    if estimator is None or (isinstance(estimator, str) and estimator == LOGISTIC):
        return
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"estimator must be None, {LOGISTIC!r} or a scikit-learn classifier (an instance); got {estimator!r}."
        )
    check_scorer(estimator, (PROBABILITY,), user)


def class_columns(roles: Roles, *, estimator: Any, cv: int, rng: np.random.Generator) -> Matrix:
    """Return the columns of the logistic `f`, of unit variance.

    What stands for the columns of the class alone: scores and expected attributes, or those columns themselves. Then
    the attributes that class and labelling share.
    """
    X, w = standardised(roles.X_class, roles.w), roles.w
    if estimator == LOGISTIC or X.shape[1] == 0:
        D = X.toarray() if sparse.issparse(X) else X
    else:
        _check_folds(cv, roles.s)
        scores = class_scores(X, roles.s, w, estimator=estimator, cv=cv, rng=rng)
        D = np.column_stack([scores, expected_attributes(X, roles.Z, w, cv=cv, rng=rng)])
    return np.asarray(standardised(np.column_stack([D, roles.Z[:, roles.shared]]).astype(np.float64), w))


def standardised(X: Any, w: Vector) -> Any:
    """Return columns of mean 0 and variance 1 (constant ones: 0); a sparse table is only scaled, so that zeros stay."""
    if X.shape[1] == 0:
        return X
    return StandardScaler(with_mean=not sparse.issparse(X)).fit(X, sample_weight=_unless_1(w)).transform(X)


def class_scores(X: Any, s: Vector, w: Vector, *, estimator: Any, cv: int, rng: np.random.Generator) -> Matrix:
    """Return scores of every row, each by models that have not seen the row's fold.

    The logit of being labelled by each classifier, and the logit of being positive by a logistic model with a constant
    propensity. No learner is best everywhere: boosting and forests find what is not linear, forests do better on many
    weak columns, such as words, and the logistic model on few rows.
    """
    chosen = [default_classifier(X), _forest(X, ExtraTreesClassifier, 3)] if estimator is None else [estimator]
    limit = 1.0 / (1.0 + np.exp(FARTHEST))
    with trees_alone(X.shape[0]):
        chances = [out_of_fold_scores(model, PROBABILITY, X, s, w, cv, rng) for model in chosen]
    learned = [logit(np.clip(chance, limit, 1.0 - limit)) for chance in chances]
    return np.column_stack([*learned, np.clip(_logistic_scores(X, s, w, cv, rng), -FARTHEST, FARTHEST)])


def expected_attributes(X: Any, Z: Matrix, w: Vector, *, cv: int, rng: np.random.Generator) -> Matrix:
    """Return the mean of each column of `Z` given the columns of `X`, by a forest that has not seen the row's fold.

    Where the scores miss something of the class that `X` tells, a column of `Z` that goes along with `X` may stand in
    for it and pass for a cause of the labelling. What `X` tells of `Z` takes that part.
    """
    forest = _forest(X, ExtraTreesRegressor, 5).set_params(random_state=_seed(rng))
    expected = np.empty_like(Z)
    target = Z.ravel() if Z.shape[1] == 1 else Z  # a forest warns of a single target in a table
    for others, fold in KFold(cv, shuffle=True, random_state=_seed(rng)).split(Z):
        forest.fit(X[others], target[others], sample_weight=_unless_1(w[others]))
        expected[fold] = forest.predict(X[fold]).reshape(fold.size, -1)
    return expected


def _check_folds(cv: int, s: Vector) -> None:
    fewest = int(min(s.sum(), (1.0 - s).sum()))
    if cv > fewest:
        raise ValueError(
            f"cv={cv}, but there are {s.sum():.0f} labelled and {(1.0 - s).sum():.0f} unlabelled rows, and "
            f"each fold needs one of either kind. Use at most cv={fewest}; 5 will do."
        )


def _forest(X: Any, kind: type, fewest: int) -> Any:
    """Return a forest whose trees do not grow without end on many rows."""
    return kind(TREES, max_features="sqrt", min_samples_leaf=max(fewest, X.shape[0] // 2000))


def _logistic_scores(X: Any, s: Vector, w: Vector, cv: int, rng: np.random.Generator) -> Vector:
    f, constant = Design.of(np.arange(X.shape[1])), Design.of(np.arange(0))
    folds = StratifiedKFold(cv, shuffle=True, random_state=_seed(rng))
    scores = np.empty(s.size)
    for others, fold in folds.split(s, s.astype(np.int64)):
        problem = PairProblem.of(engine_of(X[others], s=s[others], w=w[others]), f, constant)
        fit = fit_pair(problem, None, FitOptions(1e-8))
        scores[fold] = X[fold] @ fit.f[:-1] + fit.f[-1]
    return scores


def _unless_1(w: Vector) -> Vector | None:
    """Return weights, or None where every row counts once: other software may round differently with them."""
    return None if (w == 1.0).all() else w


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
