"""Scorers for ``GridSearchCV`` and ``cross_validate`` that need labels and propensities, but no known negatives."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import UNUSED

from scarless.checks.estimators import innermost
from scarless.checks.labels import LabelCoding, check_labels
from scarless.checks.looks import refuse_looks
from scarless.checks.options import check_choice, check_flag, check_propensity, check_vector
from scarless.checks.rows import named_values
from scarless.engines.base import known_rows
from scarless.metrics._rows import Weighting, check_options
from scarless.metrics.score import Score
from scarless.metrics.scores import (
    observed_log_likelihood,
    propensity_weighted_accuracy,
    propensity_weighted_average_precision,
    propensity_weighted_brier_score,
    propensity_weighted_f1,
    propensity_weighted_log_loss,
    propensity_weighted_precision,
    propensity_weighted_recall,
    propensity_weighted_roc_auc,
)
from scarless.numerics.arrays import Vector
from scarless.outside.notices import listed

OBSERVED_LOG_LIKELIHOOD = "observed_log_likelihood"


class ScorerInput(NamedTuple):
    """Labels (0 or 1), predicted probabilities of the positive class, and propensities of the same rows."""

    s: Vector
    f: Vector
    e: Vector


def coding_of(model: Any, pos_label: Any = None) -> LabelCoding:
    """Return which of the two classes of a model is positive, from its fit or from `pos_label`."""
    if pos_label is None:
        coding = getattr(innermost(model), "label_coding_", None)
        if isinstance(coding, LabelCoding):
            return coding
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise ValueError(
            f"{type(model).__name__} has no attribute classes_. Pass a fitted classifier with two classes, "
            "e.g. SAREMClassifier().fit(X, s)."
        )
    return check_labels(classes, pos_label=pos_label)


def encode(coding: LabelCoding, y: Any) -> Vector:
    """Return observed labels coded as 0 and 1."""
    return check_vector(coding.encode(y), "y")


def class_probability(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return the predicted probability of the positive class."""
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} has no predict_proba, which this score needs. Use a model that has it, or a score "
            "of predicted classes: 'accuracy', 'precision', 'recall' or 'f1'."
        )
    return np.asarray(model.predict_proba(X), dtype=np.float64)[:, coding.positive]


def decisions(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return 1 for rows that the model predicts positive, 0 for other rows."""
    return (np.asarray(model.predict(X)) == coding.classes[coding.positive]).astype(np.float64)


def ranking(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return numbers that rank rows from negative to positive: probabilities, or decision values without them."""
    if hasattr(model, "predict_proba") or not hasattr(model, "decision_function"):
        return class_probability(model, X, coding)
    values = np.asarray(model.decision_function(X), dtype=np.float64).reshape(-1)
    return values if coding.positive == 1 else -values


def own_propensity(model: Any, X: Any) -> Vector | None:
    """Return the propensity that a model predicts, also inside a pipeline or a search. None if it predicts none."""
    if hasattr(model, "predict_propensity"):
        refuse_looks(
            model,
            "This score",
            instead="Use model.score(X, s), the mean log-likelihood of the labels.",
        )
        return np.asarray(model.predict_propensity(X), dtype=np.float64)
    if isinstance(model, Pipeline):
        return own_propensity(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
    if hasattr(model, "best_estimator_"):
        return own_propensity(model.best_estimator_, X)
    return None


def scorer_input(model: Any, X: Any, s: Any, propensity: Any, *, pos_label: Any, user: str) -> ScorerInput:
    """Return labels, predicted probabilities and propensities. Without `propensity`, the model must predict it."""
    coding, X = coding_of(model, pos_label), known_rows(X)
    f = class_probability(model, X, coding)
    labels = check_vector(encode(coding, named_values(X, s, labels=True)), "s", n_rows=f.size)
    e = own_propensity(model, X) if propensity is None else named_values(X, propensity)
    if e is None:
        raise ValueError(
            f"{user} needs the propensity of every row, and {type(model).__name__} has no predict_propensity. Pass "
            "propensity=, or use a model that predicts propensities, such as SAREMClassifier."
        )
    return ScorerInput(labels, f, check_propensity(e, n_rows=f.size))


class _Recipe(NamedTuple):
    """Definition of a scorer: how to predict, the score function, its sign and its options."""

    predict: Callable[[Any, Any, LabelCoding], Vector]
    function: Callable[..., Score]
    sign: float
    options: tuple[str, ...] = ("normalised", "max_weight", "class_prior")


_RECIPES = {
    "neg_log_loss": _Recipe(class_probability, propensity_weighted_log_loss, -1.0),
    "neg_brier_score": _Recipe(class_probability, propensity_weighted_brier_score, -1.0),
    "accuracy": _Recipe(decisions, propensity_weighted_accuracy, 1.0),
    "precision": _Recipe(decisions, propensity_weighted_precision, 1.0),
    "recall": _Recipe(decisions, propensity_weighted_recall, 1.0, ("max_weight",)),
    "f1": _Recipe(decisions, propensity_weighted_f1, 1.0),
    "roc_auc": _Recipe(ranking, propensity_weighted_roc_auc, 1.0),
    "average_precision": _Recipe(ranking, propensity_weighted_average_precision, 1.0),
    OBSERVED_LOG_LIKELIHOOD: _Recipe(class_probability, observed_log_likelihood, 1.0, ()),
}


class PUScorer(BaseEstimator):
    r"""Scorer for scikit-learn's ``scoring=`` that estimates a score of the true class from labels and propensities.

    Create it with `make_pu_scorer`. ``scorer(model, X, s, propensity=e)`` returns one number; higher is better.
    `evaluate` returns the score with its standard error.

    Parameters
    ----------
    metric : str
        One of `pu_scorer_names`.
    normalised, max_weight, class_prior
        See `propensity_weighted_log_loss`.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for models of this library, nor for 0/1, -1/+1 or booleans.

    Examples
    --------
    >>> PUScorer("roc_auc", max_weight=10)
    PUScorer(max_weight=10, metric='roc_auc')
    """

    # Propensities are routed to the scorer by default, because every metric needs them.
    __metadata_request__score = {"propensity": True, "estimator": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        metric: str,
        *,
        normalised: bool = False,
        max_weight: float | None = None,
        class_prior: float | None = None,
        pos_label: Any = None,
    ) -> None:
        self.metric = metric
        self.normalised = normalised
        self.max_weight = max_weight
        self.class_prior = class_prior
        self.pos_label = pos_label

    def __call__(self, estimator: Any, X: Any, y: Any, *, propensity: Any = None, sample_weight: Any = None) -> float:
        """Return the score of a fitted model on rows and their observed labels; higher is better."""
        return self.score(estimator, X, y, propensity=propensity, sample_weight=sample_weight)

    def score(self, estimator: Any, X: Any, y: Any, *, propensity: Any = None, sample_weight: Any = None) -> float:
        """Return the score of a fitted model on rows and their observed labels; higher is better.

        Parameters
        ----------
        estimator : fitted classifier
            The model to score.
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels, coded as in the model's `fit`.
        propensity : float or array of shape (n_rows,), optional
            Propensity of each row, in (0, 1]. By default, the model's ``predict_propensity``.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        float
        """
        found = self.evaluate(estimator, X, y, propensity=propensity, sample_weight=sample_weight)
        if math.isnan(found.value):
            raise ValueError(
                f"{self.metric!r} is undefined for these rows (number of labelled rows: {found.n_labelled}). Recall, "
                "ROC-AUC and average precision need labelled rows, precision needs rows that are predicted positive, "
                "and ROC-AUC needs an estimated share of positives below 1. Score more rows, or raise propensities "
                "that are too small, e.g. np.maximum(propensity, 0.01). The method evaluate returns NaN instead of "
                "this error."
            )
        return _RECIPES[self.metric].sign * found.value

    def evaluate(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        propensity: Any = None,
        sample_weight: Any = None,
        level: float = 0.95,
    ) -> Score:
        """Return the score with its standard error and interval. Losses are not negated.

        Parameters
        ----------
        estimator, X, y, propensity, sample_weight
            See `score`.
        level : float in (0, 1), default=0.95
            Confidence level.

        Returns
        -------
        Score
        """
        recipe = self._recipe()
        coding, X = coding_of(estimator, self.pos_label), known_rows(X)
        predicted = recipe.predict(estimator, X, coding)
        e = self._own_propensity(estimator, X, predicted.size) if propensity is None else named_values(X, propensity)
        labels, w = encode(coding, named_values(X, y, labels=True)), named_values(X, sample_weight)
        options = {name: getattr(self, name) for name in recipe.options}
        return recipe.function(labels, predicted, propensity=e, sample_weight=w, level=level, **options)

    def _recipe(self) -> _Recipe:
        recipe = _RECIPES[check_choice(self.metric, "metric", pu_scorer_names())]
        every = _RECIPES["roc_auc"].options
        unused = [name for name in every if self._is_set(name) and name not in recipe.options]
        if unused:
            raise ValueError(f"The metric {self.metric!r} does not use {listed(unused)}. Leave out {listed(unused)}.")
        return recipe

    def _is_set(self, option: str) -> bool:
        """Return whether an option is given. ``normalised=False`` counts as not given."""
        value = getattr(self, option)
        return value is not None if option != "normalised" else check_flag(value, option)

    def _own_propensity(self, estimator: Any, X: Any, n_rows: int) -> Vector:
        e = own_propensity(estimator, X)
        if e is not None:
            return e
        if self.metric == OBSERVED_LOG_LIKELIHOOD and getattr(estimator, "label_frequency_", None) == 1.0:
            return np.ones(n_rows)  # a label frequency of 1 means that all positives are labelled
        raise ValueError(
            f"{self!r} needs the propensity of every row, but none was passed and {type(estimator).__name__} has no "
            "predict_propensity. Pass propensity=. In a search or cross-validation, pass it as metadata: "
            "sklearn.set_config(enable_metadata_routing=True), then cross_validate(..., params={'propensity': e}) "
            "or search.fit(X, s, propensity=e)."
        )

    @property
    def _score_func(self) -> Callable[..., float]:
        """Raise an error for TunedThresholdClassifierCV, which reads this attribute, and suggest an alternative."""
        raise AttributeError(
            f"{self!r} scores a model, not predicted classes, so TunedThresholdClassifierCV cannot use it. Pass a "
            "scorer of predicted classes: make_scorer(lambda s, d, propensity: "
            "float(propensity_weighted_f1(s, d, propensity=propensity))).set_score_request(propensity=True)."
        )

    def _accept_sample_weight(self) -> bool:
        return True  # scikit-learn calls this if there are several scorers and metadata routing is off


def make_pu_scorer(
    metric: str,
    *,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
    pos_label: Any = None,
) -> PUScorer:
    r"""Return a scorer that estimates a score of the true class from labels and propensities.

    ==========================================  ================================================================
    metric                                      score
    ==========================================  ================================================================
    ``"neg_log_loss"``, ``"neg_brier_score"``   minus `propensity_weighted_log_loss`, minus
                                                `propensity_weighted_brier_score`
    ``"accuracy"``, ``"precision"``,            `propensity_weighted_accuracy` etc. of the classes that ``predict``
    ``"recall"``, ``"f1"``                      returns
    ``"roc_auc"``, ``"average_precision"``      `propensity_weighted_roc_auc`, `propensity_weighted_average_precision`
    ``"observed_log_likelihood"``               `observed_log_likelihood`, which rates class and propensity together
    ==========================================  ================================================================

    **Where the propensity comes from.** If you can, pass it as metadata, which scikit-learn splits into folds. Turn on
    metadata routing with ``sklearn.set_config(enable_metadata_routing=True)``, then call ``search.fit(X, s,
    propensity=e)`` or ``cross_validate(model, X, s, scoring=..., params={"propensity": e})``. The scorer requests the
    propensity by default. It requests weights only after ``set_score_request(sample_weight=True)``.

    If no propensity is passed, the scorer uses the model's own ``predict_propensity``. Such scores depend on the
    model's propensity, so they cannot be compared between models with different propensities. An exception is
    ``"observed_log_likelihood"``, which rates the propensity too. For ``permutation_importance``, pass the propensity:
    permuting a column would change the model's own propensity.

    **Not for** ``TunedThresholdClassifierCV``, which passes predicted classes to a scorer. Use
    ``make_scorer(function).set_score_request(propensity=True)`` there, for example with the function
    ``lambda s, d, propensity: float(propensity_weighted_f1(s, d, propensity=propensity))``.

    Parameters
    ----------
    metric : str
        Name of the score; see the table or `pu_scorer_names`.
    normalised, max_weight, class_prior
        See `propensity_weighted_log_loss`.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for models of this library, nor for 0/1, -1/+1 or booleans.

    Returns
    -------
    PUScorer

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD.

    Examples
    --------
    >>> from scarless import SAREMClassifier
    >>> from sklearn import config_context
    >>> from sklearn.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = rng.random(600) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> e = np.where(X[:, 1] > 0, 0.8, 0.2)
    >>> s = y & (rng.random(600) < e)
    >>> model = SAREMClassifier(propensity_attributes=[1])
    >>> with config_context(enable_metadata_routing=True):
    ...     search = GridSearchCV(model, {"C": [1e-4, 1.0]}, scoring=make_pu_scorer("neg_log_loss"))
    ...     search = search.fit(X, s, propensity=e)
    >>> search.best_params_
    {'C': 1.0}
    """
    scorer = PUScorer(
        metric, normalised=normalised, max_weight=max_weight, class_prior=class_prior, pos_label=pos_label
    )
    scorer._recipe()  # report a wrong name or option here, not from within a search
    check_options(Weighting(None, normalised, max_weight, class_prior, level=0.95))
    return scorer


def pu_scorer_names() -> tuple[str, ...]:
    """Return the names that `make_pu_scorer` accepts.

    Examples
    --------
    >>> pu_scorer_names()[:2]
    ('neg_log_loss', 'neg_brier_score')
    """
    return tuple(_RECIPES)
