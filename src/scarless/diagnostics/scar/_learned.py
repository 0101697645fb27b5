"""Out-of-fold predictions of flexible models, used as columns of the logistic class model."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from scarless.checks.options import check_whole
from scarless.diagnostics.scar._roles import Roles
from scarless.engines.blas import predictions_on_one_thread
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

# Logits are clipped to this absolute value. Beyond it, probabilities are practically 0 or 1, and one overconfident row
# could dominate a fit.
MAX_LOGIT = 8.0
TREES_PER_FOREST = 100
LOGISTIC = "logistic"


def check_learning(estimator: Any, cv: int, user: str) -> None:
    """Check the parameters `estimator` and `cv`."""
    check_whole(cv, "cv", at_least=2)
    if estimator is None or (isinstance(estimator, str) and estimator == LOGISTIC):
        return
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"estimator must be None, {LOGISTIC!r} or an instance of a scikit-learn classifier; got {estimator!r}."
        )
    check_scorer(estimator, (PROBABILITY,), user)


def class_columns(roles: Roles, *, estimator: Any, cv: int, rng: np.random.Generator) -> Matrix:
    """Return the columns of the logistic class model, scaled to unit variance.

    The first columns are the out-of-fold scores and the expected propensity attributes; with ``estimator="logistic"``,
    the classification attributes themselves. The last columns are the attributes that may affect both the class and the
    labelling.
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
    """Return columns of mean 0 and variance 1; constant columns are 0. A sparse table is not centred."""
    if X.shape[1] == 0:
        return X
    return StandardScaler(with_mean=not sparse.issparse(X)).fit(X, sample_weight=_unless_1(w)).transform(X)


def class_scores(X: Any, s: Vector, w: Vector, *, estimator: Any, cv: int, rng: np.random.Generator) -> Matrix:
    """Return scores of every row, predicted by models that were not trained on the row's fold.

    The scores are the logit of the probability of a label according to each classifier, and the logit of the class
    probability according to a logistic model with a constant propensity. No classifier is best everywhere: boosting and
    forests find nonlinear effects, forests are better with many weak columns such as words, and the logistic model is
    better with few rows.
    """
    chosen = [default_classifier(X), _forest(X, ExtraTreesClassifier, 3)] if estimator is None else [estimator]
    limit = 1.0 / (1.0 + np.exp(MAX_LOGIT))
    with predictions_on_one_thread(X.shape[0]):
        probabilities = [out_of_fold_scores(model, PROBABILITY, X, s, w, cv, rng) for model in chosen]
    learned = [logit(np.clip(each, limit, 1.0 - limit)) for each in probabilities]
    return np.column_stack([*learned, np.clip(_logistic_scores(X, s, w, cv, rng), -MAX_LOGIT, MAX_LOGIT)])


def expected_attributes(X: Any, Z: Matrix, w: Vector, *, cv: int, rng: np.random.Generator) -> Matrix:
    """Return the expected value of each column of `Z` given `X`, by a forest that was not trained on the row's fold.

    If the scores miss an effect of `X` on the class, a column of `Z` that is correlated with `X` could explain this
    effect and look like a cause of the labelling. Expected values as columns of the class model prevent this.
    """
    forest = _forest(X, ExtraTreesRegressor, 5).set_params(random_state=_seed(rng))
    expected = np.empty_like(Z)
    target = Z.ravel() if Z.shape[1] == 1 else Z  # scikit-learn warns about a target with one column
    for others, fold in KFold(cv, shuffle=True, random_state=_seed(rng)).split(Z):
        forest.fit(X[others], target[others], sample_weight=_unless_1(w[others]))
        expected[fold] = forest.predict(X[fold]).reshape(fold.size, -1)
    return expected


def _check_folds(cv: int, s: Vector) -> None:
    fewest = int(min(s.sum(), (1.0 - s).sum()))
    if cv > fewest:
        advice = "Pass more rows." if fewest < 2 else f"Use at most cv={fewest}."
        raise ValueError(
            f"cv={cv} is too large: each fold needs a labelled and an unlabelled row, and there are {s.sum():.0f} "
            f"labelled and {(1.0 - s).sum():.0f} unlabelled rows. {advice}"
        )


def _forest(X: Any, kind: type, min_leaf: int) -> Any:
    """Return a forest whose trees have at most about 2000 leaves."""
    return kind(TREES_PER_FOREST, max_features="sqrt", min_samples_leaf=max(min_leaf, X.shape[0] // 2000))


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
    """Return weights, or None if all are 1: other libraries may round differently with weights of 1."""
    return None if (w == 1.0).all() else w


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
