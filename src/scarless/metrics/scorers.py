"""Scorers for ``GridSearchCV`` and ``cross_validate`` that need no negatives, and what they ask of a model."""

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

OBSERVED = "observed_log_likelihood"


class Answers(NamedTuple):
    """Labels as 0 and 1, predicted probabilities of the positive class and propensities of the same rows."""

    s: Vector
    f: Vector
    e: Vector


def coding_of(model: Any, pos_label: Any = None) -> LabelCoding:
    """Return which of a model's two classes is the positive one: as it was fitted, or by `pos_label`."""
    if pos_label is None:
        coding = getattr(innermost(model), "label_coding_", None)
        if isinstance(coding, LabelCoding):
            return coding
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise ValueError(
            f"{type(model).__name__} has no classes_; a fitted classifier of two classes is needed, "
            "e.g. SAREMClassifier().fit(X, s)."
        )
    return check_labels(classes, pos_label=pos_label)


def encode(coding: LabelCoding, y: Any) -> Vector:
    """Return observed labels as 0 and 1."""
    return check_vector(coding.encode(y), "y")


def class_probability(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return the predicted probability of the positive class."""
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} has no predict_proba, but probabilities are scored here. Take a model that has "
            "them, or score decisions or ranks: 'accuracy', 'f1', 'roc_auc'."
        )
    return np.asarray(model.predict_proba(X), dtype=np.float64)[:, coding.positive]


def decisions(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return 1 where the model predicts the positive class."""
    return (np.asarray(model.predict(X)) == coding.classes[coding.positive]).astype(np.float64)


def ranking(model: Any, X: Any, coding: LabelCoding) -> Vector:
    """Return numbers that are higher for rows more likely to be positive: probabilities, or else decision values."""
    if hasattr(model, "predict_proba") or not hasattr(model, "decision_function"):
        return class_probability(model, X, coding)
    values = np.asarray(model.decision_function(X), dtype=np.float64).reshape(-1)
    return values if coding.positive == 1 else -values


def own_propensity(model: Any, X: Any) -> Vector | None:
    """Return the propensity that a model predicts, also from inside a pipeline or a search; None if it has none."""
    if hasattr(model, "predict_propensity"):
        refuse_looks(
            model,
            "This measure",
            instead="Its predict_propensity is that of one look. Use model.score(X, S) and predict_posterior(X, S).",
        )
        return np.asarray(model.predict_propensity(X), dtype=np.float64)
    if isinstance(model, Pipeline):
        return own_propensity(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
    if hasattr(model, "best_estimator_"):
        return own_propensity(model.best_estimator_, X)
    return None


def answers_of(model: Any, X: Any, s: Any, propensity: Any, *, pos_label: Any, user: str) -> Answers:
    """Return probabilities, labels and propensities: those given, else the model's own, else an error."""
    coding, X = coding_of(model, pos_label), known_rows(X)
    f = class_probability(model, X, coding)
    labels = check_vector(encode(coding, named_values(X, s, labels=True)), "s", n_rows=f.size)
    e = own_propensity(model, X) if propensity is None else named_values(X, propensity)
    if e is None:
        raise ValueError(
            f"{user} needs the propensity of every row: pass propensity=, or a model with predict_propensity, such as "
            f"SAREMClassifier; {type(model).__name__} has none."
        )
    return Answers(labels, f, check_propensity(e, n_rows=f.size))


class _Recipe(NamedTuple):
    """How a score is made from a model: what is asked of it, the function, its sign and its options."""

    ask: Callable[[Any, Any, LabelCoding], Vector]
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
    OBSERVED: _Recipe(class_probability, observed_log_likelihood, 1.0, ()),
}


class PUScorer(BaseEstimator):
    r"""A score of the true class that needs labels and propensities only, as scikit-learn's ``scoring=`` takes it.

    Made by `make_pu_scorer`. Called as ``scorer(model, X, s, propensity=e)`` it returns one number, of which greater is
    better; `evaluate` returns it with its standard error.

    Parameters
    ----------
    metric : str
        One of `pu_scorer_names`.
    normalised, max_weight, class_prior
        As in `propensity_weighted_log_loss`.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for models of this library, which know it, and for 0/1,
        -1/+1 or booleans.

    Examples
    --------
    >>> PUScorer("roc_auc", max_weight=10)
    PUScorer(max_weight=10, metric='roc_auc')
    """

    # The scorer is made for propensities: they are routed to it whenever they are passed.
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
        """Return the score of a fitted model on rows and their observed labels; greater is better."""
        return self.score(estimator, X, y, propensity=propensity, sample_weight=sample_weight)

    def score(self, estimator: Any, X: Any, y: Any, *, propensity: Any = None, sample_weight: Any = None) -> float:
        """Return the score of a fitted model on rows and their observed labels; greater is better.

        Parameters
        ----------
        estimator : fitted classifier
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels, coded as in the model's `fit`.
        propensity : float or array of shape (n_rows,), optional
            Of these rows. None: the model's own, by ``predict_propensity``.
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        float
        """
        found = self.evaluate(estimator, X, y, propensity=propensity, sample_weight=sample_weight)
        if math.isnan(found.value):
            raise ValueError(
                f"{self.metric!r} is undefined on these rows, {found.n_labelled} of which are labelled and count: it "
                "needs positives (precision: rows predicted positive; ROC-AUC: negatives too), as many as labels and "
                "propensities say. Score more rows, or raise propensities that are too small, e.g. "
                "np.maximum(propensity, 0.01); evaluate returns NaN instead of this error."
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
        """Return the score with its standard error and interval; losses are positive here.

        Parameters
        ----------
        estimator, X, y, propensity, sample_weight
            As in `score`.
        level : float in (0, 1), default=0.95
            Of the interval.

        Returns
        -------
        Score
        """
        recipe = self._recipe()
        coding, X = coding_of(estimator, self.pos_label), known_rows(X)
        predicted = recipe.ask(estimator, X, coding)
        e = self._own_propensity(estimator, X, predicted.size) if propensity is None else named_values(X, propensity)
        labels, w = encode(coding, named_values(X, y, labels=True)), named_values(X, sample_weight)
        options = {name: getattr(self, name) for name in recipe.options}
        return recipe.function(labels, predicted, propensity=e, sample_weight=w, level=level, **options)

    def _recipe(self) -> _Recipe:
        recipe = _RECIPES[check_choice(self.metric, "metric", pu_scorer_names())]
        unused = [name for name in _RECIPES["roc_auc"].options if self._says(name) and name not in recipe.options]
        if unused:
            takes = ", ".join(recipe.options) or "no such option"
            raise ValueError(f"{self.metric!r} does not depend on {listed(unused)}; leave it out. It takes {takes}.")
        return recipe

    def _says(self, option: str) -> bool:
        """Whether an option is given; a flag that is off is none."""
        value = getattr(self, option)
        return value is not None if option != "normalised" else check_flag(value, option)

    def _own_propensity(self, estimator: Any, X: Any, n_rows: int) -> Vector:
        e = own_propensity(estimator, X)
        if e is not None:
            return e
        if self.metric == OBSERVED and getattr(estimator, "label_frequency_", None) == 1.0:
            return np.ones(n_rows)  # such a model says that all positives are labelled
        raise ValueError(
            f"{self!r} needs the propensity of every row: {type(estimator).__name__} has no predict_propensity, and "
            "none was passed. In a search or cross-validation pass it as metadata: "
            "sklearn.set_config(enable_metadata_routing=True), then cross_validate(..., params={'propensity': e}) "
            "or search.fit(X, s, propensity=e)."
        )

    @property
    def _score_func(self) -> Callable[..., float]:
        """Tell what TunedThresholdClassifierCV, which looks here for a function of decisions, can use instead."""
        raise AttributeError(
            f"{self!r} scores a model, not decisions, so that TunedThresholdClassifierCV cannot use it. Pass a scorer "
            "of decisions: make_scorer(lambda s, d, propensity: "
            "float(propensity_weighted_f1(s, d, propensity=propensity))).set_score_request(propensity=True)."
        )

    def _accept_sample_weight(self) -> bool:
        return True  # scikit-learn asks this where several scorers are used and metadata routing is off


def make_pu_scorer(
    metric: str,
    *,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
    pos_label: Any = None,
) -> PUScorer:
    r"""Make a scorer of the true class that needs labels and propensities only.

    ==========================================  ================================================================
    metric                                      score
    ==========================================  ================================================================
    ``"neg_log_loss"``, ``"neg_brier_score"``   minus `propensity_weighted_log_loss`, minus
                                                `propensity_weighted_brier_score`
    ``"accuracy"``, ``"precision"``,            `propensity_weighted_accuracy` and so on, of what ``predict``
    ``"recall"``, ``"f1"``                      says
    ``"roc_auc"``, ``"average_precision"``      `propensity_weighted_roc_auc`, `propensity_weighted_average_precision`
    ``"observed_log_likelihood"``               `observed_log_likelihood`: of class and propensity together
    ==========================================  ================================================================

    **Where the propensity comes from.** Best from you, as metadata that scikit-learn cuts into folds. It does so only
    where metadata routing is on: say ``sklearn.set_config(enable_metadata_routing=True)`` once, or work inside of
    ``with sklearn.config_context(enable_metadata_routing=True):``, then ``search.fit(X, s, propensity=e)`` or
    ``cross_validate(model, X, s, scoring=..., params={"propensity": e})``. The scorer asks for it by itself, and
    ``set_score_request(propensity=False)`` stops that; for weights say ``set_score_request(sample_weight=True)``. If
    none is passed, the model's own ``predict_propensity`` is used. Mind that the score then depends on what the model
    believes: one that takes every positive as labelled is judged as if that were so, and scores of models with
    different propensities cannot be compared. Only ``"observed_log_likelihood"`` can, since it judges the propensity
    too. ``permutation_importance`` changes rows, and with them a propensity that comes from the model: pass one there.

    **Not for** ``TunedThresholdClassifierCV``, which gives a scorer decisions where this one asks the model itself.
    There pass ``make_scorer(function).set_score_request(propensity=True)``, with a function of labels, decisions and
    propensity such as ``lambda s, d, propensity: float(propensity_weighted_f1(s, d, propensity=propensity))``.

    Parameters
    ----------
    metric : str
        See the table; `pu_scorer_names` lists them.
    normalised : bool, default=False
        Scale the weights (Hajek), as in `propensity_weighted_log_loss`.
    max_weight : float, optional
        Largest weight ``s/e``, as in `propensity_weighted_log_loss`.
    class_prior : float in (0, 1], optional
        Known ``Pr(y=1)``, with ``normalised=True``.
    pos_label : object, optional
        The value that marks a labelled positive, where the model does not know it and it is not 1.

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
    scorer._recipe()  # a wrong name or option is better told here than from within a search
    check_options(Weighting(None, normalised, max_weight, class_prior, level=0.95))
    return scorer


def pu_scorer_names() -> tuple[str, ...]:
    """Return the names that `make_pu_scorer` knows.

    Examples
    --------
    >>> pu_scorer_names()[:2]
    ('neg_log_loss', 'neg_brier_score')
    """
    return tuple(_RECIPES)
