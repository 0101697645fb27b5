"""Risks and scores from biased labels: the estimates, their bias, variance, bounds and intervals; scorers.

Arguments come in scikit-learn's order, and are called the same everywhere:

``s`` (or ``y``), first
    Observed labels, 1 for labelled positives and 0 for all other rows; -1/+1 and booleans are taken too. Where a
    function asks for the true class instead, it is called ``y``.
``y_pred``, second
    Predictions of these rows: probabilities of the positive class; decisions, too, where decisions are scored, and any
    numbers that put rows in order where rankings are. Labels and predictions that are swapped are refused wherever it
    can be seen, that is unless both hold two values only.
``propensity``, by keyword
    ``e(x) = Pr(s=1 | y=1, x)`` in (0, 1]: one number (SCAR) or one per row.
``max_weight``, ``normalised``, ``class_prior``
    How labels stand in for the class: by weights ``s/e`` as they are, clipped at ``max_weight``, or normalised, that is
    scaled to add up to the class prior. `propensity_weighted_log_loss` says what each does.

What has an interval is returned as a `Score`: the value, its standard error, its `Interval`.
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
