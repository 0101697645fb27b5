"""What all methods of the field share: checks of rows and labels, the classifier inside, and the contract of results.

`predict` is the method's own decision: positive if the score of a row is above ``cut_``. `decision_function` is its
ranking. Only methods that claim probabilities have `predict_proba`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import (
    final_step,
    fit_weighted,
    seeded_clone,
    takes_weights,
    warn_about_class_weights,
    warn_if_fitted_to_labels,
    warn_if_scored_by_labels,
)
from scarless.checks.labels import LabelCoding
from scarless.checks.options import check_counts, check_positive, check_random_stream, check_vector, check_weight
from scarless.checks.rows import check_label_weights, check_labelled_table, forget_fit, warn_about_row_order
from scarless.checks.tables import check_foreign_table, check_table, refuse_own_engine
from scarless.models.messages import warn_unless_converged
from scarless.numerics.arrays import Array, ArrayLike, Matrix, Vector
from scarless.pair.learners import LogisticLearner, positive_probability
from scarless.pair.logistic import Training, all_columns, block_logits, engine_of

# Probabilities of a classifier are moved into this range before they become log-odds, which are then finite.
_MIN_PROBABILITY, _MAX_PROBABILITY = 1e-300, 1.0 - 2.0**-53


class FieldClassifier(ClassifierMixin, BaseEstimator):
    """Base class of the methods of the field: a ranking of rows, and a cut-off of its own.

    A subclass has the parameters of this class and its own. Its `fit` calls `_begin`, and stores ``cut_`` last. Its
    `_score_rows` returns the score of each row of a checked table.
    """

    cut_: float
    _coding: LabelCoding
    _inner: Any
    # What the method is told besides the rows: "nothing", "names" of propensity attributes, "prior" or "propensity".
    knows = "nothing"

    def __init__(
        self, estimator: Any = None, *, C: float = 1.0, random_state: Any = None, pos_label: Any = None
    ) -> None:
        self.estimator = estimator
        self.C = C
        self.random_state = random_state
        self.pos_label = pos_label

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # A method may call more rows positive than the labels of a check do.
        inner = self.estimator
        readable = hasattr(inner, "__sklearn_tags__") and not isinstance(inner, type)
        inner_tags = get_tags(inner).input_tags if readable else None
        tags.input_tags.sparse = inner_tags is None or inner_tags.sparse
        logistic_propensity = getattr(self, "propensity_estimator", inner) is None
        tags.input_tags.allow_nan = inner_tags is not None and inner_tags.allow_nan and not logistic_propensity
        return tags

    @property
    def label_coding_(self) -> LabelCoding:
        """The two label values of the fit, and which of them marks a labelled row."""
        return self._coding

    def decision_function(self, X: Any) -> Vector:
        """Return the score of each row minus ``cut_``, the method's ranking.

        As in scikit-learn, a value above 0 means ``classes_[1]``. The sign is therefore reversed if labelled rows are
        coded ``classes_[0]``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.

        Returns
        -------
        array of shape (n_rows,)
        """
        above = self._score_rows(self._check_new(X)) - self.cut_
        return above if self._coding.positive == 1 else -above

    def predict(self, X: Any) -> Array:
        """Return the class of each row by the method's own decision: positive if its score is above ``cut_``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.

        Returns
        -------
        array of shape (n_rows,)
        """
        positive = self._score_rows(self._check_new(X)) > self.cut_
        return self._coding.decode(positive)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the probability that a labelled row is ranked above an unlabelled row; 1/2 is a random ranking.

        This is the area under the ROC curve of the observed labels. It judges the ranking, not the cut-off, and needs
        no true classes. If labels are selected completely at random, it increases with the area for the true classes.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        float
        """
        scores = self._score_rows(self._check_new(X))
        warn_about_row_order(X, y=y, sample_weight=sample_weight)
        s = check_vector(self._coding.encode(y), "y", n_rows=scores.size)
        w = check_weight(sample_weight, n_rows=s.size)
        if not w @ s > 0 or not w @ (1.0 - s) > 0:
            raise ValueError("y: a score needs at least one labelled and one unlabelled row of positive weight.")
        return float(roc_auc_score(s, scores, sample_weight=w))

    def _begin(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Training, np.random.Generator]:
        """Check the parameters that all methods share, and the rows of a fit; return these and random numbers."""
        check_positive(self.C, "C")
        rng = check_random_stream(self.random_state)
        return self._read(X, y, sample_weight), rng

    def _fit_inner(self, table: Any, t: Vector, w: Vector | None, rng: np.random.Generator) -> "InnerFit":
        """Fit the classifier inside to targets 0 and 1."""
        return fit_inner(self.estimator, table, t, w, rng, C=self.C, name=type(self).__name__)

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> Training:
        """Check the table, labels and weights of a fit; store the coding of the labels."""
        warn_if_fitted_to_labels(self)
        check_inner(self.estimator)
        if hasattr(self, "predict_proba"):
            warn_about_class_weights(self)
        refuse_own_engine(X, type(self).__name__)
        forget_fit(self)
        self._reader = self.estimator
        table, s, self._coding = check_labelled_table(self, X, y, inner=self._reader, pos_label=self.pos_label)
        self.classes_ = self._coding.classes
        weight = check_counts(sample_weight, n_rows=s.size)
        warn_about_row_order(X, sample_weight=sample_weight)
        check_label_weights(s, weight)
        return Training(table, s, weight)

    def _check_new(self, X: Any) -> Any:
        """Check the table of a prediction."""
        check_is_fitted(self)
        warn_if_scored_by_labels(self)
        if self._reader is None:
            return check_table(self, X, reset=False)
        return check_foreign_table(self, X, inner=self._reader, reset=False)

    def _score_rows(self, table: Any) -> Vector:
        """Return the score of each row of a checked table, on the scale of ``cut_``."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cut_")  # every fit stores this attribute last


class FieldProbabilityClassifier(FieldClassifier):
    """Base class of the methods that claim class probabilities; their score is the probability.

    A subclass defines `_class_probability`, the probability of a positive for each row of a checked table. If it
    defines `_propensity`, it has `predict_propensity`.
    """

    def predict_proba(self, X: Any) -> Matrix:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.

        Returns
        -------
        array of shape (n_rows, 2)
        """
        f = self._class_probability(self._check_new(X))
        return self._coding.columns(f)

    @available_if(lambda self: hasattr(self, "_propensity"))
    def predict_propensity(self, X: Any) -> Vector:
        r"""Return the propensity :math:`e(x)` of each row: the probability of a label if the row is positive.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.

        Returns
        -------
        array of shape (n_rows,)
        """
        e: Vector = self._propensity(self._check_new(X))
        return e

    def _class_probability(self, table: Any) -> Vector:
        raise NotImplementedError

    def _score_rows(self, table: Any) -> Vector:
        return self._class_probability(table)


# --- the classifier inside


class InnerFit(NamedTuple):
    """A fitted classifier of 1 against 0: the logistic model of this package, or a clone of the user's estimator."""

    model: Any

    def logits(self, table: Any) -> Vector:
        """Return the log-odds of class 1 for each row; they are finite."""
        if isinstance(self.model, LogisticLearner):
            engine = engine_of(table)
            return np.asarray(engine.collect(block_logits, all_columns(engine), self.model.beta))
        return log_odds(self.probability(table))

    def probability(self, table: Any) -> Vector:
        """Return the probability of class 1 for each row."""
        if isinstance(self.model, LogisticLearner):
            return np.asarray(expit(self.logits(table)))
        return np.clip(positive_probability(self.model, table), 0.0, 1.0)


def fit_inner(
    estimator: Any, table: Any, t: Vector, w: Vector | None, rng: np.random.Generator, *, C: float, name: str
) -> InnerFit:
    """Fit a classifier of 1 against 0 to a checked table; None means the logistic model.

    Every `random_state` of the estimator that is None gets a seed from `rng`. An estimator gets weights only if they
    differ from 1; the fit fails if it does not accept them. `name` is the name of the method in warnings.
    """
    weight = np.ones(t.size) if w is None else w
    if estimator is None:
        learner = LogisticLearner(C=C)
        learner.fit(table, t, weight)
        assert learner.solution is not None
        warn_unless_converged(learner.solution, name, total_weight=float(weight.sum()), tol=learner.tol)
        return InnerFit(learner)
    model = seeded_clone(estimator, rng)
    labels = t.astype(np.int64)
    if bool((weight == 1.0).all()):
        model.fit(table, labels)
    elif takes_weights(estimator):
        fit_weighted(model, table, labels, weight)
    else:
        raise ValueError(
            f"sample_weight: estimator={type(final_step(estimator)).__name__} does not accept weights in fit. Use "
            "another classifier, such as LogisticRegression, or repeat rows instead of weighting them."
        )
    return InnerFit(model)


def store_inner(model: Any, inner: InnerFit) -> None:
    """Store a fitted classifier: the logistic model as ``coef_`` and ``intercept_``, others as ``estimator_``."""
    model._inner = inner
    if isinstance(inner.model, LogisticLearner):
        assert inner.model.beta is not None
        model.coef_, model.intercept_ = inner.model.beta[None, :-1].copy(), inner.model.beta[-1:].copy()
    else:
        model.estimator_ = inner.model


def check_inner(estimator: Any) -> None:
    """Raise unless `estimator` is None, or a classifier that predicts probabilities."""
    if estimator is None:
        return
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            "estimator must be None, which means logistic regression, or an instance of a scikit-learn classifier, "
            f"such as RandomForestClassifier(); got {estimator!r}."
        )
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimator={type(estimator).__name__} has no predict_proba. Use a classifier that predicts probabilities, "
            "or wrap this classifier in sklearn.calibration.CalibratedClassifierCV."
        )


def log_odds(p: Vector) -> Vector:
    """Return the log-odds of probabilities; 0 and 1 are replaced by the nearest values with finite log-odds.

    Examples
    --------
    >>> log_odds(np.array([0.0, 0.5, 1.0])).round()
    array([-691.,    0.,   37.])
    """
    return np.asarray(logit(np.clip(p, _MIN_PROBABILITY, _MAX_PROBABILITY)))
