"""Risks, scores and scorers for biased labels, with their bias, variance, bounds and confidence intervals.

All functions use the same names and scikit-learn's order of arguments:

``s`` (or ``y``), first
    Observed labels: 1 for labelled rows, 0 for unlabelled rows; -1/+1 and booleans are accepted too. A function that
    needs the true class instead calls it ``y``.
``y_pred``, second
    Predicted probabilities of the positive class. Scores of predicted classes accept classes too, and scores of
    rankings accept any numbers. If labels and predictions are passed in the wrong order, an error is raised, unless
    both have two values only.
``propensity``, by keyword
    ``e(x) = Pr(s=1 | y=1, x)`` in (0, 1]: one number (SCAR) or one per row.
``max_weight``, ``normalised``, ``class_prior``
    Each score replaces the class of a row by a target: ``s/e``, clipped at ``max_weight``; with ``normalised``, scaled
    so that the mean is the class prior. See `propensity_weighted_log_loss`.

Functions that compute an interval return a `Score`: the value, its standard error and its `Interval`.
"""

from scarless.metrics.intervals import corrected_bound, paper_bound, risk_interval
from scarless.metrics.risk import (
    effective_sample_size,
    expected_risk,
    propensity_weighted_risk,
    risk_bias,
    risk_variance,
    true_risk,
)
from scarless.metrics.score import Score
from scarless.metrics.scorers import PUScorer, make_pu_scorer, pu_scorer_names
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
from scarless.numerics.risk import Cost, get_cost
from scarless.numerics.uncertainty import Interval

__all__ = [
    "Cost",
    "Interval",
    "PUScorer",
    "Score",
    "corrected_bound",
    "effective_sample_size",
    "expected_risk",
    "get_cost",
    "make_pu_scorer",
    "observed_log_likelihood",
    "paper_bound",
    "propensity_weighted_accuracy",
    "propensity_weighted_average_precision",
    "propensity_weighted_brier_score",
    "propensity_weighted_f1",
    "propensity_weighted_log_loss",
    "propensity_weighted_precision",
    "propensity_weighted_recall",
    "propensity_weighted_risk",
    "propensity_weighted_roc_auc",
    "pu_scorer_names",
    "risk_bias",
    "risk_interval",
    "risk_variance",
    "true_risk",
]
