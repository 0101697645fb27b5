"""Estimators that read a classifier's out-of-fold scores instead of the table."""

from abc import abstractmethod
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from scarless.checks.estimators import final_step, fit_weighted, takes_weights
from scarless.checks.options import check_whole
from scarless.checks.tables import take_rows
from scarless.engines.blas import FEW_ROWS, trees_alone
from scarless.label_frequency._base import LabelFrequencyEstimator
from scarless.numerics.arrays import Vector

PRECOMPUTED = "precomputed"
PROBABILITY, DECISION = "predict_proba", "decision_function"  # where scores come from, apart from PRECOMPUTED


class ScoreEstimator(LabelFrequencyEstimator):
    """Base of the estimators on scores: higher means more likely labelled.

    The classifier learns labelled against unlabelled rows, several times, each time without a fold of the rows, and
    scores that fold: scores of its own training rows would give their labels away. The scores are made once; an
    interval needs no refits.
    """

    estimator: Any
    n_folds: int

    def _inner(self) -> Any:
        return None if self.estimator is None or _is_precomputed(self.estimator) else self.estimator

    def _check_options(self) -> None:
        check_whole(self.n_folds, "n_folds", at_least=2)
        inner = self._inner()
        if inner is not None:
            check_scorer(inner, self._reads(), type(self).__name__)

    def _reads(self) -> tuple[str, ...]:
        """Return the methods of a classifier that give scores, best first."""
        return PROBABILITY, DECISION

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        return self._scores(X, s, w, rng), s, w

    def _scores(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> Vector:
        if _is_precomputed(self.estimator):
            return self._read(one_column(X), PRECOMPUTED)
        estimator = default_classifier(X) if self.estimator is None else self.estimator
        method = next(name for name in self._reads() if hasattr(estimator, name))
        with trees_alone(X.shape[0]) if self.estimator is None else nullcontext():
            scores = out_of_fold_scores(estimator, method, X, s, w, self.n_folds, rng)
        return self._read(scores, method)

    @abstractmethod
    def _read(self, scores: Vector, source: str) -> Vector:
        """Return scores in the form that `_estimate` takes, or raise where they cannot be read."""


def _is_precomputed(estimator: Any) -> bool:
    return isinstance(estimator, str) and estimator == PRECOMPUTED


def check_scorer(estimator: Any, methods: tuple[str, ...], name: str) -> None:
    """Refuse what is no classifier or has none of the methods that give scores."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"estimator must be None, 'precomputed' or a scikit-learn classifier (an instance); got {estimator!r}."
        )
    if not any(hasattr(estimator, method) for method in methods):
        raise ValueError(
            f"estimator={type(estimator).__name__} has no {' and no '.join(methods)}, which {name} reads. Use "
            "another classifier, or wrap it: sklearn.calibration.CalibratedClassifierCV(estimator)."
        )


def default_classifier(X: Any) -> Any:
    """Return gradient boosting for dense tables, a logistic model for sparse ones, which the former does not read.

    Up to `FEW_ROWS` the trees are smaller and the steps shorter than the library's: on eight datasets of up to four
    thousand rows that had the lower out-of-fold log loss of the labels on each (no true class enters into that). On
    three datasets the two were level at 12,000 and 16,000 rows; at 50,000 larger trees, stopped early, were better on
    two of them.
    """
    if sparse.issparse(X):
        return LogisticRegression(max_iter=1000)
    if X.shape[0] > FEW_ROWS:
        return HistGradientBoostingClassifier(early_stopping=True)
    return HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=8)


def one_column(X: Any) -> Vector:
    """Return the scores that a table of one column holds."""
    if X.shape[1] != 1:
        raise ValueError(
            f"With estimator='precomputed' X holds one column of out-of-fold scores; it has {X.shape[1]} columns. "
            "Pass scores.reshape(-1, 1), or leave estimator at None to have the scores made from these columns."
        )
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)[:, 0]


def out_of_fold_scores(
    estimator: Any, method: str, X: Any, s: Vector, w: Vector, n_folds: int, rng: np.random.Generator
) -> Vector:
    """Score each row by a clone of the classifier that was fitted without the row's fold.

    Folds keep the share of labelled rows; there are never more of them than rows of either kind. Weights that are not
    all 1 go to the classifier, which must take them.
    """
    weighted = bool((w != 1.0).any())
    if weighted and not takes_weights(estimator):
        raise ValueError(
            f"sample_weight is given, but estimator={type(final_step(estimator)).__name__} takes none in its fit. Use "
            "another classifier, e.g. LogisticRegression or HistGradientBoostingClassifier, or repeat rows instead."
        )
    fewest = int(min(s.sum(), (1.0 - s).sum()))
    if fewest < 2:
        raise ValueError(
            f"Out-of-fold scores need at least 2 labelled and 2 unlabelled rows; there are {s.sum():.0f} and "
            f"{(1.0 - s).sum():.0f}. Give more rows, or scores that you already have: estimator='precomputed'."
        )
    labels = s.astype(np.int64)
    folds = StratifiedKFold(min(n_folds, fewest), shuffle=True, random_state=_seed(rng))
    scores = np.empty(s.size)
    for others, fold in folds.split(labels, labels):
        model = seeded_clone(estimator, rng)
        if weighted:
            fit_weighted(model, take_rows(X, others), labels[others], w[others])
        else:
            model.fit(take_rows(X, others), labels[others])
        scores[fold] = positive_score(model, method, take_rows(X, fold))
    _check_finite(scores, estimator)
    return scores


def seeded_clone(estimator: Any, rng: np.random.Generator) -> Any:
    """Return an unfitted copy whose every `random_state` that was None, inside pipelines too, has a seed."""
    copy = clone(estimator)
    unset = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**{name: _seed(rng) for name in sorted(unset)})


def positive_score(model: Any, method: str, X: Any) -> Vector:
    """Return the fitted model's score of class 1 for each row."""
    scores = np.asarray(getattr(model, method)(X), dtype=np.float64)
    return scores[:, 1] if scores.ndim == 2 else scores  # classes are sorted: 0, 1


def _check_finite(scores: Vector, estimator: Any) -> None:
    bad = np.count_nonzero(~np.isfinite(scores))
    if bad:
        raise ValueError(
            f"{type(estimator).__name__} gave {bad} of {scores.size} scores that are not finite numbers. Check its "
            "attributes and options, or use another classifier."
        )


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
